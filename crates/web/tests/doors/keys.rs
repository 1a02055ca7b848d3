use std::sync::atomic::Ordering;

use axum::body::Body;
use http::StatusCode;
use pombo_kernel::time::{Span, Time};
use pombo_store::audit::Event;
use pombo_store::shelf::{Pick, Shelf, Wanted};
use pombo_store::{Store, StoreError};
use pombo_web::digest;
use pombo_web::key::hex;
use pombo_web::keys::ensure_admin;
use serde_json::{Value, json};

use crate::house::{House, NOW, Reply, key, message, request};

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
    house.add_key("default", &key("late", "viewer")).await;
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
async fn a_key_is_not_called_unknown_while_the_keys_cannot_be_read() {
    let house = House::new().await;
    house.store.feel(Some(StoreError::Unavailable("no connection".into())));
    for _ in 0..3 {
        assert_eq!(house.get("/v1/stats").await.code(), "STORE_UNAVAILABLE");
    }
}

#[tokio::test]
async fn a_key_with_a_role_of_another_version_opens_nothing() {
    let house = House::new().await;
    house.add_key("default", &key("odd", "emperor")).await;
    assert_eq!(house.call_as("odd", "GET", "/v1/stats", Body::empty()).await.code(), "UNAUTHORIZED");
}

/// Makes a key as the admin, and answers its document.
async fn made(house: &House, wish: &Value) -> Value {
    let reply = house.post("/v1/keys", wish).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{}", reply.text);
    reply.json()
}

async fn with(house: &House, key: &Value, method: &str, path: &str, body: &Value) -> Reply {
    let text = key["key"].as_str().unwrap();
    let call = request(method, path)
        .header("authorization", format!("Bearer {text}"))
        .header("content-type", "application/json");
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    house.send(call.body(body).unwrap()).await
}

async fn opens(house: &House, key: &Value) -> bool {
    with(house, key, "GET", "/v1/stats", &Value::Null).await.status == StatusCode::OK
}

#[tokio::test] // REQ SE-1
async fn a_key_is_shown_once_works_at_once_and_is_kept_as_a_digest() {
    let house = House::new().await;
    let made = made(&house, &json!({"role": "viewer", "label": "grafana"})).await;
    let text = made["key"].as_str().unwrap();
    assert_eq!(text.len(), "pombo_".len() + 64);
    assert!(opens(&house, &made).await);
    assert_eq!((&made["state"], &made["role"]), (&json!("active"), &json!("viewer")));
    assert_eq!(made["created_by"], "admin (key_admin)");
    let id = made["id"].as_str().unwrap();
    let shown = house.get(&format!("/v1/keys/{id}")).await;
    let listed = house.get("/v1/keys").await;
    assert_eq!(shown.json()["id"], id);
    assert!(listed.json()["items"].as_array().unwrap().iter().any(|key| key["id"] == id));
    let wanted = Wanted { shelf: Shelf::Key, tenant: None, pick: Pick::All { after: None }, limit: 100 };
    let docs = house.store.docs(wanted).await.unwrap();
    let audit = house.store.audit(0, 1_000).await.unwrap();
    let added = audit.iter().find(|(_, record)| record.detail.contains(id)).unwrap();
    assert_eq!(added.1.event, Event::KeyAdded);
    assert_eq!(added.1.actor, "admin (key_admin)");
    let digest = hex(&digest(text));
    for everything in [shown.text, listed.text, format!("{audit:?}")] {
        assert!(!everything.contains(&text["pombo_".len()..]), "{everything}");
        assert!(!everything.contains(&digest), "{everything}");
    }
    assert!(!format!("{docs:?}").contains(&text["pombo_".len()..]));
}

#[tokio::test]
async fn keys_are_listed_page_by_page_the_newest_first() {
    let house = House::new().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        house.clock.pass(Span::from_secs(1));
        let key = made(&house, &json!({"role": "producer", "label": format!("app {n}")})).await;
        ids.insert(0, key["id"].as_str().unwrap().to_owned());
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = house.get(&format!("/v1/keys?limit=2{cursor}")).await.json();
        let items = page["items"].as_array().unwrap();
        seen.extend(items.iter().map(|key| key["id"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen[..5], ids);
    assert_eq!(seen.len(), 9, "the house's own four follow, and nobody else's: {seen:?}");
    assert_eq!(house.get("/v1/keys?cursor=before_0000000000000001").await.code(), "INVALID_CURSOR");
}

#[tokio::test] // REQ SE-1
async fn a_revoked_key_ends_at_once_here_and_within_five_seconds_elsewhere() {
    let house = House::new().await;
    let elsewhere = house.another_node();
    let key = made(&house, &json!({"role": "viewer"})).await;
    assert!(opens(&house, &key).await && opens(&elsewhere, &key).await);
    let id = key["id"].as_str().unwrap();
    let revoked = house.call("DELETE", &format!("/v1/keys/{id}"), Body::empty()).await;
    assert_eq!((revoked.status, &revoked.json()["state"]), (StatusCode::OK, &json!("revoked")));
    let refused = with(&house, &key, "GET", "/v1/stats", &Value::Null).await;
    assert_eq!(refused.code(), "UNAUTHORIZED");
    assert_eq!(refused.json()["detail"], "this key was revoked");
    house.clock.pass(Span::from_secs(5));
    assert!(!opens(&elsewhere, &key).await);
    let again = house.call("DELETE", &format!("/v1/keys/{id}"), Body::empty()).await;
    assert_eq!(again.json()["revoked_at"], revoked.json()["revoked_at"]);
    let listed = house.get("/v1/keys").await.json();
    assert!(
        listed["items"].as_array().unwrap().iter().any(|key| key["id"] == id && key["state"] == "revoked")
    );
    let changed = house.call("PATCH", &format!("/v1/keys/{id}"), r#"{"label": "x"}"#).await;
    assert_eq!(changed.code(), "KEY_ENDED");
}

#[tokio::test] // REQ SE-1
async fn a_key_ends_when_its_time_is_over_also_if_the_store_is_away() {
    let house = House::new().await;
    let key = made(&house, &json!({"role": "viewer", "expires_after": "1h"})).await;
    let until: Time = key["expires_at"].as_str().unwrap().parse().unwrap();
    assert_eq!(until, NOW + Span::from_hours(1));
    house.clock.pass(Span::from_mins(59));
    assert!(opens(&house, &key).await);
    house.clock.pass(Span::from_mins(1));
    house.store.feel(Some(StoreError::Unavailable("away".into())));
    let refused = with(&house, &key, "GET", "/v1/stats", &Value::Null).await;
    assert_eq!(refused.json()["detail"], "this key has expired");
    house.store.feel(None);
    let longer = json!({"expires_after": "1h"}).to_string();
    house.call("PATCH", &format!("/v1/keys/{}", key["id"].as_str().unwrap()), longer).await;
    assert!(opens(&house, &key).await, "an admin may give it more time");
}

#[tokio::test] // REQ SE-1
async fn a_rotated_key_works_beside_the_new_one_until_the_overlap_is_over() {
    let house = House::new().await;
    let old =
        made(&house, &json!({"role": "viewer", "label": "l", "channels": ["crm"], "expires_after": "30d"}))
            .await;
    let path = format!("/v1/keys/{}/rotate", old["id"].as_str().unwrap());
    house.clock.pass(Span::from_hours(10 * 24));
    let new = house.post(&path, &json!({"overlap": "2h"})).await;
    assert_eq!(new.status, StatusCode::CREATED, "{}", new.text);
    let new = new.json();
    for field in ["role", "label", "channels", "defaults"] {
        assert_eq!(new[field], old[field], "{field}");
    }
    assert_eq!(new["replaces"], old["id"]);
    assert_eq!(new["replaced"]["replaced_by"], new["id"]);
    let end = |key: &Value| key["expires_at"].as_str().unwrap().parse::<Time>().unwrap();
    let now = NOW + Span::from_hours(10 * 24);
    assert_eq!(end(&new["replaced"]), now + Span::from_hours(2));
    assert_eq!(end(&new), now + Span::from_hours(30 * 24), "it lives as long as the first one was to");
    assert!(opens(&house, &old).await && opens(&house, &new).await);
    let again = house.post(&path, &json!({})).await;
    assert_eq!(again.code(), "KEY_ENDED");
    assert!(again.json()["hint"].as_str().unwrap().contains(new["id"].as_str().unwrap()));
    house.clock.pass(Span::from_hours(2));
    assert!(!opens(&house, &old).await && opens(&house, &new).await);
    let path = format!("/v1/keys/{}/rotate", new["id"].as_str().unwrap());
    let at_once = house.post(&path, &json!({"overlap": "0s"})).await.json();
    assert!(!opens(&house, &new).await && opens(&house, &at_once).await);
}

#[tokio::test] // REQ SE-1
async fn two_who_rotate_a_key_at_once_make_one_new_key() {
    let house = House::new().await;
    let old = made(&house, &json!({"role": "viewer"})).await;
    let path = format!("/v1/keys/{}/rotate", old["id"].as_str().unwrap());
    let body = json!({});
    let replies = futures_util::future::join_all((0..8).map(|_| house.post(&path, &body))).await;
    let (done, refused): (Vec<_>, Vec<_>) =
        replies.iter().partition(|reply| reply.status == StatusCode::CREATED);
    assert_eq!(done.len(), 1);
    assert!(refused.iter().all(|reply| reply.code() == "KEY_ENDED"), "{refused:?}");
    assert!(opens(&house, &done[0].json()).await);
    let listed = house.get("/v1/keys").await.json();
    let successors = listed["items"].as_array().unwrap().iter().filter(|key| key["replaces"] == old["id"]);
    assert_eq!(successors.count(), 1);
}

#[tokio::test] // REQ SE-1
async fn the_last_admin_key_that_works_is_revoked_only_by_force() {
    let house = House::new().await;
    let last = house.call("DELETE", "/v1/keys/key_admin", Body::empty()).await;
    assert_eq!(last.code(), "LAST_ADMIN_KEY");
    assert_eq!(house.get("/v1/keys").await.status, StatusCode::OK);
    let short = made(&house, &json!({"role": "admin", "expires_after": "1h"})).await;
    house.clock.pass(Span::from_hours(1));
    let last = house.call("DELETE", "/v1/keys/key_admin", Body::empty()).await;
    assert_eq!(last.code(), "LAST_ADMIN_KEY", "{} has expired", short["id"]);
    made(&house, &json!({"role": "admin"})).await;
    let mine = house.call("DELETE", "/v1/keys/key_admin", Body::empty()).await;
    assert_eq!(mine.status, StatusCode::OK);

    let house = House::new().await;
    let forced = house.call("DELETE", "/v1/keys/key_admin?force=true", Body::empty()).await;
    assert_eq!(forced.status, StatusCode::OK);
    assert_eq!(house.get("/v1/keys").await.code(), "UNAUTHORIZED");
}

#[tokio::test] // REQ SE-1
async fn the_last_admin_key_is_made_to_expire_only_by_force() {
    let house = House::new().await;
    let patch = async |path: &str, end: Value| {
        house.call("PATCH", &format!("/v1/keys/{path}"), json!({"expires_after": end}).to_string()).await
    };
    assert_eq!(patch("key_admin", json!("1h")).await.code(), "LAST_ADMIN_KEY");
    assert_eq!(patch("key_operator", json!("1h")).await.status, StatusCode::OK, "others may end");
    let other = made(&house, &json!({"role": "admin", "expires_after": "30d"})).await;
    assert_eq!(
        patch("key_admin", json!("31d")).await.code(),
        "LAST_ADMIN_KEY",
        "by then the other one has ended"
    );
    assert_eq!(patch("key_admin", json!("29d")).await.status, StatusCode::OK);
    let other = other["id"].as_str().unwrap();
    assert_eq!(patch(other, json!("1d")).await.status, StatusCode::OK, "the first one is still there then");
    assert_eq!(patch("key_admin", json!("2d")).await.code(), "LAST_ADMIN_KEY");
    assert_eq!(patch("key_admin", Value::Null).await.json()["expires_at"], Value::Null);
    let forced = patch("key_admin?force=true", json!("1h")).await;
    assert_eq!((forced.status, forced.json()["expires_at"].is_string()), (StatusCode::OK, true));
    let label = house.call("PATCH", "/v1/keys/key_admin", r#"{"label": "x"}"#).await;
    assert_eq!(label.status, StatusCode::OK, "what leaves its end alone is no matter");
}

#[tokio::test] // REQ ML-3
async fn a_repeated_request_makes_one_key_and_does_not_show_it_again() {
    let house = House::new().await;
    let post = |path: &'static str, body: Value| {
        let call =
            request("POST", path).header("authorization", "Bearer key-admin").header("idempotency-key", "k");
        house.send(call.body(Body::from(body.to_string())).unwrap())
    };
    let wish = json!({"role": "viewer", "label": "a"});
    let first = post("/v1/keys", wish.clone()).await;
    let again = post("/v1/keys", wish).await;
    assert_eq!((first.status, again.status), (StatusCode::CREATED, StatusCode::CREATED));
    assert_eq!(first.json()["id"], again.json()["id"]);
    assert!(again.json().get("key").is_none(), "{}", again.text);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert!(opens(&house, &first.json()).await);
    let other = post("/v1/keys", json!({"role": "admin"})).await;
    assert_eq!(other.code(), "IDEMPOTENCY_CONFLICT");
    let rotate = "/v1/keys/key_viewer/rotate";
    let (first, again) = (post(rotate, json!({})).await, post(rotate, json!({})).await);
    assert_eq!(first.json()["id"], again.json()["id"]);
    assert!(again.json().get("key").is_none(), "{}", again.text);
    assert!(opens(&house, &first.json()).await);
}

#[tokio::test] // REQ SE-1
async fn a_key_for_some_channels_sees_and_touches_no_others() {
    let house = House::new().await;
    let crm = house.created(&json!({"reference": "r"})).await;
    let own = house.created(&json!({"channel": "null", "to": "x", "reference": "r"})).await;
    for role in ["producer", "operator"] {
        let key = made(&house, &json!({"role": role, "channels": ["null"]})).await;
        let call = |method: &'static str, path: String, body: Value| {
            let (house, key) = (&house, &key);
            async move { with(house, key, method, &path, &body).await }
        };
        let nothing = || Value::Null;
        let refused = call("POST", "/v1/messages".into(), message(&json!({}))).await;
        assert_eq!(refused.code(), "FORBIDDEN", "{}", refused.text);
        let fine = message(&json!({"channel": "null", "to": "x"}));
        assert_eq!(call("POST", "/v1/messages".into(), fine.clone()).await.status, StatusCode::ACCEPTED);
        let batch =
            call("POST", "/v1/messages/batch".into(), json!([message(&json!({})), fine])).await.json();
        assert_eq!(batch["items"][0]["error"]["code"], "FORBIDDEN");
        assert_eq!(batch["items"][1]["state"], "pending");
        assert_eq!(call("GET", format!("/v1/messages/{crm}"), nothing()).await.code(), "NOT_FOUND");
        assert_eq!(call("GET", format!("/v1/messages/{own}"), nothing()).await.status, StatusCode::OK);
        assert_eq!(call("POST", format!("/v1/messages/{crm}/cancel"), nothing()).await.code(), "NOT_FOUND");
        let found = call("GET", "/v1/messages?reference=r".into(), nothing()).await.json();
        let ids: Vec<_> = found["items"].as_array().unwrap().iter().map(|item| &item["id"]).collect();
        assert_eq!(ids, [&json!(own)]);
    }
    assert_eq!(house.get(&format!("/v1/messages/{crm}")).await.json()["state"], "pending");
    let key = made(&house, &json!({"role": "operator", "channels": ["null"]})).await;
    let listed = with(&house, &key, "GET", "/v1/channels", &Value::Null).await.json();
    let names: Vec<_> = listed["items"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["null"]);
    let stats = with(&house, &key, "GET", "/v1/stats", &Value::Null).await.json();
    assert!(stats["channels"].get("crm").is_none(), "{stats}");
    assert_eq!(stats["total"], stats["channels"]["null"]);
    for channel in ["crm", "nowhere"] {
        let path = format!("/v1/channels/{channel}/hold");
        let held = with(&house, &key, "POST", &path, &json!({"reason": "x"})).await;
        assert_eq!(held.code(), "FORBIDDEN");
    }
    let held = with(&house, &key, "POST", "/v1/channels/null/hold", &json!({"reason": "x"})).await;
    assert_eq!(held.status, StatusCode::OK);
    let put = with(&house, &key, "PUT", "/v1/templates/t", &json!({"text": "x"})).await;
    assert_eq!(put.code(), "FORBIDDEN", "templates are everybody's in the tenant");
}

#[tokio::test]
async fn what_a_key_may_do_is_checked_when_it_is_made_and_when_it_is_changed() {
    let house = House::new().await;
    let wrong = json!({
        "role": "emperor", "label": "a\nb", "channels": ["crm", "theirs"], "defaults": {"fax": "crm"},
        "expires_after": "20000d", "colour": "red",
    });
    let reply = house.post("/v1/keys", &wrong).await;
    for field in ["role", "label", "channels", "defaults", "expires_after", "colour"] {
        reply.refused("INVALID_FIELD", field);
    }
    let cases = [
        (json!({}), "role"),
        (json!({"role": "admin", "channels": ["crm"]}), "channels"),
        (json!({"role": "viewer", "channels": []}), "channels"),
        (json!({"role": "viewer", "channels": "crm"}), "channels"),
        (json!({"role": "viewer", "defaults": {"smtp": "crm"}}), "defaults"),
        (json!({"role": "viewer", "defaults": {"webhook": "theirs"}}), "defaults"),
        (json!({"role": "viewer", "channels": ["null"], "defaults": {"webhook": "crm"}}), "defaults"),
        (json!({"role": "viewer", "expires_at": "2020-01-01T00:00:00Z"}), "expires_at"),
        (
            json!({"role": "viewer", "expires_at": NOW + Span::from_hours(1), "expires_after": "1h"}),
            "expires_after",
        ),
        (json!({"role": "viewer", "tenant": "Not A Name"}), "tenant"),
    ];
    for (wish, field) in cases {
        house.post("/v1/keys", &wish).await.refused("INVALID_FIELD", field);
    }
    let key =
        made(&house, &json!({"role": "operator", "channels": ["crm"], "defaults": {"webhook": "crm"}})).await;
    let path = format!("/v1/keys/{}", key["id"].as_str().unwrap());
    let patch = |body: Value| house.call("PATCH", &path, body.to_string());
    patch(json!({"channels": ["null"]})).await.refused("INVALID_FIELD", "defaults");
    patch(json!({"role": "admin"})).await.refused("INVALID_FIELD", "role");
    let wide = patch(json!({"channels": null, "label": "wide", "expires_after": "1d"})).await.json();
    assert_eq!((&wide["channels"], &wide["label"]), (&Value::Null, &json!("wide")));
    assert!(
        with(&house, &key, "POST", "/v1/channels/null/hold", &json!({"reason": "x"}))
            .await
            .status
            .is_success()
    );
    let forever = patch(json!({"expires_at": null})).await.json();
    assert_eq!((&forever["expires_at"], &forever["label"]), (&Value::Null, &json!("wide")));
    assert_eq!(house.call("PATCH", "/v1/keys/key_nobody", "{}").await.code(), "NOT_FOUND");
}

#[tokio::test] // REQ SE-1
async fn only_the_house_makes_keys_for_other_tenants() {
    let house = House::new().await;
    let theirs = made(&house, &json!({"role": "admin", "tenant": "other", "label": "their admin"})).await;
    let id = theirs["id"].as_str().unwrap();
    assert_eq!(theirs["tenant"], "other");
    assert_eq!(house.get(&format!("/v1/keys/{id}")).await.code(), "NOT_FOUND");
    assert_eq!(house.get(&format!("/v1/keys/{id}?tenant=other")).await.json()["label"], "their admin");
    let asked =
        with(&house, &theirs, "POST", "/v1/keys", &json!({"role": "viewer", "tenant": "default"})).await;
    assert_eq!(asked.code(), "FORBIDDEN");
    let own = with(&house, &theirs, "POST", "/v1/keys", &json!({"role": "viewer", "tenant": "other"})).await;
    assert_eq!(own.json()["tenant"], "other");
    for (method, path) in [
        ("GET", "/v1/keys?tenant=default"),
        ("GET", "/v1/keys/key_admin?tenant=default"),
        ("DELETE", "/v1/keys/key_viewer?tenant=default"),
        ("PATCH", "/v1/keys/key_viewer?tenant=default"),
        ("POST", "/v1/keys/key_viewer/rotate?tenant=default"),
        ("POST", "/v1/store/pause"),
        ("POST", "/v1/store/resume"),
        ("POST", "/v1/store/prune"),
    ] {
        let reply = with(&house, &theirs, method, path, &json!({})).await;
        assert_eq!(reply.code(), "FORBIDDEN", "{method} {path}");
    }
    let listed = with(&house, &theirs, "GET", "/v1/keys", &Value::Null).await.json();
    assert!(listed["items"].as_array().unwrap().iter().all(|key| key["tenant"] == "other"));
    let gone = house.call("DELETE", &format!("/v1/keys/{id}?tenant=other"), Body::empty()).await;
    assert_eq!(gone.json()["state"], "revoked", "another admin of theirs is left");
}

#[tokio::test] // REQ SE-1
async fn the_use_of_a_key_is_written_down_once_a_minute_and_is_no_change_of_it() {
    let house = House::new().await;
    let key = made(&house, &json!({"role": "viewer"})).await;
    let id = key["id"].as_str().unwrap();
    let used = async || -> Option<Time> {
        // Uses are noted beside the requests; the store does one thing after another.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let shown = house.get(&format!("/v1/keys/{id}")).await.json();
        shown["last_used_at"].as_str().map(|at| at.parse().unwrap())
    };
    assert_eq!(used().await, None);
    assert!(opens(&house, &key).await);
    let first = until(&used, Some(NOW)).await;
    assert_eq!(first, Some(NOW));
    house.clock.pass(Span::from_secs(59));
    assert!(opens(&house, &key).await);
    assert_eq!(used().await, Some(NOW));
    house.clock.pass(Span::from_secs(1));
    assert!(opens(&house, &key).await);
    assert_eq!(until(&used, Some(NOW + Span::from_mins(1))).await, Some(NOW + Span::from_mins(1)));
    let records = house.store.audit(0, 1_000).await.unwrap();
    assert_eq!(
        records.iter().filter(|(_, record)| record.detail.contains(id)).count(),
        1,
        "uses are no changes"
    );
}

/// What `look` says once it says that, or after a while.
async fn until<T: PartialEq>(look: &impl AsyncFn() -> T, wanted: T) -> T {
    let mut seen = look().await;
    for _ in 0..6_000 {
        if seen == wanted {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        seen = look().await;
    }
    seen
}

#[tokio::test] // REQ SE-1
async fn a_stream_ends_when_its_key_does() {
    let house = House::new().await;
    let key = made(&house, &json!({"role": "producer"})).await;
    let (lines, body) = tokio::sync::mpsc::unbounded_channel::<Result<String, std::io::Error>>();
    let body = Body::from_stream(futures_util::stream::unfold(body, |mut body| async move {
        Some((body.recv().await?, body))
    }));
    let call = request("POST", "/v1/messages/batch")
        .header("authorization", format!("Bearer {}", key["key"].as_str().unwrap()))
        .header("content-type", "application/x-ndjson");
    let line = format!("{}\n", message(&json!({})));
    let answer = async {
        let reply = house.send(call.body(body).unwrap()).await;
        reply.lines()
    };
    let events = async {
        lines.send(Ok(line.clone())).unwrap();
        until(&async || house.stored().await, 1).await;
        house.call("DELETE", &format!("/v1/keys/{}", key["id"].as_str().unwrap()), Body::empty()).await;
        lines.send(Ok(line.clone())).unwrap();
        lines.send(Ok(line.clone())).unwrap_or_default();
        drop(lines);
    };
    let (answers, ()) = tokio::join!(answer, events);
    assert_eq!(answers[0]["state"], "pending");
    assert_eq!(answers[1]["error"]["code"], "UNAUTHORIZED", "{answers:?}");
    assert_eq!((answers.len(), house.stored().await), (2, 1));
}

#[tokio::test] // REQ SE-1
async fn the_first_start_makes_one_admin_key_however_many_nodes_there_are() {
    let house = House::bare();
    let entropy = counting();
    let starts = (0..8).map(|_| ensure_admin(&*house.store, None, &entropy, NOW));
    let made = futures_util::future::join_all(starts).await;
    let made: Vec<String> = made.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(made.len(), 1);
    assert!(opens(&house, &json!({"key": made[0]})).await);
    assert_eq!(ensure_admin(&*house.store, None, &entropy, NOW).await, Ok(None));
}

#[tokio::test] // REQ SE-1
async fn a_new_key_in_the_environment_takes_the_place_of_the_one_before() {
    let house = House::bare();
    let entropy = counting();
    let given = async |key: &str| ensure_admin(&*house.store, Some(key), &entropy, NOW).await.unwrap();
    let works = async |key: &str| {
        house.clock.pass(Span::from_secs(5));
        opens(&house, &json!({"key": key})).await
    };
    assert_eq!(given("pombo_one").await, None);
    assert!(works("pombo_one").await);
    given("pombo_one").await;
    given("pombo_two").await;
    assert!(!works("pombo_one").await && works("pombo_two").await);
    given("pombo_one").await;
    assert!(!works("pombo_one").await, "what was revoked stays so");
    assert!(works("pombo_two").await, "and takes nothing with it");
    let listed = with(&house, &json!({"key": "pombo_two"}), "GET", "/v1/keys", &Value::Null).await.json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
}

fn counting() -> impl Fn() -> [u8; 32] + Send + Sync {
    let count = std::sync::atomic::AtomicU8::new(0);
    move || [count.fetch_add(1, Ordering::Relaxed); 32]
}
