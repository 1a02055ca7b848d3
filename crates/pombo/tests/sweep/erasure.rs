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
const IN_BACKUP: [(&str, &[u32]); 2] = [(WRITES, &[1, 2, 20, 70, 140, 230]), (FLUSHES, &[1, 2, 6, 11, 15])];
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

/// What became of a store in one life after the other, each of which erased the person in it and was killed at some call.
struct Lives<'a> {
    before: &'a Path,
    data: &'a Path,
    erase: &'a [&'a str],
    others: &'a [String],
}

impl Lives<'_> {
    /// Whatever call it died at, the others are untouched, and running the same again completes it. How many lives were
    /// killed, and how many of those left something of the person.
    fn lead(&self, calls: [(&str, &[u32]); 2]) -> (usize, usize) {
        assert!(!found_in(self.before).is_empty(), "nobody is there to be erased");
        copied(self.before, self.data);
        let untouched = stories(self.data, self.others);
        let (mut kills, mut unfinished) = (0, 0);
        for (call, short) in calls {
            for nth in nths(short) {
                copied(self.before, self.data);
                let when = format!("killed at {call} {nth}");
                let died = dies(call, nth, self.data, self.erase);
                if died {
                    kills += 1;
                    let left = left_by(self.data);
                    unfinished += usize::from(!found_in(&left).is_empty());
                    sound(&left, &when);
                    assert_eq!(stories(&left, self.others), untouched, "{when}");
                    let (done, said) = store(self.erase);
                    assert!(done, "{when}: {said}");
                }
                assert_eq!(found_in(self.data), Vec::<String>::new(), "{when}");
                sound(self.data, &when);
                assert_eq!(stories(self.data, self.others), untouched, "{when}");
                // It has fewer such calls: all of them were tried.
                if !died {
                    break;
                }
            }
        }
        (kills, unfinished)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ AU-3
async fn an_erasure_that_died_at_any_write_or_flush_is_complete_after_the_next() {
    let place = Place::new();
    let sink = sink().await;
    let person = sink.url("/ok?to=zuleica");
    let others = planted(&place, &sink, &person).await;
    let data = place.folder.path().join("life");
    let config = place.folder.path().join("pombo.toml");
    let (at, config) = (data.to_str().unwrap(), config.to_str().unwrap());
    let erase = ["erase", "--data", at, "--config", config, "--recipient", &person];
    let lives = Lives { before: &place.data(), data: &data, erase: &erase, others: &others };
    let (kills, unfinished) = lives.lead(SHORT);

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ AU-3
async fn an_erasure_in_a_backup_that_died_at_any_write_or_flush_is_complete_after_the_next() {
    let place = Place::new();
    let sink = sink().await;
    let person = sink.url("/ok?to=zuleica");
    let others = planted(&place, &sink, &person).await;
    let (backup, data) = (place.folder.path().join("backup"), place.folder.path().join("life"));
    let (config, own) = (place.folder.path().join("pombo.toml"), place.data());
    let (config, own) = (config.to_str().unwrap(), own.to_str().unwrap());
    let (done, said) = store(&["backup", "--data", own, "--to", backup.to_str().unwrap()]);
    assert!(done, "{said}");
    let also_in = ["--also-in", data.to_str().unwrap()];
    let erase =
        [&["erase", "--data", own, "--config", config, "--recipient", &person], &also_in[..]].concat();
    let lives = Lives { before: &backup, data: &data, erase: &erase, others: &others };
    let (kills, unfinished) = lives.lead(IN_BACKUP);
    assert!(kills >= 6 && unfinished >= 3, "{kills} deaths, of which {unfinished} left something");
    // It is still a backup.
    let (_, said) = store(&["check", "--data", data.to_str().unwrap()]);
    assert!(said.contains("this is a backup of"), "{said}");
    println!(
        "result sweep_erase_backup kills={kills} unfinished={unfinished} messages={} lost=0 repeated=0",
        others.len()
    );
}
