//! Templates, and the attachments of messages.

use std::collections::{BTreeMap, BTreeSet};

use pombo_kernel::attachment::Blob;
use pombo_kernel::id::MessageKey;
use pombo_kernel::message::Actor;
use pombo_kernel::name::{TemplateName, Tenant};
use pombo_kernel::template::Template;
use pombo_kernel::time::Time;

use super::link::{Row, Step};
use super::{Postgres, rows, sql};
use crate::vault::Spot;
use crate::{Put, Repeat, StoreError, TemplateVersion, transition};

impl Postgres {
    /// Two nodes that put the same template at the same moment go one after the other, so that versions have no gaps
    /// and the second sees what the first said.
    pub(super) fn put_one_template(
        &mut self,
        tenant: &Tenant,
        name: &TemplateName,
        template: Template,
        by: &Actor,
        now: Time,
    ) -> Result<Put, StoreError> {
        self.begin()?;
        let lock = (sql!("template_lock"), vec![tenant.as_str().into(), name.as_str().into()]);
        let found = self.link().pipeline(vec![lock, one(tenant, name, None)])?.pop().unwrap_or_default();
        let latest = found.first().map(version).transpose()?;
        let version = match latest {
            Some(latest) if latest.template == template => {
                return Ok(Put { stored: latest, repeat: Repeat::Same });
            }
            latest => latest.map_or(0, |latest| latest.version) + 1,
        };
        let values = vec![
            tenant.as_str().into(),
            name.as_str().into(),
            numbered(version).into(),
            now.millis().into(),
            rows::escaped(&by.0).into(),
            rows::json(&template)?.into(),
        ];
        self.link().query(sql!("template_put"), values)?;
        self.record(transition::template_put(tenant, name, version, by, now));
        let stored =
            TemplateVersion { name: name.clone(), version, template, created_at: now, by: by.clone() };
        Ok(Put { stored, repeat: Repeat::First })
    }

    /// Stores the attachments of messages that are being accepted. Those that are there already do not travel again.
    ///
    /// In the order of their digests, so that two nodes with the same ones do not wait for each other in a circle.
    pub(super) fn put_blobs(&mut self, uses: &[(MessageKey, Blob)]) -> Result<(), StoreError> {
        if uses.is_empty() {
            return Ok(());
        }
        self.begin()?;
        let named: Vec<([u8; 32], MessageKey, &Blob)> =
            uses.iter().map(|(key, blob)| (self.vault.blob_name(&blob.digest), *key, blob)).collect();
        let mut missing: BTreeMap<&[u8], &Blob> =
            named.iter().map(|(name, _, blob)| (name.as_slice(), *blob)).collect();
        let digests: Vec<&[u8]> = missing.keys().copied().collect();
        for row in &self.link().query(sql!("blob_has"), vec![digests.into()])? {
            missing.remove(rows::get::<&[u8]>(row, 0)?);
        }
        let uses: BTreeSet<(&[u8], i64)> =
            named.iter().map(|(name, key, _)| (name.as_slice(), key.0)).collect();
        let (digests, keys): (Vec<_>, Vec<_>) = uses.into_iter().unzip();
        let mut steps: Vec<Step> = missing
            .into_iter()
            .map(|(name, blob)| {
                let bytes = self.vault.seal(&Spot::Blob(name), &*blob.bytes).into_owned();
                (sql!("blob_put"), vec![name.into(), bytes.into()])
            })
            .collect();
        steps.push((sql!("blob_use"), vec![digests.into(), keys.into()]));
        self.link().pipeline(steps)?;
        Ok(())
    }
}

/// A version as a column holds it.
fn numbered(version: u32) -> i32 {
    i32::try_from(version).unwrap_or(i32::MAX)
}

/// A row: name, version, created_at, actor, body.
pub(super) fn version(row: &Row) -> Result<TemplateVersion, StoreError> {
    Ok(TemplateVersion {
        name: rows::name(row, 0)?,
        version: rows::number::<i32, u32>(row, 1)?,
        created_at: rows::time(row, 2)?,
        by: Actor(rows::text(row, 3)?),
        template: rows::parsed(row, 4)?.unwrap_or_default(),
    })
}

/// Asks for a version, the latest if none is named.
pub(super) fn one(tenant: &Tenant, name: &TemplateName, version: Option<u32>) -> Step {
    let Some(version) = version else { return versions(tenant, name, None, 1) };
    let values = vec![tenant.as_str().into(), name.as_str().into(), numbered(version).into()];
    (sql!("template_get"), values)
}

/// Asks for the versions before one, the newest first.
pub(super) fn versions(tenant: &Tenant, name: &TemplateName, before: Option<u32>, limit: i64) -> Step {
    let before = before.map_or(i32::MAX, numbered);
    (
        sql!("template_versions"),
        vec![tenant.as_str().into(), name.as_str().into(), before.into(), limit.into()],
    )
}
