//! Pages that keep themselves up to date: what has changed of a page is sent anew, while somebody looks.
//!
//! A stream is one task. It makes its page when something has happened in the store, at most once a second, and sends
//! the parts whose bytes are others than before.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Uri, header};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::form::local;
use super::visit::Visit;
use super::{PAGES, Shown, Way};
use crate::problem::{Code, Problem};
use crate::route::no_address;

/// Pages that may be told of news at once, half of them one tenant's.
pub(crate) const ONLOOKERS: usize = 200;
/// A page is made at most so often.
const PACE: Duration = Duration::from_secs(1);
/// And at least so often: some of what it shows changes with time alone. It is also a sign of life.
const ANYWAY: Duration = Duration::from_secs(10);

type Handler = fn(Visit) -> Shown;

/// The page at that address, for somebody who may see it, and what stands in the braces of its path.
fn page_at(path: &str, visit: &Visit) -> Result<(Handler, String), Problem> {
    for page in PAGES {
        let Way::Show(access, handler) = page.way else { continue };
        if let Some(name) = fits(page.path, path) {
            return visit.caller().may(access).map(|()| (handler, name));
        }
    }
    Err(no_address())
}

/// Whether that is an address of the pattern, and what stands in its braces.
fn fits(pattern: &str, path: &str) -> Option<String> {
    let (wanted, given) = (pattern.split('/'), path.split('/'));
    let mut name = String::new();
    if wanted.clone().count() != given.clone().count() {
        return None;
    }
    for (wanted, given) in wanted.zip(given) {
        match wanted.starts_with('{') {
            true => name = given.to_owned(),
            false if wanted == given => {}
            false => return None,
        }
    }
    Some(name)
}

/// Tells whoever looks at a page what changes on it. Ends with the session, the node, or the reader.
pub(crate) async fn follow(visit: Visit) -> Result<Response, Problem> {
    let door = visit.door().clone();
    if door.is_closing() {
        return Err(Problem::shutting_down());
    }
    let here = visit.asked("page").unwrap_or_default();
    let uri: Uri = local(&here).and_then(|here| here.parse().ok()).ok_or_else(no_address)?;
    let (_, name) = page_at(uri.path(), &visit)?;
    let seen = visit.asked("seen").unwrap_or_default();
    let seen = seen.split(',').filter_map(|pair| pair.split_once(':'));
    let seen = seen.map(|(id, version)| (id.to_owned(), version.to_owned())).collect();
    let Some(seat) = door.0.onlookers.take(&visit.caller().tenant) else {
        let hint = "close a page that is not needed, or come back after the time in Retry-After";
        let detail = "as many pages are being kept up to date as this tenant may have beside others";
        return Err(Problem::new(Code::Overloaded, detail, hint));
    };
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        Onlooker { visit, uri, name, seen, sender }.run().await;
        drop(seat);
    });
    let chunks = stream::unfold(receiver, |mut receiver: mpsc::Receiver<Bytes>| async move {
        receiver.recv().await.map(|chunk| (Ok::<_, Infallible>(chunk), receiver))
    });
    let mut response = Response::new(Body::from_stream(chunks));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // A proxy that collects answers before it passes them on would hold news back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

struct Onlooker {
    visit: Visit,
    uri: Uri,
    name: String,
    /// What is there of each part, by its id.
    seen: HashMap<String, String>,
    sender: mpsc::Sender<Bytes>,
}

impl Onlooker {
    async fn run(mut self) {
        let door = self.visit.door().clone();
        let (mut news, mut closing) = (door.store().watch(), door.0.closing.subscribe());
        let mut text = "retry: 3000\n\n".to_owned();
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = pace.tick() => {}
                () = self.sender.closed() => return,
            }
            if *closing.borrow_and_update() {
                return;
            }
            news.mark_unchanged();
            match self.changed().await {
                Ok(changed) => text.push_str(&changed),
                // The reader comes back, and is told then why not.
                Err(_) => return,
            }
            if text.is_empty() {
                text.push_str(": alive\n\n");
            }
            let sending = self.sender.send(Bytes::from(std::mem::take(&mut text)));
            if !matches!(timeout(door.0.patience.stream, sending).await, Ok(Ok(()))) {
                return;
            }
            tokio::select! {
                changed = news.changed() => if changed.is_err() { return },
                () = sleep(ANYWAY) => {}
                _ = closing.changed() => return,
                () = self.sender.closed() => return,
            }
        }
    }

    /// The parts that are others than before, as they are sent.
    async fn changed(&mut self) -> Result<String, Problem> {
        let session = self.visit.door().renewed(self.visit.session()).await?;
        self.visit = self.visit.at(session, self.uri.clone(), self.name.clone());
        // What the key may see can have changed.
        let (handler, _) = page_at(self.uri.path(), &self.visit)?;
        let sheet = handler(self.visit.clone()).await?;
        let mut text = String::new();
        for part in sheet.parts {
            let Some(id) = part.id else { continue };
            let version = part.version();
            if self.seen.insert(id.to_owned(), version.clone()).as_ref() == Some(&version) {
                continue;
            }
            let data = json!({"id": id, "version": version, "html": part.html.into_string()});
            text.push_str(&format!("event: part\ndata: {data}\n\n"));
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_that_of_one_page() {
        assert_eq!(fits("/messages/{id}", "/messages/msg_1"), Some("msg_1".to_owned()));
        assert_eq!(fits("/messages", "/messages"), Some(String::new()));
        for (pattern, path) in
            [("/messages/{id}", "/messages"), ("/messages", "/messages/"), ("/", "/messages")]
        {
            assert_eq!(fits(pattern, path), None, "{pattern} {path}");
        }
    }
}
