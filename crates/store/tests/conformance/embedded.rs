//! What only a store in a folder can be asked: a process that ends, and another that comes after it.

use pombo_kernel::block::Block;
use pombo_kernel::dice::Dice;
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::message::{Actor, Body, Draft, StateName};
use pombo_kernel::name::Tenant;
use pombo_store::core::{Core, Reading};
use pombo_store::home::Home;
use pombo_store::sqlite::Sqlite;
use pombo_store::{Ask, Filter, Place, StoreError};

use crate::world::{ONE, START, TWO, draft, folder, mins, secs};

fn commit(store: &mut Sqlite) {
    store.commit(START, &[7; 32]).unwrap();
}

// fault 11
#[test]
fn a_second_process_is_refused() {
    let folder = folder();
    let first = Sqlite::open(folder.path(), Dice::seeded(1), &[7; 32]).unwrap();
    assert!(matches!(
        Sqlite::open(folder.path(), Dice::seeded(2), &[7; 32]),
        Err(StoreError::Unavailable(_))
    ));
    drop(first);
    Sqlite::open(folder.path(), Dice::seeded(2), &[7; 32]).unwrap();
}

// promise 7
#[test]
fn the_leases_of_an_earlier_life_are_void() {
    let folder = folder();
    let mut store = Sqlite::open(folder.path(), Dice::seeded(1), &[7; 32]).unwrap();
    let id = store.accept(draft(), START).unwrap().unwrap().id;
    store.heartbeat(ONE, START + mins(60)).unwrap();
    let ask = Ask { node: ONE, lane: Default::default(), max: 1, rates: Default::default() };
    let claimed = store.claim(&ask, START).unwrap().remove(0);
    commit(&mut store);
    drop(store);

    let mut store = Sqlite::open(folder.path(), Dice::seeded(2), &[7; 32]).unwrap();
    store.heartbeat(TWO, START + mins(60)).unwrap();
    let doubtful = store.take_over(TWO, 10, START + secs(1)).unwrap();
    assert_eq!((doubtful.len(), doubtful[0].message.id), (1, id));
    assert!(doubtful[0].key.claim > claimed.key.claim);
}

// REQ CF-7
#[test]
fn a_new_process_probes_a_hold_at_once() {
    let folder = folder();
    let mut store = Sqlite::open(folder.path(), Dice::seeded(1), &[7; 32]).unwrap();
    let queue = draft().queue;
    let place = Place { channel: queue.channel, destination: Some(queue.destination) };
    store.block(&place, Block::hold("401".into(), 6, START), &Actor::engine(), START).unwrap();
    let id = store.accept(draft(), START).unwrap().unwrap().id;
    let ask = Ask { node: ONE, lane: Default::default(), max: 10, rates: Default::default() };
    assert_eq!(store.claim(&ask, START + secs(1)).unwrap(), []);
    commit(&mut store);
    drop(store);

    let mut store = Sqlite::open(folder.path(), Dice::seeded(2), &[7; 32]).unwrap();
    let claimed = store.claim(&ask, START + secs(1)).unwrap();
    assert_eq!((claimed.len(), claimed[0].message.id, crate::world::failed(&claimed[0])), (1, id, Some(6)));
}

// promise 1, fault 1
#[test]
fn a_process_that_ends_without_a_commit_leaves_what_was_committed() {
    let folder = folder();
    let mut store = Sqlite::open(folder.path(), Dice::seeded(1), &[7; 32]).unwrap();
    let kept = store.accept(draft(), START).unwrap().unwrap().id;
    commit(&mut store);
    let lost = store.accept(draft(), START).unwrap().unwrap().id;
    store
        .claim(&Ask { node: ONE, lane: Default::default(), max: 10, rates: Default::default() }, START)
        .unwrap();
    drop(store);

    let mut store = Sqlite::open(folder.path(), Dice::seeded(2), &[7; 32]).unwrap();
    let mut reader = store.reader().unwrap();
    let story = reader.story(&Tenant::default(), kept).unwrap().unwrap();
    assert_eq!(story.state.name(), StateName::Pending);
    assert_eq!(reader.story(&Tenant::default(), lost).unwrap(), None);
    let next = store.accept(draft(), START).unwrap().unwrap().id;
    assert!(next > kept && next != lost);
}

#[test]
fn the_directory_has_what_was_entered_and_a_look_over_the_store_notices_what_it_lacks() {
    let folder = folder();
    let mut store = Sqlite::open(folder.path(), Dice::seeded(1), &[7; 32]).unwrap();
    let to = |to: &str| Draft { body: Body { to: to.into(), ..Body::default() }, ..draft() };
    let first = store.accept(to("ana"), START).unwrap().unwrap().id;
    (0..1_500).for_each(|n| drop(store.accept(to(&n.to_string()), START).unwrap()));
    commit(&mut store);
    store.accept(to("ana"), START).unwrap().unwrap();
    // One that brings an id of a time for which all are entered.
    let before = MessageId::new(MessageKey(first.key().0 - 5), 7);
    store.accept(Draft { id: Some(before), ..to("ana") }, START).unwrap().unwrap();
    commit(&mut store);
    let found = |store: &Sqlite| {
        let ana = Filter { recipient: Some("ana".into()), ..Filter::default() };
        store.reader().unwrap().page(&ana, None, 10).unwrap().lines.len()
    };
    assert_eq!(found(&store), 3);
    drop(store);
    let mut store = Sqlite::open(folder.path(), Dice::seeded(2), &[7; 32]).unwrap();
    assert_eq!(found(&store), 3);
    (0..998).for_each(|n| drop(store.accept(to(&n.to_string()), START).unwrap()));
    commit(&mut store);
    drop(store);

    let count = |sql: &str| {
        let db = rusqlite::Connection::open(folder.path().join("pombo.db")).unwrap();
        db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(count("SELECT count(*) FROM directory"), 1_502, "998 and one before them wait for their turn");
    let home = Home::Embedded(folder.path().to_path_buf().into());
    let faults = || home.check(&mut |_| {}).unwrap().faults;
    assert_eq!(faults(), []);
    let gone = format!("DELETE FROM directory WHERE key = {} RETURNING key", first.key().0);
    assert_eq!(count(&gone), first.key().0);
    let told = faults();
    assert!(
        told.len() == 1 && told[0].what.contains("by recipient") && told[0].what.contains(&first.to_string()),
        "{told:?}"
    );
}

#[test]
fn a_row_that_waits_for_a_message_which_is_gone_is_told_of() {
    let folder = folder();
    let mut store = Sqlite::open(folder.path(), Dice::seeded(1), &[7; 32]).unwrap();
    store.accept(draft(), START).unwrap().unwrap();
    commit(&mut store);
    drop(store);
    let db = rusqlite::Connection::open(folder.path().join("pombo.db")).unwrap();
    assert_eq!(db.execute("DELETE FROM message", []).unwrap(), 1);
    drop(db);
    let mut store = Sqlite::open(folder.path(), Dice::seeded(2), &[7; 32]).unwrap();
    let ask = Ask { node: ONE, lane: Default::default(), max: 1, rates: Default::default() };
    let answer = store.claim(&ask, START);
    assert!(matches!(&answer, Err(StoreError::Broken(why)) if why.contains("is missing")), "{answer:?}");
}

#[test]
fn records_are_read_from_any_position_even_where_a_block_is_gone() {
    let folder = folder();
    let mut store = Sqlite::open(folder.path(), Dice::seeded(1), &[7; 32]).unwrap();
    for n in 0..40 {
        (0..=n % 3).for_each(|_| drop(store.accept(draft(), START).unwrap()));
        commit(&mut store);
    }
    let all = store.reader().unwrap().audit(0, usize::MAX).unwrap();
    let db = rusqlite::Connection::open(folder.path().join("pombo.db")).unwrap();
    let gone: (i64, i64) = db
        .query_row("DELETE FROM audit WHERE sequence = 20 RETURNING position, count", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    let left =
        |(position, _): &&(u64, _)| !(gone.0..gone.0 + gone.1).contains(&i64::try_from(*position).unwrap());
    for from in 0..all.len() as u64 {
        let read = store.reader().unwrap().audit(from, 3).unwrap();
        let expected: Vec<_> =
            all.iter().filter(left).filter(|(at, _)| *at >= from).take(3).cloned().collect();
        assert_eq!(read, expected, "from {from}");
    }
}

// RELIABILITY 12
#[test]
fn while_somebody_reads_for_long_the_log_grows_by_what_is_written_and_is_used_anew_afterwards() {
    const MOST_BYTES: u64 = 67_108_864;
    let folder = folder();
    let mut store = Sqlite::open(folder.path(), Dice::seeded(1), &[7; 32]).unwrap();
    let log_bytes = || std::fs::metadata(folder.path().join("pombo.db-wal")).unwrap().len();
    // Many pages in each commit, so that it is soon time to bring them into the file.
    let mut write = |commits: usize| {
        for _ in 0..commits {
            for _ in 0..40 {
                let to = "someone".repeat(2_000);
                store.accept(Draft { body: Body { to, ..draft().body }, ..draft() }, START).unwrap().unwrap();
            }
            commit(&mut store);
        }
    };
    write(1);
    let one = log_bytes();
    // Alone, it never holds much more than it is brought into the file at.
    write(60);
    let usual = log_bytes();
    assert!(usual > 10 * one && usual < 40_000_000, "{usual}");
    let reader = rusqlite::Connection::open(folder.path().join("pombo.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM queue").unwrap();
    write(150);
    let held = log_bytes();
    assert!(held > MOST_BYTES, "the view that somebody has is kept: {usual}, then {held}");
    reader.execute_batch("COMMIT").unwrap();
    write(2);
    assert_eq!(log_bytes(), MOST_BYTES, "it begins anew, and gives back what is beyond its usual most");
}
