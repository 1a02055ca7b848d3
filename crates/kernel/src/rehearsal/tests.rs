use super::*;
use crate::adapt::{self, Adaptive};
use crate::dice::Dice;
use crate::learn::{Cell, Counts, Curve};
use crate::policy::{Overrides, Policy, Profile};

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
