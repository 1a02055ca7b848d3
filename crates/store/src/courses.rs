//! What claims and settlements do to campaigns and lines, whatever a store keeps them in.
//!
//! Their documents are changed in the transaction that sends or settles, and the board knows what they say.

use std::collections::HashSet;

use pombo_kernel::campaign::line::Line;
use pombo_kernel::campaign::recipient::{Listed, Standing};
use pombo_kernel::campaign::{Campaign, End, Flight, Turn};
use pombo_kernel::id::MessageId;
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{ClaimId, Draft, Message, QueueName};
use pombo_kernel::name::{CampaignName, Tenant};
#[cfg(feature = "planted")]
use pombo_kernel::planted;
use pombo_kernel::time::Time;

use crate::core::Core;
use crate::roster::{self, Enlist, Enlisted, Feed, NotDone, Serving};
use crate::shelf::{Doc, Leaf, Shelf};
use crate::walls::Walls;
use crate::{Conflict, Settlement, StoreError};

/// What became of a recipient who was pending.
pub(crate) struct Placed {
    pub(crate) number: u64,
    pub(crate) standing: Standing,
    pub(crate) message: Option<MessageId>,
    pub(crate) reason: Option<String>,
}

/// A store that keeps campaigns and lines as documents.
pub(crate) trait Courses: Walls + Core {
    /// A document as it stands. Nobody else changes it before the commit.
    fn locked_doc(&mut self, shelf: Shelf, tenant: &Tenant, id: &str) -> Result<Option<Doc>, StoreError>;

    /// Writes a document in the stead of whatever is there.
    fn put_doc(&mut self, shelf: Shelf, doc: &Doc) -> Result<(), StoreError>;

    /// Adds lines to a list from that number on; what each became. Those that repeat others take no number.
    fn insert_recipients(
        &mut self,
        tenant: &Tenant,
        campaign: &CampaignName,
        from: u64,
        lines: &[Listed],
    ) -> Result<Vec<Enlisted>, StoreError>;

    /// Those of the numbers whose recipients are pending, in order.
    fn pending_among(
        &mut self,
        tenant: &Tenant,
        campaign: &CampaignName,
        numbers: &[u64],
    ) -> Result<Vec<u64>, StoreError>;

    /// Makes messages, which have no idempotency key and so meet no other.
    fn make_messages(&mut self, drafts: &[Draft], now: Time) -> Result<Vec<MessageId>, StoreError> {
        let met = |conflict: Conflict| StoreError::Broken(format!("a campaign met {}", conflict.first));
        let accepted = self.accept_all(drafts, now)?;
        accepted.into_iter().map(|accepted| accepted.map(|it| it.id).map_err(met)).collect()
    }

    /// Writes down what became of recipients who were pending.
    fn place_recipients(
        &mut self,
        tenant: &Tenant,
        campaign: &CampaignName,
        placed: &[Placed],
    ) -> Result<(), StoreError>;

    /// Notes where the recipient stands whose message this is, and why, where the message does not say.
    fn mark_recipient(
        &mut self,
        message: &Message,
        standing: Standing,
        reason: Option<&str>,
    ) -> Result<(), StoreError>;

    /// Changes the campaign of a queue, if it has one.
    fn change_campaign(
        &mut self,
        queue: &QueueName,
        now: Time,
        change: impl FnOnce(&mut Campaign) -> Option<Turn>,
    ) -> Result<(), StoreError> {
        let Some(name) = &queue.campaign else { return Ok(()) };
        let Ok((doc, mut campaign)) = self.locked_campaign(&queue.tenant, name)? else { return Ok(()) };
        if let Some(turn) = change(&mut campaign) {
            self.record(roster::turned(name.as_str(), &queue.tenant, &campaign, &turn, now));
        }
        self.put_campaign(doc, name, campaign, now)
    }

    /// A campaign as it stands, with its document.
    fn locked_campaign(
        &mut self,
        tenant: &Tenant,
        name: &CampaignName,
    ) -> Result<Result<(Doc, Campaign), NotDone>, StoreError> {
        let doc = self.locked_doc(Shelf::Campaign, tenant, name.as_str())?;
        let found = doc.and_then(|doc| roster::read(&doc).map(|campaign| (doc, campaign)));
        Ok(found.ok_or(NotDone::NotFound))
    }

    fn put_campaign(
        &mut self,
        doc: Doc,
        name: &CampaignName,
        campaign: Campaign,
        now: Time,
    ) -> Result<(), StoreError> {
        let doc = Doc { version: doc.version + 1, updated_at: now, leaf: roster::leaf(&campaign), ..doc };
        self.put_doc(Shelf::Campaign, &doc)?;
        self.board().set_course(&doc.tenant, name, Some(campaign), now);
        Ok(())
    }

    fn enlist_lines(
        &mut self,
        wish: &Enlist,
        now: Time,
    ) -> Result<Result<Vec<Enlisted>, NotDone>, StoreError> {
        let (tenant, name) = (&wish.tenant, &wish.campaign);
        let (doc, mut campaign) = match self.locked_campaign(tenant, name)? {
            Ok(found) => found,
            Err(not) => return Ok(Err(not)),
        };
        if let Err(refused) = campaign.can_enlist() {
            return Ok(Err(NotDone::Refused(refused)));
        }
        let became = self.insert_recipients(tenant, name, campaign.next_number(), &wish.lines)?;
        let counts = roster::counted(&wish.lines, &became);
        campaign.enlisted(counts);
        self.record(roster::listed(name, tenant, &campaign, counts, &wish.by, now));
        self.put_campaign(doc, name, campaign, now)?;
        Ok(Ok(became))
    }

    fn feed_all(&mut self, feed: &Feed, now: Time) -> Result<Result<(), NotDone>, StoreError> {
        let (tenant, name) = (&feed.tenant, &feed.campaign);
        let (doc, mut campaign) = match self.locked_campaign(tenant, name)? {
            Ok(found) => found,
            Err(not) => return Ok(Err(not)),
        };
        if let Err(refused) = campaign.can_be_fed() {
            return Ok(Err(NotDone::Refused(refused)));
        }
        let numbers: Vec<u64> = feed.servings.iter().map(|(number, _)| *number).collect();
        let mut pending: HashSet<u64> = self.pending_among(tenant, name, &numbers)?.into_iter().collect();
        #[cfg(feature = "planted")]
        if planted::is(planted::Bug::FedTwice) {
            pending.extend(&numbers);
        }
        let (mut drafts, mut made, mut placed) = (Vec::new(), Vec::new(), Vec::new());
        // What is said first of somebody counts.
        for (number, serving) in feed.servings.iter().filter(|(number, _)| pending.remove(number)) {
            let (standing, reason) = match serving {
                Serving::Message(draft) => {
                    drafts.push((**draft).clone());
                    made.push(*number);
                    continue;
                }
                Serving::Suppressed(reason) => (Standing::Suppressed, reason),
                Serving::Failed(reason) => (Standing::Failed, reason),
            };
            placed.push(Placed { number: *number, standing, message: None, reason: Some(reason.clone()) });
        }
        let left_out = |standing| placed.iter().filter(|it| it.standing == standing).count() as u64;
        let (suppressed, failed) = (left_out(Standing::Suppressed), left_out(Standing::Failed));
        let ids = self.make_messages(&drafts, now)?;
        let queued = made.iter().zip(ids).map(|(number, id)| Placed {
            number: *number,
            standing: Standing::Queued,
            message: Some(id),
            reason: None,
        });
        placed.extend(queued);
        self.place_recipients(tenant, name, &placed)?;
        if let Some(turn) = campaign.fed(made.len() as u64, suppressed, failed, now) {
            self.record(roster::turned(name.as_str(), tenant, &campaign, &turn, now));
        }
        self.put_campaign(doc, name, campaign, now)?;
        Ok(Ok(()))
    }

    fn cut_off(&mut self, tenant: &Tenant, name: &CampaignName, now: Time) -> Result<bool, StoreError> {
        let Ok((doc, mut campaign)) = self.locked_campaign(tenant, name)? else { return Ok(false) };
        let Some((key, turn)) = campaign.cut(now) else { return Ok(false) };
        self.disown(key);
        self.record(roster::turned(name.as_str(), tenant, &campaign, &turn, now));
        self.put_campaign(doc, name, campaign, now)?;
        Ok(true)
    }

    /// Changes the line that a campaign's queue uses.
    fn change_line(
        &mut self,
        queue: &QueueName,
        now: Time,
        change: impl FnOnce(Line) -> Line,
    ) -> Result<(), StoreError> {
        let (tenant, id) = (Tenant::default(), queue.channel.as_str());
        let doc = self.locked_doc(Shelf::Line, &tenant, id)?;
        let line = doc.as_ref().map(line_of).unwrap_or_default();
        let next = change(line.clone());
        if next == line {
            return Ok(());
        }
        let version = doc.map_or(0, |doc| doc.version) + 1;
        let body = serde_json::to_string(&next).unwrap_or_default();
        let leaf = Leaf { order: 0, topic: None, due: None, body };
        let doc = Doc { tenant, id: id.to_owned(), version, updated_at: now, leaf };
        self.put_doc(Shelf::Line, &doc)?;
        self.board().set_line(&queue.channel, next, now);
        Ok(())
    }

    /// A message sets out; `first` if it was never tried.
    fn course_started(
        &mut self,
        message: &Message,
        claim: ClaimId,
        first: bool,
        now: Time,
    ) -> Result<(), StoreError> {
        let queue = &message.queue;
        if queue.campaign.is_none() {
            return Ok(());
        }
        let flight = Flight { message: message.id, claim: claim.0, since: now };
        self.change_campaign(queue, now, |campaign| {
            campaign.started(flight, first);
            None
        })?;
        match self.board().rules(&queue.channel).cloned() {
            Some(rules) => self.change_line(queue, now, |line| line.started(message.id, &rules, now)),
            None => Ok(()),
        }
    }

    /// Another holds it now.
    fn course_taken_over(&mut self, message: &Message, claim: ClaimId, now: Time) -> Result<(), StoreError> {
        self.change_campaign(&message.queue, now, |campaign| {
            campaign.taken_over(message.id, claim.0, now);
            None
        })
    }

    /// A message was given back unsent; `first` if it was never tried.
    fn course_released(&mut self, message: &Message, first: bool, now: Time) -> Result<(), StoreError> {
        if message.queue.campaign.is_none() {
            return Ok(());
        }
        let mut since = now;
        self.change_campaign(&message.queue, now, |campaign| {
            since = campaign.flight.map_or(now, |flight| flight.since);
            campaign.released(message.id, first);
            None
        })?;
        let rules = self.board().rules(&message.queue.channel).cloned().unwrap_or_default();
        self.change_line(&message.queue, now, |line| line.released(message.id, since, &rules))
    }

    /// An attempt was settled.
    fn course_settled(
        &mut self,
        message: &Message,
        settlement: &Settlement,
        now: Time,
    ) -> Result<(), StoreError> {
        if message.queue.campaign.is_none() {
            return Ok(());
        }
        let end = end_of(&settlement.next);
        let chance = settlement.chance;
        self.change_campaign(&message.queue, now, |campaign| campaign.ended(message.id, end, chance, now))?;
        self.change_line(&message.queue, now, |line| line.ended(message.id, now))?;
        match standing_after(end) {
            Some(standing) => self.mark_recipient(message, standing, None),
            None => Ok(()),
        }
    }

    /// A message that waited was cancelled, since its recipient is not to be written to or for another reason, or its
    /// time was up; `first` if it was never tried.
    fn course_given_up(
        &mut self,
        message: &Message,
        (standing, reason): (Standing, Option<&str>),
        first: bool,
        now: Time,
    ) -> Result<(), StoreError> {
        if message.queue.campaign.is_none() {
            return Ok(());
        }
        self.change_campaign(&message.queue, now, |campaign| campaign.given_up(standing, first, now))?;
        self.mark_recipient(message, standing, reason)
    }

    /// A message that had failed waits again.
    fn course_reprocessed(&mut self, message: &Message, now: Time) -> Result<(), StoreError> {
        if message.queue.campaign.is_none() {
            return Ok(());
        }
        self.change_campaign(&message.queue, now, |campaign| campaign.reprocessed(now))?;
        self.mark_recipient(message, Standing::Queued, None)
    }
}

pub(crate) fn line_of(doc: &Doc) -> Line {
    serde_json::from_str(&doc.leaf.body).unwrap_or_default()
}

/// Where the recipient of a message stands that was cancelled: as one of the suppression list, for that reason, or not.
pub(crate) fn standing_cancelled(suppressed: Option<&str>) -> (Standing, Option<&str>) {
    (if suppressed.is_some() { Standing::Suppressed } else { Standing::Cancelled }, suppressed)
}

/// What an attempt's end means for a campaign.
pub(crate) fn end_of(next: &Next) -> End {
    match next {
        Next::Sent(_) => End::Sent,
        Next::Failed(_) => End::Failed,
        Next::Retry { .. } | Next::Held { .. } => End::Retry,
    }
}

/// Where that leaves the recipient; nothing if as before.
pub(crate) fn standing_after(end: End) -> Option<Standing> {
    match end {
        End::Sent => Some(Standing::Sent),
        End::Failed => Some(Standing::Failed),
        End::Retry => None,
    }
}
