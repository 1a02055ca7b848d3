//! Dead letters that are sent again, by their ids and by a filter.

use std::time::Duration;

use http::Method;
use pombo::client::{Client, ClientError, Payload};
use pombo_channels::sandbox::Sandbox;
use pombo_kernel::message::StateName;
use serde_json::{Value, json};

use crate::place::{Place, WORKERS, drained, read_store, read_trail_in, sink};
use crate::{FLUSHES, PATIENCE, WRITES, died, dying, is_up, left_by, nths, written};

const SHORT: [(&str, &[u32]); 2] = [(WRITES, &[3, 12, 40, 110]), (FLUSHES, &[2, 4, 6])];
/// For each life, half of them by their ids.
const LETTERS: usize = 12;

/// Messages that failed, and were put right since.
async fn dead(client: &Client, sink: &Sandbox) -> Vec<String> {
    let letter = json!({"channel": "crm", "to": sink.url("/status/400"), "content": {"body": "letter"}});
    let batch = Payload::json(&json!(vec![letter; LETTERS]));
    let taken = client.post("/v1/messages/batch", batch).await.unwrap();
    drained(client, LETTERS).await;
    let ids = taken["items"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned());
    let ids: Vec<String> = ids.collect();
    for id in &ids {
        let edit = Payload::json(&json!({"to": sink.url("/ok"), "version": 1}));
        client.call(Method::PATCH, &format!("/v1/dead-letters/{id}"), edit).await.unwrap();
    }
    ids
}

/// Has them sent again and waits until they are; the same if it was asked for before.
async fn replay(client: &Client, letters: &[String], life: usize) -> Result<(), ClientError> {
    let ask = async |wish: Value, which: &str| {
        let key = Some(format!("{which}-{life}"));
        let payload = Payload { idempotency_key: key, ..Payload::json(&wish) };
        client.post("/v1/dead-letters/reprocess", payload).await
    };
    ask(json!({"ids": letters[..LETTERS / 2]}), "ids").await?;
    let begun = ask(json!({"filter": {"channel": "crm"}, "canary": 0}), "rest").await?;
    let operation = format!("/v1/operations/{}", begun["id"].as_str().unwrap());
    let waited = async {
        loop {
            let done = client.get(&operation).await?["state"] == "done";
            if done && client.get("/v1/stats").await?["total"]["waiting"] == 0 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waited).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ DL-2, DL-3, RELIABILITY 36
async fn dead_letters_that_are_sent_again_through_a_death_at_any_write_or_flush_are_sent_again_once() {
    let place = Place::new();
    let sink = sink().await;
    let data = place.data();
    let client = place.client();
    let mut server = place.start();
    place.ready().await;
    let (mut told, mut lives, mut kills, mut unborn) = (Vec::new(), 0, 0, 0);
    let (mut before, mut after) = (0, 0);
    for (call, short) in SHORT {
        for nth in nths(short) {
            lives += 1;
            let letters = dead(&client, &sink).await;
            told.extend(letters.iter().cloned());
            assert!(server.terminate().await.success());

            let mut dies = place.start_with(dying(call, nth, &written(&data)), &data);
            let served = is_up(&client, &mut dies).await;
            let survived = served && replay(&client, &letters, lives).await.is_ok();
            if survived {
                dies.kill();
            } else {
                died(dies, call, nth).await;
                kills += 1;
                unborn += usize::from(!served);
            }

            // Each is as dead as before, or was sent on its way once.
            let left = left_by(&data);
            let (record, trail) = (read_store(&left, &told), read_trail_in(&left));
            let rounds = |id: &String| trail.reprocessed.get(id).copied().unwrap_or(0);
            for id in &told {
                let expected = usize::from(record.states[id] != StateName::Failed);
                assert_eq!(rounds(id), expected, "{id}, killed at {call} {nth}");
            }
            let on_their_way = letters.iter().filter(|id| rounds(id) == 1).count();
            before += usize::from(on_their_way == 0);
            after += usize::from(on_their_way > 0);

            // Whoever got no answer asks once more.
            server = place.start();
            place.ready().await;
            replay(&client, &letters, lives).await.unwrap();
            // It has fewer such calls: all of them were tried.
            if survived {
                break;
            }
        }
    }
    assert!(server.terminate().await.success());
    let trail = read_trail_in(&data);
    let mut repeated = 0;
    for id in &told {
        assert_eq!((trail.reprocessed[id], trail.sent[id]), (1, 1), "{id}");
        // The sink knows an edited letter by another name.
        let seen = sink.count(&format!("{id}-1")).accepted as usize;
        let doubts = trail.takeovers.get(id).copied().unwrap_or(0);
        assert!((1..=1 + doubts).contains(&seen), "{id} came {seen} times and was in doubt {doubts} times");
        repeated += seen - 1;
    }
    assert_eq!(sink.stats().distinct, told.len() as u64, "the sink saw something that nobody was told of");
    assert!(
        before > 0 && after > 0,
        "they died {before} times before the request and {after} times after it"
    );
    assert!(
        unborn * 2 < kills,
        "{unborn} of {kills} lives were asked for nothing: too many to prove anything"
    );
    assert!(repeated <= kills * WORKERS, "{repeated} repeated by {kills} kills");
    println!(
        "result sweep_replay kills={kills} unborn={unborn} messages={} lost=0 repeated={repeated}",
        told.len()
    );
}
