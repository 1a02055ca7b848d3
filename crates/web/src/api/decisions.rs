//! Retry decisions on claims, asked for and looked at.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use pombo_kernel::decision::{Asked, Decision, Language, Never, Question, Wrong, WrongCode, is_claim_id};
use pombo_kernel::time::Time;
use pombo_store::shelf::{Pick, Shelf, Wanted};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::fields::Fields;
use super::page::{self, Paging, yes_or_no};
use crate::auth::{Access, Role};
use crate::decision::{self, Asker};
use crate::problem::{Code, FieldError, Problem};
use crate::route::Call;
use crate::{body, view};

const BODY_BYTES: usize = 256 * 1024;

/// What is asked. The schema of the request; what is read is judged field by field.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[allow(dead_code)]
pub(crate) struct DecisionRequest {
    /// The claim's own id: `CLM-`, anything, `-` and digits.
    #[schemars(regex(pattern = r"^CLM-.*-[0-9]+$"), length(max = 200))]
    claim_id: String,
    /// What went wrong with the submission.
    #[schemars(length(min = 1, max = 65536))]
    submission_error: String,
    /// How many retries there were; left out, as many as are on record.
    retry_count: Option<u32>,
    /// When the claim was last submitted. The same failure told twice is known by it.
    last_submission_time: Option<Time>,
}

/// Decides whether a claim is submitted again, and when. The same question gets the decision that is on record.
///
/// Limits reached and permanent errors are problems with the decision's own fields beside the usual ones.
pub(crate) async fn decide(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, .. } = call;
    caller.may_use_all()?;
    if door.is_closing() {
        return Err(Problem::shutting_down());
    }
    let mut fields = Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?;
    let [claim_id, submission_error, retry_count, last_submission_time] =
        Asked::NAMES.map(|name| fields.value(name));
    let read = Question::read(Asked { claim_id, submission_error, retry_count, last_submission_time });
    for wrong in read.as_ref().err().into_iter().flatten() {
        fields.refuse(field_error(wrong));
    }
    fields.end()?;
    let question = read.map_err(|_| Problem::internal())?;
    let language = head.headers.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
    let language = language.map(Language::accepted).unwrap_or_default();
    let asker = Asker { tenant: caller.tenant.clone(), actor: caller.actor() };
    let policy = &door.setup().claims;
    let (clock, meter) = (&*door.0.clock, door.meter().decisions());
    let decision = decision::decide(door.store(), clock, policy, &question, &asker, meter).await?;
    let decision = decision.answering(&question, language);
    let mut answer = match decision.code {
        None => view::ok(&decision)?,
        Some(never) => never_again(never, &decision),
    };
    let said = match language {
        Language::En => "en",
        Language::Pt => "pt",
    };
    answer.headers_mut().insert(header::CONTENT_LANGUAGE, HeaderValue::from_static(said));
    Ok(answer)
}

fn field_error(wrong: &Wrong) -> FieldError {
    let code = match wrong.code {
        WrongCode::InvalidField => Code::InvalidField,
        WrongCode::InvalidErrorMessage => Code::InvalidErrorMessage,
    };
    FieldError {
        code,
        field: wrong.field.into(),
        reason: wrong.reason.to_owned(),
        hint: wrong.hint.to_owned(),
    }
}

/// A problem document that also is the decision: programs that read either find what they look for.
fn never_again(never: Never, decision: &Decision) -> Response {
    let (code, hint) = match never {
        Never::MaxRetriesExceeded => {
            (Code::MaxRetriesExceeded, "somebody must look into the claim and submit it by hand")
        }
        Never::PermanentError => {
            (Code::PermanentError, "correct what the error names, then submit it by hand")
        }
    };
    let problem = Problem::new(code, decision.retry_reason.clone(), hint);
    let (problem, decision) = (serde_json::to_value(problem), serde_json::to_value(decision));
    let (Ok(Value::Object(mut document)), Ok(Value::Object(decision))) = (problem, decision) else {
        return Problem::internal().into_response();
    };
    document.extend(decision);
    let mut response =
        view::answer(StatusCode::UNPROCESSABLE_ENTITY, Value::from(document).to_string().into());
    let kind = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// A decision as it is on record, with its id.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RecordedDecision")]
pub(crate) struct DecisionView {
    id: String,
    #[serde(flatten)]
    decision: Decision,
}

/// Decisions, newest first; of one claim (`claimId`); or those whose retry is still to come (`pending`), the next one
/// first.
///
/// A producer follows its own claims by their ids; looking through everybody's takes another role.
pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    call.caller.may_use_all()?;
    let mut paging = Paging::read(&call.head.uri, &["claimId", "pending"])?;
    let mut claim = paging.query.take("claimId", |text| match is_claim_id(text) {
        true => Ok(text.to_owned()),
        false => Err(("is not the id of a claim".to_owned(), "write for example CLM-001-123".to_owned())),
    });
    let pending = paging.query.take("pending", |text| match (yes_or_no(text)?, claim.is_some()) {
        (true, true) => {
            let hint = "leave one of them out: a claim's decisions say when their retries come".to_owned();
            Err(("cannot be combined with claimId".to_owned(), hint))
        }
        (pending, _) => Ok(pending),
    });
    let after = paging.after();
    let Paging { limit, query, .. } = paging;
    query.end()?;
    let after = after?;
    if call.caller.role == Role::Producer && claim.is_none() {
        let problem = call.caller.may(Access::Look).err().unwrap_or_else(Problem::internal);
        let hint = format!("ask for `?claimId=…`, or {}", problem.hint);
        return Err(Problem { hint: hint.into(), ..problem });
    }
    let pending = pending.unwrap_or_default();
    let pick = match (claim.take(), pending) {
        (Some(topic), _) => Pick::Topic { topic, after },
        (None, false) => Pick::All { after },
        (None, true) => {
            let after = after.map(|(due, id)| (Time::from_millis(due), id));
            Pick::Due { from: call.door.now(), until: Time::MAX, after }
        }
    };
    let tenant = Some(call.caller.tenant.clone());
    let wanted = Wanted { shelf: Shelf::Decision, tenant, pick, limit: limit + 1 };
    let mut docs = call.door.store().docs(wanted).await?;
    let more = docs.len() > limit;
    docs.truncate(limit);
    let next = docs.last().filter(|_| more).map(|last| {
        let place = last.leaf.due.filter(|_| pending).map_or(last.leaf.order, Time::millis);
        page::after_cursor(place, &last.id)
    });
    let view = |doc| Ok(DecisionView { decision: decision::read(&doc)?, id: doc.id });
    page::page(docs.into_iter().map(view).collect::<Result<_, Problem>>()?, next)
}
