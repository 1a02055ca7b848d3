use proptest::prelude::*;

use super::{
    BadWish, Comparison, Episode, Learning, Lengths, Outcome, Replayed, SLOTS, Scenario, Trouble, Turns,
    Verdict, episodes, foresight, play, replay,
};
use crate::adapt::{self, Adaptive};
use crate::dice::Dice;
use crate::learn::{Cell, Counts, Curve};
use crate::policy::{Overrides, Policy, Profile};
use crate::time::Span;

const SEED: u64 = 1;
const MESSAGES: usize = 4_000;
/// The policies of the source documents.
const SEEDS: [&str; 4] = ["whatsapp", "smtp", "resend", "claims"];

fn fixed(name: &str) -> Policy {
    Policy::built_in(name, Profile::Production).unwrap()
}

fn adaptive(name: &str) -> Policy {
    fixed(name).with(&Overrides { adaptive: Some(Adaptive::On), ..Overrides::default() })
}

fn run(policy: &Policy, set: &[Episode], learning: &mut Learning) -> Outcome {
    play(policy, set, Span::from_mins(1), learning, &mut Dice::seeded(SEED))
}

fn untaught() -> Learning {
    Learning::from(Curve::default())
}

fn set(scenario: &str, messages: usize, seed: u64) -> Vec<Episode> {
    episodes(&Scenario::published(scenario).unwrap(), messages, &mut Dice::seeded(seed))
}

#[test] // REQ LN-1, LN-2
fn adaptive_waits_recover_as_many_and_waste_less_or_are_sooner_on_every_published_scenario() {
    let mut wrong = Vec::new();
    for scenario in Scenario::PUBLISHED {
        let (before, measured) = (set(scenario, MESSAGES, SEED + 1), set(scenario, MESSAGES, SEED));
        for name in SEEDS {
            let (fixed, adaptive) = (fixed(name), adaptive(name));
            let table = run(&fixed, &measured, &mut untaught());
            let best = foresight(&fixed, &measured, Span::from_mins(1));
            let cold = run(&adaptive, &measured, &mut untaught());
            let mut taught = untaught();
            run(&adaptive, &before, &mut taught);
            let warm = run(&adaptive, &measured, &mut taught);
            for (how, outcome) in [("cold", cold), ("warm", warm)] {
                let verdict = Verdict::of(&table, &outcome, best.as_ref());
                let (least, most) = adapt::bounds(&adaptive);
                let (shortest, longest) = outcome.waits.unwrap();
                if !verdict.holds() || shortest < least || longest > most {
                    wrong.push(format!(
                        "{scenario}, {name}, {how}: {}, {shortest} to {longest}",
                        verdict.as_str()
                    ));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test] // REQ LN-2
fn the_same_seed_plays_the_same() {
    let episodes = set("mixed", 500, 7);
    assert_eq!(episodes, set("mixed", 500, 7));
    assert_ne!(episodes, set("mixed", 500, 8));
    let policy = adaptive("smtp");
    assert_eq!(run(&policy, &episodes, &mut untaught()), run(&policy, &episodes, &mut untaught()));
}

#[test] // REQ LN-2
fn a_fixed_policy_recovers_what_its_schedule_reaches() {
    let down = |mins| Scenario {
        name: "own".into(),
        says: String::new(),
        trouble: Trouble::Down { least: Span::from_mins(mins), most: Span::from_mins(mins) },
        permanent: 0.0,
        per_minute: 10.0,
    };
    let play =
        |mins| run(&fixed("resend"), &episodes(&down(mins), 1_000, &mut Dice::seeded(1)), &mut untaught());
    let short = play(20);
    assert_eq!((short.share(), short.lost()), (1.0, 0), "its last retry comes after 21 minutes");
    let long = play(42);
    assert!((0.45..0.55).contains(&long.share()), "half of them fail first in the last 21: {}", long.share());
    assert_eq!(long.time_to(0.9), None);
    assert_eq!(long.load.iter().sum::<u64>(), long.failed + long.retries);
}

#[test] // REQ LN-2
fn whoever_knows_when_trouble_ends_wastes_nothing_that_the_bounds_allow() {
    let episodes = set("restart", 1_000, 3);
    let best = foresight(&fixed("resend"), &episodes, Span::from_mins(1)).unwrap();
    assert_eq!((best.wasted, best.lost()), (0, 0), "one wait of up to 15 minutes is enough");
    let quick = foresight(&fixed("smtp"), &episodes, Span::from_mins(1)).unwrap();
    assert!(quick.wasted > 0 && quick.lost() == 0, "5 minutes at most take two or three");
    assert_eq!(foresight(&fixed("smtp"), &set("rate-limit", 100, 3), Span::from_mins(1)), None);
}

#[test] // REQ LN-2
fn permanent_errors_are_recovered_by_nobody() {
    let never = Scenario { permanent: 1.0, ..Scenario::published("blips").unwrap() };
    let outcome = run(&fixed("whatsapp"), &episodes(&never, 100, &mut Dice::seeded(1)), &mut untaught());
    assert_eq!((outcome.recovered, outcome.wasted), (0, outcome.failed * 3));
}

#[test] // REQ LN-2
fn history_tells_no_more_than_the_moments_that_were_tried() {
    let wait = |secs| Cell::of(2, Span::from_secs(secs), Span::from_secs(secs));
    let next = Cell::of(3, Span::from_secs(30), Span::from_secs(35));
    let curve: Curve =
        [(wait(5), Counts { tried: 100, passed: 40 }), (next, Counts { tried: 60, passed: 30 })]
            .into_iter()
            .collect();
    let replayed = replay(&fixed("whatsapp"), &curve).unwrap();
    assert_eq!(replayed.tried, 160);
    assert!(replayed.worst.recovered <= 0.71 && replayed.best.recovered >= 0.69, "{replayed:?}");
    assert!(replayed.worst.recovered < replayed.best.recovered, "the third retry was never made");
    assert_eq!(replayed.best.recovered, 1.0, "and might have saved the rest");
    let later = replay(&fixed("resend"), &curve).unwrap();
    assert!(
        (later.worst.recovered - 0.7).abs() < 0.01,
        "by a minute as many as by 35 s, at least: {later:?}"
    );
    assert_eq!(replay(&fixed("whatsapp"), &Curve::default()), None);
}

fn row(attempt: u16, wait: u64, elapsed: u64, tried: u64, passed: u64) -> (Cell, Counts) {
    (Cell::of(attempt, Span::from_secs(wait), Span::from_secs(elapsed)), Counts { tried, passed })
}

#[test] // REQ LN-2
fn whoever_was_given_up_makes_the_worst_worse_and_the_best_better() {
    // Ten were patient and passed after 100 s; ten were given up after 2 s.
    let curve: Curve =
        [row(2, 1, 1, 20, 0), row(3, 1, 2, 10, 0), row(3, 99, 100, 10, 10)].into_iter().collect();
    let replayed = replay(&fixed("claims"), &curve).unwrap();
    assert_eq!((replayed.worst.recovered, replayed.best.recovered), (0.5, 1.0), "{replayed:?}");
}

#[test] // REQ LN-2
fn attempts_beyond_the_eighth_are_no_further_messages() {
    let mut rows = vec![row(2, 1, 1, 30, 0)];
    rows.extend((3..8).map(|attempt| row(attempt, 1, 2, 30, 0)));
    rows.push(row(8, 1, 4, 90, 30));
    let replayed = replay(&fixed("claims"), &rows.into_iter().collect()).unwrap();
    assert_eq!((replayed.worst.recovered, replayed.best.recovered), (1.0, 1.0), "{replayed:?}");
}

proptest! {
    #[test] // REQ LN-2
    fn the_worst_is_never_better_than_the_best(
        rows in prop::collection::vec((2u16..10, 0u64..4_000, 0u64..4_000, 1u64..60, 0u64..60), 1..30),
        policy in 0usize..4,
        waits in any::<bool>(),
    ) {
        let cells = rows.into_iter().map(|(attempt, wait, before, tried, passed)| {
            row(attempt, wait, wait + before, tried, passed.min(tried))
        });
        let curve: Curve = cells.collect();
        let policy = if waits { adaptive(SEEDS[policy]) } else { fixed(SEEDS[policy]) };
        let Some(Replayed { worst, best, .. }) = replay(&policy, &curve) else { return Ok(()) };
        prop_assert!((0.0..=1.0).contains(&worst.recovered) && (0.0..=1.0).contains(&best.recovered));
        prop_assert!(worst.recovered <= best.recovered + 1e-9, "{worst:?} {best:?}");
        prop_assert!(best.wasted_each <= worst.wasted_each + 1e-9, "{worst:?} {best:?}");
        for (worst, best) in worst.moments.iter().zip(&best.moments) {
            prop_assert!(worst.recovered <= best.recovered + 1e-9, "{worst:?} {best:?}");
        }
    }
}

#[test] // REQ LN-2
fn trouble_of_ones_own_is_read_as_it_is_written() {
    let secs = Span::from_secs;
    let lengths = |text: &str| text.parse::<Lengths>();
    assert_eq!(lengths("30s..20m"), Ok(Lengths { least: secs(30), most: secs(1_200) }));
    assert_eq!(lengths("5m"), Ok(Lengths { least: secs(300), most: secs(300) }));
    assert_eq!(lengths("5m..1m"), Err(BadWish::Lengths));
    assert_eq!((lengths("0s"), lengths("soon")), (Err(BadWish::Lengths), Err(BadWish::Length)));
    assert_eq!("90s/45s".parse(), Ok(Turns { down: secs(90), up: secs(45) }));
    assert_eq!("90s".parse::<Turns>(), Err(BadWish::Turns));
}

#[test] // REQ LN-2
fn trouble_that_would_take_for_ever_to_play_is_refused_by_its_part() {
    let (secs, hours) = (Span::from_secs, Span::from_hours);
    let parts = |trouble| -> Vec<&'static str> {
        Scenario::own(trouble).with(Some(1_000_000), None).wrong().iter().map(|it| it.part).collect()
    };
    assert_eq!(parts(Trouble::Down { least: secs(1), most: hours(1) }), Vec::<&str>::new());
    assert_eq!(parts(Trouble::Down { least: Span::ZERO, most: hours(1_000) }), ["from", "to"]);
    assert_eq!(parts(Trouble::Down { least: secs(9), most: secs(3) }), ["to"]);
    let flapping = |lasts, down, up| parts(Trouble::Flapping { lasts, down, up });
    assert_eq!(flapping(hours(1), secs(90), secs(45)), Vec::<&str>::new());
    assert_eq!(flapping(hours(24), secs(1), secs(1)), ["lasts"]);
    assert_eq!(flapping(Span::ZERO, Span::ZERO, Span::ZERO), ["down", "up", "lasts"]);
    assert_eq!(parts(Trouble::Limited { lasts: hours(1), takes: 60.0 }), ["arrivals"]);
    for name in Scenario::PUBLISHED {
        assert_eq!(Scenario::published(name).unwrap().wrong(), [], "{name}");
    }
}

#[test] // REQ LN-2
fn a_crowd_that_does_not_compete_is_played_in_part() {
    let crowd = Trouble::Down { least: Span::from_hours(24), most: Span::from_hours(24) };
    let scenario = Scenario::own(crowd).with(Some(1_000_000), Some(5));
    let played = Comparison::new(&scenario, 500, Span::from_hours(1), SEED);
    assert_eq!(played.messages(), 500);
}

#[test] // REQ LN-2
fn what_is_affordable_shrinks_with_the_attempts_of_a_policy() {
    let scenario = Scenario::published("outage").unwrap();
    let many = fixed("smtp").with(&Overrides { attempts: Some(1_000), ..Overrides::default() });
    assert_eq!(scenario.affordable(&fixed("smtp"), 4_000, 20_000), Some(4_000));
    assert_eq!(scenario.affordable(&fixed("smtp"), 4_000, 8_000), Some(2_000));
    assert_eq!(scenario.affordable(&many, 4_000, 20_000), Some(50));
    let limited = Scenario::published("rate-limit").unwrap();
    assert_eq!(limited.affordable(&fixed("smtp"), 4_000, 20_000), Some(4_000));
    assert_eq!(limited.affordable(&many, 4_000, 20_000), None, "1,200 have to come together");
}

#[test] // REQ LN-2
fn nearly_all_of_the_load_has_room_in_its_slots() {
    for scenario in Scenario::PUBLISHED {
        let scenario = Scenario::published(scenario).unwrap();
        for name in SEEDS {
            let policy = fixed(name);
            for played in Comparison::new(&scenario, 1_000, scenario.slot(&policy), SEED).of(&policy) {
                let load = &played.outcome.load;
                let later = load[SLOTS - 1] * 10 / load.iter().sum::<u64>();
                assert_eq!(later, 0, "{}, {name}, {:?}: {load:?}", scenario.name, played.act);
                let used = load.iter().rposition(|count| *count > 0).unwrap();
                assert!(used >= 6, "{}, {name}, {:?}: {used} of them are used", scenario.name, played.act);
            }
        }
    }
}

#[test] // REQ LN-2
fn verdicts_say_what_was_gained() {
    let outcome = |recovered: u64, wasted: u64, time: u64| Outcome {
        failed: 10,
        recovered,
        wasted,
        times: (0..recovered).map(|_| Span::from_secs(time)).collect(),
        ..Outcome::new(Span::from_secs(1))
    };
    let fixed = outcome(8, 100, 100);
    for (adaptive, verdict) in [
        (outcome(8, 70, 70), Verdict::Both),
        (outcome(9, 70, 200), Verdict::LessWaste),
        (outcome(8, 100, 70), Verdict::Sooner),
        (outcome(8, 71, 71), Verdict::Alike),
        (outcome(7, 1, 1), Verdict::Worse),
    ] {
        assert_eq!(Verdict::of(&fixed, &adaptive, None), verdict, "{adaptive:?}");
    }
    let best = outcome(8, 80, 90);
    assert_eq!(Verdict::of(&fixed, &outcome(8, 90, 95), Some(&best)), Verdict::OutOfReach);
}
