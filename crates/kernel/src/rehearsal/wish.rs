//! Trouble of one's own, as somebody wrote it, and how much of it can be played.

use std::str::FromStr;

use super::{SLOTS, Scenario, Trouble};
use crate::backoff;
use crate::policy::Policy;
use crate::time::Span;

/// Trouble that lasts longer is no matter of retries, and counters end at two days.
const LONGEST: Span = Span::from_hours(7 * 24);
/// So often a provider may come and go in one time of trouble.
const TURNS: u64 = 1_000;
/// So many messages may compete for a provider in one time of trouble.
const CROWD: f64 = 1_000_000.0;
/// Fewer messages say nothing of a policy.
const LEAST: usize = 50;

/// How long somebody is down: `30s..20m`, or one length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    pub least: Span,
    pub most: Span,
}

/// How long somebody is down and up in turn, on average: `90s/45s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    pub down: Span,
    pub up: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadWish {
    #[error("not a length of time; write for example 500ms, 30s, 5m, 48h, 7d or 1h30m")]
    Length,
    #[error("from a shorter to a longer time, for example 30s..20m")]
    Lengths,
    #[error("how long down and how long up, for example 90s/45s")]
    Turns,
}

impl FromStr for Lengths {
    type Err = BadWish;
    fn from_str(text: &str) -> Result<Lengths, BadWish> {
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        let lengths = Lengths { least: length(least)?, most: length(most)? };
        let ordered = Span::ZERO < lengths.least && lengths.least <= lengths.most;
        ordered.then_some(lengths).ok_or(BadWish::Lengths)
    }
}

impl FromStr for Turns {
    type Err = BadWish;
    fn from_str(text: &str) -> Result<Turns, BadWish> {
        let (down, up) = text.split_once('/').ok_or(BadWish::Turns)?;
        Ok(Turns { down: length(down)?, up: length(up)? })
    }
}

fn length(text: &str) -> Result<Span, BadWish> {
    text.parse().map_err(|_| BadWish::Length)
}

/// What is wrong with a scenario, and with which part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong {
    pub part: &'static str,
    pub reason: &'static str,
}

impl Scenario {
    /// Trouble that nobody published: ten messages a minute unless they compete, and none that can never pass.
    pub fn own(trouble: Trouble) -> Scenario {
        let (says, per_minute) = match &trouble {
            Trouble::Down { least, most } => (format!("down for {least} to {most}"), 10.0),
            Trouble::Flapping { lasts, down, up } => (format!("{lasts} of {down} down, {up} up"), 10.0),
            Trouble::Limited { lasts, takes } => {
                (format!("{takes} a minute taken, for {lasts}"), 2.0 * takes)
            }
            Trouble::OneOf(_) => ("now one, now the other".to_owned(), 10.0),
        };
        Scenario { name: "own".into(), says, trouble, permanent: 0.0, per_minute }
    }

    /// The same with so many messages a minute, so many of a hundred of which never pass.
    pub fn with(mut self, arrivals: Option<u32>, permanent: Option<u8>) -> Scenario {
        if let Some(arrivals) = arrivals {
            self.per_minute = arrivals.into();
        }
        if let Some(percent) = permanent {
            self.permanent = f64::from(percent.min(100)) / 100.0;
            self.says = format!("{}; {percent} % permanent", self.says);
        }
        self
    }

    /// What cannot be played of it.
    pub fn wrong(&self) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        let mut say = |is: bool, part, reason| {
            if is {
                wrong.push(Wrong { part, reason });
            }
        };
        match &self.trouble {
            Trouble::Down { least, most } => {
                say(*least == Span::ZERO, "from", "must be longer than nothing");
                say(least > most, "to", "must not be shorter than the shortest");
                say(*most > LONGEST, "to", "must be at most 7d, a week");
            }
            Trouble::Flapping { lasts, down, up } => {
                say(*down == Span::ZERO, "down", "must be longer than nothing");
                say(*up == Span::ZERO, "up", "must be longer than nothing");
                say(*lasts == Span::ZERO, "lasts", "must be longer than nothing");
                say(*lasts > LONGEST, "lasts", "must be at most 7d, a week");
                let many = lasts.millis() / (*down + *up).millis().max(1) > TURNS;
                say(many, "lasts", "comes and goes more than a thousand times: make it shorter");
            }
            Trouble::Limited { lasts, .. } => {
                say(*lasts == Span::ZERO, "lasts", "must be longer than nothing");
                say(*lasts > LONGEST, "lasts", "must be at most 7d, a week");
                say(self.crowd() > CROWD, "arrivals", "brings more than a million messages at once");
            }
            Trouble::OneOf(_) => {}
        }
        wrong
    }

    /// How many messages compete with each other in one time of trouble.
    fn crowd(&self) -> f64 {
        match &self.trouble {
            Trouble::Limited { lasts, .. } => self.per_minute * lasts.seconds() / 60.0,
            _ => 1.0,
        }
    }

    /// How many messages a policy can be tried with, of so many at most, if no act may make more retries than that;
    /// nothing where more than those have to come together.
    pub fn affordable(&self, policy: &Policy, messages: usize, retries: usize) -> Option<usize> {
        let each = usize::from(policy.attempts.saturating_sub(1)).max(1);
        let messages = messages.min(retries / each).max(LEAST);
        let enough = u32::try_from(messages).is_ok_and(|messages| self.crowd() <= f64::from(messages));
        enough.then_some(messages)
    }

    /// The slot in which to tell the load, so that nearly all of it has room: trouble three times over, and the wait in which the
    /// policy passes its end.
    pub fn slot(&self, policy: &Policy) -> Span {
        let trouble = self.typical();
        let mut at = Span::ZERO;
        let mut last = Span::ZERO;
        for n in 0..policy.attempts.saturating_sub(1) {
            last = backoff::bounds(policy, n).1;
            at = at + last;
            if at >= trouble {
                break;
            }
        }
        let reach = trouble.millis().saturating_mul(3).saturating_add(last.millis());
        Span::from_millis((reach / SLOTS as u64).max(1))
    }
}
