//! A disk that is full, and one that fails, under the real binary.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use http::Method;
use pombo::client::{Client, ClientError, Payload, Refusal};
use serde_json::json;

use place::{Mount, Place, Told, WORKERS, all_arrive, all_sent, binary, drained, produce, read_store, sink};

const DISK_MB: u64 = 24;
/// Enough for a reserve.
const ROOMY_MB: u64 = 400;
/// What waits behind the pace of the sink when the disk is full.
const CONTENT_BYTES: usize = 16 * 1024;

fn refusal<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> Refusal {
    match answer {
        Err(ClientError::Refused(refusal)) => *refusal,
        other => panic!("not a refusal: {other:?}"),
    }
}

/// Writes zeros until the disk has no room left.
fn fill(file: &Path) {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file).unwrap();
    let zeros = [0; 4096];
    while file.write_all(&zeros).is_ok() {}
}

/// Posts large messages until the store has refused several in a row, filling the disk with the first refusal.
async fn post_until_full(client: &Client, url: &str, ballast: &Path, ids: &mut Vec<String>) -> Refusal {
    let content = "x".repeat(CONTENT_BYTES);
    let mut in_a_row = 0;
    for n in 0..20_000 {
        let body = json!({"channel": "crm", "to": url, "content": {"body": {"n": n, "content": content}}});
        match client.post("/v1/messages", Payload::json(&body)).await {
            Ok(message) => {
                ids.push(message["id"].as_str().unwrap().to_owned());
                in_a_row = 0;
            }
            Err(error) => {
                fill(ballast);
                in_a_row += 1;
                if in_a_row == 20 {
                    return refusal::<()>(Err(error));
                }
            }
        }
    }
    panic!("the disk was never full");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 9
async fn a_full_disk_refuses_producers_and_pauses_sending_until_there_is_room() {
    let place = Place::new();
    let disk = Mount::tmpfs(place.folder.path(), DISK_MB);
    let data = disk.folder.join("data");
    let ballast = disk.folder.join("ballast");
    // Too little is left for a log of its full size.
    std::fs::write(&ballast, vec![0; 8 << 20]).unwrap();
    let sink = sink().await;
    let server = place.start_with(Command::new(binary()), &data);
    place.ready().await;
    let log = std::fs::metadata(data.join("pombo.db-wal")).unwrap().len();
    assert!(log < 1 << 20, "a log that could not be filled has kept {log} bytes");
    let client = place.client();

    let mut ids = Vec::new();
    let refused = post_until_full(&client, &sink.url("/slow?ms=200"), &ballast, &mut ids).await;
    assert_eq!((refused.status, refused.code.as_str()), (503, "STORE_UNAVAILABLE"), "{refused:?}");
    assert!(refused.retry_after.is_some(), "{refused:?}");
    assert!(refused.hint.as_deref().is_some_and(|hint| hint.contains("Idempotency-Key")), "{refused:?}");
    let unready = refusal(client.get("/readyz").await);
    assert_eq!(unready.status, 503);
    assert!(unready.detail.as_deref().is_some_and(|detail| detail.contains("full")), "{unready:?}");
    let check = unready.rest["checks"].as_array().unwrap().iter().find(|check| check["name"] == "store");
    assert_eq!(check.unwrap()["ok"], false, "{unready:?}");
    let metrics = client.call(Method::GET, "/metrics", Payload::default()).await.unwrap();
    assert!(
        String::from_utf8_lossy(&metrics).contains("\npombo_store_writable 0\n"),
        "it can still be watched"
    );

    // What was under way ends; then nothing goes out.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = sink.stats().total;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(sink.stats().total, before, "something was sent that could not be recorded");
    assert!(usize::try_from(before).unwrap() < ids.len(), "nothing is left that could have been sent");

    // Room again: no restart, no help.
    std::fs::remove_file(&ballast).unwrap();
    place.ready().await;
    let body = json!({"channel": "crm", "to": sink.url("/ok"), "content": {"body": "after"}});
    let after = client.post("/v1/messages", Payload::json(&body)).await.unwrap();
    ids.push(after["id"].as_str().unwrap().to_owned());
    drained(&client, ids.len()).await;
    assert!(server.terminate().await.success());
    let record = read_store(&data, &ids);
    let repeated = all_sent(&record, &sink, &ids);
    assert_eq!(repeated, 0, "nothing crashed, so nothing may come twice");
    println!("result disk_full messages={} lost=0 repeated={repeated}", ids.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 9
async fn who_has_nothing_else_to_delete_gives_up_the_reserve_and_goes_on() {
    let place = Place::new();
    let disk = Mount::tmpfs(place.folder.path(), ROOMY_MB);
    let (data, ballast) = (disk.folder.join("data"), disk.folder.join("ballast"));
    let reserve = data.join("pombo.reserve");
    let sink = sink().await;
    let server = place.start_with(Command::new(binary()), &data);
    place.ready().await;
    let room = std::fs::metadata(&reserve).unwrap();
    assert!(room.blocks() * 512 >= room.len() && room.len() >= 32 << 20, "only {} blocks", room.blocks());
    fill(&ballast);
    let client = place.client();
    let mut ids = Vec::new();
    let refused = post_until_full(&client, &sink.url("/ok"), &ballast, &mut ids).await;
    assert_eq!(refused.code, "STORE_UNAVAILABLE", "{refused:?}");

    std::fs::remove_file(&reserve).unwrap();
    place.ready().await;
    drained(&client, ids.len()).await;
    let body = json!({"channel": "crm", "to": sink.url("/ok"), "content": {"body": "after"}});
    ids.push(
        client.post("/v1/messages", Payload::json(&body)).await.unwrap()["id"].as_str().unwrap().to_owned(),
    );
    drained(&client, ids.len()).await;
    assert!(server.terminate().await.success());
    assert_eq!(all_sent(&read_store(&data, &ids), &sink, &ids), 0);

    // It is not taken from a disk that needs its room, and is there again once there is some.
    let server = place.start_with(Command::new(binary()), &data);
    place.ready().await;
    assert!(!reserve.exists());
    assert!(server.terminate().await.success());
    std::fs::remove_file(&ballast).unwrap();
    let server = place.start_with(Command::new(binary()), &data);
    place.ready().await;
    assert!(reserve.exists());
    assert!(server.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 8
async fn a_flush_that_fails_ends_the_process_and_nothing_acknowledged_is_lost() {
    let place = Place::new();
    let sink = sink().await;
    let told = Told::default();
    let urls = [sink.url("/ok"), sink.url("/flaky?fail=1")];
    let producers: Vec<_> =
        (0..4).map(|name| tokio::spawn(produce(place.client(), name, urls.clone(), told.clone()))).collect();
    // One flush fails, and whoever tried it again would hear that all is well. The next to fail comes a little
    // later, in case the first was a checkpoint's: then nothing is lost, as the log still has it, and nothing ends.
    let failing = [25, 60, 130];
    for nth in failing {
        let mut strace = Command::new("strace");
        strace.args(["-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync"]);
        strace.args(["-e", &format!("inject=fsync,fdatasync:error=EIO:when={nth}+3")]).arg(binary());
        let server = place.start_with(strace, &place.data());
        let ended = tokio::time::timeout(Duration::from_secs(180), server.ended()).await;
        let ended = ended.unwrap_or_else(|_| panic!("it went on after a failed flush: {}", place.said()));
        assert_eq!(ended.code(), Some(1), "{}", place.said());
    }
    let said = place.said();
    assert_eq!(said.matches("(STORE_FAILED)").count(), failing.len(), "{said}");
    assert!(said.contains("hint: look after the disk, then start again"), "{said}");

    let server = place.start();
    let (ids, repeated) = all_arrive(&place, server, &place.data(), 0, &told, producers, &sink).await;
    assert!(ids.len() > WORKERS, "too little load to prove anything: {}", ids.len());
    println!("result eio flushes={} messages={} lost=0 repeated={repeated}", failing.len(), ids.len());
}
