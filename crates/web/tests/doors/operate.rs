use axum::body::Body;
use http::StatusCode;
use pombo_kernel::block::Block;
use pombo_kernel::message::Actor;
use pombo_kernel::time::Span;
use pombo_store::{Place, Store};
use serde_json::{Value, json};

use crate::house::{House, NOW, message};

async fn channel(house: &House, name: &str) -> Value {
    let all = house.get("/v1/channels").await.json();
    all["items"].as_array().unwrap().iter().find(|channel| channel["name"] == name).unwrap().clone()
}

#[tokio::test]
async fn channels_show_kind_policy_and_whether_messages_pass() {
    let house = House::new().await;
    let crm = channel(&house, "crm").await;
    assert_eq!((&crm["kind"], &crm["state"]), (&json!("webhook"), &json!("ok")));
    assert_eq!((&crm["policy"]["name"], &crm["policy"]["attempts"]), (&json!("webhook"), &json!(8)));
    assert_eq!(crm["policy"]["delays"][0], "5s");
    let mail = channel(&house, "mail").await;
    assert_eq!((&mail["state"], &mail["hint"]), (&json!("held"), &json!("set SMTP_URL")));
    assert_eq!((&mail["policy"]["base"], &mail["policy"]["jitter"]), (&json!("1s"), &json!(0.25)));
}

#[tokio::test] // REQ CF-7
async fn an_operator_holds_and_releases_a_channel() {
    let house = House::new().await;
    let hold = json!({"reason": "maintenance"}).to_string();
    let held = house.call_as("operator", "POST", "/v1/channels/crm/hold", hold).await;
    assert_eq!(held.status, StatusCode::OK);
    assert_eq!((&held.json()["state"], &held.json()["reason"]), (&json!("held"), &json!("maintenance")));
    assert_eq!(held.json()["since"], NOW.to_string());
    assert!(held.json()["hint"].as_str().unwrap().contains("pombo channels release crm"), "{}", held.text);
    assert_eq!(channel(&house, "crm").await, held.json());
    assert_eq!(house.post("/v1/messages", &message(&json!({}))).await.status, StatusCode::ACCEPTED);
    let released = house.call_as("operator", "POST", "/v1/channels/crm/release", Body::empty()).await;
    assert_eq!((released.status, &released.json()["state"]), (StatusCode::OK, &json!("ok")));
    let again = house.call("POST", "/v1/channels/crm/release", "{}").await;
    assert_eq!(again.status, StatusCode::OK);
}

#[tokio::test] // REQ CF-7
async fn one_destination_can_be_held_alone() {
    let house = House::new().await;
    let body = json!({"reason": "they asked", "destination": "crm.example"});
    let held = house.post("/v1/channels/crm/hold", &body).await.json();
    assert_eq!(held["state"], "ok");
    assert_eq!(held["destinations"][0]["destination"], "crm.example");
    assert_eq!(held["destinations"][0]["state"], "held");
    let released =
        house.post("/v1/channels/crm/release", &json!({"destination": "crm.example"})).await.json();
    assert_eq!(released["destinations"], json!([]));
}

#[tokio::test] // REQ CF-8
async fn holds_and_pauses_of_the_engine_show_until_when() {
    let house = House::new().await;
    let place =
        |destination: &str| Place { channel: "crm".parse().unwrap(), destination: Some(destination.into()) };
    let until = NOW + Span::from_secs(60);
    house.store.block(place("a"), Block::hold("401".into(), 0, NOW), Actor::engine()).await.unwrap();
    house.store.block(place("b"), Block::pause("429".into(), until, NOW), Actor::engine()).await.unwrap();
    let crm = channel(&house, "crm").await;
    let states: Vec<_> = crm["destinations"].as_array().unwrap().iter().map(|d| d["state"].clone()).collect();
    assert_eq!(states, ["held", "paused"]);
    assert_eq!(crm["destinations"][1]["until"], until.to_string());
    house.clock.pass(Span::from_secs(60));
    let later = channel(&house, "crm").await;
    assert_eq!(later["destinations"].as_array().unwrap().len(), 1);
    assert_eq!(later["destinations"][0]["state"], "held");
}

#[tokio::test]
async fn a_hold_needs_a_reason_and_a_channel() {
    let house = House::new().await;
    house.post("/v1/channels/crm/hold", &json!({})).await.refused("INVALID_FIELD", "reason");
    house.post("/v1/channels/crm/hold", &json!({"reason": "a\nb"})).await.refused("INVALID_FIELD", "reason");
    let extra = json!({"reason": "a", "until": "x"});
    house.post("/v1/channels/crm/hold", &extra).await.refused("INVALID_FIELD", "until");
    house.post("/v1/channels/crm/hold", &json!([])).await.refused("INVALID_FIELD", "body");
    assert_eq!(house.call("POST", "/v1/channels/crm/hold", "{").await.code(), "INVALID_JSON");
    assert_eq!(house.post("/v1/channels/nope/hold", &json!({"reason": "a"})).await.code(), "NOT_FOUND");
    assert_eq!(channel(&house, "crm").await["state"], "ok");
}

#[tokio::test] // REQ CF-1
async fn an_error_can_be_classified_without_sending() {
    let house = House::new().await;
    let meaning = |body: Value| {
        let house = &house;
        async move { house.post("/v1/classifications", &body).await.json() }
    };
    let busy = meaning(json!({"kind": "webhook", "status": 503, "error": "busy"})).await;
    assert_eq!(busy["verdict"], "transient");
    assert!(busy["rule"].is_string() && busy["category"].is_string(), "{busy}");
    let gone = meaning(json!({"channel": "crm", "status": 404})).await;
    assert_eq!(gone["verdict"], "permanent");
    let ours = meaning(json!({"kind": "webhook", "status": 401})).await;
    assert_eq!(ours["verdict"], "sender_fault");
    assert!(ours["scope"].is_string());
    let timeout = meaning(json!({"kind": "smtp", "fault": "timeout"})).await;
    assert_eq!(timeout["verdict"], "transient");
    let mailbox = meaning(json!({"kind": "smtp", "status": 550, "enhanced": "5.1.1", "stage": "rcpt"})).await;
    assert_eq!(mailbox["verdict"], "permanent");
    let reply = "550-5.1.1 no such\r\n550 5.1.1 user";
    let nobody = meaning(json!({"kind": "smtp", "reply": reply})).await;
    assert_eq!((&nobody["category"], &nobody["code"]), (&json!("invalid_recipient"), &json!("550 5.1.1")));
    let headers = json!({"Retry-After": "120"});
    let later = meaning(json!({"channel": "crm", "kind": "http", "status": 429, "headers": headers})).await;
    assert_eq!((&later["verdict"], &later["hint_seconds"]), (&json!("transient"), &json!(120)));
    let body = json!({"name": "daily_quota_exceeded", "message": "enough"});
    let quota = meaning(json!({"kind": "resend", "status": 429, "body": body})).await;
    assert_eq!(quota["category"], "daily_quota");
    let unknown = meaning(json!({"kind": "webhook", "error": "the pigeon got lost"})).await;
    assert_eq!((&unknown["verdict"], &unknown["rule"]), (&json!("unknown_transient"), &Value::Null));
}

#[tokio::test]
async fn a_classification_names_what_is_wrong_with_the_question() {
    let house = House::new().await;
    for (body, field) in [
        (json!({}), "kind"),
        (json!({"kind": "webhook"}), "error"),
        (json!({"kind": "pigeon", "status": 1}), "kind"),
        (json!({"channel": "theirs", "status": 1}), "channel"),
        (json!({"kind": "smtp", "status": "x"}), "status"),
        (json!({"kind": "smtp", "enhanced": "5.1"}), "enhanced"),
        (json!({"kind": "smtp", "fault": "flood"}), "fault"),
        (json!({"kind": "smtp", "status": 1, "stage": "curtain"}), "stage"),
        (json!({"kind": "smtp", "status": 1, "fault": "dns"}), "fault"),
        (json!({"kind": "smtp", "status": 1, "colour": 1}), "colour"),
        (json!({"kind": "smtp", "channel": "crm", "status": 1}), "kind"),
        (json!({"kind": "pigeon", "channel": "crm", "status": 1}), "kind"),
        (json!({"kind": 1, "status": 1}), "kind"),
        (json!({"kind": "webhook", "reply": "550 no"}), "reply"),
        (json!({"kind": "webhook", "status": 1, "headers": []}), "headers"),
    ] {
        house.post("/v1/classifications", &body).await.refused("INVALID_FIELD", field);
    }
}

#[tokio::test]
async fn counts_are_summed_by_channel() {
    let house = House::new().await;
    for _ in 0..3 {
        house.created(&json!({})).await;
    }
    let id = house.created(&json!({"channel": "null", "to": "x", "content": {}})).await;
    house.call("POST", &format!("/v1/messages/{id}/cancel"), Body::empty()).await;
    let stats = house.get("/v1/stats").await.json();
    assert_eq!((&stats["total"]["accepted"], &stats["total"]["waiting"]), (&json!(4), &json!(3)));
    assert_eq!(stats["channels"]["crm"]["accepted"], 3);
    assert_eq!(stats["channels"]["null"]["cancelled"], 1);
    assert_eq!(stats["channels"]["null"]["waiting"], 0);
}

#[tokio::test] // fault 13
async fn an_administrator_pauses_all_sending_and_lets_it_go_on() {
    let house = House::new().await;
    assert_eq!(house.get("/v1/store").await.json(), json!({"paused": null}));
    let ready = house.get("/readyz").await.json();
    assert_eq!((&ready["status"], ready.get("sending")), (&json!("ready"), None));
    let unexplained = house.call("POST", "/v1/store/pause", "{}").await;
    assert_eq!(
        (unexplained.code(), unexplained.json()["errors"][0]["field"].clone()),
        ("INVALID_FIELD".into(), json!("reason"))
    );
    let paused = house.post("/v1/store/pause", &json!({"reason": "restored"})).await.json();
    assert_eq!(
        (&paused["paused"]["reason"], &paused["paused"]["since"]),
        (&json!("restored"), &json!(NOW.to_string()))
    );
    assert!(paused["paused"]["hint"].as_str().unwrap().contains("pombo store resume"), "{paused}");
    assert_eq!(house.get("/v1/stats").await.json()["paused"], paused["paused"]);
    let ready = house.get("/readyz").await.json();
    assert_eq!((&ready["status"], &ready["sending"]), (&json!("ready"), &json!("paused")));
    assert!(!ready.to_string().contains("restored"), "the reason stays with those who have a key: {ready}");
    assert_eq!(house.post("/v1/messages", &message(&json!({}))).await.status, StatusCode::ACCEPTED);
    for _ in 0..2 {
        let resumed = house.call("POST", "/v1/store/resume", Body::empty()).await;
        assert_eq!((resumed.status, resumed.json()), (StatusCode::OK, json!({"paused": null})));
    }
}
