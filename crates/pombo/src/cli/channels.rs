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
        name: String,
        /// One destination of it only, such as a URL's host
        #[arg(long)]
        destination: Option<String>,
        /// Why, for whoever looks
        #[arg(long, default_value = "held by an operator")]
        reason: String,
    },
    /// Let a channel go on
    Release {
        name: String,
        /// One destination of it only, such as a URL's host
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
        Verb::Hold { name, destination, reason } => {
            let done = format!("{} is held", place(&name, destination.as_deref()));
            (format!("/v1/channels/{}/hold", segment(&name)), body(destination, Some(reason)), done)
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
    let mut table =
        Table::new(["channel", "kind", "policy", "state", "why", "what next"]).painted(3, state_paint);
    for item in items {
        let policy = word(&item["policy"], "name");
        table.row([
            word(item, "name"),
            word(item, "kind"),
            policy,
            word(item, "state"),
            why(item),
            next(item),
        ]);
        for place in item["destinations"].as_array().into_iter().flatten() {
            let name = format!("  {}", word(place, "destination"));
            table.row([name, String::new(), String::new(), word(place, "state"), why(place), next(place)]);
        }
    }
    table.print();
}

fn state_paint(paint: Paint, text: &str) -> String {
    if text.trim_end() == "ok" { paint.green(text) } else { paint.yellow(text) }
}

fn why(item: &Value) -> String {
    out::clipped(&word(item, "reason"), 50)
}

fn next(item: &Value) -> String {
    word(item, "hint")
}

fn word(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}
