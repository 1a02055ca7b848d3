//! Retry decisions on record: the same question gets the same answer, whoever asks, and however many at once.
//!
//! The HTTP API and the workers of process engines ask here.

use std::time::Duration;

use pombo_kernel::decision::{self, Decision, Never, Question};
use pombo_kernel::message::Actor;
use pombo_kernel::name::Tenant;
use pombo_kernel::policy::Policy;
use pombo_kernel::time::{Clock, Time};
use pombo_store::audit::Event;
use pombo_store::meter::Retries;
use pombo_store::shelf::{Doc, Expect, Leaf, Pick, Shelf, Shelve, Shelved, Wanted};
use pombo_store::transition::act_of;
use pombo_store::{Store, StoreError};

/// How long a decision may take, its record included.
const PATIENCE: Duration = Duration::from_secs(5);

/// Decisions on one claim that are looked through for the first of them. There are as many as retries, and a few.
const CLAIM_DECISIONS: usize = 100;

/// Whose question it is, and who asks.
#[derive(Clone, Debug)]
pub struct Asker {
    pub tenant: Tenant,
    pub actor: Actor,
}

/// Decides, and records the decision with its audit record before it is answered; or answers what is on record.
///
/// A question that is asked while the same one is being answered gets that answer: the record that comes first counts.
pub async fn decide(
    store: &dyn Store,
    clock: &dyn Clock,
    policy: &Policy,
    question: &Question,
    asker: &Asker,
    meter: &Retries,
) -> Result<Decision, StoreError> {
    let deciding = recorded(store, clock, policy, question, asker, meter);
    tokio::time::timeout(PATIENCE, deciding)
        .await
        .unwrap_or_else(|_| Err(StoreError::Unavailable("a decision was not recorded within 5 s".to_owned())))
}

async fn recorded(
    store: &dyn Store,
    clock: &dyn Clock,
    policy: &Policy,
    question: &Question,
    asker: &Asker,
    meter: &Retries,
) -> Result<Decision, StoreError> {
    let (started, began) = (clock.now(), clock.elapsed());
    let of_claim = |limit| Wanted {
        shelf: Shelf::Decision,
        tenant: Some(asker.tenant.clone()),
        pick: Pick::Topic { topic: question.claim_id.clone(), after: None },
        limit,
    };
    let count = match question.retry_count {
        Some(count) => count,
        None => match store.docs(of_claim(1)).await?.first() {
            None => 0,
            Some(last) => {
                let decision = read(last)?;
                if question.repeats(&decision, &last.id, started) {
                    return Ok(decision);
                }
                decision.retry_count
            }
        },
    };
    let id = question.id(count);
    let now = clock.now();
    let mut decision = decision::decide(question, count, policy, now, &mut id.dice());
    let since = match decision.code {
        Some(Never::MaxRetriesExceeded) => first(&store.docs(of_claim(CLAIM_DECISIONS)).await?)?,
        _ => None,
    };
    decision.execution_time_ms = clock.now().since(started).millis();
    let event = match decision.code {
        None => Event::RetryDecided,
        Some(Never::MaxRetriesExceeded) => Event::RetriesExhausted,
        Some(Never::PermanentError) => Event::PermanentErrorFound,
    };
    let detail = decision.event(since.unwrap_or(now));
    let wish = Shelve {
        shelf: Shelf::Decision,
        tenant: asker.tenant.clone(),
        id: id.to_string(),
        expect: Expect::Nothing,
        leaf: Some(Leaf {
            order: order(&decision),
            topic: Some(question.claim_id.clone()),
            due: decision.next_retry_time,
            body: serde_json::to_string(&decision)
                .map_err(|error| StoreError::Unavailable(format!("a decision cannot be written: {error}")))?,
        }),
        record: Some(act_of(event, &asker.tenant, &asker.actor, &detail, now)),
    };
    match store.shelve(vec![wish]).await?.into_iter().next() {
        Some(Shelved::Done { .. }) => {
            meter.analysed(clock.elapsed().saturating_sub(began));
            match (decision.code, decision.next_retry_time) {
                (None, at) => meter.scheduled(at.unwrap_or_default().since(decision.decided_at)),
                (Some(Never::MaxRetriesExceeded), _) => meter.exhausted(),
                (Some(Never::PermanentError), _) => meter.permanent(),
            }
            log(&decision, clock.now().since(started).millis());
            Ok(decision)
        }
        Some(Shelved::Conflict(Some(earlier))) => read(&earlier),
        _ => Err(StoreError::Unavailable("a decision was not recorded".to_owned())),
    }
}

/// A decision as it stands on the shelf.
pub(crate) fn read(doc: &Doc) -> Result<Decision, StoreError> {
    serde_json::from_str(&doc.leaf.body)
        .map_err(|error| StoreError::Unavailable(format!("the decision {} cannot be read: {error}", doc.id)))
}

/// By time, and by retries within the same millisecond.
fn order(decision: &Decision) -> i64 {
    decision.decided_at.millis().saturating_mul(1_000) + i64::from(decision.retry_count.min(999))
}

/// When the earliest of these decisions was made; or the submission before it, if it names one.
fn first(decisions: &[Doc]) -> Result<Option<Time>, StoreError> {
    let Some(earliest) = decisions.last() else { return Ok(None) };
    let earliest = read(earliest)?;
    Ok(Some(earliest.last_submission_time.unwrap_or(earliest.decided_at).min(earliest.decided_at)))
}

/// The line that billing systems expect of every decision, by the names that they know.
fn log(decision: &Decision, took_ms: u64) {
    let event = match decision.code {
        None => "retry_scheduled",
        Some(Never::MaxRetriesExceeded) => "max_retries_exceeded",
        Some(Never::PermanentError) => "permanent_error",
    };
    macro_rules! line {
        ($level:ident, $message:literal) => {
            tracing::$level!(
                event,
                claimId = decision.claim_id,
                submissionError = decision.original_error,
                errorClassification = decision.error_classification,
                retryCount = decision.retry_count,
                maxRetries = decision.max_retries,
                backoffMinutes = decision.backoff_minutes,
                nextRetryTime = decision.next_retry_time.map(tracing::field::display),
                executionTimeMs = took_ms,
                decidedAt = %decision.decided_at,
                $message
            )
        };
    }
    match (decision.code, decision.error_classification.as_deref()) {
        (None, Some("UNKNOWN_TRANSIENT")) => line!(warn, "an unknown error is taken as passing"),
        (None, _) => line!(info, "a retry was decided"),
        (Some(_), _) => line!(warn, "a claim will not be retried and needs a person"),
    }
}
