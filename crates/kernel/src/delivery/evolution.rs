//! Evolution's receipts: what WhatsApp said of a message after Evolution had taken it.

use serde_json::Value;

use super::{Delivery, Report};

const ID_BYTES_MAX: usize = 256;
/// Evolution passes on neither the code nor the words of such a failure.
const REFUSED_LATER: &str =
    "WhatsApp refused it after Evolution had taken it: most often the account is restricted";
const FAILED_AT_META: &str = "Meta could not deliver it; its own console says why";

/// What a webhook of Evolution says of messages of ours; nothing if it is about something else.
///
/// Receipts for groups, lists and channels are left out: one member's tick is not everybody's. The time is not
/// taken over, since Evolution writes its local time and calls it UTC.
pub fn reports(body: &Value) -> Vec<Report> {
    let event = body.get("event").and_then(Value::as_str).unwrap_or_default();
    // Written `messages.update`, `MESSAGES_UPDATE`, or as in the path of its own, `messages-update`.
    if event.to_ascii_lowercase().replace(['_', '-'], ".") != "messages.update" {
        return Vec::new();
    }
    match body.get("data") {
        Some(Value::Array(updates)) => updates.iter().filter_map(report).collect(),
        Some(update) => report(update).into_iter().collect(),
        None => Vec::new(),
    }
}

fn report(update: &Value) -> Option<Report> {
    let words = |name: &str| update.get(name).and_then(Value::as_str).unwrap_or_default();
    let ours = update.get("fromMe").is_none_or(|from_me| from_me.is_null() || *from_me == true);
    let shared = ["@g.us", "@broadcast", "@newsletter"].iter().any(|end| words("remoteJid").ends_with(end));
    let id = words("keyId");
    if !ours || shared || !(1..=ID_BYTES_MAX).contains(&id.len()) {
        return None;
    }
    let (delivery, detail) = match words("status").to_ascii_uppercase().as_str() {
        // 2.3.7 also says this when it was told nothing; it claims little enough.
        "SERVER_ACK" | "SENT" => (Delivery::Accepted, None),
        "DELIVERY_ACK" | "DELIVERED" => (Delivery::Delivered, None),
        "READ" | "PLAYED" => (Delivery::Read, None),
        "ERROR" => (Delivery::Failed, Some(REFUSED_LATER)),
        "FAILED" => (Delivery::Failed, Some(FAILED_AT_META)),
        // `PENDING` is Evolution's own, and `DELETED` stood for an update without a status.
        _ => return None,
    };
    Some(Report { provider_id: id.to_owned(), delivery, detail: detail.map(str::to_owned), at: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn update(status: &str) -> Value {
        json!({"keyId": "3EB0AA", "remoteJid": "5511987654321@s.whatsapp.net", "fromMe": true, "status": status,
            "participant": "5511987654321@s.whatsapp.net", "instanceId": "i", "messageId": "cm4row"})
    }

    fn told(event: &str, data: &Value) -> Vec<(String, Delivery)> {
        let body = json!({"event": event, "instance": "clinic", "data": data, "apikey": null,
            "date_time": "2026-11-16T00:00:00.000Z", "destination": "https://pombo.example/v1/receipts/whatsapp"});
        reports(&body).into_iter().map(|report| (report.provider_id, report.delivery)).collect()
    }

    #[test] // REQ ML-9
    fn every_status_has_its_meaning() {
        for (status, expected) in [
            ("ERROR", Some(Delivery::Failed)),
            ("PENDING", None),
            ("SERVER_ACK", Some(Delivery::Accepted)),
            ("DELIVERY_ACK", Some(Delivery::Delivered)),
            ("READ", Some(Delivery::Read)),
            ("PLAYED", Some(Delivery::Read)),
            ("DELETED", None),
            ("SENT", Some(Delivery::Accepted)),
            ("DELIVERED", Some(Delivery::Delivered)),
            ("FAILED", Some(Delivery::Failed)),
            ("", None),
            ("NEW_WORD", None),
        ] {
            let expected: Vec<_> = expected.into_iter().map(|it| ("3EB0AA".to_owned(), it)).collect();
            assert_eq!(told("messages.update", &update(status)), expected, "{status}");
        }
    }

    #[test]
    fn the_event_may_be_written_in_three_ways_and_hold_one_update_or_many() {
        for event in ["messages.update", "MESSAGES_UPDATE", "messages-update"] {
            assert_eq!(told(event, &update("READ")).len(), 1, "{event}");
            assert_eq!(told(event, &json!([update("READ"), update("PENDING"), update("READ")])).len(), 2);
        }
        for event in ["messages.upsert", "connection.update", "send.message", ""] {
            assert_eq!(told(event, &update("READ")), [], "{event}");
        }
    }

    #[test]
    fn only_messages_of_ours_to_one_person_count() {
        let with = |name: &str, value: Value| {
            let mut update = update("READ");
            update[name] = value;
            told("messages.update", &update).len()
        };
        assert_eq!(with("fromMe", Value::Null), 1);
        assert_eq!(with("fromMe", json!(false)), 0);
        assert_eq!(with("fromMe", json!("yes")), 0);
        assert_eq!(with("remoteJid", json!("1203630@g.us")), 0);
        assert_eq!(with("remoteJid", json!("status@broadcast")), 0);
        assert_eq!(with("remoteJid", json!("77@lid")), 1);
        assert_eq!(with("keyId", json!("")), 0);
        assert_eq!(with("keyId", json!(7)), 0);
        assert_eq!(with("keyId", json!("x".repeat(257))), 0);
        let bare = json!({"keyId": "3EB0AA", "status": "READ"});
        assert_eq!(told("messages.update", &bare).len(), 1);
    }

    #[test]
    fn a_failure_says_where_to_look_and_no_time_is_believed() {
        let body =
            json!({"event": "messages.update", "data": update("ERROR"), "date_time": "2026-11-16T00:00:00Z"});
        let report = reports(&body).remove(0);
        assert!(report.detail.is_some_and(|detail| detail.contains("restricted")));
        assert_eq!(report.at, None);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let name = prop_oneof![
            Just("event".to_owned()),
            Just("data".into()),
            Just("keyId".into()),
            Just("status".into()),
            Just("fromMe".into()),
            ".{0,4}",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            prop_oneof![Just("messages.update"), Just("READ"), Just("3EB0")].prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::btree_map(name.clone(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_body_makes_it_panic_and_every_report_has_an_id(body in any_json(), data in any_json()) {
            let known = json!({"event": "messages.update", "data": data});
            for report in reports(&body).into_iter().chain(reports(&known)) {
                prop_assert!(!report.provider_id.is_empty());
            }
        }
    }
}
