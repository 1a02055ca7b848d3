//! Dead letters, told to the team that looks after them: gathered for a while, so that an outage is one notice.
//!
//! The first dead letter after a rest opens a gathering of a few minutes; what it has found is told as one digest. While
//! it goes on the next ones gather for longer, and one in which nothing came ends it. Every step is a pure function of
//! what stood there, what came and the time.

#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::message::FailureReason;
use crate::name::{ChannelName, NoticeName, TeamName};
use crate::time::{Span, Time};

pub use words::letter;

/// Causes that one digest tells apart. What comes beyond is counted.
const CAUSES_MAX: usize = 50;

/// How long dead letters are gathered, the first time, the second, and from then on.
pub const GATHER: [Span; 3] = [Span::from_mins(5), Span::from_mins(15), Span::from_hours(1)];

/// People who look after some of the dead letters: those that fit all that is said here.
#[derive(Clone, Debug, PartialEq)]
pub struct Team {
    pub name: TeamName,
    /// Who is told.
    pub notify: Vec<NoticeName>,
    /// Only claims: of channels for them, and those that others submit.
    pub claims: bool,
    pub channels: BTreeSet<ChannelName>,
    pub reasons: BTreeSet<FailureReason>,
    /// Error categories, in small letters.
    pub categories: BTreeSet<String>,
    /// How long dead letters are gathered; the last one from then on. Never empty.
    pub gather: Vec<Span>,
}

impl Team {
    /// Looks after what nobody else does, unless more is said.
    pub fn new(name: TeamName) -> Team {
        Team {
            name,
            notify: Vec::new(),
            claims: false,
            channels: BTreeSet::new(),
            reasons: BTreeSet::new(),
            categories: BTreeSet::new(),
            gather: GATHER.into(),
        }
    }

    /// The teams that are there as soon as somebody of that name can be told: for claims that used up their attempts, for
    /// patients' data that is wrong, and for everything else.
    pub fn built_in() -> [Team; 3] {
        let named = |name: &str| Team::new(name.parse().expect("the built-in name is valid"));
        let reasons = [FailureReason::MaxRetriesExceeded].into();
        let categories = ["invalid_patient_data".to_owned()].into();
        [
            Team { claims: true, reasons, ..named("billing") },
            Team { categories, ..named("registration") },
            named("administrator"),
        ]
    }

    /// How much is said of which letters are theirs. Whoever says more is asked first.
    pub fn says(&self) -> usize {
        [self.claims, !self.channels.is_empty(), !self.reasons.is_empty(), !self.categories.is_empty()]
            .into_iter()
            .filter(|said| *said)
            .count()
    }

    fn fits(&self, fallen: &Fallen) -> bool {
        (!self.claims || fallen.is_claim)
            && (self.channels.is_empty()
                || fallen.channel.as_ref().is_some_and(|channel| self.channels.contains(channel)))
            && (self.reasons.is_empty() || self.reasons.contains(&fallen.reason))
            && (self.categories.is_empty() || self.categories.contains(&fallen.category.to_ascii_lowercase()))
    }

    /// Whose a dead letter is.
    pub fn of<'a>(teams: &'a [Team], fallen: &Fallen) -> Option<&'a Team> {
        teams.iter().find(|team| team.fits(fallen))
    }

    /// How long the gathering lasts that follows so many others.
    fn gathers(&self, before: usize) -> Span {
        self.gather.get(before).or(self.gather.last()).copied().unwrap_or(GATHER[0])
    }
}

/// A message that has become a dead letter, or a claim of others that is not submitted again.
#[derive(Clone, Debug, PartialEq)]
pub struct Fallen {
    /// None for claims that others submit.
    pub channel: Option<ChannelName>,
    pub is_claim: bool,
    pub reason: FailureReason,
    pub category: String,
    /// The error, without what differs from message to message.
    pub text: String,
    /// To look at.
    pub message: Option<String>,
    pub at: Time,
}

/// Dead letters of one cause within a gathering. The text is of the first of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelName>,
    pub reason: FailureReason,
    pub category: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    pub count: u64,
    pub first_at: Time,
    pub last_at: Time,
    /// The newest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What a team is told at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Digest {
    pub team: TeamName,
    /// When it was made, by which it is told from others.
    pub at: Time,
    pub count: u64,
    pub first_at: Time,
    pub last_at: Time,
    /// The largest first.
    pub causes: Vec<Cause>,
    /// It goes on: there was a digest before this one, of the same outbreak.
    #[serde(default)]
    pub goes_on: bool,
    /// When the next one comes, if it still goes on.
    pub next_at: Time,
}

/// What a team's dead letters have come to since they were last told. Part of a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gathering {
    /// When it is told, or forgotten if nothing came; nothing while all is at rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due: Option<Time>,
    /// Digests since the last rest.
    #[serde(default)]
    told: usize,
    #[serde(default)]
    count: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    span: Option<(Time, Time)>,
    #[serde(default)]
    causes: Vec<Cause>,
}

impl Gathering {
    /// When something is to be done, if nothing comes.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// Takes one in.
    pub fn take(&mut self, team: &Team, fallen: Fallen, now: Time) {
        self.due.get_or_insert(now + team.gathers(0));
        let Fallen { channel, reason, category, text, message, at, .. } = fallen;
        self.count += 1;
        let (first, last) = self.span.unwrap_or((at, at));
        self.span = Some((first.min(at), last.max(at)));
        let full = self.causes.len() >= CAUSES_MAX;
        let same = |cause: &&mut Cause| {
            (&cause.channel, cause.reason, &cause.category) == (&channel, reason, &category)
        };
        match self.causes.iter_mut().find(same) {
            Some(cause) => {
                cause.count += 1;
                (cause.first_at, cause.last_at) = (cause.first_at.min(at), cause.last_at.max(at));
                cause.message = message.or(cause.message.take());
            }
            None if full => {}
            None => {
                let (first_at, last_at) = (at, at);
                self.causes.push(Cause {
                    channel,
                    reason,
                    category,
                    text,
                    count: 1,
                    first_at,
                    last_at,
                    message,
                });
            }
        }
    }

    /// Goes on to that time: what the team is told then, if it is time for it.
    pub fn step(&mut self, team: &Team, now: Time) -> Option<Digest> {
        if self.due.is_none_or(|due| due > now) {
            return None;
        }
        let Gathering { told, count, span, mut causes, .. } = std::mem::take(self);
        let (first_at, last_at) = span?;
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.count));
        let next_at = now + team.gathers(told + 1);
        *self = Gathering { due: Some(next_at), told: told + 1, ..Gathering::default() };
        let team = team.name.clone();
        Some(Digest { team, at: now, count, first_at, last_at, causes, goes_on: told > 0, next_at })
    }
}
