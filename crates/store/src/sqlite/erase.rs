//! One person's data, and what it leaves in the file.

use std::path::Path;
use std::time::Duration;

use pombo_kernel::erasure::{Bookmark, ERASED, Room, Seeker, Trace};
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Body, ClaimKey};
use pombo_kernel::name::{CampaignName, Tenant};
use pombo_kernel::time::Time;
use rusqlite::{Connection, Row, params};
use serde_json::Value;

use super::file::Db;
use super::{Sqlite, rows, sql};
use crate::StoreError;
use crate::erase::{Erased, Erasing, Sought, blank, next, recipient, request};
use crate::rows::whole;
use crate::vault::Spot;

/// How often the log is tried to be cut while others read.
const CUTS: u32 = 10;

impl Erasing for Sqlite {
    fn forget_all(&mut self, _: &Tenant, ids: &[MessageId], _: Time) -> Result<Erased, StoreError> {
        let mut erased = Erased::default();
        for id in ids {
            erased.counts.attachments += self.forget_message(id.key(), None)?;
            erased.counts.messages += 1;
        }
        Ok(erased)
    }

    fn blank_recipients(
        &mut self,
        tenant: &Tenant,
        campaign: &CampaignName,
        numbers: &[u64],
    ) -> Result<u64, StoreError> {
        let mut blanked = 0;
        for number in numbers {
            // What tells them from others of the list is no address, and nobody else's.
            let (spot, key) = (Spot::Address(tenant, campaign, *number), format!(" {number}"));
            let address = self.file.db.vault.seal_address(&spot, ERASED, &key).into_owned();
            let place = params![tenant.as_str(), campaign.as_str(), whole(*number), address];
            blanked += self.write(sql!("recipient_blank"), place)? as u64;
        }
        Ok(blanked)
    }

    fn blank_revision(&mut self, tenant: &Tenant, id: MessageId, version: u32) -> Result<u64, StoreError> {
        if self.find(tenant, id)?.is_none() {
            return Ok(0);
        }
        let body = serde_json::to_vec(&blank()).map_err(|error| StoreError::Broken(error.to_string()))?;
        let body = self.file.db.vault.seal(&Spot::Revision(id.key(), version), body).into_owned();
        Ok(self.write(sql!("revision_blank"), params![id.key().0, version, body])? as u64)
    }

    fn release_lost(&mut self, ids: &[MessageId], now: Time) -> Result<Vec<MessageId>, StoreError> {
        let lost: Vec<ClaimKey> = ids.iter().filter_map(|id| self.claims.lost(*id, now)).collect();
        for key in &lost {
            self.release_one(*key, now)?;
        }
        Ok(lost.into_iter().map(|key| key.message).collect())
    }

    fn drop_request(&mut self, _: &Tenant, room: Room, key: i64) -> Result<u64, StoreError> {
        Ok(self.write(sql!("meta_delete"), [format!("{}{key}", aside(room))])? as u64)
    }
}

/// Where requests are that came with a copy of a database.
fn aside(room: Room) -> &'static str {
    if room == Room::Refused { "aside/refused/" } else { "aside/inbox/" }
}

/// What of a person is in a room from there on.
pub(super) fn seek(db: &Db, seeker: &Seeker, from: Bookmark, max: usize) -> Result<Sought, StoreError> {
    let (key, limit) = (from.key.unwrap_or(i64::MIN), i64::try_from(max).unwrap_or(i64::MAX));
    type Seen = ((i64, i64), Option<Trace>);
    let seen: Vec<Seen> = match from.room {
        Room::Lists => rows::all(db, sql!("seek_recipient"), params![key, from.then, limit], |row| {
            let (tenant, campaign): (Tenant, CampaignName) = (rows::name(row, 2)?, rows::name(row, 3)?);
            let (roster, nth): (i64, i64) = (row.get(0)?, row.get(1)?);
            let number = nth.unsigned_abs();
            let address = db.vault.open_address(&Spot::Address(&tenant, &campaign, number), row.get(4)?);
            let address = address.map_err(|error| rows::broken(4, error))?;
            Ok(((roster, nth), recipient(seeker, &tenant, campaign, number, &address)))
        })?,
        Room::Inbox | Room::Refused => {
            rows::all(db, sql!("seek_aside"), params![aside(from.room), key, limit], |row| {
                let kept: Value = serde_json::from_slice(row.get_ref(1)?.as_blob()?).unwrap_or_default();
                let (key, tenant) = (row.get(0)?, kept["tenant"].as_str().unwrap_or_default());
                Ok(((key, 0), request(seeker, tenant, from.room, key, &kept["request"].to_string())))
            })?
        }
        Room::Messages => rows::all(db, sql!("seek_message"), params![key, limit], |row| {
            let id = rows::id(row, 0, 1)?;
            let trace = if rows::name::<Tenant>(row, 2)? == *seeker.tenant() {
                let body = Body { reference: row.get(5)?, ..body(db, &Spot::Body(id.key()), row, 4)? };
                let channel = rows::name(row, 3)?;
                seeker.bond(&body).map(|bond| Trace::Message { id, channel, bond })
            } else {
                None
            };
            Ok(((id.key().0, 0), trace))
        })?,
        Room::Revisions => rows::all(db, sql!("seek_revision"), params![key, from.then, limit], |row| {
            let (id, version): (MessageId, u32) = (rows::id(row, 0, 1)?, row.get(2)?);
            let trace = if rows::name::<Tenant>(row, 3)? == *seeker.tenant() {
                let channel = rows::name(row, 5)?;
                let bond = seeker.bond(&body(db, &Spot::Revision(id.key(), version), row, 4)?);
                bond.map(|bond| Trace::Revision { id, version, channel, bond })
            } else {
                None
            };
            Ok(((id.key().0, i64::from(version)), trace))
        })?,
    };
    let places: Vec<(i64, i64)> = seen.iter().map(|(place, _)| *place).collect();
    let traces = seen.into_iter().filter_map(|(_, trace)| trace).collect();
    Ok(Sought { traces, next: next(from.room, &places, max) })
}

fn body(db: &Db, spot: &Spot<'_>, row: &Row<'_>, column: usize) -> rusqlite::Result<Body> {
    let body = rows::opened(db, spot, row, column)?;
    serde_json::from_slice(&body).map_err(|error| rows::broken(column, error))
}

/// Rewrites the file without what was removed from it, and empties its log: bytes that were erased are in neither.
///
/// Nothing else can be written meanwhile. The new file is made beside the old one, as large as what is left.
pub(super) fn sweep(db: &Connection, path: &Path) -> Result<(), StoreError> {
    // By default what is temporary is in memory, which a whole store is too large for.
    if let Some(folder) = path.parent().and_then(Path::to_str) {
        db.pragma_update(None, "temp_store_directory", folder)?;
    }
    db.pragma_update(None, "temp_store", "FILE")?;
    let done = db.execute_batch("VACUUM");
    db.pragma_update(None, "temp_store", "MEMORY")?;
    done?;
    for _ in 0..CUTS {
        let busy: bool = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if !busy {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err(StoreError::Unavailable(
        "somebody reads the store for long, so that its log cannot be cut".to_owned(),
    ))
}
