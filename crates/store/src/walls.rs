//! What becomes of blocks, whatever a store keeps them in.

use pombo_kernel::block::{Block, BlockChange, BlockKind};
use pombo_kernel::id::MessageKey;
use pombo_kernel::message::Actor;
use pombo_kernel::time::{Span, Time};

use crate::audit::{Line, Record};
use crate::board::Board;
use crate::traffic::{at, witness};
use crate::transition;
use crate::{Finding, Place, StoreError, Vitals};

/// A store that keeps blocks on a board and writes down each change.
pub(crate) trait Walls {
    fn board(&mut self) -> &mut Board;

    fn record(&mut self, record: Record);

    /// The same of what is borrowed, for a store that writes it down at once.
    fn note(&mut self, line: Line<'_>) {
        self.record(line.into());
    }

    fn write_block(&mut self, place: &Place, block: &Block) -> Result<(), StoreError>;

    fn erase_block(&mut self, place: &Place) -> Result<(), StoreError>;

    /// Counts an outage of a place that has ended.
    fn outage_ended(&mut self, place: &Place, lasted: Span, now: Time) -> Result<(), StoreError>;

    /// Nobody else changes a block before the commit, and the board has them as they are. Called before each change.
    fn hold_blocks(&mut self, _now: Time) -> Result<(), StoreError> {
        Ok(())
    }

    /// Traffic at a place is of no more interest.
    fn forget_traffic(&mut self, place: &Place) -> Result<(), StoreError> {
        self.board().traffic.forget(place);
        Ok(())
    }

    /// Forgets pauses and ramps that are over. They ended by themselves, so nobody's act is recorded.
    fn end_pauses(&mut self, now: Time) -> Result<(), StoreError> {
        if !self.board().has_ended(now) {
            return Ok(());
        }
        self.hold_blocks(now)?;
        for (place, next) in self.board().ended(now) {
            self.drop_block(&place, now)?;
            if let Some(next) = next {
                self.set_block(&place, next, now)?;
            }
        }
        Ok(())
    }

    /// Puts a block in front of a place, on top of what stands there.
    fn set_block(&mut self, place: &Place, block: Block, now: Time) -> Result<Block, StoreError> {
        let block = match self.board().blocks.get(place) {
            Some(old) => old.clone().merged(block),
            None => block,
        };
        self.replace_block(place, block, now)
    }

    fn replace_block(&mut self, place: &Place, block: Block, now: Time) -> Result<Block, StoreError> {
        self.write_block(place, &block)?;
        self.board().put_block(place, block.clone(), now);
        Ok(block)
    }

    fn drop_block(&mut self, place: &Place, now: Time) -> Result<bool, StoreError> {
        if self.board().blocks.remove(place).is_none() {
            return Ok(false);
        }
        self.erase_block(place)?;
        self.board().reseat_behind(place, now);
        Ok(true)
    }

    fn lift_block(&mut self, place: &Place, by: &Actor, now: Time) -> Result<bool, StoreError> {
        let lifted = self.drop_block(place, now)?;
        if lifted {
            self.record(transition::unblocked(place, by, now));
        }
        Ok(lifted)
    }

    /// Puts a block of the engine's in front of a place. What the place took before is noted, for when it is over.
    fn put_block(&mut self, place: &Place, block: Block, now: Time) -> Result<(), StoreError> {
        self.hold_blocks(now)?;
        let before = self.board().blocks.get(place).map(|block| block.kind);
        let steady = self.board().traffic.steady(place, now);
        let block = self.set_block(place, block.remembering(steady, now), now)?;
        if before.is_none_or(|before| before != block.kind && block.kind.is_probed()) {
            self.record(transition::blocked(place, &block, &Actor::engine(), now));
        }
        Ok(())
    }

    /// What an attempt, or whoever asked, does to the blocks in front of two places.
    fn change_block(
        &mut self,
        places: &[Place; 2],
        change: BlockChange,
        now: Time,
    ) -> Result<(), StoreError> {
        match change {
            BlockChange::Keep => return Ok(()),
            BlockChange::Set(scope, block) => return self.put_block(at(places, scope), block, now),
            _ => self.hold_blocks(now)?,
        }
        for place in places {
            let block = self.board().blocks.get(place).filter(|block| block.kind.is_probed()).cloned();
            let Some(block) = block else { continue };
            match (&change, block.kind) {
                (BlockChange::Renew(reason), _) => {
                    self.set_block(place, block.renewed(reason.clone(), now), now)?;
                }
                (BlockChange::Lift, _) | (BlockChange::Ready, BlockKind::Hold) => {
                    self.lift_block(place, &Actor::engine(), now)?;
                    self.forget_traffic(place)?;
                    if block.kind == BlockKind::Breaker {
                        self.outage_ended(place, now.since(block.since), now)?;
                    }
                    self.set_block(place, block.ramp(now), now)?;
                }
                (BlockChange::Ready | BlockChange::Reached, BlockKind::Breaker) => {
                    // Not by merging, which never shortens a wait.
                    self.replace_block(place, block.probed_now(now), now)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes into account how the destination was found; one that counts as down is blocked.
    fn take_pulse(
        &mut self,
        places: &[Place; 2],
        vitals: &Vitals,
        witness: MessageKey,
        now: Time,
    ) -> Result<(), StoreError> {
        let place = at(places, vitals.scope);
        let board = self.board();
        let block = board.blocks.get(place);
        let Some(why) = board.traffic.note(place, block, vitals, witness, now) else { return Ok(()) };
        self.hold_blocks(now)?;
        if self.board().blocks.get(place).is_some_and(|block| block.kind.is_probed()) {
            return Ok(());
        }
        self.put_block(place, Block::breaker(why, &vitals.limits, now), now)
    }

    /// Somebody puts a block in front of a place.
    fn block_for(&mut self, place: &Place, block: Block, by: &Actor, now: Time) -> Result<(), StoreError> {
        self.hold_blocks(now)?;
        self.end_pauses(now)?;
        let steady = self.board().traffic.steady(place, now);
        let block = self.set_block(place, block.remembering(steady, now), now)?;
        self.record(transition::blocked(place, &block, by, now));
        Ok(())
    }

    /// Somebody lifts it; false if there was none.
    fn unblock_for(&mut self, place: &Place, by: &Actor, now: Time) -> Result<bool, StoreError> {
        self.hold_blocks(now)?;
        self.end_pauses(now)?;
        self.forget_traffic(place)?;
        self.lift_block(place, by, now)
    }

    /// Takes into account how a provider was found when it was asked.
    fn look_into(&mut self, finding: &Finding, now: Time) -> Result<(), StoreError> {
        self.end_pauses(now)?;
        let places = [Place { destination: None, ..finding.place.clone() }, finding.place.clone()];
        self.change_block(&places, finding.block.clone(), now)?;
        self.take_pulse(&places, &finding.vitals, witness(now), now)
    }
}
