//! The sandbox's own behaviour, by its scripts.

use std::time::Duration;

use pombo_channels::Channel as _;
use pombo_channels::evolution::{Evolution, EvolutionSettings};
use pombo_channels::sandbox::evolution::{EvolutionSandbox, Hook, Options, SCRIPTS, State};
use pombo_kernel::classify::Verdict::{self, Permanent, SenderFault, Transient};
use pombo_kernel::delivery::{Delivery, evolution::reports};
use pombo_kernel::reply::FaultKind;
use pombo_kernel::secret::Secret;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::receiver::Receiver;
use crate::{
    OI, PATIENCE, SHORT, accepted, channel, doubtful, envelope, meaning, refused, sandbox, sandbox_with,
    send, send_within, settings,
};

/// Speaks to the sandbox as a person with curl would, and gives the status and the body.
async fn call(sandbox: &EvolutionSandbox, line: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(sandbox.address).await.unwrap();
    let request = format!(
        "{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\napikey: sandbox\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

#[tokio::test]
async fn every_script_of_a_refusal_does_as_it_says() {
    let sandbox = sandbox().await;
    let channel = channel(&sandbox.url());
    let check = async |to: &str, verdict: Verdict, category: &str| {
        let reply = send(&channel, to).await;
        assert_eq!(meaning(&reply), (verdict, category.to_owned()), "{to}");
    };
    check("+5511987650404", Permanent, "invalid_recipient").await;
    check("+5511987650400", Permanent, "invalid_content").await;
    check("+5511987650408", Transient, "socket_closed").await;
    assert_eq!(meaning(&send(&channel, "+5511987650201").await).0, Permanent);
    check("+5511987650500", Transient, "socket_closed").await;
    assert_eq!(refused(send(&channel, "+5511987650503").await).status, Some(503));
    assert_eq!(refused(send(&channel, "+5511987650503").await).status, Some(503));
    assert_eq!(sandbox.sent().len(), 0);
    accepted(&send(&channel, "+5511987650503").await);
    check("+5511987650409", Permanent, "bad_request").await;
    assert_eq!((sandbox.sent().len(), sandbox.stats().malformed), (2, 0));
}

#[tokio::test]
async fn every_script_of_a_lost_answer_does_as_it_says() {
    let options = Options { slow: SHORT * 2, ..Options::default() };
    let sandbox = sandbox_with(options).await;
    let channel = channel(&sandbox.url());
    assert_eq!(doubtful(&send(&channel, "+5511987650598").await), FaultKind::ConnectionReset);
    assert_eq!(sandbox.sent().len(), 0);
    assert_eq!(doubtful(&send(&channel, "+5511987650599").await), FaultKind::ConnectionReset);
    assert_eq!((sandbox.sent().len(), sandbox.stats().duplicates), (1, 0));
    accepted(&send(&channel, "+5511987650599").await);
    assert_eq!((sandbox.sent().len(), sandbox.stats().duplicates), (2, 1));
    for to in ["+5511987650504", "+5511987650522"] {
        assert_eq!(doubtful(&send_within(&channel, to, OI, SHORT).await), FaultKind::Timeout);
    }
    accepted(&send(&channel, "+5511987650504").await);
    assert_eq!(sandbox.sent().len(), 4);
}

#[tokio::test]
async fn the_time_of_typing_passes_inside_the_request() {
    let sandbox = sandbox().await;
    let channel = channel(&sandbox.url());
    let content = r#"{"text":"oi","delay":4000}"#;
    assert_eq!(doubtful(&send_within(&channel, "+5511987654321", content, SHORT).await), FaultKind::Timeout);
    accepted(&send_within(&channel, "+5511987654321", content, PATIENCE).await);
}

#[tokio::test]
async fn text_and_media_are_logged_as_they_were_sent() {
    let sandbox = sandbox().await;
    let channel = channel(&sandbox.url());
    let media =
        json!({"media": {"mediatype": "document", "media": "JVBERg==", "fileName": "a.pdf"}}).to_string();
    let first = accepted(&send(&channel, "11987654321").await);
    let second = accepted(&send_within(&channel, "+1 202 555 0123", &media, PATIENCE).await);
    let sent = sandbox.sent();
    assert_eq!((&sent[0].key_id, sent[0].jid.as_str()), (&first, "5511987654321@s.whatsapp.net"));
    assert_eq!((&sent[1].key_id, sent[1].body["fileName"].as_str()), (&second, Some("a.pdf")));
    assert!(first != second && first.starts_with("3EB0") && first.len() == 22);
}

#[tokio::test]
async fn a_chosen_id_becomes_the_key() {
    let sandbox = sandbox().await;
    let choosing = EvolutionSettings { message_id: true, ..settings(&sandbox.url()) };
    let channel = Evolution::new(&choosing).unwrap();
    let ids = [send(&channel, "+5511987650599").await, send(&channel, "+5511987650599").await];
    assert_eq!(doubtful(&ids[0]), FaultKind::ConnectionReset);
    let sent = sandbox.sent();
    assert_eq!((&sent[0].key_id, &sent[1].key_id), (&sent[1].key_id, &accepted(&ids[1])));
}

#[tokio::test] // REQ CF-7
async fn the_guards_stand_in_evolutions_order() {
    let sandbox = sandbox().await;
    let right = settings(&sandbox.url());
    let wrong_key = EvolutionSettings { api_key: Some(Secret::new("x")), ..right.clone() };
    let lost = EvolutionSettings { instance: Some("other".to_owned()), ..wrong_key.clone() };
    for (settings, category) in [(wrong_key, "unauthorized"), (lost, "unknown_instance")] {
        let reply = send(&Evolution::new(&settings).unwrap(), "+5511987654321").await;
        assert_eq!(meaning(&reply), (SenderFault, category.to_owned()));
    }
    let (status, _) = call(&sandbox, "POST /message/sendText/sandbox", "{nonsense").await;
    assert_eq!(status, 400);
    let (status, body) = call(&sandbox, "POST /message/sendTxt/sandbox", "{}").await;
    assert_eq!(
        (status, &body["response"]["message"]),
        (404, &json!(["Cannot POST /message/sendTxt/sandbox"]))
    );
    assert_eq!(sandbox.stats().received, 0);
}

#[tokio::test]
async fn the_form_of_a_request_is_checked() {
    let sandbox = sandbox().await;
    for (verb, body, said) in [
        ("sendText", json!({"number": "5511987654321"}), json!([["instance requires property \"text\""]])),
        (
            "sendText",
            json!({"number": "5511987654321", "textMessage": {"text": "v1"}}),
            json!([["instance requires property \"text\""]]),
        ),
        ("sendText", json!({"number": "5511987654321", "text": " "}), json!(["Text is required"])),
        (
            "sendText",
            json!({"number": "5511987654321", "text": "a", "delay": "1"}),
            json!([["instance.delay is not of a type(s) integer"]]),
        ),
        (
            "sendMedia",
            json!({"number": "5511987654321", "mediatype": "image", "media": "/etc/passwd!"}),
            json!(["Owned media must be a url or base64"]),
        ),
        (
            "sendMedia",
            json!({"number": "5511987654321", "mediatype": "document", "media": "AAAA"}),
            json!(["For base64 the file name must be informed."]),
        ),
    ] {
        let (status, answer) =
            call(&sandbox, &format!("POST /message/{verb}/sandbox"), &body.to_string()).await;
        assert_eq!((status, &answer["response"]["message"]), (400, &said));
    }
    // Digits only, and the country's code: that is the channel's to see to.
    for number in ["+5511987654321", "11987654321"] {
        let body = json!({"number": number, "text": "a"}).to_string();
        let (status, answer) = call(&sandbox, "POST /message/sendText/sandbox", &body).await;
        assert_eq!((status, &answer["response"]["message"][0]["exists"]), (400, &json!(false)));
    }
    assert_eq!((sandbox.stats().malformed, sandbox.sent().len()), (6, 0));
}

#[tokio::test]
async fn states_and_outages_are_switched_by_hand_and_by_call() {
    let sandbox = sandbox().await;
    let channel = channel(&sandbox.url());
    for (word, verdict, category) in [
        ("connecting", Transient, "socket_closed"),
        ("logout", Transient, "socket_closed"),
        ("absent", Transient, "instance_not_loaded"),
        ("unlicensed", SenderFault, "unlicensed"),
    ] {
        assert_eq!(call(&sandbox, &format!("POST /state?is={word}"), "").await.0, 200);
        assert_eq!(
            meaning(&send(&channel, "+5511987654321").await),
            (verdict, category.to_owned()),
            "{word}"
        );
    }
    assert_eq!(call(&sandbox, "POST /state?is=asleep", "").await.0, 400);
    sandbox.set_state(State::Open);
    accepted(&send(&channel, "+5511987654321").await);
    call(&sandbox, "POST /outage?on=1", "").await;
    assert_eq!(refused(send(&channel, "+5511987654321").await).status, Some(503));
    call(&sandbox, "POST /outage?on=0", "").await;
    accepted(&send(&channel, "+5511987654321").await);
    let (_, stats) = call(&sandbox, "GET /stats", "").await;
    assert_eq!(stats, json!(sandbox.stats()));
    let (_, sent) = call(&sandbox, "GET /sent", "").await;
    assert_eq!(sent.as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn it_tells_who_is_on_whatsapp_and_which_version_it_plays() {
    let sandbox = sandbox().await;
    let body =
        json!({"numbers": ["5511987654321", "5511987650404", "5511987650009", "551187650009"]}).to_string();
    let (_, found) = call(&sandbox, "POST /chat/whatsappNumbers/sandbox", &body).await;
    let exists: Vec<_> = found.as_array().unwrap().iter().map(|it| it["exists"] == true).collect();
    assert_eq!(exists, [true, false, false, true]);
    assert_eq!(call(&sandbox, "GET /", "").await.1["version"], "2.3.7");
}

#[tokio::test]
async fn so_many_in_a_hundred_fail() {
    for (percent, least, most) in [(0, 0, 0), (30, 15, 45), (100, 100, 100)] {
        let sandbox = sandbox_with(Options { fail_percent: percent, seed: 7, ..Options::default() }).await;
        let channel = channel(&sandbox.url());
        for _ in 0..100 {
            send(&channel, "+5511987654321").await;
        }
        let failed = 100 - sandbox.sent().len();
        assert!((least..=most).contains(&failed), "{failed} of 100 at {percent} %");
    }
}

/// What a webhook was told, once so many receipts have arrived.
async fn told(hook: &Receiver, count: usize) -> Vec<(String, Delivery)> {
    tokio::time::timeout(PATIENCE, hook.has_seen(count)).await.expect("receipts arrive");
    let body = |request: &String| serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    let all = hook.requests().iter().flat_map(|request| reports(&body(request))).collect::<Vec<_>>();
    all.into_iter().map(|report| (report.provider_id, report.delivery)).collect()
}

#[tokio::test] // REQ ML-9
async fn receipts_follow_a_message_and_carry_the_configured_header() {
    let ours = Receiver::saying(200, "{}").await;
    let hook = Hook {
        url: format!("{}/v1/receipts/whatsapp", ours.url()).parse().unwrap(),
        headers: [("authorization".to_owned(), "Bearer s3cret".to_owned())].into(),
        by_events: false,
    };
    let options = Options { hook: Some(hook), receipt_gap: Duration::ZERO, ..Options::default() };
    let sandbox = sandbox_with(options).await;
    let channel = channel(&sandbox.url());
    let id = accepted(&send(&channel, "+5511987654321").await);
    let expected = [Delivery::Accepted, Delivery::Delivered, Delivery::Read].map(|it| (id.clone(), it));
    assert_eq!(told(&ours, 3).await, expected);
    for request in ours.requests() {
        assert!(request.starts_with("POST /v1/receipts/whatsapp HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("\r\nauthorization: Bearer s3cret\r\n"), "{request}");
    }
    let restricted = accepted(&send(&channel, "+5511987650463").await);
    assert_eq!(told(&ours, 4).await[3], (restricted, Delivery::Failed));
}

#[tokio::test]
async fn a_webhook_can_be_set_as_in_evolution() {
    let ours = Receiver::saying(200, "{}").await;
    let sandbox = sandbox_with(Options { receipt_gap: Duration::ZERO, ..Options::default() }).await;
    assert_eq!(call(&sandbox, "GET /webhook/find/sandbox", "").await, (200, Value::Null));
    let set = json!({"webhook": {"enabled": true, "url": ours.url(), "headers": {"x-token": "t"}, "byEvents": true,
        "base64": false, "events": ["MESSAGES_UPDATE"]}});
    assert_eq!(call(&sandbox, "POST /webhook/set/sandbox", &set.to_string()).await.0, 201);
    let (_, shown) = call(&sandbox, "GET /webhook/find/sandbox", "").await;
    assert_eq!((&shown["enabled"], &shown["headers"]["x-token"]), (&json!(true), &json!("t")));
    let id = accepted(&send(&channel(&sandbox.url()), "+5511987654321").await);
    assert_eq!(told(&ours, 1).await[0], (id, Delivery::Accepted));
    assert!(ours.requests()[0].starts_with("POST /messages-update HTTP/1.1\r\n"), "{}", ours.requests()[0]);
    let off = json!({"webhook": {"enabled": false, "url": ours.url()}}).to_string();
    call(&sandbox, "POST /webhook/set/sandbox", &off).await;
    assert_eq!(call(&sandbox, "GET /webhook/find/sandbox", "").await, (200, Value::Null));
}

#[tokio::test]
async fn the_same_seed_gives_the_same_ids() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let sandbox = sandbox_with(Options { seed: 42, ..Options::default() }).await;
        let channel = channel(&sandbox.url());
        channel.send(&envelope("+5511987654321", OI), PATIENCE).await;
        runs.push(sandbox.sent().remove(0).key_id);
    }
    assert_eq!(runs[0], runs[1]);
}

#[test]
fn every_number_of_the_table_ends_in_four_digits() {
    let endings = SCRIPTS.iter().filter_map(|(what, _)| what.strip_prefix('…'));
    let endings: Vec<_> = endings.collect();
    assert!(endings.len() >= 12 && endings.iter().all(|it| it.len() == 4 && it.parse::<u16>().is_ok()));
}
