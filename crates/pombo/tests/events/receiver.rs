//! Receivers of webhooks that other people's code verifies for.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

/// A receiver at work. It ends when this is dropped.
pub(crate) struct Receiver {
    child: Child,
    stdin: ChildStdin,
    port: u16,
    heard: Arc<Mutex<Vec<Value>>>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where `scripts/setup` puts other people's clients.
fn clients() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    target.join("clients")
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/events").join(name)
}

impl Receiver {
    pub(crate) fn python() -> Receiver {
        let mut command = Command::new(clients().join("python/bin/python"));
        command.arg(script("receiver.py"));
        Receiver::start(command)
    }

    pub(crate) fn node() -> Receiver {
        let mut command = Command::new("node");
        command.arg(script("receiver.cjs")).env("NODE_PATH", clients().join("node_modules"));
        Receiver::start(command)
    }

    fn start(mut command: Command) -> Receiver {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{command:?}: {error}; scripts/setup brings it"));
        let stdin = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port =
            lines.next().expect("the receiver says its port; scripts/setup brings its library").unwrap();
        let heard: Arc<Mutex<Vec<Value>>> = Arc::default();
        let hears = Arc::clone(&heard);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                hears.lock().unwrap().push(serde_json::from_str(&line).unwrap());
            }
        });
        Receiver { child, stdin, port: port.trim().parse().unwrap(), heard }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Has it verify with this secret from now on.
    pub(crate) async fn believe(&mut self, secret: &Value) {
        let believed = |heard: &[Value]| heard.iter().filter(|line| line["believes"] == true).count();
        let before = believed(&self.heard.lock().unwrap());
        writeln!(self.stdin, "{}", secret.as_str().unwrap()).unwrap();
        self.until(|heard| believed(heard) > before, "it knows its secret").await;
    }

    /// What it received, as far as it came.
    pub(crate) fn received(&self) -> Vec<Value> {
        self.heard.lock().unwrap().iter().filter(|line| line["id"].is_string()).cloned().collect()
    }

    /// What it received, once there is enough of it.
    pub(crate) async fn until(&self, enough: impl Fn(&[Value]) -> bool, what: &str) -> Vec<Value> {
        for _ in 0..1_500 {
            if enough(&self.heard.lock().unwrap()) {
                return self.received();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let received = self.received();
        panic!("not within 30 s: {what}; it received {}, the last {:?}", received.len(), received.last());
    }
}
