//! `pombo doctor`, with a server and without.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use pombo_testbed::Cluster;
use serde_json::Value;

use crate::place::{KEY, Place, binary};

struct Said {
    code: i32,
    document: Value,
}

impl Said {
    /// How it stands with a thing, and what is said of it.
    fn check(&self, name: &str) -> (&str, &str) {
        let checks = self.document["checks"].as_array().unwrap();
        let found = checks.iter().filter(|check| check["name"] == name);
        let worst =
            found.max_by_key(|check| ["ok", "warn", "wrong"].iter().position(|it| check["status"] == *it));
        let worst = worst.unwrap_or_else(|| panic!("no {name} in {}", self.document));
        assert_eq!(
            worst["hint"].is_string(),
            worst["status"] != "ok",
            "what is not well says what to do: {worst}"
        );
        (worst["status"].as_str().unwrap(), worst["detail"].as_str().unwrap())
    }
}

fn doctor(place: &Place, store: [&str; 2]) -> Said {
    let out = Command::new(binary())
        .args(["doctor", "--json"])
        .args(store)
        .arg("--config")
        .arg(place.folder.path().join("pombo.toml"))
        .env("POMBO_SERVER", place.url())
        .env("POMBO_API_KEY", KEY)
        .current_dir(place.folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let document = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&out.stderr)));
    Said { code: out.status.code().unwrap(), document }
}

fn in_folder(place: &Place) -> Said {
    doctor(place, ["--data", place.data().to_str().unwrap()])
}

fn configure(place: &Place, change: impl FnOnce(String) -> String) {
    let file = place.folder.path().join("pombo.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, change(text)).unwrap();
}

fn listen(place: &Place) -> String {
    let address = place.url().trim_start_matches("http://").to_owned();
    format!("[server]\nlisten = \"{address}\"\n")
}

#[tokio::test]
async fn it_looks_at_a_store_before_beside_and_after_a_server() {
    let place = Place::new();
    configure(&place, |text| format!("{}{text}", listen(&place)));
    let before = in_folder(&place);
    assert_eq!(before.code, 0, "{}", before.document);
    assert_eq!(before.check("store").0, "warn", "there is none yet");
    assert_eq!(before.check("server"), ("ok", format!("none answers at {}", place.url()).as_str()));

    let server = place.start();
    place.ready().await;
    let beside = in_folder(&place);
    assert_eq!((beside.code, &beside.document["ok"]), (0, &Value::Bool(true)), "{}", beside.document);
    for name in
        ["configuration", "channels", "store", "integrity", "clock", "secrets", "server", "providers", "http"]
    {
        assert_eq!(beside.check(name).0, "ok", "{name} in {}", beside.document);
    }
    assert!(beside.check("store").1.contains("in use by a server"), "{}", beside.document);

    let client = place.client();
    let hold = pombo::client::Payload::json(&serde_json::json!({"reason": "by hand"}));
    client.post("/v1/channels/crm/hold", hold).await.unwrap();
    let held = in_folder(&place);
    let (status, detail) = held.check("server");
    assert!(status == "warn" && detail.contains("crm"), "{}", held.document);
    assert!(server.terminate().await.success());

    let after = in_folder(&place);
    assert_eq!(after.code, 0, "{}", after.document);
    assert!(!after.check("store").1.contains("in use"), "{}", after.document);
    assert_eq!(
        std::fs::read_dir(place.data())
            .unwrap()
            .filter(|file| {
                file.as_ref().unwrap().file_name().to_string_lossy().starts_with(".pombo-doctor")
            })
            .count(),
        0,
        "it leaves nothing behind"
    );
}

#[tokio::test]
async fn what_is_wrong_makes_it_fail_and_comes_with_a_remedy() {
    let place = Place::new();
    let server = place.start();
    place.ready().await;
    assert!(server.terminate().await.success());

    let secret = place.folder.path().join("crm.secret");
    std::fs::write(&secret, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    open_to_all(&secret);
    open_to_all(place.folder.path());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    configure(&place, |text| {
        let text = text.replace("kind = \"webhook\"", "kind = \"webhook\"\nsecret_file = \"crm.secret\"");
        format!("[server]\nlisten = \"{address}\"\n{text}")
    });
    let said = in_folder(&place);
    assert_eq!((said.code, &said.document["ok"]), (1, &Value::Bool(false)), "{}", said.document);
    assert_eq!(said.check("secrets").0, "wrong", "{}", said.document);
    assert!(said.check("secrets").1.contains("crm.secret"));
    assert_eq!(said.check("http").0, "wrong", "{}", said.document);
    assert!(!said.document.to_string().contains("whsec_"), "no secret is told: {}", said.document);

    configure(&place, |text| text.replace("workers", "wokers"));
    let said = in_folder(&place);
    let (status, detail) = said.check("configuration");
    assert!(status == "wrong" && detail.contains("wokers"), "{}", said.document);
    assert_eq!(said.code, 1);
}

fn open_to_all(path: &Path) {
    let mode = if path.is_dir() { 0o755 } else { 0o644 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn a_database_is_looked_at_as_well() {
    let place = Place::new();
    let database = Cluster::shared().database();
    let server = place.start_on(database.url());
    place.ready().await;
    let said = doctor(&place, ["--database-url", database.url()]);
    assert_eq!(said.code, 0, "{}", said.document);
    for name in ["store", "integrity", "clock", "server"] {
        assert_eq!(said.check(name).0, "ok", "{}", said.document);
    }
    assert!(said.check("clock").1.contains("the database"), "{}", said.document);
    assert!(server.terminate().await.success());
    let nowhere = doctor(&place, ["--database-url", "postgres://pombo:canary@127.0.0.1:9/none"]);
    assert_eq!((nowhere.code, nowhere.check("store").0), (1, "wrong"), "{}", nowhere.document);
    assert!(!nowhere.document.to_string().contains("canary"), "{}", nowhere.document);
}
