//! The dashboard: pages for people, made here, that say what the API says to the same key.
//!
//! A page is a function from a [`Visit`] to a [`Sheet`], and a row of [`PAGES`]. It asks the API's own handlers for what
//! it shows and for what it does (`visit.ask`, `visit.act`), so that rights, masks, checks and audit are those of the
//! API and are written once. Everything works without script; see `pombo.js` for what one adds.

mod alert;
mod alerts;
pub(crate) mod assets;
mod audit;
mod campaign;
mod campaigns;
mod channels;
mod chart;
mod dead;
mod explained;
mod filled;
mod form;
mod frame;
mod keys;
mod learning;
pub(crate) mod live;
mod login;
mod message;
mod messages;
mod operation;
mod overview;
mod parts;
mod period;
mod policies;
mod reasons;
mod schedule;
pub(crate) mod session;
mod sheet;
mod simulate;
mod template;
mod templates;
mod visit;
mod words;

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use futures_util::FutureExt;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

pub use self::session::{LINK_LASTS, link_path, make_link};

use self::form::Form;
use self::frame::Nav;
use self::sheet::Sheet;
use self::visit::{Reply, Visit};
use self::words::Lang;
use crate::Door;
use crate::auth::Access;
use crate::problem::{Code, Problem};
use crate::route::{Answer, measured, no_address, path_name};

/// What a page is made of, some time.
pub(crate) type Shown = Pin<Box<dyn Future<Output = Result<Sheet, Problem>> + Send>>;
/// What comes of a form, some time.
pub(crate) type Acted = Pin<Box<dyn Future<Output = Result<Reply, Problem>> + Send>>;

/// One method at one address, for people.
pub struct Page {
    pub path: &'static str,
    way: Way,
    nav: Option<Nav>,
}

/// How a page is reached: one that knows who is there cannot be had without saying who may be.
enum Way {
    Show(Access, fn(Visit) -> Shown),
    /// A form that was sent.
    Act(Access, fn(Visit, Form) -> Acted),
    /// Something else than a page: a stream, a document of its own.
    Raw(Access, fn(Visit) -> Answer),
    /// For whoever comes.
    Open(Method, fn(Guest) -> Answer),
}

/// Somebody of whom nothing is known.
pub(crate) struct Guest {
    pub(crate) door: Door,
    pub(crate) head: Parts,
    pub(crate) body: Body,
    pub(crate) name: String,
}

impl Page {
    pub fn method(&self) -> Method {
        match &self.way {
            Way::Show(..) | Way::Raw(..) => Method::GET,
            Way::Act(..) => Method::POST,
            Way::Open(method, _) => method.clone(),
        }
    }

    /// What it asks of whoever is logged in; nothing where nobody has to be.
    pub fn access(&self) -> Option<Access> {
        match self.way {
            Way::Show(access, _) | Way::Act(access, _) | Way::Raw(access, _) => Some(access),
            Way::Open(..) => None,
        }
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({:?})", self.method(), self.path, self.access())
    }
}

const fn show(path: &'static str, access: Access, run: fn(Visit) -> Shown) -> Page {
    Page { path, way: Way::Show(access, run), nav: None }
}

const fn act(path: &'static str, access: Access, run: fn(Visit, Form) -> Acted) -> Page {
    Page { path, way: Way::Act(access, run), nav: None }
}

const fn raw(path: &'static str, access: Access, run: fn(Visit) -> Answer) -> Page {
    Page { path, way: Way::Raw(access, run), nav: None }
}

const fn open(method: Method, path: &'static str, run: fn(Guest) -> Answer) -> Page {
    Page { path, way: Way::Open(method, run), nav: None }
}

impl Page {
    /// Has a place in the navigation, which is in the order of the table.
    const fn listed(mut self, icon: &'static str, en: &'static str, pt: &'static str) -> Page {
        self.nav = Some(Nav { icon, en, pt });
        self
    }
}

/// Every page that there is.
pub static PAGES: &[Page] = &[
    show("/", Access::Look, |visit| Box::pin(overview::page(visit))).listed(
        "overview",
        "Overview",
        "Visão geral",
    ),
    show("/messages", Access::Follow, |visit| Box::pin(messages::list(visit))).listed(
        "messages",
        "Messages",
        "Mensagens",
    ),
    show("/messages/{id}", Access::Follow, |visit| Box::pin(message::page(visit))),
    act("/messages/{id}/cancel", Access::Send, |visit, form| Box::pin(message::cancel(visit, form))),
    act("/messages/{id}/retry", Access::Operate, |visit, form| Box::pin(message::retry(visit, form))),
    act("/messages/{id}/reveal", Access::Follow, |visit, form| Box::pin(message::reveal(visit, form))),
    raw("/messages/{id}/preview", Access::Follow, |visit| Box::pin(message::preview(visit))),
    show("/dead", Access::Look, |visit| Box::pin(dead::page(visit))).listed(
        "dead",
        "Dead letters",
        "Mensagens mortas",
    ),
    show("/dead/letters", Access::Look, |visit| Box::pin(dead::list(visit))),
    show("/dead/decide", Access::Operate, |visit| Box::pin(dead::confirm(visit))),
    act("/dead/decide", Access::Operate, |visit, form| Box::pin(dead::decide(visit, form))),
    show("/dead/letter/{id}", Access::Look, |visit| Box::pin(dead::letter(visit))),
    act("/dead/letter/{id}", Access::Operate, |visit, form| Box::pin(dead::change(visit, form))),
    show("/dead/{group}", Access::Look, |visit| Box::pin(dead::cause(visit))),
    show("/operations", Access::Look, |visit| Box::pin(operation::list(visit))),
    show("/operations/{id}", Access::Look, |visit| Box::pin(operation::page(visit))),
    act("/operations/{id}/cancel", Access::Operate, |visit, form| Box::pin(operation::cancel(visit, form))),
    show("/campaigns", Access::Look, |visit| Box::pin(campaigns::list(visit))).listed(
        "campaigns",
        "Campaigns",
        "Campanhas",
    ),
    show("/campaigns/new", Access::Operate, |visit| Box::pin(campaign::new(visit))),
    act("/campaigns/new", Access::Operate, |visit, form| Box::pin(campaign::create(visit, form))),
    show("/campaigns/{id}", Access::Look, |visit| Box::pin(campaign::page(visit))),
    show("/campaigns/{id}/edit", Access::Operate, |visit| Box::pin(campaign::edit(visit))),
    act("/campaigns/{id}/edit", Access::Operate, |visit, form| Box::pin(campaign::change(visit, form))),
    show("/campaigns/{id}/list", Access::Operate, |visit| Box::pin(campaign::list(visit))),
    act("/campaigns/{id}/list", Access::Operate, |visit, form| Box::pin(campaign::upload(visit, form))),
    act("/campaigns/{id}/import", Access::Operate, |visit, form| Box::pin(campaign::import(visit, form))),
    show("/campaigns/{id}/preview", Access::Look, |visit| Box::pin(campaign::preview(visit))),
    raw("/campaigns/{id}/sample", Access::Look, |visit| Box::pin(campaign::sample(visit))),
    show("/campaigns/{id}/recipients", Access::Look, |visit| Box::pin(campaign::people(visit))),
    raw("/campaigns/{id}/report", Access::Look, |visit| Box::pin(campaign::report(visit))),
    act("/campaigns/{id}/start", Access::Operate, |visit, form| Box::pin(campaign::start(visit, form))),
    act("/campaigns/{id}/schedule", Access::Operate, |visit, form| Box::pin(campaign::schedule(visit, form))),
    act("/campaigns/{id}/pause", Access::Operate, |visit, form| Box::pin(campaign::pause(visit, form))),
    act("/campaigns/{id}/resume", Access::Operate, |visit, form| Box::pin(campaign::resume(visit, form))),
    act("/campaigns/{id}/retry", Access::Operate, |visit, form| Box::pin(campaign::retry(visit, form))),
    act("/campaigns/{id}/cancel", Access::Operate, |visit, form| Box::pin(campaign::cancel(visit, form))),
    act("/campaigns/{id}/remove", Access::Operate, |visit, form| Box::pin(campaign::remove(visit, form))),
    show("/templates", Access::Look, |visit| Box::pin(templates::list(visit))).listed(
        "templates",
        "Templates",
        "Modelos",
    ),
    show("/templates/{name}", Access::Look, |visit| Box::pin(template::page(visit))),
    act("/templates/{name}", Access::Operate, |visit, form| Box::pin(template::save(visit, form))),
    raw("/templates/{name}/preview", Access::Look, |visit| Box::pin(template::preview(visit))),
    act("/templates/{name}/preview", Access::Operate, |visit, form| Box::pin(template::try_out(visit, form))),
    show("/channels", Access::Look, |visit| Box::pin(channels::list(visit)))
        .listed("channels", "Channels", "Canais"),
    show("/channels/{name}", Access::Look, |visit| Box::pin(channels::page(visit))),
    act("/channels/{name}/test", Access::Operate, |visit, form| Box::pin(channels::test(visit, form))),
    act("/channels/{name}/hold", Access::Operate, |visit, form| Box::pin(channels::hold(visit, form))),
    act("/channels/{name}/release", Access::Operate, |visit, form| Box::pin(channels::release(visit, form))),
    act("/channels/{name}/open", Access::Operate, |visit, form| Box::pin(channels::open(visit, form))),
    act("/channels/{name}/close", Access::Operate, |visit, form| Box::pin(channels::close(visit, form))),
    show("/policies", Access::Look, |visit| Box::pin(policies::list(visit))).listed(
        "policies",
        "Policies",
        "Políticas",
    ),
    show("/policies/{name}", Access::Look, |visit| Box::pin(policies::page(visit))),
    show("/learning", Access::Look, |visit| Box::pin(learning::page(visit))).listed(
        "learning",
        "Learning",
        "Aprendizado",
    ),
    show(simulate::HERE, Access::Look, |visit| Box::pin(simulate::page(visit))),
    act("/learning/try", Access::Look, |visit, form| Box::pin(learning::try_out(visit, form))),
    act("/learning/accept", Access::Operate, |visit, form| Box::pin(learning::accept(visit, form))),
    act("/learning/{id}/remove", Access::Operate, |visit, form| Box::pin(learning::remove(visit, form))),
    show("/alerts", Access::Look, |visit| Box::pin(alerts::list(visit)))
        .listed("alerts", "Alerts", "Alertas"),
    show("/alerts/{id}", Access::Look, |visit| Box::pin(alerts::page(visit))),
    act("/alerts/{id}/acknowledge", Access::Operate, |visit, form| {
        Box::pin(alerts::acknowledge(visit, form))
    }),
    act("/alerts/{id}/silence", Access::Operate, |visit, form| Box::pin(alerts::silence(visit, form))),
    act("/alerts/{id}/unsilence", Access::Operate, |visit, form| Box::pin(alerts::unsilence(visit, form))),
    show("/audit", Access::Look, |visit| Box::pin(audit::list(visit))).listed("audit", "Audit", "Auditoria"),
    raw("/audit/export", Access::Look, |visit| Box::pin(audit::export(visit))),
    show("/audit/chain", Access::Look, |visit| Box::pin(audit::chain(visit))),
    show("/keys", Access::Administer, |visit| Box::pin(keys::list(visit))).listed("keys", "Keys", "Chaves"),
    act("/keys", Access::Administer, |visit, form| Box::pin(keys::create(visit, form))),
    show("/keys/{id}", Access::Administer, |visit| Box::pin(keys::page(visit))),
    act("/keys/{id}/link", Access::Administer, |visit, form| Box::pin(keys::link(visit, form))),
    act("/keys/{id}/rotate", Access::Administer, |visit, form| Box::pin(keys::rotate(visit, form))),
    act("/keys/{id}/revoke", Access::Administer, |visit, form| Box::pin(keys::revoke(visit, form))),
    open(Method::GET, "/login", |guest| Box::pin(login::form(guest))),
    open(Method::POST, "/login", |guest| Box::pin(login::enter(guest))),
    act("/logout", Access::Any, |visit, _| Box::pin(login::leave(visit))),
    act("/preferences", Access::Any, |visit, form| Box::pin(login::prefer(visit, form))),
    raw("/live", Access::Any, |visit| Box::pin(live::follow(visit))),
    open(Method::GET, "/assets/{file}", |guest| Box::pin(assets::file(guest))),
];

/// The pages, beside whatever else there is.
pub(crate) fn routed(mut router: Router<Door>) -> Router<Door> {
    for (place, page) in PAGES.iter().enumerate() {
        let Ok(filter) = MethodFilter::try_from(page.method()) else { continue };
        let handler = move |State(door): State<Door>, request: Request| async move {
            measured(Some(crate::ROUTES.len() + 1 + place), &door, run(page, door.for_page(), request)).await
        };
        router = router.route(page.path, on(filter, handler));
    }
    router
}

/// Whether whoever asks would rather read a page than a document.
pub(crate) fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    accepted.into_iter().any(|text| text.contains("text/html"))
}

/// Runs a page; a panic in it is a fault of ours and ends neither the connection nor the process.
async fn run(page: &'static Page, door: Door, request: Request) -> Response {
    let (path, told) = (request.uri().path().to_owned(), Told::of(&door, request.headers()));
    let answer = AssertUnwindSafe(admit(page, door, request)).catch_unwind().await;
    let answer = answer.unwrap_or_else(|_| {
        tracing::error!(path = page.path, "a page panicked");
        Err(Problem::internal())
    });
    sealed(answer.unwrap_or_else(|problem| told.problem(&problem, &path)))
}

async fn admit(page: &'static Page, door: Door, mut request: Request) -> Result<Response, Problem> {
    if !door.setup().dashboard.enabled {
        return Err(no_address());
    }
    let name = match page.path.contains('{') {
        true => path_name(&mut request).await?,
        false => String::new(),
    };
    let (head, body) = request.into_parts();
    if head.method == Method::POST {
        form::of_this_site(&head.headers, &door.setup())?;
    }
    let access = match page.way {
        Way::Open(_, handler) => return handler(Guest { door, head, body, name }).await,
        Way::Show(access, _) | Way::Act(access, _) | Way::Raw(access, _) => access,
    };
    let Some(session) = door.session(&head.headers).await? else {
        // Whoever wants no page is told what was told before there were any.
        return match wants_page(&head.headers) || head.method == Method::POST {
            true => Ok(login::first(&head)),
            false if page.path == "/live" => Err(crate::auth::unauthorized("nobody is logged in")),
            false => Err(no_address()),
        };
    };
    door.note_visit(&session).await;
    let visit = Visit::new(door, session, head, name);
    let allowed = visit.caller().may(access);
    match page.way {
        Way::Show(_, handler) => {
            let (told, again) = (visit.clone(), visit.clone());
            let sheet = match allowed {
                Ok(()) => handler(visit).await,
                Err(problem) => Err(problem),
            };
            let flash = told.take_flash().await;
            Ok(match sheet {
                Ok(sheet) => frame::whole(&again, &sheet, flash.as_ref()),
                Err(problem) => frame::problem(&again, &problem, flash.as_ref()),
            })
        }
        Way::Raw(_, handler) => {
            allowed?;
            handler(visit).await
        }
        Way::Act(_, handler) => {
            let again = visit.clone();
            let done = async {
                let form = Form::read(&visit, body).await?;
                if !again.session().is_ours(form.get("csrf")) {
                    return Err(form::not_ours());
                }
                allowed?;
                Ok((handler(visit, form.clone()).await, form))
            };
            Ok(match done.await {
                Ok((Ok(Reply::Sheet(sheet)), _)) => frame::whole(&again, &sheet, None),
                Ok((Ok(Reply::Raw(response)), _)) => response,
                Ok((Ok(Reply::To(path, flash)), _)) => again.leave_flash(&path, flash).await?,
                // Whoever sent the form finds it again, with what was wrong about it.
                Ok((Err(problem), form)) => match form.back() {
                    Some(back) => again.leave_flash(back, Some(again.look().trouble(&problem))).await?,
                    None => frame::problem(&again, &problem, None),
                },
                Err(problem) => frame::problem(&again, &problem, None),
            })
        }
        Way::Open(..) => Err(Problem::internal()),
    }
}

/// How a problem is told to somebody whom nothing is known of.
struct Told {
    lang: Lang,
    page: bool,
}

impl Told {
    fn of(_: &Door, headers: &HeaderMap) -> Told {
        Told { lang: Lang::of(headers), page: wants_page(headers) }
    }

    fn problem(&self, problem: &Problem, path: &str) -> Response {
        match self.page && !path.starts_with("/assets/") {
            true => frame::stranger(self.lang, problem),
            false => problem.clone().into_response(),
        }
    }
}

/// A page for whoever asks for one where there is nothing.
pub(crate) fn lost(door: &Door, headers: &HeaderMap) -> Option<Response> {
    let wanted = door.setup().dashboard.enabled && wants_page(headers);
    wanted.then(|| sealed(frame::stranger(Lang::of(headers), &Problem::new(Code::NotFound, "", ""))))
}

/// Another page, to be asked for.
pub(crate) fn to(path: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let path = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/"));
    response.headers_mut().insert(header::LOCATION, path);
    response
}

/// What a page may do: nothing but what stands on it, and what comes from here.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
);

/// What every answer says, unless it says something stricter of itself.
fn sealed(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let usual = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (
            header::HeaderName::from_static("cross-origin-opener-policy"),
            HeaderValue::from_static("same-origin"),
        ),
    ];
    for (name, value) in usual {
        headers.entry(name).or_insert(value);
    }
    response
}
