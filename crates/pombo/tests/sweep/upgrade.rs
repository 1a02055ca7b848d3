//! Stores of earlier versions that are brought up to date.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::types::Value;

use crate::{FLUSHES, WRITES, copied, dies, left_by, nths, sound, store};

const SHORT: [(&str, &[u32]); 2] = [(WRITES, &[10, 60]), (FLUSHES, &[2, 3])];
const SCHEMAS: [(u32, &str); 8] = [
    (1, include_str!("../../../store/tests/golden/sqlite-1.sql")),
    // No code wrote it: it came with schema 3.
    (
        2,
        concat!(
            include_str!("../../../store/tests/golden/sqlite-1.sql"),
            include_str!("../../../store/sql/sqlite/migrations/0002.sql"),
            "PRAGMA user_version = 2;"
        ),
    ),
    (3, include_str!("../../../store/tests/golden/sqlite-3.sql")),
    (4, include_str!("../../../store/tests/golden/sqlite-4.sql")),
    (5, include_str!("../../../store/tests/golden/sqlite-5.sql")),
    (6, include_str!("../../../store/tests/golden/sqlite-6.sql")),
    (7, include_str!("../../../store/tests/golden/sqlite-7.sql")),
    (8, include_str!("../../../store/tests/golden/sqlite-8.sql")),
];

/// A folder as a process of that version left it which was killed: all of it is in the log.
fn made(dump: &str, data: &Path) {
    std::fs::create_dir(data).unwrap();
    let db = Connection::open(data.join("pombo.db")).unwrap();
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    let (page_size, rest) = dump.split_once('\n').unwrap();
    db.execute_batch(&format!("{page_size} PRAGMA journal_mode = WAL; {rest}")).unwrap();
}

type Rows = Vec<Vec<Value>>;

/// The schema of a folder; every message, and what became of each, in what all schemas have of it.
fn read(data: &Path) -> (u32, [Rows; 2]) {
    let db = Connection::open(left_by(data).join("pombo.db")).unwrap();
    let schema = db.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    let rows = [
        "SELECT * FROM message ORDER BY key",
        "SELECT key, seq, outcome, round, number, attempts, crashes, started_at, finished_at, reason, next_due, failure,
                receipt, explanation, actor, block FROM history ORDER BY key, seq",
    ];
    let rows = rows.map(|query| {
        let mut statement = db.prepare(query).unwrap();
        let width = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| (0..width).map(|column| row.get(column)).collect();
        statement.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap()
    });
    (schema, rows)
}

#[test] // RELIABILITY 57
fn an_upgrade_that_died_at_any_write_or_flush_left_the_old_store_or_the_new_and_the_next_completes_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let (mut kills, mut old, mut messages) = (0, 0, 0);
    let data = folder.join("life");
    let migrate = ["migrate", "--data", data.to_str().unwrap()];
    for (from, dump) in SCHEMAS {
        let before = folder.join(format!("schema-{from}"));
        made(dump, &before);
        let (_, rows) = read(&before);
        messages += rows[0].len();
        for (call, short) in SHORT {
            for nth in nths(short) {
                copied(&before, &data);
                let when = format!("schema {from}, killed at {call} {nth}");
                let died = dies(call, nth, &data, &migrate);
                if died {
                    kills += 1;
                    let (schema, left) = read(&data);
                    assert_eq!(left, rows, "{when}");
                    old += usize::from(schema == from);
                    let (done, said) = store(&migrate);
                    assert!(done, "{when}: {said}");
                }
                assert_eq!(read(&data).1, rows, "{when}");
                sound(&data, &when);
                // It has fewer such calls: all of them were tried.
                if !died {
                    break;
                }
            }
        }
    }
    assert!(old > 0 && old < kills, "of {kills} deaths {old} left the old store: too few or too many");
    println!("result sweep_migrate kills={kills} old={old} messages={messages} lost=0 repeated=0");
}
