//! One message: create, read, cancel.

use axum::response::Response;
use http::StatusCode;
use pombo_kernel::id::MessageId;
use pombo_kernel::message::StateName;
use pombo_kernel::request::Refused;
use pombo_store::{Cancelled, Conflict, Repeat};

use crate::auth::Caller;
use crate::foretold::foretold;
use crate::pin::pin_templates;
use crate::problem::{Code, Problem};
use crate::route::Call;
use crate::trail::Trail;
use crate::veil::{Seen, Sight, Veil};
use crate::view::Unborn;
use crate::{Door, body, idempotency, suppression, view};

pub(crate) const REPLAYED: &str = "idempotency-replayed";

/// Accepts one message: 202 once it is durable. The same key and request again answer with the same message.
pub(crate) async fn create(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, .. } = call;
    if door.is_closing() {
        return Err(Problem::shutting_down());
    }
    let setup = door.setup();
    let held = body::held_json(&door, &head.headers, body, setup.limits.body_bytes()).await?;
    let text = &held.text;
    let key = idempotency::header(&head.headers)?;
    let drafted = setup.draft_json(text, &caller.tenant, door.now())?;
    let mut draft = drafted.draft;
    caller.may_use(&draft.queue.channel)?;
    draft.idempotency = match (key, drafted.idempotency_key) {
        (Some(header), Some(field)) if header != field => {
            return Err(Problem::field(
                "idempotency_key",
                "is not the one in the Idempotency-Key header",
                "give it in one place",
            ));
        }
        (Some(key), _) | (None, Some(key)) => Some(idempotency::of(key, text)),
        (None, None) => None,
    };
    let found = pin_templates(door.store(), &setup, std::slice::from_mut(&mut draft)).await?;
    if let Some(problem) = found.into_iter().next().flatten() {
        return Err(Refused::Problems(vec![problem]).into());
    }
    if !drafted.override_suppression
        && let Some(problem) = suppression::stops(door.store(), &setup, std::slice::from_ref(&draft)).await?
    {
        return Err(Refused::Problems(vec![problem]).into());
    }
    let veil = Veil::of(&caller, &setup);
    let unborn = Unborn::of(&draft, &setup, veil);
    let accepted = door.accept(vec![draft], Trail::of(&head)).await?.pop().ok_or_else(Problem::internal)?;
    match accepted {
        Ok(accepted) if accepted.repeat == Repeat::First => {
            Ok(view::answer(StatusCode::ACCEPTED, unborn.born(accepted.id)))
        }
        Ok(accepted) => {
            let story = door.store().story(caller.tenant.clone(), accepted.id).await?;
            // A key outlasts what retention has let go: the answer is the first one, then.
            let body = match &story {
                Some(story) => view::story(story, &setup, veil),
                None => unborn.born(accepted.id),
            };
            Ok(idempotency::replayed(view::answer(StatusCode::ACCEPTED, body)))
        }
        Err(conflict) => Err(conflicting(conflict)),
    }
}

pub(crate) fn conflicting(conflict: Conflict) -> Problem {
    let first = conflict.first.to_string();
    let problem = idempotency::conflict(&format!("which became {first}"));
    Problem { message_id: Some(first), ..problem }
}

/// One message with its attempts.
pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    let sight = Sight::read(&call.door, &call.caller, &call.head.uri)?;
    shown(&call.door, &call.caller, &call.name, sight).await
}

/// The message of that id, as it is by now.
pub(super) async fn shown(door: &Door, caller: &Caller, id: &str, sight: Sight) -> Result<Response, Problem> {
    let id: MessageId = id.parse().map_err(|_| Problem::no_message())?;
    let story = door.store().story(caller.tenant.clone(), id).await?;
    let story = story.filter(|story| caller.sees(&story.message.queue.channel));
    let story = story.ok_or_else(Problem::no_message)?;
    let message = Some((id, &story.message.queue.channel));
    let veil = sight.seen(door, caller, Seen { what: "message", message, ..Seen::default() }).await?;
    let mut document = view::story(&story, &door.setup(), veil);
    view::extend(&mut document, &foretold(door, &story).await?);
    Ok(view::answer(StatusCode::OK, document))
}

/// Cancels a message that still waits, and answers with it as it is then.
pub(crate) async fn cancel(call: Call) -> Result<Response, Problem> {
    let id: MessageId = call.name.parse().map_err(|_| Problem::no_message())?;
    let sight = Sight::of(&call.door, &call.caller, None)?;
    if call.caller.channels.is_some() {
        let story = call.door.store().story(call.caller.tenant.clone(), id).await?;
        let seen = story.is_some_and(|story| call.caller.sees(&story.message.queue.channel));
        seen.then_some(()).ok_or_else(Problem::no_message)?;
    }
    let by = call.caller.actor();
    match call.door.store().cancel(call.caller.tenant.clone(), id, by).await? {
        Cancelled::Done => {
            tracing::info!(message_id = %id, key_id = call.caller.key_id, "cancelled");
            shown(&call.door, &call.caller, &call.name, sight).await
        }
        Cancelled::NotFound => Err(Problem::no_message()),
        Cancelled::TooLate(state) => Err(too_late(id, state)),
    }
}

fn too_late(id: MessageId, state: StateName) -> Problem {
    let hint = match state {
        StateName::Sending => {
            "it is on its way; look again in a moment, and cancel it if it waits for a retry"
        }
        StateName::Failed => "it will not be sent unless an operator reprocesses it",
        _ => "nothing is left to do: it has ended",
    };
    Problem {
        message_id: Some(id.to_string()),
        state: Some(state.as_str()),
        ..Problem::new(Code::NotCancellable, format!("the message is {state}"), hint)
    }
}
