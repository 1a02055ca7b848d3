//! One person's data, found and erased.
//!
//! Whoever looks reads beside the writer, some rows at a time, and compares keyed hashes: nothing says who is looked
//! for. What was found goes through the writer in small transactions. Both may be done again at any time, since what is
//! gone is not found any more; so whoever goes on after a crash leaves nothing out.

use std::collections::BTreeMap;

use pombo_kernel::campaign::recipient::Standing;
use pombo_kernel::erasure::{Bond, Bookmark, Counts, ERASED, Room, Seeker, Trace};
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Actor, Body, Json, StateName};
use pombo_kernel::name::{CampaignName, Tenant};
use pombo_kernel::time::Time;
use serde_json::Value;

use crate::courses::{Courses, Placed};
use crate::{Cancelled, StoreError, roster};

/// What was found of a person.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sought {
    pub traces: Vec<Trace>,
    /// Where to go on in the same room; none at its end.
    pub next: Option<Bookmark>,
}

/// A wish to erase what was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Erase {
    pub tenant: Tenant,
    pub traces: Vec<Trace>,
    /// In whose name what waits is cancelled.
    pub by: Actor,
}

/// What was erased, and what could not be yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    pub counts: Counts,
    /// Messages that are being sent.
    pub left: Vec<MessageId>,
}

/// What a revision says whose words were erased.
pub(crate) fn blank() -> Body {
    Body { to: ERASED.to_owned(), ..Body::default() }
}

/// Where to go on, if so many rows were asked for and these were found.
pub(crate) fn next(room: Room, found: &[(i64, i64)], max: usize) -> Option<Bookmark> {
    let (key, then) = found.last().filter(|_| found.len() >= max)?;
    Some(Bookmark { room, key: Some(*key), then: *then })
}

/// A list's recipient, if it is that person.
pub(crate) fn recipient(
    seeker: &Seeker,
    tenant: &Tenant,
    campaign: CampaignName,
    number: u64,
    address: &str,
) -> Option<Trace> {
    // A line by which nobody can be written to may have more in it than an address.
    let theirs = tenant == seeker.tenant() && (seeker.is(address) || seeker.named(address));
    theirs.then_some(Trace::Recipient { campaign, number })
}

/// What an application has handed in by SQL, if it is about that person. One that waits must go to them; what was
/// refused goes to nobody, and is theirs if it names them.
pub(crate) fn request(seeker: &Seeker, tenant: &str, room: Room, key: i64, json: &str) -> Option<Trace> {
    if tenant != seeker.tenant().as_str() {
        return None;
    }
    let asked: Value = serde_json::from_str(json).unwrap_or_default();
    let body = Body {
        to: asked["to"].as_str().unwrap_or_default().to_owned(),
        content: asked.get("content").map(Json::from_value),
        ..Body::default()
    };
    let reaches = seeker.bond(&body) == Some(Bond::Reaches);
    (reaches || room == Room::Refused && seeker.named(json)).then_some(Trace::Request { room, key })
}

/// A store of rows, from which a person's can be taken.
pub(crate) trait Erasing: Courses {
    /// Removes everything that is known of messages that have ended, but the audit; what was removed, and what somebody
    /// else has let go again meanwhile.
    fn forget_all(&mut self, tenant: &Tenant, ids: &[MessageId], now: Time) -> Result<Erased, StoreError>;

    /// Takes out of a list what it says of these; how many there were.
    fn blank_recipients(
        &mut self,
        tenant: &Tenant,
        campaign: &CampaignName,
        numbers: &[u64],
    ) -> Result<u64, StoreError>;

    /// Takes out what a message said; 0 if there is no such version.
    fn blank_revision(&mut self, tenant: &Tenant, id: MessageId, version: u32) -> Result<u64, StoreError>;

    /// Removes what an application has handed in; 0 if somebody else has it by now.
    fn drop_request(&mut self, tenant: &Tenant, room: Room, key: i64) -> Result<u64, StoreError>;

    /// Gives those of the messages back whose sender is gone, since nobody will say any more what became of them; which
    /// they are.
    ///
    /// Elsewhere whoever takes over from the dead sees to them, but in a store that is paused nobody does, nor in one that
    /// no server has.
    fn release_lost(&mut self, ids: &[MessageId], now: Time) -> Result<Vec<MessageId>, StoreError>;

    fn erase_all(&mut self, wish: &Erase, now: Time) -> Result<Erased, StoreError> {
        let mut erased = Erased::default();
        let counts = &mut erased.counts;
        for (campaign, numbers) in lists(&wish.traces) {
            self.leave_out_pending(&wish.tenant, campaign, &numbers, now)?;
            counts.recipients += self.blank_recipients(&wish.tenant, campaign, &numbers)?;
        }
        let mut gone = Vec::new();
        for trace in &wish.traces {
            match trace {
                Trace::Recipient { .. } => {}
                Trace::Revision { id, version, .. } => {
                    counts.revisions += self.blank_revision(&wish.tenant, *id, *version)?;
                }
                Trace::Request { room, key } => {
                    counts.requests += self.drop_request(&wish.tenant, *room, *key)?;
                }
                Trace::Message { id, .. } => match self.cancel(&wish.tenant, *id, &wish.by, now)? {
                    Cancelled::NotFound => {}
                    Cancelled::TooLate(StateName::Sending) => erased.left.push(*id),
                    done => {
                        counts.cancelled += u64::from(done == Cancelled::Done);
                        gone.push(*id);
                    }
                },
            }
        }
        if !erased.left.is_empty() {
            let lost = self.release_lost(&erased.left, now)?;
            erased.left.retain(|id| !lost.contains(id));
            for id in lost {
                let done = self.cancel(&wish.tenant, id, &wish.by, now)?;
                counts.cancelled += u64::from(done == Cancelled::Done);
                gone.push(id);
            }
        }
        if !gone.is_empty() {
            let forgotten = self.forget_all(&wish.tenant, &gone, now)?;
            *counts += forgotten.counts;
            erased.left.extend(forgotten.left);
        }
        Ok(erased)
    }

    /// Whoever has no message yet gets none, and the campaign knows.
    fn leave_out_pending(
        &mut self,
        tenant: &Tenant,
        name: &CampaignName,
        numbers: &[u64],
        now: Time,
    ) -> Result<(), StoreError> {
        let Ok((doc, mut campaign)) = self.locked_campaign(tenant, name)? else { return Ok(()) };
        let pending = self.pending_among(tenant, name, numbers)?;
        if pending.is_empty() {
            return Ok(());
        }
        let reason = Some("erased".to_owned());
        let place =
            |number| Placed { number, standing: Standing::Suppressed, message: None, reason: reason.clone() };
        let placed: Vec<Placed> = pending.into_iter().map(place).collect();
        self.place_recipients(tenant, name, &placed)?;
        if let Some(turn) = campaign.fed(0, placed.len() as u64, 0, now) {
            self.record(roster::turned(name.as_str(), tenant, &campaign, &turn, now));
        }
        self.put_campaign(doc, name, campaign, now)
    }
}

/// The recipients among what was found, by their lists, each once.
pub(crate) fn lists(traces: &[Trace]) -> BTreeMap<&CampaignName, Vec<u64>> {
    let mut lists: BTreeMap<&CampaignName, Vec<u64>> = BTreeMap::new();
    for trace in traces {
        if let Trace::Recipient { campaign, number } = trace {
            let numbers = lists.entry(campaign).or_default();
            if !numbers.contains(number) {
                numbers.push(*number);
            }
        }
    }
    lists
}
