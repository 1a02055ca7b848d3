//! Which queue goes next: the part of the store that is kept in memory.
//!
//! It holds queues, not messages: of a million waiting messages only each queue's earliest time is known here.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use pombo_kernel::block::{Block, Gate, Probe, probe_of};
use pombo_kernel::campaign::Campaign;
use pombo_kernel::campaign::line::{Line, LineRules};
use pombo_kernel::id::MessageKey;
use pombo_kernel::message::{ClaimId, Message, Priority, Progress, QueueName};
use pombo_kernel::name::{CampaignName, ChannelName, LaneName, Tenant};
#[cfg(feature = "planted")]
use pombo_kernel::planted;
use pombo_kernel::time::Time;
use pombo_kernel::turns::{BITE, Pass};

use crate::courses::line_of;
use crate::roster;
use crate::shelf::{Doc, Shelf};
use crate::traffic::{Traffic, places};
use crate::{NodeId, Place};

/// The row id of a queue, which is also its age among queues.
pub(crate) type QueueId = i64;

/// 9 less the priority, so that rows sort as they go.
pub(crate) fn rank(priority: Priority) -> i64 {
    i64::from(9 - priority.get())
}

/// Messages that were tried before stand in ranks of their own, this far from those of the untried.
pub(crate) const TRIED: i64 = 10;

/// The rank of a message that has come so many steps.
pub(crate) fn rank_of(priority: Priority, steps: u32) -> i64 {
    rank(priority) + if steps > 0 { TRIED } else { 0 }
}

/// A message accepted in the group that is being written: not in the `ready` table yet, and if a worker takes it
/// before the commit, never.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) rank: i64,
    pub(crate) due: Time,
    pub(crate) key: MessageKey,
    pub(crate) message: Arc<Message>,
}

/// A message that is being sent.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) claim: ClaimId,
    pub(crate) node: NodeId,
    pub(crate) at: Time,
    /// When it was due, which is where it goes back to if it is released.
    pub(crate) due: Time,
    pub(crate) message: Arc<Message>,
    pub(crate) progress: Progress,
    /// When the last that happened to it had ended, if there was anything.
    pub(crate) after: Option<Time>,
    /// When the first attempt of its round failed that counted, if one did.
    pub(crate) failing_since: Option<Time>,
    /// The holds that it probes.
    pub(crate) probes: Vec<Place>,
}

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) name: Arc<QueueName>,
    pub(crate) weight: u32,
    pub(crate) fresh: Vec<Fresh>,
    /// The earliest due time among `fresh`.
    pub(crate) fresh_due: Option<Time>,
    /// No row of this queue in `ready` that was never tried is due earlier; none if there is no such row.
    pub(crate) stored: Option<Time>,
    /// The same of rows that were tried before.
    pub(crate) retry: Option<Time>,
    /// Ranks that may have rows, one bit each.
    pub(crate) ranks: u32,
    /// Others are at work on what is in front of it until then, as far as is known.
    others_until: Time,
    pass: Pass,
    /// The lane's turn in which it last took something.
    served: u64,
    seat: Seat,
    /// It is among those that its campaign and its line concern.
    listed: bool,
}

impl Queue {
    /// There is a row in `ready`.
    pub(crate) fn see(&mut self, rank: i64, due: Time) {
        let first = if rank < TRIED { &mut self.stored } else { &mut self.retry };
        *first = Some(first.map_or(due, |stored| stored.min(due)));
        self.ranks |= 1 << rank;
    }
}

/// Where a queue stands in its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    Idle,
    Ready(Pass, u64),
    Waiting(Time),
}

#[derive(Debug, Default)]
struct Lane {
    pass: Pass,
    /// How often anybody took something.
    turns: u64,
    ready: BTreeSet<(Pass, u64, QueueId)>,
    waiting: BTreeSet<(Time, QueueId)>,
}

#[derive(Debug, Default)]
pub(crate) struct Board {
    queues: BTreeMap<QueueId, Queue>,
    by_name: HashMap<Arc<QueueName>, QueueId>,
    /// The queues behind each place where a block can stand.
    by_place: HashMap<Place, Vec<QueueId>>,
    lanes: HashMap<LaneName, Lane>,
    pub(crate) blocks: BTreeMap<Place, Block>,
    /// Nothing goes, whatever is due.
    pub(crate) paused: bool,
    /// No pause and no ramp among them ends earlier.
    next_end: Option<Time>,
    pub(crate) traffic: Traffic,
    /// Campaigns by their documents; nothing where that cannot be read, and then nothing goes.
    courses: HashMap<(Tenant, CampaignName), Option<Campaign>>,
    lines: HashMap<ChannelName, Line>,
    /// The queues of each campaign in which something waits, and those of all campaigns of each channel. A campaign by
    /// mail has as many queues as there are domains, and of most of them everything was sent long ago.
    by_course: HashMap<(Tenant, CampaignName), BTreeSet<QueueId>>,
    by_line: HashMap<ChannelName, BTreeSet<QueueId>>,
    /// Holds through which a probe is on its way.
    probing: HashSet<Place>,
    /// Queues with messages of the group that is being written.
    fresh: Vec<QueueId>,
}

/// What stands in front of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    Open,
    /// One message may pass, as a probe of these blocks.
    Probe {
        places: Vec<Place>,
        probe: Option<Probe>,
    },
    Shut {
        until: Option<Time>,
    },
}

impl Front {
    /// The stricter of what stands here and another gate before it.
    fn behind(self, gate: Gate) -> Front {
        match (self, gate) {
            (front, Gate::Open | Gate::Flow(_) | Gate::Probe) => front,
            (Front::Shut { until: None }, _) | (_, Gate::Shut { until: None }) => Front::Shut { until: None },
            (Front::Shut { until: Some(one) }, Gate::Shut { until: Some(two) }) => {
                Front::Shut { until: Some(one.max(two)) }
            }
            (_, Gate::Shut { until }) => Front::Shut { until },
        }
    }
}

impl Board {
    pub(crate) fn find(&self, name: &QueueName) -> Option<QueueId> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn add(&mut self, id: QueueId, name: QueueName, weight: u32) -> Arc<QueueName> {
        let name = Arc::new(name);
        self.by_name.insert(name.clone(), id);
        for place in places(&name) {
            self.by_place.entry(place).or_default().push(id);
        }
        let queue = Queue {
            name: name.clone(),
            weight,
            fresh: Vec::new(),
            fresh_due: None,
            stored: None,
            retry: None,
            ranks: 0,
            others_until: Time::default(),
            pass: Pass::default(),
            served: 0,
            seat: Seat::Idle,
            listed: false,
        };
        self.queues.insert(id, queue);
        name
    }

    pub(crate) fn queue(&mut self, id: QueueId) -> &mut Queue {
        self.queues.get_mut(&id).expect("queues are never removed")
    }

    /// Adds a message of the group that is being written.
    pub(crate) fn push_fresh(&mut self, id: QueueId, fresh: Fresh, now: Time) {
        let queue = self.queue(id);
        if queue.fresh.is_empty() {
            self.fresh.push(id);
        }
        let queue = self.queue(id);
        queue.fresh_due = Some(queue.fresh_due.map_or(fresh.due, |due| due.min(fresh.due)));
        queue.fresh.push(fresh);
        self.reseat(id, now);
    }

    /// Notes a row in `ready`.
    pub(crate) fn note_row(&mut self, id: QueueId, rank: i64, due: Time, now: Time) {
        self.queue(id).see(rank, due);
        self.reseat(id, now);
    }

    /// Takes up to `want` of the group's own messages, which no disk has seen: handed on without being read back.
    pub(crate) fn take_fresh(&mut self, id: QueueId, want: usize, now: Time) -> Vec<(Time, Arc<Message>)> {
        let queue = self.queue(id);
        let order = |fresh: &Fresh| (fresh.rank, fresh.due, fresh.key);
        let (mut due, mut left): (Vec<Fresh>, Vec<Fresh>) =
            std::mem::take(&mut queue.fresh).into_iter().partition(|fresh| fresh.due <= now);
        if !due.is_sorted_by_key(order) {
            due.sort_by_key(order);
        }
        left.extend(due.split_off(want.min(due.len())));
        queue.fresh_due = left.iter().map(|fresh| fresh.due).min();
        queue.fresh = left;
        self.reseat(id, now);
        due.into_iter().map(|fresh| (fresh.due, fresh.message)).collect()
    }

    /// Queues with fresh messages; they become rows before anything is committed.
    pub(crate) fn take_fresh_queues(&mut self) -> Vec<QueueId> {
        std::mem::take(&mut self.fresh)
    }

    /// The queue whose turn it is, and whether it is alone.
    pub(crate) fn turn(&mut self, lane: &LaneName, now: Time) -> Option<(QueueId, Alone)> {
        if self.paused {
            return None;
        }
        self.advance(lane, now);
        let lane = self.lanes.get(lane)?;
        let mut ready = lane.ready.iter();
        let (.., id) = ready.next()?;
        let alone = if ready.next().is_none() { Alone::Yes } else { Alone::No };
        Some((*id, alone))
    }

    /// The queue took these, and pays for them.
    pub(crate) fn pay(&mut self, id: QueueId, taken: impl Iterator<Item = Priority>, now: Time) {
        let name = self.queue(id).name.clone();
        let campaign = self.course(&name).and_then(|it| Some(it.as_ref()?.weight));
        let weight = self.traffic.weight(&name.channel, campaign);
        let lane = self.lanes.entry(name.lane.clone()).or_default();
        let queue = self.queues.get_mut(&id).expect("queues are never removed");
        let weight = weight.saturating_mul(queue.weight);
        // A queue that is alone takes many turns at once, and the lane moves on with each.
        for (n, priority) in taken.enumerate() {
            if n % BITE == 0 {
                lane.turns += 1;
                queue.served = lane.turns;
                lane.pass = queue.pass.resumed(lane.pass);
                queue.pass = lane.pass;
            }
            queue.pass = queue.pass.after(priority, weight);
        }
        self.reseat(id, now);
    }

    /// When the lane next has something to claim.
    pub(crate) fn next_due(&mut self, lane: &LaneName, now: Time) -> Option<Time> {
        if self.paused {
            return None;
        }
        self.advance(lane, now);
        let lane = self.lanes.get(lane)?;
        if lane.ready.is_empty() { lane.waiting.first().map(|(time, _)| *time) } else { Some(now) }
    }

    fn advance(&mut self, lane: &LaneName, now: Time) {
        while let Some(id) = self
            .lanes
            .get(lane)
            .and_then(|lane| lane.waiting.first())
            .filter(|(time, _)| *time <= now)
            .map(|(_, id)| *id)
        {
            self.reseat(id, now);
        }
    }

    /// Puts the queue where it belongs, after anything about it changed.
    pub(crate) fn reseat(&mut self, id: QueueId, now: Time) {
        let queue = &self.queues[&id];
        let earliest = [queue.stored, queue.fresh_due, queue.retry].into_iter().flatten().min();
        let earliest = earliest.map(|earliest| earliest.max(queue.others_until));
        let front = earliest.map(|earliest| (earliest, self.front(&queue.name, now)));
        if queue.name.campaign.is_some() && queue.listed != earliest.is_some() {
            self.list(id, earliest.is_some());
        }
        let queue = &self.queues[&id];
        let lane = self.lanes.entry(queue.name.lane.clone()).or_default();
        let queue = self.queues.get_mut(&id).expect("queues are never removed");
        let seat = match front {
            None | Some((_, Front::Shut { until: None })) => Seat::Idle,
            Some((earliest, Front::Shut { until: Some(until) })) => Seat::Waiting(earliest.max(until)),
            Some((earliest, _)) if earliest > now => Seat::Waiting(earliest),
            #[cfg(feature = "planted")]
            Some(_) if planted::is(planted::Bug::TurnsIgnored) => Seat::Ready(Pass::default(), 0),
            Some(_) => Seat::Ready(queue.pass.resumed(lane.pass), queue.served),
        };
        if seat == queue.seat {
            return;
        }
        match queue.seat {
            Seat::Idle => {}
            Seat::Ready(pass, served) => drop(lane.ready.remove(&(pass, served, id))),
            Seat::Waiting(time) => drop(lane.waiting.remove(&(time, id))),
        }
        match seat {
            Seat::Idle => {}
            Seat::Ready(pass, served) => drop(lane.ready.insert((pass, served, id))),
            Seat::Waiting(time) => drop(lane.waiting.insert((time, id))),
        }
        queue.seat = seat;
    }

    /// Something waits in a campaign's queue, or nothing any more.
    fn list(&mut self, id: QueueId, waits: bool) {
        let queue = self.queues.get_mut(&id).expect("queues are never removed");
        queue.listed = waits;
        let QueueName { tenant, channel, campaign, .. } = &*queue.name;
        let Some(campaign) = campaign else { return };
        let of_course = self.by_course.entry((tenant.clone(), campaign.clone())).or_default();
        for listed in [of_course, self.by_line.entry(channel.clone()).or_default()] {
            if waits {
                listed.insert(id)
            } else {
                listed.remove(&id)
            };
        }
    }

    /// What stands in front of the queue at `now`: the strictest of its channel's block, its destination's, its campaign
    /// and its line.
    pub(crate) fn front(&self, name: &QueueName, now: Time) -> Front {
        let front = self.wall(name, now);
        self.course_gates(name, now).into_iter().flatten().fold(front, Front::behind)
    }

    /// What a queue's campaign and its line say.
    fn course_gates(&self, name: &QueueName, now: Time) -> [Option<Gate>; 2] {
        if name.campaign.is_none() {
            return [None, None];
        }
        let campaign = self.course(name);
        let line = self.rules(&name.channel).map(|rules| match self.lines.get(&name.channel) {
            Some(line) => line.gate(rules, now),
            None => Line::default().gate(rules, now),
        });
        let unreadable = Gate::Shut { until: None };
        [campaign.map(|it| it.as_ref().map_or(unreadable, |it| it.gate(now))), line]
    }

    /// A queue's campaign, as far as its document can be read.
    fn course(&self, name: &QueueName) -> Option<&Option<Campaign>> {
        let campaign = name.campaign.clone()?;
        self.courses.get(&(name.tenant.clone(), campaign))
    }

    /// What campaigns have to mind on a channel, if there is anything.
    pub(crate) fn rules(&self, channel: &ChannelName) -> Option<&LineRules> {
        self.traffic.rules(channel)
    }

    /// What a campaign's document says now; nothing if it cannot be read.
    pub(crate) fn set_course(
        &mut self,
        tenant: &Tenant,
        name: &CampaignName,
        campaign: Option<Campaign>,
        now: Time,
    ) {
        let place = (tenant.clone(), name.clone());
        self.courses.insert(place.clone(), campaign);
        self.reseat_course(&place, now);
    }

    fn reseat_course(&mut self, place: &(Tenant, CampaignName), now: Time) {
        let behind = self.by_course.get(place).cloned().unwrap_or_default();
        behind.into_iter().for_each(|id| self.reseat(id, now));
    }

    /// A document of a campaign or a line was put or removed.
    pub(crate) fn shelved(&mut self, shelf: Shelf, tenant: &Tenant, id: &str, doc: Option<&Doc>, now: Time) {
        match (shelf, doc) {
            (Shelf::Campaign, Some(doc)) => {
                let Ok(name) = id.parse() else { return };
                self.set_course(tenant, &name, roster::read(doc), now);
            }
            (Shelf::Campaign, None) => {
                let Ok(name) = id.parse() else { return };
                let place = (tenant.clone(), name);
                self.courses.remove(&place);
                self.reseat_course(&place, now);
            }
            (Shelf::Line, Some(doc)) => {
                let Ok(channel) = id.parse() else { return };
                self.set_line(&channel, line_of(doc), now);
            }
            _ => {}
        }
    }

    /// How a line stands now.
    pub(crate) fn set_line(&mut self, channel: &ChannelName, line: Line, now: Time) {
        self.lines.insert(channel.clone(), line);
        let behind = self.by_line.get(channel).cloned().unwrap_or_default();
        behind.into_iter().for_each(|id| self.reseat(id, now));
    }

    /// The stricter of the blocks of the queue's channel and of its destination.
    fn wall(&self, name: &QueueName, now: Time) -> Front {
        let mut front = Front::Open;
        if self.blocks.is_empty() && self.traffic.is_free() {
            return front;
        }
        for place in places(name) {
            let block = self.blocks.get(&place);
            let gate = match block.map_or(Gate::Open, |block| block.gate(now)) {
                Gate::Open | Gate::Flow(_) if self.traffic.room(&place, block, now) == 0 => {
                    Gate::Shut { until: Some(self.traffic.opens(&place, now)) }
                }
                gate => gate,
            };
            front = match (front, gate) {
                (shut @ Front::Shut { .. }, Gate::Probe) => shut,
                (_, Gate::Probe) if self.probing.contains(&place) => Front::Shut { until: None },
                (Front::Open, Gate::Probe) => {
                    let probe = block.map(|block| probe_of(None, block));
                    Front::Probe { places: vec![place], probe }
                }
                (Front::Probe { mut places, probe }, Gate::Probe) => {
                    let probe = block.map(|block| probe_of(probe, block));
                    places.push(place);
                    Front::Probe { places, probe }
                }
                (front, gate) => front.behind(gate),
            };
        }
        front
    }

    /// A campaign that has a document, or a line with rules, lets one message go at a time.
    fn is_paced(&self, name: &QueueName) -> bool {
        name.campaign.as_ref().is_some_and(|campaign| {
            self.rules(&name.channel).is_some()
                || self.courses.contains_key(&(name.tenant.clone(), campaign.clone()))
        })
    }

    /// How many messages of the queue may go at once.
    pub(crate) fn room(&self, name: &QueueName, now: Time) -> usize {
        let most = if self.is_paced(name) { 1 } else { usize::MAX };
        let room = |place: &Place| self.traffic.room(place, self.blocks.get(place), now);
        places(name).iter().map(room).fold(most, usize::min)
    }

    /// First attempts and retries of the queue set out.
    pub(crate) fn passed(&mut self, name: &QueueName, first: usize, retries: usize, now: Time) {
        let places = places(name);
        self.traffic.charged(&places[1], first, retries, now);
        if self.blocks.is_empty() && self.traffic.is_free() {
            return;
        }
        for place in &places {
            if self.traffic.passed(place, self.blocks.get(place), first + retries, now) {
                self.reseat_behind(place, now);
            }
        }
    }

    /// Leaves a queue alone until then: others are at work on what is in front of it.
    pub(crate) fn leave_alone(&mut self, id: QueueId, until: Time, now: Time) {
        self.queue(id).others_until = until;
        self.reseat(id, now);
    }

    /// Puts every queue where it belongs.
    pub(crate) fn reseat_all(&mut self, now: Time) {
        let all: Vec<QueueId> = self.queues.keys().copied().collect();
        all.into_iter().for_each(|id| self.reseat(id, now));
    }

    /// Makes every hold and breaker ready for its probe: whoever started the process anew may well have mended what was wrong.
    pub(crate) fn probe_all(&mut self) {
        for block in self.blocks.values_mut().filter(|block| block.kind.is_probed()) {
            block.until = block.until.map(|_| Time::default());
        }
    }

    /// Whether some pause or ramp may be over.
    pub(crate) fn has_ended(&self, now: Time) -> bool {
        self.next_end.is_some_and(|end| end <= now)
    }

    /// Pauses and ramps that are over, and what follows each.
    pub(crate) fn ended(&mut self, now: Time) -> Vec<(Place, Option<Block>)> {
        if !self.has_ended(now) {
            return Vec::new();
        }
        let passing = self.blocks.iter().filter(|(_, block)| block.kind.passes());
        let (over, left): (Vec<_>, Vec<_>) = passing.partition(|(_, block)| block.gate(now) == Gate::Open);
        self.next_end = left.iter().filter_map(|(_, block)| block.until).min();
        over.into_iter().map(|(place, block)| (place.clone(), block.ended(now))).collect()
    }

    /// Puts a block at a place, in the stead of any that was there.
    pub(crate) fn put_block(&mut self, place: &Place, block: Block, now: Time) {
        if block.kind.passes() {
            self.next_end = [self.next_end, block.until].into_iter().flatten().min();
        }
        self.blocks.insert(place.clone(), block);
        self.reseat_behind(place, now);
    }

    /// What stands where, and which of it is being probed, in the stead of all that was known.
    pub(crate) fn replace_blocks(&mut self, blocks: Vec<(Place, Block, bool)>, now: Time) {
        self.probing =
            blocks.iter().filter(|(.., probed)| *probed).map(|(place, ..)| place.clone()).collect();
        self.blocks = blocks.into_iter().map(|(place, block, _)| (place, block)).collect();
        let passing = self.blocks.values().filter(|block| block.kind.passes());
        self.next_end = passing.filter_map(|block| block.until).min();
        self.reseat_all(now);
    }

    /// What stands in `ready`, in the stead of what was known: the earliest of each queue and rank.
    pub(crate) fn replace_rows(&mut self, heads: &[(QueueId, i64, Time)], now: Time) {
        let mut touched: BTreeSet<QueueId> = BTreeSet::new();
        for (id, queue) in self.queues.iter_mut().filter(|(_, queue)| queue.ranks != 0) {
            (queue.stored, queue.retry, queue.ranks) = (None, None, 0);
            touched.insert(*id);
        }
        for (id, rank, due) in heads {
            let Some(queue) = self.queues.get_mut(id) else { continue };
            queue.see(*rank, *due);
            touched.insert(*id);
        }
        touched.into_iter().for_each(|id| self.reseat(id, now));
    }

    pub(crate) fn knows(&self, id: QueueId) -> bool {
        self.queues.contains_key(&id)
    }

    /// A probe of these holds sets out: nothing else passes them until it is back.
    pub(crate) fn probe_started(&mut self, places: &[Place], now: Time) {
        #[cfg(feature = "planted")]
        if planted::is(planted::Bug::HalfOpenForAll) {
            return;
        }
        for place in places {
            self.probing.insert(place.clone());
            self.reseat_behind(place, now);
        }
    }

    pub(crate) fn probe_ended(&mut self, places: &[Place], now: Time) {
        for place in places {
            self.probing.remove(place);
            self.reseat_behind(place, now);
        }
    }

    /// Puts queues behind a place where they belong, after its block changed.
    pub(crate) fn reseat_behind(&mut self, place: &Place, now: Time) {
        let behind = self.by_place.get(place).cloned().unwrap_or_default();
        for id in behind {
            self.reseat(id, now);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alone {
    Yes,
    No,
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_millis(1_800_000_000_000);

    fn queue_of(campaign: Option<&str>, destination: &str) -> QueueName {
        QueueName {
            tenant: Tenant::default(),
            lane: LaneName::default(),
            channel: "mail".parse().unwrap(),
            destination: destination.into(),
            campaign: campaign.map(|name| name.parse().unwrap()),
        }
    }

    #[test]
    fn a_campaign_and_its_line_concern_only_the_queues_in_which_something_waits() {
        let mut board = Board::default();
        for (id, campaign) in [(1, Some("cmp_a")), (2, Some("cmp_a")), (3, Some("cmp_b")), (4, None)] {
            board.add(id, queue_of(campaign, &format!("{id}.example")), 1);
        }
        let concerned = |board: &Board| -> [Vec<QueueId>; 3] {
            let of = |name: &str| board.by_course.get(&(Tenant::default(), name.parse().unwrap())).cloned();
            let line = board.by_line.get("mail").cloned().unwrap_or_default();
            [of("cmp_a").unwrap_or_default(), of("cmp_b").unwrap_or_default(), line].map(Vec::from_iter)
        };
        assert_eq!(concerned(&board), [const { Vec::<QueueId>::new() }; 3]);
        [2, 3, 4].into_iter().for_each(|id| board.note_row(id, 4, NOW, NOW));
        assert_eq!(concerned(&board), [vec![2], vec![3], vec![2, 3]]);
        // A gate that shuts does not hide it.
        board.set_course(&Tenant::default(), &"cmp_a".parse().unwrap(), None, NOW);
        assert_eq!(board.next_due(&LaneName::default(), NOW), Some(NOW), "the others go");
        board.replace_rows(&[(3, 4, NOW)], NOW);
        assert_eq!(concerned(&board), [vec![], vec![3], vec![3]]);
    }
}
