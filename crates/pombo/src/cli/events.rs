//! `pombo events`: what happens, as it happens.

use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tokio::time::sleep;

use super::out::{self, Paint};
use super::{Shared, Trouble};
use crate::client::{Client, ClientError};

#[derive(Debug, Args)]
#[command(
    after_help = "It goes on until it is interrupted, and takes up where it broke off when the server was away.

Examples:
  pombo events
  pombo events --types message.failed,channel.* --json
  pombo events --after -1 --limit 100 --json > first-hundred.ndjson"
)]
pub(crate) struct Follow {
    /// Only what came after this event; -1 starts with the first of all [default: from now on]
    #[arg(long, value_name = "ID", allow_hyphen_values = true, value_parser = position)]
    after: Option<i64>,
    /// Only these types, for example message.sent,channel.*
    #[arg(long, value_name = "TYPES")]
    types: Option<String>,
    /// Only of this channel
    #[arg(long)]
    channel: Option<String>,
    /// Only of messages with this reference, or decisions on that claim; a producer must name it
    #[arg(long)]
    reference: Option<String>,
    /// End after so many
    #[arg(long, value_name = "COUNT")]
    limit: Option<u64>,
}

fn position(text: &str) -> Result<i64, String> {
    let read = text.parse().ok().filter(|position| *position >= -1);
    read.ok_or_else(|| {
        "write the `position` of an event, for example 1841, or -1 for the first of all".to_owned()
    })
}

/// What is said first, and without its name.
const BARE: [&str; 2] = ["channel", "id"];
const FIRST_RETRY: Duration = Duration::from_millis(500);
const SLOWEST_RETRY: Duration = Duration::from_secs(10);

pub(crate) async fn run(args: Follow, shared: &Shared) -> Result<(), Trouble> {
    let client = shared.client()?;
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in [("types", &args.types), ("channel", &args.channel), ("reference", &args.reference)]
    {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    let path = format!("/v1/events?{}", query.finish());
    let mut last = args.after;
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut wait = FIRST_RETRY;
    let mut met = false;
    while left > 0 {
        match follow(&client, &path, &mut last, &mut left, shared.json, &mut met).await {
            Ok(()) if left == 0 => break,
            Ok(()) => wait = FIRST_RETRY,
            // Nobody to be found at the first try is a mistake of ours; later it is the server's.
            Err(error) if !met => return Err(error.into()),
            Err(ClientError::Refused(refusal)) if !matches!(refusal.status, 429 | 500..) => {
                return Err(ClientError::Refused(refusal).into());
            }
            Err(error) => out::note(format!("{error}; it is tried again")),
        }
        sleep(wait).await;
        wait = (wait * 2).min(SLOWEST_RETRY);
    }
    Ok(())
}

/// Follows one stream to its end.
async fn follow(
    client: &Client,
    path: &str,
    last: &mut Option<i64>,
    left: &mut u64,
    json: bool,
    met: &mut bool,
) -> Result<(), ClientError> {
    let mut events = client.events(path, *last).await?;
    *met = true;
    while let Some(told) = events.next().await? {
        *last = told.id.or(*last);
        let Some(data) = told.data else { continue };
        match json {
            true => out::line(&data),
            false => out::line(line(&data, Paint::stdout())),
        }
        *left -= 1;
        if *left == 0 {
            break;
        }
    }
    Ok(())
}

/// An event in a line for people: when, what, about whom, and what else it says.
fn line(data: &str, paint: Paint) -> String {
    let told: Value = serde_json::from_str(data).unwrap_or_default();
    let kind = told["type"].as_str().unwrap_or("?");
    let mut text =
        format!("{} {}", paint.dim(told["timestamp"].as_str().unwrap_or_default()), named(kind, paint));
    let data = told["data"].as_object().into_iter().flatten();
    let (bare, others): (Vec<_>, Vec<_>) = data.partition(|(name, _)| BARE.contains(&name.as_str()));
    for (name, value) in bare.into_iter().chain(others) {
        let said = match value {
            Value::Null => continue,
            // What the type says already.
            _ if matches!(name.as_str(), "state" | "previous_state") => continue,
            Value::String(text) => out::tame(text),
            other => out::tame(&other.to_string()),
        };
        let bare = BARE.contains(&name.as_str());
        text.push_str(&if bare { format!("  {said}") } else { format!("  {}={said}", paint.dim(name)) });
    }
    text
}

fn named(kind: &str, paint: Paint) -> String {
    let padded = format!("{kind:<23}");
    match kind {
        "message.sent" | "channel.unblocked" | "store.resumed" => paint.green(&padded),
        "message.failed" | "MaxRetriesExceededEvent" | "PermanentErrorDetectedEvent" => paint.red(&padded),
        "message.retry_scheduled" | "message.held" | "channel.blocked" | "store.paused" => {
            paint.yellow(&padded)
        }
        _ => padded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_line_that_says_what_matters() {
        let data = r#"{"type":"message.failed","timestamp":"2026-01-31T10:20:30.000Z","position":7,"data":{"channel":"crm",
            "id":"msg_1","reference":"order 5","state":"failed","previous_state":"sending","attempt":3,"user_id":null,
            "error":"two\nlines"}}"#;
        assert_eq!(
            line(data, Paint::PLAIN),
            "2026-01-31T10:20:30.000Z message.failed           crm  msg_1  attempt=3  error=twolines  reference=order 5"
        );
    }
}
