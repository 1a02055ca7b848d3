//! Stores written by earlier versions, kept as SQL text, still open and mean what they meant.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod golden;
#[allow(dead_code, reason = "the suite of all stores uses the rest")]
#[path = "conformance/world.rs"]
mod world;

use std::collections::BTreeMap;

use golden::told::ODD;
use golden::{SQLITE, SQLITE_9_AT_FIRST, goes_on};
use pombo_kernel::campaign::recipient::{Listed, Person};
use pombo_kernel::dice::Dice;
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Actor, FailureReason, State, StateName};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::Time;
use pombo_store::core::{Core, Reading};
use pombo_store::dead::{Act, Ruled, Ruling};
use pombo_store::home::Home;
use pombo_store::roster::{self, Enlist, Enlisted};
use pombo_store::shelf::{Doc, Expect, Pick, Shelf, Shelve, Shelved, Wanted};
use pombo_store::sqlite::Sqlite;
use pombo_store::{Ask, By, Counted, Filter, Measured, NodeId, StatsWanted};

/// Of schema 1: one message sent, one failed, one cancelled, one retrying, one waiting, one being sent when the process
/// died, and two in an order.
const SCHEMA_1: &str = SQLITE[0].dump;
const SCHEMA_3: &str = SQLITE[2].dump;
const SCHEMA_4: &str = SQLITE[3].dump;

fn opened(dump: &str, folder: &std::path::Path) -> Sqlite {
    let db = rusqlite::Connection::open(folder.join("pombo.db")).unwrap();
    db.execute_batch(dump).unwrap();
    drop(db);
    Sqlite::open(folder, Dice::seeded(1), &[9; 32]).unwrap()
}

fn states(store: &Sqlite) -> Vec<(String, StateName)> {
    let mut reader = store.reader().unwrap();
    let page = reader.page(&Filter::default(), None, 100).unwrap();
    page.lines.iter().rev().map(|line| (line.message.body.to.clone(), line.state.name())).collect()
}

fn is_sound(folder: &std::path::Path) {
    let home: Home = folder.to_str().unwrap().parse().unwrap();
    assert_eq!(home.check(&mut |_| ()).unwrap().faults, []);
}

#[test] // RELIABILITY 57
fn every_earlier_schema_has_a_golden_store() {
    let folder = tempfile::tempdir().unwrap();
    drop(Sqlite::open(folder.path(), Dice::seeded(1), &[9; 32]).unwrap());
    let home: Home = folder.path().to_str().unwrap().parse().unwrap();
    let earlier: Vec<u32> = (1..home.schema().unwrap().unwrap()).collect();
    assert_eq!(SQLITE.map(|golden| golden.schema)[..], earlier);
}

#[test] // RELIABILITY 57
fn a_store_of_every_earlier_schema_means_what_it_meant_and_goes_on() {
    for golden in SQLITE.into_iter().chain([SQLITE_9_AT_FIRST]) {
        let folder = tempfile::tempdir().unwrap();
        let mut store = opened(golden.dump, folder.path());
        golden.is_told_by(&mut store);
        drop(store);
        is_sound(folder.path());
        let mut store = Sqlite::open(folder.path(), Dice::seeded(2), &[9; 32]).unwrap();
        goes_on(&mut store);
        drop(store);
        is_sound(folder.path());
    }
}

#[test] // RELIABILITY 57
fn a_store_of_schema_1_keeps_its_messages_its_history_and_its_audit() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(SCHEMA_1, folder.path());
    let named = |name: &str, state| (name.to_owned(), state);
    assert_eq!(
        states(&store),
        [
            named("sent", StateName::Sent),
            named("failed", StateName::Failed),
            named("cancelled", StateName::Cancelled),
            named("retrying", StateName::Pending),
            named("waiting", StateName::Pending),
            named("dying", StateName::Sending),
            named("first", StateName::Pending),
            named("second", StateName::Pending),
        ]
    );
    let mut reader = store.reader().unwrap();
    let verified = reader.verify().unwrap();
    assert_eq!((verified.broken, verified.records > 10), (None, true));
    let failed =
        reader.page(&Filter { state: Some(StateName::Failed), ..Filter::default() }, None, 10).unwrap();
    let id: MessageId = failed.lines[0].message.id;
    let story = reader.story(&Tenant::default(), id).unwrap().unwrap();
    assert!(matches!(story.state, State::Failed { reason: FailureReason::PermanentError, .. }));
    assert_eq!(story.attempts[0].failure.as_ref().unwrap().category, "not_found");
}

#[test] // RELIABILITY 57
fn a_store_of_schema_1_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = opened(SCHEMA_1, folder.path());
    let later = Time::from_millis(1_900_000_000_000);
    let lost = store.take_over(NodeId(5), 10, later).unwrap();
    assert_eq!(lost.iter().map(|claimed| claimed.message.body.to.as_str()).collect::<Vec<_>>(), ["dying"]);
    let ask = Ask { node: NodeId(5), lane: "default".parse().unwrap(), max: 10, rates: Default::default() };
    let mut claimed: Vec<_> =
        store.claim(&ask, later).unwrap().iter().map(|claimed| claimed.message.body.to.clone()).collect();
    claimed.sort();
    assert_eq!(claimed, ["first", "retrying", "waiting"]);
    store.commit(later, &[3; 32]).unwrap();
    assert_eq!(store.reader().unwrap().verify().unwrap().broken, None);
}

#[test] // REQ ML-5, RELIABILITY 57
fn a_doubt_of_schema_1_is_still_a_doubt() {
    let folder = tempfile::tempdir().unwrap();
    // The message that was waiting for a retry may have been sent by its first attempt.
    let dump = format!(
        "{SCHEMA_1} UPDATE history SET failure = json_set(failure, '$.perhaps_sent', json('true')) WHERE outcome = 2;"
    );
    let mut store = opened(&dump, folder.path());
    let ask = Ask { node: NodeId(5), lane: "default".parse().unwrap(), max: 10, rates: Default::default() };
    let claimed = store.claim(&ask, Time::from_millis(1_900_000_000_000)).unwrap();
    let doubtful = claimed.iter().filter(|claimed| claimed.progress.doubtful);
    assert_eq!(doubtful.map(|claimed| claimed.message.body.to.as_str()).collect::<Vec<_>>(), ["retrying"]);
}

fn keys(store: &Sqlite) -> Vec<Doc> {
    let all = Wanted { shelf: Shelf::Key, tenant: None, pick: Pick::All { after: None }, limit: 10 };
    store.reader().unwrap().docs(&all).unwrap()
}

#[test] // fault 57
fn a_store_of_schema_4_takes_campaigns() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = opened(SCHEMA_4, folder.path());
    let later = Time::from_millis(1_800_000_000_000);
    let campaign = serde_json::from_str(
        r#"{"name": "Spring", "channel": "crm", "lane": "default", "template": "spring", "template_version": 1,
            "created_at": "2026-05-01T12:00:00Z", "created_by": "ana", "state": "draft"}"#,
    );
    let (shelf, tenant, id) = (Shelf::Campaign, Tenant::default(), "cmp_new".to_owned());
    let leaf = Some(roster::leaf(&campaign.unwrap()));
    let new = Shelve { shelf, tenant, id, expect: Expect::Nothing, leaf, record: None };
    assert_eq!(store.shelve(&new, later).unwrap(), Shelved::Done { version: 1 });
    let of = Ok(Person { to: ODD.into(), key: ODD.into(), payload: None });
    let (tenant, campaign, by) = (Tenant::default(), "cmp_new".parse().unwrap(), Actor("ana".into()));
    let lines = vec![Listed { line: 1, of }];
    let listed = store.enlist(&Enlist { tenant, campaign, lines, by }, later).unwrap();
    assert_eq!(listed, Ok(vec![Enlisted::Added]));
    store.commit(later, &[3; 32]).unwrap();
    drop(store);
    is_sound(folder.path());
}

#[test] // fault 57, REQ SE-1
fn keys_of_earlier_schemas_open_the_same_doors_as_documents() {
    for (dump, place, label, created_at, at) in [
        (SCHEMA_1, "08", "first", "2027-01-15T08:00:11.000Z", 1_800_000_011_000),
        (SCHEMA_3, "04", ODD, "2027-01-15T08:00:00.000Z", 1_800_000_000_000),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut store = opened(dump, folder.path());
        let found = keys(&store);
        let [doc] = &found[..] else { panic!("{found:?}") };
        assert_eq!((doc.id.clone(), doc.version, doc.leaf.order), (place.repeat(32), 1, at));
        assert_eq!((&doc.tenant, doc.leaf.topic.as_deref()), (&Tenant::default(), Some("key_1")));
        let body: serde_json::Value = serde_json::from_str(&doc.leaf.body).unwrap();
        let expected = serde_json::json!({
            "id": "key_1", "role": "admin", "label": label, "created_by": "pombo", "created_at": created_at,
        });
        assert_eq!(body, expected);
        let (shelf, tenant, id) = (Shelf::Key, doc.tenant.clone(), doc.id.clone());
        let gone = Shelve { shelf, tenant, id, expect: Expect::Version(1), leaf: None, record: None };
        assert_eq!(store.shelve(&gone, Time::from_millis(at)).unwrap(), Shelved::Done { version: 1 });
        store.commit(Time::from_millis(at), &[3; 32]).unwrap();
        assert_eq!(keys(&store), []);
    }
}

#[test] // REQ DL-1, fault 57
fn what_was_dead_in_schema_1_is_a_dead_letter_with_its_cause() {
    let folder = tempfile::tempdir().unwrap();
    // One that expired after an attempt, beside the one that failed.
    let dump = format!(
        "{SCHEMA_1} INSERT INTO history SELECT key, 1, 11, 0, 0, 1, 0, 1800000050000, 1800000050000, 3, NULL, NULL, NULL,
         NULL, NULL, NULL, NULL, 7 FROM history WHERE outcome = 2; DELETE FROM ready WHERE steps > 0;"
    );
    let mut store = opened(&dump, folder.path());
    let mut reader = store.reader().unwrap();
    let groups = reader.groups(&Tenant::default(), 10).unwrap();
    let mut seen: Vec<_> =
        groups.iter().map(|group| (group.category.as_str(), group.text.as_str(), group.count)).collect();
    seen.sort_unstable();
    assert_eq!(seen, [("expired", "", 1), ("not_found", "no such thing", 1)]);
    let mut ids = Vec::new();
    for group in &groups {
        let page = reader.page(&Filter { cause: Some(group.id), ..Filter::default() }, None, 10).unwrap();
        assert_eq!(page.lines.len(), 1, "the table and the message agree on the cause");
        ids.push(page.lines[0].message.id);
    }
    let by = Actor("ana".into());
    let tenant = Tenant::default();
    let ruling = Ruling { tenant, ids, act: Act::Reprocess, by, note: None, with: None };
    let later = Time::from_millis(1_900_000_000_000);
    assert_eq!(store.rule(&ruling, later).unwrap(), Ok(vec![Ruled::Done, Ruled::Done]));
    store.commit(later, &[3; 32]).unwrap();
    assert_eq!(store.reader().unwrap().groups(&Tenant::default(), 10).unwrap(), []);
}

#[test] // fault 57, REQ OB-1
fn what_waited_in_earlier_schemas_is_counted_when_they_are_opened() {
    for golden in SQLITE.into_iter().filter(|golden| golden.schema < 6) {
        let folder = tempfile::tempdir().unwrap();
        let mut store = opened(golden.dump, folder.path());
        let mut reader = store.reader().unwrap();
        let mut waits: BTreeMap<_, u64> = BTreeMap::new();
        for tenant in ["default", "acme"].map(|tenant| tenant.parse::<Tenant>().unwrap()) {
            let lines = reader.page(&Filter { tenant, ..Filter::default() }, None, 100).unwrap().lines;
            for line in lines {
                let queue = &line.message.queue;
                if matches!(line.state.name(), StateName::Pending | StateName::Sending) {
                    let place = (queue.tenant.clone(), queue.lane.clone(), queue.channel.clone());
                    *waits.entry(place).or_default() += 1;
                }
            }
        }
        let backlog = reader.backlog(Time::from_millis(0)).unwrap();
        let counted: BTreeMap<_, u64> =
            backlog.into_iter().map(|it| ((it.tenant, it.lane, it.channel), it.waiting)).collect();
        assert_eq!(counted, waits);
        assert!(waits.values().sum::<u64>() > 4, "{waits:?}");
        // What was counted by the hour still is, and goes on with details.
        let every = StatsWanted { tenant: None, since: Time::default(), until: Time::MAX, by: By::Hour };
        let before = reader.stats(&every).unwrap();
        let accepted = |counted: &[Measured]| -> i64 {
            counted.iter().filter(|it| it.what == Counted::Accepted).map(|it| it.count).sum()
        };
        assert!(accepted(&before) >= 8 && before.iter().all(|it| it.detail.is_empty() && it.sum == 0));
        let later = Time::from_millis(1_900_000_000_000);
        let lost = store.take_over(NodeId(5), 1, later).unwrap().remove(0);
        store.release(lost.key, later).unwrap();
        store.cancel(&lost.message.queue.tenant, lost.message.id, &Actor("ana".into()), later).unwrap();
        store.commit(later, &[3; 32]).unwrap();
        let left = store.reader().unwrap().backlog(later).unwrap().iter().map(|it| it.waiting).sum::<u64>();
        assert_eq!(left, waits.values().sum::<u64>() - 1);
        drop((store, reader));
        is_sound(folder.path());
    }
}

#[test] // RELIABILITY 57
fn histories_are_the_same_rows_wherever_they_stand_by_now() {
    for golden in SQLITE.into_iter().filter(|golden| golden.schema >= 4) {
        let folder = tempfile::tempdir().unwrap();
        let rows = || -> Vec<Vec<rusqlite::types::Value>> {
            let db = rusqlite::Connection::open(folder.path().join("pombo.db")).unwrap();
            let mut statement = db.prepare("SELECT * FROM history ORDER BY key, seq").unwrap();
            let width = statement.column_count();
            let row = |row: &rusqlite::Row<'_>| (0..width).map(|column| row.get(column)).collect();
            statement.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap()
        };
        let db = rusqlite::Connection::open(folder.path().join("pombo.db")).unwrap();
        db.execute_batch(golden.dump).unwrap();
        drop(db);
        let before = rows();
        assert!(before.len() > 5, "{}", before.len());
        drop(Sqlite::open(folder.path(), Dice::seeded(1), &[9; 32]).unwrap());
        assert_eq!(rows(), before);
    }
}
