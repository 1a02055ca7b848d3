//! The wait that is most likely to help, inside a policy's bounds.
//!
//! [`Fit`] reads off a curve how failing ends: the chance that what has failed for so long passes before it has failed
//! for a little longer. [`choose`] goes through all the retries that are left, from the last to the first, and weighs
//! what may be lost for ever, the time that passes and the attempts that are spent for nothing. What it went by is an
//! [`Adapted`], small enough to be kept with the attempt; from it anybody can choose again and must come to the same.

mod fit;
mod memory;
mod plan;
mod record;

#[cfg(test)]
mod tests;

pub use self::fit::{Chances, Fit};
pub use self::memory::{Memory, Seen};
pub use self::plan::{Choice, Plan};
pub use self::record::{Adapted, BadRecord, Swing};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::backoff::{self, Wait};
use crate::dice::Dice;
use crate::learn::Counts;
use crate::policy::Policy;
use crate::time::{Span, Time};

/// Whether waits go by what was learned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Adaptive {
    /// By the policy alone.
    #[default]
    Off,
    /// By the policy, with a word on what would have been chosen.
    Advice,
    On,
}

impl Adaptive {
    fn said(self) -> serde_json::Value {
        match self {
            Adaptive::Off => false.into(),
            Adaptive::On => true.into(),
            Adaptive::Advice => "advice".into(),
        }
    }
}

/// `false`, `true` or `"advice"`.
impl Serialize for Adaptive {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.said().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Adaptive {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Adaptive, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Switch(bool),
            Word(String),
        }
        match Written::deserialize(deserializer) {
            Ok(Written::Switch(false)) => Ok(Adaptive::Off),
            Ok(Written::Switch(true)) => Ok(Adaptive::On),
            Ok(Written::Word(word)) if word == "advice" => Ok(Adaptive::Advice),
            _ => Err(de::Error::custom("true, false or \"advice\"")),
        }
    }
}

impl JsonSchema for Adaptive {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Adaptive".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "enum": [true, false, "advice"],
            "description": "true: waits go by what was learned, inside the policy's bounds; \"advice\": it is only said"
        })
    }
}

/// What is known when a wait is chosen, besides the message and its policy. Nothing, by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Past<'a> {
    /// When the first attempt of this round failed; nothing where the one that has just ended is the first.
    pub failing_since: Option<Time>,
    /// How failures of this kind have ended before.
    pub fit: Option<&'a Fit>,
}

/// What came of choosing.
#[derive(Clone, Debug, PartialEq)]
pub enum Advice {
    /// Too few retries are on record to go by.
    TooFew(Counts),
    Chosen(Adapted),
}

/// The shortest and the longest wait that may be chosen: the policy's shortest delay and its cap.
pub fn bounds(policy: &Policy) -> (Span, Span) {
    let least = policy.shortest();
    (least, policy.cap.max(policy.floor).max(least))
}

/// The waits of a round as the policy has them, without jitter, as far ahead as anybody plans.
pub fn schedule(policy: &Policy) -> Vec<Span> {
    let retries = (0..policy.attempts.saturating_sub(1)).take(plan::AHEAD);
    retries.map(|n| backoff::nominal(policy, n).max(policy.floor)).collect()
}

/// What to wait instead of `own`, the policy's wait after `attempts` of them, for a message that has been failing for
/// `elapsed` and is given up `until` from now.
pub fn advise(
    policy: &Policy,
    attempts: u16,
    own: &Wait,
    elapsed: Span,
    until: Option<Span>,
    fit: Option<&Fit>,
    dice: &mut Dice,
) -> Advice {
    let counts = fit.map(Fit::counts).unwrap_or_default();
    let Some(fit) = fit.filter(|_| counts.tried >= Counts::ENOUGH) else { return Advice::TooFew(counts) };
    let (least, most) = bounds(policy);
    Advice::Chosen(Adapted::new(record::Inputs {
        least,
        most,
        own: schedule(policy),
        instead_of: own.nominal.scaled(1.0 + own.swing).clamp(policy.floor, policy.cap.max(policy.floor)),
        left: policy.attempts.saturating_sub(attempts).max(1),
        elapsed,
        until,
        swing: Swing::rolled(policy, own, dice),
        counts,
        chances: fit.chances().clone(),
    }))
}
