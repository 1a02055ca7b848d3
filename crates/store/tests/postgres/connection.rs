//! Connections that end, freeze or meet each other: nothing that was promised is lost, and nobody has to help.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pombo_kernel::dice::Dice;
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Actor, StateName};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::{Clock, Span, Time};
use pombo_store::core::{Core, Reading};
use pombo_store::postgres::{Postgres, Sealing, Target};
use pombo_store::shell::Shell;
use pombo_store::{Ask, Claimed, Counted, NodeId, Settled, Store, StoreError};
use pombo_testbed::{Cluster, Database};
use tokio::task::{block_in_place, spawn_blocking};
use tokio::time::{sleep, timeout};

use crate::node::Node;
use crate::world::{End, START, by_operator, channel, draft, migrated, settlement, to};

/// Far more than anything here takes; only what hangs reaches it.
const PATIENCE: Duration = Duration::from_secs(600);
const TICK: u64 = 10;

/// Time that passes, unless it is told to stand.
#[derive(Debug)]
struct Ticking {
    now_ms: AtomicI64,
    stands: AtomicBool,
}

impl Ticking {
    fn tick(&self) {
        if !self.stands.load(Ordering::SeqCst) {
            self.now_ms.fetch_add(TICK.cast_signed(), Ordering::SeqCst);
        }
    }
}

impl Clock for Ticking {
    fn now(&self) -> Time {
        Time::from_millis(self.now_ms.load(Ordering::SeqCst))
    }
}

/// A store on that database, and time that passes.
async fn open(database: &Database) -> (Arc<dyn Store>, Arc<Ticking>) {
    let clock = Ticking { now_ms: AtomicI64::new(START.millis()), stands: AtomicBool::new(false) };
    let clock = Arc::new(clock);
    let ticking = Arc::downgrade(&clock);
    tokio::spawn(async move {
        while let Some(clock) = ticking.upgrade() {
            clock.tick();
            sleep(Duration::from_millis(TICK)).await;
        }
    });
    let (target, time) = (Target::parse(database.url()).unwrap(), clock.clone());
    let opening = spawn_blocking(move || {
        let core = Postgres::open(&target, Dice::seeded(7), &[7; 32], Sealing::AtCommit).unwrap();
        Shell::start(core, time, Box::new(|| [7; 32])).unwrap()
    });
    (Arc::new(opening.await.unwrap()), clock)
}

fn ask(max: usize) -> Ask {
    Ask { node: NodeId(1), lane: Default::default(), max, rates: Default::default() }
}

/// Does it until the store can.
async fn at_last<T, F: Future<Output = Result<T, StoreError>>>(verb: impl Fn() -> F) -> T {
    let trying = async {
        loop {
            match verb().await {
                Ok(answer) => return answer,
                Err(StoreError::Unavailable(_)) => sleep(Duration::from_millis(20)).await,
                Err(error) => panic!("{error}"),
            }
        }
    };
    timeout(PATIENCE, trying).await.expect("the store comes back by itself")
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(timeout(PATIENCE, waiting).await.is_ok(), "{what}");
}

async fn state(store: &Arc<dyn Store>, id: MessageId) -> Option<StateName> {
    let story = at_last(|| store.story(Tenant::default(), id)).await;
    story.map(|story| story.state.name())
}

// fault 41, promise 1
#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_when_the_server_restarts_under_load() {
    let cluster = Arc::new(Cluster::own());
    let database = cluster.database();
    let (store, _clock) = open(&database).await;
    let (acknowledged, refused) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let (sent, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let mut tasks = Vec::new();
    for n in 0..8 {
        let (store, stop) = (store.clone(), stop.clone());
        let (acknowledged, refused) = (acknowledged.clone(), refused.clone());
        tasks.push(tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                match store.accept(vec![to(&format!("host-{n}"))]).await {
                    Ok(accepted) => acknowledged.lock().unwrap().push(accepted[0].as_ref().unwrap().id),
                    Err(StoreError::Unavailable(_)) => {
                        refused.fetch_add(1, Ordering::SeqCst);
                        sleep(Duration::from_millis(20)).await;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }));
    }
    {
        let (store, stop, sent) = (store.clone(), stop.clone(), sent.clone());
        tasks.push(tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let taken: Vec<Claimed> = at_last(|| store.claim(ask(20))).await;
                let settlements: Vec<_> =
                    taken.iter().map(|claimed| settlement(claimed, End::Sent, START)).collect();
                // Told again where nobody knows whether it was heard: stale then means that it was.
                at_last(|| store.settle(settlements.clone())).await;
                sent.lock().unwrap().extend(taken.iter().map(|claimed| claimed.message.id));
            }
        }));
    }
    for _ in 0..3 {
        let before = acknowledged.lock().unwrap().len();
        until("messages are accepted", || acknowledged.lock().unwrap().len() > before + 100).await;
        let cluster = cluster.clone();
        spawn_blocking(move || cluster.restart_immediate()).await.unwrap();
    }
    let before = (acknowledged.lock().unwrap().len(), sent.lock().unwrap().len());
    until("accepted again", || acknowledged.lock().unwrap().len() > before.0 + 100).await;
    until("sent again", || sent.lock().unwrap().len() > before.1 + 100).await;
    stop.store(true, Ordering::SeqCst);
    // The sender may be waiting for something to send.
    at_last(|| store.stop_claims(NodeId(1))).await;
    for task in tasks {
        task.await.unwrap();
    }
    assert!(refused.load(Ordering::SeqCst) > 0, "what could not be stored was refused");
    let (acknowledged, sent) = (acknowledged.lock().unwrap().clone(), sent.lock().unwrap().clone());
    for id in acknowledged {
        assert!(state(&store, id).await.is_some(), "{id} was acknowledged and is lost");
    }
    for id in sent {
        assert_eq!(state(&store, id).await, Some(StateName::Sent), "{id}");
    }
    assert_eq!(at_last(|| store.verify()).await.broken, None);
    at_last(|| store.close()).await;
}

// fault 41
#[tokio::test(flavor = "multi_thread")]
async fn without_its_server_the_store_says_so_and_it_comes_back_by_itself() {
    let cluster = Arc::new(Cluster::own());
    let database = cluster.database();
    let (store, _clock) = open(&database).await;
    let id = store.accept(vec![draft()]).await.unwrap()[0].as_ref().unwrap().id;
    let claimed = store.claim(ask(1)).await.unwrap().remove(0);
    let waiting = {
        let store = store.clone();
        tokio::spawn(async move { at_last(|| store.claim(ask(1))).await })
    };
    for down in [Cluster::stop, Cluster::kill] {
        let server = cluster.clone();
        spawn_blocking(move || down(&server)).await.unwrap();
        let refused = |answer: Result<_, StoreError>| match answer {
            Err(StoreError::Unavailable(why)) => assert!(!why.contains("postgres@"), "{why}"),
            other => panic!("{other:?}"),
        };
        refused(timeout(PATIENCE, store.accept(vec![draft()])).await.unwrap().map(drop));
        refused(timeout(PATIENCE, store.tallies()).await.unwrap().map(drop));
        let server = cluster.clone();
        spawn_blocking(move || server.start()).await.unwrap();
        assert_eq!(state(&store, id).await, Some(StateName::Sending));
        at_last(|| store.heartbeat(NodeId(1), START)).await;
    }
    let result = vec![settlement(&claimed, End::Sent, START)];
    assert_eq!(at_last(|| store.settle(result.clone())).await, [Settled::Done]);
    assert_eq!(state(&store, id).await, Some(StateName::Sent));
    let next = at_last(|| store.accept(vec![draft()])).await[0].as_ref().unwrap().id;
    assert_eq!(timeout(PATIENCE, waiting).await.unwrap().unwrap()[0].message.id, next);
    let tallies = at_last(|| store.tallies()).await;
    let accepted = tallies.iter().filter(|tally| tally.what == Counted::Accepted);
    assert_eq!(accepted.map(|tally| tally.count).sum::<u64>(), 2, "what was refused was not stored");
    at_last(|| store.close()).await;
}

// fault 45
#[test]
fn what_a_frozen_node_left_open_is_ended_by_the_server() {
    let database = migrated();
    let soon = format!("{}?options=-c%20idle_in_transaction_session_timeout%3D2000", database.url());
    let (mut frozen, mut other) = (Node::at(&soon, 1), Node::on(&database, 2));
    let id = other.accept(&[draft()]).remove(0);
    assert_eq!(other.claim(0), []);
    // A hold that is never committed: everybody's claims wait for it.
    frozen.core.block(&channel("crm"), by_operator(START), &Actor("ana".into()), START).unwrap();
    assert_ne!(database.ask("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in%'"), "0");
    // The server ends the frozen one before whoever waits for it gives up.
    let taken = other.core.claim(&ask(10), START).unwrap();
    assert_eq!(taken[0].message.id, id);
    other.core.commit(START, &[1; 32]).unwrap();
    let answer = frozen.core.commit(START, &[1; 32]);
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    frozen.core.reopen().unwrap();
    assert_eq!(frozen.reader().blocks().unwrap(), [], "what was not committed never was");
    frozen.accept(&[draft()]);
}

// fault 43
#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_ends_in_a_deadlock_is_done_again() {
    let database = spawn_blocking(migrated).await.unwrap();
    // The store looks for a deadlock once, so long after it began to wait: by then the other waits as well.
    database.ask("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = 5000', current_database()); END $$");
    let (store, _clock) = open(&database).await;
    store.accept(vec![draft(), draft()]).await.unwrap();
    let (one, two) =
        (store.claim(ask(1)).await.unwrap().remove(0), store.claim(ask(1)).await.unwrap().remove(0));
    let (client, wire) = tokio_postgres::connect(database.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(wire);
    // It is not the one that gives way.
    client.batch_execute("SET search_path = pombo; SET deadlock_timeout = '1min'; BEGIN").await.unwrap();
    let lock = |claimed: &Claimed| format!("SELECT FROM claim WHERE id = {} FOR UPDATE", claimed.key.claim.0);
    client.batch_execute(&lock(&two)).await.unwrap();
    // It waits within the server for the settlement to wait, and then asks for the other.
    let meets = format!(
        "DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM \
         pg_stat_activity WHERE datname = current_database())) LOOP PERFORM pg_sleep(0.01); END LOOP; PERFORM FROM \
         pombo.claim WHERE id = {} FOR UPDATE; END $$",
        one.key.claim.0
    );
    let settling = {
        let store = store.clone();
        let both = vec![settlement(&one, End::Sent, START), settlement(&two, End::Sent, START)];
        tokio::spawn(async move { store.settle(both).await })
    };
    timeout(PATIENCE, client.batch_execute(&meets)).await.unwrap().expect("the store gave way");
    client.batch_execute("COMMIT").await.unwrap();
    let settled = timeout(PATIENCE, settling).await.unwrap().unwrap();
    assert_eq!(settled, Ok(vec![Settled::Done, Settled::Done]));
    let counted = "SELECT deadlocks > 0 FROM pg_stat_database WHERE datname = current_database()";
    until("it was a deadlock", || database.ask(counted) == "t").await;
    let records = store.audit(0, 100).await.unwrap();
    assert_eq!(records.len(), 6, "each step is recorded once");
    store.close().await.unwrap();
}

/// From now on, a commit of something audited fails to serialise while this holds of how many have come to that, `n`. The
/// sequence counts what is rolled back as well.
fn fail_while(database: &Database, holds: &str) {
    database.ask(&format!(
        "DROP TRIGGER IF EXISTS fails ON pombo.audit;
         DROP SEQUENCE IF EXISTS public.commits;
         CREATE SEQUENCE public.commits;
         CREATE OR REPLACE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
         DECLARE n bigint := nextval('public.commits');
         BEGIN
           IF {holds} THEN RAISE serialization_failure; END IF;
           RETURN NULL;
         END $$;
         CREATE CONSTRAINT TRIGGER fails AFTER INSERT ON pombo.audit DEFERRABLE INITIALLY DEFERRED
         FOR EACH ROW EXECUTE FUNCTION public.fail()"
    ));
}

fn commits(database: &Database) -> u64 {
    database.ask("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM public.commits").parse().unwrap()
}

// fault 43
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_fails_to_serialise_is_tried_ten_times_and_then_told_as_unavailable() {
    let database = spawn_blocking(migrated).await.unwrap();
    let (store, clock) = open(&database).await;
    fail_while(&database, "n < 10");
    let id = store.accept(vec![draft()]).await.unwrap()[0].as_ref().unwrap().id;
    assert_eq!(commits(&database), 10, "nine in vain, and one");
    assert_eq!(store.audit(0, 100).await.unwrap().len(), 1, "recorded once");
    assert_eq!(store.health(), Ok(()));

    fail_while(&database, "true");
    clock.stands.store(true, Ordering::SeqCst);
    let refused = timeout(PATIENCE, store.accept(vec![draft()])).await.unwrap();
    assert!(matches!(&refused, Err(StoreError::Again(why)) if why.contains("40001")), "{refused:?}");
    assert_eq!(commits(&database), 10, "not without end");
    assert!(store.health().is_err(), "it is left alone for a while");
    clock.stands.store(false, Ordering::SeqCst);
    until("it looks whether it can write", || store.health().is_ok()).await;
    assert_eq!(commits(&database), 10, "what was refused is not tried again");

    // It fails on whenever it is asked, and says so for longer and longer.
    for _ in 0..4 {
        let refused = timeout(PATIENCE, store.accept(vec![draft()])).await.unwrap();
        assert!(refused.is_err(), "{refused:?}");
        until("it looks whether it can write", || store.health().is_ok()).await;
    }
    assert_eq!(commits(&database), 50);
    database.ask("DROP TRIGGER fails ON pombo.audit");
    let next = store.accept(vec![draft()]).await.unwrap()[0].as_ref().unwrap().id;
    assert_ne!(next, id);
    let tallies = store.tallies().await.unwrap();
    let accepted = tallies.iter().filter(|tally| tally.what == Counted::Accepted);
    assert_eq!(accepted.map(|tally| tally.count).sum::<u64>(), 2, "what was refused was not stored");
    assert_eq!(store.audit(0, 100).await.unwrap().len(), 2);
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_takes_what_another_only_looked_at_while_it_was_made() {
    let database = spawn_blocking(migrated).await.unwrap();
    let (client, wire) = tokio_postgres::connect(database.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(wire);
    let (mut node, ids) = block_in_place(|| {
        let mut node = Node::on(&database, 1);
        let tried = node.accept(&[draft()]).remove(0);
        let claimed = node.claim_unaware(1).remove(0);
        assert_eq!(node.settle(&claimed, End::Retry(Span::ZERO)), Settled::Done);
        let fresh = node.accept(&[draft()]).remove(0);
        (node, BTreeSet::from([tried, fresh]))
    });
    // The one that was never tried is another's for a moment; the claim comes no further than the other rank meanwhile.
    let look = "SET search_path = pombo; BEGIN; LOCK TABLE history IN ACCESS EXCLUSIVE MODE; SAVEPOINT looked; \
        SELECT FROM ready WHERE steps = 0 FOR UPDATE";
    client.batch_execute(look).await.unwrap();
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || tell.send(node.claim_unaware(1_000)));
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' \
        AND query LIKE '%DELETE FROM ready%'";
    until("the claim has passed it", || database.ask(waits) == "1").await;
    client.batch_execute("ROLLBACK TO looked; COMMIT").await.unwrap();
    let taken = timeout(PATIENCE, told).await.expect("the claim comes to an end").unwrap();
    assert_eq!(taken.iter().map(|claimed| claimed.message.id).collect::<BTreeSet<_>>(), ids);
}

/// Takes connections for itself until the server has none left.
async fn take_all(url: &str, crowd: &mut Vec<tokio_postgres::Client>) {
    loop {
        match tokio_postgres::connect(url, tokio_postgres::NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                crowd.push(client);
            }
            Err(error) => {
                let full = tokio_postgres::error::SqlState::TOO_MANY_CONNECTIONS;
                assert_eq!(error.code(), Some(&full), "{error}");
                return;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 44
async fn where_no_connection_is_left_it_goes_on_with_its_own_and_comes_back_after_losing_them() {
    const CONNECTIONS: usize = 30;
    let cluster = Cluster::own();
    let database = cluster.database();
    database.ask(&format!("ALTER SYSTEM SET max_connections = {CONNECTIONS}"));
    cluster.restart_immediate();
    let (store, _clock) = open(&database).await;
    let mut kept = vec![at_last(|| store.accept(vec![draft()])).await[0].as_ref().unwrap().id];
    assert!(store.story(Tenant::default(), kept[0]).await.unwrap().is_some());

    // Somebody else takes the rest: whatever is connected stays so, and is enough.
    let mut crowd = Vec::new();
    take_all(database.url(), &mut crowd).await;
    for _ in 0..20 {
        kept.push(store.accept(vec![draft()]).await.unwrap()[0].as_ref().unwrap().id);
        assert!(store.story(Tenant::default(), kept[0]).await.unwrap().is_some());
    }
    assert_eq!(store.health(), Ok(()));

    // And then what it had itself. Nothing can be promised, and it says so.
    const OURS: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND NOT pid = ANY($1)";
    let mut pids: Vec<i32> = Vec::new();
    while crowd.len() < CONNECTIONS {
        for client in &crowd[pids.len()..] {
            pids.push(client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0));
        }
        crowd[0].query(OURS, &[&pids]).await.unwrap();
        take_all(database.url(), &mut crowd).await;
    }
    let refused = store.accept(vec![draft()]).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    assert!(store.health().is_err());

    // Once there is room it is back, and everything that it promised is there.
    drop(crowd);
    kept.push(at_last(|| store.accept(vec![draft()])).await[0].as_ref().unwrap().id);
    until("it is well", || store.health().is_ok()).await;
    for id in kept {
        // Some of the crowd may be leaving still.
        assert!(at_last(|| store.story(Tenant::default(), id)).await.is_some(), "{id}");
    }
}
