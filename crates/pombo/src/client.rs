//! A small client for the HTTP API, for the command line and for whoever embeds it.
//!
//! It keeps one connection, follows no redirect and never repeats a request that may have arrived.

mod events;
mod pieces;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Body;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use pombo_kernel::time::{Span, Time};
use rustls::pki_types::ServerName;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Url;

pub use self::events::{Events, Told};
pub use self::pieces::{Answer, Pieces};

/// Where a server listens unless it was told otherwise.
pub const DEFAULT_SERVER: &str = "http://127.0.0.1:7662";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Why a request was not done: one variant for each way to react.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The server's address cannot be used.
    #[error("`{server}` is not the address of a server: {why}")]
    BadAddress { server: String, why: String },
    /// No answer came. If the request was a POST, whether it was carried out is not known.
    #[error("no answer from {server}: {why}")]
    Unreachable { server: String, why: String },
    /// The server said no, and why.
    #[error("{} ({})", .0.title, .0.code)]
    Refused(Box<Refusal>),
    /// The answer is not one of this API.
    #[error("{server} answered what is not understood: {why}")]
    Garbled { server: String, why: String },
}

/// A problem document, as the server wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Refusal {
    pub title: String,
    pub status: u16,
    pub code: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    pub errors: Vec<FieldProblem>,
    /// The message that it is about.
    pub message_id: Option<String>,
    /// How long to wait before another try is worth it.
    #[serde(skip)]
    pub retry_after: Option<Span>,
    /// Whatever else it says, by name.
    #[serde(flatten)]
    pub rest: serde_json::Map<String, serde_json::Value>,
}

/// One field that cannot be accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct FieldProblem {
    pub field: String,
    pub reason: String,
    pub hint: String,
}

/// A message as the API shows it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Message {
    pub id: String,
    pub state: String,
    pub channel: String,
    pub to: String,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub lane: Option<String>,
    pub priority: Option<u8>,
    pub reference: Option<String>,
    pub ordering_key: Option<String>,
    pub failure_reason: Option<String>,
    pub attempt_count: u16,
    pub max_attempts: Option<u16>,
    pub next_attempt_at: Option<Time>,
    pub prediction: Option<Prediction>,
    pub last_error: Option<LastError>,
    pub provider_id: Option<String>,
    /// What the provider reported later: delivered, read, bounced, …
    pub delivery: Option<String>,
    pub delivery_at: Option<Time>,
    pub delivery_detail: Option<String>,
    pub created_at: Option<Time>,
    pub updated_at: Option<Time>,
    pub finished_at: Option<Time>,
    pub attempts: Vec<Attempt>,
}

impl Message {
    /// Nothing more will happen to it by itself.
    pub fn is_finished(&self) -> bool {
        !matches!(self.state.as_str(), "pending" | "sending")
    }
}

/// When a message that waits after a failure will likely have been sent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Prediction {
    pub likely_by: Option<Time>,
    pub chance: Option<f64>,
    pub samples: u64,
    /// The same in a sentence.
    pub reason: String,
}

/// What last went wrong with a message.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LastError {
    pub verdict: String,
    pub category: String,
    pub code: Option<String>,
    pub text: Option<String>,
}

/// One attempt as the API shows it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Attempt {
    /// 0 since the message was accepted, one more each time that somebody had it sent again.
    pub round: u16,
    pub number: u16,
    pub started_at: Option<Time>,
    pub finished_at: Option<Time>,
    pub outcome: String,
    pub verdict: Option<String>,
    pub category: Option<String>,
    pub code: Option<String>,
    pub error: Option<String>,
    pub next_delay_ms: Option<u64>,
    pub explanation: Option<String>,
}

/// What a request carries besides its address.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    pub body: Bytes,
    pub content_type: Option<&'static str>,
    pub idempotency_key: Option<String>,
}

impl Payload {
    pub fn json(value: &serde_json::Value) -> Payload {
        Payload {
            body: Bytes::from(value.to_string()),
            content_type: Some("application/json"),
            idempotency_key: None,
        }
    }

    pub fn lines(body: Vec<u8>) -> Payload {
        Payload { body: Bytes::from(body), content_type: Some("application/x-ndjson"), idempotency_key: None }
    }
}

/// A server, and the key that opens it.
pub struct Client {
    base: Url,
    key: Option<HeaderValue>,
    tls: Option<TlsConnector>,
    idle: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

impl Client {
    /// A client for the server at `server`, such as `http://127.0.0.1:7662`. Nothing is sent yet.
    pub fn new(server: &str, key: Option<&str>) -> Result<Client, ClientError> {
        let bad = |why: &str| ClientError::BadAddress { server: server.to_owned(), why: why.to_owned() };
        let base = Url::parse(server).map_err(|error| bad(&error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(bad("it must start with http:// or https://"));
        }
        let key = key.map(|key| {
            let mut value = HeaderValue::from_str(&format!("Bearer {key}"))
                .map_err(|_| bad("the key holds characters that no key has"))?;
            value.set_sensitive(true);
            Ok(value)
        });
        let tls = (base.scheme() == "https").then(connector).transpose().map_err(|error| bad(&error))?;
        Ok(Client { base, key: key.transpose()?, tls, idle: Mutex::default() })
    }

    /// The server's address, as it was given.
    pub fn server(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    pub async fn get(&self, path: &str) -> Result<serde_json::Value, ClientError> {
        let answer = self.call(Method::GET, path, Payload::default()).await?;
        self.parsed(&answer)
    }

    pub async fn post(&self, path: &str, payload: Payload) -> Result<serde_json::Value, ClientError> {
        let answer = self.call(Method::POST, path, payload).await?;
        self.parsed(&answer)
    }

    /// The same, and whether an earlier request with the same idempotency key had this answer before.
    pub(crate) async fn post_once(
        &self,
        path: &str,
        payload: Payload,
    ) -> Result<(serde_json::Value, bool), ClientError> {
        let (headers, body) = self.answer(Method::POST, path, payload).await?;
        let replayed = headers.get("idempotency-replayed").is_some_and(|value| value == "true");
        Ok((self.parsed(&body)?, replayed))
    }

    pub async fn put(&self, path: &str, payload: Payload) -> Result<serde_json::Value, ClientError> {
        let answer = self.call(Method::PUT, path, payload).await?;
        self.parsed(&answer)
    }

    /// The body of a successful answer, as it came.
    pub async fn call(&self, method: Method, path: &str, payload: Payload) -> Result<Bytes, ClientError> {
        self.answer(method, path, payload).await.map(|(_, body)| body)
    }

    async fn answer(
        &self,
        method: Method,
        path: &str,
        payload: Payload,
    ) -> Result<(HeaderMap, Bytes), ClientError> {
        let request = self.request(method, path, payload)?;
        let asking = self.ask(request);
        match tokio::time::timeout(ANSWER_TIMEOUT, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(self.unreachable("it took longer than two minutes")),
        }
    }

    /// Reads a document that the server sent as one of its types.
    pub fn read<T: serde::de::DeserializeOwned>(&self, value: serde_json::Value) -> Result<T, ClientError> {
        serde_json::from_value(value).map_err(|error| self.garbled(error))
    }

    /// Reads the body of an answer as one of the server's types.
    pub fn parse<T: serde::de::DeserializeOwned>(&self, body: &[u8]) -> Result<T, ClientError> {
        serde_json::from_slice(body).map_err(|error| self.garbled(error))
    }

    fn parsed(&self, body: &[u8]) -> Result<serde_json::Value, ClientError> {
        if body.is_empty() {
            return Ok(serde_json::Value::Null);
        }
        serde_json::from_slice(body).map_err(|error| self.garbled(error))
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        payload: Payload,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let target = format!("{}{path}", self.base.path().trim_end_matches('/'));
        let host = &self.base[url::Position::BeforeHost..url::Position::AfterPort];
        let mut request = Request::builder()
            .method(method)
            .uri(target)
            .header(header::HOST, host)
            .header(header::USER_AGENT, concat!("pombo/", env!("CARGO_PKG_VERSION")))
            .header(header::ACCEPT, "application/json");
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, key.clone());
        }
        if let Some(kind) = payload.content_type {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        if let Some(key) = &payload.idempotency_key {
            request = request.header("idempotency-key", key);
        }
        request.body(Full::new(payload.body)).map_err(|error| self.garbled(error))
    }

    async fn ask(&self, mut request: Request<Full<Bytes>>) -> Result<(HeaderMap, Bytes), ClientError> {
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut line = kept;
        let (answer, line) = loop {
            let fresh = line.is_none();
            let mut open = match line.take() {
                Some(line) => line,
                None => self.connect().await?,
            };
            if open.ready().await.is_err() && !fresh {
                continue;
            }
            match open.try_send_request(request).await {
                Ok(answer) => break (answer, open),
                // A kept connection that the server has closed: nothing was sent, so it may be sent anew.
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) if !fresh => request = unsent,
                    _ => return Err(self.unreachable(failed.into_error())),
                },
            }
        };
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| self.unreachable(error))?.to_bytes();
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
        if head.status.is_success() {
            return Ok((head.headers, body));
        }
        let seconds =
            head.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        Err(ClientError::Refused(Box::new(refusal(head.status, &body, seconds))))
    }

    async fn connect<B: Sent>(&self) -> Result<SendRequest<B>, ClientError> {
        match tokio::time::timeout(CONNECT_TIMEOUT, self.dial()).await {
            Ok(Ok(line)) => Ok(line),
            Ok(Err(why)) => Err(self.unreachable(why)),
            Err(_) => Err(self.unreachable("no connection within 5 s")),
        }
    }

    async fn dial<B: Sent>(&self) -> Result<SendRequest<B>, String> {
        let host = self.base.host_str().unwrap_or_default();
        let port = self.base.port_or_known_default().unwrap_or(80);
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((bare, port)).await.map_err(|error| error.to_string())?;
        let _ = stream.set_nodelay(true);
        match &self.tls {
            None => start(TokioIo::new(stream)).await,
            Some(tls) => {
                let name = ServerName::try_from(bare.to_owned()).map_err(|error| error.to_string())?;
                let stream = tls.connect(name, stream).await.map_err(|error| error.to_string())?;
                start(TokioIo::new(stream)).await
            }
        }
    }

    fn unreachable(&self, why: impl fmt::Display) -> ClientError {
        ClientError::Unreachable { server: self.server().to_owned(), why: why.to_string() }
    }

    fn garbled(&self, why: impl fmt::Display) -> ClientError {
        ClientError::Garbled { server: self.server().to_owned(), why: why.to_string() }
    }
}

/// What a request can carry.
trait Sent: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static {}

impl<B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static> Sent
    for B
{
}

async fn start<T, B: Sent>(stream: T) -> Result<SendRequest<B>, String>
where
    T: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (line, connection) = handshake(stream).await.map_err(|error| error.to_string())?;
    // Ends with the connection; whoever waits for an answer is told what went wrong.
    tokio::spawn(async move { drop(connection.await) });
    Ok(line)
}

fn connector() -> Result<TlsConnector, String> {
    let roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The problem document of a refusal; where there is none, what the status alone says.
fn refusal(status: StatusCode, body: &[u8], retry_after_secs: Option<u64>) -> Refusal {
    let mut refusal: Refusal = serde_json::from_slice(body).unwrap_or_default();
    refusal.status = status.as_u16();
    refusal.retry_after = retry_after_secs.map(Span::from_secs);
    if refusal.code.is_empty() {
        refusal.code = "BAD_ANSWER".to_owned();
        refusal.title = format!("the server answered {status}, and not as a Pombo does");
        refusal.hint = Some("is it a Pombo, or does something stand in between?".to_owned());
    }
    refusal
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    /// Answers each connection's requests with these bytes, one after another, then hangs up.
    async fn server(answers: Vec<Vec<&'static str>>) -> (SocketAddr, tokio::task::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            let mut seen = Vec::new();
            for answers in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                for answer in answers {
                    let mut buffer = vec![0; 65_536];
                    let length = stream.read(&mut buffer).await.unwrap();
                    seen.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            }
            seen
        });
        (address, task)
    }

    const FINE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{\"id\":\"a\"} ";

    #[tokio::test]
    async fn a_kept_connection_that_was_closed_is_opened_anew() {
        let (address, seen) = server(vec![vec![FINE, FINE], vec![FINE]]).await;
        let client = Client::new(&format!("http://{address}/under/"), Some("k")).unwrap();
        for _ in 0..3 {
            assert_eq!(client.get("/v1/messages").await.unwrap()["id"], "a");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let seen = seen.await.unwrap();
        assert_eq!(seen.len(), 3);
        assert!(seen[0].starts_with("GET /under/v1/messages HTTP/1.1\r\n"), "{}", seen[0]);
        assert!(seen[0].contains("authorization: Bearer k\r\n"), "{}", seen[0]);
    }

    #[tokio::test]
    async fn a_problem_document_becomes_a_typed_error() {
        let body =
            r#"{"title":"Too much","code":"OVERLOADED","detail":"d","hint":"h","errors":[{"field":"to"}]}"#;
        let answer = format!(
            "HTTP/1.1 429 Too Many Requests\r\nretry-after: 2\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let (address, _seen) =
            server(vec![vec![answer.leak(), "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n"]]).await;
        let client = Client::new(&format!("http://{address}"), None).unwrap();
        let refused = |error| match error {
            ClientError::Refused(refusal) => *refusal,
            other => panic!("{other:?}"),
        };
        let first = refused(client.post("/v1/messages", Payload::default()).await.unwrap_err());
        assert_eq!((first.status, first.code.as_str()), (429, "OVERLOADED"));
        assert_eq!(first.retry_after, Some(Span::from_secs(2)));
        assert_eq!(first.errors[0].field, "to");
        let second = refused(client.get("/").await.unwrap_err());
        assert_eq!(second.code, "BAD_ANSWER");
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_unreachable() {
        let client = Client::new("http://127.0.0.1:1", None).unwrap();
        assert!(matches!(client.get("/").await, Err(ClientError::Unreachable { .. })));
        assert!(matches!(Client::new("ftp://a", None), Err(ClientError::BadAddress { .. })));
        assert!(matches!(Client::new("nonsense", None), Err(ClientError::BadAddress { .. })));
    }
}
