//! One campaign: how far it has come, what it waits for, and what can be done about it.

mod deeds;
mod listing;
mod making;
mod people;
mod preview;

use http::Method;
use maud::{Markup, html};
use pombo_kernel::time::Span;

pub(crate) use self::deeds::{cancel, pause, remove, resume, retry, schedule, start};
pub(crate) use self::listing::{import, list, upload};
pub(crate) use self::making::{change, create, edit, new};
pub(crate) use self::people::{people, report};
pub(crate) use self::preview::{preview, sample};
use super::campaigns::{Campaign, Counts, address, paused_by, share, state, waits_for};
use super::chart;
use super::messages::short;
use super::parts::{self, ago, asking_form, copied, encoded, facts, form, linked, time};
use super::sheet::Sheet;
use super::visit::{Look, Visit};
use super::words::Lang;
use crate::problem::Problem;

const SHOW: &str = "/v1/campaigns/{id}";

/// The campaign that the page is about.
async fn find(visit: &Visit) -> Result<Campaign, Problem> {
    visit.ask(SHOW, visit.name(), "").await
}

/// Whether whoever looks may work on campaigns.
fn may_act(visit: &Visit) -> bool {
    visit.may(&Method::PATCH, SHOW)
}

pub(crate) async fn page(visit: Visit) -> Result<Sheet, Problem> {
    let campaign = find(&visit).await?;
    let lang = visit.lang();
    let trouble = people::trouble(&visit, &campaign).await?;
    let beside = html! { code .quiet title=(campaign.id) { (short(&campaign.id)) } };
    let rest =
        html! { div .story { div { (trouble) (ways(lang, &campaign)) } div { (known(&visit, &campaign)) } } };
    let title = lang.say(format!("Campaign: {}", campaign.name), format!("Campanha: {}", campaign.name));
    let sheet = Sheet::new(title).beside(beside).live("standing", standing(&visit, &campaign));
    Ok(sheet.live("progress", progress(visit.look(), &campaign)).live("rest", rest))
}

/// Where it stands, why, and what can be done about it.
fn standing(visit: &Visit, campaign: &Campaign) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    html! {
        section .card aria-label=(lang.say("State", "Estado")) {
            div .row {
                (state(lang, campaign))
                @if campaign.in_flight { span { (lang.say("a message is being sent", "uma mensagem está sendo enviada")) } }
                @if let Some(reason) = &campaign.pause_reason { span { (paused_by(lang, reason)) } }
                @if let Some(at) = campaign.start_at { span { (lang.say("begins", "começa")) " " (ago(look, at)) } }
                @if let Some(at) = campaign.finished_at { span .quiet { (time(look, at)) } }
                @if may_act(visit) { div .beside { (buttons(look, campaign)) } }
            }
            @if let Some(note) = &campaign.pause_note { p { q { (note) } } }
            @if let Some(waiting) = &campaign.waiting {
                p .big {
                    (lang.say("It waits for ", "Espera ")) (waits_for(lang, &waiting.reason)) @if let Some(until) = waiting.until { " (" (ago(look, until)) ")" } "."
                }
                @if waiting.reason != "pace" { p .quiet { span lang="en" { (waiting.words) } } }
            }
            @if campaign.state == "draft" { (steps(lang, campaign)) }
        }
    }
}

/// What is still to be done before a draft begins.
fn steps(lang: Lang, campaign: &Campaign) -> Markup {
    let listed = campaign.counts.recipients > 0;
    let base = address(&campaign.id);
    let words = [
        (lang.say("Name, channel and template are there", "Nome, canal e modelo estão aí"), true),
        (lang.say("List whom it writes to", "Listar a quem ela escreve"), listed),
        (lang.say("Look at it, and start it", "Conferir e começar"), false),
    ];
    html! {
        ol .steps { @for (words, done) in words {
            li .done[done] { (parts::sign(if done { parts::Tone::Ok } else { parts::Tone::Quiet })) " " (words) @if done { span .unseen { " (" (lang.say("done", "feito")) ")" } } }
        } }
        p { a href=(format!("{base}/list")) { (lang.say("Add recipients from CSV", "Adicionar destinatários de um CSV")) }
            @if listed { " · " a href=(format!("{base}/preview")) { (lang.say("Look at what would be sent", "Conferir o que seria enviado")) } } }
    }
}

fn button(look: &Look, action: &str, back: &str, class: &str, words: &str) -> Markup {
    form(look, action, Some(back), &html! { button class=(class) type="submit" { (words) } })
}

/// What can be done to a campaign in its state.
fn buttons(look: &Look, campaign: &Campaign) -> Markup {
    let lang = look.lang;
    let base = address(&campaign.id);
    let to = |verb: &str| format!("{base}/{verb}");
    let cancelling = campaign.pause_reason.as_deref() == Some("cancelling");
    let begins = |words: &str| html! { a .button.primary href=(to("preview")) { (words) } };
    html! {
        @match campaign.state.as_str() {
            "draft" if campaign.counts.recipients == 0 => { a .button.primary href=(to("list")) { (lang.say("Add recipients", "Adicionar destinatários")) } },
            "draft" => (begins(lang.say("Preview and start", "Conferir e começar"))),
            "scheduled" => {
                (begins(lang.say("Preview and start", "Conferir e começar")))
                (button(look, &to("pause"), &base, "", lang.say("Pause", "Pausar")))
            },
            "running" => (button(look, &to("pause"), &base, "primary", lang.say("Pause", "Pausar"))),
            "paused" if !cancelling => (button(look, &to("resume"), &base, "primary", lang.say("Resume", "Retomar"))),
            _ => {},
        }
        @if campaign.counts.failed > 0 && ["running", "paused", "completed"].contains(&campaign.state.as_str()) && !cancelling {
            (asking_form(look, &to("retry"), Some(&base), lang.say("Write again to those who failed?", "Escrever de novo a quem falhou?"), &html! {
                button type="submit" name="failed" value="true" { (lang.say("Retry failed", "Tentar de novo as falhas")) }
            }))
        }
        @if !["completed", "cancelled"].contains(&campaign.state.as_str()) && !cancelling {
            (ending(look, campaign))
        }
    }
}

/// How it ends before its end: asked for twice, also where there is no script.
fn ending(look: &Look, campaign: &Campaign) -> Markup {
    let lang = look.lang;
    let base = address(&campaign.id);
    let (verb, summary, words, button) = match campaign.state.as_str() {
        "draft" => (
            "remove",
            lang.say("Remove…", "Remover…"),
            lang.say("The draft and its list are gone for good.", "O rascunho e a lista somem de vez."),
            lang.say("Remove the draft", "Remover o rascunho"),
        ),
        _ => (
            "cancel",
            lang.say("Cancel…", "Cancelar…"),
            lang.say(
                "Nobody else is written to, for good. What was sent stays sent.",
                "Ninguém mais recebe, de vez. O que foi enviado continua enviado.",
            ),
            lang.say("Cancel for good", "Cancelar de vez"),
        ),
    };
    html! {
        details .ask {
            summary { (summary) }
            div .asked {
                p { (words) }
                (form(look, &format!("{base}/{verb}"), Some(&base), &html! { button .danger type="submit" { (button) } }))
            }
        }
    }
}

/// How far it has come.
fn progress(look: &Look, campaign: &Campaign) -> Markup {
    let lang = look.lang;
    let Campaign { counts, limits, .. } = campaign;
    let done = share(counts.over(), counts.recipients);
    let span = |seconds: u64| match seconds {
        0 => "0 s".to_owned(),
        seconds => lang.span(Span::from_secs(seconds)),
    };
    html! {
        section .card aria-labelledby="progress-title" {
            header { h2 #progress-title { (lang.say("Progress", "Andamento")) } span .quiet { (lang.number(counts.over())) " " (lang.say("of", "de")) " " (lang.number(counts.recipients)) " · " (lang.percent(done)) } }
            (bar(lang, counts))
            (standings(lang, campaign))
            dl .figures {
                div { dt { (lang.say("Next send", "Próximo envio")) } dd {
                    @if campaign.in_flight { (lang.say("now", "agora")) } @else if let Some(at) = campaign.next_send_at { (ago(look, at)) } @else { (parts::none()) }
                } }
                div {
                    @match campaign.finished_at {
                        Some(at) => { dt { (lang.say("Ended", "Terminou")) } dd { (ago(look, at)) } },
                        None => { dt { (lang.say("Ends about", "Termina por volta de")) } dd { @match campaign.eta { Some(at) => (ago(look, at)), None => (parts::none()) } } },
                    }
                }
                div { dt { (lang.say("Rate", "Taxa")) } dd { @match campaign.rate_per_hour { Some(rate) => { (lang.decimal(rate, 0)) " " (lang.say("an hour", "por hora")) }, None => (parts::none()) } } }
                div { dt { (lang.say("Time taken", "Tempo usado")) } dd {
                    (span(limits.used_seconds)) " " (lang.say("of", "de")) " " (span(limits.estimated_seconds))
                    small { (lang.say("pauses itself after", "pausa sozinha após")) " " (span(limits.soft_seconds)) ", " (lang.say("cut off after", "é cortada após")) " " (span(limits.hard_seconds)) }
                } }
            }
        }
    }
}

/// Everybody on the list as one line: sent, failed, left out, on their way, and those who wait.
fn bar(lang: Lang, counts: &Counts) -> Markup {
    let parts = [
        ("ok", counts.sent),
        ("bad", counts.failed),
        ("off", counts.suppressed + counts.cancelled),
        ("wait", counts.queued),
    ];
    let label = lang.say(
        format!("{} of {} sent, {} failed", counts.sent, counts.recipients, counts.failed),
        format!("{} de {} enviadas, {} com falha", counts.sent, counts.recipients, counts.failed),
    );
    chart::stacked_bar(&label, &parts, counts.recipients)
}

/// How many stand where, each the way to those.
fn standings(lang: Lang, campaign: &Campaign) -> Markup {
    let counts = &campaign.counts;
    let all = [
        ("sent", "ok", lang.say("sent", "enviadas"), counts.sent),
        ("failed", "bad", lang.say("failed", "com falha"), counts.failed),
        ("queued", "wait", lang.say("on their way", "a caminho"), counts.queued),
        ("pending", "", lang.say("still to come", "ainda por vir"), counts.pending),
        ("suppressed", "off", lang.say("suppressed", "suprimidas"), counts.suppressed),
        ("cancelled", "off", lang.say("cancelled", "canceladas"), counts.cancelled),
        ("invalid", "off", lang.say("invalid lines", "linhas inválidas"), counts.invalid),
    ];
    html! {
        ul .standings {
            @for (state, class, words, count) in all { @if count > 0 || ["sent", "failed", "pending"].contains(&state) {
                li { a href=(format!("{}/recipients?state={state}", address(&campaign.id))) { strong { (lang.number(count)) } " " span class=(format!("key {class}")) { (words) } } }
            } }
            @if counts.duplicates > 0 { li { strong { (lang.number(counts.duplicates)) } " " (lang.say("repeated", "repetidas")) } }
        }
    }
}

/// Where to go on from here.
fn ways(lang: Lang, campaign: &Campaign) -> Markup {
    let base = address(&campaign.id);
    html! {
        section .card aria-labelledby="ways-title" {
            header { h2 #ways-title { (lang.say("Look closer", "Ver de perto")) } }
            ul .ways {
                li { a href=(format!("{base}/recipients")) { (lang.say("Recipients, and what became of each", "Destinatários, e o que houve com cada um")) } }
                li { a href=(format!("{base}/preview")) { (lang.say("Preview: what would be sent, and until when", "Prévia: o que seria enviado, e até quando")) } }
                li { a href=(format!("/messages?campaign={}", encoded(&campaign.id))) { (lang.say("Its messages", "As mensagens dela")) } }
                li { a href=(format!("{base}/report")) { (lang.say("Report as CSV", "Relatório em CSV")) } }
            }
        }
    }
}

/// `09:00-18:00 America/Sao_Paulo`, and the days where those are not all.
fn hours(lang: Lang, window: &pombo_kernel::window::Window) -> Markup {
    let days: Vec<&str> = making::days(lang)
        .into_iter()
        .filter(|(day, _)| window.days.iter().any(|it| it.to_string() == *day))
        .map(|(_, words)| words)
        .collect();
    html! {
        (window.hours) " " (window.time_zone)
        @if days.len() < 7 { small { (days.join(", ")) } }
        @if !window.holidays.is_empty() { small { (lang.say("but not on", "menos em")) " " (window.holidays.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")) } }
    }
}

/// What is known of it.
fn known(visit: &Visit, campaign: &Campaign) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let over = ["completed", "cancelled"].contains(&campaign.state.as_str());
    let pace = format!(
        "{} – {} s",
        lang.decimal(campaign.throttle_min_seconds, 0),
        lang.decimal(campaign.throttle_max_seconds, 0)
    );
    let mut rows = vec![
        (lang.say("Id", "Id"), copied(&campaign.id)),
        (
            lang.say("Channel", "Canal"),
            linked(
                "/channels/{name}",
                &format!("/channels/{}", encoded(&campaign.channel)),
                html! { (campaign.channel) },
            ),
        ),
        (
            lang.say("Template", "Modelo"),
            html! {
                (linked("/templates/{name}", &format!("/templates/{}?version={}", encoded(&campaign.template), campaign.template_version), html! { (campaign.template) }))
                " " span .quiet { (lang.say("version", "versão")) " " (campaign.template_version) }
            },
        ),
        (lang.say("Wait between sends", "Espera entre envios"), html! { (pace) }),
        (
            lang.say("Sending hours", "Horário de envio"),
            match &campaign.window {
                Some(window) => hours(lang, window),
                None => html! { (lang.say("always", "sempre")) },
            },
        ),
        (
            lang.say("Pauses itself", "Pausa sozinha"),
            match campaign.max_failure_rate {
                Some(rate) => {
                    html! { (lang.say("once", "quando")) " " (lang.percent(rate)) " " (lang.say("of the last sends failed", "dos últimos envios falharem")) }
                }
                None => html! { (lang.say("never", "nunca")) },
            },
        ),
        (lang.say("Weight", "Peso"), html! { (campaign.weight) }),
        (lang.say("Lane", "Fila"), html! { (campaign.lane) }),
    ];
    rows.extend(
        campaign
            .expires_after
            .map(|span| (lang.say("Expires after", "Expira após"), html! { (lang.span(span)) })),
    );
    rows.push((lang.say("Created", "Criada"), html! { (time(look, campaign.created_at)) " " span .quiet { (lang.say("by", "por")) " " (campaign.created_by) } }));
    rows.extend(campaign.started_at.map(|at| (lang.say("Started", "Iniciada"), time(look, at))));
    html! {
        section .card aria-labelledby="known-title" {
            header { h2 #known-title { (lang.say("Details", "Detalhes")) }
                @if may_act(visit) && !over { a href=(format!("{}/edit", address(&campaign.id))) { (lang.say("Change", "Alterar")) } } }
            (facts(rows))
            @if !campaign.payload.is_empty() {
                h3 { (lang.say("What the template says to everybody", "O que o modelo diz a todos")) }
                (parts::json(&serde_json::Value::Object(campaign.payload.clone())))
            }
        }
    }
}
