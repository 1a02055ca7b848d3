//! The built-in tables, compiled once.

use std::sync::OnceLock;

use serde::Deserialize;

use super::rule::{Compiled, Rule};
use crate::kind::ChannelKind;

struct Packs {
    fault: Vec<Compiled>,
    http: Vec<Compiled>,
    evolution: Vec<Compiled>,
    resend: Vec<Compiled>,
    webhook: Vec<Compiled>,
    smtp: Vec<Compiled>,
    tiss: Vec<Compiled>,
}

/// The tables of a kind, in the order in which they are tried.
///
/// A fault has words of its own ("connection closed") that a table about replies could mistake for a
/// provider's, so faults come first; SMTP, whose rules about replies all ask for a code, may differ on them.
pub(super) fn of(kind: ChannelKind) -> Vec<&'static [Compiled]> {
    let packs = all();
    match kind {
        ChannelKind::Evolution => vec![&packs.fault, &packs.evolution, &packs.http],
        ChannelKind::Resend => vec![&packs.fault, &packs.resend, &packs.http],
        ChannelKind::Webhook => vec![&packs.fault, &packs.webhook, &packs.http],
        ChannelKind::Smtp => vec![&packs.smtp, &packs.fault],
        ChannelKind::Tiss => vec![&packs.fault, &packs.tiss],
        ChannelKind::Null => vec![&packs.fault],
        ChannelKind::Own => vec![&packs.fault, &packs.http],
    }
}

fn all() -> &'static Packs {
    static PACKS: OnceLock<Packs> = OnceLock::new();
    PACKS.get_or_init(|| Packs {
        fault: load("fault", include_str!("../../rules/fault.toml")),
        http: load("http", include_str!("../../rules/http.toml")),
        evolution: load("evolution", include_str!("../../rules/evolution.toml")),
        resend: load("resend", include_str!("../../rules/resend.toml")),
        webhook: load("webhook", include_str!("../../rules/webhook.toml")),
        smtp: load("smtp", include_str!("../../rules/smtp.toml")),
        tiss: load("tiss", include_str!("../../rules/tiss.toml")),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rules: Vec<Rule>,
}

/// The files are part of the program and a test loads each of them, so a bad one cannot reach a user.
fn load(name: &str, text: &str) -> Vec<Compiled> {
    let file: File = toml::from_str(text).unwrap_or_else(|e| panic!("built-in rules `{name}`: {e}"));
    let compile = |(index, rule)| Compiled::new(name, index, rule);
    let compiled: Result<Vec<Compiled>, _> = file.rules.iter().enumerate().map(compile).collect();
    compiled.unwrap_or_else(|e| panic!("built-in rules `{name}`: {e}"))
}
