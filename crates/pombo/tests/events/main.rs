//! Events from the outside: webhooks as other people's code verifies them, and the stream, under faults.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../place/mod.rs"]
mod place;
mod receiver;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use pombo::client::{Client, Payload};
use pombo_testbed::Cluster;
use serde_json::{Value, json};

use place::{KEY, Place, binary};
use receiver::Receiver;

/// A place whose messages are sent at once, and whose events are told soon again if they have to be.
fn place() -> Place {
    place_that_waits("30s")
}

/// The same for whoever wants to see what becomes of a receiver that takes longer.
fn place_that_waits(longest: &str) -> Place {
    let place = Place::new();
    let config = format!(
        "[channels.void]\nkind = \"null\"\n[channels.crm]\nkind = \"webhook\"\n\
        [events]\nallow_private = true\nattempt_timeout = \"{longest}\"\n\
        [policies.events]\ndelays = [\"100ms\", \"100ms\", \"200ms\", \"500ms\", \"500ms\", \"500ms\", \"1s\", \"1s\", \"1s\", \"1s\"]\n"
    );
    std::fs::write(place.folder.path().join("pombo.toml"), config).unwrap();
    place
}

async fn send(client: &Client, n: usize) -> String {
    let body = json!({"channel": "void", "to": "x", "content": {}, "reference": format!("order {n}")});
    client.post("/v1/messages", Payload::json(&body)).await.unwrap()["id"].as_str().unwrap().to_owned()
}

async fn subscribe(client: &Client, wish: &Value) -> Value {
    client.post("/v1/webhooks", Payload::json(wish)).await.unwrap()
}

async fn call(client: &Client, method: Method, path: &str, body: &Value) -> Value {
    client.parse(&client.call(method, path, Payload::json(body)).await.unwrap()).unwrap()
}

async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..1_500 {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not within 30 s: {what}");
}

fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key}: {value}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ ML-7, ML-10
async fn events_come_signed_so_that_the_official_libraries_verify_them_and_a_repeat_keeps_its_id() {
    let (mut python, mut node) = (Receiver::python(), Receiver::node());
    let place = place();
    let server = place.start();
    place.ready().await;
    let client = place.client();
    let first = subscribe(&client, &json!({"url": python.url("/flaky")})).await;
    let all = subscribe(&client, &json!({"url": node.url("/all"), "events": ["message.*"]})).await;
    python.believe(&first["secret"]).await;
    node.believe(&all["secret"]).await;
    let id = send(&client, 1).await;
    let blocked = json!({"channel": "crm", "to": "http://127.0.0.1:9/", "content": {}, "reference": "bad"});
    let bad = client.post("/v1/messages", Payload::json(&blocked)).await.unwrap();

    let received =
        python.until(|heard| heard.iter().filter(|it| it["status"] == 200).count() == 2, "both ends").await;
    assert_eq!(received.len(), 4, "each came again, once: {received:#?}");
    for kind in ["message.sent", "message.failed"] {
        let tries: Vec<&Value> = received.iter().filter(|it| it["event"]["type"] == kind).collect();
        assert_eq!(tries.len(), 2, "{kind}");
        assert_eq!(tries[0]["id"], tries[1]["id"], "the id stays the same over all tries");
        assert_eq!(tries[0]["event"], tries[1]["event"]);
        assert!(tries.iter().all(|it| it["verified"] == true), "{tries:#?}");
    }
    let sent = received.iter().find(|it| it["event"]["type"] == "message.sent").unwrap();
    assert_eq!(
        (word(&sent["event"]["data"], "id"), word(&sent["event"]["data"], "reference")),
        (id.as_str(), "order 1")
    );
    let failed =
        &received.iter().find(|it| it["event"]["type"] == "message.failed").unwrap()["event"]["data"];
    assert_eq!((&failed["id"], word(failed, "category")), (&bad["id"], "address_blocked"));

    let all =
        node.until(|heard| heard.iter().filter(|it| it["id"].is_string()).count() >= 6, "every step").await;
    let told = |reference: &str| {
        let of = all.iter().filter(|it| it["event"]["data"]["reference"] == reference);
        of.map(|it| word(&it["event"], "type").to_owned()).collect::<BTreeSet<_>>()
    };
    let names = |names: [&str; 3]| names.map(str::to_owned).into();
    assert_eq!(told("order 1"), names(["message.accepted", "message.sending", "message.sent"]));
    assert_eq!(told("bad"), names(["message.accepted", "message.sending", "message.failed"]));
    assert!(all.iter().all(|it| it["verified"] == true), "{all:#?}");
    assert_eq!(all.iter().map(|it| word(it, "id")).collect::<BTreeSet<_>>().len(), all.len());

    // What becomes of an event is no event for anybody.
    let deliveries = client.get("/v1/messages?channel=events&limit=500").await.unwrap();
    assert_eq!(deliveries["items"].as_array().unwrap().len(), 8, "{deliveries}");
    assert!(server.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ ML-7
async fn a_receiver_that_is_slow_is_tried_again_and_one_that_is_gone_is_left_alone() {
    let mut receiver = Receiver::python();
    let place = place_that_waits("1s");
    let server = place.start();
    place.ready().await;
    let client = place.client();
    let slow = subscribe(&client, &json!({"url": receiver.url("/slow"), "events": ["message.sent"]})).await;
    receiver.believe(&slow["secret"]).await;
    send(&client, 1).await;
    let tries = receiver
        .until(|heard| heard.iter().filter(|it| it["path"] == "/slow").count() == 2, "another try")
        .await;
    assert_eq!(tries[0]["id"], tries[1]["id"]);
    assert!(tries.iter().all(|it| it["verified"] == true), "{tries:#?}");
    let path = format!("/v1/webhooks/{}", word(&slow, "id"));
    client.call(Method::DELETE, &path, Payload::default()).await.unwrap();

    let gone = subscribe(&client, &json!({"url": receiver.url("/gone"), "events": ["message.sent"]})).await;
    send(&client, 2).await;
    let path = format!("/v1/webhooks/{}", word(&gone, "id"));
    let disabled = until("it is disabled", async || {
        let shown = client.get(&path).await.unwrap();
        (shown["enabled"] == false).then_some(shown)
    })
    .await;
    assert!(word(&disabled, "disabled_reason").contains("410"), "{disabled}");
    let came = receiver.received().len();
    let unheard = format!("/v1/messages/{}", send(&client, 3).await);
    until("it is sent, and nobody is told", async || {
        (client.get(&unheard).await.unwrap()["state"] == "sent").then_some(())
    })
    .await;
    // It is enabled again, and told of what happens from then on.
    call(&client, Method::PATCH, &path, &json!({"enabled": true, "url": receiver.url("/ok")})).await;
    receiver.believe(&gone["secret"]).await;
    send(&client, 4).await;
    let later = receiver.until(|heard| heard.iter().any(|it| it["path"] == "/ok"), "it goes on").await;
    assert_eq!(later.len(), came + 1, "what happened meanwhile was not told: {later:#?}");
    assert_eq!(word(&later[came]["event"]["data"], "reference"), "order 4");
    assert!(server.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ ML-7
async fn a_new_address_and_secret_take_effect_for_what_waits_and_a_removed_webhook_makes_dead_letters() {
    let mut receiver = Receiver::python();
    let place = place();
    let server = place.start();
    place.ready().await;
    let client = place.client();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let wish = json!({"url": format!("http://{nobody}/"), "events": ["message.sent"]});
    let webhook = subscribe(&client, &wish).await;
    let path = format!("/v1/webhooks/{}", word(&webhook, "id"));
    send(&client, 1).await;
    let waiting = until("an event waits for another try", async || {
        let found = client.get("/v1/messages?channel=events").await.unwrap();
        found["items"].as_array().unwrap().iter().find(|it| it["attempt_count"] != 0).cloned()
    })
    .await;
    let listed = client.get("/v1/messages").await.unwrap();
    let listed = listed["items"].as_array().unwrap().clone();
    assert!(!listed.is_empty() && listed.iter().all(|it| it["channel"] != "events"), "{listed:?}");
    assert_eq!(waiting["to"], webhook["id"]);
    let rotated =
        call(&client, Method::POST, &format!("{path}/rotate-secret"), &json!({"overlap": "1h"})).await;
    receiver.believe(&webhook["secret"]).await;
    call(&client, Method::PATCH, &path, &json!({"url": receiver.url("/ok")})).await;
    let came = receiver
        .until(|heard| heard.iter().any(|it| it["path"] == "/ok"), "it comes to the new address")
        .await;
    assert_eq!((&came[0]["id"], &came[0]["verified"]), (&waiting["id"], &json!(true)), "with the old secret");
    assert_eq!(came[0]["signatures"], 2);
    receiver.believe(&rotated["secret"]).await;
    send(&client, 2).await;
    let came =
        receiver.until(|heard| heard.iter().filter(|it| it["path"] == "/ok").count() == 2, "the next").await;
    assert_eq!(came[1]["verified"], true, "with the new one");

    let other = subscribe(&client, &wish).await;
    let path = format!("/v1/webhooks/{}", word(&other, "id"));
    send(&client, 3).await;
    until("an event waits", async || {
        let waiting = format!("/v1/messages?state=pending&recipient={}", word(&other, "id"));
        let found = client.get(&waiting).await.unwrap();
        (found["items"].as_array().unwrap().len() == 1).then_some(())
    })
    .await;
    client.call(Method::DELETE, &path, Payload::default()).await.unwrap();
    let dead = until("it is a dead letter", async || {
        let found = client.get("/v1/messages?channel=events&state=failed").await.unwrap();
        found["items"].as_array().unwrap().first().cloned()
    })
    .await;
    assert_eq!(word(&dead["last_error"], "category"), "webhook_removed", "{dead}");
    assert_eq!(dead["failure_reason"], "permanent_error");
    assert!(server.terminate().await.success());
}

/// Every event that was chosen came, each under one id of its own, however often; says which messages they are about.
fn told_once(received: &[Value], kind: &str) -> BTreeSet<String> {
    let mut ids: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
    for it in received {
        assert_eq!(it["verified"], true, "{it}");
        assert_eq!(word(&it["event"], "type"), kind);
        ids.entry(it["event"]["position"].as_u64().unwrap()).or_default().insert(word(it, "id"));
    }
    assert!(ids.values().all(|ids| ids.len() == 1), "an event came under several ids: {ids:?}");
    assert_eq!(
        ids.values().flatten().collect::<BTreeSet<_>>().len(),
        ids.len(),
        "an id stands for several events"
    );
    received.iter().map(|it| word(&it["event"]["data"], "id").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ ML-7, ML-10, promise 1
async fn every_event_arrives_at_least_once_though_the_server_is_killed_again_and_again() {
    let mut receiver = Receiver::python();
    let place = place();
    let mut server = place.start();
    place.ready().await;
    let client = place.client();
    let webhook =
        subscribe(&client, &json!({"url": receiver.url("/some"), "events": ["message.sent"]})).await;
    receiver.believe(&webhook["secret"]).await;
    let mut sent = BTreeSet::new();
    for round in 0..4 {
        for n in 0..40 {
            sent.insert(send(&client, 100 * round + n).await);
        }
        // Somewhere between taking them in, telling of them and noting how far that has come; or before any of that.
        if round % 2 == 0 {
            let enough = sent.len() / 2;
            let some = |heard: &[Value]| heard.iter().filter(|it| it["id"].is_string()).count() >= enough;
            receiver.until(some, "some of them").await;
        }
        server.kill();
        server = place.start();
        place.ready().await;
    }
    let all = |heard: &[Value]| {
        let taken = heard.iter().filter(|it| it["status"] == 200);
        taken.map(|it| word(&it["event"]["data"], "id")).collect::<BTreeSet<_>>().len() == sent.len()
    };
    let received = receiver.until(all, "all of them").await;
    assert_eq!(told_once(&received, "message.sent"), sent);
    assert!(server.terminate().await.success());
}

/// `pombo events --json` as it goes on, line by line.
fn follow(place: &Place) -> (std::process::Child, Arc<Mutex<Vec<Value>>>) {
    let mut child = Command::new(binary())
        .args(["events", "--after", "-1", "--json", "--server", &place.url()])
        .env("POMBO_API_KEY", KEY)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines: Arc<Mutex<Vec<Value>>> = Arc::default();
    let (reader, kept) = (BufReader::new(child.stdout.take().unwrap()), Arc::clone(&lines));
    std::thread::spawn(move || {
        for line in reader.lines().map_while(Result::ok) {
            kept.lock().unwrap().push(serde_json::from_str(&line).unwrap());
        }
    });
    (child, lines)
}

/// From the first event of all on, none is missing and none came twice.
fn assert_no_gap(told: &Mutex<Vec<Value>>) {
    let told = told.lock().unwrap();
    let positions: Vec<u64> = told.iter().map(|it| it["position"].as_u64().unwrap()).collect();
    assert_eq!(positions, (0..told.len() as u64).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ ML-7
async fn a_follower_goes_on_over_restarts_without_a_gap() {
    let place = place();
    let mut server = place.start();
    place.ready().await;
    let client = place.client();
    let (mut follower, told) = follow(&place);
    let mut last = String::new();
    for round in 0..3 {
        for n in 0..50 {
            last = send(&client, 100 * round + n).await;
        }
        if round < 2 {
            match round {
                0 => server.kill(),
                _ => assert!(server.terminate().await.success(), "a stream does not keep it from ending"),
            }
            server = place.start();
            place.ready().await;
        }
    }
    let sent = |it: &&Value| it["type"] == "message.sent";
    until("the last message is told of", async || {
        let told = told.lock().unwrap();
        let of_last = told.iter().filter(sent).any(|it| it["data"]["id"] == last.as_str());
        (of_last && told.iter().filter(sent).count() == 150).then_some(())
    })
    .await;
    assert_no_gap(&told);
    follower.kill().unwrap();
    follower.wait().unwrap();
    assert!(server.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_can_be_looked_after_from_the_command_line() {
    let mut receiver = Receiver::python();
    let place = place();
    let server = place.start();
    place.ready().await;
    let run = |arguments: &[&str]| {
        let run = Command::new(binary())
            .arg("webhooks")
            .args(arguments)
            .args(["--server", &place.url()])
            .env("POMBO_API_KEY", KEY)
            .output()
            .unwrap();
        let (out, err) = (String::from_utf8(run.stdout).unwrap(), String::from_utf8(run.stderr).unwrap());
        (run.status.code(), out, err)
    };
    let json = |arguments: &[&str]| {
        let (code, out, err) = run(&[arguments, &["--json"]].concat());
        assert_eq!(code, Some(0), "{err}");
        serde_json::from_str::<Value>(&out).unwrap_or(Value::Null)
    };
    assert!(run(&["list"]).2.contains("webhooks create"));
    let made = json(&["create", &receiver.url("/ok"), "--event", "message.*", "--description", "CRM"]);
    let id = word(&made, "id");
    receiver.believe(&made["secret"]).await;
    let listed = run(&["list"]).1;
    assert!(listed.contains(id) && listed.contains("message.*") && listed.contains("enabled"), "{listed}");
    let shown = run(&["show", id]).1;
    assert!(shown.contains("CRM") && !shown.contains("whsec_"), "{shown}");
    let tested = json(&["test", id]);
    let came = receiver.until(|heard| heard.iter().any(|it| it["id"].is_string()), "the test").await;
    assert_eq!((&came[0]["id"], &came[0]["verified"]), (&tested["message_id"], &json!(true)));
    assert_eq!(word(&came[0]["event"], "type"), "webhook.test");
    assert_eq!(json(&["set", id, "--disable"])["enabled"], false);
    assert!(run(&["show", id]).1.contains("switched off"));
    assert_eq!(
        json(&["set", id, "--enable", "--event", "message.failed"])["events"],
        json!(["message.failed"])
    );
    assert_eq!(run(&["set", id]).0, Some(2));
    let (code, rotated, _) = run(&["rotate", id, "--overlap", "1h"]);
    assert!(code == Some(0) && rotated.contains("secret: whsec_") && rotated.contains("until"), "{rotated}");
    assert_eq!(run(&["delete", id]).0, Some(0));
    assert_eq!(run(&["show", id]).0, Some(1));
    assert!(server.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ ML-10
async fn nodes_that_share_a_database_tell_of_each_event_once() {
    let cluster = Cluster::shared();
    let database = cluster.database();
    let mut receiver = Receiver::python();
    let (one, two) = (place(), place());
    let servers = [one.start_on(database.url()), two.start_on(database.url())];
    one.ready().await;
    two.ready().await;
    let wish = json!({"url": receiver.url("/ok"), "events": ["message.sent"]});
    let webhook = subscribe(&one.client(), &wish).await;
    receiver.believe(&webhook["secret"]).await;
    let (mut follower, told) = follow(&two);
    let (one_client, two_client) = (one.client(), two.client());
    let mut sent = BTreeSet::new();
    for n in 0..50 {
        sent.insert(send(&one_client, n).await);
        sent.insert(send(&two_client, 100 + n).await);
    }
    let all = |heard: &[Value]| {
        let about = heard.iter().filter_map(|it| it["event"]["data"]["id"].as_str());
        about.collect::<BTreeSet<_>>().len() == sent.len()
    };
    let received = receiver.until(all, "all of them").await;
    assert_eq!(told_once(&received, "message.sent"), sent);
    assert_eq!(received.len(), sent.len(), "and none twice, since nobody died");
    // Whichever node is asked tells of all of them, in one order.
    until("a follower of one node hears of both", async || {
        let told = told.lock().unwrap();
        let about = told.iter().filter(|it| it["type"] == "message.sent" && it["data"]["channel"] == "void");
        (about.count() == sent.len()).then_some(())
    })
    .await;
    assert_no_gap(&told);
    follower.kill().unwrap();
    follower.wait().unwrap();
    for server in servers {
        assert!(server.terminate().await.success());
    }
}
