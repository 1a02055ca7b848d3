//! Which messages a claim gets, whatever a store keeps them in: queues by their turns, and the heads of each.

use std::sync::Arc;

use pombo_kernel::block::Probe;
use pombo_kernel::flow::Budget;
use pombo_kernel::message::{ClaimId, ClaimKey, Message, Progress, QueueName};
use pombo_kernel::time::{Span, Time};
use pombo_kernel::turns::BITE;

use crate::board::{Alone, Front, Held, QueueId, TRIED};
use crate::courses::Courses;
use crate::traffic::places;
use crate::transition;
use crate::{Ask, Claimed, NodeId, Place, StoreError};

/// A node that never lives.
pub(crate) const NOBODY: NodeId = NodeId(i64::MIN);

/// How long to leave a queue alone while somebody else sends through what is in front of it.
pub(crate) const ELSEWHERE: Span = Span::from_millis(10);

/// A message taken from the head of its queue.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) due: Time,
    pub(crate) message: Arc<Message>,
    pub(crate) progress: Progress,
    /// When the last that happened to it had ended, if there was anything.
    pub(crate) after: Option<Time>,
    /// When the first attempt of its round failed that counted, if one did.
    pub(crate) failing_since: Option<Time>,
}

/// Whether a rank's messages were tried before, and if so, whether the destination's budget covers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tried {
    Never,
    WithinBudget,
    BeyondBudget,
}

/// A store whose queues are on a board and whose waiting messages are in ranks.
pub(crate) trait Claiming: Courses {
    /// Greater than those before it, and never given out before.
    fn next_claim(&mut self) -> Result<ClaimId, StoreError>;

    /// Writes down a claim and who holds what.
    fn hold(
        &mut self,
        claim: ClaimId,
        taken: Vec<(Held, Option<Probe>)>,
        now: Time,
    ) -> Result<Vec<Claimed>, StoreError>;

    /// Makes the group's own messages of a queue rows like any others.
    fn store_fresh_of(&mut self, id: QueueId, now: Time) -> Result<(), StoreError>;

    /// The first row of each of these ranks: due, key, rank.
    fn first_rows(&mut self, id: QueueId, ranks: u32) -> Result<Vec<(Time, i64, i64)>, StoreError>;

    /// Takes up to `most` due rows from the front of a rank.
    fn read_heads(
        &mut self,
        id: QueueId,
        rank: i64,
        most: usize,
        name: &Arc<QueueName>,
        now: Time,
        into: &mut Vec<Head>,
    ) -> Result<(), StoreError>;

    /// Told that up to `most` heads of a queue go in this claim, by bites: whoever pays for each question may take them
    /// all at once, as [`planned`] says, and hand them out from there. What is not wanted after all is put back by
    /// `put_back`.
    fn take_ahead(&mut self, _id: QueueId, _most: usize, _now: Time) -> Result<(), StoreError> {
        Ok(())
    }

    /// The claim has all that it gets.
    fn put_back(&mut self, _now: Time) {}

    /// Nobody else sends through the bounded places in front of a queue meanwhile; false if somebody does just now.
    fn hold_flows(&mut self, _name: &QueueName, _now: Time) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// Nobody else sends for the queue's campaign or through its line meanwhile, and the board has them as they are;
    /// false if somebody does just now.
    fn hold_course(&mut self, _name: &QueueName, _now: Time) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// Sends a message out as a probe; false, and it waits again, if another's is on its way.
    fn start_probe(
        &mut self,
        _id: QueueId,
        _places: &[Place],
        _head: &Head,
        _now: Time,
    ) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// Claims for one who asks; blocks are held as they are by now.
    fn claim_by_turns(&mut self, ask: &Ask, now: Time) -> Result<Vec<Claimed>, StoreError> {
        let mut claim = None;
        let mut taken = Vec::new();
        while taken.len() < ask.max {
            let Some((id, alone)) = self.board().turn(&ask.lane, now) else { break };
            let name = self.board().queue(id).name.clone();
            let mut most = ask.max - taken.len();
            let mut want = most;
            // A queue that is alone takes all at once, unless some of it is paid for by the rest.
            if alone == Alone::No || self.board().queue(id).retry.is_some_and(|due| due <= now) {
                want = want.min(BITE);
            }
            if !self.hold_flows(&name, now)? || (name.campaign.is_some() && !self.hold_course(&name, now)?) {
                self.board().leave_alone(id, now + ELSEWHERE, now);
                continue;
            }
            let probe = match self.board().front(&name, now) {
                Front::Open => {
                    let room = self.board().room(&name, now);
                    (want, most) = (want.min(room), most.min(room));
                    None
                }
                Front::Probe { places, probe } => {
                    want = 1;
                    probe.map(|probe| (places, probe))
                }
                Front::Shut { .. } => {
                    self.board().reseat(id, now);
                    continue;
                }
            };
            let claim = match claim {
                Some(claim) => claim,
                None => *claim.insert(self.next_claim()?),
            };
            if probe.is_none() && alone == Alone::Yes && want < most {
                self.take_ahead(id, most, now)?;
            }
            let heads = match &probe {
                None => self.take_heads(id, want, now)?,
                Some((places, _)) => {
                    let heads = self.take_longest_waiting(id, now)?;
                    match heads.first() {
                        Some(head) if !self.start_probe(id, places, head, now)? => continue,
                        _ => heads,
                    }
                }
            };
            let retries = heads.iter().filter(|head| head.progress.steps > 0).count();
            self.board().passed(&name, heads.len() - retries, retries, now);
            self.board().pay(id, heads.iter().map(|head| head.message.priority), now);
            for head in heads {
                let (places, probes) =
                    probe.clone().map_or((Vec::new(), None), |(places, n)| (places, Some(n)));
                self.board().probe_started(&places, now);
                self.note(transition::claim(&head.message, now));
                self.course_started(&head.message, claim, head.progress.steps == 0, now)?;
                let held = Held {
                    claim,
                    node: ask.node,
                    at: now,
                    due: head.due,
                    message: head.message,
                    progress: head.progress,
                    after: head.after,
                    failing_since: head.failing_since,
                    probes: places,
                };
                taken.push((held, probes));
            }
        }
        self.put_back(now);
        match claim {
            Some(claim) => self.hold(claim, taken, now),
            None => Ok(Vec::new()),
        }
    }

    /// Takes up to `want` heads; what was tried before goes ahead of what was not, as far as its budget reaches.
    fn take_heads(&mut self, id: QueueId, want: usize, now: Time) -> Result<Vec<Head>, StoreError> {
        let name = self.board().queue(id).name.clone();
        let mut retries = self.board().traffic.retry_room(&places(&name)[1], now);
        let queue = self.board().queue(id);
        let due = |first: Option<Time>| first.is_some_and(|first| first <= now);
        if !due(queue.stored) && !due(queue.retry) {
            let fresh = self.board().take_fresh(id, want, now).into_iter();
            let head = |(due, message)| Head {
                due,
                message,
                progress: Progress::default(),
                after: None,
                failing_since: None,
            };
            return Ok(fresh.map(head).collect());
        }
        self.store_fresh_of(id, now)?;
        let ranks = self.board().queue(id).ranks;
        let mut heads = Vec::new();
        for (rank, tried) in order_of(ranks) {
            let left = want - heads.len();
            let left = if tried == Tried::WithinBudget { left.min(retries) } else { left };
            if left == 0 {
                continue;
            }
            let before = heads.len();
            self.read_heads(id, rank, left, &name, now, &mut heads)?;
            if tried == Tried::WithinBudget {
                retries -= heads.len() - before;
            }
        }
        if heads.len() < want {
            self.find_next_due(id, ranks, now)?;
        }
        Ok(heads)
    }

    /// The one message that has waited longest, whatever its rank: so one message cannot be the only probe.
    fn take_longest_waiting(&mut self, id: QueueId, now: Time) -> Result<Vec<Head>, StoreError> {
        self.store_fresh_of(id, now)?;
        let ranks = self.board().queue(id).ranks;
        let longest = self.first_rows(id, ranks)?.into_iter().filter(|(due, ..)| *due <= now).min();
        let mut heads = Vec::new();
        if let Some((.., rank)) = longest {
            let name = self.board().queue(id).name.clone();
            self.read_heads(id, rank, 1, &name, now, &mut heads)?;
        }
        self.find_next_due(id, ranks, now)?;
        Ok(heads)
    }

    /// Looks up the earliest row of a queue, among the ranks that may have any.
    fn find_next_due(&mut self, id: QueueId, ranks: u32, now: Time) -> Result<(), StoreError> {
        let firsts = self.first_rows(id, ranks)?;
        let queue = self.board().queue(id);
        (queue.stored, queue.retry, queue.ranks) = (None, None, 0);
        for (due, _, rank) in firsts {
            queue.see(rank, due);
        }
        self.board().reseat(id, now);
        Ok(())
    }
}

/// The ranks that may have rows, in the order in which they are taken: at each priority what was tried before goes first,
/// as far as its budget reaches; beyond that it goes last.
fn order_of(ranks: u32) -> impl Iterator<Item = (i64, Tried)> {
    let within = (0..TRIED).flat_map(|rank| [(rank + TRIED, Tried::WithinBudget), (rank, Tried::Never)]);
    let order = within.chain((TRIED..2 * TRIED).map(|rank| (rank, Tried::BeyondBudget)));
    order.filter(move |(rank, _)| ranks & (1 << rank) != 0)
}

/// How many heads of each rank go at least if so many go in all, by bites, and the ranks have them. Where one runs dry,
/// its share falls to the others: none gets less for it.
pub(crate) fn planned(ranks: u32, mut budget: Budget, want: usize, now: Time) -> Vec<(i64, usize)> {
    let mut counts: Vec<(i64, usize)> = ranks_in(ranks).map(|rank| (rank, 0)).collect();
    let mut left = if counts.is_empty() { 0 } else { want };
    while left > 0 {
        let bite = left.min(BITE);
        let (mut free, mut room, mut retries) = (bite, budget.room(now), 0);
        for (rank, tried) in order_of(ranks) {
            let count = if tried == Tried::WithinBudget { free.min(room) } else { free };
            room -= if tried == Tried::WithinBudget { count } else { 0 };
            retries += if rank >= TRIED { count } else { 0 };
            free -= count;
            if let Some(of) = counts.iter_mut().find(|(other, _)| *other == rank) {
                of.1 += count;
            }
        }
        budget = budget.after(bite - retries, retries, now);
        left -= bite;
    }
    counts.retain(|(_, count)| *count > 0);
    counts
}

/// What the holder of a message is told.
pub(crate) fn told(held: &Held, probe: Option<Probe>) -> Claimed {
    Claimed {
        key: ClaimKey { message: held.message.id, claim: held.claim },
        message: held.message.clone(),
        progress: held.progress,
        due: held.due,
        claimed_at: held.at,
        failing_since: held.failing_since,
        probe,
    }
}

/// The ranks that may have rows, by their bits.
pub(crate) fn ranks_in(ranks: u32) -> impl Iterator<Item = i64> {
    (0..2 * TRIED).filter(move |rank| ranks & (1 << rank) != 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Time = Time::from_millis(1_800_000_000_000);

    /// How many of each rank go by bites, if the ranks have so many.
    fn taken(mut have: [usize; 20], mut budget: Budget, want: usize) -> [usize; 20] {
        let (mut taken, mut left) = ([0; 20], want);
        while left > 0 && have.iter().any(|count| *count > 0) {
            let (mut free, mut room, mut retries) = (left.min(BITE), budget.room(NOW), 0);
            let bite = free;
            for (rank, tried) in order_of(u32::MAX) {
                let at = usize::try_from(rank).unwrap();
                let count = free.min(have[at]).min(if tried == Tried::WithinBudget { room } else { free });
                room -= if tried == Tried::WithinBudget { count } else { 0 };
                retries += if rank >= TRIED { count } else { 0 };
                (have[at], taken[at], free) = (have[at] - count, taken[at] + count, free - count);
            }
            budget = budget.after(bite - free - retries, retries, NOW);
            left -= bite - free;
        }
        taken
    }

    proptest! {
        #[test]
        fn a_plan_takes_from_no_rank_what_the_bites_would_leave_there(
            have in prop::array::uniform20(prop_oneof![3 => Just(0usize), 1 => 1usize..60, 1 => 60usize..3000]),
            spent in 0usize..150,
            want in 1usize..2100,
        ) {
            let budget = Budget::default().after(0, spent, NOW);
            let ranks = ranks_in(u32::MAX).filter(|rank| have[usize::try_from(*rank).unwrap()] > 0);
            let ranks = ranks.fold(0, |ranks, rank| ranks | 1 << rank);
            let taken = taken(have, budget, want);
            for (rank, count) in planned(ranks, budget, want, NOW) {
                let at = usize::try_from(rank).unwrap();
                prop_assert!(count.min(have[at]) <= taken[at], "rank {rank}: {count} of {}, {}", have[at], taken[at]);
            }
        }
    }
}
