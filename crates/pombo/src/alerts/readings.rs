//! What rules go by, as the store tells it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pombo_kernel::alert::{
    Blocked, Claims, Dead, Facts, Jump, Key, Meter, Plan, Queue, Reading, RuleName, Usual, What,
};
use pombo_kernel::block::BlockKind;
use pombo_kernel::decision::Decision;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::name::{ChannelName, Tenant};
use pombo_kernel::setup::{NOTICES, Setup};
use pombo_kernel::time::{Clock, Span, Time};
use pombo_store::home::Home;
use pombo_store::shelf::{Pick, Shelf, Wanted};
use pombo_store::stats::WITHIN;
use pombo_store::{By, Counted, Measured, StatsWanted, Store, StoreError, anchor};

/// Causes of dead letters that are looked at, the largest first.
const CAUSES: usize = 500;
/// Claims whose deadlines are looked at, whoever has waited longest first, ...
const CLAIMS: usize = 1_000;
/// ... so often.
const CLAIMS_EVERY: Span = Span::from_mins(1);
/// Retry decisions that are looked at, the newest first.
const DECISIONS: usize = 200;
/// What is usual is what was so at about the same time of these many days.
const USUAL_DAYS: u64 = 14;
const HOUR: Span = Span::from_hours(1);

/// Somebody who asks the store how things are, and remembers what need not be asked each time.
pub(super) struct Readings {
    store: Arc<dyn Store>,
    place: Option<Home>,
    /// Since when the store cannot be used, and why.
    unusable: Option<Trouble>,
    /// How long it could not be used, until somebody was told.
    outage: Option<(Span, String)>,
    clock: Arc<dyn Clock>,
    /// What the clock showed when somebody was told last, and what it shows now.
    hands: (Reading, Reading),
    claims: Option<(Time, Vec<Claims>)>,
    /// By the hour in which it was asked for.
    usual: Option<(i64, Vec<Usual>, usize)>,
}

/// The store could not be used, from one look to another: how it was between looks nobody knows.
struct Trouble {
    since: Time,
    last: Time,
    why: String,
}

impl Readings {
    pub(super) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, place: Option<Home>) -> Readings {
        let shown = read(&*clock);
        let hands = (shown, shown);
        Readings { store, place, unusable: None, outage: None, clock, hands, claims: None, usual: None }
    }

    /// What time it is.
    pub(super) fn now(&mut self) -> Time {
        self.hands.1 = read(&*self.clock);
        self.hands.1.time
    }

    /// The store cannot be used; for how long by now.
    pub(super) fn unusable(&mut self, trouble: &StoreError, now: Time) -> Span {
        let fresh = || Trouble { since: now, last: now, why: trouble.to_string() };
        let known = self.unusable.get_or_insert_with(fresh);
        known.last = now;
        now.since(known.since)
    }

    /// Somebody else looks, and tells of what there was: a store that nodes share has one clock for all.
    pub(super) fn left_to_others(&mut self) {
        self.unusable = None;
        self.hands.0 = self.hands.1;
    }

    /// What was seen last is written down.
    pub(super) fn told(&mut self) {
        self.outage = None;
        self.hands.0 = self.hands.1;
    }

    /// Takes in what was counted; whether anything was.
    pub(super) async fn count(&self, meter: &mut Meter, plan: &Plan, now: Time) -> Result<bool, StoreError> {
        let window = plan.window();
        let wanted = StatsWanted {
            tenant: None,
            since: meter.since(window, now),
            until: now + Span::from_millis(1),
            by: By::Hour,
        };
        let counts = self.store.stats(wanted).await?;
        let wants = |name| plan.rules.contains_key(&name);
        let counts = counts.into_iter().filter_map(|it| counted(it, &wants));
        Ok(meter.take(counts, window, now))
    }

    /// How things stand.
    pub(super) async fn facts(
        &mut self,
        setup: &Setup,
        meter: &Meter,
        now: Time,
    ) -> Result<Facts, StoreError> {
        let rules = &setup.alerts.rules;
        let wants = |name| rules.contains_key(&name);
        if let Some(Trouble { since, last, why }) = self.unusable.take() {
            self.outage = Some((last.since(since), why));
        }
        let mut facts = Facts {
            queues: self.queues(now).await?,
            blocks: self.blocks(setup).await?,
            paused: self.store.paused().await?.map(|pause| pause.why),
            unwritable: self.outage.clone(),
            jump: Jump::between(self.hands.0, self.hands.1),
            ..Facts::default()
        };
        for tenant in tenants(setup) {
            facts.dead.extend(self.dead(&tenant).await?);
        }
        if let Some(rule) = rules.get(&RuleName::ClaimDeadline) {
            facts.claims = self.claims(setup, rule.window, now).await?;
        }
        if let Some(rule) = rules.get(&RuleName::DecisionTime) {
            facts.decisions = self.decisions(rule.window, now).await?;
        }
        if let Some(rule) = rules.get(&RuleName::Anomaly) {
            let often = |(key, count): (&Key, u64)| key.what == What::AttemptFailed && count >= rule.least;
            // What is usual is worth asking for only where something might not be.
            if meter.over(rule.window, now).any(often) {
                (facts.usual, facts.usual_hours) = self.usual(now).await?;
            }
        }
        if wants(RuleName::AuditBroken) {
            facts.audit_broken = anchor::broken(&*self.store).await?;
        }
        if wants(RuleName::DiskLow) {
            facts.disk_used = self.place.as_ref().and_then(disk_used);
        }
        if wants(RuleName::LogLarge) {
            facts.log_mb = self.place.as_ref().and_then(log_mb);
        }
        Ok(facts)
    }

    /// What waits, by channel. Notices do not count: whether they arrive is looked after elsewhere.
    async fn queues(&self, now: Time) -> Result<Vec<Queue>, StoreError> {
        let mut queues: BTreeMap<(Tenant, ChannelName), (u64, Option<Time>)> = BTreeMap::new();
        for backlog in self.store.backlog(now).await? {
            if backlog.lane.as_str() == NOTICES {
                continue;
            }
            let (past_due, oldest) = queues.entry((backlog.tenant, backlog.channel)).or_default();
            *past_due += backlog.past_due;
            *oldest = [*oldest, backlog.oldest_due].into_iter().flatten().min();
        }
        let queue =
            |((tenant, channel), (past_due, oldest_due))| Queue { tenant, channel, past_due, oldest_due };
        Ok(queues.into_iter().map(queue).collect())
    }

    async fn blocks(&self, setup: &Setup) -> Result<Vec<Blocked>, StoreError> {
        let blocks = self.store.blocks().await?.into_iter();
        let of_channel = |(place, block): (pombo_store::Place, pombo_kernel::block::Block)| {
            let channel = setup.channels.get(&place.channel)?;
            // A pause that a provider asked for is short, and nobody's to end.
            (block.kind != BlockKind::Pause).then(|| Blocked {
                tenant: channel.tenant.clone(),
                channel: place.channel,
                is_whole: place.destination.is_none() || channel.destination.is_single(),
                destination: place.destination.map(|destination| destination.to_string()),
                kind: block.kind,
                reason: block.reason,
                since: block.since,
            })
        };
        Ok(blocks.filter_map(of_channel).collect())
    }

    async fn dead(&self, tenant: &Tenant) -> Result<impl Iterator<Item = Dead>, StoreError> {
        let groups = self.store.groups(tenant.clone(), CAUSES).await?;
        let tenant = tenant.clone();
        Ok(groups.into_iter().map(move |group| Dead {
            tenant: tenant.clone(),
            channel: group.channel,
            category: group.category,
            text: group.text,
            count: group.count,
            newest: group.newest.to_string(),
            last_at: group.last_at,
        }))
    }

    /// Claims that still wait and end within that time.
    async fn claims(&mut self, setup: &Setup, within: Span, now: Time) -> Result<Vec<Claims>, StoreError> {
        if let Some((at, claims)) = &self.claims
            && now.since(*at) < CLAIMS_EVERY
        {
            return Ok(claims.clone());
        }
        let mut channels: BTreeMap<&Tenant, Vec<ChannelName>> = BTreeMap::new();
        for channel in setup.channels.values().filter(|channel| channel.kind == ChannelKind::Tiss) {
            channels.entry(&channel.tenant).or_default().push(channel.name.clone());
        }
        let mut claims: BTreeMap<(Tenant, ChannelName), Claims> = BTreeMap::new();
        for (tenant, names) in channels {
            let lines = self.store.underway(tenant.clone(), names.into(), now + within, CLAIMS).await?;
            for line in lines {
                let message = &line.message;
                let Some(ends) = message.expires_at.filter(|ends| *ends <= now + within) else { continue };
                let (tenant, channel) = (tenant.clone(), message.queue.channel.clone());
                let found = claims.entry((tenant.clone(), channel.clone())).or_insert_with(|| Claims {
                    tenant,
                    channel,
                    count: 0,
                    soonest: ends,
                    message: message.id.to_string(),
                });
                found.count += 1;
                if ends < found.soonest {
                    (found.soonest, found.message) = (ends, message.id.to_string());
                }
            }
        }
        let claims: Vec<_> = claims.into_values().collect();
        self.claims = Some((now, claims.clone()));
        Ok(claims)
    }

    /// How long retry decisions took that were made in that time: by tenant, the slowest, and of how many.
    async fn decisions(&self, window: Span, now: Time) -> Result<Vec<(Tenant, Span, u64)>, StoreError> {
        let pick = Pick::All { after: None };
        let wanted = Wanted { shelf: Shelf::Decision, tenant: None, pick, limit: DECISIONS };
        let mut slowest: BTreeMap<Tenant, (Span, u64)> = BTreeMap::new();
        for doc in self.store.docs(wanted).await? {
            let Ok(decision) = serde_json::from_str::<Decision>(&doc.leaf.body) else { continue };
            if now.since(decision.decided_at) > window {
                continue;
            }
            let (most, count) = slowest.entry(doc.tenant).or_default();
            *most = (*most).max(Span::from_millis(decision.execution_time_ms));
            *count += 1;
        }
        Ok(slowest.into_iter().map(|(tenant, (slowest, count))| (tenant, slowest, count)).collect())
    }

    /// How often categories came up at about this time of the last days, and in how many hours something was counted at
    /// all or would have been.
    async fn usual(&mut self, now: Time) -> Result<(Vec<Usual>, usize), StoreError> {
        if let Some((hour, usual, hours)) = &self.usual
            && *hour == now.hour()
        {
            return Ok((usual.clone(), *hours));
        }
        let since = now - Span::from_hours(24 * USUAL_DAYS + 1);
        let wanted = StatsWanted { tenant: None, since, until: now - HOUR, by: By::Hour };
        let past = self.store.stats(wanted).await?;
        let Some(first) = past.iter().map(|it| it.hour.hour()).min() else { return Ok((Vec::new(), 0)) };
        let days = (1..=i64::try_from(USUAL_DAYS).unwrap_or_default()).map(|day| now.hour() - 24 * day);
        let like: BTreeSet<i64> =
            days.flat_map(|hour| [hour - 1, hour, hour + 1]).filter(|hour| *hour >= first).collect();
        let mut usual: BTreeMap<Key, Vec<u64>> = BTreeMap::new();
        for it in past {
            let hour = it.hour.hour();
            let (Counted::AttemptFailed, true) = (it.what, like.contains(&hour)) else { continue };
            if let Some((_, key, count)) = counted(it, &|_| true) {
                usual.entry(key).or_default().push(u64::try_from(count).unwrap_or_default());
            }
        }
        let usual: Vec<_> = usual.into_iter().map(|(key, hours)| Usual { key, hours }).collect();
        self.usual = Some((now.hour(), usual.clone(), like.len()));
        Ok((usual, like.len()))
    }
}

fn read(clock: &dyn Clock) -> Reading {
    Reading { time: clock.now(), elapsed: clock.elapsed() }
}

fn tenants(setup: &Setup) -> BTreeSet<Tenant> {
    setup.channels.values().map(|channel| channel.tenant.clone()).collect()
}

/// What was counted, as rules know it; nothing if none of them wants to know.
fn counted(it: Measured, wants: &impl Fn(RuleName) -> bool) -> Option<(Time, Key, i64)> {
    let template = || wants(RuleName::TemplateFailing);
    let (what, wanted) = match it.what {
        Counted::Sent => (What::Sent, true),
        Counted::Failed => (What::Failed, true),
        Counted::Attempts => (What::Attempts, true),
        Counted::FailedFor => (What::FailedFor, true),
        Counted::Decided => (What::Decided, true),
        Counted::AttemptFailed => (What::AttemptFailed, wants(RuleName::Anomaly)),
        Counted::SentByTemplate => (What::SentByTemplate, template()),
        Counted::FailedByTemplate => (What::FailedByTemplate, template()),
        Counted::AttemptWithin => (What::EndedAfter, wants(RuleName::ProcessingTime)),
        _ => return None,
    };
    if !wanted {
        return None;
    }
    let detail = match what {
        What::EndedAfter => longer_than(&it.detail).to_string(),
        _ => it.detail,
    };
    Some((it.hour, Key { tenant: it.tenant, channel: it.channel, what, detail }, it.count))
}

/// The seconds that it took at least, where it took up to that.
fn longer_than(within: &str) -> u64 {
    let place = WITHIN.iter().position(|(name, _)| *name == within).unwrap_or(WITHIN.len());
    place.checked_sub(1).map_or(0, |before| WITHIN[before].1.millis() / 1_000)
}

/// The share of the disk under an embedded store that is used.
fn disk_used(place: &Home) -> Option<f64> {
    let Home::Embedded(folder) = place else { return None };
    let disk = rustix::fs::statvfs(&**folder).ok().filter(|disk| disk.f_blocks > 0)?;
    #[allow(clippy::cast_precision_loss)]
    let free = disk.f_bavail as f64 / disk.f_blocks as f64;
    Some(1.0 - free)
}

/// How large the log of an embedded store is, in millions of bytes.
fn log_mb(place: &Home) -> Option<f64> {
    let Home::Embedded(folder) = place else { return None };
    let log = std::fs::metadata(folder.join("pombo.db-wal")).ok()?;
    #[allow(clippy::cast_precision_loss)]
    let bytes = log.len() as f64;
    Some(bytes / 1e6)
}
