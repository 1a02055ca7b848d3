//! The writer: groups of jobs, one commit each, and what to do when the store fails.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pombo_kernel::message::{ClaimKey, Draft};
use pombo_kernel::name::LaneName;
#[cfg(feature = "planted")]
use pombo_kernel::planted;
use pombo_kernel::time::{Clock, Span, Time};
use tokio::sync::{oneshot, watch};
use tracing::{debug, error, info, warn};

use super::{Answers, Batch, Entropy, Job, Meter, Parked, TakeOver, Task, TurnOver};
use crate::core::Core;
use crate::{Accepted, Ask, Claimed, Conflict, NodeId, Settled, Settlement, StoreError, TurnedOver};

/// What one commit holds at most.
const GROUP_BYTES: usize = 4 * 1024 * 1024;
const GROUP_JOBS: usize = 4096;
/// Deadlines handled in one commit.
const EXPIRE_AT_ONCE: usize = 1000;
/// Looks at the clock at least this often, so that a stepped clock is noticed.
const LONGEST_NAP: Span = Span::from_secs(1);
/// How long a group waits for producers who were just answered, so that they share its flush.
const LINGER: Duration = Duration::from_micros(60);
/// How often it looks in vain, whatever the clock says.
const LOOKS: usize = 500;
/// Fewer producers than this are not waited for: they want an answer soon, and there is little to share.
const CROWD: usize = 4;
/// How often a group is tried that meets others at the same place.
const TRIES: usize = 10;
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
    /// How long the last failure was waited out, if nothing has been written since.
    pub(super) setback: Option<Span>,
    /// Bytes of messages that may soon be there to write, if many producers were answered last time: as many as they
    /// had brought, and what others brought meanwhile.
    pub(super) expected: usize,
    pub(super) position: watch::Sender<u64>,
    pub(super) broken: watch::Sender<Option<String>>,
    pub(super) health: watch::Sender<Result<(), StoreError>>,
    pub(super) meter: Meter,
}

/// How long before the commit callers are told of it: never.
///
/// A debug build can be told otherwise, for the test that shows what a kill would then take.
fn told_ahead() -> Option<Duration> {
    let told =
        if cfg!(debug_assertions) { std::env::var("POMBO_TEST_TOLD_MS_BEFORE_COMMIT").ok() } else { None };
    told?.parse().ok().map(Duration::from_millis)
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

/// Jobs that share a commit, and what each of them found.
struct Group<C> {
    accepts: Many<Draft, Result<Accepted, Conflict>>,
    settles: Vec<Settlement>,
    settled: Vec<Settled>,
    turns: Vec<Turn>,
    releases: Many<ClaimKey, Settled>,
    tasks: Vec<Box<dyn Task<C>>>,
    takeovers: Vec<(TakeOver, Vec<Claimed>)>,
    /// Claims that found something.
    claims: Vec<(Parked, Vec<Claimed>)>,
    closing: Option<oneshot::Sender<Result<(), StoreError>>>,
    weight: usize,
    jobs: usize,
}

/// A caller's part of the group's settlements, and what takes their places.
struct Turn {
    settles: usize,
    asks: Vec<Ask>,
    claimed: Vec<Claimed>,
    answer: oneshot::Sender<Result<TurnedOver, StoreError>>,
}

/// How many of a claim's messages are for which of the group's turns.
struct Share {
    turn: usize,
    max: usize,
}

/// The items of several callers, and how many are whose.
struct Many<I, O> {
    items: Vec<I>,
    found: Vec<O>,
    callers: Vec<(usize, Answers<O>)>,
}

impl<I, O> Many<I, O> {
    const NONE: Many<I, O> = Many { items: Vec::new(), found: Vec::new(), callers: Vec::new() };

    fn add(&mut self, mut batch: Batch<I, O>) {
        self.callers.push((batch.items.len(), batch.answer));
        if self.items.is_empty() {
            self.items = batch.items;
        } else {
            self.items.append(&mut batch.items);
        }
    }

    fn tell(&mut self, told: &Result<(), StoreError>) {
        let mut found = self.found.drain(..);
        for (count, answer) in self.callers.drain(..) {
            let own = told.clone().map(|()| found.by_ref().take(count).collect());
            let _ = answer.send(own);
        }
    }
}

impl<C: Core> Group<C> {
    const fn new() -> Group<C> {
        Group {
            accepts: Many::NONE,
            settles: Vec::new(),
            settled: Vec::new(),
            turns: Vec::new(),
            releases: Many::NONE,
            tasks: Vec::new(),
            takeovers: Vec::new(),
            claims: Vec::new(),
            closing: None,
            weight: 0,
            jobs: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.weight >= GROUP_BYTES || self.jobs >= GROUP_JOBS || self.closing.is_some()
    }

    /// Whether something is written for it, besides what nobody asked for.
    fn wants_writing(&self) -> bool {
        let results = !self.turns.is_empty() || !self.releases.callers.is_empty();
        let taken = !self.claims.is_empty() || !self.takeovers.is_empty();
        results || taken || !self.accepts.callers.is_empty() || !self.tasks.is_empty()
    }

    /// Does what callers want, as far as the core; nobody is told yet.
    fn run(&mut self, core: &mut C, now: Time) -> Result<(), StoreError> {
        if !self.accepts.items.is_empty() {
            self.accepts.found = core.accept_group(&mut self.accepts.items, now)?;
        }
        if !self.settles.is_empty() {
            self.settled = core.settle_all(&self.settles, now)?;
        }
        if !self.releases.items.is_empty() {
            self.releases.found = core.release_all(&self.releases.items, now)?;
        }
        for task in &mut self.tasks {
            task.run(core, now)?;
        }
        for (asked, taken) in &mut self.takeovers {
            *taken = core.take_over(asked.node, asked.max, now)?;
        }
        Ok(())
    }

    /// What may take the places of results: one ask for all slots of a node in a lane, since every claim is a row of the
    /// journal, and on PostgreSQL a journey.
    fn asked_again(&self, stopped: &HashSet<NodeId>) -> Vec<(Ask, Vec<Share>)> {
        let mut asked: Vec<(Ask, Vec<Share>)> = Vec::new();
        for (index, turn) in self.turns.iter().enumerate() {
            let wanted = turn.asks.iter().filter(|ask| !stopped.contains(&ask.node));
            for ask in wanted.filter(|_| !turn.answer.is_closed()) {
                let share = Share { turn: index, max: ask.max };
                match asked.iter_mut().find(|(one, _)| one.node == ask.node && one.lane == ask.lane) {
                    Some((one, shares)) => {
                        one.max += ask.max;
                        shares.push(share);
                    }
                    None => asked.push((ask.clone(), vec![share])),
                }
            }
        }
        asked
    }

    /// Tells callers what came of their work. Claims and take-overs are told apart.
    fn tell(&mut self, told: &Result<(), StoreError>) {
        self.accepts.tell(told);
        let mut settled = self.settled.drain(..);
        for Turn { settles, claimed, answer, .. } in self.turns.drain(..) {
            let settled = settled.by_ref().take(settles).collect();
            let _ = answer.send(told.clone().map(|()| TurnedOver { settled, claimed }));
        }
        drop(settled);
        self.releases.tell(told);
        for task in self.tasks.drain(..) {
            task.tell(told.clone());
        }
    }
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
            let mut group = Group::new();
            self.gather(first, &mut group);
            self.linger(&mut group);
            match self.round(group) {
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
        let mut group = Group::new();
        self.gather(None, &mut group);
        matches!(self.round(group), Flow::On)
    }

    fn round(&mut self, mut group: Group<C>) -> Flow {
        let now = self.clock.now();
        if self.failing.as_ref().is_some_and(|failing| failing.is_over(now)) {
            self.recover(now);
        }
        let result = match self.failure() {
            // Told at once: there is nothing to wait for.
            Some(failure) => {
                group.tell(&Err(failure.clone()));
                for (asked, _) in group.takeovers.drain(..) {
                    let _ = asked.answer.send(Err(failure.clone()));
                }
                Ok(None)
            }
            None => self.write(&mut group, now).map(Some),
        };
        let before = self.backlog.fetch_sub(group.weight, Ordering::Relaxed);
        self.expected = if group.accepts.callers.len() < CROWD { 0 } else { before };
        self.meter.bytes_waiting.set(i64::try_from(before.saturating_sub(group.weight)).unwrap_or(i64::MAX));
        if let Ok(Some(position)) = &result {
            if group.wants_writing() {
                self.setback = None;
            }
            self.position.send_if_modified(|seen| std::mem::replace(seen, *position) != *position);
        }
        let told = result.map(drop);
        if let Err(error) = &told {
            self.failed(error.clone(), now);
        }
        self.tell_claims(&mut group, &told);
        group.tell(&told);
        match group.closing {
            _ if self.broken.borrow().is_some() => Flow::Broken,
            Some(answer) => Flow::Closed(answer, told),
            None => Flow::On,
        }
    }

    /// Hands out what was claimed, once that is durable. Otherwise the claims wait on, and whatever they had found
    /// is remembered: the commit may have been written all the same.
    fn tell_claims(&mut self, group: &mut Group<C>, told: &Result<(), StoreError>) {
        if told.is_err() {
            let claimed = group.turns.iter().flat_map(|turn| &turn.claimed);
            self.orphans.extend(claimed.map(|claimed| Orphan::Claimed(claimed.key)));
        }
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
        let mut lanes: Vec<&LaneName> = Vec::new();
        for lane in self.parked.iter().map(|parked| &parked.ask.lane) {
            // Nodes that share a writer wait for the same.
            if lanes.contains(&lane) {
                continue;
            }
            lanes.push(lane);
            let due = self.core.next_due(lane, now);
            wake = match (wake, due) {
                (Some(one), Some(two)) => Some(one.min(two)),
                (one, two) => one.or(two),
            };
        }
        wake.map_or(LONGEST_NAP, |wake| wake.since(now).min(LONGEST_NAP))
    }

    /// Takes the jobs that are there, up to what one commit holds.
    fn gather(&mut self, first: Option<Job<C>>, group: &mut Group<C>) {
        let mut next = first.or_else(|| self.inbox.try_recv().ok());
        while let Some(job) = next {
            self.take(job, group);
            next = if group.is_full() { None } else { self.inbox.try_recv().ok() };
        }
    }

    /// Gives a crowd of producers the time to come back, since a flush costs the same however many share it.
    fn linger(&mut self, group: &mut Group<C>) {
        if group.weight == 0 {
            return;
        }
        let until = self.clock.elapsed() + LINGER;
        let mut looks = 0;
        while group.weight < self.expected && !group.is_full() {
            match self.inbox.try_recv() {
                Ok(job) => self.take(job, group),
                Err(_) if looks < LOOKS && self.clock.elapsed() < until => {
                    looks += 1;
                    thread::yield_now();
                }
                Err(_) => return,
            }
        }
    }

    /// Does what is there to do and makes it durable. Nothing is told to anybody before.
    fn write(&mut self, group: &mut Group<C>, now: Time) -> Result<u64, StoreError> {
        let mut tries = 1;
        loop {
            let done = self.write_once(group, now);
            match done {
                Err(StoreError::Again(why)) if tries < TRIES => {
                    debug!(why, tries, "the group begins anew");
                    tries += 1;
                    self.meter.begun_anew.inc();
                    self.parked.extend(group.claims.drain(..).map(|(parked, _)| parked));
                    group.turns.iter_mut().for_each(|turn| turn.claimed.clear());
                    self.core.reopen()?;
                }
                done => return done,
            }
        }
    }

    fn write_once(&mut self, group: &mut Group<C>, now: Time) -> Result<u64, StoreError> {
        self.core.look(now)?;
        group.run(&mut self.core, now)?;
        if self.core.expire(EXPIRE_AT_ONCE, now)? < EXPIRE_AT_ONCE {
            self.serve_claims(group, now)?;
        }
        #[cfg(feature = "planted")]
        if planted::is(planted::Bug::AckBeforeCommit) {
            group.tell(&Ok(()));
        }
        if let Some(ahead) = told_ahead().filter(|_| group.wants_writing()) {
            group.tell(&Ok(()));
            thread::sleep(ahead);
        }
        let started = self.clock.elapsed();
        let position = self.core.commit(now, &(self.entropy)())?;
        if group.jobs > 0 || !group.claims.is_empty() {
            self.meter.committed(group.jobs, self.clock.elapsed().saturating_sub(started));
        }
        self.core.tell(&self.meter.counts);
        Ok(position)
    }

    fn take(&mut self, job: Job<C>, group: &mut Group<C>) {
        group.jobs += 1;
        self.meter.jobs_waiting.dec();
        match job {
            Job::Accept { weight, batch } => {
                group.weight += weight;
                group.accepts.add(batch);
            }
            Job::TurnOver(TurnOver { mut settlements, asks, answer }) => {
                let settles = settlements.len();
                group.settles.append(&mut settlements);
                group.turns.push(Turn { settles, asks, claimed: Vec::new(), answer });
            }
            Job::Release(batch) => group.releases.add(batch),
            Job::Work(task) => group.tasks.push(task),
            Job::TakeOver(asked) => group.takeovers.push((asked, Vec::new())),
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
            Job::Nudge => self.core.nudge(),
            Job::Close(answer) => group.closing = Some(answer),
        }
    }

    /// Why nothing can be written now, if nothing can.
    fn failure(&self) -> Option<StoreError> {
        self.failing.as_ref()?;
        let failure = self.health.borrow().clone().err();
        Some(failure.unwrap_or_else(|| StoreError::Unavailable("it is being reopened".into())))
    }

    fn serve_claims(&mut self, group: &mut Group<C>, now: Time) -> Result<(), StoreError> {
        for (ask, shares) in group.asked_again(&self.stopped) {
            if self.core.next_due(&ask.lane, now).is_some_and(|due| due <= now) {
                let mut claimed = self.core.claim(&ask, now)?.into_iter();
                for Share { turn, max } in shares {
                    group.turns[turn].claimed.extend(claimed.by_ref().take(max));
                }
            }
        }
        let mut idle: Vec<LaneName> = Vec::new();
        for _ in 0..self.parked.len() {
            let Some(parked) = self.parked.pop_front().filter(|parked| !parked.answer.is_closed()) else {
                continue;
            };
            let lane = &parked.ask.lane;
            // What a claim takes makes nothing else due.
            let due = !idle.contains(lane) && self.core.next_due(lane, now).is_some_and(|due| due <= now);
            if !due && !idle.contains(lane) {
                idle.push(lane.clone());
            }
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
        self.meter.failures.inc();
        self.meter.writable.set(0);
        if let StoreError::Broken(reason) = &error {
            error!(%reason, "the store can no longer be trusted; the process must start anew");
            self.broken.send_replace(Some(reason.clone()));
        } else {
            warn!(%error, "the store cannot be written; sending pauses until it can");
            // That it could be reopened meanwhile says little if it then failed again.
            let wait = self.setback.map_or(FIRST_RETRY, |wait| wait.doubled(1).min(SLOWEST_RETRY));
            self.setback = Some(wait);
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
                self.meter.writable.set(1);
                drop(self.health.send_replace(Ok(())));
            }
            Err(error) => self.failed(error, now),
        }
    }

    /// Gives back what was claimed for holders who were never told. Where the claim was not written, nothing happens.
    fn adopt_orphans(&mut self, now: Time) -> Result<(), StoreError> {
        #[cfg(feature = "planted")]
        if planted::is(planted::Bug::OrphansForgotten) {
            self.orphans.clear();
        }
        for orphan in &self.orphans {
            match orphan {
                Orphan::Claimed(key) => drop(self.core.release(*key, now)?),
                Orphan::TakenOver(key) => self.core.disown(*key),
            }
        }
        let position = self.core.commit(now, &(self.entropy)())?;
        self.core.tell(&self.meter.counts);
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
                Job::Accept { batch, .. } => drop(batch.answer.send(Err(error.clone()))),
                Job::TurnOver(asked) => drop(asked.answer.send(Err(error.clone()))),
                Job::Release(batch) => drop(batch.answer.send(Err(error.clone()))),
                Job::Work(task) => task.tell(Err(error.clone())),
                Job::Nudge => {}
                Job::TakeOver(asked) => drop(asked.answer.send(Err(error.clone()))),
                Job::Claim(parked) => drop(parked.answer.send(Err(error.clone()))),
                Job::StopClaims(_, answer) | Job::Close(answer) => drop(answer.send(Err(error.clone()))),
            }
        }
    }
}
