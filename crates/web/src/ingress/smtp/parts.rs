//! A finished mail taken apart, for a provider that puts mails together by itself.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use mail_parser::{Message, MessageParser, MessagePart, MimeHeaders as _, PartType};
use pombo_kernel::content::reserved_in_mail;
use pombo_kernel::mime;
use serde_json::{Map, Value, json};

use super::letter::{Shown, addresses, plain};
use super::reply::Reply;

/// What servers on the way wrote, which says nothing to the recipient.
const TRACES: [&str; 6] =
    ["authentication-results", "delivered-to", "received-spf", "resent-bcc", "x-original-to", "x-received"];

/// The content of a message through Resend. Words and files come out as they are; how they were put together does not,
/// so what is signed or encrypted as a whole is refused.
pub(super) fn content(mail: &[u8], shown: &Shown) -> Result<Value, Reply> {
    let unfit = |words: &'static str| Reply::new(554, "5.6.0", words);
    let Some(from) = &shown.from else {
        return Err(unfit("the mail has no From field that names one address"));
    };
    let message = MessageParser::default().parse(mail).ok_or_else(|| unfit("the mail cannot be read"))?;
    let is = |kind: &str, of: &str| message.is_content_type(kind, of);
    if is("multipart", "signed") || is("multipart", "encrypted") || is("application", "pkcs7-mime") {
        let words = "a signed or encrypted mail cannot go through a resend channel: use one of the kind smtp";
        return Err(Reply::new(554, "5.6.1", words));
    }
    let mut content =
        Map::from_iter([("from".to_owned(), json!(from)), ("subject".to_owned(), json!(shown.subject))]);
    let words = [
        (
            "text",
            words(&message, &message.text_body, |part| match part {
                PartType::Text(text) => Some(text),
                _ => None,
            }),
        ),
        (
            "html",
            words(&message, &message.html_body, |part| match part {
                PartType::Html(text) => Some(text),
                _ => None,
            }),
        ),
    ];
    content.extend(
        words
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(name, text)| (name.to_owned(), json!(text))),
    );
    if let Some(list) = message.reply_to().and_then(addresses) {
        content.insert("reply_to".to_owned(), json!(list));
    }
    let headers = headers(mail);
    if !headers.is_empty() {
        content.insert("headers".to_owned(), Value::Object(headers));
    }
    let files: Vec<Value> = message.attachments().enumerate().map(|(n, part)| file(n, part)).collect();
    if !files.is_empty() {
        content.insert("attachments".to_owned(), Value::Array(files));
    }
    Ok(Value::Object(content))
}

fn words<'a>(
    message: &'a Message<'a>,
    parts: &[u32],
    pick: impl Fn(&'a PartType<'a>) -> Option<&'a std::borrow::Cow<'a, str>>,
) -> String {
    let texts = parts.iter().filter_map(|part| pick(&message.part(*part)?.body));
    texts.map(|text| text.replace("\r\n", "\n")).collect::<Vec<_>>().join("\n")
}

/// The fields of the head that have no place of their own.
fn headers(mail: &[u8]) -> Map<String, Value> {
    let mut headers = Map::new();
    let (fields, _) = mime::head(mail);
    for field in fields {
        let name = field.name();
        let lower = name.to_ascii_lowercase();
        let known =
            reserved_in_mail(&lower) || TRACES.contains(&lower.as_str()) || lower.starts_with("resent-");
        if !known && !headers.keys().any(|other: &String| other.eq_ignore_ascii_case(&name)) {
            headers.insert(name, json!(plain(&field.text())));
        }
    }
    headers
}

fn file(n: usize, part: &MessagePart<'_>) -> Value {
    let kind = part.content_type().map(|kind| match &kind.c_subtype {
        Some(of) => format!("{}/{of}", kind.c_type),
        None => kind.c_type.to_string(),
    });
    let name = part.attachment_name().map(|name| plain(name).replace(['/', '\\'], "_"));
    let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| {
        let end = match (&part.body, kind.as_deref()) {
            (PartType::Message(_), _) => "eml",
            (_, Some("text/calendar")) => "ics",
            (_, Some("text/plain")) => "txt",
            (_, Some("text/html")) => "html",
            _ => "bin",
        };
        format!("attachment-{}.{end}", n + 1)
    });
    let mut file = Map::from_iter([
        ("filename".to_owned(), json!(name)),
        ("content".to_owned(), json!(BASE64.encode(part.contents()))),
    ]);
    file.extend(kind.map(|kind| ("content_type".to_owned(), json!(plain(&kind)))));
    file.extend(part.content_id().map(|id| ("content_id".to_owned(), json!(plain(id)))));
    Value::Object(file)
}
