//! Alerts at the door: listed, shown, acknowledged and silenced.

use std::sync::Arc;

use http::StatusCode;
use pombo_kernel::alert::{Alert, Plan, RuleName, Severity, State, Subject};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::message::Actor;
use pombo_kernel::name::{NoticeName, Tenant};
use pombo_kernel::notice::Target;
use pombo_kernel::setup::Setup;
use pombo_kernel::time::Span;
use pombo_store::Store;
use pombo_store::audit::Event;
use pombo_store::shelf::{Expect, Pick, Shelf, Wanted};
use pombo_web::key::KeyDoc;
use pombo_web::{Patience, alert, notice};
use serde_json::{Value, json};

use crate::house::{House, NOW, key, setup};

fn wrong(text: &str) -> Alert {
    let body = json!({
        "rule": "breaker_open", "severity": "warning", "tenant": "default", "channel": "crm", "state": "firing",
        "first_seen": NOW, "fired_at": NOW, "last_seen": NOW, "above": 0.0, "value": 1.0, "peak": 1.0, "count": 1,
        "samples": [{"what": "crm.example", "text": text, "count": 1}], "told": 1, "told_at": NOW,
    });
    Alert::read(&body.to_string()).unwrap()
}

async fn put(house: &House, alert: &Alert, expect: Expect) -> String {
    let wish = alert::put(alert, expect, None, &Actor::engine(), NOW);
    let id = wish.id.clone();
    house.store.shelve(vec![wish]).await.unwrap();
    id
}

/// An alert about the channel `crm`.
pub(crate) async fn fired(house: &House, text: &str) -> String {
    put(house, &wrong(text), Expect::Nothing).await
}

/// One that is resolved.
pub(crate) async fn over(house: &House) -> String {
    let over = Alert { state: State::Resolved, resolved_at: Some(NOW), ..wrong("") };
    put(house, &over, Expect::Nothing).await
}

async fn ids(house: &House, query: &str) -> Vec<Value> {
    let page = house.get(&format!("/v1/alerts{query}")).await.json();
    page["items"].as_array().unwrap().iter().map(|item| item["id"].clone()).collect()
}

#[tokio::test] // REQ OB-4
async fn alerts_are_listed_by_state_rule_and_channel() {
    let house = House::new().await;
    let firing = fired(&house, "503").await;
    let over = Alert {
        rule: RuleName::DeadLetters,
        state: State::Resolved,
        fired_at: NOW - Span::from_hours(1),
        first_seen: NOW - Span::from_hours(1),
        resolved_at: Some(NOW),
        ..wrong("")
    };
    let over = put(&house, &over, Expect::Nothing).await;
    assert_eq!(ids(&house, "").await, [firing.clone(), over.clone()]);
    assert_eq!(ids(&house, "?state=firing").await, [json!(firing)]);
    assert_eq!(ids(&house, "?state=resolved").await, [json!(over)]);
    assert_eq!(ids(&house, "?rule=dead_letters").await, [over]);
    assert_eq!(ids(&house, "?channel=null").await, [] as [Value; 0]);
    for (query, field) in [("?state=loud", "state"), ("?rule=luck", "rule"), ("?channel=A", "channel")] {
        house.get(&format!("/v1/alerts{query}")).await.refused("INVALID_FIELD", field);
    }
    let seen = house.get(&format!("/v1/alerts/{firing}")).await.json();
    assert_eq!((&seen["state"], &seen["unit"]), (&json!("firing"), &json!("count")));
    assert!(seen["summary"].as_str().unwrap().contains("crm: a breaker is open"), "{seen}");
    assert_eq!(seen["samples"][0]["text"], "503");
    assert_eq!(seen["notices"], json!([]));
    assert_eq!(house.get("/v1/alerts/alr_1").await.code(), "NOT_FOUND");
    assert_eq!(house.get("/v1/alerts/first").await.code(), "NOT_FOUND");
}

#[tokio::test] // REQ OB-4
async fn whoever_acknowledges_is_on_record() {
    let house = House::new().await;
    let id = fired(&house, "503").await;
    let body = json!({"note": "they know"}).to_string();
    let reply = house.call_as("operator", "POST", &format!("/v1/alerts/{id}/acknowledge"), body).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    let by = json!({"by": "operator (key_operator)", "at": NOW, "note": "they know"});
    assert_eq!(reply.json()["acknowledged"], by);
    let records = house.store.audit(0, 100).await.unwrap();
    let (_, record) = records.iter().find(|(_, it)| it.event == Event::AlertAcknowledged).unwrap();
    assert_eq!((record.actor.as_str(), record.channel.as_str()), ("operator (key_operator)", "crm"));
    let detail: Value = serde_json::from_str(&record.detail).unwrap();
    assert_eq!((&detail["alert"], &detail["note"]), (&json!(id), &json!("they know")));
}

#[tokio::test] // REQ OB-4
async fn a_silence_lasts_as_long_as_it_was_asked_for_or_until_it_is_ended() {
    let house = House::new().await;
    let id = fired(&house, "503").await;
    let path = format!("/v1/alerts/{id}/silence");
    let reply = house.post(&path, &json!({"for": "2h", "note": "maintenance"})).await.json();
    assert_eq!(reply["silenced"]["until"], json!(NOW + Span::from_hours(2)));
    let until = NOW + Span::from_hours(5);
    assert_eq!(house.post(&path, &json!({"until": until})).await.json()["silenced"]["until"], json!(until));
    let ended = house.post(&format!("/v1/alerts/{id}/unsilence"), &json!({})).await.json();
    assert_eq!(ended["silenced"], Value::Null);
    house.post(&path, &json!({"for": "1m"})).await;
    house.clock.pass(Span::from_mins(1));
    assert_eq!(house.get(&format!("/v1/alerts/{id}")).await.json()["silenced"], Value::Null);
    for (body, field) in [
        (json!({}), "for"),
        (json!({"for": "soon"}), "for"),
        (json!({"for": "2horas"}), "for"),
        (json!({"for": "31d"}), "for"),
        (json!({"until": NOW}), "until"),
        (json!({"for": "1h", "until": until}), "until"),
        (json!({"for": "1h", "colour": 1}), "colour"),
    ] {
        house.post(&path, &body).await.refused("INVALID_FIELD", field);
    }
}

#[tokio::test]
async fn a_length_of_time_that_cannot_be_read_is_told_from_one_that_is_too_long() {
    let house = House::new().await;
    let path = format!("/v1/alerts/{}/silence", fired(&house, "503").await);
    for (given, reason, hint) in
        [("2horas", "is not a length of time", "2h"), ("31d", "is not within the next 30 days", "2h")]
    {
        let reply = house.post(&path, &json!({"for": given})).await.json();
        let errors = reply["errors"].as_array().unwrap();
        assert_eq!(errors.len(), 1, "{reply}");
        assert_eq!((&errors[0]["field"], &errors[0]["reason"]), (&json!("for"), &json!(reason)));
        assert!(errors[0]["hint"].as_str().unwrap().contains(hint), "{reply}");
    }
}

#[tokio::test]
async fn one_that_is_over_needs_no_answer() {
    let house = House::new().await;
    let id = over(&house).await;
    for (verb, body) in
        [("acknowledge", json!({})), ("silence", json!({"for": "1h"})), ("unsilence", json!({}))]
    {
        let reply = house.post(&format!("/v1/alerts/{id}/{verb}"), &body).await;
        assert_eq!((reply.status, reply.code().as_str()), (StatusCode::CONFLICT, "ALERT_RESOLVED"));
    }
}

fn told(channel: &str) -> Setup {
    let name: NoticeName = "ops".parse().unwrap();
    let target = Target {
        name: name.clone(),
        channel: channel.parse().unwrap(),
        to: "https://canary.example/secret".to_owned(),
        min_severity: Severity::Critical,
        fallback: None,
        patience: Span::from_mins(2),
        language: Default::default(),
    };
    let mut plan = Plan { targets: [(name, target)].into(), ..Plan::default() };
    plan.rules.remove(&RuleName::DiskLow);
    Setup { alerts: Arc::new(plan), ..setup() }
}

#[tokio::test]
async fn the_rules_say_what_they_go_by_and_who_is_told_but_not_where() {
    let house = House::with(told("crm"), Patience::default()).await;
    let reply = house.call_as("viewer", "GET", "/v1/alerts/rules", "").await;
    let rules = reply.json();
    let of =
        |name: &str| rules["items"].as_array().unwrap().iter().find(|it| it["rule"] == name).unwrap().clone();
    assert_eq!(rules["items"].as_array().unwrap().len(), RuleName::ALL.len());
    assert_eq!(of("failure_rate")["notify"], json!(["ops"]));
    assert_eq!(of("dead_letters")["notify"], json!([]), "a warning is not for them");
    assert_eq!(
        (of("failure_rate")["above"].as_f64(), of("failure_rate")["unit"].as_str()),
        (Some(0.1), Some("share"))
    );
    assert_eq!(of("disk_low")["enabled"], false);
    assert!(!reply.text.contains("canary"));
}

#[tokio::test]
async fn a_test_is_owed_to_whom_it_is_for() {
    assert_eq!(setup().channels["crm"].kind, ChannelKind::Webhook);
    let house = House::with(told("crm"), Patience::default()).await;
    let reply = house.post("/v1/alerts/test", &json!({"notice": "ops"})).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED, "{}", reply.text);
    assert_eq!(reply.json()["notices"][0]["to"], "ops");
    let pick = Pick::Due { from: NOW, until: NOW + Span::from_secs(1), after: None };
    let wanted = Wanted { shelf: Shelf::Alert, tenant: Some(Tenant::default()), pick, limit: 10 };
    let docs = house.store.docs(wanted).await.unwrap();
    assert_eq!(docs.len(), 1);
    assert_eq!(notice::read(&docs[0]).unwrap().letter.data["type"], "alert.test");
    house.post("/v1/alerts/test", &json!({"notice": "opps"})).await.refused("INVALID_FIELD", "notice");
}

/// Keys for the channel `crm`, for another one, and the alert ids: about `crm`, about `null`, about no channel, and one of
/// the tenant `other`.
async fn several() -> (House, [String; 4]) {
    let house = House::new().await;
    for (name, channel) in [("of-crm", "crm"), ("of-null", "null")] {
        let channels = Some(vec![channel.parse().unwrap()]);
        house.add_key("default", &KeyDoc { channels, ..key(name, "operator") }).await;
    }
    let about = |tenant: &str, channel: Option<&str>| {
        let channel = channel.map(|name| name.parse().unwrap());
        let subject = Subject { tenant: tenant.parse().unwrap(), channel, detail: None };
        Alert { subject, ..wrong("503") }
    };
    let mut ids = Vec::new();
    for alert in [
        about("default", Some("crm")),
        about("default", Some("null")),
        about("default", None),
        about("other", Some("theirs")),
    ] {
        ids.push(put(&house, &alert, Expect::Nothing).await);
    }
    (house, ids.try_into().unwrap())
}

#[tokio::test] // REQ SE-1
async fn a_key_finds_the_alerts_of_its_tenant_and_channels_and_no_others() {
    let (house, [crm, null, whole, theirs]) = several().await;
    for (who, seen) in [
        ("operator", vec![&crm, &null, &whole]),
        ("of-crm", vec![&crm]),
        ("of-null", vec![&null]),
        ("foreign", vec![&theirs]),
    ] {
        for query in ["", "?state=firing"] {
            let page = house.call_as(who, "GET", &format!("/v1/alerts{query}"), "").await.json();
            let mut found: Vec<_> =
                page["items"].as_array().unwrap().iter().map(|it| it["id"].clone()).collect();
            found.sort_by_key(ToString::to_string);
            let mut seen: Vec<_> = seen.iter().map(|id| json!(id)).collect();
            seen.sort_by_key(ToString::to_string);
            assert_eq!(found, seen, "{who}{query}");
        }
        for id in [&crm, &null, &whole, &theirs] {
            let status = match seen.contains(&id) {
                true => StatusCode::OK,
                false => StatusCode::NOT_FOUND,
            };
            let reply = house.call_as(who, "GET", &format!("/v1/alerts/{id}"), "").await;
            assert_eq!(reply.status, status, "{who} {id}: {}", reply.text);
            for (verb, body) in [("acknowledge", "{}"), ("silence", r#"{"for": "1h"}"#), ("unsilence", "{}")]
            {
                let reply = house.call_as(who, "POST", &format!("/v1/alerts/{id}/{verb}"), body).await;
                assert_eq!(reply.status, status, "{who} {verb} {id}: {}", reply.text);
            }
        }
    }
}
