//! Several operators, on several nodes, about the same dead letters at once.

use std::collections::BTreeMap;

use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Actor, Body, FailureReason, StateName};
use pombo_kernel::name::Tenant;
use pombo_store::audit::Event;
use pombo_store::core::{Core, Reading};
use pombo_store::dead::{Act, Edit, Edited, Hastened, Ruled, Ruling};
use pombo_store::{Cancelled, Counted, Filter, Settled};
use pombo_testbed::Database;

use crate::node::{Node, together};
use crate::world::*;

fn dead(node: &mut Node, count: usize) -> Vec<MessageId> {
    let ids = node.accept(&vec![draft(); count]);
    let taken = node.claim(count);
    assert_eq!(taken.len(), count);
    let ended = node.settle_all(&taken, End::Failed(FailureReason::PermanentError));
    assert!(ended.iter().all(|settled| *settled == Settled::Done));
    ids
}

fn rule(node: &mut Node, act: Act, ids: &[MessageId]) -> Vec<Ruled> {
    let ruling = Ruling {
        tenant: Tenant::default(),
        ids: ids.to_vec(),
        act,
        by: Actor("ana".into()),
        note: None,
        with: None,
    };
    node.group(|core, now| core.rule(&ruling, now)).unwrap()
}

fn on(database: &Database, count: i64) -> Vec<Node> {
    (1..=count).map(|n| Node::on(database, n)).collect()
}

fn count_of(node: &Node) -> Vec<u64> {
    let groups = node.reader().groups(&Tenant::default(), 10).unwrap();
    groups.iter().map(|group| group.count).collect()
}

fn recorded(node: &Node, event: Event) -> BTreeMap<MessageId, usize> {
    let mut counted = BTreeMap::new();
    for (_, record) in node.reader().audit(0, usize::MAX).unwrap() {
        if let Some(id) = record.message.filter(|_| record.event == event) {
            *counted.entry(id).or_default() += 1;
        }
    }
    counted
}

// REQ DL-3, fault 62
#[test]
fn letters_that_two_nodes_reprocess_at_once_go_once() {
    let database = migrated();
    let mut nodes = on(&database, 2);
    let ids = dead(&mut nodes[0], 200);
    // Each in an order of its own, and in pieces.
    let ruled = together(&mut nodes, |n, node| {
        let mut ids = ids.clone();
        if n == 1 {
            ids.reverse();
        }
        let mut verdicts = BTreeMap::new();
        for some in ids.chunks(23) {
            verdicts.extend(some.iter().copied().zip(rule(node, Act::Reprocess, some)));
        }
        verdicts
    });
    for id in &ids {
        let answers = [ruled[0][id], ruled[1][id]];
        assert_eq!(answers.iter().filter(|answer| **answer == Ruled::Done).count(), 1, "{answers:?}");
        assert!(answers.contains(&Ruled::NotDead(StateName::Pending)), "{answers:?}");
    }
    let node = &mut nodes[1];
    assert_eq!(count_of(node), [0; 0]);
    assert!(recorded(node, Event::Reprocessed).into_values().all(|times| times == 1));
    let taken = node.claim(1_000);
    assert_eq!(taken.len(), ids.len());
    assert!(taken.iter().all(|claimed| claimed.progress.round == 1));
}

// REQ DL-3, fault 62
#[test]
fn of_a_reprocess_and_a_discard_at_once_one_is_done() {
    let database = migrated();
    let mut nodes = on(&database, 2);
    let ids = dead(&mut nodes[0], 60);
    let ruled = together(&mut nodes, |n, node| {
        let act = if n == 0 { Act::Reprocess } else { Act::Discard };
        ids.iter().map(|id| rule(node, act, &[*id])[0]).collect::<Vec<_>>()
    });
    let mut reprocessed = 0;
    for (n, id) in ids.iter().enumerate() {
        let state = nodes[0].reader().story(&Tenant::default(), *id).unwrap().unwrap().state.name();
        match (ruled[0][n], ruled[1][n]) {
            (Ruled::Done, Ruled::NotDead(StateName::Pending)) => {
                reprocessed += 1;
                assert_eq!(state, StateName::Pending);
            }
            (Ruled::NotDead(StateName::Discarded), Ruled::Done) => assert_eq!(state, StateName::Discarded),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(nodes[0].claim(100).len(), reprocessed);
}

// REQ DL-3
#[test]
fn of_edits_of_one_version_at_once_one_is_done() {
    let database = migrated();
    let mut nodes = on(&database, 4);
    let id = dead(&mut nodes[0], 1)[0];
    let edited = together(&mut nodes, |n, node| {
        let edit = Edit {
            tenant: Tenant::default(),
            id,
            version: 1,
            queue: queue("crm", &format!("host-{n}.example")),
            body: Body { to: format!("number {n}"), ..Body::default() },
            blobs: Vec::new(),
            by: Actor(format!("operator {n}")),
            note: None,
        };
        node.group(|core, now| core.edit(&edit, now))
    });
    let done = edited.iter().position(|edited| *edited == Edited::Done { version: 2 }).unwrap();
    let late = edited.iter().filter(|edited| **edited == Edited::Stale { version: 2 }).count();
    assert_eq!(late, 3, "{edited:?}");
    let mut reader = nodes[0].reader();
    let story = reader.story(&Tenant::default(), id).unwrap().unwrap();
    assert_eq!((story.version, story.message.body.to.clone()), (2, format!("number {done}")));
    let revisions = reader.revisions(&Tenant::default(), id).unwrap();
    assert_eq!((revisions.len(), revisions[0].by.0.clone()), (1, format!("operator {done}")));
}

#[test]
fn letters_of_one_cause_that_many_nodes_make_and_take_away_are_counted_right() {
    let database = migrated();
    let mut nodes = on(&database, 4);
    together(&mut nodes, |n, node| {
        for _ in 0..10 {
            let ids = node.accept(&vec![to(&format!("host-{n}")); 5]);
            let mut taken = node.claim(20);
            taken.retain(|claimed| {
                node.settle(claimed, End::Failed(FailureReason::PermanentError)) == Settled::Done
            });
            rule(node, Act::Discard, &ids[..2]);
        }
        for claimed in node.claim(1_000) {
            node.settle(&claimed, End::Failed(FailureReason::PermanentError));
        }
    });
    let mut reader = nodes[0].reader();
    let failed = Filter { state: Some(StateName::Failed), ..Filter::default() };
    let left = reader.page(&failed, None, 1_000).unwrap().lines.len();
    assert!(left > 100, "{left}");
    assert_eq!(count_of(&nodes[0]), [left as u64]);
    // A count is kept by each process, and one that is gone leaves its own to nobody.
    let one = nodes.remove(0);
    drop(nodes);
    assert_eq!(count_of(&one), [left as u64]);
    assert_eq!(database.ask("SELECT count(*) FROM pombo.dead_letter"), left.to_string());
}

#[test]
fn of_two_who_hasten_and_one_who_cancels_nobody_is_told_a_lie() {
    for _ in 0..15 {
        let database = migrated();
        let mut nodes = on(&database, 3);
        let ids = nodes[0].accept(
            &vec![until(mins(90)); 4]
                .into_iter()
                .map(|it| pombo_kernel::message::Draft { send_at: Some(START + mins(60)), ..it })
                .collect::<Vec<_>>(),
        );
        let told = together(&mut nodes, |n, node| {
            let by = Actor("ana".into());
            let mut told = Vec::new();
            for id in &ids {
                match n {
                    2 => told.push((None, Some(node.cancel(*id)))),
                    _ => {
                        let tenant = Tenant::default();
                        let hastened = node.group(|core, now| core.hasten(&tenant, *id, &by, now));
                        told.push((Some(hastened), None));
                    }
                }
            }
            told
        });
        for (n, id) in ids.iter().enumerate() {
            assert_eq!(told[2][n].1, Some(Cancelled::Done), "it waited all the time");
            for who in &told[..2] {
                let fits = [Some(Hastened::Done), Some(Hastened::NotWaiting(StateName::Cancelled))];
                assert!(fits.contains(&who[n].0), "{:?}", who[n].0);
            }
            let story = nodes[0].reader().story(&Tenant::default(), *id).unwrap().unwrap();
            assert_eq!(story.state.name(), StateName::Cancelled);
        }
        assert_eq!(nodes[0].claim(10), []);
        assert_eq!(database.ask("SELECT count(*) FROM pombo.ready"), "0");
        assert_eq!(database.ask("SELECT count(*) FROM pombo.expiry"), "0");
    }
}

// REQ DL-3, fault 62
#[test]
fn a_message_that_one_node_reprocesses_another_sends() {
    let database = migrated();
    let mut nodes = on(&database, 2);
    let [id] = dead(&mut nodes[0], 1)[..] else { panic!("one") };
    assert_eq!(nodes[1].claim(10), []);
    assert_eq!(rule(&mut nodes[0], Act::Reprocess, &[id]), [Ruled::Done]);
    let taken = nodes[1].claim(10);
    assert_eq!((taken[0].message.id, taken[0].progress.keyed), (id, 1));
    assert_eq!(nodes[1].settle(&taken[0], End::Failed(FailureReason::PermanentError)), Settled::Done);
    // It failed there, and is dealt with here.
    assert_eq!(count_of(&nodes[0]), [1]);
    assert_eq!(rule(&mut nodes[0], Act::Discard, &[id]), [Ruled::Done]);
    assert_eq!(count_of(&nodes[1]), [0; 0]);
    let tallies = nodes[0].reader().tallies().unwrap();
    let of = |what| tallies.iter().filter(|tally| tally.what == what).map(|tally| tally.count).sum::<u64>();
    assert_eq!((of(Counted::Failed), of(Counted::Reprocessed), of(Counted::Discarded)), (2, 1, 1));
}
