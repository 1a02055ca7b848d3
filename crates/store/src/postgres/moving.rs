//! The store in a database as plain rows.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use pombo_kernel::id::MessageKey;
use pombo_kernel::time::Time;
use tokio_postgres::types::Type;

use super::link::{Driver, Kind, Link, Row as Found, Step, Value};
use super::month::Month;
use super::pausing::{COPYING, PAUSED};
use super::reader::{Reader, stretch, unanswered};
use super::{Target as Address, migrate, rows, sql};
use crate::audit::{Block, Tip, Verified};
use crate::core::Reading;
use crate::moving::{
    Cell, Cursor, MoveError, PIECE_BYTES, PIECE_ROWS, Piece, Progress, Row, Source, Table, Target,
};
use crate::rows::digest;
use crate::vault::Vault;
use crate::vault::opening::Lock;
use crate::{Pause, Place, StoreError};

/// What a column of a row that is written holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Number,
    Text,
    Bytes,
}

/// How a table is read, from which key on, and written.
struct Way {
    read: &'static str,
    start: &'static [Cell],
    /// The reading statement takes a number of bytes after its limit.
    weighed: bool,
    write: &'static str,
    columns: &'static str,
}

const LEAST: Cell = Cell::Number(i64::MIN);
const EMPTY: Cell = Cell::Text(String::new());
const NO_BYTES: Cell = Cell::Bytes(Vec::new());

macro_rules! way {
    ($name:literal, $columns:literal, $weighed:literal, $($start:ident),+) => {
        Way {
            read: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/sql/postgres/moving/read_",
                $name,
                ".sql"
            )),
            start: const { &[$($start),+] },
            weighed: $weighed,
            write: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/sql/postgres/moving/write_",
                $name,
                ".sql"
            )),
            columns: $columns,
        }
    };
}

/// The columns are those of the writing statement: n is a number, t a text, b bytes.
fn way(table: Table) -> Way {
    match table {
        Table::Queue => way!("queue", "ntttttnb", false, LEAST),
        Table::Message => way!("message", "nnnnnnnttttnnbnt", true, LEAST),
        Table::History => way!("history", "nnnnnnnnnnnntttttnnnt", false, LEAST, LEAST),
        Table::Ready => way!("ready", "nnnnn", false, LEAST, LEAST, LEAST, LEAST),
        Table::Claim => way!("claim", "nnnb", false, LEAST),
        Table::Ordered => way!("ordered", "bnnn", false, NO_BYTES, LEAST),
        Table::Expiry => way!("expiry", "nn", false, LEAST, LEAST),
        Table::Idempotency => way!("idempotency", "ttnnbnb", false, NO_BYTES),
        Table::Block => way!("block", "tttb", false, NO_BYTES),
        Table::Tally => way!("tally", "nttntnn", false, LEAST, EMPTY, EMPTY, LEAST, EMPTY),
        Table::Receipt => way!("receipt", "nnn", false, LEAST, LEAST),
        Table::Delivery => way!("delivery", "nnnt", false, LEAST),
        Table::Cause => way!("cause", "nttttn", false, LEAST),
        Table::DeadLetter => way!("dead_letter", "nn", false, LEAST),
        Table::Revision => way!("revision", "nnnnttb", true, LEAST, LEAST),
        Table::Template => way!("template", "ttnntt", false, EMPTY, EMPTY, LEAST),
        Table::Blob => way!("blob", "bb", true, NO_BYTES),
        Table::BlobUse => way!("blob_use", "bn", false, NO_BYTES, LEAST),
        Table::Doc => way!("doc", "nttnntnnt", true, LEAST, EMPTY, EMPTY),
        Table::Roster => way!("roster", "ntt", false, LEAST),
        Table::Recipient => way!("recipient", "nnntttntnnb", true, LEAST, LEAST),
        Table::Aside => way!("aside", "tb", false, EMPTY),
        Table::Audit => way!("audit", "nnnnbb", true, LEAST),
    }
}

impl From<&Cell> for Value {
    fn from(cell: &Cell) -> Value {
        match cell {
            Cell::Null => None::<i64>.into(),
            Cell::Number(number) => (*number).into(),
            Cell::Text(text) => text.as_str().into(),
            Cell::Bytes(bytes) => bytes.as_slice().into(),
        }
    }
}

/// A value as it is in its column.
fn cell(row: &Found, column: usize) -> Result<Cell, StoreError> {
    let number = |number: Option<i64>| number.map_or(Cell::Null, Cell::Number);
    let of = row.columns().get(column).map(|column| column.type_().clone());
    Ok(match of {
        Some(Type::INT8) => number(rows::get(row, column)?),
        Some(Type::INT4) => number(rows::get::<Option<i32>>(row, column)?.map(i64::from)),
        Some(Type::INT2) => number(rows::get::<Option<i16>>(row, column)?.map(i64::from)),
        Some(Type::BOOL) => number(rows::get::<Option<bool>>(row, column)?.map(i64::from)),
        Some(Type::BYTEA) => rows::get::<Option<Vec<u8>>>(row, column)?.map_or(Cell::Null, Cell::Bytes),
        _ => rows::get::<Option<String>>(row, column)?.map_or(Cell::Null, Cell::Text),
    })
}

pub(super) fn counts(link: &Link) -> Result<Vec<(Table, u64)>, StoreError> {
    let found = link.query(sql!("moving/counts"), Vec::new())?;
    let mut counted = HashMap::new();
    for row in &found {
        counted.insert(rows::get::<String>(row, 0)?, rows::number::<i64, u64>(row, 1)?);
    }
    Ok(Table::ALL.map(|table| (table, counted.get(table.as_str()).copied().unwrap_or(0))).into())
}

pub(super) fn meta(link: &Link, name: &'static str) -> Result<Option<Vec<u8>>, StoreError> {
    link.query(sql!("meta_get"), vec![name.into()])?.first().map(|row| rows::get(row, 0)).transpose()
}

fn one_number(link: &Link, sql: &'static str) -> Result<u64, StoreError> {
    let found = link.query(sql, Vec::new())?;
    rows::number::<i64, u64>(found.first().ok_or_else(unanswered)?, 0)
}

/// Where the sealed chain ends.
fn sealed_tip(link: &Link) -> Result<Tip, StoreError> {
    let found = link.query(sql!("moving/tip"), Vec::new())?;
    let Some(row) = found.first() else { return Ok(Tip::default()) };
    let hash: Vec<u8> = rows::get(row, 2)?;
    Ok(Tip {
        sequence: rows::number::<i64, u64>(row, 0)?,
        position: rows::number::<i64, u64>(row, 1)?,
        hash: hash.try_into().map_err(|_| StoreError::Broken("a hash of another length".into()))?,
    })
}

/// The schema of the store in a database; none if there is no store. Changes nothing.
pub(crate) fn schema(address: &Address) -> Result<Option<u32>, StoreError> {
    let link = Link::open(&Driver::start()?, address, Kind::Owner)?;
    schema_of(&link)
}

fn schema_of(link: &Link) -> Result<Option<u32>, StoreError> {
    if !migrate::has_schema(link)? {
        return Ok(None);
    }
    Ok(migrate::version(link)?.and_then(|version| u32::try_from(version).ok()))
}

/// Brings the schema up to date, making it if need be.
pub(crate) fn migrated(address: &Address, entropy: &[u8; 32]) -> Result<u32, StoreError> {
    let link = Link::open(&Driver::start()?, address, Kind::Owner)?;
    migrate::migrate(&link, entropy)?;
    Ok(migrate::SCHEMA)
}

/// Refuses a database without a store, or with one of another schema.
pub(super) fn expect_store(link: &Link, address: &Address) -> Result<(), MoveError> {
    match schema_of(link)? {
        None => Err(MoveError::NoStore(address.shown())),
        Some(have) if have != migrate::SCHEMA => {
            Err(MoveError::Schema { place: address.shown(), have, want: migrate::SCHEMA })
        }
        Some(_) => Ok(()),
    }
}

/// Opens a transaction that sees one moment, for as long as it takes.
pub(super) fn at_one_moment(link: &Link) -> Result<(), StoreError> {
    let mut steps: Vec<Step> = link.begin();
    if let Some((begin, _)) = steps.first_mut() {
        *begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    }
    steps.push(("SET LOCAL idle_in_transaction_session_timeout = 0", Vec::new()));
    steps.push(("SET LOCAL statement_timeout = 0", Vec::new()));
    link.pipeline(steps).map(drop)
}

/// The store in a database, as it is at one moment.
#[derive(Debug)]
pub(crate) struct DatabaseSource {
    /// Has the transaction that sees that moment.
    link: Link,
    driver: Driver,
    address: Address,
    /// What is not sealed in the source is sealed on the way, in the order in which the source will do it.
    unsealed: Vec<Block>,
    /// The blocks that those rows of the audit become.
    sequences: HashMap<i64, u64>,
    tip: Tip,
}

impl DatabaseSource {
    /// The store as it is now, whoever is at work on it.
    pub(crate) fn at_once(address: &Address) -> Result<DatabaseSource, MoveError> {
        let driver = Driver::start()?;
        let link = Link::open(&driver, address, Kind::Upkeep)?;
        expect_store(&link, address)?;
        at_one_moment(&link)?;
        if meta(&link, COPYING)?.is_some() {
            return Err(MoveError::OtherCopy(address.shown()));
        }
        let mut tip = sealed_tip(&link)?;
        let (mut unsealed, mut sequences) = (Vec::new(), HashMap::new());
        for row in &link.query(sql!("moving/unsealed"), Vec::new())? {
            let count = rows::number::<i32, u32>(row, 2)?;
            let (block, next) = tip.seal_encoded(rows::get(row, 3)?, count, rows::time(row, 1)?);
            sequences.insert(rows::get(row, 0)?, block.sequence);
            unsealed.push(block);
            tip = next;
        }
        Ok(DatabaseSource { link, driver, address: address.clone(), unsealed, sequences, tip })
    }

    /// The store, if no process uses it.
    pub(crate) fn idle(address: &Address) -> Result<DatabaseSource, MoveError> {
        let source = DatabaseSource::at_once(address)?;
        refuse_in_use(&source.link, address)?;
        Ok(source)
    }

    /// Refuses a store with messages that applications have handed in and that are none yet: only PostgreSQL has a
    /// place for those.
    pub(crate) fn refuse_unless_taken_in(&self) -> Result<(), MoveError> {
        match one_number(&self.link, sql!("moving/not_taken_in"))? {
            0 => Ok(()),
            count => Err(MoveError::NotTakenIn { place: self.address.shown(), count }),
        }
    }

    /// What only stands in memory: blocks that the source has not sealed yet.
    fn sealed_here(&self, after: Option<i64>) -> Piece {
        let after = after.unwrap_or(-1);
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let later = self.unsealed.iter().filter(|block| number(block.sequence) > after);
        let rows: Vec<Row> = later
            .map(|block| {
                vec![
                    Cell::Number(number(block.sequence)),
                    Cell::Number(number(block.position)),
                    Cell::Number(block.at.millis()),
                    Cell::Number(i64::from(block.count)),
                    Cell::Bytes(block.hash.to_vec()),
                    Cell::Bytes(block.entries.clone()),
                ]
            })
            .collect();
        let cursor = rows.last().and_then(|row| row.first()).map(|sequence| vec![sequence.clone()]);
        Piece { rows, cursor }
    }
}

/// The rows of a table after a key, as many as make a piece.
pub(super) fn piece(link: &Link, table: Table, after: Option<&Cursor>) -> Result<Piece, StoreError> {
    let Way { read, start, weighed, .. } = way(table);
    let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let mut values: Vec<Value> = after.map_or(start, Vec::as_slice).iter().map(Value::from).collect();
    values.push(number(PIECE_ROWS).into());
    if weighed {
        values.push(number(PIECE_BYTES).into());
    }
    let mut piece = Piece::default();
    for row in &link.query(read, values)? {
        let cursor: Result<Cursor, StoreError> = (0..start.len()).map(|column| cell(row, column)).collect();
        piece.cursor = Some(cursor?);
        let cells = (start.len()..row.len()).map(|column| {
            Ok(match cell(row, column)? {
                Cell::Text(text) => Cell::Text(rows::unescaped(text)),
                other => other,
            })
        });
        piece.rows.push(cells.collect::<Result<Row, StoreError>>()?);
    }
    Ok(piece)
}

pub(super) fn refuse_in_use(link: &Link, address: &Address) -> Result<(), MoveError> {
    match one_number(link, sql!("moving/in_use"))? {
        0 => Ok(()),
        _ => Err(MoveError::InUse(address.shown())),
    }
}

impl Source for DatabaseSource {
    fn lock(&mut self) -> Result<Lock, StoreError> {
        migrate::lock(&self.link)
    }

    fn tip(&mut self) -> Result<Tip, StoreError> {
        Ok(self.tip)
    }

    fn paused(&mut self) -> Result<Option<Pause>, StoreError> {
        meta(&self.link, PAUSED)?.map(|bytes| Pause::read(&bytes)).transpose()
    }

    fn counts(&mut self) -> Result<Vec<(Table, u64)>, StoreError> {
        counts(&self.link)
    }

    fn read(&mut self, table: Table, after: Option<&Cursor>) -> Result<Piece, StoreError> {
        let mut piece = piece(&self.link, table, after)?;
        for row in &mut piece.rows {
            // Where the acceptance or the step is in the audit.
            let block = match table {
                Table::Message => row.get_mut(12),
                Table::History => row.get_mut(17),
                _ => None,
            };
            if let Some(Cell::Number(block)) = block
                && *block < 0
            {
                let sequence = self.sequences.get(&(-1 - *block)).copied().unwrap_or(0);
                *block = i64::try_from(sequence).unwrap_or(i64::MAX);
            }
        }
        if table == Table::Audit && piece.rows.is_empty() {
            let after = after.and_then(|cursor| cursor.first()).map(Cell::number).transpose()?;
            return Ok(self.sealed_here(after));
        }
        Ok(piece)
    }

    fn unchanged(&mut self) -> Result<bool, StoreError> {
        let link = Link::open(&self.driver, &self.address, Kind::Upkeep)?;
        let last = |link: &Link| one_number(link, sql!("moving/last_turn"));
        Ok(one_number(&link, sql!("moving/in_use"))? == 0 && last(&link)? == last(&self.link)?)
    }

    fn retire(&mut self, pause: &Pause) -> Result<(), StoreError> {
        let link = Link::open(&self.driver, &self.address, Kind::Upkeep)?;
        let mut steps: Vec<Step> = link.begin();
        steps.push((sql!("meta_put"), vec![PAUSED.into(), pause.bytes()?.into()]));
        steps.push((sql!("board_move"), Vec::new()));
        steps.push(("COMMIT", Vec::new()));
        link.pipeline(steps).map(drop)
    }
}

/// A database into which a store is written.
#[derive(Debug)]
pub(crate) struct DatabaseTarget {
    driver: Driver,
    address: Address,
    owner: Link,
    /// Writes rows of all tenants; there once the schema is.
    link: Option<Link>,
    /// The key of the store's hashes.
    secret: [u8; 32],
    /// The tenant of each queue.
    tenants: HashMap<i64, String>,
    months: BTreeSet<Month>,
}

impl DatabaseTarget {
    /// `secret` is what the store hashes by that will be written here.
    pub(crate) fn open(address: &Address, secret: [u8; 32]) -> Result<DatabaseTarget, MoveError> {
        let driver = Driver::start()?;
        let owner = Link::open(&driver, address, Kind::Owner)?;
        let mut target = DatabaseTarget {
            address: address.clone(),
            owner,
            link: None,
            secret,
            tenants: HashMap::new(),
            months: BTreeSet::new(),
            driver,
        };
        if schema_of(&target.owner)?.is_some() {
            expect_store(&target.owner, address)?;
            refuse_in_use(target.connect()?, address)?;
        }
        Ok(target)
    }

    fn connect(&mut self) -> Result<&Link, StoreError> {
        let link = Link::open(&self.driver, &self.address, Kind::Upkeep)?;
        for row in &link.query(sql!("moving/tenants"), Vec::new())? {
            self.tenants.insert(rows::get(row, 0)?, rows::get(row, 1)?);
        }
        Ok(self.link.insert(link))
    }

    fn link(&self) -> Result<&Link, StoreError> {
        self.link.as_ref().ok_or_else(|| StoreError::Broken("a copy was not begun".into()))
    }

    /// The row as this dialect has it: digests of what is found by text, hashes under the store's secret, tenants.
    fn fitted(&mut self, table: Table, mut row: Row) -> Result<Row, StoreError> {
        match table {
            Table::Queue => {
                let names: Vec<&str> = row[1..6].iter().map(Cell::text).collect::<Result<_, _>>()?;
                let digest = digest(&names);
                self.tenants.insert(row[0].number()?, row[1].text()?.to_owned());
                row.push(Cell::Bytes(digest));
            }
            Table::Message => {
                let tenant = self.tenants.get(&row[2].number()?).cloned().unwrap_or_default();
                let referred = match &row[10] {
                    Cell::Text(reference) => Cell::Number(rows::keyed_hash(&self.secret, &tenant, reference)),
                    _ => Cell::Null,
                };
                row.extend([referred, Cell::Text(tenant)]);
            }
            Table::Ordered => {
                let digest = digest(&[row[0].text()?, row[1].text()?]);
                row.splice(..2, [Cell::Bytes(digest)]);
            }
            Table::Idempotency => {
                let digest = digest(&[row[0].text()?, row[1].text()?]);
                row.push(Cell::Bytes(digest));
            }
            Table::Block => {
                let channel = row[0].text()?.parse();
                let channel = channel.map_err(|error| StoreError::Broken(format!("a channel: {error}")))?;
                let destination = row[1].text().ok().map(Arc::from);
                row.push(Cell::Bytes(rows::place_digest(&Place { channel, destination })));
            }
            Table::Recipient => {
                let person = row[4].text().ok().map(|person| digest(&[person]));
                row.push(person.map_or(Cell::Null, Cell::Bytes));
            }
            Table::Receipt => {
                let sent = Time::from_millis(row[2].number()?);
                row.rotate_right(1);
                row[0] = Cell::Number(stretch(MessageKey::at(sent)));
            }
            _ => {}
        }
        Ok(row)
    }

    /// Makes the partitions that the messages go into: none could be made later for what lies in the rest.
    fn make_months(&mut self, rows: &[Row]) -> Result<(), StoreError> {
        for row in rows {
            let month = Month::of(MessageKey(row[0].number()?).time());
            if self.months.insert(month) {
                migrate::make_month(&self.owner, month)?;
            }
        }
        Ok(())
    }
}

/// The rows as one array for each column.
fn by_column(columns: &str, rows: Vec<Row>) -> Result<Vec<Value>, StoreError> {
    let mut rest: Vec<VecDeque<Cell>> = rows.into_iter().map(VecDeque::from).collect();
    let mut values = Vec::with_capacity(columns.len());
    for of in columns.bytes() {
        let of = match of {
            b'n' => Of::Number,
            b't' => Of::Text,
            _ => Of::Bytes,
        };
        let mut column = rest.iter_mut().map(|row| row.pop_front().unwrap_or(Cell::Null));
        values.push(match of {
            Of::Number => numbers(&mut column)?.into(),
            Of::Text => texts(&mut column)?.into(),
            Of::Bytes => byte_strings(&mut column)?.into(),
        });
    }
    Ok(values)
}

fn numbers(column: &mut dyn Iterator<Item = Cell>) -> Result<Vec<Option<i64>>, StoreError> {
    let number = |cell: Cell| if cell == Cell::Null { Ok(None) } else { cell.number().map(Some) };
    column.map(number).collect()
}

fn texts(column: &mut dyn Iterator<Item = Cell>) -> Result<Vec<Option<String>>, StoreError> {
    let text = |cell: Cell| match &cell {
        Cell::Null => Ok(None),
        cell => Ok(Some(rows::escaped(cell.text()?))),
    };
    column.map(text).collect()
}

fn byte_strings(column: &mut dyn Iterator<Item = Cell>) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
    let bytes = |cell: Cell| match cell {
        Cell::Null => Ok(None),
        Cell::Bytes(bytes) => Ok(Some(bytes)),
        other => other.bytes().map(|bytes| Some(bytes.to_vec())),
    };
    column.map(bytes).collect()
}

fn put_progress(progress: &Progress) -> Result<Step, StoreError> {
    let bytes = serde_json::to_vec(progress).map_err(|error| StoreError::Broken(error.to_string()))?;
    Ok((sql!("meta_put"), vec![COPYING.into(), bytes.into()]))
}

impl Target for DatabaseTarget {
    fn progress(&mut self) -> Result<Option<Progress>, StoreError> {
        let Some(link) = &self.link else { return Ok(None) };
        let Some(bytes) = meta(link, COPYING)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| StoreError::Broken(error.to_string()))
    }

    fn counts(&mut self) -> Result<Vec<(Table, u64)>, StoreError> {
        self.link.as_ref().map_or(Ok(Vec::new()), counts)
    }

    fn begin(&mut self, lock: &Lock, first: &Progress) -> Result<(), StoreError> {
        migrate::migrate(&self.owner, &lock.secret)?;
        self.connect()?;
        let link = self.link()?;
        let mut steps: Vec<Step> = link.begin();
        let notes = lock.notes().into_iter();
        steps.extend(notes.map(|(name, value)| (sql!("meta_put"), vec![name.into(), value.into()])));
        steps.push(put_progress(first)?);
        steps.push(("COMMIT", Vec::new()));
        link.pipeline(steps).map(drop)
    }

    fn write(&mut self, table: Table, rows: Vec<Row>, progress: &Progress) -> Result<(), StoreError> {
        if table == Table::Message {
            self.make_months(&rows)?;
        }
        let fitted = rows.into_iter().map(|row| self.fitted(table, row));
        let rows = fitted.collect::<Result<Vec<Row>, StoreError>>()?;
        let Way { write, columns, .. } = way(table);
        let link = self.link()?;
        let mut steps: Vec<Step> = link.begin();
        steps.push((write, by_column(columns, rows)?));
        steps.push(put_progress(progress)?);
        steps.push(("COMMIT", Vec::new()));
        link.pipeline(steps).map(drop)
    }

    fn verify(&mut self) -> Result<(Tip, Verified), StoreError> {
        let tip = sealed_tip(self.link()?)?;
        let vault = Arc::new(Vault::blind());
        let mut reader = Reader::new(self.driver.clone(), self.address.clone(), vault);
        Ok((tip, reader.verify()?))
    }

    fn finish(&mut self, pause: Option<&Pause>) -> Result<(), StoreError> {
        let link = self.link()?;
        let tip = sealed_tip(link)?;
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let found = link.query(sql!("moving/last_numbers"), Vec::new())?;
        let last = found.first().ok_or_else(unanswered)?;
        let (queue, claim, command, turn): (i64, i64, i64, i64) =
            (rows::get(last, 0)?, rows::get(last, 1)?, rows::get(last, 2)?, rows::get(last, 3)?);
        let list: i64 = rows::get(last, 4)?;
        // No claim is ever numbered as one that was made before, wherever that was.
        let claim = claim.max(number(tip.position));
        let numbers = [number(tip.sequence), queue, claim, command, turn, list].map(Value::from).into();
        self.owner.query(sql!("moving/go_on"), numbers)?;
        let mut steps: Vec<Step> = link.begin();
        let end = vec![number(tip.sequence).into(), number(tip.position).into(), tip.hash.as_slice().into()];
        steps.push((sql!("moving/end_chain"), end));
        if let Some(pause) = pause {
            steps.push((sql!("meta_put"), vec![PAUSED.into(), pause.bytes()?.into()]));
        }
        steps.push((sql!("meta_delete"), vec![COPYING.into()]));
        steps.push(("COMMIT", Vec::new()));
        link.pipeline(steps).map(drop)
    }
}
