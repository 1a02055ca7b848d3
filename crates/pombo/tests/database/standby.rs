//! A standby that is behind: it is a copy of the past, and nothing may be decided by it.

use pombo::client::{Client, ClientError};
use pombo_testbed::{Cluster, Database, Proxy, psql};

use crate::place::{Place, drained, sink};
use crate::{id_of, offer, until};

/// A standby that has the store as it is now, and takes no more notice of what becomes of it.
async fn lagging(primary: &Cluster, database: &Database) -> (Cluster, String) {
    let standby = primary.standby();
    let url = format!("{}/{}", standby.url(), database.ask("SELECT current_database()"));
    let there = "SELECT count(*) FROM pombo.message";
    until("the standby has the store", async || psql(&url, there).is_ok()).await;
    psql(&url, "SELECT pg_wal_replay_pause()").unwrap();
    let state = "SELECT pg_get_wal_replay_pause_state()";
    until("the standby stands", async || psql(&url, state).unwrap().trim() == "paused").await;
    (standby, url)
}

fn host(cluster: &Cluster) -> &str {
    cluster.url().rsplit('@').next().unwrap()
}

/// How many of our sessions a server has.
fn sessions(url: &str) -> usize {
    let ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pombo'";
    psql(url, ours).unwrap().trim().parse().unwrap()
}

async fn shown(client: &Client, id: &str) -> Result<serde_json::Value, ClientError> {
    client.get(&format!("/v1/messages/{id}")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 63, promise 10
async fn nodes_that_know_a_lagging_standby_first_decide_and_read_at_the_primary_alone() {
    const MESSAGES: usize = 30;
    let primary = Cluster::own();
    let database = primary.database();
    let sink = sink().await;
    let first = Place::new();
    let server = first.start_on(database.url());
    first.ready().await;
    assert!(server.terminate().await.success());
    let (standby, behind) = lagging(&primary, &database).await;
    let name = database.ask("SELECT current_database()");
    let both = format!("postgres://postgres@{},{}/{name}", host(&standby), host(&primary));
    let places = [Place::new(), Place::new()];
    let servers = places.each_ref().map(|place| place.start_on(&both));
    for place in &places {
        place.ready().await;
    }

    let clients = places.each_ref().map(Place::client);
    for n in 0..MESSAGES {
        let (here, there) = (&clients[n % 2], &clients[(n + 1) % 2]);
        let (to, key) = (sink.url("/ok"), format!("key-{n}"));
        let id = id_of(&offer(here, &to, &key).await.unwrap());
        assert_eq!(id_of(&offer(there, &to, &key).await.unwrap()), id, "one key, one message");
        for client in &clients {
            assert_eq!(id_of(&shown(client, &id).await.unwrap()), id, "what is accepted can be read at once");
        }
        let other = offer(there, &sink.url("/gone"), &key).await.unwrap_err();
        assert!(format!("{other:?}").contains("status: 409"), "{other:?}");
    }
    drained(&clients[0], MESSAGES).await;
    let stats = sink.stats();
    assert_eq!((stats.distinct, stats.duplicates), (MESSAGES as u64, 0), "no claim was made twice");
    assert_eq!(psql(&behind, "SELECT count(*) FROM pombo.message").unwrap().trim(), "0", "it lags");
    assert_eq!(sessions(&behind), 0, "nobody asks it anything");
    assert_ne!(sessions(database.url()), 0);
    for server in servers {
        assert!(server.terminate().await.success());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 63
async fn an_address_that_leads_to_a_standby_for_a_while_shows_nothing_of_the_past() {
    let primary = Cluster::own();
    let database = primary.database();
    let proxy = Proxy::start(&primary);
    let (sink, place) = (sink().await, Place::new());
    let server = place.start_on(&proxy.url(&database));
    place.ready().await;
    let (standby, behind) = lagging(&primary, &database).await;
    let client = place.client();
    let id = id_of(&offer(&client, &sink.url("/ok"), "before").await.unwrap());

    // As a virtual address does when somebody moves it too soon.
    proxy.lead_to(&standby);
    proxy.cut();
    proxy.pass();
    let refused = |answer: Result<_, ClientError>| match answer {
        Err(ClientError::Refused(refusal)) => assert_eq!(refusal.status, 503, "{refusal:?}"),
        other => panic!("that is a standby's answer: {other:?}"),
    };
    for _ in 0..8 {
        let asked = tokio::join!(shown(&client, &id), shown(&client, &id), shown(&client, &id));
        for answer in [asked.0, asked.1, asked.2] {
            refused(answer);
        }
    }
    refused(offer(&client, &sink.url("/ok"), "meanwhile").await);

    // Whoever is connected stays where it is, as with an address that is moved back.
    proxy.lead_to(&primary);
    place.ready().await;
    for n in 0..20 {
        let id = id_of(&offer(&client, &sink.url("/ok"), &format!("after-{n}")).await.unwrap());
        let asked = tokio::join!(shown(&client, &id), shown(&client, &id), shown(&client, &id));
        for answer in [asked.0, asked.1, asked.2] {
            assert_eq!(id_of(&answer.unwrap()), id);
        }
    }
    drained(&client, 21).await;
    assert_eq!((sink.stats().distinct, sink.stats().duplicates), (21, 0));
    assert_eq!(sessions(&behind), 0);
    assert!(server.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 63
async fn a_node_that_is_given_a_standby_alone_does_not_start_and_says_why() {
    let primary = Cluster::own();
    let database = primary.database();
    let (first, second) = (Place::new(), Place::new());
    let server = first.start_on(database.url());
    first.ready().await;
    let (_standby, behind) = lagging(&primary, &database).await;
    let ended = second.start_on(&behind).ended().await;
    let said = second.said();
    assert_eq!(ended.code(), Some(1), "{said}");
    assert!(said.contains("standby"), "{said}");
    assert!(server.terminate().await.success());
}
