//! Many records at once, in order, as a file that is written while it is read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::response::Response;
use futures_util::stream;
use pombo_kernel::setup::Setup;
use pombo_store::audit::{Block, Event, records};
use pombo_store::transition::act_of;
use serde::Serialize;
use serde_json::{Value, json};

use super::RecordView;
use super::ask::{Ask, FILTERS, Scope};
use crate::Door;
use crate::api::csv;
use crate::api::page::Query;
use crate::auth::Caller;
use crate::key::hex;
use crate::problem::{Code, Problem};
use crate::route::Call;
use crate::shelf;

const HEAD: &str = "position,at,event,type,message,from,to,channel,actor,detail\r\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Ndjson,
    Csv,
}

/// A record with its place in the chain.
#[derive(Serialize)]
struct Linked<'a> {
    #[serde(flatten)]
    record: RecordView,
    /// The sequence of its block, and the block's hash.
    block: u64,
    hash: &'a str,
}

/// Records that match every given filter, oldest first. That somebody took them is itself a record.
pub(crate) async fn export(call: Call) -> Result<Response, Problem> {
    let mut query = Query::read(&call.head.uri, &[&FILTERS[..], &["format"]].concat())?;
    let ask = Ask::read(&mut query, &call.caller)?;
    let format = query.take("format", |text| match text {
        "ndjson" => Ok(Format::Ndjson),
        "csv" => Ok(Format::Csv),
        _ => Err(("is not a format".to_owned(), "ndjson or csv".to_owned())),
    });
    query.end()?;
    let format = format.unwrap_or(Format::Ndjson);
    let Call { door, caller, .. } = call;
    let Some(seat) = door.0.followers.take(&caller.tenant) else {
        let hint = "let an export or a stream of events end, or come back after the time in Retry-After";
        let detail = "as many streams are open already as this tenant may have beside others";
        return Err(Problem::new(Code::Overloaded, detail, hint));
    };
    let end = *door.store().watch().borrow();
    let shown = ask.shown();
    let scope = ask.scope(door.store(), &caller, end).await?;
    note(&door, &caller, format, shown).await?;
    let setup = door.setup();
    // Whatever is wrong with the store is told before the first byte.
    let next = match &scope {
        None => None,
        Some(scope) => Some(block_of(&door, scope.start).await?),
    };
    let taking = Taking { door, caller, setup, scope, format, next, _seat: seat };
    let rest = stream::unfold(taking, |mut taking| async move {
        match taking.piece().await {
            Ok(None) => None,
            Ok(Some(text)) => Some((Ok(text), taking)),
            Err(problem) => {
                taking.next = None;
                Some((Err(problem), taking))
            }
        }
    });
    Ok(match format {
        Format::Csv => csv::file("audit.csv", HEAD, rest),
        Format::Ndjson => csv::streamed("audit.ndjson", "application/x-ndjson", "", rest),
    })
}

/// An export that is under way.
struct Taking {
    door: Door,
    caller: Arc<Caller>,
    setup: Arc<Setup>,
    scope: Option<Scope>,
    format: Format,
    /// The block that comes next; none at the end.
    next: Option<u64>,
    _seat: crate::seats::Seat,
}

impl Taking {
    /// The lines of the next blocks; nothing at the end.
    async fn piece(&mut self) -> Result<Option<String>, Problem> {
        let (Some(from), Some(scope)) = (self.next, &self.scope) else { return Ok(None) };
        // A key that was taken away meanwhile, or is for fewer channels by now, is told no more than that.
        self.caller = self.door.still_knows(&self.caller).await?;
        let store = self.door.store();
        let blocks = store.chain(from, usize::MAX).await?;
        let mut text = String::new();
        for block in &blocks {
            if block.position >= scope.end {
                break;
            }
            let found = records(block.position, &block.entries);
            let found = found.filter(|(position, _)| (scope.start..scope.end).contains(position)).collect();
            let kept = scope.keep(store, found, &self.caller, &self.setup).await?;
            let views = kept.into_iter().map(|(position, record)| RecordView::of(position, record));
            write(&mut text, self.format, block, views);
        }
        self.next = blocks.last().filter(|last| last.position < scope.end).map(|last| last.sequence + 1);
        Ok(Some(text))
    }
}

fn write(text: &mut String, format: Format, block: &Block, views: impl Iterator<Item = RecordView>) {
    let hash = hex(&block.hash);
    for record in views {
        // Writing into memory cannot fail.
        let _ = match format {
            Format::Ndjson => {
                let linked = Linked { record, block: block.sequence, hash: &hash };
                writeln!(text, "{}", serde_json::to_string(&linked).unwrap_or_default())
            }
            Format::Csv => {
                let RecordView { position, at, event, r#type, message, from, to, channel, actor, detail } =
                    record;
                let message = message.unwrap_or_default();
                let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
                let channel = channel.unwrap_or_default();
                let (actor, detail) = (csv::inert(&actor).into_owned(), Value::Object(detail).to_string());
                let detail = csv::inert(&detail);
                write!(
                    text,
                    "{position},{at},{event},{},{message},{from},{to},{channel},{actor},{detail}\r\n",
                    r#type
                )
            }
        };
    }
}

/// The sequence of the block that holds a position, by halves.
async fn block_of(door: &Door, position: u64) -> Result<u64, Problem> {
    // No block is without a record.
    let (mut low, mut high) = (0, position);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        match door.store().chain(middle, 1).await?.first() {
            Some(block) if block.position <= position => low = middle,
            _ => high = middle - 1,
        }
    }
    Ok(low)
}

/// Writes down that somebody takes records, before there are any.
async fn note(
    door: &Door,
    caller: &Caller,
    format: Format,
    filters: BTreeMap<&'static str, Value>,
) -> Result<(), Problem> {
    let format = match format {
        Format::Ndjson => "ndjson",
        Format::Csv => "csv",
    };
    let detail = json!({"what": "audit", "format": format, "filters": filters});
    let record = act_of(Event::Exported, &caller.tenant, &caller.actor(), &detail, door.now());
    shelf::note(door.store(), &caller.tenant, record).await?;
    tracing::info!(key_id = caller.key_id, "the audit was exported");
    Ok(())
}
