use std::collections::BTreeSet;

use axum::body::Body;
use futures_util::future::join_all;
use http::StatusCode;
use pombo_kernel::guard::Guard;
use pombo_kernel::message::StateName;
use pombo_kernel::name::Tenant;
use pombo_kernel::subscription::Subscription;
use pombo_kernel::time::Span;
use pombo_store::Store;
use pombo_store::audit::Event;
use pombo_store::shelf::Shelf;
use pombo_web::{Patience, webhook};
use serde_json::{Value, json};

use crate::house::{House, NOW, setup};

const URL: &str = "https://crm.example/hook";

impl House {
    async fn webhook(&self, changes: &Value) -> Value {
        let mut wish = json!({ "url": URL });
        for (field, value) in changes.as_object().unwrap() {
            wish[field] = value.clone();
        }
        let made = self.post("/v1/webhooks", &wish).await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
        made.json()
    }

    async fn patch(&self, id: &str, changes: &Value) -> Value {
        let changed = self.call("PATCH", &format!("/v1/webhooks/{id}"), changes.to_string()).await;
        assert_eq!(changed.status, StatusCode::OK, "{}", changed.text);
        changed.json()
    }

    async fn subscription(&self, id: &str) -> Subscription {
        let doc = self.store.doc(Shelf::Webhook, Tenant::default(), id.to_owned()).await.unwrap();
        Subscription::read(&doc.unwrap().leaf.body).unwrap()
    }
}

fn id(webhook: &Value) -> &str {
    webhook["id"].as_str().unwrap()
}

#[tokio::test] // REQ ML-7, SE-2
async fn a_webhook_is_made_and_its_secret_is_shown_once() {
    let house = House::new().await;
    let made = house.webhook(&json!({"description": "CRM", "channels": ["crm"]})).await;
    assert!(id(&made).starts_with("whk_"));
    let secret = made["secret"].as_str().unwrap();
    assert!(secret.starts_with("whsec_") && secret.len() == 6 + 44, "{secret}");
    assert_eq!(made["enabled"], true);
    assert_eq!(
        made["events"],
        json!(["message.sent", "message.failed", "message.cancelled", "message.discarded"])
    );
    assert_eq!((&made["channels"], &made["description"]), (&json!(["crm"]), &json!("CRM")));
    let shown = house.get(&format!("/v1/webhooks/{}", id(&made))).await;
    assert_eq!(shown.json()["created_by"], "admin (key_admin)");
    let listed = house.get("/v1/webhooks").await;
    assert_eq!(listed.json()["items"].as_array().unwrap().len(), 1);
    for text in [shown.text, listed.text] {
        assert!(!text.contains(&secret[6..]), "{text}");
    }
    let audit = house.store.audit(0, 100).await.unwrap();
    let (_, record) = audit.iter().find(|(_, record)| record.event == Event::WebhookPut).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&record.detail).unwrap(),
        json!({"webhook": id(&made), "change": "created", "host": "crm.example"})
    );
}

#[tokio::test] // REQ ML-3
async fn the_same_key_from_a_hundred_requests_is_one_webhook_whose_secret_is_shown_once() {
    let house = House::new().await;
    let (wish, at) = (json!({"url": URL, "description": "CRM"}), "/v1/webhooks");
    let replies = join_all((0..100).map(|_| house.post_once("admin", at, &wish, "once"))).await;
    assert!(replies.iter().all(|reply| reply.status == StatusCode::CREATED), "{replies:?}");
    let ids: BTreeSet<_> = replies.iter().map(|reply| reply.json()["id"].to_string()).collect();
    assert_eq!(ids.len(), 1);
    let (first, again): (Vec<_>, Vec<_>) =
        replies.iter().partition(|reply| reply.header("idempotency-replayed").is_none());
    assert_eq!((first.len(), again.len()), (1, 99));
    assert!(first[0].json()["secret"].is_string());
    assert!(again.iter().all(|reply| reply.json().get("secret").is_none()));
    assert_eq!(house.get(at).await.json()["items"].as_array().unwrap().len(), 1);

    let other = json!({"url": "https://other.example"});
    assert_eq!(house.post_once("admin", at, &other, "once").await.code(), "IDEMPOTENCY_CONFLICT");
    let theirs = house.post_once("foreign", at, &wish, "once").await;
    assert!(
        theirs.status.is_success() && theirs.json()["id"] != first[0].json()["id"],
        "keys are a tenant's"
    );
    for _ in 1..100 {
        house.webhook(&json!({})).await;
    }
    let full = house.post_once("admin", at, &wish, "once").await;
    assert_eq!(full.status, StatusCode::CREATED, "a repeat takes no place of its own: {}", full.text);
}

#[tokio::test] // REQ ML-3
async fn a_test_under_the_same_key_is_one_message() {
    let house = House::new().await;
    let (one, two) = (house.webhook(&json!({})).await, house.webhook(&json!({})).await);
    let test = async |webhook: &Value| {
        house.post_once("operator", &format!("/v1/webhooks/{}/test", id(webhook)), &json!({}), "once").await
    };
    let (first, again) = (test(&one).await, test(&one).await);
    assert_eq!(first.json(), again.json());
    assert_eq!(
        (first.header("idempotency-replayed"), again.header("idempotency-replayed")),
        (None, Some("true"))
    );
    assert_ne!(test(&two).await.json(), first.json(), "each webhook is tested by itself");
}

#[tokio::test] // REQ SE-2
async fn an_address_that_only_we_can_reach_is_refused() {
    let house = House::new().await;
    let bad = [
        "",
        "ftp://a.example",
        "https://u:p@a.example",
        "http://127.0.0.1:9/",
        "http://0x7f.1/",
        "http://[::1]/",
        "https://10.0.0.7/hook",
        "http://localhost/hook",
        "http://169.254.169.254/latest",
    ];
    for url in bad {
        let refused = house.post("/v1/webhooks", &json!({ "url": url })).await;
        refused.refused("INVALID_FIELD", "url");
        assert_eq!(refused.json()["errors"].as_array().unwrap().len(), 1, "{}", refused.text);
    }
    house.post("/v1/webhooks", &json!({"url": 7})).await.refused("INVALID_FIELD", "url");
    house.post("/v1/webhooks", &json!({})).await.refused("INVALID_FIELD", "url");
    let open = Guard { allow_private: true, ..Guard::default() };
    let house =
        House::with(pombo_kernel::setup::Setup { subscribers: open, ..setup() }, Patience::default()).await;
    house.webhook(&json!({"url": "http://127.0.0.1:9/"})).await;
    let metadata = json!({"url": "http://169.254.169.254/latest"});
    house.post("/v1/webhooks", &metadata).await.refused("INVALID_FIELD", "url");
}

#[tokio::test]
async fn what_a_webhook_is_told_must_be_something_that_can_be_told() {
    let house = House::new().await;
    let refused = async |wish: Value, field: &str| {
        let wish = json!({"url": URL, "events": wish["events"], "channels": wish["channels"], "enabled": wish["enabled"]});
        house.post("/v1/webhooks", &wish).await.refused("INVALID_FIELD", field);
    };
    refused(json!({"events": ["message.snet"]}), "events").await;
    refused(json!({"events": "message.sent"}), "events").await;
    refused(json!({"events": [1]}), "events").await;
    refused(json!({"events": vec!["message.sent"; 101]}), "events").await;
    refused(json!({"channels": ["nowhere"]}), "channels").await;
    refused(json!({"channels": ["theirs"]}), "channels").await;
    refused(json!({"enabled": "yes"}), "enabled").await;
    let made = house.webhook(&json!({"events": ["message.*", "RetryScheduledEvent", "*"]})).await;
    assert_eq!(made["events"].as_array().unwrap().len(), 3);
}

#[tokio::test] // REQ ML-7
async fn a_change_changes_what_it_names_and_what_is_enabled_again_goes_on_from_then() {
    let house = House::new().await;
    let made = house.webhook(&json!({"description": "CRM"})).await;
    let changed = house.patch(id(&made), &json!({"url": "https://new.example", "description": null})).await;
    assert_eq!((&changed["url"], &changed["description"]), (&json!("https://new.example"), &Value::Null));
    assert_eq!(changed["events"], made["events"]);
    assert!(changed.get("secret").is_none());
    let since = house.subscription(id(&made)).await.since;

    let off = house.patch(id(&made), &json!({"enabled": false})).await;
    assert_eq!(
        (&off["enabled"], &off["disabled_reason"]),
        (&json!(false), &json!("switched off by an operator"))
    );
    house.created(&json!({})).await;
    let on = house.patch(id(&made), &json!({"enabled": true})).await;
    assert_eq!((&on["enabled"], &on["disabled_reason"]), (&json!(true), &Value::Null));
    let again = house.subscription(id(&made)).await.since;
    assert!(again > since, "what happened while it was off is not told");
    house.patch(id(&made), &json!({"enabled": true})).await;
    assert_eq!(house.subscription(id(&made)).await.since, again, "it was enabled already");
    let changes = house.store.audit(0, 100).await.unwrap();
    let changes = changes.iter().filter(|(_, record)| record.event == Event::WebhookPut).count();
    assert_eq!(changes, 4, "what changes nothing leaves no record");
}

#[tokio::test] // REQ ML-7
async fn a_rotation_gives_a_new_secret_and_keeps_the_old_one_for_a_while() {
    let house = House::new().await;
    let made = house.webhook(&json!({})).await;
    let path = format!("/v1/webhooks/{}/rotate-secret", id(&made));
    let rotated = house.post(&path, &json!({"overlap": "1h"})).await.json();
    assert_ne!(rotated["secret"], made["secret"]);
    assert_eq!(rotated["old_secret_until"], json!((NOW + Span::from_hours(1)).to_string()));
    assert_eq!(house.subscription(id(&made)).await.signers(NOW).len(), 2);
    house.clock.pass(Span::from_hours(1));
    let shown = house.get(&format!("/v1/webhooks/{}", id(&made))).await.json();
    assert_eq!(shown["old_secret_until"], Value::Null);
    let at_once = house.post(&path, &json!({"overlap": "0s"})).await.json();
    assert_eq!(at_once["old_secret_until"], Value::Null);
    let usual = house.post(&path, &json!({})).await.json();
    assert_eq!(usual["old_secret_until"], json!((NOW + Span::from_hours(25)).to_string()));
    for bad in ["soon", "31d"] {
        house.post(&path, &json!({ "overlap": bad })).await.refused("INVALID_FIELD", "overlap");
    }
}

#[tokio::test] // REQ ML-10
async fn a_test_goes_the_way_of_every_event() {
    let house = House::new().await;
    let made = house.webhook(&json!({})).await;
    let sent = house.post(&format!("/v1/webhooks/{}/test", id(&made)), &json!({})).await;
    assert_eq!(sent.status, StatusCode::ACCEPTED, "{}", sent.text);
    let message = sent.json()["message_id"].as_str().unwrap().parse().unwrap();
    let story = house.store.story(Tenant::default(), message).await.unwrap().unwrap();
    assert_eq!(story.state.name(), StateName::Pending);
    let (queue, body) = (&story.message.queue, &story.message.body);
    assert_eq!(
        (queue.channel.as_str(), queue.lane.as_str(), &*queue.destination),
        ("events", "events", id(&made))
    );
    assert_eq!((body.to.as_str(), body.kind.as_deref()), (id(&made), Some("webhook.test")));
    let content: Value = serde_json::from_str(body.content.as_ref().unwrap().text()).unwrap();
    let told = json!({"type": "webhook.test", "timestamp": NOW.to_string(), "data": {"webhook": id(&made)}});
    assert_eq!(content, json!({ "body": told }));
    let another = house.post(&format!("/v1/webhooks/{}/test", id(&made)), &json!({})).await;
    assert_ne!(another.json()["message_id"], sent.json()["message_id"]);
}

#[tokio::test] // REQ SE-1
async fn webhooks_are_their_tenants_and_their_admins() {
    let house = House::new().await;
    let made = house.webhook(&json!({})).await;
    let path = format!("/v1/webhooks/{}", id(&made));
    for (method, path) in [
        ("GET", path.clone()),
        ("PATCH", path.clone()),
        ("DELETE", path.clone()),
        ("POST", format!("{path}/test")),
    ] {
        let foreign = house.call_as("foreign", method, &path, "{}").await;
        assert_eq!(foreign.code(), "NOT_FOUND", "{method} {path}");
    }
    let none = house.call_as("foreign", "GET", "/v1/webhooks", Body::empty()).await;
    assert_eq!(none.json()["items"], json!([]));
    assert_eq!(house.call_as("operator", "GET", &path, Body::empty()).await.status, StatusCode::OK);
    assert_eq!(house.call_as("operator", "DELETE", &path, Body::empty()).await.code(), "FORBIDDEN");
    assert_eq!(house.call_as("viewer", "GET", &path, Body::empty()).await.code(), "FORBIDDEN");
    let gone = house.call("DELETE", &path, "").await;
    assert_eq!((gone.status, gone.text.as_str()), (StatusCode::NO_CONTENT, ""));
    assert_eq!(house.get(&path).await.code(), "NOT_FOUND");
    assert_eq!(house.call("DELETE", &path, "").await.code(), "NOT_FOUND");
    assert_eq!(house.get(&format!("/v1/webhooks/{}", "x".repeat(300))).await.code(), "NOT_FOUND");
}

#[tokio::test]
async fn there_are_at_most_a_hundred() {
    let house = House::new().await;
    for _ in 0..100 {
        house.webhook(&json!({})).await;
    }
    assert_eq!(house.post("/v1/webhooks", &json!({ "url": URL })).await.code(), "TOO_MANY_WEBHOOKS");
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = house.get(&format!("/v1/webhooks?limit=30{cursor}")).await.json();
        seen.extend(page["items"].as_array().unwrap().iter().map(|item| item["id"].clone()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen.len(), 100);
}

#[tokio::test] // REQ ML-7
async fn a_receiver_that_wants_no_more_is_told_no_more_until_somebody_enables_it() {
    let house = House::new().await;
    let made = house.webhook(&json!({})).await;
    let tenant = Tenant::default();
    let gone = async |began, now| webhook::gone(&*house.store, &tenant, id(&made), began, now).await.unwrap();
    assert!(!gone(NOW - Span::from_secs(1), NOW).await, "its receiver may have been another then");
    let later = NOW + Span::from_secs(1);
    assert!(gone(later, later).await);
    let shown = house.get(&format!("/v1/webhooks/{}", id(&made))).await.json();
    assert!(shown["disabled_reason"].as_str().unwrap().contains("410"), "{shown}");
    house.clock.pass(Span::from_secs(2));
    house.patch(id(&made), &json!({"enabled": true})).await;
    // The same news once more, as after a crash, is of a time before.
    assert!(!gone(later, NOW + Span::from_secs(3)).await);
    assert_eq!(house.subscription(id(&made)).await.disabled, None);
}
