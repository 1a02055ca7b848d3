//! Messages: searched by what is known of them, the newest first.

use maud::{Markup, html};
use pombo_kernel::classify;
use pombo_kernel::delivery::Delivery;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::message::StateName;
use pombo_kernel::time::Time;
use serde::Deserialize;

use super::parts::{self, Tone, ago, badge, choice, empty, encoded, field, pager, query, table};
use super::period;
use super::sheet::Sheet;
use super::visit::Visit;
use super::words::Lang;
use crate::auth::Role;
use crate::problem::Problem;

/// So much of a message of the API as a list shows.
#[derive(Deserialize)]
struct Line {
    id: String,
    state: String,
    channel: String,
    lane: String,
    to: String,
    template: Option<String>,
    r#type: Option<String>,
    reference: Option<String>,
    attempt_count: u16,
    max_attempts: Option<u16>,
    last_error: Option<LastError>,
    delivery: Option<String>,
    next_attempt_at: Option<Time>,
    created_at: Time,
}

#[derive(Deserialize)]
struct LastError {
    category: String,
    text: String,
}

#[derive(Deserialize)]
struct Lines {
    items: Vec<Line>,
    next_cursor: Option<String>,
}

/// The filters that are always seen, and those that are folded away.
const USUAL: [&str; 4] = ["state", "channel", "recipient", "reference"];
const FURTHER: [&str; 7] = ["template", "campaign", "category", "type", "lane", "delivery", "period"];

pub(crate) async fn list(visit: Visit) -> Result<Sheet, Problem> {
    let (lang, look) = (visit.lang(), visit.look());
    let asked = visit.query();
    let known = |name: &str| USUAL.contains(&name) || FURTHER.contains(&name) || name == "cursor";
    let asked: Vec<(String, String)> = asked.into_iter().filter(|(name, _)| known(name)).collect();
    let given = |name: &'static str| last(&asked, name);
    let sheet = Sheet::new(lang.say("Messages", "Mensagens")).still(filters(&visit, &asked));
    if visit.caller().role == Role::Producer && given("reference").is_empty() {
        return Ok(sheet.still(html! { section .card { (empty(
            lang.say("Look a message up by its reference", "Procure uma mensagem pela referência"),
            lang.say(
                "A producer's key follows the messages that it knows the reference of. A viewer's or an operator's key sees all of them.",
                "A chave de um produtor acompanha as mensagens cuja referência ela conhece. A de um leitor ou operador vê todas.",
            ),
            None,
        )) } }));
    }
    let mut pairs: Vec<(String, String)> =
        asked.iter().filter(|(name, _)| name != "period").cloned().collect();
    if let Some(since) = period::since(look, given("period")) {
        pairs.push(("since".to_owned(), since.to_string()));
    }
    let found: Lines = visit.ask("/v1/messages", "", &query(pairs)).await?;
    let filtered = asked.iter().any(|(name, _)| name != "cursor");
    let rows: Vec<Markup> = found.items.iter().map(|line| row(&visit, line)).collect();
    let title = lang.say("Messages", "Mensagens");
    let columns = [
        lang.say("Message", "Mensagem"),
        lang.say("To", "Para"),
        lang.say("Channel", "Canal"),
        lang.say("State", "Estado"),
        lang.say("#Attempts", "#Tentativas"),
        lang.say("Last error", "Último erro"),
        lang.say("Created", "Criada"),
    ];
    let html = html! {
        section .card {
            @if rows.is_empty() && found.next_cursor.is_none() { (nothing(lang, filtered)) }
            @else if rows.is_empty() { p .quiet { (lang.say("None of those that were looked at. There are older ones.", "Nenhuma entre as que foram vistas. Há mais antigas.")) } }
            @else { (table(title, &columns, &rows)) }
        }
        (pager(lang, "/messages", &asked, found.next_cursor.as_deref()))
    };
    // Pages further back are history, and stay as they are.
    Ok(if given("cursor").is_empty() { sheet.live("list", html) } else { sheet.still(html) })
}

/// What is asked for under that name; nothing if that is not.
fn last<'a>(asked: &'a [(String, String)], name: &str) -> &'a str {
    asked.iter().rev().find(|(own, _)| own == name).map_or("", |(_, value)| value.trim())
}

fn nothing(lang: Lang, filtered: bool) -> Markup {
    match filtered {
        true => empty(
            lang.say("No message matches", "Nenhuma mensagem corresponde"),
            lang.say(
                "Recipient and reference must be given exactly as they were handed in.",
                "Destinatário e referência devem ser exatamente como foram entregues.",
            ),
            None,
        ),
        false => empty(
            lang.say("No messages yet", "Ainda não há mensagens"),
            lang.say(
                "Whatever is handed in appears here at once, and its state changes as you look.",
                "O que for entregue aparece aqui na hora, e o estado muda enquanto você olha.",
            ),
            Some(
                "pombo send --channel webhook --to https://example.com/hook --content '{\"body\": {\"hello\": \"world\"}}'",
            ),
        ),
    }
}

fn row(visit: &Visit, line: &Line) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    html! { tr {
        th scope="row" {
            a href=(format!("/messages/{}", encoded(&line.id))) title=(line.id) { code { (short(&line.id)) } }
            @if let Some(about) = line.reference.as_ref().or(line.template.as_ref()).or(line.r#type.as_ref()) { small .clip title=(about) { (about) } }
        }
        td { span .clip title=(line.to) { (line.to) } }
        td { (line.channel) small { (line.lane) } }
        td {
            (parts::state(lang, &line.state))
            @if let Some(delivery) = &line.delivery { small { (self::delivery(lang, delivery)) } }
            @if let Some(next) = line.next_attempt_at { small { (ago(look, next)) } }
        }
        td .num { (line.attempt_count) @if let Some(most) = line.max_attempts { span .quiet { "/" (most) } } }
        td .prose {
            @match &line.last_error {
                Some(error) if line.state != "sent" => { span title=(error.text) { (meaning(visit, &line.channel, &error.category)) } }
                _ => (parts::none()),
            }
        }
        td { (ago(look, line.created_at)) }
    } }
}

/// An id, so short that several can be told apart at a glance.
pub(crate) fn short(id: &str) -> String {
    match (id.get(..8), id.len().checked_sub(6).and_then(|from| id.get(from..))) {
        (Some(head), Some(tail)) if id.len() > 16 => format!("{head}…{tail}"),
        _ => id.to_owned(),
    }
}

/// What an error category means, for a channel of that name.
pub(crate) fn meaning(visit: &Visit, channel: &str, category: &str) -> String {
    let setup = visit.door().setup();
    let kind = setup.channels.get(channel).map_or(ChannelKind::Null, |channel| channel.kind);
    classify::said(kind, category, visit.lang().language())
}

/// What a provider reported, in a word.
pub(crate) fn delivery(lang: Lang, state: &str) -> Markup {
    let (tone, words) = match state {
        "delivered" => (Tone::Ok, lang.say("delivered", "entregue")),
        "read" | "opened" | "clicked" => (Tone::Ok, lang.say("read", "lida")),
        "bounced" => (Tone::Bad, lang.say("bounced", "devolvida")),
        "complained" => (Tone::Bad, lang.say("complained", "reclamou")),
        "delayed" | "delivery_delayed" => (Tone::Wait, lang.say("delayed", "atrasada")),
        other => (Tone::Quiet, other),
    };
    badge(tone, words)
}

fn filters(visit: &Visit, asked: &[(String, String)]) -> Markup {
    let lang = visit.lang();
    let given = |name: &'static str| last(asked, name);
    let setup = visit.door().setup();
    let any = (String::new(), lang.say("any", "qualquer").to_owned());
    let states = StateName::ALL.iter().map(|state| {
        let words = match state {
            StateName::Pending => lang.say("waiting", "na fila"),
            StateName::Sending => lang.say("sending", "enviando"),
            StateName::Sent => lang.say("sent", "enviada"),
            StateName::Failed => lang.say("failed", "falhou"),
            StateName::Cancelled => lang.say("cancelled", "cancelada"),
            StateName::Discarded => lang.say("discarded", "descartada"),
        };
        (state.as_str().to_owned(), words.to_owned())
    });
    let states: Vec<_> = [any.clone()].into_iter().chain(states).collect();
    let own = visit.caller().channels_in(&setup).map(|it| (it.name.to_string(), it.name.to_string()));
    let channels: Vec<_> = [any.clone()].into_iter().chain(own).collect();
    let lanes = setup.lanes.keys().map(|lane| (lane.to_string(), lane.to_string()));
    let lanes: Vec<_> = [any.clone()].into_iter().chain(lanes).collect();
    let reports = Delivery::ALL.iter().map(|it| (it.as_str().to_owned(), it.as_str().to_owned()));
    let reports: Vec<_> = [any].into_iter().chain(reports).collect();
    let periods = period::choices(lang);
    let open = FURTHER.iter().any(|name| !given(name).is_empty());
    html! {
        form .card method="get" action="/messages" role="search" {
            div .filters {
                (choice(lang.say("State", "Estado"), "state", &states, given("state")))
                (choice(lang.say("Channel", "Canal"), "channel", &channels, given("channel")))
                (field(lang.say("Recipient", "Destinatário"), "recipient", given("recipient"), None))
                (field(lang.say("Reference", "Referência"), "reference", given("reference"), None))
            }
            details .more open[open] {
                summary { (lang.say("More filters", "Mais filtros")) }
                div .filters {
                    (choice(lang.say("Period", "Período"), "period", &periods, given("period")))
                    (field(lang.say("Template", "Modelo"), "template", given("template"), None))
                    (field(lang.say("Campaign", "Campanha"), "campaign", given("campaign"), None))
                    (field(lang.say("Error category", "Categoria do erro"), "category", given("category"), None))
                    (field(lang.say("Type", "Tipo"), "type", given("type"), None))
                    (choice(lang.say("Lane", "Fila"), "lane", &lanes, given("lane")))
                    (choice(lang.say("Reported", "Relatado"), "delivery", &reports, given("delivery")))
                }
            }
            div .row {
                button .primary type="submit" { (lang.say("Search", "Buscar")) }
                a .button href="/messages" { (lang.say("Clear", "Limpar")) }
            }
        }
    }
}
