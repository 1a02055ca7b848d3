//! Alerts as they are kept: documents on their shelf, and what the audit says of their changes.

use pombo_kernel::alert::Alert;
use pombo_kernel::message::Actor;
use pombo_kernel::time::Time;
use pombo_store::audit::{Event, Record};
use pombo_store::shelf::{Doc, Expect, Leaf, Shelf, Shelve};
use pombo_store::transition::act_of;
use serde_json::json;

/// How the id of an alert begins.
pub(crate) const PREFIX: &str = "alr_";
/// The topic of all alerts.
pub(crate) const TOPIC: &str = "alert";

/// An alert; nothing if the document is something else.
pub fn read(doc: &Doc) -> Option<Alert> {
    doc.id.starts_with(PREFIX).then(|| Alert::read(&doc.leaf.body)).flatten()
}

/// A wish to put an alert there, where that is expected, with what the audit says of it if something happened.
pub fn put(alert: &Alert, expect: Expect, event: Option<Event>, by: &Actor, now: Time) -> Shelve {
    let id = alert.id();
    let leaf = Leaf {
        order: alert.fired_at.millis(),
        topic: Some(TOPIC.to_owned()),
        due: (alert.is_firing() || alert.owes.is_some()).then_some(alert.fired_at),
        body: serde_json::to_string(alert).unwrap_or_default(),
    };
    let record = event.map(|event| record(event, &id, alert, by, now));
    Shelve { shelf: Shelf::Alert, tenant: alert.subject.tenant.clone(), id, expect, leaf: Some(leaf), record }
}

fn record(event: Event, id: &str, alert: &Alert, by: &Actor, now: Time) -> Record {
    let mut detail = json!({
        "alert": id,
        "rule": alert.rule,
        "severity": alert.severity,
        "value": alert.value,
        "above": alert.above,
        "first_seen": alert.first_seen,
    });
    let mut say = |name: &str, value: serde_json::Value| {
        if !value.is_null() {
            detail[name] = value;
        }
    };
    say("about", json!(alert.subject.detail));
    match event {
        Event::AlertAcknowledged => {
            say("note", json!(alert.acknowledged.as_ref().and_then(|it| it.note.as_ref())));
        }
        Event::AlertSilenced => {
            say("until", json!(alert.silenced.as_ref().map(|it| it.until)));
            say("note", json!(alert.silenced.as_ref().and_then(|it| it.note.as_ref())));
        }
        _ => {}
    }
    let channel = alert.subject.channel.as_ref().map(ToString::to_string).unwrap_or_default();
    Record { channel, ..act_of(event, &alert.subject.tenant, by, &detail, now) }
}
