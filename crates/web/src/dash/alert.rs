//! Alerts in words, wherever they are shown.

use maud::{Markup, html};
use pombo_kernel::alert::{Alert, RuleName, Severity, State, Subject, sentence};
use pombo_kernel::name::{ChannelName, Tenant};
use pombo_kernel::time::{Span, Time};
use serde::Deserialize;
use serde_json::Value;

use super::parts::{Tone, ago, badge, encoded, linked};
use super::visit::Look;
use super::words::Lang;

/// So much of an alert of the API as is needed to say what is wrong.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Fired {
    pub(crate) id: String,
    rule: RuleName,
    pub(crate) severity: Severity,
    pub(crate) state: State,
    channel: Option<ChannelName>,
    about: Option<String>,
    value: f64,
    above: f64,
    count: u64,
    of: Option<u64>,
    window: Option<Span>,
    pub(crate) first_seen: Time,
    pub(crate) fired_at: Time,
    pub(crate) acknowledged: Option<Value>,
}

/// What is wrong, in the reader's language.
pub(crate) fn said(lang: Lang, it: &Fired) -> String {
    let alert = Alert {
        rule: it.rule,
        severity: it.severity,
        subject: Subject { tenant: Tenant::default(), channel: it.channel.clone(), detail: it.about.clone() },
        state: it.state,
        first_seen: it.first_seen,
        fired_at: it.fired_at,
        last_seen: it.fired_at,
        resolved_at: None,
        above: it.above,
        value: it.value,
        peak: it.value,
        count: it.count,
        of: it.of,
        window: it.window.unwrap_or_default(),
        samples: Vec::new(),
        acknowledged: None,
        silenced: None,
        told: 0,
        told_at: it.fired_at,
        owes: None,
    };
    sentence(&alert, lang.language())
}

/// The gravest first, among equals the newest.
pub(crate) fn worst_first(alerts: &mut [Fired]) {
    alerts.sort_by_key(|it| (std::cmp::Reverse(it.severity), std::cmp::Reverse(it.fired_at)));
}

pub(crate) fn tone(it: &Fired) -> Tone {
    match it.severity {
        Severity::Critical => Tone::Bad,
        Severity::Warning => Tone::Wait,
        Severity::Info => Tone::Quiet,
    }
}

pub(crate) fn severity(lang: Lang, it: &Fired) -> Markup {
    let words = match it.severity {
        Severity::Critical => lang.say("critical", "crítico"),
        Severity::Warning => lang.say("warning", "atenção"),
        Severity::Info => lang.say("notice", "aviso"),
    };
    badge(tone(it), words)
}

/// An alert among other things that need somebody.
pub(crate) fn row(look: &Look, it: &Fired) -> Markup {
    let href = format!("/alerts/{}", encoded(&it.id));
    html! { li {
        (severity(look.lang, it))
        p { (linked("/alerts/{id}", &href, html! { (said(look.lang, it)) })) }
        span .quiet { (ago(look, it.first_seen)) }
    } }
}
