//! Small request documents, read field by field, with every problem told at once.

use pombo_kernel::mask;
use pombo_kernel::request::BadJson;
use serde_json::{Map, Value};

use crate::problem::{Code, FieldError, Problem};

/// The members of a document that were not read yet, and what is wrong so far.
pub(crate) struct Fields {
    members: Map<String, Value>,
    errors: Vec<FieldError>,
    read: Vec<&'static str>,
}

impl Fields {
    /// Reads a document. Nothing at all is an empty one.
    pub(crate) fn read(json: &[u8]) -> Result<Fields, Problem> {
        let members = match json.trim_ascii() {
            [] => Map::new(),
            json => match serde_json::from_slice(json).map_err(BadJson::from)? {
                Value::Object(members) => members,
                _ => return Err(Problem::field("body", "is not an object", "write {\"name\": \"value\"}")),
            },
        };
        Ok(Fields::of(members))
    }

    pub(crate) fn of(members: Map<String, Value>) -> Fields {
        Fields { members, errors: Vec::new(), read: Vec::new() }
    }

    pub(crate) fn wrong(&mut self, field: &'static str, reason: impl Into<String>, hint: impl Into<String>) {
        let (reason, hint) = (reason.into(), hint.into());
        self.errors.push(FieldError { code: Code::InvalidField, field: field.into(), reason, hint });
    }

    /// A field that is wrong in a way of its own.
    pub(crate) fn refuse(&mut self, error: FieldError) {
        self.errors.push(error);
    }

    /// A text of 1 to `max` bytes, if it is there and not null.
    pub(crate) fn text(&mut self, field: &'static str, max: usize) -> Option<String> {
        match self.take(field)? {
            Value::String(text) if (1..=max).contains(&text.len()) => Some(text),
            Value::String(_) => {
                self.wrong(field, format!("is not 1 to {max} bytes long"), "shorten it, or leave it out");
                None
            }
            _ => {
                self.wrong(field, "is not text", "write it in double quotes");
                None
            }
        }
    }

    /// A text without line breaks or control characters.
    pub(crate) fn line(&mut self, field: &'static str, max: usize) -> Option<String> {
        let text = self.text(field, max)?;
        if text.chars().any(char::is_control) {
            self.wrong(field, "has a line break or control character", "write it on one line");
            return None;
        }
        Some(text)
    }

    /// A line of somebody's own words, which go where nothing is taken out again: addresses and numbers stay out.
    pub(crate) fn remark(&mut self, field: &'static str, max: usize) -> Option<String> {
        self.line(field, max).map(|text| mask::personal(&text).into_owned())
    }

    /// A value of any form, if it is there and not null.
    pub(crate) fn value(&mut self, field: &'static str) -> Option<Value> {
        self.take(field)
    }

    /// A value of any form, also null, which a change means to say something by.
    pub(crate) fn nullable(&mut self, field: &'static str) -> Option<Value> {
        self.read.push(field);
        self.members.remove(field)
    }

    /// A whole number within these bounds, if it is there and not null.
    pub(crate) fn whole(&mut self, field: &'static str, least: u64, most: u64) -> Option<u64> {
        let number = self.take(field)?.as_u64().filter(|number| (least..=most).contains(number));
        if number.is_none() {
            self.wrong(
                field,
                format!("is not a whole number from {least} to {most}"),
                "write it without quotes",
            );
        }
        number
    }

    /// `true` or `false`, if it is there and not null.
    pub(crate) fn flag(&mut self, field: &'static str) -> Option<bool> {
        let flag = self.take(field)?.as_bool();
        if flag.is_none() {
            self.wrong(field, "is not true or false", "write true, or leave it out");
        }
        flag
    }

    /// Says that a field is missing, unless something else was wrong with it.
    pub(crate) fn missing(&mut self, field: &'static str, hint: impl Into<String>) {
        if !self.errors.iter().any(|error| error.field == field) {
            self.wrong(field, "is missing", hint);
        }
    }

    fn take(&mut self, field: &'static str) -> Option<Value> {
        self.read.push(field);
        self.members.remove(field).filter(|value| !value.is_null())
    }

    /// All was read; whatever is left over is a problem, too.
    pub(crate) fn end(mut self) -> Result<(), Problem> {
        for name in self.members.keys().take(20) {
            let field = name.chars().take(64).collect::<String>().into();
            let hint = format!("there are {}", self.read.join(", "));
            let reason = "is not a field of this request".to_owned();
            self.errors.push(FieldError { code: Code::InvalidField, field, reason, hint });
        }
        match self.errors.is_empty() {
            true => Ok(()),
            false => Err(Problem::fields(self.errors)),
        }
    }
}
