use std::future::pending;

use pombo_kernel::reply::FaultKind;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use crate::receiver::{KEY, Receiver, answer, reset};
use crate::{OI, SHORT, accepted, channel, doubtful, meaning, refused, send, send_within, unreachable};

const TO: &str = "5511987654321";

#[tokio::test]
async fn a_port_where_nobody_listens_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    assert_eq!(unreachable(&send(&channel(&url), TO).await), FaultKind::ConnectionRefused);
}

#[tokio::test]
async fn a_server_that_never_answers_leaves_doubt_when_the_deadline_passes() {
    let silent = Receiver::start(|mut stream, seen| async move {
        seen.read(&mut stream).await;
        pending::<()>().await;
    })
    .await;
    assert_eq!(doubtful(&send_within(&channel(&silent.url()), TO, OI, SHORT).await), FaultKind::Timeout);
    assert_eq!(silent.requests().len(), 1);
}

#[tokio::test]
async fn a_reset_after_the_request_leaves_doubt() {
    let cruel = Receiver::start(|mut stream, seen| async move {
        seen.read(&mut stream).await;
        reset(stream);
    })
    .await;
    assert_eq!(doubtful(&send(&channel(&cruel.url()), TO).await), FaultKind::ConnectionReset);
    assert_eq!(cruel.requests().len(), 1);
}

#[tokio::test]
async fn a_reset_before_the_request_is_read_never_becomes_a_success_or_a_second_request() {
    let rude = Receiver::start(|stream, _| async move { reset(stream) }).await;
    let reply = send(&channel(&rude.url()), TO).await;
    assert_eq!(meaning(&reply).1, "connection_reset");
    assert_eq!((rude.requests().len(), rude.connections()), (0, 1));
}

#[tokio::test]
async fn of_an_enormous_refusal_little_is_kept() {
    let huge = Receiver::answering(vec![answer(500, &"x".repeat(8 << 20))]).await;
    let refusal = refused(send(&channel(&huge.url()), TO).await);
    assert_eq!((refusal.status, refusal.text.len()), (Some(500), 4096));
}

#[tokio::test]
async fn words_that_are_not_text_are_made_text() {
    let mut bytes = b"HTTP/1.1 500 X\r\ncontent-length: 4\r\n\r\n".to_vec();
    bytes.extend(b"\xff\x00ok");
    let odd = Receiver::answering(vec![bytes]).await;
    assert_eq!(refused(send(&channel(&odd.url()), TO).await).text, "\u{FFFD}\u{FFFD}ok");
    let mut bytes = b"HTTP/1.1 201 X\r\ncontent-length: 4\r\n\r\n".to_vec();
    bytes.extend(b"\xff\xfe{}");
    let odd = Receiver::answering(vec![bytes]).await;
    assert_eq!(doubtful(&send(&channel(&odd.url()), TO).await), FaultKind::Protocol);
}

#[tokio::test]
async fn a_compressed_answer_is_not_unpacked() {
    // The start of a gzip stream; what it would swell to is never known.
    let gzip = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xed, 0xc1];
    for (status, is_doubt) in [(201, true), (500, false)] {
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-encoding: gzip\r\ncontent-type: application/json\r\ncontent-length: 12\r\n\r\n"
        );
        let server = Receiver::answering(vec![[head.as_bytes(), &gzip].concat()]).await;
        let reply = send(&channel(&server.url()), TO).await;
        if is_doubt {
            assert_eq!(doubtful(&reply), FaultKind::Protocol);
        } else {
            assert!(refused(reply).text.len() < 64);
        }
    }
}

#[tokio::test]
async fn the_content_type_does_not_matter_where_the_body_is_evolutions() {
    let text =
        format!("HTTP/1.1 201 X\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n{KEY}", KEY.len());
    let server = Receiver::answering(vec![text.into_bytes()]).await;
    assert_eq!(accepted(&send(&channel(&server.url()), TO).await), "3EB0AA");
}

#[tokio::test]
async fn an_answer_that_is_not_http_leaves_doubt() {
    for answer in [&b"220 mail.example ESMTP\r\n"[..], b"\0\0\0\0\0", b"HTTP/1.1 2x0 OK\r\n\r\n"] {
        let strange = Receiver::answering(vec![answer.to_vec()]).await;
        assert_eq!(doubtful(&send(&channel(&strange.url()), TO).await), FaultKind::Protocol);
        assert_eq!(strange.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_the_key_stays_here() {
    let target = Receiver::saying(201, KEY).await;
    for status in [301, 302, 303, 307, 308] {
        let head = format!("HTTP/1.1 {status} Go\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", target.url());
        let pointing = Receiver::answering(vec![head.into_bytes()]).await;
        let refusal = refused(send(&channel(&pointing.url()), TO).await);
        assert_eq!((refusal.status, refusal.perhaps_sent), (Some(status), false));
    }
    assert_eq!(target.connections(), 0);
}

#[tokio::test]
async fn connections_are_kept_and_one_that_the_server_closed_is_not_used_again() {
    let (hang_up, told) = watch::channel(0);
    let (tell, mut gone) = mpsc::unbounded_channel();
    let server = Receiver::start(move |mut stream, seen| {
        let (mut told, tell) = (told.clone(), tell.clone());
        told.mark_unchanged();
        async move {
            for _ in 0..2 {
                if seen.read(&mut stream).await.is_none() {
                    return;
                }
                stream.write_all(&answer(201, KEY)).await.unwrap();
            }
            told.changed().await.unwrap();
            drop(stream);
            tell.send(()).unwrap();
        }
    })
    .await;
    let channel = channel(&server.url());
    for round in 0..3 {
        accepted(&send(&channel, TO).await);
        accepted(&send(&channel, TO).await);
        hang_up.send(round).unwrap();
        gone.recv().await.unwrap();
        // A round trip of our own: whatever the kernel knew before it, the runtime knows after it.
        drop(TcpStream::connect(server.address).await.unwrap());
    }
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn whatever_way_a_server_hangs_up_no_message_arrives_twice() {
    let server = Receiver::start(|mut stream, seen| async move {
        if seen.read(&mut stream).await.is_some() {
            stream.write_all(&answer(201, KEY)).await.unwrap();
            drop(stream);
        }
    })
    .await;
    let channel = channel(&server.url());
    for i in 0..30 {
        let _ = send_within(&channel, TO, &format!(r#"{{"text":"m{i}"}}"#), crate::PATIENCE).await;
    }
    let mut bodies: Vec<_> = server
        .requests()
        .iter()
        .map(|request| request.split_once("\r\n\r\n").unwrap().1.to_owned())
        .collect();
    let arrived = bodies.len();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), arrived);
}
