//! Plays seeds by hand: `cargo run -p pombo-sim -- --seed 7 --trace`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

use std::ops::Range;
use std::process::ExitCode;

use pombo_sim::{Show, run};

const USAGE: &str = "usage: pombo-sim [--seed N | --seeds A..B] [--trace]";

fn main() -> ExitCode {
    match asked(std::env::args().skip(1)) {
        Some((seeds, show)) => play(seeds, show),
        None => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn play(seeds: Range<u64>, show: Show) -> ExitCode {
    let (mut played, mut failures) = (0u64, 0u64);
    for seed in seeds {
        played += 1;
        match run(seed, show) {
            Ok(passed) => {
                if show == Show::All {
                    println!("{}", passed.lines.join("\n"));
                    println!("seed {seed} on {}: everything held, {:016x}", passed.store, passed.hash);
                }
            }
            Err(failed) => {
                failures += 1;
                println!("{failed}\n");
            }
        }
    }
    println!("{played} played, {failures} failed");
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn asked(mut arguments: impl Iterator<Item = String>) -> Option<(Range<u64>, Show)> {
    let (mut seeds, mut show) = (0..100, Show::End);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--trace" => show = Show::All,
            "--seed" => {
                let seed: u64 = arguments.next()?.parse().ok()?;
                seeds = seed..seed.checked_add(1)?;
            }
            "--seeds" => {
                let range = arguments.next()?;
                let (from, to) = range.split_once("..")?;
                seeds = from.parse().ok()?..to.parse().ok()?;
            }
            _ => return None,
        }
    }
    Some((seeds, show))
}
