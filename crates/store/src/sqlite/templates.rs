//! Templates, and the attachments of messages.

use std::sync::Arc;

use pombo_kernel::attachment::{Blob, Digest};
use pombo_kernel::id::MessageKey;
use pombo_kernel::message::Actor;
use pombo_kernel::name::{TemplateName, Tenant};
use pombo_kernel::template::Template;
use pombo_kernel::time::Time;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::file::Db;
use super::{Sqlite, rows, sql};
use crate::vault::Spot;
use crate::walls::Walls;
use crate::{Put, Repeat, StoreError, TemplateVersion, transition};

impl Sqlite {
    pub(super) fn put_one_template(
        &mut self,
        tenant: &Tenant,
        name: &TemplateName,
        template: Template,
        by: &Actor,
        now: Time,
    ) -> Result<Put, StoreError> {
        let latest = versions(&self.file.db, tenant, name, None, 1)?.pop();
        let version = match latest {
            Some(latest) if latest.template == template => {
                return Ok(Put { stored: latest, repeat: Repeat::Same });
            }
            latest => latest.map_or(0, |latest| latest.version) + 1,
        };
        let body = rows::json(&template)?;
        self.write(
            sql!("template_put"),
            params![tenant.as_str(), name.as_str(), version, now.millis(), by.0, body],
        )?;
        self.record(transition::template_put(tenant, name, version, by, now));
        let stored =
            TemplateVersion { name: name.clone(), version, template, created_at: now, by: by.clone() };
        Ok(Put { stored, repeat: Repeat::First })
    }

    pub(super) fn put_blobs(&mut self, key: MessageKey, blobs: &[Blob]) -> Result<(), StoreError> {
        for blob in blobs {
            let vault = &self.file.db.vault;
            let name = vault.blob_name(&blob.digest);
            let there = self.file.db.prepare_cached(sql!("blob_get"))?.exists([name.as_slice()])?;
            if !there {
                let bytes = vault.seal(&Spot::Blob(&name), &*blob.bytes).into_owned();
                self.write(sql!("blob_put"), params![name.as_slice(), bytes])?;
            }
            self.write(sql!("blob_use"), params![name.as_slice(), key.0])?;
        }
        Ok(())
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<TemplateVersion> {
    Ok(TemplateVersion {
        name: rows::name(row, 0)?,
        version: row.get(1)?,
        created_at: rows::time(row, 2)?,
        by: Actor(row.get(3)?),
        template: rows::parsed(row, 4)?.unwrap_or_default(),
    })
}

fn counted(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

pub(super) fn one(
    db: &Connection,
    tenant: &Tenant,
    name: &TemplateName,
    version: Option<u32>,
) -> Result<Option<TemplateVersion>, StoreError> {
    let Some(version) = version else { return Ok(versions(db, tenant, name, None, 1)?.pop()) };
    let key = params![tenant.as_str(), name.as_str(), version];
    Ok(db.prepare_cached(sql!("template_get"))?.query_row(key, read).optional()?)
}

pub(super) fn latest(
    db: &Connection,
    tenant: &Tenant,
    after: Option<&TemplateName>,
    limit: usize,
) -> Result<Vec<TemplateVersion>, StoreError> {
    let after = after.map_or("", TemplateName::as_str);
    rows::all(db, sql!("template_latest"), params![tenant.as_str(), after, counted(limit)], read)
}

pub(super) fn versions(
    db: &Connection,
    tenant: &Tenant,
    name: &TemplateName,
    before: Option<u32>,
    limit: usize,
) -> Result<Vec<TemplateVersion>, StoreError> {
    let before = before.map_or(i64::MAX, i64::from);
    let place = params![tenant.as_str(), name.as_str(), before, counted(limit)];
    rows::all(db, sql!("template_versions"), place, read)
}

pub(super) fn blob(db: &Db, digest: Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
    let mut statement = db.prepare_cached(sql!("blob_get"))?;
    let name = db.vault.blob_name(&digest);
    let read = |row: &Row<'_>| Ok(Arc::from(rows::opened(db, &Spot::Blob(&name), row, 0)?));
    Ok(statement.query_row([name.as_slice()], read).optional()?)
}
