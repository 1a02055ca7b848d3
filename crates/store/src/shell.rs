//! A thread, a clock and groups of callers around a synchronous core.
//!
//! Whatever arrives while a commit is being written shares the next one. Claims that find nothing wait here, and
//! are served in the very commit that brings them something.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use pombo_kernel::block::Block;
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::message::{Actor, ClaimKey, Draft};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::{Clock, Span, Time};
use tokio::sync::{Semaphore, oneshot, watch};
use tracing::{error, info, warn};

use crate::audit::{Record, Verified};
use crate::core::{Core, Reading};
use crate::{
    Accepted, Answer, ApiKey, Ask, Cancelled, Claimed, Conflict, Filter, NodeId, Page, Place, Settled,
    Settlement, Store, StoreError, Story, Tally,
};

/// Bytes of accepted messages that may wait to be written before producers are asked to come back later.
const BACKLOG_BYTES: usize = 32 * 1024 * 1024;
/// What one commit holds at most.
const GROUP_BYTES: usize = 4 * 1024 * 1024;
const GROUP_JOBS: usize = 4096;
/// Deadlines handled in one commit.
const EXPIRE_AT_ONCE: usize = 1000;
/// Looks at the clock at least this often, so that a stepped clock is noticed.
const LONGEST_NAP: Span = Span::from_secs(1);
const FIRST_RETRY: Span = Span::from_millis(250);
const SLOWEST_RETRY: Span = Span::from_secs(5);
const READERS: usize = 4;

/// 32 bytes that nobody can guess, new at every call.
pub type Entropy = Box<dyn FnMut() -> [u8; 32] + Send>;

/// Tells a caller what came of its job, once that is durable or known to have failed.
type Tell = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// Work on the core; given an error instead of one, it fails with that. Its caller is told afterwards.
type Work<C> = Box<dyn FnOnce(Result<&mut C, StoreError>, Time) -> (Result<(), StoreError>, Tell) + Send>;

enum Job<C> {
    Work { weight: usize, work: Work<C> },
    Claim(Parked),
    StopClaims(NodeId, oneshot::Sender<Result<(), StoreError>>),
    Close(oneshot::Sender<Result<(), StoreError>>),
}

/// A claim that waits for something to be due.
struct Parked {
    ask: Ask,
    answer: oneshot::Sender<Result<Vec<Claimed>, StoreError>>,
}

/// A store: the core on a thread of its own, with readers beside it.
pub struct Shell<C: Core> {
    jobs: Sender<Job<C>>,
    backlog: Arc<AtomicUsize>,
    readers: Arc<Readers<C::Reader>>,
    position: watch::Receiver<u64>,
    broken: watch::Receiver<Option<String>>,
    health: watch::Receiver<Result<(), StoreError>>,
}

impl<C: Core> fmt::Debug for Shell<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shell").field("position", &*self.position.borrow()).finish_non_exhaustive()
    }
}

struct Readers<R> {
    idle: Mutex<Vec<R>>,
    permits: Semaphore,
}

impl<C: Core> Shell<C> {
    /// Starts the writer's thread. It ends with `close`, or when every handle is gone.
    pub fn start(core: C, clock: Arc<dyn Clock>, entropy: Entropy) -> Result<Shell<C>, StoreError> {
        let readers = (0..READERS).map(|_| core.reader()).collect::<Result<Vec<_>, _>>()?;
        let readers = Arc::new(Readers { idle: Mutex::new(readers), permits: Semaphore::new(READERS) });
        let (jobs, inbox) = channel();
        let backlog = Arc::new(AtomicUsize::new(0));
        let (tell_position, position) = watch::channel(0);
        let (tell_broken, broken) = watch::channel(None);
        let (tell_health, health) = watch::channel(Ok(()));
        let writer = Writer {
            core,
            clock,
            entropy,
            inbox,
            backlog: backlog.clone(),
            parked: VecDeque::new(),
            failing: None,
            position: tell_position,
            broken: tell_broken,
            health: tell_health,
        };
        thread::Builder::new()
            .name("pombo-store".into())
            .spawn(move || writer.run())
            .map_err(|error| StoreError::Unavailable(format!("cannot start a thread: {error}")))?;
        Ok(Shell { jobs, backlog, readers, position, broken, health })
    }

    fn send(&self, job: Job<C>) -> Result<(), StoreError> {
        self.jobs.send(job).map_err(|_| StoreError::Closed)
    }

    fn work<T: Send + 'static>(
        &self,
        weight: usize,
        verb: impl FnOnce(&mut C, Time) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<'_, T> {
        let (answer, answered) = oneshot::channel();
        let work: Work<C> = Box::new(move |core, now| {
            let result = core.and_then(|core| verb(core, now));
            let done = result.as_ref().map(drop).map_err(Clone::clone);
            let tell: Tell = Box::new(move |group: Result<(), StoreError>| {
                let _ = answer.send(result.and_then(|value| group.map(|()| value)));
            });
            (done, tell)
        });
        let sent = self.send(Job::Work { weight, work });
        Box::pin(async move {
            sent?;
            answered.await.unwrap_or(Err(StoreError::Closed))
        })
    }

    fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut C::Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<'_, T> {
        let readers = self.readers.clone();
        Box::pin(async move {
            let _permit = readers.permits.acquire().await.map_err(|_| StoreError::Closed)?;
            let pool = readers.clone();
            let done = tokio::task::spawn_blocking(move || {
                let taken = pool.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let mut reader = taken.ok_or(StoreError::Closed)?;
                let result = read(&mut reader);
                pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
                result
            });
            done.await.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
        })
    }
}

impl<C: Core> Store for Shell<C> {
    fn accept(&self, drafts: Vec<Draft>) -> Answer<'_, Vec<Result<Accepted, Conflict>>> {
        let weight: usize = drafts.iter().map(weight_of).sum();
        let backlog = self.backlog.fetch_add(weight, Ordering::Relaxed);
        if backlog > 0 && backlog + weight > BACKLOG_BYTES {
            self.backlog.fetch_sub(weight, Ordering::Relaxed);
            return Box::pin(async { Err(StoreError::Overloaded) });
        }
        self.work(weight, move |core, now| drafts.into_iter().map(|draft| core.accept(draft, now)).collect())
    }

    fn claim(&self, ask: Ask) -> Answer<'_, Vec<Claimed>> {
        let (answer, answered) = oneshot::channel();
        let sent = self.send(Job::Claim(Parked { ask, answer }));
        Box::pin(async move {
            sent?;
            answered.await.unwrap_or(Err(StoreError::Closed))
        })
    }

    fn stop_claims(&self, node: NodeId) -> Answer<'_, ()> {
        let (answer, answered) = oneshot::channel();
        let sent = self.send(Job::StopClaims(node, answer));
        Box::pin(async move {
            sent?;
            answered.await.unwrap_or(Err(StoreError::Closed))
        })
    }

    fn heartbeat(&self, node: NodeId, lease_until: Time) -> Answer<'_, ()> {
        self.work(0, move |core, _| core.heartbeat(node, lease_until))
    }

    fn take_over(&self, node: NodeId, max: usize) -> Answer<'_, Vec<Claimed>> {
        self.work(0, move |core, now| core.take_over(node, max, now))
    }

    fn settle(&self, settlements: Vec<Settlement>) -> Answer<'_, Vec<Settled>> {
        self.work(0, move |core, now| settlements.into_iter().map(|one| core.settle(one, now)).collect())
    }

    fn release(&self, claims: Vec<ClaimKey>) -> Answer<'_, Vec<Settled>> {
        self.work(0, move |core, now| claims.into_iter().map(|key| core.release(key, now)).collect())
    }

    fn cancel(&self, tenant: Tenant, id: MessageId, by: Actor) -> Answer<'_, Cancelled> {
        self.work(0, move |core, now| core.cancel(&tenant, id, &by, now))
    }

    fn block(&self, place: Place, block: Block, by: Actor) -> Answer<'_, ()> {
        self.work(0, move |core, now| core.block(&place, block, &by, now))
    }

    fn unblock(&self, place: Place, by: Actor) -> Answer<'_, bool> {
        self.work(0, move |core, now| core.unblock(&place, &by, now))
    }

    fn blocks(&self) -> Answer<'_, Vec<(Place, Block)>> {
        self.read(Reading::blocks)
    }

    fn story(&self, tenant: Tenant, id: MessageId) -> Answer<'_, Option<Story>> {
        self.read(move |reader| reader.story(&tenant, id))
    }

    fn page(&self, filter: Filter, before: Option<MessageKey>, limit: usize) -> Answer<'_, Page> {
        self.read(move |reader| reader.page(&filter, before, limit))
    }

    fn tallies(&self) -> Answer<'_, Vec<Tally>> {
        self.read(Reading::tallies)
    }

    fn audit(&self, from: u64, max: usize) -> Answer<'_, Vec<(u64, Record)>> {
        self.read(move |reader| reader.audit(from, max))
    }

    fn verify(&self) -> Answer<'_, Verified> {
        self.read(Reading::verify)
    }

    fn add_key(&self, key: ApiKey) -> Answer<'_, ()> {
        self.work(0, move |core, now| core.add_key(key, now))
    }

    fn keys(&self) -> Answer<'_, Vec<ApiKey>> {
        self.read(Reading::keys)
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.position.clone()
    }

    fn broken(&self) -> watch::Receiver<Option<String>> {
        self.broken.clone()
    }

    fn health(&self) -> Result<(), StoreError> {
        self.health.borrow().clone()
    }

    fn close(&self) -> Answer<'_, ()> {
        let (answer, answered) = oneshot::channel();
        let sent = self.send(Job::Close(answer));
        Box::pin(async move {
            sent?;
            answered.await.unwrap_or(Err(StoreError::Closed))
        })
    }
}

/// About what a draft weighs in memory and on disk.
fn weight_of(draft: &Draft) -> usize {
    let body = &draft.body;
    let json = [&body.content, &body.payload, &body.metadata];
    512 + body.to.len() + json.into_iter().flatten().map(|json| json.text().len()).sum::<usize>()
}

/// The writer's thread.
struct Writer<C> {
    core: C,
    clock: Arc<dyn Clock>,
    entropy: Entropy,
    inbox: Receiver<Job<C>>,
    backlog: Arc<AtomicUsize>,
    parked: VecDeque<Parked>,
    failing: Option<Failing>,
    position: watch::Sender<u64>,
    broken: watch::Sender<Option<String>>,
    health: watch::Sender<Result<(), StoreError>>,
}

/// The store could not be written. It is reopened now and then until it can.
struct Failing {
    retry_at: Time,
    wait: Span,
}

/// What a group of jobs wants told, and whether it was the last one.
#[derive(Default)]
struct Group {
    tells: Vec<Tell>,
    weight: usize,
    jobs: usize,
    closing: Option<oneshot::Sender<Result<(), StoreError>>>,
}

impl<C: Core> Writer<C> {
    fn run(mut self) {
        loop {
            let nap = self.nap().to_std();
            let first = match self.inbox.recv_timeout(nap) {
                Ok(job) => Some(job),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let now = self.clock.now();
            if self.failing.as_ref().is_some_and(|failing| failing.retry_at <= now) {
                self.recover(now);
            }
            let mut group = Group::default();
            let result = self.write(first, &mut group, now);
            self.backlog.fetch_sub(group.weight, Ordering::Relaxed);
            if let Ok(Some(position)) = &result {
                self.position.send_if_modified(|seen| std::mem::replace(seen, *position) != *position);
            }
            let told = result.map(drop);
            if let Err(error) = &told {
                self.failed(error.clone(), now);
            }
            for tell in group.tells {
                tell(told.clone());
            }
            if self.broken.borrow().is_some() {
                return self.refuse_the_rest();
            }
            if let Some(answer) = group.closing {
                drop(self.core);
                let _ = answer.send(Ok(()));
                return;
            }
        }
    }

    /// How long nothing can happen unless a job arrives.
    fn nap(&mut self) -> Span {
        let now = self.clock.now();
        if let Some(failing) = &self.failing {
            return failing.retry_at.since(now).min(LONGEST_NAP);
        }
        let mut wake = self.core.next_deadline();
        for parked in &self.parked {
            let due = self.core.next_due(&parked.ask.lane, now);
            wake = match (wake, due) {
                (Some(one), Some(two)) => Some(one.min(two)),
                (one, two) => one.or(two),
            };
        }
        wake.map_or(LONGEST_NAP, |wake| wake.since(now).min(LONGEST_NAP))
    }

    /// Does what is there to do and makes it durable. Nothing is told to anybody before.
    fn write(
        &mut self,
        first: Option<Job<C>>,
        group: &mut Group,
        now: Time,
    ) -> Result<Option<u64>, StoreError> {
        let mut next = first;
        while let Some(job) = next {
            self.take(job, group, now)?;
            let full = group.weight >= GROUP_BYTES || group.jobs >= GROUP_JOBS || group.closing.is_some();
            next = if full { None } else { self.inbox.try_recv().ok() };
        }
        if self.failing.is_some() {
            return Ok(None);
        }
        if self.core.expire(EXPIRE_AT_ONCE, now)? < EXPIRE_AT_ONCE {
            self.serve_claims(group, now)?;
        }
        self.core.commit(now, &(self.entropy)()).map(Some)
    }

    fn take(&mut self, job: Job<C>, group: &mut Group, now: Time) -> Result<(), StoreError> {
        group.jobs += 1;
        match job {
            Job::Work { weight, work } => {
                group.weight += weight;
                if self.failing.is_some() {
                    let failure = self.health.borrow().clone().err();
                    let failure =
                        failure.unwrap_or_else(|| StoreError::Unavailable("it is being reopened".into()));
                    group.tells.push(work(Err(failure), now).1);
                    return Ok(());
                }
                let (done, tell) = work(Ok(&mut self.core), now);
                group.tells.push(tell);
                done?;
            }
            Job::Claim(parked) => self.parked.push_back(parked),
            Job::StopClaims(node, answer) => {
                let (stopped, kept): (VecDeque<_>, _) =
                    std::mem::take(&mut self.parked).into_iter().partition(|parked| parked.ask.node == node);
                self.parked = kept;
                for parked in stopped {
                    let _ = parked.answer.send(Ok(Vec::new()));
                }
                let _ = answer.send(Ok(()));
            }
            Job::Close(answer) => group.closing = Some(answer),
        }
        Ok(())
    }

    fn serve_claims(&mut self, group: &mut Group, now: Time) -> Result<(), StoreError> {
        for parked in std::mem::take(&mut self.parked) {
            if parked.answer.is_closed() {
                continue;
            }
            let due = self.core.next_due(&parked.ask.lane, now).is_some_and(|due| due <= now);
            let claimed = if due { self.core.claim(&parked.ask, now)? } else { Vec::new() };
            if claimed.is_empty() {
                self.parked.push_back(parked);
                continue;
            }
            group.tells.push(Box::new(move |done| {
                let _ = parked.answer.send(done.map(|()| claimed));
            }));
        }
        Ok(())
    }

    fn failed(&mut self, error: StoreError, now: Time) {
        if let StoreError::Broken(reason) = &error {
            error!(%reason, "the store can no longer be trusted; the process must start anew");
            self.broken.send_replace(Some(reason.clone()));
        } else {
            warn!(%error, "the store cannot be written; sending pauses until it can");
            let wait = self
                .failing
                .as_ref()
                .map_or(FIRST_RETRY, |failing| failing.wait.doubled(1).min(SLOWEST_RETRY));
            self.failing = Some(Failing { retry_at: now + wait, wait });
        }
        drop(self.health.send_replace(Err(error)));
    }

    /// Reopens the core, and has it write something, since only that shows that it can.
    fn recover(&mut self, now: Time) {
        match self.core.reopen().and_then(|()| self.core.check(now)) {
            Ok(()) => {
                info!("the store can be written again");
                self.failing = None;
                drop(self.health.send_replace(Ok(())));
            }
            Err(error) => self.failed(error, now),
        }
    }

    fn refuse_the_rest(self) {
        let reason = self.broken.borrow().clone().unwrap_or_default();
        let error = StoreError::Broken(reason);
        for parked in self.parked {
            let _ = parked.answer.send(Err(error.clone()));
        }
        for job in self.inbox.try_iter() {
            match job {
                Job::Work { work, .. } => work(Err(error.clone()), Time::default()).1(Err(error.clone())),
                Job::Claim(parked) => drop(parked.answer.send(Err(error.clone()))),
                Job::StopClaims(_, answer) | Job::Close(answer) => drop(answer.send(Err(error.clone()))),
            }
        }
    }
}
