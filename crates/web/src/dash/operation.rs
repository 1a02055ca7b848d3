//! Operations: work on many things at once, how far it has come, and how it is stopped.

use std::collections::BTreeMap;

use http::Method;
use maud::{Markup, html};
use pombo_kernel::time::{Span, Time};
use serde::Deserialize;
use serde_json::Value;

use super::chart;
use super::form::Form;
use super::messages::short;
use super::parts::{self, Tone, ago, asking_form, badge, copied, empty, encoded, facts, pager, table, time};
use super::sheet::Sheet;
use super::visit::{Reply, Visit};
use super::words::Lang;
use crate::problem::Problem;

const LIST: &str = "/v1/operations";
const SHOW: &str = "/v1/operations/{id}";
const CANCEL: &str = "/v1/operations/{id}/cancel";
/// Operations among which those that run are looked for.
const RECENT: usize = 20;

/// So much of an operation of the API as is shown.
#[derive(Deserialize)]
pub(crate) struct Operation {
    id: String,
    kind: String,
    state: String,
    stage: Option<String>,
    reason: Option<String>,
    filter: BTreeMap<String, String>,
    channel: Option<String>,
    note: Option<String>,
    by: String,
    cancelled_by: Option<String>,
    rate_per_minute: Option<u32>,
    canary: u32,
    watched: Vec<String>,
    total: Option<u64>,
    done: u64,
    skipped: u64,
    #[serde(default)]
    counts: BTreeMap<String, u64>,
    result: Option<Finding>,
    created_at: Time,
    finished_at: Option<Time>,
}

/// What a test of a channel has found.
#[derive(Deserialize)]
struct Finding {
    ok: Option<bool>,
    detail: String,
    latency_ms: u64,
}

#[derive(Deserialize)]
struct Operations {
    items: Vec<Operation>,
    next_cursor: Option<String>,
}

impl Operation {
    fn runs(&self) -> bool {
        self.state == "running"
    }

    fn of_letters(&self) -> bool {
        matches!(self.kind.as_str(), "reprocess" | "discard")
    }

    /// How many are still to come, where that is known.
    fn left(&self) -> Option<u64> {
        self.total.map(|total| total.saturating_sub(self.done + self.skipped))
    }

    /// How much of it is done.
    fn share(&self) -> Option<f64> {
        match self.total {
            _ if self.state == "done" => Some(1.0),
            Some(0) | None => None,
            Some(total) => Some((self.done + self.skipped).min(total) as f64 / total as f64),
        }
    }

    /// How long what is left takes at the pace that was asked for.
    fn eta(&self) -> Option<Span> {
        let (left, pace) = (self.left().filter(|left| *left > 0)?, self.rate_per_minute?);
        self.runs().then(|| Span::from_secs((left * 60).div_ceil(u64::from(pace.max(1)))))
    }

    fn href(&self) -> String {
        format!("/operations/{}", encoded(&self.id))
    }

    /// What it does, in a few words.
    fn words(&self, lang: Lang) -> String {
        match self.kind.as_str() {
            "reprocess" => lang.say("Sending dead letters again", "Reenvio de mensagens mortas").to_owned(),
            "discard" => lang.say("Discarding dead letters", "Descarte de mensagens mortas").to_owned(),
            "test_channel" => lang.say("Test of a channel", "Teste de um canal").to_owned(),
            "erase" => lang.say("Erasing a person's data", "Apagamento dos dados de uma pessoa").to_owned(),
            "prune" => lang.say("Removing old messages", "Remoção de mensagens antigas").to_owned(),
            other => lang.say(format!("Operation {other}"), format!("Operação {other}")),
        }
    }

    fn badge(&self, lang: Lang) -> Markup {
        let (tone, words) = match (self.state.as_str(), self.stage.as_deref()) {
            ("running", Some("canary" | "watching")) => {
                (Tone::Wait, lang.say("one goes first", "uma vai antes"))
            }
            ("running", _) => (Tone::Wait, lang.say("running", "em andamento")),
            ("done", _) => (Tone::Ok, lang.say("done", "concluída")),
            ("cancelled", _) => (Tone::Quiet, lang.say("stopped", "parada")),
            ("halted", _) => (Tone::Bad, lang.say("halted", "interrompida")),
            (other, _) => (Tone::Quiet, other),
        };
        badge(tone, words)
    }

    fn tone(&self) -> &'static str {
        match self.state.as_str() {
            "halted" => Tone::Bad.class(),
            "done" => Tone::Ok.class(),
            _ => "",
        }
    }
}

/// Those that run, of the newest ones.
pub(crate) async fn running(visit: &Visit) -> Result<Vec<Operation>, Problem> {
    let found: Operations = visit.ask(LIST, "", &format!("limit={RECENT}")).await?;
    Ok(found.items.into_iter().filter(|it| it.runs() && it.of_letters()).collect())
}

/// One of several: what it is, and how far.
pub(crate) fn line(visit: &Visit, it: &Operation) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    html! {
        div .work {
            (it.badge(lang))
            div {
                p { a href=(it.href()) { (it.words(lang)) } @if let Some(note) = &it.note { " · " q { (note) } } }
                p .hint { (it.by) " · " (ago(look, it.created_at)) }
            }
            div .far { (bar(it)) span { (progress(lang, it)) } }
        }
    }
}

fn bar(it: &Operation) -> Markup {
    html! { @if let Some(share) = it.share() { (chart::meter(share, &format!("long {}", it.tone()))) } }
}

fn progress(lang: Lang, it: &Operation) -> String {
    let done = lang.number(it.done);
    match it.total {
        Some(total) if it.of_letters() => format!("{done} {} {}", lang.say("of", "de"), lang.number(total)),
        _ => done,
    }
}

/// All of them, the newest first.
pub(crate) async fn list(visit: Visit) -> Result<Sheet, Problem> {
    let (lang, look) = (visit.lang(), visit.look());
    let cursor = visit.asked("cursor");
    let pairs: Vec<_> = cursor.iter().map(|cursor| ("cursor".to_owned(), cursor.clone())).collect();
    let found: Operations = visit.ask(LIST, "", &parts::query(pairs.clone())).await?;
    let title = lang.say("Operations", "Operações");
    let rows: Vec<Markup> = found.items.iter().map(|it| html! { tr {
        th scope="row" { a href=(it.href()) { (it.words(lang)) } @if let Some(note) = &it.note { small { (note) } } }
        td { (it.badge(lang)) }
        td { (bar(it)) small { (progress(lang, it)) } }
        td { (it.by) }
        td { (ago(look, it.created_at)) }
    } }).collect();
    let columns = [
        lang.say("Operation", "Operação"),
        lang.say("State", "Estado"),
        lang.say("Done", "Feito"),
        lang.say("By", "Por"),
        lang.say("Begun", "Começou"),
    ];
    let html = html! {
        section .card {
            @if rows.is_empty() {
                (empty(
                    lang.say("No operations yet", "Ainda não há operações"),
                    lang.say("Whatever touches many messages at once appears here with how far it has come, and can be stopped: sending a whole cause of dead letters again, for example.", "O que mexe em muitas mensagens de uma vez aparece aqui com o andamento e pode ser parado: reenviar uma causa inteira de mensagens mortas, por exemplo."),
                    Some("pombo operations list"),
                ))
            } @else { (table(title, &columns, &rows)) }
        }
        (pager(lang, "/operations", &pairs, found.next_cursor.as_deref()))
    };
    let sheet = Sheet::new(title)
        .beside(html! { a .button href="/dead" { (lang.say("Dead letters", "Mensagens mortas")) } });
    Ok(if cursor.is_some() { sheet.still(html) } else { sheet.live("operations", html) })
}

/// One of them, while it runs and after.
pub(crate) async fn page(visit: Visit) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let it: Operation = visit.ask(SHOW, visit.name(), "").await?;
    let beside =
        html! { a .button href="/operations" { (lang.say("All operations", "Todas as operações")) } };
    Ok(Sheet::new(it.words(lang))
        .beside(beside)
        .live("progress", standing(&visit, &it))
        .live("details", html! { div .two { (about(&visit, &it)) (undo(lang, &it)) } }))
}

/// How far it is, and what it is at.
fn standing(visit: &Visit, it: &Operation) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let number = |value: u64| lang.number(value);
    let figures = [
        (lang.say("done", "feitas"), Some(number(it.done))),
        (lang.say("left out", "deixadas de lado"), it.of_letters().then(|| number(it.skipped))),
        (lang.say("left", "restantes"), it.left().filter(|_| it.of_letters()).map(number)),
        (
            lang.say("a minute, at most", "por minuto, no máximo"),
            it.rate_per_minute.map(|pace| number(pace.into())),
        ),
        (lang.say("until it is done", "até terminar"), it.eta().map(|eta| lang.span(eta))),
    ];
    let class = match it.state.as_str() {
        "halted" => "card urgent bad",
        _ => "card",
    };
    html! {
        section class=(class) aria-label=(lang.say("Progress", "Andamento")) {
            div .row {
                (it.badge(lang))
                @if let Some(at) = it.finished_at { span .quiet { (time(look, at)) } }
                @if it.runs() && visit.may(&Method::POST, CANCEL) {
                    div .beside {
                        (asking_form(look, &format!("{}/cancel", it.href()), Some(&it.href()), lang.say("Stop this operation? What it did stays done.", "Parar esta operação? O que já foi feito continua feito."), &html! { button .danger type="submit" { (lang.say("Stop", "Parar")) } }))
                    }
                }
            }
            @if let Some(share) = it.share() {
                div .far { (chart::meter(share, &format!("long {}", it.tone()))) strong { (lang.percent(share)) } }
            }
            dl .tally { @for (words, value) in figures { @if let Some(value) = value { div { dt { (words) } dd { (value) } } } } }
            (stage(visit, it))
        }
    }
}

/// What it is at just now, or why it is no longer.
fn stage(visit: &Visit, it: &Operation) -> Markup {
    let lang = visit.lang();
    html! {
        @match (it.state.as_str(), it.stage.as_deref()) {
            ("running", Some("canary")) => p { (lang.say("One letter is about to go ahead of the others.", "Uma mensagem está para ir antes das outras.")) },
            ("running", Some("watching")) => {
                p { (lang.say("It waits for what went first: the others follow once that has arrived, and stay as they are if it fails again.", "Espera pelo que foi antes: as outras seguem quando chegar, e ficam como estão se falhar de novo.")) }
                ul .row { @for id in &it.watched { li { a href=(format!("/messages/{}", encoded(id))) { code { (short(id)) } } } } }
            }
            ("halted", _) => {
                p .big { (lang.say("It stopped by itself. What was not touched yet stays as it is.", "Parou sozinha. O que ainda não foi tocado fica como está.")) }
                @if let Some(reason) = &it.reason { p lang="en" { (reason) } }
            }
            ("cancelled", _) => @if let Some(by) = &it.cancelled_by { p { (lang.say("Stopped by", "Parada por")) " " (by) "." } },
            _ => {}
        }
        @if it.of_letters() && it.skipped > 0 {
            p .hint { (lang.say("Left out: no longer dead when their turn came, on the suppression list, or of a campaign that was cancelled.", "Deixadas de lado: já não estavam mortas na sua vez, estão na lista de supressão, ou são de uma campanha cancelada.")) }
        }
        @if let Some(found) = &it.result {
            p {
                @match found.ok {
                    Some(true) => (badge(Tone::Ok, lang.say("answers", "responde"))),
                    Some(false) => (badge(Tone::Bad, lang.say("does not work", "não funciona"))),
                    None => (badge(Tone::Quiet, lang.say("cannot be asked", "não há como perguntar"))),
                }
                " " (lang.span(Span::from_millis(found.latency_ms)))
            }
            pre { (found.detail) }
        }
    }
}

fn about(visit: &Visit, it: &Operation) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let mut rows = vec![
        (lang.say("By", "Por"), html! { (it.by) }),
        (lang.say("Begun", "Começou"), time(look, it.created_at)),
    ];
    if let Some(note) = &it.note {
        rows.push((lang.say("Note", "Observação"), html! { (note) }));
    }
    if let Some(channel) = &it.channel {
        rows.push((
            lang.say("Channel", "Canal"),
            parts::linked(
                "/channels/{name}",
                &format!("/channels/{}", encoded(channel)),
                html! { (channel) },
            ),
        ));
    }
    if it.of_letters() {
        let pairs = || it.filter.iter().map(|(name, value)| (name.clone(), value.clone()));
        let which = match (it.filter.get("cause"), it.filter.len()) {
            (Some(cause), 1) => {
                html! { a href=(format!("/dead/{}", encoded(cause))) { (lang.say("those of one cause", "as de uma causa")) } }
            }
            (_, 0) => html! { (lang.say("all dead letters", "todas as mensagens mortas")) },
            _ => {
                html! { a href=(parts::with_query("/dead/letters", pairs())) { (pairs().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")) } }
            }
        };
        rows.push((lang.say("Letters", "Mensagens"), which));
    }
    if it.kind == "reprocess" {
        let first = match it.canary {
            0 => lang.say("none", "nenhuma").to_owned(),
            some => lang.number(some.into()),
        };
        rows.push((lang.say("Sent ahead", "Enviadas antes"), html! { (first) }));
    }
    rows.push((lang.say("Id", "Id"), copied(&it.id)));
    let removed: Vec<Markup> = it
        .counts
        .iter()
        .map(|(what, count)| html! { tr { th scope="row" { (what) } td .num { (lang.number(*count)) } } })
        .collect();
    html! {
        section .card aria-labelledby="about-title" {
            header { h2 #about-title { (lang.say("Details", "Detalhes")) } }
            (facts(rows))
            @if !removed.is_empty() { (table(lang.say("Removed", "Removidas"), &[lang.say("What", "O quê"), lang.say("#Count", "#Quantas")], &removed)) }
        }
    }
}

/// What can still be taken back, and what cannot.
fn undo(lang: Lang, it: &Operation) -> Markup {
    let channel = it.channel.as_ref().or_else(|| it.filter.get("channel"));
    let waiting = [("state".to_owned(), "pending".to_owned())];
    let waiting = waiting.into_iter().chain(channel.map(|channel| ("channel".to_owned(), channel.clone())));
    html! { @if it.of_letters() {
        section .card aria-labelledby="undo-title" {
            header { h2 #undo-title { (lang.say("Can it be undone?", "Dá para desfazer?")) } }
            @if it.kind == "discard" {
                p { (lang.say("No. Discarded is final: what was discarded can never be sent. Stopping the operation spares what it has not reached.", "Não. Descartar é definitivo: o que foi descartado nunca mais pode ser enviado. Parar a operação poupa o que ela ainda não alcançou.")) }
            } @else {
                p { (lang.say("In part. Stopping it spares what it has not reached. A letter that was put on its way and still waits can be cancelled on its page; one that was sent is sent.", "Em parte. Parar poupa o que ela ainda não alcançou. Uma mensagem posta a caminho que ainda espera pode ser cancelada na página dela; a que foi enviada, foi.")) }
                p .row {
                    a href=(parts::with_query("/messages", waiting)) { (lang.say("What still waits", "O que ainda espera")) }
                    a href="/dead" { (lang.say("What is dead again", "O que morreu de novo")) }
                }
            }
        }
    } }
}

/// Ends it. What it did stays done.
pub(crate) async fn cancel(visit: Visit, _: Form) -> Result<Reply, Problem> {
    visit.act(Method::POST, CANCEL, visit.name(), &Value::Object(Default::default())).await?;
    let text = visit
        .lang()
        .say("It was stopped. What it did stays done.", "Foi parada. O que já foi feito continua feito.");
    Ok(Reply::done(format!("/operations/{}", encoded(visit.name())), text))
}
