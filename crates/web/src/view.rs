//! A message as callers read it.
//!
//! A document is written in two parts, since what depends on a new message's id is known only once it is stored,
//! and by then the draft belongs to the store: the rest is written before.

use std::borrow::Cow;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use pombo_kernel::delivery::{Delivery, LastWord};
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{
    Attempt, AttemptFailure, AttemptOutcome, Body as Said, Draft, FailureReason, Json, QueueName, State,
    StateName,
};
use pombo_kernel::policy::Overrides;
use pombo_kernel::setup::Setup;
use pombo_kernel::time::{Span, Time};
use pombo_store::{Line, Story};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::foretold::PredictionView;
use crate::problem::Problem;
use crate::veil::Veil;

/// A message as a list shows it. The schema of what [`line`] writes.
#[derive(JsonSchema)]
#[schemars(rename = "Message")]
#[allow(dead_code)]
pub(crate) struct MessageLine {
    #[schemars(flatten)]
    head: Head,
    #[schemars(flatten)]
    rest: Rest<'static>,
}

/// A message with its attempts. The schema of what [`story`] writes.
#[derive(JsonSchema)]
#[schemars(rename = "MessageStory")]
#[allow(dead_code)]
pub(crate) struct MessageStory {
    #[schemars(flatten)]
    line: MessageLine,
    /// Every attempt, the oldest first.
    attempts: Vec<AttemptView<'static>>,
    /// What is likely to become of it, where it is read while it waits after a failure.
    #[schemars(skip_serializing_if = "Option::is_none")]
    prediction: Option<PredictionView>,
}

/// What depends on the id of a new message.
#[derive(Serialize, JsonSchema)]
struct Head {
    /// `msg_` and 32 hexadecimal digits.
    #[schemars(with = "String", regex(pattern = "^msg_[0-9a-f]{32}$"))]
    id: MessageId,
    #[schemars(with = "StateName")]
    state: &'static str,
    expires_after: Option<Span>,
    /// When it is tried next; null unless it is pending.
    next_attempt_at: Option<Time>,
    created_at: Time,
    updated_at: Time,
}

#[derive(Serialize, JsonSchema)]
struct Rest<'a> {
    channel: &'a str,
    /// Masked where the caller's role asks for it, as are `payload`, `content` and what was said about it.
    to: Cow<'a, str>,
    r#type: Option<&'a str>,
    template: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    template_version: Option<u32>,
    #[schemars(with = "Option<Value>")]
    payload: Option<Cow<'a, Json>>,
    #[schemars(with = "Option<Value>")]
    content: Option<Cow<'a, Json>>,
    lane: &'a str,
    priority: u8,
    send_at: Option<Time>,
    reference: Option<&'a str>,
    user_id: Option<Cow<'a, str>>,
    ordering_key: Option<&'a str>,
    #[schemars(with = "Map<String, Value>")]
    metadata: Members<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<&'a Overrides>,
    /// Why it is a dead letter.
    #[schemars(with = "Option<FailureReason>")]
    failure_reason: Option<&'static str>,
    attempt_count: u16,
    /// Null if its channel is no longer configured.
    max_attempts: Option<u16>,
    last_error: Option<LastError<'a>>,
    provider_id: Option<&'a str>,
    /// What the provider reported later.
    #[schemars(with = "Option<Delivery>")]
    delivery: Option<&'static str>,
    delivery_at: Option<Time>,
    delivery_detail: Option<Cow<'a, str>>,
    finished_at: Option<Time>,
    campaign: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    attempts: Option<Vec<AttemptView<'a>>>,
}

/// An object, also where none was given.
pub(crate) struct Members<'a>(pub(crate) Option<Cow<'a, Json>>);

impl Serialize for Members<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(json) => json.serialize(serializer),
            None => serializer.collect_map(std::iter::empty::<((), ())>()),
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct LastError<'a> {
    verdict: pombo_kernel::classify::Verdict,
    category: &'a str,
    code: Option<&'a str>,
    text: Cow<'a, str>,
}

impl<'a> LastError<'a> {
    /// Of a message that says this.
    pub(crate) fn of(failure: &'a AttemptFailure, said: &Said, veil: Veil) -> LastError<'a> {
        LastError {
            verdict: failure.verdict,
            category: &failure.category,
            code: failure.code.as_deref(),
            text: veil.about(&failure.text, said),
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Attempt")]
struct AttemptView<'a> {
    /// 0 since acceptance, one more with each reprocessing.
    round: u16,
    number: u16,
    started_at: Time,
    finished_at: Time,
    #[schemars(with = "AttemptOutcome")]
    outcome: &'static str,
    verdict: Option<pombo_kernel::classify::Verdict>,
    category: Option<&'a str>,
    code: Option<&'a str>,
    error: Option<Cow<'a, str>>,
    /// It failed, and may have been sent all the same.
    perhaps_sent: bool,
    next_delay_ms: Option<u64>,
    explanation: Cow<'a, str>,
    policy: Option<&'a str>,
}

impl<'a> AttemptView<'a> {
    fn of(attempt: &'a Attempt, said: &Said, veil: Veil) -> AttemptView<'a> {
        let failure = attempt.failure.as_ref();
        AttemptView {
            round: attempt.round,
            number: attempt.number,
            started_at: attempt.started_at,
            finished_at: attempt.finished_at,
            outcome: attempt.outcome.as_str(),
            verdict: failure.map(|failure| failure.verdict),
            category: failure.map(|failure| failure.category.as_str()),
            code: failure.and_then(|failure| failure.code.as_deref()),
            error: failure.map(|failure| veil.about(&failure.text, said)),
            perhaps_sent: failure.is_some_and(|failure| failure.perhaps_sent),
            next_delay_ms: attempt.next_delay.map(Span::millis),
            explanation: veil.about(&attempt.explanation, said),
            policy: attempt.policy.as_deref(),
        }
    }
}

/// A message as stored, so far as both ways of reading one show it.
#[derive(Clone, Copy)]
struct Known<'a> {
    queue: &'a QueueName,
    said: &'a Said,
    priority: u8,
    send_at: Option<Time>,
    ordering_key: Option<&'a str>,
    state: Option<&'a State>,
    attempts: u16,
    failure: Option<&'a AttemptFailure>,
    delivery: Option<&'a LastWord>,
}

impl<'a> Known<'a> {
    fn rest(self, setup: &Setup, attempts: Option<&'a [Attempt]>, veil: Veil) -> Rest<'a> {
        let said = self.said;
        let channel = setup.channels.get(&self.queue.channel);
        let policy = channel.map(|channel| &channel.policy);
        let (failure_reason, provider_id, finished_at) = match self.state {
            None | Some(State::Pending { .. } | State::Sending { .. }) => (None, None, None),
            Some(State::Sent { at, receipt }) => (None, receipt.provider_id.as_deref(), Some(*at)),
            Some(State::Failed { at, reason }) => (Some(reason.as_str()), None, Some(*at)),
            Some(State::Cancelled { at, .. } | State::Discarded { at, .. }) => (None, None, Some(*at)),
        };
        Rest {
            channel: self.queue.channel.as_str(),
            to: veil.recipient(channel.map(|channel| channel.kind), &said.to),
            r#type: said.kind.as_deref(),
            template: said.template.as_deref(),
            template_version: said.template_version,
            payload: veil.document(said.payload.as_ref()),
            content: veil.document(said.content.as_ref()),
            lane: self.queue.lane.as_str(),
            priority: self.priority,
            send_at: self.send_at,
            reference: said.reference.as_deref(),
            user_id: said.user_id.as_deref().map(|id| veil.words(id)),
            ordering_key: self.ordering_key,
            metadata: Members(veil.document(said.metadata.as_ref())),
            retry: said.retry.as_ref(),
            failure_reason,
            attempt_count: self.attempts,
            max_attempts: policy.map(|policy| match &said.retry {
                Some(changes) => policy.with(changes).attempts,
                None => policy.attempts,
            }),
            last_error: self.failure.map(|failure| LastError::of(failure, said, veil)),
            provider_id,
            delivery: self.delivery.map(|word| word.state.as_str()),
            delivery_at: self.delivery.map(|word| word.at),
            delivery_detail: self
                .delivery
                .and_then(|word| word.detail.as_deref())
                .map(|text| veil.about(text, said)),
            finished_at,
            campaign: self.queue.campaign.as_ref().map(|campaign| campaign.as_str()),
            attempts: attempts
                .map(|attempts| attempts.iter().map(|it| AttemptView::of(it, said, veil)).collect()),
        }
    }
}

/// A new message's document, but for what its id decides.
pub(crate) struct Unborn {
    rest: Vec<u8>,
    send_at: Option<Time>,
    expires_at: Option<Time>,
}

impl Unborn {
    pub(crate) fn of(draft: &Draft, setup: &Setup, veil: Veil) -> Unborn {
        let known = Known {
            queue: &draft.queue,
            said: &draft.body,
            priority: draft.priority.get(),
            send_at: draft.send_at,
            ordering_key: draft.ordering_key.as_deref(),
            state: None,
            attempts: 0,
            failure: None,
            delivery: None,
        };
        let rest = serde_json::to_vec(&known.rest(setup, Some(&[]), veil)).unwrap_or_default();
        Unborn { rest, send_at: draft.send_at, expires_at: draft.expires_at }
    }

    /// The whole document, once the message is stored under this id.
    pub(crate) fn born(self, id: MessageId) -> Vec<u8> {
        let created_at = id.key().time();
        let head = Head {
            id,
            state: StateName::Pending.as_str(),
            expires_after: lifetime(self.expires_at, created_at),
            next_attempt_at: Some(self.send_at.unwrap_or(created_at)),
            created_at,
            updated_at: created_at,
        };
        let mut document = Vec::with_capacity(self.rest.len() + 256);
        join(&mut document, &head, &self.rest);
        document
    }
}

/// A message with its attempts.
pub(crate) fn story(story: &Story, setup: &Setup, veil: Veil) -> Vec<u8> {
    let message = &story.message;
    let known = Known {
        queue: &message.queue,
        said: &message.body,
        priority: message.priority.get(),
        send_at: message.send_at,
        ordering_key: message.ordering_key.as_deref(),
        state: Some(&story.state),
        attempts: story.progress.attempts,
        failure: story.attempts.iter().rev().find_map(|attempt| attempt.failure.as_ref()),
        delivery: story.delivery.as_ref(),
    };
    let rest = serde_json::to_vec(&known.rest(setup, Some(&story.attempts), veil)).unwrap_or_default();
    let head = stored_head(message.id, &story.state, message.expires_at, story.updated_at);
    let mut document = Vec::with_capacity(rest.len() + 256);
    join(&mut document, &head, &rest);
    document
}

/// A message as a list shows it: without its attempts.
pub(crate) fn line(document: &mut Vec<u8>, line: &Line, setup: &Setup, veil: Veil) {
    let message = &line.message;
    let known = Known {
        queue: &message.queue,
        said: &message.body,
        priority: message.priority.get(),
        send_at: message.send_at,
        ordering_key: message.ordering_key.as_deref(),
        state: Some(&line.state),
        attempts: line.progress.attempts,
        failure: line.last_failure.as_ref(),
        delivery: line.delivery.as_ref(),
    };
    let rest = serde_json::to_vec(&known.rest(setup, None, veil)).unwrap_or_default();
    join(document, &stored_head(message.id, &line.state, message.expires_at, line.updated_at), &rest);
}

fn stored_head(id: MessageId, state: &State, expires_at: Option<Time>, updated_at: Time) -> Head {
    let created_at = id.key().time();
    let next_attempt_at = match state {
        State::Pending { due } => Some(*due),
        _ => None,
    };
    Head {
        id,
        state: state.name().as_str(),
        expires_after: lifetime(expires_at, created_at),
        next_attempt_at,
        created_at,
        updated_at,
    }
}

/// Writes two objects as one.
fn join(document: &mut Vec<u8>, head: &Head, rest: &[u8]) {
    // Neither is ever empty, so a comma fits between them.
    if serde_json::to_writer(&mut *document, head).is_ok() && document.pop() == Some(b'}') {
        document.push(b',');
        document.extend_from_slice(rest.strip_prefix(b"{").unwrap_or(b"}"));
    }
}

/// Adds what another object says to a document that is one.
pub(crate) fn extend(document: &mut Vec<u8>, more: &impl Serialize) {
    let more = serde_json::to_vec(more).unwrap_or_default();
    if let Some(rest) = more.strip_prefix(b"{").filter(|rest| rest.len() > 1)
        && document.pop_if(|last| *last == b'}').is_some()
    {
        document.push(b',');
        document.extend_from_slice(rest);
    }
}

/// The time that a message was given, as the caller wrote it: the deadline was counted from the moment when the
/// request was checked, a little before the one when it was stored, so it is rounded to whole seconds.
fn lifetime(expires_at: Option<Time>, created_at: Time) -> Option<Span> {
    let exact = expires_at?.since(created_at);
    match exact >= Span::from_secs(10) {
        true => Some(Span::from_secs((exact.millis() + 500) / 1_000)),
        false => Some(exact),
    }
}

/// A JSON document as an answer.
pub(crate) fn answer(status: StatusCode, document: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(document));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(crate) fn ok(document: &impl Serialize) -> Result<Response, Problem> {
    let text = serde_json::to_vec(document).map_err(|_| Problem::internal())?;
    Ok(answer(StatusCode::OK, text))
}
