//! The executable model: what a store means, written to be read rather than to be fast.
//!
//! Everything is found by looking at everything. Other stores are right when they answer as this one does.

mod dead;
mod erase;
mod learning;
mod prune;
mod reader;
mod receipts;
mod roster;
mod shelf;
mod templates;
mod turns;
mod walls;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pombo_kernel::attachment::Digest;
use pombo_kernel::block::{Block, Probe};
use pombo_kernel::campaign::recipient::Standing;
use pombo_kernel::delivery::{LastWord, Report};
use pombo_kernel::dice::Dice;
use pombo_kernel::erasure::Pseudonyms;
use pombo_kernel::id::{IdMaker, MessageId, MessageKey};
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{
    Actor, Attempt, ClaimId, ClaimKey, Draft, FailureReason, Message, Progress, QueueName, State,
};
use pombo_kernel::name::{CampaignName, ChannelName, LaneName, TemplateName, Tenant};
#[cfg(feature = "planted")]
use pombo_kernel::planted;
use pombo_kernel::template::Template;
use pombo_kernel::time::Time;
use pombo_kernel::turns::{BITE, Pass};

use crate::audit::{self, Record, Tip};
use crate::core::Core;
use crate::courses::standing_cancelled;
use crate::dead::{Deed, Edit, Edited, Hastened, Revision, Ruling, Verdicts, What};
use crate::erase::{Erase, Erased};
use crate::learning::Names;
use crate::meter::Counts;
use crate::prune::{Lapsed, Prune, Pruned, Ripe};
use crate::roster::{Enlist, Enlisted, Feed, NotDone, Serving, left_out};
use crate::shelf::{Doc, Shelf, Shelve, Shelved};
use crate::stats::{Course, Entry, Ledger, Sum};
use crate::traffic::{Traffic, places, witness};
use crate::{
    Accepted, Ask, Cancelled, Claimed, Conflict, Counted, Finding, NodeId, Pause, Place, Put, Repeat,
    Reported, Settled, Settlement, StoreError, TemplateVersion, transition,
};

pub use reader::MemoryReader;

/// A store in memory. It survives `reopen`, and nothing else.
#[derive(Debug)]
pub struct Memory {
    /// What the writer sees.
    now: Model,
    /// What readers see, and what `reopen` goes back to.
    committed: Arc<Mutex<Model>>,
    dice: Dice,
    ids: IdMaker,
    /// Who is alive, and until when. Never durable: it ends with the process.
    leases: BTreeMap<NodeId, Time>,
    kept: Kept,
    /// What the last commit has added to the counters, for whoever shows it.
    counts: Vec<Entry>,
}

/// What outlasts `reopen` besides messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// As with a store that one process has for itself: which probes are out and how far flows have come is forgotten.
    Alone,
    /// As with a store that processes share: both are kept with the messages.
    Shared,
}

/// The whole of what a store knows.
#[derive(Clone, Debug, Default)]
struct Model {
    /// Shared with the committed state as long as they are the same.
    messages: BTreeMap<MessageKey, Arc<Row>>,
    idempotency: BTreeMap<(Tenant, String), ([u8; 16], MessageId)>,
    /// Keys whose messages are gone, and until when they stay.
    lapsing: BTreeMap<(Tenant, String), Time>,
    queues: BTreeMap<Arc<QueueName>, Queue>,
    lanes: BTreeMap<LaneName, Pass>,
    /// How often a queue took something.
    turns_taken: u64,
    claims: BTreeMap<MessageKey, Hold>,
    blocks: BTreeMap<Place, Block>,
    paused: Option<Pause>,
    traffic: Traffic,
    /// The message of a provider's id; of several with the same one, the last that was sent.
    receipts: BTreeMap<(ChannelName, String), MessageKey>,
    /// Counters by hour, 0 for all time.
    counters: BTreeMap<CounterKey, Sum>,
    /// What is added to them with the next commit.
    ledger: Ledger,
    /// By what the week's counters are told apart.
    names: Names,
    docs: BTreeMap<(Shelf, Tenant, String), Doc>,
    /// Whom campaigns write to, in the order of their numbers.
    rosters: BTreeMap<(Tenant, CampaignName), Vec<roster::Entry>>,
    /// How often a message took its place among others of its ordering key.
    turns_given: u64,
    templates: BTreeMap<(Tenant, TemplateName), Vec<TemplateVersion>>,
    blobs: BTreeMap<Digest, Arc<[u8]>>,
    blob_uses: BTreeSet<(Digest, MessageKey)>,
    chain: Vec<Arc<audit::Block>>,
    tip: Tip,
    /// Recorded since the last commit.
    records: Vec<Record>,
}

/// Hour, whose, of which channel, what, detail.
type CounterKey = (i64, Tenant, Option<ChannelName>, Counted, String);

#[derive(Clone, Debug)]
struct Row {
    message: Arc<Message>,
    state: State,
    standing: Spot,
    progress: Progress,
    /// When it was accepted, or an attempt at it ended, or it was given up.
    moved_at: Time,
    attempts: Vec<Attempt>,
    delivery: Option<LastWord>,
    /// Since when it is in its round.
    round_since: Time,
    /// Its place among others of its ordering key.
    turn: u64,
    revisions: Vec<Revision>,
    /// How far it had come when it was last edited.
    edited_at_step: Option<u32>,
    deeds: Vec<Deed>,
}

/// Where a message with an ordering key is while it is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spot {
    /// In its queue, or already claimed from it.
    Queued,
    /// Outside the queues, behind another of its key.
    Waiting,
}

#[derive(Clone, Debug)]
struct Queue {
    /// How many queues were there before it.
    age: usize,
    pass: Pass,
    /// The turn in which it last took something.
    served: u64,
}

/// A claimed message and its holder.
#[derive(Clone, Debug)]
struct Hold {
    claim: ClaimId,
    node: NodeId,
    /// When the message was due, and is again if its holder gives it back.
    due: Time,
    probing: Option<Probing>,
}

/// The blocks through which a message was let as a probe, and what it is to find out.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Probing {
    places: Vec<Place>,
    probe: Probe,
}

/// What stands in front of a queue.
enum Front {
    Open,
    Probe(Probing),
    Shut { until: Option<Time> },
}

/// A node that never lives.
const NOBODY: NodeId = NodeId(i64::MIN);

/// A queue that has something due and may send it.
struct Turn {
    queue: Arc<QueueName>,
    pass: Pass,
    served: u64,
    age: usize,
    probing: Option<Probing>,
}

impl Memory {
    /// An empty store. With the same dice and the same commands, every store gives the same ids.
    pub fn new(mut dice: Dice) -> Memory {
        let ids = id_maker(&Model::default(), &mut dice);
        Memory {
            now: Model::default(),
            committed: Arc::default(),
            dice,
            ids,
            leases: BTreeMap::new(),
            kept: Kept::Alone,
            counts: Vec::new(),
        }
    }

    /// An empty store that means what one means which several processes share.
    pub fn shared(dice: Dice) -> Memory {
        Memory { kept: Kept::Shared, ..Memory::new(dice) }
    }

    /// What the next process would find, had it been on disk: what was committed, no leases, and every hold ready
    /// to be probed.
    pub fn found(reader: &MemoryReader, mut dice: Dice) -> Memory {
        let committed = reader.committed();
        let now = locked(&committed).clone();
        let ids = id_maker(&now, &mut dice);
        let (leases, counts) = (BTreeMap::new(), Vec::new());
        let mut found = Memory { now, committed, dice, ids, leases, kept: Kept::Alone, counts };
        found.forget_turns();
        #[cfg(feature = "planted")]
        found.lose_what_was_planted();
        for block in found.now.blocks.values_mut().filter(|block| block.kind.is_probed()) {
            block.until = block.until.map(|_| Time::default());
        }
        found
    }

    #[cfg(feature = "planted")]
    fn lose_what_was_planted(&mut self) {
        self.now.docs.values_mut().for_each(|doc| *doc = crate::roster::found(doc.clone()));
        if planted::is(planted::Bug::WaitingLost) {
            let mut waiting =
                self.now.messages.iter().filter(|(_, row)| matches!(row.state, State::Pending { .. }));
            let one = waiting.next().map(|(key, _)| *key);
            one.and_then(|key| self.now.messages.remove(&key));
        }
    }

    /// Turns are not durable, nor is traffic but for the flows of a store that is shared.
    fn forget_turns(&mut self) {
        for queue in self.now.queues.values_mut() {
            (queue.pass, queue.served) = (Pass::default(), 0);
        }
        self.now.lanes.clear();
        if self.kept == Kept::Shared {
            self.now.traffic = self.now.traffic.flows_alone();
            return;
        }
        for hold in self.now.claims.values_mut() {
            hold.probing = None;
        }
        self.now.traffic = Traffic::default();
    }
}

fn id_maker(model: &Model, dice: &mut Dice) -> IdMaker {
    let last = model.messages.keys().next_back().copied().unwrap_or_default();
    IdMaker::after(last, Dice::seeded(dice.next_u64()))
}

fn locked(model: &Mutex<Model>) -> MutexGuard<'_, Model> {
    model.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core for Memory {
    type Reader = MemoryReader;

    fn accept(&mut self, draft: Draft, now: Time) -> Result<Result<Accepted, Conflict>, StoreError> {
        let model = &mut self.now;
        let tenant = draft.queue.tenant.clone();
        let known = draft.idempotency.as_ref();
        #[cfg(feature = "planted")]
        let known = known.filter(|_| !planted::is(planted::Bug::KeyIgnored));
        if let Some(said) = known
            && let Some((fingerprint, first)) = model.idempotency.get(&(tenant.clone(), said.key.clone()))
        {
            let same = *fingerprint == said.fingerprint;
            let accepted = Accepted { id: *first, repeat: Repeat::Same };
            return Ok(if same { Ok(accepted) } else { Err(Conflict { first: *first }) });
        }
        let id = draft.id.unwrap_or_else(|| self.ids.next(now));
        if let Some(said) = draft.idempotency {
            model.idempotency.insert((tenant, said.key), (said.fingerprint, id));
        }
        model.blob_uses.extend(draft.blobs.iter().map(|blob| (blob.digest, id.key())));
        model.blobs.extend(draft.blobs.into_iter().map(|blob| (blob.digest, blob.bytes)));
        let message = Arc::new(Message {
            id,
            queue: model.queue(draft.queue),
            priority: draft.priority,
            send_at: draft.send_at,
            expires_at: draft.expires_at,
            ordering_key: draft.ordering_key,
            body: draft.body,
        });
        model.turns_given += 1;
        let row = Row {
            turn: model.turns_given,
            round_since: message.created_at(),
            revisions: Vec::new(),
            edited_at_step: None,
            deeds: Vec::new(),
            state: State::Pending { due: draft.send_at.unwrap_or(now).max(now) },
            standing: if model.key_is_taken(&message) { Spot::Waiting } else { Spot::Queued },
            progress: Progress::default(),
            moved_at: message.created_at(),
            attempts: Vec::new(),
            delivery: None,
            message: message.clone(),
        };
        model.messages.insert(id.key(), Arc::new(row));
        model.records.push(transition::accepted(&message, now));
        model.ledger.accepted(&message.queue);
        Ok(Ok(Accepted { id, repeat: Repeat::First }))
    }

    fn claim(&mut self, ask: &Ask, now: Time) -> Result<Vec<Claimed>, StoreError> {
        let model = &mut self.now;
        model.traffic.bound(&ask.rates);
        model.end_pauses(now);
        let claim = model.next_claim();
        let mut taken = Vec::new();
        while taken.len() < ask.max && !model.is_paused() {
            let turns = model.turns(&ask.lane, now);
            let Some(turn) = turns.iter().min_by_key(|turn| (turn.pass, turn.served, turn.age)) else {
                break;
            };
            // A queue that is alone simply has the next turn as well.
            let bite = if turn.probing.is_some() { 1 } else { BITE.min(ask.max - taken.len()) };
            taken.extend(model.take(turn, bite, claim, ask.node, now));
        }
        Ok(taken)
    }

    fn heartbeat(&mut self, node: NodeId, lease_until: Time) -> Result<(), StoreError> {
        let lease = self.leases.entry(node).or_default();
        *lease = lease_until.max(*lease);
        Ok(())
    }

    fn take_over(&mut self, node: NodeId, max: usize, now: Time) -> Result<Vec<Claimed>, StoreError> {
        let model = &mut self.now;
        if model.is_paused() {
            return Ok(Vec::new());
        }
        let claim = model.next_claim();
        let mut lost: Vec<_> =
            model.claims.iter().filter(|(_, hold)| is_lost(&self.leases, hold, now)).collect();
        lost.sort_by_key(|(key, hold)| (hold.claim, **key));
        let lost: Vec<_> = lost.into_iter().take(max).map(|(key, hold)| (*key, hold.clone())).collect();
        let mut taken = Vec::new();
        for (key, hold) in lost {
            let Some(row) = model.messages.get(&key) else { continue };
            let message = row.message.clone();
            model.records.push(transition::taken_over(&message, now));
            model.course_taken_over(&message, claim.0, now);
            taken.extend(model.hold(key, Hold { claim, node, probing: None, ..hold }, now));
        }
        Ok(taken)
    }

    fn disown(&mut self, key: ClaimKey) {
        let hold = self.now.claims.get_mut(&key.message.key()).filter(|hold| hold.claim == key.claim);
        if let Some(hold) = hold {
            hold.node = NOBODY;
        }
    }

    fn settle(&mut self, settlement: Settlement, now: Time) -> Result<Settled, StoreError> {
        let model = &mut self.now;
        let Some((message, due)) = model.give_back(settlement.key) else { return Ok(Settled::Stale) };
        model.end_pauses(now);
        model.records.push(transition::settled(&message, &settlement, now));
        model.course_settled(&message, &settlement, now);
        let tried = model.messages.get(&message.id.key()).filter(|row| row.progress.steps > 0);
        let course = Course { due, after: tried.map(|row| row.moved_at) };
        model.ledger.settled(&message, &settlement, course);
        model.learn(&message, &settlement, now);
        let state = match settlement.next {
            Next::Sent(receipt) => {
                if settlement.reported {
                    model.expect_reports(&message, &receipt);
                }
                State::Sent { at: settlement.attempt.finished_at, receipt }
            }
            Next::Failed(reason) => State::Failed { at: settlement.attempt.finished_at, reason },
            Next::Retry { due, .. } | Next::Held { due } => State::Pending { due },
        };
        if let Some(row) = model.row_mut(message.id.key()) {
            row.moved_at = settlement.attempt.finished_at;
            row.attempts.push(settlement.attempt);
            row.progress = settlement.progress;
        }
        model.enter(&message, state);
        let places = places(&message.queue);
        model.change_block(&places, settlement.block, now);
        model.take_pulse(&places, &settlement.vitals, message.id.key(), now);
        Ok(Settled::Done)
    }

    fn release(&mut self, key: ClaimKey, now: Time) -> Result<Settled, StoreError> {
        let model = &mut self.now;
        let Some((message, due)) = model.give_back(key) else { return Ok(Settled::Stale) };
        model.records.push(transition::released(&message, now));
        let first = !model.is_retry(&message);
        model.course_released(&message, first, now);
        model.enter(&message, State::Pending { due });
        Ok(Settled::Done)
    }

    fn leave_out(&mut self, key: ClaimKey, reason: &str, now: Time) -> Result<Settled, StoreError> {
        let message = self.now.messages.get(&key.message.key()).map(|row| row.message.clone());
        let settled = self.release(key, now)?;
        if let (Settled::Done, Some(message)) = (settled, message) {
            self.now.cancel(&message, &Actor::engine(), Some(reason), now);
        }
        Ok(settled)
    }

    fn report(&mut self, channel: &ChannelName, report: &Report, now: Time) -> Result<Reported, StoreError> {
        Ok(self.now.report(channel, report, now))
    }

    fn cancel(
        &mut self,
        tenant: &Tenant,
        id: MessageId,
        by: &Actor,
        now: Time,
    ) -> Result<Cancelled, StoreError> {
        let model = &mut self.now;
        let Some(row) = model.row(tenant, id) else { return Ok(Cancelled::NotFound) };
        if !matches!(row.state, State::Pending { .. }) {
            return Ok(Cancelled::TooLate(row.state.name()));
        }
        let message = row.message.clone();
        model.cancel(&message, by, None, now);
        Ok(Cancelled::Done)
    }

    fn hasten(
        &mut self,
        tenant: &Tenant,
        id: MessageId,
        by: &Actor,
        now: Time,
    ) -> Result<Hastened, StoreError> {
        Ok(self.now.hasten(tenant, id, by, now))
    }

    fn rule(&mut self, ruling: &Ruling, now: Time) -> Result<Verdicts, StoreError> {
        Ok(self.now.rule(ruling, now))
    }

    fn edit(&mut self, edit: &Edit, now: Time) -> Result<Edited, StoreError> {
        Ok(self.now.edit(edit, now))
    }

    fn shelve(&mut self, wish: &Shelve, now: Time) -> Result<Shelved, StoreError> {
        Ok(self.now.shelve(wish, now))
    }

    fn enlist(&mut self, wish: &Enlist, now: Time) -> Result<Result<Vec<Enlisted>, NotDone>, StoreError> {
        Ok(self.now.enlist(wish, now))
    }

    fn feed(&mut self, feed: &Feed, now: Time) -> Result<Result<(), NotDone>, StoreError> {
        let servings = match self.now.servings(feed) {
            Ok(servings) => servings,
            Err(not) => return Ok(Err(not)),
        };
        let mut placed = Vec::new();
        for (number, serving) in servings {
            let (standing, message, reason) = match serving {
                Serving::Message(draft) => match self.accept((**draft).clone(), now)? {
                    Ok(accepted) => (Standing::Queued, Some(accepted.id), None),
                    Err(_) => continue,
                },
                Serving::Suppressed(reason) => (Standing::Suppressed, None, Some(reason.clone())),
                Serving::Failed(reason) => (Standing::Failed, None, Some(reason.clone())),
            };
            placed.push((number, standing, message, reason));
        }
        self.now.served(feed, &placed, now);
        Ok(Ok(()))
    }

    fn strike(&mut self, tenant: &Tenant, campaign: &CampaignName, max: usize) -> Result<usize, StoreError> {
        Ok(self.now.strike(tenant, campaign, max))
    }

    fn cut(&mut self, tenant: &Tenant, campaign: &CampaignName, now: Time) -> Result<bool, StoreError> {
        let cut = self.now.cut(tenant, campaign, now);
        cut.into_iter().for_each(|key| self.disown(key));
        Ok(cut.is_some())
    }

    fn prune(&mut self, prune: &Prune, ripe: &Ripe, now: Time) -> Result<Pruned, StoreError> {
        Ok(self.now.prune(prune, ripe, now))
    }

    fn lapse(&mut self, after: Option<MessageKey>, max: usize, now: Time) -> Result<Lapsed, StoreError> {
        Ok(self.now.lapse(after, max, now))
    }

    fn pseudonyms(&self) -> Pseudonyms {
        Pseudonyms::new(&[0; 32])
    }

    fn erase(&mut self, wish: &Erase, now: Time) -> Result<Erased, StoreError> {
        let mut erased = self.now.erase(wish, now);
        let traces = self.release_lost(&erased, &wish.traces, now)?;
        if !traces.is_empty() {
            let again = self.now.erase(&Erase { traces, ..wish.clone() }, now);
            erased.counts += again.counts;
            erased.left.retain(|id| self.now.messages.contains_key(&id.key()));
        }
        Ok(erased)
    }

    fn expire(&mut self, max: usize, now: Time) -> Result<usize, StoreError> {
        let model = &mut self.now;
        let mut late: Vec<_> = model.deadlines().filter(|(deadline, _)| *deadline <= now).collect();
        late.sort_by_key(|(deadline, message)| (*deadline, message.id));
        late.truncate(max);
        for (_, message) in &late {
            model.records.push(transition::expired(message, now));
            model.ledger.expired(message);
            let first = !model.is_retry(message);
            model.course_given_up(message, (Standing::Failed, None), first, now);
            model.give_up(message, State::Failed { at: now, reason: FailureReason::Expired }, now);
        }
        Ok(late.len())
    }

    fn block(&mut self, place: &Place, block: Block, by: &Actor, now: Time) -> Result<(), StoreError> {
        let model = &mut self.now;
        model.end_pauses(now);
        let steady = model.traffic.steady(place, now);
        let block = model.merged(place, block.remembering(steady, now));
        model.records.push(transition::blocked(place, &block, by, now));
        model.blocks.insert(place.clone(), block);
        Ok(())
    }

    fn unblock(&mut self, place: &Place, by: &Actor, now: Time) -> Result<bool, StoreError> {
        let model = &mut self.now;
        model.end_pauses(now);
        model.traffic.forget(place);
        let lifted = model.blocks.remove(place).is_some();
        if lifted {
            model.records.push(transition::unblocked(place, by, now));
        }
        Ok(lifted)
    }

    fn examine(&mut self, finding: &Finding, now: Time) -> Result<(), StoreError> {
        let model = &mut self.now;
        model.end_pauses(now);
        let places = [Place { destination: None, ..finding.place.clone() }, finding.place.clone()];
        model.change_block(&places, finding.block.clone(), now);
        model.take_pulse(&places, &finding.vitals, witness(now), now);
        Ok(())
    }

    fn pause(&mut self, pause: &Pause, by: &Actor) -> Result<(), StoreError> {
        self.now.paused = Some(pause.clone());
        self.now.records.push(transition::paused(pause, by));
        Ok(())
    }

    fn resume(&mut self, by: &Actor, now: Time) -> Result<bool, StoreError> {
        let was = self.now.paused.take().is_some();
        if was {
            self.now.records.push(transition::resumed(by, now));
        }
        Ok(was)
    }

    fn put_template(
        &mut self,
        tenant: &Tenant,
        name: &TemplateName,
        template: Template,
        by: &Actor,
        now: Time,
    ) -> Result<Put, StoreError> {
        Ok(self.now.put_template(tenant, name, template, by, now))
    }

    fn commit(&mut self, now: Time, entropy: &[u8; 32]) -> Result<u64, StoreError> {
        let model = &mut self.now;
        let records = std::mem::take(&mut model.records);
        if !records.is_empty() {
            let (block, tip) = model.tip.seal(&records, now, entropy);
            model.chain.push(Arc::new(block));
            model.tip = tip;
        }
        self.counts = model.ledger.take().collect();
        for entry in &self.counts {
            for hour in entry.what.hours(now) {
                let Entry { tenant, channel, what, detail, sum } = entry.clone();
                model.counters.entry((hour, tenant, channel, what, detail)).or_default().add(sum);
            }
        }
        *locked(&self.committed) = model.clone();
        Ok(model.tip.position)
    }

    fn tell(&mut self, counts: &Counts) {
        counts.add(self.counts.drain(..));
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.now = locked(&self.committed).clone();
        self.ids = id_maker(&self.now, &mut self.dice);
        self.forget_turns();
        Ok(())
    }

    fn check(&mut self, _: Time) -> Result<(), StoreError> {
        Ok(())
    }

    fn next_due(&mut self, lane: &LaneName, now: Time) -> Option<Time> {
        let model = &mut self.now;
        if model.is_paused() {
            return None;
        }
        model.end_pauses(now);
        let mut firsts: BTreeMap<&QueueName, Time> = BTreeMap::new();
        for (message, due) in model.queued().filter(|(message, _)| message.queue.lane == *lane) {
            let first = firsts.entry(&message.queue).or_insert(due);
            *first = due.min(*first);
        }
        let mut firsts: Vec<(Time, &QueueName)> =
            firsts.into_iter().map(|(queue, due)| (due, queue)).collect();
        firsts.sort_unstable();
        let mut next: Option<Time> = None;
        for (due, queue) in firsts {
            // Nothing goes before it is due, so that those behind cannot go earlier.
            if next.is_some_and(|next| next <= due.max(now)) {
                break;
            }
            let goes = match model.front(queue, now) {
                Front::Open | Front::Probe(_) => Some(due),
                Front::Shut { until } => until.map(|until| due.max(until)),
            };
            next = match (next, goes) {
                (Some(one), Some(two)) => Some(one.min(two)),
                (one, two) => one.or(two),
            };
        }
        next
    }

    fn next_deadline(&self) -> Option<Time> {
        self.now.deadlines().map(|(deadline, _)| deadline).min()
    }

    fn reader(&self) -> Result<MemoryReader, StoreError> {
        Ok(MemoryReader::of(self.committed.clone()))
    }
}

impl Row {
    fn is_live(&self) -> bool {
        matches!(self.state, State::Pending { .. } | State::Sending { .. })
    }

    fn version(&self) -> u32 {
        1 + u32::try_from(self.revisions.len()).unwrap_or(u32::MAX - 1)
    }

    fn updated_at(&self) -> Time {
        match self.state {
            State::Sending { since, .. } => since,
            _ => self.moved_at,
        }
    }
}

/// Messages.
impl Model {
    fn is_paused(&self) -> bool {
        #[cfg(feature = "planted")]
        if planted::is(planted::Bug::PauseIgnored) {
            return false;
        }
        self.paused.is_some()
    }

    fn row(&self, tenant: &Tenant, id: MessageId) -> Option<&Row> {
        let row = self.messages.get(&id.key())?;
        let own = row.message.queue.tenant == *tenant;
        #[cfg(feature = "planted")]
        let own = own || planted::is(planted::Bug::TenantIgnored);
        (row.message.id == id && own).then_some(row)
    }

    fn row_mut(&mut self, key: MessageKey) -> Option<&mut Row> {
        self.messages.get_mut(&key).map(Arc::make_mut)
    }

    /// Puts a message into a state. If that ends it, the next of its ordering key comes forward.
    fn enter(&mut self, message: &Message, state: State) {
        let Some(row) = self.row_mut(message.id.key()) else { return };
        row.state = state;
        let ended = !row.is_live();
        let was_head = row.standing == Spot::Queued;
        if ended && was_head && message.ordering_key.is_some() {
            let of_key =
                self.messages.values().filter(|row| row.is_live() && same_key(&row.message, message));
            let next = of_key.min_by_key(|row| row.turn).map(|row| row.message.id.key());
            if let Some(next) = next.and_then(|next| self.row_mut(next)) {
                next.standing = Spot::Queued;
            }
        }
    }

    /// Ends a message that waits, since its recipient is on the suppression list for that reason, or for none.
    fn cancel(&mut self, message: &Message, by: &Actor, suppressed: Option<&str>, now: Time) {
        let note = suppressed.map(left_out);
        self.records.push(transition::cancelled(message, by, note.as_deref(), now));
        #[cfg(feature = "planted")]
        if planted::is(planted::Bug::RecordMissing) {
            self.records.pop();
        }
        self.ledger.cancelled(&message.queue);
        let first = !self.is_retry(message);
        self.course_given_up(message, standing_cancelled(suppressed), first, now);
        self.give_up(message, State::Cancelled { at: now, by: by.clone() }, now);
        if let Some(row) = self.row_mut(message.id.key()) {
            row.deeds.push(Deed { at: now, what: What::Cancelled, by: by.clone(), note });
        }
    }

    /// Ends a message without an attempt.
    fn give_up(&mut self, message: &Message, state: State, now: Time) {
        if let Some(row) = self.row_mut(message.id.key()) {
            row.moved_at = now;
            row.progress.steps = row.progress.steps.saturating_add(1);
        }
        self.enter(message, state);
    }

    fn key_is_taken(&self, message: &Message) -> bool {
        message.ordering_key.is_some()
            && self.messages.values().any(|row| row.is_live() && same_key(&row.message, message))
    }

    /// Messages that stand in their queues, and when they are due.
    fn queued(&self) -> impl Iterator<Item = (&Arc<Message>, Time)> {
        self.messages.values().filter_map(|row| match (&row.state, row.standing) {
            (State::Pending { due }, Spot::Queued) => Some((&row.message, *due)),
            _ => None,
        })
    }

    /// Messages that wait, in a queue or outside, and have a deadline.
    fn deadlines(&self) -> impl Iterator<Item = (Time, Arc<Message>)> {
        let pending = self.messages.values().filter(|row| matches!(row.state, State::Pending { .. }));
        pending.filter_map(|row| Some((row.message.expires_at?, row.message.clone())))
    }
}

/// Whether whoever has a message has said for so long nothing that it is gone.
fn is_lost(leases: &BTreeMap<NodeId, Time>, hold: &Hold, now: Time) -> bool {
    leases.get(&hold.node).is_none_or(|until| *until <= now)
}

fn same_key(one: &Message, other: &Message) -> bool {
    one.ordering_key == other.ordering_key && one.queue.tenant == other.queue.tenant
}
