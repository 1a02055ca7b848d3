//! No read and no write crosses tenants, even where a program forgets to say whose rows it wants.

use std::thread;

use pombo_kernel::dice::Dice;
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Actor, Draft, Idempotency};
use pombo_kernel::name::{TemplateName, Tenant};
use pombo_kernel::template::Template;
use pombo_kernel::time::Span;
use pombo_store::StoreError;
use pombo_store::core::{Core, Reading};
use pombo_store::postgres::{Postgres, Sealing, Target};
use pombo_store::shelf::{Expect, Leaf, Shelf, Shelve};
use pombo_testbed::{Cluster, Database, psql};

use crate::node::Node;
use crate::surface::House;
use crate::world::{End, draft, of};

/// Tables without row level security, and why nothing in them is any tenant's.
const PLAIN: [(&str, &str); 12] = [
    ("audit_tip", "where the chain ends: a number and a hash"),
    ("board", "a version"),
    ("claim", "keys and times of what is being sent"),
    ("expiry", "keys and times"),
    ("flow", "digests and times"),
    ("meta", "the schema's version, the store's secret and the like; for the engine and the owner only"),
    ("node", "leases"),
    ("office", "leases"),
    ("ordered", "digests and keys"),
    ("ready", "keys and times of what waits"),
    ("receipt", "keyed hashes and keys"),
    ("slot", "leases"),
];

/// A store with messages, templates and all else of the tenants `default` and `acme`.
fn furnished() -> (House, [MessageId; 2]) {
    let mut house = House::new();
    let node = &mut house.node;
    let name: TemplateName = "welcome".parse().unwrap();
    for tenant in ["default", "acme"] {
        let tenant: Tenant = tenant.parse().unwrap();
        let template = Template { text: Some("hi".into()), ..Template::default() };
        node.group(|core, now| {
            core.put_template(&tenant, &name, template.clone(), &Actor("ana".into()), now)
        });
        let leaf = Leaf { order: 1, topic: Some("t".into()), due: Some(node.now), body: "{}".into() };
        let wish = Shelve {
            shelf: Shelf::Suppression,
            tenant: tenant.clone(),
            id: "ana@example.com".into(),
            expect: Expect::Nothing,
            leaf: Some(leaf),
            record: None,
        };
        node.group(|core, now| core.shelve(&wish, now));
    }
    let ids = ["default", "acme"].map(|tenant| {
        let one =
            Draft { idempotency: Some(Idempotency { key: "k".into(), fingerprint: [1; 16] }), ..of(tenant) };
        let id = node.accept(&[one])[0];
        let claimed = node.claim(1).pop().unwrap();
        node.settle(&claimed, End::Sent);
        node.accept(&[of(tenant)]);
        id
    });
    (house, ids)
}

/// Counts rows as that role, in one transaction; nothing filters but the database.
fn count(database: &Database, role: &str, setting: &str, rows: &str) -> String {
    database
        .ask(&format!("BEGIN; SET LOCAL ROLE {role}; {setting} SELECT count(*) FROM pombo.{rows}; COMMIT"))
        .lines()
        .last()
        .unwrap_or_default()
        .to_owned()
}

#[test] // REQ SE-1
fn every_table_is_under_row_level_security_or_has_nothing_of_any_tenant() {
    let (house, _) = furnished();
    let open = house.database.ask(
        "SELECT relname FROM pg_class WHERE relnamespace = 'pombo'::regnamespace AND relkind IN ('r', 'p')
         AND NOT (relrowsecurity AND relforcerowsecurity) ORDER BY relname",
    );
    assert_eq!(open.lines().collect::<Vec<_>>(), PLAIN.map(|(table, _)| table));
    let tenants = house.database.ask(
        "SELECT count(*) FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
         WHERE relnamespace = 'pombo'::regnamespace AND relkind IN ('r', 'p') AND attname = 'tenant' AND NOT relrowsecurity",
    );
    assert_eq!(tenants, "0");
    // Partitions can be reached only through the tables that they are parts of.
    let grants = house.database.ask(
        "SELECT relname, grantee::regrole FROM pg_class, aclexplode(relacl) WHERE relispartition AND relkind = 'r'
         AND relnamespace = 'pombo'::regnamespace AND grantee <> relowner",
    );
    assert_eq!(grants, "");
}

#[test] // REQ SE-1, promise 14
fn a_reader_sees_the_tenant_that_it_names_and_nothing_without_one() {
    let (house, _) = furnished();
    let database = &house.database;
    for table in ["queue", "message", "history", "template", "tally_added", "doc"] {
        for tenant in ["default", "acme"] {
            let set = format!("SET LOCAL pombo.tenant = '{tenant}';");
            let own = count(database, "pombo_reader", &set, table);
            assert_ne!(own, "0", "{table} of {tenant}");
            let foreign =
                count(database, "pombo_reader", &set, &format!("{table} WHERE tenant <> '{tenant}'"));
            assert_eq!(foreign, "0", "{table} of {tenant}");
        }
        for unset in
            ["", "SET LOCAL pombo.tenant = '';", "RESET pombo.tenant;", "SET LOCAL pombo.tenant = 'nobody';"]
        {
            assert_eq!(count(database, "pombo_reader", unset, table), "0", "{table} {unset}");
        }
    }
    // Nor what is nobody's in particular.
    for table in ["audit", "blob", "block", "idempotency", "inbox", "command", "refused", "meta"] {
        let asked = format!("SET ROLE pombo_reader; SELECT count(*) FROM pombo.{table}");
        let error = psql(database.url(), &asked).expect_err(table);
        assert!(error.contains("permission denied"), "{table}: {error}");
    }
    for write in [
        "DELETE FROM pombo.message",
        "UPDATE pombo.history SET tenant = 'x'",
        "INSERT INTO pombo.template VALUES ('acme')",
        "UPDATE pombo.doc SET body = 'null'",
        "DELETE FROM pombo.doc",
    ] {
        let error =
            psql(database.url(), &format!("SET ROLE pombo_reader; SET pombo.tenant = 'acme'; {write}"))
                .expect_err(write);
        assert!(error.contains("permission denied"), "{write}: {error}");
    }
}

#[test] // REQ SE-1, promise 14
fn an_application_sees_and_enqueues_for_its_own_tenant_whatever_it_sets() {
    let (mut house, _) = furnished();
    let mut foreign = draft();
    (foreign.queue.tenant, foreign.queue.channel) = ("acme".parse().unwrap(), "post".parse().unwrap());
    foreign.body.to = "secret@example.com".into();
    let foreign = house.node.accept(&[foreign])[0];
    assert_eq!(house.app("SELECT count(*) FROM email_queue"), "0");
    // A condition that tells what it is shown is not shown it.
    let told = house.app(
        "CREATE FUNCTION pg_temp.tell(text) RETURNS boolean COST 0.0001 LANGUAGE plpgsql AS
         $$ BEGIN RAISE EXCEPTION 'saw %', $1; END $$;
         SELECT count(*) FROM email_queue WHERE pg_temp.tell(recipient_email)",
    );
    assert_eq!(told, "0");
    assert_eq!(house.app("SET pombo.tenant = 'acme'; SELECT count(*) FROM email_queue"), "0");
    let error = house.try_app("SET row_security = off; SELECT count(*) FROM email_queue").unwrap_err();
    assert!(error.contains("would be affected by row-level security"), "{error}");
    for forbidden in [
        "SELECT count(*) FROM message",
        "SELECT count(*) FROM history",
        "SELECT count(*) FROM doc",
        "SELECT count(*) FROM command",
        "UPDATE app SET tenant = 'acme'",
        "INSERT INTO app VALUES (current_user, 'acme')",
        "INSERT INTO inbox (tenant, request) VALUES ('acme', '{}')",
        "INSERT INTO inbox (key, request) VALUES (1, '{}')",
        "INSERT INTO command (tenant, verb, key, nonce, detail) VALUES ('acme', 'mark_failed', 1, 1, '')",
        "DELETE FROM inbox",
        "SET ROLE pombo_engine",
        "SET ROLE pombo_reader",
        "CREATE TABLE pombo.mine (a int)",
    ] {
        let error = house.try_app(forbidden).expect_err(forbidden);
        assert!(error.contains("permission denied"), "{forbidden}: {error}");
    }
    let error = house.try_app(&format!("SELECT mark_email_failed('{}', 'x')", foreign.uuid())).unwrap_err();
    assert!(error.contains("there is no e-mail"), "{error}");
    // A command on another's message by its bare key comes to nothing: it is for one of the tenant's own.
    house.app(&format!(
        "INSERT INTO command (verb, key, nonce, detail) VALUES ('mark_failed', {}, {}, 'x')",
        foreign.key().0,
        foreign.nonce()
    ));
    let failures = house.node.core.reader().unwrap().inbox(10).unwrap().failures;
    assert_eq!(failures[0].tenant, Tenant::default());
    let done =
        house.node.group(|core, now| core.mark_failed(&failures, &mut |_, _, _| panic!("not ours"), now));
    assert_eq!(done, 1);

    // Once an administrator says so, the application is another tenant's.
    let role = house.role().to_owned();
    house.database.ask(&format!("INSERT INTO pombo.app VALUES ('{role}', 'acme')"));
    assert_eq!(
        house.app("SELECT id, recipient_email FROM email_queue"),
        format!("{}|secret@example.com", foreign.uuid())
    );
    assert_eq!(house.app("SELECT tenant FROM app"), "acme");
    // Whatever role it takes that says nothing of a tenant: it stays who logged in.
    assert_eq!(
        house.app("SET ROLE pombo_app; SELECT recipient_email FROM email_queue; SELECT pombo.tenant()"),
        "secret@example.com\nacme"
    );
    house.app("SELECT enqueue_email(NULL, 't', 'a@example.com', '{}')");
    assert_eq!(house.database.ask("SELECT tenant, request ->> 'channel' FROM pombo.inbox"), "acme|post");
    let error = house.try_app("SELECT enqueue('mail', 'a@example.com', content => '{}')").unwrap_err();
    assert!(error.contains("not configured for tenant 'acme'"), "{error}");
    let error = psql(house.database.url(), "INSERT INTO pombo.app VALUES ('x', 'Not A Name')").unwrap_err();
    assert!(error.contains("check constraint"), "{error}");
}

/// A login that is nobody special, and a database that it owns.
pub(crate) struct Plain {
    pub(crate) database: Database,
    role: String,
}

impl Plain {
    pub(crate) fn on(cluster: &Cluster, rights: &str) -> Plain {
        let database = cluster.database();
        let name = database.ask("SELECT current_database()");
        let role = format!("login_{name}");
        database.ask(&format!("CREATE ROLE {role} LOGIN NOINHERIT {rights}"));
        database.ask(&format!("GRANT CREATE ON DATABASE {name} TO {role}"));
        Plain { database, role }
    }

    pub(crate) fn url(&self) -> String {
        self.database.url().replacen("postgres@", &format!("{}@", self.role), 1)
    }

    pub(crate) fn open(&self) -> Result<Postgres, StoreError> {
        Postgres::open(&Target::parse(&self.url()).unwrap(), Dice::seeded(1), &[5; 32], Sealing::AtCommit)
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let _ = psql(self.database.url(), &format!("DROP OWNED BY {0} CASCADE; DROP ROLE {0}", self.role));
    }
}

#[test] // REQ SE-1
fn the_owner_of_the_tables_is_bound_like_anybody_and_the_engine_needs_no_more_than_its_role() {
    let plain = Plain::on(Cluster::shared(), "CREATEROLE");
    let mut node = Node::with(plain.open().unwrap(), 1);
    let ids = node.accept(&[of("default"), of("acme"), Draft { expires_at: Some(node.now), ..draft() }]);
    assert_eq!(node.expire(10), 1);
    let claimed = node.claim(2);
    assert_eq!(claimed.len(), 2);
    node.settle(&claimed[0], End::Sent);
    node.settle(&claimed[1], End::Retry(Span::from_secs(1)));
    node.heartbeat(Span::from_secs(10));
    node.cancel(ids[1]);
    let leaf = Leaf { order: 1, topic: None, due: None, body: "{}".into() };
    let (shelf, id, expect) = (Shelf::Webhook, "w".to_owned(), Expect::Any);
    let wish = Shelve { shelf, tenant: Tenant::default(), id, expect, leaf: Some(leaf), record: None };
    node.group(|core, now| core.shelve(&wish, now));
    assert!(node.reader().doc(shelf, &Tenant::default(), "w").unwrap().is_some());
    assert!(node.reader().doc(shelf, &"acme".parse().unwrap(), "w").unwrap().is_none());
    assert!(node.reader().story(&Tenant::default(), ids[0]).unwrap().is_some());
    assert!(node.reader().story(&Tenant::default(), ids[1]).unwrap().is_none());
    assert!(node.reader().story(&"acme".parse().unwrap(), ids[1]).unwrap().is_some());
    assert_eq!(node.reader().verify().unwrap().broken, None);
    let ask = |sql: &str| psql(&plain.url(), sql).unwrap().trim_end().to_owned();
    for table in ["message", "message_rest", "history", "queue", "tally", "audit", "doc"] {
        assert_eq!(ask(&format!("SELECT count(*) FROM pombo.{table}")), "0", "{table}");
    }
    assert_eq!(ask("SET ROLE pombo_engine; SELECT count(*) FROM pombo.message"), "3");
}

#[test]
fn roles_are_made_once_however_many_databases_of_a_server_want_them() {
    let cluster = Cluster::in_memory();
    let all: Vec<Plain> = (0..4).map(|_| Plain::on(&cluster, "CREATEROLE")).collect();
    thread::scope(|scope| {
        let threads: Vec<_> = all.iter().map(|one| scope.spawn(|| one.open().map(drop))).collect();
        for thread in threads {
            thread.join().unwrap().unwrap();
        }
    });
    let roles = all[0]
        .database
        .ask("SELECT rolname, rolcanlogin FROM pg_roles WHERE rolname LIKE 'pombo%' ORDER BY 1");
    assert_eq!(roles, "pombo_app|f\npombo_engine|f\npombo_reader|f");
}

#[test]
fn a_login_that_may_not_create_roles_says_what_an_administrator_has_to_run() {
    let cluster = Cluster::in_memory();
    let plain = Plain::on(&cluster, "");
    let error = plain.open().unwrap_err().to_string();
    let (_, told) = error.split_once("run: ").unwrap_or_else(|| panic!("{error}"));
    let told = told.split(" (").next().unwrap();
    assert!(told.starts_with("CREATE ROLE pombo_engine NOLOGIN;"), "{told}");
    plain.database.ask(told);
    drop(plain.open().unwrap());
}

#[test] // REQ AU-1
fn a_record_is_added_and_sealed_once_and_no_role_changes_it_after_that() {
    let (mut house, _) = furnished();
    let sealed = house.node.reader().verify().unwrap();
    assert!(sealed.blocks > 3 && sealed.broken.is_none());
    let as_role = |role: &str, verb: &str| psql(house.database.url(), &format!("SET ROLE {role}; {verb}"));
    for verb in [
        "UPDATE pombo.audit SET entries = ''",
        "UPDATE pombo.audit SET at = 0",
        "UPDATE pombo.audit SET count = count + 1",
        "UPDATE pombo.audit SET batch = batch + 1000000",
        "UPDATE pombo.audit SET turn = turn + 1000000",
        "DELETE FROM pombo.audit",
        "DELETE FROM pombo.audit WHERE sequence = (SELECT max(sequence) FROM pombo.audit)",
        "TRUNCATE pombo.audit",
        "DELETE FROM pombo.audit_tip",
        "TRUNCATE pombo.audit_tip",
        "INSERT INTO pombo.audit_tip SELECT * FROM pombo.audit_tip",
        "ALTER TABLE pombo.audit DISABLE ROW LEVEL SECURITY",
        "DROP POLICY engine_seals ON pombo.audit",
        "DROP TABLE pombo.audit",
    ] {
        for role in ["pombo_engine", "pombo_reader", "pombo_app"] {
            let error = as_role(role, verb).expect_err(verb);
            let refused = error.contains("permission denied") || error.contains("must be owner");
            assert!(refused, "{role}: {verb}: {error}");
        }
    }
    // What is sealed stays as it was sealed, also by whoever seals.
    for verb in [
        "UPDATE pombo.audit SET hash = decode(repeat('00', 32), 'hex') WHERE sequence = 1",
        "UPDATE pombo.audit SET sequence = NULL, position = NULL, hash = NULL",
        "UPDATE pombo.audit SET position = position + 1000000",
    ] {
        let counted = format!("WITH changed AS ({verb} RETURNING 1) SELECT count(*) FROM changed");
        assert_eq!(as_role("pombo_engine", &counted).unwrap().trim(), "0", "{verb}");
    }
    assert_eq!(house.node.reader().verify().unwrap(), sealed);
    // And the work goes on.
    house.node.accept(&[of("acme")]);
    let after = house.node.reader().verify().unwrap();
    assert_eq!((after.blocks, after.broken), (sealed.blocks + 1, None));
}

#[test] // REQ AU-1
fn the_rights_of_an_older_version_are_taken_back() {
    let (mut house, _) = furnished();
    house.database.ask(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON pombo.audit, pombo.audit_tip TO pombo_engine;
         DROP POLICY engine_reads ON pombo.audit; DROP POLICY engine_adds ON pombo.audit; DROP POLICY engine_seals ON pombo.audit;
         CREATE POLICY engine ON pombo.audit FOR ALL TO pombo_engine USING (true) WITH CHECK (true);
         DELETE FROM pombo.meta WHERE name = 'surface'",
    );
    drop(
        Postgres::open(
            &Target::parse(house.database.url()).unwrap(),
            Dice::seeded(9),
            &[5; 32],
            Sealing::AtCommit,
        )
        .unwrap(),
    );
    for verb in
        ["DELETE FROM pombo.audit", "UPDATE pombo.audit SET entries = ''", "DELETE FROM pombo.audit_tip"]
    {
        let error = psql(house.database.url(), &format!("SET ROLE pombo_engine; {verb}")).expect_err(verb);
        assert!(error.contains("permission denied"), "{verb}: {error}");
    }
    house.node.accept(&[of("acme")]);
    assert_eq!(house.node.reader().verify().unwrap().broken, None);
}
