//! Operators made by hand, one function a connection, that may do what no server would.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A request's head and body.
type Seen = (String, Vec<u8>);

/// A receiver and what it saw: connections, and each whole request as it came, head and body.
#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<Seen>>>,
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

    /// Answers every request with these bytes, on as many connections as it takes.
    pub(crate) async fn answering(answer: Vec<u8>) -> Receiver {
        Receiver::start(move |mut stream, seen| {
            let answer = answer.clone();
            async move {
                while seen.read(&mut stream).await.is_some() {
                    let _ = stream.write_all(&answer).await;
                }
            }
        })
        .await
    }

    /// Answers with this status and body, framed as it should be.
    pub(crate) async fn saying(status: u16, kind: &str, body: &[u8]) -> Receiver {
        let head =
            format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
        Receiver::answering([head.as_bytes(), body].concat()).await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/tiss", self.address)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> Vec<Seen> {
        self.requests.lock().unwrap().clone()
    }

    /// The body of the only request.
    pub(crate) fn body(&self) -> Vec<u8> {
        let requests = self.requests();
        assert_eq!(requests.len(), 1);
        requests[0].1.clone()
    }

    /// Reads one whole request; none if the sender hangs up first.
    pub(crate) async fn read(&self, stream: &mut (impl AsyncRead + Unpin)) -> Option<()> {
        let mut bytes = Vec::new();
        loop {
            if let Some(head) = bytes.windows(4).position(|it| it == b"\r\n\r\n").map(|at| at + 4) {
                let text = String::from_utf8(bytes[..head].to_vec()).unwrap();
                let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                let end = head + length.trim().parse::<usize>().unwrap();
                if bytes.len() >= end {
                    assert_eq!(end, bytes.len(), "bytes after the request");
                    self.requests.lock().unwrap().push((text, bytes[head..].to_vec()));
                    return Some(());
                }
            }
            if stream.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
        }
    }
}

/// Drops a connection so that the other side sees a reset.
pub(crate) fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
    drop(stream);
}
