//! Webhooks: who is told of which events, and where.

use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use pombo_kernel::content::web_address;
use pombo_kernel::message::{Actor, Draft};
use pombo_kernel::name::{ChannelName, Tenant};
use pombo_kernel::secret::Secret;
use pombo_kernel::setup::EVENTS;
use pombo_kernel::signature;
use pombo_kernel::subscription::{Disabled, Signer, Subscription, USUAL};
use pombo_kernel::time::{Span, Time};
use pombo_store::Repeat;
use pombo_store::audit::Event;
use pombo_store::shelf::{Doc, Expect, Pick, Shelf, Shelve, Shelved, Wanted};
use pombo_store::transition::act_of;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::fields::Fields;
use super::page::{Paging, page};
use crate::Door;
use crate::event;
use crate::problem::{Code, Problem};
use crate::route::Call;
use crate::trail::Trail;
use crate::{body, idempotency, key, view, webhook};

const BODY_BYTES: usize = 64 * 1024;
/// Webhooks of one tenant: every event is looked at for each of them.
const WEBHOOKS_MAX: usize = 100;
const LIST_MAX: usize = 100;
/// How long the secret before still signs, if nothing else is said, and at most.
const OVERLAP: Span = Span::from_hours(24);
const OVERLAP_MAX: Span = Span::from_hours(24 * 30);

/// A webhook as callers read it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Webhook")]
pub(crate) struct WebhookView {
    /// `whk_` and hexadecimal digits.
    id: String,
    url: String,
    description: Option<String>,
    /// The types that it is told of, as they were given.
    events: Vec<String>,
    /// Only events of these channels; of all if there are none.
    channels: Vec<ChannelName>,
    /// Whether anything is told.
    enabled: bool,
    /// Why nothing is told.
    disabled_reason: Option<String>,
    disabled_at: Option<Time>,
    /// Until when the secret before the last rotation signs beside the new one.
    old_secret_until: Option<Time>,
    created_at: Time,
    created_by: String,
    updated_at: Time,
    /// What its receiver verifies signatures with. Shown when it is made, and never again.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

impl WebhookView {
    fn of(doc: &Doc, subscription: Subscription, now: Time) -> WebhookView {
        let old = subscription.secrets.iter().filter_map(|signer| signer.until).max();
        let Subscription { url, description, events, channels, disabled, created_at, created_by, .. } =
            subscription;
        let events = match events.is_empty() {
            true => USUAL.map(str::to_owned).into(),
            false => events,
        };
        let (disabled_reason, disabled_at) = disabled.map(|it| (it.reason, it.at)).unzip();
        WebhookView {
            id: doc.id.clone(),
            url,
            description,
            events,
            channels,
            enabled: disabled_at.is_none(),
            disabled_reason,
            disabled_at,
            old_secret_until: old.filter(|until| *until > now),
            created_at,
            created_by,
            updated_at: doc.updated_at,
            secret: None,
        }
    }
}

/// The message that carries a test.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WebhookTest")]
pub(crate) struct TestView {
    /// Where to follow it: `GET /v1/messages/{message_id}`.
    message_id: String,
}

/// The webhooks of the caller's tenant, the newest first.
pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    call.caller.may_use_all()?;
    let paging = Paging::read(&call.head.uri, &[])?;
    let pick = Pick::All { after: paging.after()? };
    let (tenant, limit) = (Some(call.caller.tenant.clone()), paging.limit + 1);
    let found = call.door.store().docs(Wanted { shelf: Shelf::Webhook, tenant, pick, limit }).await?;
    let (found, next) = paging.cut(found);
    paging.query.end()?;
    let now = call.door.now();
    let read = |doc: &Doc| Some(WebhookView::of(doc, Subscription::read(&doc.leaf.body)?, now));
    page(found.iter().filter_map(read).collect(), next)
}

pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    call.caller.may_use_all()?;
    let (doc, subscription) = stored(&call.door, &call.caller.tenant, &call.name).await?;
    view::ok(&WebhookView::of(&doc, subscription, call.door.now()))
}

/// Tells somebody of events from now on: 201, with the secret, which is shown this once. The same key and request
/// again answer with the same webhook, and without its secret.
pub(crate) async fn create(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, .. } = call;
    let text = body::json(&door, &head.headers, body, BODY_BYTES).await?;
    let request = idempotency::header(&head.headers)?.map(|key| idempotency::of(key, &text));
    let mut fields = Fields::read(&text)?;
    let wish = Wish::read(&mut fields, &door, &caller.tenant);
    if !wish.names_url {
        fields.wrong("url", "is missing", "write https://host/path");
    }
    fields.end()?;
    let (store, now) = (door.store(), door.now());
    let (id, request) = match &request {
        None => (new_id(&door), None),
        Some(it) => (id_of_key(&caller.tenant, &it.key), Some(key::hex(&it.fingerprint))),
    };
    if request.is_some()
        && let Some(before) = store.doc(Shelf::Webhook, caller.tenant.clone(), id.clone()).await?
    {
        return repeated(&before, request.as_ref(), now);
    }
    let tenant = Some(caller.tenant.clone());
    let all = Wanted { shelf: Shelf::Webhook, tenant, pick: Pick::All { after: None }, limit: WEBHOOKS_MAX };
    if store.docs(all).await?.len() >= WEBHOOKS_MAX {
        let detail = format!("there are {WEBHOOKS_MAX} webhooks, and no more fit");
        return Err(Problem::new(Code::TooManyWebhooks, detail, "remove one that is not needed"));
    }
    let secret = new_secret(&door);
    let mut subscription = Subscription {
        url: String::new(),
        description: None,
        events: Vec::new(),
        channels: Vec::new(),
        secrets: vec![Signer { secret: Secret::new(secret.clone()), until: None }],
        disabled: None,
        since: *store.watch().borrow(),
        created_at: now,
        created_by: caller.actor().0,
        request: request.clone(),
        rest: serde_json::Map::new(),
    };
    wish.apply(&mut subscription, &door);
    let by = caller.actor();
    let wish = webhook::put(&caller.tenant, &id, &subscription, Expect::Nothing, ("created", &by, now));
    let leaf = wish.leaf.clone();
    let version = match store.shelve(vec![wish]).await?.pop() {
        Some(Shelved::Done { version }) => version,
        Some(Shelved::Conflict(Some(before))) => return repeated(&before, request.as_ref(), now),
        _ => return Err(Problem::internal()),
    };
    let leaf = leaf.ok_or_else(Problem::internal)?;
    tracing::info!(webhook = id, key_id = caller.key_id, "webhook created");
    let doc = Doc { tenant: caller.tenant.clone(), id, version, updated_at: now, leaf };
    let view = WebhookView { secret: Some(secret), ..WebhookView::of(&doc, subscription, now) };
    answered(StatusCode::CREATED, &view)
}

/// What an earlier request with the same key has made, as it is by now.
fn repeated(before: &Doc, request: Option<&String>, now: Time) -> Result<Response, Problem> {
    let subscription = Subscription::read(&before.leaf.body).ok_or_else(Problem::internal)?;
    if request.is_none() || subscription.request.as_ref() != request {
        return Err(idempotency::conflict(&format!("which made {}", before.id)));
    }
    answered(StatusCode::CREATED, &WebhookView::of(before, subscription, now)).map(idempotency::replayed)
}

/// Changes what is given and leaves the rest. One that is enabled again is told of what happens from then on.
pub(crate) async fn change(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, name } = call;
    let mut fields = Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?;
    let wish = Wish::read(&mut fields, &door, &caller.tenant);
    fields.end()?;
    changed(&door, &caller.tenant, &name, &caller.actor(), |_, it| wish.apply(it, &door)).await
}

/// Signs with another secret from now on, and with the one before for the length of the overlap.
pub(crate) async fn rotate(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, name } = call;
    let mut fields = Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?;
    let overlap = fields.line("overlap", 32).map(|text| text.parse::<Span>());
    if overlap.as_ref().is_some_and(|it| it.as_ref().is_ok_and(|it| *it > OVERLAP_MAX) || it.is_err()) {
        let hint = format!("for example \"24h\", at most {OVERLAP_MAX}; \"0s\" ends the old secret at once");
        fields.wrong("overlap", "is not a length of time that is taken here", hint);
    }
    fields.end()?;
    let overlap = overlap.and_then(Result::ok).unwrap_or(OVERLAP);
    let (secret, now) = (new_secret(&door), door.now());
    let by = caller.actor();
    let rotate = |_: &Doc, subscription: &mut Subscription| {
        subscription.rotate(Secret::new(secret.clone()), overlap, now);
        Some("secret_rotated")
    };
    let found = webhook::change(door.store(), &caller.tenant, &name, &by, now, rotate).await?;
    let (doc, subscription) = found.ok_or_else(no_webhook)?;
    tracing::info!(webhook = name, key_id = caller.key_id, "the secret of a webhook was rotated");
    view::ok(&WebhookView { secret: Some(secret.clone()), ..WebhookView::of(&doc, subscription, now) })
}

/// Sends it an event that means nothing, the way every event goes: 202, with the message to follow.
pub(crate) async fn test(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, name } = call;
    caller.may_use_all()?;
    Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?.end()?;
    if door.is_closing() {
        return Err(Problem::shutting_down());
    }
    let (doc, _) = stored(&door, &caller.tenant, &name).await?;
    let draft = event::delivery(&caller.tenant, &doc.id, &event::test(&doc.id, door.now()));
    let key = idempotency::header(&head.headers)?;
    // Beside the keys of messages, which are the producers'.
    let place = key.map(|key| format!("test·{}", idempotency::place(&[&doc.id, &key])));
    let idempotency = place.map(|place| idempotency::of(place, doc.id.as_bytes()));
    let accepted = door.accept(vec![Draft { idempotency, ..draft }], Trail::of(&head)).await?.pop();
    let Some(Ok(accepted)) = accepted else { return Err(Problem::internal()) };
    let answer = answered(StatusCode::ACCEPTED, &TestView { message_id: accepted.id.to_string() })?;
    Ok(match accepted.repeat {
        Repeat::First => answer,
        Repeat::Same => idempotency::replayed(answer),
    })
}

/// Tells it nothing more. What waits for it becomes a dead letter.
pub(crate) async fn remove(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, name, .. } = call;
    let (doc, _) = stored(&door, &caller.tenant, &name).await?;
    let detail = json!({ "webhook": doc.id });
    let record = act_of(Event::WebhookRemoved, &caller.tenant, &caller.actor(), &detail, door.now());
    let wish = Shelve {
        shelf: Shelf::Webhook,
        tenant: caller.tenant.clone(),
        id: doc.id,
        expect: Expect::Any,
        leaf: None,
        record: Some(record),
    };
    door.store().shelve(vec![wish]).await?;
    tracing::info!(webhook = name, key_id = caller.key_id, "webhook removed");
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

fn answered(status: StatusCode, document: &impl Serialize) -> Result<Response, Problem> {
    Ok(view::answer(status, serde_json::to_vec(document).map_err(|_| Problem::internal())?))
}

async fn changed(
    door: &Door,
    tenant: &Tenant,
    id: &str,
    by: &Actor,
    wish: impl Fn(&Doc, &mut Subscription) -> Option<&'static str>,
) -> Result<Response, Problem> {
    let now = door.now();
    let found = webhook::change(door.store(), tenant, id, by, now, wish).await?;
    let (doc, subscription) = found.ok_or_else(no_webhook)?;
    tracing::info!(webhook = id, by = by.0, "webhook changed");
    view::ok(&WebhookView::of(&doc, subscription, now))
}

async fn stored(door: &Door, tenant: &Tenant, id: &str) -> Result<(Doc, Subscription), Problem> {
    // No id is longer, and none that is can be looked for.
    if id.len() > 64 {
        return Err(no_webhook());
    }
    let doc = door.store().doc(Shelf::Webhook, tenant.clone(), id.to_owned()).await?;
    let found = doc.and_then(|doc| Subscription::read(&doc.leaf.body).map(|it| (doc, it)));
    found.ok_or_else(no_webhook)
}

fn no_webhook() -> Problem {
    let hint = "GET /v1/webhooks and `pombo webhooks list` show them";
    Problem::new(Code::NotFound, "there is no webhook with this id", hint)
}

fn new_id(door: &Door) -> String {
    format!("whk_{}", key::hex(&door.entropy()()[..12]))
}

/// The one id that a key can have.
fn id_of_key(tenant: &Tenant, key: &str) -> String {
    format!("whk_{}", &idempotency::place(&[tenant.as_str(), key])[..24])
}

fn new_secret(door: &Door) -> String {
    signature::secret(&door.entropy()())
}

/// What a request wants a webhook to be like; nothing where it says nothing.
struct Wish {
    /// An address is given, be it good or bad.
    names_url: bool,
    url: Option<String>,
    description: Option<Option<String>>,
    events: Option<Vec<String>>,
    channels: Option<Vec<ChannelName>>,
    enabled: Option<bool>,
}

impl Wish {
    fn read(fields: &mut Fields, door: &Door, tenant: &Tenant) -> Wish {
        let given = fields.value("url");
        let url = given.as_ref().and_then(|url| match fit(url, door) {
            Ok(url) => Some(url),
            Err((reason, hint)) => {
                fields.wrong("url", reason, hint);
                None
            }
        });
        let description = match fields.nullable("description") {
            None => None,
            Some(Value::Null) => Some(None),
            Some(Value::String(text)) if text.len() <= 500 && !text.chars().any(char::is_control) => {
                Some(Some(text))
            }
            Some(_) => {
                fields.wrong("description", "is not a line of at most 500 bytes", "say it in a few words");
                None
            }
        };
        let events = list_of(fields, "events", |text| match event::unknown_type(text) {
            None => Ok(text.to_owned()),
            Some(wrong) => Err(wrong),
        });
        let setup = door.setup();
        let channels = list_of(fields, "channels", |text| {
            let own = setup.channels.get(text).filter(|it| it.tenant == *tenant && text != EVENTS);
            let hint = "`pombo channels list` shows them";
            own.map(|it| it.name.clone())
                .ok_or_else(|| ("names a channel that there is not".to_owned(), hint.to_owned()))
        });
        let enabled = fields.value("enabled");
        let enabled = enabled.and_then(|value| {
            if !value.is_boolean() {
                fields.wrong("enabled", "is not true or false", "write true or false");
            }
            value.as_bool()
        });
        Wish { names_url: given.is_some(), url, description, events, channels, enabled }
    }

    /// Makes it so; a word for what was done, and nothing if it was so already.
    fn apply(&self, subscription: &mut Subscription, door: &Door) -> Option<&'static str> {
        let before = subscription.clone();
        if let Some(url) = &self.url {
            subscription.url.clone_from(url);
        }
        if let Some(description) = &self.description {
            subscription.description.clone_from(description);
        }
        if let Some(events) = &self.events {
            subscription.events.clone_from(events);
        }
        if let Some(channels) = &self.channels {
            subscription.channels.clone_from(channels);
        }
        let mut word = "changed";
        match (self.enabled, &subscription.disabled) {
            (Some(false), None) => {
                let reason = "switched off by an operator".to_owned();
                subscription.disabled = Some(Disabled { at: door.now(), reason });
                word = "disabled";
            }
            (Some(true), Some(_)) => {
                subscription.disabled = None;
                subscription.since = *door.store().watch().borrow();
                word = "enabled";
            }
            _ => {}
        }
        (*subscription != before).then_some(word)
    }
}

/// An address that events may go to, so far as it can be judged by itself.
fn fit(url: &Value, door: &Door) -> Result<String, (String, String)> {
    let Some(text) = url.as_str() else {
        return Err(("is not text".to_owned(), "write https://host/path".to_owned()));
    };
    let url = web_address(text).map_err(|problem| {
        let hint = match problem.reason.contains("credentials") {
            true => "leave them out: the signature shows who it is from".to_owned(),
            false => problem.hint,
        };
        (problem.reason, hint)
    })?;
    door.setup().subscribers.judge_url(&url).map_err(|special| {
        let hint = "name one of the public internet, or open it by `events.allow` in the configuration";
        (format!("leads to a {} address", special.as_str()), hint.to_owned())
    })?;
    Ok(text.to_owned())
}

/// A list of short texts, each read by `read`.
fn list_of<T>(
    fields: &mut Fields,
    field: &'static str,
    read: impl Fn(&str) -> Result<T, (String, String)>,
) -> Option<Vec<T>> {
    let value = fields.value(field)?;
    let Value::Array(items) = value else {
        fields.wrong(field, "is not a list", "write [\"…\", \"…\"]");
        return None;
    };
    if items.len() > LIST_MAX {
        fields.wrong(field, format!("has more than {LIST_MAX} entries"), "leave it out for the usual ones");
        return None;
    }
    let mut found = Vec::with_capacity(items.len());
    for item in &items {
        match item.as_str().map(&read) {
            Some(Ok(item)) => found.push(item),
            Some(Err((reason, hint))) => {
                fields.wrong(field, reason, hint);
                return None;
            }
            None => {
                fields.wrong(field, "has an entry that is not text", "write [\"…\", \"…\"]");
                return None;
            }
        }
    }
    Some(found)
}
