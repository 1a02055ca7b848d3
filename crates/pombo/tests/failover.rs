//! A PostgreSQL that fails over under two real nodes, and one that would lose something if it did.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::time::Duration;

use pombo::client::{ClientError, Payload};
use pombo::clock::SystemClock;
use pombo_channels::sandbox::Sandbox;
use pombo_kernel::time::Clock as _;
use pombo_testbed::{Cluster, Patroni};
use serde_json::json;

use place::{Place, Told, WORKERS, all_sent, drained, produce, read_database, sealed, sink};

/// What a node says of a server with standbys that no commit waits for.
const MAY_LOSE: &str = "commits wait for none";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ ML-1, ML-4, faults 41, 42
async fn a_failover_loses_nothing_that_was_acknowledged_and_the_nodes_follow_by_themselves() {
    const PRODUCERS: usize = 4;
    let cluster = Patroni::start();
    cluster.ask("postgres", "CREATE DATABASE pombo");
    let url = cluster.url("pombo");
    let places = [Place::new(), Place::new()];
    let sink = sink().await;
    let servers = places.each_ref().map(|place| place.start_on(&url));
    for place in &places {
        place.ready().await;
    }
    let told = Told::default();
    let urls = [sink.url("/slow?ms=3"), sink.url("/flaky?fail=1")];
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|name| tokio::spawn(produce(places[name % 2].client(), name, urls.clone(), told.clone())))
        .collect();
    told.at_least(300).await;

    let (first, clock) = (cluster.primary(), SystemClock::new());
    let lost = clock.now();
    cluster.kill(first);
    let second = cluster.primary();
    assert_ne!(second, first);
    // What was claimed before has long been sent: from now on, whatever comes was claimed of the new primary.
    let before = sink.stats().distinct;
    arrivals(&sink, before + 1).await;
    let first_ms = clock.now().since(lost).millis();
    told.at_least(told.count() + 150).await;

    told.enough();
    let mut ids = Vec::new();
    for producer in producers {
        ids.extend(producer.await.unwrap());
    }
    drained(&places[0].client(), ids.len()).await;
    sealed(&url).await;
    for server in servers {
        assert!(server.terminate().await.success());
    }
    let record = read_database(&url, &ids);
    assert!(record.takeovers.len() <= places.len() * WORKERS, "{} in doubt", record.takeovers.len());
    let repeated = all_sent(&record, &sink, &ids);
    for place in &places {
        assert!(!place.said().contains(MAY_LOSE), "{}", place.said());
    }
    println!(
        "result failover failovers=1 messages={} lost=0 repeated={repeated} first_ms={first_ms}",
        ids.len()
    );
}

/// Waits until so many different messages have come.
async fn arrivals(sink: &Sandbox, count: u64) {
    for _ in 0..6_000 {
        if sink.stats().distinct >= count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("only {:?} of {count} came", sink.stats());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // fault 42, and the control of the test above
async fn a_standby_that_no_commit_waits_for_is_told_of_at_start_and_is_seen_to_lose_messages() {
    let cluster = Cluster::own();
    let database = cluster.database();
    let alone = Place::new();
    let server = alone.start_on(database.url());
    alone.ready().await;
    assert!(server.terminate().await.success());
    assert!(!alone.said().contains(MAY_LOSE), "{}", alone.said());

    let standby = cluster.standby();
    let place = Place::new();
    let (before, name) = database.url().rsplit_once('/').unwrap();
    let second = standby.url().rsplit('@').next().unwrap();
    let server = place.start_on(&format!("{before},{second}/{name}"));
    place.ready().await;
    let said = place.said();
    let line = said.lines().find(|line| line.contains(MAY_LOSE));
    assert!(line.is_some_and(|line| line.contains("WARN")), "{said}");

    let (client, told) = (place.client(), Told::default());
    let sink = sink().await;
    standby.stop();
    let body = json!({"channel": "crm", "to": sink.url("/ok"), "content": {"body": 1}});
    let message = client.post("/v1/messages", Payload::json(&body)).await.unwrap();
    let path = format!("/v1/messages/{}", message["id"].as_str().unwrap());
    assert!(client.get(&path).await.is_ok());
    cluster.kill();
    standby.start();
    standby.promote();
    place.ready().await;
    match client.get(&path).await {
        Err(ClientError::Refused(refusal)) => assert_eq!(refusal.status, 404, "{refusal:?}"),
        other => panic!("the standby cannot have it: {other:?}"),
    }
    // The node follows, and knows no better than its database. It may first have to notice what it has lost.
    told.enough();
    let ids = produce(place.client(), 0, [sink.url("/ok"), sink.url("/ok")], told).await;
    drained(&client, ids.len()).await;
    assert_eq!(sink.count(&ids[0]).accepted, 1);
    assert!(server.terminate().await.success());
}
