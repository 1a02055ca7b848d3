//! `pombo send`: one message, followed to its end if wanted.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgGroup, Args};
use pombo_kernel::time::{Span, Time};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::out::{self, Paint};
use super::{Shared, Trouble};
use super::messages::{self, Document};
use crate::client::{Attempt, Client, ClientError, Message, Payload};

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("what").required(true).args(["text", "content", "content_file"]),
    after_help = "Examples:
  pombo send --channel webhook --to https://example.com/hook --content '{\"body\": {\"a\": 1}}' --wait
  pombo send --channel whatsapp --to +5511987654321 --text 'Olá, Ana'
  pombo send --channel webhook --to https://example.com/hook --content-file order.json --send-at 2026-12-24T18:00:00Z"
)]
pub(crate) struct Send {
    /// The channel to send through
    #[arg(long)]
    channel: String,
    /// The recipient: a number, an address or a URL, as the channel's kind has it
    #[arg(long)]
    to: String,
    /// Plain words, for channels that take them
    #[arg(long)]
    text: Option<String>,
    /// The content for the channel's kind, as JSON
    #[arg(long, value_name = "JSON")]
    content: Option<String>,
    /// A file that holds the content; `-` is standard input
    #[arg(long, value_name = "FILE")]
    content_file: Option<PathBuf>,
    /// The message type, which routes it to a lane
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// The lane, whatever the type
    #[arg(long)]
    lane: Option<String>,
    /// 0 to 9; 9 goes first [default: 5]
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: Option<u8>,
    /// Not before this time, such as 2026-12-24T18:00:00Z
    #[arg(long, value_name = "TIME")]
    send_at: Option<Time>,
    /// Give up if it is still unsent after this long, such as 48h
    #[arg(long, value_name = "SPAN")]
    expires_after: Option<Span>,
    /// Your own id for it
    #[arg(long)]
    reference: Option<String>,
    /// Messages of one key go one at a time, in order
    #[arg(long, value_name = "KEY")]
    ordering_key: Option<String>,
    /// The same key and the same message are sent once
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Follow it to its end, and fail if it fails
    #[arg(long)]
    wait: bool,
}

pub(crate) async fn run(args: Send, shared: &Shared) -> Result<(), Trouble> {
    let client = shared.client()?;
    let payload = Payload {
        body: request(&args)?.into(),
        idempotency_key: args.idempotency_key.clone(),
        ..Payload::json(&Value::Null)
    };
    let Document { json, message } = messages::post(&client, "/v1/messages", payload).await?;
    if !args.wait {
        if shared.json {
            out::written(&json);
        } else {
            out::line(format!("{} accepted, {}", message.id, message.state));
            out::note(format!("follow it with: pombo messages show {}", message.id));
        }
        return Ok(());
    }
    follow(&client, &message.id, shared).await
}

/// The request. Its content goes out as it was written: receivers see those very bytes.
fn request(args: &Send) -> Result<String, Trouble> {
    let content = match (&args.text, &args.content, &args.content_file) {
        (Some(text), _, _) => parsed(&json!({"text": text}).to_string(), "--text")?,
        (None, Some(text), _) => parsed(text, "--content")?,
        (None, None, Some(file)) => parsed(&read(file)?, &file.display().to_string())?,
        (None, None, None) => return Err(Trouble::usage("nothing to send").hint("give --text or --content")),
    };
    let mut request = Map::new();
    request.insert("channel".into(), json!(args.channel));
    request.insert("to".into(), json!(args.to));
    let mut given = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            request.insert(key.into(), value);
        }
    };
    given("type", args.kind.as_ref().map(|it| json!(it)));
    given("lane", args.lane.as_ref().map(|it| json!(it)));
    given("priority", args.priority.map(|it| json!(it)));
    given("send_at", args.send_at.map(|it| json!(it)));
    given("expires_after", args.expires_after.map(|it| json!(it)));
    given("reference", args.reference.as_ref().map(|it| json!(it)));
    given("ordering_key", args.ordering_key.as_ref().map(|it| json!(it)));
    #[derive(Serialize)]
    struct Request {
        #[serde(flatten)]
        rest: Map<String, Value>,
    }
    let _ = Request { rest: request };
    todo!()
}

fn parsed(text: &str, whence: &str) -> Result<Box<RawValue>, Trouble> {
    serde_json::from_str(text).map_err(|error| {
        Trouble::usage(format!("{whence} is not JSON"))
            .why(error)
            .hint("for a webhook, for example: --content '{\"body\": {\"a\": 1}}'")
    })
}

fn read(file: &Path) -> Result<String, Trouble> {
    let text = if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    text.map_err(|error| {
        Trouble::new(format!("{} cannot be read", file.display()), "FILE_UNREADABLE").why(error)
    })
}

const QUICKEST_LOOK: Duration = Duration::from_millis(100);
const SLOWEST_LOOK: Duration = Duration::from_secs(2);

/// Prints each attempt as it ends, then how the message ended. A message that failed is a failure.
async fn follow(client: &Client, id: &str, shared: &Shared) -> Result<(), Trouble> {
    let paint = Paint::stdout();
    let path = format!("/v1/messages/{id}");
    let mut shown = 0;
    let mut pause = QUICKEST_LOOK;
    if !shared.json {
        out::line(format!("{id} accepted"));
    }
    loop {
        let document = match client.get(&path).await {
            Ok(document) => document,
            // The message is safe in the store; a server that restarts will answer again.
            Err(ClientError::Unreachable { .. }) if pause < SLOWEST_LOOK => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(SLOWEST_LOOK);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let message: Message = client.read(document.clone())?;
        for attempt in message.attempts.iter().skip(shown) {
            if !shared.json {
                out::line(attempt_line(attempt, paint));
            }
            pause = QUICKEST_LOOK;
        }
        shown = shown.max(message.attempts.len());
        if !message.is_finished() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(SLOWEST_LOOK);
            continue;
        }
        if shared.json {
            out::document(&document);
        } else {
            let reason =
                message.failure_reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            out::line(format!("{id} {}{reason}", paint.state(&message.state)));
        }
        return if message.state == "sent" { Ok(()) } else { Err(Trouble::told()) };
    }
}

/// One attempt: how it ended, why, and what comes next.
pub(crate) fn attempt_line(attempt: &Attempt, paint: Paint) -> String {
    let outcome = paint.state(&attempt.outcome);
    let why = match (&attempt.explanation, &attempt.error) {
        (Some(explanation), _) if !explanation.is_empty() => explanation.clone(),
        (_, Some(error)) => error.clone(),
        _ => String::new(),
    };
    let code = attempt.code.as_ref().map(|code| format!(" {code}")).unwrap_or_default();
    let next = attempt
        .next_delay_ms
        .map(|ms| format!(", next try in {}", Span::from_millis(ms)))
        .unwrap_or_default();
    let why = if why.is_empty() { why } else { format!(" · {}", out::clipped(&why, 120)) };
    format!("  attempt {} {outcome}{code}{why}{next}", attempt.number)
}
