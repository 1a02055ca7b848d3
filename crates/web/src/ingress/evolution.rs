//! Evolution's routes for sending to WhatsApp.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use http::request::Parts;
use pombo_kernel::content::phone;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::message::Json;
use pombo_kernel::request::{self, Refused, Request};
use pombo_kernel::setup::{ChannelSetup, Destination, Setup};
use serde_json::{Map, Value, json};

use super::members::{Members, value};
use super::{accept, json, keyed, part};
use crate::auth::Caller;
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

/// Takes in a file, given as base64 or as a link.
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
    let held = body::held_json(&door, &head.headers, body, setup.limits.body_bytes()).await?;
    let key = idempotency::header(&head.headers)?.map(|key| keyed(key, &held.text));
    let (number, content) = match read(Members::read(&held.text, KNOWN)?, what) {
        Ok(read) => read,
        Err(message) => return Ok(bad_request(&message)),
    };
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

/// Whom it is for and the content for the channel; else what Evolution would have said.
fn read(members: Option<Members<'_>>, what: What) -> Result<(String, Value), Value> {
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
