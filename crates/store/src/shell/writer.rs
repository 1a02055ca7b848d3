//! The writer: groups of jobs, one commit each, and what to do when the store fails.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use pombo_kernel::message::ClaimKey;
#[cfg(feature = "planted")]
use pombo_kernel::planted;
use pombo_kernel::time::{Clock, Span, Time};
use tokio::sync::{oneshot, watch};
use tracing::{error, info, warn};

use super::{Entropy, Job, Parked, TakeOver, Tell};
use crate::core::Core;
use crate::{Claimed, NodeId, StoreError};

/// What one commit holds at most.
const GROUP_BYTES: usize = 4 * 1024 * 1024;
const GROUP_JOBS: usize = 4096;
/// Deadlines handled in one commit.
const EXPIRE_AT_ONCE: usize = 1000;
/// Looks at the clock at least this often, so that a stepped clock is noticed.
const LONGEST_NAP: Span = Span::from_secs(1);
const FIRST_RETRY: Span = Span::from_millis(250);
const SLOWEST_RETRY: Span = Span::from_secs(5);

/// What owns the core and takes the jobs.
pub struct Writer<C> {
    pub(super) core: C,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Entropy,
    pub(super) inbox: Receiver<Job<C>>,
    pub(super) backlog: Arc<AtomicUsize>,
    pub(super) parked: VecDeque<Parked>,
    /// Nodes that want no more work. One entry for each life of an engine.
    pub(super) stopped: HashSet<NodeId>,
    pub(super) orphans: Vec<Orphan>,
    pub(super) failing: Option<Failing>,
    pub(super) position: watch::Sender<u64>,
    pub(super) broken: watch::Sender<Option<String>>,
    pub(super) health: watch::Sender<Result<(), StoreError>>,
}

/// Whether there is a next round.
enum Flow {
    On,
    Broken,
    Closed(oneshot::Sender<Result<(), StoreError>>, Result<(), StoreError>),
}

/// The store could not be written. It is reopened now and then until it can.
pub(super) struct Failing {
    retry_at: Time,
    wait: Span,
}

impl Failing {
    /// Whether it is time to try again, also when the clock has been set back meanwhile.
    fn is_over(&self, now: Time) -> bool {
        self.retry_at <= now || self.retry_at.since(now) > self.wait
    }
}

/// What a group of jobs wants told, and whether it was the last one.
#[derive(Default)]
struct Group {
    tells: Vec<Tell>,
    weight: usize,
    jobs: usize,
    /// Claims that found something.
    claims: Vec<(Parked, Vec<Claimed>)>,
    takeovers: Vec<(TakeOver, Vec<Claimed>)>,
    closing: Option<oneshot::Sender<Result<(), StoreError>>>,
}

/// A message that was claimed in a group whose commit failed. If the commit was written all the same, the message
/// has a holder who was never told.
pub(super) enum Orphan {
    /// Nobody has tried to send it.
    Claimed(ClaimKey),
    /// It is still in doubt.
    TakenOver(ClaimKey),
}

impl<C> fmt::Debug for Writer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("parked", &self.parked.len()).finish_non_exhaustive()
    }
}

impl<C: Core> Writer<C> {
    pub(super) fn run(mut self) {
        loop {
            let nap = self.nap().to_std();
            let first = match self.inbox.recv_timeout(nap) {
                Ok(job) => Some(job),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            match self.round(first) {
                Flow::On => {}
                Flow::Broken => return self.refuse_the_rest(),
                Flow::Closed(answer, told) => {
                    drop(self.core);
                    let _ = answer.send(told);
                    return;
                }
            }
        }
    }

    /// Does what is waiting, without waiting for more. False when there will be no further turn.
    pub fn turn(&mut self) -> bool {
        matches!(self.round(None), Flow::On)
    }

    fn round(&mut self, first: Option<Job<C>>) -> Flow {
        let now = self.clock.now();
        if self.failing.as_ref().is_some_and(|failing| failing.is_over(now)) {
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
        self.tell_claims(&mut group, &told);
        for tell in group.tells {
            tell(told.clone());
        }
        match group.closing {
            _ if self.broken.borrow().is_some() => Flow::Broken,
            Some(answer) => Flow::Closed(answer, told),
            None => Flow::On,
        }
    }

    /// Hands out what was claimed, once that is durable. Otherwise the claims wait on, and whatever they had found
    /// is remembered: the commit may have been written all the same.
    fn tell_claims(&mut self, group: &mut Group, told: &Result<(), StoreError>) {
        for (parked, claimed) in group.claims.drain(..) {
            match told {
                Ok(()) => drop(parked.answer.send(Ok(claimed))),
                Err(_) => {
                    self.orphans.extend(claimed.iter().map(|claimed| Orphan::Claimed(claimed.key)));
                    self.parked.push_back(parked);
                }
            }
        }
        for (asked, claimed) in group.takeovers.drain(..) {
            if told.is_err() {
                self.orphans.extend(claimed.iter().map(|claimed| Orphan::TakenOver(claimed.key)));
            }
            let _ = asked.answer.send(told.clone().map(|()| claimed));
        }
    }

    /// How long nothing can happen unless a job arrives.
    pub fn nap(&mut self) -> Span {
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
        let mut next = first.or_else(|| self.inbox.try_recv().ok());
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
        #[cfg(feature = "planted")]
        if planted::is(planted::Bug::AckBeforeCommit) {
            group.tells.drain(..).for_each(|tell| tell(Ok(())));
        }
        self.core.commit(now, &(self.entropy)()).map(Some)
    }

    fn take(&mut self, job: Job<C>, group: &mut Group, now: Time) -> Result<(), StoreError> {
        group.jobs += 1;
        match job {
            Job::Work { weight, work } => {
                group.weight += weight;
                if let Some(failure) = self.failure() {
                    group.tells.push(work(Err(failure), now).1);
                    return Ok(());
                }
                let (done, tell) = work(Ok(&mut self.core), now);
                group.tells.push(tell);
                done?;
            }
            Job::TakeOver(asked) => {
                if let Some(failure) = self.failure() {
                    let _ = asked.answer.send(Err(failure));
                    return Ok(());
                }
                let taken = self.core.take_over(asked.node, asked.max, now);
                group.takeovers.push((asked, taken.clone().unwrap_or_default()));
                taken?;
            }
            Job::Claim(parked) if self.stopped.contains(&parked.ask.node) => {
                let _ = parked.answer.send(Ok(Vec::new()));
            }
            Job::Claim(parked) => self.parked.push_back(parked),
            Job::StopClaims(node, answer) => {
                let (stopped, kept): (VecDeque<_>, _) =
                    std::mem::take(&mut self.parked).into_iter().partition(|parked| parked.ask.node == node);
                self.parked = kept;
                self.stopped.insert(node);
                for parked in stopped {
                    let _ = parked.answer.send(Ok(Vec::new()));
                }
                let _ = answer.send(Ok(()));
            }
            Job::Close(answer) => group.closing = Some(answer),
        }
        Ok(())
    }

    /// Why nothing can be written now, if nothing can.
    fn failure(&self) -> Option<StoreError> {
        self.failing.as_ref()?;
        let failure = self.health.borrow().clone().err();
        Some(failure.unwrap_or_else(|| StoreError::Unavailable("it is being reopened".into())))
    }

    fn serve_claims(&mut self, group: &mut Group, now: Time) -> Result<(), StoreError> {
        for _ in 0..self.parked.len() {
            let Some(parked) = self.parked.pop_front().filter(|parked| !parked.answer.is_closed()) else {
                continue;
            };
            let due = self.core.next_due(&parked.ask.lane, now).is_some_and(|due| due <= now);
            let claimed = if due { self.core.claim(&parked.ask, now) } else { Ok(Vec::new()) };
            match claimed {
                Ok(claimed) if claimed.is_empty() => self.parked.push_back(parked),
                Ok(claimed) => group.claims.push((parked, claimed)),
                Err(error) => {
                    self.parked.push_back(parked);
                    return Err(error);
                }
            }
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
        match self.core.reopen().and_then(|()| self.core.check(now)).and_then(|()| self.adopt_orphans(now)) {
            Ok(()) => {
                info!("the store can be written again");
                self.failing = None;
                drop(self.health.send_replace(Ok(())));
            }
            Err(error) => self.failed(error, now),
        }
    }

    /// Gives back what was claimed for holders who were never told. Where the claim was not written, nothing happens.
    fn adopt_orphans(&mut self, now: Time) -> Result<(), StoreError> {
        for orphan in &self.orphans {
            match orphan {
                Orphan::Claimed(key) => drop(self.core.release(*key, now)?),
                Orphan::TakenOver(key) => self.core.disown(*key),
            }
        }
        let position = self.core.commit(now, &(self.entropy)())?;
        self.position.send_if_modified(|seen| std::mem::replace(seen, position) != position);
        self.orphans.clear();
        Ok(())
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
                Job::TakeOver(asked) => drop(asked.answer.send(Err(error.clone()))),
                Job::Claim(parked) => drop(parked.answer.send(Err(error.clone()))),
                Job::StopClaims(_, answer) | Job::Close(answer) => drop(answer.send(Err(error.clone()))),
            }
        }
    }
}
