//! The real binary, killed and stopped under load.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::process::{Command, Stdio};
use std::time::Duration;

use pombo::client::Payload;
use pombo::clock::SystemClock;
use pombo_channels::sandbox::{Sandbox, Stats};
use pombo_kernel::dice::Dice;
use pombo_kernel::message::StateName;
use pombo_kernel::time::{Clock as _, Span};
use serde_json::json;

use place::{KEY, Place, Told, WORKERS, all_arrive, binary, drained, produce, read_store, sink};

/// Enough for every run; `POMBO_KILLS` asks for more.
const KILLS: usize = 32;
const PATIENCE: Span = Span::from_secs(60);
/// The first message arrives this soon after a start.
const FIRST: Span = Span::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ ML-1, ML-3, ML-4, ML-5, RELIABILITY 1 to 5
async fn nothing_is_lost_and_little_is_repeated_when_the_process_is_killed_thirty_times() {
    let kills = std::env::var("POMBO_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let place = Place::new();
    let sink = sink().await;
    let told = Told::default();
    let urls = [sink.url("/slow?ms=3"), sink.url("/flaky?fail=1")];
    let producers: Vec<_> =
        (0..4).map(|n| tokio::spawn(produce(place.client(), n, urls.clone(), told.clone()))).collect();
    let mut dice = Dice::seeded(2_026);
    let (clock, mut firsts) = (SystemClock::new(), Vec::new());
    let mut server = place.start();
    for _ in 0..kills {
        place.ready().await;
        told.at_least(told.count() + 16).await;
        tokio::time::sleep(Duration::from_millis(dice.below(250))).await;
        server.kill();
        let (before, started) = (sink.stats(), clock.now());
        server = place.start();
        while !has_sent(&sink, before) {
            assert!(clock.now().since(started) < PATIENCE, "nothing was sent within {PATIENCE} of a start");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        firsts.push(clock.now().since(started));
    }
    let (ids, repeated) = all_arrive(&place, server, &place.data(), &told, producers, &sink).await;
    assert!(ids.len() >= 500, "too little load to prove anything: {}", ids.len());
    assert!(repeated <= kills * WORKERS, "{repeated} repeated by {kills} kills");
    firsts.sort_unstable();
    let (median, last) = (firsts[firsts.len() / 2], *firsts.last().unwrap());
    println!(
        "result kill kills={kills} messages={} lost=0 repeated={repeated} first_ms_median={} first_ms_max={}",
        ids.len(),
        median.millis(),
        last.millis()
    );
    // The time is a promise of the release binary. Other tests run beside the short form and may take one start its
    // turn, but not half of them; the long form runs alone, and there every start is held to it.
    if std::env::var_os("POMBO_BIN").is_some() {
        assert!(median <= FIRST, "half of the starts took more than {FIRST} to their first message");
        let alone = std::env::var_os("POMBO_KILLS").is_some();
        assert!(!alone || last <= FIRST, "after a start the first message took {last}");
    }
}

/// Whether a process that was started since then has sent something.
///
/// What the one before it had sent may be counted late, but comes over a connection that was there.
fn has_sent(sink: &Sandbox, before: Stats) -> bool {
    let now = sink.stats();
    now.connections > before.connections && now.total > before.total
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 52
async fn a_polite_stop_finishes_what_is_under_way_and_repeats_nothing() {
    let place = Place::new();
    let sink = sink().await;
    let server = place.start();
    place.ready().await;
    let client = place.client();
    // Several times as many as there are slots, so that most of them wait when the first have been answered.
    let message = json!({"channel": "crm", "to": sink.url("/slow?ms=500"), "content": {"body": "oi"}});
    let taken = client.post("/v1/messages/batch", Payload::json(&json!(vec![message; 60]))).await.unwrap();
    let ids = taken["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned());
    let told: Vec<String> = ids.collect();
    assert!(server.terminate().await.success());
    let record = read_store(&place.data(), &told);
    assert!(record.takeovers.is_empty());
    for id in &told {
        let sent = record.states[id] == StateName::Sent;
        assert!(sent || record.states[id] == StateName::Pending, "{id} is {}", record.states[id]);
        assert_eq!(sink.count(id).accepted, u32::from(sent), "{id}");
    }
    assert!(
        record.states.values().any(|state| *state == StateName::Pending),
        "it stopped too late to show anything"
    );
    let server = place.start();
    place.ready().await;
    drained(&place.client(), told.len()).await;
    assert!(server.terminate().await.success());
    assert_eq!(sink.stats().duplicates, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 11
async fn a_second_process_on_the_same_folder_is_refused_and_the_first_goes_on() {
    let place = Place::new();
    let server = place.start();
    place.ready().await;
    let second = Command::new(binary())
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(place.data())
        .env("POMBO_ADMIN_KEY", KEY)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    let words = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(words.contains("another Pombo process is using"), "{words}");
    place.ready().await;
    assert!(server.terminate().await.success());
}
