//! The audit record of each transition, made in one place so that every store writes the same words.
//!
//! A record's detail is a JSON object of what the other fields do not say: `attempt` and `round` number the
//! attempt; `verdict` and `category` say what was wrong; `due` is when the message may next be sent, in
//! milliseconds since the epoch; `reason` is why it failed or was given up, or why a block stands. What does not apply is left
//! out. `delivery` is how far the provider reports a sent message to have come, `before` what it had reported until
//! then. Recipients and payloads stay out of the audit, and every text from outside is bounded.

use pombo_kernel::block::{Block, BlockKind};
use pombo_kernel::classify::Verdict;
use pombo_kernel::delivery::{Delivery, LastWord};
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{Actor, FailureReason, Message, StateName};
use pombo_kernel::name::{TemplateName, Tenant};
use pombo_kernel::time::Time;
use serde::Serialize;

use crate::audit::{Event, Line, Record};
use crate::vault::rekeying::Rekeyed;
use crate::{Pause, Place, Settlement};

/// The longest text from outside that a record keeps, in bytes. The rest stands with the message or the block.
const TEXT_MAX: usize = 1_000;

/// What acts when no operator does.
const ENGINE: &str = "pombo";

#[derive(Default, Serialize)]
struct Detail<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    round: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<Verdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Delivery>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery: Option<Delivery>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<BlockKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    template: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<u64>,
}

impl Detail<'_> {
    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| NOTHING.to_owned())
    }
}

const NOTHING: &str = "{}";

/// None → pending.
pub fn accepted(message: &Message, at: Time) -> Record {
    acceptance(message, at).into()
}

/// The same, borrowed.
pub(crate) fn acceptance(message: &Message, at: Time) -> Line<'_> {
    let line = line(Event::Accepted, message, StateName::Pending, StateName::Pending, at);
    match message.send_at.filter(|due| *due > at) {
        Some(due) => {
            let detail = Detail { due: Some(due.millis()), ..Detail::default() };
            Line { from: None, detail: detail.text().into(), ..line }
        }
        None => Line { from: None, ..line },
    }
}

/// Pending → sending.
pub fn claimed(message: &Message, at: Time) -> Record {
    claim(message, at).into()
}

/// The same, borrowed.
pub(crate) fn claim(message: &Message, at: Time) -> Line<'_> {
    line(Event::Claimed, message, StateName::Pending, StateName::Sending, at)
}

/// Sending → sending, under another claim.
pub fn taken_over(message: &Message, at: Time) -> Record {
    step(Event::TakenOver, message, StateName::Sending, StateName::Sending, at)
}

/// Sending → sent, failed, or back to pending.
pub fn settled(message: &Message, settlement: &Settlement, at: Time) -> Record {
    settling(message, settlement, at).into()
}

/// The same, borrowed.
pub(crate) fn settling<'a>(message: &'a Message, settlement: &Settlement, at: Time) -> Line<'a> {
    let attempt = &settlement.attempt;
    let (event, to, due, reason) = match &settlement.next {
        Next::Sent(_) => (Event::Sent, StateName::Sent, None, None),
        Next::Retry { due, .. } => (Event::RetryScheduled, StateName::Pending, Some(*due), None),
        Next::Failed(reason) => (Event::Failed, StateName::Failed, None, Some(reason.as_str())),
        Next::Held { due } => (Event::Held, StateName::Pending, Some(*due), None),
    };
    let failure = attempt.failure.as_ref();
    let detail = Detail {
        attempt: Some(attempt.number),
        round: Some(attempt.round),
        verdict: failure.map(|failure| failure.verdict),
        category: failure.map(|failure| clipped(&failure.category)),
        due: due.map(Time::millis),
        reason,
        ..Detail::default()
    };
    Line { detail: detail.text().into(), ..line(event, message, StateName::Sending, to, at) }
}

/// Sending → pending, due at once, as if it had not been claimed.
pub fn released(message: &Message, at: Time) -> Record {
    step(Event::Released, message, StateName::Sending, StateName::Pending, at)
}

/// Sent → sent, and the provider says more of it. What it says in words stays with the message.
pub fn reported(message: &Message, before: Option<Delivery>, word: &LastWord, at: Time) -> Record {
    let detail = Detail { before, delivery: Some(word.state), ..Detail::default() };
    let record = step(Event::Delivery, message, StateName::Sent, StateName::Sent, at);
    Record { detail: detail.text(), ..record }
}

/// Pending → cancelled.
pub fn cancelled(message: &Message, by: &Actor, note: Option<&str>, at: Time) -> Record {
    let detail = Detail { reason: note.map(clipped), ..Detail::default() };
    let record = step(Event::Cancelled, message, StateName::Pending, StateName::Cancelled, at);
    Record { actor: clipped(&by.0).to_owned(), detail: detail.text(), ..record }
}

/// Failed → pending, in that round.
pub fn reprocessed(message: &Message, round: u16, by: &Actor, note: Option<&str>, at: Time) -> Record {
    let detail = Detail { round: Some(round), reason: note.map(clipped), ..Detail::default() };
    let record = step(Event::Reprocessed, message, StateName::Failed, StateName::Pending, at);
    Record { actor: clipped(&by.0).to_owned(), detail: detail.text(), ..record }
}

/// Failed → discarded.
pub fn discarded(message: &Message, by: &Actor, note: Option<&str>, at: Time) -> Record {
    let detail = Detail { reason: note.map(clipped), ..Detail::default() };
    let record = step(Event::Discarded, message, StateName::Failed, StateName::Discarded, at);
    Record { actor: clipped(&by.0).to_owned(), detail: detail.text(), ..record }
}

/// Failed → failed, and it says something else from now on.
pub fn edited(message: &Message, version: u32, by: &Actor, note: Option<&str>, at: Time) -> Record {
    let detail = Detail { version: Some(version), reason: note.map(clipped), ..Detail::default() };
    let record = step(Event::Edited, message, StateName::Failed, StateName::Failed, at);
    Record { actor: clipped(&by.0).to_owned(), detail: detail.text(), ..record }
}

/// Pending → pending, due now.
pub fn hastened(message: &Message, by: &Actor, at: Time) -> Record {
    let detail = Detail { due: Some(at.millis()), ..Detail::default() };
    let record = step(Event::Hastened, message, StateName::Pending, StateName::Pending, at);
    Record { actor: clipped(&by.0).to_owned(), detail: detail.text(), ..record }
}

/// An act that concerns no message: `detail` is a JSON object that says the rest, without anything personal or secret.
pub fn act_of(event: Event, tenant: &Tenant, by: &Actor, detail: &serde_json::Value, at: Time) -> Record {
    Record { tenant: tenant.as_str().to_owned(), detail: detail.to_string(), ..of_the_store(event, by, at) }
}

/// The same for an act that concerns everybody.
pub fn of_everybody(event: Event, by: &Actor, detail: &serde_json::Value, at: Time) -> Record {
    Record { detail: detail.to_string(), ..of_the_store(event, by, at) }
}

/// Pending → failed, past its deadline.
pub fn expired(message: &Message, at: Time) -> Record {
    let detail = Detail { reason: Some(FailureReason::Expired.as_str()), ..Detail::default() };
    Record {
        detail: detail.text(),
        ..step(Event::Expired, message, StateName::Pending, StateName::Failed, at)
    }
}

/// A block stands in front of a place that had none, or an operator put one there.
pub fn blocked(place: &Place, block: &Block, by: &Actor, at: Time) -> Record {
    let detail = Detail {
        reason: Some(clipped(&block.reason)),
        destination: place.destination.as_deref().map(clipped),
        kind: Some(block.kind),
        until: block.until.map(Time::millis),
        ..Detail::default()
    };
    Record { detail: detail.text(), ..act(Event::Blocked, place, by, at) }
}

/// Nothing stands in front of the place any more.
pub fn unblocked(place: &Place, by: &Actor, at: Time) -> Record {
    let detail = Detail { destination: place.destination.as_deref().map(clipped), ..Detail::default() };
    Record { detail: detail.text(), ..act(Event::Unblocked, place, by, at) }
}

/// Nothing is sent from now on.
pub fn paused(pause: &Pause, by: &Actor) -> Record {
    let detail = Detail { reason: Some(clipped(&pause.why)), ..Detail::default() };
    Record { detail: detail.text(), ..of_the_store(Event::Paused, by, pause.since) }
}

/// Everything goes on.
pub fn resumed(by: &Actor, at: Time) -> Record {
    of_the_store(Event::Resumed, by, at)
}

/// What is personal is sealed with that key from now on, or with none.
pub fn rekeyed(rekeyed: &Rekeyed, by: &Actor, at: Time) -> Record {
    let detail = Detail {
        key: Some(rekeyed.key.as_deref().unwrap_or("none")),
        changed: Some(rekeyed.changed),
        ..Detail::default()
    };
    Record { detail: detail.text(), ..of_the_store(Event::Rekeyed, by, at) }
}

/// An act that concerns every channel and everybody's messages.
fn of_the_store(event: Event, by: &Actor, at: Time) -> Record {
    Record {
        event,
        at,
        message: None,
        from: None,
        to: None,
        tenant: String::new(),
        channel: String::new(),
        actor: clipped(&by.0).to_owned(),
        detail: NOTHING.to_owned(),
    }
}

/// A template has another version from now on.
pub fn template_put(tenant: &Tenant, name: &TemplateName, version: u32, by: &Actor, at: Time) -> Record {
    let detail = Detail { template: Some(name.as_str()), version: Some(version), ..Detail::default() };
    Record {
        event: Event::TemplatePut,
        at,
        message: None,
        from: None,
        to: None,
        tenant: tenant.as_str().to_owned(),
        channel: String::new(),
        actor: clipped(&by.0).to_owned(),
        detail: detail.text(),
    }
}

fn step(event: Event, message: &Message, from: StateName, to: StateName, at: Time) -> Record {
    line(event, message, from, to, at).into()
}

fn line(event: Event, message: &Message, from: StateName, to: StateName, at: Time) -> Line<'_> {
    Line {
        event,
        at,
        message: Some(message.id),
        from: Some(from),
        to: Some(to),
        tenant: message.queue.tenant.as_str().into(),
        channel: message.queue.channel.as_str().into(),
        actor: ENGINE.into(),
        detail: NOTHING.into(),
    }
}

/// A block belongs to a channel, whoever's messages wait behind it: the tenant stays empty.
fn act(event: Event, place: &Place, by: &Actor, at: Time) -> Record {
    Record {
        event,
        at,
        message: None,
        from: None,
        to: None,
        tenant: String::new(),
        channel: place.channel.as_str().to_owned(),
        actor: clipped(&by.0).to_owned(),
        detail: NOTHING.to_owned(),
    }
}

fn clipped(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_MAX)]
}
