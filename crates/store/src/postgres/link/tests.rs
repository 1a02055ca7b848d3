//! Against a real PostgreSQL.

use std::sync::Arc;

use pombo_testbed::{Cluster, Database};

use super::*;

fn driver() -> Driver {
    Driver::start().unwrap()
}

fn target(database: &Database, parameters: &str) -> Target {
    Target::parse(&format!("{}?{parameters}", database.url())).unwrap()
}

fn texts(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| row.get(0)).collect()
}

/// How many rows a statement has that others are sent behind.
fn count_ahead(link: &Link, sql: &'static str, ahead: Vec<Step>) -> Result<usize, StoreError> {
    let mut count = 0;
    link.query_ahead((sql, Vec::new()), ahead, |_| {
        count += 1;
        Ok(())
    })?;
    Ok(count)
}

#[test]
fn values_of_every_kind_come_back_as_they_went() {
    let database = Cluster::shared().database();
    for parameters in ["", "pooler=transaction"] {
        let link = Link::open(&driver(), &target(&database, parameters), Kind::Owner).unwrap();
        let rows = link
            .query(
                "SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11",
                vec![
                    i64::MIN.into(),
                    7i32.into(),
                    (-3i16).into(),
                    true.into(),
                    "ção".into(),
                    b"\0x".as_slice().into(),
                    None::<i64>.into(),
                    vec![1i64, 2].into(),
                    vec![Some("a"), None]
                        .into_iter()
                        .map(|text| text.map(str::to_owned))
                        .collect::<Vec<_>>()
                        .into(),
                    vec![b"\0".to_vec()].into(),
                    vec![true, false].into(),
                ],
            )
            .unwrap();
        let row = &rows[0];
        assert_eq!((row.get(0), row.get(1), row.get(2), row.get(3)), (i64::MIN, 7i32, -3i16, true));
        assert_eq!((row.get(4), row.get(5), row.get(6)), ("ção", b"\0x".as_slice(), None::<i64>));
        assert_eq!((row.get(7), row.get(8)), (vec![1i64, 2], vec![Some("a"), None]));
        assert_eq!((row.get(9), row.get(10)), (vec![b"\0".as_slice()], vec![true, false]));
    }
}

#[test]
fn a_pipeline_answers_in_order_and_the_first_error_undoes_its_transaction() {
    let database = Cluster::shared().database();
    for parameters in ["", "pooler=transaction"] {
        let link = Link::open(&driver(), &target(&database, parameters), Kind::Owner).unwrap();
        link.script("CREATE SCHEMA IF NOT EXISTS pombo; DROP TABLE IF EXISTS pombo.n; CREATE TABLE pombo.n (n int UNIQUE)")
            .unwrap();
        let group = |numbers: &[i32]| {
            let mut steps = link.begin();
            steps.extend(
                numbers.iter().map(|n| ("INSERT INTO n VALUES ($1) RETURNING n", vec![Value::from(*n)])),
            );
            steps.push(("COMMIT", Vec::new()));
            let done = link.pipeline(steps);
            if done.is_err() {
                link.query("ROLLBACK", Vec::new()).unwrap();
            }
            done
        };
        let rows = group(&[1, 2, 3]).unwrap();
        let numbers: Vec<i32> = rows.iter().flatten().filter_map(|row| row.try_get(0).ok()).collect();
        assert_eq!(numbers, [1, 2, 3]);
        let error = group(&[4, 2, 5]).unwrap_err();
        assert!(error.to_string().contains("(23505)"), "{error}");
        let left = link.query("SELECT n::text FROM n ORDER BY n", Vec::new()).unwrap();
        assert_eq!(texts(&left), ["1", "2", "3"]);
    }
}

#[test] // fault 43
fn an_error_of_what_was_sent_ahead_is_told_by_the_next_call_whatever_it_is() {
    const MEET: &str = "DO $$ BEGIN RAISE deadlock_detected; END $$";
    let database = Cluster::shared().database();
    let owner = Link::open(&driver(), &target(&database, ""), Kind::Owner).unwrap();
    owner.script("CREATE SCHEMA pombo; CREATE TABLE pombo.n (n int)").unwrap();
    for parameters in ["", "pooler=transaction"] {
        let link = Link::open(&driver(), &target(&database, parameters), Kind::Owner).unwrap();
        // The last has not been prepared on this connection when it is its turn.
        for next in ["COMMIT", "SELECT n FROM n", "SELECT n + 1 FROM n"] {
            link.pipeline(link.begin()).unwrap();
            link.query("SELECT n FROM n", Vec::new()).unwrap();
            let ahead = vec![("INSERT INTO n VALUES (1)", Vec::new()), (MEET, Vec::new())];
            count_ahead(&link, "SELECT n FROM n", ahead).unwrap();
            let told = link.query(next, Vec::new());
            assert!(matches!(told, Err(StoreError::Again(_))), "{parameters} {next}: {told:?}");
            link.query("ROLLBACK", Vec::new()).unwrap();
            assert!(link.query("SELECT n FROM n", Vec::new()).unwrap().is_empty());
        }
        // Nor does what cannot be prepared any more hide what went wrong before it.
        link.pipeline(link.begin()).unwrap();
        let told = count_ahead(&link, MEET, vec![("SELECT n + 2 FROM n", Vec::new())]);
        assert!(matches!(told, Err(StoreError::Again(_))), "{parameters}: {told:?}");
        link.query("ROLLBACK", Vec::new()).unwrap();
    }
}

#[test] // fault 43
fn what_is_sent_ahead_is_done_in_order_and_the_first_error_is_told_by_the_next_call_that_waits() {
    let database = Cluster::shared().database();
    let owner = Link::open(&driver(), &target(&database, ""), Kind::Owner).unwrap();
    owner.script("CREATE SCHEMA pombo; CREATE TABLE pombo.n (n int)").unwrap();
    let put = |n: i32| vec![("INSERT INTO n VALUES ($1)", vec![Value::from(n)])];
    for parameters in ["", "pooler=transaction"] {
        let link = Link::open(&driver(), &target(&database, parameters), Kind::Owner).unwrap();
        link.go_ahead(link.begin()).unwrap();
        (1..=5).for_each(|n| link.go_ahead(put(n)).unwrap());
        let all = "SELECT n::text FROM n ORDER BY ctid";
        assert_eq!(texts(&link.query(all, Vec::new()).unwrap()), ["1", "2", "3", "4", "5"], "{parameters}");
        link.go_ahead(put(6)).unwrap();
        assert_eq!(count_ahead(&link, all, put(7)), Ok(6), "{parameters}");
        link.query("COMMIT", Vec::new()).unwrap();
        assert_eq!(link.query(all, Vec::new()).unwrap().len(), 7);
        // What follows an error is not done, and what the next says is not that it was not.
        let again = ["DELETE FROM n", "SELECT n + 1 FROM n"];
        for (nth, next) in again.into_iter().enumerate() {
            link.go_ahead(link.begin()).unwrap();
            link.go_ahead(vec![("SELECT 1 / 0", Vec::new())]).unwrap();
            link.go_ahead(put(8)).unwrap();
            let told = if nth == 0 {
                link.query(next, Vec::new()).map(|rows| rows.len())
            } else {
                count_ahead(&link, next, put(9))
            };
            assert_eq!(
                told,
                Err(StoreError::Unavailable("wrong data (22012)".to_owned())),
                "{parameters} {next}"
            );
            link.query("ROLLBACK", Vec::new()).unwrap();
        }
        assert_eq!(link.query(all, Vec::new()).unwrap().len(), 7);
        link.query("DELETE FROM n", Vec::new()).unwrap();
    }
}

#[test] // fault 45
fn what_a_frozen_node_left_open_is_ended_before_whoever_waits_for_it_gives_up() {
    let writers = |name: &str| {
        let found = Kind::Writer.settings().iter().find(|setting| setting.0 == name);
        found.unwrap().1.parse::<u64>().unwrap()
    };
    assert!(writers("idle_in_transaction_session_timeout") < writers("lock_timeout"));
    assert!(writers("lock_timeout") < writers("statement_timeout"));
}

#[test]
fn answers_of_any_length_do_not_keep_what_follows_them_from_being_prepared() {
    const MANY: &str = "SELECT repeat('x', 100) FROM generate_series(1, 50000)";
    let database = Cluster::shared().database();
    for parameters in ["", "pooler=transaction"] {
        let mut link = Link::open(&driver(), &target(&database, parameters), Kind::Owner).unwrap();
        link.patience = Duration::from_secs(60);
        link.pipeline(link.begin()).unwrap();
        link.query(MANY, Vec::new()).unwrap();
        // New: what is sent ahead, then what comes after that, then both.
        for (now, ahead) in [
            (MANY, "SELECT 1"),
            (MANY, MANY),
            ("SELECT repeat('y', 100) FROM generate_series(1, 50000)", MANY),
            ("SELECT repeat('z', 100) FROM generate_series(1, 50000)", "SELECT 2"),
        ] {
            let rows = count_ahead(&link, now, vec![(ahead, Vec::new())]);
            assert_eq!(rows, Ok(50_000), "{parameters} {now} {ahead}");
        }
        link.query("COMMIT", Vec::new()).unwrap();
    }
}

#[test] // fault 43
fn what_a_transaction_that_failed_ahead_is_ended_with_reaches_the_server_even_if_it_is_new() {
    let database = Cluster::shared().database();
    let link = Link::open(&driver(), &target(&database, ""), Kind::Owner).unwrap();
    link.pipeline(link.begin()).unwrap();
    count_ahead(&link, "SELECT 1", vec![("SELECT 1 / 0", Vec::new())]).unwrap();
    let told = link.query("ROLLBACK", Vec::new()).unwrap_err();
    assert_eq!(told, StoreError::Unavailable("wrong data (22012)".to_owned()));
    assert_eq!(link.query("SELECT 1", Vec::new()).unwrap().len(), 1);
}

#[test]
fn settings_reach_every_session_also_behind_a_pooler() {
    let database = Cluster::shared().database();
    let settings = "SELECT current_setting(name) FROM unnest(ARRAY['search_path', 'statement_timeout',
        'idle_in_transaction_session_timeout', 'enable_seqscan', 'synchronous_commit', 'application_name'])
        WITH ORDINALITY AS setting (name, place) ORDER BY place";
    for parameters in ["", "pooler=transaction", "application_name=pombo&options=-c%20search_path%3Dpublic"] {
        let link = Link::open(&driver(), &target(&database, parameters), Kind::Writer).unwrap();
        let found = texts(&link.query(settings, Vec::new()).unwrap());
        assert_eq!(found, ["pombo", "15s", "10s", "off", "on", "pombo"], "{parameters}");
    }
}

#[test]
fn what_follows_a_begin_that_was_not_done_is_not_written() {
    let database = Cluster::shared().database();
    let owner = Link::open(&driver(), &target(&database, ""), Kind::Owner).unwrap();
    owner.script("CREATE SCHEMA pombo; CREATE TABLE pombo.n (n int)").unwrap();
    owner.script("GRANT ALL ON SCHEMA pombo TO PUBLIC; GRANT ALL ON TABLE pombo.n TO PUBLIC").unwrap();
    let writer = Link::open(&driver(), &target(&database, ""), Kind::Writer).unwrap();
    let error = writer.query("INSERT INTO n VALUES (1)", Vec::new()).unwrap_err();
    assert!(error.to_string().contains("(25006)"), "{error}");
    let mut steps = writer.begin();
    steps.extend([("INSERT INTO n VALUES (1)", Vec::new()), ("COMMIT", Vec::new())]);
    writer.pipeline(steps).unwrap();
    assert_eq!(texts(&owner.query("SELECT n::text FROM n", Vec::new()).unwrap()), ["1"]);
}

#[test] // fault 43
fn of_two_that_wait_for_each_other_one_is_told_to_try_again() {
    let database = Cluster::shared().database();
    let driver = driver();
    let target = target(&database, "");
    let one = Link::open(&driver, &target, Kind::Writer).unwrap();
    let two = Link::open(&driver, &target, Kind::Writer).unwrap();
    let lock = |link: &Link, n: i64, first: bool| {
        let mut steps = if first { link.begin() } else { Vec::new() };
        steps.push(("SELECT pg_advisory_xact_lock($1)", vec![n.into()]));
        link.pipeline(steps).map(drop)
    };
    lock(&one, 1, true).unwrap();
    lock(&two, 2, true).unwrap();
    let (first, second) = std::thread::scope(|scope| {
        let first =
            scope.spawn(|| lock(&one, 2, false).inspect_err(|_| drop(one.query("ROLLBACK", Vec::new()))));
        let second =
            scope.spawn(|| lock(&two, 1, false).inspect_err(|_| drop(two.query("ROLLBACK", Vec::new()))));
        (first.join().unwrap(), second.join().unwrap())
    });
    let failed: Vec<_> = [first, second].into_iter().filter_map(Result::err).collect();
    assert!(matches!(&failed[..], [StoreError::Again(_)]), "{failed:?}");
}

#[test]
fn a_connection_that_the_server_ends_is_closed_and_another_can_be_opened() {
    let database = Cluster::shared().database();
    let (driver, target) = (driver(), target(&database, ""));
    let link = Link::open(&driver, &target, Kind::Owner).unwrap();
    let error = link.query("SELECT pg_terminate_backend(pg_backend_pid())", Vec::new()).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    let error = link.query("SELECT 1", Vec::new()).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)) && link.is_closed(), "{error}");
    assert!(Link::open(&driver, &target, Kind::Owner).is_ok());
}

#[test]
fn errors_repeat_no_value() {
    let database = Cluster::shared().database();
    let link = Link::open(&driver(), &target(&database, ""), Kind::Owner).unwrap();
    let error = link.query("SELECT $1::bigint", vec!["canary".into()]).unwrap_err();
    assert_eq!(error, StoreError::Unavailable("wrong data (22P02)".to_owned()));
    let value = Value::from("canary");
    assert!(!format!("{value:?} {link:?}").contains("canary"));
}

#[test]
fn a_host_that_is_not_there_is_passed_over() {
    let database = Cluster::shared().database();
    let (start, rest) = database.url().split_once('@').unwrap();
    let target = Target::parse(&format!("{start}@127.0.0.1:1,{rest}")).unwrap();
    let link = Link::open(&driver(), &target, Kind::Owner).unwrap();
    assert_eq!(texts(&link.query("SHOW transaction_read_only", Vec::new()).unwrap()), ["off"]);
    let nowhere = Target::parse("postgres://a:canary@127.0.0.1:1,127.0.0.1:2/x").unwrap();
    let error = Link::open(&driver(), &nowhere, Kind::Owner).unwrap_err().to_string();
    assert!(
        error.contains("127.0.0.1:1") && error.contains("127.0.0.1:2") && !error.contains("canary"),
        "{error}"
    );
}

#[test] // fault 42
fn of_a_primary_and_its_standby_the_primary_is_found() {
    let primary = Cluster::own();
    let standby = primary.standby();
    let host = |cluster: &Cluster| cluster.url().split_once('@').unwrap().1.to_owned();
    let both = format!("postgres://postgres@{},{}/postgres", host(&standby), host(&primary));
    let driver = driver();
    let target = Target::parse(&both).unwrap();
    let in_recovery = |target: &Target| -> bool {
        let link = Link::open(&driver, target, Kind::Owner).unwrap();
        link.query("SELECT pg_is_in_recovery()", Vec::new()).unwrap()[0].get(0)
    };
    assert!(!in_recovery(&target));
    assert!(in_recovery(&Target::parse(&format!("{both}?target_session_attrs=read-only")).unwrap()));
    // The next connection begins with the host that answered.
    assert_eq!(target.hosts().next().unwrap().0, 1);
}

#[test] // fault 63
fn nobody_writes_or_reads_by_a_session_with_a_standby() {
    let primary = Cluster::own();
    let standby = primary.standby();
    let target = Target::parse(&format!("{}/postgres", standby.url())).unwrap();
    for kind in [Kind::Writer, Kind::Reader] {
        let refused = Link::open(&driver(), &target, kind).unwrap_err();
        assert_eq!(refused, StoreError::Unavailable(STANDBY.to_owned()));
    }
    // Whoever only looks at the server may.
    assert!(Link::open(&driver(), &target, Kind::Owner).is_ok());
}

#[test] // fault 49
fn a_server_that_lets_us_in_and_then_says_nothing_is_not_waited_for() {
    use std::io::{Read as _, Write as _};

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("postgres://a@{}/x", listener.local_addr().unwrap());
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let server = std::thread::spawn(move || {
        let mut client = listener.accept().unwrap().0;
        client.read_exact(&mut [0; 8]).unwrap();
        // It asks for no password and is ready for a question.
        client.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").unwrap();
        let _ = ended.recv();
    });
    let silent = Link::open(&driver(), &Target::parse(&target).unwrap(), Kind::Writer).unwrap_err();
    assert_eq!(silent, unanswered());
    drop(end);
    server.join().unwrap();
}

#[test]
fn a_servers_certificate_is_verified_whenever_tls_is_used() {
    let cluster = Cluster::in_memory();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    // The server's own user must own its key.
    let put = |file: &str, pem: &str| {
        let put = format!(
            "COPY (SELECT unnest(string_to_array('{pem}', chr(10)))) TO PROGRAM 'umask 077; cat > {file}'"
        );
        pombo_testbed::psql(&format!("{}/postgres", cluster.url()), &put).unwrap();
    };
    put("server.crt", &made.cert.pem());
    put("server.key", &made.signing_key.serialize_pem());
    for change in ["ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()"] {
        pombo_testbed::psql(&format!("{}/postgres", cluster.url()), change).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let ours = folder.path().join("ca.pem");
    std::fs::write(&ours, made.cert.pem()).unwrap();
    let driver = driver();
    let open = |host: &str, parameters: &str| {
        let url = cluster.url().replace("127.0.0.1", host);
        let target = Target::parse(&format!("{url}/postgres?{parameters}")).unwrap();
        Link::open(&driver, &target, Kind::Owner).map_err(|error| error.to_string())
    };
    let encrypted = |link: &Link| -> bool {
        let asked = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        link.query(asked, Vec::new()).unwrap()[0].get(0)
    };
    let trusting = format!("sslmode=require&sslrootcert={}", ours.display());
    // The server takes up its settings a moment after it was told to.
    let link = (0..100).find_map(|_| {
        open("127.0.0.1", &trusting).inspect_err(|_| std::thread::sleep(Duration::from_millis(50))).ok()
    });
    assert!(encrypted(&link.unwrap()));
    assert!(!encrypted(&open("127.0.0.1", "sslmode=disable").unwrap()));
    for mode in ["require", "verify-full", "prefer"] {
        let error = open("127.0.0.1", &format!("sslmode={mode}")).unwrap_err();
        assert!(error.contains("name its authority with sslrootcert"), "{mode}: {error}");
    }
    let error = open("localhost", &trusting).unwrap_err();
    assert!(error.contains("certificate"), "{error}");
}

#[test]
fn roles_are_taken_where_they_are() {
    let database = Cluster::shared().database();
    let owner = Link::open(&driver(), &target(&database, ""), Kind::Owner).unwrap();
    owner
        .script("DO $$ BEGIN CREATE ROLE pombo_engine; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$")
        .unwrap();
    for parameters in ["", "pooler=transaction"] {
        let link = Link::open(&driver(), &target(&database, parameters), Kind::Writer).unwrap();
        assert_eq!(texts(&link.query("SELECT current_user::text", Vec::new()).unwrap()), ["pombo_engine"]);
    }
}

#[test]
fn a_driver_may_be_dropped_inside_of_another_runtime() {
    let driver = Arc::new(driver());
    let outer = Runtime::new().unwrap();
    let last = outer.block_on(async move { Arc::into_inner(driver).map(drop) });
    assert!(last.is_some());
}
