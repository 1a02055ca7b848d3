//! API keys from the command line, and what is left of them on disk.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pombo::client::{Client, ClientError, Payload};
use pombo::clock::SystemClock;
use pombo_kernel::time::{Clock as _, Span};
use pombo_testbed::Cluster;
use serde_json::{Value, json};

use place::{KEY, Place, binary};

/// A key that was revoked at another node is taken this long at most.
const TRUST: Span = Span::from_secs(5);

struct Said {
    code: i32,
    out: String,
    err: String,
}

/// `pombo keys` with these words, as the admin.
fn keys(place: &Place, words: &[&str]) -> Said {
    let run = Command::new(binary())
        .arg("keys")
        .args(words)
        .env("POMBO_SERVER", place.url())
        .env("POMBO_API_KEY", KEY)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: run.status.code().unwrap(), out: text(run.stdout), err: text(run.stderr) }
}

fn done(place: &Place, words: &[&str]) -> Said {
    let said = keys(place, words);
    assert_eq!(said.code, 0, "{words:?}: {}", said.err);
    said
}

fn document(place: &Place, words: &[&str]) -> Value {
    serde_json::from_str(&done(place, &[words, &["--json"]].concat()).out).unwrap()
}

/// Which files below a folder hold these bytes.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if std::fs::read(&path).unwrap().windows(text.len()).any(|part| part == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// What the server says to a key: nothing if it opens the door, else a code.
async fn refusal(place: &Place, key: &str) -> Option<String> {
    let message = json!({"channel": "crm", "to": "http://127.0.0.1:9/x", "content": {"body": {}}});
    match Client::new(&place.url(), Some(key)).unwrap().post("/v1/messages", Payload::json(&message)).await {
        Ok(_) => None,
        Err(ClientError::Refused(refusal)) => Some(refusal.code),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test] // REQ SE-1, IN-2
async fn keys_are_made_changed_rotated_and_revoked_from_the_command_line_and_never_written_down() {
    let place = Place::new();
    let server = place.start();
    place.ready().await;

    let words =
        ["create", "--role", "producer", "--label", "shop", "--channels", "crm", "--default", "webhook=crm"];
    let made = done(&place, &words);
    let first = made.out.trim_end().to_owned();
    assert!(first.starts_with("pombo_") && first.len() == 70, "the key alone, for a pipe: {first:?}");
    assert!(made.err.contains("only time that the key is shown"), "{}", made.err);
    assert_eq!(refusal(&place, &first).await, None);

    let listed: Vec<Value> = done(&place, &["list", "--json"])
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let shop = listed.iter().find(|key| key["label"] == "shop").unwrap();
    let id = shop["id"].as_str().unwrap();
    assert_eq!(shop["channels"], json!(["crm"]));
    let table = done(&place, &["list"]).out;
    assert!(table.contains(id) && table.contains("producer") && table.contains("active"), "{table}");

    let shown = done(&place, &["show", id]).out;
    assert!(shown.contains("webhook=crm") && shown.contains("shop"), "{shown}");
    let changed =
        document(&place, &["set", id, "--label", "shop 2", "--all-channels", "--expires-after", "90d"]);
    assert_eq!((&changed["label"], &changed["channels"]), (&json!("shop 2"), &Value::Null));
    assert_eq!(document(&place, &["set", id, "--never-expires"])["expires_at"], Value::Null);
    assert_eq!(keys(&place, &["set", id]).code, 2, "there is nothing to change");

    let rotated = document(&place, &["rotate", id, "--overlap", "1h"]);
    let second = rotated["key"].as_str().unwrap().to_owned();
    assert_eq!((refusal(&place, &first).await, refusal(&place, &second).await), (None, None));
    let revoked = done(&place, &["revoke", id]);
    assert!(revoked.out.contains("is revoked"), "{}", revoked.out);
    assert_eq!(refusal(&place, &first).await.as_deref(), Some("UNAUTHORIZED"));
    assert_eq!(refusal(&place, &second).await, None);

    let same = ["create", "--role", "viewer", "--label", "twice", "--idempotency-key", "a"];
    let third = done(&place, &same).out.trim_end().to_owned();
    let again = done(&place, &same);
    assert_eq!(again.out, "");
    assert!(again.err.contains("is not shown again"), "{}", again.err);
    let wrong = keys(&place, &["create", "--role", "emperor"]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.err.contains("producer, viewer, operator, admin"), "{}", wrong.err);
    let last = keys(&place, &["revoke", listed.last().unwrap()["id"].as_str().unwrap()]);
    assert!(last.err.contains("LAST_ADMIN_KEY"), "{}", last.err);

    let backup = place.folder.path().join("backup");
    let saved = Command::new(binary())
        .args(["store", "backup", "--data"])
        .arg(place.data())
        .arg("--to")
        .arg(&backup)
        .output()
        .unwrap();
    assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
    server.kill();
    assert!(!holding(place.folder.path(), id).is_empty(), "there is something to look through");
    assert!(!holding(&backup, id).is_empty(), "also in the copy");
    for key in [&*first, &*second, &*third, KEY] {
        assert_eq!(
            holding(place.folder.path(), key.trim_start_matches("pombo_")),
            [""; 0],
            "a key is on disk"
        );
    }
}

#[tokio::test] // REQ SE-1
async fn a_key_that_was_revoked_at_one_node_ends_at_another_soon() {
    let database = Cluster::shared().database();
    let (one, two) = (Place::new(), Place::new());
    let _servers = (one.start_on(database.url()), two.start_on(database.url()));
    one.ready().await;
    two.ready().await;
    let made = document(&one, &["create", "--role", "producer"]);
    let key = made["key"].as_str().unwrap();
    // A node that has not met the key looks for it once a second.
    for _ in 0..1_200 {
        if refusal(&two, key).await.is_none() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!((refusal(&one, key).await, refusal(&two, key).await), (None, None));
    done(&one, &["revoke", made["id"].as_str().unwrap()]);
    let clock = SystemClock::new();
    let revoked = clock.now();
    assert_eq!(refusal(&one, key).await.as_deref(), Some("UNAUTHORIZED"));
    // What keeps the nodes from their work keeps requests waiting as well.
    let mut longest = Span::ZERO;
    loop {
        let asked = clock.now();
        let refused = refusal(&two, key).await;
        longest = longest.max(clock.now().since(asked));
        if refused.is_some() {
            break;
        }
        let most = TRUST + longest + longest;
        assert!(asked.since(revoked) <= most, "it was taken {} after it was revoked", asked.since(revoked));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let listed = done(&one, &["list", "--json"]).out;
    let admins = listed.lines().filter(|line| line.contains("\"role\":\"admin\"")).count();
    assert_eq!(admins, 1, "two nodes with the same key in their environment have one: {listed}");
}

#[test] // REQ SE-1
fn two_nodes_that_start_at_once_on_an_empty_database_make_one_admin_key() {
    let database = Cluster::shared().database();
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let mut command = Command::new(binary());
        command
            .args(["serve", "--json", "--listen", "127.0.0.1:0", "--database-url", database.url()])
            .current_dir(folder.path())
            .env_remove("POMBO_ADMIN_KEY")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        Started(command.spawn().unwrap())
    };
    let mut nodes = [start(), start()];
    let said: Vec<Value> = nodes.iter_mut().map(Started::first_line).collect();
    let made: Vec<&str> = said.iter().filter_map(|line| line["admin_key"].as_str()).collect();
    assert_eq!(made.len(), 1, "{said:?}");
    for line in &said {
        let listed = Command::new(binary())
            .args(["keys", "list", "--json"])
            .env("POMBO_SERVER", line["url"].as_str().unwrap())
            .env("POMBO_API_KEY", made[0])
            .output()
            .unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        assert_eq!(listed.lines().count(), 1, "one key, which opens both nodes: {listed}");
    }
}

/// A process that ends with the test.
struct Started(Child);

impl Started {
    fn first_line(&mut self) -> Value {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[should_panic(expected = "a server said a secret: in base64")]
fn a_test_whose_server_says_a_secret_fails() {
    let place = Place::new();
    let made = format!("pombo_{}", "0f".repeat(32));
    let said = format!("{KEY}\nnothing\n{made}\nwhsec_{}\n", "A".repeat(32));
    assert_eq!(place::secrets::shown(said.as_bytes()).len(), 3);
    let encoded = place::secrets::forms(place::secrets::CANARY).pop().unwrap();
    std::fs::write(place.folder.path().join("log"), [b"in base64: ", &*encoded].concat()).unwrap();
}
