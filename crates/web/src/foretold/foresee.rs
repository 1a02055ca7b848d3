//! When a message that waits after a failure will likely have been sent, as far as history tells.

use pombo_kernel::backoff;
use pombo_kernel::learn::{Bucket, Counts, Curve, Estimate};
use pombo_kernel::policy::Policy;
use pombo_kernel::time::{Span, Time};

/// A message between two attempts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits<'a> {
    pub(super) policy: &'a Policy,
    /// Attempts of its round that counted.
    pub(super) attempts: u16,
    /// When the last of them failed.
    pub(super) failed_at: Time,
    /// When it is tried next.
    pub(super) next: Time,
    pub(super) expires_at: Option<Time>,
}

/// What is likely to become of it. The counts are of retries like the next one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Foreseen {
    /// Too few retries are on record to go by.
    TooFew(Counts),
    /// Sent by then with that chance.
    Likely { by: Time, chance: f64, counts: Counts },
    /// Not likely even by its last attempt, which is then.
    Unlikely { last: Time, chance: f64, counts: Counts },
}

/// What is called likely.
const LIKELY: f64 = 0.8;

/// Goes through the attempts that are left, at the times that its policy names, until it has likely passed.
pub(super) fn foresee(waits: Waits<'_>, curve: &Curve) -> Foreseen {
    let total = curve.total();
    if total.tried < Counts::ENOUGH {
        return Foreseen::TooFew(total);
    }
    let (mut before, mut at, mut failing) = (waits.failed_at, waits.next.max(waits.failed_at), 1.0);
    let mut last = at;
    let counts = like(curve, waits.attempts.saturating_add(1), at.since(before));
    for made in waits.attempts..waits.policy.attempts.max(waits.attempts.saturating_add(1)) {
        if waits.expires_at.is_some_and(|deadline| deadline <= at) {
            break;
        }
        let tried = like(curve, made.saturating_add(1), at.since(before));
        failing *= 1.0 - tried.estimate().chance().unwrap_or_default();
        last = at;
        if 1.0 - failing >= LIKELY {
            return Foreseen::Likely { by: at, chance: 1.0 - failing, counts };
        }
        let (least, most) = backoff::bounds(waits.policy, made);
        (before, at) = (at, at + (least + most).scaled(0.5));
    }
    Foreseen::Unlikely { last, chance: 1.0 - failing, counts }
}

/// The retries on record that are the most like this one, of which there are enough: by number and about that wait, by
/// number, or all.
fn like(curve: &Curve, attempt: u16, wait: Span) -> Counts {
    let number = u8::try_from(attempt).unwrap_or(u8::MAX).min(8);
    let bucket = Bucket::of(wait).index();
    let by = |fits: &dyn Fn(u8, u8) -> bool| -> Counts {
        let fitting = curve.cells().filter(|(cell, _)| fits(cell.attempt, cell.wait.index()));
        fitting.map(|(_, counts)| counts).sum()
    };
    let nearest = by(&|attempt, wait| attempt == number && wait.abs_diff(bucket) <= 1);
    let numbered = by(&|attempt, _| attempt == number);
    let is_enough = |counts: &Counts| !matches!(counts.estimate(), Estimate::TooFew { .. });
    [nearest, numbered].into_iter().find(is_enough).unwrap_or_else(|| curve.total())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pombo_kernel::learn::Cell;
    use pombo_kernel::policy::Profile;

    const NOW: Time = Time::from_millis(1_800_000_000_000);
    const MINUTE: Span = Span::from_mins(1);

    fn curve(cells: &[(u16, u64, u64, u64)]) -> Curve {
        let row = |(attempt, secs, tried, passed): &(u16, u64, u64, u64)| {
            let wait = Span::from_secs(*secs);
            (Cell::of(*attempt, wait, wait), Counts { tried: *tried, passed: *passed })
        };
        cells.iter().map(row).collect()
    }

    fn check(curve: &Curve, expires_at: Option<Time>) -> Foreseen {
        let policy = Policy::built_in("webhook", Profile::Production).unwrap();
        let waits = Waits { policy: &policy, attempts: 1, failed_at: NOW, next: NOW + MINUTE, expires_at };
        foresee(waits, curve)
    }

    #[test] // REQ LN-1
    fn what_passes_is_likely_by_the_next_attempt_and_what_never_does_is_not() {
        let counts = Counts { tried: 100, passed: 95 };
        let passes = check(&curve(&[(2, 60, 100, 95), (2, 600, 100, 0)]), None);
        assert_eq!(passes, Foreseen::Likely { by: NOW + MINUTE, chance: 0.95, counts });
        let fails = check(&curve(&[(2, 60, 100, 1)]), None);
        assert!(
            matches!(fails, Foreseen::Unlikely { last, chance, .. } if last > NOW + MINUTE && chance < 0.2),
            "{fails:?}"
        );
    }

    #[test] // REQ LN-1
    fn a_chance_grows_with_every_attempt_that_is_left() {
        let seen = check(&curve(&[(2, 60, 100, 50), (3, 60, 100, 70)]), None);
        let Foreseen::Likely { by, chance, counts } = seen else { panic!("{seen:?}") };
        assert!(by > NOW + MINUTE && (chance - 0.85).abs() < 1e-9, "{seen:?}");
        assert_eq!(counts, Counts { tried: 100, passed: 50 }, "of retries like the next one");
    }

    #[test] // REQ LN-1
    fn the_most_similar_retries_speak_where_there_are_enough() {
        let all = curve(&[(2, 60, 30, 30), (2, 600, 30, 0), (3, 60, 40, 0)]);
        assert_eq!(like(&all, 2, MINUTE), Counts { tried: 30, passed: 30 });
        assert_eq!(like(&all, 2, Span::from_secs(5)), Counts { tried: 60, passed: 30 });
        assert_eq!(like(&all, 7, MINUTE), Counts { tried: 100, passed: 30 });
    }

    #[test] // REQ LN-1
    fn too_few_retries_foretell_nothing() {
        let few = Counts { tried: 19, passed: 19 };
        assert_eq!(check(&curve(&[(2, 60, 19, 19)]), None), Foreseen::TooFew(few));
        assert_eq!(check(&Curve::default(), None), Foreseen::TooFew(Counts::default()));
    }

    #[test] // REQ LN-1
    fn nothing_is_foreseen_after_a_deadline() {
        let seen = check(&curve(&[(2, 60, 100, 95)]), Some(NOW + Span::from_secs(30)));
        assert!(matches!(seen, Foreseen::Unlikely { chance, .. } if chance == 0.0), "{seen:?}");
    }
}
