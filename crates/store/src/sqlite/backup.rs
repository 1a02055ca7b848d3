//! A copy of the file as it is at one moment, made beside whoever writes.

use std::fs;
use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, params};

use super::moving::{COPYING, PAUSED, expect_store, looking, meta};
use super::{file, sql};
use crate::moving::MoveError;
use crate::{Pause, StoreError};

/// Pages copied between two words on how far it is.
const PAGES_AT_ONCE: i32 = 2_000;

/// Copies the store's file into a folder that is there and empty, and makes the copy wait for a person.
///
/// It holds one view of the file from the first page to the last, so that the copy is whole however much is written
/// meanwhile. Whoever writes is not held up; only the log cannot start over until it is done.
pub(crate) fn backup(
    folder: &Path,
    to: &Path,
    pause: &Pause,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<(), MoveError> {
    expect_store(folder)?;
    let source = looking(folder)?;
    if meta(&source, COPYING)?.is_some() {
        return Err(MoveError::OtherCopy(folder.display().to_string()));
    }
    source.execute_batch("BEGIN")?;
    // The view is taken with the first read.
    source.query_row(sql!("meta_get"), ["secret"], |_| Ok(()))?;
    let path = to.join(file::NAME);
    let mut copy = Connection::open(&path)?;
    {
        let backup = Backup::new(&source, &mut copy)?;
        while backup.step(PAGES_AT_ONCE)? != StepResult::Done {
            let at = backup.progress();
            let pages = |count: i32| u64::from(count.unsigned_abs());
            tell(pages(at.pagecount - at.remaining), pages(at.pagecount));
        }
    }
    source.execute_batch("COMMIT")?;
    drop(copy);
    let copy = file::connect(&path)?;
    copy.execute(sql!("meta_put"), params![PAUSED, pause.bytes()?])?;
    alone(copy, to)
}

/// Leaves a store that nobody uses as a backup is.
pub(crate) fn fold(folder: &Path) -> Result<(), MoveError> {
    let _mine = file::lock(folder)?.ok_or_else(|| MoveError::InUse(folder.display().to_string()))?;
    alone(file::connect(&folder.join(file::NAME))?, folder)
}

/// One file alone, without a log beside it, is what people copy.
fn alone(db: Connection, folder: &Path) -> Result<(), MoveError> {
    db.pragma_update(None, "journal_mode", "DELETE")?;
    drop(db);
    flushed(&folder.join(file::NAME))?;
    flushed(folder)?;
    Ok(())
}

/// Sees to it that a power cut leaves the file or folder as it is.
pub(crate) fn flushed(path: &Path) -> Result<(), StoreError> {
    fs::File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|error| StoreError::Unavailable(format!("{}: {error}", path.display())))
}
