use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use pombo_kernel::setup::{ChannelSetup, Suppressions};
use pombo_store::StoreError;
use pombo_web::Patience;
use pombo_web::problem::Code;
use serde_json::json;

use crate::alerts::over;
use crate::dead::dead;
use crate::house::{House, message, request, setup};

#[tokio::test] // REQ IN-1
async fn malformed_json_names_line_and_column_and_stores_nothing() {
    let house = House::new().await;
    let reply = house.call("POST", "/v1/messages", "{\n  \"channel\": crm\n}").await;
    assert_eq!((reply.status, reply.code().as_str()), (StatusCode::BAD_REQUEST, "INVALID_JSON"));
    assert!(reply.json()["detail"].as_str().unwrap().starts_with("line 2, column 14"), "{}", reply.text);
    for bad in ["", "{", "{\"a\":1}}", "\u{feff}{}", "{'a':1}", "nul"] {
        assert_eq!(house.call("POST", "/v1/messages", bad).await.code(), "INVALID_JSON", "{bad}");
    }
    let broken = Body::from(Bytes::from_static(b"{\"channel\":\"\xff\xfe\"}"));
    assert_eq!(house.call("POST", "/v1/messages", broken).await.code(), "INVALID_JSON");
    assert_eq!(house.stored().await, 0);
}

#[tokio::test] // REQ IN-1
async fn bad_input_names_the_field_the_reason_and_the_remedy_and_stores_nothing() {
    let house = House::new().await;
    for (changes, code, field) in [
        (json!({"channel": 7}), "INVALID_FIELD", "channel"),
        (json!({"channel": "crmm"}), "UNKNOWN_CHANNEL", "channel"),
        (json!({"channel": "theirs"}), "UNKNOWN_CHANNEL", "channel"),
        (json!({"to": null}), "INVALID_FIELD", "to"),
        (json!({"to": {}}), "INVALID_FIELD", "to"),
        (json!({"to": "nonsense"}), "INVALID_FIELD", "to"),
        (json!({"priority": "high"}), "INVALID_FIELD", "priority"),
        (json!({"priority": 10}), "INVALID_FIELD", "priority"),
        (json!({"send_at": "2001-01-01T00:00:00Z"}), "TIME_IN_PAST", "send_at"),
        (json!({"send_at": "tomorrow"}), "INVALID_FIELD", "send_at"),
        (json!({"expires_after": "0s"}), "INVALID_FIELD", "expires_after"),
        (json!({"content": {"text": "oi"}}), "CONTENT_NOT_ACCEPTED", "content.text"),
        (json!({"content": null}), "INVALID_FIELD", "content"),
        (json!({"content": {"body": "x".repeat(5_000)}}), "BODY_TOO_LARGE", "content"),
        (json!({"content": null, "template": "welcome"}), "TEMPLATE_NOT_FOUND", "template"),
        (json!({"lane": "fast"}), "INVALID_FIELD", "lane"),
        (json!({"retry": {"attempts": 500}}), "INVALID_FIELD", "retry.attempts"),
        (json!({"colour": "red"}), "INVALID_FIELD", "colour"),
    ] {
        house.post("/v1/messages", &message(&changes)).await.refused(code, field);
    }
    house.post("/v1/messages", &json!([message(&json!({}))])).await.refused("INVALID_FIELD", "body");
    assert_eq!(house.stored().await, 0);
}

#[tokio::test]
async fn several_problems_are_told_at_once() {
    let house = House::new().await;
    let bad = json!({"channel": "nope", "priority": 11, "content": 7, "colour": 1});
    let reply = house.post("/v1/messages", &bad).await;
    for field in ["channel", "priority", "to", "colour"] {
        assert!(
            reply.json()["errors"].as_array().unwrap().iter().any(|e| e["field"] == field),
            "{}",
            reply.text
        );
    }
    assert!(reply.json()["detail"].as_str().unwrap().contains("4 problems"), "{}", reply.text);
}

#[tokio::test]
async fn too_large_a_body_is_refused_whether_or_not_it_says_so_beforehand() {
    let house = House::new().await;
    let large = json!({"a": "x".repeat(120_000)}).to_string();
    assert_eq!(house.call("POST", "/v1/messages", large.clone()).await.code(), "BODY_TOO_LARGE");
    for chunk in [200_000, 10_000] {
        let pieces: Vec<Result<Bytes, std::io::Error>> =
            large.as_bytes().chunks(chunk).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let reply = house.call("POST", "/v1/messages", Body::from_stream(stream::iter(pieces))).await;
        assert_eq!(reply.status, StatusCode::PAYLOAD_TOO_LARGE);
    }
    let told = request("POST", "/v1/messages")
        .header("authorization", "Bearer key-admin")
        .header("content-length", "99999999")
        .body(Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>()))
        .unwrap();
    assert_eq!(house.send(told).await.code(), "BODY_TOO_LARGE");
}

#[tokio::test]
async fn a_body_in_many_pieces_is_one_body() {
    let house = House::new().await;
    let text = message(&json!({"reference": "pieces"})).to_string();
    let pieces: Vec<Result<Bytes, std::io::Error>> =
        text.as_bytes().chunks(7).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let reply = house.call("POST", "/v1/messages", Body::from_stream(stream::iter(pieces))).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED, "{}", reply.text);
}

#[tokio::test]
async fn other_media_types_are_refused() {
    let house = House::new().await;
    let post = |media: &str| {
        let request = request("POST", "/v1/messages").header("authorization", "Bearer key-admin");
        let body = message(&json!({})).to_string();
        house.send(request.header("content-type", media).body(Body::from(body)).unwrap())
    };
    for bad in
        ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "", "é"]
    {
        assert_eq!(post(bad).await.code(), "UNSUPPORTED_MEDIA_TYPE", "{bad}");
    }
    assert_eq!(post("application/x-ndjson").await.code(), "UNSUPPORTED_MEDIA_TYPE");
    for good in ["application/json", "Application/JSON; charset=UTF-8", "application/vnd.x+json"] {
        assert_eq!(post(good).await.status, StatusCode::ACCEPTED, "{good}");
    }
    let bare = request("POST", "/v1/messages").header("authorization", "Bearer key-admin");
    let bare = bare.body(Body::from(message(&json!({})).to_string())).unwrap();
    assert_eq!(house.send(bare).await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn unknown_addresses_and_methods_answer_problems() {
    let house = House::new().await;
    for path in ["/", "/v1", "/v1/nothing", "/v2/messages", "/v1/messages/a/b/c", "/%00", "/v1/messages/"] {
        assert_eq!(house.get(path).await.code(), "NOT_FOUND", "{path}");
    }
    let reply = house.call("DELETE", "/v1/messages", Body::empty()).await;
    assert_eq!(reply.code(), "METHOD_NOT_ALLOWED");
    let allow = reply.header("allow").unwrap_or_default();
    assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");
    assert_eq!(house.call("BREW", "/healthz", Body::empty()).await.code(), "METHOD_NOT_ALLOWED");
}

#[tokio::test]
async fn a_store_that_cannot_keep_up_asks_callers_to_come_back() {
    let house = House::new().await;
    house.get("/v1/stats").await;
    house.store.feel(Some(StoreError::Overloaded));
    let reply = house.post("/v1/messages", &message(&json!({}))).await;
    assert_eq!((reply.status, reply.code().as_str()), (StatusCode::TOO_MANY_REQUESTS, "OVERLOADED"));
    assert_eq!(reply.header("retry-after"), Some("1"));
    house.store.feel(None);
    assert_eq!(house.stored().await, 0);
}

#[tokio::test] // RELIABILITY 38
async fn a_read_that_took_too_long_is_told_apart_from_a_store_that_is_away() {
    let house = House::new().await;
    house.get("/v1/stats").await;
    house.store.feel_for(Some(StoreError::TooLong), 1);
    let reply = house.get("/v1/stats").await;
    assert_eq!((reply.status, reply.code().as_str()), (StatusCode::SERVICE_UNAVAILABLE, "READ_TOO_LONG"));
    assert_eq!(reply.header("retry-after"), None, "the same again would take as long");
    let problem = reply.json();
    assert_eq!(problem["detail"], "the read took longer than 10 s and was ended; the store itself is well");
    assert!(problem["hint"].as_str().unwrap().starts_with("ask for less"), "{problem}");
    assert_eq!(house.get("/v1/stats").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_store_that_is_away_is_told_apart_and_comes_back() {
    let house = House::new().await;
    house.get("/v1/stats").await;
    for error in
        [StoreError::Unavailable("disk full: secret path".into()), StoreError::Broken("fsync".into())]
    {
        house.store.feel(Some(error));
        let reply = house.post("/v1/messages", &message(&json!({}))).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (StatusCode::SERVICE_UNAVAILABLE, "STORE_UNAVAILABLE")
        );
        assert_eq!(reply.header("retry-after"), Some("5"));
        assert!(!reply.text.contains("secret"), "{}", reply.text);
        assert_eq!(house.get("/readyz").await.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(house.get("/healthz").await.status, StatusCode::OK);
    }
    house.store.feel(None);
    assert_eq!(house.get("/readyz").await.status, StatusCode::OK);
    assert_eq!(house.post("/v1/messages", &message(&json!({}))).await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn a_door_that_closes_takes_nothing_new_and_still_answers_questions() {
    let house = House::new().await;
    let id = house.created(&json!({})).await;
    house.door.close();
    assert_eq!(house.post("/v1/messages", &message(&json!({}))).await.code(), "SHUTTING_DOWN");
    assert_eq!(house.post("/v1/messages/batch", &json!([])).await.code(), "SHUTTING_DOWN");
    assert_eq!(house.get("/readyz").await.code(), "SHUTTING_DOWN");
    assert_eq!(house.get("/healthz").await.status, StatusCode::OK);
    assert_eq!(house.get(&format!("/v1/messages/{id}")).await.status, StatusCode::OK);
}

#[tokio::test]
async fn every_code_can_be_met() {
    let short = Duration::from_millis(50);
    let patience = Patience { body: short, stream: short, ..Patience::default() };
    let house = House::with(setup(), patience).await;
    let mut met = BTreeSet::new();
    let id = house.created(&json!({})).await;
    let cancel = format!("/v1/messages/{id}/cancel");
    let many: Vec<_> = (0..201).map(|_| json!({})).collect();
    for (path, body) in [
        ("/v1/messages", message(&json!({"channel": "x"}))),
        ("/v1/messages", message(&json!({"to": 1}))),
        ("/v1/messages", message(&json!({"content": null, "template": "x"}))),
        ("/v1/messages", message(&json!({"content": {"xml": "<a/>"}}))),
        ("/v1/messages", message(&json!({"send_at": "2001-01-01T00:00:00Z"}))),
        ("/v1/messages", json!("x".repeat(120_000))),
        ("/v1/messages/batch", json!(many)),
        (&cancel, json!({})),
        (&cancel, json!({})),
    ] {
        let reply = house.post(path, &body).await;
        if reply.status != StatusCode::OK {
            met.insert(reply.code());
        }
    }
    house.put_template("greeting", &json!({"subject": "Hello", "text": "you"})).await;
    let draft = json!({"name": "Check-ups", "channel": "mail", "template": "greeting"});
    let draft = house.post("/v1/campaigns", &draft).await.json();
    for verb in ["start", "pause"] {
        let path = format!("/v1/campaigns/{}/{verb}", draft["id"].as_str().unwrap());
        met.insert(house.post(&path, &json!({})).await.code());
    }
    house.post("/v1/suppressions", &json!({"kind": "email", "recipient": "ana@example.com"})).await;
    let mut minding = setup();
    let mail = minding.channels.get_mut("mail").unwrap();
    *mail = Arc::new(ChannelSetup { suppressions: Suppressions::All, ..(**mail).clone() });
    house.setup.send_replace(Arc::new(minding));
    let mail = json!({"channel": "mail", "to": "ana@example.com", "content": {"subject": "s", "text": "t"}});
    met.insert(house.post("/v1/messages", &mail).await.code());
    let edit = json!({"to": "https://a.example", "version": 7}).to_string();
    met.insert(house.call("PATCH", &format!("/v1/dead-letters/{id}"), edit.clone()).await.code());
    met.insert(house.post(&format!("/v1/messages/{id}/retry"), &json!({})).await.code());
    let letter = dead(&house, &json!({}), "wrong").await;
    met.insert(house.call("PATCH", &format!("/v1/dead-letters/{letter}"), edit).await.code());
    met.insert(
        house.post(&format!("/v1/alerts/{}/silence", over(&house).await), &json!({"for": "1h"})).await.code(),
    );
    met.insert(house.call("POST", "/v1/messages", "{").await.code());
    met.insert(house.get("/v1/messages?cursor=x").await.code());
    met.insert(house.get("/nowhere").await.code());
    met.insert(house.call("PUT", "/v1/templates/x", "{}").await.code());
    met.insert(house.call("PUT", "/v1/stats", Body::empty()).await.code());
    met.insert(house.call_as("nobody", "GET", "/v1/stats", Body::empty()).await.code());
    met.insert(house.call_as("viewer", "POST", "/v1/messages", "{}").await.code());
    met.insert(house.call_as("viewer", "GET", "/v1/messages?reveal=true", "").await.code());
    for (error, count) in [("", 1), ("TIMEOUT", 5), ("INVALID_PATIENT_DATA", 1)] {
        let asked = json!({"claimId": "CLM-A-1", "submissionError": error, "retryCount": count});
        met.insert(house.post("/v1/retry-decisions", &asked).await.code());
    }
    for _ in 0..100 {
        house.post("/v1/webhooks", &json!({"url": "https://hooks.example/x"})).await;
    }
    met.insert(house.post("/v1/webhooks", &json!({"url": "https://hooks.example/x"})).await.code());
    let rule = |number: usize| json!({"channel": "crm", "rule": {"contains": format!("words {number}"), "verdict": "transient", "category": "x"}});
    for number in 0..100 {
        house.post("/v1/rules", &rule(number)).await;
    }
    met.insert(house.post("/v1/rules", &rule(100)).await.code());
    met.insert(house.call("DELETE", "/v1/keys/key_admin", Body::empty()).await.code());
    house.post("/v1/keys/key_viewer/rotate", &json!({})).await;
    met.insert(house.post("/v1/keys/key_viewer/rotate", &json!({})).await.code());
    for _ in 0..20 {
        met.insert(house.call_as("nobody", "GET", "/v1/stats", Body::empty()).await.code());
    }
    let form = request("POST", "/v1/messages").header("authorization", "Bearer key-admin");
    met.insert(
        house.send(form.header("content-type", "text/html").body(Body::empty()).unwrap()).await.code(),
    );
    let endless = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
    met.insert(house.call("POST", "/v1/messages", endless).await.code());
    house.post_keyed(&message(&json!({})), "k").await;
    met.insert(house.post_keyed(&message(&json!({"priority": 1})), "k").await.code());
    for error in [StoreError::Overloaded, StoreError::Unavailable("x".into()), StoreError::Closed] {
        house.store.feel_for(Some(error), 1);
        met.insert(house.post("/v1/messages", &message(&json!({}))).await.code());
    }
    for error in [StoreError::TooLong, StoreError::Broken("panic".into())] {
        house.store.feel_for(Some(error), 1);
        met.insert(house.get("/v1/stats").await.code());
    }
    let all: BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str().to_owned()).collect();
    assert_eq!(met, all);
}

#[tokio::test]
async fn no_answer_may_be_kept_or_guessed_at() {
    let house = House::new().await;
    for path in ["/healthz", "/v1/channels", "/nowhere"] {
        let reply = house.get(path).await;
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    }
}
