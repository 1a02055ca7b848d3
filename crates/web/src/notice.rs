//! Notices as they are kept: what people are still to be told, on its shelf.

use pombo_kernel::notice::Notice;
use pombo_store::shelf::{Doc, Expect, Leaf, Shelf, Shelve};
use sha2::{Digest, Sha256};

use crate::key::hex;

/// How the id of a notice begins.
const PREFIX: &str = "ntc_";

/// A wish to tell somebody. The same key is the same notice, however often it is put there.
pub fn owe(key: &str, notice: &Notice) -> Shelve {
    let id = format!("{PREFIX}{}", hex(&Sha256::digest(key.as_bytes())[..16]));
    wish(id, Expect::Nothing, notice)
}

/// A wish to change it from what was read.
pub fn change(doc: &Doc, notice: &Notice) -> Shelve {
    wish(doc.id.clone(), Expect::Version(doc.version), notice)
}

/// A notice; nothing if the document is something else.
pub fn read(doc: &Doc) -> Option<Notice> {
    doc.id.starts_with(PREFIX).then(|| Notice::read(&doc.leaf.body)).flatten()
}

fn wish(id: String, expect: Expect, notice: &Notice) -> Shelve {
    let leaf = Leaf {
        order: notice.created_at.millis(),
        topic: Some(notice.about.clone()),
        due: (!notice.is_over()).then_some(notice.created_at),
        body: serde_json::to_string(notice).unwrap_or_default(),
    };
    Shelve { shelf: Shelf::Alert, tenant: notice.tenant.clone(), id, expect, leaf: Some(leaf), record: None }
}
