//! Policies tried on pretend outages before anybody trusts them.
//!
//! A [`Scenario`] is played as episodes of trouble with messages arriving all the while; every policy meets the same
//! ones. [`play`] counts what became of the messages that failed at first, [`Comparison`] plays a policy with and without
//! adaptive waits, [`Verdict`] holds the one against the other, and [`replay`] says what recorded retries can tell of a policy, and what they cannot.

mod comparison;
mod replay;
mod scenario;
mod stage;
mod wish;

#[cfg(test)]
mod tests;

pub use self::comparison::{Act, Comparison, Played, adaptive, fixed};
pub use self::replay::{Course, Moment, Replayed, replay};
pub use self::scenario::{Episode, Scenario, Trouble, episodes};
pub use self::stage::{Learning, foresight, play};
pub use self::wish::{BadWish, Lengths, Turns, Wrong};

use serde::Serialize;

use crate::time::Span;

/// Into how many slots of time the load on the provider is told.
pub const SLOTS: usize = 60;

/// What became of the messages whose first attempt failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// How many failed at first. Whatever passed at once is no concern of a retry policy.
    pub failed: u64,
    pub recovered: u64,
    /// Retries that failed.
    pub wasted: u64,
    /// Retries in all.
    pub retries: u64,
    /// The time from the first failure to success, shortest first.
    #[serde(skip)]
    pub times: Vec<Span>,
    /// Attempts of all messages by time since the trouble began; the last slot holds whatever is later.
    pub load: Vec<u64>,
    pub slot: Span,
    /// The shortest and longest wait that was chosen.
    pub waits: Option<(Span, Span)>,
}

impl Outcome {
    fn new(slot: Span) -> Outcome {
        Outcome {
            failed: 0,
            recovered: 0,
            wasted: 0,
            retries: 0,
            times: Vec::new(),
            load: vec![0; SLOTS],
            slot,
            waits: None,
        }
    }

    /// The share of failed messages that were delivered after all.
    pub fn share(&self) -> f64 {
        ratio(self.recovered, self.failed)
    }

    /// How many were never delivered.
    pub fn lost(&self) -> u64 {
        self.failed - self.recovered
    }

    /// Failed retries for each message that failed at first.
    pub fn wasted_each(&self) -> f64 {
        ratio(self.wasted, self.failed)
    }

    /// The time within which this share of all failed messages had recovered; nothing if fewer ever did.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub fn time_to(&self, share: f64) -> Option<Span> {
        let rank = (self.failed as f64 * share).ceil().max(1.0) as usize;
        self.times.get(rank - 1).copied()
    }

    /// The share of failed messages that had recovered by that time.
    pub fn by(&self, time: Span) -> f64 {
        let recovered = self.times.partition_point(|taken| *taken <= time);
        ratio(u64::try_from(recovered).unwrap_or(u64::MAX), self.failed)
    }

    /// The most attempts in one slot.
    pub fn peak(&self) -> u64 {
        self.load.iter().copied().max().unwrap_or(0)
    }
}

#[allow(clippy::cast_precision_loss)]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// How an adaptive policy did against the fixed one that it keeps to the bounds of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Recovers as many, with at least 30 % fewer failed retries and at least 30 % sooner.
    Both,
    /// Recovers as many, with at least 30 % fewer failed retries.
    LessWaste,
    /// Recovers as many, half of them at least 30 % sooner.
    Sooner,
    /// Recovers as many, but neither could be had within the bounds, even by one who knew when each outage ends.
    OutOfReach,
    /// Recovers as many, and no more than that.
    Alike,
    /// Recovers fewer.
    Worse,
}

impl Verdict {
    /// `best` is what one who knew everything could have done inside the same bounds, where that can be told.
    pub fn of(fixed: &Outcome, adaptive: &Outcome, best: Option<&Outcome>) -> Verdict {
        // All met the same messages, though fewer may fail at first where fewer retries crowd the provider.
        if adaptive.lost() > fixed.lost() {
            return Verdict::Worse;
        }
        match gains(fixed, adaptive) {
            (true, true) => Verdict::Both,
            (true, false) => Verdict::LessWaste,
            (false, true) => Verdict::Sooner,
            (false, false) if best.is_some_and(|best| gains(fixed, best) == (false, false)) => {
                Verdict::OutOfReach
            }
            (false, false) => Verdict::Alike,
        }
    }

    /// What was promised of adaptive waits.
    pub fn holds(self) -> bool {
        !matches!(self, Verdict::Alike | Verdict::Worse)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Both => "less waste, sooner",
            Verdict::LessWaste => "less waste",
            Verdict::Sooner => "sooner",
            Verdict::OutOfReach => "out of reach",
            Verdict::Alike => "alike",
            Verdict::Worse => "worse",
        }
    }
}

/// Whether one wastes 30 % less than the other, and whether half of its messages recover 30 % sooner.
fn gains(fixed: &Outcome, other: &Outcome) -> (bool, bool) {
    let less = fixed.wasted > 0 && other.wasted * 10 <= fixed.wasted * 7;
    let sooner = match (fixed.time_to(0.5), other.time_to(0.5)) {
        (Some(fixed), Some(other)) => other.millis() * 10 <= fixed.millis() * 7,
        (None, Some(_)) => true,
        _ => false,
    };
    (less, sooner)
}
