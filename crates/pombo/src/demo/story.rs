//! The story of a demonstration: every audit record as a sentence, and the sums at the end.

use std::collections::{BTreeMap, BTreeSet};

use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Attempt, StateName};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::{Span, Time};
use pombo_store::audit::{Event, Record};
use pombo_store::{Store, StoreError, Story};
use serde::Serialize;
use serde_json::Value;

use crate::cli::out::{Paint, Painting, Table, clipped, width};

/// One thing that happened, in words.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Scene {
    pub(crate) position: u64,
    pub(crate) at: Time,
    pub(crate) event: Event,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message_id: Option<MessageId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reference: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attempt: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) category: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<String>,
    /// The wait before the next try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// The channel and the destination that it is about.
    #[serde(skip)]
    pub(crate) place: (String, Option<String>),
    /// What stands in the way: a hold, a breaker, a pause, or an operator's word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) block: Option<String>,
    pub(crate) explanation: String,
}

impl Scene {
    /// Tells a record with what the store knows of its message; nothing for what is no news.
    pub(crate) async fn of(
        store: &dyn Store,
        position: u64,
        record: &Record,
    ) -> Result<Option<Scene>, StoreError> {
        if matches!(record.event, Event::Claimed | Event::KeyAdded | Event::TemplatePut) {
            return Ok(None);
        }
        let detail: Value = serde_json::from_str(&record.detail).unwrap_or_default();
        let story = match record.message {
            Some(id) => store.story(Tenant::default(), id).await?,
            None => None,
        };
        let attempt = story.as_ref().and_then(|story| attempt_of(story, record.event, &detail));
        let failure = attempt.and_then(|attempt| attempt.failure.as_ref());
        let body = story.as_ref().map(|story| &story.message.body);
        let text = |key: &str| detail[key].as_str().map(str::to_owned);
        let explanation = match record.event {
            Event::Blocked => blocked(&detail, record),
            Event::Unblocked => format!("{} goes on", place(&detail, record)),
            Event::Delivery => detail["delivery"].as_str().unwrap_or_default().to_owned(),
            Event::SuppressionPut => {
                let reason = detail["reason"].as_str().unwrap_or_default();
                format!("{reason}: no campaign writes to this recipient any more")
            }
            Event::CampaignStarted => "it starts: one message at a time, 3 to 4 s apart".to_owned(),
            Event::CampaignPaused => detail["note"].as_str().unwrap_or_default().to_owned(),
            Event::CampaignCompleted => {
                format!("it is complete: {} sent, {} failed", detail["sent"], detail["failed"])
            }
            _ => attempt.map(|attempt| attempt.explanation.clone()).unwrap_or_default(),
        };
        Ok(Some(Scene {
            position,
            at: record.at,
            event: record.event,
            message_id: record.message,
            to: body.map(|body| body.to.clone()),
            reference: story.as_ref().and_then(|story| {
                let of_campaign = story.message.queue.campaign.as_ref().map(|_| "campanha".to_owned());
                story.message.body.reference.clone().or(of_campaign)
            }),
            attempt: detail["attempt"].as_u64(),
            category: text("category"),
            code: failure.and_then(|failure| failure.code.clone()),
            next_delay_ms: attempt.and_then(|attempt| attempt.next_delay).map(Span::millis),
            reason: text("reason"),
            place: match &story {
                Some(story) => {
                    let queue = &story.message.queue;
                    (queue.channel.to_string(), Some(queue.destination.to_string()))
                }
                None => (record.channel.clone(), text("destination")),
            },
            block: text("kind"),
            explanation,
        }))
    }

    /// Whom it is for: the host of a URL, or the recipient.
    fn host(&self) -> String {
        let to = self.to.as_deref().unwrap_or_default();
        if to.starts_with("http") { pombo_kernel::content::host(to) } else { to.to_owned() }
    }

    /// When, which message, what, and why: one line.
    pub(crate) fn line(&self, paint: Paint) -> String {
        let clock = self.at.to_string();
        let clock = clock.get(11..23).unwrap_or_default();
        let id = self.message_id.map(|id| id.to_string()).unwrap_or_default();
        let id = id.get(id.len().saturating_sub(6)..).unwrap_or_default();
        let (word, painted): (&str, Painting) = match self.event {
            Event::Accepted => ("accepted", Paint::dim),
            Event::Sent => ("sent", Paint::green),
            Event::RetryScheduled => ("retry", Paint::yellow),
            Event::Failed | Event::Expired => ("dead", Paint::red),
            Event::Blocked if self.block.as_deref() == Some("pause") => ("paused", Paint::yellow),
            Event::Blocked if self.block.as_deref() == Some("breaker") => ("breaker", Paint::red),
            Event::Held | Event::Blocked => ("held", Paint::yellow),
            Event::Unblocked | Event::Released => ("goes on", Paint::cyan),
            Event::Delivery => ("report", Paint::dim),
            Event::SuppressionPut => ("list", Paint::dim),
            Event::CampaignStarted | Event::CampaignPaused | Event::CampaignCompleted => {
                ("campaign", Paint::cyan)
            }
            other => (other.as_str(), Paint::dim),
        };
        let time = paint.dim(clock);
        format!("{time}  {id:>6}  {} {}", painted(paint, &format!("{word:<8}")), clipped(&self.words(), 160))
    }

    fn words(&self) -> String {
        let host = self.host();
        let matter = self.reference.clone().unwrap_or_else(|| "a message".to_owned());
        let code = self.code.clone().or_else(|| self.category.clone()).unwrap_or_default();
        match self.event {
            Event::Accepted => format!("{matter} for {host}"),
            Event::Sent => {
                let nth = self.attempt.filter(|nth| *nth > 1);
                let nth = nth.map(|nth| format!(" at attempt {nth}")).unwrap_or_default();
                format!("{matter}: {host} took it{nth}")
            }
            Event::RetryScheduled => {
                let wait = self.next_delay_ms.map(|ms| Span::from_millis(ms).to_string()).unwrap_or_default();
                let nth = self.attempt.map(|nth| format!(" to attempt {nth}")).unwrap_or_default();
                let category = self.category.as_deref().unwrap_or_default();
                format!("{matter}: {host} said {code} ({category}){nth}; next try in {wait}")
            }
            Event::Failed | Event::Expired => {
                let reason = self.reason.clone().unwrap_or_default();
                format!("{matter}: {host} said {code}; {reason}, now a dead letter")
            }
            Event::Held => {
                format!("{matter}: {host} said {code}; it waits, and no attempt is charged")
            }
            Event::Delivery => format!("{matter}: the provider reports it {}", self.explanation),
            _ => self.explanation.clone(),
        }
    }
}

fn attempt_of<'a>(story: &'a Story, event: Event, detail: &Value) -> Option<&'a Attempt> {
    if !matches!(event, Event::Sent | Event::RetryScheduled | Event::Failed | Event::Held) {
        return None;
    }
    let number = detail["attempt"].as_u64();
    let same = |attempt: &&Attempt| Some(u64::from(attempt.number)) == number;
    story.attempts.iter().rev().find(same).or(story.attempts.last())
}

/// Who waits, why, and until when.
fn blocked(detail: &Value, record: &Record) -> String {
    let reason = detail["reason"].as_str().unwrap_or_default();
    let until = detail["until"].as_i64().map(|ms| time_of_day(Time::from_millis(ms)));
    let what = match (detail["kind"].as_str(), until) {
        (Some("pause"), Some(until)) => format!("; all its messages wait until {until}, as it asked"),
        (Some("hold" | "breaker"), Some(until)) => {
            format!("; all its messages wait, one tries again at {until}")
        }
        _ => "; all its messages wait".to_owned(),
    };
    format!("{}: {reason}{what}", place(detail, record))
}

/// `12:34:56` of a time.
fn time_of_day(time: Time) -> String {
    time.to_string().get(11..19).unwrap_or_default().to_owned()
}

fn place(detail: &Value, record: &Record) -> String {
    detail["destination"].as_str().map_or_else(|| format!("channel {}", record.channel), str::to_owned)
}

/// The sums of a demonstration.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Sums {
    pub(crate) accepted: u64,
    pub(crate) sent: u64,
    pub(crate) sent_after_retries: u64,
    pub(crate) retries: u64,
    pub(crate) dead_letters: u64,
    pub(crate) held: u64,
    pub(crate) groups: Vec<Group>,
    /// Messages that have not come to an end, with their channel and destination.
    #[serde(skip)]
    waiting: BTreeMap<MessageId, (String, Option<String>)>,
    /// Channels and destinations behind a hold or a breaker.
    #[serde(skip)]
    blocked: BTreeSet<(String, Option<String>)>,
}

/// Dead letters of one cause.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Group {
    reason: String,
    category: String,
    count: u64,
    example: String,
    explanation: String,
}

impl Sums {
    pub(crate) fn add(&mut self, scene: &Scene, record: &Record) {
        match scene.event {
            Event::Accepted => self.accepted += 1,
            Event::Sent => {
                self.sent += 1;
                self.sent_after_retries += u64::from(scene.attempt.is_some_and(|nth| nth > 1));
            }
            Event::RetryScheduled => self.retries += 1,
            Event::Failed | Event::Expired => {
                self.dead_letters += 1;
                self.group(scene);
            }
            _ => {}
        }
        if let Some(id) = scene.message_id {
            match record.to {
                Some(StateName::Pending | StateName::Sending) => self.waiting.insert(id, scene.place.clone()),
                _ => self.waiting.remove(&id),
            };
        }
        match (scene.event, scene.block.as_deref()) {
            (Event::Blocked, Some("hold" | "breaker")) => drop(self.blocked.insert(scene.place.clone())),
            (Event::Unblocked, _) => drop(self.blocked.remove(&scene.place)),
            _ => {}
        }
        let behind = |(channel, destination): &(String, Option<String>)| {
            let whole = (channel.clone(), None);
            self.blocked.contains(&whole) || self.blocked.contains(&(channel.clone(), destination.clone()))
        };
        self.held = self.waiting.values().filter(|place| behind(place)).count() as u64;
    }

    fn group(&mut self, scene: &Scene) {
        let reason = scene.reason.clone().unwrap_or_default();
        let category = scene.category.clone().unwrap_or_default();
        let same = |group: &&mut Group| group.reason == reason && group.category == category;
        if let Some(group) = self.groups.iter_mut().find(same) {
            group.count += 1;
            return;
        }
        let example = format!("{} to {}", scene.reference.clone().unwrap_or_default(), scene.host());
        let explanation = scene.explanation.clone();
        self.groups.push(Group { reason, category, count: 1, example, explanation });
        self.groups.sort_by(|a, b| (&a.reason, &a.category).cmp(&(&b.reason, &b.category)));
    }

    /// All of so many messages are accounted for, and none will move soon by itself.
    pub(crate) fn at_rest(&self, handed_in: u64) -> bool {
        self.accepted >= handed_in && self.waiting.len() as u64 == self.held
    }

    /// The sums so far, in a line.
    pub(crate) fn line(&self) -> String {
        let Sums { accepted, sent, retries, dead_letters, .. } = self;
        let waiting = accepted.saturating_sub(sent + dead_letters);
        format!(
            "{accepted} accepted · {sent} sent · {retries} retries · {waiting} waiting · {dead_letters} dead letters"
        )
    }

    /// The whole of it, as a table.
    pub(crate) fn lines(&self, paint: Paint) -> Vec<String> {
        let waiting = self.accepted.saturating_sub(self.sent + self.dead_letters);
        let first = self.sent.saturating_sub(self.sent_after_retries);
        let row = |what: &str, count: u64, more: String| {
            format!("  {what:<14}{count:>5}  {}", paint.dim(&more)).trim_end().to_owned()
        };
        let mut lines = vec![
            row("accepted", self.accepted, "durable before the 202".to_owned()),
            row("sent", self.sent, format!("{first} at once, {} after retries", self.sent_after_retries)),
            row("retries", self.retries, String::new()),
            row("waiting", waiting, format!("{} of them behind a hold or a breaker, uncharged", self.held)),
            row("dead letters", self.dead_letters, "waiting for an operator".to_owned()),
        ];
        if self.groups.is_empty() {
            return lines;
        }
        lines.push(String::new());
        let mut table = Table::new(["  dead because", "category", "count", "for example"]).cut(3, 16);
        for group in &self.groups {
            table.row([
                format!("  {}", group.reason),
                group.category.clone(),
                group.count.to_string(),
                clipped(&format!("{}: {}", group.example, group.explanation), 110),
            ]);
        }
        lines.extend(table.lines_within(width().unwrap_or(usize::MAX), paint));
        lines
    }
}
