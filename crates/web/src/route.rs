//! The routes, each with what it asks of its caller. There is no other way to add one.

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use axum::RequestExt;
use axum::Router;
use axum::body::Body;
use axum::extract::{RawPathParams, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use futures_util::FutureExt;
use http::request::Parts;
use http::{Extensions, HeaderValue, Method, header};
use pombo_kernel::trace::Fact;

use crate::Door;
use crate::api::{
    alerts, audit, batch, campaigns, channels, classify, dead, decisions, events, health, keys, learning,
    links, list, messages, metrics, operations, privacy, receipts, recipients, reports, rules, stats, store,
    suppressions, templates, webhooks,
};
use crate::auth::{Access, Caller, bearer};
use crate::ingress::{self, Surface, evolution, queue, resend, supabase};
use crate::keyring;
use crate::problem::{Code, Problem};
use crate::proof::{self, Proven};
use crate::trail::{self, Trail};
use crate::{dash, docs, idempotency, openapi};

/// What a handler answers with, some time.
pub(crate) type Answer = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>>;

/// A request by a known caller who may make it.
pub(crate) struct Call {
    pub(crate) door: Door,
    pub(crate) caller: Arc<Caller>,
    pub(crate) head: Parts,
    pub(crate) body: Body,
    /// What stands in the braces of the route's path; empty if it has none.
    pub(crate) name: String,
}

/// One method at one address.
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub(crate) way: Way,
}

/// How a route is reached: a handler that gets a caller cannot be had without saying who may call it.
pub(crate) enum Way {
    Open(fn(Door) -> Answer),
    /// As `Open`, unless a key is asked for: one that may look at what concerns all tenants.
    Watched(fn(Door) -> Answer),
    /// Says the same to everybody.
    Page(fn() -> Response),
    Keyed(Access, fn(Call) -> Answer),
    /// For the provider of the channel that the path names, which shows who it is in its own way.
    Proven(fn(Proven) -> Answer),
    /// As `Keyed`, with the key, the answers and the errors of a system that applications know.
    DropIn(Surface, Access, fn(Call) -> Answer),
    /// What browsers ask before they call from a page of elsewhere.
    Preflight,
}

impl Route {
    /// What the route asks of a key; nothing if no key opens it, or none is needed.
    pub fn access(&self) -> Option<Access> {
        match self.way {
            Way::Open(_) | Way::Watched(_) | Way::Page(_) | Way::Proven(_) | Way::Preflight => None,
            Way::Keyed(access, _) | Way::DropIn(_, access, _) => Some(access),
        }
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({:?})", self.method, self.path, self.access())
    }
}

/// Every route that there is.
pub static ROUTES: &[Route] = &[
    open("/healthz", |_| Box::pin(health::alive())),
    open("/readyz", |door| Box::pin(health::ready(door))),
    Route {
        method: Method::GET,
        path: "/metrics",
        way: Way::Watched(|door| Box::pin(metrics::metrics(door))),
    },
    Route { method: Method::GET, path: "/openapi.json", way: Way::Page(openapi::answer) },
    Route { method: Method::GET, path: "/docs", way: Way::Page(docs::answer) },
    keyed(Method::POST, "/v1/messages", Access::Send, |call| Box::pin(messages::create(call))),
    keyed(Method::GET, "/v1/messages", Access::Follow, |call| Box::pin(list::page(call))),
    keyed(Method::POST, "/v1/messages/batch", Access::Send, |call| Box::pin(batch::create(call))),
    keyed(Method::GET, "/v1/messages/{id}", Access::Follow, |call| Box::pin(messages::show(call))),
    keyed(Method::POST, "/v1/messages/{id}/cancel", Access::Send, |call| Box::pin(messages::cancel(call))),
    keyed(Method::POST, "/v1/messages/{id}/retry", Access::Operate, |call| Box::pin(dead::retry(call))),
    keyed(Method::GET, "/v1/dead-letters", Access::Look, |call| Box::pin(dead::list(call))),
    keyed(Method::GET, "/v1/dead-letters/groups", Access::Look, |call| Box::pin(dead::groups(call))),
    keyed(Method::POST, "/v1/dead-letters/reprocess", Access::Operate, |call| {
        Box::pin(dead::reprocess(call))
    }),
    keyed(Method::POST, "/v1/dead-letters/discard", Access::Operate, |call| Box::pin(dead::discard(call))),
    keyed(Method::GET, "/v1/dead-letters/{id}", Access::Look, |call| Box::pin(dead::show(call))),
    keyed(Method::PATCH, "/v1/dead-letters/{id}", Access::Operate, |call| Box::pin(dead::edit(call))),
    keyed(Method::GET, "/v1/campaigns", Access::Look, |call| Box::pin(campaigns::list(call))),
    keyed(Method::POST, "/v1/campaigns", Access::Operate, |call| Box::pin(campaigns::create(call))),
    keyed(Method::GET, "/v1/campaigns/{id}", Access::Look, |call| Box::pin(campaigns::show(call))),
    keyed(Method::PATCH, "/v1/campaigns/{id}", Access::Operate, |call| Box::pin(campaigns::change(call))),
    keyed(Method::DELETE, "/v1/campaigns/{id}", Access::Operate, |call| Box::pin(campaigns::remove(call))),
    keyed(Method::GET, "/v1/campaigns/{id}/recipients", Access::Look, |call| {
        Box::pin(recipients::list(call))
    }),
    keyed(Method::POST, "/v1/campaigns/{id}/recipients", Access::Operate, |call| {
        Box::pin(recipients::import(call))
    }),
    keyed(Method::POST, "/v1/campaigns/{id}/preview", Access::Look, |call| {
        Box::pin(campaigns::preview(call))
    }),
    keyed(Method::POST, "/v1/campaigns/{id}/start", Access::Operate, |call| Box::pin(campaigns::start(call))),
    keyed(Method::POST, "/v1/campaigns/{id}/schedule", Access::Operate, |call| {
        Box::pin(campaigns::schedule(call))
    }),
    keyed(Method::POST, "/v1/campaigns/{id}/pause", Access::Operate, |call| Box::pin(campaigns::pause(call))),
    keyed(Method::POST, "/v1/campaigns/{id}/resume", Access::Operate, |call| {
        Box::pin(campaigns::resume(call))
    }),
    keyed(Method::POST, "/v1/campaigns/{id}/cancel", Access::Operate, |call| {
        Box::pin(campaigns::cancel(call))
    }),
    keyed(Method::POST, "/v1/campaigns/{id}/retry", Access::Operate, |call| Box::pin(campaigns::retry(call))),
    keyed(Method::GET, "/v1/operations", Access::Look, |call| Box::pin(operations::list(call))),
    keyed(Method::GET, "/v1/operations/{id}", Access::Look, |call| Box::pin(operations::show(call))),
    keyed(Method::POST, "/v1/operations/{id}/cancel", Access::Operate, |call| {
        Box::pin(operations::cancel(call))
    }),
    keyed(Method::GET, "/v1/alerts", Access::Look, |call| Box::pin(alerts::list(call))),
    keyed(Method::GET, "/v1/alerts/rules", Access::Look, |call| Box::pin(alerts::rules(call))),
    keyed(Method::POST, "/v1/alerts/test", Access::Operate, |call| Box::pin(alerts::test(call))),
    keyed(Method::GET, "/v1/alerts/{id}", Access::Look, |call| Box::pin(alerts::show(call))),
    keyed(Method::POST, "/v1/alerts/{id}/acknowledge", Access::Operate, |call| {
        Box::pin(alerts::acknowledge(call))
    }),
    keyed(Method::POST, "/v1/alerts/{id}/silence", Access::Operate, |call| Box::pin(alerts::silence(call))),
    keyed(Method::POST, "/v1/alerts/{id}/unsilence", Access::Operate, |call| {
        Box::pin(alerts::unsilence(call))
    }),
    keyed(Method::GET, "/v1/reports", Access::Look, |call| Box::pin(reports::list(call))),
    keyed(Method::GET, "/v1/reports/{name}", Access::Look, |call| Box::pin(reports::show(call))),
    keyed(Method::POST, "/v1/reports/{name}/send", Access::Operate, |call| Box::pin(reports::send(call))),
    keyed(Method::GET, "/v1/channels", Access::Look, |call| Box::pin(channels::list(call))),
    keyed(Method::POST, "/v1/channels/{name}/hold", Access::Operate, |call| Box::pin(channels::hold(call))),
    keyed(Method::POST, "/v1/channels/{name}/release", Access::Operate, |call| {
        Box::pin(channels::release(call))
    }),
    keyed(Method::POST, "/v1/channels/{name}/open", Access::Operate, |call| Box::pin(channels::open(call))),
    keyed(Method::POST, "/v1/channels/{name}/test", Access::Operate, |call| {
        Box::pin(operations::test_channel(call))
    }),
    keyed(Method::POST, "/v1/channels/{name}/close", Access::Operate, |call| Box::pin(channels::close(call))),
    keyed(Method::GET, "/v1/keys", Access::Administer, |call| Box::pin(keys::list(call))),
    keyed(Method::POST, "/v1/keys", Access::Administer, |call| Box::pin(keys::create(call))),
    keyed(Method::GET, "/v1/keys/{id}", Access::Administer, |call| Box::pin(keys::show(call))),
    keyed(Method::PATCH, "/v1/keys/{id}", Access::Administer, |call| Box::pin(keys::change(call))),
    keyed(Method::DELETE, "/v1/keys/{id}", Access::Administer, |call| Box::pin(keys::revoke(call))),
    keyed(Method::POST, "/v1/keys/{id}/rotate", Access::Administer, |call| Box::pin(keys::rotate(call))),
    keyed(Method::POST, "/v1/keys/{id}/link", Access::Administer, |call| Box::pin(links::create(call))),
    keyed(Method::GET, "/v1/templates", Access::Look, |call| Box::pin(templates::list(call))),
    keyed(Method::GET, "/v1/templates/{name}", Access::Look, |call| Box::pin(templates::show(call))),
    keyed(Method::PUT, "/v1/templates/{name}", Access::Operate, |call| Box::pin(templates::put(call))),
    keyed(Method::GET, "/v1/templates/{name}/versions", Access::Look, |call| {
        Box::pin(templates::versions(call))
    }),
    keyed(Method::POST, "/v1/templates/{name}/render", Access::Look, |call| {
        Box::pin(templates::render(call))
    }),
    keyed(Method::GET, "/v1/suppressions", Access::Look, |call| Box::pin(suppressions::list(call))),
    keyed(Method::POST, "/v1/suppressions", Access::Operate, |call| Box::pin(suppressions::create(call))),
    keyed(Method::POST, "/v1/suppressions/import", Access::Operate, |call| {
        Box::pin(suppressions::import(call))
    }),
    keyed(Method::GET, "/v1/suppressions/export", Access::Look, |call| Box::pin(suppressions::export(call))),
    keyed(Method::DELETE, "/v1/suppressions/{id}", Access::Operate, |call| {
        Box::pin(suppressions::remove(call))
    }),
    keyed(Method::POST, "/v1/classifications", Access::Any, |call| Box::pin(classify::classify(call))),
    keyed(Method::POST, "/v1/retry-decisions", Access::Send, |call| Box::pin(decisions::decide(call))),
    keyed(Method::GET, "/v1/retry-decisions", Access::Follow, |call| Box::pin(decisions::list(call))),
    proven("/v1/receipts/{channel}", |report| Box::pin(receipts::take(report))),
    // Some providers write the event's name behind the address that they were given; the body says it as well.
    proven("/v1/receipts/{channel}/{event}", |report| Box::pin(receipts::take(report))),
    keyed(Method::GET, "/v1/events", Access::Follow, |call| Box::pin(events::follow(call))),
    keyed(Method::GET, "/v1/audit", Access::Look, |call| Box::pin(audit::list(call))),
    keyed(Method::GET, "/v1/audit/export", Access::Look, |call| Box::pin(audit::export(call))),
    keyed(Method::GET, "/v1/audit/verify", Access::Look, |call| Box::pin(audit::verify(call))),
    keyed(Method::GET, "/v1/audit/anchors", Access::Look, |call| Box::pin(audit::anchors(call))),
    keyed(Method::GET, "/v1/webhooks", Access::Operate, |call| Box::pin(webhooks::list(call))),
    keyed(Method::POST, "/v1/webhooks", Access::Administer, |call| Box::pin(webhooks::create(call))),
    keyed(Method::GET, "/v1/webhooks/{id}", Access::Operate, |call| Box::pin(webhooks::show(call))),
    keyed(Method::PATCH, "/v1/webhooks/{id}", Access::Administer, |call| Box::pin(webhooks::change(call))),
    keyed(Method::DELETE, "/v1/webhooks/{id}", Access::Administer, |call| Box::pin(webhooks::remove(call))),
    keyed(Method::POST, "/v1/webhooks/{id}/rotate-secret", Access::Administer, |call| {
        Box::pin(webhooks::rotate(call))
    }),
    keyed(Method::POST, "/v1/webhooks/{id}/test", Access::Operate, |call| Box::pin(webhooks::test(call))),
    keyed(Method::GET, "/v1/stats", Access::Look, |call| Box::pin(stats::stats(call))),
    keyed(Method::GET, "/v1/rules", Access::Look, |call| Box::pin(rules::list(call))),
    keyed(Method::POST, "/v1/rules", Access::Operate, |call| Box::pin(rules::accept(call))),
    keyed(Method::GET, "/v1/rules/suggestions", Access::Look, |call| Box::pin(rules::suggestions(call))),
    keyed(Method::POST, "/v1/rules/try", Access::Look, |call| Box::pin(rules::try_out(call))),
    keyed(Method::DELETE, "/v1/rules/{id}", Access::Operate, |call| Box::pin(rules::remove(call))),
    keyed(Method::GET, "/v1/learning", Access::Look, |call| Box::pin(learning::show(call))),
    keyed(Method::POST, "/v1/privacy/erase", Access::Administer, |call| Box::pin(privacy::erase(call))),
    keyed(Method::GET, "/v1/store", Access::Look, |call| Box::pin(store::show(call))),
    keyed(Method::POST, "/v1/store/pause", Access::Administer, |call| Box::pin(store::pause(call))),
    keyed(Method::POST, "/v1/store/resume", Access::Administer, |call| Box::pin(store::resume(call))),
    keyed(Method::POST, "/v1/store/prune", Access::Administer, |call| Box::pin(store::prune(call))),
    drop_in(Method::POST, "/emails", Surface::Resend, Access::Send, |call| Box::pin(resend::send(call))),
    drop_in(Method::POST, "/emails/batch", Surface::Resend, Access::Send, |call| {
        Box::pin(resend::batch(call))
    }),
    drop_in(Method::GET, "/emails/{id}", Surface::Resend, Access::Follow, |call| {
        Box::pin(resend::show(call))
    }),
    drop_in(Method::POST, "/emails/{id}/cancel", Surface::Resend, Access::Send, |call| {
        Box::pin(resend::cancel(call))
    }),
    drop_in(Method::POST, "/message/sendText/{instance}", Surface::Evolution, Access::Send, |call| {
        Box::pin(evolution::text(call))
    }),
    drop_in(Method::POST, "/message/sendMedia/{instance}", Surface::Evolution, Access::Send, |call| {
        Box::pin(evolution::media(call))
    }),
    drop_in(Method::POST, "/rest/v1/rpc/enqueue_email", Surface::Rest, Access::Send, |call| {
        Box::pin(supabase::enqueue(call))
    }),
    preflight("/rest/v1/rpc/enqueue_email"),
    drop_in(Method::POST, "/functions/v1/process-email-queue", Surface::Function, Access::Send, |call| {
        Box::pin(queue::process(call))
    }),
    preflight("/functions/v1/process-email-queue"),
];

const fn open(path: &'static str, run: fn(Door) -> Answer) -> Route {
    Route { method: Method::GET, path, way: Way::Open(run) }
}

const fn keyed(method: Method, path: &'static str, access: Access, run: fn(Call) -> Answer) -> Route {
    Route { method, path, way: Way::Keyed(access, run) }
}

const fn proven(path: &'static str, run: fn(Proven) -> Answer) -> Route {
    Route { method: Method::POST, path, way: Way::Proven(run) }
}

const fn drop_in(
    method: Method,
    path: &'static str,
    surface: Surface,
    access: Access,
    run: fn(Call) -> Answer,
) -> Route {
    Route { method, path, way: Way::DropIn(surface, access, run) }
}

const fn preflight(path: &'static str) -> Route {
    Route { method: Method::OPTIONS, path, way: Way::Preflight }
}

/// Everything behind one door. Whatever is not a route answers a problem, too.
pub fn router(door: Door) -> Router {
    dash::routed(routed(|_| true)).fallback(no_route).method_not_allowed_fallback(no_method).with_state(door)
}

/// Only what tells a supervisor whether the process is well, for nodes that take no messages in.
pub fn probes(door: Door) -> Router {
    let open = routed(|route| matches!(route.way, Way::Open(_) | Way::Watched(_)));
    open.fallback(no_api).method_not_allowed_fallback(no_method).with_state(door)
}

fn routed(wanted: fn(&Route) -> bool) -> Router<Door> {
    let mut router = Router::new();
    for (place, route) in ROUTES.iter().enumerate().filter(|(_, route)| wanted(route)) {
        let Ok(filter) = MethodFilter::try_from(route.method.clone()) else { continue };
        let handler = move |State(door): State<Door>, request: Request| async move {
            measured(Some(place), &door, run(route, door.clone(), request)).await
        };
        router = router.route(route.path, on(filter, handler));
    }
    router
}

/// Counts a request, and measures how long its answer took.
pub(crate) async fn measured(
    place: Option<usize>,
    door: &Door,
    answer: impl Future<Output = Response>,
) -> Response {
    let (request, started) = (door.meter().began(place), door.elapsed());
    let response = answer.await;
    request.answered(response.status(), door.elapsed().saturating_sub(started));
    response
}

/// Runs a route's handler; a panic in it is a fault of ours and ends neither the connection nor the process.
async fn run(route: &'static Route, door: Door, mut request: Request) -> Response {
    let trail = followed(route, &door, &mut request);
    let answer = AssertUnwindSafe(admit(route, door, request)).catch_unwind().await;
    let answer = answer.unwrap_or_else(|_| {
        tracing::error!(method = %route.method, path = route.path, "a handler panicked");
        Err(Problem::internal())
    });
    let response = sealed(answer.unwrap_or_else(|problem| match route.way {
        Way::DropIn(surface, ..) => surface.tell(&problem),
        _ => problem.into_response(),
    }));
    if let Some(trail) = trail {
        let status = response.status();
        let facts = vec![
            ("http.request.method", Fact::from(route.method.to_string())),
            ("http.route", route.path.into()),
            ("http.response.status_code", Fact::Number(status.as_u16().into())),
        ];
        let fault = status.is_server_error().then(|| status.as_str().to_owned());
        trail.end(format!("{} {}", route.method, route.path), facts, fault);
    }
    response
}

/// The request's place in a trace, where traces are kept. What needs no key tells of us, and is done too often to be told.
fn followed(route: &Route, door: &Door, request: &mut Request) -> Option<Trail> {
    let tracer = door.0.tracer.get()?;
    if !matches!(route.way, Way::Keyed(..) | Way::DropIn(..) | Way::Proven(_)) {
        return None;
    }
    let trail = Trail::begin(tracer, trail::said(request.headers()).as_ref());
    request.extensions_mut().insert(trail.clone());
    Some(trail)
}

async fn admit(route: &'static Route, door: Door, mut request: Request) -> Result<Response, Problem> {
    let (access, handler) = match route.way {
        Way::Open(handler) => return handler(door).await,
        Way::Watched(handler) => {
            if door.meter().requires_key() {
                let key = bearer(request.headers())?;
                let caller = door.caller_by_key(key, keyring::peer(request.extensions())).await?;
                caller.may(Access::Look)?;
                caller.may_use_all()?;
                caller.may_keep_house()?;
            }
            return handler(door).await;
        }
        Way::Page(page) => return Ok(page()),
        Way::Keyed(access, handler) | Way::DropIn(_, access, handler) => (access, handler),
        Way::Preflight => return Ok(ingress::preflight()),
        Way::Proven(handler) => {
            let name = path_name(&mut request).await?;
            let (head, body) = request.into_parts();
            return handler(proof::proven(door, &name, &head, body).await?).await;
        }
    };
    let key = match route.way {
        Way::DropIn(surface, ..) => match surface.key(request.headers()) {
            Some(key) => key,
            None => return Ok(surface.keyless()),
        },
        _ => bearer(request.headers())?,
    };
    let caller = door.caller_by_key(key, keyring::peer(request.extensions())).await?;
    caller.may(access)?;
    let name = match route.path.contains('{') {
        true => path_name(&mut request).await?,
        false => String::new(),
    };
    let (head, body) = request.into_parts();
    handler(Call { door, caller, head, body, name }).await
}

/// What is asked of the API from inside the process, in somebody's name.
pub(crate) struct Asked<'a> {
    pub(crate) method: Method,
    /// A path of the table, with what stands in its braces beside it.
    pub(crate) path: &'static str,
    pub(crate) name: &'a str,
    pub(crate) query: &'a str,
    pub(crate) extensions: Extensions,
    pub(crate) media: &'static str,
    pub(crate) body: Body,
    /// The key under which it is done once, however often it is asked for.
    pub(crate) once: Option<HeaderValue>,
}

/// What a route asks of a key.
pub(crate) fn access_of(method: &Method, path: &str) -> Option<Access> {
    ROUTES.iter().find(|route| route.method == *method && route.path == path)?.access()
}

/// Has a route answer somebody who is known already, by the rights that the route asks for.
pub(crate) async fn inside(door: &Door, caller: &Arc<Caller>, asked: Asked<'_>) -> Result<Response, Problem> {
    let Asked { method, path, name, query, extensions, media, body, once } = asked;
    let route = ROUTES.iter().find(|route| route.method == method && route.path == path);
    let Some(Way::Keyed(access, handler)) = route.map(|route| &route.way) else { return Err(no_address()) };
    caller.may(*access)?;
    let address = if query.is_empty() { "/".to_owned() } else { format!("/?{query}") };
    let (mut head, body) = Request::new(body).into_parts();
    head.uri = address.parse().map_err(|_| no_address())?;
    (head.method, head.extensions) = (method, extensions);
    head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    if let Some(once) = once {
        head.headers.insert(idempotency::HEADER, once);
    }
    handler(Call { door: door.clone(), caller: caller.clone(), head, body, name: name.to_owned() }).await
}

pub(crate) async fn path_name(request: &mut Request) -> Result<String, Problem> {
    let params = request.extract_parts::<RawPathParams>().await.ok();
    let name = params.as_ref().and_then(|params| params.iter().next()).map(|(_, name)| name.to_owned());
    name.ok_or_else(no_address)
}

pub(crate) fn no_address() -> Problem {
    Problem::new(
        Code::NotFound,
        "there is nothing at this address",
        "the API lies under /v1, for example GET /v1/messages",
    )
}

async fn no_route(State(door): State<Door>, request: Request) -> Response {
    measured(None, &door, lost(&door, request)).await
}

async fn lost(door: &Door, request: Request) -> Response {
    sealed(match Surface::at(request.uri().path()) {
        Some(surface) => surface.lost(&request.into_parts().0, Code::NotFound),
        None => dash::lost(door, request.headers()).unwrap_or_else(|| no_address().into_response()),
    })
}

async fn no_api() -> Response {
    let detail = "this node has no API: it tells only whether it is well, at /healthz, /readyz and /metrics";
    let hint = "ask a node with the role `api`";
    sealed(Problem::new(Code::NotFound, detail, hint).into_response())
}

async fn no_method(State(door): State<Door>, request: Request) -> Response {
    measured(None, &door, misused(request)).await
}

async fn misused(request: Request) -> Response {
    if let Some(surface) = Surface::at(request.uri().path()) {
        return sealed(surface.lost(&request.into_parts().0, Code::MethodNotAllowed));
    }
    let hint = "the Allow header names the methods that this address takes";
    let detail = format!(
        "{} cannot be used here",
        request.method().as_str().get(..16).unwrap_or(request.method().as_str())
    );
    sealed(Problem::new(Code::MethodNotAllowed, detail, hint).into_response())
}

/// What every answer says: it is nobody's to keep, and exactly of the type that it names.
fn sealed(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
