//! The form of a request, as Evolution checks it before it does anything.

use serde_json::{Value, json};

type Is = fn(&Value) -> bool;

/// What is wrong with the body of a send, in the shape in which Evolution says it; nothing if it is well formed.
pub(super) fn wrong(verb: &str, body: &Value) -> Option<Value> {
    let mut required = vec!["number"];
    required.extend(if verb == "sendText" { &["text"][..] } else { &["mediatype", "media"] });
    let mut said = Vec::new();
    for name in required {
        match body.get(name) {
            None => said.push(format!("instance requires property \"{name}\"")),
            Some(value) if !value.is_string() => {
                said.push(format!("instance.{name} is not of a type(s) string"));
            }
            Some(_) => {}
        }
    }
    let optional: [(&str, &str, Is); 9] = [
        ("delay", "integer", Value::is_u64),
        ("linkPreview", "boolean", Value::is_boolean),
        ("mentionsEveryOne", "boolean", Value::is_boolean),
        ("mentioned", "array", Value::is_array),
        ("quoted", "object", Value::is_object),
        ("mimetype", "string", Value::is_string),
        ("fileName", "string", Value::is_string),
        ("caption", "string", Value::is_string),
        ("messageId", "string", Value::is_string),
    ];
    for (name, kind, is) in optional {
        if body.get(name).is_some_and(|value| !is(value)) {
            said.push(format!("instance.{name} is not of a type(s) {kind}"));
        }
    }
    let words = |name: &str| body[name].as_str().unwrap_or_default();
    if verb == "sendMedia"
        && said.is_empty()
        && !["image", "document", "video", "audio"].contains(&words("mediatype"))
    {
        said.push("instance.mediatype is not one of enum values: image,document,video,audio".to_owned());
    }
    if !said.is_empty() {
        return Some(json!([said]));
    }
    if verb == "sendText" {
        return words("text").trim().is_empty().then(|| json!(["Text is required"]));
    }
    let media = words("media");
    let is_url = media.starts_with("http://") || media.starts_with("https://");
    let is_base64 =
        !media.is_empty() && media.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b));
    if !is_url && !is_base64 {
        return Some(json!(["Owned media must be a url or base64"]));
    }
    let nameless = !is_url && words("mediatype") == "document" && words("fileName").is_empty();
    nameless.then(|| json!(["For base64 the file name must be informed."]))
}
