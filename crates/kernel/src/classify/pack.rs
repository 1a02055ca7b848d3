//! The built-in tables. Each is read when the first error has to be understood by it.

use std::sync::LazyLock;

use serde::Deserialize;

use super::rule::{Compiled, Rule};
use crate::kind::ChannelKind;

pub(super) type Table = LazyLock<Vec<Compiled>>;

static FAULT: Table = LazyLock::new(|| load("fault", include_str!("../../rules/fault.toml")));
static HTTP: Table = LazyLock::new(|| load("http", include_str!("../../rules/http.toml")));
static EVOLUTION: Table = LazyLock::new(|| load("evolution", include_str!("../../rules/evolution.toml")));
static RESEND: Table = LazyLock::new(|| load("resend", include_str!("../../rules/resend.toml")));
static WEBHOOK: Table = LazyLock::new(|| load("webhook", include_str!("../../rules/webhook.toml")));
static SMTP: Table = LazyLock::new(|| load("smtp", include_str!("../../rules/smtp.toml")));
static TISS: Table = LazyLock::new(|| load("tiss", include_str!("../../rules/tiss.toml")));

/// The tables of a kind, in the order in which they are tried.
///
/// A fault has words of its own ("connection closed") that a table about replies could mistake for a
/// provider's, so faults come first; SMTP, whose rules about replies all ask for a code, may differ on them.
pub(super) fn of(kind: ChannelKind) -> Vec<&'static Table> {
    match kind {
        ChannelKind::Evolution => vec![&FAULT, &EVOLUTION, &HTTP],
        ChannelKind::Resend => vec![&FAULT, &RESEND, &HTTP],
        ChannelKind::Webhook => vec![&FAULT, &WEBHOOK, &HTTP],
        ChannelKind::Smtp => vec![&SMTP, &FAULT],
        ChannelKind::Tiss => vec![&FAULT, &TISS],
        ChannelKind::Null => vec![&FAULT],
        ChannelKind::Own => vec![&FAULT, &HTTP],
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rules: Vec<Rule>,
}

/// The files are part of the program and a test loads each of them, so a bad one cannot reach a user.
fn load(name: &str, text: &str) -> Vec<Compiled> {
    let file: File = toml::from_str(text).unwrap_or_else(|e| panic!("built-in rules `{name}`: {e}"));
    let compile = |(index, rule)| Compiled::built_in(name, index, rule);
    let compiled: Result<Vec<Compiled>, _> = file.rules.iter().enumerate().map(compile).collect();
    compiled.unwrap_or_else(|e| panic!("built-in rules `{name}`: {e}"))
}
