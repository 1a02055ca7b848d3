//! What people are told by Pombo itself: an alert, a report. A notice is an ordinary message through a channel that is
//! configured, and if that channel is the thing that is down, another one takes it.

mod page;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::alert::{Language, Severity};
use crate::id::MessageId;
use crate::kind::ChannelKind;
use crate::name::{ChannelName, NoticeName, Tenant};
use crate::time::{Span, Time};

pub use page::{Page, Part, Row};

/// Subjects are cut at this, for the sake of mail.
const SUBJECT_MAX: usize = 200;

/// Who is told, through which channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    pub name: NoticeName,
    pub channel: ChannelName,
    /// An address of the channel's kind.
    pub to: String,
    /// Whatever is less grave is kept from them.
    pub min_severity: Severity,
    /// Who is told instead, if they cannot be reached.
    pub fallback: Option<NoticeName>,
    /// How long a notice may be on its way before the fallback gets it.
    pub patience: Span,
    pub language: Language,
}

/// What is said, for every kind of channel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Letter {
    pub subject: String,
    pub text: String,
    /// The same for mail programs that show more than text, where there is more to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// The same for programs.
    pub data: Value,
}

impl Letter {
    /// The letter as content for a channel of that kind; none if that kind carries no letters.
    pub fn content(&self, kind: ChannelKind) -> Option<Value> {
        let mut subject = self.subject.replace(['\r', '\n'], " ");
        subject.truncate(subject.floor_char_boundary(SUBJECT_MAX));
        match kind {
            ChannelKind::Webhook => Some(json!({ "body": self.data })),
            ChannelKind::Evolution => Some(json!({ "text": format!("*{subject}*\n{}", self.text) })),
            ChannelKind::Smtp | ChannelKind::Resend => {
                let mut content = json!({ "subject": subject, "text": self.text });
                if let Some(html) = &self.html {
                    content["html"] = html.as_str().into();
                }
                Some(content)
            }
            ChannelKind::Null | ChannelKind::Own => {
                Some(json!({ "subject": subject, "text": self.text, "data": self.data }))
            }
            ChannelKind::Tiss => None,
        }
    }
}

/// Where a notice stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// To be handed in for the target `via`.
    Owed {
        via: NoticeName,
    },
    /// A message is on its way.
    Handed {
        via: NoticeName,
        message: MessageId,
        at: Time,
    },
    Sent {
        via: NoticeName,
        at: Time,
    },
    /// Nobody could be reached.
    Lost {
        why: String,
        at: Time,
    },
}

/// A notice for one target, until it has arrived or cannot. A document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// What it is about: the id of an alert, the name of a report.
    pub about: String,
    /// For whom it is.
    pub to: NoticeName,
    pub tenant: Tenant,
    pub letter: Letter,
    pub created_at: Time,
    #[serde(flatten)]
    pub state: State,
    /// Those who could not be reached, in order, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed: Vec<Passed>,
}

/// A target that was passed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Passed {
    pub via: NoticeName,
    pub why: String,
    pub at: Time,
}

impl Notice {
    pub fn new(about: &str, to: NoticeName, tenant: Tenant, letter: Letter, now: Time) -> Notice {
        let (about, state) = (about.to_owned(), State::Owed { via: to.clone() });
        Notice { about, to, tenant, letter, created_at: now, state, passed: Vec::new() }
    }

    /// Reads the text of a document; nothing if it cannot be understood.
    pub fn read(body: &str) -> Option<Notice> {
        serde_json::from_str(body).ok()
    }

    /// Whether there is nothing left to do.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Sent { .. } | State::Lost { .. })
    }

    /// Who takes it if its target cannot be reached: nobody where there is no fallback, or that one had its turn.
    pub fn next<'a>(&self, target: Option<&'a Target>) -> Option<&'a NoticeName> {
        let next = target?.fallback.as_ref()?;
        let had = self.passed.iter().any(|passed| passed.via == *next) || target?.name == *next;
        (!had).then_some(next)
    }

    /// The target could not be reached, for that reason: the next one takes it, if there is one.
    pub fn pass(mut self, target: Option<&Target>, why: &str, now: Time) -> Notice {
        let via = match &self.state {
            State::Owed { via } | State::Handed { via, .. } => via.clone(),
            State::Sent { .. } | State::Lost { .. } => return self,
        };
        let next = self.next(target);
        self.passed.push(Passed { via, why: why.to_owned(), at: now });
        self.state = match next {
            Some(via) => State::Owed { via: via.clone() },
            None => State::Lost { why: why.to_owned(), at: now },
        };
        self
    }

    pub fn handed(mut self, message: MessageId, now: Time) -> Notice {
        if let State::Owed { via } = self.state {
            self.state = State::Handed { via, message, at: now };
        }
        self
    }

    pub fn sent(mut self, now: Time) -> Notice {
        if let State::Handed { via, .. } = self.state {
            self.state = State::Sent { via, at: now };
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::MessageKey;

    const T0: Time = Time::from_millis(1_800_000_000_000);

    fn target(name: &str, fallback: Option<&str>) -> Target {
        Target {
            name: name.parse().unwrap(),
            channel: "smtp".parse().unwrap(),
            to: "ops@clinic.example".to_owned(),
            min_severity: Severity::Info,
            fallback: fallback.map(|name| name.parse().unwrap()),
            patience: Span::from_mins(2),
            language: Language::En,
        }
    }

    fn letter() -> Letter {
        Letter {
            subject: "one\r\ntwo".into(),
            text: "words".into(),
            html: Some("<p>words</p>".into()),
            data: json!({"type": "alert.fired"}),
        }
    }

    fn notice() -> Notice {
        Notice::new("alr_1", "ops".parse().unwrap(), Tenant::default(), letter(), T0)
    }

    #[test] // fault 40
    fn whoever_cannot_be_reached_is_passed_over_and_nobody_twice() {
        let (ops, night) = (target("ops", Some("night")), target("night", Some("ops")));
        let passed = notice().pass(Some(&ops), "held", T0);
        assert_eq!(passed.state, State::Owed { via: "night".parse().unwrap() });
        let id = MessageId::new(MessageKey::at(T0), 1);
        let lost = passed.handed(id, T0).pass(Some(&night), "dead", T0);
        assert_eq!(lost.state, State::Lost { why: "dead".into(), at: T0 });
        assert_eq!(lost.passed.iter().map(|it| it.via.as_str()).collect::<Vec<_>>(), ["ops", "night"]);
        assert!(lost.is_over());
    }

    #[test]
    fn a_target_without_a_fallback_or_one_that_was_removed_is_the_last() {
        for target in [Some(target("ops", None)), None] {
            assert!(matches!(notice().pass(target.as_ref(), "held", T0).state, State::Lost { .. }));
        }
    }

    #[test]
    fn a_notice_that_arrived_stays_so() {
        let id = MessageId::new(MessageKey::at(T0), 1);
        let sent = notice().handed(id, T0).sent(T0);
        assert_eq!(sent.clone().pass(Some(&target("ops", Some("night"))), "late", T0), sent);
        assert_eq!(Notice::read(&serde_json::to_string(&sent).unwrap()), Some(sent));
    }

    #[test]
    fn every_kind_of_channel_gets_content_that_it_accepts() {
        let to = |kind| match kind {
            ChannelKind::Webhook => "https://ops.example/alerts",
            ChannelKind::Evolution => "+55 11 98765-4321",
            _ => "ops@clinic.example",
        };
        for kind in ChannelKind::ALL {
            match letter().content(kind) {
                Some(content) => {
                    assert_eq!(crate::content::check(kind, to(kind), &content), Ok(()), "{kind}");
                }
                None => assert_eq!(kind, ChannelKind::Tiss),
            }
        }
        let html = |kind| letter().content(kind).unwrap().get("html").is_some();
        assert!(html(ChannelKind::Smtp) && html(ChannelKind::Resend) && !html(ChannelKind::Evolution));
    }
}
