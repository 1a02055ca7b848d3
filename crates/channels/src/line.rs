//! One connection to one receiver: opened, spoken over, perhaps kept.
//!
//! Whoever waits for an answer drives the connection itself; there is no task behind it. So giving up an
//! attempt closes its connection at once, and an answer costs no wake-up of anybody else.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use pombo_kernel::reply::{Fault, FaultKind};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The most that is held of an answer's head.
const HEAD_BYTES_MAX: usize = 64 * 1024;

pub(crate) struct Line {
    sender: http1::SendRequest<Full<Bytes>>,
    /// None once it has ended.
    connection: Option<http1::Connection<TokioIo<Wire>, Full<Bytes>>>,
    spoken: Arc<AtomicBool>,
    /// The pool's tick at which it was opened.
    pub(crate) born: u64,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("born", &self.born).finish_non_exhaustive()
    }
}

/// How the reading of a body ended.
pub(crate) enum End {
    Whole,
    /// There was more than we read.
    Cut,
    Broken,
}

impl Line {
    /// Connects to exactly this address, and shakes hands for `tls` where it is given.
    pub(crate) async fn open(
        address: SocketAddr,
        tls: Option<(&TlsConnector, ServerName<'static>)>,
    ) -> Result<Line, Fault> {
        let tcp = TcpStream::connect(address).await.map_err(|error| fault_of_io(&error))?;
        // Without it a small request waits for the receiver's delayed acknowledgement. Failing is harmless.
        let _ = tcp.set_nodelay(true);
        let stream = match tls {
            None => Stream::Plain(tcp),
            Some((connector, name)) => {
                let tls = connector.connect(name, tcp).await.map_err(|error| fault_of_io(&error))?;
                Stream::Tls(Box::new(tls))
            }
        };
        let spoken = Arc::new(AtomicBool::new(false));
        let wire = TokioIo::new(Wire { stream, spoken: spoken.clone() });
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake(wire)
            .await
            .map_err(|error| fault_of_hyper(&error))?;
        Ok(Line { sender, connection: Some(connection), spoken, born: 0 })
    }

    /// Whether a request can go out on it now: nobody has hung up, and the last answer was read to its end.
    pub(crate) fn is_free(&mut self) -> bool {
        drive(&mut self.connection, &mut Context::from_waker(Waker::noop()));
        self.connection.is_some() && self.sender.is_ready()
    }

    /// Whether any byte of the last request may have left us.
    pub(crate) fn has_spoken(&self) -> bool {
        self.spoken.load(Ordering::Relaxed)
    }

    /// Sends a request and waits for the head of its answer. Never sends it again.
    pub(crate) async fn ask(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Fault> {
        self.spoken.store(false, Ordering::Relaxed);
        let mut answer = pin!(self.sender.try_send_request(request));
        let connection = &mut self.connection;
        poll_fn(|cx| {
            drive(connection, cx);
            answer.as_mut().poll(cx)
        })
        .await
        .map_err(|error| fault_of_hyper(error.error()))
    }

    /// Reads a body into `into`, up to `bytes_max` in all. What was read stays there if this is dropped.
    pub(crate) async fn read(&mut self, mut body: Incoming, bytes_max: usize, into: &mut Vec<u8>) -> End {
        while !body.is_end_stream() {
            let frame = poll_fn(|cx| {
                drive(&mut self.connection, cx);
                Pin::new(&mut body).poll_frame(cx)
            })
            .await;
            match frame {
                None => break,
                Some(Err(_)) => return End::Broken,
                Some(Ok(frame)) => {
                    let Some(data) = frame.data_ref() else { continue };
                    let room = bytes_max - into.len();
                    into.extend_from_slice(&data[..data.len().min(room)]);
                    if data.len() > room {
                        return End::Cut;
                    }
                }
            }
        }
        End::Whole
    }
}

fn drive(connection: &mut Option<http1::Connection<TokioIo<Wire>, Full<Bytes>>>, cx: &mut Context<'_>) {
    // An error here is also given to whoever waits for the answer.
    if connection.as_mut().is_some_and(|connection| Pin::new(connection).poll(cx).is_ready()) {
        *connection = None;
    }
}

pub(crate) fn fault(kind: FaultKind, text: impl Into<String>) -> Fault {
    Fault { kind, text: text.into() }
}

pub(crate) fn fault_of_io(error: &io::Error) -> Fault {
    let kind = if error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>) {
        FaultKind::Tls
    } else {
        match error.kind() {
            io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::AddrNotAvailable => FaultKind::ConnectionRefused,
            io::ErrorKind::TimedOut => FaultKind::Timeout,
            _ => FaultKind::ConnectionReset,
        }
    };
    fault(kind, error.to_string())
}

fn fault_of_hyper(error: &hyper::Error) -> Fault {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            return fault_of_io(io);
        }
        cause = inner.source();
    }
    let hung_up = error.is_incomplete_message() || error.is_canceled() || error.is_closed();
    fault(if hung_up { FaultKind::ConnectionReset } else { FaultKind::Protocol }, error.to_string())
}

/// A stream that remembers whether anything of a request was written to it.
struct Wire {
    stream: Stream,
    spoken: Arc<AtomicBool>,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Wire {
    /// Runs one write. TLS may send part of what it then fails to finish, so there trying counts as speaking.
    fn speak(
        &mut self,
        write: impl FnOnce(&mut Stream) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if matches!(self.stream, Stream::Tls(_)) {
            self.spoken.store(true, Ordering::Relaxed);
        }
        let written = write(&mut self.stream);
        if matches!(written, Poll::Ready(Ok(n)) if n > 0) {
            self.spoken.store(true, Ordering::Relaxed);
        }
        written
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            Stream::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.speak(|stream| match stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write(cx, data),
            Stream::Tls(tls) => Pin::new(tls).poll_write(cx, data),
        })
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.speak(|stream| match stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, data),
            Stream::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, data),
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_line_that_died_before_the_request_has_not_spoken() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        for reset in [true, false] {
            let mut line = Line::open(address, None).await.unwrap();
            let (theirs, _) = listener.accept().await.unwrap();
            if reset {
                theirs.set_zero_linger().unwrap();
            }
            drop(theirs);
            // A round trip of our own: whatever the kernel knew before it, the runtime knows after it.
            drop(TcpStream::connect(address).await.unwrap());
            drop(listener.accept().await.unwrap());

            let fault = line.ask(Request::new(Full::from("x"))).await.unwrap_err();
            assert_eq!(fault.kind, FaultKind::ConnectionReset, "{fault:?}");
            assert!(!line.has_spoken());
            assert!(!line.is_free());
        }
    }

    #[tokio::test]
    async fn a_line_that_dies_after_the_request_has_spoken() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut line = Line::open(listener.local_addr().unwrap(), None).await.unwrap();
        let (mut theirs, _) = listener.accept().await.unwrap();
        let reading = async move {
            theirs.read_u8().await.unwrap();
        };
        let (answer, ()) = tokio::join!(line.ask(Request::new(Full::from("x"))), reading);
        assert_eq!(answer.unwrap_err().kind, FaultKind::ConnectionReset);
        assert!(line.has_spoken());
    }
}
