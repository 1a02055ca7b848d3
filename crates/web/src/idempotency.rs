//! The same key and the same request are the same message.

use axum::response::Response;
use http::{HeaderMap, HeaderValue};
use pombo_kernel::message::Idempotency;
use pombo_kernel::request::bad_idempotency_key;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::api::messages::REPLAYED;
use crate::key::hex;
use crate::problem::{Code, Problem};

pub(crate) const HEADER: &str = "idempotency-key";
/// What problems call it.
pub(crate) const NAME: &str = "Idempotency-Key";

/// The key in the headers, written with quotes, as the draft standard wants it, or bare, as many clients do.
pub(crate) fn header(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let wrong = |reason: &str| {
        Problem::field(
            NAME,
            reason,
            "use a UUID, or your own id for what this message is about: 1 to 256 visible ASCII characters",
        )
    };
    let mut given = headers.get_all(HEADER).into_iter();
    let Some(value) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        return Err(wrong("is given more than once"));
    }
    let text = value.to_str().map_err(|_| wrong("is not ASCII"))?.trim();
    let key = match text.strip_prefix('"') {
        None => text.to_owned(),
        Some(rest) => unquoted(rest).ok_or_else(|| wrong("has an opening quote and no proper end"))?,
    };
    match bad_idempotency_key(&key) {
        Some(problem) => Err(wrong(&problem.reason)),
        None => Ok(Some(key)),
    }
}

/// What stands between the quotes of a structured field's string, after the first one.
fn unquoted(rest: &str) -> Option<String> {
    let mut key = String::with_capacity(rest.len());
    let mut chars = rest.chars();
    loop {
        match chars.next()? {
            '"' => return chars.as_str().is_empty().then_some(key),
            '\\' => key.push(chars.next().filter(|c| matches!(c, '"' | '\\'))?),
            c => key.push(c),
        }
    }
}

/// A key with the digest of the request that it came with.
pub fn of(key: String, request: &[u8]) -> Idempotency {
    Idempotency { key, fingerprint: fingerprint(request) }
}

/// A name for what a key stands for, among others that are told apart by these words: the same words, the same name.
pub(crate) fn place(words: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for word in words {
        hasher.update(word.len().to_le_bytes());
        hasher.update(word.as_bytes());
    }
    hex(&hasher.finalize())
}

/// An answer that an earlier request has had before.
pub(crate) fn replayed(mut response: Response) -> Response {
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

/// The key stands for another request, which had that result.
pub(crate) fn conflict(result: &str) -> Problem {
    Problem::new(
        Code::IdempotencyConflict,
        format!("this idempotency key was used for another request, {result}"),
        "use a new key for a new request; a repeat must be the same",
    )
}

/// A digest of what a request says, not of how it is written: blanks, the order of keys and fields that are null
/// do not matter, since clients that build a request twice may well write it differently.
fn fingerprint(request: &[u8]) -> [u8; 16] {
    let mut hasher = Sha256::new();
    match serde_json::from_slice(request) {
        Ok(Value::Object(mut members)) => {
            members.retain(|name, value| !value.is_null() && name != "idempotency_key");
            feed(&mut hasher, &Value::Object(members));
        }
        Ok(other) => feed(&mut hasher, &other),
        Err(_) => hasher.update(request),
    }
    let digest: [u8; 32] = hasher.finalize().into();
    let mut half = [0; 16];
    half.copy_from_slice(&digest[..16]);
    half
}

/// Writes a value so that two values are written alike only if they are alike.
fn feed(hasher: &mut Sha256, value: &Value) {
    match value {
        Value::Null => hasher.update(b"n"),
        Value::Bool(true) => hasher.update(b"t"),
        Value::Bool(false) => hasher.update(b"f"),
        Value::Number(number) => feed_text(hasher, b"d", &number.to_string()),
        Value::String(text) => feed_text(hasher, b"s", text),
        Value::Array(items) => {
            hasher.update(b"a");
            hasher.update((items.len() as u64).to_le_bytes());
            items.iter().for_each(|item| feed(hasher, item));
        }
        Value::Object(members) => {
            hasher.update(b"o");
            hasher.update((members.len() as u64).to_le_bytes());
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            for (name, value) in members {
                feed_text(hasher, b"k", name);
                feed(hasher, value);
            }
        }
    }
}

fn feed_text(hasher: &mut Sha256, what: &[u8], text: &str) {
    hasher.update(what);
    hasher.update((text.len() as u64).to_le_bytes());
    hasher.update(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<String>, Problem> {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, text.parse().unwrap());
        header(&headers)
    }

    #[test] // REQ ML-3
    fn keys_are_read_quoted_and_bare() {
        for (text, key) in
            [("abc", "abc"), ("\"abc\"", "abc"), (r#""a\"b\\c""#, r#"a"b\c"#), (" a b ", "a b")]
        {
            assert_eq!(read(text).unwrap().as_deref(), Some(key), "{text}");
        }
        let long = "x".repeat(257);
        for bad in ["", "\"\"", "\"abc", "\"a\"b", "\"a\\n\"", "a\u{e9}", "\" a\"", long.as_str()] {
            let problem = read(bad).unwrap_err();
            assert_eq!(problem.errors[0].field, "Idempotency-Key", "{bad}");
        }
        assert_eq!(header(&HeaderMap::new()), Ok(None));
    }

    #[test] // REQ ML-3
    fn a_request_is_the_same_however_it_is_written() {
        let same = [
            r#"{"to":"a","metadata":{"x":1,"y":[1,2]}}"#,
            r#"{ "metadata" : {"y":[1, 2], "x":1}, "to":"\u0061", "lane": null, "idempotency_key": "k" }"#,
        ];
        assert_eq!(fingerprint(same[0].as_bytes()), fingerprint(same[1].as_bytes()));
        for other in [
            r#"{"to":"b","metadata":{"x":1,"y":[1,2]}}"#,
            r#"{"to":"a","metadata":{"x":1,"y":[2,1]}}"#,
            r#"{"to":"a","metadata":{"x":"1","y":[1,2]}}"#,
            r#"{"to":"a","metadata":{"x":1,"y":[[1],2]}}"#,
            r#"{"to":"a"}"#,
        ] {
            assert_ne!(fingerprint(same[0].as_bytes()), fingerprint(other.as_bytes()), "{other}");
        }
    }
}
