//! Suppressions as documents: how one is put on the list, and whom the list stops at the door.
//!
//! An entry goes by a random id: whoever reads the audit can guess no phone number from it.

use pombo_kernel::message::{Actor, Draft};
use pombo_kernel::name::Tenant;
use pombo_kernel::request::{Code, Problem};
use pombo_kernel::setup::{Setup, Suppressions};
use pombo_kernel::suppression::Suppression;
pub use pombo_kernel::suppression::reached;
use pombo_store::audit::Event;
use pombo_store::shelf::{Expect, Leaf, Shelf, Shelve};
pub use pombo_store::suppression::{hidden, hidden_place, of, place, read};
use pombo_store::transition::act_of;
use pombo_store::{Store, StoreError};
use serde_json::json;

use crate::key::hex;

/// An id for a new entry, of random bytes.
pub fn new_id(random: [u8; 32]) -> String {
    format!("sup_{}", hex(&random[..16]))
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

/// What keeps these messages from being accepted, the first of it: somebody whom they would reach is on the list, and
/// their channel minds that for every message. Other channels cost nothing here, and a repeat under an idempotency key is
/// left to the store to answer.
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
                if is_repeat(store, draft).await? {
                    break;
                }
                return Ok(Some(Problem {
                    code: Code::Suppressed,
                    field: field.into(),
                    reason: format!("is on the suppression list, by the reason {}", entry.reason),
                    hint: "take them off the list with `pombo suppressions remove --to ADDRESS`; a message that they must have all the \
                           same says `\"override_suppression\": true` to POST /v1/messages"
                        .to_owned(),
                }));
            }
        }
    }
    Ok(None)
}

/// Whether it was accepted before: nothing more is sent by it, and its caller is to hear what was heard then.
async fn is_repeat(store: &dyn Store, draft: &Draft) -> Result<bool, StoreError> {
    let Some(given) = draft.idempotency.clone() else { return Ok(false) };
    Ok(store.first(draft.queue.tenant.clone(), given).await?.is_some())
}
