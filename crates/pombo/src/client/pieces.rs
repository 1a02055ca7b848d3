//! Bodies too large to be held: a list that is sent in, and a report that comes back, piece by piece.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::SendRequest;
use tokio::sync::mpsc::Receiver;

use super::{ANSWER_BYTES_MAX, ANSWER_TIMEOUT, Client, ClientError, Method, Payload, refusal};

/// Pieces of a body, from whoever reads them.
///
/// An error ends the request in the middle, so that the server does not take a part for the whole.
#[derive(Debug)]
pub struct Pieces {
    from: Receiver<std::io::Result<Bytes>>,
    taken: Arc<AtomicU64>,
}

impl Pieces {
    pub fn new(from: Receiver<std::io::Result<Bytes>>) -> Pieces {
        Pieces { from, taken: Arc::default() }
    }

    /// How many bytes the connection has taken so far.
    pub fn taken(&self) -> Arc<AtomicU64> {
        self.taken.clone()
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        self.from.poll_recv(context).map(|piece| {
            piece.map(|piece| {
                let piece = piece?;
                self.taken.fetch_add(piece.len() as u64, Ordering::Relaxed);
                Ok(Frame::data(piece))
            })
        })
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// A long answer, as it comes in.
pub struct Answer {
    server: String,
    body: Incoming,
    /// The answer ends with the connection.
    _line: SendRequest<Full<Bytes>>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Answer {
    /// What comes next; nothing at the end. An answer that breaks off is an error.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        let broken = |why: String| ClientError::Unreachable { server: self.server.clone(), why };
        loop {
            match tokio::time::timeout(ANSWER_TIMEOUT, self.body.frame()).await {
                Err(_) => return Err(broken("it said nothing for two minutes".to_owned())),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(broken(error.to_string())),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => return Ok(Some(data)),
                    Err(_) => continue,
                },
            }
        }
    }
}

impl Client {
    /// Posts a body of any length, on a connection of its own. It may take as long as pieces are taken.
    pub async fn upload(
        &self,
        path: &str,
        content_type: &'static str,
        body: Pieces,
    ) -> Result<serde_json::Value, ClientError> {
        let payload = Payload { content_type: Some(content_type), ..Payload::default() };
        let (head, _) = self.request(Method::POST, path, payload)?.into_parts();
        let taken = body.taken();
        let mut asking = pin!(async {
            let mut line = self.connect().await?;
            let request = http::Request::from_parts(head, body);
            let answer = line.send_request(request).await.map_err(|error| self.unreachable(error))?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| self.unreachable(error))?.to_bytes();
            match head.status.is_success() {
                true => self.parsed(&body),
                false => Err(ClientError::Refused(Box::new(refusal(head.status, &body, None)))),
            }
        });
        loop {
            let before = taken.load(Ordering::Relaxed);
            match tokio::time::timeout(ANSWER_TIMEOUT, &mut asking).await {
                Ok(answer) => return answer,
                Err(_) if taken.load(Ordering::Relaxed) != before => {}
                Err(_) => return Err(self.unreachable("it did nothing for two minutes")),
            }
        }
    }

    /// Opens an answer of any length.
    pub async fn download(&self, path: &str, accept: &'static str) -> Result<Answer, ClientError> {
        let mut request = self.request(Method::GET, path, Payload::default())?;
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(accept));
        let (body, line) = self.open(request).await?;
        Ok(Answer { server: self.server().to_owned(), body, _line: line })
    }

    /// Asks on a connection of its own, and hands the answer over as it begins.
    pub(super) async fn open(
        &self,
        request: http::Request<Full<Bytes>>,
    ) -> Result<(Incoming, SendRequest<Full<Bytes>>), ClientError> {
        let asking = async {
            let mut line = self.connect().await?;
            let answer = line.send_request(request).await.map_err(|error| self.unreachable(error))?;
            let (head, body) = answer.into_parts();
            if head.status.is_success() {
                return Ok((body, line));
            }
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| self.unreachable(error))?.to_bytes();
            Err(ClientError::Refused(Box::new(refusal(head.status, &body, None))))
        };
        match tokio::time::timeout(ANSWER_TIMEOUT, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(self.unreachable("it took longer than two minutes")),
        }
    }
}
