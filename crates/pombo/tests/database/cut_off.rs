//! A node that cannot reach its database.

use pombo::client::{Client, Payload};
use pombo_channels::sandbox::Sandbox;
use pombo_testbed::{Cluster, Database, Proxy};
use serde_json::json;

use crate::place::{
    Place, Told, WORKERS, all_arrive_on, all_sent, drained, produce, read_database, read_trail, sealed, sink,
};
use crate::{PATIENCE, id_of, message, offer, unready, until};

/// What the two call themselves to whom they send.
const CUT_OFF: &str = "cut-off";
const OTHER: &str = "other";
/// Messages that wait when the network fails, and how long each takes: more than the other node sends before it takes
/// over, so that there is always something which the one that is cut off could send.
const WAITING: usize = 4_800;
const SLOW: &str = "/slow?ms=400";

/// A place whose node calls itself that.
fn place(name: &str) -> Place {
    let place = Place::new();
    let file = place.folder.path().join("pombo.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let named =
        config.replacen("kind = \"webhook\"\n", &format!("kind = \"webhook\"\nuser_agent = \"{name}\"\n"), 1);
    std::fs::write(&file, named).unwrap();
    place
}

/// Whether something counts as being sent by that node.
fn holds(database: &Database, node: &str) -> bool {
    database.ask(&format!("SELECT count(*) FROM pombo.claim WHERE node = {node}")) != "0"
}

/// Hands in so many messages, a hundred at a time; the ids.
async fn hand_in(client: &Client, to: &str, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    while ids.len() < count {
        let body = json!(vec![message(to); 100]);
        let answer = client.post("/v1/messages/batch", Payload::json(&body)).await.unwrap();
        ids.extend(answer["items"].as_array().unwrap().iter().map(id_of));
    }
    ids
}

/// Waits until so many requests more have come from that node.
async fn sends(sink: &Sandbox, node: &str, more: u64) {
    let before = sink.received_from(node);
    until("a node that sends", async || sink.received_from(node) >= before + more).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 49, REQ ML-3, ML-5
async fn a_node_that_a_silent_network_cuts_off_sends_no_more_and_its_late_results_change_nothing() {
    let database = Cluster::shared().database();
    let proxy = Proxy::start(Cluster::shared());
    let sink = sink().await;
    let (cut_off, other) = (place(CUT_OFF), place(OTHER));
    let cut_off_server = cut_off.start_on(&proxy.url(&database));
    cut_off.ready().await;
    until("its first sign of life", async || database.ask("SELECT count(*) FROM pombo.node") == "1").await;
    let node = database.ask("SELECT id FROM pombo.node");
    let other_server = other.start_on(database.url());
    other.ready().await;

    let mut ids = hand_in(&other.client(), &sink.url(SLOW), WAITING).await;
    // Somebody hands in at that node all the while: what it could not record must not come to be there twice.
    let told = Told::default();
    let urls = [sink.url(SLOW), sink.url("/flaky?fail=1")];
    let producer = tokio::spawn(produce(cut_off.client(), 0, urls, told.clone()));
    for name in [CUT_OFF, OTHER] {
        sends(&sink, name, 2 * WORKERS as u64).await;
    }
    proxy.silence();
    let before = sink.received_from(CUT_OFF);
    // What it had sent by then is not settled, since nothing of that gets through.
    assert!(holds(&database, &node), "it was in the middle of something");

    let silent = async || {
        let checks = unready(&cut_off).await.map(|refusal| refusal.rest["checks"].clone());
        let checks = checks.and_then(|checks| checks.as_array().cloned()).unwrap_or_default();
        checks.iter().any(|check| check["name"] == "engine" && check["ok"] == false)
    };
    until("it notices that it shows no sign of life", silent).await;
    let sent = sink.received_from(CUT_OFF);
    assert!(sent - before <= WORKERS as u64, "no more than it had claimed: {before}, then {sent}");
    let refused = offer(&cut_off.client(), &sink.url("/ok"), "nowhere").await.unwrap_err();
    assert!(format!("{refused:?}").contains("STORE_UNAVAILABLE"), "{refused:?}");

    let lease = format!(
        "SELECT count(*) FROM pombo.node WHERE id = {node} \
         AND lease_until > extract(epoch FROM clock_timestamp()) * 1000"
    );
    assert_eq!(database.ask(&lease), "1", "its lease holds for longer than it sends");
    until("its lease ends and the other takes over", async || !holds(&database, &node)).await;
    assert_eq!(database.ask(&lease), "0", "nobody takes over what is still somebody's");
    sends(&sink, OTHER, 2 * WORKERS as u64).await;
    assert_eq!(sink.received_from(CUT_OFF), sent, "it sends what may be somebody else's");

    proxy.pass();
    cut_off.ready().await;
    ids.extend(hand_in(&other.client(), &sink.url("/slow?ms=20"), 400).await);
    sends(&sink, CUT_OFF, WORKERS as u64).await;

    told.enough();
    ids.extend(tokio::time::timeout(PATIENCE, producer).await.unwrap().unwrap());
    drained(&other.client(), ids.len()).await;
    sealed(database.url()).await;
    for server in [cut_off_server, other_server] {
        assert!(server.terminate().await.success());
    }
    assert!(cut_off.said().contains("a result came too late"), "{}", cut_off.said());
    let trail = read_trail(database.url());
    assert!(ids.iter().all(|id| trail.sent.get(id) == Some(&1)), "one record of each that it was sent");
    assert!((1..=WORKERS).contains(&trail.takeovers.len()), "{} in doubt", trail.takeovers.len());
    let repeated = all_sent(&read_database(database.url(), &ids), &sink, &ids);
    assert!(repeated <= trail.takeovers.len(), "{repeated} came again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 41, 49
async fn a_node_whose_connections_are_cut_says_so_and_goes_on_by_itself_once_they_can_be_made() {
    const PRODUCERS: usize = 2;
    let database = Cluster::shared().database();
    let proxy = Proxy::start(Cluster::shared());
    let (sink, place) = (sink().await, Place::new());
    let server = place.start_on(&proxy.url(&database));
    place.ready().await;
    let told = Told::default();
    let urls = [sink.url("/slow?ms=3"), sink.url("/flaky?fail=1")];
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|name| tokio::spawn(produce(place.client(), name, urls.clone(), told.clone())))
        .collect();
    for cut in 0..3 {
        told.at_least(told.count() + 100).await;
        proxy.cut();
        until("it says that it cannot write", async || unready(&place).await.is_some()).await;
        let refused = offer(&place.client(), &sink.url("/ok"), &format!("cut-{cut}")).await.unwrap_err();
        assert!(format!("{refused:?}").contains("STORE_UNAVAILABLE"), "{refused:?}");
        proxy.pass();
    }
    let (ids, repeated) = all_arrive_on(&place, server, database.url(), &told, producers, &sink).await;
    assert!(ids.len() >= 300);
    assert_eq!(repeated, 0, "it was never gone for as long as its lease");
}
