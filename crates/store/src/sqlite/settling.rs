//! The ends of things: settlements, cancellations, deadlines, and the turn of the next in an order.

use pombo_kernel::campaign::recipient::Standing;
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::lifecycle::{self, Next};
use pombo_kernel::message::{Actor, ClaimKey, FailureReason, Message, Progress, StateName};
use pombo_kernel::name::Tenant;
#[cfg(feature = "planted")]
use pombo_kernel::planted;
use pombo_kernel::time::{Span, Time};
use rusqlite::params;

use super::rows::{Ending, Step, Stored};
use super::{Order, Sqlite, rows, sql};
use crate::board::{rank, rank_of};
use crate::courses::{Courses as _, standing_cancelled};
use crate::roster::left_out;
use crate::stats::Course;
use crate::traffic::places;
use crate::transition;
use crate::vault::Spot;
use crate::walls::Walls;
use crate::{Cancelled, Settled, Settlement, StoreError};

/// A row of `history`, to be written.
pub(super) struct Row<'a> {
    pub(super) key: MessageKey,
    pub(super) seq: u32,
    pub(super) outcome: u8,
    pub(super) number: u16,
    pub(super) progress: Progress,
    pub(super) started_at: Time,
    pub(super) finished_at: Time,
    pub(super) reason: Option<FailureReason>,
    pub(super) next_due: Option<Time>,
    pub(super) delay: Option<Span>,
    pub(super) failure: Option<String>,
    pub(super) receipt: Option<String>,
    pub(super) explanation: Option<&'a str>,
    pub(super) policy: Option<&'a str>,
    pub(super) actor: Option<&'a str>,
}

impl Row<'_> {
    /// What happens now to a message that has come so far, without an attempt.
    pub(super) fn of(key: MessageKey, outcome: u8, progress: Progress, now: Time) -> Row<'static> {
        Row {
            key,
            seq: progress.steps,
            outcome,
            number: 0,
            progress,
            started_at: now,
            finished_at: now,
            reason: None,
            next_due: None,
            delay: None,
            failure: None,
            receipt: None,
            explanation: None,
            policy: None,
            actor: None,
        }
    }
}

/// A message, the last that happened to it, and where it stands.
pub(super) struct Found {
    pub(super) stored: Stored,
    pub(super) last: Option<Step>,
    pub(super) state: StateName,
}

impl Found {
    pub(super) fn progress(&self) -> Progress {
        self.last.as_ref().map_or(Progress::default(), |step| step.progress)
    }

    /// When it is due, if it waits.
    pub(super) fn due(&self) -> Time {
        self.last.as_ref().and_then(|step| step.next_due).unwrap_or(self.stored.due)
    }
}

impl Sqlite {
    /// The message, if it is the tenant's.
    pub(super) fn find(&self, tenant: &Tenant, id: MessageId) -> Result<Option<Found>, StoreError> {
        let stored = rows::stored(&self.file.db, id.key())?
            .filter(|stored| stored.message.id == id && stored.message.queue.tenant == *tenant);
        let Some(stored) = stored else { return Ok(None) };
        let last = rows::last_step(&self.file.db, id.key())?;
        let waits_or_ended = last.as_ref().and_then(Step::ending).unwrap_or(StateName::Pending);
        let state = if self.claims.holds(id.key()) { StateName::Sending } else { waits_or_ended };
        Ok(Some(Found { stored, last, state }))
    }

    pub(super) fn append(&mut self, row: &Row<'_>) -> Result<(), StoreError> {
        let block = self.block_number();
        let vault = &self.file.db.vault;
        let failure = row
            .failure
            .as_deref()
            .map(|it| vault.seal_text(&Spot::Failure(row.key, row.seq), it).into_owned());
        let explanation =
            row.explanation.map(|it| vault.seal_text(&Spot::Explanation(row.key, row.seq), it).into_owned());
        let reprocessed_by = row.actor.filter(|_| row.outcome == rows::REPROCESSED);
        self.write(
            sql!("history_insert"),
            params![
                row.key.0,
                row.seq,
                row.outcome,
                row.progress.round,
                row.number,
                row.progress.attempts,
                row.progress.crashes,
                row.started_at.millis(),
                row.finished_at.millis(),
                row.reason.map(FailureReason::code),
                row.next_due.map(Time::millis),
                row.delay.map(|delay| i64::try_from(delay.millis()).unwrap_or(i64::MAX)),
                failure,
                row.receipt,
                explanation,
                row.policy,
                row.actor.filter(|_| reprocessed_by.is_none()),
                block,
                row.progress.doubtful,
                row.progress.keyed,
                reprocessed_by,
            ],
        )?;
        Ok(())
    }

    pub(super) fn settle_one(&mut self, settlement: &Settlement, now: Time) -> Result<Settled, StoreError> {
        let Some(held) = self.claims.take(settlement.key) else { return Ok(Settled::Stale) };
        self.end_pauses(now)?;
        let message = &*held.message;
        let key = message.id.key();
        let attempt = &settlement.attempt;
        let (reason, next_due, receipt) = match &settlement.next {
            Next::Sent(receipt) => (None, None, Some(rows::json(receipt)?)),
            Next::Retry { due, .. } => (None, Some(*due), None),
            Next::Failed(reason) => (Some(*reason), None, None),
            Next::Held { due } => (None, Some(*due), None),
        };
        let failure = attempt.failure.as_ref().map(rows::json).transpose()?;
        // Words that can be made again from the row are not stored: most messages are sent at the first try.
        let explanation =
            Some(attempt.explanation.as_str()).filter(|said| !lifecycle::is_accepted(said, attempt.number));
        self.learn(message, settlement, &held, now)?;
        self.append(&Row {
            key,
            seq: held.progress.steps,
            outcome: attempt.outcome.code(),
            number: attempt.number,
            progress: settlement.progress,
            started_at: attempt.started_at,
            finished_at: attempt.finished_at,
            reason,
            next_due,
            delay: attempt.next_delay,
            failure,
            receipt,
            explanation,
            policy: attempt.policy.as_deref(),
            actor: None,
        })?;
        self.note(transition::settling(message, settlement, now));
        self.course_settled(message, settlement, now)?;
        self.ledger.settled(message, settlement, Course { due: held.due, after: held.after });
        self.end_hold(&held, now)?;
        match &settlement.next {
            Next::Sent(receipt) => {
                if settlement.reported {
                    self.expect_reports(message, receipt)?;
                }
            }
            Next::Failed(reason) => {
                self.add_letter(message, *reason, attempt.failure.as_ref())?;
            }
            Next::Retry { .. } | Next::Held { .. } => {}
        }
        match next_due {
            Some(due) => self.wait_again(&held, due, settlement.progress.steps, now)?,
            None => self.finish(message, now)?,
        }
        let places = places(&message.queue);
        self.change_block(&places, settlement.block.clone(), now)?;
        self.take_pulse(&places, &settlement.vitals, key, now)?;
        Ok(Settled::Done)
    }

    /// What every end of a message has in common: its deadline is void, and the next of its order goes.
    fn finish(&mut self, message: &Message, now: Time) -> Result<(), StoreError> {
        if let Some(at) = message.expires_at {
            self.write(sql!("expiry_delete"), params![at.millis(), message.id.key().0])?;
        }
        self.leave_order(message, now)
    }

    /// Joins the order of its key, and says whether it may go or another is before it.
    pub(super) fn enter_order(&mut self, message: &Message) -> Result<Order, StoreError> {
        let Some(ordering_key) = &message.ordering_key else { return Ok(Order::Goes) };
        let tenant = message.queue.tenant.as_str();
        let last: Option<i64> =
            self.one(sql!("ordered_last"), params![tenant, ordering_key], |row| row.get(0))?;
        let place = params![tenant, ordering_key, message.id.key().0, last.is_none(), last.unwrap_or(0) + 1];
        self.write(sql!("ordered_insert"), place)?;
        Ok(if last.is_none() { Order::Goes } else { Order::Waits })
    }

    fn leave_order(&mut self, message: &Message, now: Time) -> Result<(), StoreError> {
        let Some(ordering_key) = &message.ordering_key else { return Ok(()) };
        let tenant = message.queue.tenant.clone();
        let place = params![tenant.as_str(), ordering_key, message.id.key().0];
        let was_active = self.one(sql!("ordered_active"), place, |row| row.get(0))?.unwrap_or(false);
        self.write(sql!("ordered_delete"), place)?;
        if !was_active {
            return Ok(());
        }
        let next =
            self.one(sql!("ordered_next"), params![tenant.as_str(), ordering_key], |row| row.get(0))?;
        let Some(next) = next.map(MessageKey) else { return Ok(()) };
        self.write(sql!("ordered_activate"), params![tenant.as_str(), ordering_key, next.0])?;
        let stored = self.must_find(next)?;
        // One that was reprocessed has been tried before.
        let last = rows::last_step(&self.file.db, next)?;
        let steps = last.as_ref().map_or(0, |step| step.progress.steps);
        let due = last.and_then(|step| step.next_due).unwrap_or(stored.due);
        self.put_ready(stored.queue, rank_of(stored.message.priority, steps), due, next, steps, now)
    }

    fn must_find(&self, key: MessageKey) -> Result<Stored, StoreError> {
        rows::stored(&self.file.db, key)?
            .ok_or_else(|| StoreError::Broken(format!("message {} is missing from the store", key.0)))
    }

    /// Cancels a message that waits, since its recipient is on the suppression list for that reason, or for none.
    pub(super) fn cancel_one(
        &mut self,
        tenant: &Tenant,
        id: MessageId,
        by: &Actor,
        suppressed: Option<&str>,
        now: Time,
    ) -> Result<Cancelled, StoreError> {
        self.store_fresh(now)?;
        let Some(found) = self.find(tenant, id)? else { return Ok(Cancelled::NotFound) };
        if found.state != StateName::Pending {
            return Ok(Cancelled::TooLate(found.state));
        }
        let (due, progress, stored) = (found.due(), found.progress(), found.stored);
        let note = suppressed.map(left_out);
        self.record(transition::cancelled(&stored.message, by, note.as_deref(), now));
        self.end_waiting(&stored, due, progress, &Ending::Cancelled(by.clone(), note), now)?;
        #[cfg(feature = "planted")]
        if planted::is(planted::Bug::RecordMissing) {
            self.records.pop();
        }
        self.ledger.cancelled(&stored.message.queue);
        self.course_given_up(&stored.message, standing_cancelled(suppressed), progress.steps == 0, now)?;
        Ok(Cancelled::Done)
    }

    pub(super) fn leave_out_one(
        &mut self,
        key: ClaimKey,
        reason: &str,
        now: Time,
    ) -> Result<Settled, StoreError> {
        let Some(held) = self.claims.valid(key).cloned() else { return Ok(Settled::Stale) };
        self.release_one(key, now)?;
        let tenant = &held.message.queue.tenant;
        self.cancel_one(tenant, key.message, &Actor::engine(), Some(reason), now)?;
        Ok(Settled::Done)
    }

    /// Ends a message that waits, without an attempt.
    fn end_waiting(
        &mut self,
        stored: &Stored,
        due: Time,
        progress: Progress,
        ending: &Ending,
        now: Time,
    ) -> Result<(), StoreError> {
        let key = stored.message.id.key();
        let place = params![stored.queue, rank(stored.message.priority), due.millis(), key.0];
        self.write(sql!("ready_delete"), place)?;
        match ending {
            Ending::Cancelled(by, note) => {
                let row = Row::of(key, rows::CANCELLED, progress, now);
                let (actor, explanation) = (Some(by.0.as_str()), note.as_deref());
                self.append(&Row { actor, explanation, ..row })?;
            }
            Ending::Expired => {
                let row = Row::of(key, rows::EXPIRED, progress, now);
                self.append(&Row { reason: Some(FailureReason::Expired), ..row })?;
                self.add_letter(&stored.message, FailureReason::Expired, None)?;
            }
        }
        self.finish(&stored.message, now)
    }

    pub(super) fn expire_some(&mut self, max: usize, now: Time) -> Result<usize, StoreError> {
        self.store_fresh(now)?;
        let mut expired = 0;
        while expired < max {
            let due = rows::deadlines(&self.file.db, now, max - expired)?;
            if due.is_empty() {
                break;
            }
            for (at, key) in due {
                if self.claims.holds(key) {
                    // Its settlement decides; if it comes back unsent, so does its deadline.
                    self.write(sql!("expiry_delete"), params![at.millis(), key.0])?;
                    continue;
                }
                let stored = self.must_find(key)?;
                let last = rows::last_step(&self.file.db, key)?;
                let progress = last.as_ref().map_or(Progress::default(), |step| step.progress);
                let ready_at = last.and_then(|step| step.next_due).unwrap_or(stored.due);
                self.end_waiting(&stored, ready_at, progress, &Ending::Expired, now)?;
                self.record(transition::expired(&stored.message, now));
                self.ledger.expired(&stored.message);
                let stands = (Standing::Failed, None);
                self.course_given_up(&stored.message, stands, progress.steps == 0, now)?;
                expired += 1;
            }
        }
        self.next_deadline = self.one(sql!("expiry_next"), [], |row| rows::time(row, 0))?;
        Ok(expired)
    }
}
