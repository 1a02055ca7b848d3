//! Retry policies as they apply: each drawn on a line of time, with who goes by it.

use std::sync::Arc;

use maud::{Markup, html};
use pombo_kernel::policy::Policy;
use pombo_kernel::setup::ChannelSetup;

use super::parts::{encoded, facts};
use super::schedule::{exact, numbers, strip, summary, total};
use super::sheet::Sheet;
use super::visit::Visit;
use super::words::Lang;
use crate::problem::{Code, Problem};

/// A policy that somebody goes by. Channels may change values of a policy for themselves: then one name is several.
struct Used {
    policy: Policy,
    channels: Vec<Arc<ChannelSetup>>,
    /// Whether retry decisions for claims go by it.
    decisions: bool,
}

/// The channels that are this person's to see.
pub(crate) fn channels(visit: &Visit) -> Vec<Arc<ChannelSetup>> {
    let (setup, caller) = (visit.door().setup(), visit.caller());
    let own = setup.channels.values().filter(|it| it.tenant == caller.tenant && caller.sees(&it.name));
    own.cloned().collect()
}

fn used(visit: &Visit) -> Vec<Used> {
    let mut found: Vec<Used> = Vec::new();
    for channel in channels(visit) {
        match found.iter_mut().find(|it| it.policy == channel.policy) {
            Some(it) => it.channels.push(channel),
            None => {
                found.push(Used {
                    policy: channel.policy.clone(),
                    channels: vec![channel],
                    decisions: false,
                });
            }
        }
    }
    let claims = visit.door().setup().claims.clone();
    match found.iter_mut().find(|it| it.policy == claims) {
        Some(it) => it.decisions = true,
        None => found.push(Used { policy: claims, channels: Vec::new(), decisions: true }),
    }
    found.sort_by(|a, b| a.policy.name.cmp(&b.policy.name));
    found
}

/// Where a policy is shown.
pub(crate) fn href(policy: &Policy) -> String {
    format!("/policies/{}", encoded(policy.name.as_str()))
}

/// Every policy that somebody goes by.
pub(crate) async fn list(visit: Visit) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let all = used(&visit);
    let cards = html! {
        p .hint { (legend(lang)) }
        @for (place, it) in all.iter().enumerate() {
            @let title = format!("policy-{place}");
            article .card aria-labelledby=(title) {
                header {
                    h2 id=(title) { a href=(href(&it.policy)) { (it.policy.name) } }
                    span .quiet { (summary(lang, &it.policy)) }
                }
                (strip(lang, &it.policy))
                (outcome(lang, &it.policy))
                (users(lang, it))
                details .numbers { summary { (lang.say("Show the numbers", "Ver os números")) } (numbers(lang, &it.policy)) }
            }
        }
        p .hint { (lang.say("What no channel goes by is not shown: ", "O que nenhum canal usa não aparece: ")) code { "pombo policy show" } (lang.say(" lists every policy.", " lista todas as políticas.")) }
    };
    Ok(Sheet::new(lang.say("Policies", "Políticas")).still(cards))
}

/// One policy; where channels have changed values of it for themselves, each form of it.
pub(crate) async fn page(visit: Visit) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let forms: Vec<Used> =
        used(&visit).into_iter().filter(|it| it.policy.name.as_str() == visit.name()).collect();
    if forms.is_empty() {
        let hint = "`pombo policy show` lists every policy";
        return Err(Problem::new(Code::NotFound, "no channel goes by a policy of this name", hint));
    }
    let name = visit.name();
    let html = html! {
        p .hint { (legend(lang)) }
        @if forms.len() > 1 {
            p { (lang.say("Some channels have changed values of this policy for themselves.", "Alguns canais mudaram valores desta política para si.")) }
        }
        @for (place, it) in forms.iter().enumerate() {
            @let title = format!("policy-{place}");
            section .card aria-labelledby=(title) {
                header { h2 id=(title) { (summary(lang, &it.policy)) } }
                (strip(lang, &it.policy))
                (outcome(lang, &it.policy))
                (users(lang, it))
                div .two {
                    div { (numbers(lang, &it.policy)) }
                    div { (values(lang, &it.policy)) }
                }
            }
        }
    };
    Ok(Sheet::new(lang.say(format!("Policy {name}"), format!("Política {name}"))).still(html))
}

fn legend(lang: Lang) -> &'static str {
    lang.say(
        "Each point is an attempt that comes because all before it failed; its band is how far jitter moves it. Only waits count, and the line is stretched towards its beginning.",
        "Cada ponto é uma tentativa que só vem se todas as anteriores falharam; a faixa é até onde a variação a move. Só contam as esperas, e a linha é esticada perto do começo.",
    )
}

/// What comes of a message that fails every time.
fn outcome(lang: Lang, policy: &Policy) -> Markup {
    let total = total(lang, policy);
    html! {
        p {
            @if policy.attempts > 1 {
                (lang.say("Always failing: a dead letter after ", "Falhando sempre: vira mensagem morta depois de ")) strong { (total) }
                (lang.say(", besides the attempts themselves.", ", fora as próprias tentativas."))
            } @else {
                (lang.say("One attempt, and no retry.", "Uma tentativa, sem outra."))
            }
            @if let Some(expiry) = policy.expires_after {
                " " (lang.say(
                    format!("Whatever is unsent {} after it was accepted is given up.", lang.span(expiry)),
                    format!("O que não saiu em {} depois de aceito é abandonado.", lang.span(expiry)),
                ))
            }
        }
    }
}

fn users(lang: Lang, it: &Used) -> Markup {
    html! {
        p .row {
            span .quiet { (lang.say("Used by", "Usada por")) }
            @for channel in &it.channels {
                a .tag href=(format!("/channels/{}", encoded(channel.name.as_str()))) { (channel.name) }
            }
            @if it.decisions { span .tag { (lang.say("retry decisions for claims", "decisões de nova tentativa de guias")) } }
        }
    }
}

fn values(lang: Lang, policy: &Policy) -> Markup {
    let jitter = if policy.jitter > 0.0 {
        format!("±{}", lang.percent(policy.jitter))
    } else {
        lang.say("none", "nenhuma").to_owned()
    };
    let never = lang.say("never", "nunca").to_owned();
    facts(vec![
        (lang.say("Attempts", "Tentativas"), html! { (policy.attempts) }),
        (lang.say("In all", "No total"), html! { (total(lang, policy)) }),
        (lang.say("Jitter", "Variação"), html! { (jitter) }),
        (lang.say("No wait under", "Espera mínima"), html! { (exact(lang, policy.floor)) }),
        (lang.say("No wait of ours over", "Espera máxima nossa"), html! { (exact(lang, policy.cap)) }),
        (
            lang.say("A provider may ask for", "Um provedor pode pedir"),
            html! { (lang.say("up to ", "até ")) (exact(lang, policy.max_hint)) },
        ),
        (
            lang.say("Given up after", "Abandonada após"),
            html! { (policy.expires_after.map_or(never, |span| exact(lang, span))) },
        ),
    ])
}
