//! One line a decision, by the names that billing systems know. Nothing of whom a message is for or what it says.

use pombo_kernel::classify::Verdict;
use pombo_kernel::decision::is_claim_id;
use pombo_kernel::lifecycle::Next;
use pombo_kernel::time::Span;
use pombo_kernel::trace::TraceId;
use pombo_store::{Settled, Settlement};
use tracing::field::display;
use tracing::{debug, error, info, warn};

use crate::core::About;

/// Says what was decided about an attempt, once it is durable. Successes are counted, and told only to those who look
/// closely.
pub(crate) fn settled(settlement: &Settlement, about: &About, settled: Settled, trace: Option<TraceId>) {
    let message = &about.claimed.message;
    let attempt = settlement.attempt.number;
    let channel = &message.queue.channel;
    // A reference is its caller's word, and may name somebody; a claim's id is known to be one.
    let claim = message.body.reference.as_deref().filter(|reference| is_claim_id(reference));
    let trace_id = trace.map(display);
    let took_ms = settlement.attempt.finished_at.since(settlement.attempt.started_at).millis();
    if settled == Settled::Stale {
        let text = "a result came too late: the message is no longer ours";
        warn!(event = "stale", message_id = %message.id, claimId = claim, %channel, attempt, trace_id, "{text}");
        return;
    }
    let Some(failure) = &settlement.attempt.failure else {
        debug!(
            event = "sent",
            message_id = %message.id,
            claimId = claim,
            %channel,
            attempt,
            executionTimeMs = took_ms,
            trace_id,
            "sent"
        );
        return;
    };
    let counted = settlement.progress.attempts;
    let (event, due, wait) = match &settlement.next {
        Next::Sent(_) => ("sent", None, None),
        Next::Retry { due, wait } => ("retry_scheduled", Some(*due), Some(wait.delay)),
        Next::Failed(reason) => (reason.as_str(), None, None),
        Next::Held { .. } => ("held", None, None),
    };
    let retries = match &settlement.next {
        // Of the attempts that counted, the first was none.
        Next::Failed(_) => counted.saturating_sub(1),
        _ => counted,
    };
    macro_rules! line {
        ($level:ident, $($error:ident,)? $text:literal) => {
            $level!(
                event,
                message_id = %message.id,
                claimId = claim,
                %channel,
                attempt,
                submissionError = failure.category,
                code = failure.code,
                errorClassification = failure.verdict.as_str().to_ascii_uppercase(),
                retryCount = retries,
                maxRetries = about.max_retries,
                backoffMinutes = wait.map(minutes),
                nextRetryTime = due.map(display),
                executionTimeMs = took_ms,
                trace_id,
                $($error = failure.text,)?
                $text
            )
        };
    }
    match (&settlement.next, failure.verdict) {
        // What it said is what a rule for it is written by.
        (Next::Retry { .. }, Verdict::UnknownTransient) => {
            line!(warn, error, "retry scheduled: no rule knows this error, and it counts as passing");
        }
        (Next::Retry { .. }, _) => line!(info, "retry scheduled"),
        (Next::Held { .. }, Verdict::SenderFault) => {
            line!(error, "held: the fault is ours and a person must act");
        }
        (Next::Held { .. }, _) => line!(info, "the destination is still down"),
        (Next::Failed(_), Verdict::UnknownTransient) => {
            line!(warn, error, "failed: no rule knows this error, and it counted as passing");
        }
        (Next::Failed(_), _) => line!(info, "failed"),
        (Next::Sent(_), _) => line!(info, "sent: the provider has it already"),
    }
}

/// To a thousandth, since waits of seconds are told by the same name as those of hours.
#[allow(clippy::cast_precision_loss, reason = "no wait is that long")]
fn minutes(wait: Span) -> f64 {
    (wait.millis() as f64 / 60.0).round() / 1_000.0
}
