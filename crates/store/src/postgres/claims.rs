//! Claims: what is being sent, by whom, and what becomes of it when the sender is gone.
//!
//! The journal in the database is the truth; what is known of it here saves reading it again. Before anything is
//! settled its journal row is locked, and a look at the row's length tells whether somebody took a part of it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use pombo_kernel::block::Probe;
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::message::{ClaimId, ClaimKey, Message, Progress, QueueName};
use pombo_kernel::time::Time;

use super::link::{Row, Step};
use super::walls::Guard;
use super::{Postgres, rows, sql};
use crate::board::{Held, QueueId, TRIED, rank_of};
use crate::claiming::{Claiming, Head, NOBODY, planned, ranks_in, told};
use crate::courses::Courses as _;
use crate::traffic::places;
use crate::transition;
use crate::{Claimed, NodeId, Place, Settled, StoreError};

#[derive(Debug, Default)]
pub(super) struct Claims {
    held: HashMap<MessageKey, Held>,
    open: BTreeMap<ClaimId, Open>,
    /// A number that no claim had yet.
    pub(super) spare: Option<ClaimId>,
    /// Claims that are to be taken from their holders with the next commit.
    pub(super) disowned: Vec<ClaimKey>,
    /// Heads that were taken for the claim that is being made, and are not given out yet.
    stock: HashMap<(QueueId, i64), Stock>,
    /// The failures that messages follow which are held, as they were read with them.
    pasts: HashMap<MessageKey, Failed>,
}

#[derive(Debug, Default)]
struct Stock {
    heads: VecDeque<Head>,
    /// There were no more that nobody else was looking at.
    dry: bool,
}

/// The failure that a message follows: its column, and when it and the first of its round had ended.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) steps: u32,
    pub(super) failure: String,
    pub(super) ended_at: Time,
    pub(super) first_ended_at: Time,
}

/// A journal row.
#[derive(Debug)]
struct Open {
    node: NodeId,
    at: Time,
    members: Vec<u8>,
    /// How many of the members are not settled.
    left: usize,
    /// Nobody else changes the row before the commit.
    locked: bool,
}

impl Claims {
    pub(super) fn forget_all(&mut self) {
        self.spare = None;
        self.held.clear();
        self.open.clear();
        self.stock.clear();
        self.pasts.clear();
    }

    /// The group is committed: others may change the journal again.
    pub(super) fn unlock(&mut self) {
        self.open.values_mut().for_each(|open| open.locked = false);
    }

    fn forget(&mut self, claim: ClaimId) {
        if let Some(open) = self.open.remove(&claim) {
            for (key, ..) in rows::members(&open.members) {
                if self.held.get(&key).is_some_and(|held| held.claim == claim) {
                    self.held.remove(&key);
                    self.pasts.remove(&key);
                }
            }
        }
    }

    /// The failure that a message follows which is held, if it is known.
    pub(super) fn past(&self, held: &Held) -> Option<&Failed> {
        self.pasts.get(&held.message.id.key()).filter(|failed| failed.steps == held.progress.steps)
    }

    /// What the claim key gives a right to, if it is still valid.
    pub(super) fn valid(&self, key: ClaimKey) -> Option<&Held> {
        let held = self.held.get(&key.message.key())?;
        (held.claim == key.claim && held.message.id == key.message).then_some(held)
    }
}

pub(super) fn number_of(found: &[Row]) -> Result<ClaimId, StoreError> {
    let row = found.first().ok_or_else(super::reader::unanswered)?;
    Ok(ClaimId(rows::get(row, 0)?))
}

/// The bytes of a journal row without the members that `gone` picks.
fn without(members: &[u8], mut gone: impl FnMut(MessageKey) -> bool) -> Vec<u8> {
    let mut left = Vec::with_capacity(members.len());
    for (key, due, steps) in rows::members(members).filter(|(key, ..)| !gone(*key)) {
        rows::push_member(&mut left, key, due, steps);
    }
    left
}

/// A message, how far it has come, when the last that happened to it had ended, and since when it fails.
type Unsettled = (Arc<Message>, Progress, Option<Time>, Option<Time>);

/// How far a message has come, from columns round, attempts, crashes, doubtful, keyed; nothing where it was never tried.
fn progress(row: &Row, first: usize, steps: u32) -> Result<Progress, StoreError> {
    let count = |column| -> Result<u16, StoreError> {
        let count: Option<i16> = rows::get(row, column)?;
        Ok(u16::try_from(count.unwrap_or(0)).unwrap_or(0))
    };
    Ok(Progress {
        keyed: count(first + 4)?,
        round: count(first)?,
        attempts: count(first + 1)?,
        crashes: count(first + 2)?,
        steps,
        doubtful: rows::get::<Option<bool>>(row, first + 3)?.unwrap_or(false),
    })
}

impl Claiming for Postgres {
    /// A number for a claim; one that was asked for on the way, if there is one.
    fn next_claim(&mut self) -> Result<ClaimId, StoreError> {
        if let Some(claim) = self.claims.spare.take() {
            return Ok(claim);
        }
        let found = self.ask_one(sql!("claim_next"), Vec::new())?;
        number_of(&found)
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
        self.writes.claim(claim, node, now, members.clone());
        // Written by this very transaction, so that nobody else can have it.
        let open = Open { node, at: now, members, left: taken.len(), locked: true };
        self.claims.open.insert(claim, open);
        let claimed = taken.into_iter().map(|(held, probe)| {
            let given = told(&held, probe);
            self.claims.held.insert(held.message.id.key(), held);
            given
        });
        Ok(claimed.collect())
    }

    fn store_fresh_of(&mut self, id: QueueId, now: Time) -> Result<(), StoreError> {
        self.make_ready(id, now);
        // Rows that the group has gathered must be there before others of their queue are taken.
        if self.writes.ready.is_empty() { Ok(()) } else { self.flush(now) }
    }

    fn first_rows(&mut self, id: QueueId, ranks: u32) -> Result<Vec<(Time, i64, i64)>, StoreError> {
        let some: Vec<i16> = ranks_in(ranks).map(|rank| i16::try_from(rank).unwrap_or(0)).collect();
        if some.is_empty() {
            return Ok(Vec::new());
        }
        let firsts: Vec<i64> = some.iter().map(|rank| self.first_due(id, (*rank).into())).collect();
        let found = self.ask_one(sql!("ready_first"), vec![id.into(), some.into(), firsts.into()])?;
        let mut seen = Vec::with_capacity(found.len());
        for row in &found {
            let rank = i64::from(rows::get::<i16>(row, 0)?);
            // Somebody else was looking at it when the stock was taken, and is done.
            if let Some(stock) = self.claims.stock.get_mut(&(id, rank)) {
                stock.dry = false;
            }
            seen.push((rows::time(row, 1)?, rows::get(row, 2)?, rank));
        }
        Ok(seen)
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
        let mut dry = false;
        if let Some(stock) = self.claims.stock.get_mut(&(id, rank)) {
            into.extend(stock.heads.drain(..most.min(stock.heads.len())));
            dry = stock.dry;
        }
        let left = most - (into.len() - before);
        if left == 0 || dry {
            return Ok(());
        }
        into.append(&mut self.fetch_heads(id, rank, left, name, now)?);
        Ok(())
    }

    fn take_ahead(&mut self, id: QueueId, most: usize, now: Time) -> Result<(), StoreError> {
        if self.claims.stock.iter().any(|((queue, _), stock)| *queue == id && !stock.heads.is_empty()) {
            return Ok(());
        }
        self.store_fresh_of(id, now)?;
        let queue = self.board.queue(id);
        let (name, mut ranks) = (queue.name.clone(), queue.ranks);
        for ((queue, rank), stock) in &self.claims.stock {
            ranks &= if *queue == id && stock.dry { !(1 << rank) } else { u32::MAX };
        }
        let budget = self.board.traffic.budget(&places(&name)[1]);
        for (rank, count) in planned(ranks, budget, most, now) {
            let heads = self.fetch_heads(id, rank, count, &name, now)?;
            let dry = heads.len() < count;
            self.claims.stock.insert((id, rank), Stock { heads: heads.into(), dry });
        }
        Ok(())
    }

    fn put_back(&mut self, now: Time) {
        for ((id, rank), stock) in std::mem::take(&mut self.claims.stock) {
            for head in stock.heads {
                let (key, steps) = (head.message.id.key(), head.progress.steps);
                self.claims.pasts.remove(&key);
                self.put_ready(id, rank, head.due, key, steps, now);
            }
        }
    }

    fn hold_flows(&mut self, name: &QueueName, now: Time) -> Result<bool, StoreError> {
        self.lock_flows(name, now)
    }

    fn hold_course(&mut self, name: &QueueName, now: Time) -> Result<bool, StoreError> {
        self.try_course(name, now)
    }

    fn start_probe(
        &mut self,
        id: QueueId,
        places: &[Place],
        head: &Head,
        now: Time,
    ) -> Result<bool, StoreError> {
        let (key, steps) = (head.message.id.key(), head.progress.steps);
        let starts = self.mark_probe(places, key, now)?;
        if !starts {
            self.claims.pasts.remove(&key);
            self.put_ready(id, rank_of(head.message.priority, steps), head.due, key, steps, now);
        }
        Ok(starts)
    }
}

impl Postgres {
    /// Takes up to `most` due rows from the front of a rank out of the table.
    fn fetch_heads(
        &mut self,
        id: QueueId,
        rank: i64,
        most: usize,
        name: &Arc<QueueName>,
        now: Time,
    ) -> Result<Vec<Head>, StoreError> {
        let first = self.first_due(id, rank);
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let narrow = i16::try_from(rank).unwrap_or(i16::MAX);
        let values = vec![id.into(), narrow.into(), now.millis().into(), most.into(), first.into()];
        // Results are written while what was claimed is being read.
        let (ahead, vault) = (self.settled_ahead(), self.vault.clone());
        let (mut heads, mut pasts) = (Vec::new(), Vec::new());
        // What was never tried has no history to look at.
        let tried = rank >= TRIED;
        let sql = if tried { sql!("claim_heads") } else { sql!("claim_fresh") };
        self.ask_ahead((sql, values), ahead, |row| {
            let (due, steps) = (rows::time(row, 0)?, rows::number::<i32, u32>(row, 1)?);
            let message = Arc::new(rows::message(&vault, row, 2, name.clone())?);
            let mut head = Head {
                due,
                message,
                progress: Progress { steps, ..Progress::default() },
                after: None,
                failing_since: None,
            };
            if tried {
                head.progress = progress(row, 12, steps)?;
                (head.after, head.failing_since) = (rows::some_time(row, 17)?, rows::some_time(row, 18)?);
                let failure: Option<String> = rows::get(row, 19)?;
                if let (Some(failure), Some(ended_at), Some(first_ended_at)) =
                    (failure, head.after, head.failing_since)
                {
                    let failed = Failed { steps, failure, ended_at, first_ended_at };
                    pasts.push((head.message.id.key(), failed));
                }
            }
            heads.push(head);
            Ok(())
        })?;
        self.claims.pasts.extend(pasts);
        heads.sort_by_key(|head| (head.due, head.message.id.key()));
        if let [.., last] = &heads[..] {
            self.firsts.insert((id, rank), last.due);
        }
        Ok(heads)
    }

    /// From where on a rank is read. Before that are rows that were taken: while somebody reads for long, the server
    /// cannot forget them, and each claim would pass all of them again. What others put there is found by a look.
    fn first_due(&self, id: QueueId, rank: i64) -> i64 {
        self.firsts.get(&(id, rank)).map_or(i64::MIN, |due| due.millis())
    }

    /// Has the journal rows of these claims as they are, and keeps them so until the commit.
    pub(super) fn recall(
        &mut self,
        claims: impl Iterator<Item = ClaimId>,
        now: Time,
    ) -> Result<(), StoreError> {
        let locked = |claim: &ClaimId| self.claims.open.get(claim).is_some_and(|open| open.locked);
        let wanted: BTreeSet<ClaimId> = claims.filter(|claim| !locked(claim)).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        // Where the journal has to be read, it must say what this group has made of it.
        let unknown = wanted.iter().any(|claim| !self.claims.open.contains_key(claim));
        if unknown && !(self.writes.shrunk.is_empty() && self.writes.settled_claims.is_empty()) {
            self.flush(now)?;
        }
        let ids: Vec<i64> = wanted.iter().map(|claim| claim.0).collect();
        let mut gone = wanted;
        let mut strange: Vec<i64> = Vec::new();
        for row in &self.ask_one(sql!("claim_lock"), vec![ids.into()])? {
            let (claim, length) = (ClaimId(rows::get(row, 0)?), rows::number::<i32, usize>(row, 1)?);
            gone.remove(&claim);
            match self.claims.open.get_mut(&claim).filter(|open| open.members.len() == length) {
                Some(open) => open.locked = true,
                None => strange.push(claim.0),
            }
        }
        gone.into_iter().for_each(|claim| self.claims.forget(claim));
        if strange.is_empty() {
            return Ok(());
        }
        let rows = self.ask_one(sql!("claim_rows"), vec![strange.into()])?;
        for (claim, open, held) in self.read_journal(&rows, now)? {
            self.remember(claim, open, held);
        }
        Ok(())
    }

    /// Journal rows (id, node, at, members), which we have locked, and what of each is not settled.
    fn read_journal(
        &mut self,
        found: &[Row],
        now: Time,
    ) -> Result<Vec<(ClaimId, Open, Vec<Held>)>, StoreError> {
        self.flush(now)?;
        let (mut keys, mut steps): (Vec<i64>, Vec<i32>) = (Vec::new(), Vec::new());
        let mut journal = Vec::with_capacity(found.len());
        for row in found {
            let (claim, node, at) =
                (ClaimId(rows::get(row, 0)?), NodeId(rows::get(row, 1)?), rows::time(row, 2)?);
            let members: Vec<u8> = rows::get(row, 3)?;
            for (key, _, step) in rows::members(&members) {
                keys.push(key.0);
                steps.push(i32::try_from(step).unwrap_or(i32::MAX));
            }
            journal.push((claim, Open { node, at, members, left: 0, locked: true }, Vec::new()));
        }
        let probed = (sql!("block_probes"), vec![keys.clone().into()]);
        let answers = self.ask(vec![(sql!("claim_members"), vec![keys.into(), steps.into()]), probed])?;
        let [members, probed] = answers.as_slice() else { return Err(super::reader::unanswered()) };
        let mut probes: HashMap<MessageKey, Vec<Place>> = HashMap::new();
        for row in probed {
            if let (place, _, Some(key)) = rows::block(row)? {
                probes.entry(MessageKey(key)).or_default().push(place);
            }
        }
        // By key and steps: one that was settled here may be in flight again under a later claim.
        let mut unsettled: HashMap<(MessageKey, u32), Unsettled> = HashMap::new();
        for row in members {
            let message = Arc::new(rows::stored(&self.vault, row)?.message);
            let progress = progress(row, 18, rows::number::<i32, u32>(row, 17)?)?;
            let (after, failing_since) = (rows::some_time(row, 23)?, rows::some_time(row, 24)?);
            unsettled.insert((message.id.key(), progress.steps), (message, progress, after, failing_since));
        }
        for (claim, open, held) in &mut journal {
            for (key, due, steps) in rows::members(&open.members) {
                if let Some((message, progress, after, failing_since)) = unsettled.get(&(key, steps)) {
                    held.push(Held {
                        claim: *claim,
                        node: open.node,
                        at: open.at,
                        due,
                        message: message.clone(),
                        progress: *progress,
                        after: *after,
                        failing_since: *failing_since,
                        probes: probes.get(&key).cloned().unwrap_or_default(),
                    });
                }
            }
            open.left = held.len();
        }
        Ok(journal)
    }

    /// Claims whose node has no lease any more, oldest first.
    pub(super) fn take_over_lost(
        &mut self,
        node: NodeId,
        max: usize,
        now: Time,
    ) -> Result<Vec<Claimed>, StoreError> {
        self.part_with_disowned(now)?;
        self.guard_blocks(Guard::Shared, now)?;
        if max == 0 || self.board.paused {
            return Ok(Vec::new());
        }
        self.flush(now)?;
        let found = self.lost_claims(now)?;
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let mut journal = self.read_journal(&found, now)?;
        let mut lost: Vec<Held> = journal.iter_mut().flat_map(|(.., held)| std::mem::take(held)).collect();
        lost.sort_by_key(|held| (held.claim, held.message.id));
        lost.truncate(max);
        let taken: HashMap<MessageKey, ClaimId> =
            lost.iter().map(|held| (held.message.id.key(), held.claim)).collect();
        for (old, open, _) in journal {
            let mine = |key: MessageKey| taken.get(&key) == Some(&old);
            let count = rows::members(&open.members).filter(|(key, ..)| mine(*key)).count();
            self.claims.forget(old);
            if count == open.left {
                self.writes.settled_claims.push(old.0);
            } else if count > 0 {
                self.writes.shrunk.insert(old, without(&open.members, mine));
            }
        }
        if lost.is_empty() {
            return Ok(Vec::new());
        }
        for held in lost.iter().filter(|held| !held.probes.is_empty()) {
            self.end_probe(held, now)?;
        }
        self.lock_courses(lost.iter().map(|held| &*held.message.queue), now)?;
        let claim = self.next_claim()?;
        let mut held = Vec::with_capacity(lost.len());
        for one in lost {
            self.record(transition::taken_over(&one.message, now));
            self.course_taken_over(&one.message, claim, now)?;
            held.push((Held { claim, node, at: now, probes: Vec::new(), ..one }, None));
        }
        self.hold(claim, held, now)
    }

    /// Gives those of the messages back whose node has no lease any more; which they are.
    pub(super) fn release_lost_of(
        &mut self,
        ids: &[MessageId],
        now: Time,
    ) -> Result<Vec<MessageId>, StoreError> {
        self.part_with_disowned(now)?;
        self.flush(now)?;
        let found = self.lost_claims(now)?;
        let mut keys = Vec::new();
        for (claim, open, held) in self.read_journal(&found, now)? {
            let lost = held.iter().map(|held| held.message.id).filter(|id| ids.contains(id));
            let before = keys.len();
            keys.extend(lost.map(|message| ClaimKey { message, claim }));
            if keys.len() > before {
                self.remember(claim, open, held);
            }
        }
        keys.sort_by_key(|key| ids.iter().position(|id| *id == key.message));
        self.release_some(&keys, now)?;
        Ok(keys.into_iter().map(|key| key.message).collect())
    }

    /// Journal rows whose node has no lease any more, locked, but for those that somebody works on.
    fn lost_claims(&mut self, now: Time) -> Result<Vec<Row>, StoreError> {
        let mut steps: Vec<Step> = self.leased().into_iter().collect();
        steps.push((sql!("claim_lost"), vec![now.millis().into()]));
        Ok(self.ask(steps)?.pop().unwrap_or_default())
    }

    /// Has what a journal row says, in the stead of whatever was known of it.
    fn remember(&mut self, claim: ClaimId, open: Open, held: Vec<Held>) {
        self.claims.forget(claim);
        self.claims.held.extend(held.into_iter().map(|held| (held.message.id.key(), held)));
        self.claims.open.insert(claim, open);
    }

    /// Has the blocks before the campaigns of these messages, as whoever takes messages over does, if one of them was a
    /// probe or `blocks` says that they may change.
    pub(super) fn guard_courses(
        &mut self,
        keys: impl Iterator<Item = ClaimKey>,
        blocks: bool,
        now: Time,
    ) -> Result<(), StoreError> {
        let held: Vec<&Held> = keys.filter_map(|key| self.claims.valid(key)).collect();
        let paced = held.iter().any(|held| held.message.queue.campaign.is_some());
        if paced && (blocks || held.iter().any(|held| !held.probes.is_empty())) {
            self.guard_blocks(Guard::Exclusive, now)?;
        }
        Ok(())
    }

    /// Has the campaigns of messages that are being sent, in one order for everybody.
    pub(super) fn lock_courses_of<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a ClaimKey>,
        now: Time,
    ) -> Result<(), StoreError> {
        let queue = |key: &ClaimKey| Some(self.claims.valid(*key)?.message.queue.clone());
        let queues: Vec<_> = keys.filter_map(queue).filter(|queue| queue.campaign.is_some()).collect();
        self.lock_courses(queues.iter().map(|queue| &**queue), now)
    }

    /// Takes messages from holders who do not have them any more, or were never told of them, so that the next take-over finds them.
    pub(super) fn part_with_disowned(&mut self, now: Time) -> Result<(), StoreError> {
        if self.claims.disowned.is_empty() {
            return Ok(());
        }
        let disowned = std::mem::take(&mut self.claims.disowned);
        self.recall(disowned.iter().map(|key| key.claim), now)?;
        for key in disowned {
            let Some(held) = self.claims.valid(key).cloned() else { continue };
            self.leave_journal(&held);
            self.let_go(&held, now)?;
            let claim = self.next_claim()?;
            self.hold(claim, vec![(Held { claim, node: NOBODY, at: now, ..held }, None)], now)?;
        }
        Ok(())
    }

    /// Ends the hold on a message that is settled; its journal row goes with the last one.
    pub(super) fn let_go(&mut self, held: &Held, now: Time) -> Result<(), StoreError> {
        self.claims.held.remove(&held.message.id.key());
        self.claims.pasts.remove(&held.message.id.key());
        if !held.probes.is_empty() {
            self.end_probe(held, now)?;
        }
        if let Some(open) = self.claims.open.get_mut(&held.claim) {
            open.left -= 1;
            if open.left == 0 {
                self.claims.open.remove(&held.claim);
                self.writes.shrunk.remove(&held.claim);
                self.writes.settled_claims.push(held.claim.0);
            }
        }
        Ok(())
    }

    /// The message is no longer among its journal row's, though it is not settled.
    fn leave_journal(&mut self, held: &Held) {
        let key = held.message.id.key();
        if let Some(open) = self.claims.open.get_mut(&held.claim).filter(|open| open.left > 1) {
            open.members = without(&open.members, |member| member == key);
            self.writes.shrunk.insert(held.claim, open.members.clone());
        }
    }

    pub(super) fn release_some(&mut self, keys: &[ClaimKey], now: Time) -> Result<Vec<Settled>, StoreError> {
        self.recall(keys.iter().map(|key| key.claim), now)?;
        self.guard_courses(keys.iter().copied(), false, now)?;
        self.lock_courses_of(keys.iter(), now)?;
        let mut answers = Vec::with_capacity(keys.len());
        for key in keys {
            let Some(held) = self.claims.valid(*key).cloned() else {
                answers.push(Settled::Stale);
                continue;
            };
            self.leave_journal(&held);
            self.let_go(&held, now)?;
            self.wait_again(&held, held.due, held.progress.steps, now)?;
            self.record(transition::released(&held.message, now));
            self.course_released(&held.message, held.progress.steps == 0, now)?;
            answers.push(Settled::Done);
        }
        Ok(answers)
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
        let queue = self.queue_id(message)?;
        self.put_ready(queue, rank_of(message.priority, steps), due, message.id.key(), steps, now);
        if let Some(at) = message.expires_at {
            self.writes.deadline(at, message.id.key());
            self.note_deadline(at);
        }
        Ok(())
    }
}
