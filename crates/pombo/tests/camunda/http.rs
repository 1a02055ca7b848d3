//! A small HTTP server that a pretend engine stands behind.

use std::convert::Infallible;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What was asked.
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Asked {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    pub(crate) fn authorization(&self) -> &str {
        self.headers.get("authorization").map_or("", |value| value.to_str().unwrap())
    }
}

/// What is answered; nothing cuts the connection.
pub(crate) type Answer = Option<(u16, Value)>;
type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) async fn start(answer: impl Fn(Asked) -> Answering + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = Arc::new(answer);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let answer = answer.clone();
                tokio::spawn(async move {
                    let serve = service_fn(move |request| respond(request, answer.clone()));
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), serve)
                        .await;
                });
            }
        });
        Server { address, task }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the connection is cut")]
struct Cut;

async fn respond(
    request: Request<Incoming>,
    answer: Arc<impl Fn(Asked) -> Answering>,
) -> Result<Response<Full<Bytes>>, Cut> {
    let (head, body) = request.into_parts();
    let text = String::from_utf8(body.collect().await.map_err(|_| Cut)?.to_bytes().to_vec()).unwrap();
    let asked = Asked { path: head.uri.path().to_owned(), headers: head.headers, text };
    let wrong_method = (head.method != http::Method::POST).then_some((405, Value::Null));
    let (status, body) = match wrong_method {
        Some(wrong) => wrong,
        None => answer(asked).await.ok_or(Cut)?,
    };
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let response: Result<_, Infallible> = Ok(Response::builder()
        .status(StatusCode::from_u16(status).unwrap())
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(text)))
        .unwrap());
    response.map_err(|never| match never {})
}
