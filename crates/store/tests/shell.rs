//! The thread around a core: groups, waiting claims, too much work, and a store that fails for a while.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use pombo_kernel::dice::Dice;
use pombo_kernel::message::{Body, Draft, Json, Priority, QueueName};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::{Clock, Time};
use pombo_store::shell::Shell;
use pombo_store::sqlite::Sqlite;
use pombo_store::{Ask, NodeId, Store, StoreError};

#[derive(Debug)]
struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Time {
        Time::from_millis(self.0.load(Ordering::SeqCst))
    }
}

fn draft(lane: &str, send_at: Option<i64>, bytes: usize) -> Draft {
    Draft {
        queue: QueueName {
            tenant: Tenant::default(),
            lane: lane.parse().unwrap(),
            channel: "crm".parse().unwrap(),
            destination: "host".into(),
            campaign: None,
        },
        priority: Priority::default(),
        send_at: send_at.map(Time::from_millis),
        expires_at: None,
        ordering_key: None,
        idempotency: None,
        body: Body {
            to: "http://host/".into(),
            content: Some(Json::from_text(format!("\"{}\"", "x".repeat(bytes))).unwrap()),
            ..Body::default()
        },
    }
}

const START: i64 = 1_800_000_000_000;

fn open(folder: &std::path::Path) -> (Arc<dyn Store>, Arc<TestClock>) {
    let clock = Arc::new(TestClock(AtomicI64::new(START)));
    let core = Sqlite::open(folder, Dice::seeded(7), &[7; 32]).unwrap();
    let store = Shell::start(core, clock.clone(), Box::new(|| [7; 32])).unwrap();
    (Arc::new(store), clock)
}

fn ask(lane: &str, max: usize) -> Ask {
    Ask { node: NodeId(1), lane: lane.parse().unwrap(), max }
}

#[tokio::test] // REQ ML-2
async fn a_waiting_claim_is_served_by_the_commit_that_brings_it_something() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let (claimed, accepted) =
        tokio::join!(store.claim(ask("default", 5)), store.accept(vec![draft("default", None, 1)]));
    let id = accepted.unwrap()[0].as_ref().unwrap().id;
    assert_eq!(claimed.unwrap().iter().map(|claimed| claimed.message.id).collect::<Vec<_>>(), [id]);
}

#[tokio::test] // REQ ML-6
async fn a_waiting_claim_is_served_when_the_time_has_come() {
    let folder = tempfile::tempdir().unwrap();
    let (store, clock) = open(folder.path());
    store.accept(vec![draft("default", Some(START + 60_000), 1)]).await.unwrap();
    let waiting = {
        let store = store.clone();
        tokio::spawn(async move { store.claim(ask("default", 5)).await })
    };
    clock.0.store(START + 60_000, Ordering::SeqCst);
    let claimed = tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(claimed.len(), 1);
}

#[tokio::test]
async fn stopping_a_nodes_claims_answers_them_with_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let waiting = {
        let store = store.clone();
        tokio::spawn(async move { store.claim(ask("default", 5)).await })
    };
    while !waiting.is_finished() {
        store.stop_claims(NodeId(1)).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(waiting.await.unwrap().unwrap(), []);
}

#[tokio::test] // RELIABILITY: overload
async fn producers_are_turned_away_before_memory_grows() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let turned_away = Arc::new(AtomicBool::new(false));
    let mut producers = Vec::new();
    for _ in 0..400 {
        let (store, turned_away) = (store.clone(), turned_away.clone());
        producers.push(tokio::spawn(async move {
            match store.accept(vec![draft("default", None, 256 * 1024)]).await {
                Ok(accepted) => accepted.len(),
                Err(error) => {
                    assert_eq!(error, StoreError::Overloaded);
                    turned_away.store(true, Ordering::SeqCst);
                    0
                }
            }
        }));
    }
    let mut accepted = 0;
    for producer in producers {
        accepted += producer.await.unwrap();
    }
    assert!(turned_away.load(Ordering::SeqCst), "100 MB at once were all taken");
    let counted: u64 = store.tallies().await.unwrap().iter().map(|tally| tally.count).sum();
    assert_eq!(counted, accepted as u64, "what was refused left no trace");
    store.accept(vec![draft("default", None, 1)]).await.expect("room again");
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    store.accept(vec![draft("default", None, 1)]).await.unwrap();
    store.close().await.unwrap();
    assert_eq!(store.accept(vec![draft("default", None, 1)]).await, Err(StoreError::Closed));
    let (again, _) = open(folder.path());
    assert_eq!(again.tallies().await.unwrap()[0].count, 1);
}

#[test] // RELIABILITY: second process
fn a_second_opening_of_the_same_folder_is_refused_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let first = Sqlite::open(folder.path(), Dice::seeded(1), &[7; 32]).unwrap();
    let Err(StoreError::Unavailable(why)) = Sqlite::open(folder.path(), Dice::seeded(2), &[7; 32]) else {
        panic!("two writers on one file")
    };
    assert!(why.contains("another Pombo process"), "{why}");
    drop(first);
    Sqlite::open(folder.path(), Dice::seeded(3), &[7; 32]).unwrap();
}

#[test] // RELIABILITY: an older binary refuses a newer schema
fn a_newer_schema_and_a_strangers_file_are_refused_unharmed() {
    let folder = tempfile::tempdir().unwrap();
    drop(Sqlite::open(folder.path(), Dice::seeded(1), &[7; 32]).unwrap());
    let file = folder.path().join("pombo.db");
    let db = rusqlite::Connection::open(&file).unwrap();
    db.pragma_update(None, "user_version", 999).unwrap();
    drop(db);
    let Err(StoreError::Unavailable(why)) = Sqlite::open(folder.path(), Dice::seeded(1), &[7; 32]) else {
        panic!()
    };
    assert!(why.contains("schema 999"), "{why}");

    let other = tempfile::tempdir().unwrap();
    let db = rusqlite::Connection::open(other.path().join("pombo.db")).unwrap();
    db.execute_batch("CREATE TABLE recipe (name TEXT)").unwrap();
    drop(db);
    let Err(StoreError::Unavailable(why)) = Sqlite::open(other.path(), Dice::seeded(1), &[7; 32]) else {
        panic!()
    };
    assert!(why.contains("some other program"), "{why}");
}

#[tokio::test] // RELIABILITY: disk full
async fn a_store_that_cannot_be_written_refuses_then_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let (store, clock) = open(folder.path());
    let before = store.accept(vec![draft("default", None, 1)]).await.unwrap();
    assert!(store.health().is_ok());
    // Another writer holds the file for longer than the store is willing to wait.
    let thief = rusqlite::Connection::open(folder.path().join("pombo.db")).unwrap();
    thief.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = store.accept(vec![draft("default", None, 1)]).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    assert!(store.health().is_err());
    thief.execute_batch("ROLLBACK").unwrap();
    let mut back = false;
    for _ in 0..100 {
        clock.0.fetch_add(5_000, Ordering::SeqCst);
        back = store.accept(vec![draft("default", None, 1)]).await.is_ok();
        if back {
            break;
        }
    }
    assert!(back && store.health().is_ok(), "it never came back");
    let first = before[0].as_ref().unwrap().id;
    assert!(store.story(Tenant::default(), first).await.unwrap().is_some());
    assert_eq!(store.verify().await.unwrap().broken, None);
}
