//! Lists cut into lines that say something, whatever it is for.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::csv::{self, Head, Records};
use super::json::{Elements, Lines};
use super::text::Text;
use super::{Ask, Cut, Format, MARK_BYTES, Own, Unreadable};
use crate::campaign::recipient::Refusal;
use crate::suppression::Family;

/// A line, and what it says: an address and whatever stands beside it, or why it cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// From 1 on; of a JSON list, the place in it.
    pub line: u64,
    pub of: Result<(String, Own), Refusal>,
}

impl Row {
    fn refused(line: u64, reason: impl Into<String>) -> Row {
        Row { line, of: Err(Refusal { to: String::new(), reason: reason.into() }) }
    }
}

/// What is looked for in a list.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The kind of its addresses, if it is known.
    pub family: Option<Family>,
    /// What the other columns should be called. One whose name differs in capitals alone is taken for it.
    pub names: BTreeSet<String>,
    /// What is said to everybody, where a field of a table is empty.
    pub common: Own,
}

/// Reads one list, piece by piece.
pub struct Rows {
    ask: Ask,
    wanted: Wanted,
    /// The first bytes, until it is known what they say about the others.
    first: Option<Vec<u8>>,
    text: Text,
    cutter: Cutter,
}

enum Cutter {
    Csv { records: Records, head: Option<Head> },
    Json(Elements),
    Ndjson(Lines),
}

impl Rows {
    pub fn new(ask: Ask, wanted: Wanted) -> Rows {
        let cutter = match ask.format {
            Format::Csv => Cutter::Csv { records: Records::new(ask.delimiter), head: None },
            Format::Json => Cutter::Json(Elements::default()),
            Format::Ndjson => Cutter::Ndjson(Lines::default()),
        };
        let text = Text::new(ask.encoding);
        Rows { text, cutter, ask, wanted, first: Some(Vec::new()) }
    }

    /// Takes the next bytes in, and adds the lines that end in them.
    pub fn push(&mut self, piece: &[u8], rows: &mut Vec<Row>) -> Result<(), Unreadable> {
        let Some(first) = &mut self.first else { return self.take(piece, rows, false) };
        first.extend_from_slice(piece);
        match first.len() < MARK_BYTES {
            true => Ok(()),
            false => self.begin(rows, false),
        }
    }

    /// There are no more bytes: adds what the last line says.
    pub fn finish(&mut self, rows: &mut Vec<Row>) -> Result<(), Unreadable> {
        match self.first {
            Some(_) => self.begin(rows, true),
            None => self.take(&[], rows, true),
        }
    }

    /// The kind of address that the column of addresses is named after, if it is.
    pub fn named(&self) -> Option<Family> {
        self.head().and_then(|head| head.family)
    }

    /// What the header of a table said, once it is read.
    pub(super) fn head(&self) -> Option<&Head> {
        match &self.cutter {
            Cutter::Csv { head, .. } => head.as_ref(),
            Cutter::Json(_) | Cutter::Ndjson(_) => None,
        }
    }

    fn begin(&mut self, rows: &mut Vec<Row>, ended: bool) -> Result<(), Unreadable> {
        let first = self.first.take().unwrap_or_default();
        let rest = self.text.begin(&first)?;
        self.take(rest, rows, ended)
    }

    fn take(&mut self, piece: &[u8], rows: &mut Vec<Row>, ended: bool) -> Result<(), Unreadable> {
        let Rows { ask, wanted, text, cutter, .. } = self;
        let name = ask.to.as_deref();
        match cutter {
            Cutter::Csv { records, head } => {
                records.push(piece);
                table(records, head, ask, wanted, text, rows, ended)
            }
            Cutter::Json(elements) => {
                let taken =
                    elements.push(piece, &mut |number, it: Cut<'_>| rows.push(value(number, name, it)));
                if ended { taken.and_then(|()| elements.finish()) } else { taken }
            }
            Cutter::Ndjson(cut) => {
                let mut each = |number, line: Cut<'_>| rows.push(value(number, name, line));
                cut.push(piece, &mut each);
                if ended {
                    cut.finish(&mut each);
                }
                Ok(())
            }
        }
    }
}

/// Nothing of whom is read, since that is personal.
impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("format", &self.ask.format).finish_non_exhaustive()
    }
}

/// The records that have ended: the first one says what the others are.
fn table(
    records: &mut Records,
    head: &mut Option<Head>,
    ask: &mut Ask,
    wanted: &Wanted,
    text: &mut Text,
    rows: &mut Vec<Row>,
    ended: bool,
) -> Result<(), Unreadable> {
    while let Some((line, record)) = records.next(ended) {
        let record = record.and_then(|record| text.read(record));
        let Some(known) = head else {
            let words = record.map_err(|why| Unreadable::new(line, why, csv::HEADER_HINT))?;
            if words.trim().is_empty() {
                continue;
            }
            if let Some(delimiter) = csv::announced(line, &words) {
                ask.delimiter.get_or_insert(delimiter);
                continue;
            }
            let found = Head::read(line, &words, ask, wanted)?;
            records.delimit(found.delimiter);
            *head = Some(found);
            continue;
        };
        let words = match record {
            Ok(words) => words,
            Err(why) => {
                rows.push(Row::refused(line, why));
                continue;
            }
        };
        let fields = csv::fields(&words, known.delimiter);
        if fields.iter().all(|field| field.trim().is_empty()) {
            continue;
        }
        rows.push(match known.row(&fields, &wanted.common) {
            Err(reason) => Row::refused(line, reason),
            Ok((to, own)) => Row { line, of: Ok((to.to_owned(), own)) },
        });
    }
    Ok(())
}

/// A JSON value: an object with an address, or the address alone.
fn value(line: u64, name: Option<&str>, json: Cut<'_>) -> Row {
    let value = match json.map(serde_json::from_slice) {
        Ok(Ok(value)) => value,
        Ok(Err(_)) => return Row::refused(line, "it is not JSON in UTF-8; check quotes and commas"),
        Err(why) => return Row::refused(line, why),
    };
    let mut own = match value {
        Value::String(to) => return Row { line, of: Ok((to, Own::new())) },
        Value::Object(own) => own,
        _ => return Row::refused(line, "it is neither an object nor an address"),
    };
    let name = name.unwrap_or(if own.contains_key("to") { "to" } else { "recipient" });
    let to = match own.remove(name) {
        Some(Value::String(to)) => to,
        Some(Value::Number(to)) => to.to_string(),
        None if name == "recipient" => return Row::refused(line, "it has no `to`"),
        None | Some(Value::Null) => return Row::refused(line, format!("it has no `{name}`")),
        Some(_) => return Row::refused(line, format!("its `{name}` is not text")),
    };
    if let Some(Value::Object(variables)) = own.get_mut("variables") {
        let variables = std::mem::take(variables);
        own.remove("variables");
        own.extend(variables);
    }
    Row { line, of: Ok((to, own)) }
}
