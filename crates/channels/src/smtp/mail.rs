//! From a message to the bytes of a mail.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use lettre::message::header::{self, ContentTransferEncoding, ContentType, HeaderName, HeaderValue};
use lettre::message::{Attachment, Body, Mailbox, Message, MessageBuilder, MultiPart, SinglePart};
use lettre::{Address, address};
use pombo_kernel::content::{mailbox, reserved_in_mail};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use url::Host;

use super::dkim::Signer;
use crate::Envelope;

/// The largest mail that is sent, encoded.
pub(super) const MAIL_BYTES_MAX: usize = 40 * 1000 * 1000;
/// The longest line of a mail, without its end (RFC 5322).
const LINE_BYTES_MAX: usize = 998;
/// 9999-12-31, the last day that a mail can be from.
const LAST_MS: u64 = 253_402_300_799_000;

/// A mail, ready to be handed over.
pub(super) struct Mail {
    /// The return path.
    pub(super) from: String,
    pub(super) to: String,
    /// Of the recipient, as DNS knows it.
    pub(super) domain: String,
    /// How long it is, before dots are doubled.
    pub(super) size: usize,
    /// What follows `DATA`, up to the end of the message: lines that begin with a dot have a second one.
    pub(super) data: Vec<u8>,
    /// An address cannot be written in ASCII.
    pub(super) utf8: bool,
}

/// What a channel puts into every mail.
#[derive(Debug, Default)]
pub(super) struct Stationery {
    pub(super) from: Option<Mailbox>,
    pub(super) bounce_address: Option<Address>,
    pub(super) signer: Option<Signer>,
}

#[derive(Deserialize)]
struct Content {
    subject: String,
    text: Option<String>,
    html: Option<String>,
    attachments: Option<Vec<File>>,
    headers: Option<BTreeMap<String, String>>,
    from: Option<String>,
    reply_to: Option<Addresses>,
}

#[derive(Deserialize)]
struct File {
    filename: String,
    content: String,
    content_type: Option<String>,
    content_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Addresses {
    One(String),
    Many(Vec<String>),
}

impl Stationery {
    /// Writes the mail of a message. The error never repeats what the caller wrote.
    ///
    /// Every attempt of one round writes the same mail but for its date, under the same Message-ID.
    pub(super) fn write(&self, envelope: &Envelope) -> Result<Mail, String> {
        let content: Content =
            serde_json::from_str(&envelope.content).map_err(|_| "the content is not a mail's".to_owned())?;
        let to = sender_or_recipient(&envelope.to).ok_or("the recipient is not an e-mail address")?;
        let from = match &content.from {
            Some(text) => sender_or_recipient(text).ok_or("the sender is not an e-mail address")?,
            None => self.from.clone().ok_or("neither the message nor the channel names a sender (`from`)")?,
        };
        let bounce = self.bounce_address.clone().unwrap_or_else(|| from.email.clone());
        let id = message_id(envelope, from.email.domain());
        let (mut mail, utf8) = {
            let message = message(envelope, &content, from, to.clone(), id)?;
            let mail = String::from_utf8(message.formatted()).map_err(|_| "the mail cannot be encoded")?;
            let utf8 =
                !(bounce.as_ref() as &str).is_ascii() || !mail.is_ascii() || !to.email.to_string().is_ascii();
            (mail, utf8)
        };
        if !mail.ends_with("\r\n") {
            mail.push_str("\r\n");
        }
        if mail.len() > MAIL_BYTES_MAX {
            return Err("the mail is larger than 40 MB".to_owned());
        }
        // Whatever was handed in, and whatever the encoder made of it: a mail is lines that end in CRLF, and
        // nothing in it can be taken for the end of it.
        let sound = |line: &str| line.len() <= LINE_BYTES_MAX && !line.contains(['\r', '\n', '\0']);
        if !mail.split("\r\n").all(sound) {
            return Err("a line of the mail is longer than 998 bytes, or broken".to_owned());
        }
        if let Some(signer) = &self.signer {
            let signature = signer.header(&mail, envelope.now).ok_or("the mail cannot be signed")?;
            mail.insert_str(0, &signature);
        }
        Ok(Mail {
            from: bounce.to_string(),
            domain: to.email.domain().to_owned(),
            to: to.email.to_string(),
            size: mail.len(),
            data: stuffed(&mail),
            utf8,
        })
    }
}

/// An address, with the name before it if there is one, and its domain as DNS knows it.
pub(super) fn sender_or_recipient(text: &str) -> Option<Mailbox> {
    let bare = mailbox(text)?;
    let name =
        text.strip_suffix('>').and_then(|text| text.split_once('<')).map_or("", |(name, _)| name.trim());
    let name = match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\\\"", "\"").replace("\\\\", "\\"),
        None => name.to_owned(),
    };
    let (local, domain) = bare.rsplit_once('@')?;
    let domain = match Host::parse(domain).ok()? {
        Host::Domain(domain) => domain,
        Host::Ipv4(_) | Host::Ipv6(_) => return None,
    };
    let address = Address::new(local, domain).ok()?;
    Some(Mailbox::new((!name.is_empty()).then_some(name), address))
}

/// The same for every attempt of one round, so that a receiver can tell a repeat.
fn message_id(envelope: &Envelope, domain: &str) -> String {
    let key = &envelope.idempotency_key;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
    if (1..=128).contains(&key.len()) && key.bytes().all(plain) {
        format!("<{key}@{domain}>")
    } else {
        format!("<{}@{domain}>", envelope.id)
    }
}

fn message(
    envelope: &Envelope,
    content: &Content,
    from: Mailbox,
    to: Mailbox,
    id: String,
) -> Result<Message, String> {
    if content.subject.chars().any(char::is_control) {
        return Err("the subject has a line break or control character".to_owned());
    }
    let ms = u64::try_from(envelope.now.millis()).unwrap_or_default().min(LAST_MS);
    let mut builder = Message::builder()
        .envelope(address::Envelope::new(None, vec![to.email.clone()]).map_err(|_| "no recipient")?)
        .from(from)
        .to(to)
        .subject(content.subject.as_str())
        .date(SystemTime::UNIX_EPOCH + Duration::from_millis(ms))
        .header(header::MessageId::from(id));
    let replies: &[String] = match &content.reply_to {
        None => &[],
        Some(Addresses::One(one)) => std::slice::from_ref(one),
        Some(Addresses::Many(many)) => many,
    };
    for text in replies {
        builder = builder
            .reply_to(sender_or_recipient(text).ok_or("an address to reply to is not an e-mail address")?);
    }
    builder = with_headers(builder, content.headers.as_ref())?;

    // Nobody can write a text that holds its own digest, so no part can end its parent.
    let seal = hex(&Sha256::digest(format!("{}\n{}", envelope.id, envelope.content))[..12]);
    let body = body(content, &seal)?;
    let message = match body {
        Part::Single(part) => builder.singlepart(part),
        Part::Multi(part) => builder.multipart(part),
    };
    message.map_err(|_| "the mail cannot be put together".to_owned())
}

fn with_headers(
    mut builder: MessageBuilder,
    headers: Option<&BTreeMap<String, String>>,
) -> Result<MessageBuilder, String> {
    for (name, value) in headers.into_iter().flatten() {
        let token = |b: u8| b.is_ascii_graphic() && b != b':';
        if !name.bytes().all(token) || reserved_in_mail(&name.to_ascii_lowercase()) {
            return Err("a header is not the caller's to set".to_owned());
        }
        let name = HeaderName::new_from_ascii(name.clone()).map_err(|_| "a header has no usable name")?;
        if value.chars().any(|c| c.is_control() && c != '\t') {
            return Err("a header has a line break or control character".to_owned());
        }
        builder = builder.raw_header(HeaderValue::new(name, value.clone()));
    }
    Ok(builder)
}

enum Part {
    Single(SinglePart),
    Multi(MultiPart),
}

impl Part {
    fn into(self, parent: MultiPart) -> MultiPart {
        match self {
            Part::Single(part) => parent.singlepart(part),
            Part::Multi(part) => parent.multipart(part),
        }
    }
}

/// Text and HTML are alternatives; what the HTML shows is related to it; other files are mixed in.
fn body(content: &Content, seal: &str) -> Result<Part, String> {
    let said = |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(lines);
    let (text, html) = (said(&content.text), said(&content.html));
    let (mut inline, mut attached) = (Vec::new(), Vec::new());
    for file in content.attachments.iter().flatten() {
        let shown = file.content_id.is_some() && html.is_some();
        if shown { &mut inline } else { &mut attached }.push(attachment(file)?);
    }
    let boundary = |kind: &str| format!("{seal}-{kind}");
    let text = text.map(SinglePart::plain);
    let html = html.map(SinglePart::html).map(|html| {
        if inline.is_empty() {
            Part::Single(html)
        } else {
            let related = MultiPart::related().boundary(boundary("related")).singlepart(html);
            Part::Multi(inline.into_iter().fold(related, MultiPart::singlepart))
        }
    });
    let words = match (text, html) {
        (Some(text), Some(html)) => {
            let both = MultiPart::alternative().boundary(boundary("alternative")).singlepart(text);
            Part::Multi(html.into(both))
        }
        (Some(text), None) => Part::Single(text),
        (None, Some(html)) => html,
        (None, None) => return Err("the mail says nothing".to_owned()),
    };
    if attached.is_empty() {
        return Ok(words);
    }
    let mixed = words.into(MultiPart::mixed().boundary(boundary("mixed")).build());
    Ok(Part::Multi(attached.into_iter().fold(mixed, MultiPart::singlepart)))
}

fn attachment(file: &File) -> Result<SinglePart, String> {
    if file.filename.chars().any(char::is_control) {
        return Err("a file name has a line break or control character".to_owned());
    }
    let bytes = BASE64.decode(&file.content).map_err(|_| "an attachment is not base64".to_owned())?;
    let body = Body::new_with_encoding(bytes, ContentTransferEncoding::Base64)
        .map_err(|_| "an attachment cannot be encoded".to_owned())?;
    let part = match &file.content_id {
        None => Attachment::new(file.filename.clone()),
        Some(id) => {
            let id = id.trim_matches(['<', '>']);
            if id.is_empty()
                || id.len() > 200
                || !id.bytes().all(|b| b.is_ascii_graphic() && !b"<>".contains(&b))
            {
                return Err("a content_id has characters that it cannot have".to_owned());
            }
            Attachment::new_inline_with_name(id.to_owned(), file.filename.clone())
        }
    };
    Ok(part.body(body, media_type(file.content_type.as_deref())))
}

/// What the file says it is; bytes, if that cannot be written or would change how the mail is read.
fn media_type(text: Option<&str>) -> ContentType {
    let plain = |text: &&str| {
        let lower = text.to_ascii_lowercase();
        text.len() <= 200
            && text.bytes().all(|b| b == b' ' || b.is_ascii_graphic())
            && !lower.starts_with("multipart/")
            && !lower.starts_with("message/")
    };
    let read = |text: &str| ContentType::parse(text).ok();
    let known = text.filter(plain).and_then(read).or_else(|| read("application/octet-stream"));
    known.unwrap_or(ContentType::TEXT_PLAIN)
}

/// The text with CRLF at the end of every line, however its lines ended.
fn lines(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n").replace('\0', "\u{FFFD}").replace('\n', "\r\n")
}

/// A mail's lines for the wire, a dot doubled at the head of each that begins with one, and the end.
fn stuffed(mail: &str) -> Vec<u8> {
    let mut data = Vec::with_capacity(mail.len() + mail.len() / 64 + 3);
    for line in mail.split_inclusive("\r\n") {
        if line.starts_with('.') {
            data.push(b'.');
        }
        data.extend_from_slice(line.as_bytes());
    }
    data.extend_from_slice(b".\r\n");
    data
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pombo_kernel::content;
    use pombo_kernel::id::{MessageId, MessageKey};
    use pombo_kernel::kind::ChannelKind;
    use pombo_kernel::time::Time;
    use proptest::prelude::*;
    use serde_json::json;

    fn write(to: &str, content: &serde_json::Value) -> Result<Mail, String> {
        let stationery = Stationery {
            from: sender_or_recipient("Clínica <mail@clinic.example>"),
            ..Stationery::default()
        };
        stationery.write(&Envelope {
            id: MessageId::new(MessageKey(1), 2),
            idempotency_key: "msg_1-2".to_owned(),
            now: Time::from_millis(1_700_000_000_000),
            to: to.to_owned(),
            content: content.to_string(),
            reference: None,
        })
    }

    fn text(content: &serde_json::Value) -> String {
        String::from_utf8(write("ana@example.net", content).unwrap().data).unwrap()
    }

    #[test]
    fn domains_are_written_as_dns_knows_them() {
        let mail = write("José <jose@clínica.example>", &json!({"subject": "s", "text": "t"})).unwrap();
        assert_eq!(
            (mail.to.as_str(), mail.domain.as_str()),
            ("jose@xn--clnica-4va.example", "xn--clnica-4va.example")
        );
        assert!(!mail.utf8);
        assert!(write("josé@x.example", &json!({"subject": "s", "text": "t"})).unwrap().utf8);
    }

    #[test]
    fn lines_end_alike_and_dots_at_their_heads_are_doubled() {
        let mail = text(&json!({"subject": "s", "text": "one\n.two\r\n.\rthree\n..\n"}));
        assert!(mail.ends_with("\r\n\r\none\r\n..two\r\n..\r\nthree\r\n...\r\n\r\n.\r\n"), "{mail}");
    }

    #[test]
    fn no_part_can_hold_the_boundary_of_its_parent() {
        let content = json!({"subject": "s", "text": "t", "html": "h"});
        let mail = text(&content);
        let boundary = mail.split("boundary=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        let copied = text(&json!({"subject": "s", "text": format!("--{boundary}--"), "html": "h"}));
        assert!(!copied.contains(&format!("boundary=\"{boundary}\"")));
    }

    #[test]
    fn what_cannot_be_a_mail_is_not_one() {
        let long = "x".repeat(1200);
        for content in [
            json!({"subject": "s"}),
            json!({"subject": "s\r\nBcc: e@x", "text": "t"}),
            json!({"subject": "s", "text": "t", "headers": {"X-A": "1\r\nBcc: e@x"}}),
            json!({"subject": "s", "text": "t", "headers": {"X-A\r\nB": "1"}}),
            json!({"subject": "s", "text": "t", "headers": {"Content-Type": "text/html"}}),
            json!({"subject": "s", "text": "t", "headers": {"X-Long": long}}),
            json!({"subject": "s", "text": "t", "from": "a@b\r\nRCPT TO:<e@x>"}),
            json!({"subject": "s", "text": "t", "reply_to": ["a@b", "x"]}),
            json!({"subject": "s", "text": "t", "attachments": [{"filename": "a\r\nb", "content": ""}]}),
            json!({"subject": "s", "text": "t", "attachments": [{"filename": "a", "content": "!"}]}),
            json!({"subject": "s", "text": "t", "attachments": [{"filename": "a", "content": "", "content_id": "a b"}]}),
        ] {
            let error = write("ana@example.net", &content).map(drop).unwrap_err();
            assert!(!error.contains("e@x") && !error.contains("xxxx"), "{error}");
        }
        assert!(write("ana@example.net\r\nDATA", &json!({"subject": "s", "text": "t"})).is_err());
    }

    proptest! {
        #[test]
        fn whatever_the_door_lets_in_is_whole_lines(
            to in "[a-zé]{1,8}@[a-z]{1,8}\\.example",
            subject in any::<String>(),
            words in any::<String>(),
            name in "[!-~é]{0,6}",
            value in ".{0,40}",
            file in any::<String>(),
            kind in any::<String>(),
        ) {
            let content = json!({
                "subject": subject, "text": words, "html": words,
                "headers": {&name: value},
                "attachments": [{"filename": file, "content": "AA==", "content_type": kind}],
            });
            let written = write(&to, &content);
            if content::check(ChannelKind::Smtp, &to, &content).is_ok() {
                prop_assert!(written.is_ok(), "{:?}", written.map(drop));
            }
            if let Ok(mail) = written {
                let data = String::from_utf8(mail.data).unwrap();
                prop_assert!(data.ends_with("\r\n.\r\n"));
                prop_assert_eq!(data.matches("\r\n.\r\n").count(), 1);
                prop_assert!(data.split("\r\n").all(|line| !line.contains(['\r', '\n', '\0']) && line.len() < 1000));
            }
        }
    }
}
