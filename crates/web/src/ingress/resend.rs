//! Resend's interface for sending, at the root of the address, where its clients look for it.

mod mail;

use std::borrow::Cow;
use std::collections::BTreeSet;

use axum::response::Response;
use http::{HeaderValue, StatusCode};
use pombo_kernel::content::mailbox;
use pombo_kernel::delivery::Delivery;
use pombo_kernel::id::MessageId;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::message::{Draft, Json, State, StateName};
use pombo_kernel::request::BadJson;
use pombo_kernel::setup::Setup;
use pombo_kernel::time::Time;
use pombo_store::{Cancelled, Filter, Line, Story};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::mail::Mail;
use super::members::Few;
use super::{accept, json, keyed, mail_channel, no_mail_channel, part};
use crate::auth::Caller;
use crate::problem::{Code, Problem};
use crate::route::Call;
use crate::veil::Veil;
use crate::{Door, body, idempotency, suppression, view};

/// The most mails in one request.
const BATCH_MAX: usize = 100;
/// The most messages that one mail can have become: one for each recipient.
const GROUP_MAX: usize = 150;

/// What is wrong, in Resend's words.
#[derive(Debug, PartialEq, Eq)]
struct Trouble {
    status: u16,
    name: &'static str,
    message: String,
}

impl Trouble {
    fn new(status: u16, name: &'static str, message: impl Into<String>) -> Trouble {
        Trouble { status, name, message: message.into() }
    }

    fn invalid(message: impl Into<String>) -> Trouble {
        Trouble::new(422, "validation_error", message)
    }

    fn missing(field: &str) -> Trouble {
        Trouble::new(422, "missing_required_field", format!("Missing `{field}` field."))
    }

    fn response(&self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        json(status, &json!({"statusCode": self.status, "message": self.message, "name": self.name}))
    }
}

pub(super) fn keyless() -> Response {
    let message = "Missing API key: pass it as `Authorization: Bearer KEY`.";
    Trouble::new(401, "missing_api_key", message).response()
}

/// A problem of ours, as Resend would have told it.
pub(super) fn refusal(problem: &Problem) -> Response {
    let (status, name) = match problem.code {
        Code::Unauthorized => (400, "validation_error"),
        Code::Forbidden => (401, "restricted_api_key"),
        Code::NotFound => (404, "not_found"),
        Code::MethodNotAllowed => (405, "method_not_allowed"),
        Code::IdempotencyConflict => (409, "invalid_idempotent_request"),
        Code::Overloaded | Code::TooManyFailures => (429, "rate_limit_exceeded"),
        Code::Internal => (500, "internal_server_error"),
        // The name by which its clients know that the same may be sent again.
        Code::RequestTimeout => (408, "application_error"),
        Code::StoreUnavailable | Code::ReadTooLong | Code::ShuttingDown => (503, "service_unavailable"),
        Code::InvalidJson => (400, "validation_error"),
        Code::InvalidField if problem.errors.iter().any(|error| error.field == idempotency::NAME) => {
            (400, "invalid_idempotency_key")
        }
        _ => (422, "validation_error"),
    };
    let message = match problem.code {
        Code::Unauthorized => "API key is invalid".to_owned(),
        _ => format!("{} ({})", problem.detail, problem.hint),
    };
    let mut response = Trouble::new(status, name, message).response();
    if status == 429 {
        // What clients of Resend read; some of them nothing else. One request may follow once the time is over.
        let reset = problem.code.retry_after().unwrap_or(HeaderValue::from_static("1"));
        let headers = response.headers_mut();
        headers.insert("ratelimit-limit", HeaderValue::from_static("1"));
        headers.insert("ratelimit-remaining", HeaderValue::from_static("0"));
        headers.insert("ratelimit-reset", reset);
    }
    response
}

/// Takes in one mail: answers its id once it is durable.
pub(crate) async fn send(call: Call) -> Result<Response, Problem> {
    match take(call, Validation::One).await? {
        Ok(taken) => {
            let id = taken.ids.first().ok_or_else(Problem::internal)?;
            Ok(json(StatusCode::OK, &json!({"id": id.uuid()})))
        }
        Err(trouble) => Ok(trouble.response()),
    }
}

/// Takes in a list of mails: all or none, or as many as there is nothing wrong with.
pub(crate) async fn batch(call: Call) -> Result<Response, Problem> {
    let mode = match call.head.headers.get("x-batch-validation").map(HeaderValue::as_bytes) {
        None | Some(b"strict") => Validation::Strict,
        Some(b"permissive") => Validation::Permissive,
        Some(_) => {
            let message = "Invalid `x-batch-validation` header: write `strict` or `permissive`.";
            return Ok(Trouble::invalid(message).response());
        }
    };
    match take(call, mode).await? {
        Ok(taken) => {
            let data: Vec<Value> = taken.ids.iter().map(|id| json!({"id": id.uuid()})).collect();
            let mut answer = json!({"data": data});
            if mode == Validation::Permissive {
                let errors =
                    taken.errors.iter().map(|(index, message)| json!({"index": index, "message": message}));
                answer["errors"] = errors.collect();
            }
            Ok(json(StatusCode::OK, &answer))
        }
        Err(trouble) => Ok(trouble.response()),
    }
}

/// What is asked for, and what follows from a mail that cannot be taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Validation {
    /// One mail, not a list.
    One,
    Strict,
    Permissive,
}

#[derive(Default)]
struct Taken {
    /// Of each mail that was taken.
    ids: Vec<MessageId>,
    /// Of each that was not: its place in the list, and why.
    errors: Vec<(usize, String)>,
}

async fn take(call: Call, mode: Validation) -> Result<Result<Taken, Trouble>, Problem> {
    let Call { door, caller, head, body, .. } = call;
    if door.is_closing() {
        return Err(Problem::shutting_down());
    }
    let setup = door.setup();
    let held = body::held_json(&door, &head.headers, body, setup.limits.body_bytes()).await?;
    let key = idempotency::header(&head.headers)?.map(|key| keyed(key, &held.text));
    let channel = mail_channel(&caller, &setup).ok_or_else(no_mail_channel)?;
    let is_list = held.text.trim_ascii_start().first() == Some(&b'[');
    let mails: Few<&RawValue, BATCH_MAX> = match mode {
        Validation::One => Few(vec![serde_json::from_slice(&held.text).map_err(BadJson::from)?]),
        _ if is_list => serde_json::from_slice(&held.text).map_err(BadJson::from)?,
        _ => Few(Vec::new()),
    };
    if !(1..=BATCH_MAX).contains(&mails.0.len()) {
        return Ok(Err(Trouble::invalid("The body is not a list of 1 to 100 mails.")));
    }
    let now = door.now();
    let (mut taken, mut drafts, mut firsts) = (Taken::default(), Vec::<Draft>::new(), Vec::new());
    let mut room = mail::SPREAD_BYTES_MAX;
    for (index, mail) in mails.0.into_iter().enumerate() {
        let group = || mail::group(key.as_ref(), index, door.entropy());
        let drafted = Mail::read(mail.get().as_bytes(), now)
            .and_then(|mail| mail.drafts(&setup, &channel, now, group, &mut room));
        let drafted = match drafted {
            Ok(mut mine) => {
                for (n, draft) in mine.iter_mut().enumerate() {
                    let part = |key| part(key, drafts.len() + n, &format!("{index}.{n}"));
                    draft.idempotency = key.as_ref().map(part);
                }
                match suppression::stops(door.store(), &setup, &mine).await? {
                    Some(problem) => Err(Trouble::invalid(format!("{} {}", problem.field, problem.reason))),
                    None => Ok(mine),
                }
            }
            Err(trouble) => Err(trouble),
        };
        match drafted {
            Ok(drafted) => {
                firsts.push(drafts.len());
                drafts.extend(drafted);
            }
            Err(trouble) if mode == Validation::Permissive => taken.errors.push((index, trouble.message)),
            Err(trouble) => return Ok(Err(trouble)),
        }
    }
    let accepted = accept(&door, &head, drafts).await?;
    taken.ids = firsts.iter().filter_map(|first| accepted.get(*first)).map(|accepted| accepted.id).collect();
    Ok(Ok(taken))
}

/// A mail as Resend shows it.
#[derive(Serialize)]
struct View<'a> {
    object: &'static str,
    id: String,
    from: &'a str,
    to: Vec<Cow<'a, str>>,
    cc: Vec<Cow<'a, str>>,
    bcc: Vec<Cow<'a, str>>,
    reply_to: Vec<&'a str>,
    subject: &'a str,
    html: Option<&'a str>,
    text: Option<&'a str>,
    created_at: Time,
    scheduled_at: Option<Time>,
    last_event: &'static str,
}

/// A mail, and every message that it became: its own first, then those of its group.
struct Found {
    story: Story,
    lines: Vec<Line>,
}

async fn find(door: &Door, caller: &Caller, setup: &Setup, name: &str) -> Result<Found, Problem> {
    let unknown =
        || Problem::new(Code::NotFound, "there is no such mail", "an id is what POST /emails answered");
    let id: MessageId = name.parse().map_err(|_| unknown())?;
    let story = door.store().story(caller.tenant.clone(), id).await?;
    let is_mail = |story: &Story| {
        let channel = &story.message.queue.channel;
        let kind = setup.channels.get(channel).map(|channel| channel.kind);
        caller.sees(channel) && matches!(kind, Some(ChannelKind::Resend | ChannelKind::Smtp))
    };
    let story = story.filter(is_mail).ok_or_else(unknown)?;
    let own = Line {
        message: story.message.clone(),
        state: story.state.clone(),
        progress: story.progress,
        updated_at: story.updated_at,
        last_failure: None,
        delivery: story.delivery.clone(),
    };
    let mut lines = vec![own];
    let metadata: Value = said(story.message.body.metadata.as_ref());
    if let Some(group) = metadata["group"].as_str() {
        // Anybody can write the name of a group, so it says nothing of messages that went another way.
        let filter = Filter {
            tenant: caller.tenant.clone(),
            channel: Some(story.message.queue.channel.clone()),
            reference: Some(group.to_owned()),
            ..Filter::default()
        };
        lines.extend(door.store().page(filter, None, GROUP_MAX).await?.lines);
    }
    Ok(Found { story, lines })
}

fn said(json: Option<&Json>) -> Value {
    json.and_then(|json| serde_json::from_str(json.text()).ok()).unwrap_or_default()
}

/// Calls back a mail that was not sent yet; of one that is several messages, all that still wait.
pub(crate) async fn cancel(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, name, .. } = call;
    let found = find(&door, &caller, &door.setup(), &name).await?;
    let (mut cancelled, mut too_late) = (false, None);
    for id in found.lines.iter().map(|line| line.message.id).collect::<BTreeSet<_>>() {
        match door.store().cancel(caller.tenant.clone(), id, caller.actor()).await? {
            Cancelled::Done => {
                tracing::info!(message_id = %id, key_id = caller.key_id, "cancelled");
                cancelled = true;
            }
            // Whoever asks twice is told the same twice.
            Cancelled::TooLate(StateName::Cancelled) => cancelled = true,
            Cancelled::TooLate(state) => too_late = Some(state),
            Cancelled::NotFound => {}
        }
    }
    match too_late.filter(|_| !cancelled) {
        Some(state) => {
            Ok(Trouble::invalid(format!("The mail is {state}: it cannot be cancelled.")).response())
        }
        None => Ok(json(StatusCode::OK, &json!({"object": "email", "id": found.story.message.id.uuid()}))),
    }
}

/// One mail, with how far it has come: the worst of what became of its recipients, where they are several messages.
pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, name, .. } = call;
    let setup = door.setup();
    let Found { story, lines } = find(&door, &caller, &setup, &name).await?;
    let message = &story.message;
    let content: Value = said(message.body.content.as_ref());
    let list = |name: &str| match &content[name] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let mut to = list("shown_to");
    if to.is_empty() {
        to.push(&message.body.to);
    }
    to.extend(list("also_to"));
    let cc = [list("cc"), list("shown_cc")].concat();
    // Whoever got it and is not shown in it.
    let mut bcc = list("bcc");
    for line in &lines[1..] {
        let shown = |other: &&str| mailbox(other) == mailbox(&line.message.body.to);
        if !to.iter().chain(&cc).chain(&bcc).any(shown) {
            bcc.push(&line.message.body.to);
        }
    }
    let veil = Veil::of(&caller, &setup);
    fn seen(some: Vec<&str>, veil: Veil) -> Vec<Cow<'_, str>> {
        some.into_iter().map(|to| veil.recipient(None, to)).collect()
    }
    view::ok(&View {
        object: "email",
        id: message.id.uuid(),
        from: content["from"].as_str().unwrap_or_default(),
        to: seen(to, veil),
        cc: seen(cc, veil),
        bcc: seen(bcc, veil),
        reply_to: list("reply_to"),
        subject: veil.text(content["subject"].as_str().unwrap_or_default()),
        html: content["html"].as_str().map(|html| veil.text(html)),
        text: content["text"].as_str().map(|text| veil.text(text)),
        created_at: message.created_at(),
        scheduled_at: message.send_at,
        last_event: lines.iter().map(last_event).min_by_key(|event| rank(event)).unwrap_or("queued"),
    })
}

/// How far a message has come, by the name of Resend's event.
fn last_event(line: &Line) -> &'static str {
    let tried = line.progress.attempts > 0;
    match (&line.state, line.delivery.as_ref().map(|word| word.state)) {
        (State::Pending { .. } | State::Sending { .. }, _) if tried => "delivery_delayed",
        (State::Pending { .. }, _) if line.message.send_at.is_some() => "scheduled",
        (State::Pending { .. } | State::Sending { .. }, _) => "queued",
        (State::Sent { .. }, None | Some(Delivery::Accepted)) => "sent",
        (State::Sent { .. }, Some(Delivery::Delivered)) => "delivered",
        (State::Sent { .. }, Some(Delivery::Read)) => "opened",
        (State::Sent { .. }, Some(Delivery::Bounced)) => "bounced",
        (State::Sent { .. }, Some(Delivery::Complained)) => "complained",
        (State::Sent { .. }, Some(Delivery::Failed)) | (State::Failed { .. }, _) => "failed",
        (State::Cancelled { .. } | State::Discarded { .. }, _) => "canceled",
    }
}

/// What weighs most of several recipients' events comes first.
fn rank(event: &str) -> usize {
    const ORDER: [&str; 10] = [
        "failed",
        "bounced",
        "complained",
        "delivery_delayed",
        "queued",
        "scheduled",
        "canceled",
        "sent",
        "delivered",
        "opened",
    ];
    ORDER.iter().position(|known| *known == event).unwrap_or(ORDER.len())
}
