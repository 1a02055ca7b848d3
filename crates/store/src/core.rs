//! The synchronous heart of a store: what one writer does, one call after another, and then commits.
//!
//! A core has no clock, no thread and no chance of its own, so that a simulator can drive the very code that
//! runs in production. The [`shell`](crate::shell) gives it a thread, a clock and groups of callers.
//!
//! Rules that every core keeps, so that all stores mean the same:
//!
//! - A claim picks, among the lane's queues that have something due and no shut gate in front, the one with the
//!   lowest `max(its pass, the lane's pass)`, among equals the one that took something longest ago, and of those that
//!   never did the older; takes up to
//!   [`BITE`](pombo_kernel::turns::BITE) of its heads; pays for them; and goes on until the ask is met or nothing
//!   is left. The lane's pass is where its last bite began. Heads go by priority, due time, then age.
//! - A claim does not look at deadlines: whoever drives a core calls `expire` first, and claims only when that
//!   left nothing to expire.
//! - At each priority what was tried before goes first, as far as the destination's budget for retries reaches
//!   ([`Budget`](pombo_kernel::flow::Budget)), then what is new; retries beyond the budget go last of all. A bounded channel, and a destination that recovers,
//!   let through what their flow has room for ([`Flow`](pombo_kernel::flow::Flow)).
//! - Every settlement tells how the destination is; when it counts as down, a breaker stands in front of it. A hold or
//!   a breaker that is lifted by a probe leaves a ramp behind.
//! - A message with an ordering key waits outside the queues while another of its key is there.
//! - Behind a hold or a breaker that is ready to be probed, one message at a time passes, over all queues behind it.
//! - A campaign has one message in flight. Its claim and its settlement change the campaign's document and, where the
//!   channel has rules for campaigns, the line's; a queue whose campaign or line does not let anything go is shut.
//! - A claim's id is greater than those of earlier claims, and never given out twice.

use std::sync::Arc;

use pombo_kernel::attachment::Digest;
use pombo_kernel::block::Block;
use pombo_kernel::delivery::Report;
use pombo_kernel::erasure::{Bookmark, Pseudonyms, Seeker};
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::message::{Actor, ClaimKey, Draft, Idempotency};
use pombo_kernel::name::{CampaignName, ChannelName, LaneName, TemplateName, Tenant};
use pombo_kernel::template::Template;
use pombo_kernel::time::Time;

use crate::dead::{Edit, Edited, Group, Hastened, Revision, Ruling, Verdicts};
use crate::erase::{Erase, Erased, Sought};
use crate::learning::Learnt;
use crate::meter::Counts;
use crate::prune::{Lapsed, Prune, Pruned, Ripe};
use crate::roster::{Enlist, Enlisted, Feed, NotDone, Recipient, Roster};
use crate::shelf::{Doc, Shelf, Shelve, Shelved, Wanted};
use crate::{
    Accepted, Ask, Backlog, Cancelled, Claimed, Conflict, Filter, Finding, Line, Measured, NodeId, Page,
    Pause, Place, Put, Reported, Settled, Settlement, StatsWanted, StoreError, Story, Tally, TemplateVersion,
    audit,
};

/// One writer's verbs. Nothing is durable, and nothing may be told to anybody, before `commit`.
///
/// After any error the core is of no more use until `reopen`, which goes back to what is durable.
pub trait Core: Send + 'static {
    type Reader: Reading;

    fn accept(&mut self, draft: Draft, now: Time) -> Result<Result<Accepted, Conflict>, StoreError>;
    /// The same for many. A core for which each word costs a journey says all of them at once.
    fn accept_all(
        &mut self,
        drafts: &[Draft],
        now: Time,
    ) -> Result<Vec<Result<Accepted, Conflict>>, StoreError> {
        drafts.iter().map(|draft| self.accept(draft.clone(), now)).collect()
    }
    /// The same for callers whose group is not begun anew: a core that never asks for that takes the drafts out, so that
    /// nothing is copied.
    fn accept_group(
        &mut self,
        drafts: &mut Vec<Draft>,
        now: Time,
    ) -> Result<Vec<Result<Accepted, Conflict>>, StoreError> {
        self.accept_all(drafts, now)
    }
    fn claim(&mut self, ask: &Ask, now: Time) -> Result<Vec<Claimed>, StoreError>;
    fn heartbeat(&mut self, node: NodeId, lease_until: Time) -> Result<(), StoreError>;
    /// Claims whose node has no lease at `now`, oldest first.
    fn take_over(&mut self, node: NodeId, max: usize, now: Time) -> Result<Vec<Claimed>, StoreError>;
    /// Takes a message from its holder as if the holder were gone, so that it is taken over again.
    fn disown(&mut self, key: ClaimKey);
    fn settle(&mut self, settlement: Settlement, now: Time) -> Result<Settled, StoreError>;
    fn settle_all(&mut self, settlements: &[Settlement], now: Time) -> Result<Vec<Settled>, StoreError> {
        settlements.iter().map(|one| self.settle(one.clone(), now)).collect()
    }
    fn release(&mut self, key: ClaimKey, now: Time) -> Result<Settled, StoreError>;
    fn release_all(&mut self, keys: &[ClaimKey], now: Time) -> Result<Vec<Settled>, StoreError> {
        keys.iter().map(|key| self.release(*key, now)).collect()
    }
    /// Ends a claimed message that was not sent: its recipient is on the suppression list, for that reason.
    fn leave_out(&mut self, key: ClaimKey, reason: &str, now: Time) -> Result<Settled, StoreError>;
    fn report(&mut self, channel: &ChannelName, report: &Report, now: Time) -> Result<Reported, StoreError>;
    fn report_all(
        &mut self,
        channel: &ChannelName,
        reports: &[Report],
        now: Time,
    ) -> Result<Vec<Reported>, StoreError> {
        reports.iter().map(|report| self.report(channel, report, now)).collect()
    }
    fn cancel(
        &mut self,
        tenant: &Tenant,
        id: MessageId,
        by: &Actor,
        now: Time,
    ) -> Result<Cancelled, StoreError>;
    /// Makes a message that waits due now.
    fn hasten(
        &mut self,
        tenant: &Tenant,
        id: MessageId,
        by: &Actor,
        now: Time,
    ) -> Result<Hastened, StoreError>;
    fn rule(&mut self, ruling: &Ruling, now: Time) -> Result<Verdicts, StoreError>;
    fn edit(&mut self, edit: &Edit, now: Time) -> Result<Edited, StoreError>;
    fn shelve(&mut self, wish: &Shelve, now: Time) -> Result<Shelved, StoreError>;
    fn enlist(&mut self, wish: &Enlist, now: Time) -> Result<Result<Vec<Enlisted>, NotDone>, StoreError>;
    fn feed(&mut self, feed: &Feed, now: Time) -> Result<Result<(), NotDone>, StoreError>;
    fn strike(&mut self, tenant: &Tenant, campaign: &CampaignName, max: usize) -> Result<usize, StoreError>;
    fn cut(&mut self, tenant: &Tenant, campaign: &CampaignName, now: Time) -> Result<bool, StoreError>;
    /// Removes what a look found to be given up, as far as it has not moved since.
    fn prune(&mut self, prune: &Prune, ripe: &Ripe, now: Time) -> Result<Pruned, StoreError>;
    /// See [`Store::lapse`](crate::Store::lapse).
    fn lapse(&mut self, after: Option<MessageKey>, max: usize, now: Time) -> Result<Lapsed, StoreError>;
    /// See [`Store::pseudonyms`](crate::Store::pseudonyms).
    fn pseudonyms(&self) -> Pseudonyms;
    /// See [`Store::erase`](crate::Store::erase).
    fn erase(&mut self, wish: &Erase, now: Time) -> Result<Erased, StoreError>;
    /// Has the next commit be followed by a sweep: see [`Store::sweep`](crate::Store::sweep). One that has no files of its
    /// own has nothing to do.
    fn sweep(&mut self) {}
    /// What came of the last sweep.
    fn swept(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    /// Fails up to `max` messages that wait past their deadline; how many there were. One that is being sent is
    /// left to its settlement.
    fn expire(&mut self, max: usize, now: Time) -> Result<usize, StoreError>;
    fn block(&mut self, place: &Place, block: Block, by: &Actor, now: Time) -> Result<(), StoreError>;
    fn unblock(&mut self, place: &Place, by: &Actor, now: Time) -> Result<bool, StoreError>;
    fn examine(&mut self, finding: &Finding, now: Time) -> Result<(), StoreError>;
    /// Lets nothing be claimed and nothing be taken over, from now on and by whoever opens the store later.
    fn pause(&mut self, pause: &Pause, by: &Actor) -> Result<(), StoreError>;
    /// Lets everything go on; false if nothing was paused.
    fn resume(&mut self, by: &Actor, now: Time) -> Result<bool, StoreError>;
    fn put_template(
        &mut self,
        tenant: &Tenant,
        name: &TemplateName,
        template: Template,
        by: &Actor,
        now: Time,
    ) -> Result<Put, StoreError>;

    /// Makes everything since the last commit durable, with its audit block; the position after its last
    /// record. `entropy` salts the block.
    fn commit(&mut self, now: Time, entropy: &[u8; 32]) -> Result<u64, StoreError>;

    /// Tells, once, what the last commit added to the counters. One that nobody watches has nothing to tell.
    fn tell(&mut self, _counts: &Counts) {}

    /// Called once, before it serves: time for what makes later commits shorter. What cannot be had is done without.
    fn warm_up(&mut self) {}

    /// Others may have written something that this core should know. One that is alone has nothing to learn.
    fn nudge(&mut self) {}

    /// Called before each group: the core may learn what others wrote.
    fn look(&mut self, _now: Time) -> Result<(), StoreError> {
        Ok(())
    }

    /// Forgets what was not committed and reads everything anew.
    fn reopen(&mut self) -> Result<(), StoreError>;

    /// Writes something durable that means nothing, to see that it can.
    fn check(&mut self, now: Time) -> Result<(), StoreError>;

    /// When something of the lane can next be claimed, if nothing else happens; a time in the past if now.
    fn next_due(&mut self, lane: &LaneName, now: Time) -> Option<Time>;
    /// When the next deadline passes.
    fn next_deadline(&self) -> Option<Time>;

    fn reader(&self) -> Result<Self::Reader, StoreError>;
}

/// Tells a read, whenever it asks, whether it has taken too long.
pub type Over = Box<dyn FnMut() -> bool + Send>;

/// What can be read beside the writer: always a committed state.
pub trait Reading: Send + 'static {
    /// From now on a read is ended, with [`StoreError::TooLong`], as soon as `over` says so. One whose server ends what
    /// takes too long has nobody to ask.
    fn end_when(&mut self, _over: Over) {}
    /// Nobody ends its reads any more, and nothing is left of the last one: no view is held, however it came to its end.
    fn rest(&mut self) {}
    fn story(&mut self, tenant: &Tenant, id: MessageId) -> Result<Option<Story>, StoreError>;
    fn page(&mut self, filter: &Filter, before: Option<MessageKey>, limit: usize)
    -> Result<Page, StoreError>;
    /// Those of the messages that there are, whoever's, in the order of the ids.
    fn lines(&mut self, ids: &[MessageId]) -> Result<Vec<Line>, StoreError>;
    /// See [`Store::first`](crate::Store::first).
    fn first(&mut self, tenant: &Tenant, given: &Idempotency) -> Result<Option<MessageId>, StoreError>;
    /// See [`Store::underway`](crate::Store::underway).
    fn underway(
        &mut self,
        tenant: &Tenant,
        within: &[ChannelName],
        until: Time,
        limit: usize,
    ) -> Result<Vec<Line>, StoreError>;
    fn revisions(&mut self, tenant: &Tenant, id: MessageId) -> Result<Vec<Revision>, StoreError>;
    fn groups(&mut self, tenant: &Tenant, limit: usize) -> Result<Vec<Group>, StoreError>;
    fn doc(&mut self, shelf: Shelf, tenant: &Tenant, id: &str) -> Result<Option<Doc>, StoreError>;
    fn docs(&mut self, wanted: &Wanted) -> Result<Vec<Doc>, StoreError>;
    fn recipients(&mut self, roster: &Roster) -> Result<Vec<Recipient>, StoreError>;
    /// See [`Store::seek`](crate::Store::seek).
    fn seek(&mut self, seeker: &Seeker, from: Bookmark, max: usize) -> Result<Sought, StoreError>;
    fn tallies(&mut self) -> Result<Vec<Tally>, StoreError>;
    fn stats(&mut self, wanted: &StatsWanted) -> Result<Vec<Measured>, StoreError>;
    fn learnt(&mut self, tenant: Option<&Tenant>, now: Time) -> Result<Vec<Learnt>, StoreError>;
    fn backlog(&mut self, now: Time) -> Result<Vec<Backlog>, StoreError>;
    fn audit(&mut self, from: u64, max: usize) -> Result<Vec<(u64, audit::Record)>, StoreError>;
    /// See [`Store::audit_of`](crate::Store::audit_of).
    fn audit_of(
        &mut self,
        tenant: &Tenant,
        id: MessageId,
        before: u64,
        max: usize,
    ) -> Result<Option<Vec<(u64, audit::Record)>>, StoreError>;
    /// See [`Store::chain`](crate::Store::chain).
    fn chain(&mut self, from: u64, max: usize) -> Result<Vec<audit::Block>, StoreError>;
    /// Checks the whole audit chain, piece by piece: in short reads, since it only grows at its end.
    fn verify(&mut self) -> Result<audit::Verified, StoreError> {
        let mut walk = audit::Walk::default();
        while walk.on(&self.chain(walk.tip.sequence, usize::MAX)?) {}
        Ok(walk.verified())
    }
    /// Messages that are given up: at most so many, found among ten times as many.
    fn ripe(&mut self, prune: &Prune, max: usize, now: Time) -> Result<Ripe, StoreError>;
    fn blocks(&mut self) -> Result<Vec<(Place, Block)>, StoreError>;
    fn paused(&mut self) -> Result<Option<Pause>, StoreError>;
    fn template(
        &mut self,
        tenant: &Tenant,
        name: &TemplateName,
        version: Option<u32>,
    ) -> Result<Option<TemplateVersion>, StoreError>;
    fn templates(
        &mut self,
        tenant: &Tenant,
        after: Option<&TemplateName>,
        limit: usize,
    ) -> Result<Vec<TemplateVersion>, StoreError>;
    fn template_versions(
        &mut self,
        tenant: &Tenant,
        name: &TemplateName,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<TemplateVersion>, StoreError>;
    fn blob(&mut self, digest: Digest) -> Result<Option<Arc<[u8]>>, StoreError>;
}
