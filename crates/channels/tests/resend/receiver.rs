//! Servers made by hand, one function a connection, that may do what Resend would not.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A server and what it saw: connections, and each whole request as it came.
#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Receiver {
    pub(crate) async fn start<F>(behave: impl Fn(TcpStream, Receiver) -> F + Send + 'static) -> Receiver
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let receiver = Receiver { address, connections: Arc::default(), requests: Arc::default() };
        let seen = receiver.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                seen.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(behave(stream, seen.clone()));
            }
        });
        receiver
    }

    /// Reads one request and answers with these bytes, then holds the connection open.
    pub(crate) async fn answering(answer: impl Into<Vec<u8>>) -> Receiver {
        let answer: Arc<[u8]> = answer.into().into();
        Receiver::start(move |mut stream, seen| {
            let answer = answer.clone();
            async move {
                if seen.read(&mut stream).await.is_some() {
                    let _ = stream.write_all(&answer).await;
                    std::future::pending::<()>().await;
                }
            }
        })
        .await
    }

    /// Answers every request with this status and JSON.
    pub(crate) async fn saying(status: u16, body: &str) -> Receiver {
        Receiver::answering(http(status, "", body)).await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Reads one whole request; none if the sender hangs up first.
    pub(crate) async fn read(&self, stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
        let mut bytes = Vec::new();
        loop {
            if let Some(end) = end_of_request(&bytes) {
                assert_eq!(end, bytes.len(), "bytes after the request");
                let request = String::from_utf8(bytes).unwrap();
                self.requests.lock().unwrap().push(request.clone());
                return Some(request);
            }
            if stream.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
        }
    }
}

/// An answer of that status, with more header lines and a JSON body.
pub(crate) fn http(status: u16, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
}

fn end_of_request(bytes: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(bytes);
    let head = text.find("\r\n\r\n")? + 4;
    let length = text[..head].lines().find_map(|line| line.strip_prefix("content-length: "));
    let end = head + length.map_or(0, |length| length.trim().parse::<usize>().unwrap());
    (bytes.len() >= end).then_some(end)
}

/// Drops a connection so that the other side sees a reset.
pub(crate) fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
    drop(stream);
}
