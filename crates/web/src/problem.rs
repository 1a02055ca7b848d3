//! What went wrong, for whoever called: RFC 9457 problem documents with a stable code and a hint.
//!
//! Every code that the API can answer with stands in the table below, and nowhere else.

use std::borrow::Cow;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use pombo_kernel::request::{self, BadJson, Refused};
use pombo_store::StoreError;
use serde::Serialize;

use crate::guesses;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $status:literal $code:literal $title:literal,)*) => {
        /// The stable name of a kind of problem. Programs key on it; its wording never changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $code,)* }
            }

            pub fn status(self) -> StatusCode {
                const fn status(number: u16) -> StatusCode {
                    match StatusCode::from_u16(number) {
                        Ok(status) => status,
                        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
                    }
                }
                match self { $(Code::$name => const { status($status) },)* }
            }

            pub fn title(self) -> &'static str {
                match self { $(Code::$name => $title,)* }
            }
        }
    };
}

codes! {
    InvalidJson = 400 "INVALID_JSON" "The body is not JSON",
    InvalidCursor = 400 "INVALID_CURSOR" "The cursor is not one of ours",
    Unauthorized = 401 "UNAUTHORIZED" "No valid key",
    Forbidden = 403 "FORBIDDEN" "The key may not do this",
    RevealNotAllowed = 403 "REVEAL_NOT_ALLOWED" "The key may not reveal persons",
    NotFound = 404 "NOT_FOUND" "There is no such thing",
    MethodNotAllowed = 405 "METHOD_NOT_ALLOWED" "The method does not fit the address",
    RequestTimeout = 408 "REQUEST_TIMEOUT" "The body did not arrive in time",
    IdempotencyConflict = 409 "IDEMPOTENCY_CONFLICT" "The key belongs to another request",
    NotCancellable = 409 "NOT_CANCELLABLE" "It is too late to cancel",
    NotDead = 409 "NOT_DEAD" "It is not a dead letter",
    NotRetryable = 409 "NOT_RETRYABLE" "It cannot be tried now",
    VersionConflict = 409 "VERSION_CONFLICT" "Somebody else has changed it",
    TooManyWebhooks = 409 "TOO_MANY_WEBHOOKS" "There are as many webhooks as there may be",
    TooManyRules = 409 "TOO_MANY_RULES" "There are as many accepted rules as there may be",
    CampaignState = 409 "CAMPAIGN_STATE" "The campaign is in another state",
    AlertResolved = 409 "ALERT_RESOLVED" "The alert is over",
    KeyEnded = 409 "KEY_ENDED" "The key has ended",
    LastAdminKey = 409 "LAST_ADMIN_KEY" "No other admin key works",
    BodyTooLarge = 413 "BODY_TOO_LARGE" "It is too large",
    BatchTooLarge = 413 "BATCH_TOO_LARGE" "There are too many messages in one list",
    UnsupportedMediaType = 415 "UNSUPPORTED_MEDIA_TYPE" "The content type is not one that is read here",
    InvalidField = 422 "INVALID_FIELD" "A field cannot be accepted",
    UnknownChannel = 422 "UNKNOWN_CHANNEL" "There is no such channel",
    TemplateNotFound = 422 "TEMPLATE_NOT_FOUND" "There is no such template",
    TemplateError = 422 "TEMPLATE_ERROR" "The template cannot be used",
    ContentNotAccepted = 422 "CONTENT_NOT_ACCEPTED" "The channel does not take this content",
    TimeInPast = 422 "TIME_IN_PAST" "The time is in the past",
    RecipientSuppressed = 422 "RECIPIENT_SUPPRESSED" "The recipient is not to be written to",
    NoRecipients = 422 "NO_RECIPIENTS" "There is nobody to write to",
    InvalidErrorMessage = 422 "INVALID_ERROR_MESSAGE" "The error is empty or no text",
    MaxRetriesExceeded = 422 "MAX_RETRIES_EXCEEDED" "There were enough retries",
    PermanentError = 422 "PERMANENT_ERROR" "No retry can help",
    /// Nothing was stored; the same request may be sent again in a moment.
    Overloaded = 429 "OVERLOADED" "Too much is waiting",
    TooManyFailures = 429 "TOO_MANY_FAILURES" "Too many keys that are not known",
    Internal = 500 "INTERNAL" "A fault of ours",
    /// The store is well, and so is whoever asks for less.
    ReadTooLong = 503 "READ_TOO_LONG" "It takes too long to read",
    StoreUnavailable = 503 "STORE_UNAVAILABLE" "The store cannot be used for now",
    ShuttingDown = 503 "SHUTTING_DOWN" "This node is stopping",
}

impl Code {
    /// Seconds after which it is worth another try.
    pub(crate) fn retry_after(self) -> Option<HeaderValue> {
        match self {
            Code::Overloaded => Some(HeaderValue::from_static("1")),
            Code::TooManyFailures => Some(HeaderValue::from(guesses::STEP.millis() / 1_000)),
            Code::StoreUnavailable | Code::ShuttingDown => Some(HeaderValue::from_static("5")),
            _ => None,
        }
    }
}

impl From<request::Code> for Code {
    fn from(code: request::Code) -> Code {
        match code {
            request::Code::InvalidField => Code::InvalidField,
            request::Code::UnknownChannel => Code::UnknownChannel,
            request::Code::TemplateNotFound => Code::TemplateNotFound,
            request::Code::ContentNotAccepted => Code::ContentNotAccepted,
            request::Code::TooLarge => Code::BodyTooLarge,
            request::Code::TimeInPast => Code::TimeInPast,
            request::Code::Suppressed => Code::RecipientSuppressed,
        }
    }
}

/// A problem: what, why and what next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub code: Code,
    pub detail: Cow<'static, str>,
    pub hint: Cow<'static, str>,
    /// Where it lies in fields of the request: each of them.
    pub errors: Vec<FieldError>,
    /// The message that it is about, or the first one under the same idempotency key.
    pub message_id: Option<String>,
    /// The state that stands in the way.
    pub state: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    pub code: Code,
    pub field: Cow<'static, str>,
    pub reason: String,
    pub hint: String,
}

impl Problem {
    pub fn new(
        code: Code,
        detail: impl Into<Cow<'static, str>>,
        hint: impl Into<Cow<'static, str>>,
    ) -> Problem {
        Problem {
            code,
            detail: detail.into(),
            hint: hint.into(),
            errors: Vec::new(),
            message_id: None,
            state: None,
        }
    }

    /// One field that cannot be accepted.
    pub fn field(
        field: impl Into<Cow<'static, str>>,
        reason: impl Into<String>,
        hint: impl Into<String>,
    ) -> Problem {
        let code = Code::InvalidField;
        Problem::fields(vec![FieldError {
            code,
            field: field.into(),
            reason: reason.into(),
            hint: hint.into(),
        }])
    }

    /// Fields that cannot be accepted. The first one gives the document its code, detail and hint.
    pub fn fields(errors: Vec<FieldError>) -> Problem {
        let Some(first) = errors.first() else {
            return Problem::internal();
        };
        let (code, hint) = (first.code, first.hint.clone());
        let detail = match errors.len() {
            1 => format!("{}: {}", first.field, first.reason),
            n => format!("{}: {}; {n} problems in all, see `errors`", first.field, first.reason),
        };
        Problem { errors, ..Problem::new(code, detail, hint) }
    }

    pub fn internal() -> Problem {
        Problem::new(
            Code::Internal,
            "something went wrong on our side; nothing is known to be stored",
            "send it again with the same Idempotency-Key; if it stays, look at the server's log",
        )
    }

    pub fn no_message() -> Problem {
        Problem::new(
            Code::NotFound,
            "there is no message with this id",
            "ids look like `msg_` and 32 hex digits, or a UUID; GET /v1/messages and `pombo messages list` show them",
        )
    }

    pub fn shutting_down() -> Problem {
        Problem::new(
            Code::ShuttingDown,
            "this node is stopping and takes nothing new; nothing was stored",
            "send it again in a few seconds, or to another node",
        )
    }

    /// The document's text.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Problem {
        match refused {
            Refused::NotJson(bad) => bad.into(),
            Refused::Problems(problems) => {
                Problem::fields(problems.into_iter().map(FieldError::from).collect())
            }
        }
    }
}

impl From<request::Problem> for FieldError {
    fn from(problem: request::Problem) -> FieldError {
        let request::Problem { code, field, reason, hint } = problem;
        FieldError { code: code.into(), field, reason, hint }
    }
}

impl From<BadJson> for Problem {
    fn from(bad: BadJson) -> Problem {
        let detail = format!("line {}, column {}: {}", bad.line, bad.column, bad.reason);
        Problem::new(Code::InvalidJson, detail, "send one JSON document in UTF-8; check quotes and commas")
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        match error {
            StoreError::Overloaded => Problem::new(
                Code::Overloaded,
                "more is coming in than can be written; nothing was stored",
                "send it again after the time in Retry-After",
            ),
            StoreError::Unavailable(reason)
            | StoreError::Again(reason)
            | StoreError::Locked { why: reason, .. }
            | StoreError::Damaged { why: reason, .. } => {
                tracing::warn!(reason, "a request met a store that is unavailable");
                Problem::new(
                    Code::StoreUnavailable,
                    "the store cannot be used for now; it may or may not come back by itself",
                    "send it again with the same Idempotency-Key; /readyz says when the store is back",
                )
            }
            StoreError::TooLong => {
                tracing::warn!(reason = %error, "a request asked for more than can be read in time");
                Problem::new(
                    Code::ReadTooLong,
                    format!("{error}; the store itself is well"),
                    "ask for less, such as a shorter time; the same again may pass once the server has less to do",
                )
            }
            StoreError::Broken(reason) => {
                tracing::error!(reason, "a request met a store that failed");
                Problem::new(
                    Code::StoreUnavailable,
                    "the store failed, and whether this was stored is not known",
                    "send it again with the same Idempotency-Key once the server has been restarted",
                )
            }
            StoreError::Closed => Problem::shutting_down(),
        }
    }
}

impl Serialize for FieldError {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Document<'a> {
            code: &'static str,
            field: &'a str,
            reason: &'a str,
            hint: &'a str,
        }
        Document { code: self.code.as_str(), field: &self.field, reason: &self.reason, hint: &self.hint }
            .serialize(serializer)
    }
}

impl Serialize for Problem {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Document<'a> {
            r#type: String,
            title: &'static str,
            status: u16,
            code: &'static str,
            detail: &'a str,
            hint: &'a str,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            errors: &'a [FieldError],
            #[serde(skip_serializing_if = "Option::is_none")]
            message_id: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            state: Option<&'static str>,
        }
        Document {
            r#type: format!("urn:pombo:error:{}", self.code.as_str()),
            title: self.code.title(),
            status: self.code.status().as_u16(),
            code: self.code.as_str(),
            detail: &self.detail,
            hint: &self.hint,
            errors: &self.errors,
            message_id: self.message_id.as_deref(),
            state: self.state,
        }
        .serialize(serializer)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.to_json()));
        *response.status_mut() = self.code.status();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.code.retry_after() {
            headers.insert(header::RETRY_AFTER, seconds);
        }
        if self.code == Code::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"pombo\""));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_distinct_and_are_errors() {
        let names: BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        for code in Code::ALL {
            assert!(code.status().is_client_error() || code.status().is_server_error(), "{code:?}");
            assert!(!code.title().is_empty());
        }
    }

    #[test] // REQ IN-1
    fn a_document_says_what_why_and_what_next() {
        let problem = Problem::field("priority", "is not a number", "write 5");
        let document: serde_json::Value = serde_json::from_slice(&problem.to_json()).unwrap();
        assert_eq!(document["type"], "urn:pombo:error:INVALID_FIELD");
        assert_eq!(document["status"], 422);
        assert_eq!(document["detail"], "priority: is not a number");
        assert_eq!(document["hint"], "write 5");
        assert_eq!(document["errors"][0]["field"], "priority");
        assert!(document.get("state").is_none());
    }
}
