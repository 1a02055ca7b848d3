//! Somebody who takes any request and remembers it: the collector, and every provider.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Heard {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

#[derive(Clone)]
pub(crate) struct Listener {
    pub(crate) address: SocketAddr,
    heard: Arc<Mutex<Vec<Heard>>>,
    /// What requests to a path are answered with, one after the other; with a success when there is nothing left.
    answers: Arc<Mutex<VecDeque<(String, u16)>>>,
}

impl Listener {
    pub(crate) async fn start() -> Listener {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let me = Listener {
            address: listener.local_addr().unwrap(),
            heard: Arc::default(),
            answers: Arc::default(),
        };
        let host = me.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let host = host.clone();
                let service = service_fn(move |request| host.clone().answer(request));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        me
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Answers the next requests to that path with these.
    pub(crate) fn say(&self, path: &str, statuses: &[u16]) {
        self.answers.lock().unwrap().extend(statuses.iter().map(|status| (path.to_owned(), *status)));
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
        let (head, body) = request.into_parts();
        let body = String::from_utf8_lossy(&body.collect().await?.to_bytes()).into_owned();
        let path = head.uri.path().to_owned();
        // Whoever asks how a provider is belongs to no message, and uses up nothing that is meant for one.
        let posted = head.method == Method::POST;
        let mut answers = self.answers.lock().unwrap();
        let place = answers.iter().position(|(wanted, _)| posted && *wanted == path);
        let status = place.and_then(|place| answers.remove(place)).map_or(200, |(_, status)| status);
        drop(answers);
        if posted {
            self.heard.lock().unwrap().push(Heard { path, headers: head.headers, body });
        }
        // What Evolution and Resend say of a success; others look at the status.
        let mut response = Response::new(Full::from(r#"{"key":{"id":"3EB0"},"id":"49a3999c"}"#));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        Ok(response)
    }

    /// What came to that path so far.
    pub(crate) fn heard(&self, path: &str) -> Vec<Heard> {
        self.heard.lock().unwrap().iter().filter(|heard| heard.path == path).cloned().collect()
    }

    /// Waits until so many came to that path.
    pub(crate) async fn wait(&self, path: &str, count: usize) -> Vec<Heard> {
        for _ in 0..1_500 {
            let heard = self.heard(path);
            if heard.len() >= count {
                return heard;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{count} requests to {path} never came: {:?}", self.heard(path));
    }
}
