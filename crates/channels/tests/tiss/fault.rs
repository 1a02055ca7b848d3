use std::future::pending;
use std::time::Duration;

use pombo_channels::{Channel as _, Health};
use pombo_kernel::reply::FaultKind;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use crate::receiver::{Receiver, reset};
use crate::{PATIENCE, accepted, channel, doubtful, lot, refused, send, send_within, unreachable};

/// A deadline that is meant to pass.
const SHORT: Duration = Duration::from_secs(2);
const OK: &[u8] = b"<protocoloRecebimentoWS><numeroProtocolo>1</numeroProtocolo></protocoloRecebimentoWS>";

#[tokio::test]
async fn nobody_listening_is_unreachable_and_silence_is_doubt() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    assert_eq!(unreachable(&send(&channel(&url), &lot("1")).await).0, FaultKind::ConnectionRefused);

    let silent = Receiver::start(|mut stream, seen| async move {
        seen.read(&mut stream).await;
        pending::<()>().await;
    })
    .await;
    assert_eq!(doubtful(&send_within(&channel(&silent.url()), &lot("1"), SHORT).await), FaultKind::Timeout);
    assert_eq!(silent.seen().len(), 1);
}

#[tokio::test]
async fn a_body_that_drips_ends_at_the_deadline_in_doubt() {
    let dripping = Receiver::start(|mut stream, seen| async move {
        seen.read(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n<protocolo").await.unwrap();
        pending::<()>().await;
    })
    .await;
    assert_eq!(
        doubtful(&send_within(&channel(&dripping.url()), &lot("1"), SHORT).await),
        FaultKind::Protocol
    );
}

#[tokio::test]
async fn a_reset_after_the_request_leaves_doubt() {
    let rude = Receiver::start(|mut stream, seen| async move {
        seen.read(&mut stream).await;
        reset(stream);
    })
    .await;
    assert_eq!(doubtful(&send(&channel(&rude.url()), &lot("1")).await), FaultKind::ConnectionReset);
    assert_eq!(rude.seen().len(), 1);
}

#[tokio::test]
async fn a_huge_answer_is_read_so_far_and_no_further() {
    let endless = Receiver::start(|mut stream, seen| async move {
        seen.read(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        let chunk = [b"10000\r\n".as_slice(), &[b'x'; 65_536], b"\r\n"].concat();
        while stream.write_all(&chunk).await.is_ok() {}
    })
    .await;
    assert_eq!(doubtful(&send(&channel(&endless.url()), &lot("1")).await), FaultKind::Protocol);

    // Larger than most answers may be, and as large as the answer to a large lot is.
    let guide = "<dadosGuias><numeroGuiaPrestador>1</numeroGuiaPrestador></dadosGuias>";
    let body = [
        &OK[..OK.len() - "</protocoloRecebimentoWS>".len()],
        guide.repeat(20_000).as_bytes(),
        b"</protocoloRecebimentoWS>",
    ]
    .concat();
    let large = Receiver::saying(200, "text/xml", &body).await;
    assert_eq!(accepted(send(&channel(&large.url()), &lot("1")).await).note, None);
}

#[tokio::test]
async fn a_packed_answer_is_not_unpacked() {
    let packed = [
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 40\r\n\r\n\x1f\x8b\x08".as_slice(),
        &[0; 37],
    ]
    .concat();
    let bomb = Receiver::answering(packed).await;
    assert_eq!(doubtful(&send(&channel(&bomb.url()), &lot("1")).await), FaultKind::Protocol);
}

#[tokio::test]
async fn the_type_of_an_answer_does_not_matter_and_what_it_says_does() {
    let odd = Receiver::saying(200, "application/octet-stream", OK).await;
    assert_eq!(accepted(send(&channel(&odd.url()), &lot("1")).await).provider_id.as_deref(), Some("1"));
    let page = Receiver::saying(200, "text/xml", b"<html>ok</html>").await;
    assert_eq!(doubtful(&send(&channel(&page.url()), &lot("1")).await), FaultKind::Protocol);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let target = Receiver::saying(200, "text/xml", OK).await;
    for status in [301, 302, 307, 308] {
        let answer =
            format!("HTTP/1.1 {status} Moved\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", target.url());
        let pointing = Receiver::answering(answer.into_bytes()).await;
        assert_eq!(refused(send(&channel(&pointing.url()), &lot("1")).await).status, Some(status));
    }
    assert_eq!(target.connections(), 0);
}

#[tokio::test]
async fn an_idle_connection_that_the_operator_closed_is_not_used_again() {
    let (hang_up, told) = watch::channel(0);
    let (tell, mut gone) = mpsc::unbounded_channel();
    let answer = [format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", OK.len()).as_bytes(), OK].concat();
    let operator = Receiver::start(move |mut stream, seen| {
        let (mut told, tell, answer) = (told.clone(), tell.clone(), answer.clone());
        told.mark_unchanged();
        async move {
            if seen.read(&mut stream).await.is_some() {
                stream.write_all(&answer).await.unwrap();
                told.changed().await.unwrap();
                drop(stream);
                tell.send(()).unwrap();
            }
        }
    })
    .await;
    let channel = channel(&operator.url());
    for i in 0..3 {
        accepted(send(&channel, &lot(&format!("{i}"))).await);
        hang_up.send(i).unwrap();
        gone.recv().await.unwrap();
        // A round trip of our own: whatever the kernel knew before it, the runtime knows after it.
        drop(TcpStream::connect(operator.address).await.unwrap());
    }
    assert_eq!(operator.seen().len(), 3);
}

#[tokio::test] // REQ CB-2
async fn a_probe_asks_for_the_description_of_the_service() {
    for (status, well) in [(200, true), (404, true), (401, true), (500, false), (503, false)] {
        let operator = Receiver::start(move |mut stream, _| async move {
            let mut seen = Vec::new();
            while !seen.ends_with(b"\r\n\r\n") {
                tokio::io::AsyncReadExt::read_buf(&mut stream, &mut seen).await.unwrap();
            }
            assert!(seen.starts_with(b"GET /tiss?wsdl HTTP/1.1\r\n"));
            let _ = stream
                .write_all(format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n").as_bytes())
                .await;
        })
        .await;
        let health = channel(&operator.url()).probe(PATIENCE).await;
        assert_eq!(matches!(health, Health::Reachable(_)), well, "{status}: {health:?}");
        assert_eq!(matches!(health, Health::Sick(_)), !well, "{status}: {health:?}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    assert!(matches!(channel(&url).probe(PATIENCE).await, Health::Sick(_)));
}
