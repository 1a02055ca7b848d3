//! The function `process-email-queue`, as Supabase runs functions at its edge.
//!
//! Where it comes from, a clock calls it to have e-mails sent. Here they are sent as soon as they are due, so there is
//! little left to do: whoever calls waits for those that are due and is told what became of them.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use futures_util::future::{Either, select};
use http::{HeaderValue, StatusCode};
use pombo_kernel::block::BlockKind;
use pombo_kernel::id::MessageId;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::message::{State, StateName};
use pombo_kernel::name::ChannelName;
use pombo_kernel::time::Time;
use pombo_store::{Line, Place, StoreError};
use serde::Serialize;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::{Surface, json};
use crate::problem::{Code, Problem};
use crate::route::Call;
use crate::{Door, body, view};

/// How many e-mails are waited for.
const AT_ONCE: usize = 10;
/// The time between two looks at them.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Another node's work may be heard of late.
const LOOK_ANYWAY: Duration = Duration::from_millis(500);
/// Callers send `{}` or nothing; whatever it is, it changes nothing.
const BODY_BYTES_MAX: usize = 64 * 1024;

fn error(status: StatusCode, code: &str, message: &str) -> Response {
    json(status, &json!({"code": code, "message": message}))
}

/// Not the function speaks, but whoever stands before it: clients tell the two apart by this.
fn relayed(mut response: Response) -> Response {
    response.headers_mut().insert("x-relay-error", HeaderValue::from_static("true"));
    response
}

pub(super) fn keyless() -> Response {
    let message = "Missing authorization header";
    relayed(error(StatusCode::UNAUTHORIZED, "UNAUTHORIZED_NO_AUTH_HEADER", message))
}

/// A problem of ours, as Supabase would have told it.
pub(super) fn refusal(problem: &Problem) -> Response {
    let status = problem.code.status();
    match problem.code {
        Code::Unauthorized => relayed(error(status, "UNAUTHORIZED_INVALID_JWT_FORMAT", "Invalid JWT")),
        Code::NotFound => relayed(error(status, "NOT_FOUND", "Requested function was not found")),
        Code::StoreUnavailable | Code::ReadTooLong | Code::ShuttingDown => {
            relayed(error(status, "BOOT_ERROR", &problem.detail))
        }
        code => error(status, code.as_str(), &format!("{} ({})", problem.detail, problem.hint)),
    }
}

/// What became of the e-mails that were due.
#[derive(Serialize)]
struct Counts {
    /// Tried while somebody waited for them.
    processed: usize,
    sent: usize,
    failed: usize,
    /// Wait for another attempt, or for their channel.
    pending: usize,
}

/// Waits until up to ten e-mails that are due have been tried, and counts what became of them.
pub(crate) async fn process(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, .. } = call;
    body::whole(&door, &head.headers, body, BODY_BYTES_MAX).await?;
    let setup = door.setup();
    let is_mail = |kind| matches!(kind, ChannelKind::Resend | ChannelKind::Smtp);
    let channels = caller.channels_in(&setup).filter(|channel| is_mail(channel.kind));
    let within: Arc<[ChannelName]> = channels.map(|channel| channel.name.clone()).collect();
    let mut moves = door.store().watch();
    let now = door.now();
    let mut lines = door.store().underway(caller.tenant.clone(), within, now, AT_ONCE).await?;

    let before: BTreeMap<MessageId, u32> =
        lines.iter().map(|line| (line.message.id, line.progress.steps)).collect();
    let tried = |line: &Line| {
        let moved = before.get(&line.message.id).is_none_or(|steps| line.progress.steps > *steps);
        moved || !matches!(line.state, State::Pending { .. } | State::Sending { .. })
    };
    let stuck = stuck(&door, &lines, now).await?;
    let mut over = pin!(sleep(door.0.patience.queue));
    while !door.is_closing() && !lines.iter().all(|line| tried(line) || stuck.contains(&line.message.id)) {
        let moved = pin!(async {
            let _ = timeout(LOOK_ANYWAY, moves.changed()).await;
            sleep(LOOK_AGAIN).await;
        });
        if matches!(select(over.as_mut(), moved).await, Either::Left(_)) {
            break;
        }
        lines = door.store().lines(before.keys().copied().collect()).await?;
    }
    let count = |state: StateName| lines.iter().filter(|line| line.state.name() == state).count();
    let counts = Counts {
        processed: lines.iter().filter(|line| tried(line)).count(),
        sent: count(StateName::Sent),
        failed: count(StateName::Failed),
        pending: count(StateName::Pending) + count(StateName::Sending),
    };
    Ok(Surface::Function.for_browsers(view::ok(&counts)?))
}

fn due(line: &Line) -> Option<Time> {
    match line.state {
        State::Pending { due } => Some(due),
        _ => None,
    }
}

/// Which of the messages stand behind a block that nobody expects to end now.
async fn stuck(door: &Door, lines: &[Line], now: Time) -> Result<Vec<MessageId>, StoreError> {
    let waiting = || lines.iter().filter(|line| due(line).is_some());
    if door.store().paused().await?.is_some() {
        return Ok(waiting().map(|line| line.message.id).collect());
    }
    let blocks = door.store().blocks().await?;
    let lasting: Vec<&Place> = blocks
        .iter()
        .filter(|(_, block)| block.kind != BlockKind::Ramp && block.until.is_none_or(|until| until > now))
        .map(|(place, _)| place)
        .collect();
    let setup = door.setup();
    let is_stuck = |line: &&Line| {
        let queue = &line.message.queue;
        let unready = setup.channels.get(&queue.channel).is_none_or(|channel| channel.unready.is_some());
        let stands_before = |place: &&Place| {
            place.channel == queue.channel
                && place.destination.as_ref().is_none_or(|destination| *destination == queue.destination)
        };
        unready || lasting.iter().any(stands_before)
    };
    Ok(waiting().filter(is_stuck).map(|line| line.message.id).collect())
}
