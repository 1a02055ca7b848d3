//! `pombo alerts`: what is wrong, who is told, and who looks after it.

use clap::Subcommand;
use pombo_kernel::alert::{Language, Unit, shown};
use pombo_kernel::time::Span;
use serde_json::{Value, json};

use super::out::{self, Paint, Table};
use super::{Shared, Trouble};
use crate::client::{Client, Payload};

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List what is wrong; with --all also what was
    #[command(after_help = "Examples:
  pombo alerts list
  pombo alerts list --all --rule failure_rate")]
    List {
        /// Also those that are over, the newest first
        #[arg(long)]
        all: bool,
        /// Only of this rule
        #[arg(long, value_name = "NAME")]
        rule: Option<String>,
        /// Only about this channel
        #[arg(long, value_name = "NAME")]
        channel: Option<String>,
        /// Most alerts to list
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
        limit: u16,
    },
    /// Show one alert, with what people were told of it
    Show {
        /// The alert's id: alr_…
        id: String,
    },
    /// Say that you look after it: nobody is reminded any more
    #[command(after_help = "Example:\n  pombo alerts ack alr_… --note 'the provider knows'")]
    Ack {
        /// The alert's id: alr_…
        id: String,
        /// What is known, or done about it
        #[arg(long)]
        note: Option<String>,
    },
    /// Tell nobody anything of it for a while, also if it ends and comes back
    #[command(after_help = "Example:\n  pombo alerts silence alr_… --for 2h --note maintenance")]
    Silence {
        /// The alert's id: alr_…
        id: String,
        /// For how long, for example 2h; at most 30d
        #[arg(long = "for", value_name = "SPAN", value_parser = length)]
        span: Span,
        /// Why
        #[arg(long)]
        note: Option<String>,
    },
    /// Tell people again
    Unsilence {
        /// The alert's id: alr_…
        id: String,
    },
    /// List the rules: from when on something is wrong, and who is told
    Rules,
    /// Send a notice that means nothing, to see that it arrives
    #[command(after_help = "Examples:\n  pombo alerts test\n  pombo alerts test ops")]
    Test {
        /// The name of a notice; all of them without it
        notice: Option<String>,
    },
}

/// A length of time as it is typed.
fn length(text: &str) -> Result<Span, String> {
    let hint = "write a number and its unit without a space, for example 30m, 2h or 1d";
    text.parse().map_err(|_| format!("not a length of time; {hint}"))
}

pub(crate) async fn run(verb: Verb, shared: &Shared) -> Result<(), Trouble> {
    let client = shared.client()?;
    let (document, done) = match verb {
        Verb::List { all, rule, channel, limit } => {
            let state = if all { "all" } else { "firing" };
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            query.append_pair("state", state).append_pair("limit", &limit.to_string());
            for (name, value) in [("rule", &rule), ("channel", &channel)] {
                if let Some(value) = value {
                    query.append_pair(name, value);
                }
            }
            return list(&client, &query.finish(), shared).await;
        }
        Verb::Show { id } => {
            let found = client.get(&at(&id, "")).await?;
            if shared.json {
                out::document(&found);
            } else {
                show(&found);
            }
            return Ok(());
        }
        Verb::Rules => return rules(&client, shared).await,
        Verb::Ack { id, note } => {
            let wish = Payload::json(&json!({ "note": note }));
            (client.post(&at(&id, "/acknowledge"), wish).await?, format!("{id} is acknowledged"))
        }
        Verb::Silence { id, span, note } => {
            let wish = Payload::json(&json!({ "for": span, "note": note }));
            let silenced = client.post(&at(&id, "/silence"), wish).await?;
            let until = silenced["silenced"]["until"].as_str().unwrap_or_default();
            let done = format!("{id} is silent until {until}");
            (silenced, done)
        }
        Verb::Unsilence { id } => {
            (client.post(&at(&id, "/unsilence"), Payload::default()).await?, format!("{id} is told again"))
        }
        Verb::Test { notice } => {
            let sent = client.post("/v1/alerts/test", Payload::json(&json!({ "notice": notice }))).await?;
            let names = sent["notices"].as_array().into_iter().flatten();
            let names: Vec<_> = names.filter_map(|it| it["to"].as_str()).collect();
            let done = format!("a test is on its way to {}", names.join(", "));
            (sent, done)
        }
    };
    if shared.json {
        out::document(&document);
    } else {
        out::line(done);
    }
    Ok(())
}

fn at(id: &str, verb: &str) -> String {
    let id: String = url::form_urlencoded::byte_serialize(id.as_bytes()).collect();
    format!("/v1/alerts/{id}{verb}")
}

async fn list(client: &Client, query: &str, shared: &Shared) -> Result<(), Trouble> {
    let page = client.get(&format!("/v1/alerts?{query}")).await?;
    let items = page["items"].as_array().cloned().unwrap_or_default();
    if shared.json {
        items.iter().for_each(out::object);
        return Ok(());
    }
    let headings = ["id", "severity", "state", "since", "what is wrong", "answered"];
    let mut table = Table::new(headings).painted(1, severity).painted(2, state).cut(4, 30).spare([3, 5]);
    for item in &items {
        let answered = match (item["silenced"].is_object(), item["acknowledged"]["by"].as_str()) {
            (true, _) => "silent".to_owned(),
            (false, Some(by)) => format!("by {by}"),
            (false, None) => String::new(),
        };
        let [id, severity, state, since, summary] =
            ["id", "severity", "state", "first_seen", "summary"].map(|key| out::field(item, key));
        table.row([id, severity, state, since, summary, answered]);
    }
    match table.is_empty() {
        true => out::note("nothing is wrong"),
        false => table.print(),
    }
    Ok(())
}

async fn rules(client: &Client, shared: &Shared) -> Result<(), Trouble> {
    let page = client.get("/v1/alerts/rules").await?;
    let items = page["items"].as_array().cloned().unwrap_or_default();
    if shared.json {
        items.iter().for_each(out::object);
        return Ok(());
    }
    let headings = ["rule", "severity", "above", "over at", "window", "for", "told"];
    let mut table = Table::new(headings).painted(1, severity).spare([3, 5]);
    for item in &items {
        let number = |key: &str| amount(item, key);
        let told = match item["enabled"].as_bool() {
            Some(true) => out::fields(item, "notify"),
            _ => "switched off".to_owned(),
        };
        let [rule, severity, window, hold] =
            ["rule", "severity", "window", "for"].map(|key| out::field(item, key));
        table.row([rule, severity, number("above"), number("resolve_at"), window, hold, told]);
    }
    table.print();
    Ok(())
}

fn show(alert: &Value) {
    let paint = Paint::stdout();
    out::line(paint.bold(&out::tame(&out::field(alert, "summary"))));
    let of = alert["of"].as_u64().map(|of| format!(" of {of}")).unwrap_or_default();
    let acknowledged = &alert["acknowledged"];
    let silenced = &alert["silenced"];
    let said = |words: String, note: &Value| match note.as_str() {
        Some(note) => format!("{words}: {note}"),
        None => words,
    };
    let rows = [
        ("id", out::field(alert, "id")),
        ("rule", out::field(alert, "rule")),
        ("severity", severity(paint, &out::field(alert, "severity"))),
        ("state", state(paint, &out::field(alert, "state"))),
        ("channel", out::field(alert, "channel")),
        ("about", out::field(alert, "about")),
        (
            "value",
            format!(
                "{} (above {}; highest {})",
                amount(alert, "value"),
                amount(alert, "above"),
                amount(alert, "peak")
            ),
        ),
        ("count", format!("{}{of}", alert["count"])),
        ("window", out::field(alert, "window")),
        ("first seen", out::field(alert, "first_seen")),
        ("last seen", out::field(alert, "last_seen")),
        ("resolved", out::field(alert, "resolved_at")),
        (
            "answered",
            match acknowledged["by"].as_str() {
                Some(by) => {
                    said(format!("by {by} at {}", out::field(acknowledged, "at")), &acknowledged["note"])
                }
                None => String::new(),
            },
        ),
        (
            "silent",
            match silenced["until"].as_str() {
                Some(until) => {
                    said(format!("until {until} by {}", out::field(silenced, "by")), &silenced["note"])
                }
                None => String::new(),
            },
        ),
        ("link", out::field(alert, "link")),
    ];
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        out::line(format!("{} {value}", paint.dim(&format!("{name:<12}"))));
    }
    for sample in alert["samples"].as_array().into_iter().flatten() {
        let text =
            format!("{} ×{} {}", out::field(sample, "what"), sample["count"], out::field(sample, "text"));
        let message = sample["message"].as_str().map(|id| format!(" ({id})")).unwrap_or_default();
        out::line(format!("{} {}{message}", paint.dim("sample      "), out::tame(&text)));
    }
    for notice in alert["notices"].as_array().into_iter().flatten() {
        let (to, via) = (out::field(notice, "to"), out::field(notice, "via"));
        let via = if via.is_empty() || via == to { String::new() } else { format!(" through {via}") };
        let why = notice["why"].as_str().map(|why| format!(": {why}")).unwrap_or_default();
        let text =
            format!("{} {} to {to}{via}{why}", out::field(notice, "created_at"), out::field(notice, "state"));
        out::line(format!("{} {}", paint.dim("notice      "), out::tame(&text)));
    }
}

/// A number in the unit of its rule.
fn amount(item: &Value, key: &str) -> String {
    let unit = match item["unit"].as_str() {
        Some("share") => Unit::Share,
        Some("time") => Unit::Time,
        Some("deviations") => Unit::Deviations,
        Some("megabytes") => Unit::Megabytes,
        _ => Unit::Count,
    };
    item[key].as_f64().map(|value| shown(unit, value, Language::En)).unwrap_or_default()
}

fn severity(paint: Paint, text: &str) -> String {
    match text.trim_end() {
        "critical" => paint.red(text),
        "warning" => paint.yellow(text),
        _ => paint.dim(text),
    }
}

fn state(paint: Paint, text: &str) -> String {
    if text.trim_end() == "firing" { paint.red(text) } else { paint.green(text) }
}
