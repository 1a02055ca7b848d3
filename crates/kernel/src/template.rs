//! Templates: words with gaps, filled with a message's payload when it is sent.
//!
//! Whoever writes a template is not trusted with the process. A template can read its payload and nothing else; it
//! takes a bounded number of steps, handles a bounded number of bytes and writes a bounded text; and what could
//! make a value grow on the way (joining texts by an operator, repeating them, capturing output, calling
//! anything) is not in the language. A name that the payload lacks, or that is null there, is an error: nobody
//! wants a message that begins with "Olá, ".

mod filters;
mod sandbox;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::content::Problem;
use crate::kind::ChannelKind;

/// Steps that one part may take.
const FUEL: u64 = 100_000;
/// What a payload may hold in all: objects, lists and single values. One step may compare two lists, item by item.
pub const PAYLOAD_VALUES_MAX: usize = 5_000;
/// What a rendered message may hold in all, in bytes.
pub const OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// The longest part of a template, in bytes.
pub const PART_BYTES_MAX: usize = 128 * 1024;
/// Up to these sizes a template without a loop takes no time worth mentioning, whatever it looks through.
const BRIEF_SOURCE_BYTES: usize = 16 * 1024;
const BRIEF_PAYLOAD_BYTES: usize = 1024;
/// How much of a template's own text an error repeats.
const QUOTE_MAX: usize = 80;

/// What one template says, part by part. A channel takes the parts that suit its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// The words for WhatsApp, where they differ from `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whatsapp: Option<String>,
}

/// A part of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    Subject,
    Text,
    Html,
    Whatsapp,
}

impl Part {
    pub const ALL: [Part; 4] = [Part::Subject, Part::Text, Part::Html, Part::Whatsapp];

    pub fn as_str(self) -> &'static str {
        match self {
            Part::Subject => "subject",
            Part::Text => "text",
            Part::Html => "html",
            Part::Whatsapp => "whatsapp",
        }
    }
}

impl Template {
    pub fn part(&self, part: Part) -> Option<&str> {
        let text = match part {
            Part::Subject => &self.subject,
            Part::Text => &self.text,
            Part::Html => &self.html,
            Part::Whatsapp => &self.whatsapp,
        };
        text.as_deref()
    }

    /// The parts that are there.
    pub fn parts(&self) -> impl Iterator<Item = Part> {
        Part::ALL.into_iter().filter(|part| self.part(*part).is_some())
    }

    /// The parts that a channel of this kind takes, by the names that its content gives them; none if the
    /// template has nothing for it, with what is missing.
    pub fn body_for(&self, kind: ChannelKind) -> Result<Vec<(&'static str, Part)>, String> {
        let has = |part: Part| self.part(part).is_some();
        let given = |parts: &[Part]| parts.iter().copied().filter(|part| has(*part)).collect::<Vec<_>>();
        let lacking = |what: &str| Err(format!("has no body for {kind}: it needs {what}"));
        match kind {
            ChannelKind::Evolution => match given(&[Part::Whatsapp, Part::Text]).first() {
                Some(part) => Ok(vec![("text", *part)]),
                None => lacking("`whatsapp` or `text`"),
            },
            ChannelKind::Smtp | ChannelKind::Resend => {
                let body = given(&[Part::Text, Part::Html]);
                if !has(Part::Subject) || body.is_empty() {
                    return lacking("`subject`, and `text` or `html`");
                }
                Ok([Part::Subject].into_iter().chain(body).map(|part| (part.as_str(), part)).collect())
            }
            // Whoever brings a channel along knows what to do with each part.
            ChannelKind::Own | ChannelKind::Null => {
                Ok(self.parts().map(|part| (part.as_str(), part)).collect())
            }
            ChannelKind::Tiss | ChannelKind::Webhook => {
                Err(format!("has no body for {kind}: send the finished `content`"))
            }
        }
    }
}

/// A template that was read and found sound. Rendering it costs no more reading.
#[derive(Clone, Debug)]
pub struct Compiled {
    template: Arc<Template>,
    parts: Environment<'static>,
}

/// Why a template could not be rendered: names a place in the template, never a value of the payload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// It has nothing for a channel of that kind.
    #[error("{0}")]
    NoBody(String),
    #[error("the payload holds more than {PAYLOAD_VALUES_MAX} values")]
    PayloadTooLarge,
    #[error("{}{}: {reason}", part.as_str(), line.map(|line| format!(", line {line}")).unwrap_or_default())]
    Part { part: Part, line: Option<usize>, reason: String },
}

impl Compiled {
    /// Reads every part, or names every problem: the first of each part.
    pub fn new(template: Template) -> Result<Compiled, Vec<Problem>> {
        let mut problems = Vec::new();
        if template.parts().next().is_none() {
            problems.push(Problem {
                field: "template".into(),
                reason: "has no part at all".into(),
                hint: "give at least one of subject, text, html and whatsapp".into(),
            });
        }
        let mut parts = environment();
        for part in template.parts() {
            let source = template.part(part).unwrap_or_default();
            if let Err((reason, hint)) = compile(&mut parts, part, source) {
                problems.push(Problem { field: part.as_str().into(), reason, hint });
            }
        }
        match problems.is_empty() {
            true => Ok(Compiled { template: Arc::new(template), parts }),
            false => Err(problems),
        }
    }

    pub fn template(&self) -> &Template {
        &self.template
    }

    /// Whether it is rendered in no time with a payload of so many bytes. Anything else may take seconds in the hands of
    /// somebody who means it: a step is counted as one, and may look through all of a list.
    pub fn is_brief(&self, payload_bytes: usize) -> bool {
        let sources = || Part::ALL.into_iter().filter_map(|part| self.template.part(part));
        payload_bytes <= BRIEF_PAYLOAD_BYTES
            && sources().map(str::len).sum::<usize>() <= BRIEF_SOURCE_BYTES
            && !sources().any(|source| source.contains("for"))
    }

    /// The content for a channel of this kind, with the payload's names filled in.
    pub fn render(&self, kind: ChannelKind, payload: &Value) -> Result<Value, RenderError> {
        let wanted = self.template.body_for(kind).map_err(RenderError::NoBody)?;
        let mut values = PAYLOAD_VALUES_MAX;
        let context = context(payload, &mut values).ok_or(RenderError::PayloadTooLarge)?;
        let mut left = OUTPUT_BYTES_MAX;
        let mut content = Map::new();
        for (name, part) in wanted {
            let mut text = self.fill(part, &context, left)?;
            left -= text.len();
            if part == Part::Subject {
                text = one_line(&text)?;
            }
            content.insert(name.to_owned(), Value::String(text));
        }
        Ok(Value::Object(content))
    }

    /// The names that it looks up in the payload of a message through a channel of this kind, also where it could do
    /// without.
    pub fn variables(&self, kind: ChannelKind) -> BTreeSet<String> {
        let parts = self.template.body_for(kind).unwrap_or_default();
        let read = parts.into_iter().filter_map(|(_, part)| self.parts.get_template(part.as_str()).ok());
        read.flat_map(|part| part.undeclared_variables(false)).collect()
    }

    fn fill(&self, part: Part, context: &minijinja::Value, room: usize) -> Result<String, RenderError> {
        let mut bounded = Bounded { text: Vec::new(), room };
        let rendered = self
            .parts
            .get_template(part.as_str())
            .and_then(|template| template.render_captured_to(context.clone(), &mut bounded).map(drop));
        let source = self.template.part(part).unwrap_or_default();
        rendered.map_err(|error| RenderError::Part {
            part,
            line: error.line(),
            reason: sandbox::reason(&error, source),
        })?;
        Ok(String::from_utf8(bounded.text).unwrap_or_default())
    }
}

/// The payload, as the engine knows values; nothing if there are more of them than are `left`.
fn context(payload: &Value, left: &mut usize) -> Option<minijinja::Value> {
    *left = left.checked_sub(1)?;
    Some(match payload {
        Value::Null => minijinja::Value::from(()),
        Value::Bool(it) => minijinja::Value::from(*it),
        Value::Number(it) => match (it.as_i64(), it.as_u64()) {
            (Some(whole), _) => minijinja::Value::from(whole),
            (None, Some(whole)) => minijinja::Value::from(whole),
            (None, None) => minijinja::Value::from(it.as_f64().unwrap_or_default()),
        },
        Value::String(it) => minijinja::Value::from(it.as_str()),
        Value::Array(items) => {
            let items: Option<Vec<_>> = items.iter().map(|item| context(item, left)).collect();
            items?.into_iter().collect()
        }
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| Some((name.clone(), context(value, left)?));
            let members: Option<Vec<_>> = members.iter().map(member).collect();
            minijinja::Value::from_pairs(members?)
        }
    })
}

/// A subject is a header: blanks around it go, and a break in it would begin another header.
fn one_line(subject: &str) -> Result<String, RenderError> {
    let subject = subject.trim();
    match subject.chars().any(char::is_control) {
        false => Ok(subject.to_owned()),
        true => Err(RenderError::Part {
            part: Part::Subject,
            line: None,
            reason: "the result has a line break or control character".into(),
        }),
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_debug(true);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(64);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|part| match part == Part::Html.as_str() {
        true => AutoEscape::Html,
        false => AutoEscape::None,
    });
    environment.set_formatter(filters::write);
    filters::add(&mut environment);
    environment
}

/// Reads a part's source into the environment; what is wrong with it, and what to do.
fn compile(environment: &mut Environment<'static>, part: Part, source: &str) -> Result<(), (String, String)> {
    if source.len() > PART_BYTES_MAX {
        let reason = format!("has {} bytes; at most {PART_BYTES_MAX} are taken", source.len());
        return Err((reason, "shorten it, and link to pictures instead of embedding them".into()));
    }
    if source.trim().is_empty() {
        return Err(("is empty".into(), "write something, or leave the part out".into()));
    }
    // Before it is compiled: a compiler computes what is constant, however large that is.
    sandbox::check(source)?;
    environment.add_template_owned(part.as_str(), source.to_owned()).map_err(|error| {
        let line = error.line().map(|line| format!("line {line}: ")).unwrap_or_default();
        (format!("{line}{}", sandbox::reason(&error, source)), sandbox::SYNTAX_HINT.to_owned())
    })
}

/// Takes a bounded number of bytes and then no more.
struct Bounded {
    text: Vec<u8>,
    room: usize,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.room - self.text.len() {
            return Err(io::Error::other("full"));
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An error that a filter or the writer raises in words of its own.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Said(&'static str);

fn said(words: &'static str) -> Error {
    Error::from(ErrorKind::InvalidOperation).with_source(Said(words))
}
