//! The engine and its stores under virtual time and faults.
//!
//! One seed decides everything: who is there, what is asked, what the provider answers, what crashes, when the clock
//! jumps. The cores are those of production: the engine's `step`, the store's shell and writer, SQLite or the memory
//! model. Only what surrounds them is pretended. As it goes the [`oracle`] checks the invariants against what
//! the provider took and what producers were told.

mod call;
mod chance;
mod house;
mod oracle;
mod plan;
mod provider;
mod trace;
mod world;

use std::fmt;

use pombo_kernel::dice::Dice;
use pombo_store::memory::Memory;
use pombo_store::sqlite::Sqlite;

use chance::Chance;
use house::Lasting;
pub use oracle::Violation;
use plan::Plan;
pub use trace::Show;
use trace::Trace;
use world::World;

/// A run in which everything held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    pub seed: u64,
    /// Of everything that happened: the same whenever the seed is played.
    pub hash: u64,
    pub store: &'static str,
    /// Everything, or the end.
    pub lines: Vec<String>,
}

/// A run in which something did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    pub seed: u64,
    pub hash: u64,
    pub store: &'static str,
    pub violation: Violation,
    pub lines: Vec<String>,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "seed {} on {}: {}", self.seed, self.store, self.violation)?;
        write!(f, "replay it: cargo run -p pombo-sim -- --seed {}", self.seed)
    }
}

/// Every so many seeds play on SQLite; the others on the memory model, which is quicker.
pub const SQLITE_EVERY: u64 = 8;

/// Every so many seeds have campaigns, which take longer to play.
const CAMPAIGNS_EVERY: u64 = 3;

/// Every so many seeds have keepers, who let go of what has ended.
const KEEPERS_EVERY: u64 = 5;

/// Plays one seed.
pub fn run(seed: u64, show: Show) -> Result<Passed, Box<Failed>> {
    if seed.is_multiple_of(SQLITE_EVERY) {
        play::<Sqlite>(seed, "SQLite", show)
    } else {
        play::<Memory>(seed, "the memory model", show)
    }
}

fn play<C: Lasting>(seed: u64, store: &'static str, show: Show) -> Result<Passed, Box<Failed>> {
    let mut dice = Dice::seeded(seed);
    let mut plan = Plan::roll(&mut dice, &mut Dice::seeded(!seed));
    if seed.is_multiple_of(CAMPAIGNS_EVERY) {
        plan.add_drives(&mut Dice::seeded(seed.rotate_left(32)));
    }
    if seed.is_multiple_of(KEEPERS_EVERY) {
        plan.add_keepers(&mut Dice::seeded(seed.rotate_left(16)));
    }
    let mut trace = Trace::new(show);
    trace.note(0, format_args!("{} nodes, {:?}", plan.nodes, plan.faults));
    let failed = |violation, trace: Trace| {
        Box::new(Failed { seed, hash: trace.hash(), store, violation, lines: trace.into_lines() })
    };
    let mut world = match World::<C>::new(plan, dice.fork(), trace) {
        Ok(world) => world,
        Err(violation) => return Err(failed(violation, Trace::new(show))),
    };
    let held = world.run();
    let trace = world.into_trace();
    match held {
        Ok(()) => Ok(Passed { seed, hash: trace.hash(), store, lines: trace.into_lines() }),
        Err(violation) => Err(failed(violation, trace)),
    }
}
