//! Why a command failed, told so that the reader knows what to do next.

use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;

use super::out::{self, Paint};
use crate::client::ClientError;
use crate::config::{Problem, Problems};

/// What went wrong, why, and what next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trouble {
    #[serde(rename = "title")]
    pub what: String,
    pub code: String,
    #[serde(rename = "detail", skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub problems: Box<[Problem]>,
    #[serde(skip)]
    pub fault: Blame,
}

/// Whose mistake it is, which decides the exit code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Blame {
    /// It did not work: 1.
    #[default]
    Work,
    /// It was asked for wrongly: 2.
    Usage,
    /// Everything is said already; only the exit code is missing.
    Told,
}

impl Trouble {
    pub fn new(what: impl Into<String>, code: impl Into<String>) -> Trouble {
        Trouble {
            what: what.into(),
            code: code.into(),
            why: None,
            hint: None,
            problems: Box::default(),
            fault: Blame::Work,
        }
    }

    /// A command that cannot be meant as it was written.
    pub fn usage(what: impl Into<String>) -> Trouble {
        Trouble { fault: Blame::Usage, ..Trouble::new(what, "BAD_USAGE") }
    }

    /// A failure that the command has already reported in its own way.
    pub fn told() -> Trouble {
        Trouble { fault: Blame::Told, ..Trouble::new("", "") }
    }

    #[must_use]
    #[allow(clippy::needless_pass_by_value, reason = "errors are handed over as they come")]
    pub fn why(self, why: impl ToString) -> Trouble {
        Trouble { why: Some(why.to_string()).filter(|why| !why.is_empty()), ..self }
    }

    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Trouble {
        Trouble { hint: Some(hint.into()).filter(|hint| !hint.is_empty()), ..self }
    }

    pub(super) fn exit(&self) -> ExitCode {
        ExitCode::from(if self.fault == Blame::Usage { 2 } else { 1 })
    }

    /// The lines that a person reads.
    pub(crate) fn lines(&self, paint: Paint) -> Vec<String> {
        // A server's answer names its first problem in its detail and hint; it need not be said twice.
        let (why, listed, hint) = match (&self.problems[..], &self.hint) {
            ([first], Some(hint)) if first.hint == *hint => (self.why.clone(), 0, Some(hint)),
            ([first, ..], Some(hint)) if first.hint == *hint => {
                (Some(format!("{} problems", self.problems.len())), self.problems.len(), None)
            }
            (problems, hint) => (self.why.clone(), problems.len(), hint.as_ref()),
        };
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        let mut lines = vec![format!("{} {} ({}){why}", paint.red("error:"), self.what, self.code)];
        for problem in self.problems.iter().take(listed) {
            lines.push(format!("  {}: {}", paint.bold(&problem.path), problem.what));
            lines.push(format!("    {} {}", paint.cyan("hint:"), problem.hint));
        }
        if let Some(hint) = hint {
            lines.push(format!("{} {hint}", paint.cyan("hint:")));
        }
        lines
    }

    /// Says it on standard error. A reader there that reads no more must not keep the process from ending.
    pub(super) fn print(&self, json: bool) {
        if self.fault == Blame::Told {
            return;
        }
        let text = match json {
            true => serde_json::to_string(self).unwrap_or_default(),
            false => self.lines(Paint::stderr()).join("\n"),
        };
        let (done, printed) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            out::note(text);
            let _ = done.send(());
        });
        let _ = printed.recv_timeout(PATIENCE);
    }
}

/// How long a last word may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// All the problems of a configuration, under one heading.
impl From<Problems> for Trouble {
    fn from(problems: Problems) -> Trouble {
        let count = problems.0.len();
        let why = format!("{count} problem{}", if count == 1 { "" } else { "s" });
        let trouble = Trouble::new("the configuration cannot be used", "CONFIG_INVALID").why(why);
        Trouble { problems: problems.0.into(), ..trouble }
    }
}

impl From<ClientError> for Trouble {
    fn from(error: ClientError) -> Trouble {
        match error {
            ClientError::BadAddress { server, why } => {
                Trouble::usage(format!("`{server}` is not the address of a server"))
                    .why(why)
                    .hint("write --server http://127.0.0.1:7662, or set POMBO_SERVER")
            }
            ClientError::Unreachable { server, why } => {
                Trouble::new(format!("no answer from {server}"), "SERVER_UNREACHABLE")
                    .why(why)
                    .hint("start one with `pombo serve`, or name another with --server or POMBO_SERVER")
            }
            ClientError::Refused(problem) => {
                // The server speaks to whoever writes requests; here a person types commands.
                let hint = match problem.code.as_str() {
                    "UNAUTHORIZED" => {
                        "set POMBO_API_KEY to a key from `pombo keys create`, or to the admin key: the one that the \
                         first start of `pombo serve` printed, or its POMBO_ADMIN_KEY"
                            .to_owned()
                    }
                    _ => problem.hint.unwrap_or_default(),
                };
                let list =
                    problem.errors.into_iter().map(|item| Problem::new(item.field, item.reason, item.hint));
                let trouble =
                    Trouble::new(problem.title, problem.code).why(problem.detail.unwrap_or_default());
                Trouble { problems: list.collect(), ..trouble.hint(hint) }
            }
            ClientError::Garbled { server, why } => {
                Trouble::new(format!("{server} answered what this program does not understand"), "BAD_ANSWER")
                    .why(why)
                    .hint("is it a Pombo of the same version?")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(fields: &[&str]) -> Vec<String> {
        let errors = fields.iter().map(|field| crate::client::FieldProblem {
            field: (*field).to_owned(),
            reason: "is odd".to_owned(),
            hint: format!("mend {field}"),
        });
        let problem = crate::client::Refusal {
            title: "A field cannot be accepted".to_owned(),
            code: "INVALID_FIELD".to_owned(),
            detail: Some(format!("{}: is odd", fields[0])),
            hint: Some(format!("mend {}", fields[0])),
            errors: errors.collect(),
            ..Default::default()
        };
        Trouble::from(ClientError::Refused(Box::new(problem))).lines(Paint::PLAIN)
    }

    #[test]
    fn what_a_server_refused_is_said_once() {
        let one = ["error: A field cannot be accepted (INVALID_FIELD): to: is odd", "hint: mend to"];
        assert_eq!(refused(&["to"]), one);
        let two = [
            "error: A field cannot be accepted (INVALID_FIELD): 2 problems",
            "  to: is odd",
            "    hint: mend to",
            "  lane: is odd",
            "    hint: mend lane",
        ];
        assert_eq!(refused(&["to", "lane"]), two);
    }

    #[test]
    fn an_error_says_what_why_and_what_next() {
        let trouble = Trouble::new("channel `whatsapp` is held", "CHANNEL_HELD")
            .why("Evolution answered 401")
            .hint("set EVOLUTION_API_KEY, then `pombo channels release whatsapp`");
        assert_eq!(
            trouble.lines(Paint::PLAIN),
            [
                "error: channel `whatsapp` is held (CHANNEL_HELD): Evolution answered 401",
                "hint: set EVOLUTION_API_KEY, then `pombo channels release whatsapp`",
            ]
        );
    }
}
