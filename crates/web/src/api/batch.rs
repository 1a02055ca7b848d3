//! Many messages at once: a JSON list, or a stream of lines of any length.
//!
//! Each item stands alone: one that is refused says why in its own place and leaves its neighbours untouched.
//! Items are handed to the store in groups, so that a stream of any length needs the memory of a few groups.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use futures_util::stream;
use http::{HeaderValue, StatusCode, header};
use pombo_kernel::message::{Draft, Idempotency, StateName};
use pombo_kernel::request::{BadJson, Refused};
use pombo_kernel::setup::Setup;
use pombo_store::{Accepted, Conflict, Repeat, StoreError};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::messages::conflicting;
use crate::Door;
use crate::auth::Caller;
use crate::body::{self, Media};
use crate::pin::pin_templates;
use crate::problem::{Code, Problem};
use crate::route::Call;
use crate::trail::Trail;
use crate::view;
use crate::{idempotency, suppression};

/// Messages, or bytes of them, that are handed to the store together.
const GROUP_ITEMS: usize = 512;
const GROUP_BYTES: usize = 1024 * 1024;
/// A line as long as this is anybody's right.
const FREE_LINE_BYTES: usize = 1024 * 1024;
/// Results that wait for a caller who writes before it reads: about a hundred thousand messages.
const UNREAD_BYTES: usize = 8 * 1024 * 1024;
/// A store that is overloaded slows a stream down for this long before items of it are refused.
const OVERLOAD_TRIES: u32 = 100;
const OVERLOAD_WAIT: Duration = Duration::from_millis(100);

/// Accepts many messages, and answers for each in order.
pub(crate) async fn create(call: Call) -> Result<Response, Problem> {
    if call.door.is_closing() {
        return Err(Problem::shutting_down());
    }
    let media = body::media(&call.head.headers)?;
    let Call { door, caller, head, body, .. } = call;
    let trail = Trail::of(&head).cloned().map(Trail::apart);
    let batch = Batch { door, caller, key: idempotency::header(&head.headers)?, trail };
    match media {
        Media::Json => {
            let limit = batch.door.setup().limits.body_bytes();
            let held = body::whole(&batch.door, &head.headers, body, limit).await?;
            batch.list(&held.text).await
        }
        Media::Ndjson => batch.stream(body),
    }
}

/// What became of each message of a list. The schema of what [`Batch::list`] writes.
#[derive(JsonSchema)]
#[schemars(rename = "BatchResults")]
#[allow(dead_code)]
pub(crate) struct ItemsView {
    items: Vec<ItemView<'static>>,
}

/// One item's result: an id and a state, or an error.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BatchResult")]
struct ItemView<'a> {
    /// Its place in the request, from 0 on.
    index: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<StateName>")]
    state: Option<&'static str>,
    /// The key was seen before with the same request: this is the message of that time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    replayed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<crate::openapi::ProblemDocument>")]
    error: Option<&'a Problem>,
}

enum Outcome {
    Stored { accepted: Accepted, state: StateName },
    Refused(Problem),
}

struct Batch {
    door: Door,
    caller: Arc<Caller>,
    /// The request's own key, which stands for one key for each item.
    key: Option<String>,
    trail: Option<Trail>,
}

impl Batch {
    /// A JSON list, read as a whole: if it is not JSON, nothing of it is stored.
    async fn list(&self, text: &[u8]) -> Result<Response, Problem> {
        let limit = self.door.setup().limits.batch_items;
        if text.trim_ascii_start().first() != Some(&b'[') {
            serde_json::from_slice::<serde::de::IgnoredAny>(text).map_err(BadJson::from)?;
            let hint = "write [{…}, {…}]; post one message alone to /v1/messages";
            return Err(Problem::field("body", "is not a list of messages", hint));
        }
        let items: Vec<&RawValue> = serde_json::from_slice(text).map_err(BadJson::from)?;
        if items.len() > limit {
            return Err(Problem::new(
                Code::BatchTooLarge,
                format!("there are {} messages; at most {limit} are taken in one list", items.len()),
                "send several lists, or an NDJSON stream, which has no such limit",
            ));
        }
        let mut document = b"{\"items\":[".to_vec();
        let mut stored = false;
        for (group, start) in items.chunks(GROUP_ITEMS).zip((0u64..).step_by(GROUP_ITEMS)) {
            let lines: Vec<&[u8]> = group.iter().map(|item| item.get().as_bytes()).collect();
            let (outcomes, failed) = self.accept(start, &lines).await;
            match failed {
                // Nothing of the request was stored, so that the whole of it can simply be sent again.
                Some(error) if !stored => return Err(error.into()),
                _ => stored |= outcomes.iter().any(|outcome| matches!(outcome, Outcome::Stored { .. })),
            }
            for (outcome, index) in outcomes.iter().zip(start..) {
                if index > 0 {
                    document.push(b',');
                }
                outcome.write(index, &mut document);
            }
        }
        document.extend_from_slice(b"]}");
        Ok(view::answer(StatusCode::OK, document))
    }

    /// A stream of lines; results go back while it comes in.
    fn stream(self, body: Body) -> Result<Response, Problem> {
        let Ok(place) = self.door.0.streams.clone().try_acquire_owned() else {
            return Err(Problem::new(
                Code::Overloaded,
                "too many streams are open; nothing was stored",
                "send it again after the time in Retry-After",
            ));
        };
        let (results, unread) = mpsc::unbounded_channel();
        let results = Results { sender: results, room: Arc::new(Semaphore::new(UNREAD_BYTES)) };
        // A task of its own, since a caller may write everything before it reads anything; while the connection
        // waits to write results, lines must go on being read.
        tokio::spawn(async move {
            let _place = place;
            self.pump(body.into_data_stream(), results).await;
        });
        let unread = stream::unfold(unread, |mut unread: mpsc::UnboundedReceiver<Chunk>| async move {
            let (bytes, _room) = unread.recv().await?;
            Some((Ok::<_, std::convert::Infallible>(bytes), unread))
        });
        let mut response = Response::new(Body::from_stream(unread));
        let ndjson = HeaderValue::from_static("application/x-ndjson");
        response.headers_mut().insert(header::CONTENT_TYPE, ndjson);
        Ok(response)
    }

    async fn pump(mut self, mut body: BodyDataStream, results: Results) {
        let limits = self.door.setup().limits;
        let mut lines = Lines::new(limits.message_bytes());
        let mut index = 0;
        // A long line takes its share of the room that all bodies have together before it is read on.
        let mut share = None;
        loop {
            if lines.rest.len() <= FREE_LINE_BYTES {
                share = None;
            } else if share.is_none() {
                let bytes = u32::try_from(lines.limit).unwrap_or(u32::MAX);
                let room = self.door.0.room.acquire_many(bytes);
                share =
                    tokio::time::timeout(self.door.0.patience.stream, room).await.ok().and_then(Result::ok);
            }
            let crowded = lines.rest.len() > FREE_LINE_BYTES && share.is_none();
            let piece = tokio::time::timeout(self.door.0.patience.stream, body::piece(&mut body)).await;
            let (last, failure) = match piece {
                _ if crowded => (true, Some(body::no_room())),
                Ok(Ok(Some(_))) if self.door.is_closing() => (true, Some(Problem::shutting_down())),
                Ok(Ok(Some(piece))) => {
                    lines.push(&piece);
                    (false, None)
                }
                Ok(Ok(None)) => {
                    lines.finish();
                    (true, None)
                }
                Ok(Err(problem)) => (true, Some(problem)),
                Err(_) => (true, Some(body::too_slow())),
            };
            // A key that was taken away while the stream was open ends it, and one that is for fewer channels by now
            // is for these.
            let failure = match (failure, self.door.still_knows(&self.caller).await) {
                (None, Ok(caller)) => {
                    self.caller = caller;
                    None
                }
                (failure, known) => failure.or(known.err()),
            };
            let last = last || failure.is_some();
            if failure.as_ref().is_some_and(|problem| problem.code == Code::Unauthorized) {
                lines.whole.clear();
            }
            while let Some(group) = lines.group() {
                let document = self.results(index, &group).await;
                index += group.len() as u64;
                if results.send(document, self.door.0.patience.stream).await.is_err() {
                    return;
                }
            }
            if let Some(problem) = failure {
                // Whatever came after the last whole line was not stored, and its place says so.
                let mut document = Vec::new();
                Outcome::Refused(problem).write(index, &mut document);
                document.push(b'\n');
                let _ = results.send(document, self.door.0.patience.stream).await;
            }
            if last {
                return;
            }
        }
    }

    async fn results(&self, start: u64, group: &[Line]) -> Vec<u8> {
        let texts: Vec<&[u8]> = group.iter().map(|line| line.as_deref().unwrap_or_default()).collect();
        let mut tries = 0;
        let mut outcomes = loop {
            let (outcomes, failed) = self.accept(start, &texts).await;
            tries += 1;
            // Nothing was stored, and the caller can wait: its next lines stay in its own hands meanwhile.
            if failed == Some(StoreError::Overloaded) && tries < OVERLOAD_TRIES && !self.door.is_closing() {
                tokio::time::sleep(OVERLOAD_WAIT).await;
                continue;
            }
            break outcomes;
        };
        let mut document = Vec::with_capacity(96 * group.len());
        for ((outcome, line), index) in outcomes.iter_mut().zip(group).zip(start..) {
            if let Err(limit) = line {
                let hint = "a line holds one message; put large content elsewhere and send a link to it";
                let detail = format!("the line has more than {limit} bytes");
                *outcome = Outcome::Refused(Problem::new(Code::BodyTooLarge, detail, hint));
            }
            outcome.write(index, &mut document);
            document.push(b'\n');
        }
        document
    }

    /// Drafts and stores a group of items, each on its own. A failure of the store is every drafted item's.
    async fn accept(&self, start: u64, items: &[&[u8]]) -> (Vec<Outcome>, Option<StoreError>) {
        let setup = self.door.setup();
        let now = self.door.now();
        let (mut drafts, mut overrides) = (Vec::with_capacity(items.len()), Vec::new());
        let mut refused: Vec<Option<Problem>> = Vec::with_capacity(items.len());
        for (item, index) in items.iter().zip(start..) {
            match setup.draft_json(item, &self.caller.tenant, now) {
                Ok(drafted) if !self.caller.sees(&drafted.draft.queue.channel) => {
                    refused.push(self.caller.may_use(&drafted.draft.queue.channel).err());
                }
                Ok(mut drafted) => {
                    drafted.draft.idempotency = self.idempotency(drafted.idempotency_key, index, item);
                    overrides.push(drafted.override_suppression);
                    drafts.push(drafted.draft);
                    refused.push(None);
                }
                Err(problem) => refused.push(Some(problem.into())),
            }
        }
        let pinned = self.pin(&setup, drafts, &overrides, &mut refused).await;
        let stored = match pinned {
            Ok(drafts) if drafts.is_empty() => Ok(Vec::new()),
            Ok(drafts) => self.door.accept(drafts, self.trail.as_ref()).await,
            Err(error) => Err(error),
        };
        let (stored, failed) = match stored {
            Ok(stored) => (self.states(stored).await, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let problem = failed.clone().map_or_else(Problem::internal, Problem::from);
        let mut stored = stored.into_iter();
        let outcomes = refused.into_iter().map(|refused| match refused {
            Some(problem) => Outcome::Refused(problem),
            None => stored.next().unwrap_or_else(|| Outcome::Refused(problem.clone())),
        });
        (outcomes.collect(), failed)
    }

    /// The drafts whose templates are there, and whose recipients may be written to; what is wrong with the others goes
    /// in their places.
    async fn pin(
        &self,
        setup: &Setup,
        mut drafts: Vec<Draft>,
        overrides: &[bool],
        refused: &mut [Option<Problem>],
    ) -> Result<Vec<Draft>, StoreError> {
        let found = pin_templates(self.door.store(), setup, &mut drafts).await?;
        let drafted = refused.iter_mut().filter(|place| place.is_none());
        let mut sound = Vec::with_capacity(drafts.len());
        for (((draft, found), override_suppression), place) in
            drafts.into_iter().zip(found).zip(overrides).zip(drafted)
        {
            let found = match found {
                None if !override_suppression => {
                    suppression::stops(self.door.store(), setup, std::slice::from_ref(&draft)).await?
                }
                found => found,
            };
            match found {
                None => sound.push(draft),
                Some(problem) => *place = Some(Refused::Problems(vec![problem]).into()),
            }
        }
        Ok(sound)
    }

    /// The item's own key, else one made of the request's key and the item's place, so that a whole batch can be
    /// sent again. The character between them cannot stand in a caller's key.
    fn idempotency(&self, own: Option<String>, index: u64, item: &[u8]) -> Option<Idempotency> {
        let key = own.or_else(|| self.key.as_ref().map(|key| format!("{key}\u{1f}{index}")))?;
        Some(idempotency::of(key, item))
    }

    /// A new message is pending; one that was accepted before is looked up.
    async fn states(&self, stored: Vec<Result<Accepted, Conflict>>) -> Vec<Outcome> {
        join_all(stored.into_iter().map(|stored| async move {
            let accepted = match stored {
                Err(conflict) => return Outcome::Refused(conflicting(conflict)),
                Ok(accepted) => accepted,
            };
            if accepted.repeat == Repeat::First {
                return Outcome::Stored { accepted, state: StateName::Pending };
            }
            match self.door.store().story(self.caller.tenant.clone(), accepted.id).await {
                Ok(Some(story)) => Outcome::Stored { accepted, state: story.state.name() },
                // Retention has let it go; what was first answered still holds.
                Ok(None) => Outcome::Stored { accepted, state: StateName::Pending },
                Err(error) => Outcome::Refused(error.into()),
            }
        }))
        .await
    }
}

impl Outcome {
    fn write(&self, index: u64, document: &mut Vec<u8>) {
        let nothing = ItemView { index, id: None, state: None, replayed: false, error: None };
        let view = match self {
            Outcome::Refused(problem) => ItemView { error: Some(problem), ..nothing },
            Outcome::Stored { accepted, state } => ItemView {
                id: Some(accepted.id.to_string()),
                state: Some(state.as_str()),
                replayed: accepted.repeat == Repeat::Same,
                ..nothing
            },
        };
        // Writing plain fields into memory cannot fail.
        let _ = serde_json::to_writer(document, &view);
    }
}

type Chunk = (Bytes, OwnedSemaphorePermit);

/// Results on their way to the caller, bounded by their bytes.
struct Results {
    sender: mpsc::UnboundedSender<Chunk>,
    room: Arc<Semaphore>,
}

/// The caller is gone, or does not read.
struct Unread;

impl Results {
    async fn send(&self, document: Vec<u8>, patience: Duration) -> Result<(), Unread> {
        let bytes = u32::try_from(document.len().min(UNREAD_BYTES)).unwrap_or(u32::MAX);
        let room = self.room.clone().acquire_many_owned(bytes);
        let room = tokio::select! {
            room = tokio::time::timeout(patience, room) => room,
            () = self.sender.closed() => return Err(Unread),
        };
        match room {
            Ok(Ok(room)) => self.sender.send((document.into(), room)).map_err(|_| Unread),
            _ => Err(Unread),
        }
    }
}

/// A line, or the limit that it exceeds.
type Line = Result<Bytes, usize>;

/// Cuts a stream into lines, and lines into groups. Holds one unfinished line at most, and that bounded.
struct Lines {
    limit: usize,
    rest: BytesMut,
    /// The unfinished line is too long: what still comes of it is dropped.
    overlong: bool,
    whole: std::collections::VecDeque<Line>,
}

impl Lines {
    fn new(limit: usize) -> Lines {
        Lines { limit, rest: BytesMut::new(), overlong: false, whole: std::collections::VecDeque::new() }
    }

    fn push(&mut self, mut piece: &[u8]) {
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            self.extend(&piece[..end]);
            self.cut();
            piece = &piece[end + 1..];
        }
        self.extend(piece);
    }

    /// The last line may lack its end.
    fn finish(&mut self) {
        self.cut();
    }

    fn extend(&mut self, part: &[u8]) {
        if self.rest.len() + part.len() > self.limit {
            self.overlong = true;
            self.rest.clear();
        }
        if !self.overlong {
            self.rest.extend_from_slice(part);
        }
    }

    fn cut(&mut self) {
        let line = self.rest.split().freeze();
        if std::mem::take(&mut self.overlong) {
            self.whole.push_back(Err(self.limit));
        } else if !line.trim_ascii().is_empty() {
            self.whole.push_back(Ok(line));
        }
    }

    /// Whole lines that are to be stored together, as many as there are; none if there is none.
    fn group(&mut self) -> Option<Vec<Line>> {
        let mut group = Vec::new();
        let mut bytes = 0;
        while let Some(line) = self.whole.pop_front() {
            bytes += line.as_ref().map_or(0, Bytes::len);
            group.push(line);
            if group.len() == GROUP_ITEMS || bytes >= GROUP_BYTES {
                break;
            }
        }
        (!group.is_empty()).then_some(group)
    }
}
