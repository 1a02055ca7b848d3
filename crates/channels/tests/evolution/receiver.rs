//! Servers made by hand, one function a connection, that may do what Evolution would not.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

pub(crate) const KEY: &str =
    r#"{"key":{"remoteJid":"5511987654321@s.whatsapp.net","fromMe":true,"id":"3EB0AA"}}"#;

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

    /// Answers each request with the next of these, and every further one with the last.
    pub(crate) async fn answering(answers: Vec<Vec<u8>>) -> Receiver {
        Receiver::start(move |mut stream, seen| {
            let answers = answers.clone();
            async move {
                while seen.read(&mut stream).await.is_some() {
                    let number = seen.requests.lock().unwrap().len();
                    let answer = &answers[number.min(answers.len()) - 1];
                    if stream.write_all(answer).await.is_err() {
                        return;
                    }
                }
            }
        })
        .await
    }

    /// Answers every request so.
    pub(crate) async fn saying(status: u16, body: &str) -> Receiver {
        Receiver::answering(vec![answer(status, body)]).await
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

pub(crate) fn answer(status: u16, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn end_of_request(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let lines = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let length = lines.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
    let end = head + length.trim().parse::<usize>().unwrap();
    (bytes.len() >= end).then_some(end)
}

/// Drops a connection so that the other side sees a reset.
pub(crate) fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
    drop(stream);
}
