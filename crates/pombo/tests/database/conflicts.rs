//! Transactions that meet others, and so fail to serialise or end a deadlock, whenever they commit.
//!
//! The server is made to say so by a trigger that waits for the commit, and counts by a sequence, which no rollback
//! takes back.

use http::Method;
use pombo::client::{Client, Payload};
use pombo_testbed::{Cluster, Database};

use crate::place::{Place, drained, ended, follow, read_trail, sealed, send, sink};
use crate::{id_of, message, offer, unready, until};

/// Every commit of something audited meets another unless `passes` holds of how many have come to that, `n`.
fn meet(database: &Database, passes: &str) {
    database.ask(&format!(
        "CREATE SEQUENCE IF NOT EXISTS public.commits;
         CREATE OR REPLACE FUNCTION public.meet() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
         DECLARE n bigint := nextval('public.commits');
         BEGIN
           IF {passes} THEN RETURN NULL; END IF;
           RAISE EXCEPTION 'it meets another' USING ERRCODE = CASE n % 2 WHEN 0 THEN '40001' ELSE '40P01' END;
         END $$;
         CREATE CONSTRAINT TRIGGER meets AFTER INSERT ON pombo.audit DEFERRABLE INITIALLY DEFERRED
         FOR EACH ROW EXECUTE FUNCTION public.meet()"
    ));
}

fn meet_no_more(database: &Database) {
    database.ask("DROP TRIGGER meets ON pombo.audit");
}

async fn begun_anew(client: &Client) -> u64 {
    let answer = client.call(Method::GET, "/metrics", Payload::default()).await.unwrap();
    let text = String::from_utf8(answer.to_vec()).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("pombo_store_groups_begun_anew_total "));
    line.unwrap_or_else(|| panic!("nobody counts that: {text}")).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 43, promise 10
async fn commits_that_meet_others_twice_each_are_done_again_and_leave_everything_once() {
    const MESSAGES: usize = 30;
    let database = Cluster::shared().database();
    let (sink, place) = (sink().await, Place::new());
    let server = place.start_on(database.url());
    place.ready().await;
    meet(&database, "n % 3 = 0");
    let (client, mut ids) = (place.client(), Vec::new());
    for n in 0..MESSAGES {
        let to = sink.url(["/ok", "/flaky?fail=1"][n % 2]);
        let first = id_of(&offer(&client, &to, &format!("key-{n}")).await.unwrap());
        let again = id_of(&offer(&client, &to, &format!("key-{n}")).await.unwrap());
        assert_eq!(first, again);
        ids.push(first);
    }
    drained(&client, MESSAGES).await;
    meet_no_more(&database);

    let met: u64 = database.ask("SELECT last_value FROM public.commits").parse().unwrap();
    assert!(met >= 9, "taking in, claiming and settling are a commit each: {met}");
    let anew = begun_anew(&client).await;
    assert!((6..=met).contains(&anew), "{anew} groups of {met} began anew");
    let stats = client.get("/v1/stats").await.unwrap();
    for (what, wanted) in [("accepted", MESSAGES), ("sent", MESSAGES), ("waiting", 0), ("failed", 0)] {
        assert_eq!(stats["total"][what], wanted, "{what}: {stats}");
    }
    for (n, id) in ids.iter().enumerate() {
        let attempts = client.get(&format!("/v1/messages/{id}")).await.unwrap()["attempts"].clone();
        assert_eq!(attempts.as_array().unwrap().len(), 1 + n % 2, "{attempts}");
        assert_eq!((sink.count(id).received as usize, sink.count(id).accepted), (1 + n % 2, 1));
    }
    sealed(database.url()).await;
    assert!(server.terminate().await.success());
    let trail = read_trail(database.url());
    assert_eq!((trail.accepted, trail.sent.len(), trail.takeovers.len()), (MESSAGES, MESSAGES, 0));
    assert!(trail.sent.values().all(|times| *times == 1), "one record of each that it was sent");
    assert!(!place.said().contains("the store cannot be written"), "{}", place.said());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 43, promises 1, 2
async fn commits_that_meet_others_without_end_make_a_node_say_so_and_it_goes_on_once_they_pass() {
    let database = Cluster::shared().database();
    let (sink, place) = (sink().await, Place::new());
    let server = place.start_on(database.url());
    place.ready().await;
    let client = place.client();
    let underway = send(&client, &message(&sink.url("/slow?ms=1500"))).await;
    until("it is being sent", async || sink.count(&underway).received == 1).await;
    meet(&database, "false");
    let refused = offer(&client, &sink.url("/ok"), "first").await.unwrap_err();
    assert!(format!("{refused:?}").contains("STORE_UNAVAILABLE"), "{refused:?}");
    until("it is not ready", async || {
        let _ = offer(&client, &sink.url("/ok"), "second").await.unwrap_err();
        unready(&place).await.is_some()
    })
    .await;
    until("what was sent cannot be recorded", async || {
        place.said().contains("a result could not be recorded")
    })
    .await;
    assert_eq!(sink.stats().total, 1, "nothing was sent that is not stored");

    meet_no_more(&database);
    place.ready().await;
    follow(&client, &underway, ended).await;
    let mut ids = vec![underway];
    for key in ["first", "second"] {
        until("it is taken in", async || offer(&client, &sink.url("/ok"), key).await.is_ok()).await;
        ids.push(id_of(&offer(&client, &sink.url("/ok"), key).await.unwrap()));
    }
    drained(&client, ids.len()).await;
    sealed(database.url()).await;
    assert!(server.terminate().await.success());
    let trail = read_trail(database.url());
    assert_eq!((trail.accepted, trail.sent.len(), trail.takeovers.len()), (3, 3, 0));
    for id in &ids {
        assert_eq!((sink.count(id).received, trail.sent[id]), (1, 1), "{id}");
    }
}
