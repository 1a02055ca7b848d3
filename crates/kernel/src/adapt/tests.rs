use proptest::prelude::*;

use super::*;
use crate::backoff;
use crate::dice::Dice;
use crate::learn::{Cell, Curve};
use crate::policy::{Overrides, Profile};

fn policy(name: &str) -> Policy {
    let on = Overrides { adaptive: Some(Adaptive::On), ..Overrides::default() };
    Policy::built_in(name, Profile::Production).unwrap().with(&on)
}

/// First retries after these seconds: so many, of which so many passed.
fn curve(rows: &[(u64, u64, u64)]) -> Curve {
    let row = |(secs, tried, passed): &(u64, u64, u64)| {
        let wait = Span::from_secs(*secs);
        (Cell::of(2, wait, wait), Counts { tried: *tried, passed: *passed })
    };
    rows.iter().map(row).collect()
}

fn chosen(
    policy: &Policy,
    attempts: u16,
    elapsed: Span,
    until: Option<Span>,
    fit: &Fit,
    seed: u64,
) -> Adapted {
    let mut dice = Dice::seeded(seed);
    let own = backoff::wait(policy, attempts - 1, None, &mut dice);
    match advise(policy, attempts, &own, elapsed, until, Some(fit), &mut dice) {
        Advice::Chosen(adapted) => adapted,
        Advice::TooFew(counts) => panic!("{counts:?}"),
    }
}

#[test] // REQ LN-1
fn chances_are_read_off_what_passed_and_when() {
    let fit = Fit::of(&curve(&[(5, 1_000, 10), (60, 1_000, 500), (600, 1_000, 990)]));
    let by = |secs| fit.chance(Span::ZERO, Span::from_secs(secs));
    assert!(by(5) < 0.05, "{}", by(5));
    assert!((0.4..0.6).contains(&by(60)), "{}", by(60));
    assert!(by(600) > 0.95, "{}", by(600));
    let later = fit.chance(Span::from_secs(60), Span::from_secs(600));
    assert!((0.9..1.0).contains(&later), "of those that still failed after a minute: {later}");
}

#[test] // REQ LN-1
fn where_short_waits_do_not_help_a_longer_one_is_chosen_and_where_they_do_a_shorter() {
    let smtp = policy("smtp");
    let slow = Fit::of(&curve(&[(1, 400, 2), (60, 400, 40), (240, 400, 390)]));
    let wait = chosen(&smtp, 1, Span::ZERO, None, &slow, 1).delay();
    assert!((Span::from_secs(90)..=Span::from_secs(300)).contains(&wait), "{wait}");
    let claims = policy("claims");
    let mins = Span::from_mins;
    let mut quick = curve(&[(300, 400, 100)]);
    quick.add(Cell::of(3, mins(5), mins(10)), Counts { tried: 300, passed: 295 });
    let wait = chosen(&claims, 2, mins(5), None, &Fit::of(&quick), 1);
    assert!((mins(5)..mins(8)).contains(&wait.delay()) && wait.own() > mins(8), "{wait}");
}

#[test] // REQ LN-1
fn too_few_retries_leave_the_policy_alone() {
    let smtp = policy("smtp");
    let mut dice = Dice::seeded(1);
    let own = backoff::wait(&smtp, 0, None, &mut dice);
    let few = Fit::of(&curve(&[(1, 19, 0)]));
    let told = advise(&smtp, 1, &own, Span::ZERO, None, Some(&few), &mut dice);
    assert_eq!(told, Advice::TooFew(Counts { tried: 19, passed: 0 }));
    let none = advise(&smtp, 1, &own, Span::ZERO, None, None, &mut dice);
    assert_eq!(none, Advice::TooFew(Counts::default()));
}

#[test] // REQ LN-1
fn the_switch_is_a_word_or_a_yes() {
    for (text, read) in [("true", Adaptive::On), ("false", Adaptive::Off), ("\"advice\"", Adaptive::Advice)] {
        assert_eq!(serde_json::from_str::<Adaptive>(text).unwrap(), read);
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
    for bad in ["\"on\"", "1", "null"] {
        assert!(serde_json::from_str::<Adaptive>(bad).unwrap_err().to_string().contains("advice"), "{bad}");
    }
}

#[test] // REQ LN-1
fn the_narrowest_place_with_enough_retries_speaks() {
    let seen = |destination: &str, category: &str, tried, passed| Seen {
        channel: "whatsapp".parse().unwrap(),
        destination: Some(destination.into()),
        category: category.into(),
        cell: Cell::of(2, Span::from_secs(5), Span::from_secs(5)),
        counts: Counts { tried, passed },
    };
    let memory = Memory::of([
        seen("a", "timeout", 50, 50),
        seen("b", "timeout", 10, 0),
        seen("b", "server_error", 5, 0),
    ]);
    let tried = |destination: &str, category: &str| {
        memory.about(&"whatsapp".parse().unwrap(), destination, category).map(|fit| fit.counts().tried)
    };
    assert_eq!(tried("a", "timeout"), Some(50), "of this destination");
    assert_eq!(tried("b", "timeout"), Some(60), "of this error on the channel");
    assert_eq!(tried("b", "server_error"), Some(65), "of the channel");
    assert_eq!(memory.about(&"mail".parse().unwrap(), "a", "timeout"), None);
}

#[test] // REQ LN-1
fn a_record_that_says_something_else_than_what_follows_from_it_is_refused() {
    let fit = Fit::of(&curve(&[(5, 100, 20), (60, 100, 90)]));
    let record = chosen(&policy("whatsapp"), 1, Span::ZERO, None, &fit, 1).to_string();
    assert!(record.parse::<Adapted>().is_ok(), "{record}");
    for (what, instead) in [(", so ", ", so 1ms"), ("chances ", "chances zz"), ("left", "right")] {
        assert_eq!(record.replacen(what, instead, 1).parse::<Adapted>(), Err(BadRecord), "{instead}");
    }
}

fn some_curve() -> impl Strategy<Value = Curve> {
    let row = (2u16..9, 0u64..200_000_000, 0u64..200_000_000, 1u64..500, 0.0f64..=1.0);
    prop::collection::vec(row, 1..40).prop_map(|rows| {
        let row = |(attempt, wait, more, tried, share): (u16, u64, u64, u64, f64)| {
            let cell = Cell::of(attempt, Span::from_millis(wait), Span::from_millis(wait + more));
            #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let passed = (tried as f64 * share) as u64;
            (cell, Counts { tried: tried + Counts::ENOUGH, passed })
        };
        rows.into_iter().map(row).collect()
    })
}

proptest! {
    #[test] // REQ LN-1
    fn every_choice_lies_in_the_policys_bounds_and_can_be_made_again_from_its_record(
        name in prop::sample::select(Policy::BUILT_IN.to_vec()),
        curve in some_curve(),
        attempts in 1u16..5,
        elapsed in 0u64..100_000_000,
        until in prop::option::of(1u64..100_000_000),
        seed: u64,
    ) {
        let policy = policy(name);
        let attempts = attempts.min(policy.attempts - 1);
        let fit = Fit::of(&curve);
        let (elapsed, until) = (Span::from_millis(elapsed), until.map(Span::from_millis));
        let adapted = chosen(&policy, attempts, elapsed, until, &fit, seed);
        let (least, most) = bounds(&policy);
        prop_assert!((least..=most).contains(&adapted.delay()), "{adapted}");
        let in_time = until.is_none_or(|until| adapted.delay() < until || least >= until);
        prop_assert!(in_time, "a retry that can be made before the deadline is: {adapted}");
        prop_assert!((0.0..=1.0).contains(&adapted.chance()));
        let read: Adapted = adapted.to_string().parse().unwrap();
        prop_assert_eq!(&read, &adapted);
        prop_assert_eq!(read.again().delay(), adapted.delay());
    }

    #[test] // REQ LN-1
    fn whoever_waits_longer_is_never_less_likely_to_pass(curve in some_curve(), from in 0u64..1_000_000, wait in 0u64..9_000_000) {
        let fit = Fit::of(&curve);
        let (from, wait) = (Span::from_millis(from), Span::from_millis(wait));
        let chance = fit.chance(from, from + wait);
        prop_assert!(chance <= fit.chance(from, from + wait + wait) + 1e-9);
    }
}
