use std::sync::Arc;
use std::time::Duration;

use pombo_channels::sandbox::{Count, Options, Sandbox, Stats};
use pombo_kernel::reply::FaultKind;
use pombo_kernel::time::Time;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::{accepted, channel, doubtful, refused, sandbox, sandbox_with, send, send_within, unreachable};

async fn get(sink: &Sandbox, path: &str) -> serde_json::Value {
    let mut stream = TcpStream::connect(sink.address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[tokio::test]
async fn statuses_are_as_the_path_says() {
    let sink = sandbox().await;
    let channel = channel();
    assert_eq!(accepted(&send(&channel, "a", &sink.url("/ok")).await), Some(200));
    assert_eq!(accepted(&send(&channel, "b", &sink.url("/status/204")).await), Some(204));
    for (path, status) in [("/status/503", 503), ("/gone", 410), ("/rate?retry_after=2", 429), ("/what", 404)]
    {
        let refusal = refused(send(&channel, path, &sink.url(path)).await);
        assert_eq!(refusal.status, Some(status), "{path}");
        let waits: Vec<_> = refusal.hints.iter().filter(|(name, _)| name == "retry-after").collect();
        assert_eq!(waits.len(), usize::from(status == 429), "{path}");
    }
    let stats = sink.stats();
    assert_eq!((stats.total, stats.accepted), (6, 2));
}

#[tokio::test]
async fn flaky_counts_the_attempts_of_each_message() {
    let sink = sandbox().await;
    let channel = channel();
    let url = sink.url("/flaky?fail=2");
    for id in ["a", "b"] {
        assert_eq!(refused(send(&channel, id, &url).await).status, Some(503));
        assert_eq!(refused(send(&channel, id, &url).await).status, Some(503));
        accepted(&send(&channel, id, &url).await);
        assert_eq!(sink.count(id), Count { received: 3, accepted: 1 });
    }
}

#[tokio::test]
async fn random_follows_its_seed() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let sink = sandbox_with(&Options { seed: 5, ..Options::default() }).await;
        let channel = channel();
        for i in 0..200 {
            send(&channel, &i.to_string(), &sink.url("/random?ok=70")).await;
        }
        runs.push(sink.stats().accepted);
    }
    assert!((110..170).contains(&runs[0]), "{runs:?}");
    assert_eq!(runs[0], runs[1]);
}

#[tokio::test]
async fn a_slow_answer_is_taken_before_it_is_given() {
    let sink = sandbox().await;
    let reply =
        send_within(&channel(), "late", &sink.url("/slow?ms=60000"), Duration::from_millis(800)).await;
    assert_eq!(doubtful(&reply), FaultKind::Timeout);
    assert_eq!(sink.count("late").accepted, 1);
    accepted(&send(&channel(), "soon", &sink.url("/slow?ms=1")).await);
}

#[tokio::test]
async fn what_gets_no_answer_may_have_been_taken_or_not() {
    let sink = sandbox().await;
    let channel = channel();
    for (id, path, taken) in [("a", "/reset", 0), ("b", "/reset?taken=1", 1)] {
        assert_eq!(doubtful(&send(&channel, id, &sink.url(path)).await), FaultKind::ConnectionReset);
        assert_eq!(sink.count(id), Count { received: 1, accepted: taken });
    }
}

#[tokio::test]
async fn repeats_are_counted_by_the_sink_and_told_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("taken.log");
    let options = Options {
        log: Some(log.clone()),
        clock: Some(Arc::new(|| Time::from_millis(42))),
        ..Options::default()
    };
    let sink = sandbox_with(&options).await;
    let channel = channel();
    for (id, path) in [("a", "/ok"), ("b", "/flaky?fail=1"), ("a", "/ok"), ("b", "/flaky?fail=1")] {
        send(&channel, id, &sink.url(path)).await;
    }
    // The connection is kept for what may come next.
    let (connections, open_connections) = (1, 1);
    let wanted = Stats { total: 4, accepted: 3, distinct: 2, duplicates: 1, ..Stats::default() };
    assert_eq!(sink.stats(), Stats { connections, open_connections, ..wanted });
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "a 1 42\na 2 42\nb 2 42\n");
    let told = get(&sink, "/stats").await;
    assert_eq!((&told["total"], &told["distinct"], &told["duplicates"]), (&4.into(), &2.into(), &1.into()));
    assert_eq!(get(&sink, "/stats?id=b").await, serde_json::json!({"received": 2, "accepted": 1}));
}

#[tokio::test]
async fn a_stopped_sandbox_is_gone() {
    let sink = sandbox().await;
    let channel = channel();
    let url = sink.url("/ok");
    accepted(&send(&channel, "a", &url).await);
    sink.stop().await;
    let reply = send(&channel, "b", &url).await;
    assert!(matches!(unreachable(&reply), FaultKind::ConnectionRefused | FaultKind::ConnectionReset));
}
