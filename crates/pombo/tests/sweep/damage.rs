//! Files that are not what was written to them, and a log of lines that nobody reads or no disk takes.

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use http::Method;
use pombo::client::{Client, ClientError, Payload};
use serde_json::{Value, json};

use crate::place::{Place, all_sent, binary, drained, lost, read_store, sink};
use crate::{copied, hand_in, hand_in_all, is_up, store};

/// Overwrites a few pages of the file, so many eighths from its beginning; how many.
fn spoil(file: &Path, eighths: u64) -> u64 {
    const PAGE_BYTES: u64 = 4_096;
    let pages = std::fs::metadata(file).unwrap().len() / PAGE_BYTES;
    let opened = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    let first = pages * eighths / 8;
    let spoilt = first..(first + 4).min(pages);
    for page in spoilt.clone() {
        opened.write_all_at(&[0xa5; 4_096], page * PAGE_BYTES).unwrap();
    }
    opened.sync_all().unwrap();
    spoilt.count() as u64
}

/// Whether a check names the damage: as a fault that it found, or as why it cannot even look.
fn tells_of_damage(said: &str) -> bool {
    let said: Value = serde_json::from_str(said).unwrap();
    let found = said["faults"][0]["what"].as_str().is_some_and(|it| it.starts_with("the file is damaged: "));
    found || (said["code"] == "STORE_UNAVAILABLE" && said["detail"] == "database disk image is malformed")
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
    // In the middle, where messages are by now.
    let spoilt = spoil(&file, 4);
    assert_eq!(spoilt, 4);
    let (content, said) = store(&["check", "--data", data_at, "--json"]);
    assert!(!content, "a store with {spoilt} pages of noise passed: {said}");
    assert!(tells_of_damage(&said), "{said}");

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
async fn a_server_on_a_file_with_spoilt_pages_says_so_and_leaves_out_no_message_in_silence() {
    let place = Place::new();
    let sink = sink().await;
    let server = place.start();
    place.ready().await;
    let client = place.client();
    let held = json!({"reason": "they are to wait"});
    client.post("/v1/channels/crm/hold", Payload::json(&held)).await.unwrap();
    let mut ids = Vec::new();
    assert!(hand_in_all(&client, &sink, &mut ids).await);
    assert!(server.terminate().await.success());
    let moved = rusqlite::Connection::open(place.data().join("pombo.db")).unwrap();
    moved.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())).unwrap();
    drop(moved);
    assert_eq!(sink.stats().total, 0, "all of them wait");

    let (mut refused, mut whole) = (0, 0);
    for eighths in 1..8 {
        let data = place.folder.path().join(format!("spoilt-{eighths}"));
        copied(&place.data(), &data);
        spoil(&data.join("pombo.db"), eighths);
        let (content, said) = store(&["check", "--data", data.to_str().unwrap(), "--json"]);
        assert!(!content && tells_of_damage(&said), "{eighths}: {said}");

        // All lives have the same sink, so what counts is what this one adds.
        let seen = || ids.iter().map(|id| sink.count(id).accepted).collect::<Vec<_>>();
        let (before, heard) = (seen(), place.said().len());
        let mut server = place.start_with(Command::new(binary()), &data);
        if is_up(&client, &mut server).await {
            // It may die at any moment from now on: what it says then is looked at below.
            let _ = client.post("/v1/channels/crm/release", Payload::default()).await;
        }
        // For as long as something goes on.
        let (mut last, mut looks) = ((None, 0), 0);
        for _ in 0..6_000 {
            if looks == 500 || server.is_over() {
                break;
            }
            let waiting = client.get("/v1/stats").await.ok().and_then(|it| it["total"]["waiting"].as_u64());
            if waiting == Some(0) {
                break;
            }
            let stands = (waiting, sink.stats().total);
            looks = if stands == last { looks + 1 } else { 0 };
            last = stands;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let after = seen();
        let unsent: Vec<&String> =
            (0..ids.len()).filter(|n| after[*n] == before[*n]).map(|n| &ids[n]).collect();
        if server.is_over() {
            assert!(!server.ended().await.success(), "{eighths}: it ended as if all were well");
            let said = &place.said()[heard..];
            assert!(said.contains("(STORE_") && said.contains("malformed"), "{eighths}: {said}");
            refused += 1;
        } else {
            // What it met of the damage it tells; what it still serves is there or refused by that name.
            for id in &unsent {
                match client.get(&format!("/v1/messages/{id}")).await {
                    Ok(message) => panic!("{eighths}: it waits, and nobody is told why: {message}"),
                    Err(ClientError::Refused(refusal)) if refusal.code.starts_with("STORE_") => {}
                    Err(error) => panic!("{eighths}: {id} was acknowledged and is left out: {error}"),
                }
            }
            whole += usize::from(unsent.is_empty());
            server.kill();
        }
    }
    assert!(refused > 0, "no damage was where it is read: nothing was shown");
    println!("result serve_spoilt messages={} refused={refused} all_sent={whole}", ids.len());
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
    let dropped = lines_dropped(&client).await;
    assert!(dropped > 0.0, "too few lines to fill the pipe");
    drop(unread);
    assert!(server.terminate().await.success());
    let repeated = all_sent(&read_store(&place.data(), &ids), &sink, &ids);
    println!("result pipe messages={} lost=0 repeated={repeated} lines_dropped={dropped}", ids.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 60
async fn a_log_whose_disk_is_full_costs_lines_that_are_counted_and_holds_up_nothing() {
    const MESSAGES: usize = 50;
    let place = Place::new();
    let sink = sink().await;
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let server = place.start_talking_to(full.into());
    place.ready().await;
    let client = place.client();
    let mut ids = Vec::new();
    for n in 0..MESSAGES {
        ids.push(hand_in(&client, &sink, n).await.unwrap());
    }
    drained(&client, MESSAGES).await;
    let dropped = lines_dropped(&client).await;
    assert!(dropped > 0.0, "no line could be written, and none is missed");
    assert!(server.terminate().await.success());
    let repeated = all_sent(&read_store(&place.data(), &ids), &sink, &ids);
    println!("result log_full messages={MESSAGES} lost=0 repeated={repeated} lines_dropped={dropped}");
}

async fn lines_dropped(client: &Client) -> f64 {
    let metrics = client.call(Method::GET, "/metrics", Payload::default()).await.unwrap();
    let metrics = String::from_utf8_lossy(&metrics).into_owned();
    let dropped = metrics.lines().find_map(|line| line.strip_prefix("pombo_log_lines_dropped_total "));
    dropped.unwrap().parse().unwrap()
}
