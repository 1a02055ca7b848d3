//! Another key for a store, keys for one that is plain, or none for one that is sealed.
//!
//! It goes table by table, a piece at a time, and each piece is committed together with a note of how far it came. What
//! is sealed with the right key already is left alone, so that going over it again does no harm. Another key can be
//! given beside nodes at work that have both; while a store is turned from plain to sealed, or back, nobody serves from
//! it, since what is looked up by name has other names.

use std::collections::HashMap;

use pombo_kernel::attachment::Digest;
use pombo_kernel::id::MessageKey;
use pombo_kernel::name::{CampaignName, Tenant};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::opening::{InUse, KEYS, Lock, Notes, REKEY, SECRET, Seal, sealed_secret};
use super::{KeyId, Keys, SEALED_TEXT, STANDARD_NO_PAD, Spot, Vault, is_personal, key_of, unpaired};
use crate::StoreError;
use crate::checking::{Fault, RESTORE};
use crate::moving::{Cell, Cursor, Piece, Row, Table};
use crate::shelf::Shelf;
use base64::Engine as _;

/// What a store becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aim {
    /// All of it sealed with the current key.
    Sealed,
    Plain,
}

/// What a rekeying says of itself while it is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turning {
    Rows {
        table: Table,
        rows: u64,
        of: u64,
    },
    /// What stood there before is taken out of the file.
    Cleaning,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rekeyed {
    pub became: Aim,
    /// The key with which all of it is sealed now.
    pub key: Option<String>,
    /// It went on with what an earlier run had begun.
    pub resumed: bool,
    pub rows: u64,
    /// How many of them were written anew.
    pub changed: u64,
}

/// Tables with something in them that is sealed.
const TABLES: [Table; 8] = [
    Table::Message,
    Table::Revision,
    Table::History,
    Table::Delivery,
    Table::Cause,
    Table::Recipient,
    Table::Doc,
    Table::Blob,
];

/// How often all rows are gone over while other nodes write.
const PASSES: u32 = 3;

/// A store whose values can be looked at.
pub(crate) trait Values {
    fn lock(&mut self) -> Result<Lock, StoreError>;
    fn counts(&mut self) -> Result<Vec<(Table, u64)>, StoreError>;
    fn read(&mut self, table: Table, after: Option<&Cursor>) -> Result<Piece, StoreError>;
}

/// A store whose values can be exchanged.
pub(crate) trait Exchange: Values {
    /// Puts new values where the old ones still are, and writes and removes notes, all together.
    fn exchange(
        &mut self,
        table: Table,
        changes: Vec<Change>,
        notes: Notes,
        gone: &[&'static str],
    ) -> Result<(), StoreError>;
    /// Whether nobody else can write meanwhile.
    fn is_alone(&self) -> bool;
    /// Refused while somebody serves from it.
    fn refuse_users(&mut self) -> Result<(), StoreError>;
    /// Sees to it that what was there before is nowhere, as far as that is in our hands.
    fn clean(&mut self) -> Result<(), StoreError>;
}

/// Values of a row, by its key: as they are to be, and as they were read.
pub(crate) struct Change {
    pub(crate) key: Row,
    pub(crate) new: Row,
    pub(crate) old: Row,
}

/// How far it is; kept in the store.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Note {
    /// Nobody can serve from the store until it is done.
    converts: bool,
    aim: Aim,
    key: String,
    table: Table,
    cursor: Option<Cursor>,
    rows: u64,
    changed: u64,
    /// All is exchanged, and remains to be told.
    #[serde(default)]
    done: bool,
}

impl Note {
    fn bytes(&self) -> Result<Vec<u8>, StoreError> {
        serde_json::to_vec(self).map_err(|error| StoreError::Broken(error.to_string()))
    }

    fn outcome(&self, resumed: bool) -> Rekeyed {
        let key = (self.aim == Aim::Sealed).then(|| self.key.clone());
        Rekeyed { became: self.aim, key, resumed, rows: self.rows, changed: self.changed }
    }
}

/// Goes over everything, or over what is left of it; nothing if a plain store is to be plain. It is to be told, and then
/// [`forget`] takes the last note of it away.
pub(crate) fn rekey(
    store: &mut dyn Exchange,
    keys: &Keys,
    aim: Aim,
    tell: &mut dyn FnMut(Turning),
) -> Result<Option<Rekeyed>, StoreError> {
    let lock = store.lock()?;
    let current = keys.current().to_string();
    let earlier = lock.rekey.as_deref().and_then(|bytes| serde_json::from_slice::<Note>(bytes).ok());
    let earlier = earlier.filter(|note| note.aim == aim && note.key == current);
    if let Some(note) = earlier.as_ref().filter(|note| note.done) {
        store.clean()?;
        return Ok(Some(note.outcome(true)));
    }
    if aim == Aim::Plain && !lock.is_sealed() {
        return Ok(None);
    }
    let secret: [u8; 32] = if lock.is_sealed() {
        lock.refuse_missing(keys)?;
        let secret = keys.open(&Spot::Secret, &lock.secret)?;
        secret.try_into().map_err(|_| Spot::Secret.refused("has a wrong length"))?
    } else {
        *lock.plain()?.secret()
    };
    let resumed = earlier.is_some();
    let mut note = match earlier {
        Some(note) => note,
        None => {
            let converts = lock.is_turning() || lock.is_sealed() != (aim == Aim::Sealed);
            let table = TABLES[0];
            let (rows, changed) = (0, 0);
            let note =
                Note { converts, aim, key: current.clone(), table, cursor: None, rows, changed, done: false };
            if converts {
                store.refuse_users()?;
            }
            store.exchange(table, Vec::new(), begun(&lock, keys, &secret, &note)?, &[])?;
            note
        }
    };
    if note.converts {
        // Whoever comes now is refused; one may have come just before.
        store.refuse_users()?;
    }
    let mut turner = Turner::new(keys, secret, aim);
    let of = |store: &mut dyn Exchange| {
        let counts = store.counts()?;
        Ok::<u64, StoreError>(
            counts.iter().filter(|(table, _)| TABLES.contains(table)).map(|(_, count)| count).sum(),
        )
    };
    for pass in 1.. {
        let (of, before) = (of(store)?, note.changed);
        walk(store, &mut turner, &mut note, of, tell)?;
        if store.is_alone() || note.changed == before {
            break;
        }
        if pass == PASSES {
            return Err(StoreError::Locked {
                why: "other processes still write with another key".to_owned(),
                hint: "give every node the new key first, then run the same `pombo store rekey` again"
                    .to_owned(),
            });
        }
        (note.table, note.cursor, note.rows) = (TABLES[0], None, 0);
    }
    // From now on anybody may serve from it.
    (note.done, note.converts) = (true, false);
    let (told, gone): (_, &[&'static str]) = match aim {
        Aim::Sealed => ((KEYS, InUse { keys: vec![current] }.note()), &[]),
        Aim::Plain => ((SECRET, secret.to_vec()), &[KEYS]),
    };
    store.exchange(TABLES[0], Vec::new(), vec![told, (REKEY, note.bytes()?)], gone)?;
    tell(Turning::Cleaning);
    store.clean()?;
    Ok(Some(note.outcome(resumed)))
}

/// Nothing of it remains to be done or told.
pub(crate) fn forget(store: &mut dyn Exchange) -> Result<(), StoreError> {
    store.exchange(TABLES[0], Vec::new(), Vec::new(), &[REKEY])
}

/// What is noted before the first value changes.
fn begun(lock: &Lock, keys: &Keys, secret: &[u8; 32], note: &Note) -> Result<Notes, StoreError> {
    let mut in_use = lock.in_use();
    in_use.extend(Some(note.key.clone()).filter(|key| !in_use.contains(key)));
    Ok(vec![
        (SECRET, sealed_secret(keys, secret)),
        (KEYS, InUse { keys: in_use }.note()),
        (REKEY, note.bytes()?),
    ])
}

fn walk(
    store: &mut dyn Exchange,
    turner: &mut Turner<'_>,
    note: &mut Note,
    of: u64,
    tell: &mut dyn FnMut(Turning),
) -> Result<(), StoreError> {
    let first = TABLES.iter().position(|table| *table == note.table).unwrap_or(0);
    for table in TABLES.into_iter().skip(first) {
        if table == Table::Recipient {
            turner.lists = lists(store)?;
        }
        if table != note.table {
            (note.table, note.cursor) = (table, None);
        }
        loop {
            let piece = store.read(table, note.cursor.as_ref())?;
            let Some(next) = piece.cursor else { break };
            note.cursor = Some(next);
            note.rows += piece.rows.len() as u64;
            let mut changes = Vec::new();
            for row in &piece.rows {
                changes.extend(turner.turned(table, row)?);
            }
            note.changed += changes.len() as u64;
            store.exchange(table, changes, vec![(REKEY, note.bytes()?)], &[])?;
            tell(Turning::Rows { table, rows: note.rows, of: of.max(note.rows) });
        }
    }
    Ok(())
}

/// The campaigns whose lists there are.
type Lists = HashMap<i64, (Tenant, CampaignName)>;

fn lists(store: &mut dyn Values) -> Result<Lists, StoreError> {
    let (mut lists, mut after) = (Lists::new(), None);
    loop {
        let piece = store.read(Table::Roster, after.as_ref())?;
        let Some(next) = piece.cursor else { return Ok(lists) };
        for row in &piece.rows {
            lists.insert(row[0].number()?, (named(row[1].text()?)?, named(row[2].text()?)?));
        }
        after = Some(next);
    }
}

fn named<T: std::str::FromStr>(text: &str) -> Result<T, StoreError> {
    text.parse().map_err(|_| StoreError::Broken("a row has a bad name".to_owned()))
}

/// The values of a row that are sealed in a sealed store, and for which place.
fn values<'r>(table: Table, row: &'r Row, lists: &'r Lists) -> Result<Vec<(Spot<'r>, &'r Cell)>, StoreError> {
    let key = || row[0].number().map(MessageKey);
    let nth = || {
        let number = row[1].number()?;
        u32::try_from(number).map_err(|_| StoreError::Broken("a row has a bad number".to_owned()))
    };
    Ok(match table {
        Table::Message => vec![(Spot::Body(key()?), &row[13])],
        Table::Revision => vec![(Spot::Revision(key()?, nth()?), &row[6])],
        Table::History => {
            vec![(Spot::Failure(key()?, nth()?), &row[12]), (Spot::Explanation(key()?, nth()?), &row[14])]
        }
        Table::Delivery => vec![(Spot::Detail(key()?), &row[3])],
        Table::Cause => vec![(Spot::Cause(row[0].number()?), &row[4])],
        Table::Recipient => {
            let list = lists.get(&row[0].number()?);
            let (tenant, campaign) =
                list.ok_or_else(|| StoreError::Broken("a recipient is on no list".to_owned()))?;
            let number = row[1].number()?.unsigned_abs();
            vec![
                (Spot::Address(tenant, campaign, number), &row[3]),
                (Spot::Payload(tenant, campaign, number), &row[5]),
            ]
        }
        Table::Doc => {
            let shelf = shelf_number(row)?;
            let spot = Spot::Doc(shelf, row[1].text()?, row[2].text()?);
            if is_personal(shelf) { vec![(spot, &row[8])] } else { Vec::new() }
        }
        Table::Blob => vec![(Spot::Blob(row[0].bytes()?), &row[1])],
        _ => Vec::new(),
    })
}

fn shelf_number(row: &Row) -> Result<u8, StoreError> {
    u8::try_from(row[0].number()?).map_err(|_| StoreError::Broken("a document is on no shelf".to_owned()))
}

/// The key of a value; none if it is plain.
fn sealed_with(table: Table, row: &Row, cell: &Cell) -> Option<KeyId> {
    match cell {
        // An attachment may begin with any byte; a plain one is named after what it is.
        Cell::Bytes(bytes) if table == Table::Blob => {
            let plain = row[0].bytes().is_ok_and(|name| name == Sha256::digest(bytes).as_slice());
            key_of(bytes).filter(|_| !plain)
        }
        Cell::Bytes(bytes) => key_of(bytes),
        Cell::Text(text) => key_of(&STANDARD_NO_PAD.decode(text.strip_prefix(SEALED_TEXT)?).ok()?),
        Cell::Null | Cell::Number(_) => None,
    }
}

struct Turner<'k> {
    keys: &'k Keys,
    aim: Aim,
    plain: Vault,
    sealed: Vault,
    lists: Lists,
}

impl Turner<'_> {
    fn new(keys: &Keys, secret: [u8; 32], aim: Aim) -> Turner<'_> {
        let sealed = Vault::sealed(keys.clone(), secret);
        Turner { keys, aim, plain: Vault::plain(secret), sealed, lists: Lists::new() }
    }

    /// As the value is now.
    fn from(&self, key: Option<KeyId>) -> &Vault {
        if key.is_some() { &self.sealed } else { &self.plain }
    }

    /// As it is to be.
    fn to(&self) -> &Vault {
        match self.aim {
            Aim::Sealed => &self.sealed,
            Aim::Plain => &self.plain,
        }
    }

    fn is_done(&self, key: Option<KeyId>) -> bool {
        match self.aim {
            Aim::Sealed => key == Some(self.keys.current()),
            Aim::Plain => key.is_none(),
        }
    }

    /// What is to be changed of a row, if anything is.
    fn turned(&self, table: Table, row: &Row) -> Result<Option<Change>, StoreError> {
        let values = values(table, row, &self.lists)?;
        let keys: Vec<Option<KeyId>> = values.iter().map(|(_, cell)| sealed_with(table, row, cell)).collect();
        let open = |(_, cell): &(Spot<'_>, &Cell), key| **cell != Cell::Null && !self.is_done(key);
        if !values.iter().zip(&keys).any(|(value, key)| open(value, *key)) {
            return Ok(None);
        }
        let old: Row = values.iter().map(|(_, cell)| (*cell).clone()).collect();
        let change = match table {
            Table::Blob => self.blob(row, keys[0], old)?,
            Table::Doc => self.doc(row, keys[0], old)?,
            _ => {
                let turned = values.iter().zip(&keys).map(|((spot, cell), key)| self.cell(spot, cell, *key));
                let new = turned.collect::<Result<Row, _>>()?;
                let keyed =
                    if matches!(table, Table::Message | Table::Delivery | Table::Cause) { 1 } else { 2 };
                let change = Change { key: row[..keyed].to_vec(), new, old };
                if table == Table::Recipient {
                    self.recipient(row, keys[0], change, &values[0].0)?
                } else {
                    change
                }
            }
        };
        Ok(Some(change))
    }

    fn cell(&self, spot: &Spot<'_>, cell: &Cell, key: Option<KeyId>) -> Result<Cell, StoreError> {
        Ok(match cell {
            cell if self.is_done(key) => cell.clone(),
            Cell::Bytes(bytes) => {
                Cell::Bytes(self.to().seal(spot, self.from(key).open(spot, bytes)?).into_owned())
            }
            Cell::Text(text) => {
                let plain = self.from(key).open_text(spot, text.clone())?;
                Cell::Text(self.to().seal_text(spot, plain).into_owned())
            }
            other => other.clone(),
        })
    }

    /// What tells a recipient from others stands in a column of its own, or is sealed with the address.
    fn recipient(
        &self,
        row: &Row,
        key: Option<KeyId>,
        mut change: Change,
        spot: &Spot<'_>,
    ) -> Result<Change, StoreError> {
        let Spot::Address(tenant, ..) = spot else { return Ok(change) };
        let mut person = row[4].clone();
        if !self.is_done(key) {
            let opened = self.from(key).open_text(spot, row[3].text()?.to_owned())?;
            let (address, told) = match key {
                Some(_) => unpaired(&opened).ok_or_else(|| spot.refused("is cut off"))?,
                None => (opened.as_str(), row[4].text().unwrap_or_default()),
            };
            change.new[0] = Cell::Text(self.to().seal_address(spot, address, told).into_owned());
            if person != Cell::Null {
                person = Cell::Text(self.to().person(tenant, told).into_owned());
            }
        }
        change.new.insert(1, person);
        Ok(change)
    }

    fn doc(&self, row: &Row, key: Option<KeyId>, old: Row) -> Result<Change, StoreError> {
        let number = shelf_number(row)?;
        let shelf = Shelf::ALL.into_iter().find(|shelf| *shelf as u8 == number);
        let shelf = shelf.ok_or_else(|| StoreError::Broken("a document is on no shelf".to_owned()))?;
        let tenant: Tenant = named(row[1].text()?)?;
        let (stored, body) = (row[2].text()?.to_owned(), row[8].text()?.to_owned());
        let (id, body) = self.from(key).open_doc(number, &tenant, stored, body)?;
        let stored = self.to().doc_id(shelf, &tenant, &id);
        let body = self.to().seal_doc(shelf, &tenant, (&id, &stored), &body).into_owned();
        let new = vec![Cell::Text(stored.into_owned()), Cell::Text(body)];
        Ok(Change { key: row[..3].to_vec(), new, old })
    }

    fn blob(&self, row: &Row, key: Option<KeyId>, old: Row) -> Result<Change, StoreError> {
        let name = row[0].bytes()?;
        let bytes = self.from(key).open(&Spot::Blob(name), row[1].bytes()?)?;
        let digest = Digest(Sha256::digest(&bytes).into());
        let name = self.to().blob_name(&digest);
        let bytes = self.to().seal(&Spot::Blob(&name), bytes).into_owned();
        let new = vec![Cell::Bytes(name.to_vec()), Cell::Bytes(bytes)];
        Ok(Change { key: row[..1].to_vec(), new, old })
    }
}

/// Whether a store is encrypted, as a check found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Opened {
    #[serde(flatten)]
    pub seal: Seal,
    /// How many sealed values the given keys open; none if no keys were given.
    pub opened: Option<u64>,
}

/// Opens every sealed value, if there are keys for that, and says what is wrong.
pub(crate) fn check(
    store: &mut dyn Values,
    keys: Option<&Keys>,
    tell: &mut dyn FnMut(&'static str),
) -> Result<(Opened, Vec<Fault>), StoreError> {
    let lock = store.lock()?;
    let seal = lock.seal();
    let (mut opened, mut faults) = (None, Vec::new());
    if seal.turning {
        faults.push(Fault { what: UNFINISHED.to_owned(), hint: AGAIN });
    } else if let Some(keys) = keys.filter(|_| seal.encrypted) {
        match lock.vault(Some(keys)) {
            Ok(vault) => {
                tell("sealed values");
                let (count, wrong) = open_all(store, &vault)?;
                opened = Some(count);
                faults.extend(wrong);
            }
            Err(StoreError::Locked { why, .. }) => faults.push(Fault { what: why, hint: RIGHT_KEY }),
            Err(error) => return Err(error),
        }
    }
    Ok((Opened { seal, opened }, faults))
}

const UNFINISHED: &str = "it is on its way to being encrypted, or decrypted, and cannot be served from";
const AGAIN: &str = "run the same `pombo store rekey` again; it goes on where it stopped";
const RIGHT_KEY: &str = "give the key that the store was encrypted with";

fn open_all(store: &mut dyn Values, vault: &Vault) -> Result<(u64, Option<Fault>), StoreError> {
    let lists = lists(store)?;
    let (mut opened, mut wrong): (u64, Vec<String>) = (0, Vec::new());
    for table in TABLES {
        let mut after = None;
        loop {
            let piece = store.read(table, after.as_ref())?;
            let Some(next) = piece.cursor else { break };
            after = Some(next);
            for row in &piece.rows {
                for (spot, cell) in values(table, row, &lists)? {
                    let result = match cell {
                        Cell::Bytes(bytes) => vault.open(&spot, bytes).map(drop),
                        Cell::Text(text) => vault.open_text(&spot, text.clone()).map(drop),
                        Cell::Null | Cell::Number(_) => continue,
                    };
                    match result {
                        Ok(()) => opened += 1,
                        Err(error) => wrong.push(error.to_string()),
                    }
                }
            }
        }
    }
    let faults = wrong.first().map(|first| Fault {
        what: format!("values that the given keys do not open: {} ({first}, …)", wrong.len()),
        hint: RESTORE,
    });
    Ok((opened, faults))
}
