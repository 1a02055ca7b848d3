//! Whom messages are for, in the order of recipients, so that those for one of them are found.
//!
//! That order has nothing to do with when messages come: a row for each as it comes would write a page for each. So they
//! are entered by the thousand, and those that are not yet are found among the newest messages themselves. A search looks
//! once into each slice, which keeps what is written within a small part of the tree.

use pombo_kernel::id::MessageKey;
use rusqlite::{Connection, params};

use super::sql;
use crate::StoreError;

/// Messages that share a slice.
const SLICE: u32 = 65_536;

/// How many messages are entered together. As many newest ones are looked through by a search.
const ENTERED_TOGETHER: u32 = 1_000;

/// Where the next message goes. Whoever rolls back reads it anew.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Directory {
    slice: i64,
    /// How many messages it was given; some may be gone since.
    in_slice: u32,
    /// Likewise, of those that came after the end.
    unlisted: u32,
    /// Messages up to this one are in it, and no others.
    end: MessageKey,
}

impl Directory {
    pub(super) fn of(db: &Connection) -> Result<Directory, StoreError> {
        let state = db.prepare_cached(sql!("directory_state"))?.query_row([], |row| {
            Ok(Directory {
                slice: row.get(0)?,
                in_slice: row.get(1)?,
                unlisted: row.get(2)?,
                end: MessageKey(row.get(3)?),
            })
        })?;
        Ok(state)
    }

    /// The slice that messages go into at present.
    pub(super) fn slice(&self) -> i64 {
        self.slice
    }

    /// The slice of one more message.
    pub(super) fn next_slice(&mut self) -> i64 {
        if self.in_slice == SLICE {
            (self.slice, self.in_slice) = (self.slice + 1, 0);
        }
        self.in_slice += 1;
        self.slice
    }

    /// Sees to a message that was just written.
    pub(super) fn note(&mut self, db: &Connection, key: MessageKey) -> Result<(), StoreError> {
        if key > self.end {
            self.unlisted += 1;
            return Ok(());
        }
        // It has brought an id of its own, of some time ago.
        add(db, key)
    }

    /// Whether enough messages have come together.
    pub(super) fn is_due(&self) -> bool {
        self.unlisted >= ENTERED_TOGETHER
    }

    /// Enters every message that is not in it.
    pub(super) fn enter(&mut self, db: &Connection) -> Result<(), StoreError> {
        db.prepare_cached(sql!("directory_enter"))?.execute([])?;
        let end = db.prepare_cached(sql!("directory_move"))?.query_row([], |row| row.get(0))?;
        (self.end, self.unlisted) = (MessageKey(end), 0);
        Ok(())
    }
}

/// Enters a message, unless its turn comes with those after the end.
pub(super) fn add(db: &Connection, key: MessageKey) -> Result<(), StoreError> {
    db.prepare_cached(sql!("directory_add"))?.execute(params![key.0])?;
    Ok(())
}

/// Takes a message out, before it is changed or removed.
pub(super) fn remove(db: &Connection, key: MessageKey) -> Result<(), StoreError> {
    db.prepare_cached(sql!("directory_remove"))?.execute(params![key.0])?;
    Ok(())
}

/// Messages for a recipient, newest first.
pub(super) fn find(
    db: &Connection,
    recipient: i64,
    (since, before): (MessageKey, MessageKey),
    limit: usize,
) -> Result<Vec<MessageKey>, StoreError> {
    let most = |found: &Vec<MessageKey>| i64::try_from(limit - found.len()).unwrap_or(i64::MAX);
    let mut found = Vec::new();
    let mut unlisted = db.prepare_cached(sql!("page_unlisted"))?;
    let range = params![before.0, since.0, most(&found), recipient];
    let keys = unlisted.query_map(range, |row| Ok(MessageKey(row.get(0)?)))?;
    found.extend(keys.collect::<Result<Vec<_>, _>>()?);
    let newest: Option<i64> = db.prepare_cached(sql!("slice_newest"))?.query_row([], |row| row.get(0))?;
    let mut listed = db.prepare_cached(sql!("page_by_recipient"))?;
    for slice in (0..=newest.unwrap_or(-1)).rev() {
        if found.len() >= limit {
            break;
        }
        let range = params![before.0, since.0, most(&found), recipient, slice];
        let keys = listed.query_map(range, |row| Ok(MessageKey(row.get(0)?)))?;
        found.extend(keys.collect::<Result<Vec<_>, _>>()?);
    }
    Ok(found)
}
