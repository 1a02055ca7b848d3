//! Suppressions: who is not written to any more.

mod import;

use axum::body::Body;
use axum::response::Response;
use futures_util::stream;
use http::StatusCode;
use pombo_kernel::suppression::{Family, Reason, Suppression};
use pombo_kernel::time::Time;
use pombo_store::audit::Event;
use pombo_store::shelf::{Doc, Expect, Pick, Shelf, Shelve, Shelved, Wanted};
use pombo_store::transition::act_of;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

pub(crate) use self::import::ImportView;
pub(crate) use self::import::import;
use super::csv;
use super::fields::Fields;
use super::page::{Paging, Query, Wrong, after_cursor, page, yes_or_no};
use crate::auth::Caller;
use crate::problem::{Code, Problem};
use crate::route::Call;
use crate::suppression::{hidden_place, new_id, place, put, read};
use crate::veil::{self, REVEAL, Seen, Veil};
use crate::{Door, body, view};

const BODY_BYTES: usize = 16 * 1024;
const RECIPIENT_BYTES: usize = 320;
const SOURCE_BYTES: usize = 100;
const NOTE_BYTES: usize = 500;
/// Entries that are looked at for one page; those that do not match are passed over.
const LOOKED_AT: usize = 10_000;
const AT_ONCE: usize = 500;

/// Somebody who is not to be written to. The schema of the request; what is read is judged field by field.
#[derive(JsonSchema)]
#[allow(dead_code)]
pub(crate) struct SuppressionRequest {
    kind: Family,
    /// An e-mail address, or a phone number as people write it.
    #[schemars(length(min = 1, max = 320))]
    recipient: String,
    /// `manual` if left out.
    reason: Option<Reason>,
    /// Where it is known from.
    #[schemars(length(min = 1, max = 100))]
    source: Option<String>,
    #[schemars(length(min = 1, max = 500))]
    note: Option<String>,
}

/// An entry as callers read it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Suppression")]
pub(crate) struct SuppressionView {
    /// `sup_` and 32 hexadecimal digits.
    id: String,
    kind: Family,
    /// In one form, however it was written.
    recipient: String,
    reason: Reason,
    /// Where it is known from.
    source: Option<String>,
    note: Option<String>,
    created_at: Time,
    created_by: String,
}

impl SuppressionView {
    fn of(kept: Suppression, veil: Veil) -> SuppressionView {
        let Suppression { id, kind, recipient, reason, source, note, created_at, created_by } =
            seen(kept, veil);
        SuppressionView { id, kind, recipient, reason, source, note, created_at, created_by }
    }
}

/// An entry as that caller sees it.
fn seen(kept: Suppression, veil: Veil) -> Suppression {
    let words = |text: &String| veil.words(text).into_owned();
    Suppression {
        recipient: veil.recipient(None, &kept.recipient).into_owned(),
        source: kept.source.as_ref().map(words),
        note: kept.note.as_ref().map(words),
        ..kept
    }
}

/// What somebody wants to have on the list.
struct Wish {
    kind: Family,
    recipient: String,
    reason: Reason,
    source: Option<String>,
    note: Option<String>,
}

impl Wish {
    fn read(mut fields: Fields) -> Result<Wish, Problem> {
        let kind = word::<Family>(&mut fields, "kind", Family::ALL, Family::as_str);
        let recipient = fields.line("recipient", RECIPIENT_BYTES);
        let reason = word::<Reason>(&mut fields, "reason", Reason::ALL, Reason::as_str);
        let source = fields.line("source", SOURCE_BYTES);
        let note = fields.line("note", NOTE_BYTES);
        if kind.is_none() {
            fields.missing("kind", "email or whatsapp");
        }
        let normalised = kind.zip(recipient.as_ref()).map(|(kind, recipient)| kind.normalised(recipient));
        match normalised {
            Some(None) => fields.wrong("recipient", NO_RECIPIENT.0, NO_RECIPIENT.1),
            None if recipient.is_none() => fields.missing("recipient", NO_RECIPIENT.1),
            _ => {}
        }
        fields.end()?;
        let (Some(kind), Some(recipient)) = (kind, normalised.flatten()) else {
            return Err(Problem::internal());
        };
        Ok(Wish { kind, recipient, reason: reason.unwrap_or(Reason::Manual), source, note })
    }

    /// A wish to put it there, if it is not there yet.
    fn shelved(self, door: &Door, caller: &Caller, now: Time) -> (Suppression, Shelve) {
        let Wish { kind, recipient, reason, source, note } = self;
        let (id, created_by) = (new_id(door.entropy()()), caller.actor().0);
        let kept = Suppression { id, kind, recipient, reason, source, note, created_at: now, created_by };
        let wish = put(&caller.tenant, &kept);
        (kept, wish)
    }
}

const NO_RECIPIENT: (&str, &str) =
    ("is not an address of this kind", "write for example ana@clinica.example, or +55 11 98765-4321");

fn word<T: std::str::FromStr + Copy>(
    fields: &mut Fields,
    field: &'static str,
    all: &[T],
    name: fn(T) -> &'static str,
) -> Option<T> {
    let text = fields.line(field, 32)?;
    let found = text.parse().ok();
    if found.is_none() {
        let (reason, hint) = not_one_of(all, name);
        fields.wrong(field, reason, hint);
    }
    found
}

fn not_one_of<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> Wrong {
    let names: Vec<&str> = all.iter().map(|it| name(*it)).collect();
    ("is not one that there is".to_owned(), format!("one of {}", names.join(", ")))
}

/// Entries that match every given filter, newest first; with `recipient` those on that person.
pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    call.caller.may_use_all()?;
    let mut paging = Paging::read(&call.head.uri, &["kind", "reason", "recipient", REVEAL])?;
    let mut after = paging.after()?;
    let (kind, reason) = filters(&mut paging.query);
    let recipient = paging.query.take("recipient", |text| Ok(text.to_owned()));
    let reveal = paging.query.take(REVEAL, yes_or_no);
    let Paging { limit, query, .. } = paging;
    let filters = query.filters();
    query.end()?;
    let sight = veil::Sight::of(&call.door, &call.caller, reveal)?;
    let shown = async |found: Vec<Suppression>, next| {
        let seen = Seen { what: "suppressions", filters, count: Some(found.len() as u64), ..Seen::default() };
        let veil = sight.seen(&call.door, &call.caller, seen).await?;
        page(found.into_iter().map(|it| SuppressionView::of(it, veil)).collect::<Vec<_>>(), next)
    };
    let matches = |it: &Suppression| {
        kind.is_none_or(|kind| it.kind == kind) && reason.is_none_or(|reason| it.reason == reason)
    };
    let (door, tenant) = (&call.door, &call.caller.tenant);
    if let Some(recipient) = recipient {
        let mut found = Vec::new();
        for family in Family::ALL {
            let Some(normalised) = family.normalised(&recipient) else { continue };
            let places =
                [place(*family, &normalised), hidden_place(door.store(), tenant, *family, &normalised)];
            for place in places {
                let doc = door.store().doc(Shelf::Suppression, tenant.clone(), place).await?;
                found.extend(doc.as_ref().and_then(read).filter(matches));
            }
        }
        return shown(found, None).await;
    }
    let (mut found, mut looked) = (Vec::new(), 0);
    let next = loop {
        let docs = some(door, &call.caller, after.take()).await?;
        let ended = docs.len() < AT_ONCE;
        for doc in &docs {
            looked += 1;
            after = Some((doc.leaf.order, doc.id.clone()));
            found.extend(read(doc).filter(matches));
            if found.len() == limit {
                break;
            }
        }
        let all_read = after.as_ref().map(|(_, id)| id) == docs.last().map(|doc| &doc.id);
        if ended && all_read {
            break None;
        }
        if found.len() == limit || looked >= LOOKED_AT {
            break after.map(|(order, id)| after_cursor(order, &id));
        }
    };
    shown(found, next).await
}

fn filters(query: &mut Query) -> (Option<Family>, Option<Reason>) {
    let kind = query.take("kind", |text| text.parse().map_err(|_| not_one_of(Family::ALL, Family::as_str)));
    let reason =
        query.take("reason", |text| text.parse().map_err(|_| not_one_of(Reason::ALL, Reason::as_str)));
    (kind, reason)
}

/// The next entries of the list.
async fn some(door: &Door, caller: &Caller, after: Option<(i64, String)>) -> Result<Vec<Doc>, Problem> {
    let (tenant, pick) = (Some(caller.tenant.clone()), Pick::All { after });
    Ok(door.store().docs(Wanted { shelf: Shelf::Suppression, tenant, pick, limit: AT_ONCE }).await?)
}

/// Puts somebody on the list: 201, or 200 with the entry that is there already and stays as it is.
pub(crate) async fn create(call: Call) -> Result<Response, Problem> {
    call.caller.may_use_all()?;
    let Call { door, caller, head, body, .. } = call;
    let wish = Wish::read(Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?)?;
    // Somebody who was erased is there already, and is not named again.
    let place = hidden_place(door.store(), &caller.tenant, wish.kind, &wish.recipient);
    let hidden = door.store().doc(Shelf::Suppression, caller.tenant.clone(), place).await?;
    let (kept, wish) = wish.shelved(&door, &caller, door.now());
    let shelved = match hidden {
        Some(hidden) => Some(Shelved::Conflict(Some(hidden))),
        None => door.store().shelve(vec![wish]).await?.pop(),
    };
    let (status, kept) = match shelved.ok_or_else(Problem::internal)? {
        Shelved::Done { .. } => {
            tracing::info!(suppression_id = kept.id, key_id = caller.key_id, "a recipient was suppressed");
            (StatusCode::CREATED, kept)
        }
        Shelved::Conflict(there) => {
            (StatusCode::OK, there.as_ref().and_then(read).ok_or_else(Problem::internal)?)
        }
    };
    let document = serde_json::to_vec(&SuppressionView::of(kept, Veil::of(&caller, &door.setup())))
        .map_err(|_| Problem::internal())?;
    Ok(view::answer(status, document))
}

/// Takes an entry off the list: whoever it is about can be written to again.
pub(crate) async fn remove(call: Call) -> Result<Response, Problem> {
    call.caller.may_use_all()?;
    let (door, caller) = (&call.door, &call.caller);
    let missing = || {
        let hint = "GET /v1/suppressions and `pombo suppressions list` show them";
        Problem::new(Code::NotFound, "there is no suppression with this id", hint)
    };
    let pick = Pick::Topic { topic: call.name.clone(), after: None };
    let tenant = Some(caller.tenant.clone());
    let found = door.store().docs(Wanted { shelf: Shelf::Suppression, tenant, pick, limit: 1 }).await?.pop();
    let doc = found.ok_or_else(missing)?;
    let kept = read(&doc).ok_or_else(missing)?;
    let detail = json!({"suppression": kept.id, "kind": kept.kind, "reason": kept.reason});
    let record = act_of(Event::SuppressionRemoved, &caller.tenant, &caller.actor(), &detail, door.now());
    let wish = Shelve {
        shelf: Shelf::Suppression,
        tenant: caller.tenant.clone(),
        id: doc.id,
        expect: Expect::Version(doc.version),
        leaf: None,
        record: Some(record),
    };
    match door.store().shelve(vec![wish]).await?.pop() {
        Some(Shelved::Done { .. }) => {}
        // Somebody was faster.
        _ => return Err(missing()),
    }
    tracing::info!(suppression_id = kept.id, key_id = caller.key_id, "a suppression was removed");
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

/// The whole list as CSV, newest first, as it is read; what is put there meanwhile may be missing.
pub(crate) async fn export(call: Call) -> Result<Response, Problem> {
    const HEAD: &str = "id,kind,recipient,reason,source,note,created_at,created_by\r\n";
    call.caller.may_use_all()?;
    let sight = veil::Sight::read(&call.door, &call.caller, &call.head.uri)?;
    // Whatever is wrong with the store is told before the first byte.
    let first = some(&call.door, &call.caller, None).await?;
    let what = Seen { what: "suppressions", ..Seen::default() };
    let veil = sight.seen(&call.door, &call.caller, what).await?;
    let (door, caller) = (call.door, call.caller);
    let rest = stream::unfold(Some(Ok(first)), move |docs: Option<Result<Vec<Doc>, Problem>>| {
        let (door, caller) = (door.clone(), caller.clone());
        async move {
            let docs = match docs? {
                Ok(docs) => docs,
                Err(problem) => return Some((Err(problem), None)),
            };
            let text =
                docs.iter().filter_map(read).map(|it| import::csv_line(&seen(it, veil))).collect::<String>();
            let last = docs.last().filter(|_| docs.len() == AT_ONCE);
            let next = match last.map(|last| (last.leaf.order, last.id.clone())) {
                None => None,
                Some(after) => Some(some(&door, &caller, Some(after)).await),
            };
            Some((Ok(text), next))
        }
    });
    Ok(csv::file("suppressions.csv", HEAD, rest))
}
