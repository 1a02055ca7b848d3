use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Body;
use futures_util::future::join_all;
use http::StatusCode;
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Attempt, AttemptFailure, AttemptOutcome, FailureReason};
use pombo_kernel::time::Span;
use pombo_store::{Ask, NodeId, Settlement, Store};
use serde_json::{Value, json};

use crate::house::{House, NOW, message, request, setup};

const FIELDS: &str = "channel to type template payload content lane priority send_at expires_after reference user_id \
                      ordering_key metadata id state failure_reason attempt_count max_attempts next_attempt_at \
                      last_error provider_id delivery delivery_at delivery_detail created_at updated_at finished_at campaign attempts";

fn fields(document: &Value) -> BTreeSet<&str> {
    document.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test] // REQ ML-1
async fn a_message_is_accepted_and_reads_as_it_was_answered() {
    let house = House::new().await;
    let full = message(&json!({
        "type": "execute_side_effect", "lane": "bulk", "priority": 9, "send_at": "2027-02-01T00:00:00Z",
        "expires_after": "9000h", "reference": "crm-8812", "user_id": "u", "ordering_key": "k",
        "metadata": {"b": 1, "a": 2},
    }));
    let reply = house.post("/v1/messages", &full).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("idempotency-replayed"), None);
    let answered = reply.json();
    assert_eq!(fields(&answered), FIELDS.split_whitespace().collect());
    for field in ["channel", "to", "type", "lane", "priority", "reference", "content", "metadata"] {
        assert_eq!(answered[field], full[field], "{field}");
    }
    assert_eq!(answered["state"], "pending");
    assert_eq!(answered["attempt_count"], 0);
    assert_eq!(answered["max_attempts"], 8);
    assert_eq!(answered["next_attempt_at"], "2027-02-01T00:00:00.000Z");
    assert_eq!(answered["expires_after"], "375d");
    assert_eq!(answered["created_at"], NOW.to_string());
    assert_eq!(answered["attempts"], json!([]));
    let id = answered["id"].as_str().unwrap();
    assert_eq!(house.get(&format!("/v1/messages/{id}")).await.json(), answered);
    let uuid = id.parse::<MessageId>().unwrap().uuid();
    assert_eq!(house.get(&format!("/v1/messages/{uuid}")).await.json(), answered);
    let listed = house.get("/v1/messages?reference=crm-8812").await.json();
    let mut without = answered.clone();
    without.as_object_mut().unwrap().remove("attempts");
    assert_eq!(listed, json!({"items": [without], "next_cursor": null}));
}

#[tokio::test]
async fn what_was_left_out_reads_as_null_and_its_default() {
    let house = House::new().await;
    let reply = house.post("/v1/messages", &message(&json!({}))).await.json();
    assert_eq!(reply["metadata"], json!({}));
    assert_eq!((&reply["priority"], &reply["lane"]), (&json!(5), &json!("default")));
    assert_eq!(reply["next_attempt_at"], reply["created_at"]);
    for field in
        ["type", "template", "payload", "send_at", "expires_after", "last_error", "finished_at", "campaign"]
    {
        assert_eq!(reply[field], Value::Null, "{field}");
    }
    let own = house.post("/v1/messages", &message(&json!({"retry": {"attempts": 2}}))).await.json();
    assert_eq!(own["max_attempts"], 2);
}

#[tokio::test] // REQ ML-7
async fn attempts_and_the_end_are_told() {
    let house = House::new().await;
    let id = house.created(&json!({"channel": "null", "to": "x", "content": {}})).await;
    let node = NodeId(1);
    house.store.heartbeat(node, NOW + Span::from_hours(1)).await.unwrap();
    let claimed = house
        .store
        .claim(Ask { node, lane: "default".parse().unwrap(), max: 1, rates: Default::default() })
        .await
        .unwrap();
    assert_eq!(house.get(&format!("/v1/messages/{id}")).await.json()["state"], "sending");
    let reply = house.call("POST", &format!("/v1/messages/{id}/cancel"), Body::empty()).await;
    assert_eq!((reply.code().as_str(), &reply.json()["state"]), ("NOT_CANCELLABLE", &json!("sending")));
    let failure = AttemptFailure {
        verdict: pombo_kernel::classify::Verdict::Permanent,
        category: "invalid_recipient".into(),
        code: Some("404".into()),
        text: "no such number".into(),
        perhaps_sent: false,
        rule: None,
    };
    let attempt = Attempt {
        round: 0,
        number: 1,
        started_at: NOW,
        finished_at: NOW,
        outcome: AttemptOutcome::Failed,
        failure: Some(failure),
        next_delay: None,
        explanation: "a permanent error is not retried".into(),
        policy: Some("webhook: 8 attempts".into()),
    };
    let mut progress = claimed[0].progress;
    progress.attempts = 1;
    progress.steps += 1;
    let settlement = Settlement {
        key: claimed[0].key,
        attempt,
        next: pombo_kernel::lifecycle::Next::Failed(FailureReason::PermanentError),
        progress,
        block: Default::default(),
        vitals: Default::default(),
        reported: true,
        chance: 0,
    };
    house.store.settle(vec![settlement]).await.unwrap();
    let read = house.get(&format!("/v1/messages/{id}")).await.json();
    assert_eq!((&read["state"], &read["failure_reason"]), (&json!("failed"), &json!("permanent_error")));
    assert_eq!(
        read["last_error"],
        json!({"verdict": "permanent", "category": "invalid_recipient", "code": "404", "text": "no such number"})
    );
    assert_eq!(
        read["attempts"],
        json!([{
            "round": 0, "number": 1, "started_at": NOW.to_string(), "finished_at": NOW.to_string(), "outcome": "failed",
            "verdict": "permanent", "category": "invalid_recipient", "code": "404", "error": "no such number",
            "perhaps_sent": false, "next_delay_ms": null, "explanation": "a permanent error is not retried",
            "policy": "webhook: 8 attempts",
        }])
    );
    assert_eq!((&read["attempt_count"], &read["next_attempt_at"]), (&json!(1), &Value::Null));
    assert_eq!(read["finished_at"], NOW.to_string());
    let listed = house.get("/v1/messages?state=failed&category=invalid_recipient").await.json();
    assert_eq!(listed["items"][0]["last_error"], read["last_error"]);
}

#[tokio::test] // REQ ML-3
async fn the_same_key_and_body_are_the_same_message() {
    let house = House::new().await;
    let body = message(&json!({"reference": "a"}));
    let first = house.post_keyed(&body, "order-1").await;
    assert_eq!(first.header("idempotency-replayed"), None);
    let quoted = house.post_keyed(&body, "\"order-1\"").await;
    assert_eq!(quoted.status, StatusCode::ACCEPTED);
    assert_eq!(quoted.header("idempotency-replayed"), Some("true"));
    assert_eq!(quoted.json(), first.json());
    let other = house.post_keyed(&message(&json!({"reference": "b"})), "order-1").await;
    assert_eq!((other.status, other.code().as_str()), (StatusCode::CONFLICT, "IDEMPOTENCY_CONFLICT"));
    assert_eq!(other.json()["message_id"], first.json()["id"]);
    let in_body = message(&json!({"reference": "a", "idempotency_key": "order-1"}));
    assert_eq!(house.post("/v1/messages", &in_body).await.json()["id"], first.json()["id"]);
    house.post_keyed(&in_body, "order-2").await.refused("INVALID_FIELD", "idempotency_key");
    house.post_keyed(&body, "").await.refused("INVALID_FIELD", "Idempotency-Key");
    assert_eq!(house.stored().await, 1);
}

#[tokio::test] // REQ ML-3
async fn a_refused_request_does_not_use_up_its_key() {
    let house = House::new().await;
    house.post_keyed(&message(&json!({"to": 1})), "k").await.refused("INVALID_FIELD", "to");
    assert_eq!(house.post_keyed(&message(&json!({})), "k").await.status, StatusCode::ACCEPTED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_at_once_with_one_key_are_one_message() {
    let house = Arc::new(House::new().await);
    let posts = (0..100).map(|n| {
        let house = house.clone();
        tokio::spawn(async move {
            let body = message(&json!({"priority": if n == 50 { 1 } else { 2 }}));
            house.post_keyed(&body, "same").await
        })
    });
    let replies: Vec<_> = join_all(posts).await.into_iter().map(Result::unwrap).collect();
    let ids: BTreeSet<String> = replies
        .iter()
        .filter(|reply| reply.status == StatusCode::ACCEPTED)
        .map(|reply| reply.json()["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(house.stored().await, 1);
    let conflicts = replies.iter().filter(|reply| reply.status == StatusCode::CONFLICT).count();
    assert!(conflicts == 1 || conflicts == 99, "{conflicts}");
}

#[tokio::test] // REQ ML-6
async fn a_waiting_message_can_be_cancelled_once() {
    let house = House::new().await;
    let id = house.created(&json!({})).await;
    let path = format!("/v1/messages/{id}/cancel");
    let reply = house.call_as("producer", "POST", &path, Body::empty()).await;
    assert_eq!((reply.status, &reply.json()["state"]), (StatusCode::OK, &json!("cancelled")));
    assert_eq!(reply.json()["finished_at"], NOW.to_string());
    let again = house.call("POST", &path, Body::empty()).await;
    assert_eq!((again.status, again.code().as_str()), (StatusCode::CONFLICT, "NOT_CANCELLABLE"));
    assert_eq!((&again.json()["state"], &again.json()["message_id"]), (&json!("cancelled"), &json!(id)));
}

#[tokio::test]
async fn hostile_ids_are_not_found() {
    let house = House::new().await;
    let real = house.created(&json!({})).await;
    let long = "a".repeat(5_000);
    for id in [
        "msg_",
        "msg_0",
        "..%2f..%2fetc%2fpasswd",
        "%00",
        "%ff%fe",
        "%F0%9F%95%8A",
        "';DROP%20TABLE%20messages;--",
        "msg_ffffffffffffffffffffffffffffffff",
        "00000000-0000-0000-0000-000000000000",
        "null",
        "-1",
        "%20",
        "*",
        "msg_%30",
        &real.to_uppercase(),
        &format!("{real}0"),
        &format!("%20{real}"),
        &long,
    ] {
        for (method, path) in
            [("GET", format!("/v1/messages/{id}")), ("POST", format!("/v1/messages/{id}/cancel"))]
        {
            let reply = house.call(method, &path, Body::empty()).await;
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (StatusCode::NOT_FOUND, "NOT_FOUND"),
                "{method} {id}"
            );
        }
    }
}

#[tokio::test]
async fn pages_hold_every_message_once_newest_first() {
    let house = House::new().await;
    let mut made = Vec::new();
    for n in 0..25 {
        made.push(house.created(&json!({"reference": format!("r{n}")})).await);
        house.clock.pass(Span::from_millis(5));
    }
    made.reverse();
    let mut seen = Vec::new();
    let mut path = "/v1/messages?limit=10".to_owned();
    loop {
        let page = house.get(&path).await.json();
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 10);
        seen.extend(items.iter().map(|item| item["id"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/messages?limit=10&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(seen, made);
}

#[tokio::test]
async fn lists_are_filtered_by_every_given_part() {
    let house = House::new().await;
    let a = house.created(&json!({"type": "x", "lane": "bulk", "reference": "r1"})).await;
    house.clock.pass(Span::from_mins(1));
    let b = house.created(&json!({"to": "https://other.example/", "type": "y"})).await;
    house.call("POST", &format!("/v1/messages/{b}/cancel"), Body::empty()).await;
    let check = |query: &'static str, expected: Vec<String>| {
        let house = &house;
        async move {
            let page = house.get(&format!("/v1/messages?{query}")).await.json();
            let ids: Vec<_> =
                page["items"].as_array().unwrap().iter().map(|i| i["id"].as_str().unwrap()).collect();
            assert_eq!(ids, expected, "{query}");
        }
    };
    check("", vec![b.clone(), a.clone()]).await;
    check("state=cancelled", vec![b.clone()]).await;
    check("state=pending&channel=crm", vec![a.clone()]).await;
    check("lane=bulk", vec![a.clone()]).await;
    check("type=y", vec![b.clone()]).await;
    check("recipient=https%3A%2F%2Fother.example%2F", vec![b.clone()]).await;
    check("reference=r1", vec![a.clone()]).await;
    check("since=2027-01-15T08:00:30Z", vec![b.clone()]).await;
    check("until=2027-01-15T08:00:30Z", vec![a.clone()]).await;
    check("channel=null", vec![]).await;
    check("campaign=&template=", vec![b, a]).await;
}

#[tokio::test]
async fn bad_filters_are_named() {
    let house = House::new().await;
    for (query, field) in [
        ("state=done", "state"),
        ("channel=CRM", "channel"),
        ("since=yesterday", "since"),
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=-1", "limit"),
        ("colour=red", "colour"),
    ] {
        house.get(&format!("/v1/messages?{query}")).await.refused("INVALID_FIELD", field);
    }
    assert_eq!(house.get("/v1/messages?cursor=zzz").await.code(), "INVALID_CURSOR");
    let all = house.get("/v1/messages?state=x&limit=x&since=x").await.json();
    assert_eq!(all["errors"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_new_setup_takes_effect_with_the_next_request() {
    let house = House::new().await;
    let mut next = setup();
    next.channels.remove("crm");
    house.created(&json!({})).await;
    house.setup.send(Arc::new(next)).unwrap();
    house.post("/v1/messages", &message(&json!({}))).await.refused("UNKNOWN_CHANNEL", "channel");
    let listed = house.get("/v1/messages").await.json();
    assert_eq!(listed["items"][0]["max_attempts"], Value::Null);
}

#[tokio::test]
async fn a_get_answers_head_too() {
    let house = House::new().await;
    let head = request("HEAD", "/healthz").body(Body::empty()).unwrap();
    assert_eq!(house.send(head).await.status, StatusCode::OK);
}
