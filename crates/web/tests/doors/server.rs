use std::net::SocketAddr;
use std::time::Duration;

use pombo_web::{Bounds, Patience, serve_within};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::house::{House, message, setup};

struct Open {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<std::io::Result<()>>,
    house: House,
}

async fn open(bounds: Bounds, patience: Patience) -> Open {
    let house = House::with(setup(), patience).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let router = house.router.clone();
    let ended = tokio::spawn(serve_within(listener, router, bounds, async {
        let _ = stopped.await;
    }));
    Open { address, stop, ended, house }
}

fn quick() -> (Bounds, Patience) {
    let bounds = Bounds { head_timeout: Duration::from_millis(200), ..Bounds::default() };
    let patience = Duration::from_millis(200);
    (bounds, Patience { body: patience, stream: patience, ..Patience::default() })
}

fn post(body: &str) -> String {
    format!(
        "POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer key-producer\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut bytes)).await;
    read.expect("the server ends the connection").ok();
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn some(stream: &mut TcpStream) -> String {
    let mut bytes = vec![0; 65_536];
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read(&mut bytes)).await.unwrap().unwrap();
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}

#[tokio::test]
async fn a_connection_serves_many_requests_then_a_stop_ends_it() {
    let server = open(Bounds::default(), Patience::default()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    for _ in 0..3 {
        stream.write_all(post(&message(&json!({})).to_string()).as_bytes()).await.unwrap();
        assert!(some(&mut stream).await.starts_with("HTTP/1.1 202"));
    }
    server.stop.send(()).unwrap();
    assert_eq!(rest(&mut stream).await, "");
    server.ended.await.unwrap().unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn a_request_in_flight_is_finished_before_the_server_ends() {
    let server = open(Bounds::default(), Patience::default()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let text = post(&message(&json!({})).to_string());
    let (first, second) = text.split_at(text.len() - 10);
    stream.write_all(first.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.stop.send(()).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!server.ended.is_finished());
    stream.write_all(second.as_bytes()).await.unwrap();
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 202"));
    server.ended.await.unwrap().unwrap();
    assert_eq!(server.house.stored().await, 1);
}

#[tokio::test]
async fn a_request_that_does_not_end_is_cut_off_after_the_grace_period() {
    let bounds = Bounds { grace: Duration::from_millis(200), ..Bounds::default() };
    let server = open(bounds, Patience::default()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(post("{}").trim_end_matches("{}").as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(60), server.ended).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_head_that_comes_too_slowly_ends_the_connection() {
    let (bounds, patience) = quick();
    let server = open(bounds, patience).await;
    for start in ["", "GET /healthz HTTP/1.1\r\nHost: x\r\n"] {
        let mut slow = TcpStream::connect(server.address).await.unwrap();
        slow.write_all(start.as_bytes()).await.unwrap();
        let said = rest(&mut slow).await;
        assert!(!said.contains("200 OK"), "{said}");
    }
}

#[tokio::test]
async fn a_body_that_comes_too_slowly_is_refused() {
    let (bounds, patience) = quick();
    let server = open(bounds, patience).await;
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer key-producer\r\n\
                Content-Length: 1000\r\n\r\n{";
    slow.write_all(head.as_bytes()).await.unwrap();
    let said = rest(&mut slow).await;
    assert!(said.starts_with("HTTP/1.1 408") && said.contains("REQUEST_TIMEOUT"), "{said}");
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /v1/messages/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer key-producer\r\n\
                Content-Type: application/x-ndjson\r\nContent-Length: 1000\r\n\r\n{}\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    let said = rest(&mut stream).await;
    assert!(said.contains("INVALID_FIELD") && said.contains("REQUEST_TIMEOUT"), "{said}");
}

#[tokio::test]
async fn a_head_without_end_is_refused() {
    let server = open(Bounds { head_bytes: 16 * 1024, ..Bounds::default() }, Patience::default()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!("GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: {}", "a".repeat(64 * 1024));
    let _ = stream.write_all(head.as_bytes()).await;
    let said = rest(&mut stream).await;
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 431"), "{said}");
}

#[tokio::test]
async fn slow_callers_leave_room_for_others_once_their_time_is_up() {
    let (bounds, patience) = quick();
    let server = open(Bounds { connections: 20, ..bounds }, patience).await;
    let mut loris = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"GET /healthz HT").await.unwrap();
        loris.push(stream);
    }
    let mut honest = TcpStream::connect(server.address).await.unwrap();
    honest.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    assert!(some(&mut honest).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_writes_a_whole_stream_before_it_reads_is_served() {
    let server = open(Bounds::default(), Patience::default()).await;
    let line = format!("{}\n", message(&json!({})));
    let body = line.repeat(20_000);
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST /v1/messages/batch HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer key-producer\r\n\
         Content-Type: application/x-ndjson\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let said = rest(&mut stream).await;
    assert_eq!(said.matches("\"state\":\"pending\"").count(), 20_000);
}
