//! A short look at the store in a folder.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, Error, ErrorCode};

use super::checking::trail;
use super::file;
use super::moving::looking;
use crate::StoreError;
use crate::glance::{Damage, Glance, last_words};
use crate::moving::MoveError;

/// How long pages and indexes are looked at: some gigabytes, read as they come.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn glance(folder: &Path) -> Result<Glance, MoveError> {
    let (latest, paused) = last_words(trail(folder)?)?;
    let (in_use, unwritable) = match file::lock(folder) {
        Ok(Some(_)) => (false, None),
        Ok(None) => (true, None),
        Err(error) => (false, Some(error.to_string())),
    };
    let damage = damage(&looking(folder)?, PATIENCE)?;
    Ok(Glance { schema: file::SCHEMA, in_use, unwritable, damage, now: None, latest, paused })
}

/// Looks at the pages for so long at most.
fn damage(db: &Connection, patience: Duration) -> Result<Damage, StoreError> {
    let interrupt = db.get_interrupt_handle();
    let (looked, waiting) = channel::<()>();
    let said = thread::scope(|scope| {
        scope.spawn(move || {
            if waiting.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                interrupt.interrupt();
            }
        });
        let said = db.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
        drop(looked);
        said
    });
    match said {
        Ok(said) if said == "ok" => Ok(Damage::None),
        Ok(said) => Ok(Damage::Found(said)),
        Err(Error::SqliteFailure(error, _)) if error.code == ErrorCode::OperationInterrupted => {
            Ok(Damage::NotKnown)
        }
        Err(error) => match StoreError::from(error) {
            StoreError::Broken(why) => Ok(Damage::Found(why)),
            other => Err(other),
        },
    }
}

#[cfg(test)]
mod tests {
    use pombo_kernel::dice::Dice;

    use super::*;
    use crate::sqlite::Sqlite;

    #[test]
    fn pages_that_hold_something_else_are_found() {
        let folder = tempfile::tempdir().unwrap();
        drop(Sqlite::open(folder.path(), Dice::seeded(1), &[7; 32]).unwrap());
        let db = looking(folder.path()).unwrap();
        assert_eq!(damage(&db, PATIENCE), Ok(Damage::None));
        drop(db);
        let path = folder.path().join(file::NAME);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[8_192..12_288].fill(0xab);
        std::fs::write(&path, bytes).unwrap();
        let db = looking(folder.path()).unwrap();
        assert!(matches!(damage(&db, PATIENCE), Ok(Damage::Found(_))));
    }

    #[test]
    fn a_folder_tells_whether_somebody_has_it() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(glance(folder.path()), Err(MoveError::NoStore(_))));
        let store = Sqlite::open(folder.path(), Dice::seeded(1), &[7; 32]).unwrap();
        assert!(glance(folder.path()).unwrap().in_use);
        drop(store);
        let found = glance(folder.path()).unwrap();
        assert_eq!((found.in_use, found.unwritable, found.damage), (false, None, Damage::None));
    }
}
