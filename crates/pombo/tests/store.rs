//! `pombo store` as an operator types it: beside a server under load, and after somebody pulled the plug.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use pombo::client::Payload;
use pombo_kernel::dice::Dice;
use pombo_kernel::message::{Body, Draft, Priority, QueueName};
use pombo_kernel::name::{LaneName, Tenant};
use pombo_kernel::time::Time;
use pombo_store::core::Core;
use pombo_store::sqlite::Sqlite;
use pombo_testbed::{Cluster, Database};
use serde_json::{Value, json};

use place::{KEY, Place, Server, Told, binary, drained, lost, produce, sink};

fn store(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.arg("store").args(arguments).env("POMBO_API_KEY", KEY).stdin(Stdio::null());
    for name in ["POMBO_DATA", "POMBO_DATABASE_URL", "POMBO_SERVER", "POMBO_CONFIG"] {
        command.env_remove(name);
    }
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(arguments: &[&str]) -> Output {
    store(arguments).output().unwrap()
}

/// What it says on standard output, as it should.
fn done(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// The code of its refusal.
fn refused(arguments: &[&str]) -> String {
    let output = run(&[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stdout));
    let said: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert!(said["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{said}");
    said["code"].as_str().unwrap().to_owned()
}

fn at(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // fault 13, REQ ML-1
async fn a_backup_of_a_folder_under_load_is_whole_and_starts_paused() {
    let place = Place::new();
    let server = place.start();
    let of = ["--data".to_owned(), at(&place.data()).to_owned()];
    backed_up_under_load(&place, server, of).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // fault 13, REQ ML-1
async fn a_backup_of_a_database_under_load_is_whole_and_starts_paused() {
    let (place, database) = (Place::new(), Cluster::shared().database());
    let server = place.start_on(database.url());
    let of = ["--database-url".to_owned(), database.url().to_owned()];
    backed_up_under_load(&place, server, of).await;
}

async fn backed_up_under_load(place: &Place, server: Server, of: [String; 2]) {
    let sink = sink().await;
    place.ready().await;
    let told = Told::default();
    let urls = [sink.url("/slow?ms=3"), sink.url("/flaky?fail=1")];
    let producers: Vec<_> =
        (0..4).map(|n| tokio::spawn(produce(place.client(), n, urls.clone(), told.clone()))).collect();
    told.at_least(300).await;
    let before = told.count();
    let backup = place.folder.path().join("backup");
    let to = backup.clone();
    tokio::task::spawn_blocking(move || {
        done(&["backup", &of[0], &of[1], "--to", at(&to)]);
        done(&["check", &of[0], &of[1]]);
    })
    .await
    .unwrap();
    told.at_least(before + 300).await;
    told.enough();
    let mut ids = Vec::new();
    for producer in producers {
        ids.extend(producer.await.unwrap());
    }
    drained(&place.client(), ids.len()).await;
    assert!(server.terminate().await.success());
    // Everything that was acknowledged before is in it, and it is not the whole of what came later.
    let missing = lost(&backup, &ids);
    assert!(
        ids.len() - missing >= before && missing > 0,
        "{missing} of {} missing, {before} before",
        ids.len()
    );
    let found: Value = serde_json::from_str(&done(&["check", "--data", at(&backup), "--json"])).unwrap();
    assert_eq!(found["faults"], json!([]));
    assert!(found["paused"]["why"].as_str().unwrap().contains("this is a backup of"), "{found}");

    // Whoever serves from it sends nothing, and says so, until told to.
    let (said, seen) = (place.said().len(), sink.stats().accepted);
    let server = place.start_with(Command::new(binary()), &backup);
    place.ready().await;
    let client = place.client();
    let body = json!({"channel": "crm", "to": sink.url("/ok"), "content": {"body": 1}});
    let new =
        client.post("/v1/messages", Payload::json(&body)).await.unwrap()["id"].as_str().unwrap().to_owned();
    assert!(place.said()[said..].contains("the store is paused"), "{}", place.said());
    assert_eq!(client.get("/readyz").await.unwrap()["sending"], "paused");
    let stats = client.get("/v1/stats").await.unwrap();
    assert!(
        stats["paused"]["reason"].as_str().unwrap().contains("backup") && stats["total"]["waiting"] != 0,
        "{stats}"
    );
    assert_eq!((sink.count(&new).accepted, sink.stats().accepted), (0, seen));
    let url = place.url();
    let to = backup.clone();
    let resumed = tokio::task::spawn_blocking(move || done(&["resume", "--data", at(&to), "--server", &url]));
    assert!(resumed.await.unwrap().contains("sends again"));
    drained(&client, ids.len()).await;
    assert_eq!(sink.count(&new).accepted, 1);
    assert!(client.get("/readyz").await.unwrap()["sending"].is_null());
    assert!(server.terminate().await.success());
}

/// A store with that many messages, none of which is due.
fn filled(folder: &Path, messages: usize) {
    let mut store = Sqlite::open(folder, Dice::seeded(1), &[7; 32]).unwrap();
    let now = Time::from_millis(1_800_000_000_000);
    for n in 0..messages {
        let draft = Draft {
            id: None,
            queue: QueueName {
                tenant: Tenant::default(),
                lane: LaneName::default(),
                channel: "crm".parse().unwrap(),
                destination: "127.0.0.1".into(),
                campaign: None,
            },
            priority: Priority::default(),
            send_at: Some(Time::from_millis(4_000_000_000_000)),
            expires_at: None,
            ordering_key: None,
            idempotency: None,
            blobs: Vec::new(),
            body: Body { to: format!("https://127.0.0.1/{n}"), ..Body::default() },
        };
        store.accept(draft, now).unwrap().unwrap();
    }
    store.commit(now, &[1; 32]).unwrap();
}

/// Copies, killed as soon as something has arrived, and killed again, until it is done. How often it was killed.
fn copied_with_kills(from: &str, database: &Database) -> usize {
    let progress = || {
        let there = "SELECT count(*) FROM pg_class WHERE oid = to_regclass('pombo.meta')";
        if database.ask(there) == "0" {
            return String::new();
        }
        database.ask("SELECT convert_from(value, 'UTF8') FROM pombo.meta WHERE name = 'copying'")
    };
    let mut last = String::new();
    for kills in 0..3 {
        let mut copy =
            store(&["copy", "--from", from, "--to", database.url()]).stdout(Stdio::null()).spawn().unwrap();
        loop {
            if copy.try_wait().unwrap().is_some() {
                return kills;
            }
            let now = progress();
            if now != last {
                last = now;
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        copy.kill().unwrap();
        copy.wait().unwrap();
    }
    3
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // promise 8
async fn a_store_moves_to_postgresql_though_the_copy_is_killed_and_is_served_from_there() {
    const MESSAGES: usize = 30_000;
    let place = Place::new();
    let database = Cluster::shared().database();
    filled(&place.data(), MESSAGES);
    let data = place.data();
    let server = place.start();
    place.ready().await;
    assert_eq!(refused(&["copy", "--from", at(&data), "--to", database.url()]), "STORE_IN_USE");
    assert!(server.terminate().await.success());
    let from = at(&data).to_owned();
    let kills = copied_with_kills(&from, &database);
    assert!(kills > 0, "it was done before it could be killed");
    // A part of it is no store.
    assert_eq!(run(&["check", "--database-url", database.url()]).status.code(), Some(1));
    let half = place.start_on(database.url());
    assert!(!half.ended().await.success());
    assert!(place.said().contains("`pombo store copy` again"), "{}", place.said());
    let said = done(&["copy", "--from", &from, "--to", database.url(), "--json"]);
    let copied: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&copied["resumed"], &copied["paused"]), (&json!(true), &Value::Null), "{copied}");
    let messages = copied["tables"].as_array().unwrap().iter().find(|it| it["table"] == "message").unwrap();
    assert_eq!((&messages["source"], &messages["target"]), (&json!(MESSAGES), &json!(MESSAGES)));
    assert!(done(&["check", "--database-url", database.url()]).ends_with("all is well\n"));
    // The first one would send them again.
    assert!(done(&["check", "--data", &from]).contains("its messages were copied to postgres://"));
    // The same admin key opens the new one, and messages go.
    let sink = sink().await;
    let server = place.start_on(database.url());
    place.ready().await;
    let client = place.client();
    let stats = client.get("/v1/stats").await.unwrap();
    assert_eq!((&stats["total"]["waiting"], &stats["paused"]), (&json!(MESSAGES), &Value::Null));
    let body = json!({"channel": "crm", "to": sink.url("/ok"), "content": {"body": 1}});
    client.post("/v1/messages", Payload::json(&body)).await.unwrap();
    for _ in 0..500 {
        if sink.stats().accepted > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(sink.stats().accepted, 1);
    // In use, it can be looked over and backed up, and not copied.
    assert_eq!(
        refused(&["copy", "--from", database.url(), "--to", at(&place.folder.path().join("x"))]),
        "STORE_IN_USE"
    );
    let backup = place.folder.path().join("backup");
    done(&["backup", "--database-url", database.url(), "--to", at(&backup)]);
    assert!(done(&["check", "--data", at(&backup)]).contains("this is a backup of postgres://"));
    // A pause reaches the node through the database.
    done(&["pause", "--database-url", database.url(), "--reason", "set back to noon"]);
    assert_eq!(client.get("/v1/store").await.unwrap()["paused"]["reason"], "set back to noon");
    done(&["resume", "--database-url", database.url()]);
    assert_eq!(client.get("/v1/store").await.unwrap()["paused"], Value::Null);
    assert!(server.terminate().await.success());
}

#[test]
fn commands_say_what_is_wrong_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (old, new, none) = (path("old"), path("new"), path("none"));
    assert!(done(&["migrate", "--data", at(&new)]).contains("is a store now, with schema"));
    assert!(done(&["migrate", "--data", at(&new)]).contains("already"));
    std::fs::create_dir(&old).unwrap();
    std::fs::write(old.join("pombo.db"), "not a database at all, whatever its name says").unwrap();
    assert_eq!(refused(&["check", "--data", at(&none)]), "STORE_NOT_FOUND");
    assert_eq!(refused(&["backup", "--data", at(&none), "--to", at(&path("b"))]), "STORE_NOT_FOUND");
    assert_eq!(refused(&["resume", "--data", at(&none)]), "STORE_NOT_FOUND");
    assert!(!none.exists());
    assert_eq!(refused(&["backup", "--data", at(&new), "--to", at(&new)]), "STORE_NOT_EMPTY");
    assert_eq!(refused(&["check", "--data", at(&old)]), "STORE_UNAVAILABLE");
    assert!(done(&["resume", "--data", at(&new)]).contains("was not paused"));
    let wrong = run(&["copy", "--from", "mysql://ana:canary@db/x", "--to", "postgres://ana:canary@db/x"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(!text(&wrong.stderr).contains("canary"), "{}", text(&wrong.stderr));
    let away = ["check", "--database-url", "postgres://ana:canary@127.0.0.1:1/x"];
    assert_eq!(refused(&away), "STORE_UNAVAILABLE");
    assert!(!text(&run(&away).stderr).contains("canary"));
}

#[test]
fn the_script_for_the_roles_names_whoever_logs_in_and_runs() {
    let database = Cluster::shared().database();
    let script = done(&["migrate", "--print-roles", "--database-url", "postgres://o'hara@db.example/pombo"]);
    assert!(script.starts_with("SET pombo.login = 'o''hara';\n"), "{script}");
    let user = "pombo_moving_login";
    database.ask(&format!("DROP ROLE IF EXISTS {user}; CREATE ROLE {user} LOGIN"));
    database.ask(&script.replace("o''hara", user));
    let member = format!("SELECT pg_has_role('{user}', 'pombo_engine', 'MEMBER')");
    assert_eq!(database.ask(&member), "t");
    database.ask(&format!("DROP ROLE {user}"));
}
