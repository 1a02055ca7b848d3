use pombo_kernel::classify::Verdict::{self, Permanent, SenderFault, Transient};
use pombo_kernel::reply::{Enhanced, Reply, Stage};

use crate::server::Server;
use crate::{channel, meaning, refused, send};

async fn reply_at(verb: &'static str, answer: &str) -> (Reply, Server) {
    let answer: &'static [u8] = answer.to_owned().leak().as_bytes();
    let server = Server::answering(vec![(verb, answer)].leak()).await;
    (send(&channel(&server.url()), "m", "ana@example.net").await, server)
}

#[tokio::test]
async fn a_refusal_is_told_with_its_stage_codes_and_words() {
    for (verb, stage) in [
        ("", Stage::Greeting),
        ("EHLO", Stage::Greeting),
        ("MAIL", Stage::Mail),
        ("RCPT", Stage::Rcpt),
        ("DATA", Stage::Data),
        (".", Stage::Data),
    ] {
        let (reply, server) = reply_at(verb, "451-4.3.0 not\r\n451 4.3.0 now\r\n").await;
        let refusal = refused(reply);
        let enhanced = Enhanced { class: 4, subject: 3, detail: 0 };
        assert_eq!(
            (refusal.status, refusal.enhanced, refusal.stage),
            (Some(451), Some(enhanced), stage),
            "{verb}"
        );
        assert_eq!(refusal.text, "not\n4.3.0 now");
        assert_eq!(server.mails(), usize::from(verb == "."));
        assert_eq!(server.connections(), 1);
    }
}

/// A server says this; it must come to that.
async fn check(verb: &'static str, answer: &str, verdict: Verdict, category: &str) {
    let (reply, _) = reply_at(verb, &format!("{answer}\r\n")).await;
    let meaning = meaning(&reply);
    assert_eq!((meaning.verdict, meaning.category.as_str()), (verdict, category), "{answer}: {reply:?}");
}

#[tokio::test] // REQ CF-4 CF-5
async fn what_servers_say_comes_to_what_it_means() {
    // From the wire to the verdict; the rules' own tests have every row.
    check("RCPT", "421 4.3.2 Service not available", Transient, "service_unavailable").await;
    check(
        "RCPT",
        "450 4.2.1 The user is receiving mail at a rate that prevents more",
        Transient,
        "rate_limited",
    )
    .await;
    check(
        "RCPT",
        "550-5.2.1 The user is receiving mail\r\n550 5.2.1 at a rate that prevents more",
        Transient,
        "rate_limited",
    )
    .await;
    check("RCPT", "451 4.7.1 Greylisted, try again in 60 seconds", Transient, "greylisted").await;
    check("RCPT", "452 4.2.2 The recipient's inbox is out of storage space", Transient, "mailbox_full").await;
    check("RCPT", "552 5.2.2 user is over quota", Permanent, "mailbox_full").await;
    check("RCPT", "550 5.1.1 User unknown in virtual mailbox table", Permanent, "invalid_recipient").await;
    check(
        "RCPT",
        "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen",
        SenderFault,
        "blocklisted",
    )
    .await;
    check(".", "552 5.3.4 Message size exceeds fixed limit", Permanent, "message_too_large").await;
    check(
        ".",
        "550 5.7.26 This mail fails to pass authentication: DMARC policy",
        SenderFault,
        "sender_authentication",
    )
    .await;
    check("RCPT", "554 5.7.1 <ana@example.net>: Relay access denied", SenderFault, "relay_denied").await;
}

#[tokio::test]
async fn words_in_another_alphabet_keep_their_code() {
    let server = Server::answering(&[("RCPT", b"550 5.1.1 usu\xe1rio n\xe3o existe\r\n")]).await;
    let reply = send(&channel(&server.url()), "m", "ana@example.net").await;
    assert_eq!(meaning(&reply).verdict, Permanent);
    assert_eq!(refused(reply).text, "usu\u{FFFD}rio n\u{FFFD}o existe");
}

#[tokio::test]
async fn a_farewell_amid_the_dialogue_is_a_refusal_even_if_it_breaks_off() {
    for answer in ["421 4.3.2 going down\r\n", "421 4.3.2 going down"] {
        let answer: &'static [u8] = answer.as_bytes();
        let server = Server::start(move |mut stream, _| async move {
            use tokio::io::AsyncWriteExt as _;
            stream.write_all(b"220 x\r\n").await.unwrap();
            crate::server::read_to(&mut stream, b"\r\n").await;
            stream.write_all(answer).await.unwrap();
        })
        .await;
        let refusal = refused(send(&channel(&server.url()), "m", "ana@example.net").await);
        assert_eq!((refusal.status, refusal.text.as_str()), (Some(421), "going down"));
    }
}

#[tokio::test]
async fn a_server_without_extensions_is_spoken_to_as_of_old() {
    let server = Server::answering(&[("EHLO", b"502 5.5.1 what?\r\n")]).await;
    crate::accepted(send(&channel(&server.url()), "m", "ana@example.net").await);
    let verbs: Vec<_> =
        server.heard().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(verbs[..5], ["EHLO", "HELO", "MAIL", "RCPT", "DATA"]);
    assert_eq!(server.heard()[2], "MAIL FROM:<mail@clinic.example>");
}
