//! `pombo send`: one message, followed to its end if wanted.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgGroup, Args};
use pombo_kernel::time::{Span, Time};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::messages::{self, Document};
use super::out::{self, Paint};
use super::templates::Filling;
use super::{Shared, Trouble};
use crate::client::{Attempt, Client, ClientError, Payload};

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("what").required(true).args(["text", "content", "content_file", "template"]),
    after_help = "Examples:
  pombo send --channel webhook --to https://example.com/hook --content '{\"body\": {\"a\": 1}}' --wait
  pombo send --channel whatsapp --to +5511987654321 --text 'Olá, Ana'
  pombo send --channel email --to ana@example.com --template welcome_user --var user_data.full_name=Ana
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
    /// The template to fill in; see `pombo templates list`
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    #[command(flatten)]
    filling: Filling,
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
    /// Also to somebody on the suppression list, where the channel minds it for every message
    #[arg(long)]
    override_suppression: bool,
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

/// The request. Its content goes out as it was written: the receiver is to see those very bytes.
fn request(args: &Send) -> Result<String, Trouble> {
    if args.template.is_none() && !args.filling.is_empty() {
        return Err(Trouble::usage("--var and --payload fill a template").hint("name it with --template"));
    }
    let content = match (&args.text, &args.content, &args.content_file) {
        (Some(text), _, _) => Some(parsed(&json!({"text": text}).to_string(), "--text")?),
        (None, Some(text), _) => Some(parsed(text, "--content")?),
        (None, None, Some(file)) => Some(parsed(&read(file)?, &file.display().to_string())?),
        (None, None, None) => None,
    };
    let payload = args.template.as_ref().map(|_| args.filling.payload()).transpose()?;
    let fields = [
        ("channel", Some(json!(args.channel))),
        ("to", Some(json!(args.to))),
        ("template", args.template.as_ref().map(|it| json!(it))),
        ("payload", payload),
        ("type", args.kind.as_ref().map(|it| json!(it))),
        ("lane", args.lane.as_ref().map(|it| json!(it))),
        ("priority", args.priority.map(|it| json!(it))),
        ("send_at", args.send_at.map(|it| json!(it))),
        ("expires_after", args.expires_after.map(|it| json!(it))),
        ("reference", args.reference.as_ref().map(|it| json!(it))),
        ("ordering_key", args.ordering_key.as_ref().map(|it| json!(it))),
        ("override_suppression", args.override_suppression.then_some(json!(true))),
    ];
    let given = fields.into_iter().filter_map(|(key, value)| Some(format!("{}:{}", json!(key), value?)));
    let given: Vec<String> = given.chain(content.map(|content| format!("\"content\":{content}"))).collect();
    Ok(format!("{{{}}}", given.join(",")))
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
    let mut waits_for: Option<String> = None;
    if !shared.json {
        out::line(format!("{id} accepted"));
    }
    loop {
        let Document { json, message } = match messages::get(client, &path).await {
            Ok(document) => document,
            // The message is safe in the store; a server that restarts will answer again.
            Err(ClientError::Unreachable { .. }) if pause < SLOWEST_LOOK => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(SLOWEST_LOOK);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        for attempt in message.attempts.iter().skip(shown) {
            if !shared.json {
                out::line(format!("  {}", attempt_line(attempt, paint)));
            }
            pause = QUICKEST_LOOK;
        }
        shown = shown.max(message.attempts.len());
        if !message.is_finished() {
            // Nothing moves: perhaps something stands in the way, which the waiting person should know.
            if !shared.json && pause >= SLOWEST_LOOK {
                let obstacle = messages::obstacle(client, &message).await;
                if obstacle != waits_for {
                    obstacle.iter().for_each(|it| out::note(format!("  waits: {it}")));
                    waits_for = obstacle;
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(SLOWEST_LOOK);
            continue;
        }
        if shared.json {
            out::written(&json);
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
    let code = attempt.code.as_ref().map(|code| format!(" {}", out::tame(code))).unwrap_or_default();
    let why = attempt.explanation.as_deref().or(attempt.error.as_deref()).unwrap_or_default();
    // The explanation is a whole sentence; what stands before it here need not be said twice.
    let said = format!("attempt {} failed: ", attempt.number);
    let why = why.strip_prefix(&said).unwrap_or(why);
    let why = attempt.code.as_ref().and_then(|code| why.strip_prefix(code.as_str())).unwrap_or(why);
    let why = why.trim_start_matches([' ', ':', ';']);
    let why = why.strip_prefix(&pombo_kernel::lifecycle::accepted(attempt.number)).unwrap_or(why);
    let why = why.trim_start_matches([' ', ':', ';']);
    let plain = why.is_empty();
    let why = if plain { String::new() } else { format!(" · {}", out::clipped(why, 200)) };
    format!("attempt {} {outcome}{code}{why}", attempt.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(outcome: &str, code: Option<&str>, explanation: &str) -> String {
        let attempt = Attempt {
            number: 2,
            outcome: outcome.to_owned(),
            code: code.map(str::to_owned),
            explanation: Some(explanation.to_owned()),
            ..Attempt::default()
        };
        attempt_line(&attempt, Paint::PLAIN)
    }

    #[test]
    fn an_attempt_is_told_once() {
        assert_eq!(line("sent", None, "attempt 2 was accepted"), "attempt 2 sent");
        assert_eq!(
            line("retry", Some("503"), "attempt 2 failed: 503 busy; next try in 5s: policy webhook"),
            "attempt 2 retry 503 · busy; next try in 5s: policy webhook"
        );
        assert_eq!(
            line("held", Some("401"), "401: the fault is ours (unauthorized)"),
            "attempt 2 held 401 · the fault is ours (unauthorized)"
        );
        assert_eq!(
            line("failed", None, "attempt 2 failed: nobody home; that was attempt 2 of 2"),
            "attempt 2 failed · nobody home; that was attempt 2 of 2"
        );
    }

    #[test]
    fn content_goes_out_as_it_was_written() {
        use clap::Parser;
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            send: Send,
        }
        let content = r#"{"body":{"z":1,"a":12345678901234567890123,"f":1.10}}"#;
        let line = Line::parse_from([
            "send",
            "--channel",
            "crm",
            "--to",
            "x",
            "--priority",
            "7",
            "--override-suppression",
            "--content",
            content,
        ]);
        let request = request(&line.send).unwrap();
        assert_eq!(
            request,
            format!(
                r#"{{"channel":"crm","to":"x","priority":7,"override_suppression":true,"content":{content}}}"#
            )
        );
    }
}
