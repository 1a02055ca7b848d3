//! What tests go round by hand with: a store that is the model, and time that stands still unless it is told to pass.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use pombo_kernel::classify::Verdict;
use pombo_kernel::dice::Dice;
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{
    Attempt, AttemptFailure, AttemptOutcome, Body, Draft, FailureReason, Message, Priority, Progress,
    QueueName,
};
use pombo_kernel::name::Tenant;
use pombo_kernel::reply::Receipt;
use pombo_kernel::setup::Setup;
use pombo_kernel::time::{Clock, Span, Time};
use pombo_store::memory::Memory;
use pombo_store::postgres::{Postgres, Sealing, Target};
use pombo_store::shell::Shell;
use pombo_store::sqlite::Sqlite;
use pombo_store::{Ask, NodeId, Settled, Settlement, Store};
use pombo_testbed::Cluster;
use tokio::sync::watch;

use crate::config::{Config, Environment, Source};

/// When it begins.
pub(crate) const T0: Time = Time::from_millis(1_800_000_000_000);

#[derive(Debug)]
pub(crate) struct Hand {
    now: AtomicI64,
    /// How far it was set ahead, beyond what has passed.
    set: AtomicI64,
}

impl Clock for Hand {
    fn now(&self) -> Time {
        Time::from_millis(self.now.load(Ordering::SeqCst))
    }

    fn elapsed(&self) -> Duration {
        let passed = self.now.load(Ordering::SeqCst) - self.set.load(Ordering::SeqCst);
        Duration::from_millis(passed.unsigned_abs())
    }
}

impl Hand {
    fn new() -> Arc<Hand> {
        Arc::new(Hand { now: AtomicI64::new(T0.millis()), set: AtomicI64::new(0) })
    }

    pub(crate) fn pass(&self, span: Span) {
        self.now.fetch_add(i64::try_from(span.millis()).unwrap(), Ordering::SeqCst);
    }

    /// Somebody sets it, ahead or back.
    pub(crate) fn set(&self, by_ms: i64) {
        self.now.fetch_add(by_ms, Ordering::SeqCst);
        self.set.fetch_add(by_ms, Ordering::SeqCst);
    }
}

/// An empty store, and its clock.
pub(crate) fn model() -> (Arc<dyn Store>, Arc<Hand>) {
    let clock = Hand::new();
    let memory = Memory::new(Dice::seeded(1));
    (Arc::new(Shell::start(memory, clock.clone(), Box::new(|| [7; 32])).unwrap()), clock)
}

/// A store, what it is called, the clock that it goes by, and whatever must live as long as it does.
type Kept = (&'static str, Arc<dyn Store>, Arc<Hand>, Box<dyn Any>);

/// An empty store of each kind, with its clock, and what it stands on.
pub(crate) fn every_store() -> Vec<Kept> {
    let (memory, at) = model();
    let folder = tempfile::tempdir().unwrap();
    let core = Sqlite::open(folder.path(), Dice::seeded(1), &[7; 32]).unwrap();
    let sqlite_clock = Hand::new();
    let sqlite = Shell::start(core, sqlite_clock.clone(), Box::new(|| [7; 32])).unwrap();
    let postgres_clock = Hand::new();
    let at_database = postgres_clock.clone();
    // A thread that drives no tasks may wait for the database.
    let opened = std::thread::spawn(move || {
        let database = Cluster::shared().database();
        let target = Target::parse(database.url()).unwrap();
        let core = Postgres::open(&target, Dice::seeded(1), &[7; 32], Sealing::AtCommit).unwrap();
        (Shell::start(core, at_database, Box::new(|| [7; 32])).unwrap(), database)
    });
    let (postgres, database) = opened.join().unwrap();
    vec![
        ("memory", memory, at, Box::new(())),
        ("sqlite", Arc::new(sqlite), sqlite_clock, Box::new(folder)),
        ("postgres", Arc::new(postgres), postgres_clock, Box::new(database)),
    ]
}

/// What a file configures, for those who follow it.
pub(crate) fn configured(text: &str) -> watch::Sender<Arc<Setup>> {
    let config = Config::parse(text, Source::default(), &Environment::default()).unwrap();
    watch::channel(Arc::new(config.setup())).0
}

/// A message that says nothing, to nobody.
pub(crate) fn draft(lane: &str, channel: &str) -> Draft {
    Draft {
        id: None,
        queue: QueueName {
            tenant: Tenant::default(),
            lane: lane.parse().unwrap(),
            channel: channel.parse().unwrap(),
            destination: "a.example".into(),
            campaign: None,
        },
        priority: Priority::default(),
        send_at: None,
        expires_at: None,
        ordering_key: None,
        idempotency: None,
        body: Body::default(),
        blobs: Vec::new(),
    }
}

/// Whatever is due in a lane is sent, or has failed for good in that category.
pub(crate) async fn end_all(
    store: &dyn Store,
    lane: &str,
    failed: Option<&str>,
    now: Time,
) -> Vec<Arc<Message>> {
    let ask = Ask { node: NodeId(1), lane: lane.parse().unwrap(), max: 100, rates: Arc::default() };
    let claimed = store.claim(ask).await.unwrap();
    let failure = failed.map(|category| AttemptFailure {
        verdict: Verdict::Permanent,
        category: category.to_owned(),
        code: None,
        text: "550 user unknown".to_owned(),
        perhaps_sent: false,
        rule: None,
    });
    let settlement = |key, progress: Progress| Settlement {
        key,
        attempt: Attempt {
            round: progress.round,
            number: 1,
            started_at: now,
            finished_at: now,
            outcome: if failed.is_some() { AttemptOutcome::Failed } else { AttemptOutcome::Sent },
            failure: failure.clone(),
            next_delay: None,
            explanation: String::new(),
            policy: None,
        },
        next: match failed {
            Some(_) => Next::Failed(FailureReason::PermanentError),
            None => Next::Sent(Receipt::default()),
        },
        progress: Progress { attempts: 1, steps: 1, ..progress },
        block: Default::default(),
        vitals: Default::default(),
        reported: false,
        chance: 0,
    };
    let settlements = claimed.iter().map(|it| settlement(it.key, it.progress)).collect();
    assert!(store.settle(settlements).await.unwrap().iter().all(|settled| *settled == Settled::Done));
    claimed.into_iter().map(|claimed| claimed.message).collect()
}
