//! Reading request bodies: bounded in size, in time and in memory over all callers.

use axum::body::{Body, BodyDataStream};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http::{HeaderMap, header};
use tokio::sync::SemaphorePermit;

use crate::Door;
use crate::problem::{Code, Problem};

/// What comes within the usual time, also over a slow line.
const LARGE_BYTES: usize = 8 * 1024 * 1024;

/// What a body says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    Ndjson,
}

/// The body's type. None given is taken as JSON, since nothing else is read here.
pub(crate) fn media(headers: &HeaderMap) -> Result<Media, Problem> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(Media::Json) };
    let text = value.to_str().unwrap_or_default();
    let mut parts = text.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
    let utf8 = parts.filter_map(|part| part.split_once('=')).all(|(name, value)| {
        !name.eq_ignore_ascii_case("charset") || value.trim_matches('"').eq_ignore_ascii_case("utf-8")
    });
    match essence.as_str() {
        _ if !utf8 => {}
        "application/json" => return Ok(Media::Json),
        "application/x-ndjson" | "application/ndjson" => return Ok(Media::Ndjson),
        other if other.starts_with("application/") && other.ends_with("+json") => return Ok(Media::Json),
        _ => {}
    }
    Err(Problem::new(
        Code::UnsupportedMediaType,
        format!("the body is `{}`", text.chars().take(100).collect::<String>()),
        "send JSON in UTF-8 with `Content-Type: application/json`",
    ))
}

/// A JSON body, or a problem if it says that it is something else.
pub(crate) async fn json(
    door: &Door,
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Result<Bytes, Problem> {
    held_json(door, headers, body, limit).await.map(|held| held.text)
}

/// A JSON body with its share of the room, for whoever works on it for long.
pub(crate) async fn held_json<'a>(
    door: &'a Door,
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Result<Held<'a>, Problem> {
    match media(headers)? {
        Media::Json => whole(door, headers, body, limit).await,
        Media::Ndjson => Err(Problem::new(
            Code::UnsupportedMediaType,
            "a stream of messages is not read here",
            "post it to /v1/messages/batch, or send one message with `Content-Type: application/json`",
        )),
    }
}

/// A body, and its share of the room that all bodies have together, for as long as it is worked on.
pub(crate) struct Held<'a> {
    pub(crate) text: Bytes,
    _share: Option<SemaphorePermit<'a>>,
}

impl From<Bytes> for Held<'_> {
    fn from(text: Bytes) -> Self {
        Held { text, _share: None }
    }
}

/// The whole body, up to `limit` bytes.
///
/// Most bodies come in one piece with their head and cost nothing more; what comes slowly or is large takes a
/// share of the room that all callers have together, so that many of them cannot fill the memory.
pub(crate) async fn whole<'a>(
    door: &'a Door,
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Result<Held<'a>, Problem> {
    let told =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if told.is_some_and(|told| told > limit) {
        return Err(too_large(limit));
    }
    let mut stream = body.into_data_stream();
    let read = async {
        let Some(first) = piece(&mut stream).await? else { return Ok(Bytes::new().into()) };
        if first.len() > limit {
            return Err(too_large(limit));
        }
        if told == Some(first.len()) {
            return Ok(first.into());
        }
        let Some(second) = piece(&mut stream).await? else { return Ok(first.into()) };
        let share = u32::try_from(told.unwrap_or(limit)).unwrap_or(u32::MAX);
        let Ok(share) = door.0.room.try_acquire_many(share) else { return Err(no_room()) };
        let mut whole = BytesMut::with_capacity(told.unwrap_or(first.len() + second.len()));
        whole.extend_from_slice(&first);
        let mut next = Some(second);
        while let Some(piece_now) = next {
            if whole.len() + piece_now.len() > limit {
                return Err(too_large(limit));
            }
            whole.extend_from_slice(&piece_now);
            next = piece(&mut stream).await?;
        }
        Ok(Held { text: whole.freeze(), _share: Some(share) })
    };
    // Whoever says beforehand that much is to come gets the time for it.
    let pieces = u32::try_from(told.unwrap_or(0) / LARGE_BYTES).unwrap_or(0).saturating_add(1);
    match tokio::time::timeout(door.0.patience.body * pieces, read).await {
        Ok(read) => read,
        Err(_) => Err(too_slow()),
    }
}

/// The next piece of a body, if it is not at its end.
pub(crate) async fn piece(stream: &mut BodyDataStream) -> Result<Option<Bytes>, Problem> {
    match stream.next().await {
        None => Ok(None),
        Some(Ok(piece)) => Ok(Some(piece)),
        Some(Err(_)) => Err(Problem::new(
            Code::InvalidJson,
            "the body ended before it was complete; nothing of it was stored",
            "send the whole body, with a Content-Length that fits it",
        )),
    }
}

pub(crate) fn too_large(limit: usize) -> Problem {
    Problem::new(
        Code::BodyTooLarge,
        format!("the body has more than {limit} bytes"),
        "send fewer messages at once, or an NDJSON stream to /v1/messages/batch, which has no such limit",
    )
}

pub(crate) fn too_slow() -> Problem {
    Problem::new(
        Code::RequestTimeout,
        "the body did not arrive in time",
        "send it again, with the same Idempotency-Key",
    )
}

pub(crate) fn no_room() -> Problem {
    Problem::new(
        Code::Overloaded,
        "too many large requests are being read; nothing was stored",
        "send it again after the time in Retry-After",
    )
}
