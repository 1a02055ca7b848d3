//! Messages, a provider in trouble and a policy, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::scenario::{Episode, Passable, Sky};
use super::{Outcome, SLOTS};
use crate::adapt::{self, Adaptive, Fit, Plan, Swing};
use crate::backoff;
use crate::dice::Dice;
use crate::learn::{Cell, Counts, Curve};
use crate::policy::Policy;
use crate::time::Span;

/// After so many more retries the curve is read again; a node does so every few seconds.
const READ_AGAIN: u64 = 50;

/// What a policy has learned of one kind of failure, as it goes.
#[derive(Debug)]
pub struct Learning {
    curve: Curve,
    plan: Option<Plan>,
    /// The number of retries at which the plan is made anew.
    next: u64,
    tried: u64,
}

impl Learning {
    pub fn from(curve: Curve) -> Learning {
        let tried = curve.total().tried;
        Learning { curve, plan: None, next: Counts::ENOUGH, tried }
    }

    pub fn curve(&self) -> &Curve {
        &self.curve
    }

    fn add(&mut self, cell: Cell, passed: bool) {
        self.curve.add(cell, Counts { tried: 1, passed: u64::from(passed) });
        self.tried += 1;
    }

    /// The plan for all retries of the policy, once enough is known.
    fn plan(&mut self, policy: &Policy) -> Option<&Plan> {
        if self.tried >= self.next {
            let (least, most) = adapt::bounds(policy);
            let fit = Fit::of(&self.curve);
            let own = adapt::schedule(policy);
            self.plan = Some(Plan::new(fit.chances(), least, most, &own, None));
            self.next = self.tried + READ_AGAIN;
        }
        self.plan.as_ref()
    }
}

/// Plays the episodes one after the other. An adaptive policy goes on learning from its own retries.
pub fn play(
    policy: &Policy,
    episodes: &[Episode],
    slot: Span,
    learning: &mut Learning,
    dice: &mut Dice,
) -> Outcome {
    let mut outcome = Outcome::new(slot);
    for episode in episodes {
        Stage::new(policy, episode).run(learning, dice, &mut outcome);
    }
    outcome.times.sort_unstable();
    outcome
}

/// What one who knew when each message can pass would have done inside the same bounds: waited no longer than needed,
/// and tried no more often than the longest wait demands. Nothing where messages compete with each other.
pub fn foresight(policy: &Policy, episodes: &[Episode], slot: Span) -> Option<Outcome> {
    let (least, most) = adapt::bounds(policy);
    let retries = u64::from(policy.attempts.saturating_sub(1));
    let mut outcome = Outcome::new(slot);
    for episode in episodes {
        for (at, passable) in &episode.arrivals {
            let never = *passable == Passable::Never;
            if !never && episode.sky.up_from(*at)? == *at {
                continue;
            }
            outcome.failed += 1;
            let time =
                Span::from_millis(episode.sky.up_from(*at + least)?.millis().saturating_sub(at.millis()));
            let needed = time.millis().div_ceil(most.millis().max(1)).max(1);
            if never || needed > retries {
                outcome.wasted += retries;
                outcome.retries += retries;
            } else {
                outcome.recovered += 1;
                outcome.wasted += needed - 1;
                outcome.retries += needed;
                outcome.times.push(time);
            }
        }
    }
    outcome.times.sort_unstable();
    Some(outcome)
}

struct Stage<'a> {
    policy: &'a Policy,
    episode: &'a Episode,
    messages: Vec<Message>,
    /// Who tries next, and when.
    agenda: BinaryHeap<Reverse<(Span, usize)>>,
    limit: Limit,
}

#[derive(Clone, Copy, Default)]
struct Message {
    attempts: u16,
    first_failed: Option<Span>,
    last: Span,
}

/// A bucket that fills by itself: what a rate limit takes at once, and how soon again.
struct Limit {
    level: f64,
    seen: Span,
}

const AT_ONCE: f64 = 10.0;

impl<'a> Stage<'a> {
    fn new(policy: &'a Policy, episode: &'a Episode) -> Stage<'a> {
        let agenda = episode.arrivals.iter().enumerate().map(|(n, (at, _))| Reverse((*at, n))).collect();
        let messages = vec![Message::default(); episode.arrivals.len()];
        Stage { policy, episode, messages, agenda, limit: Limit { level: AT_ONCE, seen: Span::ZERO } }
    }

    fn run(mut self, learning: &mut Learning, dice: &mut Dice, outcome: &mut Outcome) {
        while let Some(Reverse((now, n))) = self.agenda.pop() {
            let slot = now.millis() / outcome.slot.millis().max(1);
            outcome.load[usize::try_from(slot).unwrap_or(SLOTS).min(SLOTS - 1)] += 1;
            let passed = self.takes(now, self.episode.arrivals[n].1);
            let message = &mut self.messages[n];
            message.attempts += 1;
            let elapsed = message.first_failed.map(|first| since(now, first));
            if let Some(elapsed) = elapsed {
                outcome.retries += 1;
                let wait = since(now, message.last);
                learning.add(Cell::of(message.attempts, wait, elapsed), passed);
            }
            if passed {
                if let Some(elapsed) = elapsed {
                    outcome.recovered += 1;
                    outcome.times.push(elapsed);
                }
                continue;
            }
            match elapsed {
                Some(_) => outcome.wasted += 1,
                None => outcome.failed += 1,
            }
            message.first_failed.get_or_insert(now);
            message.last = now;
            if message.attempts >= self.policy.attempts {
                continue;
            }
            let wait = wait(self.policy, message.attempts, elapsed.unwrap_or_default(), learning, dice);
            let (shortest, longest) = outcome.waits.unwrap_or((wait, wait));
            outcome.waits = Some((shortest.min(wait), longest.max(wait)));
            self.agenda.push(Reverse((now + wait, n)));
        }
    }

    fn takes(&mut self, now: Span, passable: Passable) -> bool {
        if passable == Passable::Never {
            return false;
        }
        match &self.episode.sky {
            Sky::Down(_) => self.episode.sky.up_from(now) == Some(now),
            Sky::Limited { takes } => {
                let filled = since(now, self.limit.seen).seconds() / 60.0 * takes;
                self.limit.seen = now;
                self.limit.level = (self.limit.level + filled).min(AT_ONCE);
                let takes = self.limit.level >= 1.0;
                if takes {
                    self.limit.level -= 1.0;
                }
                takes
            }
        }
    }
}

fn wait(policy: &Policy, attempts: u16, elapsed: Span, learning: &mut Learning, dice: &mut Dice) -> Span {
    let own = backoff::wait(policy, attempts - 1, None, dice);
    if policy.adaptive != Adaptive::On {
        return own.delay;
    }
    let left = policy.attempts - attempts;
    let swing = Swing::rolled(policy, &own, dice);
    learning.plan(policy).map_or(own.delay, |plan| plan.swung(elapsed, left, swing).wait)
}

fn since(now: Span, earlier: Span) -> Span {
    Span::from_millis(now.millis().saturating_sub(earlier.millis()))
}
