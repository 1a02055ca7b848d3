//! Operations at the door: listed, shown, cancelled; and tests of channels, which wait for whoever does them.

use std::time::Duration;

use axum::body::Body;
use http::StatusCode;
use pombo_kernel::message::Actor;
use pombo_kernel::operation::Found;
use pombo_kernel::time::Span;
use pombo_store::Store;
use pombo_store::audit::Event;
use pombo_store::shelf::{Doc, Pick, Shelf, Shelved, Wanted};
use pombo_web::{Patience, operation};
use serde_json::{Value, json};

use crate::dead::dead;
use crate::house::{House, NOW, setup};

async fn begun(house: &House) -> String {
    let reply = house.post("/v1/dead-letters/discard", &json!({"filter": {"channel": "crm"}})).await;
    reply.json()["id"].as_str().unwrap().to_owned()
}

async fn due(house: &House) -> Vec<Doc> {
    let pick = Pick::Due { from: NOW, until: NOW + Span::from_hours(1), after: None };
    house.store.docs(Wanted { shelf: Shelf::Operation, tenant: None, pick, limit: 10 }).await.unwrap()
}

#[tokio::test] // REQ DL-1
async fn an_operation_can_be_cancelled_once_and_by_whom_is_on_record() {
    let house = House::new().await;
    dead(&house, &json!({}), "wrong").await;
    let id = begun(&house).await;
    assert_eq!(due(&house).await.len(), 1);
    let path = format!("/v1/operations/{id}/cancel");
    let cancels = (0..5).map(|_| house.call_as("operator", "POST", &path, Body::empty()));
    let replies = futures_util::future::join_all(cancels).await;
    let fine: Vec<_> = replies.iter().filter(|reply| reply.status == StatusCode::OK).collect();
    assert_eq!(fine.len(), 1);
    assert_eq!(fine[0].json()["state"], "cancelled");
    assert_eq!(fine[0].json()["cancelled_by"], "operator (key_operator)");
    assert_eq!(fine[0].json()["finished_at"], NOW.to_string());
    for reply in replies.iter().filter(|reply| reply.status != StatusCode::OK) {
        assert_eq!(
            (reply.code(), &reply.json()["state"]),
            ("NOT_CANCELLABLE".to_owned(), &json!("cancelled"))
        );
    }
    assert!(due(&house).await.is_empty(), "nobody works on it any more");
    let records = house.store.audit(0, 100).await.unwrap();
    let ended: Vec<_> = records.iter().filter(|(_, it)| it.event == Event::OperationEnded).collect();
    assert_eq!((ended.len(), ended[0].1.actor.as_str()), (1, "operator (key_operator)"));
}

#[tokio::test]
async fn operations_are_listed_page_by_page_the_newest_first() {
    let house = House::new().await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(begun(&house).await);
        house.clock.pass(Span::from_secs(1));
    }
    ids.reverse();
    let mut seen: Vec<Value> = Vec::new();
    let mut path = "/v1/operations?limit=2".to_owned();
    loop {
        let page = house.get(&path).await.json();
        seen.extend(page["items"].as_array().unwrap().iter().map(|item| item["id"].clone()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/operations?limit=2&cursor={next}");
    }
    assert_eq!(seen, ids);
    assert!(ids.is_sorted_by(|newer, older| newer > older), "ids sort by time: {ids:?}");
    assert_eq!(house.call_as("foreign", "GET", "/v1/operations", "").await.json()["items"], json!([]));
    let other = format!("/v1/operations/{}", ids[0]);
    assert_eq!(house.call_as("foreign", "GET", &other, "").await.code(), "NOT_FOUND");
    assert_eq!(house.get("/v1/operations/first").await.code(), "NOT_FOUND");
}

/// Does what a worker does with the next test, once it is there.
async fn probe(house: &House, found: Found) {
    let mut moved = house.store.watch();
    let doc = loop {
        if let Some(doc) = due(house).await.pop() {
            break doc;
        }
        moved.changed().await.unwrap();
    };
    let found = operation::read(&doc).unwrap().found(found, NOW);
    let wish = operation::change(&doc, &found, &Actor::engine(), NOW);
    let done = house.store.shelve(vec![wish]).await.unwrap();
    assert!(matches!(done[..], [Shelved::Done { .. }]), "{done:?}");
}

#[tokio::test]
async fn a_channel_is_tested_by_a_worker_and_the_door_waits_for_what_it_found() {
    let house = House::new().await;
    let found = Found { ok: Some(true), detail: "250 OK".to_owned(), latency_ms: 12 };
    let (reply, ()) = tokio::join!(
        house.call_as("operator", "POST", "/v1/channels/crm/test", Body::empty()),
        probe(&house, found)
    );
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    let tested = reply.json();
    assert_eq!(
        (&tested["ok"], &tested["detail"], &tested["latency_ms"]),
        (&json!(true), &json!("250 OK"), &json!(12))
    );
    let path = format!("/v1/operations/{}", tested["operation"].as_str().unwrap());
    let operation = house.get(&path).await.json();
    assert_eq!((&operation["state"], &operation["result"]["ok"]), (&json!("done"), &json!(true)));
    assert_eq!(house.call("POST", "/v1/channels/theirs/test", "").await.code(), "NOT_FOUND");
    house.call("POST", "/v1/channels/crm/test", r#"{"to": 1}"#).await.refused("INVALID_FIELD", "to");
}

#[tokio::test]
async fn a_test_that_nobody_does_in_time_is_an_operation_to_follow() {
    let patience = Patience { test: Duration::from_millis(20), ..Patience::default() };
    let house = House::with(setup(), patience).await;
    let reply = house.call("POST", "/v1/channels/crm/test", Body::empty()).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED, "{}", reply.text);
    let operation = reply.json();
    assert_eq!((&operation["kind"], &operation["state"]), (&json!("test_channel"), &json!("running")));
    assert_eq!(
        reply.header("location"),
        Some(&*format!("/v1/operations/{}", operation["id"].as_str().unwrap()))
    );
}
