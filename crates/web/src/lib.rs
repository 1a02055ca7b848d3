//! The doors: whatever callers see of Pombo over HTTP.
//!
//! Doors know the store and the kernel, never the engine: they meet it in the store, so that nodes that take
//! messages in and nodes that send them can run apart.

pub mod alert;
mod api;
mod auth;
mod body;
pub mod campaign;
mod course;
pub mod dash;
pub mod decision;
mod docs;
pub mod event;
pub mod filter;
mod foretold;
mod guesses;
mod idempotency;
mod ingress;
pub mod key;
mod keyring;
pub mod keys;
mod meter;
mod multipart;
pub mod notice;
mod openapi;
pub mod operation;
mod pin;
pub mod problem;
mod proof;
pub mod report;
mod route;
pub mod rule;
mod seats;
mod server;
pub mod shelf;
mod stage;
pub mod suppression;
mod trail;
mod veil;
mod view;
pub mod webhook;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pombo_kernel::message::Draft;
use pombo_kernel::setup::Setup;
use pombo_kernel::time::Clock;
use pombo_kernel::trace::Tracer;
use pombo_store::{Store, StoreError};
use tokio::sync::{Semaphore, watch};

use crate::trail::Trail;

pub use api::health::Check;
pub use api::privacy::ErasureView;
pub use auth::{Access, Caller, Role, UnknownRole};
pub use idempotency::of as idempotency;
pub use ingress::smtp;
pub use key::digest;
pub use meter::Meter;
pub use pin::pin_templates;
pub use route::{ROUTES, Route, probes, router};
pub use server::{Bounds, serve, serve_within};

/// What every request needs. Clones are the same door.
#[derive(Clone)]
pub struct Door(Arc<Inner>, Reads);

/// Whose readers are used.
#[derive(Clone, Copy, Debug)]
enum Reads {
    Api,
    Pages,
}

struct Inner {
    store: Arc<dyn Store>,
    /// The same store with readers of the pages' own, if they have any.
    pages: OnceLock<Arc<dyn Store>>,
    setup: watch::Receiver<Arc<Setup>>,
    clock: Arc<dyn Clock>,
    /// Where secrets come from that are made here.
    entropy: Arc<keys::Entropy>,
    keyring: keyring::Keyring,
    patience: Patience,
    closing: watch::Sender<bool>,
    /// Bytes of request bodies that may be held at once, beside what connections buffer.
    room: Semaphore,
    /// NDJSON streams that may be open at once.
    streams: Arc<Semaphore>,
    /// Followers of events that there may be at once.
    followers: Arc<seats::Seats>,
    /// Pages that may be told of news at once.
    onlookers: Arc<seats::Seats>,
    /// Reports that may wait at once for the messages that they are about.
    waiters: Semaphore,
    complaints: proof::Complaints,
    /// Where simulations are computed.
    stage: stage::Stage,
    /// Where templates are tried.
    press: stage::Stage,
    remembered: foretold::Remembered,
    /// Who records requests, if anybody does.
    tracer: OnceLock<Arc<dyn Tracer>>,
    meter: OnceLock<Meter>,
    /// What else is told to whoever asks whether the node is ready.
    signs: OnceLock<Vec<Sign>>,
}

/// Looks at something that the doors do not know of.
pub type Sign = Box<dyn Fn() -> Check + Send + Sync>;

/// How long a caller may take to say what it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For the whole of a body that is held in memory.
    pub body: Duration,
    /// Between two pieces of a stream, in either direction.
    pub stream: Duration,
    /// For a worker to ask a channel's provider how it is.
    pub test: Duration,
    /// For e-mails that are due to be tried, where somebody asks to have them sent.
    pub queue: Duration,
    /// For what a campaign has made ahead to be called back, where somebody cancels it.
    pub cancel: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            body: Duration::from_secs(30),
            stream: Duration::from_secs(60),
            test: Duration::from_secs(10),
            queue: Duration::from_secs(10),
            cancel: Duration::from_secs(5),
        }
    }
}

const ROOM_BYTES: usize = 128 * 1024 * 1024;
const STREAMS: usize = 32;

impl Door {
    /// A door to that store. A new setup takes effect with the next request after it is sent.
    pub fn new(
        store: Arc<dyn Store>,
        setup: watch::Receiver<Arc<Setup>>,
        clock: Arc<dyn Clock>,
        entropy: Arc<keys::Entropy>,
    ) -> Door {
        Door::with_patience(store, setup, clock, entropy, Patience::default())
    }

    pub fn with_patience(
        store: Arc<dyn Store>,
        setup: watch::Receiver<Arc<Setup>>,
        clock: Arc<dyn Clock>,
        entropy: Arc<keys::Entropy>,
        patience: Patience,
    ) -> Door {
        let inner = Inner {
            store,
            pages: OnceLock::new(),
            setup,
            clock,
            entropy,
            keyring: keyring::Keyring::new(),
            patience,
            closing: watch::Sender::new(false),
            room: Semaphore::new(ROOM_BYTES),
            streams: Arc::new(Semaphore::new(STREAMS)),
            followers: seats::Seats::new(api::events::FOLLOWERS),
            onlookers: seats::Seats::new(dash::live::ONLOOKERS),
            waiters: Semaphore::new(api::receipts::WAITERS),
            complaints: proof::Complaints::new(),
            stage: stage::Stage::new("simulation"),
            press: stage::Stage::new("template"),
            remembered: foretold::Remembered::default(),
            tracer: OnceLock::new(),
            meter: OnceLock::new(),
            signs: OnceLock::new(),
        };
        Door(Arc::new(inner), Reads::Api)
    }

    /// Has pages read by that handle of the same store. To be called before the first request; without it, they share
    /// the readers of the API.
    pub fn show_pages_by(&self, store: Arc<dyn Store>) {
        let _ = self.0.pages.set(store);
    }

    /// The same door, for a page.
    fn for_page(&self) -> Door {
        Door(Arc::clone(&self.0), Reads::Pages)
    }

    /// Measures with that from now on. To be called before the first request; without it, numbers are kept for nobody.
    pub fn measure_with(&self, meter: Meter) {
        let _ = self.0.meter.set(meter);
    }

    fn stage(&self) -> &stage::Stage {
        &self.0.stage
    }

    fn meter(&self) -> &Meter {
        self.0.meter.get_or_init(Meter::default)
    }

    /// Has `/readyz` tell of that as well.
    pub fn watch_for(&self, signs: Vec<Sign>) {
        let _ = self.0.signs.set(signs);
    }

    fn elapsed(&self) -> Duration {
        self.0.clock.elapsed()
    }

    /// Has requests recorded from now on, and messages take their traces along.
    pub fn keep_traces(&self, tracer: Arc<dyn Tracer>) {
        let _ = self.0.tracer.set(tracer);
    }

    /// Stores messages, in the trace of the request that brings them, where traces are kept.
    async fn accept(&self, drafts: Vec<Draft>, trail: Option<&Trail>) -> Result<trail::Answers, StoreError> {
        match trail {
            None => self.store().accept(drafts).await,
            Some(trail) => trail.accept(self.store(), drafts).await,
        }
    }

    /// Takes nothing new from now on, and says so at `/readyz`, so that a load balancer looks elsewhere.
    ///
    /// To be called before the server is stopped.
    pub fn close(&self) {
        self.0.closing.send_replace(true);
    }

    fn is_closing(&self) -> bool {
        *self.0.closing.borrow()
    }

    fn store(&self) -> &dyn Store {
        match (self.1, self.0.pages.get()) {
            (Reads::Pages, Some(pages)) => &**pages,
            _ => &*self.0.store,
        }
    }

    /// What retries have taught, as it was read lately.
    fn remembered(&self) -> &foretold::Remembered {
        &self.0.remembered
    }

    fn setup(&self) -> Arc<Setup> {
        self.0.setup.borrow().clone()
    }

    fn now(&self) -> pombo_kernel::time::Time {
        self.0.clock.now()
    }

    /// 256 bits that nobody can guess, for whatever must not be.
    fn entropy(&self) -> &keys::Entropy {
        &*self.0.entropy
    }
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("store", &self.0.store).field("closing", &self.is_closing()).finish()
    }
}
