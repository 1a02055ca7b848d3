//! One person's data.
//!
//! What it leaves behind in pages, in the log and in its archive is the database's, which overwrites it in time. Only
//! what was sealed before it was written is gone at once, and for good.

use std::collections::HashSet;

use pombo_kernel::erasure::{Bookmark, Counts, ERASED, Room, Seeker, Trace};
use pombo_kernel::id::MessageId;
use pombo_kernel::message::Body;
use pombo_kernel::name::{CampaignName, Tenant};
use pombo_kernel::time::Time;

use super::link::Row;
use super::prune::{self, Parting};
use super::reader::{Reader, Whose};
use super::{Postgres, rows, sql};
use crate::StoreError;
use crate::erase::{Erased, Erasing, Sought, blank, next, recipient, request};
use crate::rows::whole;
use crate::vault::{Spot, Vault};

impl Erasing for Postgres {
    fn forget_all(&mut self, tenant: &Tenant, ids: &[MessageId], now: Time) -> Result<Erased, StoreError> {
        self.flush(now)?;
        let keys: Vec<i64> = ids.iter().map(|id| id.key().0).collect();
        self.lock_letters(&keys)?;
        let found = self.ask_one(sql!("prune_see"), vec![keys.into()])?;
        let ended = found.iter().map(prune::ended).filter_map(|it| it.map(|(_, ended)| ended).transpose());
        let ended = ended.map(|it| it.map(|ended| ended.key)).collect::<Result<HashSet<_>, _>>()?;
        let (gone, left): (Vec<MessageId>, Vec<MessageId>) =
            ids.iter().copied().partition(|id| ended.contains(&id.key()));
        let parting = |id: &MessageId| Parting { key: id.key(), tenant: tenant.clone(), key_until: None };
        let attachments = self.forget_message(&gone.iter().map(parting).collect::<Vec<_>>())?;
        let counts = Counts { messages: gone.len() as u64, attachments, ..Counts::default() };
        Ok(Erased { counts, left })
    }

    fn blank_recipients(
        &mut self,
        tenant: &Tenant,
        campaign: &CampaignName,
        numbers: &[u64],
    ) -> Result<u64, StoreError> {
        // What tells them from others of the list is no address, and nobody else's.
        let blank = |number: &u64| {
            let (spot, key) = (Spot::Address(tenant, campaign, *number), format!(" {number}"));
            rows::escaped(&self.vault.seal_address(&spot, ERASED, &key))
        };
        let addresses: Vec<String> = numbers.iter().map(blank).collect();
        let numbers: Vec<i64> = numbers.iter().map(|number| whole(*number)).collect();
        let values = vec![tenant.as_str().into(), campaign.as_str().into(), numbers.into(), addresses.into()];
        Ok(self.ask_one(sql!("recipient_blank"), values)?.len() as u64)
    }

    fn blank_revision(&mut self, tenant: &Tenant, id: MessageId, version: u32) -> Result<u64, StoreError> {
        let body = serde_json::to_vec(&blank()).map_err(|error| StoreError::Broken(error.to_string()))?;
        let body = self.vault.seal(&Spot::Revision(id.key(), version), body).into_owned();
        let version = i32::try_from(version).unwrap_or(i32::MAX);
        let values = vec![id.key().0.into(), version.into(), tenant.as_str().into(), body.into()];
        Ok(self.ask_one(sql!("revision_blank"), values)?.len() as u64)
    }

    fn release_lost(&mut self, ids: &[MessageId], now: Time) -> Result<Vec<MessageId>, StoreError> {
        self.release_lost_of(ids, now)
    }

    fn drop_request(&mut self, tenant: &Tenant, room: Room, key: i64) -> Result<u64, StoreError> {
        let sql = if room == Room::Refused { sql!("refused_drop") } else { sql!("inbox_drop") };
        Ok(self.ask_one(sql, vec![tenant.as_str().into(), key.into()])?.len() as u64)
    }
}

impl Reader {
    /// What of a person is in a room from there on.
    pub(super) fn sought(
        &mut self,
        seeker: &Seeker,
        from: Bookmark,
        max: usize,
    ) -> Result<Sought, StoreError> {
        let (key, limit) = (from.key.unwrap_or(i64::MIN), i64::try_from(max).unwrap_or(i64::MAX));
        let one = vec![key.into(), limit.into()];
        let two = vec![key.into(), from.then.into(), limit.into()];
        let asked = match from.room {
            Room::Lists => (sql!("seek_recipient"), two),
            Room::Inbox => (sql!("seek_inbox"), one),
            Room::Refused => (sql!("seek_refused"), one),
            Room::Messages => (sql!("seek_message"), one),
            Room::Revisions => (sql!("seek_revision"), two),
        };
        let found = self.one(Whose::Everybodys, asked)?;
        let (mut places, mut traces) = (Vec::with_capacity(found.len()), Vec::new());
        for row in &found {
            places.push((rows::get(row, 0)?, rows::get(row, 1)?));
            traces.extend(trace(&self.vault, seeker, from.room, row)?);
        }
        Ok(Sought { traces, next: next(from.room, &places, max) })
    }
}

/// A row: the two numbers of its place, tenant, and what its room has.
fn trace(vault: &Vault, seeker: &Seeker, room: Room, row: &Row) -> Result<Option<Trace>, StoreError> {
    let tenant: &str = rows::get(row, 2)?;
    if tenant != seeker.tenant().as_str() {
        return Ok(None);
    }
    Ok(match room {
        Room::Lists => {
            let number = rows::number::<i64, u64>(row, 1)?;
            let campaign: CampaignName = rows::name(row, 3)?;
            let spot = Spot::Address(seeker.tenant(), &campaign, number);
            let address = vault.open_address(&spot, rows::text(row, 4)?)?;
            recipient(seeker, seeker.tenant(), campaign, number, &address)
        }
        Room::Inbox | Room::Refused => request(seeker, tenant, room, rows::get(row, 0)?, rows::get(row, 3)?),
        Room::Messages => {
            let (id, channel) = (rows::id(row, 0, 3)?, rows::name(row, 4)?);
            let said = body(vault, &Spot::Body(id.key()), row, 5)?;
            let body = Body { reference: rows::some_text(row, 6)?, ..said };
            seeker.bond(&body).map(|bond| Trace::Message { id, channel, bond })
        }
        Room::Revisions => {
            let (id, version) = (rows::id(row, 0, 3)?, rows::number::<i64, u32>(row, 1)?);
            let channel = rows::name(row, 5)?;
            let body = body(vault, &Spot::Revision(id.key(), version), row, 4)?;
            seeker.bond(&body).map(|bond| Trace::Revision { id, version, channel, bond })
        }
    })
}

fn body(vault: &Vault, spot: &Spot<'_>, row: &Row, column: usize) -> Result<Body, StoreError> {
    let body = rows::opened(vault, spot, row, column)?;
    serde_json::from_slice(&body).map_err(|error| rows::broken(row, column, error))
}
