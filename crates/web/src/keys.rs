//! Making keys.

use pombo_kernel::message::Actor;
use pombo_kernel::name::Tenant;
use pombo_kernel::time::Time;
use pombo_store::audit::{Event, Record};
use pombo_store::shelf::{Doc, Expect, Pick, Shelf, Shelved, Wanted};
use pombo_store::transition::act_of;
use pombo_store::{Store, StoreError};
use serde_json::json;

use crate::auth::Role;
use crate::key::{FIRST, KeyDoc, digest, hex};
use crate::shelf;

/// Where keys come from that nobody can guess: 256 bits at a time.
pub type Entropy = dyn Fn() -> [u8; 32] + Send + Sync;

/// Marks the key that the server's environment names.
const ENVIRONMENT: &str = "environment";

/// A new key: what its holder gets to see, once.
pub(crate) fn new_text(entropy: &Entropy) -> String {
    format!("pombo_{}", hex(&entropy()))
}

/// A new public id.
pub(crate) fn new_id(entropy: &Entropy) -> String {
    format!("key_{}", hex(&entropy()[..8]))
}

/// What the audit says of a change to a key.
pub(crate) fn record(event: Event, tenant: &Tenant, by: &Actor, key: &KeyDoc, at: Time) -> Record {
    let expires_at = key.expires_at.map(Time::millis);
    let detail = json!({
        "key": key.id, "role": key.role, "label": key.label, "channels": key.channels, "expires_at": expires_at,
        "reveal": key.reveal,
        "replaces": key.replaces, "replaced_by": key.replaced_by,
    });
    let detail = match detail {
        serde_json::Value::Object(mut members) => {
            members.retain(|_, value| !value.is_null());
            serde_json::Value::Object(members)
        }
        other => other,
    };
    act_of(event, tenant, by, &detail, at)
}

/// Sees to it that somebody can administer this store, and gives back the key that it had to make.
///
/// A key that is `given` is added unless it is there, and takes the place of the one that was given before, which ends.
/// One that was revoked stays so. Without a given one, a key is made only for a store that has none; of several nodes
/// that start at once, one makes it. Only a digest is kept, so a made key can be shown once and never again.
pub async fn ensure_admin(
    store: &dyn Store,
    given: Option<&str>,
    entropy: &Entropy,
    now: Time,
) -> Result<Option<String>, StoreError> {
    let house = Tenant::default();
    let by = Actor("pombo".to_owned());
    let base = KeyDoc {
        id: new_id(entropy),
        role: Role::Admin.as_str().to_owned(),
        label: "admin".to_owned(),
        created_at: now,
        created_by: by.0.clone(),
        ..KeyDoc::default()
    };
    let Some(given) = given else {
        let any = Wanted { shelf: Shelf::Key, tenant: None, pick: Pick::All { after: None }, limit: 1 };
        if !store.docs(any).await?.is_empty() {
            return Ok(None);
        }
        let text = new_text(entropy);
        let key = KeyDoc { digest: Some(hex(&digest(&text))), ..base };
        let record = record(Event::KeyAdded, &house, &by, &key, now);
        let done = shelf::put(store, key.shelved(&house, FIRST, Expect::Nothing, Some(record))).await?;
        return Ok(matches!(done, Shelved::Done { .. }).then_some(text));
    };
    let given = digest(given);
    let own = all(store, &house).await?;
    match own.iter().find(|(doc, key)| key.digest(doc) == Some(given)) {
        Some((_, key)) if key.revoked_at.is_some() => {
            tracing::warn!(key_id = key.id, "POMBO_ADMIN_KEY is a key that was revoked; set another one");
            return Ok(None);
        }
        Some(_) => {}
        None => {
            let key = KeyDoc { origin: Some(ENVIRONMENT.to_owned()), ..base };
            let record = record(Event::KeyAdded, &house, &by, &key, now);
            // Whoever put it there meanwhile was given the same one.
            shelf::put(store, key.shelved(&house, &hex(&given), Expect::Nothing, Some(record))).await?;
        }
    }
    for (doc, key) in own {
        if key.origin.as_deref() == Some(ENVIRONMENT) && key.digest(&doc) != Some(given) {
            tracing::info!(key_id = key.id, "POMBO_ADMIN_KEY was changed; the one before is revoked");
            revoke(store, doc, &by, now).await?;
        }
    }
    Ok(None)
}

/// Ends a key for good, unless that was done before; the document as it is then.
pub(crate) async fn revoke(store: &dyn Store, doc: Doc, by: &Actor, now: Time) -> Result<KeyDoc, StoreError> {
    change(store, doc, |doc, key| {
        let revoked = KeyDoc { revoked_at: Some(now), revoked_by: Some(by.0.clone()), ..key.clone() };
        let record = record(Event::KeyRemoved, &doc.tenant, by, &revoked, now);
        key.revoked_at.is_none().then_some((revoked, record))
    })
    .await
}

/// Changes a key as `wish` says, anew if somebody else changed it meanwhile; nothing if it wishes for nothing.
pub(crate) async fn change(
    store: &dyn Store,
    doc: Doc,
    wish: impl Fn(&Doc, &KeyDoc) -> Option<(KeyDoc, Record)>,
) -> Result<KeyDoc, StoreError> {
    shelf::change(store, Some(doc), |doc| {
        let found = doc.and_then(|doc| Some((doc, KeyDoc::read(doc)?)));
        let (doc, key) = found.ok_or_else(|| StoreError::Again("a key is gone".to_owned()))?;
        let Some((changed, record)) = wish(doc, &key) else { return Ok((None, key)) };
        let expect = Expect::Version(doc.version);
        Ok((Some(changed.shelved(&doc.tenant, &doc.id, expect, Some(record))), changed))
    })
    .await
}

/// All keys of a tenant that can be read.
pub(crate) async fn all(store: &dyn Store, tenant: &Tenant) -> Result<Vec<(Doc, KeyDoc)>, StoreError> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let limit = 500;
        let pick = Pick::All { after: after.take() };
        let docs =
            store.docs(Wanted { shelf: Shelf::Key, tenant: Some(tenant.clone()), pick, limit }).await?;
        let full = docs.len() == limit;
        after = docs.last().map(|doc| (doc.leaf.order, doc.id.clone()));
        found.extend(docs.into_iter().filter_map(|doc| KeyDoc::read(&doc).map(|key| (doc, key))));
        if !full {
            return Ok(found);
        }
    }
}
