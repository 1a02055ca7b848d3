//! Takes what a message says out of what is said about it.

use std::borrow::Cow;

use regex::RegexBuilder;
use serde_json::Value;

use super::{GONE, personal};
use crate::message::{Body, Json};

/// Documents larger than this are files and texts, and are not looked through.
const DOCUMENT_BYTES: usize = 64 * 1024;
/// Shorter or longer values than these name nobody.
const VALUE_CHARS: std::ops::RangeInclusive<usize> = 3..=200;
/// Shorter numbers are amounts, dates and codes.
const NUMBER_DIGITS: usize = 8;
const VALUES_MAX: usize = 500;

/// What somebody said about a message, without addresses, numbers and whatever the message says itself: its recipient,
/// the values that it was filled with, and the words of its names.
///
/// A provider that refuses a message may repeat a part of it, and there is no pattern by which to know a name.
pub fn about<'a>(text: &'a str, said: &Body) -> Cow<'a, str> {
    let text = personal(text);
    if text.len() < *VALUE_CHARS.start() {
        return text;
    }
    let lower = text.to_lowercase();
    let mut values = Vec::new();
    values.extend(Some(&said.to).filter(|to| repeats(&lower, to)).cloned());
    for document in [&said.payload, &said.metadata, &said.content].into_iter().flatten() {
        leaves(document, &lower, &mut values);
    }
    if values.is_empty() {
        return text;
    }
    // The longest first: a name goes as a whole before it goes word by word.
    values.sort_by_key(|value: &String| std::cmp::Reverse(value.len()));
    values.dedup();
    let any = values.iter().map(|value| regex::escape(value)).collect::<Vec<_>>().join("|");
    match RegexBuilder::new(&format!(r"\b(?:{any})\b")).case_insensitive(true).build() {
        Ok(found) => Cow::Owned(found.replace_all(&text, GONE).into_owned()),
        // Too much of it is repeated to be taken out piece by piece.
        Err(_) => Cow::Borrowed(GONE),
    }
}

fn leaves(document: &Json, lower: &str, values: &mut Vec<String>) {
    if document.text().len() > DOCUMENT_BYTES {
        return;
    }
    let mut open = vec![serde_json::from_str::<Value>(document.text()).unwrap_or_default()];
    while let Some(value) = open.pop().filter(|_| values.len() < VALUES_MAX) {
        match value {
            Value::String(text) => keep(&text, lower, values),
            Value::Number(number) => keep(&number.to_string(), lower, values),
            Value::Array(items) => open.extend(items),
            Value::Object(members) => open.extend(members.into_iter().map(|(_, value)| value)),
            Value::Null | Value::Bool(_) => {}
        }
    }
}

/// Keeps what can name somebody, and those of its words that begin as names do, if they are repeated. A word in small
/// letters is a code more often than a name, and an error is no use without its codes.
fn keep(value: &str, lower: &str, values: &mut Vec<String>) {
    let value = value.trim();
    let digits = value.chars().filter(char::is_ascii_digit).count();
    let names = value
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.chars().next().is_some_and(char::is_uppercase));
    let whole = Some(value).filter(|value| value.contains(' ') || digits >= NUMBER_DIGITS);
    let repeated = whole.into_iter().chain(names).filter(|word| repeats(lower, word));
    values.extend(repeated.map(str::to_owned));
}

fn repeats(lower: &str, value: &str) -> bool {
    VALUE_CHARS.contains(&value.chars().count()) && lower.contains(&value.to_lowercase())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test] // REQ AU-3
    fn what_a_message_says_is_taken_out_of_what_is_said_about_it() {
        let said = Body {
            to: "https://crm.example/patients/maria-7".into(),
            payload: Some(Json::from(
                json!({"nome": "Maria da Conceição", "carteira": 47_112_230, "n": 4711, "via": "SMS"}),
            )),
            content: Some(Json::from(json!({"body": {"doente": ["joão batista"], "ok": true}}))),
            ..Body::default()
        };
        for (text, left) in [
            ("beneficiary MARIA DA CONCEIÇÃO not found", "beneficiary *** not found"),
            ("Sra. Conceição, card 47112230: unknown", "Sra. ***, card ***: unknown"),
            ("João Batista has no plan; code 4711, batista", "*** has no plan; code 4711, batista"),
            ("cannot GET https://crm.example/patients/maria-7", "cannot GET ***"),
            ("mariana: 503 Service Unavailable", "mariana: 503 Service Unavailable"),
            ("maria.c@clinic.example is unknown", "m***@clinic.example is unknown"),
            ("", ""),
        ] {
            assert_eq!(about(text, &said), left, "{text}");
        }
    }

    #[test]
    fn a_message_that_says_nothing_leaves_words_alone() {
        let text = "503 Service Unavailable: (upstream) [x] $1";
        assert_eq!(about(text, &Body::default()), text);
        let odd =
            Body { payload: Some(Json::from(json!(["(upstream) [x]", "$1 $0 \\1"]))), ..Body::default() };
        assert!(about(text, &odd).contains("503 Service Unavailable"));
    }
}
