//! What the rows of a message say of its audit records, and the chain as a search for these asks for it: a journey for
//! the rows, one for the places of blocks, and one or two to look.

use std::collections::HashMap;
use std::ops::Range;

use pombo_kernel::id::MessageId;
use pombo_kernel::name::Tenant;
use pombo_kernel::time::Span;

use super::link::Row;
use super::reader::{Reader, Whose, journal, unanswered};
use super::{rows, sql};
use crate::StoreError;
use crate::audit;
use crate::tracks::{Chain, Place, Seek, Seen, Step, Tracks};

impl Reader {
    /// Those of a message, if it is the tenant's, as whom they are read.
    pub(super) fn tracks(&mut self, tenant: &Tenant, id: MessageId) -> Result<Option<Tracks>, StoreError> {
        let key = id.key();
        let one = || vec![key.0.into()];
        let asked = vec![
            (sql!("claim_find"), vec![key.0.to_le_bytes().as_slice().into()]),
            Whose::Tenant(tenant).step(),
            (sql!("message_block"), one()),
            (sql!("history_blocks"), one()),
            (sql!("revision_times"), one()),
            (sql!("delivery_get"), vec![vec![key.0].into()]),
        ];
        let found = self.read(Whose::Everybodys, asked)?;
        let [sending, _, messages, steps, edits, words] = found.as_slice() else { return Err(unanswered()) };
        let Some(message) = messages.first() else { return Ok(None) };
        if rows::get::<i64>(message, 0)? != id.nonce() || rows::get::<&str>(message, 1)? != tenant.as_str() {
            return Ok(None);
        }
        let journal = journal(sending)?;
        let steps = steps.iter().map(step).collect::<Result<Vec<_>, _>>()?;
        let edit = |row| Ok::<_, StoreError>((rows::number::<i32, usize>(row, 0)?, rows::time(row, 1)?));
        let claim = u32::try_from(steps.len()).ok().and_then(|after| Some(*journal.get(&(key, after))?));
        Ok(Some(Tracks {
            accepted: rows::get(message, 2)?,
            due: rows::time(message, 3)?,
            send_at: rows::some_time(message, 4)?,
            edits: edits.iter().map(edit).collect::<Result<_, _>>()?,
            heard: words.first().map(|row| rows::time(row, 1)).transpose()?,
            claimed: claim.map(|(_, at)| at),
            steps,
        }))
    }
}

fn step(row: &Row) -> Result<Step, StoreError> {
    let delay: Option<i64> = rows::get(row, 5)?;
    Ok(Step {
        block: rows::get(row, 0)?,
        number: rows::get::<i16>(row, 1)?.into(),
        started_at: rows::time(row, 2)?,
        finished_at: rows::time(row, 3)?,
        next_due: rows::some_time(row, 4)?,
        delay: delay.map(|delay| Span::from_millis(delay.unsigned_abs())),
    })
}

impl Chain for Reader {
    fn places(&mut self, names: &[i64]) -> Result<(HashMap<i64, Place>, Place), StoreError> {
        let asked = vec![(sql!("audit_named"), vec![names.to_vec().into()]), (sql!("audit_end"), vec![])];
        let found = self.read(Whose::Everybodys, asked)?;
        let [named, end] = found.as_slice() else { return Err(unanswered()) };
        let end = end.first().ok_or_else(unanswered)?;
        let place = |row: &Row, from: usize, count: u64| {
            Ok::<_, StoreError>(Place {
                sequence: rows::number::<i64, u64>(row, from)?,
                position: rows::number::<i64, u64>(row, from + 1)?,
                count,
            })
        };
        let named = named
            .iter()
            .map(|row| Ok((rows::get(row, 0)?, place(row, 1, rows::number::<i32, u64>(row, 3)?)?)));
        Ok((named.collect::<Result<_, StoreError>>()?, place(end, 0, 0)?))
    }

    fn look(&mut self, id: MessageId, pieces: &[Range<u64>], seeks: &[Seek]) -> Result<Seen, StoreError> {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let starts: Vec<i64> = pieces.iter().map(|piece| number(piece.start)).collect();
        let ends: Vec<i64> = pieces.iter().map(|piece| number(piece.end)).collect();
        let lows: Vec<i64> = seeks.iter().map(|seek| number(seek.low)).collect();
        let highs: Vec<i64> = seeks.iter().map(|seek| number(seek.high)).collect();
        let times: Vec<i64> = seeks.iter().map(|seek| seek.at.millis()).collect();
        let bytes = id.bits().to_be_bytes();
        let mut asked =
            vec![(sql!("audit_within"), vec![starts.into(), ends.into(), bytes.as_slice().into()])];
        if !seeks.is_empty() {
            asked.push((sql!("audit_seek"), vec![lows.into(), highs.into(), times.into()]));
        }
        let found = self.read(Whose::Everybodys, asked)?;
        let blocks = found.first().ok_or_else(unanswered)?;
        let mut seen = Seen::default();
        for block in blocks {
            let position = rows::number::<i64, u64>(block, 0)?;
            seen.records.extend(audit::records_of(position, rows::get(block, 1)?, id));
        }
        for row in found.iter().skip(1).flatten() {
            let position: Option<i64> = rows::get(row, 0)?;
            seen.sought.push(position.map(i64::unsigned_abs));
        }
        Ok(seen)
    }
}
