//! Nodes of the real binary on one PostgreSQL, each with a part of the work.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::time::Duration;

use http::Method;
use pombo::client::{Client, Payload};
use pombo_testbed::{Cluster, Database};
use serde_json::json;

use place::{Place, drained, sink};

async fn post(client: &Client, url: &str) -> String {
    let body = json!({"channel": "crm", "to": url, "content": {"body": 1}});
    let message = client.post("/v1/messages", Payload::json(&body)).await.unwrap();
    message["id"].as_str().unwrap().to_owned()
}

async fn state(client: &Client, id: &str) -> String {
    let message = client.get(&format!("/v1/messages/{id}")).await.unwrap();
    message["state"].as_str().unwrap().to_owned()
}

/// Waits until the database answers so.
async fn until(database: &Database, question: &str, wanted: &str) {
    for _ in 0..600 {
        if database.ask(question) == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{question}: {}, not {wanted}", database.ask(question));
}

const NODES: &str = "SELECT count(*) FROM pombo.node";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ ML-4
async fn one_node_takes_in_another_looks_after_the_database_and_a_third_sends() {
    let database = Cluster::shared().database();
    let sink = sink().await;
    let (api, scheduler, worker) = (Place::new(), Place::new(), Place::new());
    let api_server = api.start_on_with(database.url(), &["--roles", "api"]);
    api.ready().await;
    let id = post(&api.client(), &sink.url("/ok")).await;

    let scheduler_server = scheduler.start_on_with(database.url(), &["--roles", "scheduler"]);
    scheduler.ready().await;
    until(&database, "SELECT count(*) FROM pombo.audit WHERE position IS NULL", "0").await;
    assert_eq!(state(&api.client(), &id).await, "pending", "neither of them sends");
    assert_eq!(database.ask(NODES), "0", "nor has the right to");

    let worker_server = worker.start_on_with(database.url(), &["--roles", "worker", "--lanes", "default"]);
    worker.ready().await;
    drained(&api.client(), 1).await;
    assert_eq!(state(&api.client(), &id).await, "sent");
    assert_eq!(sink.count(&id).accepted, 1);
    for place in [&scheduler, &worker] {
        assert!(place.client().get("/healthz").await.is_ok());
        assert!(place.client().call(Method::GET, "/metrics", Payload::default()).await.is_ok());
        let refused = place.client().get("/v1/messages").await.unwrap_err();
        assert!(format!("{refused:?}").contains("this node has no API"), "{refused:?}");
    }

    assert_eq!(database.ask(NODES), "1");
    assert!(worker_server.terminate().await.success());
    assert_eq!(database.ask(NODES), "0", "a node that stops well ends its lease at once");
    for server in [api_server, scheduler_server] {
        assert!(server.terminate().await.success());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_that_a_node_works_on_is_named_without_its_password() {
    let database = Cluster::shared().database();
    let (scheme, rest) = database.url().split_once("://").unwrap();
    let (user, host) = rest.split_once('@').unwrap();
    let place = Place::new();
    let server = place.start_on(&format!("{scheme}://{user}:canary-secret@{host}"));
    place.ready().await;
    assert!(server.terminate().await.success());
    let said = place.said();
    assert!(said.contains(&format!("{user}@127.0.0.1:")), "{said}");
    assert!(!said.contains("canary"), "{said}");
}
