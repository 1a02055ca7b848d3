//! Word between nodes that is lost: what they would have been told, they find by looking.

use pombo::client::{Client, Payload};
use pombo_kernel::id::MessageId;
use pombo_testbed::{Cluster, Proxy, psql};
use serde_json::{Value, json};

use crate::place::{Place, follow, send, sink};
use crate::{message, until};

fn is_sent(message: &Value) -> bool {
    message["state"] == "sent"
}

async fn act(client: &Client, path: &str, body: Value) {
    client.post(path, Payload::json(&body)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 50
async fn a_node_that_hears_no_word_of_others_finds_by_looking_what_they_have_left_held_and_put_back() {
    let database = Cluster::shared().database();
    let proxy = Proxy::start(Cluster::shared());
    proxy.deafen();
    let sink = sink().await;
    let (api, worker) = (Place::new(), Place::new());
    // Whatever this one commits is for others to do.
    let api_server = api.start_on_with(database.url(), &["--roles", "api"]);
    api.ready().await;
    let worker_server = worker.start_on_with(&proxy.url(&database), &["--roles", "worker,scheduler"]);
    worker.ready().await;
    let client = api.client();
    let lost = async |before: u64| until("word is lost", async || proxy.swallowed() > before).await;

    for _ in 0..3 {
        let before = proxy.swallowed();
        let id = send(&client, &message(&sink.url("/ok"))).await;
        follow(&client, &id, is_sent).await;
        lost(before).await;
        assert_eq!(sink.count(&id).accepted, 1);
    }

    // By SQL, where a scheduler has to take it in first.
    let before = proxy.swallowed();
    let enqueue = format!("SELECT pombo.enqueue('crm', '{}', content => '{{\"body\": 1}}')", sink.url("/ok"));
    let id: MessageId = psql(database.url(), &enqueue).unwrap().trim().parse().unwrap();
    until("what came by SQL is sent", async || sink.count(&id.to_string()).accepted == 1).await;
    lost(before).await;

    // A hold, and its end.
    act(&client, "/v1/channels/crm/hold", json!({"reason": "not now"})).await;
    let held = send(&client, &message(&sink.url("/ok"))).await;
    let before = proxy.swallowed();
    act(&client, "/v1/channels/crm/release", json!({})).await;
    follow(&client, &held, is_sent).await;
    lost(before).await;

    // Messages for tomorrow: one that is let go at once, one that is called off.
    let later = |to: &str| {
        let mut later = message(to);
        later["send_at"] = json!("2099-01-01T00:00:00Z");
        later
    };
    let hastened = send(&client, &later(&sink.url("/ok"))).await;
    let cancelled = send(&client, &later(&sink.url("/ok"))).await;
    let before = proxy.swallowed();
    act(&client, &format!("/v1/messages/{cancelled}/cancel"), json!({})).await;
    act(&client, &format!("/v1/messages/{hastened}/retry"), json!({})).await;
    follow(&client, &hastened, is_sent).await;
    lost(before).await;
    assert_eq!(sink.count(&cancelled).received, 0);
    assert_eq!(sink.stats().duplicates, 0);
    for server in [api_server, worker_server] {
        assert!(server.terminate().await.success());
    }
}
