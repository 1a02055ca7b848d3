//! Does what operations ask for, piece by piece. What comes next is decided by the kernel; this is the hands.
//!
//! Several nodes may each have one. A piece is committed with the operation's document, which must be as it was read:
//! of two who do the same piece at once, one has done nothing.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use pombo_channels::{Channel, Health};
use pombo_engine::decide;
use pombo_engine::shell::Channels;
use pombo_kernel::erasure;
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::message::{Actor, FailureReason, State, StateName};
use pombo_kernel::name::Tenant;
use pombo_kernel::operation::{Canary, Found, Kind, Operation, Sight, Step};
use pombo_kernel::setup::{ChannelSetup, Setup};
use pombo_kernel::time::{Clock, Span, Time};
use pombo_store::dead::{Act, Cause, Ruled, Ruling, cause_of};
use pombo_store::prune::{Effect, Prune, Walk};
use pombo_store::shelf::{Doc, Shelf, Shelved};
use pombo_store::{Line, Store, StoreError, roster};
use pombo_web::{filter, operation, suppression};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tracing::{debug, info, warn};

use crate::clock::Stopwatch;
use crate::eraser::Eraser;
use crate::keeper::{Pace, label};
use crate::node::{NodeRole, Place, Roles};
use crate::rounds::Rounds;

/// From one look at those that went first to the next.
const WATCH_EVERY: Span = Span::from_secs(1);
/// How long one who met another at the same operation leaves it to that one.
const YIELD: Span = Span::from_secs(2);
/// From one look at whoever erases to the next.
const ERASE_LOOK: Span = Span::from_secs(1);
/// How long an erasure that met trouble is left alone; and one whose files could not be rewritten, for which everybody
/// has waited.
const TROUBLED: Duration = Duration::from_secs(30);
const NOT_SWEPT: Duration = Duration::from_secs(15 * 60);
/// How long a provider may take to say how it is.
const PATIENCE: Duration = Duration::from_secs(8);

/// The one who does it. Ends when this is dropped, wherever it is: what is not committed is done by the next one.
#[derive(Debug)]
pub(crate) struct Foreman {
    task: JoinHandle<()>,
    channels: Arc<RwLock<Channels>>,
}

impl Drop for Foreman {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Foreman {
    /// Starts one for a node at that place with these roles: `scheduler` acts on letters, `worker` asks providers.
    pub(crate) fn start(
        store: Arc<dyn Store>,
        setup: watch::Receiver<Arc<Setup>>,
        channels: Channels,
        clock: Arc<dyn Clock>,
        place: &Place,
        roles: &Roles,
    ) -> Foreman {
        let channels = Arc::new(RwLock::new(channels));
        let work = Work {
            store,
            setup,
            channels: Arc::clone(&channels),
            clock,
            alone: matches!(place, Place::Embedded(_)),
            letters: roles.has(NodeRole::Scheduler),
            probes: roles.has(NodeRole::Worker),
            later: HashMap::new(),
            walks: HashMap::new(),
            pace: Pace::default(),
            erasing: HashMap::new(),
            asking: JoinSet::new(),
        };
        Foreman { task: tokio::spawn(work.run()), channels }
    }

    /// Goes on with other channels.
    pub(crate) fn reload(&self, channels: Channels) {
        *self.channels.write().unwrap_or_else(PoisonError::into_inner) = channels;
    }
}

struct Work {
    store: Arc<dyn Store>,
    setup: watch::Receiver<Arc<Setup>>,
    channels: Arc<RwLock<Channels>>,
    clock: Arc<dyn Clock>,
    /// No other process can be at work on the store.
    alone: bool,
    letters: bool,
    probes: bool,
    /// Operations that are left alone until then, by their ids.
    later: HashMap<String, Time>,
    /// How far the removal of messages has come, by operation.
    walks: HashMap<String, Walk>,
    pace: Pace,
    /// Who erases whom, by their operations.
    erasing: HashMap<String, AbortHandle>,
    /// Providers that are being asked, and those who erase; dropped with this.
    asking: JoinSet<()>,
}

impl Rounds for Work {
    const SHELF: Shelf = Shelf::Operation;

    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Does one piece of an operation, if it is due and this node's to do.
    async fn piece(&mut self, doc: &Doc) -> Result<Option<Time>, StoreError> {
        let Some(operation) = operation::read(doc) else {
            debug!(operation_id = doc.id, "an operation of a newer version is left to newer nodes");
            return Ok(None);
        };
        let now = self.clock.now();
        self.later.retain(|_, until| *until > now);
        // Where nobody else can be at it, a lease that is not ours was left by a process that is dead.
        let operation = match self.alone && !self.erases(&doc.id) {
            true => operation.bereft(now),
            false => operation,
        };
        let mine = match operation.kind {
            Kind::Reprocess | Kind::Discard | Kind::Erase | Kind::Prune => self.letters,
            // What nobody took up, anybody may give up.
            Kind::TestChannel => self.probes || matches!(operation.next(now), Step::Halt(_)),
        };
        match self.later.get(&doc.id) {
            _ if !mine => Ok(None),
            Some(later) => Ok(Some(*later)),
            None => self.step(doc, operation, now).await,
        }
    }
}

impl Work {
    /// Does what is next; when there is more to do, if there is.
    async fn step(&mut self, doc: &Doc, operation: Operation, now: Time) -> Result<Option<Time>, StoreError> {
        match operation.next(now) {
            Step::Nothing => Ok(None),
            Step::Wait(until) => Ok(Some(until)),
            Step::Halt(reason) => self.write(doc, operation.halted(reason, now), now).await,
            Step::Take(most) if operation.kind == Kind::Prune => self.prune(doc, operation, most, now).await,
            Step::Take(most) => self.take(doc, operation, most, now).await,
            Step::Probe => self.probe(doc, operation, now).await,
            Step::Erase => Ok(self.erase(doc, operation, now)),
            Step::Watch(canaries) => {
                let lines = self.store.lines(canaries.iter().map(|it| it.id).collect()).await?;
                let sights: Vec<Sight> = canaries.iter().map(|canary| seen(canary, &lines)).collect();
                match operation.watched(&sights, now) {
                    Some(next) => self.write(doc, next, now).await,
                    None => Ok(Some(self.leave(doc, now + WATCH_EVERY))),
                }
            }
        }
    }

    /// Acts on the next letters, and records it in the same commit.
    async fn take(
        &mut self,
        doc: &Doc,
        operation: Operation,
        most: usize,
        now: Time,
    ) -> Result<Option<Time>, StoreError> {
        let Some(filter) = filter::of_operation(&doc.tenant, &operation) else {
            let reason = "this version does not know one of its filters";
            return self.write(doc, operation.halted(reason, now), now).await;
        };
        let page = self.store.page(filter, operation.cursor.map(MessageKey), most).await?;
        let found = page.lines.len();
        let lines = match operation.kind {
            Kind::Reprocess => self.writable(&doc.tenant, page.lines).await?,
            _ => page.lines,
        };
        let passed_over = (found - lines.len()) as u64;
        let letters = letters(&lines, operation.created_at);
        let ids: Vec<MessageId> = letters.iter().map(|letter| letter.id).collect();
        let (kind, by, note) = (operation.kind, operation.by.clone(), operation.note.clone());
        let next = operation.took(letters, page.next, now).passing_over(passed_over);
        if ids.is_empty() {
            return self.write(doc, next, now).await;
        }
        let act = if kind == Kind::Discard { Act::Discard } else { Act::Reprocess };
        let with = Some(operation::change(doc, &next, &Actor::engine(), now));
        let ruling = Ruling { tenant: doc.tenant.clone(), ids, act, by, note, with };
        let Ok(ruled) = self.store.rule(ruling).await? else {
            return Ok(Some(self.leave(doc, now + YIELD)));
        };
        said(doc, &next);
        let skipped = ruled.iter().filter(|ruled| **ruled != Ruled::Done).count() as u64;
        if skipped > 0 {
            // Somebody else acted on them in the moment between. The document was written with the others, so it is
            // put right after; if this process dies first, they stay counted as done.
            let written = Doc { version: doc.version + 1, leaf: leaf_of(doc, &next), ..doc.clone() };
            let next = next.clone().less(skipped);
            let wish = operation::change(&written, &next, &Actor::engine(), now);
            self.store.shelve(vec![wish]).await?;
        }
        Ok(next.due())
    }

    /// Removes some messages that ended long ago, or counts them, and rests.
    async fn prune(
        &mut self,
        doc: &Doc,
        operation: Operation,
        most: usize,
        now: Time,
    ) -> Result<Option<Time>, StoreError> {
        let setup = self.setup.borrow().clone();
        let rules = match operation::prune_rules(&operation.filter, &setup) {
            Ok(rules) => Arc::new(rules),
            Err((name, what, _)) => {
                let reason = format!("{name} {what}");
                return self.write(doc, operation.halted(&reason, now), now).await;
            }
        };
        // After a restart what was seen before is counted anew, so that more of it is kept.
        let before = operation.cursor.map(MessageKey);
        let walk = self.walks.remove(&doc.id).filter(|walk| walk.before == before);
        let walk = walk.unwrap_or_else(|| Walk::before(before));
        let dry = operation.filter.contains_key("dry_run");
        let effect = if dry { Effect::Tell } else { Effect::Remove };
        let prune = Prune { rules, by: operation.by.clone(), effect, walk };
        let watch = Stopwatch::start();
        let done = self.store.prune(prune, most, now).await?;
        let rest = self.pace.after(watch.elapsed(), !dry && done.count() > 0);
        let counts = done.removed.iter().map(|((channel, state), count)| (label(channel, *state), *count));
        let next_at = now + Span::from_millis(u64::try_from(rest.as_millis()).unwrap_or(u64::MAX));
        let cursor = done.next.as_ref().and_then(|walk| walk.before);
        let next = operation.pruned(counts, cursor, next_at, now);
        self.walks.extend(done.next.map(|walk| (doc.id.clone(), walk)));
        self.write(doc, next, now).await
    }

    /// Leaves out messages of campaigns that were cancelled, or whose recipients are not to be written to by now.
    async fn writable(&self, tenant: &Tenant, lines: Vec<Line>) -> Result<Vec<Line>, StoreError> {
        let setup = self.setup.borrow().clone();
        let mut writable = Vec::with_capacity(lines.len());
        let mut cancelled = HashMap::new();
        for line in lines {
            let message = &line.message;
            if let Some(campaign) = &message.queue.campaign {
                let over = match cancelled.get(campaign) {
                    Some(over) => *over,
                    None => {
                        let id = campaign.to_string();
                        let doc = self.store.doc(Shelf::Campaign, tenant.clone(), id).await?;
                        let over = doc.as_ref().and_then(roster::read).is_some_and(|it| it.is_cancelled());
                        cancelled.insert(campaign.clone(), over);
                        over
                    }
                };
                if over {
                    continue;
                }
            }
            let kind = setup.channels.get(&message.queue.channel).map(|channel| channel.kind);
            let listed = match kind.filter(|_| message.queue.campaign.is_some()) {
                Some(kind) => suppression::of(&*self.store, tenant, kind, &message.body.to).await?,
                None => None,
            };
            if listed.is_none() {
                writable.push(line);
            }
        }
        Ok(writable)
    }

    /// Puts the operation as it stands now; if another did meanwhile, that one goes on with it.
    async fn write(&mut self, doc: &Doc, next: Operation, now: Time) -> Result<Option<Time>, StoreError> {
        let wish = operation::change(doc, &next, &Actor::engine(), now);
        match self.store.shelve(vec![wish]).await?.pop() {
            Some(Shelved::Done { .. }) => {
                said(doc, &next);
                Ok(next.due())
            }
            _ => Ok(Some(self.leave(doc, now + YIELD))),
        }
    }

    fn leave(&mut self, doc: &Doc, until: Time) -> Time {
        self.later.insert(doc.id.clone(), until);
        until
    }

    /// Whether somebody here is at that erasure.
    fn erases(&self, id: &str) -> bool {
        self.erasing.get(id).is_some_and(|at_it| !at_it.is_finished())
    }

    /// Erases somebody, beside whatever else is to be done. One who is at it already goes on.
    fn erase(&mut self, doc: &Doc, operation: Operation, now: Time) -> Option<Time> {
        let again = self.leave(doc, now + ERASE_LOOK);
        if self.erases(&doc.id) {
            return Some(again);
        }
        let mut next = operation.erasure.as_ref().map(|erasure| erasure.step);
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
        let setup = self.setup.borrow().clone();
        let eraser = Eraser::take_up(store, clock, &setup, Some(doc.clone()), operation)?;
        let id = doc.id.clone();
        let at_it = self.asking.spawn(async move {
            match eraser.run(&mut |erasure| next = Some(erasure.step)).await {
                Ok(stopped) => info!(operation_id = id, ?stopped, "an erasure has stopped"),
                Err(error) => {
                    let wait = if next == Some(erasure::Step::Sweep) { NOT_SWEPT } else { TROUBLED };
                    warn!(%error, operation_id = id, again_in = ?wait, "an erasure waits");
                    tokio::time::sleep(wait).await;
                }
            }
        });
        self.erasing.retain(|_, at_it| !at_it.is_finished());
        self.erasing.insert(doc.id.clone(), at_it);
        Some(again)
    }

    /// Asks a provider, if this node can; others wait for its answer.
    async fn probe(
        &mut self,
        doc: &Doc,
        operation: Operation,
        now: Time,
    ) -> Result<Option<Time>, StoreError> {
        let setup = self.setup.borrow().clone();
        let channel = operation.channel.as_ref().and_then(|name| setup.channels.get(name)).cloned();
        let Some(channel) = channel.filter(|channel| channel.tenant == doc.tenant) else {
            return Ok(Some(self.leave(doc, now + YIELD)));
        };
        let sender = self.channels.read().unwrap_or_else(PoisonError::into_inner).get(&channel.name).cloned();
        let taken = operation.probing(now);
        let wish = operation::change(doc, &taken, &Actor::engine(), now);
        let Some(Shelved::Done { version }) = self.store.shelve(vec![wish]).await?.pop() else {
            return Ok(Some(self.leave(doc, now + YIELD)));
        };
        while self.asking.try_join_next().is_some() {}
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
        let doc = Doc { version, leaf: leaf_of(doc, &taken), ..doc.clone() };
        let again = taken.due();
        self.asking.spawn(async move {
            let found = ask(&channel, sender, &*clock).await;
            let now = clock.now();
            let next = taken.found(found, now);
            let wish = operation::change(&doc, &next, &Actor::engine(), now);
            match store.shelve(vec![wish]).await {
                Ok(_) => said(&doc, &next),
                Err(error) => warn!(%error, operation_id = doc.id, "a test could not be recorded"),
            }
        });
        Ok(again)
    }
}

/// The document's leaf as it is once that operation was put there.
fn leaf_of(doc: &Doc, operation: &Operation) -> pombo_store::shelf::Leaf {
    pombo_store::shelf::Leaf { due: operation.due(), ..doc.leaf.clone() }
}

fn said(doc: &Doc, operation: &Operation) {
    let (done, skipped, state) = (operation.done, operation.skipped, operation.state.as_str());
    match operation.is_running() {
        true => debug!(operation_id = doc.id, done, skipped, "an operation goes on"),
        false => info!(operation_id = doc.id, done, skipped, state, "an operation has ended"),
    }
}

/// Those letters of a page that were dead when the operation began, the oldest first. Whatever died since has not been
/// looked at by whoever asked.
fn letters(lines: &[Line], since: Time) -> Vec<Canary> {
    let dead =
        lines.iter().rev().filter(|line| matches!(line.state, State::Failed { at, .. } if at <= since));
    let letter = |line: &Line| {
        let cause = cause_of(line).map(|cause| cause.id.to_string()).unwrap_or_default();
        Canary { id: line.message.id, cause }
    };
    dead.map(letter).collect()
}

/// What became of a letter that went first.
fn seen(canary: &Canary, lines: &[Line]) -> Sight {
    let Some(line) = lines.iter().find(|line| line.message.id == canary.id) else { return Sight::Gone };
    // A try that failed and is to be followed by another has a cause as if it had been the last.
    let tried = line.progress.attempts > 0;
    let cause = match (&line.state, &line.last_failure) {
        (State::Failed { .. }, _) => cause_of(line),
        (State::Pending { .. } | State::Sending { .. }, Some(failure)) if tried => {
            Some(Cause::of(&line.message.queue, FailureReason::MaxRetriesExceeded, Some(failure)))
        }
        _ => None,
    };
    let same = cause.is_some_and(|cause| cause.id.to_string() == canary.cause);
    match line.state.name() {
        StateName::Sent => Sight::Sent,
        StateName::Cancelled | StateName::Discarded => Sight::Gone,
        _ if same => Sight::SameAgain,
        StateName::Failed => Sight::OtherEnd,
        StateName::Pending | StateName::Sending => Sight::Underway,
    }
}

/// How a channel's provider is, in words for whoever asked.
async fn ask(channel: &ChannelSetup, sender: Option<Arc<dyn Channel>>, clock: &dyn Clock) -> Found {
    let found = |ok, detail: String, latency: Duration| {
        let latency_ms = u64::try_from(latency.as_millis()).unwrap_or(u64::MAX);
        Found { ok, detail, latency_ms }
    };
    let (None, Some(sender)) = (&channel.unready, sender) else {
        let hint = channel.unready.as_deref().unwrap_or("this node cannot send through it");
        return found(Some(false), format!("the channel is not set up: {hint}"), Duration::ZERO);
    };
    let watch = Stopwatch::start();
    let health = tokio::time::timeout(2 * PATIENCE, sender.probe(PATIENCE)).await;
    let latency = watch.elapsed();
    match health {
        Ok(Health::Ready(words)) => found(Some(true), words, latency),
        Ok(Health::Reachable(words)) => {
            let words = format!("{words}; it is there, and did not say whether it would take messages");
            found(Some(true), words, latency)
        }
        Ok(Health::Unknown) => {
            let words = format!("a {} channel cannot be asked without sending a message", channel.kind);
            found(None, words, latency)
        }
        Ok(Health::Sick(reply)) => found(Some(false), decide::in_words(channel, reply, clock.now()), latency),
        Err(_) => found(Some(false), "no answer in time".to_owned(), latency),
    }
}

#[cfg(test)]
mod tests;
