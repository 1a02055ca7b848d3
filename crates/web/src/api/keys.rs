//! Keys: who may come in, and how far.
//!
//! An admin works on the keys of its own tenant; one of the house's tenant may name another. A key is shown when it is
//! made and never again, also not to a request that is repeated with its idempotency key.

use std::collections::BTreeMap;
use std::fmt;

use axum::response::Response;
use http::{StatusCode, Uri};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::name::{ChannelName, Tenant};
use pombo_kernel::setup::Setup;
use pombo_kernel::time::{Span, Time};
use pombo_store::audit::Event;
use pombo_store::shelf::{Doc, Expect, Pick, Shelf, Shelve, Shelved, Wanted};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::fields::Fields;
use super::page::{Paging, Query, page, parsed, yes_or_no};
use crate::auth::{Caller, Role};
use crate::key::{KeyDoc, digest, hex};
use crate::problem::{Code, Problem};
use crate::route::Call;
use crate::{Door, body, idempotency, keys, shelf, view};

const BODY_BYTES: usize = 64 * 1024;
const LABEL_BYTES: usize = 100;
/// Channels that one key can be bound to.
const CHANNELS_MAX: usize = 200;
/// How long a key that was rotated goes on working.
const OVERLAP: Span = Span::from_hours(24);
const OVERLAP_MAX: Span = Span::from_hours(90 * 24);
/// A key that is to end at all ends within ten years.
const LIFE_MAX: Span = Span::from_hours(3_650 * 24);

/// A key that is wished for. The schema of the request; what is read is judged field by field.
#[derive(JsonSchema)]
#[allow(dead_code)]
pub(crate) struct KeyRequest {
    role: Role,
    /// What it is for.
    #[schemars(length(min = 1, max = 100))]
    label: Option<String>,
    /// The channels that it may see and use; left out, all of its tenant. Not for admins.
    #[schemars(length(min = 1, max = 200))]
    channels: Option<Vec<ChannelName>>,
    /// Which channel serves requests that name only a kind of channel.
    defaults: Option<BTreeMap<ChannelKind, ChannelName>>,
    /// Whether it may see persons whom its role hides, which leaves a record; left out, true for operators and admins.
    reveal: Option<bool>,
    /// How long it works; left out, until it is revoked.
    expires_after: Option<Span>,
    /// When it ends, instead.
    expires_at: Option<Time>,
    /// Whose it is; only admins of the tenant `default` may name another than their own.
    tenant: Option<Tenant>,
}

/// What is to change about a key. What is left out stays.
#[derive(JsonSchema)]
#[allow(dead_code)]
pub(crate) struct KeyChange {
    #[schemars(length(min = 1, max = 100))]
    label: Option<String>,
    /// The channels that it may see and use; null for all of its tenant.
    #[schemars(length(min = 1, max = 200))]
    channels: Option<Vec<ChannelName>>,
    defaults: Option<BTreeMap<ChannelKind, ChannelName>>,
    reveal: Option<bool>,
    /// How long it works from now on; null until it is revoked.
    expires_after: Option<Span>,
    expires_at: Option<Time>,
}

/// How a key is replaced.
#[derive(JsonSchema)]
#[allow(dead_code)]
pub(crate) struct RotateRequest {
    /// How long the old key goes on working; 24 h if left out, 90 days at most.
    overlap: Option<Span>,
    /// How long the new key works; left out, as long as the old one was to.
    expires_after: Option<Span>,
    expires_at: Option<Time>,
}

/// A key as callers see it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Key")]
pub(crate) struct KeyView {
    /// How the audit and the other calls name the key.
    id: String,
    tenant: Tenant,
    role: String,
    label: String,
    /// The channels that it may see and use; null for all of its tenant.
    channels: Option<Vec<ChannelName>>,
    /// Which channel serves requests that name only a kind of channel.
    defaults: BTreeMap<String, ChannelName>,
    /// Whether it may see persons whom its role hides, by `?reveal=true`. A record says that it did.
    reveal: bool,
    #[schemars(extend("enum" = ["active", "expired", "revoked"]))]
    state: &'static str,
    created_at: Time,
    created_by: String,
    expires_at: Option<Time>,
    revoked_at: Option<Time>,
    revoked_by: Option<String>,
    /// When it was last used, to the minute.
    last_used_at: Option<Time>,
    /// The key whose place it takes.
    replaces: Option<String>,
    /// The key that took its place.
    replaced_by: Option<String>,
    /// The key itself. Shown when it is made, and never again.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

/// A new key, and the one whose place it takes.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RotatedKey")]
pub(crate) struct RotatedView {
    #[serde(flatten)]
    made: KeyView,
    /// The key before, which ends at its `expires_at`.
    replaced: KeyView,
}

impl KeyView {
    fn of(tenant: &Tenant, key: KeyDoc, now: Time) -> KeyView {
        KeyView {
            state: key.standing(now).as_str(),
            reveal: key.may_reveal(),
            id: key.id,
            tenant: tenant.clone(),
            role: key.role,
            label: key.label,
            channels: key.channels,
            defaults: key.defaults,
            created_at: key.created_at,
            created_by: key.created_by,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
            revoked_by: key.revoked_by,
            last_used_at: key.last_used_at,
            replaces: key.replaces,
            replaced_by: key.replaced_by,
            key: None,
        }
    }
}

/// The keys of a tenant, the newest first.
pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let mut paging = Paging::read(&call.head.uri, &["tenant"])?;
    let after = paging.after()?;
    let asked = paging.query.take("tenant", parsed);
    let tenant = tenant(&call.caller, asked)?;
    let limit = paging.limit + 1;
    let wanted = Wanted { shelf: Shelf::Key, tenant: Some(tenant.clone()), pick: Pick::All { after }, limit };
    let found = call.door.store().docs(wanted).await?;
    let (docs, next) = paging.cut(found);
    paging.query.end()?;
    let now = call.door.now();
    let read = docs.iter().filter_map(KeyDoc::read);
    page(read.map(|key| KeyView::of(&tenant, key, now)).collect(), next)
}

/// One key.
pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    let tenant = tenant(&call.caller, only_tenant(&call.head.uri)?)?;
    let (_, key) = find(&call.door, &tenant, &call.name).await?;
    view::ok(&KeyView::of(&tenant, key, call.door.now()))
}

/// Makes a key: 201, with the key itself, this once.
pub(crate) async fn create(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, .. } = call;
    Query::read(&head.uri, &[])?.end()?;
    let text = body::json(&door, &head.headers, body, BODY_BYTES).await?;
    let request = idempotency::header(&head.headers)?.map(|key| idempotency::of(key, &text));
    let (now, setup) = (door.now(), door.setup());
    let mut fields = Fields::read(&text)?;
    let asked = fields.line("tenant", 64).map(|text| text.parse::<Tenant>());
    if let Some(Err(bad)) = &asked {
        fields.wrong("tenant", "is not a name", bad.to_string());
    }
    let tenant = tenant(&caller, asked.and_then(Result::ok))?;
    let role = role(&mut fields);
    let label = fields.line("label", LABEL_BYTES).unwrap_or_default();
    let channels = fields.value("channels").and_then(|given| channels(&mut fields, given, &tenant, &setup));
    let defaults = fields.value("defaults").and_then(|given| defaults(&mut fields, given));
    let reveal = fields.flag("reveal");
    let expires_at = expiry(&mut fields, now).flatten();
    let made = KeyDoc {
        id: keys::new_id(door.entropy()),
        role: role.map_or_else(String::new, |role| role.to_string()),
        label,
        channels,
        defaults: defaults.unwrap_or_default(),
        reveal,
        created_at: now,
        created_by: caller.actor().0,
        expires_at,
        ..KeyDoc::default()
    };
    check(&mut fields, &made, &tenant, &setup);
    fields.end()?;
    let place = request.as_ref().map(|it| (format!("create\n{}", it.key), hex(&it.fingerprint)));
    match put(&door, &caller, &tenant, made, place).await? {
        Made::New { key: made, text, .. } => {
            tracing::info!(key_id = made.id, by = caller.key_id, role = made.role, "key made");
            let view = KeyView { key: Some(text), ..KeyView::of(&tenant, made, now) };
            created(&view, Replay::No)
        }
        Made::Before(made) => created(&KeyView::of(&tenant, made, now), Replay::Yes),
    }
}

/// Changes what a key is called, what it is for, or when it ends. Its role stays.
pub(crate) async fn change(call: Call) -> Result<Response, Problem> {
    let (asked, force) = tenant_and_force(&call.head.uri)?;
    let tenant = tenant(&call.caller, asked)?;
    let Call { door, caller, head, body, name } = call;
    let (now, setup) = (door.now(), door.setup());
    let mut fields = Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?;
    let label = fields.line("label", LABEL_BYTES);
    let bound = fields.nullable("channels").map(|given| match given {
        Value::Null => None,
        given => channels(&mut fields, given, &tenant, &setup),
    });
    let defaulted = fields.value("defaults").and_then(|given| defaults(&mut fields, given));
    let reveal = fields.flag("reveal");
    let expires_at = expiry(&mut fields, now);
    let (doc, key) = find(&door, &tenant, &name).await?;
    let wished = |key: &KeyDoc| KeyDoc {
        label: label.clone().unwrap_or_else(|| key.label.clone()),
        channels: bound.clone().unwrap_or_else(|| key.channels.clone()),
        defaults: defaulted.clone().unwrap_or_else(|| key.defaults.clone()),
        reveal: reveal.or(key.reveal),
        expires_at: expires_at.unwrap_or(key.expires_at),
        ..key.clone()
    };
    let wish = wished(&key);
    check(&mut fields, &wish, &tenant, &setup);
    fields.end()?;
    if let Some(end) = wish.expires_at.filter(|end| !force && key.administers(*end)) {
        others_administer(&door, &tenant, &key, end, "ends then").await?;
    }
    let by = caller.actor();
    let changed = keys::change(door.store(), doc, |_, key| {
        let wished = wished(key);
        let record = keys::record(Event::KeyChanged, &tenant, &by, &wished, now);
        (key.revoked_at.is_none() && wished != *key).then_some((wished, record))
    })
    .await?;
    door.forget_keys().await;
    if changed.revoked_at.is_some() {
        return Err(ended(&changed));
    }
    tracing::info!(key_id = changed.id, by = caller.key_id, "key changed");
    view::ok(&KeyView::of(&tenant, changed, now))
}

/// Makes a key that takes another's place; both work until the overlap is over.
pub(crate) async fn rotate(call: Call) -> Result<Response, Problem> {
    let tenant = tenant(&call.caller, only_tenant(&call.head.uri)?)?;
    let Call { door, caller, head, body, name } = call;
    let text = body::json(&door, &head.headers, body, BODY_BYTES).await?;
    let request = idempotency::header(&head.headers)?.map(|key| idempotency::of(key, &text));
    let now = door.now();
    let mut fields = Fields::read(&text)?;
    let overlap = fields.line("overlap", 32).map_or(Ok(OVERLAP), |text| text.parse::<Span>());
    let overlap = overlap.ok().filter(|overlap| *overlap <= OVERLAP_MAX);
    if overlap.is_none() {
        fields.wrong(
            "overlap",
            "is not a length of time of at most 90d",
            "write for example \"24h\", or \"0s\"",
        );
    }
    let expires_at = expiry(&mut fields, now);
    fields.end()?;
    let (doc, old) = find(&door, &tenant, &name).await?;
    if request.is_none() && (old.revoked_at.is_some() || old.replaced_by.is_some()) {
        return Err(ended(&old));
    }
    // What was to end after some time is followed by what ends after the same time.
    let life =
        old.expires_at.filter(|_| old.replaced_by.is_none()).map(|end| now + end.since(old.created_at));
    let made = KeyDoc {
        id: keys::new_id(door.entropy()),
        role: old.role.clone(),
        label: old.label.clone(),
        channels: old.channels.clone(),
        defaults: old.defaults.clone(),
        reveal: old.reveal,
        created_at: now,
        created_by: caller.actor().0,
        expires_at: expires_at.unwrap_or(life),
        replaces: Some(old.id.clone()),
        ..KeyDoc::default()
    };
    let place = request.as_ref().map(|it| (format!("rotate\n{}\n{}", old.id, it.key), hex(&it.fingerprint)));
    let made = put(&door, &caller, &tenant, made, place).await?;
    let (Made::New { key: next, .. } | Made::Before(next)) = &made;
    let by = caller.actor();
    let until = now + overlap.unwrap_or(OVERLAP);
    let replaced = keys::change(door.store(), doc, |_, old| {
        let expires_at = Some(old.expires_at.map_or(until, |at| at.min(until)));
        let replaced = KeyDoc { replaced_by: Some(next.id.clone()), expires_at, ..old.clone() };
        let record = keys::record(Event::KeyChanged, &tenant, &by, &replaced, now);
        (old.revoked_at.is_none() && old.replaced_by.is_none()).then_some((replaced, record))
    })
    .await?;
    door.forget_keys().await;
    if replaced.replaced_by.as_ref() != Some(&next.id) {
        // It ended, or somebody else rotated it first: nobody has seen the new one, and nobody will.
        if let Made::New { key: next, place, .. } = &made {
            let undone = keys::record(Event::KeyRemoved, &tenant, &by, next, now);
            let wish = Shelve {
                expect: Expect::Version(1),
                leaf: None,
                record: Some(undone),
                ..next.shelved(&tenant, place, Expect::Nothing, None)
            };
            shelf::put(door.store(), wish).await?;
        }
        return Err(ended(&replaced));
    }
    let replaced = KeyView::of(&tenant, replaced, now);
    match made {
        Made::New { key: next, text, .. } => {
            tracing::info!(key_id = next.id, replaces = replaced.id, by = caller.key_id, "key rotated");
            let made = KeyView { key: Some(text), ..KeyView::of(&tenant, next, now) };
            created(&RotatedView { made, replaced }, Replay::No)
        }
        Made::Before(next) => {
            let made = KeyView::of(&tenant, next, now);
            created(&RotatedView { made, replaced }, Replay::Yes)
        }
    }
}

/// Ends a key at once and for good. It stays in the list.
pub(crate) async fn revoke(call: Call) -> Result<Response, Problem> {
    let (asked, force) = tenant_and_force(&call.head.uri)?;
    let tenant = tenant(&call.caller, asked)?;
    let (door, now) = (&call.door, call.door.now());
    let (doc, key) = find(door, &tenant, &call.name).await?;
    if key.administers(now) && !force {
        others_administer(door, &tenant, &key, now, "is revoked").await?;
    }
    let revoked = keys::revoke(door.store(), doc, &call.caller.actor(), now).await?;
    door.forget_keys().await;
    tracing::info!(key_id = revoked.id, by = call.caller.key_id, "key revoked");
    view::ok(&KeyView::of(&tenant, revoked, now))
}

/// Refuses what would leave nobody at that time who could make keys, for the key that then `ends`.
async fn others_administer(
    door: &Door,
    tenant: &Tenant,
    key: &KeyDoc,
    at: Time,
    ends: &str,
) -> Result<(), Problem> {
    let others = keys::all(door.store(), tenant).await?;
    if others.iter().any(|(_, other)| other.id != key.id && other.administers(at)) {
        return Ok(());
    }
    Err(Problem::new(
        Code::LastAdminKey,
        format!("{} is the last admin key of the tenant `{tenant}` that works when it {ends}", key.id),
        "make another one first, or rotate this one; `?force=true` (`--force` on the command line) does it all the \
         same, and POMBO_ADMIN_KEY is then the way back in",
    ))
}

/// The tenant that is meant: the caller's own, or another that only the house may name.
pub(super) fn tenant(caller: &Caller, asked: Option<Tenant>) -> Result<Tenant, Problem> {
    match asked {
        Some(asked) if asked != caller.tenant => caller.may_keep_house().map(|()| asked),
        _ => Ok(caller.tenant.clone()),
    }
}

pub(super) fn only_tenant(uri: &Uri) -> Result<Option<Tenant>, Problem> {
    let mut query = Query::read(uri, &["tenant"])?;
    let asked = query.take("tenant", parsed);
    query.end().map(|()| asked)
}

fn tenant_and_force(uri: &Uri) -> Result<(Option<Tenant>, bool), Problem> {
    let mut query = Query::read(uri, &["tenant", "force"])?;
    let asked = query.take("tenant", parsed);
    let force = query.take("force", yes_or_no).unwrap_or(false);
    query.end().map(|()| (asked, force))
}

pub(super) async fn find(door: &Door, tenant: &Tenant, id: &str) -> Result<(Doc, KeyDoc), Problem> {
    let pick = Pick::Topic { topic: id.to_owned(), after: None };
    let wanted = Wanted { shelf: Shelf::Key, tenant: Some(tenant.clone()), pick, limit: 1 };
    let found = door.store().docs(wanted).await?.pop();
    let found = found.and_then(|doc| KeyDoc::read(&doc).map(|key| (doc, key)));
    found.ok_or_else(|| {
        Problem::new(
            Code::NotFound,
            "there is no key with this id",
            "ids look like `key_` and 16 hex digits; GET /v1/keys and `pombo keys list` show them",
        )
    })
}

pub(super) fn ended(key: &KeyDoc) -> Problem {
    let (detail, hint) = match (&key.revoked_at, &key.replaced_by) {
        (None, Some(next)) => {
            (format!("{} was rotated already", key.id), format!("rotate {next}, which took its place"))
        }
        _ => (format!("{} was revoked", key.id), "make another one with `pombo keys create`".to_owned()),
    };
    Problem::new(Code::KeyEnded, detail, hint)
}

enum Made {
    New {
        key: KeyDoc,
        /// The key itself.
        text: String,
        /// Where it is on its shelf.
        place: String,
    },
    /// By an earlier request that was the same.
    Before(KeyDoc),
}

/// Puts a new key on the shelf. A request with an idempotency key has a place of its own, and is told by its digest
/// from others that come with the same.
async fn put(
    door: &Door,
    caller: &Caller,
    tenant: &Tenant,
    made: KeyDoc,
    request: Option<(String, String)>,
) -> Result<Made, Problem> {
    let text = keys::new_text(door.entropy());
    let own = hex(&digest(&text));
    let (made, place) = match request {
        None => (made, own),
        Some((name, request)) => {
            let place = format!("request_{}", hex(&digest(&name)));
            (KeyDoc { digest: Some(own), request: Some(request), ..made }, place)
        }
    };
    let record = keys::record(Event::KeyAdded, tenant, &caller.actor(), &made, made.created_at);
    let wish = made.shelved(tenant, &place, Expect::Nothing, Some(record));
    match shelf::put(door.store(), wish).await? {
        Shelved::Done { .. } => {
            door.forget_keys().await;
            Ok(Made::New { key: made, text, place })
        }
        Shelved::Conflict(found) => {
            let before = found.as_ref().and_then(KeyDoc::read).ok_or_else(Problem::internal)?;
            match before.request == made.request {
                true => Ok(Made::Before(before)),
                false => Err(idempotency::conflict(&format!("which made {}", before.id))),
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Replay {
    No,
    Yes,
}

fn created(document: &impl Serialize, replay: Replay) -> Result<Response, Problem> {
    let json = serde_json::to_vec(document).map_err(|_| Problem::internal())?;
    let response = view::answer(StatusCode::CREATED, json);
    Ok(match replay {
        Replay::No => response,
        Replay::Yes => idempotency::replayed(response),
    })
}

fn role(fields: &mut Fields) -> Option<Role> {
    let names = || Role::ALL.map(Role::as_str).join(", ");
    match fields.line("role", 32) {
        Some(text) => {
            let role = text.parse().ok();
            if role.is_none() {
                fields.wrong("role", "is not a role", format!("one of {}", names()));
            }
            role
        }
        None => {
            fields.wrong("role", "is missing", format!("one of {}", names()));
            None
        }
    }
}

/// A list of channels of the tenant.
fn channels(fields: &mut Fields, given: Value, tenant: &Tenant, setup: &Setup) -> Option<Vec<ChannelName>> {
    let hint = "write [\"mail\", \"whatsapp\"], or leave it out for all channels";
    let Value::Array(items) = given else {
        fields.wrong("channels", "is not a list of names", hint);
        return None;
    };
    if items.is_empty() || items.len() > CHANNELS_MAX {
        fields.wrong("channels", format!("does not name 1 to {CHANNELS_MAX} channels"), hint);
        return None;
    }
    let mut named = Vec::new();
    for item in &items {
        let channel = item.as_str().and_then(|name| setup.channels.get(name));
        match channel.filter(|channel| channel.tenant == *tenant) {
            Some(channel) => named.push(channel.name.clone()),
            None => {
                let reason = format!("there is no channel {} in the tenant", shown(item));
                fields.wrong("channels", reason, "GET /v1/channels and `pombo channels list` show them");
                return None;
            }
        }
    }
    named.sort_unstable();
    named.dedup();
    Some(named)
}

/// A value as a message shows it, however long it is.
fn shown(value: &impl fmt::Display) -> String {
    value.to_string().chars().take(70).collect()
}

/// Channels by the names of kinds.
fn defaults(fields: &mut Fields, given: Value) -> Option<BTreeMap<String, ChannelName>> {
    let hint = "write {\"resend\": \"mail\"}: a kind of channel, and the name of a channel";
    let Value::Object(members) = given else {
        fields.wrong("defaults", "is not an object", hint);
        return None;
    };
    let mut named = BTreeMap::new();
    for (kind, channel) in members {
        let channel = channel.as_str().and_then(|name| name.parse().ok());
        match (kind.parse::<ChannelKind>(), channel) {
            (Ok(kind), Some(channel)) => {
                named.insert(kind.as_str().to_owned(), channel);
            }
            (Err(unknown), _) => fields.wrong("defaults", format!("{} is {unknown}", shown(&kind)), hint),
            (Ok(kind), None) => fields.wrong("defaults", format!("{} is no name", kind.as_str()), hint),
        }
    }
    Some(named)
}

/// When a key ends: a time, never, or nothing was said of it.
fn expiry(fields: &mut Fields, now: Time) -> Option<Option<Time>> {
    let after = fields.nullable("expires_after");
    let at = fields.nullable("expires_at");
    let (field, given) = match (after, at) {
        (None, None) => return None,
        (Some(_), Some(_)) => {
            fields.wrong("expires_after", "is given beside expires_at", "give one of them");
            return None;
        }
        (Some(Value::Null), None) | (None, Some(Value::Null)) => return Some(None),
        (Some(after), None) => ("expires_after", after),
        (None, Some(at)) => ("expires_at", at),
    };
    let text = given.as_str().unwrap_or_default();
    let end = match field {
        "expires_after" => text.parse::<Span>().ok().filter(|span| *span <= LIFE_MAX).map(|span| now + span),
        _ => text.parse::<Time>().ok(),
    };
    match end.filter(|end| *end > now && end.since(now) <= LIFE_MAX) {
        Some(end) => Some(Some(end)),
        None => {
            let hint = "write expires_after as \"90d\", or expires_at as \"2027-01-31T10:00:00Z\"";
            fields.wrong(field, "is not a time within the next ten years", hint);
            None
        }
    }
}

/// What must fit together: an admin is bound to no channels, and a default is a channel of its kind that the key may
/// use.
fn check(fields: &mut Fields, key: &KeyDoc, tenant: &Tenant, setup: &Setup) {
    if key.role == Role::Admin.as_str() && key.channels.is_some() {
        let hint = "leave channels out, or choose the role operator";
        fields.wrong("channels", "an admin key cannot be bound to channels", hint);
    }
    for (kind, name) in &key.defaults {
        let channel = setup.channels.get(name).filter(|channel| {
            channel.tenant == *tenant
                && channel.kind.as_str() == kind
                && key.channels.as_ref().is_none_or(|own| own.contains(name))
        });
        if channel.is_none() {
            let reason = format!("`{name}` is no channel of the kind {kind} that the key may use");
            fields.wrong("defaults", reason, "GET /v1/channels and `pombo channels list` show them");
        }
    }
}
