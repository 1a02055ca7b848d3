//! What a campaign would do, before it does it, and the button that lets it.

use std::collections::BTreeSet;

use axum::response::Response;
use http::Method;
use maud::{Markup, html};
use pombo_kernel::time::{Span, Time};
use serde::Deserialize;
use serde_json::{Value, json};

use super::people::{lines_of, some};
use super::{find, may_act};
use crate::dash::campaigns::{Campaign, Limits, Waiting, address, state, waits_for};
use crate::dash::frame;
use crate::dash::parts::{self, ago, empty, facts, form};
use crate::dash::sheet::Sheet;
use crate::dash::visit::Visit;
use crate::dash::words::Lang;
use crate::problem::Problem;
use crate::route::no_address;

const PREVIEW: &str = "/v1/campaigns/{id}/preview";
/// Bad lines that are shown here; the list has all of them.
const LINES: usize = 20;

/// What the API says of it.
#[derive(Deserialize)]
struct Preview {
    recipients: u64,
    invalid: u64,
    suppressed: u64,
    suppressed_checked: u64,
    duplicates: u64,
    samples: Vec<Sample>,
    limits: Limits,
    eta: Option<Time>,
    first_send_at: Option<Time>,
    waiting: Option<Waiting>,
    variables: Variables,
}

#[derive(Deserialize)]
struct Sample {
    to: String,
    content: Option<Value>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Variables {
    needed: BTreeSet<String>,
    given: BTreeSet<String>,
    missing: BTreeSet<String>,
}

/// Looks at what the campaign of the page would do.
async fn look(visit: &Visit) -> Result<Preview, Problem> {
    let seen = visit.act(Method::POST, PREVIEW, visit.name(), &json!({})).await?;
    serde_json::from_value(seen).map_err(|_| Problem::internal())
}

pub(crate) async fn preview(visit: Visit) -> Result<Sheet, Problem> {
    let campaign = find(&visit).await?;
    let seen = look(&visit).await?;
    let lang = visit.lang();
    let bad = match seen.invalid {
        0 => Vec::new(),
        _ => some(&visit, "invalid", LINES).await?,
    };
    let base = address(&campaign.id);
    let beside =
        html! { (state(lang, &campaign)) a href=(base) { (lang.say("To the campaign", "Para a campanha")) } };
    let title = lang.say(format!("Preview of {}", campaign.name), format!("Prévia de {}", campaign.name));
    let lines = html! { @if !bad.is_empty() {
        section .card aria-labelledby="lines-title" {
            header {
                h2 #lines-title { (lang.say("Lines by which nobody can be written to", "Linhas pelas quais não se pode escrever a ninguém")) }
                a href=(format!("{base}/recipients?state=invalid")) { (lang.number(seen.invalid)) @if seen.invalid > bad.len() as u64 { " · " (lang.say("all of them", "todas")) } }
            }
            (lines_of(lang, lang.say("Invalid lines", "Linhas inválidas"), &bad))
        }
    } };
    let html = html! {
        (counted(lang, &seen))
        (going(&visit, &campaign, &seen))
        div .two { (times(&visit, &seen)) (variables(lang, &seen.variables)) }
        (lines)
        (samples(lang, &campaign, &seen.samples))
    };
    Ok(Sheet::new(title).beside(beside).still(html))
}

fn tile(lang: Lang, words: &str, count: u64, hint: &str, bad: bool) -> Markup {
    html! { div .tile.low { h2 { (words) } p .value { @if bad && count > 0 { span .bad-text { (lang.number(count)) } } @else { (lang.number(count)) } } p .hint { (hint) } } }
}

fn counted(lang: Lang, seen: &Preview) -> Markup {
    let checked = lang.say(
        format!("of {} who were looked up", lang.number(seen.suppressed_checked)),
        format!("de {} que foram consultados", lang.number(seen.suppressed_checked)),
    );
    html! {
        section aria-labelledby="counted-title" { h2 .unseen #counted-title { (lang.say("The list", "A lista")) } div .tiles {
            (tile(lang, lang.say("People on the list", "Pessoas na lista"), seen.recipients, lang.say("each is written to once", "cada uma recebe uma vez"), false))
            (tile(lang, lang.say("Invalid lines", "Linhas inválidas"), seen.invalid, lang.say("left out, with the reason", "de fora, com o motivo"), true))
            (tile(lang, lang.say("Suppressed", "Suprimidas"), seen.suppressed, &checked, false))
            (tile(lang, lang.say("Repeated", "Repetidas"), seen.duplicates, lang.say("the same person again", "a mesma pessoa de novo"), false))
        } }
    }
}

fn times(visit: &Visit, seen: &Preview) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let span = |seconds: u64| html! { (lang.span(Span::from_secs(seconds))) };
    let at = |at: Option<Time>| at.map_or_else(parts::none, |at| html! { (ago(look, at)) });
    let mut rows = vec![
        (lang.say("First send", "Primeiro envio"), at(seen.first_send_at)),
        (lang.say("Ends about", "Termina por volta de"), at(seen.eta)),
        (lang.say("Should take", "Deve levar"), span(seen.limits.estimated_seconds)),
        (lang.say("Pauses itself after", "Pausa sozinha após"), span(seen.limits.soft_seconds)),
        (
            lang.say("A hanging send is cut off after", "Um envio travado é cortado após"),
            span(seen.limits.hard_seconds),
        ),
    ];
    rows.extend(seen.waiting.as_ref().map(|waiting| (lang.say("Would wait for", "Esperaria"), html! {
        (waits_for(lang, &waiting.reason)) @if let Some(until) = waiting.until { ", " (ago(look, until)) }
        small { span lang="en" { (waiting.words) } }
    })));
    html! {
        section .card aria-labelledby="times-title" {
            header { h2 #times-title { (lang.say("If it began now", "Se começasse agora")) } }
            (facts(rows))
        }
    }
}

fn variables(lang: Lang, variables: &Variables) -> Markup {
    let list = |names: &BTreeSet<String>| match names.is_empty() {
        true => parts::none(),
        false => html! { span .chips { @for name in names { code { (name) } " " } } },
    };
    html! {
        section .card aria-labelledby="variables-title" {
            header { h2 #variables-title { (lang.say("Variables", "Variáveis")) } }
            (facts(vec![
                (lang.say("The template names", "O modelo usa"), list(&variables.needed)),
                (lang.say("Given", "Dadas"), list(&variables.given)),
            ]))
            @if !variables.missing.is_empty() {
                p .flash.bad { (lang.say("Missing for somebody:", "Faltam a alguém:")) " " span .chips { @for name in &variables.missing { code { (name) } " " } } }
            }
        }
    }
}

/// How it begins from here.
fn going(visit: &Visit, campaign: &Campaign, seen: &Preview) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let base = address(&campaign.id);
    let back = format!("{base}/preview");
    let before = ["draft", "scheduled"].contains(&campaign.state.as_str());
    if !may_act(visit) || !(before || campaign.state == "paused") {
        return html! {};
    }
    let tomorrow = look.zone.written(look.zone.tomorrow(look.now), "%Y-%m-%dT09:00");
    html! {
        section .card aria-labelledby="going-title" {
            header { h2 #going-title { (lang.say("Go on", "Seguir")) } }
            @if seen.recipients == 0 {
                p { (lang.say("There is nobody on the list yet.", "Ainda não há ninguém na lista.")) }
            }
            div .row.starts {
                @if before && seen.recipients > 0 {
                    (form(look, &format!("{base}/start"), Some(&back), &html! { button .primary type="submit" { (lang.say("Start now", "Começar agora")) ": " (lang.count(campaign.counts.left(), ("person", "people"), ("pessoa", "pessoas"))) } }))
                    (form(look, &format!("{base}/schedule"), Some(&back), &html! {
                        div .row {
                            label for="f-at" { (lang.say("or begin at", "ou começar em")) " (" (look.zone) ")" }
                            input id="f-at" type="datetime-local" name="at" value=(tomorrow) required;
                            button type="submit" { (lang.say("Schedule", "Agendar")) }
                        }
                    }))
                }
                a .button href=(format!("{base}/list")) { @if seen.recipients == 0 { (lang.say("Add recipients", "Adicionar destinatários")) } @else { (lang.say("Add more recipients", "Adicionar mais destinatários")) } }
            }
        }
    }
}

fn text<'a>(content: &'a Value, name: &str) -> Option<&'a str> {
    content.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// What the first ones would get. Somebody else's HTML is shown in a frame in which nothing runs.
fn samples(lang: Lang, campaign: &Campaign, samples: &[Sample]) -> Markup {
    html! {
        section .card aria-labelledby="samples-title" {
            header { h2 #samples-title { (lang.say("What the first ones would get", "O que os primeiros receberiam")) } }
            @if samples.is_empty() { (empty(
                lang.say("Nobody to show it for", "Ninguém para quem mostrar"),
                lang.say("Once there are people on the list, the message of the first three stands here, filled in.", "Quando houver pessoas na lista, a mensagem das três primeiras aparece aqui, preenchida."),
                None,
            )) }
            div .samples { @for (place, sample) in samples.iter().enumerate() {
                div {
                    h3 { (sample.to) }
                    @if let Some(error) = &sample.error { p .flash.bad { span lang="en" { (error) } } }
                    @if let Some(content) = &sample.content {
                        @if let Some(subject) = text(content, "subject") { p { strong { (subject) } } }
                        @if text(content, "html").is_some() {
                            iframe .letter sandbox="" title=(lang.say(format!("The mail to {}", sample.to), format!("O e-mail para {}", sample.to))) src=(format!("{}/sample?number={place}", address(&campaign.id))) loading="lazy" {}
                        } @else if let Some(words) = text(content, "text") {
                            p .bubble { (words) }
                        } @else { (parts::json(content)) }
                    }
                }
            } }
        }
    }
}

/// The HTML of one of the samples, as a document of its own.
pub(crate) async fn sample(visit: Visit) -> Result<Response, Problem> {
    let place: usize = visit.asked("number").and_then(|number| number.parse().ok()).unwrap_or(0);
    let seen = look(&visit).await?;
    let content = seen.samples.get(place).and_then(|sample| sample.content.as_ref());
    content.and_then(|content| text(content, "html")).map(frame::foreign).ok_or_else(no_address)
}
