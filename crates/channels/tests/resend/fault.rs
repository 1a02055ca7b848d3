use std::time::Duration;

use pombo_channels::{Channel as _, Health};
use pombo_kernel::reply::{FaultKind, Reply};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use crate::receiver::{Receiver, http, reset};
use crate::{SHORT, accepted, channel, doubtful, pair, refused, send, send_within, unreachable};

const TAKEN: &str = r#"{"id":"x"}"#;
const TO: &str = "ana@x.example";

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    assert_eq!(unreachable(&send(&channel(&url), "k", TO).await), FaultKind::ConnectionRefused);
}

#[tokio::test]
async fn a_server_that_never_answers_leaves_doubt_when_the_deadline_passes() {
    let (channel, sandbox) = pair().await;
    assert_eq!(doubtful(&send_within(&channel, "k", "hang@x.example", SHORT).await), FaultKind::Timeout);
    assert_eq!(sandbox.stats().total, 1);
    let silent = Receiver::answering("").await;
    match crate::channel(&silent.url()).probe(SHORT).await {
        Health::Sick(Reply::Doubtful(fault)) => assert_eq!(fault.kind, FaultKind::Timeout),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_reset_before_the_request_or_after_it() {
    let rude = Receiver::start(|stream, _| async move { reset(stream) }).await;
    // Whether a byte left before the reset arrived is a race; that nothing was read is not.
    let reply = send(&channel(&rude.url()), "k", TO).await;
    assert!(
        matches!(&reply, Reply::Unreachable(f) | Reply::Doubtful(f) if f.kind == FaultKind::ConnectionReset)
    );
    assert_eq!(rude.requests(), [""; 0]);

    let (channel, sandbox) = pair().await;
    assert_eq!(doubtful(&send(&channel, "k", "reset@x.example").await), FaultKind::ConnectionReset);
    assert_eq!(sandbox.stats().accepted, 1);
}

#[tokio::test]
async fn a_success_that_breaks_off_is_a_doubt() {
    for cut in ["{\"id\":\"x\"}", "{\"id\":"] {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n{cut}");
        let broken = Receiver::start(move |mut stream, seen| {
            let head = head.clone();
            async move {
                seen.read(&mut stream).await;
                let _ = stream.write_all(head.as_bytes()).await;
            }
        })
        .await;
        doubtful(&send(&channel(&broken.url()), "k", TO).await);
        assert_eq!(broken.requests().len(), 1);
    }
}

#[tokio::test]
async fn of_an_enormous_answer_little_is_kept() {
    let large = "x".repeat(1 << 20);
    let refusing = Receiver::answering(http(500, "", &large)).await;
    let refusal = refused(send(&channel(&refusing.url()), "k", TO).await);
    assert_eq!((refusal.status, refusal.text.len()), (Some(500), 4096));
    let taking = Receiver::answering(http(200, "", &format!("{{\"id\":\"x\",\"y\":\"{large}\"}}"))).await;
    doubtful(&send(&channel(&taking.url()), "k", TO).await);
    let words = format!(r#"{{"name":"validation_error","message":"{}"}}"#, "é".repeat(9000));
    let refusing = Receiver::saying(422, &words).await;
    assert_eq!(refused(send(&channel(&refusing.url()), "k", TO).await).text.len(), 4096);
}

#[tokio::test]
async fn bytes_that_are_not_text_and_packed_bodies_are_taken_as_they_are() {
    let mut odd = b"HTTP/1.1 400 Bad\r\ncontent-length: 4\r\n\r\n".to_vec();
    odd.extend(b"\xff\x00ok");
    let receiver = Receiver::answering(odd).await;
    assert_eq!(refused(send(&channel(&receiver.url()), "k", TO).await).text, "\u{FFFD}\u{FFFD}ok");
    // The head of a gzip stream, which would unpack to far more than it is.
    let mut packed = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 10\r\n\r\n".to_vec();
    packed.extend(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03");
    let receiver = Receiver::answering(packed).await;
    assert_eq!(doubtful(&send(&channel(&receiver.url()), "k", TO).await), FaultKind::Protocol);
    let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>";
    let receiver = Receiver::answering(page).await;
    assert_eq!(doubtful(&send(&channel(&receiver.url()), "k", TO).await), FaultKind::Protocol);
    let smtp = Receiver::answering("220 mail.example ESMTP\r\n").await;
    assert_eq!(doubtful(&send(&channel(&smtp.url()), "k", TO).await), FaultKind::Protocol);
}

#[tokio::test]
async fn a_redirect_is_a_refusal_and_is_not_followed() {
    let (_, sandbox) = pair().await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("location: {}/emails\r\n", sandbox.url());
        let pointing = Receiver::answering(http(status, &location, "")).await;
        assert_eq!(refused(send(&channel(&pointing.url()), "k", TO).await).status, Some(status));
    }
    assert_eq!(sandbox.stats().connections, 0);
}

#[tokio::test]
async fn an_idle_connection_that_was_closed_is_not_used_again() {
    let (hang_up, told) = watch::channel(0);
    let (tell, mut gone) = mpsc::unbounded_channel();
    let receiver = Receiver::start(move |mut stream, seen| {
        let (mut told, tell) = (told.clone(), tell.clone());
        told.mark_unchanged();
        async move {
            if seen.read(&mut stream).await.is_some() {
                stream.write_all(http(200, "", TAKEN).as_bytes()).await.unwrap();
                told.changed().await.unwrap();
                drop(stream);
                tell.send(()).unwrap();
            }
        }
    })
    .await;
    let channel = channel(&receiver.url());
    for i in 0..4 {
        accepted(send(&channel, &format!("m{i}"), TO).await);
        hang_up.send(i).unwrap();
        gone.recv().await.unwrap();
        // A round trip of our own: whatever the kernel knew before it, the runtime knows after it.
        drop(TcpStream::connect(receiver.address).await.unwrap());
    }
    assert_eq!(receiver.requests().len(), 4);
}

#[tokio::test]
async fn a_request_that_crosses_with_a_hang_up_is_never_sent_again() {
    let receiver = Receiver::start(|mut stream, seen| async move {
        seen.read(&mut stream).await;
        stream.write_all(http(200, "", TAKEN).as_bytes()).await.unwrap();
        seen.read(&mut stream).await;
        reset(stream);
    })
    .await;
    let channel = channel(&receiver.url());
    accepted(send(&channel, "first", TO).await);
    assert_eq!(doubtful(&send(&channel, "second", TO).await), FaultKind::ConnectionReset);
    assert_eq!((receiver.requests().len(), receiver.connections()), (2, 1));
}

#[tokio::test]
async fn a_dripping_answer_ends_at_the_deadline() {
    let dripping = Receiver::start(|mut stream, seen| async move {
        seen.read(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n").await.unwrap();
        while stream.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    doubtful(&send_within(&channel(&dripping.url()), "k", TO, SHORT).await);
}
