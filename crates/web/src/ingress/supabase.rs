//! The function `enqueue_email`, as PostgREST offers a database's functions to clients of Supabase.

use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use pombo_kernel::message::Json;
use pombo_kernel::request::{self, BadJson, Refused, Request, bad_idempotency_key};
use pombo_kernel::time::{Span, Time};
use serde_json::{Map, Value, json};

use super::{Surface, accept, json, mail_channel, no_mail_channel, part};
use crate::pin::pin_templates;
use crate::problem::{Code, Problem};
use crate::route::Call;
use crate::{body, idempotency, suppression};

const NAME: &str = "enqueue_email";
/// As the function's arguments are called in the database; those that need not be given come last.
const ARGUMENTS: [&str; 8] = [
    "p_user_id",
    "p_template_type",
    "p_recipient_email",
    "p_payload",
    "p_channel",
    "p_send_at",
    "p_expires_after",
    "p_idempotency_key",
];
const NEEDED: usize = 3;
/// What a request may have beyond its payload.
const BODY_BYTES_MORE: usize = 64 * 1024;
/// What PostgREST knows as a preference, whether it matters here or not.
const PREFERENCES: [&str; 8] =
    ["return", "count", "resolution", "missing", "handling", "tx", "timezone", "max-affected"];

/// Every error of PostgREST and of the database behind it.
fn error(
    status: StatusCode,
    code: &str,
    message: &str,
    details: Option<&str>,
    hint: Option<&str>,
) -> Response {
    json(status, &json!({"code": code, "details": details, "hint": hint, "message": message}))
}

/// The gateway in front of PostgREST has errors of its own form.
pub(super) fn keyless() -> Response {
    let hint = "pass a key as `apikey`, or as `Authorization: Bearer KEY`";
    json(StatusCode::UNAUTHORIZED, &json!({"message": "No API key found in request", "hint": hint}))
}

/// A problem of ours, as PostgREST would have told it.
pub(super) fn refusal(problem: &Problem) -> Response {
    let (status, code) = match problem.code {
        Code::Unauthorized => {
            let hint = "the key is not one of Pombo's; `pombo keys create` makes one";
            return json(StatusCode::UNAUTHORIZED, &json!({"message": "Invalid API key", "hint": hint}));
        }
        Code::Forbidden => (StatusCode::FORBIDDEN, "42501"),
        Code::InvalidJson => (StatusCode::BAD_REQUEST, "PGRST102"),
        Code::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "PGRST101"),
        Code::NotFound => (StatusCode::NOT_FOUND, "PGRST202"),
        Code::IdempotencyConflict => (StatusCode::CONFLICT, "23505"),
        Code::BodyTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "54000"),
        Code::UnsupportedMediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "PGRST102"),
        Code::RequestTimeout => (StatusCode::REQUEST_TIMEOUT, "PGRST003"),
        Code::Overloaded | Code::TooManyFailures => (StatusCode::TOO_MANY_REQUESTS, "53300"),
        Code::StoreUnavailable | Code::ReadTooLong | Code::ShuttingDown => {
            (StatusCode::SERVICE_UNAVAILABLE, "PGRST001")
        }
        Code::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "XX000"),
        // There is something wrong with a value: the function raises an exception.
        _ => (StatusCode::BAD_REQUEST, "P0001"),
    };
    let message = match problem.code {
        Code::InvalidJson => "Empty or invalid json",
        Code::Forbidden => "permission denied for function enqueue_email",
        _ => &problem.detail,
    };
    let details = (message != problem.detail).then_some(&*problem.detail);
    error(status, code, message, details, Some(&*problem.hint).filter(|hint| !hint.is_empty()))
}

/// Nothing is called so, or nothing with these arguments.
fn no_such(name: &str, given: &[&str]) -> Response {
    let name: String = name.chars().take(64).collect();
    let mut given: Vec<String> = given.iter().take(20).map(|name| name.chars().take(64).collect()).collect();
    given.sort_unstable();
    let (call, with) = match given.is_empty() {
        true => (format!("public.{name}"), "without parameters".to_owned()),
        false => {
            (format!("public.{name}({})", given.join(", ")), format!("with parameters {}", given.join(", ")))
        }
    };
    let message = format!("Could not find the function {call} in the schema cache");
    let details = format!(
        "Searched for the function public.{name} {with}, but no matches were found in the schema cache."
    );
    let hint =
        format!("Perhaps you meant to call the function public.{NAME}({})", ARGUMENTS[..=NEEDED].join(", "));
    error(StatusCode::NOT_FOUND, "PGRST202", &message, Some(&details), Some(&hint))
}

/// No function is at that address.
pub(super) fn no_function(path: &str) -> Response {
    let response = match path.strip_prefix("/rest/v1/rpc/") {
        Some(name) => no_such(name, &[]),
        None => {
            let table: String =
                path.trim_start_matches("/rest/v1").trim_start_matches('/').chars().take(64).collect();
            let message = format!("Could not find the table 'public.{table}' in the schema cache");
            error(StatusCode::NOT_FOUND, "PGRST205", &message, None, None)
        }
    };
    Surface::Rest.for_browsers(response)
}

/// Takes in an e-mail for a template: answers the message's id alone, as a UUID.
pub(crate) async fn enqueue(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, .. } = call;
    if door.is_closing() {
        return Err(Problem::shutting_down());
    }
    if let Some(refused) = odd_profile(&head.headers).or_else(|| odd_preferences(&head.headers)) {
        return Ok(refused);
    }
    let setup = door.setup();
    let most = setup.limits.content_bytes.saturating_mul(2).saturating_add(BODY_BYTES_MORE);
    let held = body::held_json(&door, &head.headers, body, most).await?;
    let header = idempotency::header(&head.headers)?;
    let arguments = match held.text.trim_ascii() {
        [] => Map::new(),
        text => match serde_json::from_slice(text).map_err(BadJson::from)? {
            Value::Object(arguments) => arguments,
            _ => return Ok(no_such(NAME, &[])),
        },
    };
    let is_there = |name: &&str| arguments.contains_key(*name);
    let known = arguments.keys().all(|name| ARGUMENTS.contains(&name.as_str()));
    if !known || !ARGUMENTS[..NEEDED].iter().all(is_there) {
        return Ok(no_such(NAME, &arguments.keys().map(String::as_str).collect::<Vec<_>>()));
    }
    let key = header.or_else(|| text(&arguments, "p_idempotency_key"));
    if let Some(problem) = key.as_deref().and_then(bad_idempotency_key) {
        return Err(in_arguments(vec![problem]));
    }
    let key = key.map(|key| idempotency::of(key, &held.text));
    let channel = match text(&arguments, "p_channel") {
        Some(name) => name,
        None => mail_channel(&caller, &setup).ok_or_else(no_mail_channel)?.name.to_string(),
    };
    if let Ok(name) = channel.parse() {
        caller.may_use(&name)?;
    }
    let template = needed(&arguments, "p_template_type")?;
    let request = Request {
        channel,
        to: needed(&arguments, "p_recipient_email")?,
        kind: Some(template.clone()),
        template: Some(template),
        payload: arguments.get("p_payload").filter(|payload| !payload.is_null()).map(Json::from_value),
        user_id: text(&arguments, "p_user_id"),
        send_at: parsed::<Time>(&arguments, "p_send_at")?,
        expires_after: parsed::<Span>(&arguments, "p_expires_after")?,
        ..Request::default()
    };
    let mut draft = setup.draft(request, &caller.tenant, door.now()).map_err(in_arguments)?;
    draft.idempotency = key.map(|key| part(&key, 0, "0"));
    let found = pin_templates(door.store(), &setup, std::slice::from_mut(&mut draft)).await?;
    if let Some(problem) = found.into_iter().next().flatten() {
        return Err(in_arguments(vec![problem]));
    }
    if let Some(problem) = suppression::stops(door.store(), &setup, std::slice::from_ref(&draft)).await? {
        return Err(in_arguments(vec![problem]));
    }
    let accepted = accept(&door, &head, vec![draft]).await?;
    let id = accepted.first().ok_or_else(Problem::internal)?.id;
    let mut response = json(StatusCode::OK, &json!(id.uuid()));
    if let Some(handling) = preferences(&head.headers).find_map(|it| it.strip_prefix("handling=")) {
        let applied = HeaderValue::from_str(&format!("handling={handling}"));
        response
            .headers_mut()
            .extend(applied.ok().map(|it| (HeaderName::from_static("preference-applied"), it)));
    }
    Ok(Surface::Rest.for_browsers(response))
}

/// What is wrong with a message, by the names of the function's arguments.
fn in_arguments(mut problems: Vec<request::Problem>) -> Problem {
    for problem in &mut problems {
        let name = match &*problem.field {
            "user_id" => "p_user_id",
            "type" | "template" => "p_template_type",
            "to" => "p_recipient_email",
            "payload" => "p_payload",
            "channel" => "p_channel",
            "send_at" => "p_send_at",
            "expires_after" => "p_expires_after",
            "idempotency_key" => "p_idempotency_key",
            _ => continue,
        };
        problem.field = name.into();
    }
    Refused::Problems(problems).into()
}

/// An argument as text, however it is written; nothing if it is null or not given.
fn text(arguments: &Map<String, Value>, name: &str) -> Option<String> {
    match arguments.get(name)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn needed(arguments: &Map<String, Value>, name: &'static str) -> Result<String, Problem> {
    text(arguments, name).ok_or_else(|| Problem::field(name, "is null", "give a text"))
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
    arguments: &Map<String, Value>,
    name: &'static str,
) -> Result<Option<T>, Problem> {
    let read = |text: String| {
        let wrong = |error: T::Err| Problem::field(name, "cannot be read", error.to_string());
        text.parse().map_err(wrong)
    };
    text(arguments, name).map(read).transpose()
}

/// Another schema than the one that there is.
fn odd_profile(headers: &HeaderMap) -> Option<Response> {
    let profile = headers.get("content-profile")?;
    if profile == "public" {
        return None;
    }
    let asked: String = profile.to_str().unwrap_or_default().chars().take(64).collect();
    let hint = "Only the following schemas are exposed: public";
    let message = format!("Invalid schema: {asked}");
    Some(error(StatusCode::NOT_ACCEPTABLE, "PGRST106", &message, None, Some(hint)))
}

/// A preference that nobody knows matters only to a caller who says that it should.
fn odd_preferences(headers: &HeaderMap) -> Option<Response> {
    if !preferences(headers).any(|preference| preference == "handling=strict") {
        return None;
    }
    let known = |preference: &str| {
        let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
        PREFERENCES.contains(&name) && !value.is_empty()
    };
    let odd: Vec<&str> = preferences(headers).filter(|preference| !known(preference)).take(8).collect();
    let details = format!("Invalid preferences: {}", odd.join(", ").chars().take(256).collect::<String>());
    let message = "Invalid preferences given with handling=strict";
    (!odd.is_empty()).then(|| error(StatusCode::BAD_REQUEST, "PGRST122", message, Some(&details), None))
}

fn preferences(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all("prefer").into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|preference| !preference.is_empty())
}
