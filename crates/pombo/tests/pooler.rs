//! Nodes behind a PgBouncer that gives a session away after each transaction.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use pombo_testbed::{Cluster, Pooler};

use place::{Place, Told, all_sent, drained, produce, read_database, sealed, sink};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ ML-1, ML-4
async fn nodes_behind_a_pooler_deliver_and_retry_and_live_through_its_restart() {
    const PRODUCERS: usize = 4;
    let cluster = Cluster::shared();
    let database = cluster.database();
    let pooler = Pooler::start(cluster, "");
    let url = format!("{}?pooler=transaction", pooler.url(&database));
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
    told.at_least(200).await;
    pooler.restart();
    told.at_least(told.count() + 200).await;

    told.enough();
    let mut ids = Vec::new();
    for producer in producers {
        ids.extend(producer.await.unwrap());
    }
    drained(&places[0].client(), ids.len()).await;
    sealed(database.url()).await;
    for server in servers {
        assert!(server.terminate().await.success());
    }
    let repeated = all_sent(&read_database(database.url(), &ids), &sink, &ids);
    assert_eq!(repeated, 0, "no node was gone for as long as its lease");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_was_not_named_is_refused_with_what_to_do() {
    let cluster = Cluster::shared();
    for settings in ["", "ignore_startup_parameters = options"] {
        let database = cluster.database();
        let pooler = Pooler::start(cluster, settings);
        let place = Place::new();
        let server = place.start_on(&pooler.url(&database));
        let ended = server.ended().await;
        let said = place.said();
        assert_eq!(ended.code(), Some(1), "{said}");
        assert!(said.contains("a pooler that does not keep the settings of a session"), "{said}");
        assert!(said.contains("hint: add pooler=transaction to the URL"), "{said}");
    }
}
