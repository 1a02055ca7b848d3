//! A Postfix of a test's own: its configuration, queue and log in a folder that goes away with it.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

const POSTFIX: &str = "/usr/sbin/postfix";
const SERVICES: &str = "
cleanup   unix  n - n - 0 cleanup
qmgr      unix  n - n 300 1 qmgr
rewrite   unix  - - n - - trivial-rewrite
bounce    unix  - - n - 0 bounce
defer     unix  - - n - 0 bounce
trace     unix  - - n - 0 bounce
flush     unix  n - n 1000? 0 flush
proxymap  unix  - - n - - proxymap
tlsmgr    unix  - - n 1000? 1 tlsmgr
anvil     unix  - - n - 1 anvil
scache    unix  - - n - 1 scache
error     unix  - - n - - error
retry     unix  - - n - - error
discard   unix  - - n - - discard
smtp      unix  - - n - - smtp
virtual   unix  - n n - - virtual
postlog   unix-dgram n - n - 1 postlogd
";

/// A mail server on a free port of 127.0.0.1. It ends when this is dropped.
#[derive(Debug)]
pub struct Postfix {
    folder: TempDir,
    port: u16,
}

impl Postfix {
    /// Starts one. What it is for is said by `settings`, lines for its configuration, which may put files into the
    /// folder that it gets.
    ///
    /// # Panics
    /// If there is no Postfix, or if it does not start.
    pub fn start(settings: impl FnOnce(&Path) -> String) -> Postfix {
        assert!(Path::new(POSTFIX).exists(), "{POSTFIX} is not there: run scripts/setup");
        let folder = tempfile::tempdir().expect("a folder can be made");
        let root = folder.path();
        std::fs::set_permissions(root, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
        for name in ["etc", "queue", "data"] {
            std::fs::create_dir(root.join(name)).expect("it is ours");
        }
        let (user, group) = id_of("postfix");
        chown(root.join("data"), Some(user), Some(group)).expect("tests run as root");
        let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = listener.expect("there is a free port").port();
        let (at, more) = (root.display(), settings(root));
        let main = format!(
            "compatibility_level = 3.6
queue_directory = {at}/queue
data_directory = {at}/data
mail_owner = postfix
setgid_group = postdrop
maillog_file = {at}/mail.log
maillog_file_prefixes = {at}
import_environment = MAIL_CONFIG={at}/etc
myhostname = mail.example
mydestination =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
alias_maps =
alias_database =
{more}"
        );
        std::fs::write(root.join("etc/main.cf"), main).expect("it is ours");
        let services = format!("127.0.0.1:{port} inet n - n - - smtpd{SERVICES}");
        std::fs::write(root.join("etc/master.cf"), services).expect("it is ours");
        let postfix = Postfix { folder, port };
        // It comes back when the server listens.
        postfix.tell("start");
        postfix
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it keeps what the settings did not put elsewhere.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("mail.log")).unwrap_or_default()
    }

    fn tell(&self, word: &str) {
        let run = Command::new(POSTFIX).arg("-c").arg(self.folder.path().join("etc")).arg(word).output();
        let run = run.expect("postfix can be run");
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success() || std::thread::panicking(), "postfix {word}: {said}\n{}", self.log());
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        self.tell("abort");
        // Its children listen for a moment longer.
        for _ in 0..6_000 {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A user's numbers, and those of its group.
fn id_of(user: &str) -> (u32, u32) {
    let users = std::fs::read_to_string("/etc/passwd").expect("there are users");
    let line =
        users.lines().find(|line| line.starts_with(&format!("{user}:"))).expect("there is such a user");
    let mut numbers = line.split(':').skip(2).map_while(|part| part.parse().ok());
    numbers.next().zip(numbers.next()).expect("a user has numbers")
}
