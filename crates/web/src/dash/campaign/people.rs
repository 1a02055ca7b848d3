//! Everybody on a campaign's list, and what became of each.

use axum::response::Response;
use http::Method;
use maud::{Markup, html};
use pombo_kernel::campaign::recipient::Standing;
use pombo_kernel::time::Time;
use serde::Deserialize;

use super::find;
use crate::dash::campaigns::{Campaign, address};
use crate::dash::messages::{delivery, short};
use crate::dash::parts::{self, Tone, badge, empty, encoded, query, table, time, with_query};
use crate::dash::reasons;
use crate::dash::sheet::Sheet;
use crate::dash::visit::{Look, Visit};
use crate::dash::words::Lang;
use crate::problem::Problem;

pub(super) const RECIPIENTS: &str = "/v1/campaigns/{id}/recipients";
/// Of those with whom something is wrong, so many are shown beside other things.
const FEW: usize = 10;

#[derive(Deserialize)]
pub(super) struct People {
    pub(super) items: Vec<Person>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Person {
    number: u64,
    line: u64,
    to: String,
    state: String,
    reason: Option<String>,
    suppressed: Option<String>,
    attempts: Option<u32>,
    message_id: Option<String>,
    sent_at: Option<Time>,
    delivery: Option<String>,
}

fn state(lang: Lang, state: &str) -> (Tone, &str) {
    match state {
        "pending" => (Tone::Quiet, lang.say("still to come", "ainda por vir")),
        "queued" => (Tone::Wait, lang.say("on its way", "a caminho")),
        "sent" => (Tone::Ok, lang.say("sent", "enviada")),
        "failed" => (Tone::Bad, lang.say("failed", "falhou")),
        "cancelled" => (Tone::Quiet, lang.say("cancelled", "cancelada")),
        "suppressed" => (Tone::Held, lang.say("suppressed", "suprimida")),
        "invalid" => (Tone::Bad, lang.say("invalid line", "linha inválida")),
        other => (Tone::Quiet, other),
    }
}

pub(crate) async fn people(visit: Visit) -> Result<Sheet, Problem> {
    let campaign = find(&visit).await?;
    let lang = visit.lang();
    let known = |name: &str| ["state", "cursor"].contains(&name);
    let asked: Vec<_> = visit.query().into_iter().filter(|(name, _)| known(name)).collect();
    let given = |name: &str| asked.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
    let found: People = visit.ask(RECIPIENTS, visit.name(), &query(asked.clone())).await?;
    let base = format!("{}/recipients", address(&campaign.id));
    let link = |value: Option<&str>, words: &str| {
        let href = with_query(&base, value.map(|value| ("state".to_owned(), value.to_owned())));
        html! { a .button href=(href) aria-current=[(value == given("state")).then_some("true")] { (words) } }
    };
    let filters = html! {
        div .pick.wrap role="group" aria-label=(lang.say("State", "Estado")) {
            (link(None, lang.say("All", "Todos")))
            @for standing in Standing::ALL { (link(Some(standing.as_str()), &parts::capital(state(lang, standing.as_str()).1))) }
        }
    };
    let kept = || asked.iter().filter(|(name, _)| name != "cursor").cloned();
    let html = html! {
        section .card {
            @if found.items.is_empty() { (empty(
                lang.say("Nobody", "Ninguém"),
                match given("state") {
                    Some(_) => lang.say("Nobody on the list is in this state.", "Ninguém na lista está neste estado."),
                    None => lang.say("Nobody is on the list yet. Add recipients from a CSV file.", "Ainda não há ninguém na lista. Adicione destinatários de um arquivo CSV."),
                },
                None,
            )) }
            @else { (rows(visit.look(), lang.say("Recipients", "Destinatários"), &found.items)) }
        }
        @if given("cursor").is_some() || found.next_cursor.is_some() {
            nav .pager aria-label=(lang.say("Pages of the list", "Páginas da lista")) {
                @if given("cursor").is_some() { a href=(with_query(&base, kept())) { (lang.say("← First", "← Primeiros")) } }
                @if let Some(next) = &found.next_cursor { a rel="next" href=(with_query(&base, kept().chain([("cursor".to_owned(), next.clone())]))) { (lang.say("Next →", "Próximos →")) } }
            }
        }
    };
    let beside = html! {
        a href=(address(&campaign.id)) { (lang.say("To the campaign", "Para a campanha")) }
        a .button href=(format!("{}/report", address(&campaign.id))) { (lang.say("Report as CSV", "Relatório em CSV")) }
    };
    let title =
        lang.say(format!("Recipients of {}", campaign.name), format!("Destinatários de {}", campaign.name));
    Ok(Sheet::new(title).beside(beside).still(filters).live("list", html))
}

/// Recipients as a table.
pub(super) fn rows(look: &Look, caption: &str, people: &[Person]) -> Markup {
    let lang = look.lang;
    let rows: Vec<Markup> = people.iter().map(|person| {
        let (tone, words) = state(lang, &person.state);
        html! { tr {
            td .num { (person.number) }
            th scope="row" { span .clip title=(person.to) { (person.to) } small { (lang.say("line", "linha")) " " (person.line) } }
            td { (badge(tone, words)) @if let Some(report) = &person.delivery { small { (delivery(lang, report)) } } }
            td .prose {
                @match &person.reason { Some(reason) => (reasons::said(lang, reason)), None => (parts::none()) }
                @if let Some(reason) = &person.suppressed { small { (lang.say("on the suppression list by now:", "já na lista de supressão:")) " " (reason) } }
            }
            td .num { @match person.attempts { Some(attempts) => (attempts), None => (parts::none()) } }
            td {
                @if let Some(id) = &person.message_id { a href=(format!("/messages/{}", encoded(id))) title=(id) { code { (short(id)) } } }
                @if let Some(at) = person.sent_at { small { (time(look, at)) } }
                @if person.message_id.is_none() { (parts::none()) }
            }
        } }
    }).collect();
    table(
        caption,
        &[
            "#Nº",
            lang.say("To", "Para"),
            lang.say("State", "Estado"),
            lang.say("Why", "Por quê"),
            lang.say("#Attempts", "#Tentativas"),
            lang.say("Message", "Mensagem"),
        ],
        &rows,
    )
}

/// Lines by which nobody can be written to, with what is wrong with each.
pub(super) fn lines_of(lang: Lang, caption: &str, people: &[Person]) -> Markup {
    let rows = people.iter().map(|person| html! { tr {
        td .num { (person.line) }
        th scope="row" { @if person.to.is_empty() { span .quiet { (lang.say("nothing", "nada")) } } @else { span .clip title=(person.to) { (person.to) } } }
        td .prose { @match &person.reason { Some(reason) => (reasons::said(lang, reason)), None => (parts::none()) } }
    } });
    let columns = [
        lang.say("#Line", "#Linha"),
        lang.say("What stood there", "O que havia ali"),
        lang.say("Why", "Por quê"),
    ];
    table(caption, &columns, &rows.collect::<Vec<_>>())
}

/// The first few who stand there.
pub(super) async fn some(visit: &Visit, standing: &str, limit: usize) -> Result<Vec<Person>, Problem> {
    let found: People =
        visit.ask(RECIPIENTS, visit.name(), &format!("state={standing}&limit={limit}")).await?;
    Ok(found.items)
}

/// With whom something is wrong: the first of those who failed, and of lines that nobody can be written to by.
pub(super) async fn trouble(visit: &Visit, campaign: &Campaign) -> Result<Markup, Problem> {
    let lang = visit.lang();
    let mut all = Vec::new();
    // A table within a section is a place of its own, with a name of its own.
    for (standing, count, title, caption) in [
        (
            "failed",
            campaign.counts.failed,
            lang.say("Failed", "Com falha"),
            lang.say("Recipients who failed", "Destinatários com falha"),
        ),
        (
            "invalid",
            campaign.counts.invalid,
            lang.say("Lines that were left out", "Linhas deixadas de fora"),
            lang.say("Invalid lines", "Linhas inválidas"),
        ),
    ] {
        if count > 0 {
            let few = some(visit, standing, FEW).await?;
            let more = count > few.len() as u64;
            let href = format!("{}/recipients?state={standing}", address(&campaign.id));
            all.push(html! {
                section .card aria-labelledby=(format!("{standing}-title")) {
                    header { h2 id=(format!("{standing}-title")) { (title) } a href=(href) { (lang.number(count)) @if more { " · " (lang.say("all of them", "todas")) } } }
                    @if standing == "invalid" { (lines_of(lang, caption, &few)) } @else { (rows(visit.look(), caption, &few)) }
                }
            });
        }
    }
    Ok(html! { @for one in all { (one) } })
}

/// All of it as a file.
pub(crate) async fn report(visit: Visit) -> Result<Response, Problem> {
    visit.through(Method::GET, RECIPIENTS, visit.name(), "format=csv", None).await
}
