//! `pombo audit` as an operator types it, on stores that somebody has tampered with behind Pombo's back.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use pombo::client::Payload;
use pombo_kernel::time::Time;
use pombo_store::audit::Tip;
use pombo_testbed::{Cluster, Database};
use rusqlite::{Connection, params};
use serde_json::{Value, json};

use place::{KEY, Place, Server, drained, sealed, sink};

/// The secret key of the first test in RFC 8032, 7.1, and its public key.
const PEM: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n";
const PUBLIC: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
const OTHER_PUBLIC: &str = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";

const MESSAGES: usize = 30;

fn audit(place: &Place, arguments: &[&str]) -> Output {
    let mut command = Command::new(place::binary());
    command
        .arg("audit")
        .args(arguments)
        .env("POMBO_API_KEY", KEY)
        .env("POMBO_SERVER", place.url())
        .stdin(Stdio::null());
    command.current_dir(place.folder.path());
    for name in ["POMBO_DATA", "POMBO_DATABASE_URL", "POMBO_CONFIG"] {
        command.env_remove(name);
    }
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What it says on standard output, as it should.
fn done(place: &Place, arguments: &[&str]) -> String {
    let output = audit(place, arguments);
    assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// What `verify` finds: its exit code must agree.
fn verified(place: &Place, arguments: &[&str]) -> Value {
    let output = audit(place, &[&["verify", "--json"], arguments].concat());
    let found: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", text(&output.stdout), text(&output.stderr)));
    let whole = found["faults"].as_array().unwrap().is_empty();
    assert_eq!(output.status.code(), Some(i32::from(!whole)), "{found}");
    found
}

/// The faults that `verify` finds, in a line.
fn faults(place: &Place, arguments: &[&str]) -> String {
    let found = verified(place, arguments);
    let faults: Vec<&str> =
        found["faults"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    faults.join("\n")
}

fn configure(place: &Place) {
    let file = place.folder.path().join("pombo.toml");
    let config = fs::read_to_string(&file).unwrap();
    let more =
        "[audit]\nanchor_records = 20\nsigning_key_file = 'audit.key'\nanchors_file = 'anchors.ndjson'\n";
    fs::write(file, config + more).unwrap();
    fs::write(place.folder.path().join("audit.key"), PEM).unwrap();
}

/// Sends messages, and waits until the chain was signed twice and nothing more happens.
async fn worked(place: &Place) {
    let sink = sink().await;
    place.ready().await;
    let client = place.client();
    for n in 0..MESSAGES {
        let body = json!({"channel": "crm", "to": sink.url("/ok"), "content": {"body": n}, "reference": format!("order {n}")});
        client.post("/v1/messages", Payload::json(&body)).await.unwrap();
        if n == MESSAGES / 2 {
            anchored(place, 1).await;
        }
    }
    drained(&client, MESSAGES).await;
    anchored(place, 2).await;
}

async fn anchored(place: &Place, count: usize) {
    for _ in 0..600 {
        let page = place.client().get("/v1/audit/anchors").await.unwrap();
        let copied = fs::read_to_string(copies(place)).unwrap_or_default().lines().count();
        if page["items"].as_array().unwrap().len() >= count && copied >= count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the chain was not signed {count} times: {}", place.said());
}

fn copies(place: &Place) -> PathBuf {
    place.folder.path().join("anchors.ndjson")
}

/// Whatever somebody does to a store: what it is called, how, and what `verify` must say of it.
struct Tampering<'a, S> {
    name: &'static str,
    deed: &'a dyn Fn(&S),
    said: &'static [&'static str],
}

fn row(db: &Connection, sequence: i64) -> (i64, i64, i64, Vec<u8>, Vec<u8>) {
    let sql = "SELECT position, at, count, hash, entries FROM audit WHERE sequence = ?1";
    db.query_row(sql, [sequence], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)))
        .unwrap()
}

fn blocks(db: &Connection) -> i64 {
    db.query_row("SELECT count(*) FROM audit", [], |row| row.get(0)).unwrap()
}

/// Changes a letter in the records of a block.
fn edited(db: &Connection, sequence: i64) {
    let (_, _, _, _, mut entries) = row(db, sequence);
    let at = entries.windows(3).position(|window| window == b"crm").unwrap();
    entries[at] = b'k';
    db.execute("UPDATE audit SET entries = ?2 WHERE sequence = ?1", params![sequence, entries]).unwrap();
}

/// Seals everything from a block on anew, as one who knows the format can.
fn sealed_anew(db: &Connection, from: i64) {
    let tip = |sequence: i64| {
        let (position, _, count, hash, _) = row(db, sequence);
        let position = u64::try_from(position + count).unwrap();
        Tip { sequence: u64::try_from(sequence + 1).unwrap(), position, hash: hash.try_into().unwrap() }
    };
    let mut tip = tip(from - 1);
    for sequence in from..blocks(db) {
        let (_, at, count, _, entries) = row(db, sequence);
        let (block, next) = tip.seal_encoded(entries, u32::try_from(count).unwrap(), Time::from_millis(at));
        db.execute("UPDATE audit SET hash = ?2 WHERE sequence = ?1", params![sequence, block.hash]).unwrap();
        tip = next;
    }
}

/// A block of a message of the channel `crm`.
fn some_block(db: &Connection) -> i64 {
    (5..blocks(db)).find(|sequence| row(db, *sequence).4.windows(3).any(|window| window == b"crm")).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ AU-1
async fn whatever_is_done_to_a_file_behind_pombos_back_is_found() {
    let place = Place::new();
    configure(&place);
    let server = place.start();
    worked(&place).await;
    // Beside the server, and through it.
    let data = place.data();
    let config = place.folder.path().join("pombo.toml");
    let with = |data: &Path| {
        ["--data", data.to_str().unwrap(), "--config", config.to_str().unwrap()].map(str::to_owned)
    };
    let found = |data: &Path, more: &[&str]| {
        let with = with(data);
        let with: Vec<&str> = with.iter().map(String::as_str).collect();
        faults(&place, &[&with[..], more].concat())
    };
    assert_eq!(found(&data, &[]), "");
    assert_eq!(faults(&place, &["--remote"]), "");
    assert!(server.terminate().await.success());
    let whole = verified(&place, &["--data", data.to_str().unwrap(), "--public-key", PUBLIC]);
    assert!(whole["anchors"]["by_key"][PUBLIC].as_u64().unwrap() >= 2, "{whole}");
    assert!(whole["records"].as_u64().unwrap() > 3 * MESSAGES as u64, "{whole}");
    assert!(
        found(&data, &["--public-key", OTHER_PUBLIC]).contains("no anchor is signed by a key that was named")
    );

    let cases: [Tampering<'_, Connection>; 10] = [
        Tampering {
            name: "edit",
            deed: &|db| edited(db, some_block(db)),
            said: &["its records are not the ones that were written"],
        },
        Tampering {
            name: "edit, and seal everything anew",
            deed: &|db| {
                let block = some_block(db);
                edited(db, block);
                sealed_anew(db, block);
            },
            said: &[
                "anchor 1: the chain up to block",
                "anchor 2: the chain up to block",
                "is not the one that was there",
            ],
        },
        Tampering {
            name: "delete a block",
            deed: &|db| {
                db.execute("DELETE FROM audit WHERE sequence = 7", []).unwrap();
            },
            said: &["audit block 8: a block is missing, or out of its place"],
        },
        Tampering {
            name: "delete a record of a block",
            deed: &|db| {
                db.execute("UPDATE audit SET entries = x'', count = 0 WHERE sequence = 7", []).unwrap();
            },
            said: &["audit block 7: its records are not the ones that were written"],
        },
        Tampering {
            name: "reorder the records of two blocks",
            deed: &|db| {
                let (a, b) = (row(db, 7), row(db, 8));
                for (sequence, (_, at, count, hash, entries)) in [(7, b), (8, a)] {
                    let sql =
                        "UPDATE audit SET at = ?2, count = ?3, hash = ?4, entries = ?5 WHERE sequence = ?1";
                    db.execute(sql, params![sequence, at, count, hash, entries]).unwrap();
                }
            },
            said: &["audit block 7: its records are not the ones that were written"],
        },
        Tampering {
            name: "reorder the blocks themselves",
            deed: &|db| {
                db.execute_batch(
                    "UPDATE audit SET sequence = -1 WHERE sequence = 7; UPDATE audit SET sequence = 7 WHERE sequence = 8;
                     UPDATE audit SET sequence = 8 WHERE sequence = -1",
                )
                .unwrap();
            },
            said: &["audit block 7: a block is missing, or out of its place"],
        },
        Tampering {
            name: "truncate",
            deed: &|db| {
                db.execute("DELETE FROM audit WHERE sequence >= 12", []).unwrap();
            },
            said: &["the chain ends before it:", "records were cut off"],
        },
        Tampering {
            name: "cut off what came after the last anchor",
            deed: &|db| {
                db.execute("DELETE FROM audit WHERE sequence = ?1", [blocks(db) - 1]).unwrap();
            },
            said: &["the end that is written in pombo.tip: the chain ends before it: 1 blocks"],
        },
        Tampering {
            name: "truncate, and take the anchors out of the store as well",
            deed: &|db| {
                db.execute_batch("DELETE FROM audit WHERE sequence >= 12; DELETE FROM doc WHERE shelf = 10")
                    .unwrap();
            },
            said: &["anchors.ndjson: the chain ends before it:", "records were cut off"],
        },
        Tampering {
            name: "truncate, and change what the anchors say",
            deed: &|db| {
                db.execute("DELETE FROM audit WHERE sequence >= 12", []).unwrap();
                let sql = "UPDATE doc SET body = json_set(body, '$.sequence', 12) WHERE shelf = 10";
                db.execute(sql, []).unwrap();
            },
            said: &["it is not signed by the key that it names, or was changed"],
        },
    ];
    for (nth, Tampering { name, deed, said }) in cases.into_iter().enumerate() {
        let copy = place.folder.path().join(format!("copy-{nth}"));
        fs::create_dir(&copy).unwrap();
        for file in fs::read_dir(&data).unwrap().map(Result::unwrap).filter(|file| file.path().is_file()) {
            fs::copy(file.path(), copy.join(file.file_name())).unwrap();
        }
        assert_eq!(found(&copy, &[]), "", "before: {name}");
        deed(&Connection::open(copy.join("pombo.db")).unwrap());
        let faults = found(&copy, &[]);
        for said in said {
            assert!(faults.contains(said), "{name}: {said} in {faults}");
        }
        if name == "truncate" {
            // A chain that was cut off holds by itself; whoever has no anchor cannot know.
            assert!(!faults.contains("audit block"), "{faults}");
            let server = place.start_with(Command::new(place::binary()), &copy);
            place.ready().await;
            noticed(&place, server).await;
        }
    }
}

/// A server that starts on a chain that was cut off says so.
async fn noticed(place: &Place, server: Server) {
    for _ in 0..600 {
        if place.said().contains("the audit chain does not hold") {
            assert!(server.terminate().await.success());
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("nobody noticed: {}", place.said());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ AU-1
async fn whatever_a_superuser_does_to_a_database_behind_pombos_back_is_found() {
    let cluster = Cluster::shared();
    let (place, database) = (Place::new(), cluster.database());
    configure(&place);
    let server = place.start_on(database.url());
    worked(&place).await;
    sealed(database.url()).await;
    let config = place.folder.path().join("pombo.toml");
    let found = |database: &Database, more: &[&str]| {
        let with = ["--database-url", database.url(), "--config", config.to_str().unwrap()];
        faults(&place, &[&with[..], more].concat())
    };
    assert_eq!(found(&database, &[]), "");
    assert_eq!(faults(&place, &["--remote", "--public-key", PUBLIC]), "");
    assert!(server.terminate().await.success());
    sealed(database.url()).await;

    // Where the chain ends is written down once more; one who knows changes that, too.
    const CUT: &str = "DELETE FROM pombo.audit WHERE sequence >= 12;
        UPDATE pombo.audit_tip SET sequence = 12, position = r.position + r.count, hash = r.hash
        FROM (SELECT * FROM pombo.audit WHERE sequence = 11) AS r";
    let cases: [Tampering<'_, Database>; 6] = [
        Tampering {
            name: "edit",
            deed: &|db| {
                db.ask(
                    "UPDATE pombo.audit SET entries = set_byte(entries, 30, get_byte(entries, 30) # 1) WHERE sequence = 7",
                );
            },
            said: &["audit block 7: its records are not the ones that were written"],
        },
        Tampering {
            name: "delete",
            deed: &|db| {
                db.ask("DELETE FROM pombo.audit WHERE sequence = 7");
            },
            said: &["audit block 8: a block is missing, or out of its place"],
        },
        Tampering {
            name: "reorder",
            deed: &|db| {
                db.ask(
                    "UPDATE pombo.audit AS a SET entries = b.entries, count = b.count, at = b.at, hash = b.hash
                     FROM pombo.audit AS b WHERE (a.sequence, b.sequence) IN ((7, 8), (8, 7))",
                );
            },
            said: &["audit block 7: its records are not the ones that were written"],
        },
        Tampering {
            name: "truncate",
            deed: &|db| {
                db.ask("DELETE FROM pombo.audit WHERE sequence >= 12");
            },
            said: &[
                "the end that is written in audit_tip: the chain ends before it:",
                "anchor 2: the chain ends before it:",
            ],
        },
        Tampering {
            name: "truncate, and say that it ends there",
            deed: &|db| {
                db.ask(CUT);
            },
            said: &["anchor 2: the chain ends before it:"],
        },
        Tampering {
            name: "truncate, and take the anchors out of the store as well",
            deed: &|db| {
                db.ask(CUT);
                db.ask("DELETE FROM pombo.doc WHERE shelf = 10");
            },
            said: &["anchors.ndjson: the chain ends before it:"],
        },
    ];
    for Tampering { name, deed, said } in cases {
        let copy = cluster.database_from(&database);
        assert_eq!(found(&copy, &[]), "", "before: {name}");
        deed(&copy);
        let faults = found(&copy, &[]);
        for said in said {
            assert!(faults.contains(said), "{name}: {said} in {faults}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ AU-1
async fn records_and_anchors_are_listed_and_exported_as_an_operator_types_it() {
    let place = Place::new();
    configure(&place);
    let server = place.start();
    worked(&place).await;
    let listed = done(&place, &["list", "--claim", "order 3"]);
    for word in ["sent", "claimed", "accepted", "msg_", "crm"] {
        assert!(listed.contains(word), "{word}: {listed}");
    }
    let lines =
        |text: &str| -> Vec<Value> { text.lines().map(|line| serde_json::from_str(line).unwrap()).collect() };
    let all = lines(&done(&place, &["list", "--all", "--json"]));
    assert!(all.len() > 3 * MESSAGES && all[0]["position"].as_u64() > all[1]["position"].as_u64());
    assert_eq!(
        lines(&done(&place, &["list", "--event", "sent", "--since", "1h", "--limit", "7", "--json"])).len(),
        7
    );
    let none = audit(&place, &["list", "--until", "30d"]);
    assert!(none.status.success() && text(&none.stderr).contains("there is no such record"), "{none:?}");
    let refused = audit(&place, &["list", "--event", "flown", "--json"]);
    let said: Value = serde_json::from_slice(&refused.stderr).unwrap();
    assert_eq!((refused.status.code(), &said["code"]), (Some(1), &json!("INVALID_FIELD")), "{said}");

    let exported = lines(&done(&place, &["export", "--event", "message.sent"]));
    assert_eq!(exported.len(), MESSAGES);
    assert!(exported.iter().all(|line| line["block"].is_u64() && line["hash"].as_str().unwrap().len() == 64));
    let file = place.folder.path().join("audit.csv");
    let said =
        done(&place, &["export", "--format", "csv", "--event", "sent", "--output", file.to_str().unwrap()]);
    assert!(said.starts_with(&format!("{MESSAGES} records are in ")), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), MESSAGES + 1);
    let taken = lines(&done(&place, &["list", "--event", "data.exported", "--json"]));
    assert_eq!(taken.len(), 2, "{taken:?}");

    // What is listed is what is kept, and can be kept elsewhere.
    let anchors = done(&place, &["anchors", "--all", "--json"]);
    assert!(done(&place, &["anchors"]).contains(PUBLIC));
    let elsewhere = place.folder.path().join("elsewhere.ndjson");
    fs::write(&elsewhere, &anchors).unwrap();
    assert_eq!(
        faults(&place, &["--remote", "--anchors", elsewhere.to_str().unwrap(), "--public-key", PUBLIC]),
        ""
    );
    let forged = anchors.replacen("\"position\":", "\"position\":1", 1);
    fs::write(&elsewhere, forged + "no anchor\n").unwrap();
    let faults = faults(&place, &["--remote", "--anchors", elsewhere.to_str().unwrap()]);
    assert!(faults.contains("was changed") && faults.contains("lines are no anchors"), "{faults}");
    let shown = audit(&place, &["verify", "--remote"]);
    let shown = text(&shown.stdout);
    assert!(shown.contains("by the key") && shown.contains("the audit is whole"), "{shown}");
    assert!(server.terminate().await.success());
}
