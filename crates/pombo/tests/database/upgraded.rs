//! A node at work while another version changes the schema under it.

use pombo_testbed::Cluster;

use crate::place::{Place, ended, follow, send, sink};
use crate::{PATIENCE, message};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 58
async fn a_node_under_which_another_version_changes_the_schema_ends_and_says_what_to_start() {
    let database = Cluster::shared().database();
    let (sink, place) = (sink().await, Place::new());
    let server = place.start_on(database.url());
    place.ready().await;
    let id = send(&place.client(), &message(&sink.url("/ok"))).await;
    follow(&place.client(), &id, ended).await;
    let known = database.ask("SELECT convert_from(value, 'UTF8') FROM pombo.meta WHERE name = 'schema'");
    let bring_to = |schema: &str| {
        database.ask(&format!(
            "UPDATE pombo.meta SET value = '{schema}' WHERE name = 'schema';
             UPDATE pombo.board SET version = version + 1"
        ));
    };

    bring_to("99");
    database.ask("ALTER TABLE pombo.ready RENAME TO ready_of_another");
    let ended = tokio::time::timeout(PATIENCE, server.ended()).await.expect("it works on");
    assert_eq!(ended.code(), Some(1));
    let said = place.said();
    for wanted in [
        "(STORE_FAILED)",
        "another version of Pombo has brought the store to schema 99",
        "start that version",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    assert_eq!(place.start_on(database.url()).ended().await.code(), Some(1));
    assert!(place.said().contains("run the newer version"), "{}", place.said());

    bring_to(&known);
    database.ask("ALTER TABLE pombo.ready_of_another RENAME TO ready");
    let server = place.start_on(database.url());
    place.ready().await;
    assert_eq!(place.client().get(&format!("/v1/messages/{id}")).await.unwrap()["state"], "sent");
    assert!(server.terminate().await.success());
}
