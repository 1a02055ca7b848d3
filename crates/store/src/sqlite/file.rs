//! The file itself: opening, locking, upgrading, transactions.

use std::fs::{File as LockFile, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi, params};
use tracing::debug;

use super::moving::{self, meta};
use super::{dead, log, sql, stats};
use crate::StoreError;
use crate::core::Over;
use crate::vault::opening::{KEYS, Lock as VaultLock, REKEY, SECRET};
use crate::vault::{Keys, Vault};

/// Each entry brings the schema from its index to the next number.
const MIGRATIONS: [&str; 9] = [
    sql!("migrations/0001"),
    sql!("migrations/0002"),
    sql!("migrations/0003"),
    sql!("migrations/0004"),
    sql!("migrations/0005"),
    sql!("migrations/0006"),
    sql!("migrations/0007"),
    sql!("migrations/0008"),
    sql!("migrations/0009"),
];

/// The schema that this version works with.
pub(super) const SCHEMA: u32 = 9;

/// The first schema that counts what waits.
const WITH_DEPTHS: usize = 6;
const _: () = assert!(SCHEMA as usize == MIGRATIONS.len());

/// The file's name in its folder.
pub(super) const NAME: &str = "pombo.db";

/// Marks the file as Pombo's: "Pmbo".
pub(super) const APPLICATION_ID: i32 = 0x506d_626f;

/// After how many pages the log is carried over into the file, and what it usually has by the end of the commit that was
/// under way then.
const CARRIED_AFTER: u32 = 4_000;
const LOG_PAGES: u64 = 4_500;

/// After how many of its steps a statement asks whether it has taken too long: well below a millisecond, unless the disk
/// keeps one of them waiting.
const STEPS: i32 = 1_000;

/// The first SQLite without a rare corruption at a WAL checkpoint.
const SQLITE_MIN: i32 = 3_051_003;

#[derive(Debug)]
pub(super) struct File {
    pub(super) db: Db,
    path: PathBuf,
    writing: bool,
    /// Held for as long as the process owns the folder, and let go after the connection.
    _lock: Lock,
}

/// A connection, and how what is personal is read and written through it.
#[derive(Debug)]
pub(super) struct Db {
    connection: Connection,
    pub(super) vault: Vault,
}

impl Db {
    pub(super) fn new(connection: Connection, vault: Vault) -> Db {
        Db { connection, vault }
    }

    /// Asks, as statements go on, whether they are to be ended. An end concerns only what runs at that moment.
    pub(super) fn end_when(&mut self, over: Option<Over>) -> Result<(), StoreError> {
        Ok(self.connection.progress_handler(STEPS, over)?)
    }
}

/// What the store says of its vault.
pub(super) fn vault_lock(db: &Connection) -> Result<VaultLock, StoreError> {
    let secret = meta(db, SECRET)?.unwrap_or_default();
    Ok(VaultLock { secret, keys: meta(db, KEYS)?, rekey: meta(db, REKEY)? })
}

impl std::ops::Deref for Db {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        &self.connection
    }
}

/// A folder that is ours. It is given up in so many words: a child that another thread is starting just then has the
/// file as well, for a moment, and would keep it locked.
#[derive(Debug)]
pub(super) struct Lock(LockFile);

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

impl File {
    /// Opens the file and brings it up to date. What is personal can be read after [`unlock`](File::unlock).
    pub(super) fn open(folder: &Path, fresh_secret: &[u8]) -> Result<File, StoreError> {
        if rusqlite::version_number() < SQLITE_MIN {
            return Err(StoreError::Unavailable(format!("SQLite {} is too old", rusqlite::version())));
        }
        make_folder(folder).map_err(|error| unavailable(folder, "cannot make the folder", &error))?;
        let lock = lock(folder)?.ok_or_else(|| {
            StoreError::Unavailable(format!(
                "another Pombo process is using {}; stop it first, or choose another folder with --data",
                folder.display()
            ))
        })?;
        log::keep(folder)?;
        let path = folder.join(NAME);
        let db = Db::new(connect(&path)?, Vault::blind());
        migrate(&db, fresh_secret)?;
        Ok(File { db, path, writing: false, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Sees to it that these keys are the store's, or that none are needed. `fresh` is the secret of a store that is
    /// empty so far, and is sealed from now on.
    pub(super) fn unlock(&mut self, keys: Option<&Keys>, fresh: &[u8; 32]) -> Result<(), StoreError> {
        let is_empty = || Ok(moving::counts(&self.db)?.iter().all(|(_, count)| *count == 0));
        let (vault, notes) = vault_lock(&self.db)?.serve(keys, is_empty, fresh)?;
        if !notes.is_empty() {
            self.begin()?;
            for (name, value) in notes {
                self.db.execute(sql!("meta_put"), params![name, value])?;
            }
            self.commit()?;
        }
        self.db.vault = vault;
        Ok(())
    }

    pub(super) fn writing(&self) -> bool {
        self.writing
    }

    pub(super) fn begin(&mut self) -> Result<(), StoreError> {
        if !self.writing {
            self.db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            self.writing = true;
        }
        Ok(())
    }

    pub(super) fn commit(&mut self) -> Result<(), StoreError> {
        if self.writing {
            self.db.prepare_cached("COMMIT")?.execute([])?;
            self.writing = false;
        }
        Ok(())
    }

    /// Gives the log the size that it will have, if there is room for that.
    pub(super) fn fill_log(&self) {
        let Some(folder) = self.path.parent() else { return };
        let page_bytes = self.db.pragma_query_value(None, "page_size", |row| row.get(0));
        let filled =
            page_bytes.map_err(StoreError::from).and_then(|bytes| log::fill(folder, LOG_PAGES, bytes));
        if let Err(error) = filled {
            debug!(%error, "the log will grow as it is written");
        }
    }

    /// Drops the connection, and with it whatever was not committed, and connects anew.
    pub(super) fn reopen(&mut self) -> Result<(), StoreError> {
        self.db.connection = connect(&self.path)?;
        self.writing = false;
        Ok(())
    }
}

fn unavailable(folder: &Path, what: &str, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Unavailable(format!("{what} {}: {error}", folder.display()))
}

/// Owns the folder for as long as it is kept; nothing if another process does.
pub(super) fn lock(folder: &Path) -> Result<Option<Lock>, StoreError> {
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join("pombo.lock"))
        .map_err(|error| unavailable(folder, "cannot write in", &error))?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(Lock(lock))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(unavailable(folder, "cannot lock", &error)),
    }
}

/// Makes the folder, if need be, for nobody else to look into: it will hold what people write to each other.
pub(crate) fn make_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

pub(super) fn connect(path: &Path) -> Result<Connection, StoreError> {
    let db = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    db.set_prepared_statement_cache_capacity(128);
    // Without this a statement is compiled anew whenever a bound value could change its plan, at every claim.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // A commit writes whole pages, most of them for a few rows: small ones make it shorter. A store keeps the size that it
    // was made with.
    db.execute_batch(
        "PRAGMA page_size = 4096;
         PRAGMA journal_mode = WAL;
         PRAGMA journal_size_limit = 67108864;
         PRAGMA cache_size = -32768;
         PRAGMA temp_store = MEMORY;
         PRAGMA busy_timeout = 2000;",
    )?;
    db.pragma_update(None, "wal_autocheckpoint", CARRIED_AFTER)?;
    db.pragma_update(None, "synchronous", synchronous())?;
    Ok(db)
}

/// When a commit is flushed: always, before anybody is told of it.
///
/// A debug build can be told otherwise, for the test that shows what a power cut would then take.
fn synchronous() -> String {
    let told = if cfg!(debug_assertions) { std::env::var("POMBO_TEST_SYNCHRONOUS").ok() } else { None };
    told.unwrap_or_else(|| "FULL".to_owned())
}

/// Brings the schema up to date in one transaction: a crash on the way leaves the old one.
fn migrate(db: &Db, fresh_secret: &[u8]) -> Result<(), StoreError> {
    db.execute_batch("BEGIN IMMEDIATE")?;
    let done = bring_up(db, fresh_secret);
    match done {
        Ok(()) => Ok(db.execute_batch("COMMIT")?),
        Err(error) => {
            let _ = db.execute_batch("ROLLBACK");
            Err(error)
        }
    }
}

fn bring_up(txn: &Db, fresh_secret: &[u8]) -> Result<(), StoreError> {
    let version: u32 = txn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let version = version as usize;
    if version > MIGRATIONS.len() {
        return Err(StoreError::Unavailable(format!(
            "the store has schema {version} and this version of Pombo knows up to {}; run the newer version",
            MIGRATIONS.len()
        )));
    }
    let owner: i32 = txn.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let empty: bool = txn.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))?;
    if owner != APPLICATION_ID && !empty {
        return Err(StoreError::Unavailable("pombo.db is a database of some other program".into()));
    }
    for migration in &MIGRATIONS[version..] {
        txn.execute_batch(migration)?;
    }
    dead::sort_unsorted(txn)?;
    if version < WITH_DEPTHS {
        stats::count_waiting(txn)?;
    }
    txn.pragma_update(None, "user_version", u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX))?;
    txn.pragma_update(None, "application_id", APPLICATION_ID)?;
    txn.execute(sql!("meta_first"), params![SECRET, fresh_secret])?;
    Ok(())
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        let text = error.to_string();
        let Some(cause) = error.sqlite_error() else { return StoreError::Broken(text) };
        let fsync_failed =
            [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_DIR_FSYNC].contains(&cause.extended_code);
        match cause.code {
            _ if fsync_failed => StoreError::Broken(text),
            ErrorCode::OperationInterrupted => StoreError::TooLong,
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreError::Broken(text),
            ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::ApiMisuse => {
                StoreError::Broken(text)
            }
            _ => StoreError::Unavailable(text),
        }
    }
}
