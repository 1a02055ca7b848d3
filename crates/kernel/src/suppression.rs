//! Who is not written to any more, and why.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::classify::{Rules, Verdict};
use crate::content::{mailbox, phone};
use crate::delivery::{Delivery, LastWord};
use crate::kind::ChannelKind;
use crate::mask;
use crate::message::{AttemptFailure, Body};
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

impl Reason {
    /// Why whoever an attempt could not reach is not written to any more, if its failure means that: by the very rule
    /// that judged it.
    pub fn of_failure(rules: &Rules, failure: &AttemptFailure) -> Option<Reason> {
        let decided = failure.rule.as_deref()?;
        let (_, rule) = rules.iter().find(|(id, _)| *id == decided)?;
        (rule.suppress && failure.verdict == Verdict::Permanent).then(|| match &*failure.category {
            "opted_out" => Reason::OptOut,
            _ => Reason::InvalidRecipient,
        })
    }

    /// Why whoever a message was sent to is not written to any more, if what its provider reports means that.
    pub fn of_report(word: &LastWord) -> Option<Reason> {
        // `Permanent/NoEmail: …`; a full mailbox is `Transient/…`, and of an `Undetermined` one nobody knows.
        let for_good = || {
            let kind = word.detail.as_deref().unwrap_or_default().split(['/', ':']).next();
            kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("permanent"))
        };
        match word.state {
            Delivery::Complained => Some(Reason::Complaint),
            Delivery::Bounced if for_good() => Some(Reason::HardBounce),
            _ => None,
        }
    }
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
            _ if mask::is_hidden(recipient) => None,
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

/// Everybody whom a message would reach, by field: the one it is to, then others whom its content names.
pub fn reached(body: &Body) -> Vec<(&'static str, String)> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Others {
        cc: Few,
        bcc: Few,
        also_to: Few,
    }
    /// Addresses, as content may write them.
    #[derive(Default, Deserialize)]
    #[serde(untagged)]
    enum Few {
        #[default]
        Nobody,
        One(String),
        Many(Vec<String>),
    }
    let content = body.content.as_ref();
    let Others { cc, bcc, also_to } =
        content.and_then(|content| serde_json::from_str(content.text()).ok()).unwrap_or_default();
    let named = |field: &'static str, some: Few| {
        let list = match some {
            Few::Nobody => Vec::new(),
            Few::One(one) => vec![one],
            Few::Many(many) => many,
        };
        list.into_iter().map(move |to| (field, to))
    };
    let to = std::iter::once(("to", body.to.clone()));
    to.chain(named("content.also_to", also_to))
        .chain(named("content.cc", cc))
        .chain(named("content.bcc", bcc))
        .collect()
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

    #[test] // REQ BK-8
    fn every_rule_that_suppresses_is_known_by_its_id_and_no_other_does() {
        let (mut suppress, mut spare) = (0, 0);
        for kind in ChannelKind::ALL {
            let rules = Rules::for_kind(kind, &[]).unwrap();
            for (id, rule) in rules.iter() {
                let failure = AttemptFailure {
                    verdict: rule.verdict,
                    category: rule.category.clone(),
                    code: None,
                    text: String::new(),
                    perhaps_sent: false,
                    rule: Some(id.to_owned()),
                };
                let reason = Reason::of_failure(&rules, &failure);
                assert_eq!(reason.is_some(), rule.suppress, "{id}");
                *(if rule.suppress { &mut suppress } else { &mut spare }) += 1;
                if rule.category == "opted_out" {
                    assert_eq!(reason, Some(Reason::OptOut));
                }
                assert_eq!(Reason::of_failure(&rules, &AttemptFailure { rule: None, ..failure }), None);
            }
        }
        assert!(suppress >= 10 && spare >= 100, "{suppress} and {spare}");
    }

    #[test] // REQ BK-8
    fn a_bounce_for_good_and_a_complaint_suppress_and_nothing_else_that_is_reported() {
        let of = |state, detail: Option<&str>| {
            let detail = detail.map(str::to_owned);
            Reason::of_report(&LastWord { state, at: Time::default(), detail })
        };
        assert_eq!(of(Delivery::Bounced, Some("Permanent/NoEmail: No such user.")), Some(Reason::HardBounce));
        assert_eq!(of(Delivery::Bounced, Some("Permanent")), Some(Reason::HardBounce));
        assert_eq!(of(Delivery::Complained, None), Some(Reason::Complaint));
        for spared in [Some("Transient/MailboxFull: permanent it is not"), Some("Undetermined"), None] {
            assert_eq!(of(Delivery::Bounced, spared), None, "{spared:?}");
        }
        for state in [Delivery::Accepted, Delivery::Failed, Delivery::Delivered, Delivery::Read] {
            assert_eq!(of(state, Some("Permanent")), None);
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
