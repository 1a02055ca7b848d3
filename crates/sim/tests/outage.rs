//! A destination that is down for hours, under virtual time: the engine's core and the store's shell and writer, on
//! SQLite. There is one node, and nothing else goes wrong, so the driver is leaner than that of the seeds.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, Waker};

use pombo_engine::core::{Core, Effect, Event, HEARTBEAT, Refill};
use pombo_kernel::block::{Block, BlockKind};
use pombo_kernel::classify::Rules;
use pombo_kernel::dice::Dice;
use pombo_kernel::guard::Guard;
use pombo_kernel::id::MessageId;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::lifecycle::OnUnknownOutcome;
use pombo_kernel::message::{AttemptOutcome, Body, ClaimKey, Draft, Priority, QueueName};
use pombo_kernel::name::Tenant;
use pombo_kernel::planted::{self, Bug};
use pombo_kernel::policy::{Policy, Profile};
use pombo_kernel::reply::{Fault, FaultKind, Receipt, Refusal, Reply};
use pombo_kernel::setup::{Care, ChannelSetup, Destination, LaneSetup, Limits, Setup};
use pombo_kernel::time::{Clock, Span, Time};
use pombo_store::core::{Core as _, Reading};
use pombo_store::shell::{Shell, Writer};
use pombo_store::sqlite::Sqlite;
use pombo_store::{Counted, NodeId, Store, Story, TurnedOver};
use tempfile::TempDir;

const START: i64 = 1_800_000_000_000;
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;

/// What goes in for each destination, every second.
const STEADY: usize = 7;
/// The provider answers at the next of these moments but one.
const ANSWERS: u64 = 250;
/// How long an attempt may take.
const TIMEOUT: u64 = 30 * SECOND;
/// Enough for all that can be under way.
const WORKERS: u16 = 300;

#[derive(Debug)]
struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Time {
        Time::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// The destinations of the one channel, each with a tenant of its own. The first is the one that goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum To {
    A,
    B,
}

impl To {
    fn name(self) -> &'static str {
        match self {
            To::A => "a.example",
            To::B => "b.example",
        }
    }

    /// Whose messages go there.
    fn tenant(self) -> Tenant {
        match self {
            To::A => Tenant::default(),
            To::B => "neighbour".parse().unwrap(),
        }
    }
}

/// What the provider saw of one message, and what its producer knows.
#[derive(Clone, Debug)]
struct Seen {
    to: To,
    accepted_at: u64,
    /// When each call for it began.
    calls: Vec<u64>,
    taken_at: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// It refuses everybody at once.
    Down,
    /// It answers nobody, and everybody waits in vain.
    Hangs,
    /// Two calls of five fail: too few to count as down.
    Ailing,
}

enum Happening {
    Feed,
    Turn,
    Tick,
    Reply(ClaimKey, Reply),
}

/// An answer of the store, with what was asked.
enum Answered {
    Event(Option<Event>),
    Accepted(Vec<(To, MessageId)>),
}

type Pending = Pin<Box<dyn Future<Output = Answered>>>;

/// The process: it ends at a restart, and with it everything that is under way.
struct Process {
    shell: Arc<Shell<Sqlite>>,
    writer: Writer<Sqlite>,
    reader: <Sqlite as pombo_store::core::Core>::Reader,
    core: Core,
    pending: Vec<Pending>,
}

struct Line {
    folder: TempDir,
    clock: Arc<TestClock>,
    setup: Arc<Setup>,
    dice: Dice,
    process: Option<Process>,
    lives: i64,
    agenda: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
    turn: Option<(u64, u64)>,
    now: u64,
    /// What A does, and when.
    trouble: Trouble,
    when: Vec<Range<u64>>,
    /// How many new messages each destination gets a second.
    feeding: Vec<(To, usize)>,
    seen: HashMap<MessageId, Seen>,
    /// When each call to A began.
    calls: Vec<u64>,
}

fn setup(workers: u16) -> Arc<Setup> {
    let channel = ChannelSetup {
        name: "crm".parse().unwrap(),
        kind: ChannelKind::Webhook,
        tenant: Tenant::default(),
        policy: Policy::built_in("whatsapp", Profile::Production).unwrap(),
        rules: Rules::for_kind(ChannelKind::Webhook, &[]).unwrap(),
        on_unknown_outcome: OnUnknownOutcome::Resend,
        destination: Destination::Host,
        attempt_timeout: Span::from_millis(TIMEOUT),
        unready: None,
        receipts: None,
        line: pombo_kernel::campaign::line::LineRules::default(),
        suppressions: pombo_kernel::setup::Suppressions::default(),
        care: Care::default(),
    };
    Arc::new(Setup {
        channels: BTreeMap::from([(channel.name.clone(), Arc::new(channel))]),
        lanes: BTreeMap::from([("default".parse().unwrap(), LaneSetup { workers })]),
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

fn draft(to: To) -> Draft {
    Draft {
        id: None,
        queue: QueueName {
            tenant: to.tenant(),
            lane: "default".parse().unwrap(),
            channel: "crm".parse().unwrap(),
            destination: to.name().into(),
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

impl Line {
    fn new(trouble: Trouble, when: Range<u64>, workers: u16) -> Line {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let mut line = Line {
            folder,
            clock: Arc::new(TestClock(AtomicI64::new(START))),
            setup: setup(workers),
            dice: Dice::seeded(7),
            process: None,
            lives: 0,
            agenda: BTreeMap::new(),
            sequence: 0,
            turn: None,
            now: 0,
            trouble,
            when: vec![when],
            feeding: vec![(To::A, STEADY), (To::B, STEADY)],
            seen: HashMap::new(),
            calls: Vec::new(),
        };
        line.later(0, Happening::Feed);
        line.start();
        line
    }

    /// A process starts; the one before it, if any, is gone without a word.
    fn start(&mut self) {
        self.process = None;
        self.agenda.retain(|_, happening| matches!(happening, Happening::Feed));
        self.turn = None;
        self.lives += 1;
        let core = Sqlite::open(self.folder.path(), Dice::seeded(self.dice.next_u64()), &[7; 32]).unwrap();
        let reader = core.reader().unwrap();
        let mut dice = Dice::seeded(self.dice.next_u64());
        let entropy = Box::new(move || [u8::try_from(dice.below(256)).unwrap(); 32]);
        let (shell, writer) = Shell::with_writer(core, self.clock.clone(), entropy).unwrap();
        let core = Core::new(NodeId(self.lives), self.setup.clone(), &[]);
        self.process = Some(Process { shell: Arc::new(shell), writer, reader, core, pending: Vec::new() });
        self.later(HEARTBEAT.millis(), Happening::Tick);
        self.tell(Event::Started);
    }

    fn process(&mut self) -> &mut Process {
        self.process.as_mut().unwrap()
    }

    fn later(&mut self, after: u64, happening: Happening) -> (u64, u64) {
        self.sequence += 1;
        let key = (self.now + after, self.sequence);
        self.agenda.insert(key, happening);
        key
    }

    fn clock_now(&self) -> Time {
        self.clock.now()
    }

    /// Plays until that moment.
    fn play(&mut self, until: u64) {
        while let Some(next) = self.agenda.first_entry().filter(|next| next.key().0 <= until) {
            let ((at, _), happening) = next.remove_entry();
            self.now = at;
            self.clock.0.store(START + i64::try_from(at).unwrap(), Ordering::Relaxed);
            match happening {
                Happening::Feed => self.feed(),
                Happening::Turn => self.take_turn(),
                Happening::Tick => {
                    self.later(HEARTBEAT.millis(), Happening::Tick);
                    self.tell(Event::Tick);
                }
                Happening::Reply(key, reply) => self.tell(Event::Replied { key, reply }),
            }
        }
    }

    fn feed(&mut self) {
        self.later(SECOND, Happening::Feed);
        let to: Vec<To> =
            self.feeding.iter().flat_map(|(to, count)| std::iter::repeat_n(*to, *count)).collect();
        if to.is_empty() {
            return;
        }
        let drafts: Vec<Draft> = to.iter().map(|to| draft(*to)).collect();
        self.ask(move |store| {
            Box::pin(async move {
                let accepted = store.accept(drafts).await.unwrap().into_iter().map(|it| it.unwrap().id);
                Answered::Accepted(to.into_iter().zip(accepted).collect())
            })
        });
    }

    /// Something is wanted of the store; the writer has a turn once everything of this moment is there.
    fn ask(&mut self, call: impl FnOnce(Arc<Shell<Sqlite>>) -> Pending) {
        let process = self.process();
        let mut pending = call(process.shell.clone());
        assert!(poll(&mut pending).is_none(), "answered before the writer's turn");
        process.pending.push(pending);
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
        let process = self.process();
        assert!(process.writer.turn());
        let mut answers = Vec::new();
        process.pending.retain_mut(|pending| poll(pending).map(|answered| answers.push(answered)).is_none());
        for answered in answers {
            match answered {
                Answered::Event(event) => event.into_iter().for_each(|event| self.tell(event)),
                Answered::Accepted(ids) => {
                    for (to, id) in ids {
                        let seen = Seen { to, accepted_at: self.now, calls: Vec::new(), taken_at: None };
                        // A worker may have called before the producer heard.
                        let known = self.seen.entry(id).or_insert_with(|| seen.clone());
                        known.accepted_at = seen.accepted_at;
                    }
                }
            }
        }
        let nap = self.process().writer.nap().millis();
        self.turn_in(nap.max(1));
    }

    fn tell(&mut self, event: Event) {
        let now = self.clock_now();
        let mut dice = self.dice.clone();
        let effects = self.process().core.step(event, now, &mut dice);
        self.dice = dice;
        for effect in effects {
            self.perform(effect, now);
        }
    }

    fn perform(&mut self, effect: Effect, now: Time) {
        let node = NodeId(self.lives);
        match effect {
            Effect::Heartbeat { until } => self.ask(move |store| {
                Box::pin(async move {
                    store.heartbeat(node, until).await.unwrap();
                    Answered::Event(Some(Event::Alive { since: now }))
                })
            }),
            Effect::TakeOver { max } => self.ask(move |store| {
                Box::pin(async move {
                    Answered::Event(Some(Event::TakenOver(store.take_over(node, max).await.unwrap())))
                })
            }),
            Effect::Claim(ask) | Effect::ClaimLater(ask) => self.ask(move |store| {
                Box::pin(async move {
                    let (lane, asked) = (ask.lane.clone(), ask.max);
                    let claimed = store.claim(ask).await.unwrap();
                    Answered::Event(Some(Event::Claimed { lane, asked, claimed }))
                })
            }),
            Effect::Settle(ended) => {
                let Refill { asks, term } = self.process().core.refill(&ended, now);
                self.ask(move |store| {
                    Box::pin(async move {
                        let settlements: Vec<_> = ended.into_iter().map(|ended| ended.settlement).collect();
                        let keys = settlements.iter().map(|settlement| settlement.key).collect();
                        let TurnedOver { claimed, .. } = store.turn_over(settlements, asks).await.unwrap();
                        Answered::Event(Some(Event::TurnedOver { keys, claimed, term }))
                    })
                });
            }
            Effect::Release(keys) => self.ask(move |store| {
                Box::pin(async move {
                    store.release(keys.clone()).await.unwrap();
                    Answered::Event(Some(Event::Released(keys)))
                })
            }),
            Effect::LeaveOut { key, reason } => self.ask(move |store| {
                Box::pin(async move {
                    store.leave_out(key, reason.to_string()).await.unwrap();
                    Answered::Event(Some(Event::Released(vec![key])))
                })
            }),
            Effect::Send { claimed, .. } => {
                let to = if &*claimed.message.queue.destination == To::A.name() { To::A } else { To::B };
                self.called(to, claimed.key);
            }
            Effect::StopClaims | Effect::Stopped => unreachable!("nobody asks for that"),
        }
    }

    /// The provider is called.
    fn called(&mut self, to: To, key: ClaimKey) {
        let now = self.now;
        let known = self.seen.entry(key.message);
        let seen = known.or_insert_with(|| Seen { to, accepted_at: now, calls: Vec::new(), taken_at: None });
        seen.calls.push(now);
        let trouble = self.trouble;
        let fails = to == To::A
            && self.when.iter().any(|when| when.contains(&now))
            && (trouble != Trouble::Ailing || self.calls.len() % 5 < 2);
        let hangs = trouble == Trouble::Hangs;
        let reply = match (fails, self.calls.len() % 2) {
            (false, _) => {
                seen.taken_at.get_or_insert(now);
                Reply::Accepted(Receipt::default())
            }
            (true, _) if hangs => {
                Reply::Doubtful(Fault { kind: FaultKind::Timeout, text: "no answer".into() })
            }
            (true, 0) => {
                Reply::Refused(Refusal { status: Some(503), text: "down".into(), ..Refusal::default() })
            }
            (true, _) => Reply::Unreachable(Fault {
                kind: FaultKind::ConnectionRefused,
                text: "nobody listens".into(),
            }),
        };
        if to == To::A {
            self.calls.push(now);
        }
        let wait = if fails && hangs { TIMEOUT } else { 2 * ANSWERS - now % ANSWERS };
        self.later(wait, Happening::Reply(key, reply));
    }

    // What came of it.

    /// What stands in front of A.
    fn block(&mut self) -> Option<Block> {
        let blocks = self.process().reader.blocks().unwrap();
        blocks
            .into_iter()
            .find(|(place, _)| place.destination.as_deref() == Some(To::A.name()))
            .map(|it| it.1)
    }

    fn story(&mut self, id: MessageId) -> Story {
        let tenant = self.seen[&id].to.tenant();
        self.process().reader.story(&tenant, id).unwrap().unwrap()
    }

    fn counted(&mut self, what: Counted) -> u64 {
        let tallies = self.process().reader.tallies().unwrap();
        tallies.iter().filter(|tally| tally.what == what).map(|tally| tally.count).sum()
    }

    /// What each message was charged for are the calls that were made for it and did not find the destination down.
    fn check_charges(&mut self) {
        let tried: Vec<_> =
            self.seen.iter().filter(|(_, seen)| seen.calls.len() > 1).map(|it| *it.0).collect();
        let once = self.seen.iter().filter(|(_, seen)| seen.calls.len() == 1).map(|it| *it.0);
        let some: Vec<_> = once.step_by(101).collect();
        for id in tried.into_iter().chain(some) {
            let (story, calls) = (self.story(id), self.seen[&id].calls.len());
            assert_eq!(story.attempts.len(), calls, "{story:?}");
            let free =
                story.attempts.iter().filter(|attempt| attempt.outcome == AttemptOutcome::Held).count();
            assert_eq!(usize::from(story.progress.attempts), calls - free, "{story:?}");
        }
    }

    /// Messages for A that wait, or are under way.
    fn waiting(&self) -> usize {
        self.seen.values().filter(|seen| seen.to == To::A && seen.taken_at.is_none()).count()
    }

    /// Calls to A that began within these times.
    fn calls_in(&self, times: Range<u64>) -> usize {
        self.calls.iter().filter(|at| times.contains(at)).count()
    }

    /// The most calls to A that began within ten seconds of each other, at or after `from`.
    fn busiest(&self, from: u64) -> usize {
        let calls = &self.calls[self.calls.partition_point(|at| *at < from)..];
        let window = |(n, at): (usize, &u64)| calls[n..].partition_point(|other| *other < at + 10 * SECOND);
        calls.iter().enumerate().map(window).max().unwrap_or(0)
    }

    /// The longest that a message waited for its first call, of those for a destination that were accepted then.
    fn slowest(&self, to: To, accepted: Range<u64>) -> u64 {
        let of_then = self.seen.values().filter(|seen| seen.to == to && accepted.contains(&seen.accepted_at));
        of_then.map(|seen| seen.calls.first().map_or(u64::MAX, |at| at - seen.accepted_at)).max().unwrap()
    }
}

fn poll(pending: &mut Pending) -> Option<Answered> {
    match pending.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answered) => Some(answered),
        Poll::Pending => None,
    }
}

/// How long A still gets new messages after it is back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feed {
    /// All the time, so that what has waited leaves at the difference of two rates.
    On,
    For(u64),
}

/// An outage of A in the middle of steady traffic, with the process killed and started again at these times.
fn outage(trouble: Trouble, length: u64, feed: Feed, restarts: &[u64]) {
    let down = 2 * MINUTE..2 * MINUTE + length;
    let mut line = Line::new(trouble, down.clone(), WORKERS);
    let mut restarts = restarts.to_vec();
    // What has waited goes at 1.8 times the steady rate, together with what is new.
    let slack = 3 * MINUTE;
    let drained = match feed {
        Feed::On => down.end + length * 10 / 8 + slack,
        Feed::For(more) => down.end + (length + more) * 10 / 18 + slack,
    };
    let end = drained + 5 * MINUTE;
    let mut crowd = 0;
    while line.now < end {
        let at = (line.now / SECOND + 1) * SECOND;
        line.play(at);
        if restarts.first().is_some_and(|restart| *restart <= at) {
            restarts.remove(0);
            line.start();
        }
        if at == down.start + MINUTE {
            let breaker = line.block().unwrap();
            assert_eq!(breaker.kind, BlockKind::Breaker);
            let steady = breaker.steady.unwrap().milli();
            assert!((6_500..=7_500).contains(&steady), "{steady} thousandths a second were measured");
        } else if at == down.end {
            crowd = line.waiting();
        } else if at == down.end + 2 * MINUTE {
            assert_eq!(line.block().unwrap().kind, BlockKind::Ramp);
        } else if at == drained {
            assert!(line.waiting() <= 2 * STEADY, "{} still wait", line.waiting());
        }
        if feed == Feed::For(at.saturating_sub(down.end)) {
            line.feeding.clear();
        }
    }
    line.feeding.clear();
    line.play(end + MINUTE);
    let all = STEADY * usize::try_from(length / SECOND).unwrap();
    assert!((all - 200..=all + STEADY).contains(&crowd), "{crowd} waited of {all}");
    assert_eq!(restarts, [0; 0]);

    // While it is down, it is left in peace, and the other one notices nothing.
    // It opens once it has failed for ten seconds; first attempts and their retries go on until then.
    let seconds = if trouble == Trouble::Hangs { TIMEOUT / SECOND + 12 } else { 12 };
    let open = down.start + (seconds + 1) * SECOND;
    let until_open = u64::try_from(line.calls_in(down.start..open)).unwrap();
    assert!(until_open <= 3 * seconds * STEADY as u64, "{until_open} calls until it was open");
    let probes = u64::try_from(line.calls_in(open..down.end)).unwrap();
    let most = length / MINUTE + 6;
    assert!((most / 2..=most).contains(&probes), "{probes} probes of {most}");
    let usual = line.slowest(To::B, 0..down.start);
    let meanwhile = line.slowest(To::B, down.start..line.now);
    assert_eq!(meanwhile, usual, "milliseconds that a message for the other destination waits");

    // What has waited comes back slowly, and nothing new waits behind it for ever.
    let back = *line.calls.iter().find(|at| **at >= down.end).unwrap();
    let last_probe = if trouble == Trouble::Hangs { TIMEOUT } else { 0 };
    assert!(back <= down.end + last_probe + MINUTE + SECOND, "a probe comes within a minute of the last");
    let first = line.calls_in(back..back + 30 * SECOND);
    assert!(first <= 30 * STEADY, "{first} calls in the first half minute, at no more than the steady rate");
    let (busiest, twice) = (line.busiest(down.end), 10 * 2 * STEADY);
    assert!(busiest <= twice, "{busiest} calls within ten seconds; twice the steady rate are {twice}");
    assert!(busiest > 10 * STEADY * 3 / 2, "it catches up, and not at {busiest} in ten seconds");
    let behind = length * 10 / 18 + slack;
    let slowest = line.slowest(To::A, back..line.now);
    assert!(slowest <= behind, "a message that came after the outage waited {slowest} ms of {behind}");

    // Everything arrives, and only attempts that were made are charged.
    assert_eq!(line.waiting(), 0);
    assert!(feed != Feed::On || line.block().is_none(), "the ramp has ended");
    assert_eq!(line.counted(Counted::Failed), 0, "no dead letter");
    assert_eq!(line.counted(Counted::Sent), line.counted(Counted::Accepted));
    line.check_charges();
}

#[test] // REQ CB-1, CF-7, RP-7; failure modes 31 and 34
fn a_destination_that_is_down_for_two_hours_is_left_in_peace_and_comes_back_without_a_herd() {
    outage(Trouble::Down, 120 * MINUTE, Feed::For(20 * MINUTE), &[62 * MINUTE, 150 * MINUTE]);
}

#[test] // REQ CB-1; failure modes 31 and 34
fn restarts_during_an_outage_and_after_it_change_nothing() {
    outage(Trouble::Down, 12 * MINUTE, Feed::On, &[8 * MINUTE, 20 * MINUTE]);
}

#[test] // REQ CB-1; failure modes 31 and 34
fn a_destination_that_hangs_is_measured_by_what_it_took_before() {
    outage(Trouble::Hangs, 12 * MINUTE, Feed::On, &[]);
}

#[test] // REQ CB-1; failure mode 34
fn a_relapse_on_the_ramp_does_not_let_the_rest_go_as_a_herd() {
    let (down, relapse) = (2 * MINUTE..14 * MINUTE, 18 * MINUTE..18 * MINUTE + 20 * SECOND);
    let mut line = Line::new(Trouble::Down, down.clone(), WORKERS);
    line.feeding = vec![(To::A, STEADY)];
    line.when.push(relapse.clone());
    line.play(relapse.end);
    assert_eq!(line.block().unwrap().kind, BlockKind::Breaker);
    let crowd = line.waiting();
    assert!(crowd > 2_000, "{crowd} still wait");
    // From here on as after any outage, at 0.8 of the steady rate more than what is new.
    let drained =
        relapse.end + u64::try_from(crowd).unwrap() * 10 * SECOND / (8 * STEADY as u64) + 3 * MINUTE;
    line.play(drained);
    assert!(line.waiting() <= 2 * STEADY, "{} still wait", line.waiting());
    line.play(drained + 10 * MINUTE);
    let (busiest, twice) = (line.busiest(down.end), 10 * 2 * STEADY);
    assert!(busiest <= twice, "{busiest} calls within ten seconds; twice the steady rate are {twice}");
    assert_eq!((line.counted(Counted::Failed), line.block()), (0, None));
}

#[test] // REQ RP-7; failure mode 35
fn a_storm_of_retries_does_not_hold_up_what_is_new() {
    let ailing = MINUTE..3 * MINUTE;
    // Sixty new ones a second and, with two calls of five failing, half as many retries; but room for 84.
    let mut line = Line::new(Trouble::Ailing, ailing.clone(), 42);
    line.feeding = vec![(To::A, 60)];
    line.play(5 * MINUTE);
    line.feeding.clear();
    line.play(15 * MINUTE);
    let again =
        line.seen.values().flat_map(|seen| seen.calls.iter().skip(1)).filter(|at| ailing.contains(at));
    let again = again.count();
    assert!(again > 22 * 110, "retries get their share and the floor, and not {again}");
    assert!(again < 25 * 120, "{again} retries: room for all of them, and no storm");
    let (usual, stormy) = (line.slowest(To::A, 0..ailing.start), line.slowest(To::A, ailing));
    assert!(usual <= SECOND && stormy <= 2 * SECOND, "what is new waits {stormy} ms, and otherwise {usual}");
    assert_eq!((line.waiting(), line.counted(Counted::Failed)), (0, 0));
    line.check_charges();
}

/// How long a tenant's messages wait at most before another pours in far more than can go, and meanwhile.
fn neighbours() -> (u64, u64) {
    // There is room for 84 a second.
    let (noise, mut line) = (MINUTE..3 * MINUTE, Line::new(Trouble::Down, 0..0, 42));
    line.feeding = vec![(To::A, 1), (To::B, 10)];
    line.play(noise.start);
    line.feeding = vec![(To::A, 300), (To::B, 10)];
    line.play(noise.end);
    assert!(line.waiting() > 20_000, "{} wait, and far more came than could go", line.waiting());
    let went = line.calls_in(noise.clone());
    assert!(went > 60 * 120, "{went} went all the same: nobody's slots stay empty");
    line.feeding.clear();
    line.play(noise.end + SECOND);
    (line.slowest(To::B, 0..noise.start), line.slowest(To::B, noise))
}

#[test] // failure mode 39
fn a_tenant_who_pours_in_far_more_than_can_go_delays_nobody_else() {
    let (usual, noisy) = neighbours();
    assert!(usual <= SECOND && noisy <= SECOND, "a neighbour waits {noisy} ms, and otherwise {usual}");
}

#[test]
fn turns_that_are_not_kept_are_seen_in_what_a_neighbour_waits() {
    let bug = Bug::TurnsIgnored;
    planted::plant(Some(bug));
    let (usual, noisy) = neighbours();
    planted::plant(None);
    assert!(usual <= SECOND && noisy > MINUTE, "a neighbour waits {noisy} ms, and otherwise {usual}");
    println!("result planted bug={bug:?} caught=1");
}
