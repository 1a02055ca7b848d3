//! What an operator decides about many dead letters: sent again or given up, by their ids or by a filter.

use std::collections::BTreeMap;

use axum::response::Response;
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Idempotency, StateName};
use pombo_kernel::name::Tenant;
use pombo_kernel::operation::{Kind, Operation, Stage};
use pombo_kernel::setup::Setup;
use pombo_kernel::time::Time;
use pombo_store::dead::{Act, Ruled, Ruling, cause_of};
use pombo_store::shelf::{Doc, Expect, Leaf, Shelf, Shelve};
use pombo_store::{Filter, Line};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::{BODY_BYTES, CauseView, GROUPS_MAX, NOTE_BYTES};
use crate::api::fields::Fields;
use crate::api::operations;
use crate::auth::Caller;
use crate::problem::{Code, Problem};
use crate::route::Call;
use crate::veil::Veil;
use crate::{Door, body, filter, idempotency, key, view};

/// Most letters that one request acts on by their ids.
const IDS_MAX: usize = 1_000;
/// How many letters are shown of those that would be acted on.
const SAMPLES: usize = 5;
/// Letters beyond so many pages are not counted.
const COUNT_PAGES: usize = 40;
const COUNT_PAGE: usize = 500;
/// From so many letters on, one goes first unless somebody says otherwise.
const CANARY_FROM: u64 = 10;
const CANARY_MAX: u64 = 100;
const RATE_MAX: u64 = 1_000_000;
/// Problems that are told at once.
const ERRORS_MAX: usize = 20;

/// A new round for dead letters: those with these ids at once, or those that match a filter as an operation.
pub(crate) async fn reprocess(call: Call) -> Result<Response, Problem> {
    act(call, Act::Reprocess).await
}

/// Gives dead letters up for good.
pub(crate) async fn discard(call: Call) -> Result<Response, Problem> {
    act(call, Act::Discard).await
}

/// What an operator wants done with dead letters.
struct Wish {
    which: Which,
    note: Option<String>,
    dry_run: bool,
    rate_per_minute: Option<u32>,
    canary: Option<u32>,
}

enum Which {
    Ids(Vec<MessageId>),
    Filter(BTreeMap<String, String>),
}

impl Wish {
    fn read(json: &[u8], act: Act) -> Result<Wish, Problem> {
        let mut fields = Fields::read(json)?;
        let ids = fields.value("ids");
        let filter = fields.value("filter");
        let note = fields.remark("note", NOTE_BYTES);
        let dry_run = fields.flag("dry_run").unwrap_or(false);
        let rate = fields.whole("rate_per_minute", 1, RATE_MAX);
        let canary = fields.whole("canary", 0, CANARY_MAX);
        let by_ids = ids.is_some();
        for (given, name) in [(rate.is_some(), "rate_per_minute"), (canary.is_some(), "canary")] {
            if given && by_ids {
                fields.wrong(name, "is for a filter; letters by id are acted on at once", "leave it out");
            }
        }
        if canary.is_some() && act == Act::Discard {
            fields.wrong("canary", "is for reprocessing", "leave it out: nothing is sent");
        }
        let which = match (ids, filter) {
            (Some(ids), None) => read_ids(&ids, &mut fields)?.map(Which::Ids),
            (None, Some(filter)) => read_filter(filter, &mut fields).map(Which::Filter),
            (Some(_), Some(_)) => {
                fields.wrong("filter", "is given beside `ids`", "give one of them");
                None
            }
            (None, None) => {
                let hint = "write {\"ids\": [\"msg_…\"]} or {\"filter\": {\"cause\": \"cause_…\"}}; \
                            {\"filter\": {}} is every dead letter";
                fields.missing("ids", hint);
                None
            }
        };
        fields.end()?;
        let small = |number: Option<u64>| number.and_then(|number| u32::try_from(number).ok());
        Ok(Wish {
            which: which.ok_or_else(Problem::internal)?,
            note,
            dry_run,
            rate_per_minute: small(rate),
            canary: small(canary),
        })
    }
}

fn read_ids(ids: &Value, fields: &mut Fields) -> Result<Option<Vec<MessageId>>, Problem> {
    let hint = "write [\"msg_…\", \"msg_…\"]";
    let Some(ids) = ids.as_array().filter(|ids| !ids.is_empty()) else {
        fields.wrong("ids", "is not a list of ids", hint);
        return Ok(None);
    };
    if ids.len() > IDS_MAX {
        let detail = format!("there are {} ids; at most {IDS_MAX} are taken at once", ids.len());
        let hint = "send several requests, or describe them by a filter";
        return Err(Problem::new(Code::BatchTooLarge, detail, hint));
    }
    let read = ids.iter().map(|id| id.as_str().and_then(|id| id.parse().ok()));
    let read: Option<Vec<MessageId>> = read.collect();
    if read.is_none() {
        fields.wrong("ids", "has something that is not the id of a message", hint);
    }
    Ok(read)
}

fn read_filter(filter: Value, fields: &mut Fields) -> Option<BTreeMap<String, String>> {
    let Value::Object(members) = filter else {
        let hint = "write {\"channel\": \"crm\", \"cause\": \"cause_…\"}, each value as text";
        fields.wrong("filter", "is not an object of filters", hint);
        return None;
    };
    let (mut read, mut errors) = (BTreeMap::new(), Vec::new());
    for (name, value) in members {
        match (filter::known(&name), value) {
            (Ok(()), Value::String(text)) => {
                read.insert(name, text);
            }
            (Ok(()), _) => {
                let wrong = ("is not text".to_owned(), "write it in double quotes".to_owned());
                errors.push(filter::wrong(&name, wrong));
            }
            (Err(wrong), _) => errors.push(filter::wrong(&name, wrong)),
        }
    }
    errors.into_iter().take(ERRORS_MAX).for_each(|error| fields.refuse(error));
    Some(read)
}

async fn act(call: Call, act: Act) -> Result<Response, Problem> {
    let Call { door, caller, head, body, .. } = call;
    if door.is_closing() {
        return Err(Problem::shutting_down());
    }
    let text = body::json(&door, &head.headers, body, BODY_BYTES).await?;
    let key = idempotency::header(&head.headers)?.map(|key| idempotency::of(key, &text));
    let wish = Wish::read(&text, act)?;
    match &wish.which {
        Which::Ids(ids) if wish.dry_run => preview_ids(&door, &caller, ids).await,
        Which::Ids(ids) => rule(&door, &caller, key, ids.clone(), wish.note, act).await,
        Which::Filter(written) => {
            let wanted = filter::letters(&caller.tenant, written).map_err(Problem::fields)?;
            let wanted = Filter { within: caller.channels.clone(), ..wanted };
            if let (Some(key), false) = (&key, wish.dry_run)
                && let Some(before) = operations::earlier(&door, &caller, key, kind(act)).await?
            {
                return before.answer();
            }
            let counted = count(&door, &caller, &wanted).await?;
            if wish.dry_run {
                return counted.answer();
            }
            if wanted.cause.is_some() && counted.count == 0 && !counted.at_least {
                let hint = "GET /v1/dead-letters/groups and `pombo dead groups` show the causes";
                let wrong = ("is not the cause of any dead letter here".to_owned(), hint.to_owned());
                return Err(Problem::fields(vec![filter::wrong("cause", wrong)]));
            }
            let operation = operation(&wish, written.clone(), act, &counted, &caller, door.now());
            operations::begin(&door, &caller, key, operation).await?.answer()
        }
    }
}

fn kind(act: Act) -> Kind {
    match act {
        Act::Reprocess => Kind::Reprocess,
        Act::Discard => Kind::Discard,
    }
}

fn operation(
    wish: &Wish,
    filter: BTreeMap<String, String>,
    act: Act,
    counted: &Count,
    caller: &Caller,
    now: Time,
) -> Operation {
    let many = u32::from(counted.at_least || counted.count > CANARY_FROM);
    let canary = if act == Act::Reprocess { wish.canary.unwrap_or(many) } else { 0 };
    let stage = if canary > 0 { Stage::Canary } else { Stage::Rest };
    Operation {
        filter,
        within: caller.channels.as_ref().map(|within| within.to_vec()),
        note: wish.note.clone(),
        rate_per_minute: wish.rate_per_minute,
        canary,
        total: (!counted.at_least).then_some(counted.count),
        ..Operation::new(kind(act), stage, caller.actor(), now)
    }
}

/// How many letters something would touch, with a few of them.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DeadLetterCount")]
pub(crate) struct Count {
    dry_run: bool,
    count: u64,
    /// There are more; counting stopped.
    at_least: bool,
    samples: Vec<Sample>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DeadLetterSample")]
struct Sample {
    id: String,
    channel: String,
    to: String,
    cause: Option<CauseView>,
}

impl Count {
    fn answer(&self) -> Result<Response, Problem> {
        view::ok(self)
    }
}

/// The first of some letters, as that caller sees them.
fn samples(lines: &[Line], setup: &Setup, veil: Veil) -> Vec<Sample> {
    let sample = |line: &Line| {
        let (channel, said) = (&line.message.queue.channel, &line.message.body);
        let kind = setup.channels.get(channel).map(|channel| channel.kind);
        Sample {
            id: line.message.id.to_string(),
            channel: channel.as_str().to_owned(),
            to: veil.recipient(kind, &said.to).into_owned(),
            cause: cause_of(line).map(|cause| CauseView::of(cause, said, veil)),
        }
    };
    lines.iter().take(SAMPLES).map(sample).collect()
}

/// Counts dead letters: by their groups if these say enough, else page by page, up to a bound.
async fn count(door: &Door, caller: &Caller, wanted: &Filter) -> Result<Count, Problem> {
    let (store, setup) = (door.store(), door.setup());
    let by_group = Filter {
        tenant: wanted.tenant.clone(),
        state: wanted.state,
        channel: wanted.channel.clone(),
        cause: wanted.cause,
        within: wanted.within.clone(),
        ..Filter::default()
    };
    let by_group = by_group == *wanted;
    // Where groups say how many there are, so many are read as are shown.
    let first = store.page(wanted.clone(), None, if by_group { SAMPLES } else { COUNT_PAGE }).await?;
    let samples = samples(&first.lines, &setup, Veil::of(caller, &setup));
    let mut count = first.lines.len() as u64;
    let mut next = first.next;
    if next.is_some() && by_group {
        let groups = store.groups(wanted.tenant.clone(), GROUPS_MAX).await?;
        if groups.len() < GROUPS_MAX {
            let meant = groups.iter().filter(|group| {
                wanted.channel.as_ref().is_none_or(|channel| *channel == group.channel)
                    && wanted.cause.is_none_or(|cause| cause == group.id)
                    && wanted.within.as_ref().is_none_or(|within| within.contains(&group.channel))
            });
            count = meant.map(|group| group.count).sum();
            next = None;
        }
    }
    for _ in 1..COUNT_PAGES {
        let Some(before) = next else { break };
        let page = store.page(wanted.clone(), Some(before), COUNT_PAGE).await?;
        count += page.lines.len() as u64;
        next = page.next;
    }
    Ok(Count { dry_run: true, count, at_least: next.is_some(), samples })
}

/// Those of the letters that the caller may touch.
async fn touchable(door: &Door, caller: &Caller, ids: &[MessageId]) -> Result<Vec<Line>, Problem> {
    let lines = door.store().lines(ids.to_vec()).await?;
    let own =
        |line: &Line| line.message.queue.tenant == caller.tenant && caller.sees(&line.message.queue.channel);
    Ok(lines.into_iter().filter(own).collect())
}

async fn preview_ids(door: &Door, caller: &Caller, ids: &[MessageId]) -> Result<Response, Problem> {
    let mut lines = touchable(door, caller, ids).await?;
    lines.retain(|line| line.state.name() == StateName::Failed);
    let setup = door.setup();
    let samples = samples(&lines, &setup, Veil::of(caller, &setup));
    Count { dry_run: true, count: lines.len() as u64, at_least: false, samples }.answer()
}

/// What came of each letter, in the order of the ids.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DeadLetterResults")]
pub(crate) struct Results {
    done: u64,
    skipped: u64,
    results: Vec<ResultView>,
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "DeadLetterResult")]
struct ResultView {
    id: String,
    /// `done`, `not_found` or `not_dead`.
    result: &'static str,
    /// The state that stood in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<StateName>,
}

impl Results {
    /// Puts together what was said of letters, in the order of the ids.
    fn of(ids: &[MessageId], mut said: impl FnMut(MessageId) -> Ruled) -> Results {
        let results = ids.iter().map(|id| {
            let (result, state) = match said(*id) {
                Ruled::Done => ("done", None),
                Ruled::NotDead(state) => ("not_dead", Some(state)),
                Ruled::NotFound => ("not_found", None),
            };
            ResultView { id: id.to_string(), result, state }
        });
        let results: Vec<_> = results.collect();
        let done = results.iter().filter(|it| it.result == "done").count() as u64;
        Results { done, skipped: results.len() as u64 - done, results }
    }
}

/// What was done under an idempotency key. It is put there with the letters themselves, so that nothing is done twice.
#[derive(Serialize, Deserialize)]
struct Ledger {
    act: Kind,
    /// A digest of the request.
    request: String,
    /// As it was written.
    answer: Box<RawValue>,
}

impl Ledger {
    /// A wish to put it where operations are; it is none of them, and no list shows it.
    fn shelved(&self, tenant: &Tenant, place: String, expect: Expect, now: Time) -> Shelve {
        let body = serde_json::to_string(self).unwrap_or_default();
        let leaf = Some(Leaf { order: now.millis(), topic: None, due: None, body });
        Shelve { shelf: Shelf::Operation, tenant: tenant.clone(), id: place, expect, leaf, record: None }
    }

    /// The answer to a repeat of the request that left it.
    fn answer(doc: &Doc, act: Act, key: &Idempotency) -> Result<Response, Problem> {
        let same = |it: &Ledger| it.act == kind(act) && it.request == key::hex(&key.fingerprint);
        match serde_json::from_str(&doc.leaf.body).ok().filter(same) {
            Some(before) => view::ok(&before.answer).map(idempotency::replayed),
            None => Err(idempotency::conflict("which did something else")),
        }
    }
}

async fn rule(
    door: &Door,
    caller: &Caller,
    key: Option<Idempotency>,
    ids: Vec<MessageId>,
    note: Option<String>,
    act: Act,
) -> Result<Response, Problem> {
    let (store, tenant, now) = (door.store(), &caller.tenant, door.now());
    let mut ledger = None;
    if let Some(key) = &key {
        let place = operations::id_of_key(tenant.as_str(), &key.key);
        if let Some(before) = store.doc(Shelf::Operation, tenant.clone(), place.clone()).await? {
            return Ledger::answer(&before, act, key);
        }
        ledger = Some((place, key));
    }
    let (mut meant, mut expected) = (ids.clone(), None);
    if caller.channels.is_some() || ledger.is_some() {
        let own: BTreeMap<MessageId, StateName> = touchable(door, caller, &ids)
            .await?
            .iter()
            .map(|line| (line.message.id, line.state.name()))
            .collect();
        meant.retain(|id| own.contains_key(id));
        // What is written down is what will come of it, unless somebody acts on the same letters meanwhile.
        expected = Some(Results::of(&ids, |id| match own.get(&id) {
            Some(StateName::Failed) => Ruled::Done,
            Some(state) => Ruled::NotDead(*state),
            None => Ruled::NotFound,
        }));
    }
    let written = |answer: &Results, key: &Idempotency| Ledger {
        act: kind(act),
        request: key::hex(&key.fingerprint),
        answer: to_raw_value(answer).unwrap_or_default(),
    };
    let with = ledger.as_ref().zip(expected.as_ref()).map(|((place, key), expected)| {
        written(expected, key).shelved(tenant, place.clone(), Expect::Nothing, now)
    });
    let by = caller.actor();
    let ruling = Ruling { tenant: tenant.clone(), ids: meant.clone(), act, by, note, with };
    let ruled = match meant.is_empty() {
        true => Vec::new(),
        false => match (store.rule(ruling).await?, &key) {
            (Ok(ruled), _) => ruled,
            (Err(Some(before)), Some(key)) => return Ledger::answer(&before, act, key),
            (Err(_), _) => return Err(Problem::internal()),
        },
    };
    let mut ruled = meant.into_iter().zip(ruled).peekable();
    let answer = Results::of(&ids, |id| {
        ruled.next_if(|(ruled, _)| *ruled == id).map_or(Ruled::NotFound, |(_, ruled)| ruled)
    });
    if let (Some((place, key)), Some(expected)) = (ledger, expected)
        && expected.results != answer.results
    {
        let wish = written(&answer, key).shelved(tenant, place, Expect::Version(1), now);
        // What was done is done: a repeat would then hear what was expected of it.
        if let Err(error) = store.shelve(vec![wish]).await {
            tracing::warn!(%error, "what came of a ruling was not written down as it was");
        }
    }
    let (done, skipped) = (answer.done, answer.skipped);
    tracing::info!(done, skipped, act = ?act, key_id = caller.key_id, "dead letters were ruled on");
    view::ok(&answer)
}
