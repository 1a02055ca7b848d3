//! Dead letters: their causes, and what operators do about them.

use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::message::{Actor, AttemptFailure, FailureReason, Message, QueueName, StateName};
use pombo_kernel::name::Tenant;
#[cfg(feature = "planted")]
use pombo_kernel::planted::{self, Bug};
use pombo_kernel::time::Time;
use rusqlite::{OptionalExtension, Row as Columns, params};

use super::file::Db;
use super::rows::Round;
use super::settling::{Found, Row};
use super::{Order, Sqlite, directory, rows, sql};
use crate::StoreError;
use crate::board::{rank, rank_of};
use crate::core::Core as _;
use crate::courses::Courses as _;
use crate::dead::{Act, Cause, CauseId, Edit, Edited, Group, Hastened, Revision, Ruled, Ruling, Verdicts};
use crate::shelf::Shelved;
use crate::transition;
use crate::vault::Spot;
use crate::walls::Walls as _;

/// Letters whose cause is found out at once.
const SORT_AT_ONCE: usize = 1_000;

impl Sqlite {
    /// The message failed: it waits for an operator, with others of its cause.
    pub(super) fn add_letter(
        &mut self,
        message: &Message,
        reason: FailureReason,
        failure: Option<&AttemptFailure>,
    ) -> Result<(), StoreError> {
        let key = message.id.key();
        let cause = match failure {
            Some(_) => Cause::of(&message.queue, reason, failure),
            None => cause_from(&self.file.db, &message.queue, reason, key)?,
        };
        self.file.begin()?;
        file_letter(&self.file.db, &message.queue, &cause)?;
        self.write(sql!("dead_insert"), params![key.0, cause.id.0])?;
        Ok(())
    }

    fn remove_letter(&mut self, key: MessageKey) -> Result<(), StoreError> {
        self.file.begin()?;
        let cause: Option<i64> = self.one(sql!("dead_delete"), [key.0], |row| row.get(0))?;
        let Some(cause) = cause else {
            return Err(StoreError::Broken(format!(
                "message {} is dead, and not among the dead letters",
                key.0
            )));
        };
        #[cfg(feature = "planted")]
        if planted::is(Bug::CauseMiscounted) {
            return Ok(());
        }
        self.write(sql!("cause_subtract"), [cause])?;
        Ok(())
    }

    pub(super) fn hasten_one(
        &mut self,
        tenant: &Tenant,
        id: MessageId,
        by: &Actor,
        now: Time,
    ) -> Result<Hastened, StoreError> {
        self.store_fresh(now)?;
        let Some(found) = self.find(tenant, id)? else { return Ok(Hastened::NotFound) };
        if found.state != StateName::Pending {
            return Ok(Hastened::NotWaiting(found.state));
        }
        let (due, steps, key) = (found.due(), found.progress().steps, id.key());
        if due <= now {
            return Ok(Hastened::Done);
        }
        let Found { stored, .. } = found;
        let priority = stored.message.priority;
        let place = params![stored.queue, rank(priority), due.millis(), key.0];
        let queued = self.write(sql!("ready_delete"), place)? > 0;
        match steps.checked_sub(1) {
            None => self.write(sql!("message_due"), params![key.0, now.millis()])?,
            Some(last) => self.write(sql!("history_due"), params![key.0, last, now.millis()])?,
        };
        if queued {
            self.put_ready(stored.queue, rank_of(priority, steps), now, key, steps, now)?;
        }
        self.record(transition::hastened(&stored.message, by, now));
        Ok(Hastened::Done)
    }

    pub(super) fn rule_all(&mut self, ruling: &Ruling, now: Time) -> Result<Verdicts, StoreError> {
        if let Some(wish) = &ruling.with
            && let Shelved::Conflict(found) = self.shelve(wish, now)?
        {
            return Ok(Err(found.map(Box::new)));
        }
        self.store_fresh(now)?;
        let ruled = ruling.ids.iter().map(|id| self.rule_one(ruling, *id, now));
        ruled.collect::<Result<_, _>>().map(Ok)
    }

    fn rule_one(&mut self, ruling: &Ruling, id: MessageId, now: Time) -> Result<Ruled, StoreError> {
        let Some(found) = self.find(&ruling.tenant, id)? else { return Ok(Ruled::NotFound) };
        if found.state != StateName::Failed {
            return Ok(Ruled::NotDead(found.state));
        }
        self.remove_letter(id.key())?;
        match ruling.act {
            Act::Reprocess => self.reprocess(found, ruling, now)?,
            Act::Discard => {
                let row = Row::of(id.key(), rows::DISCARDED, found.progress(), now);
                let (actor, explanation) = (Some(ruling.by.0.as_str()), ruling.note.as_deref());
                self.append(&Row { actor, explanation, ..row })?;
                let message = &found.stored.message;
                self.record(transition::discarded(message, &ruling.by, explanation, now));
                self.ledger.discarded(&message.queue);
            }
        }
        Ok(Ruled::Done)
    }

    fn reprocess(&mut self, found: Found, ruling: &Ruling, now: Time) -> Result<(), StoreError> {
        let key = found.stored.message.id.key();
        let since: Option<Time> = self.one(sql!("history_round"), [key.0], |row| rows::time(row, 0))?;
        let before = found.progress();
        let edited_at = last_revision(&self.file.db, key)?.map(|(_, seq)| seq);
        let round = Round {
            progress: before,
            reason: reason_of(&found),
            since: since.unwrap_or(found.stored.message.created_at()),
            edited: edited_at == Some(before.steps),
        };
        let (next, mut message) = (round.next(), found.stored.message);
        let (actor, explanation) = (Some(ruling.by.0.as_str()), ruling.note.as_deref());
        let row = Row::of(key, rows::REPROCESSED, before, now);
        self.append(&Row { progress: next, next_due: Some(now), actor, explanation, ..row })?;
        if let Some(deadline) = &mut message.expires_at {
            *deadline = round.renewed(*deadline, now);
            let at = *deadline;
            self.write(sql!("message_expires"), params![key.0, at.millis()])?;
            self.write(sql!("expiry_insert"), params![at.millis(), key.0])?;
            self.note_deadline(at);
        }
        if self.enter_order(&message)? == Order::Goes {
            let rank = rank_of(message.priority, next.steps);
            self.put_ready(found.stored.queue, rank, now, key, next.steps, now)?;
        }
        self.record(transition::reprocessed(&message, next.round, &ruling.by, explanation, now));
        self.ledger.reprocessed(&message.queue);
        self.course_reprocessed(&message, now)?;
        Ok(())
    }

    pub(super) fn edit_one(&mut self, edit: &Edit, now: Time) -> Result<Edited, StoreError> {
        let Some(found) = self.find(&edit.tenant, edit.id)? else { return Ok(Edited::NotFound) };
        if found.state != StateName::Failed {
            return Ok(Edited::NotDead(found.state));
        }
        let key = edit.id.key();
        let version = version(&self.file.db, key)?;
        if version != edit.version {
            return Ok(Edited::Stale { version });
        }
        let said = serde_json::to_vec(&found.stored.message.body)
            .map_err(|error| StoreError::Broken(error.to_string()))?;
        let said = self.file.db.vault.seal(&Spot::Revision(key, version), said);
        let steps = found.progress().steps;
        self.write(
            sql!("revision_insert"),
            params![key.0, version, steps, now.millis(), edit.by.0, edit.note, &*said],
        )?;
        let (queue, name) = self.queue(&edit.queue)?;
        let recipient = self.file.db.vault.hash(name.tenant.as_str(), &edit.body.to);
        let body = &edit.body;
        let sealed = rows::body(&self.file.db.vault, key, body)?;
        directory::remove(&self.file.db, key)?;
        self.write(
            sql!("message_edit"),
            params![key.0, queue, body.kind, body.template, body.reference, recipient, sealed],
        )?;
        directory::add(&self.file.db, key)?;
        self.put_blobs(key, &edit.blobs)?;
        let reason = reason_of(&found);
        let channel = found.stored.message.queue.channel.clone();
        let message = Message { queue: name, body: body.clone(), ..found.stored.message };
        if message.queue.channel != channel {
            // A cause is of one channel.
            self.remove_letter(key)?;
            self.add_letter(&message, reason, None)?;
        }
        self.record(transition::edited(&message, version + 1, &edit.by, edit.note.as_deref(), now));
        Ok(Edited::Done { version: version + 1 })
    }
}

fn reason_of(found: &Found) -> FailureReason {
    found.last.as_ref().and_then(|step| step.reason).unwrap_or(FailureReason::PermanentError)
}

/// The cause of a letter whose last failure stands in its history.
fn cause_from(
    db: &Db,
    queue: &QueueName,
    reason: FailureReason,
    key: MessageKey,
) -> Result<Cause, StoreError> {
    let failure = match reason {
        FailureReason::Expired => None,
        _ => rows::history(db, key)?.into_iter().rev().find_map(|step| step.failure),
    };
    Ok(Cause::of(queue, reason, failure.as_ref()))
}

/// One more letter has that cause.
fn file_letter(db: &Db, queue: &QueueName, cause: &Cause) -> Result<(), StoreError> {
    let (tenant, channel) = (queue.tenant.as_str(), queue.channel.as_str());
    db.prepare_cached(sql!("cause_add"))?.execute(params![
        cause.id.0,
        tenant,
        channel,
        cause.category,
        db.vault.seal_text(&Spot::Cause(cause.id.0), &cause.text)
    ])?;
    Ok(())
}

/// Finds out the causes of letters that were dead before causes were kept.
pub(super) fn sort_unsorted(db: &Db) -> Result<(), StoreError> {
    loop {
        let most = i64::try_from(SORT_AT_ONCE).unwrap_or(i64::MAX);
        let some = rows::all(db, sql!("dead_unsorted"), [most], |row| Ok(MessageKey(row.get(0)?)))?;
        for key in &some {
            let missing = || StoreError::Broken(format!("message {} is missing from the store", key.0));
            let stored = rows::stored(db, *key)?.ok_or_else(missing)?;
            let last = rows::last_step(db, *key)?.and_then(|step| step.reason);
            let queue = &stored.message.queue;
            let cause = cause_from(db, queue, last.unwrap_or(FailureReason::PermanentError), *key)?;
            file_letter(db, queue, &cause)?;
            db.prepare_cached(sql!("dead_sort"))?.execute(params![key.0, cause.id.0])?;
        }
        if some.len() < SORT_AT_ONCE {
            return Ok(());
        }
    }
}

/// The last version that was replaced, and at which step, if there was any.
fn last_revision(db: &Db, key: MessageKey) -> Result<Option<(u32, u32)>, StoreError> {
    let read = |row: &Columns<'_>| Ok((row.get(0)?, row.get(1)?));
    Ok(db.prepare_cached(sql!("revision_last"))?.query_row([key.0], read).optional()?)
}

/// The version that a message is.
pub(super) fn version(db: &Db, key: MessageKey) -> Result<u32, StoreError> {
    Ok(last_revision(db, key)?.map_or(1, |(version, _)| version.saturating_add(1)))
}

pub(super) fn revisions(db: &Db, tenant: &Tenant, id: MessageId) -> Result<Vec<Revision>, StoreError> {
    let place = params![id.key().0, id.nonce(), tenant.as_str()];
    rows::all(db, sql!("revision_of"), place, |row| {
        let version = row.get(0)?;
        let body = rows::opened(db, &Spot::Revision(id.key(), version), row, 4)?;
        Ok(Revision {
            version,
            replaced_at: rows::time(row, 1)?,
            by: Actor(row.get(2)?),
            note: row.get(3)?,
            body: serde_json::from_slice(&body).map_err(|error| rows::broken(4, error))?,
        })
    })
}

pub(super) fn groups(db: &Db, tenant: &Tenant, limit: usize) -> Result<Vec<Group>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    rows::all(db, sql!("cause_groups"), params![tenant.as_str(), limit], |row| {
        let (id, count): (i64, i64) = (row.get(0)?, row.get(4)?);
        Ok(Group {
            id: CauseId(id),
            channel: rows::name(row, 1)?,
            category: row.get(2)?,
            text: rows::opened_text(db, &Spot::Cause(id), row, 3)?.unwrap_or_default(),
            count: count.unsigned_abs(),
            newest: rows::id(row, 5, 6)?,
            last_at: rows::time(row, 7)?,
            first_at: rows::time(row, 8)?,
        })
    })
}
