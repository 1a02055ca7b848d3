//! The HTTP API, from outside: a few requests, one after the other, each with a line that says what is asked, whose key
//! comes along and what kind of body follows.
//!
//! `POST /v1/messages admin application/json`, or `#17 …` for the route of that number. `$id` stands for the last id that
//! was given out.

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::{Method, Request, StatusCode};
use pombo_kernel::dice::Dice;
use pombo_web::{ROUTES, Role};
use serde_json::Value;
use std::time::Duration;
use tokio::runtime::Runtime;

use super::house::{House, Reply};
use super::{parts, text};
use crate::Sign;
use crate::change::pieces;

pub(super) const WORDS: &[&str] = &[
    "\n===\n",
    "POST /v1/messages producer application/json\n",
    "GET /v1/messages?limit=2&cursor= viewer -\n",
    "GET /v1/messages/$id operator -\n",
    "#5 admin application/json\n",
    "#21 operator text/csv\n",
    "#40 operator application/x-ndjson\n",
    "$id",
    "?cursor=",
    "&limit=",
    "?from=2026-01-01T00:00:00Z&to=2027-01-01T00:00:00Z",
    "?reveal=true",
    "\"channel\":\"crm\"",
    "\"to\":\"https://crm.example/hook\"",
    "\"content\":{\"body\":{}}",
    "\"idempotency_key\":\"k\"",
    "\"name\":\"c\"",
    "\"template\":\"t\"",
    "\"role\":\"viewer\"",
    "\"filter\":{}",
    "\"confirm\":true",
    "\"dry_run\":true",
    "\"ids\":[\"$id\"]",
    "{}",
    "[]",
    "null",
    "\\u0000",
    "%00",
    "%ff",
];

/// The most requests of one input.
const REQUESTS_MAX: usize = 12;
/// For a report of a message that nobody knows: the door waits, this caller does not.
const IMPATIENCE: Duration = Duration::from_millis(20);

thread_local! {
    static RUNTIME: Runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
}

/// Every route once, with a body that says nothing and after a message and a template are there.
pub(super) fn made() -> Vec<Vec<u8>> {
    let before = "POST /v1/messages admin application/json\n\
        {\"channel\":\"crm\",\"to\":\"https://crm.example/h\",\"content\":{\"body\":{}}}\n===\n\
        PUT /v1/templates/t admin application/json\n{\"text\":\"Oi {{ nome }}\",\"subject\":\"s\"}";
    let routes = 0..ROUTES.len();
    routes
        .map(|number| format!("{before}\n===\n#{number} admin application/json\n{{}}").into_bytes())
        .collect()
}

pub(super) fn run(bytes: &[u8]) -> Sign {
    RUNTIME.with(|runtime| runtime.block_on(play(bytes)))
}

async fn play(bytes: &[u8]) -> Sign {
    let house = House::new().await;
    let (mut id, mut seen) = ("msg_none".to_owned(), Vec::new());
    for part in parts(bytes).into_iter().take(REQUESTS_MAX) {
        let Some((asked, request)) = request(part, &id) else { continue };
        let waits = asked.starts_with("/v1/receipts/");
        let reply = match waits {
            true => match tokio::time::timeout(IMPATIENCE, house.ask(request)).await {
                Ok(reply) => reply,
                Err(_) => continue,
            },
            false => house.ask(request).await,
        };
        check(&asked, &reply);
        if let Some(given) = given_id(&reply.text) {
            id = given;
        }
        seen.push((reply.status, code(&reply).unwrap_or_default()));
    }
    house.close().await;
    Sign::of(seen)
}

/// What is asked for, and the request; nothing if HTTP itself has no such request.
fn request(part: &[u8], id: &str) -> Option<(String, Request<Body>)> {
    let line = part.iter().position(|byte| *byte == b'\n').unwrap_or(part.len());
    let (head, body) = (text(&part[..line]), part.get(line + 1..).unwrap_or_default());
    let mut words = head.split(' ');
    let first = words.next()?;
    let (method, path) = match first.strip_prefix('#').and_then(|number| number.parse::<usize>().ok()) {
        Some(number) => {
            let route = &ROUTES[number % ROUTES.len()];
            let named = route.path.split('/').map(|step| if step.starts_with('{') { "$id" } else { step });
            (route.method.clone(), named.collect::<Vec<_>>().join("/"))
        }
        None => (Method::from_bytes(first.as_bytes()).ok()?, words.next()?.to_owned()),
    };
    let path = path.replace("$id", id);
    let (key, kind) = (words.next().unwrap_or("admin"), words.next().unwrap_or("application/json"));
    let body = match std::str::from_utf8(body) {
        Ok(text) => text.replace("$id", id).into_bytes(),
        Err(_) => body.to_vec(),
    };
    let key = match Role::ALL.iter().any(|role| role.as_str() == key) {
        true => format!("key-{key}"),
        false => key.to_owned(),
    };
    let request = Request::builder()
        .method(method)
        .uri(&path)
        .header("authorization", format!("Bearer {key}"))
        .header("apikey", &key)
        .header("content-type", kind)
        .body(Body::from(body));
    Some((path, request.ok()?))
}

/// Nothing is our fault, and whatever goes wrong at the API is told as a problem, whole and consistent.
fn check(asked: &str, reply: &Reply) {
    assert!(
        !reply.status.is_server_error() || reply.status == StatusCode::SERVICE_UNAVAILABLE,
        "{asked}: {reply:?}"
    );
    // What is not ready says so; nothing else may be unavailable here.
    assert!(reply.status != StatusCode::SERVICE_UNAVAILABLE || code(reply).is_some(), "{asked}: {reply:?}");
    let failed = reply.status.is_client_error() || reply.status.is_server_error();
    if failed && asked.starts_with("/v1/") {
        assert_eq!(reply.kind(), "application/problem+json", "{asked}: {}", reply.text);
        let problem: Value = serde_json::from_str(&reply.text).expect("a problem is JSON");
        assert_eq!(problem["status"], reply.status.as_u16(), "{asked}");
        for field in ["type", "title", "code", "detail", "hint"] {
            assert!(
                problem[field].as_str().is_some_and(|it| !it.is_empty()),
                "{asked}: {field} of {problem}"
            );
        }
        assert!(reply.text.len() < 64 * 1024, "{asked}: {} bytes", reply.text.len());
    }
    if reply.kind().starts_with("application/json") {
        serde_json::from_str::<Value>(&reply.text).expect("what is called JSON is JSON");
    }
}

fn code(reply: &Reply) -> Option<String> {
    let problem: Value = serde_json::from_str(&reply.text).ok()?;
    problem["code"].as_str().map(str::to_owned)
}

fn given_id(answer: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    let id = answer["id"].as_str().or_else(|| answer["name"].as_str())?;
    let plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    (plain && !id.is_empty()).then(|| id.to_owned())
}

/// A stream of messages, a line each: one answer for each, and the same ones however the lines arrive.
pub(super) fn lines(bytes: &[u8]) -> Sign {
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let whole = streamed(vec![bytes]).await;
            let mut dice = Dice::seeded(Sign::of(bytes).0);
            let cut = streamed(pieces(bytes, &mut dice)).await;
            assert_eq!((whole.status, &whole.text), (cut.status, &cut.text), "cut into pieces");
            let answers: Vec<Value> = match whole.status {
                StatusCode::OK => whole
                    .text
                    .lines()
                    .map(|line| serde_json::from_str(line).expect("each answer is a line of JSON"))
                    .collect(),
                _ => Vec::new(),
            };
            check("/v1/messages/batch", &whole);
            let told = answers.iter().map(|answer| (answer["id"].is_string(), answer["code"].to_string()));
            Sign::of((whole.status, told.take(4).collect::<Vec<_>>()))
        })
    })
}

async fn streamed(pieces: Vec<&[u8]>) -> Reply {
    let house = House::new().await;
    let pieces = pieces.into_iter().map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece)));
    let request = Request::builder()
        .method(Method::POST)
        .uri("/v1/messages/batch")
        .header("authorization", "Bearer key-producer")
        .header("content-type", "application/x-ndjson")
        .body(Body::from_stream(stream::iter(pieces.collect::<Vec<_>>())))
        .unwrap();
    let reply = house.ask(request).await;
    house.close().await;
    reply
}
