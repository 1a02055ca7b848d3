use std::sync::Arc;

use pombo_channels::sandbox::resend::{Options, ResendSandbox};
use pombo_channels::{Channel as _, Health};
use pombo_kernel::classify::Verdict;
use pombo_kernel::delivery::{Delivery, resend};
use pombo_kernel::reply::FaultKind;
use pombo_kernel::secret::Secret;
use pombo_kernel::signature::SigningKey;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::receiver::{Receiver, http};
use crate::{
    KEY, NOW, OI, PATIENCE, SHORT, accepted, channel, doubtful, envelope, meaning, pair, refused, sandbox,
    send, send_within,
};

/// Makes a request by hand, with a key and more header lines.
async fn ask(sandbox: &ResendSandbox, line: &str, headers: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(sandbox.address).await.unwrap();
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n{headers}content-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    assert!(said.contains("content-type: application/json"), "{said}");
    let (head, body) = said.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap())
}

#[tokio::test]
async fn the_interface_is_that_of_resend() {
    let (channel, sandbox) = pair().await;
    let id = accepted(send(&channel, "k", "bounced@x.example").await).provider_id.unwrap();
    let (status, mail) = ask(&sandbox, &format!("GET /emails/{id}"), "", "").await;
    assert_eq!((status, &mail["id"], &mail["last_event"]), (200, &json!(id), &json!("bounced")));
    assert_eq!(ask(&sandbox, "GET /domains", "", "").await.1["object"], "list");
    for (line, status, name) in [
        ("GET /emails/unknown", 404, "not_found"),
        ("POST /nothing", 404, "not_found"),
        ("DELETE /emails", 405, "method_not_allowed"),
        ("POST /emails", 422, "validation_error"),
    ] {
        let (found, error) = ask(&sandbox, line, "", "").await;
        assert_eq!(
            (found, &error["name"], &error["statusCode"]),
            (status, &json!(name), &json!(status)),
            "{line}"
        );
        assert!(error["message"].is_string());
    }
    let long = format!("idempotency-key: {}\r\n", "k".repeat(257));
    assert_eq!(ask(&sandbox, "POST /emails", &long, "{}").await.1["name"], "invalid_idempotency_key");
    let good = json!({"from": "a@x.example", "to": "b@x.example", "subject": "s", "html": "h"});
    for (change, name) in [
        (json!({"subject": null}), "missing_required_field"),
        (json!({"to": []}), "missing_required_field"),
        (json!({"cc": "nobody"}), "validation_error"),
        (json!({"html": null}), "validation_error"),
        (json!({"tags": [{"name": "a b", "value": "c"}]}), "validation_error"),
        (json!({"attachments": [{"filename": "a"}]}), "invalid_attachment"),
    ] {
        let mut mail = good.clone();
        mail.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let (status, error) = ask(&sandbox, "POST /emails", "", &mail.to_string()).await;
        assert_eq!((status, &error["name"]), (422, &json!(name)), "{change}");
    }
    // A batch is judged as a whole unless it asks for something else.
    let batch = json!([good, {"from": "a@x.example"}]).to_string();
    assert_eq!(ask(&sandbox, "POST /emails/batch", "", &batch).await.0, 422);
    let permissive = "x-batch-validation: permissive\r\n";
    let (status, said) = ask(&sandbox, "POST /emails/batch", permissive, &batch).await;
    assert_eq!(
        (status, said["data"].as_array().unwrap().len(), &said["errors"][0]["index"]),
        (200, 1, &json!(1))
    );
    let many = Value::from(vec![good; 101]).to_string();
    assert_eq!(ask(&sandbox, "POST /emails/batch", permissive, &many).await.0, 422);
    assert_eq!(ask(&sandbox, "GET /stats", "", "").await.1["accepted"], 2);
}

#[tokio::test]
async fn some_sends_fail_by_dice() {
    let sandbox = sandbox(&Options { rate: 0, fail_percent: 40, seed: 3, ..Options::default() }).await;
    let channel = channel(&sandbox.url());
    for i in 0..100 {
        send(&channel, &format!("k{i}"), &format!("ok+{i}@x.example")).await;
    }
    let accepted = sandbox.stats().accepted;
    assert!((45..75).contains(&accepted), "{accepted}");
}

#[tokio::test] // REQ ML-10
async fn a_repeat_under_the_same_key_gets_the_same_id_and_sends_nothing() {
    let (channel, sandbox) = pair().await;
    let first = accepted(send(&channel, "k", "ok@x.example").await).provider_id;
    assert_eq!(accepted(send(&channel, "k", "ok@x.example").await).provider_id, first);
    assert_eq!(
        refused(send(&channel, "k", "other@x.example").await).name.as_deref(),
        Some("invalid_idempotent_request")
    );
    assert_eq!((sandbox.stats().accepted, sandbox.stats().duplicates), (1, 0));
    // Another key for the same mail is a mail sent twice, and counted as one.
    accepted(send(&channel, "other", "ok@x.example").await);
    assert_eq!((sandbox.stats().distinct, sandbox.stats().duplicates), (1, 1));
    assert_eq!(sandbox.count("ok@x.example").accepted, 2);
}

#[tokio::test] // REQ ML-5
async fn a_mail_in_doubt_is_tried_again_without_being_sent_twice() {
    let (channel, sandbox) = pair().await;
    assert_eq!(doubtful(&send(&channel, "a", "reset@x.example").await), FaultKind::ConnectionReset);
    accepted(send(&channel, "a", "reset@x.example").await);
    assert_eq!(doubtful(&send_within(&channel, "b", "hang+1@x.example", SHORT).await), FaultKind::Timeout);
    accepted(send(&channel, "b", "hang+1@x.example").await);
    assert_eq!((sandbox.stats().accepted, sandbox.stats().duplicates), (2, 0));
}

#[tokio::test]
async fn recipients_choose_what_happens() {
    let (channel, sandbox) = pair().await;
    for (to, name, verdict) in [
        ("limited@x.example", "rate_limit_exceeded", Verdict::Transient),
        ("quota@x.example", "daily_quota_exceeded", Verdict::Transient),
        ("invalid+7@x.example", "validation_error", Verdict::Permanent),
        ("flaky@x.example", "application_error", Verdict::Transient),
        ("flaky@x.example", "application_error", Verdict::Transient),
    ] {
        let reply = send(&channel, to, to).await;
        assert_eq!(meaning(&reply).verdict, verdict, "{to}");
        assert_eq!(refused(reply).name.as_deref(), Some(name), "{to}");
    }
    accepted(send(&channel, "flaky@x.example", "flaky@x.example").await);
    accepted(send(&channel, "s", "slow@x.example").await);
    let content = r#"{"subject":"s","text":"t","from":"a@unverified.example"}"#;
    let reply = channel.send(&envelope("u", "ok@x.example", content), PATIENCE).await;
    assert_eq!(meaning(&reply).category, "unverified_sender");
    assert_eq!(sandbox.count("flaky@x.example").received, 3);
}

#[tokio::test]
async fn an_outage_begins_and_ends_by_a_call() {
    let (channel, sandbox) = pair().await;
    sandbox.outage(true);
    assert_eq!(refused(send(&channel, "k", "ok@x.example").await).status, Some(503));
    sandbox.outage(false);
    accepted(send(&channel, "k", "ok@x.example").await);
    assert_eq!(ask(&sandbox, "POST /outage?on=1", "", "").await, (200, json!({"outage": true})));
    assert_eq!(ask(&sandbox, "GET /domains", "", "").await.0, 503);
    assert_eq!(ask(&sandbox, "POST /outage?on=0", "", "").await, (200, json!({"outage": false})));
    accepted(send(&channel, "l", "ok@x.example").await);
}

#[tokio::test] // REQ CF-8
async fn the_account_has_a_rate_and_a_daily_quota() {
    let sandbox = sandbox(&Options { rate: 2, daily_quota: Some(3), ..Options::default() }).await;
    let channel = channel(&sandbox.url());
    let hint = |hints: &[(String, String)], wanted: &str| {
        hints.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
    };
    // However the seconds fall, four requests are more than one second's two.
    let mut limited = 0;
    for i in 0..4 {
        match send(&channel, &format!("k{i}"), &format!("ok+{i}@x.example")).await {
            pombo_kernel::reply::Reply::Accepted(receipt) => {
                assert_eq!(hint(&receipt.hints, "ratelimit-limit").as_deref(), Some("2"));
            }
            reply => {
                let refusal = refused(reply);
                if refusal.name.as_deref() == Some("rate_limit_exceeded") {
                    assert_eq!(hint(&refusal.hints, "retry-after").as_deref(), Some("1"));
                    assert_eq!(hint(&refusal.hints, "ratelimit-remaining").as_deref(), Some("0"));
                    limited += 1;
                }
            }
        }
    }
    assert!(limited >= 1 || sandbox.stats().accepted == 3, "{limited}");

    let small = crate::sandbox(&Options { rate: 0, daily_quota: Some(1), ..Options::default() }).await;
    let channel = crate::channel(&small.url());
    accepted(send(&channel, "a", "ok@x.example").await);
    let reply = send(&channel, "b", "ok+2@x.example").await;
    assert_eq!(meaning(&reply).category, "daily_quota");
}

#[tokio::test]
async fn a_wrong_key_holds_and_a_key_that_may_only_send_does_not() {
    let strict = Options { rate: 0, api_key: Some(Secret::new("re_other")), ..Options::default() };
    let wary = sandbox(&strict).await;
    let reply = send(&channel(&wary.url()), "k", "ok@x.example").await;
    assert_eq!(
        (meaning(&reply).verdict, meaning(&reply).category.as_str()),
        (Verdict::SenderFault, "invalid_api_key")
    );
    assert!(matches!(channel(&wary.url()).probe(PATIENCE).await, Health::Sick(_)));

    let sending =
        Options { rate: 0, api_key: Some(Secret::new(KEY)), sending_only: true, ..Options::default() };
    let sandbox = sandbox(&sending).await;
    assert!(matches!(channel(&sandbox.url()).probe(PATIENCE).await, Health::Reachable(_)));
    accepted(send(&channel(&sandbox.url()), "k", "ok@x.example").await);
    let (free, _sandbox) = pair().await;
    assert!(matches!(free.probe(PATIENCE).await, Health::Ready(_)));
}

#[tokio::test]
async fn reports_come_later_signed_and_in_order() {
    let secret = Secret::new("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
    let (tell, mut told) = mpsc::unbounded_channel();
    let listener = Receiver::start(move |mut stream, seen| {
        let tell = tell.clone();
        async move {
            while let Some(request) = seen.read(&mut stream).await {
                tell.send(request).unwrap();
                stream.write_all(http(200, "", "").as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    let options = Options {
        rate: 0,
        reports: Some((format!("{}/hooks/resend", listener.url()), secret.clone())),
        clock: Some(Arc::new(|| NOW)),
        ..Options::default()
    };
    let sandbox = sandbox(&options).await;
    let channel = channel(&sandbox.url());
    let key = SigningKey::from_secret(&secret).unwrap();
    for (to, expected) in [
        ("ok@x.example", vec![Delivery::Accepted, Delivery::Delivered]),
        ("bounced@x.example", vec![Delivery::Accepted, Delivery::Bounced]),
        ("complained@x.example", vec![Delivery::Accepted, Delivery::Delivered, Delivery::Complained]),
    ] {
        let id = accepted(send(&channel, to, to).await).provider_id.unwrap();
        for delivery in expected {
            let request = told.recv().await.unwrap();
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("POST /hooks/resend HTTP/1.1"));
            let header = |name: &str| {
                head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap().to_owned()
            };
            let (svix_id, at) = (header("svix-id"), header("svix-timestamp"));
            let signature = header("svix-signature");
            assert_eq!(resend::verified(&key, &svix_id, &at, &signature, body.as_bytes(), NOW), Ok(()));
            let report = resend::report(&serde_json::from_str(body).unwrap()).unwrap();
            assert_eq!((report.provider_id.as_str(), report.delivery), (id.as_str(), delivery));
            assert_eq!(report.detail.is_some(), delivery == Delivery::Bounced);
            assert_eq!(report.at, Some(NOW));
        }
    }
}

#[tokio::test]
async fn a_stopped_sandbox_is_gone() {
    let (channel, sandbox) = pair().await;
    accepted(channel.send(&envelope("k", "ok@x.example", OI), PATIENCE).await);
    sandbox.stop().await;
    let reply = send(&channel, "l", "ok@x.example").await;
    assert!(matches!(reply, pombo_kernel::reply::Reply::Unreachable(_)), "{reply:?}");
}
