//! One run: an agenda of what happens when, and nothing else that moves time.

mod calls;
mod conductor;
mod faults;
mod keepers;
mod lives;
mod operators;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use pombo_engine::core::{Event, HEARTBEAT, LEASE, Term};
use pombo_kernel::dice::Dice;
use pombo_kernel::message::ClaimKey;
use pombo_kernel::reply::Reply;
use pombo_kernel::time::{Span, Time};
use pombo_store::prune::Walk;
use pombo_store::{Claimed, Place, audit};
use tempfile::TempDir;

use crate::call::{Answered, Call, Caller, Pending};
use crate::chance::Chance;
use crate::house::{Fate, House, Lasting, Nap, WallClock};
use crate::oracle::{Checked, Oracle, Violation, broken, hold};
use crate::plan::{Plan, START};
use crate::provider::{Outage, Said};
use crate::trace::Trace;
pub(crate) use conductor::left_out;
use faults::Fault;
use lives::Life;

/// What is on the agenda.
#[derive(Debug)]
enum Happening {
    /// The store's writer has a turn.
    Turn,
    /// A call reaches the store.
    Call(Caller, Call),
    /// An answer of the store reaches whoever called.
    Answer(Caller, Call, Answered),
    /// An event of its own reaches a life of a node.
    Event(u64, Event),
    /// A message is ready, and its node about to call the provider.
    Ready {
        life: u64,
        claimed: Arc<Claimed>,
        term: Term,
        timeout: Span,
    },
    /// The provider takes a message.
    Taken(ClaimKey),
    /// What became of an attempt reaches whoever made it.
    Reply {
        life: u64,
        key: ClaimKey,
        reply: Reply,
        said: Said,
    },
    /// A life's heart beats.
    Tick(u64),
    /// A life that asked at that time by its own clock is told what time it is, after so many jumps.
    Told {
        life: u64,
        asked: Time,
        time: Time,
        jumps: u64,
    },
    StartNode(usize),
    StartStore,
    Fault(Fault),
    /// Somebody looks after the campaigns.
    Conduct,
    /// Somebody looks for what is given up, and has come so far.
    Keep(Walk),
    Calm,
}

/// How often everything is compared though nothing was committed, in turns of the writer.
const COMPARE_EVERY: u64 = 24;
/// Turns without anything new after which a store that wants another at once is said to spin.
const MOST_IDLE_TURNS: u64 = 500;
/// Things that happen in one run, at most; far more than any run needs.
const MOST_STEPS: u64 = 2_000_000;
/// A destination that only fails now and then is hardly taken to be down more often, and probes hardly fail more often.
const MOST_OPENINGS: u64 = 20;
/// How many let go of what is given up. One would do.
const KEEPERS: usize = 2;
/// The slowest probe of a hold.
const SLOWEST_PROBE: Span = Span::from_mins(10);

pub(crate) struct World<C: Lasting> {
    plan: Plan,
    dice: Dice,
    trace: Trace,
    oracle: Oracle,
    /// Milliseconds since the start. Only this never jumps.
    now: u64,
    /// How far the wall clock has jumped.
    offset: i64,
    /// How often it has.
    jumps: u64,
    /// How far it has jumped back in all.
    back: u64,
    clock: Arc<WallClock>,
    agenda: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
    turn: Option<(u64, u64)>,
    turns: u64,
    idle_turns: u64,
    // Before the folder, so that it is closed first.
    house: Option<House<C>>,
    /// What the last process left.
    left: Option<C::Reader>,
    folder: TempDir,
    pending: BTreeMap<u64, Pending>,
    lives: BTreeMap<u64, Life>,
    last_life: u64,
    /// How many messages providers have taken and will report on.
    receipts: u64,
    calm: bool,
    /// Which destinations are down, how, and when. All of the channel's, where none is named.
    outages: Vec<(Place, Outage, Range<u64>)>,
}

impl<C: Lasting> World<C> {
    pub(crate) fn new(plan: Plan, dice: Dice, trace: Trace) -> Result<World<C>, Violation> {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let folder = match folder {
            Ok(folder) => folder,
            Err(error) => return broken(0, format_args!("no temporary folder: {error}")),
        };
        let mut world = World {
            oracle: Oracle::new(plan.clone()),
            plan,
            dice,
            trace,
            now: 0,
            offset: 0,
            jumps: 0,
            back: 0,
            clock: Arc::new(WallClock::at(START)),
            agenda: BTreeMap::new(),
            sequence: 0,
            turn: None,
            turns: 0,
            idle_turns: 0,
            house: None,
            left: None,
            folder,
            pending: BTreeMap::new(),
            lives: BTreeMap::new(),
            last_life: 0,
            receipts: 0,
            calm: false,
            outages: Vec::new(),
        };
        world.start_store()?;
        for node in 0..world.plan.nodes {
            let at = world.dice.below(2_000);
            world.later(at, Happening::StartNode(node));
        }
        for wish in world.plan.wishes.clone() {
            let call = Call::Accept { drafts: wish.drafts, tries: 0 };
            world.later(wish.at, Happening::Call(Caller::Outside, call));
        }
        world.plan_faults();
        if !world.plan.drives.is_empty() {
            for _ in 0..world.plan.faults.conductors {
                world.later(0, Happening::Conduct);
            }
        }
        if world.plan.retention.is_some() {
            for _ in 0..KEEPERS {
                world.later(0, Happening::Keep(Walk::default()));
            }
        }
        world.later(world.plan.calm_at, Happening::Calm);
        Ok(world)
    }

    /// Plays until everything has come to an end, or something does not hold.
    pub(crate) fn run(&mut self) -> Checked {
        let mut deadline = None;
        for _ in 0..MOST_STEPS {
            let Some((at, happening)) = self.agenda.pop_first() else { break };
            self.now = at.0;
            self.set_clock();
            self.step(happening)?;
            if self.calm && deadline.is_none() {
                deadline = Some(self.now + self.bound());
            }
            if let Some(deadline) = deadline {
                if self.is_over() {
                    self.oracle.check_anew();
                    return self.compare_all();
                }
                let late = self.now > deadline;
                hold!(15, !late, "still not at an end: {}", self.oracle.unfinished().join(", "));
            }
        }
        broken(15, format_args!("it goes on and on: {}", self.oracle.unfinished().join(", ")))
    }

    fn step(&mut self, happening: Happening) -> Checked {
        match happening {
            Happening::Turn => self.take_turn(),
            Happening::Call(caller, call) => {
                self.make_call(caller, call);
                Ok(())
            }
            Happening::Answer(caller, call, answered) => self.answer(caller, call, answered),
            Happening::Event(life, event) => self.tell(life, event),
            Happening::Ready { life, claimed, term, timeout } => self.send(life, claimed, term, timeout),
            Happening::Taken(key) => {
                self.note(format_args!("the provider takes {}", self.oracle.name(key.message)));
                self.oracle.taken(key)
            }
            Happening::Reply { life, key, reply, said } => self.reply(life, key, reply, said),
            Happening::Tick(life) => self.tick(life),
            Happening::Told { life, asked, time, jumps } => {
                self.told_time(life, asked, time, jumps);
                Ok(())
            }
            Happening::StartNode(node) => self.start_node(node),
            Happening::StartStore => self.start_store(),
            Happening::Fault(fault) => self.strike(fault),
            Happening::Conduct => self.conduct(),
            Happening::Keep(walk) => self.keep(walk),
            Happening::Calm => {
                self.calm_down();
                Ok(())
            }
        }
    }

    fn is_over(&self) -> bool {
        if self.house.is_none() || !self.oracle.is_finished() {
            return false;
        }
        let outside = |caller: Caller| caller == Caller::Outside;
        let under_way = self.pending.values().any(|pending| outside(pending.caller))
            || self.agenda.values().any(|happening| match happening {
                Happening::Call(caller, _) | Happening::Answer(caller, ..) => outside(*caller),
                Happening::Taken(_) => true,
                _ => false,
            });
        !under_way
    }

    /// How long it can take, once nothing goes wrong any more, until everything is at an end.
    fn bound(&self) -> u64 {
        let channels = self.plan.setup.channels.values();
        let slowest = channels.clone().map(|channel| channel.attempt_timeout.millis()).max().unwrap_or(0);
        let attempts = channels.clone().map(|channel| u64::from(channel.policy.attempts)).max().unwrap_or(1);
        let cap = channels.clone().map(|channel| channel.policy.cap.millis()).max().unwrap_or(0);
        let hint = channels.clone().map(|channel| channel.policy.max_hint.millis()).max().unwrap_or(0);
        let messages = self.plan.wishes.iter().map(|wish| wish.drafts.len() as u64).sum::<u64>() * 3;
        let one = attempts * (cap + 1_000);
        // Whatever was on its way when the faults stopped, and a life that was frozen.
        let stragglers = 3 * self.plan.faults.slowest_hop + 120_000 + slowest;
        // A time that was set before the clock jumped back comes that much later.
        let clock = self.back + 2 * self.plan.faults.skew;
        let recovery = LEASE.millis() + 3 * HEARTBEAT.millis() + 10_000;
        let probe =
            channels.clone().map(|channel| channel.care.breaker.slowest_probe.millis()).max().unwrap_or(0);
        let waits = 60_000 + hint + 2 * SLOWEST_PROBE.millis() + MOST_OPENINGS * probe;
        let slowest_rate = channels.filter_map(|channel| channel.care.rate).map(|rate| rate.milli()).min();
        // A ramp lets five a second go, a bounded channel what it may.
        let paced = messages * attempts * 1_000_000 / slowest_rate.unwrap_or(5_000).min(5_000);
        let drives = self.plan.drives.iter();
        // Each may be sent again by an operator, and campaigns of one line wait for one another.
        let bulk = drives.map(|drive| {
            let line = self.plan.channel(&drive.draft.channel).and_then(|channel| channel.line.gap);
            let gap = drive.draft.throttle.max() + line.unwrap_or_default();
            let sends = drive.people * attempts * 3;
            // A clock that was set forward may have passed the end of the hours.
            let closed = u64::from(drive.opens_at.is_some());
            let cap = self.plan.channel(&drive.draft.channel).and_then(|channel| channel.line.daily_cap);
            let days = closed + cap.map_or(0, |cap| sends.div_ceil(u64::from(cap)));
            let days = Span::from_hours(24 * days).millis();
            sends * (gap.millis() + 2_000) + conductor::SLOWEST * 20 + days
        });
        let bulk = bulk.sum::<u64>();
        let rest = messages * 1_000 + paced + bulk;
        stragglers + clock + recovery + waits + one * self.oracle.longest_order() + rest
    }

    // The writer.

    fn take_turn(&mut self) -> Checked {
        self.turn = None;
        let (fate, crash) = self.roll_fate();
        let Some(house) = &mut self.house else { return Ok(()) };
        self.turns += 1;
        let goes_on = house.turn(fate);
        let records = self.oracle.follow(&mut house.reader);
        let records = records?;
        if !records.is_empty() {
            self.idle_turns = 0;
        }
        if fate != Fate::Fine {
            self.oracle.store_forgets();
            self.note(format_args!("the commit fails: {fate:?}"));
        }
        for (position, record) in &records {
            let name = record.message.map(|id| self.oracle.name(id)).unwrap_or_default();
            let event = record.event.as_str();
            self.note(format_args!("#{position} {event} {name} {} {}", record.channel, record.detail));
            self.watch_letters(record);
            if record.event == audit::Event::Paused && self.calm {
                self.call(Caller::Outside, Call::Resume, 0);
            }
        }
        hold!(0, goes_on, "the store can no longer be trusted");
        hold!(15, self.idle_turns < MOST_IDLE_TURNS, "the writer spins, and nothing comes of it");
        if !records.is_empty() || self.turns.is_multiple_of(COMPARE_EVERY) {
            self.compare_all()?;
        }
        if crash {
            self.crash_process();
            return Ok(());
        }
        self.collect_answers()?;
        self.plan_turn();
        Ok(())
    }

    fn compare_all(&mut self) -> Checked {
        match &mut self.house {
            Some(house) => self.oracle.compare_all(&mut house.reader),
            None => Ok(()),
        }
    }

    /// Puts the writer's next turn on the agenda, for when it would wake by itself.
    fn plan_turn(&mut self) {
        let Some(house) = &mut self.house else { return };
        let at = match house.nap() {
            Nap::For(0) => {
                self.idle_turns += 1;
                self.now + 1
            }
            Nap::For(millis) => self.now + millis,
            Nap::Until(time) => {
                let wait = time.since(self.clock_now()).millis().max(1);
                // Sometimes it looks at the clock when it need not.
                self.now + if self.dice.one_in(16) { wait.min(1_000) } else { wait }
            }
            Nap::Idle => return,
        };
        self.turn_at(at);
    }

    /// The writer has a turn by then.
    fn turn_at(&mut self, at: u64) {
        if let Some(planned) = self.turn {
            if planned.0 <= at {
                return;
            }
            self.agenda.remove(&planned);
        }
        self.turn = Some(self.later_at(at, Happening::Turn));
    }

    // Time.

    fn clock_now(&self) -> Time {
        let jumped = Span::from_millis(self.offset.unsigned_abs());
        let time = START + Span::from_millis(self.now);
        if self.offset < 0 { time - jumped } else { time + jumped }
    }

    fn set_clock(&self) {
        self.clock.set(self.clock_now());
    }

    fn later(&mut self, after: u64, happening: Happening) {
        self.later_at(self.now + after, happening);
    }

    fn later_at(&mut self, at: u64, happening: Happening) -> (u64, u64) {
        self.sequence += 1;
        let key = (at, self.sequence);
        self.agenda.insert(key, happening);
        key
    }

    fn note(&mut self, what: std::fmt::Arguments<'_>) {
        self.trace.note(self.now, what);
    }

    /// What is to be read of the run.
    pub(crate) fn into_trace(self) -> Trace {
        self.trace
    }

    /// How long a call or an answer is on its way.
    fn hop(&mut self) -> u64 {
        let slowest = if self.calm { 50 } else { self.plan.faults.slowest_hop };
        match self.dice.below(20) {
            0 => self.dice.below(slowest),
            1..=5 => self.dice.below(slowest.min(50)),
            _ => self.dice.below(3),
        }
    }
}
