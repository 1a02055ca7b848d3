//! API keys as they are kept: documents on their shelf, without the key itself.
//!
//! A document's id on the shelf is the key's digest in hexadecimal, its topic is the key's public id, and its order the
//! time at which it was made. The key that the first start makes is the exception: its place has a name that every node
//! knows, so that of two nodes that start at once one makes it, and its digest stands in the document.

use std::collections::BTreeMap;

use pombo_kernel::name::{ChannelName, Tenant};
use pombo_kernel::time::Time;
use pombo_store::audit::Record;
use pombo_store::shelf::{Doc, Expect, Leaf, Shelf, Shelve};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::auth::Role;

/// The place of the key that a store's first start makes.
pub const FIRST: &str = "first";

/// What the store keeps of a key.
pub fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// Everything about a key but the key.
///
/// Whatever a newer version writes here is kept as it is, so that an older node which notes when a key was last used
/// takes nothing away.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeyDoc {
    /// `key_` and hexadecimal digits: how people and the audit name it.
    pub id: String,
    /// A role by its name; one that this version does not know opens nothing.
    pub role: String,
    #[serde(default)]
    pub label: String,
    /// The channels that it may see and use; all of its tenant if none are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<Vec<ChannelName>>,
    /// Which channel serves requests that name only a kind, by the name of the kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub defaults: BTreeMap<String, ChannelName>,
    /// Whether it may see persons whom its role hides; left to its role if nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reveal: Option<bool>,
    pub created_at: Time,
    #[serde(default)]
    pub created_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Time>,
    /// The id of the key whose place it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    /// The id of the key that took its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
    /// `environment` for the one that the server's environment names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// A digest of the request that made it, where that had an idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The key's digest, where the place is not named by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// What this version does not know.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Whether a key opens anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Active,
    Expired,
    Revoked,
}

impl Standing {
    pub fn as_str(self) -> &'static str {
        match self {
            Standing::Active => "active",
            Standing::Expired => "expired",
            Standing::Revoked => "revoked",
        }
    }
}

impl KeyDoc {
    /// Reads what a shelf holds; nothing if it cannot be understood.
    pub fn read(doc: &Doc) -> Option<KeyDoc> {
        serde_json::from_str(&doc.leaf.body).ok()
    }

    /// What must be asked of a key for it to be this one.
    pub fn digest(&self, doc: &Doc) -> Option<[u8; 32]> {
        unhex(self.digest.as_deref().unwrap_or(&doc.id))
    }

    pub fn known_role(&self) -> Option<Role> {
        self.role.parse().ok()
    }

    /// Whether it may see persons whom its role hides. Whoever works on messages may, unless somebody said otherwise.
    pub fn may_reveal(&self) -> bool {
        let usual = matches!(self.known_role(), Some(Role::Operator | Role::Admin));
        self.reveal.unwrap_or(usual)
    }

    pub fn standing(&self, now: Time) -> Standing {
        match (self.revoked_at, self.expires_at) {
            (Some(_), _) => Standing::Revoked,
            (None, Some(at)) if at <= now => Standing::Expired,
            _ => Standing::Active,
        }
    }

    /// Whether it opens the doors of an admin now.
    pub fn administers(&self, now: Time) -> bool {
        self.role == Role::Admin.as_str() && self.standing(now) == Standing::Active
    }

    pub fn leaf(&self) -> Leaf {
        Leaf {
            order: self.created_at.millis(),
            topic: Some(self.id.clone()),
            due: None,
            body: serde_json::to_string(self).unwrap_or_default(),
        }
    }

    /// A wish to put the document at that place.
    pub fn shelved(&self, tenant: &Tenant, place: &str, expect: Expect, record: Option<Record>) -> Shelve {
        Shelve {
            shelf: Shelf::Key,
            tenant: tenant.clone(),
            id: place.to_owned(),
            expect,
            leaf: Some(self.leaf()),
            record,
        }
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doc(id: &str, body: &str) -> Doc {
        let leaf = Leaf { order: 1, topic: None, due: None, body: body.to_owned() };
        Doc { tenant: Tenant::default(), id: id.to_owned(), version: 1, updated_at: Time::default(), leaf }
    }

    #[test]
    fn a_key_is_found_by_the_name_of_its_place_or_by_the_digest_that_it_states() {
        let digest = digest("pombo_x");
        let body = r#"{"id":"key_1","role":"admin","created_at":"2026-01-31T10:20:30.000Z"}"#;
        let plain = doc(&hex(&digest), body);
        assert_eq!(KeyDoc::read(&plain).unwrap().digest(&plain), Some(digest));
        let stated = KeyDoc { digest: Some(hex(&digest)), ..KeyDoc::read(&plain).unwrap() };
        assert_eq!(stated.digest(&doc(FIRST, "{}")), Some(digest));
        assert_eq!(KeyDoc::read(&plain).unwrap().digest(&doc(FIRST, "{}")), None);
        assert_eq!(unhex(&"é".repeat(32)), None);
    }

    #[test]
    fn what_a_newer_version_wrote_survives_an_older_one() {
        let body = r#"{"id":"key_1","role":"sentry","created_at":"2026-01-31T10:20:30.000Z","networks":["10.0.0.0/8"]}"#;
        let key = KeyDoc::read(&doc("x", body)).unwrap();
        assert_eq!(key.known_role(), None);
        let again: Value = serde_json::from_str(&key.leaf().body).unwrap();
        assert_eq!(again["networks"][0], "10.0.0.0/8");
    }

    #[test]
    fn a_key_ends_at_its_expiry_and_for_good_when_it_is_revoked() {
        let at = Time::from_millis;
        let key = KeyDoc { expires_at: Some(at(10)), role: "admin".to_owned(), ..KeyDoc::default() };
        assert_eq!(key.standing(at(9)), Standing::Active);
        assert!(key.administers(at(9)));
        assert_eq!(key.standing(at(10)), Standing::Expired);
        assert!(!key.administers(at(10)));
        let revoked = KeyDoc { revoked_at: Some(at(3)), ..key };
        assert_eq!(revoked.standing(at(20)), Standing::Revoked);
    }
}
