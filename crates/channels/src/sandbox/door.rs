//! The door that every pretend provider has: guests come in, and go with a reset where a script asked for one.

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The script says to hang up without a word.
#[derive(Debug)]
pub(super) struct HangUp;

impl fmt::Display for HangUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hanging up")
    }
}

impl std::error::Error for HangUp {}

/// Lets guests in for as long as it is polled; all of them go when it is dropped.
pub(super) async fn welcome<F>(listener: TcpListener, mut host: impl FnMut(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut guests = JoinSet::new();
    loop {
        tokio::select! {
            guest = listener.accept() => match guest {
                Ok((stream, _)) => drop(guests.spawn(host(stream))),
                // Out of file handles, most likely; some will come free.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            },
            Some(_) = guests.join_next() => {}
        }
    }
}

/// Answers the requests of one connection, and resets it where the answer is to hang up.
pub(super) async fn host<B, F>(stream: TcpStream, answer: impl Fn(Request<Incoming>) -> F)
where
    B: Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    F: Future<Output = Result<Response<B>, HangUp>>,
{
    let _ = stream.set_nodelay(true);
    let reset = AtomicBool::new(false);
    let service = service_fn(|request| {
        let answer = answer(request);
        let reset = &reset;
        Box::pin(async move {
            let answer = answer.await;
            reset.store(answer.is_err(), Ordering::Relaxed);
            answer
        })
    });
    let mut connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let _ = poll_fn(|cx| connection.poll_without_shutdown(cx)).await;
    let stream = connection.into_parts().io.into_inner();
    if reset.load(Ordering::Relaxed) {
        let _ = stream.set_zero_linger();
    }
}
