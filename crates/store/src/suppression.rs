//! Where the suppression list has the entry on a person.
//!
//! It is kept under a digest of whom it is about, so that each person has one.

use pombo_kernel::kind::ChannelKind;
use pombo_kernel::name::Tenant;
use pombo_kernel::suppression::{Family, Suppression};
use sha2::{Digest, Sha256};

use crate::moving::hex;
use crate::shelf::{Doc, Shelf};
use crate::{Store, StoreError};

/// Where the entry on a person is, if there is one.
pub fn place(kind: Family, normalised: &str) -> String {
    hex(&Sha256::digest(format!("{kind}\n{}", kind.person(normalised))))
}

/// Where the entry is of a person who was erased: a keyed hash, and nothing there says who it was.
pub fn hidden_place(store: &dyn Store, tenant: &Tenant, kind: Family, normalised: &str) -> String {
    let hash = store.pseudonyms().hash(tenant, Some(kind), &kind.person(normalised));
    hidden(&hash)
}

/// The same, by the hash alone.
pub fn hidden(hash: &str) -> String {
    format!("erased-{hash}")
}

/// Reads what the shelf holds; nothing if a newer version wrote what this one does not understand.
pub fn read(doc: &Doc) -> Option<Suppression> {
    serde_json::from_str(&doc.leaf.body).ok()
}

/// The document on a person, also on one who was erased.
async fn on(
    store: &dyn Store,
    tenant: &Tenant,
    kind: Family,
    normalised: &str,
) -> Result<Option<Doc>, StoreError> {
    let doc = store.doc(Shelf::Suppression, tenant.clone(), place(kind, normalised)).await?;
    if doc.is_some() {
        return Ok(doc);
    }
    store.doc(Shelf::Suppression, tenant.clone(), hidden_place(store, tenant, kind, normalised)).await
}

/// The entry on whoever is reached by that address through channels of that kind.
pub async fn of(
    store: &dyn Store,
    tenant: &Tenant,
    kind: ChannelKind,
    to: &str,
) -> Result<Option<Suppression>, StoreError> {
    let Some(family) = Family::of(kind) else { return Ok(None) };
    let Some(normalised) = family.normalised(to) else { return Ok(None) };
    Ok(on(store, tenant, family, &normalised).await?.as_ref().and_then(read))
}
