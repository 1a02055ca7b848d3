//! Providers that hang, drip and hang up, beside one that is well.

use std::future::pending;
use std::time::Duration;

use pombo_kernel::message::StateName;
use pombo_kernel::time::{Span, Time};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;

use crate::place::{drained, read_store, sink};
use crate::provider::{Provider, reset};
use crate::{ended, failures, follow, place, send, send_to, sent};

/// Long enough that the request is out by then, also on a machine that stalls.
const DEADLINE: Span = Span::from_secs(3);
const TRIES: u32 = 3;
const OF_EACH: usize = 3;
/// Half of the slots.
const WAITING: usize = 8;
const WELL: usize = 60;

// What becomes of a destination that stays like this is the breaker's, which has tests of its own.
const CONFIG: &str = r#"
[lanes.default]
workers = 16
[channels.crm]
kind = "webhook"
allow_private = true
attempt_timeout = "3s"
breaker = { failures = 0, percent = 0 }
retry = { delays = ["50ms", "50ms"] }
[channels.patient]
kind = "webhook"
allow_private = true
attempt_timeout = "5m"
"#;

pub(crate) fn time(value: &Value) -> Time {
    value.as_str().unwrap().parse().unwrap()
}

/// Every attempt at it ended in doubt and was made again, up to the last that the policy allows.
fn died_in_doubt(message: &Value, category: &str) {
    assert_eq!(
        (message["state"].as_str(), message["failure_reason"].as_str()),
        (Some("failed"), Some("max_retries_exceeded")),
        "{message}"
    );
    let attempts = failures(message, category);
    assert_eq!(attempts.len(), TRIES as usize, "{message}");
    for attempt in attempts {
        assert_eq!(attempt["perhaps_sent"], true, "{message}");
        assert!(
            attempt["explanation"].as_str().unwrap().contains("it may have been sent all the same"),
            "{message}"
        );
        if category == "timeout" {
            let took = time(&attempt["finished_at"]).since(time(&attempt["started_at"]));
            assert!(took >= DEADLINE && took < Span::from_secs(20), "an attempt took {took}: {message}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ ML-5, RELIABILITY 19, 20, 21
async fn providers_that_hang_drip_and_reset_leave_their_doubt_on_record_and_hold_up_nobody_else() {
    let (hangs, well) = (sink().await, sink().await);
    let resets = sink().await;
    let silent = Provider::start(|stream, _| async move {
        pending::<()>().await;
        drop(stream);
    });
    let drips = Provider::start(|mut stream, _| async move {
        let mut piece: &[u8] = b"HTTP/1.1 200 OK\r\nx: ";
        while stream.write_all(piece).await.is_ok() {
            piece = b"x";
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let comes_to_its_senses = Provider::start(|mut stream, count| async move {
        if count == 1 {
            return reset(stream);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    });
    let takes_and_resets = Provider::start(|mut stream, _| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhal").await.unwrap();
        // The sender hangs up once it has read the head, so that the reset cannot overtake it.
        let _ = stream.read(&mut [0; 16]).await;
        reset(stream);
    });

    let (release, released) = watch::channel(false);
    let late = Provider::start(move |mut stream, _| {
        let mut released = released.clone();
        async move {
            released.wait_for(|released| *released).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        }
    });

    let place = place(CONFIG);
    let server = place.start();
    place.ready().await;
    let client = place.client();
    let bad = [
        hangs.url("/hang?taken=1"),
        resets.url("/reset?taken=1"),
        silent.url(),
        drips.url(),
        comes_to_its_senses.url(),
        takes_and_resets.url(),
    ];
    let mut ids = Vec::new();
    for url in bad.iter().cycle().take(OF_EACH * bad.len()) {
        ids.push(send_to(&client, url).await);
    }
    let mut waiting = Vec::new();
    for _ in 0..WAITING {
        let message = json!({"channel": "patient", "to": late.url(), "content": {"body": "oi"}});
        waiting.push(send(&client, &message).await);
    }
    let mut quick = Vec::new();
    for _ in 0..WELL {
        quick.push(send_to(&client, &well.url("/ok")).await);
    }
    for id in &quick {
        let message = follow(&client, id, ended).await;
        assert_eq!(
            (message["state"].as_str(), message["attempt_count"].as_u64()),
            (Some("sent"), Some(1)),
            "{message}"
        );
    }

    for (n, id) in ids.iter().enumerate() {
        let message = follow(&client, id, ended).await;
        match n % bad.len() {
            0 => {
                died_in_doubt(&message, "timeout");
                assert_eq!(hangs.count(id).received, TRIES);
            }
            1 => {
                died_in_doubt(&message, "connection_reset");
                assert_eq!(resets.count(id).received, TRIES);
            }
            2 => {
                died_in_doubt(&message, "timeout");
                assert_eq!(silent.count(id), TRIES);
            }
            3 => {
                died_in_doubt(&message, "timeout");
                assert_eq!(drips.count(id), TRIES);
            }
            4 => {
                assert!(sent(&message), "{message}");
                assert_eq!(message["attempts"][0]["perhaps_sent"], true, "{message}");
                assert_eq!((message["attempt_count"].as_u64(), comes_to_its_senses.count(id)), (Some(2), 2));
            }
            _ => {
                assert!(sent(&message), "{message}");
                assert_eq!((message["attempt_count"].as_u64(), takes_and_resets.count(id)), (Some(1), 1));
            }
        }
    }
    // All of that went past half of the slots, which were waiting for an answer all the while.
    for id in &waiting {
        let message = client.get(&format!("/v1/messages/{id}")).await.unwrap();
        assert_eq!((message["state"].as_str(), late.count(id)), (Some("sending"), 1), "{message}");
    }
    release.send_replace(true);
    for id in &waiting {
        assert_eq!(follow(&client, id, ended).await["attempt_count"], 1);
    }

    ids.extend(waiting);
    ids.extend(quick);
    drained(&client, ids.len()).await;
    assert!(server.terminate().await.success());
    let record = read_store(&place.data(), &ids);
    let dead = record.states.values().filter(|state| **state == StateName::Failed).count();
    assert_eq!((dead, record.takeovers.len()), (4 * OF_EACH, 0));
    assert_eq!((well.stats().distinct, well.stats().duplicates), (WELL as u64, 0));
}
