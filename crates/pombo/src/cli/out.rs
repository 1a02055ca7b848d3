//! What the commands print: lines, documents and tables.

use std::io::{self, ErrorKind, IsTerminal, Write};

use serde::Serialize;
use serde_json::Value;

/// Writes one line to standard output.
///
/// A reader that has gone away (`pombo messages list | head`) has seen enough: the command ends quietly.
pub(crate) fn line(text: impl AsRef<str>) {
    let mut out = io::stdout().lock();
    seen(
        out.write_all(text.as_ref().as_bytes())
            .and_then(|()| out.write_all(b"\n"))
            .and_then(|()| out.flush()),
    );
}

/// Writes bytes to standard output as they are.
pub(crate) fn bytes(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    seen(out.write_all(bytes).and_then(|()| out.flush()));
}

fn seen(written: io::Result<()>) {
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
    written(&serde_json::to_string(value).unwrap_or_default());
}

/// Writes a JSON document with its fields and numbers as they were written, indented for people on a terminal.
pub(crate) fn written(json: &str) {
    if io::stdout().is_terminal() { line(indented(json)) } else { line(json) }
}

/// JSON on several lines. Only blanks are added: whoever wrote it may care for the order of its fields and for
/// every digit of its numbers.
pub(crate) fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    let mut rest = json.chars().peekable();
    let fresh = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    };
    while let Some(c) = rest.next() {
        if quoted {
            out.push(c);
            quoted = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            continue;
        }
        match c {
            '{' | '[' if rest.peek().is_some_and(|next| matches!(next, '}' | ']')) => {
                out.push(c);
                out.extend(rest.next());
            }
            '{' | '[' => {
                depth += 1;
                out.push(c);
                fresh(&mut out, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                fresh(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                fresh(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => {
                quoted = c == '"';
                out.push(c);
            }
        }
    }
    out
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

/// How many columns standard output shows, if it is a terminal.
pub(crate) fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    Some(terminal_size::terminal_size().map_or(USUAL_WIDTH, |(width, _)| usize::from(width.0)))
}

/// Of a terminal that does not say how wide it is.
const USUAL_WIDTH: usize = 80;

/// Rows under headings, each column as wide as its widest cell.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// How a cell of a column is painted, once it is padded.
    paints: Vec<(usize, Painting)>,
    /// Columns that may be cut to so many characters where there is little room.
    cuts: Vec<(usize, usize)>,
    /// Columns that are left out, in this order, where even that is too much.
    spare: Vec<usize>,
}

impl Table {
    pub(crate) fn new<const N: usize>(headings: [&str; N]) -> Table {
        let rows = vec![headings.map(str::to_uppercase).into()];
        Table { rows, paints: Vec::new(), cuts: Vec::new(), spare: Vec::new() }
    }

    /// On a narrow terminal the column may be cut to `least` characters.
    pub(crate) fn cut(mut self, column: usize, least: usize) -> Table {
        self.cuts.push((column, least));
        self
    }

    /// On a narrow terminal these columns are left out, the first one first.
    pub(crate) fn spare<const N: usize>(mut self, columns: [usize; N]) -> Table {
        self.spare = columns.into();
        self
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

    /// Which columns are shown within `room` characters, and how wide each is.
    fn layout(&self, room: usize) -> Vec<(usize, usize)> {
        let widest = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let columns = self.rows.first().map_or(0, Vec::len);
        let mut shown: Vec<(usize, usize)> = (0..columns).map(|column| (column, widest(column))).collect();
        let total = |shown: &[(usize, usize)]| shown.iter().map(|(_, width)| width + 2).sum::<usize>();
        let room = room.saturating_add(2);
        let can_spare = |column: usize, width: usize| {
            let cut = self.cuts.iter().find(|(cut, _)| *cut == column);
            cut.map_or(0, |(_, least)| width.saturating_sub(*least))
        };
        let mut spare = self.spare.iter();
        loop {
            let excess = total(&shown).saturating_sub(room);
            let give: usize = shown.iter().map(|(column, width)| can_spare(*column, *width)).sum();
            if excess <= give {
                break;
            }
            let Some(column) = spare.next() else { break };
            shown.retain(|(it, _)| it != column);
        }
        let mut excess = total(&shown).saturating_sub(room);
        while excess > 0 {
            let cells = shown.iter_mut().filter(|(column, width)| can_spare(*column, *width) > 0);
            let Some((_, width)) = cells.max_by_key(|(_, width)| *width) else { break };
            *width -= 1;
            excess -= 1;
        }
        shown
    }

    /// The table as lines, without blanks at their ends.
    pub(crate) fn lines(&self, paint: Paint) -> Vec<String> {
        self.lines_within(usize::MAX, paint)
    }

    pub(crate) fn lines_within(&self, room: usize, paint: Paint) -> Vec<String> {
        let shown = self.layout(room);
        let last = shown.last().map(|(column, _)| *column);
        let lines = self.rows.iter().enumerate().map(|(number, row)| {
            let cells = shown.iter().map(|&(column, width)| {
                let cell = clipped(row.get(column).map_or("", String::as_str), width);
                let padded = if Some(column) == last { cell } else { format!("{cell:<width$}  ") };
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
        self.lines_within(width().unwrap_or(usize::MAX), Paint::stdout()).iter().for_each(line);
    }
}

/// Words from outside that cannot move the cursor.
pub(crate) fn tame(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
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

/// A text of an answer; empty where there is none.
pub(crate) fn field(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// Texts of an answer, one after another.
pub(crate) fn fields(value: &Value, key: &str) -> String {
    let list = value[key].as_array().into_iter().flatten().filter_map(Value::as_str);
    list.collect::<Vec<_>>().join(", ")
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
    fn a_narrow_terminal_cuts_and_drops_what_matters_least() {
        let table = || Table::new(["id", "to", "when", "error"]).cut(1, 6).cut(3, 6).spare([2]);
        let mut table = table();
        table.row(["msg_1".into(), "https://crm.example".into(), "today".into(), "unavailable".into()]);
        assert_eq!(table.lines_within(80, Paint::PLAIN)[1], "msg_1  https://crm.example  today  unavailable");
        assert_eq!(table.lines_within(40, Paint::PLAIN)[1], "msg_1  https://crm.…  today  unavailable");
        assert_eq!(table.lines_within(23, Paint::PLAIN)[1], "msg_1  https:…  unavai…");
        assert!(table.lines_within(23, Paint::PLAIN).iter().all(|line| line.chars().count() <= 23));
    }

    #[test]
    fn indenting_changes_blanks_only() {
        let json = r#"{"z":[1.10,{}],"a b":"x, {\"y\": [\\","n":12345678901234567890123}"#;
        let text = "{\n  \"z\": [\n    1.10,\n    {}\n  ],\n  \"a b\": \"x, {\\\"y\\\": [\\\\\",\n  \"n\": 12345678901234567890123\n}";
        assert_eq!(indented(json), text);
    }

    #[test]
    fn long_or_wild_texts_are_tamed() {
        assert_eq!(clipped("a\nb\x1b[31m", 10), "a b [31m");
        assert_eq!(clipped("abcdef", 4), "abc…");
    }
}
