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

#[tokio::test(flavor = "multi_thread")]
async fn fifty_thousand_large_lines_leave_memory_flat() {
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
