//! A worker between an engine that does as it is told and a store in memory.

use std::collections::VecDeque;
use std::sync::Mutex as Held;

use pombo_store::memory::Memory;
use pombo_store::meter::Retries;
use pombo_store::shell::Shell;
use serde_json::json;
use tokio::sync::Notify;

use super::*;
use crate::clock::SystemClock;

type Fetched = Box<dyn FnOnce() -> Result<Vec<Task>, Failed> + Send>;

/// Answers as it was told to, then has nothing more.
#[derive(Default)]
struct Puppet {
    fetches: Held<VecDeque<Fetched>>,
    /// For each answer that it is told; taken when there is nothing here.
    tells: Held<VecDeque<Failed>>,
    told: Held<Vec<Outcome>>,
    fetched: Notify,
    /// Held up while nobody lets it go.
    gate: Option<Notify>,
}

impl fmt::Debug for Puppet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Puppet")
    }
}

impl Engine for Puppet {
    const NAME: &'static str = "puppet";

    fn place(&self) -> &str {
        "nowhere"
    }

    fn lock(&self) -> Duration {
        Duration::from_secs(10)
    }

    async fn fetch(&self, max: usize) -> Result<Vec<Task>, Failed> {
        assert!(max > 0);
        self.fetched.notify_one();
        let next = self.fetches.lock().unwrap().pop_front();
        match next {
            Some(fetched) => fetched(),
            None => std::future::pending().await,
        }
    }

    async fn tell(&self, _: &Task, outcome: &Outcome) -> Result<(), Failed> {
        if let Some(gate) = &self.gate {
            gate.notified().await;
        }
        self.told.lock().unwrap().push(outcome.clone());
        self.tells.lock().unwrap().pop_front().map_or(Ok(()), Err)
    }
}

fn task(variables: &serde_json::Value) -> Task {
    Task { key: "7".to_owned(), variables: variables.as_object().unwrap().clone(), retries: 3 }
}

fn good() -> Task {
    task(&json!({"claimId": "CLM-1-2", "submissionError": "TIMEOUT", "retryCount": 1}))
}

/// Nothing can be decided on it, so no store is needed.
fn unreadable() -> Task {
    task(&json!({}))
}

fn desk() -> Desk {
    let clock = Arc::new(SystemClock::new());
    let store =
        Shell::start(Memory::new(Dice::seeded(1)), clock.clone(), Box::new(crate::clock::entropy)).unwrap();
    let setup = Setup {
        channels: Default::default(),
        lanes: Default::default(),
        routes: Vec::new(),
        limits: Default::default(),
        subscribers: Default::default(),
        claims: pombo_kernel::policy::Policy::claims(),
        alerts: Arc::default(),
        masked: std::collections::BTreeSet::new(),
        retention: Default::default(),
        dashboard: pombo_kernel::setup::Dashboard::default(),
    };
    let (setup, meter) = (watch::channel(Arc::new(setup)).1, Retries::of("decisions"));
    Desk { store: Arc::new(store), setup, clock, meter }
}

fn worker(puppet: Puppet) -> Worker<Puppet> {
    Worker { engine: Arc::new(puppet), desk: desk(), dice: Arc::new(Mutex::new(Dice::seeded(1))), max: 2 }
}

async fn answered(puppet: Puppet, task: Task) -> Vec<Outcome> {
    let worker = worker(puppet);
    worker.clone().answer(task).await;
    worker.engine.told.lock().unwrap().clone()
}

fn failing(failures: impl IntoIterator<Item = Failed>) -> Puppet {
    Puppet { tells: Held::new(failures.into_iter().collect()), ..Puppet::default() }
}

#[tokio::test] // REQ RD-5
async fn an_answer_that_may_have_been_lost_is_told_again_word_for_word() {
    let lost = || Failed::Passing("reset".to_owned());
    let told = answered(failing([lost(), lost()]), good()).await;
    assert_eq!(told.len(), 3);
    assert!(matches!(told[0], Outcome::Decided(_)));
    assert!(told.iter().all(|outcome| *outcome == told[0]));
    let told = answered(failing([lost(), Failed::Gone("404".to_owned())]), good()).await;
    assert_eq!(told.len(), 2);
}

#[tokio::test] // REQ RD-5
async fn an_answer_that_is_not_taken_becomes_a_failure_and_nothing_is_told_for_ever() {
    let no = || Failed::Refused("400: no".to_owned());
    let told = answered(failing([no(), no(), no()]), good()).await;
    assert_eq!(told.len(), 2);
    assert!(
        matches!(&told[1], Outcome::Failed { retries: 2, why, .. } if why.contains("400: no")),
        "{told:?}"
    );
}

#[tokio::test] // REQ RD-5
async fn a_store_that_is_closed_gives_the_task_back_unharmed() {
    let worker = worker(Puppet::default());
    worker.desk.store.close().await.unwrap();
    worker.clone().answer(good()).await;
    let told = worker.engine.told.lock().unwrap().clone();
    assert!(matches!(&told[..], [Outcome::Failed { retries: 3, wait_ms: 10_000, .. }]), "{told:?}");
}

#[tokio::test(start_paused = true)] // REQ RD-5
async fn nothing_is_told_beyond_the_time_that_a_task_is_ours() {
    let failures = std::iter::repeat_with(|| Failed::Passing("503".to_owned())).take(1_000);
    let mut answering = Box::pin(answered(failing(failures), unreadable()));
    assert!(timeout(Duration::from_millis(9_990), &mut answering).await.is_err());
    let told = timeout(Duration::from_millis(20), answering).await.unwrap();
    assert!((5..12).contains(&told.len()), "{}", told.len());
}

#[tokio::test(start_paused = true)] // REQ RD-5
async fn waits_grow_up_to_a_bound_and_differ() {
    let worker = worker(Puppet::default());
    let mut waits = Vec::new();
    for failures in 1..40 {
        waits.push(worker.pause(failures).await);
    }
    assert!((Duration::from_millis(100)..Duration::from_millis(300)).contains(&waits[0]), "{waits:?}");
    assert!(waits[10..].iter().all(|wait| (15..45).contains(&wait.as_secs())), "{waits:?}");
    waits.dedup();
    assert_eq!(waits.len(), 39);
}

#[tokio::test(start_paused = true)] // fault: a worker that panics
async fn a_worker_that_panics_is_started_again() {
    let fetches: [Fetched; 2] = [Box::new(|| panic!("planted")), Box::new(|| Ok(vec![unreadable()]))];
    let worker = worker(Puppet { fetches: Held::new(fetches.into()), ..Puppet::default() });
    let (stop, stopping) = watch::channel(false);
    let engine = worker.engine.clone();
    let running = tokio::spawn(worker.kept_up(stopping));
    for _ in 0..3 {
        engine.fetched.notified().await;
    }
    stop.send_replace(true);
    running.await.unwrap();
    assert_eq!(engine.told.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_fetches_nothing_more_and_finishes_what_is_under_way() {
    let fetches: [Fetched; 1] = [Box::new(|| Ok(vec![unreadable()]))];
    let puppet =
        Puppet { fetches: Held::new(fetches.into()), gate: Some(Notify::new()), ..Puppet::default() };
    let worker = worker(puppet);
    let (stop, stopping) = watch::channel(false);
    let engine = worker.engine.clone();
    let running = tokio::spawn(worker.kept_up(stopping));
    for _ in 0..2 {
        engine.fetched.notified().await;
    }
    stop.send_replace(true);
    tokio::task::yield_now().await;
    assert!(!running.is_finished());
    engine.gate.as_ref().unwrap().notify_one();
    running.await.unwrap();
    assert_eq!(engine.told.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_hands_out_more_than_it_was_asked_for_is_answered_too() {
    let fetches: [Fetched; 2] =
        [Box::new(|| Ok((0..5).map(|_| unreadable()).collect())), Box::new(|| Ok(vec![unreadable()]))];
    let puppet =
        Puppet { fetches: Held::new(fetches.into()), gate: Some(Notify::new()), ..Puppet::default() };
    let worker = worker(puppet);
    let (stop, stopping) = watch::channel(false);
    let engine = worker.engine.clone();
    let running = tokio::spawn(worker.work(stopping));
    engine.fetched.notified().await;
    while engine.told.lock().unwrap().len() < 6 {
        assert!(!running.is_finished());
        engine.gate.as_ref().unwrap().notify_one();
        tokio::task::yield_now().await;
    }
    stop.send_replace(true);
    running.await.unwrap();
}
