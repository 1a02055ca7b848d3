//! A short look at a store, beside whoever uses it: whether it can be used, without reading all of it.

use pombo_kernel::time::Time;

use crate::Pause;
use crate::home::Trail;
use crate::moving::MoveError;

/// What a short look finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance {
    pub schema: u32,
    /// A process has the folder for itself. Nobody has a database for itself.
    pub in_use: bool,
    /// Why nothing could be written, as far as can be told without writing.
    pub unwritable: Option<String>,
    pub damage: Damage,
    /// The database's time; the embedded store has none of its own.
    pub now: Option<Time>,
    /// When the last record of the audit was written.
    pub latest: Option<Time>,
    pub paused: Option<Pause>,
}

/// What is wrong with pages and indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    None,
    /// What was found first.
    Found(String),
    /// There was not enough time to look at everything; nothing was found by then.
    NotKnown,
    /// A database sees to that itself.
    NotOurs,
}

/// When the audit's last record was written, and why nothing is sent, if nothing is.
pub(crate) fn last_words(trail: Trail) -> Result<(Option<Time>, Option<Pause>), MoveError> {
    let Trail { mut reader, end, .. } = trail;
    let last = match end.position {
        0 => None,
        position => reader.audit(position - 1, 1)?.pop().map(|(_, record)| record.at),
    };
    Ok((last, reader.paused()?))
}
