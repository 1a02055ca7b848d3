//! Receivers made by hand, one function a connection, that may do what no server would.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A receiver and what it saw: connections, and each whole request as it came.
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
    pub(crate) async fn answering(answer: &'static str) -> Receiver {
        Receiver::start(move |mut stream, seen| async move {
            seen.read(&mut stream).await;
            stream.write_all(answer.as_bytes()).await.unwrap();
            std::future::pending::<()>().await;
        })
        .await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Reads one whole request; none if the sender hangs up first.
    pub(crate) async fn read(&self, stream: &mut (impl AsyncRead + Unpin)) -> Option<()> {
        let mut bytes = Vec::new();
        loop {
            if let Some(end) = end_of_request(&bytes) {
                assert_eq!(end, bytes.len(), "bytes after the request");
                self.requests.lock().unwrap().push(String::from_utf8(bytes).unwrap());
                return Some(());
            }
            if stream.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
        }
    }
}

fn end_of_request(bytes: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(bytes);
    let head = text.find("\r\n\r\n")? + 4;
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    let end = head + length.trim().parse::<usize>().unwrap();
    (bytes.len() >= end).then_some(end)
}

/// Drops a connection so that the other side sees a reset.
pub(crate) fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
    drop(stream);
}
