//! What attempts that follow a failure teach: counted when it happens, in the counters of the week, and read back
//! without looking at a message.
//!
//! A message that is sent at the first attempt teaches nothing and costs nothing. Counters are told apart by names that
//! are bounded: so many destinations and so many unknown errors of a channel in a week, and the rest together.

use std::collections::{BTreeMap, BTreeSet};

use pombo_kernel::adapt::Seen;
use pombo_kernel::cause;
use pombo_kernel::classify::Verdict;
use pombo_kernel::learn::{self, Bucket, Cell, Counts, Trial};
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{AttemptFailure, Message, Progress, QueueName};
use pombo_kernel::name::{ChannelName, Tenant};
use pombo_kernel::setup::NOTICES;
use pombo_kernel::time::{Span, Time};

use crate::stats::{Counted, Ledger, start_of};
use crate::{Place, Settlement};

/// So many destinations of a tenant's channel are told apart in a week.
pub const DESTINATIONS: usize = 20;
/// So many errors of a tenant's channel that no rule knows are told apart in a week.
pub const ERRORS: usize = 100;
/// Weeks that are read, the one that goes on among them: what was true long ago is forgotten by then.
pub const WEEKS: i64 = 8;

const WEEK_HOURS: i64 = 7 * 24;
/// Names longer than this are not told apart.
const LONGEST: usize = 200;
/// How long the names that are known are taken for all there are: other nodes add some as well.
const NAMES_KEPT: Span = Span::from_mins(10);
/// Stands between the parts of a detail.
const BETWEEN: char = '\t';

/// The hour under which the week is kept that a time is in.
pub(crate) fn week_of(now: Time) -> i64 {
    let hour = now.hour();
    hour - hour.rem_euclid(WEEK_HOURS)
}

/// The hours under which the weeks are kept that are read by then.
pub(crate) fn weeks(now: Time) -> Vec<i64> {
    let this = week_of(now);
    (0..WEEKS).rev().map(|ago| this - ago * WEEK_HOURS).filter(|week| *week >= 0).collect()
}

/// Since when there is anything to be told by then.
pub fn read_since(now: Time) -> Time {
    start_of(weeks(now).first().copied().unwrap_or_default())
}

/// What was learnt of one thing in the weeks that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learnt {
    pub tenant: Tenant,
    pub channel: ChannelName,
    pub lesson: Lesson,
    /// How often.
    pub tried: u64,
    /// How many of those passed; of errors that were seen, how many were the end of their message.
    pub passed: u64,
}

/// What was counted. Where there is no destination, it is that of many together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lesson {
    /// Retries after a failure of that category.
    Trial { category: String, destination: Option<String>, cell: Cell },
    /// Outages, by how long they lasted. They concern all tenants, and are kept as the default one's.
    Outage { destination: Option<String>, lasted: Bucket },
    /// Retries after an error that no rule knew, by its words; none for those of many together.
    Followed { text: Option<String> },
    /// Errors that no rule knew, by their words.
    Seen { text: Option<String> },
}

impl Lesson {
    pub(crate) fn read(what: Counted, detail: &str) -> Option<Lesson> {
        let known = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
        match what {
            Counted::Trial => {
                let (destination, key) = detail.split_once(BETWEEN)?;
                let (category, cell) = learn::parse_key(key)?;
                Some(Lesson::Trial { category: category.to_owned(), destination: known(destination), cell })
            }
            Counted::OutageLasted => {
                let (destination, index) = detail.split_once(BETWEEN)?;
                let lasted = Bucket::new(index.parse().ok()?)?;
                Some(Lesson::Outage { destination: known(destination), lasted })
            }
            Counted::UnmatchedFollowed => Some(Lesson::Followed { text: known(detail) }),
            Counted::UnmatchedSeen => Some(Lesson::Seen { text: known(detail) }),
            _ => None,
        }
    }
}

/// Rows of counters as what they mean, each thing once and in order.
pub(crate) fn told(
    rows: impl IntoIterator<Item = (Tenant, ChannelName, Counted, String, i64, i64)>,
) -> Vec<Learnt> {
    let mut sums: BTreeMap<(Tenant, ChannelName, Lesson), (u64, u64)> = BTreeMap::new();
    for (tenant, channel, what, detail, count, sum) in rows {
        let Some(lesson) = Lesson::read(what, &detail) else { continue };
        // An outage's sum is how long it lasted.
        let sum = if what == Counted::OutageLasted { 0 } else { sum };
        let (tried, passed) = sums.entry((tenant, channel, lesson)).or_default();
        *tried += u64::try_from(count).unwrap_or(0);
        *passed += u64::try_from(sum).unwrap_or(0);
    }
    let learnt =
        |((tenant, channel, lesson), (tried, passed))| Learnt { tenant, channel, lesson, tried, passed };
    sums.into_iter().map(learnt).collect()
}

/// What of that is about retries, as adaptive waits and predictions go by it.
pub fn seen(learnt: Vec<Learnt>) -> impl Iterator<Item = Seen> {
    learnt.into_iter().filter_map(|Learnt { channel, lesson, tried, passed, .. }| match lesson {
        Lesson::Trial { category, destination, cell } => {
            let counts = Counts { tried, passed };
            Some(Seen { channel, destination, category, cell, counts })
        }
        _ => None,
    })
}

/// The failure that an attempt follows in its round, of those that counted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Past {
    pub(crate) failure: AttemptFailure,
    pub(crate) ended_at: Time,
    /// When the first of the round had ended.
    pub(crate) first_ended_at: Time,
}

/// Whether a settlement follows a failure that counted, so that it is worth looking that up.
pub(crate) fn follows(message: &Message, settlement: &Settlement, before: Progress) -> bool {
    counts(message, settlement) && before.attempts > 0
}

/// Whether there is anything to learn from a settlement.
pub(crate) fn teaches(message: &Message, settlement: &Settlement, before: Progress) -> bool {
    follows(message, settlement, before) || (counts(message, settlement) && unmatched(settlement).is_some())
}

/// What Pombo tells people of itself teaches nothing of them, nor does an attempt that does not count.
fn counts(message: &Message, settlement: &Settlement) -> bool {
    !matches!(settlement.next, Next::Held { .. }) && message.queue.lane.as_str() != NOTICES
}

fn unmatched(settlement: &Settlement) -> Option<&AttemptFailure> {
    settlement.attempt.failure.as_ref().filter(|failure| is_unmatched(failure))
}

fn is_unmatched(failure: &AttemptFailure) -> bool {
    failure.verdict == Verdict::UnknownTransient && failure.rule.is_none()
}

/// The names by which counters of a week are told apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// The week, and when they were read.
    of: Option<(i64, Time)>,
    destinations: Known,
    errors: Known,
}

type Known = BTreeMap<(Tenant, ChannelName), BTreeSet<String>>;

impl Names {
    /// Whether they are those of now.
    pub(crate) fn are_of(&self, now: Time) -> bool {
        self.of.is_some_and(|(week, read_at)| {
            week == week_of(now) && now >= read_at && now.since(read_at) < NAMES_KEPT
        })
    }

    /// The names that the week's counters have.
    pub(crate) fn read(found: impl IntoIterator<Item = Learnt>, now: Time) -> Names {
        let mut names = Names { of: Some((week_of(now), now)), ..Names::default() };
        for Learnt { tenant, channel, lesson, .. } in found {
            let (known, name) = match lesson {
                Lesson::Trial { destination: Some(name), .. }
                | Lesson::Outage { destination: Some(name), .. } => (&mut names.destinations, name),
                Lesson::Seen { text: Some(text) } | Lesson::Followed { text: Some(text) } => {
                    (&mut names.errors, text)
                }
                _ => continue,
            };
            known.entry((tenant, channel)).or_default().insert(name);
        }
        names
    }

    fn destination<'a>(&mut self, tenant: &Tenant, channel: &ChannelName, name: &'a str) -> &'a str {
        named(&mut self.destinations, DESTINATIONS, tenant, channel, name)
    }

    fn error<'a>(&mut self, queue: &QueueName, text: &'a str) -> &'a str {
        named(&mut self.errors, ERRORS, &queue.tenant, &queue.channel, text)
    }
}

/// The name, if it is one of those that are told apart.
fn named<'a>(
    known: &mut Known,
    most: usize,
    tenant: &Tenant,
    channel: &ChannelName,
    name: &'a str,
) -> &'a str {
    if name.is_empty() || name.len() > LONGEST || name.contains(BETWEEN) {
        return "";
    }
    let known = known.entry((tenant.clone(), channel.clone())).or_default();
    if known.contains(name) || (known.len() < most && known.insert(name.to_owned())) { name } else { "" }
}

impl Ledger {
    /// What a settlement teaches that [`teaches`], after that past.
    pub(crate) fn learnt(
        &mut self,
        message: &Message,
        settlement: &Settlement,
        past: Option<&Past>,
        names: &mut Names,
    ) {
        let queue = &message.queue;
        let attempt = &settlement.attempt;
        let passed = matches!(settlement.next, Next::Sent(_));
        if let Some(past) = past {
            // A destination that is a person has no name here.
            let own = Some(&*queue.destination).filter(|name| *name != message.body.to).unwrap_or_default();
            let destination = names.destination(&queue.tenant, &queue.channel, own);
            let (wait, elapsed) =
                (attempt.started_at.since(past.ended_at), attempt.started_at.since(past.first_ended_at));
            let cell = Cell::of(attempt.number, wait, elapsed);
            let key = Trial { category: past.failure.category.clone(), cell, passed }.key();
            self.lesson(queue, Counted::Trial, format!("{destination}{BETWEEN}{key}"), passed);
            if is_unmatched(&past.failure) {
                let text = cause::normalised(&past.failure.text);
                self.lesson(queue, Counted::UnmatchedFollowed, names.error(queue, &text).to_owned(), passed);
            }
        }
        if let Some(failure) = unmatched(settlement) {
            let text = cause::normalised(&failure.text);
            let was_the_end = matches!(settlement.next, Next::Failed(_));
            self.lesson(queue, Counted::UnmatchedSeen, names.error(queue, &text).to_owned(), was_the_end);
        }
    }

    /// A breaker closed, since whoever it stood in front of answers again.
    pub(crate) fn outage_ended(&mut self, place: &Place, lasted: Span, names: &mut Names) {
        // It may have stood in front of one person, who has no name here either.
        let own = place.destination.as_deref().filter(|name| !is_personal(name)).unwrap_or_default();
        let destination = names.destination(&Tenant::default(), &place.channel, own);
        let detail = format!("{destination}{BETWEEN}{}", Bucket::of(lasted).index());
        self.outage(&place.channel, detail, lasted);
    }
}

/// Somebody's address or number, rather than the name of a machine.
fn is_personal(name: &str) -> bool {
    name.contains('@') || !name.chars().any(char::is_alphabetic)
}
