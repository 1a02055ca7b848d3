//! Brings what was learnt to where it is used: rules that people accepted, to the setup of every node; and what retries
//! have taught, to the engine.
//!
//! Each node looks for itself, every few seconds. What it goes by is a copy of what the configuration says, so that a
//! new configuration and a new rule do not lose each other.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pombo_engine::Engine;
use pombo_kernel::adapt::{Adaptive, Memory};
use pombo_kernel::setup::Setup;
use pombo_kernel::time::Clock;
use pombo_store::learning::seen;
use pombo_store::shelf::Doc;
use pombo_store::{Store, StoreError};
use pombo_web::rule::{self, Accepted};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};

/// How long an accepted rule takes to be known here, at most.
const EVERY: Duration = Duration::from_secs(20);
/// What retries have taught is read once in so many looks, where a policy goes by it.
const REMEMBER_EVERY: u32 = 2;

/// The one who looks. Ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Learner {
    known: Arc<Known>,
    looking: JoinHandle<()>,
}

impl Drop for Learner {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

/// What a node goes by.
#[derive(Debug)]
struct Known {
    state: Mutex<State>,
    setups: watch::Sender<Arc<Setup>>,
    engine: Option<Arc<Engine>>,
}

#[derive(Debug)]
struct State {
    /// What the configuration says.
    configured: Arc<Setup>,
    accepted: Vec<(Doc, Accepted)>,
}

impl Learner {
    /// Looks at once, and then every few seconds. `setups` has what the configuration says.
    pub(crate) fn start(
        store: Arc<dyn Store>,
        setups: watch::Sender<Arc<Setup>>,
        engine: Option<Arc<Engine>>,
        clock: Arc<dyn Clock>,
    ) -> Learner {
        let configured = setups.borrow().clone();
        let state = Mutex::new(State { configured, accepted: Vec::new() });
        let known = Arc::new(Known { state, setups, engine });
        let looking = tokio::spawn(look(Arc::clone(&known), store, clock));
        Learner { known, looking }
    }

    /// What a new configuration comes to, with what was learnt.
    pub(crate) fn configured(&self, setup: Arc<Setup>) -> Arc<Setup> {
        let mut state = self.known.state();
        state.configured = setup;
        state.setup()
    }
}

async fn look(known: Arc<Known>, store: Arc<dyn Store>, clock: Arc<dyn Clock>) {
    let (mut told, mut looks) = (false, 0_u32);
    loop {
        let looked = async {
            known.look(&*store).await?;
            if looks.is_multiple_of(REMEMBER_EVERY) {
                known.remember(&*store, &*clock).await?;
            }
            looks = looks.wrapping_add(1);
            Ok::<_, StoreError>(())
        };
        match looked.await {
            Ok(()) => told = false,
            Err(StoreError::Closed) => return,
            Err(error) if !told => {
                warn!(%error, "what was learnt could not be read; what is known stays in effect");
                told = true;
            }
            Err(_) => {}
        }
        tokio::time::sleep(EVERY).await;
    }
}

impl State {
    fn setup(&self) -> Arc<Setup> {
        match self.accepted.is_empty() {
            true => Arc::clone(&self.configured),
            false => Arc::new(rule::dressed(&self.configured, &self.accepted)),
        }
    }
}

impl Known {
    /// Tells the engine what retries have taught, where a channel's waits go by it or would have.
    async fn remember(&self, store: &dyn Store, clock: &dyn Clock) -> Result<(), StoreError> {
        let goes_by_it =
            |setup: &Setup| setup.channels.values().any(|it| it.policy.adaptive != Adaptive::Off);
        let Some(engine) = self.engine.as_ref().filter(|_| goes_by_it(&self.setups.borrow())) else {
            return Ok(());
        };
        engine.learned(Arc::new(Memory::of(seen(store.learnt(None, clock.now()).await?))));
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look(&self, store: &dyn Store) -> Result<(), StoreError> {
        let accepted = rule::all(store, None).await?;
        let mut state = self.state();
        if state.accepted == accepted {
            return Ok(());
        }
        info!(rules = accepted.len(), "the accepted rules have changed and are in effect");
        state.accepted = accepted;
        let setup = state.setup();
        if let Some(engine) = &self.engine {
            engine.retune(Arc::clone(&setup));
        }
        // Still under the lock, so that a new configuration does not come between.
        self.setups.send_replace(setup);
        Ok(())
    }
}
