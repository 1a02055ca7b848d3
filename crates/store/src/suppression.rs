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

/// Reads what the shelf holds; nothing if a newer version wrote what this one does not understand.
pub fn read(doc: &Doc) -> Option<Suppression> {
    serde_json::from_str(&doc.leaf.body).ok()
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
    let doc = store.doc(Shelf::Suppression, tenant.clone(), place(family, &normalised)).await?;
    Ok(doc.as_ref().and_then(read))
}
