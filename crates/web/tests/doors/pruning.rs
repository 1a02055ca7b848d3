//! Messages that ended long ago, at the door: what is asked for is written down, and what would go too far is refused.

use std::sync::Arc;

use http::StatusCode;
use pombo_kernel::message::Actor;
use pombo_kernel::name::Tenant;
use pombo_kernel::operation::Kind;
use pombo_kernel::retention::{Keep, Kept, Rules};
use pombo_kernel::time::{Clock as _, Span};
use pombo_store::Store;
use pombo_store::prune::{Effect, Prune, Walk};
use pombo_store::shelf::Shelf;
use pombo_web::operation;
use serde_json::json;

use crate::house::{House, message};

#[tokio::test] // REQ AU-2
async fn a_removal_is_an_operation_with_what_was_asked_for() {
    let house = House::new().await;
    let body = json!({"channel": "crm", "state": "sent", "older_than": "90d", "dry_run": true});
    let reply = house.post("/v1/store/prune", &body).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED, "{}", reply.text);
    let answer = reply.json();
    assert_eq!((&answer["kind"], &answer["state"]), (&json!("prune"), &json!("running")));
    assert_eq!((&answer["done"], &answer["counts"]), (&json!(0), &json!({})));
    let id = answer["id"].as_str().unwrap().to_owned();
    let doc = house.store.doc(Shelf::Operation, Tenant::default(), id).await.unwrap().unwrap();
    let kept = operation::read(&doc).unwrap();
    assert_eq!(kept.kind, Kind::Prune);
    let asked = [("channel", "crm"), ("dry_run", "true"), ("older_than", "90d"), ("state", "sent")];
    assert!(kept.filter.iter().map(|(name, value)| (name.as_str(), value.as_str())).eq(asked));
    assert_eq!(house.post("/v1/store/prune", &json!({})).await.status, StatusCode::ACCEPTED);
}

#[tokio::test] // REQ ML-10, AU-2
async fn a_repeat_is_answered_as_one_after_its_message_is_gone() {
    let house = House::new().await;
    let body = message(&json!({}));
    let first = house.post_keyed(&body, "k1").await.json();
    let id = first["id"].as_str().unwrap();
    let cancelled = house.post(&format!("/v1/messages/{id}/cancel"), &json!({})).await;
    assert_eq!(cancelled.status, StatusCode::OK, "{}", cancelled.text);
    house.clock.pass(Span::from_hours(2));
    let kept = Kept::only(Keep::For(Span::from_hours(1)), |_| true);
    let rules: Rules = [("crm".parse().unwrap(), kept)].into_iter().collect();
    let wish =
        Prune { rules: Arc::new(rules), by: Actor::engine(), effect: Effect::Remove, walk: Walk::default() };
    assert_eq!(house.store.prune(wish, 100, house.clock.now()).await.unwrap().count(), 1);
    assert_eq!(house.get(&format!("/v1/messages/{id}")).await.status, StatusCode::NOT_FOUND);
    let audit = house.get(&format!("/v1/audit?message={id}")).await.json();
    let events: Vec<_> = audit["items"].as_array().unwrap().iter().map(|it| &it["event"]).collect();
    assert_eq!(events, ["cancelled", "accepted"], "what happened stays on record");
    let again = house.post_keyed(&body, "k1").await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (StatusCode::ACCEPTED, Some("true")));
    assert_eq!(again.json()["id"], id);
    let keyed = message(&json!({"idempotency_key": "k1"}));
    let batch = house.call_as("producer", "POST", "/v1/messages/batch", json!([keyed]).to_string()).await;
    let item = &batch.json()["items"][0];
    assert_eq!((&item["id"], &item["replayed"]), (&json!(id), &json!(true)), "{}", batch.text);
    assert_eq!(house.stored().await, 0, "and nothing is sent again");
}

#[tokio::test] // REQ SE-1
async fn only_whoever_may_begin_a_removal_may_end_it() {
    let house = House::new().await;
    let begun = house.post("/v1/store/prune", &json!({"older_than": "90d"})).await.json();
    let cancel = format!("/v1/operations/{}/cancel", begun["id"].as_str().unwrap());
    assert_eq!(house.call_as("operator", "POST", &cancel, "{}").await.status, StatusCode::FORBIDDEN);
    assert_eq!(house.post(&cancel, &json!({})).await.status, StatusCode::OK);
}

#[tokio::test] // REQ AU-1, AU-2
async fn what_would_go_too_far_or_means_nothing_is_refused() {
    let house = House::new().await;
    for (body, field, words) in [
        (json!({"older_than": "5m"}), "older_than", "less than an hour"),
        (json!({"older_than": "soon"}), "older_than", "is not a time"),
        (json!({"channel": "unheard-of", "older_than": "90d"}), "older_than", "five years"),
        (json!({"channel": "Not A Name"}), "channel", "is not the name"),
        (json!({"state": "pending"}), "state", "is no end of a message"),
        (json!({"tenant": "acme"}), "tenant", "is not a field"),
    ] {
        let reply = house.post("/v1/store/prune", &body).await;
        let problem = reply.json();
        let error = &problem["errors"][0];
        assert_eq!(error["field"], field, "{body}: {problem}");
        assert!(error["reason"].as_str().unwrap().contains(words), "{body}: {problem}");
    }
}
