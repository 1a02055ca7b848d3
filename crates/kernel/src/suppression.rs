//! Who is not written to any more, and why.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::content::{mailbox, phone};
use crate::kind::ChannelKind;
use crate::time::Time;

/// By which kind of address somebody is not written to: one for all channels that use such addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "SuppressionKind")]
pub enum Family {
    /// By an e-mail address.
    Email,
    /// By a phone number or a JID.
    Whatsapp,
}

/// Why somebody is not written to any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "SuppressionReason")]
pub enum Reason {
    /// There is no such recipient.
    InvalidRecipient,
    /// Mail came back for good.
    HardBounce,
    /// They called it unwanted.
    Complaint,
    /// They asked for it.
    OptOut,
    /// Somebody put them there.
    Manual,
}

/// A word that stands for none of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownWord;

macro_rules! words {
    ($type:ident, $($variant:ident = $word:literal,)*) => {
        impl $type {
            pub const ALL: &[$type] = &[$($type::$variant,)*];

            pub fn as_str(self) -> &'static str {
                match self { $($type::$variant => $word,)* }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $type {
            type Err = UnknownWord;
            fn from_str(text: &str) -> Result<$type, UnknownWord> {
                $type::ALL.iter().copied().find(|it| it.as_str() == text).ok_or(UnknownWord)
            }
        }
    };
}

words! { Family, Email = "email", Whatsapp = "whatsapp", }
words! {
    Reason,
    InvalidRecipient = "invalid_recipient",
    HardBounce = "hard_bounce",
    Complaint = "complaint",
    OptOut = "opt_out",
    Manual = "manual",
}

/// An entry of the list as it is kept. What a newer version adds is ignored by an older one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suppression {
    /// How callers and the audit name it: nothing of the recipient can be guessed from it.
    pub id: String,
    pub kind: Family,
    /// In the one form that [`Family::normalised`] gives it.
    pub recipient: String,
    pub reason: Reason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub created_at: Time,
    pub created_by: String,
}

impl Family {
    /// The one whose addresses a kind of channel uses; none for those that write to no person.
    pub fn of(kind: ChannelKind) -> Option<Family> {
        match kind {
            ChannelKind::Smtp | ChannelKind::Resend => Some(Family::Email),
            ChannelKind::Evolution => Some(Family::Whatsapp),
            ChannelKind::Tiss | ChannelKind::Webhook | ChannelKind::Null | ChannelKind::Own => None,
        }
    }

    /// The one form of an address, however it was written: the domain of an e-mail address in lower case, a phone number
    /// in E.164. Nothing if it is no address of this family.
    pub fn normalised(self, recipient: &str) -> Option<String> {
        let recipient = recipient.trim();
        match self {
            Family::Email => {
                let (local, domain) = mailbox(recipient)?.split_once('@')?;
                Some(format!("{local}@{}", domain.to_lowercase()))
            }
            Family::Whatsapp if !phone::is_recipient(recipient) => None,
            Family::Whatsapp => match phone::digits_for(recipient) {
                jid if jid.contains('@') => Some(jid.to_lowercase()),
                digits => Some(format!("+{digits}")),
            },
        }
    }

    /// What tells one person from another, given the one form: a Brazilian mobile number is the same with and without
    /// its ninth digit, and so is an e-mail address however its first part is written.
    pub fn person(self, normalised: &str) -> String {
        match self {
            Family::Email => normalised.to_lowercase(),
            Family::Whatsapp => {
                let digits = normalised.strip_prefix('+').unwrap_or(normalised);
                let digits = digits.strip_suffix("@s.whatsapp.net").unwrap_or(digits);
                let other = phone::other_variant(digits).filter(|other| other.len() > digits.len());
                other.unwrap_or_else(|| digits.to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // REQ BK-8
    fn one_person_is_one_entry_however_the_address_is_written() {
        let same = |family: Family, one: &str, other: &str| {
            let person = |text: &str| family.person(&family.normalised(text).unwrap());
            assert_eq!(person(one), person(other), "{one} and {other}");
        };
        same(Family::Email, "Ana <Ana.Lima@Clinica.Example>", "ana.lima@clinica.example");
        same(Family::Whatsapp, "+55 (11) 98765-4321", "11987654321");
        same(Family::Whatsapp, "+55 11 8765-4321", "+5511987654321");
        same(Family::Whatsapp, "5511987654321@s.whatsapp.net", "+5511987654321");
        assert_ne!(Family::Whatsapp.person("+5511987654321"), Family::Whatsapp.person("+5511987654322"));
    }

    #[test] // REQ BK-8
    fn an_entry_shows_the_address_in_one_form() {
        let shown = |family: Family, text: &str| family.normalised(text);
        assert_eq!(shown(Family::Email, " Ana@Clinica.EXAMPLE ").as_deref(), Some("Ana@clinica.example"));
        assert_eq!(shown(Family::Whatsapp, "(11) 98765-4321").as_deref(), Some("+5511987654321"));
        for (family, bad) in [
            (Family::Email, "ana"),
            (Family::Email, ""),
            (Family::Whatsapp, "12"),
            (Family::Whatsapp, "a@b.c"),
        ] {
            assert_eq!(shown(family, bad), None, "{bad}");
        }
    }

    #[test]
    fn words_survive_the_journey() {
        for reason in Reason::ALL {
            assert_eq!(reason.as_str().parse(), Ok(*reason));
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
        for family in Family::ALL {
            assert_eq!(serde_json::to_value(family).unwrap(), family.as_str());
        }
        assert_eq!("x".parse::<Reason>(), Err(UnknownWord));
    }
}
