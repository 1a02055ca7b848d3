//! The real binary, killed at one system call after the other; a page of its file overwritten; its log read by nobody.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use http::Method;
use pombo::client::{Client, ClientError, Payload};
use pombo_channels::sandbox::Sandbox;
use serde_json::{Value, json};

use place::{Place, Server, WORKERS, all_sent, binary, drained, lost, read_store, sink};

/// At which calls of the writer the process is killed. `POMBO_SWEEP_CALLS=200` tries every one up to that.
const SHORT: &[u32] = &[1, 3, 12, 40, 80, 160, 250];
const CALLS: [&str; 2] = ["pwrite64", "fsync,fdatasync"];
/// Messages that one life is given to die at. Each takes several writes.
const MESSAGES_MAX: usize = 300;

fn nths() -> Vec<u32> {
    let asked = std::env::var("POMBO_SWEEP_CALLS").ok().map(|text| text.parse::<u32>().unwrap());
    asked.map_or_else(|| SHORT.to_vec(), |most| (1..=most).collect())
}

/// Hands the nth message in under its own key; its id, once it is acknowledged.
async fn hand_in(client: &Client, sink: &Sandbox, n: usize) -> Result<String, ClientError> {
    let url = sink.url(if n.is_multiple_of(4) { "/flaky?fail=1" } else { "/ok" });
    let body = json!({"channel": "crm", "to": url, "content": {"body": {"n": n}}});
    let payload = Payload { idempotency_key: Some(format!("sweep-{n}")), ..Payload::json(&body) };
    let message = client.post("/v1/messages", payload).await?;
    Ok(message["id"].as_str().unwrap().to_owned())
}

/// Hands messages in until nobody is there any more; whether somebody was there to the end.
async fn hand_in_all(client: &Client, sink: &Sandbox, told: &mut Vec<String>) -> bool {
    for _ in 0..MESSAGES_MAX {
        match hand_in(client, sink, told.len()).await {
            Ok(id) => told.push(id),
            Err(_) => return false,
        }
    }
    true
}

/// Whether it takes requests before it dies.
async fn is_up(client: &Client, server: &mut Server) -> bool {
    for _ in 0..3_000 {
        if client.get("/readyz").await.is_ok() {
            return true;
        }
        if server.is_over() {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it neither served nor died");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 1, 2, 3, 4, 5, 57
async fn a_death_at_any_write_or_flush_loses_nothing_that_was_acknowledged() {
    let place = Place::new();
    let sink = sink().await;
    let (mut told, mut kills, mut unborn) = (Vec::new(), 0, 0);
    for call in CALLS {
        for nth in nths() {
            let mut strace = Command::new("strace");
            // Without --seccomp-bpf, by which some versions miss calls to count.
            strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
            strace.args(["-e", &format!("inject={call}:signal=SIGKILL:when={nth}")]).arg(binary());
            let mut server = place.start_with(strace, &place.data());
            let client = place.client();
            if is_up(&client, &mut server).await {
                let survived = hand_in_all(&client, &sink, &mut told).await;
                assert!(!survived, "{MESSAGES_MAX} messages took fewer than {nth} calls of {call}");
            } else {
                unborn += 1;
            }
            let ended = tokio::time::timeout(Duration::from_secs(20), server.ended()).await.unwrap();
            assert!(!ended.success(), "it was to be killed at {call} {nth}: {ended}");
            kills += 1;
            // A first start that died early has made no store yet, and told nobody of anything.
            if !told.is_empty() {
                assert_eq!(lost(&place.data(), &told), 0, "killed at {call} {nth}");
            }
        }
    }
    let server = place.start();
    place.ready().await;
    let client = place.client();
    // Whatever was handed in last and never acknowledged is handed in once more: it is there once.
    told.push(hand_in(&client, &sink, told.len()).await.unwrap());
    drained(&client, told.len()).await;
    assert!(server.terminate().await.success());
    let repeated = all_sent(&read_store(&place.data(), &told), &sink, &told);
    assert!(kills - unborn >= 4, "{unborn} of {kills} lives took no message: too many to prove anything");
    assert!(repeated <= kills * WORKERS, "{repeated} repeated by {kills} kills");
    println!("result sweep kills={kills} messages={} lost=0 repeated={repeated}", told.len());
}

/// What `pombo store` says, and whether it is content.
fn store(arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(binary());
    command.arg("store").args(arguments).stdin(Stdio::null());
    for name in ["POMBO_DATA", "POMBO_DATABASE_URL", "POMBO_SERVER", "POMBO_CONFIG"] {
        command.env_remove(name);
    }
    let run = command.output().unwrap();
    let said = [run.stdout, run.stderr].concat();
    (run.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// Overwrites a few pages in the middle of the file, where messages are by now; how many.
fn spoil(file: &Path) -> u64 {
    const PAGE_BYTES: u64 = 4_096;
    let pages = std::fs::metadata(file).unwrap().len() / PAGE_BYTES;
    let opened = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    let spoilt = (pages / 2)..(pages / 2 + 4).min(pages);
    for page in spoilt.clone() {
        opened.write_all_at(&[0xa5; 4_096], page * PAGE_BYTES).unwrap();
    }
    opened.sync_all().unwrap();
    spoilt.count() as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 10, 13
async fn a_page_that_was_overwritten_is_told_and_a_backup_takes_its_place() {
    let place = Place::new();
    let sink = sink().await;
    let server = place.start();
    place.ready().await;
    let client = place.client();
    let mut ids = Vec::new();
    assert!(hand_in_all(&client, &sink, &mut ids).await);
    drained(&client, ids.len()).await;
    assert!(server.terminate().await.success());
    let (data, backup) = (place.data(), place.folder.path().join("backup"));
    let (data_at, backup_at) = (data.to_str().unwrap(), backup.to_str().unwrap());
    assert!(store(&["backup", "--data", data_at, "--to", backup_at]).0);

    // All of it into the file itself, as happens in the long run.
    let file = data.join("pombo.db");
    let moved = rusqlite::Connection::open(&file).unwrap();
    moved.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())).unwrap();
    drop(moved);
    assert!(store(&["check", "--data", data_at]).0, "sound before");
    let spoilt = spoil(&file);
    assert_eq!(spoilt, 4);
    let (content, said) = store(&["check", "--data", data_at, "--json"]);
    assert!(!content, "a store with {spoilt} pages of noise passed: {said}");
    assert!(said.contains("fault") || said.contains("code"), "{said}");

    // The backup is whole, waits for a person, and goes on.
    assert!(store(&["check", "--data", backup_at]).0);
    assert_eq!(lost(&backup, &ids), 0);
    let server = place.start_with(Command::new(binary()), &backup);
    place.ready().await;
    let client = place.client();
    client.post("/v1/store/resume", Payload::json(&json!({}))).await.unwrap();
    let body = json!({"channel": "crm", "to": sink.url("/ok"), "content": {"body": "after"}});
    client.post("/v1/messages", Payload::json(&body)).await.unwrap();
    drained(&client, ids.len() + 1).await;
    assert!(server.terminate().await.success());
    println!("result page spoilt={spoilt} messages={} found=1", ids.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 10
async fn a_log_that_was_overwritten_in_its_middle_is_told_and_what_is_left_can_be_salvaged() {
    const MESSAGES: usize = 60;
    let place = Place::new();
    let sink = sink().await;
    let server = place.start();
    place.ready().await;
    let client = place.client();
    let mut ids = Vec::new();
    for n in 0..MESSAGES {
        ids.push(hand_in(&client, &sink, n).await.unwrap());
    }
    server.kill();

    // Noise in the middle of the log, as a disk may leave it.
    let data = place.data();
    let data_at = data.to_str().unwrap();
    let log = data.join("pombo.db-wal");
    let written = std::fs::read(&log).unwrap().iter().rposition(|byte| *byte != 0).unwrap();
    let middle = u64::try_from(written / 2).unwrap();
    let opened = std::fs::OpenOptions::new().write(true).open(&log).unwrap();
    opened.write_all_at(&[0xa5; 512], middle).unwrap();
    opened.sync_all().unwrap();
    let damaged = std::fs::read(&log).unwrap();

    // With the index of the log, and without it, as after a power cut.
    for _ in 0..2 {
        let ended = tokio::time::timeout(Duration::from_secs(20), place.start().ended()).await;
        assert!(!ended.expect("it serves a damaged store").success());
        let said = place.said();
        let told = ["(STORE_DAMAGED)", "pombo.db-wal", "the last backup", "pombo store salvage"];
        assert!(told.iter().all(|words| said.contains(words)), "{said}");
        let (content, said) = store(&["check", "--data", data_at]);
        assert!(!content && said.contains("STORE_DAMAGED"), "{said}");
        let refused = store(&["backup", "--data", data_at, "--to", "/nowhere"]);
        assert!(!refused.0 && refused.1.contains("STORE_DAMAGED"), "{}", refused.1);
        let _ = std::fs::remove_file(data.join("pombo.db-shm"));
    }
    assert!(std::fs::read(&log).unwrap() == damaged, "nothing was changed");

    // Whoever goes on without it says so, loses what stood behind it, and sends nothing by accident.
    let (done, said) = store(&["salvage", "--data", data_at]);
    assert!(done && said.contains("are lost"), "{said}");
    assert!(std::fs::read(data.join("pombo.db-wal.damaged-1")).unwrap() == damaged);
    let (content, said) = store(&["check", "--data", data_at]);
    assert!(content && said.contains("paused"), "{said}");
    let lost = lost(&data, &ids);
    assert!(lost > 0 && lost < MESSAGES, "{lost} of {MESSAGES}: too few or too many to show anything");
    let server = place.start();
    place.ready().await;
    let client = place.client();
    client.post("/v1/store/resume", Payload::json(&json!({}))).await.unwrap();
    hand_in(&client, &sink, MESSAGES).await.unwrap();
    drained(&client, MESSAGES + 1 - lost).await;
    assert!(server.terminate().await.success());
    println!("result log messages={MESSAGES} told=1 given_up={lost}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 60
async fn a_log_that_nobody_reads_costs_lines_and_holds_up_nothing() {
    let place = Place::new();
    let sink = sink().await;
    let (server, unread) = place.start_unheard();
    place.ready().await;
    let client = place.client();
    // More than may wait for a reader.
    let lines: Vec<Value> = (0..12_000)
        .map(|n| json!({"channel": "crm", "to": sink.url("/ok"), "content": {"body": {"n": n}}}))
        .collect();
    let mut ids = Vec::new();
    for part in lines.chunks(500) {
        let taken = client.post("/v1/messages/batch", Payload::json(&json!(part))).await.unwrap();
        ids.extend(taken["items"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()));
    }
    drained(&client, ids.len()).await;
    let metrics = client.call(Method::GET, "/metrics", Payload::default()).await.unwrap();
    let metrics = String::from_utf8_lossy(&metrics).into_owned();
    let dropped = metrics.lines().find_map(|line| line.strip_prefix("pombo_log_lines_dropped_total "));
    let dropped: f64 = dropped.unwrap().parse().unwrap();
    assert!(dropped > 0.0, "too few lines to fill the pipe");
    drop(unread);
    assert!(server.terminate().await.success());
    let repeated = all_sent(&read_store(&place.data(), &ids), &sink, &ids);
    println!("result pipe messages={} lost=0 repeated={repeated} lines_dropped={dropped}", ids.len());
}
