//! What leaves the store in the end.

use pombo_kernel::id::MessageKey;
use pombo_kernel::retention::KEYS_KEPT;
use pombo_kernel::time::Time;
use rusqlite::{Connection, Row, params};

use super::{Sqlite, directory, rows, sql};
use crate::StoreError;
use crate::prune::{Ended, Lapsed, Prune, Pruned, Ripe, counted, ending, lapses, records};
use crate::walls::Walls as _;

impl Sqlite {
    pub(super) fn prune_some(&mut self, prune: &Prune, ripe: &Ripe, now: Time) -> Result<Pruned, StoreError> {
        let mut found = Vec::new();
        for key in ripe.keys() {
            found.extend(self.one(sql!("prune_see"), [key.0], ended)?.and_then(|(_, ended)| ended));
        }
        let gone = prune.still(ripe, &found);
        for ended in &gone {
            self.forget_message(ended.key, ended.key_until(now))?;
        }
        records(&gone, &prune.by, now).into_iter().for_each(|record| self.record(record));
        Ok(Pruned { removed: counted(gone), looked: ripe.looked, next: ripe.next.clone() })
    }

    /// Removes everything that is known of a message that has ended, but the audit. Its idempotency key stays until
    /// then, if a time is given. Who was on a campaign's list stays there, without the message. How many attachments went
    /// along.
    pub(super) fn forget_message(
        &mut self,
        key: MessageKey,
        key_until: Option<Time>,
    ) -> Result<u64, StoreError> {
        self.file.begin()?;
        if let Some(cause) = self.one(sql!("dead_delete"), [key.0], |row| row.get::<_, i64>(0))? {
            self.write(sql!("cause_subtract"), [cause])?;
        }
        directory::remove(&self.file.db, key)?;
        let used: Vec<Vec<u8>> = rows::all(&self.file.db, sql!("blob_unuse"), [key.0], |row| row.get(0))?;
        let mut attachments = 0;
        for digest in used {
            attachments += self.write(sql!("blob_drop"), [digest])? as u64;
        }
        for sql in [
            sql!("history_delete"),
            sql!("revision_delete"),
            sql!("delivery_delete"),
            sql!("receipt_delete"),
            sql!("recipient_unlink"),
            sql!("message_delete"),
        ] {
            self.write(sql, [key.0])?;
        }
        match key_until {
            Some(until) => self.write(sql!("idempotency_part"), params![key.0, until.millis()])?,
            None => self.write(sql!("idempotency_delete"), [key.0])?,
        };
        Ok(attachments)
    }

    pub(super) fn lapse_some(
        &mut self,
        after: Option<MessageKey>,
        max: usize,
        now: Time,
    ) -> Result<Lapsed, StoreError> {
        let limit = i64::try_from(max).unwrap_or(i64::MAX);
        let over = self.write(sql!("idempotency_over"), params![now.millis(), limit])?;
        if over >= max {
            return Ok(Lapsed { removed: over, next: Some(after.unwrap_or_default()) });
        }
        let range = params![after.unwrap_or_default().0, MessageKey::at(now - KEYS_KEPT).0, limit];
        let some = rows::all(&self.file.db, sql!("idempotency_old"), range, |row| {
            let outcome: Option<u8> = row.get(1)?;
            let state =
                outcome.and_then(ending).map(|state| Ok::<_, rusqlite::Error>((state, rows::time(row, 2)?)));
            Ok((MessageKey(row.get(0)?), state.transpose()?))
        })?;
        let next = some.last().filter(|_| some.len() == max).map(|(key, _)| *key);
        let mut removed = over;
        for (key, state) in some {
            if lapses(state, now) {
                removed += self.write(sql!("idempotency_delete"), [key.0])?;
            }
        }
        Ok(Lapsed { removed, next })
    }
}

pub(super) fn ripe(db: &Connection, prune: &Prune, max: usize, now: Time) -> Result<Ripe, StoreError> {
    let limit = i64::try_from(Prune::looks(max)).unwrap_or(i64::MAX);
    let mut statement = db.prepare_cached(sql!("prune_look"))?;
    let rows = statement.query_map(params![prune.before(now).0, limit], ended)?;
    Ok(prune.ripe(rows, max, now)?)
}

/// A row: key, tenant, channel, outcome, when it ended.
fn ended(row: &Row<'_>) -> rusqlite::Result<(MessageKey, Option<Ended>)> {
    let key = MessageKey(row.get(0)?);
    let Some(state) = row.get::<_, Option<u8>>(3)?.and_then(ending) else { return Ok((key, None)) };
    let (tenant, channel) = (rows::name(row, 1)?, rows::name(row, 2)?);
    Ok((key, Some(Ended { key, tenant, channel, state, at: rows::time(row, 4)? })))
}
