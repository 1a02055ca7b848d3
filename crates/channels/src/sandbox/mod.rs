//! Pretend providers, in this process, for the demonstration and for tests.
//!
//! A sandbox keeps its own count of what it was sent, so that it can contradict the engine.

mod door;
pub mod evolution;
pub mod resend;
mod script;
pub mod smtp;
mod tally;
pub mod tiss;

use std::convert::Infallible;
use std::fmt;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Either, Full, Limited};
use hyper::body::{Body, Frame, Incoming};
use pombo_kernel::dice::Dice;
use pombo_kernel::time::Time;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use self::door::HangUp;
use self::script::{Script, Taken};
use self::tally::Tally;
pub use self::tally::{Count, Stats};
use pombo_kernel::secret::Secret;
use pombo_kernel::signature::{SigningKey, verify};

const REQUEST_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Tells the time, where it is wanted in the log.
pub type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

#[derive(Clone, Default)]
pub struct Options {
    /// Requests must be signed with this, or are answered 401 and counted as bad.
    pub secret: Option<Secret>,
    /// Where to append one line for each request that is taken: id, how often it was received, milliseconds.
    pub log: Option<PathBuf>,
    /// Without one, the log's times are 0.
    pub clock: Option<Clock>,
    /// For scripts that roll dice.
    pub seed: u64,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("log", &self.log).field("seed", &self.seed).finish_non_exhaustive()
    }
}

/// A running sandbox. It stops when it is dropped.
///
/// The path of a request says what becomes of it: see [`SCRIPTS`].
#[derive(Debug)]
pub struct Sandbox {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

/// What a path makes the webhook sink do.
pub const SCRIPTS: &[(&str, &str)] = &[
    ("/ok", "takes it"),
    ("/status/503", "answers with that status"),
    ("/gone", "answers 410"),
    ("/rate?retry_after=2", "answers 429 with that wait"),
    ("/flaky?fail=2", "fails the first attempts of each message, then takes it"),
    ("/random?ok=70", "takes so many in a hundred"),
    ("/slow?ms=1000", "takes it, and answers late"),
    ("/reset?taken=0", "reads it and hangs up; with taken=1 it had taken it"),
    ("/hang?taken=0", "reads it and never answers; with taken=1 it had taken it"),
    ("/big?status=500", "answers with a body that never ends"),
    ("/stats", "GET: what it was sent, and `?id=` for one message"),
];

impl Sandbox {
    /// Listens on `address`, where port 0 means any free one.
    pub async fn start(address: SocketAddr, options: &Options) -> io::Result<Sandbox> {
        let key = match &options.secret {
            None => None,
            Some(secret) => Some(SigningKey::from_secret(secret).ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidInput, "the secret is not base64 of 24 to 64 bytes")
            })?),
        };
        let log = match &options.log {
            None => None,
            Some(path) => Some(std::fs::OpenOptions::new().create(true).append(true).open(path)?),
        };
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            key,
            clock: options.clock.clone(),
            tally: Mutex::new(Tally::new(log)),
            dice: Mutex::new(Dice::seeded(options.seed)),
        });
        let server = tokio::spawn(serve(listener, shared.clone()));
        Ok(Sandbox { address, shared, server })
    }

    /// The address of a script, such as `url("/flaky?fail=2")`.
    pub fn url(&self, script: &str) -> String {
        format!("http://{}{script}", self.address)
    }

    pub fn stats(&self) -> Stats {
        self.shared.tally().stats()
    }

    /// What is known of one message.
    pub fn count(&self, id: &str) -> Count {
        self.shared.tally().count(id)
    }

    /// How many requests came from whoever calls itself that, whatever became of them.
    pub fn received_from(&self, user_agent: &str) -> u64 {
        self.shared.tally().received_from(user_agent)
    }

    /// Hangs up on everybody and stops listening.
    pub async fn stop(mut self) {
        self.server.abort();
        // The error only says that it was aborted.
        let _ = (&mut self.server).await;
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.server.abort();
    }
}

struct Shared {
    key: Option<SigningKey>,
    clock: Option<Clock>,
    tally: Mutex<Tally>,
    dice: Mutex<Dice>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

impl Shared {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn roll(&self) -> u64 {
        self.dice.lock().unwrap_or_else(PoisonError::into_inner).below(100)
    }

    fn now(&self) -> Time {
        self.clock.as_ref().map_or(Time::default(), |clock| clock())
    }
}

/// A request that is not answered yet. Over when it is dropped, as it also is where the asker hangs up.
struct Open<'a>(&'a Shared);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.tally().answered();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    door::welcome(listener, |stream| {
        let shared = shared.clone();
        shared.tally().connected();
        async move {
            door::host(stream, |request| answer(&shared, request)).await;
            shared.tally().disconnected();
        }
    })
    .await;
}

type Answer = Response<Either<Full<Bytes>, Endless>>;

async fn answer(shared: &Shared, request: Request<Incoming>) -> Result<Answer, HangUp> {
    let (head, body) = request.into_parts();
    let query = head.uri.query().unwrap_or_default();
    if head.method == Method::GET && head.uri.path() == "/stats" {
        return Ok(stats(shared, query));
    }
    let body = Limited::new(body, REQUEST_BYTES_MAX).collect().await.map_err(|_| HangUp)?.to_bytes();
    let named = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let id = named("webhook-id");
    let signed = shared
        .key
        .as_ref()
        .is_none_or(|key| verify(key, id, named("webhook-timestamp"), &body, named("webhook-signature")));
    let attempt = {
        let mut tally = shared.tally();
        tally.sent_by(named(header::USER_AGENT.as_str()));
        tally.received(id)
    };
    let _open = Open(shared);
    if !signed {
        shared.tally().badly_signed();
        return Ok(plain(StatusCode::UNAUTHORIZED, "the signature is not ours"));
    }
    let Some(script) = Script::read(head.uri.path(), query) else {
        return Ok(plain(
            StatusCode::NOT_FOUND,
            "no such script; GET /stats or POST /ok, /status/503, /flaky?fail=2",
        ));
    };
    let take = || shared.tally().accepted(id, attempt, shared.now());
    match script {
        Script::Accept => {
            take();
            Ok(plain(StatusCode::OK, "ok"))
        }
        Script::Status(status) => {
            if status.is_success() {
                take();
            }
            Ok(plain(status, "as the script says"))
        }
        Script::Rate { retry_after } => {
            let mut answer = plain(StatusCode::TOO_MANY_REQUESTS, "too many requests");
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(retry_after));
            Ok(answer)
        }
        Script::Flaky { fail } if u64::from(attempt) <= fail => {
            Ok(plain(StatusCode::SERVICE_UNAVAILABLE, "not yet"))
        }
        Script::Random { ok } if shared.roll() >= ok => {
            Ok(plain(StatusCode::SERVICE_UNAVAILABLE, "out of luck"))
        }
        Script::Flaky { .. } | Script::Random { .. } => {
            take();
            Ok(plain(StatusCode::OK, "ok"))
        }
        Script::Slow { ms } => {
            take();
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok(plain(StatusCode::OK, "ok, at last"))
        }
        Script::Reset(taken) => {
            if taken == Taken::Yes {
                take();
            }
            Err(HangUp)
        }
        Script::Hang(taken) => {
            if taken == Taken::Yes {
                take();
            }
            pending().await
        }
        Script::Big(status) => {
            if status.is_success() {
                take();
            }
            let mut answer = Response::new(Either::Right(Endless));
            *answer.status_mut() = status;
            Ok(answer)
        }
    }
}

fn stats(shared: &Shared, query: &str) -> Answer {
    let tally = shared.tally();
    let text = match script::parameter(query, "id") {
        Some(id) => serde_json::to_string(&tally.count(&id)),
        None => serde_json::to_string(&tally.stats()),
    };
    let mut answer = plain(StatusCode::OK, &text.unwrap_or_default());
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

fn plain(status: StatusCode, text: &str) -> Answer {
    let mut answer = Response::new(Either::Left(Full::from(text.to_owned())));
    *answer.status_mut() = status;
    answer
}

/// A body without an end.
#[derive(Debug)]
struct Endless;

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        const CHUNK: &[u8] = &[b'x'; 16 * 1024];
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(CHUNK)))))
    }
}
