#![allow(clippy::cast_possible_truncation, reason = "all numbers are small here")]

use super::*;

const PAGE: usize = 512;
const FRAME: usize = FRAME_HEADER_BYTES + PAGE;

/// A log as SQLite writes it.
struct Log {
    bytes: Vec<u8>,
    order: Order,
    salts: [u8; 8],
    sums: Sums,
}

impl Log {
    fn new(order: Order, salt: u8) -> Log {
        let magic = MAGIC | u32::from(matches!(order, Order::Big));
        let mut bytes = [magic, INDEX_VERSION, PAGE as u32, 0].map(u32::to_be_bytes).concat();
        let salts = [salt; 8];
        bytes.extend(salts);
        let sums = summed(order, [0, 0], &bytes);
        bytes.extend(sums.map(u32::to_be_bytes).concat());
        Log { bytes, order, salts, sums }
    }

    fn frame(&mut self, page: u32, commits: bool) -> &mut Log {
        let head = [page, if commits { 9 } else { 0 }].map(u32::to_be_bytes).concat();
        // Different at each place, so that no two frames can stand for each other.
        let place = self.bytes.len() as u32 * 31 + u32::from(self.salts[0]);
        let content: Vec<u8> =
            (0..PAGE as u32).map(|n| (place + n).to_le_bytes()[(n % 3) as usize]).collect();
        self.sums = summed(self.order, summed(self.order, self.sums, &head), &content);
        self.bytes.extend(head);
        self.bytes.extend(self.salts);
        self.bytes.extend(self.sums.map(u32::to_be_bytes).concat());
        self.bytes.extend(content);
        self
    }

    /// Commits of three frames each.
    fn commits(mut self, count: usize) -> Log {
        for _ in 0..count {
            self.frame(1, false).frame(2, false).frame(3, true);
        }
        self
    }
}

fn at(frame: usize) -> usize {
    HEADER_BYTES + frame * FRAME
}

fn spoilt(bytes: &[u8], range: std::ops::Range<usize>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[range].iter_mut().for_each(|byte| *byte ^= 0x5a);
    bytes
}

fn found(bytes: &[u8], index: Option<Index>) -> Option<Damage> {
    judge(&mut io::Cursor::new(bytes), index).unwrap()
}

fn damage(frame: usize, commits: u64) -> Option<Damage> {
    Some(Damage { at: at(frame) as u64, commits })
}

#[test]
fn a_hole_is_told_wherever_it_is_before_the_last_commit() {
    for order in [Order::Little, Order::Big] {
        let log = Log::new(order, 1).commits(5).bytes;
        assert_eq!(found(&log, None), None);
        for frame in 0..15 {
            let content = spoilt(&log, at(frame) + 100..at(frame) + 101);
            // A commit counts by the frame that was made on top of it, so the last one never does.
            let behind = 4 - frame / 3;
            assert_eq!(found(&content, None), if behind == 0 { None } else { damage(frame, behind as u64) });
            let whole_frame = spoilt(&log, at(frame)..at(frame + 1));
            // What is left of a commit whose mark is gone cannot be told from a part of the next one.
            let marks = behind - usize::from(frame % 3 == 2 && behind > 0);
            assert_eq!(
                found(&whole_frame, None),
                if marks == 0 { None } else { damage(frame, marks as u64) }
            );
        }
    }
}

#[test]
fn whatever_is_missing_of_the_last_commit_is_how_a_crash_leaves_it() {
    let log = Log::new(NATIVE, 1).commits(3).bytes;
    for length in 0..log.len() {
        assert_eq!(found(&log[..length], None), None, "cut off after {length} bytes");
    }
    for missing in 0..8 {
        let mut torn = log.clone();
        for frame in (0..3).filter(|n| missing & (1 << n) != 0) {
            torn[at(6 + frame)..at(7 + frame)].fill(0);
        }
        assert_eq!(found(&torn, None), None, "without frames {missing:03b}");
    }
}

#[test]
fn frames_of_an_earlier_log_behind_this_one_say_nothing() {
    let earlier = Log::new(NATIVE, 1).commits(5).bytes;
    let later = Log::new(NATIVE, 2).commits(2).bytes;
    let both = [&later[..], &earlier[later.len()..]].concat();
    assert_eq!(found(&both, None), None);
    assert_eq!(found(&spoilt(&both, at(4)..at(5)), None), None, "the last commit of this log");
    assert_eq!(found(&spoilt(&both, at(1)..at(2)), None), damage(1, 1));
}

#[test]
fn frames_that_a_torn_commit_left_behind_a_later_one_say_nothing() {
    // One life commits twice and dies at a long third commit, of which all but the first frame reach the disk.
    let mut first = Log::new(NATIVE, 1).commits(2);
    for page in 1..=6 {
        first.frame(page, page == 6);
    }
    // The next one writes over it, and dies likewise.
    let mut next = Log::new(NATIVE, 1).commits(2);
    next.frame(7, false).frame(8, true);
    let torn = [&next.bytes[..], &first.bytes[next.bytes.len()..]].concat();
    assert_eq!(found(&torn, None), None);
    assert_eq!(found(&spoilt(&torn, at(6)..at(7)), None), None);
    assert_eq!(found(&spoilt(&torn, at(3)..at(4)), None), damage(3, 1));
}

#[test]
fn a_commit_that_repeats_its_last_frame_is_one_commit() {
    let mut log = Log::new(NATIVE, 1).commits(1);
    log.frame(1, false).frame(2, true).frame(2, true).frame(2, true);
    assert_eq!(found(&spoilt(&log.bytes, at(3)..at(4)), None), None);
    log.frame(1, false);
    assert_eq!(found(&spoilt(&log.bytes, at(3)..at(4)), None), damage(3, 1));
}

#[test]
fn a_beginning_that_cannot_be_read_is_told_if_anything_follows() {
    // Where it cannot be read, pages are as large as the store's own.
    let log = Log::new(NATIVE, 1).commits(60).bytes;
    for byte in 0..HEADER_BYTES {
        let spoilt = spoilt(&log, byte..byte + 1);
        assert!(Header::read(spoilt[..HEADER_BYTES].try_into().unwrap()).is_none(), "byte {byte}");
    }
    assert_eq!(found(&[0; 20], None), None);
    assert_eq!(found(&spoilt(&log[..HEADER_BYTES], 3..9), None), None);
    assert_eq!(found(&[0; 100_000], None), None);
    assert_eq!(found(&[], None), None);
}

mod real {
    use super::*;
    use rusqlite::Connection;

    /// A store's file with some commits in its log, and the folder that it is in.
    fn written(commits: u32) -> (tempfile::TempDir, Connection) {
        let folder = tempfile::tempdir().unwrap();
        let db = file::connect(&folder.path().join(file::NAME)).unwrap();
        db.execute_batch("CREATE TABLE line (id INTEGER PRIMARY KEY, words TEXT)").unwrap();
        for n in 0..commits {
            let words = format!("{n}").repeat(20_000);
            db.execute("INSERT INTO line (words) VALUES (?1)", [words]).unwrap();
        }
        (folder, db)
    }

    /// A copy of the folder as a process leaves it that is killed.
    fn killed(folder: &Path) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        for path in [folder.join(file::NAME), of(folder), index_of(folder)] {
            fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
        }
        copy
    }

    fn spoil(path: &Path, range: std::ops::Range<usize>) {
        fs::write(path, spoilt(&fs::read(path).unwrap(), range)).unwrap();
    }

    #[test]
    fn of_a_log_that_sqlite_wrote_every_byte_counts_while_its_index_is_there() {
        let (folder, _db) = written(6);
        let length = fs::metadata(of(folder.path())).unwrap().len() as usize;
        let frames = (length - HEADER_BYTES) / (FRAME_HEADER_BYTES + PAGE_BYTES[0]);
        let index = Index::read(&fs::read(index_of(folder.path())).unwrap()).unwrap();
        assert_eq!(index.frames as usize, frames);
        keep(killed(folder.path()).path()).unwrap();
        for frame in 0..frames {
            let copy = killed(folder.path());
            let begins = HEADER_BYTES + frame * (FRAME_HEADER_BYTES + PAGE_BYTES[0]);
            spoil(&of(copy.path()), begins + 30..begins + 31);
            let found = look(copy.path()).unwrap().unwrap();
            assert_eq!(found.at as usize, begins);
            assert!(matches!(keep(copy.path()), Err(StoreError::Damaged { .. })));
        }
        let copy = killed(folder.path());
        OpenOptions::new().write(true).open(of(copy.path())).unwrap().set_len(length as u64 - 1).unwrap();
        assert!(look(copy.path()).unwrap().is_some(), "an end that is missing");
    }

    #[test]
    fn a_log_that_was_filled_beforehand_does_not_grow_and_ends_where_the_last_commit_does() {
        let (folder, db) = written(2);
        fill(folder.path(), 200, 4_096).unwrap();
        let length = fs::metadata(of(folder.path())).unwrap().len();
        assert_eq!(length, 32 + 200 * (24 + 4_096));
        for n in 2..6 {
            db.execute("INSERT INTO line (words) VALUES (?1)", [format!("{n}").repeat(20_000)]).unwrap();
            let copy = killed(folder.path());
            fs::remove_file(index_of(copy.path())).unwrap();
            keep(copy.path()).unwrap();
            let again = file::connect(&copy.path().join(file::NAME)).unwrap();
            let found: u32 = again.query_row("SELECT count(*) FROM line", (), |row| row.get(0)).unwrap();
            assert_eq!(found, n + 1);
        }
        assert_eq!(fs::metadata(of(folder.path())).unwrap().len(), length);
        let copy = killed(folder.path());
        spoil(&of(copy.path()), 9_000..9_001);
        assert!(look(copy.path()).unwrap().is_some(), "damage before the zeros");

        fill(folder.path(), 100, 4_096).unwrap();
        assert_eq!(fs::metadata(of(folder.path())).unwrap().len(), length, "it was long enough");
    }

    #[test]
    fn without_its_index_a_log_still_speaks_for_all_but_its_last_commit() {
        let (folder, _db) = written(6);
        let copy = killed(folder.path());
        fs::remove_file(index_of(copy.path())).unwrap();
        keep(copy.path()).unwrap();
        spoil(&of(copy.path()), 9_000..9_001);
        assert!(matches!(keep_beside(copy.path()), Err(StoreError::Damaged { .. })));

        let copy = killed(folder.path());
        fs::remove_file(index_of(copy.path())).unwrap();
        spoil(&of(copy.path()), 0..HEADER_BYTES);
        assert_eq!(look(copy.path()).unwrap().map(|damage| damage.at), Some(0));
    }

    #[test]
    fn a_store_with_the_larger_pages_of_earlier_times_is_looked_at_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let db = Connection::open(folder.path().join(file::NAME)).unwrap();
        db.execute_batch("PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
            .unwrap();
        db.execute_batch("CREATE TABLE line (words TEXT)").unwrap();
        for n in 0..6 {
            db.execute("INSERT INTO line VALUES (?1)", [format!("{n}").repeat(20_000)]).unwrap();
        }
        let copy = killed(folder.path());
        fs::remove_file(index_of(copy.path())).unwrap();
        keep(copy.path()).unwrap();
        spoil(&of(copy.path()), 0..HEADER_BYTES);
        assert_eq!(look(copy.path()).unwrap().map(|damage| damage.at), Some(0));
    }

    #[test]
    fn an_index_that_was_spoilt_or_speaks_of_another_log_says_nothing() {
        let (folder, db) = written(3);
        let bytes = fs::read(index_of(folder.path())).unwrap();
        for byte in 0..2 * INDEX_HEADER_BYTES {
            assert_eq!(Index::read(&spoilt(&bytes, byte..byte + 1)), None, "byte {byte}");
        }
        assert_eq!(Index::read(&[]), None);
        // The log begins anew, and the index is as it was before.
        db.query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |_| Ok(())).unwrap();
        db.execute("INSERT INTO line (words) VALUES ('short')", ()).unwrap();
        let copy = killed(folder.path());
        fs::write(index_of(copy.path()), bytes).unwrap();
        keep(copy.path()).unwrap();
    }

    #[test]
    fn transactions_that_spill_roll_back_and_begin_again_are_no_damage() {
        let (folder, db) = written(2);
        db.execute_batch("PRAGMA cache_size = 5; PRAGMA cache_spill = 5").unwrap();
        for round in 0..12 {
            db.execute_batch("BEGIN IMMEDIATE").unwrap();
            for n in 0..(40 - 3 * round) {
                db.execute("INSERT INTO line (words) VALUES (?1)", [format!("{round} {n}").repeat(3_000)])
                    .unwrap();
                if n == 9 {
                    db.execute_batch("SAVEPOINT here").unwrap();
                }
                if n == 19 {
                    db.execute_batch("ROLLBACK TO here").unwrap();
                }
                if n % 5 == 0 {
                    keep(killed(folder.path()).path()).unwrap();
                }
            }
            db.execute_batch(if round % 3 == 0 { "COMMIT" } else { "ROLLBACK" }).unwrap();
            keep(killed(folder.path()).path()).unwrap();
        }
    }

    #[test]
    fn a_log_is_cut_where_it_is_damaged_and_kept_as_it_was() {
        let (folder, _db) = written(6);
        let copy = killed(folder.path());
        assert_eq!(cut(copy.path()), Ok(None));
        let begins = HEADER_BYTES + 9 * (FRAME_HEADER_BYTES + PAGE_BYTES[0]);
        spoil(&of(copy.path()), begins + 3_000..begins + 3_100);
        let damaged = fs::read(of(copy.path())).unwrap();
        let Salvaged { at, commits, copy: kept } = cut(copy.path()).unwrap().unwrap();
        assert_eq!(at as usize, begins);
        assert!(commits >= 1);
        assert!(fs::read(kept).unwrap() == damaged);
        keep(copy.path()).unwrap();
        let db = file::connect(&copy.path().join(file::NAME)).unwrap();
        let left: u32 = db.query_row("SELECT count(*) FROM line", (), |row| row.get(0)).unwrap();
        assert!((1..6).contains(&left), "{left}");
    }
}
