//! `pombo operations`: work on many messages, followed to its end.

use std::io::IsTerminal;
use std::time::Duration;

use clap::Subcommand;
use http::Method;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use super::out::{self, Paint, Table};
use super::{Shared, Trouble};
use crate::client::{Client, ClientError, Payload};

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List operations, the newest first
    List {
        /// Most operations to list
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
        limit: u16,
    },
    /// Show one operation
    Show {
        /// The operation's id: opr_…
        id: String,
    },
    /// Follow an operation to its end; Ctrl-C leaves it running
    #[command(after_help = "Exit 0 if it was done, 1 if it halted or was cancelled.

Example:
  pombo operations watch opr_0197a4c1d2e3f405162738495a6b7c8d")]
    Watch {
        /// The operation's id: opr_…
        id: String,
    },
    /// End an operation; what it did stays done
    Cancel {
        /// The operation's id: opr_…
        id: String,
    },
}

pub(crate) async fn run(verb: Verb, shared: &Shared) -> Result<(), Trouble> {
    let client = shared.client()?;
    match verb {
        Verb::List { limit } => {
            let page = client.get(&format!("/v1/operations?limit={limit}")).await?;
            let items = page["items"].as_array().cloned().unwrap_or_default();
            if shared.json {
                items.iter().for_each(out::object);
            } else {
                list(&items);
            }
            Ok(())
        }
        Verb::Show { id } => {
            let operation = client.get(&path(&id)).await?;
            show(&operation, shared);
            Ok(())
        }
        Verb::Watch { id } => follow(&client, &id, shared).await,
        Verb::Cancel { id } => {
            let operation = client.post(&format!("{}/cancel", path(&id)), Payload::default()).await?;
            if shared.json {
                out::document(&operation);
            } else {
                out::line(format!("{id} cancelled: {}", progress(&operation)));
            }
            Ok(())
        }
    }
}

fn path(id: &str) -> String {
    let id: String = url::form_urlencoded::byte_serialize(id.as_bytes()).collect();
    format!("/v1/operations/{id}")
}

/// From one look to the next, and how long a server may be away meanwhile.
const LOOK: Duration = Duration::from_millis(300);
const LOOKS_WITHOUT_ANSWER: u32 = 200;

/// Follows an operation to its end. Whoever interrupts it leaves it running, and is told how to come back.
pub(crate) async fn follow(client: &Client, id: &str, shared: &Shared) -> Result<(), Trouble> {
    let bar = Bar::new(shared.json);
    let ended = tokio::select! {
        ended = ended(client, id, &bar) => ended,
        _ = tokio::signal::ctrl_c() => {
            bar.clear();
            out::note(format!(
                "the operation goes on; follow it with `pombo operations watch {id}`, or end it with \
                 `pombo operations cancel {id}`"
            ));
            return Ok(());
        }
    };
    bar.clear();
    let operation = ended?;
    show(&operation, shared);
    match word(&operation, "state") {
        "done" => Ok(()),
        _ => Err(Trouble::told()),
    }
}

/// Waits until an operation has ended; it as it is then.
pub(crate) async fn ended(client: &Client, id: &str, bar: &Bar) -> Result<Value, ClientError> {
    let mut unanswered = 0;
    loop {
        match client.get(&path(id)).await {
            Ok(operation) if word(&operation, "state") != "running" => return Ok(operation),
            Ok(operation) => {
                unanswered = 0;
                bar.tell(&operation);
            }
            // Nodes come and go; the operation stays.
            Err(ClientError::Unreachable { .. }) if unanswered < LOOKS_WITHOUT_ANSWER => unanswered += 1,
            Err(error) => return Err(error),
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// A bar on a terminal, else nothing.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    pub(crate) fn new(quiet: bool) -> Bar {
        if quiet || !std::io::stderr().is_terminal() {
            return Bar(ProgressBar::hidden());
        }
        let bar = ProgressBar::new_spinner();
        bar.set_draw_target(ProgressDrawTarget::stderr());
        Bar(bar)
    }

    fn tell(&self, operation: &Value) {
        let past = number(operation, "done") + number(operation, "skipped");
        let template = match operation["total"].as_u64() {
            Some(total) => {
                self.0.set_length(total);
                "{bar:20.cyan/dim} {pos}/{len} · {wide_msg}"
            }
            None => "{spinner} {pos} · {wide_msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.0.set_style(style);
        }
        self.0.set_position(past);
        let rate = operation["rate_per_minute"].as_u64();
        self.0.set_message(match (word(operation, "stage"), rate) {
            ("canary" | "watching", _) => {
                format!("waiting for the first {} to arrive", number(operation, "canary"))
            }
            ("probing", _) => "asking the provider".to_owned(),
            (_, Some(rate)) => format!("{rate} a minute"),
            _ => String::new(),
        });
    }

    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

fn list(items: &[Value]) {
    let mut table = Table::new(["id", "kind", "state", "progress", "started", "by", "about"])
        .painted(2, state_paint)
        .cut(6, 20)
        .spare([5, 4]);
    for item in items {
        table.row([
            word(item, "id").to_owned(),
            word(item, "kind").to_owned(),
            word(item, "state").to_owned(),
            progress(item),
            word(item, "created_at").to_owned(),
            word(item, "by").to_owned(),
            about(item),
        ]);
    }
    match table.is_empty() {
        true => out::note("no operation yet"),
        false => table.print(),
    }
}

fn show(operation: &Value, shared: &Shared) {
    if shared.json {
        return out::document(operation);
    }
    let paint = Paint::stdout();
    out::line(paint.bold(word(operation, "id")));
    let say = |what: &str, value: String| {
        if !value.is_empty() {
            out::line(format!("{} {value}", paint.dim(&format!("  {what:<10}"))));
        }
    };
    let text = |name: &str| word(operation, name).to_owned();
    say("kind", text("kind"));
    let stage = operation["stage"].as_str().map(|stage| format!(" ({stage})")).unwrap_or_default();
    say("state", format!("{}{stage}", state_paint(paint, word(operation, "state"))));
    say("reason", text("reason"));
    say("about", about(operation));
    say("progress", progress(operation));
    say(
        "rate",
        operation["rate_per_minute"].as_u64().map(|rate| format!("{rate} a minute")).unwrap_or_default(),
    );
    let watched: Vec<_> =
        operation["watched"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    say("watches", watched.join(", "));
    say("note", text("note"));
    say("by", text("by"));
    say("started", text("created_at"));
    say("goes on", text("next_at"));
    say("ended", text("finished_at"));
    say("ended by", text("cancelled_by"));
    let result = &operation["result"];
    if result.is_object() {
        say("found", format!("{} ({} ms)", word(result, "detail"), number(result, "latency_ms")));
    }
}

/// How far it has come, in a few words.
pub(crate) fn progress(operation: &Value) -> String {
    if word(operation, "kind") == "test_channel" {
        return String::new();
    }
    let of = operation["total"].as_u64().map(|total| format!(" of {total}")).unwrap_or_default();
    let skipped = match number(operation, "skipped") {
        0 => String::new(),
        skipped => format!(", {skipped} no longer dead"),
    };
    format!("{}{of}{skipped}", number(operation, "done"))
}

fn about(operation: &Value) -> String {
    if let Some(channel) = operation["channel"].as_str() {
        return format!("channel {channel}");
    }
    let filters = operation["filter"].as_object().into_iter().flatten();
    let said: Vec<_> =
        filters.map(|(name, value)| format!("{name} {}", value.as_str().unwrap_or_default())).collect();
    if said.is_empty() { "all dead letters".to_owned() } else { out::clipped(&said.join(", "), 200) }
}

fn state_paint(paint: Paint, text: &str) -> String {
    match text.trim_end() {
        "done" => paint.green(text),
        "halted" => paint.red(text),
        "running" => paint.cyan(text),
        _ => paint.dim(text),
    }
}

pub(crate) fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

pub(crate) fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_default()
}

/// Asks a channel's provider how it is, and waits for the answer.
pub(crate) async fn test_channel(client: &Client, name: &str, shared: &Shared) -> Result<(), Trouble> {
    let segment: String = url::form_urlencoded::byte_serialize(name.as_bytes()).collect();
    let payload = Payload::default();
    let answer = client.call(Method::POST, &format!("/v1/channels/{segment}/test"), payload).await?;
    let mut answer: Value = client.parse(&answer)?;
    if answer["state"].is_string() {
        let bar = Bar::new(shared.json);
        let operation = ended(client, word(&answer, "id"), &bar).await;
        bar.clear();
        let operation = operation?;
        if !operation["result"].is_object() {
            show(&operation, shared);
            return Err(Trouble::told());
        }
        answer = operation["result"].clone();
    }
    if shared.json {
        out::document(&answer);
    } else {
        let paint = Paint::stdout();
        let (detail, took) = (word(&answer, "detail"), number(&answer, "latency_ms"));
        let verdict = match answer["ok"].as_bool() {
            Some(true) => paint.green("ok"),
            Some(false) => paint.red("not ok"),
            None => paint.yellow("cannot tell"),
        };
        out::line(format!("channel `{name}`: {verdict}: {detail} ({took} ms)"));
    }
    if answer["ok"] == false { Err(Trouble::told()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn progress_is_told_in_a_few_words() {
        let check = |operation: Value, words: &str| assert_eq!(progress(&operation), words);
        check(json!({"kind": "reprocess", "done": 3, "skipped": 0, "total": 10}), "3 of 10");
        check(json!({"kind": "discard", "done": 3, "skipped": 2, "total": null}), "3, 2 no longer dead");
        check(json!({"kind": "test_channel", "done": 0}), "");
        assert_eq!(about(&json!({"filter": {}})), "all dead letters");
        assert_eq!(
            about(&json!({"filter": {"cause": "cause_1", "channel": "crm"}})),
            "cause cause_1, channel crm"
        );
        assert_eq!(about(&json!({"channel": "mail"})), "channel mail");
    }
}
