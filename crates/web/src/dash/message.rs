//! One message: its story in plain language, what it says, and everything that is on record of it.

mod said;
mod story;

use http::Method;
use maud::{Markup, html};
use pombo_kernel::time::{Span, Time};
use serde::Deserialize;
use serde_json::Value;

use self::said::content;
pub(crate) use self::said::preview;
use self::story::timeline;
use super::form::Form;
use super::messages::{delivery, meaning, short};
use super::overview::failure;
use super::parts::{self, asking_form, capital, copied, encoded, exists, facts, form, linked, time};
use super::sheet::Sheet;
use super::visit::{Reply, Visit};
use crate::problem::Problem;
use crate::veil::Veil;

/// Audit records that are shown at once.
const RECORDS: usize = 50;

/// So much of a message of the API as its page shows.
#[derive(Deserialize)]
pub(crate) struct Story {
    id: String,
    state: String,
    channel: String,
    lane: String,
    to: String,
    r#type: Option<String>,
    template: Option<String>,
    template_version: Option<u32>,
    payload: Option<Value>,
    content: Option<Value>,
    priority: u8,
    send_at: Option<Time>,
    expires_after: Option<Span>,
    reference: Option<String>,
    user_id: Option<String>,
    ordering_key: Option<String>,
    metadata: Value,
    failure_reason: Option<String>,
    attempt_count: u16,
    max_attempts: Option<u16>,
    last_error: Option<LastError>,
    provider_id: Option<String>,
    delivery: Option<String>,
    delivery_at: Option<Time>,
    delivery_detail: Option<String>,
    next_attempt_at: Option<Time>,
    prediction: Option<Prediction>,
    created_at: Time,
    finished_at: Option<Time>,
    campaign: Option<String>,
    attempts: Vec<Attempt>,
    #[serde(default)]
    deeds: Vec<Deed>,
    #[serde(default)]
    revisions: Vec<Revision>,
}

#[derive(Deserialize)]
struct Prediction {
    likely_by: Option<Time>,
    chance: Option<f64>,
    samples: u64,
}

#[derive(Deserialize)]
struct LastError {
    category: String,
}

#[derive(Deserialize)]
struct Attempt {
    round: u16,
    number: u16,
    started_at: Time,
    finished_at: Time,
    outcome: String,
    category: Option<String>,
    code: Option<String>,
    error: Option<String>,
    perhaps_sent: bool,
    explanation: String,
}

#[derive(Deserialize)]
struct Deed {
    at: Time,
    what: String,
    by: String,
    note: Option<String>,
}

#[derive(Deserialize)]
struct Revision {
    version: u32,
    replaced_at: Time,
    by: String,
    note: Option<String>,
}

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
    from: Option<String>,
    to: Option<String>,
    actor: String,
    detail: Value,
}

const SHOW: &str = "/v1/messages/{id}";
const LETTER: &str = "/v1/dead-letters/{id}";

/// The message; with what people did to it, for those who may know.
pub(crate) async fn find(visit: &Visit, query: &str) -> Result<Story, Problem> {
    let path = if visit.may(&Method::GET, LETTER) { LETTER } else { SHOW };
    visit.ask(path, visit.name(), query).await
}

pub(crate) async fn page(visit: Visit) -> Result<Sheet, Problem> {
    let story = find(&visit, "").await?;
    sheet(&visit, &story, Persons::AsUsual).await
}

/// The same with the persons whom the reader's role hides, once: it is on record, and not in the browser's history.
pub(crate) async fn reveal(visit: Visit, _: Form) -> Result<Reply, Problem> {
    let story = find(&visit, REVEALED).await?;
    sheet(&visit, &story, Persons::Revealed).await.map(Reply::Sheet)
}

/// How persons are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Persons {
    AsUsual,
    Revealed,
}

const REVEALED: &str = "reveal=true";

async fn sheet(visit: &Visit, story: &Story, persons: Persons) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let records: Option<Records> = match visit.may(&Method::GET, "/v1/audit") {
        false => None,
        true => Some(visit.ask("/v1/audit", "", &format!("limit={RECORDS}&message={}", story.id)).await?),
    };
    let title = lang.say(format!("Message to {}", story.to), format!("Mensagem para {}", story.to));
    let hidden =
        persons == Persons::AsUsual && Veil::of(visit.caller(), &visit.door().setup()) == Veil::Drawn;
    let base = format!("/messages/{}", encoded(&story.id));
    let beside = html! {
        @if hidden && visit.caller().reveal {
            (asking_form(visit.look(), &format!("{base}/reveal"), Some(&base), lang.say("Show whom this message is for and what it says? This is put on record.", "Mostrar para quem é esta mensagem e o que ela diz? Isto fica registrado."), &html! { button type="submit" { (lang.say("Reveal personal data", "Revelar dados pessoais")) } }))
        }
        code .quiet title=(story.id) { (short(&story.id)) }
    };
    let said = content(visit, story, persons).await;
    let whole = html! { div .story {
        div { (timeline(visit, story)) (said) }
        div { (known(visit, story)) @if let Some(records) = &records { (audit(visit, story, records)) } }
    } };
    let sheet = Sheet::new(title).beside(beside);
    Ok(match persons {
        Persons::AsUsual => sheet.live("standing", standing(visit, story)).live("story", whole),
        // What comes over the stream is as usual, and would hide them again.
        Persons::Revealed => sheet.still(standing(visit, story)).still(whole),
    })
}

/// Where it stands, why, and what can be done about it.
fn standing(visit: &Visit, story: &Story) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let base = format!("/messages/{}", encoded(&story.id));
    let waits = story.state == "pending";
    let dead = story.state == "failed";
    let why = story
        .last_error
        .as_ref()
        .filter(|_| story.state != "sent")
        .map(|error| meaning(visit, &story.channel, &error.category));
    html! {
        section .card aria-label=(lang.say("State", "Estado")) {
            div .row {
                (parts::state(lang, &story.state))
                @if let Some(reason) = &story.failure_reason { span { (failure(lang, reason)) } }
                @if let Some(report) = &story.delivery { (delivery(lang, report)) }
                @if let Some(next) = story.next_attempt_at { span { (lang.say("next try", "próxima tentativa")) " " (parts::ago(look, next)) } }
                @if let Some(at) = story.finished_at { span .quiet { (time(look, at)) } }
                div .beside {
                    @if waits && visit.may(&Method::POST, "/v1/messages/{id}/retry") {
                        (form(look, &format!("{base}/retry"), Some(&base), &html! { button type="submit" { (lang.say("Send now", "Enviar agora")) } }))
                    }
                    @if dead && visit.may(&Method::POST, "/v1/messages/{id}/retry") {
                        (asking_form(look, &format!("{base}/retry"), Some(&base), lang.say("Send this message again?", "Enviar esta mensagem de novo?"), &html! { button .primary type="submit" { (lang.say("Send again", "Enviar de novo")) } }))
                    }
                    @if dead && exists("/dead/letter/{id}") && visit.may(&Method::PATCH, LETTER) {
                        a .button href=(format!("/dead/letter/{}", encoded(&story.id))) { (lang.say("Correct and resubmit", "Corrigir e reenviar")) }
                    }
                    @if waits && visit.may(&Method::POST, "/v1/messages/{id}/cancel") {
                        (asking_form(look, &format!("{base}/cancel"), Some(&base), lang.say("Cancel this message? It will not be sent.", "Cancelar esta mensagem? Ela não será enviada."), &html! { button .danger type="submit" { (lang.say("Cancel", "Cancelar")) } }))
                    }
                }
            }
            @if let Some(why) = why { p .big { (capital(&why)) "." } }
        }
    }
}

/// What is known of it.
fn known(visit: &Visit, story: &Story) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let text = |text: &Option<String>| text.as_ref().map(|text| html! { (text) });
    let search = |name: &str, value: &str| format!("/messages?{name}={}", encoded(value));
    let rows = [
        (lang.say("Id", "Id"), Some(copied(&story.id))),
        (lang.say("Channel", "Canal"), Some(linked("/channels/{name}", &format!("/channels/{}", encoded(&story.channel)), html! { (story.channel) }))),
        (lang.say("Lane", "Fila"), Some(html! { (story.lane) })),
        (lang.say("Reference", "Referência"), story.reference.as_ref().map(|it| html! { a href=(search("reference", it)) { (it) } })),
        (lang.say("Template", "Modelo"), story.template.as_ref().map(|it| html! {
            (linked("/templates/{name}", &format!("/templates/{}", encoded(it)), html! { (it) }))
            @if let Some(version) = story.template_version { " " span .quiet { (lang.say("version", "versão")) " " (version) } }
        })),
        (lang.say("Campaign", "Campanha"), story.campaign.as_ref().map(|it| linked("/campaigns/{id}", &format!("/campaigns/{}", encoded(it)), html! { (it) }))),
        (lang.say("Type", "Tipo"), text(&story.r#type)),
        (lang.say("User", "Usuário"), text(&story.user_id)),
        (lang.say("Ordering key", "Chave de ordem"), text(&story.ordering_key)),
        (lang.say("Attempts", "Tentativas"), Some(html! { (story.attempt_count) @if let Some(most) = story.max_attempts { " " (lang.say("of", "de")) " " (most) } })),
        (lang.say("Priority", "Prioridade"), Some(html! { (story.priority) })),
        (lang.say("Accepted", "Aceita"), Some(time(look, story.created_at))),
        (lang.say("Not before", "Não antes de"), story.send_at.map(|at| time(look, at))),
        (lang.say("Expires after", "Expira após"), story.expires_after.map(|span| html! { (lang.span(span)) })),
        (lang.say("Provider's id", "Id no provedor"), story.provider_id.as_ref().map(|it| copied(it))),
    ];
    let rows = rows.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    html! {
        section .card aria-labelledby="known-title" {
            header { h2 #known-title { (lang.say("Details", "Detalhes")) } }
            (facts(rows))
            @if story.metadata.as_object().is_some_and(|it| !it.is_empty()) {
                h3 { (lang.say("Metadata", "Metadados")) }
                (parts::json(&story.metadata))
            }
        }
    }
}

/// What the audit has of it, the newest first.
fn audit(visit: &Visit, story: &Story, records: &Records) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let title = lang.say("Audit", "Auditoria");
    let rows: Vec<Markup> = records.items.iter().map(|record| html! { tr {
        td .num { (record.position) }
        th scope="row" {
            (super::audit::event::said(lang, &record.event))
            @if let (Some(from), Some(to)) = (&record.from, &record.to) { small { (from) " → " (to) } }
            @if record.detail.as_object().is_some_and(|it| !it.is_empty()) {
                details .numbers { summary { (lang.say("detail", "detalhe")) } (parts::json(&record.detail)) }
            }
        }
        td { (record.actor) small { (time(look, record.at)) } }
    } }).collect();
    html! {
        section .card aria-labelledby="audit-title" {
            header { h2 #audit-title { (title) } }
            (parts::table(title, &["#Nº", lang.say("Event", "Evento"), lang.say("By", "Por")], &rows))
            @if records.next_cursor.is_some() {
                (linked("/audit", &format!("/audit?message={}", encoded(&story.id)), html! { (lang.say("All records", "Todos os registros")) }))
            }
        }
    }
}

/// Cancels it, if it still waits.
pub(crate) async fn cancel(visit: Visit, _: Form) -> Result<Reply, Problem> {
    visit.act(Method::POST, "/v1/messages/{id}/cancel", visit.name(), &Value::Null).await?;
    let lang = visit.lang();
    Ok(Reply::done(back(&visit), lang.say("The message was cancelled.", "A mensagem foi cancelada.")))
}

/// Has it tried now: one that waits goes at once, one that is dead begins anew.
pub(crate) async fn retry(visit: Visit, _: Form) -> Result<Reply, Problem> {
    visit
        .act(Method::POST, "/v1/messages/{id}/retry", visit.name(), &Value::Object(Default::default()))
        .await?;
    let lang = visit.lang();
    Ok(Reply::done(back(&visit), lang.say("The message is on its way.", "A mensagem está a caminho.")))
}

fn back(visit: &Visit) -> String {
    format!("/messages/{}", encoded(visit.name()))
}
