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
use pombo_kernel::setup::Setup;
use pombo_store::shelf::Doc;
use pombo_store::{Store, StoreError};
use pombo_web::rule::{self, Accepted};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};

/// How long an accepted rule takes to be known here, at most.
const EVERY: Duration = Duration::from_secs(2);

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
    ) -> Learner {
        let configured = setups.borrow().clone();
        let state = Mutex::new(State { configured, accepted: Vec::new() });
        let known = Arc::new(Known { state, setups, engine });
        let looking = tokio::spawn(look(Arc::clone(&known), store));
        Learner { known, looking }
    }

    /// What a new configuration comes to, with what was learnt.
    pub(crate) fn configured(&self, setup: Arc<Setup>) -> Arc<Setup> {
        let mut state = self.known.state();
        state.configured = setup;
        state.setup()
    }
}

async fn look(known: Arc<Known>, store: Arc<dyn Store>) {
    let mut told = false;
    loop {
        match known.look(&*store).await {
            Ok(()) => told = false,
            Err(StoreError::Closed) => return,
            Err(error) if !told => {
                warn!(%error, "accepted rules could not be read; those that are known stay in effect");
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
