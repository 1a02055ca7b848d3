//! The real binary, killed and stopped under load. Three records are compared: what the producer was told, what
//! the sink saw, and what the store says.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pombo::client::{Client, Payload};
use pombo_channels::sandbox::{Options, Sandbox};
use pombo_kernel::dice::Dice;
use pombo_kernel::id::MessageId;
use pombo_kernel::message::StateName;
use pombo_kernel::name::Tenant;
use pombo_store::audit::Event;
use pombo_store::core::{Core, Reading};
use pombo_store::sqlite::Sqlite;
use serde_json::json;

const KEY: &str = "pombo_test_key_that_only_this_test_knows";
const WORKERS: usize = 16;

fn binary() -> PathBuf {
    std::env::var_os("POMBO_BIN").map_or_else(|| env!("CARGO_BIN_EXE_pombo").into(), PathBuf::from)
}

/// A folder with a configuration whose only channel leads to the sink.
struct Place {
    folder: tempfile::TempDir,
    port: u16,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let config = format!(
            "[lanes.default]\nworkers = {WORKERS}\n\
             [channels.crm]\nkind = \"webhook\"\nallow_private = true\nattempt_timeout = \"5s\"\n\
             [channels.crm.retry]\ndelays = [\"20ms\", \"20ms\", \"20ms\", \"50ms\", \"50ms\", \"50ms\", \"100ms\", \"100ms\"]\nmax_hint = \"1s\"\n"
        );
        std::fs::write(folder.path().join("pombo.toml"), config).unwrap();
        Place { port: free.local_addr().unwrap().port(), folder }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn start(&self) -> Server {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        let child = Command::new(binary())
            .arg("serve")
            .args(["--listen", &format!("127.0.0.1:{}", self.port)])
            .arg("--data")
            .arg(self.data())
            .arg("--config")
            .arg(self.folder.path().join("pombo.toml"))
            .env("POMBO_ADMIN_KEY", KEY)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Server { child }
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn client(&self) -> Client {
        Client::new(&format!("http://127.0.0.1:{}", self.port), Some(KEY)).unwrap()
    }

    async fn ready(&self) {
        let client = self.client();
        for _ in 0..600 {
            if client.get("/readyz").await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the server never became ready: {}", std::fs::read_to_string(self.log()).unwrap());
    }
}

struct Server {
    child: Child,
}

impl Server {
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    async fn terminate(mut self) -> ExitStatus {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        tokio::task::spawn_blocking(move || self.child.wait().unwrap()).await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already gone in the good case.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn sink() -> Sandbox {
    Sandbox::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &Options::default()).await.unwrap()
}

/// Posts one message after another, repeating each under its own key until it is acknowledged; says which ids it
/// was told.
async fn produce(client: Client, name: usize, urls: [String; 2], stop: Arc<AtomicBool>) -> Vec<String> {
    let mut told = Vec::new();
    for n in 0usize.. {
        let url = &urls[usize::from(n % 4 == 0)];
        let body = json!({"channel": "crm", "to": url, "content": {"body": {"n": n}}});
        loop {
            let payload = Payload { idempotency_key: Some(format!("{name}-{n}")), ..Payload::json(&body) };
            match client.post("/v1/messages", payload).await {
                Ok(message) => {
                    told.push(message["id"].as_str().unwrap().to_owned());
                    break;
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        if stop.load(Ordering::SeqCst) {
            break;
        }
    }
    told
}

/// What the store says, read from its file once nobody writes it.
struct Record {
    states: HashMap<String, StateName>,
    takeovers: HashMap<String, usize>,
    takeovers_at_once: usize,
}

fn read_store(folder: &Path, ids: &[String]) -> Record {
    let store = Sqlite::open(folder, Dice::seeded(1), &[7; 32]).unwrap();
    let mut reader = store.reader().unwrap();
    assert_eq!(reader.verify().unwrap().broken, None);
    let mut takeovers = HashMap::new();
    let mut by_moment: BTreeMap<_, usize> = BTreeMap::new();
    let mut accepted = 0;
    let mut from = 0;
    loop {
        let records = reader.audit(from, 10_000).unwrap();
        let Some((last, _)) = records.last() else { break };
        from = last + 1;
        for (_, record) in records {
            accepted += usize::from(record.event == Event::Accepted);
            if record.event == Event::TakenOver {
                *takeovers.entry(record.message.unwrap().to_string()).or_default() += 1;
                *by_moment.entry(record.at).or_default() += 1;
            }
        }
    }
    assert_eq!(accepted, ids.len(), "as many rows as different idempotency keys");
    let states = ids.iter().map(|id| {
        let story = reader.story(&Tenant::default(), id.parse::<MessageId>().unwrap()).unwrap();
        (id.clone(), story.unwrap_or_else(|| panic!("{id} was acknowledged and is lost")).state.name())
    });
    let states = states.collect();
    Record { states, takeovers, takeovers_at_once: by_moment.into_values().max().unwrap_or(0) }
}

async fn drained(client: &Client, accepted: usize) {
    for _ in 0..1_500 {
        let stats = client.get("/v1/stats").await.unwrap();
        if stats["total"]["sent"].as_u64() == Some(accepted as u64) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not everything was sent: {}", client.get("/v1/stats").await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ ML-1, ML-3, ML-4, ML-5, RELIABILITY 1 to 5
async fn nothing_is_lost_and_little_is_repeated_when_the_process_is_killed_thirty_times() {
    const KILLS: usize = 32;
    let place = Place::new();
    let sink = sink().await;
    let stop = Arc::new(AtomicBool::new(false));
    let urls = [sink.url("/slow?ms=3"), sink.url("/flaky?fail=1")];
    let producers: Vec<_> =
        (0..4).map(|n| tokio::spawn(produce(place.client(), n, urls.clone(), stop.clone()))).collect();
    let mut dice = Dice::seeded(2_026);
    for _ in 0..KILLS {
        let server = place.start();
        place.ready().await;
        tokio::time::sleep(Duration::from_millis(20 + dice.below(250))).await;
        server.kill();
    }
    let server = place.start();
    place.ready().await;
    stop.store(true, Ordering::SeqCst);
    let mut told = Vec::new();
    for producer in producers {
        told.extend(producer.await.unwrap());
    }
    drained(&place.client(), told.len()).await;
    assert!(server.terminate().await.success());

    let record = read_store(&place.data(), &told);
    let mut repeated = 0;
    for id in &told {
        assert_eq!(record.states[id], StateName::Sent, "{id}");
        let seen = sink.count(id).accepted as usize;
        let doubts = record.takeovers.get(id).copied().unwrap_or(0);
        assert!(seen >= 1, "{id} is said to be sent and the sink never saw it");
        assert!(seen <= 1 + doubts, "{id} came {seen} times and was in doubt only {doubts} times");
        repeated += seen - 1;
    }
    let distinct = usize::try_from(sink.stats().distinct).unwrap();
    assert_eq!(distinct, told.len(), "the sink saw something that nobody was told of");
    assert!(record.takeovers_at_once <= WORKERS, "more in doubt at once than slots");
    assert!(told.len() >= 500, "too little load to prove anything: {}", told.len());
    println!("{KILLS} kills, {} messages, 0 lost, {repeated} repeated", told.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 52
async fn a_polite_stop_finishes_what_is_under_way_and_repeats_nothing() {
    let place = Place::new();
    let sink = sink().await;
    let server = place.start();
    place.ready().await;
    let client = place.client();
    let mut told = Vec::new();
    for n in 0..60 {
        let body = json!({"channel": "crm", "to": sink.url("/slow?ms=100"), "content": {"body": n}});
        told.push(
            client.post("/v1/messages", Payload::json(&body)).await.unwrap()["id"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    assert!(server.terminate().await.success());
    let record = read_store(&place.data(), &told);
    assert!(record.takeovers.is_empty());
    for id in &told {
        let sent = record.states[id] == StateName::Sent;
        assert!(sent || record.states[id] == StateName::Pending, "{id} is {}", record.states[id]);
        assert_eq!(sink.count(id).accepted, u32::from(sent), "{id}");
    }
    assert!(
        record.states.values().any(|state| *state == StateName::Pending),
        "it stopped too late to show anything"
    );
    let server = place.start();
    place.ready().await;
    drained(&place.client(), told.len()).await;
    assert!(server.terminate().await.success());
    assert_eq!(sink.stats().duplicates, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 11
async fn a_second_process_on_the_same_folder_is_refused_and_the_first_goes_on() {
    let place = Place::new();
    let server = place.start();
    place.ready().await;
    let second = Command::new(binary())
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(place.data())
        .env("POMBO_ADMIN_KEY", KEY)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    let words = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(words.contains("another Pombo process is using"), "{words}");
    place.ready().await;
    assert!(server.terminate().await.success());
}
