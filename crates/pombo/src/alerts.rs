//! Alerts: everything is looked at every few seconds, and people are told what is wrong and when it is over.
//!
//! What is remembered from one look to the next is one document, so that a restart keeps windows and waits. Whoever looks
//! changes that document from the version that was read, and then does what follows; of several nodes one does, and the
//! others see that somebody has just looked. Should two do the same, alerts and notices have ids that make it harmless.

mod readings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pombo_kernel::alert::{self, Alert, Change, Meter, Plan, Severity, Silenced, Watch, Why};
use pombo_kernel::message::Actor;
use pombo_kernel::name::Tenant;
use pombo_kernel::notice::Notice;
use pombo_kernel::setup::Setup;
use pombo_kernel::time::{Clock, Span, Time};
use pombo_store::audit::Event;
use pombo_store::home::Home;
use pombo_store::shelf::{Doc, Expect, Leaf, Pick, Shelf, Shelve, Shelved, Wanted};
use pombo_store::{Store, StoreError};
use pombo_web::{notice, shelf};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{debug, error, info, warn};

use self::readings::Readings;

/// Where what is remembered is kept.
const MEMORY: &str = "alerts";
/// While nothing is wrong and nothing happens, everything is looked at this often, or less.
const IDLE: Span = Span::from_mins(1);
/// Alerts that fire at once, at most.
const FIRING_MAX: usize = 1_000;

/// The one who looks whether all is well. Ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Lookout(JoinHandle<()>);

impl Drop for Lookout {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Lookout {
    pub(crate) fn start(
        store: Arc<dyn Store>,
        setup: watch::Receiver<Arc<Setup>>,
        clock: Arc<dyn Clock>,
        place: Home,
    ) -> Lookout {
        Lookout(tokio::spawn(Work::new(store, setup, clock, Some(place)).run()))
    }
}

/// What is remembered from one look to the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Memory {
    #[serde(default)]
    meter: Meter,
    #[serde(default)]
    watches: BTreeMap<String, Watch>,
    /// Silences of alerts that are over, should they come back.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    silences: BTreeMap<String, Silenced>,
}

struct Work {
    store: Arc<dyn Store>,
    setup: watch::Receiver<Arc<Setup>>,
    clock: Arc<dyn Clock>,
    readings: Readings,
    /// The version of the memory that this node wrote last.
    wrote: u32,
    /// Where the audit ended and when it was, as all was well and nothing waited.
    well: Option<(u64, Time)>,
}

impl Work {
    fn new(
        store: Arc<dyn Store>,
        setup: watch::Receiver<Arc<Setup>>,
        clock: Arc<dyn Clock>,
        place: Option<Home>,
    ) -> Work {
        let readings = Readings::new(Arc::clone(&store), place);
        Work { store, setup, clock, readings, wrote: 0, well: None }
    }

    /// Goes on until the store closes.
    async fn run(mut self) {
        loop {
            let plan = self.setup.borrow().alerts.clone();
            match self.round().await {
                Ok(()) => {}
                Err(StoreError::Closed | StoreError::Broken(_)) => return,
                Err(error) => self.in_trouble(&plan, &error),
            }
            tokio::time::sleep(Duration::from_millis(plan.every.millis())).await;
        }
    }

    /// The store cannot be used, so that nothing can be written or handed in: the log is what is left.
    fn in_trouble(&mut self, plan: &Plan, trouble: &StoreError) {
        self.well = None;
        let since = self.readings.unusable(trouble, self.clock.now());
        let rule = plan.rules.get(&alert::RuleName::StoreUnwritable);
        match rule.filter(|rule| since.seconds() * 1_000.0 > rule.above) {
            Some(rule) => {
                error!(rule = rule.name.as_str(), since = %since, error = %trouble, "the store cannot be written");
            }
            None => debug!(error = %trouble, "what is wrong cannot be looked at"),
        }
    }

    /// One look at everything.
    async fn round(&mut self) -> Result<(), StoreError> {
        let setup = self.setup.borrow().clone();
        let plan = &setup.alerts;
        let now = self.clock.now();
        self.store.health()?;
        let end = *self.store.watch().borrow();
        if self.well.is_some_and(|(at, since)| at == end && now.since(since) < IDLE) {
            return Ok(());
        }
        let doc = self.store.doc(Shelf::Cursor, Tenant::default(), MEMORY.to_owned()).await?;
        if self.is_others(doc.as_ref(), plan, now) {
            self.readings.left_to_others();
            return Ok(());
        }
        let version = doc.as_ref().map_or(0, |doc| doc.version);
        let kept = doc.and_then(|doc| serde_json::from_str::<Memory>(&doc.leaf.body).ok());
        let kept = kept.unwrap_or_default();
        let mut memory = kept.clone();
        let news = self.readings.count(&mut memory.meter, plan, now).await?;
        let facts = self.readings.facts(&setup, &memory.meter, now).await?;
        let firing = self.firing().await?;
        let alerts: Vec<Alert> = firing.iter().map(|(_, alert)| alert.clone()).collect();
        let seen = alert::judge(&plan.rules, &facts, &memory.meter, now);
        let changes = alert::round(&plan.rules, &mut memory.watches, &alerts, &seen, now);
        let changes = silenced(changes, &mut memory.silences, now);
        // What leaves a window by itself needs not be written.
        let moved = news || memory.watches != kept.watches || memory.silences != kept.silences;
        if (moved || !changes.is_empty()) && !self.remember(&memory, version).await? {
            debug!("somebody else has looked");
            return Ok(());
        }
        self.readings.told();
        let waits = facts.queues.iter().any(|queue| queue.past_due > 0);
        let well = !waits && changes.is_empty() && firing.is_empty() && memory.watches.is_empty();
        self.well = well.then_some((end, now));
        for change in &changes {
            self.carry_out(change, &firing, plan, now).await?;
        }
        Ok(())
    }

    /// Somebody else has looked a moment ago.
    fn is_others(&self, doc: Option<&Doc>, plan: &Plan, now: Time) -> bool {
        let fresh = Span::from_millis(plan.every.millis() / 2);
        doc.is_some_and(|doc| doc.version != self.wrote && now.since(doc.updated_at) < fresh)
    }

    async fn firing(&self) -> Result<Vec<(Doc, Alert)>, StoreError> {
        let pick = Pick::Due { from: Time::default(), until: Time::MAX, after: None };
        let wanted = Wanted { shelf: Shelf::Alert, tenant: None, pick, limit: FIRING_MAX };
        let docs = self.store.docs(wanted).await?;
        let read = |doc: Doc| pombo_web::alert::read(&doc).map(|alert| (doc, alert));
        Ok(docs.into_iter().filter_map(read).collect())
    }

    /// Writes down what is remembered; false if somebody else has.
    async fn remember(&mut self, memory: &Memory, version: u32) -> Result<bool, StoreError> {
        let wish = Shelve {
            shelf: Shelf::Cursor,
            tenant: Tenant::default(),
            id: MEMORY.to_owned(),
            expect: if version == 0 { Expect::Nothing } else { Expect::Version(version) },
            leaf: Some(Leaf {
                order: 0,
                topic: None,
                due: None,
                body: serde_json::to_string(memory).unwrap_or_default(),
            }),
            record: None,
        };
        match shelf::put(&*self.store, wish).await? {
            Shelved::Done { version } => {
                self.wrote = version;
                Ok(true)
            }
            Shelved::Conflict(_) => Ok(false),
        }
    }

    /// Writes an alert and what people are told of it, together. Somebody may have answered it meanwhile: then the next
    /// look goes by that.
    async fn carry_out(
        &self,
        change: &Change,
        firing: &[(Doc, Alert)],
        plan: &Plan,
        now: Time,
    ) -> Result<(), StoreError> {
        let (alert, id) = (change.alert(), change.alert().id());
        let (event, why) = match change {
            Change::Fire(_) => (Some(Event::AlertFired), Some(Why::Fired)),
            Change::Go(_) => (None, None),
            Change::Remind(_) => (None, Some(Why::Reminder)),
            Change::Resolve(_) => (Some(Event::AlertResolved), Some(Why::Resolved)),
        };
        let version = firing.iter().find(|(doc, _)| doc.id == id).map(|(doc, _)| doc.version);
        let expect = version.map_or(Expect::Nothing, Expect::Version);
        let mut wishes = vec![pombo_web::alert::put(alert, expect, event, &Actor::engine(), now)];
        if let Some(why) = why.filter(|_| !alert.is_silent(now)) {
            wishes.extend(notices(alert, &id, why, plan, now));
        }
        self.store.shelve(wishes).await?;
        if let Some(why) = why {
            log(alert, &id, why);
        }
        Ok(())
    }
}

/// What people are told of an alert. The same again is the same notice.
fn notices(alert: &Alert, id: &str, why: Why, plan: &Plan, now: Time) -> Vec<Shelve> {
    let Some(rule) = plan.rules.get(&alert.rule) else { return Vec::new() };
    let link = plan.link("alerts", id);
    let nth = match why {
        Why::Fired | Why::Reminder => alert.told.to_string(),
        Why::Resolved => "resolved".to_owned(),
    };
    let told = plan.told(rule).into_iter().map(|target| {
        let letter = alert::letter(alert, id, why, link.as_deref(), target.language);
        let tenant = alert.subject.tenant.clone();
        let notice = Notice::new(id, target.name.clone(), tenant, letter, now);
        notice::owe(&format!("alert·{id}·{nth}·{}", target.name), &notice)
    });
    told.collect()
}

/// The changes, with those that were silenced before they came back silent again, for as long as that lasts.
fn silenced(changes: Vec<Change>, silences: &mut BTreeMap<String, Silenced>, now: Time) -> Vec<Change> {
    silences.retain(|_, silence| silence.until > now);
    let place = |alert: &Alert| format!("{}·{}·{}", alert.rule, alert.subject.tenant, alert.subject);
    let keep = |change| match change {
        Change::Fire(alert) => {
            let silenced = silences.remove(&place(&alert));
            Change::Fire(Alert { silenced, ..alert })
        }
        Change::Resolve(alert) => {
            let still = alert.silenced.clone().filter(|silence| silence.until > now);
            silences.extend(still.map(|silence| (place(&alert), silence)));
            Change::Resolve(alert)
        }
        Change::Go(_) | Change::Remind(_) => change,
    };
    changes.into_iter().map(keep).collect()
}

/// The log is told always.
fn log(alert: &Alert, id: &str, why: Why) {
    let words = alert::sentence(alert, alert::Language::En);
    macro_rules! line {
        ($level:ident) => {
            $level!(
                alert_id = id,
                rule = alert.rule.as_str(),
                severity = alert.severity.as_str(),
                channel = alert.subject.channel.as_ref().map(tracing::field::display),
                value = alert.value,
                above = alert.above,
                since = %alert.first_seen,
                event = why.kind(),
                "{words}"
            )
        };
    }
    match (why, alert.severity) {
        (Why::Resolved, _) | (_, Severity::Info) => line!(info),
        (_, Severity::Warning) => line!(warn),
        (_, Severity::Critical) => line!(error),
    }
}
