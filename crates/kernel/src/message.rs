//! A message: what was asked for, and where it stands.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::attachment::Blob;
use crate::id::MessageId;
use crate::name::{CampaignName, ChannelName, LaneName, Tenant};
use crate::policy::Overrides;
use crate::reply::Receipt;
use crate::time::Time;
use crate::trace;

/// A message that a door has checked and wants accepted. Its fields cannot hold invalid values.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// Given out beforehand, if it was; else made at acceptance.
    pub id: Option<MessageId>,
    pub queue: QueueName,
    pub priority: Priority,
    /// Not before this time; at once if none.
    pub send_at: Option<Time>,
    /// Given up if still unsent by then.
    pub expires_at: Option<Time>,
    pub ordering_key: Option<String>,
    pub idempotency: Option<Idempotency>,
    pub body: Body,
    /// Attachments that the content refers to.
    pub blobs: Vec<Blob>,
}

/// Whatever can make messages wait together belongs to one queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName {
    pub tenant: Tenant,
    pub lane: LaneName,
    pub channel: ChannelName,
    /// What a fault can be common to: a URL's host, an instance, an account, a relay, an operator.
    pub destination: Arc<str>,
    pub campaign: Option<CampaignName>,
}

/// What the caller said about a repeat: the same key and the same request are the same message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    pub key: String,
    /// A digest of the request, by which another request under the same key is noticed.
    pub fingerprint: [u8; 16],
}

/// The part of a message that no queue looks at, stored as one document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Body {
    pub to: String,
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The content for the channel's kind, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub content: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The version that it is rendered with, whatever is put later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_version: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub payload: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub metadata: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Overrides>,
    /// The trace that it came with, where traces are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Box<trace::Context>>,
}

/// Keeps a JSON `null` that is there apart from nothing at all.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// JSON kept as the text that it came as.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<serde_json::value::RawValue>);

impl Json {
    pub fn from_text(text: String) -> Result<Json, serde_json::Error> {
        serde_json::value::RawValue::from_string(text).map(Json)
    }

    pub fn from_value(value: &serde_json::Value) -> Json {
        Json(serde_json::value::to_raw_value(value).expect("a JSON value is always writable"))
    }

    pub fn text(&self) -> &str {
        self.0.get()
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Json {
        Json::from_value(&value)
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Json) -> bool {
        self.text() == other.text()
    }
}

/// 0 to 9; 9 goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Priority(u8);

impl Priority {
    pub const HIGHEST: Priority = Priority(9);

    pub fn new(value: u8) -> Option<Priority> {
        (value <= 9).then_some(Priority(value))
    }

    pub fn get(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Priority {
        Priority(5)
    }
}

/// Where a message stands. Each state carries exactly its own data.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    Pending { due: Time },
    Sending { claim: ClaimId, since: Time },
    Sent { at: Time, receipt: Receipt },
    Failed { at: Time, reason: FailureReason },
    Cancelled { at: Time, by: Actor },
    Discarded { at: Time, by: Actor },
}

impl State {
    pub fn name(&self) -> StateName {
        match self {
            State::Pending { .. } => StateName::Pending,
            State::Sending { .. } => StateName::Sending,
            State::Sent { .. } => StateName::Sent,
            State::Failed { .. } => StateName::Failed,
            State::Cancelled { .. } => StateName::Cancelled,
            State::Discarded { .. } => StateName::Discarded,
        }
    }

    /// When it came to its end, if it has.
    pub fn ended_at(&self) -> Option<Time> {
        match self {
            State::Pending { .. } | State::Sending { .. } => None,
            State::Sent { at, .. }
            | State::Failed { at, .. }
            | State::Cancelled { at, .. }
            | State::Discarded { at, .. } => Some(*at),
        }
    }
}

macro_rules! slugs {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $code:literal $slug:literal,)* }) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "snake_case")]
        $(#[$doc])*
        pub enum $name { $($(#[$vdoc])* $variant = $code,)* }

        impl $name {
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $slug,)* }
            }

            /// The number under which stores and audit records keep it; never reused for another meaning.
            pub fn code(self) -> u8 {
                self as u8
            }

            pub fn from_code(code: u8) -> Option<$name> {
                $name::ALL.iter().copied().find(|it| it.code() == code)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

pub(crate) use slugs;

slugs! {
    /// The six states, by name.
    StateName {
        Pending = 1 "pending",
        Sending = 2 "sending",
        Sent = 3 "sent",
        Failed = 4 "failed",
        Cancelled = 5 "cancelled",
        Discarded = 6 "discarded",
    }
}

slugs! {
    /// Why a message is a dead letter.
    FailureReason {
        PermanentError = 1 "permanent_error",
        MaxRetriesExceeded = 2 "max_retries_exceeded",
        Expired = 3 "expired",
        OutcomeUnknown = 4 "outcome_unknown",
    }
}

slugs! {
    /// How one attempt ended, as it is shown in a message's history.
    AttemptOutcome {
        Sent = 1 "sent",
        /// Failed; another attempt follows.
        Retry = 2 "retry",
        /// Failed, and with it the message.
        Failed = 3 "failed",
        /// A fault of ours, or a destination that is known to be down: the message waits, and this attempt does not
        /// count.
        Held = 4 "held",
    }
}

/// Who did it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Actor(pub String);

impl Actor {
    /// Pombo itself.
    pub fn engine() -> Actor {
        Actor("pombo".into())
    }
}

/// One exclusive hold on a batch of messages. Never given out twice, so it fences off stale holders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId(pub i64);

/// Shown with every settlement: this message, under this claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimKey {
    pub message: MessageId,
    pub claim: ClaimId,
}

/// How far a message has come in its present round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Progress {
    /// Rounds so far: 0 since acceptance, one more with each reprocessing.
    pub round: u16,
    /// Attempts that counted in this round.
    pub attempts: u16,
    /// Attempts in a row that ended with the death of the sender.
    pub crashes: u16,
    /// Everything that ever happened to it after acceptance, counted or not.
    pub steps: u32,
    /// Some attempt since acceptance failed and may have been sent all the same.
    pub doubtful: bool,
    /// The round whose key the provider is shown: an earlier one while nobody knows what came of that.
    pub keyed: u16,
}

/// An accepted message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub id: MessageId,
    pub queue: Arc<QueueName>,
    pub priority: Priority,
    pub send_at: Option<Time>,
    pub expires_at: Option<Time>,
    pub ordering_key: Option<String>,
    pub body: Body,
}

impl Message {
    pub fn created_at(&self) -> Time {
        self.id.key().time()
    }
}

/// One try and its outcome, as it is kept and shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    pub round: u16,
    pub number: u16,
    pub started_at: Time,
    pub finished_at: Time,
    pub outcome: AttemptOutcome,
    pub failure: Option<AttemptFailure>,
    /// The wait before the next attempt, where there is one.
    pub next_delay: Option<crate::time::Span>,
    /// In plain words: what was decided and why.
    pub explanation: String,
    /// The policy that applied, in one line, where something had to be decided by it.
    pub policy: Option<String>,
}

/// What went wrong in an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptFailure {
    pub verdict: crate::classify::Verdict,
    pub category: String,
    /// The provider's code: an HTTP status, an SMTP code with its enhanced one, an error name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The provider's words, bounded.
    pub text: String,
    /// It may have been sent all the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub perhaps_sent: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}
