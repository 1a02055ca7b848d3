use pombo_channels::webhook::{Webhook, WebhookSettings};
use pombo_channels::{Channel as _, sandbox};
use pombo_kernel::reply::{FaultKind, Reply};
use pombo_kernel::secret::Secret;

use crate::receiver::{OK, Receiver};
use crate::{NOW, PATIENCE, accepted, channel, envelope, refused, sandbox_with, send, settings, unreachable};

const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const OTHER: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn signing(secret: &str, previous: Option<&str>) -> Webhook {
    let settings = WebhookSettings {
        secret: Some(Secret::new(secret)),
        previous_secret: previous.map(Secret::new),
        ..settings()
    };
    Webhook::new(&settings).unwrap()
}

/// What a receiver sees of one message.
async fn seen(channel: &Webhook, path: &str, content: &str) -> String {
    let receiver = Receiver::answering(OK).await;
    let to = format!("http://{}{path}", receiver.address);
    accepted(&channel.send(&envelope("msg_test", &to, content), PATIENCE).await);
    receiver.requests().remove(0).replace(&receiver.address.to_string(), "HOST")
}

fn lines(request: &str) -> Vec<&str> {
    let mut lines: Vec<_> = request.lines().collect();
    lines.sort_unstable();
    lines
}

#[tokio::test]
async fn a_request_is_exactly_this() {
    let request = seen(&signing(SECRET, None), "/a%20b?c=d#e", r#"{"body":{"a":1}}"#).await;
    let mut expected = [
        "POST /a%20b?c=d HTTP/1.1",
        "accept-encoding: identity",
        "accept: */*",
        "content-length: 7",
        "content-type: application/json",
        "host: HOST",
        concat!("user-agent: Pombo/", env!("CARGO_PKG_VERSION")),
        "webhook-id: msg_test",
        // The published vector: same secret, id, time and body.
        "webhook-signature: v1,zM805ub/HuNgRQquf7DOmQTAXz4paUhBB8MyV0LLA4M=",
        "webhook-timestamp: 1700000000",
        "",
        "{\"a\":1}",
    ];
    expected.sort_unstable();
    assert_eq!(NOW.millis() / 1000, 1_700_000_000);
    assert_eq!(lines(&request), expected);
}

#[tokio::test]
async fn the_body_is_sent_byte_for_byte() {
    for body in [r#"{ "b" : 1.0,   "a":"\u00e9\/" }"#, "[]", "\"text\"", "0", "false"] {
        let request = seen(&channel(), "/", &format!(r#"{{"body":  {body}  }}"#)).await;
        assert_eq!(request.split_once("\r\n\r\n").unwrap().1, body);
    }
    let large = format!("\"{}\"", "x".repeat(256 * 1024));
    let request = seen(&channel(), "/", &format!(r#"{{"body":{large}}}"#)).await;
    assert!(request.ends_with(&large));
}

#[tokio::test]
async fn the_caller_chooses_method_and_headers() {
    let content = r#"{"method":"PUT","headers":{"Authorization":"Bearer x","content-type":"application/cloudevents+json",
        "x-nome":"ção"},"body":1}"#;
    let request = seen(&channel(), "/", content).await;
    for line in [
        "PUT / HTTP/1.1",
        "authorization: Bearer x",
        "content-type: application/cloudevents+json",
        "x-nome: ção",
    ] {
        assert!(request.lines().any(|seen| seen == line), "{line}: {request}");
    }
    assert!(!request.contains("webhook-signature"), "not signed without a secret: {request}");
    assert!(
        request.contains("webhook-id: msg_test\r\n") && request.contains("webhook-timestamp: 1700000000\r\n")
    );
    let empty = seen(&channel(), "/", r#"{"body":null}"#).await;
    assert!(empty.contains("content-length: 0\r\n") && !empty.contains("content-type"), "{empty}");
}

#[tokio::test]
async fn every_method_is_answered() {
    let sink = crate::sandbox().await;
    for method in ["POST", "PUT", "PATCH", "DELETE", "GET"] {
        for body in ["null", "{}"] {
            let content = format!(r#"{{"method":"{method}","body":{body}}}"#);
            let id = format!("{method}{body}");
            accepted(&channel().send(&envelope(&id, &sink.url("/ok"), &content), PATIENCE).await);
            assert_eq!(sink.count(&id).accepted, 1);
        }
    }
}

#[tokio::test]
async fn a_message_without_a_key_is_known_by_its_id() {
    for key in ["", "a b", "a\r\nx: y"] {
        let sink = crate::sandbox().await;
        let envelope = envelope(key, &sink.url("/ok"), "{}");
        accepted(&channel().send(&envelope, PATIENCE).await);
        assert_eq!(sink.count(&envelope.id.to_string()).accepted, 1, "{key:?}");
    }
}

#[tokio::test] // REQ SE-2
async fn what_cannot_be_expressed_never_leaves() {
    let receiver = Receiver::answering(OK).await;
    for (to, content) in [
        (receiver.url(), r#"{"headers":{"x":"a\r\nwebhook-id: forged"}}"#),
        (receiver.url(), r#"{"headers":{"x\r\ny":"a"}}"#),
        (receiver.url(), r#"{"headers":{"x":"a\u0000"}}"#),
        (receiver.url(), r#"{"headers":{"":"a"}}"#),
        // The door refuses these; should one get past it, it still does not leave.
        (receiver.url(), r#"{"headers":{"webhook-id":"forged"}}"#),
        (receiver.url(), r#"{"headers":{"Transfer-Encoding":"chunked"}}"#),
        (receiver.url(), r#"{"headers":{"content-length":"3"}}"#),
        (receiver.url(), r#"{"headers":{"Host":"inside.example"}}"#),
        (receiver.url(), r#"{"method":"GET / HTTP/1.1\r\n"}"#),
        (receiver.url(), r#"{"colour":1}"#),
        (receiver.url(), "nonsense"),
        (format!("{}\r\nx: y", receiver.url()), "{}"),
        (receiver.url().replace("http://", "http://user:pass@"), "{}"),
        ("file:///etc/passwd".to_owned(), "{}"),
    ] {
        let reply = channel().send(&envelope("m", &to, content), PATIENCE).await;
        assert_eq!(unreachable(&reply), FaultKind::BadContent, "{to} {content}");
        assert!(matches!(&reply, Reply::Unreachable(fault) if !fault.text.contains("pass")), "{reply:?}");
    }
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn the_receiver_checks_the_signature() {
    let options = sandbox::Options { secret: Some(Secret::new(SECRET)), ..sandbox::Options::default() };
    let sink = sandbox_with(&options).await;
    accepted(&send(&signing(SECRET, None), "right", &sink.url("/ok")).await);
    accepted(&send(&signing(OTHER, Some(SECRET)), "rotating", &sink.url("/ok")).await);
    assert_eq!(refused(send(&signing(OTHER, None), "wrong", &sink.url("/ok")).await).status, Some(401));
    assert_eq!(refused(send(&channel(), "unsigned", &sink.url("/ok")).await).status, Some(401));
    let stats = sink.stats();
    assert_eq!((stats.accepted, stats.bad_signatures), (2, 2));
}

#[test]
fn settings_are_refused_with_every_problem_named() {
    let text = r#"{"secret":"weak-canary","previous_secret":"whsec_x","user_agent":"a\nb","ca_file":"/nowhere.pem"}"#;
    let settings: WebhookSettings = serde_json::from_str(text).unwrap();
    let problems = Webhook::new(&settings).unwrap_err();
    let fields: Vec<_> = problems.iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(fields, ["secret", "previous_secret", "user_agent", "ca_file"]);
    assert!(!format!("{problems:?} {settings:?}").contains("canary"));

    let alone: WebhookSettings =
        serde_json::from_str(&format!(r#"{{"previous_secret":"{OTHER}"}}"#)).unwrap();
    assert_eq!(Webhook::new(&alone).unwrap_err()[0].field, "previous_secret");

    for bad in [r#"{"skip_verify":true}"#, r#"{"allow":["10.0.0.0/99"]}"#, r#"{"allow_private":"yes"}"#] {
        assert!(serde_json::from_str::<WebhookSettings>(bad).is_err(), "{bad}");
    }
    assert_eq!(serde_json::from_str::<WebhookSettings>("{}").unwrap(), WebhookSettings::default());
}

#[tokio::test]
async fn there_is_no_way_to_ask_a_webhook() {
    assert_eq!(channel().probe(PATIENCE).await, pombo_channels::Health::Unknown);
}
