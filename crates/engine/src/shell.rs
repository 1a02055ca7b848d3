//! Tasks, timers and sockets around the core: performs its effects and tells it what came of them.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::FutureExt;
use pombo_channels::{Channel, Envelope};
use pombo_kernel::adapt::Memory;
use pombo_kernel::dice::Dice;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::name::{ChannelName, LaneName};
use pombo_kernel::reply::{Fault, FaultKind, Reply};
use pombo_kernel::setup::Setup;
use pombo_kernel::suppression::Reason;
use pombo_kernel::time::{Clock, Span, Time};
use pombo_kernel::trace::Tracer;
use pombo_store::{Ask, Claimed, NodeId, Settled, Settlement, Store, StoreError, TurnedOver};
use prometheus::Histogram;
use tokio::sync::{Notify, mpsc, watch};
use tracing::{error, info, warn};

use crate::core::{
    About, Core, Effect, Ended, Event, HEARTBEAT, LEASE, Lease, Refill, Term, idempotency_key, may_send,
};
use crate::log;
use crate::meter::{Lanes, Meter};
use crate::prepare::{Bench, Unprepared};
use crate::trail::{Leg, Trail};

/// What sends through each channel.
pub type Channels = BTreeMap<ChannelName, Arc<dyn Channel>>;

/// The same with where each one's attempts are measured.
type Outlets = BTreeMap<ChannelName, Outlet>;

#[derive(Clone, Debug)]
struct Outlet {
    channel: Arc<dyn Channel>,
    seconds: Histogram,
}

fn outlets(channels: Channels, meter: &Meter) -> Arc<Outlets> {
    let outlet = |(name, channel)| {
        let seconds = meter.attempts(&name);
        (name, Outlet { channel, seconds })
    };
    Arc::new(channels.into_iter().map(outlet).collect())
}

/// Beyond a channel's own deadline, before the attempt is cut off from outside.
const MARGIN: Duration = Duration::from_secs(2);
/// For recording what was cut off at the end of the grace.
const LAST_WORDS: Duration = Duration::from_secs(5);
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// From a heartbeat that could not be written to the next.
const BEAT_AGAIN: Duration = Duration::from_secs(1);
const FIRST_RETRY: Span = Span::from_millis(200);
const SLOWEST_RETRY: Span = Span::from_secs(5);
/// Events taken at once, so that their results share a settlement.
const BATCH: usize = 1024;

/// Who watches an engine at work.
#[derive(Clone, Debug, Default)]
pub struct Instruments {
    pub meter: Meter,
    /// None: nobody keeps traces, and nothing is spent on them.
    pub tracer: Option<Arc<dyn Tracer>>,
}

impl From<Meter> for Instruments {
    fn from(meter: Meter) -> Instruments {
        Instruments { meter, tracer: None }
    }
}

/// A running engine. Dropping it stops nothing; call [`stop`](Engine::stop).
#[derive(Debug)]
pub struct Engine {
    events: mpsc::UnboundedSender<Event>,
    channels: Arc<RwLock<Arc<Outlets>>>,
    stopped: watch::Receiver<bool>,
    meter: Meter,
    clock: Arc<dyn Clock>,
    lease: Arc<watch::Sender<Lease>>,
}

impl Engine {
    /// Starts working those lanes. `seed` should differ in every life of the process.
    pub fn start(
        store: Arc<dyn Store>,
        setup: Arc<Setup>,
        channels: Channels,
        clock: Arc<dyn Clock>,
        seed: u64,
        lanes: &[LaneName],
        instruments: impl Into<Instruments>,
    ) -> Engine {
        let Instruments { meter, tracer } = instruments.into();
        let mut dice = Dice::seeded(seed);
        let node = NodeId(i64::from_le_bytes(dice.next_u64().to_le_bytes()) & i64::MAX);
        let (events, inbox) = mpsc::unbounded_channel();
        let (tell_stopped, stopped) = watch::channel(false);
        let channels = Arc::new(RwLock::new(outlets(channels, &meter)));
        let lease: Arc<watch::Sender<Lease>> = Arc::default();
        let hands = Arc::new(Hands {
            store,
            node,
            clock: clock.clone(),
            channels: channels.clone(),
            events: events.clone(),
            bench: Arc::default(),
            lease: lease.clone(),
            beat_again: Arc::default(),
            meter: meter.clone(),
            trail: tracer.map(Trail),
            books: tokio::sync::RwLock::default(),
        });
        let core = Core::new(node, setup, lanes);
        tokio::spawn(run(core, hands, inbox, dice, tell_stopped));
        let _ = events.send(Event::Started);
        Engine { events, channels, stopped, meter, clock, lease }
    }

    /// No sign of life was durable for so long that nothing is sent any more.
    pub fn is_silent(&self) -> bool {
        self.lease.borrow().is_silent(self.clock.now())
    }

    /// Goes on with another configuration; what is under way ends as it began.
    pub fn reload(&self, setup: Arc<Setup>, channels: Channels) {
        *self.channels.write().unwrap_or_else(PoisonError::into_inner) = outlets(channels, &self.meter);
        let _ = self.events.send(Event::Reload(setup));
    }

    /// Goes on with another setup of the same channels.
    pub fn retune(&self, setup: Arc<Setup>) {
        let _ = self.events.send(Event::Reload(setup));
    }

    /// Goes on with what retries have taught by now; adaptive policies choose their next waits by it.
    pub fn learned(&self, memory: Arc<Memory>) {
        let _ = self.events.send(Event::Learned(memory));
    }

    /// Takes no more work, waits up to `grace` for what is under way, and records the rest as in doubt.
    ///
    /// Comes back when everything is recorded, counted, traced and logged, or soon after the grace if the store cannot
    /// record it: then the claim journal still tells what is in doubt.
    pub async fn stop(&self, grace: Duration) {
        let _ = self.events.send(Event::Stop);
        let mut stopped = self.stopped.clone();
        if tokio::time::timeout(grace, stopped.wait_for(|done| *done)).await.is_ok() {
            return;
        }
        let _ = self.events.send(Event::GraceOver);
        if tokio::time::timeout(LAST_WORDS, stopped.wait_for(|done| *done)).await.is_err() {
            warn!("some results could not be recorded; what was being sent is looked into at the next start");
        }
    }

    /// Comes back if the engine has died, which only a fault of ours can bring about.
    pub async fn died(&self) {
        let mut stopped = self.stopped.clone();
        if stopped.wait_for(|done| *done).await.is_ok() {
            std::future::pending::<()>().await;
        }
    }
}

async fn run(
    mut core: Core,
    hands: Arc<Hands>,
    mut inbox: mpsc::UnboundedReceiver<Event>,
    mut dice: Dice,
    stopped: watch::Sender<bool>,
) {
    let mut heartbeat = tokio::time::interval(HEARTBEAT.to_std());
    heartbeat.tick().await;
    let mut batch = Vec::with_capacity(BATCH);
    let mut lanes = Lanes::default();
    loop {
        lanes.set(&hands.meter, &core);
        tokio::select! {
            taken = inbox.recv_many(&mut batch, BATCH) => if taken == 0 { return },
            _ = heartbeat.tick() => batch.push(Event::Tick),
            () = hands.beat_again.notified() => {
                heartbeat.reset_after(BEAT_AGAIN);
                continue;
            }
        }
        let now = hands.clock.now();
        let mut ended = Vec::new();
        for event in batch.drain(..) {
            let failed =
                matches!(&event, Event::Replied { reply, .. } if !matches!(reply, Reply::Accepted(_)));
            let started = failed.then(|| hands.clock.elapsed());
            let effects = core.step(event, now, &mut dice);
            if let Some(started) = started {
                hands.meter.retries.analysed(hands.clock.elapsed().saturating_sub(started));
            }
            hands.lease.send_if_modified(|seen| std::mem::replace(seen, core.lease()) != core.lease());
            for effect in effects {
                match effect {
                    Effect::Settle(some) => ended.extend(some),
                    Effect::Stopped => {
                        drop(hands.books.write().await);
                        stopped.send_replace(true);
                        return;
                    }
                    other => hands.perform(other, &core, now),
                }
            }
        }
        if !ended.is_empty() {
            hands.perform(Effect::Settle(ended), &core, now);
        }
    }
}

/// What the core's effects are performed with, shared by all tasks.
struct Hands {
    store: Arc<dyn Store>,
    node: NodeId,
    clock: Arc<dyn Clock>,
    channels: Arc<RwLock<Arc<Outlets>>>,
    events: mpsc::UnboundedSender<Event>,
    bench: Arc<Bench>,
    /// As the core last saw it. An older one allows less, never more.
    lease: Arc<watch::Sender<Lease>>,
    beat_again: Arc<Notify>,
    meter: Meter,
    trail: Option<Trail>,
    /// Read by whoever counts, traces and logs results that the core knows already; whoever stops waits for them.
    books: tokio::sync::RwLock<()>,
}

/// Why nothing was sent.
enum Unsent {
    Store(StoreError),
    /// Whoever it is for is on the suppression list, for that reason.
    Suppressed(Reason),
    /// It may no longer be ours, or its deadline is over.
    TooLate,
}

impl Hands {
    fn tell(&self, event: Event) {
        let _ = self.events.send(event);
    }

    fn perform(self: &Arc<Hands>, effect: Effect, core: &Core, now: Time) {
        let hands = Arc::clone(self);
        match effect {
            Effect::Claim(ask) => drop(tokio::spawn(async move { hands.claim(ask).await })),
            Effect::ClaimLater(ask) => drop(tokio::spawn(async move {
                tokio::time::sleep(ASK_AGAIN).await;
                hands.claim(ask).await;
            })),
            Effect::Send { claimed, term, kind, timeout } => drop(tokio::spawn(async move {
                let key = claimed.key;
                hands.tell(match hands.send(&claimed, term, kind, timeout.to_std()).await {
                    Ok(reply) => Event::Replied { key, reply },
                    Err(Unsent::TooLate) => {
                        info!(message_id = %key.message, "claimed too long ago to be sent now; it is given back");
                        Event::Unsent { key }
                    }
                    Err(Unsent::Suppressed(reason)) => {
                        info!(message_id = %key.message, %reason, "its recipient is suppressed; it is not sent");
                        Event::Unwanted { key, reason }
                    }
                    Err(Unsent::Store(error)) => {
                        warn!(message_id = %key.message, %error, "the store cannot be read; the message waits");
                        tokio::time::sleep(ASK_AGAIN).await;
                        Event::Unsent { key }
                    }
                });
            })),
            Effect::Settle(ended) => {
                let refill = core.refill(&ended, now);
                self.settle(ended, refill);
            }
            Effect::Release(keys) => drop(tokio::spawn(async move {
                let released = hands.persist(|| hands.store.release(keys.clone())).await;
                if released.is_some() {
                    hands.tell(Event::Released(keys));
                }
            })),
            Effect::LeaveOut { key, reason } => drop(tokio::spawn(async move {
                let left_out = hands.persist(|| hands.store.leave_out(key, reason.to_string())).await;
                if left_out.is_some() {
                    hands.tell(Event::Released(vec![key]));
                }
            })),
            Effect::Heartbeat { until } => drop(tokio::spawn(async move {
                match hands.store.heartbeat(hands.node, until).await {
                    // Not from now on: the process may have been frozen since the core asked.
                    Ok(()) => hands.tell(Event::Alive { since: until - LEASE }),
                    Err(StoreError::Closed | StoreError::Broken(_)) => {}
                    Err(error) => {
                        warn!(%error, "no sign of life could be given");
                        hands.beat_again.notify_one();
                    }
                }
            })),
            Effect::TakeOver { max } => drop(tokio::spawn(async move {
                match hands.store.take_over(hands.node, max).await {
                    Ok(lost) => {
                        if !lost.is_empty() {
                            info!(messages = lost.len(), "took over messages whose sender is gone");
                        }
                        hands.tell(Event::TakenOver(lost));
                    }
                    Err(error) => warn!(%error, "could not look for messages whose sender is gone"),
                }
            })),
            Effect::StopClaims => drop(tokio::spawn(async move {
                let _ = hands.store.stop_claims(hands.node).await;
            })),
            Effect::Stopped => {}
        }
    }

    async fn claim(&self, ask: Ask) {
        let (lane, asked) = (ask.lane.clone(), ask.max);
        self.tell(match self.store.claim(ask).await {
            Ok(claimed) => Event::Claimed { lane, asked, claimed },
            Err(StoreError::Closed | StoreError::Broken(_)) => return,
            Err(_) => Event::ClaimFailed { lane, asked },
        });
    }

    /// Tries once, and comes back with a reply whatever happens; or with what kept it from trying.
    async fn send(
        &self,
        claimed: &Claimed,
        term: Term,
        kind: ChannelKind,
        timeout: Duration,
    ) -> Result<Reply, Unsent> {
        let channels = self.channels.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(Outlet { channel, seconds }) = channels.get(&claimed.message.queue.channel) else {
            let text = "the channel has no sender".to_owned();
            return Ok(Reply::Unreachable(Fault { kind: FaultKind::NotConfigured, text }));
        };
        let mut leg = self.trail.as_ref().map(|trail| trail.leg(claimed));
        let now = self.clock.now();
        let prepared = match self.bench.prepare(&*self.store, &claimed.message, kind, now).await {
            Ok(prepared) => prepared,
            Err(Unprepared::Fault(fault)) => return Ok(Reply::Unreachable(fault)),
            Err(Unprepared::Suppressed(reason)) => return Err(Unsent::Suppressed(reason)),
            Err(Unprepared::Store(error)) => return Err(Unsent::Store(error)),
        };
        let now = self.clock.now();
        if !may_send(&self.lease.borrow(), term, claimed, now) {
            return Err(Unsent::TooLate);
        }
        if let Some(leg) = &mut leg {
            leg.prepared();
        }
        let envelope = Envelope {
            id: claimed.message.id,
            idempotency_key: idempotency_key(claimed),
            now,
            to: prepared.to.unwrap_or_else(|| claimed.message.body.to.clone()),
            content: prepared.content,
            reference: claimed.message.body.reference.clone(),
            signers: prepared.signers,
            trace: leg.as_ref().and_then(Leg::told),
        };
        let sending = AssertUnwindSafe(async { channel.send(&envelope, timeout).await }).catch_unwind();
        let started = self.clock.elapsed();
        let sent = tokio::time::timeout(timeout + MARGIN, sending).await;
        seconds.observe(self.clock.elapsed().saturating_sub(started).as_secs_f64());
        let reply = match sent {
            Ok(Ok(reply)) => reply,
            Ok(Err(_)) => {
                error!(message_id = %claimed.message.id, channel = %claimed.message.queue.channel, "the channel panicked");
                Reply::Doubtful(Fault { kind: FaultKind::Interrupted, text: "the channel panicked".into() })
            }
            Err(_) => Reply::Doubtful(Fault { kind: FaultKind::Timeout, text: "no answer in time".into() }),
        };
        if let Some(leg) = &mut leg {
            leg.sent(&reply);
        }
        Ok(reply)
    }

    fn settle(self: &Arc<Hands>, ended: Vec<Ended>, refill: Refill) {
        let hands = Arc::clone(self);
        let Refill { asks, term } = refill;
        let (settlements, about): (Vec<Settlement>, Vec<About>) =
            ended.into_iter().map(|ended| (ended.settlement, ended.about)).unzip();
        tokio::spawn(async move {
            let from = hands.trail.as_ref().map(Trail::now);
            let written = hands.persist(|| hands.store.turn_over(settlements.clone(), asks.clone())).await;
            let Some(TurnedOver { settled, claimed }) = written else { return };
            let keys = settlements.iter().map(|settlement| settlement.key).collect();
            // The slots are free before the books are kept, but nobody stops in between.
            let _open = hands.books.read().await;
            hands.tell(Event::TurnedOver { keys, claimed, term });
            for ((settlement, about), settled) in settlements.iter().zip(&about).zip(settled) {
                if settled == Settled::Done {
                    hands.meter.settled(settlement);
                }
                let traced = hands
                    .trail
                    .as_ref()
                    .zip(from)
                    .and_then(|(trail, from)| trail.settled(&about.claimed, settlement, settled, from));
                log::settled(settlement, about, settled, traced);
            }
        });
    }

    /// Repeats a write until it is durable. The slot stays taken meanwhile, so nothing piles up. A claim that was
    /// lost on the way makes the write harmless.
    async fn persist<'a, T>(&'a self, write: impl Fn() -> pombo_store::Answer<'a, T>) -> Option<T> {
        let mut wait = FIRST_RETRY;
        loop {
            match write().await {
                Ok(done) => return Some(done),
                Err(StoreError::Closed | StoreError::Broken(_)) => return None,
                Err(error) => warn!(%error, retry_in = %wait, "a result could not be recorded"),
            }
            tokio::time::sleep(wait.to_std()).await;
            wait = wait.doubled(1).min(SLOWEST_RETRY);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

    use pombo_channels::BoxFuture;
    use pombo_kernel::id::{MessageId, MessageKey};
    use pombo_kernel::message::{Body, ClaimId, ClaimKey, Message, Priority, Progress, QueueName};
    use pombo_kernel::name::Tenant;
    use pombo_kernel::reply::Receipt;
    use pombo_store::memory::Memory;
    use pombo_store::shell::Shell;

    use super::*;

    #[derive(Debug)]
    struct Hand(AtomicI64);

    impl Clock for Hand {
        fn now(&self) -> Time {
            Time::from_millis(self.0.load(Ordering::SeqCst))
        }
    }

    #[derive(Debug, Default)]
    struct Counting(AtomicUsize);

    impl Channel for Counting {
        fn send<'a>(&'a self, _: &'a Envelope, _: Duration) -> BoxFuture<'a, Reply> {
            Box::pin(async {
                self.0.fetch_add(1, Ordering::SeqCst);
                Reply::Accepted(Receipt::default())
            })
        }
    }

    fn claimed(now: Time) -> Claimed {
        let queue = QueueName {
            tenant: Tenant::default(),
            lane: "default".parse().unwrap(),
            channel: "crm".parse().unwrap(),
            destination: "host".into(),
            campaign: None,
        };
        let message = Message {
            id: MessageId::new(MessageKey::at(now), 1),
            queue: Arc::new(queue),
            priority: Priority::default(),
            send_at: None,
            expires_at: None,
            ordering_key: None,
            body: Body::default(),
        };
        let key = ClaimKey { message: message.id, claim: ClaimId(1) };
        Claimed {
            key,
            message: Arc::new(message),
            progress: Progress::default(),
            due: now,
            claimed_at: now,
            failing_since: None,
            probe: None,
        }
    }

    #[tokio::test] // fault 17
    async fn the_lease_is_looked_at_again_just_before_the_channel_is_called() {
        let start = Time::from_millis(1_800_000_000_000);
        let clock = Arc::new(Hand(AtomicI64::new(start.millis())));
        let store = Shell::start(Memory::new(Dice::seeded(1)), clock.clone(), Box::new(|| [7; 32])).unwrap();
        let channel = Arc::new(Counting::default());
        let channels: Channels = [("crm".parse().unwrap(), channel.clone() as Arc<dyn Channel>)].into();
        let mut lease = Lease::default();
        lease.renew(start, start);
        let hands = Hands {
            store: Arc::new(store),
            node: NodeId(1),
            clock: clock.clone(),
            channels: Arc::new(RwLock::new(outlets(channels, &Meter::default()))),
            events: mpsc::unbounded_channel().0,
            bench: Arc::default(),
            lease: Arc::new(watch::channel(lease).0),
            beat_again: Arc::default(),
            meter: Meter::default(),
            trail: None,
            books: tokio::sync::RwLock::default(),
        };
        let (claimed, term, wait) = (claimed(start), lease.term(), Duration::from_secs(5));
        let sent = hands.send(&claimed, term, ChannelKind::Webhook, wait).await;
        assert!(matches!(sent, Ok(Reply::Accepted(_))));

        clock.0.fetch_add(120_000, Ordering::SeqCst);
        let frozen = hands.send(&claimed, term, ChannelKind::Webhook, wait).await;
        assert!(matches!(frozen, Err(Unsent::TooLate)));
        lease.renew(clock.now(), clock.now());
        hands.lease.send_replace(lease);
        let continued = hands.send(&claimed, term, ChannelKind::Webhook, wait).await;
        assert!(matches!(continued, Err(Unsent::TooLate)));
        assert_eq!(channel.0.load(Ordering::SeqCst), 1);
    }
}
