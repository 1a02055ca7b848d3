//! Evolution's routes for sending to WhatsApp.

use std::sync::Arc;

use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use http::request::Parts;
use pombo_kernel::content::phone;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::message::Json;
use pombo_kernel::request::{self, Refused, Request};
use pombo_kernel::setup::{ChannelSetup, Destination, Setup};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::members::{Members, value};
use super::{accept, json, keyed, part};
use crate::auth::Caller;
use crate::multipart::{self, Field};
use crate::problem::{Code, Problem};
use crate::route::Call;
use crate::{body, idempotency, suppression};

const KNOWN: &[&str] = &[
    "number",
    "text",
    "delay",
    "linkPreview",
    "quoted",
    "mentioned",
    "mentionsEveryOne",
    "mediatype",
    "media",
    "mimetype",
    "fileName",
    "caption",
];
/// What goes with a text or a file, by the names that both sides have for it.
const BESIDES: [&str; 5] = ["delay", "linkPreview", "quoted", "mentioned", "mentionsEveryOne"];
const MEDIA: [&str; 5] = ["mediatype", "media", "mimetype", "fileName", "caption"];

/// Errors come in one envelope; what stands in it has many forms.
fn envelope(status: StatusCode, error: &str, message: &Value) -> Response {
    json(status, &json!({"status": status.as_u16(), "error": error, "response": {"message": message}}))
}

fn bad_request(message: &Value) -> Response {
    envelope(StatusCode::BAD_REQUEST, "Bad Request", message)
}

pub(super) fn unauthorized() -> Response {
    envelope(StatusCode::UNAUTHORIZED, "Unauthorized", &json!("Unauthorized"))
}

pub(super) fn lost(head: &Parts) -> Response {
    let path: String = head.uri.path().chars().take(256).collect();
    envelope(StatusCode::NOT_FOUND, "Not Found", &json!([format!("Cannot {} {path}", head.method)]))
}

/// A problem of ours, in Evolution's envelope.
pub(super) fn refusal(problem: &Problem) -> Response {
    let said = format!("{} ({})", problem.detail, problem.hint);
    let status = match problem.code.status() {
        _ if problem.code == Code::Unauthorized => return unauthorized(),
        // What Evolution's parser does not take comes in the envelope of a fault.
        _ if problem.code == Code::InvalidJson => {
            return envelope(StatusCode::BAD_REQUEST, "Internal Server Error", &json!(said));
        }
        StatusCode::UNPROCESSABLE_ENTITY | StatusCode::UNSUPPORTED_MEDIA_TYPE => StatusCode::BAD_REQUEST,
        status => status,
    };
    envelope(status, status.canonical_reason().unwrap_or("Error"), &json!([said]))
}

/// Takes in a text.
pub(crate) async fn text(call: Call) -> Result<Response, Problem> {
    take(call, What::Text).await
}

/// Takes in a file, given as base64, as a link, or as part of a form.
pub(crate) async fn media(call: Call) -> Result<Response, Problem> {
    take(call, What::Media).await
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Text,
    Media,
}

async fn take(call: Call, what: What) -> Result<Response, Problem> {
    let Call { door, caller, head, body, name } = call;
    if door.is_closing() {
        return Err(Problem::shutting_down());
    }
    let setup = door.setup();
    let Some(channel) = channel(&caller, &setup, &name) else {
        let instance: String = name.chars().take(128).collect();
        let message = json!([format!("The \"{instance}\" instance does not exist")]);
        return Ok(envelope(StatusCode::NOT_FOUND, "Not Found", &message));
    };
    let limit = setup.limits.body_bytes();
    let form = multipart::boundary(&head.headers).filter(|_| what == What::Media);
    let held = match form {
        Some(_) => body::whole(&door, &head.headers, body, limit).await?,
        None => body::held_json(&door, &head.headers, body, limit).await?,
    };
    let members = match &form {
        Some(boundary) => of_form(multipart::read(&held.text, boundary)),
        None => of_json(Members::read(&held.text, KNOWN)?),
    };
    let (number, content) = match members.and_then(|members| read(members, what)) {
        Ok(read) => read,
        Err(message) => return Ok(bad_request(&message)),
    };
    // What stands between the fields of a form is another each time, so that what they say is the request.
    let key = idempotency::header(&head.headers)?.map(|key| match form {
        Some(_) => keyed(key, json!([number, content]).to_string().as_bytes()),
        None => keyed(key, &held.text),
    });
    let answer = Answer::of(&number, &content, what);
    let request = Request {
        channel: channel.name.to_string(),
        to: number,
        content: Some(Json::from_value(&content)),
        ..Request::default()
    };
    let mut draft = match setup.draft(request, &caller.tenant, door.now()) {
        Ok(draft) => draft,
        Err(problems) => return Ok(bad_request(&complaint(&problems, &answer))),
    };
    // The address says as much as the body does of what is asked.
    let place = format!("{what:?} {}", channel.name);
    draft.idempotency = key.map(|key| part(&key, 0, &place));
    if let Some(problem) = suppression::stops(door.store(), &setup, std::slice::from_ref(&draft)).await? {
        return Err(Refused::Problems(vec![problem]).into());
    }
    let accepted = accept(&door, &head, vec![draft]).await?;
    let accepted = accepted.first().ok_or_else(Problem::internal)?;
    let document = json!({
        "key": {"remoteJid": answer.jid, "fromMe": true, "id": accepted.id.to_string()},
        "pushName": "",
        "status": "PENDING",
        "message": answer.message,
        "messageType": answer.kind,
        "messageTimestamp": accepted.id.key().time().millis() / 1_000,
        "instanceId": channel.name.as_str(),
        "source": "unknown",
    });
    Ok(json(StatusCode::CREATED, &document))
}

/// The channel of that instance, or of that name; the key's own choice first where there are several.
fn channel(caller: &Caller, setup: &Setup, instance: &str) -> Option<Arc<ChannelSetup>> {
    let is_it = |channel: &&Arc<ChannelSetup>| {
        let instance_of = match &channel.destination {
            Destination::Fixed(name) => &**name,
            _ => "",
        };
        !instance.is_empty() && (instance_of == instance || channel.name.as_str() == instance)
    };
    let own = caller.default_channel(ChannelKind::Evolution, setup);
    own.filter(|channel| is_it(&channel)).or_else(|| {
        let mut all = caller.channels_in(setup).filter(|channel| channel.kind == ChannelKind::Evolution);
        all.find(is_it).cloned()
    })
}

/// What an object says, by the names that are known; else what Evolution would have said.
fn of_json(members: Option<Members<'_>>) -> Result<Map<String, Value>, Value> {
    let Some(mut given) = members else {
        return Err(json!([["instance is not of a type(s) object"]]));
    };
    let mut members = Map::new();
    for name in KNOWN {
        let Some(raw) = given.take(name) else { continue };
        // A file in base64 may be long; nothing else is.
        let read = match *name {
            "media" => serde_json::from_str(raw.get()).map(Value::String).ok(),
            _ => value(raw),
        };
        match read {
            Some(value) => members.insert((*name).to_owned(), value),
            None if *name == "media" => return Err(json!(["Owned media must be a url or base64"])),
            None => return Err(json!([[format!("instance.{name} is too long, or nested too deep")]])),
        };
    }
    Ok(members)
}

/// The same of a form, whose file stands in `file` and where everything else is text.
fn of_form(fields: Option<Vec<Field<'_>>>) -> Result<Map<String, Value>, Value> {
    let Some(fields) = fields else { return Err(json!(["The form cannot be read, or is not complete"])) };
    let (mut members, mut file) = (Map::new(), None);
    for field in fields {
        let Some(name) = KNOWN.iter().find(|name| **name == field.name) else {
            file = Some(field).filter(|field| field.name == "file").or(file);
            continue;
        };
        let Ok(text) = std::str::from_utf8(field.bytes) else {
            return Err(json!([[format!("instance.{name} is not text in UTF-8")]]));
        };
        let read = match *name {
            "delay" | "linkPreview" | "quoted" | "mentioned" | "mentionsEveryOne" => {
                RawValue::from_string(text.to_owned()).ok().and_then(|raw| value(&raw))
            }
            _ => None,
        };
        members.insert((*name).to_owned(), read.unwrap_or_else(|| text.into()));
    }
    if let Some(file) = file {
        let mut unless_said = |name: &str, said: Option<String>| {
            if let (Some(said), None) = (said, members.get(name)) {
                members.insert(name.to_owned(), said.into());
            }
        };
        unless_said("fileName", file.file_name);
        unless_said("mimetype", file.media_type);
        members.insert("media".to_owned(), STANDARD.encode(file.bytes).into());
    }
    Ok(members)
}

/// Whom it is for and the content for the channel; else what Evolution would have said.
fn read(mut members: Map<String, Value>, what: What) -> Result<(String, Value), Value> {
    let needed: &[&str] = match what {
        What::Text => &["number", "text"],
        What::Media => &["number", "mediatype"],
    };
    let mut wrong = Vec::new();
    for name in needed {
        match members.get(*name) {
            None => wrong.push(format!("instance requires property \"{name}\"")),
            Some(value) if !value.is_string() => {
                wrong.push(format!("instance.{name} is not of a type(s) string"));
            }
            Some(_) => {}
        }
    }
    if !wrong.is_empty() {
        return Err(json!([wrong]));
    }
    let number = text_of(&members, "number").to_owned();
    let mut content = Map::new();
    for name in BESIDES {
        content.extend(members.remove(name).map(|value| (name.to_owned(), value)));
    }
    match what {
        What::Text if text_of(&members, "text").trim().is_empty() => return Err(json!(["Text is required"])),
        What::Text => content.extend(members.remove("text").map(|text| ("text".to_owned(), text))),
        What::Media => {
            let media: Map<_, _> =
                MEDIA.iter().filter_map(|name| Some(((*name).to_owned(), members.remove(*name)?))).collect();
            content.insert("media".to_owned(), Value::Object(media));
        }
    }
    Ok((number, Value::Object(content)))
}

fn text_of<'a>(members: &'a Map<String, Value>, name: &str) -> &'a str {
    members.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// What the kernel has against it, in the form in which Evolution would have said it.
fn complaint(problems: &[request::Problem], answer: &Answer) -> Value {
    if problems.iter().any(|problem| problem.field == "to") {
        return json!([{"jid": answer.jid, "exists": false, "number": answer.number}]);
    }
    let said = problems.iter().map(|problem| {
        let field = problem.field.trim_start_matches("content.").trim_start_matches("media.");
        format!("{field}: {} ({})", problem.reason, problem.hint)
    });
    json!([said.collect::<Vec<_>>()])
}

/// The parts of the answer that repeat what was asked.
struct Answer {
    number: String,
    jid: String,
    message: Value,
    kind: String,
}

impl Answer {
    fn of(number: &str, content: &Value, what: What) -> Answer {
        let digits = phone::digits_for(number);
        let jid = if digits.contains('@') { digits } else { format!("{digits}@s.whatsapp.net") };
        let (kind, message) = match what {
            What::Text => ("conversation".to_owned(), content["text"].clone()),
            What::Media => {
                let media = &content["media"];
                let kind = format!("{}Message", media["mediatype"].as_str().unwrap_or_default());
                let mut shown = media.clone();
                if let Value::Object(shown) = &mut shown {
                    shown.retain(|name, _| ["mimetype", "fileName", "caption"].contains(&name.as_str()));
                }
                (kind, shown)
            }
        };
        Answer { number: number.to_owned(), jid, message: json!({&kind: message}), kind }
    }
}
