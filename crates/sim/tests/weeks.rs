//! An adaptive policy for more than half a year, under virtual time: outages come three times a week, and twice the
//! provider changes its manner. The engine's core, the store's shell and writer and its counters by week are those of
//! production, and what was learnt is read as a node reads it. Between outages nobody is there: each has a process of
//! its own, which knows what the store tells it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, Waker};

use pombo_engine::core::{Core, Effect, Event, HEARTBEAT, Refill};
use pombo_kernel::adapt::{self, Adapted, Adaptive};
use pombo_kernel::breaker;
use pombo_kernel::classify::Rules;
use pombo_kernel::dice::Dice;
use pombo_kernel::guard::Guard;
use pombo_kernel::id::MessageId;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::lifecycle::OnUnknownOutcome;
use pombo_kernel::message::{Body, ClaimKey, Draft, Priority, QueueName, State};
use pombo_kernel::name::Tenant;
use pombo_kernel::policy::{Overrides, Policy, Profile};
use pombo_kernel::reply::{Receipt, Refusal, Reply};
use pombo_kernel::setup::{Care, ChannelSetup, Destination, LaneSetup, Limits, Setup};
use pombo_kernel::time::{Clock, Span, Time};
use pombo_store::core::{Core as _, Reading};
use pombo_store::learning::{Lesson, seen};
use pombo_store::shell::{Shell, Writer};
use pombo_store::sqlite::Sqlite;
use pombo_store::{NodeId, Store, TurnedOver};

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const DAY: u64 = 24 * 60 * MINUTE;
const WEEK: u64 = 7 * DAY;
/// The beginning of a week, as counters have weeks.
const START: i64 = 3_000 * 604_800_000;
/// A node reads what was learnt so often.
const LOOKS: u64 = 40 * SECOND;
/// What is read back, the week that goes on among it.
const REMEMBERED: usize = 8;
/// Messages that meet an outage, and those that come when it is over.
const IN_TROUBLE: u64 = 24;
const AFTERWARDS: u64 = 3;

/// How the provider is ill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// It is back before a first retry comes.
    Blips,
    /// It takes eight minutes to a quarter of an hour.
    Restarts,
}

impl Manner {
    fn lasts(self, dice: &mut Dice) -> u64 {
        match self {
            Manner::Blips => 20 * SECOND + dice.below(30 * SECOND),
            Manner::Restarts => 8 * MINUTE + dice.below(6 * MINUTE),
        }
    }
}

#[derive(Debug)]
struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Time {
        Time::from_millis(self.0.load(Ordering::Relaxed))
    }
}

fn policy() -> Policy {
    let adaptive = Overrides { adaptive: Some(Adaptive::On), ..Overrides::default() };
    Policy::built_in("resend", Profile::Production).unwrap().with(&adaptive)
}

fn setup() -> Arc<Setup> {
    let channel = ChannelSetup {
        name: "crm".parse().unwrap(),
        kind: ChannelKind::Webhook,
        tenant: Tenant::default(),
        policy: policy(),
        rules: Rules::for_kind(ChannelKind::Webhook, &[]).unwrap(),
        on_unknown_outcome: OnUnknownOutcome::Resend,
        destination: Destination::Host,
        attempt_timeout: Span::from_secs(30),
        unready: None,
        receipts: None,
        line: pombo_kernel::campaign::line::LineRules::default(),
        suppressions: pombo_kernel::setup::Suppressions::default(),
        // A breaker would end the outage for everybody at once, and leave nothing to be learnt.
        care: Care {
            breaker: breaker::Limits { failures: 0, percent: 0, ..Default::default() },
            ..Care::default()
        },
    };
    Arc::new(Setup {
        channels: BTreeMap::from([(channel.name.clone(), Arc::new(channel))]),
        lanes: BTreeMap::from([("default".parse().unwrap(), LaneSetup { workers: 100 })]),
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

fn draft() -> Draft {
    Draft {
        id: None,
        queue: QueueName {
            tenant: Tenant::default(),
            lane: "default".parse().unwrap(),
            channel: "crm".parse().unwrap(),
            destination: "a.example".into(),
            campaign: None,
        },
        priority: Priority::default(),
        send_at: None,
        expires_at: None,
        ordering_key: None,
        idempotency: None,
        body: Body { to: "someone".into(), ..Body::default() },
        blobs: Vec::new(),
    }
}

enum Happening {
    Feed,
    Turn,
    Tick,
    Look,
    Reply(ClaimKey, Reply),
}

enum Answered {
    Event(Event),
    Accepted(MessageId),
}

type Pending = Pin<Box<dyn Future<Output = Answered>>>;

struct Process {
    shell: Arc<Shell<Sqlite>>,
    writer: Writer<Sqlite>,
    reader: <Sqlite as pombo_store::core::Core>::Reader,
    core: Core,
    pending: Vec<Pending>,
}

/// One outage from its beginning until the last message has come to its end.
struct Outage {
    clock: Arc<TestClock>,
    dice: Dice,
    process: Process,
    node: NodeId,
    agenda: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
    turn: Option<(u64, u64)>,
    now: u64,
    down: Range<u64>,
    accepted: Vec<MessageId>,
    /// What the provider answered to each call, in order: when, and whether it took the message.
    calls: BTreeMap<MessageId, Vec<(u64, bool)>>,
    ended: usize,
}

impl Outage {
    fn begin(folder: &Path, number: i64, down: Range<u64>, seed: u64) -> Outage {
        let clock = Arc::new(TestClock(AtomicI64::new(START + i64::try_from(down.start).unwrap())));
        let mut dice = Dice::seeded(seed);
        let store = Sqlite::open(folder, Dice::seeded(dice.next_u64()), &[7; 32]).unwrap();
        let reader = store.reader().unwrap();
        let mut salts = Dice::seeded(dice.next_u64());
        let entropy = Box::new(move || [u8::try_from(salts.below(256)).unwrap(); 32]);
        let (shell, writer) = Shell::with_writer(store, clock.clone(), entropy).unwrap();
        let core = Core::new(NodeId(number), setup(), &[]);
        let process = Process { shell: Arc::new(shell), writer, reader, core, pending: Vec::new() };
        let mut outage = Outage {
            clock,
            dice,
            process,
            node: NodeId(number),
            agenda: BTreeMap::new(),
            sequence: 0,
            turn: None,
            now: down.start,
            down,
            accepted: Vec::new(),
            calls: BTreeMap::new(),
            ended: 0,
        };
        outage.look();
        outage.later(HEARTBEAT.millis(), Happening::Tick);
        outage.tell(Event::Started);
        let lasts = outage.down.end - outage.down.start;
        for n in 0..IN_TROUBLE {
            outage.later(lasts * n / IN_TROUBLE, Happening::Feed);
        }
        for n in 0..AFTERWARDS {
            outage.later(lasts + n * SECOND, Happening::Feed);
        }
        outage
    }

    fn later(&mut self, after: u64, happening: Happening) -> (u64, u64) {
        self.sequence += 1;
        let key = (self.now + after, self.sequence);
        self.agenda.insert(key, happening);
        key
    }

    /// Plays until every message has come to its end.
    fn play(&mut self) {
        let all = usize::try_from(IN_TROUBLE + AFTERWARDS).unwrap();
        while self.ended < all {
            let ((at, _), happening) = self.agenda.pop_first().unwrap();
            assert!(at < self.down.end + 2 * 60 * MINUTE, "a message never comes to an end");
            self.now = at;
            self.clock.0.store(START + i64::try_from(at).unwrap(), Ordering::Relaxed);
            match happening {
                Happening::Feed => self.ask(|store| {
                    Box::pin(async move {
                        let accepted = store.accept(vec![draft()]).await.unwrap().remove(0);
                        Answered::Accepted(accepted.unwrap().id)
                    })
                }),
                Happening::Turn => self.take_turn(),
                Happening::Tick => {
                    self.later(HEARTBEAT.millis(), Happening::Tick);
                    self.tell(Event::Tick);
                }
                Happening::Look => self.look(),
                Happening::Reply(key, reply) => self.tell(Event::Replied { key, reply }),
            }
        }
    }

    /// What was learnt, as the node's learner brings it to the engine.
    fn look(&mut self) {
        self.later(LOOKS, Happening::Look);
        let learnt = self.process.reader.learnt(None, self.clock.now()).unwrap();
        self.tell(Event::Learned(Arc::new(adapt::Memory::of(seen(learnt)))));
    }

    fn ask(&mut self, call: impl FnOnce(Arc<Shell<Sqlite>>) -> Pending) {
        let mut pending = call(self.process.shell.clone());
        assert!(poll(&mut pending).is_none(), "answered before the writer's turn");
        self.process.pending.push(pending);
        self.turn_in(0);
    }

    fn turn_in(&mut self, after: u64) {
        let at = self.now + after;
        if self.turn.is_some_and(|planned| planned.0 <= at) {
            return;
        }
        if let Some(planned) = self.turn.take() {
            self.agenda.remove(&planned);
        }
        self.turn = Some(self.later(after, Happening::Turn));
    }

    fn take_turn(&mut self) {
        self.turn = None;
        assert!(self.process.writer.turn());
        let mut answers = Vec::new();
        let pending = &mut self.process.pending;
        pending.retain_mut(|pending| poll(pending).map(|answered| answers.push(answered)).is_none());
        for answered in answers {
            match answered {
                Answered::Event(event) => self.tell(event),
                Answered::Accepted(id) => self.accepted.push(id),
            }
        }
        let nap = self.process.writer.nap().millis();
        self.turn_in(nap.max(1));
    }

    fn tell(&mut self, event: Event) {
        let now = self.clock.now();
        for effect in self.process.core.step(event, now, &mut self.dice) {
            self.perform(effect, now);
        }
    }

    fn perform(&mut self, effect: Effect, now: Time) {
        let node = self.node;
        match effect {
            Effect::Heartbeat { until } => self.ask(move |store| {
                Box::pin(async move {
                    store.heartbeat(node, until).await.unwrap();
                    Answered::Event(Event::Alive { since: now })
                })
            }),
            Effect::TakeOver { max } => self.ask(move |store| {
                Box::pin(async move {
                    Answered::Event(Event::TakenOver(store.take_over(node, max).await.unwrap()))
                })
            }),
            Effect::Claim(ask) | Effect::ClaimLater(ask) => self.ask(move |store| {
                Box::pin(async move {
                    let (lane, asked) = (ask.lane.clone(), ask.max);
                    let claimed = store.claim(ask).await.unwrap();
                    Answered::Event(Event::Claimed { lane, asked, claimed })
                })
            }),
            Effect::Settle(ended) => {
                let Refill { asks, term } = self.process.core.refill(&ended, now);
                let settlements: Vec<_> = ended.into_iter().map(|ended| ended.settlement).collect();
                let over = settlements.iter().filter(|it| it.attempt.next_delay.is_none()).count();
                self.ended += over;
                self.ask(move |store| {
                    Box::pin(async move {
                        let keys = settlements.iter().map(|settlement| settlement.key).collect();
                        let TurnedOver { claimed, .. } = store.turn_over(settlements, asks).await.unwrap();
                        Answered::Event(Event::TurnedOver { keys, claimed, term })
                    })
                });
            }
            Effect::Release(keys) => self.ask(move |store| {
                Box::pin(async move {
                    store.release(keys.clone()).await.unwrap();
                    Answered::Event(Event::Released(keys))
                })
            }),
            Effect::Send { claimed, .. } => self.called(claimed.key),
            Effect::LeaveOut { .. } | Effect::StopClaims | Effect::Stopped => {
                unreachable!("nobody asks for that")
            }
        }
    }

    /// The provider is called.
    fn called(&mut self, key: ClaimKey) {
        let taken = !self.down.contains(&self.now);
        self.calls.entry(key.message).or_default().push((self.now, taken));
        let refusal = || Refusal { status: Some(503), text: "down".into(), ..Refusal::default() };
        let reply = if taken { Reply::Accepted(Receipt::default()) } else { Reply::Refused(refusal()) };
        self.later(200, Happening::Reply(key, reply));
    }

    /// What must be true of every message once all is over, whatever was learnt.
    fn check(&mut self) {
        // What was settled last is written at the writer's next turn.
        self.take_turn();
        let (least, most) = adapt::bounds(&policy());
        for id in self.accepted.clone() {
            let story = self.process.reader.story(&Tenant::default(), id).unwrap().unwrap();
            let calls = &self.calls[&id];
            let taken = calls.iter().filter(|(_, taken)| *taken).count();
            match story.state {
                State::Sent { .. } => assert_eq!(taken, 1, "{story:?}"),
                State::Failed { .. } => assert_eq!((taken, calls.len()), (0, usize::from(policy().attempts))),
                _ => panic!("{id} was left behind: {story:?}"),
            }
            assert_eq!(story.attempts.len(), calls.len(), "{story:?}");
            for (attempt, between) in story.attempts.iter().zip(calls.windows(2)) {
                let delay = attempt.next_delay.unwrap();
                assert!((least..=most).contains(&delay), "{delay} in {story:?}");
                assert!(between[1].0 >= between[0].0 + delay.millis(), "sooner than {delay}: {calls:?}");
                let record = attempt.policy.as_deref().unwrap();
                if let Some((_, chosen)) = record.split_once("; waits from ") {
                    let chosen: Adapted = format!("waits from {chosen}").parse().unwrap();
                    assert_eq!((chosen.delay(), chosen.again()), (delay, chosen.clone()), "{record}");
                }
            }
        }
    }
}

fn poll(pending: &mut Pending) -> Option<Answered> {
    match pending.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answered) => Some(answered),
        Poll::Pending => None,
    }
}

/// What came of the messages of a week that failed at first.
#[derive(Clone, Debug, Default)]
struct Week {
    failed: usize,
    lost: usize,
    retries: u64,
    wasted: usize,
    /// From the first failure to success.
    times: Vec<u64>,
    /// Retries that whoever reads at its end goes by.
    known: u64,
}

impl Week {
    #[allow(clippy::cast_precision_loss)]
    fn wasted_each(&self) -> f64 {
        self.wasted as f64 / self.failed as f64
    }

    fn median(&self) -> u64 {
        let mut times = self.times.clone();
        times.sort_unstable();
        times[times.len() / 2]
    }

    fn add(&mut self, outage: &Outage) {
        for calls in outage.calls.values().filter(|calls| !calls[0].1) {
            self.failed += 1;
            self.retries += calls.len() as u64 - 1;
            self.wasted += calls[1..].iter().filter(|(_, taken)| !taken).count();
            match calls.last() {
                Some((at, true)) => self.times.push(at - calls[0].0),
                _ => self.lost += 1,
            }
        }
    }
}

/// Plays week after week of outages of that manner.
fn weeks(manners: &[Manner]) -> Vec<Week> {
    let mut dice = Dice::seeded(11);
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let mut number = 0;
    let mut weeks = Vec::new();
    for (week, manner) in (0..).zip(manners) {
        let mut told = Week::default();
        for day in [1, 3, 5] {
            number += 1;
            let from = week * WEEK + day * DAY + dice.below(DAY / 2);
            let down = from..from + manner.lasts(&mut dice);
            let mut outage = Outage::begin(folder.path(), number, down, dice.next_u64());
            outage.play();
            outage.check();
            told.add(&outage);
            let learnt = outage.process.reader.learnt(None, outage.clock.now()).unwrap();
            let trials = learnt.iter().filter(|it| matches!(it.lesson, Lesson::Trial { .. }));
            told.known = trials.map(|it| it.tried).sum();
        }
        weeks.push(told);
    }
    weeks
}

#[test] // REQ LN-2
fn adaptive_waits_stay_sound_for_more_than_half_a_year_and_follow_a_provider_that_changes() {
    use Manner::{Blips, Restarts};
    let manners = [vec![Blips; 10], vec![Restarts; 12], vec![Blips; 12]].concat();
    let weeks = weeks(&manners);
    for (n, week) in weeks.iter().enumerate() {
        assert_eq!(week.lost, 0, "week {n}");
        let read = &weeks[(n + 1).saturating_sub(REMEMBERED)..=n];
        // Eight weeks are remembered and no more: whoever never forgets has too many in the ninth.
        assert_eq!(week.known, read.iter().map(|week| week.retries).sum::<u64>(), "what week {n} goes by");
    }
    let wasted: Vec<f64> = weeks.iter().map(Week::wasted_each).collect();
    let median: Vec<u64> = weeks.iter().map(Week::median).collect();
    assert!(wasted[..10].iter().all(|each| *each == 0.0), "a first retry is always late enough: {wasted:?}");
    assert!(wasted[10] > 0.9, "whoever knows nothing but blips is too early: {wasted:?}");
    assert!(
        wasted[14..22].iter().all(|each| *each < 0.5 * wasted[10]),
        "after four weeks it knows: {wasted:?}"
    );
    assert!(median[22] > 9 * MINUTE, "and is too patient when it need not be any more: {median:?}");
    assert!(median[25..].iter().all(|time| *time < 2 * MINUTE), "for three weeks: {median:?}");
}
