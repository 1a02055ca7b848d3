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
/// After so long without a look that was not ended, a person must know.
const BLIND: Span = Span::from_mins(5);
/// Alerts that fire at once, at most. The others wait until one of these is over.
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
    /// Since when every look was ended, because it took too long.
    blind: Option<Time>,
    /// As many alerts fire as are looked after, and the log has said so.
    full: bool,
}

/// What a look has found out, and what follows from it.
struct Looked {
    setup: Arc<Setup>,
    firing: Vec<(u32, Alert)>,
    changes: Vec<Change>,
    now: Time,
}

impl Work {
    fn new(
        store: Arc<dyn Store>,
        setup: watch::Receiver<Arc<Setup>>,
        clock: Arc<dyn Clock>,
        place: Option<Home>,
    ) -> Work {
        let readings = Readings::new(Arc::clone(&store), Arc::clone(&clock), place);
        Work { store, setup, clock, readings, wrote: 0, well: None, blind: None, full: false }
    }

    /// Goes on until the store closes.
    async fn run(mut self) {
        loop {
            let plan = self.setup.borrow().alerts.clone();
            match self.round().await {
                Ok(()) => self.blind = None,
                Err(error @ (StoreError::Closed | StoreError::Broken(_))) => {
                    return crate::follower::stopped("alerts", &error);
                }
                Err(error) => self.in_trouble(&plan, &error),
            }
            tokio::time::sleep(Duration::from_millis(plan.every.millis())).await;
        }
    }

    /// The store cannot be used, so that nothing can be written or handed in: the log is what is left.
    ///
    /// A read that took too long is no outage, since the store is well. But where every one does, nobody looks any more.
    fn in_trouble(&mut self, plan: &Plan, trouble: &StoreError) {
        if *trouble == StoreError::TooLong {
            let now = self.clock.now();
            let since = now.since(*self.blind.get_or_insert(now));
            if since > BLIND {
                error!(since = %since, error = %trouble, "nothing is looked at any more, so that no alert can fire");
            } else {
                warn!(error = %trouble, "what is wrong was not looked at this time");
            }
            return;
        }
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

    /// One look at everything, and what follows from it.
    async fn round(&mut self) -> Result<(), StoreError> {
        let Some(Looked { setup, firing, changes, now }) = self.look().await? else { return Ok(()) };
        for change in &changes {
            self.carry_out(change, &firing, &setup.alerts, now).await?;
        }
        Ok(())
    }

    /// Looks at everything, and remembers what it has seen; nothing if somebody else does so, or all is as well as before.
    async fn look(&mut self) -> Result<Option<Looked>, StoreError> {
        let setup = self.setup.borrow().clone();
        let plan = &setup.alerts;
        let now = self.readings.now();
        self.store.health()?;
        let end = *self.store.watch().borrow();
        if self.well.is_some_and(|(at, since)| at == end && is_fresh(since, IDLE, now)) {
            return Ok(None);
        }
        let doc = self.store.doc(Shelf::Cursor, Tenant::default(), MEMORY.to_owned()).await?;
        if self.is_others(doc.as_ref(), plan, now) {
            self.readings.left_to_others();
            return Ok(None);
        }
        let version = doc.as_ref().map_or(0, |doc| doc.version);
        let kept = doc.and_then(|doc| serde_json::from_str::<Memory>(&doc.leaf.body).ok());
        let kept = kept.unwrap_or_default();
        let mut memory = kept.clone();
        let news = self.readings.count(&mut memory.meter, plan, now).await?;
        let facts = self.readings.facts(&setup, &memory.meter, now).await?;
        let firing = self.firing(plan, now).await?;
        let alerts: Vec<Alert> = firing.iter().map(|(_, alert)| alert.clone()).collect();
        let seen = alert::judge(&plan.rules, &facts, &memory.meter, now);
        let changes = alert::round(&plan.rules, &mut memory.watches, &alerts, &seen, now);
        let changes = silenced(changes, &mut memory.silences, now);
        // What leaves a window by itself needs not be written.
        let moved = news || memory.watches != kept.watches || memory.silences != kept.silences;
        if moved && !self.remember(&memory, version).await? {
            debug!("somebody else has looked");
            return Ok(None);
        }
        self.readings.told();
        let waits = facts.queues.iter().any(|queue| queue.past_due > 0);
        let well = !waits && changes.is_empty() && firing.is_empty() && memory.watches.is_empty();
        self.well = well.then_some((end, now));
        Ok(Some(Looked { setup, firing, changes, now }))
    }

    /// Somebody else has looked a moment ago.
    fn is_others(&self, doc: Option<&Doc>, plan: &Plan, now: Time) -> bool {
        let fresh = Span::from_millis(plan.every.millis() / 2);
        doc.is_some_and(|doc| doc.version != self.wrote && is_fresh(doc.updated_at, fresh, now))
    }

    /// The alerts that fire, with the versions of their documents. Whoever wrote one and then went away may have left
    /// people untold, who are told now.
    async fn firing(&mut self, plan: &Plan, now: Time) -> Result<Vec<(u32, Alert)>, StoreError> {
        let mut firing = Vec::new();
        let mut after = None;
        while firing.len() < FIRING_MAX {
            let pick = Pick::Due { from: Time::default(), until: Time::MAX, after };
            let wanted = Wanted { shelf: Shelf::Alert, tenant: None, pick, limit: FIRING_MAX };
            // Notices are among them.
            let docs = self.store.docs(wanted).await?;
            for doc in &docs {
                let Some(alert) = pombo_web::alert::read(doc) else { continue };
                let (version, alert) = match alert.owes {
                    Some(_) => self.tell(doc.version, alert, plan, now).await?,
                    None => (doc.version, alert),
                };
                if alert.is_firing() {
                    firing.push((version, alert));
                }
            }
            after = match docs.last().map(|last| (last.leaf.due, last.id.clone())) {
                Some((Some(due), id)) if docs.len() == FIRING_MAX => Some((due, id)),
                _ => break,
            };
        }
        let full = firing.len() >= FIRING_MAX;
        if full && !self.full {
            warn!(most = FIRING_MAX, "as many alerts fire as can be looked after; others wait for their end");
        }
        self.full = full;
        firing.truncate(FIRING_MAX);
        Ok(firing)
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

    /// Writes an alert, and then tells people of it: what they are owed stands in the alert until it is sure that they
    /// are told. Somebody may have answered the alert meanwhile: then nobody is told, and the next look goes by that.
    async fn carry_out(
        &self,
        change: &Change,
        firing: &[(u32, Alert)],
        plan: &Plan,
        now: Time,
    ) -> Result<(), StoreError> {
        let (event, why) = match change {
            Change::Fire(_) => (Some(Event::AlertFired), Some(Why::Fired)),
            Change::Go(_) => (None, None),
            Change::Remind(_) => (None, Some(Why::Reminder)),
            Change::Resolve(_) => (Some(Event::AlertResolved), Some(Why::Resolved)),
        };
        let (alert, id) = (change.alert(), change.alert().id());
        let known = firing.iter().find(|(_, known)| known.id() == id);
        let expect = known.map_or(Expect::Nothing, |(version, _)| Expect::Version(*version));
        let anybody = plan.rules.get(&alert.rule).is_some_and(|rule| !plan.told(rule).is_empty());
        let owes = why.filter(|_| anybody && !alert.is_silent(now));
        let alert = Alert { owes, ..alert.clone() };
        let wish = pombo_web::alert::put(&alert, expect, event, &Actor::engine(), now);
        let Shelved::Done { version } = shelf::put(&*self.store, wish).await? else {
            debug!(alert_id = id, "somebody else has changed an alert");
            return Ok(());
        };
        if let Some(why) = why {
            log(&alert, &id, why);
        }
        self.tell(version, alert, plan, now).await.map(drop)
    }

    /// Owes people what an alert says that they are owed, and notes that; the alert as it is then, with its version.
    async fn tell(
        &self,
        version: u32,
        alert: Alert,
        plan: &Plan,
        now: Time,
    ) -> Result<(u32, Alert), StoreError> {
        let Some(why) = alert.owes else { return Ok((version, alert)) };
        let alert = Alert { owes: None, ..alert };
        let mut wishes = notices(&alert, &alert.id(), why, plan, now);
        let expect = Expect::Version(version);
        wishes.push(pombo_web::alert::put(&alert, expect, None, &Actor::engine(), now));
        match self.store.shelve(wishes).await?.pop() {
            Some(Shelved::Done { version }) => Ok((version, alert)),
            // Somebody answered it just now. They are told once, however often this comes up.
            _ => Ok((version, Alert { owes: Some(why), ..alert })),
        }
    }
}

/// Whether that was less than so long ago. What lies as far ahead was before the clock was set back.
fn is_fresh(then: Time, within: Span, now: Time) -> bool {
    now.since(then) < within && then.since(now) < within
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

/// The changes, with those that were silenced before they came back silent again, for as long as that lasts. A silence is
/// remembered until it ends, or until an alert ends that has none any more: whatever is interrupted, it is not lost.
fn silenced(changes: Vec<Change>, silences: &mut BTreeMap<String, Silenced>, now: Time) -> Vec<Change> {
    silences.retain(|_, silence| silence.until > now);
    let place = |alert: &Alert| format!("{}·{}·{}", alert.rule, alert.subject.tenant, alert.subject);
    let keep = |change| match change {
        Change::Fire(alert) => {
            let silenced = silences.get(&place(&alert)).cloned();
            Change::Fire(Alert { silenced, ..alert })
        }
        Change::Resolve(alert) => {
            match alert.silenced.clone().filter(|silence| silence.until > now) {
                Some(silence) => silences.insert(place(&alert), silence),
                None => silences.remove(&place(&alert)),
            };
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
