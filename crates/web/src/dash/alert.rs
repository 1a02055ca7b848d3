//! Alerts in words, wherever they are shown.

use maud::{Markup, html};
use pombo_kernel::alert::{
    Acknowledged, Alert, RuleName, Sample, Severity, Silenced, State, Subject, sentence, shown,
};
use pombo_kernel::name::{ChannelName, Tenant};
use pombo_kernel::time::{Span, Time};
use serde::Deserialize;

use super::parts::{Tone, ago, badge, encoded, linked};
use super::visit::Look;
use super::words::Lang;

/// So much of an alert of the API as is needed to say what is wrong.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Fired {
    pub(crate) id: String,
    pub(crate) rule: RuleName,
    pub(crate) severity: Severity,
    pub(crate) state: State,
    pub(crate) channel: Option<ChannelName>,
    pub(crate) about: Option<String>,
    value: f64,
    above: f64,
    peak: f64,
    pub(crate) count: u64,
    of: Option<u64>,
    window: Option<Span>,
    pub(crate) first_seen: Time,
    pub(crate) fired_at: Time,
    pub(crate) last_seen: Time,
    pub(crate) resolved_at: Option<Time>,
    pub(crate) acknowledged: Option<Acknowledged>,
    pub(crate) silenced: Option<Silenced>,
    #[serde(default)]
    pub(crate) samples: Vec<Sample>,
}

impl Fired {
    /// How it stands, from when on it is wrong, and how bad it was, as people read such numbers.
    pub(crate) fn numbers(&self, lang: Lang) -> [String; 3] {
        [self.value, self.above, self.peak].map(|value| shown(self.rule.unit(), value, lang.language()))
    }

    /// How many it concerns, of how many, where both are known.
    pub(crate) fn of_how_many(&self) -> Option<(u64, u64)> {
        self.of.map(|of| (self.count, of))
    }
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
        // What is over is told by how bad it was: the number that ended it is no news.
        value: if it.state == State::Resolved { it.peak } else { it.value },
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

/// Whether somebody looks after it, and whether people are told.
pub(crate) fn standing(lang: Lang, it: &Fired) -> Markup {
    html! {
        @match (it.state, &it.acknowledged) {
            (State::Resolved, _) => (badge(Tone::Ok, lang.say("over", "passou"))),
            (State::Firing, None) => (badge(Tone::Bad, lang.say("open", "aberto"))),
            (State::Firing, Some(_)) => (badge(Tone::Wait, lang.say("looked after", "em cuidado"))),
        }
        @if it.silenced.is_some() && it.state == State::Firing { " " (badge(Tone::Held, lang.say("silenced", "silenciado"))) }
    }
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
