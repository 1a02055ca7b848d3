//! How long to wait before trying again.

use crate::dice::Dice;
#[cfg(feature = "planted")]
use crate::planted;
use crate::policy::{Delays, Policy};
use crate::time::Span;

/// A wait, and how it came about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wait {
    pub delay: Span,
    /// What the policy says before jitter.
    pub nominal: Span,
    /// The swing that was rolled, as a share of `nominal`: 0.12 is +12 %.
    pub swing: f64,
    /// The provider asked for this wait, and it was longer than ours.
    pub hinted: bool,
}

/// The wait before retry `n`, where 0 is the first retry.
///
/// Exponential, then cap, then jitter, then clamp to [floor, cap]. A hint is a floor on the result, bounded by
/// the policy's `max_hint`: it may exceed the cap and never shortens a wait.
pub fn wait(policy: &Policy, n: u16, hint: Option<Span>, dice: &mut Dice) -> Wait {
    let nominal = nominal(policy, n);
    let swing = if policy.jitter > 0.0 { dice.swing() * policy.jitter } else { 0.0 };
    let ours = nominal.scaled(1.0 + swing).clamp(policy.floor, policy.cap.max(policy.floor));
    let asked = hint.map_or(Span::ZERO, |hint| hint.min(policy.max_hint));
    #[cfg(feature = "planted")]
    let asked = if planted::is(planted::Bug::HintUnbounded) { hint.unwrap_or_default() } else { asked };
    Wait { delay: ours.max(asked), nominal, swing, hinted: asked > ours }
}

/// The shortest and the longest wait that the policy itself can give before retry `n`.
pub fn bounds(policy: &Policy, n: u16) -> (Span, Span) {
    let nominal = nominal(policy, n);
    let clamp = |span: Span| span.clamp(policy.floor, policy.cap.max(policy.floor));
    (clamp(nominal.scaled(1.0 - policy.jitter)), clamp(nominal.scaled(1.0 + policy.jitter)))
}

/// One retry of a schedule: how long is waited before it, and how long after the first attempt it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which attempt it is; the first retry is the second attempt.
    pub number: u16,
    /// The wait before jitter.
    pub nominal: Span,
    pub shortest: Span,
    pub longest: Span,
    pub earliest: Span,
    pub latest: Span,
}

/// The retries of a round in order. Only waits count: how long an attempt itself takes is the provider's affair.
pub fn schedule(policy: &Policy) -> Vec<Step> {
    let (mut earliest, mut latest) = (Span::ZERO, Span::ZERO);
    let retries = 0..policy.attempts.saturating_sub(1);
    let step = |n: u16| {
        let (shortest, longest) = bounds(policy, n);
        earliest = earliest + shortest;
        latest = latest + longest;
        let number = n.saturating_add(2);
        Step { number, nominal: nominal(policy, n), shortest, longest, earliest, latest }
    };
    retries.map(step).collect()
}

pub(crate) fn nominal(policy: &Policy, n: u16) -> Span {
    let delay = match &policy.delays {
        Delays::Listed(list) => {
            let last = list.len().saturating_sub(1);
            list.get(usize::from(n).min(last)).copied().unwrap_or_default()
        }
        Delays::Doubling { base } => base.doubled(u32::from(n)),
    };
    delay.min(policy.cap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Profile;
    use proptest::prelude::*;

    fn built_in(name: &str) -> Policy {
        Policy::built_in(name, Profile::Production).unwrap()
    }

    fn all_bounds(policy: &Policy) -> Vec<(u64, u64)> {
        (0..policy.attempts - 1).map(|n| bounds(policy, n)).map(|(a, b)| (a.millis(), b.millis())).collect()
    }

    #[test] // REQ RP-1
    fn smtp_in_production_waits_within_the_published_bounds() {
        assert_eq!(all_bounds(&built_in("smtp")), [(750, 1250), (1500, 2500), (3000, 5000), (6000, 10_000)]);
    }

    #[test] // REQ RP-5
    fn smtp_in_development_tries_three_times_quickly() {
        let policy = Policy::built_in("smtp", Profile::Development).unwrap();
        assert_eq!(all_bounds(&policy), [(375, 625), (750, 1250)]);
    }

    #[test] // REQ RP-2
    fn claims_wait_within_the_published_bounds() {
        let minutes: Vec<_> =
            all_bounds(&built_in("claims")).into_iter().map(|(a, b)| (a / 60_000, b / 60_000)).collect();
        assert_eq!(minutes, [(5, 6), (8, 12), (16, 24), (32, 48), (64, 96)]);
        assert_eq!(built_in("claims").longest(), Span::from_mins(186));
    }

    #[test] // REQ RP-2
    fn half_of_the_first_claim_waits_are_exactly_the_floor() {
        let policy = built_in("claims");
        let mut dice = Dice::seeded(3);
        let at_floor =
            (0..10_000).filter(|_| wait(&policy, 0, None, &mut dice).delay == Span::from_mins(5)).count();
        assert!((4_700..5_300).contains(&at_floor), "{at_floor}");
    }

    #[test] // REQ RP-1
    fn whatsapp_and_resend_wait_exactly_as_listed() {
        let exact =
            |name| all_bounds(&built_in(name)).into_iter().map(|(a, b)| (a == b, a)).collect::<Vec<_>>();
        assert_eq!(exact("whatsapp"), [(true, 5_000), (true, 30_000), (true, 300_000)]);
        assert_eq!(exact("resend"), [(true, 60_000), (true, 300_000), (true, 900_000)]);
    }

    #[test] // REQ RP-4
    fn resend_makes_four_attempts_in_all() {
        assert_eq!(built_in("resend").attempts, 4);
    }

    proptest! {
        #[test] // REQ RP-1, CF-8
        fn every_wait_lies_within_its_bounds_and_honours_the_hint(
            name in prop::sample::select(Policy::BUILT_IN.to_vec()),
            n in 0u16..2_000,
            hint in prop::option::of(0u64..200_000_000),
            seed: u64,
        ) {
            let policy = built_in(name);
            let hint = hint.map(Span::from_millis);
            let got = wait(&policy, n, hint, &mut Dice::seeded(seed));
            let (low, high) = bounds(&policy, n);
            let asked = hint.unwrap_or_default().min(policy.max_hint);
            prop_assert!(got.delay >= low.max(asked));
            prop_assert!(got.delay <= high.max(asked));
            prop_assert!(!got.hinted || got.delay == asked, "only the provider's own wait counts as asked for");
            prop_assert!(got.hinted || got.delay <= high);
        }

        #[test] // REQ RP-1
        fn jitter_reaches_both_sides(seed: u64) {
            let policy = built_in("smtp");
            let mut dice = Dice::seeded(seed);
            let waits: Vec<_> = (0..200).map(|_| wait(&policy, 3, None, &mut dice).delay.millis()).collect();
            prop_assert!(waits.iter().any(|w| *w < 7_500) && waits.iter().any(|w| *w > 8_500));
        }
    }
}
