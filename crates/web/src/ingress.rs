//! Doors in the manner of other systems, so that an application which speaks to one of them gains durable retry by
//! changing an address and a key.
//!
//! Each answers as the system does that it stands in for, errors included. What it takes in is checked and stored like
//! any other message.

pub(crate) mod evolution;
mod members;
pub(crate) mod queue;
pub(crate) mod resend;
pub mod smtp;
pub(crate) mod supabase;

use std::sync::Arc;

use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::message::{Draft, Idempotency};
use pombo_kernel::setup::{ChannelSetup, Setup};
use pombo_store::Accepted;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::Door;
use crate::api::messages::conflicting;
use crate::auth::{Caller, bearer};
use crate::problem::{Code, Problem};
use crate::trail::Trail;
use crate::{idempotency, view};

/// Whose manner a door has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Surface {
    Resend,
    Evolution,
    /// A function of the database, as PostgREST offers it.
    Rest,
    /// A function at the edge of Supabase.
    Function,
}

impl Surface {
    /// Whose address it is, whether there is something at it or not.
    pub(crate) fn at(path: &str) -> Option<Surface> {
        let first = |words: &str| {
            path.strip_prefix(words).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        match () {
            () if first("/emails") => Some(Surface::Resend),
            () if first("/message") => Some(Surface::Evolution),
            () if first("/rest/v1") => Some(Surface::Rest),
            () if first("/functions/v1") => Some(Surface::Function),
            () => None,
        }
    }

    /// The key, where clients of this surface put it.
    pub(crate) fn key(self, headers: &HeaderMap) -> Option<&str> {
        let apikey = || headers.get("apikey")?.to_str().ok().map(str::trim).filter(|key| !key.is_empty());
        match self {
            Surface::Resend => bearer(headers).ok(),
            Surface::Evolution => apikey(),
            // Supabase's clients send the key in both places, or a person's token in the second.
            Surface::Rest | Surface::Function => apikey().or_else(|| bearer(headers).ok()),
        }
    }

    /// What somebody without a key is told.
    pub(crate) fn keyless(self) -> Response {
        self.for_browsers(match self {
            Surface::Resend => resend::keyless(),
            Surface::Evolution => evolution::unauthorized(),
            Surface::Rest => supabase::keyless(),
            Surface::Function => queue::keyless(),
        })
    }

    /// A problem, as this surface tells it.
    pub(crate) fn tell(self, problem: &Problem) -> Response {
        let mut response = match self {
            Surface::Resend => resend::refusal(problem),
            Surface::Evolution => evolution::refusal(problem),
            Surface::Rest => supabase::refusal(problem),
            Surface::Function => queue::refusal(problem),
        };
        if let Some(seconds) = problem.code.retry_after() {
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        self.for_browsers(response)
    }

    /// There is nothing at this address, or nothing for this method.
    pub(crate) fn lost(self, head: &Parts, code: Code) -> Response {
        match self {
            Surface::Evolution => evolution::lost(head),
            Surface::Rest if code == Code::NotFound => supabase::no_function(head.uri.path()),
            _ => {
                let hint = "see to the method and the path; /docs shows what there is";
                self.tell(&Problem::new(code, "there is nothing of that kind at this address", hint))
            }
        }
    }

    /// Supabase's clients also run in browsers, on pages from elsewhere.
    pub(crate) fn for_browsers(self, mut response: Response) -> Response {
        if matches!(self, Surface::Rest | Surface::Function) {
            response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        }
        response
    }
}

/// What a browser is told before it calls: that it may, and with which headers.
pub(crate) fn preflight() -> Response {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (header::ACCESS_CONTROL_ALLOW_METHODS, "POST, OPTIONS"),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "authorization, x-client-info, apikey, content-type, content-profile, accept-profile, prefer, idempotency-key",
        ),
        (header::ACCESS_CONTROL_MAX_AGE, "3600"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn json(status: StatusCode, document: &Value) -> Response {
    view::answer(status, document.to_string().into_bytes())
}

/// The channel for an e-mail that names none: the one that the key names, and no other if that is gone; for keys that
/// name none the first of Resend, else of SMTP, those that can send before the others.
fn mail_channel(caller: &Caller, setup: &Setup) -> Option<Arc<ChannelSetup>> {
    const KINDS: [ChannelKind; 2] = [ChannelKind::Resend, ChannelKind::Smtp];
    let named = KINDS.iter().find(|kind| caller.defaults.contains_key(kind.as_str()));
    if let Some(kind) = named {
        return caller.default_channel(*kind, setup);
    }
    let all =
        || KINDS.iter().flat_map(|kind| caller.channels_in(setup).filter(|channel| channel.kind == *kind));
    all().find(|channel| channel.unready.is_none()).or_else(|| all().next()).cloned()
}

fn no_mail_channel() -> Problem {
    Problem::new(
        Code::UnknownChannel,
        "no channel sends e-mail for this key",
        "configure a channel of the kind resend or smtp, or let the key use one",
    )
}

/// A request that is longer than this is the same again only byte for byte.
const LONG_BYTES: usize = 1024 * 1024;

/// A key with the digest of the request that it came with.
fn keyed(key: String, request: &[u8]) -> Idempotency {
    if request.len() <= LONG_BYTES {
        return idempotency::of(key, request);
    }
    let mut fingerprint = [0; 16];
    fingerprint.copy_from_slice(&Sha256::digest(request)[..16]);
    Idempotency { key, fingerprint }
}

/// Stores the drafts of one request, in their order, each under its part of the request's key if that has one.
///
/// The first one carries the key. If that belongs to another request, nothing is stored, and if we die right after it,
/// the caller has had no answer and a repeat stores the rest.
async fn accept(door: &Door, head: &Parts, drafts: Vec<Draft>) -> Result<Vec<Accepted>, Problem> {
    let mut groups = vec![Vec::new(), Vec::new()];
    for (n, draft) in drafts.into_iter().enumerate() {
        groups[usize::from(draft.idempotency.is_some() && n > 0)].push(draft);
    }
    let mut accepted = Vec::new();
    for group in groups.into_iter().filter(|group| !group.is_empty()) {
        for answer in door.accept(group, Trail::of(head)).await? {
            accepted.push(answer.map_err(conflicting)?);
        }
    }
    Ok(accepted)
}

/// The key of one part of a request, by its number and its place, of which no two parts have the same. The character
/// between cannot stand in a caller's key.
fn part(whole: &Idempotency, n: usize, place: &str) -> Idempotency {
    let key = match n {
        0 => whole.key.clone(),
        _ => format!("{}\u{1f}{place}", whole.key),
    };
    let mut fingerprint = [0; 16];
    let digest = Sha256::new().chain_update(whole.fingerprint).chain_update(place).finalize();
    fingerprint.copy_from_slice(&digest[..16]);
    Idempotency { key, fingerprint }
}
