//! Dead letters: by cause, the largest first, each with what to do about it.

mod decide;
mod difference;
mod document;
mod editor;
mod field;
mod letters;
mod remedy;

use http::Method;
use maud::{Markup, html};
use pombo_kernel::time::Time;
use serde::Deserialize;

pub(crate) use self::decide::{confirm, decide};
pub(crate) use self::editor::{change, letter};
pub(crate) use self::letters::{cause, list};
use self::remedy::{Remedy, Work};
use super::messages::meaning;
use super::operation::{self, Operation};
use super::parts::{ago, badge, capital, choice, empty, encoded, query, with_query};
use super::sheet::Sheet;
use super::visit::Visit;
use super::words::Lang;
use crate::problem::Problem;

/// Causes that are looked at; whoever has more begins with these.
const CAUSES: usize = 500;
/// Causes that are shown at once.
const SHOWN: usize = 30;

const GROUPS: &str = "/v1/dead-letters/groups";
const REPROCESS: &str = "/v1/dead-letters/reprocess";
const DISCARD: &str = "/v1/dead-letters/discard";
const LETTER: &str = "/v1/dead-letters/{id}";

#[derive(Deserialize)]
struct Groups {
    items: Vec<Group>,
}

/// Letters of one cause, as the API tells of them.
#[derive(Deserialize)]
struct Group {
    cause: String,
    channel: String,
    category: String,
    text: String,
    count: u64,
    newest: String,
    last_at: Time,
    first_at: Time,
}

impl Group {
    fn remedy(&self) -> Remedy {
        Remedy::of(&self.category)
    }
}

/// What a cause says of itself where it is one of several.
#[derive(Deserialize)]
struct Cause {
    id: String,
    category: String,
    text: String,
}

async fn groups(visit: &Visit) -> Result<Vec<Group>, Problem> {
    let found: Groups = visit.ask(GROUPS, "", &format!("limit={CAUSES}")).await?;
    Ok(found.items)
}

/// How many letters, in words.
fn letters_said(lang: Lang, count: u64) -> String {
    lang.count(count, ("dead letter", "dead letters"), ("mensagem morta", "mensagens mortas"))
}

/// The causes, and what is being done about them.
pub(crate) async fn page(visit: Visit) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let all = groups(&visit).await?;
    let running = operation::running(&visit).await?;
    let (channel, work) = (visit.asked("channel"), visit.asked("work"));
    let work = work.as_deref().and_then(Work::of_name);
    let wanted = |group: &&Group| {
        channel.as_ref().is_none_or(|channel| *channel == group.channel)
            && work.is_none_or(|work| work == group.remedy().work)
    };
    let seen: Vec<&Group> = all.iter().filter(wanted).collect();
    let beside = html! {
        a .button href="/dead/letters" { (lang.say("All letters", "Todas as mensagens")) }
        a .button href="/operations" { (lang.say("Operations", "Operações")) }
    };
    let sheet = Sheet::new(lang.say("Dead letters", "Mensagens mortas")).beside(beside);
    if all.is_empty() && channel.is_none() && work.is_none() {
        return Ok(sheet.live("first", underway(&visit, &running)).live("causes", none_dead(lang)));
    }
    Ok(sheet
        .live("first", html! { (underway(&visit, &running)) (to_do(lang, &all, channel.as_deref(), work)) })
        .still(filters(&visit, channel.as_deref().unwrap_or_default(), work))
        .live("causes", causes(&visit, &all, &seen)))
}

fn none_dead(lang: Lang) -> Markup {
    html! { section .card { (empty(
        lang.say("No dead letters", "Nenhuma mensagem morta"),
        lang.say(
            "A message that cannot be sent waits here until a person decides: send it again, correct it, or give it up. Those that failed for the same reason stand together, with what to do about it.",
            "Uma mensagem que não pode ser enviada espera aqui até que uma pessoa decida: reenviar, corrigir ou desistir. As que falharam pelo mesmo motivo ficam juntas, com o que fazer.",
        ),
        Some("pombo dead groups"),
    )) } }
}

/// What runs by now: nobody has to begin it again.
fn underway(visit: &Visit, running: &[Operation]) -> Markup {
    let lang = visit.lang();
    html! { @if !running.is_empty() {
        section .card aria-labelledby="underway-title" {
            header { h2 #underway-title { (lang.say("Being worked on", "Em andamento")) } }
            ul .works { @for it in running { li { (operation::line(visit, it)) } } }
        }
    } }
}

/// The work that there is, the most pressing first; each kind leads to its causes.
fn to_do(lang: Lang, all: &[Group], channel: Option<&str>, chosen: Option<Work>) -> Markup {
    let of = |work: Work| all.iter().filter(move |group| group.remedy().work == work);
    let total = all.iter().map(|group| group.count).sum();
    let title = letters_said(lang, total);
    let causes = lang.count(all.len() as u64, ("cause", "causes"), ("causa", "causas"));
    let href = |work: Work| {
        let mut pairs = Vec::from_iter(channel.map(|it| ("channel".to_owned(), it.to_owned())));
        if chosen != Some(work) {
            pairs.push(("work".to_owned(), work.name().to_owned()));
        }
        with_query("/dead", pairs)
    };
    let first = Work::ALL.into_iter().find(|work| of(*work).next().is_some());
    html! { @if let Some(first) = first {
        section class=(format!("card urgent {}", first.tone().class())) aria-labelledby="todo-title" {
            header { h2 #todo-title { (title) } span .quiet { (causes) } }
            div .todo role="group" aria-label=(lang.say("What to do", "O que fazer")) {
                @for work in Work::ALL {
                    @let count: u64 = of(work).map(|group| group.count).sum();
                    @if count > 0 {
                        a .button href=(href(work)) aria-current=[(chosen == Some(work)).then_some("true")] {
                            (badge(work.tone(), work.words(lang))) strong { (lang.number(count)) }
                        }
                    }
                }
            }
            @if first == Work::Mend {
                p .hint { (lang.say("Begin with what is wrong on our side: until that is put right, sending again fails again.", "Comece pelo que está errado do nosso lado: até lá, reenviar falha de novo.")) }
            }
        }
    } }
}

fn filters(visit: &Visit, channel: &str, work: Option<Work>) -> Markup {
    let (lang, setup) = (visit.lang(), visit.door().setup());
    let any = || (String::new(), lang.say("any", "qualquer").to_owned());
    let own = visit.caller().channels_in(&setup).map(|it| (it.name.to_string(), it.name.to_string()));
    let channels: Vec<_> = [any()].into_iter().chain(own).collect();
    let works = Work::ALL.map(|work| (work.name().to_owned(), work.words(lang).to_owned()));
    let works: Vec<_> = [any()].into_iter().chain(works).collect();
    html! {
        form .card method="get" action="/dead" role="search" {
            div .filters {
                (choice(lang.say("Channel", "Canal"), "channel", &channels, channel))
                (choice(lang.say("What to do", "O que fazer"), "work", &works, work.map_or("", Work::name)))
                div .inline {
                    button type="submit" { (lang.say("Filter", "Filtrar")) }
                    a .button href="/dead" { (lang.say("Clear", "Limpar")) }
                }
            }
        }
    }
}

fn causes(visit: &Visit, all: &[Group], seen: &[&Group]) -> Markup {
    let lang = visit.lang();
    let title = lang.say("Causes, the largest first", "Causas, da maior para a menor");
    html! {
        section .card aria-labelledby="causes-title" {
            header { h2 #causes-title { (title) } }
            @if seen.is_empty() {
                (empty(
                    lang.say("No cause matches", "Nenhuma causa corresponde"),
                    lang.say("There are dead letters, but none of this channel and kind.", "Há mensagens mortas, mas nenhuma deste canal e tipo."),
                    None,
                ))
            } @else {
                ul .causes { @for group in seen.iter().take(SHOWN) { (row(visit, group)) } }
                @if seen.len() > SHOWN || all.len() >= CAUSES {
                    p .hint { (lang.say(
                        format!("The {SHOWN} largest are shown. Filter by channel to see others."),
                        format!("Aparecem as {SHOWN} maiores. Filtre por canal para ver outras."),
                    )) }
                }
            }
        }
    }
}

fn row(visit: &Visit, group: &Group) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let href = format!("/dead/{}", encoded(&group.cause));
    let remedy = group.remedy();
    let by_cause = |act: &str| {
        let pairs = [("act".to_owned(), act.to_owned()), ("cause".to_owned(), group.cause.clone())];
        format!("/dead/decide?{}", query(pairs))
    };
    html! { li {
        p .count { strong { (lang.number(group.count)) } }
        div .stack {
            h3 { a href=(href) { (capital(&meaning(visit, &group.channel, &group.category))) } }
            @if !group.text.is_empty() { p { code .gist { (group.text) } } }
            p { (badge(remedy.work.tone(), remedy.work.words(lang))) " " (remedy.said(lang)) }
        }
        dl .seen {
            div { dt { (lang.say("Channel", "Canal")) } dd { (group.channel) } }
            div { dt { (lang.say("First", "Primeira")) } dd { (ago(look, group.first_at)) } }
            div { dt { (lang.say("Last", "Última")) } dd { (ago(look, group.last_at)) } }
            div { dt { (lang.say("Sample", "Exemplo")) } dd { a href=(format!("/messages/{}", encoded(&group.newest))) { (lang.say("newest", "a mais nova")) } } }
        }
        div .acts {
            @if visit.may(&Method::POST, REPROCESS) { a .button href=(by_cause("reprocess")) { (lang.say("Send again…", "Reenviar…")) } }
            @if visit.may(&Method::POST, DISCARD) { a .button href=(by_cause("discard")) { (lang.say("Discard…", "Descartar…")) } }
        }
    } }
}
