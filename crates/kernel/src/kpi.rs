//! How well it goes: figures against targets, from what was counted when it happened.
//!
//! There are two families. Messages are judged by whether and how soon they arrive; claims by what retries come to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Span;

/// Attempts by number: from the tenth on, they are counted together.
pub const NUMBERS: [&str; 10] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10+"];

/// Lengths of time, up to that long. What took longer than all of them is [`MORE`].
pub const WITHIN: [(&str, Span); 9] = [
    ("1s", Span::from_secs(1)),
    ("5s", Span::from_secs(5)),
    ("30s", Span::from_secs(30)),
    ("1m", Span::from_mins(1)),
    ("5m", Span::from_mins(5)),
    ("30m", Span::from_mins(30)),
    ("2h", Span::from_hours(2)),
    ("12h", Span::from_hours(12)),
    ("24h", Span::from_hours(24)),
];
pub const MORE: &str = "more";

/// Attempts of one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tries {
    pub made: u64,
    /// Messages that were sent by them.
    pub sent: u64,
    /// How long ago the attempts before them had ended, altogether.
    pub waited: Span,
}

/// What happened in some time, of some messages or claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub sent: u64,
    pub failed: u64,
    /// Those of the failed that were refused for good.
    pub permanent: u64,
    /// Those of the failed that had no attempt left.
    pub exhausted: u64,
    pub tries: [Tries; NUMBERS.len()],
    /// How many of the sent took how long.
    pub within: [u64; WITHIN.len() + 1],
    /// How long the sent took altogether.
    pub took: Span,
    pub decisions: Decisions,
}

/// What was decided of claims that others submit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Decisions {
    /// A retry, at a time.
    pub retry: u64,
    /// None: the error will not pass.
    pub permanent_error: u64,
    /// None: there were as many as the policy allows.
    pub max_retries_exceeded: u64,
}

impl Decisions {
    pub fn made(&self) -> u64 {
        self.retry + self.permanent_error + self.max_retries_exceeded
    }
}

impl Sums {
    /// Messages that came to an end of their own: not those that somebody cancelled.
    pub fn ended(&self) -> u64 {
        self.sent + self.failed
    }

    /// Messages that were sent after at least one retry.
    pub fn sent_after_retry(&self) -> u64 {
        self.tries[1..].iter().map(|tries| tries.sent).sum()
    }

    /// Messages that had a retry.
    pub fn retried(&self) -> u64 {
        self.tries[1].made
    }

    /// How long the sent took on average; nothing if there were none.
    pub fn mean(&self) -> Option<Span> {
        self.took.millis().checked_div(self.within.iter().sum()).map(Span::from_millis)
    }

    /// How long so much of the sent took at most (0.5 is the median), as far as the buckets tell: evenly spread within
    /// the one in which it lies. Nothing if there were none.
    pub fn quantile(&self, part: f64) -> Option<Span> {
        let all: u64 = self.within.iter().sum();
        let wanted = float(all) * part;
        let mut before = 0.0;
        for (nth, count) in self.within.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = float(*count);
            if before + count >= wanted {
                let from = if nth == 0 { Span::ZERO } else { WITHIN[nth - 1].1 };
                // Of what took longer than all of them, nobody knows how much longer.
                let until = WITHIN.get(nth).map_or(from, |(_, until)| *until);
                let width = Span::from_millis(until.millis() - from.millis());
                return Some(from + width.scaled(((wanted - before) / count).clamp(0.0, 1.0)));
            }
            before += count;
        }
        None
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts this high are nobody's")]
fn float(count: u64) -> f64 {
    count as f64
}

/// A part of a whole, from 0 to 1; nothing if there is no whole.
pub fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (float(part) / float(whole)).min(1.0))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "FigureFamily")]
pub enum Family {
    /// What is sent to people and systems.
    Messages,
    /// Claims that are submitted to health insurers, and decisions about such claims.
    Claims,
}

/// Over which time a figure is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "FigurePeriod")]
pub enum Period {
    Day,
    Week,
}

impl Period {
    pub fn span(self) -> Span {
        match self {
            Period::Day => Span::from_hours(24),
            Period::Week => Span::from_hours(7 * 24),
        }
    }
}

/// What a figure is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    Above(f64),
    AtLeast(f64),
    Below(f64),
    AtMost(f64),
}

impl Target {
    pub fn met(self, value: f64) -> bool {
        match self {
            Target::Above(target) => value > target,
            Target::AtLeast(target) => value >= target,
            Target::Below(target) => value < target,
            Target::AtMost(target) => value <= target,
        }
    }

    /// How it is compared, and with what.
    pub fn parts(self) -> (&'static str, f64) {
        match self {
            Target::Above(target) => (">", target),
            Target::AtLeast(target) => (">=", target),
            Target::Below(target) => ("<", target),
            Target::AtMost(target) => ("<=", target),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "FigureUnit")]
pub enum Unit {
    /// A part of a whole, from 0 to 1.
    Share,
    Seconds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kpi {
    /// Of the messages that ended, how many were sent.
    FinalDelivery,
    /// From acceptance, or the time that the message was to go, until it was sent.
    MeanTimeToDelivery,
    /// Of the messages whose first attempt failed, and that ended, how many were sent.
    Recovery,
    /// Of the messages that ended, how many failed.
    DefinitiveFailures,
    /// Of the claims that had a retry, how many were taken after it.
    RetrySuccess,
    /// From acceptance, or the time that the claim was to go, until it was taken.
    MeanTimeToSuccess,
    /// Of the claims that ended and the decisions that were made, how many were given up for an error that does not pass.
    PermanentErrors,
    /// Of the same, how many were given up since no attempt was left.
    ExhaustedRetries,
}

impl Kpi {
    pub const ALL: [Kpi; 8] = [
        Kpi::FinalDelivery,
        Kpi::MeanTimeToDelivery,
        Kpi::Recovery,
        Kpi::DefinitiveFailures,
        Kpi::RetrySuccess,
        Kpi::MeanTimeToSuccess,
        Kpi::PermanentErrors,
        Kpi::ExhaustedRetries,
    ];

    pub fn family(self) -> Family {
        match self {
            Kpi::FinalDelivery | Kpi::MeanTimeToDelivery | Kpi::Recovery | Kpi::DefinitiveFailures => {
                Family::Messages
            }
            _ => Family::Claims,
        }
    }

    pub fn unit(self) -> Unit {
        match self {
            Kpi::MeanTimeToDelivery | Kpi::MeanTimeToSuccess => Unit::Seconds,
            _ => Unit::Share,
        }
    }

    pub fn period(self) -> Period {
        match self {
            Kpi::PermanentErrors | Kpi::ExhaustedRetries => Period::Week,
            _ => Period::Day,
        }
    }

    pub fn target(self) -> Target {
        match self {
            Kpi::FinalDelivery => Target::Above(0.98),
            Kpi::MeanTimeToDelivery => Target::Below(Span::from_mins(5).seconds()),
            Kpi::Recovery => Target::Above(0.9),
            Kpi::DefinitiveFailures => Target::Below(0.02),
            Kpi::RetrySuccess => Target::AtLeast(0.8),
            Kpi::MeanTimeToSuccess => Target::AtMost(Span::from_hours(2).seconds()),
            Kpi::PermanentErrors => Target::Below(0.1),
            Kpi::ExhaustedRetries => Target::Below(0.05),
        }
    }

    /// What it comes to; nothing if nothing happened by which it could be told.
    pub fn of(self, sums: &Sums) -> Option<f64> {
        let judged = sums.ended() + sums.decisions.made();
        match self {
            Kpi::FinalDelivery => share(sums.sent, sums.ended()),
            Kpi::DefinitiveFailures => share(sums.failed, sums.ended()),
            Kpi::MeanTimeToDelivery | Kpi::MeanTimeToSuccess => sums.mean().map(Span::seconds),
            Kpi::Recovery => share(sums.sent_after_retry(), sums.sent_after_retry() + sums.failed),
            Kpi::RetrySuccess => share(sums.sent_after_retry(), sums.retried()),
            Kpi::PermanentErrors => share(sums.permanent + sums.decisions.permanent_error, judged),
            Kpi::ExhaustedRetries => share(sums.exhausted + sums.decisions.max_retries_exceeded, judged),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tries(made: [u64; 3], sent: [u64; 3]) -> [Tries; NUMBERS.len()] {
        let mut tries = [Tries::default(); NUMBERS.len()];
        for nth in 0..3 {
            tries[nth] = Tries { made: made[nth], sent: sent[nth], waited: Span::ZERO };
        }
        tries
    }

    fn check(kpi: Kpi, sums: Sums, value: f64, met: bool) {
        let found = kpi.of(&sums).unwrap();
        assert!((found - value).abs() < 1e-9, "{kpi:?} is {found}");
        assert_eq!(kpi.target().met(found), met, "{kpi:?} of {found}");
    }

    #[test] // REQ OB-3
    fn final_delivery_is_what_was_sent_of_what_ended() {
        check(Kpi::FinalDelivery, Sums { sent: 99, failed: 1, ..Sums::default() }, 0.99, true);
        check(Kpi::FinalDelivery, Sums { sent: 98, failed: 2, ..Sums::default() }, 0.98, false);
        check(Kpi::DefinitiveFailures, Sums { sent: 98, failed: 2, ..Sums::default() }, 0.02, false);
        check(Kpi::DefinitiveFailures, Sums { sent: 99, failed: 1, ..Sums::default() }, 0.01, true);
    }

    #[test] // REQ OB-3
    fn recovery_is_of_those_whose_first_attempt_failed() {
        let sums =
            Sums { sent: 1_000, failed: 1, tries: tries([1_000, 20, 5], [981, 15, 4]), ..Sums::default() };
        check(Kpi::Recovery, sums, 0.95, true);
        check(Kpi::Recovery, Sums { failed: 19, ..sums }, 0.5, false);
    }

    #[test] // REQ OB-3
    fn retry_success_is_of_those_that_had_a_retry() {
        // 100 submissions with a retry, 85 successes after it: 85 %.
        let sums = Sums { tries: tries([500, 100, 40], [400, 60, 25]), ..Sums::default() };
        check(Kpi::RetrySuccess, sums, 0.85, true);
        check(Kpi::RetrySuccess, Sums { tries: tries([500, 100, 40], [400, 60, 20]), ..sums }, 0.8, true);
        check(Kpi::RetrySuccess, Sums { tries: tries([500, 100, 40], [400, 60, 19]), ..sums }, 0.79, false);
        // What was retried before the time in question can make it more than all.
        check(Kpi::RetrySuccess, Sums { tries: tries([0, 1, 0], [0, 3, 0]), ..sums }, 1.0, true);
    }

    #[test] // REQ OB-3
    fn times_are_judged_on_average() {
        let sums = |mins| Sums {
            within: [0, 0, 0, 0, 2, 0, 0, 0, 0, 0],
            took: Span::from_mins(mins),
            ..Sums::default()
        };
        check(Kpi::MeanTimeToDelivery, sums(9), 270.0, true);
        check(Kpi::MeanTimeToDelivery, sums(10), 300.0, false);
        check(Kpi::MeanTimeToSuccess, sums(240), 7_200.0, true);
        check(Kpi::MeanTimeToSuccess, sums(241), 7_230.0, false);
    }

    #[test] // REQ OB-3
    fn claims_that_were_given_up_count_with_the_decisions_about_others() {
        let decisions = Decisions { retry: 80, permanent_error: 7, max_retries_exceeded: 3 };
        let sums = Sums { sent: 108, failed: 2, permanent: 1, exhausted: 1, decisions, ..Sums::default() };
        check(Kpi::PermanentErrors, sums, 0.04, true);
        check(Kpi::ExhaustedRetries, sums, 0.02, true);
        let worse = Sums { permanent: 13, exhausted: 7, ..sums };
        check(Kpi::PermanentErrors, worse, 0.1, false);
        check(Kpi::ExhaustedRetries, worse, 0.05, false);
    }

    #[test]
    fn where_nothing_happened_there_is_nothing_to_judge() {
        for kpi in Kpi::ALL {
            assert_eq!(kpi.of(&Sums::default()), None, "{kpi:?}");
        }
        assert_eq!((Sums::default().mean(), Sums::default().quantile(0.5)), (None, None));
    }

    #[test] // REQ OB-3
    fn quantiles_lie_within_their_buckets() {
        let sums = Sums { within: [50, 0, 40, 0, 0, 0, 0, 0, 0, 10], ..Sums::default() };
        let of = |part| sums.quantile(part).unwrap().millis();
        assert_eq!((of(0.25), of(0.5), of(0.7)), (500, 1_000, 17_500));
        assert_eq!((of(0.9), of(0.95)), (30_000, 86_400_000));
    }
}
