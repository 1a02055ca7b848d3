//! Dead letters: their causes, and what operators do about them.
//!
//! Whoever decides about a letter has locked its row in `dead_letter`, so that of two who decide about the same one
//! the second finds it gone.

use std::collections::{BTreeMap, HashMap};

use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::message::{Actor, AttemptFailure, FailureReason, Message, StateName};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::Time;

use super::link::{Link, Row as Found, Step};
use super::rows::Round;
use super::settling::{Stood, Waiting, order_of};
use super::writes::{self, Row};
use super::{Postgres, rows, sql};
use crate::board::rank_of;
use crate::core::Core as _;
use crate::courses::Courses as _;
use crate::dead::{Act, Cause, CauseId, Edit, Edited, Group, Hastened, Revision, Ruled, Ruling, Verdicts};
use crate::shelf::Shelved;
use crate::vault::{Spot, Vault};
use crate::{StoreError, transition};

/// Letters whose cause is found out at once.
const SORT_AT_ONCE: i64 = 2_000;

impl Postgres {
    /// The message failed: it waits for an operator, with others of its cause.
    pub(super) fn add_letter(
        &mut self,
        message: &Message,
        reason: FailureReason,
        failure: Option<&AttemptFailure>,
        now: Time,
    ) -> Result<(), StoreError> {
        let earlier = match failure {
            None if reason != FailureReason::Expired => self.last_failure(message.id.key(), now)?,
            _ => None,
        };
        let cause = Cause::of(&message.queue, reason, failure.or(earlier.as_ref()));
        self.writes.letter(message.id.key(), &message.queue, &cause);
        *self.letters.entry((message.queue.tenant.clone(), cause.id)).or_default() += 1;
        Ok(())
    }

    fn last_failure(&mut self, key: MessageKey, now: Time) -> Result<Option<AttemptFailure>, StoreError> {
        self.flush(now)?;
        let found = self.ask_one(sql!("history_failure"), vec![vec![key.0].into()])?;
        let read = |row| rows::failure(&self.vault, (key, rows::number::<i32, u32>(row, 2)?), row, 1);
        found.first().map_or(Ok(None), read)
    }

    /// What the group adds to the counts of causes, in the order of their rows.
    pub(super) fn counted_letters(&mut self) -> Option<Step> {
        let (mut tenants, mut causes, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        for ((tenant, cause), count) in std::mem::take(&mut self.letters) {
            if count != 0 {
                tenants.push(tenant.as_str().to_owned());
                causes.push(cause.0);
                counts.push(count);
            }
        }
        (!counts.is_empty()).then(|| (sql!("cause_add"), vec![tenants.into(), causes.into(), counts.into()]))
    }

    /// Those of the messages that are dead letters, each for us alone until the commit.
    pub(super) fn lock_letters(&mut self, keys: &[i64]) -> Result<HashMap<MessageKey, CauseId>, StoreError> {
        let found = self.ask_one(sql!("dead_lock"), vec![keys.to_vec().into()])?;
        found.iter().map(|row| Ok((rows::key(row, 0)?, CauseId(rows::get(row, 1)?)))).collect()
    }

    /// Where a message stands that was not among the dead letters.
    fn standing(&mut self, waiting: &Waiting) -> Result<StateName, StoreError> {
        if !waiting.over {
            let queued = !self.ask_one(sql!("ready_see"), waiting.places())?.is_empty();
            if queued || self.waits_in_order(std::slice::from_ref(waiting))?.contains(&waiting.key()) {
                return Ok(StateName::Pending);
            }
        }
        match self.ending(waiting.stored.message.id)? {
            // It failed after we had looked for it there.
            StateName::Failed => Err(StoreError::Again("a message failed at this moment".into())),
            state => Ok(state),
        }
    }

    pub(super) fn hasten_one(
        &mut self,
        tenant: &Tenant,
        id: MessageId,
        by: &Actor,
        now: Time,
    ) -> Result<Hastened, StoreError> {
        self.flush(now)?;
        let Some(waiting) = self.find_own(tenant, id)? else { return Ok(Hastened::NotFound) };
        if !waiting.over && waiting.due <= now && self.standing(&waiting)? == StateName::Pending {
            return Ok(Hastened::Done);
        }
        let Some((waiting, stood)) = self.take_out(&waiting)? else {
            return Ok(Hastened::NotWaiting(self.ending(id)?));
        };
        let (key, steps) = (waiting.key(), waiting.progress.steps);
        let message = &waiting.stored.message;
        // Somebody else may have hastened it meanwhile.
        let due = waiting.due.min(now);
        let mut asked = Vec::new();
        match steps.checked_sub(1).map(|last| i32::try_from(last).unwrap_or(i32::MAX)) {
            None => asked.push((sql!("message_due"), vec![key.0.into(), due.millis().into()])),
            Some(last) => {
                asked.push((sql!("history_due"), vec![key.0.into(), last.into(), due.millis().into()]));
            }
        }
        self.ask(asked)?;
        if stood == Stood::InQueue {
            let queue = self.queue_id(message)?;
            self.put_ready(queue, rank_of(message.priority, steps), due, key, steps, now);
        }
        if let Some(at) = message.expires_at {
            // Whoever is looking at its deadline has not found it where it was, and looks again.
            self.writes.deadline(at, key);
            self.note_deadline(at);
        }
        if waiting.due > now {
            self.record(transition::hastened(message, by, now));
        }
        Ok(Hastened::Done)
    }

    pub(super) fn rule_all(&mut self, ruling: &Ruling, now: Time) -> Result<Verdicts, StoreError> {
        if let Some(wish) = &ruling.with
            && let Shelved::Conflict(found) = self.shelve(wish, now)?
        {
            return Ok(Err(found.map(Box::new)));
        }
        self.flush(now)?;
        let mut keys: Vec<i64> = ruling.ids.iter().map(|id| id.key().0).collect();
        keys.sort_unstable();
        keys.dedup();
        // Orders first, as whoever ends a message does.
        let mut orders = match ruling.act {
            Act::Discard => Default::default(),
            Act::Reprocess => {
                let some = self.find_waiting(keys.clone())?;
                self.taken_orders(some.iter().filter_map(Waiting::order).collect())?
            }
        };
        let mut letters = self.lock_letters(&keys)?;
        let some = self.find_waiting(keys)?;
        let mut some: HashMap<MessageKey, Waiting> = some.into_iter().map(|it| (it.key(), it)).collect();
        let own = |id: &MessageId| some.get(&id.key()).is_some_and(|it| it.is(&ruling.tenant, *id));
        letters.retain(|key, _| ruling.ids.iter().any(|id| id.key() == *key && own(id)));
        let rounds = match ruling.act {
            Act::Discard => HashMap::new(),
            Act::Reprocess => self.rounds(letters.keys().filter_map(|key| some.get(key)))?,
        };
        let ruled: Vec<i64> = letters.keys().map(|key| key.0).collect();
        if !ruled.is_empty() {
            self.ask_one(sql!("dead_delete"), vec![ruled.clone().into()])?;
        }
        // What one is by now that is named twice.
        let after = match ruling.act {
            Act::Discard => StateName::Discarded,
            Act::Reprocess => StateName::Pending,
        };
        let (mut renewed, mut deadlines): (Vec<i64>, Vec<i64>) = (Vec::new(), Vec::new());
        let mut verdicts = Vec::with_capacity(ruling.ids.len());
        for id in &ruling.ids {
            let found = some.get_mut(&id.key()).filter(|it| it.is(&ruling.tenant, *id));
            let Some(waiting) = found else {
                verdicts.push(Ruled::NotFound);
                continue;
            };
            let Some(cause) = letters.remove(&id.key()) else {
                let state = if ruled.contains(&id.key().0) { after } else { self.standing(waiting)? };
                verdicts.push(Ruled::NotDead(state));
                continue;
            };
            let queue = waiting.stored.message.queue.clone();
            *self.letters.entry((queue.tenant.clone(), cause)).or_default() -= 1;
            match (ruling.act, rounds.get(&id.key())) {
                (Act::Reprocess, Some(round)) => {
                    let message = &mut waiting.stored.message;
                    if let Some(deadline) = &mut message.expires_at {
                        *deadline = round.renewed(*deadline, now);
                        renewed.push(id.key().0);
                        deadlines.push(deadline.millis());
                    }
                    let goes = order_of(message).is_none_or(|digest| orders.insert(digest));
                    self.reprocess(message, round, goes, ruling, now)?;
                }
                _ => self.discard(waiting, ruling, now),
            }
            verdicts.push(Ruled::Done);
        }
        if !renewed.is_empty() {
            self.ask_one(sql!("message_expires"), vec![renewed.into(), deadlines.into()])?;
        }
        Ok(Ok(verdicts))
    }

    /// What must be known of dead letters before they begin another round.
    fn rounds<'a>(
        &mut self,
        some: impl Iterator<Item = &'a Waiting>,
    ) -> Result<HashMap<MessageKey, Round>, StoreError> {
        let round = |it: &Waiting| Round {
            progress: it.progress,
            reason: it.reason.unwrap_or(FailureReason::PermanentError),
            since: it.stored.message.created_at(),
            edited: false,
        };
        let mut rounds: HashMap<MessageKey, Round> = some.map(|it| (it.key(), round(it))).collect();
        if rounds.is_empty() {
            return Ok(rounds);
        }
        let keys: Vec<i64> = rounds.keys().map(|key| key.0).collect();
        let of_keys = |sql| (sql, vec![keys.clone().into()]);
        let found = self.ask(vec![of_keys(sql!("history_round")), of_keys(sql!("revision_last"))])?;
        let [begun, edited] = found.as_slice() else { return Err(super::reader::unanswered()) };
        for row in begun {
            if let Some(round) = rounds.get_mut(&rows::key(row, 0)?) {
                round.since = rows::time(row, 1)?;
            }
        }
        for row in edited {
            let seq = rows::number::<i32, u32>(row, 2)?;
            if let Some(round) = rounds.get_mut(&rows::key(row, 0)?) {
                round.edited = round.progress.steps == seq;
            }
        }
        Ok(rounds)
    }

    fn reprocess(
        &mut self,
        message: &Message,
        round: &Round,
        goes: bool,
        ruling: &Ruling,
        now: Time,
    ) -> Result<(), StoreError> {
        let (key, next) = (message.id.key(), round.next());
        let (actor, explanation) = (Some(ruling.by.0.as_str()), ruling.note.as_deref());
        let row = Row::of(message, rows::REPROCESSED, round.progress, now);
        self.writes.history(&Row { progress: next, next_due: Some(now), actor, explanation, ..row });
        if let Some(at) = message.expires_at {
            self.writes.deadline(at, key);
            self.note_deadline(at);
        }
        if let Some(digest) = order_of(message) {
            self.writes.ordered(digest, key, goes);
        }
        if goes {
            let queue = self.queue_id(message)?;
            self.put_ready(queue, rank_of(message.priority, next.steps), now, key, next.steps, now);
        }
        self.record(transition::reprocessed(message, next.round, &ruling.by, explanation, now));
        self.ledger.reprocessed(&message.queue);
        self.course_reprocessed(message, now)
    }

    fn discard(&mut self, waiting: &Waiting, ruling: &Ruling, now: Time) {
        let message = &waiting.stored.message;
        let (actor, explanation) = (Some(ruling.by.0.as_str()), ruling.note.as_deref());
        let row = Row::of(message, rows::DISCARDED, waiting.progress, now);
        self.writes.history(&Row { actor, explanation, ..row });
        self.record(transition::discarded(message, &ruling.by, explanation, now));
        self.ledger.discarded(&message.queue);
    }

    pub(super) fn edit_one(&mut self, edit: &Edit, now: Time) -> Result<Edited, StoreError> {
        self.flush(now)?;
        let key = edit.id.key();
        let cause = self.lock_letters(&[key.0])?.remove(&key);
        let Some(found) = self.find_own(&edit.tenant, edit.id)? else { return Ok(Edited::NotFound) };
        let Some(cause) = cause else { return Ok(Edited::NotDead(self.standing(&found)?)) };
        let last = self.ask_one(sql!("revision_last"), vec![vec![key.0].into()])?;
        let version = version(last.first())?;
        if version != edit.version {
            return Ok(Edited::Stale { version });
        }
        self.find_queues(std::iter::once(&edit.queue))?;
        let (queue, name) = self.queue_of(&edit.queue)?;
        let said = serde_json::to_vec(&found.stored.message.body)
            .map_err(|error| StoreError::Broken(error.to_string()))?;
        let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        let text = |text: Option<&str>| text.map(rows::escaped);
        let body = &edit.body;
        let said = self.vault.seal(&Spot::Revision(key, version), said);
        let hash = |text: &str| self.vault.hash(name.tenant.as_str(), text);
        let replaced = vec![
            key.0.into(),
            number(version).into(),
            number(found.progress.steps).into(),
            now.millis().into(),
            name.tenant.as_str().into(),
            rows::escaped(&edit.by.0).into(),
            text(edit.note.as_deref()).into(),
            said.into_owned().into(),
        ];
        let says = vec![
            key.0.into(),
            queue.into(),
            text(body.kind.as_deref()).into(),
            text(body.template.as_deref()).into(),
            text(body.reference.as_deref()).into(),
            hash(&body.to).into(),
            body.reference.as_deref().map(hash).into(),
            rows::body(&self.vault, key, body)?.into(),
        ];
        self.ask(vec![(sql!("revision_insert"), replaced), (sql!("message_edit"), says)])?;
        let blobs: Vec<_> = edit.blobs.iter().map(|blob| (key, blob.clone())).collect();
        self.put_blobs(&blobs)?;
        let channel = found.stored.message.queue.channel.clone();
        let message = Message { queue: name, body: body.clone(), ..found.stored.message };
        if message.queue.channel != channel {
            // A cause is of one channel.
            self.ask_one(sql!("dead_delete"), vec![vec![key.0].into()])?;
            *self.letters.entry((edit.tenant.clone(), cause)).or_default() -= 1;
            let reason = found.reason.unwrap_or(FailureReason::PermanentError);
            self.add_letter(&message, reason, None, now)?;
        }
        self.record(transition::edited(&message, version + 1, &edit.by, edit.note.as_deref(), now));
        Ok(Edited::Done { version: version + 1 })
    }
}

/// Finds out the causes of letters that were dead before causes were kept. The owner does, within its transaction.
pub(super) fn sort_unsorted(link: &Link) -> Result<(), StoreError> {
    let (mut causes, mut counts) = (BTreeMap::new(), BTreeMap::new());
    // Where the last ones ended, since what they were in the index stays there until the commit.
    let mut after = i64::MIN;
    loop {
        let some = link.query(sql!("dead_unsorted"), vec![after.into(), SORT_AT_ONCE.into()])?;
        if some.is_empty() {
            break;
        }
        let (mut keys, mut sorted): (Vec<i64>, Vec<i64>) = (Vec::new(), Vec::new());
        for row in &some {
            let queue = rows::queue_name(row, 1)?;
            let reason = rows::get::<Option<i16>>(row, 6)?.and_then(|code| u8::try_from(code).ok());
            let reason = reason.and_then(FailureReason::from_code).unwrap_or(FailureReason::PermanentError);
            let cause = Cause::of(&queue, reason, rows::parsed(row, 7)?.as_ref());
            let key = rows::get(row, 0)?;
            after = after.max(key);
            keys.push(key);
            sorted.push(cause.id.0);
            *counts.entry((queue.tenant.clone(), cause.id.0)).or_insert(0i64) += 1;
            causes.entry(cause.id.0).or_insert_with(|| writes::cause_row(&Vault::blind(), &queue, &cause));
        }
        link.query(sql!("dead_sort"), vec![keys.into(), sorted.into()])?;
    }
    link.script(
        "ALTER TABLE queue FORCE ROW LEVEL SECURITY;
         ALTER TABLE message FORCE ROW LEVEL SECURITY;
         ALTER TABLE history FORCE ROW LEVEL SECURITY;",
    )?;
    let Some(put) = writes::causes(causes) else { return Ok(()) };
    let (places, counts): (Vec<(Tenant, i64)>, Vec<i64>) = counts.into_iter().unzip();
    let (tenants, causes): (Vec<String>, Vec<i64>) =
        places.into_iter().map(|(tenant, cause)| (tenant.as_str().to_owned(), cause)).unzip();
    // As that schema has it: of a process that is not there.
    const ADD: &str = "INSERT INTO cause_count (tenant, cause, count, slot)
        SELECT r.*, -1 FROM unnest($1::text[], $2::bigint[], $3::bigint[]) r";
    link.pipeline(vec![put, (ADD, vec![tenants.into(), causes.into(), counts.into()])]).map(drop)
}

/// The version that a message is, from the last one that was replaced.
pub(super) fn version(last: Option<&Found>) -> Result<u32, StoreError> {
    last.map_or(Ok(1), |row| Ok(rows::number::<i32, u32>(row, 1)?.saturating_add(1)))
}

/// A row: version, replaced_at, actor, note, body.
pub(super) fn revision(vault: &Vault, key: MessageKey, row: &Found) -> Result<Revision, StoreError> {
    let version = rows::number::<i32, u32>(row, 0)?;
    let body = rows::opened(vault, &Spot::Revision(key, version), row, 4)?;
    Ok(Revision {
        version,
        replaced_at: rows::time(row, 1)?,
        by: Actor(rows::text(row, 2)?),
        note: rows::some_text(row, 3)?,
        body: serde_json::from_slice(&body).map_err(|error| rows::broken(row, 4, error))?,
    })
}

/// A row: cause, channel, category, text, count, key and nonce of the newest, when that failed, and when the oldest did.
pub(super) fn group(vault: &Vault, row: &Found) -> Result<Group, StoreError> {
    let id = rows::get(row, 0)?;
    Ok(Group {
        id: CauseId(id),
        channel: rows::name(row, 1)?,
        category: rows::text(row, 2)?,
        text: rows::opened_text(vault, &Spot::Cause(id), row, 3)?.unwrap_or_default(),
        count: rows::number::<i64, u64>(row, 4)?,
        newest: rows::id(row, 5, 6)?,
        last_at: rows::time(row, 7)?,
        first_at: rows::time(row, 8)?,
    })
}
