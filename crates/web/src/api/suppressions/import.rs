//! Many entries at once: a list as campaigns take it, of which a few lines are held at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::BodyDataStream;
use axum::response::Response;
use pombo_kernel::listing::{Format, Own, Row, Rows, Wanted, address};
use pombo_kernel::suppression::{Family, Reason, Suppression};
use pombo_store::shelf::Shelved;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::{Query, Wish, filters};
use crate::api::csv::{alive, inert};
use crate::api::fields::Fields;
use crate::api::listing;
use crate::auth::Caller;
use crate::problem::{Code, Problem};
use crate::route::Call;
use crate::{Door, body, view};

/// Bytes that are read at one go, and whose lines are handed to the store together.
const READ_BYTES: usize = 16 * 1024;
/// Lines that are told of; others are counted.
const ERRORS_TOLD: usize = 1_000;
/// Columns that are told of.
const COLUMNS_TOLD: usize = 20;

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
    /// Columns of a table that say nothing of an entry; the first twenty of them.
    passed_over: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ImportError")]
struct LineError {
    /// From 1 on, as editors count.
    line: u64,
    code: &'static str,
    reason: String,
}

/// Puts everybody on a list in a file. `kind` and `reason` in the address stand for lines that name none. Where nobody
/// says a kind, the name of the column of addresses does, or the address itself.
///
/// Lines are stored as they come in: if the file breaks off, what came before counts, and it can be sent again.
pub(crate) async fn import(call: Call) -> Result<Response, Problem> {
    call.caller.may_use_all()?;
    if call.door.is_closing() {
        return Err(Problem::shutting_down());
    }
    let mut query = Query::read(&call.head.uri, &[&listing::OPTIONS[..], &["kind", "reason"]].concat())?;
    let ask = listing::ask(&call.head.headers, &mut query)?;
    let (kind, reason) = filters(&mut query);
    query.end()?;
    let Ok(_place) = call.door.0.streams.clone().try_acquire_owned() else {
        let hint = "send it again after the time in Retry-After";
        return Err(Problem::new(Code::Overloaded, "too many streams are open; nothing was stored", hint));
    };
    let Call { door, caller, body, .. } = call;
    let is_table = ask.format == Format::Csv;
    let names = COLUMNS.iter().map(|name| (*name).to_owned()).collect();
    let rows = Rows::new(ask, Wanted { family: kind, names, ..Wanted::default() });
    let usual = [("kind", kind.map(Family::as_str)), ("reason", reason.map(Reason::as_str))];
    let usual =
        usual.into_iter().filter_map(|(name, it)| Some((name.to_owned(), Value::from(it?)))).collect();
    let told = ImportView::default();
    let mut import = Import { door, caller, rows, is_table, usual, told, passed_over: BTreeSet::new() };
    import.take(body.into_data_stream()).await?;
    let Import { caller, told, passed_over, .. } = import;
    tracing::info!(
        added = told.added,
        known = told.known,
        refused = told.refused,
        key_id = caller.key_id,
        "suppressions were imported"
    );
    view::ok(&ImportView { passed_over: passed_over.into_iter().collect(), ..told })
}

/// What a table can say of an entry beside the address, and what an export has beyond that.
const COLUMNS: [&str; 7] = ["kind", "reason", "source", "note", "id", "created_at", "created_by"];
const REQUESTED: usize = 4;

struct Import {
    door: Door,
    caller: Arc<Caller>,
    rows: Rows,
    is_table: bool,
    /// What lines say that do not say it themselves.
    usual: Map<String, Value>,
    told: ImportView,
    passed_over: BTreeSet<String>,
}

impl Import {
    async fn take(&mut self, mut stream: BodyDataStream) -> Result<(), Problem> {
        loop {
            let piece = timeout(self.door.0.patience.stream, body::piece(&mut stream)).await;
            let piece = piece.map_err(|_| body::too_slow())?.map_err(listing::broken_off)?;
            let Some(mut piece) = piece else { break };
            while !piece.is_empty() {
                let part = piece.split_to(piece.len().min(READ_BYTES));
                let mut rows = Vec::new();
                let read = self.rows.push(&part, &mut rows);
                self.store(rows).await?;
                read.map_err(listing::unreadable)?;
            }
        }
        let mut rows = Vec::new();
        let read = self.rows.finish(&mut rows);
        self.store(rows).await?;
        read.map_err(listing::unreadable)
    }

    async fn store(&mut self, rows: Vec<Row>) -> Result<(), Problem> {
        let mut wishes = Vec::with_capacity(rows.len());
        for row in rows {
            self.told.lines += 1;
            let line = row.line;
            match row.of.map_err(|refusal| refusal.reason).and_then(|(to, own)| self.wish(&to, own)) {
                Ok(wish) => wishes.push(wish.shelved(&self.door, &self.caller, self.door.now()).1),
                Err(reason) => self.told.refuse(line, reason),
            }
        }
        // A key that was taken away meanwhile, or is for some channels by now, ends the list.
        self.door.still_knows(&self.caller).await?.may_use_all()?;
        for shelved in self.door.store().shelve(wishes).await? {
            match shelved {
                Shelved::Done { .. } => self.told.added += 1,
                Shelved::Conflict(_) => self.told.known += 1,
            }
        }
        Ok(())
    }

    /// What a line wishes for. What keeps spreadsheets from computing a cell is no part of it.
    fn wish(&mut self, to: &str, own: Own) -> Result<Wish, String> {
        let mut entry = Map::new();
        for (name, value) in own {
            match COLUMNS.iter().position(|known| *known == name) {
                Some(place) if place < REQUESTED && !self.is_table => drop(entry.insert(name, value)),
                Some(place) if place < REQUESTED => {
                    // Of a cell with several lines it is the words that count.
                    let text = value.as_str().map(|text| alive(text).replace(char::is_control, " "));
                    entry.extend(text.map(|text| (name, text.into())));
                }
                Some(_) => {}
                None if self.passed_over.len() < COLUMNS_TOLD => {
                    self.passed_over.insert(name.chars().take(64).collect());
                }
                None => {}
            }
        }
        entry.retain(|_, value| !value.is_null());
        for (name, value) in &self.usual {
            entry.entry(name).or_insert_with(|| value.clone());
        }
        let to = alive(to);
        if let Some(kind) = self.rows.named().or_else(|| only_kind(to)) {
            entry.entry("kind").or_insert(kind.as_str().into());
        }
        let kind = entry.get("kind").and_then(Value::as_str).and_then(|kind| kind.parse::<Family>().ok());
        // One that is in its form already, as an export has it, stays whatever it is.
        let written = match kind.filter(|kind| kind.normalised(to).as_deref() != Some(to)) {
            Some(kind) => address(kind, to)?,
            None => to.to_owned(),
        };
        entry.insert("recipient".to_owned(), written.into());
        Wish::read(Fields::of(entry)).map_err(|problem| problem.detail.into_owned())
    }
}

/// The kind of an address that can be of one alone.
fn only_kind(to: &str) -> Option<Family> {
    let mut fit = Family::ALL.iter().filter(|kind| address(**kind, to).is_ok());
    fit.next().filter(|_| fit.next().is_none()).copied()
}

impl ImportView {
    fn refuse(&mut self, line: u64, reason: String) {
        self.refused += 1;
        if self.errors.len() < ERRORS_TOLD {
            self.errors.push(LineError { line, code: Code::InvalidField.as_str(), reason });
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
