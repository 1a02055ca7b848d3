//! Names that cannot be resolved, as a name server of ours says, in a file system that only the server sees.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tokio::net::UdpSocket;

use crate::place::{Place, binary, sink};
use crate::{ended, failures, follow, place, send, send_to, sent};

const CONFIG: &str = r#"
[channels.crm]
kind = "webhook"
allow_private = true
attempt_timeout = "30s"
breaker = { failures = 0, percent = 0 }
retry = { attempts = 1000, delays = ["200ms"] }
[channels.strict]
kind = "webhook"
allow_private = true
retry = { attempts = 3, delays = ["50ms"] }
"#;

/// Answers by the first label of the name: `servfail`, `silent`, `absent` and `late` are ill until it is healed,
/// `absent` for good; a name that is well is this machine's.
async fn name_server(address: SocketAddr, healed: Arc<AtomicBool>) {
    let socket = UdpSocket::bind(address).await.unwrap_or_else(|error| {
        panic!("{address}: {error}; a name server listens on port 53, which needs root")
    });
    tokio::spawn(async move {
        let mut buffer = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            if let Some(answer) = answer(&buffer[..length], healed.load(Ordering::SeqCst)) {
                let _ = socket.send_to(&answer, from).await;
            }
        }
    });
}

fn answer(query: &[u8], healed: bool) -> Option<Vec<u8>> {
    const A: u8 = 1;
    const OK: u8 = 0;
    const SERVFAIL: u8 = 2;
    const NXDOMAIN: u8 = 3;
    // The question: labels up to an empty one, type and class.
    let end = 12 + query[12..].iter().position(|byte| *byte == 0)? + 5;
    let (label, kind) = (&query[13..13 + usize::from(query[12])], query[end - 3]);
    let code = match label {
        b"absent" => NXDOMAIN,
        b"late" if !healed => NXDOMAIN,
        b"servfail" if !healed => SERVFAIL,
        b"silent" if !healed => return None,
        _ => OK,
    };
    let has_address = code == OK && kind == A;
    let mut answer = query[..2].to_vec();
    answer.extend([0x81, 0x80 | code, 0, 1, 0, u8::from(has_address), 0, 0, 0, 0]);
    answer.extend(&query[12..end]);
    if has_address {
        // The same name, A, IN, to be kept for no time, four bytes.
        answer.extend([0xc0, 12, 0, A, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1]);
    }
    Some(answer)
}

/// A command that sees another resolver than the rest of the machine, which keeps its own.
fn resolving_by(server: Ipv4Addr, place: &Place, command: &Path) -> Command {
    const SEE: &str =
        r#"mount --bind "$0" /etc/resolv.conf && mount --bind "$1" /etc/nsswitch.conf && shift && exec "$@""#;
    let [resolv, switch] = ["resolv.conf", "nsswitch.conf"].map(|name| place.folder.path().join(name));
    std::fs::write(&resolv, format!("nameserver {server}\nsearch .\noptions timeout:3 attempts:1\n"))
        .unwrap();
    std::fs::write(&switch, "hosts: files dns\n").unwrap();
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--mount", "--propagation", "private", "sh", "-c", SEE])
        .arg(resolv)
        .arg(switch)
        .arg(command);
    unshare
}

/// Waits until it has been tried twice, and failed before anything was sent.
async fn is_retried(client: &pombo::client::Client, id: &str, category: &str) {
    let message = follow(client, id, |message| message["attempt_count"].as_u64() >= Some(2)).await;
    for attempt in failures(&message, category) {
        assert_eq!(
            (attempt["perhaps_sent"].as_bool(), attempt["outcome"].as_str()),
            (Some(false), Some("retry")),
            "{message}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 24
async fn a_name_that_does_not_resolve_is_tried_again_within_the_policy_and_reached_once_it_does() {
    // An address of this run's own, in case another one is under way.
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = Ipv4Addr::new(127, 53, high, low);
    let healed = Arc::new(AtomicBool::new(false));
    name_server((address, 53).into(), healed.clone()).await;
    let sink = sink().await;
    let place = place(CONFIG);
    let there = resolving_by(address, &place, Path::new("true")).output();
    let there = there.unwrap_or_else(|error| panic!("unshare: {error}; it is part of util-linux"));
    assert!(
        there.status.success(),
        "a mount namespace with a resolv.conf of its own cannot be had, and without it this test can show nothing. \
         It needs root.\n{}",
        String::from_utf8_lossy(&there.stderr)
    );
    let server = place.start_with(resolving_by(address, &place, &binary()), &place.data());
    place.ready().await;
    let client = place.client();

    let at = |name: &str| format!("http://{name}.pombo.test:{}/ok", sink.address.port());
    let servfail = send_to(&client, &at("servfail")).await;
    let silent = send_to(&client, &at("silent")).await;
    let late = send_to(&client, &at("late")).await;
    let absent: Value = json!({"channel": "strict", "to": at("absent"), "content": {"body": "oi"}});
    let absent = send(&client, &absent).await;
    let well = send_to(&client, &at("well")).await;

    is_retried(&client, &servfail, "dns_failure").await;
    is_retried(&client, &silent, "dns_failure").await;
    is_retried(&client, &late, "dns_not_found").await;
    let dead = follow(&client, &absent, ended).await;
    assert_eq!(
        (dead["state"].as_str(), dead["failure_reason"].as_str()),
        (Some("failed"), Some("max_retries_exceeded")),
        "{dead}"
    );
    assert_eq!(failures(&dead, "dns_not_found").len(), 3, "{dead}");
    let other = follow(&client, &well, ended).await;
    assert_eq!(
        (other["state"].as_str(), other["attempt_count"].as_u64()),
        (Some("sent"), Some(1)),
        "{other}"
    );
    assert_eq!(sink.stats().total, 1);

    healed.store(true, Ordering::SeqCst);
    for id in [&servfail, &silent, &late] {
        follow(&client, id, sent).await;
        assert_eq!((sink.count(id).received, sink.count(id).accepted), (1, 1));
    }
    assert_eq!((sink.stats().total, sink.count(&absent).received), (4, 0));
    assert!(server.terminate().await.success());
}
