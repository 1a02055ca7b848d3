//! Stores written by earlier versions, kept as SQL text, still open and mean what they meant.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use pombo_kernel::dice::Dice;
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{FailureReason, State, StateName};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::Time;
use pombo_store::core::{Core, Reading};
use pombo_store::sqlite::Sqlite;
use pombo_store::{Ask, Filter, NodeId};

/// Written by schema 1: one message sent, one failed, one cancelled, one retrying, one waiting, one being sent when
/// the process died, and two in an order.
const SCHEMA_1: &str = include_str!("golden/schema-1.sql");

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
