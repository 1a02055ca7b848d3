//! The kinds of channel.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChannelKind {
    /// WhatsApp through Evolution API.
    Evolution,
    /// E-mail to an SMTP server.
    Smtp,
    /// E-mail through Resend.
    Resend,
    /// Medical claims: TISS over SOAP.
    Tiss,
    /// Any JSON to any URL, signed.
    Webhook,
    /// Counts and forgets. For benchmarks.
    Null,
    /// A channel that the embedding program brings along. No file can name it.
    #[serde(skip)]
    Own,
}

impl ChannelKind {
    /// Those that a configuration can name.
    pub const ALL: [ChannelKind; 6] = [
        ChannelKind::Evolution,
        ChannelKind::Smtp,
        ChannelKind::Resend,
        ChannelKind::Tiss,
        ChannelKind::Webhook,
        ChannelKind::Null,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            ChannelKind::Evolution => "evolution",
            ChannelKind::Smtp => "smtp",
            ChannelKind::Resend => "resend",
            ChannelKind::Tiss => "tiss",
            ChannelKind::Webhook => "webhook",
            ChannelKind::Null => "null",
            ChannelKind::Own => "own",
        }
    }
}

impl fmt::Display for ChannelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for ChannelKind {
    type Err = UnknownKind;
    fn from_str(text: &str) -> Result<ChannelKind, UnknownKind> {
        ChannelKind::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or(UnknownKind)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a kind of channel; one of evolution, smtp, resend, tiss, webhook, null")]
pub struct UnknownKind;
