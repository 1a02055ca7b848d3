use pombo_channels::Channel as _;
use pombo_channels::resend::{Resend, ResendSettings};
use pombo_kernel::reply::{FaultKind, Reply};
use pombo_kernel::secret::Secret;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::receiver::{Receiver, http};
use crate::{OI, PATIENCE, accepted, channel, envelope, refused, send, settings, unreachable};

const TAKEN: &str = r#"{"id":"49a3999c-0ce1-4ea6-ab68-afcd6dc2e794"}"#;

#[tokio::test]
async fn a_request_is_exactly_this() {
    let receiver = Receiver::saying(200, TAKEN).await;
    let receipt = accepted(send(&channel(&receiver.url()), "msg_1/1", "ana@clinic.example").await);
    assert_eq!(receipt.provider_id.as_deref(), Some("49a3999c-0ce1-4ea6-ab68-afcd6dc2e794"));
    assert_eq!(receipt.code, Some(200));
    let request = receiver.requests().remove(0).replace(&receiver.address.to_string(), "HOST");
    let body =
        r#"{"from":"Clínica <mail@clinic.example>","to":["ana@clinic.example"],"subject":"Oi","text":"Olá"}"#;
    let length = format!("content-length: {}", body.len());
    let mut expected = [
        "POST /emails HTTP/1.1",
        "accept-encoding: identity",
        "accept: application/json",
        "authorization: Bearer re_test_123",
        &length,
        "content-type: application/json",
        "host: HOST",
        "idempotency-key: msg_1/1",
        concat!("user-agent: Pombo/", env!("CARGO_PKG_VERSION")),
        "",
        body,
    ];
    let mut lines: Vec<_> = request.lines().collect();
    lines.sort_unstable();
    expected.sort_unstable();
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn every_field_of_a_mail_reaches_resend() {
    let content = json!({
        "subject": "Resultado", "text": "Segue", "html": "<p>Segue</p>", "from": "Lab <lab@lab.example>",
        "reply_to": "r@lab.example", "also_to": ["bia@x.example"], "cc": "c@x.example",
        "bcc": ["d@x.example", "e@x.example"], "headers": {"X-Ref": "7", "List-Unsubscribe": "<https://x/u>"},
        "attachments": [
            {"filename": "a.pdf", "content": "AAAA", "content_type": "application/pdf", "content_id": "a1"},
            {"path": "https://x.example/b.png"},
        ],
        "tags": [{"name": "kind", "value": "result_1"}],
    });
    let (channel, sandbox) = crate::pair().await;
    let envelope = envelope("k", "Ana <ana@x.example>", &content.to_string());
    accepted(channel.send(&envelope, PATIENCE).await);
    let mut expected = content;
    let object = expected.as_object_mut().unwrap();
    object.remove("also_to");
    object.extend([
        ("to".to_owned(), json!(["Ana <ana@x.example>", "bia@x.example"])),
        ("cc".to_owned(), json!(["c@x.example"])),
        ("reply_to".to_owned(), json!(["r@lab.example"])),
    ]);
    assert_eq!(sandbox.mails(), [expected]);
}

#[tokio::test]
async fn absent_and_null_are_the_same() {
    let (channel, sandbox) = crate::pair().await;
    let content = json!({"subject": "s", "text": "t", "html": null, "cc": null, "reply_to": null, "tags": null,
        "headers": null, "attachments": null, "from": null, "bcc": [], "also_to": null});
    accepted(channel.send(&envelope("k", "ana@x.example", &content.to_string()), PATIENCE).await);
    let expected = json!({"from": "Clínica <mail@clinic.example>", "to": ["ana@x.example"], "subject": "s",
        "text": "t"});
    assert_eq!(sandbox.mails(), [expected]);
}

#[tokio::test]
async fn a_path_in_the_base_address_is_kept() {
    for base in ["/proxy/resend", "/proxy/resend/"] {
        let receiver = Receiver::saying(200, TAKEN).await;
        accepted(send(&channel(&format!("{}{base}", receiver.url())), "k", "ana@x.example").await);
        assert!(receiver.requests()[0].starts_with("POST /proxy/resend/emails HTTP/1.1\r\n"));
    }
}

#[tokio::test]
async fn a_message_without_a_usable_key_is_known_by_its_id() {
    for key in ["", "a b", "a\r\nx: y", &"k".repeat(257)] {
        let receiver = Receiver::saying(200, TAKEN).await;
        let envelope = envelope(key, "ana@x.example", OI);
        accepted(channel(&receiver.url()).send(&envelope, PATIENCE).await);
        let line = format!("\r\nidempotency-key: {}\r\n", envelope.id);
        assert!(receiver.requests()[0].contains(&line), "{key:?}");
    }
}

#[tokio::test] // REQ CF-8
async fn the_limits_that_an_answer_tells_are_handed_on() {
    let limits =
        "ratelimit-limit: 10\r\nratelimit-remaining: 7\r\nratelimit-reset: 1\r\nx-resend-daily-quota: 3\r\n";
    let told = |hints: Vec<(String, String)>| {
        hints.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    let expected = "ratelimit-limit=10 ratelimit-remaining=7 ratelimit-reset=1";
    let receiver = Receiver::answering(http(200, limits, TAKEN)).await;
    let receipt = accepted(send(&channel(&receiver.url()), "k", "ana@x.example").await);
    assert_eq!(told(receipt.hints), expected);
    let body = r#"{"statusCode":429,"message":"Too many requests","name":"rate_limit_exceeded"}"#;
    let receiver = Receiver::answering(http(429, &format!("{limits}retry-after: 3\r\n"), body)).await;
    let refusal = refused(send(&channel(&receiver.url()), "k", "ana@x.example").await);
    assert_eq!(told(refusal.hints), format!("{expected} retry-after=3"));
    assert_eq!(refusal.text, "Too many requests");
}

#[tokio::test] // REQ SE-2
async fn what_cannot_be_expressed_never_leaves() {
    let receiver = Receiver::saying(200, TAKEN).await;
    let channel = channel(&receiver.url());
    let many: Vec<_> = (0..50).map(|i| format!("a{i}@x.example")).collect();
    let with = |name: &str, value: Value| {
        let mut content = json!({"subject": "s", "text": "t"});
        content[name] = value;
        content
    };
    for (to, content) in [
        ("ana@x.example\r\nbcc: e@x.example", with("text", json!("t"))),
        ("nobody", with("text", json!("t"))),
        ("ana@x.example", with("subject", json!("a\r\nBcc: e@x.example"))),
        ("ana@x.example", with("headers", json!({"X-A": "1\nBcc: e@x.example"}))),
        ("ana@x.example", with("headers", json!({"X-A\r\nBcc": "e@x.example"}))),
        ("ana@x.example", with("from", json!("x\n<a@x.example>"))),
        ("ana@x.example", with("cc", json!(["a@x.example", "b"]))),
        ("ana@x.example", with("also_to", json!(many))),
        ("ana@x.example", with("colour", json!("red"))),
        ("ana@x.example", json!({"text": "no subject"})),
        ("ana@x.example", json!("text")),
    ] {
        let reply = channel.send(&envelope("k", to, &content.to_string()), PATIENCE).await;
        assert_eq!(unreachable(&reply), FaultKind::BadContent, "{to:?} {content}");
        assert!(matches!(&reply, Reply::Unreachable(fault) if !fault.text.contains("example")), "{reply:?}");
    }
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn a_mail_without_any_sender_says_so() {
    let receiver = Receiver::saying(200, TAKEN).await;
    let channel = Resend::new(&ResendSettings { from: None, ..settings(&receiver.url()) }).unwrap();
    match send(&channel, "k", "ana@x.example").await {
        Reply::Unreachable(fault) => {
            assert_eq!(fault.kind, FaultKind::BadContent);
            assert!(fault.text.contains("names no sender"), "{}", fault.text);
        }
        other => panic!("{other:?}"),
    }
    let content = r#"{"subject":"s","text":"t","from":"a@x.example"}"#;
    accepted(channel.send(&envelope("k", "ana@x.example", content), PATIENCE).await);
}

#[test]
fn settings_are_refused_with_every_problem_named() {
    let text = r#"{"base_url":"ftp://x/","api_key":"canary\nkey","from":"canary","ca_file":"/nowhere.pem",
        "receipt_secret":"weak-canary"}"#;
    let settings: ResendSettings = serde_json::from_str(text).unwrap();
    let problems = Resend::new(&settings).unwrap_err();
    let fields: Vec<_> = problems.iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(fields, ["base_url", "api_key", "from", "ca_file", "receipt_secret"]);
    assert!(!format!("{problems:?}").contains("canary"));
    let missing = Resend::new(&ResendSettings::default()).unwrap_err();
    assert_eq!((missing[0].field.as_str(), missing[0].reason.as_str()), ("api_key", "is missing"));
    let whole = ResendSettings { api_key: Some(Secret::new("re_1")), ..ResendSettings::default() };
    assert!(Resend::new(&whole).is_ok());
    assert!(serde_json::from_str::<ResendSettings>(r#"{"skip_verify":true}"#).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test] // REQ SE-2
    fn no_value_makes_another_header_mail_or_request(
        key in any::<String>(),
        to in prop_oneof![any::<String>(), Just("ana@x.example".to_owned())],
        subject in any::<String>(),
        text in any::<String>(),
        name in prop_oneof![any::<String>(), Just("X-A".to_owned())],
        value in any::<String>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let receiver = Receiver::saying(200, TAKEN).await;
            let content = json!({"subject": subject, "text": text, "headers": {&name: &value}});
            let reply = channel(&receiver.url()).send(&envelope(&key, &to, &content.to_string()), PATIENCE).await;
            let requests = receiver.requests();
            if matches!(reply, Reply::Accepted(_)) {
                assert_eq!(requests.len(), 1);
                let (head, body) = requests[0].split_once("\r\n\r\n").unwrap();
                assert_eq!(head.lines().count(), 9);
                let posted: Value = serde_json::from_str(body).unwrap();
                assert_eq!(posted["to"], json!([to]));
                assert_eq!(posted["text"], json!(text));
                assert_eq!(posted["headers"], json!({name: value}));
            } else {
                assert_eq!(unreachable(&reply), FaultKind::BadContent);
                assert_eq!(requests.len(), 0);
            }
        });
    }
}
