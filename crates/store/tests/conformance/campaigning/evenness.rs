//! The waits between the sends of a campaign, thousands of them: even over the whole range, and never outside.

use pombo_kernel::dice::Dice;
use pombo_kernel::time::Span;
use pombo_store::Settlement;
use pombo_store::core::Core;
use pombo_store::sqlite::Sqlite;

use super::C;
use crate::world::*;

const SENDS: usize = 3_000;
/// A campaign's throttle where nothing else is said, in milliseconds.
const MIN: u64 = 15_000;
const MAX: u64 = 25_000;
/// Among a thousand even samples one lies farther than this from the line, times the root of its size.
const FARTHEST: f64 = 1.95;

/// From the end of each send to the start of the next, where nobody is in the way. Each settlement draws by `chance`.
fn gaps(mut chance: impl FnMut(&mut Dice) -> u64) -> Vec<u64> {
    let w = &mut World::<Sqlite>::new();
    let mut dice = Dice::seeded(42);
    w.running(C, SENDS as u64);
    let (mut gaps, mut ended) = (Vec::new(), None);
    while gaps.len() < SENDS - 1 {
        w.now = w.next_due().unwrap();
        let Some(claimed) = w.claim_uncommitted(ONE, "default", 9).pop() else { continue };
        gaps.extend(ended.map(|ended| w.now.since(ended).millis()));
        w.pass(Span::from_millis(dice.below(3_000)));
        // Every seventh is tried again, as soon as the pace allows.
        let end = if gaps.len().is_multiple_of(7) { End::Retry(Span::ZERO) } else { End::Sent };
        let settlement = Settlement { chance: chance(&mut dice), ..settlement(&claimed, end, w.now) };
        w.core.settle(settlement, w.now).unwrap();
        ended = Some(w.now);
        if gaps.len().is_multiple_of(50) {
            w.commit();
        }
    }
    gaps
}

/// How far the sample lies from even, by Kolmogorov and Smirnov, times the root of its size.
fn unevenness(gaps: &[u64]) -> f64 {
    let mut sorted = gaps.to_vec();
    sorted.sort_unstable();
    let size = sorted.len() as f64;
    let farthest = sorted.iter().enumerate().map(|(n, gap)| {
        let should = (*gap as f64 - MIN as f64) / (MAX - MIN) as f64;
        let (below, upto) = (n as f64 / size, (n + 1) as f64 / size);
        (should - below).abs().max((upto - should).abs())
    });
    farthest.fold(0.0, f64::max) * size.sqrt()
}

#[test] // REQ BK-2
fn the_waits_of_a_campaign_are_even_over_its_range_and_never_outside() {
    let gaps = gaps(Dice::next_u64);
    assert!(
        gaps.iter().all(|gap| (MIN..=MAX).contains(gap)),
        "{:?} to {:?}",
        gaps.iter().min(),
        gaps.iter().max()
    );
    let unevenness = unevenness(&gaps);
    assert!(unevenness < FARTHEST, "{unevenness}");
}

#[test]
fn waits_that_are_drawn_unevenly_are_told_from_even_ones() {
    let sooner = unevenness(&gaps(|dice| dice.next_u64().min(dice.next_u64())));
    let narrower = unevenness(&gaps(|dice| dice.next_u64() / 10 * 9));
    let lumped = unevenness(&gaps(|dice| dice.next_u64() >> 60 << 60));
    for skewed in [sooner, narrower, lumped] {
        assert!(skewed > FARTHEST, "{sooner} {narrower} {lumped}");
    }
}
