//! A range of time: what happened in it, step by step, and how that is to be judged.

use std::collections::BTreeMap;

use pombo_kernel::kpi::{self, Decisions, Family, Kpi, NUMBERS, Period, Sums, Unit, share};
use pombo_kernel::name::{ChannelName, Tenant};
use pombo_kernel::setup::Setup;
use pombo_kernel::time::{Span, Time};
use pombo_kernel::window::Zone;
use pombo_store::{By, Counted, Measured, StatsWanted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::page::{Query, Wrong, parsed};

const DAY: Span = Span::from_hours(24);
/// A range is read hour by hour, so it has an end.
const LONGEST: Span = Span::from_hours(92 * 24);
/// Longer ones are shown by the day, if nobody says otherwise.
const BY_HOUR: Span = Span::from_hours(48);
/// A range by the hour has no more points than that.
const LONGEST_BY_HOUR: Span = Span::from_hours(31 * 24);
/// How many categories and templates are told of, those with the most first.
const LISTED: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Step")]
pub(crate) enum Step {
    Hour,
    Day,
    Week,
}

/// What is asked for.
pub(super) struct Asked {
    since: Time,
    until: Time,
    step: Step,
    zone: Zone,
    pub(super) channel: Option<ChannelName>,
    template: Option<String>,
}

impl Asked {
    /// Reads what makes up a range; nothing if none of it is given.
    pub(super) fn read(query: &mut Query, now: Time) -> Option<Asked> {
        let until = query.take("until", |text| moment(text, now));
        let given = query.take("since", |text| moment(text, now));
        let step = query.take("step", |text| match text {
            "hour" => Ok(Step::Hour),
            "day" => Ok(Step::Day),
            "week" => Ok(Step::Week),
            _ => Err(("is not a step".to_owned(), "write hour, day or week".to_owned())),
        });
        let zone = query.take("time_zone", parsed::<Zone>);
        let channel = query.take("channel", parsed);
        let template = query.take("template", |text| Ok(text.to_owned()));
        if until.is_none() && given.is_none() && step.is_none() && channel.is_none() && template.is_none() {
            return None;
        }
        // What happens just now is in the range.
        let end = until.unwrap_or(now + Span::from_millis(1));
        let since = given
            .unwrap_or_else(|| end - if step == Some(Step::Hour) { DAY } else { Span::from_hours(7 * 24) });
        let length = end.since(since);
        let most = if step == Some(Step::Hour) { LONGEST_BY_HOUR } else { LONGEST };
        query.take("since", |_| {
            let wrong = |what: &str, hint: String| Err((what.to_owned(), hint));
            match () {
                () if length == Span::ZERO => {
                    wrong("is not before `until`", "write 24h or 7d, for the last so long".into())
                }
                () if length > most + Span::from_millis(1) => {
                    wrong("is too long before `until`", format!("ask for {most} at most"))
                }
                () => Ok(()),
            }
        });
        let step = step.unwrap_or(if length <= BY_HOUR { Step::Hour } else { Step::Day });
        Some(Asked { since, until: end, step, zone: zone.unwrap_or_default(), channel, template })
    }

    /// The counters that are needed, also those of figures whose time is longer, added up as far as no border of what is
    /// told lies between them.
    pub(super) fn wanted(&self, tenant: Tenant) -> StatsWanted {
        let (day, week) = (self.until - Period::Day.span(), self.until - Period::Week.span());
        // Of these, the hours that they are in the midst of belong to what comes after.
        let begins = [self.since, day, week].map(|at| Time::from_millis(at_hour(at)));
        let by = By::Piece(self.steps().into_iter().chain(begins).collect());
        StatsWanted { tenant: Some(tenant), since: self.since.min(week), until: self.until, by }
    }

    /// Whether that hour is asked for.
    pub(super) fn has(&self, hour: Time) -> bool {
        overlaps(hour, self.since, self.until)
    }

    /// What a counter adds to, of all that has no detail. Of one template only how its messages end is known.
    pub(super) fn counts_as(&self, it: &Measured) -> Option<Counted> {
        match (&self.template, it.what) {
            (None, what) => Some(what).filter(|_| it.detail.is_empty()),
            (Some(only), Counted::SentByTemplate) => Some(Counted::Sent).filter(|_| it.detail == *only),
            (Some(only), Counted::FailedByTemplate) => Some(Counted::Failed).filter(|_| it.detail == *only),
            _ => None,
        }
    }

    /// Adds a counter to sums, as far as it is asked for.
    fn add(&self, it: &Measured, sums: &mut Sums) {
        if self.template.is_none() {
            it.add_to(sums);
        } else if let Some(what) = self.counts_as(it) {
            Measured { what, detail: String::new(), ..it.clone() }.add_to(sums);
        }
    }

    /// When each step begins, in order.
    fn steps(&self) -> Vec<Time> {
        let begins = |at| match self.step {
            Step::Hour => Time::from_millis(at_hour(at)),
            Step::Day => self.zone.today(at),
            Step::Week => self.zone.this_week(at),
        };
        let mut starts = Vec::new();
        let mut start = begins(self.since);
        while start < self.until {
            starts.push(start);
            // A day has 23 to 25 hours.
            let next = match self.step {
                Step::Hour => start + Span::from_hours(1),
                Step::Day => self.zone.tomorrow(start),
                Step::Week => begins(start + Span::from_hours(7 * 24 + 12)),
            };
            start = next.max(start + Span::from_hours(1));
        }
        starts
    }
}

fn at_hour(at: Time) -> i64 {
    at.hour().saturating_mul(3_600_000)
}

/// A time, or how long ago.
fn moment(text: &str, now: Time) -> Result<Time, Wrong> {
    if let Ok(ago) = text.parse::<Span>() {
        return Ok(now - ago);
    }
    let hint = "write how long ago, for example 24h or 7d, or RFC 3339 with a zone";
    text.parse().map_err(|_| ("is not a time".to_owned(), hint.to_owned()))
}

fn overlaps(hour: Time, since: Time, until: Time) -> bool {
    hour < until && hour + Span::from_hours(1) > since
}

/// What happened in a range. Its hours are whole ones: those that it touches.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "StatsRange")]
pub(crate) struct RangeView {
    since: Time,
    until: Time,
    step: Step,
    time_zone: String,
    /// Every step, also those in which nothing happened.
    series: Vec<PointView>,
    /// Each figure over its own period, up to the end of the range, and over the range.
    kpis: Vec<KpiView>,
    /// Attempts by number: which of them succeed, and after how long a wait. Those that did not count are not among them.
    attempts: Vec<TriesView>,
    time_to_delivery: DeliveryView,
    /// What failures of attempts were, the most frequent first.
    errors: Vec<ErrorView>,
    /// Why messages failed.
    failures: BTreeMap<String, u64>,
    /// How messages of each template ended, those with the most failures first.
    templates: Vec<TemplateView>,
    recovery: RecoveryView,
    /// Decisions about claims that others submit.
    decisions: Decisions,
}

#[derive(Default, Serialize, JsonSchema)]
#[schemars(rename = "StatsPoint")]
struct PointView {
    start: Time,
    accepted: u64,
    sent: u64,
    failed: u64,
    cancelled: u64,
    attempts: u64,
    retries: u64,
    /// Sent of those that were sent or failed.
    delivery_rate: Option<f64>,
    mean_seconds: Option<f64>,
    #[serde(skip)]
    sums: Sums,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Figure")]
struct KpiView {
    id: Kpi,
    family: Family,
    unit: Unit,
    period: Period,
    /// How the value is compared with the target: `>`, `>=`, `<` or `<=`.
    comparison: &'static str,
    target: f64,
    /// Over its period; null if nothing happened by which it could be told.
    value: Option<f64>,
    met: Option<bool>,
    value_in_range: Option<f64>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AttemptStats")]
struct TriesView {
    number: &'static str,
    made: u64,
    sent: u64,
    rate: Option<f64>,
    /// From the end of the attempt before.
    mean_wait_seconds: Option<f64>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TimeToDelivery")]
struct DeliveryView {
    sent: u64,
    mean_seconds: Option<f64>,
    p50_seconds: Option<f64>,
    p95_seconds: Option<f64>,
    /// How many were sent within each of these times and not the one before.
    within: Vec<WithinView>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SentWithin")]
struct WithinView {
    up_to: &'static str,
    count: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ErrorStats")]
struct ErrorView {
    category: String,
    count: u64,
    share: Option<f64>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TemplateStats")]
struct TemplateView {
    template: String,
    sent: u64,
    failed: u64,
    failure_rate: Option<f64>,
}

/// What retries come to.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Recovery")]
struct RecoveryView {
    /// Messages that had a retry.
    retried: u64,
    sent_after_retry: u64,
    failed: u64,
    /// Sent after a retry, of these and those that failed.
    rate: Option<f64>,
    /// Sent after a retry, of those that had one.
    retry_success_rate: Option<f64>,
}

impl RangeView {
    pub(super) fn of(asked: &Asked, measured: &[Measured], setup: &Setup) -> RangeView {
        let starts = asked.steps();
        let point = |start: &Time| PointView { start: *start, ..PointView::default() };
        let mut series: Vec<PointView> = starts.iter().map(point).collect();
        let (mut all, mut figures) = (Sums::default(), Figures::new(asked, setup));
        let mut errors: BTreeMap<&str, u64> = BTreeMap::new();
        let mut failures: BTreeMap<String, u64> = BTreeMap::new();
        let mut templates: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for it in measured {
            figures.add(it);
            let count = u64::try_from(it.count).unwrap_or(0);
            if !asked.has(it.hour) {
                continue;
            }
            asked.add(it, &mut all);
            let place = starts.partition_point(|start| *start <= it.hour).saturating_sub(1);
            if let Some(point) = series.get_mut(place) {
                point.add(asked, it, count);
            }
            match (it.what, &asked.template) {
                (Counted::SentByTemplate, _) => templates.entry(&it.detail).or_default().0 += count,
                (Counted::FailedByTemplate, _) => templates.entry(&it.detail).or_default().1 += count,
                (Counted::AttemptFailed, None) => *errors.entry(&it.detail).or_default() += count,
                (Counted::FailedFor, None) => *failures.entry(it.detail.clone()).or_default() += count,
                _ => {}
            }
        }
        series.iter_mut().for_each(PointView::judge);
        templates.retain(|name, _| asked.template.as_ref().is_none_or(|only| only == name));
        RangeView {
            since: asked.since,
            until: asked.until,
            step: asked.step,
            time_zone: asked.zone.to_string(),
            series,
            kpis: figures.judged(),
            attempts: attempts(&all),
            time_to_delivery: delivery(&all),
            errors: most_frequent(errors),
            failures,
            templates: by_template(templates),
            recovery: RecoveryView {
                retried: all.retried(),
                sent_after_retry: all.sent_after_retry(),
                failed: all.failed,
                rate: Kpi::Recovery.of(&all),
                retry_success_rate: Kpi::RetrySuccess.of(&all),
            },
            decisions: all.decisions,
        }
    }
}

impl PointView {
    fn add(&mut self, asked: &Asked, it: &Measured, count: u64) {
        asked.add(it, &mut self.sums);
        match asked.counts_as(it) {
            Some(Counted::Accepted) => self.accepted += count,
            Some(Counted::Sent) => self.sent += count,
            Some(Counted::Failed) => self.failed += count,
            Some(Counted::Cancelled) => self.cancelled += count,
            Some(Counted::Attempts) => self.attempts += count,
            Some(Counted::Retries) => self.retries += count,
            _ => {}
        }
    }

    fn judge(&mut self) {
        self.delivery_rate = Kpi::FinalDelivery.of(&self.sums);
        self.mean_seconds = self.sums.mean().map(Span::seconds);
    }
}

/// The sums behind the figures of one family: over a day, over a week, and over the range.
#[derive(Default)]
struct Behind {
    day: Sums,
    week: Sums,
    range: Sums,
}

struct Figures<'a> {
    asked: &'a Asked,
    setup: &'a Setup,
    messages: Behind,
    claims: Behind,
}

impl<'a> Figures<'a> {
    fn new(asked: &'a Asked, setup: &'a Setup) -> Figures<'a> {
        Figures { asked, setup, messages: Behind::default(), claims: Behind::default() }
    }

    fn add(&mut self, it: &Measured) {
        let behind = match self.setup.family(it.channel.as_ref()) {
            Some(Family::Messages) => &mut self.messages,
            Some(Family::Claims) => &mut self.claims,
            None => return,
        };
        let (asked, until) = (self.asked, self.asked.until);
        for (period, sums) in [(Period::Day, &mut behind.day), (Period::Week, &mut behind.week)] {
            if overlaps(it.hour, until - period.span(), until) {
                asked.add(it, sums);
            }
        }
        if asked.has(it.hour) {
            asked.add(it, &mut behind.range);
        }
    }

    fn judged(&self) -> Vec<KpiView> {
        let judge = |kpi: Kpi| {
            let behind = match kpi.family() {
                Family::Messages => &self.messages,
                Family::Claims => &self.claims,
            };
            let value = kpi.of(match kpi.period() {
                Period::Day => &behind.day,
                Period::Week => &behind.week,
            });
            let (comparison, target) = kpi.target().parts();
            KpiView {
                id: kpi,
                family: kpi.family(),
                unit: kpi.unit(),
                period: kpi.period(),
                comparison,
                target,
                value,
                met: value.map(|value| kpi.target().met(value)),
                value_in_range: kpi.of(&behind.range),
            }
        };
        Kpi::ALL.into_iter().map(judge).collect()
    }
}

fn attempts(all: &Sums) -> Vec<TriesView> {
    let tries = NUMBERS.into_iter().zip(all.tries).filter(|(_, tries)| tries.made > 0 || tries.sent > 0);
    let view = |(number, tries): (&'static str, kpi::Tries)| TriesView {
        number,
        made: tries.made,
        sent: tries.sent,
        rate: share(tries.sent, tries.made),
        mean_wait_seconds: tries
            .waited
            .millis()
            .checked_div(tries.made)
            .filter(|_| number != NUMBERS[0])
            .map(|ms| Span::from_millis(ms).seconds()),
    };
    tries.map(view).collect()
}

fn delivery(all: &Sums) -> DeliveryView {
    let details = kpi::WITHIN.into_iter().map(|(detail, _)| detail).chain([kpi::MORE]);
    DeliveryView {
        sent: all.within.iter().sum(),
        mean_seconds: all.mean().map(Span::seconds),
        p50_seconds: all.quantile(0.5).map(Span::seconds),
        p95_seconds: all.quantile(0.95).map(Span::seconds),
        within: details.zip(all.within).map(|(up_to, count)| WithinView { up_to, count }).collect(),
    }
}

fn most_frequent(errors: BTreeMap<&str, u64>) -> Vec<ErrorView> {
    let whole = errors.values().sum();
    let mut views: Vec<ErrorView> = errors
        .into_iter()
        .map(|(category, count)| ErrorView {
            category: category.to_owned(),
            count,
            share: share(count, whole),
        })
        .collect();
    views.sort_by_key(|view| std::cmp::Reverse(view.count));
    views.truncate(LISTED);
    views
}

fn by_template(templates: BTreeMap<&str, (u64, u64)>) -> Vec<TemplateView> {
    let view = |(template, (sent, failed)): (&str, (u64, u64))| TemplateView {
        template: template.to_owned(),
        sent,
        failed,
        failure_rate: share(failed, sent + failed),
    };
    let mut views: Vec<TemplateView> = templates.into_iter().map(view).collect();
    views.sort_by_key(|view| std::cmp::Reverse((view.failed, view.sent)));
    views.truncate(LISTED);
    views
}
