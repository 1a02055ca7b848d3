//! Documents beside the messages.
//!
//! Each change is one statement that says what it expects, so that of two nodes with the same document one waits for
//! the other's commit and then finds what that one left. Two groups that have the same documents the other way round
//! meet, and one of them is told to begin again.

use pombo_kernel::name::Tenant;
use pombo_kernel::time::Time;

use super::link::{Row, Step, Value};
use super::{Postgres, rows, sql};
use crate::StoreError;
use crate::shelf::{Doc, Expect, Leaf, Pick, Shelf, Shelve, Shelved, Wanted, after_every_id};
use crate::vault::Vault;

impl Postgres {
    pub(super) fn shelve_one(&mut self, wish: &Shelve, now: Time) -> Result<Shelved, StoreError> {
        let course = matches!(wish.shelf, Shelf::Campaign | Shelf::Line);
        if course && self.docs.has_news() {
            // What the group has made of it by now.
            self.flush(now)?;
        }
        let changed = match change(&self.vault, wish, now) {
            Some((sql, values)) => self.ask_one(sql, values)?,
            None => Vec::new(),
        };
        let mut version = changed.first().map(|row| rows::number::<i32, u32>(row, 0)).transpose()?;
        if version.is_none() {
            let (sql, values) = one(&self.vault, wish.shelf, &wish.tenant, &wish.id);
            let found = self.ask_one(sql, values)?;
            let found = found.first().map(|row| read(&self.vault, wish.shelf, row)).transpose()?;
            if !wish.expect.fits(found.as_ref().map(|found| found.version)) {
                return Ok(Shelved::Conflict(found));
            }
            if found.is_some() || wish.leaf.is_some() {
                // It came, or went, after we looked for it.
                return Err(StoreError::Again("a document has just changed".into()));
            }
            version = Some(0);
        }
        if let Some(record) = &wish.record {
            self.ledger.shelved(&wish.tenant, record.event);
            self.record(record.clone());
        }
        let version = version.unwrap_or(0);
        if course {
            let (tenant, id) = (wish.tenant.clone(), wish.id.clone());
            let leaf = wish.leaf.clone();
            let doc = leaf.map(|leaf| Doc { tenant, id, version, updated_at: now, leaf });
            self.keep_doc((wish.shelf, wish.tenant.clone(), wish.id.clone()), doc, now);
            self.leaves_work = true;
        }
        Ok(Shelved::Done { version })
    }
}

/// What makes the change and answers with its version, or with nothing if something else is there than expected. To
/// remove nothing takes no statement.
fn change(vault: &Vault, wish: &Shelve, now: Time) -> Option<Step> {
    let id = vault.doc_id(wish.shelf, &wish.tenant, &wish.id);
    let mut values = place(wish.shelf, &wish.tenant, &id);
    let Some(leaf) = &wish.leaf else {
        let version = match wish.expect {
            Expect::Nothing => return None,
            Expect::Version(version) => Some(numbered(version)),
            Expect::Any => None,
        };
        values.push(version.into());
        return Some((sql!("doc_delete"), values));
    };
    values.extend([
        leaf.order.into(),
        leaf.topic.as_deref().map(rows::escaped).into(),
        leaf.due.map(Time::millis).into(),
        now.millis().into(),
        rows::escaped(&vault.seal_doc(wish.shelf, &wish.tenant, (&wish.id, &id), &leaf.body)).into(),
    ]);
    Some(match wish.expect {
        Expect::Nothing => (sql!("doc_insert"), values),
        Expect::Any => (sql!("doc_put"), values),
        Expect::Version(version) => {
            values.push(numbered(version).into());
            (sql!("doc_change"), values)
        }
    })
}

pub(super) fn place(shelf: Shelf, tenant: &Tenant, id: &str) -> Vec<Value> {
    vec![(shelf as i16).into(), tenant.as_str().into(), rows::escaped(id).into()]
}

/// A version as a column holds it.
pub(super) fn numbered(version: u32) -> i32 {
    i32::try_from(version).unwrap_or(i32::MAX)
}

/// Asks for a document.
pub(super) fn one(vault: &Vault, shelf: Shelf, tenant: &Tenant, id: &str) -> Step {
    (sql!("doc_get"), place(shelf, tenant, &vault.doc_id(shelf, tenant, id)))
}

/// Asks for documents. Escaping keeps the order of ids.
pub(super) fn some(vault: &Vault, wanted: &Wanted) -> Step {
    let limit = i64::try_from(wanted.limit).unwrap_or(i64::MAX);
    let tenant = wanted.tenant.as_ref().map(Tenant::as_str);
    let mut values: Vec<Value> = vec![(wanted.shelf as i16).into()];
    let sql = match &wanted.pick {
        Pick::All { after: None } if tenant.is_none() => sql!("doc_all"),
        Pick::All { after } => {
            values.push(tenant.into());
            values.extend(after_place(vault, wanted, after.as_ref()));
            sql!("doc_page")
        }
        Pick::Topic { topic, after } => {
            values.extend([tenant.into(), rows::escaped(topic).into()]);
            values.extend(after_place(vault, wanted, after.as_ref()));
            sql!("doc_topic")
        }
        Pick::Due { from, until, after } => {
            let (due, id) = after.as_ref().map_or((i64::MIN, ""), |(due, id)| (due.millis(), id));
            values.extend([
                tenant.into(),
                from.millis().max(due).into(),
                until.millis().into(),
                due.into(),
                rows::escaped(id).into(),
            ]);
            sql!("doc_due")
        }
    };
    values.push(limit.into());
    (sql, values)
}

/// The place in a shelf's order after which a page begins.
fn after_place(vault: &Vault, wanted: &Wanted, after: Option<&(i64, String)>) -> [Value; 2] {
    match after {
        Some((order, id)) => {
            let tenant = wanted.tenant.as_ref();
            let id = tenant.map_or(id.into(), |tenant| vault.doc_id(wanted.shelf, tenant, id));
            [(*order).into(), rows::escaped(&id).into()]
        }
        None => [i64::MAX.into(), after_every_id().into()],
    }
}

/// A row: tenant, id, version, rank, topic, due, updated_at, body.
pub(super) fn read(vault: &Vault, shelf: Shelf, row: &Row) -> Result<Doc, StoreError> {
    let tenant = rows::name(row, 0)?;
    let (id, body) = vault.open_doc(shelf as u8, &tenant, rows::text(row, 1)?, rows::text(row, 7)?)?;
    Ok(Doc {
        tenant,
        id,
        version: rows::number::<i32, u32>(row, 2)?,
        updated_at: rows::time(row, 6)?,
        leaf: Leaf {
            order: rows::get(row, 3)?,
            topic: rows::some_text(row, 4)?,
            due: rows::some_time(row, 5)?,
            body,
        },
    })
}
