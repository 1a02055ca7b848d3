//! What a node asks of its database when there is little to do, and what it leaves behind when there was much.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::time::Duration;

use pombo::client::{Client, Payload};
use pombo_testbed::{Cluster, Database};
use serde_json::json;

use place::{Place, drained, sink};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_node_asks_the_database_fewer_than_five_questions_a_second() {
    const COUNTED: &str = "SELECT sum(calls), sum(calls) / extract(epoch FROM now() - min(stats_reset)) < 5
        FROM pg_stat_statements, pg_stat_statements_info";
    let cluster = Cluster::own();
    let database = cluster.database();
    database.ask("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'");
    cluster.restart_immediate();
    database.ask("CREATE EXTENSION pg_stat_statements");
    let sink = sink().await;
    let place = Place::new();
    let server = place.start_on(database.url());
    place.ready().await;
    // It has something to do first, so that whatever that starts is there.
    let body = json!({"channel": "crm", "to": sink.url("/ok"), "content": {"body": 1}});
    place.client().post("/v1/messages", Payload::json(&body)).await.unwrap();
    drained(&place.client(), 1).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    database.ask("SELECT pg_stat_statements_reset()");
    // Two signs of life, and several rounds of everything else.
    tokio::time::sleep(Duration::from_secs(30)).await;
    let counted = database.ask(COUNTED);
    let (asked, few) = counted.split_once('|').unwrap();
    let top = "SELECT calls, left(query, 100) FROM pg_stat_statements ORDER BY calls DESC LIMIT 10";
    assert_eq!(few, "t", "{asked} questions in 30 s:\n{}", database.ask(top));
    assert!(asked.parse::<u64>().unwrap() >= 30, "{asked}: it has to look, and something was not counted");
    assert!(server.terminate().await.success());
    println!("{asked} questions in 30 s");
}

/// Posts messages in batches; one in each is not due for long.
async fn post(client: &Client, batches: usize) {
    let mut items = vec![json!({"channel": "void", "to": "x", "content": {"body": 1}}); 100];
    items[50]["send_at"] = json!("2099-01-01T00:00:00Z");
    let body = json!(items);
    for _ in 0..batches {
        let answer = client.post("/v1/messages/batch", Payload::json(&body)).await.unwrap();
        assert!(answer["items"].as_array().unwrap().iter().all(|item| item["id"].is_string()), "{answer}");
    }
}

/// Bytes of what waits, with its indexes.
fn size(database: &Database, table: &str) -> u64 {
    database.ask(&format!("SELECT pg_total_relation_size('{table}')")).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_burst_what_waits_needs_at_most_twice_the_room_that_it_would_need_anew() {
    const BATCHES: usize = 2_000;
    let cluster = Cluster::own();
    let database = cluster.database();
    let place = Place::new();
    let config = place.folder.path().join("pombo.toml");
    std::fs::write(&config, "[lanes.default]\nworkers = 1000\n[channels.void]\nkind = \"null\"\n").unwrap();

    let api = place.start_on_with(database.url(), &["--roles", "api"]);
    place.ready().await;
    let posts = (0..4).map(|_| {
        let client = place.client();
        tokio::spawn(async move { post(&client, BATCHES / 4).await })
    });
    for posted in posts.collect::<Vec<_>>() {
        posted.await.unwrap();
    }
    assert!(api.terminate().await.success());
    assert_eq!(database.ask("SELECT count(*) FROM pombo.ready"), (100 * BATCHES).to_string());
    let full = size(&database, "pombo.ready");

    let server = place.start_on(database.url());
    place.ready().await;
    let left = || database.ask("SELECT count(*) FROM pombo.ready");
    until(|| left() == BATCHES.to_string(), "all is sent but what is due much later").await;
    database.ask(
        "CREATE TABLE anew (LIKE pombo.ready INCLUDING ALL); INSERT INTO anew SELECT * FROM pombo.ready",
    );
    let fresh = size(&database, "anew");
    until(|| size(&database, "pombo.ready") <= 2 * fresh, "what waits is small again").await;
    println!("{full} bytes when full, {fresh} anew, {} in the end", size(&database, "pombo.ready"));
    assert!(server.terminate().await.success());
}

async fn until(is_so: impl Fn() -> bool, what: &str) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("not within two minutes: {what}");
}
