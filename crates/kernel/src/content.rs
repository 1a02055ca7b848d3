//! What a message says, by the kind of its channel, checked before it is accepted.
//!
//! A message that its channel could never express is refused at the door, with every problem named at once,
//! so that it does not become a dead letter an hour later.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use url::Url;

use crate::kind::ChannelKind;
use crate::mask;

pub mod claim;
mod mail;
pub mod phone;

pub use mail::{mailbox, reserved_in_mail};

const URL_BYTES_MAX: usize = 2048;
const HEADERS_MAX: usize = 64;
const HEADER_NAME_BYTES_MAX: usize = 128;
const HEADER_VALUE_BYTES_MAX: usize = 4096;
/// Evolution sleeps this long inside the request, so it has to stay well under an attempt's deadline.
const TYPING_MS_MAX: u64 = 20_000;

/// One thing that keeps a message from being accepted: where, why, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// A path such as `to` or `content.headers.x-a`.
    pub field: String,
    pub reason: String,
    pub hint: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.field, self.reason, self.hint)
    }
}

/// Accepts a recipient and content that a channel of this kind can express; otherwise names every problem.
pub fn check(kind: ChannelKind, to: &str, content: &Value) -> Result<(), Vec<Problem>> {
    let mut found = Found::default();
    if mask::is_hidden(to) {
        found.add(
            "to",
            "is masked",
            "write the whole of it; `?reveal=true` shows it to a key that may reveal",
        );
        return Err(found.problems);
    }
    match kind {
        ChannelKind::Webhook => {
            if let Err(problem) = web_address(to) {
                found.problems.push(problem);
            }
            webhook(&mut found, content);
        }
        ChannelKind::Evolution => {
            if !phone::is_recipient(to) {
                found.add(
                    "to",
                    "is neither a phone number nor a JID",
                    "write +55 11 98765-4321, or 5511987654321@s.whatsapp.net",
                );
            }
            evolution(&mut found, content);
        }
        ChannelKind::Smtp | ChannelKind::Resend => {
            mail::check(&mut found, kind, to, content);
        }
        ChannelKind::Tiss => claim::check(&mut found, to, content),
        ChannelKind::Null | ChannelKind::Own => {}
    }
    if found.problems.is_empty() { Ok(()) } else { Err(found.problems) }
}

/// What is wrong with a recipient, whatever is said to them.
pub fn check_recipient(kind: ChannelKind, to: &str) -> Vec<Problem> {
    let found = check(kind, to, &Value::Null).err().unwrap_or_default();
    found.into_iter().filter(|problem| problem.field == "to").collect()
}

/// The host of a URL, with the port where it is not the scheme's own; empty if it is no URL.
pub fn host(to: &str) -> String {
    let url = Url::parse(to).ok();
    match url.as_ref().and_then(|url| url.host_str().map(|host| (host, url.port()))) {
        Some((host, Some(port))) => format!("{host}:{port}"),
        Some((host, None)) => host.to_owned(),
        None => String::new(),
    }
}

/// The content of a webhook. Every part may be left out, or be null.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookContent {
    #[serde(default)]
    pub method: Option<Method>,
    #[serde(default)]
    pub headers: Option<BTreeMap<String, String>>,
    /// Sent byte for byte as it was accepted, since the signature is over the bytes. None: an empty body.
    #[serde(default)]
    pub body: Option<Box<RawValue>>,
}

/// Says how much there is and nothing of what it says: it may hold personal data and credentials.
impl fmt::Debug for WebhookContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookContent")
            .field("method", &self.method)
            .field("headers", &self.headers.as_ref().map_or(0, BTreeMap::len))
            .field("body_bytes", &self.body.as_ref().map_or(0, |body| body.get().len()))
            .finish()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    #[default]
    Post,
    Put,
    Patch,
    Delete,
    Get,
}

impl Method {
    pub const ALL: [Method; 5] = [Method::Post, Method::Put, Method::Patch, Method::Delete, Method::Get];

    pub fn as_str(self) -> &'static str {
        match self {
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
            Method::Get => "GET",
        }
    }
}

/// The URL that a webhook goes to, if it is one that can be called: http or https, a host, no credentials.
///
/// Control characters and blanks are refused, though URL parsers drop them quietly: what is not there
/// cannot be read differently by somebody else.
pub fn web_address(to: &str) -> Result<Url, Problem> {
    let problem =
        |reason: &str, hint: &str| Problem { field: "to".into(), reason: reason.into(), hint: hint.into() };
    if to.len() > URL_BYTES_MAX {
        return Err(problem("is longer than 2048 bytes", "shorten the URL and put the rest in the body"));
    }
    if to.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(problem("has a blank or a control character", "percent-encode it, for example %20"));
    }
    let url =
        Url::parse(to).map_err(|e| problem(&format!("is not a URL: {e}"), "write https://host/path"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(problem("is not an http or https URL", "write https://host/path"));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(problem("has no host", "write https://host/path"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(problem("carries credentials", "give them in content.headers.authorization"));
    }
    if url.port() == Some(0) {
        return Err(problem("names port 0", "name the port that the receiver listens on, or none"));
    }
    Ok(url)
}

/// The problems found so far.
#[derive(Default)]
struct Found {
    problems: Vec<Problem>,
}

impl Found {
    fn add(&mut self, field: impl Into<String>, reason: impl Into<String>, hint: impl Into<String>) {
        self.problems.push(Problem { field: field.into(), reason: reason.into(), hint: hint.into() });
    }

    /// The members of an object, once those that nobody knows are reported.
    fn members<'a>(
        &mut self,
        field: &str,
        value: &'a Value,
        known: &[&str],
    ) -> Option<&'a Map<String, Value>> {
        let Some(members) = value.as_object() else {
            self.add(field, "is not an object", format!("it holds {}", known.join(", ")));
            return None;
        };
        for name in members.keys().filter(|name| !known.contains(&name.as_str())) {
            self.add(
                format!("{field}.{name}"),
                "is not a known field",
                format!("known are {}", known.join(", ")),
            );
        }
        Some(members)
    }

    /// A member that is text, if it is there and not null.
    fn text<'a>(&mut self, field: &str, members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
        match present(members, name)? {
            Value::String(text) => Some(text),
            _ => {
                self.add(format!("{field}.{name}"), "is not text", "write it in double quotes");
                None
            }
        }
    }

    /// A member that is text on one line.
    fn line<'a>(&mut self, field: &str, members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
        let text = self.text(field, members, name)?;
        if text.chars().any(char::is_control) {
            self.add(
                format!("{field}.{name}"),
                "has a line break or control character",
                "write it on one line",
            );
        }
        Some(text)
    }

    fn headers(&mut self, members: &Map<String, Value>, reserved: fn(&str) -> bool) {
        let Some(headers) = present(members, "headers") else { return };
        let Some(headers) = headers.as_object() else {
            self.add("content.headers", "is not an object", "write {\"x-name\": \"value\"}");
            return;
        };
        if headers.len() > HEADERS_MAX {
            self.add("content.headers", "has more than 64 headers", "put the rest in the body");
        }
        let mut names: Vec<String> = Vec::with_capacity(headers.len());
        for (name, value) in headers {
            let field = format!("content.headers.{name}");
            let lower = name.to_ascii_lowercase();
            if name.is_empty() || name.len() > HEADER_NAME_BYTES_MAX || !name.bytes().all(is_token) {
                self.add(&field, "is not a header name", "use letters, digits and -");
            } else if reserved(&lower) {
                self.add(&field, "is set by Pombo itself", "leave it out");
            } else if names.contains(&lower) {
                self.add(&field, "is given twice, in different case", "keep one of them");
            }
            names.push(lower);
            match value.as_str() {
                None => self.add(&field, "is not text", "write it in double quotes"),
                Some(text) if text.len() > HEADER_VALUE_BYTES_MAX => {
                    self.add(&field, "is longer than 4096 bytes", "put it in the body");
                }
                Some(text) if text.chars().any(|c| c.is_control() && c != '\t') => {
                    self.add(&field, "has a line break or control character", "write it on one line");
                }
                Some(_) => {}
            }
        }
    }
}

/// A member that is there and not null.
fn present<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    members.get(name).filter(|value| !value.is_null())
}

/// RFC 9110's `tchar`.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether a header of this lower-case name is not the caller's to set: those of the connection, of the
/// message's framing and of the signature.
pub fn reserved_in_http(name: &str) -> bool {
    const RESERVED: [&str; 15] = [
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    RESERVED.contains(&name) || name.starts_with("webhook-")
}

fn webhook(found: &mut Found, content: &Value) {
    let Some(members) = found.members("content", content, &["method", "headers", "body"]) else { return };
    if let Some(method) = found.text("content", members, "method")
        && !Method::ALL.iter().any(|known| known.as_str() == method)
    {
        found.add(
            "content.method",
            "is not a method that Pombo sends",
            "use POST, PUT, PATCH, DELETE or GET",
        );
    }
    found.headers(members, reserved_in_http);
}

fn evolution(found: &mut Found, content: &Value) {
    const KNOWN: [&str; 7] =
        ["text", "media", "delay", "linkPreview", "quoted", "mentioned", "mentionsEveryOne"];
    let Some(members) = found.members("content", content, &KNOWN) else { return };
    let text = found.text("content", members, "text");
    let media = present(members, "media");
    match (present(members, "text"), media) {
        (None, None) => {
            found.add("content", "has neither text nor media", "write {\"text\": \"…\"} or {\"media\": {…}}");
        }
        (Some(_), Some(_)) => {
            found.add("content", "has both text and media", "put the text in content.media.caption");
        }
        _ => {}
    }
    if text.is_some_and(|text| text.trim().is_empty()) {
        found.add("content.text", "is empty", "write something to say");
    }
    if let Some(media) = media {
        evolution_media(found, media);
    }
    if present(members, "delay").is_some_and(|delay| delay.as_u64().is_none_or(|ms| ms > TYPING_MS_MAX)) {
        found.add(
            "content.delay",
            "is not a number of milliseconds up to 20000",
            "write 1200, or leave it out",
        );
    }
    for name in ["linkPreview", "mentionsEveryOne"] {
        if present(members, name).is_some_and(|value| !value.is_boolean()) {
            found.add(format!("content.{name}"), "is neither true nor false", "write true or false");
        }
    }
    if present(members, "quoted").is_some_and(|value| !value.is_object()) {
        found.add("content.quoted", "is not an object", "write {\"key\": {\"id\": \"…\"}}");
    }
    let person = |value: &Value| value.as_str().is_some_and(phone::is_recipient);
    let people = |value: &Value| value.as_array().is_some_and(|list| list.iter().all(person));
    if present(members, "mentioned").is_some_and(|value| !people(value)) {
        found.add("content.mentioned", "is not a list of numbers in quotes", "write [\"5511987654321\"]");
    }
}

fn evolution_media(found: &mut Found, media: &Value) {
    const FIELD: &str = "content.media";
    const KNOWN: [&str; 5] = ["mediatype", "media", "mimetype", "fileName", "caption"];
    let Some(members) = found.members(FIELD, media, &KNOWN) else { return };
    let kind = found.text(FIELD, members, "mediatype");
    if !kind.is_some_and(|kind| ["image", "document", "video", "audio"].contains(&kind)) {
        found.add("content.media.mediatype", "is not a kind of media", "use image, document, video or audio");
    }
    let name = found.line(FIELD, members, "fileName").filter(|name| !name.is_empty());
    found.line(FIELD, members, "mimetype");
    found.text(FIELD, members, "caption");
    match found.text(FIELD, members, "media").filter(|media| !media.is_empty()) {
        None => found.add("content.media.media", "is missing or empty", "give a URL or base64"),
        Some(media) if media.contains("://") => {
            if web_address(media).is_err() {
                found.add("content.media.media", "is not an http or https URL", "write https://host/file");
            }
        }
        Some(media) if !is_base64(media) => {
            found.add("content.media.media", "is neither a URL nor base64", "give a URL or base64");
        }
        Some(_) if kind == Some("document") && name.is_none() => {
            found.add("content.media.fileName", "is missing", "a document given as base64 needs a name");
        }
        Some(_) => {}
    }
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    text.len() - body.len() <= 2
        && body.len() % 4 != 1
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const URL: &str = "https://crm.example/hook";
    pub(super) const MAIL: &str = "ana@clinic.example";
    const PHONE: &str = "+5511987654321";

    /// The fields that have a problem, in order.
    fn fields(kind: ChannelKind, to: &str, content: &Value) -> Vec<String> {
        let problems = check(kind, to, content).err().unwrap_or_default();
        assert!(problems.iter().all(|p| !p.reason.is_empty() && !p.hint.is_empty()), "{problems:?}");
        problems.into_iter().map(|problem| problem.field).collect()
    }

    pub(super) fn refused(kind: ChannelKind, to: &str, content: &Value, expected: &[&str]) {
        assert_eq!(fields(kind, to, content), expected, "{kind} {to:?} {content}");
    }

    #[test] // REQ AU-3
    fn what_was_masked_for_a_reader_is_nobodys_address() {
        for (kind, to) in [
            (ChannelKind::Evolution, "+55 11 9••••-4321"),
            (ChannelKind::Smtp, "a•••@clinica.com.br"),
            (ChannelKind::Webhook, "https://crm.example/•••"),
            (ChannelKind::Null, "•••"),
        ] {
            assert_eq!(check_recipient(kind, to)[0].reason, "is masked", "{to}");
        }
    }

    #[test]
    fn good_messages_of_every_kind_are_accepted() {
        use ChannelKind::{Evolution, Null, Resend, Smtp, Tiss, Webhook};
        let pdf = json!({"filename": "a.pdf", "content": "AAAA", "content_type": "application/pdf"});
        for (kind, to, content) in [
            (Webhook, URL, json!({})),
            (Webhook, "http://127.0.0.1:8080/x?y=1#z", json!({"body": [1, null]})),
            (Webhook, URL, json!({"method": "PUT", "headers": {"X-A": "é\tb"}, "body": null})),
            (Evolution, PHONE, json!({"text": "oi", "delay": 1200, "linkPreview": false})),
            (Evolution, "120363@g.us", json!({"media": {"mediatype": "image", "media": "https://x/y.png"}})),
            (
                Evolution,
                "5511987654321",
                json!({"media": {"mediatype": "document", "media": "AAA=", "fileName": "a"}}),
            ),
            (
                Smtp,
                MAIL,
                json!({"subject": "Olá", "text": "oi", "headers": {"List-Id": "x"}, "attachments": [pdf]}),
            ),
            (Smtp, "root@localhost", json!({"subject": "s", "html": "<p>"})),
            (
                Resend,
                "Ana <ana@clinic.example>",
                json!({"subject": "s", "text": "t", "cc": [MAIL], "also_to": MAIL,
                "tags": [{"name": "a", "value": "b_1"}], "attachments": [{"path": "https://x/y.pdf"}]}),
            ),
            (Tiss, "amil", json!({"xml": "<cancelaGuia/>"})),
            (Null, "", json!(7)),
        ] {
            assert_eq!(check(kind, to, &content), Ok(()), "{kind} {content}");
        }
    }

    #[test]
    fn all_problems_are_named_at_once() {
        let content =
            json!({"method": "TRACE", "headers": {"x-a": "1\r\nx: 2", "Host": "h", "x b": 1}, "colour": 1});
        refused(
            ChannelKind::Webhook,
            "ftp://x",
            &content,
            &[
                "to",
                "content.colour",
                "content.method",
                "content.headers.Host",
                "content.headers.x b",
                "content.headers.x b",
                "content.headers.x-a",
            ],
        );
    }

    #[test]
    fn a_webhook_goes_to_a_plain_web_address() {
        let long = format!("https://x/{}", "a".repeat(2048));
        for bad in [
            "",
            "x",
            "/hook",
            "https://",
            "http:///x/ y",
            "ftp://x/",
            "javascript:alert(1)",
            "https://u:p@x/",
            "https://u@x/",
            "https://x:0/",
            "https://x:99999/",
            "https://x/\r\nhost:y",
            "https://x/\ta",
            " https://x/",
            "http://[::1",
            "http://1.2.3.4.5/",
            "https://exa mple/",
            "https://x/\u{0}",
            long.as_str(),
        ] {
            refused(ChannelKind::Webhook, bad, &json!({}), &["to"]);
        }
    }

    #[test] // REQ SE-2
    fn headers_of_the_connection_and_the_signature_are_not_the_callers() {
        for name in [
            "host",
            "Content-Length",
            "TRANSFER-ENCODING",
            "connection",
            "webhook-id",
            "Webhook-Signature",
            "te",
            "trailer",
            "upgrade",
            "expect",
            "proxy-authorization",
            "keep-alive",
        ] {
            let field = format!("content.headers.{name}");
            refused(ChannelKind::Webhook, URL, &json!({"headers": {name: "x"}}), &[&field]);
        }
        for name in ["From", "to", "BCC", "Content-Type", "message-id", "dkim-signature"] {
            let field = format!("content.headers.{name}");
            let content = json!({"subject": "s", "text": "t", "headers": {name: "x"}});
            refused(ChannelKind::Smtp, MAIL, &content, &[&field]);
        }
        let twice = json!({"headers": {"X-A": "1", "x-a": "2"}});
        refused(ChannelKind::Webhook, URL, &twice, &["content.headers.x-a"]);
    }

    #[test]
    fn evolution_takes_text_or_media_for_a_number_or_jid() {
        let kind = ChannelKind::Evolution;
        for bad in [
            "",
            "+",
            "1234567",
            "1234567890123456",
            "+55 11 98765",
            "55119876x",
            "a@b.c",
            "@g.us",
            "x y@g.us",
        ] {
            refused(kind, bad, &json!({"text": "oi"}), &["to"]);
        }
        refused(kind, "+55 (11) 98765-4321", &json!({"text": "oi", "mentioned": ["(11) 98765-4321"]}), &[]);
        refused(kind, PHONE, &json!({"text": "oi", "mentioned": ["Ana"]}), &["content.mentioned"]);
        refused(kind, PHONE, &json!({}), &["content"]);
        refused(kind, PHONE, &json!({"text": " "}), &["content.text"]);
        refused(kind, PHONE, &json!({"text": 1}), &["content.text"]);
        refused(kind, PHONE, &json!({"textMessage": {"text": "oi"}}), &["content.textMessage", "content"]);
        refused(kind, PHONE, &json!({"media": {}}), &["content.media.mediatype", "content.media.media"]);
        let nameless = json!({"media": {"mediatype": "document", "media": "AAAA"}});
        refused(kind, PHONE, &nameless, &["content.media.fileName"]);
        let local = json!({"media": {"mediatype": "image", "media": "file:///etc/passwd"}});
        refused(kind, PHONE, &local, &["content.media.media"]);
        refused(kind, PHONE, &json!({"text": "oi", "delay": 60_000}), &["content.delay"]);
    }

    #[test]
    fn a_webhooks_destination_is_its_urls_host() {
        for (to, expected) in [
            ("https://CRM.Example/hook", "crm.example"),
            ("https://crm.example:443/a", "crm.example"),
            ("http://crm.example:8080/a?b", "crm.example:8080"),
            ("http://[::1]:9/", "[::1]:9"),
            ("http://2130706433/", "127.0.0.1"),
            ("nonsense", ""),
        ] {
            assert_eq!(host(to), expected);
        }
    }

    #[test]
    fn a_body_is_kept_as_the_text_that_it_came_as() {
        let content: WebhookContent = serde_json::from_str(r#"{"body": {"b":1.0,  "a":"\u00e9"} }"#).unwrap();
        assert_eq!(content.body.as_ref().unwrap().get(), r#"{"b":1.0,  "a":"\u00e9"}"#);
        assert!(!format!("{content:?}").contains("00e9"));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let name = prop_oneof![
            Just("headers".to_owned()),
            Just("body".into()),
            Just("method".into()),
            Just("media".into()),
            Just("text".into()),
            Just("subject".into()),
            Just("attachments".into()),
            Just("xml".into()),
            ".{0,8}",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,12}".prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 48, 6, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::btree_map(name.clone(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn nothing_that_a_caller_writes_makes_the_check_panic(to in ".{0,40}", content in any_json()) {
            for kind in ChannelKind::ALL {
                let _ = check(kind, &to, &content);
                let _ = host(&to);
            }
        }

        #[test]
        fn what_is_accepted_for_a_webhook_can_be_read_by_the_channel(content in any_json()) {
            if check(ChannelKind::Webhook, URL, &content).is_ok() {
                prop_assert!(serde_json::from_str::<WebhookContent>(&content.to_string()).is_ok());
            }
        }

        #[test] // REQ SE-2
        fn a_line_break_is_refused_wherever_it_hides(
            before in "x[ -~]{0,20}", after in "[ -~]{0,20}", sly in prop_oneof![Just('\r'), Just('\n'), Just('\0')],
        ) {
            let text = format!("{before}{sly}{after}");
            let web = json!({"headers": {"x-a": &text}});
            prop_assert_eq!(fields(ChannelKind::Webhook, URL, &web), vec!["content.headers.x-a"]);
            let named = json!({"headers": {&text: "v"}});
            prop_assert_eq!(fields(ChannelKind::Webhook, URL, &named).len(), 1);
            for kind in [ChannelKind::Smtp, ChannelKind::Resend] {
                let mail = json!({"subject": &text, "text": "t", "headers": {"x-a": &text}});
                prop_assert_eq!(fields(kind, MAIL, &mail), vec!["content.subject", "content.headers.x-a"]);
            }
            for kind in [ChannelKind::Webhook, ChannelKind::Evolution, ChannelKind::Smtp, ChannelKind::Resend] {
                for to in [URL, MAIL, PHONE] {
                    let problems = fields(kind, &format!("{to}{text}"), &json!({}));
                    prop_assert_eq!(problems.first().map(String::as_str), Some("to"));
                }
            }
        }
    }
}
