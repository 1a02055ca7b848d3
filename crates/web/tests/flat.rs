//! A stream of any length needs the memory of a few groups. Alone in its process, which it measures.

#![allow(clippy::unwrap_used)]

#[path = "doors/house.rs"]
#[allow(dead_code)]
mod house;

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::json;

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// What a test measures is the whole process, so they take turns.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test(flavor = "multi_thread")]
async fn fifty_thousand_large_lines_leave_memory_flat() {
    let _alone = ALONE.lock().await;
    let house = house::House::new().await;
    // None of them is stored, so that what grows could only be the door.
    let line =
        format!("{}\n", house::message(&json!({"channel": "nope", "metadata": {"a": "x".repeat(4_000)}})));
    let piece = Bytes::from(line.repeat(10));
    let pieces = stream::iter((0..5_000).map(move |_| Ok::<_, std::io::Error>(piece.clone())));
    let post = house::request("POST", "/v1/messages/batch")
        .header("authorization", "Bearer key-producer")
        .header("content-type", "application/x-ndjson")
        .body(Body::from_stream(pieces))
        .unwrap();
    let before = resident_kib();
    let response = TowerToHyperService::new(house.router.clone()).call(post).await.unwrap();
    let mut results = response.into_body().into_data_stream();
    let (mut lines, mut most) = (0, 0);
    while let Some(chunk) = results.next().await {
        lines += chunk.unwrap().iter().filter(|byte| **byte == b'\n').count();
        most = most.max(resident_kib());
    }
    assert_eq!(lines, 50_000);
    let grown = most.saturating_sub(before);
    assert!(grown < 48 * 1024, "200 MB of lines made the process grow by {grown} KiB");
}

#[tokio::test(flavor = "multi_thread")] // REQ BK-7
async fn two_hundred_thousand_recipients_leave_memory_flat() {
    let _alone = ALONE.lock().await;
    let house = house::House::new().await;
    house.put_template("hello", &json!({"text": "Hello {{ name }}, {{ note }}"})).await;
    let wish = json!({"name": "c", "channel": "null", "template": "hello"});
    let id = house.post("/v1/campaigns", &wish).await.json()["id"].as_str().unwrap().to_owned();
    // Few of them are stored, so that what grows could only be the door.
    let note = "x".repeat(200);
    let lines: String = (0..50).map(|n| format!("person {n};Ana;\"{note}\n{note}\"\n")).collect();
    let head = Bytes::from_static(b"to;name;note\n");
    let piece = Bytes::from(lines);
    let (sender, pieces) = tokio::sync::mpsc::channel(1);
    let written = tokio::spawn(async move {
        let mut most = 0;
        sender.send(head).await.unwrap();
        for _ in 0..4_000 {
            sender.send(piece.clone()).await.unwrap();
            most = most.max(resident_kib());
        }
        most
    });
    let pieces = stream::unfold(pieces, |mut pieces| async move {
        let piece = pieces.recv().await?;
        Some((Ok::<_, std::io::Error>(piece), pieces))
    });
    let post = house::request("POST", &format!("/v1/campaigns/{id}/recipients"))
        .header("authorization", "Bearer key-operator")
        .header("content-type", "text/csv")
        .body(Body::from_stream(pieces))
        .unwrap();
    let before = resident_kib();
    let told = house.send(post).await.json();
    assert_eq!((&told["added"], &told["duplicates"]), (&json!(50), &json!(199_950)), "{told}");
    let grown = written.await.unwrap().max(resident_kib()).saturating_sub(before);
    assert!(grown < 48 * 1024, "80 MB of recipients made the process grow by {grown} KiB");
}
