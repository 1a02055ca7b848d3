//! What is counted, when it happens, and how it is told: nothing is ever counted by reading rows.
//!
//! A group sums what it adds in memory, one sheet for each tenant, channel and lane, and writes each counter once. So
//! what a message costs is one look at its sheet and a few additions.

use std::collections::{BTreeMap, HashMap};

use pombo_kernel::delivery::Delivery;
use pombo_kernel::kpi::Sums;
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{FailureReason, Message, QueueName};
use pombo_kernel::name::{ChannelName, LaneName, Tenant};
#[cfg(feature = "planted")]
use pombo_kernel::planted;
use pombo_kernel::setup::NOTICES;
use pombo_kernel::time::{Span, Time};

use crate::Settlement;
use crate::audit::Event;
use crate::learning::week_of;

/// What was counted of all time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tally {
    pub tenant: Tenant,
    pub channel: ChannelName,
    pub what: Counted,
    pub count: u64,
}

/// The numbers are kept by stores, and never mean anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counted {
    Accepted = 1,
    Sent = 2,
    Failed = 3,
    Cancelled = 4,
    Discarded = 5,
    /// Everything that was tried, whether it counted or not.
    Attempts = 6,
    Retries = 7,
    Reprocessed = 8,
    // How often a message's delivery moved to each of these.
    DeliveryAccepted = 21,
    DeliveryFailed = 22,
    Delivered = 23,
    Bounced = 24,
    Read = 25,
    Complained = 26,
    // The rest is told apart by a detail, and counted by the hour alone.
    /// Attempts that counted, by their number (see [`NUMBERS`]); the sum is how long ago the one before had ended.
    AttemptNumbered = 31,
    /// Messages that were sent, by the number of the attempt; the sum is the time from acceptance, or from `send_at` if
    /// that is later.
    SentOnAttempt = 32,
    /// Attempts that failed, counted or not, by category.
    AttemptFailed = 33,
    /// Messages that failed, by reason.
    FailedFor = 34,
    SentByTemplate = 35,
    FailedByTemplate = 36,
    /// Messages of no campaign that were sent, by how long that took (see [`WITHIN`]), from the same moment as
    /// `SentOnAttempt`. Those of campaigns take as long as their pace wants.
    SentWithin = 37,
    /// Messages that wait or are being sent, by lane. It rises and falls, and is kept for all time alone: see
    /// [`Backlog`].
    Waiting = 38,
    /// Attempts at messages of no campaign, by how long after they were due they had ended (see [`WITHIN`]).
    AttemptWithin = 39,
    /// Retry decisions, by what was decided. They are of no channel.
    Decided = 40,
    // What retries teach is counted by the week alone, and told by [`learning`](crate::learning). The sum is how many
    // of these passed.
    /// Attempts after a failure that counted, by destination and [`Trial`](pombo_kernel::learn::Trial).
    Trial = 41,
    /// Outages, from a breaker's opening to the answer that closed it, by destination and how long that was; the sum is
    /// in milliseconds.
    OutageLasted = 42,
    /// Attempts after an error that no rule knew, by its words.
    UnmatchedFollowed = 43,
    /// Errors that no rule knew, by their words; the sum is how many were the end of their message.
    UnmatchedSeen = 44,
}

pub use pombo_kernel::kpi::{MORE, NUMBERS, WITHIN};

impl Counted {
    /// What has no detail, and is kept for all time as well.
    pub const ALL: [Counted; 14] = [
        Counted::Accepted,
        Counted::Sent,
        Counted::Failed,
        Counted::Cancelled,
        Counted::Discarded,
        Counted::Attempts,
        Counted::Retries,
        Counted::Reprocessed,
        Counted::DeliveryAccepted,
        Counted::DeliveryFailed,
        Counted::Delivered,
        Counted::Bounced,
        Counted::Read,
        Counted::Complained,
    ];

    /// What has a detail.
    pub const DETAILED: [Counted; 14] = [
        Counted::AttemptNumbered,
        Counted::SentOnAttempt,
        Counted::AttemptFailed,
        Counted::FailedFor,
        Counted::SentByTemplate,
        Counted::FailedByTemplate,
        Counted::SentWithin,
        Counted::Waiting,
        Counted::AttemptWithin,
        Counted::Decided,
        Counted::Trial,
        Counted::OutageLasted,
        Counted::UnmatchedFollowed,
        Counted::UnmatchedSeen,
    ];

    pub fn of(delivery: Delivery) -> Counted {
        match delivery {
            Delivery::Accepted => Counted::DeliveryAccepted,
            Delivery::Failed => Counted::DeliveryFailed,
            Delivery::Delivered => Counted::Delivered,
            Delivery::Bounced => Counted::Bounced,
            Delivery::Read => Counted::Read,
            Delivery::Complained => Counted::Complained,
        }
    }

    pub fn from_code(code: i64) -> Option<Counted> {
        Counted::ALL.into_iter().chain(Counted::DETAILED).find(|known| *known as i64 == code)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Counted::Accepted => "accepted",
            Counted::Sent => "sent",
            Counted::Failed => "failed",
            Counted::Cancelled => "cancelled",
            Counted::Discarded => "discarded",
            Counted::Attempts => "attempts",
            Counted::Retries => "retries",
            Counted::Reprocessed => "reprocessed",
            Counted::DeliveryAccepted => "delivery_accepted",
            Counted::DeliveryFailed => "delivery_failed",
            Counted::Delivered => "delivered",
            Counted::Bounced => "bounced",
            Counted::Read => "read",
            Counted::Complained => "complained",
            Counted::AttemptNumbered => "attempt_numbered",
            Counted::SentOnAttempt => "sent_on_attempt",
            Counted::AttemptFailed => "attempt_failed",
            Counted::FailedFor => "failed_for",
            Counted::SentByTemplate => "sent_by_template",
            Counted::FailedByTemplate => "failed_by_template",
            Counted::SentWithin => "sent_within",
            Counted::Waiting => "waiting",
            Counted::AttemptWithin => "attempt_within",
            Counted::Decided => "decided",
            Counted::Trial => "trial",
            Counted::OutageLasted => "outage_lasted",
            Counted::UnmatchedFollowed => "unmatched_followed",
            Counted::UnmatchedSeen => "unmatched_seen",
        }
    }

    /// It is counted by the week, and told by [`learning`](crate::learning) alone.
    pub(crate) fn is_lesson(self) -> bool {
        self as u8 >= Counted::Trial as u8
    }

    /// The hours under which it is kept, 0 for all time, if it happens now.
    pub(crate) fn hours(self, now: Time) -> impl Iterator<Item = i64> {
        let hour = if self.is_lesson() { week_of(now) } else { now.hour() };
        let by_hour = (self != Counted::Waiting).then_some(hour);
        let all_time =
            (self == Counted::Waiting || (self as u8) < Counted::AttemptNumbered as u8).then_some(0);
        by_hour.into_iter().chain(all_time)
    }
}

/// Which hours to tell of: all that overlap with the time from `since` until before `until`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsWanted {
    /// Everybody's if none.
    pub tenant: Option<Tenant>,
    pub since: Time,
    pub until: Time,
    pub by: By,
}

/// How hours are told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// Each of its own.
    Hour,
    /// Added up from cut to cut, so that a long time costs no more to tell than a short one. An hour belongs to the last
    /// cut that is not after its start.
    Piece(Vec<Time>),
}

const HOUR_MS: i64 = 3_600_000;

impl StatsWanted {
    /// The first hour and the one after the last.
    pub(crate) fn hours(&self) -> (i64, i64) {
        (self.since.hour().max(1), first_from(self.until))
    }

    /// The first hour of each piece, in order, if hours are added up. There is at least one.
    pub(crate) fn pieces(&self) -> Option<Vec<i64>> {
        let By::Piece(cuts) = &self.by else { return None };
        let (from, until) = self.hours();
        let cuts = cuts.iter().map(|cut| first_from(*cut)).filter(|hour| (from + 1..until).contains(hour));
        let mut pieces: Vec<i64> = cuts.chain([from]).collect();
        pieces.sort_unstable();
        pieces.dedup();
        Some(pieces)
    }
}

/// The first hour that begins at that time or after it.
fn first_from(at: Time) -> i64 {
    Time::from_millis(at.millis().saturating_add(HOUR_MS - 1)).hour()
}

/// When an hour began.
pub(crate) fn start_of(hour: i64) -> Time {
    Time::from_millis(hour.saturating_mul(HOUR_MS))
}

/// What was counted in one hour, or one piece of the time that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Measured {
    /// Its start, or that of the piece's first.
    pub hour: Time,
    pub tenant: Tenant,
    /// None of what concerns no channel.
    pub channel: Option<ChannelName>,
    pub what: Counted,
    /// Empty where `what` has none.
    pub detail: String,
    pub count: i64,
    /// In milliseconds, of what lasts.
    pub sum: i64,
}

impl Measured {
    /// Adds it to what a figure is told by.
    pub fn add_to(&self, sums: &mut Sums) {
        let count = u64::try_from(self.count).unwrap_or(0);
        let span = Span::from_millis(u64::try_from(self.sum).unwrap_or(0));
        let number = || NUMBERS.iter().position(|number| *number == self.detail);
        match self.what {
            Counted::Sent => sums.sent += count,
            Counted::Failed => sums.failed += count,
            Counted::FailedFor if self.detail == FailureReason::PermanentError.as_str() => {
                sums.permanent += count;
            }
            Counted::FailedFor if self.detail == FailureReason::MaxRetriesExceeded.as_str() => {
                sums.exhausted += count;
            }
            Counted::AttemptNumbered => {
                if let Some(tries) = number().map(|place| &mut sums.tries[place]) {
                    (tries.made, tries.waited) = (tries.made + count, tries.waited + span);
                }
            }
            Counted::SentOnAttempt => {
                if let Some(tries) = number().map(|place| &mut sums.tries[place]) {
                    tries.sent += count;
                }
            }
            Counted::SentWithin => {
                let place = WITHIN.iter().position(|(detail, _)| *detail == self.detail);
                sums.within[place.unwrap_or(WITHIN.len())] += count;
                sums.took = sums.took + span;
            }
            Counted::Decided => match self.detail.as_str() {
                "retry" => sums.decisions.retry += count,
                "permanent_error" => sums.decisions.permanent_error += count,
                _ => sums.decisions.max_retries_exceeded += count,
            },
            _ => {}
        }
    }
}

/// How much of a tenant's lane and channel waits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Backlog {
    pub tenant: Tenant,
    pub lane: LaneName,
    pub channel: ChannelName,
    /// Messages that have not ended, those that are being sent among them.
    pub waiting: u64,
    /// Messages that could have gone by now, at most [`PAST_DUE_SEEN`]. Those of campaigns are not among them: they go at
    /// their campaign's pace.
    pub past_due: u64,
    /// Since when the one that has waited longest of these is due.
    pub oldest_due: Option<Time>,
}

/// So many that are past due are looked at for each tenant, lane and channel.
pub const PAST_DUE_SEEN: u64 = 1_000;

/// What could have gone by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Late {
    pub(crate) count: u64,
    pub(crate) oldest: Time,
}

/// Depths, in order, with what of each is late.
pub(crate) fn backlog_of(
    depths: Vec<((Tenant, LaneName, ChannelName), u64)>,
    late: &BTreeMap<(Tenant, LaneName, ChannelName), Late>,
) -> Vec<Backlog> {
    let of = |(place, waiting)| {
        let late = late.get(&place);
        let (tenant, lane, channel) = place;
        let (past_due, oldest_due) = late.map_or((0, None), |late| (late.count, Some(late.oldest)));
        Backlog { tenant, lane, channel, waiting, past_due, oldest_due }
    };
    depths.into_iter().map(of).collect()
}

/// How many, and how long altogether in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) count: i64,
    pub(crate) ms: i64,
}

impl Sum {
    fn of(count: i64) -> Sum {
        Sum { count, ms: 0 }
    }

    fn lasting(span: Span) -> Sum {
        Sum { count: 1, ms: i64::try_from(span.millis()).unwrap_or(i64::MAX) }
    }

    pub(crate) fn add(&mut self, other: Sum) {
        self.count += other.count;
        self.ms = self.ms.saturating_add(other.ms);
    }
}

/// A counter that a group has added to.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) tenant: Tenant,
    pub(crate) channel: Option<ChannelName>,
    pub(crate) what: Counted,
    pub(crate) detail: String,
    pub(crate) sum: Sum,
}

/// What a group adds to the counters, until it is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    sheets: Vec<Sheet>,
    places: HashMap<(Tenant, ChannelName, LaneName), usize>,
    /// The sheet that was written to last: most groups have one.
    last: usize,
    decided: BTreeMap<(Tenant, &'static str), i64>,
    outages: BTreeMap<(ChannelName, String), Sum>,
}

/// What is added for one tenant, channel and lane: what comes with every message has a place of its own.
#[derive(Clone, Debug)]
struct Sheet {
    tenant: Tenant,
    channel: ChannelName,
    lane: LaneName,
    plain: [i64; Counted::ALL.len()],
    waiting: i64,
    numbered: [Sum; NUMBERS.len()],
    sent_on: [Sum; NUMBERS.len()],
    sent_within: [Sum; WITHIN.len() + 1],
    ended_within: [Sum; WITHIN.len() + 1],
    rest: BTreeMap<Counted, BTreeMap<String, i64>>,
    lessons: BTreeMap<(Counted, String), Sum>,
}

impl Sheet {
    fn of(queue: &QueueName) -> Sheet {
        Sheet {
            tenant: queue.tenant.clone(),
            channel: queue.channel.clone(),
            lane: queue.lane.clone(),
            plain: Default::default(),
            waiting: 0,
            numbered: Default::default(),
            sent_on: Default::default(),
            sent_within: Default::default(),
            ended_within: Default::default(),
            rest: BTreeMap::new(),
            lessons: BTreeMap::new(),
        }
    }

    fn is_of(&self, queue: &QueueName) -> bool {
        self.channel == queue.channel && self.tenant == queue.tenant && self.lane == queue.lane
    }

    fn one(&mut self, what: Counted) {
        if let Some(place) = Counted::ALL.iter().position(|known| *known == what) {
            self.plain[place] += 1;
        }
    }

    fn one_of(&mut self, what: Counted, detail: &str) {
        let counts = self.rest.entry(what).or_default();
        match counts.get_mut(detail) {
            Some(count) => *count += 1,
            None => drop(counts.insert(detail.to_owned(), 1)),
        }
    }

    fn failed(&mut self, message: &Message, reason: FailureReason) {
        self.waiting -= 1;
        self.one(Counted::Failed);
        self.one_of(Counted::FailedFor, reason.as_str());
        if let Some(template) = &message.body.template {
            self.one_of(Counted::FailedByTemplate, template);
        }
    }

    fn entries(self) -> impl Iterator<Item = Entry> {
        let plain = Counted::ALL.into_iter().zip(self.plain);
        let plain = plain.map(|(what, count)| (what, String::new(), Sum::of(count)));
        let waiting = (Counted::Waiting, self.lane.as_str().to_owned(), Sum::of(self.waiting));
        let listed = numbered(Counted::AttemptNumbered, self.numbered)
            .chain(numbered(Counted::SentOnAttempt, self.sent_on))
            .chain(within(Counted::SentWithin, self.sent_within))
            .chain(within(Counted::AttemptWithin, self.ended_within));
        let rest = self.rest.into_iter().flat_map(|(what, counts)| {
            counts.into_iter().map(move |(detail, count)| (what, detail, Sum::of(count)))
        });
        let lessons = self.lessons.into_iter().map(|((what, detail), sum)| (what, detail, sum));
        let all = plain.chain([waiting]).chain(listed).chain(rest).chain(lessons);
        let (tenant, channel) = (self.tenant, self.channel);
        // What Pombo tells people of itself is nobody's message: it waits, and that it was tried is a sign of life.
        let is_own = self.lane.as_str() == NOTICES;
        let counts = move |what| !is_own || matches!(what, Counted::Waiting | Counted::Attempts);
        all.filter(move |(what, _, sum)| *sum != Sum::default() && counts(*what)).map(
            move |(what, detail, sum)| Entry {
                tenant: tenant.clone(),
                channel: Some(channel.clone()),
                what,
                detail,
                sum,
            },
        )
    }
}

type Listed = (Counted, String, Sum);

fn numbered(what: Counted, sums: [Sum; NUMBERS.len()]) -> impl Iterator<Item = Listed> {
    NUMBERS.into_iter().zip(sums).map(move |(detail, sum)| (what, detail.to_owned(), sum))
}

fn within(what: Counted, sums: [Sum; WITHIN.len() + 1]) -> impl Iterator<Item = Listed> {
    let details = WITHIN.into_iter().map(|(detail, _)| detail).chain([MORE]);
    details.zip(sums).map(move |(detail, sum)| (what, detail.to_owned(), sum))
}

/// Where an attempt stands among the [`NUMBERS`].
fn place_of(number: u16) -> usize {
    usize::from(number.max(1) - 1).min(NUMBERS.len() - 1)
}

/// Where a length of time stands among those [`WITHIN`] which things happen.
fn bucket_of(span: Span) -> usize {
    WITHIN.iter().position(|(_, most)| span <= *most).unwrap_or(WITHIN.len())
}

/// What is known of an attempt that ended, besides what was decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    /// When it was due.
    pub(crate) due: Time,
    /// When the last that happened to the message had ended, if there was anything.
    pub(crate) after: Option<Time>,
}

impl Ledger {
    pub(crate) fn clear(&mut self) {
        *self = Ledger::default();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sheets.is_empty() && self.decided.is_empty() && self.outages.is_empty()
    }

    fn sheet(&mut self, queue: &QueueName) -> &mut Sheet {
        if !self.sheets.get(self.last).is_some_and(|sheet| sheet.is_of(queue)) {
            let key = (queue.tenant.clone(), queue.channel.clone(), queue.lane.clone());
            let sheets = &mut self.sheets;
            self.last = *self.places.entry(key).or_insert_with(|| {
                sheets.push(Sheet::of(queue));
                sheets.len() - 1
            });
        }
        &mut self.sheets[self.last]
    }

    pub(crate) fn accepted(&mut self, queue: &QueueName) {
        let sheet = self.sheet(queue);
        sheet.one(Counted::Accepted);
        sheet.waiting += 1;
    }

    pub(crate) fn settled(&mut self, message: &Message, settlement: &Settlement, course: Course) {
        let sheet = self.sheet(&message.queue);
        let attempt = &settlement.attempt;
        sheet.one(Counted::Attempts);
        if let Some(failure) = &attempt.failure {
            sheet.one_of(Counted::AttemptFailed, &failure.category);
        }
        if message.queue.campaign.is_none() {
            let took = attempt.finished_at.since(course.due);
            sheet.ended_within[bucket_of(took)].add(Sum::lasting(took));
        }
        let place = place_of(attempt.number);
        if !matches!(settlement.next, Next::Held { .. }) {
            let before = course.after.filter(|_| place > 0).unwrap_or(attempt.started_at);
            sheet.numbered[place].add(Sum::lasting(attempt.started_at.since(before)));
        }
        match &settlement.next {
            Next::Sent(_) => {
                let asked = message.created_at().max(message.send_at.unwrap_or_default());
                let took = attempt.finished_at.since(asked);
                sheet.waiting -= 1;
                #[cfg(feature = "planted")]
                if planted::is(planted::Bug::SentUncounted) {
                    return;
                }
                sheet.one(Counted::Sent);
                sheet.sent_on[place].add(Sum::lasting(took));
                if message.queue.campaign.is_none() {
                    sheet.sent_within[bucket_of(took)].add(Sum::lasting(took));
                }
                if let Some(template) = &message.body.template {
                    sheet.one_of(Counted::SentByTemplate, template);
                }
            }
            Next::Failed(reason) => sheet.failed(message, *reason),
            Next::Retry { .. } => sheet.one(Counted::Retries),
            Next::Held { .. } => {}
        }
    }

    /// One more of what retries teach.
    pub(crate) fn lesson(&mut self, queue: &QueueName, what: Counted, detail: String, passed: bool) {
        let sum = Sum { count: 1, ms: i64::from(passed) };
        self.sheet(queue).lessons.entry((what, detail)).or_default().add(sum);
    }

    pub(crate) fn outage(&mut self, channel: &ChannelName, detail: String, lasted: Span) {
        self.outages.entry((channel.clone(), detail)).or_default().add(Sum::lasting(lasted));
    }

    pub(crate) fn expired(&mut self, message: &Message) {
        self.sheet(&message.queue).failed(message, FailureReason::Expired);
    }

    pub(crate) fn cancelled(&mut self, queue: &QueueName) {
        let sheet = self.sheet(queue);
        sheet.one(Counted::Cancelled);
        sheet.waiting -= 1;
    }

    pub(crate) fn reprocessed(&mut self, queue: &QueueName) {
        let sheet = self.sheet(queue);
        sheet.one(Counted::Reprocessed);
        sheet.waiting += 1;
    }

    pub(crate) fn discarded(&mut self, queue: &QueueName) {
        self.sheet(queue).one(Counted::Discarded);
    }

    pub(crate) fn reported(&mut self, queue: &QueueName, delivery: Delivery) {
        self.sheet(queue).one(Counted::of(delivery));
    }

    /// A document was shelved, and that is recorded of it.
    pub(crate) fn shelved(&mut self, tenant: &Tenant, event: Event) {
        let decided = match event {
            Event::RetryDecided => "retry",
            Event::RetriesExhausted => FailureReason::MaxRetriesExceeded.as_str(),
            Event::PermanentErrorFound => FailureReason::PermanentError.as_str(),
            _ => return,
        };
        *self.decided.entry((tenant.clone(), decided)).or_default() += 1;
    }

    /// All that there is, which is forgotten.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Entry> {
        let Ledger { sheets, decided, outages, .. } = std::mem::take(self);
        let decided = decided.into_iter().map(|((tenant, detail), count)| Entry {
            tenant,
            channel: None,
            what: Counted::Decided,
            detail: detail.to_owned(),
            sum: Sum::of(count),
        });
        let outages = outages.into_iter().map(|((channel, detail), sum)| Entry {
            tenant: Tenant::default(),
            channel: Some(channel),
            what: Counted::OutageLasted,
            detail,
            sum,
        });
        sheets.into_iter().flat_map(Sheet::entries).chain(decided).chain(outages)
    }
}
