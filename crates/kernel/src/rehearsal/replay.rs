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
use crate::learn::{Bucket, Counts, Curve};
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
fn histories(curve: &Curve) -> ([f64; BUCKETS], [f64; BUCKETS]) {
    let mut late = ([0u64; BUCKETS], [0u64; BUCKETS]);
    let mut early = late;
    let mut last = 0;
    for (cell, Counts { tried, passed }) in curve.cells() {
        let to = usize::from(cell.elapsed.index());
        let from = usize::from(Bucket::of(cell.before()).index()).min(to);
        let first = if cell.attempt == 2 { 0 } else { (from + 1).min(to) };
        last = last.max(to);
        for at in first..=to {
            late.1[at] += tried;
            // Whoever recovered at once was no longer failing in the buckets after that.
            early.1[at] += if at == first { tried } else { tried - passed };
        }
        late.0[to] += passed;
        early.0[first] += passed;
    }
    let course = |(ended, failing): &([u64; BUCKETS], [u64; BUCKETS]), beyond: f64| {
        let mut still = 1.0;
        let mut course = [0.0; BUCKETS];
        for at in 0..BUCKETS {
            still *= match (at > last, failing[at]) {
                (true, _) => beyond,
                (false, 0) => 1.0,
                (false, failing) => 1.0 - super::ratio(ended[at], failing),
            };
            course[at] = still;
        }
        course
    };
    (course(&late, 1.0), course(&early, 0.0))
}

fn follow(moments: &[Span], still: &[f64; BUCKETS], known: Known) -> Course {
    let mut wasted_each = 0.0;
    let mut failing = 1.0;
    let (mut median, mut p90) = (None, None);
    for moment in moments {
        let bucket = usize::from(Bucket::of(*moment).index());
        // A record of this very bucket may be from before or after this moment.
        failing = match (known, bucket) {
            (Known::Early, _) => still[bucket].min(failing),
            (Known::Late, 0) => failing,
            (Known::Late, _) => still[bucket - 1].min(failing),
        };
        wasted_each += failing;
        if failing <= 0.5 {
            median.get_or_insert(*moment);
        }
        if failing <= 0.1 {
            p90.get_or_insert(*moment);
        }
    }
    Course { recovered: 1.0 - failing, wasted_each, median, p90 }
}
