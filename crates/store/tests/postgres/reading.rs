//! What is read of a store that grew for long and that many write to, and verbs that several nodes call at once.

use std::thread;

use pombo_kernel::attachment::Blob;
use pombo_kernel::delivery::{Delivery, Report};
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{Actor, Body, Draft, StateName};
use pombo_kernel::name::Tenant;
use pombo_kernel::reply::Receipt;
use pombo_kernel::template::Template;
use pombo_store::audit::Event;
use pombo_store::core::{Core, Reading};
use pombo_store::{Counted, Filter, Put, Repeat, Reported, StoreError};
use pombo_testbed::Database;

use crate::node::Node;
use crate::world::*;

const DAY: u64 = 24 * 60;

/// Lets four nodes on that database do something at the same time; what each of them got.
fn four<T: Send>(database: &Database, work: impl Fn(i64, &mut Node) -> T + Sync) -> Vec<T> {
    let nodes: Vec<_> = (1..=4).map(|n| (n, Node::on(database, n))).collect();
    thread::scope(|scope| {
        let work = &work;
        let start = |(n, mut node)| scope.spawn(move || work(n, &mut node));
        let threads: Vec<_> = nodes.into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn listed(reader: &mut impl Reading, filter: &Filter, limit: usize) -> Vec<MessageId> {
    let (mut all, mut before): (Vec<MessageId>, Option<MessageKey>) = (Vec::new(), None);
    loop {
        let page = reader.page(filter, before, limit).unwrap();
        all.extend(page.lines.iter().map(|line| line.message.id));
        let Some(next) = page.next else { return all };
        before = Some(next);
    }
}

/// Sends one message through that node, under that id of the provider's.
fn sent(node: &mut Node, provider_id: &str) -> MessageId {
    let id = node.accept(&[draft()])[0];
    let claimed = node.claim(1).remove(0);
    let mut done = settlement(&claimed, End::Sent, node.now);
    done.next = Next::Sent(Receipt { provider_id: Some(provider_id.into()), ..Receipt::default() });
    node.group(|core, now| core.settle(done.clone(), now));
    id
}

fn report(node: &mut Node, id: &str, delivery: Delivery) -> Reported {
    let report = Report { provider_id: id.into(), delivery, detail: None, at: None };
    node.group(|core, now| core.report(&"crm".parse().unwrap(), &report, now))
}

#[test]
fn messages_of_a_year_are_found_by_recipient_by_reference_and_by_their_death() {
    let database = migrated();
    let mut node = Node::on(&database, 1);
    let draft = |to: &str, reference: &str| Draft {
        body: Body { to: to.into(), reference: Some(reference.into()), ..Body::default() },
        ..draft()
    };
    let (mut to_ana, mut of_case) = (Vec::new(), Vec::new());
    for day in 0..25 {
        let reference = if day % 2 == 0 { "case 7" } else { "other" };
        let drafts = [draft("ana", reference), draft("ana", "other"), draft("bruno", reference)];
        let ids = node.accept(&drafts);
        to_ana.extend([ids[0], ids[1]]);
        if day % 2 == 0 {
            of_case.extend([ids[0], ids[2]]);
        }
        node.now = node.now + mins(15 * DAY);
    }
    let claimed = node.claim(3);
    let mut dead: Vec<_> = claimed.iter().map(|it| it.message.id).collect();
    node.settle_all(&claimed, End::Failed(pombo_kernel::message::FailureReason::PermanentError));
    for ids in [&mut to_ana, &mut of_case, &mut dead] {
        ids.sort();
        ids.reverse();
    }
    let mut reader = node.reader();
    let ana = Filter { recipient: Some("ana".into()), ..Filter::default() };
    let case = Filter { reference: Some("case 7".into()), ..Filter::default() };
    let failed = Filter { state: Some(StateName::Failed), ..Filter::default() };
    for limit in [1, 7, 100] {
        assert_eq!(listed(&mut reader, &ana, limit), to_ana);
        assert_eq!(listed(&mut reader, &case, limit), of_case);
        assert_eq!(listed(&mut reader, &failed, limit), dead);
    }
    let (since, until) = (START + mins(100 * DAY), START + mins(200 * DAY));
    let within = Filter { since: Some(since), until: Some(until), ..ana };
    let expected: Vec<_> =
        to_ana.iter().copied().filter(|id| (since..until).contains(&id.key().time())).collect();
    assert_eq!((listed(&mut reader, &within, 3), expected.len()), (expected, 14));
    let nobody = Filter { recipient: Some("carla".into()), ..Filter::default() };
    assert_eq!(listed(&mut reader, &nobody, 10), []);
}

#[test]
fn nodes_that_put_a_template_at_once_make_versions_without_gaps() {
    let database = migrated();
    let put = |node: &mut Node, words: String| -> Put {
        let template = Template { text: Some(words), ..Template::default() };
        let (tenant, name, by) = (Tenant::default(), "welcome".parse().unwrap(), Actor("ana".into()));
        node.group(|core, now| core.put_template(&tenant, &name, template.clone(), &by, now))
    };
    let versions = four(&database, |n, node| -> Vec<u32> {
        (0..10).map(|turn| put(node, format!("{turn} of {n}")).stored.version).collect()
    });
    let mut all = versions.concat();
    all.sort_unstable();
    assert_eq!(all, (1..=40).collect::<Vec<u32>>());
    let same = four(&database, |_, node| put(node, "the same".into()));
    assert!(same.iter().all(|put| put.stored.version == 41));
    assert_eq!(same.iter().filter(|put| put.repeat == Repeat::First).count(), 1);
    let mut reader = Node::on(&database, 5).reader();
    let records = reader.audit(0, usize::MAX).unwrap();
    assert_eq!(records.iter().filter(|(_, record)| record.event == Event::TemplatePut).count(), 41);
}

// REQ ML-9
#[test]
fn nodes_that_hear_of_one_message_at_once_take_it_forward_step_by_step() {
    let database = migrated();
    let mut first = Node::on(&database, 9);
    let id = sent(&mut first, "a");
    const SAID: [Delivery; 6] = [
        Delivery::Accepted,
        Delivery::Failed,
        Delivery::Delivered,
        Delivery::Bounced,
        Delivery::Read,
        Delivery::Complained,
    ];
    let answers = four(&database, |_, node| SAID.map(|said| report(node, "a", said)));
    let mut moves: Vec<_> = answers
        .concat()
        .into_iter()
        .filter_map(|answer| match answer {
            Reported::Moved { id: moved, from, to } => {
                assert_eq!(moved, id);
                Some((from, to))
            }
            Reported::Kept => None,
            Reported::Unknown => panic!("it was sent"),
        })
        .collect();
    moves.sort();
    // Each move begins where the one before ended: nobody moved it from a place where it was no more.
    let mut stands = None;
    for (from, to) in &moves {
        assert_eq!(*from, stands, "{moves:?}");
        stands = Some(*to);
    }
    assert_eq!(stands, Some(Delivery::Complained));
    let mut reader = first.reader();
    let story = reader.story(&Tenant::default(), id).unwrap().unwrap();
    assert_eq!(story.delivery.map(|word| word.state), stands);
    let tallies = reader.tallies().unwrap();
    let counted = SAID.map(|said| {
        let of = |tally: &&pombo_store::Tally| tally.what == Counted::of(said);
        tallies.iter().filter(of).map(|tally| tally.count).sum::<u64>()
    });
    assert_eq!(counted.iter().sum::<u64>(), moves.len() as u64);
}

#[test]
fn a_report_finds_a_message_that_was_sent_long_ago() {
    let database = migrated();
    let mut node = Node::on(&database, 1);
    let old = sent(&mut node, "old");
    node.now = node.now + mins(90 * DAY);
    let again = sent(&mut node, "old");
    let new = sent(&mut node, "new");
    let moved = |id| Reported::Moved { id, from: None, to: Delivery::Read };
    assert_eq!(report(&mut node, "new", Delivery::Read), moved(new));
    assert_eq!(report(&mut node, "old", Delivery::Read), moved(again), "the last that was sent under it");
    assert_eq!(report(&mut node, "never", Delivery::Read), Reported::Unknown);
    let story = node.reader().story(&Tenant::default(), old).unwrap().unwrap();
    assert_eq!(story.delivery, None);
}

// REQ ML-10
#[test]
fn attachments_that_nodes_accept_at_once_are_stored_once() {
    let database = migrated();
    let blobs: Vec<Blob> = (0..5).map(|n| Blob::of(vec![n; 10_000])).collect();
    four(&database, |n, node| {
        for turn in 0..10 {
            let mut blobs = blobs.clone();
            blobs.rotate_left(usize::try_from(n + turn).unwrap() % 5);
            node.accept(&[Draft { blobs: blobs.clone(), ..draft() }, Draft { blobs, ..draft() }]);
        }
    });
    assert_eq!(database.ask("SET ROLE pombo_engine; SELECT count(*) FROM pombo.blob"), "5");
    assert_eq!(database.ask("SET ROLE pombo_engine; SELECT count(*) FROM pombo.blob_use"), "400");
    let mut reader = Node::on(&database, 5).reader();
    for blob in &blobs {
        assert_eq!(reader.blob(blob.digest).unwrap().as_ref(), Some(&blob.bytes));
    }
}

#[test]
fn a_reader_that_lost_its_connection_takes_another() {
    let database = migrated();
    let mut node = Node::on(&database, 1);
    let id = node.accept(&[draft()])[0];
    let mut reader = node.reader();
    let mut read = || reader.story(&Tenant::default(), id).map(|story| story.unwrap().message.id);
    assert_eq!(read(), Ok(id));
    database.ask(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    // It may notice only now, and says so; the next one finds it gone.
    let first = read();
    assert!(matches!(&first, Ok(found) if *found == id) || matches!(&first, Err(StoreError::Unavailable(_))));
    assert_eq!(read(), Ok(id));
}

/// Locks every message until somebody waits for one, ten seconds at most, and ends what that session asks, as the server
/// does when its time is over.
const CANCEL_WHO_WAITS: &str = "DO $$
    DECLARE waits int;
    BEGIN
      LOCK TABLE pombo.message IN ACCESS EXCLUSIVE MODE;
      FOR look IN 1..1000 LOOP
        PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
        SELECT pid INTO waits FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock' LIMIT 1;
        EXIT WHEN waits IS NOT NULL;
      END LOOP;
      PERFORM pg_cancel_backend(waits);
    END $$";

#[test] // RELIABILITY 38
fn a_read_that_the_server_ends_says_that_it_took_too_long_and_the_next_one_is_whole() {
    let database = migrated();
    let mut node = Node::on(&database, 1);
    let id = node.accept(&[draft()])[0];
    let mut reader = node.reader();
    let mut read = || reader.story(&Tenant::default(), id).map(|story| story.unwrap().message.id);
    let ended = thread::scope(|scope| {
        let server = scope.spawn(|| database.ask(CANCEL_WHO_WAITS));
        let mut told = read();
        while told.is_ok() && !server.is_finished() {
            told = read();
        }
        told
    });
    assert_eq!(ended, Err(StoreError::TooLong));
    assert_eq!(read(), Ok(id));
}
