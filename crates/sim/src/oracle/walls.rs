//! What stands in front of destinations, and what may pass it: blocks as they are committed, probes one at a time, and
//! the pace of ramps and of bounded channels.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pombo_kernel::block::{Block, BlockKind};
use pombo_kernel::classify::Scope;
use pombo_kernel::id::MessageId;
use pombo_kernel::message::QueueName;
use pombo_kernel::time::{Span, Time};
use pombo_store::Place;

use super::{Checked, hold};
use crate::plan::Plan;
use crate::provider::Said;

/// As long as a destination is known to be down, an attempt that finds it so is free.
const FREE_FOR: Span = Span::from_hours(24);
/// Failures of so many different messages at least, before a destination counts as down.
const WITNESSES: usize = 3;
/// A meter forgets what was before a silence of a minute; a little less, to be on the safe side.
const SILENCE: Span = Span::from_secs(50);
/// A ramp is never slower than this, in messages per thousand seconds.
const SLOWEST: u64 = 5_000;

/// What a claim was let through to find out, as far as the blocks in front of it tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probing {
    pub(super) kind: BlockKind,
    since: Time,
}

impl Probing {
    /// Whether an attempt that ends at `now` and finds the destination still down costs nothing.
    pub(super) fn is_free(self, now: Time) -> bool {
        self.kind == BlockKind::Breaker && now.since(self.since) < FREE_FOR
    }
}

/// Who says that a destination is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Witness {
    Message(MessageId),
    Asking(u64),
}

/// What was lately heard of one destination.
#[derive(Debug, Default)]
struct Pulse {
    /// Whose attempts failed since one did not.
    row: Vec<MessageId>,
    last: Time,
    /// Everybody who found it down since it was last let go.
    ill: BTreeSet<Witness>,
    latest: Option<Witness>,
}

#[derive(Debug, Default)]
pub(super) struct Walls {
    blocks: BTreeMap<Place, Block>,
    /// Blocks whose next probe need not be waited for: the process was started anew.
    excused: BTreeSet<Place>,
    probing: BTreeMap<Place, MessageId>,
    pulses: BTreeMap<Place, Pulse>,
    /// What passed a bounded place, each with the rate of that moment.
    passed: BTreeMap<Place, Vec<(Time, u64)>>,
    /// Places about which something was said that leaves no record, in the group that is written next.
    touched: BTreeSet<Place>,
    askings: u64,
}

/// The channel of a queue, and its destination there.
pub(super) fn places(queue: &QueueName) -> [Place; 2] {
    let at = |destination: Option<Arc<str>>| Place { channel: queue.channel.clone(), destination };
    [at(None), at(Some(queue.destination.clone()))]
}

/// What is heard of the destination: whether it is down; nothing if that cannot be told.
fn finds_down(said: Said) -> Option<bool> {
    match said {
        Said::Accepted | Said::Never | Said::OurFault => Some(false),
        Said::Later { down, .. } => Some(down),
        Said::Nothing => Some(true),
        Said::CutOff | Said::SenderGone => None,
    }
}

impl Pulse {
    fn add(&mut self, witness: Witness) {
        self.ill.insert(witness);
        self.latest = Some(witness);
    }
}

impl Walls {
    /// Takes over the blocks as they are committed.
    pub(super) fn stand(&mut self, blocks: Vec<(Place, Block)>) {
        let blocks: BTreeMap<Place, Block> = blocks.into_iter().collect();
        let known = &self.blocks;
        self.excused.retain(|place| known.get(place) == blocks.get(place));
        for (place, block) in &blocks {
            let before = known.get(place).filter(|before| before.kind == BlockKind::Ramp);
            if block.kind == BlockKind::Ramp && before.map(|before| before.since) != Some(block.since) {
                self.passed.remove(place);
            }
        }
        self.blocks = blocks;
    }

    pub(super) fn operators(&self) -> BTreeSet<Place> {
        let operated = self.blocks.iter().filter(|(_, block)| block.kind == BlockKind::Operator);
        operated.map(|(place, _)| place.clone()).collect()
    }

    /// The process was started anew: every hold and breaker may be probed at once.
    pub(super) fn restarted(&mut self) {
        let probed = self.blocks.iter().filter(|(_, block)| block.kind.is_probed());
        self.excused = probed.map(|(place, _)| place.clone()).collect();
    }

    /// The store read everything anew: what it keeps only in memory is gone.
    pub(super) fn forget(&mut self) {
        self.probing.clear();
        self.clock_jumped();
    }

    /// What was counted by the clock means nothing any more.
    pub(super) fn clock_jumped(&mut self) {
        self.passed.clear();
        self.pulses.values_mut().for_each(|pulse| pulse.row.clear());
    }

    /// Somebody tells the store of this place in the group that comes next. Whether it finds the place down.
    pub(super) fn touch(&mut self, place: &Place, down: bool) {
        self.askings += 1;
        for place in [Place { destination: None, ..place.clone() }, place.clone()] {
            if down {
                self.pulses.entry(place.clone()).or_default().add(Witness::Asking(self.askings));
            }
            self.touched.insert(place);
        }
    }

    /// A block is recorded to stand. An engine that says a destination is down has heard so from several.
    pub(super) fn blocked(&self, place: &Place, by_engine: bool, kind: &str) -> Checked {
        let witnesses = self.pulses.get(place).map_or(0, |pulse| pulse.ill.len());
        let proven = !by_engine || kind != "breaker" || witnesses >= WITNESSES;
        hold!(0, proven, "{place:?} counts as down, and only {witnesses} found it so");
        Ok(())
    }

    /// Nothing stands there any more: it starts with a clean sheet, but for what the attempt itself says that ended it.
    pub(super) fn unblocked(&mut self, place: &Place) {
        self.passed.remove(place);
        if let Some(pulse) = self.pulses.get_mut(place) {
            let ill = pulse.latest.into_iter().collect();
            *pulse = Pulse { ill, last: pulse.last, ..Pulse::default() };
        }
    }

    /// A claim has ended, and with it what it was to find out.
    pub(super) fn ended(&mut self, id: MessageId) {
        self.probing.retain(|_, probe| *probe != id);
    }

    /// A result is recorded.
    pub(super) fn heard(&mut self, plan: &Plan, queue: &QueueName, id: MessageId, said: Said, at: Time) {
        let [channel, destination] = places(queue);
        let scope = plan.channel(&queue.channel).map(|channel| channel.destination.health_scope());
        let place = if scope == Some(Scope::Channel) { channel } else { destination };
        let pulse = self.pulses.entry(place).or_default();
        if at.since(pulse.last) >= SILENCE {
            pulse.row.clear();
        }
        pulse.last = at;
        match finds_down(said) {
            Some(true) => {
                pulse.row.push(id);
                pulse.add(Witness::Message(id));
            }
            Some(false) => pulse.row.clear(),
            None => {}
        }
    }

    /// Forgets what cannot be known of places that were spoken of without a record.
    pub(super) fn settle_down(&mut self) {
        for place in std::mem::take(&mut self.touched) {
            self.passed.remove(&place);
            if let Some(pulse) = self.pulses.get_mut(&place) {
                pulse.row.clear();
            }
        }
    }

    /// A destination that failed so often in a row, and not only one message, must be blocked by now.
    pub(super) fn check_pulses(&self, plan: &Plan) -> Checked {
        for (place, pulse) in &self.pulses {
            let Some(channel) = plan.channel(&place.channel) else { continue };
            // Where failures must go on for a while, how long they did is the meter's own business.
            if channel.care.breaker.lasting > Span::ZERO {
                continue;
            }
            let limit = usize::from(channel.care.breaker.failures);
            let witnesses: BTreeSet<&MessageId> = pulse.row.iter().collect();
            let down = limit > 0 && pulse.row.len() >= limit && witnesses.len() >= WITNESSES;
            let stands = self.blocks.get(place).map(|block| block.kind);
            let spared = matches!(stands, Some(BlockKind::Breaker | BlockKind::Hold | BlockKind::Operator));
            let failures = pulse.row.len();
            hold!(0, !down || spared, "{failures} in a row failed at {place:?}, and there stands {stands:?}");
        }
        Ok(())
    }

    /// Checks that a message might pass, under the blocks that were committed with its claim; what it is to find out.
    pub(super) fn check_claim(
        &mut self,
        plan: &Plan,
        (name, id): (&str, MessageId),
        queue: &QueueName,
        at: Time,
    ) -> Checked<Option<Probing>> {
        let mut probing: Option<Probing> = None;
        for place in places(queue) {
            let rate = place.destination.is_none().then(|| plan.channel(&place.channel)?.care.rate).flatten();
            let mut slowest = rate.map(|rate| rate.milli());
            if let Some(block) = self.blocks.get(&place) {
                let waits = block.until.is_none_or(|until| at < until);
                match block.kind {
                    BlockKind::Operator => hold!(8, false, "{name} was claimed behind an operator's block"),
                    BlockKind::Pause => hold!(8, !waits, "{name} was claimed during a pause"),
                    BlockKind::Hold | BlockKind::Breaker => {
                        let early = waits && !self.excused.contains(&place);
                        hold!(8, !early, "{name} was claimed behind {block:?}");
                        let other = self.probing.insert(place.clone(), id);
                        hold!(8, other.is_none(), "{name} was claimed while another probed {block:?}");
                        let graver = probing.is_some_and(|other| other.kind == BlockKind::Hold);
                        probing = Some(Probing {
                            kind: if graver { BlockKind::Hold } else { block.kind },
                            since: probing.map_or(block.since, |other| other.since.min(block.since)),
                        });
                        // One at a time is slow enough.
                        slowest = None;
                    }
                    BlockKind::Ramp if waits => {
                        let ramp = ramp_rate(block, at);
                        slowest = Some(slowest.map_or(ramp, |rate| rate.min(ramp)));
                    }
                    BlockKind::Ramp => {}
                }
            }
            if let Some(rate) = slowest {
                check_pace(self.passed.entry(place).or_default(), name, rate, at)?;
            }
        }
        Ok(probing)
    }
}

/// In no stretch of time does more pass than the rate allows, and a little at once.
fn check_pace(passed: &mut Vec<(Time, u64)>, name: &str, rate: u64, at: Time) -> Checked {
    passed.push((at, rate));
    let (mut count, mut fastest) = (0, 0);
    for (since, rate) in passed.iter().rev() {
        count += 1;
        fastest = fastest.max(*rate);
        let span = at.since(*since).millis();
        let most = fastest * (span + 50) / 1_000_000 + 2;
        hold!(0, count <= most, "{name} is one of {count} within {span} ms, where {most} may pass");
    }
    Ok(())
}

/// How fast a ramp lets messages go: in steps of ten seconds from an eighth to the whole of 1.8 times what was usual.
fn ramp_rate(block: &Block, at: Time) -> u64 {
    let usual = block.steady.map_or(SLOWEST, |rate| rate.milli());
    let top = (usual * 18 / 10).max(SLOWEST);
    let part = match at.since(block.since).millis() / 10_000 {
        0 => top / 8,
        1 => top / 4,
        2 => top / 2,
        _ => top,
    };
    part.max(SLOWEST)
}
