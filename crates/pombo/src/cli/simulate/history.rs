//! Policies held against recorded retries.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;

use pombo_kernel::learn::{Cell, Counts, Curve, Row};
use pombo_kernel::policy::Policy;
use pombo_kernel::rehearsal::{Replayed, adaptive, fixed, replay};
use pombo_kernel::time::Span;
use serde_json::{Value, json};

use super::super::out::{self, Table};
use super::super::{Shared, Trouble};
use super::Simulate;
use crate::config::suggestion;

pub(super) async fn run(
    source: &Path,
    args: &Simulate,
    policies: &[Policy],
    shared: &Shared,
) -> Result<(), Trouble> {
    let found = match source.to_str() {
        Some("server") => of_document(&shared.client()?.get("/v1/learning").await?),
        _ => read(&text(source)?),
    };
    let found = found.map_err(|why| unreadable(source, why))?;
    let known = |wanted: Option<&String>, what: &str, side: fn(&Found) -> Option<&str>| match wanted {
        Some(wanted) if !found.iter().any(|it| side(it) == Some(wanted)) => {
            Err(nothing_of(what, wanted, &found, side))
        }
        _ => Ok(()),
    };
    known(args.channel.as_ref(), "channel", |it| it.channel.as_deref())?;
    known(args.category.as_ref(), "category", |it| it.category.as_deref())?;
    let is = |wanted: &Option<String>, it: &Option<String>| wanted.is_none() || wanted == it;
    let mut curve = Curve::default();
    for it in found.iter().filter(|it| is(&args.channel, &it.channel) && is(&args.category, &it.category)) {
        curve.merge(&it.curve);
    }
    let tried = curve.total().tried;
    if tried < Counts::ENOUGH {
        return Err(Trouble::new(
            format!("{tried} recorded retries are too few to say anything"),
            "HISTORY_TOO_SHORT",
        )
        .why(format!("at least {} are needed", Counts::ENOUGH))
        .hint("try a pretend outage instead, with --scenario"));
    }
    print(policies, &curve, shared);
    Ok(())
}

fn unreadable(source: &Path, why: String) -> Trouble {
    Trouble::new(format!("{} cannot be read", source.display()), "FILE_UNREADABLE")
        .why(why)
        .hint("a file holds what `pombo learning --json` prints, or `pombo learning --rows`")
}

/// Nobody has retried anything there: where then.
fn nothing_of(what: &str, wanted: &str, found: &[Found], side: fn(&Found) -> Option<&str>) -> Trouble {
    let known: BTreeSet<&str> = found.iter().filter_map(side).collect();
    let trouble =
        Trouble::new(format!("there are no recorded retries of {what} `{wanted}`"), "HISTORY_TOO_SHORT");
    match known.is_empty() {
        true => trouble.hint(format!("leave out --{what}: the record does not tell by it")),
        false => trouble.hint(suggestion(wanted, known)),
    }
}

fn text(source: &Path) -> Result<String, Trouble> {
    let mut text = String::new();
    let read = match source == Path::new("-") {
        true => std::io::stdin().lock().read_to_string(&mut text).map(drop),
        false => std::fs::read_to_string(source).map(|read| text = read),
    };
    read.map_err(|error| unreadable(source, error.to_string()))?;
    Ok(text)
}

/// Retries after failures of one category, as far as the record tells.
struct Found {
    channel: Option<String>,
    category: Option<String>,
    curve: Curve,
}

impl Found {
    fn of(value: &Value, curve: Curve) -> Found {
        let word = |key: &str| value[key].as_str().map(str::to_owned);
        Found { channel: word("channel"), category: word("category"), curve }
    }
}

/// What the API answered, or one row a line.
fn read(text: &str) -> Result<Vec<Found>, String> {
    if let Ok(document @ Value::Object(_)) = serde_json::from_str::<Value>(text)
        && document.get("tried").is_none()
    {
        return of_document(&document);
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(number, line)| of_line(line).map_err(|why| format!("line {}: {why}", number + 1))).collect()
}

fn of_line(line: &str) -> Result<Found, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let row: Row = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
    if row.passed > row.tried {
        return Err("more passed than were tried".into());
    }
    if row.attempt < *Cell::ATTEMPTS.start() {
        return Err("a retry is attempt 2 or a later one".into());
    }
    Ok(Found::of(&value, [(row.cell(), row.counts())].into_iter().collect()))
}

fn of_document(document: &Value) -> Result<Vec<Found>, String> {
    let curves = document["curves"].as_array().ok_or("there are no curves in it")?;
    let found = curves.iter().map(|one| {
        let cells = serde_json::from_value::<Curve>(one["cells"].clone());
        Ok(Found::of(one, cells.map_err(|error| format!("cells of a curve: {error}"))?))
    });
    found.collect()
}

fn print(policies: &[Policy], curve: &Curve, shared: &Shared) {
    let mut table = Table::new(["policy", "waits", "recovered", "half by", "nine of ten by", "wasted"]);
    for policy in policies {
        for (waits, policy) in [("fixed", fixed(policy)), ("adaptive", adaptive(policy))] {
            let Some(replayed) = replay(&policy, curve) else { continue };
            if shared.json {
                out::object(&json!({"policy": policy.name, "waits": waits, "replayed": replayed}));
                continue;
            }
            table.row(cells(&policy, waits, &replayed));
        }
    }
    if shared.json {
        return;
    }
    table.print();
    out::line("");
    for line in said(curve.total()) {
        out::line(line);
    }
}

/// What the figures go by, and why there are two of each.
fn said(total: Counts) -> [String; 4] {
    let Counts { tried, passed } = total;
    [
        format!("By {tried} recorded retries, {passed} of which passed; each figure from its least to its most, – is never."),
        "A record only shows the moments that were tried. At worst trouble ended just before a retry found it gone,".into(),
        "and never for messages that were given up; at best just after the retry before it, and at once for those.".into(),
        "wasted: failed retries for each message that failed at first".into(),
    ]
}

fn cells(policy: &Policy, waits: &str, replayed: &Replayed) -> [String; 6] {
    let Replayed { worst, best, .. } = replayed;
    let share = |share: f64| format!("{:.0}", share * 100.0);
    let time = |time: Option<Span>| time.map_or_else(|| "–".to_owned(), |time| time.to_string());
    let range = |from: String, to: String| if from == to { from } else { format!("{from} to {to}") };
    [
        if waits == "fixed" { policy.name.to_string() } else { String::new() },
        waits.to_owned(),
        format!("{} %", range(share(worst.recovered), share(best.recovered))),
        range(time(best.median), time(worst.median)),
        range(time(best.p90), time(worst.p90)),
        range(format!("{:.2}", best.wasted_each), format!("{:.2}", worst.wasted_each)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = r#"{"channel": "email", "category": "timeout", "attempt": 2, "wait": "4s", "elapsed": "4s", "tried": 30, "passed": 21}"#;

    #[test] // REQ LN-2
    fn a_record_is_read_as_the_api_answers_it_and_row_by_row() {
        let cell = r#"{"attempt": 2, "wait": "4s", "elapsed": "4s", "tried": 30, "passed": 21}"#;
        let document =
            format!(r#"{{"curves": [{{"channel": "email", "category": "timeout", "cells": [{cell}]}}]}}"#);
        for text in [document.as_str(), ROW, &format!("{ROW}\n\n{ROW}")] {
            let found = read(text).unwrap();
            assert_eq!(found[0].curve.total(), Counts { tried: 30, passed: 21 }, "{text}");
            assert_eq!(found[0].channel.as_deref(), Some("email"));
            assert_eq!(found[0].category.as_deref(), Some("timeout"));
        }
    }

    #[test] // REQ LN-2
    fn a_record_that_cannot_be_says_where() {
        for (text, why) in [
            ("hello", "line 1: expected value"),
            (r#"{"curves": 5}"#, "there are no curves in it"),
            ("{\n \"code\": \"UNAUTHORIZED\"\n}", "there are no curves in it"),
            (&ROW.replace("21", "31"), "line 1: more passed than were tried"),
            (
                &format!("{ROW}\n{}", ROW.replace("\"attempt\": 2", "\"attempt\": 1")),
                "line 2: a retry is attempt 2",
            ),
        ] {
            let wrong = read(text).err().unwrap_or_default();
            assert!(wrong.starts_with(why), "{text}: {wrong}");
        }
    }

    #[test]
    fn whoever_asks_for_something_that_is_not_there_is_told_what_is() {
        let found = read(ROW).unwrap();
        let said = nothing_of("channel", "emial", &found, |it| it.channel.as_deref());
        let said = format!("{said:?}");
        assert!(said.contains("of channel `emial`") && said.contains("did you mean `email`?"), "{said}");
        let old = read(&ROW.replace("\"channel\"", "\"canal\"")).unwrap();
        let said = nothing_of("channel", "email", &old, |it| it.channel.as_deref());
        let said = format!("{said:?}");
        assert!(said.contains("leave out --channel"), "{said}");
    }
}
