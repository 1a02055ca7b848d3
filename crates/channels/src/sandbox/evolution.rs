//! A pretend Evolution API: it checks what it is sent as the real one does, and keeps a log of its own.
//!
//! The last four digits of the recipient's number say what becomes of a message: see [`SCRIPTS`].

mod form;
mod receipt;
mod world;

use std::fmt;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use pombo_kernel::secret::Secret;
use pombo_kernel::time::Clock;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

pub use self::receipt::Hook;
use self::receipt::Postman;
use self::world::World;
pub use self::world::{Sent, State, Stats, Visit};
use super::REQUEST_BYTES_MAX;
use super::door::{self, HangUp};
use super::script::parameter;

/// What the end of a recipient's number makes the sandbox do.
pub const SCRIPTS: &[(&str, &str)] = &[
    ("…0404", "not on WhatsApp"),
    ("…0009", "on WhatsApp under its form without the ninth digit only"),
    ("…0400", "400: the form of the request is wrong"),
    ("…0408", "400: the WhatsApp socket is closed"),
    ("…0409", "sends it, and answers 400 since it could not save it"),
    ("…0201", "201 with a refusal of Meta's, and no key"),
    ("…0463", "201, and later a receipt that WhatsApp refused it"),
    ("…0500", "500: the WhatsApp socket is closed"),
    ("…0503", "503 twice, then sends it"),
    ("…0504", "sends it, and answers late"),
    ("…0522", "reads it and never answers"),
    ("…0598", "the first time reads it and hangs up; then sends it"),
    ("…0599", "the first time sends it and hangs up; then sends it again"),
    ("POST /outage?on=1", "503 for everything, until on=0"),
    ("POST /state?is=close", "the instance: open, connecting, close, logout, absent or unlicensed"),
    ("GET /stats, GET /sent", "what it was sent"),
];

#[derive(Clone, Debug)]
pub struct Options {
    /// The only instance that there is.
    pub instance: String,
    pub api_key: Secret,
    /// Where receipts go; `POST /webhook/set/{instance}` changes it.
    pub hook: Option<Hook>,
    /// The time before each receipt.
    pub receipt_gap: Duration,
    /// How late a slow answer comes.
    pub slow: Duration,
    /// Of a hundred messages that no script speaks of, so many meet a closed socket.
    pub fail_percent: u8,
    /// For dice, and for the ids of messages.
    pub seed: u64,
    /// Where it is given, the times of all requests to send are kept.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            instance: "sandbox".to_owned(),
            api_key: Secret::new("sandbox"),
            hook: None,
            receipt_gap: Duration::from_millis(250),
            slow: Duration::from_secs(2),
            fail_percent: 0,
            seed: 0,
            clock: None,
        }
    }
}

/// A running pretend Evolution. It stops when it is dropped.
#[derive(Debug)]
pub struct EvolutionSandbox {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl EvolutionSandbox {
    /// Listens on `address`, where port 0 means any free one.
    pub async fn start(address: SocketAddr, options: Options) -> io::Result<EvolutionSandbox> {
        let postman = Postman::new().map_err(io::Error::other)?;
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let world = Mutex::new(World::new(&options));
        let shared = Arc::new(Shared { options, world, arrived: Notify::new(), postman });
        let server = tokio::spawn(serve(listener, shared.clone()));
        Ok(EvolutionSandbox { address, shared, server })
    }

    /// The `base_url` for a channel.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn stats(&self) -> Stats {
        self.shared.world().stats()
    }

    /// Everything that went out, in order.
    pub fn sent(&self) -> Vec<Sent> {
        self.shared.world().sent.clone()
    }

    /// Every request to send, in the order in which they came, if there is a clock.
    pub fn visits(&self) -> Vec<Visit> {
        self.shared.world().visits.clone()
    }

    /// Waits until a request to send has come that is such, and is not answered yet.
    pub async fn under_way(&self, such: impl Fn(&Visit) -> bool) {
        loop {
            let news = self.shared.arrived.notified();
            if self.visits().iter().any(|visit| visit.ended.is_none() && such(visit)) {
                return;
            }
            news.await;
        }
    }

    pub fn set_state(&self, state: State) {
        self.shared.world().state = state;
    }

    pub fn set_outage(&self, on: bool) {
        self.shared.world().outage = on;
    }

    /// Hangs up on everybody and stops listening.
    pub async fn stop(mut self) {
        self.server.abort();
        // The error only says that it was aborted.
        let _ = (&mut self.server).await;
    }
}

impl Drop for EvolutionSandbox {
    fn drop(&mut self) {
        self.server.abort();
    }
}

struct Shared {
    options: Options,
    world: Mutex<World>,
    /// Told of every request to send.
    arrived: Notify,
    postman: Postman,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

impl Shared {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request to send, for as long as it is looked after: until it is answered, or whoever made it is gone.
struct Stay<'a> {
    shared: &'a Shared,
    nth: Option<usize>,
}

impl Stay<'_> {
    fn begin<'a>(shared: &'a Shared, body: &Value) -> Stay<'a> {
        let nth = shared.options.clock.as_ref().map(|clock| shared.world().visited(body, clock.now()));
        shared.arrived.notify_waiters();
        Stay { shared, nth }
    }
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        if let (Some(nth), Some(clock)) = (self.nth, &self.shared.options.clock) {
            self.shared.world().visits[nth].ended = Some(clock.now());
        }
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    door::welcome(listener, |stream| {
        let shared = shared.clone();
        shared.world().connections += 1;
        async move { door::host(stream, |request| answer(&shared, request)).await }
    })
    .await;
}

type Answer = Response<Full<Bytes>>;

async fn answer(shared: &Arc<Shared>, request: Request<Incoming>) -> Result<Answer, HangUp> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, REQUEST_BYTES_MAX).collect().await.map_err(|_| HangUp)?.to_bytes();
    if let Some(answer) = control(shared, &head) {
        return Ok(answer);
    }
    if shared.world().outage {
        return Ok(plain(StatusCode::SERVICE_UNAVAILABLE, "503 Service Temporarily Unavailable"));
    }
    // Evolution parses the body before it looks whose request it is.
    let body = match serde_json::from_slice(&body) {
        _ if body.is_empty() => Value::Null,
        Ok(body) => body,
        Err(error) => {
            let error = json!({"status": 400, "error": "Internal Server Error", "response": {"message": error.to_string()}});
            return Ok(as_json(StatusCode::BAD_REQUEST, &error));
        }
    };
    route(shared, &head, &body).await
}

/// The sandbox's own switches and counts.
fn control(shared: &Shared, head: &Parts) -> Option<Answer> {
    let query = head.uri.query().unwrap_or_default();
    let mut world = shared.world();
    let done = match (&head.method, head.uri.path()) {
        (&Method::GET, "/stats") => json!(world.stats()),
        (&Method::GET, "/sent") => json!(world.sent),
        (&Method::POST, "/outage") => {
            world.outage = parameter(query, "on").is_none_or(|on| on != "0");
            json!({"outage": world.outage})
        }
        (&Method::POST, "/state") => match parameter(query, "is").and_then(|word| State::read(&word)) {
            Some(state) => {
                world.state = state;
                json!({"state": state})
            }
            None => return Some(plain(StatusCode::BAD_REQUEST, "no such state")),
        },
        _ => return None,
    };
    Some(as_json(StatusCode::OK, &done))
}

async fn route(shared: &Arc<Shared>, head: &Parts, body: &Value) -> Result<Answer, HangUp> {
    let path = head.uri.path();
    if head.method == Method::GET && path == "/" {
        let about = json!({"status": 200, "message": "This is a pretend Evolution API.", "version": "2.3.7"});
        return Ok(as_json(StatusCode::OK, &about));
    }
    let mut segments = path.trim_start_matches('/').splitn(3, '/');
    let (group, verb, instance) = (segments.next(), segments.next(), segments.next());
    let known = [
        (Method::POST, "message", "sendText"),
        (Method::POST, "message", "sendMedia"),
        (Method::GET, "instance", "connectionState"),
        (Method::POST, "chat", "whatsappNumbers"),
        (Method::POST, "webhook", "set"),
        (Method::GET, "webhook", "find"),
    ];
    let here = (head.method.clone(), group.unwrap_or_default(), verb.unwrap_or_default());
    let Some(instance) = instance.filter(|_| known.contains(&here)) else {
        return Ok(refusal(StatusCode::NOT_FOUND, &json!([format!("Cannot {} {path}", head.method)])));
    };
    if let Some(refused) = guarded(shared, head, instance) {
        return Ok(refused);
    }
    match here.2 {
        "connectionState" => {
            Ok(as_json(StatusCode::OK, &shared.world().connection_state(&shared.options.instance)))
        }
        "whatsappNumbers" => Ok(as_json(StatusCode::OK, &World::whatsapp_numbers(body))),
        "set" => {
            let set = Hook::read(body);
            shared.world().hook = set;
            Ok(as_json(StatusCode::CREATED, &shared.world().hook_shown()))
        }
        "find" => Ok(as_json(StatusCode::OK, &shared.world().hook_shown())),
        verb => send(shared, verb, body).await,
    }
}

/// Evolution asks for the licence, then for the instance, then for the key: a wrong instance is 404 even with a
/// wrong key.
fn guarded(shared: &Shared, head: &Parts, instance: &str) -> Option<Answer> {
    if shared.world().state == State::Unlicensed {
        let body = json!({"error": "service not activated", "code": "LICENSE_REQUIRED",
            "register_url": "http://localhost/manager/license", "message": "Register this installation first."});
        return Some(as_json(StatusCode::SERVICE_UNAVAILABLE, &body));
    }
    let named = url::form_urlencoded::parse(format!("i={}", instance.replace('+', "%2B")).as_bytes())
        .next()
        .map(|(_, name)| name.into_owned())
        .unwrap_or_default();
    if named != shared.options.instance {
        let message = json!([format!("The \"{named}\" instance does not exist")]);
        return Some(refusal(StatusCode::NOT_FOUND, &message));
    }
    let key = head.headers.get("apikey").map(HeaderValue::as_bytes);
    if key != Some(shared.options.api_key.expose().as_bytes()) {
        return Some(refusal(StatusCode::UNAUTHORIZED, &json!("Unauthorized")));
    }
    None
}

async fn send(shared: &Arc<Shared>, verb: &str, body: &Value) -> Result<Answer, HangUp> {
    if let Some(message) = form::wrong(verb, body) {
        shared.world().malformed += 1;
        return Ok(refusal(StatusCode::BAD_REQUEST, &message));
    }
    let number = body["number"].as_str().unwrap_or_default();
    let attempt = shared.world().received(number);
    let _stay = Stay::begin(shared, body);
    match shared.world().state {
        State::Open | State::Unlicensed => {}
        State::Connecting | State::Close => return Ok(closed_socket()),
        State::Absent => {
            let message = format!(
                "Cannot read properties of undefined (reading '{}Message')",
                &verb[4..].to_lowercase()
            );
            return Ok(refusal(StatusCode::INTERNAL_SERVER_ERROR, &json!(message)));
        }
    }
    let jid = World::jid(number);
    let Some(jid) = jid.filter(|_| World::exists(number)) else {
        let message = json!([{"jid": format!("{number}@s.whatsapp.net"), "exists": false, "number": number}]);
        return Ok(refusal(StatusCode::BAD_REQUEST, &message));
    };
    // The real one sleeps here, while it pretends to type. Where it is not asked to, nothing comes between a request that
    // is seen to be under way and what is taken of it.
    if let Some(delay) = body["delay"].as_u64().filter(|delay| *delay > 0) {
        tokio::time::sleep(Duration::from_millis(delay)).await;
    }
    // Whatever is answered then, receipts follow what went out.
    let take = || {
        let sent = shared.world().take(number, &jid, attempt, body);
        tokio::spawn(receipt::follow(shared.clone(), sent.clone()));
        as_json(StatusCode::CREATED, &sent.answer())
    };
    let user = jid.split('@').next().unwrap_or_default();
    match user.get(user.len().saturating_sub(4)..).unwrap_or_default() {
        "0400" => Ok(refusal(StatusCode::BAD_REQUEST, &json!([["instance does not match the form"]]))),
        "0408" => Ok(refusal(StatusCode::BAD_REQUEST, &json!(["Error: Connection Closed"]))),
        "0409" => {
            take();
            Ok(refusal(
                StatusCode::BAD_REQUEST,
                &json!(["PrismaClientKnownRequestError: the row was not saved"]),
            ))
        }
        "0201" => {
            let meta = json!({"message": "(#131026) Message undeliverable", "type": "OAuthException", "code": 131_026,
                "error_data": {"messaging_product": "whatsapp", "details": "Message Undeliverable."}, "fbtrace_id": "Asandbox"});
            Ok(as_json(StatusCode::CREATED, &meta))
        }
        "0500" => Ok(closed_socket()),
        "0503" if attempt <= 2 => {
            Ok(plain(StatusCode::SERVICE_UNAVAILABLE, "503 Service Temporarily Unavailable"))
        }
        "0522" => pending().await,
        "0598" if attempt == 1 => Err(HangUp),
        "0599" if attempt == 1 => {
            take();
            Err(HangUp)
        }
        "0504" => {
            let answer = take();
            tokio::time::sleep(shared.options.slow).await;
            Ok(answer)
        }
        _ if shared.world().is_unlucky(shared.options.fail_percent) => Ok(closed_socket()),
        _ => Ok(take()),
    }
}

fn closed_socket() -> Answer {
    refusal(StatusCode::INTERNAL_SERVER_ERROR, &json!("Connection Closed"))
}

fn refusal(status: StatusCode, message: &Value) -> Answer {
    let error = status.canonical_reason().unwrap_or_default();
    as_json(status, &json!({"status": status.as_u16(), "error": error, "response": {"message": message}}))
}

fn as_json(status: StatusCode, body: &Value) -> Answer {
    let mut answer = plain(status, &body.to_string());
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

fn plain(status: StatusCode, text: &str) -> Answer {
    let mut answer = Response::new(Full::from(text.to_owned()));
    *answer.status_mut() = status;
    answer
}
