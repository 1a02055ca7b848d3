//! What Resend has against a request.

use pombo_kernel::content::mailbox;
use serde_json::Value;

const UNVERIFIED: &str = "unverified.example";

/// An error as Resend words it.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    pub(super) status: u16,
    pub(super) name: &'static str,
    pub(super) message: String,
    pub(super) retry_after: Option<u64>,
}

impl Trouble {
    pub(super) fn new(status: u16, name: &'static str, message: impl Into<String>) -> Trouble {
        Trouble { status, name, message: message.into(), retry_after: None }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Trouble {
        Trouble::new(422, "validation_error", message)
    }

    pub(super) fn rate_limited(retry_after: u64) -> Trouble {
        let message = "Too many requests. Slow down.";
        Trouble { retry_after: Some(retry_after), ..Trouble::new(429, "rate_limit_exceeded", message) }
    }

    pub(super) fn daily_quota() -> Trouble {
        Trouble::new(429, "daily_quota_exceeded", "You have reached your daily email sending quota.")
    }

    pub(super) fn server() -> Trouble {
        Trouble::new(500, "application_error", "An unexpected error occurred.")
    }
}

/// What is wrong with one mail, if anything.
pub(super) fn check(mail: &Value) -> Option<Trouble> {
    for name in ["from", "to", "subject"] {
        let given = match &mail[name] {
            Value::String(text) => !text.is_empty(),
            Value::Array(list) => name == "to" && !list.is_empty(),
            _ => false,
        };
        if !given {
            return Some(Trouble::new(422, "missing_required_field", format!("Missing `{name}` field.")));
        }
    }
    let Some(from) = mail["from"].as_str().and_then(mailbox) else {
        return Some(Trouble::invalid("Invalid `from` field. The address needs to follow the format."));
    };
    if from.ends_with(&format!("@{UNVERIFIED}")) {
        let message = format!("The {UNVERIFIED} domain is not verified. Please, add and verify your domain.");
        return Some(Trouble::new(403, "validation_error", message));
    }
    for name in ["to", "cc", "bcc", "reply_to"] {
        if !are_addresses(&mail[name]) || super::script(super::first_to(mail)) == "invalid" {
            return Some(Trouble::invalid(format!("Invalid `{name}` field. The address is not one.")));
        }
    }
    if mail["html"].as_str().is_none() && mail["text"].as_str().is_none() {
        return Some(Trouble::invalid("Missing `html` or `text` field."));
    }
    let files = mail["attachments"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !files.iter().all(|file| file["content"].is_string() || file["path"].is_string()) {
        let message = "Attachment must have either a `content` or a `path`.";
        return Some(Trouble::new(422, "invalid_attachment", message));
    }
    let tags = mail["tags"].as_array().map(Vec::as_slice).unwrap_or_default();
    let word = |text: &Value| {
        text.as_str().is_some_and(|text| {
            text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-') && text.len() <= 256
        })
    };
    (!tags.iter().all(|tag| word(&tag["name"]) && word(&tag["value"])))
        .then(|| Trouble::invalid("Tags should only contain ASCII letters, numbers, underscores, or dashes."))
}

fn are_addresses(value: &Value) -> bool {
    let is_one = |value: &Value| value.as_str().is_some_and(|text| mailbox(text).is_some());
    match value {
        Value::Null => true,
        Value::Array(list) => list.len() <= 50 && list.iter().all(is_one),
        one => is_one(one),
    }
}
