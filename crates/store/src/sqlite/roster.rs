//! Whom campaigns write to.

use pombo_kernel::campaign::recipient::{Listed, Standing};
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::message::{Json, Message};
use pombo_kernel::name::{CampaignName, Tenant};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::file::Db;
use super::{Sqlite, rows, shelf, sql};
use crate::StoreError;
use crate::courses::{Courses, Placed};
use crate::roster::{Enlisted, Recipient, Roster};
use crate::rows::whole;
use crate::shelf::{Doc, Shelf};
use crate::vault::Spot;

impl Courses for Sqlite {
    fn locked_doc(&mut self, shelf: Shelf, tenant: &Tenant, id: &str) -> Result<Option<Doc>, StoreError> {
        shelf::one(&self.file.db, shelf, tenant, id)
    }

    fn put_doc(&mut self, shelf: Shelf, doc: &Doc) -> Result<(), StoreError> {
        self.write_doc(shelf, doc)
    }

    fn insert_recipients(
        &mut self,
        tenant: &Tenant,
        campaign: &CampaignName,
        from: u64,
        lines: &[Listed],
    ) -> Result<Vec<Enlisted>, StoreError> {
        let list = match find(&self.file.db, tenant, campaign)? {
            Some(list) => list,
            None => {
                self.write(sql!("roster_insert"), params![tenant.as_str(), campaign.as_str()])?;
                self.file.db.last_insert_rowid()
            }
        };
        let mut number = from;
        let mut became = Vec::with_capacity(lines.len());
        for listed in lines {
            let (to, payload, standing, reason) = match &listed.of {
                Ok(person) => (&person.to, person.payload.as_ref().map(Json::text), Standing::Pending, None),
                Err(no) => (&no.to, None, Standing::Invalid, Some(&no.reason)),
            };
            let (number_now, line, standing) = (whole(number), whole(listed.line), standing.code());
            let (vault, key) = (&self.file.db.vault, listed.key());
            let to = vault.seal_address(&Spot::Address(tenant, campaign, number), to, &key).into_owned();
            let spot = Spot::Payload(tenant, campaign, number);
            let payload = payload.map(|text| vault.seal_text(&spot, text).into_owned());
            let person = vault.person(tenant, &key).into_owned();
            let values = params![list, number_now, line, to, person, payload, standing, reason];
            let inserted = self.write(sql!("recipient_insert"), values)?;
            became.push(match (inserted, &listed.of) {
                (0, _) => Enlisted::Duplicate,
                (_, Ok(_)) => Enlisted::Added,
                (_, Err(_)) => Enlisted::Invalid,
            });
            number += inserted as u64;
        }
        Ok(became)
    }

    fn pending_among(
        &mut self,
        tenant: &Tenant,
        campaign: &CampaignName,
        numbers: &[u64],
    ) -> Result<Vec<u64>, StoreError> {
        let list = find(&self.file.db, tenant, campaign)?;
        let mut pending = Vec::new();
        for number in numbers {
            let standing: Option<u8> =
                self.one(sql!("recipient_standing"), params![list, whole(*number)], |row| row.get(0))?;
            if standing == Some(Standing::Pending.code()) {
                pending.push(*number);
            }
        }
        Ok(pending)
    }

    fn place_recipients(
        &mut self,
        tenant: &Tenant,
        campaign: &CampaignName,
        placed: &[Placed],
    ) -> Result<(), StoreError> {
        let list = find(&self.file.db, tenant, campaign)?;
        for Placed { number, standing, message, reason } in placed {
            let (key, nonce) = (message.map(|id| id.key().0), message.map(MessageId::nonce));
            let values = params![list, whole(*number), standing.code(), reason, key, nonce];
            self.write(sql!("recipient_place"), values)?;
        }
        Ok(())
    }

    fn mark_recipient(
        &mut self,
        message: &Message,
        standing: Standing,
        reason: Option<&str>,
    ) -> Result<(), StoreError> {
        self.write(sql!("recipient_mark"), params![message.id.key().0, standing.code(), reason])?;
        Ok(())
    }
}

impl Sqlite {
    pub(super) fn strike_some(
        &mut self,
        tenant: &Tenant,
        campaign: &CampaignName,
        max: usize,
    ) -> Result<usize, StoreError> {
        if shelf::one(&self.file.db, Shelf::Campaign, tenant, campaign.as_str())?.is_some() {
            return Ok(0);
        }
        let Some(list) = find(&self.file.db, tenant, campaign)? else { return Ok(0) };
        self.write(sql!("recipient_strike"), params![list, i64::try_from(max).unwrap_or(i64::MAX)])
    }
}

fn find(db: &Connection, tenant: &Tenant, campaign: &CampaignName) -> Result<Option<i64>, StoreError> {
    let mut statement = db.prepare_cached(sql!("roster_find"))?;
    Ok(statement.query_row(params![tenant.as_str(), campaign.as_str()], |row| row.get(0)).optional()?)
}

/// number, line, address, payload, standing, reason, message, nonce
fn read(db: &Db, roster: &Roster, row: &Row<'_>) -> rusqlite::Result<Recipient> {
    let wrong = |column| rusqlite::Error::IntegralValueOutOfRange(column, 0);
    let number = row.get::<_, i64>(0)?.unsigned_abs();
    let address = Spot::Address(&roster.tenant, &roster.campaign, number);
    let to = db.vault.open_address(&address, row.get(2)?).map_err(|error| rows::broken(2, error))?;
    let payload = Spot::Payload(&roster.tenant, &roster.campaign, number);
    let payload = rows::opened_text(db, &payload, row, 3)?;
    let payload = payload.map(|text| Json::from_text(text).map_err(|_| wrong(3))).transpose()?;
    let message = match (row.get(6)?, row.get(7)?) {
        (Some(key), Some(nonce)) => Some(MessageId::new(MessageKey(key), nonce)),
        _ => None,
    };
    Ok(Recipient {
        number,
        line: row.get::<_, i64>(1)?.unsigned_abs(),
        to,
        payload,
        standing: Standing::from_code(row.get(4)?).ok_or_else(|| wrong(4))?,
        reason: row.get(5)?,
        message,
    })
}

pub(super) fn page(db: &Db, roster: &Roster) -> Result<Vec<Recipient>, StoreError> {
    let read = |row: &Row<'_>| read(db, roster, row);
    let Some(list) = find(db, &roster.tenant, &roster.campaign)? else { return Ok(Vec::new()) };
    let (after, limit) = (whole(roster.after), i64::try_from(roster.limit).unwrap_or(i64::MAX));
    match roster.standing {
        None => rows::all(db, sql!("recipient_page"), params![list, after, limit], read),
        Some(standing) => {
            let values = params![list, after, limit, standing.code()];
            rows::all(db, sql!("recipient_page_by_standing"), values, read)
        }
    }
}
