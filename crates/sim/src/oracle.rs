//! What must always hold, checked against what the provider took, what producers were told, and what the audit says.
//!
//! The oracle follows the committed audit record by record and keeps its own model of every message from it. It
//! decides nothing from what the engine thinks.

mod claims;
mod expect;
mod keeping;
mod letters;
mod pace;
mod walls;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use pombo_kernel::delivery::{Delivery, Report};
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Actor, ClaimKey, Draft, Message, Progress, State, StateName};
use pombo_kernel::name::{CampaignName, Tenant};
use pombo_kernel::time::Time;
use pombo_store::audit::{Event, Record, Walk};
use pombo_store::core::Reading;
use pombo_store::dead::{Deed, Revision, What};
use pombo_store::{Backlog, Counted, Filter, Line, Place, Reported, StoreError, Tally};

use crate::call::eve;
use crate::plan::Plan;
pub(crate) use claims::Holder;
use claims::{Claim, Start};
use letters::Desk;
use pace::Courses;
use walls::Walls;

/// A promise that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its number among the invariants; 0 for what no invariant speaks of.
    pub invariant: u8,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meaning = match self.invariant {
            1 => "conservation",
            2 => "acknowledged and sent only when durable",
            3 => "an end is final",
            4 => "one live claim, and a stale one changes nothing",
            5 => "attempts within the policy",
            6 => "a permanent error or a held doubt is not retried",
            7 => "the next attempt within its bounds",
            8 => "no send after expiry, cancel or pause",
            9 => "a campaign keeps its pace, and writes once to each",
            10 => "one message a key",
            11 => "deliveries bounded by faults",
            12 => "the audit tells everything",
            13 => "slots",
            14 => "nothing crosses tenants",
            15 => "everything comes to an end",
            _ => "beyond the invariants",
        };
        write!(f, "invariant {} ({meaning}): {}", self.invariant, self.what)
    }
}

impl From<StoreError> for Violation {
    fn from(error: StoreError) -> Violation {
        Violation { invariant: 0, what: format!("the store cannot be read: {error}") }
    }
}

pub(crate) type Checked<T = ()> = Result<T, Violation>;

pub(crate) fn broken<T>(invariant: u8, what: fmt::Arguments<'_>) -> Checked<T> {
    Err(Violation { invariant, what: what.to_string() })
}

/// Returns with a violation unless the condition holds.
macro_rules! hold {
    ($invariant:expr, $condition:expr, $($what:tt)*) => {
        if !$condition {
            return $crate::oracle::broken($invariant, format_args!($($what)*));
        }
    };
}
pub(crate) use hold;

/// A message as the audit tells it.
#[derive(Debug)]
struct Tale {
    message: Arc<Message>,
    state: StateName,
    due: Time,
    progress: Progress,
    /// Why it failed, when it last did.
    reason: String,
    /// When its round began.
    round_since: Time,
    /// Where it stands among others of its ordering key: the position of the record that put it there.
    turn: u64,
    /// It says something else since it failed.
    edited: bool,
    revisions: Vec<Revision>,
    deeds: Vec<Deed>,
    claims: Vec<Claim>,
    /// How many results were recorded.
    results: usize,
    /// How often it failed.
    failures: u64,
    /// How often the provider took it, by the round whose key it was shown.
    taken: BTreeMap<u16, usize>,
    /// How far the provider says that it has come.
    delivery: Option<Delivery>,
    /// When it ended, as the store has said since then.
    ended: Option<Time>,
    /// A keeper has let go of it.
    gone: bool,
}

#[derive(Debug)]
pub(crate) struct Oracle {
    plan: Plan,
    /// The position of the next audit record.
    position: u64,
    tales: BTreeMap<MessageId, Tale>,
    by_idempotency: BTreeMap<(Tenant, String), MessageId>,
    /// Under which claim a message was sent that the provider knows by that id.
    receipts: BTreeMap<String, ClaimKey>,
    /// Nothing may be claimed or taken over.
    paused: bool,
    /// Where an operator's block stands.
    held: BTreeSet<Place>,
    walls: Walls,
    desk: Desk,
    courses: Courses,
    holders: BTreeMap<Holder, claims::Hands>,
    /// How far the chain has been checked. Whoever opens the store anew checks it from its start.
    walk: Walk,
    /// What keepers have seen to be given up, and when each had ended.
    ripe: BTreeMap<MessageId, Time>,
    /// How often the clock has jumped.
    jumps: u64,
    /// The latest that it has been.
    latest: Time,
}

fn is_end(state: StateName) -> bool {
    !matches!(state, StateName::Pending | StateName::Sending)
}

impl Oracle {
    pub(crate) fn new(plan: Plan) -> Oracle {
        Oracle {
            plan,
            position: 0,
            tales: BTreeMap::new(),
            by_idempotency: BTreeMap::new(),
            receipts: BTreeMap::new(),
            paused: false,
            held: BTreeSet::new(),
            walls: Walls::default(),
            desk: Desk::default(),
            courses: Courses::default(),
            holders: BTreeMap::new(),
            walk: Walk::default(),
            ripe: BTreeMap::new(),
            jumps: 0,
            latest: Time::default(),
        }
    }

    /// The clock has jumped; what time it was before.
    pub(crate) fn clock_jumped(&mut self, before: Time) {
        self.jumps += 1;
        self.latest = self.latest.max(before);
        self.walls.clock_jumped();
    }

    /// A process has started on what another left.
    pub(crate) fn restarted(&mut self) {
        self.check_anew();
        self.walls.forget();
        self.walls.restarted();
    }

    /// The chain is to be checked from its start.
    pub(crate) fn check_anew(&mut self) {
        self.walk = Walk::default();
    }

    /// A commit failed, after which the store reads everything anew.
    pub(crate) fn store_forgets(&mut self) {
        self.walls.forget();
    }

    /// The store is told something of a place that leaves no record; whether the place is down.
    pub(crate) fn told_of(&mut self, place: &Place, down: bool) {
        self.walls.touch(place, down);
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// A short name for a message.
    pub(crate) fn name(&self, id: MessageId) -> String {
        let reference = self.tales.get(&id).and_then(|tale| tale.message.body.reference.clone());
        reference.unwrap_or_else(|| "nobody".into())
    }

    /// Whose a message is.
    pub(crate) fn tenant_of(&self, id: MessageId) -> Tenant {
        self.tales.get(&id).map(|tale| tale.tenant().clone()).unwrap_or_default()
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    pub(crate) fn ids(&self) -> Vec<MessageId> {
        self.tales.keys().copied().collect()
    }

    /// Takes in what was committed since the last look, and checks each record and each message that it is about.
    pub(crate) fn follow(&mut self, reader: &mut impl Reading) -> Checked<Vec<(u64, Record)>> {
        let records = reader.audit(self.position, usize::MAX)?;
        let blocks = reader.blocks()?;
        let mut touched = BTreeSet::new();
        for (position, record) in &records {
            hold!(
                12,
                *position == self.position,
                "record {position} where {} should have been",
                self.position
            );
            self.position += 1;
            self.latest = self.latest.max(record.at);
            if let Some(id) = record.message {
                self.take_in(reader, id, *position, record)?;
                touched.insert(id);
            } else {
                self.take_in_act(record)?;
            }
        }
        self.take_in_pruned(reader, records.iter().map(|(_, record)| record))?;
        for id in touched {
            self.compare(reader, id)?;
        }
        self.walls.stand(blocks);
        self.walls.settle_down();
        // A group serves its claims last, so that what stands at its end stood when they were made.
        for (id, at) in
            records.iter().filter(|(_, record)| record.event == Event::Claimed).filter_map(claim_of)
        {
            self.check_passage(id, at)?;
        }
        self.walls.check_pulses(&self.plan)?;
        let operated = self.walls.operators();
        hold!(
            12,
            operated == self.held,
            "operators' blocks are {operated:?}, and by the audit {:?}",
            self.held
        );
        Ok(records)
    }

    fn take_in_act(&mut self, record: &Record) -> Checked {
        match record.event {
            Event::OperationStarted => return self.desk.sweep(record),
            Event::Paused => self.paused = true,
            Event::Resumed => self.paused = false,
            _ => {}
        }
        self.courses.take_in_act(record)?;
        let Ok(channel) = record.channel.parse() else { return Ok(()) };
        let place = Place { channel, destination: field(&record.detail, "destination").map(Into::into) };
        let kind = field(&record.detail, "kind").unwrap_or_default();
        match record.event {
            Event::Blocked => self.walls.blocked(&place, record.actor == "pombo", kind)?,
            Event::Unblocked => self.walls.unblocked(&place),
            _ => {}
        }
        match record.event {
            Event::Blocked if kind == "operator" => drop(self.held.insert(place)),
            Event::Blocked | Event::Unblocked => drop(self.held.remove(&place)),
            _ => {}
        }
        Ok(())
    }

    /// What must be true of the blocks in front of a message that was claimed.
    fn check_passage(&mut self, id: MessageId, at: Time) -> Checked {
        let name = self.name(id);
        let Some(tale) = self.tales.get_mut(&id) else { return Ok(()) };
        let probing = self.walls.check_claim(&self.plan, (&name, id), &tale.message.queue, at)?;
        if let Some(claim) = tale.claims.last_mut() {
            claim.probing = probing;
        }
        Ok(())
    }

    fn take_in(
        &mut self,
        reader: &mut impl Reading,
        id: MessageId,
        position: u64,
        record: &Record,
    ) -> Checked {
        if record.event == Event::Accepted {
            return self.take_in_accepted(reader, id, position, record);
        }
        self.check_turn(id, record)?;
        let Some(tale) = self.tales.get_mut(&id) else {
            return broken(12, format_args!("a record of a message that was never accepted: {record:?}"));
        };
        let name = tale.message.body.reference.clone().unwrap_or_default();
        let (whose, own) = (&record.tenant, tale.tenant());
        hold!(3, !tale.gone, "{name} was let go of, and then: {record:?}");
        hold!(14, whose == own.as_str(), "{name} is {own}'s, and the audit says {whose}'s: {record:?}");
        hold!(14, record.actor != eve().0, "a stranger did that to {name}: {record:?}");
        let deed = matches!(record.event, Event::Reprocessed | Event::Discarded | Event::Edited);
        let lasts = match tale.state {
            StateName::Failed => deed,
            StateName::Sent => record.event == Event::Delivery,
            state => !is_end(state) && !deed,
        };
        hold!(3, lasts, "{name} was {}, and then: {record:?}", tale.state);
        hold!(12, record.from == Some(tale.state), "{name} was {}, and then: {record:?}", tale.state);
        let Some(to) = record.to else { return broken(12, format_args!("nowhere to: {record:?}")) };
        self.courses.take_in(&self.plan, &tale.message, &name, record)?;
        let starts = matches!(record.event, Event::Claimed | Event::TakenOver);
        hold!(8, !(starts && self.paused), "{name} while everything is paused: {record:?}");
        match record.event {
            Event::Claimed => {
                hold!(
                    7,
                    tale.due <= record.at,
                    "{name} was claimed at {}, and due at {}",
                    record.at,
                    tale.due
                );
                let alive = tale.message.expires_at.is_none_or(|deadline| deadline > record.at);
                hold!(8, alive, "{name} was claimed after its deadline, at {}", record.at);
                tale.begin_claim(position, Start::Claimed);
            }
            Event::TakenOver => {
                tale.end_claim(record.event);
                tale.begin_claim(position, Start::TakenOver);
            }
            Event::Sent | Event::RetryScheduled | Event::Failed | Event::Held => {
                tale.check_result(&self.plan, record)?;
                let heard = tale.claims.last().and_then(|claim| claim.heard);
                tale.results += 1;
                tale.end_claim(record.event);
                if let Some((said, _)) = heard {
                    self.walls.heard(&self.plan, &tale.message.queue, id, said, record.at);
                }
            }
            Event::Released => {
                let called = tale.claims.last().is_some_and(|claim| claim.called);
                hold!(11, !called, "{name} was given back as unsent, after it was sent");
                tale.end_claim(record.event);
            }
            Event::Expired => {
                let late = tale.message.expires_at.is_some_and(|deadline| deadline <= record.at);
                hold!(8, late, "{name} expired at {}, before its deadline", record.at);
                tale.progress.steps += 1;
            }
            Event::Cancelled => {
                tale.progress.steps += 1;
                let by = Actor(record.actor.clone());
                let note = field(&record.detail, "reason").map(Into::into);
                tale.deeds.push(Deed { at: record.at, what: What::Cancelled, by, note });
            }
            Event::Reprocessed | Event::Discarded | Event::Edited => {
                tale.check_deed(&mut self.desk, position, record)?;
            }
            Event::Hastened => tale.check_hastened(record)?,
            Event::Delivery => tale.check_report(record)?,
            _ => return broken(3, format_args!("nothing here does that: {record:?}")),
        }
        if record.event != Event::Claimed {
            self.walls.ended(id);
        }
        let lawful = match record.event {
            Event::Claimed | Event::TakenOver => StateName::Sending,
            Event::Sent | Event::Delivery => StateName::Sent,
            Event::Failed | Event::Expired | Event::Edited => StateName::Failed,
            Event::Cancelled => StateName::Cancelled,
            Event::Discarded => StateName::Discarded,
            _ => StateName::Pending,
        };
        hold!(12, to == lawful, "{name}: {record:?}");
        if matches!(record.event, Event::Failed | Event::Expired) {
            tale.reason = field(&record.detail, "reason").unwrap_or_default().to_owned();
            tale.failures += 1;
        }
        if tale.state != to {
            tale.ended = None;
        }
        tale.state = to;
        Ok(())
    }

    fn take_in_accepted(
        &mut self,
        reader: &mut impl Reading,
        id: MessageId,
        position: u64,
        record: &Record,
    ) -> Checked {
        hold!(
            12,
            record.from.is_none() && record.to == Some(StateName::Pending),
            "accepted oddly: {record:?}"
        );
        let Ok(tenant) = record.tenant.parse::<Tenant>() else {
            return broken(14, format_args!("nobody's: {record:?}"));
        };
        let Some(story) = reader.story(&tenant, id)? else {
            return broken(1, format_args!("the audit knows {id}, and the store does not"));
        };
        let message = story.message;
        let reference = message.body.reference.clone().unwrap_or_default();
        self.courses.take_in_accepted(&message, &reference)?;
        let wished = self.plan.wished(&reference);
        let asked_by = wished.map_or(&tenant, |draft| &draft.queue.tenant);
        let whose = &message.queue.tenant;
        hold!(14, *asked_by == tenant && *whose == tenant, "{reference} of {asked_by} became {whose}'s");
        if let Some(said) = wished.and_then(|draft| draft.idempotency.as_ref())
            && let Some(first) = self.by_idempotency.insert((tenant, said.key.clone()), id)
            && !self.is_forgotten(first)
        {
            return broken(10, format_args!("{} stands for {first} and for {id}", said.key));
        }
        let due = message.send_at.unwrap_or(record.at).max(record.at);
        let tale = Tale {
            round_since: message.created_at(),
            message,
            state: StateName::Pending,
            due,
            progress: Progress::default(),
            reason: String::new(),
            turn: position,
            edited: false,
            revisions: Vec::new(),
            deeds: Vec::new(),
            claims: Vec::new(),
            results: 0,
            failures: 0,
            taken: BTreeMap::new(),
            delivery: None,
            ended: None,
            gone: false,
        };
        hold!(1, self.tales.insert(id, tale).is_none(), "{id} was accepted twice");
        Ok(())
    }

    /// Nobody may stand before a message in its order.
    fn check_turn(&self, id: MessageId, record: &Record) -> Checked {
        if record.event != Event::Claimed {
            return Ok(());
        }
        let Some(tale) = self.tales.get(&id) else { return Ok(()) };
        if let Some(key) = &tale.message.ordering_key {
            let earlier = self.tales.values().filter(|other| other.turn < tale.turn);
            let mut waiting = earlier.filter(|tale| !is_end(tale.state));
            let before = waiting.find(|other| {
                other.message.ordering_key.as_ref() == Some(key) && other.tenant() == tale.tenant()
            });
            hold!(
                0,
                before.is_none(),
                "{} was claimed while another of its order was before it",
                self.name(id)
            );
        }
        Ok(())
    }

    /// What the store says of a message, against what its audit says.
    fn compare(&mut self, reader: &mut impl Reading, id: MessageId) -> Checked {
        let name = self.name(id);
        let Some(tale) = self.tales.get_mut(&id) else { return Ok(()) };
        let Some(story) = reader.story(tale.tenant(), id)? else {
            hold!(1, tale.gone, "{name} is gone");
            return Ok(());
        };
        for other in self.plan.tenants.iter().filter(|other| *other != tale.tenant()) {
            hold!(14, reader.story(other, id)?.is_none(), "{name} is shown to {other}");
        }
        hold!(
            12,
            story.state.name() == tale.state,
            "{name} is {:?}, and by the audit {}",
            story.state,
            tale.state
        );
        tale.check_progress(&name, story.progress)?;
        let (attempts, allowed) = (story.progress.attempts, tale.policy(&self.plan).attempts);
        // Once it is edited it may have another policy, for the next round.
        hold!(5, tale.edited || attempts <= allowed, "{name} had {attempts} attempts of {allowed}");
        let (deadline, should) = (story.message.expires_at, tale.message.expires_at);
        hold!(8, deadline == should, "{name} expires at {deadline:?}, and should at {should:?}");
        hold!(12, story.message == tale.message, "{name} is {:?}, not {:?}", story.message, tale.message);
        let (results, should) = (story.attempts.len(), tale.results);
        hold!(12, results == should, "{name} has {results} attempts on record, and by the audit {should}");
        let (told, should) = (story.delivery.as_ref().map(|word| word.state), tale.delivery);
        hold!(12, told == should, "{name} is {told:?} to its provider, and by the audit {should:?}");
        hold!(12, story.deeds == tale.deeds, "{name} has {:?}, not {:?}", story.deeds, tale.deeds);
        let (version, should) = (story.version, tale.version());
        hold!(12, version == should, "{name} is version {version}, and by the audit {should}");
        if version > 1 {
            let revisions = reader.revisions(tale.tenant(), id)?;
            hold!(12, revisions == tale.revisions, "{name} said {revisions:?}, not {:?}", tale.revisions);
        }
        let ended = tale.ended.or(story.state.ended_at());
        hold!(3, ended == story.state.ended_at(), "{name} ended at {ended:?}, and then {:?}", story.state);
        tale.ended = ended;
        match story.state {
            State::Pending { due } => {
                hold!(12, due == tale.due, "{name} is due at {due}, and by the audit at {}", tale.due);
            }
            State::Sending { claim, .. } => {
                let open = tale.claims.iter().filter(|claim| claim.end.is_none()).count();
                hold!(4, open == 1, "{name} has {open} live claims");
                let last = tale.claims.len() - 1;
                hold!(
                    4,
                    tale.claim_at(claim) == Some(last),
                    "{name} is under {claim:?}, which is not the last"
                );
            }
            State::Failed { reason, .. } => {
                let (reason, should) = (reason.as_str(), &tale.reason);
                hold!(12, reason == should, "{name} failed: {reason}, and by the audit {should}");
            }
            _ => {}
        }
        Ok(())
    }

    /// Everything that the store shows, against the model, and the whole chain.
    pub(crate) fn compare_all(&mut self, reader: &mut impl Reading) -> Checked {
        let mut seen = BTreeMap::new();
        for tenant in &self.plan.tenants {
            let lines = self.list(reader, tenant)?;
            for line in &lines {
                let (name, whose) = (self.name(line.message.id), &line.message.queue.tenant);
                hold!(14, whose == tenant, "{name} is {whose}'s, and in the list of {tenant}");
                let again = seen.insert(line.message.id, line.state.name());
                hold!(1, again.is_none(), "{name} is listed twice");
            }
            self.check_letters(reader, tenant, &lines)?;
        }
        for (id, tale) in &self.tales {
            let state = seen.remove(id);
            if tale.gone && state.is_none() {
                continue;
            }
            hold!(1, state.is_some(), "{} was accepted and is gone", self.name(*id));
            hold!(
                12,
                state == Some(tale.state),
                "{} is {state:?}, and by the audit {}",
                self.name(*id),
                tale.state
            );
        }
        hold!(12, seen.is_empty(), "not in the audit: {seen:?}");
        while self.walk.on(&reader.chain(self.walk.tip.sequence, usize::MAX)?) {}
        let verified = self.walk.verified();
        hold!(12, verified.broken.is_none(), "the chain does not hold: {:?}", verified.broken);
        hold!(
            12,
            verified.records == self.position,
            "the chain has {} records of {}",
            verified.records,
            self.position
        );
        self.check_sweeps(reader)?;
        self.check_courses(reader)?;
        let (tallies, backlog) = (reader.tallies()?, reader.backlog(Time::MAX)?);
        self.plan.tenants.iter().try_for_each(|tenant| self.check_tallies(tenant, &tallies, &backlog))
    }

    /// Everything of one tenant, the newest first.
    fn list(&self, reader: &mut impl Reading, tenant: &Tenant) -> Checked<Vec<Line>> {
        let filter = Filter { tenant: tenant.clone(), ..Filter::default() };
        let (mut lines, mut before) = (Vec::new(), None);
        loop {
            let page = reader.page(&filter, before, 1_000)?;
            lines.extend(page.lines);
            before = page.next;
            if before.is_none() {
                return Ok(lines);
            }
        }
    }

    fn check_tallies(&self, tenant: &Tenant, tallies: &[Tally], backlog: &[Backlog]) -> Checked {
        let mut counted: BTreeMap<Counted, u64> = BTreeMap::new();
        for tally in tallies.iter().filter(|tally| tally.tenant == *tenant) {
            *counted.entry(tally.what).or_default() += tally.count;
        }
        let tales = || self.tales.values().filter(|tale| tale.tenant() == tenant);
        let in_state = |state| tales().filter(|tale| tale.state == state).count() as u64;
        for (what, count) in [
            (Counted::Accepted, tales().count() as u64),
            (Counted::Sent, in_state(StateName::Sent)),
            (Counted::Failed, tales().map(|tale| tale.failures).sum()),
            (Counted::Cancelled, in_state(StateName::Cancelled)),
            (Counted::Discarded, in_state(StateName::Discarded)),
            (Counted::Reprocessed, tales().map(|tale| u64::from(tale.progress.round)).sum()),
        ] {
            let told = counted.get(&what).copied().unwrap_or_default();
            let what = what.as_str();
            hold!(1, told == count, "{count} of {tenant} are {what}, and {told} were counted");
        }
        let waiting: u64 =
            backlog.iter().filter(|lane| lane.tenant == *tenant).map(|lane| lane.waiting).sum();
        let alive = in_state(StateName::Pending) + in_state(StateName::Sending);
        hold!(1, waiting == alive, "{alive} of {tenant} wait or are sent, and {waiting} were counted");
        Ok(())
    }

    /// A producer was told that a message was accepted.
    pub(crate) fn told_accepted(&self, draft: &Draft, id: MessageId) -> Checked {
        let Some(tale) = self.tales.get(&id) else {
            return broken(2, format_args!("a producer was told of {id}, which is not durable"));
        };
        let (whose, own) = (tale.tenant(), &draft.queue.tenant);
        hold!(14, whose == own, "a producer of {own} was told of {id}, which is {whose}'s");
        if let Some(first) = self.first_under(draft) {
            hold!(10, first == Some(id), "{:?} stands for {first:?}, not {id}", draft.idempotency);
        }
        Ok(())
    }

    pub(crate) fn told_conflict(&self, draft: &Draft, first: MessageId) -> Checked {
        let stands = self.first_under(draft).flatten();
        hold!(10, stands == Some(first), "{:?} conflicts with {first}, not {stands:?}", draft.idempotency);
        Ok(())
    }

    /// Which message a draft's key stands for, if it has one.
    fn first_under(&self, draft: &Draft) -> Option<Option<MessageId>> {
        let said = draft.idempotency.as_ref()?;
        Some(self.by_idempotency.get(&(draft.queue.tenant.clone(), said.key.clone())).copied())
    }

    /// Somebody of a tenant asked for something to be done about a message, and was told that there is none, or not.
    pub(crate) fn told_foreigner(&self, tenant: &Tenant, id: MessageId, not_found: bool) -> Checked {
        let own = self.tales.get(&id).is_some_and(|tale| tale.tenant() == tenant);
        hold!(14, own || not_found, "{} is found by {tenant}, whose it is not", self.name(id));
        Ok(())
    }

    /// A message is sent that its provider will speak of by that id.
    pub(crate) fn receipt(&mut self, provider_id: &str, key: ClaimKey) {
        self.receipts.insert(provider_id.to_owned(), key);
    }

    /// A provider was told what became of its report.
    pub(crate) fn told_reported(&self, report: &Report, reported: Reported) -> Checked {
        let Some(key) = self.receipts.get(&report.provider_id) else { return Ok(()) };
        let Some(tale) = self.tales.get(&key.message) else { return Ok(()) };
        let (name, known) = (self.name(key.message), tale.delivery);
        let sent = tale.claim_at(key.claim).and_then(|index| tale.claims.get(index));
        let sent = sent.is_some_and(|claim| claim.end == Some(Event::Sent));
        match reported {
            Reported::Unknown => hold!(0, !sent || tale.gone, "{name} was sent, and {report:?} is of nobody"),
            Reported::Kept | Reported::Moved { .. } => {
                hold!(0, sent, "{name} was not sent, and {report:?} came to {reported:?}");
                let stands = known >= Some(report.delivery);
                hold!(2, stands, "{report:?} came to {reported:?}, and {name} is {known:?}");
            }
        }
        Ok(())
    }

    pub(crate) fn told_cancelled(&self, reader: &mut impl Reading, id: MessageId) -> Checked {
        let name = self.name(id);
        let state = reader.story(&self.tenant_of(id), id)?.map(|story| story.state.name());
        hold!(2, state == Some(StateName::Cancelled), "{name} was cancelled, and is {state:?}");
        let told = self.tales.get(&id).map(|tale| tale.state);
        hold!(12, told == state, "{name} was cancelled, and by the audit it is {told:?}");
        Ok(())
    }

    /// Whether everything has come to an end that should.
    pub(crate) fn is_finished(&self) -> bool {
        if !self.held.is_empty() {
            return self.unfinished().is_empty();
        }
        let live = self.tales.values().any(|tale| !is_end(tale.state));
        !live && self.plan.drives.iter().all(|drive| self.courses.is_over(&drive.name))
    }

    /// Messages that should have come to an end by now.
    pub(crate) fn unfinished(&self) -> Vec<String> {
        let mut late = Vec::new();
        let mut waiting: BTreeSet<&CampaignName> = BTreeSet::new();
        let mut stuck: BTreeSet<(&Tenant, &str)> = BTreeSet::new();
        let mut live: Vec<_> = self.tales.iter().filter(|(_, tale)| !is_end(tale.state)).collect();
        live.sort_by_key(|(_, tale)| tale.turn);
        for (id, tale) in live {
            let queue = &tale.message.queue;
            let behind = walls::places(queue).iter().any(|place| self.held.contains(place));
            let order = tale.message.ordering_key.as_deref().map(|order| (&queue.tenant, order));
            // Whoever is behind one that waits for an operator waits as well.
            let excused = tale.state == StateName::Pending
                && (behind || order.is_some_and(|order| stuck.contains(&order)));
            if excused {
                stuck.extend(order);
                waiting.extend(&queue.campaign);
            } else {
                late.push(format!("{} is {} (due {})", self.name(*id), tale.state, tale.due));
            }
        }
        // A campaign whose messages wait for an operator makes no more of them.
        let open = self.plan.drives.iter().map(|drive| &drive.name).filter(|name| !waiting.contains(name));
        late.extend(open.filter(|name| !self.courses.is_over(name)).map(|name| format!("{name} goes on")));
        late
    }

    /// The most messages that wait for one another.
    pub(crate) fn longest_order(&self) -> u64 {
        let mut orders: BTreeMap<&str, u64> = BTreeMap::new();
        for tale in self.tales.values() {
            if let Some(key) = tale.message.ordering_key.as_deref() {
                *orders.entry(key).or_default() += 1;
            }
        }
        orders.into_values().max().unwrap_or(1)
    }
}

fn claim_of((_, record): &(u64, Record)) -> Option<(MessageId, Time)> {
    Some((record.message?, record.at))
}

/// A field of a record's detail: what stands after its name, without quotes.
fn field<'a>(detail: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = detail.split_once(&format!("\"{name}\":"))?;
    let end = rest.find([',', '}']).unwrap_or(rest.len());
    Some(rest[..end].trim_matches('"'))
}
