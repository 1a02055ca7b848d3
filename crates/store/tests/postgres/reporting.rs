//! What somebody's long report costs the engine beside it.

use std::collections::BTreeMap;
use std::thread;

use pombo_kernel::dice::Dice;
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{Draft, FailureReason};
use pombo_kernel::reply::Receipt;
use pombo_kernel::time::{Span, Time};
use pombo_store::core::Core as _;
use pombo_store::postgres::{Postgres, Sealing, Target};
use pombo_testbed::{Database, psql};

use crate::node::Node;
use crate::world::*;

/// Lets somebody read who sees the database as it is now for as long as it is there.
fn report(database: &Database) {
    let url = format!("{}?application_name=report", database.url());
    thread::spawn(move || psql(&url, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_sleep(3600)"));
    let reads = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND application_name = 'report' AND wait_event = 'PgSleep' AND backend_xmin IS NOT NULL";
    while database.ask(reads) != "1" {
        thread::yield_now();
    }
}

/// How many blocks of each table were asked for so far. What a session asked for is known when it has ended.
fn blocks(database: &Database) -> BTreeMap<String, i64> {
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND backend_type = 'client backend' AND application_name NOT IN ('report', 'psql')";
    while database.ask(sessions) != "0" {
        thread::yield_now();
    }
    let said = database.ask(
        "SELECT relname, coalesce(heap_blks_hit + heap_blks_read, 0) + coalesce(idx_blks_hit + idx_blks_read, 0)
         FROM pg_statio_user_tables WHERE schemaname = 'pombo'",
    );
    let lines = said.lines().filter_map(|line| line.split_once('|'));
    lines.map(|(table, blocks)| (table.to_owned(), blocks.parse().unwrap())).collect()
}

/// Lets a node send messages and fail to, and says how many blocks of each table that took.
fn work(database: &Database, rounds: usize, now: &mut Time) -> BTreeMap<String, i64> {
    let before = blocks(database);
    let target = Target::parse(database.url()).unwrap();
    let core = Postgres::open(&target, Dice::seeded(11), &[1; 32], Sealing::ByUpkeep).unwrap();
    let mut node = Node::with(core, 1);
    node.now = *now;
    for _ in 0..rounds {
        node.now = node.now + Span::from_millis(10);
        node.accept(&[draft(), draft()]);
        let claimed = node.claim_unaware(2);
        let mut sent = settlement(&claimed[0], End::Sent, node.now);
        let provider_id = claimed[0].message.id.to_string();
        sent.next = Next::Sent(Receipt { provider_id: Some(provider_id), ..Receipt::default() });
        let dead = settlement(&claimed[1], End::Failed(FailureReason::PermanentError), node.now);
        node.group(|core, now| core.settle_all(&[sent.clone(), dead.clone()], now));
    }
    *now = node.now;
    drop(node);
    let mut took = blocks(database);
    took.iter_mut().for_each(|(table, blocks)| *blocks -= before.get(table).copied().unwrap_or_default());
    took
}

#[test] // fault 45
fn a_group_costs_no_more_while_somebody_reads_for_long() {
    let database = migrated();
    let mut now = START;
    // So that no index becomes a level higher on the way: messages that are done with, and some that wait.
    work(&database, 700, &mut now);
    Node::on(&database, 1).accept(&vec![Draft { send_at: Some(START + mins(600)), ..draft() }; 2_000]);
    report(&database);
    work(&database, 10, &mut now);
    let soon = work(&database, 50, &mut now);
    work(&database, 650, &mut now);
    let later = work(&database, 50, &mut now);
    for (table, took) in later {
        let most = soon[&table] + soon[&table] / 10 + 10;
        assert!(took <= most, "{table}: {took} blocks for 150 groups, and {} before", soon[&table]);
    }
}
