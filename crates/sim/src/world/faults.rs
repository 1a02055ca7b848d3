//! What goes wrong, and when.

use std::sync::Arc;

use pombo_engine::core::Event;
use pombo_kernel::block::{Block, BlockChange};
use pombo_kernel::breaker::Sign;
use pombo_kernel::classify::Scope;
use pombo_kernel::message::QueueName;
use pombo_kernel::name::ChannelName;
use pombo_kernel::setup::Setup;
use pombo_store::{Finding, Place, StoreError, Vitals};

use super::{Happening, World};
use crate::call::{Answered, Call, Caller, ana};
use crate::chance::Chance;
use crate::house::{Fate, House, Lasting};
use crate::oracle::{Checked, Holder};
use crate::plan::{CHANNELS, DESTINATIONS};
use crate::provider::Outage;

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    CrashNode,
    CrashProcess,
    JumpClock,
    Freeze,
    CutOff,
    Reload,
    StopNode,
    Cancel,
    Hold,
    Lift,
    Ask,
    Rule,
    Edit,
    Hasten,
    Trespass,
    Pause,
    Resume,
}

impl<C: Lasting> World<C> {
    pub(super) fn plan_faults(&mut self) {
        let faults = self.plan.faults;
        let kinds = [
            (faults.node_crash, Fault::CrashNode, 3),
            (faults.process_crash, Fault::CrashProcess, 2),
            (faults.clock_jump, Fault::JumpClock, 3),
            (faults.freeze, Fault::Freeze, 3),
            (faults.cut_off, Fault::CutOff, 3),
            (faults.reload, Fault::Reload, 4),
            (faults.graceful_stop, Fault::StopNode, 2),
            (faults.cancel, Fault::Cancel, 8),
            (faults.operator, Fault::Hold, 3),
            (faults.operator, Fault::Lift, 3),
            (faults.asking, Fault::Ask, 12),
            (faults.letters, Fault::Rule, 10),
            (faults.letters, Fault::Edit, 5),
            (faults.letters, Fault::Hasten, 5),
            (faults.stranger, Fault::Trespass, 6),
            (faults.pause, Fault::Pause, 2),
            (faults.pause, Fault::Resume, 4),
        ];
        for (_, fault, most) in kinds.into_iter().filter(|(present, ..)| *present) {
            for _ in 0..self.dice.between(1, most) {
                let at = self.dice.below(self.plan.calm_at);
                self.later(at, Happening::Fault(fault));
            }
        }
        if faults.outage {
            self.plan_outages();
        }
    }

    /// Somebody whose messages are about to go is down.
    fn plan_outages(&mut self) {
        for _ in 0..self.dice.between(1, 2) {
            let wish = self.dice.pick(&self.plan.wishes);
            let Some(queue) = wish.drafts.first().map(|draft| draft.queue.clone()) else { continue };
            let (from, whole) = (wish.at, self.dice.one_in(3));
            let destination = (!whole).then_some(queue.destination);
            let place = Place { channel: queue.channel, destination };
            let how = *self.dice.pick(&[Outage::Refuses, Outage::Hangs, Outage::Apologises]);
            let until = from + self.dice.between(5_000, 120_000);
            self.note(format_args!("{place:?} will be down from {from} to {until} ms: {how:?}"));
            self.outages.push((place, how, from..until));
        }
    }

    pub(super) fn strike(&mut self, fault: Fault) -> Checked {
        let lives: Vec<u64> = self.lives.keys().copied().collect();
        let life = (!lives.is_empty()).then(|| *self.dice.pick(&lives));
        match (fault, life) {
            (Fault::CrashNode, Some(life)) => self.crash_node(life),
            (Fault::CrashProcess, _) => self.crash_process(),
            (Fault::JumpClock, _) => self.jump_clock(),
            (Fault::Freeze, Some(life)) => self.freeze(life),
            (Fault::CutOff, Some(life)) => self.cut_off(life),
            (Fault::Reload, Some(life)) => return self.reload(life),
            (Fault::StopNode, Some(number)) => {
                let grace = self.dice.between(0, 20_000);
                self.note(format_args!("life {number} is asked to stop within {grace} ms"));
                let Some(life) = self.lives.get_mut(&number) else { return Ok(()) };
                if !std::mem::replace(&mut life.stopping, true) {
                    self.later(grace, Happening::Event(number, Event::GraceOver));
                    return self.tell(number, Event::Stop);
                }
            }
            (Fault::Cancel, _) => {
                let ids = self.oracle.ids();
                if !ids.is_empty() {
                    let id = *self.dice.pick(&ids);
                    self.note(format_args!("somebody cancels {}", self.oracle.name(id)));
                    let tenant = self.oracle.tenant_of(id);
                    self.call(Caller::Outside, Call::Cancel { tenant, id, by: ana() }, 0);
                }
            }
            (Fault::Trespass, _) => self.trespass(),
            (Fault::Pause, _) => {
                self.note(format_args!("everything is to pause"));
                self.call(Caller::Outside, Call::Pause, 0);
            }
            (Fault::Resume, _) => {
                self.note(format_args!("everything is to go on"));
                self.call(Caller::Outside, Call::Resume, 0);
            }
            (Fault::Hold, _) => {
                let place = self.dice.pick(&places()).clone();
                self.note(format_args!("an operator holds {place:?}"));
                let now = self.clock_now();
                self.call(Caller::Outside, Call::Hold(place, now), 0);
            }
            (Fault::Lift, _) => {
                let place = self.dice.pick(&places()).clone();
                self.note(format_args!("an operator lifts {place:?}"));
                self.call(Caller::Outside, Call::Lift(place), 0);
            }
            (Fault::Ask, _) => self.ask_provider(),
            (Fault::Rule, _) => return self.rule_letters(),
            (Fault::Edit, _) => self.edit_letter(),
            (Fault::Hasten, _) => self.hasten_something(),
            (_, None) => {}
        }
        Ok(())
    }

    /// How the destination of a queue is down at the moment, if it is.
    pub(super) fn outage(&self, queue: &QueueName) -> Option<Outage> {
        let here = |place: &Place| {
            place.channel == queue.channel
                && place.destination.as_ref().is_none_or(|destination| *destination == queue.destination)
        };
        let mut outages = self.outages.iter().filter(|(_, _, when)| when.contains(&self.now));
        outages.find(|(place, ..)| here(place)).map(|(_, how, _)| *how)
    }

    /// Somebody asks a provider how it is, and tells the store: mostly the truth.
    fn ask_provider(&mut self) {
        let Ok(name) = self.dice.pick(&CHANNELS).parse::<ChannelName>() else { return };
        let Some(channel) = self.plan.channel(&name) else { return };
        let (breaker, scope) = (channel.care.breaker, channel.destination.health_scope());
        let destination = (scope == Scope::Destination).then(|| DESTINATIONS[0].into());
        let place = Place { channel: name, destination };
        let down = self.outages.iter().any(|(at, _, when)| when.contains(&self.now) && *at == place);
        let (block, sign) = match (down, self.dice.below(6)) {
            (true, _) | (_, 0) => (BlockChange::Renew("no answer".into()), Sign::Ill),
            (_, 1) => {
                let hold = Block::hold("logged out".into(), 0, self.clock_now());
                (BlockChange::Set(scope, hold), Sign::None)
            }
            (_, 2 | 3) => (BlockChange::Reached, Sign::Well),
            _ => (BlockChange::Lift, Sign::Well),
        };
        self.note(format_args!("{place:?} is asked how it is: {sign:?}"));
        let vitals = Vitals { sign, scope, limits: breaker, rate: None };
        self.call(Caller::Outside, Call::Examine(Finding { place, block, vitals }), 0);
    }

    /// The system lets a node do nothing for a while, often past its lease.
    pub(super) fn freeze(&mut self, number: u64) {
        let past_its_lease = self.dice.one_in(2);
        let span = self.dice.between(if past_its_lease { 60_000 } else { 500 }, 100_000);
        self.note(format_args!("life {number} freezes for {span} ms"));
        if let Some(life) = self.lives.get_mut(&number) {
            life.frozen_until = life.frozen_until.max(self.now + span);
        }
    }

    /// A node does not reach the store for a while, often past its lease; others do.
    fn cut_off(&mut self, number: u64) {
        let past_its_lease = self.dice.one_in(2);
        let span = self.dice.between(if past_its_lease { 60_000 } else { 500 }, 100_000);
        self.note(format_args!("life {number} is cut off for {span} ms"));
        if let Some(life) = self.lives.get_mut(&number) {
            life.cut_until = life.cut_until.max(self.now + span);
        }
    }

    /// A node reads its configuration anew, while it is at work.
    fn reload(&mut self, number: u64) -> Checked {
        let mut setup = Setup::clone(&self.plan.setup);
        for lane in setup.lanes.values_mut() {
            lane.workers = u16::try_from(self.dice.between(1, 3)).unwrap_or(1);
        }
        self.note(format_args!("life {number} has other slots: {:?}", setup.lanes));
        self.oracle.reloaded(Holder(number), &setup);
        self.tell(number, Event::Reload(Arc::new(setup)))
    }

    /// By seconds mostly, sometimes by up to a day; less far back, since that is then waited for.
    fn jump_clock(&mut self) {
        let back = self.dice.one_in(2);
        let far = match self.dice.below(4) {
            0 if back => self.dice.between(60_000, 1_200_000),
            // Past the time after which keys lapse, where there is somebody to notice.
            0 if self.plan.retention.is_some() => self.dice.between(600_000, 4 * 86_400_000),
            0 => self.dice.between(600_000, 86_400_000),
            _ => self.dice.between(1, 100_000),
        };
        let jump = i64::try_from(far).unwrap_or(0) * if back { -1 } else { 1 };
        self.note(format_args!("the clock jumps by {jump} ms"));
        let before = self.clock_now();
        self.offset += jump;
        self.jumps += 1;
        if back {
            self.back += far;
        }
        self.oracle.clock_jumped(before);
        self.set_clock();
        // The writer looks at the clock at least once a second.
        let soon = self.now + self.dice.below(1_000);
        self.turn_at(soon);
    }

    /// What the next commit comes to, and whether the process dies right after it.
    pub(super) fn roll_fate(&mut self) -> (Fate, bool) {
        if self.calm {
            return (Fate::Fine, false);
        }
        let faults = self.plan.faults;
        let fails = faults.commit.is_some_and(|n| self.dice.one_in(n));
        let dies = faults.process_crash && self.dice.one_in(200);
        let fate = match (fails || dies, self.dice.below(3)) {
            (false, _) => Fate::Fine,
            (true, 0) => Fate::Done,
            (true, 1) if dies => Fate::Fine,
            (true, _) => Fate::Undone,
        };
        (fate, dies)
    }

    /// The process dies, with store and nodes. Nobody is told anything any more.
    pub(super) fn crash_process(&mut self) {
        let Some(house) = self.house.take() else { return };
        self.note(format_args!("the process crashes"));
        if let Some(turn) = self.turn.take() {
            self.agenda.remove(&turn);
        }
        let lives: Vec<u64> = self.lives.keys().copied().collect();
        for life in lives {
            self.crash_node(life);
        }
        let unheard = std::mem::take(&mut self.pending);
        self.left = Some(house.crash());
        for pending in unheard.into_values() {
            // Whoever called from outside sees the connection break.
            let broken = Answered::Nothing(Err(StoreError::Closed));
            self.later(0, Happening::Answer(pending.caller, pending.call, broken));
        }
        let rest = self.dice.between(10, 5_000);
        self.later(rest, Happening::StartStore);
    }

    pub(super) fn start_store(&mut self) -> Checked {
        let dice = self.dice.fork();
        let core = match self.left.take() {
            Some(left) => C::again(self.folder.path(), left, dice)?,
            None => C::first(self.folder.path(), dice)?,
        };
        let dice = self.dice.fork();
        let mut house = House::open(core, self.clock.clone(), dice)?;
        self.oracle.follow(&mut house.reader)?;
        self.oracle.restarted();
        self.oracle.compare_all(&mut house.reader)?;
        self.house = Some(house);
        self.note(format_args!("the store opens, at record {}", self.oracle.position()));
        self.plan_turn();
        Ok(())
    }

    /// From now on nothing goes wrong. Operators lift most of what they hold.
    pub(super) fn calm_down(&mut self) {
        self.calm = true;
        self.note(format_args!("nothing goes wrong any more"));
        if self.oracle.is_paused() {
            self.call(Caller::Outside, Call::Resume, 0);
        }
        for place in places() {
            if !self.dice.one_in(4) {
                self.call(Caller::Outside, Call::Lift(place), 0);
            }
        }
        if self.plan.faults.letters && self.dice.one_in(2) {
            self.reprocess_all();
        }
    }
}

/// Where an operator may put a block.
fn places() -> Vec<Place> {
    let channels = CHANNELS.iter().filter_map(|channel| channel.parse::<ChannelName>().ok());
    let places = channels.flat_map(|channel| {
        let destinations = [None, Some(DESTINATIONS[0].into()), Some(DESTINATIONS[1].into())];
        destinations.map(|destination| Place { channel: channel.clone(), destination })
    });
    places.collect()
}
