//! Answers that are larger than anybody could hold, under a limit that would end whoever tried.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pombo::client::Payload;
use pombo::clock::SystemClock;
use pombo_kernel::time::{Clock as _, Span};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::memory::peak_kb;
use crate::place::{Place, Told, all_arrive, binary, produce, sink};
use crate::provider::Provider;
use crate::{ended, failures, follow, place, send, send_to};

const GIGABYTE: usize = 1 << 30;
/// What the server may have of its own in all. It starts with less than half of it.
const LIMIT_BYTES: u64 = 128 << 20;
const GROWTH_KB_MAX: u64 = 48 * 1024;
/// 64 KiB that are read, and what the kernel keeps between two sockets.
const LEFT_BYTES_MAX: u64 = 1 << 20;
const OF_EACH: usize = 16;
/// So little that it has not taken much of it in advance.
const SCARCE_BYTES: u64 = 96 << 20;
const DEATHS: usize = 3;
const PATIENCE: Span = Span::from_secs(60);

fn limited(bytes: u64) -> Command {
    let mut command = Command::new("prlimit");
    command.arg(format!("--data={bytes}")).arg(binary()).env("PROVIDER_KEY", "canary-secret-5504");
    command
}

/// Answers with that head and chunks of a body, for as long as somebody reads; counts what it got rid of.
fn answering(head: String, body: Arc<[u8]>, most: Arc<AtomicU64>) -> Provider {
    Provider::start(move |mut stream: TcpStream, _| {
        let (head, body, most) = (head.clone(), body.clone(), most.clone());
        async move {
            let _ = stream.write_all(head.as_bytes()).await;
            let mut left = 0;
            for chunk in body.chunks(16 * 1024).cycle() {
                if left >= GIGABYTE || stream.write_all(chunk).await.is_err() {
                    break;
                }
                left += chunk.len();
            }
            most.fetch_max(left as u64, Ordering::SeqCst);
        }
    })
}

/// As much of a gzip stream as swells to a gigabyte: sixteen megabytes, over and over.
fn gzip_bomb() -> Vec<u8> {
    let run = Command::new("sh")
        .args(["-c", "head -c 16777216 /dev/zero | tr '\\0' x | gzip -9"])
        .output()
        .unwrap();
    assert!(run.status.success() && run.stdout.len() < 32 * 1024, "{run:?}");
    run.stdout.repeat(64)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 26, 59
async fn a_gigabyte_and_a_gzip_bomb_are_classified_within_128_megabytes() {
    let most = Arc::new(AtomicU64::new(0));
    let plain: Arc<[u8]> = vec![b'x'; 16 * 1024].into();
    let bomb: Arc<[u8]> = gzip_bomb().into();
    let head = |status: u16, headers: &str| {
        format!("HTTP/1.1 {status} X\r\ncontent-length: {GIGABYTE}\r\n{headers}\r\n")
    };
    let gigabyte = answering(head(500, ""), plain.clone(), most.clone());
    let packed = answering(head(500, "content-encoding: gzip\r\n"), bomb.clone(), most.clone());
    // Of these the body is wanted: it has the id of what was taken.
    let taken = answering(head(201, "content-type: application/json\r\n"), plain, most.clone());
    let taken_packed = answering(head(201, "content-encoding: gzip\r\n"), bomb, most.clone());
    let well = sink().await;
    let phone = |name: &str, provider: &Provider| {
        format!(
            "[channels.{name}]\nkind = \"evolution\"\nbase_url = \"http://{}\"\ninstance = \"sandbox\"\napi_key = \"${{PROVIDER_KEY}}\"\n\
             on_unknown_outcome = \"hold\"\n",
            provider.address
        )
    };
    let place = place(&format!(
        "[lanes.default]\nworkers = 64\n[channels.crm]\nkind = \"webhook\"\nallow_private = true\nretry = {{ attempts = 1, delays = [] }}\n{}{}",
        phone("phone", &taken),
        phone("packed", &taken_packed)
    ));
    let server = place.start_with(limited(LIMIT_BYTES), &place.data());
    place.ready().await;
    let client = place.client();
    follow(&client, &send_to(&client, &well.url("/ok")).await, ended).await;
    let before = peak_kb(server.pid());

    let (mut refused, mut doubtful) = (Vec::new(), Vec::new());
    for n in 0..OF_EACH {
        refused.push(send_to(&client, &gigabyte.url()).await);
        refused.push(send_to(&client, &packed.url()).await);
        for channel in ["phone", "packed"] {
            let to = format!("+55119{:08}", 88_770_100 + n);
            doubtful
                .push(send(&client, &json!({"channel": channel, "to": to, "content": {"text": "oi"}})).await);
        }
    }
    for id in &refused {
        let message = follow(&client, id, ended).await;
        assert_eq!(message["failure_reason"], "max_retries_exceeded", "{message}");
        assert_eq!(failures(&message, "server_error").len(), 1, "{message}");
        assert_eq!(message["last_error"]["code"], "500", "{message}");
        assert!(message["last_error"]["text"].as_str().unwrap().len() <= 4096, "{message}");
    }
    for id in &doubtful {
        let message = follow(&client, id, ended).await;
        assert_eq!(message["failure_reason"], "outcome_unknown", "{message}");
        assert_eq!(message["attempts"][0]["perhaps_sent"], true, "{message}");
    }
    let after = follow(&client, &send_to(&client, &well.url("/ok")).await, ended).await;
    assert_eq!(after["state"], "sent", "{after}");
    let growth = peak_kb(server.pid()) - before;
    let most = most.load(Ordering::SeqCst);
    println!("{before} KB, {growth} KB more, at most {most} bytes left a provider");
    assert!(growth < GROWTH_KB_MAX, "memory grew by {growth} KB");
    assert!(most < LEFT_BYTES_MAX, "{most} bytes of an answer were read or on their way");
    assert!(server.terminate().await.success());
}

/// Takes away what the process does not have yet.
fn starve(pid: u32) {
    let run = Command::new("prlimit").args(["--pid", &pid.to_string(), "--data=1048576"]).status();
    assert!(run.is_ok_and(|status| status.success()), "prlimit cannot limit a process that runs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 59
async fn a_process_that_gets_no_more_memory_dies_and_nothing_acknowledged_is_lost() {
    let place = Place::new();
    let sink = sink().await;
    let told = Told::default();
    let urls = [sink.url("/slow?ms=3"), sink.url("/flaky?fail=1")];
    let producers: Vec<_> =
        (0..4).map(|name| tokio::spawn(produce(place.client(), name, urls.clone(), told.clone()))).collect();
    let large = json!({"channel": "crm", "to": sink.url("/ok"), "content": {"body": "x".repeat(6 << 20)}});
    let large = Payload::json(&large);
    let clock = SystemClock::new();
    for _ in 0..DEATHS {
        let mut server = place.start_with(limited(SCARCE_BYTES), &place.data());
        place.ready().await;
        told.at_least(told.count() + 50).await;
        starve(server.pid());
        let started = clock.now();
        while !server.is_over() {
            assert!(clock.now().since(started) < PATIENCE, "it lives without memory");
            let requests = (0..16).map(|_| {
                let (client, large) = (place.client(), large.clone());
                tokio::spawn(async move { client.post("/v1/messages", large).await.is_ok() })
            });
            for request in requests.collect::<Vec<_>>() {
                assert!(!request.await.unwrap(), "it is larger than a message may be");
            }
        }
        assert!(!server.ended().await.success());
    }
    let server = place.start();
    let (ids, repeated) = all_arrive(&place, server, &place.data(), 0, &told, producers, &sink).await;
    println!("result memory deaths={DEATHS} messages={} lost=0 repeated={repeated}", ids.len());
}
