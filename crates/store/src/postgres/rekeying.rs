//! The values of a store in a database, exchanged for others that say the same.

use super::link::{Driver, Kind, Link, Step, Value};
use super::moving::{counts, expect_store, piece, refuse_in_use};
use super::{Target as Address, migrate, pausing, rows, sql};
use crate::StoreError;
use crate::moving::{Cell, Cursor, MoveError, Piece, Table};
use crate::rows::digest;
use crate::vault::opening::{Lock, Notes};
use crate::vault::rekeying::{Change, Exchange, Values};

/// The store in a database, perhaps beside nodes at work.
#[derive(Debug)]
pub(crate) struct DatabaseExchange {
    link: Link,
    address: Address,
}

impl DatabaseExchange {
    pub(crate) fn open(address: &Address) -> Result<DatabaseExchange, MoveError> {
        let link = Link::open(&Driver::start()?, address, Kind::Upkeep)?;
        expect_store(&link, address)?;
        pausing::refuse_unfinished(&link)?;
        Ok(DatabaseExchange { link, address: address.clone() })
    }
}

/// A value as its column has it.
fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Text(text) => rows::escaped(text).into(),
        other => other.into(),
    }
}

fn text_or_none(cell: &Cell) -> Value {
    cell.text().ok().map(rows::escaped).into()
}

impl Values for DatabaseExchange {
    fn lock(&mut self) -> Result<Lock, StoreError> {
        migrate::lock(&self.link)
    }

    fn counts(&mut self) -> Result<Vec<(Table, u64)>, StoreError> {
        counts(&self.link)
    }

    fn read(&mut self, table: Table, after: Option<&Cursor>) -> Result<Piece, StoreError> {
        piece(&self.link, table, after)
    }
}

impl Exchange for DatabaseExchange {
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
        let mut steps: Vec<Step> = self.link.begin();
        for Change { key, new, old } in changes {
            if table == Table::Blob {
                steps.push((sql!("rekeying/blob_use"), vec![value(&key[0]), value(&new[0])]));
            }
            // What may be missing is a text.
            let said = |cell: &Cell| if *cell == Cell::Null { text_or_none(cell) } else { value(cell) };
            let mut values: Vec<Value> =
                key.iter().map(value).chain(new.iter().chain(&old).map(said)).collect();
            if table == Table::Recipient {
                values.push(new[1].text().ok().map(|person| digest(&[person])).into());
            }
            steps.push((sql, values));
        }
        steps.extend(
            notes
                .into_iter()
                .map(|(name, bytes)| (sql!("meta_put"), vec![Value::from(name), Value::from(bytes)])),
        );
        steps.extend(gone.iter().map(|name| (sql!("meta_delete"), vec![Value::from(*name)])));
        steps.push(("COMMIT", Vec::new()));
        self.link.pipeline(steps).map(drop)
    }

    fn is_alone(&self) -> bool {
        false
    }

    fn refuse_users(&mut self) -> Result<(), StoreError> {
        refuse_in_use(&self.link, &self.address).map_err(|_| {
            let why =
                "nodes are at work on it, and while it is encrypted or decrypted nobody may be".to_owned();
            StoreError::Locked {
                why,
                hint: "stop them all; one that was killed counts for ten minutes".to_owned(),
            }
        })
    }

    /// Rows that are dead are the server's to clear away, and its log is its own.
    fn clean(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}
