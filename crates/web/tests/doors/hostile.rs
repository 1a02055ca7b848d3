//! Requests that are meant to hurt, at every door: each is refused in bounded time, in that door's own shape, and none
//! is a fault of ours.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use futures_util::future::join_all;
use pombo_kernel::time::Span;
use pombo_web::{Bounds, Patience, ROUTES, Route, serve_within};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::house::{House, message, request, setup};

const HEAD_BYTES: usize = 16 * 1024;
/// Far longer than any door may take here, where patience is short.
const BOUND: Duration = Duration::from_secs(20);

/// A way to be a nuisance.
struct Attack {
    name: &'static str,
    /// What is put in the place of names in the path, and behind it.
    noun: &'static [u8],
    query: &'static [u8],
    headers: Vec<u8>,
    body: Vec<u8>,
    /// What the request says of the body's length, if that is not the truth.
    told: Option<usize>,
    /// Whether the body is the nuisance, so that only routes that read one are bothered by it.
    in_body: bool,
}

fn attacks() -> Vec<Attack> {
    let json = b"Content-Type: application/json\r\n".to_vec();
    let usual = |name| Attack {
        name,
        noun: b"crm",
        query: b"",
        headers: json.clone(),
        body: Vec::new(),
        told: None,
        in_body: true,
    };
    let huge = [b"X-Huge: ".to_vec(), vec![b'x'; 2 * HEAD_BYTES], b"\r\n".to_vec()].concat();
    vec![
        Attack { body: vec![b'['; 100_000], ..usual("a hundred thousand brackets") },
        Attack { body: b"{\"a\":".repeat(100_000), ..usual("a hundred thousand objects") },
        Attack { body: b"{\"to\": \"\xff\xfe\"}".to_vec(), ..usual("a body that is not UTF-8") },
        Attack {
            body: b"{\"to\": \"\\ud800\", \"to\": 1e999}".to_vec(),
            ..usual("odd characters and numbers")
        },
        Attack {
            headers: b"Content-Type: application/xml\r\n".to_vec(),
            body: b"<a/>".to_vec(),
            ..usual("another content type")
        },
        Attack {
            headers: b"Content-Type: application/json; charset=utf-16\r\n".to_vec(),
            body: b"{}".to_vec(),
            ..usual("another charset")
        },
        Attack { told: Some(500_000_000), ..usual("a body of which half a gigabyte is to come") },
        Attack { body: b"{".to_vec(), told: Some(100), ..usual("a body that does not go on") },
        Attack { noun: b"%ff%fe", in_body: false, ..usual("a name that is not UTF-8") },
        Attack { noun: b"\xff", in_body: false, ..usual("a path with a bare byte") },
        Attack { noun: b"..%2f..%2f%00", in_body: false, ..usual("a name that climbs") },
        Attack {
            query: b"?%ff=%ff&limit=%00&cursor=%f0",
            in_body: false,
            ..usual("a query that is not UTF-8")
        },
        Attack {
            query: b"?limit=99999999999999999999&version=-1",
            in_body: false,
            ..usual("numbers out of all bounds")
        },
        Attack {
            headers: b"Idempotency-Key: \xff\r\nIf-Match: \xff\r\nLast-Event-ID: \xff\r\nPrefer: \xff\r\n"
                .to_vec(),
            in_body: false,
            ..usual("headers that are not ASCII")
        },
        Attack { headers: huge, in_body: false, ..usual("huge headers") },
    ]
}

async fn open() -> (House, SocketAddr) {
    let patience = Duration::from_millis(200);
    let patience = Patience { body: patience, stream: patience, test: patience, ..Patience::default() };
    let house = House::with(setup(), patience).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let bounds = Bounds { head_bytes: HEAD_BYTES, ..Bounds::default() };
    tokio::spawn(serve_within(listener, house.router.clone(), bounds, std::future::pending()));
    (house, address)
}

/// What came back: the status, the content type, the body.
struct Said {
    status: u16,
    kind: String,
    body: Vec<u8>,
}

async fn attack(address: SocketAddr, route: &Route, attack: &Attack) -> Said {
    let mut path = Vec::new();
    for part in route.path.split('/').skip(1) {
        path.push(b'/');
        path.extend_from_slice(if part.starts_with('{') { attack.noun } else { part.as_bytes() });
    }
    let told = attack.told.unwrap_or(attack.body.len());
    let length = format!("Content-Length: {told}\r\n\r\n");
    let head = [
        route.method.as_str().as_bytes(),
        b" ",
        &path,
        attack.query,
        b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer key-admin\r\napikey: key-admin\r\n",
        &attack.headers,
        length.as_bytes(),
    ];
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server that has heard enough may hang up while we still speak.
    let _ = stream.write_all(&[head.concat(), attack.body.clone()].concat()).await;
    let mut bytes = Vec::new();
    let mut piece = vec![0; 65_536];
    while let Ok(read @ 1..) = stream.read(&mut piece).await {
        bytes.extend_from_slice(&piece[..read]);
        // A stream of events has no end.
        if bytes.windows(17).any(|it| it == b"text/event-stream") {
            break;
        }
    }
    let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").unwrap_or(bytes.len());
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or_default();
    let kind = head.lines().find_map(|line| line.strip_prefix("content-type: ")).unwrap_or_default();
    Said { status, kind: kind.to_owned(), body: bytes.get(end + 4..).unwrap_or_default().to_vec() }
}

/// Whether a refusal has the form in which that door says no. What is refused before there is a request has no body.
fn is_in_shape(path: &str, said: &Said) -> bool {
    if said.body.is_empty() {
        return matches!(said.status, 400 | 431);
    }
    let Ok(document) = serde_json::from_slice::<Value>(&said.body) else { return false };
    let has = |names: &[&str]| names.iter().all(|name| document.get(name).is_some());
    match path.split('/').nth(1).unwrap_or_default() {
        "emails" => has(&["statusCode", "name", "message"]),
        "message" => has(&["status", "error", "response"]),
        "rest" => has(&["message", "hint"]),
        "functions" => has(&["code", "message"]),
        _ => {
            said.kind == "application/problem+json"
                && has(&["type", "title", "status", "code", "detail", "hint"])
        }
    }
}

/// Those that take whatever body there is, since they do not look at it.
fn looks_at_its_body(route: &Route) -> bool {
    let reads = matches!(route.method.as_str(), "POST" | "PUT" | "PATCH");
    reads && !matches!(route.path, "/functions/v1/process-email-queue" | "/v1/messages/{id}/cancel")
}

#[tokio::test] // REQ SE-2
async fn every_door_refuses_what_is_meant_to_hurt_in_bounded_time_and_in_its_own_shape() {
    let (house, address) = open().await;
    let mut refusals: BTreeMap<u16, usize> = BTreeMap::new();
    for hostile in attacks() {
        for route in ROUTES {
            let name = format!("{} at {} {}", hostile.name, route.method, route.path);
            let said = tokio::time::timeout(BOUND, attack(address, route, &hostile)).await;
            let said = said.unwrap_or_else(|_| panic!("{name}: no answer in time"));
            let text = String::from_utf8_lossy(&said.body).into_owned();
            assert!((200..500).contains(&said.status), "{name}: {} {text}", said.status);
            if said.status >= 400 {
                *refusals.entry(said.status).or_default() += 1;
                assert!(is_in_shape(route.path, &said), "{name}: {} {} {text}", said.status, said.kind);
                assert!(said.body.len() < 8_192, "{name}: a refusal is short, and repeats nothing at length");
            } else if hostile.in_body {
                assert!(!looks_at_its_body(route), "{name}: it was taken: {text}");
            }
        }
        // Whoever tries this must not be taken for somebody who guesses keys.
        house.clock.pass(Span::from_secs(60));
    }
    // Each kind of refusal was met: too slow, too large, another type, no JSON, no such field, too much of a head.
    for (status, least) in [(408, 10), (413, 10), (415, 10), (400, 10), (422, 10), (431, ROUTES.len())] {
        assert!(refusals.get(&status).is_some_and(|count| *count >= least), "{status}: {refusals:?}");
    }
    assert_eq!(house.stored().await, 0, "and nothing of it was stored");
}

#[tokio::test] // REQ ML-3
async fn a_hundred_at_once_under_one_key_are_one_message_at_every_door() {
    for (path, body) in [
        ("/v1/messages", message(&json!({}))),
        ("/emails", json!({"from": "a@example.com", "to": "b@example.com", "subject": "s", "text": "t"})),
        (
            "/rest/v1/rpc/enqueue_email",
            json!({"p_user_id": "u", "p_template_type": "greeting", "p_recipient_email": "b@example.com"}),
        ),
    ] {
        let house = House::new().await;
        house.put_template("greeting", &json!({"subject": "Hello", "text": "you"})).await;
        let one = || {
            let call = request("POST", path)
                .header("authorization", "Bearer key-producer")
                .header("content-type", "application/json")
                .header("idempotency-key", "the-same");
            house.send_elsewhere(call.body(Body::from(body.to_string())).unwrap())
        };
        let replies = join_all((0..100).map(|_| one())).await;
        for reply in &replies {
            assert!(reply.status.is_success(), "{path}: {}", reply.text);
        }
        assert_eq!(house.stored().await, 1, "{path}");
    }
}
