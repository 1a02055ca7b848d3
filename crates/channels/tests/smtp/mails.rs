use pombo_channels::Channel as _;
use pombo_channels::smtp::{Smtp, SmtpSettings};
use pombo_kernel::reply::FaultKind;
use pombo_kernel::time::Time;
use serde_json::{Value, json};

use crate::{PATIENCE, accepted, channel, envelope, sandbox, send, settings, unreachable};

/// Sends one mail to a sandbox and gives back its text.
async fn written(
    settings: impl FnOnce(&str) -> SmtpSettings,
    to: &str,
    content: &Value,
) -> (String, String, String) {
    let server = sandbox().await;
    let channel = Smtp::new(&settings(&server.url())).unwrap();
    accepted(channel.send(&envelope("msg_1", to, &content.to_string()), PATIENCE).await);
    let taken = server.taken().remove(0);
    (taken.from, taken.to, String::from_utf8(taken.mail).unwrap())
}

fn header<'a>(mail: &'a str, name: &str) -> Vec<&'a str> {
    let head = mail.split("\r\n\r\n").next().unwrap();
    head.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).collect()
}

#[tokio::test]
async fn every_field_arrives_where_it_belongs() {
    let content = json!({
        "subject": "Sua consulta amanhã às 9 h",
        "text": "Olá, Ana.\n.ponto\n",
        "html": "<p>Olá, <b>Ana</b>. <img src=\"cid:logo\"></p>",
        "from": "Clínica São José <agenda@clinica.example>",
        "reply_to": ["Recepção <oi@clinica.example>", "b@clinica.example"],
        "headers": {"X-Campaign": "retorno nº 7", "List-Unsubscribe": "<https://clinica.example/sair>"},
        "attachments": [
            {"filename": "exame médico.pdf", "content": "JVBERi0=", "content_type": "application/pdf"},
            {"filename": "logo.png", "content": "iVBORw==", "content_type": "image/png", "content_id": "logo"},
        ],
    });
    let bounce =
        |url: &str| SmtpSettings { bounce_address: Some("bounce@clinica.example".into()), ..settings(url) };
    let (from, to, mail) = written(bounce, "Ana Souza <ana@example.net>", &content).await;
    assert_eq!((from.as_str(), to.as_str()), ("bounce@clinica.example", "ana@example.net"));
    assert!(mail.is_ascii() && mail.lines().all(|line| line.len() <= 998));
    for (name, value) in [
        ("Date", "Tue, 14 Nov 2023 22:13:20 +0000"),
        ("Message-ID", "<msg_1@clinica.example>"),
        ("To", "\"Ana Souza\" <ana@example.net>"),
        ("MIME-Version", "1.0"),
        ("List-Unsubscribe", "<https://clinica.example/sair>"),
    ] {
        assert_eq!(header(&mail, name), [value], "{name}");
    }
    for (name, start) in
        [("From", "=?utf-8?b?"), ("Subject", "Sua consulta =?utf-8?b?"), ("X-Campaign", "retorno =?utf-8?b?")]
    {
        assert!(
            matches!(header(&mail, name).as_slice(), [value] if value.starts_with(start)),
            "{name}: {mail}"
        );
    }
    assert!(
        mail.contains("<agenda@clinica.example>") && mail.contains("<oi@clinica.example>, b@clinica.example")
    );
    // Mixed holds the alternatives and the file; the alternatives hold the text and the related HTML and picture.
    let places = [
        "Content-Type: multipart/mixed;",
        "Content-Type: multipart/alternative;",
        "Content-Type: text/plain; charset=utf-8",
        "Content-Type: multipart/related;",
        "Content-Type: text/html; charset=utf-8",
        "Content-ID: <logo>",
        "iVBORw==",
        "JVBERi0=",
    ];
    let found: Vec<_> =
        places.iter().map(|place| mail.find(place).unwrap_or_else(|| panic!("{place}: {mail}"))).collect();
    assert!(found.is_sorted(), "{found:?} {mail}");
    assert!(mail.contains("Content-Disposition: inline; filename=\"logo.png\""), "{mail}");
    assert!(mail.contains("filename*0*=utf-8''exame%20m%C3%A9dico.pdf"), "{mail}");
}

#[tokio::test]
async fn the_simplest_mail_is_simple() {
    let (from, _, mail) =
        written(settings, "ana@example.net", &json!({"subject": "s", "text": "one\n.two"})).await;
    assert_eq!(from, "mail@clinic.example");
    assert_eq!(header(&mail, "From"), ["Clinic <mail@clinic.example>"]);
    assert!(mail.ends_with("\r\n\r\none\r\n.two\r\n"), "{mail}");
    assert!(!mail.contains("multipart"));
    let (_, _, html) =
        written(settings, "ana@example.net", &json!({"subject": "s", "html": "<p>é</p>", "text": ""})).await;
    assert!(html.contains("Content-Type: text/html") && !html.contains("multipart"), "{html}");
}

#[tokio::test] // REQ ML-5
async fn every_attempt_of_a_round_has_the_same_id_and_the_next_round_another() {
    let server = sandbox().await;
    let channel = channel(&server.url());
    for (round, now) in [("msg_1", 0), ("msg_1", 60_000), ("msg_1-1", 120_000)] {
        let mut envelope = envelope(round, "ana@example.net", crate::PLAIN);
        envelope.now = Time::from_millis(now);
        accepted(channel.send(&envelope, PATIENCE).await);
    }
    let ids: Vec<_> = server.taken().into_iter().map(|taken| taken.message_id).collect();
    assert_eq!(ids, ["<msg_1@clinic.example>", "<msg_1@clinic.example>", "<msg_1-1@clinic.example>"]);
    assert_eq!((server.stats().distinct, server.stats().duplicates), (2, 1));
}

#[tokio::test]
async fn a_key_that_cannot_stand_in_an_id_is_replaced_by_the_messages_own() {
    let server = sandbox().await;
    accepted(send(&channel(&server.url()), "a b<>\r\n", "ana@example.net").await);
    let id = envelope("", "", "").id;
    assert_eq!(server.taken()[0].message_id, format!("<{id}@clinic.example>"));
}

#[tokio::test]
async fn the_reply_to_the_mail_is_its_receipt() {
    let server = sandbox().await;
    let receipt = accepted(send(&channel(&server.url()), "m", "ana@example.net").await);
    assert_eq!(receipt.code, Some(250));
    assert_eq!(receipt.provider_id.as_deref(), Some("ok: queued as S00000001"));
}

#[tokio::test]
async fn a_mail_without_a_sender_reaches_nobody() {
    let server = sandbox().await;
    let channel = Smtp::new(&SmtpSettings { from: None, ..settings(&server.url()) }).unwrap();
    assert_eq!(unreachable(&send(&channel, "m", "ana@example.net").await), FaultKind::BadContent);
    assert_eq!(server.stats().connections, 0);
}

#[tokio::test]
async fn what_does_not_look_like_a_type_of_file_is_sent_as_bytes() {
    for odd in ["pdf", "multipart/mixed; boundary=x", "message/rfc822", "text/é"] {
        let file = json!({"filename": "a", "content": "AA==", "content_type": odd});
        let content = json!({"subject": "s", "text": "t", "attachments": [file]});
        let (_, _, mail) = written(settings, "ana@example.net", &content).await;
        assert!(mail.contains("Content-Type: application/octet-stream"), "{odd}: {mail}");
    }
}
