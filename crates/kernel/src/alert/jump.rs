//! A clock that was set: the time of day moved, and no time had passed.

use std::time::Duration;

use crate::time::{Span, Time};

/// What a clock shows at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    pub time: Time,
    /// How long ago some moment was that stays the same, whoever sets the clock.
    pub elapsed: Duration,
}

/// How far the time of day has moved beyond what has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jump {
    Ahead(Span),
    Back(Span),
}

impl Jump {
    /// What happened to the clock between two readings of it; nothing if it just went on.
    pub fn between(earlier: Reading, later: Reading) -> Option<Jump> {
        let millis = |passed: Duration| i64::try_from(passed.as_millis()).unwrap_or(i64::MAX);
        let passed = millis(later.elapsed).saturating_sub(millis(earlier.elapsed));
        let moved = later.time.millis().saturating_sub(earlier.time.millis()).saturating_sub(passed);
        let span = Span::from_millis(moved.unsigned_abs());
        match moved {
            0 => None,
            1.. => Some(Jump::Ahead(span)),
            _ => Some(Jump::Back(span)),
        }
    }

    pub fn span(self) -> Span {
        match self {
            Jump::Ahead(span) | Jump::Back(span) => span,
        }
    }

    /// Time that was left out.
    pub fn leapt(self) -> Span {
        match self {
            Jump::Ahead(span) => span,
            Jump::Back(_) => Span::ZERO,
        }
    }

    /// What the time would be without it.
    pub fn undone(self, now: Time) -> Time {
        match self {
            Jump::Ahead(span) => now - span,
            Jump::Back(span) => now + span,
        }
    }

    /// What an alert of it is about.
    pub fn as_str(self) -> &'static str {
        match self {
            Jump::Ahead(_) => "clock-ahead",
            Jump::Back(_) => BACK,
        }
    }
}

/// What an alert is about whose clock went back.
pub(super) const BACK: &str = "clock-back";

#[cfg(test)]
mod tests {
    use super::*;

    fn check(moved_ms: i64, passed_ms: u64, jump: Option<Jump>) {
        let reading = |time, elapsed| Reading {
            time: Time::from_millis(time),
            elapsed: Duration::from_millis(elapsed),
        };
        let (earlier, later) = (reading(1_000_000, 70), reading(1_000_000 + moved_ms, 70 + passed_ms));
        assert_eq!(Jump::between(earlier, later), jump, "{moved_ms} in {passed_ms}");
    }

    #[test]
    fn what_the_time_moved_beyond_what_passed_is_a_jump() {
        let day = 24 * 3_600_000;
        check(10_000, 10_000, None);
        check(10_000 + day, 10_000, Some(Jump::Ahead(Span::from_hours(24))));
        check(10_000 - day, 10_000, Some(Jump::Back(Span::from_hours(24))));
        check(0, 10_000, Some(Jump::Back(Span::from_secs(10))));
        check(i64::MIN, u64::MAX - 70, Some(Jump::Back(Span::from_millis(i64::MIN.unsigned_abs()))));
    }

    #[test]
    fn undone_it_is_the_time_that_would_have_been() {
        let now = Time::from_millis(1_800_000_000_000);
        let hour = Span::from_hours(1);
        assert_eq!(Jump::Ahead(hour).undone(now), now - hour);
        assert_eq!(Jump::Back(hour).undone(now), now + hour);
    }
}
