//! What a message says or was filled with, as a form has it: plain texts as fields of their own, all else as JSON.

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::field::{Field, Input, Wrongs};
use crate::dash::form::Form;
use crate::dash::words::Lang;

/// Texts that get a field of their own; whoever has more finds them in the JSON.
const TEXTS: usize = 24;
/// A longer text gets several lines.
const LINE: usize = 80;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Document {
    texts: Vec<(String, String)>,
    rest: String,
}

pub(super) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// As a browser sends a text: it has its own idea of line breaks.
fn plain(text: &str) -> String {
    text.replace("\r\n", "\n")
}

impl Document {
    pub(super) fn of(value: &Value) -> Document {
        let Value::Object(members) = value else {
            return Document { texts: Vec::new(), rest: pretty(value) };
        };
        let mut rest = members.clone();
        let texts: Vec<(String, String)> = members
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .take(TEXTS)
            .collect();
        rest.retain(|name, _| !texts.iter().any(|(own, _)| own == name));
        Document { texts, rest: pretty(&Value::Object(rest)) }
    }

    /// What was sent of the document of that name; nothing if it was not in the form.
    pub(super) fn sent(form: &Form, name: &str) -> Option<Document> {
        let prefix = format!("{name}.");
        let texts = form
            .fields()
            .filter_map(|(field, value)| Some((field.strip_prefix(&prefix)?.to_owned(), plain(value))));
        let texts: Vec<_> = texts.collect();
        let rest = form.fields().find(|(field, _)| *field == name).map(|(_, value)| plain(value));
        let rest = rest.or_else(|| (!texts.is_empty()).then(|| "{}".to_owned()))?;
        Some(Document { texts, rest })
    }

    /// What it says, where it said that before; else what is wrong about it.
    pub(super) fn value(&self, before: &Value, lang: Lang) -> Result<Value, String> {
        let rest = match self.rest.trim() {
            "" if !self.texts.is_empty() => Value::Object(Map::new()),
            text => serde_json::from_str(text).map_err(|error| {
                let (line, column) = (error.line(), error.column());
                lang.say(
                    format!("This is not JSON: look at line {line}, column {column}"),
                    format!("Isto não é JSON: veja a linha {line}, coluna {column}"),
                )
            })?,
        };
        if self.texts.is_empty() {
            return Ok(rest);
        }
        let Value::Object(mut members) = rest else {
            let words = lang.say(
                "Write names and values in braces: {\"name\": \"value\"}",
                "Escreva nomes e valores entre chaves: {\"nome\": \"valor\"}",
            );
            return Err(words.to_owned());
        };
        for (name, text) in &self.texts {
            let was = before.get(name).and_then(Value::as_str);
            // A line break that only the browser changed is as it was.
            let text = was.filter(|was| plain(was) == *text).map_or_else(|| text.clone(), str::to_owned);
            members.insert(name.clone(), text.into());
        }
        Ok(Value::Object(members))
    }

    /// The fields, under that name.
    pub(super) fn drawn(&self, lang: Lang, name: &str, wrongs: &mut Wrongs) -> Markup {
        let texts: Vec<Markup> = self
            .texts
            .iter()
            .enumerate()
            .map(|(place, (member, text))| {
                let field = format!("{name}.{member}");
                let long = text.len() > LINE || text.contains('\n');
                Field {
                    name: &field,
                    id: &format!("f-{name}-{place}"),
                    label: label(lang, member),
                    value: text,
                    input: if long { Input::Lines } else { Input::Line },
                    hint: None,
                    wrong: wrongs.take(&field),
                }
                .drawn(lang)
            })
            .collect();
        let wrong = wrongs.take(name);
        let bare = self.rest.trim() == "{}" && wrong.is_empty() && !self.texts.is_empty();
        let rest = Field {
            name,
            id: &format!("f-{name}"),
            label: html! { (if self.texts.is_empty() { lang.say("As JSON", "Como JSON") } else { lang.say("Everything else, as JSON", "Todo o resto, como JSON") }) },
            value: &self.rest,
            input: Input::Lines,
            hint: None,
            wrong,
        };
        html! {
            @for text in &texts { (text) }
            @if bare { details .more { summary { (lang.say("More, as JSON", "Mais, como JSON")) } (rest.drawn(lang)) } }
            @else { (rest.drawn(lang)) }
        }
    }
}

/// The name of a text, in words where it is one of ours.
fn label(lang: Lang, member: &str) -> Markup {
    let words = match member {
        "subject" => lang.say("Subject", "Assunto"),
        "text" => lang.say("Text", "Texto"),
        "from" => lang.say("From", "De"),
        "html" => "HTML",
        "xml" => "XML",
        other => return html! { code { (other) } },
    };
    html! { (words) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sent(fields: &[(&str, &str)]) -> Form {
        Form::from_iter(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn a_document_comes_back_from_its_form_as_it_was() {
        let cases = [
            json!({"subject": "Olá", "text": "a\nb", "n": 1, "deep": {"x": [1, null]}}),
            json!({"body": {"note": "x"}}),
            json!({"text": "one\r\ntwo"}),
            json!(["a", 1]),
            json!({}),
        ];
        for value in cases {
            let document = Document::of(&value);
            let mut fields: Vec<(String, String)> = document
                .texts
                .iter()
                .map(|(name, text)| (format!("content.{name}"), plain(text).replace('\n', "\r\n")))
                .collect();
            fields.push(("content".to_owned(), document.rest.clone()));
            let form = Form::from_iter(fields);
            let back = Document::sent(&form, "content").unwrap();
            assert_eq!(back.value(&value, Lang::En), Ok(value));
        }
    }

    #[test]
    fn what_is_no_json_is_told_with_its_line() {
        let before = json!({"a": 1});
        let wrong = |text: &str| {
            Document::sent(&sent(&[("payload", text)]), "payload").unwrap().value(&before, Lang::Pt)
        };
        assert_eq!(wrong("{\n\"a\": }"), Err("Isto não é JSON: veja a linha 2, coluna 6".to_owned()));
        let both = Document::sent(&sent(&[("payload", "[]"), ("payload.a", "x")]), "payload").unwrap();
        assert!(both.value(&before, Lang::En).is_err());
    }

    #[test]
    fn what_was_not_in_the_form_is_not_touched() {
        assert_eq!(Document::sent(&sent(&[("to", "x"), ("payloads", "{}")]), "payload"), None);
    }
}
