//! Lists of recipients as people have them: CSV out of a spreadsheet, or JSON out of a program.
//!
//! A reader is handed bytes as they come and gives back lines, each judged on its own: somebody who can be written to,
//! or why not. It holds one unfinished record, and that bounded, however long the list is. What concerns all lines (no
//! header, another encoding) is told before the first line is given back.

mod csv;
mod glance;
mod json;
mod judge;
mod rows;
#[cfg(test)]
mod tests;
mod text;

use std::fmt;

use serde_json::{Map, Value};

use crate::campaign::recipient::Listed;
use crate::suppression::Family;

pub use glance::{Glance, glance};
use judge::Judge;
pub use judge::{Terms, address};
pub use rows::{Row, Rows, Wanted};
pub use text::Encoding;

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
    /// What the columns of CSV are called here, in order, whatever the header says; nothing for one that is left out.
    pub columns: Option<Vec<Option<String>>>,
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

/// Reads one list, piece by piece, and judges its lines.
pub struct Reader {
    rows: Rows,
    judge: Judge,
    /// The template was tried with a line.
    tried: bool,
    /// Some line was given back.
    any: bool,
}

impl Reader {
    pub fn new(ask: Ask, terms: Terms) -> Reader {
        let (names, common) = (terms.template.variables(terms.kind), terms.common.clone());
        let rows = Rows::new(ask, Wanted { family: Family::of(terms.kind), names, common });
        Reader { rows, judge: Judge::new(terms), tried: false, any: false }
    }

    /// Takes the next bytes in, and adds the lines that end in them.
    pub fn push(&mut self, piece: &[u8], lines: &mut Vec<Listed>) -> Result<(), Unreadable> {
        let mut rows = Vec::new();
        let read = self.rows.push(piece, &mut rows);
        self.judge(rows, lines)?;
        read
    }

    /// There are no more bytes: adds what the last line says.
    pub fn finish(&mut self, lines: &mut Vec<Listed>) -> Result<(), Unreadable> {
        let mut rows = Vec::new();
        let read = self.rows.finish(&mut rows);
        self.judge(rows, lines)?;
        read?;
        match self.any {
            true => Ok(()),
            false => {
                Err(Unreadable::new(1, "there is nobody on the list", "write a line for each recipient"))
            }
        }
    }

    fn judge(&mut self, rows: Vec<Row>, lines: &mut Vec<Listed>) -> Result<(), Unreadable> {
        for Row { line, of } in rows {
            self.any = true;
            let listed = match of {
                Err(refusal) => Listed { line, of: Err(refusal) },
                Ok((to, own)) => {
                    if let Some(head) = self.rows.head()
                        && !std::mem::replace(&mut self.tried, true)
                    {
                        self.judge.try_template(line, head, &own)?;
                    }
                    self.judge.line(line, &to, own)
                }
            };
            lines.push(listed);
        }
        Ok(())
    }
}

/// Nothing of whom is read, since that is personal.
impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("rows", &self.rows).field("any", &self.any).finish_non_exhaustive()
    }
}

/// The bytes of a record, or why it cannot be read.
type Cut<'a> = Result<&'a [u8], &'static str>;

const TOO_LONG: &str = "it is longer than 64 KiB";

/// What a line says beside the address.
pub type Own = Map<String, Value>;
