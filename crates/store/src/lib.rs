//! The durable truth: one trait, and its implementations.
//!
//! Every verb is atomic and takes batches; no transaction, row or SQL fragment crosses this seam. Every change of
//! a message's state is written together with its audit record.

pub mod anchor;
pub mod audit;
mod board;
pub mod checking;
mod claiming;
pub mod core;
mod courses;
pub mod dead;
pub mod erase;
pub mod glance;
pub mod home;
pub mod learning;
pub mod memory;
pub mod meter;
pub mod moving;
mod pause;
pub mod postgres;
pub mod prune;
pub mod roster;
mod rows;
pub mod shelf;
pub mod shell;
pub mod sqlite;
pub mod stats;
pub mod suppression;
mod tracks;
mod traffic;
pub mod transition;
pub mod vault;
mod walls;

pub use pause::Pause;
pub use stats::{Backlog, By, Counted, Measured, StatsWanted, Tally};
pub use traffic::Rates;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use pombo_kernel::attachment::Digest;
use pombo_kernel::block::{Block, BlockChange, Probe};
use pombo_kernel::breaker::{Limits, Sign};
use pombo_kernel::classify::Scope;
use pombo_kernel::delivery::{Delivery, LastWord, Report};
use pombo_kernel::erasure::{Bookmark, Pseudonyms, Seeker};
use pombo_kernel::flow::Rate;
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{
    Actor, Attempt, AttemptFailure, ClaimKey, Draft, Idempotency, Message, Progress, State, StateName,
};
use pombo_kernel::name::{CampaignName, ChannelName, LaneName, TemplateName, Tenant};
use pombo_kernel::template::Template;
use pombo_kernel::time::Time;
use tokio::sync::watch;

use dead::{CauseId, Deed, Edit, Edited, Group, Hastened, Revision, Ruling, Verdicts};
use erase::{Erase, Erased, Sought};
use learning::Learnt;
use prune::{Lapsed, Prune, Pruned};
use roster::{Enlist, Enlisted, Feed, NotDone, Recipient, Roster};
use shelf::{Doc, Shelf, Shelve, Shelved, Wanted};

pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Why the store did not do it: one variant for each way to react.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Too much is waiting to be written. Come back in a moment; nothing was stored.
    #[error("too much is waiting to be written")]
    Overloaded,
    /// It cannot be written or read for now (a full disk, a lost connection). It may come back.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The transaction met another. Nothing was written, and the same again may well succeed.
    #[error("the store was busy with another at the same place: {0}")]
    Again(String),
    /// A read took too long and was ended, so that it keeps neither its reader nor its view of the store. The store is
    /// well: asking for less may help, or asking again.
    #[error("the read took longer than {} s and was ended", shell::READ_LIMIT.as_secs())]
    TooLong,
    /// A write may or may not have reached the disk. Only a new start, reading everything anew, is safe.
    #[error("the store failed: {0}")]
    Broken(String),
    /// The keys that are given do not open it, or it needs none. The hint says what to do.
    #[error("{why}; {hint}")]
    Locked { why: String, hint: String },
    /// Something that was durable cannot be read any more. Nothing was changed; the hint says what can be done.
    #[error("{why}; {hint}")]
    Damaged { why: String, hint: String },
    /// The store is closing.
    #[error("the store is closing")]
    Closed,
}

/// A message was accepted, now or by an earlier request with the same idempotency key.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    pub id: MessageId,
    pub repeat: Repeat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    First,
    /// The same key and request were seen before; this is the message of that time.
    Same,
}

/// The idempotency key belongs to another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub first: MessageId,
}

/// One engine process in one life. A restart is another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub i64);

/// A wish for work.
#[derive(Clone, Debug)]
pub struct Ask {
    pub node: NodeId,
    pub lane: LaneName,
    pub max: usize,
    /// How messages may go through channels, where that is bounded.
    pub rates: Arc<Rates>,
}

/// What became of results, and what takes their places.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnedOver {
    /// One for each settlement.
    pub settled: Vec<Settled>,
    pub claimed: Vec<Claimed>,
}

/// A message that its holder, and nobody else, may send now.
#[derive(Clone, Debug, PartialEq)]
pub struct Claimed {
    pub key: ClaimKey,
    pub message: Arc<Message>,
    pub progress: Progress,
    /// Since when it might have been sent.
    pub due: Time,
    pub claimed_at: Time,
    /// When the first attempt of its round failed that counted, if one did.
    pub failing_since: Option<Time>,
    /// It was let through a block as its probe.
    pub probe: Option<Probe>,
}

/// The result of an attempt, with what was decided about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Settlement {
    pub key: ClaimKey,
    pub attempt: Attempt,
    pub next: Next,
    pub progress: Progress,
    pub block: BlockChange,
    pub vitals: Vitals,
    /// The provider will report on what it took, by the id that it gave.
    pub reported: bool,
    /// By what a campaign draws its wait for the next send: even over all numbers.
    pub chance: u64,
}

/// What an attempt says of whoever took it, or did not, and how that is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vitals {
    pub sign: Sign,
    /// Where the health is kept: with the destination, or with the whole channel.
    pub scope: Scope,
    /// When it counts as down.
    pub limits: Limits,
    /// How many messages a second the provider takes, where it said so.
    pub rate: Option<Rate>,
}

/// What somebody who asked a provider how it is has found.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub place: Place,
    pub block: BlockChange,
    pub vitals: Vitals,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    Done,
    /// The claim is no longer the holder's: nothing was changed.
    Stale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    Done,
    NotFound,
    /// It is in this state, from which nothing can be cancelled.
    TooLate(StateName),
}

/// What became of a provider's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// No message that was sent through the channel has that id, so far as is known yet.
    Unknown,
    /// It went further than what was known.
    Moved { id: MessageId, from: Option<Delivery>, to: Delivery },
    /// As much was known already, or more.
    Kept,
}

/// Where a block stands: a channel, or one destination of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub channel: ChannelName,
    pub destination: Option<Arc<str>>,
}

/// A message with everything that is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Story {
    pub message: Arc<Message>,
    pub state: State,
    pub progress: Progress,
    pub updated_at: Time,
    pub attempts: Vec<Attempt>,
    pub delivery: Option<LastWord>,
    /// 1 as it was accepted, one more with every edit.
    pub version: u32,
    /// What people did to it, in order.
    pub deeds: Vec<Deed>,
}

/// A message as a list shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub message: Arc<Message>,
    pub state: State,
    pub progress: Progress,
    pub updated_at: Time,
    pub last_failure: Option<AttemptFailure>,
    pub delivery: Option<LastWord>,
}

/// Which messages to list. Every given part must match.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    pub tenant: Tenant,
    pub state: Option<StateName>,
    pub channel: Option<ChannelName>,
    pub lane: Option<LaneName>,
    pub kind: Option<String>,
    pub template: Option<String>,
    pub campaign: Option<CampaignName>,
    pub recipient: Option<String>,
    pub reference: Option<String>,
    pub category: Option<String>,
    pub delivery: Option<Delivery>,
    /// Only dead letters have one.
    pub cause: Option<CauseId>,
    /// Any of these channels; whoever asks may see no others.
    pub within: Option<Arc<[ChannelName]>>,
    /// Not of this channel.
    pub without: Option<ChannelName>,
    pub since: Option<Time>,
    pub until: Option<Time>,
}

/// How many messages one page looks at, at most.
pub const PAGE_SCAN: usize = 10_000;

impl Filter {
    /// Whether a message belongs in the list.
    pub fn matches(&self, line: &Line) -> bool {
        let message = &line.message;
        let queue = &message.queue;
        let body = &message.body;
        fn fits<T: PartialEq>(wanted: Option<&T>, got: Option<&T>) -> bool {
            wanted.is_none_or(|wanted| Some(wanted) == got)
        }
        queue.tenant == self.tenant
            && fits(self.state.as_ref(), Some(&line.state.name()))
            && fits(self.channel.as_ref(), Some(&queue.channel))
            && fits(self.lane.as_ref(), Some(&queue.lane))
            && fits(self.kind.as_ref(), body.kind.as_ref())
            && fits(self.template.as_ref(), body.template.as_ref())
            && fits(self.campaign.as_ref(), queue.campaign.as_ref())
            && fits(self.recipient.as_ref(), Some(&body.to))
            && fits(self.reference.as_ref(), body.reference.as_ref())
            && fits(self.category.as_ref(), line.last_failure.as_ref().map(|failure| &failure.category))
            && fits(self.delivery.as_ref(), line.delivery.as_ref().map(|word| &word.state))
            && self.cause.is_none_or(|wanted| dead::cause_of(line).is_some_and(|cause| cause.id == wanted))
            && self.without.as_ref() != Some(&queue.channel)
            && self.within.as_ref().is_none_or(|within| within.contains(&queue.channel))
            && self.since.is_none_or(|since| message.created_at() >= since)
            && self.until.is_none_or(|until| message.created_at() < until)
    }
}

/// A page of a list, newest first. It may be short, even empty, and still have a next one: a page looks at a
/// bounded number of messages, so that no filter can hold up the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    pub lines: Vec<Line>,
    /// Messages older than this one come next.
    pub next: Option<MessageKey>,
}

/// One version of a template, as it was put.
#[derive(Clone, Debug, PartialEq)]
pub struct TemplateVersion {
    pub name: TemplateName,
    /// From 1 on, without gaps.
    pub version: u32,
    pub template: Template,
    pub created_at: Time,
    pub by: Actor,
}

/// What a template became that was put: a version of its own, or the one that says the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Put {
    pub stored: TemplateVersion,
    pub repeat: Repeat,
}

/// The store, as doors and engine see it.
pub trait Store: Send + Sync + fmt::Debug {
    /// Makes messages durable, each on its own. An answer means that they survive a power cut.
    fn accept(&self, drafts: Vec<Draft>) -> Answer<'_, Vec<Result<Accepted, Conflict>>>;

    /// Waits until something of the lane is due, then leases up to `ask.max` messages, by fair turns between
    /// queues, and within a queue by priority and due time.
    ///
    /// The lease is durable before the answer, so that after a crash the messages in doubt are exactly known.
    /// Empty when the store stops the node's claims. Do not drop the future: what it claimed would wait for
    /// the node's lease to end.
    fn claim(&self, ask: Ask) -> Answer<'_, Vec<Claimed>>;

    /// Answers the node's claims with nothing, those that wait and those that may still come.
    fn stop_claims(&self, node: NodeId) -> Answer<'_, ()>;

    /// Says that the node is alive and its claims hold until then, or longer if it has said so before.
    fn heartbeat(&self, node: NodeId, lease_until: Time) -> Answer<'_, ()>;

    /// Takes over up to `max` messages whose holder is gone. Each is in doubt: perhaps sent, perhaps not.
    fn take_over(&self, node: NodeId, max: usize) -> Answer<'_, Vec<Claimed>>;

    /// Records results and, in the same commit, claims what may take their places. A settlement whose claim is no longer
    /// valid changes nothing; an ask that finds nothing due gets nothing, at once.
    ///
    /// A slot is free once its result is durable. Were its next message claimed after that, every message would wait for
    /// one commit more.
    fn turn_over(&self, settlements: Vec<Settlement>, asks: Vec<Ask>) -> Answer<'_, TurnedOver>;

    /// Records results, and leaves it at that.
    fn settle(&self, settlements: Vec<Settlement>) -> Answer<'_, Vec<Settled>> {
        let turned_over = self.turn_over(settlements, Vec::new());
        Box::pin(async move { Ok(turned_over.await?.settled) })
    }

    /// Gives back messages that were not sent, uncharged.
    fn release(&self, claims: Vec<ClaimKey>) -> Answer<'_, Vec<Settled>>;

    /// Ends a claimed message that was not sent, since its recipient is on the suppression list, for that reason: it is
    /// cancelled, and its campaign waits no time for it.
    fn leave_out(&self, claim: ClaimKey, reason: String) -> Answer<'_, Settled>;

    /// Takes in what a provider says of messages that were sent through the channel, each found by the provider's
    /// id for it. A delivery only moves forward, so that the same report again, or an earlier one, changes nothing.
    fn report(&self, channel: ChannelName, reports: Vec<Report>) -> Answer<'_, Vec<Reported>>;

    /// Cancels a message that still waits.
    fn cancel(&self, tenant: Tenant, id: MessageId, by: Actor) -> Answer<'_, Cancelled>;

    /// Makes a message that waits due now. Blocks in front of it, and others of its ordering key, still hold it up.
    fn hasten(&self, tenant: Tenant, id: MessageId, by: Actor) -> Answer<'_, Hastened>;

    /// Does with dead letters what an operator decided. One that is no longer dead is left alone.
    fn rule(&self, ruling: Ruling) -> Answer<'_, Verdicts>;

    /// Changes what a dead letter says, and keeps what it said.
    fn edit(&self, edit: Edit) -> Answer<'_, Edited>;

    /// What a message said before each edit, the oldest first.
    fn revisions(&self, tenant: Tenant, id: MessageId) -> Answer<'_, Vec<Revision>>;

    /// Dead letters by cause, the largest group first, at most that many groups.
    fn groups(&self, tenant: Tenant, limit: usize) -> Answer<'_, Vec<Group>>;

    /// Messages as a list shows them, those that there are, in the order of the ids.
    fn lines(&self, ids: Vec<MessageId>) -> Answer<'_, Vec<Line>>;

    /// The message that the same request became when it came before under the same key, if it did.
    fn first(&self, tenant: Tenant, given: Idempotency) -> Answer<'_, Option<MessageId>>;

    /// A tenant's messages in these channels that are to be sent by that time: those that are being sent, and then those
    /// that wait and are due, whoever has waited longest first; at most that many.
    fn underway(
        &self,
        tenant: Tenant,
        within: Arc<[ChannelName]>,
        until: Time,
        limit: usize,
    ) -> Answer<'_, Vec<Line>>;

    /// Puts, changes or removes documents, each on its own.
    fn shelve(&self, wishes: Vec<Shelve>) -> Answer<'_, Vec<Shelved>>;

    /// Adds lines to a campaign's list, in the order given: all of them, or none where the campaign does not take any.
    fn enlist(&self, wish: Enlist) -> Answer<'_, Result<Vec<Enlisted>, NotDone>>;

    /// Makes messages for recipients who have none yet. What each recipient became is written with the messages.
    fn feed(&self, feed: Feed) -> Answer<'_, Result<(), NotDone>>;

    /// Takes up to `max` recipients off a list whose campaign is gone; how many there were. None while there is one.
    fn strike(&self, tenant: Tenant, campaign: CampaignName, max: usize) -> Answer<'_, usize>;

    /// Takes a campaign's message from its holder, as if the holder were gone, and pauses the campaign; false if it is
    /// not past its hard limit.
    fn cut(&self, tenant: Tenant, campaign: CampaignName) -> Answer<'_, bool>;

    /// Removes up to `max` messages that are given up by now, with everything that is known of them but the audit, and
    /// looks at ten times as many at most. What has not ended is never removed.
    fn prune(&self, prune: Prune, max: usize, now: Time) -> Answer<'_, Pruned>;

    /// Lets go up to `max` idempotency keys whose messages ended long enough ago
    /// ([`KEYS_KEPT`](pombo_kernel::retention::KEYS_KEPT)), of messages newer than `after`.
    fn lapse(&self, after: Option<MessageKey>, max: usize) -> Answer<'_, Lapsed>;

    /// Makes the hashes that stand for persons in this store.
    fn pseudonyms(&self) -> Pseudonyms;

    /// What of a person is in one room, from a bookmark on; `max` rows are looked at.
    fn seek(&self, seeker: Seeker, from: Bookmark, max: usize) -> Answer<'_, Sought>;

    /// Erases what was found. What waits is cancelled first, and what is being sent is left for later. The audit stays as
    /// it is.
    fn erase(&self, wish: Erase) -> Answer<'_, Erased>;

    /// Sees to it that no file of the store has bytes of what was removed before. Nothing is written meanwhile, which
    /// may take minutes. A database has files of its own, which this leaves alone.
    fn sweep(&self) -> Answer<'_, ()>;

    fn recipients(&self, roster: Roster) -> Answer<'_, Vec<Recipient>>;

    fn doc(&self, shelf: Shelf, tenant: Tenant, id: String) -> Answer<'_, Option<Doc>>;

    fn docs(&self, wanted: Wanted) -> Answer<'_, Vec<Doc>>;

    /// Puts a block in front of a place.
    fn block(&self, place: Place, block: Block, by: Actor) -> Answer<'_, ()>;

    /// Lifts it; false if there was none.
    fn unblock(&self, place: Place, by: Actor) -> Answer<'_, bool>;

    /// Takes into account how a provider was found when it was asked.
    fn examine(&self, finding: Finding) -> Answer<'_, ()>;

    fn blocks(&self) -> Answer<'_, Vec<(Place, Block)>>;

    /// Sends nothing from now on, for that reason: whatever is claimed is still settled, and messages are accepted.
    fn pause(&self, why: String, by: Actor) -> Answer<'_, ()>;

    /// Lets everything go on; false if nothing was paused.
    fn resume(&self, by: Actor) -> Answer<'_, bool>;

    /// Why nothing is sent, if nothing is.
    fn paused(&self) -> Answer<'_, Option<Pause>>;

    /// Adds a version to a template, unless the latest one says the same. Earlier versions stay as they are.
    fn put_template(
        &self,
        tenant: Tenant,
        name: TemplateName,
        template: Template,
        by: Actor,
    ) -> Answer<'_, Put>;

    /// A version of a template, the latest if none is named.
    fn template(
        &self,
        tenant: Tenant,
        name: TemplateName,
        version: Option<u32>,
    ) -> Answer<'_, Option<TemplateVersion>>;

    /// The latest version of each template, by name, after that one.
    fn templates(
        &self,
        tenant: Tenant,
        after: Option<TemplateName>,
        limit: usize,
    ) -> Answer<'_, Vec<TemplateVersion>>;

    /// The versions of one template, the newest first, older than `before`.
    fn template_versions(
        &self,
        tenant: Tenant,
        name: TemplateName,
        before: Option<u32>,
        limit: usize,
    ) -> Answer<'_, Vec<TemplateVersion>>;

    /// An attachment, by its digest.
    fn blob(&self, digest: Digest) -> Answer<'_, Option<Arc<[u8]>>>;

    /// One message and its history.
    fn story(&self, tenant: Tenant, id: MessageId) -> Answer<'_, Option<Story>>;

    /// A page of messages, newest first, older than `before`.
    fn page(&self, filter: Filter, before: Option<MessageKey>, limit: usize) -> Answer<'_, Page>;

    /// Counts of all time.
    fn tallies(&self) -> Answer<'_, Vec<Tally>>;

    /// What was counted in some hours, by hour or piece, tenant, channel, what and detail.
    fn stats(&self, wanted: StatsWanted) -> Answer<'_, Vec<Measured>>;

    /// What retries have taught in the last weeks, by channel, everybody's if no tenant is named. Outages, which concern
    /// all, are the default tenant's.
    fn learnt(&self, tenant: Option<Tenant>, now: Time) -> Answer<'_, Vec<Learnt>>;

    /// How much waits by now, by tenant, lane and channel. What it costs does not grow with what waits.
    fn backlog(&self, now: Time) -> Answer<'_, Vec<Backlog>>;

    /// Audit records from a position on, which is also the event id.
    fn audit(&self, from: u64, max: usize) -> Answer<'_, Vec<(u64, audit::Record)>>;

    /// Audit records of one message before a position, the newest first; none if the tenant has no such message, or has it
    /// no more.
    ///
    /// They are found by what is known of the message, so that it makes no difference how many others there are. Few kinds
    /// are not always found so: a claim that was given back unsent, and reports between the first and the last, if thousands of
    /// records lie around them.
    fn audit_of(
        &self,
        tenant: Tenant,
        id: MessageId,
        before: u64,
        max: usize,
    ) -> Answer<'_, Option<Vec<(u64, audit::Record)>>>;

    /// Blocks of the audit chain as they are kept, by their sequence from that one on: at most `max`, and a few megabytes
    /// of them. None at the end.
    fn chain(&self, from: u64, max: usize) -> Answer<'_, Vec<audit::Block>>;

    /// Checks the audit chain from its start, piece by piece; what it says of the first place where it does not hold.
    fn verify(&self) -> Answer<'_, audit::Verified> {
        Box::pin(async move {
            let mut walk = audit::Walk::default();
            while walk.on(&self.chain(walk.tip.sequence, usize::MAX).await?) {}
            Ok(walk.verified())
        })
    }

    /// The position after the last committed record; changes wake whoever follows events.
    fn watch(&self) -> watch::Receiver<u64>;

    /// Set once, when the store can no longer be trusted in this process.
    fn broken(&self) -> watch::Receiver<Option<String>>;

    /// Whether the store can be written, as far as the last try told.
    fn health(&self) -> Result<(), StoreError>;

    /// Writes what is waiting and closes. Verbs called later answer `Closed`.
    fn close(&self) -> Answer<'_, ()>;
}
