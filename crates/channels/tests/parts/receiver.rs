//! Servers made by hand, one function a connection, that may do what no real one would.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// A server and what it saw: connections, and each whole request as it came. Each channel's tests add what its own
/// provider would answer.
#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<Seen>>>,
    arrived: Arc<Notify>,
}

/// A request's head and body.
pub(crate) type Seen = (String, Vec<u8>);

impl Receiver {
    pub(crate) async fn start<F>(behave: impl Fn(TcpStream, Receiver) -> F + Send + 'static) -> Receiver
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, requests, arrived) = (Arc::default(), Arc::default(), Arc::default());
        let receiver = Receiver { address, connections, requests, arrived };
        let seen = receiver.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                seen.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(behave(stream, seen.clone()));
            }
        });
        receiver
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Each request, head and body.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.requests.lock().unwrap().clone()
    }

    /// Each request as text.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.seen().into_iter().map(|(head, body)| head + std::str::from_utf8(&body).unwrap()).collect()
    }

    /// Waits until so many requests have come.
    pub(crate) async fn has_seen(&self, count: usize) {
        loop {
            let next = self.arrived.notified();
            if self.requests.lock().unwrap().len() >= count {
                return;
            }
            next.await;
        }
    }

    /// Reads one whole request, and says what it was; none if the sender hangs up first.
    pub(crate) async fn read(&self, stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
        let mut bytes = Vec::new();
        loop {
            if let Some((head, end)) = request_in(&bytes) {
                assert_eq!(end, bytes.len(), "bytes after the request");
                let whole = String::from_utf8_lossy(&bytes).into_owned();
                self.requests.lock().unwrap().push((head.clone(), bytes.split_off(head.len())));
                self.arrived.notify_waiters();
                return Some(whole);
            }
            if stream.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
        }
    }
}

/// The head of a request that has come whole, and where its body ends.
fn request_in(bytes: &[u8]) -> Option<(String, usize)> {
    let head = bytes.windows(4).position(|it| it == b"\r\n\r\n")? + 4;
    let text = String::from_utf8(bytes[..head].to_vec()).unwrap();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
    let end = head + length.map_or(0, |length| length.trim().parse::<usize>().unwrap());
    (bytes.len() >= end).then_some((text, end))
}

/// Drops a connection so that the other side sees a reset.
pub(crate) fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
    drop(stream);
}
