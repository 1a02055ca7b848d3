use std::sync::atomic::Ordering;

use axum::body::Body;
use http::StatusCode;
use pombo_kernel::time::Span;
use pombo_store::{Store, StoreError};
use pombo_web::{ROUTES, Role};
use serde_json::json;

use crate::house::{House, key, message, request};

/// Who may call what. A route that is missing here fails the test.
const MATRIX: &[(&str, &str, &str)] = &[
    ("GET", "/healthz", "everybody"),
    ("GET", "/readyz", "everybody"),
    ("POST", "/v1/messages", "producer operator admin"),
    ("GET", "/v1/messages", "viewer operator admin"),
    ("POST", "/v1/messages/batch", "producer operator admin"),
    ("GET", "/v1/messages/{id}", "producer viewer operator admin"),
    ("POST", "/v1/messages/{id}/cancel", "producer operator admin"),
    ("GET", "/v1/channels", "viewer operator admin"),
    ("POST", "/v1/channels/{name}/hold", "operator admin"),
    ("POST", "/v1/channels/{name}/release", "operator admin"),
    ("POST", "/v1/channels/{name}/open", "operator admin"),
    ("POST", "/v1/channels/{name}/close", "operator admin"),
    ("GET", "/v1/templates", "viewer operator admin"),
    ("GET", "/v1/templates/{name}", "viewer operator admin"),
    ("PUT", "/v1/templates/{name}", "operator admin"),
    ("GET", "/v1/templates/{name}/versions", "viewer operator admin"),
    ("POST", "/v1/templates/{name}/render", "viewer operator admin"),
    ("POST", "/v1/classifications", "producer viewer operator admin"),
    ("POST", "/v1/receipts/{channel}", "its provider"),
    ("POST", "/v1/receipts/{channel}/{event}", "its provider"),
    ("GET", "/v1/stats", "viewer operator admin"),
    ("GET", "/v1/store", "viewer operator admin"),
    ("POST", "/v1/store/pause", "admin"),
    ("POST", "/v1/store/resume", "admin"),
];

fn concrete(path: &str, id: &str) -> String {
    path.replace("{id}", id)
        .replace("{name}", "crm")
        .replace("{channel}", "crm")
        .replace("{event}", "messages-update")
}

#[tokio::test] // REQ SE-1
async fn every_route_is_open_to_exactly_the_roles_that_it_names() {
    let house = House::new().await;
    let id = house.created(&json!({})).await;
    for route in ROUTES {
        let row = MATRIX.iter().find(|row| (row.0, row.1) == (route.method.as_str(), route.path));
        let (method, path, allowed) = row.unwrap_or_else(|| panic!("{route:?} is not in the matrix"));
        let path = concrete(path, &id);
        for role in Role::ALL {
            let reply = house.call_as(role.as_str(), method, &path, Body::empty()).await;
            if *allowed == "its provider" {
                assert_eq!(reply.code(), "UNAUTHORIZED", "no key opens {path}, whatever its role");
                continue;
            }
            let may = *allowed == "everybody" || allowed.split(' ').any(|name| name == role.as_str());
            let refused = reply.status == StatusCode::FORBIDDEN;
            assert_eq!(refused, !may, "{role} {method} {path}: {}", reply.text);
            assert_ne!(reply.status, StatusCode::UNAUTHORIZED);
            if refused {
                assert_eq!(reply.code(), "FORBIDDEN");
                assert!(reply.json()["detail"].as_str().unwrap().contains(role.as_str()), "{}", reply.text);
            }
        }
        for authorization in
            [None, Some("Bearer nonsense"), Some("Bearer "), Some("Basic a2V5"), Some("key-admin")]
        {
            let mut call = request(method, &path);
            if let Some(value) = authorization {
                call = call.header("authorization", value);
            }
            let reply = house.send(call.body(Body::empty()).unwrap()).await;
            match *allowed {
                "everybody" => assert_eq!(reply.status, StatusCode::OK),
                _ => {
                    assert_eq!(reply.code(), "UNAUTHORIZED", "{authorization:?} {method} {path}");
                    assert!(reply.header("www-authenticate").unwrap().starts_with("Bearer"));
                    assert!(reply.json()["hint"].as_str().unwrap().contains("Authorization: Bearer"));
                }
            }
        }
    }
    assert_eq!(MATRIX.len(), ROUTES.len());
}

#[tokio::test]
async fn another_tenant_sees_and_changes_nothing() {
    let house = House::new().await;
    let id = house.created(&json!({"reference": "r"})).await;
    let foreign = |method: &'static str, path: String, body: String| {
        let house = &house;
        async move { house.call_as("foreign", method, &path, body).await }
    };
    for (method, path) in
        [("GET", format!("/v1/messages/{id}")), ("POST", format!("/v1/messages/{id}/cancel"))]
    {
        assert_eq!(foreign(method, path, String::new()).await.status, StatusCode::NOT_FOUND);
    }
    for path in ["/v1/messages", "/v1/messages?reference=r", "/v1/messages?channel=crm"] {
        assert_eq!(foreign("GET", path.into(), String::new()).await.json()["items"], json!([]), "{path}");
    }
    let hold = json!({"reason": "mine"}).to_string();
    assert_eq!(foreign("POST", "/v1/channels/crm/hold".into(), hold).await.status, StatusCode::NOT_FOUND);
    assert_eq!(
        foreign("POST", "/v1/channels/crm/release".into(), "{}".into()).await.status,
        StatusCode::NOT_FOUND
    );
    let channels = foreign("GET", "/v1/channels".into(), String::new()).await.json();
    assert_eq!(channels["items"].as_array().unwrap().len(), 1);
    assert_eq!(channels["items"][0]["name"], "theirs");
    assert_eq!(foreign("GET", "/v1/stats".into(), String::new()).await.json()["channels"], json!({}));
    let post = message(&json!({})).to_string();
    foreign("POST", "/v1/messages".into(), post).await.refused("UNKNOWN_CHANNEL", "channel");
    assert_eq!(house.get(&format!("/v1/messages/{id}")).await.json()["state"], "pending");
}

#[tokio::test] // REQ ML-3
async fn idempotency_keys_are_each_tenants_own() {
    let house = House::new().await;
    let mine = house.post_keyed(&message(&json!({})), "k").await.json();
    let theirs = request("POST", "/v1/messages")
        .header("authorization", "Bearer key-foreign")
        .header("idempotency-key", "k")
        .body(Body::from(message(&json!({"channel": "theirs"})).to_string()))
        .unwrap();
    let theirs = house.send(theirs).await;
    assert_eq!(theirs.status, StatusCode::ACCEPTED);
    assert_ne!(theirs.json()["id"], mine["id"]);
}

#[tokio::test]
async fn a_producer_follows_its_own_reference_and_does_not_browse() {
    let house = House::new().await;
    let id = house.created(&json!({"reference": "r"})).await;
    let reply = house.call_as("producer", "GET", "/v1/messages?state=pending", Body::empty()).await;
    assert_eq!(reply.code(), "FORBIDDEN");
    assert!(reply.json()["hint"].as_str().unwrap().contains("reference"), "{}", reply.text);
    let found = house.call_as("producer", "GET", "/v1/messages?reference=r", Body::empty()).await.json();
    assert_eq!(found["items"][0]["id"], json!(id));
}

#[tokio::test]
async fn keys_are_read_once_and_looked_for_again_at_most_once_a_second() {
    let house = House::new().await;
    for _ in 0..50 {
        house.get("/v1/stats").await;
        house.call_as("guess", "GET", "/v1/stats", Body::empty()).await;
    }
    assert_eq!(house.store.key_reads.load(Ordering::Relaxed), 1);
    house.store.add_key(key("late", "default", "viewer")).await.unwrap();
    assert_eq!(house.call_as("late", "GET", "/v1/stats", Body::empty()).await.code(), "UNAUTHORIZED");
    house.clock.pass(Span::from_secs(1));
    assert_eq!(house.call_as("late", "GET", "/v1/stats", Body::empty()).await.status, StatusCode::OK);
    assert_eq!(house.store.key_reads.load(Ordering::Relaxed), 2);
    house.clock.pass(Span::from_secs(5));
    house.get("/v1/stats").await;
    assert_eq!(house.store.key_reads.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_store_that_is_away_does_not_lock_out_known_keys() {
    let house = House::new().await;
    house.get("/v1/stats").await;
    house.clock.pass(Span::from_mins(5));
    house.store.feel_for(Some(StoreError::Unavailable("away".into())), 1);
    assert_eq!(house.get("/v1/channels").await.status, StatusCode::OK);
    house.clock.pass(Span::from_mins(5));
    house.store.feel_for(Some(StoreError::Unavailable("away".into())), 1);
    let unknown = house.call_as("guess", "GET", "/v1/stats", Body::empty()).await;
    assert_eq!(unknown.code(), "STORE_UNAVAILABLE");
}

#[tokio::test]
async fn a_key_with_a_role_of_another_version_opens_nothing() {
    let house = House::new().await;
    house.store.add_key(key("odd", "default", "emperor")).await.unwrap();
    assert_eq!(house.call_as("odd", "GET", "/v1/stats", Body::empty()).await.code(), "UNAUTHORIZED");
}
