//! A store as plain rows, whatever its dialect: how one is copied into another, and backed up.
//!
//! A copy goes table by table, in the order of each one's key. Every piece is committed together with a note of how
//! far it came, so that a copy that is cut off goes on where it was. Until it has come to its end and both sides were
//! compared, the target carries that note, and nobody can serve from it.

use std::fmt;

use pombo_kernel::time::Time;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::audit::{Tip, Verified};
use crate::vault::opening::{self, Lock};
use crate::{Pause, StoreError};

/// Rows in one piece, and about how many bytes at most.
pub(crate) const PIECE_ROWS: usize = 2_000;
pub(crate) const PIECE_BYTES: usize = 4 * 1024 * 1024;

/// Why a part of a copy cannot be served from.
pub(crate) const UNFINISHED: &str = "it holds a part of a copy that did not come to its end; run the same `pombo store copy` again to finish it";

/// What moves, in the order in which it moves: a row comes after those that it needs.
///
/// Leases, slots, offices and flows stay behind: they belong to processes that must be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    /// id, tenant, lane, channel, destination, campaign, weight
    Queue,
    /// key, nonce, queue, priority, due, send_at, expires_at, ordering_key, type, template, reference, recipient,
    /// audit block, body
    Message,
    /// key, seq, outcome, round, number, attempts, crashes, started_at, finished_at, reason, next_due, delay, failure,
    /// receipt, explanation, policy, actor, audit block, doubtful, keyed, reprocessed_by
    History,
    /// queue, rank, due, key, steps
    Ready,
    /// id, node, at, members: only what is still being sent, so that whoever opens the copy takes it over
    Claim,
    /// tenant, ordering key, key, active, turn
    Ordered,
    /// at, key
    Expiry,
    /// tenant, idempotency key, key, nonce, fingerprint, until
    Idempotency,
    /// channel, destination (nothing for all of them), body
    Block,
    /// hour, tenant, channel, what, count
    Tally,
    /// hash, key, when it was sent
    Receipt,
    /// key, state, at, detail
    Delivery,
    /// id, tenant, channel, category, text, count
    Cause,
    /// key, cause
    DeadLetter,
    /// key, version, seq, replaced_at, actor, note, body
    Revision,
    /// tenant, name, version, created_at, actor, body
    Template,
    /// digest, bytes
    Blob,
    /// digest, key
    BlobUse,
    /// shelf, tenant, id, version, rank, topic, due, updated_at, body
    Doc,
    /// id, tenant, campaign
    Roster,
    /// roster, number, line, address, person, payload, standing, reason, message, nonce
    Recipient,
    /// name, JSON: rows of tables that only PostgreSQL has. SQLite keeps them for the way back.
    Aside,
    /// sequence, position, at, count, hash, entries
    Audit,
}

impl Table {
    pub const ALL: [Table; 23] = [
        Table::Queue,
        Table::Message,
        Table::History,
        Table::Ready,
        Table::Claim,
        Table::Ordered,
        Table::Expiry,
        Table::Idempotency,
        Table::Block,
        Table::Tally,
        Table::Receipt,
        Table::Delivery,
        Table::Cause,
        Table::DeadLetter,
        Table::Revision,
        Table::Template,
        Table::Blob,
        Table::BlobUse,
        Table::Doc,
        Table::Roster,
        Table::Recipient,
        Table::Aside,
        Table::Audit,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Table::Queue => "queue",
            Table::Message => "message",
            Table::History => "history",
            Table::Ready => "ready",
            Table::Claim => "claim",
            Table::Ordered => "ordered",
            Table::Expiry => "expiry",
            Table::Idempotency => "idempotency",
            Table::Block => "block",
            Table::Tally => "tally",
            Table::Receipt => "receipt",
            Table::Delivery => "delivery",
            Table::Cause => "cause",
            Table::DeadLetter => "dead_letter",
            Table::Revision => "revision",
            Table::Template => "template",
            Table::Blob => "blob",
            Table::BlobUse => "blob_use",
            Table::Doc => "doc",
            Table::Roster => "roster",
            Table::Recipient => "recipient",
            Table::Aside => "aside",
            Table::Audit => "audit",
        }
    }

    /// Whether so many rows can have become so many. An id that a provider used twice may have become one row, and so
    /// may a hold of a channel and one of its nameless destination.
    fn agrees(self, source: u64, target: u64) -> bool {
        match self {
            Table::Receipt | Table::Block => target <= source && (target > 0 || source == 0),
            _ => target == source,
        }
    }
}

/// One value of a row. A boolean is 0 or 1.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cell {
    Null,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// Only of what kind it is: it may be somebody's.
impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

impl Cell {
    fn kind(&self) -> &'static str {
        match self {
            Cell::Null => "nothing",
            Cell::Number(_) => "a number",
            Cell::Text(_) => "a text",
            Cell::Bytes(_) => "bytes",
        }
    }

    /// About what it takes in memory.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Cell::Null | Cell::Number(_) => 8,
            Cell::Text(text) => text.len(),
            Cell::Bytes(bytes) => bytes.len(),
        }
    }

    pub(crate) fn number(&self) -> Result<i64, StoreError> {
        match self {
            Cell::Number(number) => Ok(*number),
            other => Err(unexpected(other)),
        }
    }

    pub(crate) fn text(&self) -> Result<&str, StoreError> {
        match self {
            Cell::Text(text) => Ok(text),
            other => Err(unexpected(other)),
        }
    }

    pub(crate) fn bytes(&self) -> Result<&[u8], StoreError> {
        match self {
            Cell::Bytes(bytes) => Ok(bytes),
            other => Err(unexpected(other)),
        }
    }
}

/// A value of another kind than its column has.
fn unexpected(cell: &Cell) -> StoreError {
    StoreError::Broken(format!("a row that is copied has {cell:?} where something else belongs"))
}

pub(crate) type Row = Vec<Cell>;

/// Where a reader is in a table: the key of the last row that it gave, as its own dialect has it.
pub(crate) type Cursor = Vec<Cell>;

/// Some rows of a table, in the order of its key.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    pub(crate) rows: Vec<Row>,
    /// The last one's key; nothing if there are no more rows.
    pub(crate) cursor: Option<Cursor>,
}

/// How far a copy has come; kept in the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Of what it is a copy.
    pub(crate) origin: String,
    pub(crate) table: Table,
    pub(crate) cursor: Option<Cursor>,
}

/// A store that is read as rows. Nobody else may write to it meanwhile, or it is read as it was at one moment.
pub(crate) trait Source {
    fn lock(&mut self) -> Result<Lock, StoreError>;
    /// Where its audit chain ends.
    fn tip(&mut self) -> Result<Tip, StoreError>;
    fn paused(&mut self) -> Result<Option<Pause>, StoreError>;
    fn counts(&mut self) -> Result<Vec<(Table, u64)>, StoreError>;
    fn read(&mut self, table: Table, after: Option<&Cursor>) -> Result<Piece, StoreError>;
    /// Whether nothing was written since it was opened.
    fn unchanged(&mut self) -> Result<bool, StoreError>;
    /// Sees to it that whoever opens it from now on sends nothing before somebody says so.
    fn retire(&mut self, pause: &Pause) -> Result<(), StoreError>;
}

/// A store that is written as rows.
pub(crate) trait Target {
    /// How far an earlier copy came, if there is one that did not come to its end.
    fn progress(&mut self) -> Result<Option<Progress>, StoreError>;
    fn counts(&mut self) -> Result<Vec<(Table, u64)>, StoreError>;
    /// Makes an empty store ready to be written.
    fn begin(&mut self, lock: &Lock, first: &Progress) -> Result<(), StoreError>;
    /// Writes rows and how far they bring the copy, together.
    fn write(&mut self, table: Table, rows: Vec<Row>, progress: &Progress) -> Result<(), StoreError>;
    fn verify(&mut self) -> Result<(Tip, Verified), StoreError>;
    /// The copy is complete: from now on it can be served from, unless it is to wait.
    fn finish(&mut self, pause: Option<&Pause>) -> Result<(), StoreError>;
}

/// Why stores were not looked into, copied or backed up: one variant for each way to react.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MoveError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("there is no store in {0}")]
    NoStore(String),
    #[error("the store in {place} has schema {have}, and this version of Pombo works with {want}")]
    Schema { place: String, have: u32, want: u32 },
    #[error("{0} is in use")]
    InUse(String),
    #[error("{place} is not empty: it has {what}")]
    NotEmpty { place: String, what: String },
    #[error(
        "{0} holds a part of a copy that was made of another store, or of this one when it was different"
    )]
    OtherCopy(String),
    #[error("{place} has messages or commands that no node has taken in yet ({count})")]
    NotTakenIn { place: String, count: u64 },
    #[error("the copy has {target} rows of `{table}` where {origin} were read")]
    Differs { table: &'static str, origin: u64, target: u64 },
    #[error("the audit chain of the copy does not hold or ends elsewhere: {0}")]
    Chain(String),
}

/// What a copy says of itself while it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    pub table: Table,
    pub rows: u64,
    pub of: u64,
}

/// What was copied, and that both sides agree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Copied {
    /// It went on with what an earlier run had begun.
    pub resumed: bool,
    pub tables: Vec<Compared>,
    pub audit_records: u64,
    /// The hash at the end of the audit chain, on both sides.
    pub audit_tip: String,
    /// Why whoever serves from the copy sends nothing at first.
    pub paused: Option<Pause>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Compared {
    pub table: Table,
    pub source: u64,
    pub target: u64,
}

/// Copies everything, or what is left of it, and compares. `place` is the target's name for people.
///
/// `pause` is put in front of the copy; a source that is paused makes a copy that is.
pub(crate) fn copy(
    source: &mut dyn Source,
    target: &mut dyn Target,
    place: &str,
    pause: Option<Pause>,
    tell: &mut dyn FnMut(Moved),
) -> Result<Copied, MoveError> {
    let lock = source.lock()?;
    if lock.is_turning() {
        return Err(opening::unfinished().into());
    }
    let tip = source.tip()?;
    let origin = origin(&lock.secret, &tip);
    let counts = source.counts()?;
    let (resumed, mut at) = match target.progress()? {
        Some(progress) if progress.origin == origin => (true, progress),
        Some(_) => return Err(MoveError::OtherCopy(place.to_owned())),
        None => {
            refuse_unless_empty(&target.counts()?, place)?;
            let first = Progress { origin: origin.clone(), table: Table::Queue, cursor: None };
            target.begin(&lock, &first)?;
            (false, first)
        }
    };
    let done = Table::ALL.iter().position(|table| *table == at.table).unwrap_or(0);
    let before: u64 = target.counts()?.iter().map(|(_, count)| count).sum();
    let mut moved = Moved { table: at.table, rows: before, of: counts.iter().map(|(_, count)| count).sum() };
    for table in Table::ALL.into_iter().skip(done) {
        moved.table = table;
        let mut cursor = if table == at.table { at.cursor.take() } else { None };
        loop {
            let piece = source.read(table, cursor.as_ref())?;
            let Some(next) = piece.cursor else { break };
            moved.rows += piece.rows.len() as u64;
            let progress = Progress { origin: origin.clone(), table, cursor: Some(next) };
            target.write(table, piece.rows, &progress)?;
            cursor = progress.cursor;
            tell(moved);
        }
    }
    let tables = compared(&counts, &target.counts()?)?;
    let (end, verified) = target.verify()?;
    if let Some(broken) = verified.broken {
        return Err(MoveError::Chain(broken.to_string()));
    }
    if end != tip {
        return Err(MoveError::Chain(format!("after {} records instead of {}", end.position, tip.position)));
    }
    if pause.is_none() && !source.unchanged()? {
        return Err(MoveError::InUse("the source".to_owned()));
    }
    let paused = match pause {
        Some(pause) => Some(pause),
        None => source.paused()?,
    };
    target.finish(paused.as_ref())?;
    Ok(Copied { resumed, tables, audit_records: tip.position, audit_tip: hex(&tip.hash), paused })
}

fn refuse_unless_empty(counts: &[(Table, u64)], place: &str) -> Result<(), MoveError> {
    let there: Vec<String> = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(table, count)| format!("{count} in `{}`", table.as_str()))
        .collect();
    if there.is_empty() {
        return Ok(());
    }
    Err(MoveError::NotEmpty { place: place.to_owned(), what: there.join(", ") })
}

fn compared(source: &[(Table, u64)], target: &[(Table, u64)]) -> Result<Vec<Compared>, MoveError> {
    let of = |counts: &[(Table, u64)], table| {
        counts.iter().find(|(it, _)| *it == table).map_or(0, |(_, count)| *count)
    };
    let both =
        Table::ALL.map(|table| Compared { table, source: of(source, table), target: of(target, table) });
    match both.iter().find(|it| !it.table.agrees(it.source, it.target)) {
        None => Ok(both.into()),
        Some(it) => {
            Err(MoveError::Differs { table: it.table.as_str(), origin: it.source, target: it.target })
        }
    }
}

/// What stands for a store at one moment. Its secret makes it this one; every change of a message moves its chain.
fn origin(secret: &[u8], tip: &Tip) -> String {
    let mut hash = Sha256::new();
    hash.update(b"pombo copy 1\0");
    hash.update(secret);
    hash.update(tip.sequence.to_le_bytes());
    hash.update(tip.hash);
    hex(&hash.finalize())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The pause of a copy that may be behind the store that it was made of.
pub fn of_backup(from: &str, at: Time) -> Pause {
    Pause {
        since: at,
        why: format!("this is a backup of {from}; what waits in it may have been sent since it was made"),
    }
}

/// The pause of a store whose messages went elsewhere.
pub fn of_moved(to: &str, at: Time) -> Pause {
    Pause { since: at, why: format!("its messages were copied to {to}; whoever sends from both sends twice") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_named_alike_everywhere() {
        for table in Table::ALL {
            assert_eq!(serde_json::to_value(table).unwrap(), table.as_str());
        }
    }

    #[test]
    fn only_receipts_and_blocks_may_become_fewer() {
        for table in Table::ALL {
            assert!(table.agrees(3, 3) && !table.agrees(2, 3) && !table.agrees(3, 0), "{table:?}");
            assert_eq!(table.agrees(3, 2), matches!(table, Table::Receipt | Table::Block), "{table:?}");
        }
    }
}
