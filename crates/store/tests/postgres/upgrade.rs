//! Databases of earlier versions open and mean what they meant, also if an upgrade died on the way.

use std::process::Command;
use std::sync::Arc;
use std::thread;

use pombo_kernel::message::Actor;
use pombo_kernel::name::{LaneName, Tenant};
use pombo_kernel::time::{Span, Time};
use pombo_store::core::{Core, Reading};
use pombo_store::home::Home;
use pombo_store::postgres::{ANOTHER_VERSION, EARLIER_STORE};
use pombo_store::shelf::{Pick, Shelf, Wanted};
use pombo_store::{Ask, By, Counted, Filter, NodeId, StatsWanted, StoreError};
use pombo_testbed::{Cluster, psql};
use tokio_postgres::{Client, NoTls};

use crate::golden::{Golden, POSTGRES, goes_on};
use crate::node::Node;
use crate::tenants::Plain;
use crate::world::{START, draft, migrated};

/// The first schema, with its tables under row level security as its surface left them.
pub(crate) const SCHEMA_1: &str = concat!(
    "CREATE SCHEMA pombo; SET search_path = pombo;",
    include_str!("../../sql/postgres/migrations/0001.sql"),
    "INSERT INTO meta VALUES ('schema', '1'), ('secret', decode(repeat('07', 32), 'hex'));
     ALTER TABLE api_key ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;"
);

/// A connection, and what drives it.
fn connected(url: &str) -> (tokio::runtime::Runtime, Client) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (client, wire) = runtime.block_on(tokio_postgres::connect(url, NoTls)).unwrap();
    runtime.spawn(wire);
    (runtime, client)
}

/// A database that was restored from a dump without owners. Its owner is nobody special.
fn restored(dump: &str) -> Plain {
    // The roles of a server are in no dump: it has them once it has a store.
    drop(migrated());
    let plain = Plain::on(Cluster::shared(), "CREATEROLE");
    let (runtime, client) = connected(&plain.url());
    runtime.block_on(client.batch_execute(dump)).unwrap();
    plain
}

fn schema(plain: &Plain) -> String {
    plain.database.ask("SELECT convert_from(value, 'UTF8') FROM pombo.meta WHERE name = 'schema'")
}

/// Everything in the schema, as text.
fn dumped(url: &str) -> String {
    let dump =
        Command::new("pg_dump").args(["--inserts", "--no-owner", "--schema=pombo", url]).output().unwrap();
    assert!(dump.status.success(), "{dump:?}");
    let text = String::from_utf8(dump.stdout).unwrap();
    // What is random in it is for psql.
    text.lines().filter(|line| !line.starts_with('\\')).collect::<Vec<_>>().join("\n")
}

/// Opened, it means what it meant, waits for a person since it came out of a dump, and then goes on.
fn is_upgraded(golden: &Golden, plain: &Plain) {
    let mut store = plain.open().unwrap();
    golden.is_told_by(&mut store);
    assert!(store.reader().unwrap().paused().unwrap().is_some());
    drop(store);
    let home: Home = plain.url().parse().unwrap();
    assert_eq!(home.check(&mut |_| ()).unwrap().faults, []);
    assert_eq!(plain.database.ask("SELECT request ->> 'to' FROM pombo.inbox"), "by SQL");
    let mut store = plain.open().unwrap();
    assert!(store.resume(&Actor("ana".into()), START).unwrap());
    goes_on(&mut store);
    drop(store);
    assert_eq!(home.check(&mut |_| ()).unwrap().faults, []);
}

#[test] // RELIABILITY 57
fn every_earlier_schema_has_a_golden_database() {
    let database = migrated();
    let home: Home = database.url().parse().unwrap();
    let earlier: Vec<u32> = (1..home.schema().unwrap().unwrap()).collect();
    assert_eq!(POSTGRES.map(|golden| golden.schema)[..], earlier);
}

#[test] // RELIABILITY 57
fn a_database_of_every_earlier_schema_means_what_it_meant_and_goes_on() {
    for golden in POSTGRES {
        is_upgraded(&golden, &restored(golden.dump));
    }
}

/// Opens it while somebody has that table, and ends its connection there.
fn dies_at(table: &str, plain: &Plain) {
    const MEETS: &str = "DO $$ DECLARE found int; BEGIN
        LOOP
          SELECT pid INTO found FROM pg_locks WHERE NOT granted
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
          EXIT WHEN found IS NOT NULL;
          PERFORM pg_sleep(0.01);
        END LOOP;
        PERFORM pg_terminate_backend(found, 60000);
        END $$";
    let (runtime, client) = connected(plain.database.url());
    let taken = format!("BEGIN; LOCK TABLE pombo.{table} IN ACCESS EXCLUSIVE MODE");
    runtime.block_on(client.batch_execute(&taken)).unwrap();
    thread::scope(|scope| {
        let opening = scope.spawn(|| plain.open().map(drop));
        runtime.block_on(client.batch_execute(MEETS)).unwrap();
        let refused = opening.join().unwrap();
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    });
    runtime.block_on(client.batch_execute("COMMIT")).unwrap();
}

#[test] // RELIABILITY 57
fn an_upgrade_that_died_midway_has_changed_nothing_and_the_next_completes_it() {
    // By the schema that they make: what is changed by the middle of the step, or towards its end.
    for (golden, table) in POSTGRES.iter().zip(["history", "cause_count", "history", "idempotency"]) {
        let plain = restored(golden.dump);
        let before = dumped(plain.database.url());
        dies_at(table, &plain);
        assert_eq!(schema(&plain), golden.schema.to_string());
        assert!(dumped(plain.database.url()) == before, "schema {} is not what it was", golden.schema);
        is_upgraded(golden, &plain);
    }
}

#[test] // RELIABILITY 57
fn an_upgrade_that_died_in_its_last_step_goes_on_from_there() {
    for golden in POSTGRES {
        let plain = restored(golden.dump);
        dies_at("idempotency", &plain);
        assert_eq!(schema(&plain), "4");
        is_upgraded(&golden, &plain);
    }
}

#[test] // fault 13
fn views_are_the_engines_and_show_what_they_did_also_after_a_dump_without_owners() {
    let database = migrated();
    database.ask(
        "INSERT INTO pombo.channel VALUES ('mail', 'smtp', 'default', 6, true, true);
         INSERT INTO pombo.inbox (request) VALUES ('{\"channel\": \"mail\", \"to\": \"ana@example.com\"}')",
    );
    let plain = restored(&dumped(database.url()));
    let seen = || {
        plain.database.ask(
            "SELECT DISTINCT relowner = 'pombo_engine'::regrole FROM pg_class
             WHERE relnamespace = 'pombo'::regnamespace AND relkind = 'v';
             SET ROLE pombo_app; SELECT recipient_email FROM pombo.email_queue",
        )
    };
    assert_eq!(seen(), "f");
    drop(plain.open().unwrap());
    assert_eq!(seen(), "t\nana@example.com");
}

#[test] // fault 57, REQ SE-1
fn keys_of_schema_1_open_the_same_doors_as_documents() {
    // Its owner is nobody special: it is bound by row level security, like anybody.
    let plain = Plain::on(Cluster::shared(), "CREATEROLE");
    psql(&plain.url(), SCHEMA_1).unwrap();
    plain.database.ask(
        "INSERT INTO pombo.api_key VALUES
         ('key_1', 'default', 'admin', 'the ''first'' \"one\"', decode(repeat('0a', 32), 'hex'), 1800000011007),
         ('key_2', 'acme', 'viewer', '', decode(repeat('ff', 32), 'hex'), 1700000000999)",
    );
    let store = plain.open().unwrap();
    let mut reader = store.reader().unwrap();
    let all = Wanted { shelf: Shelf::Key, tenant: None, pick: Pick::All { after: None }, limit: 10 };
    let docs = reader.docs(&all).unwrap();
    let acme: Tenant = "acme".parse().unwrap();
    let places: Vec<_> = docs.iter().map(|doc| (doc.id.as_str(), &doc.tenant, doc.version)).collect();
    assert_eq!(
        places,
        [("0a".repeat(32).as_str(), &Tenant::default(), 1), ("ff".repeat(32).as_str(), &acme, 1)]
    );
    assert_eq!((docs[0].leaf.order, docs[0].leaf.topic.as_deref()), (1_800_000_011_007, Some("key_1")));
    assert_eq!(docs[0].updated_at, Time::from_millis(1_800_000_011_007));
    let bodies: Vec<serde_json::Value> =
        docs.iter().map(|doc| serde_json::from_str(&doc.leaf.body).unwrap()).collect();
    assert_eq!(
        bodies,
        [
            serde_json::json!({
                "id": "key_1", "role": "admin", "label": "the 'first' \"one\"", "created_by": "pombo",
                "created_at": "2027-01-15T08:00:11.007Z",
            }),
            serde_json::json!({
                "id": "key_2", "role": "viewer", "label": "", "created_by": "pombo",
                "created_at": "2023-11-14T22:13:20.999Z",
            }),
        ]
    );
    assert_eq!(plain.database.ask("SELECT to_regclass('pombo.api_key') IS NULL"), "t");
}

#[test] // fault 57
fn counters_of_every_process_of_schema_2_are_one_counter_with_their_sum() {
    let plain = Plain::on(Cluster::shared(), "CREATEROLE");
    psql(&plain.url(), SCHEMA_1).unwrap();
    psql(
        &plain.url(),
        concat!("SET search_path = pombo;", include_str!("../../sql/postgres/migrations/0002.sql")),
    )
    .unwrap();
    plain.database.ask(
        "SET search_path = pombo;
         UPDATE meta SET value = '2' WHERE name = 'schema';
         INSERT INTO tally (hour, slot, count, what, tenant, channel)
         SELECT hour, slot, 10 * slot, 1, 'default', 'crm' FROM unnest('{0, 500000}'::int[]) hour, generate_series(1, 3) slot;
         INSERT INTO cause VALUES (7, 'default', 'crm', 'expired', '');
         INSERT INTO cause_count (tenant, cause, slot, count) VALUES ('default', 7, -1, 5), ('default', 7, 2, -3);
         ALTER TABLE tally ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
         ALTER TABLE cause_count ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;",
    );
    let store = plain.open().unwrap();
    let tallies = store.reader().unwrap().tallies().unwrap();
    let counts: Vec<_> =
        tallies.iter().map(|tally| (tally.channel.as_str(), tally.what, tally.count)).collect();
    assert_eq!(counts, [("crm", Counted::Accepted, 60)]);
    assert_eq!(plain.database.ask("SELECT hour, count FROM pombo.tally ORDER BY hour"), "0|60\n500000|60");
    assert_eq!(plain.database.ask("SELECT cause, count FROM pombo.cause_count"), "7|2");
}

#[test] // REQ DL-1, fault 57
fn what_was_dead_in_schema_1_is_a_dead_letter_with_its_cause() {
    let plain = Plain::on(Cluster::shared(), "CREATEROLE");
    psql(&plain.url(), SCHEMA_1).unwrap();
    // 5,000 that failed for two reasons, one that expired, one that was sent, one that failed and was given up.
    plain.database.ask(
        "SET search_path = pombo;
         INSERT INTO queue (digest, tenant, lane, channel, destination, campaign) OVERRIDING SYSTEM VALUE
         VALUES ('1', 'default', 'default', 'crm', 'a', ''), ('2', 'acme', 'default', 'crm', 'a', '');
         INSERT INTO message (key, nonce, queue, priority, due, recipient, batch, tenant, body)
         SELECT (470000::bigint << 40) + n, n, 1 + n / 5002, 5, 0, 0, 0, CASE n / 5002 WHEN 0 THEN 'default' ELSE 'acme' END,
                '{\"to\":\"ana\"}' FROM generate_series(1, 5003) n;
         INSERT INTO history (key, started_at, finished_at, batch, seq, outcome, round, number, attempts, crashes, doubtful,
                              tenant, reason, failure)
         SELECT key, 0, nonce, 0, 0, CASE nonce WHEN 5001 THEN 11 WHEN 5002 THEN 1 ELSE 3 END, 0, 1, 1, 0, false, tenant,
                CASE nonce WHEN 5001 THEN 3 WHEN 5002 THEN NULL ELSE 1 END,
                CASE WHEN nonce <> 5002 THEN json_build_object('verdict', 'permanent', 'category', 'not_found', 'text',
                  CASE nonce % 5 WHEN 0 THEN 'no such thing' ELSE 'no such user as ' || 10000 + nonce END) END
         FROM message;
         INSERT INTO history (key, started_at, finished_at, batch, seq, outcome, round, number, attempts, crashes, doubtful,
                              tenant, actor)
         SELECT key, 0, 0, 0, 1, 12, 0, 0, 1, 0, false, tenant, 'ana' FROM message WHERE nonce = 5003;
         ALTER TABLE queue ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
         ALTER TABLE message ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
         ALTER TABLE history ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;",
    );
    let store = plain.open().unwrap();
    let mut reader = store.reader().unwrap();
    let groups = reader.groups(&Tenant::default(), 10).unwrap();
    let seen: Vec<_> =
        groups.iter().map(|group| (group.category.as_str(), group.text.as_str(), group.count)).collect();
    let expected = [
        ("not_found", "no such user as #", 4_000),
        ("not_found", "no such thing", 1_000),
        ("expired", "", 1),
    ];
    assert_eq!(seen, expected);
    assert_eq!(groups[0].newest.nonce(), 4_999);
    for group in &groups {
        let of_cause = Filter { cause: Some(group.id), ..Filter::default() };
        let found = reader.page(&of_cause, None, 3).unwrap().lines.len() as u64;
        assert_eq!(found, group.count.min(3), "the table and the message agree on the cause");
    }
    assert_eq!(reader.groups(&"acme".parse().unwrap(), 10).unwrap(), []);
    let bound = "SELECT bool_and(relforcerowsecurity) FROM pg_class
        WHERE relnamespace = 'pombo'::regnamespace AND relname IN ('queue', 'message', 'history', 'dead_letter')";
    assert_eq!(plain.database.ask(bound), "t");
}

#[test] // fault 57, REQ OB-1
fn what_waited_in_schema_3_is_counted_when_it_is_opened() {
    let plain = Plain::on(Cluster::shared(), "CREATEROLE");
    psql(&plain.url(), SCHEMA_1).unwrap();
    for migration in [
        include_str!("../../sql/postgres/migrations/0002.sql"),
        include_str!("../../sql/postgres/migrations/0003.sql"),
    ] {
        psql(&plain.url(), &format!("SET search_path = pombo;{migration}")).unwrap();
    }
    // In two lanes: two in their queues, one behind another of its order, and of a claim of three messages one that was
    // settled, one that is being sent for the first time, and one for the second.
    let key = |n: i64| (470_000_i64 << 40) + n;
    let member = |n: i64, steps: u32| {
        let parts = [&key(n).to_le_bytes()[..], &5_i64.to_le_bytes()[..], &steps.to_le_bytes()[..]].concat();
        parts.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let members = [member(4, 0), member(5, 0), member(6, 1)].concat();
    plain.database.ask(&format!(
        "SET search_path = pombo;
         UPDATE meta SET value = '3' WHERE name = 'schema';
         INSERT INTO queue (digest, tenant, lane, channel, destination, campaign) OVERRIDING SYSTEM VALUE
         VALUES ('1', 'default', 'default', 'crm', 'a', ''), ('2', 'acme', 'bulk', 'crm', 'a', '');
         INSERT INTO message (key, nonce, queue, priority, due, recipient, batch, tenant, body)
         SELECT {base} + n, n, CASE WHEN n = 2 THEN 2 ELSE 1 END, 5, 5, 0, 0, CASE WHEN n = 2 THEN 'acme' ELSE 'default' END,
                '{{\"to\":\"ana\"}}' FROM generate_series(1, 6) n;
         INSERT INTO ready (queue, rank, due, key, steps) VALUES (1, 4, 5, {base} + 1, 0), (2, 4, 5, {base} + 2, 0);
         INSERT INTO ordered (digest, key, active) VALUES ('o', {base} + 1, true), ('o', {base} + 3, false);
         INSERT INTO claim (id, node, at, members) VALUES (9, 1, 5, decode('{members}', 'hex'));
         INSERT INTO history (key, started_at, finished_at, batch, seq, outcome, round, number, attempts, crashes, doubtful, tenant, next_due)
         VALUES ({base} + 4, 0, 0, 0, 0, 1, 0, 1, 1, 0, false, 'default', NULL),
                ({base} + 6, 0, 0, 0, 0, 2, 0, 1, 1, 0, false, 'default', 5);
         INSERT INTO tally (hour, tenant, channel, what, count) VALUES (0, 'default', 'crm', 1, 5), (500000, 'default', 'crm', 1, 5);
         INSERT INTO tally_added (hour, tenant, channel, what, count) VALUES (500000, 'acme', 'crm', 1, 1);
         ALTER TABLE queue ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
         ALTER TABLE message ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
         ALTER TABLE history ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
         ALTER TABLE tally ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;",
        base = key(0)
    ));
    let store = plain.open().unwrap();
    let mut reader = store.reader().unwrap();
    let waiting: Vec<_> = reader
        .backlog(Time::from_millis(6))
        .unwrap()
        .into_iter()
        .map(|it| (it.tenant.to_string(), it.lane.to_string(), it.waiting, it.past_due, it.oldest_due))
        .collect();
    let due = Some(Time::from_millis(5));
    assert_eq!(
        waiting,
        [("acme".into(), "bulk".into(), 1, 1, due), ("default".into(), "default".into(), 4, 1, due)]
    );
    let every = StatsWanted { tenant: None, since: Time::default(), until: Time::MAX, by: By::Hour };
    let counted: Vec<_> = reader
        .stats(&every)
        .unwrap()
        .into_iter()
        .map(|it| (it.hour.hour(), it.tenant.to_string(), it.what, it.detail, it.count, it.sum))
        .collect();
    let one = |tenant: &str, count| (500_000, tenant.to_owned(), Counted::Accepted, String::new(), count, 0);
    assert_eq!(counted, [one("acme", 1), one("default", 5)]);
    let forced = "SELECT count(*) FROM pg_class WHERE relforcerowsecurity
                  AND relname IN ('queue', 'message', 'history', 'tally')
                  AND relnamespace = 'pombo'::regnamespace";
    assert_eq!(plain.database.ask(forced), "4");
}

/// What the first step of another version leaves, or an earlier store in the place of this one.
fn of_schema(schema: &str) -> String {
    format!(
        "UPDATE pombo.meta SET value = '{schema}' WHERE name = 'schema'; \
         UPDATE pombo.board SET version = version + 1"
    )
}

fn broken<T>(done: Result<T, StoreError>) -> String {
    match done {
        Err(StoreError::Broken(why)) => why,
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("it went on"),
    }
}

#[test] // RELIABILITY 58
fn nodes_at_work_do_nothing_more_once_another_version_has_changed_the_schema() {
    let database = migrated();
    let (mut idle, mut busy) = (Node::on(&database, 1), Node::on(&database, 2));
    busy.accept(&[draft()]);
    idle.look();
    database.ask(&of_schema("99"));

    // Whoever claims sees it in that very group, whoever does nothing with the next look.
    let ask = Ask { node: NodeId(2), lane: LaneName::default(), max: 1, rates: Arc::default() };
    let claimed = broken(busy.core.claim(&ask, busy.now));
    let looked = broken(idle.core.look(idle.now + Span::from_secs(2)));
    for why in [claimed, looked] {
        assert!(why.starts_with(ANOTHER_VERSION) && why.contains("schema 99"), "{why}");
    }
    assert_eq!(database.ask("SELECT count(*) FROM pombo.claim"), "0");
}

#[test] // RELIABILITY 58
fn a_node_whose_tables_are_gone_or_of_an_earlier_schema_sees_why_before_it_asks_for_anything_else() {
    let cases = [("99", ANOTHER_VERSION), ("4", EARLIER_STORE), ("none", EARLIER_STORE)];
    for (schema, who) in cases {
        let database = migrated();
        let mut node = Node::on(&database, 1);
        node.look();
        let without: String = ["ready", "slot", "flow"]
            .map(|table| format!("; ALTER TABLE pombo.{table} RENAME TO {table}_of_another"))
            .concat();
        database.ask(&(of_schema(schema) + &without));

        let looked = node.core.look(node.now + Span::from_secs(2));
        assert!(matches!(looked, Err(StoreError::Unavailable(_))), "{looked:?}");
        // With its session, and with a new one once that did not help.
        for _ in 0..2 {
            let why = broken(node.core.reopen());
            assert!(why.starts_with(who), "{why}");
        }
    }
}
