//! What Evolution is asked to send.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use pombo_kernel::content::phone;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::Envelope;

/// A message as it was accepted: text or media, and what goes with either.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Content<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) media: Option<Media<'a>>,
    delay: Option<u64>,
    link_preview: Option<bool>,
    #[serde(borrow)]
    quoted: Option<&'a RawValue>,
    mentioned: Option<Vec<String>>,
    mentions_every_one: Option<bool>,
}

/// Says nothing of what it holds.
impl fmt::Debug for Content<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Content")
    }
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Media<'a> {
    mediatype: Cow<'a, str>,
    /// A URL, or base64.
    #[serde(borrow)]
    media: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mimetype: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_name: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caption: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    number: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(flatten)]
    media: Option<&'a Media<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link_preview: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quoted: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mentioned: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mentions_every_one: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<&'a str>,
}

impl Content<'_> {
    /// The body of the request that sends it to this number.
    pub(super) fn body(&self, number: &str, message_id: Option<&str>) -> Vec<u8> {
        let digits = |mentioned: &Vec<String>| mentioned.iter().map(|to| phone::digits_for(to)).collect();
        let body = Body {
            number,
            text: self.text.as_deref(),
            media: self.media.as_ref(),
            delay: self.delay,
            link_preview: self.link_preview,
            quoted: self.quoted,
            mentioned: self.mentioned.as_ref().map(digits),
            mentions_every_one: self.mentions_every_one,
            message_id,
        };
        // Text, numbers and JSON that was parsed before can all be written again.
        serde_json::to_vec(&body).unwrap_or_default()
    }
}

/// The id that a message is to have on WhatsApp: of WhatsApp's own form, and the same for every attempt of a round.
pub(super) fn message_id(envelope: &Envelope) -> String {
    let digest = if envelope.idempotency_key.is_empty() {
        Sha256::digest(envelope.id.to_string())
    } else {
        Sha256::digest(&envelope.idempotency_key)
    };
    digest.iter().take(9).fold("3EB0".to_owned(), |mut id, byte| {
        // Writing to a string cannot fail.
        let _ = write!(id, "{byte:02X}");
        id
    })
}
