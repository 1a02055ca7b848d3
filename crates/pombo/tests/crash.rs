//! The real binary, killed and stopped under load.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::process::{Command, Stdio};
use std::time::Duration;

use pombo::client::Payload;
use pombo_kernel::dice::Dice;
use pombo_kernel::message::StateName;
use pombo_kernel::time::{Span, Time};
use serde_json::json;

use place::witness::{Arrivals, Witness};
use place::{KEY, Place, Told, all_arrive, binary, drained, lost, produce, read_store, sink};

/// Enough for every run; `POMBO_KILLS` asks for more.
const KILLS: usize = 32;
const PATIENCE: Span = Span::from_secs(60);
/// The first message arrives this soon after a start.
const FIRST: Span = Span::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ ML-1, ML-3, ML-4, ML-5, RELIABILITY 1 to 5
async fn nothing_is_lost_and_little_is_repeated_when_the_process_is_killed_thirty_times() {
    let kills = std::env::var("POMBO_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let place = Place::new();
    let mut witness = Witness::start().await;
    let told = Told::default();
    let urls = [witness.sink.url("/slow?ms=3"), witness.sink.url("/flaky?fail=1")];
    let producers: Vec<_> =
        (0..4).map(|n| tokio::spawn(produce(place.client(), n, urls.clone(), told.clone()))).collect();
    let mut dice = Dice::seeded(2_026);
    let (mut firsts, mut early) = (Vec::new(), Vec::new());
    for life in 0..kills {
        let (before, started) = (witness.sink.stats().total, witness.now());
        let server = place.start();
        early.push(life > 0 && dice.below(4) == 0);
        if early[life] {
            // While it takes over what the one before it had under way.
            tokio::time::sleep(Duration::from_millis(dice.below(31))).await;
        } else {
            if life > 0 {
                firsts.push(first_after(&witness, before, started).await);
            }
            place.ready().await;
            told.at_least(told.count() + 16).await;
            tokio::time::sleep(Duration::from_millis(dice.below(250))).await;
        }
        witness.death(|| server.kill()).await;
    }
    let (before, started) = (witness.sink.stats().total, witness.now());
    let server = place.start();
    firsts.push(first_after(&witness, before, started).await);
    let unready = early.split(|it| !it).map(<[bool]>::len).max().unwrap_or(0);
    let early = early.into_iter().filter(|it| *it).count();
    let (ids, repeated) =
        all_arrive(&place, server, &place.data(), unready, &told, producers, &witness.sink).await;
    let repeats = witness.repeats();
    let amid = repeats.again.iter().filter(|again| **again > 0).count();
    assert!(2 * amid >= kills - early, "only {amid} of {kills} kills came in the middle of a send");
    assert_eq!(repeats.again.iter().sum::<usize>(), repeated);
    firsts.sort_unstable();
    let (median, last) = (firsts[firsts.len() / 2], *firsts.last().unwrap());
    println!(
        "result kill kills={kills} early={early} messages={} lost=0 repeated={repeated} {repeats} first_ms_median={} \
         first_ms_max={}",
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

/// How long it takes from a start until something comes.
async fn first_after(witness: &Witness, before: u64, started: Time) -> Span {
    while witness.sink.stats().total == before {
        assert!(witness.now().since(started) < PATIENCE, "nothing was sent within {PATIENCE} of a start");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    witness.now().since(started)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ ML-1, the control
async fn the_same_kills_are_seen_to_lose_messages_where_callers_are_told_before_the_commit() {
    const TRIES: usize = 8;
    if !cfg!(debug_assertions) {
        panic!("only a debug build can be told to speak too early: run this test without --release");
    }
    let mut handed_in = 0;
    for kills in 1..=TRIES {
        let (place, sink, told) = (Place::new(), sink().await, Told::default());
        let urls = [sink.url("/slow?ms=3"), sink.url("/flaky?fail=1")];
        let mut command = Command::new(env!("CARGO_BIN_EXE_pombo"));
        command.env("POMBO_TEST_TOLD_MS_BEFORE_COMMIT", "20");
        let server = place.start_with(command, &place.data());
        let producers: Vec<_> =
            (0..4).map(|n| tokio::spawn(produce(place.client(), n, urls.clone(), told.clone()))).collect();
        told.at_least(40).await;
        server.kill();
        told.give_up();
        let mut ids = Vec::new();
        for producer in producers {
            ids.extend(producer.await.unwrap());
        }
        handed_in += ids.len();
        let lost = lost(&place.data(), &ids);
        if lost > 0 {
            println!("result kill_control kills={kills} lost={lost} handed_in={handed_in}");
            return;
        }
    }
    panic!("{TRIES} kills lost nothing of {handed_in}, though callers were told before the commit");
}

#[test]
fn what_comes_once_more_is_laid_to_the_deaths_in_between() {
    let arrivals = Arrivals::read("one 1 10\ntwo 1 30\none 2 40\none 3 50\n");
    let mut again = arrivals.again(&[20, 45, 48].map(Time::from_millis), Span::default());
    again.sort_by_key(|again| again.at);
    let over: Vec<_> = again.into_iter().map(|again| again.over).collect();
    assert_eq!(over, [0..1, 1..3]);
}

#[test]
#[should_panic(expected = "no fault in between")]
fn what_comes_twice_in_one_life_is_noticed() {
    Arrivals::read("one 1 30\none 2 40\n").again(&[20, 50].map(Time::from_millis), Span::default());
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
