//! What the rows of a message say of its audit records, and the chain as a search for these asks for it.

use std::collections::HashMap;
use std::ops::Range;

use pombo_kernel::id::MessageId;
use pombo_kernel::name::Tenant;
use pombo_kernel::time::Span;
use rusqlite::{OptionalExtension, Row, params};

use super::file::Db;
use super::{rows, sql};
use crate::StoreError;
use crate::audit;
use crate::tracks::{Chain, Place, Seek, Seen, Step, Tracks};

/// Those of a message, if it is the tenant's.
pub(super) fn of(db: &Db, tenant: &Tenant, id: MessageId) -> Result<Option<Tracks>, StoreError> {
    let key = id.key();
    let message = |row: &Row<'_>| {
        let mine = row.get::<_, i64>(0)? == id.nonce() && row.get_ref(1)?.as_str()? == tenant.as_str();
        Ok(mine.then_some((row.get(2)?, rows::time(row, 3)?, rows::some_time(row, 4)?)))
    };
    let found = db.prepare_cached(sql!("message_block"))?.query_row([key.0], message).optional()?;
    let Some((accepted, due, send_at)) = found.flatten() else { return Ok(None) };
    let steps = rows::all(db, sql!("history_blocks"), [key.0], |row| {
        let delay: Option<i64> = row.get(5)?;
        Ok(Step {
            block: row.get(0)?,
            number: row.get(1)?,
            started_at: rows::time(row, 2)?,
            finished_at: rows::time(row, 3)?,
            next_due: rows::some_time(row, 4)?,
            delay: delay.map(|delay| Span::from_millis(delay.unsigned_abs())),
        })
    })?;
    let edits = rows::all(db, sql!("revision_times"), [key.0], |row| {
        Ok((usize::try_from(row.get::<_, u32>(0)?).unwrap_or(usize::MAX), rows::time(row, 1)?))
    })?;
    let sends = |members: &[u8]| {
        rows::members(members).any(|(member, _, after)| member == key && after as usize == steps.len())
    };
    let claimed = rows::journal(db)?.into_iter().find(|(.., members)| sends(members)).map(|(_, _, at, _)| at);
    let heard = rows::delivery(db, key)?.map(|word| word.at);
    Ok(Some(Tracks { accepted, due, send_at, steps, edits, heard, claimed }))
}

/// The chain of a file.
pub(super) struct Blocks<'a>(pub(super) &'a Db);

impl Chain for Blocks<'_> {
    fn places(&mut self, names: &[i64]) -> Result<(HashMap<i64, Place>, Place), StoreError> {
        let read = |sequence: i64, row: &Row<'_>, from: usize| {
            let (position, count): (i64, i64) = (row.get(from)?, row.get(from + 1)?);
            Ok(Place {
                sequence: sequence.unsigned_abs(),
                position: position.unsigned_abs(),
                count: count.unsigned_abs(),
            })
        };
        let mut named = self.0.prepare_cached(sql!("audit_named"))?;
        let mut places = HashMap::new();
        for name in names {
            let place = named.query_row([name], |row| read(*name, row, 0)).optional()?;
            places.extend(place.map(|place| (*name, place)));
        }
        let mut last = self.0.prepare_cached(sql!("audit_tip"))?;
        let last = last.query_row([], |row| read(row.get(0)?, row, 1)).optional()?;
        let end = last.map(|last| (last.sequence + 1, last.position + last.count));
        let (sequence, position) = end.unwrap_or_default();
        Ok((places, Place { sequence, position, count: 0 }))
    }

    fn look(&mut self, id: MessageId, pieces: &[Range<u64>], seeks: &[Seek]) -> Result<Seen, StoreError> {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let mut seen = Seen::default();
        let mut from = self.0.prepare_cached(sql!("audit_from"))?;
        for piece in pieces {
            let mut blocks = from.query([number(piece.start)])?;
            while let Some(row) = blocks.next()? {
                let position: i64 = row.get(0)?;
                if position >= number(piece.end) {
                    break;
                }
                let entries =
                    row.get_ref(1)?.as_blob().map_err(|error| StoreError::Broken(error.to_string()))?;
                seen.records.extend(audit::records_of(position.unsigned_abs(), entries, id));
            }
        }
        let mut halves = self.0.prepare_cached(sql!("audit_seek"))?;
        for seek in seeks {
            let bounds = params![number(seek.low), number(seek.high), seek.at.millis()];
            let position: Option<i64> = halves.query_row(bounds, |row| row.get(0)).optional()?;
            seen.sought.push(position.map(i64::unsigned_abs));
        }
        Ok(seen)
    }
}
