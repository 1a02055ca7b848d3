//! A person who is everywhere, erased by the real binary: nothing is left in any file of an embedded store, in any column
//! of a database, or, where it is encrypted, in any file of that; nor in any file of a backup.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pombo::client::Payload;
use pombo_channels::sandbox::Sandbox;
use pombo_channels::sandbox::evolution::{EvolutionSandbox, Options};
use pombo_channels::sandbox::resend::{self, ResendSandbox};
use pombo_kernel::dice::Dice;
use pombo_kernel::erasure::{Erasure, Step};
use pombo_kernel::message::Actor;
use pombo_kernel::name::Tenant;
use pombo_kernel::operation::{Kind, Operation, Stage};
use pombo_kernel::time::Time;
use pombo_store::core::Core as _;
use pombo_store::sqlite::Sqlite;
use pombo_testbed::{Cluster, Database};
use serde_json::{Value, json};

use place::{Place, Server, binary, sink};

const PHONE: &str = "+5511987651111";
const MAIL: &str = "zuleica.canario@clinica.example";
/// Stands nowhere but where it is planted.
const CANARIES: [&str; 5] =
    ["11987651111", "98765-1111", "zuleica.canario", "Zuleica Canário", "529.982.247-25"];

struct House {
    place: Place,
    config: String,
    _providers: (EvolutionSandbox, ResendSandbox, Sandbox),
}

impl House {
    async fn new(more: &str) -> House {
        let place = Place::new();
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let evolution = EvolutionSandbox::start(here, Options::default()).await.unwrap();
        let mails = ResendSandbox::start(here, &resend::Options::default()).await.unwrap();
        let sink = sink().await;
        let file = place.folder.path().join("pombo.toml");
        let config = format!(
            "{more}[channels.zap]\nkind = \"evolution\"\nbase_url = \"{}\"\ninstance = \"sandbox\"\n\
             api_key_file = \"key\"\n[channels.mail]\nkind = \"resend\"\nbase_url = \"{}\"\napi_key_file = \"key\"\n\
             from = \"shop@example.com\"\n[channels.crm]\nkind = \"webhook\"\nallow_private = true\n\
             [events]\nallow_private = true\n",
            evolution.url(),
            mails.url()
        );
        std::fs::write(&file, config).unwrap();
        std::fs::write(file.with_file_name("key"), "sandbox").unwrap();
        let config = file.to_str().unwrap().to_owned();
        House { place, config, _providers: (evolution, mails, sink) }
    }

    fn sink(&self) -> String {
        self._providers.2.url("/ok")
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.place.client().post(path, Payload::json(body)).await;
        answer.unwrap_or_else(|error| panic!("POST {path}: {error}: {}", self.place.said()))
    }

    async fn get(&self, path: &str) -> Value {
        self.place.client().get(path).await.unwrap()
    }

    /// Waits until it is so.
    async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut seen = Value::Null;
        for _ in 0..1_500 {
            seen = self.get(path).await;
            if wanted(&seen) {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{path} never came to that: {seen}: {}", self.place.said());
    }

    /// Runs a command beside, or on, the place's store.
    async fn pombo(&self, args: &[&str]) -> (String, String, Option<i32>) {
        let mut command = Command::new(binary());
        command
            .args(args)
            .env("POMBO_SERVER", self.place.url())
            .env("POMBO_API_KEY", place::KEY)
            .stdin(Stdio::null());
        let run = tokio::task::spawn_blocking(move || command.output().unwrap());
        let Output { status, stdout, stderr } = run.await.unwrap();
        (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap(), status.code())
    }

    async fn erase(&self, store: &[&str], recipient: &str, more: &[&str]) -> Value {
        let (erasure, wrong, code) = self.try_to_erase(store, recipient, more).await;
        assert_eq!(code, Some(0), "{erasure}{wrong}{}", self.place.said());
        erasure
    }

    async fn try_to_erase(
        &self,
        store: &[&str],
        recipient: &str,
        more: &[&str],
    ) -> (Value, String, Option<i32>) {
        let fixed = ["store", "erase", "--json", "--recipient", recipient];
        let (said, wrong, code) = self.pombo(&[&fixed, &self.config()[..], store, more].concat()).await;
        (serde_json::from_str(&said).unwrap_or_default(), wrong, code)
    }

    /// Writes a backup of the store beside it.
    async fn back_up(&self, store: &[&str], name: &str) -> PathBuf {
        let backup = self.place.folder.path().join(name);
        let fixed = ["store", "backup", "--to", backup.to_str().unwrap()];
        let (said, wrong, code) = self.pombo(&[&fixed, store, &self.config()].concat()).await;
        assert_eq!(code, Some(0), "{said}{wrong}");
        backup
    }

    fn config(&self) -> [&str; 2] {
        ["--config", &self.config]
    }

    /// What `store check` finds in a store that is sound.
    async fn checked(&self, data: &Path) -> Value {
        let fixed = ["store", "check", "--json", "--data", data.to_str().unwrap()];
        let (said, wrong, code) = self.pombo(&[&fixed[..], &self.config()].concat()).await;
        assert_eq!(code, Some(0), "{said}{wrong}");
        serde_json::from_str(&said).unwrap()
    }

    /// A backup without the person, which is one as before: whole, a file alone, and paused.
    async fn clean(&self, backup: &Path) {
        assert_eq!(found_in(backup), Vec::<String>::new());
        for gone in ["pombo.db-wal", "pombo.db-shm", "pombo.db-journal", "pombo.reserve"] {
            assert!(!backup.join(gone).exists(), "{gone}");
        }
        let found = self.checked(backup).await;
        assert!(found["paused"]["why"].as_str().unwrap().starts_with("this is a backup of"), "{found}");
        let at = ["--data", backup.to_str().unwrap()];
        let verify = [&["audit", "verify"], &at[..], &self.config()].concat();
        let (said, wrong, code) = self.pombo(&verify).await;
        assert_eq!(code, Some(0), "{said}{wrong}");
        for recipient in [PHONE, MAIL] {
            let again = self.erase(&at, recipient, &["--dry-run"]).await;
            assert!(again["erased"].as_object().unwrap().values().all(|count| count == 0), "{again}");
        }
    }

    /// Puts the person in through every door; also where nothing is ever encrypted, if that is wished.
    async fn plant(&self, openly: bool) {
        let person = json!({"name": "Zuleica Canário", "cpf": "529.982.247-25"});
        let said = "Olá, Zuleica Canário (529.982.247-25)";
        // Told of what happens, with the person's number as the application knows them.
        self.post("/v1/webhooks", &json!({"url": self.sink(), "events": ["message.*"]})).await;
        let client = self.place.client();
        client.put("/v1/templates/hi", Payload::json(&json!({"whatsapp": "Oi, {{ name }}"}))).await.unwrap();
        // The API, with a key of its own.
        let body = json!({"channel": "zap", "to": "(11) 98765-1111", "template": "hi", "payload": person,
            "user_id": "zuleica.canario", "metadata": person, "reference": "consulta"});
        let key = Some(if openly { "reminder 11987651111" } else { "reminder" }.to_owned());
        let payload = Payload { idempotency_key: key, ..Payload::json(&body) };
        let sent = client.post("/v1/messages", payload).await.unwrap()["id"].as_str().unwrap().to_owned();
        self.until(&format!("/v1/messages/{sent}"), |it| it["state"] == "sent").await;
        // A batch, with an attachment.
        let exam = STANDARD.encode(format!("exam of {said}, which nobody else has").repeat(4_000));
        let mail = json!({"subject": said, "text": said, "attachments": [{"filename": "exam.txt", "content": exam}]});
        let batch = json!([
            {"channel": "mail", "to": "Zuleica Canário <Zuleica.Canario@Clinica.example>", "content": mail},
            {"channel": "zap", "to": PHONE, "content": {"text": said}, "send_at": "2099-01-01T00:00:00Z"},
        ]);
        self.post("/v1/messages/batch", &batch).await;
        // A wrong number, put right by hand and sent again.
        let wrong = json!({"channel": "zap", "to": "+5511987650404", "content": {"text": said}});
        let letter = self.post("/v1/messages", &wrong).await["id"].as_str().unwrap().to_owned();
        self.until(&format!("/v1/messages/{letter}"), |it| it["state"] == "failed").await;
        let edit = json!({"to": PHONE, "version": 1, "note": "the number on file"});
        client
            .call(http::Method::PATCH, &format!("/v1/dead-letters/{letter}"), Payload::json(&edit))
            .await
            .unwrap();
        self.post(&format!("/v1/messages/{letter}/retry"), &json!({})).await;
        self.until(&format!("/v1/messages/{letter}"), |it| it["state"] == "sent").await;
        // A dead letter of hers that went to somebody else by now.
        let wrong = json!({"channel": "zap", "to": "+5511987650404", "content": {"text": "nobody"}});
        let letter = self.post("/v1/messages", &wrong).await["id"].as_str().unwrap().to_owned();
        self.until(&format!("/v1/messages/{letter}"), |it| it["state"] == "failed").await;
        for (version, to, text) in [(1, PHONE, said), (2, "+5511987650404", "nobody")] {
            let edit = json!({"to": to, "content": {"text": text}, "version": version});
            let path = format!("/v1/dead-letters/{letter}");
            client.call(http::Method::PATCH, &path, Payload::json(&edit)).await.unwrap();
        }
        // Two campaigns: one that waits, and one that has begun.
        for start in [false, true] {
            let campaign = json!({"name": "Primavera", "channel": "zap", "template": "hi",
                "throttle_min_seconds": 3, "throttle_max_seconds": 3});
            let id = self.post("/v1/campaigns", &campaign).await["id"].as_str().unwrap().to_owned();
            let list = "telefone,name,cpf\n+55 11 98765-1111,Zuleica Canário,529.982.247-25\n+55 11 98765-2222,Rui,1\n";
            let path = format!("/v1/campaigns/{id}/recipients");
            let payload = Payload { content_type: Some("text/csv"), body: list.into(), ..Payload::default() };
            let listed = client.post(&path, payload).await.unwrap();
            assert_eq!(listed["added"], 2, "{listed}");
            if start {
                self.post(&format!("/v1/campaigns/{id}/start"), &json!({})).await;
                self.until(&format!("/v1/campaigns/{id}"), |it| it["counts"]["sent"] != 0).await;
            }
        }
        for (kind, recipient) in [("whatsapp", PHONE), ("email", MAIL)] {
            let entry = json!({"kind": kind, "recipient": recipient, "reason": "opt_out", "note": said, "source": said});
            self.post("/v1/suppressions", &entry).await;
        }
        self.post("/v1/dead-letters/discard", &json!({"filter": {"recipient": "+55 11 98765-1111"}})).await;
        self.until("/v1/stats", |it| it["total"]["waiting"].as_u64() <= Some(3)).await;
    }

    /// What must still be so of her, and of others.
    async fn check(&self) {
        for to in ["11 98765-1111", MAIL] {
            let (said, wrong, code) = self.pombo(&["suppressions", "check", to]).await;
            assert!(said.starts_with("suppressed: opt_out") && code == Some(0), "{said}{wrong}");
        }
        for recipient in [PHONE, MAIL] {
            let again =
                self.post("/v1/privacy/erase", &json!({"recipient": recipient, "dry_run": true})).await;
            let path = format!("/v1/operations/{}", again["id"].as_str().unwrap());
            let again = self.until(&path, |it| it["state"] == "done").await;
            let erased = again["erasure"]["erased"].as_object().unwrap();
            assert!(erased.values().all(|count| count == 0), "{again}");
        }
        let listed = self.get("/v1/campaigns").await;
        assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    }
}

/// How canaries may look.
fn forms() -> Vec<Vec<u8>> {
    let written = |canary: &&str| [place::secrets::forms(canary), vec![canary.to_lowercase().into_bytes()]];
    CANARIES.iter().flat_map(written).flatten().collect()
}

/// Which canaries are in the files of a folder, and below it.
fn found_in(folder: &Path) -> Vec<String> {
    let forms: Vec<String> =
        forms().iter().map(|form| regex::escape(&String::from_utf8_lossy(form))).collect();
    let forms = regex::bytes::Regex::new(&forms.join("|")).unwrap();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(found_in(&path));
        } else if let Ok(bytes) = std::fs::read(&path) {
            let what = forms.find_iter(&bytes).map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned());
            let what: std::collections::BTreeSet<String> = what.collect();
            found.extend(what.into_iter().map(|what| format!("{what} in {}", path.display())));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")] // REQ AU-3
async fn nothing_of_an_erased_person_is_left_in_any_file_of_an_embedded_store() {
    let house = House::new("").await;
    let data = house.place.data();
    let server = house.place.start();
    house.place.ready().await;
    house.plant(true).await;
    let planted = found_in(&data);
    for canary in ["11987651111", "zuleica.canario", "Zuleica Canário", "529.982.247-25"] {
        assert!(planted.iter().any(|it| it.starts_with(canary)), "{canary} was never there: {planted:?}");
    }
    let store = ["--data", data.to_str().unwrap()];
    let foreseen = house.erase(&store, PHONE, &["--dry-run"]).await;
    // Through the server, which has the folder.
    let erasure = house.erase(&store, PHONE, &["--reason", "asked for in writing"]).await;
    let erased = &erasure["erased"];
    assert_eq!(foreseen["erased"]["messages"], erased["messages"], "{erasure}");
    assert!(erased["messages"].as_u64() >= Some(4) && erased["cancelled"].as_u64() >= Some(1), "{erasure}");
    assert!(erased["events"].as_u64() >= Some(1), "{erasure}");
    assert_eq!(
        (&erased["recipients"], &erased["suppressions"], &erased["operations"]),
        (&json!(2), &json!(1), &json!(1))
    );
    assert_eq!(
        (&erased["revisions"], &erasure["person"]["kind"]),
        (&json!(1), &json!("whatsapp")),
        "{erasure}"
    );
    assert!(erasure["swept_ms"].is_u64(), "{erasure}");
    assert!(server.terminate().await.success());
    // And on the folder itself, which nobody has.
    let erasure = house.erase(&store, &MAIL.to_uppercase(), &[]).await;
    let erased = &erasure["erased"];
    assert_eq!(erased["messages"].as_u64(), Some(1 + erased["events"].as_u64().unwrap()), "{erasure}");
    assert_eq!(erased["attachments"], 1, "{erasure}");
    assert_eq!(found_in(&data), Vec::<String>::new());
    let server = house.place.start();
    house.place.ready().await;
    house.check().await;
    assert!(server.terminate().await.success());
    assert_eq!(found_in(&data), Vec::<String>::new(), "also not by what came after");
    place::read_trail_in(&data);
    let said = house.place.said();
    for canary in CANARIES {
        assert!(!said.contains(canary), "the log says {canary}");
    }
    let (said, wrong, code) = house.pombo(&["store", "check", "--data", data.to_str().unwrap()]).await;
    assert_eq!(code, Some(0), "{said}{wrong}");
}

/// Which canaries are in the columns of a database's tables, whatever their type.
fn found_in_tables(database: &Database) -> Vec<String> {
    let tables = database.ask(
        "SELECT string_agg(DISTINCT table_name, ',') FROM information_schema.tables \
         WHERE table_schema = 'pombo' AND table_type = 'BASE TABLE'",
    );
    let mut found = Vec::new();
    for table in tables.trim().split(',') {
        // Bytes are shown as hexadecimal digits.
        let rows = database.ask(&format!("SELECT t::text FROM pombo.\"{table}\" AS t"));
        for form in forms() {
            let hexadecimal: String = form.iter().map(|byte| format!("{byte:02x}")).collect();
            let text = String::from_utf8_lossy(&form).into_owned();
            if rows.contains(&text) || rows.contains(&hexadecimal) {
                found.push(format!("{text} in {table}"));
            }
        }
    }
    found
}

/// Erases in a database, beside the server that uses it.
async fn in_a_database(house: &House, database: &Database, server: Server, openly: bool) {
    house.place.ready().await;
    house.plant(openly).await;
    // What an application wrote by SQL, and no node could take in.
    let text = if openly { "Zuleica Canário" } else { "" };
    let to = if openly { PHONE } else { "nobody" };
    database.ask(&format!(
        "SET search_path = pombo; \
         INSERT INTO refused (key, nonce, at, tenant, request, why) VALUES (1, 1, 1, 'default', '{{\"to\": \"{to}\", \"content\": {{\"text\": \"{text}\"}}}}', 'no')"
    ));
    let store = ["--database-url", database.url()];
    let erasure = house.erase(&store, PHONE, &["--reason", "asked for in writing"]).await;
    let erased = &erasure["erased"];
    assert!(erased["messages"].as_u64() >= Some(4), "{erasure}");
    let requests = u64::from(openly);
    assert_eq!((&erased["recipients"], &erased["requests"]), (&json!(2), &json!(requests)), "{erasure}");
    let erasure = house.erase(&store, MAIL, &[]).await;
    assert_eq!(erasure["erased"]["attachments"], 1, "{erasure}");
    house.check().await;
    place::sealed(database.url()).await;
    assert!(server.terminate().await.success());
    let verify = [&["audit", "verify", "--database-url", database.url()], &house.config()[..]].concat();
    let (said, wrong, code) = house.pombo(&verify).await;
    assert_eq!(code, Some(0), "{said}{wrong}");
}

#[tokio::test(flavor = "multi_thread")] // REQ AU-3
async fn nothing_of_an_erased_person_is_left_in_any_table_of_a_database() {
    let database = Cluster::shared().database();
    let house = House::new("").await;
    let server = house.place.start_on(database.url());
    in_a_database(&house, &database, server, true).await;
    assert_eq!(found_in_tables(&database), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")] // REQ AU-3
async fn with_encryption_nothing_of_an_erased_person_is_left_in_any_file_of_a_database() {
    let cluster = Cluster::own();
    let database = cluster.database();
    let house = House::new("[encryption]\nkey_file = \"sealing\"\n").await;
    std::fs::write(house.place.folder.path().join("sealing"), STANDARD.encode([9; 32])).unwrap();
    let server = house.place.start_on(database.url());
    in_a_database(&house, &database, server, false).await;
    assert_eq!(found_in_tables(&database), Vec::<String>::new());
    database.ask("CHECKPOINT");
    let folder = database.ask("SHOW data_directory");
    let files = Path::new(folder.trim());
    assert!(files.join("pg_wal").is_dir());
    assert_eq!(found_in(files), Vec::<String>::new());
}

/// What is to be where nobody has the store.
fn counts(erasure: &Value) -> [u64; 3] {
    ["messages", "recipients", "suppressions"].map(|what| erasure["erased"][what].as_u64().unwrap())
}

/// Erases the person in a store and its backups, and sees that nothing of her is left in any.
async fn with_backups(house: &House, store: &[&str], backups: &[&Path]) {
    let also_in: Vec<&str> =
        [&["--also-in"], &backups.iter().map(|backup| backup.to_str().unwrap()).collect::<Vec<_>>()[..]]
            .concat();
    let before = house.checked(backups[0]).await;
    let foreseen = house.erase(store, PHONE, &[&["--dry-run"], &also_in[..]].concat()).await;
    assert_eq!(house.checked(backups[0]).await, before, "a dry run adds nothing, not even to the audit");
    let erasure = house.erase(store, PHONE, &also_in).await;
    for (nth, backup) in backups.iter().enumerate() {
        let (told, done) = (&foreseen["backups"][nth], &erasure["backups"][nth]);
        assert_eq!((&told["backup"], &done["backup"]), (&json!(backup), &json!(backup)));
        let counted = counts(&done["erasure"]);
        assert_eq!(counts(&told["erasure"]), counted);
        assert!(counted[0] >= 4 && counted[1..] == [2, 1], "{done}");
        assert!(done["erasure"]["swept_ms"].is_u64(), "{done}");
        assert_eq!(done["erasure"]["person"], erasure["person"], "the same secret makes the same hash");
    }
    house.erase(store, MAIL, &also_in).await;
    for backup in backups {
        house.clean(backup).await;
    }
}

/// The whole recipe on a folder that a server has: deliver, fail, dead-letter, back up, erase, scan every file.
async fn recipe_in_a_folder(more: &str, openly: bool) {
    let house = House::new(more).await;
    std::fs::write(house.place.folder.path().join("sealing"), STANDARD.encode([9; 32])).unwrap();
    let data = house.place.data();
    let store = ["--data", data.to_str().unwrap()];
    let server = house.place.start();
    house.place.ready().await;
    house.plant(openly).await;
    let (first, second) = (house.back_up(&store, "monday").await, house.back_up(&store, "tuesday").await);
    assert_eq!(openly, !found_in(&first).is_empty(), "what is sealed stands nowhere in plain");
    with_backups(&house, &store, &[&first, &second]).await;
    assert!(server.terminate().await.success());
    assert_eq!(found_in(house.place.folder.path()), Vec::<String>::new());

    // Put back, it sends nothing, and whoever was not to be written to still is not.
    let server = house.place.start_with(Command::new(binary()), &second);
    house.place.ready().await;
    assert!(house.get("/v1/store").await["paused"]["reason"].is_string());
    house.check().await;
    assert!(server.terminate().await.success());
    assert_eq!(found_in(house.place.folder.path()), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")] // REQ AU-3
async fn nothing_of_an_erased_person_is_left_in_any_file_of_a_backup() {
    recipe_in_a_folder("", true).await;
}

#[tokio::test(flavor = "multi_thread")] // REQ AU-3
async fn nothing_of_an_erased_person_is_left_in_an_encrypted_backup() {
    recipe_in_a_folder("[encryption]\nkey_file = \"sealing\"\n", false).await;
}

#[tokio::test(flavor = "multi_thread")] // REQ AU-3
async fn nothing_of_an_erased_person_is_left_in_a_backup_of_a_database() {
    let database = Cluster::shared().database();
    let house = House::new("").await;
    let store = ["--database-url", database.url()];
    let server = house.place.start_on(database.url());
    house.place.ready().await;
    house.plant(true).await;
    database.ask(&format!(
        "SET search_path = pombo; \
         INSERT INTO refused (key, nonce, at, tenant, request, why) VALUES (1, 1, 1, 'default', '{{\"to\": \"{PHONE}\", \"content\": {{\"text\": \"Zuleica Canário\"}}}}', 'no')"
    ));
    let backup = house.back_up(&store, "backup").await;
    assert!(!found_in(&backup).is_empty());
    with_backups(&house, &store, &[&backup]).await;
    assert!(server.terminate().await.success());
    assert_eq!(found_in_tables(&database), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")] // REQ AU-3
async fn a_backup_that_cannot_be_erased_in_is_named_and_keeps_no_other_from_its_turn() {
    let house = House::new("").await;
    let (data, folder) = (house.place.data(), house.place.folder.path().to_owned());
    let store = ["--data", data.to_str().unwrap()];
    let server = house.place.start();
    house.place.ready().await;
    house.plant(true).await;
    let plain = house.back_up(&store, "plain").await;
    let used = house.back_up(&store, "used").await;
    let last = house.back_up(&store, "last").await;
    assert!(server.terminate().await.success());
    // One that somebody serves from, one that is none, and one whose key is not given.
    let other = House::new("[encryption]\nkey_file = \"sealing\"\n").await;
    std::fs::write(other.place.folder.path().join("sealing"), STANDARD.encode([9; 32])).unwrap();
    let server = other.place.start();
    other.place.ready().await;
    assert!(server.terminate().await.success());
    let sealed = other.place.data();
    let server = house.place.start_with(Command::new(binary()), &used);
    house.place.ready().await;
    let none = folder.join("none");
    let named = [&plain, &used, &none, &sealed, &last].map(|backup| backup.to_str().unwrap());
    let also_in = [&["--also-in"], &named[..]].concat();
    let (erasure, wrong, code) = house.try_to_erase(&store, PHONE, &also_in).await;
    assert_eq!(code, Some(1), "{erasure}{wrong}");
    assert!(erasure["erased"]["messages"].as_u64() >= Some(4), "the store itself is done: {erasure}");
    let codes: Vec<&str> =
        (0..5).map(|nth| erasure["backups"][nth]["problem"]["code"].as_str().unwrap_or("done")).collect();
    assert_eq!(codes, ["done", "STORE_IN_USE", "STORE_NOT_FOUND", "STORE_LOCKED", "done"], "{erasure}");
    for nth in 1..4 {
        let problem = &erasure["backups"][nth]["problem"];
        assert!(problem["title"].is_string() && problem["hint"].is_string(), "{problem}");
    }
    let told: Value = serde_json::from_str(wrong.lines().last().unwrap()).unwrap();
    assert_eq!(told["code"], "NOT_ERASED");
    for (name, still) in named.iter().zip([false, true, true, true, false]) {
        assert_eq!(told["detail"].as_str().unwrap().contains(name), still, "{name}: {told}");
    }
    assert!(!none.exists(), "nothing is made where nothing was");
    assert!(server.terminate().await.success());
    // The one that was in use alone, as the hint says; and what was done before is done again without harm.
    house.erase(&["--data", used.to_str().unwrap()], PHONE, &[]).await;
    let clean = [&["--also-in"], &[named[0], named[1], named[4]][..]].concat();
    for recipient in [PHONE, MAIL] {
        house.erase(&store, recipient, &clean).await;
    }
    assert_eq!(found_in(&folder), Vec::<String>::new());
    for backup in [&plain, &last] {
        house.clean(backup).await;
    }
    // For people: each place with what was erased there, and each error where it belongs.
    let fixed = [&["store", "erase", "--recipient", PHONE], &store[..], &house.config()].concat();
    let (said, wrong, code) = house.pombo(&[&fixed[..], &["--also-in", named[0], named[2]]].concat()).await;
    assert_eq!(code, Some(1), "{said}{wrong}");
    assert!(said.contains(&format!("in {}\n", data.display())) && said.contains(named[0]), "{said}");
    assert!(wrong.contains(&format!("{} is no backup (STORE_NOT_FOUND)", none.display())), "{wrong}");
    assert!(wrong.contains("1 of 2 backups (NOT_ERASED)"), "{wrong}");
}

#[tokio::test(flavor = "multi_thread")] // REQ AU-3
async fn a_backup_from_before_encryption_is_erased_in_though_there_is_a_key_now() {
    let house = House::new("").await;
    let data = house.place.data();
    let store = ["--data", data.to_str().unwrap()];
    let server = house.place.start();
    house.place.ready().await;
    house.plant(true).await;
    let backup = house.back_up(&store, "before").await;
    assert!(server.terminate().await.success());
    let config = std::fs::read_to_string(&house.config).unwrap();
    std::fs::write(&house.config, format!("[encryption]\nkey_file = \"sealing\"\n{config}")).unwrap();
    std::fs::write(house.place.folder.path().join("sealing"), STANDARD.encode([9; 32])).unwrap();
    let (said, wrong, code) = house.pombo(&[&["store", "rekey"], &store[..], &house.config()].concat()).await;
    assert_eq!(code, Some(0), "{said}{wrong}");
    for recipient in [PHONE, MAIL] {
        house.erase(&store, recipient, &["--also-in", backup.to_str().unwrap()]).await;
    }
    assert_eq!(found_in(house.place.folder.path()), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")] // REQ AU-3
async fn what_was_being_sent_when_a_server_died_or_a_backup_was_made_is_not_waited_for() {
    let house = House::new("").await;
    let data = house.place.data();
    let store = ["--data", data.to_str().unwrap()];
    let server = house.place.start();
    house.place.ready().await;
    let slow = house._providers.2.url("/hang?to=zuleica.canario");
    let body = json!({"channel": "crm", "to": slow, "content": {"body": "Zuleica Canário"}});
    let id = house.post("/v1/messages", &body).await["id"].as_str().unwrap().to_owned();
    house.until(&format!("/v1/messages/{id}"), |it| it["state"] == "sending").await;
    let backup = house.back_up(&store, "backup").await;
    server.kill();
    let also_in = ["--also-in", backup.to_str().unwrap()];
    let erase = house.erase(&store, &slow, &also_in);
    let erasure = tokio::time::timeout(Duration::from_secs(120), erase).await.expect("it waits for nobody");
    assert_eq!(erasure["erased"]["messages"], 1, "{erasure}");
    assert_eq!(erasure["backups"][0]["erasure"]["erased"]["messages"], 1, "{erasure}");
    assert_eq!(found_in(&data), Vec::<String>::new());
    assert_eq!(found_in(&backup), Vec::<String>::new());
    house.checked(&data).await;
    house.checked(&backup).await;
}

#[tokio::test(flavor = "multi_thread")] // REQ AU-3
async fn an_erasure_that_a_server_was_killed_in_goes_on_as_soon_as_the_next_one_runs() {
    let house = House::new("").await;
    let data = house.place.data();
    let server = house.place.start();
    house.place.ready().await;
    assert!(server.terminate().await.success());
    // What a server leaves that dies while it rewrites its file. Whoever minds its lease waits until 2099.
    let (tenant, now) = (Tenant::default(), Time::from_millis(1_800_000_000_000));
    let later = Time::from_millis(4_070_908_800_000);
    let mut core = Sqlite::open(&data, Dice::seeded(1), &[7; 32]).unwrap();
    let person = core.pseudonyms().person(&tenant, PHONE).unwrap();
    let mut left = Erasure::new(tenant.clone(), person, false, false);
    left.step = Step::Sweep;
    let operation = Operation::new(Kind::Erase, Stage::Erasing, Actor("ana".to_owned()), now);
    let wish = pombo_web::operation::begin(&tenant, "opr_left".to_owned(), &operation.erasing(left, later));
    core.shelve(&wish, now).unwrap();
    core.commit(now, &[7; 32]).unwrap();
    drop(core);
    let server = house.place.start();
    house.place.ready().await;
    let operation = house.until("/v1/operations/opr_left", |it| it["state"] == "done").await;
    assert!(operation["erasure"]["swept_ms"].is_u64(), "{operation}");
    assert!(server.terminate().await.success());
}
