//! One person who is erased.

use std::path::Path;
use std::process::Command;

use pombo::client::Payload;
use pombo_channels::sandbox::Sandbox;
use pombo_kernel::dice::Dice;
use pombo_kernel::name::Tenant;
use pombo_store::core::{Core as _, Reading as _};
use pombo_store::sqlite::Sqlite;
use serde_json::json;

use crate::place::{Place, binary, sink};
use crate::{FLUSHES, WRITES, copied, dies, hand_in, left_by, nths, sound, store};

const SHORT: [(&str, &[u32]); 2] = [(WRITES, &[1, 3, 30, 90, 150, 220, 250]), (FLUSHES, &[1, 4, 8, 12, 16])];
/// Stands nowhere but in what the person was written.
const CANARY: &str = "Zuleica Canario, 529.982.247-25";
const OTHERS: usize = 20;

/// A store with messages to one person, some of which wait, among those to others; the ids of the others.
async fn planted(place: &Place, sink: &Sandbox, person: &str) -> Vec<String> {
    let server = place.start();
    place.ready().await;
    let client = place.client();
    let mut others = Vec::new();
    for n in 0..OTHERS {
        others.push(hand_in(&client, sink, n).await.unwrap());
        let send_at = n.is_multiple_of(3).then_some("2099-01-01T00:00:00Z");
        let body = json!({"channel": "crm", "to": person, "content": {"body": CANARY}, "send_at": send_at});
        client.post("/v1/messages", Payload::json(&body)).await.unwrap();
    }
    let waiting = json!({"channel": "crm", "to": sink.url("/ok"), "content": {"body": "later"},
        "send_at": "2099-01-01T00:00:00Z"});
    let waiting = client.post("/v1/messages", Payload::json(&waiting)).await.unwrap();
    others.push(waiting["id"].as_str().unwrap().to_owned());
    assert!(server.terminate().await.success());
    others
}

/// Everything that the store knows of these messages.
fn stories(data: &Path, ids: &[String]) -> Vec<String> {
    let store = Sqlite::open(data, Dice::seeded(1), &[7; 32]).unwrap();
    let mut reader = store.reader().unwrap();
    let mut story = |id: &String| {
        let story = reader.story(&Tenant::default(), id.parse().unwrap()).unwrap();
        format!("{:?}", story.unwrap_or_else(|| panic!("{id} is lost")))
    };
    ids.iter().map(&mut story).collect()
}

/// In which files of the folder the person is found.
fn found_in(data: &Path) -> Vec<String> {
    let canary = regex::bytes::Regex::new(&regex::escape(CANARY)).unwrap();
    let files = std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    let found = files.filter(|file| canary.is_match(&std::fs::read(file).unwrap()));
    found.map(|file| file.display().to_string()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ AU-3
async fn an_erasure_that_died_at_any_write_or_flush_is_complete_after_the_next() {
    let place = Place::new();
    let sink = sink().await;
    let person = sink.url("/ok?to=zuleica");
    let others = planted(&place, &sink, &person).await;
    let before = place.data();
    assert!(!found_in(&before).is_empty(), "nobody is there to be erased");
    let untouched = stories(&before, &others);

    let data = place.folder.path().join("life");
    let config = place.folder.path().join("pombo.toml");
    let (at, config) = (data.to_str().unwrap(), config.to_str().unwrap());
    let erase = ["erase", "--data", at, "--config", config, "--recipient", &person];
    let (mut kills, mut unfinished) = (0, 0);
    for (call, short) in SHORT {
        for nth in nths(short) {
            copied(&before, &data);
            let when = format!("killed at {call} {nth}");
            let died = dies(call, nth, &data, &erase);
            if died {
                kills += 1;
                let left = left_by(&data);
                unfinished += usize::from(!found_in(&left).is_empty());
                sound(&left, &when);
                assert_eq!(stories(&left, &others), untouched, "{when}");
                let (done, said) = store(&erase);
                assert!(done, "{when}: {said}");
            }
            assert_eq!(found_in(&data), Vec::<String>::new(), "{when}");
            sound(&data, &when);
            assert_eq!(stories(&data, &others), untouched, "{when}");
            // It has fewer such calls: all of them were tried.
            if !died {
                break;
            }
        }
    }

    // What the last one left can be served from.
    let server = place.start_with(Command::new(binary()), &data);
    place.ready().await;
    let client = place.client();
    hand_in(&client, &sink, OTHERS).await.unwrap();
    assert!(server.terminate().await.success());
    assert_eq!(found_in(&data), Vec::<String>::new(), "also not by what came after");
    assert!(
        kills >= 8 && unfinished >= 4,
        "{kills} deaths, of which {unfinished} left something, are too few to prove anything"
    );
    println!(
        "result sweep_erase kills={kills} unfinished={unfinished} messages={} lost=0 repeated=0",
        others.len()
    );
}
