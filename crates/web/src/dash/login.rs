//! Coming in and leaving: by a key, or by a link that somebody made for whoever gets it.

use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use maud::{Markup, html};

use super::form::{Form, local};
use super::parts::encoded;
use super::session::{Theme, set_cookie};
use super::visit::{Reply, Visit};
use super::words::Lang;
use super::{Guest, PAGES, Way, frame, to};
use crate::Door;
use crate::auth::Role;
use crate::keyring::peer;
use crate::problem::{Code, Problem};

/// Whoever is not logged in goes there first, and then where they wanted to go.
pub(crate) fn first(head: &Parts) -> Response {
    match head.uri.path_and_query().map(|it| it.as_str()) {
        Some(wanted) if head.method == http::Method::GET && wanted != "/" => {
            to(&format!("/login?next={}", encoded(wanted)))
        }
        _ => to("/login"),
    }
}

/// What somebody brought along to the door.
struct Asked {
    lang: Lang,
    /// They chose the language themselves.
    chosen: bool,
    link: Option<String>,
    next: Option<String>,
}

impl Asked {
    fn of(guest: &Guest) -> Asked {
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&guest.head.uri);
        let pairs = pairs.map(|it| it.0).unwrap_or_default();
        let get = |name: &str| pairs.iter().find(|(given, _)| given == name).map(|(_, value)| value.clone());
        let chosen = get("lang").and_then(|tag| Lang::of_tag(&tag));
        Asked {
            lang: chosen.unwrap_or_else(|| Lang::of(&guest.head.headers)),
            chosen: chosen.is_some(),
            link: get("link").filter(|link| link.len() == 64),
            next: get("next").filter(|next| local(next).is_some()),
        }
    }
}

/// The door. That a link is looked at does not use it up: programs that show previews of links look at all of them.
pub(crate) async fn form(guest: Guest) -> Result<Response, Problem> {
    let asked = Asked::of(&guest);
    if asked.link.is_none() && guest.door.session(&guest.head.headers).await?.is_some() {
        return Ok(to(asked.next.as_deref().unwrap_or("/")));
    }
    Ok(page(&asked, None, StatusCode::OK))
}

fn page(asked: &Asked, trouble: Option<&str>, status: StatusCode) -> Response {
    let lang = asked.lang;
    let title = lang.say("Log in", "Entrar");
    let next = asked.next.as_deref().unwrap_or_default();
    let body = html! {
        @if let Some(trouble) = trouble {
            p .flash.bad role="alert" { (trouble) }
        }
        form method="post" action="/login" .stack {
            input type="hidden" name="next" value=(next);
            @if asked.chosen { input type="hidden" name="lang" value=(lang.tag()); }
            @if let Some(link) = &asked.link {
                input type="hidden" name="link" value=(link);
                p { (lang.say(
                    "This link lets you in once, without typing a key. It can be used within ten minutes of being made.",
                    "Este link deixa você entrar uma vez, sem digitar chave. Vale por dez minutos depois de criado.",
                )) }
                button .primary type="submit" { (title) }
            } @else {
                label for="key" { (lang.say("API key", "Chave de API")) }
                input #key type="password" name="key" autocomplete="current-password" spellcheck="false" required
                    autofocus aria-describedby="key-hint";
                p #key-hint .hint { (key_hint(lang)) }
                button .primary type="submit" { (title) }
            }
        }
        p .tongues { @for other in Lang::ALL {
            @if other != lang {
                a href=(format!("/login?lang={}&next={}{}", other.tag(), encoded(next), link_again(asked))) lang=(other.tag()) hreflang=(other.tag()) { (other.name()) }
            }
        } }
    };
    frame::alone(lang, title, &body, status)
}

fn link_again(asked: &Asked) -> String {
    asked.link.as_ref().map(|link| format!("&link={link}")).unwrap_or_default()
}

fn key_hint(lang: Lang) -> Markup {
    match lang {
        Lang::En => {
            html! { "The first start of " code { "pombo serve" } " prints one, and a link. Later on " code { "pombo keys link" } " makes a link." }
        }
        Lang::Pt => {
            html! { "O primeiro " code { "pombo serve" } " mostra uma, e um link. Depois, " code { "pombo keys link" } " cria um link." }
        }
    }
}

/// Begins a session for whoever shows a key or a link that is good.
pub(crate) async fn enter(guest: Guest) -> Result<Response, Problem> {
    let from = peer(&guest.head.extensions);
    let Guest { door, head, body, .. } = guest;
    let form = Form::of(&door, &head.headers, body).await?;
    let chosen = form.given("lang").and_then(Lang::of_tag);
    let asked = Asked {
        lang: chosen.unwrap_or_else(|| Lang::of(&head.headers)),
        chosen: chosen.is_some(),
        link: None,
        next: local(form.get("next")).map(str::to_owned),
    };
    let (found, by) = match form.given("link") {
        Some(link) => (door.use_link(link, from).await, "link"),
        None => (door.caller_by_key(form.get("key").trim(), from).await, "key"),
    };
    let caller = match found {
        Ok(caller) => caller,
        Err(problem) => return refused(&asked, problem, by),
    };
    let secret = door.log_in(&caller, by, chosen).await?;
    let mut response = to(asked.next.as_deref().unwrap_or_else(|| home(caller.role)));
    give_cookie(&mut response, Some(&secret), &door, &head);
    Ok(response)
}

fn refused(asked: &Asked, problem: Problem, by: &str) -> Result<Response, Problem> {
    let lang = asked.lang;
    let said = match (problem.code, by) {
        (Code::Unauthorized, "link") => lang.say(
            "This link was used already, or is older than ten minutes. Ask for another one, or enter with a key.",
            "Este link já foi usado ou tem mais de dez minutos. Peça outro, ou entre com uma chave.",
        ),
        (Code::Unauthorized, _) => lang.say(
            "This key opens nothing: it is mistyped, has expired or was revoked.",
            "Esta chave não abre nada: foi digitada errada, expirou ou foi revogada.",
        ),
        (Code::TooManyFailures, _) => lang.say(
            "Too many wrong keys came from here. Wait a few seconds, then try again.",
            "Vieram chaves erradas demais daqui. Espere alguns segundos e tente de novo.",
        ),
        _ => return Err(problem),
    };
    let mut response = page(asked, Some(said), problem.code.status());
    let wait = problem.into_response().headers().get(header::RETRY_AFTER).cloned();
    response.headers_mut().extend(wait.map(|wait| (header::RETRY_AFTER, wait)));
    Ok(response)
}

/// The first page that somebody of that role may see.
fn home(role: Role) -> &'static str {
    let pages = PAGES.iter().filter(|page| page.nav.is_some() && matches!(page.way, Way::Show(..)));
    let seen = pages.into_iter().find(|page| page.access().is_some_and(|access| access.allows(role)));
    seen.map_or("/", |page| page.path)
}

fn give_cookie(response: &mut Response, secret: Option<&str>, door: &Door, head: &Parts) {
    let secure = door.is_secure(&head.headers);
    if let Ok(value) = HeaderValue::from_str(&set_cookie(secret, secure)) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
}

/// Ends the session.
pub(crate) async fn leave(visit: Visit) -> Result<Reply, Problem> {
    visit.door().log_out(visit.session()).await?;
    let mut response = to("/login");
    give_cookie(&mut response, None, visit.door(), visit.head());
    Ok(Reply::Raw(response))
}

/// Keeps the language or the look that somebody chose, for as long as the session lasts.
pub(crate) async fn prefer(visit: Visit, form: Form) -> Result<Reply, Problem> {
    let (lang, theme) = (form.given("lang").and_then(Lang::of_tag), form.given("theme").map(str::to_owned));
    visit
        .door()
        .change_session(visit.session(), |ticket| {
            ticket.lang = lang.or(ticket.lang);
            ticket.theme = match theme.as_deref() {
                Some("light") => Some(Theme::Light),
                Some("dark") => Some(Theme::Dark),
                Some(_) => None,
                None => ticket.theme,
            };
        })
        .await?;
    Ok(Reply::To(form.back().unwrap_or("/").to_owned(), None))
}
