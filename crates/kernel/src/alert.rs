//! When people are told that something is wrong: rules over what is measured, and what becomes of an alert.
//!
//! A rule says from when on something is wrong, for how long it must be so, and when it is over: at a lower number, for
//! a while. What lies between changes nothing, so that a number that wavers around its threshold is one alert. Every
//! step is a pure function of what stood there, what is seen and the time.

mod judge;
mod jump;
mod meter;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::digest::Team;
use crate::message::{Actor, slugs};
use crate::name::{ChannelName, NoticeName, ReportName, Tenant};
use crate::notice::Target;
use crate::report::Report;
use crate::time::{Span, Time};
use crate::window::Zone;

pub use judge::{Blocked, Claims, DECISIONS, Dead, Facts, Queue, Usual, judge};
pub use jump::{Jump, Reading};
pub use meter::{Key, Meter, What};
pub(crate) use words::counted;
pub use words::{Language, Why, letter, sentence, shown};

/// How often an alert that goes on is written down again, if nothing about it gets worse.
const SEEN_EVERY: Span = Span::from_mins(1);
/// Samples that an alert carries.
const SAMPLES_MAX: usize = 3;

slugs! {
    /// What is looked after.
    RuleName {
        DeadLetters = 1 "dead_letters",
        FailureRate = 2 "failure_rate",
        ProcessingTime = 3 "processing_time",
        PastDue = 4 "past_due",
        TemplateFailing = 5 "template_failing",
        NoScheduling = 6 "no_scheduling",
        MaxRetries = 7 "max_retries",
        PermanentErrors = 8 "permanent_errors",
        DecisionTime = 9 "decision_time",
        ClaimDeadline = 10 "claim_deadline",
        ChannelHeld = 11 "channel_held",
        BreakerOpen = 12 "breaker_open",
        Anomaly = 13 "anomaly",
        StoreUnwritable = 14 "store_unwritable",
        AuditBroken = 15 "audit_broken",
        DiskLow = 16 "disk_low",
        ClockJumped = 17 "clock_jumped",
        LogLarge = 18 "log_large",
    }
}

slugs! {
    /// How bad it is.
    Severity {
        Info = 1 "info",
        Warning = 2 "warning",
        Critical = 3 "critical",
    }
}

/// What a rule's numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// So many of something.
    Count,
    /// A share of 1.
    Share,
    /// Milliseconds.
    Time,
    /// How far above what is usual, in standard deviations.
    Deviations,
    /// Millions of bytes.
    Megabytes,
}

impl RuleName {
    pub fn unit(self) -> Unit {
        match self {
            RuleName::FailureRate
            | RuleName::TemplateFailing
            | RuleName::MaxRetries
            | RuleName::PermanentErrors
            | RuleName::DiskLow => Unit::Share,
            RuleName::ProcessingTime
            | RuleName::NoScheduling
            | RuleName::DecisionTime
            | RuleName::StoreUnwritable
            | RuleName::ClockJumped => Unit::Time,
            RuleName::Anomaly => Unit::Deviations,
            RuleName::LogLarge => Unit::Megabytes,
            RuleName::DeadLetters
            | RuleName::PastDue
            | RuleName::ClaimDeadline
            | RuleName::ChannelHeld
            | RuleName::BreakerOpen
            | RuleName::AuditBroken => Unit::Count,
        }
    }

    /// Whether its numbers are taken over a window; for [`ClaimDeadline`](RuleName::ClaimDeadline) it is how near a
    /// deadline may come.
    pub fn has_window(self) -> bool {
        self.is_counted() || matches!(self, RuleName::DecisionTime | RuleName::ClaimDeadline)
    }

    /// Whether it is judged by counts over its window.
    pub fn is_counted(self) -> bool {
        matches!(
            self,
            RuleName::FailureRate
                | RuleName::TemplateFailing
                | RuleName::MaxRetries
                | RuleName::PermanentErrors
                | RuleName::ProcessingTime
                | RuleName::Anomaly
        )
    }
}

/// From when on something is wrong, and until when.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub name: RuleName,
    pub severity: Severity,
    /// It is wrong above this, in the rule's unit.
    pub above: f64,
    /// It is over at this or below.
    pub resolve_at: f64,
    /// What it is measured over, where that matters.
    pub window: Span,
    /// Fewer than so many say nothing.
    pub least: u64,
    /// It must be wrong for so long.
    pub hold: Span,
    /// It must be over for so long.
    pub calm: Span,
    /// How often people are reminded of one that nobody has acknowledged; never without it.
    pub repeat: Option<Span>,
    /// Who is told; all whom its severity concerns if that is not said.
    pub notify: Option<Vec<NoticeName>>,
}

impl Rule {
    /// The rule as it is unless somebody says otherwise.
    pub fn usual(name: RuleName) -> Rule {
        use RuleName as R;
        use Severity::{Critical, Warning};
        const SECOND: Span = Span::from_secs(1);
        const MINUTE: Span = Span::from_mins(1);
        const HOUR: Span = Span::from_hours(1);
        let millis = |span: Span| span.seconds() * 1_000.0;
        let five = Span::from_mins(5);
        // above, resolve_at, window, least, hold, calm
        let (severity, above, resolve_at, window, least, hold, calm) = match name {
            R::DeadLetters => (Warning, 100.0, 80.0, Span::ZERO, 0, Span::ZERO, MINUTE),
            R::FailureRate => (Critical, 0.10, 0.08, HOUR, 20, MINUTE, five),
            R::ProcessingTime => (Warning, millis(five), millis(Span::from_mins(4)), five, 0, MINUTE, MINUTE),
            R::PastDue => (Warning, 50.0, 40.0, Span::ZERO, 0, MINUTE, MINUTE),
            R::TemplateFailing => (Warning, 0.50, 0.40, HOUR, 10, MINUTE, five),
            R::NoScheduling => {
                (Critical, millis(Span::from_mins(10)), 0.0, Span::ZERO, 0, Span::ZERO, MINUTE)
            }
            R::MaxRetries => (Warning, 0.05, 0.04, HOUR, 20, MINUTE, five),
            R::PermanentErrors => (Warning, 0.15, 0.12, HOUR, 20, MINUTE, five),
            R::DecisionTime => {
                (Warning, millis(SECOND), millis(Span::from_millis(800)), five, 1, Span::ZERO, MINUTE)
            }
            R::ClaimDeadline => (Critical, 0.0, 0.0, Span::from_hours(24), 0, Span::ZERO, MINUTE),
            R::ChannelHeld => (Critical, 0.0, 0.0, Span::ZERO, 0, Span::ZERO, MINUTE),
            R::BreakerOpen => (Warning, 0.0, 0.0, Span::ZERO, 0, Span::ZERO, MINUTE),
            R::Anomaly => (Warning, 6.0, 3.0, HOUR, 20, MINUTE, Span::from_mins(10)),
            R::StoreUnwritable => {
                (Critical, millis(Span::from_secs(10)), 0.0, Span::ZERO, 0, Span::ZERO, MINUTE)
            }
            R::AuditBroken => (Critical, 0.0, 0.0, Span::ZERO, 0, Span::ZERO, MINUTE),
            R::DiskLow => (Critical, 0.90, 0.88, Span::ZERO, 0, MINUTE, MINUTE),
            // It usually has 18 MB, and once nobody is in its way it goes back to 67 MB at most.
            R::LogLarge => (Warning, 256.0, 192.0, Span::ZERO, 0, MINUTE, MINUTE),
            // It lasts no time, and is shown for a while.
            R::ClockJumped => {
                (Warning, millis(Span::from_secs(10)), millis(SECOND), Span::ZERO, 0, Span::ZERO, HOUR)
            }
        };
        let repeat = Some(Span::from_hours(4));
        Rule { name, severity, above, resolve_at, window, least, hold, calm, repeat, notify: None }
    }

    /// Every rule as it is unless somebody says otherwise.
    pub fn all() -> BTreeMap<RuleName, Rule> {
        RuleName::ALL.iter().map(|name| (*name, Rule::usual(*name))).collect()
    }
}

/// What is configured of alerts.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// How often everything is looked at.
    pub every: Span,
    /// The rules that are looked at.
    pub rules: BTreeMap<RuleName, Rule>,
    /// Who can be told.
    pub targets: BTreeMap<NoticeName, Target>,
    /// Who looks after which dead letters; of those that a letter fits, the first has it.
    pub teams: Vec<Team>,
    /// What people are sent regularly.
    pub reports: BTreeMap<ReportName, Report>,
    /// Where people find Pombo, for links.
    pub public_url: Option<String>,
    /// Whose clock the times in letters are of.
    pub zone: Zone,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            every: Span::from_secs(10),
            rules: Rule::all(),
            targets: BTreeMap::new(),
            teams: Vec::new(),
            reports: BTreeMap::new(),
            public_url: None,
            zone: Zone::default(),
        }
    }
}

impl Plan {
    /// Who is told of an alert of that rule.
    pub fn told(&self, rule: &Rule) -> Vec<&Target> {
        match &rule.notify {
            Some(names) => names.iter().filter_map(|name| self.targets.get(name)).collect(),
            None => self.targets.values().filter(|it| it.min_severity <= rule.severity).collect(),
        }
    }

    /// The longest window that counts are needed for.
    pub fn window(&self) -> Span {
        let counted = self.rules.values().filter(|rule| rule.name.is_counted());
        counted.map(|rule| rule.window).max().unwrap_or_default().max(Span::from_mins(1))
    }

    /// Where people can look at something, if that is known: `alerts`, and its id.
    pub fn link(&self, what: &str, id: &str) -> Option<String> {
        self.page(&format!("{what}/{id}"))
    }

    /// The page at that address, if it is known where people find Pombo.
    pub fn page(&self, path: &str) -> Option<String> {
        self.public_url.as_ref().map(|url| format!("{}/{path}", url.trim_end_matches('/')))
    }
}

/// What an alert is about: a channel or one thing of it, or all of a tenant's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Subject {
    /// Whose it is. What concerns the whole store is the default tenant's.
    pub tenant: Tenant,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelName>,
    /// A template or an error category.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Subject {
    pub fn house(tenant: Tenant) -> Subject {
        Subject { tenant, channel: None, detail: None }
    }

    pub fn channel(tenant: Tenant, channel: ChannelName) -> Subject {
        Subject { tenant, channel: Some(channel), detail: None }
    }
}

/// For people: `smtp`, `smtp / welcome`, or nothing.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [self.channel.as_ref().map(ChannelName::as_str), self.detail.as_deref()];
        f.pad(&parts.into_iter().flatten().collect::<Vec<_>>().join(" / "))
    }
}

/// One cause of many, with nothing personal in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelName>,
    /// An error category, the kind of a block, or the like.
    pub what: String,
    /// In words, without what could be a person's.
    pub text: String,
    #[serde(default)]
    pub count: u64,
    /// The newest message that it concerns, to look at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at: Option<Time>,
}

/// What a rule sees at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub rule: RuleName,
    pub subject: Subject,
    pub value: f64,
    /// How many it concerns, ...
    pub count: u64,
    /// ... and of how many, where that is known.
    pub of: Option<u64>,
    pub samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "AlertState")]
pub enum State {
    Firing,
    Resolved,
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            State::Firing => "firing",
            State::Resolved => "resolved",
        }
    }
}

/// Somebody has seen it, and looks after it. Nobody is reminded any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acknowledged {
    #[schemars(with = "String")]
    pub by: Actor,
    pub at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Nobody is told anything of it until then, this time or the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Silenced {
    pub until: Time,
    #[schemars(with = "String")]
    pub by: Actor,
    pub at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Something that is or was wrong, once. A document; what a newer version adds is ignored by an older one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alert {
    pub rule: RuleName,
    pub severity: Severity,
    #[serde(flatten)]
    pub subject: Subject,
    pub state: State,
    /// Since when it is wrong: before it fired, where the rule waits a while.
    pub first_seen: Time,
    pub fired_at: Time,
    /// When it was wrong last, to the minute.
    pub last_seen: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_at: Option<Time>,
    /// The threshold.
    pub above: f64,
    pub value: f64,
    pub peak: f64,
    #[serde(default)]
    pub count: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    #[serde(default)]
    pub window: Span,
    #[serde(default)]
    pub samples: Vec<Sample>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Acknowledged>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silenced: Option<Silenced>,
    /// How often people were told of it, and when last.
    #[serde(default)]
    pub told: u32,
    pub told_at: Time,
    /// What people are to be told of it, until it is sure that they will be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owes: Option<Why>,
}

impl Alert {
    /// Reads the text of a document; nothing if it cannot be understood.
    pub fn read(body: &str) -> Option<Alert> {
        serde_json::from_str(body).ok()
    }

    /// The id of the one that has been wrong since then: the same however often it is made.
    pub fn id(&self) -> String {
        let digest = digest(self.rule, &self.subject);
        let at = self.first_seen.millis() & 0xffff_ffff_ffff;
        format!("alr_{at:012x}{}", &digest[..20])
    }

    pub fn is_firing(&self) -> bool {
        self.state == State::Firing
    }

    pub fn is_silent(&self, now: Time) -> bool {
        self.silenced.as_ref().is_some_and(|silence| silence.until > now)
    }

    fn fired(rule: &Rule, seen: &Seen, since: Time, now: Time) -> Alert {
        Alert {
            rule: rule.name,
            severity: rule.severity,
            subject: seen.subject.clone(),
            state: State::Firing,
            first_seen: since,
            fired_at: now,
            last_seen: now,
            resolved_at: None,
            above: rule.above,
            value: seen.value,
            peak: seen.value,
            count: seen.count,
            of: seen.of,
            window: rule.window,
            samples: seen.samples.iter().take(SAMPLES_MAX).cloned().collect(),
            acknowledged: None,
            silenced: None,
            told: 1,
            told_at: now,
            owes: None,
        }
    }
}

/// By what an alert and its watch are told from others.
fn digest(rule: RuleName, subject: &Subject) -> String {
    let mut hash = Sha256::new();
    let parts = [
        rule.as_str(),
        subject.tenant.as_str(),
        subject.channel.as_ref().map_or("", ChannelName::as_str),
        subject.detail.as_deref().unwrap_or_default(),
    ];
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is remembered of a rule and a subject from one look to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// It is above its threshold since then, without a break.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rising: Option<Time>,
    /// It is over since then, without a break.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calm: Option<Time>,
}

/// What a look changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It is wrong, and people are told.
    Fire(Alert),
    /// It goes on.
    Go(Alert),
    /// It goes on, and people are told again.
    Remind(Alert),
    /// It is over, and people are told.
    Resolve(Alert),
}

impl Change {
    pub fn alert(&self) -> &Alert {
        match self {
            Change::Fire(alert) | Change::Go(alert) | Change::Remind(alert) | Change::Resolve(alert) => alert,
        }
    }
}

/// One look at one subject: what is remembered of it from then on, and what changes.
///
/// `firing` is the alert that there is. `seen` is what the rule sees; nothing, or too little to judge by, is as well as
/// nothing wrong. A wait that began later than now began before the clock was set back, and begins anew.
fn step(
    rule: &Rule,
    watch: &Watch,
    firing: Option<&Alert>,
    seen: Option<&Seen>,
    now: Time,
) -> (Watch, Option<Change>) {
    let value = seen.map_or(f64::NEG_INFINITY, |seen| seen.value);
    let Some(alert) = firing else {
        let Some(seen) = seen.filter(|_| value > rule.above) else { return (Watch::default(), None) };
        let since = watch.rising.unwrap_or(now).min(now);
        let fires = now.since(since) >= rule.hold;
        let watch = Watch { rising: Some(since), calm: None };
        return (watch, fires.then(|| Change::Fire(Alert::fired(rule, seen, since, now))));
    };
    if value <= rule.resolve_at {
        let since = watch.calm.unwrap_or(now).min(now);
        if now.since(since) < rule.calm {
            return (Watch { rising: None, calm: Some(since) }, None);
        }
        return (Watch::default(), Some(Change::Resolve(resolved(alert, now))));
    }
    let watch = Watch { rising: watch.rising, calm: None };
    let Some(seen) = seen else { return (watch, None) };
    let due = rule.repeat.is_some_and(|repeat| ago(alert.told_at, now) >= repeat);
    let quiet = alert.acknowledged.is_some() || alert.is_silent(now);
    let reminds = due && !quiet;
    let worse = value > alert.peak || rule.severity != alert.severity;
    if !reminds && !worse && ago(alert.last_seen, now) < SEEN_EVERY {
        return (watch, None);
    }
    let mut next = Alert {
        severity: rule.severity,
        last_seen: now,
        above: rule.above,
        value,
        peak: alert.peak.max(value),
        count: seen.count,
        of: seen.of,
        window: rule.window,
        ..alert.clone()
    };
    if !seen.samples.is_empty() {
        next.samples = seen.samples.iter().take(SAMPLES_MAX).cloned().collect();
    }
    if reminds {
        next.told += 1;
        next.told_at = now;
        return (watch, Some(Change::Remind(next)));
    }
    (watch, Some(Change::Go(next)))
}

/// How long ago that was. What lies further ahead than the clocks of nodes differ was written before the clock was set
/// back: longer ago than anything.
fn ago(then: Time, now: Time) -> Span {
    if then.since(now) > SEEN_EVERY { Span::from_millis(u64::MAX) } else { now.since(then) }
}

/// One look at everything: what changes, and what is remembered of each rule and subject that is not at rest.
///
/// An alert whose rule is no longer there is over.
pub fn round(
    rules: &BTreeMap<RuleName, Rule>,
    watches: &mut BTreeMap<String, Watch>,
    firing: &[Alert],
    seen: &[Seen],
    now: Time,
) -> Vec<Change> {
    let mut changes = Vec::new();
    let before = std::mem::take(watches);
    let mut look = |rule: RuleName, subject: &Subject, alert: Option<&Alert>, seen: Option<&Seen>| {
        let digest = digest(rule, subject);
        let watch = before.get(&digest).cloned().unwrap_or_default();
        let (watch, change) = match (rules.get(&rule), alert) {
            (Some(rule), alert) => step(rule, &watch, alert, seen, now),
            (None, Some(alert)) => (Watch::default(), Some(Change::Resolve(resolved(alert, now)))),
            (None, None) => return,
        };
        if watch != Watch::default() {
            watches.insert(digest, watch);
        }
        changes.extend(change);
    };
    for alert in firing {
        let seen = seen.iter().find(|seen| (seen.rule, &seen.subject) == (alert.rule, &alert.subject));
        look(alert.rule, &alert.subject, Some(alert), seen);
    }
    for seen in seen {
        if !firing.iter().any(|alert| (seen.rule, &seen.subject) == (alert.rule, &alert.subject)) {
            look(seen.rule, &seen.subject, None, Some(seen));
        }
    }
    changes
}

/// The alert, over.
fn resolved(alert: &Alert, now: Time) -> Alert {
    Alert { state: State::Resolved, resolved_at: Some(now), ..alert.clone() }
}
