use pombo_kernel::reply::FaultKind;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

use crate::receiver::{OK, Receiver, reset};
use crate::{accepted, channel, doubtful, refused, sandbox, send};

#[tokio::test]
async fn requests_that_follow_each_other_share_a_connection() {
    let sink = sandbox().await;
    let channel = channel();
    for i in 0..20 {
        accepted(&send(&channel, &format!("m{i}"), &sink.url("/ok")).await);
        assert_eq!(
            refused(send(&channel, &format!("n{i}"), &sink.url("/status/503")).await).status,
            Some(503)
        );
    }
    let stats = sink.stats();
    assert_eq!((stats.connections, stats.total, stats.accepted, stats.duplicates), (1, 40, 20, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_at_the_same_time_arrive_once_each() {
    let sink = sandbox().await;
    let channel = std::sync::Arc::new(channel());
    let workers: Vec<_> = (0..16)
        .map(|worker| {
            let (channel, url) = (channel.clone(), sink.url("/ok"));
            tokio::spawn(async move {
                for i in 0..50 {
                    accepted(&send(&channel, &format!("m{worker}-{i}"), &url).await);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    let stats = sink.stats();
    assert_eq!((stats.total, stats.distinct, stats.duplicates), (800, 800, 0));
    assert!(stats.connections <= 16, "{stats:?}");
}

#[tokio::test]
async fn an_idle_connection_that_the_receiver_closed_is_not_used_again() {
    let (hang_up, told) = watch::channel(0);
    let (tell, mut gone) = mpsc::unbounded_channel();
    let receiver = Receiver::start(move |mut stream, seen| {
        let (mut told, tell) = (told.clone(), tell.clone());
        told.mark_unchanged();
        async move {
            if seen.read(&mut stream).await.is_some() {
                stream.write_all(OK.as_bytes()).await.unwrap();
                told.changed().await.unwrap();
                drop(stream);
                tell.send(()).unwrap();
            }
        }
    })
    .await;
    let channel = channel();
    for i in 0..5 {
        accepted(&send(&channel, &format!("m{i}"), &receiver.url()).await);
        hang_up.send(i).unwrap();
        gone.recv().await.unwrap();
        // A round trip of our own: whatever the kernel knew before it, the runtime knows after it.
        drop(TcpStream::connect(receiver.address).await.unwrap());
    }
    let ids: Vec<_> = receiver.requests().iter().map(|request| id_of(request)).collect();
    assert_eq!(ids, ["m0", "m1", "m2", "m3", "m4"]);
}

#[tokio::test]
async fn a_request_that_crosses_with_a_hang_up_is_never_sent_again() {
    let receiver = Receiver::start(|mut stream, seen| async move {
        seen.read(&mut stream).await;
        stream.write_all(OK.as_bytes()).await.unwrap();
        seen.read(&mut stream).await;
        reset(stream);
    })
    .await;
    let channel = channel();
    accepted(&send(&channel, "first", &receiver.url()).await);
    assert_eq!(doubtful(&send(&channel, "second", &receiver.url()).await), FaultKind::ConnectionReset);
    let ids: Vec<_> = receiver.requests().iter().map(|request| id_of(request)).collect();
    assert_eq!(ids, ["first", "second"]);
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn whatever_way_a_receiver_hangs_up_no_request_arrives_twice() {
    // No waiting in between: some requests meet a dying connection, and may fail, but not repeat.
    let receiver = Receiver::start(|mut stream, seen| async move {
        if seen.read(&mut stream).await.is_some() {
            stream.write_all(OK.as_bytes()).await.unwrap();
            drop(stream);
        }
    })
    .await;
    let channel = channel();
    for i in 0..50 {
        let _ = send(&channel, &format!("m{i}"), &receiver.url()).await;
    }
    let mut ids: Vec<_> = receiver.requests().iter().map(|request| id_of(request)).collect();
    let arrived = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), arrived);
}

#[tokio::test]
async fn a_connection_that_is_to_be_closed_is_not_kept() {
    for answer in [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ] {
        let receiver = Receiver::answering(answer).await;
        let channel = channel();
        accepted(&send(&channel, "a", &receiver.url()).await);
        accepted(&send(&channel, "b", &receiver.url()).await);
        assert_eq!(receiver.connections(), 2, "{answer:?}");
    }
}

#[tokio::test]
async fn a_connection_with_an_unread_answer_is_not_kept() {
    let sink = sandbox().await;
    let channel = channel();
    refused(send(&channel, "a", &sink.url("/big")).await);
    accepted(&send(&channel, "b", &sink.url("/ok")).await);
    assert_eq!(sink.stats().connections, 2);
}

fn id_of(request: &str) -> String {
    request.lines().find_map(|line| line.strip_prefix("webhook-id: ")).unwrap().to_owned()
}
