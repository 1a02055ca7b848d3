//! Templates: what there is, and the way to a new one.

use http::Method;
use maud::{Markup, html};
use pombo_kernel::name::TemplateName;
use pombo_kernel::time::Time;
use serde::Deserialize;
use serde_json::Value;

use super::form::Form;
use super::parts::{Tone, ago, badge, empty, encoded, query, table, with_query};
use super::sheet::Sheet;
use super::template;
use super::visit::{Look, Visit};
use super::words::Lang;
use crate::problem::Problem;

/// So much of a version as a list shows.
#[derive(Deserialize)]
pub(crate) struct Head {
    pub(crate) name: String,
    pub(crate) version: u32,
    pub(crate) parts: Vec<String>,
    pub(crate) created_at: Time,
    pub(crate) created_by: String,
}

#[derive(Deserialize)]
pub(crate) struct Heads {
    pub(crate) items: Vec<Head>,
    pub(crate) next_cursor: Option<String>,
}

/// The name of a part, for people.
pub(crate) fn part(lang: Lang, name: &str) -> &str {
    match name {
        "subject" => lang.say("Subject", "Assunto"),
        "text" => lang.say("Text", "Texto"),
        "html" => "HTML",
        "whatsapp" => "WhatsApp",
        other => other,
    }
}

/// Where a template's page is.
pub(crate) fn address(name: &str) -> String {
    format!("/templates/{}", encoded(name))
}

pub(crate) async fn list(visit: Visit) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let may = visit.may(&Method::PUT, template::SHOW);
    let new = visit.asked("new").filter(|_| may);
    if let Some(name) = new.as_deref().filter(|name| name.parse::<TemplateName>().is_ok()) {
        return begun(&visit, name).await;
    }
    let asked: Vec<_> = visit.query().into_iter().filter(|(name, _)| name == "cursor").collect();
    let found: Heads = visit.ask("/v1/templates", "", &query(asked.clone())).await?;
    let rows: Vec<Markup> = found.items.iter().map(|head| row(visit.look(), head)).collect();
    let title = lang.say("Templates", "Modelos");
    let columns = [
        lang.say("Template", "Modelo"),
        lang.say("#Version", "#Versão"),
        lang.say("Parts", "Partes"),
        lang.say("Saved", "Gravado"),
        lang.say("By", "Por"),
    ];
    let html = html! {
        section .card {
            @if rows.is_empty() { (nothing(lang)) } @else { (table(title, &columns, &rows)) }
        }
        @if !asked.is_empty() || found.next_cursor.is_some() {
            nav .pager aria-label=(lang.say("Pages of the list", "Páginas da lista")) {
                @if !asked.is_empty() { a href="/templates" { (lang.say("← First", "← Primeiros")) } }
                @if let Some(next) = found.next_cursor { a rel="next" href=(with_query("/templates", [("cursor".to_owned(), next)])) { (lang.say("Next →", "Próximos →")) } }
            }
        }
    };
    let sheet = Sheet::new(title);
    Ok(if may { sheet.still(naming(lang, new.as_deref())) } else { sheet }.still(html))
}

/// Where a new one gets its name.
fn naming(lang: Lang, bad: Option<&str>) -> Markup {
    html! {
        form .card method="get" action="/templates" {
            div .row.naming {
                div .field {
                    label for="f-new" { (lang.say("A new template, called", "Um novo modelo, chamado")) }
                    input id="f-new" name="new" value=(bad.unwrap_or_default()) required autocomplete="off" spellcheck="false" placeholder="boas-vindas" aria-describedby="new-hint" aria-invalid=[bad.map(|_| "true")];
                }
                button .primary type="submit" { (lang.say("Write it", "Escrever")) }
            }
            @if bad.is_some() { div .wrong role="alert" { p { (lang.say("This cannot be its name.", "Este não pode ser o nome.")) } } }
            p .hint #new-hint { (lang.say("Up to 64 small letters, digits, - and _.", "Até 64 letras minúsculas, dígitos, - e _.")) }
        }
    }
}

/// An empty page for one that is not there yet.
async fn begun(visit: &Visit, name: &str) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    if visit.ask::<Value>(template::SHOW, name, "").await.is_ok() {
        let sheet = Sheet::new(lang.say(format!("New template: {name}"), format!("Novo modelo: {name}")));
        return Ok(sheet.still(html! { section .card.narrow {
            p { (lang.say("There is a template of this name already.", "Já existe um modelo com este nome.")) }
            p { a href=(address(name)) { (lang.say("Open it", "Abrir")) } }
        } }));
    }
    template::editing(visit, name, &Form::default(), None).await
}

fn nothing(lang: Lang) -> Markup {
    empty(
        lang.say("No templates yet", "Ainda não há modelos"),
        lang.say(
            "A template says what many messages say, with gaps such as {{ nome }} that are filled for each person. Every change is a new version; messages keep the one that they were accepted with.",
            "Um modelo diz o que muitas mensagens dizem, com lacunas como {{ nome }} preenchidas para cada pessoa. Cada mudança é uma nova versão; as mensagens mantêm aquela com que foram aceitas.",
        ),
        Some("pombo templates put boas-vindas --subject 'Olá, {{ nome }}' --text 'Que bom ter você aqui.'"),
    )
}

fn row(look: &Look, head: &Head) -> Markup {
    let lang = look.lang;
    html! { tr {
        th scope="row" { a href=(address(&head.name)) { (head.name) } }
        td .num { (head.version) }
        td { div .row { @for name in &head.parts { (badge(Tone::Quiet, part(lang, name))) } } }
        td { (ago(look, head.created_at)) }
        td { (head.created_by) }
    } }
}
