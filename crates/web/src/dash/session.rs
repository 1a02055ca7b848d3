//! Who is logged in: sessions and the links by which one may begin, as documents under the digest of a secret.
//!
//! The secret of a session stands in a cookie, that of a link in its address; the store has neither. A session is of a
//! key, and is worth as much as that key is: one that was revoked, has expired or was rotated ends its sessions with it.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use pombo_kernel::message::Actor;
use pombo_kernel::name::Tenant;
use pombo_kernel::time::{Span, Time};
use pombo_store::audit::{Event, Record};
use pombo_store::shelf::{Doc, Expect, Leaf, Pick, Shelf, Shelve, Shelved, Wanted};
use pombo_store::transition::act_of;
use pombo_store::{Store, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::words::Lang;
use crate::Door;
use crate::auth::{Caller, unauthorized};
use crate::key::{digest, hex, unhex};
use crate::keys::Entropy;
use crate::problem::{Code, Problem};
use crate::shelf;

const COOKIE: &str = "pombo_session";
/// Where requests come over HTTPS: a browser takes it from this host alone, and neither from a sibling nor over HTTP.
const COOKIE_OF_HOST: &str = "__Host-pombo_session";

/// A session ends so long after its last request.
const IDLE: Span = Span::from_hours(12);
/// And so long after it began.
const LONGEST: Span = Span::from_hours(7 * 24);
/// That it is in use is written down this often at most.
const NOTE_USE: Span = Span::from_mins(10);
/// How long a link can be used.
const LINK: Span = Span::from_mins(10);
/// How many that have ended are removed whenever somebody logs in.
const SWEPT: usize = 20;

/// The look that somebody chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Theme {
    Light,
    Dark,
}

/// What is told once, on the page that is looked at next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Flash {
    pub(crate) good: bool,
    pub(crate) text: String,
}

/// A document of the shelf.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Paper {
    Session(Ticket),
    Link {
        /// The digest of the key in whose name it lets in.
        key: String,
        created_at: Time,
    },
}

/// A session as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ticket {
    /// The digest of its key.
    key: String,
    key_id: String,
    created_at: Time,
    /// To a few minutes.
    seen_at: Time,
    /// What every form of the session carries, and nobody else knows.
    csrf: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lang: Option<Lang>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) theme: Option<Theme>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) flash: Option<Flash>,
}

impl Ticket {
    fn ends_at(&self) -> Time {
        (self.seen_at + IDLE).min(self.created_at + LONGEST)
    }
}

/// A session that is good, and whose it is.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    doc: Arc<Doc>,
    pub(crate) ticket: Ticket,
    pub(crate) caller: Arc<Caller>,
}

impl Session {
    /// What stands in every form.
    pub(crate) fn csrf(&self) -> &str {
        &self.ticket.csrf
    }

    /// Whether a form was made for this session. It takes as long for a wrong guess as for a right one.
    pub(crate) fn is_ours(&self, token: &str) -> bool {
        let own = self.ticket.csrf.as_bytes();
        let differing = own.iter().zip(token.as_bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
        token.len() == own.len() && differing == 0
    }
}

fn house() -> Tenant {
    Tenant::default()
}

fn place(secret: &str) -> String {
    hex(&digest(secret))
}

fn wish(id: &str, paper: &Paper, expect: Expect, record: Option<Record>) -> Shelve {
    let (order, topic, due) = match paper {
        Paper::Session(ticket) => (ticket.created_at, Some(ticket.key_id.clone()), ticket.ends_at()),
        Paper::Link { created_at, .. } => (*created_at, None, *created_at + LINK),
    };
    let body = serde_json::to_string(paper).unwrap_or_default();
    let leaf = Leaf { order: order.millis(), topic, due: Some(due), body };
    Shelve { shelf: Shelf::Session, tenant: house(), id: id.to_owned(), expect, leaf: Some(leaf), record }
}

fn removal(doc: &Doc, record: Option<Record>) -> Shelve {
    Shelve {
        shelf: Shelf::Session,
        tenant: house(),
        id: doc.id.clone(),
        expect: Expect::Version(doc.version),
        leaf: None,
        record,
    }
}

fn read(doc: &Doc) -> Option<Paper> {
    serde_json::from_str(&doc.leaf.body).ok()
}

fn cookie_name(secure: bool) -> &'static str {
    if secure { COOKIE_OF_HOST } else { COOKIE }
}

/// The secret in a request's cookie of that name, if it has one.
fn cookie<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    let pairs = headers.get_all(http::header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    pairs.flat_map(|text| text.split(';')).find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == wanted && value.len() == 64).then_some(value)
    })
}

/// A cookie with that secret, or none any more.
pub(crate) fn set_cookie(secret: Option<&str>, secure: bool) -> String {
    let name = cookie_name(secure);
    let (value, age) = secret.map_or(("", 0), |secret| (secret, LONGEST.millis() / 1_000));
    let secure = if secure { "; Secure" } else { "" };
    format!("{name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Lax{secure}")
}

/// Makes a link for the holder of that key, which need not be known yet, and answers the secret of it.
pub async fn make_link(
    store: &dyn Store,
    key: &[u8; 32],
    entropy: &Entropy,
    now: Time,
) -> Result<String, StoreError> {
    let secret = hex(&entropy());
    let paper = Paper::Link { key: hex(key), created_at: now };
    match shelf::put(store, wish(&place(&secret), &paper, Expect::Nothing, None)).await? {
        Shelved::Done { .. } => Ok(secret),
        Shelved::Conflict(_) => Err(StoreError::Again("a link could not be made".to_owned())),
    }
}

/// Where somebody with that link begins.
pub fn link_path(secret: &str) -> String {
    format!("/login?link={secret}")
}

/// How long a link can be used, for whoever tells.
pub const LINK_LASTS: Span = LINK;

impl Door {
    /// Whether people reach us over HTTPS, as far as is known: by what is configured, or by what stands in front.
    pub(crate) fn is_secure(&self, headers: &HeaderMap) -> bool {
        let forwarded = headers.get("x-forwarded-proto").and_then(|value| value.to_str().ok());
        let public = self.setup().alerts.public_url.as_ref().is_some_and(|url| url.starts_with("https:"));
        public || forwarded.is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"))
    }

    /// The session of a request; nothing if it has none that is good.
    pub(crate) async fn session(&self, headers: &HeaderMap) -> Result<Option<Session>, Problem> {
        let Some(secret) = cookie(headers, cookie_name(self.is_secure(headers))) else { return Ok(None) };
        let Some(doc) = self.store().doc(Shelf::Session, house(), place(secret)).await? else {
            return Ok(None);
        };
        let Some(Paper::Session(ticket)) = read(&doc) else { return Ok(None) };
        if ticket.ends_at() <= self.now() {
            return Ok(None);
        }
        let Some(key) = unhex(&ticket.key) else { return Ok(None) };
        match self.caller_by_digest(&key).await {
            Ok(caller) => Ok(Some(Session { doc: Arc::new(doc), ticket, caller })),
            Err(problem) if problem.code == Code::Unauthorized => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    /// Whether the session of a page that is still being told of news is good by now, and what its key may see.
    pub(crate) async fn renewed(&self, session: &Session) -> Result<Session, Problem> {
        let over = || unauthorized("the session is over");
        let doc =
            self.store().doc(Shelf::Session, house(), session.doc.id.clone()).await?.ok_or_else(over)?;
        let Some(Paper::Session(ticket)) = read(&doc) else { return Err(over()) };
        let caller = self.still_knows(&session.caller).await?;
        match ticket.ends_at() > self.now() {
            true => Ok(Session { doc: Arc::new(doc), ticket, caller }),
            false => Err(over()),
        }
    }

    /// Notes that a session is in use: now and then, and never failing what it is used for.
    pub(crate) async fn note_visit(&self, session: &Session) {
        let now = self.now();
        if now.since(session.ticket.seen_at) < NOTE_USE {
            return;
        }
        if let Err(problem) = self.change_session(session, |ticket| ticket.seen_at = now).await {
            tracing::debug!(code = problem.code.as_str(), "the use of a session was not written down");
        }
    }

    /// Changes a session, unless it is over by then.
    pub(crate) async fn change_session(
        &self,
        session: &Session,
        change: impl Fn(&mut Ticket),
    ) -> Result<(), Problem> {
        shelf::change(self.store(), Some((*session.doc).clone()), |doc| {
            let Some((doc, Paper::Session(mut ticket))) = doc.and_then(|doc| Some((doc, read(doc)?))) else {
                return Ok((None, ()));
            };
            change(&mut ticket);
            let wanted = wish(&doc.id, &Paper::Session(ticket), Expect::Version(doc.version), None);
            Ok::<_, StoreError>((Some(wanted), ()))
        })
        .await
        .map_err(Problem::from)
    }

    /// Begins a session for whoever holds the key, and answers its secret.
    pub(crate) async fn log_in(
        &self,
        caller: &Caller,
        by: &str,
        lang: Option<Lang>,
    ) -> Result<String, Problem> {
        let (now, secret) = (self.now(), hex(&self.entropy()()));
        let ticket = Ticket {
            key: hex(&caller.digest.0),
            key_id: caller.key_id.clone(),
            created_at: now,
            seen_at: now,
            csrf: hex(&self.entropy()()),
            lang,
            theme: None,
            flash: None,
        };
        let record = record(Event::LoggedIn, caller, &json!({"key": caller.key_id, "by": by}), now);
        let wanted = wish(&place(&secret), &Paper::Session(ticket), Expect::Nothing, Some(record));
        match shelf::put(self.store(), wanted).await? {
            Shelved::Done { .. } => {}
            Shelved::Conflict(_) => return Err(Problem::internal()),
        }
        tracing::info!(key_id = caller.key_id, by, "logged in");
        self.sweep().await?;
        Ok(secret)
    }

    /// Ends a session.
    pub(crate) async fn log_out(&self, session: &Session) -> Result<(), Problem> {
        let caller = &session.caller;
        let record = record(Event::LoggedOut, caller, &json!({"key": caller.key_id}), self.now());
        shelf::change(self.store(), Some((*session.doc).clone()), |doc| {
            Ok::<_, StoreError>((doc.map(|doc| removal(doc, Some(record.clone()))), ()))
        })
        .await?;
        tracing::info!(key_id = caller.key_id, "logged out");
        Ok(())
    }

    /// Uses a link up, and answers in whose name it lets in. Of two who use it at once, one comes in.
    pub(crate) async fn use_link(&self, secret: &str, from: Option<IpAddr>) -> Result<Arc<Caller>, Problem> {
        const USED: &str = "this link was used, or is older than ten minutes";
        let used = || unauthorized(USED);
        let found = self.store().doc(Shelf::Session, house(), place(secret)).await?;
        let Some((doc, Paper::Link { key, created_at })) =
            found.and_then(|doc| read(&doc).map(|it| (doc, it)))
        else {
            return Err(self.wrong_guess(secret, from, USED));
        };
        let fresh = self.now().since(created_at) < LINK && self.now() >= created_at;
        let Some(key) = unhex(&key).filter(|_| fresh) else { return Err(used()) };
        match shelf::put(self.store(), removal(&doc, None)).await? {
            Shelved::Done { .. } => self.caller_by_digest(&key).await,
            Shelved::Conflict(_) => Err(used()),
        }
    }

    /// Removes a few of those that have ended, so that their number is bounded by how often somebody logs in.
    async fn sweep(&self) -> Result<(), StoreError> {
        let pick = Pick::Due { from: Time::default(), until: self.now(), after: None };
        let wanted = Wanted { shelf: Shelf::Session, tenant: Some(house()), pick, limit: SWEPT };
        let ended = self.store().docs(wanted).await?;
        if !ended.is_empty() {
            self.store().shelve(ended.iter().map(|doc| removal(doc, None)).collect()).await?;
        }
        Ok(())
    }
}

fn record(event: Event, caller: &Caller, detail: &serde_json::Value, now: Time) -> Record {
    let by: Actor = caller.actor();
    act_of(event, &caller.tenant, &by, detail, now)
}
