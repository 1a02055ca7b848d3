//! The store as a whole: whether anything is sent from it.

use axum::response::Response;
use pombo_kernel::time::Time;
use pombo_store::Pause;
use schemars::JsonSchema;
use serde::Serialize;

use super::fields::Fields;
use crate::Door;
use crate::problem::Problem;
use crate::route::Call;
use crate::{body, view};

const BODY_BYTES: usize = 16 * 1024;

/// Why nothing is sent, and since when.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Pause")]
pub(crate) struct PauseView {
    since: Time,
    reason: String,
    hint: &'static str,
}

impl From<Pause> for PauseView {
    fn from(pause: Pause) -> PauseView {
        let hint =
            "see which of the waiting messages were sent already and cancel those; then `pombo store resume`";
        PauseView { since: pause.since, reason: pause.why, hint }
    }
}

/// Whether anything is sent.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "StoreStanding")]
pub(crate) struct StandingView {
    /// Null if messages are sent as usual.
    paused: Option<PauseView>,
}

/// Whether anything is sent.
pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    standing(&call.door).await
}

/// Sends nothing more, of anybody's. Messages are still accepted, and what is being sent is finished.
pub(crate) async fn pause(call: Call) -> Result<Response, Problem> {
    call.caller.may_keep_house()?;
    let Call { door, caller, head, body, .. } = call;
    let mut fields = Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?;
    let reason = fields.line("reason", 500);
    if reason.is_none() {
        fields.wrong("reason", "is missing", "say why, for whoever wonders why nothing is sent");
    }
    fields.end()?;
    door.store().pause(reason.unwrap_or_default(), caller.actor()).await?;
    tracing::warn!(key_id = caller.key_id, "the store was paused by an operator: nothing is sent");
    standing(&door).await
}

/// Lets everything go on. Nothing paused is no error.
pub(crate) async fn resume(call: Call) -> Result<Response, Problem> {
    call.caller.may_keep_house()?;
    let Call { door, caller, head, body, .. } = call;
    Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?.end()?;
    let resumed = door.store().resume(caller.actor()).await?;
    tracing::info!(key_id = caller.key_id, resumed, "the store was resumed by an operator");
    standing(&door).await
}

async fn standing(door: &Door) -> Result<Response, Problem> {
    view::ok(&StandingView { paused: door.store().paused().await?.map(PauseView::from) })
}
