//! A thread, a clock and groups of callers around a synchronous core.
//!
//! Whatever arrives while a commit is being written shares the next one. Claims that find nothing wait here, and
//! are served in the very commit that brings them something.

mod meter;
mod writer;

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use pombo_kernel::attachment::Digest;
use pombo_kernel::block::Block;
use pombo_kernel::delivery::Report;
use pombo_kernel::erasure::{Bookmark, Pseudonyms, Seeker};
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::message::{Actor, ClaimKey, Draft, Idempotency};
use pombo_kernel::name::{CampaignName, ChannelName, TemplateName, Tenant};
use pombo_kernel::template::Template;
use pombo_kernel::time::{Clock, Time};
use tokio::sync::{Semaphore, oneshot, watch};

use crate::audit::{self, Record};
use crate::core::{Core, Reading};
use crate::dead::{Edit, Edited, Group, Hastened, Revision, Ruling, Verdicts};
use crate::erase::{Erase, Erased, Sought};
use crate::learning::Learnt;
use crate::prune::{Effect, Lapsed, Prune, Pruned, Ripe};
use crate::roster::{Enlist, Enlisted, Feed, NotDone, Recipient, Roster};
use crate::shelf::{Doc, Shelf, Shelve, Shelved, Wanted};
use crate::{
    Accepted, Answer, Ask, Backlog, Cancelled, Claimed, Conflict, Filter, Finding, Line, Measured, NodeId,
    Page, Pause, Place, Put, Reported, Settled, Settlement, StatsWanted, Store, StoreError, Story, Tally,
    TemplateVersion, TurnedOver,
};

pub use meter::Meter;
pub use writer::Writer;

/// Bytes of accepted messages that may wait to be written before producers are asked to come back later.
const BACKLOG_BYTES: usize = 64 * 1024 * 1024;
const READERS: usize = 4;

/// How long one read may take: as long as a reader of PostgreSQL gives a statement. Whatever may take longer is read in
/// pieces; a copy, a backup and a check of the whole store read on connections of their own, and take their time.
pub const READ_LIMIT: Duration = Duration::from_secs(10);

/// 32 bytes that nobody can guess, new at every call.
pub type Entropy = Box<dyn FnMut() -> [u8; 32] + Send>;

/// Work on the core for one caller, who is told afterwards. It may be run several times: a group that met another
/// process at the same place begins anew.
trait Task<C>: Send {
    fn run(&mut self, core: &mut C, now: Time) -> Result<(), StoreError>;
    /// Says what came of it, once that is durable or known to have failed.
    fn tell(self: Box<Self>, group: Result<(), StoreError>);
}

/// A verb, its caller, and what it answered when it was last run.
struct Verb<F, T> {
    verb: F,
    result: Option<T>,
    answer: oneshot::Sender<Result<T, StoreError>>,
}

impl<C, T, F> Task<C> for Verb<F, T>
where
    T: Send,
    F: FnMut(&mut C, Time) -> Result<T, StoreError> + Send,
{
    fn run(&mut self, core: &mut C, now: Time) -> Result<(), StoreError> {
        self.result = Some((self.verb)(core, now)?);
        Ok(())
    }

    fn tell(self: Box<Self>, group: Result<(), StoreError>) {
        let Verb { result, answer, .. } = *self;
        let _ = answer.send(group.and_then(|()| result.ok_or(StoreError::Closed)));
    }
}

/// Where the answers to the items of one caller go.
type Answers<O> = oneshot::Sender<Result<Vec<O>, StoreError>>;

/// Items of one caller, which go together with those of others.
struct Batch<I, O> {
    items: Vec<I>,
    answer: Answers<O>,
}

enum Job<C> {
    Accept { weight: usize, batch: Batch<Draft, Result<Accepted, Conflict>> },
    TurnOver(TurnOver),
    Release(Batch<ClaimKey, Settled>),
    Work(Box<dyn Task<C>>),
    TakeOver(TakeOver),
    Claim(Parked),
    StopClaims(NodeId, oneshot::Sender<Result<(), StoreError>>),
    Nudge,
    Close(oneshot::Sender<Result<(), StoreError>>),
}

/// Results, and a wish for what may take their places.
struct TurnOver {
    settlements: Vec<Settlement>,
    asks: Vec<Ask>,
    answer: oneshot::Sender<Result<TurnedOver, StoreError>>,
}

/// A wish for the messages of nodes that are gone.
struct TakeOver {
    node: NodeId,
    max: usize,
    answer: oneshot::Sender<Result<Vec<Claimed>, StoreError>>,
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
    clock: Arc<dyn Clock>,
    position: watch::Receiver<u64>,
    broken: watch::Receiver<Option<String>>,
    health: watch::Receiver<Result<(), StoreError>>,
    meter: Meter,
    pseudonyms: Pseudonyms,
}

impl<C: Core> Clone for Shell<C> {
    fn clone(&self) -> Shell<C> {
        Shell {
            jobs: self.jobs.clone(),
            backlog: self.backlog.clone(),
            readers: self.readers.clone(),
            clock: self.clock.clone(),
            position: self.position.clone(),
            broken: self.broken.clone(),
            health: self.health.clone(),
            meter: self.meter.clone(),
            pseudonyms: self.pseudonyms.clone(),
        }
    }
}

impl<C: Core> fmt::Debug for Shell<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shell").field("position", &*self.position.borrow()).finish_non_exhaustive()
    }
}

struct Readers<R> {
    idle: Mutex<Vec<R>>,
    permits: Arc<Semaphore>,
    total: usize,
}

/// How many readers there are, and how many of them read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readership {
    pub busy: usize,
    pub total: usize,
}

impl<C: Core> Shell<C> {
    /// Starts the writer's thread. It ends with `close`, or when every handle is gone.
    pub fn start(mut core: C, clock: Arc<dyn Clock>, entropy: Entropy) -> Result<Shell<C>, StoreError> {
        core.warm_up();
        let (shell, writer) = Shell::with_writer(core, clock, entropy)?;
        thread::Builder::new()
            .name("pombo-store".into())
            .spawn(move || writer.run())
            .map_err(|error| StoreError::Unavailable(format!("cannot start a thread: {error}")))?;
        Ok(shell)
    }

    /// The store and its writer apart, for whoever wants to say when the writer takes its turns.
    pub fn with_writer(
        mut core: C,
        clock: Arc<dyn Clock>,
        mut entropy: Entropy,
    ) -> Result<(Shell<C>, Writer<C>), StoreError> {
        let position = core.commit(clock.now(), &entropy())?;
        let pseudonyms = core.pseudonyms();
        let readers = (0..READERS).map(|_| core.reader()).collect::<Result<Vec<_>, _>>()?;
        let readers = Arc::new(Readers::of(readers));
        let (jobs, inbox) = channel();
        let backlog = Arc::new(AtomicUsize::new(0));
        let (tell_position, position) = watch::channel(position);
        let (tell_broken, broken) = watch::channel(None);
        let (tell_health, health) = watch::channel(Ok(()));
        let meter = Meter::new();
        let writer = Writer {
            core,
            clock: clock.clone(),
            entropy,
            inbox,
            backlog: backlog.clone(),
            parked: VecDeque::new(),
            stopped: HashSet::new(),
            orphans: Vec::new(),
            failing: None,
            setback: None,
            expected: 0,
            position: tell_position,
            broken: tell_broken,
            health: tell_health,
            meter: meter.clone(),
        };
        Ok((Shell { jobs, backlog, readers, clock, position, broken, health, meter, pseudonyms }, writer))
    }

    /// The same store with readers of its own, so that whoever reads through it takes none from others.
    pub fn beside(&self, readers: Vec<C::Reader>) -> Shell<C> {
        Shell { readers: Arc::new(Readers::of(readers)), ..self.clone() }
    }

    /// Removes what a look found to be given up, as far as it has not moved since.
    pub fn let_go(&self, prune: Prune, ripe: Ripe) -> Answer<'_, Pruned> {
        self.work(move |core, now| core.prune(&prune, &ripe, now))
    }

    /// Whoever calls it has the store look at what others wrote.
    pub fn nudger(&self) -> impl Fn() + Send + Sync + 'static {
        let (jobs, waiting) = (self.jobs.clone(), self.meter.jobs_waiting.clone());
        move || {
            waiting.inc();
            if jobs.send(Job::Nudge).is_err() {
                waiting.dec();
            }
        }
    }

    /// What the store measures, whichever handle is asked.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Tells, whenever it is called, how many readers this handle has and how many of them read.
    pub fn readers(&self) -> impl Fn() -> Readership + Send + Sync + 'static {
        let readers = self.readers.clone();
        move || Readership { busy: readers.total - readers.permits.available_permits(), total: readers.total }
    }

    fn send(&self, job: Job<C>) -> Result<(), StoreError> {
        self.meter.jobs_waiting.inc();
        self.jobs.send(job).map_err(|_| {
            self.meter.jobs_waiting.dec();
            StoreError::Closed
        })
    }

    pub(crate) fn work<T: Send + 'static>(
        &self,
        verb: impl FnMut(&mut C, Time) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<'_, T> {
        self.ask(|answer| Job::Work(Box::new(Verb { verb, result: None, answer })))
    }

    /// Sends a job that answers by itself.
    fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Job<C>,
    ) -> Answer<'_, T> {
        let (answer, answered) = oneshot::channel();
        let sent = self.send(job(answer));
        Box::pin(async move {
            sent?;
            answered.await.unwrap_or(Err(StoreError::Closed))
        })
    }

    pub(crate) fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut C::Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<'_, T> {
        let (readers, clock) = (self.readers.clone(), self.clock.clone());
        Box::pin(async move {
            // The permit goes with the reader, so that a caller who leaves early takes neither along.
            let permit = readers.permits.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?;
            let done = tokio::task::spawn_blocking(move || {
                let mut lent = Lent { reader: readers.idle().pop(), readers: &readers };
                let result = lent.reader.as_mut().ok_or(StoreError::Closed).and_then(|reader| {
                    let until = clock.elapsed() + READ_LIMIT;
                    reader.end_when(Box::new(move || clock.elapsed() > until));
                    read(reader)
                });
                drop(lent);
                drop(permit);
                result
            });
            done.await.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
        })
    }
}

/// A reader on loan; it goes back whatever happens, and as it was.
struct Lent<'a, R: Reading> {
    reader: Option<R>,
    readers: &'a Readers<R>,
}

impl<R: Reading> Drop for Lent<'_, R> {
    fn drop(&mut self) {
        let Some(mut reader) = self.reader.take() else { return };
        reader.rest();
        self.readers.idle().push(reader);
    }
}

impl<R> Readers<R> {
    fn of(readers: Vec<R>) -> Readers<R> {
        let total = readers.len();
        Readers { permits: Arc::new(Semaphore::new(total)), idle: Mutex::new(readers), total }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<R>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.ask(|answer| Job::Accept { weight, batch: Batch { items: drafts, answer } })
    }

    fn claim(&self, ask: Ask) -> Answer<'_, Vec<Claimed>> {
        self.ask(|answer| Job::Claim(Parked { ask, answer }))
    }

    fn stop_claims(&self, node: NodeId) -> Answer<'_, ()> {
        self.ask(|answer| Job::StopClaims(node, answer))
    }

    fn heartbeat(&self, node: NodeId, lease_until: Time) -> Answer<'_, ()> {
        self.work(move |core, _| core.heartbeat(node, lease_until))
    }

    fn take_over(&self, node: NodeId, max: usize) -> Answer<'_, Vec<Claimed>> {
        self.ask(|answer| Job::TakeOver(TakeOver { node, max, answer }))
    }

    fn turn_over(&self, settlements: Vec<Settlement>, asks: Vec<Ask>) -> Answer<'_, TurnedOver> {
        self.ask(|answer| Job::TurnOver(TurnOver { settlements, asks, answer }))
    }

    fn release(&self, claims: Vec<ClaimKey>) -> Answer<'_, Vec<Settled>> {
        self.ask(|answer| Job::Release(Batch { items: claims, answer }))
    }

    fn report(&self, channel: ChannelName, reports: Vec<Report>) -> Answer<'_, Vec<Reported>> {
        self.work(move |core, now| core.report_all(&channel, &reports, now))
    }

    fn leave_out(&self, claim: ClaimKey, reason: String) -> Answer<'_, Settled> {
        self.work(move |core, now| core.leave_out(claim, &reason, now))
    }

    fn cancel(&self, tenant: Tenant, id: MessageId, by: Actor) -> Answer<'_, Cancelled> {
        self.work(move |core, now| core.cancel(&tenant, id, &by, now))
    }

    fn hasten(&self, tenant: Tenant, id: MessageId, by: Actor) -> Answer<'_, Hastened> {
        self.work(move |core, now| core.hasten(&tenant, id, &by, now))
    }

    fn rule(&self, ruling: Ruling) -> Answer<'_, Verdicts> {
        self.work(move |core, now| core.rule(&ruling, now))
    }

    fn edit(&self, edit: Edit) -> Answer<'_, Edited> {
        self.work(move |core, now| core.edit(&edit, now))
    }

    fn revisions(&self, tenant: Tenant, id: MessageId) -> Answer<'_, Vec<Revision>> {
        self.read(move |reader| reader.revisions(&tenant, id))
    }

    fn groups(&self, tenant: Tenant, limit: usize) -> Answer<'_, Vec<Group>> {
        self.read(move |reader| reader.groups(&tenant, limit))
    }

    fn lines(&self, ids: Vec<MessageId>) -> Answer<'_, Vec<Line>> {
        self.read(move |reader| reader.lines(&ids))
    }

    fn first(&self, tenant: Tenant, given: Idempotency) -> Answer<'_, Option<MessageId>> {
        self.read(move |reader| reader.first(&tenant, &given))
    }

    fn underway(
        &self,
        tenant: Tenant,
        within: Arc<[ChannelName]>,
        until: Time,
        limit: usize,
    ) -> Answer<'_, Vec<Line>> {
        self.read(move |reader| reader.underway(&tenant, &within, until, limit))
    }

    fn shelve(&self, wishes: Vec<Shelve>) -> Answer<'_, Vec<Shelved>> {
        self.work(move |core, now| wishes.iter().map(|wish| core.shelve(wish, now)).collect())
    }

    fn enlist(&self, wish: Enlist) -> Answer<'_, Result<Vec<Enlisted>, NotDone>> {
        self.work(move |core, now| core.enlist(&wish, now))
    }

    fn feed(&self, feed: Feed) -> Answer<'_, Result<(), NotDone>> {
        self.work(move |core, now| core.feed(&feed, now))
    }

    fn strike(&self, tenant: Tenant, campaign: CampaignName, max: usize) -> Answer<'_, usize> {
        self.work(move |core, _| core.strike(&tenant, &campaign, max))
    }

    fn cut(&self, tenant: Tenant, campaign: CampaignName) -> Answer<'_, bool> {
        self.work(move |core, now| core.cut(&tenant, &campaign, now))
    }

    fn prune(&self, prune: Prune, max: usize, now: Time) -> Answer<'_, Pruned> {
        Box::pin(async move {
            let look = prune.clone();
            let ripe = self.read(move |reader| reader.ripe(&look, max, now)).await?;
            if prune.effect == Effect::Tell || ripe.keys().next().is_none() {
                return Ok(ripe.told());
            }
            self.let_go(prune, ripe).await
        })
    }

    fn lapse(&self, after: Option<MessageKey>, max: usize) -> Answer<'_, Lapsed> {
        self.work(move |core, now| core.lapse(after, max, now))
    }

    fn pseudonyms(&self) -> Pseudonyms {
        self.pseudonyms.clone()
    }

    fn seek(&self, seeker: Seeker, from: Bookmark, max: usize) -> Answer<'_, Sought> {
        self.read(move |reader| reader.seek(&seeker, from, max))
    }

    fn erase(&self, wish: Erase) -> Answer<'_, Erased> {
        self.work(move |core, now| core.erase(&wish, now))
    }

    fn sweep(&self) -> Answer<'_, ()> {
        let asked = self.work(|core, _| {
            core.sweep();
            Ok(())
        });
        Box::pin(async move {
            asked.await?;
            // It was done after the commit that this word came with. If it failed, nothing else has.
            self.work(|core, _| Ok(core.swept())).await?
        })
    }

    fn recipients(&self, roster: Roster) -> Answer<'_, Vec<Recipient>> {
        self.read(move |reader| reader.recipients(&roster))
    }

    fn doc(&self, shelf: Shelf, tenant: Tenant, id: String) -> Answer<'_, Option<Doc>> {
        self.read(move |reader| reader.doc(shelf, &tenant, &id))
    }

    fn docs(&self, wanted: Wanted) -> Answer<'_, Vec<Doc>> {
        self.read(move |reader| reader.docs(&wanted))
    }

    fn block(&self, place: Place, block: Block, by: Actor) -> Answer<'_, ()> {
        self.work(move |core, now| core.block(&place, block.clone(), &by, now))
    }

    fn unblock(&self, place: Place, by: Actor) -> Answer<'_, bool> {
        self.work(move |core, now| core.unblock(&place, &by, now))
    }

    fn examine(&self, finding: Finding) -> Answer<'_, ()> {
        self.work(move |core, now| core.examine(&finding, now))
    }

    fn blocks(&self) -> Answer<'_, Vec<(Place, Block)>> {
        self.read(Reading::blocks)
    }

    fn pause(&self, why: String, by: Actor) -> Answer<'_, ()> {
        self.work(move |core, now| core.pause(&Pause { since: now, why: why.clone() }, &by))
    }

    fn resume(&self, by: Actor) -> Answer<'_, bool> {
        self.work(move |core, now| core.resume(&by, now))
    }

    fn paused(&self) -> Answer<'_, Option<Pause>> {
        self.read(Reading::paused)
    }

    fn put_template(
        &self,
        tenant: Tenant,
        name: TemplateName,
        template: Template,
        by: Actor,
    ) -> Answer<'_, Put> {
        self.work(move |core, now| core.put_template(&tenant, &name, template.clone(), &by, now))
    }

    fn template(
        &self,
        tenant: Tenant,
        name: TemplateName,
        version: Option<u32>,
    ) -> Answer<'_, Option<TemplateVersion>> {
        self.read(move |reader| reader.template(&tenant, &name, version))
    }

    fn templates(
        &self,
        tenant: Tenant,
        after: Option<TemplateName>,
        limit: usize,
    ) -> Answer<'_, Vec<TemplateVersion>> {
        self.read(move |reader| reader.templates(&tenant, after.as_ref(), limit))
    }

    fn template_versions(
        &self,
        tenant: Tenant,
        name: TemplateName,
        before: Option<u32>,
        limit: usize,
    ) -> Answer<'_, Vec<TemplateVersion>> {
        self.read(move |reader| reader.template_versions(&tenant, &name, before, limit))
    }

    fn blob(&self, digest: Digest) -> Answer<'_, Option<Arc<[u8]>>> {
        self.read(move |reader| reader.blob(digest))
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

    fn stats(&self, wanted: StatsWanted) -> Answer<'_, Vec<Measured>> {
        self.read(move |reader| reader.stats(&wanted))
    }

    fn learnt(&self, tenant: Option<Tenant>, now: Time) -> Answer<'_, Vec<Learnt>> {
        self.read(move |reader| reader.learnt(tenant.as_ref(), now))
    }

    fn backlog(&self, now: Time) -> Answer<'_, Vec<Backlog>> {
        self.read(move |reader| reader.backlog(now))
    }

    fn audit(&self, from: u64, max: usize) -> Answer<'_, Vec<(u64, Record)>> {
        self.read(move |reader| reader.audit(from, max))
    }

    fn audit_of(
        &self,
        tenant: Tenant,
        id: MessageId,
        before: u64,
        max: usize,
    ) -> Answer<'_, Option<Vec<(u64, Record)>>> {
        self.read(move |reader| reader.audit_of(&tenant, id, before, max))
    }

    fn chain(&self, from: u64, max: usize) -> Answer<'_, Vec<audit::Block>> {
        self.read(move |reader| reader.chain(from, max))
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
        self.ask(Job::Close)
    }
}

/// About what a draft weighs in memory and on disk.
fn weight_of(draft: &Draft) -> usize {
    let body = &draft.body;
    let json = [&body.content, &body.payload, &body.metadata];
    let texts: usize = json.into_iter().flatten().map(|json| json.text().len()).sum();
    512 + body.to.len() + texts + draft.blobs.iter().map(|blob| blob.bytes.len()).sum::<usize>()
}
