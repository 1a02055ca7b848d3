//! Between rows and types.

use std::sync::Arc;

use pombo_kernel::block::Block;
use pombo_kernel::delivery::{Delivery, LastWord};
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::message::{Body, ClaimId, FailureReason, Message, Priority, Progress, QueueName};
use pombo_kernel::time::{Span, Time};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::de::DeserializeOwned;

use super::file::Db;
use super::sql;
use crate::audit::{Block as AuditBlock, PIECE_BYTES, Tip};
use crate::board::QueueId;
pub(super) use crate::rows::{
    CANCELLED, DISCARDED, EXPIRED, Ending, MEMBER, REPROCESSED, Round, Step, Stored, body, json, members,
    push_member,
};
use crate::vault::Spot;
use crate::{NodeId, Place, StoreError};

/// A value in a row that cannot be: the file is not what we wrote.
pub(super) fn broken(column: usize, what: impl std::fmt::Display) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, what.to_string().into())
}

/// Bytes that were sealed for that place, if the store is.
pub(super) fn opened(db: &Db, spot: &Spot<'_>, row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<u8>> {
    let bytes = row.get_ref(column)?.as_blob()?;
    Ok(db.vault.open(spot, bytes).map_err(|error| broken(column, error))?.into_owned())
}

/// A text that was sealed for that place, if the store is.
pub(super) fn opened_text(
    db: &Db,
    spot: &Spot<'_>,
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<String>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| db.vault.open_text(spot, text).map_err(|error| broken(column, error))).transpose()
}

pub(super) fn parsed<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| serde_json::from_str(&text).map_err(|error| broken(column, error))).transpose()
}

pub(super) fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Time> {
    Ok(Time::from_millis(row.get(column)?))
}

pub(super) fn some_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Time>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Time::from_millis))
}

pub(super) fn id(row: &Row<'_>, key: usize, nonce: usize) -> rusqlite::Result<MessageId> {
    Ok(MessageId::new(MessageKey(row.get(key)?), row.get(nonce)?))
}

pub(super) fn name<T: std::str::FromStr>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T::Err: std::fmt::Display,
{
    row.get_ref(column)?.as_str()?.parse().map_err(|error: T::Err| broken(column, error))
}

fn queue_name(row: &Row<'_>, first: usize) -> rusqlite::Result<QueueName> {
    let campaign: String = row.get(first + 4)?;
    Ok(QueueName {
        tenant: name(row, first)?,
        lane: name(row, first + 1)?,
        channel: name(row, first + 2)?,
        destination: row.get_ref(first + 3)?.as_str()?.into(),
        campaign: if campaign.is_empty() { None } else { Some(name(row, first + 4)?) },
    })
}

/// A message from columns `first`..: key, nonce, priority, send_at, expires_at, ordering_key, type, template,
/// reference, body.
pub(super) fn message(
    db: &Db,
    row: &Row<'_>,
    first: usize,
    queue: Arc<QueueName>,
) -> rusqlite::Result<Message> {
    let id = id(row, first, first + 1)?;
    let stored = row.get_ref(first + 9)?.as_blob()?;
    let stored = db.vault.open(&Spot::Body(id.key()), stored).map_err(|error| broken(first + 9, error))?;
    let stored: Body = serde_json::from_slice(&stored).map_err(|error| broken(first + 9, error))?;
    Ok(Message {
        id,
        queue,
        priority: Priority::new(row.get(first + 2)?).ok_or_else(|| broken(first + 2, "priority"))?,
        send_at: some_time(row, first + 3)?,
        expires_at: some_time(row, first + 4)?,
        ordering_key: row.get(first + 5)?,
        body: Body {
            kind: row.get(first + 6)?,
            template: row.get(first + 7)?,
            reference: row.get(first + 8)?,
            ..stored
        },
    })
}

pub(super) fn stored(db: &Db, key: MessageKey) -> Result<Option<Stored>, StoreError> {
    let mut statement = db.prepare_cached(sql!("message_get"))?;
    let read = |row: &Row<'_>| {
        Ok(Stored {
            message: message(db, row, 0, Arc::new(queue_name(row, 12)?))?,
            queue: row.get(10)?,
            due: time(row, 11)?,
        })
    };
    Ok(statement.query_row([key.0], read).optional()?)
}

/// Where a message belongs, without what it says: that may be sealed.
pub(super) struct Head {
    pub(super) id: MessageId,
    pub(super) queue: QueueId,
    pub(super) name: QueueName,
    pub(super) priority: Priority,
    /// When it is due, if it waits.
    pub(super) due: Time,
}

pub(super) fn head(db: &Connection, key: MessageKey) -> Result<Option<Head>, StoreError> {
    let last = |row: &Row<'_>| some_time(row, 9);
    let later = db.prepare_cached(sql!("history_last"))?.query_row([key.0], last).optional()?.flatten();
    let read = |row: &Row<'_>| {
        Ok(Head {
            id: id(row, 0, 1)?,
            queue: row.get(10)?,
            name: queue_name(row, 12)?,
            priority: Priority::new(row.get(2)?).ok_or_else(|| broken(2, "priority"))?,
            due: later.map_or_else(|| time(row, 11), Ok)?,
        })
    };
    Ok(db.prepare_cached(sql!("message_get"))?.query_row([key.0], read).optional()?)
}

pub(super) fn step(db: &Db, key: MessageKey, row: &Row<'_>) -> rusqlite::Result<Step> {
    let seq: u32 = row.get(0)?;
    let failure = opened_text(db, &Spot::Failure(key, seq), row, 11)?;
    let failure = failure.map(|text| serde_json::from_str(&text).map_err(|error| broken(11, error)));
    let reason: Option<u8> = row.get(8)?;
    let delay: Option<i64> = row.get(10)?;
    Ok(Step {
        outcome: row.get(1)?,
        number: row.get(3)?,
        progress: Progress {
            keyed: row.get(17)?,
            round: row.get(2)?,
            attempts: row.get(4)?,
            crashes: row.get(5)?,
            steps: seq.saturating_add(1),
            doubtful: row.get(16)?,
        },
        started_at: time(row, 6)?,
        finished_at: time(row, 7)?,
        reason: reason.and_then(FailureReason::from_code),
        next_due: some_time(row, 9)?,
        delay: delay.map(|ms| Span::from_millis(ms.unsigned_abs())),
        failure: failure.transpose()?,
        receipt: parsed(row, 12)?,
        explanation: opened_text(db, &Spot::Explanation(key, seq), row, 13)?,
        actor: row.get(14)?,
        policy: row.get(15)?,
    })
}

pub(super) fn all<T>(
    db: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement.query_map(params, read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn history(db: &Db, key: MessageKey) -> Result<Vec<Step>, StoreError> {
    all(db, sql!("history_of"), [key.0], |row| step(db, key, row))
}

pub(super) fn last_step(db: &Db, key: MessageKey) -> Result<Option<Step>, StoreError> {
    let mut statement = db.prepare_cached(sql!("history_last"))?;
    Ok(statement.query_row([key.0], |row| step(db, key, row)).optional()?)
}

/// The furthest report on a message.
pub(super) fn delivery(db: &Db, key: MessageKey) -> Result<Option<LastWord>, StoreError> {
    let read = |row: &Row<'_>| {
        let state = Delivery::from_code(row.get(0)?).ok_or_else(|| broken(0, "delivery"))?;
        Ok(LastWord { state, at: time(row, 1)?, detail: opened_text(db, &Spot::Detail(key), row, 2)? })
    };
    Ok(db.prepare_cached(sql!("delivery_get"))?.query_row([key.0], read).optional()?)
}

pub(super) fn queues(db: &Connection) -> Result<Vec<(QueueId, QueueName, u32)>, StoreError> {
    all(db, sql!("queue_all"), [], |row| Ok((row.get(0)?, queue_name(row, 1)?, row.get(6)?)))
}

pub(super) fn blocks(db: &Connection) -> Result<Vec<(Place, Block)>, StoreError> {
    all(db, sql!("block_all"), [], |row| {
        let destination: String = row.get(1)?;
        let destination = Some(destination).filter(|text| !text.is_empty()).map(Arc::from);
        let block = parsed(row, 2)?.ok_or_else(|| broken(2, "no block"))?;
        Ok((Place { channel: name(row, 0)?, destination }, block))
    })
}

pub(super) fn deadlines(
    db: &Connection,
    now: Time,
    max: usize,
) -> Result<Vec<(Time, MessageKey)>, StoreError> {
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    all(db, sql!("expiry_due"), params![now.millis(), max], |row| {
        Ok((time(row, 0)?, MessageKey(row.get(1)?)))
    })
}

/// Where the audit chain ends.
pub(super) fn tip(db: &Connection) -> Result<Tip, StoreError> {
    let read = |row: &Row<'_>| {
        let (sequence, position): (i64, i64) = (row.get(0)?, row.get(1)?);
        let (count, hash): (u32, Vec<u8>) = (row.get(2)?, row.get(3)?);
        Ok(Tip {
            sequence: sequence.unsigned_abs() + 1,
            position: position.unsigned_abs() + u64::from(count),
            hash: hash.try_into().map_err(|_| broken(3, "hash"))?,
        })
    };
    Ok(db.prepare_cached(sql!("audit_tip"))?.query_row([], read).optional()?.unwrap_or_default())
}

/// Blocks of the audit chain from a sequence on: the first, and others as long as they are within a piece.
pub(super) fn audit_blocks(db: &Connection, from: u64, max: usize) -> Result<Vec<AuditBlock>, StoreError> {
    let (from, max) = (i64::try_from(from).unwrap_or(i64::MAX), i64::try_from(max).unwrap_or(i64::MAX));
    let mut statement = db.prepare_cached(sql!("audit_all"))?;
    let mut rows = statement.query([from, max])?;
    let (mut blocks, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let (sequence, position): (i64, i64) = (row.get(0)?, row.get(1)?);
        let hash: Vec<u8> = row.get(4)?;
        let entries: Vec<u8> = row.get(5)?;
        bytes += entries.len();
        if bytes > PIECE_BYTES && !blocks.is_empty() {
            break;
        }
        blocks.push(AuditBlock {
            sequence: sequence.unsigned_abs(),
            position: position.unsigned_abs(),
            at: time(row, 2)?,
            // Whatever somebody wrote there, it is for the check to say what is wrong with it.
            count: u32::try_from(row.get::<_, i64>(3)?).unwrap_or(u32::MAX),
            hash: hash.try_into().unwrap_or_default(),
            entries,
        });
    }
    Ok(blocks)
}

/// A journal row: claim, node, when, members.
type JournalRow = (ClaimId, NodeId, Time, Vec<u8>);

pub(super) fn journal(db: &Connection) -> Result<Vec<JournalRow>, StoreError> {
    all(db, sql!("claim_all"), [], |row| {
        Ok((ClaimId(row.get(0)?), NodeId(row.get(1)?), time(row, 2)?, row.get(3)?))
    })
}
