//! The whole engine on a real SQLite file, with a channel that answers by script and a clock that the test moves.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use pombo_channels::{BoxFuture, Channel, Envelope, Health};
use pombo_engine::{Engine, Instruments, Meter, decide};
use pombo_kernel::block::BlockKind;
use pombo_kernel::breaker;
use pombo_kernel::classify::Rules;
use pombo_kernel::dice::Dice;
use pombo_kernel::guard::Guard;
use pombo_kernel::id::MessageId;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::lifecycle::OnUnknownOutcome;
use pombo_kernel::message::{
    AttemptOutcome, Body, Draft, FailureReason, Priority, QueueName, State, StateName,
};
use pombo_kernel::name::Tenant;
use pombo_kernel::policy::{Policy, Profile};
use pombo_kernel::reply::{Fault, FaultKind, Receipt, Refusal, Reply};
use pombo_kernel::setup::{Care, ChannelSetup, Destination, LaneSetup, Limits, Setup};
use pombo_kernel::time::{Clock, Span, Time};
use pombo_kernel::trace::{self, Moment, Share, Tracer};
use pombo_store::shell::Shell;
use pombo_store::sqlite::Sqlite;
use pombo_store::{NodeId, Store, Story};
use tokio::sync::Semaphore;

/// A clock that stands still until the test moves it.
#[derive(Debug)]
struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Time {
        Time::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// Answers with the scripted replies in turn, then accepts. Waits for a permit before each answer.
#[derive(Debug)]
struct Scripted {
    replies: Mutex<VecDeque<Reply>>,
    permits: Semaphore,
    calls: AtomicUsize,
    started: Semaphore,
}

impl Channel for Scripted {
    fn send<'a>(&'a self, _: &'a Envelope, _: Duration) -> BoxFuture<'a, Reply> {
        Box::pin(async {
            self.calls.fetch_add(1, Ordering::SeqCst);
            self.started.add_permits(1);
            self.permits.acquire().await.unwrap().forget();
            let scripted = self.replies.lock().unwrap().pop_front();
            scripted.unwrap_or(Reply::Accepted(Receipt::default()))
        })
    }
}

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

struct World {
    folder: tempfile::TempDir,
    clock: Arc<TestClock>,
    store: Arc<dyn Store>,
    channel: Arc<Scripted>,
    setup: Arc<Setup>,
    engine: Engine,
}

fn refused(status: u16) -> Reply {
    Reply::Refused(Refusal { status: Some(status), text: "no".into(), ..Refusal::default() })
}

fn setup(on_unknown_outcome: OnUnknownOutcome) -> Arc<Setup> {
    let channel = ChannelSetup {
        name: "crm".parse().unwrap(),
        kind: ChannelKind::Webhook,
        tenant: Tenant::default(),
        policy: Policy::built_in("whatsapp", Profile::Production).unwrap(),
        rules: Rules::for_kind(ChannelKind::Webhook, &[]).unwrap(),
        on_unknown_outcome,
        destination: Destination::Fixed("host".into()),
        attempt_timeout: Span::from_secs(30),
        unready: None,
        receipts: None,
        line: pombo_kernel::campaign::line::LineRules::default(),
        suppressions: pombo_kernel::setup::Suppressions::default(),
        care: Care {
            breaker: breaker::Limits { lasting: Span::ZERO, ..breaker::Limits::default() },
            ..Care::default()
        },
    };
    Arc::new(Setup {
        channels: BTreeMap::from([(channel.name.clone(), Arc::new(channel))]),
        lanes: BTreeMap::from([("default".parse().unwrap(), LaneSetup { workers: 2 })]),
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

impl World {
    async fn new(replies: Vec<Reply>, permits: usize, on_unknown: OnUnknownOutcome) -> World {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(TestClock(AtomicI64::new(1_800_000_000_000)));
        let channel = Arc::new(Scripted {
            replies: Mutex::new(replies.into()),
            permits: Semaphore::new(permits),
            calls: AtomicUsize::new(0),
            started: Semaphore::new(0),
        });
        let store = open(folder.path(), &clock);
        let setup = setup(on_unknown);
        let engine = start(&store, &setup, &channel, &clock, 1);
        World { folder, clock, store, channel, setup, engine }
    }

    async fn accept(&self, ordering_key: Option<&str>) -> MessageId {
        self.accept_in("default", ordering_key, None).await
    }

    async fn accept_in(&self, lane: &str, ordering_key: Option<&str>, send_at: Option<Time>) -> MessageId {
        let queue = QueueName {
            tenant: Tenant::default(),
            lane: lane.parse().unwrap(),
            channel: "crm".parse().unwrap(),
            destination: "host".into(),
            campaign: None,
        };
        let draft = Draft {
            id: None,
            queue,
            priority: Priority::default(),
            send_at,
            expires_at: None,
            ordering_key: ordering_key.map(Into::into),
            idempotency: None,
            body: Body { to: "http://host/".into(), ..Body::default() },
            blobs: Vec::new(),
        };
        self.store.accept(vec![draft]).await.unwrap()[0].as_ref().unwrap().id
    }

    async fn pass(&self, span: Span) {
        self.clock.0.fetch_add(i64::try_from(span.millis()).unwrap(), Ordering::SeqCst);
        // Any word to the store makes it look at the clock; a heartbeat is answered when all of that is committed.
        self.store.heartbeat(NodeId(-1), Time::MAX).await.unwrap();
    }

    /// Waits until the story is as wanted; the store wakes us at each commit.
    async fn until(&self, id: MessageId, wanted: impl Fn(&Story) -> bool) -> Story {
        let mut changes = self.store.watch();
        let found = tokio::time::timeout(PATIENCE, async {
            loop {
                changes.borrow_and_update();
                let story = self.store.story(Tenant::default(), id).await.unwrap().unwrap();
                if wanted(&story) {
                    return story;
                }
                changes.changed().await.unwrap();
            }
        });
        found.await.expect("the message never got there")
    }

    async fn block_kinds(&self) -> Vec<BlockKind> {
        self.store.blocks().await.unwrap().into_iter().map(|(_, block)| block.kind).collect()
    }

    async fn calls(&self, n: usize) {
        let started = self.channel.started.acquire_many(u32::try_from(n).unwrap());
        tokio::time::timeout(PATIENCE, started).await.expect("no send began").unwrap().forget();
    }
}

fn open(folder: &std::path::Path, clock: &Arc<TestClock>) -> Arc<dyn Store> {
    let core = Sqlite::open(folder, Dice::seeded(7), &[7; 32]).unwrap();
    let mut n = 0u8;
    let entropy = Box::new(move || {
        n = n.wrapping_add(1);
        [n; 32]
    });
    Arc::new(Shell::start(core, clock.clone(), entropy).unwrap())
}

fn start(
    store: &Arc<dyn Store>,
    setup: &Arc<Setup>,
    channel: &Arc<Scripted>,
    clock: &Arc<TestClock>,
    seed: u64,
) -> Engine {
    let channels = BTreeMap::from([("crm".parse().unwrap(), channel.clone() as Arc<dyn Channel>)]);
    Engine::start(store.clone(), setup.clone(), channels, clock.clone(), seed, &[], Meter::default())
}

const PLENTY: usize = 1_000;

fn is(name: StateName) -> impl Fn(&Story) -> bool {
    move |story| story.state.name() == name
}

#[tokio::test] // REQ ML-2
async fn a_message_is_sent_as_soon_as_it_is_accepted() {
    let world = World::new(vec![], PLENTY, OnUnknownOutcome::Resend).await;
    let id = world.accept(None).await;
    let story = world.until(id, is(StateName::Sent)).await;
    assert_eq!((story.attempts.len(), story.progress.attempts), (1, 1));
}

#[tokio::test] // REQ RP-1
async fn a_transient_failure_is_retried_when_the_policy_says_and_not_before() {
    let world = World::new(vec![refused(503), refused(503)], PLENTY, OnUnknownOutcome::Resend).await;
    let id = world.accept(None).await;
    let first = world.until(id, |story| story.attempts.len() == 1).await;
    let State::Pending { due } = first.state else { panic!("{:?}", first.state) };
    assert_eq!(due, world.clock.now() + Span::from_secs(5));
    world.pass(Span::from_millis(4_999)).await;
    assert_eq!(world.channel.calls.load(Ordering::SeqCst), 1);
    world.pass(Span::from_millis(1)).await;
    world.until(id, |story| story.attempts.len() == 2).await;
    world.pass(Span::from_secs(30)).await;
    let story = world.until(id, is(StateName::Sent)).await;
    assert_eq!(story.attempts.len(), 3);
}

#[tokio::test] // REQ RP-3
async fn the_policys_last_attempt_makes_a_dead_letter() {
    let world = World::new(vec![refused(500); 4], PLENTY, OnUnknownOutcome::Resend).await;
    let id = world.accept(None).await;
    for n in 1..=3 {
        world.until(id, |story| story.attempts.len() == n && story.state.name() == StateName::Pending).await;
        world.pass(Span::from_mins(5)).await;
    }
    let story = world.until(id, is(StateName::Failed)).await;
    assert!(matches!(story.state, State::Failed { reason: FailureReason::MaxRetriesExceeded, .. }));
    assert_eq!(world.channel.calls.load(Ordering::SeqCst), 4);
}

#[tokio::test] // REQ CF-1
async fn a_permanent_failure_is_not_retried() {
    let world = World::new(vec![refused(404)], PLENTY, OnUnknownOutcome::Resend).await;
    let id = world.accept(None).await;
    let story = world.until(id, is(StateName::Failed)).await;
    assert!(matches!(story.state, State::Failed { reason: FailureReason::PermanentError, .. }));
}

#[tokio::test] // REQ CF-7
async fn a_fault_of_ours_holds_all_burns_nothing_and_a_probe_sets_free() {
    let world = World::new(vec![refused(401)], PLENTY, OnUnknownOutcome::Resend).await;
    let first = world.accept(None).await;
    world.until(first, |story| story.attempts.len() == 1).await;
    let second = world.accept(None).await;
    world.pass(Span::from_secs(29)).await;
    assert_eq!(world.channel.calls.load(Ordering::SeqCst), 1, "nothing passes a hold");
    world.pass(Span::from_secs(1)).await;
    let story = world.until(first, is(StateName::Sent)).await;
    assert_eq!((story.attempts.len(), story.progress.attempts), (2, 1));
    world.until(second, is(StateName::Sent)).await;
    assert_eq!(world.block_kinds().await, [BlockKind::Ramp], "what waited goes slowly for a while");
    world.pass(Span::from_mins(10)).await;
    let third = world.accept(None).await;
    world.until(third, is(StateName::Sent)).await;
    assert_eq!(world.block_kinds().await, []);
}

#[tokio::test] // REQ CB-1
async fn a_destination_that_is_down_costs_one_free_probe_at_a_time_and_comes_back_slowly() {
    let world = World::new(vec![refused(503); 11], PLENTY, OnUnknownOutcome::Resend).await;
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.push(world.accept(None).await);
    }
    for id in &ids {
        world.until(*id, |story| story.attempts.len() == 1).await;
    }
    assert_eq!(world.block_kinds().await, [BlockKind::Breaker]);
    ids.push(world.accept(None).await);
    world.pass(Span::from_millis(4_999)).await;
    assert_eq!(world.channel.calls.load(Ordering::SeqCst), 10, "nothing passes a breaker");

    world.pass(Span::from_millis(1)).await;
    world.calls(11).await;
    let probe = 'found: loop {
        for id in &ids {
            let story = world.until(*id, |_| true).await;
            if story.attempts.last().is_some_and(|attempt| attempt.outcome == AttemptOutcome::Held) {
                break 'found story;
            }
        }
    };
    assert_eq!(
        usize::from(probe.progress.attempts),
        probe.attempts.len() - 1,
        "a probe that finds it down is free"
    );
    world.pass(Span::from_millis(9_999)).await;
    assert_eq!(world.channel.calls.load(Ordering::SeqCst), 11, "one probe, and twice the wait");

    world.pass(Span::from_millis(1)).await;
    world.calls(1).await;
    // The ramp begins with the commit of what got through, and not with the call.
    let mut changes = world.store.watch();
    while world.block_kinds().await != [BlockKind::Ramp] {
        changes.changed().await.unwrap();
    }
    for _ in 0..100 {
        world.pass(Span::from_millis(100)).await;
    }
    for id in ids {
        let story = world.until(id, is(StateName::Sent)).await;
        assert!(story.progress.attempts <= 2, "{:?}", story.progress);
    }
    assert_eq!(world.block_kinds().await, [BlockKind::Ramp]);
}

#[tokio::test] // REQ CB-2
async fn a_provider_that_says_it_is_ready_is_not_waited_for() {
    let world = World::new(vec![refused(401)], PLENTY, OnUnknownOutcome::Resend).await;
    let first = world.accept(None).await;
    world.until(first, |story| story.attempts.len() == 1).await;
    assert_eq!(world.block_kinds().await, [BlockKind::Hold]);
    let channel = world.setup.channels.values().next().unwrap();
    let found = decide::finding(channel, Health::Ready("open".into()), world.clock.now()).unwrap();
    world.store.examine(found).await.unwrap();
    let story = world.until(first, is(StateName::Sent)).await;
    assert_eq!((story.progress.attempts, world.channel.calls.load(Ordering::SeqCst)), (1, 2));
}

#[tokio::test] // REQ ML-5
async fn a_lost_answer_is_resent_or_held_as_the_channel_says() {
    let lost = || Reply::Doubtful(Fault { kind: FaultKind::Timeout, text: "no answer".into() });
    let resend = World::new(vec![lost()], PLENTY, OnUnknownOutcome::Resend).await;
    let id = resend.accept(None).await;
    let story = resend.until(id, |story| story.attempts.len() == 1).await;
    assert!(story.attempts[0].failure.as_ref().unwrap().perhaps_sent, "the doubt is on record");
    resend.pass(Span::from_secs(5)).await;
    resend.until(id, is(StateName::Sent)).await;

    let hold = World::new(vec![lost()], PLENTY, OnUnknownOutcome::Hold).await;
    let id = hold.accept(None).await;
    let story = hold.until(id, is(StateName::Failed)).await;
    assert!(matches!(story.state, State::Failed { reason: FailureReason::OutcomeUnknown, .. }));
}

#[tokio::test] // REQ ML-4, invariant 13
async fn never_more_sends_than_slots() {
    let world = World::new(vec![], 0, OnUnknownOutcome::Resend).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(world.accept(None).await);
    }
    world.calls(2).await;
    world.pass(Span::from_secs(1)).await;
    assert_eq!(world.channel.calls.load(Ordering::SeqCst), 2);
    world.channel.permits.add_permits(PLENTY);
    for id in ids {
        world.until(id, is(StateName::Sent)).await;
    }
}

#[tokio::test] // REQ ML-6
async fn messages_of_one_ordering_key_go_one_at_a_time_in_order() {
    let world = World::new(vec![refused(503)], PLENTY, OnUnknownOutcome::Resend).await;
    let (first, second) = (world.accept(Some("patient-1")).await, world.accept(Some("patient-1")).await);
    let other = world.accept(Some("patient-2")).await;
    world.until(other, is(StateName::Sent)).await;
    world.until(first, |story| story.attempts.len() == 1 && story.state.name() == StateName::Pending).await;
    assert_eq!(world.until(second, |_| true).await.attempts.len(), 0, "a retrying head blocks its key");
    world.pass(Span::from_secs(5)).await;
    let (first, second) =
        (world.until(first, is(StateName::Sent)).await, world.until(second, is(StateName::Sent)).await);
    assert!(first.attempts[1].finished_at <= second.attempts[0].started_at);
}

#[tokio::test] // RELIABILITY: graceful shutdown
async fn stopping_waits_for_what_is_under_way_and_takes_nothing_more() {
    let world = World::new(vec![], 0, OnUnknownOutcome::Resend).await;
    let (one, two) = (world.accept(None).await, world.accept(None).await);
    world.calls(2).await;
    let three = world.accept(None).await;
    tokio::join!(world.engine.stop(PATIENCE), async {
        world.channel.permits.add_permits(PLENTY);
    });

    for id in [one, two] {
        assert_eq!(world.until(id, |_| true).await.state.name(), StateName::Sent);
    }
    let left = world.until(three, |_| true).await;
    assert_eq!((left.state.name(), left.progress.attempts), (StateName::Pending, 0));
}

#[tokio::test] // REQ ML-5
async fn what_does_not_end_within_the_grace_is_recorded_as_in_doubt() {
    let world = World::new(vec![], 0, OnUnknownOutcome::Resend).await;
    let id = world.accept(None).await;
    world.calls(1).await;
    world.engine.stop(Duration::ZERO).await;
    let story = world.until(id, |story| story.attempts.len() == 1).await;
    assert_eq!((story.state.name(), story.progress.attempts), (StateName::Pending, 1));
    assert!(story.attempts[0].failure.as_ref().unwrap().perhaps_sent);
}

#[tokio::test] // REQ ML-4
async fn another_engine_takes_over_what_a_dead_one_left_and_charges_one_attempt() {
    let world = World::new(vec![], 0, OnUnknownOutcome::Resend).await;
    let id = world.accept(None).await;
    world.calls(1).await;
    // The first engine is silent from now on: its lease runs out, and nobody asks it.
    world.pass(Span::from_secs(61)).await;
    let second = Arc::new(Scripted {
        replies: Mutex::default(),
        permits: Semaphore::new(PLENTY),
        calls: AtomicUsize::new(0),
        started: Semaphore::new(0),
    });
    let _engine = start(&world.store, &world.setup, &second, &world.clock, 2);
    let story = world.until(id, |story| story.attempts.len() == 1).await;
    assert_eq!(story.progress.crashes, 1);
    world.pass(Span::from_secs(5)).await;
    let story = world.until(id, is(StateName::Sent)).await;
    assert_eq!(story.attempts.len(), 2);
    // The first one's late answer changes nothing.
    world.channel.permits.add_permits(PLENTY);
    world.pass(Span::from_secs(1)).await;
    assert_eq!(world.until(id, |_| true).await.attempts.len(), 2);
    assert_eq!(world.store.verify().await.unwrap().broken, None);
}

/// Takes its time over the last span of an attempt: until somebody says that the engine has stopped, or gives up.
#[derive(Debug)]
struct Slow {
    stopped: Mutex<mpsc::Receiver<()>>,
    asked: Semaphore,
    overtaken: Mutex<Vec<bool>>,
}

impl Tracer for Slow {
    fn now(&self) -> Moment {
        Moment(0)
    }
    fn chance(&self) -> u64 {
        1
    }
    fn share(&self) -> Share {
        Share(1.0)
    }
    fn record(&self, span: trace::Span) {
        if span.name == "attempt" {
            self.asked.add_permits(2);
            let stopped = self.stopped.lock().unwrap().recv_timeout(Duration::from_millis(500));
            self.overtaken.lock().unwrap().push(stopped.is_ok());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)] // RELIABILITY: graceful shutdown
async fn what_was_settled_is_counted_traced_and_logged_before_the_engine_has_stopped() {
    let world = World::new(vec![], 0, OnUnknownOutcome::Resend).await;
    world.engine.stop(PATIENCE).await;
    let (tell, stopped) = mpsc::channel();
    let slow = Arc::new(Slow {
        stopped: Mutex::new(stopped),
        asked: Semaphore::new(0),
        overtaken: Mutex::default(),
    });
    let channels = BTreeMap::from([("crm".parse().unwrap(), world.channel.clone() as Arc<dyn Channel>)]);
    let instruments = Instruments { tracer: Some(slow.clone()), ..Instruments::default() };
    let (store, setup, clock) = (world.store.clone(), world.setup.clone(), world.clock.clone());
    let engine = Engine::start(store, setup, channels, clock, 2, &[], instruments);
    // Whoever is woken last stays with the thread that is slow. That is to be somebody else than the engine.
    let (woken, asked) = (slow.clone(), slow.clone());
    tokio::spawn(async move { woken.asked.acquire().await.unwrap().forget() });
    world.channel.permits.add_permits(PLENTY);
    let id = world.accept(None).await;
    tokio::time::timeout(PATIENCE, asked.asked.acquire()).await.unwrap().unwrap().forget();
    engine.stop(PATIENCE).await;
    let _ = tell.send(());
    assert_eq!(world.until(id, |_| true).await.state.name(), StateName::Sent);
    assert_eq!(*slow.overtaken.lock().unwrap(), [false]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY: graceful shutdown
async fn stopping_right_after_a_send_ends() {
    for n in 0..200 {
        let world = World::new(vec![], PLENTY, OnUnknownOutcome::Resend).await;
        let id = world.accept(None).await;
        world.until(id, is(StateName::Sent)).await;
        let stop = world.engine.stop(2 * PATIENCE);
        assert!(tokio::time::timeout(PATIENCE, stop).await.is_ok(), "round {n}: it never stopped");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // RELIABILITY: a store that fails pauses sending
async fn a_lane_goes_on_after_a_claim_that_failed_for_a_moment() {
    let world = World::new(vec![], PLENTY, OnUnknownOutcome::Resend).await;
    let sent = world.accept(None).await;
    world.until(sent, is(StateName::Sent)).await;
    let later = world.accept_in("default", None, Some(world.clock.now() + Span::from_secs(10))).await;
    let thief = rusqlite::Connection::open(world.folder.path().join("pombo.db")).unwrap();
    thief.execute_batch("BEGIN IMMEDIATE").unwrap();
    world.clock.0.fetch_add(10_000, Ordering::SeqCst);
    while world.store.health().is_ok() {
        // Comes back when the writer has waited for the thief as long as it is willing to.
        let _ = world.store.heartbeat(NodeId(-1), Time::MAX).await;
    }
    thief.execute_batch("ROLLBACK").unwrap();
    while world.store.health().is_err() {
        world.clock.0.fetch_add(1_000, Ordering::SeqCst);
        let _ = world.store.heartbeat(NodeId(-1), Time::MAX).await;
    }
    world.until(later, is(StateName::Sent)).await;
}

#[tokio::test] // REQ CF-7, CF-8
async fn a_probe_that_is_told_to_come_back_in_an_hour_makes_all_wait_an_hour() {
    let slow = Reply::Refused(Refusal {
        status: Some(429),
        text: "slow".into(),
        hints: vec![("retry-after".into(), "3600".into())],
        ..Refusal::default()
    });
    let mut replies = vec![refused(401)];
    replies.extend(vec![slow; 8]);
    let world = World::new(replies, PLENTY, OnUnknownOutcome::Resend).await;
    let first = world.accept(None).await;
    world.until(first, |story| story.attempts.len() == 1).await;
    for _ in 0..6 {
        world.accept(None).await;
    }
    world.pass(Span::from_secs(30)).await;
    world.until(first, |story| story.attempts.len() == 2).await;
    for _ in 0..5 {
        world.pass(Span::from_mins(10)).await;
    }
    assert_eq!(world.channel.calls.load(Ordering::SeqCst), 2, "the 401 and one probe");
}

#[tokio::test] // REQ CF-7
async fn a_probe_that_reaches_nobody_proves_nothing() {
    let gone = || Reply::Unreachable(Fault { kind: FaultKind::ConnectionRefused, text: "refused".into() });
    let world = World::new(vec![refused(401), gone(), gone()], PLENTY, OnUnknownOutcome::Resend).await;
    let first = world.accept(None).await;
    world.until(first, |story| story.attempts.len() == 1).await;
    let second = world.accept(None).await;
    world.pass(Span::from_secs(30)).await;
    world.until(first, |story| story.attempts.len() == 2).await;
    world.pass(Span::from_secs(29)).await;
    assert_eq!(world.channel.calls.load(Ordering::SeqCst), 2, "the hold goes on");
    assert_eq!(world.until(second, |_| true).await.attempts.len(), 0);
}

#[tokio::test]
async fn a_lane_that_a_reload_brings_is_worked() {
    let world = World::new(vec![], PLENTY, OnUnknownOutcome::Resend).await;
    let mut setup = (*world.setup).clone();
    setup.lanes.insert("vip".parse().unwrap(), LaneSetup { workers: 2 });
    let channels = BTreeMap::from([("crm".parse().unwrap(), world.channel.clone() as Arc<dyn Channel>)]);
    world.engine.reload(Arc::new(setup), channels);
    let id = world.accept_in("vip", None, None).await;
    world.until(id, is(StateName::Sent)).await;
}

/// Panics before there is anything to wait for.
#[derive(Debug)]
struct Hasty;

impl Channel for Hasty {
    fn send<'a>(&'a self, _: &'a Envelope, _: Duration) -> BoxFuture<'a, Reply> {
        panic!("too hasty")
    }
}

#[tokio::test] // REQ IN-4
async fn a_channel_that_panics_costs_an_attempt_and_no_slot() {
    let world = World::new(vec![], PLENTY, OnUnknownOutcome::Resend).await;
    let channels = BTreeMap::from([("crm".parse().unwrap(), Arc::new(Hasty) as Arc<dyn Channel>)]);
    world.engine.reload(world.setup.clone(), channels);
    for _ in 0..5 {
        let id = world.accept(None).await;
        let story = world.until(id, |story| story.attempts.len() == 1).await;
        assert!(story.attempts[0].failure.as_ref().unwrap().perhaps_sent);
    }
}
