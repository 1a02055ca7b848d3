//! How failing ends, read off a curve.

use std::fmt;
use std::str::FromStr;

use super::BadRecord;
use crate::learn::{Bucket, Cell, Counts, Curve};
use crate::time::Span;

const BUCKETS: usize = Bucket::COUNT as usize;

/// What is believed before anything was tried: of what has failed for so long, this share passes before another half
/// octave is over, whatever the time. Most failures are short, and some are very long.
const BEFOREHAND: f64 = 0.15;
/// How many retries it takes to outweigh that belief.
const WEIGHT: f64 = 2.0;
const ROUNDS: usize = 12;
const LEAST: f64 = 0.001;
const MOST: f64 = 0.98;

/// A curve as a course of time: for each bucket of time since the first failure, the chance that whoever still fails
/// at its beginning passes by its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    chances: Chances,
    counts: Counts,
}

impl Fit {
    /// The chances under which the trials of this curve are the least surprising.
    ///
    /// A retry that failed had not recovered at any time since the one before it. One that passed had recovered at some
    /// time in between, and nobody knows when: it is shared out by what the others say, again and again.
    pub fn of(curve: &Curve) -> Fit {
        let spans: Vec<(Stretch, Counts)> =
            curve.cells().map(|(cell, counts)| (Stretch::of(cell), counts)).collect();
        let mut chances = [BEFOREHAND; BUCKETS];
        for _ in 0..ROUNDS {
            let mut ended = [WEIGHT * BEFOREHAND; BUCKETS];
            let mut failing = [WEIGHT; BUCKETS];
            for (stretch, counts) in &spans {
                stretch.share_out(*counts, &chances, &mut ended, &mut failing);
            }
            for (chance, (ended, failing)) in chances.iter_mut().zip(ended.iter().zip(&failing)) {
                *chance = (ended / failing).clamp(LEAST, MOST);
            }
        }
        Fit { chances: Chances::of(&chances), counts: curve.total() }
    }

    /// What it was read off.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub fn chances(&self) -> &Chances {
        &self.chances
    }

    /// The chance that what has been failing for `from` passes when it is tried at `to`, both since the first failure.
    pub fn chance(&self, from: Span, to: Span) -> f64 {
        self.chances.course().chance(millis(from), millis(to))
    }
}

/// The time from one attempt to the next, as shares of the buckets that it goes through.
struct Stretch {
    first: usize,
    shares: Vec<f64>,
}

impl Stretch {
    fn of(cell: Cell) -> Stretch {
        let to = middle(cell.elapsed);
        let from = millis(cell.before()).min(to);
        let first = usize::from(bucket_of(from).index());
        let last = usize::from(cell.elapsed.index()).max(first);
        let shares = (first..=last).map(|index| {
            let (begin, end) = ends(index);
            ((to.min(end) - from.max(begin)) / (end - begin)).clamp(0.0, 1.0)
        });
        Stretch { first, shares: shares.collect() }
    }

    fn share_out(
        &self,
        counts: Counts,
        chances: &[f64; BUCKETS],
        ended: &mut [f64; BUCKETS],
        failing: &mut [f64; BUCKETS],
    ) {
        let passed = float(counts.passed);
        let failed = float(counts.tried.saturating_sub(counts.passed));
        let steps = || self.shares.iter().enumerate().map(|(at, share)| (self.first + at, *share));
        let through: f64 = steps().map(|(at, share)| 1.0 - share * chances[at]).product();
        let in_all = (1.0 - through).max(1e-9);
        let mut still = 1.0;
        for (at, share) in steps() {
            let ends_here = still * share * chances[at];
            ended[at] += passed * ends_here / in_all;
            failing[at] += share * (failed + passed * ((still - through) / in_all).clamp(0.0, 1.0));
            still -= ends_here;
        }
    }
}

/// The chances of a fit, in thousandths: so coarse that a record of them is exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chances([u16; BUCKETS]);

const THOUSAND: f64 = 1_000.0;
const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

impl Chances {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn of(chances: &[f64; BUCKETS]) -> Chances {
        Chances(chances.map(|chance| (chance * THOUSAND).round() as u16))
    }

    pub(super) fn course(&self) -> Course {
        let mut still = [1.0; BUCKETS + 1];
        for (at, chance) in self.0.iter().enumerate() {
            still[at + 1] = still[at] * (1.0 - f64::from(*chance) / THOUSAND);
        }
        Course { still }
    }
}

/// Two digits to the base of 36 for each bucket.
impl fmt::Display for Chances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chance in self.0 {
            let (high, low) = (usize::from(chance / 36), usize::from(chance % 36));
            write!(f, "{}{}", char::from(DIGITS[high]), char::from(DIGITS[low]))?;
        }
        Ok(())
    }
}

impl FromStr for Chances {
    type Err = BadRecord;
    fn from_str(text: &str) -> Result<Chances, BadRecord> {
        let digit = |byte: u8| DIGITS.iter().position(|known| *known == byte).ok_or(BadRecord);
        let bytes = text.as_bytes();
        if bytes.len() != 2 * BUCKETS {
            return Err(BadRecord);
        }
        let mut chances = [0; BUCKETS];
        for (chance, pair) in chances.iter_mut().zip(bytes.chunks_exact(2)) {
            let value = digit(pair[0])? * 36 + digit(pair[1])?;
            *chance = u16::try_from(value).ok().filter(|value| *value < 1_000).ok_or(BadRecord)?;
        }
        Ok(Chances(chances))
    }
}

/// The share that still fails after each length of time. Only sums and products, so that it is the same everywhere.
#[derive(Debug)]
pub(super) struct Course {
    still: [f64; BUCKETS + 1],
}

impl Course {
    /// The share that still fails at this time, in milliseconds since the first failure.
    pub(super) fn still(&self, at: f64) -> f64 {
        let index = usize::from(bucket_of(at).index());
        let (begin, end) = ends(index);
        let share = ((at - begin) / (end - begin)).clamp(0.0, 1.0);
        self.still[index] + (self.still[index + 1] - self.still[index]) * share
    }

    pub(super) fn chance(&self, from: f64, to: f64) -> f64 {
        (1.0 - self.still(to) / self.still(from).max(1e-12)).clamp(0.0, 1.0)
    }
}

/// How many half octaves a length of time is long: a tenth of a second is one.
pub(super) fn octaves(at: f64) -> f64 {
    let bucket = bucket_of(at);
    let (begin, end) = ends(usize::from(bucket.index()));
    f64::from(bucket.index()) + ((at - begin) / (end - begin)).clamp(0.0, 1.0)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn bucket_of(at: f64) -> Bucket {
    Bucket::of(Span::from_millis(at.max(0.0) as u64))
}

pub(super) fn ends(index: usize) -> (f64, f64) {
    let bucket = u8::try_from(index).ok().and_then(Bucket::new).unwrap_or(Bucket::LAST);
    let (begin, end) = bucket.bounds();
    (millis(begin), millis(end))
}

fn middle(bucket: Bucket) -> f64 {
    let (begin, end) = ends(usize::from(bucket.index()));
    f64::midpoint(begin, end)
}

pub(super) fn millis(span: Span) -> f64 {
    float(span.millis())
}

#[allow(clippy::cast_precision_loss)]
fn float(number: u64) -> f64 {
    number as f64
}
