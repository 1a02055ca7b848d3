//! What leaves a store by itself and by hand, and what stays, with the binary as it is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use pombo::client::{Client, ClientError, Payload};
use pombo::clock::SystemClock;
use pombo_kernel::dice::Dice;
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Actor, Body, Draft, Priority, QueueName};
use pombo_kernel::name::{LaneName, Tenant};
use pombo_kernel::time::{Clock, Span, Time};
use pombo_store::Cancelled;
use pombo_store::core::Core;
use pombo_store::postgres::{Postgres, Sealing, Target};
use pombo_store::sqlite::Sqlite;
use pombo_testbed::{Cluster, Database};
use serde_json::{Value, json};

use place::{KEY, Place, Server, binary, sink};

/// Where a store is.
enum Ground {
    Folder(PathBuf),
    Database(Database),
}

impl Ground {
    /// As `pombo store` names it.
    fn named(&self) -> [String; 2] {
        match self {
            Ground::Folder(folder) => ["--data".to_owned(), folder.to_str().unwrap().to_owned()],
            Ground::Database(database) => ["--database-url".to_owned(), database.url().to_owned()],
        }
    }

    fn start(&self, place: &Place) -> Server {
        match self {
            Ground::Folder(folder) => place.start_with(Command::new(binary()), folder),
            Ground::Database(database) => place.start_on(database.url()),
        }
    }

    /// Has that done to the store before any server.
    fn with(&self, work: impl FnOnce(&mut dyn FnMut(Draft, Time) -> MessageId) + Send) {
        fn acting<C: Core>(core: &mut C) -> impl FnMut(Draft, Time) -> MessageId {
            move |draft, at| {
                let waits = draft.send_at.is_some();
                let id = core.accept(draft, at).unwrap().unwrap().id;
                let by = Actor("ana".into());
                if !waits {
                    assert_eq!(core.cancel(&Tenant::default(), id, &by, at).unwrap(), Cancelled::Done);
                }
                core.commit(at, &[7; 32]).unwrap();
                id
            }
        }
        match self {
            Ground::Folder(folder) => {
                let mut core = Sqlite::open(folder, Dice::seeded(1), &[7; 32]).unwrap();
                work(&mut acting(&mut core));
            }
            Ground::Database(database) => {
                let target = Target::parse(database.url()).unwrap();
                std::thread::scope(|threads| {
                    threads.spawn(|| {
                        let sealing = Sealing::AtCommit;
                        let mut core = Postgres::open(&target, Dice::seeded(1), &[7; 32], sealing).unwrap();
                        work(&mut acting(&mut core));
                    });
                });
            }
        }
    }
}

fn draft(send_at: Option<Time>) -> Draft {
    Draft {
        id: None,
        queue: QueueName {
            tenant: Tenant::default(),
            lane: LaneName::default(),
            channel: "crm".parse().unwrap(),
            destination: "crm.example".into(),
            campaign: None,
        },
        priority: Priority::default(),
        send_at,
        expires_at: None,
        ordering_key: None,
        idempotency: None,
        blobs: Vec::new(),
        body: Body { to: "https://crm.example/".into(), ..Body::default() },
    }
}

async fn is_there(client: &Client, id: MessageId) -> bool {
    match client.get(&format!("/v1/messages/{id}")).await {
        Ok(_) => true,
        Err(ClientError::Refused(refused)) if refused.status == 404 => false,
        Err(error) => panic!("{error:?}"),
    }
}

/// What a command on the store answers.
fn store(place: &Place, ground: &Ground, arguments: &[&str]) -> Value {
    let mut command = Command::new(binary());
    command.arg("store").args(arguments).args(ground.named()).arg("--json");
    command.arg("--config").arg(place.folder.path().join("pombo.toml"));
    command.env("POMBO_API_KEY", KEY).env("POMBO_SERVER", place.url());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// REQ AU-2: of messages that ended long ago and just now, and of one that waits, the first go.
async fn messages_leave_by_their_retention(ground: Ground) {
    let place = Place::new();
    let config = place.folder.path().join("pombo.toml");
    let said = std::fs::read_to_string(&config).unwrap();
    let kept = "[channels.crm.retention]\ncancelled = \"1h\"\nsent = { last = 2 }\n[channels.void]\nkind = \"null\"\n";
    std::fs::write(&config, format!("{said}{kept}")).unwrap();
    let now = SystemClock::new().now();
    let mut ids = Vec::new();
    ground.with(|act| {
        let old = now - Span::from_hours(2);
        ids.extend((0..300).map(|_| act(draft(None), old)));
        ids.push(act(draft(Some(now + Span::from_hours(48))), old));
        ids.push(act(draft(None), now - Span::from_mins(30)));
    });
    let [.., last_old, waits, fresh] = ids[..] else { panic!("{ids:?}") };
    let told = store(&place, &ground, &["prune", "--dry-run"]);
    assert_eq!(told, json!({"dry_run": true, "removed": 300, "counts": {"crm.cancelled": 300}}));

    let sink = sink().await;
    let server = ground.start(&place);
    place.ready().await;
    let client = place.client();
    for _ in 0..600 {
        if !is_there(&client, last_old).await && !is_there(&client, ids[0]).await {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut there = Vec::new();
    for id in &ids {
        there.push(is_there(&client, *id).await);
    }
    assert_eq!(there.iter().filter(|there| **there).count(), 2, "{}", place.said());
    assert!(is_there(&client, waits).await && is_there(&client, fresh).await);

    let body = json!({"channel": "crm", "to": sink.url("/ok"), "content": {"body": 1}});
    for _ in 0..5 {
        client.post("/v1/messages", Payload::json(&body)).await.unwrap();
    }
    let mut sent = 0;
    for _ in 0..600 {
        sent = client.get("/v1/stats").await.unwrap()["total"]["sent"].as_u64().unwrap();
        if sent == 5 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(sent, 5);
    let told = tokio::task::block_in_place(|| store(&place, &ground, &["prune", "--state", "sent"]));
    let nothing = json!({"dry_run": false, "removed": 0, "counts": {}});
    assert_eq!(told, nothing, "what has only just ended stays, though only two are kept");
    let sent = client.get("/v1/messages?state=sent").await.unwrap();
    assert_eq!(sent["items"].as_array().unwrap().len(), 5);
    // A server knows of what is in the chain as soon as it tells of it.
    let mut told = client.events("/v1/events?types=store.pruned", Some(0)).await.unwrap();
    let told = tokio::time::timeout(Duration::from_secs(30), told.next()).await;
    told.expect("it is told of what was pruned").unwrap().unwrap();
    let audit = client.get("/v1/audit?event=pruned").await.unwrap();
    assert!(!audit["items"].as_array().unwrap().is_empty(), "{audit}");

    assert!(server.terminate().await.success());
    let found = store(&place, &ground, &["check"]);
    assert_eq!(found["faults"], json!([]));
    let server = ground.start(&place);
    place.ready().await;
    assert!(is_there(&client, waits).await && !is_there(&client, last_old).await);
    assert!(server.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ AU-2
async fn messages_leave_a_folder_by_their_retention_and_the_rest_stays() {
    let folder = tempfile::tempdir().unwrap();
    messages_leave_by_their_retention(Ground::Folder(folder.path().join("data"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ AU-2
async fn messages_leave_a_database_by_their_retention_and_the_rest_stays() {
    messages_leave_by_their_retention(Ground::Database(Cluster::shared().database())).await;
}
