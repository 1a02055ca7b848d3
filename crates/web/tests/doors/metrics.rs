//! Numbers for Prometheus, and what a node says of its own condition.

use axum::body::Body;
use http::StatusCode;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use pombo_kernel::time::Span;
use pombo_store::StoreError;
use pombo_web::key::KeyDoc;
use pombo_web::{Check, Meter};
use serde_json::{Value, json};

use crate::dead::dead;
use crate::house::{House, Reply, key, message, request};

async fn scrape(house: &House) -> String {
    let reply = ask(house, None).await;
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    reply.text
}

async fn ask(house: &House, who: Option<&str>) -> Reply {
    let mut asked = request("GET", "/metrics");
    if let Some(who) = who {
        asked = asked.header("authorization", format!("Bearer key-{who}"));
    }
    house.send(asked.body(Body::empty()).unwrap()).await
}

/// The value behind a name with its labels.
fn value(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.rsplit_once(' ').is_some_and(|(found, _)| found == name))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[tokio::test] // REQ OB-1
async fn the_names_that_billing_systems_know_are_there_from_the_start() {
    let house = House::new().await;
    let text = scrape(&house).await;
    for (name, kind) in [
        ("retry_analysis_duration_seconds", "histogram"),
        ("retry_scheduled_total", "counter"),
        ("max_retries_exceeded_total", "counter"),
        ("permanent_errors_total", "counter"),
        ("backoff_duration_minutes", "histogram"),
        ("retry_success_rate", "gauge"),
    ] {
        assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{name} is missing in\n{text}");
    }
}

#[tokio::test] // REQ OB-1
async fn decisions_are_counted_once_however_often_they_are_asked_for() {
    let house = House::new().await;
    let count = |text: &str, name: &str| value(text, &format!("{name}{{source=\"decisions\"}}")).unwrap();
    for (retries, error) in [(1, "TIMEOUT"), (1, "TIMEOUT"), (5, "TIMEOUT"), (0, "INVALID_PATIENT_DATA")] {
        let claim = format!("CLM-{retries}-1");
        let asked = json!({"claimId": claim, "submissionError": error, "retryCount": retries});
        house.post("/v1/retry-decisions", &asked).await;
    }
    let text = scrape(&house).await;
    assert_eq!(count(&text, "retry_scheduled_total"), 1.0, "{text}");
    assert_eq!(count(&text, "backoff_duration_minutes_count"), 1.0);
    assert!(
        (9.0..=11.0).contains(&(count(&text, "backoff_duration_minutes_sum"))),
        "10 min ± jitter: {text}"
    );
    assert_eq!(count(&text, "max_retries_exceeded_total"), 1.0);
    assert_eq!(count(&text, "permanent_errors_total"), 1.0);
    assert_eq!(count(&text, "retry_analysis_duration_seconds_count"), 3.0);
}

#[tokio::test]
async fn requests_are_counted_by_route_and_never_by_what_strangers_write() {
    let house = House::new().await;
    let id = house.created(&json!({})).await;
    house.get(&format!("/v1/messages/{id}")).await;
    house.get("/v1/messages/msg_00000000000000000000000000000000").await;
    house.get("/canary/path?canary=1").await;
    house.call("PUT", "/v1/messages", "canary").await;
    let text = scrape(&house).await;
    let count = |labels: &str| value(&text, &format!("pombo_http_requests_total{{{labels}}}"));
    assert_eq!(count(r#"method="POST",route="/v1/messages",status="2xx""#), Some(1.0), "{text}");
    assert_eq!(count(r#"method="GET",route="/v1/messages/{id}",status="2xx""#), Some(1.0));
    assert_eq!(count(r#"method="GET",route="/v1/messages/{id}",status="4xx""#), Some(1.0));
    assert_eq!(count(r#"method="any",route="none",status="4xx""#), Some(2.0));
    assert_eq!(value(&text, "pombo_http_requests_in_flight"), Some(1.0), "the scrape itself");
    assert!(!text.contains("canary") && !text.contains(&id), "{text}");
}

#[tokio::test] // REQ OB-1
async fn depths_and_dead_letters_are_told_by_lane_and_channel_and_looked_up_now_and_then() {
    let house = House::new().await;
    dead(&house, &json!({}), "timeout").await;
    house.created(&json!({})).await;
    let waiting = r#"pombo_messages_waiting{lane="default",channel="crm"}"#;
    let text = scrape(&house).await;
    assert_eq!(value(&text, waiting), Some(1.0), "{text}");
    assert_eq!(value(&text, r#"pombo_messages_past_due{lane="default",channel="crm"}"#), Some(1.0));
    assert_eq!(value(&text, r#"pombo_dead_letters{channel="crm"}"#), Some(1.0));
    assert_eq!(value(&text, "pombo_store_readable"), Some(1.0));
    house.created(&json!({})).await;
    assert_eq!(value(&scrape(&house).await, waiting), Some(1.0), "asked a moment ago");
    house.clock.pass(Span::from_secs(6));
    let text = scrape(&house).await;
    assert_eq!(value(&text, waiting), Some(2.0));
    assert_eq!(value(&text, r#"pombo_oldest_past_due_seconds{lane="default",channel="crm"}"#), Some(6.0));
}

#[tokio::test] // REQ OB-1
async fn holds_and_pauses_are_told() {
    let house = House::new().await;
    house.post("/v1/channels/crm/hold", &json!({"reason": "canary words"})).await;
    house.post("/v1/store/pause", &json!({"reason": "canary words"})).await;
    let text = scrape(&house).await;
    assert_eq!(value(&text, r#"pombo_channel_held{channel="crm"}"#), Some(1.0), "{text}");
    assert_eq!(value(&text, r#"pombo_channel_held{channel="mail"}"#), Some(0.0));
    assert_eq!(value(&text, r#"pombo_channel_breaker_open{channel="crm"}"#), Some(0.0));
    assert_eq!(value(&text, "pombo_sending_paused"), Some(1.0));
    assert!(!text.contains("canary"), "{text}");
}

#[tokio::test]
async fn a_store_that_does_not_answer_hides_its_own_numbers_and_no_others() {
    let house = House::new().await;
    house.created(&json!({})).await;
    assert!(scrape(&house).await.contains("pombo_messages_waiting{"));
    house.clock.pass(Span::from_secs(6));
    house.store.feel(Some(StoreError::Unavailable("disk full".into())));
    let text = scrape(&house).await;
    assert_eq!(value(&text, "pombo_store_readable"), Some(0.0));
    assert!(!text.contains("pombo_messages_waiting{"), "old numbers would look like new ones: {text}");
    assert!(text.contains("pombo_http_requests_total{"));
}

#[tokio::test] // REQ OB-1
async fn followers_of_events_are_counted() {
    let house = House::new().await;
    assert_eq!(value(&scrape(&house).await, "pombo_event_streams"), Some(0.0));
    let follow = request("GET", "/v1/events").header("authorization", "Bearer key-admin").body(Body::empty());
    let following = TowerToHyperService::new(house.router.clone()).call(follow.unwrap()).await.unwrap();
    assert_eq!(value(&scrape(&house).await, "pombo_event_streams"), Some(1.0));
    drop(following);
}

#[tokio::test] // REQ SE-1
async fn a_key_can_be_asked_for_and_is_then_one_of_the_house() {
    let house = House::new().await;
    house.add_key("other", &key("neighbour", "viewer")).await;
    let scoped = KeyDoc { channels: Some(vec!["crm".parse().unwrap()]), ..key("scoped", "viewer") };
    house.add_key("default", &scoped).await;
    let meter = Meter::default();
    meter.require_key(true);
    let house = {
        let door = house.another_node();
        door.door.measure_with(meter.clone());
        door
    };
    assert_eq!(ask(&house, None).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(ask(&house, Some("nobody")).await.status, StatusCode::UNAUTHORIZED);
    for who in ["producer", "neighbour", "foreign", "scoped"] {
        assert_eq!(ask(&house, Some(who)).await.status, StatusCode::FORBIDDEN, "{who}");
    }
    for who in ["viewer", "operator", "admin"] {
        assert_eq!(ask(&house, Some(who)).await.status, StatusCode::OK, "{who}");
    }
    meter.require_key(false);
    assert_eq!(ask(&house, None).await.status, StatusCode::OK);
}

fn check<'a>(document: &'a Value, name: &str) -> &'a Value {
    let checks = document["checks"].as_array().unwrap_or_else(|| panic!("no checks in {document}"));
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name} in {document}"))
}

#[tokio::test]
async fn readiness_tells_what_is_not_well() {
    let house = House::new().await;
    let ready = house.get("/readyz").await.json();
    for name in ["store", "database", "sending", "channels"] {
        assert_eq!(check(&ready, name)["ok"], true, "{ready}");
    }
    house.post("/v1/channels/crm/hold", &json!({"reason": "canary"})).await;
    house.door.watch_for(vec![Box::new(|| Check::warning("engine", "no sign of life"))]);
    let reply = house.get("/readyz").await;
    let ready = reply.json();
    assert_eq!(reply.status, StatusCode::OK, "it takes messages in all the same");
    assert_eq!(
        (&check(&ready, "channels")["ok"], &check(&ready, "channels")["warning"]),
        (&json!(false), &json!(true))
    );
    assert!(check(&ready, "channels")["detail"].as_str().unwrap().contains("crm"), "{ready}");
    assert_eq!(check(&ready, "engine")["detail"], "no sign of life");
    assert!(!ready.to_string().contains("canary"), "{ready}");
}

#[tokio::test]
async fn a_node_that_is_not_ready_is_a_problem_with_the_same_checks() {
    let house = House::new().await;
    house.store.feel(Some(StoreError::Unavailable("no space left".into())));
    let reply = house.get("/readyz").await;
    assert_eq!((reply.status, reply.code().as_str()), (StatusCode::SERVICE_UNAVAILABLE, "STORE_UNAVAILABLE"));
    let unready = reply.json();
    assert_eq!((&unready["status"], &check(&unready, "database")["ok"]), (&json!(503), &json!(false)));
    house.store.feel(None);
    house.door.close();
    let unready = house.get("/readyz").await;
    assert_eq!(unready.code(), "SHUTTING_DOWN");
    let unready = unready.json();
    assert_eq!(
        (&check(&unready, "node")["ok"], &check(&unready, "store")["ok"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(house.post("/v1/messages", &message(&json!({}))).await.code(), "SHUTTING_DOWN");
}
