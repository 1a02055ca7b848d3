//! Tasks, timers and sockets around the core: performs its effects and tells it what came of them.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use futures_util::FutureExt;
use pombo_channels::{Channel, Envelope};
use pombo_kernel::classify::Verdict;
use pombo_kernel::dice::Dice;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::Message;
use pombo_kernel::name::{ChannelName, LaneName};
use pombo_kernel::reply::{Fault, FaultKind, Reply};
use pombo_kernel::setup::Setup;
use pombo_kernel::time::{Clock, Span};
use pombo_store::{Ask, Claimed, NodeId, Settled, Settlement, Store, StoreError};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tracing::{error, info, warn};

use crate::core::{Core, Effect, Event, HEARTBEAT};
use crate::health;
use crate::prepare::{Bench, Unprepared};

/// What sends through each channel.
pub type Channels = BTreeMap<ChannelName, Arc<dyn Channel>>;

/// Beyond a channel's own deadline, before the attempt is cut off from outside.
const MARGIN: Duration = Duration::from_secs(2);
/// For recording what was cut off at the end of the grace.
const LAST_WORDS: Duration = Duration::from_secs(5);
const ASK_AGAIN: Duration = Duration::from_millis(500);
const FIRST_RETRY: Span = Span::from_millis(200);
const SLOWEST_RETRY: Span = Span::from_secs(5);
/// Events taken at once, so that their results share a settlement.
const BATCH: usize = 1024;

/// A running engine. Dropping it stops nothing; call [`stop`](Engine::stop).
#[derive(Debug)]
pub struct Engine {
    events: mpsc::UnboundedSender<Event>,
    channels: Arc<RwLock<Arc<Channels>>>,
    stopped: watch::Receiver<bool>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// Who asks the providers how they are.
    watchmen: Mutex<JoinSet<()>>,
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
    ) -> Engine {
        let mut dice = Dice::seeded(seed);
        let node = NodeId(i64::from_le_bytes(dice.next_u64().to_le_bytes()) & i64::MAX);
        let (events, inbox) = mpsc::unbounded_channel();
        let (tell_stopped, stopped) = watch::channel(false);
        let watchmen = Mutex::new(health::watch(&store, &setup, &channels, &clock));
        let channels = Arc::new(RwLock::new(Arc::new(channels)));
        let hands = Hands {
            store: Arc::clone(&store),
            node,
            clock: Arc::clone(&clock),
            channels: channels.clone(),
            events: events.clone(),
            bench: Arc::default(),
        };
        let core = Core::new(node, setup, lanes);
        tokio::spawn(run(core, hands, inbox, dice, tell_stopped));
        let _ = events.send(Event::Started);
        Engine { events, channels, stopped, store, clock, watchmen }
    }

    /// Goes on with another configuration; what is under way ends as it began.
    pub fn reload(&self, setup: Arc<Setup>, channels: Channels) {
        *self.watchmen() = health::watch(&self.store, &setup, &channels, &self.clock);
        *self.channels.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(channels);
        let _ = self.events.send(Event::Reload(setup));
    }

    /// Takes no more work, waits up to `grace` for what is under way, and records the rest as in doubt.
    ///
    /// Comes back when everything is recorded, or soon after the grace if the store cannot record it: then the claim
    /// journal still tells what is in doubt.
    pub async fn stop(&self, grace: Duration) {
        self.watchmen().abort_all();
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

    fn watchmen(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.watchmen.lock().unwrap_or_else(PoisonError::into_inner)
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
    hands: Hands,
    mut inbox: mpsc::UnboundedReceiver<Event>,
    mut dice: Dice,
    stopped: watch::Sender<bool>,
) {
    let mut heartbeat = tokio::time::interval(HEARTBEAT.to_std());
    heartbeat.tick().await;
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        tokio::select! {
            taken = inbox.recv_many(&mut batch, BATCH) => if taken == 0 { return },
            _ = heartbeat.tick() => batch.push(Event::Tick),
        }
        let now = hands.clock.now();
        let mut settlements = Vec::new();
        for event in batch.drain(..) {
            for effect in core.step(event, now, &mut dice) {
                match effect {
                    Effect::Settle(some) => settlements.extend(some),
                    Effect::Stopped => {
                        stopped.send_replace(true);
                        return;
                    }
                    other => hands.perform(other),
                }
            }
        }
        if !settlements.is_empty() {
            hands.perform(Effect::Settle(settlements));
        }
    }
}

#[derive(Clone)]
struct Hands {
    store: Arc<dyn Store>,
    node: NodeId,
    clock: Arc<dyn Clock>,
    channels: Arc<RwLock<Arc<Channels>>>,
    events: mpsc::UnboundedSender<Event>,
    bench: Arc<Bench>,
}

impl Hands {
    fn tell(&self, event: Event) {
        let _ = self.events.send(event);
    }

    fn perform(&self, effect: Effect) {
        let hands = self.clone();
        match effect {
            Effect::Claim(ask) => drop(tokio::spawn(async move { hands.claim(ask).await })),
            Effect::ClaimLater(ask) => drop(tokio::spawn(async move {
                tokio::time::sleep(ASK_AGAIN).await;
                hands.claim(ask).await;
            })),
            Effect::Send { claimed, kind, timeout } => drop(tokio::spawn(async move {
                let key = claimed.key;
                hands.tell(match hands.send(&claimed, kind, timeout.to_std()).await {
                    Ok(reply) => Event::Replied { key, reply },
                    Err(error) => {
                        warn!(message_id = %key.message, %error, "the store cannot be read; the message waits");
                        tokio::time::sleep(ASK_AGAIN).await;
                        Event::Unsent { key }
                    }
                });
            })),
            Effect::Settle(settlements) => self.settle(settlements),
            Effect::Release(keys) => drop(tokio::spawn(async move {
                let released = hands.persist(|| hands.store.release(keys.clone())).await;
                if released.is_some() {
                    hands.tell(Event::Released(keys));
                }
            })),
            Effect::Heartbeat { until } => drop(tokio::spawn(async move {
                let since = hands.clock.now();
                match hands.store.heartbeat(hands.node, until).await {
                    Ok(()) => hands.tell(Event::Alive { since }),
                    Err(error) => warn!(%error, "no sign of life could be given"),
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
        kind: ChannelKind,
        timeout: Duration,
    ) -> Result<Reply, StoreError> {
        let channels = self.channels.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(channel) = channels.get(&claimed.message.queue.channel) else {
            let text = "the channel has no sender".to_owned();
            return Ok(Reply::Unreachable(Fault { kind: FaultKind::NotConfigured, text }));
        };
        let prepared = match self.bench.prepare(&*self.store, &claimed.message, kind).await {
            Ok(prepared) => prepared,
            Err(Unprepared::Fault(fault)) => return Ok(Reply::Unreachable(fault)),
            Err(Unprepared::Store(error)) => return Err(error),
        };
        let envelope = Envelope {
            id: claimed.message.id,
            idempotency_key: idempotency_key(&claimed.message, claimed.progress.round),
            now: self.clock.now(),
            to: claimed.message.body.to.clone(),
            content: prepared.content,
            reference: claimed.message.body.reference.clone(),
        };
        let sending = AssertUnwindSafe(async { channel.send(&envelope, timeout).await }).catch_unwind();
        Ok(match tokio::time::timeout(timeout + MARGIN, sending).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_)) => {
                error!(message_id = %claimed.message.id, channel = %claimed.message.queue.channel, "the channel panicked");
                Reply::Doubtful(Fault { kind: FaultKind::Interrupted, text: "the channel panicked".into() })
            }
            Err(_) => Reply::Doubtful(Fault { kind: FaultKind::Timeout, text: "no answer in time".into() }),
        })
    }

    fn settle(&self, settlements: Vec<Settlement>) {
        let hands = self.clone();
        tokio::spawn(async move {
            let settled = hands.persist(|| hands.store.settle(settlements.clone())).await;
            let Some(settled) = settled else { return };
            for (settlement, settled) in settlements.iter().zip(settled) {
                log(settlement, settled);
            }
            hands.tell(Event::Settled(settlements.iter().map(|settlement| settlement.key).collect()));
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

/// Stable for every attempt of one round.
fn idempotency_key(message: &Message, round: u16) -> String {
    match round {
        0 => message.id.to_string(),
        round => format!("{}-{round}", message.id),
    }
}

/// One line a decision. Successes are counted, not logged, unless somebody looks closely.
fn log(settlement: &Settlement, settled: Settled) {
    let message_id = settlement.key.message;
    let attempt = settlement.attempt.number;
    if settled == Settled::Stale {
        warn!(%message_id, attempt, "a result came too late: the message is no longer ours");
        return;
    }
    let Some(failure) = &settlement.attempt.failure else {
        tracing::debug!(%message_id, attempt, "sent");
        return;
    };
    let (category, verdict) = (failure.category.as_str(), failure.verdict.as_str());
    let code = failure.code.as_deref().unwrap_or("");
    if failure.verdict == Verdict::UnknownTransient {
        warn!(%message_id, attempt, code, error = failure.text, "an error that no rule knows; it counts as passing");
    }
    match &settlement.next {
        Next::Sent(_) => {}
        Next::Retry { due, .. } => {
            info!(%message_id, attempt, verdict, category, code, %due, "retry scheduled");
        }
        Next::Failed(reason) => info!(%message_id, attempt, verdict, category, code, %reason, "failed"),
        Next::Held { .. } if failure.verdict == Verdict::SenderFault => {
            error!(%message_id, attempt, category, code, "held: the fault is ours and a person must act");
        }
        Next::Held { .. } => info!(%message_id, attempt, category, code, "the destination is still down"),
    }
}
