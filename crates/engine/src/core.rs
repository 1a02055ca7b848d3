//! What to do next: `step(event, now, dice) -> effects`.
//!
//! A slot of a lane is taken from the moment a claim asks for it until the message's result is durable, so there
//! are never more sends under way than slots, and never more messages in doubt after a crash.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pombo_kernel::adapt::Memory;
use pombo_kernel::dice::Dice;
use pombo_kernel::id::ByKey;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::message::ClaimKey;
use pombo_kernel::name::LaneName;
#[cfg(feature = "planted")]
use pombo_kernel::planted;
use pombo_kernel::reply::{Fault, FaultKind, Reply};
use pombo_kernel::setup::Setup;
use pombo_kernel::suppression::Reason;
use pombo_kernel::time::{Span, Time};
use pombo_kernel::turns::Weight;
use pombo_store::{Ask, Claimed, NodeId, Rates, Settlement};

use crate::decide::{self, End};
pub use crate::lease::{HEARTBEAT, LEASE, Lease, SILENCE, Term};

/// Messages of a lost node taken over at once.
const TAKE_OVER: usize = 256;

/// What happened.
#[derive(Debug)]
pub enum Event {
    Started,
    /// A heartbeat is durable; the core asked for it at that time.
    Alive {
        since: Time,
    },
    Claimed {
        lane: LaneName,
        asked: usize,
        claimed: Vec<Claimed>,
    },
    /// The store could not answer a claim.
    ClaimFailed {
        lane: LaneName,
        asked: usize,
    },
    TakenOver(Vec<Claimed>),
    /// An attempt ended.
    Replied {
        key: ClaimKey,
        reply: Reply,
    },
    /// Nothing was sent, since the store could not be asked for what belongs to the message.
    Unsent {
        key: ClaimKey,
    },
    /// Nothing was sent, since whoever it is for is on the suppression list, for that reason.
    Unwanted {
        key: ClaimKey,
        reason: Reason,
    },
    /// Results are durable, or were no longer wanted; and this takes their places, asked for in that term.
    TurnedOver {
        keys: Vec<ClaimKey>,
        claimed: Vec<Claimed>,
        term: Term,
    },
    /// Messages were given back, or left out.
    Released(Vec<ClaimKey>),
    /// Time has passed.
    Tick,
    Reload(Arc<Setup>),
    /// What retries have taught by now.
    Learned(Arc<Memory>),
    /// Take no more work, and finish what is under way.
    Stop,
    /// No more time to finish.
    GraceOver,
}

/// What to do.
#[derive(Debug)]
pub enum Effect {
    Heartbeat {
        until: Time,
    },
    TakeOver {
        max: usize,
    },
    Claim(Ask),
    /// Ask again a little later.
    ClaimLater(Ask),
    /// To be asked for once more, by [`may_send`], just before it happens.
    Send {
        claimed: Arc<Claimed>,
        term: Term,
        kind: ChannelKind,
        timeout: Span,
    },
    /// To be done together with what [`Core::refill`] says.
    Settle(Vec<Ended>),
    Release(Vec<ClaimKey>),
    /// Ends a message unsent: its recipient is on the suppression list, for that reason.
    LeaveOut {
        key: ClaimKey,
        reason: Reason,
    },
    StopClaims,
    /// Nothing is under way any more.
    Stopped,
}

/// What may take the places of messages that ended, in the commit that records it.
#[derive(Clone, Debug)]
pub struct Refill {
    pub asks: Vec<Ask>,
    /// In which it was asked for.
    pub term: Term,
}

/// An attempt that ended, with what is to be recorded about it.
#[derive(Debug)]
pub struct Ended {
    pub settlement: Settlement,
    pub about: About,
}

/// What was tried.
#[derive(Debug)]
pub struct About {
    pub claimed: Arc<Claimed>,
    /// How many retries there may be; of no concern where nothing failed.
    pub max_retries: u16,
}

#[derive(Debug, Default)]
struct Lane {
    workers: usize,
    /// Asked for, being sent, or not durably settled.
    taken: usize,
    /// A claim is under way; another would only make two small ones of a large one.
    asking: Option<Asking>,
}

#[derive(Clone, Copy, Debug)]
struct Asking {
    term: Term,
    /// How many of the slots that are taken wait for it.
    slots: usize,
}

/// How much of a lane is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// With a message that is being sent, or whose result is not durable yet.
    pub busy: usize,
    pub total: usize,
}

#[derive(Debug)]
struct Sending {
    claimed: Arc<Claimed>,
    started_at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waiting for the first sign of life to be durable.
    Starting,
    Running,
    Stopping,
    Stopped,
}

#[derive(Debug)]
pub struct Core {
    node: NodeId,
    setup: Arc<Setup>,
    rates: Arc<Rates>,
    /// What adaptive policies go by.
    memory: Arc<Memory>,
    /// The lanes to work; all if empty.
    only: Vec<LaneName>,
    lanes: BTreeMap<LaneName, Lane>,
    sending: HashMap<ClaimKey, Sending, ByKey>,
    /// Messages whose result is not durable yet, with the lane whose slot they hold; none for a taken-over one.
    settling: HashMap<ClaimKey, Option<LaneName>, ByKey>,
    lease: Lease,
    phase: Phase,
}

impl Core {
    /// An engine that works those lanes of the setup, or all of them if none is named.
    pub fn new(node: NodeId, setup: Arc<Setup>, lanes: &[LaneName]) -> Core {
        let mut core = Core {
            node,
            rates: rates(&setup),
            setup,
            memory: Arc::default(),
            only: lanes.to_vec(),
            lanes: BTreeMap::new(),
            sending: HashMap::default(),
            settling: HashMap::default(),
            lease: Lease::default(),
            phase: Phase::Starting,
        };
        core.fit_lanes();
        core
    }

    /// Gives each lane the slots that the setup says. A lane that is gone keeps what is under way and gets no more.
    fn fit_lanes(&mut self) {
        for lane in self.lanes.values_mut() {
            lane.workers = 0;
            #[cfg(feature = "planted")]
            if planted::is(planted::Bug::SlotsForgotten) {
                (lane.taken, lane.asking) = (0, None);
            }
        }
        for (name, setup) in &self.setup.lanes {
            if self.only.is_empty() || self.only.contains(name) {
                let lane = self.lanes.entry(name.clone()).or_default();
                lane.workers = usize::from(setup.workers);
            }
        }
    }

    /// Sends under way, and results not durable yet.
    pub fn in_flight(&self) -> usize {
        self.sending.len() + self.settling.len()
    }

    /// How much of each lane is used.
    pub fn slots(&self) -> impl Iterator<Item = (&LaneName, Slots)> {
        self.lanes.iter().map(|(name, lane)| {
            let asked = lane.asking.map_or(0, |asking| asking.slots);
            (name, Slots { busy: lane.taken.saturating_sub(asked), total: lane.workers })
        })
    }

    pub fn step(&mut self, event: Event, now: Time, dice: &mut Dice) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Started | Event::Tick => {
                effects.push(Effect::Heartbeat { until: now + LEASE });
            }
            Event::Alive { since } => {
                self.lease.renew(since, now);
                if matches!(self.phase, Phase::Starting | Phase::Running) {
                    effects.push(Effect::TakeOver { max: TAKE_OVER });
                }
                if self.phase == Phase::Starting {
                    self.phase = Phase::Running;
                }
                effects.extend(self.ask_all(now));
            }
            Event::TakenOver(lost) => {
                if lost.len() == TAKE_OVER {
                    effects.push(Effect::TakeOver { max: TAKE_OVER });
                }
                effects.extend(self.settle_lost(lost, now, dice));
            }
            Event::Claimed { lane, asked, claimed } => {
                let term = self.asked(&lane);
                self.free(&lane, asked - claimed.len().min(asked));
                effects.extend(self.send_all(claimed, term, now, dice));
                effects.extend(self.ask(&lane, now));
            }
            Event::ClaimFailed { lane, asked } => {
                self.asked(&lane);
                self.free(&lane, asked);
                effects.extend(self.ask(&lane, now).map(|effect| match effect {
                    Effect::Claim(ask) => Effect::ClaimLater(ask),
                    other => other,
                }));
            }
            Event::Replied { key, reply } => effects.extend(self.replied(key, reply, now, dice)),
            Event::Unsent { key } => {
                if self.sent_nothing(key) {
                    effects.push(Effect::Release(vec![key]));
                }
            }
            Event::Unwanted { key, reason } => {
                if self.sent_nothing(key) {
                    effects.push(Effect::LeaveOut { key, reason });
                }
            }
            Event::TurnedOver { keys, claimed, term } => {
                // First, so that nobody asks for their slots once more.
                for claimed in &claimed {
                    if let Some(lane) = self.lanes.get_mut(&claimed.message.queue.lane) {
                        lane.taken += 1;
                    }
                }
                effects.extend(self.send_all(claimed, Some(term), now, dice));
                effects.extend(self.freed(&keys, now));
            }
            Event::Released(keys) => effects.extend(self.freed(&keys, now)),
            Event::Reload(setup) => {
                self.rates = rates(&setup);
                self.setup = setup;
                self.fit_lanes();
                effects.extend(self.ask_all(now));
            }
            Event::Learned(memory) => self.memory = memory,
            Event::Stop => {
                if self.phase != Phase::Stopped {
                    self.phase = Phase::Stopping;
                    effects.push(Effect::StopClaims);
                }
            }
            Event::GraceOver => {
                self.lease.end();
                let mut late: Vec<ClaimKey> = self.sending.keys().copied().collect();
                late.sort_unstable();
                let text = "it was still being sent when the process had to stop";
                let fault = Fault { kind: FaultKind::Interrupted, text: text.into() };
                for key in late {
                    effects.extend(self.replied(key, Reply::Doubtful(fault.clone()), now, dice));
                }
            }
        }
        if self.phase == Phase::Stopping
            && self.lanes.values().all(|lane| lane.taken == 0)
            && self.in_flight() == 0
        {
            self.phase = Phase::Stopped;
            effects.push(Effect::Stopped);
        }
        effects
    }

    /// What was being sent has not left; false if it is not being sent any more.
    fn sent_nothing(&mut self, key: ClaimKey) -> bool {
        let Some(Sending { claimed, .. }) = self.sending.remove(&key) else { return false };
        self.settling.insert(key, Some(claimed.message.queue.lane.clone()));
        true
    }

    /// Frees the slots of messages whose end is durable, and asks for others in their places.
    fn freed(&mut self, keys: &[ClaimKey], now: Time) -> Vec<Effect> {
        let mut lanes: Vec<LaneName> = Vec::new();
        for key in keys {
            let Some(lane) = self.settling.remove(key).flatten() else { continue };
            self.free(&lane, 1);
            if !lanes.contains(&lane) {
                lanes.push(lane);
            }
        }
        lanes.iter().filter_map(|lane| self.ask(lane, now)).collect()
    }

    fn free(&mut self, lane: &LaneName, slots: usize) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.taken = lane.taken.saturating_sub(slots);
        }
    }

    /// The lane's claim is answered: the term that it was asked in, so what it got is ours if that still lasts.
    fn asked(&mut self, lane: &LaneName) -> Option<Term> {
        let asked = self.lanes.get_mut(lane)?.asking.take().map(|asking| asking.term);
        #[cfg(feature = "planted")]
        if planted::is(planted::Bug::LateClaimTrusted) {
            return Some(self.lease.term());
        }
        asked
    }

    fn ask_all(&mut self, now: Time) -> Vec<Effect> {
        let names: Vec<LaneName> = self.lanes.keys().cloned().collect();
        names.iter().filter_map(|name| self.ask(name, now)).collect()
    }

    /// What holds at present, for whoever is about to send.
    pub fn lease(&self) -> Lease {
        self.lease
    }

    /// Asks for as many messages as the lane has free slots. The slots are taken at once.
    fn ask(&mut self, name: &LaneName, now: Time) -> Option<Effect> {
        if self.phase != Phase::Running || self.lease.is_silent(now) {
            return None;
        }
        let lane = self.lanes.get_mut(name)?;
        let max = lane.workers.saturating_sub(lane.taken);
        if max == 0 || lane.asking.is_some() {
            return None;
        }
        lane.asking = Some(Asking { term: self.lease.term(), slots: max });
        lane.taken += max;
        let rates = Arc::clone(&self.rates);
        Some(Effect::Claim(Ask { node: self.node, lane: name.clone(), max, rates }))
    }

    /// What may take the places of these, in the commit by which their slots are free: as many of each lane as it has
    /// slots for.
    pub fn refill(&self, ended: &[Ended], now: Time) -> Refill {
        let mut asks: Vec<Ask> = Vec::new();
        if self.phase == Phase::Running && !self.lease.is_silent(now) {
            for ended in ended {
                let Some(Some(lane)) = self.settling.get(&ended.settlement.key) else { continue };
                match asks.iter_mut().find(|ask| ask.lane == *lane) {
                    Some(ask) => ask.max += 1,
                    None => {
                        let rates = Arc::clone(&self.rates);
                        asks.push(Ask { node: self.node, lane: lane.clone(), max: 1, rates });
                    }
                }
            }
            // A lane may have fewer slots by now than it has taken.
            asks.retain_mut(|ask| {
                let Some(lane) = self.lanes.get(&ask.lane) else { return false };
                ask.max = ask.max.min((lane.workers + ask.max).saturating_sub(lane.taken));
                #[cfg(feature = "planted")]
                if planted::is(planted::Bug::RefillTwice) {
                    ask.max *= 2;
                }
                ask.max > 0
            });
        }
        Refill { asks, term: self.lease.term() }
    }

    /// Sends what may be sent now; gives the rest back.
    fn send_all(
        &mut self,
        claimed: Vec<Claimed>,
        term: Option<Term>,
        now: Time,
        dice: &mut Dice,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut unsent = Vec::new();
        for claimed in claimed {
            let key = claimed.key;
            let running = self.phase == Phase::Running;
            let ours = term.filter(|term| running && may_send(&self.lease, *term, &claimed, now));
            let Some(term) = ours else {
                self.settling.insert(key, Some(claimed.message.queue.lane.clone()));
                unsent.push(key);
                continue;
            };
            let name = claimed.message.queue.channel.clone();
            let claimed = Arc::new(claimed);
            self.sending.insert(key, Sending { claimed: claimed.clone(), started_at: now });
            let unready = match self.setup.channels.get(&name) {
                Some(channel) if channel.unready.is_none() => {
                    let (kind, timeout) = (channel.kind, channel.attempt_timeout);
                    effects.push(Effect::Send { claimed, term, kind, timeout });
                    continue;
                }
                Some(channel) => channel.unready.clone().unwrap_or_default(),
                None => format!("channel `{name}` is not in the configuration"),
            };
            let fault = Fault { kind: FaultKind::NotConfigured, text: unready };
            effects.extend(self.replied(key, Reply::Unreachable(fault), now, dice));
        }
        if !unsent.is_empty() {
            effects.push(Effect::Release(unsent));
            if self.lease.is_silent(now) {
                effects.push(Effect::Heartbeat { until: now + LEASE });
            }
        }
        effects
    }

    fn replied(&mut self, key: ClaimKey, reply: Reply, now: Time, dice: &mut Dice) -> Option<Effect> {
        let Sending { claimed, started_at } = self.sending.remove(&key)?;
        self.settling.insert(key, Some(claimed.message.queue.lane.clone()));
        #[cfg(feature = "planted")]
        if planted::is(planted::Bug::SlotFreedEarly) {
            self.free(&claimed.message.queue.lane, 1);
        }
        Some(Effect::Settle(vec![self.ended(claimed, End::Reply(reply), started_at, now, dice)]))
    }

    fn settle_lost(&mut self, lost: Vec<Claimed>, now: Time, dice: &mut Dice) -> Option<Effect> {
        let mut ended = Vec::with_capacity(lost.len());
        for claimed in lost {
            self.settling.insert(claimed.key, None);
            let since = claimed.claimed_at;
            ended.push(self.ended(Arc::new(claimed), End::Lost, since, now, dice));
        }
        (!ended.is_empty()).then_some(Effect::Settle(ended))
    }

    fn ended(&self, claimed: Arc<Claimed>, end: End, since: Time, now: Time, dice: &mut Dice) -> Ended {
        let channel = self.setup.channels.get(&claimed.message.queue.channel).map(|channel| &**channel);
        let settlement = decide::settlement(&claimed, channel, &self.memory, end, since, now, dice);
        let failed = settlement.attempt.failure.is_some();
        let max_retries = if failed { decide::max_retries(&claimed, channel) } else { 0 };
        Ended { settlement, about: About { claimed, max_retries } }
    }
}

/// Whether a message that was claimed in that term may be sent now: it is certainly still ours, and in time.
pub fn may_send(lease: &Lease, term: Term, claimed: &Claimed, now: Time) -> bool {
    lease.allows(term, now) && claimed.message.expires_at.is_none_or(|deadline| deadline > now)
}

/// What the provider is shown, to recognise a repeat by: stable for every attempt of one round, and of the next while
/// nobody knows what came of the first.
pub fn idempotency_key(claimed: &Claimed) -> String {
    let id = claimed.message.id;
    match claimed.progress.keyed {
        0 => id.to_string(),
        round => format!("{id}-{round}"),
    }
}

/// What is out of the ordinary about the channels.
fn rates(setup: &Setup) -> Arc<Rates> {
    let channels = || setup.channels.values();
    let rates = channels().filter_map(|it| Some((it.name.clone(), it.care.rate?))).collect();
    let lines = channels().filter(|it| !it.line.is_free()).map(|it| (it.name.clone(), it.line.clone()));
    let weighty = channels().filter(|it| it.care.weight != Weight::default());
    let weights = weighty.map(|it| (it.name.clone(), it.care.weight)).collect();
    Arc::new(Rates { rates, lines: lines.collect(), weights })
}
