//! Plays seeds by hand: `cargo run --release -p pombo-sim -- --seeds 0..20000`, or one with everything that happens in
//! it, `--seed 7 --trace`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]
#![allow(clippy::disallowed_methods, reason = "how long it took is told, and decides nothing")]

use std::io::{IsTerminal, Write};
use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use pombo_sim::{Failed, Passed, Show, run};

const USAGE: &str = "\
usage: pombo-sim [--seed N | --seeds A..B] [--trace] [--jobs N]

  --seed N        plays one seed
  --seeds A..B    plays those from A on, up to B; 0..100 if nothing is said
  --trace         shows everything that happens, not only the end of what fails
  --jobs N        plays so many at a time; as many as there are processors if nothing is said";

/// How often a terminal is told how far it has come, and whoever reads a file.
const TERMINAL: Duration = Duration::from_millis(500);
const FILE: Duration = Duration::from_secs(60);
/// More failures than these are counted, and not shown.
const SHOWN: usize = 20;

struct Asked {
    seeds: Range<u64>,
    show: Show,
    jobs: usize,
}

fn main() -> ExitCode {
    match asked(std::env::args().skip(1)) {
        Some(asked) => play(&asked),
        None => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// What has been played so far.
#[derive(Default)]
struct Score {
    played: u64,
    on_sqlite: u64,
    failed: Vec<u64>,
}

impl Score {
    fn add(&mut self, result: Result<Passed, Box<Failed>>, show: Show) {
        self.played += 1;
        let store = match &result {
            Ok(passed) => passed.store,
            Err(failed) => failed.store,
        };
        self.on_sqlite += u64::from(store == "SQLite");
        match result {
            Ok(passed) if show == Show::All => {
                println!("{}", passed.lines.join("\n"));
                println!("seed {} on {store}: everything held, {:016x}", passed.seed, passed.hash);
            }
            Ok(_) => {}
            Err(failed) => {
                if self.failed.len() < SHOWN {
                    println!("{failed}\n");
                }
                self.failed.push(failed.seed);
            }
        }
    }
}

fn play(asked: &Asked) -> ExitCode {
    let started = Instant::now();
    let terminal = std::io::stderr().is_terminal();
    let pause = if terminal { TERMINAL } else { FILE };
    let total = asked.seeds.end.saturating_sub(asked.seeds.start);
    let next = AtomicU64::new(asked.seeds.start);
    let mut score = Score::default();
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        for _ in 0..asked.jobs {
            let (tell, next) = (tell.clone(), &next);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= asked.seeds.end || tell.send(run(seed, asked.show)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(tell);
        let mut shown = Instant::now();
        loop {
            match told.recv_timeout(pause) {
                Ok(result) => {
                    if terminal && result.is_err() {
                        clear_line();
                    }
                    score.add(result, asked.show);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if shown.elapsed() >= pause && asked.show == Show::End {
                shown = Instant::now();
                progress(&score, total, started.elapsed(), terminal);
            }
        }
    });
    if terminal {
        clear_line();
    }
    summary(&mut score, started.elapsed())
}

fn clear_line() {
    eprint!("\r\x1b[K");
}

fn rate(played: u64, took: Duration) -> f64 {
    played as f64 / took.as_secs_f64().max(0.001)
}

fn progress(score: &Score, total: u64, took: Duration, terminal: bool) {
    let rate = rate(score.played, took);
    let left = (total - score.played) as f64 / rate.max(0.001);
    let (played, failed) = (score.played, score.failed.len());
    let line = format!("{played} of {total} played, {failed} failed, {rate:.0} a second, {left:.0} s to go");
    if terminal {
        clear_line();
        eprint!("{line}");
        // Nothing is lost with a line that cannot be shown.
        let _ = std::io::stderr().flush();
    } else {
        eprintln!("{line}");
    }
}

fn summary(score: &mut Score, took: Duration) -> ExitCode {
    let Score { played, on_sqlite, failed } = score;
    let (rate, secs) = (rate(*played, took), took.as_secs_f64());
    println!(
        "{played} played ({on_sqlite} on SQLite) in {secs:.0} s, {rate:.0} a second; {} failed",
        failed.len()
    );
    failed.sort_unstable();
    let Some(first) = failed.first() else { return ExitCode::SUCCESS };
    let seeds: Vec<String> = failed.iter().map(u64::to_string).collect();
    println!("failed: {}", seeds.join(" "));
    println!("replay one: cargo run --release -p pombo-sim -- --seed {first} --trace");
    ExitCode::FAILURE
}

fn asked(mut arguments: impl Iterator<Item = String>) -> Option<Asked> {
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    let mut asked = Asked { seeds: 0..100, show: Show::End, jobs };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--trace" => asked.show = Show::All,
            "--jobs" => asked.jobs = arguments.next()?.parse().ok().filter(|jobs| *jobs > 0)?,
            "--seed" => {
                let seed: u64 = arguments.next()?.parse().ok()?;
                asked.seeds = seed..seed.checked_add(1)?;
            }
            "--seeds" => {
                let range = arguments.next()?;
                let (from, to) = range.split_once("..")?;
                asked.seeds = from.parse().ok()?..to.parse().ok()?;
            }
            _ => return None,
        }
    }
    Some(asked)
}
