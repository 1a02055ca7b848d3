//! Operations: work that outlasts the request that asked for it. Doors write it down; a node does it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use pombo_kernel::message::Idempotency;
use pombo_kernel::name::ChannelName;
use pombo_kernel::operation::{Found, Kind, Operation, Stage, State};
use pombo_kernel::time::Time;
use pombo_store::shelf::{Doc, Pick, Shelf, Shelved, Wanted};
use schemars::JsonSchema;
use serde::Serialize;

use super::channels::own_channel;
use super::fields::Fields;
use super::news::News;
use super::page::{Paging, page};
use super::privacy::ErasureView;
use crate::auth::{Access, Caller};
use crate::key::hex;
use crate::problem::{Code, Problem};
use crate::route::Call;
use crate::veil::Veil;
use crate::{Door, body, idempotency, operation, shelf, view};

const BODY_BYTES: usize = 16 * 1024;
/// Ids that were taken by chance are drawn again so often.
const TRIES: u32 = 20;

/// Work on many dead letters, on a channel, or on everything of one person.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Operation")]
pub(crate) struct OperationView<'a> {
    /// `opr_` and 32 hexadecimal digits.
    id: &'a str,
    kind: Kind,
    #[schemars(extend("enum" = ["running", "done", "cancelled", "halted"]))]
    state: &'static str,
    /// What a running one is at: `canary`, `watching`, `rest`, `probing` or `erasing`.
    stage: Option<&'static str>,
    /// Why it halted.
    reason: Option<&'a str>,
    /// Which dead letters it is about.
    filter: BTreeMap<&'a str, Cow<'a, str>>,
    /// The channel that is tested.
    channel: Option<&'a ChannelName>,
    note: Option<Cow<'a, str>>,
    /// Who asked for it.
    by: &'a str,
    cancelled_by: Option<&'a str>,
    rate_per_minute: Option<u32>,
    /// How many letters go first, alone.
    canary: u32,
    /// The ids of those that went first and are being watched.
    watched: Vec<String>,
    /// How many letters there were, where that was counted.
    total: Option<u64>,
    done: u64,
    /// Letters that were no longer dead when their turn came.
    skipped: u64,
    /// What was removed, by channel and state, where messages are.
    counts: &'a BTreeMap<String, u64>,
    /// What a test has found.
    result: Option<&'a Found>,
    /// Whose data is erased, and what of it was.
    erasure: Option<ErasureView<'a>>,
    created_at: Time,
    /// When it goes on.
    next_at: Option<Time>,
    finished_at: Option<Time>,
}

impl<'a> OperationView<'a> {
    fn of(id: &'a str, operation: &'a Operation, veil: Veil) -> OperationView<'a> {
        let (mut stage, mut reason, mut cancelled_by, mut finished) = (None, None, None, None);
        match &operation.state {
            State::Running { stage: at, .. } => stage = Some(at),
            State::Done { finished_at } => finished = Some(*finished_at),
            State::Cancelled { finished_at, cancelled_by: by } => {
                (finished, cancelled_by) = (Some(*finished_at), Some(by.0.as_str()));
            }
            State::Halted { finished_at, reason: why } => {
                (finished, reason) = (Some(*finished_at), Some(why.as_str()));
            }
        }
        let watched = match stage {
            Some(Stage::Watching(canaries)) => canaries.iter().map(|it| it.id.to_string()).collect(),
            _ => Vec::new(),
        };
        let seen = |(name, value): (&'a String, &'a String)| match name.as_str() {
            "recipient" => (name.as_str(), veil.recipient(None, value)),
            name => (name, Cow::from(value)),
        };
        let filter = operation.filter.iter().map(seen).collect();
        OperationView {
            id,
            kind: operation.kind,
            state: operation.state.as_str(),
            stage: stage.map(Stage::as_str),
            reason,
            filter,
            channel: operation.channel.as_ref(),
            note: operation.note.as_deref().map(|note| veil.words(note)),
            by: &operation.by.0,
            cancelled_by,
            rate_per_minute: operation.rate_per_minute,
            canary: operation.canary,
            watched,
            total: operation.total,
            done: operation.done,
            skipped: operation.skipped,
            counts: &operation.counts,
            result: operation.found.as_ref(),
            erasure: operation.erasure.as_deref().map(ErasureView::of),
            created_at: operation.created_at,
            next_at: operation.due(),
            finished_at: finished,
        }
    }
}

/// An operation that was written down, now or by an earlier request with the same key.
pub(crate) struct Begun {
    pub(crate) id: String,
    operation: Operation,
    /// It was an earlier request.
    pub(super) replayed: bool,
    veil: Veil,
}

impl Begun {
    /// 202 with the operation, and where to follow it.
    pub(crate) fn answer(&self) -> Result<Response, Problem> {
        let document = serde_json::to_vec(&OperationView::of(&self.id, &self.operation, self.veil));
        let mut response = view::answer(StatusCode::ACCEPTED, document.map_err(|_| Problem::internal())?);
        let headers = response.headers_mut();
        if let Ok(place) = HeaderValue::from_str(&format!("/v1/operations/{}", self.id)) {
            headers.insert(header::LOCATION, place);
        }
        Ok(if self.replayed { idempotency::replayed(response) } else { response })
    }
}

/// Writes an operation down; a node that has the role for it does it. The same key and request again are the same
/// operation.
pub(crate) async fn begin(
    door: &Door,
    caller: &Caller,
    key: Option<Idempotency>,
    operation: Operation,
) -> Result<Begun, Problem> {
    let (tenant, veil) = (&caller.tenant, Veil::of(caller, &door.setup()));
    let operation = Operation { request: key.as_ref().map(|key| hex(&key.fingerprint)), ..operation };
    for _ in 0..TRIES {
        let id = match &key {
            Some(key) => id_of_key(tenant.as_str(), &key.key),
            None => {
                let at = operation.created_at.millis() & 0xffff_ffff_ffff;
                format!("opr_{at:012x}{}", hex(&door.entropy()()[..10]))
            }
        };
        let wish = operation::begin(tenant, id.clone(), &operation);
        match door.store().shelve(vec![wish]).await?.pop().ok_or_else(Problem::internal)? {
            Shelved::Done { .. } => {
                let kind = operation.kind.as_str();
                tracing::info!(operation_id = id, kind, key_id = caller.key_id, "an operation was started");
                return Ok(Begun { id, operation, replayed: false, veil });
            }
            Shelved::Conflict(Some(found)) if key.is_some() => {
                return repeated(&found, operation.request.as_ref(), operation.kind, veil);
            }
            // Somebody has that id, by chance.
            Shelved::Conflict(_) => {}
        }
    }
    Err(Problem::internal())
}

/// What an earlier request with the same key has begun, if there was one.
pub(super) async fn earlier(
    door: &Door,
    caller: &Caller,
    key: &Idempotency,
    kind: Kind,
) -> Result<Option<Begun>, Problem> {
    let (tenant, id) = (&caller.tenant, id_of_key(caller.tenant.as_str(), &key.key));
    let found = door.store().doc(Shelf::Operation, tenant.clone(), id).await?;
    let veil = Veil::of(caller, &door.setup());
    found.map(|found| repeated(&found, Some(&hex(&key.fingerprint)), kind, veil)).transpose()
}

/// The operation that is there already, if it is what the same request asked for.
fn repeated(found: &Doc, request: Option<&String>, kind: Kind, veil: Veil) -> Result<Begun, Problem> {
    let same = |it: &Operation| it.request.as_ref() == request && it.kind == kind;
    match operation::read(found).filter(same) {
        Some(operation) => Ok(Begun { id: found.id.clone(), operation, replayed: true, veil }),
        None => Err(idempotency::conflict("which did something else")),
    }
}

/// The one id that a key can have, whatever was done under it.
pub(crate) fn id_of_key(tenant: &str, key: &str) -> String {
    format!("opr_{}", &idempotency::place(&[tenant, key])[..32])
}

/// Operations, the newest first.
pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let paging = Paging::read(&call.head.uri, &[])?;
    let pick = Pick::All { after: paging.after()? };
    let tenant = Some(call.caller.tenant.clone());
    let limit = paging.limit + 1;
    let found = call.door.store().docs(Wanted { shelf: Shelf::Operation, tenant, pick, limit }).await?;
    let (docs, next) = paging.cut(found);
    paging.query.end()?;
    let read = docs.iter().filter_map(|doc| Some((doc, operation::read(doc)?)));
    let seen: Vec<_> = read.filter(|(_, operation)| is_for(&call.caller, operation)).collect();
    let veil = Veil::of(&call.caller, &call.door.setup());
    let items = seen.iter().map(|(doc, operation)| OperationView::of(&doc.id, operation, veil));
    page(items.collect::<Vec<_>>(), next)
}

/// One operation, with how far it has come.
pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    let (doc, operation) = own(&call.door, &call.caller, &call.name).await?;
    view::ok(&OperationView::of(&doc.id, &operation, Veil::of(&call.caller, &call.door.setup())))
}

/// Ends an operation. What it did stays done.
pub(crate) async fn cancel(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, name } = call;
    Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?.end()?;
    let (doc, operation) = own(&door, &caller, &name).await?;
    if matches!(operation.kind, Kind::Erase | Kind::Prune) {
        caller.may(Access::Administer)?;
    }
    let (by, now) = (caller.actor(), door.now());
    // Whoever works on it may be faster: then what is there by then is cancelled.
    let operation = shelf::change(door.store(), Some(doc), |doc| {
        let found = doc.and_then(|doc| Some((doc, operation::read(doc)?)));
        let (doc, operation) = found.ok_or_else(missing)?;
        if !operation.is_running() {
            let state = operation.state.as_str();
            let hint = "nothing is left to do: it has ended";
            let problem = Problem::new(Code::NotCancellable, format!("the operation is {state}"), hint);
            return Err(Problem { state: Some(state), ..problem });
        }
        let operation = operation.cancelled(by.clone(), now);
        Ok((Some(operation::change(doc, &operation, &by, now)), operation))
    })
    .await?;
    tracing::info!(operation_id = name, key_id = caller.key_id, "an operation was cancelled");
    view::ok(&OperationView::of(&name, &operation, Veil::of(&caller, &door.setup())))
}

/// What a test of a channel has found, in time.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChannelTest")]
pub(crate) struct TestView<'a> {
    #[serde(flatten)]
    found: &'a Found,
    /// The operation that it was.
    operation: &'a str,
}

/// Asks a channel's provider how it is, through a node that can send to it.
///
/// 200 with what was found in time, else 202 with the operation.
pub(crate) async fn test_channel(call: Call) -> Result<Response, Problem> {
    let channel = own_channel(&call)?;
    let Call { door, caller, head, body, .. } = call;
    let text = body::json(&door, &head.headers, body, BODY_BYTES).await?;
    Fields::read(&text)?.end()?;
    let now = door.now();
    let wanted = Operation {
        channel: Some(channel.name.clone()),
        ..Operation::new(Kind::TestChannel, Stage::Probing, caller.actor(), now)
    };
    let key = idempotency::header(&head.headers)?;
    let key = key.map(|key| idempotency::of(key, channel.name.as_str().as_bytes()));
    let begun = begin(&door, &caller, key, wanted).await?;
    let ended = tokio::time::timeout(door.0.patience.test, ended(&door, &caller, &begun.id)).await;
    match ended {
        Err(_) => begun.answer(),
        Ok(Ok(operation)) => match &operation.found {
            Some(found) => view::ok(&TestView { found, operation: &begun.id }),
            None => Begun { operation, ..begun }.answer(),
        },
        Ok(Err(problem)) => Err(problem),
    }
}

/// Waits until an operation has ended.
async fn ended(door: &Door, caller: &Caller, id: &str) -> Result<Operation, Problem> {
    let mut news = News::of(door);
    loop {
        news.mark();
        let (_, operation) = own(door, caller, id).await?;
        if !operation.is_running() {
            return Ok(operation);
        }
        news.next().await?;
    }
}

fn missing() -> Problem {
    let hint = "GET /v1/operations and `pombo operations list` show them";
    Problem::new(Code::NotFound, "there is no operation with this id", hint)
}

async fn own(door: &Door, caller: &Caller, id: &str) -> Result<(Doc, Operation), Problem> {
    if !id.starts_with("opr_") || id.len() > 100 {
        return Err(missing());
    }
    let found = door.store().doc(Shelf::Operation, caller.tenant.clone(), id.to_owned()).await?;
    let doc = found.ok_or_else(missing)?;
    let operation = operation::read(&doc).ok_or_else(missing)?;
    match is_for(caller, &operation) {
        true => Ok((doc, operation)),
        false => Err(missing()),
    }
}

/// A key that is bound to channels sees what touches these alone.
fn is_for(caller: &Caller, operation: &Operation) -> bool {
    let sees = |name: &ChannelName| caller.sees(name);
    let filtered = operation.filter.get("channel").and_then(|name| name.parse().ok());
    caller.channels.is_none()
        || operation.channel.as_ref().or(filtered.as_ref()).is_some_and(sees)
        || operation.within.as_ref().is_some_and(|within| within.iter().all(sees))
}
