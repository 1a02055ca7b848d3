//! What every page stands in: navigation, who is there, and what is told once.

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::PAGES;
use super::assets::{ICON, SCRIPT, STYLE};
use super::parts::{self, icon};
use super::session::{Flash, Theme};
use super::sheet::Sheet;
use super::visit::Visit;
use super::words::Lang;
use crate::problem::{Code, Problem};

/// A place in the navigation.
pub(crate) struct Nav {
    pub(crate) icon: &'static str,
    pub(crate) en: &'static str,
    pub(crate) pt: &'static str,
}

fn answer(status: StatusCode, html: Markup) -> Response {
    let mut response = Response::new(Body::from(html.into_string()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn document(lang: Lang, theme: Option<Theme>, title: &str, body: &Markup) -> Markup {
    let theme = theme.map(|theme| match theme {
        Theme::Light => "light",
        Theme::Dark => "dark",
    });
    html! {
        (DOCTYPE)
        html lang=(lang.tag()) data-theme=[theme] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                title { (title) " · Pombo" }
                link rel="icon" href=(ICON.path()) type="image/svg+xml";
                link rel="stylesheet" href=(STYLE.path());
                script type="module" src=(SCRIPT.path()) {}
            }
            (body)
        }
    }
}

fn brand() -> Markup {
    html! { a .brand href="/" { img src=(ICON.path()) alt="" width="24" height="24"; "Pombo" } }
}

/// A page in its frame.
pub(crate) fn whole(visit: &Visit, sheet: &Sheet, flash: Option<&Flash>) -> Response {
    let lang = visit.lang();
    let live = sheet.is_live().then(|| visit.here());
    let body = html! {
        body {
            a .skip href="#main" { (lang.say("Skip to the content", "Ir para o conteúdo")) }
            header .bar {
                (brand())
                details .menu {
                    summary { (icon("menu")) span { (lang.say("Menu", "Menu")) } }
                    div .sheet { (navigation(visit)) (person(visit)) }
                }
            }
            aside .side aria-label="Pombo" { (brand()) (navigation(visit)) (person(visit)) }
            main #main tabindex="-1" data-live=[live] {
                div .head {
                    h1 { (sheet.title) }
                    @if sheet.is_live() {
                        span .pulse hidden title=(lang.say("This page keeps itself up to date", "Esta página se atualiza sozinha")) { (lang.say("live", "ao vivo")) }
                    }
                    @if let Some(beside) = &sheet.beside { div .beside { (beside) } }
                }
                @if let Some(flash) = flash { (told(flash)) }
                @for part in &sheet.parts { (part) }
            }
        }
    };
    let status = sheet.status.unwrap_or(StatusCode::OK);
    answer(status, document(lang, visit.theme(), &sheet.title, &body))
}

fn told(flash: &Flash) -> Markup {
    let (class, role) = if flash.good { ("flash good", "status") } else { ("flash bad", "alert") };
    html! { p class=(class) role=(role) { (flash.text) } }
}

fn navigation(visit: &Visit) -> Markup {
    let (lang, role, here) = (visit.lang(), visit.caller().role, visit.path());
    let listed = PAGES.iter().filter_map(|page| Some((page, page.nav.as_ref()?)));
    let seen = listed.filter(|(page, _)| page.access().is_some_and(|access| access.allows(role)));
    html! {
        nav aria-label=(lang.say("Pages", "Páginas")) {
            ul { @for (page, nav) in seen {
                @let current = here == page.path || page.path != "/" && here.strip_prefix(page.path).is_some_and(|rest| rest.starts_with('/'));
                li { a href=(page.path) aria-current=[current.then_some("page")] { (icon(nav.icon)) (lang.say(nav.en, nav.pt)) } }
            } }
        }
    }
}

/// Who is there, and how they like it.
fn person(visit: &Visit) -> Markup {
    let (lang, look, caller) = (visit.lang(), visit.look(), visit.caller());
    let label = if caller.label.is_empty() { caller.key_id.as_str() } else { caller.label.as_str() };
    let theme = match visit.theme() {
        None => "auto",
        Some(Theme::Light) => "light",
        Some(Theme::Dark) => "dark",
    };
    let themes = [
        ("auto", lang.say("Auto", "Auto")),
        ("light", lang.say("Light", "Claro")),
        ("dark", lang.say("Dark", "Escuro")),
    ];
    let back = (visit.head().method == http::Method::GET).then(|| visit.here());
    html! {
        div .person {
            p .who { strong { (label) } " " span .quiet { (lang.role(caller.role)) } }
            (parts::form(look, "/preferences", back, &html! {
                fieldset .choice {
                    legend { (lang.say("Language", "Idioma")) }
                    @for other in Lang::ALL {
                        button name="lang" value=(other.tag()) lang=(other.tag()) aria-pressed=(other == lang) { (other.name()) }
                    }
                }
                fieldset .choice {
                    legend { (lang.say("Appearance", "Aparência")) }
                    @for (value, words) in themes {
                        button name="theme" value=(value) aria-pressed=(theme == value) { (words) }
                    }
                }
            }))
            (parts::form(look, "/logout", None, &html! {
                button .plain type="submit" { (lang.say("Log out", "Sair")) }
            }))
        }
    }
}

/// What is wrong, in the frame of somebody who is logged in.
pub(crate) fn problem(visit: &Visit, problem: &Problem, flash: Option<&Flash>) -> Response {
    let lang = visit.lang();
    let sheet = Sheet { status: Some(problem.code.status()), ..Sheet::new(lang.problem(problem.code)) };
    whole(visit, &sheet.still(in_words(lang, problem, true)), flash)
}

fn in_words(lang: Lang, problem: &Problem, inside: bool) -> Markup {
    html! {
        div .card.narrow {
            p { (advice(lang, problem.code)) }
            @if !problem.detail.is_empty() {
                p .quiet { span lang="en" { (problem.detail) } }
                p .quiet { span lang="en" { (problem.hint) } }
            }
            p { code .quiet { (problem.code.as_str()) } }
            p { a href="/" { @if inside { (lang.say("Back to the overview", "Voltar à visão geral")) } @else { (lang.say("To the dashboard", "Ir para o painel")) } } }
        }
    }
}

fn advice(lang: Lang, code: Code) -> &'static str {
    match code {
        Code::Forbidden => lang.say(
            "The key that you logged in with may not see or do this. Log in with another one, or ask an admin.",
            "A chave com que você entrou não pode ver ou fazer isto. Entre com outra, ou fale com um administrador.",
        ),
        Code::NotFound => lang.say(
            "There is nothing at this address: it was removed, or the link is not complete.",
            "Não há nada neste endereço: foi removido, ou o link está incompleto.",
        ),
        Code::StoreUnavailable | Code::ShuttingDown | Code::Overloaded => lang.say(
            "This passes by itself in most cases. Try again in a few seconds.",
            "Na maioria dos casos isto passa sozinho. Tente de novo em alguns segundos.",
        ),
        Code::ReadTooLong => lang.say(
            "Ask for less: a shorter time, or fewer messages at once. If nothing here can be narrowed, the server is busy; try again later.",
            "Peça menos: um período menor, ou menos mensagens de uma vez. Se não há o que restringir, o servidor está ocupado; tente mais tarde.",
        ),
        Code::Internal => lang.say(
            "This is a fault of the program. What happened stands in the server's log.",
            "É uma falha do programa. O que aconteceu está no log do servidor.",
        ),
        _ => lang.say("Nothing was changed.", "Nada foi mudado."),
    }
}

/// What is wrong, told to somebody whom nothing is known of.
pub(crate) fn stranger(lang: Lang, problem: &Problem) -> Response {
    alone(lang, lang.problem(problem.code), &in_words(lang, problem, false), problem.code.status())
}

/// A page by itself, without navigation.
pub(crate) fn alone(lang: Lang, title: &str, content: &Markup, status: StatusCode) -> Response {
    let body = html! {
        body .alone {
            main #main { div .door {
                (brand())
                h1 { (title) }
                (content)
            } }
        }
    };
    answer(status, document(lang, None, title, &body))
}

/// A document that somebody else wrote, shown as itself in a frame of its own, where nothing runs and nothing is fetched.
pub(crate) fn foreign(html: &str) -> Response {
    let mut response = answer(StatusCode::OK, PreEscaped(html.to_owned()));
    let policy = HeaderValue::from_static(
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'self'; sandbox",
    );
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}
