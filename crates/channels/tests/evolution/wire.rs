use pombo_channels::Channel as _;
use pombo_channels::evolution::{Evolution, EvolutionSettings};
use pombo_kernel::content;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::reply::{FaultKind, Reply};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::receiver::{KEY, Receiver};
use crate::{PATIENCE, accepted, channel, envelope, send_within, settings, unreachable};

/// The one request that a server sees of a message.
async fn seen(settings: impl FnOnce(&str) -> EvolutionSettings, to: &str, content: &Value) -> String {
    let server = Receiver::saying(201, KEY).await;
    let channel = Evolution::new(&settings(&server.url())).unwrap();
    let reply = send_within(&channel, to, &content.to_string(), PATIENCE).await;
    assert_eq!(accepted(&reply), "3EB0AA");
    let [request] = server.requests().try_into().expect("one request");
    request.replace(&server.address.to_string(), "HOST")
}

fn body(request: &str) -> Value {
    serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[tokio::test]
async fn a_text_is_exactly_this() {
    let request = seen(settings, "+55 (11) 98765-4321", &json!({"text": "Olá, \"Ana\"\n👋"})).await;
    let mut lines: Vec<_> = request.split("\r\n").collect();
    lines.sort_unstable();
    let mut expected = [
        "POST /message/sendText/sandbox HTTP/1.1",
        "accept-encoding: identity",
        "accept: application/json",
        "apikey: sandbox",
        "content-length: 55",
        "content-type: application/json",
        "host: HOST",
        concat!("user-agent: Pombo/", env!("CARGO_PKG_VERSION")),
        "",
        r#"{"number":"5511987654321","text":"Olá, \"Ana\"\n👋"}"#,
    ];
    expected.sort_unstable();
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn a_text_carries_every_option() {
    let content = json!({"text": "oi", "delay": 1200, "linkPreview": false, "mentionsEveryOne": true,
        "quoted": {"key": {"id": "3EB0"}, "message": {"conversation": "a"}},
        "mentioned": ["+55 11 98765-4321", "77@lid"]});
    let sent = body(&seen(settings, "5511987654321", &content).await);
    assert_eq!(
        sent,
        json!({"number": "5511987654321", "text": "oi", "delay": 1200, "linkPreview": false, "mentionsEveryOne": true,
            "quoted": {"key": {"id": "3EB0"}, "message": {"conversation": "a"}},
            "mentioned": ["5511987654321", "77@lid"]})
    );
}

#[tokio::test]
async fn media_go_their_own_way_with_every_option() {
    let media = json!({"mediatype": "document", "media": "JVBERg==", "mimetype": "application/pdf",
        "fileName": "laudo.pdf", "caption": "Seu laudo"});
    let request = seen(settings, "120363041@g.us", &json!({"media": media, "delay": 5})).await;
    assert!(request.starts_with("POST /message/sendMedia/sandbox HTTP/1.1\r\n"), "{request}");
    assert_eq!(
        body(&request),
        json!({"number": "120363041@g.us", "mediatype": "document", "media": "JVBERg==", "delay": 5,
            "mimetype": "application/pdf", "fileName": "laudo.pdf", "caption": "Seu laudo"})
    );
    let bare = json!({"media": {"mediatype": "image", "media": "https://x.example/a.png"}, "text": null});
    let sent = body(&seen(settings, "11987654321", &bare).await);
    assert_eq!(
        sent,
        json!({"number": "5511987654321", "mediatype": "image", "media": "https://x.example/a.png"})
    );
}

#[tokio::test]
async fn large_media_arrive_whole() {
    let media = "QUJD".repeat(2 << 20);
    let content = json!({"media": {"mediatype": "video", "media": media}});
    let sent = body(&seen(settings, "5511987654321", &content).await);
    assert_eq!(sent["media"].as_str().unwrap().len(), media.len());
}

#[tokio::test]
async fn the_address_may_have_a_path_and_the_instance_any_name() {
    for (base, instance, expected) in [
        ("", "sandbox", "/message/sendText/sandbox"),
        ("/", "Clínica Sul", "/message/sendText/Cl%C3%ADnica%20Sul"),
        ("/evo", "a/b?c#d", "/evo/message/sendText/a%2Fb%3Fc%23d"),
        ("/evo/v2/", "50%", "/evo/v2/message/sendText/50%25"),
    ] {
        let with = |url: &str| EvolutionSettings {
            instance: Some(instance.to_owned()),
            ..settings(&format!("{url}{base}"))
        };
        let request = seen(with, "5511987654321", &json!({"text": "oi"})).await;
        assert_eq!(request.split(' ').nth(1), Some(expected));
    }
}

#[tokio::test]
async fn a_chosen_id_is_of_whatsapps_form_and_the_same_for_every_attempt() {
    let choosing = |url: &str| EvolutionSettings { message_id: true, ..settings(url) };
    let content = json!({"text": "oi"});
    let first = body(&seen(choosing, "5511987654321", &content).await);
    let again = body(&seen(choosing, "5511987654321", &content).await);
    let id = first["messageId"].as_str().unwrap();
    assert_eq!(again["messageId"], id);
    let hex = id.strip_prefix("3EB0").unwrap();
    assert!(hex.len() == 18 && hex.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b)), "{id}");
    let plain = body(&seen(settings, "5511987654321", &content).await);
    assert_eq!(plain.get("messageId"), None);

    let server = Receiver::saying(201, KEY).await;
    let channel = Evolution::new(&choosing(&server.url())).unwrap();
    for key in ["msg_test/2", "", ""] {
        let mut next_round = envelope("5511987654321", crate::OI);
        key.clone_into(&mut next_round.idempotency_key);
        accepted(&channel.send(&next_round, PATIENCE).await);
    }
    let ids: Vec<_> = server.requests().iter().map(|request| body(request)["messageId"].clone()).collect();
    assert!(ids[0] != id && ids[1] != id && ids[0] != ids[1] && ids[1] == ids[2], "{ids:?}");
}

#[tokio::test]
async fn what_cannot_be_expressed_never_leaves() {
    let server = Receiver::saying(201, KEY).await;
    let channel = channel(&server.url());
    for (to, content) in [
        ("5511987654321", "nonsense"),
        ("5511987654321", r#"{"text":7}"#),
        ("5511987654321", r#"{"text":"oi","apikey":"x"}"#),
        ("5511987654321", r#"{"media":{"media":"AAAA"}}"#),
        ("canary", crate::OI),
        ("5511987654321\r\nx: y", crate::OI),
        ("", crate::OI),
    ] {
        let reply = send_within(&channel, to, content, PATIENCE).await;
        assert_eq!(unreachable(&reply), FaultKind::BadContent, "{to} {content}");
        assert!(matches!(&reply, Reply::Unreachable(fault) if !fault.text.contains("canary")), "{reply:?}");
    }
    assert_eq!(server.connections(), 0);
}

#[test]
fn settings_are_refused_with_every_problem_named() {
    let text = r#"{"base_url":"https://u:p@evolution.example/","instance":"..","api_key":"canary\n","ca_file":"/nowhere.pem"}"#;
    let wrong: EvolutionSettings = serde_json::from_str(text).unwrap();
    let problems = Evolution::new(&wrong).unwrap_err();
    let fields: Vec<_> = problems.iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(fields, ["base_url", "instance", "api_key", "ca_file"]);
    assert!(!format!("{problems:?}").contains("canary"));
    let missing = Evolution::new(&EvolutionSettings::default()).unwrap_err();
    assert_eq!(missing.len(), 3);
    for url in [
        "ftp://evolution.example",
        "https://evolution.example/?a=b",
        "https://evolution.example/#a",
        "data:x",
    ] {
        assert_eq!(Evolution::new(&settings(url)).unwrap_err()[0].field, "base_url", "{url}");
    }
    for bad in [r#"{"base_url":"nonsense"}"#, r#"{"message_id":"yes"}"#, r#"{"colour":1}"#] {
        assert!(serde_json::from_str::<EvolutionSettings>(bad).is_err(), "{bad}");
    }
}

fn any_content() -> impl Strategy<Value = Value> {
    let text = prop_oneof![".{1,20}", "\\PC{1,20}", Just("a\r\nHost: b\r\n\r\nPOST / HTTP/1.1".to_owned())];
    let media = (text.clone(), "[A-Za-z0-9+/]{4}").prop_map(
        |(caption, media)| json!({"media": {"mediatype": "image", "media": media, "caption": caption}}),
    );
    prop_oneof![
        text.clone().prop_map(|text| json!({"text": text})),
        (text.clone(), text)
            .prop_map(|(text, quoted)| json!({"text": text, "quoted": {"key": {"id": quoted}}})),
        media,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test] // REQ SE-2
    fn whatever_the_door_lets_in_is_one_request_that_says_just_that(
        to in prop_oneof!["\\+?[0-9 ().-]{8,20}", "[0-9a-z._:-]{1,12}@(g\\.us|lid|s\\.whatsapp\\.net)", ".{0,20}"],
        content in any_content(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = Receiver::saying(201, KEY).await;
            let reply = send_within(&channel(&server.url()), &to, &content.to_string(), PATIENCE).await;
            if content::check(ChannelKind::Evolution, &to, &content).is_err() {
                return Ok(());
            }
            prop_assert_eq!(accepted(&reply), "3EB0AA");
            let requests = server.requests();
            prop_assert_eq!((requests.len(), server.connections()), (1, 1));
            let (head, _) = requests[0].split_once("\r\n\r\n").unwrap();
            prop_assert_eq!(head.split("\r\n").count(), 8);
            let sent = body(&requests[0]);
            prop_assert_eq!(&sent["number"], &json!(content::phone::digits_for(&to)));
            prop_assert_eq!(sent.get("text"), content.get("text"));
            prop_assert_eq!(sent.get("caption"), content.pointer("/media/caption"));
            Ok(())
        })?;
    }
}
