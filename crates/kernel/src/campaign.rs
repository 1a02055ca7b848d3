//! Campaigns: one template to many people, one at a time, at a pace.
//!
//! A campaign is one document. What claims and settlements do to it is written in the transaction that does them, so
//! that its pace and its counts are exact, whoever sends and whoever dies meanwhile.

pub mod forecast;
pub mod letter;
pub mod line;
pub mod recipient;
pub mod throttle;
pub mod waiting;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::block::Gate;
use crate::id::MessageId;
use crate::message::{Actor, ClaimId, ClaimKey, slugs};
use crate::name::{ChannelName, LaneName, TemplateName};
#[cfg(feature = "planted")]
use crate::planted;
use crate::time::{Span, Time};
use crate::turns::Weight;
use crate::window::Window;

use recipient::Standing;
use throttle::{Throttle, TimeLimits};

/// Messages of a campaign that are made before their turn, at most, and below how many there is need of more.
const AHEAD: u64 = 16;
const HUNGRY: u64 = 8;
/// So few ends say nothing about how many fail.
const LEAST_ENDS: u32 = 20;
/// The share of failures from which on a campaign stops by itself, unless it says otherwise.
pub const DEFAULT_MAX_FAILURE_RATE: f64 = 0.5;

/// A campaign as it is kept. What a newer version adds is ignored by an older one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Campaign {
    /// For people.
    pub name: String,
    pub channel: ChannelName,
    pub lane: LaneName,
    pub template: TemplateName,
    /// The one that was there when the campaign was made: what was previewed is what is sent.
    pub template_version: u32,
    /// What the template says to everybody.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub payload: Map<String, Value>,
    #[serde(flatten)]
    pub throttle: Throttle,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// How many turns its queues have in their lane where others have one.
    #[serde(default)]
    pub weight: Weight,
    /// It stops by itself once this share of the last ends were failures; never if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_failure_rate: Option<f64>,
    /// A message that is still unsent so long after it was made is given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_after: Option<Span>,
    pub created_at: Time,
    pub created_by: Actor,
    /// When it first ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    #[serde(flatten)]
    pub state: State,
    #[serde(default)]
    pub roll: Roll,
    #[serde(default)]
    pub run: Run,
    /// The message that is on its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flight: Option<Flight>,
    /// Nothing sets out before.
    #[serde(default)]
    pub free_at: Time,
    #[serde(default)]
    recent: Recent,
    /// A digest of the request, where that had an idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

/// Where a campaign stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    Draft,
    Scheduled {
        start_at: Time,
    },
    Running {
        since: Time,
    },
    Paused {
        since: Time,
        reason: PauseReason,
        note: String,
        by: Actor,
        /// When it was to begin, if it had not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start_at: Option<Time>,
    },
    /// Everybody was reached or given up.
    Completed {
        finished_at: Time,
    },
    Cancelled {
        finished_at: Time,
        by: Actor,
    },
}

slugs! {
    /// The states of a campaign, by name.
    #[schemars(rename = "CampaignState")]
    StateName {
        Draft = 1 "draft",
        Scheduled = 2 "scheduled",
        Running = 3 "running",
        Paused = 4 "paused",
        Completed = 5 "completed",
        Cancelled = 6 "cancelled",
    }
}

slugs! {
    /// Why a campaign does not go on.
    PauseReason {
        Operator = 1 "operator",
        /// It took longer than it may.
        TimeLimit = 2 "time_limit",
        /// Too many failed.
        FailureRate = 3 "failure_rate",
        /// It is being cancelled: what was made ahead is called back.
        Cancelling = 4 "cancelling",
        /// It cannot be sent as it is: the channel or the template is gone.
        Trouble = 5 "trouble",
    }
}

impl State {
    pub fn name(&self) -> StateName {
        match self {
            State::Draft => StateName::Draft,
            State::Scheduled { .. } => StateName::Scheduled,
            State::Running { .. } => StateName::Running,
            State::Paused { .. } => StateName::Paused,
            State::Completed { .. } => StateName::Completed,
            State::Cancelled { .. } => StateName::Cancelled,
        }
    }
}

/// How many recipients stand where. Together, all but `invalid` and `duplicates` make `recipients`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roll {
    pub recipients: u64,
    /// Of whom no message was made yet.
    pub pending: u64,
    /// Whose message waits or is being sent.
    pub queued: u64,
    /// Those of them whose message was never tried.
    pub ahead: u64,
    pub sent: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub suppressed: u64,
    /// Lines by which nobody can be written to.
    pub invalid: u64,
    /// Lines that repeat earlier ones.
    pub duplicates: u64,
}

impl Roll {
    /// Who is still to be reached.
    pub fn left(&self) -> u64 {
        self.pending + self.queued
    }
}

/// One run, from a start or a resumption on, against its time limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Who was to be reached when it began.
    pub sends: u64,
    /// Attempts that were not the last, each of which needs a send more.
    pub retries: u64,
    /// Who was reached or given up since.
    #[serde(default)]
    pub ends: u64,
    /// What sends and the waits after them took. Waits that we impose for other reasons do not count.
    pub used: Span,
    /// What of `ends` and `used` is of the last send, whose wait may not be over.
    #[serde(default)]
    last: (u64, Span),
}

/// A message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flight {
    pub message: MessageId,
    /// The claim under which it goes.
    pub claim: i64,
    pub since: Time,
}

/// The last ends: a bit for each, set for a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Recent {
    failures: u64,
    ends: u32,
}

impl Recent {
    fn and(self, failed: bool) -> Recent {
        Recent { failures: self.failures << 1 | u64::from(failed), ends: (self.ends + 1).min(u64::BITS) }
    }

    /// The share of failures, once there are enough ends to say.
    fn rate(self) -> Option<f64> {
        (self.ends >= LEAST_ENDS).then(|| f64::from(self.failures.count_ones()) / f64::from(self.ends))
    }
}

/// How an attempt at a message of a campaign ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Sent,
    Failed,
    /// It waits again, and was charged or not.
    Retry,
}

/// What became of a campaign by itself, which belongs in the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    Paused(PauseReason, String),
    Completed,
    /// A failure that is tried again made it run once more.
    Reopened,
}

/// Why somebody's wish is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the campaign is {0}")]
    State(StateName),
    #[error("the campaign has no recipients that it could write to")]
    Nobody,
}

impl Campaign {
    /// A draft with nobody on its list, at the usual pace.
    pub fn new(
        name: String,
        (channel, lane): (ChannelName, LaneName),
        (template, template_version): (TemplateName, u32),
        created_by: Actor,
        created_at: Time,
    ) -> Campaign {
        Campaign {
            name,
            channel,
            lane,
            template,
            template_version,
            payload: Map::new(),
            throttle: Throttle::default(),
            window: None,
            weight: Weight::default(),
            max_failure_rate: Some(DEFAULT_MAX_FAILURE_RATE),
            expires_after: None,
            created_at,
            created_by,
            started_at: None,
            state: State::Draft,
            roll: Roll::default(),
            run: Run::default(),
            flight: None,
            free_at: Time::default(),
            recent: Recent::default(),
            request: None,
        }
    }

    /// What stands in front of its messages.
    pub fn gate(&self, now: Time) -> Gate {
        let waits = matches!(self.state, State::Draft | State::Scheduled { .. } | State::Paused { .. });
        #[cfg(feature = "planted")]
        let waits = waits && !planted::is(planted::Bug::CampaignPauseIgnored);
        if waits || self.flight.is_some() {
            return Gate::Shut { until: None };
        }
        let pace = Some(self.free_at).filter(|free_at| now < *free_at);
        let window = self.window.as_ref().and_then(|window| window.opens(now));
        #[cfg(feature = "planted")]
        let window = window.filter(|_| !planted::is(planted::Bug::WindowIgnored));
        match pace.max(window) {
            None => Gate::Open,
            until => Gate::Shut { until },
        }
    }

    /// The channel whose line it uses, or will at its time; none while it does not go on by itself.
    pub fn on_line(&self) -> Option<&str> {
        matches!(self.state, State::Scheduled { .. } | State::Running { .. }).then(|| self.channel.as_str())
    }

    /// When somebody must see to it: to start it, to make more messages, to call them back, or to cut off a send.
    pub fn due(&self) -> Option<Time> {
        match &self.state {
            State::Scheduled { start_at } => Some(*start_at),
            State::Paused { reason: PauseReason::Cancelling, since, .. } => Some(*since),
            State::Running { since } if self.appetite() > 0 => Some(*since),
            State::Running { .. } => self.cut_at(),
            _ => None,
        }
    }

    /// How many messages should be made now.
    pub fn appetite(&self) -> u64 {
        let running = matches!(self.state, State::Running { .. });
        if running && self.roll.ahead < HUNGRY { (AHEAD - self.roll.ahead).min(self.roll.pending) } else { 0 }
    }

    /// When the send that is under way is cut off.
    pub fn cut_at(&self) -> Option<Time> {
        let left = self.limits().hard.millis().saturating_sub(self.run.used.millis());
        self.flight.map(|flight| flight.since + Span::from_millis(left))
    }

    /// Cuts off a send that is past the hard limit: whose claim is void, and what that does to the campaign.
    pub fn cut(&mut self, now: Time) -> Option<(ClaimKey, Turn)> {
        let flight = self.flight.filter(|_| matches!(self.state, State::Running { .. }))?;
        let hard = self.limits().hard;
        self.cut_at().filter(|at| *at <= now)?;
        let note = format!("one send did not end, and the run had taken more than {hard}");
        let (reason, by) = (PauseReason::TimeLimit, Actor::engine());
        self.state = State::Paused { since: now, reason, note: note.clone(), by, start_at: None };
        let key = ClaimKey { message: flight.message, claim: ClaimId(flight.claim) };
        Some((key, Turn::Paused(reason, note)))
    }

    /// How long this run may take; a run that has not begun, how long it would be allowed to.
    pub fn limits(&self) -> TimeLimits {
        let sends = if self.has_begun() { self.run.sends } else { self.roll.left() };
        self.throttle.limits(sends.saturating_add(self.run.retries))
    }

    /// How many recipients were reached or given up in an hour of this run, over those sends that ended and whose waits
    /// are over; none before the first.
    #[allow(clippy::cast_precision_loss)]
    pub fn rate_per_hour(&self, now: Time) -> Option<f64> {
        let (ends, ahead) = if now < self.free_at { self.run.last } else { (0, Span::ZERO) };
        let ends = self.run.ends.saturating_sub(ends) as f64;
        let used = self.run.used.millis().saturating_sub(ahead.millis()) as f64;
        (ends > 0.0 && used > 0.0).then(|| ends * 3_600_000.0 / used)
    }

    /// People were listed.
    pub fn enlisted(&mut self, [added, duplicates, invalid]: [u64; 3]) {
        self.roll.recipients += added;
        self.roll.pending += added;
        self.roll.duplicates += duplicates;
        self.roll.invalid += invalid;
    }

    /// Whether people can be listed now.
    pub fn can_enlist(&self) -> Result<(), Refused> {
        match self.state {
            State::Draft | State::Scheduled { .. } => Ok(()),
            State::Paused { reason, .. } if reason != PauseReason::Cancelling => Ok(()),
            _ => Err(Refused::State(self.state.name())),
        }
    }

    /// Whether messages can be made now.
    pub fn can_be_fed(&self) -> Result<(), Refused> {
        match self.state {
            State::Running { .. } => Ok(()),
            _ => Err(Refused::State(self.state.name())),
        }
    }

    /// Whether it was cancelled, or is about to be.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.state, State::Cancelled { .. } | State::Paused { reason: PauseReason::Cancelling, .. })
    }

    /// Whether it ever ran.
    pub fn has_begun(&self) -> bool {
        self.started_at.is_some()
    }

    /// It goes at another pace from now on. Its time limits begin anew, since what it has used was used at the old one.
    pub fn set_throttle(&mut self, throttle: Throttle) {
        if self.throttle != throttle {
            self.throttle = throttle;
            self.run = Run { sends: self.roll.left(), ..Run::default() };
        }
    }

    /// Messages were made for so many; so many are not to be written to, and for so many no message can be made.
    pub fn fed(&mut self, made: u64, suppressed: u64, failed: u64, now: Time) -> Option<Turn> {
        self.roll.pending = self.roll.pending.saturating_sub(made + suppressed + failed);
        self.roll.queued += made;
        self.roll.ahead += made;
        self.roll.suppressed += suppressed;
        self.roll.failed += failed;
        for _ in 0..failed {
            self.recent = self.recent.and(true);
        }
        self.complete(now).or_else(|| self.stop_if_unwell(now))
    }

    /// Where the next line of its list goes.
    pub fn next_number(&self) -> u64 {
        self.roll.recipients + self.roll.invalid + 1
    }

    /// It goes on from now, or begins, with whoever is still to be reached. One that was paused before its time waits for
    /// that again.
    pub fn start(&mut self, now: Time) -> Result<(), Refused> {
        match self.state {
            State::Draft | State::Scheduled { .. } => {}
            State::Paused { reason, .. } if reason != PauseReason::Cancelling => {}
            _ => return Err(Refused::State(self.state.name())),
        }
        if self.roll.left() == 0 {
            return Err(Refused::Nobody);
        }
        match self.state {
            State::Paused { start_at: Some(start_at), .. } if start_at > now => {
                self.state = State::Scheduled { start_at };
            }
            _ => self.run(now),
        }
        Ok(())
    }

    fn run(&mut self, now: Time) {
        self.started_at = self.started_at.or(Some(now));
        self.state = State::Running { since: now };
        self.run = Run { sends: self.roll.left(), ..Run::default() };
        self.recent = Recent::default();
    }

    pub fn schedule(&mut self, start_at: Time) -> Result<(), Refused> {
        match self.state {
            State::Draft | State::Scheduled { .. } if self.roll.left() == 0 => Err(Refused::Nobody),
            State::Draft | State::Scheduled { .. } => {
                self.state = State::Scheduled { start_at };
                Ok(())
            }
            _ => Err(Refused::State(self.state.name())),
        }
    }

    /// Nothing more sets out. A send that is under way goes to its end.
    pub fn pause(&mut self, reason: PauseReason, note: String, by: &Actor, now: Time) -> Result<(), Refused> {
        let fits = match (&self.state, reason) {
            (State::Completed { .. } | State::Cancelled { .. }, _) => false,
            (State::Paused { reason: PauseReason::Cancelling, .. }, _) => false,
            (_, PauseReason::Cancelling) => true,
            (State::Running { .. } | State::Scheduled { .. }, _) => true,
            _ => false,
        };
        if !fits {
            return Err(Refused::State(self.state.name()));
        }
        let start_at = match self.state {
            State::Scheduled { start_at } => Some(start_at),
            State::Paused { start_at, .. } => start_at,
            _ => None,
        };
        self.state = State::Paused { since: now, reason, note, by: by.clone(), start_at };
        Ok(())
    }

    /// Everything that was made ahead has been called back, and nothing is on its way.
    pub fn cancelled(&mut self, by: &Actor, now: Time) {
        self.roll.cancelled += self.roll.pending;
        self.roll.pending = 0;
        self.state = State::Cancelled { finished_at: now, by: by.clone() };
    }

    /// A message sets out; `first` if it was never tried.
    pub fn started(&mut self, flight: Flight, first: bool) {
        self.flight = Some(flight);
        self.roll.ahead = self.roll.ahead.saturating_sub(u64::from(first));
    }

    /// Another holds the message that is on its way. It may have been sent. That nobody was there does not count as time
    /// that the campaign has used.
    pub fn taken_over(&mut self, message: MessageId, claim: i64, now: Time) {
        if let Some(flight) = self.flight.as_mut().filter(|flight| flight.message == message) {
            (flight.claim, flight.since) = (claim, now);
        }
    }

    /// A message was given back unsent; `first` if it was never tried.
    pub fn released(&mut self, message: MessageId, first: bool) {
        self.flight = self.flight.filter(|flight| flight.message != message);
        self.roll.ahead += u64::from(first);
    }

    /// An attempt ended. The wait for the next one is drawn with `chance`.
    pub fn ended(&mut self, message: MessageId, end: End, chance: u64, now: Time) -> Option<Turn> {
        let wait = self.throttle.wait(chance);
        self.run.last = (0, Span::ZERO);
        if let Some(flight) = self.flight.filter(|flight| flight.message == message) {
            self.flight = None;
            self.run.last.1 = now.since(flight.since) + wait;
            self.run.used = self.run.used + self.run.last.1;
        }
        #[cfg(feature = "planted")]
        let wait =
            if end == End::Retry && planted::is(planted::Bug::RetryUnpaced) { Span::ZERO } else { wait };
        self.free_at = self.free_at.max(now + wait);
        match end {
            End::Retry => self.run.retries += 1,
            End::Sent => self.left_queue(false),
            End::Failed => self.left_queue(true),
        }
        self.complete(now).or_else(|| self.stop_if_unwell(now))
    }

    fn left_queue(&mut self, failed: bool) {
        self.run.ends += 1;
        self.run.last.0 = 1;
        self.roll.queued = self.roll.queued.saturating_sub(1);
        self.roll.sent += u64::from(!failed);
        self.roll.failed += u64::from(failed);
        self.recent = self.recent.and(failed);
    }

    /// A message that waited ended without an attempt, and its recipient stands there now; `first` if it was never tried.
    pub fn given_up(&mut self, standing: Standing, first: bool, now: Time) -> Option<Turn> {
        self.roll.queued = self.roll.queued.saturating_sub(1);
        self.roll.ahead = self.roll.ahead.saturating_sub(u64::from(first));
        match standing {
            Standing::Failed => self.roll.failed += 1,
            Standing::Suppressed => self.roll.suppressed += 1,
            _ => self.roll.cancelled += 1,
        }
        self.complete(now)
    }

    /// A message that had failed waits again.
    pub fn reprocessed(&mut self, now: Time) -> Option<Turn> {
        self.roll.failed = self.roll.failed.saturating_sub(1);
        self.roll.queued += 1;
        match self.state {
            State::Completed { .. } => {
                self.run(now);
                Some(Turn::Reopened)
            }
            _ => {
                self.run.sends += 1;
                None
            }
        }
    }

    fn complete(&mut self, now: Time) -> Option<Turn> {
        let open = match self.state {
            State::Running { .. } => true,
            // The last send was under way when it was paused.
            State::Paused { reason, .. } => reason != PauseReason::Cancelling,
            _ => false,
        };
        (open && self.roll.left() == 0).then(|| {
            self.state = State::Completed { finished_at: now };
            Turn::Completed
        })
    }

    /// Stops where it has taken too long or too many have failed.
    fn stop_if_unwell(&mut self, now: Time) -> Option<Turn> {
        if !matches!(self.state, State::Running { .. }) {
            return None;
        }
        let limits = self.limits();
        let rate = self.recent.rate().filter(|rate| self.max_failure_rate.is_some_and(|max| *rate >= max));
        let (reason, note) = if let Some(rate) = rate {
            let (ends, percent) = (self.recent.ends, rate * 100.0);
            (PauseReason::FailureRate, format!("{percent:.0} % of the last {ends} failed"))
        } else if self.run.used >= limits.soft {
            let (used, soft) = (self.run.used, limits.soft);
            (PauseReason::TimeLimit, format!("it has taken {used} of {soft}"))
        } else {
            return None;
        };
        let (since, by) = (now, Actor::engine());
        self.state = State::Paused { since, reason, note: note.clone(), by, start_at: None };
        Some(Turn::Paused(reason, note))
    }
}

#[cfg(test)]
mod tests;
