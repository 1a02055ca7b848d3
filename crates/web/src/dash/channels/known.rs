//! What is set of a channel, and what stood in front of it before.

use maud::{Markup, html};
use pombo_kernel::block::BlockKind;
use pombo_kernel::lifecycle::OnUnknownOutcome;
use pombo_kernel::setup::{ChannelSetup, Suppressions};
use pombo_kernel::time::Time;
use serde::Deserialize;

use crate::dash::parts::{Tone, encoded, facts, sign, time};
use crate::dash::policies;
use crate::dash::schedule::{strip, summary};
use crate::dash::visit::Visit;
use crate::dash::words::Lang;
use crate::problem::Problem;

/// Things that happened to a channel which are told at once.
const TOLD: usize = 20;
const EVENTS: &str = "blocked,unblocked";

/// Something that began or ended to stand in the way.
#[derive(Deserialize)]
struct Happened {
    at: Time,
    event: String,
    actor: String,
    detail: Detail,
}

#[derive(Deserialize)]
struct Detail {
    kind: Option<BlockKind>,
    reason: Option<String>,
    destination: Option<String>,
}

#[derive(Deserialize)]
struct Records {
    items: Vec<Happened>,
    next_cursor: Option<String>,
}

/// What stood in front of the channel and its destinations, the newest first.
pub(super) async fn history(visit: &Visit, channel: &str) -> Result<Markup, Problem> {
    let (lang, look) = (visit.lang(), visit.look());
    let query = format!("channel={}&event={EVENTS}", encoded(channel));
    let records: Records = visit.ask("/v1/audit", "", &format!("{query}&limit={TOLD}")).await?;
    Ok(html! {
        section .card aria-labelledby="history-title" {
            header { h2 #history-title { (lang.say("Holds and breakers", "Retenções e disjuntores")) } }
            @if records.items.is_empty() {
                p .quiet { (lang.say("Nothing stood in its way lately.", "Nada ficou no caminho ultimamente.")) }
            } @else {
                ol .timeline { @for it in &records.items {
                    @let (tone, words) = what(lang, it);
                    li class=(tone.class()) {
                        span .sign { (sign(tone)) }
                        p .said { strong { (words) } @if let Some(to) = &it.detail.destination { " → " (to) } @if let Some(reason) = &it.detail.reason { ": " (reason) } }
                        p .when { (time(look, it.at)) span { (lang.say("by", "por")) " " (it.actor) } }
                    }
                } }
            }
            @if records.next_cursor.is_some() {
                a href=(format!("/audit?{query}")) { (lang.say("Further back in the audit", "Mais atrás na auditoria")) }
            }
        }
    })
}

fn what(lang: Lang, it: &Happened) -> (Tone, &'static str) {
    match (it.event.as_str(), it.detail.kind) {
        ("unblocked", _) => (Tone::Ok, lang.say("Messages pass again", "As mensagens voltam a passar")),
        (_, Some(BlockKind::Breaker)) => (Tone::Bad, lang.say("Breaker opened", "Disjuntor abriu")),
        (_, Some(BlockKind::Ramp)) => (Tone::Wait, lang.say("Back, slowly", "Voltando, devagar")),
        (_, Some(BlockKind::Pause)) => (Tone::Wait, lang.say("Asked to wait", "Pediu espera")),
        (_, Some(BlockKind::Operator)) => (Tone::Held, lang.say("Held by a person", "Retido por uma pessoa")),
        (_, Some(BlockKind::Hold) | None) => (Tone::Held, lang.say("Held", "Retido")),
    }
}

/// What is set of it. Nothing secret is among what doors know of a channel but how reports are checked, which is not told.
pub(super) fn facts_of(visit: &Visit, setup: &ChannelSetup) -> Markup {
    let lang = visit.lang();
    let (care, limits, rules) = (&setup.care, &setup.care.breaker, &setup.line);
    let rate = match (care.rate, care.learns) {
        (Some(rate), true) => {
            lang.say(format!("{rate}, or as the provider says"), format!("{rate}, ou como o provedor disser"))
        }
        (Some(rate), false) => rate.to_string(),
        (None, _) => lang.say("as fast as it goes", "o mais rápido que der").to_owned(),
    };
    let mut opens = Vec::new();
    if limits.failures > 0 {
        opens.push(lang.say(
            format!("{} failures in a row", limits.failures),
            format!("{} falhas seguidas", limits.failures),
        ));
    }
    if limits.percent > 0 {
        let (percent, volume) = (limits.percent, limits.volume);
        opens.push(lang.say(
            format!("{percent}% of at least {volume} attempts within a minute"),
            format!("{percent}% de no mínimo {volume} tentativas em um minuto"),
        ));
    }
    let opens = if opens.is_empty() {
        lang.say("never", "nunca").to_owned()
    } else {
        opens.join(lang.say(", or ", ", ou "))
    };
    let (first, slowest) = (lang.span(limits.first_probe), lang.span(limits.slowest_probe));
    let unknown = match setup.on_unknown_outcome {
        OnUnknownOutcome::Resend => lang.say("send again", "enviar de novo"),
        OnUnknownOutcome::Hold => lang.say("put it before a person", "deixar para uma pessoa"),
    };
    let stopped = match setup.suppressions {
        Suppressions::Bulk => lang.say("stops campaigns", "barra campanhas"),
        Suppressions::All => lang.say("stops everything", "barra tudo"),
    };
    let reports = match setup.receipts {
        Some(_) => lang.say("taken, and checked", "recebidos e conferidos"),
        None => lang.say("not taken", "não recebidos"),
    };
    let mut rows = vec![
        (lang.say("Rate", "Ritmo"), html! { (rate) }),
        (
            lang.say("One attempt takes", "Uma tentativa leva"),
            html! { (lang.say("at most ", "no máximo ")) (lang.span(setup.attempt_timeout)) },
        ),
        (lang.say("Breaker opens at", "Disjuntor abre com"), html! { (opens) }),
        (
            lang.say("Probes", "Sondas"),
            html! { (lang.say(format!("after {first}, then up to {slowest} apart"), format!("após {first}, depois a até {slowest}"))) },
        ),
        (lang.say("Outcome unknown", "Desfecho desconhecido"), html! { (unknown) }),
        (lang.say("Suppression list", "Lista de supressão"), html! { (stopped) }),
        (lang.say("Provider's reports", "Relatos do provedor"), html! { (reports) }),
    ];
    if let Some(every) = care.probe_every {
        rows.push((
            lang.say("Asked how it is", "Perguntado como está"),
            html! { (lang.say("every ", "a cada ")) (lang.span(every)) },
        ));
    }
    if !rules.is_free() {
        rows.push((lang.say("Campaigns", "Campanhas"), html! {
            @if let Some(gap) = rules.gap { p { (lang.say(format!("{} between sends", lang.span(gap)), format!("{} entre envios", lang.span(gap)))) } }
            @if let Some(cap) = rules.daily_cap { p { (lang.say(format!("{} a day at most", lang.number(cap.into())), format!("no máximo {} por dia", lang.number(cap.into())))) } }
            @if let Some(window) = &rules.window { p { (window) } }
        }));
    }
    html! {
        section .card aria-labelledby="known-title" {
            header { h2 #known-title { (lang.say("How it is set up", "Como está configurado")) } }
            div .stack {
                p { (lang.say("Policy", "Política")) " " a href=(policies::href(&setup.policy)) { (setup.policy.name) } " " span .quiet { (summary(lang, &setup.policy)) } }
                (strip(lang, &setup.policy))
                @if let Some(words) = policies::adapts(lang, &setup.policy) { p { (words) } }
            }
            (facts(rows))
        }
    }
}
