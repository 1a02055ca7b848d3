//! From what a provider answered, as it came or as somebody wrote it down, to the facts that rules look at.
//!
//! Channels see the same answers live and lay out the same facts, so that what is said here about an answer is
//! what would be decided about it.

use std::sync::OnceLock;

use regex::Regex;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::{DeserializeOwned, IntoDeserializer, value};
use serde_json::{Map, Value};

use super::{Meaning, Rules, Scope, Verdict, claim, soap};
use crate::hint;
use crate::kind::ChannelKind;
use crate::reply::{Enhanced, Fault, FaultKind, Receipt, Refusal, Reply, Stage};
use crate::time::{Span, Time};

/// As much of an answer's words as a channel keeps.
const TEXT_BYTES_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 64;

/// A field of a written answer that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {reason}; {hint}")]
pub struct Wrong {
    pub field: String,
    pub reason: String,
    pub hint: String,
}

/// What an answer means, as it is told to whoever asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Classification")]
pub struct Explained<'a> {
    /// A verdict, or `accepted` where the answer is no failure.
    pub verdict: &'static str,
    pub category: String,
    /// The code as attempts record it.
    pub code: Option<String>,
    /// The rule that matched; none when nothing did.
    pub rule: Option<String>,
    /// The least wait that the answer or the rule asks for.
    pub hint_seconds: Option<u64>,
    pub destination_fault: bool,
    pub suppress: bool,
    /// What is held, for a fault of ours.
    pub scope: Option<Scope>,
    pub note: Option<&'a str>,
}

/// What an answer means by these rules, at this time.
pub fn explain<'a>(rules: &'a Rules, reply: &Reply, now: Time) -> Explained<'a> {
    let code = code(reply);
    let Some(meaning) = rules.classify(reply) else {
        return Explained {
            verdict: "accepted",
            category: "accepted".to_owned(),
            code,
            rule: None,
            hint_seconds: None,
            destination_fault: false,
            suppress: false,
            scope: None,
            note: None,
        };
    };
    // A part of a second is a whole one: coming back too early is what was not asked for.
    let hint_seconds = wait(reply, &meaning, now).map(|wait| wait.millis().div_ceil(1_000));
    Explained {
        verdict: meaning.verdict.as_str(),
        code,
        hint_seconds,
        destination_fault: meaning.destination_fault,
        suppress: meaning.suppress,
        scope: (meaning.verdict == Verdict::SenderFault).then_some(meaning.scope),
        note: meaning.rule.as_deref().and_then(|id| rules.rule(id)?.note.as_deref()),
        category: meaning.category,
        rule: meaning.rule,
    }
}

/// A kind of channel, or `http`: whoever speaks it and is none of the others is read as a webhook's receiver.
pub fn kind(word: &str) -> Option<ChannelKind> {
    if word == "http" { Some(ChannelKind::Webhook) } else { word.parse().ok() }
}

/// An answer that was written down: `{"reply"}` of an SMTP server, `{"status", "headers", "body"}` of whoever
/// speaks HTTP, or `{"error"}` in any words. `enhanced`, `name` and `stage` say what the rest does not, and
/// `fault` what broke when no answer came. Every problem is told at once.
pub fn document(kind: ChannelKind, members: Map<String, Value>) -> Result<Reply, Vec<Wrong>> {
    let mut fields = Fields { members, wrong: Vec::new(), read: Vec::new() };
    let reply = fields.text("reply");
    let error = fields.text("error");
    let status = fields.status();
    let headers = fields.headers();
    let body = fields.body();
    let enhanced = fields.text("enhanced").and_then(|text| {
        let code = enhanced(&text);
        if code.is_none() {
            fields.wrong("enhanced", "is not an enhanced status code", "write for example \"5.1.1\"");
        }
        code
    });
    let name = fields.text("name");
    let stage: Option<Stage> = fields.word("stage", "one of request, greeting, auth, mail, rcpt, data");
    let fault: Option<FaultKind> =
        fields.word("fault", "one such as `timeout`, `dns` or `connection_refused`");

    let answered =
        reply.is_some() || status.is_some() || body.is_some() || enhanced.is_some() || name.is_some();
    if fault.is_some() && (answered || stage.is_some()) {
        fields.wrong("fault", "is given beside a provider's reply", "it is one or the other");
    }
    if !answered && fault.is_none() && error.is_none() && fields.wrong.is_empty() {
        let hint = "give the error's text, or reply, status, body, enhanced, name or fault";
        fields.wrong("error", "is missing", hint);
    }
    if reply.is_some() && kind != ChannelKind::Smtp {
        fields.wrong(
            "reply",
            "is what an SMTP server says",
            "give `status`, `headers` and `body`, or `error`",
        );
    }
    if (body.is_some() || headers.is_some()) && kind == ChannelKind::Smtp {
        let field = if body.is_some() { "body" } else { "headers" };
        fields.wrong(
            field,
            "is no part of an SMTP reply",
            "give `reply`, such as \"550 5.1.1 unknown user\"",
        );
    }
    fields.end()?;

    if let Some(kind) = fault {
        return Ok(Reply::Unreachable(Fault { kind, text: error.unwrap_or_default() }));
    }
    let headers = headers.unwrap_or_default();
    let read = match (reply, status, body, error) {
        (Some(text), ..) => smtp(&text),
        (None, Some(status), body, None) if kind != ChannelKind::Smtp && name.is_none() => {
            http(kind, status, &headers, body.as_deref().unwrap_or_default())
        }
        (None, status, Some(body), _) => {
            let read = http(kind, status.unwrap_or_default(), &headers, &body);
            match read {
                Reply::Refused(refusal) => Reply::Refused(Refusal { status, ..refusal }),
                other => other,
            }
        }
        (None, None, None, Some(text)) => match self::error(kind, &text) {
            // Whoever names a code speaks of an answer, whatever its words.
            Reply::Unreachable(fault) | Reply::Doubtful(fault) if enhanced.is_some() || name.is_some() => {
                Reply::Refused(Refusal { text: fault.text, ..Refusal::default() })
            }
            read => read,
        },
        (None, _, None, Some(text)) if kind == ChannelKind::Smtp => smtp(&text),
        (None, status, None, text) => Reply::Refused(Refusal {
            status,
            text: cut(text.as_deref().unwrap_or_default()),
            hints: headers,
            ..Refusal::default()
        }),
    };
    Ok(match read {
        Reply::Refused(said) => Reply::Refused(Refusal {
            status: status.or(said.status),
            enhanced: enhanced.or(said.enhanced),
            name: name.or(said.name),
            stage: stage.unwrap_or(said.stage),
            ..said
        }),
        other => other,
    })
}

/// An answer over HTTP.
pub fn http(kind: ChannelKind, status: u16, headers: &[(String, String)], body: &str) -> Reply {
    let hints: Vec<_> = headers.iter().map(|(n, v)| (n.to_ascii_lowercase(), v.clone())).collect();
    let success = (200..300).contains(&status);
    let accepted = |id: Option<String>| {
        let provider_id = id.map(|id| cut_at(&id, NAME_BYTES_MAX));
        Reply::Accepted(Receipt { provider_id, code: Some(status), ..Receipt::default() })
    };
    let mut refusal = Refusal { status: Some(status), text: cut(body), hints, ..Refusal::default() };
    match kind {
        ChannelKind::Evolution => {
            let json: Value = serde_json::from_str(body).unwrap_or_default();
            let id = json.pointer("/key/id").and_then(Value::as_str).filter(|id| !id.is_empty());
            if success && id.is_some() {
                return accepted(id.map(str::to_owned));
            }
            let code = json.get("code").or_else(|| json.get("error")?.get("code"));
            refusal.name = code.and_then(scalar);
        }
        ChannelKind::Resend => {
            let json: Value = serde_json::from_str(body).unwrap_or_default();
            let said = |name: &str| json.get(name).and_then(Value::as_str).filter(|said| !said.is_empty());
            if success && said("id").is_some() {
                return accepted(said("id").map(str::to_owned));
            }
            refusal.name = json.get("name").and_then(scalar);
            if let Some(message) = said("message") {
                refusal.text = cut(message);
            }
        }
        ChannelKind::Tiss => {
            let found = soap::read(body);
            if success && found.name.is_none() && found.protocol.is_some() {
                return accepted(found.protocol);
            }
            refusal.text = cut(&found.words);
            refusal.name =
                found.name.map(|name| cut_at(&name, NAME_BYTES_MAX)).filter(|name| !name.is_empty());
        }
        _ if success => return accepted(None),
        _ => {}
    }
    Reply::Refused(refusal)
}

/// An SMTP reply of one line or several: `550-5.1.1 no\r\n550 5.1.1 such user`.
pub fn smtp(text: &str) -> Reply {
    let (status, words) = reply_code(text.trim());
    let (code, words) = enhanced_in(words);
    if let Some(status) = status.filter(|status| (200..400).contains(status)) {
        return Reply::Accepted(Receipt { code: Some(status), ..Receipt::default() });
    }
    Reply::Refused(Refusal { status, enhanced: code, text: cut(words), ..Refusal::default() })
}

/// An error in somebody's words: a code and what was said with it, a log line, or what broke on the way.
///
/// Claims keep their words whole, since their rules look for names anywhere in them.
pub fn error(kind: ChannelKind, text: &str) -> Reply {
    let text = text.trim();
    if kind == ChannelKind::Tiss {
        let name = claim::denial_code(text).filter(|_| claim::named_error(text).is_none());
        return Reply::Refused(Refusal { name, text: cut(text), ..Refusal::default() });
    }
    let (status, rest) = status_in(kind, text);
    if status.is_none()
        && leading_enhanced(text).is_none()
        && let Some(fault) = fault_in(text)
    {
        let sent = matches!(fault, FaultKind::Timeout | FaultKind::ConnectionReset | FaultKind::Interrupted);
        let fault = Fault { kind: fault, text: cut(text) };
        return if sent { Reply::Doubtful(fault) } else { Reply::Unreachable(fault) };
    }
    if kind == ChannelKind::Smtp {
        return match smtp(rest) {
            Reply::Refused(refusal) => Reply::Refused(Refusal { stage: stage_in(text), ..refusal }),
            other => other,
        };
    }
    match http(kind, status.unwrap_or_default(), &[], rest) {
        Reply::Refused(refusal) => Reply::Refused(Refusal { status, ..refusal }),
        other => other,
    }
}

/// The code of a failure, as attempts record it: `550 5.1.1`, `429 rate_limit_exceeded`, `timeout`.
pub fn code(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Accepted(receipt) => receipt.code.map(|code| code.to_string()),
        Reply::Unreachable(fault) | Reply::Doubtful(fault) => Some(fault.kind.as_str().to_owned()),
        Reply::Refused(refusal) => {
            let status = refusal.status.map(|status| status.to_string());
            let enhanced = refusal.enhanced.map(|enhanced| enhanced.to_string());
            let parts: Vec<String> = [status, enhanced, refusal.name.clone()].into_iter().flatten().collect();
            Some(parts.join(" ")).filter(|code| !code.is_empty())
        }
    }
}

/// The least time that the answer, or the rule that it met, asks to let pass before another try.
pub fn wait(reply: &Reply, meaning: &Meaning, now: Time) -> Option<Span> {
    let asked = match reply {
        Reply::Refused(refusal) if meaning.verdict != Verdict::Permanent => hint::hint(&refusal.hints, now),
        _ => None,
    };
    asked.max(meaning.wait)
}

/// An enhanced status code, with whatever dressing servers give it: `5.1.1`, `#5.1.1`, `(5.1.1)`.
pub fn enhanced(word: &str) -> Option<Enhanced> {
    let word = word.trim_matches(|c: char| "#[]():,;-.".contains(c));
    let mut parts = word.split('.');
    let mut number = || {
        let part = parts.next().filter(|part| (1..=3).contains(&part.len()))?;
        part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse::<u16>().ok()).flatten()
    };
    let (class, subject, detail) = (number()?, number()?, number()?);
    if parts.next().is_some() {
        return None;
    }
    let class = u8::try_from(class).ok().filter(|class| matches!(class, 2 | 4 | 5))?;
    Some(Enhanced { class, subject, detail })
}

/// The enhanced code of a reply's words, at their head or marked as one in the first line, and the words after it.
pub fn enhanced_in(words: &str) -> (Option<Enhanced>, &str) {
    match leading_enhanced(words) {
        Some((code, rest)) => (Some(code), rest),
        None => (words.lines().next().and_then(marked_enhanced), words),
    }
}

fn leading_enhanced(text: &str) -> Option<(Enhanced, &str)> {
    let text = text.trim_start();
    let (head, rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
    Some((enhanced(head)?, rest.trim_start_matches(' ')))
}

/// A code that is marked as one, wherever it stands: `sorry, no mailbox here by that name. (#5.1.1)`.
fn marked_enhanced(line: &str) -> Option<Enhanced> {
    line.split_whitespace().filter(|word| word.contains('#')).find_map(enhanced)
}

/// The three digits at the head, and what follows them on all lines without repeating them.
fn reply_code(text: &str) -> (Option<u16>, &str) {
    let (head, rest) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    match head.parse().ok().filter(|code| head.len() == 3 && (100..=999).contains(code)) {
        Some(code) => (Some(code), rest.trim_start_matches([' ', '-', ':', '\t'])),
        None => (None, text),
    }
}

/// The status that a text tells, and the words that go with it.
///
/// Most begin with it; log lines have it after `said:`, `HTTP` or `status code`.
fn status_in(kind: ChannelKind, text: &str) -> (Option<u16>, &str) {
    static SMTP: OnceLock<Regex> = OnceLock::new();
    static HTTP: OnceLock<Regex> = OnceLock::new();
    let (status, rest) = reply_code(text);
    if kind == ChannelKind::Smtp {
        if status.is_some() {
            return (status, text);
        }
        let said = SMTP.get_or_init(|| {
            fixed(r"(?:said|>|smtp;|error|reply|response):?\s+\(?([45][0-9]{2})[ -]|\b([45][0-9]{2})[ -]#?[45]\.[0-9]{1,3}\.[0-9]{1,3}\b")
        });
        let code = said.captures(text).and_then(|found| found.get(1).or_else(|| found.get(2)));
        return match code {
            Some(code) => (code.as_str().parse().ok(), &text[code.start()..]),
            None => (None, text),
        };
    }
    if status.is_some() {
        return (status, rest);
    }
    let said =
        HTTP.get_or_init(|| fixed(r"\b(?:http(?:/[0-9.]+)?|status(?:[ _]?code)?)[ :=]+([1-5][0-9]{2})\b"));
    match said.captures(text).and_then(|found| found.get(1)) {
        Some(code) if text[..code.start()].trim_start().to_ascii_lowercase().starts_with("http") => {
            (code.as_str().parse().ok(), text[code.end()..].trim_start_matches([' ', '-', ':']))
        }
        Some(code) => (code.as_str().parse().ok(), text),
        None => (None, text),
    }
}

fn fixed(expression: &str) -> Regex {
    Regex::new(&format!("(?i){expression}")).expect("a fixed expression")
}

/// Where a log line says that a reply was given: `(in reply to RCPT TO command)`.
fn stage_in(text: &str) -> Stage {
    static SAID: OnceLock<Regex> = OnceLock::new();
    let said = SAID.get_or_init(|| {
        fixed(r"\b(?:in reply to|after|at) (?:end of )?(mail from|rcpt to|data|auth|initial connection|connect)\b")
    });
    let Some(found) = said.captures(text) else { return Stage::Request };
    match found[1].to_ascii_lowercase().as_str() {
        "mail from" => Stage::Mail,
        "rcpt to" => Stage::Rcpt,
        "data" => Stage::Data,
        "auth" => Stage::Auth,
        _ => Stage::Greeting,
    }
}

/// What broke on the way, if the text says nothing else: `timeout`, `connection_refused`, `ECONNRESET`.
fn fault_in(text: &str) -> Option<FaultKind> {
    const WORDS: [(FaultKind, &[&str]); 7] = [
        (FaultKind::Timeout, &["timeout", "timed out", "time-out", "etimedout", "deadline"]),
        (
            FaultKind::ConnectionRefused,
            &["connection refused", "connection_refused", "econnrefused", "unreach", "no route to host"],
        ),
        (
            FaultKind::ConnectionReset,
            &["connection reset", "connection_reset", "econnreset", "epipe", "broken pipe", "hang up"],
        ),
        (FaultKind::DnsNotFound, &["dns_not_found", "nxdomain", "enotfound", "no such host"]),
        (FaultKind::Dns, &["dns", "eai_again", "name resolution"]),
        (FaultKind::Tls, &["tls", "certificate", "ssl", "handshake"]),
        (FaultKind::Protocol, &["protocol"]),
    ];
    let lower = text.to_lowercase();
    WORDS.iter().find(|(_, words)| words.iter().any(|word| lower.contains(word))).map(|(kind, _)| *kind)
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(cut_at(text, NAME_BYTES_MAX)),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn cut(text: &str) -> String {
    cut_at(text, TEXT_BYTES_MAX)
}

fn cut_at(text: &str, bytes: usize) -> String {
    text[..text.floor_char_boundary(bytes)].to_owned()
}

/// The members of a document that were not read yet, and what is wrong so far.
struct Fields {
    members: Map<String, Value>,
    wrong: Vec<Wrong>,
    read: Vec<&'static str>,
}

impl Fields {
    fn wrong(&mut self, field: &str, reason: &str, hint: &str) {
        self.wrong.push(Wrong { field: field.into(), reason: reason.into(), hint: hint.into() });
    }

    fn take(&mut self, field: &'static str) -> Option<Value> {
        self.read.push(field);
        self.members.remove(field).filter(|value| !value.is_null())
    }

    fn text(&mut self, field: &'static str) -> Option<String> {
        match self.take(field)? {
            Value::String(text) => Some(text).filter(|text| !text.trim().is_empty()),
            _ => {
                self.wrong(field, "is not text", "write it in double quotes");
                None
            }
        }
    }

    fn status(&mut self) -> Option<u16> {
        let value = self.take("status")?;
        let number = value.as_u64().and_then(|number| u16::try_from(number).ok());
        if number.is_none() {
            self.wrong("status", "is not a whole number", "write a code such as 429");
        }
        number
    }

    fn word<T: DeserializeOwned>(&mut self, field: &'static str, hint: &str) -> Option<T> {
        let text = self.text(field)?;
        let read: Result<T, value::Error> = T::deserialize(text.as_str().into_deserializer());
        if read.is_err() {
            self.wrong(field, "is not one that is known", hint);
        }
        read.ok()
    }

    fn headers(&mut self) -> Option<Vec<(String, String)>> {
        let Value::Object(headers) = self.take("headers")? else {
            self.wrong("headers", "is not an object", "write {\"retry-after\": \"120\"}");
            return None;
        };
        let mut read = Vec::new();
        for (name, value) in headers {
            let values = match value {
                Value::Array(values) => values,
                value => vec![value],
            };
            read.extend(values.iter().filter_map(scalar).map(|value| (name.clone(), value)));
        }
        Some(read)
    }

    /// Text as it came, or JSON as it is written on the wire.
    fn body(&mut self) -> Option<String> {
        Some(match self.take("body")? {
            Value::String(text) => text,
            value => value.to_string(),
        })
    }

    fn end(mut self) -> Result<(), Vec<Wrong>> {
        let left: Vec<String> = self.members.keys().take(20).cloned().collect();
        for field in left {
            let hint = format!("there are {}", self.read.join(", "));
            self.wrong(&field, "is not a field of this request", &hint);
        }
        if self.wrong.is_empty() { Ok(()) } else { Err(self.wrong) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(kind: ChannelKind, value: Value) -> Refusal {
        let Value::Object(members) = value else { panic!("an object") };
        match document(kind, members) {
            Ok(Reply::Refused(refusal)) => refusal,
            other => panic!("{other:?}"),
        }
    }

    fn wrong(kind: ChannelKind, value: Value) -> Vec<String> {
        let Value::Object(members) = value else { panic!("an object") };
        document(kind, members).unwrap_err().into_iter().map(|wrong| wrong.field).collect()
    }

    #[test] // REQ CF-4
    fn an_smtp_reply_is_read_with_its_codes_wherever_they_stand() {
        let check = |text: &str, status: u16, code: &str, words: &str| {
            let seen = read(ChannelKind::Smtp, json!({ "reply": text }));
            let written = seen.enhanced.map(|code| code.to_string()).unwrap_or_default();
            assert_eq!((seen.status, written.as_str(), seen.text.as_str()), (Some(status), code, words));
        };
        check("550 5.1.1 no such user", 550, "5.1.1", "no such user");
        check("550-5.1.1 no such\r\n550 5.1.1 user", 550, "5.1.1", "no such\r\n550 5.1.1 user");
        check("550 #5.1.0 Address rejected.", 550, "5.1.0", "Address rejected.");
        check("550 no mailbox here (#5.1.1)", 550, "5.1.1", "no mailbox here (#5.1.1)");
        check("421 busy", 421, "", "busy");
        let Reply::Refused(seen) = error(
            ChannelKind::Smtp,
            "host mx.example[192.0.2.1] said: 550-5.1.1 no one (in reply to RCPT TO command)",
        ) else {
            panic!("a refusal")
        };
        assert_eq!((seen.status, seen.stage), (Some(550), Stage::Rcpt));
        assert_eq!(seen.enhanced, enhanced("5.1.1"));
        assert!(matches!(smtp("250 2.0.0 queued"), Reply::Accepted(_)));
        assert!(enhanced("5.1").is_none() && enhanced("3.1.1").is_none() && enhanced("5.1.9999").is_none());
    }

    #[test] // REQ CF-3
    fn an_http_answer_is_read_as_its_channel_would_see_it() {
        let body = json!({"statusCode": 429, "name": "daily_quota_exceeded", "message": "enough"});
        let headers = json!({"Retry-After": 120, "X-Many": ["a", "b"]});
        let seen = read(ChannelKind::Resend, json!({"status": 429, "headers": headers, "body": body}));
        assert_eq!((seen.name.as_deref(), seen.text.as_str()), (Some("daily_quota_exceeded"), "enough"));
        assert!(seen.hints.contains(&("retry-after".to_owned(), "120".to_owned())), "{:?}", seen.hints);
        assert_eq!(seen.hints.len(), 3);

        let meta = json!({"message": "no", "code": 131_026, "fbtrace_id": "x"});
        let seen = read(ChannelKind::Evolution, json!({"status": 201, "body": meta}));
        assert_eq!(seen.name.as_deref(), Some("131026"));
        let seen =
            read(ChannelKind::Tiss, json!({"status": 200, "body": "<a><codigoGlosa>1308</codigoGlosa></a>"}));
        assert_eq!(seen.name.as_deref(), Some("1308"));
    }

    #[test] // REQ CF-3
    fn a_success_is_no_failure() {
        let accepted = |kind, status, body: &str| matches!(http(kind, status, &[], body), Reply::Accepted(_));
        assert!(accepted(ChannelKind::Evolution, 201, r#"{"key":{"id":"3EB0"}}"#));
        assert!(!accepted(ChannelKind::Evolution, 201, r#"{"key":{"id":""}}"#));
        assert!(accepted(ChannelKind::Resend, 200, r#"{"id":"a"}"#));
        assert!(!accepted(ChannelKind::Resend, 200, "{}"));
        assert!(accepted(ChannelKind::Webhook, 204, ""));
        assert!(accepted(ChannelKind::Tiss, 200, "<numeroProtocolo>7</numeroProtocolo>"));
        assert!(!accepted(ChannelKind::Tiss, 500, "<numeroProtocolo>7</numeroProtocolo>"));
        let endless = format!("<numeroProtocolo>{}</numeroProtocolo>", "7".repeat(5_000));
        let Reply::Accepted(receipt) = http(ChannelKind::Tiss, 200, &[], &endless) else { panic!("refused") };
        assert_eq!(receipt.provider_id.map(|id| id.len()), Some(NAME_BYTES_MAX));
    }

    #[test] // REQ CF-2
    fn text_tells_a_status_a_fault_or_nothing() {
        let check = |kind, text: &str, expected: &str| {
            assert_eq!(code(&error(kind, text)).unwrap_or_default(), expected, "{text}");
        };
        check(ChannelKind::Webhook, "503 Service Unavailable", "503");
        check(ChannelKind::Webhook, "HTTP/1.1 404 Not Found", "404");
        check(ChannelKind::Webhook, "AxiosError: Request failed with status code 429", "429");
        check(ChannelKind::Webhook, "connect ECONNREFUSED 10.0.0.1:80", "connection_refused");
        check(ChannelKind::Webhook, "socket hang up", "connection_reset");
        check(ChannelKind::Webhook, "5501 no", "");
        check(ChannelKind::Smtp, "5.1.1 unknown", "5.1.1");
        check(ChannelKind::Resend, r#"429 {"name":"rate_limit_exceeded"}"#, "429 rate_limit_exceeded");
        check(ChannelKind::Tiss, "glosa 1308 duplicada", "1308");
        check(ChannelKind::Tiss, "glosa 1308 after TIMEOUT", "");
        check(ChannelKind::Tiss, "failed in 2026", "");
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        assert_eq!(wrong(ChannelKind::Smtp, json!({})), ["error"]);
        assert_eq!(wrong(ChannelKind::Resend, json!({"reply": "550 no"})), ["reply"]);
        assert_eq!(wrong(ChannelKind::Smtp, json!({"status": 550, "body": "no"})), ["body"]);
        let many = json!({"status": "x", "enhanced": "5.1", "stage": "curtain", "fault": 1, "headers": [], "colour": 1});
        assert_eq!(
            wrong(ChannelKind::Webhook, many),
            ["status", "headers", "enhanced", "stage", "fault", "colour"]
        );
        assert_eq!(wrong(ChannelKind::Smtp, json!({"status": 1, "fault": "dns"})), ["fault"]);
    }
}
