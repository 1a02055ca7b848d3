//! Whole stores: looked over, copied from one kind into the other and back, cut off on the way, backed up.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "moving/campaigns.rs"]
mod campaigns;
#[path = "moving/pausing.rs"]
mod pausing;
#[path = "moving/pruning.rs"]
mod pruning;
#[path = "moving/vault.rs"]
mod vault;
#[allow(dead_code, reason = "the suite of all stores uses the rest")]
#[path = "conformance/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::path::Path;

use pombo_kernel::attachment::Blob;
use pombo_kernel::block::Block;
use pombo_kernel::delivery::{Delivery, Report};
use pombo_kernel::dice::Dice;
use pombo_kernel::id::MessageId;
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{Actor, Body, Draft, FailureReason, Idempotency, StateName};
use pombo_kernel::name::Tenant;
use pombo_kernel::reply::Receipt;
use pombo_kernel::template::Template;
use pombo_kernel::time::{Span, Time};
use pombo_store::audit::Record;
use pombo_store::core::{Core, Reading};
use pombo_store::dead::{Act, Edit, Edited, Group, Revision, Ruled, Ruling};
use pombo_store::home::Home;
use pombo_store::moving::{Copied, MoveError, Moved, Table};
use pombo_store::postgres::{Postgres, Sealing, Target};
use pombo_store::roster::Recipient;
use pombo_store::shelf::{Doc, Expect, Leaf, Pick, Shelf, Shelve, Shelved, Wanted};
use pombo_store::sqlite::Sqlite;
use pombo_store::{
    Accepted, Ask, Backlog, By, Claimed, Filter, Line, Measured, NodeId, Pause, Place, Repeat, Reported,
    Settled, StatsWanted, Story, Tally, TemplateVersion,
};
use pombo_testbed::{Cluster, Database, Pooler};
use world::{End, START, draft, folder, in_order, later, mins, once, queue, secs, settlement, to, until};

const SECRET: [u8; 32] = [7; 32];
/// NUL, the character that stands before an escaped one, and a few that are nobody's business.
const ODD: &str = "\0a\u{1}0'ç\u{1}";

fn sqlite(folder: &Path) -> Sqlite {
    Sqlite::open(folder, Dice::seeded(3), &SECRET).unwrap()
}

fn postgres(database: &Database) -> Postgres {
    let target = Target::parse(database.url()).unwrap();
    Postgres::open(&target, Dice::seeded(3), &SECRET, Sealing::AtCommit).unwrap()
}

fn in_folder(folder: &Path) -> Home {
    folder.to_str().unwrap().parse().unwrap()
}

fn in_database(database: &Database) -> Home {
    database.url().parse().unwrap()
}

fn copied(from: &Home, to: &Home) -> Copied {
    from.copy_to(to, START, &mut |_| ()).unwrap()
}

/// A store at work.
struct Works<'a, C: Core> {
    core: &'a mut C,
    now: Time,
    commits: u64,
}

impl<C: Core> Works<'_, C> {
    fn commit(&mut self) {
        self.commits += 1;
        let mut entropy = [0; 32];
        entropy[..8].copy_from_slice(&self.commits.to_le_bytes());
        self.core.commit(self.now, &entropy).unwrap();
    }

    fn offer(&mut self, draft: Draft) -> Accepted {
        let accepted = self.core.accept(draft, self.now).unwrap().unwrap();
        self.commit();
        accepted
    }

    fn accept(&mut self, draft: Draft) -> MessageId {
        self.offer(draft).id
    }

    fn claim(&mut self, node: NodeId, max: usize) -> Vec<Claimed> {
        let ask = Ask { node, lane: "default".parse().unwrap(), max, rates: Default::default() };
        let claimed = self.core.claim(&ask, self.now).unwrap();
        self.commit();
        claimed
    }

    fn through(&mut self, draft: Draft, end: End) -> MessageId {
        let id = self.accept(draft);
        let claimed = self.claim(NodeId(1), 100);
        let [claimed] = &claimed[..] else { panic!("{claimed:?}") };
        assert_eq!(claimed.message.id, id);
        assert_eq!(self.core.settle(settlement(claimed, end, self.now), self.now).unwrap(), Settled::Done);
        self.commit();
        id
    }

    fn rule(&mut self, act: Act, id: MessageId) {
        let (tenant, by, note) = (Tenant::default(), Actor(ODD.into()), Some(ODD.into()));
        let ruling = Ruling { tenant, ids: vec![id], act, by, note, with: None };
        assert_eq!(self.core.rule(&ruling, self.now).unwrap(), Ok(vec![Ruled::Done]));
        self.commit();
    }

    /// Sent under that id of the provider's.
    fn sent_as(&mut self, draft: Draft, provider_id: &str) -> MessageId {
        let id = self.accept(draft);
        let claimed = self.claim(NodeId(1), 100).pop().unwrap();
        let mut done = settlement(&claimed, End::Sent, self.now);
        done.next = Next::Sent(Receipt { provider_id: Some(provider_id.into()), ..Receipt::default() });
        assert_eq!(self.core.settle(done, self.now).unwrap(), Settled::Done);
        self.commit();
        id
    }
}

fn works<C: Core>(core: &mut C) -> Works<'_, C> {
    Works { core, now: START, commits: 0 }
}

/// What a furnished store has that a test asks after.
#[derive(Debug)]
struct Scene {
    sent: MessageId,
    retrying: MessageId,
    once: MessageId,
    dying: Vec<MessageId>,
    first: MessageId,
    second: MessageId,
    /// It was reprocessed, and goes after the second.
    again: MessageId,
}

fn report(provider_id: &str) -> Report {
    Report {
        provider_id: provider_id.into(),
        delivery: Delivery::Delivered,
        at: Some(START),
        detail: Some(ODD.into()),
    }
}

fn with_file(mut draft: Draft) -> Draft {
    let blob = Blob::of(vec![7u8; 100_000]);
    draft.blobs.push(blob);
    draft
}

/// Brings every table something, and messages into every state.
fn furnish(core: &mut impl Core) -> Scene {
    let mut w = works(core);
    let ana = Actor("ana".into());
    for text in ["one", "two"] {
        let template = Template { text: Some(text.into()), ..Template::default() };
        w.core.put_template(&Tenant::default(), &"welcome".parse().unwrap(), template, &ana, START).unwrap();
    }
    for (tenant, shelf, id) in
        [("default", Shelf::Webhook, ODD), ("acme", Shelf::Cursor, "c"), ("acme", Shelf::Cursor, "d")]
    {
        let leaf = Leaf { order: 3, topic: Some(ODD.into()), due: Some(START), body: format!("{ODD:?}") };
        let tenant = tenant.parse().unwrap();
        let mut wish =
            Shelve { shelf, tenant, id: id.into(), expect: Expect::Nothing, leaf: Some(leaf), record: None };
        assert_eq!(w.core.shelve(&wish, START).unwrap(), Shelved::Done { version: 1 });
        wish.expect = Expect::Version(1);
        wish.leaf = Some(Leaf { order: i64::MIN, topic: None, due: None, body: "{}".into() });
        if id == "d" {
            assert_eq!(w.core.shelve(&wish, START).unwrap(), Shelved::Done { version: 2 });
        }
    }
    w.commit();
    let flying = campaigns::furnish(&mut w);
    let sent = w.sent_as(with_file(draft()), ODD);
    let reports = w.core.report(&"crm".parse().unwrap(), &report(ODD), w.now).unwrap();
    assert!(matches!(reports, Reported::Moved { .. }));
    let dead = w.through(draft(), End::Failed(FailureReason::PermanentError));
    let edit = Edit {
        tenant: Tenant::default(),
        id: dead,
        version: 1,
        queue: queue("crm", ODD),
        body: Body { to: ODD.into(), ..Body::default() },
        blobs: Vec::new(),
        by: Actor(ODD.into()),
        note: Some(ODD.into()),
    };
    assert_eq!(w.core.edit(&edit, START).unwrap(), Edited::Done { version: 2 });
    let given_up = w.through(draft(), End::Failed(FailureReason::PermanentError));
    w.rule(Act::Discard, given_up);
    let again = w.through(in_order("line"), End::Failed(FailureReason::PermanentError));
    let retrying = w.through(draft(), End::Retry(mins(5)));
    let cancelled = w.accept(later(mins(60)));
    w.core.cancel(&Tenant::default(), cancelled, &ana, w.now).unwrap();
    w.commit();
    w.accept(later(mins(90)));
    w.accept(Draft { send_at: Some(START + mins(50)), ..until(mins(55)) });
    // Another tenant's, on another channel and under names with everything in them.
    let mut odd = Draft { send_at: Some(START + mins(40)), ..to(ODD) };
    odd.queue.tenant = "acme".parse().unwrap();
    odd.queue.campaign = Some("spring".parse().unwrap());
    odd.ordering_key = Some(ODD.into());
    odd.idempotency = Some(Idempotency { key: ODD.into(), fingerprint: [1; 16] });
    odd.body =
        Body { to: ODD.into(), reference: Some(ODD.into()), kind: Some(ODD.into()), ..Body::default() };
    w.accept(odd);
    let once = w.accept(Draft { send_at: Some(START + mins(45)), ..once("order-1", 3) });
    // Held: nobody goes there.
    let place = Place { channel: "mail".parse().unwrap(), destination: None };
    w.core.block(&place, Block::operator(ODD.into(), w.now), &ana, w.now).unwrap();
    let place = Place { channel: "mail".parse().unwrap(), destination: Some("a.example".into()) };
    w.core.block(&place, Block::operator("one of them".into(), w.now), &ana, w.now).unwrap();
    w.commit();
    w.accept(Draft { queue: queue("mail", "a.example"), ..draft() });
    let first = w.accept(in_order("line"));
    let second = w.accept(in_order("line"));
    w.rule(Act::Reprocess, again);
    // Of three that are claimed together, one is given back; the others are being sent when the process ends.
    let dying: Vec<MessageId> = (0..3).map(|_| w.accept(draft())).collect();
    let claimed = w.claim(NodeId(9), 100);
    assert_eq!(claimed.len(), 4);
    for back in claimed.iter().filter(|claimed| [dying[0], first].contains(&claimed.message.id)) {
        assert_eq!(w.core.release(back.key, w.now).unwrap(), Settled::Done);
    }
    w.commit();
    let dying = [&[flying], &dying[1..]].concat();
    Scene { sent, retrying, once, dying, first, second, again }
}

/// Everything that can be read of a store.
#[derive(Debug, PartialEq)]
struct Portrait {
    stories: BTreeMap<MessageId, Story>,
    by_recipient: Vec<MessageId>,
    by_reference: Vec<MessageId>,
    dead: Vec<MessageId>,
    groups: Vec<Group>,
    revisions: Vec<Revision>,
    tallies: Vec<Tally>,
    stats: Vec<Measured>,
    backlog: Vec<Backlog>,
    audit: Vec<(u64, Record)>,
    docs: Vec<Doc>,
    recipients: Vec<Recipient>,
    blocks: Vec<(Place, Block)>,
    templates: Vec<TemplateVersion>,
    paused: Option<Pause>,
}

fn portrait(core: &impl Core) -> Portrait {
    let mut reader = core.reader().unwrap();
    let acme: Tenant = "acme".parse().unwrap();
    let mut stories = BTreeMap::new();
    for tenant in [Tenant::default(), acme.clone()] {
        let lines: Vec<Line> =
            reader.page(&Filter { tenant: tenant.clone(), ..Filter::default() }, None, 1_000).unwrap().lines;
        for line in lines {
            let id = line.message.id;
            stories.insert(id, reader.story(&tenant, id).unwrap().unwrap());
        }
    }
    let mut listed = |filter: Filter| -> Vec<MessageId> {
        reader.page(&filter, None, 1_000).unwrap().lines.iter().map(|line| line.message.id).collect()
    };
    Portrait {
        by_recipient: listed(Filter {
            tenant: acme.clone(),
            recipient: Some(ODD.into()),
            ..Filter::default()
        }),
        by_reference: listed(Filter { tenant: acme, reference: Some(ODD.into()), ..Filter::default() }),
        dead: listed(Filter { state: Some(StateName::Failed), ..Filter::default() }),
        groups: reader.groups(&Tenant::default(), 10).unwrap(),
        revisions: stories.keys().flat_map(|id| reader.revisions(&Tenant::default(), *id).unwrap()).collect(),
        stories,
        tallies: {
            let mut tallies = reader.tallies().unwrap();
            tallies.sort();
            tallies
        },
        stats: {
            let every = StatsWanted { tenant: None, since: Time::default(), until: Time::MAX, by: By::Hour };
            reader.stats(&every).unwrap()
        },
        backlog: reader.backlog(START + mins(60)).unwrap(),
        audit: reader.audit(0, 100_000).unwrap(),
        docs: Shelf::ALL
            .into_iter()
            .flat_map(|shelf| {
                let all = Wanted { shelf, tenant: None, pick: Pick::All { after: None }, limit: 100 };
                reader.docs(&all).unwrap()
            })
            .collect(),
        recipients: campaigns::recipients(&mut reader),
        blocks: {
            let mut blocks = reader.blocks().unwrap();
            blocks.sort_by(|one, two| one.0.cmp(&two.0));
            blocks
        },
        templates: reader
            .template_versions(&Tenant::default(), &"welcome".parse().unwrap(), None, 10)
            .unwrap(),
        paused: reader.paused().unwrap(),
    }
}

/// A copy does what the original would have done.
fn goes_on(core: &mut impl Core, scene: &Scene) {
    let mut w = Works { core, now: START + mins(1), commits: 1_000 };
    // What was being sent is in doubt, and nothing else is.
    let lost = w.core.take_over(NodeId(5), 10, w.now).unwrap();
    w.commit();
    assert_eq!(lost.iter().map(|claimed| claimed.message.id).collect::<Vec<_>>(), scene.dying);
    for claimed in &lost {
        assert_eq!(w.core.settle(settlement(claimed, End::Sent, w.now), w.now).unwrap(), Settled::Done);
    }
    w.commit();
    campaigns::goes_on(&mut w);
    // A request that was made before is the same message.
    let again = w.offer(Draft { send_at: Some(START + mins(45)), ..once("order-1", 3) });
    assert_eq!(again, Accepted { id: scene.once, repeat: Repeat::Same });
    assert!(w.core.accept(once("order-1", 4), w.now).unwrap().is_err(), "another request under the same key");
    // A report still finds its message: this one is known already.
    assert_eq!(w.core.report(&"crm".parse().unwrap(), &report(ODD), w.now).unwrap(), Reported::Kept);
    let read = Report { delivery: Delivery::Read, ..report(ODD) };
    let moved = w.core.report(&"crm".parse().unwrap(), &read, w.now).unwrap();
    assert!(matches!(moved, Reported::Moved { id, .. } if id == scene.sent), "{moved:?}");
    w.commit();
    // A document is changed from the version that it had.
    let (shelf, tenant, leaf) = (Shelf::Cursor, "acme".parse().unwrap(), None);
    let gone = Shelve { shelf, tenant, id: "d".into(), expect: Expect::Version(2), leaf, record: None };
    assert_eq!(w.core.shelve(&gone, w.now).unwrap(), Shelved::Done { version: 2 });
    w.commit();
    // The order holds: the second goes when the first has gone. Behind the hold nothing goes.
    let mut taken = w.claim(NodeId(5), 100);
    let due: Vec<MessageId> = taken.iter().map(|claimed| claimed.message.id).collect();
    taken.retain(|claimed| claimed.message.id == scene.first);
    assert!(due.contains(&scene.first) && !due.contains(&scene.second), "{due:?}");
    assert_eq!(due.len(), 2, "the first of the order, and the one that was given back: {due:?}");
    // Then the one that came back to the order, in its second round.
    for id in [scene.first, scene.second, scene.again] {
        let Some(claimed) = taken.pop().or_else(|| w.claim(NodeId(5), 1).pop()) else { panic!("{id}") };
        assert_eq!(claimed.message.id, id);
        assert_eq!(claimed.progress.round, u16::from(id == scene.again));
        assert_eq!(w.core.settle(settlement(&claimed, End::Sent, w.now), w.now).unwrap(), Settled::Done);
        w.commit();
    }
    // A retry comes when it was to come, and knows how often it was tried.
    w.now = START + mins(6);
    let due = w.claim(NodeId(5), 100);
    let [retry] = &due[..] else { panic!("{due:?}") };
    assert_eq!((retry.message.id, retry.progress.attempts, retry.progress.steps), (scene.retrying, 1, 1));
    // A new message is newer than all of them.
    let new = w.accept(draft());
    assert!(new.key() > scene.second.key());
    // Deadlines are known.
    w.now = START + mins(60);
    assert_eq!(w.core.expire(10, w.now).unwrap(), 1);
    w.commit();
    assert_eq!(w.core.reader().unwrap().verify().unwrap().broken, None);
}

fn furnished_folder() -> (tempfile::TempDir, Scene, Portrait) {
    let home = folder();
    let mut core = sqlite(home.path());
    let scene = furnish(&mut core);
    let portrait = portrait(&core);
    (home, scene, portrait)
}

fn healthy(home: &Home) {
    let found = home.check(&mut |_| ()).unwrap();
    assert_eq!(found.faults, []);
    assert!(
        found.audit_records > 0 && found.rows.iter().any(|row| row.table == Table::Message && row.count > 0)
    );
}

#[test] // REQ OB-5, promise 8
fn a_store_that_went_to_postgresql_and_back_is_the_store_that_it_was() {
    let (home, scene, before) = furnished_folder();
    let (database, back) = (Cluster::shared().database(), folder());
    let there = copied(&in_folder(home.path()), &in_database(&database));
    assert!(!there.resumed && there.paused.is_none());
    assert!(
        there.tables.iter().all(|it| it.source == it.target && (it.source > 0 || it.table == Table::Aside)),
        "{there:?}"
    );
    assert_eq!(there.audit_records, before.audit.len() as u64);
    assert_eq!(portrait(&postgres(&database)), before);
    let here = copied(&in_database(&database), &in_folder(&back.path().join("store")));
    assert_eq!((here.audit_tip, here.audit_records), (there.audit_tip, there.audit_records));
    let mut core = sqlite(&back.path().join("store"));
    assert_eq!(portrait(&core), before);
    goes_on(&mut core, &scene);
    drop(core);
    healthy(&in_folder(&back.path().join("store")));
}

#[test] // promise 8
fn a_store_that_went_to_postgresql_goes_on_there() {
    let (home, scene, _) = furnished_folder();
    let database = Cluster::shared().database();
    copied(&in_folder(home.path()), &in_database(&database));
    let mut core = postgres(&database);
    goes_on(&mut core, &scene);
    drop(core);
    healthy(&in_database(&database));
}

#[test]
fn a_store_of_postgresql_goes_on_in_a_folder_and_in_another_database() {
    let database = Cluster::shared().database();
    let mut core = postgres(&database);
    let scene = furnish(&mut core);
    let before = portrait(&core);
    drop(core);
    healthy(&in_database(&database));
    let (home, other) = (folder(), Cluster::shared().database());
    copied(&in_database(&database), &in_database(&other));
    let mut core = postgres(&other);
    assert_eq!(portrait(&core), before);
    goes_on(&mut core, &scene);
    drop(core);
    // The first one is paused by then, and so is a copy of it.
    let copy = copied(&in_database(&database), &in_folder(home.path()));
    assert!(copy.paused.is_some());
    let mut core = sqlite(home.path());
    assert_eq!(portrait(&core), Portrait { paused: copy.paused, ..before });
    core.resume(&Actor("ana".into()), START).unwrap();
    goes_on(&mut core, &scene);
}

/// Copies until so many pieces are written, and no further.
fn cut_off(from: &Home, to: &Home, after: usize) {
    let mut pieces = 0;
    let copy = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        from.copy_to(to, START, &mut |_: Moved| {
            pieces += 1;
            assert!(pieces < after, "cut off on purpose");
        })
    }));
    assert!(copy.is_err(), "it came to its end");
}

#[test]
fn a_copy_that_is_cut_off_anywhere_goes_on_where_it_was() {
    let (home, scene, before) = furnished_folder();
    let from = in_folder(home.path());
    let (target, database) = (folder(), Cluster::shared().database());
    for to in [in_folder(target.path()), in_database(&database)] {
        for after in 1..=16 {
            cut_off(&from, &to, after.min(3));
            let refused = match &to {
                Home::Embedded(folder) => {
                    Sqlite::open(folder, Dice::seeded(1), &SECRET).map(drop).unwrap_err()
                }
                Home::Postgres(target) => {
                    Postgres::open(target, Dice::seeded(1), &SECRET, Sealing::AtCommit).map(drop).unwrap_err()
                }
            };
            assert!(refused.to_string().contains("`pombo store copy` again"), "{refused}");
            let found = to.check(&mut |_| ()).unwrap();
            assert!(found.faults[0].what.contains("did not come to its end"), "{found:?}");
            if after == 5 {
                break;
            }
        }
        let rest = copied(&from, &to);
        assert!(rest.resumed);
    }
    let mut core = sqlite(target.path());
    // It was paused when its messages went elsewhere for the first time, before it was copied again.
    core.resume(&Actor("ana".into()), START).unwrap();
    goes_on(&mut core, &scene);
    assert_eq!(portrait(&postgres(&database)).stories, before.stories);
}

#[test]
fn a_copy_is_refused_where_it_could_do_harm() {
    let (home, ..) = furnished_folder();
    let from = in_folder(home.path());
    let copy = |from: &Home, to: &Home| from.copy_to(to, START, &mut |_| ()).unwrap_err();
    // Into a store that has something.
    let (full, ..) = furnished_folder();
    works(&mut sqlite(full.path())).accept(draft());
    assert!(matches!(copy(&from, &in_folder(full.path())), MoveError::NotEmpty { .. }));
    let database = Cluster::shared().database();
    furnish(&mut postgres(&database));
    assert!(matches!(copy(&from, &in_database(&database)), MoveError::NotEmpty { .. }));
    // From a store, and into one, that somebody uses.
    let used = sqlite(full.path());
    assert!(matches!(copy(&in_folder(full.path()), &in_folder(folder().path())), MoveError::InUse(_)));
    assert!(matches!(copy(&from, &in_folder(full.path())), MoveError::InUse(_)));
    drop(used);
    let used = postgres(&database);
    assert!(matches!(copy(&in_database(&database), &in_folder(folder().path())), MoveError::InUse(_)));
    drop(used);
    // From nothing.
    let empty = folder();
    assert!(matches!(copy(&in_folder(empty.path()), &in_folder(folder().path())), MoveError::NoStore(_)));
    assert!(!empty.path().join("pombo.db").exists());
    let bare = Cluster::shared().database();
    assert!(matches!(copy(&in_database(&bare), &in_folder(folder().path())), MoveError::NoStore(_)));
    // Onto a part of a copy of something else.
    let target = folder();
    cut_off(&from, &in_folder(target.path()), 3);
    assert!(matches!(copy(&in_folder(full.path()), &in_folder(target.path())), MoveError::OtherCopy(_)));
    works(&mut sqlite(home.path())).accept(draft());
    assert!(
        matches!(copy(&from, &in_folder(target.path())), MoveError::OtherCopy(_)),
        "it has changed since"
    );
    // From a part of a copy.
    assert!(matches!(copy(&in_folder(target.path()), &in_folder(folder().path())), MoveError::OtherCopy(_)));
}

#[test]
fn what_applications_handed_in_by_sql_is_not_left_behind() {
    let database = Cluster::shared().database();
    furnish(&mut postgres(&database));
    database
        .ask("INSERT INTO pombo.inbox (key, nonce, tenant, request) VALUES (5, 6, 'default', '{\"a\": 1}')");
    let refused =
        in_database(&database).copy_to(&in_folder(folder().path()), START, &mut |_| ()).unwrap_err();
    assert!(matches!(refused, MoveError::NotTakenIn { count: 1, .. }), "{refused}");
    // A backup has it, and brings it back to where it can be taken in.
    let (safe, again) = (folder(), Cluster::shared().database());
    let safe = safe.path().join("backup");
    in_database(&database).back_up(&safe, START, &mut |_| ()).unwrap();
    copied(&in_folder(&safe), &in_database(&again));
    assert_eq!(again.ask("SELECT key, nonce, tenant, request FROM pombo.inbox"), "5|6|default|{\"a\": 1}");
}

#[test] // fault 10
fn a_damaged_file_is_reported_and_so_is_a_message_that_is_nowhere() {
    let (home, ..) = furnished_folder();
    let here = in_folder(home.path());
    let db = rusqlite::Connection::open(home.path().join("pombo.db")).unwrap();
    let faults = |home: &Home| -> Vec<String> {
        home.check(&mut |_| ()).unwrap().faults.into_iter().map(|fault| fault.what).collect()
    };
    let one = |sql: &str, said: &str| {
        db.execute_batch("SAVEPOINT damage").unwrap();
        db.execute_batch(sql).unwrap();
        db.execute_batch("RELEASE damage").unwrap();
        let found = faults(&here);
        assert!(found.iter().any(|fault| fault.contains(said)), "{said}: {found:?}");
    };
    one(
        "DELETE FROM ready WHERE key = (SELECT min(key) FROM ready)",
        "neither finished nor waiting nor being sent",
    );
    one("UPDATE ready SET steps = steps + 1", "at another step");
    one("DELETE FROM ordered WHERE active = 1", "not exactly one message may go");
    one("DELETE FROM blob", "without an attachment");
    one("UPDATE tally SET count = count + 1 WHERE what = 38", "as many messages waiting as were counted");
    one("UPDATE cause SET count = count + 1", "as many dead letters as were counted");
    one("DELETE FROM dead_letter", "missing among the dead letters");
    one("INSERT INTO dead_letter SELECT min(key), 1 FROM message", "there without having failed");
    campaigns::WRONG.into_iter().for_each(|(sql, said)| one(sql, said));
    one("UPDATE audit SET count = count + 1 WHERE sequence = 3", "audit block 3");
    drop(db);
    let path = home.path().join("pombo.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8_192].fill(0xAA);
    std::fs::write(&path, bytes).unwrap();
    assert!(faults(&here).iter().any(|fault| fault.contains("the file is damaged")), "{:?}", faults(&here));
}

#[test] // fault 10
fn what_does_not_fit_together_in_a_database_is_reported() {
    let database = Cluster::shared().database();
    furnish(&mut postgres(&database));
    let home = in_database(&database);
    healthy(&home);
    let one = |sql: &str, said: &str| {
        database.ask(&format!("SET search_path = pombo; {sql}"));
        let found = home.check(&mut |_| ()).unwrap().faults;
        assert!(found.iter().any(|fault| fault.what.contains(said)), "{said}: {found:?}");
    };
    one(
        "UPDATE tally_added SET count = count + 1 WHERE what = 38",
        "as many messages waiting as were counted",
    );
    one(
        "DELETE FROM ready WHERE key = (SELECT min(key) FROM ready)",
        "neither finished nor waiting nor being sent",
    );
    one("UPDATE ready SET steps = steps + 1", "at another step");
    one("DELETE FROM ordered WHERE active", "not exactly one message may go");
    one("UPDATE cause_added SET count = count + 1", "as many dead letters as were counted");
    one("DELETE FROM dead_letter", "missing among the dead letters");
    one("INSERT INTO dead_letter SELECT min(key), 1, 'default' FROM message", "there without having failed");
    campaigns::WRONG.into_iter().for_each(|(sql, said)| one(sql, said));
    one("UPDATE audit SET count = count + 1 WHERE sequence = 3", "audit block 3");
}

#[test]
fn places_are_read_as_people_write_them() {
    let folder = |text: &str| match text.parse().unwrap() {
        Home::Embedded(folder) => folder.display().to_string(),
        Home::Postgres(target) => panic!("{}", target.shown()),
    };
    assert_eq!(folder("./pombo-data"), "./pombo-data");
    assert_eq!(folder("sqlite:/var/lib/pombo"), "/var/lib/pombo");
    let database: Home = "postgres://ana:secret@db.example:5433/pombo".parse().unwrap();
    assert!(matches!(database, Home::Postgres(_)));
    assert!(!database.to_string().contains("secret") && !format!("{database:?}").contains("secret"));
    for bad in ["", "sqlite:", "mysql://db.example/pombo", "https://example.com"] {
        assert!(bad.parse::<Home>().is_err(), "{bad}");
    }
}

#[test]
fn an_old_store_is_migrated_before_it_is_copied() {
    let home = folder();
    let db = rusqlite::Connection::open(home.path().join("pombo.db")).unwrap();
    db.execute_batch(include_str!("golden/sqlite-1.sql")).unwrap();
    drop(db);
    let here = in_folder(home.path());
    assert_eq!(here.schema().unwrap(), Some(1));
    let target = folder();
    let refused = here.copy_to(&in_folder(target.path()), START, &mut |_| ()).unwrap_err();
    assert!(matches!(refused, MoveError::Schema { have: 1, .. }), "{refused}");
    assert!(matches!(here.check(&mut |_| ()).unwrap_err(), MoveError::Schema { .. }));
    assert_eq!(here.schema().unwrap(), Some(1), "nobody asked for a change");
    let now = here.migrate(&SECRET).unwrap();
    assert_eq!(here.schema().unwrap(), Some(now));
    copied(&here, &in_folder(target.path()));
    let empty = folder();
    assert_eq!(in_folder(&empty.path().join("none")).schema().unwrap(), None);
    assert!(!empty.path().join("none").exists());
}

#[test]
fn thousands_of_rows_move_in_pieces() {
    let home = folder();
    let mut core = sqlite(home.path());
    let mut w = works(&mut core);
    for n in 0..7_000 {
        let due = START + Span::from_secs(n);
        w.core.accept(Draft { send_at: Some(due), ..draft() }, START).unwrap().unwrap();
    }
    // More than one piece by weight.
    let text = "x".repeat(3_000_000);
    for n in 0..4 {
        let body = Body { to: format!("{n}{text}"), ..Body::default() };
        w.core.accept(Draft { send_at: Some(START + secs(9_000)), body, ..draft() }, START).unwrap().unwrap();
    }
    w.commit();
    drop(core);
    let (database, back) = (Cluster::shared().database(), folder());
    let mut told = Vec::new();
    in_folder(home.path()).copy_to(&in_database(&database), START, &mut |moved| told.push(moved)).unwrap();
    assert!(told.iter().filter(|moved| moved.table == Table::Message).count() >= 4, "{told:?}");
    assert!(told.iter().all(|moved| moved.rows <= moved.of) && told.last().unwrap().rows == told[0].of);
    copied(&in_database(&database), &in_folder(back.path()));
    let mut core = sqlite(back.path());
    core.resume(&Actor("ana".into()), START).unwrap();
    let mut w = Works { core: &mut core, now: START + secs(10_000), commits: 0 };
    assert_eq!(w.claim(NodeId(1), 10_000).len(), 7_004);
}

#[test]
fn a_store_behind_a_transaction_pooler_is_copied_backed_up_and_looked_over() {
    let (home, scene, _) = furnished_folder();
    let cluster = Cluster::shared();
    let (pooler, database) = (Pooler::start(cluster, ""), cluster.database());
    let pooled: Home = format!("{}?pooler=transaction", pooler.url(&database)).parse().unwrap();
    copied(&in_folder(home.path()), &pooled);
    healthy(&pooled);
    let kept = folder();
    let kept = kept.path().join("backup");
    pooled.back_up(&kept, START, &mut |_| ()).unwrap();
    goes_on(&mut postgres(&database), &scene);
    let mut core = sqlite(&kept);
    core.resume(&Actor("ana".into()), START).unwrap();
    goes_on(&mut core, &scene);
}
