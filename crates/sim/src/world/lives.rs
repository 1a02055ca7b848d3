//! The nodes: each life an engine core, whose effects are performed here as its shell performs them.

use std::sync::Arc;

use pombo_engine::core::{Core, Effect, Event, HEARTBEAT, Term, idempotency_key, may_send};
use pombo_kernel::delivery::{Delivery, Report};
use pombo_kernel::dice::Dice;
use pombo_kernel::message::ClaimKey;
use pombo_kernel::reply::Reply;
use pombo_kernel::suppression::Reason;
use pombo_kernel::time::{Clock, Span, Time};
use pombo_store::postgres::clock::DatabaseClock;
use pombo_store::{Claimed, NodeId};

use super::{Happening, World};
use crate::call::{Call, Caller};
use crate::chance::Chance;
use crate::house::{Lasting, SkewedClock};
use crate::oracle::{Checked, Holder};
use crate::plan::BEARABLE_SKEW;
use crate::provider::{Said, Script};

/// One of so many who are about to be written to by a campaign does not want it any more.
const OPTED_OUT: u64 = 12;

/// One life of one node, from its start to its stop or its crash.
pub(super) struct Life {
    pub(super) node: usize,
    id: NodeId,
    core: Core,
    dice: Dice,
    /// What time it is there: by a clock of its own that is off, or by that one held against the store's.
    clock: Arc<dyn Clock>,
    follows: Option<Arc<DatabaseClock>>,
    /// How many jumps of the store's clock it was told of, where it goes by that.
    jumps: u64,
    /// It does nothing until then, and does not know.
    pub(super) frozen_until: u64,
    /// It does not reach the store until then.
    pub(super) cut_until: u64,
    pub(super) stopping: bool,
}

/// How a life came through an effect.
#[derive(PartialEq, Eq)]
enum Fared {
    Well,
    Ended,
}

impl<C: Lasting> World<C> {
    pub(super) fn start_node(&mut self, node: usize) -> Checked {
        if self.house.is_none() {
            self.later(500, Happening::StartNode(node));
            return Ok(());
        }
        if self.lives.values().any(|life| life.node == node) {
            return Ok(());
        }
        self.last_life += 1;
        let number = self.last_life;
        let id = NodeId(i64::try_from(number).unwrap_or(i64::MAX));
        let skew = Span::from_millis(self.dice.below(self.plan.faults.skew + 1));
        let (ahead, behind) = if self.dice.one_in(2) { (skew, Span::ZERO) } else { (Span::ZERO, skew) };
        let own: Arc<dyn Clock> = Arc::new(SkewedClock { wall: self.clock.clone(), ahead, behind });
        let follows = (self.plan.faults.skew > BEARABLE_SKEW).then(|| self.held_against(own.clone()));
        let clock: Arc<dyn Clock> = match &follows {
            Some(follows) => follows.clone(),
            None => own,
        };
        let life = Life {
            node,
            id,
            core: Core::new(id, self.plan.setup.clone(), &self.plan.lanes),
            dice: self.dice.fork(),
            clock,
            follows,
            jumps: self.jumps,
            frozen_until: 0,
            cut_until: 0,
            stopping: false,
        };
        self.lives.insert(number, life);
        self.note(format_args!("node {node} starts, life {number}"));
        self.later(HEARTBEAT.millis(), Happening::Tick(number));
        self.tell(number, Event::Started)
    }

    pub(super) fn tick(&mut self, life: u64) -> Checked {
        if !self.lives.contains_key(&life) {
            return Ok(());
        }
        self.later(HEARTBEAT.millis(), Happening::Tick(life));
        self.ask_time(life);
        self.tell(life, Event::Tick)
    }

    /// A clock that goes by the store's. Before it does anything, a node asks once what time it is.
    fn held_against(&mut self, own: Arc<dyn Clock>) -> Arc<DatabaseClock> {
        let clock = DatabaseClock::new(own);
        let (took, ago) = (self.dice.below(50), self.dice.below(50));
        let asked = clock.local() - Span::from_millis(took);
        clock.saw(self.clock_now() - Span::from_millis(ago.min(took)), asked);
        Arc::new(clock)
    }

    /// A life that goes by the store's clock asks for the time. The answer may be long on its way.
    fn ask_time(&mut self, number: u64) {
        let Some(life) = self.lives.get(&number) else { return };
        if life.cut_until > self.now || self.house.is_none() {
            return;
        }
        let Some(asked) = life.follows.as_ref().map(|clock| clock.local()) else { return };
        let (there, back) = (self.hop(), self.hop());
        let time = self.clock_now() + Span::from_millis(there);
        let jumps = self.jumps;
        self.later(there + back, Happening::Told { life: number, asked, time, jumps });
    }

    pub(super) fn told_time(&mut self, number: u64, asked: Time, time: Time, jumps: u64) {
        if let Some(until) = self.frozen_until(number) {
            self.later_at(until, Happening::Told { life: number, asked, time, jumps });
            return;
        }
        if let Some(life) = self.lives.get_mut(&number)
            && let Some(clock) = &life.follows
        {
            clock.saw(time, asked);
            life.jumps = jumps.max(life.jumps);
        }
    }

    /// What time it is there.
    pub(super) fn life_now(&self, life: u64) -> Option<Time> {
        self.lives.get(&life).map(|life| life.clock.now())
    }

    /// When a life that is frozen gets round to something. What has piled up is taken in any order.
    pub(super) fn frozen_until(&mut self, life: u64) -> Option<u64> {
        let until = self.lives.get(&life).map(|life| life.frozen_until).filter(|until| *until > self.now)?;
        Some(until + self.dice.below(100))
    }

    /// What became of an attempt has come back.
    pub(super) fn reply(&mut self, life: u64, key: ClaimKey, reply: Reply, said: Said) -> Checked {
        let Some(now) = self.life_now(life) else { return Ok(()) };
        if let Some(until) = self.frozen_until(life) {
            self.later_at(until, Happening::Reply { life, key, reply, said });
            return Ok(());
        }
        self.note(format_args!("life {life} hears of {}: {said:?}", self.oracle.name(key.message)));
        self.oracle.heard(Holder(life), key, said, now);
        self.tell(life, Event::Replied { key, reply })
    }

    /// Lets a life take a step, and does what it wants done.
    pub(super) fn tell(&mut self, number: u64, event: Event) -> Checked {
        let Some(now) = self.life_now(number) else { return Ok(()) };
        if let Some(until) = self.frozen_until(number) {
            self.later_at(until, Happening::Event(number, event));
            return Ok(());
        }
        if matches!(event, Event::GraceOver) {
            self.oracle.interrupted(Holder(number), now);
            // What is being made ready counts as in doubt as well; it is not sent any more.
            for happening in self.agenda.values() {
                if let Happening::Ready { life, claimed, .. } = happening
                    && *life == number
                {
                    self.oracle.heard(Holder(number), claimed.key, Said::CutOff, now);
                }
            }
        }
        let Some(life) = self.lives.get_mut(&number) else { return Ok(()) };
        let effects = life.core.step(event, now, &mut life.dice);
        for effect in effects {
            if self.perform(number, effect, now)? == Fared::Ended {
                return Ok(());
            }
        }
        if !self.calm && self.plan.faults.freeze && self.dice.one_in(200) {
            self.freeze(number);
        }
        Ok(())
    }

    fn perform(&mut self, number: u64, effect: Effect, now: Time) -> Checked<Fared> {
        if !self.calm && self.plan.faults.node_crash && self.dice.one_in(150) {
            self.crash_node(number);
            return Ok(Fared::Ended);
        }
        let Some(life) = self.lives.get(&number) else { return Ok(Fared::Ended) };
        let (node, id, caller) = (life.node, life.id, Caller::Life(number));
        match effect {
            Effect::Heartbeat { until } => {
                // A node's own clock jumps with everybody's.
                let jumps = if life.follows.is_some() { life.jumps } else { self.jumps };
                self.call(caller, Call::Heartbeat { node: id, until, since: now, jumps }, 0);
            }
            Effect::TakeOver { max } => self.call(caller, Call::TakeOver { node: id, max }, 0),
            Effect::Claim(ask) => self.call(caller, Call::Claim(ask), 0),
            Effect::ClaimLater(ask) => self.claim_later(number, ask),
            Effect::Settle(ended) => {
                let refill = life.core.refill(&ended, now);
                let settlements = ended.into_iter().map(|ended| ended.settlement).collect();
                self.call(caller, Call::Settle { settlements, refill, tries: 0 }, 0);
            }
            Effect::Release(keys) => self.call(caller, Call::Release { keys, tries: 0 }, 0),
            Effect::LeaveOut { key, reason } => {
                self.call(caller, Call::LeaveOut { key, reason, tries: 0 }, 0);
            }
            Effect::StopClaims => self.call(caller, Call::StopClaims(id), 0),
            Effect::Send { claimed, term, timeout, .. } => {
                // Content has to be made ready, and meanwhile anything can happen.
                let after = if self.dice.one_in(4) { self.hop() } else { 0 };
                self.later(after, Happening::Ready { life: number, claimed, term, timeout });
            }
            Effect::Stopped => {
                self.note(format_args!("life {number} has stopped"));
                self.end_life(number);
                let rest = self.dice.between(0, 10_000);
                self.later(rest, Happening::StartNode(node));
                return Ok(Fared::Ended);
            }
        }
        Ok(Fared::Well)
    }

    /// Calls the provider, unless the message is no longer to be sent.
    pub(super) fn send(&mut self, number: u64, claimed: Arc<Claimed>, term: Term, timeout: Span) -> Checked {
        let Some(now) = self.life_now(number) else { return Ok(()) };
        if let Some(until) = self.frozen_until(number) {
            self.later_at(until, Happening::Ready { life: number, claimed, term, timeout });
            return Ok(());
        }
        // Somebody was put on the suppression list since the message was made.
        if claimed.message.queue.campaign.is_some() && self.dice.one_in(OPTED_OUT) {
            return self.tell(number, Event::Unwanted { key: claimed.key, reason: Reason::OptOut });
        }
        let Some(life) = self.lives.get(&number) else { return Ok(()) };
        if !may_send(&life.core.lease(), term, &claimed, now) {
            return self.tell(number, Event::Unsent { key: claimed.key });
        }
        self.oracle.called(Holder(number), &claimed, &idempotency_key(&claimed), now)?;
        let name = self.oracle.name(claimed.message.id);
        let script = if self.calm {
            Script::calm(&mut self.dice)
        } else if let Some(how) = self.outage(&claimed.message.queue) {
            Script::down(how, timeout.millis(), &mut self.dice)
        } else {
            Script::roll(self.plan.faults.refusals, timeout.millis(), &mut self.dice)
        };
        let Script { takes_after, answers_after, mut reply, said } = script;
        if self.plan.faults.reports
            && let Reply::Accepted(receipt) = &mut reply
        {
            receipt.provider_id = Some(self.expect_reports(&claimed, answers_after));
        }
        self.note(format_args!("life {number} sends {name}: {said:?} in {answers_after} ms"));
        if let Some(after) = takes_after {
            self.later(after, Happening::Taken(claimed.key));
        }
        self.later(answers_after, Happening::Reply { life: number, key: claimed.key, reply, said });
        Ok(())
    }

    /// The provider will say what became of a message: late, twice and out of order, or before it has answered.
    fn expect_reports(&mut self, claimed: &Claimed, answers_after: u64) -> String {
        self.receipts += 1;
        let provider_id = format!("p{}", self.receipts);
        self.oracle.receipt(&provider_id, claimed.key);
        for _ in 0..self.dice.below(4) {
            let (delivery, at) = (*self.dice.pick(Delivery::ALL), None);
            let report = Report { provider_id: provider_id.clone(), delivery, detail: None, at };
            let early = self.dice.one_in(4);
            let after = if early { self.dice.below(answers_after + 1) } else { self.dice.below(20_000) };
            let channel = claimed.message.queue.channel.clone();
            let call = Call::Report { channel, report, tries: 0 };
            if self.dice.one_in(3) {
                self.call(Caller::Outside, call.clone(), after);
            }
            self.call(Caller::Outside, call, after);
        }
        provider_id
    }

    /// The node dies between two effects. Whatever it was waiting for is gone.
    pub(super) fn crash_node(&mut self, number: u64) {
        let Some(node) = self.lives.get(&number).map(|life| life.node) else { return };
        self.note(format_args!("life {number} of node {node} crashes"));
        self.end_life(number);
        let rest = self.dice.between(0, 20_000);
        self.later(rest, Happening::StartNode(node));
    }

    fn end_life(&mut self, number: u64) {
        self.lives.remove(&number);
        self.pending.retain(|_, pending| pending.caller != Caller::Life(number));
        self.oracle.gone(Holder(number));
    }
}
