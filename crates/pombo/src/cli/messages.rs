//! `pombo messages`: list, show, cancel, retry, import.

use clap::{Args, Subcommand};
use pombo_kernel::content;
use pombo_kernel::id::MessageId;
use pombo_kernel::time::{Clock as _, Span, Time};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::out::{self, Paint, Table};
use super::reveal::{Reveal, hides};
use super::send::attempt_line;
use super::{Shared, Trouble, import};
use crate::client::{Client, ClientError, Message, Payload, Prediction};
use crate::clock::SystemClock;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List messages, newest first
    #[command(after_help = "Examples:
  pombo messages list --state failed --channel crm
  pombo messages list --all --json > messages.ndjson")]
    List(Box<List>),
    /// Show one message and its attempts
    Show {
        /// The message's id: msg_… or a UUID
        #[arg(value_parser = id)]
        id: MessageId,
        #[command(flatten)]
        reveal: Reveal,
    },
    /// Cancel a message that still waits
    Cancel {
        /// The message's id: msg_… or a UUID
        #[arg(value_parser = id)]
        id: MessageId,
    },
    /// Try a message now: a dead one anew, a waiting one at once
    Retry {
        /// The message's id: msg_… or a UUID
        #[arg(value_parser = id)]
        id: MessageId,
        /// Why, for whoever looks
        #[arg(long)]
        note: Option<String>,
    },
    /// Hand in many messages, one JSON object a line
    #[command(after_help = "Each line is a message as POST /v1/messages takes it. A line without an
idempotency_key is given one made from its words and its place, so that an
interrupted import can be run again without sending anything twice.

Examples:
  pombo messages import messages.ndjson
  generate | pombo messages import -")]
    Import(import::Import),
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// pending, sending, sent, failed, cancelled or discarded
    #[arg(long)]
    state: Option<String>,
    #[command(flatten)]
    filters: Filters,
    /// Most messages to list
    #[arg(long, default_value_t = 50, conflicts_with = "all")]
    limit: usize,
    /// List every message that matches, page by page
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    reveal: Reveal,
}

/// What messages are looked for by.
#[derive(Debug, Args)]
pub(crate) struct Filters {
    /// The channel that it goes through
    #[arg(long)]
    channel: Option<String>,
    /// The lane that it waits in
    #[arg(long)]
    lane: Option<String>,
    /// The message type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// The template that it was made from
    #[arg(long)]
    template: Option<String>,
    /// The campaign that it belongs to
    #[arg(long)]
    campaign: Option<String>,
    /// Whom it is for, written as it was sent
    #[arg(long)]
    recipient: Option<String>,
    /// Your own id for it
    #[arg(long)]
    reference: Option<String>,
    /// The category of the last error
    #[arg(long)]
    category: Option<String>,
    /// What the provider reported: accepted, failed, delivered, bounced, read or complained
    #[arg(long)]
    delivery: Option<String>,
    /// Accepted at this time or later
    #[arg(long, value_name = "TIME")]
    since: Option<Time>,
    /// Accepted before this time
    #[arg(long, value_name = "TIME")]
    until: Option<Time>,
}

impl Filters {
    /// Those that were given, as the API names them.
    pub(crate) fn pairs(&self) -> Vec<(&'static str, String)> {
        let given = [
            ("channel", self.channel.clone()),
            ("lane", self.lane.clone()),
            ("type", self.kind.clone()),
            ("template", self.template.clone()),
            ("campaign", self.campaign.clone()),
            ("recipient", self.recipient.clone()),
            ("reference", self.reference.clone()),
            ("category", self.category.clone()),
            ("delivery", self.delivery.clone()),
            ("since", self.since.map(|time| time.to_string())),
            ("until", self.until.map(|time| time.to_string())),
        ];
        given.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }
}

pub(crate) fn id(text: &str) -> Result<MessageId, String> {
    text.parse().map_err(|bad: pombo_kernel::id::BadId| bad.to_string())
}

pub(crate) async fn run(verb: Verb, shared: &Shared) -> Result<(), Trouble> {
    let client = shared.client()?;
    match verb {
        Verb::List(args) => {
            let state = args.state.clone().map(|state| ("state", state));
            let listed = Listed {
                path: "/v1/messages",
                filters: state.into_iter().chain(args.filters.pairs()).collect(),
                limit: args.limit,
                all: args.all,
                reveal: args.reveal,
                none: "no message matches",
            };
            pages(&client, &listed, shared).await
        }
        Verb::Show { id, reveal } => {
            let path = reveal.at(&format!("/v1/messages/{id}"));
            let Document { json, message } = get(&client, &path).await?;
            if shared.json {
                out::written(&json);
            } else {
                let obstacle = obstacle(&client, &message).await;
                story(&message, obstacle, SystemClock::new().now(), Paint::stdout())
                    .iter()
                    .for_each(out::line);
                reveal.hint(hides(&json));
            }
            Ok(())
        }
        Verb::Cancel { id } => {
            let path = format!("/v1/messages/{id}/cancel");
            let Document { json, .. } = post(&client, &path, Payload::default()).await?;
            if shared.json {
                out::written(&json);
            } else {
                out::line(format!("{id} cancelled"));
            }
            Ok(())
        }
        Verb::Retry { id, note } => {
            let body = note.map_or_else(|| json!({}), |note| json!({"note": note}));
            let path = format!("/v1/messages/{id}/retry");
            let Document { json, .. } = post(&client, &path, Payload::json(&body)).await?;
            if shared.json {
                out::written(&json);
            } else {
                out::line(format!("{id} is tried now"));
            }
            Ok(())
        }
        Verb::Import(args) => import::run(&client, &args, shared).await,
    }
}

/// A message as the server wrote it, and as it is read here.
pub(crate) struct Document {
    pub(crate) json: String,
    pub(crate) message: Message,
}

pub(crate) async fn get(client: &Client, path: &str) -> Result<Document, ClientError> {
    read(client, &client.call(http::Method::GET, path, Payload::default()).await?)
}

pub(crate) async fn post(client: &Client, path: &str, payload: Payload) -> Result<Document, ClientError> {
    read(client, &client.call(http::Method::POST, path, payload).await?)
}

fn read(client: &Client, body: &[u8]) -> Result<Document, ClientError> {
    let message = client.parse(body)?;
    Ok(Document { json: String::from_utf8_lossy(body).into_owned(), message })
}

/// What keeps a message that is due from being sent, if its channel or destination waits.
pub(crate) async fn obstacle(client: &Client, message: &Message) -> Option<String> {
    if message.state != "pending" {
        return None;
    }
    let channels = client.get("/v1/channels").await.ok()?;
    let channel = channels["items"].as_array()?.iter().find(|it| it["name"] == message.channel)?;
    // A webhook's destination is the host of its URL, and an event's is its subscriber; whoever waits on another kind of
    // channel waits together.
    let host = (channel["kind"] == "webhook").then(|| match content::host(&message.to) {
        none if none.is_empty() => message.to.clone(),
        host => host,
    });
    let here = |place: &&serde_json::Value| host.as_deref().is_none_or(|host| place["destination"] == host);
    let waiting = channel["destinations"].as_array()?.iter().find(here);
    let (what, place) = match waiting {
        _ if channel["state"] != "ok" => (format!("channel `{}`", message.channel), channel),
        Some(place) => (format!("`{}`", place["destination"].as_str().unwrap_or_default()), place),
        None => return None,
    };
    let word = |key: &str| place[key].as_str().unwrap_or_default();
    Some(format!("{what} is {}: {}; {}", word("state"), word("reason"), word("hint")))
}

/// A page of a list; its items as the server wrote them.
#[derive(Debug, Deserialize)]
struct Page {
    items: Vec<Box<RawValue>>,
    next_cursor: Option<String>,
}

/// Most messages that are asked for at a time.
const PAGE: usize = 200;

/// A list to go through.
pub(crate) struct Listed {
    pub(crate) path: &'static str,
    pub(crate) filters: Vec<(&'static str, String)>,
    pub(crate) limit: usize,
    pub(crate) all: bool,
    pub(crate) reveal: Reveal,
    /// What to say if there is nothing.
    pub(crate) none: &'static str,
}

/// Prints a list of messages, page by page.
pub(crate) async fn pages(client: &Client, listed: &Listed, shared: &Shared) -> Result<(), Trouble> {
    let mut cursor: Option<String> = None;
    let mut left = if listed.all { usize::MAX } else { listed.limit };
    let mut table = heading();
    let mut shown = 0usize;
    let mut hidden = false;
    while left > 0 {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query
            .extend_pairs(&listed.filters)
            .extend_pairs(listed.reveal.pair())
            .append_pair("limit", &left.min(PAGE).to_string());
        if let Some(cursor) = &cursor {
            query.append_pair("cursor", cursor);
        }
        let path = format!("{}?{}", listed.path, query.finish());
        let page = client.call(http::Method::GET, &path, Payload::default()).await?;
        let page: Page = client.parse(&page)?;
        for item in page.items.into_iter().take(left) {
            left -= 1;
            shown += 1;
            hidden |= hides(item.get());
            if shared.json {
                // Line breaks stand between the parts of what a caller wrote, never within its texts.
                out::line(item.get().replace(['\n', '\r'], " "));
            } else {
                row(&mut table, &client.parse(item.get().as_bytes())?);
            }
        }
        // Long lists appear page by page instead of at the end.
        if listed.all && !shared.json && !table.is_empty() {
            table.print();
            table = heading();
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    if shared.json {
        return Ok(());
    }
    if !table.is_empty() {
        table.print();
    }
    listed.reveal.hint(hidden);
    if shown == 0 {
        out::note(listed.none);
    } else if cursor.is_some() {
        out::note(format!("{shown} shown, and there are more: use --all or --limit"));
    }
    Ok(())
}

fn heading() -> Table {
    Table::new(["id", "state", "channel", "to", "attempts", "accepted", "delivery", "last error"])
        .painted(1, Paint::state)
        .cut(3, 12)
        .cut(7, 12)
        .spare([5, 4, 6, 2])
}

fn row(table: &mut Table, message: &Message) {
    let most = message.max_attempts.map(|most| format!("/{most}")).unwrap_or_default();
    let error = message.last_error.as_ref().map(|error| match &error.code {
        Some(code) if *code != error.category => format!("{} ({code})", error.category),
        _ => error.category.clone(),
    });
    table.row([
        message.id.clone(),
        message.state.clone(),
        message.channel.clone(),
        out::clipped(&message.to, 40),
        format!("{}{most}", message.attempt_count),
        message.created_at.map(|time| time.to_string()).unwrap_or_default(),
        message.delivery.clone().unwrap_or_default(),
        error.unwrap_or_default(),
    ]);
}

/// One message: what it is, where it stands, and every attempt.
pub(crate) fn story(message: &Message, obstacle: Option<String>, now: Time, paint: Paint) -> Vec<String> {
    let mut lines = vec![paint.bold(&message.id)];
    let mut say = |what: &str, value: Option<String>| {
        if let Some(value) = value {
            lines.push(format!("{} {value}", paint.dim(&format!("  {what:<10}"))));
        }
    };
    let reason = message.failure_reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    say("state", Some(format!("{}{reason}", paint.state(&message.state))));
    say("channel", Some(message.channel.clone()));
    say("to", Some(out::clipped(&message.to, 200)));
    say("type", message.kind.as_deref().map(out::tame));
    say("lane", message.lane.clone());
    say("reference", message.reference.as_deref().map(out::tame));
    say("accepted", message.created_at.map(|time| time.to_string()));
    // What could have gone by now waits for something else than its time.
    let late = message.next_attempt_at.is_some_and(|time| time <= now);
    let when = if late { "due since" } else { "next try" };
    say(when, message.next_attempt_at.map(|time| time.to_string()));
    say("likely", message.prediction.as_ref().map(foretold));
    say("waits", obstacle);
    let took = message.created_at.zip(message.finished_at).map(|(from, to)| took(to.since(from)));
    say("finished", message.finished_at.map(|time| format!("{time}{}", took.unwrap_or_default())));
    say("provider", message.provider_id.as_deref().map(out::tame));
    let since = message.delivery_at.map(|time| format!(" at {time}")).unwrap_or_default();
    let why = message.delivery_detail.as_ref().map(|why| format!(": {}", out::tame(why))).unwrap_or_default();
    say("delivery", message.delivery.as_ref().map(|word| format!("{word}{since}{why}")));
    let most = message.max_attempts.map(|most| format!(" of {most}")).unwrap_or_default();
    say("attempts", Some(format!("{}{most}", message.attempt_count)));
    for attempt in &message.attempts {
        let when = attempt.started_at.map(|time| format!("{time} ")).unwrap_or_default();
        let round = if attempt.round > 0 { format!("round {}, ", attempt.round) } else { String::new() };
        lines.push(format!("  {}{round}{}", paint.dim(&when), attempt_line(attempt, paint)));
    }
    lines
}

fn foretold(prediction: &Prediction) -> String {
    let reason = out::tame(&prediction.reason);
    match prediction.likely_by {
        Some(by) => format!("sent by {by}: {reason}"),
        None => reason,
    }
}

fn took(span: Span) -> String {
    format!(", {span} after it was accepted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_try_is_announced_for_a_time_that_is_over() {
        let message = json!({"id": "msg_1", "state": "pending", "channel": "crm", "to": "x", "attempt_count": 0,
                             "next_attempt_at": "2026-11-17T02:16:19.185Z"});
        let message: Message = serde_json::from_value(message).unwrap();
        let due = message.next_attempt_at.unwrap();
        let said =
            |now: Time| story(&message, Some("the channel is held".to_owned()), now, Paint::PLAIN).join("\n");
        assert!(said(due - Span::from_secs(1)).contains("next try   2026-11-17T02:16:19.185Z"));
        assert!(said(due).contains("due since  2026-11-17T02:16:19.185Z"), "{}", said(due));
    }
}
