//! Letters, one under the other, to be ticked: those of one cause, or those that match.

use http::Method;
use maud::{Markup, html};
use pombo_kernel::time::Time;
use serde::Deserialize;

use super::remedy::Remedy;
use super::{Cause, DISCARD, Group, LETTER, REPROCESS, groups, letters_said};
use crate::dash::messages::{meaning, short};
use crate::dash::overview::failure;
use crate::dash::parts::{
    ago, badge, capital, choice, copied, empty, encoded, facts, field, linked, pager, query, table, time,
};
use crate::dash::period;
use crate::dash::sheet::Sheet;
use crate::dash::visit::Visit;
use crate::dash::words::Lang;
use crate::problem::Problem;

/// Letters of one page: so many ids fit into an address.
const PAGE: usize = 50;
const LETTERS: &str = "/v1/dead-letters";
/// The filters of a list beside the period, which the API knows under the same names.
pub(super) const FILTERS: [&str; 11] = [
    "cause",
    "channel",
    "recipient",
    "reference",
    "category",
    "template",
    "campaign",
    "type",
    "lane",
    "since",
    "until",
];

#[derive(Deserialize)]
struct Lines {
    items: Vec<Line>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Line {
    id: String,
    channel: String,
    to: String,
    reference: Option<String>,
    template: Option<String>,
    r#type: Option<String>,
    failure_reason: Option<String>,
    attempt_count: u16,
    last_error: Option<LastError>,
    cause: Option<Cause>,
    created_at: Time,
    finished_at: Option<Time>,
}

#[derive(Deserialize)]
struct LastError {
    category: String,
    text: String,
}

type Pairs = Vec<(String, String)>;

async fn found(visit: &Visit, filter: &Pairs, cursor: Option<String>) -> Result<Lines, Problem> {
    let more = [("limit".to_owned(), PAGE.to_string())];
    let cursor = cursor.map(|cursor| ("cursor".to_owned(), cursor));
    visit.ask(LETTERS, "", &query(filter.iter().cloned().chain(more).chain(cursor))).await
}

/// Dead letters that match, the newest first.
pub(crate) async fn list(visit: Visit) -> Result<Sheet, Problem> {
    let (lang, look) = (visit.lang(), visit.look());
    let asked = visit.query();
    let known = |name: &str| FILTERS.contains(&name) || ["period", "cursor"].contains(&name);
    let asked: Pairs = asked.into_iter().filter(|(name, _)| known(name)).collect();
    let given = |name: &str| last(&asked, name).to_owned();
    let mut filter: Pairs =
        asked.iter().filter(|(name, _)| FILTERS.contains(&name.as_str())).cloned().collect();
    if let Some(since) = period::since(look, &given("period")) {
        filter.push(("since".to_owned(), since.to_string()));
    }
    let cursor = visit.asked("cursor");
    let lines = found(&visit, &filter, cursor.clone()).await?;
    let html = html! {
        @if lines.items.is_empty() && lines.next_cursor.is_none() { section .card { (nothing(lang, !filter.is_empty())) } }
        @else { (ticked(&visit, &lines, &filter, Causes::Told)) }
        (pager(lang, "/dead/letters", &asked, lines.next_cursor.as_deref()))
    };
    let beside = html! { a .button href="/dead" { (lang.say("By cause", "Por causa")) } };
    let sheet = Sheet::new(lang.say("All dead letters", "Todas as mensagens mortas"))
        .beside(beside)
        .still(filters(&visit, &asked));
    // What was asked for with a period would be another list every time, and pages further back are history.
    let moves = cursor.is_some() || !given("period").is_empty();
    Ok(if moves { sheet.still(html) } else { sheet.live("letters", html) })
}

/// One cause: what it is, what to do about it, and its letters.
pub(crate) async fn cause(visit: Visit) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let id = visit.name().to_owned();
    let filter: Pairs = vec![("cause".to_owned(), id.clone())];
    let cursor = visit.asked("cursor");
    let lines = found(&visit, &filter, cursor.clone()).await?;
    let group = groups(&visit).await?.into_iter().find(|group| group.cause == id);
    let first = lines.items.first();
    let category = first.and_then(|line| line.cause.as_ref()).map(|cause| cause.category.as_str());
    let category = group.as_ref().map(|group| group.category.as_str()).or(category);
    let (Some(category), Some(channel)) =
        (category, group.as_ref().map(|it| it.channel.as_str()).or(first.map(|line| line.channel.as_str())))
    else {
        return Ok(Sheet::new(lang.say("A cause that is gone", "Uma causa que se foi")).still(html! { section .card { (empty(
            lang.say("No dead letter has this cause any more", "Nenhuma mensagem morta tem mais esta causa"),
            lang.say("They were sent again, corrected or discarded, perhaps by somebody else.", "Foram reenviadas, corrigidas ou descartadas, talvez por outra pessoa."),
            None,
        )) p { a href="/dead" { (lang.say("Other causes", "Outras causas")) } } } }));
    };
    let title = capital(&meaning(&visit, channel, category));
    let beside = html! { a .button href="/dead" { (lang.say("Other causes", "Outras causas")) } };
    let list = html! {
        (ticked(&visit, &lines, &filter, Causes::Known))
        (pager(lang, visit.path(), &Vec::from_iter(cursor.clone().map(|it| ("cursor".to_owned(), it))), lines.next_cursor.as_deref()))
    };
    let about = about(&visit, &id, channel, category, group.as_ref(), first);
    let sheet = Sheet::new(title).beside(beside).live("cause", about);
    Ok(if cursor.is_some() { sheet.still(list) } else { sheet.live("letters", list) })
}

fn about(
    visit: &Visit,
    id: &str,
    channel: &str,
    category: &str,
    group: Option<&Group>,
    sample: Option<&Line>,
) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let remedy = Remedy::of(category);
    let decide = |act: &str| {
        format!(
            "/dead/decide?{}",
            query([("act".to_owned(), act.to_owned()), ("cause".to_owned(), id.to_owned())])
        )
    };
    let count = group.map(|group| letters_said(lang, group.count));
    let mut rows = vec![
        (
            lang.say("Channel", "Canal"),
            linked("/channels/{name}", &format!("/channels/{}", encoded(channel)), html! { (channel) }),
        ),
        (lang.say("Category", "Categoria"), html! { code { (category) } }),
    ];
    if let Some(group) = group {
        rows.push((lang.say("First seen", "Vista primeiro"), time(look, group.first_at)));
        rows.push((lang.say("Last seen", "Vista por último"), time(look, group.last_at)));
    }
    rows.push((lang.say("Cause", "Causa"), copied(id)));
    let error = sample.and_then(|line| Some((line, line.last_error.as_ref()?)));
    html! {
        section class=(format!("card urgent {}", remedy.work.tone().class())) aria-labelledby="cause-title" {
            header {
                h2 #cause-title { (lang.say("What to do", "O que fazer")) }
                @if let Some(count) = &count { strong { (count) } }
            }
            p .big { (badge(remedy.work.tone(), remedy.work.words(lang))) " " (remedy.said(lang)) }
            div .row {
                @if visit.may(&Method::POST, REPROCESS) { a .button.primary href=(decide("reprocess")) { (lang.say("Send all of them again…", "Reenviar todas…")) } }
                @if visit.may(&Method::POST, DISCARD) { a .button href=(decide("discard")) { (lang.say("Discard all of them…", "Descartar todas…")) } }
            }
        }
        div .two {
            section .card aria-labelledby="about-title" {
                header { h2 #about-title { (lang.say("The cause", "A causa")) } }
                (facts(rows))
            }
            section .card aria-labelledby="sample-title" {
                header { h2 #sample-title { (lang.say("What was answered", "O que foi respondido")) } }
                @match error {
                    Some((line, error)) => {
                        pre { (error.text) }
                        p .hint { (lang.say("to the newest of them,", "à mais nova delas,")) " " a href=(format!("/messages/{}", encoded(&line.id))) { code { (short(&line.id)) } } }
                    }
                    None => p .quiet { (lang.say("Nothing was answered: no attempt was made, or its time passed.", "Nada foi respondido: não houve tentativa, ou o prazo passou.")) },
                }
            }
        }
    }
}

fn nothing(lang: Lang, filtered: bool) -> Markup {
    match filtered {
        true => empty(
            lang.say("No dead letter matches", "Nenhuma mensagem morta corresponde"),
            lang.say(
                "Recipient and reference must be given exactly as they were handed in.",
                "Destinatário e referência devem ser exatamente como foram entregues.",
            ),
            None,
        ),
        false => empty(
            lang.say("No dead letters", "Nenhuma mensagem morta"),
            lang.say(
                "What cannot be sent appears here, and waits for a person.",
                "O que não pode ser enviado aparece aqui e espera por uma pessoa.",
            ),
            None,
        ),
    }
}

/// Whether rows say why they are dead: those of one cause do not have to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Causes {
    Told,
    Known,
}

/// The letters with a tick each, what can be done with those that are ticked, and with all that match.
fn ticked(visit: &Visit, lines: &Lines, filter: &Pairs, causes: Causes) -> Markup {
    let lang = visit.lang();
    let acts = visit.may(&Method::POST, REPROCESS);
    let title = lang.say("Letters", "Mensagens");
    let rows: Vec<Markup> = lines.items.iter().map(|line| row(visit, line, acts, causes)).collect();
    let mut columns = vec![lang.say("Letter", "Mensagem"), lang.say("To", "Para")];
    if causes == Causes::Told {
        columns.push(lang.say("Channel", "Canal"));
    }
    columns.extend([
        lang.say("Why", "Por quê"),
        lang.say("#Attempts", "#Tentativas"),
        lang.say("Failed", "Falhou"),
    ]);
    if acts {
        columns.insert(0, lang.say("Pick", "Marcar"));
        columns.push(lang.say("Correct", "Corrigir"));
    }
    let every = |act: &str| {
        let pairs = [("act".to_owned(), act.to_owned()), ("all".to_owned(), "true".to_owned())];
        with_act(filter, pairs)
    };
    let list = html! {
        header .row {
            h2 #letters-title { (title) }
            @if acts && !rows.is_empty() {
                div .beside {
                    input type="checkbox" data-all="id" hidden aria-label=(lang.say("Tick all on this page", "Marcar todas desta página"));
                    button type="submit" name="act" value="reprocess" { (lang.say("Send the ticked again…", "Reenviar marcadas…")) }
                    button .danger type="submit" name="act" value="discard" { (lang.say("Discard the ticked…", "Descartar marcadas…")) }
                }
            }
        }
        @if rows.is_empty() { p .quiet { (lang.say("None of those that were looked at. There are older ones.", "Nenhuma entre as que foram vistas. Há mais antigas.")) } }
        @else { (table(title, &columns, &rows)) }
    };
    html! {
        section .card aria-labelledby="letters-title" {
            @if acts { form .stack method="get" action="/dead/decide" { (list) } } @else { div .stack { (list) } }
            @if acts && causes == Causes::Told {
                p .row {
                    span .quiet { (lang.say("Everything that matches, also on further pages:", "Tudo o que corresponde, também nas outras páginas:")) }
                    a .button href=(every("reprocess")) { (lang.say("Send all again…", "Reenviar todas…")) }
                    a .button href=(every("discard")) { (lang.say("Discard all…", "Descartar todas…")) }
                }
            }
        }
    }
}

fn with_act(filter: &Pairs, act: [(String, String); 2]) -> String {
    format!("/dead/decide?{}", query(act.into_iter().chain(filter.iter().cloned())))
}

fn row(visit: &Visit, line: &Line, acts: bool, causes: Causes) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let name = short(&line.id);
    let why =
        line.last_error.as_ref().map(|error| (meaning(visit, &line.channel, &error.category), &error.text));
    html! { tr {
        @if acts { td { input type="checkbox" name="id" value=(line.id) aria-label=(lang.say(format!("Pick {name}"), format!("Marcar {name}"))); } }
        th scope="row" {
            a href=(format!("/messages/{}", encoded(&line.id))) title=(line.id) { code { (name) } }
            @if let Some(about) = line.reference.as_ref().or(line.template.as_ref()).or(line.r#type.as_ref()) { small .clip title=(about) { (about) } }
        }
        td { span .clip title=(line.to) { (line.to) } }
        @if causes == Causes::Told { td { (line.channel) } }
        td .prose {
            @match (&why, causes) {
                (Some((_, text)), Causes::Known) => span .gist title=(clipped(text)) { (clipped(text)) },
                (Some((words, text)), Causes::Told) => {
                    @match &line.cause {
                        Some(cause) => a href=(format!("/dead/{}", encoded(&cause.id))) title=(cause.text) { (words) },
                        None => (words),
                    }
                    small .gist { (clipped(text)) }
                }
                (None, _) => (line.failure_reason.as_deref().map(|reason| failure(lang, reason)).unwrap_or_default()),
            }
        }
        td .num { (line.attempt_count) }
        td { (ago(look, line.finished_at.unwrap_or(line.created_at))) }
        @if acts { td {
            @if visit.may(&Method::PATCH, LETTER) { a href=(format!("/dead/letter/{}", encoded(&line.id))) aria-label=(lang.say(format!("Correct {name}"), format!("Corrigir {name}"))) { (lang.say("Correct", "Corrigir")) } }
        } }
    } }
}

/// The beginning of a text that may be long.
fn clipped(text: &str) -> String {
    const MOST: usize = 160;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// What is asked for under that name; nothing if that is not.
fn last<'a>(asked: &'a [(String, String)], name: &str) -> &'a str {
    asked.iter().rev().find(|(own, _)| own == name).map_or("", |(_, value)| value.trim())
}

fn filters(visit: &Visit, asked: &[(String, String)]) -> Markup {
    let lang = visit.lang();
    let given = |name: &str| last(asked, name);
    let setup = visit.door().setup();
    let any = || (String::new(), lang.say("any", "qualquer").to_owned());
    let own = visit.caller().channels_in(&setup).map(|it| (it.name.to_string(), it.name.to_string()));
    let channels: Vec<_> = [any()].into_iter().chain(own).collect();
    let lanes = setup.lanes.keys().map(|lane| (lane.to_string(), lane.to_string()));
    let lanes: Vec<_> = [any()].into_iter().chain(lanes).collect();
    let periods = period::choices(lang);
    let further = ["template", "campaign", "type", "lane"];
    let open = further.iter().any(|name| !given(name).is_empty());
    html! {
        form .card method="get" action="/dead/letters" role="search" {
            // What came with a link and has no field here stays.
            @for name in ["cause", "since", "until"] {
                @if !given(name).is_empty() { input type="hidden" name=(name) value=(given(name)); }
            }
            div .filters {
                (choice(lang.say("Channel", "Canal"), "channel", &channels, given("channel")))
                (field(lang.say("Recipient", "Destinatário"), "recipient", given("recipient"), None))
                (field(lang.say("Reference", "Referência"), "reference", given("reference"), None))
                (field(lang.say("Error category", "Categoria do erro"), "category", given("category"), None))
                (choice(lang.say("Period", "Período"), "period", &periods, given("period")))
            }
            details .more open[open] {
                summary { (lang.say("More filters", "Mais filtros")) }
                div .filters {
                    (field(lang.say("Template", "Modelo"), "template", given("template"), None))
                    (field(lang.say("Campaign", "Campanha"), "campaign", given("campaign"), None))
                    (field(lang.say("Type", "Tipo"), "type", given("type"), None))
                    (choice(lang.say("Lane", "Fila"), "lane", &lanes, given("lane")))
                }
            }
            div .row {
                button .primary type="submit" { (lang.say("Search", "Buscar")) }
                a .button href="/dead/letters" { (lang.say("Clear", "Limpar")) }
            }
        }
    }
}
