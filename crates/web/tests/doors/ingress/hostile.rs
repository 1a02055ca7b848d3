//! What strangers send, at each of these doors: it is refused in the door's own form, in bounded time and memory.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::setup::Limits;
use serde_json::{Value, json};

use super::*;

const DOORS: [(&str, (&str, &str)); 5] = [
    ("/emails", PRODUCER),
    ("/emails/batch", PRODUCER),
    ("/message/sendText/zap-instance", ("apikey", "key-producer")),
    ("/message/sendMedia/zap-instance", ("apikey", "key-producer")),
    ("/rest/v1/rpc/enqueue_email", PRODUCER),
];

async fn open(patience: Patience) -> House {
    let channels = [("post", ChannelKind::Resend, "default"), ("zap", ChannelKind::Evolution, "default")];
    House::with(furnished(&channels), patience).await
}

/// In the form that this door has for errors.
fn told(path: &str, reply: &Reply) {
    assert!(reply.status.is_client_error(), "{path}: {} {}", reply.status, reply.text);
    assert_eq!(reply.header("content-type"), Some("application/json"), "{path}");
    let said: Value = reply.json();
    let known = match path {
        path if path.starts_with("/emails") => &said["statusCode"],
        path if path.starts_with("/message") => &said["response"]["message"],
        _ => &said["code"],
    };
    assert!(!known.is_null(), "{path}: {said}");
    assert!(reply.text.len() < 4_096, "{path}: an answer of {} bytes", reply.text.len());
}

#[tokio::test] // REQ IN-3
async fn nonsense_is_refused_in_each_doors_own_form_and_stores_nothing() {
    let house = open(Patience::default()).await;
    let deep = "[".repeat(100_000);
    let deep_inside = format!("{{\"from\":{}1{}}}", "{\"a\":".repeat(5_000), "}".repeat(5_000));
    let many = format!("{{{}}}", (0..2_000).map(|n| format!("\"f{n}\":1")).collect::<Vec<_>>().join(","));
    for (path, who) in DOORS {
        for body in
            ["", "{", "null", "7", "\"x\"", "nul", "{\"a\":1}}", "\u{feff}{}", &deep, &deep_inside, &many]
        {
            told(path, &call(&house, ("POST", path), &[who], body.to_owned()).await);
        }
        let broken = Body::from(Bytes::from_static(b"{\"from\":\"\xff\xfe\"}"));
        told(path, &call(&house, ("POST", path), &[who], broken).await);
        let odd = request("POST", path)
            .header(who.0, who.1)
            .header("content-type", "multipart/form-data; boundary=x");
        told(path, &house.send_elsewhere(odd.body(Body::from("--x")).unwrap()).await);
    }
    assert_eq!(house.stored().await, 0);
}

#[tokio::test] // REQ IN-3
async fn what_is_too_large_is_refused_before_all_of_it_has_come() {
    let house = open(Patience::default()).await;
    for (path, who) in DOORS {
        let endless = stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 8_192])));
        told(path, &call(&house, ("POST", path), &[who], Body::from_stream(endless)).await);
        let said = [who, ("content-length", "99999999999")];
        told(path, &call(&house, ("POST", path), &said, Body::empty()).await);
    }
}

#[tokio::test] // REQ IN-3
async fn a_body_that_does_not_come_is_waited_for_no_longer_than_any_other() {
    let house = open(Patience { body: Duration::from_millis(100), ..Patience::default() }).await;
    for (path, who) in DOORS.into_iter().chain([("/functions/v1/process-email-queue", PRODUCER)]) {
        let never = stream::pending::<Result<Bytes, std::io::Error>>();
        let headers = [who];
        let reply = call(&house, ("POST", path), &headers, Body::from_stream(never));
        let reply = tokio::time::timeout(Duration::from_secs(3), reply).await.unwrap();
        told(path, &reply);
        assert_eq!(reply.status, StatusCode::REQUEST_TIMEOUT, "{path}");
        if path.starts_with("/emails") {
            assert_eq!(reply.json()["name"], "application_error", "what may be sent again: {}", reply.text);
        }
    }
}

#[tokio::test] // REQ IN-3
async fn a_list_of_mails_to_many_does_not_become_more_than_fits() {
    let mut setup = furnished(&[("relay", ChannelKind::Smtp, "default")]);
    setup.limits = Limits { batch_items: 200, ..Limits::default() };
    let house = House::with(setup, Patience::default()).await;
    let to: Vec<String> = (0..50).map(|n| format!("p{n}@x.example")).collect();
    let mail = json!({"from": "a@x.example", "to": to, "subject": "s", "text": "x".repeat(60_000)});
    let few = json!([mail, mail]).to_string();
    let reply = call(&house, ("POST", "/emails/batch"), &[PRODUCER], few).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    assert_eq!(house.stored().await, 100);
    let many = Value::Array(vec![mail; 30]).to_string();
    let reply = call(&house, ("POST", "/emails/batch"), &[PRODUCER], many).await;
    told("/emails/batch", &reply);
    assert!(reply.text.contains("too large for so many recipients"), "{}", reply.text);
    assert_eq!(house.stored().await, 100);
}
