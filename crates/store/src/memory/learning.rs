//! What is learnt, as the model has it.

use pombo_kernel::block::Block;
use pombo_kernel::message::{AttemptOutcome, Message};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::Time;

use super::{Model, Row};
use crate::learning::{self, Learnt, Names, Past, follows, teaches, told};
use crate::{Place, Settlement};

impl Model {
    /// Called before the attempt is one of the message's.
    pub(super) fn learn(&mut self, message: &Message, settlement: &Settlement, now: Time) {
        let Some(row) = self.messages.get(&message.id.key()) else { return };
        if !teaches(message, settlement, row.progress) {
            return;
        }
        let past = past(row).filter(|_| follows(message, settlement, row.progress));
        self.know_names(now);
        self.ledger.learnt(message, settlement, past.as_ref(), &mut self.names);
    }

    pub(super) fn outage_ended(&mut self, place: &Place, block: &Block, now: Time) {
        self.know_names(now);
        self.ledger.outage_ended(place, now.since(block.since), &mut self.names);
    }

    fn know_names(&mut self, now: Time) {
        if !self.names.are_of(now) {
            self.names = Names::read(self.learnt(&[learning::week_of(now)], None), now);
        }
    }

    pub(super) fn learnt(&self, weeks: &[i64], whose: Option<&Tenant>) -> Vec<Learnt> {
        let rows = self.counters.iter().filter_map(|((hour, tenant, channel, what, detail), sum)| {
            let channel = channel.clone().filter(|_| {
                weeks.contains(hour) && what.is_lesson() && whose.is_none_or(|whose| whose == tenant)
            })?;
            Some((tenant.clone(), channel, *what, detail.clone(), sum.count, sum.ms))
        });
        told(rows)
    }
}

/// The failure that the next attempt follows.
pub(super) fn past(row: &Row) -> Option<Past> {
    let of_round = row.attempts.iter().filter(|attempt| attempt.round == row.progress.round);
    let failed = || of_round.clone().filter(|attempt| attempt.outcome == AttemptOutcome::Retry);
    let (first, last) = (failed().next()?, failed().next_back()?);
    let (ended_at, first_ended_at) = (last.finished_at, first.finished_at);
    Some(Past { failure: last.failure.clone()?, ended_at, first_ended_at })
}
