//! Operations as documents: how they are put on their shelf, changed there and read.

use std::collections::BTreeMap;
use std::str::FromStr;

use pombo_kernel::message::Actor;
use pombo_kernel::name::Tenant;
use pombo_kernel::operation::{Operation, State};
use pombo_kernel::retention::{Kept, Rules, Wish};
use pombo_kernel::setup::Setup;
use pombo_kernel::time::{Span, Time};
use pombo_store::audit::{Event, Record};
use pombo_store::shelf::{Doc, Expect, Leaf, Shelf, Shelve};
use pombo_store::transition;
use serde_json::{Value, json};

/// Reads what the shelf holds; nothing if a newer version wrote what this one does not understand.
pub fn read(doc: &Doc) -> Option<Operation> {
    serde_json::from_str(&doc.leaf.body).ok()
}

/// A wish to put a new operation there.
pub fn begin(tenant: &Tenant, id: String, operation: &Operation) -> Shelve {
    let record = record(Event::OperationStarted, tenant, &id, operation, &operation.by, operation.created_at);
    wish(tenant, id, Expect::Nothing, operation, Some(record))
}

/// A wish to change it from what was read. Its end goes to the audit, in the name of whoever ended it.
pub fn change(doc: &Doc, operation: &Operation, by: &Actor, now: Time) -> Shelve {
    let ended = !operation.is_running() && doc.leaf.due.is_some();
    let record = ended.then(|| record(Event::OperationEnded, &doc.tenant, &doc.id, operation, by, now));
    wish(&doc.tenant, doc.id.clone(), Expect::Version(doc.version), operation, record)
}

/// What is kept when an operation that removes messages, with this filter, is done; else which part of the filter is wrong,
/// how, and what to do.
pub fn prune_rules(
    filter: &BTreeMap<String, String>,
    setup: &Setup,
) -> Result<Rules, (&'static str, &'static str, &'static str)> {
    fn read<T: FromStr>(filter: &BTreeMap<String, String>, name: &str) -> Option<Option<T>> {
        filter.get(name).map(|text| text.parse().ok())
    }
    let channel = match read(filter, "channel") {
        Some(None) => return Err(("channel", "is not the name of a channel", "GET /v1/channels lists them")),
        named => named.flatten(),
    };
    let state = filter.get("state").map(|text| Kept::STATES.into_iter().find(|state| state.as_str() == text));
    if state == Some(None) {
        return Err(("state", "is no end of a message", "sent, failed, cancelled or discarded"));
    }
    let older_than: Option<Span> = match read(filter, "older_than") {
        Some(None) => return Err(("older_than", "is not a time", "for example 90d")),
        given => given.flatten(),
    };
    let kinds = setup.channels.iter().map(|(name, channel)| (name.clone(), channel.kind)).collect();
    let wish = Wish { channel, state: state.flatten(), older_than };
    wish.rules(&setup.retention, &kinds).map_err(|why| ("older_than", why, "keep them for longer"))
}

fn wish(
    tenant: &Tenant,
    id: String,
    expect: Expect,
    operation: &Operation,
    record: Option<Record>,
) -> Shelve {
    let leaf = Leaf {
        order: operation.created_at.millis(),
        topic: None,
        due: operation.due(),
        body: serde_json::to_string(operation).unwrap_or_default(),
    };
    Shelve { shelf: Shelf::Operation, tenant: tenant.clone(), id, expect, leaf: Some(leaf), record }
}

/// What the audit says of it. Recipients and references stay out.
fn record(event: Event, tenant: &Tenant, id: &str, operation: &Operation, by: &Actor, now: Time) -> Record {
    let mut detail = json!({"operation": id, "kind": operation.kind, "state": operation.state.as_str()});
    let mut say = |name: &str, value: Value| {
        if !value.is_null() {
            detail[name] = value;
        }
    };
    for name in [
        "channel",
        "cause",
        "category",
        "lane",
        "campaign",
        "type",
        "template",
        "since",
        "until",
        "older_than",
        "dry_run",
    ] {
        say(name, json!(operation.filter.get(name)));
    }
    say("channel", json!(operation.channel));
    say("note", json!(operation.note));
    say("total", json!(operation.total));
    if event == Event::OperationEnded {
        say("done", json!(operation.done));
        say("skipped", json!(operation.skipped));
    }
    if let State::Halted { reason, .. } = &operation.state {
        say("reason", json!(reason));
    }
    transition::act_of(event, tenant, by, &detail, now)
}
