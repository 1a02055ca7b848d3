//! What a node leaves open in its database while providers take their time.

use std::collections::BTreeSet;
use std::time::Duration;

use pombo_testbed::{Cluster, Database};

use crate::place::{Place, WORKERS, send, sink};
use crate::{message, until};

/// Far less than the 30 s that a send takes here, and than the 10 s after which the server ends what is left idle.
const SOON: Duration = Duration::from_secs(5);

/// Transactions that others than the asker have open: whose each is, and since when.
fn open(database: &Database) -> BTreeSet<String> {
    let all = database.ask(
        "SELECT pid, xact_start FROM pg_stat_activity WHERE datname = current_database()
         AND backend_type = 'client backend' AND xact_start IS NOT NULL AND pid <> pg_backend_pid()",
    );
    all.lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 45
async fn while_messages_are_being_sent_no_transaction_stays_open() {
    let database = Cluster::shared().database();
    let (sink, place) = (sink().await, Place::new());
    let server = place.start_on(database.url());
    place.ready().await;
    let client = place.client();
    let mut ids = Vec::new();
    for _ in 0..WORKERS {
        ids.push(send(&client, &message(&sink.url("/hang"))).await);
    }
    until("all are under way", async || ids.iter().all(|id| sink.count(id).received == 1)).await;
    // Sessions of every kind have something to do meanwhile.
    let waits = send(&client, &message(&sink.url("/ok"))).await;
    let state = async |id: &str| client.get(&format!("/v1/messages/{id}")).await.unwrap()["state"].clone();
    assert_eq!(state(&waits).await, "pending", "every slot is taken");

    let mut seen = open(&database);
    let gone = async {
        while !seen.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let still = open(&database);
            seen.retain(|transaction| still.contains(transaction));
        }
    };
    let gone = tokio::time::timeout(SOON, gone).await;
    assert!(gone.is_ok(), "open for more than {SOON:?}: {seen:?}");
    for id in &ids {
        assert_eq!(state(id).await, "sending", "all of it was while {id} was being sent");
    }
    server.kill();
}
