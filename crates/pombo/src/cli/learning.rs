//! `pombo learning`: what retries have taught, and how long outages last.

use clap::Args;
use serde_json::{Value, json};
use url::form_urlencoded::Serializer;

use super::out::{self, Paint, Table};
use super::{Shared, Trouble};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  pombo learning\n  pombo learning --channel email --category timeout\n  pombo learning --channel email --json\n  pombo learning --channel email --rows > history.ndjson"
)]
pub(crate) struct Learning {
    /// Only of this channel
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// Only after failures of this category
    #[arg(long, value_name = "SLUG")]
    category: Option<String>,
    /// Only at this destination
    #[arg(long, value_name = "NAME")]
    destination: Option<String>,
    /// One JSON object a line for each counter, as `pombo simulate` reads history
    #[arg(long)]
    rows: bool,
}

pub(crate) async fn run(args: Learning, shared: &Shared) -> Result<(), Trouble> {
    let mut query = Serializer::new(String::new());
    let given = [
        ("channel", args.channel.as_deref()),
        ("category", args.category.as_deref()),
        ("destination", args.destination.as_deref()),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    let learnt = shared.client()?.get(&format!("/v1/learning?{}", query.finish())).await?;
    if args.rows {
        rows(&learnt).iter().for_each(out::object);
    } else if shared.json {
        out::document(&learnt);
    } else {
        lines(&learnt).iter().for_each(out::line);
    }
    Ok(())
}

/// Every cell of every curve, with the channel and the category that it belongs to.
fn rows(learnt: &Value) -> Vec<Value> {
    let cells = items(&learnt["curves"]).iter().flat_map(|curve| {
        items(&curve["cells"]).iter().map(move |cell| {
            let mut row = json!({"channel": curve["channel"], "category": curve["category"]});
            if let (Some(row), Some(cell)) = (row.as_object_mut(), cell.as_object()) {
                row.extend(cell.clone());
            }
            row
        })
    });
    cells.collect()
}

fn lines(learnt: &Value) -> Vec<String> {
    let (paint, room) = (Paint::stdout(), out::width().unwrap_or(usize::MAX));
    let mut lines = Vec::new();
    let curves = items(&learnt["curves"]);
    if curves.is_empty() {
        lines.push(format!("no retries since {}", out::field(learnt, "since")));
    }
    for curve in curves {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let title = format!("{}, after {}", text(&curve["channel"]), text(&curve["category"]));
        lines.push(format!("{}: {}", paint.bold(&title), chance(&curve["all"])));
        let mut table = Table::new(["retry", "chance", "95 %", "tried", "passed"]);
        for it in items(&curve["by_attempt"]) {
            table.row(row(format!("attempt {}", it["attempt"]), &it["estimate"]));
        }
        for it in items(&curve["by_wait"]) {
            let label = format!("after waiting {} to {}", text(&it["from"]), text(&it["to"]));
            table.row(row(label, &it["estimate"]));
        }
        for it in items(&curve["by_elapsed"]) {
            let label = format!("{} to {} after the first failure", text(&it["from"]), text(&it["to"]));
            table.row(row(label, &it["estimate"]));
        }
        lines.extend(table.lines_within(room, paint));
    }
    let outages = items(&learnt["outages"]);
    if !outages.is_empty() {
        lines.extend([String::new(), paint.bold("Outages")]);
        let mut table = Table::new(["channel", "destination", "lasted", "count"]).cut(1, 12);
        for of in outages {
            for it in items(&of["lasted"]) {
                let lasted = format!("{} to {}", text(&it["from"]), text(&it["to"]));
                table.row([text(&of["channel"]), text(&of["destination"]), lasted, it["count"].to_string()]);
            }
        }
        lines.extend(table.lines_within(room, paint));
    }
    lines
}

fn row(label: String, estimate: &Value) -> [String; 5] {
    let share = |name: &str| estimate[name].as_f64().map(|share| format!("{:.0} %", share * 100.0));
    let between = share("low").zip(share("high")).map(|(low, high)| format!("{low} to {high}"));
    [
        label,
        share("chance").unwrap_or_else(|| "too few".to_owned()),
        between.unwrap_or_default(),
        estimate["tried"].to_string(),
        estimate["passed"].to_string(),
    ]
}

/// In words.
fn chance(estimate: &Value) -> String {
    let tried = &estimate["tried"];
    match estimate["chance"].as_f64() {
        Some(chance) => format!("{:.0} % of {tried} retries passed", chance * 100.0),
        None => format!("{} of {tried} retries passed, too few to say more", estimate["passed"]),
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    out::tame(value.as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pombo_kernel::learn::Row;

    fn learnt() -> Value {
        json!({
            "since": "2026-09-24T00:00:00Z",
            "curves": [{
                "channel": "email", "category": "timeout",
                "all": {"basis": "counted", "tried": 40, "passed": 30, "chance": 0.75, "low": 0.6, "high": 0.86},
                "by_attempt": [{"attempt": 2, "estimate":
                    {"basis": "counted", "tried": 40, "passed": 30, "chance": 0.75, "low": 0.6, "high": 0.86}}],
                "by_wait": [{"from": "9s600ms", "to": "12s800ms", "estimate": {"basis": "too_few", "tried": 4, "passed": 3}}],
                "by_elapsed": [],
                "destinations": [],
                "cells": [{"attempt": 2, "wait": "9s600ms", "elapsed": "9s600ms", "tried": 40, "passed": 30}],
            }],
            "outages": [{"channel": "email", "destination": null, "count": 2,
                "lasted": [{"from": "13m39s200ms", "to": "20m28s800ms", "count": 2}]}],
        })
    }

    #[test] // REQ LN-1
    fn curves_are_shown_with_their_samples_and_what_is_too_little_says_so() {
        let shown = lines(&learnt());
        assert_eq!(shown[0], "email, after timeout: 75 % of 40 retries passed");
        assert!(
            shown.iter().any(|line| line.starts_with("attempt 2") && line.contains("60 % to 86 %")),
            "{shown:?}"
        );
        let few = shown.iter().find(|line| line.starts_with("after waiting")).unwrap();
        assert!(few.contains("9s600ms to 12s800ms") && few.contains("too few"), "{few}");
        assert!(shown.iter().any(|line| line.contains("13m39s200ms to 20m28s800ms")), "{shown:?}");
        let none = lines(&json!({"since": "2026-09-24T00:00:00Z", "curves": [], "outages": []}));
        assert_eq!(none, ["no retries since 2026-09-24T00:00:00Z"]);
    }

    #[test] // REQ LN-2
    fn rows_are_what_a_simulation_reads() {
        let rows = rows(&learnt());
        let row: Row = serde_json::from_value(rows[0].clone()).unwrap();
        assert_eq!(rows[0]["channel"], "email", "so that one channel can be asked for");
        assert_eq!((row.category.as_str(), row.attempt, row.tried, row.passed), ("timeout", 2, 40, 30));
    }
}
