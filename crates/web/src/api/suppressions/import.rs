//! Many entries at once: a stream of lines, CSV or JSON, of which a few are held at a time.

use axum::body::BodyDataStream;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use pombo_kernel::suppression::Suppression;
use pombo_store::shelf::Shelved;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::{Query, Wish, filters};
use crate::api::csv::{alive, inert};
use crate::api::fields::Fields;
use crate::problem::{Code, Problem};
use crate::route::Call;
use crate::{body, view};

const LINES_MAX: u64 = 1_000_000;
const LINE_BYTES_MAX: usize = 8 * 1024;
/// Entries that are handed to the store together.
const GROUP: usize = 512;
/// Lines that are told of; others are counted.
const ERRORS_TOLD: usize = 1_000;

/// What became of the lines.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(rename = "ImportResults")]
pub(crate) struct ImportView {
    /// Lines that were read, but for empty ones and a heading.
    lines: u64,
    added: u64,
    /// Those who were on the list before, or earlier in the file.
    known: u64,
    refused: u64,
    /// What is wrong with the lines that were refused; the first thousand of them.
    errors: Vec<LineError>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ImportError")]
struct LineError {
    /// From 1 on, as editors count.
    line: u64,
    code: &'static str,
    reason: String,
}

/// Puts everybody in a file on the list. `kind` and `reason` in the address stand for lines that name none.
///
/// Lines are stored as they come in: if the file breaks off, what came before counts, and it can be sent again.
pub(crate) async fn import(call: Call) -> Result<Response, Problem> {
    call.caller.may_use_all()?;
    if call.door.is_closing() {
        return Err(Problem::shutting_down());
    }
    let csv = is_csv(&call.head.headers)?;
    let mut query = Query::read(&call.head.uri, &["kind", "reason"])?;
    let (kind, reason) = filters(&mut query);
    query.end()?;
    let mut usual = Map::new();
    usual.extend(kind.map(|kind| ("kind".to_owned(), Value::from(kind.as_str()))));
    usual.extend(reason.map(|reason| ("reason".to_owned(), Value::from(reason.as_str()))));
    let Ok(_place) = call.door.0.streams.clone().try_acquire_owned() else {
        let hint = "send it again after the time in Retry-After";
        return Err(Problem::new(Code::Overloaded, "too many streams are open; nothing was stored", hint));
    };
    let Call { door, caller, body, .. } = call;
    let patience = door.0.patience.stream;
    let mut lines = Lines::new(body.into_data_stream());
    let mut columns: Option<Vec<String>> = None;
    let mut told = ImportView::default();
    let mut wishes = Vec::with_capacity(GROUP);
    loop {
        let line = timeout(patience, lines.next()).await.map_err(|_| body::too_slow())??;
        if line.is_none() || wishes.len() == GROUP {
            let group = std::mem::take(&mut wishes);
            door.still_knows(&caller).await?.may_use_all()?;
            for shelved in door.store().shelve(group).await? {
                match shelved {
                    Shelved::Done { .. } => told.added += 1,
                    Shelved::Conflict(_) => told.known += 1,
                }
            }
        }
        let Some((number, line)) = line else { break };
        let text = match line {
            Ok(text) => text,
            Err(reason) => {
                told.lines += 1;
                told.refuse(number, Code::BodyTooLarge, reason);
                continue;
            }
        };
        if csv && columns.is_none() {
            columns = Some(heading(&text)?);
            continue;
        }
        if told.lines == LINES_MAX {
            let detail =
                format!("there are more than {LINES_MAX} lines; line {number} and what follows was not read");
            return Err(Problem::new(Code::BatchTooLarge, detail, "send the rest as another file"));
        }
        told.lines += 1;
        let read = match &columns {
            Some(columns) => row(columns, &text),
            None => std::str::from_utf8(&text).map(str::to_owned).map_err(|_| NOT_UTF8.to_owned()),
        };
        let read = read.map_err(|reason| (Code::InvalidField, reason)).and_then(|json| {
            let fields = Fields::read(json.as_bytes()).map(|fields| fields.or(&usual));
            fields.and_then(Wish::read).map_err(|problem| (problem.code, problem.detail.into_owned()))
        });
        match read {
            Ok(wish) => wishes.push(wish.shelved(&door, &caller, door.now()).1),
            Err((code, reason)) => told.refuse(number, code, reason),
        }
    }
    tracing::info!(
        added = told.added,
        known = told.known,
        refused = told.refused,
        key_id = caller.key_id,
        "suppressions were imported"
    );
    view::ok(&told)
}

const NOT_UTF8: &str = "it is not UTF-8";

impl ImportView {
    fn refuse(&mut self, line: u64, code: Code, reason: String) {
        self.refused += 1;
        if self.errors.len() < ERRORS_TOLD {
            self.errors.push(LineError { line, code: code.as_str(), reason });
        }
    }
}

/// Whether the body is CSV; the other form that is read is one JSON object a line.
fn is_csv(headers: &HeaderMap) -> Result<bool, Problem> {
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "text/csv" => Ok(true),
        "application/x-ndjson" | "application/ndjson" => Ok(false),
        _ => Err(Problem::new(
            Code::UnsupportedMediaType,
            format!("the body is `{}`", text.chars().take(100).collect::<String>()),
            "send `Content-Type: text/csv` with a heading, or `application/x-ndjson`",
        )),
    }
}

/// The names of the columns.
fn heading(text: &[u8]) -> Result<Vec<String>, Problem> {
    const KNOWN: [&str; 8] =
        ["id", "kind", "recipient", "reason", "source", "note", "created_at", "created_by"];
    let hint = "begin with a line such as kind,recipient,reason";
    let text = std::str::from_utf8(text).map_err(|_| Problem::field("heading", NOT_UTF8, hint))?;
    let names =
        cells(text.trim_start_matches('\u{feff}')).map_err(|why| Problem::field("heading", why, hint))?;
    let names: Vec<String> = names.into_iter().map(|name| name.trim().to_ascii_lowercase()).collect();
    if let Some(odd) = names.iter().find(|name| !KNOWN.contains(&name.as_str())) {
        let reason = format!("names `{}`, which is no column", odd.chars().take(64).collect::<String>());
        return Err(Problem::field("heading", reason, format!("there are {}", KNOWN.join(", "))));
    }
    if !names.iter().any(|name| name == "recipient") {
        return Err(Problem::field("heading", "names no `recipient`", hint));
    }
    Ok(names)
}

/// A line of CSV as a document. What an export has beyond a request is passed over, and so is what keeps spreadsheets
/// from computing it.
fn row(columns: &[String], text: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(text).map_err(|_| NOT_UTF8.to_owned())?;
    let cells = cells(text)?;
    if cells.len() > columns.len() {
        return Err(format!("it has {} columns, and the heading {}", cells.len(), columns.len()));
    }
    let named = columns.iter().zip(cells).filter(|(name, cell)| {
        !cell.is_empty() && !matches!(name.as_str(), "id" | "created_at" | "created_by")
    });
    let document: Map<String, Value> =
        named.map(|(name, cell)| (name.clone(), alive(&cell).into())).collect();
    Ok(Value::Object(document).to_string())
}

/// The cells of a line, by RFC 4180; a line break within quotes is not read.
fn cells(line: &str) -> Result<Vec<String>, String> {
    let mut cells = Vec::new();
    let mut rest = line.trim_end_matches('\r');
    loop {
        let cell;
        match rest.strip_prefix('"') {
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                cell = rest[..end].to_owned();
                rest = &rest[end..];
            }
            Some(quoted) => {
                let mut text = String::new();
                let mut left = quoted;
                loop {
                    let (part, after) = left.split_once('"').ok_or("a quote has no end")?;
                    text.push_str(part);
                    match after.strip_prefix('"') {
                        Some(more) => {
                            text.push('"');
                            left = more;
                        }
                        None => {
                            rest = after;
                            break;
                        }
                    }
                }
                cell = text;
            }
        }
        cells.push(cell);
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None if rest.is_empty() => return Ok(cells),
            None => return Err("something follows a quote".to_owned()),
        }
    }
}

/// An entry as an export shows it.
pub(super) fn csv_line(it: &Suppression) -> String {
    let inert = |text: &str| inert(text).into_owned();
    let cells = [
        it.id.clone(),
        it.kind.to_string(),
        inert(&it.recipient),
        it.reason.to_string(),
        inert(it.source.as_deref().unwrap_or_default()),
        inert(it.note.as_deref().unwrap_or_default()),
        it.created_at.to_string(),
        inert(&it.created_by),
    ];
    format!("{}\r\n", cells.join(","))
}

/// A line with its number, or why it cannot be read.
type Line = (u64, Result<Bytes, String>);

/// Cuts a stream into lines. Holds one piece of the stream and one unfinished line at most.
struct Lines {
    stream: BodyDataStream,
    rest: BytesMut,
    number: u64,
    /// Of the unfinished line, what is known to be no line break.
    searched: usize,
    overlong: bool,
    ended: bool,
}

impl Lines {
    fn new(stream: BodyDataStream) -> Lines {
        Lines { stream, rest: BytesMut::new(), number: 0, searched: 0, overlong: false, ended: false }
    }

    /// The next line that is not empty.
    async fn next(&mut self) -> Result<Option<Line>, Problem> {
        loop {
            if let Some(at) = self.rest[self.searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.rest.split_to(self.searched + at + 1).freeze();
                if let Some(line) = self.cut(line.slice(..line.len() - 1)) {
                    return Ok(Some(line));
                }
                continue;
            }
            self.searched = self.rest.len();
            if self.searched > LINE_BYTES_MAX {
                self.overlong = true;
                self.rest.clear();
                self.searched = 0;
            }
            if self.ended {
                let line = self.rest.split().freeze();
                return Ok(match line.is_empty() && !self.overlong {
                    true => None,
                    false => self.cut(line),
                });
            }
            match body::piece(&mut self.stream).await? {
                Some(piece) => self.rest.extend_from_slice(&piece),
                None => self.ended = true,
            }
        }
    }

    fn cut(&mut self, line: Bytes) -> Option<Line> {
        self.number += 1;
        self.searched = 0;
        if std::mem::take(&mut self.overlong) || line.len() > LINE_BYTES_MAX {
            return Some((self.number, Err(format!("the line has more than {LINE_BYTES_MAX} bytes"))));
        }
        (!line.trim_ascii().is_empty()).then_some((self.number, Ok(line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_read_as_spreadsheets_write_them() {
        let read = |line: &str| cells(line).unwrap();
        assert_eq!(read("a,b,c"), ["a", "b", "c"]);
        assert_eq!(read("\"a,b\",\"say \"\"no\"\"\",\r"), ["a,b", "say \"no\"", ""]);
        assert_eq!(read(""), [""]);
        for bad in ["\"a", "\"a\"b,c"] {
            assert!(cells(bad).is_err(), "{bad}");
        }
    }
}
