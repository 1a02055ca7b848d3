//! Throwaway PostgreSQL clusters for tests: nothing is left behind, however a test ends.
//!
//! A cluster speaks on a free port of 127.0.0.1 and nowhere else, and trusts whoever comes. A keeper, a small
//! process of its own, holds a pipe from us: once that closes, by `Drop` or because we died, it ends the server
//! and deletes the folder. Whatever is missing fails the test with what to do about it; nothing is skipped.

mod patroni;
mod pooler;
mod postfix;
mod programs;
mod proxy;

use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

pub use patroni::Patroni;
pub use pooler::Pooler;
pub use postfix::Postfix;
pub use proxy::Proxy;

/// Names the cluster that all test processes share: a URL without a database.
pub const SHARED: &str = "POMBO_TEST_POSTGRES";

/// On top of PostgreSQL's defaults. Neither the zone nor the collation are those in which everything works. After a crash
/// all is flushed by one call, since one for each of a thousand files takes a slow disk a minute.
const SETTINGS: &str = "
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
dynamic_shared_memory_type = mmap
timezone = 'America/Sao_Paulo'
max_connections = 300
recovery_init_sync_method = syncfs
";

/// For tests that are about meaning: nothing needs to survive the machine.
const IN_MEMORY: &str = "
fsync = off
full_page_writes = off
synchronous_commit = off
wal_level = minimal
max_wal_senders = 0
max_wal_size = 256MB
autovacuum = off
";

/// A PostgreSQL cluster.
#[derive(Debug)]
pub struct Cluster {
    url: String,
    house: Option<House>,
}

/// What belongs to a cluster that we started ourselves.
#[derive(Debug)]
struct House {
    folder: PathBuf,
    keeper: Child,
}

impl Cluster {
    /// The one cluster for all tests, with flushing off, in memory where that can be had.
    ///
    /// It is the one that the environment names, so that many test processes share it; otherwise this process
    /// starts its own at the first call, and it ends with the process.
    pub fn shared() -> &'static Cluster {
        static CLUSTER: OnceLock<Cluster> = OnceLock::new();
        CLUSTER.get_or_init(|| match std::env::var(SHARED) {
            Ok(url) => Cluster { url: url.trim_end_matches('/').to_owned(), house: None },
            Err(_) => Cluster::in_memory(),
        })
    }

    /// A new cluster with flushing off, in memory where that can be had.
    pub fn in_memory() -> Cluster {
        Cluster::make(&programs::memory(), &format!("{SETTINGS}{IN_MEMORY}"))
    }

    /// A new cluster for one test alone, which may restart or kill it. As durable as PostgreSQL is by default.
    pub fn own() -> Cluster {
        Cluster::make(&std::env::temp_dir(), SETTINGS)
    }

    /// The same on a disk whose power a test cuts. Nothing of it is left to be flushed.
    pub fn own_on(disk: &Path) -> Cluster {
        let cluster = Cluster::make(disk, SETTINGS);
        // Neither who made it nor who wrote its settings has seen to that.
        programs::run(Command::new("sync").arg("--file-system").arg(disk))
            .unwrap_or_else(|error| panic!("error: {error}"));
        cluster
    }

    fn make(parent: &Path, settings: &str) -> Cluster {
        let house = House::new(parent);
        house.initialise();
        house.open(settings)
    }

    /// A standby of this cluster, which is there once it follows. No commit waits for it.
    pub fn standby(&self) -> Cluster {
        let house = House::new(&std::env::temp_dir());
        house.copy(&self.url);
        let standby = house.open(&format!("{SETTINGS}primary_conninfo = '{}'\n", self.url));
        const FOLLOWS: &str =
            "SELECT count(*) FROM pg_stat_replication WHERE application_name = 'walreceiver'";
        for _ in 0..600 {
            if psql(&self.database_url("postgres"), FOLLOWS).is_ok_and(|count| count.trim() != "0") {
                return standby;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("error: the standby does not follow\n{}", standby.house().log());
    }

    /// Where it is, without a database.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A new, empty database.
    pub fn database(&self) -> Database {
        self.copy("template0")
    }

    /// A copy of a database that nobody is connected to: much quicker than preparing another.
    pub fn database_from(&self, template: &Database) -> Database {
        self.copy(&template.name)
    }

    fn copy(&self, template: &str) -> Database {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let admin = self.database_url("postgres");
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("test_{}_{number}", std::process::id());
            match psql(&admin, &format!("CREATE DATABASE {name} TEMPLATE {template}")) {
                Ok(_) => return Database { url: self.database_url(&name), admin, name },
                // A process with our number died here before us.
                Err(error) if error.contains("already exists") => {}
                Err(error) => panic!("error: no new database on {}: {error}", self.url),
            }
        }
    }

    fn database_url(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    /// Ends every process at once, as a loss of power would, and starts again: the server has to recover.
    pub fn restart_immediate(&self) {
        self.control(&["restart", "--mode=immediate"]);
    }

    /// Ends it in good order; whoever is connected is cut off.
    pub fn stop(&self) {
        self.control(&["stop", "--mode=fast"]);
    }

    /// Starts it again, on the same port, after `stop` or `kill`.
    pub fn start(&self) {
        let mut said = String::new();
        // After `kill`, the last of the old processes may still be there.
        for _ in 0..100 {
            match self.house().control(&["start"]) {
                Ok(()) => return,
                Err(error) => said = error,
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("error: PostgreSQL does not start again: {said}\n{}", self.house().log());
    }

    /// Makes a standby a primary. Whatever it has not got from the old one by now, it will never have.
    pub fn promote(&self) {
        self.control(&["promote"]);
    }

    /// Kills every process of the server.
    pub fn kill(&self) {
        kill_server(self.postmaster());
    }

    /// The process of the server that has started all others.
    pub fn postmaster(&self) -> u32 {
        let file = self.house().data().join("postmaster.pid");
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let first = text.lines().next().and_then(|line| line.trim().parse().ok());
        first.unwrap_or_else(|| panic!("error: the server is not running"))
    }

    fn control(&self, arguments: &[&str]) {
        let house = self.house();
        if let Err(error) = house.control(arguments) {
            panic!("error: {error}\n{}", house.log());
        }
    }

    fn house(&self) -> &House {
        self.house.as_ref().expect("a cluster that many tests share is not for one of them to end")
    }
}

impl House {
    fn new(parent: &Path) -> House {
        let folder = tempfile::Builder::new().prefix("pombo-postgres-").tempdir_in(parent);
        let folder =
            folder.unwrap_or_else(|error| panic!("error: no folder in {}: {error}", parent.display()));
        programs::hand_over(folder.path());
        let keeper = keeper(folder.path());
        House { folder: folder.keep(), keeper }
    }

    /// Starts the server on a port that nobody uses.
    fn open(self, settings: &str) -> Cluster {
        // Between finding a free port and using it, somebody else may take it.
        let mut said = String::new();
        for _ in 0..5 {
            let port = free_port();
            self.configure(&format!("{settings}port = {port}\n"));
            match self.control(&["start"]) {
                Ok(()) => {
                    let url = format!("postgres://postgres@127.0.0.1:{port}");
                    return Cluster { url, house: Some(self) };
                }
                Err(error) => said = error,
            }
        }
        panic!("error: PostgreSQL does not start: {said}\n{}", self.log());
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn initialise(&self) {
        let mut command = programs::server("initdb");
        command.args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8"]);
        command.args(["--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US"]);
        programs::run(command.arg("--pgdata").arg(self.data()))
            .unwrap_or_else(|error| panic!("error: no PostgreSQL cluster could be made: {error}"));
    }

    /// Copies a running server, to become its standby.
    fn copy(&self, url: &str) {
        let mut command = programs::server("pg_basebackup");
        command.args(["--checkpoint=fast", "--no-sync", "--write-recovery-conf", "--dbname", url]);
        programs::run(command.arg("--pgdata").arg(self.data()))
            .unwrap_or_else(|error| panic!("error: the cluster could not be copied: {error}"));
    }

    /// Writes over the file's text only, since the server's user owns the file.
    fn configure(&self, settings: &str) {
        let file = self.data().join("postgresql.auto.conf");
        std::fs::write(&file, settings).unwrap_or_else(|error| panic!("error: {}: {error}", file.display()));
    }

    fn control(&self, arguments: &[&str]) -> Result<(), String> {
        let mut command = programs::server("pg_ctl");
        command
            .args(arguments)
            .args(["--wait", "--timeout=600", "--silent"])
            .arg("--pgdata")
            .arg(self.data());
        command.arg("--log").arg(self.folder.join("log"));
        programs::run(&mut command).map(drop)
    }

    fn log(&self) -> String {
        let text = std::fs::read(self.folder.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&text).lines().rev().take(20).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for House {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // If it cannot be waited for, it still does its work.
        let _ = self.keeper.wait();
    }
}

/// Waits until our end of the pipe closes, then ends the server and deletes the folder.
///
/// It is in a group of its own, so that an interrupt from the keyboard, which ends us, does not end it first.
fn keeper(folder: &Path) -> Child {
    let mut stop = programs::server("pg_ctl");
    stop.args(["stop", "--mode=immediate", "--silent", "--pgdata"]).arg(folder.join("data"));
    let mut command = Command::new("sh");
    command.args(["-c", r#"cat >/dev/null; "$@"; rm -rf "$0""#]).arg(folder);
    command.arg(stop.get_program()).args(stop.get_args());
    command.process_group(0).current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|error| panic!("error: cannot run sh: {error}"))
}

fn free_port() -> u16 {
    let taken = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    taken.unwrap_or_else(|error| panic!("error: no free port on 127.0.0.1: {error}")).port()
}

/// A database of its own for one test; dropped with this.
#[derive(Debug)]
pub struct Database {
    name: String,
    url: String,
    admin: String,
}

impl Database {
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What psql prints for one statement: a line for each row, its columns parted by `|`.
    pub fn ask(&self, sql: &str) -> String {
        match psql(&self.url, sql) {
            Ok(said) => said.trim_end().to_owned(),
            Err(error) => panic!("error: {sql}: {error}"),
        }
    }

    /// Waits until nobody is connected any more.
    pub fn left_alone(&self) {
        const OTHERS: &str = "SELECT pid, application_name, state, query FROM pg_stat_activity
            WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
        let mut others = String::new();
        for _ in 0..600 {
            others = self.ask(OTHERS);
            if others.is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("still connected: {others}");
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Sessions that do not end within 5 s are in the way. A cluster that was stopped takes its databases with it.
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let _ = (0..3).any(|_| psql(&self.admin, &drop).is_ok());
    }
}

/// Kills a server by its first process, so that its folder need not be read, and waits until all of it is gone.
pub fn kill_server(postmaster: u32) {
    let signal = |signal: &str, processes: &[String]| {
        programs::run(Command::new("kill").arg(signal).args(processes))
            .unwrap_or_else(|error| panic!("error: {error}"));
    };
    let postmaster = postmaster.to_string();
    let mut processes = vec![postmaster.clone()];
    // So that it starts no more of them.
    signal("-STOP", &processes);
    processes.extend(programs::children(&postmaster));
    signal("-KILL", &processes);
    for _ in 0..6_000 {
        if processes.iter().all(|process| programs::is_gone(process)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("error: PostgreSQL was killed and is still there");
}

/// What psql prints for one statement: a line for each row, its columns parted by `|`.
pub fn psql(url: &str, sql: &str) -> Result<String, String> {
    let mut command = programs::client("psql");
    command.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1"]);
    programs::run(command.args(["--dbname", url, "--command", sql]))
}
