//! What one attempt at one provider came to: facts, before anybody decides what they mean.

use serde::{Deserialize, Serialize};

/// The end of one attempt, as the channel saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The provider took the message.
    Accepted(Receipt),
    /// The provider answered, and the answer was no.
    Refused(Refusal),
    /// The provider never had the message: nothing of it left us.
    Unreachable(Fault),
    /// The request went out and no answer came back: perhaps it was taken, perhaps not.
    Doubtful(Fault),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The provider's own id for the message, by which later receipts find it.
    pub provider_id: Option<String>,
    /// The reply code, such as an HTTP status.
    pub code: Option<u16>,
    /// What the provider said besides, in a line without personal data: codes and numbers that an operator
    /// should see, such as the denials that a claim was received with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Headers that say how much more may come (`ratelimit-remaining`, …), lower-case names. Not stored.
    #[serde(skip)]
    pub hints: Vec<(String, String)>,
}

/// A provider's refusal. `text` is bounded by the channel and may hold anything a stranger chose to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status or SMTP reply code.
    pub status: Option<u16>,
    /// RFC 3463 code, SMTP only.
    pub enhanced: Option<Enhanced>,
    /// The provider's name for the error, where it has one: Resend's `name`, a glosa code, a SOAP fault word.
    pub name: Option<String>,
    /// Where in the dialogue it was said.
    pub stage: Stage,
    /// The reply's words: an HTTP body or an SMTP reply text.
    pub text: String,
    /// Headers that say when to come back (`retry-after`, `ratelimit-reset`, …), lower-case names.
    pub hints: Vec<(String, String)>,
    /// The provider refused, yet may have sent it all the same.
    pub perhaps_sent: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    #[default]
    Request,
    Greeting,
    Auth,
    Mail,
    Rcpt,
    Data,
}

/// An enhanced status code, RFC 3463: class, subject, detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Enhanced {
    pub class: u8,
    pub subject: u16,
    pub detail: u16,
}

impl std::fmt::Display for Enhanced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.class, self.subject, self.detail)
    }
}

/// Something between us and the provider that broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The name could not be looked up for now.
    Dns,
    /// The name does not exist.
    DnsNotFound,
    /// Nobody listens there.
    ConnectionRefused,
    /// The connection broke.
    ConnectionReset,
    /// No answer in time.
    Timeout,
    /// The other side's certificate or protocol version is not acceptable.
    Tls,
    /// The answer was not of the protocol.
    Protocol,
    /// The address is one that we do not send to (loopback, private, link-local, …).
    AddressBlocked,
    /// The channel is not set up.
    NotConfigured,
    /// The message cannot be expressed on this channel.
    BadContent,
    /// The message's template cannot be filled with its payload.
    Template,
    /// Nobody wants it any more: the subscription that it is for is removed or disabled.
    WebhookRemoved,
    /// The process that was sending stopped before the result was recorded.
    Interrupted,
}

impl FaultKind {
    pub fn as_str(self) -> &'static str {
        match self {
            FaultKind::Dns => "dns",
            FaultKind::DnsNotFound => "dns_not_found",
            FaultKind::ConnectionRefused => "connection_refused",
            FaultKind::ConnectionReset => "connection_reset",
            FaultKind::Timeout => "timeout",
            FaultKind::Tls => "tls",
            FaultKind::Protocol => "protocol",
            FaultKind::AddressBlocked => "address_blocked",
            FaultKind::NotConfigured => "not_configured",
            FaultKind::BadContent => "bad_content",
            FaultKind::Template => "template",
            FaultKind::WebhookRemoved => "webhook_removed",
            FaultKind::Interrupted => "interrupted",
        }
    }
}
