//! A PgBouncer in transaction mode before a cluster: a session is somebody else's after each transaction.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::{Cluster, Database, free_port, programs};

/// Starts PgBouncer for every line that comes, after the one before is gone; once our end of the pipe closes, ends it
/// and deletes the folder.
const KEEPER: &str = r#"
cd "$0"
pid=
end() { [ -z "$pid" ] || { kill -KILL "$pid"; wait "$pid"; }; }
while read -r _; do
  end
  PATH=$PATH:/usr/sbin pgbouncer pgbouncer.ini >>log 2>&1 </dev/null &
  pid=$!
  echo "$pid" >pid
done
end
rm -rf "$0"
"#;

/// What stands between a client and a cluster.
#[derive(Debug)]
pub struct Pooler {
    folder: PathBuf,
    port: u16,
    keeper: Child,
}

impl Pooler {
    /// Starts one for all databases of a cluster. It has fewer sessions than its clients have, so that these
    /// must share; `settings` are lines for its own section of the configuration.
    pub fn start(cluster: &Cluster, settings: &str) -> Pooler {
        let folder = tempfile::Builder::new().prefix("pombo-pooler-").tempdir();
        let folder = folder.unwrap_or_else(|error| panic!("error: no temporary folder: {error}"));
        programs::hand_over(folder.path());
        let port = free_port();
        let server = cluster.url().rsplit(':').next().unwrap_or_default();
        let configuration = format!(
            "[databases]\n* = host=127.0.0.1 port={server}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = users\n\
             pool_mode = transaction\ndefault_pool_size = 3\n{settings}\n"
        );
        std::fs::write(folder.path().join("pgbouncer.ini"), configuration)
            .and_then(|()| std::fs::write(folder.path().join("users"), "\"postgres\" \"\"\n"))
            .unwrap_or_else(|error| panic!("error: {}: {error}", folder.path().display()));
        let mut command = programs::as_server("sh");
        command.args(["-c", KEEPER]).arg(folder.path()).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let keeper = command.spawn().unwrap_or_else(|error| panic!("error: cannot run sh: {error}"));
        let pooler = Pooler { folder: folder.keep(), port, keeper };
        pooler.restart();
        pooler
    }

    /// A database of the cluster, through this.
    pub fn url(&self, database: &Database) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{}", self.port, database.name)
    }

    /// Ends it at once, if there is one, and starts another in its place; whoever was connected is cut off.
    pub fn restart(&self) {
        let before = self.pid();
        let told = self.keeper.stdin.as_ref().map(|mut pipe| writeln!(pipe));
        assert!(matches!(told, Some(Ok(()))), "error: the keeper of the pooler has died: {}", self.log());
        for _ in 0..600 {
            // Until there is another, whoever answers is the one that ends.
            if self.pid() != before && TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("error: PgBouncer does not start; scripts/setup installs it\n{}", self.log());
    }

    /// Of the one that was started last, if any was.
    fn pid(&self) -> Option<u32> {
        std::fs::read_to_string(self.folder.join("pid")).ok()?.trim().parse().ok()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // If it cannot be waited for, it still does its work.
        let _ = self.keeper.wait();
    }
}
