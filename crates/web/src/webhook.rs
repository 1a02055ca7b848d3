//! Webhooks as they are kept: subscriptions on their shelf, and what the audit says of their changes.

use pombo_kernel::content;
use pombo_kernel::message::Actor;
use pombo_kernel::name::Tenant;
use pombo_kernel::subscription::{Disabled, Subscription};
use pombo_kernel::time::Time;
use pombo_store::audit::Event;
use pombo_store::shelf::{Doc, Expect, Leaf, Shelf, Shelve};
use pombo_store::transition::act_of;
use pombo_store::{Store, StoreError};
use serde_json::json;

use crate::shelf;

/// A wish to put a webhook there, where that is expected. `change` says in a word what is done to it.
pub fn put(
    tenant: &Tenant,
    id: &str,
    subscription: &Subscription,
    expect: Expect,
    (change, by, now): (&str, &Actor, Time),
) -> Shelve {
    // The host alone: the rest of an address can hold a secret.
    let detail = json!({ "webhook": id, "change": change, "host": content::host(&subscription.url) });
    let (order, body) = (subscription.created_at.millis(), subscription.written());
    Shelve {
        shelf: Shelf::Webhook,
        tenant: tenant.clone(),
        id: id.to_owned(),
        expect,
        leaf: Some(Leaf { order, topic: None, due: None, body }),
        record: Some(act_of(Event::WebhookPut, tenant, by, &detail, now)),
    }
}

/// Changes a webhook as `wish` does, anew if somebody else changed it meanwhile; the change is named by a word, and
/// nothing is changed if there is none. None if there is no such webhook.
pub async fn change(
    store: &dyn Store,
    tenant: &Tenant,
    id: &str,
    by: &Actor,
    now: Time,
    wish: impl Fn(&Doc, &mut Subscription) -> Option<&'static str>,
) -> Result<Option<(Doc, Subscription)>, StoreError> {
    let found = store.doc(Shelf::Webhook, tenant.clone(), id.to_owned()).await?;
    shelf::change(store, found, |doc| {
        let Some(doc) = doc else { return Ok((None, None)) };
        let Some(mut subscription) = Subscription::read(&doc.leaf.body) else { return Ok((None, None)) };
        let Some(what) = wish(doc, &mut subscription) else {
            return Ok((None, Some((doc.clone(), subscription))));
        };
        let wanted = put(tenant, id, &subscription, Expect::Version(doc.version), (what, by, now));
        let changed = Doc { version: doc.version + 1, updated_at: now, ..doc.clone() };
        Ok((Some(wanted), Some((changed, subscription))))
    })
    .await
}

/// Tells it nothing more, since its receiver said so in an attempt that began then, unless somebody changed it after
/// that: the receiver may be another by now.
pub async fn gone(
    store: &dyn Store,
    tenant: &Tenant,
    id: &str,
    began: Time,
    now: Time,
) -> Result<bool, StoreError> {
    const WHY: &str = "its receiver answered 410: it wants no more of these";
    let by = Actor::engine();
    let disable = |doc: &Doc, subscription: &mut Subscription| {
        if subscription.disabled.is_some() || doc.updated_at > began {
            return None;
        }
        subscription.disabled = Some(Disabled { at: now, reason: WHY.to_owned() });
        Some("disabled")
    };
    let found = change(store, tenant, id, &by, now, disable).await?;
    Ok(found.is_some_and(|(_, subscription)| subscription.disabled.is_some_and(|it| it.at == now)))
}
