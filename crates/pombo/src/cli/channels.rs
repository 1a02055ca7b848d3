//! `pombo channels`: their state, and an operator's word on it.

use clap::Subcommand;
use serde_json::{Value, json};

use super::out::{self, Paint, Table};
use super::{Shared, Trouble};
use crate::client::Payload;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List channels and what stands in their way
    List,
    /// Let nothing go out through a channel until it is released
    #[command(after_help = "Example:\n  pombo channels hold crm --reason 'maintenance until noon'")]
    Hold {
        /// The channel, as `channels list` names it
        name: String,
        /// One destination of it only: a URL's host, with its port if that is given
        #[arg(long)]
        destination: Option<String>,
        /// Why, for whoever looks
        #[arg(long, default_value = "held by an operator")]
        reason: String,
    },
    /// Open a breaker: messages wait, and one of them tries from time to time whether the way is free
    #[command(after_help = "Example:\n  pombo channels open crm --destination crm.example --for 30m")]
    Open {
        /// The channel, as `channels list` names it
        name: String,
        /// One destination of it only, as `channels list` names it
        #[arg(long)]
        destination: Option<String>,
        /// Why, for whoever looks
        #[arg(long, default_value = "opened by an operator")]
        reason: String,
        /// How long until a message tries it, for example 30m
        #[arg(long = "for", value_name = "SPAN")]
        length: Option<String>,
    },
    /// Close a breaker, or all of a channel: what waits goes at once
    #[command(after_help = "Example:\n  pombo channels close whatsapp")]
    Close {
        /// The channel, as `channels list` names it
        name: String,
        /// One destination of it only, as `channels list` names it
        #[arg(long)]
        destination: Option<String>,
    },
    /// Ask a channel's provider how it is, without sending anything
    #[command(after_help = "Exit 0 if it is well or cannot be asked, 1 if it is not.

Example:\n  pombo channels test whatsapp")]
    Test {
        /// The channel, as `channels list` names it
        name: String,
    },
    /// Let a channel go on
    #[command(after_help = "Example:\n  pombo channels release crm --destination crm.example")]
    Release {
        /// The channel, as `channels list` names it
        name: String,
        /// One destination of it only: a URL's host, with its port if that is given
        #[arg(long)]
        destination: Option<String>,
    },
}

pub(crate) async fn run(verb: Verb, shared: &Shared) -> Result<(), Trouble> {
    let client = shared.client()?;
    let (path, body, done) = match verb {
        Verb::List => {
            let page = client.get("/v1/channels").await?;
            let items = page["items"].as_array().cloned().unwrap_or_default();
            if shared.json {
                items.iter().for_each(out::object);
            } else {
                list(&items);
            }
            return Ok(());
        }
        Verb::Test { name } => return super::operations::test_channel(&client, &name, shared).await,
        Verb::Hold { name, destination, reason } => {
            let done = format!("{} is held", place(&name, destination.as_deref()));
            (format!("/v1/channels/{}/hold", segment(&name)), body(destination, Some(reason)), done)
        }
        Verb::Open { name, destination, reason, length } => {
            let done = format!("the breaker of {} is open", place(&name, destination.as_deref()));
            let mut body = body(destination, Some(reason));
            if let Some(length) = length {
                body["for"] = json!(length);
            }
            (format!("/v1/channels/{}/open", segment(&name)), body, done)
        }
        Verb::Close { name, destination } => {
            let done = format!("the breaker of {} is closed", place(&name, destination.as_deref()));
            (format!("/v1/channels/{}/close", segment(&name)), body(destination, None), done)
        }
        Verb::Release { name, destination } => {
            let done = format!("{} is released", place(&name, destination.as_deref()));
            (format!("/v1/channels/{}/release", segment(&name)), body(destination, None), done)
        }
    };
    let document = client.post(&path, Payload::json(&body)).await?;
    if shared.json {
        out::document(&document);
    } else {
        out::line(done);
        let still = document["destinations"].as_array().into_iter().flatten();
        for place in still.filter(|_| path.ends_with("/release")) {
            let (to, state) = (out::field(place, "destination"), out::field(place, "state"));
            out::note(format!("`{to}` is still {state} by itself; see `pombo channels list`"));
        }
    }
    Ok(())
}

fn place(name: &str, destination: Option<&str>) -> String {
    destination.map_or_else(|| format!("channel `{name}`"), |to| format!("`{to}` on channel `{name}`"))
}

fn segment(name: &str) -> String {
    url::form_urlencoded::byte_serialize(name.as_bytes()).collect()
}

fn body(destination: Option<String>, reason: Option<String>) -> Value {
    let mut body = json!({});
    if let Some(destination) = destination {
        body["destination"] = json!(destination);
    }
    if let Some(reason) = reason {
        body["reason"] = json!(reason);
    }
    body
}

fn list(items: &[Value]) {
    let mut table = Table::new(["channel", "kind", "policy", "state", "why"])
        .painted(3, state_paint)
        .cut(4, 20)
        .spare([2, 1]);
    let mut hints = Vec::new();
    for item in items {
        let (name, policy) = (out::field(item, "name"), out::field(&item["policy"], "name"));
        table.row([
            name.clone(),
            out::field(item, "kind"),
            policy,
            out::field(item, "state"),
            out::field(item, "reason"),
        ]);
        hints.push((name, told(item)));
        for place in item["destinations"].as_array().into_iter().flatten() {
            let name = out::field(place, "destination");
            let indented = format!("  {name}");
            let none = String::new;
            table.row([indented, none(), none(), out::field(place, "state"), out::field(place, "reason")]);
            hints.push((name, told(place)));
        }
    }
    table.print();
    let paint = Paint::stdout();
    for (name, hint) in hints.iter().filter(|(_, hint)| !hint.is_empty()) {
        out::line(format!("{} {name}: {hint}", paint.cyan("hint:")));
    }
}

/// What to do, since when it is so, and when it is next tried or ends.
fn told(place: &Value) -> String {
    let hint = out::field(place, "hint");
    let (since, until) = (out::field(place, "since"), out::field(place, "until"));
    match (hint.is_empty(), since.is_empty(), until.is_empty()) {
        (true, ..) | (_, true, _) => hint,
        (_, _, true) => format!("{hint} (since {since})"),
        _ => format!("{hint} (since {since}; next at {until})"),
    }
}

fn state_paint(paint: Paint, text: &str) -> String {
    if text.trim_end() == "ok" { paint.green(text) } else { paint.yellow(text) }
}
