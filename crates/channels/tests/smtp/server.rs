//! Servers made by hand, one function a connection, that may do what no server would.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A server and what it saw: connections, commands, and mails that arrived up to their end.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) async fn start<F>(behave: impl Fn(TcpStream, Server) -> F + Send + 'static) -> Server
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server { address, connections: Arc::default(), heard: Arc::default() };
        let seen = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                seen.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(behave(stream, seen.clone()));
            }
        });
        server
    }

    /// Says yes to everything, but for these: the greeting is `""`, the end of a mail `"."`, the rest verbs.
    /// An empty answer hangs up; `"…"` never answers.
    pub(crate) async fn answering(answers: &'static [(&'static str, &'static [u8])]) -> Server {
        Server::start(move |stream, seen| seen.converse(stream, answers)).await
    }

    pub(crate) async fn converse(
        self,
        mut stream: TcpStream,
        answers: &'static [(&'static str, &'static [u8])],
    ) {
        let answer = |verb: &str| {
            let own = answers.iter().find(|(other, _)| *other == verb).map(|(_, answer)| *answer);
            own.unwrap_or(match verb {
                "" => b"220 here\r\n",
                "EHLO" => b"250-here\r\n250-8BITMIME\r\n250 SIZE 1000000\r\n",
                "DATA" => b"354 go on\r\n",
                _ => b"250 2.0.0 fine\r\n",
            })
        };
        let mut verb = String::new();
        loop {
            match answer(&verb) {
                b"" => return,
                b"\xe2\x80\xa6" => std::future::pending::<()>().await,
                bytes => {
                    if stream.write_all(bytes).await.is_err() {
                        return;
                    }
                    let end: &[u8] =
                        if verb == "DATA" && bytes.starts_with(b"354") { b"\r\n.\r\n" } else { b"\r\n" };
                    let Some(heard) = read_to(&mut stream, end).await else { return };
                    verb = if end.len() > 2 {
                        ".".to_owned()
                    } else {
                        heard.split_whitespace().next().unwrap_or_default().to_ascii_uppercase()
                    };
                    self.heard.lock().unwrap().push(if verb == "." {
                        heard
                    } else {
                        heard.trim_end().to_owned()
                    });
                }
            }
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("smtp://{}", self.address)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    /// Mails that arrived up to their end.
    pub(crate) fn mails(&self) -> usize {
        self.heard().iter().filter(|heard| heard.ends_with("\r\n.\r\n")).count()
    }
}

/// Everything up to and with `end`; none if the sender hangs up first.
pub(crate) async fn read_to(stream: &mut (impl AsyncRead + Unpin), end: &[u8]) -> Option<String> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end) {
        bytes.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Drops a connection so that the other side sees a reset.
pub(crate) fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
    drop(stream);
}
