//! All the retries that are left, weighed from the last to the first.

use super::Swing;
use super::fit::{Chances, Course, bucket_of, ends, millis, octaves};
use crate::learn::Bucket;
use crate::time::Span;

/// What a message costs that is never delivered, in attempts that fail.
const LOST: f64 = 300.0;
/// What it may cost to be delivered half an octave later, in attempts that fail: the more, the sooner and the oftener is
/// tried.
const HASTE: [f64; 8] = [1.0, 0.8, 0.65, 0.5, 0.4, 0.3, 0.2, 0.1];
/// The share of the failed attempts of the policy's own schedule that is allowed.
const SPARED: f64 = 0.4;
/// Fewer failed attempts a message than this are not worth waiting for.
const FEW: f64 = 0.1;
/// What it costs to give up sooner than the policy's own schedule does.
const GIVEN_UP: f64 = 30.0;
/// Further ahead nobody plans.
pub(super) const AHEAD: usize = 8;
/// Two points of time to each bucket.
const POINTS: usize = 2 * Bucket::COUNT as usize;

/// What every state of failing costs from there on, if each later wait is the best.
#[derive(Debug)]
pub struct Plan {
    course: Course,
    least: f64,
    most: f64,
    deadline: Option<f64>,
    /// When the policy's own schedule ends.
    end: f64,
    haste: f64,
    points: Vec<Point>,
    /// `ahead[n][p]`: with n retries left, at point p of time.
    ahead: Vec<Vec<Prospect>>,
}

/// The wait that costs least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    pub wait: Span,
    /// How likely the retry is to pass then.
    pub chance: f64,
}

/// What is to be expected from some state on.
#[derive(Clone, Copy, Debug)]
struct Prospect {
    cost: f64,
    /// How many attempts will fail.
    wasted: f64,
}

const NEVER: Prospect = Prospect { cost: LOST, wasted: 0.0 };

impl Plan {
    /// For waits from `least` to `most`, in a round whose schedule without adaptation would be `own`. No retry is made at
    /// or after `deadline`, counted from the first failure.
    ///
    /// It is in as much haste as lets it fail two fifths as often as that schedule would, and does not give up sooner.
    pub fn new(chances: &Chances, least: Span, most: Span, own: &[Span], deadline: Option<Span>) -> Plan {
        let course = chances.course();
        let points = (0..POINTS).map(|index| Point::at(point(index), &course)).collect();
        let (least, most, deadline) = (millis(least), millis(most), deadline.map(millis));
        let own = &own[..own.len().min(AHEAD)];
        let end = own.iter().map(|wait| millis(*wait)).sum();
        let mut plan = Plan { course, least, most, deadline, end, haste: 0.0, points, ahead: Vec::new() };
        let allowed = (plan.wasted_by(own) * SPARED).max(FEW);
        // The more patient, the fewer fail: the first of them that is patient enough.
        let (mut from, mut to) = (0, HASTE.len() - 1);
        while from < to {
            let middle = usize::midpoint(from, to);
            plan.look_ahead(HASTE[middle], own.len());
            if plan.best(0.0, 0, own.len().max(1)).1.wasted <= allowed {
                to = middle;
            } else {
                from = middle + 1;
            }
        }
        plan.look_ahead(HASTE[to], own.len());
        plan
    }

    fn look_ahead(&mut self, haste: f64, left: usize) {
        self.haste = haste;
        self.ahead = vec![vec![NEVER; POINTS]];
        // Nobody is there before the shortest wait is over.
        let first = floor(self.least);
        for left in 1..left {
            let mut prospects = vec![NEVER; POINTS];
            for (index, prospect) in prospects.iter_mut().enumerate().skip(first) {
                *prospect = self.best(self.points[index].at, index, left).1;
            }
            self.ahead.push(prospects);
        }
    }

    /// How many attempts fail if these are the waits.
    fn wasted_by(&self, waits: &[Span]) -> f64 {
        let mut at = 0.0;
        let failing = waits.iter().map(|wait| {
            at += millis(*wait);
            self.course.still(at)
        });
        failing.sum()
    }

    /// The best wait after failing for `elapsed`, with `left` retries left.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn choose(&self, elapsed: Span, left: u16) -> Choice {
        let from = millis(elapsed);
        let left = usize::from(left).clamp(1, self.ahead.len());
        let (to, _) = self.best(from, floor(from), left);
        let wait = Span::from_millis((to - from).max(0.0) as u64);
        Choice { wait, chance: self.chance(elapsed, wait) }
    }

    /// The same with a swing to either side, within the bounds and before the deadline.
    pub fn swung(&self, elapsed: Span, left: u16, swing: Swing) -> Choice {
        let steady = self.choose(elapsed, left);
        // The last one is not made sooner than planned: there is none after it.
        let swung = millis(steady.wait) * if left == 1 { swing.factor().max(1.0) } else { swing.factor() };
        // Turned back at the longest, or all that wait longest would come at the same moment.
        let wait = if swung > self.most { 2.0 * self.most - swung } else { swung };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let wait = Span::from_millis(wait.clamp(self.least, self.most).round() as u64);
        if self.deadline.is_some_and(|deadline| millis(elapsed + wait) >= deadline) {
            return steady;
        }
        Choice { wait, chance: self.chance(elapsed, wait) }
    }

    /// How likely a retry is to pass after that wait.
    pub fn chance(&self, elapsed: Span, wait: Span) -> f64 {
        self.course.chance(millis(elapsed), millis(elapsed + wait))
    }

    /// When to try next, failing at `from`, which is at or after point `at`; and what is to be expected then.
    fn best(&self, from: f64, at: usize, left: usize) -> (f64, Prospect) {
        let (earliest, latest) = (from + self.least, from + self.most);
        let still = self.course.still(from).max(1e-12);
        let ahead = &self.ahead[left - 1];
        let mut best = None::<(f64, Prospect)>;
        let mut weigh = |to: &Point, then: usize| {
            if self.deadline.is_some_and(|deadline| to.at >= deadline) {
                return;
            }
            let passes = (1.0 - to.still / still).clamp(0.0, 1.0);
            let fails = 1.0 - passes;
            let soon = if left == 1 && to.at < self.end { GIVEN_UP } else { 0.0 };
            let cost = passes * self.haste * to.octaves + fails * (1.0 + ahead[then].cost) + soon;
            if best.is_none_or(|(_, best)| cost < best.cost) {
                let wasted = fails * (1.0 + ahead[then].wasted);
                best = Some((to.at, Prospect { cost, wasted }));
            }
        };
        weigh(&Point::at(earliest, &self.course), floor(earliest));
        for (then, to) in self.points.iter().enumerate().skip(at + 1) {
            if to.at >= latest {
                break;
            }
            if to.at > earliest {
                weigh(to, then);
            }
        }
        if left == 1 && (earliest..latest).contains(&self.end) {
            weigh(&Point::at(self.end, &self.course), floor(self.end));
        }
        weigh(&Point::at(latest, &self.course), floor(latest));
        best.unwrap_or((earliest, NEVER))
    }
}

/// A moment at which a retry may be made.
#[derive(Debug)]
struct Point {
    at: f64,
    /// The share that still fails then.
    still: f64,
    octaves: f64,
}

impl Point {
    fn at(at: f64, course: &Course) -> Point {
        Point { at, still: course.still(at), octaves: octaves(at) }
    }
}

/// A point of time, in milliseconds since the first failure.
fn point(index: usize) -> f64 {
    let (begin, end) = ends(index / 2);
    if index.is_multiple_of(2) { begin } else { f64::midpoint(begin, end) }
}

/// The last point that is not after this time.
fn floor(at: f64) -> usize {
    let first = 2 * usize::from(bucket_of(at).index());
    if point(first + 1) <= at { first + 1 } else { first }
}
