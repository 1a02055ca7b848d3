//! Dead letters worked on with the real binary: by cause, with one that goes first, at a pace, and through a death.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pombo::client::{Client, Payload};
use pombo_testbed::Cluster;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

use place::{KEY, Place, Server, Trail, binary, drained, read_trail, read_trail_in, sealed};

/// A receiver that refuses everything, or takes everything, as it is told.
#[derive(Clone)]
struct Moody {
    address: SocketAddr,
    takes: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
}

impl Moody {
    async fn start() -> Moody {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let moody = Moody { address, takes: Arc::default(), asked: Arc::default() };
        let own = moody.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let moody = own.clone();
                tokio::spawn(async move { moody.talk(stream).await });
            }
        });
        moody
    }

    /// Answers one request after another, until the other side has had enough.
    async fn talk(&self, stream: TcpStream) -> Option<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let mut length = 0;
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).await.ok()? == 0 {
                    return None;
                }
                match line.trim_end().to_ascii_lowercase().split_once(": ") {
                    Some(("content-length", value)) => length = value.parse().ok()?,
                    _ if line.trim_end().is_empty() => break,
                    _ => {}
                }
            }
            stream.read_exact(&mut vec![0; length]).await.ok()?;
            self.asked.fetch_add(1, Ordering::SeqCst);
            let answer = match self.takes.load(Ordering::SeqCst) {
                true => "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
                false => "HTTP/1.1 400 Bad Request\r\ncontent-length: 18\r\n\r\nno such tenant yet",
            };
            stream.write_all(answer.as_bytes()).await.ok()?;
        }
    }

    fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }
}

/// Hands in that many messages, in batches.
async fn post(client: &Client, moody: &Moody, count: usize) {
    let message = |n| json!({"channel": "crm", "to": moody.url(), "content": {"body": n}, "reference": format!("r{n}")});
    for start in (0..count).step_by(500) {
        let batch: Vec<Value> = (start..count.min(start + 500)).map(message).collect();
        client.post("/v1/messages/batch", Payload::json(&json!(batch))).await.unwrap();
    }
}

async fn until(client: &Client, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let path = format!("/v1/operations/{id}");
    for _ in 0..1_500 {
        let operation = client.get(&path).await.unwrap();
        if is_so(&operation) {
            return operation;
        }
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
    panic!("not within a minute: {}", client.get(&path).await.unwrap());
}

async fn reprocess(client: &Client, wish: Value) -> String {
    let begun = client.post("/v1/dead-letters/reprocess", Payload::json(&wish)).await.unwrap();
    begun["id"].as_str().unwrap().to_owned()
}

/// Two thousand letters of one cause: held back by the one that goes first while they are refused; let go at a pace
/// when they are taken; and through a death of the process in the middle, each once.
async fn replay(place: &Place, start: impl Fn() -> Server) -> Server {
    const LETTERS: usize = 2_000;
    let moody = Moody::start().await;
    let server = start();
    place.ready().await;
    let client = place.client();
    post(&client, &moody, LETTERS).await;
    drained(&client, LETTERS).await;
    assert_eq!(moody.asked.load(Ordering::SeqCst), LETTERS);

    let groups = client.get("/v1/dead-letters/groups").await.unwrap();
    let groups = groups["items"].as_array().unwrap();
    assert_eq!((groups.len(), &groups[0]["count"]), (1, &json!(LETTERS)), "{groups:?}");
    let filter = json!({"cause": groups[0]["cause"]});

    let id = reprocess(&client, json!({"filter": filter})).await;
    let halted = until(&client, &id, |it| it["state"] != "running").await;
    assert_eq!(
        (&halted["state"], &halted["done"], &halted["total"]),
        (&json!("halted"), &json!(1), &json!(LETTERS))
    );
    assert!(halted["reason"].as_str().unwrap().contains("failed again by the same cause"), "{halted}");
    assert_eq!(moody.asked.load(Ordering::SeqCst), LETTERS + 1, "the others were left alone");

    moody.takes.store(true, Ordering::SeqCst);
    let id = reprocess(&client, json!({"filter": filter, "rate_per_minute": 30_000})).await;
    let running = until(&client, &id, |it| it["done"].as_u64() >= Some(100)).await;
    assert_eq!(running["state"], "running", "it is killed too late to show anything: {running}");
    server.kill();
    let server = start();
    place.ready().await;
    let done = until(&client, &id, |it| it["state"] != "running").await;
    assert_eq!(
        (&done["state"], &done["done"], &done["skipped"]),
        (&json!("done"), &json!(LETTERS), &json!(0))
    );
    // What a node was sending when it was killed is taken over from it, which may take a minute and a half.
    for _ in 0..1_000 {
        if client.get("/v1/stats").await.unwrap()["total"]["waiting"] == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    drained(&client, LETTERS).await;
    let left = client.get("/v1/dead-letters").await.unwrap();
    assert_eq!(left["items"], json!([]));
    server
}

/// Every letter went once, but for the one that went first in vain.
fn each_once(trail: &Trail) {
    assert_eq!(trail.reprocessed.len(), 2_000);
    let mut twice = trail.reprocessed.values().filter(|count| **count != 1);
    assert_eq!((twice.next(), twice.next()), (Some(&2), None));
    assert!(trail.sent.values().all(|count| *count == 1));
    assert_eq!(trail.sent.len(), 2_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ DL-2, DL-3, fault 36
async fn a_group_is_replayed_with_a_canary_at_a_pace_and_through_a_death_each_letter_once() {
    let place = Place::new();
    let server = replay(&place, || place.start()).await;
    assert!(server.terminate().await.success());
    each_once(&read_trail_in(&place.data()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ DL-2, DL-3, fault 36
async fn nodes_that_share_a_database_replay_a_group_each_letter_once() {
    let cluster = Cluster::shared();
    let database = cluster.database();
    let (place, other) = (Place::new(), Place::new());
    let beside = other.start_on(database.url());
    other.ready().await;
    let server = replay(&place, || place.start_on(database.url())).await;
    sealed(database.url()).await;
    assert!(server.terminate().await.success());
    assert!(beside.terminate().await.success());
    each_once(&read_trail(database.url()));
}

fn run(place: &Place, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(arguments).env("POMBO_SERVER", place.url()).env("POMBO_API_KEY", KEY);
    command.env("EDITOR", "sed -i s/wrong/right/").env_remove("VISUAL");
    command.output().unwrap()
}

fn said(place: &Place, arguments: &[&str]) -> String {
    let output = run(place, arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ DL-1
async fn an_operator_works_through_dead_letters_on_the_command_line() {
    let place = Place::new();
    let moody = Moody::start().await;
    let server = place.start();
    place.ready().await;
    let client = place.client();
    post(&client, &moody, 12).await;
    let odd = json!({"channel": "crm", "to": moody.url(), "content": {"body": "wrong"}, "reference": "odd"});
    let odd =
        client.post("/v1/messages", Payload::json(&odd)).await.unwrap()["id"].as_str().unwrap().to_owned();
    drained(&client, 13).await;

    let groups = said(&place, &["dead", "groups"]);
    assert!(groups.contains("13") && groups.contains("no such tenant yet"), "{groups}");
    let group: Value = serde_json::from_str(&said(&place, &["dead", "groups", "--json"])).unwrap();
    let cause = group["cause"].as_str().unwrap();
    assert_eq!(said(&place, &["dead", "list", "--group", cause, "--all", "--json"]).lines().count(), 13);
    let counted = said(&place, &["dead", "reprocess", "--group", cause, "--dry-run"]);
    assert!(counted.starts_with("13 dead letters to reprocess\n"), "{counted}");
    assert_eq!(run(&place, &["dead", "reprocess"]).status.code(), Some(2));

    let mut unseen = Command::new(binary());
    unseen.args(["dead", "edit", &odd]).env("POMBO_SERVER", place.url()).env("POMBO_API_KEY", KEY);
    unseen.env_remove("EDITOR").env_remove("VISUAL").stdin(Stdio::null());
    let unseen = unseen.output().unwrap();
    let told = String::from_utf8_lossy(&unseen.stderr).into_owned();
    assert_eq!(unseen.status.code(), Some(2), "{told}");
    assert!(told.contains("no terminal to edit in") && told.contains("--set"), "{told}");
    let edited = said(&place, &["dead", "edit", &odd, "--note", "typo"]);
    assert!(edited.contains("version 2"), "{edited}");
    said(&place, &["dead", "edit", &odd, "--set", "content.body=\"righter\"", "--note", "more"]);
    let shown: Value = serde_json::from_str(&said(&place, &["dead", "show", &odd, "--json"])).unwrap();
    assert_eq!((&shown["version"], &shown["content"]), (&json!(3), &json!({"body": "righter"})));
    assert_eq!(shown["revisions"][1]["content"], json!({"body": "right"}));
    let shown = said(&place, &["dead", "show", &odd]);
    assert!(shown.contains("version 1") && shown.contains("typo"), "{shown}");

    let unasked = run(&place, &["dead", "discard", "--all"]);
    assert_eq!(unasked.status.code(), Some(2), "nobody was there to be asked");
    let halted = run(&place, &["dead", "reprocess", "--group", cause, "--note", "try", "--yes"]);
    let text = String::from_utf8_lossy(&halted.stdout);
    assert_eq!(halted.status.code(), Some(1), "{text}");
    assert!(text.contains("halted") && text.contains("by the same cause"), "{text}");
    moody.takes.store(true, Ordering::SeqCst);
    let done = said(&place, &["dead", "reprocess", "--group", cause, "--json", "--yes"]);
    let done: Value = serde_json::from_str(&done).unwrap();
    assert_eq!((&done["state"], &done["done"]), (&json!("done"), &json!(13)));
    drained(&client, 13).await;
    let listed = said(&place, &["operations", "list"]);
    assert!(listed.contains("halted") && listed.contains("13 of 13"), "{listed}");
    let again = run(&place, &["dead", "discard", &odd]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("is sent"));

    moody.takes.store(false, Ordering::SeqCst);
    post(&client, &moody, 3).await;
    drained(&client, 3).await;
    let slow = said(&place, &["dead", "reprocess", "--all", "--rate", "1", "--detach", "--json", "--yes"]);
    let slow: Value = serde_json::from_str(&slow).unwrap();
    let id = slow["id"].as_str().unwrap();
    let cancelled = said(&place, &["operations", "cancel", id]);
    assert!(cancelled.contains("cancelled"), "{cancelled}");
    assert_eq!(run(&place, &["operations", "watch", id]).status.code(), Some(1));
    let newest =
        client.get("/v1/dead-letters?limit=1").await.unwrap()["items"][0]["id"].as_str().unwrap().to_owned();
    assert!(said(&place, &["messages", "retry", &newest, "--note", "now"]).contains("is tried now"));
    let tested: Value = serde_json::from_str(&said(&place, &["channels", "test", "crm", "--json"])).unwrap();
    assert_eq!(tested["ok"], Value::Null, "a webhook cannot be asked: {tested}");
    assert!(server.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ DL-3
async fn what_one_node_is_asked_for_others_do_by_their_roles() {
    let database = Cluster::shared().database();
    let (door, worker, scheduler) = (Place::new(), Place::new(), Place::new());
    let moody = Moody::start().await;
    let nodes = [(&door, "api"), (&worker, "worker"), (&scheduler, "scheduler")];
    let nodes = nodes.map(|(place, role)| (place, place.start_on_with(database.url(), &["--roles", role])));
    for (place, _) in &nodes {
        place.ready().await;
    }
    let client = door.client();
    let tested = client.post("/v1/channels/crm/test", Payload::default()).await.unwrap();
    assert!(
        tested["detail"].as_str().unwrap().contains("cannot be asked"),
        "within the door's patience: {tested}"
    );
    post(&client, &moody, 5).await;
    drained(&client, 5).await;
    moody.takes.store(true, Ordering::SeqCst);
    let id = reprocess(&client, json!({"filter": {"channel": "crm"}, "note": "back"})).await;
    let done = until(&client, &id, |it| it["state"] != "running").await;
    assert_eq!((&done["state"], &done["done"], &done["canary"]), (&json!("done"), &json!(5), &json!(0)));
    drained(&client, 5).await;
    sealed(database.url()).await;
    for (_, node) in nodes {
        assert!(node.terminate().await.success());
    }
    let trail = read_trail(database.url());
    assert_eq!((trail.reprocessed.len(), trail.sent.len()), (5, 5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ DL-1, fault 62
async fn of_operators_at_different_nodes_who_act_on_the_same_letters_one_wins_each() {
    let database = Cluster::shared().database();
    let (one, two) = (Place::new(), Place::new());
    let moody = Moody::start().await;
    let nodes = [&one, &two].map(|place| place.start_on(database.url()));
    one.ready().await;
    two.ready().await;
    let client = one.client();
    post(&client, &moody, 200).await;
    drained(&client, 200).await;
    let letters = client.get("/v1/dead-letters?limit=500").await.unwrap();
    let ids: Vec<&str> =
        letters["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 200);
    moody.takes.store(true, Ordering::SeqCst);
    // From both ends, so that they meet in the middle, in the opposite order.
    let begun = Barrier::new(2);
    let act = async |place: &Place, verb: &str, ids: Vec<&str>| {
        let (client, path) = (place.client(), format!("/v1/dead-letters/{verb}"));
        let mut results = Vec::new();
        for (nth, chunk) in ids.chunks(20).enumerate() {
            let wish = json!({"ids": chunk, "note": verb});
            let answer = client.post(&path, Payload::json(&wish)).await.unwrap();
            results.extend(answer["results"].as_array().unwrap().clone());
            if nth == 0 {
                begun.wait().await;
            }
        }
        results
    };
    let (sent, given_up) = tokio::join!(
        act(&one, "reprocess", ids.clone()),
        act(&two, "discard", ids.iter().rev().copied().collect())
    );
    let done = |results: &[Value]| -> Vec<String> {
        let done = results.iter().filter(|result| result["result"] == "done");
        done.map(|result| result["id"].as_str().unwrap().to_owned()).collect()
    };
    let (sent, given_up) = (done(&sent), done(&given_up));
    assert_eq!(sent.len() + given_up.len(), 200, "each letter has one end");
    assert!(
        !sent.is_empty() && !given_up.is_empty(),
        "they never met: {} and {}",
        sent.len(),
        given_up.len()
    );
    drained(&client, 200).await;
    for (ids, state) in [(&sent, "sent"), (&given_up, "discarded")] {
        for id in ids {
            assert_eq!(client.get(&format!("/v1/messages/{id}")).await.unwrap()["state"], state);
        }
    }
    for node in nodes {
        assert!(node.terminate().await.success());
    }
}
