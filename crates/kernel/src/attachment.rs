//! Attachments, kept apart from the content that they came in.
//!
//! A file of some megabytes in every row would make each look at a message slow, and the same file sent to a
//! thousand people would be stored a thousand times. So a door takes it out, the store keeps it once, by its digest,
//! and the engine puts it back before a channel sees the content.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::kind::ChannelKind;

/// What is smaller, as base64, stays in the content.
const APART_BYTES: usize = 4 * 1024;

/// With or without padding, as callers write it.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// SHA-256 of a blob, by which it is found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest has 64 hexadecimal digits")]
pub struct BadDigest;

impl FromStr for Digest {
    type Err = BadDigest;
    fn from_str(text: &str) -> Result<Digest, BadDigest> {
        let mut digest = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(BadDigest);
        }
        for (byte, at) in digest.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| BadDigest)?;
        }
        Ok(Digest(digest))
    }
}

/// Bytes with their digest.
#[derive(Clone, PartialEq, Eq)]
pub struct Blob {
    pub digest: Digest,
    pub bytes: Arc<[u8]>,
}

impl Blob {
    pub fn of(bytes: impl Into<Arc<[u8]>>) -> Blob {
        let bytes = bytes.into();
        Blob { digest: Digest(Sha256::digest(&bytes).into()), bytes }
    }
}

/// Says how much there is, and nothing of it.
impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({}, {} bytes)", self.digest, self.bytes.len())
    }
}

/// Takes large attachments out of content that was checked, and leaves references to them in their places.
/// Each blob once, however often it is there.
pub fn take_out(kind: ChannelKind, content: &mut Value) -> Vec<Blob> {
    let mut blobs: Vec<Blob> = Vec::new();
    for place in places(kind, content) {
        let Some(bytes) = place.as_str().filter(|text| text.len() > APART_BYTES).and_then(decoded) else {
            continue;
        };
        let blob = Blob::of(bytes);
        *place = written(&blob);
        if !blobs.iter().any(|known| known.digest == blob.digest) {
            blobs.push(blob);
        }
    }
    blobs
}

/// The bytes of an attachment as a caller wrote it; none if it is a URL.
fn decoded(text: &str) -> Option<Vec<u8>> {
    if text.contains(':') { None } else { LENIENT.decode(text).ok() }
}

/// What one message's attachments hold in all, taken out or not, in bytes.
pub fn bytes_in(kind: ChannelKind, content: &mut Value) -> usize {
    let bytes = |place: &mut Value| match place.as_str() {
        Some(text) if !text.contains(':') => text.trim_end_matches('=').len().saturating_mul(3) / 4,
        _ => 0,
    };
    places(kind, content).into_iter().map(bytes).sum()
}

/// The blobs that content refers to, with their sizes.
pub fn references(kind: ChannelKind, content: &mut Value) -> Vec<(Digest, usize)> {
    places(kind, content).into_iter().filter_map(|place| reference(place)).collect()
}

/// Puts blobs back where they were taken out; the first digest that is not found, if one is not.
pub fn put_back(
    kind: ChannelKind,
    content: &mut Value,
    find: impl Fn(Digest) -> Option<Arc<[u8]>>,
) -> Result<(), Digest> {
    for place in places(kind, content) {
        if let Some((digest, _)) = reference(place) {
            *place = Value::String(STANDARD.encode(find(digest).ok_or(digest)?));
        }
    }
    Ok(())
}

/// How content holds these bytes: within it as base64, or apart if they are many.
pub fn held(bytes: Vec<u8>) -> (Value, Option<Blob>) {
    if bytes.len() <= APART_BYTES / 4 * 3 {
        return (Value::String(STANDARD.encode(bytes)), None);
    }
    let blob = Blob::of(bytes);
    (written(&blob), Some(blob))
}

fn written(blob: &Blob) -> Value {
    json!({"blob": blob.digest.to_string(), "size": blob.bytes.len()})
}

fn reference(place: &Value) -> Option<(Digest, usize)> {
    let digest = place.get("blob")?.as_str()?.parse().ok()?;
    let size = place.get("size")?.as_u64()?;
    Some((digest, usize::try_from(size).ok()?))
}

/// The field of a kind's content that has files, if any has.
pub fn field(kind: ChannelKind) -> Option<&'static str> {
    match kind {
        ChannelKind::Smtp | ChannelKind::Resend => Some("content.attachments"),
        ChannelKind::Evolution => Some("content.media"),
        _ => None,
    }
}

/// Where a kind's content has files.
fn places(kind: ChannelKind, content: &mut Value) -> Vec<&mut Value> {
    match kind {
        // A finished mail has its files within itself.
        ChannelKind::Smtp if content.get("mime").is_some() => content.get_mut("mime").into_iter().collect(),
        ChannelKind::Smtp | ChannelKind::Resend => {
            let list = content.get_mut("attachments").and_then(Value::as_array_mut);
            list.into_iter().flatten().filter_map(|file| file.get_mut("content")).collect()
        }
        ChannelKind::Evolution => {
            content.get_mut("media").and_then(|media| media.get_mut("media")).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mail(files: &[&[u8]]) -> Value {
        let files: Vec<_> =
            files.iter().map(|file| json!({"filename": "a.pdf", "content": STANDARD.encode(file)})).collect();
        json!({"subject": "s", "text": "t", "attachments": files})
    }

    #[test] // REQ ML-10
    fn what_is_taken_out_is_put_back_as_it_was_and_shared() {
        let (large, small) = (vec![7; 5_000], vec![8; 100]);
        let before = mail(&[&large, &small, &large]);
        let mut content = before.clone();
        assert_eq!(bytes_in(ChannelKind::Smtp, &mut content), 10_100);
        let blobs = take_out(ChannelKind::Smtp, &mut content);
        assert_eq!(blobs.len(), 1);
        let blob = &blobs[0];
        let left = json!({"blob": blob.digest.to_string(), "size": 5_000});
        assert_eq!(content["attachments"][0]["content"], left);
        assert_eq!(content["attachments"][1], before["attachments"][1]);
        assert_eq!(references(ChannelKind::Smtp, &mut content), [(blob.digest, 5_000); 2]);
        let mut missing = content.clone();
        assert_eq!(put_back(ChannelKind::Smtp, &mut missing, |_| None), Err(blob.digest));
        put_back(ChannelKind::Smtp, &mut content, |_| Some(blob.bytes.clone())).unwrap();
        assert_eq!(content, before);
    }

    #[test] // REQ IN-3, ML-10
    fn a_finished_mail_goes_apart_as_one_file() {
        for bytes in [vec![7; 5_000], vec![7; 50]] {
            let (place, blob) = held(bytes.clone());
            assert_eq!(blob.is_some(), bytes.len() > 3_000);
            let mut content = json!({"mime": place, "subject": "s"});
            let written = json!({"mime": STANDARD.encode(&bytes), "subject": "s"});
            assert_eq!(
                take_out(ChannelKind::Smtp, &mut written.clone()),
                blob.clone().into_iter().collect::<Vec<_>>()
            );
            put_back(ChannelKind::Smtp, &mut content, |_| blob.as_ref().map(|blob| blob.bytes.clone()))
                .unwrap();
            assert_eq!(content, written);
        }
    }

    #[test] // REQ ML-10
    fn whatsapp_media_goes_apart_and_a_url_stays() {
        let media = |media: &str| json!({"media": {"mediatype": "image", "media": media}});
        let mut content = media(STANDARD.encode([1; 9_000]).trim_end_matches('='));
        assert_eq!(take_out(ChannelKind::Evolution, &mut content).len(), 1);
        let url = format!("https://example.com/{}", "x".repeat(5_000));
        let mut linked = media(&url);
        assert_eq!(take_out(ChannelKind::Evolution, &mut linked).len(), 0);
        assert_eq!(linked, media(&url));
        let mut other = json!({"body": {"media": {"media": "A".repeat(8_000)}}});
        assert_eq!(take_out(ChannelKind::Webhook, &mut other).len(), 0);
    }

    #[test]
    fn a_digest_is_read_as_it_is_written_and_a_blob_is_not_shown() {
        let blob = Blob::of(b"canary".to_vec());
        assert_eq!(blob.digest.to_string().parse(), Ok(blob.digest));
        for bad in ["", "zz", &"é".repeat(32), &"g".repeat(64)] {
            assert_eq!(bad.parse::<Digest>(), Err(BadDigest));
        }
        assert!(!format!("{blob:?}").contains("canary"));
    }

    proptest! {
        #[test] // REQ ML-10
        fn any_file_comes_back(bytes in prop::collection::vec(any::<u8>(), 3_000..6_000)) {
            let before = mail(&[&bytes]);
            let mut content = before.clone();
            let blobs = take_out(ChannelKind::Resend, &mut content);
            put_back(ChannelKind::Resend, &mut content, |digest| {
                blobs.iter().find(|blob| blob.digest == digest).map(|blob| blob.bytes.clone())
            }).unwrap();
            prop_assert_eq!(content, before);
        }
    }
}
