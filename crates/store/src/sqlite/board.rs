//! Which queue goes next: the part of the store that is kept in memory.
//!
//! It holds queues, not messages: of a million waiting messages only each queue's earliest time is known here.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use pombo_kernel::block::{Block, BlockKind, Gate};
use pombo_kernel::id::MessageKey;
use pombo_kernel::message::{Message, Priority, QueueName};
use pombo_kernel::name::LaneName;
use pombo_kernel::time::Time;
use pombo_kernel::turns::{BITE, Pass};

use crate::Place;

/// The row id of a queue, which is also its age among queues.
pub(super) type QueueId = i64;

/// 9 less the priority, so that rows sort as they go.
pub(super) fn rank(priority: Priority) -> i64 {
    i64::from(9 - priority.get())
}

/// A message accepted in the group that is being written: not in the `ready` table yet, and if a worker takes it
/// before the commit, never.
#[derive(Debug)]
pub(super) struct Fresh {
    pub(super) rank: i64,
    pub(super) due: Time,
    pub(super) key: MessageKey,
    pub(super) message: Arc<Message>,
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) name: Arc<QueueName>,
    pub(super) weight: u32,
    pub(super) fresh: Vec<Fresh>,
    /// The earliest due time among `fresh`.
    pub(super) fresh_due: Option<Time>,
    /// No row of this queue in `ready` is due earlier; none if it has no rows.
    pub(super) stored: Option<Time>,
    /// Ranks that may have rows, one bit each.
    pub(super) ranks: u16,
    pass: Pass,
    seat: Seat,
}

/// Where a queue stands in its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    Idle,
    Ready(Pass),
    Waiting(Time),
}

#[derive(Debug, Default)]
struct Lane {
    pass: Pass,
    ready: BTreeSet<(Pass, QueueId)>,
    waiting: BTreeSet<(Time, QueueId)>,
}

#[derive(Debug, Default)]
pub(super) struct Board {
    queues: BTreeMap<QueueId, Queue>,
    by_name: HashMap<Arc<QueueName>, QueueId>,
    /// The queues behind each place where a block can stand.
    by_place: HashMap<Place, Vec<QueueId>>,
    lanes: HashMap<LaneName, Lane>,
    pub(super) blocks: BTreeMap<Place, Block>,
    /// Holds through which a probe is on its way.
    probing: HashSet<Place>,
    /// Queues with messages of the group that is being written.
    fresh: Vec<QueueId>,
}

/// What stands in front of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Front {
    Open,
    /// One message may pass, as a probe of these holds.
    Probe {
        places: Vec<Place>,
        probes: u16,
    },
    Shut {
        until: Option<Time>,
    },
}

impl Board {
    pub(super) fn find(&self, name: &QueueName) -> Option<QueueId> {
        self.by_name.get(name).copied()
    }

    pub(super) fn add(&mut self, id: QueueId, name: QueueName, weight: u32) -> Arc<QueueName> {
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
            ranks: 0,
            pass: Pass::default(),
            seat: Seat::Idle,
        };
        self.queues.insert(id, queue);
        name
    }

    pub(super) fn queue(&mut self, id: QueueId) -> &mut Queue {
        self.queues.get_mut(&id).expect("queues are never removed")
    }

    /// Adds a message of the group that is being written.
    pub(super) fn push_fresh(&mut self, id: QueueId, fresh: Fresh, now: Time) {
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
    pub(super) fn note_row(&mut self, id: QueueId, rank: i64, due: Time, now: Time) {
        let queue = self.queue(id);
        queue.stored = Some(queue.stored.map_or(due, |stored| stored.min(due)));
        queue.ranks |= 1 << rank;
        self.reseat(id, now);
    }

    /// Queues with fresh messages; they become rows before anything is committed.
    pub(super) fn take_fresh_queues(&mut self) -> Vec<QueueId> {
        std::mem::take(&mut self.fresh)
    }

    /// The queue whose turn it is, and whether it is alone.
    pub(super) fn turn(&mut self, lane: &LaneName, now: Time) -> Option<(QueueId, Alone)> {
        self.advance(lane, now);
        let lane = self.lanes.get(lane)?;
        let mut ready = lane.ready.iter();
        let (_, id) = ready.next()?;
        let alone = if ready.next().is_none() { Alone::Yes } else { Alone::No };
        Some((*id, alone))
    }

    /// The queue took these, and pays for them.
    pub(super) fn pay(&mut self, id: QueueId, taken: impl Iterator<Item = Priority>, now: Time) {
        let lane = self.queue(id).name.lane.clone();
        let lane = self.lanes.entry(lane).or_default();
        let queue = self.queues.get_mut(&id).expect("queues are never removed");
        // A queue that is alone takes many turns at once, and the lane moves on with each.
        for (n, priority) in taken.enumerate() {
            if n % BITE == 0 {
                lane.pass = queue.pass.resumed(lane.pass);
                queue.pass = lane.pass;
            }
            queue.pass = queue.pass.after(priority, queue.weight);
        }
        self.reseat(id, now);
    }

    /// When the lane next has something to claim.
    pub(super) fn next_due(&mut self, lane: &LaneName, now: Time) -> Option<Time> {
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
    pub(super) fn reseat(&mut self, id: QueueId, now: Time) {
        let queue = &self.queues[&id];
        let earliest = match (queue.stored, queue.fresh_due) {
            (Some(stored), Some(fresh)) => Some(stored.min(fresh)),
            (stored, fresh) => stored.or(fresh),
        };
        let front = earliest.map(|earliest| (earliest, self.front(&queue.name, now)));
        let lane = self.lanes.entry(queue.name.lane.clone()).or_default();
        let queue = self.queues.get_mut(&id).expect("queues are never removed");
        let seat = match front {
            None | Some((_, Front::Shut { until: None })) => Seat::Idle,
            Some((earliest, Front::Shut { until: Some(until) })) => Seat::Waiting(earliest.max(until)),
            Some((earliest, _)) if earliest > now => Seat::Waiting(earliest),
            Some(_) => Seat::Ready(queue.pass.resumed(lane.pass)),
        };
        if seat == queue.seat {
            return;
        }
        match queue.seat {
            Seat::Idle => {}
            Seat::Ready(pass) => drop(lane.ready.remove(&(pass, id))),
            Seat::Waiting(time) => drop(lane.waiting.remove(&(time, id))),
        }
        match seat {
            Seat::Idle => {}
            Seat::Ready(pass) => drop(lane.ready.insert((pass, id))),
            Seat::Waiting(time) => drop(lane.waiting.insert((time, id))),
        }
        queue.seat = seat;
    }

    /// What stands in front of the queue at `now`: the stricter of its channel's block and its destination's.
    pub(super) fn front(&self, name: &QueueName, now: Time) -> Front {
        let mut front = Front::Open;
        if self.blocks.is_empty() {
            return front;
        }
        for place in places(name) {
            let Some(block) = self.blocks.get(&place) else { continue };
            front = match (front, block.gate(now)) {
                (front, Gate::Open) => front,
                (Front::Shut { until: None }, _) | (_, Gate::Shut { until: None }) => {
                    Front::Shut { until: None }
                }
                (Front::Shut { until: Some(one) }, Gate::Shut { until: Some(two) }) => {
                    Front::Shut { until: Some(one.max(two)) }
                }
                (shut @ Front::Shut { .. }, Gate::Probe) => shut,
                (_, Gate::Shut { until }) => Front::Shut { until },
                (_, Gate::Probe) if self.probing.contains(&place) => Front::Shut { until: None },
                (Front::Open, Gate::Probe) => Front::Probe { places: vec![place], probes: block.probes },
                (Front::Probe { mut places, probes }, Gate::Probe) => {
                    places.push(place);
                    Front::Probe { places, probes: probes.max(block.probes) }
                }
            };
        }
        front
    }

    /// Makes every hold ready for its probe: whoever started the process anew may well have mended what was wrong.
    pub(super) fn probe_all(&mut self) {
        for block in self.blocks.values_mut().filter(|block| block.kind == BlockKind::Hold) {
            block.until = block.until.map(|_| Time::default());
        }
    }

    /// Pauses that are over.
    pub(super) fn ended_pauses(&self, now: Time) -> Vec<Place> {
        let over = |block: &Block| block.kind == BlockKind::Pause && block.gate(now) == Gate::Open;
        self.blocks.iter().filter(|(_, block)| over(block)).map(|(place, _)| place.clone()).collect()
    }

    /// A probe of these holds sets out: nothing else passes them until it is back.
    pub(super) fn probe_started(&mut self, places: &[Place], now: Time) {
        for place in places {
            self.probing.insert(place.clone());
            self.reseat_behind(place, now);
        }
    }

    pub(super) fn probe_ended(&mut self, places: &[Place], now: Time) {
        for place in places {
            self.probing.remove(place);
            self.reseat_behind(place, now);
        }
    }

    /// Puts queues behind a place where they belong, after its block changed.
    pub(super) fn reseat_behind(&mut self, place: &Place, now: Time) {
        let behind = self.by_place.get(place).cloned().unwrap_or_default();
        for id in behind {
            self.reseat(id, now);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alone {
    Yes,
    No,
}

/// The two places where a block stops this queue.
pub(super) fn places(name: &QueueName) -> [Place; 2] {
    [
        Place { channel: name.channel.clone(), destination: None },
        Place { channel: name.channel.clone(), destination: Some(name.destination.clone()) },
    ]
}
