//! The audit: searched by what is known, taken along as a file, and whether its chain holds.

mod chain;
pub(crate) mod event;

use axum::response::Response;
use http::Method;
use maud::{Markup, html};
use pombo_kernel::time::Time;
use pombo_kernel::window::Date;
use pombo_store::audit::Event;
use serde::Deserialize;
use serde_json::Value;

pub(crate) use self::chain::page as chain;
use super::messages::short;
use super::parts::{
    self, choice, empty, encoded, field, linked, none, pager, query, table, time, with_query,
};
use super::period;
use super::sheet::Sheet;
use super::visit::{Look, Visit};
use super::words::Lang;
use crate::problem::Problem;

/// The filters that are always seen, and those that are folded away.
const USUAL: [&str; 4] = ["event", "actor", "channel", "period"];
const FURTHER: [&str; 5] = ["message", "claim", "campaign", "from", "to"];

#[derive(Deserialize)]
struct Records {
    items: Vec<Record>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Record {
    position: u64,
    at: Time,
    event: String,
    message: Option<String>,
    from: Option<String>,
    to: Option<String>,
    channel: Option<String>,
    actor: String,
    detail: Value,
}

type Pairs = Vec<(String, String)>;

/// What is asked for, by the names that the page has for it.
fn asked(visit: &Visit) -> Pairs {
    let known = |name: &str| USUAL.contains(&name) || FURTHER.contains(&name) || name == "cursor";
    visit.query().into_iter().filter(|(name, _)| known(name)).collect()
}

/// The same as the API names it. Days are those of the page's clock, and the last one is meant to its end.
fn wanted(look: &Look, asked: &Pairs) -> Pairs {
    let day = |text: &str, plus: i32| match text.parse::<Date>() {
        Ok(date) => look.zone.start(date.plus(plus)).to_string(),
        // The API says what is wrong with it.
        Err(_) => text.to_owned(),
    };
    let from = asked.iter().any(|(name, _)| name == "from");
    let named = asked.iter().filter_map(|(name, value)| {
        let value = value.trim();
        match name.as_str() {
            "period" => {
                let since = period::since(look, value).filter(|_| !from)?;
                Some(("since".to_owned(), since.to_string()))
            }
            "from" => Some(("since".to_owned(), day(value, 0))),
            "to" => Some(("until".to_owned(), day(value, 1))),
            name => Some((name.to_owned(), value.to_owned())),
        }
    });
    named.collect()
}

fn last<'a>(asked: &'a Pairs, name: &str) -> &'a str {
    asked.iter().rev().find(|(own, _)| own == name).map_or("", |(_, value)| value.trim())
}

/// Records, the newest first. They stay as they are while somebody reads.
pub(crate) async fn list(visit: Visit) -> Result<Sheet, Problem> {
    let (lang, look) = (visit.lang(), visit.look());
    let asked = asked(&visit);
    let found: Records = visit.ask("/v1/audit", "", &query(wanted(look, &asked))).await?;
    let end = chain::end(&visit).await?;
    let title = lang.say("Audit", "Auditoria");
    let columns = [
        "#Nº",
        lang.say("When", "Quando"),
        lang.say("What", "O quê"),
        lang.say("About", "Sobre"),
        lang.say("By", "Por"),
    ];
    let rows: Vec<Markup> = found.items.iter().map(|record| row(look, record)).collect();
    let html = html! {
        section .card {
            @if rows.is_empty() && found.next_cursor.is_none() { (nothing(lang)) }
            @else if rows.is_empty() { p .quiet { (lang.say("None of the records that were looked at. There are older ones.", "Nenhum entre os registros vistos. Há mais antigos.")) } }
            @else { (table(title, &columns, &rows)) }
        }
        (pager(lang, "/audit", &asked, found.next_cursor.as_deref()))
    };
    Ok(Sheet::new(title).beside(files(lang, &asked)).still(end).still(filters(&visit, &asked)).still(html))
}

/// The same records as files, all of them.
fn files(lang: Lang, asked: &Pairs) -> Markup {
    let kept = || asked.iter().filter(|(name, _)| name != "cursor").cloned();
    let file =
        |format: &str| with_query("/audit/export", kept().chain([("format".to_owned(), format.to_owned())]));
    html! {
        span .quiet { (lang.say("Take along as", "Levar como")) }
        a .button href=(file("csv")) download { "CSV" }
        a .button href=(file("ndjson")) download { "NDJSON" }
    }
}

/// Hands on what the API makes of it. That somebody took it is on record.
pub(crate) async fn export(visit: Visit) -> Result<Response, Problem> {
    let mut pairs = wanted(visit.look(), &asked(&visit));
    pairs.retain(|(name, _)| name != "cursor");
    pairs.extend(visit.asked("format").map(|format| ("format".to_owned(), format)));
    visit.through(Method::GET, "/v1/audit/export", "", &query(pairs), None).await
}

fn nothing(lang: Lang) -> Markup {
    empty(
        lang.say("No record matches", "Nenhum registro corresponde"),
        lang.say(
            "Everything that happens to a message and everything that a person does is recorded here, and cannot be changed afterwards without its being seen. Values must be given exactly.",
            "Tudo o que acontece com uma mensagem e tudo o que uma pessoa faz fica registrado aqui, e não pode ser mudado depois sem que se veja. Os valores devem ser exatos.",
        ),
        None,
    )
}

fn row(look: &Look, record: &Record) -> Markup {
    let lang = look.lang;
    html! { tr {
        td .num { (lang.number(record.position)) }
        td { (time(look, record.at)) }
        th scope="row" {
            (event::said(lang, &record.event))
            @if let (Some(from), Some(to)) = (&record.from, &record.to) { small { (from) " → " (to) } }
            @for name in ["reason", "note"] { @if let Some(words) = record.detail[name].as_str() { small .clip title=(words) { (words) } } }
            @if record.detail.as_object().is_some_and(|it| !it.is_empty()) {
                details .numbers { summary { (lang.say("detail", "detalhe")) } (parts::json(&record.detail)) }
            }
        }
        td {
            @if let Some(id) = &record.message { a href=(format!("/messages/{}", encoded(id))) title=(id) { code { (short(id)) } } }
            @if let Some(channel) = &record.channel { @if record.message.is_some() { small { (about_channel(channel)) } } @else { (about_channel(channel)) } }
            @let others = others(record);
            @for other in &others { small { (other) } }
            @if record.message.is_none() && record.channel.is_none() && others.is_empty() { (none()) }
        }
        td { span .clip title=(record.actor) { (record.actor) } }
    } }
}

/// What else a record is about, with the way to it.
fn others(record: &Record) -> Vec<Markup> {
    let pages = [
        ("alert", "/alerts/{id}", "/alerts/"),
        ("campaign", "/campaigns/{id}", "/campaigns/"),
        ("template", "/templates/{name}", "/templates/"),
        ("operation", "/operations/{id}", "/operations/"),
        ("key", "/keys/{id}", "/keys/"),
    ];
    let found = pages.iter().filter_map(|(name, pattern, path)| {
        let id = record.detail[*name].as_str()?;
        let words = html! { span title=(id) { (short(id)) } };
        Some(linked(pattern, &format!("{path}{}", encoded(id)), words))
    });
    found.collect()
}

fn about_channel(channel: &str) -> Markup {
    linked("/channels/{name}", &format!("/channels/{}", encoded(channel)), html! { (channel) })
}

fn filters(visit: &Visit, asked: &Pairs) -> Markup {
    let lang = visit.lang();
    let given = |name: &'static str| last(asked, name);
    let any = (String::new(), lang.say("any", "qualquer").to_owned());
    let groups = [
        ("message.*", lang.say("all of messages", "tudo de mensagens")),
        ("campaign.*", lang.say("all of campaigns", "tudo de campanhas")),
        ("channel.*", lang.say("all of channels", "tudo de canais")),
        ("alert.*", lang.say("all of alerts", "tudo de alertas")),
        ("key.*", lang.say("all of keys", "tudo de chaves")),
        ("session.*", lang.say("coming and leaving", "entradas e saídas")),
    ];
    let groups = groups.map(|(value, words)| (value.to_owned(), words.to_owned()));
    let single = Event::ALL.iter().map(|it| (it.as_str().to_owned(), event::said(lang, it.as_str())));
    let mut events: Pairs = [any.clone()].into_iter().chain(groups).chain(single).collect();
    let chosen = given("event");
    // What another page asks for may be several at once.
    if !events.iter().any(|(value, _)| value == chosen) {
        let words: Vec<String> = chosen.split(',').map(|name| event::said(lang, name)).collect();
        events.push((chosen.to_owned(), words.join(", ")));
    }
    let setup = visit.door().setup();
    let own = visit.caller().channels_in(&setup).map(|it| (it.name.to_string(), it.name.to_string()));
    let channels: Pairs = [any].into_iter().chain(own).collect();
    let periods = period::choices(lang);
    let open = FURTHER.iter().any(|name| !given(name).is_empty());
    let day = |label: &str, name: &'static str| {
        html! { div .field { label for=(format!("f-{name}")) { (label) } input id=(format!("f-{name}")) type="date" name=(name) value=(given(name)); } }
    };
    html! {
        form .card method="get" action="/audit" role="search" {
            div .filters {
                (choice(lang.say("Event", "Evento"), "event", &events, chosen))
                (field(lang.say("Actor", "Autor"), "actor", given("actor"), None))
                (choice(lang.say("Channel", "Canal"), "channel", &channels, given("channel")))
                (choice(lang.say("Period", "Período"), "period", &periods, given("period")))
            }
            details .more open[open] {
                summary { (lang.say("More filters", "Mais filtros")) }
                div .filters {
                    (field(lang.say("Message (id)", "Mensagem (id)"), "message", given("message"), None))
                    (field(lang.say("Claim or reference", "Guia ou referência"), "claim", given("claim"), None))
                    (field(lang.say("Campaign (id)", "Campanha (id)"), "campaign", given("campaign"), None))
                    (day(lang.say("From", "De"), "from"))
                    (day(lang.say("To", "Até"), "to"))
                }
            }
            div .row {
                button .primary type="submit" { (lang.say("Search", "Buscar")) }
                a .button href="/audit" { (lang.say("Clear", "Limpar")) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_meant_as_those_of_the_pages_clock_and_the_last_one_to_its_end() {
        let look = Look {
            lang: Lang::En,
            zone: "America/Sao_Paulo".parse().unwrap(),
            now: Time::from_millis(1_800_000_000_000),
            csrf: "x".into(),
        };
        let pairs = |given: &[(&str, &str)]| -> Pairs {
            given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        assert_eq!(
            wanted(&look, &pairs(&[("from", "2026-11-01"), ("to", "2026-11-02"), ("period", "1h")])),
            pairs(&[("since", "2026-11-01T03:00:00.000Z"), ("until", "2026-11-03T03:00:00.000Z")])
        );
        assert_eq!(
            wanted(&look, &pairs(&[("period", "1h")])),
            pairs(&[("since", "2027-01-15T07:00:00.000Z")])
        );
        assert_eq!(wanted(&look, &pairs(&[("from", "soon")])), pairs(&[("since", "soon")]));
    }
}
