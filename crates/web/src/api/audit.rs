//! The audit: what happened, by whom, and whether the record of it is whole. There is no way to change anything in it.

mod ask;
mod export;

use axum::response::Response;
use pombo_kernel::message::StateName;
use pombo_kernel::time::Time;
use pombo_store::anchor;
use pombo_store::audit::{Record, Tip, Walk};
use pombo_store::shelf::Doc;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use self::ask::{Ask, FILTERS};
pub(crate) use self::export::export;
use super::page::{Paging, Query, bad_cursor, page};
use crate::event;
use crate::key::hex;
use crate::problem::Problem;
use crate::route::Call;
use crate::view;

/// Records that are read at once, and where few of many are wanted.
const AT_ONCE: u64 = 500;
const AT_ONCE_OF_MANY: u64 = 2_500;
/// Records that are looked at for one page; those that do not match are passed over.
const LOOKED_AT: u64 = 10_000;

/// One record, as callers read it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AuditRecord")]
pub(crate) struct RecordView {
    /// Its place among all records, which is also the id of its event.
    position: u64,
    at: Time,
    /// What happened, by the name that the audit has for it.
    event: &'static str,
    /// The type under which it is told as an event.
    r#type: &'static str,
    message: Option<String>,
    /// The state that the message was in.
    from: Option<&'static str>,
    to: Option<&'static str>,
    channel: Option<String>,
    /// `pombo`, or who did it.
    actor: String,
    detail: Map<String, Value>,
}

impl RecordView {
    fn of(position: u64, record: Record) -> RecordView {
        let detail = match serde_json::from_str(&record.detail) {
            Ok(Value::Object(detail)) => detail,
            _ => Map::new(),
        };
        RecordView {
            position,
            at: record.at,
            event: record.event.as_str(),
            r#type: event::kind(record.event),
            message: record.message.map(|id| id.to_string()),
            from: record.from.map(StateName::as_str),
            to: record.to.map(StateName::as_str),
            channel: Some(record.channel).filter(|channel| !channel.is_empty()),
            actor: record.actor,
            detail,
        }
    }
}

/// Records that match every given filter, newest first.
///
/// Those of one message are found by what the store knows of it, for as long as it has it. Otherwise a page looks at a
/// bounded number of records, so that no filter can hold up the store: it may be short, even empty, and still have a next
/// one.
pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let mut paging = Paging::read(&call.head.uri, &FILTERS)?;
    let from = paging.cursor.as_deref().map(|text| place(text).ok_or_else(bad_cursor)).transpose()?;
    let ask = Ask::read(&mut paging.query, &call.caller)?;
    let Paging { limit, query, .. } = paging;
    query.end()?;
    let (store, setup) = (call.door.store(), call.door.setup());
    let end = *store.watch().borrow();
    let at = from.unwrap_or(u64::MAX).min(end);
    if let Some(found) = ask.of_one(store, &call.caller, &setup, at, limit).await? {
        let views =
            found.records.into_iter().rev().map(|(position, record)| RecordView::of(position, record));
        return page(views.collect(), found.next.map(before));
    }
    let Some(scope) = ask.scope(store, &call.caller, end).await? else {
        return page::<RecordView>(Vec::new(), None);
    };
    let mut at = at.min(scope.end);
    let most = if scope.looks_up() { AT_ONCE } else { LOOKED_AT };
    let at_once = if scope.is_of_messages() { AT_ONCE_OF_MANY } else { AT_ONCE };
    let (mut found, mut looked) = (Vec::new(), 0);
    while found.len() < limit && looked < most && at > scope.start {
        let from = at.saturating_sub(at_once).max(scope.start);
        let records = store.audit(from, usize::try_from(at - from).unwrap_or(usize::MAX)).await?;
        let records = records.into_iter().filter(|(position, _)| *position < at).collect();
        let mut kept = scope.keep(store, records, &call.caller, &setup).await?;
        looked += at - from;
        at = from;
        // Those that have no place on this page are the first of the next one.
        let over = kept.len().saturating_sub(limit - found.len());
        if let Some((last, _)) = kept.drain(..over).next_back() {
            at = last + 1;
        }
        found.extend(kept.into_iter().rev().map(|(position, record)| RecordView::of(position, record)));
    }
    page(found, (at > scope.start).then(|| before(at)))
}

const BEFORE: &str = "position_";

/// The cursor of a page that goes on before that position.
fn before(position: u64) -> String {
    format!("{BEFORE}{position:016x}")
}

fn place(text: &str) -> Option<u64> {
    let digits = text.strip_prefix(BEFORE).filter(|digits| digits.len() == 16)?;
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u64::from_str_radix(digits, 16).ok())?
}

/// How far the chain was found to hold.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AuditVerification")]
pub(crate) struct WalkView {
    /// Blocks that were looked at, from the first of all.
    blocks: u64,
    /// Records in them.
    records: u64,
    /// The hash of the last of them.
    hash: String,
    /// How many records there are, as far as is known.
    of: u64,
    /// Where the chain does not hold; null as long as it does.
    broken: Option<BreakView>,
    /// To be given back as `cursor` for what comes next; null at the end, and where it is broken.
    next_cursor: Option<String>,
}

/// Where the chain does not hold.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AuditBreak")]
pub(crate) struct BreakView {
    block: u64,
    reason: &'static str,
}

/// Checks a piece of the chain, from its start or from where an earlier piece ended.
pub(crate) async fn verify(call: Call) -> Result<Response, Problem> {
    let mut query = Query::read(&call.head.uri, &["cursor", "until"])?;
    let cursor = query.take("cursor", |text| Ok(text.to_owned()));
    let until = query.take("until", |text| {
        let hint = "give the number of a block".to_owned();
        text.parse::<u64>().map_err(|_| ("is not a number".to_owned(), hint))
    });
    query.end()?;
    let tip = cursor.as_deref().map_or(Some(Tip::default()), reached).ok_or_else(bad_cursor)?;
    let mut walk = Walk { tip, broken: None };
    let max = until.map_or(u64::MAX, |until| until.saturating_sub(tip.sequence));
    let store = call.door.store();
    let on = walk.on(&store.chain(tip.sequence, usize::try_from(max).unwrap_or(usize::MAX)).await?);
    let Tip { sequence, position, hash } = walk.tip;
    view::ok(&WalkView {
        blocks: sequence,
        records: position,
        hash: hex(&hash),
        of: (*store.watch().borrow()).max(position),
        broken: walk.broken.map(|broken| BreakView { block: broken.block, reason: broken.what }),
        next_cursor: on.then(|| format!("{TIP}{sequence:016x}{position:016x}{}", hex(&hash))),
    })
}

const TIP: &str = "tip_";

fn reached(text: &str) -> Option<Tip> {
    let digits = text.strip_prefix(TIP).filter(|digits| digits.len() == 96 && digits.is_ascii())?;
    let number = |digits: &str| {
        let hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
        hex.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
    };
    let hash: anchor::Hex<32> = digits[32..].parse().ok()?;
    Some(Tip { sequence: number(&digits[..16])?, position: number(&digits[16..32])?, hash: hash.0 })
}

/// A signed end of the chain.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AuditAnchor")]
pub(crate) struct AnchorView {
    /// Anchors are counted from 1.
    number: u64,
    /// How many blocks the chain had.
    sequence: u64,
    /// How many records.
    position: u64,
    /// The hash of its last block.
    hash: String,
    at: Time,
    /// The public key, Ed25519, in hexadecimal digits.
    key: String,
    signature: String,
}

/// The signed ends of the chain, newest first.
pub(crate) async fn anchors(call: Call) -> Result<Response, Problem> {
    let paging = Paging::read(&call.head.uri, &[])?;
    let from = paging.cursor.as_deref().map(|text| place(text).ok_or_else(bad_cursor)).transpose()?;
    let limit = paging.limit;
    paging.query.end()?;
    let docs = call.door.store().docs(anchor::before(from, limit + 1)).await?;
    let found: Vec<AnchorView> = docs.iter().take(limit).filter_map(seen).collect();
    let more = docs.len() > limit && docs.get(limit).is_some_and(|doc| anchor::read(doc).is_some());
    let next = found.last().filter(|_| more).map(|last| before(last.number));
    page(found, next)
}

fn seen(doc: &Doc) -> Option<AnchorView> {
    let (number, anchor) = anchor::read(doc)?;
    Some(AnchorView {
        number,
        sequence: anchor.sequence,
        position: anchor.position,
        hash: anchor.hash.to_string(),
        at: anchor.at,
        key: anchor.key.to_string(),
        signature: anchor.signature.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_survive_the_journey_and_others_are_refused() {
        for at in [0, 1, u64::MAX] {
            assert_eq!(place(&format!("{BEFORE}{at:016x}")), Some(at));
        }
        let tip = Tip { sequence: 3, position: u64::MAX, hash: [0xa5; 32] };
        let text = format!("{TIP}{:016x}{:016x}{}", tip.sequence, tip.position, hex(&tip.hash));
        assert_eq!(reached(&text), Some(tip));
        let long = format!("{TIP}{}", "g".repeat(96));
        let wide = format!("{TIP}{}", "é".repeat(48));
        for bad in ["", "position_", "position_+000000000000001", "tip_", "tip_00", &long, &wide] {
            assert_eq!((place(bad), reached(bad)), (None, None), "{bad}");
        }
    }
}
