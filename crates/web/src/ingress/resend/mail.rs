//! One mail, as clients of Resend write it, and the messages that it becomes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pombo_kernel::content;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::message::{Draft, Idempotency, Json};
use pombo_kernel::request::{self, Request};
use pombo_kernel::setup::{ChannelSetup, Setup};
use pombo_kernel::time::{Span, Time};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::super::members::{Few, FileBytes, Members, value};
use super::Trouble;
use crate::key::hex;
use crate::keys::Entropy;

/// What the messages of one request may hold together, where a mail becomes one for each of its recipients.
pub(super) const SPREAD_BYTES_MAX: usize = 64 * 1024 * 1024;
const RECIPIENTS_MAX: usize = 50;
const TAG_BYTES_MAX: usize = 256;
const FILES_MAX: usize = 100;

/// A mail with everything in the form that Pombo has for it.
#[derive(Debug)]
pub(super) struct Mail {
    to: Vec<String>,
    cc: Vec<String>,
    bcc: Vec<String>,
    tags: Vec<Value>,
    send_at: Option<Time>,
    /// What every recipient gets: from, subject, words, files, headers, whom to answer.
    content: Map<String, Value>,
}

impl Mail {
    /// Reads a mail; the first thing that is wrong with its form otherwise. Whether its channel can express it is seen
    /// later. What Resend does not know either is passed over.
    pub(super) fn read(json: &[u8], now: Time) -> Result<Mail, Trouble> {
        const KNOWN: &[&str] = &[
            "from",
            "to",
            "cc",
            "bcc",
            "reply_to",
            "subject",
            "html",
            "text",
            "headers",
            "attachments",
            "tags",
            "scheduled_at",
            "template",
            "topic_id",
        ];
        let members = Members::read(json, KNOWN).ok().flatten();
        let mut members = members.ok_or_else(|| Trouble::invalid("A mail is an object."))?;
        for field in ["template", "topic_id"] {
            if members.take(field).is_some() {
                let message =
                    format!("`{field}` cannot be used here: it names something that is kept at Resend.");
                return Err(Trouble::invalid(message));
            }
        }
        let attachments = attachments(members.take("attachments"))?;
        let mut take = |field: &str| match members.take(field) {
            None => Ok(None),
            Some(raw) => match value(raw) {
                Some(value) => Ok(Some(value)),
                None => Err(Trouble::invalid(format!(
                    "Invalid `{field}` field: it is too long, or nested too deep."
                ))),
            },
        };
        let mut content = Map::new();
        for field in ["from", "subject", "html", "text", "headers"] {
            content.extend(take(field)?.map(|value| (field.to_owned(), value)));
        }
        let to = take("to")?;
        let nothing =
            |value: Option<&Value>| value.is_none_or(|value| *value == json!("") || *value == json!([]));
        for (field, value) in
            [("from", content.get("from")), ("to", to.as_ref()), ("subject", content.get("subject"))]
        {
            if nothing(value) {
                return Err(Trouble::missing(field));
            }
        }
        let mut list = |field: &str| addresses(field, take(field)?);
        let (cc, bcc, reply_to) = (list("cc")?, list("bcc")?, list("reply_to")?);
        let to = addresses("to", to)?;
        let tags = tags(take("tags")?)?;
        let send_at = take("scheduled_at")?.map(|at| moment(&at, now)).transpose()?;
        if !reply_to.is_empty() {
            content.insert("reply_to".to_owned(), json!(reply_to));
        }
        if !attachments.is_empty() {
            content.insert("attachments".to_owned(), Value::Array(attachments));
        }
        Ok(Mail { to, cc, bcc, tags, send_at, content })
    }

    /// The messages that it becomes: one through Resend, which sends to all recipients by itself; over SMTP one for
    /// each, which show the same and belong to one group.
    pub(super) fn drafts(
        mut self,
        setup: &Setup,
        channel: &ChannelSetup,
        now: Time,
        group: impl FnOnce() -> String,
        room: &mut usize,
    ) -> Result<Vec<Draft>, Trouble> {
        let first = self.to[0].clone();
        let mut others = Vec::new();
        let mut metadata = Map::new();
        let mut reference = None;
        if channel.kind == ChannelKind::Resend {
            for (field, list) in [("also_to", &self.to[1..]), ("cc", &self.cc), ("bcc", &self.bcc)] {
                if !list.is_empty() {
                    self.content.insert(field.to_owned(), json!(list));
                }
            }
            if !self.tags.is_empty() {
                self.content.insert("tags".to_owned(), json!(self.tags));
            }
        } else {
            others = self.others();
            if !others.is_empty() {
                let group = group();
                metadata.insert("group".to_owned(), json!(group));
                reference = Some(group);
                self.content.insert("shown_to".to_owned(), json!(self.to));
                if !self.cc.is_empty() {
                    self.content.insert("shown_cc".to_owned(), json!(self.cc));
                }
            }
            if !self.tags.is_empty() {
                metadata.insert("tags".to_owned(), json!(self.tags));
            }
        }
        let from = json!({"from": self.content.get("from")});
        let request = Request {
            channel: channel.name.to_string(),
            to: first,
            content: Some(Json::from_value(&Value::Object(self.content))),
            send_at: self.send_at,
            reference,
            metadata: (!metadata.is_empty()).then(|| Json::from_value(&Value::Object(metadata))),
            ..Request::default()
        };
        let draft = setup.draft(request, &channel.tenant, now).map_err(|problems| trouble(&problems))?;
        let bytes = draft.body.content.as_ref().map_or(0, |content| content.text().len());
        *room = room.checked_sub(bytes.saturating_mul(others.len())).ok_or_else(|| {
            Trouble::invalid("The mail is too large for so many recipients: send it to fewer at once.")
        })?;
        let mut drafts = vec![draft];
        for to in others {
            if let Some(problem) = content::check_recipient(channel.kind, &to).first() {
                return Err(Trouble::invalid(format!(
                    "Invalid recipient: {} ({}).",
                    problem.reason, problem.hint
                )));
            }
            let mut draft = drafts[0].clone();
            draft.queue.destination = channel.destination.of(&to, Some(&from));
            draft.body.to = to;
            drafts.push(draft);
        }
        Ok(drafts)
    }

    /// Every recipient but the first, each once.
    fn others(&self) -> Vec<String> {
        let bare = |text: &str| content::mailbox(text).unwrap_or(text).to_ascii_lowercase();
        let mut seen = vec![bare(&self.to[0])];
        let mut others = Vec::new();
        for to in self.to[1..].iter().chain(&self.cc).chain(&self.bcc) {
            let address = bare(to);
            if !seen.contains(&address) {
                seen.push(address);
                others.push(to.clone());
            }
        }
        others
    }
}

/// The name of the group of one mail's messages: for the same mail under the same key the same.
pub(super) fn group(key: Option<&Idempotency>, index: usize, entropy: &Entropy) -> String {
    let digest: [u8; 32] = match key {
        None => entropy(),
        Some(key) => {
            let digest = Sha256::new().chain_update(key.fingerprint).chain_update(key.key.as_bytes());
            digest.chain_update(index.to_le_bytes()).finalize().into()
        }
    };
    format!("grp_{}", hex(&digest[..16]))
}

/// What the kernel has against a mail, in Resend's words; the first thing, as Resend does.
fn trouble(problems: &[request::Problem]) -> Trouble {
    let Some(problem) = problems.first() else { return Trouble::invalid("The mail cannot be taken.") };
    let field = problem.field.strip_prefix("content.").unwrap_or(&problem.field);
    let name = match field.split(['.', '[']).next() {
        Some("attachments") => "invalid_attachment",
        Some("from") => "invalid_from_address",
        _ => "validation_error",
    };
    let message = match field {
        "content" => "Missing `html` or `text` field.".to_owned(),
        "send_at" => format!("Invalid `scheduled_at` field: {}.", problem.reason),
        _ => format!("Invalid `{field}` field: it {} ({}).", problem.reason, problem.hint),
    };
    Trouble::new(422, name, message)
}

/// None, one or several addresses. What is one is seen with the rest of the mail.
fn addresses(field: &str, value: Option<Value>) -> Result<Vec<String>, Trouble> {
    let wrong = |reason: &str| Trouble::invalid(format!("Invalid `{field}` field: {reason}."));
    let list = match value {
        None => return Ok(Vec::new()),
        Some(Value::String(one)) => return Ok(vec![one]),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(wrong("write an address, or a list of them")),
    };
    if list.len() > RECIPIENTS_MAX {
        return Err(wrong("it has more than 50 addresses"));
    }
    let text = |item| match item {
        Value::String(text) => Ok(text),
        _ => Err(wrong("write each address as text")),
    };
    list.into_iter().map(text).collect()
}

/// An instant, or a time from now: `2026-01-31T10:20:30Z`, `in 5 minutes`.
fn moment(value: &Value, now: Time) -> Result<Time, Trouble> {
    let text = value.as_str().unwrap_or_default().trim();
    let from_now = || {
        let (count, unit) = text.strip_prefix("in ")?.trim().split_once(' ')?;
        let count: u64 = count.parse().ok().filter(|count| *count <= 10_000)?;
        let unit = match unit.trim().trim_end_matches('s') {
            "sec" | "second" => 1,
            "min" | "minute" => 60,
            "h" | "hour" => 3_600,
            "day" => 86_400,
            _ => return None,
        };
        Some(now + Span::from_secs(count * unit))
    };
    text.parse().ok().or_else(from_now).ok_or_else(|| {
        let hint = "write ISO 8601 with a zone, as in 2026-01-31T10:20:30Z, or a time from now, as in `in 5 minutes`";
        Trouble::invalid(format!("Invalid `scheduled_at` field: {hint}."))
    })
}

fn tags(value: Option<Value>) -> Result<Vec<Value>, Trouble> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let word = |tag: &Value, name: &str| {
        tag[name].as_str().is_some_and(|text| {
            (1..=TAG_BYTES_MAX).contains(&text.len())
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        })
    };
    match value {
        Value::Array(list) if list.iter().all(|tag| word(tag, "name") && word(tag, "value")) => {
            Ok(list.iter().map(|tag| json!({"name": tag["name"], "value": tag["value"]})).collect())
        }
        _ => Err(Trouble::invalid(
            "Invalid `tags` field: write [{\"name\": \"…\", \"value\": \"…\"}] with ASCII letters, digits, _ and -.",
        )),
    }
}

#[derive(Deserialize)]
struct File {
    filename: Option<String>,
    content: Option<FileBytes>,
    path: Option<String>,
    content_type: Option<String>,
    content_id: Option<String>,
}

/// Files, each with its content in base64, whatever it came in.
fn attachments(raw: Option<&RawValue>) -> Result<Vec<Value>, Trouble> {
    let wrong = |reason: &str| {
        Trouble::new(422, "invalid_attachment", format!("Invalid `attachments` field: {reason}."))
    };
    let Some(raw) = raw else { return Ok(Vec::new()) };
    let files: Few<File, FILES_MAX> = serde_json::from_str(raw.get()).map_err(|_| {
        wrong("write [{\"filename\": \"…\", \"content\": \"base64\"}]; `content` may be a list of bytes, too")
    })?;
    if files.0.len() > FILES_MAX {
        return Err(wrong("there are more than 100 files"));
    }
    let file = |file: File| {
        let content = file.content.map(|content| match content {
            FileBytes::Base64(text) => text,
            FileBytes::Plain(bytes) => BASE64.encode(bytes),
        });
        let members = [
            ("filename", file.filename),
            ("content", content),
            ("path", file.path),
            ("content_type", file.content_type),
            ("content_id", file.content_id),
        ];
        let given =
            members.into_iter().filter_map(|(name, text)| Some((name.to_owned(), Value::String(text?))));
        Value::Object(given.collect())
    };
    Ok(files.0.into_iter().map(file).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_millis(1_800_000_000_000);

    fn read(changes: &Value) -> Result<Mail, Trouble> {
        let mut mail = json!({"from": "Ana <a@x.example>", "to": "b@x.example", "subject": "s", "text": "t"});
        for (field, value) in changes.as_object().unwrap() {
            mail[field] = value.clone();
        }
        Mail::read(mail.to_string().as_bytes(), NOW)
    }

    #[test] // REQ IN-3
    fn a_mail_is_read_as_resends_clients_write_it() {
        let mail =
            read(&json!({"to": ["b@x.example", "c@x.example"], "cc": "d@x.example", "react": null})).unwrap();
        assert_eq!((mail.to.len(), mail.cc.len(), mail.bcc.len()), (2, 1, 0));
        for (file, base64) in [
            (json!("aGk="), "aGk="),
            (json!("aG\r\nk="), "aGk="),
            (json!([104, 105]), "aGk="),
            (json!({"type": "Buffer", "data": [104, 105]}), "aGk="),
        ] {
            let mail = read(&json!({"attachments": [{"filename": "a.txt", "content": file}]})).unwrap();
            assert_eq!(mail.content["attachments"], json!([{"filename": "a.txt", "content": base64}]));
        }
    }

    #[test] // REQ IN-3
    fn what_is_wrong_is_told_by_resends_names() {
        let tags = |value: &str| json!({"tags": [{"name": "a", "value": value}]});
        for (changes, name) in [
            (json!({"from": null}), "missing_required_field"),
            (json!({"to": []}), "missing_required_field"),
            (json!({"subject": ""}), "missing_required_field"),
            (json!({"to": 1}), "validation_error"),
            (json!({"cc": [1]}), "validation_error"),
            (json!({"bcc": vec!["a@x"; 51]}), "validation_error"),
            (json!({"scheduled_at": "tomorrow, perhaps"}), "validation_error"),
            (json!({"template": {"id": "t"}}), "validation_error"),
            (tags("é"), "validation_error"),
            (tags(""), "validation_error"),
            (json!({"attachments": [1]}), "invalid_attachment"),
            (json!({"attachments": {}}), "invalid_attachment"),
            (json!({"attachments": vec![json!({}); 101]}), "invalid_attachment"),
            (json!({"attachments": [{"filename": "a", "content": [256]}]}), "invalid_attachment"),
        ] {
            assert_eq!(read(&changes).unwrap_err().name, name, "{changes}");
        }
    }

    #[test] // REQ IN-3
    fn a_time_is_an_instant_or_so_much_from_now() {
        for (text, seconds) in [
            ("in 5 minutes", 300),
            ("in 1 min", 60),
            ("in 2 hours", 7_200),
            ("in 3 days", 259_200),
            ("in 1 h", 3_600),
        ] {
            let mail = read(&json!({"scheduled_at": text})).unwrap();
            assert_eq!(mail.send_at, Some(NOW + Span::from_secs(seconds)), "{text}");
        }
        let at = read(&json!({"scheduled_at": "2027-01-31T10:20:30+00:00"})).unwrap().send_at;
        assert_eq!(at, "2027-01-31T10:20:30Z".parse().ok());
    }
}
