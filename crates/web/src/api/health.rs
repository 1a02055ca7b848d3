//! Whether the process is alive, and whether it is of use.

use std::borrow::Cow;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use pombo_kernel::block::BlockKind;
use pombo_kernel::name::ChannelName;
use pombo_store::{Pause, StoreError};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::Door;
use crate::problem::{Code, Problem};
use crate::view;

const STORE_PATIENCE: Duration = Duration::from_secs(2);

/// Channels that are named in one check.
const NAMED: usize = 20;

/// One thing that was looked at. No secret and nobody's name or address may stand in it, since anybody may ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Check {
    pub name: &'static str,
    pub ok: bool,
    /// It is not well, and messages can be taken in all the same.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub warning: bool,
    pub detail: Cow<'static, str>,
}

impl Check {
    pub fn well(name: &'static str, detail: impl Into<Cow<'static, str>>) -> Check {
        Check { name, ok: true, warning: false, detail: detail.into() }
    }

    /// Something that a person should see to, and that keeps nobody from handing in messages.
    pub fn warning(name: &'static str, detail: impl Into<Cow<'static, str>>) -> Check {
        Check { name, ok: false, warning: true, detail: detail.into() }
    }

    fn wrong(name: &'static str, detail: impl Into<Cow<'static, str>>) -> Check {
        Check { name, ok: false, warning: false, detail: detail.into() }
    }
}

/// A node that is ready.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Readiness")]
pub(crate) struct ReadyView {
    /// `ready`.
    status: &'static str,
    /// `paused` if nothing is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    sending: Option<&'static str>,
    checks: Vec<Check>,
}

/// The process answers: there is nothing to restart.
pub(crate) async fn alive() -> Result<Response, Problem> {
    Ok(view::answer(StatusCode::OK, b"{\"status\":\"ok\"}".to_vec()))
}

/// Messages can be taken in: the store can be written and answers, and the node is not stopping. What else is not well
/// is told beside it.
pub(crate) async fn ready(door: Door) -> Result<Response, Problem> {
    let mut checks = Vec::new();
    let mut problem = None;
    if door.is_closing() {
        checks.push(Check::wrong("node", "it is stopping and takes nothing new"));
        problem = Some(Problem::shutting_down());
    }
    match writable(&door) {
        Ok(()) => checks.push(Check::well("store", "it can be written")),
        Err(wrong) => {
            checks.push(Check::wrong("store", wrong.detail.clone()));
            problem = problem.or(Some(wrong));
        }
    }
    let mut paused = false;
    match reached(&door).await {
        Ok((pause, held)) => {
            paused = pause.is_some();
            checks.push(Check::well("database", "it answers"));
            checks.push(match pause {
                // Why it is stays with those who have a key.
                Some(Pause { since, .. }) => Check::warning("sending", format!("paused since {since}")),
                None => Check::well("sending", "it goes on"),
            });
            checks.push(channels(&held));
        }
        Err(wrong) => {
            checks.push(Check::wrong("database", wrong.detail.clone()));
            problem = problem.or(Some(wrong));
        }
    }
    checks.extend(door.0.signs.get().into_iter().flatten().map(|sign| sign()));
    match problem {
        None => view::ok(&ReadyView { status: "ready", sending: paused.then_some("paused"), checks }),
        Some(problem) => Ok(unready(problem, &checks)),
    }
}

/// The problem as it would be told anywhere, with everything that was looked at.
fn unready(problem: Problem, checks: &[Check]) -> Response {
    let mut document = serde_json::to_value(&problem).unwrap_or_default();
    if let Value::Object(members) = &mut document {
        members.insert("checks".to_owned(), json!(checks));
    }
    let mut response = problem.into_response();
    *response.body_mut() = Body::from(document.to_string());
    response
}

fn unavailable(detail: impl Into<Cow<'static, str>>) -> Problem {
    let hint = "look at the disk of the data folder, or at the database, and at the server's log";
    Problem::new(Code::StoreUnavailable, detail, hint)
}

/// Whether the last try to write worked.
fn writable(door: &Door) -> Result<(), Problem> {
    if door.store().broken().borrow().is_some() {
        return Err(unavailable("the store failed; the server must be restarted"));
    }
    match door.store().health() {
        // The store's own words, since whoever asks here wants to know what to do about it.
        Err(StoreError::Unavailable(why)) => {
            Err(unavailable(format!("the store cannot be written for now: {why}")))
        }
        other => Ok(other?),
    }
}

/// Asks the store whether anything is sent, and which channels are held.
async fn reached(door: &Door) -> Result<(Option<Pause>, Vec<ChannelName>), Problem> {
    let asked = async { tokio::try_join!(door.store().paused(), door.store().blocks()) };
    let (paused, blocks) = match tokio::time::timeout(STORE_PATIENCE, asked).await {
        Ok(answered) => answered?,
        Err(_) => return Err(unavailable("the store does not answer")),
    };
    let held = |kind| matches!(kind, BlockKind::Hold | BlockKind::Operator);
    let mut channels: Vec<ChannelName> =
        blocks.into_iter().filter(|(_, block)| held(block.kind)).map(|(place, _)| place.channel).collect();
    channels.sort_unstable();
    channels.dedup();
    Ok((paused, channels))
}

/// Channels alone: a destination may be somebody's number, and a reason somebody's words.
fn channels(held: &[ChannelName]) -> Check {
    if held.is_empty() {
        return Check::well("channels", "none is held");
    }
    let names: Vec<&str> = held.iter().take(NAMED).map(ChannelName::as_str).collect();
    let more = if held.len() > NAMED { ", …" } else { "" };
    Check::warning("channels", format!("held, or some of their destinations: {}{more}", names.join(", ")))
}
