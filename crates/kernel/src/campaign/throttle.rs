//! How fast a campaign goes, and how long it may take.

use serde::{Deserialize, Serialize};

use crate::time::Span;

/// From the end of one send to the start of the next, at least and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Seconds", into = "Seconds")]
pub struct Throttle {
    min: Span,
    max: Span,
}

/// As it is written: absent values are the defaults.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Seconds {
    #[serde(default)]
    throttle_min_seconds: Option<f64>,
    #[serde(default)]
    throttle_max_seconds: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum BadThrottle {
    #[error(
        "throttle_min_seconds must be at least {FLOOR_SECONDS}: a line that sends faster is soon blocked"
    )]
    TooFast,
    #[error("throttle_max_seconds must not be less than throttle_min_seconds")]
    Reversed,
    #[error("throttle_max_seconds must be at most {CEILING_SECONDS}")]
    TooSlow,
}

const FLOOR_SECONDS: u64 = 3;
/// A day.
const CEILING_SECONDS: u64 = 86_400;
const DEFAULT: Throttle = Throttle { min: Span::from_secs(15), max: Span::from_secs(25) };
/// Between the two where one of them is left out: a line that writes too evenly is soon blocked.
const ROOM: Span = Span::from_secs(10);
/// What a send itself is taken to need.
pub(super) const SEND: Span = Span::from_secs(2);
const SHORTEST_RUN: Span = Span::from_secs(120);
const GRACE: Span = Span::from_secs(300);

impl Default for Throttle {
    fn default() -> Throttle {
        DEFAULT
    }
}

impl TryFrom<Seconds> for Throttle {
    type Error = BadThrottle;
    fn try_from(seconds: Seconds) -> Result<Throttle, BadThrottle> {
        Throttle::new(seconds.throttle_min_seconds, seconds.throttle_max_seconds)
    }
}

impl From<Throttle> for Seconds {
    fn from(throttle: Throttle) -> Seconds {
        Seconds {
            throttle_min_seconds: Some(throttle.min.seconds()),
            throttle_max_seconds: Some(throttle.max.seconds()),
        }
    }
}

impl Throttle {
    /// In seconds. What is not given is 15 or 25, or ten seconds from the other where that is beyond it.
    pub fn new(min: Option<f64>, max: Option<f64>) -> Result<Throttle, BadThrottle> {
        let (floor, ceiling) = (Span::from_secs(FLOOR_SECONDS), Span::from_secs(CEILING_SECONDS));
        let span = |seconds: f64| {
            // Not a number is less than everything here.
            if seconds > 0.0 { Span::from_secs(1).scaled(seconds.min(1e9)) } else { Span::ZERO }
        };
        let (min, max) = match (min.map(span), max.map(span)) {
            (Some(min), Some(max)) => (min, max),
            (Some(min), None) if min < DEFAULT.max => (min, DEFAULT.max),
            (Some(min), None) => (min, min + ROOM),
            (None, Some(max)) if max > DEFAULT.min || max < floor => (DEFAULT.min.min(max), max),
            (None, Some(max)) => {
                (Span::from_millis(max.millis().saturating_sub(ROOM.millis())).max(floor), max)
            }
            (None, None) => (DEFAULT.min, DEFAULT.max),
        };
        match () {
            () if min < floor => Err(BadThrottle::TooFast),
            () if max < min => Err(BadThrottle::Reversed),
            () if max > ceiling => Err(BadThrottle::TooSlow),
            () => Ok(Throttle { min, max }),
        }
    }

    pub fn min(self) -> Span {
        self.min
    }

    pub fn max(self) -> Span {
        self.max
    }

    /// The wait after a send: even over [min, max], by a number that is even over all numbers.
    #[allow(clippy::cast_possible_truncation)]
    pub fn wait(self, chance: u64) -> Span {
        let room = u128::from(self.max.millis() - self.min.millis() + 1);
        let share = (u128::from(chance) * room) >> 64;
        self.min + Span::from_millis(share as u64)
    }

    /// From the start of one send to the start of the next, in the mean.
    pub(super) fn cycle(self) -> Span {
        self.estimate(1)
    }

    /// What so many sends are expected to take.
    pub fn estimate(self, sends: u64) -> Span {
        let twice = self.min.millis() + self.max.millis() + 2 * SEND.millis();
        Span::from_millis(sends.saturating_mul(twice) / 2)
    }

    /// How long so many sends may take.
    pub fn limits(self, sends: u64) -> TimeLimits {
        let estimated = self.estimate(sends);
        let soft = Span::from_millis(estimated.millis().saturating_mul(13) / 10).max(SHORTEST_RUN);
        TimeLimits { estimated, soft, hard: soft + GRACE }
    }
}

/// How long a run may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    pub estimated: Span,
    /// Then it stops after the send that is under way.
    pub soft: Span,
    /// Then that send is cut off.
    pub hard: Span,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::Dice;

    #[test] // REQ BK-3
    fn limits_follow_from_volume_and_pace() {
        let limits = |throttle: Throttle, sends| {
            let TimeLimits { estimated, soft, hard } = throttle.limits(sends);
            [estimated, soft, hard].map(|span| span.millis() / 1_000)
        };
        assert_eq!(limits(Throttle::default(), 100), [2_200, 2_860, 3_160]);
        assert_eq!(limits(Throttle::default(), 1), [22, 120, 420]);
        assert_eq!(limits(Throttle::new(Some(3.0), Some(4.5)).unwrap(), 1_000), [5_750, 7_475, 7_775]);
    }

    #[test] // REQ BK-1
    fn what_would_block_a_line_or_makes_no_sense_is_refused() {
        let new = Throttle::new;
        assert_eq!(new(Some(2.0), None), Err(BadThrottle::TooFast));
        assert_eq!(new(Some(2.999), Some(10.0)), Err(BadThrottle::TooFast));
        assert_eq!(new(Some(f64::NAN), None), Err(BadThrottle::TooFast));
        assert_eq!(new(Some(20.0), Some(10.0)), Err(BadThrottle::Reversed));
        assert_eq!(new(None, Some(f64::INFINITY)), Err(BadThrottle::TooSlow));
        assert_eq!(new(None, Some(2.0)), Err(BadThrottle::TooFast));
    }

    #[test] // REQ BK-1
    fn whoever_gives_one_of_the_two_still_writes_unevenly() {
        let seconds =
            |min, max| Throttle::new(min, max).map(|it| (it.min.millis() / 1_000, it.max.millis() / 1_000));
        assert_eq!(seconds(Some(5.0), None), Ok((5, 25)));
        assert_eq!(seconds(Some(30.0), None), Ok((30, 40)));
        assert_eq!(seconds(None, Some(40.0)), Ok((15, 40)));
        assert_eq!(seconds(None, Some(14.0)), Ok((4, 14)));
        assert_eq!(seconds(None, Some(5.0)), Ok((3, 5)));
    }

    #[test] // REQ BK-1
    fn an_old_row_without_a_throttle_has_the_defaults() {
        let old: Throttle = serde_json::from_str("{}").unwrap();
        assert_eq!(old, Throttle::default());
        let text = serde_json::to_string(&old).unwrap();
        assert_eq!(text, r#"{"throttle_min_seconds":15.0,"throttle_max_seconds":25.0}"#);
        assert_eq!(serde_json::from_str::<Throttle>(&text).unwrap(), old);
    }

    #[test] // REQ BK-2
    fn waits_are_even_over_the_whole_range_and_never_outside() {
        let throttle = Throttle::default();
        let mut dice = Dice::seeded(1);
        let mut buckets = [0u32; 10];
        for _ in 0..100_000 {
            let wait = throttle.wait(dice.next_u64()).millis();
            assert!((15_000..=25_000).contains(&wait));
            buckets[usize::try_from((wait - 15_000) / 1_000).unwrap().min(9)] += 1;
        }
        assert!(buckets.iter().all(|n| (9_600..10_400).contains(n)), "{buckets:?}");
        assert_eq!((throttle.wait(0), throttle.wait(u64::MAX)), (throttle.min, throttle.max));
    }
}
