//! A store at work: the writer, and what works beside it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use pombo_kernel::dice::Dice;
use pombo_kernel::time::{Clock, Span};

use super::clock::DatabaseClock;
use super::inbox::Tray;
use super::news::News;
use super::reader::Reader;
use super::upkeep::Upkeep;
use super::{Postgres, Sealing, Target};
use crate::StoreError;
use crate::shell::{Entropy, Shell};

/// How a process works on a store.
#[derive(Clone, Debug)]
pub struct Options {
    pub target: Target,
    /// Takes part in what one node at a time does for all: sealing the audit, cleaning. Some node must.
    pub upkeep: bool,
    /// Months that ended longer ago are dropped, once nothing in them is unfinished; none are without it.
    pub keep: Option<Span>,
}

/// A store at work. All handles write through one writer; each has connections of its own to read by, so that none
/// can take those of another.
#[derive(Debug)]
pub struct Started {
    /// For the doors.
    pub store: Shell<Postgres>,
    pub engine: Shell<Postgres>,
    pub dashboard: Shell<Postgres>,
    pub inbox: Tray,
    /// The database's time, by which everything is decided.
    pub clock: Arc<dyn Clock>,
}

/// Connections to read by, for the engine and for the dashboard each. They are opened when they are first used.
const READERS: usize = 4;

/// Opens the store, making or upgrading its schema if need be, and goes to work.
///
/// `local` need only be steady: what time it is, the database says.
pub fn start(
    options: &Options,
    local: Arc<dyn Clock>,
    dice: Dice,
    mut entropy: Entropy,
) -> Result<Started, StoreError> {
    let clock = Arc::new(DatabaseClock::new(local));
    let mut core = Postgres::open(&options.target, dice.clone(), &entropy(), Sealing::ByUpkeep)?;
    core.beside.clock = Some(clock.clone());
    core.look_at_all(clock.now())?;
    let (driver, target) = (core.driver.clone(), options.target.clone());
    let nudge: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>> = Arc::default();
    let nudged = |nudge: &Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>| {
        let nudge = nudge.clone();
        move || {
            if let Some(nudge) = nudge.get() {
                nudge();
            }
        }
    };
    if options.upkeep {
        let (position, tell) = (core.position.clone(), nudged(&nudge));
        let sealed = move |end| {
            position.fetch_max(end, Ordering::Relaxed);
            tell();
        };
        core.beside.upkeep =
            Some(Arc::new(Upkeep::start(&driver, &target, core.holder, options.keep, sealed)?));
    }
    let (heard, upkeep) = (nudged(&nudge), core.beside.upkeep.clone());
    let hear = move || {
        heard();
        if let Some(upkeep) = &upkeep {
            upkeep.wake();
        }
    };
    core.beside.news = Some(News::start(&driver, &target, dice, Arc::new(hear)));
    let vault = core.vault.clone();
    let readers =
        || (0..READERS).map(|_| Reader::new(driver.clone(), target.clone(), vault.clone())).collect();
    let bell = core.bell();
    let store = Shell::start(core, clock.clone(), entropy)?;
    // Nobody else sets it, and those who were told earlier had nobody to tell.
    let _ = nudge.set(Box::new(store.nudger()));
    let (engine, dashboard) = (store.beside(readers()), store.beside(readers()));
    Ok(Started { inbox: Tray::of(store.clone(), bell), store, engine, dashboard, clock })
}
