use std::time::Duration;

use pombo_kernel::classify::Verdict;
use pombo_kernel::reply::FaultKind;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

use crate::receiver::{KEY, Receiver, answer, reset};
use crate::{OI, accepted, channel, doubtful, meaning, refused, sandbox, send, send_within};

fn absent(number: &str) -> Vec<u8> {
    let message = format!(r#"[{{"jid":"{number}@s.whatsapp.net","exists":false,"number":"{number}"}}]"#);
    answer(400, &format!(r#"{{"status":400,"error":"Bad Request","response":{{"message":{message}}}}}"#))
}

fn numbers(server: &Receiver) -> Vec<String> {
    let number = |request: &String| {
        let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
        body["number"].as_str().unwrap().to_owned()
    };
    server.requests().iter().map(number).collect()
}

#[tokio::test] // REQ CF-3
async fn a_number_known_by_its_other_form_is_reached_in_the_same_attempt() {
    let sandbox = sandbox().await;
    let id = accepted(&send(&channel(&sandbox.url()), "+55 11 98765-0009").await);
    let sent = sandbox.sent();
    assert_eq!((sent.len(), sent[0].number.as_str(), &sent[0].key_id), (1, "551187650009", &id));
    assert_eq!((sandbox.stats().received, sandbox.stats().connections), (2, 1));
}

#[tokio::test] // REQ CF-3
async fn a_number_that_is_on_whatsapp_in_neither_form_gets_the_first_refusal() {
    for (to, first, second) in
        [("5511987650404", "5511987650404", "551187650404"), ("1187650404", "551187650404", "5511987650404")]
    {
        let server = Receiver::answering(vec![absent(first), absent(second)]).await;
        let reply = send(&channel(&server.url()), to).await;
        assert_eq!(meaning(&reply), (Verdict::Permanent, "invalid_recipient".to_owned()));
        assert_eq!(numbers(&server), [first, second]);
        let refusal = refused(reply);
        assert!(refusal.text.contains(&format!("\"number\":\"{first}\"")), "{}", refusal.text);
        assert!(!refusal.perhaps_sent);
    }
}

#[tokio::test]
async fn numbers_without_another_form_are_asked_for_once() {
    for to in ["+1 202 555 0404", "551133330404", "5511933330404", "5511987650404@s.whatsapp.net", "1@g.us"] {
        let server = Receiver::answering(vec![absent("x")]).await;
        assert_eq!(meaning(&send(&channel(&server.url()), to).await).0, Verdict::Permanent);
        assert_eq!(server.requests().len(), 1, "{to}");
    }
}

#[tokio::test]
async fn only_a_certain_no_leads_to_a_second_request() {
    for body in [
        r#"{"response":{"message":["Error: Connection Closed"]}}"#,
        r#"{"response":{"message":["PrismaClientKnownRequestError"]}}"#,
        r#"{"response":{"message":[["instance requires property \"text\""]]}}"#,
        r#"{"response":{"message":["\"exists\":false"]}}"#,
        r#"{"response":{"message":[{"exists":true}]}}"#,
        "exists:false",
    ] {
        let server = Receiver::saying(400, body).await;
        refused(send(&channel(&server.url()), "5511987654321").await);
        assert_eq!(server.requests().len(), 1, "{body}");
    }
}

#[tokio::test]
async fn what_becomes_of_the_other_form_is_what_became_of_the_message() {
    let closed = answer(500, r#"{"status":500,"response":{"message":"Connection Closed"}}"#);
    let server = Receiver::answering(vec![absent("5511987654321"), closed]).await;
    let reply = send(&channel(&server.url()), "5511987654321").await;
    assert_eq!(meaning(&reply), (Verdict::Transient, "socket_closed".to_owned()));

    let server = Receiver::start(|mut stream, seen| async move {
        seen.read(&mut stream).await;
        stream.write_all(&absent("5511987654321")).await.unwrap();
        seen.read(&mut stream).await;
        reset(stream);
    })
    .await;
    let reply = send(&channel(&server.url()), "5511987654321").await;
    assert_eq!(doubtful(&reply), FaultKind::ConnectionReset);
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn both_forms_share_one_deadline() {
    const DEADLINE: Duration = Duration::from_secs(10);
    let server = Receiver::start(|mut stream, seen| async move {
        seen.read(&mut stream).await;
        pass(DEADLINE / 2).await;
        stream.write_all(&absent("5511987654321")).await.unwrap();
        seen.read(&mut stream).await;
        // Late for the attempt, though in time for a second deadline of the same length.
        pass(DEADLINE * 3 / 4).await;
        let _ = stream.write_all(&answer(201, KEY)).await;
    })
    .await;
    let reply = send_within(&channel(&server.url()), "5511987654321", OI, DEADLINE).await;
    assert_eq!(doubtful(&reply), FaultKind::Timeout);
}

/// Lets time pass without waiting for it.
async fn pass(span: Duration) {
    tokio::time::pause();
    tokio::time::advance(span).await;
    tokio::time::resume();
}
