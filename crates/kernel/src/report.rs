//! Figures that people are sent regularly: of a day, a week or a month that has ended, at a time of day where they are.
//!
//! A report is of a period, and each period is sent once: what decides is which one ended last, not how long ago somebody
//! looked. A node that was down at the time sends the newest one that was missed, and none that is older.

#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::alert::Language;
use crate::kpi::{self, Decisions, Family, Kpi, NUMBERS, Sums, share};
use crate::name::{ChannelName, NoticeName, ReportName, Tenant};
use crate::time::{Span, Time};
use crate::window::{Date, Day, Minute, Zone};

pub use words::letter;

/// What people are sent, when, and who they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub name: ReportName,
    /// Whose messages it is about.
    pub tenant: Tenant,
    pub schedule: Schedule,
    pub notify: Vec<NoticeName>,
    /// Each target's own unless it is said.
    pub language: Option<Language>,
}

/// How long the period of a report is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ReportPeriod")]
pub enum Every {
    Day,
    Week,
    Month,
}

impl Every {
    pub fn as_str(self) -> &'static str {
        match self {
            Every::Day => "day",
            Every::Week => "week",
            Every::Month => "month",
        }
    }
}

/// When a report is due.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub every: Every,
    /// The day on which a week begins, and its report is sent.
    pub day: Day,
    pub at: Minute,
    pub zone: Zone,
}

/// The time that a report is about, from midnight to midnight where people are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    pub since: Time,
    pub until: Time,
    pub first: Date,
    pub last: Date,
}

impl Schedule {
    /// The period in which a date lies.
    pub fn period(&self, date: Date) -> Period {
        let first = match self.every {
            Every::Day => date,
            Every::Week => {
                (0..7).map(|back| date.plus(-back)).find(|it| it.weekday() == self.day).unwrap_or(date)
            }
            Every::Month => date.first_of_month(),
        };
        let next = match self.every {
            Every::Day => first.plus(1),
            Every::Week => first.plus(7),
            Every::Month => first.plus(31).first_of_month(),
        };
        let (since, until) = (self.zone.start(first), self.zone.start(next));
        Period { since, until, first, last: next.plus(-1) }
    }

    /// When the report of a period is due: on the day after it.
    fn due(&self, period: &Period) -> Time {
        self.zone.moment(period.last.plus(1), self.at)
    }

    /// The newest period whose report is due by now.
    pub fn latest(&self, now: Time) -> Period {
        let before = |period: &Period| self.period(period.first.plus(-1));
        let ended = before(&self.period(self.zone.day(now)));
        if self.due(&ended) <= now { ended } else { before(&ended) }
    }

    /// When the next report is due.
    pub fn next(&self, now: Time) -> Time {
        let following = self.period(self.latest(now).last.plus(1));
        self.due(&following)
    }

    /// The period whose report is to be sent now, if the last one that was sent, or passed over, ended then.
    pub fn owed(&self, sent_until: Time, now: Time) -> Option<Period> {
        Some(self.latest(now)).filter(|period| period.until > sent_until)
    }
}

/// What was counted in a period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub accepted: u64,
    pub cancelled: u64,
    pub retries: u64,
    pub messages: Sums,
    pub claims: Sums,
    /// The same over a week up to the end, where the period is shorter: some figures are judged over a week.
    pub week: Option<(Sums, Sums)>,
    pub channels: BTreeMap<ChannelName, Sums>,
    /// Failures of attempts, by category.
    pub errors: BTreeMap<String, u64>,
    /// Dead letters that wait by now, by cause, the largest first; and how many there are altogether.
    pub waiting: Vec<Waiting>,
    pub dead: u64,
}

/// Dead letters of one cause.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ReportCause")]
pub struct Waiting {
    pub channel: ChannelName,
    pub category: String,
    /// The error, without what differs from message to message.
    pub text: String,
    pub count: u64,
}

/// A report as programs read it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ReportFigures")]
pub struct Figures {
    pub report: ReportName,
    pub every: Every,
    pub since: Time,
    pub until: Time,
    pub time_zone: String,
    pub totals: Totals,
    /// Refused for good: messages and claims, and decisions about claims that others submit.
    pub permanent_errors: Part,
    /// Given up since no attempt was left; likewise.
    pub exhausted_retries: Part,
    pub retries: Effect,
    pub kpis: Vec<Figure>,
    /// Those on which something happened.
    pub channels: Vec<ChannelFigures>,
    /// What failures of attempts were, the most frequent first.
    pub errors: Vec<Errors>,
    pub decisions: Decisions,
    /// Dead letters that wait for somebody to decide, when the report was made.
    pub dead_letters: u64,
    /// The same by cause, the largest first.
    pub causes: Vec<Waiting>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ReportTotals")]
pub struct Totals {
    pub accepted: u64,
    pub sent: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub retries: u64,
    /// Sent of those that were sent or failed.
    pub delivery_rate: Option<f64>,
}

/// So many, and which part of all that ended or was decided.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ReportPart")]
pub struct Part {
    pub count: u64,
    pub share: Option<f64>,
}

/// What retries come to.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "RetryEffect")]
pub struct Effect {
    /// Messages that had a retry.
    pub retried: u64,
    pub sent_after_retry: u64,
    /// Sent after a retry, of those that had one.
    pub success_rate: Option<f64>,
    pub attempts: Vec<Attempts>,
}

/// Attempts of one number.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ReportAttempts")]
pub struct Attempts {
    pub number: &'static str,
    pub made: u64,
    pub sent: u64,
    pub rate: Option<f64>,
}

/// A figure against its target.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ReportFigure")]
pub struct Figure {
    pub id: Kpi,
    pub family: Family,
    pub unit: kpi::Unit,
    /// How the value is compared with the target: `>`, `>=`, `<` or `<=`.
    pub comparison: &'static str,
    pub target: f64,
    /// Null if nothing happened by which it could be told.
    pub value: Option<f64>,
    pub met: Option<bool>,
    /// Judged over a week, though the report is of less.
    pub over_week: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ReportChannel")]
pub struct ChannelFigures {
    pub channel: ChannelName,
    pub sent: u64,
    pub failed: u64,
    pub permanent_errors: u64,
    pub exhausted_retries: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ReportErrors")]
pub struct Errors {
    pub category: String,
    pub count: u64,
}

/// Error categories that a report lists.
const ERRORS_MAX: usize = 10;

impl Figures {
    pub fn of(report: &Report, period: &Period, facts: Facts) -> Figures {
        let Facts { accepted, cancelled, retries, messages, claims, week, channels, errors, waiting, dead } =
            facts;
        let (sent, failed) = (messages.sent + claims.sent, messages.failed + claims.failed);
        let decisions = claims.decisions;
        let judged = sent + failed + decisions.made();
        let part = |count| Part { count, share: share(count, judged) };
        let retried = messages.retried() + claims.retried();
        let sent_after_retry = messages.sent_after_retry() + claims.sent_after_retry();
        let attempts = NUMBERS.into_iter().zip(messages.tries.iter().zip(&claims.tries));
        let attempts = attempts.filter_map(|(number, (one, other))| {
            let (made, sent) = (one.made + other.made, one.sent + other.sent);
            (made > 0 || sent > 0).then(|| Attempts { number, made, sent, rate: share(sent, made) })
        });
        let mut errors: Vec<Errors> =
            errors.into_iter().map(|(category, count)| Errors { category, count }).collect();
        errors.sort_by_key(|it| std::cmp::Reverse(it.count));
        errors.truncate(ERRORS_MAX);
        let figure = |id: Kpi| {
            let weekly = week.as_ref().filter(|_| id.period() == kpi::Period::Week);
            let (of_messages, of_claims) = weekly.map_or((&messages, &claims), |(one, other)| (one, other));
            let value = id.of(match id.family() {
                Family::Messages => of_messages,
                Family::Claims => of_claims,
            });
            let (comparison, target) = id.target().parts();
            Figure {
                id,
                family: id.family(),
                unit: id.unit(),
                comparison,
                target,
                value,
                met: value.map(|value| id.target().met(value)),
                over_week: weekly.is_some(),
            }
        };
        let channel = |(channel, sums): (ChannelName, Sums)| ChannelFigures {
            channel,
            sent: sums.sent,
            failed: sums.failed,
            permanent_errors: sums.permanent,
            exhausted_retries: sums.exhausted,
        };
        Figures {
            report: report.name.clone(),
            every: report.schedule.every,
            since: period.since,
            until: period.until,
            time_zone: report.schedule.zone.to_string(),
            totals: Totals {
                accepted,
                sent,
                failed,
                cancelled,
                retries,
                delivery_rate: share(sent, sent + failed),
            },
            permanent_errors: part(messages.permanent + claims.permanent + decisions.permanent_error),
            exhausted_retries: part(messages.exhausted + claims.exhausted + decisions.max_retries_exceeded),
            retries: Effect {
                retried,
                sent_after_retry,
                success_rate: share(sent_after_retry, retried),
                attempts: attempts.collect(),
            },
            kpis: Kpi::ALL.into_iter().map(figure).collect(),
            channels: channels.into_iter().map(channel).filter(|it| it.sent + it.failed > 0).collect(),
            errors,
            decisions,
            dead_letters: dead,
            causes: waiting,
        }
    }
}

/// From when on counters are needed for a report of that period, and whether those before it are for the week alone.
pub fn counted_from(period: &Period) -> (Time, bool) {
    let week = period.until - Span::from_hours(7 * 24);
    (period.since.min(week), week < period.since)
}
