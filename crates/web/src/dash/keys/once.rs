//! What is shown once: a key that was just made, and a link that lets somebody in.

use http::Method;
use maud::{Markup, html};
use pombo_kernel::time::Time;
use serde::Deserialize;
use serde_json::Value;

use super::{Key, href, list_href, may, pairs, wished};
use crate::auth::Role;
use crate::dash::form::Form;
use crate::dash::parts::{choice, copied, facts, field, form, query, time};
use crate::dash::sheet::Sheet;
use crate::dash::visit::{Reply, Visit};
use crate::dash::words::Lang;
use crate::problem::Problem;

#[derive(Deserialize)]
struct Rotated {
    #[serde(flatten)]
    made: Key,
    replaced: Key,
}

#[derive(Deserialize)]
struct Link {
    path: String,
    url: Option<String>,
    expires_at: Time,
}

/// The form by which a key is made.
pub(super) fn form_for_new(visit: &Visit, tenant: Option<&str>) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let roles: Vec<(String, String)> =
        Role::ALL.iter().map(|role| (role.as_str().to_owned(), lang.role(*role).to_owned())).collect();
    let meant: Vec<(&str, Markup)> =
        Role::ALL.iter().map(|role| (lang.role(*role), html! { (may(lang, role.as_str())) })).collect();
    let lives = [
        ("", lang.say("never", "nunca")),
        ("30d", lang.say("after 30 days", "em 30 dias")),
        ("90d", lang.say("after 90 days", "em 90 dias")),
        ("365d", lang.say("after a year", "em um ano")),
    ];
    let reveals = [
        ("", lang.say("as its role has it", "como o papel")),
        ("yes", lang.say("yes, on record", "sim, com registro")),
        ("no", lang.say("no", "não")),
    ];
    let worded = |all: &[(&str, &str)]| -> Vec<(String, String)> {
        all.iter().map(|(value, words)| ((*value).to_owned(), (*words).to_owned())).collect()
    };
    let whose = tenant.unwrap_or(visit.caller().tenant.as_str());
    let setup = visit.door().setup();
    let channels: Vec<&str> =
        setup.channels.values().filter(|it| it.tenant.as_str() == whose).map(|it| it.name.as_str()).collect();
    let back = list_href(tenant);
    html! {
        section .card aria-labelledby="new-title" {
            header { h2 #new-title { (lang.say("A new key", "Uma chave nova")) } }
            (form(look, "/keys", Some(&back), &html! {
                div .stack {
                    @if let Some(tenant) = tenant { input type="hidden" name="tenant" value=(tenant); }
                    div .filters {
                        (field(lang.say("What it is for", "Para que serve"), "label", "", None))
                        (choice(lang.say("Role", "Papel"), "role", &roles, "producer"))
                        (choice(lang.say("Ends", "Termina"), "expires_after", &worded(&lives), ""))
                        (choice(lang.say("May reveal persons", "Pode revelar pessoas"), "reveal", &worded(&reveals), ""))
                    }
                    @if channels.len() > 1 {
                        fieldset .ticks-list {
                            legend { (lang.say("Only for these channels (none ticked: all; an admin's key is for all)", "Só para estes canais (nenhum marcado: todos; a de um administrador é para todos)")) }
                            @for (place, name) in channels.iter().enumerate() {
                                @let id = format!("channel-{place}");
                                span { input id=(id) type="checkbox" name="channels" value=(name); label for=(id) { (name) } }
                            }
                        }
                    }
                    details .more { summary { (lang.say("What each role may do", "O que cada papel pode fazer")) } (facts(meant)) }
                    div .row { button .primary type="submit" { (lang.say("Make the key", "Criar a chave")) } }
                }
            }))
        }
    }
}

fn read<T: serde::de::DeserializeOwned>(document: Value) -> Result<T, Problem> {
    serde_json::from_value(document).map_err(|_| Problem::internal())
}

/// The key itself, with what it is good for.
fn shown(visit: &Visit, made: &Key, tenant: Option<&str>, more: &Markup) -> Sheet {
    let lang = visit.lang();
    let look = visit.look();
    let rows = vec![
        (lang.say("Id", "Id"), html! { code { (made.id) } }),
        (
            lang.say("Role", "Papel"),
            html! { (made.role_said(lang)) " " span .quiet { (may(lang, &made.role)) } },
        ),
        (lang.say("For", "Para"), super::scope(lang, made)),
        (
            lang.say("Ends", "Termina"),
            html! { @match made.expires_at { Some(at) => (time(look, at)), None => (lang.say("when it is revoked", "quando for revogada")) } },
        ),
    ];
    let html = html! {
        section .card.narrow aria-labelledby="made-title" {
            header { h2 #made-title { (made.name()) } }
            p { strong { (lang.say("Copy it now: it is shown this once, and nowhere kept.", "Copie agora: ela aparece só desta vez e não fica guardada.")) } }
            @if let Some(key) = &made.key { p .secret { (copied(key)) } }
            (more)
            (facts(rows))
            p .hint { (lang.say("Programs send it with every request as", "Programas a enviam em cada pedido como")) " " code { "Authorization: Bearer …" } }
            p .row {
                a .button.primary href=(list_href(tenant)) { (lang.say("I have it", "Já copiei")) }
                a href=(href(&made.id, tenant)) { (lang.say("Look at this key", "Ver esta chave")) }
            }
        }
    };
    Sheet::new(lang.say("New key", "Chave nova")).still(html)
}

/// Makes a key and shows it.
pub(crate) async fn create(visit: Visit, given: Form) -> Result<Reply, Problem> {
    let tenant = given.given("tenant");
    match visit.act(Method::POST, "/v1/keys", "", &wished(&given)).await {
        Err(problem) => Ok(visit.back_to(list_href(tenant), Err(problem))),
        Ok(document) => Ok(Reply::Sheet(shown(&visit, &read::<Key>(document)?, tenant, &html! {}))),
    }
}

/// Makes a key that takes another's place, and shows it.
pub(crate) async fn rotate(visit: Visit, given: Form) -> Result<Reply, Problem> {
    let (lang, look) = (visit.lang(), visit.look());
    let tenant = given.given("tenant");
    let body = given.document(&["overlap"]);
    let done =
        visit.act_at(Method::POST, "/v1/keys/{id}/rotate", visit.name(), &query(pairs(tenant)), &body).await;
    let rotated: Rotated = match done {
        Err(problem) => return Ok(visit.back_to(href(visit.name(), tenant), Err(problem))),
        Ok(document) => read(document)?,
    };
    let ends = html! {
        p { (lang.say("The key before it, ", "A chave anterior, ")) code { (rotated.replaced.id) } (lang.say(", ends ", ", termina em "))
            @match rotated.replaced.expires_at { Some(at) => (time(look, at)), None => (lang.say("when it is revoked", "quando for revogada")) } "." }
    };
    Ok(Reply::Sheet(shown(&visit, &rotated.made, tenant, &ends)))
}

/// Makes a link that lets somebody in, and shows it.
pub(crate) async fn link(visit: Visit, given: Form) -> Result<Reply, Problem> {
    let lang = visit.lang();
    let tenant = given.given("tenant");
    let here = href(visit.name(), tenant);
    let none = Value::Object(Default::default());
    let done =
        visit.act_at(Method::POST, "/v1/keys/{id}/link", visit.name(), &query(pairs(tenant)), &none).await;
    let link: Link = match done {
        Err(problem) => return Ok(visit.back_to(here, Err(problem))),
        Ok(document) => read(document)?,
    };
    Ok(Reply::Sheet(
        Sheet::new(lang.say("A link to log in with", "Um link para entrar"))
            .still(link_shown(&visit, lang, &link, &here)),
    ))
}

fn link_shown(visit: &Visit, lang: Lang, link: &Link, here: &str) -> Markup {
    html! {
        section .card.narrow {
            p { strong { (lang.say("Hand it to whom it is for: it lets in once, and is shown only now.", "Entregue a quem é para: deixa entrar uma vez, e só aparece agora.")) } }
            p .secret { (copied(link.url.as_ref().unwrap_or(&link.path))) }
            @if link.url.is_none() {
                p .hint { (lang.say("Put the address of this server in front of it; ", "Ponha o endereço deste servidor na frente; ")) code { "server.public_url" } (lang.say(" in the configuration makes it whole.", " na configuração o deixa completo.")) }
            }
            p .quiet { (lang.say("It ends ", "Termina em ")) (time(visit.look(), link.expires_at)) "." }
            p { a href=(here) { (lang.say("Back to the key", "Voltar à chave")) } }
        }
    }
}
