//! What recorded retries can tell of a policy, and what they cannot.
//!
//! History only shows the moments that were tried. A retry that passed shows that the trouble was over by then, not when it
//! ended; so there are two histories that both agree with the record. In the one trouble always ended just before the
//! retry that found it gone, and not at all where nobody tried; in the other just after the retry before it, and at once
//! where nobody tried. What a policy would have come to lies between the two.

use serde::Serialize;

use crate::adapt::{self, Adaptive, Fit, Plan, Swing};
use crate::backoff;
use crate::dice::Dice;
use crate::learn::{Bucket, Cell, Counts, Curve};
use crate::policy::Policy;
use crate::time::Span;

const BUCKETS: usize = Bucket::COUNT as usize;

/// What a policy would have come to, at worst and at best.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replayed {
    /// Recorded retries that this goes by.
    pub tried: u64,
    pub worst: Course,
    pub best: Course,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Course {
    /// The share of failed messages that would have been delivered after all.
    pub recovered: f64,
    /// Failed retries for each of them.
    pub wasted_each: f64,
    /// When half of them would have been delivered; nothing if fewer ever.
    pub median: Option<Span>,
    /// When nine of ten would have been.
    pub p90: Option<Span>,
    /// Retry by retry.
    #[serde(skip)]
    pub moments: Vec<Moment>,
}

/// One retry of the policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// How long after the first failure it is made.
    pub at: Span,
    /// The share of the failed messages that still make it.
    pub tried: f64,
    /// The share that would have been delivered by then.
    pub recovered: f64,
}

/// Holds a policy, without its jitter, against recorded retries; nothing where there are too few.
pub fn replay(policy: &Policy, curve: &Curve) -> Option<Replayed> {
    let tried = curve.total().tried;
    if tried < Counts::ENOUGH {
        return None;
    }
    let moments = moments(policy, curve);
    let (late, early) = histories(curve);
    Some(Replayed {
        tried,
        worst: follow(&moments, &late, Known::Late),
        best: follow(&moments, &early, Known::Early),
    })
}

/// When the policy tries, since the first failure.
fn moments(policy: &Policy, curve: &Curve) -> Vec<Span> {
    let (least, most) = adapt::bounds(policy);
    let retries = policy.attempts.saturating_sub(1);
    let plan = (policy.adaptive == Adaptive::On)
        .then(|| Plan::new(Fit::of(curve).chances(), least, most, &adapt::schedule(policy), None));
    let steady = Policy { jitter: 0.0, ..policy.clone() };
    let mut at = Span::ZERO;
    let mut moments = Vec::new();
    for n in 0..retries {
        let own = backoff::wait(&steady, n, None, &mut Dice::seeded(0)).delay;
        at = at + plan.as_ref().map_or(own, |plan| plan.swung(at, retries - n, Swing::of(0.0)).wait);
        moments.push(at);
    }
    moments
}

#[derive(Clone, Copy, PartialEq)]
enum Known {
    Late,
    Early,
}

/// The share that still failed at the end of each bucket, if trouble ended as late, and as early, as the record allows.
///
/// Counters are added up message by message as far as they tell: whoever failed at one attempt and is not at the next
/// was given up, or waits. Such a message never recovers in the one history, and at once in the other.
fn histories(curve: &Curve) -> ([f64; BUCKETS], [f64; BUCKETS]) {
    let (mut late, mut early) = ([0; BUCKETS], [0; BUCKETS]);
    let mut messages = 0;
    let mut before = [0; BUCKETS];
    for attempt in Cell::ATTEMPTS {
        let mut failed = [0; BUCKETS];
        let mut sum = Counts::default();
        for (cell, counts) in curve.cells().filter(|(cell, _)| cell.attempt == attempt) {
            let to = usize::from(cell.elapsed.index());
            let from = usize::from(Bucket::of(cell.before()).index());
            let first = if attempt == 2 { 0 } else { (from + 1).min(to) };
            late[to] += counts.passed;
            early[first] += counts.passed;
            failed[to] += counts.tried - counts.passed;
            sum += counts;
        }
        let waited = before.iter().sum::<u64>();
        // The last number stands for all later attempts, so that one message may be there more than once.
        let there = match attempt == *Cell::ATTEMPTS.end() {
            true => sum.tried.min(waited).max(sum.passed),
            false => sum.tried,
        };
        messages += there.saturating_sub(waited);
        end(waited.saturating_sub(there), &before, &mut early);
        if attempt == *Cell::ATTEMPTS.end() {
            end(there - sum.passed, &failed, &mut early);
        }
        before = failed;
    }
    (course(&late, messages), course(&early, messages))
}

/// So many of those that failed made no further attempt: the first of them, as far as anybody can tell.
fn end(mut count: u64, failed: &[u64; BUCKETS], early: &mut [u64; BUCKETS]) {
    for (failed, early) in failed.iter().zip(early) {
        let ended = count.min(*failed);
        *early += ended;
        count -= ended;
    }
}

fn course(recovered: &[u64; BUCKETS], messages: u64) -> [f64; BUCKETS] {
    let mut by_then = 0;
    recovered.map(|count| {
        by_then += count;
        1.0 - super::ratio(by_then, messages)
    })
}

fn follow(moments: &[Span], still: &[f64; BUCKETS], known: Known) -> Course {
    let mut wasted_each = 0.0;
    let mut failing = 1.0;
    let (mut median, mut p90) = (None, None);
    let mut steps = Vec::with_capacity(moments.len());
    for moment in moments {
        let tried = failing;
        let bucket = usize::from(Bucket::of(*moment).index());
        // A record of this very bucket may be from before or after this moment.
        failing = match (known, bucket) {
            (Known::Early, _) => still[bucket].min(failing),
            (Known::Late, 0) => failing,
            (Known::Late, _) => still[bucket - 1].min(failing),
        };
        steps.push(Moment { at: *moment, tried, recovered: 1.0 - failing });
        wasted_each += failing;
        if failing <= 0.5 {
            median.get_or_insert(*moment);
        }
        if failing <= 0.1 {
            p90.get_or_insert(*moment);
        }
    }
    Course { recovered: 1.0 - failing, wasted_each, median, p90, moments: steps }
}
