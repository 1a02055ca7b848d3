//! Dead letters: listed, grouped by cause, put right, sent again or given up.

mod ruling;

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use pombo_kernel::attachment;
use pombo_kernel::id::MessageId;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::mask;
use pombo_kernel::message::{Body, Json, Message, QueueName, State, StateName};
use pombo_kernel::request::{Refused, Request};
use pombo_kernel::setup::Setup;
use pombo_kernel::time::Time;
use pombo_store::dead::{Act, Cause, Deed, Edit, Edited, Group, Hastened, Revision, Ruled, Ruling, cause_of};
use pombo_store::{Filter, Story};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

pub(crate) use self::ruling::{Count, Results, discard, reprocess};
use super::fields::Fields;
use super::messages;
use super::page::{Paging, lines, page, yes_or_no};
use crate::auth::Caller;
use crate::foretold::foretold;
use crate::pin::pin_templates;
use crate::problem::{Code, Problem};
use crate::route::Call;
use crate::veil::{REVEAL, Seen, Sight, Veil};
use crate::{Door, body, filter, view};

const BODY_BYTES: usize = 128 * 1024;
const NOTE_BYTES: usize = 500;
const MASKED: &str =
    "read it with `?reveal=true` (`--reveal` on the command line), and change what it says then";
/// Most groups that are looked at; nobody reads more.
const GROUPS_MAX: usize = 10_000;

/// What many dead letters have in common.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Cause")]
struct CauseView {
    /// `cause_` and 16 hexadecimal digits.
    id: String,
    category: String,
    /// The error, without what differs from message to message.
    text: String,
}

impl CauseView {
    /// Of a message that says this.
    fn of(cause: Cause, said: &Body, veil: Veil) -> CauseView {
        let text = veil.about(&cause.text, said).into_owned();
        CauseView { id: cause.id.to_string(), category: cause.category, text }
    }
}

/// A dead letter as a list shows it. The schema of what [`list`] writes.
#[derive(JsonSchema)]
#[schemars(rename = "DeadLetter")]
#[allow(dead_code)]
pub(crate) struct LetterLine {
    #[schemars(flatten)]
    message: view::MessageLine,
    #[schemars(flatten)]
    more: OfLine,
}

/// A dead letter with everything that is known of it. The schema of what [`shown`] writes.
#[derive(JsonSchema)]
#[schemars(rename = "DeadLetterStory")]
#[allow(dead_code)]
pub(crate) struct LetterStory {
    #[schemars(flatten)]
    message: view::MessageStory,
    #[schemars(flatten)]
    more: OfStory<'static>,
}

/// What a list says of a dead letter beyond the message.
#[derive(Serialize, JsonSchema)]
struct OfLine {
    cause: Option<CauseView>,
}

/// What a dead letter has beyond the message.
#[derive(Serialize, JsonSchema)]
struct OfStory<'a> {
    /// 1 as it was accepted, one more with every edit.
    version: u32,
    /// Null once it is no longer dead.
    cause: Option<CauseView>,
    /// What people did to it, in order.
    deeds: Vec<DeedView<'a>>,
    /// What it said before each edit, the oldest first.
    revisions: Vec<RevisionView<'a>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Deed")]
struct DeedView<'a> {
    at: Time,
    /// `reprocessed`, `discarded` or `cancelled`.
    what: &'static str,
    by: &'a str,
    note: Option<Cow<'a, str>>,
}

impl<'a> DeedView<'a> {
    fn of(deed: &'a Deed, veil: Veil) -> DeedView<'a> {
        let note = deed.note.as_deref().map(|note| veil.words(note));
        DeedView { at: deed.at, what: deed.what.as_str(), by: &deed.by.0, note }
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Revision")]
struct RevisionView<'a> {
    version: u32,
    to: Cow<'a, str>,
    template: Option<&'a str>,
    template_version: Option<u32>,
    #[schemars(with = "Option<Value>")]
    payload: Option<Cow<'a, Json>>,
    #[schemars(with = "Option<Value>")]
    content: Option<Cow<'a, Json>>,
    /// When it was replaced, by whom, and why.
    replaced_at: Time,
    by: &'a str,
    note: Option<Cow<'a, str>>,
}

impl<'a> RevisionView<'a> {
    fn of(revision: &'a Revision, kind: Option<ChannelKind>, veil: Veil) -> RevisionView<'a> {
        let body = &revision.body;
        RevisionView {
            version: revision.version,
            to: veil.recipient(kind, &body.to),
            template: body.template.as_deref(),
            template_version: body.template_version,
            payload: veil.document(body.payload.as_ref()),
            content: veil.document(body.content.as_ref()),
            replaced_at: revision.replaced_at,
            by: &revision.by.0,
            note: revision.note.as_deref().map(|note| veil.words(note)),
        }
    }
}

/// Dead letters of one cause.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DeadLetterGroup")]
pub(crate) struct GroupView {
    /// `cause_` and 16 hexadecimal digits: a filter of `GET /v1/dead-letters` and of operations.
    cause: String,
    channel: String,
    category: String,
    /// The error, without what differs from message to message.
    text: String,
    count: u64,
    /// The id of the newest of them, to look at.
    newest: String,
    /// When that one failed.
    last_at: Time,
    /// When the oldest of them failed.
    first_at: Time,
}

impl GroupView {
    fn of(group: Group, veil: Veil) -> GroupView {
        GroupView {
            cause: group.id.to_string(),
            channel: group.channel.as_str().to_owned(),
            category: group.category,
            text: veil.words(&group.text).into_owned(),
            count: group.count,
            newest: group.newest.to_string(),
            last_at: group.last_at,
            first_at: group.first_at,
        }
    }
}

/// Dead letters that match every given filter, newest first.
pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let mut paging = Paging::read(&call.head.uri, &[&filter::LETTERS[..], &[REVEAL]].concat())?;
    let mut filter = Filter {
        tenant: call.caller.tenant.clone(),
        state: Some(StateName::Failed),
        within: call.caller.channels.clone(),
        ..Filter::default()
    };
    for name in filter::LETTERS {
        paging.query.take(name, |value| filter::set(&mut filter, name, value));
    }
    let (before, limit) = (paging.before()?, paging.limit);
    let reveal = paging.query.take(REVEAL, yes_or_no);
    let filters = paging.query.filters();
    paging.query.end()?;
    let (door, caller, setup) = (&call.door, &call.caller, call.door.setup());
    let sight = Sight::of(door, caller, reveal)?;
    let found = door.store().page(filter, before, limit).await?;
    let count = Some(found.lines.len() as u64);
    let veil =
        sight.seen(door, caller, Seen { what: "dead_letters", filters, count, ..Seen::default() }).await?;
    Ok(lines(&found, |document, line| {
        view::line(document, line, &setup, veil);
        let cause = cause_of(line).map(|cause| CauseView::of(cause, &line.message.body, veil));
        view::extend(document, &OfLine { cause });
    }))
}

/// Dead letters by cause, the largest group first.
pub(crate) async fn groups(call: Call) -> Result<Response, Problem> {
    let paging = Paging::read(&call.head.uri, &[])?;
    if paging.cursor.is_some() {
        return Err(super::page::bad_cursor());
    }
    let (caller, limit) = (&call.caller, paging.limit);
    paging.query.end()?;
    let most = if caller.channels.is_some() { GROUPS_MAX } else { limit };
    let groups = call.door.store().groups(caller.tenant.clone(), most).await?;
    let seen = groups.into_iter().filter(|group| caller.sees(&group.channel)).take(limit);
    let veil = Veil::of(caller, &call.door.setup());
    page(seen.map(|group| GroupView::of(group, veil)).collect::<Vec<_>>(), None)
}

/// One dead letter: its attempts of all rounds, what people did to it, and what it said before.
///
/// It is still shown when it is no longer dead, to whoever wants to see what came of it.
pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    let sight = Sight::read(&call.door, &call.caller, &call.head.uri)?;
    let story = own(&call.door, &call.caller, &call.name).await?;
    shown(&call.door, &call.caller, &story, sight).await
}

async fn shown(door: &Door, caller: &Caller, story: &Story, sight: Sight) -> Result<Response, Problem> {
    let (message, setup) = (&story.message, door.setup());
    let revisions = match story.version {
        1 => Vec::new(),
        _ => door.store().revisions(message.queue.tenant.clone(), message.id).await?,
    };
    let failure = story.attempts.iter().rev().find_map(|attempt| attempt.failure.as_ref());
    let cause = match story.state {
        State::Failed { reason, .. } => Some(Cause::of(&message.queue, reason, failure)),
        _ => None,
    };
    let seen = Some((message.id, &message.queue.channel));
    let veil =
        sight.seen(door, caller, Seen { what: "dead_letter", message: seen, ..Seen::default() }).await?;
    let kind = setup.channels.get(&message.queue.channel).map(|channel| channel.kind);
    let more = OfStory {
        version: story.version,
        cause: cause.map(|cause| CauseView::of(cause, &message.body, veil)),
        deeds: story.deeds.iter().map(|deed| DeedView::of(deed, veil)).collect(),
        revisions: revisions.iter().map(|revision| RevisionView::of(revision, kind, veil)).collect(),
    };
    let mut document = view::story(story, &setup, veil);
    view::extend(&mut document, &foretold(door, story).await?);
    view::extend(&mut document, &more);
    let mut response = view::answer(StatusCode::OK, document);
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", story.version)) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    Ok(response)
}

/// A message that the caller may see.
async fn own(door: &Door, caller: &Caller, id: &str) -> Result<Story, Problem> {
    let id: MessageId = id.parse().map_err(|_| Problem::no_message())?;
    let story = door.store().story(caller.tenant.clone(), id).await?;
    story.filter(|story| caller.sees(&story.message.queue.channel)).ok_or_else(Problem::no_message)
}

/// What an edit changes, kept as it was written.
#[derive(Deserialize)]
struct Changes<'a> {
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// Changes what a dead letter says. It is checked as a new message of its channel would be, and what it said until
/// then is kept. Of two who edit at once, one is told. On a dry run it is only checked.
pub(crate) async fn edit(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, name } = call;
    let setup = door.setup();
    let held = body::held_json(&door, &head.headers, body, setup.limits.body_bytes()).await?;
    let mut fields = Fields::read(&held.text)?;
    let to = fields.text("to", 4096);
    let given = ["payload", "content"].map(|field| {
        let value = fields.value(field);
        if value.as_ref().is_some_and(|value| mask::is_hidden(&value.to_string())) {
            fields.wrong(field, "has values that are masked (•••)", MASKED);
        }
        value.is_some()
    });
    let note = fields.remark("note", NOTE_BYTES);
    let dry_run = fields.flag("dry_run").unwrap_or(false);
    let sight = Sight::of(&door, &caller, None)?;
    let version = version(&mut fields, &head.headers);
    if to.is_none() && given == [false; 2] {
        fields.wrong("body", "changes nothing", "give `to`, `payload` or `content`");
    }
    fields.end()?;
    let version = version.ok_or_else(Problem::internal)?;
    let changes: Changes<'_> = serde_json::from_slice(&held.text).map_err(|_| Problem::internal())?;
    let json = |raw: Option<&RawValue>| raw.and_then(|raw| Json::from_text(raw.get().to_owned()).ok());
    let story = own(&door, &caller, &name).await?;
    let message = &story.message;
    if story.state.name() != StateName::Failed {
        return Err(not_dead(message.id, story.state.name()));
    }
    if story.version != version {
        return Err(stale(message.id, story.version));
    }
    let mut request = changed(message, to, json(changes.payload), json(changes.content));
    restore_files(&door, &setup, message, &mut request).await?;
    let drafted = setup.draft(request, &caller.tenant, door.now());
    let mut draft = drafted.map_err(Refused::Problems)?;
    let found = pin_templates(door.store(), &setup, std::slice::from_mut(&mut draft)).await?;
    if let Some(problem) = found.into_iter().next().flatten() {
        return Err(Refused::Problems(vec![problem]).into());
    }
    if dry_run {
        return shown(&door, &caller, &story, sight).await;
    }
    let edit = Edit {
        tenant: caller.tenant.clone(),
        id: message.id,
        version,
        // What an edit cannot change stays, whatever is configured by now.
        queue: QueueName {
            lane: message.queue.lane.clone(),
            campaign: message.queue.campaign.clone(),
            ..draft.queue
        },
        body: Body { retry: message.body.retry.clone(), trace: message.body.trace.clone(), ..draft.body },
        blobs: draft.blobs,
        by: caller.actor(),
        note,
    };
    match door.store().edit(edit).await? {
        Edited::Done { version } => {
            tracing::info!(message_id = %message.id, version, key_id = caller.key_id, "edited");
            shown(&door, &caller, &own(&door, &caller, &name).await?, sight).await
        }
        Edited::NotFound => Err(Problem::no_message()),
        Edited::NotDead(state) => Err(not_dead(message.id, state)),
        Edited::Stale { version } => Err(stale(message.id, version)),
    }
}

/// The version that the editor saw, from the document or from `If-Match`.
fn version(fields: &mut Fields, headers: &HeaderMap) -> Option<u32> {
    let hint = "give the `version` that GET /v1/dead-letters/{id} showed, or its ETag in If-Match";
    let written = fields.whole("version", 1, u64::from(u32::MAX));
    let tag = headers.get(header::IF_MATCH).map(|tag| {
        let text = tag.to_str().unwrap_or_default().trim();
        text.trim_matches('"').parse::<u32>().ok().map(u64::from)
    });
    let version = match (written, tag) {
        (_, Some(None)) => {
            fields.wrong("If-Match", "is not a version of a dead letter", hint);
            return None;
        }
        (Some(written), Some(Some(tag))) if written != tag => {
            fields.wrong("version", "is not the one in If-Match", "give it in one place");
            return None;
        }
        (Some(version), _) | (None, Some(Some(version))) => version,
        (None, None) => {
            fields.missing("version", hint);
            return None;
        }
    };
    u32::try_from(version).ok()
}

/// The message as somebody would write it now. Content takes the place of a template and what it was filled with.
fn changed(message: &Message, to: Option<String>, payload: Option<Json>, content: Option<Json>) -> Request {
    let said = message.body.clone();
    let (template, payload, content) = match content {
        Some(content) => (None, payload, Some(content)),
        None => (said.template, payload.or(said.payload), said.content),
    };
    Request {
        channel: message.queue.channel.as_str().to_owned(),
        to: to.unwrap_or(said.to),
        kind: said.kind,
        template,
        payload,
        content,
        reference: said.reference,
        user_id: said.user_id,
        ordering_key: message.ordering_key.clone(),
        metadata: said.metadata,
        ..Request::default()
    }
}

/// Puts the message's own files back where its content refers to them, so that they are checked and kept as if they
/// had just come. Files of other messages cannot be referred to.
async fn restore_files(
    door: &Door,
    setup: &Setup,
    message: &Message,
    request: &mut Request,
) -> Result<(), Problem> {
    let Some(kind) = setup.channels.get(&message.queue.channel).map(|channel| channel.kind) else {
        return Ok(());
    };
    let Some(field) = attachment::field(kind) else { return Ok(()) };
    let parsed = |json: Option<&Json>| json.and_then(|json| serde_json::from_str::<Value>(json.text()).ok());
    let Some(mut content) = parsed(request.content.as_ref()) else { return Ok(()) };
    let wanted = attachment::references(kind, &mut content);
    if wanted.is_empty() {
        return Ok(());
    }
    let mut before = parsed(message.body.content.as_ref()).unwrap_or_default();
    let known = attachment::references(kind, &mut before);
    let mut files = BTreeMap::new();
    for (digest, _) in wanted {
        if !known.iter().any(|(own, _)| *own == digest) {
            let hint = "send the file itself, as base64, or a link to it";
            return Err(Problem::field(field, "refers to a file that this message does not have", hint));
        }
        let bytes = door.store().blob(digest).await?.ok_or_else(Problem::internal)?;
        files.insert(digest, bytes);
    }
    let restored = attachment::put_back(kind, &mut content, |digest| files.get(&digest).cloned());
    restored.map_err(|_| Problem::internal())?;
    request.content = Some(Json::from_value(&content));
    Ok(())
}

fn not_dead(id: MessageId, state: StateName) -> Problem {
    let hint = match state {
        StateName::Pending | StateName::Sending => "it is on its way again; look at it once it has ended",
        _ => "nothing is left to do: it has ended",
    };
    Problem {
        message_id: Some(id.to_string()),
        state: Some(state.as_str()),
        ..Problem::new(Code::NotDead, format!("the message is {state}"), hint)
    }
}

fn stale(id: MessageId, version: u32) -> Problem {
    let detail = format!("somebody else has edited it: it is at version {version}");
    let hint = "read it again, and make your change to what it says now";
    Problem { message_id: Some(id.to_string()), ..Problem::new(Code::VersionConflict, detail, hint) }
}

/// Tries a message now: a new round if it is dead, no more waiting if it waits.
pub(crate) async fn retry(mut call: Call) -> Result<Response, Problem> {
    let body = std::mem::take(&mut call.body);
    let mut fields = Fields::read(&body::json(&call.door, &call.head.headers, body, BODY_BYTES).await?)?;
    let note = fields.remark("note", NOTE_BYTES);
    fields.end()?;
    let sight = Sight::of(&call.door, &call.caller, None)?;
    let (door, caller) = (&call.door, &call.caller);
    let story = own(door, caller, &call.name).await?;
    let (tenant, id) = (caller.tenant.clone(), story.message.id);
    let in_the_way = match story.state.name() {
        StateName::Failed => {
            let by = caller.actor();
            let ruling = Ruling { tenant, ids: vec![id], act: Act::Reprocess, by, note, with: None };
            match door.store().rule(ruling).await?.ok().and_then(|ruled| ruled.first().copied()) {
                Some(Ruled::Done) => None,
                Some(Ruled::NotDead(state)) => Some(state),
                Some(Ruled::NotFound) | None => return Err(Problem::no_message()),
            }
        }
        StateName::Pending => match door.store().hasten(tenant, id, caller.actor()).await? {
            Hastened::Done => None,
            Hastened::NotWaiting(state) => Some(state),
            Hastened::NotFound => return Err(Problem::no_message()),
        },
        state => Some(state),
    };
    match in_the_way {
        None => {
            tracing::info!(message_id = %id, key_id = caller.key_id, "to be tried now");
            messages::shown(door, caller, &call.name, sight).await
        }
        Some(state) => Err(not_retryable(id, state)),
    }
}

fn not_retryable(id: MessageId, state: StateName) -> Problem {
    let hint = match state {
        StateName::Pending | StateName::Sending => "it is on its way; look again in a moment",
        _ => "nothing is left to do: it has ended",
    };
    Problem {
        message_id: Some(id.to_string()),
        state: Some(state.as_str()),
        ..Problem::new(Code::NotRetryable, format!("the message is {state}"), hint)
    }
}
