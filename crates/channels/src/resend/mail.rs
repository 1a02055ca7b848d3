//! A message's content, as Resend wants to be told of it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use pombo_kernel::content::mailbox;
use serde::{Deserialize, Serialize};

use crate::Envelope;

/// The most recipients that Resend takes in one field.
const RECIPIENTS_MAX: usize = 50;

/// One mail, ready to be posted alone or among others.
pub(super) struct Mail {
    pub(super) json: Bytes,
    /// The domain that it is sent from, in lower case.
    pub(super) domain: String,
    pub(super) has_attachments: bool,
}

/// Says how much there is and nothing of what it says.
impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mail").field("bytes", &self.json.len()).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content<'a> {
    #[serde(borrow)]
    subject: Cow<'a, str>,
    #[serde(default, borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    html: Option<Cow<'a, str>>,
    #[serde(default)]
    from: Option<String>,
    #[serde(default)]
    reply_to: Addresses,
    #[serde(default)]
    also_to: Addresses,
    #[serde(default)]
    cc: Addresses,
    #[serde(default)]
    bcc: Addresses,
    #[serde(default)]
    headers: Option<BTreeMap<String, String>>,
    #[serde(default, borrow)]
    attachments: Option<Vec<Attachment<'a>>>,
    #[serde(default)]
    tags: Option<Vec<Tag>>,
}

/// None, one, or a list.
#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Addresses {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

impl Addresses {
    fn list(&self) -> Vec<&str> {
        match self {
            Addresses::None => Vec::new(),
            Addresses::One(one) => vec![one],
            Addresses::Many(many) => many.iter().map(String::as_str).collect(),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attachment<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filename: Option<String>,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    content: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tag {
    name: String,
    value: String,
}

#[derive(Serialize)]
struct Posted<'a> {
    from: &'a str,
    to: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cc: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bcc: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reply_to: Vec<&'a str>,
    subject: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    html: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<&'a BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    attachments: &'a [Attachment<'a>],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tags: &'a [Tag],
}

impl Mail {
    /// Puts a mail together. The error never repeats what the caller wrote.
    pub(super) fn of(envelope: &Envelope, default_from: Option<&str>) -> Result<Mail, &'static str> {
        let content: Content<'_> =
            serde_json::from_str(&envelope.content).map_err(|_| "the content is not a mail's")?;
        let from = content.from.as_deref().or(default_from);
        let from = from.ok_or("the mail names no sender: give `from` in the message or on the channel")?;
        let mut to = vec![envelope.to.as_str()];
        to.extend(content.also_to.list());
        let (cc, bcc, reply_to) = (content.cc.list(), content.bcc.list(), content.reply_to.list());
        if [&to, &cc, &bcc, &reply_to].iter().any(|list| list.len() > RECIPIENTS_MAX) {
            return Err("the mail has more than 50 addresses in one field");
        }
        // The door has seen to this. Should something get past it, no line break goes into a mail's head.
        let addresses = [&to, &cc, &bcc, &reply_to].into_iter().flatten();
        if !addresses.chain([&from]).all(|text| mailbox(text).is_some()) {
            return Err("the mail has an address that is none");
        }
        let headers = content.headers.as_ref();
        let lines = headers.into_iter().flatten().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
        if lines.chain([&*content.subject]).any(|line| line.contains(['\r', '\n', '\0'])) {
            return Err("the mail has a line break in a header");
        }
        let attachments = content.attachments.as_deref().unwrap_or_default();
        let posted = Posted {
            from,
            to,
            cc,
            bcc,
            reply_to,
            subject: &content.subject,
            html: content.html.as_deref(),
            text: content.text.as_deref(),
            headers,
            attachments,
            tags: content.tags.as_deref().unwrap_or_default(),
        };
        let json = serde_json::to_vec(&posted).map_err(|_| "the mail cannot be written as JSON")?;
        let domain = mailbox(from).and_then(|address| address.rsplit_once('@')).map(|(_, domain)| domain);
        Ok(Mail {
            json: json.into(),
            domain: domain.unwrap_or_default().to_ascii_lowercase(),
            has_attachments: !attachments.is_empty(),
        })
    }
}
