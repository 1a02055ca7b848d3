//! Encryption as an operator comes by it, with the real binary: a plain store, a key, another key, and none again.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::path::Path;
use std::process::{Command, Stdio};

use pombo::client::Payload;
use serde_json::{Value, json};

use place::{Place, binary};

const OLD: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const NEW: &str = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";
const NAME: &str = "Zuleica Canaria";

/// Sets the section, over whatever it was before.
fn configure(place: &Place, section: &str) {
    let file = place.folder.path().join("pombo.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let rest = text.split("[encryption]").next().unwrap();
    std::fs::write(&file, format!("{rest}[encryption]\n{section}")).unwrap();
}

/// Runs a command on the place's store: what it says, and its exit code.
fn pombo(place: &Place, arguments: &[&str]) -> (Value, i32) {
    let output = Command::new(binary())
        .args(arguments)
        .arg("--json")
        .arg("--config")
        .arg(place.folder.path().join("pombo.toml"))
        .arg("--data")
        .arg(place.data())
        .env("POMBO_SERVER", place.url())
        .env_remove("POMBO_DATABASE_URL")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
    let said = String::from_utf8_lossy(said);
    // A program that was to print a key may have said something before.
    let last = said.trim().lines().last().unwrap_or_default();
    let read = serde_json::from_str(&said).or_else(|_| serde_json::from_str(last));
    let said = read.unwrap_or_else(|_| panic!("{said}"));
    (said, output.status.code().unwrap())
}

fn contains(folder: &Path, canary: &str) -> bool {
    std::fs::read_dir(folder).unwrap().flatten().any(|entry| {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains(canary)
    })
}

/// Starts a server, does something, and ends it well.
async fn serving<T>(place: &Place, work: impl AsyncFnOnce() -> T) -> T {
    let server = place.start();
    place.ready().await;
    let done = work().await;
    server.terminate().await;
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ AU-3
async fn a_store_is_encrypted_gets_another_key_and_is_plain_again() {
    let place = Place::new();
    let to = "http://127.0.0.1:9/clinic/zuleica".to_owned();
    let body = json!({"channel": "crm", "to": to, "content": {"body": {"patient": NAME}}, "send_at": "2099-01-01T00:00:00Z"});
    let id = serving(&place, async || {
        let sent = place.client().post("/v1/messages", Payload::json(&body)).await.unwrap();
        sent["id"].as_str().unwrap().to_owned()
    })
    .await;
    assert!(contains(&place.data(), NAME) && contains(&place.data(), "/clinic/zuleica"));

    // A key alone changes nothing, and says what to do.
    std::fs::write(place.folder.path().join("old.key"), OLD).unwrap();
    std::fs::write(place.folder.path().join("new.key"), NEW).unwrap();
    configure(&place, "key_file = \"old.key\"\n");
    let (refused, code) = pombo(&place, &["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!((code, refused["code"].as_str()), (1, Some("STORE_LOCKED")), "{refused}");
    assert!(refused["hint"].as_str().unwrap().contains("pombo store rekey"), "{refused}");
    let (sick, code) = pombo(&place, &["doctor"]);
    assert!(code == 1 && sick.to_string().contains("it is not encrypted, and a key is given"), "{sick}");

    let (done, code) = pombo(&place, &["store", "rekey"]);
    assert_eq!((code, done["rekeyed"]["became"].as_str()), (0, Some("sealed")), "{done}");
    assert!(!contains(&place.data(), NAME) && !contains(&place.data(), "/clinic/zuleica"));
    let read = async || {
        let client = place.client();
        let found = client.get(&format!("/v1/messages/{id}?reveal=true")).await.unwrap();
        assert_eq!(
            (found["to"].as_str(), found["content"]["body"]["patient"].as_str()),
            (Some(to.as_str()), Some(NAME))
        );
        let listed = client.get(&format!("/v1/messages?recipient={to}")).await.unwrap();
        assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
    };
    serving(&place, read).await;
    let (well, code) = pombo(&place, &["store", "check"]);
    assert!(code == 0 && well["encryption"]["opened"].as_u64().unwrap() > 0, "{well}");

    // Another key, by a program that prints it.
    configure(&place, "key_command = [\"cat\", \"/nowhere/at/all\"]\nprevious_files = [\"old.key\"]\n");
    let (refused, _) = pombo(&place, &["store", "check"]);
    assert_eq!(refused["code"], "STORE_LOCKED", "{refused}");
    let new = place.folder.path().join("new.key");
    configure(&place, &format!("key_command = [\"cat\", {new:?}]\nprevious_files = [\"old.key\"]\n"));
    serving(&place, read).await;
    let (sick, _) = pombo(&place, &["doctor"]);
    assert!(sick.to_string().contains("run `pombo store rekey`"), "{sick}");
    let (turned, code) = pombo(&place, &["store", "rekey"]);
    assert!(code == 0 && turned["rekeyed"]["changed"].as_u64().unwrap() > 0, "{turned}");
    configure(&place, "key_file = \"old.key\"\n");
    let (refused, _) = pombo(&place, &["store", "pause", "--reason", "x"]);
    assert_eq!(refused["code"], "STORE_LOCKED", "the old one opens nothing any more: {refused}");
    configure(&place, "key_file = \"new.key\"\n");
    serving(&place, read).await;

    let (plain, code) = pombo(&place, &["store", "rekey", "--to-plain"]);
    assert_eq!((code, plain["rekeyed"]["became"].as_str()), (0, Some("plain")), "{plain}");
    configure(&place, "");
    serving(&place, read).await;
    let (records, code) = pombo(&place, &["audit", "verify"]);
    assert_eq!(code, 0, "{records}");
}
