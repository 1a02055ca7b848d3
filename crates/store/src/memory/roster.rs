//! Campaigns of the model.

use std::collections::BTreeSet;

use pombo_kernel::block::Gate;
use pombo_kernel::campaign::line::Line;
use pombo_kernel::campaign::recipient::{Person, Standing};
use pombo_kernel::campaign::{Campaign, Flight, Turn};
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{ClaimKey, Message, QueueName};
use pombo_kernel::name::{CampaignName, Tenant};
#[cfg(feature = "planted")]
use pombo_kernel::planted;
use pombo_kernel::time::Time;

use super::Model;
use crate::Settlement;
use crate::courses::{end_of, line_of, standing_after};
use crate::roster::{self, Enlist, Enlisted, Feed, NotDone, Recipient, Roster, Serving};
use crate::shelf::{Doc, Leaf, Shelf};

/// Somebody on a list, and what tells this one from others.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) recipient: Recipient,
    pub(super) key: String,
}

impl Model {
    pub(super) fn campaign(&self, tenant: &Tenant, name: &CampaignName) -> Option<Campaign> {
        roster::read(self.docs.get(&(Shelf::Campaign, tenant.clone(), name.to_string()))?)
    }

    pub(super) fn put_campaign(
        &mut self,
        tenant: &Tenant,
        name: &CampaignName,
        campaign: &Campaign,
        now: Time,
    ) {
        if let Some(doc) = self.docs.get_mut(&(Shelf::Campaign, tenant.clone(), name.to_string())) {
            doc.version += 1;
            doc.updated_at = now;
            doc.leaf = roster::leaf(campaign);
        }
    }

    /// Changes the campaign of a queue, if it has one.
    fn change_campaign(
        &mut self,
        queue: &QueueName,
        now: Time,
        change: impl FnOnce(&mut Campaign) -> Option<Turn>,
    ) {
        let Some(name) = &queue.campaign else { return };
        let Some(mut campaign) = self.campaign(&queue.tenant, name) else { return };
        if let Some(turn) = change(&mut campaign) {
            self.records.push(roster::turned(name.as_str(), &queue.tenant, &campaign, &turn, now));
        }
        self.put_campaign(&queue.tenant, name, &campaign, now);
    }

    fn line(&self, queue: &QueueName) -> Line {
        let place = (Shelf::Line, Tenant::default(), queue.channel.to_string());
        self.docs.get(&place).map(line_of).unwrap_or_default()
    }

    fn change_line(&mut self, queue: &QueueName, now: Time, change: impl FnOnce(Line) -> Line) {
        let before = self.line(queue);
        let line = change(before.clone());
        if line == before {
            return;
        }
        let place = (Shelf::Line, Tenant::default(), queue.channel.to_string());
        let version = self.docs.get(&place).map_or(0, |doc| doc.version) + 1;
        let body = serde_json::to_string(&line).unwrap_or_default();
        let leaf = Leaf { order: 0, topic: None, due: None, body };
        let doc = Doc { tenant: place.1.clone(), id: place.2.clone(), version, updated_at: now, leaf };
        self.docs.insert(place, doc);
    }

    /// What a queue's campaign and its line say.
    pub(super) fn course_gates(&self, queue: &QueueName, now: Time) -> Vec<Gate> {
        let Some(name) = &queue.campaign else { return Vec::new() };
        let doc = self.docs.get(&(Shelf::Campaign, queue.tenant.clone(), name.to_string()));
        let unreadable = Gate::Shut { until: None };
        let campaign = doc.map(|doc| roster::read(doc).map_or(unreadable, |campaign| campaign.gate(now)));
        let line = self.traffic.rules(&queue.channel).map(|rules| self.line(queue).gate(rules, now));
        campaign.into_iter().chain(line).collect()
    }

    /// How many turns a queue has where an ordinary one has one.
    pub(super) fn weight(&self, queue: &QueueName) -> u32 {
        let campaign = queue.campaign.as_ref().and_then(|name| self.campaign(&queue.tenant, name));
        self.traffic.weight(&queue.channel, campaign.map(|campaign| campaign.weight))
    }

    fn mark_recipient(&mut self, message: &Message, standing: Standing, reason: Option<&str>) {
        let recipients = self.rosters.values_mut().flatten().map(|entry| &mut entry.recipient);
        for recipient in recipients.filter(|recipient| recipient.message == Some(message.id)) {
            (recipient.standing, recipient.reason) = (standing, reason.map(str::to_owned));
        }
    }

    pub(super) fn course_started(&mut self, message: &Message, claim: i64, first: bool, now: Time) {
        let queue = &message.queue;
        if queue.campaign.is_none() {
            return;
        }
        self.change_campaign(queue, now, |campaign| {
            campaign.started(Flight { message: message.id, claim, since: now }, first);
            None
        });
        if let Some(rules) = self.traffic.rules(&queue.channel).cloned() {
            self.change_line(queue, now, |line| line.started(message.id, &rules, now));
        }
    }

    pub(super) fn course_taken_over(&mut self, message: &Message, claim: i64, now: Time) {
        self.change_campaign(&message.queue, now, |campaign| {
            campaign.taken_over(message.id, claim, now);
            None
        });
    }

    pub(super) fn course_released(&mut self, message: &Message, first: bool, now: Time) {
        if message.queue.campaign.is_some() {
            let mut since = now;
            self.change_campaign(&message.queue, now, |campaign| {
                since = campaign.flight.map_or(now, |flight| flight.since);
                campaign.released(message.id, first);
                None
            });
            let rules = self.traffic.rules(&message.queue.channel).cloned().unwrap_or_default();
            self.change_line(&message.queue, now, |line| line.released(message.id, since, &rules));
        }
    }

    pub(super) fn course_settled(&mut self, message: &Message, settlement: &Settlement, now: Time) {
        if message.queue.campaign.is_none() {
            return;
        }
        let end = end_of(&settlement.next);
        self.change_campaign(&message.queue, now, |campaign| {
            campaign.ended(message.id, end, settlement.chance, now)
        });
        self.change_line(&message.queue, now, |line| line.ended(message.id, now));
        if let Some(standing) = standing_after(end) {
            self.mark_recipient(message, standing, None);
        }
    }

    pub(super) fn course_given_up(
        &mut self,
        message: &Message,
        (standing, reason): (Standing, Option<&str>),
        first: bool,
        now: Time,
    ) {
        if message.queue.campaign.is_none() {
            return;
        }
        self.change_campaign(&message.queue, now, |campaign| campaign.given_up(standing, first, now));
        self.mark_recipient(message, standing, reason);
    }

    pub(super) fn course_reprocessed(&mut self, message: &Message, now: Time) {
        if message.queue.campaign.is_none() {
            return;
        }
        self.change_campaign(&message.queue, now, |campaign| campaign.reprocessed(now));
        self.mark_recipient(message, Standing::Queued, None);
    }

    pub(super) fn enlist(&mut self, wish: &Enlist, now: Time) -> Result<Vec<Enlisted>, NotDone> {
        let mut campaign = self.campaign(&wish.tenant, &wish.campaign).ok_or(NotDone::NotFound)?;
        campaign.can_enlist().map_err(NotDone::Refused)?;
        let mut number = campaign.next_number();
        let list = self.rosters.entry((wish.tenant.clone(), wish.campaign.clone())).or_default();
        let mut became = Vec::new();
        for listed in &wish.lines {
            let key = listed.key().into_owned();
            if list.iter().any(|entry| entry.key == key) {
                became.push(Enlisted::Duplicate);
                continue;
            }
            let (to, payload, standing, reason, what) = match listed.of.clone() {
                Ok(Person { to, payload, .. }) => (to, payload, Standing::Pending, None, Enlisted::Added),
                Err(no) => (no.to, None, Standing::Invalid, Some(no.reason), Enlisted::Invalid),
            };
            let recipient =
                Recipient { number, line: listed.line, to, payload, standing, reason, message: None };
            list.push(Entry { recipient, key });
            became.push(what);
            number += 1;
        }
        let counts = roster::counted(&wish.lines, &became);
        campaign.enlisted(counts);
        self.records.push(roster::listed(&wish.campaign, &wish.tenant, &campaign, counts, &wish.by, now));
        self.put_campaign(&wish.tenant, &wish.campaign, &campaign, now);
        Ok(became)
    }

    /// Those of the servings whose recipients are still pending.
    pub(super) fn servings<'a>(&self, feed: &'a Feed) -> Result<Vec<(u64, &'a Serving)>, NotDone> {
        let campaign = self.campaign(&feed.tenant, &feed.campaign).ok_or(NotDone::NotFound)?;
        campaign.can_be_fed().map_err(NotDone::Refused)?;
        let list = self.rosters.get(&(feed.tenant.clone(), feed.campaign.clone()));
        let fits = |standing: Standing| standing == Standing::Pending;
        #[cfg(feature = "planted")]
        let fits = |standing: Standing| fits(standing) || planted::is(planted::Bug::FedTwice);
        let pending = |number: u64| {
            let mut entries = list.into_iter().flatten().map(|entry| &entry.recipient);
            entries.any(|it| it.number == number && fits(it.standing))
        };
        let mut seen = BTreeSet::new();
        let servings = feed.servings.iter().filter(|(number, _)| pending(*number) && seen.insert(*number));
        Ok(servings.map(|(number, serving)| (*number, serving)).collect())
    }

    /// Writes down what became of them.
    pub(super) fn served(
        &mut self,
        feed: &Feed,
        placed: &[(u64, Standing, Option<MessageId>, Option<String>)],
        now: Time,
    ) {
        let place = (feed.tenant.clone(), feed.campaign.clone());
        for (number, standing, message, reason) in placed {
            let entries = self.rosters.get_mut(&place).into_iter().flatten();
            for entry in entries.filter(|entry| entry.recipient.number == *number) {
                entry.recipient.standing = *standing;
                entry.recipient.message = *message;
                entry.recipient.reason.clone_from(reason);
            }
        }
        let count = |standing| placed.iter().filter(|it| it.1 == standing).count() as u64;
        let Some(mut campaign) = self.campaign(&feed.tenant, &feed.campaign) else { return };
        let (made, failed) = (count(Standing::Queued), count(Standing::Failed));
        if let Some(turn) = campaign.fed(made, count(Standing::Suppressed), failed, now) {
            let id = feed.campaign.as_str();
            self.records.push(roster::turned(id, &feed.tenant, &campaign, &turn, now));
        }
        self.put_campaign(&feed.tenant, &feed.campaign, &campaign, now);
    }

    pub(super) fn strike(&mut self, tenant: &Tenant, name: &CampaignName, max: usize) -> usize {
        if self.docs.contains_key(&(Shelf::Campaign, tenant.clone(), name.to_string())) {
            return 0;
        }
        let Some(list) = self.rosters.get_mut(&(tenant.clone(), name.clone())) else { return 0 };
        let struck = list.len().min(max);
        list.drain(..struck);
        struck
    }

    /// The message of somebody on a list is gone; what became of it stays.
    pub(super) fn unlink_recipient(&mut self, message: MessageId) {
        let recipients = self.rosters.values_mut().flatten().map(|entry| &mut entry.recipient);
        for recipient in recipients.filter(|recipient| recipient.message == Some(message)) {
            recipient.message = None;
        }
    }

    /// Whose claim is void from now on.
    pub(super) fn cut(&mut self, tenant: &Tenant, name: &CampaignName, now: Time) -> Option<ClaimKey> {
        let mut campaign = self.campaign(tenant, name)?;
        let (key, turn) = campaign.cut(now)?;
        self.records.push(roster::turned(name.as_str(), tenant, &campaign, &turn, now));
        self.put_campaign(tenant, name, &campaign, now);
        Some(key)
    }

    pub(super) fn recipients(&self, roster: &Roster) -> Vec<Recipient> {
        let list = self.rosters.get(&(roster.tenant.clone(), roster.campaign.clone()));
        let wanted = list.into_iter().flatten().map(|entry| &entry.recipient).filter(|recipient| {
            recipient.number > roster.after && roster.standing.is_none_or(|it| it == recipient.standing)
        });
        wanted.take(roster.limit).cloned().collect()
    }
}
