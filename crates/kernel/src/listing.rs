//! Lists of recipients as people have them: CSV out of a spreadsheet, or JSON out of a program.
//!
//! A reader is handed bytes as they come and gives back lines, each judged on its own: somebody who can be written to,
//! or why not. It holds one unfinished record, and that bounded, however long the list is. What concerns all lines (no
//! header, another encoding) is told before the first line is given back.

mod csv;
mod json;
mod judge;
#[cfg(test)]
mod tests;
mod text;

use std::fmt;

use serde_json::{Map, Value};

use crate::campaign::recipient::{Listed, Refusal};

use csv::{Head, Records};
use json::{Elements, Lines};
use judge::Judge;
pub use judge::Terms;
pub use text::Encoding;
use text::Text;

/// The longest line, record or element. A longer one is refused by itself.
pub const RECORD_BYTES_MAX: usize = 64 * 1024;
/// As many bytes as the longest mark at the beginning of a file.
const MARK_BYTES: usize = 4;

/// What the bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Csv,
    /// A list, or an object whose only member is `recipients`.
    Json,
    /// A JSON value a line.
    Ndjson,
}

/// How a list is to be read. What is not said is found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub format: Format,
    /// The column or member that has the addresses.
    pub to: Option<String>,
    /// What stands between two fields of CSV.
    pub delimiter: Option<u8>,
    /// Of CSV; JSON is always UTF-8.
    pub encoding: Option<Encoding>,
}

/// Why the list cannot be read, or not any further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}; {hint}")]
pub struct Unreadable {
    /// Where, from 1 on.
    pub line: u64,
    pub what: String,
    /// What to do about it.
    pub hint: String,
}

impl Unreadable {
    fn new(line: u64, what: impl Into<String>, hint: impl Into<String>) -> Unreadable {
        Unreadable { line, what: what.into(), hint: hint.into() }
    }
}

/// Reads one list, piece by piece.
pub struct Reader {
    ask: Ask,
    judge: Judge,
    /// The first bytes, until it is known what they say about the others.
    first: Option<Vec<u8>>,
    text: Text,
    cutter: Cutter,
    /// Some line was given back.
    any: bool,
}

enum Cutter {
    Csv { records: Records, head: Option<Head> },
    Json(Elements),
    Ndjson(Lines),
}

impl Reader {
    pub fn new(ask: Ask, terms: Terms) -> Reader {
        let cutter = match ask.format {
            Format::Csv => Cutter::Csv { records: Records::new(ask.delimiter), head: None },
            Format::Json => Cutter::Json(Elements::default()),
            Format::Ndjson => Cutter::Ndjson(Lines::default()),
        };
        let text = Text::new(ask.encoding);
        Reader { judge: Judge::new(terms), text, cutter, ask, first: Some(Vec::new()), any: false }
    }

    /// Takes the next bytes in, and adds the lines that end in them.
    pub fn push(&mut self, piece: &[u8], lines: &mut Vec<Listed>) -> Result<(), Unreadable> {
        let Some(first) = &mut self.first else { return self.take(piece, lines, false) };
        first.extend_from_slice(piece);
        match first.len() < MARK_BYTES {
            true => Ok(()),
            false => self.begin(lines, false),
        }
    }

    /// There are no more bytes: adds what the last line says.
    pub fn finish(&mut self, lines: &mut Vec<Listed>) -> Result<(), Unreadable> {
        match self.first {
            Some(_) => self.begin(lines, true)?,
            None => self.take(&[], lines, true)?,
        }
        match self.any {
            true => Ok(()),
            false => {
                Err(Unreadable::new(1, "there is nobody on the list", "write a line for each recipient"))
            }
        }
    }

    fn begin(&mut self, lines: &mut Vec<Listed>, ended: bool) -> Result<(), Unreadable> {
        let first = self.first.take().unwrap_or_default();
        let rest = self.text.begin(&first)?;
        self.take(rest, lines, ended)
    }

    fn take(&mut self, piece: &[u8], lines: &mut Vec<Listed>, ended: bool) -> Result<(), Unreadable> {
        let Reader { ask, judge, text, cutter, any, .. } = self;
        let before = lines.len();
        let name = ask.to.as_deref().unwrap_or("to");
        let taken = match cutter {
            Cutter::Csv { records, head } => {
                records.push(piece);
                table(records, head, ask, judge, text, lines, ended)
            }
            Cutter::Json(elements) => {
                let mut each = |number, element: Cut<'_>| lines.push(judge.value(number, name, element));
                let taken = elements.push(piece, &mut each);
                if ended { taken.and_then(|()| elements.finish()) } else { taken }
            }
            Cutter::Ndjson(cut) => {
                let mut each = |number, line: Cut<'_>| lines.push(judge.value(number, name, line));
                cut.push(piece, &mut each);
                if ended {
                    cut.finish(&mut each);
                }
                Ok(())
            }
        };
        *any |= lines.len() > before;
        taken
    }
}

/// Nothing of whom is read, since that is personal.
impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("format", &self.ask.format)
            .field("any", &self.any)
            .finish_non_exhaustive()
    }
}

/// The bytes of a record, or why it cannot be read.
type Cut<'a> = Result<&'a [u8], &'static str>;

const TOO_LONG: &str = "it is longer than 64 KiB";

/// The records that have ended: the first one says what the others are.
fn table(
    records: &mut Records,
    head: &mut Option<Head>,
    ask: &Ask,
    judge: &Judge,
    text: &mut Text,
    lines: &mut Vec<Listed>,
    ended: bool,
) -> Result<(), Unreadable> {
    while let Some((line, record)) = records.next(ended) {
        let record = record.and_then(|record| text.read(record));
        let Some(known) = head else {
            let words = record.map_err(|why| Unreadable::new(line, why, csv::HEADER_HINT))?;
            if words.trim().is_empty() {
                continue;
            }
            let found = Head::read(line, &words, ask, judge.family())?;
            records.delimit(found.delimiter);
            *head = Some(found);
            continue;
        };
        let refused = |reason: String| Listed { line, of: Err(Refusal { to: String::new(), reason }) };
        let words = match record {
            Ok(words) => words,
            Err(why) => {
                lines.push(refused(why.to_owned()));
                continue;
            }
        };
        let fields = csv::fields(&words, known.delimiter);
        if fields.iter().all(|field| field.trim().is_empty()) {
            continue;
        }
        match known.row(&fields, &judge.terms.common) {
            Err(reason) => lines.push(refused(reason)),
            Ok((to, own)) => {
                if !std::mem::replace(&mut known.tried, true) {
                    judge.try_template(line, known, &own)?;
                }
                lines.push(judge.line(line, to, own));
            }
        }
    }
    Ok(())
}

/// What a line says beside the address.
type Own = Map<String, Value>;
