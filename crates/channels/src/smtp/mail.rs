//! From a message to the bytes of a mail.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use lettre::message::header::{self, ContentTransferEncoding, ContentType, HeaderName, HeaderValue};
use lettre::message::{Attachment, Body, Mailbox, Message, MessageBuilder, MultiPart, SinglePart};
use lettre::{Address, address};
use pombo_kernel::content::{mailbox, reserved_in_mail};
use pombo_kernel::mime;
use pombo_kernel::trace;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use url::Host;

use super::dkim::Signer;
use crate::Envelope;

/// The largest mail that is sent, encoded.
pub(super) const MAIL_BYTES_MAX: usize = 40 * 1000 * 1000;
/// The longest line of a mail, without its end (RFC 5322).
const LINE_BYTES_MAX: usize = 998;
/// The longest line of a mail that others finished: theirs are longer now and then, and servers take them.
const FOREIGN_LINE_BYTES_MAX: usize = 64 * 1024;
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
    /// There is more than ASCII in it.
    pub(super) eight_bit: bool,
}

/// What a channel puts into every mail.
#[derive(Debug, Default)]
pub(super) struct Stationery {
    pub(super) from: Option<Mailbox>,
    pub(super) bounce_address: Option<Address>,
    pub(super) signer: Option<Signer>,
    /// Say which trace a mail belongs to, where that is known.
    pub(super) trace_header: bool,
}

#[derive(Deserialize)]
struct Content {
    /// A finished mail in base64, which goes out as it is; all but its way there is passed over then.
    mime: Option<String>,
    /// Where the bounces of a finished mail go; nowhere if empty.
    return_path: Option<String>,
    #[serde(default)]
    subject: String,
    text: Option<String>,
    html: Option<String>,
    attachments: Option<Vec<File>>,
    headers: Option<BTreeMap<String, String>>,
    from: Option<String>,
    reply_to: Option<Addresses>,
    /// Whom the mail names as its recipients, where that is not its own one alone.
    shown_to: Option<Addresses>,
    shown_cc: Option<Addresses>,
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

impl Addresses {
    fn mailboxes(&self) -> Result<Vec<Mailbox>, String> {
        let list = match self {
            Addresses::One(one) => std::slice::from_ref(one),
            Addresses::Many(many) => many,
        };
        let read = |text: &String| sender_or_recipient(text).ok_or("an address is not an e-mail address");
        list.iter().map(read).collect::<Result<_, _>>().map_err(str::to_owned)
    }
}

impl Stationery {
    /// Writes the mail of a message. The error never repeats what the caller wrote.
    ///
    /// Every attempt of one round writes the same mail but for its date, under the same Message-ID.
    pub(super) fn write(&self, envelope: &Envelope) -> Result<Mail, String> {
        let content: Content =
            serde_json::from_str(&envelope.content).map_err(|_| "the content is not a mail's".to_owned())?;
        let to = sender_or_recipient(&envelope.to).ok_or("the recipient is not an e-mail address")?;
        if let Some(mime) = &content.mime {
            return self.pass_on(envelope, &content, mime, &to);
        }
        let from = match &content.from {
            Some(text) => sender_or_recipient(text).ok_or("the sender is not an e-mail address")?,
            None => self.from.clone().ok_or("neither the message nor the channel names a sender (`from`)")?,
        };
        let bounce = self.bounce_address.clone().unwrap_or_else(|| from.email.clone());
        let id = message_id(envelope, from.email.domain());
        let mut own = content.headers.iter().flatten();
        let own = own.any(|(name, _)| name.eq_ignore_ascii_case(trace::PARENT));
        let mut mail = self.trace(envelope, own).into_bytes();
        mail.append(&mut message(envelope, &content, from, to.clone(), id)?.formatted());
        if !mail.ends_with(b"\r\n") {
            mail.extend_from_slice(b"\r\n");
        }
        let utf8 = !mail.is_ascii();
        let ready = self.sealed(mail, LINE_BYTES_MAX, envelope, bounce.to_string(), &to)?;
        Ok(Mail { utf8: utf8 || ready.utf8, ..ready })
    }

    /// A mail that its writer finished, with what is missing in its head and not a byte of its body changed.
    fn pass_on(
        &self,
        envelope: &Envelope,
        content: &Content,
        mime: &str,
        to: &Mailbox,
    ) -> Result<Mail, String> {
        let mail = BASE64.decode(mime).map_err(|_| "the mail is not base64".to_owned())?;
        let bounce = match (&self.bounce_address, content.return_path.as_deref()) {
            (Some(address), _) => address.to_string(),
            (None, Some("")) => String::new(),
            (None, given) => {
                let own = || mime::head(&mail).0.iter().find(|field| field.is("from")).map(mime::Field::text);
                let read = |text: String| sender_or_recipient(&text).map(|sender| sender.email);
                let given = given.map(str::to_owned).or_else(|| content.from.clone()).or_else(own);
                let known = given.and_then(read).or_else(|| Some(self.from.as_ref()?.email.clone()));
                known.ok_or("neither the message nor the channel names a sender (`from`)")?.to_string()
            }
        };
        let domain = bounce.rsplit_once('@').map_or(to.email.domain(), |(_, domain)| domain);
        let own = mime::head(&mail).0.iter().any(|field| field.is(trace::PARENT));
        let id = message_id(envelope, domain);
        let mail = mime::finish(&mail, &self.trace(envelope, own), &id, envelope.now);
        self.sealed(mail, FOREIGN_LINE_BYTES_MAX, envelope, bounce, to)
    }

    /// The line that says which trace the mail belongs to, where that is wanted and its writer has not said it.
    fn trace(&self, envelope: &Envelope, own: bool) -> String {
        let known = envelope.trace.as_ref().filter(|_| self.trace_header && !own);
        known.map(|context| format!("{}: {}\r\n", trace::PARENT, context.parent())).unwrap_or_default()
    }

    /// Checks whole lines once more, signs them, and makes them ready for the wire.
    fn sealed(
        &self,
        mut mail: Vec<u8>,
        longest: usize,
        envelope: &Envelope,
        bounce: String,
        to: &Mailbox,
    ) -> Result<Mail, String> {
        if mail.len() > MAIL_BYTES_MAX {
            return Err("the mail is larger than 40 MB".to_owned());
        }
        // Whatever was handed in, and whatever the encoder made of it: a mail is lines that end in CRLF, and
        // nothing in it can be taken for the end of it.
        let sound = |line: &[u8]| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            line.len() <= longest && !line.contains(&b'\r') && !line.contains(&0)
        };
        let broken =
            mail.windows(2).any(|pair| pair[1] == b'\n' && pair[0] != b'\r') || mail.starts_with(b"\n");
        if broken || !mail.split(|b| *b == b'\n').all(sound) {
            return Err(format!("a line of the mail is longer than {longest} bytes, or broken"));
        }
        if let Some(signer) = &self.signer {
            let signature = signer.header(&mail, envelope.now).ok_or("the mail cannot be signed")?;
            mail.splice(0..0, signature.into_bytes());
        }
        let recipient = to.email.to_string();
        Ok(Mail {
            utf8: !bounce.is_ascii() || !recipient.is_ascii(),
            eight_bit: !mail.is_ascii(),
            from: bounce,
            domain: to.email.domain().to_owned(),
            to: recipient,
            size: mail.len(),
            data: stuffed(&mail),
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
        .subject(content.subject.as_str())
        .date(SystemTime::UNIX_EPOCH + Duration::from_millis(ms))
        .header(header::MessageId::from(id));
    let read = |list: &Option<Addresses>| list.as_ref().map(Addresses::mailboxes).transpose();
    for shown in read(&content.shown_to)?.unwrap_or_else(|| vec![to]) {
        builder = builder.to(shown);
    }
    for shown in read(&content.shown_cc)?.unwrap_or_default() {
        builder = builder.cc(shown);
    }
    for reply in read(&content.reply_to)?.unwrap_or_default() {
        builder = builder.reply_to(reply);
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
fn stuffed(mail: &[u8]) -> Vec<u8> {
    let mut data = Vec::with_capacity(mail.len() + mail.len() / 64 + 3);
    for line in mail.split_inclusive(|b| *b == b'\n') {
        if line.starts_with(b".") {
            data.push(b'.');
        }
        data.extend_from_slice(line);
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
            signers: Vec::new(),
            trace: None,
        })
    }

    fn text(content: &serde_json::Value) -> String {
        String::from_utf8(write("ana@example.net", content).unwrap().data).unwrap()
    }

    #[test] // REQ OB-2
    fn a_mail_says_which_trace_it_belongs_to_where_that_is_wanted_and_not_said() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let told = |trace_header: bool, content: serde_json::Value| {
            let stationery = Stationery {
                from: sender_or_recipient("mail@clinic.example"),
                trace_header,
                ..Stationery::default()
            };
            let mail = stationery.write(&Envelope {
                id: MessageId::new(MessageKey(1), 2),
                idempotency_key: "msg_1-2".to_owned(),
                now: Time::from_millis(1_700_000_000_000),
                to: "ana@example.net".to_owned(),
                content: content.to_string(),
                reference: None,
                signers: Vec::new(),
                trace: trace::Context::read(parent, None),
            });
            let mail = String::from_utf8(mail.unwrap().data).unwrap();
            let head = mail.split("\r\n\r\n").next().unwrap();
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            let named = lines.filter(|(name, _)| name.eq_ignore_ascii_case(trace::PARENT));
            named.map(|(_, value)| value.to_owned()).collect::<Vec<_>>()
        };
        let finished = |head: &str| json!({"mime": BASE64.encode(format!("{head}Subject: s\r\n\r\nhi"))});
        let written = json!({"subject": "s", "text": "t"});
        assert_eq!(told(true, written.clone()), [parent]);
        assert_eq!(told(true, finished("")), [parent]);
        assert_eq!(told(false, written), [""; 0]);
        assert_eq!(told(false, finished("")), [""; 0]);
        let own = json!({"subject": "s", "text": "t", "headers": {"TraceParent": "mine"}});
        assert_eq!(told(true, own), ["mine"]);
        assert_eq!(told(true, finished("TraceParent: mine\r\n")), ["mine"]);
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

    #[test] // REQ IN-3
    fn a_mail_shows_whom_it_was_said_to_show_and_goes_to_its_recipient_alone() {
        let many: Vec<String> =
            (0..50).map(|n| format!("Pessoa Número {n} <p{n}@clients.example>")).collect();
        let content = json!({"subject": "s", "text": "t", "shown_to": many, "shown_cc": "Cê <cc@x.example>"});
        let mail = write("hidden@example.net", &content).unwrap();
        assert_eq!(mail.to, "hidden@example.net");
        let text = String::from_utf8(mail.data).unwrap();
        let head = text.split("\r\n\r\n").next().unwrap();
        let unfolded = head.replace("\r\n ", " ");
        let line =
            |name: &str| unfolded.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
        assert!((0..50).all(|n| line("To: ").contains(&format!("<p{n}@clients.example>"))), "{head}");
        assert!(line("Cc: ").contains("<cc@x.example>"), "{head}");
        assert!(!head.contains("hidden@") && head.lines().all(|line| line.len() < 998), "{head}");
        let nobody = json!({"subject": "s", "text": "t", "shown_to": []});
        assert!(!self::text(&nobody).contains("\r\nTo:"), "a list of none shows none");
    }

    #[test] // REQ IN-3
    fn a_finished_mail_goes_out_as_it_is() {
        let raw =
            "From: b@x.example\r\nDate: now\r\nMessage-ID: <m@x>\r\nX-L: \u{e9}\r\n\r\n.a\r\n\r\n.\r\nb\r\n";
        let content =
            |mime: &[u8], path: Option<&str>| json!({"mime": BASE64.encode(mime), "return_path": path});
        let mail = write("ana@example.net", &content(raw.as_bytes(), Some("b@x.example"))).unwrap();
        assert_eq!((mail.from.as_str(), mail.utf8, mail.eight_bit), ("b@x.example", false, true));
        let wire = raw.replace("\r\n.", "\r\n..") + ".\r\n";
        assert_eq!(String::from_utf8(mail.data).unwrap(), wire);
        assert_eq!(write("ana@example.net", &content(raw.as_bytes(), Some(""))).unwrap().from, "");
        for (mime, from) in [(raw, "b@x.example"), ("A: b\r\n\r\n", "mail@clinic.example")] {
            assert_eq!(write("ana@example.net", &content(mime.as_bytes(), None)).unwrap().from, from);
        }
        // Bytes that are no text in any alphabet, and what is missing.
        let bare = write("ana@example.net", &content(b"\xff\xfe\n.\n\x80", None)).unwrap();
        let end = b"\r\n\r\n\xff\xfe\r\n..\r\n\x80\r\n.\r\n";
        assert!(
            bare.data.ends_with(end) && bare.data.starts_with(b"Date: Tue, 14 Nov 2023"),
            "{:?}",
            bare.data
        );
        for bad in [&b"a\0b"[..], &[b'x'; 70_000]] {
            assert!(write("ana@example.net", &content(bad, None)).is_err());
        }
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
            json!({"subject": "s", "text": "t", "shown_to": ["a@b\r\nBcc: e@x"]}),
            json!({"subject": "s", "text": "t", "shown_cc": "e@x>"}),
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
