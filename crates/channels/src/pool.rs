//! Connections between two requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::line::Line;

const TICK: Duration = Duration::from_secs(1);
/// Below the 5 s after which common servers hang up on an idle connection: a request that crosses with a
/// hang-up leaves its outcome in doubt.
const IDLE_TICKS: u64 = 4;
/// A name that moves to another address is followed within a minute, however busy the connection.
const AGE_TICKS: u64 = 60;
const IDLE_PER_ORIGIN_MAX: usize = 128;
const IDLE_MAX: usize = 512;

/// A connection that can wait for its next use.
pub(crate) trait Idle: Send + 'static {
    /// Whether it is good for another use now.
    fn is_free(&mut self) -> bool;

    /// The pool's tick at which it was opened.
    fn born(&mut self) -> &mut u64;
}

impl Idle for Line {
    fn is_free(&mut self) -> bool {
        Line::is_free(self)
    }

    fn born(&mut self) -> &mut u64 {
        &mut self.born
    }
}

/// Idle connections by origin (scheme, host and port). Each goes to an address that was judged when it was
/// opened, so using it again needs no new look at the name.
#[derive(Debug)]
pub(crate) struct Pool<L = Line> {
    state: Mutex<State<L>>,
}

#[derive(Debug)]
struct State<L> {
    /// Seconds since the first connection was parked. It tells age without a clock.
    tick: u64,
    ticking: bool,
    idle: BTreeMap<Box<str>, Vec<Parked<L>>>,
    count: usize,
}

#[derive(Debug)]
struct Parked<L> {
    line: L,
    since: u64,
}

impl<L> Default for Pool<L> {
    fn default() -> Pool<L> {
        Pool { state: Mutex::new(State { tick: 0, ticking: false, idle: BTreeMap::new(), count: 0 }) }
    }
}

impl<L: Idle> Pool<L> {
    fn state(&self) -> MutexGuard<'_, State<L>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection to this origin that was used last, if one is still good.
    pub(crate) fn take(&self, origin: &str) -> Option<L> {
        loop {
            let mut line = self.state().pop(origin)?;
            if line.is_free() {
                return Some(line);
            }
        }
    }

    /// Notes the birth of a new connection.
    pub(crate) fn register(&self, line: &mut L) {
        *line.born() = self.state().tick;
    }

    /// Keeps a connection for the next request, if it is good for one and there is room.
    pub(crate) fn park(self: &Arc<Pool<L>>, origin: &str, mut line: L) {
        if !line.is_free() {
            return;
        }
        let mut state = self.state();
        if state.count >= IDLE_MAX || state.tick - *line.born() >= AGE_TICKS {
            return;
        }
        if !state.ticking {
            state.ticking = true;
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
        let parked = Parked { line, since: state.tick };
        match state.idle.get_mut(origin) {
            Some(lines) if lines.len() >= IDLE_PER_ORIGIN_MAX => return,
            Some(lines) => lines.push(parked),
            None => {
                state.idle.insert(origin.into(), vec![parked]);
            }
        }
        state.count += 1;
    }

    /// A second has passed: closes what has been idle too long.
    pub(crate) fn tick(&self) {
        let old = self.state().tick();
        drop(old);
    }

    #[cfg(test)]
    pub(crate) fn idle(&self) -> usize {
        self.state().count
    }
}

impl<L> State<L> {
    fn pop(&mut self, origin: &str) -> Option<L> {
        let parked = self.idle.get_mut(origin)?.pop()?;
        self.count -= 1;
        Some(parked.line)
    }

    /// Moves time on by one second and gives back what has been idle too long.
    fn tick(&mut self) -> Vec<Parked<L>> {
        self.tick += 1;
        let now = self.tick;
        let mut old = Vec::new();
        self.idle.retain(|_, lines| {
            old.extend(lines.extract_if(.., |parked| now - parked.since >= IDLE_TICKS));
            !lines.is_empty()
        });
        self.count -= old.len();
        old
    }
}

/// Closes connections that nobody has used for a while, for as long as there is a pool.
async fn sweep<L: Idle>(pool: Weak<Pool<L>>) {
    loop {
        tokio::time::sleep(TICK).await;
        let Some(pool) = pool.upgrade() else { return };
        pool.tick();
    }
}
