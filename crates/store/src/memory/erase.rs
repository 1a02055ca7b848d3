//! One person's data in the model.

use pombo_kernel::campaign::recipient::Standing;
use pombo_kernel::erasure::{Bookmark, ERASED, Room, Seeker, Trace};
use pombo_kernel::message::{ClaimKey, State};
use pombo_kernel::name::{CampaignName, Tenant};
use pombo_kernel::time::Time;

use super::{Memory, Model, is_lost};
use crate::StoreError;
use crate::core::Core as _;
use crate::erase::{Erase, Erased, Sought, blank, lists, next, recipient};
use crate::roster;

impl Memory {
    /// Of what could not be erased because it is being sent, gives that back whose sender is gone: nobody will say any more
    /// what became of it.
    pub(super) fn release_lost(
        &mut self,
        erased: &Erased,
        traces: &[Trace],
        now: Time,
    ) -> Result<Vec<Trace>, StoreError> {
        let mut lost = Vec::new();
        for trace in traces {
            let Trace::Message { id, .. } = trace else { continue };
            let hold = self.now.claims.get(&id.key()).filter(|_| erased.left.contains(id));
            if let Some(hold) = hold.filter(|hold| is_lost(&self.leases, hold, now)) {
                let key = ClaimKey { message: *id, claim: hold.claim };
                self.release(key, now)?;
                lost.push(trace.clone());
            }
        }
        Ok(lost)
    }
}

impl Model {
    /// What of a person is in a room from there on.
    pub(super) fn seek(&self, seeker: &Seeker, from: Bookmark, max: usize) -> Sought {
        let place = (from.key.unwrap_or(i64::MIN), from.then);
        let mut looked = Vec::new();
        let mut traces = Vec::new();
        match from.room {
            Room::Lists => {
                let lists = (0i64..).zip(&self.rosters);
                let entries =
                    lists.flat_map(|(nth, (list, some))| some.iter().map(move |it| (nth, list, it)));
                let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
                let rest = entries.filter(|(nth, _, it)| (*nth, number(it.recipient.number)) > place);
                for (nth, (tenant, campaign), it) in rest.take(max) {
                    let it = &it.recipient;
                    looked.push((nth, number(it.number)));
                    traces.extend(recipient(seeker, tenant, campaign.clone(), it.number, &it.to));
                }
            }
            // Only databases have them.
            Room::Inbox | Room::Refused => {}
            Room::Messages => {
                for (key, row) in self.messages.iter().filter(|(key, _)| key.0 > place.0).take(max) {
                    looked.push((key.0, 0));
                    let message = &row.message;
                    let bond = Some(&message.body).filter(|_| message.queue.tenant == *seeker.tenant());
                    let trace = |bond| Trace::Message {
                        id: message.id,
                        channel: message.queue.channel.clone(),
                        bond,
                    };
                    traces.extend(bond.and_then(|body| seeker.bond(body)).map(trace));
                }
            }
            Room::Revisions => {
                let all = self.messages.iter().flat_map(|(key, row)| {
                    row.revisions.iter().map(move |it| ((key.0, i64::from(it.version)), row, it))
                });
                for (at, row, it) in all.filter(|(at, ..)| *at > place).take(max) {
                    looked.push(at);
                    let message = &row.message;
                    let body = Some(&it.body).filter(|_| message.queue.tenant == *seeker.tenant());
                    let (id, channel) = (message.id, message.queue.channel.clone());
                    let trace = |bond| Trace::Revision { id, version: it.version, channel, bond };
                    traces.extend(body.and_then(|body| seeker.bond(body)).map(trace));
                }
            }
        }
        Sought { traces, next: next(from.room, &looked, max) }
    }

    pub(super) fn erase(&mut self, wish: &Erase, now: Time) -> Erased {
        let mut erased = Erased::default();
        for (campaign, numbers) in lists(&wish.traces) {
            erased.counts.recipients += self.blank_recipients(&wish.tenant, campaign, &numbers, now);
        }
        let counts = &mut erased.counts;
        for trace in &wish.traces {
            match trace {
                Trace::Recipient { .. } | Trace::Request { .. } => {}
                Trace::Revision { id, version, .. } => {
                    let own = self.row(&wish.tenant, *id).map(|row| row.message.id.key());
                    let row = own.and_then(|key| self.row_mut(key));
                    let mut revisions = row.into_iter().flat_map(|row| &mut row.revisions);
                    if let Some(revision) = revisions.find(|it| it.version == *version) {
                        (revision.body, revision.note) = (blank(), None);
                        counts.revisions += 1;
                    }
                }
                Trace::Message { id, .. } => {
                    let Some(row) = self.row(&wish.tenant, *id) else { continue };
                    match row.state {
                        State::Sending { .. } => {
                            erased.left.push(*id);
                            continue;
                        }
                        State::Pending { .. } => {
                            let message = row.message.clone();
                            self.cancel(&message, &wish.by, None, now);
                            counts.cancelled += 1;
                        }
                        _ => {}
                    }
                    let before = self.blobs.len();
                    self.forget_message(id.key(), None);
                    counts.messages += 1;
                    counts.attachments += (before - self.blobs.len()) as u64;
                }
            }
        }
        erased
    }

    fn blank_recipients(&mut self, tenant: &Tenant, name: &CampaignName, numbers: &[u64], now: Time) -> u64 {
        let campaign = self.campaign(tenant, name);
        let entries = self.rosters.get_mut(&(tenant.clone(), name.clone())).into_iter().flatten();
        let (mut pending, mut blanked) = (0, 0);
        for entry in entries.filter(|entry| numbers.contains(&entry.recipient.number)) {
            let it = &mut entry.recipient;
            if it.standing == Standing::Pending && campaign.is_some() {
                (it.standing, it.message) = (Standing::Suppressed, None);
                pending += 1;
            }
            (it.to, it.payload) = (ERASED.to_owned(), None);
            it.reason = Some("erased".to_owned());
            // No person's begins with a space.
            entry.key = format!(" {}", it.number);
            blanked += 1;
        }
        if let Some(mut campaign) = campaign.filter(|_| pending > 0) {
            if let Some(turn) = campaign.fed(0, pending, 0, now) {
                self.records.push(roster::turned(name.as_str(), tenant, &campaign, &turn, now));
            }
            self.put_campaign(tenant, name, &campaign, now);
        }
        blanked
    }
}
