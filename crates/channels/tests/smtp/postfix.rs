//! Mail to a Postfix of the test's own.

use std::os::unix::fs::chown;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pombo_channels::Channel as _;
use pombo_channels::smtp::{Smtp, SmtpSettings, Tls};
use pombo_kernel::classify::Verdict::{Permanent, Transient};
use pombo_kernel::reply::{FaultKind, Stage};
use pombo_testbed::Postfix;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::parts::authority::Authority;
use crate::{PATIENCE, PLAIN, accepted, envelope, meaning, refused, send, settings, unreachable};

/// The user whom mailboxes belong to: nobody.
const NOBODY: u32 = 65_534;

/// A Postfix that has a mailbox for `ana@example.net` and one for `grey@example.net`, takes mails of 20 kB, and asks the
/// policy service on that port about each.
fn start(authority: &Authority, policy: u16) -> Postfix {
    Postfix::start(|root| {
        let boxes = root.join("boxes");
        std::fs::create_dir(&boxes).unwrap();
        chown(&boxes, Some(NOBODY), Some(NOBODY)).unwrap();
        let (certificate, key) = authority.pair("mail.example");
        std::fs::write(root.join("etc/tls.pem"), format!("{certificate}{key}")).unwrap();
        let at = root.display();
        format!(
            "virtual_mailbox_domains = example.net
virtual_mailbox_base = {at}/boxes
virtual_mailbox_maps = inline:{{ ana@example.net=ana, grey@example.net=grey }}
virtual_uid_maps = static:{NOBODY}
virtual_gid_maps = static:{NOBODY}
virtual_mailbox_limit = 0
mailbox_size_limit = 0
message_size_limit = 20000
smtpd_recipient_restrictions = reject_unauth_destination, check_policy_service inet:127.0.0.1:{policy}
smtpd_tls_security_level = may
smtpd_tls_cert_file = {at}/etc/tls.pem
smtpd_tls_key_file = {at}/etc/tls.pem
"
        )
    })
}

fn url(postfix: &Postfix) -> String {
    format!("smtp://127.0.0.1:{}", postfix.port())
}

/// What is in a mailbox, once there is something.
async fn mailbox(postfix: &Postfix, name: &str) -> String {
    let file = postfix.folder().join("boxes").join(name);
    for _ in 0..1000 {
        if let Ok(text) = std::fs::read_to_string(&file)
            && text.contains("\nHow are you?")
        {
            return text;
        }
        // Another program delivers it, and tells nobody.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{}", postfix.log());
}

/// A policy service that puts off the first try for `grey@`, and counts how often it was asked about it.
async fn policy() -> (u16, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let counted = counted.clone();
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let mut request = String::new();
                while stream.read_line(&mut request).await.is_ok_and(|bytes| bytes > 0) {
                    if !request.ends_with("\n\n") {
                        continue;
                    }
                    let grey = request.contains("\nrecipient=grey@");
                    let first = grey && counted.fetch_add(1, Ordering::SeqCst) == 0;
                    let action =
                        if first { "450 4.7.1 Greylisted, try again in 60 seconds" } else { "DUNNO" };
                    stream.write_all(format!("action={action}\n\n").as_bytes()).await.unwrap();
                    request.clear();
                }
            });
        }
    });
    (port, asked)
}

async fn postfix() -> (Postfix, Authority, Arc<AtomicUsize>) {
    let (port, asked) = policy().await;
    let authority = Authority::new();
    let postfix = tokio::task::spawn_blocking(move || (start(&authority, port), authority)).await;
    let (postfix, authority) = postfix.unwrap();
    (postfix, authority, asked)
}

#[tokio::test]
async fn postfix_delivers_what_it_is_sent_and_refuses_what_it_must() {
    let (postfix, _, asked) = postfix().await;
    let channel = Smtp::new(&SmtpSettings { tls: Some(Tls::None), ..settings(&url(&postfix)) }).unwrap();

    // Delivered, with the head and the words that were sent.
    let receipt = accepted(send(&channel, "msg_1", "Ana <ana@example.net>").await);
    assert_eq!(receipt.code, Some(250));
    assert!(receipt.provider_id.is_some_and(|id| id.contains("queued as")));
    let mail = mailbox(&postfix, "ana").await;
    for line in [
        "Return-Path: <mail@clinic.example>",
        "From: Clinic <mail@clinic.example>",
        "To: Ana <ana@example.net>",
        "Subject: Hello",
        "Message-ID: <msg_1@clinic.example>",
        "Date: Tue, 14 Nov 2023 22:13:20 +0000",
        "How are you?",
    ] {
        assert!(mail.lines().any(|other| other == line), "{line} in {mail}");
    }

    // Put off, then delivered.
    let reply = send(&channel, "msg_2", "grey@example.net").await;
    assert_eq!((meaning(&reply).verdict, meaning(&reply).category.as_str()), (Transient, "greylisted"));
    let refusal = refused(reply);
    assert_eq!((refusal.status, refusal.stage), (Some(450), Stage::Rcpt));
    accepted(send(&channel, "msg_2", "grey@example.net").await);
    assert!(mailbox(&postfix, "grey").await.contains("\nMessage-ID: <msg_2@clinic.example>\n"));
    assert_eq!(asked.load(Ordering::SeqCst), 2);

    // Nobody there.
    let reply = send(&channel, "msg_3", "nobody@example.net").await;
    assert_eq!(
        (meaning(&reply).verdict, meaning(&reply).category.as_str()),
        (Permanent, "invalid_recipient")
    );
    let refusal = refused(reply);
    assert_eq!((refusal.status, refusal.enhanced.unwrap().to_string().as_str()), (Some(550), "5.1.1"));
    assert_eq!(refusal.stage, Stage::Rcpt);

    // Too big.
    let big = serde_json::json!({"subject": "s", "text": "0123456789\n".repeat(3000)}).to_string();
    let reply = channel.send(&envelope("msg_4", "ana@example.net", &big), PATIENCE).await;
    assert_eq!(meaning(&reply).category.as_str(), "message_too_large");
    let refusal = refused(reply);
    assert_eq!((refusal.status, refusal.enhanced.unwrap().to_string().as_str()), (Some(552), "5.3.4"));

    // Gone.
    let address = url(&postfix);
    tokio::task::spawn_blocking(move || drop(postfix)).await.unwrap();
    let reply = send(&crate::channel(&address), "msg_5", "ana@example.net").await;
    assert_eq!(unreachable(&reply), FaultKind::ConnectionRefused);
    assert_eq!(meaning(&reply).verdict, Transient);
}

#[tokio::test]
async fn postfix_is_spoken_to_under_tls_and_only_if_it_is_who_it_says() {
    let (postfix, authority, _) = postfix().await;
    let address = format!("127.0.0.1:{}", postfix.port()).parse().unwrap();
    let trusting = |authority: &Authority| {
        let settings = SmtpSettings {
            tls: Some(Tls::Starttls),
            ca_file: Some(authority.file()),
            ..settings("smtp://mail.example:587")
        };
        let there = move |_, _| -> pombo_channels::BoxFuture<'static, _> {
            Box::pin(async move { Ok(vec![address]) })
        };
        Smtp::with_resolver(&settings, pombo_channels::resolve::Resolver::new(there)).unwrap()
    };
    accepted(trusting(&authority).send(&envelope("msg_1", "ana@example.net", PLAIN), PATIENCE).await);
    let mail = mailbox(&postfix, "ana").await;
    assert!(mail.contains("with ESMTPS id"), "{mail}");
    let reply = send(&trusting(&Authority::new()), "msg_2", "ana@example.net").await;
    assert_eq!(unreachable(&reply), FaultKind::Tls);
}
