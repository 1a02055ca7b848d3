//! Plays targets for longer: `cargo run --release -p pombo-fuzz -- NAME --seconds 60`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use pombo_fuzz::drive::{Plan, run};
use pombo_fuzz::{TARGETS, Target, corpus, target};

const USAGE: &str = "usage: pombo-fuzz [NAME...] [--seconds N] [--runs N] [--seed N] [--careful FILE] [--copy FOLDER]\n\
    all targets without a name, each for so long; --careful writes each input to the file before it is played;\n\
    --copy plays nothing, and writes what they begin with to the folder, for cargo-fuzz";

#[derive(Debug)]
struct Asked {
    targets: Vec<&'static Target>,
    seconds: u64,
    runs: u64,
    seed: u64,
    careful: Option<PathBuf>,
    copy: Option<PathBuf>,
}

fn main() -> ExitCode {
    match asked(std::env::args().skip(1)) {
        Some(Asked { targets, copy: Some(folder), .. }) => {
            let copied = |target: &&Target| corpus::copy(target, &corpus::folder(), &folder);
            match targets.iter().try_for_each(copied) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("{}: {error}", folder.display());
                    ExitCode::FAILURE
                }
            }
        }
        Some(asked) => play(&asked),
        None => {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            eprintln!("{USAGE}\ntargets: {}", names.join(", "));
            ExitCode::from(2)
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "how long a run lasts is no decision of the engine's")]
fn play(asked: &Asked) -> ExitCode {
    let folder = corpus::folder();
    let (mut runs, mut failures) = (0, 0);
    for target in &asked.targets {
        let end = Instant::now() + Duration::from_secs(asked.seconds);
        let careful = asked.careful.as_deref();
        let plan = Plan { seed: asked.seed, runs: asked.runs, corpus: &folder, careful };
        match run(target, &plan, || Instant::now() < end) {
            Ok(done) => {
                runs += done.runs;
                println!("{}: {} kept, {} runs, {} outcomes", target.name, done.kept, done.runs, done.signs);
            }
            Err(failed) => {
                failures += 1;
                println!("{failed}\nwith --seed {}\n", asked.seed);
            }
        }
    }
    println!("result fuzz targets={} runs={runs} failed={failures}", asked.targets.len());
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn asked(mut arguments: impl Iterator<Item = String>) -> Option<Asked> {
    let mut asked =
        Asked { targets: Vec::new(), seconds: 10, runs: u64::MAX, seed: 0, careful: None, copy: None };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seconds" => asked.seconds = arguments.next()?.parse().ok()?,
            "--runs" => asked.runs = arguments.next()?.parse().ok()?,
            "--seed" => asked.seed = arguments.next()?.parse().ok()?,
            "--careful" => asked.careful = Some(arguments.next()?.into()),
            "--copy" => asked.copy = Some(arguments.next()?.into()),
            name => asked.targets.push(target(name)?),
        }
    }
    if asked.targets.is_empty() {
        asked.targets = TARGETS.iter().collect();
    }
    Some(asked)
}
