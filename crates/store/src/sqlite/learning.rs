//! What is learnt, as it is looked up, counted and read.

use pombo_kernel::id::MessageKey;
use pombo_kernel::message::{Message, Progress};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::{Span, Time};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{Sqlite, rows, sql};
use crate::board::Held;
use crate::learning::{Learnt, Names, Past, follows, teaches, told, week_of};
use crate::vault::Spot;
use crate::{Counted, Place, Settlement, StoreError};

impl Sqlite {
    /// Called before the attempt is one of the message's.
    pub(super) fn learn(
        &mut self,
        message: &Message,
        settlement: &Settlement,
        held: &Held,
        now: Time,
    ) -> Result<(), StoreError> {
        if !teaches(message, settlement, held.progress) {
            return Ok(());
        }
        let past = if follows(message, settlement, held.progress) {
            self.past(message.id.key(), held.progress.round)?
        } else {
            None
        };
        self.know_names(now)?;
        self.ledger.learnt(message, settlement, past.as_ref(), &mut self.names);
        Ok(())
    }

    pub(super) fn learn_outage(&mut self, place: &Place, lasted: Span, now: Time) -> Result<(), StoreError> {
        self.know_names(now)?;
        self.ledger.outage_ended(place, lasted, &mut self.names);
        Ok(())
    }

    fn know_names(&mut self, now: Time) -> Result<(), StoreError> {
        if !self.names.are_of(now) {
            self.names = Names::read(learnt(&self.file.db, &[week_of(now)], None)?, now);
        }
        Ok(())
    }

    fn past(&self, key: MessageKey, round: u16) -> Result<Option<Past>, StoreError> {
        let db = &self.file.db;
        let read = |row: &Row<'_>| {
            let failure = rows::opened_text(db, &Spot::Failure(key, row.get(0)?), row, 2)?;
            let failure = failure
                .map(|text| serde_json::from_str(&text).map_err(|error| rows::broken(2, error)))
                .transpose()?;
            let (ended_at, first_ended_at) = (rows::time(row, 1)?, rows::time(row, 3)?);
            Ok(failure.map(|failure| Past { failure, ended_at, first_ended_at }))
        };
        Ok(self.one(sql!("history_past"), params![key.0, round], read)?.flatten())
    }
}

/// When the first attempt of a message's round failed that counted, if one did.
pub(super) fn failing_since(
    db: &Connection,
    key: MessageKey,
    progress: Progress,
) -> Result<Option<Time>, StoreError> {
    if progress.attempts == 0 {
        return Ok(None);
    }
    let mut statement = db.prepare_cached(sql!("history_failing"))?;
    Ok(statement.query_row(params![key.0, progress.round], |row| rows::time(row, 0)).optional()?)
}

pub(super) fn learnt(
    db: &Connection,
    weeks: &[i64],
    whose: Option<&Tenant>,
) -> Result<Vec<Learnt>, StoreError> {
    let read = |row: &Row<'_>| -> rusqlite::Result<_> {
        let Some(what) = Counted::from_code(row.get(2)?) else { return Ok(None) };
        Ok(Some((rows::name(row, 0)?, rows::name(row, 1)?, what, row.get(3)?, row.get(4)?, row.get(5)?)))
    };
    let (first, whose) = (Counted::Trial as u8, whose.map(Tenant::as_str));
    let mut found = Vec::new();
    for week in weeks {
        found.extend(rows::all(db, sql!("tally_learnt"), params![week, first, whose], read)?);
    }
    Ok(told(found.into_iter().flatten()))
}
