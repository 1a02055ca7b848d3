//! The ends of things: settlements, cancellations, deadlines, and the turn of the next in an order.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pombo_kernel::block::BlockChange;
use pombo_kernel::breaker::Sign;
use pombo_kernel::campaign::recipient::Standing;
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::lifecycle::{self, Next};
use pombo_kernel::message::{Actor, ClaimKey, FailureReason, Message, Progress, StateName};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::Time;

use super::link::Value;
use super::writes::Row;
use super::{AHEAD, Postgres, rows, sql};
use crate::board::{Held, QueueId, rank_of};
use crate::claiming::Claiming as _;
use crate::courses::{Courses as _, standing_cancelled};
use crate::learning::teaches;
use crate::roster::left_out;
use crate::rows::{Ending, Stored};
use crate::stats::Course;
use crate::traffic::places;
use crate::transition;
use crate::walls::Walls as _;
use crate::{Cancelled, Claimed, NodeId, Settled, Settlement, StoreError};

/// A message that is not being sent, as far as is known, and where it waits if so.
pub(super) struct Waiting {
    pub(super) stored: Stored,
    pub(super) progress: Progress,
    pub(super) due: Time,
    /// When the last that happened to it had ended, if there was anything.
    after: Option<Time>,
    failing_since: Option<Time>,
    /// It has ended.
    pub(super) over: bool,
    /// Why, if it failed.
    pub(super) reason: Option<FailureReason>,
}

/// How often a message is looked for that others move meanwhile.
const TAKE_TRIES: usize = 20;

/// Where a message waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stood {
    InQueue,
    /// Behind another of its order.
    Behind,
}

impl Waiting {
    pub(super) fn key(&self) -> MessageKey {
        self.stored.message.id.key()
    }

    pub(super) fn is(&self, tenant: &Tenant, id: MessageId) -> bool {
        self.stored.message.id == id && self.stored.message.queue.tenant == *tenant
    }

    fn rank(&self) -> i16 {
        i16::try_from(rank_of(self.stored.message.priority, self.progress.steps)).unwrap_or(i16::MAX)
    }

    pub(super) fn order(&self) -> Option<Vec<u8>> {
        order_of(&self.stored.message)
    }

    /// The same, for those who ask of many.
    pub(super) fn places(&self) -> Vec<Value> {
        let due = vec![self.due.millis()];
        vec![vec![self.stored.queue].into(), vec![self.rank()].into(), due.into(), vec![self.key().0].into()]
    }

    /// Its row in `ready`.
    pub(super) fn place(&self) -> Vec<Value> {
        let due = self.due.millis();
        vec![self.stored.queue.into(), self.rank().into(), due.into(), self.key().0.into()]
    }
}

/// What came of the wish for one message.
pub(super) enum Taken {
    Claimed(Claimed),
    /// It has ended, or there is none.
    Nothing,
    /// It is being sent, or stands behind another of its order.
    Busy,
}

pub(super) fn order_of(message: &Message) -> Option<Vec<u8>> {
    Some(rows::order_digest(&message.queue.tenant, message.ordering_key.as_deref()?))
}

impl Postgres {
    pub(super) fn settle_some(
        &mut self,
        settlements: &[Settlement],
        now: Time,
    ) -> Result<Vec<Settled>, StoreError> {
        self.recall(settlements.iter().map(|settlement| settlement.key.claim), now)?;
        self.end_pauses(now)?;
        let blocks =
            settlements.iter().any(|it| it.block != BlockChange::Keep || it.vitals.sign == Sign::Ill);
        self.guard_courses(settlements.iter().map(|settlement| settlement.key), blocks, now)?;
        self.lock_courses_of(settlements.iter().map(|settlement| &settlement.key), now)?;
        let pasts = self.pasts(settlements)?;
        let mut ended = Vec::new();
        let mut answers = Vec::with_capacity(settlements.len());
        for settlement in settlements {
            let Some(held) = self.claims.valid(settlement.key).cloned() else {
                answers.push(Settled::Stale);
                continue;
            };
            let message = held.message.clone();
            let attempt = &settlement.attempt;
            let (reason, next_due, receipt) = match &settlement.next {
                Next::Sent(receipt) => (None, None, Some(rows::json(receipt)?)),
                Next::Retry { due, .. } => (None, Some(*due), None),
                Next::Failed(reason) => (Some(*reason), None, None),
                Next::Held { due } => (None, Some(*due), None),
            };
            // Words that can be made again from the row are not stored: most messages are sent at the first try.
            let explanation = Some(attempt.explanation.as_str())
                .filter(|said| !lifecycle::is_accepted(said, attempt.number));
            self.writes.history(&Row {
                key: message.id.key(),
                tenant: &message.queue.tenant,
                seq: held.progress.steps,
                outcome: attempt.outcome.code(),
                number: attempt.number,
                progress: settlement.progress,
                started_at: attempt.started_at,
                finished_at: attempt.finished_at,
                reason,
                next_due,
                delay: attempt.next_delay,
                failure: attempt.failure.as_ref().map(rows::json).transpose()?,
                receipt,
                explanation,
                policy: attempt.policy.as_deref(),
                actor: None,
            });
            if self.writes.settled() >= AHEAD {
                let steps = self.settled_ahead();
                self.go_ahead(steps)?;
            }
            self.record(transition::settled(&message, settlement, now));
            self.course_settled(&message, settlement, now)?;
            self.ledger.settled(&message, settlement, Course { due: held.due, after: held.after });
            if teaches(&message, settlement, held.progress) {
                self.know_names(now)?;
                let past = pasts.get(&message.id.key());
                self.ledger.learnt(&message, settlement, past, &mut self.names);
            }
            self.let_go(&held, now)?;
            match &settlement.next {
                Next::Sent(receipt) => {
                    if settlement.reported {
                        self.expect_reports(&message, receipt, now);
                    }
                }
                Next::Failed(reason) => {
                    self.add_letter(&message, *reason, attempt.failure.as_ref(), now)?;
                }
                Next::Retry { .. } | Next::Held { .. } => {}
            }
            match next_due {
                Some(due) => self.wait_again(&held, due, settlement.progress.steps, now)?,
                None => ended.push(message.clone()),
            }
            let places = places(&message.queue);
            self.change_block(&places, settlement.block.clone(), now)?;
            self.take_pulse(&places, &settlement.vitals, message.id.key(), now)?;
            answers.push(Settled::Done);
        }
        self.finish(ended.iter().map(|message| &**message), now)?;
        Ok(answers)
    }

    /// What every end of a message has in common: its deadline is void, and the next of its order goes.
    fn finish<'a>(&mut self, ended: impl Iterator<Item = &'a Message>, now: Time) -> Result<(), StoreError> {
        let (mut digests, mut keys): (Vec<Vec<u8>>, Vec<i64>) = (Vec::new(), Vec::new());
        for message in ended {
            if let Some(at) = message.expires_at {
                self.writes.void_deadline(at, message.id.key());
            }
            if let Some(digest) = order_of(message) {
                digests.push(digest);
                keys.push(message.id.key().0);
            }
        }
        if digests.is_empty() {
            return Ok(());
        }
        self.lock_orders(&digests)?;
        let mut free = Vec::new();
        for row in &self.ask_one(sql!("ordered_delete"), vec![digests.into(), keys.into()])? {
            if rows::get(row, 2)? {
                free.push(rows::get::<Vec<u8>>(row, 0)?);
            }
        }
        if free.is_empty() {
            return Ok(());
        }
        let next = self.ask_one(sql!("ordered_next"), vec![free.into()])?;
        let next = next.iter().map(|row| rows::get(row, 0)).collect::<Result<Vec<i64>, _>>()?;
        for waiting in self.find_waiting(next)? {
            let message = &waiting.stored.message;
            let queue = self.queue_id(message)?;
            // One that was reprocessed has been tried before.
            let steps = waiting.progress.steps;
            let rank = rank_of(message.priority, steps);
            self.put_ready(queue, rank, waiting.due, waiting.key(), steps, now);
        }
        Ok(())
    }

    /// Messages by their keys, in that order, and where each would wait.
    pub(super) fn find_waiting(&mut self, keys: Vec<i64>) -> Result<Vec<Waiting>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut found: HashMap<MessageKey, Waiting> = HashMap::new();
        for row in &self.ask_one(sql!("stored_some"), vec![keys.clone().into()])? {
            let stored = rows::stored(&self.vault, row)?;
            let last: Option<i32> = rows::get(row, 17)?;
            let (progress, outcome, next_due) = match last {
                None => (Progress::default(), None, None),
                Some(seq) => {
                    let progress = Progress {
                        keyed: rows::number::<i16, u16>(row, 24)?,
                        round: rows::number::<i16, u16>(row, 19)?,
                        attempts: rows::number::<i16, u16>(row, 20)?,
                        crashes: rows::number::<i16, u16>(row, 21)?,
                        steps: seq.unsigned_abs().saturating_add(1),
                        doubtful: rows::get(row, 22)?,
                    };
                    (progress, Some(rows::get::<i16>(row, 18)?), rows::some_time(row, 23)?)
                }
            };
            let due = next_due.unwrap_or(stored.due);
            let (after, failing_since) = (rows::some_time(row, 26)?, rows::some_time(row, 27)?);
            let over = outcome.is_some() && next_due.is_none();
            let reason = rows::get::<Option<i16>>(row, 25)?.and_then(|code| u8::try_from(code).ok());
            let reason = reason.and_then(FailureReason::from_code);
            found.insert(
                stored.message.id.key(),
                Waiting { stored, progress, due, after, failing_since, over, reason },
            );
        }
        Ok(keys.into_iter().filter_map(|key| found.remove(&MessageKey(key))).collect())
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
        self.flush(now)?;
        let Some(waiting) = self.find_own(tenant, id)? else { return Ok(Cancelled::NotFound) };
        let Some((waiting, _)) = self.take_out(&waiting)? else {
            return Ok(Cancelled::TooLate(self.ending(id)?));
        };
        let note = suppressed.map(left_out);
        self.record(transition::cancelled(&waiting.stored.message, by, note.as_deref(), now));
        self.end_waiting(&waiting, &Ending::Cancelled(by.clone(), note), now)?;
        self.ledger.cancelled(&waiting.stored.message.queue);
        let first = waiting.progress.steps == 0;
        self.course_given_up(&waiting.stored.message, standing_cancelled(suppressed), first, now)?;
        self.finish(std::iter::once(&waiting.stored.message), now)?;
        Ok(Cancelled::Done)
    }

    pub(super) fn leave_out_one(
        &mut self,
        key: ClaimKey,
        reason: &str,
        now: Time,
    ) -> Result<Settled, StoreError> {
        self.recall(std::iter::once(key.claim), now)?;
        let Some(held) = self.claims.valid(key).cloned() else { return Ok(Settled::Stale) };
        self.release_some(&[key], now)?;
        let tenant = &held.message.queue.tenant;
        self.cancel_one(tenant, key.message, &Actor::engine(), Some(reason), now)?;
        Ok(Settled::Done)
    }

    /// Takes a message out of where it waits, if it does, so that nobody else has it before the commit.
    pub(super) fn take_out(&mut self, waiting: &Waiting) -> Result<Option<(Waiting, Stood)>, StoreError> {
        // Its order first, so that its turn does not come meanwhile.
        if let Some(digest) = waiting.order() {
            self.lock_orders(&[digest])?;
        }
        let key = waiting.key();
        for _ in 0..TAKE_TRIES {
            // What was read may be old by now: whoever took it meanwhile has committed, or gives it back to us.
            let found = self.find_waiting(vec![key.0])?.pop().filter(|waiting| !waiting.over);
            let Some(waiting) = found else { return Ok(None) };
            if !self.ask_one(sql!("ready_wait"), waiting.place())?.is_empty() {
                return Ok(Some((waiting, Stood::InQueue)));
            }
            if self.waits_in_order(std::slice::from_ref(&waiting))?.contains(&key) {
                return Ok(Some((waiting, Stood::Behind)));
            }
            // It is being sent, unless whoever took it has put it back, or elsewhere.
            let Some(now) = self.find_waiting(vec![key.0])?.pop() else { return Ok(None) };
            if self.ask_one(sql!("ready_see"), now.places())?.is_empty() {
                return Ok(None);
            }
        }
        Err(StoreError::Again("others keep moving a message".into()))
    }

    /// Claims this very message, whatever else waits, if it waits and its turn has come.
    pub(super) fn take_waiting(
        &mut self,
        node: NodeId,
        tenant: &Tenant,
        id: MessageId,
        now: Time,
    ) -> Result<Taken, StoreError> {
        self.flush(now)?;
        let Some(waiting) = self.find_own(tenant, id)?.filter(|waiting| !waiting.over) else {
            return Ok(Taken::Nothing);
        };
        if self.ask_one(sql!("ready_wait"), waiting.place())?.is_empty() {
            return Ok(Taken::Busy);
        }
        let claim = self.next_claim()?;
        let Waiting { stored, progress, due, after, failing_since, .. } = waiting;
        let message = Arc::new(stored.message);
        self.record(transition::claimed(&message, now));
        // It takes nobody's turn: whatever its campaign has on its way goes on.
        self.change_campaign(&message.queue, now, |campaign| {
            campaign.roll.ahead = campaign.roll.ahead.saturating_sub(u64::from(progress.steps == 0));
            None
        })?;
        let held =
            Held { claim, node, at: now, due, message, progress, after, failing_since, probes: Vec::new() };
        Ok(self.hold(claim, vec![(held, None)], now)?.pop().map_or(Taken::Busy, Taken::Claimed))
    }

    pub(super) fn find_own(&mut self, tenant: &Tenant, id: MessageId) -> Result<Option<Waiting>, StoreError> {
        let found = self.find_waiting(vec![id.key().0])?.pop();
        Ok(found.filter(|it| it.is(tenant, id)))
    }

    /// The state of a message that does not wait.
    pub(super) fn ending(&mut self, id: MessageId) -> Result<StateName, StoreError> {
        let last = self.ask_one(sql!("history_last"), vec![vec![id.key().0].into()])?;
        let step = last.first().map(|row| rows::step(&self.vault, row)).transpose()?;
        Ok(step.and_then(|step| step.ending()).unwrap_or(StateName::Sending))
    }

    /// Those of them that stand behind another of their order.
    pub(super) fn waits_in_order(&mut self, some: &[Waiting]) -> Result<HashSet<MessageKey>, StoreError> {
        let (mut digests, mut keys): (Vec<Vec<u8>>, Vec<i64>) = (Vec::new(), Vec::new());
        for waiting in some {
            if let Some(digest) = waiting.order() {
                digests.push(digest);
                keys.push(waiting.key().0);
            }
        }
        if digests.is_empty() {
            return Ok(HashSet::new());
        }
        let found = self.ask_one(sql!("ordered_waits"), vec![digests.into(), keys.into()])?;
        found.iter().map(|row| rows::key(row, 0)).collect()
    }

    /// Ends a message that waited, without an attempt.
    fn end_waiting(&mut self, waiting: &Waiting, ending: &Ending, now: Time) -> Result<(), StoreError> {
        let message = &waiting.stored.message;
        match ending {
            Ending::Cancelled(by, note) => {
                let row = Row::of(message, rows::CANCELLED, waiting.progress, now);
                let (actor, explanation) = (Some(by.0.as_str()), note.as_deref());
                self.writes.history(&Row { actor, explanation, ..row });
                Ok(())
            }
            Ending::Expired => {
                let row = Row::of(message, rows::EXPIRED, waiting.progress, now);
                self.writes.history(&Row { reason: Some(FailureReason::Expired), ..row });
                self.add_letter(message, FailureReason::Expired, None, now)
            }
        }
    }

    pub(super) fn expire_some(&mut self, max: usize, now: Time) -> Result<usize, StoreError> {
        self.flush(now)?;
        let mut expired = 0;
        let mut after = (i64::MIN, i64::MIN);
        while expired < max {
            let most = i64::try_from(max - expired).unwrap_or(i64::MAX);
            let values = vec![now.millis().into(), after.0.into(), after.1.into(), most.into()];
            let due = self.ask_one(sql!("expiry_due"), values)?;
            let due = due.iter().map(|row| Ok((rows::get(row, 0)?, rows::get(row, 1)?)));
            let due = due.collect::<Result<Vec<(i64, i64)>, StoreError>>()?;
            let Some(last) = due.last() else { break };
            after = *last;
            expired += self.expire_these(&due, now)?;
        }
        self.flush(now)?;
        let next = self.ask_one(sql!("expiry_next"), Vec::new())?;
        let next = next.first().map(|row| rows::time(row, 0)).transpose()?;
        // What another is looking at, or about to send, is looked at again in a while.
        self.next_deadline =
            next.map(|next| if next <= now && expired < max { now + super::LOOK_EVERY } else { next });
        Ok(expired)
    }

    fn expire_these(&mut self, due: &[(i64, i64)], now: Time) -> Result<usize, StoreError> {
        let some = self.find_waiting(due.iter().map(|(_, key)| *key).collect())?;
        let orders: Vec<Vec<u8>> = some.iter().filter_map(Waiting::order).collect();
        if !orders.is_empty() {
            self.lock_orders(&orders)?;
        }
        let queues: Vec<QueueId> = some.iter().map(|it| it.stored.queue).collect();
        let ranks: Vec<i16> = some.iter().map(Waiting::rank).collect();
        let dues: Vec<i64> = some.iter().map(|it| it.due.millis()).collect();
        let keys: Vec<i64> = some.iter().map(|it| it.key().0).collect();
        let places =
            || vec![queues.clone().into(), ranks.clone().into(), dues.clone().into(), keys.clone().into()];
        let found = self.ask(vec![(sql!("ready_take"), places()), (sql!("ready_see"), places())])?;
        let [taken, seen] = found.as_slice() else { return Err(super::reader::unanswered()) };
        let keys_of = |rows: &[super::link::Row]| {
            rows.iter().map(|row| rows::key(row, 0)).collect::<Result<HashSet<_>, _>>()
        };
        let (taken, others) = (keys_of(taken)?, keys_of(seen)?);
        let behind = self.waits_in_order(&some)?;
        self.lock_courses(some.iter().map(|it| &*it.stored.message.queue), now)?;
        let mut ended = Vec::new();
        for waiting in some {
            let key = waiting.key();
            if !waiting.over && (taken.contains(&key) || behind.contains(&key)) {
                self.end_waiting(&waiting, &Ending::Expired, now)?;
                self.record(transition::expired(&waiting.stored.message, now));
                self.ledger.expired(&waiting.stored.message);
                let first = waiting.progress.steps == 0;
                self.course_given_up(&waiting.stored.message, (Standing::Failed, None), first, now)?;
                ended.push(waiting.stored.message);
            } else if !others.contains(&key)
                && let Some(at) = waiting.stored.message.expires_at
            {
                // It is being sent: its settlement decides; if it comes back unsent, so does its deadline.
                self.writes.void_deadline(at, key);
            }
        }
        self.finish(ended.iter(), now)?;
        Ok(ended.len())
    }
}
