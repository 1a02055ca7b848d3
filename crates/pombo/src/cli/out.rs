//! What the commands print: lines, documents and tables.

use std::io::{self, ErrorKind, IsTerminal, Write};

use serde::Serialize;

/// Writes one line to standard output.
///
/// A reader that has gone away (`pombo messages list | head`) has seen enough: the command ends quietly.
pub(crate) fn line(text: impl AsRef<str>) {
    let mut out = io::stdout().lock();
    let written = out
        .write_all(text.as_ref().as_bytes())
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush());
    if written.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        std::process::exit(0);
    }
}

/// Writes one line to standard error, where a message does not mix with a command's result.
pub(crate) fn note(text: impl AsRef<str>) {
    let _ = writeln!(io::stderr().lock(), "{}", text.as_ref());
}

/// Writes one JSON document on lines of its own, indented for people on a terminal.
pub(crate) fn document(value: &impl Serialize) {
    let text = if io::stdout().is_terminal() {
        serde_json::to_string_pretty(value)
    } else {
        serde_json::to_string(value)
    };
    line(text.unwrap_or_default());
}

/// Writes one object of a list, on one line.
pub(crate) fn object(value: &impl Serialize) {
    line(serde_json::to_string(value).unwrap_or_default());
}

/// Colours, where they help and are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    #[cfg(test)]
    pub(crate) const PLAIN: Paint = Paint { on: false };

    /// Colours for standard output, if it is a terminal and nobody asked for none.
    pub(crate) fn stdout() -> Paint {
        Paint { on: io::stdout().is_terminal() && wanted() }
    }

    pub(crate) fn stderr() -> Paint {
        Paint { on: io::stderr().is_terminal() && wanted() }
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    pub(crate) fn cyan(self, text: &str) -> String {
        self.with("36", text)
    }

    /// A message's state or an attempt's outcome, in its own colour.
    pub(crate) fn state(self, text: &str) -> String {
        match text.trim_end() {
            "sent" => self.green(text),
            "failed" => self.red(text),
            "pending" | "retry" | "held" => self.yellow(text),
            "sending" => self.cyan(text),
            _ => self.dim(text),
        }
    }
}

fn wanted() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// A way to paint a text.
pub(crate) type Painting = fn(Paint, &str) -> String;

/// Rows under headings, each column as wide as its widest cell.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// How a cell of a column is painted, once it is padded.
    paints: Vec<(usize, Painting)>,
}

impl Table {
    pub(crate) fn new<const N: usize>(headings: [&str; N]) -> Table {
        Table { rows: vec![headings.map(str::to_uppercase).into()], paints: Vec::new() }
    }

    pub(crate) fn painted(mut self, column: usize, paint: Painting) -> Table {
        self.paints.push((column, paint));
        self
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// The table as lines, without blanks at their ends.
    pub(crate) fn lines(&self, paint: Paint) -> Vec<String> {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let lines = self.rows.iter().enumerate().map(|(number, row)| {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                let last = column + 1 == columns;
                let padded = if last { cell.clone() } else { format!("{cell:<width$}  ") };
                let own = self.paints.iter().find(|(painted, _)| *painted == column);
                match own {
                    _ if number == 0 => paint.dim(&padded),
                    Some((_, with)) => with(paint, &padded),
                    None => padded,
                }
            });
            cells.collect::<String>().trim_end().to_owned()
        });
        lines.collect()
    }

    pub(crate) fn print(&self) {
        self.lines(Paint::stdout()).iter().for_each(line);
    }
}

/// The text on one line, cut to a length that leaves room for others.
pub(crate) fn clipped(text: &str, most: usize) -> String {
    let flat: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if flat.chars().count() <= most {
        return flat;
    }
    let head: String = flat.chars().take(most.saturating_sub(1)).collect();
    format!("{head}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["name", "why"]).painted(0, Paint::bold);
        table.row(["a".into(), "ção".into()]);
        table.row(["longer".into(), String::new()]);
        assert_eq!(table.lines(Paint::PLAIN), ["NAME    WHY", "a       ção", "longer"]);
        assert_eq!(table.lines(Paint { on: true })[1], "\x1b[1ma       \x1b[0mção");
    }

    #[test]
    fn long_or_wild_texts_are_tamed() {
        assert_eq!(clipped("a\nb\x1b[31m", 10), "a b [31m");
        assert_eq!(clipped("abcdef", 4), "abc…");
    }
}
