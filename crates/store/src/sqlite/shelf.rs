//! Documents beside the messages.

use pombo_kernel::name::Tenant;
use pombo_kernel::time::Time;
use rusqlite::{OptionalExtension, Row, params};

use super::file::Db;
use super::{Sqlite, rows, sql};
use crate::StoreError;
use crate::shelf::{Doc, Leaf, Pick, Shelf, Shelve, Shelved, Wanted, after_every_id};
use crate::walls::Walls;

impl Sqlite {
    pub(super) fn shelve_one(&mut self, wish: &Shelve, now: Time) -> Result<Shelved, StoreError> {
        let found = one(&self.file.db, wish.shelf, &wish.tenant, &wish.id)?;
        let version = found.as_ref().map(|found| found.version);
        if !wish.expect.fits(version) {
            return Ok(Shelved::Conflict(found));
        }
        let (shelf, tenant, id) = (wish.shelf as u8, wish.tenant.as_str(), &wish.id);
        let mut version = version.unwrap_or(0);
        match &wish.leaf {
            None => {
                let stored = self.file.db.vault.doc_id(wish.shelf, &wish.tenant, id).into_owned();
                self.write(sql!("doc_delete"), params![shelf, tenant, stored])?;
                self.board.shelved(wish.shelf, &wish.tenant, id, None, now);
            }
            Some(leaf) => {
                version += 1;
                let (tenant, id) = (wish.tenant.clone(), wish.id.clone());
                let doc = Doc { tenant, id, version, updated_at: now, leaf: leaf.clone() };
                self.write_doc(wish.shelf, &doc)?;
                self.board.shelved(wish.shelf, &doc.tenant, &doc.id, Some(&doc), now);
            }
        }
        if let Some(record) = &wish.record {
            self.ledger.shelved(&wish.tenant, record.event);
            self.record(record.clone());
        }
        Ok(Shelved::Done { version })
    }

    pub(super) fn write_doc(&mut self, shelf: Shelf, doc: &Doc) -> Result<(), StoreError> {
        let Leaf { order, topic, due, body } = &doc.leaf;
        let (tenant, due, at) = (doc.tenant.as_str(), due.map(Time::millis), doc.updated_at.millis());
        let vault = &self.file.db.vault;
        let id = vault.doc_id(shelf, &doc.tenant, &doc.id).into_owned();
        let body = vault.seal_doc(shelf, &doc.tenant, (&doc.id, &id), body).into_owned();
        let values = params![shelf as u8, tenant, id, doc.version, order, topic, due, at, body];
        self.write(sql!("doc_put"), values)?;
        Ok(())
    }
}

/// A row: tenant, id, version, rank, topic, due, updated_at, body.
fn read(db: &Db, shelf: Shelf, row: &Row<'_>) -> rusqlite::Result<Doc> {
    let tenant = rows::name(row, 0)?;
    let opened = db.vault.open_doc(shelf as u8, &tenant, row.get(1)?, row.get(7)?);
    let (id, body) = opened.map_err(|error| rows::broken(7, error))?;
    Ok(Doc {
        tenant,
        id,
        version: row.get(2)?,
        updated_at: rows::time(row, 6)?,
        leaf: Leaf {
            order: row.get(3)?,
            topic: row.get(4)?,
            due: row.get::<_, Option<i64>>(5)?.map(Time::from_millis),
            body,
        },
    })
}

pub(super) fn one(db: &Db, shelf: Shelf, tenant: &Tenant, id: &str) -> Result<Option<Doc>, StoreError> {
    let mut statement = db.prepare_cached(sql!("doc_get"))?;
    let id = db.vault.doc_id(shelf, tenant, id);
    let place = params![shelf as u8, tenant.as_str(), id];
    Ok(statement.query_row(place, |row| read(db, shelf, row)).optional()?)
}

/// All documents of a shelf, whoever's.
pub(super) fn every(db: &Db, shelf: Shelf) -> Result<Vec<Doc>, StoreError> {
    rows::all(db, sql!("doc_all"), params![shelf as u8, i64::MAX], |row| read(db, shelf, row))
}

pub(super) fn some(db: &Db, wanted: &Wanted) -> Result<Vec<Doc>, StoreError> {
    let read = |row: &Row<'_>| read(db, wanted.shelf, row);
    let shelf = wanted.shelf as u8;
    let tenant = wanted.tenant.as_ref().map(Tenant::as_str);
    let limit = i64::try_from(wanted.limit).unwrap_or(i64::MAX);
    let after = |after: &Option<(i64, String)>| match (after, &wanted.tenant) {
        (None, _) => (i64::MAX, after_every_id()),
        (Some((order, id)), None) => (*order, id.clone()),
        (Some((order, id)), Some(tenant)) => (*order, db.vault.doc_id(wanted.shelf, tenant, id).into_owned()),
    };
    match &wanted.pick {
        Pick::All { after: None } if tenant.is_none() => {
            rows::all(db, sql!("doc_all"), params![shelf, limit], read)
        }
        Pick::All { after: place } => {
            let (order, id) = after(place);
            rows::all(db, sql!("doc_page"), params![shelf, tenant, order, id, limit], read)
        }
        Pick::Topic { topic, after: place } => {
            let (order, id) = after(place);
            rows::all(db, sql!("doc_topic"), params![shelf, tenant, topic, order, id, limit], read)
        }
        Pick::Due { from, until, after } => {
            let (due, id) = after.clone().unwrap_or((Time::from_millis(i64::MIN), String::new()));
            let from = from.max(&due);
            let values = params![shelf, tenant, from.millis(), until.millis(), due.millis(), id, limit];
            rows::all(db, sql!("doc_due"), values, read)
        }
    }
}
