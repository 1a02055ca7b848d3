//! What providers report of messages that they took.

use std::pin::pin;
use std::time::Duration;

use axum::response::Response;
use futures_util::future::{Either, select};
use pombo_kernel::delivery::{Report, evolution, resend};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::setup::ChannelSetup;
use pombo_store::Reported;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tokio::time::sleep;

use crate::Door;
use crate::problem::{Code, Problem};
use crate::proof::Proven;
use crate::view;

/// How long a report may wait for the message that it is about: a fast provider reports before the result of the
/// send is written down.
const WAIT: Duration = Duration::from_secs(2);
/// The shortest time between two looks, doubled each time: a busy store moves all the time.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
/// Requests that may wait like that at once.
pub(crate) const WAITERS: usize = 64;

/// What became of the reports in one request.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(rename = "ReceiptCounts")]
pub(crate) struct Counts {
    /// Reports that moved a message's delivery.
    moved: usize,
    /// Reports that said nothing new.
    kept: usize,
    /// Reports on messages that are not known.
    unknown: usize,
}

/// Takes in the reports of one request. What is no report on a message is answered as well, and left alone.
pub(crate) async fn take(proven: Proven) -> Result<Response, Problem> {
    let Proven { door, channel, body } = proven;
    if door.is_closing() {
        return Err(Problem::shutting_down());
    }
    let said: Value = serde_json::from_slice(&body).map_err(|_| {
        Problem::new(Code::InvalidJson, "the body is not JSON", "send the provider's webhook as it came")
    })?;
    let mut unknown = reports(channel.kind, &said);
    let mut counts = Counts::default();
    let mut moves = door.store().watch();
    let mut over = pin!(sleep(WAIT));
    let mut pause = FIRST_PAUSE;
    let mut seat = None;
    while !unknown.is_empty() {
        unknown = tell(&door, &channel, unknown, &mut counts).await?;
        seat = seat.or_else(|| door.0.waiters.try_acquire().ok());
        if unknown.is_empty() || seat.is_none() {
            break;
        }
        let wait = sleep(pause);
        pause *= 2;
        let moved = pin!(async {
            let moved = moves.changed().await;
            wait.await;
            moved
        });
        if !matches!(select(over.as_mut(), moved).await, Either::Right((Ok(()), _))) {
            break;
        }
    }
    counts.unknown = unknown.len();
    view::ok(&counts)
}

fn reports(kind: ChannelKind, said: &Value) -> Vec<Report> {
    match kind {
        ChannelKind::Evolution => evolution::reports(said),
        ChannelKind::Resend => resend::report(said).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Hands reports to the store; those whose message is not known come back.
async fn tell(
    door: &Door,
    channel: &ChannelSetup,
    reports: Vec<Report>,
    counts: &mut Counts,
) -> Result<Vec<Report>, Problem> {
    let answers = door.store().report(channel.name.clone(), reports.clone()).await?;
    let mut unknown = Vec::new();
    for (report, answer) in reports.into_iter().zip(answers) {
        match answer {
            Reported::Unknown => unknown.push(report),
            Reported::Kept => counts.kept += 1,
            Reported::Moved { id, to, .. } => {
                counts.moved += 1;
                tracing::info!(message_id = %id, channel = %channel.name, delivery = %to, "reported");
            }
        }
    }
    Ok(unknown)
}
