//! How statements find their rows: by an index, however many there are.

use std::path::Path;

use pombo_kernel::dice::Dice;
use pombo_store::core::Core as _;
use pombo_store::sqlite::Sqlite;
use rusqlite::{Connection, StatementStatus};

use crate::world::{folder, migrated};

/// Every statement of a dialect by its name; not those that look over or move a whole store.
fn statements(dialect: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql").join(dialect);
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.is_file()).collect();
    files.sort();
    let named = |path: &std::path::PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    files.iter().map(|path| (named(path), std::fs::read_to_string(path).unwrap())).collect()
}

/// A file with the schema and nothing in it.
fn schema(home: &Path) -> Connection {
    let store = Sqlite::open(home, Dice::seeded(1), &[7; 32]).unwrap();
    drop(store.reader().unwrap());
    drop(store);
    Connection::open(home.join("pombo.db")).unwrap()
}

// RELIABILITY 36, 38
#[test]
fn no_statement_of_the_embedded_store_reads_a_large_table_from_end_to_end() {
    const READ_WHOLE: [(&str, &str); 22] = [
        // In the order of the key, and no further than the first row.
        ("audit_tip", "SCAN audit"),
        ("expiry_next", "SCAN expiry"),
        // Small: what is blocked, what is being sent, the queues.
        ("block_all", "SCAN block"),
        ("claim_all", "SCAN claim"),
        ("queue_all", "SCAN queue"),
        // Pieces that a limit bounds within.
        ("idempotency_old", "SCAN i"),
        ("prune_look", "SCAN m"),
        ("ready_late", "SCAN (subquery-1)"),
        // Bounds that are halved until they meet.
        ("audit_from", "SCAN half"),
        ("audit_from", "SCAN half"),
        ("audit_seek", "SCAN half"),
        ("audit_seek", "SCAN half"),
        // A few names.
        ("seek_aside", "SCAN meta"),
        ("directory_state", "SCAN newest"),
        // One row, and as many messages as are not entered yet.
        ("directory_add", "SCAN directory_end"),
        ("directory_enter", "SCAN directory_end"),
        ("directory_move", "SCAN directory_end"),
        ("directory_state", "SCAN directory_end"),
        ("directory_state", "SCAN directory_end"),
        ("directory_state", "SCAN unlisted"),
        ("directory_state", "SCAN unlisted"),
        ("page_unlisted", "SCAN directory_end"),
    ];
    /// Once, when an old store is brought up to date.
    const ONCE: &str = "waiting_all";
    let home = folder();
    let db = schema(home.path());
    let mut found = Vec::new();
    for (name, sql) in statements("sqlite").iter().filter(|(name, _)| name != ONCE) {
        let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let mut rows = plan.raw_query();
        while let Some(row) = rows.next().unwrap() {
            let step: String = row.get(3).unwrap();
            if step.starts_with("SCAN ") && step != "SCAN CONSTANT ROW" {
                found.push((name.clone(), step));
            }
        }
    }
    let new: Vec<_> =
        found.iter().filter(|(name, step)| !READ_WHOLE.contains(&(name.as_str(), step.as_str()))).collect();
    assert!(new.is_empty(), "{new:?}: give it an index, or say why it need not have one");
    assert_eq!(found.len(), READ_WHOLE.len(), "one is no longer needed: {found:?}");
}

/// The steps that a statement takes to its last row.
fn steps(db: &Connection, name: &str, params: &[&dyn rusqlite::ToSql]) -> (usize, i32) {
    let all = statements("sqlite");
    let sql = &all.iter().find(|(other, _)| other == name).unwrap().1;
    let mut statement = db.prepare(sql).unwrap();
    let rows = statement.query_map(params, |_| Ok(())).unwrap().count();
    (rows, statement.get_status(StatementStatus::VmStep))
}

// RELIABILITY 36
#[test]
fn a_page_and_the_groups_take_as_many_steps_with_half_a_million_dead_letters_as_with_a_thousand() {
    const CAUSES: i64 = 50;
    let home = folder();
    let db = schema(home.path());
    db.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -65536").unwrap();
    let fill = |from: i64, to: i64| {
        db.execute_batch(&format!(
            "BEGIN;
             WITH RECURSIVE n (key) AS (VALUES ({from}) UNION ALL SELECT key + 1 FROM n WHERE key + 1 < {to})
             INSERT INTO dead_letter (key, cause) SELECT key, 1 + key % {CAUSES} FROM n;
             DELETE FROM cause;
             INSERT INTO cause (id, tenant, channel, category, text, count)
             SELECT cause, 'default', 'crm', 'other', 'it broke', count(*) FROM dead_letter GROUP BY cause;
             COMMIT"
        ))
        .unwrap();
    };
    let seen = |from: i64| {
        let (most, fifty) = (i64::MAX, 50_i64);
        [
            steps(&db, "page_dead", &[&most, &0_i64, &fifty]),
            steps(&db, "page_dead", &[&(from + 500), &0_i64, &fifty]),
            steps(&db, "page_by_cause", &[&most, &0_i64, &10_i64, &7_i64]),
            steps(&db, "cause_groups", &[&"default", &fifty]),
        ]
    };
    fill(1, 1_001);
    let with_few = seen(1);
    assert_eq!(with_few.map(|(rows, _)| rows), [50, 50, 10, 0], "no messages are there to show of a group");
    fill(1_001, 500_001);
    assert_eq!(seen(250_000), with_few);
}

// RELIABILITY 36, 38, 45
#[test]
fn no_statement_of_the_shared_store_has_to_read_a_large_table_from_end_to_end() {
    const LARGE: [&str; 11] = [
        "message",
        "history",
        "audit",
        "dead_letter",
        "recipient",
        "receipt",
        "delivery",
        "idempotency",
        "revision",
        "blob_use",
        "ready",
    ];
    const SETTINGS: &str =
        "SET search_path = pombo; SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;";
    /// Nobody says here of which types their values are, as the store does.
    const UNTYPED: [&str; 5] = ["blob_use", "delivery_put", "doc_delete", "doc_due", "idempotency_part"];
    let database = migrated();
    let mut scripts = Vec::new();
    for (name, sql) in statements("postgres").iter().filter(|(name, _)| !UNTYPED.contains(&name.as_str())) {
        let lines = sql.lines().filter(|line| !line.trim_start().starts_with("--"));
        let mut body = lines.collect::<Vec<_>>().join("\n");
        for n in 1..9 {
            body = body.replace(&format!("unnest(${n})"), &format!("unnest(${n}::bigint[])"));
        }
        let first = body.split_whitespace().next().unwrap_or_default();
        // Scripts of several statements make the schema; nobody waits for them.
        if body.contains(';') || !["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"].contains(&first) {
            continue;
        }
        let count = (1..40).take_while(|n| sql.contains(&format!("${n}"))).count();
        let arguments =
            if count == 0 { String::new() } else { format!("({})", vec!["NULL"; count].join(", ")) };
        scripts.push(format!(
            "SELECT '== {name}'; PREPARE it AS {body}; EXPLAIN (COSTS OFF) EXECUTE it{arguments}; DEALLOCATE it;"
        ));
    }
    assert!(scripts.len() > 150, "{}", scripts.len());
    let plans = scripts.chunks(40).map(|part| database.ask(&format!("{SETTINGS}{}", part.concat())));
    let explained = plans.collect::<Vec<_>>().join("\n");
    assert_eq!(explained.matches("== ").count(), scripts.len());
    let mut found = Vec::new();
    let mut at = "";
    for line in explained.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            at = name;
        } else if let Some((_, table)) = line.split_once("Seq Scan on ") {
            // By month: `message_2026_11`, `history_rest`.
            let table = table.split(' ').next().unwrap_or(table);
            let of = |large: &&&str| {
                let part = table.strip_prefix(**large).map(|rest| rest.strip_prefix('_').unwrap_or(rest));
                part.is_some_and(|part| ["", "rest"].contains(&part) || part.starts_with(char::is_numeric))
            };
            found.extend(LARGE.iter().find(of).map(|table| format!("{at}: {table}")));
        }
    }
    assert!(found.is_empty(), "{found:?}: give it an index");
}
