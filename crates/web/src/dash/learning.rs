//! What retries have taught, and the rules that come of it.

use http::Method;
use maud::{Markup, html};
use pombo_kernel::time::{Span, Time};
use serde::Deserialize;
use serde_json::{Value, json};

use super::chart::{self, Column, Kind};
use super::form::Form;
use super::messages::{meaning, short};
use super::parts::{self, Tone, asking_form, badge, capital, encoded, form, time};
use super::sheet::Sheet;
use super::simulate;
use super::visit::{Reply, Visit};
use super::words::Lang;
use crate::problem::Problem;

const HERE: &str = "/learning";
const RULES: &str = "/v1/rules";
const RULE: &str = "/v1/rules/{id}";

#[derive(Deserialize)]
struct Learning {
    enough: u64,
    curves: Vec<Curve>,
    outages: Vec<Outages>,
}

#[derive(Deserialize)]
struct Curve {
    channel: String,
    category: String,
    all: Estimate,
    by_attempt: Vec<ByAttempt>,
    by_wait: Vec<ByTime>,
}

#[derive(Deserialize)]
struct Estimate {
    tried: u64,
    passed: u64,
    chance: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
}

#[derive(Deserialize)]
struct ByAttempt {
    attempt: u16,
    estimate: Estimate,
}

#[derive(Deserialize)]
struct ByTime {
    from: Span,
    to: Span,
    estimate: Estimate,
}

#[derive(Deserialize)]
struct Outages {
    channel: String,
    destination: Option<String>,
    count: u64,
    lasted: Vec<Lasted>,
}

#[derive(Deserialize)]
struct Lasted {
    from: Span,
    to: Span,
    count: u64,
}

#[derive(Deserialize)]
struct Listed<T> {
    items: Vec<T>,
}

#[derive(Deserialize)]
struct Suggestion {
    id: String,
    channel: String,
    text: String,
    seen: u64,
    ended: u64,
    followed: Estimate,
    advice: String,
    rule: Option<Value>,
}

#[derive(Deserialize)]
struct RuleLine {
    channel: String,
    rule: Value,
    accepted: Option<Accepted>,
}

#[derive(Deserialize)]
struct Accepted {
    id: String,
    created_at: Time,
    created_by: String,
    note: Option<String>,
}

#[derive(Deserialize)]
struct Trial {
    looked_at: u64,
    more: bool,
    changed: u64,
    changes: Vec<Change>,
}

#[derive(Deserialize)]
struct Change {
    before: Judged,
    after: Judged,
    count: u64,
    samples: Vec<Sample>,
}

#[derive(Deserialize)]
struct Judged {
    verdict: String,
    category: String,
}

#[derive(Deserialize)]
struct Sample {
    id: String,
    text: String,
}

pub(crate) async fn page(visit: Visit) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let learning: Learning = visit.ask("/v1/learning", "", "").await?;
    let suggested: Listed<Suggestion> = visit.ask("/v1/rules/suggestions", "", "").await?;
    let accepted: Listed<RuleLine> = visit.ask(RULES, "", "origin=accepted").await?;
    let nothing = learning.curves.is_empty() && suggested.items.is_empty() && accepted.items.is_empty();
    let simulate =
        html! { a .button href=(simulate::HERE) { (lang.say("Try a policy on outages", "Simular quedas")) } };
    let mut sheet = Sheet::new(lang.say("Learning", "Aprendizado")).beside(simulate);
    if nothing {
        let words = lang.say(
            "Once messages have been tried again, this page says how often that helped, and suggests rules for errors that no rule knows.",
            "Quando mensagens forem tentadas de novo, esta página diz quantas vezes isso ajudou e sugere regras para erros que nenhuma regra conhece.",
        );
        return Ok(sheet.still(parts::empty(
            lang.say("Nothing to learn from yet", "Ainda não há do que aprender"),
            words,
            Some("pombo learning"),
        )));
    }
    if !suggested.items.is_empty() {
        sheet = sheet.still(suggestions(&visit, &suggested.items));
    }
    if !accepted.items.is_empty() {
        sheet = sheet.still(rules(&visit, &accepted.items));
    }
    for curve in &learning.curves {
        sheet = sheet.still(card(&visit, curve, learning.enough));
    }
    if !learning.outages.is_empty() {
        sheet = sheet.still(outages(lang, &learning.outages));
    }
    Ok(sheet)
}

/// Errors that no rule knows.
fn suggestions(visit: &Visit, items: &[Suggestion]) -> Markup {
    let lang = visit.lang();
    let title = lang.say("Errors that no rule knows", "Erros que nenhuma regra conhece");
    let rows: Vec<Markup> = items.iter().map(|it| html! { tr {
        th scope="row" { (it.text) small { (it.channel) } }
        td .num { (lang.number(it.seen)) small { (lang.count(it.ended, ("dead letter", "dead letters"), ("mensagem morta", "mensagens mortas"))) } }
        td {
            (advice(lang, &it.advice)) " " (followed(lang, &it.followed))
            @if it.advice == "permanent" { p .hint { (lang.say("A permanent error ends a message at once, and a long outage looks the same from here. Read the provider's words first, and see what the rule would change.", "Um erro permanente encerra a mensagem na hora, e uma queda longa parece igual daqui. Leia primeiro as palavras do provedor e veja o que a regra mudaria.")) } }
        }
        td { @if it.rule.is_some() { (buttons(visit, it)) } }
    } }).collect();
    html! {
        section .card aria-labelledby="suggested-title" {
            header { h2 #suggested-title { (title) } }
            (parts::table(title, &[lang.say("Error", "Erro"), lang.say("#Met", "#Visto"), lang.say("The next attempt", "A tentativa seguinte"), lang.say("Rule", "Regra")], &rows))
        }
    }
}

fn advice(lang: Lang, advice: &str) -> Markup {
    match advice {
        "transient" => badge(Tone::Ok, lang.say("passes", "passa")),
        "permanent" => badge(Tone::Bad, lang.say("does not pass", "não passa")),
        "undecided" => badge(Tone::Wait, lang.say("now one, now the other", "ora uma coisa, ora outra")),
        _ => badge(Tone::Quiet, lang.say("too few to say", "poucas para dizer")),
    }
}

fn followed(lang: Lang, estimate: &Estimate) -> String {
    let (tried, passed) = (lang.number(estimate.tried), lang.number(estimate.passed));
    match estimate.chance {
        Some(chance) => {
            let share = lang.percent(chance);
            lang.say(format!("{share} of {tried} succeeded"), format!("{share} de {tried} deram certo"))
        }
        None => {
            lang.say(format!("{passed} of {tried} succeeded"), format!("{passed} de {tried} deram certo"))
        }
    }
}

fn buttons(visit: &Visit, it: &Suggestion) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let field = html! { input type="hidden" name="suggestion" value=(it.id); };
    html! {
        (form(look, "/learning/try", Some(HERE), &html! { (field) button type="submit" { (lang.say("What would it change?", "O que mudaria?")) } }))
        @if visit.may(&Method::POST, RULES) {
            (asking_form(look, "/learning/accept", Some(HERE), lang.say("Accept this rule? Every node goes by it within seconds.", "Aceitar esta regra? Todos os nós passam a segui-la em segundos."), &html! { (field) button .primary type="submit" { (lang.say("Accept", "Aceitar")) } }))
        }
    }
}

/// Rules that people accepted.
fn rules(visit: &Visit, items: &[RuleLine]) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let title = lang.say("Accepted rules", "Regras aceitas");
    let rows: Vec<Markup> = items.iter().filter_map(|it| Some((it, it.accepted.as_ref()?))).map(|(it, accepted)| html! { tr {
        th scope="row" { (it.rule["category"].as_str().unwrap_or_default()) small { (it.channel) } }
        td { (verdict(lang, it.rule["verdict"].as_str().unwrap_or_default())) @if let Some(note) = &accepted.note { small { (note) } } }
        td { (accepted.created_by) small { (time(look, accepted.created_at)) } }
        td { @if visit.may(&Method::DELETE, RULE) {
            (asking_form(look, &format!("/learning/{}/remove", encoded(&accepted.id)), Some(HERE), lang.say("Remove this rule?", "Remover esta regra?"), &html! { button .danger type="submit" { (lang.say("Remove", "Remover")) } }))
        } }
    } }).collect();
    html! {
        section .card aria-labelledby="accepted-title" {
            header { h2 #accepted-title { (title) } }
            (parts::table(title, &[lang.say("Category", "Categoria"), lang.say("Verdict", "Veredito"), lang.say("By", "Por"), lang.say("Change", "Mudar")], &rows))
        }
    }
}

fn verdict(lang: Lang, verdict: &str) -> String {
    match verdict {
        "transient" => lang.say("tried again", "tentada de novo").to_owned(),
        "permanent" => lang.say("ends the message", "encerra a mensagem").to_owned(),
        "unknown_transient" => lang.say("unknown, tried again", "desconhecido, tentada de novo").to_owned(),
        "sender_fault" => lang.say("our fault, the channel waits", "falha nossa, o canal espera").to_owned(),
        other => other.to_owned(),
    }
}

/// Retries after one kind of failure.
fn card(visit: &Visit, curve: &Curve, enough: u64) -> Markup {
    let lang = visit.lang();
    let after = meaning(visit, &curve.channel, &curve.category);
    let kinds = [
        Kind { class: "ok", words: lang.say("passed", "deram certo") },
        Kind { class: "bad", words: lang.say("failed again", "falharam de novo") },
    ];
    let steps: Vec<Column> = curve
        .by_wait
        .iter()
        .map(|it| Column {
            label: lang.say(
                format!("after {} to {}", lang.span(it.from), lang.span(it.to)),
                format!("depois de {} a {}", lang.span(it.from), lang.span(it.to)),
            ),
            tick: lang.span(it.from),
            counts: vec![it.estimate.passed, it.estimate.tried.saturating_sub(it.estimate.passed)],
        })
        .collect();
    let caption = lang.say("Retries by how long they waited", "Novas tentativas pelo tempo de espera");
    let rows: Vec<Markup> = curve
        .by_attempt
        .iter()
        .map(|it| {
            html! { tr {
                th scope="row" { (capital(&lang.ordinal(it.attempt))) }
                td .num { (chance(lang, &it.estimate)) }
                td .num { (lang.number(it.estimate.tried)) }
            } }
        })
        .collect();
    html! {
        section .card {
            header { h2 { (curve.channel) ": " (after) } }
            p .big { (followed(lang, &curve.all)) "." }
            @if curve.all.chance.is_none() { p .hint { (lang.say(format!("Fewer than {enough} retries say little."), format!("Menos de {enough} novas tentativas dizem pouco."))) } }
            (chart::columns(lang, caption, &kinds, &steps))
            (parts::table(lang.say("By attempt", "Por tentativa"), &[lang.say("Attempt", "Tentativa"), lang.say("#Chance", "#Chance"), lang.say("#Tried", "#Tentadas")], &rows))
        }
    }
}

/// The share that passed, and where the true one lies.
fn chance(lang: Lang, estimate: &Estimate) -> Markup {
    html! {
        @match (estimate.chance, estimate.low, estimate.high) {
            (Some(chance), Some(low), Some(high)) => {
                (lang.percent(chance)) small { (lang.percent(low)) " – " (lang.percent(high)) }
            }
            _ => span .quiet { (lang.say("too few", "poucas")) },
        }
    }
}

fn outages(lang: Lang, items: &[Outages]) -> Markup {
    let title = lang.say("How long outages lasted", "Quanto duraram as quedas");
    let rows: Vec<Markup> = items.iter().map(|it| html! { tr {
        th scope="row" { (it.channel) @if let Some(destination) = &it.destination { small { (destination) } } }
        td .num { (lang.number(it.count)) }
        td { @for length in &it.lasted { p { (lang.span(length.from)) " – " (lang.span(length.to)) ": " (lang.number(length.count)) } } }
    } }).collect();
    html! {
        section .card aria-labelledby="outages-title" {
            header { h2 #outages-title { (title) } }
            (parts::table(title, &[lang.say("Channel", "Canal"), lang.say("#Outages", "#Quedas"), lang.say("Lasted", "Duração")], &rows))
        }
    }
}

/// What a suggested rule would change, on a page of its own.
pub(crate) async fn try_out(visit: Visit, given: Form) -> Result<Reply, Problem> {
    let (lang, look) = (visit.lang(), visit.look());
    let id = given.get("suggestion").to_owned();
    let tried = visit.act(Method::POST, "/v1/rules/try", "", &json!({ "suggestion": id })).await?;
    let tried: Trial = serde_json::from_value(tried).map_err(|_| Problem::internal())?;
    let title = lang.say("What the rule would change", "O que a regra mudaria");
    let judged = |it: &Judged| html! { (verdict(lang, &it.verdict)) small { (it.category) } };
    let rows: Vec<Markup> = tried.changes.iter().map(|it| html! { tr {
        td .num { (lang.number(it.count)) }
        td { (judged(&it.before)) }
        td { (judged(&it.after)) }
        th scope="row" { @for sample in &it.samples { p { a href=(format!("/messages/{}", encoded(&sample.id))) { (short(&sample.id)) } " " (sample.text) } } }
    } }).collect();
    let (changed, looked_at) = (lang.number(tried.changed), lang.number(tried.looked_at));
    let said = lang.say(
        format!("It would have decided {changed} of {looked_at} dead letters."),
        format!("Teria decidido {changed} de {looked_at} mensagens mortas."),
    );
    let sheet = Sheet::new(title).still(html! {
        section .card aria-label=(title) {
            p .big { (said) }
            @if tried.more { p .hint { (lang.say("There are older ones that were not looked at.", "Há mais antigas que não foram vistas.")) } }
            @if !rows.is_empty() {
                (parts::table(title, &[lang.say("#Count", "#Quantas"), lang.say("Was", "Era"), lang.say("Would be", "Seria"), lang.say("For example", "Por exemplo")], &rows))
            }
            div .row {
                @if visit.may(&Method::POST, RULES) {
                    (form(look, "/learning/accept", Some(HERE), &html! { input type="hidden" name="suggestion" value=(id); button .primary type="submit" { (lang.say("Accept the rule", "Aceitar a regra")) } }))
                }
                a .button href=(HERE) { (lang.say("Back", "Voltar")) }
            }
        }
    });
    Ok(Reply::Sheet(sheet))
}

/// Accepts a suggested rule.
pub(crate) async fn accept(visit: Visit, given: Form) -> Result<Reply, Problem> {
    let wish = json!({ "suggestion": given.get("suggestion") });
    visit.act(Method::POST, RULES, "", &wish).await?;
    let words = visit.lang().say(
        "The rule was accepted, and is in effect within seconds.",
        "A regra foi aceita e vale em segundos.",
    );
    Ok(Reply::done(HERE, words))
}

/// Takes a rule back.
pub(crate) async fn remove(visit: Visit, _: Form) -> Result<Reply, Problem> {
    visit.act(Method::DELETE, RULE, visit.name(), &Value::Null).await?;
    let words = visit.lang().say(
        "The rule was removed, and decides nothing more within seconds.",
        "A regra foi removida e em segundos não decide mais nada.",
    );
    Ok(Reply::done(HERE, words))
}
