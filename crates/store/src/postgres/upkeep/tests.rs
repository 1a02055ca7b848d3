//! Against a real PostgreSQL.

use pombo_kernel::dice::Dice;
use pombo_kernel::id::MessageKey;
use pombo_kernel::time::Time;
use pombo_testbed::{Cluster, Database};

use super::super::link::Row;
use super::super::migrate;
use super::super::month::Month;
use super::super::news::News;
use super::chores::{self, Chores};
use super::*;
use crate::audit::{self, Block, Event, Record, Tip};

/// A new database with our schema, and the driver of all connections to it.
struct World {
    database: Database,
    url: String,
    driver: Driver,
}

impl World {
    fn new() -> World {
        World::on(Cluster::shared())
    }

    fn on(cluster: &Cluster) -> World {
        let database = cluster.database();
        let url = database.url().to_owned();
        let world = World { database, url, driver: Driver::start().unwrap() };
        migrate::migrate(&world.link(Kind::Owner), &[1; 32]).unwrap();
        world
    }

    fn target(&self) -> Target {
        Target::parse(&self.url).unwrap()
    }

    fn link(&self, kind: Kind) -> Link {
        Link::open(&self.driver, &self.target(), kind).unwrap()
    }
}

fn one<T: for<'a> tokio_postgres::types::FromSql<'a>>(rows: &[Row]) -> T {
    rows[0].get(0)
}

fn record(n: i64) -> Record {
    Record {
        event: Event::Accepted,
        at: Time::from_millis(n),
        message: None,
        from: None,
        to: None,
        tenant: "default".into(),
        channel: "crm".into(),
        actor: "pombo".into(),
        detail: format!("{{\"n\":{n}}}"),
    }
}

/// Leaves a commit's records beside the chain, as a writer does, and then waits for `then` before it commits.
fn leave(link: &Link, n: i64, then: impl FnOnce()) {
    let entries = audit::encoded(&[record(n), record(n + 1)], &[7; 32]);
    let mut steps = link.begin();
    steps.push((sql!("audit_next"), Vec::new()));
    steps.push((sql!("audit_insert"), vec![n.into(), 2i32.into(), entries.into()]));
    link.pipeline(steps).unwrap();
    then();
    link.query("COMMIT", Vec::new()).unwrap();
}

/// Follows the whole chain; what its records say, in order.
fn followed(link: &Link) -> Vec<String> {
    let rows = link
        .query(
            "SELECT sequence, position, at, count, hash, entries FROM audit WHERE sequence IS NOT NULL ORDER BY sequence",
            Vec::new(),
        )
        .unwrap();
    let mut tip = Tip::default();
    let mut said = Vec::new();
    for row in &rows {
        let block = Block {
            sequence: seal::unsigned(row, 0).unwrap(),
            position: seal::unsigned(row, 1).unwrap(),
            at: Time::from_millis(row.get(2)),
            count: u32::try_from(row.get::<_, i32>(3)).unwrap(),
            hash: row.get::<_, Vec<u8>>(4).try_into().unwrap(),
            entries: row.get(5),
        };
        tip = tip.follow(&block).unwrap();
        said.extend(audit::records(block.position, &block.entries).map(|(_, record)| record.detail));
    }
    said
}

#[test] // REQ AU-1
fn sealing_makes_one_chain_of_what_commits_left_whoever_seals() {
    let world = World::new();
    let [one, two, three] = [(); 3].map(|()| world.link(Kind::Upkeep));
    assert_eq!(seal(&one).unwrap(), 0);
    (0..100).for_each(|n| leave(&one, 10 * n, || {}));
    // A commit that began before the others and is not done yet comes later.
    leave(&two, 5_000, || {
        thread::scope(|scope| {
            let sealers = [&one, &three].map(|link| scope.spawn(|| seal(link).unwrap()));
            assert_eq!(sealers.map(|sealer| sealer.join().unwrap()), [200, 200]);
        });
    });
    assert_eq!((seal(&one).unwrap(), seal(&two).unwrap()), (202, 202));
    let said = followed(&one);
    assert_eq!((said.len(), said[0].as_str(), said[201].as_str()), (202, "{\"n\":0}", "{\"n\":5001}"));
}

#[test]
fn a_commit_that_seals_for_itself_is_a_part_of_the_chain() {
    let world = World::new();
    let link = world.link(Kind::Upkeep);
    leave(&link, 0, || assert_eq!(seal_within(&link).unwrap(), 2));
    assert_eq!((followed(&link).len(), seal(&link).unwrap()), (2, 2));
}

#[test] // REQ AU-1
fn commits_are_sealed_without_being_asked_for_and_by_another_node_when_one_is_gone() {
    let world = World::new();
    let (tell, told) = mpsc::channel();
    let start = |holder: i64| {
        let tell = tell.clone();
        Upkeep::start(&world.driver, &world.target(), holder, None, move |position| {
            let _ = tell.send((holder, position));
        })
        .unwrap()
    };
    let heard = |expected: (i64, u64)| {
        let patience = Duration::from_secs(30);
        while told.recv_timeout(patience).unwrap() != expected {}
    };
    let link = world.link(Kind::Upkeep);
    let first = start(1);
    leave(&link, 0, || {});
    first.wake();
    heard((1, 2));
    let second = start(2);
    heard((2, 2));
    drop(first);
    leave(&link, 10, || {});
    second.wake();
    heard((2, 4));
    assert_eq!(followed(&link).len(), 4);
}

#[test]
fn an_office_is_its_holders_until_the_lease_ends_or_it_is_left() {
    let world = World::new();
    let link = world.link(Kind::Chores);
    let take = |holder: i64, for_ms: i64| {
        !link
            .query(sql!("office_take"), vec!["upkeep".into(), holder.into(), for_ms.into()])
            .unwrap()
            .is_empty()
    };
    assert!(take(1, 60_000) && !take(2, 60_000) && take(1, 60_000));
    link.query(sql!("office_leave"), vec!["upkeep".into(), 1i64.into()]).unwrap();
    assert!(take(2, -1), "a lease that has ended already");
    assert!(take(1, 60_000));
}

#[test]
fn a_node_that_has_ended_has_left_its_offices() {
    let world = World::new();
    let (tell, told) = mpsc::channel();
    let upkeep = Upkeep::start(&world.driver, &world.target(), 1, None, move |position| {
        let _ = tell.send(position);
    });
    let upkeep = upkeep.unwrap();
    let link = world.link(Kind::Upkeep);
    leave(&link, 0, || {});
    upkeep.wake();
    while told.recv_timeout(Duration::from_secs(30)).unwrap() != 2 {}
    leave(&link, 10, || {});
    upkeep.end_within(Duration::from_secs(60));
    assert_eq!(one::<i64>(&link.query("SELECT count(*) FROM office", Vec::new()).unwrap()), 0);
    assert_eq!(followed(&link).len(), 4, "what was committed before the end is sealed");
}

/// Bytes of a table and its indexes.
fn size(link: &Link) -> i64 {
    one(&link.query("SELECT pg_total_relation_size('ready')", Vec::new()).unwrap())
}

fn fill(link: &Link, from: i64, count: i64) {
    link.query(
        "INSERT INTO ready SELECT n % 7, n, n, 0, 5 FROM generate_series($1, $1 + $2 - 1) AS n",
        vec![from.into(), count.into()],
    )
    .unwrap();
}

#[test]
fn a_burst_leaves_the_live_table_small_without_autovacuum() {
    // Its own, since what is read in other databases delays when pages can be used again.
    let cluster = Cluster::in_memory();
    let world = World::on(&cluster);
    let (link, chores_link) = (world.link(Kind::Owner), world.link(Kind::Chores));
    let mut chores = Chores::new(None).patient();
    let backlog = 50_000;
    fill(&link, 0, backlog);
    let fresh = size(&link);
    for n in 0..5 {
        // Everything that waits is sent, and as much comes in.
        let at = n * backlog;
        for part in 0..10 {
            let from = at + part * backlog / 10;
            fill(&link, from + backlog, backlog / 10);
            link.query(
                "DELETE FROM ready WHERE key >= $1 AND key < $1 + $2",
                vec![from.into(), (backlog / 10).into()],
            )
            .unwrap();
            link.query("SELECT pg_stat_force_next_flush()", Vec::new()).unwrap();
            chores.vacuum(&chores_link, Time::from_millis(n * 1_000)).unwrap();
        }
    }
    assert_eq!(one::<i64>(&link.query("SELECT count(*) FROM ready", Vec::new()).unwrap()), backlog);
    let after = size(&link);
    assert!(after <= 2 * fresh, "{fresh} bytes became {after}");
}

#[test]
fn what_a_large_backlog_leaves_is_given_back_wherever_the_rows_are_that_stay() {
    for stays in ["key < 1000", "key >= 199000", "key % 200 = 0"] {
        let world = World::new();
        let (link, chores_link) = (world.link(Kind::Owner), world.link(Kind::Chores));
        fill(&link, 0, 1_000);
        let fresh = size(&link);
        fill(&link, 1_000, 199_000);
        let large = size(&link);
        link.script(&format!("DELETE FROM ready WHERE NOT ({stays})")).unwrap();
        link.query("SELECT pg_stat_force_next_flush()", Vec::new()).unwrap();
        let mut chores = Chores::new(None).patient();
        (0..2).for_each(|second| chores.vacuum(&chores_link, Time::from_millis(second * 1_000)).unwrap());
        assert_eq!(one::<i64>(&link.query("SELECT count(*) FROM ready", Vec::new()).unwrap()), 1_000);
        let after = size(&link);
        assert!(large > 20_000_000 && after <= 2 * fresh, "{stays}: {fresh}, {large}, {after}");
    }
}

#[test]
fn what_a_backlog_leaves_is_given_back_within_seconds_of_its_end() {
    let world = World::new();
    let (link, chores_link) = (world.link(Kind::Owner), world.link(Kind::Chores));
    let mut chores = Chores::new(None).patient();
    let mut clean_at = |second: i64| {
        link.query("SELECT pg_stat_force_next_flush()", Vec::new()).unwrap();
        chores.vacuum(&chores_link, Time::from_millis(second * 1_000)).unwrap();
    };
    fill(&link, 0, 100);
    let fresh = size(&link);
    for (start, backlog) in [(0, 200_000), (10, 100_000)] {
        fill(&link, 100, backlog - 100);
        let large = size(&link);
        // Seen while it is large already for its rows, but still has too many.
        link.script("DELETE FROM ready WHERE key >= 60000").unwrap();
        clean_at(start);
        link.script("DELETE FROM ready WHERE key >= 100").unwrap();
        (1..=6).for_each(|second| clean_at(start + second));
        let after = size(&link);
        assert!(large > 10_000_000 && after <= 2 * fresh, "{fresh}, {large}, {after}");
    }
}

#[test]
fn nobody_waits_for_a_table_that_cannot_be_written_anew_because_it_is_read() {
    let world = World::new();
    let (link, reader) = (world.link(Kind::Owner), world.link(Kind::Owner));
    fill(&link, 0, 100_000);
    link.script("DELETE FROM ready WHERE key >= 100").unwrap();
    link.script("SELECT pg_stat_force_next_flush(); SET lock_timeout = '20ms'").unwrap();
    let large = size(&link);
    let mut chores = Chores::new(None).patient();
    let mut clean_at =
        |second: i64| chores.vacuum(&world.link(Kind::Chores), Time::from_millis(second * 1_000)).unwrap();
    // A report that takes long, on what was there after the deletion.
    reader.script("BEGIN; SELECT count(*) FROM ready").unwrap();
    thread::scope(|scope| {
        let cleaning = scope.spawn(|| [0, 10].into_iter().for_each(&mut clean_at));
        while !cleaning.is_finished() {
            link.query("DELETE FROM ready WHERE key = 0", Vec::new()).unwrap();
            fill(&link, 0, 1);
        }
        cleaning.join().unwrap();
    });
    assert!(size(&link) >= large, "{large}, {}", size(&link));
    reader.script("COMMIT").unwrap();
    clean_at(20);
    assert!(size(&link) < 100_000, "{}", size(&link));
}

#[test]
fn a_table_whose_rows_are_many_is_not_written_anew_even_when_the_server_forgot_how_many() {
    let world = World::new();
    let (link, chores_link) = (world.link(Kind::Owner), world.link(Kind::Chores));
    fill(&link, 0, 100_000);
    let file = || -> u32 { one(&link.query("SELECT pg_relation_filenode('ready')", Vec::new()).unwrap()) };
    let before = file();
    // As after a crash.
    link.query("SELECT pg_stat_reset()", Vec::new()).unwrap();
    Chores::new(None).vacuum(&chores_link, Time::from_millis(0)).unwrap();
    assert_eq!(file(), before);
}

#[test]
fn rows_that_somebody_may_still_see_are_not_vacuumed_over_and_over() {
    let world = World::new();
    let (link, chores_link, old) =
        (world.link(Kind::Owner), world.link(Kind::Chores), world.link(Kind::Owner));
    old.script("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").unwrap();
    fill(&link, 0, 20_000);
    link.query("DELETE FROM ready", Vec::new()).unwrap();
    link.query("SELECT pg_stat_force_next_flush()", Vec::new()).unwrap();
    let mut chores = Chores::new(None);
    let vacuums = || -> i64 {
        one(&link
            .query("SELECT vacuum_count FROM pg_stat_user_tables WHERE relname = 'ready'", Vec::new())
            .unwrap())
    };
    (0..20).for_each(|second| chores.vacuum(&chores_link, Time::from_millis(second * 1_000)).unwrap());
    assert!((1..=5).contains(&vacuums()), "{} in 20 seconds", vacuums());
    old.script("COMMIT").unwrap();
    chores.vacuum(&chores_link, Time::from_millis(100_000)).unwrap();
    let heap: i64 = one(&link.query("SELECT pg_relation_size('ready')", Vec::new()).unwrap());
    assert!(heap < 100_000, "{heap}");
}

#[test] // fault 45
fn who_is_in_the_way_of_cleaning_is_named() {
    let cluster = Cluster::in_memory();
    let world = World::on(&cluster);
    let link = world.link(Kind::Chores);
    assert_eq!(chores::oldest_holder(&link).unwrap(), None);
    // Nobody waits for a minute here: the same question with less patience.
    let old = world.link(Kind::Owner);
    old.script("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").unwrap();
    let pid: i32 = one(&old.query("SELECT pg_backend_pid()", Vec::new()).unwrap());
    let soon = sql!("upkeep_holders").replace("seconds > 60", "seconds >= 0");
    let found: Vec<Row> = link.query(String::leak(soon), Vec::new()).unwrap();
    assert_eq!((found[0].get(0), found[0].get(1)), ("session", pid.to_string()));
}

#[test]
fn what_was_added_to_counters_is_added_up_once_however_many_do_it() {
    let world = World::new();
    let links = [(); 2].map(|()| world.link(Kind::Chores));
    let link = &links[0];
    let add = |what: i16, causes: i64| {
        let tally = "INSERT INTO tally_added (hour, count, what, tenant, channel)
            SELECT 500000 + n % 2, n, $1, 'default', 'crm' FROM generate_series(1, 10) n";
        link.query(tally, vec![what.into()]).unwrap();
        let causes = vec![causes.into()];
        let letters = "INSERT INTO cause_added (cause, count, tenant)
            SELECT n, 3 - n, 'default' FROM generate_series(1, $1) n, generate_series(1, 2)";
        link.query(letters, causes).unwrap();
    };
    let fold = || {
        thread::scope(|scope| {
            for link in &links {
                scope.spawn(|| chores::fold(link).unwrap());
            }
        });
    };
    add(1, 2);
    fold();
    add(1, 4);
    add(2, 0);
    // What has a detail is kept by the hour alone, and what waits for all time alone.
    let detailed = "INSERT INTO tally_added (hour, count, sum, what, detail, tenant, channel)
        VALUES (500000, 1, 30, 32, '1', 'default', 'crm'), (500000, 2, 40, 32, '1', 'default', 'crm'),
               (0, 5, 0, 38, 'bulk', 'default', 'crm'), (0, -3, 0, 38, 'bulk', 'default', 'crm')";
    link.query(detailed, Vec::new()).unwrap();
    fold();
    fold();
    let rows =
        link.query("SELECT hour, what, count, sum FROM tally WHERE detail <> '' ORDER BY hour", Vec::new());
    let rows: Vec<(i32, i16, i64, i64)> =
        rows.unwrap().iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect();
    assert_eq!(rows, [(0, 38, 2, 0), (500_000, 32, 3, 70)]);
    let plain = "SELECT hour, what, count FROM tally WHERE detail = '' ORDER BY hour, what";
    let rows = link.query(plain, Vec::new()).unwrap();
    let rows: Vec<(i32, i16, i64)> = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    let sums =
        [(0, 1, 110), (0, 2, 55), (500_000, 1, 60), (500_000, 2, 30), (500_001, 1, 50), (500_001, 2, 25)];
    assert_eq!(rows, sums);
    let rows = link.query("SELECT cause, count FROM cause_count ORDER BY cause", Vec::new()).unwrap();
    let rows: Vec<(i64, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(rows, [(1, 8), (2, 4), (3, 0), (4, -2)]);
    let left = "SELECT (SELECT count(*) FROM tally_added) + (SELECT count(*) FROM cause_added)";
    assert_eq!(one::<i64>(&link.query(left, Vec::new()).unwrap()), 0);
}

/// A message of that time, with the outcome of its last step, if there was any.
fn message(link: &Link, at: Time, outcome: Option<i16>) -> MessageKey {
    let key = MessageKey::at(at);
    let insert = "INSERT INTO message (key, nonce, queue, priority, due, recipient, batch, tenant, body)
        VALUES ($1, 0, 1, 5, 0, 0, 0, 'default', '')";
    link.query(insert, vec![key.0.into()]).unwrap();
    if let Some(outcome) = outcome {
        let insert =
            "INSERT INTO history (key, started_at, finished_at, batch, seq, outcome, round, number, attempts,
            crashes, doubtful, tenant, reason) SELECT $1, 0, 0, 0, 0, $2, 0, 1, 1, 0, false, 'default',
            CASE WHEN $2 = 3 THEN 1 END";
        link.query(insert, vec![key.0.into(), outcome.into()]).unwrap();
        let insert = "INSERT INTO dead_letter (key, cause, tenant) SELECT $1, 1, 'default' WHERE $2 = 3";
        link.query(insert, vec![key.0.into(), outcome.into()]).unwrap();
    }
    key
}

#[test]
fn old_months_are_dropped_when_everything_in_them_is_finished() {
    let world = World::new();
    let link = world.link(Kind::Chores);
    let now: Time = "2026-11-16T00:00:00Z".parse().unwrap();
    let month = |nth: i64| Month::of(now).plus(nth);
    (-8..=-5).for_each(|nth| migrate::make_months(&link, month(nth).start()).unwrap());
    let months = || -> Vec<String> {
        let rows = link.query(sql!("month_all"), Vec::new()).unwrap();
        let names = rows.iter().filter_map(|row| Month::named(row.get(0)));
        names.filter(|name| *name < month(0)).map(Month::name).collect()
    };
    let all = ["2026_03", "2026_04", "2026_05", "2026_06", "2026_07", "2026_08"];
    assert_eq!(months(), all);
    let sent = message(&link, month(-8).start(), Some(1));
    let waiting = message(&link, month(-7).start(), None);
    let dead = message(&link, month(-6).start(), Some(3));
    let in_flight = message(&link, month(-5).start(), None);
    for key in [sent, waiting] {
        link.query(
            "INSERT INTO delivery (key, at, state, tenant) VALUES ($1, 0, 1, 'default')",
            vec![key.0.into()],
        )
        .unwrap();
        link.query("INSERT INTO revision VALUES ($1, 1, 1, 0, 'default', 'x', NULL, '')", vec![key.0.into()])
            .unwrap();
    }
    let blobs = || one::<i64>(&link.query("SELECT count(*) FROM blob", Vec::new()).unwrap());
    link.query("INSERT INTO blob SELECT n::text::bytea, 'x' FROM generate_series(0, 250) n", Vec::new())
        .unwrap();
    let uses = "INSERT INTO blob_use SELECT n::text::bytea, CASE WHEN n = 7 THEN $1 ELSE $2 END
        FROM generate_series(0, 250) n";
    link.query(uses, vec![waiting.0.into(), sent.0.into()]).unwrap();
    link.query("INSERT INTO ready VALUES (1, 0, $1, 0, 5)", vec![waiting.0.into()]).unwrap();
    let keyed = "INSERT INTO idempotency (digest, key, nonce, tenant, idempotency_key, fingerprint)
        VALUES ('a', $1, 0, 'default', 'a', ''), ('b', $2, 0, 'default', 'b', '')";
    link.query(keyed, vec![sent.0.into(), waiting.0.into()]).unwrap();
    let listed = "INSERT INTO recipient (roster, number, line, message, nonce, standing, tenant, address)
        VALUES (1, 1, 1, $1, 0, 3, 'default', 'x')";
    link.query(listed, vec![sent.0.into()]).unwrap();
    let members = [in_flight.0.to_le_bytes().as_slice(), &[0; 12]].concat();
    link.query("INSERT INTO claim VALUES (1, 1, 0, $1)", vec![members.into()]).unwrap();

    let days = |days: u64| Span::from_hours(24 * days);
    chores::drop_months(&link, days(300), now).unwrap();
    assert_eq!(months(), all);
    chores::drop_months(&link, days(90), now).unwrap();
    assert_eq!(months(), ["2026_04", "2026_05", "2026_06", "2026_08"]);
    for traces in ["SELECT key FROM delivery", "SELECT key FROM revision"] {
        let left: Vec<i64> = link.query(traces, Vec::new()).unwrap().iter().map(|row| row.get(0)).collect();
        assert_eq!(left, [waiting.0], "{traces}");
    }
    assert_eq!(blobs(), 1, "the one that a waiting message has");
    let until = link.query("SELECT until FROM idempotency ORDER BY digest", Vec::new()).unwrap();
    let until: Vec<Option<i64>> = until.iter().map(|row| row.get(0)).collect();
    assert_eq!(until, [Some((now + days(3)).millis()), None], "a key outlasts its message");
    let linked = "SELECT count(*) FROM recipient WHERE message IS NOT NULL";
    assert_eq!(one::<i64>(&link.query(linked, Vec::new()).unwrap()), 0);
    // Then they are finished one after another.
    link.query("DELETE FROM ready", Vec::new()).unwrap();
    link.query("DELETE FROM claim", Vec::new()).unwrap();
    link.query("DELETE FROM dead_letter WHERE key = $1", vec![dead.0.into()]).unwrap();
    chores::drop_months(&link, days(90), now).unwrap();
    assert_eq!(months(), ["2026_08"]);
    assert_eq!(one::<i64>(&link.query("SELECT count(*) FROM message", Vec::new()).unwrap()), 0);
    assert_eq!(blobs(), 0);
}

#[test]
fn word_comes_to_others_and_not_back_and_survives_a_lost_connection() {
    let world = World::new();
    let (target, patience) = (world.target(), Duration::from_secs(30));
    let listen = |seed: u64| {
        let (tell, told) = mpsc::channel();
        let nudge = Arc::new(move || tell.send(()).unwrap_or_default());
        let news = News::start(&world.driver, &target, Dice::seeded(seed), nudge);
        // The first nudge says that it listens.
        told.recv_timeout(patience).unwrap();
        (news, told)
    };
    let (one, one_hears) = listen(1);
    let (two, two_hears) = listen(2);
    (0..100).for_each(|_| one.tell());
    two_hears.recv_timeout(patience).unwrap();
    two.tell();
    one_hears.recv_timeout(patience).unwrap();
    assert!(two_hears.try_iter().count() <= 2, "told a hundred times at once, heard about once");
    let admin = world.link(Kind::Owner);
    admin
        .query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND query NOT LIKE '%pg_terminate%' AND pid <> pg_backend_pid()",
            Vec::new(),
        )
        .unwrap();
    // Each comes back, and looks at what it may have missed.
    one_hears.recv_timeout(patience).unwrap();
    two_hears.recv_timeout(patience).unwrap();
    one.tell();
    two_hears.recv_timeout(patience).unwrap();
}

#[test]
fn an_idle_node_asks_little_of_the_database() {
    let world = World::new();
    // Whoever leaves is counted as it does so.
    world.database.left_alone();
    let bell = Arc::new(Bell::default());
    // Nobody waits here, so that each round follows the one before at once.
    bell.ring(Ring::Stop);
    let office = |kind| Office {
        driver: world.driver.clone(),
        target: world.target(),
        kind,
        holder: 1,
        bell: bell.clone(),
    };
    let asked_by = |kind, round: &mut dyn FnMut(&Office, &Link)| {
        let (office, link) = (office(kind), world.link(kind));
        let committed = || -> i64 {
            link.query("SELECT pg_stat_force_next_flush()", Vec::new()).unwrap();
            let counted = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
            one(&link.query(counted, Vec::new()).unwrap())
        };
        // Statements are prepared once, and some things done at the start.
        (0..2).for_each(|_| round(&office, &link));
        committed();
        let before = committed();
        (0..10).for_each(|_| round(&office, &link));
        committed() - before - 2
    };
    let sealing = asked_by(Kind::Upkeep, &mut |office, link| office.seal(link, &mut drop).unwrap());
    let mut chores = Chores::new(None);
    let cleaning = asked_by(Kind::Chores, &mut |office, link| office.clean(link, &mut chores).unwrap());
    assert!(sealing >= 10 && cleaning >= 10, "{sealing} and {cleaning} in ten rounds each");
    let a_second = |asked: i64, idle: Duration| asked * 1_000 / 10 / i64::try_from(idle.as_millis()).unwrap();
    let renewals = 2 * 1_000 / (LEASE_MS - ENOUGH_MS) + 1;
    assert!(a_second(sealing, IDLE) + a_second(cleaning, CHORES_IDLE) + renewals < 3);
}

#[test]
fn all_of_it_can_be_done_by_a_login_role_that_is_no_superuser() {
    let cluster = Cluster::in_memory();
    let database = cluster.database();
    database.ask(
        "CREATE ROLE keeper LOGIN CREATEROLE; GRANT CREATE ON DATABASE current TO keeper"
            .replace("current", database.url().rsplit('/').next().unwrap())
            .as_str(),
    );
    let url = database.url().replace("postgres@", "keeper@");
    let world = World { database, url, driver: Driver::start().unwrap() };
    migrate::migrate(&world.link(Kind::Owner), &[1; 32]).unwrap();
    let (chores_link, writer) = (world.link(Kind::Chores), world.link(Kind::Writer));
    let now = migrate::now(&chores_link).unwrap();

    leave(&writer, 0, || {});
    assert_eq!(seal(&world.link(Kind::Upkeep)).unwrap(), 2);

    // A message that came before its month.
    let later = Month::of(now).plus(20);
    let count = |sql: &'static str| one::<i64>(&writer.query(sql, Vec::new()).unwrap());
    writer.pipeline(writer.begin()).unwrap();
    message(&writer, later.start(), Some(1));
    writer.query("COMMIT", Vec::new()).unwrap();
    migrate::make_months(&chores_link, later.start()).unwrap();
    assert_eq!(world.database.ask("SELECT count(*) FROM pombo.message_rest").trim(), "0");
    assert_eq!(count("SELECT count(*) FROM message"), 1);
    assert_eq!(count("SELECT count(*) FROM history"), 1);
    let bare =
        "SELECT count(*) FROM pg_class WHERE relispartition AND NOT (relrowsecurity AND relforcerowsecurity)
        AND relkind = 'r' AND relnamespace = 'pombo'::regnamespace";
    assert_eq!(count(bare), 0, "row level security is forced on every partition");

    let mut chores = Chores::new(Some(Span::from_hours(24)));
    chores.round(&chores_link, now).unwrap();
    chores.round(&chores_link, later.plus(2).start()).unwrap();
    assert_eq!(count("SELECT count(*) FROM message"), 0);
    assert!(!migrate::has_table(&chores_link, &format!("message_{}", later.name())).unwrap());
}
