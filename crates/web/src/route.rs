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
use http::{HeaderValue, Method, header};

use crate::Door;
use crate::api::{batch, channels, classify, health, list, messages, receipts, stats, store, templates};
use crate::auth::{Access, Caller};
use crate::problem::{Code, Problem};
use crate::proof::{self, Proven};

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
    way: Way,
}

/// How a route is reached: a handler that gets a caller cannot be had without saying who may call it.
enum Way {
    Open(fn(Door) -> Answer),
    Keyed(Access, fn(Call) -> Answer),
    /// For the provider of the channel that the path names, which shows who it is in its own way.
    Proven(fn(Proven) -> Answer),
}

impl Route {
    /// What the route asks of a key; nothing if no key opens it, or none is needed.
    pub fn access(&self) -> Option<Access> {
        match self.way {
            Way::Open(_) | Way::Proven(_) => None,
            Way::Keyed(access, _) => Some(access),
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
    keyed(Method::POST, "/v1/messages", Access::Send, |call| Box::pin(messages::create(call))),
    keyed(Method::GET, "/v1/messages", Access::Follow, |call| Box::pin(list::page(call))),
    keyed(Method::POST, "/v1/messages/batch", Access::Send, |call| Box::pin(batch::create(call))),
    keyed(Method::GET, "/v1/messages/{id}", Access::Follow, |call| Box::pin(messages::show(call))),
    keyed(Method::POST, "/v1/messages/{id}/cancel", Access::Send, |call| Box::pin(messages::cancel(call))),
    keyed(Method::GET, "/v1/channels", Access::Look, |call| Box::pin(channels::list(call))),
    keyed(Method::POST, "/v1/channels/{name}/hold", Access::Operate, |call| Box::pin(channels::hold(call))),
    keyed(Method::POST, "/v1/channels/{name}/release", Access::Operate, |call| {
        Box::pin(channels::release(call))
    }),
    keyed(Method::POST, "/v1/channels/{name}/open", Access::Operate, |call| Box::pin(channels::open(call))),
    keyed(Method::POST, "/v1/channels/{name}/close", Access::Operate, |call| Box::pin(channels::close(call))),
    keyed(Method::GET, "/v1/templates", Access::Look, |call| Box::pin(templates::list(call))),
    keyed(Method::GET, "/v1/templates/{name}", Access::Look, |call| Box::pin(templates::show(call))),
    keyed(Method::PUT, "/v1/templates/{name}", Access::Operate, |call| Box::pin(templates::put(call))),
    keyed(Method::GET, "/v1/templates/{name}/versions", Access::Look, |call| {
        Box::pin(templates::versions(call))
    }),
    keyed(Method::POST, "/v1/templates/{name}/render", Access::Look, |call| {
        Box::pin(templates::render(call))
    }),
    keyed(Method::POST, "/v1/classifications", Access::Any, |call| Box::pin(classify::classify(call))),
    proven("/v1/receipts/{channel}", |report| Box::pin(receipts::take(report))),
    // Some providers write the event's name behind the address that they were given; the body says it as well.
    proven("/v1/receipts/{channel}/{event}", |report| Box::pin(receipts::take(report))),
    keyed(Method::GET, "/v1/stats", Access::Look, |call| Box::pin(stats::stats(call))),
    keyed(Method::GET, "/v1/store", Access::Look, |call| Box::pin(store::show(call))),
    keyed(Method::POST, "/v1/store/pause", Access::Administer, |call| Box::pin(store::pause(call))),
    keyed(Method::POST, "/v1/store/resume", Access::Administer, |call| Box::pin(store::resume(call))),
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

/// Everything behind one door. Whatever is not a route answers a problem, too.
pub fn router(door: Door) -> Router {
    routed(|_| true).fallback(no_route).method_not_allowed_fallback(no_method).with_state(door)
}

/// Only what tells a supervisor whether the process is well, for nodes that take no messages in.
pub fn probes(door: Door) -> Router {
    let open = routed(|route| matches!(route.way, Way::Open(_)));
    open.fallback(no_api).method_not_allowed_fallback(no_method).with_state(door)
}

fn routed(wanted: fn(&Route) -> bool) -> Router<Door> {
    let mut router = Router::new();
    for route in ROUTES.iter().filter(|route| wanted(route)) {
        let Ok(filter) = MethodFilter::try_from(route.method.clone()) else { continue };
        let handler =
            move |State(door): State<Door>, request: Request| async move { run(route, door, request).await };
        router = router.route(route.path, on(filter, handler));
    }
    router
}

/// Runs a route's handler; a panic in it is a fault of ours and ends neither the connection nor the process.
async fn run(route: &'static Route, door: Door, request: Request) -> Response {
    let answer = AssertUnwindSafe(admit(route, door, request)).catch_unwind().await;
    let answer = answer.unwrap_or_else(|_| {
        tracing::error!(method = %route.method, path = route.path, "a handler panicked");
        Err(Problem::internal())
    });
    sealed(answer.unwrap_or_else(IntoResponse::into_response))
}

async fn admit(route: &'static Route, door: Door, mut request: Request) -> Result<Response, Problem> {
    let (access, handler) = match route.way {
        Way::Open(handler) => return handler(door).await,
        Way::Keyed(access, handler) => (access, handler),
        Way::Proven(handler) => {
            let name = path_name(&mut request).await?;
            let (head, body) = request.into_parts();
            return handler(proof::proven(door, &name, &head, body).await?).await;
        }
    };
    let caller = door.0.keys.caller(request.headers(), door.store(), &*door.0.clock).await?;
    caller.may(access)?;
    let name = match route.path.contains('{') {
        true => path_name(&mut request).await?,
        false => String::new(),
    };
    let (head, body) = request.into_parts();
    handler(Call { door, caller, head, body, name }).await
}

async fn path_name(request: &mut Request) -> Result<String, Problem> {
    let params = request.extract_parts::<RawPathParams>().await.ok();
    let name = params.as_ref().and_then(|params| params.iter().next()).map(|(_, name)| name.to_owned());
    name.ok_or_else(no_address)
}

fn no_address() -> Problem {
    Problem::new(
        Code::NotFound,
        "there is nothing at this address",
        "the API lies under /v1, for example GET /v1/messages",
    )
}

async fn no_route() -> Response {
    sealed(no_address().into_response())
}

async fn no_api() -> Response {
    let detail = "this node has no API: it tells only whether it is well, at /healthz and /readyz";
    let hint = "ask a node with the role `api`";
    sealed(Problem::new(Code::NotFound, detail, hint).into_response())
}

async fn no_method(request: Request) -> Response {
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
