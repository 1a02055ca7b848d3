//! Channels: whether messages pass, why not, and what somebody can do about it.

mod deeds;
mod known;

use std::collections::BTreeMap;

use http::Method;
use maud::{Markup, html};
use pombo_kernel::time::Time;
use serde::Deserialize;

pub(crate) use self::deeds::{close, hold, open, release, test};
use super::overview::{Range, Stats, channel_state, chart, delivery, stats_query, tries};
use super::parts::{self, ago, encoded, exists, form, none, prose, table};
use super::policies;
use super::sheet::Sheet;
use super::visit::{Look, Visit};
use super::words::Lang;
use crate::problem::{Code, Problem};

#[derive(Deserialize)]
struct Items<T> {
    items: Vec<T>,
}

/// So much of a channel of the API as is shown.
#[derive(Deserialize)]
pub(crate) struct Channel {
    pub(crate) name: String,
    pub(crate) kind: String,
    #[serde(flatten)]
    pub(crate) standing: Standing,
    pub(crate) destinations: Vec<Destination>,
}

#[derive(Deserialize)]
pub(crate) struct Destination {
    pub(crate) destination: String,
    #[serde(flatten)]
    pub(crate) standing: Standing,
}

/// Whether messages pass.
#[derive(Deserialize)]
pub(crate) struct Standing {
    pub(crate) state: String,
    pub(crate) reason: Option<String>,
    hint: Option<String>,
    pub(crate) since: Option<Time>,
    pub(crate) until: Option<Time>,
    breaker: Breaker,
}

#[derive(Deserialize)]
struct Breaker {
    state: String,
    failed_probes: Option<u16>,
}

/// What was counted of all channels, as far as the list shows it.
#[derive(Deserialize)]
struct Counted {
    channels: BTreeMap<String, BTreeMap<String, u64>>,
}

/// What stands in the way, as one would call it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wall {
    None,
    /// The channel lacks something that it cannot be without.
    Unready,
    Operator,
    Fault,
    Pause,
    Breaker,
    Ramp,
}

impl Standing {
    fn wall(&self) -> Wall {
        match (self.state.as_str(), self.since, self.until) {
            ("held", None, _) => Wall::Unready,
            ("held", Some(_), None) => Wall::Operator,
            ("held", Some(_), Some(_)) => Wall::Fault,
            ("paused", ..) => Wall::Pause,
            ("open", ..) => Wall::Breaker,
            ("recovering", ..) => Wall::Ramp,
            _ => Wall::None,
        }
    }

    /// What to do, or what happens by itself; with what is missing where the channel is not set up.
    pub(crate) fn remedy(&self, lang: Lang) -> Markup {
        let wall = self.wall();
        html! {
            (remedy(lang, wall))
            @if let Some(hint) = self.hint.as_ref().filter(|_| wall == Wall::Unready) { " " span lang="en" { (prose(hint)) } }
        }
    }
}

fn remedy(lang: Lang, wall: Wall) -> &'static str {
    match wall {
        Wall::None => lang.say("Messages pass.", "As mensagens passam."),
        Wall::Unready => lang.say(
            "Set what is missing and start Pombo anew, or have it read its configuration again. Messages are accepted and wait.",
            "Configure o que falta e reinicie o Pombo, ou faça-o reler a configuração. As mensagens são aceitas e esperam.",
        ),
        Wall::Operator => lang.say(
            "Somebody held it. Nothing is lost and no attempt is used up; release it when the reason is gone.",
            "Alguém reteve. Nada se perde e nenhuma tentativa é gasta; libere quando o motivo passar.",
        ),
        Wall::Fault => lang.say(
            "The fault is on our side: mend what the reason names. One message probes from time to time, and the rest follow once it passes. Releasing tries at once.",
            "A falha é do nosso lado: corrija o que o motivo diz. Uma mensagem testa de tempos em tempos, e as outras seguem quando ela passar. Liberar tenta na hora.",
        ),
        Wall::Pause => lang.say(
            "The provider asked for a pause. It ends by itself.",
            "O provedor pediu uma pausa. Ela termina sozinha.",
        ),
        Wall::Breaker => lang.say(
            "The destination is down. One message tries it from time to time; once one arrives, the rest follow slowly. Nothing has to be done here.",
            "O destino está fora do ar. Uma mensagem tenta de tempos em tempos; quando uma chegar, as outras seguem devagar. Não é preciso fazer nada aqui.",
        ),
        Wall::Ramp => lang.say(
            "It is back, and what has waited is let go slowly so that it is not overrun.",
            "Voltou, e o que esperava é liberado devagar para não sobrecarregar.",
        ),
    }
}

/// Every channel, with whether messages pass and what went through it in a day.
pub(crate) async fn list(visit: Visit) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let channels: Items<Channel> = visit.ask("/v1/channels", "", "").await?;
    let counted: Counted = visit.ask("/v1/stats", "", &stats_query(visit.look(), Range::Day)).await?;
    let title = lang.say("Channels", "Canais");
    let columns = [
        lang.say("Channel", "Canal"),
        lang.say("State", "Estado"),
        lang.say("Why", "Por quê"),
        lang.say("Next probe", "Próxima sonda"),
        lang.say("Policy", "Política"),
        lang.say("#Waiting", "#Na fila"),
        lang.say("#Sent, 24 h", "#Enviadas, 24 h"),
        lang.say("#Failed, 24 h", "#Falharam, 24 h"),
    ];
    let rows: Vec<Markup> = channels.items.iter().map(|it| line(&visit, it, &counted)).collect();
    let html = html! { section .card { (table(title, &columns, &rows)) } };
    Ok(Sheet::new(title).live("channels", html))
}

fn line(visit: &Visit, channel: &Channel, counted: &Counted) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let count =
        |what: &str| counted.channels.get(&channel.name).and_then(|it| it.get(what)).copied().unwrap_or(0);
    let setup = visit.door().setup();
    let policy = setup.channels.get(channel.name.as_str()).map(|it| &it.policy);
    let waiting = channel.destinations.len() as u64;
    html! { tr {
        th scope="row" { a href=(href(&channel.name)) { (channel.name) } small { (channel.kind) } }
        td {
            (channel_state(lang, &channel.standing.state))
            @if waiting > 0 { small { (lang.count(waiting, ("destination waits", "destinations wait"), ("destino espera", "destinos esperam"))) } }
        }
        td .prose { @match &channel.standing.reason { Some(reason) => (reason), None => (none()) } }
        td { @match channel.standing.until { Some(until) => (ago(look, until)), None => (none()) } }
        td { @match policy { Some(policy) => a href=(policies::href(policy)) { (policy.name) }, None => (none()) } }
        td .num { (lang.number(count("waiting"))) }
        td .num { (lang.number(count("sent"))) }
        td .num { (lang.number(count("failed"))) }
    } }
}

fn href(name: &str) -> String {
    format!("/channels/{}", encoded(name))
}

fn missing() -> Problem {
    let hint = "GET /v1/channels and `pombo channels list` show them";
    Problem::new(Code::NotFound, "there is no channel of this name", hint)
}

/// One channel.
pub(crate) async fn page(visit: Visit) -> Result<Sheet, Problem> {
    let (lang, look) = (visit.lang(), visit.look());
    let setup = policies::channels(&visit).into_iter().find(|it| it.name.as_str() == visit.name());
    let setup = setup.ok_or_else(missing)?;
    let channels: Items<Channel> = visit.ask("/v1/channels", "", "").await?;
    let channel = channels.items.into_iter().find(|it| it.name == visit.name()).ok_or_else(missing)?;
    let range = if visit.asked("range").as_deref() == Some("7d") { Range::Week } else { Range::Day };
    let query = format!("{}&channel={}", stats_query(look, range), encoded(&channel.name));
    let stats: Stats = visit.ask("/v1/stats", "", &query).await?;
    let tested = deeds::tested(&visit, &channel.name).await?;
    let name = &channel.name;
    let sheet = Sheet::new(lang.say(format!("Channel {name}"), format!("Canal {name}")))
        .beside(beside(&visit, &channel))
        .live("standing", html! { (standing(&visit, &channel)) (deeds::told(look, tested.as_ref())) })
        .live("traffic", traffic(&visit, &channel, range, &stats));
    // What stays as it is need not be made for whoever only hears of changes.
    if !visit.wants_page() {
        return Ok(sheet);
    }
    let history = known::history(&visit, &channel.name).await?;
    let below = html! {
        (deeds::forms(&visit, &channel))
        div .two { (known::facts_of(&visit, &setup)) (history) }
    };
    Ok(sheet.still(below))
}

fn beside(visit: &Visit, channel: &Channel) -> Markup {
    let lang = visit.lang();
    let here = href(&channel.name);
    html! {
        span .quiet { (channel.kind) }
        @if visit.may(&Method::POST, "/v1/channels/{name}/test") {
            (form(visit.look(), &format!("{here}/test"), Some(&here), &html! {
                button type="submit" title=(lang.say("Asks the provider how it is; no message is sent", "Pergunta ao provedor como está; nenhuma mensagem é enviada")) { (lang.say("Test", "Testar")) }
            }))
        }
    }
}

/// How it stands, why, and the way out.
fn standing(visit: &Visit, channel: &Channel) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let title = lang.say("Destinations that wait", "Destinos que esperam");
    let columns = [
        lang.say("Destination", "Destino"),
        lang.say("State", "Estado"),
        lang.say("Why", "Por quê"),
        lang.say("Since", "Desde"),
        lang.say("Next probe", "Próxima sonda"),
        lang.say("Way out", "Saída"),
    ];
    let rows: Vec<Markup> = channel.destinations.iter().map(|it| html! { tr {
        th scope="row" { (it.destination) }
        td { (channel_state(lang, &it.standing.state)) @if let Some(failed) = it.standing.breaker.failed_probes.filter(|it| *it > 0) { small { (probes(lang, failed)) } } }
        td .prose { @match &it.standing.reason { Some(reason) => (reason), None => (none()) } }
        td { @match it.standing.since { Some(at) => (ago(look, at)), None => (none()) } }
        td { @match it.standing.until { Some(at) => (ago(look, at)), None => (none()) } }
        td { (deeds::way_out(visit, &channel.name, Some(&it.destination), it.standing.wall())) }
    } }).collect();
    // What is to be done is the same for all that wait for the same.
    let mut walls: Vec<(Wall, &Destination)> = Vec::new();
    for it in &channel.destinations {
        if walls.iter().all(|(wall, _)| *wall != it.standing.wall()) {
            walls.push((it.standing.wall(), it));
        }
    }
    let wall = channel.standing.wall();
    html! {
        section .card aria-label=(lang.say("State", "Estado")) {
            div .row {
                (channel_state(lang, &channel.standing.state))
                @if let Some(since) = channel.standing.since { span .quiet { (lang.say("since", "desde")) " " (ago(look, since)) } }
                @if let Some(until) = channel.standing.until { span { (until_words(lang, wall)) " " (ago(look, until)) } }
                @if let Some(failed) = channel.standing.breaker.failed_probes.filter(|it| *it > 0) { span .quiet { (probes(lang, failed)) } }
                @if channel.standing.breaker.state == "half_open" { span { (lang.say("the next message tries it", "a próxima mensagem tenta")) } }
                div .beside { (deeds::way_out(visit, &channel.name, None, wall)) }
            }
            @if let Some(reason) = &channel.standing.reason { p .big { (parts::capital(reason)) } }
            p { (channel.standing.remedy(lang)) }
        }
        @if !rows.is_empty() {
            section .card aria-labelledby="destinations-title" {
                header { h2 #destinations-title { (title) } }
                @for (_, it) in &walls { p .quiet { (it.standing.remedy(lang)) } }
                (table(title, &columns, &rows))
            }
        }
    }
}

fn until_words(lang: Lang, wall: Wall) -> &'static str {
    match wall {
        Wall::Pause | Wall::Ramp => lang.say("ends", "termina"),
        _ => lang.say("next probe", "próxima sonda"),
    }
}

fn probes(lang: Lang, failed: u16) -> String {
    lang.count(failed.into(), ("probe failed", "probes failed"), ("sonda falhou", "sondas falharam"))
}

/// What went through it.
fn traffic(visit: &Visit, channel: &Channel, range: Range, stats: &Stats) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let here = href(&channel.name);
    let name = encoded(&channel.name);
    html! {
        section .card {
            (chart(look, range, stats))
            div .row {
                (ranges(look, range, &here))
                a href=(format!("/messages?channel={name}")) { (lang.say("Its messages", "As mensagens dele")) }
                a href=(format!("/messages?channel={name}&state=failed")) { (lang.say("Those that failed", "As que falharam")) }
                @if exists("/dead") { a href=(format!("/dead?channel={name}")) { (lang.say("Its dead letters", "As mensagens mortas dele")) } }
            }
        }
        @if !stats.is_empty() { div .two { (tries(lang, stats)) (delivery(lang, stats)) } }
    }
}

fn ranges(look: &Look, range: Range, here: &str) -> Markup {
    let lang = look.lang;
    let link = |own: Range, href: &str, words: &str| html! { a .button href=(href) aria-current=[(own == range).then_some("true")] { (words) } };
    html! {
        div .pick role="group" aria-label=(lang.say("Period", "Período")) {
            (link(Range::Day, here, lang.say("24 hours", "24 horas")))
            (link(Range::Week, &format!("{here}?range=7d"), lang.say("7 days", "7 dias")))
        }
    }
}
