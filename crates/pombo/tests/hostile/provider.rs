//! A provider made by hand, which does with a connection what no real one would.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpSocket, TcpStream};

/// Little room for what was written and not read, so that what the other side read can be told from outside.
const SEND_BUFFER_BYTES: u32 = 64 * 1024;

/// It reads one request a connection, counts it, and leaves the rest to a function.
#[derive(Clone)]
pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
    counts: Arc<Mutex<HashMap<String, u32>>>,
}

impl Provider {
    /// `behave` gets the connection, and how often that message has come.
    pub(crate) fn start<F>(behave: impl Fn(TcpStream, u32) -> F + Send + Sync + 'static) -> Provider
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(SEND_BUFFER_BYTES).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(128).unwrap();
        let provider = Provider { address: listener.local_addr().unwrap(), counts: Arc::default() };
        let counts = provider.counts.clone();
        let behave = Arc::new(behave);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (counts, behave) = (counts.clone(), behave.clone());
                tokio::spawn(async move {
                    let Some(head) = request(&mut stream).await else { return };
                    let id =
                        head.lines().find_map(|line| line.strip_prefix("webhook-id: ")).unwrap_or_default();
                    let count = {
                        let mut counts = counts.lock().unwrap();
                        let count = counts.entry(id.trim().to_owned()).or_default();
                        *count += 1;
                        *count
                    };
                    behave(stream, count).await;
                });
            }
        });
        provider
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// How often the message has come.
    pub(crate) fn count(&self, id: &str) -> u32 {
        self.counts.lock().unwrap().get(id).copied().unwrap_or(0)
    }
}

/// Reads a request whole, and says its head.
async fn request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
            if bytes.len() >= end + 4 + length {
                return Some(head);
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// Drops a connection so that the other side sees a reset.
pub(crate) fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
    drop(stream);
}
