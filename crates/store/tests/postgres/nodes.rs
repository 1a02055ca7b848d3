//! Several nodes at once: they share what waits, and agree on what must be agreed on.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use pombo_kernel::block::Block;
use pombo_kernel::classify::Scope;
use pombo_kernel::dice::Dice;
use pombo_kernel::flow::Rate;
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Body, Draft, Json, StateName};
use pombo_kernel::name::Tenant;
use pombo_store::audit::{Event, Record};
use pombo_store::core::{Core, Reading};
use pombo_store::memory::Memory;
use pombo_store::{Ask, Cancelled, Claimed, Conflict, Counted, Filter, NodeId, Rates, Repeat, Settled};

use crate::node::{self, Node};
use crate::world::*;

/// More turns than any of these tests needs; one that needs more has gone astray.
pub(crate) const TURNS: usize = 100_000;

pub(crate) fn ids(taken: &[Claimed]) -> Vec<MessageId> {
    taken.iter().map(|claimed| claimed.message.id).collect()
}

/// Lets the nodes do that at the same time. None leaves before all are done, since the claims of one that leaves are
/// taken over.
pub(crate) fn together<T: Send>(mut nodes: Vec<Node>, work: impl Fn(usize, &mut Node) -> T + Sync) -> Vec<T> {
    node::together(&mut nodes, work)
}

/// The audit is whole, and tells of every message one story, without gaps and with one end.
fn replayed(records: &[(u64, Record)]) -> BTreeMap<MessageId, StateName> {
    let mut states = BTreeMap::new();
    for (n, (position, record)) in records.iter().enumerate() {
        assert_eq!(*position, n as u64);
        if let (Some(id), Some(to)) = (record.message, record.to) {
            assert_eq!(states.insert(id, to), record.from, "{record:?}");
        }
    }
    states
}

pub(crate) fn audited(node: &Node) -> Vec<(u64, Record)> {
    let mut reader = node.reader();
    assert_eq!(reader.verify().unwrap().broken, None);
    reader.audit(0, usize::MAX).unwrap()
}

fn tally(node: &Node, what: Counted) -> u64 {
    let tallies = node.reader().tallies().unwrap();
    tallies.iter().filter(|tally| tally.what == what).map(|tally| tally.count).sum()
}

// invariant 4
#[test]
fn ten_thousand_messages_are_claimed_by_four_nodes_each_exactly_once() {
    const MESSAGES: usize = 10_000;
    let database = migrated();
    let mut first = Node::on(&database, 1);
    let drafts: Vec<Draft> = (0..MESSAGES).map(|n| to(&format!("host-{}", n % 7))).collect();
    let accepted: BTreeSet<MessageId> = drafts.chunks(1_000).flat_map(|some| first.accept(some)).collect();
    let nodes = [first].into_iter().chain((2..=4).map(|n| Node::on(&database, n))).collect();
    let count = AtomicUsize::new(0);
    let taken = together(nodes, |_, node| {
        let mut mine = Vec::new();
        for _ in 0..TURNS {
            let taken = node.claim(50);
            count.fetch_add(taken.len(), Ordering::SeqCst);
            mine.extend(taken);
            if count.load(Ordering::SeqCst) >= MESSAGES {
                break;
            }
        }
        for some in mine.chunks(200) {
            assert!(node.settle_all(some, End::Sent).iter().all(|settled| *settled == Settled::Done));
        }
        ids(&mine)
    });
    assert!(taken.iter().all(|ids| !ids.is_empty()), "each had a share");
    let all: Vec<MessageId> = taken.into_iter().flatten().collect();
    assert_eq!((all.len(), all.iter().copied().collect::<BTreeSet<_>>()), (MESSAGES, accepted));

    let node = Node::on(&database, 5);
    let records = audited(&node);
    assert_eq!(records.len(), 3 * MESSAGES);
    let states = replayed(&records);
    assert!(states.len() == MESSAGES && states.values().all(|state| *state == StateName::Sent));
    let counted = [Counted::Accepted, Counted::Sent, Counted::Attempts].map(|what| tally(&node, what));
    assert_eq!(counted, [MESSAGES as u64; 3]);
    assert_eq!(database.ask("SELECT count(*) FROM pombo.ready"), "0");
    assert_eq!(database.ask("SELECT count(*) FROM pombo.claim"), "0");
}

#[test]
fn a_look_each_second_finds_what_others_put_there_and_a_whole_one_what_they_put_back() {
    let database = migrated();
    let (mut one, mut two) = (Node::on(&database, 1), Node::on(&database, 2));
    // Time passes, and no word comes from the other.
    let after = |node: &mut Node, span| {
        node.now = node.now + span;
        node.core.look(node.now).unwrap();
        node.claim_unaware(10)
    };
    two.accept(&[later(mins(60 * 24))]);
    assert_eq!(after(&mut one, secs(1)), [], "it waits for tomorrow");
    two.now = one.now;
    let now = two.accept(&[draft()]);
    assert_eq!(ids(&after(&mut one, secs(1))), now, "before what waits, in the same seat");
    two.now = one.now;
    let elsewhere = two.accept(&[to("other.example")]);
    assert_eq!(ids(&after(&mut one, secs(1))), elsewhere, "in a seat that was not known");
    two.now = one.now;
    let old = two.accept(&[draft()]);
    let taken = two.claim_unaware(10);
    two.now = one.now + secs(7);
    let newer = two.accept(&[draft()]);
    assert_eq!(ids(&after(&mut one, secs(7))), newer);
    assert_eq!(two.release(taken[0].key), Settled::Done);
    let found = (0..10).map(|_| after(&mut one, secs(1))).find(|taken| !taken.is_empty());
    assert_eq!(found.map(|taken| ids(&taken)), Some(old), "it was due before what was taken last");
}

// invariant 1
#[test]
fn ids_differ_between_nodes_that_have_the_same_dice_and_the_same_time() {
    let database = migrated();
    let nodes = (1..=4).map(|n| Node::on(&database, n)).collect();
    let ids = together(nodes, |_, node| node.accept(&vec![draft(); 500]));
    let ids: Vec<MessageId> = ids.into_iter().flatten().collect();
    assert_eq!(ids.iter().map(|id| id.key()).collect::<HashSet<_>>().len(), 2_000);
}

#[test]
fn what_one_node_accepts_another_sends_and_both_can_read() {
    let database = migrated();
    let (mut one, mut two) = (Node::on(&database, 1), Node::on(&database, 2));
    for destination in ["a", "b", "a"] {
        let accepted = one.accept(&[to(destination)]);
        let taken = two.claim(10);
        assert_eq!(ids(&taken), accepted);
        assert_eq!(one.claim(10), []);
        assert_eq!(two.settle(&taken[0], End::Sent), Settled::Done);
        for node in [&one, &two] {
            let story = node.reader().story(&Tenant::default(), accepted[0]).unwrap().unwrap();
            assert_eq!((story.state.name(), story.attempts.len()), (StateName::Sent, 1));
        }
    }
}

// REQ CF-7
#[test]
fn a_hold_that_one_node_sets_stops_the_very_next_claim_of_another() {
    let database = migrated();
    let (mut one, mut two) = (Node::on(&database, 1), Node::on(&database, 2));
    let waiting = one.accept(&vec![draft(); 3]);
    assert_eq!(two.claim(1).len(), 1, "it knows the queue before the hold");
    for place in [channel("crm"), destination("crm", "crm.example")] {
        one.block(&place, &by_operator(START));
        assert_eq!(two.claim_unaware(10), []);
        assert!(one.unblock(&place));
    }
    assert_eq!(ids(&two.claim_unaware(10)), waiting[1..], "and its end is obeyed as soon");
}

#[test]
fn of_a_hold_and_a_claim_at_the_same_time_one_comes_first() {
    let database = migrated();
    let place = channel("crm");
    for _ in 0..20 {
        let mut node = Node::on(&database, 1);
        node.accept(&vec![draft(); 5]);
        node.claim(0);
        let nodes = vec![Node::on(&database, 2), node];
        together(nodes, |n, node| match n {
            0 => node.block(&place, &by_operator(START)),
            _ => drop(node.claim(10)),
        });
        let mut node = Node::on(&database, 3);
        let records = audited(&node);
        let blocked = records.iter().rposition(|(_, record)| record.event == Event::Blocked).unwrap();
        let claimed = records.iter().rposition(|(_, record)| record.event == Event::Claimed);
        assert!(claimed.is_none_or(|claimed| claimed < blocked), "claimed behind a hold");
        assert!(node.unblock(&place));
        drop(node.claim(10));
    }
}

// REQ CF-7
#[test]
fn a_hold_is_probed_by_one_message_at_a_time_over_all_nodes() {
    let database = migrated();
    let (mut one, mut two) = (Node::on(&database, 1), Node::on(&database, 2));
    one.accept(&vec![draft(); 10]);
    let place = destination("crm", "crm.example");
    one.block(&place, &Block::hold("401".into(), 0, START));
    (one.now, two.now) = (START + mins(60), START + mins(60));
    let probe = two.claim(10);
    assert_eq!((probe.len(), failed(&probe[0])), (1, Some(0)));
    assert_eq!(one.claim(10), [], "another node's probe is on its way");
    assert_eq!(two.settle(&probe[0], End::Held(Scope::Destination)), Settled::Done);
    assert_eq!((one.claim(10), two.claim(10)), (vec![], vec![]), "not at once again");

    (one.now, two.now) = (START + mins(300), START + mins(300));
    let probe = one.claim(10);
    assert_eq!((probe.len(), failed(&probe[0])), (1, Some(1)));
    assert_eq!(two.claim(10), []);
    assert_eq!(one.settle(&probe[0], End::Sent), Settled::Done);
    assert!(!two.claim(10).is_empty(), "the way is free for everybody");
}

#[test]
fn nodes_that_race_for_a_probe_get_one() {
    let database = migrated();
    let mut nodes: Vec<Node> = (1..=4).map(|n| Node::on(&database, n)).collect();
    nodes[0].accept(&vec![draft(); 20]);
    nodes[0].block(&channel("crm"), &Block::hold("401".into(), 0, START));
    for node in &mut nodes {
        node.now = START + mins(60);
    }
    let taken = together(nodes, |_, node| (0..5).map(|_| node.claim(10).len()).sum::<usize>());
    assert_eq!(taken.iter().sum::<usize>(), 1);
}

#[test]
fn a_probe_whose_node_died_is_followed_by_another() {
    let database = migrated();
    let (mut one, mut two) = (Node::on(&database, 1), Node::on(&database, 2));
    one.accept(&vec![draft(); 3]);
    one.block(&channel("crm"), &Block::hold("401".into(), 0, START));
    (one.now, two.now) = (START + mins(60), START + mins(60));
    one.heartbeat(secs(60));
    assert_eq!(one.claim(10).len(), 1);
    drop(one);
    two.now = START + mins(62);
    let doubtful = two.take_over(10);
    assert_eq!(doubtful.len(), 1);
    assert_eq!(two.settle(&doubtful[0], End::Retry(secs(1))), Settled::Done);
    two.now = START + mins(600);
    assert_eq!(two.claim(10).len(), 1, "a hold does not wait for ever for a probe that nobody sends");
}

fn slowly(rate: Rate) -> Rates {
    [("crm".parse().unwrap(), rate)].into_iter().collect()
}

#[test]
fn a_probe_through_a_rate_waits_while_another_node_sends_there() {
    let (database, rates) = (migrated(), slowly(Rate::per_second(10)));
    let (mut one, mut two) = (Node::on(&database, 1), Node::on(&database, 2));
    one.accept(&vec![draft(); 3]);
    assert_eq!(one.claim_at(1, rates.clone()).len(), 1);
    one.block(&channel("crm"), &Block::hold("401".into(), 0, START));
    (one.now, two.now) = (START + mins(60), START + mins(60));
    two.look();
    let ask = Ask { node: NodeId(2), lane: Default::default(), max: 10, rates: rates.clone().into() };
    assert_eq!(two.core.claim(&ask, two.now).unwrap().len(), 1);
    assert_eq!(one.claim_at(10, rates.clone()), [], "the other has not committed");
    two.core.reopen().unwrap();
    one.now = one.now + secs(1);
    assert_eq!(one.claim_at(10, rates).len(), 1);
}

/// What one store alone would let through.
fn model(drafts: &[Draft]) -> Memory {
    let mut model = Memory::new(Dice::seeded(11));
    model.accept_all(drafts, START).unwrap();
    model
}

fn allowed(model: &mut Memory, rate: Rate, now: pombo_kernel::time::Time) -> usize {
    let rates = std::sync::Arc::new(slowly(rate));
    let ask = Ask { node: NodeId(9), lane: Default::default(), max: 100, rates };
    let taken = model.claim(&ask, now).unwrap().len();
    model.commit(now, &[7; 32]).unwrap();
    taken
}

// REQ CF-8
#[test]
fn a_rate_is_the_same_over_all_nodes_as_over_one() {
    let rate = Rate::per_second(10);
    let drafts = vec![draft(); 300];
    let (database, mut model) = (migrated(), model(&drafts));
    let mut nodes: Vec<Node> = (1..=3).map(|n| Node::on(&database, n)).collect();
    nodes[0].accept(&drafts);
    let mut sent = 0;
    for turn in 0..60 {
        let node = &mut nodes[turn % 3];
        node.now = START + pombo_kernel::time::Span::from_millis(turn as u64 * 130);
        let expected = allowed(&mut model, rate, node.now);
        node.look();
        let taken = node.claim_at(100, slowly(rate)).len();
        assert_eq!(taken, expected, "turn {turn}");
        sent += taken;
    }
    assert!((60..=80).contains(&sent), "{sent} in 7.7 s at 10 a second");
}

// REQ CF-8
#[test]
fn nodes_that_race_at_a_rate_do_not_exceed_it() {
    let rate = Rate::per_second(10);
    let drafts = vec![draft(); 300];
    let (database, mut model) = (migrated(), model(&drafts));
    let mut nodes: Vec<Node> = (1..=4).map(|n| Node::on(&database, n)).collect();
    nodes[0].accept(&drafts);
    let now = START + secs(5);
    for node in &mut nodes {
        node.now = now;
        node.look();
    }
    let expected = allowed(&mut model, rate, now);
    let taken =
        together(nodes, |_, node| (0..3).map(|_| node.claim_at(100, slowly(rate)).len()).sum::<usize>());
    assert_eq!(taken.iter().sum::<usize>(), expected);
}

// REQ ML-3, invariant 10
#[test]
fn an_idempotency_key_that_eight_nodes_race_for_gives_one_message() {
    let database = migrated();
    let nodes = (1..=8).map(|n| Node::on(&database, n)).collect();
    let answers = together(nodes, |_, node| {
        (0..20).map(|n| node.offer(&once(&format!("key-{n}"), 1)).unwrap()).collect::<Vec<_>>()
    });
    for n in 0..20 {
        let of_key: Vec<_> = answers.iter().map(|answers| &answers[n]).collect();
        assert!(of_key.iter().all(|accepted| accepted.id == of_key[0].id), "{of_key:?}");
        assert_eq!(of_key.iter().filter(|accepted| accepted.repeat == Repeat::First).count(), 1);
    }
    let mut node = Node::on(&database, 9);
    let first = answers[0][3].id;
    assert_eq!(node.offer(&once("key-3", 2)), Err(Conflict { first }));
    assert_eq!((tally(&node, Counted::Accepted), audited(&node).len()), (20, 20));
    assert_eq!(node.claim(100).len(), 20);
}

// REQ ML-6
#[test]
fn an_order_is_kept_from_node_to_node() {
    let database = migrated();
    let mut nodes = [Node::on(&database, 1), Node::on(&database, 2)];
    let accepted: Vec<MessageId> = (0..6).map(|n| nodes[n % 2].accept(&[in_order("k")]).remove(0)).collect();
    for (n, id) in accepted.into_iter().enumerate() {
        let taken = nodes[n % 2].claim(10);
        assert_eq!(ids(&taken), [id]);
        assert_eq!(nodes[(n + 1) % 2].claim(10), [], "the next one waits for it");
        assert_eq!(nodes[n % 2].settle(&taken[0], End::Sent), Settled::Done);
    }
}

// REQ ML-6
#[test]
fn an_order_is_kept_though_the_nodes_clocks_differ_a_little() {
    let database = migrated();
    let mut nodes = [Node::on(&database, 1), Node::on(&database, 2)];
    nodes[0].now = START + pombo_kernel::time::Span::from_millis(5);
    let accepted: Vec<MessageId> = (0..6).map(|n| nodes[n % 2].accept(&[in_order("k")]).remove(0)).collect();
    nodes[1].now = START + secs(1);
    for id in accepted {
        let taken = nodes[1].claim(10);
        assert_eq!(ids(&taken), [id]);
        nodes[1].settle(&taken[0], End::Sent);
    }
}

// REQ ML-6
#[test]
fn an_order_is_kept_by_nodes_that_race() {
    const MESSAGES: usize = 60;
    let database = migrated();
    let mut nodes: Vec<Node> = (1..=4).map(|n| Node::on(&database, n)).collect();
    let drafts: Vec<Draft> = (0..MESSAGES).map(|n| in_order(&format!("key-{}", n % 3))).collect();
    let accepted = nodes[0].accept(&drafts);
    let (sending, sent) = (Mutex::new(HashSet::new()), Mutex::new(Vec::new()));
    together(nodes, |_, node| {
        for _ in 0..TURNS {
            for claimed in node.claim(2) {
                let key = claimed.message.ordering_key.clone().unwrap();
                assert!(sending.lock().unwrap().insert(key.clone()), "two of {key} at once");
                sent.lock().unwrap().push(claimed.message.id);
                // Before the settlement that frees the next one.
                sending.lock().unwrap().remove(&key);
                assert_eq!(node.settle(&claimed, End::Sent), Settled::Done);
            }
            if sent.lock().unwrap().len() == MESSAGES {
                return;
            }
        }
    });
    let sent = sent.into_inner().unwrap();
    for k in 0..3 {
        let of_key = |all: &[MessageId]| -> Vec<MessageId> {
            let rank = |id: &MessageId| accepted.iter().position(|one| one == id).unwrap();
            all.iter().copied().filter(|id| rank(id) % 3 == k).collect()
        };
        assert_eq!(of_key(&sent), of_key(&accepted));
    }
}

// fault 47
#[test]
fn a_node_takes_over_from_one_whose_lease_has_ended_and_not_before() {
    let database = migrated();
    let (mut one, mut two) = (Node::on(&database, 1), Node::on(&database, 2));
    one.heartbeat(secs(60));
    two.heartbeat(mins(60));
    let accepted = one.accept(&vec![draft(); 5]);
    let old = one.claim(5);
    assert_eq!(two.take_over(10), []);
    two.now = START + secs(59);
    assert_eq!(two.take_over(10), []);
    two.now = START + secs(60);
    let taken = two.take_over(10);
    assert_eq!(ids(&taken), accepted);
    // The old holder comes back, and does not know.
    one.now = START + secs(61);
    let before = audited(&two).len();
    assert_eq!(one.settle(&old[0], End::Sent), Settled::Stale);
    assert_eq!(one.settle(&old[1], End::Held(Scope::Channel)), Settled::Stale);
    assert_eq!(one.release(old[2].key), Settled::Stale);
    assert_eq!(audited(&two).len(), before, "nothing was written");
    assert_eq!(one.reader().blocks().unwrap(), []);
    one.heartbeat(mins(60));
    assert_eq!((one.claim(10), one.take_over(10)), (vec![], vec![]));
    assert_eq!(two.settle_all(&taken, End::Sent), [Settled::Done; 5]);
    assert_eq!(tally(&one, Counted::Sent), 5);
}

#[test]
fn what_a_node_leaves_behind_is_taken_over_at_once() {
    let database = migrated();
    let (mut one, mut two) = (Node::on(&database, 1), Node::on(&database, 2));
    one.heartbeat(mins(60));
    let accepted = one.accept(&vec![draft(); 3]);
    assert_eq!(one.claim(3).len(), 3);
    assert_eq!(two.take_over(10), []);
    drop(one);
    assert_eq!(ids(&two.take_over(10)), accepted);
}

// fault 47
#[test]
fn nodes_that_race_to_take_over_get_each_message_once() {
    let database = migrated();
    let mut gone = Node::on(&database, 1);
    let accepted: BTreeSet<MessageId> = gone.accept(&vec![draft(); 200]).into_iter().collect();
    for _ in 0..20 {
        assert_eq!(gone.claim(10).len(), 10);
    }
    drop(gone);
    let mut nodes: Vec<Node> = (2..=5).map(|n| Node::on(&database, n)).collect();
    nodes.iter_mut().for_each(|node| node.heartbeat(mins(60)));
    let count = AtomicUsize::new(0);
    let taken = together(nodes, |_, node| {
        let mut mine = Vec::new();
        for _ in 0..TURNS {
            let taken = node.take_over(15);
            count.fetch_add(taken.len(), Ordering::SeqCst);
            mine.extend(ids(&taken));
            if count.load(Ordering::SeqCst) >= 200 {
                break;
            }
        }
        mine
    });
    let all: Vec<MessageId> = taken.into_iter().flatten().collect();
    assert_eq!((all.len(), all.into_iter().collect::<BTreeSet<_>>()), (200, accepted));
}

// fault 47
#[test]
fn a_settlement_that_races_with_a_takeover_wins_or_changes_nothing() {
    let database = migrated();
    for round in 0..20 {
        let mut one = Node::on(&database, 1);
        one.accept(&vec![draft(); 5]);
        let old = one.claim(5);
        assert_eq!(old.len(), 5);
        let nodes = vec![one, Node::on(&database, 2 + round)];
        let answers = together(nodes, |n, node| match n {
            0 => {
                old.iter().map(|claimed| usize::from(node.settle(claimed, End::Sent) == Settled::Done)).sum()
            }
            _ => {
                let taken = node.take_over(10);
                assert!(node.settle_all(&taken, End::Sent).iter().all(|settled| *settled == Settled::Done));
                taken.len()
            }
        });
        assert_eq!(answers.iter().sum::<usize>(), 5, "{answers:?}");
    }
    let node = Node::on(&database, 99);
    assert!(replayed(&audited(&node)).values().all(|state| *state == StateName::Sent));
    assert_eq!(tally(&node, Counted::Sent), 100);
}

// REQ ML-6, RP-6
#[test]
fn a_message_that_is_claimed_cancelled_and_expired_at_once_ends_once() {
    const MESSAGES: usize = 300;
    let database = migrated();
    let mut nodes: Vec<Node> = (1..=4).map(|n| Node::on(&database, n)).collect();
    let drafts: Vec<Draft> = (0..MESSAGES)
        .map(|n| Draft { ordering_key: n.is_multiple_of(3).then(|| format!("{}", n % 5)), ..until(secs(10)) })
        .collect();
    let accepted = nodes[0].accept(&drafts);
    let ended = AtomicUsize::new(0);
    let counts = together(nodes, |n, node| {
        let mut mine = 0;
        match n {
            0 => {
                for id in &accepted {
                    mine += usize::from(node.cancel(*id) == Cancelled::Done);
                }
                ended.fetch_add(mine, Ordering::SeqCst);
            }
            1 => {
                // Deadlines pass for this node first.
                node.now = START + secs(10);
                while ended.load(Ordering::SeqCst) < MESSAGES {
                    let count = node.expire(7);
                    mine += count;
                    ended.fetch_add(count, Ordering::SeqCst);
                }
            }
            _ => {
                while ended.load(Ordering::SeqCst) < MESSAGES {
                    let taken = node.claim(5);
                    let settled = node.settle_all(&taken, End::Sent);
                    assert!(settled.iter().all(|settled| *settled == Settled::Done));
                    mine += taken.len();
                    ended.fetch_add(taken.len(), Ordering::SeqCst);
                }
            }
        }
        mine as u64
    });
    let mut node = Node::on(&database, 9);
    let told = [Counted::Cancelled, Counted::Failed, Counted::Sent].map(|what| tally(&node, what));
    assert_eq!(told, [counts[0], counts[1], counts[2] + counts[3]]);
    assert_eq!(told.iter().sum::<u64>(), MESSAGES as u64);
    let states = replayed(&audited(&node));
    let ended = |state: &StateName| !matches!(state, StateName::Pending | StateName::Sending);
    assert!(states.len() == MESSAGES && states.values().all(ended));
    node.now = START + mins(60);
    assert_eq!((node.claim(10), node.expire(10), node.take_over(10)), (vec![], 0, vec![]));
    for table in ["ready", "claim", "expiry", "ordered"] {
        assert_eq!(database.ask(&format!("SELECT count(*) FROM pombo.{table}")), "0", "{table}");
    }
}

#[test]
fn counters_and_audit_are_those_of_all_nodes_together() {
    let database = migrated();
    let nodes: Vec<Node> = (1..=4).map(|n| Node::on(&database, n)).collect();
    together(nodes, |n, node| {
        for _ in 0..10 {
            node.accept(&[Draft { queue: queue("crm", &format!("host-{n}")), ..draft() }]);
            let taken = node.claim(1);
            node.settle_all(&taken, End::Retry(secs(0)));
        }
    });
    let mut node = Node::on(&database, 9);
    assert_eq!(tally(&node, Counted::Accepted), 40);
    let (attempts, retries) = (tally(&node, Counted::Attempts), tally(&node, Counted::Retries));
    assert!(attempts == retries && attempts > 0);
    let records = audited(&node);
    let of = |event: Event| records.iter().filter(|(_, record)| record.event == event).count() as u64;
    assert_eq!((of(Event::Accepted), of(Event::RetryScheduled)), (40, attempts));
    assert_eq!(of(Event::Claimed), attempts);
    replayed(&records);
    node.now = START + secs(1);
    assert_eq!(node.claim(100).len(), 40);
}

// fault 46
#[test]
fn a_claim_takes_no_more_than_it_asked_for_however_wrong_the_statistics_are() {
    let database = migrated();
    let mut node = Node::on(&database, 1);
    let left = || database.ask("SELECT count(*) FROM pombo.ready").parse::<usize>().unwrap();
    // Counted when there was nothing, and then when there was much more than there will be.
    database.ask("ANALYZE pombo.ready");
    node.accept(&vec![draft(); 3_000]);
    let mut before = left();
    for max in [7, 1, 100] {
        assert_eq!(node.claim(max).len(), max);
        assert_eq!(before - left(), max);
        before = left();
    }
    database.ask("ANALYZE pombo.ready");
    while left() > 20 {
        node.claim(500.min(left() - 20));
    }
    for max in [3, 9] {
        assert_eq!(node.claim(max).len(), max);
    }
    assert_eq!(left(), 8);
    // As if the planner were sure of a table without rows, or of one that is endless.
    for rows in ["0", "1e9"] {
        database.ask(&format!("UPDATE pg_class SET reltuples = {rows} WHERE relname = 'ready'"));
        let mut other = Node::on(&database, 2);
        assert_eq!(other.claim(2).len(), 2);
    }
    assert_eq!(left(), 4);
}

// fault 27
#[test]
fn giant_texts_and_texts_with_nul_go_from_node_to_node() {
    let database = migrated();
    let (mut one, mut two) = (Node::on(&database, 1), Node::on(&database, 2));
    // Not to be made smaller by compression, so that no index row could hold them.
    let mut dice = Dice::seeded(3);
    let noise: String =
        (0..20_000).filter_map(|_| char::from_u32(u32::try_from(dice.below(0x1000)).unwrap())).collect();
    for text in [noise, "\0".repeat(100_000), "a\0\u{1}0\u{1}".into()] {
        let body = Body {
            to: text.clone(),
            reference: Some(text.clone()),
            content: Some(Json::from_value(&serde_json::json!({ "text": text.repeat(100) }))),
            ..Body::default()
        };
        let draft = Draft {
            queue: queue("crm", &text),
            ordering_key: Some(text.clone()),
            body: body.clone(),
            ..once(&text, 1)
        };
        let id = one.accept(std::slice::from_ref(&draft)).remove(0);
        assert_eq!(two.offer(&draft).map(|accepted| (accepted.id, accepted.repeat)), Ok((id, Repeat::Same)));
        let place = destination("crm", &text);
        one.block(&place, &by_operator(START));
        assert_eq!(two.claim(10), []);
        assert_eq!(two.reader().blocks().unwrap()[0].0, place);
        assert!(two.unblock(&place));
        let taken = two.claim(10);
        assert_eq!(ids(&taken), [id]);
        assert_eq!(taken[0].message.body, body);
        assert_eq!(taken[0].message.queue.destination.as_ref(), text);
        assert_eq!(two.settle(&taken[0], End::Sent), Settled::Done);
        let filter = Filter { recipient: Some(text.clone()), reference: Some(text), ..Filter::default() };
        let page = one.reader().page(&filter, None, 10).unwrap();
        assert_eq!(page.lines.iter().map(|line| line.message.id).collect::<Vec<_>>(), [id]);
    }
}

#[test]
fn whoever_begins_anew_with_another_session_finds_free_what_it_had_locked() {
    let database = migrated();
    let mut node = Node::on(&database, 1);
    node.accept(&[draft(), draft()]);
    let ask = Ask { node: NodeId(1), lane: Default::default(), max: 9, rates: Default::default() };
    for round in 0..100 {
        let taken = node.core.claim(&ask, node.now).unwrap();
        assert_eq!(taken.len(), 2, "in round {round}");
        // Nothing is committed in between, so that each is given up for a new one.
        node.core.reopen().unwrap();
    }
}

#[test]
fn a_claim_does_not_read_again_what_was_taken_though_somebody_reads_for_long() {
    const BATCHES: usize = 100;
    let database = pombo_testbed::Cluster::shared().database();
    let mut node = Node::on(&database, 1);
    let (url, reader) =
        (database.url().to_owned(), "FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)'");
    let reads = thread::spawn(move || pombo_testbed::psql(&url, "SELECT pg_sleep(600)"));
    while database.ask(&format!("SELECT count(*) {reader} AND backend_xmin IS NOT NULL")) == "0" {
        assert!(!reads.is_finished());
    }
    for _ in 0..BATCHES {
        node.now = node.now + pombo_kernel::time::Span::from_millis(1);
        node.accept(&vec![draft(); BATCHES]);
    }
    for _ in 0..BATCHES {
        let taken = node.claim_unaware(BATCHES);
        assert_eq!(taken.len(), BATCHES);
        node.settle_all(&taken, End::Sent);
    }
    drop(node);
    database.ask(&format!("SELECT pg_terminate_backend(pid) {reader}"));
    assert!(reads.join().unwrap().is_err());
    // Its connection has counted by the time that it is gone.
    database.left_alone();
    const READ: &str = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'ready_pkey'";
    let read: usize = database.ask(READ).parse().unwrap();
    assert!((BATCHES * BATCHES..5 * BATCHES * BATCHES).contains(&read), "{read}");
}
