//! Messages that ended long ago, at the door: what is asked for is written down, and what would go too far is refused.

use http::StatusCode;
use pombo_kernel::name::Tenant;
use pombo_kernel::operation::Kind;
use pombo_store::Store;
use pombo_store::shelf::Shelf;
use pombo_web::operation;
use serde_json::json;

use crate::house::House;

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
