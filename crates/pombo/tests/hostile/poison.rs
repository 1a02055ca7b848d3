//! A message that kills the process each time that it is sent.

use std::time::Duration;

use pombo_channels::sandbox::Sandbox;
use pombo_kernel::lifecycle::MAX_CRASHES;
use pombo_kernel::message::StateName;

use crate::place::{all_sent, drained, read_store, sink};
use crate::{ended, follow, place, send_to};

const CONFIG: &str = r#"
[lanes.default]
workers = 16
[channels.crm]
kind = "webhook"
allow_private = true
attempt_timeout = "2m"
retry = { delays = ["20ms", "20ms", "20ms", "20ms", "20ms", "20ms", "20ms"] }
"#;

/// Waits until the message has come so often.
async fn has_come(sink: &Sandbox, id: &str, times: u32) {
    for _ in 0..60_000 {
        if sink.count(id).received >= times {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it came {} times", sink.count(id).received);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY 33
async fn a_message_that_kills_the_process_three_times_is_set_aside_and_the_others_arrive() {
    let sink = sink().await;
    let place = place(CONFIG);
    let mut server = place.start();
    place.ready().await;
    let client = place.client();
    let poison = send_to(&client, &sink.url("/hang?taken=1")).await;
    let mut ids = vec![poison.clone()];
    for death in 1..=u32::from(MAX_CRASHES) {
        has_come(&sink, &poison, death).await;
        for _ in 0..20 {
            ids.push(send_to(&client, &sink.url("/ok")).await);
        }
        server.kill();
        server = place.start();
        place.ready().await;
    }

    let message = follow(&client, &poison, ended).await;
    assert_eq!(
        (message["state"].as_str(), message["failure_reason"].as_str()),
        (Some("failed"), Some("outcome_unknown")),
        "{message}"
    );
    let attempts = message["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), usize::from(MAX_CRASHES), "{message}");
    assert!(attempts.iter().all(|attempt| attempt["category"] == "interrupted"), "{message}");
    let why = attempts.last().unwrap()["explanation"].as_str().unwrap();
    assert!(
        why.contains("the process stopped 3 times in a row while sending it, so it is set aside"),
        "{why}"
    );
    let letters = client.get("/v1/dead-letters").await.unwrap();
    let letters: Vec<_> =
        letters["items"].as_array().unwrap().iter().map(|letter| letter["id"].as_str().unwrap()).collect();
    assert_eq!(letters, [&poison]);

    ids.push(send_to(&client, &sink.url("/ok")).await);
    drained(&client, ids.len()).await;
    assert!(server.terminate().await.success());
    let record = read_store(&place.data(), &ids);
    all_sent(&record, &sink, &ids);
    assert!(ids.iter().skip(1).all(|id| record.states[id] == StateName::Sent), "another one was set aside");
    assert_eq!(sink.count(&poison).received, u32::from(MAX_CRASHES), "nobody sends it any more");
}
