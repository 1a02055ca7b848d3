use std::time::Duration;

use pombo_channels::Channel as _;
use pombo_kernel::reply::{FaultKind, Reply};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::server::{Server, read_to, reset};
use crate::{channel, doubtful, envelope, meaning, refused, send, send_within, unreachable};

const SHORT: Duration = Duration::from_secs(2);
const NEVER: &[u8] = "…".as_bytes();

#[tokio::test]
async fn a_server_that_falls_silent_is_left_at_the_deadline() {
    for answers in
        [&[("", NEVER)][..], &[("EHLO", NEVER)], &[("MAIL", NEVER)], &[("RCPT", NEVER)], &[("DATA", NEVER)]]
    {
        let server = Server::answering(answers).await;
        let reply = send_within(&channel(&server.url()), "m", "ana@example.net", SHORT).await;
        assert_eq!(unreachable(&reply), FaultKind::Timeout, "{answers:?}");
        assert_eq!(meaning(&reply).category.as_str(), "timeout");
        assert_eq!(server.mails(), 0);
    }
    // Its end was sent, so perhaps it was taken.
    let server = Server::answering(&[(".", NEVER)]).await;
    let reply = send_within(&channel(&server.url()), "m", "ana@example.net", SHORT).await;
    assert_eq!(doubtful(&reply), FaultKind::Timeout);
    assert_eq!(server.mails(), 1);
}

#[tokio::test]
async fn a_server_that_hangs_up_leaves_doubt_only_after_the_end_of_the_mail() {
    for verb in ["", "EHLO", "MAIL", "RCPT", "DATA"] {
        let server = Server::answering(vec![(verb, &b""[..])].leak()).await;
        let reply = send(&channel(&server.url()), "m", "ana@example.net").await;
        assert_eq!(unreachable(&reply), FaultKind::ConnectionReset, "{verb}");
        assert_eq!((server.mails(), server.connections()), (0, 1), "{verb}");
    }
    let server = Server::answering(&[(".", b"")]).await;
    assert_eq!(
        doubtful(&send(&channel(&server.url()), "m", "ana@example.net").await),
        FaultKind::ConnectionReset
    );
    assert_eq!((server.mails(), server.connections()), (1, 1));

    // A reset before the end was read.
    let server = Server::start(|mut stream, _| async move {
        for answer in ["220 x", "250 x", "250 x", "250 x", "354 x"] {
            stream.write_all(format!("{answer}\r\n").as_bytes()).await.unwrap();
            if read_to(&mut stream, b"\r\n").await.is_none() {
                return;
            }
        }
        reset(stream);
    })
    .await;
    let big = serde_json::json!({"subject": "s", "text": "0123456789\n".repeat(2_000_000)}).to_string();
    let reply = channel(&server.url()).send(&envelope("m", "ana@example.net", &big), crate::PATIENCE).await;
    assert_eq!(unreachable(&reply), FaultKind::ConnectionReset);
}

#[tokio::test]
async fn a_server_that_stops_reading_gets_no_end_of_the_mail() {
    let server = Server::start(|mut stream, _| async move {
        for answer in ["220 x", "250 x", "250 x", "250 x", "354 x"] {
            stream.write_all(format!("{answer}\r\n").as_bytes()).await.unwrap();
            read_to(&mut stream, b"\r\n").await;
        }
        std::future::pending::<()>().await;
    })
    .await;
    let big = serde_json::json!({"subject": "s", "text": "0123456789\n".repeat(3_000_000)}).to_string();
    let reply =
        channel(&server.url()).send(&envelope("m", "ana@example.net", &big), Duration::from_secs(3)).await;
    assert_eq!(unreachable(&reply), FaultKind::Timeout);
}

#[tokio::test]
async fn a_server_that_refuses_amid_the_mail_is_heard() {
    let server = Server::start(|mut stream, _| async move {
        for answer in ["220 x", "250 x", "250 x", "250 x", "354 x"] {
            stream.write_all(format!("{answer}\r\n").as_bytes()).await.unwrap();
            read_to(&mut stream, b"\r\n").await;
        }
        stream.write_all(b"552 5.3.4 too big\r\n").await.unwrap();
        // As a server does that has heard enough: no more is read, and the connection ends.
        let mut some = [0; 4096];
        stream.read_exact(&mut some).await.unwrap();
        stream.shutdown().await.unwrap();
        while stream.read(&mut some).await.is_ok_and(|n| n > 0) {}
    })
    .await;
    let big = serde_json::json!({"subject": "s", "text": "0123456789\n".repeat(100_000)}).to_string();
    let reply = channel(&server.url()).send(&envelope("m", "ana@example.net", &big), crate::PATIENCE).await;
    assert_eq!(refused(reply).status, Some(552));
}

#[tokio::test]
async fn endless_and_foreign_replies_end_the_attempt() {
    let endless: &'static [u8] = b"550-x\r\n".repeat(100_000).leak();
    let wide: &'static [u8] = [b"550 ".to_vec(), vec![b'x'; 1_000_000]].concat().leak();
    for (answer, status) in [(endless, 550), (wide, 550)] {
        let server = Server::answering(vec![("RCPT", answer)].leak()).await;
        let refusal = refused(send(&channel(&server.url()), "m", "ana@example.net").await);
        assert_eq!(refusal.status, Some(status));
        assert!(refusal.text.len() <= 4096);
    }
    let yes: &'static [u8] = b"250-x\r\n".repeat(100_000).leak();
    let server = Server::answering(vec![(".", yes)].leak()).await;
    assert_eq!(doubtful(&send(&channel(&server.url()), "m", "ana@example.net").await), FaultKind::Protocol);
    for noise in [
        &b"HTTP/1.1 301 Moved\r\nlocation: http://x/\r\n\r\n"[..],
        b"\x1f\x8b\x08\x00",
        b"\r\n",
        b"\x15\x03\x01",
    ] {
        let server = Server::answering(vec![("", noise)].leak()).await;
        let reply = send(&channel(&server.url()), "m", "ana@example.net").await;
        assert_eq!(unreachable(&reply), FaultKind::Protocol, "{noise:?}");
    }
    let server = Server::answering(&[("DATA", b"250 thanks\r\n")]).await;
    assert_eq!(
        unreachable(&send(&channel(&server.url()), "m", "ana@example.net").await),
        FaultKind::Protocol
    );
    assert_eq!(server.mails(), 0);
}

#[tokio::test]
async fn nobody_listening_is_told_from_no_such_name() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let reply = send(&channel(&format!("smtp://{free}")), "m", "ana@example.net").await;
    assert_eq!(unreachable(&reply), FaultKind::ConnectionRefused);
    assert!(matches!(meaning(&reply).verdict, pombo_kernel::classify::Verdict::Transient));
    let reply = send(&channel("smtp://nowhere.invalid"), "m", "ana@example.net").await;
    assert!(matches!(unreachable(&reply), FaultKind::DnsNotFound | FaultKind::Dns), "{reply:?}");
}

#[tokio::test]
async fn a_mail_that_the_server_has_said_it_will_not_take_is_not_sent() {
    let server = Server::answering(&[("EHLO", b"250-x\r\n250 SIZE 100\r\n")]).await;
    let reply = send(&channel(&server.url()), "m", "ana@example.net").await;
    assert_eq!(meaning(&reply).category.as_str(), "message_too_large");
    let refusal = refused(reply);
    assert_eq!((refusal.status, refusal.enhanced.unwrap().to_string().as_str()), (Some(552), "5.3.4"));
    assert_eq!(server.heard().len(), 1, "only EHLO: {:?}", server.heard());

    let server = Server::answering(&[]).await;
    let refusal = refused(send(&channel(&server.url()), "m", "josé@example.net").await);
    assert_eq!((refusal.status, refusal.enhanced.unwrap().to_string().as_str()), (Some(553), "5.6.7"));
    let server = Server::answering(&[("EHLO", b"250-x\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n")]).await;
    assert!(matches!(send(&channel(&server.url()), "m", "josé@example.net").await, Reply::Accepted(_)));
    assert_eq!(server.heard()[1], "MAIL FROM:<mail@clinic.example> BODY=8BITMIME SMTPUTF8");
    assert_eq!(server.heard()[2], "RCPT TO:<josé@example.net>");
}
