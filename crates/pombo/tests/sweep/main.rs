//! The real binary, killed at one system call after the other, whatever it is doing; a page of its file overwritten; its
//! log read by nobody.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod damage;
mod erasure;
mod first;
mod letters;
#[path = "../place/mod.rs"]
mod place;
mod upgrade;
mod work;

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use pombo::client::{Client, ClientError, Payload};
use pombo_channels::sandbox::Sandbox;
use serde_json::json;

use place::{Server, binary};

const WRITES: &str = "pwrite64";
const FLUSHES: &str = "fsync,fdatasync";
/// Messages that one life is given to die at. Each takes several writes.
const MESSAGES_MAX: usize = 300;
const PATIENCE: Duration = Duration::from_secs(60);

/// At which calls lives end: at those, and with `POMBO_SWEEP_CALLS=200` also at every one up to that.
fn nths(short: &[u32]) -> impl Iterator<Item = u32> {
    let every = std::env::var("POMBO_SWEEP_CALLS").map_or(0, |text| text.parse().unwrap());
    (1..=every).chain(short.iter().copied().filter(move |nth| *nth > every))
}

/// Runs the binary, and kills it at the nth such call on one of the files, or on any if none is named.
///
/// Each thread counts for itself: what the one that opens the store has counted already is not tried in the writer.
fn dying(call: &str, nth: u32, files: &[PathBuf]) -> Command {
    let mut strace = Command::new("strace");
    // The binary is the child, so that signals reach it. Without --seccomp-bpf, by which some versions miss calls to count.
    strace.args(["-D", "-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
    strace.args(["-e", &format!("inject={call}:signal=SIGKILL:when={nth}")]);
    for file in files {
        strace.arg("-P").arg(file);
    }
    strace.arg(binary());
    strace
}

/// What a store is written to, and a backup that becomes one: the index of its log, which is made anew at each start, is
/// left out.
fn written(data: &Path) -> Vec<PathBuf> {
    ["pombo.db", "pombo.db-wal", "pombo.db-journal"].map(|name| data.join(name)).into()
}

fn was_killed(ended: ExitStatus) -> bool {
    const SIGKILL: i32 = 9;
    ended.signal() == Some(SIGKILL)
}

async fn died(server: Server, call: &str, nth: u32) {
    let ended = tokio::time::timeout(PATIENCE, server.ended()).await.unwrap();
    assert!(was_killed(ended), "it was to be killed at {call} {nth}: {ended}");
}

/// Whether it takes requests before it dies.
async fn is_up(client: &Client, server: &mut Server) -> bool {
    for _ in 0..6_000 {
        if client.get("/readyz").await.is_ok() {
            return true;
        }
        if server.is_over() {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it neither served nor died");
}

/// Hands the nth message in under its own key; its id, once it is acknowledged.
async fn hand_in(client: &Client, sink: &Sandbox, n: usize) -> Result<String, ClientError> {
    let url = sink.url(if n.is_multiple_of(4) { "/flaky?fail=1" } else { "/ok" });
    let body = json!({"channel": "crm", "to": url, "content": {"body": {"n": n}}});
    let payload = Payload { idempotency_key: Some(format!("sweep-{n}")), ..Payload::json(&body) };
    let message = client.post("/v1/messages", payload).await?;
    Ok(message["id"].as_str().unwrap().to_owned())
}

/// Hands messages in until nobody is there any more; whether somebody was there to the end.
async fn hand_in_all(client: &Client, sink: &Sandbox, told: &mut Vec<String>) -> bool {
    for _ in 0..MESSAGES_MAX {
        match hand_in(client, sink, told.len()).await {
            Ok(id) => told.push(id),
            Err(_) => return false,
        }
    }
    true
}

/// `pombo store`, told by nothing but its arguments which store that is.
fn on_store(mut pombo: Command, arguments: &[&str]) -> Command {
    pombo.arg("store").args(arguments).stdin(Stdio::null());
    for name in ["POMBO_DATA", "POMBO_DATABASE_URL", "POMBO_SERVER", "POMBO_CONFIG"] {
        pombo.env_remove(name);
    }
    pombo
}

/// What `pombo store` says, and whether it is content.
fn store(arguments: &[&str]) -> (bool, String) {
    let run = on_store(Command::new(binary()), arguments).output().unwrap();
    let said = [run.stdout, run.stderr].concat();
    (run.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// Whether `pombo store` dies at the nth such call on the store's files; else it is done, and content.
fn dies(call: &str, nth: u32, data: &Path, arguments: &[&str]) -> bool {
    let run = on_store(dying(call, nth, &written(data)), arguments).output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(was_killed(run.status) || run.status.success(), "at {call} {nth}: {}: {said}", run.status);
    !run.status.success()
}

fn sound(data: &Path, when: &str) {
    let (content, said) = store(&["check", "--data", data.to_str().unwrap()]);
    assert!(content, "{when}: {said}");
}

/// A copy of what a life left, to look at: whoever opens a store changes it, and the next life is to find it as it is.
fn left_by(data: &Path) -> PathBuf {
    let left = data.with_extension("left");
    copied(data, &left);
    left
}

/// The same folder once more.
fn copied(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
