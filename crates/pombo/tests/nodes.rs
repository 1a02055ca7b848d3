//! Three real nodes on one PostgreSQL, treated badly while they send.
//!
//! With `POMBO_BIN_BEFORE` they begin as that version, and whoever starts in another's place is of this one, as when
//! nodes are brought up to date one by one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pombo::client::{Client, Payload};
use pombo_kernel::time::{Span, Time};
use pombo_testbed::{Cluster, Database};
use serde_json::json;
use tokio::sync::Semaphore;

use place::witness::Witness;
use place::{Place, Server, WORKERS, binary, binary_before, drained, read_trail, sealed};

const MESSAGES: usize = 100_000;
/// Messages of one request, and how many requests are under way.
const BATCH: usize = 100;
const PRODUCERS: usize = 6;
/// How long a message may wait for somebody else once its sender is gone.
const TAKEOVER: Span = Span::from_secs(90);
/// Between the test's clock and what it does, and what is on its way meanwhile: far less than it takes until somebody
/// else sends what a lost node had.
const SLACK: Span = Span::from_secs(5);

/// One life of a node.
struct Life {
    place: Place,
    server: Server,
    /// By which the database knows it.
    id: String,
}

/// What was done to a node while it was sending.
struct Fault {
    at: Time,
    id: String,
}

/// The database, who lives on it, and what became of those who do not.
struct World {
    cluster: Cluster,
    database: Database,
    witness: Witness,
    known: HashSet<String>,
    faults: Vec<Fault>,
}

impl World {
    async fn new() -> World {
        let (cluster, witness) = (Cluster::own(), Witness::start().await);
        let database = cluster.database();
        World { cluster, database, witness, known: HashSet::new(), faults: Vec::new() }
    }

    async fn start(&mut self, place: Place, binary: PathBuf) -> Life {
        let server = place.start_on_by(binary, self.database.url());
        place.ready().await;
        for _ in 0..600 {
            let lives = self.database.ask("SELECT id FROM pombo.node");
            if let Some(id) = lives.lines().find(|id| !self.known.contains(*id)) {
                self.known.insert(id.to_owned());
                return Life { place, server, id: id.to_owned() };
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the node shows no sign of life: {}", place.said());
    }

    /// Waits until so many different messages have come.
    async fn seen(&self, count: usize) {
        let count = u64::try_from(count).unwrap();
        let (mut most, mut looks) = (0, 0);
        while looks < 12_000 {
            let came = self.witness.sink.stats().distinct;
            if came >= count {
                return;
            }
            looks = if came > most { 0 } else { looks + 1 };
            most = came;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no more of {count} come: {:?}", self.witness.sink.stats());
    }

    /// Kills a node in the middle of something, and starts another in its place.
    async fn kill(&mut self, life: Life) -> Life {
        self.freeze(&life).await;
        life.server.kill();
        self.start(life.place, binary()).await
    }

    /// Stops a node that is in the middle of something.
    async fn freeze(&mut self, life: &Life) {
        for _ in 0..100 {
            life.server.signal("-STOP");
            let at = self.witness.now();
            if self.holds(&life.id) {
                self.faults.push(Fault { at, id: life.id.clone() });
                return;
            }
            life.server.signal("-CONT");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the node never does anything");
    }

    /// Whether something counts as being sent by that node.
    fn holds(&self, id: &str) -> bool {
        self.database.ask(&format!("SELECT count(*) FROM pombo.claim WHERE node = {id}")) != "0"
    }

    /// Waits until others have taken over all that the lost nodes had.
    async fn taken_over(&self) {
        for fault in &self.faults {
            while self.holds(&fault.id) {
                let since = self.witness.now().since(fault.at);
                assert!(since <= TAKEOVER, "what a lost node had is still its own after {since}");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

/// Posts one batch after another as soon as each is allowed, under keys of its own and at one node after the other
/// until it is acknowledged; says which ids it was told.
async fn produce(
    clients: Vec<Client>,
    urls: [String; 2],
    next: Arc<AtomicUsize>,
    allowed: Arc<Semaphore>,
) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        let batch = next.fetch_add(1, Ordering::SeqCst);
        if batch >= MESSAGES / BATCH {
            return ids;
        }
        allowed.acquire().await.unwrap().forget();
        let url = &urls[usize::from(batch.is_multiple_of(20))];
        let one = |n| json!({"channel": "crm", "to": url, "content": {"body": {"n": n}}});
        let body = json!((0..BATCH).map(one).collect::<Vec<_>>());
        for client in clients.iter().cycle().skip(batch) {
            let key = Some(format!("batch-{batch}"));
            let posted =
                client.post("/v1/messages/batch", Payload { idempotency_key: key, ..Payload::json(&body) });
            // One that is stopped takes the request and never answers.
            let Ok(Ok(answer)) = tokio::time::timeout(Duration::from_secs(5), posted).await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let told = answer["items"].as_array().unwrap();
            let told: Vec<String> =
                told.iter().filter_map(|item| Some(item["id"].as_str()?.to_owned())).collect();
            if told.len() == BATCH {
                ids.extend(told);
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ ML-1, ML-3, ML-4, ML-5, promises 1, 4, 10 to 12, 15
async fn nothing_is_lost_while_nodes_are_killed_and_frozen_and_the_database_is_cut_off() {
    let mut world = World::new().await;
    let mut one = world.start(Place::new(), binary_before()).await;
    let two = world.start(Place::new(), binary_before()).await;
    let mut three = world.start(Place::new(), binary_before()).await;

    let (next, allowed) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let urls = [world.witness.sink.url("/slow?ms=3"), world.witness.sink.url("/flaky?fail=1")];
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|_| {
            let clients = [&one, &two, &three].map(|life| life.place.client()).into();
            tokio::spawn(produce(clients, urls.clone(), next.clone(), allowed.clone()))
        })
        .collect();
    let allow = |messages: usize| allowed.add_permits(messages / BATCH);

    allow(60_000);
    world.seen(3_000).await;
    one = world.kill(one).await;
    world.seen(6_000).await;
    world.cluster.restart_immediate();
    world.seen(10_000).await;
    world.freeze(&two).await;
    world.seen(13_000).await;
    three = world.kill(three).await;
    world.seen(17_000).await;
    one = world.kill(one).await;
    world.taken_over().await;
    allow(40_000);
    world.seen(65_000).await;
    two.server.signal("-CONT");
    world.seen(80_000).await;
    world.cluster.restart_immediate();

    let mut ids = HashSet::new();
    for producer in producers {
        ids.extend(producer.await.unwrap());
    }
    assert_eq!(ids.len(), MESSAGES);
    drained(&one.place.client(), MESSAGES).await;
    sealed(world.database.url()).await;
    let stats = one.place.client().get("/v1/stats").await.unwrap();
    for life in [one, two, three] {
        let said = life.place.said();
        assert!(life.server.terminate().await.success(), "{said}");
        if life.id == world.faults[1].id {
            assert!(said.contains("a result came too late"), "the stopped node had nothing to say: {said}");
        }
    }
    println!("{}", arrived(&world, &ids, &stats));
}

/// Compares what the producers were told, what the sink saw and what the database says; and says what came of it.
fn arrived(world: &World, ids: &HashSet<String>, stats: &serde_json::Value) -> String {
    let World { database, witness, faults, .. } = world;
    // What the database says.
    for (question, wanted) in [
        ("SELECT count(*) FROM pombo.message", MESSAGES),
        ("SELECT count(*) FROM pombo.history WHERE outcome = 1", MESSAGES),
        ("SELECT count(DISTINCT key) FROM pombo.history WHERE outcome = 1", MESSAGES),
        ("SELECT count(*) FROM pombo.ready", 0),
        ("SELECT count(*) FROM pombo.claim", 0),
    ] {
        assert_eq!(database.ask(question), wanted.to_string(), "{question}");
    }
    for (what, wanted) in [("accepted", MESSAGES), ("sent", MESSAGES), ("waiting", 0), ("failed", 0)] {
        assert_eq!(stats["total"][what], json!(wanted), "{what}: {stats}");
    }
    let trail = read_trail(database.url());
    assert_eq!(trail.accepted, MESSAGES);
    assert!(ids.iter().all(|id| trail.sent.get(id) == Some(&1)), "one record of each that it was sent");
    assert_eq!(trail.sent.len(), MESSAGES);
    let doubts = trail.takeovers.len();
    assert!(
        (1..=faults.len() * WORKERS).contains(&doubts),
        "{doubts} in doubt after {} faults",
        faults.len()
    );

    // What the sink says: every message came, and came again only if its sender was lost.
    let came = witness.arrivals();
    assert_eq!(came.0.len(), MESSAGES, "the sink saw something that nobody was told of, or not all");
    assert!(ids.iter().all(|id| came.0.contains_key(id)));
    for (id, times) in &came.0 {
        let lost = trail.takeovers.get(id).copied().unwrap_or(0);
        assert!(times.len() <= 1 + lost, "{id} came {} times, and lost its sender {lost} times", times.len());
    }
    let moments: Vec<Time> = faults.iter().map(|fault| fault.at).collect();
    let (again, mut slowest) = (came.again(&moments, SLACK), Span::default());
    for one in &again {
        let waited = one.at.since(moments[one.over.end - 1]);
        assert!(waited <= TAKEOVER, "a message waited {waited} for another node");
        slowest = slowest.max(waited);
    }
    let repeated = again.len();
    assert_eq!(witness.sink.stats().duplicates, u64::try_from(repeated).unwrap());
    format!(
        "result nodes faults={} messages={MESSAGES} lost=0 repeated={repeated} doubts={doubts} slowest_ms={}",
        faults.len(),
        slowest.millis()
    )
}
