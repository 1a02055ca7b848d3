//! A folder, a sink, and the real binary between them, for tests that treat it badly.
//!
//! Three records are compared in the end: what the producer was told, what the sink saw, and what the store says.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pombo::client::{Client, Payload};
use pombo_channels::sandbox::{Options, Sandbox};
use pombo_kernel::dice::Dice;
use pombo_kernel::id::MessageId;
use pombo_kernel::lifecycle::MAX_CRASHES;
use pombo_kernel::message::StateName;
use pombo_kernel::name::Tenant;
use pombo_kernel::time::Time;
use pombo_store::audit::Event;
use pombo_store::core::{Core, Reading};
use pombo_store::postgres::{Postgres, Sealing, Target};
use pombo_store::sqlite::Sqlite;
use serde_json::{Value, json};
use tokio::net::TcpSocket;

pub(crate) mod clients;
pub(crate) mod secrets;
pub(crate) mod witness;

pub(crate) const KEY: &str = "pombo_test_key_that_only_this_test_knows";
pub(crate) const WORKERS: usize = 16;

/// The release binary where there is one, else the debug one.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("POMBO_BIN").map_or_else(|| env!("CARGO_BIN_EXE_pombo").into(), PathBuf::from)
}

/// That of the version before, where it is named, for whoever wants nodes of both at work at once.
pub(crate) fn binary_before() -> PathBuf {
    std::env::var_os("POMBO_BIN_BEFORE").map_or_else(binary, PathBuf::from)
}

/// A folder with a configuration whose only channel leads to the sink.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    /// Holds the port, so that nobody is given it before the server listens there, or between two of its lives.
    held: TcpSocket,
}

impl Place {
    pub(crate) fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let held = TcpSocket::new_v4().unwrap();
        held.set_reuseaddr(true).unwrap();
        held.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let config = format!(
            "[lanes.default]\nworkers = {WORKERS}\n\
             [channels.crm]\nkind = \"webhook\"\nallow_private = true\nattempt_timeout = \"30s\"\n\
             [channels.crm.retry]\ndelays = [\"20ms\", \"20ms\", \"20ms\", \"50ms\", \"50ms\", \"50ms\", \"100ms\", \"100ms\"]\nmax_hint = \"1s\"\n"
        );
        std::fs::write(folder.path().join("pombo.toml"), config).unwrap();
        Place { held, folder }
    }

    fn address(&self) -> SocketAddr {
        self.held.local_addr().unwrap()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn start(&self) -> Server {
        self.start_with(Command::new(binary()), &self.data())
    }

    /// Starts the server through that command, which is the binary or something that runs it.
    pub(crate) fn start_with(&self, command: Command, data: &Path) -> Server {
        self.spawn(command, "--data", data.as_os_str(), &[])
    }

    /// Starts the server as a node on a database.
    pub(crate) fn start_on(&self, url: &str) -> Server {
        self.start_on_with(url, &[])
    }

    /// The same with options of its own.
    pub(crate) fn start_on_with(&self, url: &str, options: &[&str]) -> Server {
        self.spawn(Command::new(binary()), "--database-url", url.as_ref(), options)
    }

    /// The same by a binary that may be another version's.
    pub(crate) fn start_on_by(&self, binary: PathBuf, url: &str) -> Server {
        self.spawn(Command::new(binary), "--database-url", url.as_ref(), &[])
    }

    /// Starts the server with much to say, into a pipe that nobody reads.
    pub(crate) fn start_unheard(&self) -> (Server, ChildStderr) {
        let mut server = self.start_talking_to(Stdio::piped());
        let unread = server.child.stderr.take().unwrap();
        (server, unread)
    }

    /// Starts the server with much to say, and says it there.
    pub(crate) fn start_talking_to(&self, log: Stdio) -> Server {
        let mut command = Command::new(binary());
        command.env("POMBO_LOG", "debug");
        self.spawn_to(command, "--data", self.data().as_os_str(), &[], log)
    }

    fn spawn(&self, command: Command, store: &str, at: &OsStr, options: &[&str]) -> Server {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        self.spawn_to(command, store, at, options, log.into())
    }

    fn spawn_to(
        &self,
        mut command: Command,
        store: &str,
        at: &OsStr,
        options: &[&str],
        log: Stdio,
    ) -> Server {
        let child = command
            .arg("serve")
            .args(["--listen", &self.address().to_string()])
            .args([store.as_ref(), at])
            .args(options)
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

    /// Everything that servers of this place have said so far.
    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.log()).unwrap_or_default()).into_owned()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url(), Some(KEY)).unwrap()
    }

    pub(crate) async fn ready(&self) {
        let client = self.client();
        for _ in 0..3_000 {
            if client.get("/readyz").await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the server never became ready: {}", self.said());
    }
}

impl Drop for Place {
    /// Whatever a test is about, no server of it has said a secret.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let shown = secrets::shown(self.said().as_bytes());
            assert!(shown.is_empty(), "a server said a secret: {}", shown.join("\n"));
        }
    }
}

pub(crate) struct Server {
    child: Child,
}

impl Server {
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) async fn terminate(self) -> ExitStatus {
        self.signal("-TERM");
        self.ended().await
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until it ends by itself.
    pub(crate) async fn ended(mut self) -> ExitStatus {
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

pub(crate) async fn sink() -> Sandbox {
    Sandbox::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &Options::default()).await.unwrap()
}

/// What producers have been told, kept where no fault of the server reaches.
#[derive(Clone, Default)]
pub(crate) struct Told {
    enough: Arc<AtomicBool>,
    give_up: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
}

impl Told {
    /// Asks the producers to end once the message that they are at is acknowledged.
    pub(crate) fn enough(&self) {
        self.enough.store(true, Ordering::SeqCst);
    }

    /// Asks the producers to end even if the message that they are at never will be.
    pub(crate) fn give_up(&self) {
        self.give_up.store(true, Ordering::SeqCst);
    }

    /// Waits until so many messages have been acknowledged in all.
    pub(crate) async fn at_least(&self, count: usize) {
        for _ in 0..24_000 {
            if self.count.load(Ordering::SeqCst) >= count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("only {} of {count} messages were acknowledged", self.count.load(Ordering::SeqCst));
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

/// Posts one message after another, repeating each under its own key until it is acknowledged; says which ids it
/// was told.
pub(crate) async fn produce(client: Client, name: usize, urls: [String; 2], told: Told) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0usize.. {
        let url = &urls[usize::from(n % 4 == 0)];
        let body = json!({"channel": "crm", "to": url, "content": {"body": {"n": n}}});
        loop {
            let payload = Payload { idempotency_key: Some(format!("{name}-{n}")), ..Payload::json(&body) };
            match client.post("/v1/messages", payload).await {
                Ok(message) => {
                    ids.push(message["id"].as_str().unwrap().to_owned());
                    told.count.fetch_add(1, Ordering::SeqCst);
                    break;
                }
                Err(_) if told.give_up.load(Ordering::SeqCst) => return ids,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        if told.enough.load(Ordering::SeqCst) {
            break;
        }
    }
    ids
}

/// What the store says, read once nobody writes it.
pub(crate) struct Record {
    pub(crate) states: HashMap<String, StateName>,
    pub(crate) takeovers: HashMap<String, usize>,
    pub(crate) takeovers_at_once: usize,
}

pub(crate) fn read_store(folder: &Path, ids: &[String]) -> Record {
    read_core(&Sqlite::open(folder, Dice::seeded(1), &[7; 32]).unwrap(), ids)
}

pub(crate) fn read_database(url: &str, ids: &[String]) -> Record {
    in_database(url, |store| read_core(store, ids))
}

/// What the audit of a database says, whose chain must hold.
pub(crate) fn read_trail(url: &str) -> Trail {
    in_database(url, |store| trail(&mut store.reader().unwrap()))
}

/// The same of an embedded store that nobody has open.
pub(crate) fn read_trail_in(folder: &Path) -> Trail {
    trail(&mut Sqlite::open(folder, Dice::seeded(1), &[7; 32]).unwrap().reader().unwrap())
}

fn in_database<T: Send>(url: &str, read: impl FnOnce(&Postgres) -> T + Send) -> T {
    let target = Target::parse(url).unwrap();
    let read = || read(&Postgres::open(&target, Dice::seeded(1), &[7; 32], Sealing::AtCommit).unwrap());
    // It blocks, which no thread of a runtime may.
    std::thread::scope(|scope| scope.spawn(read).join().unwrap())
}

/// Waits until the audit of what was committed is a chain, which the nodes see to a moment later.
pub(crate) async fn sealed(url: &str) {
    const REST: &str = "SELECT count(*) FROM pombo.audit WHERE sequence IS NULL";
    for _ in 0..600 {
        if pombo_testbed::psql(url, REST).unwrap().trim() == "0" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the audit was never sealed");
}

/// What the audit says of messages.
#[derive(Default)]
pub(crate) struct Trail {
    pub(crate) accepted: usize,
    /// How often each was sent, which is to be once, and how often somebody took over an attempt of it.
    pub(crate) sent: HashMap<String, usize>,
    pub(crate) takeovers: HashMap<String, usize>,
    /// How often somebody had it sent again.
    pub(crate) reprocessed: HashMap<String, usize>,
    by_moment: BTreeMap<Time, usize>,
}

fn trail(reader: &mut impl Reading) -> Trail {
    assert_eq!(reader.verify().unwrap().broken, None);
    let mut trail = Trail::default();
    // Taken over and not judged yet: whoever takes it over again after a second death doubts nothing new.
    let mut unjudged = HashSet::new();
    let mut from = 0;
    loop {
        let records = reader.audit(from, 10_000).unwrap();
        let Some((last, _)) = records.last() else { return trail };
        from = last + 1;
        for (_, record) in records {
            let again = match (record.event, record.message) {
                (Event::TakenOver, Some(message)) => !unjudged.insert(message),
                (_, Some(message)) => unjudged.remove(&message),
                (_, None) => false,
            };
            match record.event {
                Event::Accepted => trail.accepted += 1,
                Event::Sent => *trail.sent.entry(record.message.unwrap().to_string()).or_default() += 1,
                Event::Reprocessed => {
                    *trail.reprocessed.entry(record.message.unwrap().to_string()).or_default() += 1;
                }
                Event::TakenOver if !again => {
                    *trail.takeovers.entry(record.message.unwrap().to_string()).or_default() += 1;
                    *trail.by_moment.entry(record.at).or_default() += 1;
                }
                _ => {}
            }
        }
    }
}

/// Reads the store and checks its audit chain. Every message that was acknowledged must be there, once.
fn read_core(store: &impl Core, ids: &[String]) -> Record {
    let mut reader = store.reader().unwrap();
    let Trail { accepted, takeovers, by_moment, .. } = trail(&mut reader);
    let there =
        |id: &&String| reader.story(&Tenant::default(), id.parse::<MessageId>().unwrap()).unwrap().is_some();
    let (kept, lost): (Vec<&String>, Vec<&String>) = ids.iter().partition(there);
    assert!(lost.is_empty(), "{} of {} were acknowledged and are lost: {lost:?}", lost.len(), kept.len());
    assert_eq!(accepted, ids.len(), "as many rows as different idempotency keys");
    let states = ids.iter().map(|id| {
        let story = reader.story(&Tenant::default(), id.parse::<MessageId>().unwrap()).unwrap();
        (id.clone(), story.unwrap_or_else(|| panic!("{id} was acknowledged and is lost")).state.name())
    });
    let states = states.collect();
    Record { states, takeovers, takeovers_at_once: by_moment.into_values().max().unwrap_or(0) }
}

/// How many of the acknowledged messages the store does not have.
pub(crate) fn lost(folder: &Path, ids: &[String]) -> usize {
    let store = Sqlite::open(folder, Dice::seeded(1), &[7; 32]).unwrap();
    let mut reader = store.reader().unwrap();
    let mut there = |id: &String| {
        let story = reader.story(&Tenant::default(), id.parse::<MessageId>().unwrap());
        story.unwrap().is_some()
    };
    ids.len() - ids.iter().filter(|id| there(id)).count()
}

/// Every message is sent and the sink saw it, or it was being sent at three deaths in a row and is set aside for a
/// person; and none came more often than it was in doubt. Says how many came again.
pub(crate) fn all_sent(record: &Record, sink: &Sandbox, ids: &[String]) -> usize {
    all_sent_with(record, sink, ids, WORKERS)
}

/// The same where up to so many may have been taken over together.
fn all_sent_with(record: &Record, sink: &Sandbox, ids: &[String], at_once: usize) -> usize {
    let (mut repeated, mut unseen) = (0, 0);
    for id in ids {
        let seen = sink.count(id).accepted as usize;
        let doubts = record.takeovers.get(id).copied().unwrap_or(0);
        match record.states[id] {
            StateName::Sent => assert!(seen >= 1, "{id} is said to be sent and the sink never saw it"),
            StateName::Failed => {
                assert!(
                    doubts >= usize::from(MAX_CRASHES),
                    "{id} failed after {doubts} deaths of its sender"
                );
                unseen += usize::from(seen == 0);
            }
            state => panic!("{id} is {state}"),
        }
        assert!(seen <= 1 + doubts, "{id} came {seen} times and was in doubt only {doubts} times");
        repeated += seen.saturating_sub(1);
    }
    let distinct = usize::try_from(sink.stats().distinct).unwrap();
    assert_eq!(distinct + unseen, ids.len(), "the sink saw something that nobody was told of");
    let taken = record.takeovers_at_once;
    assert!(taken <= at_once, "{taken} in doubt at once, and there may be {at_once}");
    repeated
}

/// Lets the producers end and the server, which is no longer disturbed, send the rest; stops it politely; then
/// compares what the producers were told, what the sink saw and what the store says. The ids, and how many came again.
///
/// Of the processes before it up to `unready` in a row died while they started. Such a one may have claimed as many as
/// it has slots before it took over what was in doubt, and then leaves both.
pub(crate) async fn all_arrive(
    place: &Place,
    server: Server,
    data: &Path,
    unready: usize,
    told: &Told,
    producers: Vec<tokio::task::JoinHandle<Vec<String>>>,
    sink: &Sandbox,
) -> (Vec<String>, usize) {
    let ids = all_handed_in(place, told, producers).await;
    assert!(server.terminate().await.success());
    let at_once = WORKERS * (1 + unready);
    let repeated = all_sent_with(&read_store(data, &ids), sink, &ids, at_once);
    (ids, repeated)
}

/// The same of a server that is a node on a database.
pub(crate) async fn all_arrive_on(
    place: &Place,
    server: Server,
    url: &str,
    told: &Told,
    producers: Vec<tokio::task::JoinHandle<Vec<String>>>,
    sink: &Sandbox,
) -> (Vec<String>, usize) {
    let ids = all_handed_in(place, told, producers).await;
    sealed(url).await;
    assert!(server.terminate().await.success());
    let repeated = all_sent(&read_database(url, &ids), sink, &ids);
    (ids, repeated)
}

/// Lets the producers end and waits until nothing of theirs waits any more.
async fn all_handed_in(
    place: &Place,
    told: &Told,
    producers: Vec<tokio::task::JoinHandle<Vec<String>>>,
) -> Vec<String> {
    place.ready().await;
    told.enough();
    let mut ids = Vec::new();
    for producer in producers {
        ids.extend(producer.await.unwrap());
    }
    drained(&place.client(), ids.len()).await;
    ids
}

/// Hands a message in; its id.
pub(crate) async fn send(client: &Client, message: &Value) -> String {
    let answer = client.post("/v1/messages", Payload::json(message)).await.unwrap();
    answer["id"].as_str().unwrap().to_owned()
}

/// Looks at the message until it is as wanted.
pub(crate) async fn follow(client: &Client, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..3_000 {
        let message = client.get(&format!("/v1/messages/{id}")).await.unwrap();
        if wanted(&message) {
            return message;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it never came to that: {}", client.get(&format!("/v1/messages/{id}")).await.unwrap());
}

pub(crate) fn ended(message: &Value) -> bool {
    matches!(message["state"].as_str(), Some("sent" | "failed"))
}

/// Waits until nothing waits any more, as long as there are fewer every now and then. Whether that is everything that was
/// acknowledged, the store's file tells.
pub(crate) async fn drained(client: &Client, accepted: usize) {
    let (mut least, mut looks) = (u64::MAX, 0);
    while looks < 1_500 {
        let stats = client.get("/v1/stats").await.unwrap();
        let waiting = stats["total"]["waiting"].as_u64().unwrap();
        if waiting == 0 {
            return;
        }
        looks = if waiting < least { 0 } else { looks + 1 };
        least = least.min(waiting);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not all of {accepted} was sent: {}", client.get("/v1/stats").await.unwrap());
}

/// A file system of its own below a folder. Gone when dropped, whatever happened on it.
pub(crate) struct Mount {
    pub(crate) folder: PathBuf,
    options: Vec<String>,
}

impl Mount {
    /// An ext4 image over a loop device.
    pub(crate) fn ext4(below: &Path, size_mb: u64) -> Mount {
        let image = below.join("image");
        std::fs::File::create(&image).unwrap().set_len(size_mb << 20).unwrap();
        run("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()]);
        Mount::new(below, vec!["-o".into(), "loop".into(), image.to_str().unwrap().into()])
    }

    /// A file system in memory that is soon full.
    pub(crate) fn tmpfs(below: &Path, size_mb: u64) -> Mount {
        let options = ["-t", "tmpfs", "-o", &format!("size={size_mb}m"), "pombo-test"];
        Mount::new(below, options.map(str::to_owned).into())
    }

    fn new(below: &Path, options: Vec<String>) -> Mount {
        let folder = below.join("disk");
        std::fs::create_dir(&folder).unwrap();
        let mount = Mount { folder, options };
        mount.mount();
        mount
    }

    fn mount(&self) {
        let folder = self.folder.to_str().unwrap();
        let arguments: Vec<&str> = self.options.iter().map(String::as_str).chain([folder]).collect();
        run("mount", &arguments);
    }

    /// Cuts the power: these processes and those that they started do nothing more, nothing reaches the disk, and what
    /// was not flushed is gone.
    ///
    /// They are stopped first, by the same hand. They would live on for a moment otherwise, which no machine does, and
    /// act on a flush that was under way: that may end well though its file system is gone.
    pub(crate) fn cut(&self, processes: &[u32]) {
        // EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH.
        const CUT: &str = "import fcntl, os, signal, struct, sys
disk = os.open(sys.argv[1], os.O_RDONLY)
for process in sys.argv[2:]:
    os.kill(int(process), signal.SIGSTOP)
    for child in open(f'/proc/{process}/task/{process}/children').read().split():
        os.kill(int(child), signal.SIGSTOP)
fcntl.ioctl(disk, 0x8004587d, struct.pack('I', 2))";
        let processes: Vec<String> = processes.iter().map(u32::to_string).collect();
        let arguments = ["-c", CUT, self.folder.to_str().unwrap()];
        run(
            "python3",
            &arguments.into_iter().chain(processes.iter().map(String::as_str)).collect::<Vec<_>>(),
        );
    }

    /// Brings the power back: what the disk has is read anew, through the file system's own recovery.
    pub(crate) fn back(&self) {
        run("umount", &[self.folder.to_str().unwrap()]);
        // Whoever has a view of its own of what is mounted, taken meanwhile, keeps what was cut off alive, and it would
        // be mounted again.
        for _ in 0..6_000 {
            if run("losetup", &["--associated", self.options.last().unwrap()]).is_empty() {
                return self.mount();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("what was cut off is still mounted somewhere");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily, since a server may not be quite gone; the loop device goes with the mount.
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
    }
}

/// What a tool of the system prints. One that is missing or refuses fails the test: skipped, it would prove nothing.
fn run(tool: &str, arguments: &[&str]) -> String {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let run = Command::new(tool).args(arguments).env("PATH", path).output();
    let run = run.unwrap_or_else(|error| panic!("{tool}: {error}; scripts/setup installs it"));
    assert!(
        run.status.success(),
        "`{tool} {}` failed, and without it this test can show nothing. It needs root, loop devices, and a kernel \
         whose ext4 knows the shutdown ioctl.\n{}",
        arguments.join(" "),
        String::from_utf8_lossy(&run.stderr)
    );
    String::from_utf8_lossy(&run.stdout).into_owned()
}
