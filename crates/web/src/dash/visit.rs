//! Somebody who is logged in and looks at a page.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::response::Response;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Uri};
use pombo_kernel::time::Time;
use pombo_kernel::window::Zone;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::form::not_ours;
use super::session::{Flash, Session, Theme};
use super::sheet::Sheet;
use super::words::Lang;
use crate::Door;
use crate::auth::Caller;
use crate::key::hex;
use crate::problem::Problem;
use crate::route;

/// The largest answer of the API that a page is made of.
const ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// A request by somebody who is logged in. Clones are the same visit.
#[derive(Clone)]
pub(crate) struct Visit(Arc<Inner>);

struct Inner {
    door: Door,
    session: Session,
    head: Parts,
    name: String,
    look: Look,
}

/// How things are shown to somebody: in which language, by whose clock.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) lang: Lang,
    pub(crate) zone: Zone,
    pub(crate) now: Time,
    /// What every form carries.
    pub(crate) csrf: Arc<str>,
}

impl Look {
    /// What was wrong, to be told once.
    pub(crate) fn trouble(&self, problem: &Problem) -> Flash {
        let said = match (problem.detail.as_ref(), problem.hint.as_ref()) {
            ("", _) => String::new(),
            (detail, "") => format!(": {detail}"),
            (detail, hint) => format!(": {detail}; {hint}"),
        };
        Flash { good: false, text: format!("{}{said}", self.lang.problem(problem.code)) }
    }
}

/// What comes of a form.
pub(crate) enum Reply {
    /// Another page, and what is told there.
    To(String, Option<Flash>),
    /// A page at once: a form that has to be filled in anew, or something that is shown only now.
    Sheet(Sheet),
    Raw(Response),
}

impl Reply {
    /// Another page, which says that it was done.
    pub(crate) fn done(path: impl Into<String>, text: impl Into<String>) -> Reply {
        Reply::To(path.into(), Some(Flash { good: true, text: text.into() }))
    }
}

impl Visit {
    pub(crate) fn new(door: Door, session: Session, head: Parts, name: String) -> Visit {
        let look = Look {
            lang: session.ticket.lang.unwrap_or_else(|| Lang::of(&head.headers)),
            zone: door.setup().dashboard.zone.clone(),
            now: door.now(),
            csrf: session.csrf().into(),
        };
        Visit(Arc::new(Inner { door, session, head, name, look }))
    }

    /// The same person at another address, at this time.
    pub(crate) fn at(&self, session: Session, uri: Uri, name: String) -> Visit {
        let mut head = self.0.head.clone();
        head.uri = uri;
        Visit::new(self.0.door.clone(), session, head, name)
    }

    pub(crate) fn door(&self) -> &Door {
        &self.0.door
    }

    pub(crate) fn session(&self) -> &Session {
        &self.0.session
    }

    pub(crate) fn caller(&self) -> &Arc<Caller> {
        &self.0.session.caller
    }

    pub(crate) fn look(&self) -> &Look {
        &self.0.look
    }

    pub(crate) fn lang(&self) -> Lang {
        self.0.look.lang
    }

    pub(crate) fn theme(&self) -> Option<Theme> {
        self.0.session.ticket.theme
    }

    pub(crate) fn head(&self) -> &Parts {
        &self.0.head
    }

    /// What stands in the braces of the page's path.
    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn path(&self) -> &str {
        self.0.head.uri.path()
    }

    /// The address of the page, with what stands behind the `?`.
    pub(crate) fn here(&self) -> &str {
        self.0.head.uri.path_and_query().map_or("/", |it| it.as_str())
    }

    /// What stands behind the `?`, in order, without what is empty.
    pub(crate) fn query(&self) -> Vec<(String, String)> {
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&self.0.head.uri);
        let pairs = pairs.map(|it| it.0).unwrap_or_default();
        pairs.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }

    /// What is given under that name behind the `?`.
    pub(crate) fn asked(&self, name: &str) -> Option<String> {
        self.query().into_iter().rev().find(|(given, _)| given == name).map(|(_, value)| value)
    }

    /// Whether the API would let this person do that: what may not be done is not offered.
    pub(crate) fn may(&self, method: &Method, path: &str) -> bool {
        route::access_of(method, path).is_some_and(|access| access.allows(self.caller().role))
    }

    /// What the API answers when this person asks it: by the same rights, behind the same masks.
    ///
    /// `path` is a route of the API as its table has it, `name` what stands in its braces.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        path: &'static str,
        name: &str,
        query: &str,
    ) -> Result<T, Problem> {
        read(self.through(Method::GET, path, name, query, None).await?).await
    }

    /// Has the API do something for this person, as if the body had been sent to it.
    pub(crate) async fn act(
        &self,
        method: Method,
        path: &'static str,
        name: &str,
        body: &Value,
    ) -> Result<Value, Problem> {
        self.act_at(method, path, name, "", body).await
    }

    /// The same, with what stands behind the `?` of the API's address.
    pub(crate) async fn act_at(
        &self,
        method: Method,
        path: &'static str,
        name: &str,
        query: &str,
        body: &Value,
    ) -> Result<Value, Problem> {
        read(self.through(method, path, name, query, Some(body)).await?).await
    }

    /// The API's answer as it is, for what is handed on: an export, a stream.
    pub(crate) async fn through(
        &self,
        method: Method,
        path: &'static str,
        name: &str,
        query: &str,
        body: Option<&Value>,
    ) -> Result<Response, Problem> {
        self.inside(self.asked_of(method, path, name, query, body)).await
    }

    /// A word for a form that begins something, so that clicking twice is clicking once.
    pub(crate) fn once(&self) -> String {
        hex(&self.0.door.entropy()()[..16])
    }

    /// Begins something under the word that its form came with: the same again is answered as before.
    pub(crate) async fn act_once(
        &self,
        once: Option<&str>,
        path: &'static str,
        body: &Value,
    ) -> Result<Value, Problem> {
        let once = once.map(HeaderValue::from_str).transpose().map_err(|_| not_ours())?;
        let asked = self.asked_of(Method::POST, path, "", "", Some(body));
        read(self.inside(route::Asked { once, ..asked }).await?).await
    }

    fn asked_of<'a>(
        &self,
        method: Method,
        path: &'static str,
        name: &'a str,
        query: &'a str,
        body: Option<&Value>,
    ) -> route::Asked<'a> {
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let extensions = self.0.head.extensions.clone();
        route::Asked { method, path, name, query, extensions, media: "application/json", body, once: None }
    }

    async fn inside(&self, asked: route::Asked<'_>) -> Result<Response, Problem> {
        route::inside(&self.0.door, self.caller(), asked).await
    }

    /// Hands a file of that type to the API, as if it had been posted there.
    pub(crate) async fn hand<T: DeserializeOwned>(
        &self,
        path: &'static str,
        name: &str,
        query: &str,
        (media, file): (&'static str, Bytes),
    ) -> Result<T, Problem> {
        let asked = self.asked_of(Method::POST, path, name, query, None);
        read(self.inside(route::Asked { media, body: Body::from(file), ..asked }).await?).await
    }

    /// Whether a page is wanted, rather than what has changed of one.
    pub(crate) fn wants_page(&self) -> bool {
        super::wants_page(&self.0.head.headers)
    }

    /// Another page, which says that it was done, or what was wrong.
    pub(crate) fn back_to(&self, path: impl Into<String>, done: Result<String, Problem>) -> Reply {
        match done {
            Ok(words) => Reply::done(path, words),
            Err(problem) => Reply::To(path.into(), Some(self.look().trouble(&problem))),
        }
    }

    /// What is to be told on this page, and on no other.
    pub(crate) async fn take_flash(&self) -> Option<Flash> {
        let flash = self.0.session.ticket.flash.clone()?;
        match self.0.door.change_session(&self.0.session, |ticket| ticket.flash = None).await {
            Ok(()) => Some(flash),
            Err(_) => None,
        }
    }

    /// Goes on to another page, where this is told.
    pub(crate) async fn leave_flash(&self, path: &str, flash: Option<Flash>) -> Result<Response, Problem> {
        if let Some(flash) = flash {
            let told = |ticket: &mut super::session::Ticket| ticket.flash = Some(flash.clone());
            self.0.door.change_session(&self.0.session, told).await?;
        }
        Ok(super::to(path))
    }
}

async fn read<T: DeserializeOwned>(response: Response) -> Result<T, Problem> {
    let bytes = to_bytes(response.into_body(), ANSWER_BYTES).await.map_err(|_| Problem::internal())?;
    let text: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
    serde_json::from_slice(text).map_err(|error| {
        tracing::error!(%error, "a page does not understand what the API answers");
        Problem::internal()
    })
}
