//! Templates: what they say, version by version, and what comes of one with a payload.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::name::TemplateName;
use pombo_kernel::request::no_template;
use pombo_kernel::setup::ChannelSetup;
use pombo_kernel::template::{Compiled, PART_BYTES_MAX, Part, Template};
use pombo_kernel::time::Time;
use pombo_store::{Put, Repeat, TemplateVersion};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::fields::Fields;
use super::page::{self, Paging, Query, bad_cursor};
use crate::Door;
use crate::auth::Caller;
use crate::problem::{Code, FieldError, Problem};
use crate::route::Call;
use crate::{body, view};

/// Four parts of the largest size, with room for their escapes.
const BODY_BYTES: usize = 4 * 2 * PART_BYTES_MAX;
/// Names that are looked through for one like it, when a template is not found.
const OTHERS: usize = 500;

/// A version with its words.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TemplateVersion")]
pub(crate) struct Full<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    subject: Option<&'a str>,
    text: Option<&'a str>,
    html: Option<&'a str>,
    whatsapp: Option<&'a str>,
}

/// A version as a list shows it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TemplateHead")]
pub(crate) struct Head<'a> {
    name: &'a str,
    version: u32,
    parts: Vec<&'static str>,
    created_at: Time,
    created_by: &'a str,
}

impl<'a> From<&'a TemplateVersion> for Head<'a> {
    fn from(stored: &'a TemplateVersion) -> Head<'a> {
        Head {
            name: stored.name.as_str(),
            version: stored.version,
            parts: stored.template.parts().map(Part::as_str).collect(),
            created_at: stored.created_at,
            created_by: &stored.by.0,
        }
    }
}

fn full(status: StatusCode, stored: &TemplateVersion) -> Result<Response, Problem> {
    let Template { subject, text, html, whatsapp } = &stored.template;
    let document = Full {
        head: stored.into(),
        subject: subject.as_deref(),
        text: text.as_deref(),
        html: html.as_deref(),
        whatsapp: whatsapp.as_deref(),
    };
    let json = serde_json::to_vec(&document).map_err(|_| Problem::internal())?;
    Ok(view::answer(status, json))
}

fn page(
    stored: &[TemplateVersion],
    limit: usize,
    cursor: impl Fn(&TemplateVersion) -> String,
) -> Result<Response, Problem> {
    let more = stored.len() > limit;
    let shown = &stored[..stored.len().min(limit)];
    let next_cursor = shown.last().filter(|_| more).map(cursor);
    page::page(shown.iter().map(Head::from).collect(), next_cursor)
}

/// The latest version of each template, by name.
pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let Paging { limit, cursor, query } = Paging::read(&call.head.uri, &[])?;
    query.end()?;
    let after = cursor.map(|cursor| cursor.parse().map_err(|_| bad_cursor())).transpose()?;
    let stored = call.door.store().templates(call.caller.tenant.clone(), after, limit + 1).await?;
    page(&stored, limit, |last| last.name.to_string())
}

/// One version of a template; the latest if none is named.
pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    let mut query = Query::read(&call.head.uri, &["version"])?;
    let version = query.take("version", |text| {
        text.parse().map_err(|_| ("is not a number".to_owned(), "write for example 3".to_owned()))
    });
    query.end()?;
    full(StatusCode::OK, &stored(&call.door, &call.caller, &call.name, version).await?)
}

/// The versions of a template, the newest first.
pub(crate) async fn versions(call: Call) -> Result<Response, Problem> {
    let Paging { limit, cursor, query } = Paging::read(&call.head.uri, &[])?;
    query.end()?;
    let before = cursor.map(|cursor| cursor.parse().map_err(|_| bad_cursor())).transpose()?;
    let latest = stored(&call.door, &call.caller, &call.name, None).await?;
    let tenant = call.caller.tenant.clone();
    let found = call.door.store().template_versions(tenant, latest.name, before, limit + 1).await?;
    page(&found, limit, |last| last.version.to_string())
}

/// Puts a template: 201 with its new version, 200 if the latest one says the same.
pub(crate) async fn put(call: Call) -> Result<Response, Problem> {
    let name: TemplateName = call.name.parse().map_err(|bad: pombo_kernel::name::BadName| {
        Problem::field("name", "is not a name for a template", bad.to_string())
    })?;
    call.caller.may_use_all()?;
    let Call { door, caller, head, body, .. } = call;
    let mut fields = Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?;
    let template = words(&mut fields);
    fields.end()?;
    compiled(template.clone())?;
    let Put { stored, repeat } =
        door.store().put_template(caller.tenant.clone(), name, template, caller.actor()).await?;
    match repeat {
        Repeat::Same => full(StatusCode::OK, &stored),
        Repeat::First => {
            tracing::info!(template = %stored.name, version = stored.version, key_id = caller.key_id, "template put");
            full(StatusCode::CREATED, &stored)
        }
    }
}

/// What a template is to say, part by part.
fn words(fields: &mut Fields) -> Template {
    let mut part = |part: Part| fields.text(part.as_str(), PART_BYTES_MAX);
    Template {
        subject: part(Part::Subject),
        text: part(Part::Text),
        html: part(Part::Html),
        whatsapp: part(Part::Whatsapp),
    }
}

/// A template that can be used, or what is wrong with each of its parts.
fn compiled(template: Template) -> Result<Compiled, Problem> {
    Compiled::new(template).map_err(|problems| {
        let error = |it: pombo_kernel::content::Problem| FieldError {
            code: Code::TemplateError,
            field: it.field.into(),
            reason: it.reason,
            hint: it.hint,
        };
        Problem::fields(problems.into_iter().map(error).collect())
    })
}

/// What comes of a template.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RenderedTemplate")]
pub(crate) struct Rendered<'a> {
    name: &'a str,
    /// Null for words that are not kept anywhere.
    version: Option<u32>,
    #[schemars(with = "ChannelKind")]
    kind: &'static str,
    /// The content that a channel of this kind would get.
    content: Value,
}

/// What a channel of some kind would get to see. Nothing is sent or stored.
pub(crate) async fn render(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, name } = call;
    let limit = door.setup().limits.content_bytes.saturating_add(BODY_BYTES);
    let mut fields = Fields::read(&body::json(&door, &head.headers, body, limit).await?)?;
    let payload = fields.value("payload").unwrap_or_else(|| Value::Object(Map::new()));
    if !payload.is_object() {
        fields.wrong("payload", "is not an object", "write {\"name\": \"Ana\"}");
    }
    let kind = kind(&door, &caller, &mut fields);
    let version = version(&mut fields);
    let draft = draft(&mut fields);
    fields.end()?;
    if let Some(draft) = draft {
        let (mail, compiled) = (draft.subject.is_some(), compiled(draft)?);
        let kind = kind.unwrap_or_else(|| likely(mail));
        let hint = "mend the words, or give what they need in `payload`";
        let content = door.0.press.play(move || compiled.render(kind, &payload)).await?;
        let content = content.map_err(|error| Problem::new(Code::TemplateError, error.to_string(), hint))?;
        return view::ok(&Rendered { name: &name, version: None, kind: kind.as_str(), content });
    }
    let stored = stored(&door, &caller, &name, version).await?;
    let failed = |detail: String| {
        let hint = "mend the template with `pombo templates put`, or give what it needs in `payload`";
        let detail = format!("template `{}` version {}: {detail}", stored.name, stored.version);
        Problem::new(Code::TemplateError, detail, hint)
    };
    let compiled = Compiled::new(stored.template.clone())
        .map_err(|problems| failed(problems.first().map(ToString::to_string).unwrap_or_default()))?;
    let kind = kind.unwrap_or_else(|| likely(stored.template.subject.is_some()));
    let content = door.0.press.play(move || compiled.render(kind, &payload)).await?;
    let content = content.map_err(|error| failed(error.to_string()))?;
    let name = stored.name.as_str();
    view::ok(&Rendered { name, version: Some(stored.version), kind: kind.as_str(), content })
}

/// Mail if it has a subject: what else would that be for?
fn likely(mail: bool) -> ChannelKind {
    if mail { ChannelKind::Smtp } else { ChannelKind::Evolution }
}

/// Words that are tried before they are kept: as they are put, in an object of their own.
fn draft(fields: &mut Fields) -> Option<Template> {
    match fields.value("draft")? {
        Value::Object(parts) => {
            let mut parts = Fields::of(parts);
            let draft = words(&mut parts);
            match parts.end() {
                Ok(()) => return Some(draft),
                Err(problem) => problem.errors.into_iter().for_each(|error| fields.refuse(error)),
            }
        }
        _ => fields.wrong("draft", "is not an object", "write {\"text\": \"Hello, {{ name }}\"}"),
    }
    None
}

/// The kind that is named, or that of the channel that is.
fn kind(door: &Door, caller: &Caller, fields: &mut Fields) -> Option<ChannelKind> {
    let kind = fields.text("kind", 64);
    if let Some(name) = fields.text("channel", 64) {
        let setup = door.setup();
        let own = |it: &&Arc<ChannelSetup>| it.tenant == caller.tenant && caller.sees(&it.name);
        let channel = setup.channels.get(name.as_str()).filter(own);
        if channel.is_none() {
            fields.wrong("channel", "there is no such channel", "`pombo channels list` shows them");
        }
        return channel.map(|channel| channel.kind);
    }
    let kind = kind?.parse();
    if kind.is_err() {
        fields.wrong("kind", "is not a kind of channel", "one of evolution, smtp, resend");
    }
    kind.ok()
}

fn version(fields: &mut Fields) -> Option<u32> {
    let version = fields.value("version")?.as_u64().and_then(|version| u32::try_from(version).ok());
    if version.is_none() {
        fields.wrong("version", "is not the number of a version", "write for example 3, or leave it out");
    }
    version
}

/// The caller's own template of that name.
async fn stored(
    door: &Door,
    caller: &Caller,
    asked: &str,
    version: Option<u32>,
) -> Result<TemplateVersion, Problem> {
    let store = door.store();
    let tenant = || caller.tenant.clone();
    if let Ok(name) = asked.parse::<TemplateName>() {
        if let Some(stored) = store.template(tenant(), name.clone(), version).await? {
            return Ok(stored);
        }
        if let (Some(version), Some(latest)) = (version, store.template(tenant(), name, None).await?) {
            let detail = format!("template `{}` has no version {version}", latest.name);
            return Err(Problem::new(Code::NotFound, detail, format!("the latest is {}", latest.version)));
        }
    }
    let others = store.templates(tenant(), None, OTHERS).await?;
    let problem = no_template(asked, others.iter().map(|it| it.name.as_str()));
    Err(Problem::new(Code::NotFound, problem.reason, problem.hint))
}
