//! Lets go of what retention gives up: messages, idempotency keys, campaigns that are over, and what was noted of
//! operations, alerts and decisions.
//!
//! It works in small steps and rests after each, longer when the store was slow to answer, so that sending never waits
//! for it. Of several nodes one does it, for as long as a lease in a document lasts; should two believe to have it, they
//! remove the same, and one of them nothing.

mod shelves;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pombo_kernel::id::MessageKey;
use pombo_kernel::message::{Actor, StateName};
use pombo_kernel::name::{CampaignName, ChannelName, Tenant};
use pombo_kernel::retention::Plan;
use pombo_kernel::setup::Setup;
use pombo_kernel::time::{Clock, Span, Time};
use pombo_store::prune::{Effect, Prune, Walk};
use pombo_store::shelf::{Expect, Leaf, Shelf, Shelve, Shelved};
use pombo_store::{Store, StoreError};
use pombo_web::shelf;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{debug, info, warn};

use crate::clock::Stopwatch;

/// Where the lease is kept.
const LEASE_AT: &str = "keeper";
/// How long one node does it for all, unless it says so again, and how much of that must be left for it not to.
const LEASE: Span = Span::from_secs(60);
const ENOUGH: Span = Span::from_secs(30);
/// Messages that one step removes at most.
pub(crate) const AT_ONCE: usize = 200;
/// How long to wait when the store cannot be used.
const TROUBLE: Duration = Duration::from_secs(1);
/// From the end of one walk over everything to the next: ten times as long as it took, within these.
const WALK_EVERY: Duration = Duration::from_secs(60);
const WALK_RARELY: Duration = Duration::from_secs(6 * 3_600);
const WALK_SHARE: u32 = 10;
/// While nothing happens, the next walk may wait for so long.
const IDLE: Span = Span::from_mins(10);

/// The one who does it. Ends when this is dropped: what is not done then is done by the next one.
#[derive(Debug)]
pub(crate) struct Keeper(JoinHandle<()>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Keeper {
    /// `holder` tells the process from all others.
    pub(crate) fn start(
        store: Arc<dyn Store>,
        setup: watch::Receiver<Arc<Setup>>,
        clock: Arc<dyn Clock>,
        holder: u64,
    ) -> Keeper {
        Keeper(tokio::spawn(Work::new(store, setup, clock, holder).run()))
    }
}

/// How long to rest after a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace(Duration);

/// A few steps a second; fewer if they take long: then others wait for the store as well.
const REST: Duration = Duration::from_millis(200);
const REST_MAX: Duration = Duration::from_secs(10);
const SLOW: Duration = Duration::from_millis(50);
/// After a step that found nothing, which nobody waited for.
const NOTHING: Duration = Duration::from_millis(20);

impl Default for Pace {
    fn default() -> Pace {
        Pace(REST)
    }
}

impl Pace {
    /// After a step that took so long, and removed anything or nothing.
    pub(crate) fn after(&mut self, took: Duration, removed: bool) -> Duration {
        self.0 = match took > SLOW {
            true => (self.0 * 2).min(REST_MAX),
            false => (self.0 / 2).max(REST),
        };
        if !removed && took <= SLOW { NOTHING } else { self.0 }
    }
}

/// Who does it until when, and what must be finished. Kept as a document.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Held {
    holder: u64,
    until: Time,
    /// The list of a campaign that is gone, or about to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    striking: Option<(Tenant, CampaignName)>,
}

/// What is next on a walk over everything.
#[derive(Clone, Debug)]
enum Stage {
    Keys(Option<MessageKey>),
    Messages(Walk),
    Shelves(shelves::Place),
}

impl Default for Stage {
    fn default() -> Stage {
        Stage::Keys(None)
    }
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    /// Removed so much.
    Step(u64),
    /// The walk has come to its end.
    End,
}

struct Work {
    store: Arc<dyn Store>,
    setup: watch::Receiver<Arc<Setup>>,
    clock: Arc<dyn Clock>,
    holder: u64,
    /// The lease as this node last wrote it, and its version.
    lease: Option<(u32, Held)>,
    pace: Pace,
    stage: Stage,
    /// What this walk has removed, and how long it lasts.
    removed: BTreeMap<String, u64>,
    began: Option<Stopwatch>,
    /// Where the audit ended and when it was, as the last walk came to its end.
    walked: Option<(u64, Time)>,
}

impl Work {
    fn new(
        store: Arc<dyn Store>,
        setup: watch::Receiver<Arc<Setup>>,
        clock: Arc<dyn Clock>,
        holder: u64,
    ) -> Work {
        let (lease, pace, stage) = (None, Pace::default(), Stage::default());
        let removed = BTreeMap::new();
        Work { store, setup, clock, holder, lease, pace, stage, removed, began: None, walked: None }
    }

    /// Goes on until the store closes.
    async fn run(mut self) {
        loop {
            let rest = match self.round().await {
                Ok(rest) => rest,
                Err(error @ (StoreError::Closed | StoreError::Broken(_))) => {
                    return crate::follower::stopped("retention", &error);
                }
                Err(error) => {
                    match error {
                        StoreError::TooLong => warn!(%error, "what is to be let go of waits"),
                        _ => debug!(%error, "what is to be let go of waits"),
                    }
                    self.lease = None;
                    TROUBLE
                }
            };
            tokio::time::sleep(rest).await;
        }
    }

    /// One step, if it is this node's to do; how long to rest.
    async fn round(&mut self) -> Result<Duration, StoreError> {
        let now = self.clock.now();
        let end = *self.store.watch().borrow();
        if self.walked.is_some_and(|(at, since)| at == end && now.since(since) < IDLE) {
            return Ok(WALK_EVERY);
        }
        if let Some(others) = self.others(now).await? {
            (self.stage, self.began) = (Stage::default(), None);
            return Ok(others.to_std());
        }
        if self.began.is_none() {
            (self.began, self.removed, self.walked) = (Some(Stopwatch::start()), BTreeMap::new(), None);
        }
        let plan = self.setup.borrow().retention.clone();
        let watch = Stopwatch::start();
        match self.step(&plan, now).await? {
            Did::Step(removed) => Ok(self.pace.after(watch.elapsed(), removed > 0)),
            Did::End => {
                self.stage = Stage::default();
                self.walked = Some((*self.store.watch().borrow(), now));
                if !self.removed.is_empty() {
                    let removed = serde_json::to_string(&self.removed).unwrap_or_default();
                    info!(removed, "what retention gives up was let go of");
                }
                let took = self.began.take().map_or(Duration::ZERO, |began| began.elapsed());
                Ok((took * WALK_SHARE).clamp(WALK_EVERY, WALK_RARELY))
            }
        }
    }

    async fn step(&mut self, plan: &Plan, now: Time) -> Result<Did, StoreError> {
        if let Some((tenant, campaign)) = self.lease.as_ref().and_then(|(_, held)| held.striking.clone()) {
            return self.strike(tenant, campaign, now).await;
        }
        match self.stage.clone() {
            Stage::Keys(after) => {
                let lapsed = self.store.lapse(after, AT_ONCE).await?;
                self.stage = match lapsed.next {
                    Some(next) => Stage::Keys(Some(next)),
                    None => Stage::Messages(Walk::default()),
                };
                Ok(self.did("idempotency_keys".to_owned(), lapsed.removed as u64))
            }
            Stage::Messages(_) if plan.rules.keeps_all() => {
                self.stage = Stage::Shelves(shelves::Place::default());
                Ok(Did::Step(0))
            }
            Stage::Messages(walk) => {
                let (rules, by) = (Arc::new(plan.rules.clone()), Actor::engine());
                let prune = Prune { rules, by, effect: Effect::Remove, walk };
                let done = self.store.prune(prune, AT_ONCE, now).await?;
                for ((channel, state), count) in &done.removed {
                    *self.removed.entry(label(channel, *state)).or_default() += count;
                }
                let count = done.count();
                self.stage = match done.next {
                    Some(next) => Stage::Messages(next),
                    None => Stage::Shelves(shelves::Place::default()),
                };
                Ok(Did::Step(count))
            }
            Stage::Shelves(place) => self.shelf(place, plan, now).await,
        }
    }

    fn did(&mut self, what: String, count: u64) -> Did {
        if count > 0 {
            *self.removed.entry(what).or_default() += count;
        }
        Did::Step(count)
    }

    /// How long somebody else does it, at least; nothing if this node does.
    async fn others(&mut self, now: Time) -> Result<Option<Span>, StoreError> {
        if self.lease.as_ref().is_some_and(|(_, held)| held.until.since(now) >= ENOUGH) {
            return Ok(None);
        }
        let doc = self.store.doc(Shelf::Cursor, Tenant::default(), LEASE_AT.to_owned()).await?;
        let held = doc.as_ref().and_then(|doc| serde_json::from_str::<Held>(&doc.leaf.body).ok());
        let held = held.unwrap_or_default();
        // One that ends much later than any lease is of a clock that was wrong.
        let left = held.until.since(now);
        if held.holder != self.holder && left > Span::ZERO && left <= LEASE {
            self.lease = None;
            return Ok(Some(left));
        }
        let mine = self.hold(doc.map_or(0, |doc| doc.version), held.striking, now).await?;
        Ok((!mine).then_some(LEASE))
    }

    /// Writes the lease down; false if somebody else has.
    async fn hold(
        &mut self,
        version: u32,
        striking: Option<(Tenant, CampaignName)>,
        now: Time,
    ) -> Result<bool, StoreError> {
        let held = Held { holder: self.holder, until: now + LEASE, striking };
        let body = serde_json::to_string(&held).unwrap_or_default();
        let wish = Shelve {
            shelf: Shelf::Cursor,
            tenant: Tenant::default(),
            id: LEASE_AT.to_owned(),
            expect: if version == 0 { Expect::Nothing } else { Expect::Version(version) },
            leaf: Some(Leaf { order: 0, topic: None, due: None, body }),
            record: None,
        };
        self.lease = match shelf::put(&*self.store, wish).await? {
            Shelved::Done { version } => Some((version, held)),
            Shelved::Conflict(_) => None,
        };
        Ok(self.lease.is_some())
    }

    /// Takes some off the list of a campaign that is gone. Until nobody is left, the lease says so.
    async fn strike(&mut self, tenant: Tenant, campaign: CampaignName, now: Time) -> Result<Did, StoreError> {
        let struck = self.store.strike(tenant, campaign, AT_ONCE).await?;
        if struck < AT_ONCE {
            let version = self.lease.as_ref().map_or(0, |(version, _)| *version);
            self.hold(version, None, now).await?;
        }
        Ok(self.did("recipients".to_owned(), struck as u64))
    }
}

/// How what was removed is named.
pub(crate) fn label(channel: &ChannelName, state: StateName) -> String {
    format!("{channel}.{state}")
}
