//! What was counted, as tiles, charts and tables.

use std::collections::BTreeMap;

use maud::{Markup, html};
use pombo_kernel::kpi::{Kpi, Unit};
use pombo_kernel::time::{Span, Time};
use serde::Deserialize;

use super::Range;
use crate::dash::chart::{self, Column, Kind};
use crate::dash::parts::{self, Tone, badge, table};
use crate::dash::visit::Look;
use crate::dash::words::Lang;

/// So much of `GET /v1/stats` as the page shows.
#[derive(Deserialize)]
pub(crate) struct Stats {
    pub(super) backlog: Vec<Waiting>,
    pub(super) paused: Option<Paused>,
    series: Vec<Point>,
    kpis: Vec<Figure>,
    attempts: Vec<Tries>,
    time_to_delivery: Delivery,
    recovery: Recovery,
    failures: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
pub(super) struct Waiting {
    pub(super) lane: String,
    pub(super) waiting: u64,
    pub(super) past_due: u64,
    pub(super) oldest_due: Option<Time>,
}

#[derive(Deserialize)]
pub(super) struct Paused {
    pub(super) since: Time,
    pub(super) reason: String,
}

#[derive(Deserialize)]
struct Point {
    start: Time,
    sent: u64,
    failed: u64,
    attempts: u64,
    retries: u64,
    delivery_rate: Option<f64>,
    mean_seconds: Option<f64>,
}

#[derive(Deserialize)]
struct Figure {
    id: Kpi,
    unit: Unit,
    comparison: String,
    target: f64,
    value: Option<f64>,
    met: Option<bool>,
}

#[derive(Deserialize)]
struct Tries {
    number: String,
    made: u64,
    sent: u64,
    rate: Option<f64>,
    mean_wait_seconds: Option<f64>,
}

#[derive(Deserialize)]
struct Delivery {
    sent: u64,
    p50_seconds: Option<f64>,
    p95_seconds: Option<f64>,
    within: Vec<Within>,
}

#[derive(Deserialize)]
struct Within {
    up_to: String,
    count: u64,
}

#[derive(Deserialize)]
struct Recovery {
    retried: u64,
    sent_after_retry: u64,
    retry_success_rate: Option<f64>,
}

impl Stats {
    /// Nothing was tried, and nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.series.iter().all(|it| it.attempts + it.sent + it.failed == 0)
            && self.backlog.iter().all(|it| it.waiting == 0)
    }
}

fn name(lang: Lang, kpi: Kpi) -> &'static str {
    match kpi {
        Kpi::FinalDelivery => lang.say("Delivered in the end", "Entregues no fim"),
        Kpi::MeanTimeToDelivery => lang.say("Mean time to delivery", "Tempo médio até a entrega"),
        Kpi::Recovery => lang.say("Saved by a retry", "Salvas por nova tentativa"),
        Kpi::DefinitiveFailures => lang.say("Failed for good", "Falhas definitivas"),
        Kpi::RetrySuccess => lang.say("Claims: retry success", "Guias: sucesso ao tentar de novo"),
        Kpi::MeanTimeToSuccess => {
            lang.say("Claims: mean time to success", "Guias: tempo médio até o sucesso")
        }
        Kpi::PermanentErrors => lang.say("Claims: permanent errors", "Guias: erros permanentes"),
        Kpi::ExhaustedRetries => lang.say("Claims: out of attempts", "Guias: tentativas esgotadas"),
    }
}

fn shown(lang: Lang, unit: Unit, value: f64) -> String {
    match unit {
        Unit::Share => lang.percent(value),
        Unit::Seconds => lang.span(seconds(value)),
    }
}

fn seconds(value: f64) -> Span {
    Span::from_secs(1).scaled(value)
}

/// How a figure went over the range, where its steps say so.
fn trend(kpi: Kpi, series: &[Point]) -> Vec<Option<f64>> {
    let of = |point: &Point| match kpi {
        Kpi::FinalDelivery => point.delivery_rate,
        Kpi::DefinitiveFailures => point.delivery_rate.map(|rate| 1.0 - rate),
        Kpi::MeanTimeToDelivery => point.mean_seconds,
        _ => None,
    };
    series.iter().map(of).collect()
}

/// The figures against their targets. Those of claims are shown where there are any.
pub(super) fn tiles(lang: Lang, stats: &Stats) -> Markup {
    let claims = |it: &&Figure| it.id.family() == pombo_kernel::kpi::Family::Messages || it.value.is_some();
    html! {
        section aria-label=(lang.say("Figures", "Indicadores")) {
            div .tiles { @for figure in stats.kpis.iter().filter(claims) { (tile(lang, figure, &stats.series)) } }
        }
    }
}

fn tile(lang: Lang, figure: &Figure, series: &[Point]) -> Markup {
    let trend = trend(figure.id, series);
    let sign = match figure.comparison.as_str() {
        ">" => lang.say("above", "acima de"),
        ">=" => lang.say("at least", "no mínimo"),
        "<" => lang.say("below", "abaixo de"),
        _ => lang.say("at most", "no máximo"),
    };
    let met = figure.met.map(|met| match met {
        true => badge(Tone::Ok, lang.say("on target", "na meta")),
        false => badge(Tone::Bad, lang.say("off target", "fora da meta")),
    });
    html! {
        div .tile {
            h3 { (name(lang, figure.id)) }
            p .value {
                @match figure.value { Some(value) => (shown(lang, figure.unit, value)), None => (parts::none()) }
                @if let Some(met) = met { (met) }
            }
            p .hint { (lang.say("Target", "Meta")) ": " (sign) " " (shown(lang, figure.unit, figure.target)) }
            @if trend.iter().flatten().count() > 1 { (chart::sparkline(&trend)) }
        }
    }
}

pub(crate) fn chart(look: &Look, range: Range, stats: &Stats) -> Markup {
    let lang = look.lang;
    let kinds = [
        Kind { class: "ok", words: lang.say("sent", "enviadas") },
        Kind { class: "bad", words: lang.say("failed", "falharam") },
    ];
    let (long, short) = match range {
        Range::Day => (lang.say("%b %d, %H:00", "%d/%m, %Hh"), lang.say("%H:00", "%Hh")),
        Range::Week => (lang.say("%Y-%m-%d", "%d/%m/%Y"), lang.say("%m-%d", "%d/%m")),
    };
    let steps: Vec<Column> = stats
        .series
        .iter()
        .map(|point| Column {
            label: look.zone.written(point.start, long),
            tick: look.zone.written(point.start, short),
            counts: vec![point.sent, point.failed],
        })
        .collect();
    let caption = match range {
        Range::Day => lang.say("Traffic, hour by hour", "Tráfego por hora"),
        Range::Week => lang.say("Traffic, day by day", "Tráfego por dia"),
    };
    let (sent, failed) =
        stats.series.iter().fold((0, 0), |(sent, failed), it| (sent + it.sent, failed + it.failed));
    html! {
        (chart::columns(lang, caption, &kinds, &steps))
        p .quiet {
            (lang.count(sent, ("message sent", "messages sent"), ("mensagem enviada", "mensagens enviadas"))) ", "
            (lang.count(failed, ("failed", "failed"), ("falhou", "falharam")))
            @for (reason, count) in &stats.failures { " · " (failure(lang, reason)) ": " (lang.number(*count)) }
        }
    }
}

/// Why a message is dead, in a few words.
pub(crate) fn failure(lang: Lang, reason: &str) -> String {
    match reason {
        "max_retries_exceeded" => lang.say("out of attempts", "tentativas esgotadas").to_owned(),
        "permanent_error" => lang.say("permanent error", "erro permanente").to_owned(),
        "expired" => lang.say("past its deadline", "fora do prazo").to_owned(),
        "outcome_unknown" => lang.say("outcome unknown", "desfecho desconhecido").to_owned(),
        other => other.replace('_', " "),
    }
}

/// Which attempts succeed, and what retries come to.
pub(crate) fn tries(lang: Lang, stats: &Stats) -> Markup {
    let title = lang.say("Attempts and recovery", "Tentativas e recuperação");
    let retries: u64 = stats.series.iter().map(|it| it.retries).sum();
    let rows: Vec<Markup> = stats.attempts.iter().map(|it| html! { tr {
        th scope="row" { (nth(lang, &it.number)) }
        td .num { (lang.number(it.made)) }
        td .num { (lang.number(it.sent)) }
        td .num { @match it.rate { Some(rate) => { (chart::meter(rate, "ok")) " " (lang.percent(rate)) }, None => (parts::none()) } }
        td .num { @match it.mean_wait_seconds { Some(wait) => (lang.span(seconds(wait))), None => (parts::none()) } }
    } }).collect();
    html! {
        section .card aria-labelledby="tries-title" {
            header { h2 #tries-title { (title) } }
            @if rows.is_empty() {
                p .quiet { (lang.say("Nothing was tried in this period.", "Nada foi tentado neste período.")) }
            } @else {
                p {
                    (lang.count(stats.recovery.retried, ("message needed a retry", "messages needed a retry"), ("mensagem precisou de nova tentativa", "mensagens precisaram de nova tentativa")))
                    "; " (lang.count(stats.recovery.sent_after_retry, ("was sent by one", "were sent by one"), ("foi enviada assim", "foram enviadas assim")))
                    @if let Some(rate) = stats.recovery.retry_success_rate { " (" (lang.percent(rate)) ")" }
                    ". " span .quiet { (lang.count(retries, ("retry", "retries"), ("nova tentativa", "novas tentativas"))) }
                }
                (table(title, &[lang.say("Attempt", "Tentativa"), lang.say("#Made", "#Feitas"), lang.say("#Sent", "#Enviadas"), lang.say("#Success", "#Sucesso"), lang.say("#Mean wait", "#Espera média")], &rows))
            }
        }
    }
}

fn nth(lang: Lang, number: &str) -> String {
    match number.parse::<u16>() {
        Ok(number) => lang.say(format!("{number}."), format!("{number}ª")),
        Err(_) => number.to_owned(),
    }
}

/// How long messages took.
pub(crate) fn delivery(lang: Lang, stats: &Stats) -> Markup {
    let (title, took) = (lang.say("Time to delivery", "Tempo até a entrega"), &stats.time_to_delivery);
    let most = took.within.iter().map(|it| it.count).max().unwrap_or(0);
    let share = |count: u64| pombo_kernel::kpi::share(count, most).unwrap_or(0.0);
    let rows: Vec<Markup> = took
        .within
        .iter()
        .filter(|it| it.count > 0)
        .map(|it| {
            html! { tr {
                th scope="row" { (up_to(lang, &it.up_to)) }
                td { (chart::meter(share(it.count), "")) }
                td .num { (lang.number(it.count)) }
            } }
        })
        .collect();
    html! {
        section .card aria-labelledby="took-title" {
            header { h2 #took-title { (title) } }
            @if took.sent == 0 || rows.is_empty() {
                p .quiet { (lang.say("Nothing was sent in this period.", "Nada foi enviado neste período.")) }
            } @else {
                p {
                    @if let Some(half) = took.p50_seconds { (lang.say("Half within ", "Metade em até ")) strong { (lang.span(seconds(half))) } }
                    @if let Some(most) = took.p95_seconds { (lang.say(", 95% within ", ", 95% em até ")) strong { (lang.span(seconds(most))) } }
                    "."
                }
                (table(title, &[lang.say("Within", "Em até"), lang.say("Share", "Parte"), lang.say("#Messages", "#Mensagens")], &rows))
            }
        }
    }
}

/// A length of time as the API names it, or what is longer than all of them.
fn up_to(lang: Lang, text: &str) -> String {
    match text.parse::<Span>() {
        Ok(span) => lang.span(span),
        Err(_) => lang.say("longer", "mais").to_owned(),
    }
}
