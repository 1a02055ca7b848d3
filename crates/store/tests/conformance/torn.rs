//! What a power cut may leave of writes that were not flushed: any of their sectors, in any order.
//!
//! Nothing of SQLite is replaced for this. A commit ends with a flush, so that whatever differs between the files
//! before and after it is what was under way; the images are the files before it with some sectors of the files after
//! it.

#![allow(clippy::cast_possible_truncation, reason = "all numbers are small here")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pombo_kernel::dice::Dice;
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Body, Draft};
use pombo_kernel::name::Tenant;
use pombo_store::core::{Core, Reading};
use pombo_store::sqlite::Sqlite;

use crate::world::{START, draft, folder};

const SECTOR: usize = 512;
/// How a log begins. It is flushed before anything else is written to it.
const HEADER: usize = 32;

/// The files of a store at one moment.
#[derive(Clone, PartialEq)]
struct Image {
    db: Vec<u8>,
    log: Vec<u8>,
    index: Vec<u8>,
}

impl Image {
    fn of(folder: &Path) -> Image {
        let read = |name: &str| fs::read(folder.join(name)).unwrap_or_default();
        Image { db: read("pombo.db"), log: read("pombo.db-wal"), index: read("pombo.db-shm") }
    }

    fn put(&self, folder: &Path) {
        let files = [("pombo.db", &self.db), ("pombo.db-wal", &self.log), ("pombo.db-shm", &self.index)];
        for (name, bytes) in files.iter().filter(|(_, bytes)| !bytes.is_empty()) {
            fs::write(folder.join(name), bytes).unwrap();
        }
    }
}

/// Which of the sectors that were written have reached the disk.
#[derive(Clone, Copy, Debug)]
enum Reached {
    None,
    All,
    /// In order, up to one of them.
    First,
    /// The last ones, before the others.
    Last,
    /// All but one.
    AllButOne,
    Some,
}

const WAYS: [Reached; 6] =
    [Reached::None, Reached::All, Reached::First, Reached::Last, Reached::AllButOne, Reached::Some];

/// The file before, with what has reached the disk of the file after it.
fn torn(before: &[u8], after: &[u8], reached: Reached, dice: &mut Dice) -> Vec<u8> {
    let sector = |bytes: &[u8], n: usize| {
        bytes.get(n * SECTOR..).map(|rest| rest[..rest.len().min(SECTOR)].to_vec()).unwrap_or_default()
    };
    let written: Vec<usize> =
        (0..after.len().div_ceil(SECTOR)).filter(|n| sector(before, *n) != sector(after, *n)).collect();
    let one = dice.below(written.len().max(1) as u64) as usize;
    let mut there = |nth: usize| match reached {
        Reached::None => false,
        Reached::All => true,
        Reached::First => nth < one,
        Reached::Last => nth >= one,
        Reached::AllButOne => nth != one,
        Reached::Some => dice.below(2) == 0,
    };
    let there: BTreeSet<usize> =
        written.iter().enumerate().filter(|(nth, _)| there(*nth)).map(|(_, n)| *n).collect();
    let mut bytes = before.to_vec();
    for n in there {
        let new = sector(after, n);
        let end = n * SECTOR + new.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[n * SECTOR..end].copy_from_slice(&new);
    }
    bytes
}

/// How many of these messages the store has, which must be sound.
fn there(store: &Sqlite, ids: &[MessageId]) -> usize {
    let mut reader = store.reader().unwrap();
    assert_eq!(reader.verify().unwrap().broken, None);
    ids.iter().filter(|id| reader.story(&Tenant::default(), **id).unwrap().is_some()).count()
}

fn open(folder: &Path) -> Sqlite {
    Sqlite::open(folder, Dice::seeded(1), &[7; 32]).unwrap()
}

fn accept(store: &mut Sqlite, dice: &mut Dice) -> Vec<MessageId> {
    let count = 1 + dice.below(4);
    let ids = (0..count).map(|n| {
        let to = "someone".repeat(1 + dice.below(2_000) as usize);
        let draft = Draft { body: Body { to: format!("{n} {to}"), ..draft().body }, ..draft() };
        store.accept(draft, START).unwrap().unwrap().id
    });
    let ids = ids.collect();
    store.commit(START, &[7; 32]).unwrap();
    ids
}

// RELIABILITY 6, 7, and 10: none of it is taken for damage
#[test]
fn whatever_sectors_a_power_cut_leaves_everything_that_was_committed_is_there() {
    let mut dice = Dice::seeded(7);
    let mut home = folder();
    let mut store = open(home.path());
    let mut kept = accept(&mut store, &mut dice);
    let (mut images, mut restarts, mut survived) = (0, 0, 0);
    for round in 0..14 {
        if round % 4 == 3 {
            // What has been committed goes to the file itself, which is flushed after that; the log begins anew then.
            let before = Image::of(home.path());
            let beside = rusqlite::Connection::open(home.path().join("pombo.db")).unwrap();
            beside.query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |_| Ok(())).unwrap();
            let after = Image::of(home.path());
            assert!(before.log == after.log && before.db != after.db);
            for reached in WAYS {
                let image = Image { db: torn(&before.db, &after.db, reached, &mut dice), ..before.clone() };
                let copy = folder();
                image.put(copy.path());
                assert_eq!(there(&open(copy.path()), &kept), kept.len(), "round {round}, {reached:?}");
                images += 1;
            }
        }
        let before = Image::of(home.path());
        let fresh = accept(&mut store, &mut dice);
        let after = Image::of(home.path());
        assert!(before.db == after.db, "a commit writes to the log alone");
        let restarted = before.log.get(..HEADER) != after.log.get(..HEADER);
        restarts += usize::from(restarted);
        for reached in WAYS {
            let mut flushed = before.log.clone();
            if restarted {
                flushed.resize(flushed.len().max(HEADER), 0);
                flushed[..HEADER].copy_from_slice(&after.log[..HEADER]);
            }
            let log = torn(&flushed, &after.log, reached, &mut dice);
            // The index is written whenever the system likes, and may be gone.
            let index = if dice.below(2) == 0 { before.index.clone() } else { Vec::new() };
            let image = Image { log, index, ..before.clone() };
            let copy = folder();
            image.put(copy.path());
            let next = open(copy.path());
            assert_eq!(there(&next, &kept), kept.len(), "round {round}, {reached:?}");
            let new = there(&next, &fresh);
            assert!(new == 0 || new == fresh.len(), "round {round}, {reached:?}: {new} of {}", fresh.len());
            images += 1;
            // Now and then that is how it goes on: what was torn lies behind what is written next.
            if new == 0 && round % 4 == 1 && matches!(reached, Reached::Last | Reached::AllButOne) {
                (store, home) = (next, copy);
                survived += 1;
                break;
            }
        }
        if there(&store, &fresh) > 0 {
            kept.extend(fresh);
        }
    }
    assert!(images > 80 && restarts >= 3 && survived >= 2, "{images} images, {restarts}, {survived}");
}
