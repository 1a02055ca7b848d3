//! Stores written by earlier versions, kept as SQL text, still open and mean what they meant.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;

use pombo_kernel::attachment::Blob;
use pombo_kernel::campaign::recipient::{Listed, Person};
use pombo_kernel::delivery::Delivery;
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

/// Written by schema 1: one message sent, one failed, one cancelled, one retrying, one waiting, one being sent when
/// the process died, and two in an order.
const SCHEMA_1: &str = include_str!("golden/schema-1.sql");

/// Written by schema 3: messages in every state, of two tenants; a key, templates, an attachment, a report, blocks, and
/// texts with everything in them.
const SCHEMA_3: &str = include_str!("golden/schema-3.sql");
/// As schema 4 had it: the same, with dead letters by cause, documents, an edited message and one in its second round.
const SCHEMA_4: &str = include_str!("golden/schema-4.sql");
/// What makes schema 5 of schema 4.
const TO_SCHEMA_5: &str =
    concat!(include_str!("../sql/sqlite/migrations/0005.sql"), "PRAGMA user_version = 5;");
/// Such a text.
const ODD: &str = "\0a\u{1}0'ç\u{1}";

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
fn a_store_of_schema_3_opens_with_everything_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = opened(SCHEMA_3, folder.path());
    let acme: Tenant = "acme".parse().unwrap();
    let counted =
        [StateName::Sent, StateName::Failed, StateName::Cancelled, StateName::Pending, StateName::Sending]
            .map(|state| {
                let filter = Filter { state: Some(state), ..Filter::default() };
                store.reader().unwrap().page(&filter, None, 100).unwrap().lines.len()
            });
    assert_eq!(counted, [1, 1, 1, 8, 2]);
    let mut reader = store.reader().unwrap();
    let mut listed = |filter: Filter| reader.page(&filter, None, 100).unwrap().lines;
    let odd = listed(Filter { tenant: acme, recipient: Some(ODD.into()), ..Filter::default() });
    assert_eq!(
        odd.iter().map(|line| line.message.body.reference.as_deref()).collect::<Vec<_>>(),
        [Some(ODD)]
    );
    let delivered = listed(Filter { delivery: Some(Delivery::Delivered), ..Filter::default() });
    let word = delivered[0].delivery.as_ref().unwrap();
    assert_eq!((delivered.len(), word.detail.as_deref()), (1, Some(ODD)));
    let versions =
        reader.template_versions(&Tenant::default(), &"welcome".parse().unwrap(), None, 9).unwrap();
    let texts: Vec<_> =
        versions.iter().map(|version| (version.version, version.template.text.as_deref())).collect();
    assert_eq!(texts, [(2, Some("two")), (1, Some("one"))]);
    assert_eq!(reader.blob(Blob::of(vec![7u8; 100]).digest).unwrap().map(|bytes| bytes.len()), Some(100));
    assert_eq!(reader.blocks().unwrap().len(), 2);
    assert_eq!(reader.tallies().unwrap().len(), 9);
    let verified = reader.verify().unwrap();
    assert_eq!((verified.broken, verified.records), (None, 33));
    // And goes on: what was being sent is taken over, what is due is claimed.
    let later = Time::from_millis(1_800_000_000_000 + 3_600_000);
    assert_eq!(store.take_over(NodeId(5), 10, later).unwrap().len(), 2);
    assert_eq!(store.expire(10, later).unwrap(), 1);
    let ask = Ask { node: NodeId(5), lane: "default".parse().unwrap(), max: 10, rates: Default::default() };
    assert_eq!(store.claim(&ask, later).unwrap().len(), 5);
    store.commit(later, &[3; 32]).unwrap();
    drop(store);
    let home: Home = folder.path().to_str().unwrap().parse().unwrap();
    assert_eq!(home.check(&mut |_| ()).unwrap().faults, []);
}

#[test] // fault 57
fn a_store_of_schema_4_opens_with_everything_in_it_and_takes_campaigns() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = opened(SCHEMA_4, folder.path());
    let mut reader = store.reader().unwrap();
    let mut counted = |state| {
        reader.page(&Filter { state: Some(state), ..Filter::default() }, None, 100).unwrap().lines.len()
    };
    let states = [StateName::Sent, StateName::Failed, StateName::Discarded, StateName::Cancelled];
    assert_eq!(states.map(&mut counted), [1, 1, 1, 1]);
    assert_eq!([StateName::Pending, StateName::Sending].map(counted), [9, 2]);
    let groups = reader.groups(&Tenant::default(), 10).unwrap();
    assert_eq!(groups.iter().map(|group| group.count).collect::<Vec<_>>(), [1]);
    let edited = reader.revisions(&Tenant::default(), groups[0].newest).unwrap();
    assert_eq!(edited.iter().map(|it| it.note.as_deref()).collect::<Vec<_>>(), [Some(ODD)]);
    let webhook = reader.doc(Shelf::Webhook, &Tenant::default(), ODD).unwrap().unwrap();
    assert_eq!((webhook.version, webhook.leaf.topic.as_deref()), (1, Some(ODD)));
    assert_eq!(reader.verify().unwrap().broken, None);
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
    let home: Home = folder.path().to_str().unwrap().parse().unwrap();
    assert_eq!(home.check(&mut |_| ()).unwrap().faults, []);
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
    let schema_5 = format!("{SCHEMA_4}{TO_SCHEMA_5}");
    for dump in [SCHEMA_1, SCHEMA_3, SCHEMA_4, &schema_5] {
        let folder = tempfile::tempdir().unwrap();
        let mut store = opened(dump, folder.path());
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
        let home: Home = folder.path().to_str().unwrap().parse().unwrap();
        assert_eq!(home.check(&mut |_| ()).unwrap().faults, []);
    }
}

#[test] // RELIABILITY 57
fn histories_are_the_same_rows_wherever_they_stand_by_now() {
    let folder = tempfile::tempdir().unwrap();
    let rows = || -> Vec<Vec<rusqlite::types::Value>> {
        let db = rusqlite::Connection::open(folder.path().join("pombo.db")).unwrap();
        let mut statement = db.prepare("SELECT * FROM history ORDER BY key, seq").unwrap();
        let width = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| (0..width).map(|column| row.get(column)).collect();
        statement.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap()
    };
    let db = rusqlite::Connection::open(folder.path().join("pombo.db")).unwrap();
    db.execute_batch(SCHEMA_4).unwrap();
    drop(db);
    let before = rows();
    assert!(before.len() > 5, "{}", before.len());
    drop(Sqlite::open(folder.path(), Dice::seeded(1), &[9; 32]).unwrap());
    assert_eq!(rows(), before);
}
