//! The retry decision on a claim whose submission failed: again, and when; or never, and why.
//!
//! The names and codes are those of the billing systems that ask, so they are in camelCase and capitals. The same
//! question gets the same dice, since they are seeded by what was asked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::backoff;
use crate::classify::{Verdict, claim_error};
use crate::dice::Dice;
use crate::mask;
use crate::policy::Policy;
use crate::time::{Span, Time};

/// The longest error text that is taken, in bytes.
pub const ERROR_BYTES_MAX: usize = 64 * 1024;
/// The longest claim id that is taken, in bytes.
pub const CLAIM_BYTES_MAX: usize = 200;
/// How much of an error text is kept with a decision, and in the audit, in bytes.
const ERROR_BYTES_KEPT: usize = 1_000;
/// The form of the events that decisions cause.
const EVENT_VERSION: u64 = 1;

const MINUTE_MS: u64 = 60_000;

/// What is asked, as it came: the members of a document, or the variables of a process.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub claim_id: Option<Value>,
    pub submission_error: Option<Value>,
    pub retry_count: Option<Value>,
    pub last_submission_time: Option<Value>,
}

impl Asked {
    /// The names that the members go by.
    pub const NAMES: [&'static str; 4] = ["claimId", "submissionError", "retryCount", "lastSubmissionTime"];

    /// Takes the members that concern a decision, and leaves the others.
    pub fn of(members: &mut Map<String, Value>) -> Asked {
        let [claim_id, submission_error, retry_count, last_submission_time] =
            Asked::NAMES.map(|name| members.remove(name));
        Asked { claim_id, submission_error, retry_count, last_submission_time }
    }
}

/// A question that can be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub claim_id: String,
    pub submission_error: String,
    /// How many retries there were. None: as many as are on record.
    pub retry_count: Option<u32>,
    pub last_submission_time: Option<Time>,
}

/// Which kind of mistake a question has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongCode {
    InvalidField,
    /// The error is missing, empty or no text.
    InvalidErrorMessage,
}

impl WrongCode {
    pub fn as_str(self) -> &'static str {
        match self {
            WrongCode::InvalidField => "INVALID_FIELD",
            WrongCode::InvalidErrorMessage => "INVALID_ERROR_MESSAGE",
        }
    }
}

/// What is wrong with a member of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    pub code: WrongCode,
    pub field: &'static str,
    pub reason: &'static str,
    pub hint: &'static str,
}

impl Question {
    /// Reads what was asked, or says everything that is wrong with it.
    pub fn read(asked: Asked) -> Result<Question, Vec<Wrong>> {
        let [claim, error, count, last] = Asked::NAMES;
        let mut wrong = Vec::new();
        let mut say = |code, field, reason, hint| wrong.push(Wrong { code, field, reason, hint });
        let given = |value: Option<Value>| value.filter(|value| !value.is_null());

        let claim_id = match given(asked.claim_id) {
            Some(Value::String(id)) if is_claim_id(&id) => id,
            None => {
                say(WrongCode::InvalidField, claim, "is missing", "write for example CLM-001-1234567890");
                String::new()
            }
            Some(_) => {
                let hint = "CLM-, anything, - and digits, for example CLM-001-1234567890; up to 200 bytes";
                say(WrongCode::InvalidField, claim, "is not the id of a claim", hint);
                String::new()
            }
        };
        let submission_error = match given(asked.submission_error) {
            Some(Value::String(text)) if text.len() > ERROR_BYTES_MAX => {
                say(WrongCode::InvalidField, error, "is longer than 65536 bytes", "shorten it");
                String::new()
            }
            Some(Value::String(text)) if !text.trim().is_empty() => text,
            Some(Value::String(_)) | None => {
                let hint = "say what went wrong, for example \"TIMEOUT - Connection timeout after 30s\"";
                say(WrongCode::InvalidErrorMessage, error, "is empty or missing", hint);
                String::new()
            }
            Some(_) => {
                say(WrongCode::InvalidErrorMessage, error, "is not text", "write it in double quotes");
                String::new()
            }
        };
        let retry_count = given(asked.retry_count).and_then(|value| {
            let read = whole(&value);
            if read.is_none() {
                let hint = "0 for the first failure; left out, the claim's recorded count";
                say(WrongCode::InvalidField, count, "is not a whole number from 0 on", hint);
            }
            read
        });
        let last_submission_time = given(asked.last_submission_time).and_then(|value| {
            let read = value.as_str().and_then(moment);
            if read.is_none() {
                let hint = "write for example 2025-01-12T10:40:00Z; without a zone it is taken as UTC";
                say(WrongCode::InvalidField, last, "is not a time", hint);
            }
            read
        });
        match wrong.is_empty() {
            true => Ok(Question { claim_id, submission_error, retry_count, last_submission_time }),
            false => Err(wrong),
        }
    }

    /// What this question is known by when there were so many retries: the same for the same question.
    pub fn id(&self, retry_count: u32) -> DecisionId {
        let mut hash = Sha256::new();
        hash.update(b"pombo decision 1\0");
        for text in [&self.claim_id, &self.submission_error] {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        hash.update(retry_count.to_le_bytes());
        match self.last_submission_time {
            None => hash.update([0]),
            Some(time) => {
                hash.update([1]);
                hash.update(time.millis().to_le_bytes());
            }
        }
        DecisionId(hash.finalize().into())
    }

    /// This is the question that the decision answered, told once more.
    ///
    /// For questions without a count: one that comes while the retry is still to come, or that names the same
    /// submission, is about the same failure. Whoever counts says so, and is recognised by that.
    pub fn repeats(&self, decision: &Decision, recorded: &str, now: Time) -> bool {
        let asked_at = decision.retry_count.saturating_sub(u32::from(decision.should_retry));
        let open = decision.next_retry_time.is_none_or(|next| next > now);
        (open || self.last_submission_time.is_some()) && self.id(asked_at).to_string() == recorded
    }
}

/// `CLM-`, anything, `-` and digits, on one line.
pub fn is_claim_id(text: &str) -> bool {
    let digits = text.strip_prefix("CLM-").and_then(|rest| rest.rsplit_once('-')).map(|(_, digits)| digits);
    text.len() <= CLAIM_BYTES_MAX
        && !text.chars().any(char::is_control)
        && digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// Process engines may write 1 as 1.0.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(value: &Value) -> Option<u32> {
    let number = value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        (number >= 0.0 && number.fract() == 0.0).then_some(number as u64)
    });
    number.map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

/// A time with a zone; or without one, as Java's local times come, which is taken as UTC.
fn moment(text: &str) -> Option<Time> {
    let local = || {
        let local: jiff::civil::DateTime = text.contains(['T', 't', ' ']).then(|| text.parse().ok())??;
        let stamp = local.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
        Some(Time::from_millis(stamp.as_millisecond()))
    };
    text.parse().ok().or_else(local)
}

/// What a decision is known by. Written in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionId([u8; 32]);

impl DecisionId {
    /// Dice for this decision: whoever asks the same gets the same.
    pub fn dice(&self) -> Dice {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        Dice::seeded(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
    }
}

impl std::fmt::Display for DecisionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Why there is no retry: errors of the business, which a process catches by these codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Never {
    /// There were as many retries as the policy allows.
    MaxRetriesExceeded,
    /// No retry can help: data must be corrected first.
    PermanentError,
}

impl Never {
    pub fn as_str(self) -> &'static str {
        match self {
            Never::MaxRetriesExceeded => "MAX_RETRIES_EXCEEDED",
            Never::PermanentError => "PERMANENT_ERROR",
        }
    }
}

/// A decision, as it is recorded and answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The claim that it is about.
    pub claim_id: String,
    /// Whether the claim is to be submitted again, at `nextRetryTime`.
    pub should_retry: bool,
    /// How many retries there are, the coming one included.
    pub retry_count: u32,
    /// How many there can be.
    pub max_retries: u32,
    /// The wait in whole minutes; absent when there is no retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_minutes: Option<u64>,
    /// When to submit it again; absent when there is no retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_retry_time: Option<Time>,
    /// The decision in words.
    pub retry_reason: String,
    /// `TRANSIENT`, `PERMANENT` or `UNKNOWN_TRANSIENT`; absent where the limit was reached, since the error was not
    /// looked at then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_classification: Option<String>,
    /// The error that was asked about; in a recorded decision shortened and without persons.
    pub original_error: String,
    /// Why there is no retry; absent when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Never>,
    /// The name of a permanent error, such as `INVALID_PATIENT_DATA`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    /// When the claim was last submitted, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_submission_time: Option<Time>,
    pub decided_at: Time,
    /// How long it took to decide.
    #[serde(default)]
    pub execution_time_ms: u64,
    /// The policy that it went by, in one line.
    #[serde(default)]
    pub policy: String,
}

/// Decides on a claim that failed after so many retries.
///
/// The limit comes first, then the error: a permanent one gets no retry, any other gets one. The wait is the policy's,
/// in whole minutes, so that `nextRetryTime` and `backoffMinutes` say the same.
pub fn decide(
    question: &Question,
    retry_count: u32,
    policy: &Policy,
    now: Time,
    dice: &mut Dice,
) -> Decision {
    let max_retries = u32::from(policy.attempts.saturating_sub(1));
    let never = |code, classification: Option<&str>, name| Decision {
        claim_id: question.claim_id.clone(),
        should_retry: false,
        retry_count,
        max_retries,
        backoff_minutes: None,
        next_retry_time: None,
        retry_reason: String::new(),
        error_classification: classification.map(str::to_owned),
        original_error: kept(&question.submission_error),
        code: Some(code),
        error_type: name,
        last_submission_time: question.last_submission_time,
        decided_at: now,
        execution_time_ms: 0,
        policy: policy.describe(),
    };
    let mut decision = if retry_count >= max_retries {
        never(Never::MaxRetriesExceeded, None, None)
    } else {
        let error = claim_error(&question.submission_error);
        match error.verdict {
            Verdict::Permanent => never(Never::PermanentError, Some(error.class), Some(error.name)),
            _ => {
                let minutes = minutes(policy, retry_count, dice);
                Decision {
                    should_retry: true,
                    retry_count: retry_count + 1,
                    backoff_minutes: Some(minutes),
                    next_retry_time: Some(now + Span::from_mins(minutes)),
                    code: None,
                    ..never(Never::PermanentError, Some(error.class), None)
                }
            }
        }
    };
    decision.retry_reason = decision.reason(Language::En);
    decision
}

/// The policy's wait in whole minutes, within its floor and cap where whole minutes can be; at least one, so that the
/// next try lies in the future.
fn minutes(policy: &Policy, retry: u32, dice: &mut Dice) -> u64 {
    let retry = u16::try_from(retry).unwrap_or(u16::MAX);
    let delay = backoff::wait(policy, retry, None, dice).delay.millis();
    let nearest = delay.saturating_add(MINUTE_MS / 2) / MINUTE_MS;
    let lowest = policy.floor.millis().div_ceil(MINUTE_MS);
    let highest = policy.cap.millis() / MINUTE_MS;
    nearest.min(highest).max(lowest).max(1)
}

/// An error text without persons, and no longer than need be.
fn kept(error: &str) -> String {
    let masked = mask::personal(error);
    masked[..masked.floor_char_boundary(ERROR_BYTES_KEPT)].to_owned()
}

/// What reasons are written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    #[default]
    En,
    Pt,
}

impl Language {
    /// The one that an `Accept-Language` header likes best; English if it likes neither.
    pub fn accepted(header: &str) -> Language {
        let mut best = (Language::En, 0.0);
        for item in header.split(',') {
            let mut parts = item.split(';').map(str::trim);
            let tag = parts.next().unwrap_or_default().split('-').next().unwrap_or_default();
            let weight =
                parts.find_map(|part| part.strip_prefix("q=")?.trim().parse().ok()).unwrap_or(1.0f64);
            let language = match tag {
                _ if tag.eq_ignore_ascii_case("pt") => Language::Pt,
                _ if tag.eq_ignore_ascii_case("en") => Language::En,
                _ => continue,
            };
            if weight > best.1 {
                best = (language, weight);
            }
        }
        best.0
    }
}

impl Decision {
    /// The decision in words.
    pub fn reason(&self, language: Language) -> String {
        let (count, max) = (self.retry_count, self.max_retries);
        let name = self.error_type.as_deref().unwrap_or_default();
        match (self.code, language) {
            (None, Language::En) => format!("Transient error, retry {count} of {max}"),
            (None, Language::Pt) => format!("Erro transiente, tentativa {count} de {max}"),
            (Some(Never::MaxRetriesExceeded), Language::En) => {
                format!("Maximum of retries exceeded: {count} of {max}")
            }
            (Some(Never::MaxRetriesExceeded), Language::Pt) => {
                format!("Máximo de tentativas excedido: {count} de {max}")
            }
            (Some(Never::PermanentError), Language::En) => format!("Permanent error, no retry: {name}"),
            (Some(Never::PermanentError), Language::Pt) => {
                format!("Erro permanente, sem nova tentativa: {name}")
            }
        }
    }

    /// As whoever asked is answered: with the error in its own words, and the reason in its language.
    #[must_use]
    pub fn answering(self, question: &Question, language: Language) -> Decision {
        let retry_reason = self.reason(language);
        Decision { retry_reason, original_error: question.submission_error.clone(), ..self }
    }

    /// What the audit and those who follow events are told: what was captured, and the fields of the domain event.
    ///
    /// `since` is when the first decision on the claim was made, or now.
    pub fn event(&self, since: Time) -> Value {
        let mut event = json!({
            "timestamp": self.decided_at,
            "claimId": self.claim_id,
            "submissionError": self.original_error,
            "retryCount": self.retry_count,
            "maxRetries": self.max_retries,
            "retryReason": self.retry_reason,
            "executionTimeMs": self.execution_time_ms,
        });
        let own = match self.code {
            None => json!({
                "errorClassification": self.error_classification,
                "backoffMinutes": self.backoff_minutes,
                "nextRetryTime": self.next_retry_time,
                "scheduledAt": self.decided_at,
                "version": EVENT_VERSION,
            }),
            Some(Never::MaxRetriesExceeded) => json!({
                "finalError": self.original_error,
                "totalAttempts": u64::from(self.retry_count) + 1,
                "totalDuration": format!("PT{}S", self.decided_at.since(since).millis() / 1_000),
                "exceededAt": self.decided_at,
                "severity": "CRITICAL",
            }),
            Some(Never::PermanentError) => json!({
                "errorClassification": self.error_classification,
                "errorType": self.error_type,
                "errorMessage": self.original_error,
                "detectedAt": self.decided_at,
                "severity": "CRITICAL",
            }),
        };
        if let (Value::Object(event), Value::Object(own)) = (&mut event, own) {
            event.extend(own);
        }
        event
    }
}

#[cfg(test)]
mod tests;
