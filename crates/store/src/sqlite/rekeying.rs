//! The values of an embedded store, exchanged for others that say the same.

use std::borrow::Borrow;
use std::path::Path;

use rusqlite::{Connection, params, params_from_iter};

use super::erase::sweep;
use super::file::{self, File};
use super::moving::{self, counts, expect_store, looking, piece};
use super::sql;
use crate::StoreError;
use crate::moving::{Cell, Cursor, MoveError, Piece, Table};
use crate::vault::opening::{Lock, Notes};
use crate::vault::rekeying::{Change, Exchange, Values};

/// The store in a folder, while nobody else uses it.
#[derive(Debug)]
pub(crate) struct FolderExchange(File);

impl FolderExchange {
    pub(crate) fn open(folder: &Path) -> Result<FolderExchange, MoveError> {
        expect_store(folder)?;
        moving::free(folder)?;
        // A store that is there has a secret already.
        let file = File::open(folder, &[0; 32])?;
        moving::refuse_unfinished(&file.db)?;
        Ok(FolderExchange(file))
    }
}

/// The store, as it is beside whoever uses it.
pub(crate) struct Beside<D>(pub(super) D);

impl Beside<Connection> {
    pub(crate) fn open(folder: &Path) -> Result<Beside<Connection>, MoveError> {
        expect_store(folder)?;
        Ok(Beside(looking(folder)?))
    }
}

impl<D: Borrow<Connection>> Values for Beside<D> {
    fn lock(&mut self) -> Result<Lock, StoreError> {
        file::vault_lock(self.0.borrow())
    }

    fn counts(&mut self) -> Result<Vec<(Table, u64)>, StoreError> {
        counts(self.0.borrow())
    }

    fn read(&mut self, table: Table, after: Option<&Cursor>) -> Result<Piece, StoreError> {
        piece(self.0.borrow(), table, after)
    }
}

impl Values for FolderExchange {
    fn lock(&mut self) -> Result<Lock, StoreError> {
        Beside(&*self.0.db).lock()
    }

    fn counts(&mut self) -> Result<Vec<(Table, u64)>, StoreError> {
        Beside(&*self.0.db).counts()
    }

    fn read(&mut self, table: Table, after: Option<&Cursor>) -> Result<Piece, StoreError> {
        Beside(&*self.0.db).read(table, after)
    }
}

impl Exchange for FolderExchange {
    fn exchange(
        &mut self,
        table: Table,
        changes: Vec<Change>,
        notes: Notes,
        gone: &[&'static str],
    ) -> Result<(), StoreError> {
        let sql = match table {
            Table::Message => sql!("rekeying/message"),
            Table::Revision => sql!("rekeying/revision"),
            Table::History => sql!("rekeying/history"),
            Table::Delivery => sql!("rekeying/delivery"),
            Table::Cause => sql!("rekeying/cause"),
            Table::Recipient => sql!("rekeying/recipient"),
            Table::Doc => sql!("rekeying/doc"),
            _ => sql!("rekeying/blob"),
        };
        self.0.begin()?;
        let db = &self.0.db;
        for Change { key, new, old } in changes {
            if table == Table::Blob {
                db.prepare_cached(sql!("rekeying/blob_use"))?.execute(params![key[0], new[0]])?;
            }
            let values = key.iter().chain(&new).chain(&old);
            db.prepare_cached(sql)?.execute(params_from_iter(values.collect::<Vec<&Cell>>()))?;
        }
        for (name, value) in notes {
            db.execute(sql!("meta_put"), params![name, value])?;
        }
        for name in gone {
            db.execute(sql!("meta_delete"), [name])?;
        }
        self.0.commit()
    }

    fn is_alone(&self) -> bool {
        true
    }

    /// The folder is locked.
    fn refuse_users(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Pages that are free still hold what was in them, and so does the log.
    fn clean(&mut self) -> Result<(), StoreError> {
        sweep(&self.0.db, self.0.path())
    }
}
