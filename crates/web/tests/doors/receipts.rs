use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::StatusCode;
use pombo_kernel::delivery::Delivery;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::lifecycle::{self, Next};
use pombo_kernel::message::{Attempt, AttemptOutcome, Progress};
use pombo_kernel::reply::Receipt;
use pombo_kernel::secret::Secret;
use pombo_kernel::setup::{ChannelSetup, ReceiptCheck, Setup};
use pombo_kernel::signature::{SigningKey, sign};
use pombo_kernel::time::Span;
use pombo_store::{Ask, Claimed, NodeId, Settlement, Store, StoreError};
use pombo_web::Patience;
use serde_json::{Value, json};

use crate::house::{House, NOW, Reply, request, setup};

const TOKEN: &str = "canary-receipts-41";
const SIGNING: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// A house with a channel of each provider that reports, and one that was given no secret.
fn reporting() -> Setup {
    let mut setup = setup();
    let key = SigningKey::from_secret(&Secret::new(SIGNING)).unwrap();
    for (name, kind, receipts) in [
        ("zap", ChannelKind::Evolution, Some(ReceiptCheck::Token(Secret::new(TOKEN)))),
        ("mute", ChannelKind::Evolution, None),
        ("post", ChannelKind::Resend, Some(ReceiptCheck::Signature(key))),
    ] {
        let channel = ChannelSetup {
            name: name.parse().unwrap(),
            kind,
            receipts,
            ..(**setup.channels.values().next().unwrap()).clone()
        };
        setup.channels.insert(channel.name.clone(), Arc::new(channel));
    }
    setup
}

async fn house() -> House {
    House::with(reporting(), Patience::default()).await
}

/// A message that the engine has claimed and not yet settled.
async fn sending(house: &House, channel: &str) -> (String, Claimed) {
    let (to, content) = match channel {
        "zap" => ("+5511987654321", json!({"text": "oi"})),
        _ => ("ana@clinic.example", json!({"from": "a@b.example", "subject": "s", "text": "t"})),
    };
    let id = house.created(&json!({"channel": channel, "to": to, "content": content})).await;
    let ask = Ask { node: NodeId(1), lane: "default".parse().unwrap(), max: 1, rates: Arc::default() };
    (id, house.store.claim(ask).await.unwrap().remove(0))
}

async fn settle(house: &House, claimed: &Claimed, provider_id: &str) {
    let attempt = Attempt {
        round: 0,
        number: 1,
        started_at: NOW,
        finished_at: NOW,
        outcome: AttemptOutcome::Sent,
        failure: None,
        next_delay: None,
        explanation: lifecycle::accepted(1),
        policy: None,
    };
    let settlement = Settlement {
        key: claimed.key,
        attempt,
        next: Next::Sent(Receipt { provider_id: Some(provider_id.into()), ..Receipt::default() }),
        progress: Progress { attempts: 1, steps: 1, ..Progress::default() },
        block: Default::default(),
        vitals: Default::default(),
        reported: true,
        chance: 0,
    };
    house.store.settle(vec![settlement]).await.unwrap();
}

async fn sent(house: &House, channel: &str, provider_id: &str) -> String {
    let (id, claimed) = sending(house, channel).await;
    settle(house, &claimed, provider_id).await;
    id
}

fn update(id: &str, status: &str) -> Value {
    json!({"event": "messages.update", "instance": "clinic",
           "data": {"keyId": id, "remoteJid": "5511987654321@s.whatsapp.net", "fromMe": true, "status": status}})
}

async fn post(house: &House, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Reply {
    let mut call = request("POST", path).header("content-type", "application/json");
    for (name, value) in headers {
        call = call.header(*name, *value);
    }
    house.send(call.body(body.into()).unwrap()).await
}

async fn zap(house: &House, body: &Value) -> Reply {
    post(house, "/v1/receipts/zap", &[("authorization", &format!("Bearer {TOKEN}"))], body.to_string()).await
}

fn signed(body: &str, at: i64) -> [(&'static str, String); 3] {
    let key = SigningKey::from_secret(&Secret::new(SIGNING)).unwrap();
    let at = (at / 1_000).to_string();
    let signature = sign(&[key], "msg_1", &at, body.as_bytes());
    [("id", "msg_1".into()), ("timestamp", at), ("signature", signature)]
}

async fn mail(house: &House, prefix: &str, headers: [(&'static str, String); 3], body: &str) -> Reply {
    let headers: Vec<_> =
        headers.into_iter().map(|(name, value)| (format!("{prefix}-{name}"), value)).collect();
    let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    post(house, "/v1/receipts/post", &headers, body.to_owned()).await
}

#[tokio::test] // REQ ML-9
async fn evolutions_reports_move_the_delivery_forward_and_never_back() {
    let house = house().await;
    let id = sent(&house, "zap", "3EB0A1").await;
    let shown = || async { house.get(&format!("/v1/messages/{id}")).await.json() };
    assert_eq!(shown().await["delivery"], Value::Null);
    for (status, counts, stands) in [
        ("SERVER_ACK", json!({"moved": 1, "kept": 0, "unknown": 0}), "accepted"),
        ("READ", json!({"moved": 1, "kept": 0, "unknown": 0}), "read"),
        ("READ", json!({"moved": 0, "kept": 1, "unknown": 0}), "read"),
        ("DELIVERY_ACK", json!({"moved": 0, "kept": 1, "unknown": 0}), "read"),
        ("ERROR", json!({"moved": 0, "kept": 1, "unknown": 0}), "read"),
    ] {
        let reply = zap(&house, &update("3EB0A1", status)).await;
        assert_eq!((reply.status, reply.json()), (StatusCode::OK, counts), "{status}");
        let shown = shown().await;
        assert_eq!((&shown["delivery"], &shown["state"]), (&json!(stands), &json!("sent")), "{status}");
        assert_eq!(shown["delivery_at"], json!(NOW), "{status}");
    }
    let listed = house.get("/v1/messages?delivery=read").await.json();
    assert_eq!((&listed["items"][0]["id"], &listed["items"][0]["delivery"]), (&json!(id), &json!("read")));
    assert_eq!(house.get("/v1/messages?delivery=bounced").await.json()["items"], json!([]));
    house.get("/v1/messages?delivery=lost").await.refused("INVALID_FIELD", "delivery");
    let stats = house.get("/v1/stats").await.json();
    assert_eq!(
        (&stats["channels"]["zap"]["read"], &stats["channels"]["zap"]["delivered"]),
        (&json!(1), &json!(0))
    );
}

#[tokio::test] // REQ ML-9
async fn a_failure_after_the_send_is_shown_with_its_reason() {
    let house = house().await;
    let id = sent(&house, "zap", "3EB0A1").await;
    zap(&house, &update("3EB0A1", "ERROR")).await;
    let shown = house.get(&format!("/v1/messages/{id}")).await.json();
    assert_eq!((&shown["delivery"], &shown["state"]), (&json!("failed"), &json!("sent")));
    assert!(shown["delivery_detail"].as_str().unwrap().contains("WhatsApp"), "{shown}");
}

#[tokio::test] // REQ SE-1
async fn evolution_shows_its_words_in_any_of_the_headers_that_it_can_send() {
    let house = house().await;
    let bearer = format!("bearer {TOKEN}");
    for (number, header) in
        [("authorization", bearer.as_str()), ("apikey", TOKEN), ("x-receipt-token", TOKEN)]
            .into_iter()
            .enumerate()
    {
        let id = format!("id-{number}");
        sent(&house, "zap", &id).await;
        // With `byEvents` the event is written behind the address.
        let path = ["/v1/receipts/zap", "/v1/receipts/zap/messages-update"][number % 2];
        let reply = post(&house, path, &[header], update(&id, "READ").to_string()).await;
        assert_eq!(reply.json(), json!({"moved": 1, "kept": 0, "unknown": 0}), "{header:?}");
    }
}

#[tokio::test] // REQ SE-1
async fn whoever_shows_nothing_right_is_refused_in_the_same_words_whatever_the_channel() {
    let house = house().await;
    let id = sent(&house, "zap", "3EB0A1").await;
    let body = update("3EB0A1", "READ").to_string();
    let late = signed(&body, NOW.millis() - 301_000);
    let unsigned = [late[0].clone(), signed(&body, NOW.millis())[1].clone(), late[2].clone()];
    let mut answers = Vec::new();
    for path in ["zap", "post", "mute", "crm", "nobody", "theirs", "no%20name", "zap/messages-update"] {
        let path = format!("/v1/receipts/{path}");
        for headers in [
            vec![],
            vec![("authorization", "Bearer wrong".to_owned())],
            vec![("authorization", TOKEN.to_owned())],
            vec![("apikey", "wrong".to_owned())],
            vec![("authorization", "Bearer key-admin".to_owned())],
            late.clone()
                .map(|(name, value)| {
                    (
                        ["svix-id", "svix-timestamp", "svix-signature"]
                            .into_iter()
                            .find(|it| it.ends_with(name))
                            .unwrap(),
                        value,
                    )
                })
                .to_vec(),
            unsigned
                .clone()
                .map(|(name, value)| {
                    (
                        ["webhook-id", "webhook-timestamp", "webhook-signature"]
                            .into_iter()
                            .find(|it| it.ends_with(name))
                            .unwrap(),
                        value,
                    )
                })
                .to_vec(),
        ] {
            let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let reply = post(&house, &path, &headers, body.clone()).await;
            assert_eq!(reply.status, StatusCode::UNAUTHORIZED, "{path} {headers:?}");
            answers.push(reply.text);
        }
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(!answers[0].contains("canary"));
    assert_eq!(house.get(&format!("/v1/messages/{id}")).await.json()["delivery"], Value::Null);
    let other = post(&house, "/v1/receipts/post", &[("apikey", TOKEN)], body).await;
    assert_eq!(other.status, StatusCode::UNAUTHORIZED, "one channel's words are no other's");
}

#[tokio::test] // REQ SE-1, ML-9
async fn resends_reports_count_by_their_signature() {
    let house = house().await;
    let id = sent(&house, "post", "56761188-7520-42d8").await;
    let body = |kind: &str| {
        json!({"type": kind, "created_at": "2027-01-15T08:00:00.000Z",
               "data": {"email_id": "56761188-7520-42d8", "to": ["ana@clinic.example"],
                        "bounce": {"type": "Permanent", "subType": "NoEmail", "message": "No such user"}}})
        .to_string()
    };
    let (delivered, bounced) = (body("email.delivered"), body("email.bounced"));
    let reply = mail(&house, "svix", signed(&delivered, NOW.millis()), &delivered).await;
    assert_eq!(reply.json(), json!({"moved": 1, "kept": 0, "unknown": 0}));
    let reply = mail(&house, "webhook", signed(&delivered, NOW.millis()), &bounced).await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED, "signed for another body");
    let reply = mail(&house, "webhook", signed(&bounced, NOW.millis()), &bounced).await;
    assert_eq!(reply.json()["moved"], 1);
    let shown = house.get(&format!("/v1/messages/{id}")).await.json();
    assert_eq!(
        (&shown["delivery"], &shown["delivery_at"]),
        (&json!("bounced"), &json!("2027-01-15T08:00:00.000Z"))
    );
    assert_eq!(shown["delivery_detail"], "Permanent/NoEmail: No such user");
}

#[tokio::test]
async fn what_is_no_report_on_a_message_is_answered_and_left_alone() {
    let house = house().await;
    let nothing = json!({"moved": 0, "kept": 0, "unknown": 0});
    for body in [json!({"event": "connection.update", "data": {"state": "close"}}), json!({}), json!([1])] {
        assert_eq!(zap(&house, &body).await.json(), nothing, "{body}");
    }
    let opened = json!({"type": "domain.updated", "data": {"id": "d"}}).to_string();
    assert_eq!(mail(&house, "svix", signed(&opened, NOW.millis()), &opened).await.json(), nothing);
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_refused() {
    let house = house().await;
    let token = ("apikey", TOKEN);
    let broken = post(&house, "/v1/receipts/zap", &[token], "{\"event\":").await;
    assert_eq!((broken.status, broken.code().as_str()), (StatusCode::BAD_REQUEST, "INVALID_JSON"));
    let large = post(&house, "/v1/receipts/zap", &[token], vec![b' '; 1024 * 1024 + 1]).await;
    assert_eq!(large.code(), "BODY_TOO_LARGE");
    let xml = request("POST", "/v1/receipts/zap").header("apikey", TOKEN).header("content-type", "text/xml");
    assert_eq!(house.send(xml.body(Body::from("<a/>")).unwrap()).await.code(), "UNSUPPORTED_MEDIA_TYPE");
}

#[tokio::test] // RELIABILITY 32
async fn a_report_that_overtakes_our_own_commit_waits_for_it() {
    let house = house().await;
    let (id, claimed) = sending(&house, "zap").await;
    let early = update("3EB0A1", "READ");
    let (reply, ()) = tokio::join!(zap(&house, &early), async {
        // The report is on its way to the store before the send is.
        tokio::task::yield_now().await;
        settle(&house, &claimed, "3EB0A1").await;
    });
    assert_eq!(reply.json(), json!({"moved": 1, "kept": 0, "unknown": 0}));
    let story = house.store.story("default".parse().unwrap(), id.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(story.delivery.unwrap().state, Delivery::Read);
}

#[tokio::test]
async fn a_report_on_a_message_that_never_comes_is_answered_in_the_end() {
    let house = house().await;
    let waited = tokio::time::timeout(Duration::from_secs(30), zap(&house, &update("nobody", "READ"))).await;
    assert_eq!(waited.unwrap().json(), json!({"moved": 0, "kept": 0, "unknown": 1}));
}

#[tokio::test]
async fn only_so_many_reports_wait_and_the_others_are_answered_at_once() {
    let house = Arc::new(house().await);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..80 {
        let house = house.clone();
        calls.spawn(async move { zap(&house, &update(&format!("nobody-{number}"), "READ")).await.json() });
    }
    let first = calls.join_next().await.unwrap().unwrap();
    assert_eq!(first["unknown"], 1);
    let mut at_once = 1;
    while at_once < 16 {
        calls.join_next().await.unwrap().unwrap();
        at_once += 1;
    }
    assert_eq!(calls.len(), 64, "these wait");
    assert!(calls.try_join_next().is_none());
}

#[tokio::test] // RELIABILITY 32
async fn a_store_that_is_away_makes_the_provider_repeat() {
    let house = house().await;
    sent(&house, "zap", "3EB0A1").await;
    house.store.feel(Some(StoreError::Unavailable("away".into())));
    let reply = zap(&house, &update("3EB0A1", "READ")).await;
    assert_eq!((reply.status, reply.code().as_str()), (StatusCode::SERVICE_UNAVAILABLE, "STORE_UNAVAILABLE"));
    house.store.feel(None);
    assert_eq!(zap(&house, &update("3EB0A1", "READ")).await.json()["moved"], 1);
    house.door.close();
    assert_eq!(zap(&house, &update("3EB0A1", "READ")).await.code(), "SHUTTING_DOWN");
}

#[tokio::test]
async fn a_token_that_has_run_out_is_refused() {
    let house = house().await;
    let body = json!({"type": "email.opened", "data": {"email_id": "x"}}).to_string();
    let headers = signed(&body, NOW.millis());
    assert_eq!(mail(&house, "svix", headers.clone(), &body).await.status, StatusCode::OK);
    house.clock.pass(Span::from_secs(301));
    assert_eq!(mail(&house, "svix", headers, &body).await.status, StatusCode::UNAUTHORIZED);
}
