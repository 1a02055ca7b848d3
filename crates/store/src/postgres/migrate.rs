//! The schema: made, brought up to date, and refused where it is not ours to touch.

use pombo_kernel::time::Time;
use sha2::{Digest, Sha256};
use tracing::{info, warn};

use super::link::{Link, Row, Step};
use super::month::{BY_MONTH, Month};
use super::moving::{counts, meta};
use super::{dead, rows, sql};
use crate::StoreError;
use crate::vault::opening::{KEYS, Lock, REKEY, SECRET};
use crate::vault::{Keys, Vault};

/// Each entry brings the schema from its index to the next number.
const MIGRATIONS: [&str; 5] = [
    sql!("migrations/0001"),
    sql!("migrations/0002"),
    sql!("migrations/0003"),
    sql!("migrations/0004"),
    sql!("migrations/0005"),
];

/// The schema that this version works with.
pub(super) const SCHEMA: u32 = 5;
const _: () = assert!(SCHEMA as usize == MIGRATIONS.len());

/// How a process says that it ends since the tables are no longer those that it knows: whom it leaves the store to, or
/// what has taken its place.
pub const ANOTHER_VERSION: &str = "another version of Pombo";
pub const EARLIER_STORE: &str = "an earlier store";

/// The first schema in which dead letters have causes.
const WITH_CAUSES: usize = 2;

/// Roles, what applications see, and who may do what. They may be applied any number of times, and are whenever they
/// differ.
const SURFACE: [&str; 3] = [sql!("roles"), sql!("rights"), sql!("surface")];

/// The first PostgreSQL that has everything we use.
const SERVER_MIN: i32 = 150_000;
/// Two months ahead of the present one have their partitions, so that a node that was down for long misses none.
const MONTHS_AHEAD: i64 = 2;

/// One process at a time changes the schema. It ends with the transaction.
const LOCK: &str = "SELECT pg_advisory_xact_lock(8101248305410532719)";
const NOW: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// Brings the schema up to date. Each step is a transaction: a crash on the way leaves the last whole one.
///
/// Several processes may do this at once. A login role that does not own the schema changes nothing, and is refused
/// only if something would have to change.
pub(super) fn migrate(link: &Link, fresh_secret: &[u8]) -> Result<(), StoreError> {
    check_server(link)?;
    make_schema(link)?;
    while step(link, fresh_secret)? {}
    surface(link)?;
    if owns(link)?
        && let Err(error) = make_months(link, now(link)?)
    {
        // There is always a partition for the rest, and upkeep will try again.
        warn!(%error, "the partitions of the coming months could not be made");
    }
    Ok(())
}

/// The database's time.
pub(super) fn now(link: &Link) -> Result<Time, StoreError> {
    let rows = link.query(NOW, Vec::new())?;
    Ok(Time::from_millis(rows.first().map_or(0, |row| row.get(0))))
}

/// What the store says of its vault.
pub(super) fn lock(link: &Link) -> Result<Lock, StoreError> {
    let secret = meta(link, SECRET)?.unwrap_or_default();
    Ok(Lock { secret, keys: meta(link, KEYS)?, rekey: meta(link, REKEY)? })
}

/// Sees to it that these keys are the store's, or that none are needed. `fresh` is the secret of a store that is empty
/// so far, and is sealed from now on. As the engine, which sees all tenants.
pub(super) fn unlock(link: &Link, keys: Option<&Keys>, fresh: &[u8; 32]) -> Result<Vault, StoreError> {
    let is_empty = || Ok(counts(link)?.iter().all(|(_, count)| *count == 0));
    let (vault, notes) = lock(link)?.serve(keys, is_empty, fresh)?;
    if notes.is_empty() {
        return Ok(vault);
    }
    // Again, now that no other node can do the same.
    within(link, |link| {
        let (vault, notes) =
            lock(link)?.serve(keys, || Ok(counts(link)?.iter().all(|(_, count)| *count == 0)), fresh)?;
        for (name, value) in notes {
            link.query(sql!("meta_put"), vec![name.into(), value.into()])?;
        }
        Ok(vault)
    })
}

fn check_server(link: &Link) -> Result<(), StoreError> {
    const VERSION: &str =
        "SELECT current_setting('server_version_num')::int, current_setting('server_version')";
    let rows = link.query(VERSION, Vec::new())?;
    match rows.first() {
        Some(row) if row.get::<_, i32>(0) < SERVER_MIN => Err(StoreError::Unavailable(format!(
            "PostgreSQL {} is too old; Pombo needs version {} or later",
            row.get::<_, &str>(1),
            SERVER_MIN / 10_000
        ))),
        _ => Ok(()),
    }
}

/// Whether there is a schema of our name.
pub(super) fn has_schema(link: &Link) -> Result<bool, StoreError> {
    const THERE: &str = "SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'pombo'";
    Ok(!link.query(THERE, Vec::new())?.is_empty())
}

fn make_schema(link: &Link) -> Result<(), StoreError> {
    if !has_schema(link)? {
        within(link, |link| link.script("CREATE SCHEMA IF NOT EXISTS pombo"))?;
    }
    Ok(())
}

/// Whether we may change the schema.
pub(super) fn owns(link: &Link) -> Result<bool, StoreError> {
    const OWNS: &str =
        "SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'pombo' AND pg_has_role(nspowner, 'USAGE')";
    Ok(!link.query(OWNS, Vec::new())?.is_empty())
}

/// Does the next migration; false if there is none.
fn step(link: &Link, fresh_secret: &[u8]) -> Result<bool, StoreError> {
    if version(link)? == Some(MIGRATIONS.len()) {
        return Ok(false);
    }
    within(link, |link| {
        // Again, now that nobody else can change it.
        let version = version(link)?.unwrap_or(0);
        let Some(migration) = MIGRATIONS.get(version) else { return Ok(false) };
        if !owns(link)? {
            return Err(StoreError::Unavailable(format!(
                "the schema must be brought from {version} to {}; let its owner run `pombo store migrate`",
                MIGRATIONS.len()
            )));
        }
        link.script(migration)?;
        if version + 1 == WITH_CAUSES {
            dead::sort_unsorted(link)?;
        }
        link.pipeline(vec![
            (sql!("meta_put"), vec!["schema".into(), (version + 1).to_string().into_bytes().into()]),
            (sql!("meta_first"), vec![SECRET.into(), fresh_secret.into()]),
            // Nodes that are at work look at blocks when they move, and at the schema with them.
            (sql!("board_move"), Vec::new()),
        ])?;
        info!(schema = version + 1, "the schema was brought up to date");
        Ok(true)
    })
}

/// The version of the schema that is there; none if there is none yet.
pub(super) fn version(link: &Link) -> Result<Option<usize>, StoreError> {
    const TABLES: &str =
        "SELECT count(*), coalesce(bool_or(relname = 'meta'), false) FROM pg_catalog.pg_class
        WHERE relnamespace = 'pombo'::regnamespace AND relkind IN ('r', 'p', 'v', 'm')";
    let rows = link.query(TABLES, Vec::new())?;
    let (tables, meta) = rows.first().map_or((0, false), |row| (row.get::<_, i64>(0), row.get(1)));
    let foreign = || StoreError::Unavailable("the schema `pombo` belongs to some other program".to_owned());
    if tables == 0 {
        return Ok(None);
    }
    let rows = if meta { link.query(sql!("meta_get"), vec!["schema".into()])? } else { Vec::new() };
    let text = rows.first().and_then(|row| String::from_utf8(row.get(0)).ok()).ok_or_else(foreign)?;
    let version: usize = text.parse().map_err(|_| foreign())?;
    if version > MIGRATIONS.len() {
        return Err(StoreError::Unavailable(format!(
            "the store has schema {version} and this version of Pombo knows up to {}; run the newer version",
            MIGRATIONS.len()
        )));
    }
    Ok(Some(version))
}

/// Asks for what [`refuse_another`] reads.
pub(super) fn schema() -> Step {
    (sql!("meta_get"), vec!["schema".into()])
}

/// Nothing more is done by a process on tables that are not those that it knows: another version has changed them
/// meanwhile, or somebody has put an earlier store in their place.
pub(super) fn refuse_another(found: &[Row]) -> Result<(), StoreError> {
    let schema = found.first().map_or(Ok(Vec::new()), |row| rows::get(row, 0))?;
    let schema = String::from_utf8_lossy(&schema);
    let why = match schema.parse::<u32>() {
        Ok(SCHEMA) => return Ok(()),
        Ok(newer) if newer > SCHEMA => format!("{ANOTHER_VERSION} has brought the store to schema {newer}"),
        Ok(older) => format!("{EARLIER_STORE}, of schema {older}, is in the place of ours"),
        Err(_) => format!("{EARLIER_STORE}, without a schema that is known, is in the place of ours"),
    };
    Err(StoreError::Broken(format!("{why}, and this process works with {SCHEMA}")))
}

/// Applies roles and surface, if they are not those of this version, or if the roles are not there or the views are not
/// the engine's, as after a dump was restored elsewhere or without owners. Otherwise nothing is touched: it would make
/// every node that is running wait and plan anew.
fn surface(link: &Link) -> Result<(), StoreError> {
    let mut digest = Sha256::new();
    SURFACE.iter().for_each(|part| digest.update(part));
    let digest: [u8; 32] = digest.finalize().into();
    const ROLES: &str = "SELECT FROM pg_catalog.pg_roles WHERE rolname IN ('pombo_engine', 'pombo_reader')";
    const FOREIGN: &str =
        "SELECT FROM pg_catalog.pg_class JOIN pg_catalog.pg_roles ON pg_roles.oid = relowner
        WHERE relnamespace = 'pombo'::regnamespace AND relname IN ('email_queue', 'email_logs', 'email_due')
        AND rolname <> 'pombo_engine'";
    let is_current = |link: &Link| -> Result<bool, StoreError> {
        let applied = link.query(sql!("meta_get"), vec!["surface".into()])?;
        let roles = link.query(ROLES, Vec::new())?;
        let foreign = link.query(FOREIGN, Vec::new())?;
        let applied = applied.first().is_some_and(|row| row.get::<_, &[u8]>(0) == digest);
        Ok(applied && roles.len() == 2 && foreign.is_empty())
    };
    if is_current(link)? || !owns(link)? {
        return Ok(());
    }
    within(link, |link| {
        if is_current(link)? {
            return Ok(());
        }
        SURFACE.iter().try_for_each(|part| link.script(part))?;
        link.query(sql!("meta_put"), vec!["surface".into(), digest.as_slice().into()]).map(drop)
    })
}

/// Makes the partitions of the month of `now` and those ahead, where they are missing.
pub(super) fn make_months(link: &Link, now: Time) -> Result<(), StoreError> {
    for nth in 0..=MONTHS_AHEAD {
        make_month(link, Month::of(now).plus(nth))?;
    }
    Ok(())
}

/// Makes the partitions of a month, where they are missing.
pub(super) fn make_month(link: &Link, month: Month) -> Result<(), StoreError> {
    for table in BY_MONTH {
        let partition = format!("{table}_{}", month.name());
        if !has_table(link, &partition)? {
            within(link, |link| make_partition(link, table, &partition, month))?;
        }
    }
    Ok(())
}

pub(super) fn has_table(link: &Link, name: &str) -> Result<bool, StoreError> {
    const THERE: &str = "SELECT FROM pg_catalog.pg_class
        WHERE relnamespace = 'pombo'::regnamespace AND relname = $1";
    Ok(!link.query(THERE, vec![name.into()])?.is_empty())
}

/// Makes a table and attaches it, which does not make those wait who use the other partitions. What lies in its
/// range already, because nobody made it in time, is brought over.
fn make_partition(link: &Link, table: &str, partition: &str, month: Month) -> Result<(), StoreError> {
    if has_table(link, partition)? {
        return Ok(());
    }
    let (from, to) = month.keys();
    let (from, to) = (from.0, to.0);
    link.script(&format!(
        "SET LOCAL lock_timeout = '2s';
         CREATE TABLE {partition} (LIKE {table} INCLUDING ALL, CONSTRAINT in_month CHECK (key >= {from} AND key < {to}));
         ALTER TABLE {table}_rest NO FORCE ROW LEVEL SECURITY;
         WITH moved AS (DELETE FROM {table}_rest WHERE key >= {from} AND key < {to} RETURNING *)
         INSERT INTO {partition} SELECT * FROM moved;
         ALTER TABLE {table}_rest FORCE ROW LEVEL SECURITY;
         ALTER TABLE {partition} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
         ALTER TABLE {table} ATTACH PARTITION {partition} FOR VALUES FROM ({from}) TO ({to});
         ALTER TABLE {partition} DROP CONSTRAINT in_month;"
    ))
}

/// Does something in one transaction, alone among those who change the schema.
pub(super) fn within<T>(
    link: &Link,
    work: impl FnOnce(&Link) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut steps: Vec<Step> = link.begin();
    steps.push((LOCK, Vec::new()));
    let done = link.pipeline(steps).and_then(|_| work(link));
    let ended = link.query(if done.is_ok() { "COMMIT" } else { "ROLLBACK" }, Vec::new());
    done.and_then(|value| ended.map(|_: Vec<Row>| value))
}

#[cfg(test)]
mod tests {
    use pombo_testbed::{Cluster, Database};

    use super::super::link::{Driver, Kind, Target};
    use super::*;

    fn link(database: &Database, parameters: &str) -> Link {
        let target = Target::parse(&format!("{}?{parameters}", database.url())).unwrap();
        Link::open(&Driver::start().unwrap(), &target, Kind::Owner).unwrap()
    }

    fn number(link: &Link, sql: &'static str) -> i64 {
        link.query(sql, Vec::new()).unwrap()[0].get(0)
    }

    #[test]
    fn several_processes_bring_one_schema_up_to_date_together() {
        let database = Cluster::shared().database();
        std::thread::scope(|scope| {
            for n in 0..4 {
                let database = &database;
                scope.spawn(move || migrate(&link(database, ""), &[n; 32]).unwrap());
            }
        });
        let link = link(&database, "pooler=transaction");
        migrate(&link, &[9; 32]).unwrap();
        assert_eq!(version(&link).unwrap(), Some(MIGRATIONS.len()));
        // Each step is told to whoever is at work.
        assert_eq!(number(&link, "SELECT version FROM board"), i64::from(SCHEMA));
        assert_eq!(number(&link, "SELECT count(*) FROM meta WHERE name = 'secret'"), 1);
        assert_eq!(
            number(&link, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'message'::regclass"),
            4
        );
        assert_eq!(
            number(&link, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'history'::regclass"),
            4
        );
    }

    #[test]
    fn a_newer_schema_and_a_strangers_are_left_alone() {
        let database = Cluster::shared().database();
        let link = link(&database, "");
        link.script("CREATE SCHEMA pombo; CREATE TABLE pombo.bird (name text)").unwrap();
        let error = migrate(&link, &[1; 32]).unwrap_err().to_string();
        assert!(error.contains("some other program"), "{error}");
        link.script("DROP TABLE pombo.bird").unwrap();
        migrate(&link, &[1; 32]).unwrap();
        link.query(sql!("meta_put"), vec!["schema".into(), b"99".as_slice().into()]).unwrap();
        let error = migrate(&link, &[1; 32]).unwrap_err().to_string();
        assert!(error.contains("schema 99") && error.contains("run the newer version"), "{error}");
    }

    #[test]
    fn a_month_whose_messages_came_before_its_partition_takes_them_in() {
        let database = Cluster::shared().database();
        let link = link(&database, "");
        migrate(&link, &[1; 32]).unwrap();
        let later = Time::from_millis(now(&link).unwrap().millis() + 400 * 86_400_000);
        let key = Month::of(later).keys().0.0;
        link.query(
            "INSERT INTO message (key, nonce, queue, priority, due, recipient, batch, tenant, body)
             SELECT $1 + n, 0, 1, 5, 0, 0, 0, 'default', '' FROM generate_series(0, 9) AS n",
            vec![key.into()],
        )
        .unwrap();
        assert_eq!(number(&link, "SELECT count(*) FROM message_rest"), 10);
        make_months(&link, later).unwrap();
        make_months(&link, later).unwrap();
        assert_eq!(number(&link, "SELECT count(*) FROM message_rest"), 0);
        assert_eq!(number(&link, "SELECT count(*) FROM message"), 10);
        assert_eq!(
            number(
                &link,
                "SELECT count(*) FROM pg_index WHERE indrelid = 'message'::regclass AND NOT indisvalid"
            ),
            0
        );
    }
}
