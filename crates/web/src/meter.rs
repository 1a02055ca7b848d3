//! What the doors measure of themselves, and the registry in which everybody's numbers are.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use http::{Method, StatusCode};
use pombo_store::meter::{Retries, gauge, show};
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
};
use tokio::sync::Mutex as Turn;

use crate::api::metrics::{Looked, Seen};
use crate::dash::PAGES;
use crate::route::ROUTES;

const SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// How answers are told apart: by the first digit of their status.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// What the doors of one node measure. Clones are the same meter.
#[derive(Clone)]
pub struct Meter(Arc<Inner>);

struct Inner {
    registry: Registry,
    /// Nobody reads the numbers without a key.
    guarded: AtomicBool,
    requests: IntCounterVec,
    seconds: HistogramVec,
    /// By the places of the routes in their list, then those that no route takes, and then by those of the pages.
    routes: Vec<Handles>,
    in_flight: IntGauge,
    held_bytes: IntGauge,
    streams: IntGauge,
    event_streams: IntGauge,
    smtp_connections: IntGauge,
    mails: IntCounterVec,
    decisions: Retries,
    seen: Arc<Mutex<Seen>>,
    looked: Turn<Looked>,
}

/// The numbers of one route, found when they are first needed and then kept.
#[derive(Default)]
struct Handles {
    seconds: OnceLock<Histogram>,
    answers: [OnceLock<IntCounter>; CLASSES.len()],
}

impl Default for Meter {
    fn default() -> Meter {
        Meter::new(Registry::new())
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("registry", &self.0.registry).finish_non_exhaustive()
    }
}

impl Meter {
    /// A meter whose numbers are shown with whatever else the registry has.
    pub fn new(registry: Registry) -> Meter {
        const FIXED: &str = "names of metrics are fixed and sound";
        let labels = ["route", "method", "status"];
        let requests = Opts::new("pombo_http_requests_total", "Requests that were answered.");
        let seconds = HistogramOpts::new(
            "pombo_http_request_seconds",
            "From the head of a request until the answer began; streams go on after that.",
        );
        let mails = Opts::new("pombo_smtp_mails_total", "Mails that were handed in over SMTP.");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let inner = Inner {
            guarded: AtomicBool::new(false),
            requests: IntCounterVec::new(requests, &labels).expect(FIXED),
            seconds: HistogramVec::new(seconds.buckets(SECONDS.to_vec()), &labels[..2]).expect(FIXED),
            routes: (0..=ROUTES.len() + PAGES.len()).map(|_| Handles::default()).collect(),
            in_flight: gauge(
                "pombo_http_requests_in_flight",
                "Requests that wait for the start of an answer.",
            ),
            held_bytes: gauge("pombo_http_held_bytes", "Bytes of request bodies that are held in memory."),
            streams: gauge("pombo_http_import_streams", "Streams of messages and lists that are being read."),
            event_streams: gauge("pombo_event_streams", "Followers of events who are connected."),
            smtp_connections: gauge("pombo_smtp_connections", "Connections that are open for SMTP."),
            mails: IntCounterVec::new(mails, &["outcome"]).expect(FIXED),
            decisions: Retries::of("decisions"),
            seen,
            looked: Turn::default(),
            registry,
        };
        let registry = &inner.registry;
        show(registry, inner.requests.clone());
        show(registry, inner.seconds.clone());
        for gauge in [
            &inner.in_flight,
            &inner.held_bytes,
            &inner.streams,
            &inner.event_streams,
            &inner.smtp_connections,
        ] {
            show(registry, gauge.clone());
        }
        show(registry, inner.mails.clone());
        inner.decisions.show(registry);
        Seen::show(&inner.seen, registry);
        Meter(Arc::new(inner))
    }

    /// Where others show their numbers.
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// Decides whether the numbers are read with a key only.
    pub fn require_key(&self, required: bool) {
        self.0.guarded.store(required, Ordering::Relaxed);
    }

    pub(crate) fn requires_key(&self) -> bool {
        self.0.guarded.load(Ordering::Relaxed)
    }

    /// Where retry decisions are counted that others ask for.
    pub fn decisions(&self) -> &Retries {
        &self.0.decisions
    }

    /// A request came for the route at that place in the list, or for none.
    pub(crate) fn began(&self, route: Option<usize>) -> Request<'_> {
        self.0.in_flight.inc();
        Request { meter: &self.0, place: route.unwrap_or(ROUTES.len()) }
    }

    pub(crate) fn smtp_connection(&self) -> Counted {
        Counted::of(&self.0.smtp_connections)
    }

    /// A mail was answered with that code.
    pub(crate) fn mail(&self, code: u16) {
        let outcome = match code {
            ..400 => "accepted",
            400..500 => "deferred",
            _ => "refused",
        };
        self.0.mails.with_label_values(&[outcome]).inc();
    }

    /// What the doors hold, which is looked at when somebody asks.
    pub(crate) fn holding(&self, bytes: usize, streams: usize, event_streams: usize) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.0.held_bytes.set(number(bytes));
        self.0.streams.set(number(streams));
        self.0.event_streams.set(number(event_streams));
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the store was last looked at; whoever has it looks, and others wait for that.
    pub(crate) fn looked(&self) -> &Turn<Looked> {
        &self.0.looked
    }
}

/// A request on its way. One that is given up before it has an answer is counted nowhere.
pub(crate) struct Request<'a> {
    meter: &'a Inner,
    place: usize,
}

impl Request<'_> {
    pub(crate) fn answered(&self, status: StatusCode, took: Duration) {
        let Inner { requests, seconds, routes, .. } = self.meter;
        let page = || PAGES.get(self.place.checked_sub(ROUTES.len() + 1)?);
        let (path, method) = match (ROUTES.get(self.place), page()) {
            (Some(route), _) => (route.path, route.method.clone()),
            (None, Some(page)) => (page.path, page.method()),
            (None, None) => ("none", Method::default()),
        };
        let method = if path == "none" { "any" } else { method.as_str() };
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        let Some(handles) = routes.get(self.place) else { return };
        let answers = handles.answers[class]
            .get_or_init(|| requests.with_label_values(&[path, method, CLASSES[class]]));
        answers.inc();
        let seconds = handles.seconds.get_or_init(|| seconds.with_label_values(&[path, method]));
        seconds.observe(took.as_secs_f64());
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        self.meter.in_flight.dec();
    }
}

/// One of what a gauge counts, until it is dropped.
pub(crate) struct Counted(IntGauge);

impl Counted {
    fn of(gauge: &IntGauge) -> Counted {
        gauge.inc();
        Counted(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}
