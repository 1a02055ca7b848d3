//! Blocks and traffic, as the model has them.

use std::sync::Arc;

use pombo_kernel::block::{Block, BlockChange, BlockKind, Gate, probe_of};
use pombo_kernel::id::MessageKey;
use pombo_kernel::message::{Actor, Message, QueueName};
#[cfg(feature = "planted")]
use pombo_kernel::planted;
use pombo_kernel::time::Time;

use super::{Front, Model, Probing};
use crate::traffic::{at, places};
use crate::{Place, Vitals, transition};

impl Model {
    /// A pause or a ramp that is over was never there, but for what follows it.
    pub(super) fn end_pauses(&mut self, now: Time) {
        let over = |block: &Block| block.kind.passes() && block.gate(now) == Gate::Open;
        let ended: Vec<_> = self.blocks.iter().filter(|(_, block)| over(block)).collect();
        let ended: Vec<_> =
            ended.into_iter().map(|(place, block)| (place.clone(), block.ended(now))).collect();
        for (place, next) in ended {
            match next {
                Some(next) => drop(self.blocks.insert(place, next)),
                None => drop(self.blocks.remove(&place)),
            }
        }
    }

    /// The stricter of the two blocks in front of a queue. One that is being probed is shut until the probe is
    /// back, whenever that is.
    pub(super) fn front(&self, queue: &QueueName, now: Time) -> Front {
        let mut shut = Vec::new();
        let (mut probed, mut probe) = (Vec::new(), None);
        for place in places(queue) {
            let block = self.blocks.get(&place);
            match block.map_or(Gate::Open, |block| block.gate(now)) {
                Gate::Open | Gate::Flow(_) => {
                    if self.traffic.room(&place, block, now) == 0 {
                        shut.push(self.traffic.opens(&place, now));
                    }
                }
                Gate::Shut { until } => shut.push(until.unwrap_or(Time::MAX)),
                Gate::Probe if self.is_probed(&place) => shut.push(Time::MAX),
                Gate::Probe => {
                    probe = block.map(|block| probe_of(probe, block));
                    probed.push(place);
                }
            }
        }
        for gate in self.course_gates(queue, now) {
            if let Gate::Shut { until } = gate {
                shut.push(until.unwrap_or(Time::MAX));
            }
        }
        match (shut.into_iter().max(), probe) {
            (Some(until), _) => Front::Shut { until: (until < Time::MAX).then_some(until) },
            (None, None) => Front::Open,
            (None, Some(probe)) => Front::Probe(Probing { places: probed, probe }),
        }
    }

    /// How many messages of a queue may go at once.
    pub(super) fn room(&self, queue: &QueueName, now: Time) -> usize {
        let room = |place: Place| self.traffic.room(&place, self.blocks.get(&place), now);
        let most = if self.course_gates(queue, now).is_empty() { usize::MAX } else { 1 };
        places(queue).map(room).into_iter().fold(most, usize::min)
    }

    /// These messages set out.
    pub(super) fn passed(&mut self, queue: &QueueName, heads: &[(Arc<Message>, Time)], now: Time) {
        let retries = heads.iter().filter(|(message, _)| self.is_retry(message)).count();
        let places = places(queue);
        for place in &places {
            self.traffic.passed(place, self.blocks.get(place), heads.len(), now);
        }
        self.traffic.charged(&places[1], heads.len() - retries, retries, now);
    }

    pub(super) fn is_probed(&self, place: &Place) -> bool {
        #[cfg(feature = "planted")]
        if planted::is(planted::Bug::HalfOpenForAll) {
            return false;
        }
        let probes = self.claims.values().filter_map(|hold| hold.probing.as_ref());
        probes.into_iter().any(|probing| probing.places.contains(place))
    }

    /// What stands at a place once `newer` is said of it.
    pub(super) fn merged(&self, place: &Place, newer: Block) -> Block {
        match self.blocks.get(place) {
            Some(older) => older.clone().merged(newer),
            None => newer,
        }
    }

    pub(super) fn put_block(&mut self, place: &Place, block: Block, now: Time) {
        let before = self.blocks.get(place).map(|block| block.kind);
        let steady = self.traffic.steady(place, now);
        let block = self.merged(place, block.remembering(steady, now));
        if before.is_none_or(|before| before != block.kind && block.kind.is_probed()) {
            self.records.push(transition::blocked(place, &block, &Actor::engine(), now));
        }
        self.blocks.insert(place.clone(), block);
    }

    pub(super) fn change_block(&mut self, places: &[Place; 2], change: BlockChange, now: Time) {
        if let BlockChange::Set(scope, block) = change {
            return self.put_block(at(places, scope), block, now);
        }
        for place in places {
            match &change {
                BlockChange::Keep | BlockChange::Set(..) => {}
                BlockChange::Renew(reason) => {
                    if let Some(block) = self.blocks.get_mut(place).filter(|block| block.kind.is_probed()) {
                        *block = block.clone().renewed(reason.clone(), now);
                    }
                }
                BlockChange::Lift => self.recover(place, BlockKind::is_probed, now),
                BlockChange::Reached => self.try_now(place, now),
                BlockChange::Ready => {
                    self.recover(place, |kind| kind == BlockKind::Hold, now);
                    self.try_now(place, now);
                }
            }
        }
    }

    /// Lets a message try a breaker at once.
    pub(super) fn try_now(&mut self, place: &Place, now: Time) {
        if let Some(block) = self.blocks.get_mut(place).filter(|block| block.kind == BlockKind::Breaker) {
            *block = block.clone().probed_now(now);
        }
    }

    /// Turns a block of such a kind into a ramp.
    pub(super) fn recover(&mut self, place: &Place, over: impl Fn(BlockKind) -> bool, now: Time) {
        let Some(block) = self.blocks.get(place).filter(|block| over(block.kind)) else { return };
        let (ramp, block) = (block.ramp(now), block.clone());
        if block.kind == BlockKind::Breaker {
            self.outage_ended(place, &block, now);
        }
        self.blocks.insert(place.clone(), ramp);
        self.traffic.forget(place);
        self.records.push(transition::unblocked(place, &Actor::engine(), now));
    }

    /// Takes into account how the destination was found; one that counts as down is blocked.
    pub(super) fn take_pulse(
        &mut self,
        places: &[Place; 2],
        vitals: &Vitals,
        witness: MessageKey,
        now: Time,
    ) {
        let place = at(places, vitals.scope);
        let Some(why) = self.traffic.note(place, self.blocks.get(place), vitals, witness, now) else {
            return;
        };
        if !self.blocks.get(place).is_some_and(|block| block.kind.is_probed()) {
            self.put_block(place, Block::breaker(why, &vitals.limits, now), now);
        }
    }
}
