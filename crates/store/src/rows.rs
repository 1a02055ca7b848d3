//! What every SQL store writes and reads the same way, whatever its dialect.

use pombo_kernel::id::MessageKey;
use pombo_kernel::lifecycle;
use pombo_kernel::message::{
    Actor, Attempt, AttemptFailure, AttemptOutcome, Body, FailureReason, Json, Message, Progress, State,
    StateName,
};
#[cfg(feature = "planted")]
use pombo_kernel::planted::{self, Bug};
use pombo_kernel::policy::Overrides;
use pombo_kernel::reply::Receipt;
use pombo_kernel::time::{Span, Time};
use pombo_kernel::trace;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::StoreError;
use crate::board::QueueId;
use crate::dead::{Deed, What};
use crate::vault::{Spot, Vault};

pub(crate) fn json<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Broken(error.to_string()))
}

/// A number as databases keep it.
pub(crate) fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A body without what has a column of its own, borrowed: this is written for every message.
#[derive(Serialize)]
struct Bare<'a> {
    to: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    template_version: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<&'a Overrides>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a trace::Context>,
}

impl Bare<'_> {
    fn of(body: &Body) -> Bare<'_> {
        // By name, so that a field that is added to bodies is thought of here.
        let Body {
            to,
            kind: _,
            content,
            template: _,
            template_version,
            payload,
            reference: _,
            user_id,
            metadata,
            retry,
            trace,
        } = body;
        Bare {
            to,
            content: content.as_ref(),
            template_version: *template_version,
            payload: payload.as_ref(),
            user_id: user_id.as_deref(),
            metadata: metadata.as_ref(),
            retry: retry.as_ref(),
            trace: trace.as_deref(),
        }
    }
}

/// The body as it is stored: what has a column of its own is left out.
pub(crate) fn body(vault: &Vault, key: MessageKey, body: &Body) -> Result<Vec<u8>, StoreError> {
    let bytes = serde_json::to_vec(&Bare::of(body)).map_err(|error| StoreError::Broken(error.to_string()))?;
    Ok(vault.seal(&Spot::Body(key), bytes).into_owned())
}

/// A message with what the store knows of it besides.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) message: Message,
    pub(crate) queue: QueueId,
    /// Of the first attempt.
    pub(crate) due: Time,
}

impl Stored {
    /// When it came into its state.
    pub(crate) fn updated_at(&self, state: &State, last: Option<&Step>) -> Time {
        match state {
            State::Sending { since, .. } => *since,
            _ => last.map_or(self.message.created_at(), |step| step.finished_at),
        }
    }
}

pub(crate) const CANCELLED: u8 = 10;
pub(crate) const EXPIRED: u8 = 11;
pub(crate) const DISCARDED: u8 = 12;
pub(crate) const REPROCESSED: u8 = 13;

/// How a waiting message ends without an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// And why, if anything is said of that.
    Cancelled(Actor, Option<String>),
    Expired,
}

/// One row of a message's history.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) outcome: u8,
    pub(crate) number: u16,
    pub(crate) progress: Progress,
    pub(crate) started_at: Time,
    pub(crate) finished_at: Time,
    pub(crate) reason: Option<FailureReason>,
    pub(crate) next_due: Option<Time>,
    pub(crate) delay: Option<Span>,
    pub(crate) failure: Option<AttemptFailure>,
    pub(crate) receipt: Option<Receipt>,
    pub(crate) explanation: Option<String>,
    pub(crate) actor: Option<String>,
    pub(crate) policy: Option<String>,
}

impl Step {
    /// The state in which this step left the message for good, if it did.
    pub(crate) fn ending(&self) -> Option<StateName> {
        self.state().map(|state| state.name())
    }

    pub(crate) fn state(&self) -> Option<State> {
        let at = self.finished_at;
        let by = || Actor(self.actor.clone().unwrap_or_default());
        match (self.outcome, AttemptOutcome::from_code(self.outcome)) {
            (_, Some(AttemptOutcome::Sent)) => {
                Some(State::Sent { at, receipt: self.receipt.clone().unwrap_or_default() })
            }
            (_, Some(AttemptOutcome::Failed)) | (EXPIRED, _) => {
                Some(State::Failed { at, reason: self.reason.unwrap_or(FailureReason::PermanentError) })
            }
            (CANCELLED, _) => Some(State::Cancelled { at, by: by() }),
            (DISCARDED, _) => Some(State::Discarded { at, by: by() }),
            _ => None,
        }
    }

    /// What somebody did by this step, if it was that.
    pub(crate) fn deed(&self) -> Option<Deed> {
        let what = match self.outcome {
            CANCELLED => What::Cancelled,
            DISCARDED => What::Discarded,
            REPROCESSED => What::Reprocessed,
            _ => return None,
        };
        let by = Actor(self.actor.clone().unwrap_or_default());
        Some(Deed { at: self.finished_at, what, by, note: self.explanation.clone() })
    }

    /// The attempt that this step was, if it was one.
    pub(crate) fn attempt(self) -> Option<Attempt> {
        let outcome = AttemptOutcome::from_code(self.outcome)?;
        Some(Attempt {
            round: self.progress.round,
            number: self.number,
            started_at: self.started_at,
            finished_at: self.finished_at,
            outcome,
            failure: self.failure,
            next_delay: self.delay,
            explanation: self.explanation.unwrap_or_else(|| lifecycle::accepted(self.number)),
            policy: self.policy,
        })
    }
}

/// What a dead letter was when its last round ended.
pub(crate) struct Round {
    pub(crate) progress: Progress,
    pub(crate) reason: FailureReason,
    /// Since when the round was, which ended so.
    pub(crate) since: Time,
    /// It says something else since the round ended.
    pub(crate) edited: bool,
}

impl Round {
    /// How far the message is in its next one.
    pub(crate) fn next(&self) -> Progress {
        let round = self.progress.round.saturating_add(1);
        let keeps_key = self.reason == FailureReason::OutcomeUnknown && !self.edited;
        #[cfg(feature = "planted")]
        let keeps_key = keeps_key && !planted::is(Bug::KeyForgotten);
        let attempts = 0;
        #[cfg(feature = "planted")]
        let attempts = if planted::is(Bug::AttemptsKept) { self.progress.attempts } else { attempts };
        Progress {
            round,
            attempts,
            crashes: 0,
            steps: self.progress.steps.saturating_add(1),
            doubtful: self.progress.doubtful,
            keyed: if keeps_key { self.progress.keyed } else { round },
        }
    }

    /// As long after the next one's start as the deadline was after this one's.
    pub(crate) fn renewed(&self, deadline: Time, now: Time) -> Time {
        #[cfg(feature = "planted")]
        if planted::is(Bug::DeadlineKept) {
            return deadline;
        }
        now + deadline.since(self.since)
    }
}

/// Bytes of one member in a journal row: key, due, steps.
pub(crate) const MEMBER: usize = 20;

pub(crate) fn push_member(members: &mut Vec<u8>, key: MessageKey, due: Time, steps: u32) {
    members.extend(key.0.to_le_bytes());
    members.extend(due.millis().to_le_bytes());
    members.extend(steps.to_le_bytes());
}

pub(crate) fn members(bytes: &[u8]) -> impl Iterator<Item = (MessageKey, Time, u32)> {
    let number = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().unwrap_or_default());
    bytes.chunks_exact(MEMBER).map(move |member| {
        let steps = u32::from_le_bytes([member[16], member[17], member[18], member[19]]);
        (MessageKey(number(&member[..8])), Time::from_millis(number(&member[8..16])), steps)
    })
}

/// What stands for a text of somebody's in an index: as short as a number, and of no use to whoever finds it.
pub(crate) fn keyed_hash(secret: &[u8; 32], whose: &str, text: &str) -> i64 {
    let mut hash = Sha256::new();
    hash.update(secret);
    hash.update(whose);
    hash.update([0]);
    hash.update(text);
    let digest: [u8; 32] = hash.finalize().into();
    i64::from_le_bytes(digest[..8].try_into().expect("a digest has 32 bytes"))
}

/// What stands for texts of any length in an index: SHA-256 over the parts, each after its length, so that no two
/// lists of parts are the same bytes.
pub(crate) fn digest(parts: &[&str]) -> Vec<u8> {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_stored_as_it_is_but_for_what_has_a_column() {
        let json = |text: &str| Some(Json::from_text(text.to_owned()).unwrap());
        let full = Body {
            to: "ana@example.com".to_owned(),
            kind: Some("invoice".to_owned()),
            content: json(r#"{"body":{"i": 1}}"#),
            template: Some("welcome".to_owned()),
            template_version: Some(3),
            payload: json("null"),
            reference: Some("order 7".to_owned()),
            user_id: Some("u1".to_owned()),
            metadata: json(r#"{"é":"\u0000"}"#),
            retry: Some(Overrides { attempts: Some(2), ..Overrides::default() }),
            trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
                .to_owned()
                .try_into()
                .ok()
                .map(Box::new),
        };
        assert!(full.trace.is_some());
        for given in [Body::default(), full] {
            let bare = Body { kind: None, template: None, reference: None, ..given.clone() };
            let stored = body(&Vault::blind(), MessageKey(1), &given).unwrap();
            assert_eq!(stored, serde_json::to_vec(&bare).unwrap());
            assert_eq!(serde_json::from_slice::<Body>(&stored).unwrap(), bare);
        }
    }
}
