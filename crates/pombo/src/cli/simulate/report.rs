//! What came of it, as tables with a sketch of the load, and as JSON.

use pombo_kernel::name::PolicyName;
use pombo_kernel::rehearsal::{Act, Outcome, Played, Scenario, Verdict};
use pombo_kernel::time::Span;
use serde_json::{Value, json};

use super::super::Shared;
use super::super::out::{self, Paint, Table};

/// One policy on one scenario.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) policy: PolicyName,
    pub(super) played: Played,
}

pub(super) fn print(scenario: &Scenario, rows: &[Row], shared: &Shared) {
    if shared.json {
        return rows.iter().for_each(|row| out::object(&document(scenario, row)));
    }
    lines(scenario, rows, Paint::stdout()).iter().for_each(out::line);
}

fn lines(scenario: &Scenario, rows: &[Row], paint: Paint) -> Vec<String> {
    let mut lines = vec![format!("{}: {}", paint.bold(&scenario.name), scenario.says)];
    let mut table =
        Table::new(["policy", "waits", "recovered", "p50", "p90", "p99", "wasted", "against fixed", "load"])
            .painted(7, |paint, text| match text.trim_end() {
                "alike" | "worse" => paint.yellow(text),
                _ => paint.green(text),
            })
            .painted(8, Paint::cyan)
            .spare([8, 5, 4]);
    let busiest = |policy: &PolicyName| {
        rows.iter()
            .filter(|row| row.policy == *policy)
            .map(|row| row.played.outcome.peak())
            .max()
            .unwrap_or(0)
    };
    for row in rows {
        let Played { act, outcome, verdict } = &row.played;
        let time = |share| outcome.time_to(share).map_or_else(|| "–".to_owned(), rough);
        let first = *act == Act::Fixed;
        table.row([
            if first { row.policy.to_string() } else { String::new() },
            act.as_str().to_owned(),
            format!("{:.1} %", outcome.share() * 100.0),
            time(0.5),
            time(0.9),
            time(0.99),
            format!("{:.2}", outcome.wasted_each()),
            verdict.map_or("", Verdict::as_str).to_owned(),
            sketch(outcome, busiest(&row.policy)),
        ]);
    }
    lines.extend(table.lines_within(out::width().unwrap_or(usize::MAX), paint));
    let slot = rows.first().map_or(Span::ZERO, |row| row.played.outcome.slot);
    let failed = rows.first().map_or(0, |row| row.played.outcome.failed);
    lines.push(paint.dim(&format!(
        "{failed} messages failed at first; wasted: failed retries for each; load: attempts, {} a column",
        rough(slot)
    )));
    lines.push(String::new());
    lines
}

const COLUMNS: usize = 40;

/// Attempts over time, one column a slot; the same height means the same load for all rows of a policy.
fn sketch(outcome: &Outcome, busiest: u64) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |count: &u64| match (*count, busiest) {
        (0, _) | (_, 0) => ' ',
        (count, busiest) => {
            let height = (count * 8).div_ceil(busiest).clamp(1, 8);
            BARS[usize::try_from(height - 1).unwrap_or(0)]
        }
    };
    // The last slot is all that is later, which is no moment.
    outcome.load.iter().take(COLUMNS.min(outcome.load.len().saturating_sub(1))).map(bar).collect()
}

/// In its two largest units, from minutes on.
fn rough(span: Span) -> String {
    let unit = match span.millis() {
        86_400_000.. => 3_600_000,
        3_600_000.. => 60_000,
        1_000.. => 1_000,
        _ => 1,
    };
    Span::from_millis(span.millis() / unit * unit).to_string()
}

fn document(scenario: &Scenario, row: &Row) -> Value {
    let Played { act, outcome, verdict } = &row.played;
    let time = |share| outcome.time_to(share).map(Span::millis);
    json!({
        "scenario": scenario.name,
        "policy": row.policy,
        "waits": match act {
            Act::Fixed => "fixed",
            Act::New => "adaptive_new",
            Act::Taught => "adaptive",
        },
        "failed": outcome.failed,
        "recovered": outcome.recovered,
        "recovered_share": outcome.share(),
        "p50_ms": time(0.5),
        "p90_ms": time(0.9),
        "p99_ms": time(0.99),
        "retries": outcome.retries,
        "wasted": outcome.wasted,
        "wasted_each": outcome.wasted_each(),
        "wait_ms_min": outcome.waits.map(|(shortest, _)| shortest.millis()),
        "wait_ms_max": outcome.waits.map(|(_, longest)| longest.millis()),
        "against_fixed": verdict,
        "load": outcome.load,
        "load_slot_ms": outcome.slot.millis(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // REQ LN-2
    fn a_sketch_shows_where_the_load_is() {
        let scenario = Scenario::published("restart").unwrap();
        let policy = pombo_kernel::policy::Policy::claims();
        let episodes =
            pombo_kernel::rehearsal::episodes(&scenario, 100, &mut pombo_kernel::dice::Dice::seeded(1));
        let mut learning = pombo_kernel::rehearsal::Learning::from(Default::default());
        let mut dice = pombo_kernel::dice::Dice::seeded(1);
        let slot = Span::from_mins(1);
        let outcome = pombo_kernel::rehearsal::play(&policy, &episodes, slot, &mut learning, &mut dice);
        let sketch = sketch(&outcome, outcome.peak());
        assert_eq!(sketch.chars().count(), COLUMNS);
        assert!(sketch.contains('█') && sketch.contains(' '), "{sketch}");
        let played = Played { act: Act::Fixed, outcome, verdict: None };
        let row = Row { policy: policy.name, played };
        let printed = lines(&scenario, std::slice::from_ref(&row), Paint::PLAIN).join("\n");
        assert!(printed.starts_with("restart: down for about 10 min\nPOLICY"), "{printed}");
        assert!(printed.contains("claims") && printed.contains("100.0 %"), "{printed}");
        let document = document(&scenario, &row);
        assert_eq!((&document["waits"], &document["recovered_share"]), (&json!("fixed"), &json!(1.0)));
    }

    #[test]
    fn times_are_shown_in_two_units() {
        for (millis, shown) in [(750, "750ms"), (61_999, "1m1s"), (3_725_000, "1h2m"), (90_000_000, "1d1h")] {
            assert_eq!(rough(Span::from_millis(millis)), shown);
        }
    }
}
