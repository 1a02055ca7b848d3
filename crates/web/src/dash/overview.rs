//! How it goes: first what needs a person, then the figures, then what happened and what waits.

mod figures;

use maud::{Markup, html};
use pombo_kernel::alert::RuleName;
use pombo_kernel::time::{Span, Time};
use serde::Deserialize;

use self::figures::tiles;
pub(crate) use self::figures::{Stats, chart, delivery, failure, tries};
use super::alert::{self, Fired};
use super::channels::{Channel, Standing};
use super::messages::meaning;
use super::parts::{self, Tone, ago, badge, empty, linked, table};
use super::sheet::Sheet;
use super::visit::{Look, Visit};
use super::words::Lang;
use crate::problem::Problem;

/// Dead letters are told of by their largest groups.
const GROUPS: usize = 5;

#[derive(Deserialize)]
struct Items<T> {
    items: Vec<T>,
}

#[derive(Deserialize)]
struct Group {
    cause: String,
    channel: String,
    category: String,
    text: String,
    count: u64,
    last_at: Time,
}

/// Over which time the figures and the chart go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Range {
    Day,
    Week,
}

impl Range {
    fn query(self) -> &'static str {
        match self {
            Range::Day => "since=24h&step=hour",
            Range::Week => "since=7d&step=day",
        }
    }
}

pub(crate) async fn page(visit: Visit) -> Result<Sheet, Problem> {
    let (lang, look) = (visit.lang(), visit.look());
    let range = if visit.asked("range").as_deref() == Some("7d") { Range::Week } else { Range::Day };
    let stats: Stats = visit.ask("/v1/stats", "", &stats_query(look, range)).await?;
    let mut alerts: Items<Fired> = visit.ask("/v1/alerts", "", "state=firing").await?;
    alert::worst_first(&mut alerts.items);
    let channels: Items<Channel> = visit.ask("/v1/channels", "", "").await?;
    let groups: Items<Group> = visit.ask("/v1/dead-letters/groups", "", "limit=50").await?;
    let needs = needs(&visit, &stats, &alerts.items, &channels.items, &groups.items);
    let quiet = stats.is_empty() && groups.items.is_empty();
    let sheet =
        Sheet::new(lang.say("Overview", "Visão geral")).beside(ranges(lang, range)).live("needs", needs);
    if quiet {
        return Ok(sheet
            .live("figures", nothing_yet(lang))
            .live("channels", standing(look, &channels.items)));
    }
    Ok(sheet
        .live("figures", tiles(lang, &stats))
        .live("traffic", html! { section .card { (chart(look, range, &stats)) } })
        .live("attempts", html! { div .two { (tries(lang, &stats)) (delivery(lang, &stats)) } })
        .live("waiting", html! { div .two { (lanes(look, &stats)) (standing(look, &channels.items)) } }))
}

/// What is asked of the counters for that time.
pub(crate) fn stats_query(look: &Look, range: Range) -> String {
    parts::query([("time_zone".to_owned(), look.zone.to_string())]) + "&" + range.query()
}

fn ranges(lang: Lang, range: Range) -> Markup {
    let link = |own: Range, href: &str, words: &str| html! { a .button href=(href) aria-current=[(own == range).then_some("true")] { (words) } };
    html! {
        div .pick role="group" aria-label=(lang.say("Period", "Período")) {
            (link(Range::Day, "/", lang.say("24 hours", "24 horas")))
            (link(Range::Week, "/?range=7d", lang.say("7 days", "7 dias")))
        }
    }
}

/// What does not go on by itself, the worst first; or that there is nothing of the kind.
fn needs(visit: &Visit, stats: &Stats, alerts: &[Fired], channels: &[Channel], groups: &[Group]) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let mut rows: Vec<(Tone, Markup)> = Vec::new();
    if let Some(paused) = &stats.paused {
        rows.push((Tone::Bad, html! { li {
            (badge(Tone::Held, lang.say("paused", "pausado")))
            div { p { strong { (lang.say("Nothing is being sent.", "Nada está sendo enviado.")) } " " (paused.reason) }
                p .hint { (lang.say("An admin lets it go on with", "Um administrador libera com")) " " code { "pombo store resume" } } }
            span .quiet { (ago(look, paused.since)) }
        } }));
    }
    let open = || alerts.iter().filter(|alert| alert.acknowledged.is_none());
    let apart = open().filter(|alert| !channels.iter().any(|channel| stands_for(channel, alert)));
    rows.extend(apart.map(|it| (alert::tone(it), alert::row(look, it))));
    for channel in channels {
        let alert = open().find(|alert| stands_for(channel, alert));
        let tone = alert.map_or(Tone::Held, alert::tone);
        let stuck = channel.destinations.iter().filter(|it| needs_somebody(&it.standing.state)).take(3);
        let stuck = stuck.map(|it| (Some(it.destination.as_str()), &it.standing));
        let whole = Some((None, &channel.standing)).filter(|(_, it)| needs_somebody(&it.state));
        rows.extend(
            whole.into_iter().chain(stuck).map(|(destination, standing)| {
                (tone, block(look, &channel.name, destination, standing, alert))
            }),
        );
    }
    let dead: u64 = groups.iter().map(|group| group.count).sum();
    let worst =
        if rows.iter().any(|(tone, _)| *tone == Tone::Bad) || dead > 0 { Tone::Bad } else { Tone::Held };
    html! {
        @if rows.is_empty() && dead == 0 {
            section .card aria-labelledby="needs-title" {
                h2 #needs-title .calm { (badge(Tone::Ok, lang.say("all is well", "tudo bem"))) (lang.say("Nothing needs you now", "Nada precisa de você agora")) }
            }
        } @else {
            section class=(format!("card urgent {}", worst.class())) aria-labelledby="needs-title" {
                header { h2 #needs-title { (lang.say("Needs you", "Precisa de você")) } }
                ul {
                    @for (_, row) in &rows { (row) }
                    @for group in groups.iter().take(GROUPS) { (dead_group(visit, group)) }
                    @if groups.len() > GROUPS {
                        li { span {} p { (linked("/dead", "/dead", html! { (lang.count((groups.len() - GROUPS) as u64, ("more cause of dead letters", "more causes of dead letters"), ("outra causa de mensagens mortas", "outras causas de mensagens mortas"))) })) } }
                    }
                }
            }
        }
    }
}

fn needs_somebody(state: &str) -> bool {
    matches!(state, "held" | "open")
}

fn block(
    look: &Look,
    channel: &str,
    destination: Option<&str>,
    standing: &Standing,
    alert: Option<&Fired>,
) -> Markup {
    let href = format!("/channels/{}", parts::encoded(channel));
    html! { li {
        (channel_state(look.lang, &standing.state))
        div {
            p { strong { (linked("/channels/{name}", &href, html! { (channel) })) }
                @if let Some(destination) = destination { " → " (destination) }
                @if let Some(reason) = &standing.reason { ": " (reason) } }
            p .hint { (standing.remedy(look.lang)) @if let Some(alert) = alert { " " a href=(format!("/alerts/{}", parts::encoded(&alert.id))) { (look.lang.say("The alert", "O alerta")) } } }
        }
        @if let Some(since) = standing.since { span .quiet { (ago(look, since)) } }
    } }
}

/// Whether what is shown of the channel says already what the alert is about: reason, remedy and all.
fn stands_for(channel: &Channel, alert: &Fired) -> bool {
    let standings = [&channel.standing].into_iter().chain(channel.destinations.iter().map(|it| &it.standing));
    let state = match alert.rule {
        RuleName::ChannelHeld => "held",
        RuleName::BreakerOpen => "open",
        _ => return false,
    };
    let here = alert.channel.as_ref().is_some_and(|it| it.as_str() == channel.name);
    here && needs_somebody(state) && standings.into_iter().any(|it| it.state == state)
}

/// Whether messages pass.
pub(crate) fn channel_state(lang: Lang, state: &str) -> Markup {
    match state {
        "ok" => badge(Tone::Ok, lang.say("open", "aberto")),
        "held" => badge(Tone::Held, lang.say("held", "retido")),
        "paused" => badge(Tone::Wait, lang.say("asked to wait", "pediu espera")),
        "open" => badge(Tone::Bad, lang.say("breaker open", "disjuntor aberto")),
        "recovering" => badge(Tone::Wait, lang.say("recovering", "voltando")),
        other => badge(Tone::Quiet, other),
    }
}

fn dead_group(visit: &Visit, group: &Group) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let href = format!("/dead/{}", parts::encoded(&group.cause));
    let count =
        lang.count(group.count, ("dead letter", "dead letters"), ("mensagem morta", "mensagens mortas"));
    html! { li {
        (badge(Tone::Bad, &count))
        div {
            p { strong { (group.channel) } ": " (linked("/dead/{group}", &href, html! { (meaning(visit, &group.channel, &group.category)) })) }
            @if !group.text.is_empty() { p .hint { (group.text) } }
        }
        span .quiet { (ago(look, group.last_at)) }
    } }
}

fn nothing_yet(lang: Lang) -> Markup {
    html! { section .card { (empty(
        lang.say("No message has come through yet", "Nenhuma mensagem passou por aqui ainda"),
        lang.say(
            "This page will show how many messages are sent and how many fail, how long they take, and what waits. Send one to see it move:",
            "Esta página mostrará quantas mensagens são enviadas e quantas falham, quanto demoram e o que espera. Envie uma para ver acontecer:",
        ),
        Some("pombo send --channel webhook --to https://example.com/hook --content '{\"body\": {\"hello\": \"world\"}}' --wait"),
    )) } }
}

fn lanes(look: &Look, stats: &Stats) -> Markup {
    let lang = look.lang;
    let mut lanes: Vec<(&str, u64, u64, Option<Time>)> = Vec::new();
    for it in &stats.backlog {
        match lanes.iter_mut().find(|(lane, ..)| *lane == it.lane) {
            Some((_, waiting, past_due, oldest)) => {
                *waiting += it.waiting;
                *past_due += it.past_due;
                *oldest = [*oldest, it.oldest_due].into_iter().flatten().min();
            }
            None => lanes.push((&it.lane, it.waiting, it.past_due, it.oldest_due)),
        }
    }
    let rows: Vec<Markup> = lanes
        .iter()
        .map(|(lane, waiting, past_due, oldest)| {
            html! { tr {
                th scope="row" { (lane) }
                td .num { (lang.number(*waiting)) }
                td .num { (lang.number(*past_due)) }
                td { @match oldest { Some(at) => (ago(look, *at)), None => (parts::none()) } }
            } }
        })
        .collect();
    let title = lang.say("Lanes", "Filas");
    html! {
        section .card aria-labelledby="lanes-title" {
            header { h2 #lanes-title { (title) } }
            @if rows.is_empty() {
                p .quiet { (lang.say("Nothing waits.", "Nada espera.")) }
            } @else {
                (table(title, &[lang.say("Lane", "Fila"), lang.say("#Waiting", "#Na fila"), lang.say("#Past due", "#Atrasadas"), lang.say("Oldest due", "Mais antiga venceu")], &rows))
            }
        }
    }
}

fn standing(look: &Look, channels: &[Channel]) -> Markup {
    let lang = look.lang;
    let rows: Vec<Markup> = channels.iter().map(|channel| {
        let href = format!("/channels/{}", parts::encoded(&channel.name));
        html! { tr {
            th scope="row" { (linked("/channels/{name}", &href, html! { (channel.name) })) small { (channel.kind) } }
            td { (channel_state(lang, &channel.standing.state))
                @if !channel.destinations.is_empty() { small { (lang.count(channel.destinations.len() as u64, ("destination waits", "destinations wait"), ("destino espera", "destinos esperam"))) } } }
            td { @match channel.standing.until {
                Some(until) if until.since(look.now) > Span::ZERO => (ago(look, until)),
                _ => (parts::none()),
            } }
        } }
    }).collect();
    let title = lang.say("Channels", "Canais");
    html! {
        section .card aria-labelledby="channels-title" {
            header { h2 #channels-title { (title) } }
            (table(title, &[lang.say("Channel", "Canal"), lang.say("State", "Estado"), lang.say("Tried again", "Nova tentativa")], &rows))
        }
    }
}
