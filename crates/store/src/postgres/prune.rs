//! What leaves the store in the end.
//!
//! Whoever prunes holds the rows of dead letters as an operator who decides about them does, and those of receipts as a
//! provider's report does: of two who want the same message at once, the second finds it gone. Two who prune remove the
//! same, and one of them nothing.

use pombo_kernel::id::MessageKey;
use pombo_kernel::name::Tenant;
use pombo_kernel::retention::KEYS_KEPT;
use pombo_kernel::time::Time;

use super::link::Row;
use super::{Postgres, rows, sql};
use crate::StoreError;
use crate::prune::{Ended, Lapsed, Prune, Pruned, Ripe, counted, ending, lapses, records};

/// A message that is to go.
pub(super) struct Parting {
    pub(super) key: MessageKey,
    pub(super) tenant: Tenant,
    /// Until when its idempotency key stays; it goes along if none.
    pub(super) key_until: Option<Time>,
}

impl Postgres {
    pub(super) fn prune_some(&mut self, prune: &Prune, ripe: &Ripe, now: Time) -> Result<Pruned, StoreError> {
        self.flush(now)?;
        let keys: Vec<i64> = ripe.keys().map(|key| key.0).collect();
        self.lock_letters(&keys)?;
        let found = self.ask_one(sql!("prune_see"), vec![keys.into()])?;
        let found = found.iter().map(ended).filter_map(|it| it.map(|(_, ended)| ended).transpose());
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let gone = prune.still(ripe, &found);
        let partings = gone.iter().map(|ended| Parting {
            key: ended.key,
            tenant: ended.tenant.clone(),
            key_until: ended.key_until(now),
        });
        self.forget_message(&partings.collect::<Vec<_>>())?;
        records(&gone, &prune.by, now).into_iter().for_each(|record| self.record(record));
        Ok(Pruned { removed: counted(gone), looked: ripe.looked, next: ripe.next.clone() })
    }

    /// Removes everything that is known of messages that have ended, but the audit. Who was on a campaign's list stays
    /// there, without the message. How many attachments went along.
    pub(super) fn forget_message(&mut self, some: &[Parting]) -> Result<u64, StoreError> {
        let mut keys: Vec<i64> = some.iter().map(|parting| parting.key.0).collect();
        keys.sort_unstable();
        let (Some(least), Some(greatest)) = (keys.first().copied(), keys.last().copied()) else {
            return Ok(0);
        };
        for (key, cause) in self.lock_letters(&keys)? {
            if let Some(parting) = some.iter().find(|parting| parting.key == key) {
                *self.letters.entry((parting.tenant.clone(), cause)).or_default() -= 1;
            }
        }
        let of_keys = |sql| (sql, vec![keys.clone().into()]);
        let (parted, until): (Vec<i64>, Vec<Option<i64>>) =
            some.iter().map(|it| (it.key.0, it.key_until.map(Time::millis))).unzip();
        let steps = vec![
            of_keys(sql!("receipt_lock")),
            of_keys(sql!("dead_delete")),
            (sql!("idempotency_part"), vec![parted.into(), until.into()]),
            (sql!("forget"), vec![keys.clone().into(), least.into(), greatest.into()]),
        ];
        let used = self.ask(steps)?.pop().unwrap_or_default();
        let used = used.iter().map(|row| rows::get(row, 0)).collect::<Result<Vec<Vec<u8>>, _>>()?;
        if used.is_empty() {
            return Ok(0);
        }
        let lone = self.ask_one(sql!("blob_lone"), vec![used.into()])?;
        let lone = lone.iter().map(|row| rows::get(row, 0)).collect::<Result<Vec<Vec<u8>>, _>>()?;
        let attachments = lone.len() as u64;
        self.ask_one(sql!("blob_drop"), vec![lone.into()])?;
        Ok(attachments)
    }

    pub(super) fn lapse_some(
        &mut self,
        after: Option<MessageKey>,
        max: usize,
        now: Time,
    ) -> Result<Lapsed, StoreError> {
        self.flush(now)?;
        let limit = i64::try_from(max).unwrap_or(i64::MAX);
        let over = self.ask_one(sql!("idempotency_over"), vec![now.millis().into(), limit.into()])?.len();
        if over >= max {
            return Ok(Lapsed { removed: over, next: Some(after.unwrap_or_default()) });
        }
        let (from, to) = (after.unwrap_or_default().0, MessageKey::at(now - KEYS_KEPT).0);
        let some = self.ask_one(sql!("idempotency_old"), vec![from.into(), to.into(), limit.into()])?;
        let mut lapsed = Vec::new();
        for row in &some {
            let ended = rows::some_time(row, 2)?;
            if lapses(outcome(row, 1)?.and_then(ending).zip(ended), now) {
                lapsed.push(rows::get::<i64>(row, 0)?);
            }
        }
        let next = some.last().filter(|_| some.len() == max).map(|row| rows::key(row, 0)).transpose()?;
        let mut removed = over;
        if !lapsed.is_empty() {
            removed += self.ask_one(sql!("idempotency_delete"), vec![lapsed.into()])?.len();
        }
        Ok(Lapsed { removed, next })
    }
}

/// Judges what was read for a look.
pub(super) fn ripe(some: &[Row], prune: &Prune, max: usize, now: Time) -> Result<Ripe, StoreError> {
    prune.ripe(some.iter().map(ended), max, now)
}

fn outcome(row: &Row, column: usize) -> Result<Option<u8>, StoreError> {
    Ok(rows::get::<Option<i16>>(row, column)?.and_then(|code| u8::try_from(code).ok()))
}

/// A row: key, tenant, channel, outcome, when it ended.
pub(super) fn ended(row: &Row) -> Result<(MessageKey, Option<Ended>), StoreError> {
    let key = rows::key(row, 0)?;
    let Some(state) = outcome(row, 3)?.and_then(ending) else { return Ok((key, None)) };
    let (tenant, channel) = (rows::name(row, 1)?, rows::name(row, 2)?);
    Ok((key, Some(Ended { key, tenant, channel, state, at: rows::time(row, 4)? })))
}
