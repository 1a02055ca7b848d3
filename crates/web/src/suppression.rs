//! Suppressions as documents: where the entry on a person is, and how one is put there.
//!
//! An entry is kept under a digest of whom it is about, so that each person has one, and goes by a random id: whoever
//! reads the audit can guess no phone number from it.

use pombo_kernel::kind::ChannelKind;
use pombo_kernel::message::{Actor, Body, Draft, StateName};
use pombo_kernel::name::Tenant;
use pombo_kernel::request::{Code, Problem};
use pombo_kernel::setup::{Setup, Suppressions};
use pombo_kernel::suppression::{Family, Suppression};
use pombo_store::audit::Event;
use pombo_store::shelf::{Doc, Expect, Leaf, Shelf, Shelve};
use pombo_store::transition::act_of;
use pombo_store::{Cancelled, Filter, Store, StoreError};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::key::hex;

/// Messages that are looked at together.
const PAGE: usize = 100;

/// An id for a new entry, of random bytes.
pub fn new_id(random: [u8; 32]) -> String {
    format!("sup_{}", hex(&random[..16]))
}

/// Where the entry on a person is, if there is one.
pub fn place(kind: Family, normalised: &str) -> String {
    hex(&Sha256::digest(format!("{kind}\n{}", kind.person(normalised))))
}

/// Reads what the shelf holds; nothing if a newer version wrote what this one does not understand.
pub fn read(doc: &Doc) -> Option<Suppression> {
    serde_json::from_str(&doc.leaf.body).ok()
}

/// A wish to put an entry there, if there is none on that person yet.
pub fn put(tenant: &Tenant, entry: &Suppression) -> Shelve {
    let by = Actor(entry.created_by.clone());
    // Who it is, where it is known from and what is noted of it may be personal.
    let detail = json!({"suppression": entry.id, "kind": entry.kind, "reason": entry.reason});
    let leaf = Leaf {
        order: entry.created_at.millis(),
        topic: Some(entry.id.clone()),
        due: None,
        body: serde_json::to_string(entry).unwrap_or_default(),
    };
    Shelve {
        shelf: Shelf::Suppression,
        tenant: tenant.clone(),
        id: place(entry.kind, &entry.recipient),
        expect: Expect::Nothing,
        leaf: Some(leaf),
        record: Some(act_of(Event::SuppressionPut, tenant, &by, &detail, entry.created_at)),
    }
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

/// Calls back what campaigns have waiting for somebody who was put on the list; how much there was. What is being sent
/// goes on.
pub async fn call_back(store: &dyn Store, tenant: &Tenant, entry: &Suppression) -> Result<usize, StoreError> {
    let by = Actor(entry.created_by.clone());
    let mut addresses = vec![entry.recipient.clone()];
    let person = entry.kind.person(&entry.recipient);
    if entry.kind == Family::Whatsapp && !person.contains('@') {
        addresses.push(format!("+{person}"));
    }
    addresses.dedup();
    let mut called_back = 0;
    for recipient in addresses {
        let state = Some(StateName::Pending);
        let filter =
            Filter { tenant: tenant.clone(), state, recipient: Some(recipient), ..Filter::default() };
        let mut before = None;
        loop {
            let page = store.page(filter.clone(), before, PAGE).await?;
            for line in page.lines.iter().filter(|line| line.message.queue.campaign.is_some()) {
                let done = store.cancel(tenant.clone(), line.message.id, by.clone()).await?;
                called_back += usize::from(done == Cancelled::Done);
            }
            before = page.next;
            if before.is_none() {
                break;
            }
        }
    }
    Ok(called_back)
}

/// What keeps these messages from being accepted, the first of it: somebody whom they would reach is on the list, and
/// their channel minds that for every message. Other channels cost nothing here.
pub async fn stops(
    store: &dyn Store,
    setup: &Setup,
    drafts: &[Draft],
) -> Result<Option<Problem>, StoreError> {
    for draft in drafts {
        let Some(channel) = setup.channels.get(&draft.queue.channel) else { continue };
        if channel.suppressions != Suppressions::All {
            continue;
        }
        for (field, to) in reached(&draft.body) {
            if let Some(entry) = of(store, &draft.queue.tenant, channel.kind, &to).await? {
                return Ok(Some(Problem {
                    code: Code::Suppressed,
                    field: field.into(),
                    reason: format!("is on the suppression list, by the reason {}", entry.reason),
                    hint: "take them off the list with `pombo suppressions remove`; a message that they must have all the \
                           same says `\"override_suppression\": true` to POST /v1/messages"
                        .to_owned(),
                }));
            }
        }
    }
    Ok(None)
}

/// Everybody whom a message would reach, by field: the one it is to, then others whom its content names.
pub fn reached(body: &Body) -> Vec<(&'static str, String)> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Others {
        cc: Few,
        bcc: Few,
        also_to: Few,
    }
    /// Addresses, as content may write them.
    #[derive(Default, Deserialize)]
    #[serde(untagged)]
    enum Few {
        #[default]
        Nobody,
        One(String),
        Many(Vec<String>),
    }
    let content = body.content.as_ref();
    let Others { cc, bcc, also_to } =
        content.and_then(|content| serde_json::from_str(content.text()).ok()).unwrap_or_default();
    let named = |field: &'static str, some: Few| {
        let list = match some {
            Few::Nobody => Vec::new(),
            Few::One(one) => vec![one],
            Few::Many(many) => many,
        };
        list.into_iter().map(move |to| (field, to))
    };
    let to = std::iter::once(("to", body.to.clone()));
    to.chain(named("content.also_to", also_to))
        .chain(named("content.cc", cc))
        .chain(named("content.bcc", bcc))
        .collect()
}
