//! Between rows and types.
//!
//! PostgreSQL's texts hold every character but NUL, and ours may: what somebody else wrote is escaped on its way in
//! and unescaped on its way out. JSON has escapes of its own, and names cannot hold what needs any.

use std::str::FromStr;
use std::sync::Arc;

use pombo_kernel::block::Block;
use pombo_kernel::delivery::{Delivery, LastWord};
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::message::{
    AttemptFailure, Body, ClaimId, FailureReason, Message, Priority, Progress, QueueName,
};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::{Span, Time};
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::audit::Block as AuditBlock;
use crate::rows::digest;
pub(super) use crate::rows::{
    CANCELLED, DISCARDED, EXPIRED, MEMBER, REPROCESSED, Round, Step, Stored, body, json, keyed_hash, members,
    push_member,
};
use crate::vault::{Spot, Vault};
use crate::{Place, StoreError};

/// What stands before the character that stands for another.
const ESCAPE: char = '\u{1}';

/// The text as a column can hold it, since none can hold NUL.
pub(super) fn escaped(text: &str) -> String {
    if !text.contains(['\0', ESCAPE]) {
        return text.to_owned();
    }
    text.replace(ESCAPE, "\u{1}1").replace('\0', "\u{1}0")
}

/// The text that was escaped.
pub(super) fn unescaped(text: String) -> String {
    if !text.contains(ESCAPE) {
        return text;
    }
    text.replace("\u{1}0", "\0").replace("\u{1}1", "\u{1}")
}

/// A value in a row that cannot be: the table is not what we wrote.
pub(super) fn broken(row: &Row, column: usize, what: impl std::fmt::Display) -> StoreError {
    let name = row.columns().get(column).map_or("no such column", |column| column.name());
    StoreError::Broken(format!("a row has a bad value: {name}: {what}"))
}

/// The value of a column. One of another type means that the schema is not ours.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column).map_err(|error| broken(row, column, error))
}

/// A number that is narrower in our types than in PostgreSQL's, which have no unsigned ones.
pub(super) fn number<'a, Wide, T>(row: &'a Row, column: usize) -> Result<T, StoreError>
where
    Wide: FromSql<'a>,
    T: TryFrom<Wide>,
{
    T::try_from(get::<Wide>(row, column)?).map_err(|_| broken(row, column, "out of range"))
}

pub(super) fn text(row: &Row, column: usize) -> Result<String, StoreError> {
    get(row, column).map(unescaped)
}

pub(super) fn some_text(row: &Row, column: usize) -> Result<Option<String>, StoreError> {
    Ok(get::<Option<String>>(row, column)?.map(unescaped))
}

/// Bytes that were sealed for that place, if the store is.
pub(super) fn opened(
    vault: &Vault,
    spot: &Spot<'_>,
    row: &Row,
    column: usize,
) -> Result<Vec<u8>, StoreError> {
    Ok(vault.open(spot, get(row, column)?)?.into_owned())
}

/// A text that was sealed for that place, if the store is.
pub(super) fn opened_text(
    vault: &Vault,
    spot: &Spot<'_>,
    row: &Row,
    column: usize,
) -> Result<Option<String>, StoreError> {
    some_text(row, column)?.map(|text| vault.open_text(spot, text)).transpose()
}

/// A text as its column has it: sealed for that place, if the store is.
pub(super) fn sealed_text(vault: &Vault, spot: &Spot<'_>, text: &str) -> String {
    escaped(&vault.seal_text(spot, text))
}

/// Why an attempt of a message failed, if that step was one that did.
pub(super) fn failure(
    vault: &Vault,
    (key, seq): (MessageKey, u32),
    row: &Row,
    column: usize,
) -> Result<Option<AttemptFailure>, StoreError> {
    let json = opened_text(vault, &Spot::Failure(key, seq), row, column)?;
    json.map(|json| serde_json::from_str(&json).map_err(|error| broken(row, column, error))).transpose()
}

/// The same, of a column that was read before.
pub(super) fn failure_in(
    vault: &Vault,
    (key, seq): (MessageKey, u32),
    column: &str,
) -> Result<AttemptFailure, StoreError> {
    let json = vault.open_text(&Spot::Failure(key, seq), unescaped(column.to_owned()))?;
    serde_json::from_str(&json)
        .map_err(|error| StoreError::Broken(format!("a failure cannot be read: {error}")))
}

pub(super) fn parsed<T: DeserializeOwned>(row: &Row, column: usize) -> Result<Option<T>, StoreError> {
    let json: Option<&str> = get(row, column)?;
    json.map(|json| serde_json::from_str(json).map_err(|error| broken(row, column, error))).transpose()
}

pub(super) fn time(row: &Row, column: usize) -> Result<Time, StoreError> {
    Ok(Time::from_millis(get(row, column)?))
}

pub(super) fn some_time(row: &Row, column: usize) -> Result<Option<Time>, StoreError> {
    Ok(get::<Option<i64>>(row, column)?.map(Time::from_millis))
}

pub(super) fn key(row: &Row, column: usize) -> Result<MessageKey, StoreError> {
    get(row, column).map(MessageKey)
}

pub(super) fn id(row: &Row, key: usize, nonce: usize) -> Result<MessageId, StoreError> {
    Ok(MessageId::new(MessageKey(get(row, key)?), get(row, nonce)?))
}

pub(super) fn name<T: FromStr>(row: &Row, column: usize) -> Result<T, StoreError>
where
    T::Err: std::fmt::Display,
{
    get::<&str>(row, column)?.parse().map_err(|error| broken(row, column, error))
}

pub(super) fn bytes<const N: usize>(row: &Row, column: usize) -> Result<[u8; N], StoreError> {
    get::<&[u8]>(row, column)?.try_into().map_err(|_| broken(row, column, "of another length"))
}

/// The names of a queue from columns `first`..: tenant, lane, channel, destination, campaign.
pub(super) fn queue_name(row: &Row, first: usize) -> Result<QueueName, StoreError> {
    let campaign: &str = get(row, first + 4)?;
    Ok(QueueName {
        tenant: name(row, first)?,
        lane: name(row, first + 1)?,
        channel: name(row, first + 2)?,
        destination: text(row, first + 3)?.into(),
        campaign: if campaign.is_empty() { None } else { Some(name(row, first + 4)?) },
    })
}

/// A message from columns `first`..: key, nonce, priority, send_at, expires_at, ordering_key, type, template,
/// reference, body.
pub(super) fn message(
    vault: &Vault,
    row: &Row,
    first: usize,
    queue: Arc<QueueName>,
) -> Result<Message, StoreError> {
    let id = id(row, first, first + 1)?;
    let stored = opened(vault, &Spot::Body(id.key()), row, first + 9)?;
    let stored: Body = serde_json::from_slice(&stored).map_err(|e| broken(row, first + 9, e))?;
    let priority = number::<i16, u8>(row, first + 2)?;
    Ok(Message {
        id,
        queue,
        priority: Priority::new(priority).ok_or_else(|| broken(row, first + 2, "no priority"))?,
        send_at: some_time(row, first + 3)?,
        expires_at: some_time(row, first + 4)?,
        ordering_key: some_text(row, first + 5)?,
        body: Body {
            kind: some_text(row, first + 6)?,
            template: some_text(row, first + 7)?,
            reference: some_text(row, first + 8)?,
            ..stored
        },
    })
}

/// A row of `message_get`: a message, its queue, when it was first due, and its queue's names.
pub(super) fn stored(vault: &Vault, row: &Row) -> Result<Stored, StoreError> {
    Ok(Stored {
        message: message(vault, row, 0, Arc::new(queue_name(row, 12)?))?,
        queue: get(row, 10)?,
        due: time(row, 11)?,
    })
}

/// A row of a message's history, with its key last.
pub(super) fn step(vault: &Vault, row: &Row) -> Result<Step, StoreError> {
    let (key, seq) = (key(row, 18)?, number::<i32, u32>(row, 0)?);
    let reason = get::<Option<i16>>(row, 8)?.and_then(|code| u8::try_from(code).ok());
    let delay: Option<i64> = get(row, 10)?;
    Ok(Step {
        outcome: number::<i16, u8>(row, 1)?,
        number: number::<i16, u16>(row, 3)?,
        progress: Progress {
            keyed: number::<i16, u16>(row, 17)?,
            round: number::<i16, u16>(row, 2)?,
            attempts: number::<i16, u16>(row, 4)?,
            crashes: number::<i16, u16>(row, 5)?,
            steps: seq.saturating_add(1),
            doubtful: get(row, 16)?,
        },
        started_at: time(row, 6)?,
        finished_at: time(row, 7)?,
        reason: reason.and_then(FailureReason::from_code),
        next_due: some_time(row, 9)?,
        delay: delay.map(|ms| Span::from_millis(ms.unsigned_abs())),
        failure: failure(vault, (key, seq), row, 11)?,
        receipt: parsed(row, 12)?,
        explanation: opened_text(vault, &Spot::Explanation(key, seq), row, 13)?,
        actor: some_text(row, 14)?,
        policy: some_text(row, 15)?,
    })
}

/// The furthest report on a message: state, at, detail, key.
pub(super) fn last_word(vault: &Vault, row: &Row) -> Result<LastWord, StoreError> {
    let state = Delivery::from_code(number::<i16, u8>(row, 0)?);
    Ok(LastWord {
        state: state.ok_or_else(|| broken(row, 0, "no delivery"))?,
        at: time(row, 1)?,
        detail: opened_text(vault, &Spot::Detail(key(row, 3)?), row, 2)?,
    })
}

/// A block, where it stands and the claim that tries it: channel, destination, body, probe.
pub(super) fn block(row: &Row) -> Result<(Place, Block, Option<i64>), StoreError> {
    let place = Place { channel: name(row, 0)?, destination: some_text(row, 1)?.map(Arc::from) };
    let block = parsed(row, 2)?.ok_or_else(|| broken(row, 2, "no block"))?;
    Ok((place, block, get(row, 3)?))
}

/// A sealed block of the audit chain: sequence, position, at, count, hash, entries. A hash of another length is one
/// that does not hold, not a row that cannot be read.
pub(super) fn audit_block(row: &Row) -> Result<AuditBlock, StoreError> {
    Ok(AuditBlock {
        sequence: number::<i64, u64>(row, 0)?,
        position: number::<i64, u64>(row, 1)?,
        at: time(row, 2)?,
        // Whatever somebody wrote there, it is for the check to say what is wrong with it.
        count: u32::try_from(get::<i32>(row, 3)?).unwrap_or(u32::MAX),
        hash: bytes(row, 4).unwrap_or_default(),
        entries: get(row, 5)?,
    })
}

/// A journal row from columns id, at, members.
pub(super) fn journal(row: &Row) -> Result<(ClaimId, Time, &[u8]), StoreError> {
    Ok((ClaimId(get(row, 0)?), time(row, 1)?, get(row, 2)?))
}

pub(super) fn queue_digest(name: &QueueName) -> Vec<u8> {
    let campaign = name.campaign.as_ref().map_or("", |campaign| campaign.as_str());
    digest(&[name.tenant.as_str(), name.lane.as_str(), name.channel.as_str(), &name.destination, campaign])
}

pub(super) fn place_digest(place: &Place) -> Vec<u8> {
    match &place.destination {
        Some(destination) => digest(&[place.channel.as_str(), destination]),
        None => digest(&[place.channel.as_str()]),
    }
}

pub(super) fn order_digest(tenant: &Tenant, ordering_key: &str) -> Vec<u8> {
    digest(&[tenant.as_str(), ordering_key])
}

pub(super) fn idempotency_digest(tenant: &Tenant, key: &str) -> Vec<u8> {
    digest(&[tenant.as_str(), key])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_nul_and_the_escape_itself_are_escaped() {
        for (text, as_stored) in [
            ("", ""),
            ("João 🐦 \t\n\u{2}", "João 🐦 \t\n\u{2}"),
            ("a\0b", "a\u{1}0b"),
            ("a\u{1}b", "a\u{1}1b"),
            ("\u{1}0", "\u{1}10"),
            ("\u{1}\0\u{1}1", "\u{1}1\u{1}0\u{1}11"),
        ] {
            assert_eq!(escaped(text), as_stored);
            assert_eq!(unescaped(as_stored.to_owned()), text);
        }
    }

    proptest! {
        #[test]
        fn every_text_comes_back_as_it_was(text in "[\\x00\\x0101a-c\\PC]*") {
            let stored = escaped(&text);
            prop_assert!(!stored.contains('\0'));
            prop_assert_eq!(unescaped(stored), text);
        }
    }

    #[test]
    fn places_queues_and_keys_that_differ_have_digests_that_differ() {
        let tenant = |name: &str| name.parse::<Tenant>().expect("a tenant");
        let place = |channel: &str, destination: Option<&str>| {
            let destination = destination.map(Arc::from);
            place_digest(&Place { channel: channel.parse().expect("a channel"), destination })
        };
        let all = [
            place("mail", None),
            place("mail", Some("")),
            place("mail", Some("a.example")),
            place("mai", Some("la.example")),
            order_digest(&tenant("ab"), "c"),
            order_digest(&tenant("a"), "bc"),
        ];
        for (i, one) in all.iter().enumerate() {
            assert_eq!(one.len(), 32);
            assert!(all[..i].iter().all(|other| other != one), "{i}");
        }
    }
}
