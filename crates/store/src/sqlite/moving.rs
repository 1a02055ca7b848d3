//! The embedded store as plain rows.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use pombo_kernel::id::MessageKey;
use pombo_kernel::time::Time;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params, params_from_iter};

use super::directory::Directory;
use super::file::{self, File, Lock};
use super::{log, rows, sql};
use crate::audit::{Tip, Verified};
use crate::board::rank;
use crate::core::Reading;
use crate::home::Salvaged;
use crate::moving::{
    Cell, Cursor, MoveError, PIECE_BYTES, PIECE_ROWS, Piece, Progress, Row, Source, Table, Target, UNFINISHED,
};
use crate::rows::{members, push_member};
use crate::vault::Vault;
use crate::vault::opening::Lock as VaultLock;
use crate::{Pause, StoreError};

/// Names in `meta`.
pub(super) const COPYING: &str = "copying";
pub(super) const PAUSED: &str = "paused";

/// How a table is read, from which key on, and written.
struct Way {
    read: &'static str,
    start: &'static [Cell],
    write: &'static str,
}

const LEAST: Cell = Cell::Number(i64::MIN);
const EMPTY: Cell = Cell::Text(String::new());
const NO_BYTES: Cell = Cell::Bytes(Vec::new());

macro_rules! way {
    ($name:literal, $($start:ident),+) => {
        Way {
            read: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/sql/sqlite/moving/read_",
                $name,
                ".sql"
            )),
            start: const { &[$($start),+] },
            write: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/sql/sqlite/moving/write_",
                $name,
                ".sql"
            )),
        }
    };
}

fn way(table: Table) -> Way {
    match table {
        Table::Queue => way!("queue", LEAST),
        Table::Message => way!("message", LEAST),
        Table::History => way!("history", LEAST, LEAST),
        Table::Ready => way!("ready", LEAST, LEAST, LEAST, LEAST),
        Table::Claim => way!("claim", LEAST),
        Table::Ordered => way!("ordered", EMPTY, EMPTY, LEAST),
        Table::Expiry => way!("expiry", LEAST, LEAST),
        Table::Idempotency => way!("idempotency", EMPTY, EMPTY),
        Table::Block => way!("block", EMPTY, EMPTY),
        Table::Tally => way!("tally", LEAST, EMPTY, EMPTY, LEAST, EMPTY),
        Table::Receipt => way!("receipt", LEAST, LEAST),
        Table::Delivery => way!("delivery", LEAST),
        Table::Cause => way!("cause", LEAST),
        Table::DeadLetter => way!("dead_letter", LEAST),
        Table::Revision => way!("revision", LEAST, LEAST),
        Table::Template => way!("template", EMPTY, EMPTY, LEAST),
        Table::Blob => way!("blob", LEAST),
        Table::BlobUse => way!("blob_use", NO_BYTES, LEAST),
        Table::Doc => way!("doc", LEAST, EMPTY, EMPTY),
        Table::Roster => way!("roster", LEAST),
        Table::Recipient => way!("recipient", LEAST, LEAST),
        Table::Aside => way!("aside", EMPTY),
        Table::Audit => way!("audit", LEAST),
    }
}

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Cell::Null => ValueRef::Null,
            Cell::Number(number) => ValueRef::Integer(*number),
            Cell::Text(text) => ValueRef::Text(text.as_bytes()),
            Cell::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn cell(row: &rusqlite::Row<'_>, column: usize) -> Result<Cell, StoreError> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Number(number),
        ValueRef::Text(_) => Cell::Text(row.get(column)?),
        ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
        ValueRef::Real(_) => return Err(StoreError::Broken("a store has no fractions".into())),
    })
}

/// A value of `meta`.
pub(super) fn meta(db: &Connection, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(db.prepare_cached(sql!("meta_get"))?.query_row([name], |row| row.get(0)).optional()?)
}

pub(super) fn paused(db: &Connection) -> Result<Option<Pause>, StoreError> {
    meta(db, PAUSED)?.map(|bytes| Pause::read(&bytes)).transpose()
}

/// Refuses a store that is only a part of a copy.
pub(super) fn refuse_unfinished(db: &Connection) -> Result<(), StoreError> {
    meta(db, COPYING)?.map_or(Ok(()), |_| Err(StoreError::Unavailable(UNFINISHED.to_owned())))
}

/// How many rows each table has.
pub(super) fn counts(db: &Connection) -> Result<Vec<(Table, u64)>, StoreError> {
    let counted = rows::all(db, sql!("moving/counts"), [], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
    })?;
    let of = |table: Table| counted.iter().find(|(name, _)| name == table.as_str());
    Ok(Table::ALL.map(|table| (table, of(table).map_or(0, |(_, count)| count.unsigned_abs()))).into())
}

/// The schema of the store in a folder. A folder without a store is not touched.
pub(crate) fn schema(folder: &Path) -> Result<Option<u32>, StoreError> {
    if !folder.join(file::NAME).is_file() {
        return Ok(None);
    }
    let db = looking(folder)?;
    let owner: i32 = db.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if owner != file::APPLICATION_ID {
        return Err(StoreError::Unavailable(format!(
            "{} is a database of some other program",
            folder.join(file::NAME).display()
        )));
    }
    Ok(Some(db.pragma_query_value(None, "user_version", |row| row.get(0))?))
}

/// Brings the schema up to date, making the store if need be.
pub(crate) fn migrated(folder: &Path, entropy: &[u8; 32]) -> Result<u32, StoreError> {
    File::open(folder, entropy)?;
    Ok(file::SCHEMA)
}

/// A connection that changes nothing, beside whoever writes. What a process left half done that was killed is undone first.
pub(super) fn looking(folder: &Path) -> Result<Connection, StoreError> {
    log::keep_beside(folder)?;
    undo_beside(folder)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(folder.join(file::NAME), flags)?;
    db.execute_batch("PRAGMA cache_size = -16384; PRAGMA busy_timeout = 5000; PRAGMA query_only = ON;")?;
    Ok(db)
}

/// Undoes what a process left half done that was killed while it made a store of a backup, or a backup of a store.
///
/// Such a change goes by a journal instead of the log, and who opens a file to look may not undo it. Whoever has the
/// folder at the moment sees to that himself.
fn undo_beside(folder: &Path) -> Result<(), StoreError> {
    if !folder.join(format!("{}-journal", file::NAME)).exists() {
        return Ok(());
    }
    let Some(_mine) = file::lock(folder)? else { return Ok(()) };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(folder.join(file::NAME), flags)?;
    // The first read undoes it.
    db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(())
}

/// Refuses a folder without a store, or with one of another schema.
pub(super) fn expect_store(folder: &Path) -> Result<(), MoveError> {
    let place = || folder.display().to_string();
    match schema(folder)? {
        None => Err(MoveError::NoStore(place())),
        Some(have) if have != file::SCHEMA => {
            Err(MoveError::Schema { place: place(), have, want: file::SCHEMA })
        }
        Some(_) => Ok(()),
    }
}

/// Refuses a folder without a store, or that another process has.
pub(crate) fn free(folder: &Path) -> Result<(), MoveError> {
    expect_store(folder)?;
    file::lock(folder)?.map(drop).ok_or_else(|| MoveError::InUse(folder.display().to_string()))
}

/// Gives up what stands behind damage in the log; nothing if there is none.
pub(crate) fn salvage(folder: &Path) -> Result<Option<Salvaged>, MoveError> {
    let place = || folder.display().to_string();
    if !folder.join(file::NAME).is_file() {
        return Err(MoveError::NoStore(place()));
    }
    let _mine = file::lock(folder)?.ok_or_else(|| MoveError::InUse(place()))?;
    Ok(log::cut(folder)?)
}

/// The store in a folder, for as long as nobody else uses it.
#[derive(Debug)]
pub(crate) struct FolderSource {
    db: Connection,
    claims: Vec<Row>,
    _lock: Lock,
}

impl FolderSource {
    pub(crate) fn open(folder: &Path) -> Result<FolderSource, MoveError> {
        expect_store(folder)?;
        let lock = file::lock(folder)?.ok_or_else(|| MoveError::InUse(folder.display().to_string()))?;
        log::keep(folder)?;
        let db = file::connect(&folder.join(file::NAME))?;
        let claims = open_claims(&db)?;
        if meta(&db, COPYING)?.is_some() {
            return Err(MoveError::OtherCopy(folder.display().to_string()));
        }
        Ok(FolderSource { db, claims, _lock: lock })
    }
}

/// The rows of a table after a key, as many as make a piece.
pub(super) fn piece(db: &Connection, table: Table, after: Option<&Cursor>) -> Result<Piece, StoreError> {
    let Way { read, start, .. } = way(table);
    let key = after.map_or(start, Vec::as_slice);
    let limit = Cell::Number(i64::try_from(PIECE_ROWS).unwrap_or(i64::MAX));
    let mut statement = db.prepare_cached(read)?;
    let columns = statement.column_count();
    let mut found = statement.query(params_from_iter(key.iter().chain([&limit])))?;
    let mut piece = Piece::default();
    let mut weight = 0;
    while weight < PIECE_BYTES {
        let Some(row) = found.next()? else { break };
        let cells = |range: std::ops::Range<usize>| -> Result<Row, StoreError> {
            range.map(|column| cell(row, column)).collect()
        };
        piece.cursor = Some(cells(0..start.len())?);
        let row = cells(start.len()..columns)?;
        weight += row.iter().map(Cell::weight).sum::<usize>();
        piece.rows.push(row);
    }
    Ok(piece)
}

/// The journal without what is settled, given back or claimed again since.
pub(super) fn open_claims(db: &Connection) -> Result<Vec<Row>, StoreError> {
    let journal = rows::journal(db)?;
    let mut holder = HashMap::new();
    for (claim, _, _, list) in &journal {
        for (key, _, steps) in members(list) {
            let settled = db.prepare_cached(sql!("history_has"))?.exists(params![key.0, steps])?;
            let Some(head) = rows::head(db, key)?.filter(|_| !settled) else { continue };
            let place = params![head.queue, rank(head.priority), head.due.millis(), key.0];
            if !db.prepare_cached(sql!("ready_has"))?.exists(place)? {
                holder.insert(key, *claim);
            }
        }
    }
    let mut open = Vec::new();
    for (claim, node, at, list) in journal {
        let mut held = Vec::new();
        for (key, due, steps) in members(&list).filter(|(key, ..)| holder.get(key) == Some(&claim)) {
            push_member(&mut held, key, due, steps);
        }
        if !held.is_empty() {
            let numbers = [claim.0, node.0, at.millis()].map(Cell::Number);
            open.push(numbers.into_iter().chain([Cell::Bytes(held)]).collect());
        }
    }
    Ok(open)
}

impl Source for FolderSource {
    fn lock(&mut self) -> Result<VaultLock, StoreError> {
        file::vault_lock(&self.db)
    }

    fn tip(&mut self) -> Result<Tip, StoreError> {
        rows::tip(&self.db)
    }

    fn paused(&mut self) -> Result<Option<Pause>, StoreError> {
        paused(&self.db)
    }

    fn counts(&mut self) -> Result<Vec<(Table, u64)>, StoreError> {
        let mut counts = counts(&self.db)?;
        for (table, count) in &mut counts {
            if *table == Table::Claim {
                *count = self.claims.len() as u64;
            }
        }
        Ok(counts)
    }

    fn read(&mut self, table: Table, after: Option<&Cursor>) -> Result<Piece, StoreError> {
        if table == Table::Claim {
            let rows = if after.is_none() { self.claims.clone() } else { Vec::new() };
            let cursor = rows.last().and_then(|row| row.first()).map(|id| vec![id.clone()]);
            return Ok(Piece { rows, cursor });
        }
        piece(&self.db, table, after)
    }

    /// The folder is locked.
    fn unchanged(&mut self) -> Result<bool, StoreError> {
        Ok(true)
    }

    fn retire(&mut self, pause: &Pause) -> Result<(), StoreError> {
        self.db.execute(sql!("meta_put"), params![PAUSED, pause.bytes()?])?;
        Ok(())
    }
}

/// A folder into which a store is written.
#[derive(Debug)]
pub(crate) struct FolderTarget {
    folder: PathBuf,
    file: Option<File>,
    directory: Directory,
}

impl FolderTarget {
    pub(crate) fn open(folder: &Path) -> Result<FolderTarget, MoveError> {
        let mut target =
            FolderTarget { folder: folder.to_owned(), file: None, directory: Directory::default() };
        if schema(folder)?.is_some() {
            free(folder)?;
            // A store that is there has a secret already.
            target.open_file(&[0; 32])?;
        }
        Ok(target)
    }

    fn open_file(&mut self, secret: &[u8]) -> Result<(), StoreError> {
        let file = File::open(&self.folder, secret)?;
        self.directory = Directory::of(&file.db)?;
        self.file = Some(file);
        Ok(())
    }

    fn file(&mut self) -> Result<&mut File, StoreError> {
        self.file.as_mut().ok_or_else(|| StoreError::Broken("a copy was not begun".into()))
    }
}

impl Target for FolderTarget {
    fn progress(&mut self) -> Result<Option<Progress>, StoreError> {
        let Some(file) = &self.file else { return Ok(None) };
        let Some(bytes) = meta(&file.db, COPYING)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| StoreError::Broken(error.to_string()))
    }

    fn counts(&mut self) -> Result<Vec<(Table, u64)>, StoreError> {
        self.file.as_ref().map_or(Ok(Vec::new()), |file| counts(&file.db))
    }

    fn begin(&mut self, lock: &VaultLock, first: &Progress) -> Result<(), StoreError> {
        if self.file.is_none() {
            self.open_file(&lock.secret)?;
        }
        let file = self.file()?;
        file.begin()?;
        for (name, value) in lock.notes() {
            file.db.execute(sql!("meta_put"), params![name, value])?;
        }
        put_progress(&file.db, first)?;
        file.commit()
    }

    fn write(&mut self, table: Table, rows: Vec<Row>, progress: &Progress) -> Result<(), StoreError> {
        let Way { write, .. } = way(table);
        let mut directory = self.directory;
        let file = self.file()?;
        file.begin()?;
        {
            let mut statement = file.db.prepare_cached(write)?;
            for mut row in rows {
                match table {
                    Table::Message => row.push(Cell::Number(directory.next_slice())),
                    Table::Receipt => {
                        let sent = Time::from_millis(row[2].number()?);
                        row[2] = Cell::Number(MessageKey::at(sent).0);
                    }
                    _ => {}
                }
                statement.execute(params_from_iter(&row))?;
            }
        }
        if table == Table::Message {
            directory.enter(&file.db)?;
        }
        put_progress(&file.db, progress)?;
        file.commit()?;
        self.directory = directory;
        Ok(())
    }

    fn verify(&mut self) -> Result<(Tip, Verified), StoreError> {
        let file = self.file()?;
        let tip = rows::tip(&file.db)?;
        let mut reader = super::Reader::open(file.path(), Vault::blind())?;
        Ok((tip, reader.verify()?))
    }

    fn finish(&mut self, pause: Option<&Pause>) -> Result<(), StoreError> {
        let file = self.file()?;
        file.begin()?;
        if let Some(pause) = pause {
            file.db.execute(sql!("meta_put"), params![PAUSED, pause.bytes()?])?;
        }
        file.db.execute(sql!("meta_delete"), [COPYING])?;
        file.commit()
    }
}

fn put_progress(db: &Connection, progress: &Progress) -> Result<(), StoreError> {
    let bytes = serde_json::to_vec(progress).map_err(|error| StoreError::Broken(error.to_string()))?;
    db.prepare_cached(sql!("meta_put"))?.execute(params![COPYING, bytes])?;
    Ok(())
}

impl From<rusqlite::Error> for MoveError {
    fn from(error: rusqlite::Error) -> MoveError {
        MoveError::Store(error.into())
    }
}
