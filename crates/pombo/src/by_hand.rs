//! What tests go round by hand with: a store that is the model, and time that stands still unless it is told to pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use pombo_kernel::dice::Dice;
use pombo_kernel::setup::Setup;
use pombo_kernel::time::{Clock, Span, Time};
use pombo_store::Store;
use pombo_store::memory::Memory;
use pombo_store::shell::Shell;
use tokio::sync::watch;

use crate::config::{Config, Environment, Source};

/// When it begins.
pub(crate) const T0: Time = Time::from_millis(1_800_000_000_000);

#[derive(Debug)]
pub(crate) struct Hand(AtomicI64);

impl Clock for Hand {
    fn now(&self) -> Time {
        Time::from_millis(self.0.load(Ordering::SeqCst))
    }
}

impl Hand {
    pub(crate) fn pass(&self, span: Span) {
        self.0.fetch_add(i64::try_from(span.millis()).unwrap(), Ordering::SeqCst);
    }
}

/// An empty store, and its clock.
pub(crate) fn model() -> (Arc<dyn Store>, Arc<Hand>) {
    let clock = Arc::new(Hand(AtomicI64::new(T0.millis())));
    let memory = Memory::new(Dice::seeded(1));
    (Arc::new(Shell::start(memory, clock.clone(), Box::new(|| [7; 32])).unwrap()), clock)
}

/// What a file configures, for those who follow it.
pub(crate) fn configured(text: &str) -> watch::Sender<Arc<Setup>> {
    let config = Config::parse(text, Source::default(), &Environment::default()).unwrap();
    watch::channel(Arc::new(config.setup())).0
}
