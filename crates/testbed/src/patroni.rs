//! PostgreSQL with automatic failover: three members kept by Patroni, over one etcd, all on 127.0.0.1.
//!
//! The mode is synchronous: a commit is answered once another member has it too, and only a member that has all
//! of them is promoted. Times are as short as they can be, so that a test need not wait long for it.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::{programs, psql};

const MEMBERS: usize = 3;
/// Far beyond what a busy machine needs to start them all, or to promote one.
const GLANCES: usize = 600;
const GLANCE: Duration = Duration::from_millis(100);

/// Starts etcd, then each member that it is told to; once our end of the pipe closes, by `Drop` or because we
/// died, ends everything and deletes the folder. Its arguments: the folder, PostgreSQL's programs, etcd's addresses.
const KEEPER: &str = r#"
cd "$0"
etcd --name e --data-dir etcd --listen-client-urls "$2" --advertise-client-urls "$2" --listen-peer-urls "$3" \
  --initial-advertise-peer-urls "$3" --initial-cluster "e=$3" --log-level warn >log 2>&1 </dev/null &
running=$!
while read -r member; do
  patroni "$member/patroni.yaml" >"$member/log" 2>&1 </dev/null &
  echo $! >"$member/pid"
  running="$running $!"
done
kill -KILL $running
for member in member-*; do
  "$1/pg_ctl" stop --mode=immediate --pgdata "$member/data"
  # What was killed has left its piece of shared memory behind, and the number of that.
  left=$member/data/postmaster.pid
  [ ! -e "$left" ] || ipcrm --shmem-id "$(awk 'NR == 7 { print $2 }' "$left")"
done
rm -rf "$0"
"#;

/// A cluster of three members, of which one is the primary.
#[derive(Debug)]
pub struct Patroni {
    folder: PathBuf,
    members: Vec<Ports>,
    keeper: Child,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    postgres: u16,
    /// Where its Patroni says how it is.
    health: u16,
}

impl Patroni {
    /// Starts the members and waits until one is the primary and another its synchronous standby.
    ///
    /// Before that, a commit waits for nobody, and a member that does not have it may be promoted.
    pub fn start() -> Patroni {
        // In memory: its locks are short, and a slow disk would cost a primary that nobody has killed.
        let folder = tempfile::Builder::new().prefix("pombo-patroni-").tempdir_in(programs::memory());
        let folder = folder.unwrap_or_else(|error| panic!("error: no temporary folder: {error}"));
        programs::hand_over(folder.path());
        let ports = free_ports(2 + 2 * MEMBERS);
        let etcd = |port: u16| format!("http://127.0.0.1:{port}");
        let mut command = programs::as_server("sh");
        command.args(["-c", KEEPER]).arg(folder.path()).arg(programs::folder());
        command.args([etcd(ports[0]), etcd(ports[1])]).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let keeper = command.spawn().unwrap_or_else(|error| panic!("error: cannot run sh: {error}"));
        let members = ports[2..].chunks(2).map(|two| Ports { postgres: two[0], health: two[1] }).collect();
        let cluster = Patroni { folder: folder.keep(), members, keeper };
        cluster.until("etcd answers", || says_yes(ports[0], "/health").then_some(()));
        for number in 0..MEMBERS {
            cluster.add(number, ports[0]);
        }
        cluster.until("there is a primary", || cluster.primary_now());
        cluster.until("it has a synchronous standby", || cluster.first("/synchronous"));
        cluster.until("the third has come", || cluster.first("/asynchronous"));
        cluster
    }

    /// A database of the cluster, wherever its primary is.
    pub fn url(&self, database: &str) -> String {
        let hosts: Vec<_> =
            self.members.iter().map(|ports| format!("127.0.0.1:{}", ports.postgres)).collect();
        format!("postgres://postgres@{}/{database}?target_session_attrs=read-write", hosts.join(","))
    }

    /// What psql prints for one statement on the primary.
    pub fn ask(&self, database: &str, sql: &str) -> String {
        let said = psql(&self.url(database), sql).unwrap_or_else(|error| panic!("error: {sql}: {error}"));
        said.trim_end().to_owned()
    }

    /// The member that is the primary, once there is one.
    pub fn primary(&self) -> usize {
        self.until("there is a primary", || self.primary_now())
    }

    /// Ends every process of a member at once, as if its machine had died.
    ///
    /// Nothing of it is asked to stop: another is promoted only after the dead one's lock has run out.
    pub fn kill(&self, member: usize) {
        let folder = self.member(member);
        let first_line = |file: PathBuf| {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let line = text.lines().next().map(|line| line.trim().to_owned());
            line.unwrap_or_else(|| panic!("error: {} is empty or missing", file.display()))
        };
        let postmaster = first_line(folder.join("data/postmaster.pid"));
        let backends = programs::run(Command::new("pgrep").args(["--parent", &postmaster]));
        let backends = backends.unwrap_or_else(|error| panic!("error: {error}"));
        let mut kill = Command::new("kill");
        // The first may be gone by the time that its turn comes; the others must not.
        kill.args(["-KILL", &first_line(folder.join("pid")), &postmaster]);
        kill.args(backends.split_whitespace());
        let _ = kill.stdin(Stdio::null()).output();
    }

    /// The end of everything that the members have said.
    pub fn log(&self) -> String {
        let files = (0..MEMBERS).map(|number| self.member(number).join("log"));
        let texts = std::iter::once(self.folder.join("log")).chain(files).map(|file| {
            let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap_or_default()).into_owned();
            let lines: Vec<&str> = text.lines().collect();
            format!("{}:\n{}\n", file.display(), lines[lines.len().saturating_sub(20)..].join("\n"))
        });
        texts.collect()
    }

    fn member(&self, number: usize) -> PathBuf {
        self.folder.join(format!("member-{number}"))
    }

    /// Writes a member's configuration and has it started.
    fn add(&self, number: usize, etcd: u16) {
        let folder = self.member(number);
        let Ports { postgres, health } = self.members[number];
        // JSON is YAML, and needs no care for spaces.
        let configuration = format!(
            r#"{{
            "scope": "pombo", "name": "member-{number}",
            "etcd3": {{"host": "127.0.0.1:{etcd}"}},
            "restapi": {{"listen": "127.0.0.1:{health}", "connect_address": "127.0.0.1:{health}"}},
            "bootstrap": {{
              "dcs": {{"ttl": 12, "loop_wait": 1, "retry_timeout": 5, "synchronous_mode": true}},
              "initdb": [{{"encoding": "UTF8"}}, {{"auth": "trust"}}, "no-sync"]
            }},
            "postgresql": {{
              "listen": "127.0.0.1:{postgres}", "connect_address": "127.0.0.1:{postgres}",
              "data_dir": "{folder}/data", "bin_dir": "{programs}", "pgpass": "{folder}/pgpass",
              "authentication": {{"superuser": {{"username": "postgres"}}, "replication": {{"username": "postgres"}}}},
              "basebackup": [{{"checkpoint": "fast"}}, "no-sync"],
              "pg_hba": ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"],
              "parameters": {{"unix_socket_directories": "", "dynamic_shared_memory_type": "mmap",
                "wal_retrieve_retry_interval": "200ms"}}
            }}}}"#,
            folder = folder.display(),
            programs = programs::folder().display(),
        );
        std::fs::create_dir(&folder)
            .and_then(|()| std::fs::write(folder.join("patroni.yaml"), configuration))
            .unwrap_or_else(|error| panic!("error: {}: {error}", folder.display()));
        programs::hand_over(&folder);
        let pipe = self.keeper.stdin.as_ref();
        let told = pipe.map(|mut pipe| writeln!(pipe, "member-{number}"));
        assert!(matches!(told, Some(Ok(()))), "error: the keeper of the cluster has died: {}", self.log());
    }

    /// A member has the lock a moment before its server takes writes.
    fn primary_now(&self) -> Option<usize> {
        let number = self.first("/primary")?;
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres", self.members[number].postgres);
        let standby = psql(&url, "SELECT pg_is_in_recovery()").ok()?;
        (standby.trim() == "f").then_some(number)
    }

    /// The first member whose Patroni says yes to that question.
    fn first(&self, question: &str) -> Option<usize> {
        self.members.iter().position(|ports| says_yes(ports.health, question))
    }

    fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        for _ in 0..GLANCES {
            if let Some(found) = look() {
                return found;
            }
            std::thread::sleep(GLANCE);
        }
        panic!("error: waited in vain until {what}\n{}", self.log());
    }
}

impl Drop for Patroni {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // If it cannot be waited for, it still does its work.
        let _ = self.keeper.wait();
    }
}

/// Whether a question over HTTP is answered with 200.
fn says_yes(port: u16, question: &str) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        write!(stream, "GET {question} HTTP/1.0\r\n\r\n")?;
        let mut status = [0; 12];
        stream.read_exact(&mut status)?;
        Ok(String::from_utf8_lossy(&status).into_owned())
    };
    ask().is_ok_and(|status| status.ends_with(" 200"))
}

/// Ports that nobody uses; all different, since they are held until the last is found.
fn free_ports(count: usize) -> Vec<u16> {
    let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let held: Result<Vec<TcpListener>, _> = (0..count).map(bind).collect();
    let ports = held.and_then(|held| held.iter().map(|it| Ok(it.local_addr()?.port())).collect());
    ports.unwrap_or_else(|error: std::io::Error| panic!("error: no free ports on 127.0.0.1: {error}"))
}
