//! The list of those who are not written to any more, and counts, by the real binary's own commands.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::fmt::Write as _;
use std::process::{Command, Output, Stdio};

use place::{Place, binary};
use pombo_testbed::Cluster;
use serde_json::Value;

/// Runs a command against the place's server: what it printed, and whether it succeeded.
async fn pombo(place: &Place, args: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(binary());
    command.args(args).env("POMBO_SERVER", place.url()).env("POMBO_API_KEY", place::KEY).stdin(Stdio::null());
    let run = tokio::task::spawn_blocking(move || command.output().unwrap());
    let Output { status, stdout, stderr } = run.await.unwrap();
    (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap(), status.code())
}

async fn json(place: &Place, args: &[&str]) -> Vec<Value> {
    let (said, wrong, code) = pombo(place, &[args, &["--json"]].concat()).await;
    assert_eq!(code, Some(0), "{args:?}: {said}{wrong}");
    serde_json::Deserializer::from_str(&said).into_iter().map(Result::unwrap).collect()
}

#[tokio::test] // REQ BK-8
async fn people_are_put_on_the_list_found_there_and_taken_off() {
    let place = Place::new();
    let _server = place.start();
    put_found_and_taken_off(&place).await;
}

#[tokio::test] // REQ BK-8
async fn people_are_put_on_the_list_and_taken_off_also_in_a_database_that_nodes_share() {
    let database = Cluster::shared().database();
    let (place, other) = (Place::new(), Place::new());
    let _servers = (place.start_on(database.url()), other.start_on(database.url()));
    other.ready().await;
    put_found_and_taken_off(&place).await;
    // Of nodes that put the same person on the list at once, one makes the entry, and all tell of it.
    let add = ["suppressions", "add", "ana@clinica.example", "--reason", "complaint"];
    let at_once =
        tokio::join!(json(&place, &add), json(&other, &add), json(&place, &add), json(&other, &add));
    let entries = [at_once.0, at_once.1, at_once.2, at_once.3].concat();
    assert!(entries.iter().all(|entry| *entry == entries[0]), "{entries:?}");
    assert_eq!(json(&other, &["suppressions", "list"]).await, [entries[0].clone()]);
}

async fn put_found_and_taken_off(place: &Place) {
    place.ready().await;
    let made = json(place, &["suppressions", "add", "(11) 98765-4321", "--reason", "opt_out"]).await;
    assert_eq!(
        (made[0]["kind"].as_str(), made[0]["recipient"].as_str()),
        (Some("whatsapp"), Some("+5511987654321"))
    );
    let (said, _, code) = pombo(place, &["suppressions", "check", "+55 11 8765-4321"]).await;
    assert!(said.starts_with("suppressed: opt_out"), "{said}");
    assert_eq!(code, Some(0));
    let (said, _, code) = pombo(place, &["suppressions", "check", "ana@clinica.example"]).await;
    assert_eq!((said.as_str(), code), ("not on the list\n", Some(1)));
    let (said, _, _) = pombo(place, &["suppressions", "list"]).await;
    assert!(said.contains("+5511987654321"), "{said}");
    let id = made[0]["id"].as_str().unwrap();
    assert_eq!(json(place, &["suppressions", "remove", id]).await[0]["removed"], true);
    let (_, said, code) = pombo(place, &["suppressions", "remove", id]).await;
    assert!(said.contains("NOT_FOUND"), "{said}");
    assert_eq!(code, Some(1));
    assert!(json(place, &["suppressions", "list"]).await.is_empty());
    for to in ["11 98765-4321", "ana@clinica.example"] {
        json(place, &["suppressions", "add", to]).await;
    }
    let written = ["suppressions", "remove", "--to", "+55 (11) 98765-4321"];
    let (_, said, code) = pombo(place, &[&written[..], &["--kind", "email"]].concat()).await;
    assert!(said.contains("not on the list") && code == Some(1), "{said}");
    assert_eq!(json(place, &written).await[0]["removed"], true);
    let left = json(place, &["suppressions", "list"]).await;
    assert_eq!((left.len(), left[0]["kind"].as_str()), (1, Some("email")));
}

#[tokio::test] // REQ BK-8
async fn a_file_of_customers_is_imported_as_a_spreadsheet_writes_it() {
    let place = Place::new();
    let _server = place.start();
    place.ready().await;
    let file = place.folder.path().join("clientes.csv");
    std::fs::write(&file, b"sep=;\r\nNome;Celular\r\nJo\xe3o;(11) 98765-4321\r\nEva;\r\n").unwrap();
    let (said, noted, code) = pombo(&place, &["suppressions", "import", file.to_str().unwrap()]).await;
    assert_eq!((said.trim(), code), ("1 added, 0 known before, 1 refused", Some(1)), "{noted}");
    assert!(noted.contains("line 4: there is no address: `Celular` is empty"), "{noted}");
    assert!(noted.contains("columns that say nothing here: Nome"), "{noted}");
    let (_, _, code) = pombo(&place, &["suppressions", "check", "+5511987654321"]).await;
    assert_eq!(code, Some(0));
}

#[tokio::test] // REQ BK-8
async fn a_file_of_many_lines_goes_in_comes_out_and_can_be_sent_again() {
    let place = Place::new();
    let _server = place.start();
    in_and_out(&place).await;
}

#[tokio::test] // REQ BK-8
async fn a_file_of_many_lines_goes_into_a_database_and_comes_out_of_it() {
    let database = Cluster::shared().database();
    let place = Place::new();
    let _server = place.start_on(database.url());
    in_and_out(&place).await;
}

async fn in_and_out(place: &Place) {
    const LINES: usize = 12_000;
    place.ready().await;
    let mut csv = "recipient,note\n".to_owned();
    for n in 0..LINES {
        match n {
            7_000 => csv.push_str("nobody,\n"),
            _ => writeln!(csv, "p{n}@clinica.example,\"a, {n}\"").unwrap(),
        }
    }
    let file = place.folder.path().join("bounces.csv");
    std::fs::write(&file, csv).unwrap();
    let import =
        ["suppressions", "import", file.to_str().unwrap(), "--kind", "email", "--reason", "hard_bounce"];
    let (said, wrong, code) = pombo(place, &import).await;
    assert_eq!((said.trim(), code), ("11999 added, 0 known before, 1 refused", Some(1)), "{wrong}");
    assert!(wrong.contains("line 7002: "), "as an editor counts: {wrong}");
    let (said, _, _) = pombo(place, &import).await;
    assert_eq!(said.trim(), "0 added, 11999 known before, 1 refused");
    let (list, _, code) = pombo(place, &["suppressions", "export"]).await;
    assert_eq!((list.lines().count(), code), (LINES, Some(0)), "a heading, and all but one");
    let all = json(place, &["suppressions", "list", "--kind", "email", "--all"]).await;
    assert_eq!(all.len(), LINES - 1);
}

#[tokio::test]
async fn stats_count_by_channel_and_in_all() {
    let place = Place::new();
    let _server = place.start();
    place.ready().await;
    let send = ["send", "--channel", "crm", "--to", "https://crm.invalid/x", "--content", "{\"body\": 1}"];
    let (said, wrong, code) = pombo(&place, &send).await;
    assert_eq!(code, Some(0), "{said}{wrong}");
    let stats = &json(&place, &["stats"]).await[0];
    assert_eq!(
        (stats["total"]["accepted"].as_u64(), stats["channels"]["crm"]["accepted"].as_u64()),
        (Some(1), Some(1))
    );
    let (said, _, _) = pombo(&place, &["stats"]).await;
    let rows: Vec<&str> = said.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(rows, ["CHANNEL", "crm", "all"], "{said}");
}
