//! A pretend Resend: its interface, its limits and its errors, and a log of what it took.
//!
//! Two mails with the same content to the same people count as one mail sent twice, whatever keys they came under.

mod check;
mod events;

use std::collections::HashMap;
use std::fmt;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use pombo_kernel::dice::Dice;
use pombo_kernel::secret::Secret;
use pombo_kernel::time::Time;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use self::check::{Trouble, check};
use self::events::Events;
use super::door::{self, HangUp};
use super::script::parameter;
use super::tally::Tally;
use super::{Clock, Count, Stats};

const REQUEST_BYTES_MAX: usize = 40 * 1024 * 1024;
const BATCH_MAX: usize = 100;
const DAY_SECS: u64 = 24 * 3600;
const SLOW: Duration = Duration::from_secs(1);

/// What a recipient's name, up to a `+`, makes the pretend Resend do.
pub const SCRIPTS: &[(&str, &str)] = &[
    ("ok@, or any other name", "takes it, and reports it as delivered"),
    ("delivered@", "the same"),
    ("bounced@", "takes it, and reports a bounce later"),
    ("complained@", "takes it, and reports it as delivered and then as spam"),
    ("flaky@", "answers 500 twice for each mail, then takes it"),
    ("limited@", "answers 429 rate_limit_exceeded with retry-after: 2"),
    ("quota@", "answers 429 daily_quota_exceeded"),
    ("invalid@", "answers 422 validation_error"),
    ("slow@", "takes it, and answers after a second"),
    ("reset@", "takes it, and hangs up without an answer the first time"),
    ("hang@", "takes it, and never answers the first time"),
    ("from anybody at unverified.example", "answers 403: the domain is not verified"),
    ("POST /outage?on=1", "answers 503 to everything until POST /outage?on=0"),
    ("GET /stats", "what it was sent, counted by itself"),
];

#[derive(Clone)]
pub struct Options {
    /// The key that callers must show; without one, any will do.
    pub api_key: Option<Secret>,
    /// The key may only send.
    pub sending_only: bool,
    /// Requests that are answered in one second; 0 for as many as come.
    pub rate: u64,
    /// Recipients that may be written to in all.
    pub daily_quota: Option<u64>,
    /// Of a hundred sends, how many fail with 500.
    pub fail_percent: u64,
    /// Where reports go, and the secret that signs them.
    pub reports: Option<(String, Secret)>,
    /// Where to append one line for each mail that is taken: a digest, how often it was received, milliseconds.
    pub log: Option<PathBuf>,
    /// Without one it is always 1970, and receivers find reports too old.
    pub clock: Option<Clock>,
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            api_key: None,
            sending_only: false,
            rate: 10,
            daily_quota: None,
            fail_percent: 0,
            reports: None,
            log: None,
            clock: None,
            seed: 0,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("rate", &self.rate).finish_non_exhaustive()
    }
}

/// A running pretend Resend. It stops when it is dropped.
#[derive(Debug)]
pub struct ResendSandbox {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl ResendSandbox {
    /// Listens on `address`, where port 0 means any free one.
    pub async fn start(address: SocketAddr, options: &Options) -> io::Result<ResendSandbox> {
        let log = match &options.log {
            None => None,
            Some(path) => Some(std::fs::OpenOptions::new().create(true).append(true).open(path)?),
        };
        let (events, poster) = match &options.reports {
            None => (None, None),
            Some((url, secret)) => {
                let (events, poster) = Events::start(url, secret, options.clock.clone())?;
                (Some(events), Some(poster))
            }
        };
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            options: Options { reports: None, ..options.clone() },
            events,
            second: AtomicU64::new(0),
            outage: AtomicBool::new(false),
            state: Mutex::new(State {
                tally: Tally::new(log),
                dice: Dice::seeded(options.seed),
                used: 0,
                written_to: 0,
                answers: HashMap::new(),
                mails: Vec::new(),
                requests: HashMap::new(),
            }),
        });
        let server = tokio::spawn(serve(listener, shared.clone(), poster));
        Ok(ResendSandbox { address, shared, server })
    }

    /// Its base address, as in `base_url`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn stats(&self) -> Stats {
        self.shared.state().tally.stats()
    }

    /// How many requests came for a path, whatever became of them.
    pub fn requests(&self, path: &str) -> u64 {
        self.shared.state().requests.get(path).copied().unwrap_or_default()
    }

    /// Every mail that was taken, in order, repeats included, each as it was posted.
    pub fn mails(&self) -> Vec<Value> {
        self.shared.state().mails.iter().map(|taken| taken.mail.clone()).collect()
    }

    /// What is known of the mails to one first recipient.
    pub fn count(&self, to: &str) -> Count {
        let state = self.shared.state();
        let mut count = Count::default();
        let mut seen = Vec::new();
        for taken in state.mails.iter().filter(|taken| first_to(&taken.mail) == to) {
            count.accepted += 1;
            if !seen.contains(&&taken.digest) {
                seen.push(&taken.digest);
                count.received += state.tally.count(&taken.digest).received;
            }
        }
        count
    }

    /// Starts or ends an outage.
    pub fn outage(&self, on: bool) {
        self.shared.outage.store(on, Ordering::Relaxed);
    }

    /// Hangs up on everybody and stops listening.
    pub async fn stop(mut self) {
        self.server.abort();
        // The error only says that it was aborted.
        let _ = (&mut self.server).await;
    }
}

impl Drop for ResendSandbox {
    fn drop(&mut self) {
        self.server.abort();
    }
}

struct Shared {
    options: Options,
    events: Option<Events>,
    /// Seconds since the start. It tells age without a clock.
    second: AtomicU64,
    outage: AtomicBool,
    state: Mutex<State>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

struct State {
    tally: Tally,
    dice: Dice,
    /// Requests in this second.
    used: u64,
    written_to: u64,
    /// By idempotency key.
    answers: HashMap<String, Remembered>,
    mails: Vec<Taken>,
    requests: HashMap<String, u64>,
}

struct Remembered {
    payload: [u8; 32],
    second: u64,
    /// None while it is being worked on.
    answer: Option<Value>,
}

struct Taken {
    id: String,
    digest: String,
    mail: Value,
    at: Time,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        self.options.clock.as_ref().map_or(Time::default(), |clock| clock())
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>, poster: Option<events::Poster>) {
    let guests = door::welcome(listener, |stream| {
        let shared = shared.clone();
        shared.state().tally.connected();
        async move { door::host(stream, |request| answer(&shared, request)).await }
    });
    let reports = async {
        if let Some(poster) = poster {
            poster.await;
        }
    };
    tokio::join!(guests, reports, count_seconds(&shared));
}

/// Begins a new second of the rate limit each second, and forgets keys after a day.
async fn count_seconds(shared: &Shared) {
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    loop {
        seconds.tick().await;
        let second = shared.second.fetch_add(1, Ordering::Relaxed);
        let mut state = shared.state();
        state.used = 0;
        state.answers.retain(|_, known| second.saturating_sub(known.second) < DAY_SECS);
    }
}

async fn answer(shared: &Shared, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, HangUp> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, REQUEST_BYTES_MAX).collect().await.map_err(|_| HangUp)?.to_bytes();
    let query = head.uri.query().unwrap_or_default();
    match (&head.method, head.uri.path()) {
        (&Method::GET, "/stats") => {
            let stats = serde_json::to_value(shared.state().tally.stats()).unwrap_or_default();
            return Ok(response(StatusCode::OK, &stats, HeaderMap::new()));
        }
        (&Method::POST, "/outage") => {
            let on = parameter(query, "on").is_none_or(|word| word != "0");
            shared.outage.store(on, Ordering::Relaxed);
            return Ok(response(StatusCode::OK, &json!({"outage": on}), HeaderMap::new()));
        }
        _ => {}
    }
    let (limits, within) = limits(shared, head.uri.path());
    let result = match within {
        Ok(()) => act(shared, &head, &body).await?,
        Err(trouble) => Err(trouble),
    };
    Ok(match result {
        Ok(said) => response(StatusCode::OK, &said, limits),
        Err(trouble) => {
            let mut headers = limits;
            if let Some(seconds) = trouble.retry_after {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            }
            let status = StatusCode::from_u16(trouble.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let said =
                json!({"statusCode": trouble.status, "message": trouble.message, "name": trouble.name});
            response(status, &said, headers)
        }
    })
}

fn response(status: StatusCode, said: &Value, headers: HeaderMap) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(said.to_string()));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    let json = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// Counts a request against this second, and says how much is left of it.
fn limits(shared: &Shared, path: &str) -> (HeaderMap, Result<(), Trouble>) {
    let mut state = shared.state();
    *state.requests.entry(path.to_owned()).or_default() += 1;
    state.used += 1;
    let (rate, used) = (shared.options.rate, state.used);
    let mut headers = HeaderMap::new();
    if rate == 0 {
        return (headers, Ok(()));
    }
    let fields = [("limit", rate), ("remaining", rate.saturating_sub(used)), ("reset", 1)];
    for (name, value) in fields {
        let name = HeaderName::try_from(format!("ratelimit-{name}"));
        headers.extend(name.ok().map(|name| (name, HeaderValue::from(value))));
    }
    let within = if used > rate { Err(Trouble::rate_limited(1)) } else { Ok(()) };
    (headers, within)
}

/// What Resend would do; the outer error is a hang-up.
async fn act(shared: &Shared, head: &Parts, body: &[u8]) -> Result<Result<Value, Trouble>, HangUp> {
    if shared.outage.load(Ordering::Relaxed) {
        return Ok(Err(Trouble::new(
            503,
            "service_unavailable",
            "The service is down, as it was told to be.",
        )));
    }
    if let Err(trouble) = authorize(shared, head) {
        return Ok(Err(trouble));
    }
    let (batch, path) = (head.uri.path() == "/emails/batch", head.uri.path());
    match (&head.method, path) {
        (&Method::POST, "/emails" | "/emails/batch") => {}
        (&Method::GET, "/domains") => return Ok(Ok(domains())),
        (&Method::GET, _) => {
            let found = path.strip_prefix("/emails/").and_then(|id| retrieve(shared, id));
            return Ok(
                found.ok_or_else(|| Trouble::new(404, "not_found", "The requested mail was not found."))
            );
        }
        (_, "/emails" | "/emails/batch" | "/domains") => {
            return Ok(Err(Trouble::new(405, "method_not_allowed", "This endpoint has no such method.")));
        }
        _ => return Ok(Err(Trouble::new(404, "not_found", "The requested endpoint does not exist."))),
    }
    let key = head.headers.get("idempotency-key").map(|key| key.to_str().unwrap_or_default().to_owned());
    let payload: [u8; 32] = Sha256::digest(body).into();
    if let Some(key) = &key {
        match begin(shared, key, payload) {
            Ok(None) => {}
            Ok(Some(known)) => return Ok(Ok(known)),
            Err(trouble) => return Ok(Err(trouble)),
        }
    }
    let strict = head.headers.get("x-batch-validation").is_none_or(|mode| mode != "permissive");
    let (result, ending) = post(shared, batch, strict, body);
    if let Some(key) = key {
        let mut state = shared.state();
        match &result {
            Ok(said) => state.answers.entry(key).and_modify(|known| known.answer = Some(said.clone())),
            Err(_) => {
                state.answers.remove(&key);
                return Ok(result);
            }
        };
    }
    match ending {
        Ending::Answer => Ok(result),
        Ending::Late => {
            tokio::time::sleep(SLOW).await;
            Ok(result)
        }
        Ending::HangUp => Err(HangUp),
        Ending::Never => pending().await,
    }
}

fn authorize(shared: &Shared, head: &Parts) -> Result<(), Trouble> {
    let given = head.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(given) = given.and_then(|value| value.strip_prefix("Bearer ")).filter(|key| !key.is_empty())
    else {
        return Err(Trouble::new(401, "missing_api_key", "Missing API Key"));
    };
    if shared.options.api_key.as_ref().is_some_and(|key| key.expose() != given) {
        return Err(Trouble::new(400, "validation_error", "API key is invalid"));
    }
    if shared.options.sending_only && head.method != Method::POST {
        return Err(Trouble::new(
            401,
            "restricted_api_key",
            "This API key is restricted to only send emails",
        ));
    }
    Ok(())
}

/// Notes that a key is being worked on; or gives what it came to before.
fn begin(shared: &Shared, key: &str, payload: [u8; 32]) -> Result<Option<Value>, Trouble> {
    if !(1..=256).contains(&key.len()) {
        let message = "The key must be between 1-256 chars.";
        return Err(Trouble::new(400, "invalid_idempotency_key", message));
    }
    let mut state = shared.state();
    match state.answers.get(key) {
        Some(known) if known.payload != payload => {
            let message = "This key was used before with another payload.";
            Err(Trouble::new(409, "invalid_idempotent_request", message))
        }
        Some(Remembered { answer: Some(answer), .. }) => Ok(Some(answer.clone())),
        Some(_) => {
            let message = "Another request with this key is in progress.";
            Err(Trouble::new(409, "concurrent_idempotent_requests", message))
        }
        None => {
            let second = shared.second.load(Ordering::Relaxed);
            state.answers.insert(key.to_owned(), Remembered { payload, second, answer: None });
            Ok(None)
        }
    }
}

/// How a request that was worked on ends for the caller.
enum Ending {
    Answer,
    Late,
    HangUp,
    Never,
}

fn post(shared: &Shared, batch: bool, strict: bool, body: &[u8]) -> (Result<Value, Trouble>, Ending) {
    let refuse = |trouble| (Err(trouble), Ending::Answer);
    let mails: Vec<Value> = match (serde_json::from_slice(body), batch) {
        (Ok(Value::Array(mails)), true) if (1..=BATCH_MAX).contains(&mails.len()) => mails,
        (Ok(mail @ Value::Object(_)), false) => vec![mail],
        (Ok(_), true) => return refuse(Trouble::invalid("The batch must be a list of 1 to 100 mails.")),
        _ => return refuse(Trouble::invalid("The body is not the JSON of a mail.")),
    };
    let mut state = shared.state();
    let digests: Vec<String> = mails.iter().map(digest).collect();
    let attempts: Vec<u32> = digests.iter().map(|digest| state.tally.received(digest)).collect();
    if state.dice.below(100) < shared.options.fail_percent {
        return refuse(Trouble::server());
    }
    let mut ending = Ending::Answer;
    for (mail, attempt) in mails.iter().zip(&attempts) {
        match script(first_to(mail)) {
            "flaky" if *attempt <= 2 => return refuse(Trouble::server()),
            "limited" => return refuse(Trouble::rate_limited(2)),
            "quota" => return refuse(Trouble::daily_quota()),
            "slow" => ending = Ending::Late,
            "reset" if *attempt == 1 => ending = Ending::HangUp,
            "hang" if *attempt == 1 => ending = Ending::Never,
            _ => {}
        }
    }
    let verdicts: Vec<_> = mails.iter().map(check).collect();
    let whole = !batch || strict;
    if let Some(trouble) = verdicts.iter().flatten().find(|trouble| whole || trouble.status != 422) {
        return refuse(trouble.clone());
    }
    let good = || mails.iter().zip(&verdicts).filter(|(_, verdict)| verdict.is_none()).map(|(mail, _)| mail);
    let recipients: u64 = good().map(recipients).sum();
    if shared.options.daily_quota.is_some_and(|quota| state.written_to + recipients > quota) {
        return refuse(Trouble::daily_quota());
    }
    state.written_to += recipients;
    let (mut data, mut errors) = (Vec::new(), Vec::new());
    for (index, mail) in mails.into_iter().enumerate() {
        if let Some(trouble) = &verdicts[index] {
            errors.push(json!({"index": index, "message": trouble.message}));
            continue;
        }
        let id = uuid(&mut state.dice);
        state.tally.accepted(&digests[index], attempts[index], shared.now());
        if let Some(events) = &shared.events {
            events.taken(&id, &mail, script(first_to(&mail)));
        }
        data.push(json!({"id": id}));
        state.mails.push(Taken { id, digest: digests[index].clone(), mail, at: shared.now() });
    }
    let said = match (batch, strict) {
        (false, _) => data.remove(0),
        (true, true) => json!({"data": data}),
        (true, false) => json!({"data": data, "errors": errors}),
    };
    (Ok(said), ending)
}

fn domains() -> Value {
    json!({"object": "list", "has_more": false, "data": [{
        "id": "d91cd9bd-1176-453e-8fc1-35364d380206",
        "name": "clinic.example",
        "status": "verified",
        "created_at": "2026-01-01T00:00:00.000Z",
        "region": "sa-east-1",
    }]})
}

fn retrieve(shared: &Shared, id: &str) -> Option<Value> {
    let state = shared.state();
    let taken = state.mails.iter().find(|taken| taken.id == id)?;
    let mut said = taken.mail.clone();
    let event = match script(first_to(&taken.mail)) {
        event @ ("bounced" | "complained") => event,
        _ => "delivered",
    };
    let more = json!({"object": "email", "id": id, "created_at": taken.at, "last_event": event});
    said.as_object_mut()?.extend(more.as_object()?.clone());
    Some(said)
}

/// The first address that a mail is for, without a name around it.
fn first_to(mail: &Value) -> &str {
    let to = &mail["to"];
    let text = to.as_str().or_else(|| to.get(0)?.as_str()).unwrap_or_default();
    text.rsplit_once('<').map_or(text, |(_, rest)| rest.trim_end_matches('>'))
}

fn script(address: &str) -> &str {
    let local = address.split('@').next().unwrap_or_default();
    local.split('+').next().unwrap_or_default()
}

fn recipients(mail: &Value) -> u64 {
    let count = |name: &str| match &mail[name] {
        Value::String(_) => 1,
        Value::Array(list) => u64::try_from(list.len()).unwrap_or_default(),
        _ => 0,
    };
    ["to", "cc", "bcc"].map(count).iter().sum()
}

fn digest(mail: &Value) -> String {
    let digest = Sha256::digest(mail.to_string().as_bytes());
    digest.iter().take(8).fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn uuid(dice: &mut Dice) -> String {
    let (a, b) = (dice.next_u64(), dice.next_u64());
    let (first, second, third) = (a >> 32, (a >> 16) & 0xffff, a & 0x0fff);
    let (fourth, fifth) = ((b >> 48) & 0x3fff | 0x8000, b & 0xffff_ffff_ffff);
    format!("{first:08x}-{second:04x}-4{third:03x}-{fourth:04x}-{fifth:012x}")
}
