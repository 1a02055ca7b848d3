//! Dead letters: what waits for an operator, by its cause, and what an operator can do about it.

use std::fmt;
use std::str::FromStr;

use pombo_kernel::attachment::Blob;
use pombo_kernel::cause;
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Actor, AttemptFailure, Body, FailureReason, QueueName, State, StateName};
use pombo_kernel::name::{ChannelName, Tenant};
use pombo_kernel::time::Time;
use sha2::{Digest, Sha256};

use crate::Line;
use crate::shelf::{Doc, Shelve};

/// What many dead letters have in common: tenant, channel, category and the error without what differs from message
/// to message. Written `cause_` and 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CauseId(pub i64);

impl fmt::Display for CauseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cause_{:016x}", self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a cause; it looks like cause_0123456789abcdef")]
pub struct BadCauseId;

impl FromStr for CauseId {
    type Err = BadCauseId;
    fn from_str(text: &str) -> Result<CauseId, BadCauseId> {
        let digits = text.strip_prefix("cause_").filter(|digits| digits.len() == 16).ok_or(BadCauseId)?;
        let known = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bits = u64::from_str_radix(digits, 16).ok().filter(|_| known).ok_or(BadCauseId)?;
        Ok(CauseId(i64::from_ne_bytes(bits.to_ne_bytes())))
    }
}

/// A cause, before anybody has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub id: CauseId,
    pub category: String,
    pub text: String,
}

impl Cause {
    /// The cause of a message that failed for that reason, the last attempt with that failure if there was any.
    pub fn of(queue: &QueueName, reason: FailureReason, failure: Option<&AttemptFailure>) -> Cause {
        // What expired says more by that than by the last attempt, which passed the time.
        let failure = failure.filter(|_| reason != FailureReason::Expired);
        let category = failure.map_or_else(|| reason.as_str().to_owned(), |failure| failure.category.clone());
        let text = failure.map(|failure| cause::normalised(&failure.text)).unwrap_or_default();
        let mut digest = Sha256::new();
        for part in [queue.tenant.as_str(), queue.channel.as_str(), &category, &text] {
            digest.update(part.len().to_le_bytes());
            digest.update(part.as_bytes());
        }
        let digest: [u8; 32] = digest.finalize().into();
        let [a, b, c, d, e, f, g, h, ..] = digest;
        Cause { id: CauseId(i64::from_le_bytes([a, b, c, d, e, f, g, h])), category, text }
    }
}

/// The cause of a dead letter.
pub fn cause_of(line: &Line) -> Option<Cause> {
    let State::Failed { reason, .. } = line.state else { return None };
    Some(Cause::of(&line.message.queue, reason, line.last_failure.as_ref()))
}

/// Dead letters of one cause.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub id: CauseId,
    pub channel: ChannelName,
    pub category: String,
    /// The error, without what differs from message to message.
    pub text: String,
    pub count: u64,
    /// The newest of them, to look at, and when it failed.
    pub newest: MessageId,
    pub last_at: Time,
    /// When the oldest of them failed.
    pub first_at: Time,
}

/// What an operator decides about dead letters.
#[derive(Clone, Debug, PartialEq)]
pub struct Ruling {
    pub tenant: Tenant,
    pub ids: Vec<MessageId>,
    pub act: Act,
    pub by: Actor,
    pub note: Option<String>,
    /// Changes with the messages, or nothing does.
    pub with: Option<Shelve>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A new round: due at once, behind whoever waits under its ordering key, with a deadline as long after now as the
    /// last one was after the round's start, and without what the provider reported before. The key that the provider
    /// is shown stays while the last round's outcome is unknown and the message says the same; else it is a new one.
    Reprocess,
    /// Given up for good.
    Discard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruled {
    Done,
    NotFound,
    /// It is in this state, so there is nothing to decide.
    NotDead(StateName),
}

/// What came of a ruling: of each message, or that the document it depends on has changed.
pub type Verdicts = Result<Vec<Ruled>, Option<Box<Doc>>>;

/// A dead letter put right. What it says until then is kept as an earlier version.
#[derive(Clone, Debug, PartialEq)]
pub struct Edit {
    pub tenant: Tenant,
    pub id: MessageId,
    /// The version that the editor saw.
    pub version: u32,
    pub queue: QueueName,
    pub body: Body,
    pub blobs: Vec<Blob>,
    pub by: Actor,
    pub note: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edited {
    Done {
        version: u32,
    },
    NotFound,
    NotDead(StateName),
    /// Somebody else has edited it meanwhile.
    Stale {
        version: u32,
    },
}

/// What somebody did to a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Deed {
    pub at: Time,
    pub what: What,
    pub by: Actor,
    pub note: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Cancelled,
    Reprocessed,
    Discarded,
}

impl What {
    pub fn as_str(self) -> &'static str {
        match self {
            What::Cancelled => "cancelled",
            What::Reprocessed => "reprocessed",
            What::Discarded => "discarded",
        }
    }
}

/// What a message said before an edit.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// From 1 on: the version that this is.
    pub version: u32,
    pub body: Body,
    /// When it was replaced, by whom, and why.
    pub replaced_at: Time,
    pub by: Actor,
    pub note: Option<String>,
}

/// What came of the wish to send a waiting message now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hastened {
    /// It is due now, if it was not before.
    Done,
    NotFound,
    /// It does not wait.
    NotWaiting(StateName),
}
