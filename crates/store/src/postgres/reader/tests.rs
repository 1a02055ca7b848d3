//! What a reader's connection shows, without a filter of ours: against a real PostgreSQL.

use pombo_testbed::{Cluster, Database};

use super::super::migrate;
use super::*;

/// Tables that say whose a row is and that the role of readers may look into. In `app` every role finds its own.
const READABLE: &str = "SELECT c.relname FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant'
    WHERE relnamespace = 'pombo'::regnamespace AND relkind IN ('r', 'p') AND relname <> 'app'
    AND has_table_privilege('pombo_reader', c.oid, 'SELECT') ORDER BY c.relname";

/// A row of `acme` and one of `zeta` in each of these, whatever else they say: what must fit together there is taken away.
const FILL: &str = "
    DO $$ DECLARE t record; who text; BEGIN
      FOR t IN SELECT oid, relname FROM pg_class WHERE relnamespace = 'pombo'::regnamespace
          AND relname IN (TABLES) LOOP
        EXECUTE (
          SELECT coalesce(string_agg(format('ALTER TABLE pombo.%I DROP CONSTRAINT %I', t.relname, conname), '; '), 'SELECT')
          FROM pg_constraint WHERE conrelid = t.oid AND contype = 'c');
        FOREACH who IN ARRAY '{acme,zeta}'::text[] LOOP
          EXECUTE (
            SELECT format('INSERT INTO pombo.%I (%s) VALUES (%s)', t.relname, string_agg(quote_ident(attname), ', '),
              string_agg(CASE WHEN attname = 'tenant' THEN quote_literal(who) WHEN typcategory = 'N' THEN
                (1 + (who = 'zeta')::int)::text WHEN typcategory = 'B' THEN 'false' ELSE quote_literal(who) END, ', '))
            FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
            WHERE attrelid = t.oid AND attnum > 0 AND attnotnull AND attidentity = '' AND NOT attisdropped
              AND (NOT atthasdef OR attname = 'tenant'));
        END LOOP;
      END LOOP;
    END $$";

/// A database with rows of two tenants in every table that readers see.
fn furnished(driver: &Driver) -> (Database, Vec<String>) {
    let database = Cluster::shared().database();
    let target = Target::parse(database.url()).unwrap();
    migrate::migrate(&Link::open(driver, &target, Kind::Owner).unwrap(), &[1; 32]).unwrap();
    let tables: Vec<String> = database.ask(READABLE).lines().map(str::to_owned).collect();
    let names: Vec<String> = tables.iter().map(|table| format!("'{table}'")).collect();
    database.ask(&FILL.replace("TABLES", &names.join(", ")));
    (database, tables)
}

/// Each table with how many of its rows are shown, and whose.
fn shown(rows: &[Row]) -> Vec<(String, i64, String)> {
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

#[test] // REQ SE-1, promise 14
fn with_every_filter_forgotten_a_reader_sees_its_tenant_and_then_nobody() {
    const WHO: &str = "SELECT current_user::text, coalesce(current_setting('pombo.tenant', true), ''),
        pg_catalog.pg_backend_pid()::text";
    let driver = Driver::start().unwrap();
    let (database, tables) = furnished(&driver);
    for known in ["message", "history", "doc", "recipient", "template", "dead_letter", "delivery", "revision"]
    {
        assert!(tables.iter().any(|table| table == known), "{known}: {tables:?}");
    }
    let all: Vec<String> = tables
        .iter()
        .map(|table| format!("SELECT '{table}', count(*), coalesce(string_agg(tenant, ' ' ORDER BY tenant), '') FROM {table}"))
        .collect();
    let all: &'static str = all.join(" UNION ALL ").leak();
    let each = |count: i64, whose: &str| -> Vec<_> {
        tables.iter().map(|table| (table.clone(), count, whose.to_owned())).collect()
    };
    let acme: Tenant = "acme".parse().unwrap();
    for parameters in ["", "?pooler=transaction"] {
        let target = Target::parse(&format!("{}{parameters}", database.url())).unwrap();
        let mut reader = Reader::new(driver.clone(), target, Arc::new(Vault::blind()));
        let mut session = String::new();
        for (whose, role, tenant, seen) in [
            (Whose::Tenant(&acme), "pombo_reader", "acme", each(1, "acme")),
            (Whose::Everybodys, "pombo_engine", "", each(2, "acme zeta")),
        ] {
            let read = reader.read(whose, vec![(all, vec![]), (WHO, vec![])]).unwrap();
            assert_eq!(shown(&read[0]), seen, "{parameters}");
            assert_eq!((read[1][0].get::<_, &str>(0), read[1][0].get::<_, &str>(1)), (role, tenant));
            session = read[1][0].get(2);
            // Nor does it keep anything of a read that failed.
            reader.read(whose, vec![("SELECT 1 / 0", vec![])]).unwrap_err();

            let link = reader.link.as_ref().unwrap();
            let after = link.query(WHO, vec![]).unwrap();
            let after: [&str; 3] = [0, 1, 2].map(|nth| after[0].get(nth));
            assert_eq!(after, ["pombo_reader", "", &session], "{parameters}");
            assert_eq!(shown(&link.query(all, vec![]).unwrap()), each(0, ""), "{parameters}");
        }
        assert!(!session.is_empty());
    }
}
