//! Reading a request field by field, so that a wrong type is reported with its field and beside the others.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Code, PROBLEMS_MAX, Problem, Refused, Request, nearest, quoted};
use crate::message::Json;
use crate::policy::Overrides;

/// Text that is not JSON, and where it stops being so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct BadJson {
    pub line: usize,
    pub column: usize,
    pub reason: String,
}

impl From<BadJson> for Refused {
    fn from(bad: BadJson) -> Refused {
        Refused::NotJson(bad)
    }
}

impl From<serde_json::Error> for BadJson {
    fn from(error: serde_json::Error) -> BadJson {
        BadJson { line: error.line(), column: error.column(), reason: reason(&error) }
    }
}

const FIELDS: [&str; 17] = [
    "channel",
    "to",
    "type",
    "template",
    "payload",
    "content",
    "lane",
    "priority",
    "send_at",
    "expires_after",
    "reference",
    "user_id",
    "ordering_key",
    "metadata",
    "retry",
    "override_suppression",
    "idempotency_key",
];

/// Where a problem's field stands among the fields; those that are none come last.
pub(super) fn place(field: &str) -> usize {
    let name = field.split('.').next().unwrap_or_default();
    FIELDS.iter().position(|known| *known == name).unwrap_or(FIELDS.len())
}

impl Request {
    /// Reads a request; fields that cannot be read are left out of it and reported beside it.
    ///
    /// Content, payload and metadata keep the text that they came as: a number's digits or the order of keys
    /// may mean something to whoever receives them.
    pub fn read(json: &[u8]) -> Result<(Request, Vec<Problem>), Refused> {
        if json.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
            serde_json::from_slice::<IgnoredAny>(json).map_err(BadJson::from)?;
            let hint = "a message is one object; post several to /v1/messages/batch";
            let what = what_starts(json.trim_ascii_start());
            let problem = invalid("body", format!("is {what}, not an object"), hint);
            return Err(Refused::Problems(vec![problem]));
        }
        let mut members: Members<'_> = serde_json::from_slice(json).map_err(BadJson::from)?;
        let request = Request {
            channel: members.needed("channel", "name one of the configured channels"),
            to: members.needed("to", "name the recipient, as the channel's kind writes it"),
            kind: members.text("type"),
            template: members.text("template"),
            payload: members.json("payload"),
            content: members.json("content"),
            lane: members.text("lane"),
            priority: members.priority("priority"),
            send_at: members.parsed("send_at", "write for example \"2026-01-31T10:20:30Z\""),
            expires_after: members.parsed("expires_after", "write for example \"30m\" or \"48h\""),
            reference: members.text("reference"),
            user_id: members.text("user_id"),
            ordering_key: members.text("ordering_key"),
            metadata: members.json("metadata"),
            retry: members.retry("retry"),
            override_suppression: members.flag("override_suppression"),
            idempotency_key: members.text("idempotency_key"),
        };
        Ok((request, members.problems))
    }
}

/// The values of an object by field, each still as text, and what is wrong so far.
struct Members<'a> {
    values: [Option<&'a RawValue>; FIELDS.len()],
    problems: Vec<Problem>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members<'a>, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members<'de>, M::Error> {
                let mut members = Members { values: [None; FIELDS.len()], problems: Vec::new() };
                while let Some(Name(name)) = map.next_key()? {
                    let value = map.next_value()?;
                    match name {
                        Ok(field) => members.values[field] = Some(value),
                        Err(name) => members.unknown(&name),
                    }
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// The place of a field in `FIELDS`, or a name that is none.
struct Name(Result<usize, String>);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Name;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field's name")
            }
            fn visit_str<E>(self, name: &str) -> Result<Name, E> {
                Ok(Name(FIELDS.iter().position(|field| *field == name).ok_or_else(|| name.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

impl<'a> Members<'a> {
    fn unknown(&mut self, name: &str) {
        if self.problems.len() >= PROBLEMS_MAX {
            return;
        }
        let hint = match nearest(name, FIELDS.into_iter()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "leave it out, or put it in `metadata`".to_owned(),
        };
        let field = quoted(name).trim_matches('`').to_owned();
        self.problems.push(Problem {
            code: Code::InvalidField,
            field: field.into(),
            reason: "is not a field of a message".into(),
            hint,
        });
    }

    /// The value of a field, if it is there and not null.
    fn value(&self, field: &'static str) -> Option<&'a str> {
        let place = FIELDS.iter().position(|known| *known == field)?;
        self.values[place].map(RawValue::get).filter(|text| *text != "null")
    }

    fn wrong<T>(&mut self, field: &'static str, reason: impl Into<String>, hint: &str) -> Option<T> {
        self.problems.push(invalid(field, reason, hint));
        None
    }

    fn text_or(&mut self, field: &'static str, hint: &str) -> Option<String> {
        let text = self.value(field)?;
        if !text.starts_with('"') {
            return self.wrong(field, format!("is {}, not text", what_starts(text.as_bytes())), hint);
        }
        match serde_json::from_str(text) {
            Ok(text) => Some(text),
            Err(error) => self.wrong(field, format!("cannot be read: {}", reason(&error)), hint),
        }
    }

    fn text(&mut self, field: &'static str) -> Option<String> {
        self.text_or(field, "write it in double quotes, or leave it out")
    }

    fn needed(&mut self, field: &'static str, hint: &str) -> String {
        if self.value(field).is_none() {
            return self.wrong(field, "is missing", hint).unwrap_or_default();
        }
        self.text_or(field, hint).unwrap_or_default()
    }

    fn json(&self, field: &'static str) -> Option<Json> {
        Json::from_text(self.value(field)?.to_owned()).ok()
    }

    fn parsed<T: FromStr<Err: fmt::Display>>(&mut self, field: &'static str, hint: &str) -> Option<T> {
        match self.text_or(field, hint)?.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                let said = error.to_string();
                self.wrong(field, format!("is {}", said.split(';').next().unwrap_or(&said)), hint)
            }
        }
    }

    fn flag(&mut self, field: &'static str) -> Option<bool> {
        match self.value(field)? {
            "true" => Some(true),
            "false" => Some(false),
            _ => self.wrong(field, "is not true or false", "write true, or leave it out"),
        }
    }

    fn priority(&mut self, field: &'static str) -> Option<u8> {
        let text = self.value(field)?;
        match text.parse::<u8>() {
            Ok(priority) if priority <= 9 => Some(priority),
            _ => self.wrong(field, "is not a whole number from 0 to 9", "9 goes first; 5 if left out"),
        }
    }

    fn retry(&mut self, field: &'static str) -> Option<Overrides> {
        match serde_json::from_str(self.value(field)?) {
            Ok(changes) => Some(changes),
            Err(error) => {
                let hint = "write for example {\"attempts\": 3, \"delays\": [\"5s\", \"1m\"]}";
                self.wrong(field, format!("cannot be read: {}", reason(&error)), hint)
            }
        }
    }
}

fn invalid(field: &'static str, reason: impl Into<String>, hint: &str) -> Problem {
    Problem { code: Code::InvalidField, field: field.into(), reason: reason.into(), hint: hint.into() }
}

/// What the parser said, without the place, which is told apart; bounded, since it may repeat a caller's words.
pub(super) fn reason(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let words = said.rfind(" at line ").map_or(&*said, |end| &said[..end]);
    words.chars().take(200).collect()
}

pub(super) fn what_is(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn what_starts(json: &[u8]) -> &'static str {
    match json.first() {
        Some(b'"') => "text",
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b't' | b'f') => "true or false",
        Some(b'n') | None => "null",
        Some(_) => "a number",
    }
}
