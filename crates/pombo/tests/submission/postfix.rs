//! A Postfix of the test's own that hands everything to Pombo, as the guide says: its configuration and queue in a
//! folder that goes away with it.

use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

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
smtp      unix  - - n - - smtp
postlog   unix-dgram n - n - 1 postlogd
";

pub(crate) struct Postfix {
    folder: TempDir,
    pub(crate) port: u16,
}

impl Postfix {
    /// Starts one that knows Pombo at that port of this machine by its certificate, and is known by user and key.
    pub(crate) fn start(pombo: u16, certificate: &Path, key: &str) -> Postfix {
        assert!(Path::new(POSTFIX).exists(), "{POSTFIX} is not there: run scripts/setup");
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::set_permissions(root, std::fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["etc", "queue", "data"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        let users = std::fs::read_to_string("/etc/passwd").unwrap();
        let line = users.lines().find(|line| line.starts_with("postfix:")).expect("there is such a user");
        let ids: Vec<u32> = line.split(':').skip(2).take(2).map(|id| id.parse().unwrap()).collect();
        chown(root.join("data"), Some(ids[0]), Some(ids[1])).unwrap();
        std::fs::copy(certificate, root.join("etc/ca.pem")).unwrap();
        std::fs::write(root.join("etc/pombo"), format!("[localhost]:{pombo} email:{key}\n")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let at = root.display();
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
smtp_dns_support_level = disabled
smtpd_recipient_restrictions = permit_mynetworks, reject
relayhost = [localhost]:{pombo}
smtp_sasl_auth_enable = yes
smtp_sasl_password_maps = texthash:{at}/etc/pombo
smtp_sasl_security_options = noanonymous
smtp_tls_security_level = verify
smtp_tls_CAfile = {at}/etc/ca.pem
"
        );
        std::fs::write(root.join("etc/main.cf"), main).unwrap();
        let services = format!("127.0.0.1:{port} inet n - n - - smtpd{SERVICES}");
        std::fs::write(root.join("etc/master.cf"), services).unwrap();
        let postfix = Postfix { folder, port };
        // It comes back when the server listens.
        postfix.tell("start");
        postfix
    }

    fn tell(&self, word: &str) {
        let run = Command::new(POSTFIX).arg("-c").arg(self.folder.path().join("etc")).arg(word).output();
        let run = run.expect("postfix can be run");
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success() || std::thread::panicking(), "postfix {word}: {said}\n{}", self.log());
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("mail.log")).unwrap_or_default()
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        self.tell("abort");
    }
}
