//! Which records somebody wants to see.

use std::collections::{BTreeMap, BTreeSet};

use pombo_kernel::id::MessageId;
use pombo_kernel::mask;
use pombo_kernel::message::State;
use pombo_kernel::name::{CampaignName, ChannelName};
use pombo_kernel::setup::Setup;
use pombo_kernel::subscription;
use pombo_kernel::time::{Span, Time};
use pombo_store::audit::{Event, Record};
use pombo_store::shelf::{Pick, Shelf, Wanted};
use pombo_store::{Filter, Line, Store, StoreError};
use serde_json::Value;

use super::super::page::{Query, Wrong, parsed};
use crate::auth::Caller;
use crate::event;
use crate::problem::Problem;

/// The filters.
pub(super) const FILTERS: [&str; 8] =
    ["message", "claim", "actor", "event", "channel", "campaign", "since", "until"];

/// Messages with one reference that are looked up, the newest first, and how many of them at once.
const SUBJECTS: usize = 10_000;
const AT_ONCE: usize = 500;
/// Records of one message that are looked at for one page, if the page is not larger.
const OWN: usize = 500;
/// Messages that are read together: each may be large.
const MESSAGES: usize = 32;
/// By how much the clock may have been set back without a record being missed for it.
const CLOCK_SLACK: Span = Span::from_hours(24);
const TEXT_BYTES: usize = 1_024;

/// What was asked for. Every given part must match.
#[derive(Clone, Debug, Default)]
pub(super) struct Ask {
    message: Option<MessageId>,
    claim: Option<String>,
    actor: Option<String>,
    events: Vec<String>,
    channel: Option<ChannelName>,
    campaign: Option<CampaignName>,
    since: Option<Time>,
    until: Option<Time>,
}

impl Ask {
    pub(super) fn read(query: &mut Query, caller: &Caller) -> Result<Ask, Problem> {
        let ask = Ask {
            message: query.take("message", parsed),
            claim: query.take("claim", text),
            actor: query.take("actor", text),
            events: query.take("event", events).unwrap_or_default(),
            channel: query.take("channel", parsed),
            campaign: query.take("campaign", parsed),
            since: query.take("since", parsed),
            until: query.take("until", parsed),
        };
        ask.channel.as_ref().map_or(Ok(()), |channel| caller.may_use(channel))?;
        Ok(ask)
    }

    /// The filters by name, as they go to the audit of an export.
    pub(super) fn shown(&self) -> BTreeMap<&'static str, Value> {
        let events = Some(self.events.join(",")).filter(|events| !events.is_empty());
        let given = [
            ("message", self.message.map(|id| id.to_string())),
            ("claim", self.claim.clone()),
            ("actor", self.actor.clone()),
            ("event", events),
            ("channel", self.channel.as_ref().map(ToString::to_string)),
            ("campaign", self.campaign.as_ref().map(ToString::to_string)),
            ("since", self.since.map(|at| at.to_string())),
            ("until", self.until.map(|at| at.to_string())),
        ];
        // Somebody may have typed more than an id.
        let said = |text: String| Value::String(mask::personal(&text).into_owned());
        given.into_iter().filter_map(|(name, value)| Some((name, said(value?)))).collect()
    }

    /// The records of one message before that position, if that is what was asked for and there is such a message.
    ///
    /// The store finds them by what it knows of the message. The other filters are tried on these, of which there are few.
    pub(super) async fn of_one(
        &self,
        store: &dyn Store,
        caller: &Caller,
        setup: &Setup,
        before: u64,
        limit: usize,
    ) -> Result<Option<Found>, StoreError> {
        let Some(id) = self.message else { return Ok(None) };
        let claim = self.claim.as_ref();
        if claim.is_some() && of_message(id, claim, store, caller).await?.messages.is_empty() {
            return Ok(Some(Found::default()));
        }
        let most = limit.max(OWN);
        let Some(mut own) = store.audit_of(caller.tenant.clone(), id, before, most).await? else {
            return Ok(None);
        };
        let last = own.last().map(|(position, _)| *position).filter(|_| own.len() == most);
        own.reverse();
        let scope = Scope { start: 0, end: before, messages: Some([id].into()), ask: self.clone() };
        let mut records = scope.keep(store, own, caller, setup).await?;
        let over = records.len().saturating_sub(limit);
        let rest = records.split_off(over);
        let next = if over > 0 { rest.first().map(|(position, _)| *position) } else { last };
        Ok(Some(Found { records: rest, next }))
    }

    /// Where to look, before that position; nothing if there is nothing to be found.
    ///
    /// Whoever asks for a message or a claim need not look at what came before it, nor at what came after its end.
    pub(super) async fn scope(
        self,
        store: &dyn Store,
        caller: &Caller,
        end: u64,
    ) -> Result<Option<Scope>, StoreError> {
        let mut scope = Scope { start: 0, end, messages: None, ask: self };
        let (mut since, mut until) = (scope.ask.since, scope.ask.until);
        if let Some(subject) = subject(&scope.ask, store, caller).await? {
            if subject.messages.is_empty() && subject.first.is_none() {
                return Ok(None);
            }
            since = [since, subject.first].into_iter().flatten().max();
            until = [until, subject.last].into_iter().flatten().min();
            scope.messages = Some(subject.messages);
        }
        if let Some(since) = since {
            scope.start = seek(store, end, since - CLOCK_SLACK).await?;
        }
        if let Some(until) = until {
            scope.end = seek(store, end, until + CLOCK_SLACK).await?;
        }
        Ok(Some(scope))
    }

    fn matches(&self, record: &Record) -> bool {
        let actor = |wanted: &String| {
            let (label, id) = record.actor.split_once(" (").unwrap_or((&record.actor, ""));
            record.actor == *wanted || label == wanted || id.strip_suffix(')') == Some(wanted)
        };
        self.actor.as_ref().is_none_or(actor)
            && (self.events.is_empty() || self.events.iter().any(|wanted| is_called(record.event, wanted)))
            && self.channel.as_ref().is_none_or(|channel| channel.as_str() == record.channel)
            && self.since.is_none_or(|since| record.at >= since)
            && self.until.is_none_or(|until| record.at < until)
    }
}

/// A page of what was found: records in order, and before which position the next page goes on.
#[derive(Default)]
pub(super) struct Found {
    pub(super) records: Vec<(u64, Record)>,
    pub(super) next: Option<u64>,
}

fn text(text: &str) -> Result<String, Wrong> {
    match text.len() <= TEXT_BYTES {
        true => Ok(text.to_owned()),
        false => {
            let hint = "give the exact value to look for".to_owned();
            Err((format!("is longer than {TEXT_BYTES} bytes"), hint))
        }
    }
}

/// By the audit's own name, or by the type as which it is told, or a group of those.
fn is_called(event: Event, wanted: &str) -> bool {
    event.as_str() == wanted || subscription::matches(wanted, event::kind(event))
}

fn events(text: &str) -> Result<Vec<String>, Wrong> {
    let events: Vec<String> = text.split(',').map(|part| part.trim().to_owned()).collect();
    let unknown = |wanted: &&String| !Event::ALL.iter().any(|event| is_called(*event, wanted));
    match events.iter().find(unknown) {
        None => Ok(events),
        Some(unknown) => {
            let unknown: String = unknown.chars().take(64).collect();
            let hint = "for example failed, retry_decided, or a type such as message.failed or message.*";
            Err((format!("no event is called `{unknown}`"), hint.to_owned()))
        }
    }
}

/// What a message or a claim is found by.
#[derive(Default)]
struct Subject {
    messages: BTreeSet<MessageId>,
    /// When it began, and when it was over, if it is known to be.
    first: Option<Time>,
    last: Option<Time>,
}

async fn subject(ask: &Ask, store: &dyn Store, caller: &Caller) -> Result<Option<Subject>, StoreError> {
    match (ask.message, &ask.claim) {
        (None, None) => Ok(None),
        (Some(id), claim) => of_message(id, claim.as_ref(), store, caller).await.map(Some),
        (None, Some(claim)) => of_claim(claim, store, caller).await.map(Some),
    }
}

/// A message, also one that is no longer kept, unless it has to be of a claim.
async fn of_message(
    id: MessageId,
    claim: Option<&String>,
    store: &dyn Store,
    caller: &Caller,
) -> Result<Subject, StoreError> {
    let line = store.lines(vec![id]).await?.pop().filter(|line| line.message.queue.tenant == caller.tenant);
    let reference = line.as_ref().and_then(|line| line.message.body.reference.as_ref());
    if claim.is_some() && claim != reference {
        return Ok(Subject::default());
    }
    Ok(Subject { messages: [id].into(), first: Some(id.key().time()), last: line.as_ref().and_then(over) })
}

/// The messages with that reference, and the decisions on the claim of that name.
async fn of_claim(claim: &str, store: &dyn Store, caller: &Caller) -> Result<Subject, StoreError> {
    let filter = Filter {
        tenant: caller.tenant.clone(),
        within: caller.channels.clone(),
        reference: Some(claim.to_owned()),
        ..Filter::default()
    };
    let mut lines = Vec::new();
    let mut before = None;
    while lines.len() < SUBJECTS {
        let page = store.page(filter.clone(), before, AT_ONCE).await?;
        lines.extend(page.lines.into_iter().map(|line| (line.message.id, over(&line))));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    let decisions = store
        .docs(Wanted {
            shelf: Shelf::Decision,
            tenant: Some(caller.tenant.clone()),
            pick: Pick::Topic { topic: claim.to_owned(), after: None },
            limit: AT_ONCE,
        })
        .await?;
    let mut firsts: Vec<Time> = lines.iter().map(|(id, _)| id.key().time()).collect();
    firsts.extend(decisions.iter().map(|doc| doc.updated_at));
    if decisions.len() == AT_ONCE {
        // There are earlier ones than were read.
        firsts.push(Time::default());
    }
    let ends = lines.iter().map(|(_, end)| *end).collect::<Option<Vec<Time>>>();
    Ok(Subject {
        first: firsts.into_iter().min(),
        // Another decision can come at any time.
        last: ends.filter(|_| decisions.is_empty()).and_then(|ends| ends.into_iter().max()),
        messages: lines.into_iter().map(|(id, _)| id).collect(),
    })
}

/// When nothing more can have been recorded of a message.
fn over(line: &Line) -> Option<Time> {
    match line.state {
        State::Cancelled { .. } | State::Discarded { .. } => Some(line.updated_at),
        State::Sent { ref receipt, .. } if receipt.provider_id.is_none() => Some(line.updated_at),
        _ => None,
    }
}

/// The first position whose record is of that time or later, by halves. Before it lies nothing later, as far as the
/// clock went forward.
async fn seek(store: &dyn Store, end: u64, time: Time) -> Result<u64, StoreError> {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = low + (high - low) / 2;
        match store.audit(middle, 1).await?.pop() {
            Some((position, record)) if record.at < time => low = position + 1,
            _ => high = middle,
        }
    }
    Ok(low.min(end))
}

/// Where to look for what was asked for.
pub(super) struct Scope {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Only records of these messages, and decisions on the claim.
    messages: Option<BTreeSet<MessageId>>,
    ask: Ask,
}

impl Scope {
    /// Whether only records of some messages are wanted: few of very many.
    pub(super) fn is_of_messages(&self) -> bool {
        self.messages.is_some()
    }

    /// Whether messages have to be read in order to know.
    pub(super) fn looks_up(&self) -> bool {
        self.ask.campaign.is_some()
    }

    /// Those of the records that were asked for and are the caller's to see, in the same order.
    pub(super) async fn keep(
        &self,
        store: &dyn Store,
        records: Vec<(u64, Record)>,
        caller: &Caller,
        setup: &Setup,
    ) -> Result<Vec<(u64, Record)>, StoreError> {
        let of_subject = |record: &Record| match (&self.messages, record.message) {
            (None, _) => true,
            (Some(messages), Some(id)) => messages.contains(&id),
            (Some(_), None) => {
                self.ask.message.is_none()
                    && event::claim(record).is_some_and(|claim| self.ask.claim == Some(claim))
            }
        };
        let mut kept: Vec<(u64, Record)> = records
            .into_iter()
            .filter(|(_, record)| self.ask.matches(record) && of_subject(record))
            .filter(|(_, record)| event::may_see(record, caller, setup))
            .collect();
        let Some(campaign) = &self.ask.campaign else { return Ok(kept) };
        let mut of_campaign = Vec::new();
        for some in kept.chunks(MESSAGES) {
            let lines = event::lines(store, some.iter().filter_map(|(_, record)| record.message)).await?;
            of_campaign.extend(some.iter().map(|(_, record)| {
                let line = record.message.and_then(|id| lines.get(&id));
                event::campaign(record, line).is_some_and(|of| of == campaign.as_str())
            }));
        }
        let mut belongs = of_campaign.into_iter();
        kept.retain(|_| belongs.next().unwrap_or(false));
        Ok(kept)
    }
}
