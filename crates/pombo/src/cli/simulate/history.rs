//! Policies held against recorded retries.

use std::io::Read as _;
use std::path::Path;

use pombo_kernel::learn::{Counts, Curve, Row};
use pombo_kernel::policy::Policy;
use pombo_kernel::rehearsal::{Replayed, replay};
use pombo_kernel::time::Span;
use serde_json::{Value, json};

use super::super::out::{self, Table};
use super::super::{Shared, Trouble};
use super::{Simulate, adaptive};

pub(super) async fn run(
    source: &Path,
    args: &Simulate,
    policies: &[Policy],
    shared: &Shared,
) -> Result<(), Trouble> {
    let curve = match source.to_str() {
        Some("server") => {
            let learned = shared.client()?.get("/v1/learning").await?;
            of_document(&learned, args).map_err(|why| unreadable(source, why))?
        }
        _ => read(&text(source)?, args).map_err(|why| unreadable(source, why))?,
    };
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
    Trouble::new(format!("{} cannot be read", source.display()), "FILE_UNREADABLE").why(why)
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

/// What the API answered, or one row a line.
fn read(text: &str, args: &Simulate) -> Result<Curve, String> {
    if let Ok(document @ Value::Object(_)) = serde_json::from_str::<Value>(text)
        && document.get("curves").is_some()
    {
        return of_document(&document, args);
    }
    let mut curve = Curve::default();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |why: String| format!("line {}: {why}", number + 1);
        let value: Value = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        if !wanted(&value, args) {
            continue;
        }
        let row: Row = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
        curve.add(row.cell(), row.counts());
    }
    Ok(curve)
}

fn of_document(document: &Value, args: &Simulate) -> Result<Curve, String> {
    let curves = document["curves"].as_array().ok_or("there are no curves in it")?;
    let mut all = Curve::default();
    for one in curves.iter().filter(|one| wanted(one, args)) {
        let cells = serde_json::from_value::<Curve>(one["cells"].clone());
        all.merge(&cells.map_err(|error| format!("cells of a curve: {error}"))?);
    }
    Ok(all)
}

fn wanted(value: &Value, args: &Simulate) -> bool {
    let is = |key: &str, wanted: &Option<String>| {
        wanted.as_deref().is_none_or(|wanted| value[key].as_str() == Some(wanted))
    };
    is("category", &args.category) && is("channel", &args.channel)
}

fn print(policies: &[Policy], curve: &Curve, shared: &Shared) {
    let mut table = Table::new(["policy", "waits", "recovered", "half by", "nine of ten by", "wasted"]);
    for policy in policies {
        for (waits, policy) in [("fixed", policy.clone()), ("adaptive", adaptive(policy))] {
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
    let total = curve.total();
    out::line("");
    out::line(format!(
        "By {} recorded retries, {} of which passed. They only show the moments that were tried:",
        total.tried, total.passed
    ));
    out::line(
        "at worst trouble ended just before a retry found it gone, at best just after the retry before it.",
    );
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
