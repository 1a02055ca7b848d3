//! `pombo policy`: what a policy says, and what it means in time.

use clap::{Args, Subcommand};
use pombo_kernel::adapt::Adaptive;
use pombo_kernel::backoff::{Step, schedule};
use pombo_kernel::name::PolicyName;
use pombo_kernel::policy::{Delays, Policy};
use pombo_kernel::time::Span;
use serde_json::json;

use super::out::{self, Paint, Table};
use super::{ConfigArgs, Shared, Trouble};
use crate::config::{Config, Needs, suggestion};

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// A policy's values; without a name, all policies
    Show(Show),
    /// The schedule of a policy as a table and a sketch
    ///
    /// Every retry with its shortest and longest wait, and how long after the first attempt it comes. Nothing
    /// is sent and no server is asked.
    #[command(after_help = "Examples:\n  pombo policy preview smtp\n  pombo policy preview claims --json")]
    Preview(Preview),
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// A policy's name, such as whatsapp, smtp, resend, claims or webhook
    name: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Preview {
    /// A policy's name, such as whatsapp, smtp, resend, claims or webhook
    name: String,
    #[command(flatten)]
    config: ConfigArgs,
}

pub(crate) fn run(verb: Verb, shared: &Shared) -> Result<(), Trouble> {
    match verb {
        Verb::Show(Show { name, config }) => {
            let config = config.load_for(Needs::Rules)?;
            match name {
                Some(name) => show(find(&config, &name)?, shared),
                None => show_all(&config, shared),
            }
        }
        Verb::Preview(Preview { name, config }) => {
            let config = config.load_for(Needs::Rules)?;
            let policy = find(&config, &name)?;
            if shared.json {
                out::document(&preview_document(policy));
            } else {
                preview_lines(policy, Paint::stdout()).iter().for_each(out::line);
            }
        }
    }
    Ok(())
}

pub(crate) fn find<'a>(config: &'a Config, name: &str) -> Result<&'a Policy, Trouble> {
    config.policy(name).ok_or_else(|| {
        Trouble::new(format!("there is no policy `{name}`"), "POLICY_NOT_FOUND")
            .hint(suggestion(name, config.policies.keys().map(PolicyName::as_str)))
    })
}

fn show_all(config: &Config, shared: &Shared) {
    if shared.json {
        return config.policies.values().for_each(|policy| out::object(&document(policy)));
    }
    let mut table = Table::new(["policy", "attempts", "waits", "in all at most"]);
    for policy in config.policies.values() {
        let longest = rough(policy.longest());
        table.row([policy.name.to_string(), policy.attempts.to_string(), waits(policy), longest]);
    }
    table.print();
}

fn show(policy: &Policy, shared: &Shared) {
    if shared.json {
        return out::document(&document(policy));
    }
    let expires = policy.expires_after.map_or_else(|| "never".to_owned(), |span| format!("after {span}"));
    let adaptive = match policy.adaptive {
        Adaptive::Off => "no",
        Adaptive::Advice => "advice only",
        Adaptive::On => "yes, within these bounds",
    };
    for (what, value) in [
        ("policy", policy.name.to_string()),
        ("attempts", format!("{} in all", policy.attempts)),
        ("waits", waits(policy)),
        ("floor", policy.floor.to_string()),
        ("cap", policy.cap.to_string()),
        ("max_hint", format!("{}, when a provider asks for a wait", policy.max_hint)),
        ("expires", expires),
        ("adaptive", adaptive.to_owned()),
    ] {
        out::line(format!("{} {value}", Paint::stdout().dim(&format!("{what:<9}"))));
    }
}

fn document(policy: &Policy) -> serde_json::Value {
    let (delays, base) = match &policy.delays {
        Delays::Listed(list) => (Some(list), None),
        Delays::Doubling { base } => (None, Some(base)),
    };
    json!({
        "name": policy.name,
        "attempts": policy.attempts,
        "delays": delays,
        "base": base,
        "floor": policy.floor,
        "cap": policy.cap,
        "jitter": policy.jitter,
        "max_hint": policy.max_hint,
        "expires_after": policy.expires_after,
        "adaptive": policy.adaptive,
    })
}

/// `5s, 30s, 5m`, or `1s doubling up to 5m ±25 %`.
fn waits(policy: &Policy) -> String {
    let jitter = match policy.jitter {
        none if none <= 0.0 => String::new(),
        share => format!(" ±{} %", (share * 1_000.0).round() / 10.0),
    };
    match &policy.delays {
        Delays::Listed(list) => {
            let listed: Vec<String> = list.iter().map(Span::to_string).collect();
            format!("{}{jitter}", if listed.is_empty() { "none".to_owned() } else { listed.join(", ") })
        }
        Delays::Doubling { base } => format!("{base} doubling up to {}{jitter}", policy.cap),
    }
}

fn preview_document(policy: &Policy) -> serde_json::Value {
    let steps = schedule(policy);
    let total = steps.last().map_or((Span::ZERO, Span::ZERO), |step| (step.earliest, step.latest));
    let schedule = steps.iter().map(|step| {
        json!({
            "attempt": step.number,
            "wait_ms": step.nominal.millis(),
            "wait_ms_min": step.shortest.millis(),
            "wait_ms_max": step.longest.millis(),
            "after_ms_min": step.earliest.millis(),
            "after_ms_max": step.latest.millis(),
        })
    });
    json!({
        "policy": document(policy),
        "schedule": schedule.collect::<Vec<_>>(),
        "total_ms_min": total.0.millis(),
        "total_ms_max": total.1.millis(),
    })
}

fn preview_lines(policy: &Policy, paint: Paint) -> Vec<String> {
    let steps = schedule(policy);
    let mut lines = vec![
        format!("{}: {} attempts, {}", paint.bold(policy.name.as_str()), policy.attempts, waits(policy)),
        String::new(),
    ];
    let mut table = Table::new(["attempt", "waits", "at least", "at most", "after the first"]);
    table.row(["1".into(), String::new(), String::new(), String::new(), "0s".into()]);
    for step in &steps {
        table.row([
            step.number.to_string(),
            rough(step.nominal),
            rough(step.shortest),
            rough(step.longest),
            range(step.earliest, step.latest),
        ]);
    }
    lines.extend(table.lines(paint));
    lines.push(String::new());
    lines.extend(sketch(&steps, paint));
    let end = steps.last().map_or_else(|| "0s".to_owned(), |step| range(step.earliest, step.latest));
    lines.push(format!("Always failing: a dead letter after {end}, besides the attempts."));
    lines.push(format!("A provider that asks for a longer wait gets it, up to {}.", policy.max_hint));
    if let Some(expiry) = policy.expires_after {
        lines.push(format!("A message that is still unsent {expiry} after it was accepted is given up."));
    }
    lines
}

fn range(from: Span, to: Span) -> String {
    if from == to { rough(from) } else { format!("{} – {}", rough(from), rough(to)) }
}

/// A length of time in its two largest units: what nobody can plan with is left out.
fn rough(span: Span) -> String {
    let units = [86_400_000, 3_600_000, 60_000, 1_000, 1];
    let largest = units.iter().position(|unit| span.millis() >= *unit).unwrap_or(0);
    let smallest = units.get(largest + 1).copied().unwrap_or(1);
    Span::from_millis(span.millis() / smallest * smallest).to_string()
}

const SKETCH_COLUMNS: u64 = 60;

/// When each attempt can come, on one scale of time: a point where it is certain, a bar where it swings.
fn sketch(steps: &[Step], paint: Paint) -> Vec<String> {
    let Some(end) = steps.last().map(|step| step.latest).filter(|end| *end > Span::ZERO) else {
        return Vec::new();
    };
    let column = |span: Span| {
        let place = u128::from(span.millis()) * u128::from(SKETCH_COLUMNS) / u128::from(end.millis());
        usize::try_from(place).unwrap_or(0)
    };
    let row = |number: u16, from: usize, to: usize| {
        let bar = match to - from {
            0 => "●".to_owned(),
            width => format!("├{}┤", "─".repeat(width - 1)),
        };
        format!("{number:>7}  {}{}", " ".repeat(from), paint.cyan(&bar))
    };
    let columns = usize::try_from(SKETCH_COLUMNS).unwrap_or(0);
    let mut lines = vec![row(1, 0, 0)];
    lines.extend(steps.iter().map(|step| row(step.number, column(step.earliest), column(step.latest))));
    let end = rough(end);
    let gap = (columns + 1).saturating_sub(2 + end.chars().count());
    lines.push(paint.dim(&format!("         0s{}{end}", " ".repeat(gap))));
    lines.push(String::new());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use pombo_kernel::policy::Profile;

    fn preview(name: &str) -> String {
        preview_lines(&Policy::built_in(name, Profile::Production).unwrap(), Paint::PLAIN).join("\n")
    }

    #[test] // REQ RP-1
    fn the_smtp_schedule_is_drawn_with_its_jitter() {
        assert_eq!(preview("smtp"), include_str!("golden/policy-smtp.txt").trim_end());
    }

    #[test] // REQ RP-2
    fn the_claims_schedule_takes_two_to_three_hours() {
        assert_eq!(preview("claims"), include_str!("golden/policy-claims.txt").trim_end());
    }

    #[test] // REQ RP-1
    fn the_whatsapp_schedule_has_no_jitter() {
        assert_eq!(preview("whatsapp"), include_str!("golden/policy-whatsapp.txt").trim_end());
    }

    #[test]
    fn a_policy_without_retries_is_a_single_point() {
        let mut policy = Policy::built_in("whatsapp", Profile::Production).unwrap();
        policy.attempts = 1;
        assert!(
            preview_lines(&policy, Paint::PLAIN).iter().any(|line| line.contains("dead letter after 0s"))
        );
    }

    #[test]
    fn the_document_has_the_same_numbers() {
        let document = preview_document(&Policy::built_in("smtp", Profile::Production).unwrap());
        assert_eq!(document["schedule"][0]["wait_ms_min"], 750);
        assert_eq!(document["total_ms_max"], 18_750);
    }
}
