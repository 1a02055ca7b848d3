//! When a destination counts as down: the circuit breaker's judgement.
//!
//! What follows from it is a block in front of the destination (see [`block`](crate::block)): its messages wait, one
//! at a time tries whether it is back, and what has waited is then let go slowly.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::flow::Rate;
use crate::id::MessageKey;
#[cfg(feature = "planted")]
use crate::planted;
use crate::time::{Span, Time};

/// What an attempt says of the destination's health, whatever it meant for the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sign {
    /// It was there and did its work, if only to say no.
    Well,
    /// It failed, and not because of the message or of us.
    Ill,
    /// Nothing can be said of it.
    #[default]
    None,
}

/// When a destination counts as down. Every condition needs failures of at least three different messages: one that
/// cannot be digested says nothing of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Failures in a row that open it; 0 for never.
    pub failures: u16,
    /// Failures in a hundred that open it, counted over a minute; 0 for never.
    pub percent: u8,
    /// Attempts within the minute before the share is looked at.
    pub volume: u16,
    /// How long the failures must have gone on, unless there are ten times as many: what passes by itself within a few
    /// retries is no outage.
    pub lasting: Span,
    /// From its opening to the first probe. Each failed probe doubles it.
    pub first_probe: Span,
    /// The longest wait between probes.
    pub slowest_probe: Span,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            failures: 10,
            percent: 50,
            volume: 20,
            lasting: Span::from_secs(10),
            first_probe: Span::from_secs(5),
            slowest_probe: Span::from_mins(1),
        }
    }
}

impl Limits {
    /// The same for a destination that has only just come back: it has to prove itself, so three failures are enough.
    pub fn on_ramp(self) -> Limits {
        Limits { failures: self.failures.min(3), lasting: Span::ZERO, ..self }
    }

    /// What is wrong with them: the key, why, and what to write instead.
    pub fn problems(&self) -> Vec<(&'static str, String, &'static str)> {
        let mut found = Vec::new();
        if self.percent > 100 {
            found.push((
                "percent",
                format!("{} is more than 100", self.percent),
                "give a share in a hundred",
            ));
        }
        if self.first_probe == Span::ZERO {
            found.push(("first_probe", "is no time at all".to_owned(), "write for example \"5s\""));
        }
        if self.slowest_probe < self.first_probe {
            found.push((
                "slowest_probe",
                format!("{} is shorter than `first_probe`", self.slowest_probe),
                "make it at least as long",
            ));
        }
        found
    }
}

/// Seconds in one part of the window, and how many parts there are.
const PART: i64 = 10;
const PARTS: usize = 6;
/// Different messages whose failures are remembered, and needed.
const WITNESSES: usize = 3;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    well: u32,
    ill: u32,
}

/// What was lately seen of one destination. Small, and forgotten with the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// The last minute, in parts of ten seconds; the newest is at `newest` modulo their number.
    parts: [Part; PARTS],
    newest: i64,
    /// When the first of what is counted was seen.
    since: Option<Time>,
    /// Attempts a second, when it was last well.
    usual: Option<Rate>,
    in_a_row: u16,
    /// When the first failure of the row was seen, and the first of those that are counted.
    row_since: Time,
    ill_since: Option<Time>,
    /// Different messages that failed since one did not, and at all, as many as are needed.
    row: Witnesses,
    all: Witnesses,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Witnesses(Vec<MessageKey>);

impl Witnesses {
    fn add(&mut self, message: MessageKey) {
        if !self.enough() && !self.0.contains(&message) {
            self.0.push(message);
        }
    }

    fn enough(&self) -> bool {
        self.0.len() >= WITNESSES
    }
}

impl Meter {
    /// Takes a sign into account; says why the destination counts as down from now on, if it does.
    pub fn note(&mut self, sign: Sign, message: MessageKey, limits: &Limits, now: Time) -> Option<String> {
        self.advance(now);
        self.since.get_or_insert(now);
        #[cfg(feature = "planted")]
        if planted::is(planted::Bug::BreakerNeverOpens) {
            return None;
        }
        let part = &mut self.parts[slot(self.newest)];
        match sign {
            Sign::None => return None,
            Sign::Well => {
                part.well = part.well.saturating_add(1);
                self.in_a_row = 0;
                self.row.0.clear();
                self.usual = Some(self.rate(now));
                let (well, ill) = self.counts();
                if ill * 100 < (well + ill) * u64::from(limits.percent) {
                    self.ill_since = None;
                }
                return None;
            }
            Sign::Ill => {
                part.ill = part.ill.saturating_add(1);
                if self.in_a_row == 0 {
                    self.row_since = now;
                }
                self.ill_since.get_or_insert(now);
                self.in_a_row = self.in_a_row.saturating_add(1);
                self.row.add(message);
                self.all.add(message);
            }
        }
        let lasted = |since: Time, count: u64, least: u16| {
            now.since(since) >= limits.lasting || count >= 10 * u64::from(least)
        };
        let row = u64::from(self.in_a_row);
        let long = self.in_a_row >= limits.failures && lasted(self.row_since, row, limits.failures);
        if limits.failures > 0 && long && self.row.enough() {
            return Some(format!("{} attempts in a row failed", self.in_a_row));
        }
        let (well, ill) = self.counts();
        let (all, share) = (well + ill, ill * 100 / (well + ill).max(1));
        let judged = all >= u64::from(limits.volume)
            && lasted(self.ill_since.unwrap_or(now), all, limits.volume)
            && self.all.enough();
        if limits.percent > 0 && judged && share >= u64::from(limits.percent) {
            return Some(format!("{ill} of {all} attempts within a minute failed"));
        }
        None
    }

    /// Attempts a second when the destination was last well. What came of it since says little: where nobody
    /// answers, attempts end late and few.
    pub fn steady(&self, now: Time) -> Rate {
        self.usual.unwrap_or_else(|| self.rate(now))
    }

    /// Attempts a second, over the last minute or as long as something is known.
    fn rate(&self, now: Time) -> Rate {
        let (well, ill) = self.counts();
        let known = self.since.map_or(0, |since| now.since(since).millis() / 1_000);
        let window = PART * (PARTS as i64 - 1) + (now.millis().div_euclid(1_000) - self.newest * PART);
        let seconds = known.clamp(1, window.clamp(1, 60).unsigned_abs());
        Rate::from_milli((well + ill).saturating_mul(1_000) / seconds)
    }

    fn counts(&self) -> (u64, u64) {
        let sum = |of: fn(&Part) -> u32| self.parts.iter().map(|part| u64::from(of(part))).sum();
        (sum(|part| part.well), sum(|part| part.ill))
    }

    /// Forgets what is older than the window.
    fn advance(&mut self, now: Time) {
        let number = now.millis().div_euclid(PART * 1_000);
        let passed = number.saturating_sub(self.newest);
        if passed <= 0 {
            return;
        }
        for step in 1..=passed.min(PARTS as i64) {
            self.parts[slot(self.newest + step)] = Part::default();
        }
        if passed > PARTS as i64 {
            *self = Meter { newest: number, usual: self.usual, ..Meter::default() };
        }
        self.newest = number;
    }
}

fn slot(number: i64) -> usize {
    usize::try_from(number.rem_euclid(PARTS as i64)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_millis(1_700_000_000_000);

    fn at(seconds: u64) -> Time {
        START + Span::from_secs(seconds)
    }

    /// Plays signs (one a message) a second apart; when it opened, and why.
    fn play(signs: impl IntoIterator<Item = Sign>) -> Option<(u64, String)> {
        let mut meter = Meter::default();
        (1..).zip(signs).find_map(|(n, sign)| {
            let key = MessageKey(i64::try_from(n).unwrap());
            meter.note(sign, key, &Limits::default(), at(n)).map(|why| (n, why))
        })
    }

    #[test] // REQ CB-1
    fn failures_in_a_row_that_go_on_open_it() {
        let opened = play([Sign::Ill; 20]).unwrap();
        assert_eq!(opened, (11, "11 attempts in a row failed".to_owned()));
    }

    #[test] // REQ CB-1
    fn what_passes_within_a_few_retries_is_no_outage_and_a_flood_of_failures_is_one_at_once() {
        let mut meter = Meter::default();
        let limits = Limits::default();
        let mut at_once =
            |count: i64| (0..count).find_map(|n| meter.note(Sign::Ill, MessageKey(n), &limits, at(0)));
        assert_eq!(at_once(99), None);
        assert_eq!(at_once(1).as_deref(), Some("100 attempts in a row failed"));
    }

    #[test] // REQ CB-1
    fn a_share_of_failures_opens_it_once_there_is_enough_to_judge_by() {
        let half = (0..60).map(|n| if n % 2 == 0 { Sign::Ill } else { Sign::Well });
        let (at, why) = play(half).unwrap();
        assert_eq!((at, why.as_str()), (21, "11 of 21 attempts within a minute failed"));
        let third = (0..600).map(|n| if n % 3 == 0 { Sign::Ill } else { Sign::Well });
        assert_eq!(play(third), None);
    }

    #[test] // REQ CB-1
    fn what_says_nothing_of_the_destination_does_not_count() {
        assert_eq!(play([Sign::None; 100]), None);
        assert_eq!(play((0..100).map(|n| if n % 9 == 8 { Sign::Well } else { Sign::None })), None);
    }

    #[test] // REQ CB-1
    fn one_message_that_always_fails_proves_nothing() {
        let mut meter = Meter::default();
        for n in 0..100 {
            let key = MessageKey(n % 2);
            assert_eq!(meter.note(Sign::Ill, key, &Limits::default(), at(n.unsigned_abs())), None);
        }
        assert!(meter.note(Sign::Ill, MessageKey(7), &Limits::default(), at(100)).is_some());
    }

    #[test]
    fn what_was_more_than_a_minute_ago_is_forgotten() {
        let mut meter = Meter::default();
        let limits = Limits { failures: 0, lasting: Span::ZERO, ..Limits::default() };
        for n in 0..19 {
            assert_eq!(meter.note(Sign::Ill, MessageKey(n), &limits, at(0)), None);
        }
        assert_eq!(meter.note(Sign::Ill, MessageKey(99), &limits, at(75)), None);
        assert_eq!(meter.note(Sign::Ill, MessageKey(98), &limits, at(20)), None, "a clock that went back");
    }

    #[test]
    fn a_limit_of_zero_is_none() {
        let never = Limits { failures: 0, percent: 0, ..Limits::default() };
        let mut meter = Meter::default();
        assert!((0..1000).all(|n| meter.note(Sign::Ill, MessageKey(n), &never, at(0)).is_none()));
    }

    #[test]
    fn the_steady_rate_is_what_the_last_minute_saw() {
        let mut meter = Meter::default();
        for n in 0..1_000u64 {
            let now = START + Span::from_millis(n * 100);
            meter.note(Sign::Well, MessageKey(0), &Limits::default(), now);
        }
        let rate = meter.steady(at(100)).milli();
        assert!((9_500..=10_500).contains(&rate), "{rate}");
        assert_eq!(Meter::default().steady(START).milli(), 1);
    }

    #[test] // REQ CB-1
    fn a_destination_that_hangs_is_measured_by_what_it_took_before() {
        for silence in [30, 90] {
            let mut meter = Meter::default();
            for n in 0..600u64 {
                let now = START + Span::from_millis(n * 100);
                meter.note(Sign::Well, MessageKey(0), &Limits::default(), now);
            }
            for n in 0..10 {
                meter.note(Sign::Ill, MessageKey(n), &Limits::default(), at(60 + silence));
            }
            let rate = meter.steady(at(60 + silence)).milli();
            assert!((9_000..=11_000).contains(&rate), "{rate} after {silence} s");
        }
    }
}
