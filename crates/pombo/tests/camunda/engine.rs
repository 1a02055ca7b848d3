//! Pretend process engines: what both have in common. They keep locks, hand a task out again when its lock has ended,
//! refuse what the real ones refuse, and count.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use pombo::clock::SystemClock;
use pombo_kernel::time::{Clock as _, Span, Time};
use serde_json::{Map, Value};
use tokio::sync::Notify;

/// How a task ended, or why it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    Completed(Map<String, Value>),
    Error { code: String, variables: Map<String, Value> },
    Incident(String),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Task {
    pub(crate) variables: Value,
    pub(crate) retries: Option<u64>,
    pub(crate) due: Time,
    pub(crate) locked: Option<(String, Time)>,
    pub(crate) end: Option<End>,
    pub(crate) handed_out: u32,
    /// How often it ended: never more than once.
    pub(crate) endings: u32,
    pub(crate) failures: Vec<String>,
}

/// What the engine does with the next answer that it is told, instead of taking it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// It is not taken, and nobody is told: the connection stays open.
    Swallow,
    /// It is taken, and nobody is told: the connection is cut.
    TakeAndCut,
    /// 503, backpressure.
    Busy,
    /// 500.
    Broken,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) tasks: BTreeMap<String, Task>,
    /// For the next answers that it is told.
    pub(crate) moods: VecDeque<Mood>,
    /// For the next questions for tasks: these statuses. 0 cuts the connection.
    pub(crate) fetch_statuses: VecDeque<u16>,
    pub(crate) fetches: u32,
    /// Questions for tasks that wait for some.
    waiting: u32,
    /// What was told and not taken, in its own words.
    pub(crate) swallowed: Vec<Value>,
    /// Requests that no engine would take.
    pub(crate) bad_requests: Vec<String>,
    /// Words that open the door; everybody may come in if there are none.
    pub(crate) logins: Vec<String>,
    pub(crate) tokens_given: u32,
    pub(crate) token_requests: Vec<String>,
    pub(crate) next_key: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Shared {
    state: Arc<Mutex<State>>,
    pub(crate) changed: Arc<Notify>,
    clock: Arc<SystemClock>,
}

impl Shared {
    pub(crate) fn new() -> Shared {
        let state = State { next_key: 2_251_799_813_685_249, ..State::default() };
        Shared {
            state: Arc::new(Mutex::new(state)),
            changed: Arc::new(Notify::new()),
            clock: Arc::new(SystemClock::new()),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// A new task with those variables; its key.
    pub(crate) fn add(&self, variables: Value, retries: Option<u64>) -> String {
        let mut state = self.state();
        state.next_key += 1;
        let key = state.next_key.to_string();
        state.tasks.insert(key.clone(), Task { variables, retries, ..Task::default() });
        drop(state);
        self.changed.notify_waiters();
        key
    }

    pub(crate) fn task(&self, key: &str) -> Task {
        self.state().tasks[key].clone()
    }

    /// Waits until something is so.
    pub(crate) async fn until(&self, what: &str, so: impl Fn(&State) -> bool) {
        let waiting = async {
            loop {
                let changed = self.changed.notified();
                if so(&self.state()) {
                    return;
                }
                let _ = tokio::time::timeout(Duration::from_millis(50), changed).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(40), waiting).await.is_err() {
            panic!("never: {what}; {:?}", self.state());
        }
    }

    /// Waits for the end of a task.
    pub(crate) async fn end_of(&self, key: &str) -> End {
        self.until("the task ended", |state| state.tasks[key].end.is_some()).await;
        self.task(key).end.unwrap()
    }

    /// The lock of a task ends before its time, once nobody waits for tasks: whoever died while waiting gets none.
    pub(crate) async fn unlock(&self, key: &str) {
        self.until("nobody waits", |state| state.waiting == 0).await;
        self.state().tasks.get_mut(key).unwrap().locked = None;
    }

    /// Hands out up to `max` tasks to a worker, and waits for some.
    pub(crate) async fn hand_out(
        &self,
        worker: &str,
        max: u64,
        lock: Span,
        wait: Span,
    ) -> Vec<(String, Task)> {
        let until = self.now() + wait;
        let _waiting = Waiting::begin(self);
        loop {
            let changed = self.changed.notified();
            let now = self.now();
            let taken = self.take(worker, usize::try_from(max).unwrap(), now, lock);
            if !taken.is_empty() || now >= until {
                return taken;
            }
            let _ = tokio::time::timeout(Duration::from_millis(20), changed).await;
        }
    }

    fn take(&self, worker: &str, max: usize, now: Time, lock: Span) -> Vec<(String, Task)> {
        let mut state = self.state();
        let free = |task: &Task| {
            task.end.is_none()
                && task.due <= now
                && task.retries != Some(0)
                && task.locked.as_ref().is_none_or(|(_, until)| *until <= now)
        };
        let mut taken = Vec::new();
        for (key, task) in state.tasks.iter_mut().filter(|(_, task)| free(task)).take(max) {
            task.locked = Some((worker.to_owned(), now + lock));
            task.handed_out += 1;
            taken.push((key.clone(), task.clone()));
        }
        taken
    }

    /// What becomes of a task that failed.
    pub(crate) fn fail(&self, key: &str, message: &str, retries: u64, wait_ms: u64) {
        let now = self.now();
        let mut state = self.state();
        let task = state.tasks.get_mut(key).unwrap();
        task.locked = None;
        task.retries = Some(retries);
        task.failures.push(message.to_owned());
        task.due = now + Span::from_millis(wait_ms);
        if retries == 0 {
            task.end = Some(End::Incident(message.to_owned()));
        }
    }

    pub(crate) fn end(&self, key: &str, end: End) {
        let mut state = self.state();
        let task = state.tasks.get_mut(key).unwrap();
        task.end = Some(end);
        task.endings += 1;
    }

    pub(crate) fn bad(&self, why: impl Into<String>) -> String {
        let why = why.into();
        self.state().bad_requests.push(why.clone());
        why
    }
}

/// A question for tasks that waits for some, until it is answered or whoever asked is gone.
struct Waiting<'a>(&'a Shared);

impl Waiting<'_> {
    fn begin(shared: &Shared) -> Waiting<'_> {
        shared.state().waiting += 1;
        Waiting(shared)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}

/// The members of a document that are not among those that are known.
pub(crate) fn unknown(document: &Value, known: &[&str]) -> Option<String> {
    let members = document.as_object()?;
    members.keys().find(|name| !known.contains(&name.as_str())).cloned()
}
