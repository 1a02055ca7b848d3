//! What Evolution's answers say. Its statuses say little, so the body is read.

use std::fmt;

use pombo_kernel::reply::{FaultKind, Receipt, Refusal, Reply};
use serde::Deserialize;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use crate::Health;
use crate::answer::{hints, is_lost_on_the_way, refusal};
use crate::client::Answer;
use crate::line::fault;

const NAME_BYTES_MAX: usize = 64;

/// What became of a message.
///
/// Only a key makes a success: an instance of the Cloud API answers 201 with Meta's refusal in it. Whether the
/// answer came to its end does not matter once the key is there, and with a picture in it it can be long.
pub(super) fn to_a_send(answer: &Answer) -> Reply {
    if !answer.status.is_success() {
        return Reply::Refused(Refusal { perhaps_sent: perhaps_sent(answer), ..named_refusal(answer) });
    }
    if let Some(id) = key_id(&answer.body) {
        let code = Some(answer.status.as_u16());
        return Reply::Accepted(Receipt {
            provider_id: Some(id),
            code,
            hints: hints(&answer.headers),
            ..Receipt::default()
        });
    }
    if !answer.whole {
        return Reply::Doubtful(fault(
            FaultKind::ConnectionReset,
            "the answer broke off before the message's key",
        ));
    }
    match serde_json::from_slice(&answer.body) {
        Ok(Value::Object(object)) => {
            let by_meta = code(&Value::Object(object)).is_some();
            Reply::Refused(Refusal { perhaps_sent: !by_meta, ..named_refusal(answer) })
        }
        _ => Reply::Doubtful(fault(FaultKind::Protocol, "the answer was a success, but not Evolution's")),
    }
}

/// How the instance is.
pub(super) fn to_a_probe(answer: &Answer) -> Health {
    if !answer.status.is_success() {
        return Health::Sick(Reply::Refused(named_refusal(answer)));
    }
    let body: Option<Value> = serde_json::from_slice(&answer.body).ok();
    let Some(instance) = body.as_ref().and_then(|body| body.get("instance")) else {
        let text = "what answers there does not speak of an instance";
        return Health::Sick(Reply::Unreachable(fault(FaultKind::Protocol, text)));
    };
    let (name, text) = match instance.get("state").and_then(Value::as_str) {
        Some("open") => return Health::Ready("the instance is connected to WhatsApp".to_owned()),
        Some("connecting") => ("instance_connecting", "the instance is connecting to WhatsApp"),
        Some("close" | "refused") => {
            ("instance_close", "the instance is not connected to WhatsApp; log it in by its QR code")
        }
        _ => ("instance_absent", "Evolution knows the instance, but has not loaded it; restart the instance"),
    };
    let refusal = Refusal { name: Some(name.to_owned()), text: text.to_owned(), ..Refusal::default() };
    Health::Sick(Reply::Refused(refusal))
}

/// Whether Evolution said that the number is not on WhatsApp, and therefore sent nothing.
pub(super) fn is_not_on_whatsapp(reply: &Reply) -> bool {
    let Reply::Refused(refusal) = reply else { return false };
    refusal.status.is_some_and(|status| status >= 400)
        && serde_json::from_str(&refusal.text).is_ok_and(|body| is_absence(message(&body)))
}

/// A refusal with the code that it names, if it names one: Meta's number, which comes under 201, or a word such as
/// `LICENSE_REQUIRED`. A number under another status is some gateway's, and must not be taken for Meta's.
fn named_refusal(answer: &Answer) -> Refusal {
    let name = serde_json::from_slice(&answer.body).ok().and_then(|body| code(&body));
    let is_meant = |name: &String| answer.status.is_success() || name.parse::<i64>().is_err();
    Refusal { name: name.filter(is_meant), ..refusal(answer) }
}

fn code(body: &Value) -> Option<String> {
    match body.get("code").or_else(|| body.get("error")?.get("code"))? {
        Value::String(code) => Some(code[..code.floor_char_boundary(NAME_BYTES_MAX)].to_owned()),
        Value::Number(code) => Some(code.to_string()),
        _ => None,
    }
}

/// Whether a message may have gone out though the answer says no.
///
/// Evolution sends, saves and tells its webhooks in one go, and answers 400 if any of that fails. So a 400 is a
/// certain no only in words that it has for what goes wrong before. What a gateway says for an Evolution that it
/// lost on the way is no certain no either.
fn perhaps_sent(answer: &Answer) -> bool {
    match answer.status.as_u16() {
        400 => !serde_json::from_slice(&answer.body).is_ok_and(|body| says_not_sent(&body)),
        _ => is_lost_on_the_way(answer.status),
    }
}

fn says_not_sent(body: &Value) -> bool {
    const WORDS: [&str; 10] = [
        "is required",
        "requires property",
        "must be a url or base64",
        "file name must be informed",
        "connection closed",
        "logged out",
        "[object object]",
        "(reading 'find')",
        "(reading 'textmessage')",
        "(reading 'mediamessage')",
    ];
    let message = message(body);
    // A list in the list is what the check of the request's form gives.
    let ill_formed = message.as_array().is_some_and(|list| list.iter().any(Value::is_array));
    // The only 400 under this title: a body that was not JSON.
    let unparsable = body.get("error").is_some_and(|title| title == "Internal Server Error");
    let mut words = String::new();
    flatten(message, &mut words);
    let words = words.to_lowercase();
    ill_formed || unparsable || is_absence(message) || WORDS.iter().any(|known| words.contains(known))
}

/// What went wrong, in Evolution's envelope or, on a few paths, without it.
fn message(body: &Value) -> &Value {
    body.pointer("/response/message").or_else(|| body.get("message")).unwrap_or(&Value::Null)
}

fn is_absence(message: &Value) -> bool {
    match message {
        Value::Array(list) => list.iter().any(is_absence),
        other => other.get("exists").is_some_and(|exists| *exists == false),
    }
}

/// The texts in a message of any shape: a text, a list, a list of lists.
fn flatten(message: &Value, into: &mut String) {
    match message {
        Value::String(text) => {
            into.push_str(text);
            into.push('\n');
        }
        Value::Array(list) => list.iter().for_each(|item| flatten(item, into)),
        _ => {}
    }
}

/// The id of the message's key, as far as the body was read: what comes after it may be cut off.
fn key_id(body: &[u8]) -> Option<String> {
    let mut id = None;
    // An error is what a cut body ends in; the key may have come before it.
    let _ = serde_json::Deserializer::from_slice(body).deserialize_map(KeyId(&mut id));
    id.filter(|id: &String| !id.is_empty())
}

struct KeyId<'a>(&'a mut Option<String>);

impl<'de> Visitor<'de> for KeyId<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        #[derive(Deserialize)]
        struct Key {
            id: Option<String>,
        }
        while let Some(name) = map.next_key::<String>()? {
            if name == "key" {
                *self.0 = map.next_value::<Option<Key>>()?.and_then(|key| key.id);
                return Ok(());
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}
