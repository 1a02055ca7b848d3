//! What nodes do for all of them: sealing the audit, and cleaning up behind everybody.
//!
//! One node at a time has each of these offices, by a lease in the database. If two believe to have it, as after a long
//! pause of one, they do the same work twice or wait for each other, and no harm comes of it. Each has a thread and a
//! connection of its own, so that neither waits for the other or for the writer.

mod chores;
mod seal;

use std::fmt;
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pombo_kernel::time::{Span, Time};
use tracing::debug;

use super::link::{Driver, Kind, Link, Target};
use super::sql;
use crate::StoreError;
pub(super) use seal::{seal, seal_within};

/// How long an office is its holder's, and how much of that must be left for the holder not to ask for more.
const LEASE_MS: i64 = 6_000;
const ENOUGH_MS: i64 = 3_000;
/// Commits gather for this long before they are sealed together.
const GATHER: Duration = Duration::from_millis(100);
/// How often to look when there was no word of anything.
const IDLE: Duration = Duration::from_secs(1);
const CHORES_IDLE: Duration = Duration::from_secs(5);
const CHORES_BUSY: Duration = Duration::from_secs(1);
/// How long to wait before connecting again.
const RECONNECT: Duration = Duration::from_secs(2);
/// How long whoever ends a node waits for its offices to be left. After that they are somebody else's when the lease
/// ends.
const LEAVING: Duration = Duration::from_secs(2);

/// Both offices of a node. They end when this is dropped.
pub(super) struct Upkeep {
    bells: [Arc<Bell>; 2],
    /// Has no sender any more when both have ended.
    ended: Mutex<mpsc::Receiver<()>>,
}

impl fmt::Debug for Upkeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upkeep")
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Upkeep {
    /// `holder` tells the process from all others. `sealed` is told where the chain ends, whenever it was seen to be
    /// longer. Months that ended longer ago than `retention` are dropped; none are without one.
    pub(super) fn start(
        driver: &Driver,
        target: &Target,
        holder: i64,
        retention: Option<Span>,
        sealed: impl Fn(u64) + Send + 'static,
    ) -> Result<Upkeep, StoreError> {
        let bells = [Arc::new(Bell::default()), Arc::new(Bell::default())];
        let office = |kind, nth: usize| Office {
            driver: driver.clone(),
            target: target.clone(),
            kind,
            holder,
            bell: bells[nth].clone(),
        };
        let (seal, chores) = (office(Kind::Upkeep, 0), office(Kind::Chores, 1));
        let (seals, ended) = mpsc::channel();
        let cleans = seals.clone();
        spawn("pombo-seal", move || {
            let _ends = seals;
            let mut told = None;
            let mut sealed = |end| {
                if told.replace(end) != Some(end) {
                    sealed(end);
                }
            };
            seal.run(|office, link| office.seal(link, &mut sealed));
        })?;
        spawn("pombo-upkeep", move || {
            let _ends = cleans;
            let mut done = chores::Chores::new(retention);
            chores.run(|office, link| {
                office.rest();
                // Whoever ends the node waits for this.
                if office.bell.stops() { Ok(()) } else { office.clean(link, &mut done) }
            });
        })?;
        Ok(Upkeep { bells, ended: Mutex::new(ended) })
    }

    fn stop(&self) {
        self.bells.iter().for_each(|bell| bell.ring(Ring::Stop));
    }

    /// Ends both offices and waits until they are left, so that whoever starts next does not have to wait for the lease
    /// of one that is gone. What takes too long is not waited for.
    pub(super) fn end(&self) {
        self.end_within(LEAVING);
    }

    fn end_within(&self, patience: Duration) {
        self.stop();
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody sends: it is over when both senders are gone.
        let _ = ended.recv_timeout(patience);
    }

    /// Says that something was committed, here or elsewhere.
    pub(super) fn wake(&self) {
        self.bells.iter().for_each(|bell| bell.ring(Ring::Work));
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map(drop).map_err(|error| StoreError::Unavailable(format!("cannot start a thread: {error}")))
}

/// What an office does until it is told to stop.
struct Office {
    driver: Driver,
    target: Target,
    kind: Kind,
    holder: i64,
    bell: Arc<Bell>,
}

impl Office {
    /// Does one round after another until the bell says to stop. Whatever fails is done again on a new connection:
    /// the writer has said already what is wrong.
    fn run(&self, mut round: impl FnMut(&Office, &Link) -> Result<(), StoreError>) {
        loop {
            let done = Link::open(&self.driver, &self.target, self.kind).and_then(|link| {
                loop {
                    round(self, &link)?;
                    if self.bell.stops() {
                        return self.leave(&link);
                    }
                }
            });
            if let Err(error) = done {
                debug!(%error, "upkeep starts anew");
            }
            self.bell.sleep(RECONNECT);
            if self.bell.stops() {
                return;
            }
        }
    }

    fn name(&self) -> &'static str {
        if self.kind == Kind::Upkeep { "audit" } else { "upkeep" }
    }

    /// Whether the office is ours, given whether it was, and for how long it is somebody's.
    fn holds(&self, link: &Link, mine: bool, left_ms: i64) -> Result<bool, StoreError> {
        if mine && left_ms >= ENOUGH_MS || !mine && left_ms > 0 {
            return Ok(mine);
        }
        let values = vec![self.name().into(), self.holder.into(), LEASE_MS.into()];
        Ok(!link.query(sql!("office_take"), values)?.is_empty())
    }

    /// Seals what is left, as far as it goes, and lets others take the office at once.
    fn leave(&self, link: &Link) -> Result<(), StoreError> {
        if self.kind == Kind::Upkeep {
            seal(link)?;
        }
        link.query(sql!("office_leave"), vec![self.name().into(), self.holder.into()]).map(drop)
    }

    fn seal(&self, link: &Link, sealed: &mut impl FnMut(u64)) -> Result<(), StoreError> {
        let rows = link.query(sql!("audit_look"), vec![self.holder.into()])?;
        let Some(row) = rows.first() else {
            return Err(StoreError::Broken("the audit has no end".to_owned()));
        };
        let holds = self.holds(link, row.get(0), row.get(1))?;
        sealed(if holds && row.get(3) { seal(link)? } else { seal::unsigned(row, 2)? });
        if !holds {
            self.bell.sleep(IDLE);
            return Ok(());
        }
        if self.bell.wait(IDLE) {
            self.bell.sleep(GATHER);
        }
        Ok(())
    }

    /// Waits until it is time to clean.
    fn rest(&self) {
        if self.bell.wait(CHORES_IDLE) {
            self.bell.sleep(CHORES_BUSY);
        }
    }

    fn clean(&self, link: &Link, chores: &mut chores::Chores) -> Result<(), StoreError> {
        let rows = link.query(sql!("upkeep_look"), vec![self.holder.into()])?;
        let Some(row) = rows.first() else { return Ok(()) };
        if self.holds(link, row.get(1), row.get(2))? {
            chores.round(link, Time::from_millis(row.get(0)))?;
        }
        Ok(())
    }
}

/// Something that a thread waits for.
#[derive(Default)]
struct Bell {
    state: Mutex<(bool, bool)>,
    rung: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ring {
    Work,
    Stop,
}

impl Bell {
    fn ring(&self, ring: Ring) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match ring {
            Ring::Work => state.0 = true,
            Ring::Stop => state.1 = true,
        }
        self.rung.notify_all();
    }

    fn stops(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// Waits until there is work, and answers whether there is.
    fn wait(&self, at_most: Duration) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.rung.wait_timeout_while(state, at_most, |(work, stop)| !*work && !*stop);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut state.0)
    }

    /// Waits, whether there is work or not.
    fn sleep(&self, span: Duration) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.rung.wait_timeout_while(state, span, |(_, stop)| !*stop));
    }
}

#[cfg(test)]
mod tests;
