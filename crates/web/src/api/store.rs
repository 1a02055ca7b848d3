//! The store as a whole: whether anything is sent from it, and what leaves it.

use std::collections::BTreeMap;

use axum::response::Response;
use pombo_kernel::name::ChannelName;
use pombo_kernel::operation::{Kind, Operation, Stage};
use pombo_kernel::time::{Span, Time};
use pombo_store::Pause;
use schemars::JsonSchema;
use serde::Serialize;

use super::fields::Fields;
use super::operations::begin;
use crate::Door;
use crate::problem::Problem;
use crate::route::Call;
use crate::{body, idempotency, operation, view};

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
    let reason = fields.remark("reason", 500);
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

/// Which messages are to be removed; all that retention gives up if nothing is said.
#[derive(JsonSchema)]
#[allow(dead_code)]
pub(crate) struct PruneRequest {
    /// Only those of this channel.
    channel: Option<ChannelName>,
    /// Only those in this state: sent, failed, cancelled or discarded.
    state: Option<String>,
    /// Those that ended longer ago, for example `90d`, instead of those that retention gives up. Dead letters only if
    /// `state` is `failed`.
    older_than: Option<Span>,
    /// Only counts them.
    dry_run: Option<bool>,
}

/// Removes messages that ended long ago: 202 with the operation that does it.
pub(crate) async fn prune(call: Call) -> Result<Response, Problem> {
    call.caller.may_keep_house()?;
    let Call { door, caller, head, body, .. } = call;
    let text = body::json(&door, &head.headers, body, BODY_BYTES).await?;
    let mut fields = Fields::read(&text)?;
    let mut filter = BTreeMap::new();
    for name in ["channel", "state", "older_than"] {
        filter.extend(fields.text(name, 64).map(|text| (name.to_owned(), text)));
    }
    if fields.flag("dry_run").unwrap_or(false) {
        filter.insert("dry_run".to_owned(), "true".to_owned());
    }
    if let Err((name, what, hint)) = operation::prune_rules(&filter, &door.setup()) {
        fields.wrong(name, what, hint);
    }
    fields.end()?;
    let wanted = Operation { filter, ..Operation::new(Kind::Prune, Stage::Rest, caller.actor(), door.now()) };
    let key = idempotency::header(&head.headers)?.map(|key| idempotency::of(key, &text));
    begin(&door, &caller, key, wanted).await?.answer()
}
