//! Retry policies: each drawn on a line of time, with who goes by it.

use std::sync::Arc;

use maud::{Markup, html};
use pombo_kernel::adapt::Adaptive;
use pombo_kernel::policy::Policy;
use pombo_kernel::setup::ChannelSetup;

use super::parts::{encoded, facts, with_query};
use super::schedule::{exact, numbers, strip, summary, total};
use super::sheet::Sheet;
use super::simulate;
use super::visit::Visit;
use super::words::Lang;
use crate::problem::{Code, Problem};

/// A policy, and who goes by it. Channels may change values of a policy for themselves: then one name is several.
pub(crate) struct Used {
    pub(crate) policy: Policy,
    pub(crate) channels: Vec<Arc<ChannelSetup>>,
    /// Whether retry decisions for claims go by it.
    pub(crate) decisions: bool,
}

impl Used {
    fn by_nobody(&self) -> bool {
        self.channels.is_empty() && !self.decisions
    }
}

/// The channels that are this person's to see.
pub(crate) fn channels(visit: &Visit) -> Vec<Arc<ChannelSetup>> {
    let (setup, caller) = (visit.door().setup(), visit.caller());
    let own = setup.channels.values().filter(|it| it.tenant == caller.tenant && caller.sees(&it.name));
    own.cloned().collect()
}

/// Every policy of the configuration that is this person's to see, those that somebody goes by first. One that only
/// others' channels go by is theirs, unless it comes with Pombo.
pub(crate) fn all(visit: &Visit) -> Vec<Used> {
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
    let setup = visit.door().setup();
    let claims = setup.claims.clone();
    match found.iter_mut().find(|it| it.policy == claims) {
        Some(it) => it.decisions = true,
        None => found.push(Used { policy: claims, channels: Vec::new(), decisions: true }),
    }
    let own = |policy: &&Policy| {
        let name = &policy.name;
        let elsewhere = || {
            let (all, mine) = (setup.channels.values(), channels(visit));
            let mut users = all.filter(|it| it.policy.name == *name);
            users.any(|it| !mine.iter().any(|own| own.name == it.name))
        };
        Policy::BUILT_IN.contains(&name.as_str()) || !elsewhere()
    };
    for policy in setup.dashboard.policies.iter().filter(own) {
        if !found.iter().any(|it| it.policy == *policy) {
            found.push(Used { policy: policy.clone(), channels: Vec::new(), decisions: false });
        }
    }
    found.sort_by(|a, b| (a.by_nobody(), &a.policy.name).cmp(&(b.by_nobody(), &b.policy.name)));
    found
}

/// Where a policy is shown.
pub(crate) fn href(policy: &Policy) -> String {
    format!("/policies/{}", encoded(policy.name.as_str()))
}

/// Every policy.
pub(crate) async fn list(visit: Visit) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let all = all(&visit);
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
    };
    Ok(Sheet::new(lang.say("Policies", "Políticas")).beside(try_link(lang, "")).still(cards))
}

/// One policy; where channels have changed values of it for themselves, each form of it.
pub(crate) async fn page(visit: Visit) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let forms: Vec<Used> =
        all(&visit).into_iter().filter(|it| it.policy.name.as_str() == visit.name()).collect();
    if forms.is_empty() {
        let hint = "`pombo policy show` lists every policy";
        return Err(Problem::new(Code::NotFound, "there is no policy of this name", hint));
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
    let title = lang.say(format!("Policy {name}"), format!("Política {name}"));
    Ok(Sheet::new(title).beside(try_link(lang, name)).still(html))
}

/// The way to where a policy is tried on pretend outages.
fn try_link(lang: Lang, name: &str) -> Markup {
    let pairs = Some(("policy".to_owned(), name.to_owned())).filter(|(_, name)| !name.is_empty());
    html! { a .button href=(with_query(simulate::HERE, pairs)) { (lang.say("Try it on outages", "Simular quedas")) } }
}

/// Whether waits go by what was learnt, where they do.
pub(crate) fn adapts(lang: Lang, policy: &Policy) -> Option<&'static str> {
    match policy.adaptive {
        Adaptive::Off => None,
        Adaptive::On => Some(lang.say(
            "Waits are chosen by what retries have taught, inside these bounds.",
            "As esperas são escolhidas pelo que as novas tentativas ensinaram, dentro destes limites.",
        )),
        Adaptive::Advice => Some(lang.say(
            "Each failed attempt also says what would have been waited by what retries have taught.",
            "Cada tentativa que falhou diz também quanto se teria esperado pelo que as novas tentativas ensinaram.",
        )),
    }
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
            @if let Some(words) = adapts(lang, policy) { " " (words) }
        }
    }
}

fn users(lang: Lang, it: &Used) -> Markup {
    html! {
        p .row {
            span .quiet { (if it.by_nobody() { lang.say("No channel goes by it.", "Nenhum canal a usa.") } else { lang.say("Used by", "Usada por") }) }
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
        (
            lang.say("Adaptive waits", "Esperas adaptativas"),
            html! { (match policy.adaptive {
                Adaptive::Off => lang.say("off", "desligadas"),
                Adaptive::On => lang.say("on", "ligadas"),
                Adaptive::Advice => lang.say("advice only", "só conselho"),
            }) },
        ),
    ])
}
