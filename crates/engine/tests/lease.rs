//! What a node does while its lease holds, is in danger, and is lost: the engine's core under virtual time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;

use pombo_engine::core::{Core, Effect, Ended, Event, HEARTBEAT, LEASE, SILENCE, may_send};
use pombo_kernel::classify::Rules;
use pombo_kernel::dice::Dice;
use pombo_kernel::guard::Guard;
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::lifecycle::OnUnknownOutcome;
use pombo_kernel::message::{Body, ClaimId, ClaimKey, Message, Priority, Progress, QueueName};
use pombo_kernel::name::{LaneName, Tenant};
use pombo_kernel::policy::{Policy, Profile};
use pombo_kernel::reply::{Receipt, Reply};
use pombo_kernel::setup::{Care, ChannelSetup, Destination, LaneSetup, Limits, Setup};
use pombo_kernel::time::{Span, Time};
use pombo_kernel::turns::Weight;
use pombo_store::{Ask, Claimed, NodeId};

const START: Time = Time::from_millis(1_800_000_000_000);

fn at(secs: u64) -> Time {
    START + Span::from_secs(secs)
}

fn setup() -> Arc<Setup> {
    let channel = ChannelSetup {
        name: "crm".parse().unwrap(),
        kind: ChannelKind::Webhook,
        tenant: Tenant::default(),
        policy: Policy::built_in("webhook", Profile::Production).unwrap(),
        rules: Rules::for_kind(ChannelKind::Webhook, &[]).unwrap(),
        on_unknown_outcome: OnUnknownOutcome::Resend,
        destination: Destination::Fixed("host".into()),
        attempt_timeout: Span::from_secs(30),
        unready: None,
        receipts: None,
        line: pombo_kernel::campaign::line::LineRules::default(),
        suppressions: pombo_kernel::setup::Suppressions::default(),
        care: Care { weight: weight(), ..Care::default() },
    };
    Arc::new(Setup {
        channels: BTreeMap::from([(channel.name.clone(), Arc::new(channel))]),
        lanes: BTreeMap::from([(lane(), LaneSetup { workers: 2 })]),
        routes: Vec::new(),
        limits: Limits::default(),
        subscribers: Guard::default(),
        claims: Policy::claims(),
        alerts: Arc::default(),
        masked: std::collections::BTreeSet::new(),
        retention: Default::default(),
        dashboard: pombo_kernel::setup::Dashboard::default(),
    })
}

fn weight() -> Weight {
    Weight::new(3).unwrap()
}

fn lane() -> LaneName {
    "default".parse().unwrap()
}

/// One node, told what happens second by second.
struct Node {
    core: Core,
    dice: Dice,
}

impl Node {
    fn new() -> Node {
        Node { core: Core::new(NodeId(1), setup(), &[]), dice: Dice::seeded(1) }
    }

    /// A node that has just shown its first sign of life, and what it asked for then.
    fn started() -> (Node, Vec<Effect>) {
        let mut node = Node::new();
        node.step(Event::Started, 0);
        let effects = node.step(Event::Alive { since: at(0) }, 0);
        (node, effects)
    }

    fn step(&mut self, event: Event, secs: u64) -> Vec<Effect> {
        self.core.step(event, at(secs), &mut self.dice)
    }

    /// Its claim is answered with one message.
    fn claimed(&mut self, ask: &Ask, secs: u64) -> Vec<Effect> {
        let claimed = vec![message(secs)];
        self.step(Event::Claimed { lane: lane(), asked: ask.max, claimed }, secs)
    }
}

fn message(secs: u64) -> Claimed {
    let queue = QueueName {
        tenant: Tenant::default(),
        lane: lane(),
        channel: "crm".parse().unwrap(),
        destination: "host".into(),
        campaign: None,
    };
    let message = Message {
        id: MessageId::new(MessageKey::at(at(secs)), 1),
        queue: Arc::new(queue),
        priority: Priority::default(),
        send_at: None,
        expires_at: None,
        ordering_key: None,
        body: Body::default(),
    };
    Claimed {
        key: ClaimKey { message: message.id, claim: ClaimId(1) },
        message: Arc::new(message),
        progress: Progress::default(),
        due: at(secs),
        claimed_at: at(secs),
        failing_since: None,
        probe: None,
    }
}

fn ask_in(effects: &[Effect]) -> Option<Ask> {
    effects.iter().find_map(|effect| match effect {
        Effect::Claim(ask) => Some(ask.clone()),
        _ => None,
    })
}

fn any(effects: &[Effect], wanted: fn(&Effect) -> bool) -> bool {
    effects.iter().any(wanted)
}

fn is_take_over(effect: &Effect) -> bool {
    matches!(effect, Effect::TakeOver { .. })
}

fn is_release(effect: &Effect) -> bool {
    matches!(effect, Effect::Release(_))
}

fn is_send(effect: &Effect) -> bool {
    matches!(effect, Effect::Send { .. })
}

#[test] // REQ ML-4
fn the_work_of_dead_nodes_is_looked_for_at_the_start_and_with_every_heartbeat() {
    let (mut node, effects) = Node::started();
    assert!(any(&effects, is_take_over));
    for beat in 1..10 {
        let secs = beat * HEARTBEAT.millis() / 1_000;
        let effects = node.step(Event::Tick, secs);
        assert!(matches!(&effects[..], [Effect::Heartbeat { until }] if *until == at(secs) + LEASE));
        assert!(any(&node.step(Event::Alive { since: at(secs) }, secs), is_take_over));
    }
}

#[test] // REQ ML-4
fn a_node_that_dies_is_looked_for_within_90_seconds_of_its_death() {
    // It showed a last sign of life as it died, and whoever is left had looked for lost work just before.
    let lease_ends = at(0) + LEASE;
    let (mut node, _) = Node::started();
    let looked = (1..).find_map(|beat| {
        let secs = beat * HEARTBEAT.millis() / 1_000;
        node.step(Event::Tick, secs);
        let effects = node.step(Event::Alive { since: at(secs) }, secs);
        Some(at(secs)).filter(|now| any(&effects, is_take_over) && *now >= lease_ends)
    });
    assert!(looked.unwrap().since(at(0)) <= Span::from_secs(90));
}

#[test] // REQ ML-4
fn whatever_a_dead_node_left_is_taken_over_in_as_many_helpings_as_it_takes() {
    let (mut node, effects) = Node::started();
    let max = effects.iter().find_map(|effect| match effect {
        Effect::TakeOver { max } => Some(*max),
        _ => None,
    });
    let lost = |count| (0..count).map(message).collect();
    let full = u64::try_from(max.unwrap()).unwrap();
    assert!(any(&node.step(Event::TakenOver(lost(full)), 1), is_take_over));
    assert!(!any(&node.step(Event::TakenOver(lost(full - 1)), 1), is_take_over));
}

#[test] // REQ BK-5
fn whoever_asks_says_what_is_out_of_the_ordinary_about_the_channels() {
    let (_, effects) = Node::started();
    let rates = ask_in(&effects).unwrap().rates;
    assert_eq!(rates.weights, BTreeMap::from([("crm".parse().unwrap(), weight())]));
    assert!(rates.rates.is_empty() && rates.lines.is_empty());
}

#[test] // fault 49
fn a_node_without_a_heartbeat_for_30_seconds_asks_for_nothing_and_gives_back_what_it_gets() {
    let (mut node, effects) = Node::started();
    let ask = ask_in(&effects).unwrap();
    let effects = node.claimed(&ask, 30);
    assert!(any(&effects, is_release) && !any(&effects, is_send), "{effects:?}");
    assert!(ask_in(&effects).is_none());
    assert!(any(&effects, |effect| matches!(effect, Effect::Heartbeat { .. })), "it tries to be heard");

    let effects = node.step(Event::Alive { since: at(31) }, 31);
    assert!(ask_in(&effects).is_some(), "and goes on when it is");
}

#[test] // fault 49
fn what_is_being_made_ready_when_the_heartbeat_fails_is_not_sent() {
    let (mut node, effects) = Node::started();
    let effects = node.claimed(&ask_in(&effects).unwrap(), 1);
    let Some(Effect::Send { claimed, term, .. }) = effects.iter().find(|it| is_send(it)) else {
        panic!("{effects:?}")
    };
    assert!(may_send(&node.core.lease(), *term, claimed, at(29)));
    assert!(!may_send(&node.core.lease(), *term, claimed, at(30)));
}

#[test] // fault 17
fn after_a_lost_lease_nothing_is_sent_that_was_claimed_before_it() {
    let (mut node, effects) = Node::started();
    let effects = node.claimed(&ask_in(&effects).unwrap(), 1);
    let asked_before = ask_in(&effects).unwrap();
    let Some(Effect::Send { claimed, term, .. }) = effects.iter().find(|it| is_send(it)) else {
        panic!("{effects:?}")
    };
    // Stopped for two minutes, then continued; the first thing it does is to show that it is alive.
    node.step(Event::Tick, 121);
    node.step(Event::Alive { since: at(121) }, 121);
    assert!(!may_send(&node.core.lease(), *term, claimed, at(121)), "somebody else may have it by now");
    let effects = node.step(Event::Unsent { key: claimed.key }, 121);
    assert!(any(&effects, is_release), "it is given up: {effects:?}");

    let effects = node.claimed(&asked_before, 121);
    assert!(any(&effects, is_release) && !any(&effects, is_send), "nor what was asked for: {effects:?}");
    let given_back = vec![claimed.key, message(121).key];
    let asked_after = ask_in(&node.step(Event::Released(given_back), 121)).unwrap();
    assert!(any(&node.claimed(&asked_after, 122), is_send), "what is claimed now is its own");
}

#[test] // fault 17
fn a_stop_between_asking_for_a_heartbeat_and_giving_it_does_not_make_the_lease_longer() {
    let (mut node, effects) = Node::started();
    let effects = node.claimed(&ask_in(&effects).unwrap(), 1);
    let Some(Effect::Send { claimed, term, .. }) = effects.iter().find(|it| is_send(it)) else {
        panic!("{effects:?}")
    };
    let effects = node.step(Event::Tick, 15);
    let [Effect::Heartbeat { until }] = &effects[..] else { panic!("{effects:?}") };
    // It is durable after a stop of 40 seconds, and says what it said before.
    node.step(Event::Alive { since: *until - LEASE }, 55);
    assert!(!may_send(&node.core.lease(), *term, claimed, at(55)));
}

#[test] // fault 52
fn when_the_grace_is_over_nothing_more_is_sent() {
    let (mut node, effects) = Node::started();
    let effects = node.claimed(&ask_in(&effects).unwrap(), 1);
    let Some(Effect::Send { claimed, term, .. }) = effects.iter().find(|it| is_send(it)) else {
        panic!("{effects:?}")
    };
    node.step(Event::Stop, 2);
    assert!(may_send(&node.core.lease(), *term, claimed, at(2)), "a stop finishes what is under way");
    let effects = node.step(Event::GraceOver, 3);
    assert!(any(&effects, |effect| matches!(effect, Effect::Settle(_))));
    assert!(!may_send(&node.core.lease(), *term, claimed, at(3)));
}

#[test] // REQ OB-1
fn a_slot_counts_as_busy_from_the_claim_until_the_result_is_durable() {
    let busy =
        |node: &Node| node.core.slots().map(|(_, slots)| (slots.busy, slots.total)).collect::<Vec<_>>();
    let (mut node, effects) = Node::started();
    let ask = ask_in(&effects).unwrap();
    assert_eq!((ask.max, busy(&node)), (2, vec![(0, 2)]), "what was only asked for is not at work");
    node.claimed(&ask, 1);
    assert_eq!(busy(&node), [(1, 2)]);
    let key = message(1).key;
    node.step(Event::Replied { key, reply: Reply::Accepted(Receipt::default()) }, 2);
    assert_eq!(busy(&node), [(1, 2)]);
    let term = node.core.lease().term();
    node.step(Event::TurnedOver { keys: vec![key], claimed: Vec::new(), term }, 3);
    assert_eq!(busy(&node), [(0, 2)]);
}

/// A node with two slots, of which one has a message that was just sent, and what is to be recorded of it.
fn answered() -> (Node, Vec<Ended>) {
    let (mut node, effects) = Node::started();
    node.claimed(&ask_in(&effects).unwrap(), 1);
    let reply = Reply::Accepted(Receipt::default());
    let effects = node.step(Event::Replied { key: message(1).key, reply }, 2);
    let ended = effects.into_iter().find_map(|effect| match effect {
        Effect::Settle(ended) => Some(ended),
        _ => None,
    });
    (node, ended.unwrap())
}

#[test] // invariant 13
fn what_takes_the_place_of_a_result_is_asked_for_with_it_and_not_once_more() {
    let (mut node, ended) = answered();
    let refill = node.core.refill(&ended, at(2));
    assert_eq!(refill.asks.iter().map(|ask| (ask.lane.clone(), ask.max)).collect::<Vec<_>>(), [(lane(), 1)]);

    let turned_over = |claimed| Event::TurnedOver { keys: vec![message(1).key], claimed, term: refill.term };
    let effects = node.step(turned_over(vec![message(3)]), 3);
    assert!(any(&effects, is_send));
    assert!(ask_in(&effects).is_none(), "the slot has its message, and the other is asked for already");
    let slots: Vec<_> = node.core.slots().map(|(_, slots)| (slots.busy, slots.total)).collect();
    assert_eq!(slots, [(1, 2)]);
}

#[test] // invariant 13, faults 49 and 52
fn nothing_takes_a_place_that_is_gone_or_of_a_node_that_may_not_send() {
    let (node, ended) = answered();
    assert_eq!(node.core.refill(&ended, at(2) + SILENCE).asks.len(), 0, "no sign of life for long");

    let (mut node, ended) = answered();
    node.step(Event::Stop, 2);
    assert_eq!(node.core.refill(&ended, at(2)).asks.len(), 0, "it is about to stop");

    let (mut node, ended) = answered();
    let mut fewer = Setup::clone(&setup());
    fewer.lanes.insert(lane(), LaneSetup { workers: 1 });
    node.step(Event::Reload(Arc::new(fewer)), 2);
    assert_eq!(node.core.refill(&ended, at(2)).asks.len(), 0, "the one slot is asked for already");
}
