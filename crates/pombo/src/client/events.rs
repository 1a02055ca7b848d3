//! The stream of events, as its lines come in.

use std::time::Duration;

use http::header::{self, HeaderValue};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;

use super::{Client, ClientError, Method, Payload};

/// A server says something at least every 15 s.
const SILENCE: Duration = Duration::from_secs(45);
/// Longer than any event.
const EVENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Something that the stream said: where it has come to, or an event, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub id: Option<i64>,
    /// The event's document.
    pub data: Option<String>,
}

/// An open stream of events.
pub struct Events {
    server: String,
    body: Incoming,
    rest: Vec<u8>,
    told: Told,
    /// The stream ends with the connection.
    _line: SendRequest<Full<Bytes>>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Client {
    /// Opens a stream of events, after the one that was seen last.
    pub async fn events(&self, path: &str, last: Option<i64>) -> Result<Events, ClientError> {
        let mut request = self.request(Method::GET, path, Payload::default())?;
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(last) = last {
            headers.insert("last-event-id", HeaderValue::from(last));
        }
        let (body, line) = self.open(request).await?;
        let (rest, told) = Default::default();
        Ok(Events { server: self.server().to_owned(), body, rest, told, _line: line })
    }
}

impl Events {
    /// What comes next; nothing when the stream has ended.
    pub async fn next(&mut self) -> Result<Option<Told>, ClientError> {
        let broken = |why: String| ClientError::Unreachable { server: self.server.clone(), why };
        loop {
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line[..end]).into_owned();
                if line.is_empty() && self.told != Told::default() {
                    return Ok(Some(std::mem::take(&mut self.told)));
                }
                match line.split_once(": ") {
                    Some(("id", id)) => self.told.id = id.parse().ok(),
                    Some(("data", data)) => self.told.data = Some(data.to_owned()),
                    _ => {}
                }
            }
            match tokio::time::timeout(SILENCE, self.body.frame()).await {
                Err(_) => return Err(broken("it said nothing for 45 s".to_owned())),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(broken(error.to_string())),
                Ok(Some(Ok(frame))) => self.rest.extend(frame.data_ref().map_or(&[][..], |data| data)),
            }
            if self.rest.len() > EVENT_BYTES_MAX {
                return Err(broken("it said something without an end".to_owned()));
            }
        }
    }
}
