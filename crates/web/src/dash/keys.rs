//! Keys: who may come in, and how far. A key itself is shown when it is made, and never again.

mod once;

use std::collections::BTreeSet;

use http::Method;
use maud::{Markup, html};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::Time;
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) use self::once::{create, link, rotate};
use super::form::Form;
use super::parts::{
    Tone, ago, asking_form, badge, encoded, facts, form, none, pager, query, table, time, with_query,
};
use super::session::Flash;
use super::sheet::Sheet;
use super::visit::{Reply, Visit};
use super::words::Lang;
use crate::auth::Role;
use crate::problem::Problem;

const ONE: &str = "/v1/keys/{id}";

/// So much of a key of the API as is shown.
#[derive(Deserialize)]
struct Key {
    id: String,
    tenant: String,
    role: String,
    label: String,
    channels: Option<Vec<String>>,
    reveal: bool,
    state: String,
    created_at: Time,
    created_by: String,
    expires_at: Option<Time>,
    revoked_at: Option<Time>,
    revoked_by: Option<String>,
    last_used_at: Option<Time>,
    replaces: Option<String>,
    replaced_by: Option<String>,
    /// The key itself, where it was made just now.
    key: Option<String>,
}

#[derive(Deserialize)]
struct Keys {
    items: Vec<Key>,
    next_cursor: Option<String>,
}

impl Key {
    fn name(&self) -> &str {
        if self.label.is_empty() { &self.id } else { &self.label }
    }

    fn is_active(&self) -> bool {
        self.state == "active"
    }

    fn role_said(&self, lang: Lang) -> String {
        self.role.parse::<Role>().map_or_else(|_| self.role.clone(), |role| lang.role(role).to_owned())
    }
}

/// Whose keys are meant, where that is not the reader's own tenant.
fn tenant(visit: &Visit) -> Option<String> {
    visit.asked("tenant").filter(|asked| *asked != visit.caller().tenant.as_str())
}

fn pairs(tenant: Option<&str>) -> Vec<(String, String)> {
    tenant.iter().map(|tenant| ("tenant".to_owned(), (*tenant).to_owned())).collect()
}

fn list_href(tenant: Option<&str>) -> String {
    with_query("/keys", pairs(tenant))
}

fn href(id: &str, tenant: Option<&str>) -> String {
    with_query(&format!("/keys/{}", encoded(id)), pairs(tenant))
}

/// Every tenant that there are channels of, for whoever may see to all of them.
fn tenants(visit: &Visit) -> BTreeSet<Tenant> {
    let own = visit.caller().tenant.clone();
    match visit.caller().may_keep_house() {
        Ok(()) => visit.door().setup().channels.values().map(|it| it.tenant.clone()).chain([own]).collect(),
        Err(_) => [own].into(),
    }
}

fn state(lang: Lang, key: &Key) -> Markup {
    match key.state.as_str() {
        "active" if key.replaced_by.is_some() => {
            badge(Tone::Wait, lang.say("being replaced", "sendo trocada"))
        }
        "active" => badge(Tone::Ok, lang.say("works", "funciona")),
        "expired" => badge(Tone::Quiet, lang.say("expired", "expirou")),
        "revoked" => badge(Tone::Bad, lang.say("revoked", "revogada")),
        other => badge(Tone::Quiet, other),
    }
}

fn scope(lang: Lang, key: &Key) -> Markup {
    html! { @match &key.channels {
        None => (lang.say("all channels", "todos os canais")),
        Some(channels) => (channels.join(", ")),
    } }
}

/// The keys, the newest first, and a form for another one.
pub(crate) async fn list(visit: Visit) -> Result<Sheet, Problem> {
    let (lang, look) = (visit.lang(), visit.look());
    let tenant = tenant(&visit);
    let mut asked = pairs(tenant.as_deref());
    asked.extend(visit.asked("cursor").map(|cursor| ("cursor".to_owned(), cursor)));
    let keys: Keys = visit.ask("/v1/keys", "", &query(asked.clone())).await?;
    let title = lang.say("Keys", "Chaves");
    let columns = [
        lang.say("Key", "Chave"),
        lang.say("Role", "Papel"),
        lang.say("State", "Estado"),
        lang.say("For", "Para"),
        lang.say("Reveals", "Revela"),
        lang.say("Last used", "Usada por último"),
        lang.say("Ends", "Termina"),
    ];
    let rows: Vec<Markup> = keys.items.iter().map(|key| html! { tr {
        th scope="row" { a href=(href(&key.id, tenant.as_deref())) { (key.name()) } small { code { (key.id) } @if key.id == visit.caller().key_id { " · " (lang.say("yours", "a sua")) } } }
        td { (key.role_said(lang)) }
        td { (state(lang, key)) }
        td { (scope(lang, key)) }
        td { (yes_or_no(lang, key.reveal)) }
        td { @match key.last_used_at { Some(at) => (ago(look, at)), None => (lang.say("never", "nunca")) } }
        td { @match key.expires_at { Some(at) => (ago(look, at)), None => (none()) } }
    } }).collect();
    let html = html! {
        (choose_tenant(&visit, tenant.as_deref()))
        section .card { (table(title, &columns, &rows)) }
        (pager(lang, "/keys", &asked, keys.next_cursor.as_deref()))
        (once::form_for_new(&visit, tenant.as_deref()))
    };
    Ok(Sheet::new(title).still(html))
}

fn yes_or_no(lang: Lang, yes: bool) -> &'static str {
    if yes { lang.say("yes", "sim") } else { lang.say("no", "não") }
}

fn choose_tenant(visit: &Visit, chosen: Option<&str>) -> Markup {
    let (lang, all) = (visit.lang(), tenants(visit));
    let own = visit.caller().tenant.as_str();
    let chosen = chosen.unwrap_or(own);
    html! { @if all.len() > 1 {
        div .pick role="group" aria-label=(lang.say("Tenant", "Inquilino")) {
            @for tenant in &all {
                @let name = tenant.as_str();
                a .button href=(list_href(Some(name).filter(|name| *name != own))) aria-current=[(name == chosen).then_some("true")] { (name) }
            }
        }
    } }
}

/// One key.
pub(crate) async fn page(visit: Visit) -> Result<Sheet, Problem> {
    let lang = visit.lang();
    let tenant = tenant(&visit);
    let key: Key = visit.ask(ONE, visit.name(), &query(pairs(tenant.as_deref()))).await?;
    let name = key.name().to_owned();
    let sheet = Sheet::new(lang.say(format!("Key {name}"), format!("Chave {name}")))
        .beside(state(lang, &key))
        .still(html! { div .two { (known(&visit, &key, tenant.as_deref())) div .stack { (deeds(&visit, &key, tenant.as_deref())) } } });
    Ok(sheet)
}

fn known(visit: &Visit, key: &Key, tenant: Option<&str>) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let other = |id: &String| html! { a href=(href(id, tenant)) { code { (id) } } };
    let rows = [
        (lang.say("Id", "Id"), Some(html! { code { (key.id) } @if key.id == visit.caller().key_id { " " span .quiet { (lang.say("you are logged in with it", "você entrou com ela")) } } })),
        (lang.say("Tenant", "Inquilino"), Some(html! { (key.tenant) })),
        (lang.say("Role", "Papel"), Some(html! { (key.role_said(lang)) " " span .quiet { (may(lang, &key.role)) } })),
        (lang.say("For", "Para"), Some(scope(lang, key))),
        (lang.say("Reveals persons", "Revela pessoas"), Some(html! { (yes_or_no(lang, key.reveal)) })),
        (lang.say("Made", "Criada"), Some(html! { (time(look, key.created_at)) @if !key.created_by.is_empty() { " " (lang.say("by", "por")) " " (key.created_by) } })),
        (lang.say("Last used", "Usada por último"), Some(html! { @match key.last_used_at { Some(at) => (ago(look, at)), None => (lang.say("never", "nunca")) } })),
        (lang.say("Ends", "Termina"), Some(html! { @match key.expires_at { Some(at) => (time(look, at)), None => (lang.say("when it is revoked", "quando for revogada")) } })),
        (lang.say("Revoked", "Revogada"), key.revoked_at.map(|at| html! { (time(look, at)) @if let Some(by) = &key.revoked_by { " " (lang.say("by", "por")) " " (by) } })),
        (lang.say("Takes the place of", "No lugar de"), key.replaces.as_ref().map(other)),
        (lang.say("Replaced by", "Trocada por"), key.replaced_by.as_ref().map(other)),
    ];
    let rows = rows.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    html! {
        section .card aria-labelledby="known-title" {
            header { h2 #known-title { (lang.say("Details", "Detalhes")) } }
            (facts(rows))
            p .row {
                a href=(list_href(tenant)) { (lang.say("All keys", "Todas as chaves")) }
                a href=(format!("/audit?actor={}", encoded(&key.id))) { (lang.say("What was done with it", "O que foi feito com ela")) }
            }
        }
    }
}

/// What somebody with that role may do, in a few words.
fn may(lang: Lang, role: &str) -> &'static str {
    match role {
        "producer" => {
            lang.say("hands messages in and follows its own", "entrega mensagens e acompanha as suas")
        }
        "viewer" => lang.say("looks, and changes nothing", "olha e não muda nada"),
        "operator" => lang
            .say("works on messages, campaigns and channels", "trabalha com mensagens, campanhas e canais"),
        "admin" => lang.say("does everything, also with keys", "faz tudo, também com chaves"),
        _ => "",
    }
}

/// What can be done about a key that still works.
fn deeds(visit: &Visit, key: &Key, tenant: Option<&str>) -> Markup {
    let (lang, look) = (visit.lang(), visit.look());
    let here = href(&key.id, tenant);
    let base = format!("/keys/{}", encoded(&key.id));
    let hidden =
        html! { @if let Some(tenant) = tenant { input type="hidden" name="tenant" value=(tenant); } };
    if !key.is_active() {
        return html! { section .card { p .quiet { (lang.say("This key has ended: nothing can be done with it or about it.", "Esta chave terminou: nada pode ser feito com ela.")) } } };
    }
    let overlaps = [
        ("24h", "24 h"),
        ("0s", lang.say("none: the old one ends now", "nenhuma: a antiga termina agora")),
        ("1h", "1 h"),
        ("7d", "7 d"),
        ("30d", "30 d"),
    ];
    let own = key.id == visit.caller().key_id;
    html! {
        section .card aria-labelledby="link-title" {
            header { h2 #link-title { (lang.say("A link to log in with", "Um link para entrar")) } }
            p .quiet { (lang.say("Lets whoever opens it first into the dashboard in the name of this key, once, within ten minutes. They never see the key.", "Deixa quem o abrir primeiro entrar no painel em nome desta chave, uma vez, em até dez minutos. A pessoa nunca vê a chave.")) }
            (form(look, &format!("{base}/link"), Some(&here), &html! { (hidden) button type="submit" { (lang.say("Make a link", "Criar um link")) } }))
        }
        @if key.replaced_by.is_none() {
            section .card aria-labelledby="rotate-title" {
                header { h2 #rotate-title { (lang.say("Rotate it", "Trocar")) } }
                p .quiet { (lang.say("Makes a new key with the same rights. Both work for a while, so that nothing stops while you put the new one in place.", "Cria uma chave nova com os mesmos direitos. As duas funcionam por um tempo, para nada parar enquanto você põe a nova no lugar.")) }
                (form(look, &format!("{base}/rotate"), Some(&here), &html! { (hidden) div .filters {
                    div .field {
                        label for="rotate-overlap" { (lang.say("Both work for", "As duas funcionam por")) }
                        select #rotate-overlap name="overlap" { @for (value, words) in overlaps { option value=(value) { (words) } } }
                    }
                    div .row { button type="submit" { (lang.say("Rotate", "Trocar")) } }
                } }))
            }
        }
        section .card aria-labelledby="revoke-title" {
            header { h2 #revoke-title { (lang.say("Revoke it", "Revogar")) } }
            p .quiet { (lang.say("Ends the key at once and for good, with everybody who is logged in by it.", "Encerra a chave na hora e para sempre, com todos que entraram por ela.")) @if own { " " strong { (lang.say("You are one of them.", "Você é um deles.")) } } }
            (asking_form(look, &format!("{base}/revoke"), Some(&here), lang.say("Revoke this key for good?", "Revogar esta chave para sempre?"), &html! {
                (hidden)
                div .row {
                    input #revoke-sure type="checkbox" name="sure" value="yes" required;
                    label for="revoke-sure" { (lang.say("I am sure: whatever uses this key stops.", "Tenho certeza: o que usa esta chave para.")) }
                    button .danger type="submit" { (lang.say("Revoke", "Revogar")) }
                }
            }))
        }
    }
}

/// Ends a key, if whoever asks says that they are sure.
pub(crate) async fn revoke(visit: Visit, given: Form) -> Result<Reply, Problem> {
    let lang = visit.lang();
    let tenant = given.given("tenant");
    let here = href(visit.name(), tenant);
    if given.get("sure") != "yes" {
        let text = lang
            .say("Nothing was done: say that you are sure.", "Nada foi feito: diga que tem certeza.")
            .to_owned();
        return Ok(Reply::To(here, Some(Flash { good: false, text })));
    }
    let done = visit.through(Method::DELETE, ONE, visit.name(), &query(pairs(tenant)), None).await;
    Ok(visit.back_to(here, done.map(|_| lang.say("The key is revoked.", "A chave foi revogada.").to_owned())))
}

/// What was filled in about a key that is wished for.
fn wished(given: &Form) -> Value {
    let mut body = given.document(&["role", "label", "expires_after", "tenant"]);
    let channels: Vec<&str> = given.all("channels").collect();
    if !channels.is_empty() {
        body["channels"] = json!(channels);
    }
    match given.get("reveal") {
        "yes" => body["reveal"] = json!(true),
        "no" => body["reveal"] = json!(false),
        _ => {}
    }
    body
}
