//! Whose turn it is, and who has what.

use std::sync::Arc;

use pombo_kernel::id::MessageKey;
use pombo_kernel::message::{ClaimId, ClaimKey, Message, QueueName, State};
use pombo_kernel::name::LaneName;
#[cfg(feature = "planted")]
use pombo_kernel::planted;
use pombo_kernel::time::Time;
use pombo_kernel::turns::Pass;

use super::learning::past;
use super::{Front, Hold, Model, Queue, Turn};
use crate::traffic::places;
use crate::{Claimed, NodeId, transition};

impl Model {
    pub(super) fn queue(&mut self, name: QueueName) -> Arc<QueueName> {
        if let Some((name, _)) = self.queues.get_key_value(&name) {
            return name.clone();
        }
        let name = Arc::new(name);
        let age = self.queues.len();
        self.queues.insert(name.clone(), Queue { age, pass: Pass::default(), served: 0 });
        name
    }

    /// The id of a claim whose first record comes next.
    pub(super) fn next_claim(&self) -> ClaimId {
        let position = self.tip.position + self.records.len() as u64;
        ClaimId(i64::try_from(position).unwrap_or(i64::MAX))
    }

    pub(super) fn is_retry(&self, message: &Message) -> bool {
        self.messages.get(&message.id.key()).is_some_and(|row| row.progress.steps > 0)
    }

    /// What of a queue may be sent at `now`, the head first. What was tried before goes before what is new as far as
    /// its budget reaches, and after it beyond that.
    pub(super) fn heads(
        &self,
        queue: &QueueName,
        mut retries: usize,
        now: Time,
    ) -> Vec<(Arc<Message>, Time)> {
        let of_queue = self.queued().filter(|(message, due)| *message.queue == *queue && *due <= now);
        let mut heads: Vec<_> = of_queue.map(|(message, due)| (message.clone(), due)).collect();
        heads.sort_by_key(|(message, due)| {
            (std::cmp::Reverse(message.priority), !self.is_retry(message), *due, message.id)
        });
        let (mut first, last): (Vec<_>, Vec<_>) = heads.into_iter().partition(|(message, _)| {
            let goes = !self.is_retry(message) || retries > 0;
            retries -= usize::from(goes && self.is_retry(message));
            goes
        });
        first.extend(last);
        first
    }

    /// The lane's queues that could go now.
    pub(super) fn turns(&self, lane: &LaneName, now: Time) -> Vec<Turn> {
        let lane_pass = self.lanes.get(lane).copied().unwrap_or_default();
        let mut turns = Vec::new();
        for (name, queue) in self.queues.iter().filter(|(name, _)| name.lane == *lane) {
            let probing = match self.front(name, now) {
                Front::Open => None,
                Front::Probe(probing) => Some(probing),
                Front::Shut { .. } => continue,
            };
            if !self.heads(name, 0, now).is_empty() {
                let pass = queue.pass.resumed(lane_pass);
                let (served, age) = (queue.served, queue.age);
                turns.push(Turn { queue: name.clone(), pass, served, age, probing });
            }
        }
        turns
    }

    /// Claims up to `bite` heads of the queue whose turn it is, which pays for them.
    pub(super) fn take(
        &mut self,
        turn: &Turn,
        bite: usize,
        claim: ClaimId,
        node: NodeId,
        now: Time,
    ) -> Vec<Claimed> {
        self.lanes.insert(turn.queue.lane.clone(), turn.pass);
        let mut pass = turn.pass;
        let mut taken = Vec::new();
        let bite = if turn.probing.is_some() { bite } else { bite.min(self.room(&turn.queue, now)) };
        // A breaker's probe may end in doubt, and what was tried before has fewer attempts to lose by that.
        let retries = self.traffic.retry_room(&places(&turn.queue)[1], now);
        let mut heads = self.heads(&turn.queue, retries, now);
        if turn.probing.is_some() {
            // Whoever has waited longest tries, so that one message cannot be the only probe.
            heads.sort_by_key(|(message, due)| (*due, message.id));
        }
        heads.truncate(bite);
        self.turns_taken += u64::from(!heads.is_empty());
        let served = if heads.is_empty() { turn.served } else { self.turns_taken };
        self.passed(&turn.queue, &heads, now);
        let weight = self.weight(&turn.queue);
        for (message, due) in heads {
            pass = pass.after(message.priority, weight);
            self.records.push(transition::claimed(&message, now));
            let first = !self.is_retry(&message);
            self.course_started(&message, claim.0, first, now);
            let hold = Hold { claim, node, due, probing: turn.probing.clone() };
            taken.extend(self.hold(message.id.key(), hold, now));
        }
        if let Some(queue) = self.queues.get_mut(&turn.queue) {
            (queue.pass, queue.served) = (pass, served);
        }
        taken
    }

    /// Puts a message into its holder's hands.
    pub(super) fn hold(&mut self, key: MessageKey, hold: Hold, now: Time) -> Option<Claimed> {
        let row = self.row_mut(key)?;
        row.state = State::Sending { claim: hold.claim, since: now };
        let claimed = Claimed {
            key: ClaimKey { message: row.message.id, claim: hold.claim },
            message: row.message.clone(),
            progress: row.progress,
            due: hold.due,
            claimed_at: now,
            failing_since: past(row).map(|past| past.first_ended_at),
            probe: hold.probing.as_ref().map(|probing| probing.probe),
        };
        self.claims.insert(key, hold);
        Some(claimed)
    }

    /// Ends a claim, if it is still the one that is shown. The message, and when it was due.
    pub(super) fn give_back(&mut self, key: ClaimKey) -> Option<(Arc<Message>, Time)> {
        let row = self.messages.get(&key.message.key()).filter(|row| row.message.id == key.message)?;
        let hold = self.claims.get(&key.message.key())?;
        let valid = hold.claim == key.claim;
        #[cfg(feature = "planted")]
        let valid = valid || planted::is(planted::Bug::NoTokenCheck);
        if !valid {
            return None;
        }
        let given_back = (row.message.clone(), hold.due);
        self.claims.remove(&key.message.key());
        Some(given_back)
    }
}
