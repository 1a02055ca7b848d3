use std::future::pending;
use std::time::Duration;

use pombo_channels::resolve::Resolver;
use pombo_channels::webhook::Webhook;
use pombo_kernel::reply::FaultKind;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;

use crate::receiver::{Receiver, reset};
use crate::{accepted, channel, doubtful, refused, sandbox, send, send_within, settings, unreachable};

/// A deadline that is meant to pass.
const SHORT: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_port_where_nobody_listens_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    assert_eq!(unreachable(&send(&channel(), "m", &url).await), FaultKind::ConnectionRefused);
}

#[tokio::test]
async fn a_name_that_does_not_exist_differs_from_a_resolver_that_is_ill() {
    for (words, expected) in [
        ("Name or service not known", FaultKind::DnsNotFound),
        ("Temporary failure in name resolution", FaultKind::Dns),
    ] {
        let resolver = Resolver::new(move |_, _| Box::pin(async move { Err(std::io::Error::other(words)) }));
        let channel = Webhook::with_resolver(&settings(), resolver).unwrap();
        assert_eq!(unreachable(&send(&channel, "m", "http://crm.example/").await), expected);
    }
    let nothing = Resolver::new(|_, _| Box::pin(async { Ok(Vec::new()) }));
    let channel = Webhook::with_resolver(&settings(), nothing).unwrap();
    assert_eq!(unreachable(&send(&channel, "m", "http://crm.example/").await), FaultKind::DnsNotFound);
}

#[tokio::test]
async fn the_deadline_covers_a_resolver_that_never_answers() {
    let channel = Webhook::with_resolver(&settings(), Resolver::new(|_, _| Box::pin(pending()))).unwrap();
    let reply = send_within(&channel, "m", "http://crm.example/", SHORT).await;
    assert_eq!(unreachable(&reply), FaultKind::Timeout);
}

#[tokio::test]
async fn the_deadline_covers_a_connection_that_is_never_made() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // Once the queue of the listener is full, the kernel drops further requests to connect.
    let mut queued = Vec::new();
    while let Ok(stream) = tokio::time::timeout(SHORT, TcpStream::connect(address)).await {
        queued.push(stream.unwrap());
        assert!(queued.len() < 64, "the queue never fills");
    }
    let reply = send_within(&channel(), "m", &format!("http://{address}/"), SHORT).await;
    assert_eq!(unreachable(&reply), FaultKind::Timeout);
}

#[tokio::test]
async fn a_reset_or_hang_up_after_the_request_leaves_doubt() {
    let sink = sandbox().await;
    assert_eq!(
        doubtful(&send(&channel(), "m", &sink.url("/reset?taken=1")).await),
        FaultKind::ConnectionReset
    );
    assert_eq!(sink.count("m").received, 1);

    let polite = Receiver::start(|mut stream, seen| async move {
        seen.read(&mut stream).await;
    })
    .await;
    assert_eq!(doubtful(&send(&channel(), "m", &polite.url()).await), FaultKind::ConnectionReset);
    assert_eq!(polite.requests().len(), 1);
}

#[tokio::test]
async fn a_receiver_that_never_answers_leaves_doubt_when_the_deadline_passes() {
    let sink = sandbox().await;
    let reply = send_within(&channel(), "m", &sink.url("/hang"), SHORT).await;
    assert_eq!(doubtful(&reply), FaultKind::Timeout);
    assert_eq!(sink.count("m").received, 1);
}

#[tokio::test]
async fn a_head_that_drips_ends_at_the_deadline() {
    let dripping = Receiver::start(|mut stream, seen| async move {
        seen.read(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").await.unwrap();
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(doubtful(&send_within(&channel(), "m", &dripping.url(), SHORT).await), FaultKind::Timeout);
}

#[tokio::test]
async fn a_refusal_whose_body_drips_is_kept_as_far_as_it_came() {
    let dripping = Receiver::answering("HTTP/1.1 503 Busy\r\ncontent-length: 9999\r\n\r\nbusy").await;
    let refusal = refused(send_within(&channel(), "m", &dripping.url(), SHORT).await);
    assert_eq!((refusal.status, refusal.text.as_str()), (Some(503), "busy"));
}

#[tokio::test]
async fn a_success_does_not_wait_for_a_body_that_nobody_needs() {
    let dripping = Receiver::answering("HTTP/1.1 202 Accepted\r\ncontent-length: 9999\r\n\r\nok").await;
    let hours = Duration::from_secs(7200);
    assert_eq!(accepted(&send_within(&channel(), "m", &dripping.url(), hours).await), Some(202));
}

#[tokio::test]
async fn a_success_followed_by_a_reset_is_a_delivery() {
    let cruel = Receiver::start(|mut stream, seen| async move {
        seen.read(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhal").await.unwrap();
        // Once the sender has hung up too, it has read the head: the reset cannot overtake it.
        stream.shutdown().await.unwrap();
        seen.read(&mut stream).await;
        reset(stream);
    })
    .await;
    assert_eq!(accepted(&send(&channel(), "m", &cruel.url()).await), Some(200));
}

#[tokio::test]
async fn of_an_enormous_answer_little_is_read_and_less_is_kept() {
    const GIGABYTE: usize = 1 << 30;
    let (tell, mut written) = mpsc::unbounded_channel();
    let generous = Receiver::start(move |mut stream, seen| {
        let tell = tell.clone();
        async move {
            seen.read(&mut stream).await;
            let head = format!("HTTP/1.1 500 Oops\r\ncontent-length: {GIGABYTE}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let chunk = vec![b'x'; 64 * 1024];
            let mut sent = 0;
            while sent < GIGABYTE && stream.write_all(&chunk).await.is_ok() {
                sent += chunk.len();
            }
            tell.send(sent).unwrap();
        }
    })
    .await;
    let refusal = refused(send(&channel(), "m", &generous.url()).await);
    assert_eq!((refusal.status, refusal.text.len()), (Some(500), 4096));
    // What the kernel buffers on both sides is all that could leave the receiver.
    let sent = written.recv().await.unwrap();
    assert!(sent < 32 << 20, "{sent} bytes");

    let sink = sandbox().await;
    assert_eq!(refused(send(&channel(), "m", &sink.url("/big?status=503")).await).status, Some(503));
    assert_eq!(accepted(&send(&channel(), "m", &sink.url("/big?status=200")).await), Some(200));
}

#[tokio::test]
async fn an_answer_that_is_not_http_leaves_doubt() {
    let long: &'static str = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(1 << 20)).leak();
    for answer in [
        "220 mail.example ESMTP\r\n",
        "\0\0\0\0\0",
        "HTTP/9.9 200 OK\r\n\r\n",
        "HTTP/1.1 2x0 OK\r\n\r\n",
        long,
    ] {
        let strange = Receiver::answering(answer).await;
        assert_eq!(
            doubtful(&send(&channel(), "m", &strange.url()).await),
            FaultKind::Protocol,
            "{answer:.30}"
        );
        assert_eq!(strange.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_redirect_is_a_refusal_and_is_not_followed() {
    let sink = sandbox().await;
    let target = sink.url("/ok");
    for status in [301, 302, 303, 307, 308] {
        let answer =
            format!("HTTP/1.1 {status} Go\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n").leak();
        let pointing = Receiver::answering(answer).await;
        assert_eq!(refused(send(&channel(), "m", &pointing.url()).await).status, Some(status));
    }
    assert_eq!(sink.stats().connections, 0);
}

#[tokio::test]
async fn a_refusal_carries_its_words_and_when_to_come_back() {
    let busy = Receiver::answering(
        "HTTP/1.1 429 Slow Down\r\nRetry-After: 120\r\nRateLimit: \"default\";r=0;t=30\r\nX-RateLimit-Reset: 7\r\n\
         set-cookie: a=b\r\nratelimit-policy: \u{fe}\r\ncontent-length: 7\r\n\r\na\0b\u{e9}cd",
    )
    .await;
    let refusal = refused(send(&channel(), "m", &busy.url()).await);
    assert_eq!(refusal.status, Some(429));
    assert_eq!(refusal.text, "a\u{FFFD}b\u{e9}cd");
    let mut hints = refusal.hints;
    hints.sort();
    let expected =
        [("ratelimit", "\"default\";r=0;t=30"), ("retry-after", "120"), ("x-ratelimit-reset", "7")];
    assert_eq!(hints, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert!(!refusal.perhaps_sent);
}

#[tokio::test]
async fn words_that_are_not_text_are_made_text() {
    let odd = Receiver::start(|mut stream, seen| async move {
        seen.read(&mut stream).await;
        stream.write_all(b"HTTP/1.1 400 Bad\r\ncontent-length: 4\r\n\r\n\xff\x00ok").await.unwrap();
        pending::<()>().await;
    })
    .await;
    assert_eq!(refused(send(&channel(), "m", &odd.url()).await).text, "\u{FFFD}\u{FFFD}ok");
}
