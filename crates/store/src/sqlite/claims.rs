//! Claims: what is being sent, by whom, and what becomes of it when the sender is gone.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use pombo_kernel::block::Probe;
use pombo_kernel::id::{ByKey, MessageId, MessageKey};
use pombo_kernel::message::{ClaimId, ClaimKey, Progress, QueueName};
#[cfg(feature = "planted")]
use pombo_kernel::planted;
use pombo_kernel::time::Time;
use rusqlite::params;
use rusqlite::types::ValueRef;

use super::learning::failing_since;
use super::{Sqlite, rows, sql};
use crate::board::{Held, QueueId, rank, rank_of};
use crate::claiming::{Claiming, Head, NOBODY, ranks_in, told};
use crate::courses::Courses as _;
use crate::transition;
use crate::walls::Walls;
use crate::{Claimed, NodeId, Settled, StoreError};

#[derive(Debug, Default)]
pub(super) struct Claims {
    held: HashMap<MessageKey, Held, ByKey>,
    /// How many messages of each journal row are still unsettled.
    open: BTreeMap<ClaimId, usize>,
    pub(super) leases: HashMap<NodeId, Time>,
    /// Claims that were taken from their holders. The journal does not say so; reading it anew must not forget them.
    disowned: HashSet<ClaimKey>,
}

impl Claims {
    pub(super) fn holds(&self, key: MessageKey) -> bool {
        self.held.contains_key(&key)
    }

    pub(super) fn disown(&mut self, key: ClaimKey) {
        let held = self.held.get_mut(&key.message.key()).filter(|held| held.claim == key.claim);
        if let Some(held) = held {
            held.node = NOBODY;
            self.disowned.insert(key);
        }
    }

    /// What the claim key gives a right to, if it is still valid.
    pub(super) fn valid(&self, key: ClaimKey) -> Option<&Held> {
        let held = self.held.get(&key.message.key())?;
        let valid = held.claim == key.claim && held.message.id == key.message;
        #[cfg(feature = "planted")]
        let valid = valid || planted::is(planted::Bug::NoTokenCheck);
        valid.then_some(held)
    }

    /// Whether whoever has the message has said for so long nothing that it is gone.
    fn is_lost(&self, held: &Held, now: Time) -> bool {
        self.leases.get(&held.node).is_none_or(|until| *until <= now)
    }

    /// The claim on a message whose holder is gone.
    pub(super) fn lost(&self, id: MessageId, now: Time) -> Option<ClaimKey> {
        let held = self.held.get(&id.key()).filter(|held| held.message.id == id)?;
        self.is_lost(held, now).then_some(ClaimKey { message: id, claim: held.claim })
    }

    /// Takes what the claim key gives a right to, if it is still valid. Its hold is to be ended next.
    pub(super) fn take(&mut self, key: ClaimKey) -> Option<Held> {
        self.valid(key)?;
        self.held.remove(&key.message.key())
    }
}

impl Claiming for Sqlite {
    /// The audit position of the claim's first record.
    fn next_claim(&mut self) -> Result<ClaimId, StoreError> {
        let position = self.tip.position + self.records.len() as u64;
        Ok(ClaimId(i64::try_from(position).unwrap_or(i64::MAX)))
    }

    fn hold(
        &mut self,
        claim: ClaimId,
        taken: Vec<(Held, Option<Probe>)>,
        now: Time,
    ) -> Result<Vec<Claimed>, StoreError> {
        let Some((first, _)) = taken.first() else { return Ok(Vec::new()) };
        let node = first.node;
        let mut members = Vec::with_capacity(taken.len() * rows::MEMBER);
        for (held, _) in &taken {
            rows::push_member(&mut members, held.message.id.key(), held.due, held.progress.steps);
        }
        self.write(sql!("claim_insert"), params![claim.0, node.0, now.millis(), members])?;
        self.claims.open.insert(claim, taken.len());
        let claimed = taken.into_iter().map(|(held, probe)| {
            let given = told(&held, probe);
            self.claims.held.insert(held.message.id.key(), held);
            given
        });
        Ok(claimed.collect())
    }

    fn store_fresh_of(&mut self, id: QueueId, now: Time) -> Result<(), StoreError> {
        self.store_fresh_of_queue(id, now)
    }

    fn first_rows(&mut self, id: QueueId, ranks: u32) -> Result<Vec<(Time, i64, i64)>, StoreError> {
        let mut firsts = Vec::new();
        for rank in ranks_in(ranks) {
            let first = |row: &rusqlite::Row<'_>| Ok((rows::time(row, 0)?, row.get(1)?, rank));
            firsts.extend(self.one(sql!("ready_first"), params![id, rank], first)?);
        }
        Ok(firsts)
    }

    fn read_heads(
        &mut self,
        id: QueueId,
        rank: i64,
        most: usize,
        name: &Arc<QueueName>,
        now: Time,
        into: &mut Vec<Head>,
    ) -> Result<(), StoreError> {
        let before = into.len();
        {
            let mut statement = self.file.db.prepare_cached(sql!("claim_heads"))?;
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let mut found = statement.query(params![id, rank, now.millis(), most])?;
            while let Some(row) = found.next()? {
                let steps: u32 = row.get(1)?;
                if row.get_ref(2)? == ValueRef::Null {
                    return Err(StoreError::Broken("a message that waits is missing from the store".into()));
                }
                let message = rows::message(&self.file.db, row, 2, name.clone())?;
                into.push(Head {
                    due: rows::time(row, 0)?,
                    message: Arc::new(message),
                    progress: Progress { steps, ..Progress::default() },
                    after: None,
                    failing_since: None,
                });
            }
        }
        for head in into[before..].iter_mut().filter(|head| head.progress.steps > 0) {
            let last = rows::last_step(&self.file.db, head.message.id.key())?;
            if let Some(last) = last {
                (head.progress, head.after) = (last.progress, Some(last.finished_at));
                head.failing_since = failing_since(&self.file.db, head.message.id.key(), last.progress)?;
            }
        }
        // Heads are the first rows of their rank, so that all of them go at once.
        let Some(last) = into[before..].last() else { return Ok(()) };
        let place = params![id, rank, last.due.millis(), last.message.id.key().0];
        if self.write(sql!("ready_delete_heads"), place)? != into.len() - before {
            return Err(StoreError::Broken("what waits was not read in its order".into()));
        }
        Ok(())
    }
}

impl Sqlite {
    /// Claims whose node has no lease any more, oldest first.
    pub(super) fn take_over_lost(
        &mut self,
        node: NodeId,
        max: usize,
        now: Time,
    ) -> Result<Vec<Claimed>, StoreError> {
        if self.board.paused {
            return Ok(Vec::new());
        }
        let held = self.claims.held.values();
        let mut lost: Vec<Held> = held.filter(|held| self.claims.is_lost(held, now)).cloned().collect();
        lost.sort_by_key(|held| (held.claim, held.message.id));
        lost.truncate(max);
        let claim = self.next_claim()?;
        let mut taken = Vec::with_capacity(lost.len());
        for mut held in lost {
            self.let_go(held.message.id.key(), now)?;
            self.record(transition::taken_over(&held.message, now));
            self.course_taken_over(&held.message, claim, now)?;
            (held.claim, held.node, held.at) = (claim, node, now);
            held.probes.clear();
            taken.push((held, None));
        }
        self.hold(claim, taken, now)
    }

    /// Ends the hold on a message; its journal row goes with the last one.
    pub(super) fn let_go(&mut self, key: MessageKey, now: Time) -> Result<(), StoreError> {
        match self.claims.held.remove(&key) {
            Some(held) => self.end_hold(&held, now),
            None => Ok(()),
        }
    }

    /// The same of a hold that was taken out.
    pub(super) fn end_hold(&mut self, held: &Held, now: Time) -> Result<(), StoreError> {
        self.board.probe_ended(&held.probes, now);
        let left = self.claims.open.get_mut(&held.claim).map(|left| {
            *left -= 1;
            *left
        });
        if left == Some(0) {
            self.claims.open.remove(&held.claim);
            self.write(sql!("claim_delete"), [held.claim.0])?;
        }
        Ok(())
    }

    pub(super) fn release_one(&mut self, key: ClaimKey, now: Time) -> Result<Settled, StoreError> {
        let Some(held) = self.claims.valid(key).cloned() else { return Ok(Settled::Stale) };
        self.let_go(key.message.key(), now)?;
        self.wait_again(&held, held.due, held.progress.steps, now)?;
        self.record(transition::released(&held.message, now));
        self.course_released(&held.message, held.progress.steps == 0, now)?;
        Ok(Settled::Done)
    }

    /// Puts a message that was being sent back among the waiting.
    pub(super) fn wait_again(
        &mut self,
        held: &Held,
        due: Time,
        steps: u32,
        now: Time,
    ) -> Result<(), StoreError> {
        let message = &held.message;
        let (queue, _) = self.queue(&message.queue)?;
        self.put_ready(queue, rank_of(message.priority, steps), due, message.id.key(), steps, now)?;
        if let Some(at) = message.expires_at {
            self.write(sql!("expiry_insert"), params![at.millis(), message.id.key().0])?;
            self.note_deadline(at);
        }
        Ok(())
    }

    /// Reads the open journal: the messages that were being sent when the file was last written.
    pub(super) fn load_claims(&mut self) -> Result<(), StoreError> {
        let Claims { leases, disowned, .. } = std::mem::take(&mut self.claims);
        self.claims = Claims { leases, ..Claims::default() };
        for (claim, node, at, members) in rows::journal(&self.file.db)? {
            for (key, due, steps) in rows::members(&members) {
                if self.one(sql!("history_has"), params![key.0, steps], |_| Ok(()))?.is_some() {
                    continue;
                }
                let Some(stored) = rows::stored(&self.file.db, key)? else { continue };
                let last = rows::last_step(&self.file.db, key)?;
                // Given back, and perhaps due at another time since.
                let waits = last.as_ref().and_then(|step| step.next_due).unwrap_or(stored.due);
                let place = params![stored.queue, rank(stored.message.priority), waits.millis(), key.0];
                if self.one(sql!("ready_has"), place, |_| Ok(()))?.is_some() {
                    continue;
                }
                let after = last.as_ref().map(|step| step.finished_at);
                let progress = last.map_or(Progress { steps, ..Progress::default() }, |step| step.progress);
                let failing_since = failing_since(&self.file.db, key, progress)?;
                let message = Arc::new(stored.message);
                let probes = Vec::new();
                let held = Held { claim, node, at, due, message, progress, after, failing_since, probes };
                *self.claims.open.entry(claim).or_default() += 1;
                // Released and claimed again while its first claim was open: the later claim holds it.
                if let Some(earlier) = self.claims.held.insert(key, held) {
                    *self.claims.open.entry(earlier.claim).or_insert(1) -= 1;
                }
            }
            self.claims.open.entry(claim).or_default();
        }
        disowned.into_iter().for_each(|key| self.claims.disown(key));
        let done: Vec<ClaimId> =
            self.claims.open.iter().filter(|(_, left)| **left == 0).map(|(claim, _)| *claim).collect();
        for claim in done {
            self.claims.open.remove(&claim);
            self.write(sql!("claim_delete"), [claim.0])?;
        }
        Ok(())
    }
}
