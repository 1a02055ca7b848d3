//! Thousands of seeds, in four parts so that processors can share them.
//!
//! `POMBO_SIM_SEEDS=20000` plays more than usual.

#![allow(clippy::print_stdout, reason = "how many were played is worth reading")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use pombo_sim::{SQLITE_EVERY, Show, run};

const SEEDS: u64 = 5_000;
const PARTS: u64 = 4;

/// Seeds that once failed, one a line; what stands after `#` says why.
const ONCE_FAILED: &str = include_str!("../seeds.txt");

#[track_caller]
fn check(seed: u64) -> u64 {
    match run(seed, Show::End) {
        Ok(passed) => passed.hash,
        Err(failed) => panic!("{failed}\nonce it is mended, keep the seed in crates/sim/seeds.txt"),
    }
}

/// So many seeds at a time that every part has its share of each store.
fn belongs(seed: u64, part: u64) -> bool {
    seed / SQLITE_EVERY % PARTS == part
}

fn play(part: u64) {
    let lines = ONCE_FAILED.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let once_failed: Vec<u64> =
        lines.filter(|line| !line.is_empty()).map(|seed| seed.parse().unwrap()).collect();
    let asked = std::env::var("POMBO_SIM_SEEDS").ok().and_then(|text| text.parse().ok());
    let mut played = 0;
    for seed in once_failed.into_iter().chain(0..asked.unwrap_or(SEEDS)).filter(|seed| belongs(*seed, part)) {
        check(seed);
        played += 1;
    }
    println!("result simulation part={part} seeds={played} violations=0");
}

#[test] // invariants 1 to 15
fn the_invariants_hold_on_the_first_part_of_the_seeds() {
    play(0);
}

#[test] // invariants 1 to 15
fn the_invariants_hold_on_the_second_part_of_the_seeds() {
    play(1);
}

#[test] // invariants 1 to 15
fn the_invariants_hold_on_the_third_part_of_the_seeds() {
    play(2);
}

#[test] // invariants 1 to 15
fn the_invariants_hold_on_the_fourth_part_of_the_seeds() {
    play(3);
}

#[test]
fn a_seed_plays_the_same_way_twice() {
    for seed in 0..50 {
        assert_eq!(check(seed), check(seed), "seed {seed}");
    }
}
