//! Campaigns of several nodes: one message of each is on its way, whoever sends it, and the pace is everybody's.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use pombo_kernel::block::Block;
use pombo_kernel::campaign::line::LineRules;
use pombo_kernel::campaign::recipient::{Listed, Person, Refusal, Standing};
use pombo_kernel::campaign::{Campaign, PauseReason, StateName as Course};
use pombo_kernel::classify::Scope;
use pombo_kernel::message::{Actor, Body, Draft, Json, QueueName, StateName};
use pombo_kernel::name::{CampaignName, Tenant};
use pombo_kernel::time::{Span, Time};
use pombo_store::core::{Core, Reading};
use pombo_store::postgres::Postgres;
use pombo_store::roster::{self, Enlist, Enlisted, Feed, Recipient, Roster, Serving};
use pombo_store::shelf::{Expect, Shelf, Shelve, Shelved};
use pombo_store::{Ask, Claimed, NodeId, Place, Rates, Settled, StoreError};
use pombo_testbed::{Cluster, Database, psql};

use crate::node::Node;
use crate::nodes::{TURNS, audited, ids, together};
use crate::tenants::Plain;
use crate::upgrade::SCHEMA_1;
use crate::world::*;

/// What is drawn with the least chance, as settlements here have it.
const WAIT: Span = Span::from_secs(15);

fn name(campaign: &str) -> CampaignName {
    campaign.parse().unwrap()
}

fn person(number: u64) -> Listed {
    let payload = Json::from_text(format!("{{\"n\":{number}}}")).ok();
    Listed { line: number, of: Ok(Person { to: format!("to {number}"), key: format!("p{number}"), payload }) }
}

fn draft_of(campaign: &str, number: u64) -> Draft {
    let destination = if number.is_multiple_of(2) { "b.example" } else { "a.example" };
    let queue = QueueName { campaign: Some(name(campaign)), ..queue("crm", destination) };
    Draft { queue, body: Body { to: format!("to {number}"), ..Body::default() }, ..draft() }
}

impl Node {
    fn campaign(&self, campaign: &str) -> Campaign {
        let doc = self.reader().doc(Shelf::Campaign, &Tenant::default(), campaign).unwrap();
        roster::read(&doc.unwrap()).unwrap()
    }

    fn put(&mut self, campaign: &str, expect: Expect, to: &Campaign) -> bool {
        let (shelf, tenant, id) = (Shelf::Campaign, Tenant::default(), campaign.to_owned());
        let wish = Shelve { shelf, tenant, id, expect, leaf: Some(roster::leaf(to)), record: None };
        matches!(self.group(|core, now| core.shelve(&wish, now)), Shelved::Done { .. })
    }

    /// Changes a campaign as doors do: again, as often as somebody else was quicker.
    fn change(&mut self, campaign: &str, change: impl Fn(&mut Campaign, Time)) {
        let mut reader = self.reader();
        for _ in 0..TURNS {
            let doc = reader.doc(Shelf::Campaign, &Tenant::default(), campaign).unwrap().unwrap();
            let mut changed = roster::read(&doc).unwrap();
            change(&mut changed, self.now);
            if self.put(campaign, Expect::Version(doc.version), &changed) {
                return;
            }
        }
        panic!("somebody else was quicker every time");
    }

    fn pause(&mut self, campaign: &str) {
        let by = Actor("ana".into());
        self.change(campaign, |it, now| it.pause(PauseReason::Operator, String::new(), &by, now).unwrap());
    }

    fn enlist(&mut self, campaign: &str, lines: &[Listed]) -> Vec<Enlisted> {
        let (campaign, by) = (name(campaign), Actor("ana".into()));
        let wish = Enlist { tenant: Tenant::default(), campaign, lines: lines.to_vec(), by };
        self.group(|core, now| core.enlist(&wish, now)).unwrap()
    }

    /// A campaign that runs, to so many people, all of whose messages wait.
    fn run(&mut self, campaign: &str, people: u64) {
        let text = r#"{"name": "Spring", "channel": "crm", "lane": "default", "template": "spring",
            "template_version": 1, "created_at": "2026-05-01T12:00:00Z", "created_by": "ana", "state": "draft"}"#;
        assert!(self.put(campaign, Expect::Nothing, &serde_json::from_str(text).unwrap()));
        self.enlist(campaign, &(1..=people).map(person).collect::<Vec<_>>());
        self.change(campaign, |campaign, now| campaign.start(now).unwrap());
        let serving = |number| (number, Serving::Message(Box::new(draft_of(campaign, number))));
        let servings = (1..=people).map(serving).collect();
        let feed = Feed { tenant: Tenant::default(), campaign: name(campaign), servings };
        self.group(|core, now| core.feed(&feed, now)).unwrap();
    }

    fn recipients(&self, campaign: &str) -> Vec<Recipient> {
        let (tenant, campaign) = (Tenant::default(), name(campaign));
        let all = Roster { tenant, campaign, standing: None, after: 0, limit: usize::MAX };
        self.reader().recipients(&all).unwrap()
    }
}

fn two_nodes() -> (Database, Node, Node) {
    let database = migrated();
    let (one, two) = (Node::on(&database, 1), Node::on(&database, 2));
    (database, one, two)
}

fn all_sent(node: &Node, campaign: &str) {
    let it = node.campaign(campaign);
    let people = it.roll.recipients;
    assert_eq!((it.state.name(), it.roll.sent, it.flight), (Course::Completed, people, None));
    assert!(node.recipients(campaign).iter().all(|recipient| recipient.standing == Standing::Sent));
}

#[test] // REQ BK-1, invariant 9
fn nodes_take_turns_at_the_pace_of_one() {
    let (_database, mut one, mut two) = two_nodes();
    one.run("cmp_a", 6);
    for turn in 0..6 {
        let taken = if turn % 2 == 0 { one.claim(10) } else { two.claim(10) };
        assert_eq!(taken.len(), 1, "turn {turn}");
        assert_eq!((one.claim(10), two.claim(10)), (vec![], vec![]), "one at a time");
        assert_eq!((one.claim_unaware(10), two.claim_unaware(10)), (vec![], vec![]));
        (one.now, two.now) = (one.now + secs(2), two.now + secs(2));
        let holder = if turn % 2 == 0 { &mut one } else { &mut two };
        assert_eq!(holder.settle(&taken[0], End::Sent), Settled::Done);
        let early = one.now + Span::from_millis(WAIT.millis() - 1);
        (one.now, two.now) = (early, early);
        assert_eq!((one.claim(10), two.claim(10)), (vec![], vec![]), "not before the wait is over");
        let free = early + Span::from_millis(1);
        (one.now, two.now) = (free, free);
    }
    all_sent(&two, "cmp_a");
}

#[test] // REQ BK-1, invariant 9
fn a_node_that_has_heard_nothing_keeps_the_pace() {
    let (_database, mut one, mut two) = two_nodes();
    one.run("cmp_a", 3);
    two.look();
    let taken = one.claim(10);
    assert_eq!((taken.len(), two.claim_unaware(10)), (1, vec![]), "it believes that all may go");
    assert_eq!(one.settle(&taken[0], End::Sent), Settled::Done);
    two.look();
    (one.now, two.now) = (START + WAIT, START + WAIT);
    let taken = one.claim(10);
    assert_eq!(one.settle(&taken[0], End::Sent), Settled::Done);
    assert_eq!(two.claim_unaware(10), [], "the wait after a send that it has not heard of");
    (one.now, two.now) = (START + WAIT + WAIT, START + WAIT + WAIT);
    assert_eq!(two.claim_unaware(10).len(), 1, "what it read when it tried tells when to try again");
}

#[test] // REQ BK-1, BK-4, invariant 9
fn nodes_that_race_send_one_at_a_time_at_the_pace_and_each_once() {
    const PEOPLE: usize = 30;
    let database = migrated();
    let mut nodes: Vec<Node> = (1..=4).map(|n| Node::on(&database, n)).collect();
    nodes[0].run("cmp_a", PEOPLE as u64);
    let clock = AtomicU64::new(0);
    let sends = Mutex::new(Vec::new());
    let flying = AtomicBool::new(false);
    together(nodes, |_, node| {
        for _ in 0..TURNS {
            node.now = START + Span::from_millis(clock.fetch_add(500, Ordering::SeqCst));
            for claimed in node.claim(5) {
                assert!(!flying.swap(true, Ordering::SeqCst), "two at once");
                node.now = (START + Span::from_millis(clock.load(Ordering::SeqCst))).max(node.now + secs(1));
                sends.lock().unwrap().push((claimed.message.id, claimed.claimed_at, node.now));
                flying.store(false, Ordering::SeqCst);
                assert_eq!(node.settle(&claimed, End::Sent), Settled::Done);
            }
            if sends.lock().unwrap().len() == PEOPLE {
                return;
            }
        }
    });
    let sends = sends.into_inner().unwrap();
    for pair in sends.windows(2) {
        let [(_, _, ended), (_, began, _)] = pair else { panic!("{pair:?}") };
        assert!(*began >= *ended + WAIT, "{began} follows {ended}");
    }
    let mut messages: Vec<_> = sends.iter().map(|(id, ..)| *id).collect();
    messages.sort_unstable();
    messages.dedup();
    assert_eq!(messages.len(), PEOPLE);
    all_sent(&Node::on(&database, 9), "cmp_a");
}

#[test] // REQ BK-4
fn a_pause_that_was_acknowledged_is_not_overrun_by_another_node() {
    let (_database, mut one, mut two) = two_nodes();
    one.run("cmp_a", 3);
    two.look();
    one.pause("cmp_a");
    assert_eq!(two.claim_unaware(10), [], "it has heard nothing, and asks");
    one.change("cmp_a", |campaign, now| campaign.start(now).unwrap());
    assert_eq!(two.claim(10).len(), 1, "a look tells that it goes on");
    all_but_flying_wait(&two, "cmp_a", 2);
}

fn all_but_flying_wait(node: &Node, campaign: &str, waiting: usize) {
    let states = node.recipients(campaign).into_iter().map(|it| {
        node.reader().story(&Tenant::default(), it.message.unwrap()).unwrap().unwrap().state.name()
    });
    assert_eq!(states.filter(|state| *state == StateName::Pending).count(), waiting);
}

#[test] // REQ BK-4
fn nothing_sets_out_after_a_pause_whoever_races() {
    let database = migrated();
    for round in 0..10 {
        let campaign = format!("cmp_{round}");
        let mut nodes: Vec<Node> = (1..=3).map(|n| Node::on(&database, n)).collect();
        nodes[0].run(&campaign, 200);
        let paused = AtomicBool::new(false);
        let sent = AtomicU64::new(0);
        together(nodes, |n, node| {
            let mut tries = 0;
            while tries < 5 {
                // Far enough for the wait to be over, whoever sent last.
                node.now = node.now + secs(60);
                let over = paused.load(Ordering::SeqCst);
                // Some are left for whoever pauses, however late it gets its turn.
                if !over && n != 0 && sent.load(Ordering::SeqCst) >= 100 {
                    node.group(|_, _| Ok(()));
                    continue;
                }
                let taken = node.claim(5);
                assert!(!over || taken.is_empty(), "sent after the pause");
                for claimed in &taken {
                    assert_eq!(node.settle(claimed, End::Sent), Settled::Done);
                    sent.fetch_add(1, Ordering::SeqCst);
                }
                if n == 0 && !over && sent.load(Ordering::SeqCst) >= 3 {
                    node.pause(&campaign);
                    paused.store(true, Ordering::SeqCst);
                }
                tries += u32::from(over);
            }
        });
        let node = Node::on(&database, 9);
        let it = node.campaign(&campaign);
        assert_eq!((it.state.name(), it.roll.sent), (Course::Paused, sent.load(Ordering::SeqCst)));
    }
}

/// A group as the shell writes it; `work` also hears which try it is. Nobody met another such that the server had to end it.
fn without_deadlock(node: &mut Node, work: impl Fn(&mut Postgres, u8) -> Result<(), StoreError>) {
    for attempt in 0..10 {
        let done = work(&mut node.core, attempt).and_then(|()| node.core.commit(START, &[attempt; 32]));
        match done {
            Ok(_) => return,
            Err(StoreError::Again(why)) if !why.contains("40P01") => node.core.reopen().unwrap(),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("it met others ten times in a row");
}

fn feed_again(core: &mut Postgres, campaign: &str) -> Result<(), StoreError> {
    let servings = vec![(1, Serving::Message(Box::new(draft_of(campaign, 1))))];
    let feed = Feed { tenant: Tenant::default(), campaign: name(campaign), servings };
    core.feed(&feed, START)?.unwrap();
    Ok(())
}

#[test]
fn two_who_settle_for_one_campaign_and_feed_another_do_not_wait_for_each_other() {
    let (database, mut one, mut two) = two_nodes();
    for campaign in ["cmp_a", "cmp_b"] {
        one.run(campaign, 3);
    }
    let taken = [one.claim(1).remove(0), two.claim(1).remove(0)];
    let of = |claimed: &Claimed| claimed.message.queue.campaign.as_ref().unwrap().to_string();
    let campaigns = taken.each_ref().map(of);
    assert_ne!(campaigns[0], campaigns[1]);
    let both_have_one = Barrier::new(2);
    together(vec![one, two], |n, node| {
        without_deadlock(node, |core, attempt| {
            core.settle(settlement(&taken[n], End::Sent, START), START)?;
            if attempt == 0 {
                both_have_one.wait();
            }
            feed_again(core, &campaigns[1 - n])
        });
    });
    let node = Node::on(&database, 9);
    for campaign in campaigns {
        assert_eq!((node.campaign(&campaign).roll.sent, node.campaign(&campaign).flight), (1, None));
    }
}

#[test]
fn whoever_blocks_and_feeds_does_not_wait_for_whoever_settles_and_blocks() {
    let (database, mut one, two) = two_nodes();
    one.run("cmp_a", 3);
    let taken = one.claim(1).remove(0);
    let place = Place { channel: "other".parse().unwrap(), destination: None };
    let blocks_are_held = Barrier::new(2);
    let waits = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE NOT granted AND datname = current_database()";
    together(vec![one, two], |n, node| {
        without_deadlock(node, |core, attempt| match n {
            0 => {
                if attempt == 0 {
                    blocks_are_held.wait();
                }
                core.settle(settlement(&taken, End::Held(Scope::Channel), START), START).map(drop)
            }
            _ => {
                let hold = Block::hold("so".into(), 0, START);
                core.block(&place, hold, &Actor("ana".into()), START)?;
                if attempt == 0 {
                    blocks_are_held.wait();
                    while database.ask(waits) == "0" {
                        std::thread::yield_now();
                    }
                }
                feed_again(core, "cmp_a")
            }
        });
    });
    assert_eq!(Node::on(&database, 9).campaign("cmp_a").flight, None);
}

#[test]
fn whoever_feeds_and_claims_does_not_wait_for_whoever_settles_and_blocks() {
    let (database, mut one, two) = two_nodes();
    one.run("cmp_a", 3);
    let taken = one.claim(1).remove(0);
    let a_document_is_held = Barrier::new(2);
    let waits = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE NOT granted AND datname = current_database()";
    together(vec![one, two], |n, node| {
        without_deadlock(node, |core, attempt| match n {
            0 => {
                if attempt == 0 {
                    a_document_is_held.wait();
                }
                core.settle(settlement(&taken, End::Held(Scope::Channel), START), START).map(drop)
            }
            _ => {
                feed_again(core, "cmp_a")?;
                if attempt == 0 {
                    a_document_is_held.wait();
                    while database.ask(waits) == "0" {
                        std::thread::yield_now();
                    }
                }
                let ask = Ask { node: NodeId(2), lane: Default::default(), max: 10, rates: Arc::default() };
                core.claim(&ask, START).map(drop)
            }
        });
    });
    assert_eq!(Node::on(&database, 9).campaign("cmp_a").flight, None);
}

#[test]
fn a_campaign_that_another_has_just_now_is_tried_again_in_a_while() {
    let (_database, mut one, mut two) = two_nodes();
    one.run("cmp_a", 3);
    two.look();
    let ask = |node| Ask { node: NodeId(node), lane: Default::default(), max: 10, rates: Arc::default() };
    // Claimed, and not committed yet.
    assert_eq!(one.core.claim(&ask(1), START).unwrap().len(), 1);
    assert_eq!(two.claim_unaware(10), []);
    let again = two.core.next_due(&Default::default(), START).unwrap();
    assert_eq!(again.since(START), Span::from_millis(10), "neither at once, for ever, nor in a second");
    one.core.commit(START, &[1; 32]).unwrap();
    two.now = again;
    assert_eq!(two.claim_unaware(10), []);
    assert_eq!(two.core.next_due(&Default::default(), again), None, "it is in flight, and its end is told");
}

fn minding(rules: LineRules) -> Rates {
    let mut rates = Rates::default();
    rates.lines.insert("crm".parse().unwrap(), rules);
    rates
}

#[test] // REQ BK-6
fn the_gap_of_a_line_holds_across_campaigns_and_nodes() {
    let (_database, mut one, mut two) = two_nodes();
    one.run("cmp_a", 2);
    one.run("cmp_b", 2);
    two.look();
    let rules = || minding(LineRules { gap: Some(secs(40)), ..LineRules::default() });
    let taken = one.claim_at(10, rules());
    assert_eq!(taken.len(), 1, "one on the line");
    assert_eq!(two.claim_at(10, rules()), [], "there was no line to lock before");
    assert_eq!(one.settle(&taken[0], End::Sent), Settled::Done);
    let mut last = one.now;
    for turn in 0..3 {
        (one.now, two.now) = (last + secs(39), last + secs(39));
        one.look();
        two.look();
        assert_eq!((one.claim_at(10, rules()), two.claim_at(10, rules())), (vec![], vec![]), "turn {turn}");
        (one.now, two.now) = (last + secs(40), last + secs(40));
        one.look();
        two.look();
        let taken = if turn % 2 == 0 { two.claim_at(10, rules()) } else { one.claim_at(10, rules()) };
        assert_eq!(taken.len(), 1, "turn {turn}");
        let holder = if turn % 2 == 0 { &mut two } else { &mut one };
        assert_eq!(holder.settle(&taken[0], End::Sent), Settled::Done);
        last = one.now;
    }
    all_sent(&one, "cmp_a");
    all_sent(&one, "cmp_b");
}

#[test] // REQ BK-6
fn nodes_that_race_for_a_line_that_was_never_used_get_one() {
    for _ in 0..5 {
        let database = migrated();
        let mut nodes: Vec<Node> = (1..=4).map(|n| Node::on(&database, n)).collect();
        for n in 0..4 {
            nodes[0].run(&format!("cmp_{n}"), 1);
        }
        nodes.iter_mut().for_each(Node::look);
        let taken = together(nodes, |_, node| {
            let rules = LineRules { gap: Some(secs(5)), ..LineRules::default() };
            (0..5)
                .map(|_| {
                    node.now = node.now + Span::from_millis(10);
                    node.claim_at(10, minding(rules.clone())).len()
                })
                .sum::<usize>()
        });
        assert_eq!(taken.iter().sum::<usize>(), 1, "{taken:?}");
    }
}

#[test] // REQ BK-6
fn groups_with_the_same_campaigns_and_line_do_not_lock_each_other_out() {
    const CAMPAIGNS: usize = 8;
    let database = migrated();
    let mut nodes: Vec<Node> = (1..=3).map(|n| Node::on(&database, n)).collect();
    for n in 0..CAMPAIGNS {
        nodes[0].run(&format!("cmp_{n}"), 6);
    }
    let left = AtomicU64::new(6 * CAMPAIGNS as u64);
    let clock = AtomicU64::new(0);
    together(nodes, |_, node| {
        let rules = || minding(LineRules { daily_cap: Some(1_000), ..LineRules::default() });
        for _ in 0..TURNS {
            node.now = START + secs(clock.fetch_add(3, Ordering::SeqCst));
            node.look();
            let taken = node.claim_at(5, rules());
            let settled = node.settle_all(&taken, End::Sent);
            assert!(settled.iter().all(|settled| *settled == Settled::Done));
            left.fetch_sub(taken.len() as u64, Ordering::SeqCst);
            if left.load(Ordering::SeqCst) == 0 {
                return;
            }
        }
    });
    let node = Node::on(&database, 9);
    (0..CAMPAIGNS).for_each(|n| all_sent(&node, &format!("cmp_{n}")));
    let deadlocks = "SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot();
        SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(database.ask(deadlocks).lines().last(), Some("0"));
    let line = database.ask("SELECT body::json ->> 'sends' FROM pombo.doc WHERE shelf = 8");
    assert!(line.parse::<usize>().unwrap() <= 6 * CAMPAIGNS, "of the last day: {line}");
}

#[test] // REQ BK-3
fn a_send_that_was_cut_off_is_taken_from_the_node_that_holds_it() {
    let (_database, mut one, mut two) = two_nodes();
    one.heartbeat(mins(600));
    two.heartbeat(mins(600));
    one.run("cmp_a", 2);
    one.accept(&[draft()]);
    let taken = one.claim(10);
    assert_eq!(taken.len(), 2, "together with one of no campaign");
    let (sending, other): (Vec<Claimed>, Vec<Claimed>) =
        taken.into_iter().partition(|claimed| claimed.message.queue.campaign.is_some());
    let cut = |core: &mut _, now| Core::cut(core, &Tenant::default(), &name("cmp_a"), now);
    assert!(!two.group(cut), "it may take that long");
    two.now = two.campaign("cmp_a").cut_at().unwrap();
    one.now = two.now;
    assert!(two.group(cut));
    assert!(!two.group(cut), "once");
    assert_eq!(two.campaign("cmp_a").state.name(), Course::Paused);
    // Its holder lives, and is told that it is too late; what else it held is its own.
    assert_eq!(one.settle(&sending[0], End::Sent), Settled::Stale);
    assert_eq!(one.settle(&other[0], End::Sent), Settled::Done);
    let doubtful = two.take_over(10);
    assert_eq!(ids(&doubtful), ids(&sending));
    let flight = two.campaign("cmp_a").flight.unwrap();
    assert_eq!((flight.message, flight.claim), (doubtful[0].message.id, doubtful[0].key.claim.0));
    assert_eq!(two.settle(&doubtful[0], End::Sent), Settled::Done);
    assert_eq!(two.campaign("cmp_a").flight, None);
    audited(&two);
}

#[test] // REQ BK-4, fault 47
fn what_a_node_left_in_flight_is_taken_over_before_anything_else_goes() {
    let (_database, mut one, mut two) = two_nodes();
    one.run("cmp_a", 2);
    let taken = one.claim(10);
    drop(one);
    two.now = START + secs(1);
    assert_eq!(two.claim(10), [], "it is still in flight, as far as is known");
    let lost = two.take_over(10);
    assert_eq!(ids(&lost), ids(&taken));
    assert_eq!(two.campaign("cmp_a").flight.unwrap().claim, lost[0].key.claim.0);
    assert_eq!(two.claim(10), []);
    assert_eq!(two.settle(&lost[0], End::Sent), Settled::Done);
    two.now = two.now + WAIT;
    assert_eq!(two.claim(10).len(), 1);
}

#[test]
fn a_node_that_starts_or_reopens_knows_every_campaign() {
    let database = migrated();
    let mut one = Node::on(&database, 1);
    one.run("cmp_a", 2);
    let taken = one.claim(10);
    assert_eq!(one.settle(&taken[0], End::Sent), Settled::Done);
    let lane = Default::default();
    let mut late = Node::on(&database, 2);
    assert_eq!(late.core.next_due(&lane, START), Some(START + WAIT), "no claim in vain");
    late.core.reopen().unwrap();
    assert_eq!(late.core.next_due(&lane, START), Some(START + WAIT));
}

#[test] // REQ BK-7
fn two_nodes_that_list_the_same_people_list_them_once() {
    let database = migrated();
    let mut nodes: Vec<Node> = (1..=2).map(|n| Node::on(&database, n)).collect();
    nodes[0].run("cmp_a", 1);
    nodes[0].pause("cmp_a");
    let mut lines: Vec<Listed> = (1..=1_000).map(person).collect();
    lines.push(Listed { line: 1_001, of: Err(Refusal { to: "?\0".into(), reason: "no\u{1}".into() }) });
    lines.push(person(7));
    let became = together(nodes, |_, node| node.enlist("cmp_a", &lines));
    let count = |what| became.iter().flatten().filter(|it| **it == what).count();
    assert_eq!(count(Enlisted::Added), 999);
    assert_eq!((count(Enlisted::Duplicate), count(Enlisted::Invalid)), (1_004, 1));
    let node = Node::on(&database, 3);
    let listed = node.recipients("cmp_a");
    let numbers: Vec<u64> = listed.iter().map(|recipient| recipient.number).collect();
    assert_eq!(numbers, (1..=1_001).collect::<Vec<u64>>(), "no number is left out");
    let refused: Vec<_> = listed.iter().filter(|it| it.standing == Standing::Invalid).collect();
    assert!(refused.iter().all(|it| it.to == "?\0" && it.reason.as_deref() == Some("no\u{1}")));
    let roll = node.campaign("cmp_a").roll;
    assert_eq!((roll.recipients, roll.invalid, roll.duplicates), (1_000, 1, 1_003));
}

#[test] // REQ SE-1
fn recipients_are_read_under_their_tenants_row_level_security() {
    let database = migrated();
    let mut node = Node::on(&database, 1);
    node.run("cmp_a", 3);
    let seen = |tenant: &str| {
        let sql = format!(
            "SET ROLE pombo_reader; SET pombo.tenant = '{tenant}';
             SELECT (SELECT count(*) FROM pombo.recipient), (SELECT count(*) FROM pombo.roster)"
        );
        database.ask(&sql).lines().last().unwrap().to_owned()
    };
    assert_eq!((seen("default").as_str(), seen("acme").as_str()), ("3|1", "0|0"));
    let all = |tenant: &str| Roster {
        tenant: tenant.parse().unwrap(),
        campaign: name("cmp_a"),
        standing: Some(Standing::Queued),
        after: 1,
        limit: 10,
    };
    assert_eq!(node.reader().recipients(&all("default")).unwrap().len(), 2);
    assert_eq!(node.reader().recipients(&all("acme")).unwrap(), []);
}

#[test] // fault 57
fn a_database_of_schema_2_whose_owner_is_nobody_special_takes_campaigns() {
    let plain = Plain::on(Cluster::shared(), "CREATEROLE");
    psql(&plain.url(), SCHEMA_1).unwrap();
    let next = concat!("SET search_path = pombo;", include_str!("../../sql/postgres/migrations/0002.sql"));
    psql(&plain.url(), next).unwrap();
    plain.database.ask("UPDATE pombo.meta SET value = '2' WHERE name = 'schema'");
    let mut node = Node::with(plain.open().unwrap(), 1);
    node.run("cmp_a", 1);
    let taken = node.claim(10);
    assert_eq!(node.settle(&taken[0], End::Sent), Settled::Done);
    all_sent(&node, "cmp_a");
}
