use std::time::Duration;

use http::StatusCode;
use pombo_kernel::block::Block;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::message::Actor;
use pombo_kernel::time::Span;
use pombo_store::{Place, StoreError};
use serde_json::{Value, json};

use super::*;

const ENQUEUE: &str = "/rest/v1/rpc/enqueue_email";
const PROCESS: &str = "/functions/v1/process-email-queue";

async fn furnished_house() -> House {
    furnished_house_with(Patience::default()).await
}

async fn furnished_house_with(patience: Patience) -> House {
    let house = House::with(furnished(&[("relay", ChannelKind::Smtp, "default")]), patience).await;
    let template = json!({"subject": "Olá, {{ user_data.full_name }}", "text": "oi"});
    house.put_template("welcome_user", &template).await;
    house
}

/// As the application's own documentation writes it.
fn arguments(changes: &Value) -> Value {
    let mut arguments = json!({
        "p_user_id": "USER_UUID", "p_template_type": "welcome_user", "p_recipient_email": "test@example.com",
        "p_payload": {"user_data": {"full_name": "Test User"}},
    });
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::String(word) if word == "left out" => {
                arguments.as_object_mut().unwrap().remove(name);
            }
            value => arguments[name] = value.clone(),
        }
    }
    arguments
}

async fn enqueue(house: &House, headers: &[(&str, &str)], body: &Value) -> Reply {
    call(house, ("POST", ENQUEUE), &[&[PRODUCER], headers].concat(), body.to_string()).await
}

async fn process(house: &House) -> Value {
    let reply = call(house, ("POST", PROCESS), &[PRODUCER], "").await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    reply.json()
}

fn refused(reply: &Reply, status: u16, code: &str) -> Value {
    let body = reply.json();
    assert_eq!((reply.status.as_u16(), body["code"].as_str()), (status, Some(code)), "{body}");
    let mut names: Vec<_> = body.as_object().unwrap().keys().cloned().collect();
    names.sort_unstable();
    assert_eq!(names, ["code", "details", "hint", "message"]);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    body
}

#[tokio::test] // REQ IN-3
async fn an_email_is_enqueued_for_its_template_and_the_answer_is_its_uuid_alone() {
    let house = furnished_house().await;
    let reply =
        enqueue(&house, &[("content-profile", "public"), ("prefer", "count=exact")], &arguments(&json!({})))
            .await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    let id = reply.json().as_str().unwrap().to_owned();
    assert_eq!((id.len(), id.matches('-').count()), (36, 4), "{id}");
    let message = house.get(&format!("/v1/messages/{id}")).await.json();
    assert_eq!(
        (message["channel"].as_str(), message["to"].as_str()),
        (Some("relay"), Some("test@example.com"))
    );
    assert_eq!(
        (message["template"].as_str(), message["type"].as_str()),
        (Some("welcome_user"), Some("welcome_user"))
    );
    assert_eq!(message["template_version"], 1);
    assert_eq!(message["payload"], json!({"user_data": {"full_name": "Test User"}}));
    assert_eq!(message["user_id"], "USER_UUID", "whatever the application calls its users");
    assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
    let later = json!({"p_payload": "left out", "p_user_id": null, "p_send_at": NOW + Span::from_mins(5),
                       "p_expires_after": "48h", "p_channel": "relay"});
    let reply = enqueue(&house, &[], &arguments(&later)).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    let message = house.get(&format!("/v1/messages/{}", reply.json().as_str().unwrap())).await.json();
    assert_eq!((&message["user_id"], &message["expires_after"]), (&Value::Null, &json!("2d")));
    assert_eq!(message["send_at"], json!(NOW + Span::from_mins(5)));
}

#[tokio::test] // REQ IN-3
async fn what_is_wrong_is_told_as_postgrest_tells_it_and_stores_nothing() {
    let house = furnished_house().await;
    for changes in
        [json!({"p_user_id": "left out"}), json!({"p_recipient_email": "left out"}), json!({"p_more": 1})]
    {
        let said = refused(&enqueue(&house, &[], &arguments(&changes)).await, 404, "PGRST202");
        assert!(said["message"].as_str().unwrap().contains("public.enqueue_email("), "{said}");
    }
    refused(&enqueue(&house, &[], &json!({})).await, 404, "PGRST202");
    refused(&enqueue(&house, &[], &json!([arguments(&json!({}))])).await, 404, "PGRST202");
    refused(&call(&house, ("POST", ENQUEUE), &[PRODUCER], "").await, 404, "PGRST202");
    refused(&call(&house, ("POST", ENQUEUE), &[PRODUCER], "{\"p_user_id\":").await, 400, "PGRST102");
    refused(&call(&house, ("GET", ENQUEUE), &[PRODUCER], "").await, 405, "PGRST101");
    refused(&call(&house, ("POST", "/rest/v1/rpc/other"), &[PRODUCER], "{}").await, 404, "PGRST202");
    refused(&call(&house, ("GET", "/rest/v1/email_queue"), &[PRODUCER], "").await, 404, "PGRST205");
    refused(
        &enqueue(&house, &[("content-profile", "private")], &arguments(&json!({}))).await,
        406,
        "PGRST106",
    );
    let strict = ("prefer", "handling=strict, colour=red");
    let said = refused(&enqueue(&house, &[strict], &arguments(&json!({}))).await, 400, "PGRST122");
    assert!(said["details"].as_str().unwrap().contains("colour=red"), "{said}");
    for (changes, about) in [
        (json!({"p_recipient_email": "nobody"}), "p_recipient_email"),
        (json!({"p_recipient_email": null}), "p_recipient_email"),
        (json!({"p_template_type": "unheard_of"}), "p_template_type"),
        (json!({"p_payload": [1]}), "p_payload"),
        (json!({"p_send_at": "soon"}), "p_send_at"),
        (json!({"p_channel": "nothing"}), "p_channel"),
        (json!({"p_idempotency_key": "é"}), "p_idempotency_key"),
    ] {
        let said = refused(&enqueue(&house, &[], &arguments(&changes)).await, 400, "P0001");
        assert!(said["message"].as_str().unwrap().starts_with(about), "{said}");
        assert!(said["hint"].is_string(), "{said}");
    }
    assert_eq!(house.stored().await, 0);
    let lenient = [("prefer", "colour=red"), ("prefer", "handling=lenient")];
    let reply = enqueue(&house, &lenient, &arguments(&json!({}))).await;
    assert_eq!(
        (reply.status, reply.header("preference-applied")),
        (StatusCode::OK, Some("handling=lenient"))
    );
}

#[tokio::test] // REQ IN-3, SE-1
async fn a_key_may_stand_where_supabases_clients_put_theirs() {
    let house = furnished_house().await;
    let body = arguments(&json!({})).to_string();
    let with =
        async |path, headers: &[(&str, &str)]| call(&house, ("POST", path), headers, body.clone()).await;
    for headers in [
        &[PRODUCER][..],
        &[("apikey", "key-producer")],
        &[("apikey", "key-producer"), ("authorization", "Bearer some.persons.token")],
    ] {
        assert_eq!(with(ENQUEUE, headers).await.status, StatusCode::OK);
    }
    let none = with(ENQUEUE, &[]).await;
    assert_eq!((none.status.as_u16(), &none.json()["message"]), (401, &json!("No API key found in request")));
    let wrong = with(ENQUEUE, &[("apikey", "wrong")]).await;
    assert_eq!((wrong.status.as_u16(), &wrong.json()["message"]), (401, &json!("Invalid API key")));
    assert!(none.json().get("code").is_none() && wrong.json().get("code").is_none());
    refused(&with(ENQUEUE, &[VIEWER]).await, 403, "42501");
    let none = with(PROCESS, &[]).await;
    assert_eq!((none.status.as_u16(), none.header("x-relay-error")), (401, Some("true")));
    let wrong = with(PROCESS, &[("authorization", "Bearer wrong")]).await;
    assert_eq!((wrong.status.as_u16(), &wrong.json()["message"]), (401, &json!("Invalid JWT")));
    assert_eq!(with(PROCESS, &[VIEWER]).await.status.as_u16(), 403);
    let other = with("/functions/v1/send-custom-emails", &[PRODUCER]).await;
    assert_eq!((other.status.as_u16(), &other.json()["code"]), (404, &json!("NOT_FOUND")));
    assert_eq!(house.stored().await, 3);
}

#[tokio::test] // REQ IN-3
async fn a_browser_may_ask_first_and_needs_no_key_for_that() {
    let house = furnished_house().await;
    for path in [ENQUEUE, PROCESS] {
        let headers = [("origin", "https://app.example"), ("access-control-request-method", "POST")];
        let reply = call(&house, ("OPTIONS", path), &headers, "").await;
        assert_eq!((reply.status, reply.text.as_str()), (StatusCode::NO_CONTENT, ""));
        assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
        let allowed = reply.header("access-control-allow-headers").unwrap();
        for header in ["authorization", "x-client-info", "apikey", "content-type"] {
            assert!(allowed.contains(header), "{allowed}");
        }
        let refused = call(&house, ("POST", path), &[("origin", "https://app.example")], "").await;
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
        assert_eq!(refused.header("access-control-allow-origin"), Some("*"), "its page can read why");
    }
    assert_ne!(
        house.send_elsewhere(request("OPTIONS", "/v1/messages").body(Body::empty()).unwrap()).await.status,
        204
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ ML-3
async fn the_same_key_is_one_email_in_the_header_or_among_the_arguments() {
    let house = furnished_house().await;
    let asked = arguments(&json!({}));
    let keyed = [("idempotency-key", "k")];
    let all = futures_util::future::join_all((0..100).map(|_| enqueue(&house, &keyed, &asked))).await;
    let ids: std::collections::BTreeSet<String> = all.iter().map(|reply| reply.text.clone()).collect();
    assert_eq!((ids.len(), house.stored().await), (1, 1));
    let other = arguments(&json!({"p_recipient_email": "other@example.com"}));
    refused(&enqueue(&house, &keyed, &other).await, 409, "23505");
    let argued = |to: &str| arguments(&json!({"p_idempotency_key": "a", "p_recipient_email": to}));
    let first = enqueue(&house, &[], &argued("a@example.com")).await.text;
    assert_eq!(enqueue(&house, &[], &argued("a@example.com")).await.text, first);
    refused(&enqueue(&house, &[], &argued("b@example.com")).await, 409, "23505");
    assert_eq!(house.stored().await, 2);
}

#[tokio::test] // REQ IN-3
async fn processing_waits_for_what_is_due_and_counts_what_became_of_it() {
    let house = furnished_house().await;
    assert_eq!(process(&house).await, json!({"processed": 0, "sent": 0, "failed": 0, "pending": 0}));
    for _ in 0..3 {
        enqueue(&house, &[], &arguments(&json!({}))).await;
    }
    enqueue(&house, &[], &arguments(&json!({"p_send_at": NOW + Span::from_mins(5)}))).await;
    house.created(&json!({})).await;
    let engine = async {
        let mut work = claimed(&house, 10).await;
        work.retain(|one| one.message.queue.channel.as_str() == "relay");
        let ends = [sent(), failed(), later()];
        for (one, end) in work.iter().zip(ends) {
            tokio::time::sleep(Duration::from_millis(300)).await;
            house.store.settle(vec![settlement(one, end)]).await.unwrap();
        }
    };
    let (answer, ()) = tokio::join!(process(&house), engine);
    assert_eq!(answer, json!({"processed": 3, "sent": 1, "failed": 1, "pending": 1}));
}

#[tokio::test] // REQ IN-3
async fn what_is_taken_up_while_it_is_being_looked_for_is_counted_once() {
    let house = furnished_house_with(Patience { queue: Duration::ZERO, ..Patience::default() }).await;
    for _ in 0..300 {
        enqueue(&house, &[], &arguments(&json!({}))).await;
        let (answer, work) = tokio::join!(process(&house), claimed(&house, 1));
        assert_eq!(answer, json!({"processed": 0, "sent": 0, "failed": 0, "pending": 1}));
        house.store.settle(vec![settlement(&work[0], sent())]).await.unwrap();
    }
}

#[tokio::test] // REQ IN-3
async fn processing_takes_ten_at_most_and_ends_when_nobody_sends() {
    let patience = |queue| Patience { queue, ..Patience::default() };
    let house = furnished_house_with(patience(Duration::from_millis(200))).await;
    for _ in 0..12 {
        enqueue(&house, &[], &arguments(&json!({}))).await;
    }
    assert_eq!(process(&house).await, json!({"processed": 0, "sent": 0, "failed": 0, "pending": 10}));

    let house = furnished_house_with(patience(Duration::from_secs(3600))).await;
    enqueue(&house, &[], &arguments(&json!({}))).await;
    let place = Place { channel: "relay".parse().unwrap(), destination: None };
    house.store.block(place, Block::operator("closed".to_owned(), NOW), Actor("me".into())).await.unwrap();
    assert_eq!(process(&house).await["pending"], 1, "nobody waits for what is held");
    house.store.feel(Some(StoreError::Unavailable("away".into())));
    let reply = call(&house, ("POST", PROCESS), &[PRODUCER], "{}").await;
    assert_eq!((reply.status.as_u16(), reply.header("x-relay-error")), (503, Some("true")));
}

#[tokio::test] // REQ IN-3
async fn processing_finds_what_has_waited_longest_however_much_has_come_since() {
    let house = furnished_house_with(Patience { queue: Duration::ZERO, ..Patience::default() }).await;
    for _ in 0..2 {
        enqueue(&house, &[], &arguments(&json!({}))).await;
    }
    let later = (NOW + Span::from_hours(1)).to_string();
    let mail = json!({"channel": "relay", "to": "b@x.example", "send_at": later,
                      "content": {"from": "a@x.example", "subject": "s", "text": "t"}});
    for _ in 0..4 {
        let batch = house.post("/v1/messages/batch", &json!(vec![mail.clone(); 200])).await.json();
        assert!(batch["items"].as_array().unwrap().iter().all(|it| it["state"] == "pending"), "{batch}");
    }
    assert_eq!(process(&house).await["pending"], 2);
}

#[tokio::test] // REQ IN-3
async fn a_store_that_is_away_or_busy_is_told_with_its_status() {
    let house = furnished_house().await;
    for (mood, status, code) in
        [(StoreError::Overloaded, 429, "53300"), (StoreError::Unavailable("away".into()), 503, "PGRST001")]
    {
        house.store.feel_for(Some(mood), 1);
        let reply = enqueue(&house, &[], &arguments(&json!({}))).await;
        refused(&reply, status, code);
        assert!(reply.header("retry-after").is_some());
    }
    let nobody = house_without_mail().await;
    refused(
        &call(&nobody, ("POST", ENQUEUE), &[FOREIGN], arguments(&json!({})).to_string()).await,
        400,
        "P0001",
    );
}

async fn house_without_mail() -> House {
    house(&[("zap", ChannelKind::Evolution, "other")]).await
}
