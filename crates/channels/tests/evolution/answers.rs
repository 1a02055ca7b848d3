//! Evolution's answers, row by row: from the wire to a reply, and on to what it means.

use pombo_kernel::classify::Verdict;
use pombo_kernel::classify::Verdict::{Permanent, SenderFault, Transient, UnknownTransient};
use pombo_kernel::reply::{FaultKind, Reply};

use crate::receiver::{KEY, Receiver, answer};
use crate::{accepted, channel, doubtful, meaning, refused, send};

/// Whether the message may have gone out though Evolution said no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Certain {
    NotSent,
    PerhapsSent,
}
use Certain::{NotSent, PerhapsSent};

async fn reply_to(status: u16, body: &str) -> Reply {
    // A landline, so that there is no other form of it to try.
    send(&channel(&Receiver::saying(status, body).await.url()), "551133334444").await
}

async fn check(status: u16, body: &str, verdict: Verdict, category: &str, certain: Certain) {
    let reply = reply_to(status, body).await;
    assert_eq!(meaning(&reply), (verdict, category.to_owned()), "{status} {body}");
    let refusal = refused(reply);
    assert_eq!((refusal.status, refusal.text.as_str()), (Some(status), body));
    assert_eq!(refusal.perhaps_sent, certain == PerhapsSent, "{status} {body}");
}

async fn row(status: u16, message: &str, verdict: Verdict, category: &str, certain: Certain) {
    let body = format!(r#"{{"status":{status},"error":"Bad Request","response":{{"message":{message}}}}}"#);
    check(status, &body, verdict, category, certain).await;
}

#[tokio::test] // REQ CF-3
async fn the_body_says_what_a_refusal_means_and_whether_it_is_certain() {
    let absent = r#"[{"jid":"551133334444@s.whatsapp.net","exists":false,"number":"551133334444"}]"#;
    row(400, absent, Permanent, "invalid_recipient", NotSent).await;
    row(400, r#"[["instance requires property \"text\""]]"#, Permanent, "invalid_content", NotSent).await;
    row(400, r#"["Text is required"]"#, Permanent, "invalid_content", NotSent).await;
    row(400, r#"["Owned media must be a url or base64"]"#, Permanent, "invalid_content", NotSent).await;
    row(400, r#"["Error: Connection Closed"]"#, Transient, "socket_closed", NotSent).await;
    row(500, r#""Connection Closed""#, Transient, "socket_closed", NotSent).await;
    row(500, r#"["Error: Connection Closed"]"#, Transient, "socket_closed", NotSent).await;
    row(400, r#"["Error: Timed Out"]"#, Transient, "socket_timeout", PerhapsSent).await;
    row(500, r#"["Error: Timed Out"]"#, Transient, "socket_timeout", NotSent).await;
    let lost = r#""Cannot read properties of undefined (reading 'find')""#;
    row(400, lost, Transient, "socket_closed", NotSent).await;
    let not_loaded = r#""Cannot read properties of undefined (reading 'textMessage')""#;
    row(500, not_loaded, Transient, "instance_not_loaded", NotSent).await;
    let dead_link = r#"["AxiosError: Request failed with status code 404"]"#;
    row(500, dead_link, Permanent, "media_unavailable", NotSent).await;
    row(404, r#"["The \"x\" instance does not exist"]"#, SenderFault, "unknown_instance", NotSent).await;
    row(404, r#"["Cannot POST /message/sendText/x"]"#, SenderFault, "unknown_route", NotSent).await;
    row(401, r#""Unauthorized""#, SenderFault, "unauthorized", NotSent).await;
    row(400, r#"["Error: Instance logged out"]"#, SenderFault, "instance_logged_out", NotSent).await;
}

#[tokio::test] // REQ CF-3
async fn an_unknown_400_is_for_good_and_may_have_been_sent() {
    row(400, r#"["PrismaClientKnownRequestError: x"]"#, Permanent, "bad_request", PerhapsSent).await;
    row(400, r#""anything""#, Permanent, "bad_request", PerhapsSent).await;
    row(400, "[]", Permanent, "bad_request", PerhapsSent).await;
    assert!(refused(reply_to(400, "{}").await).perhaps_sent);
    check(400, "", Permanent, "bad_request", PerhapsSent).await;
    check(400, "<html>400</html>", Permanent, "bad_request", PerhapsSent).await;
}

#[tokio::test] // REQ CF-3
async fn a_group_that_nobody_knows_and_a_body_that_was_no_json_were_not_sent() {
    let group = reply_to(400, r#"{"status":400,"response":{"message":["[object Object]"]}}"#).await;
    assert!(meaning(&group).0 == Permanent && !refused(group).perhaps_sent);
    let body = r#"{"status":400,"error":"Internal Server Error","response":{"message":"Unexpected token } in JSON"}}"#;
    let parser = reply_to(400, body).await;
    assert!(meaning(&parser).0 == Permanent && !refused(parser).perhaps_sent);
}

#[tokio::test] // REQ CF-3, CF-7
async fn an_installation_without_a_licence_is_our_fault_and_no_load() {
    let body =
        r#"{"error":"service not activated","code":"LICENSE_REQUIRED","register_url":"u","message":"m"}"#;
    let reply = reply_to(503, body).await;
    assert_eq!(meaning(&reply), (SenderFault, "unlicensed".to_owned()));
    let refusal = refused(reply);
    assert_eq!((refusal.name.as_deref(), refusal.perhaps_sent), (Some("LICENSE_REQUIRED"), false));
}

#[tokio::test]
async fn a_gateway_that_lost_evolution_cannot_say_that_nothing_was_sent() {
    check(503, "busy", Transient, "service_unavailable", NotSent).await;
    check(429, "slow", Transient, "rate_limited", NotSent).await;
    let numbered = refused(reply_to(503, r#"{"code":190,"message":"no healthy upstream"}"#).await);
    assert_eq!(numbered.name, None, "only Meta's numbers are names, and they come under 201");
    for status in [502, 504, 520, 524] {
        let reply = reply_to(status, "<html>gateway</html>").await;
        assert_eq!(meaning(&reply).0, Transient);
        assert!(refused(reply).perhaps_sent, "{status}");
    }
}

#[tokio::test] // REQ CF-3
async fn a_201_with_metas_refusal_is_a_refusal() {
    for (code, verdict) in [
        (131_026, Permanent),
        (131_050, Permanent),
        (100, Permanent),
        (190, SenderFault),
        (130_429, Transient),
        (139_999, UnknownTransient),
    ] {
        let body = format!(
            r#"{{"message":"no","type":"OAuthException","code":{code},"error_data":{{"details":"d"}},"fbtrace_id":"A"}}"#
        );
        let reply = reply_to(201, &body).await;
        assert_eq!(meaning(&reply).0, verdict, "{code}");
        let refusal = refused(reply);
        assert_eq!((refusal.status, refusal.name), (Some(201), Some(code.to_string())));
        assert!(refusal.text == body && !refusal.perhaps_sent);
    }
}

#[tokio::test] // REQ CF-3
async fn a_201_without_a_key_is_a_failure_and_may_have_been_sent() {
    for body in ["{}", r#"{"key":null}"#, r#"{"key":{}}"#, r#"{"key":{"id":""}}"#, r#"{"status":"PENDING"}"#]
    {
        let reply = reply_to(201, body).await;
        assert_eq!(meaning(&reply), (Transient, "no_message_key".to_owned()), "{body}");
        assert!(refused(reply).perhaps_sent, "{body}");
    }
}

#[tokio::test]
async fn a_success_gives_the_keys_id_wherever_the_key_stands() {
    for (status, body) in [
        (201, KEY),
        (200, KEY),
        (201, r#"{"status":"PENDING","message":{"key":{"id":"WRONG"}},"key":{"id":"3EB0AA"}}"#),
        (201, r#"{"key":{"id":"3EB0AA","remoteJid":"x"},"status":"PENDING","messageTimestamp":1730000000}"#),
    ] {
        let reply = reply_to(status, body).await;
        assert_eq!(accepted(&reply), "3EB0AA");
        assert!(matches!(&reply, Reply::Accepted(receipt) if receipt.code == Some(status)), "{reply:?}");
    }
}

#[tokio::test]
async fn a_success_that_is_not_evolutions_leaves_doubt() {
    for body in ["", "ok", "[]", "null", "<html>", "{\"key\":", "7"] {
        assert_eq!(doubtful(&reply_to(201, body).await), FaultKind::Protocol, "{body:?}");
    }
    assert_eq!(doubtful(&reply_to(204, "").await), FaultKind::Protocol);
}

#[tokio::test]
async fn a_success_that_breaks_off_counts_if_the_key_had_come() {
    for (part, id) in [
        (r#"{"key":{"id":"3EB0AA"},"message":{"jpegThumb"#, Some("3EB0AA")),
        (r#"{"key":{"id":"3EB0A"#, None),
        (r#"{"key":{"id":"3EB0AA","remo"#, None),
        ("", None),
    ] {
        let cut = format!("HTTP/1.1 201 Created\r\nconnection: close\r\ncontent-length: 9999\r\n\r\n{part}");
        let server = Receiver::start(move |mut stream, seen| {
            let cut = cut.clone();
            async move {
                seen.read(&mut stream).await;
                tokio::io::AsyncWriteExt::write_all(&mut stream, cut.as_bytes()).await.unwrap();
            }
        })
        .await;
        let reply = send(&channel(&server.url()), "551133334444").await;
        match id {
            Some(id) => assert_eq!(accepted(&reply), id),
            None => assert_eq!(doubtful(&reply), FaultKind::ConnectionReset, "{part}"),
        }
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_success_may_carry_a_picture_that_is_never_read() {
    let picture = "x".repeat(1 << 20);
    let long = answer(201, &format!(r#"{{"key":{{"id":"3EB0AA"}},"message":{{"base64":"{picture}"}}}}"#));
    let server = Receiver::answering(vec![long]).await;
    assert_eq!(accepted(&send(&channel(&server.url()), "551133334444").await), "3EB0AA");
    let late = answer(201, &format!(r#"{{"message":{{"base64":"{picture}"}},"key":{{"id":"3EB0AA"}}}}"#));
    let server = Receiver::answering(vec![late]).await;
    assert_eq!(doubtful(&send(&channel(&server.url()), "551133334444").await), FaultKind::ConnectionReset);
}

#[tokio::test]
async fn rate_limits_of_a_gateway_are_passed_on() {
    let server = Receiver::answering(vec![
        b"HTTP/1.1 429 X\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n".to_vec(),
        format!("HTTP/1.1 201 X\r\nx-ratelimit-remaining: 3\r\ncontent-length: {}\r\n\r\n{KEY}", KEY.len())
            .into_bytes(),
    ])
    .await;
    let channel = channel(&server.url());
    assert_eq!(refused(send(&channel, "551133334444").await).hints, [("retry-after".into(), "7".into())]);
    let Reply::Accepted(receipt) = send(&channel, "551133334444").await else { panic!() };
    assert_eq!(receipt.hints, [("x-ratelimit-remaining".into(), "3".into())]);
}
