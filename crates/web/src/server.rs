//! Listening: connections that are bounded in number, in what they may hold, and in how long they may idle.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::guesses::Peer;

/// What connections may cost us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Open at once. Further ones wait to be taken on.
    pub connections: usize,
    /// From the end of one request until the head of the next one is complete.
    pub head_timeout: Duration,
    /// Largest head of a request, in bytes.
    pub head_bytes: usize,
    /// How long requests in flight may take to end once the server stops.
    pub grace: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            connections: 10_000,
            head_timeout: Duration::from_secs(30),
            head_bytes: 64 * 1024,
            grace: Duration::from_secs(30),
        }
    }
}

/// Serves until `shutdown` ends; then takes on nothing more, finishes the requests in flight, and returns.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    serve_within(listener, router, Bounds::default(), shutdown).await
}

/// Serves within bounds other than the usual ones.
pub async fn serve_within(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(bounds.head_timeout).max_buf_size(bounds.head_bytes);
    let places = Arc::new(Semaphore::new(bounds.connections));
    let (stop, stopping) = watch::channel(());
    let mut shutdown = pin!(shutdown);
    loop {
        let taken = tokio::select! {
            taken = take(&listener, &places) => taken,
            () = &mut shutdown => break,
        };
        match taken {
            Ok((stream, place)) => {
                tokio::spawn(talk(stream, place, http.clone(), router.clone(), stopping.clone()));
            }
            Err(error) if of_one_connection(&error) => {}
            Err(error) => {
                // No more file descriptors, most likely: some will be free again in a moment.
                tracing::warn!(%error, "cannot take on a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    drop(stopping);
    stop.send_replace(());
    if tokio::time::timeout(bounds.grace, stop.closed()).await.is_err() {
        let open = stop.receiver_count();
        tracing::warn!(open, "requests were still in flight at the end of the grace period");
    }
    Ok(())
}

async fn take(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

/// The other side went away before we took it on; the next one may be fine.
fn of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// One connection, from its first request to its last.
async fn talk(
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
    http: http1::Builder,
    router: Router,
    mut stopping: watch::Receiver<()>,
) {
    // Answers are small and written at once; waiting to fill a packet would only delay them.
    let _ = stream.set_nodelay(true);
    let peer = stream.peer_addr().ok().map(|address| Peer(address.ip()));
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        if let Some(peer) = peer {
            request.extensions_mut().insert(peer);
        }
        router.call(request)
    });
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = &mut connection => ended,
        _ = stopping.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended badly");
    }
}
