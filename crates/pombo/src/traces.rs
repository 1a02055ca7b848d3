//! Traces, sent to a collector by OTLP over HTTP, in JSON.
//!
//! Whoever works hands over a span and goes on. A collector that is slow or gone costs spans, which are counted, and
//! never a delivery.

mod otlp;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::Full;
use pombo_channels::client::{Answer, Client, Need, roots};
use pombo_channels::resolve::Resolver;
use pombo_kernel::dice::Dice;
use pombo_kernel::guard::Guard;
use pombo_kernel::reply::Reply;
use pombo_kernel::time::Clock;
use pombo_kernel::trace::{Moment, Share, Span, Tracer};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tracing::{info, warn};
use url::{Position, Url};

use crate::config::Traces;

/// Spans that may wait to be sent. When more come, the new ones are dropped.
const WAITING_MAX: usize = 8_192;
/// Spans that are sent together, and how long the first of them waits for others.
const BATCH: usize = 512;
const GATHER: Duration = Duration::from_secs(1);
/// How long the collector may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// From a call that came to nothing to the next, each twice the one before. After the last the batch is given up.
const AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];
/// How long an ending process waits for the collector to take the last spans.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The last nanosecond of a millisecond.
const LAST_OF_MILLI: u64 = 999_999;
/// By which Dice go from one number to the next.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The way to a collector. Dropping it loses what waits; call [`stop`](Office::stop).
#[derive(Debug)]
pub(crate) struct Office {
    tracer: Arc<Recorder>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Office {
    /// Starts sending to the collector that is configured, if one is.
    pub(crate) fn start(traces: &Traces, clock: Arc<dyn Clock>, seed: u64) -> Option<Office> {
        let endpoint = traces.endpoint.clone()?;
        let line = match Line::new(endpoint, traces) {
            Ok(line) => line,
            Err(error) => {
                warn!(error, "no traces are kept: the collector cannot be called");
                return None;
            }
        };
        let (spans, inbox) = mpsc::channel(WAITING_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let share = Share(traces.sample);
        let (base, chance) = (AtomicU64::new(0), AtomicU64::new(seed));
        let tracer = Arc::new(Recorder { clock, base, chance, share, spans, lost: lost.clone() });
        let mut dice = Dice::seeded(tracer.chance());
        let resource = otlp::Resource::new(format!("{:016x}", dice.next_u64()));
        let (stop, stopping) = oneshot::channel();
        let collector = Collector { line, resource, lost, gone: false };
        let task = tokio::spawn(carry(inbox, collector, stopping));
        Some(Office { tracer, stop, task })
    }

    pub(crate) fn tracer(&self) -> Arc<dyn Tracer> {
        self.tracer.clone()
    }

    /// Spans that were dropped so far, since nobody took them.
    pub(crate) fn lost(&self) -> Arc<AtomicU64> {
        self.tracer.lost.clone()
    }

    /// Sends what waits, as far as the collector takes it soon.
    pub(crate) async fn stop(self) {
        let Office { stop, mut task, .. } = self;
        let _ = stop.send(());
        if tokio::time::timeout(LAST_WORDS, &mut task).await.is_err() {
            task.abort();
        }
    }
}

/// Takes spans, and tells the time that they are measured by.
#[derive(Debug)]
struct Recorder {
    clock: Arc<dyn Clock>,
    /// What to add to the time that has passed, in nanoseconds.
    base: AtomicU64,
    chance: AtomicU64,
    share: Share,
    spans: mpsc::Sender<Span>,
    lost: Arc<AtomicU64>,
}

impl Tracer for Recorder {
    /// The node's time, by which messages are due, and within its millisecond as fine as its clock can tell.
    fn now(&self) -> Moment {
        let elapsed = u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let Moment(coarse) = self.clock.now().into();
        let fine = self.base.load(Ordering::Relaxed).wrapping_add(elapsed);
        let right = fine.clamp(coarse, coarse.saturating_add(LAST_OF_MILLI));
        if right != fine {
            self.base.store(right.wrapping_sub(elapsed), Ordering::Relaxed);
        }
        Moment(right)
    }

    fn chance(&self) -> u64 {
        Dice::seeded(self.chance.fetch_add(STEP, Ordering::Relaxed)).next_u64()
    }

    fn share(&self) -> Share {
        self.share
    }

    fn record(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn carry(
    mut inbox: mpsc::Receiver<Span>,
    mut collector: Collector,
    mut stopping: oneshot::Receiver<()>,
) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut open = true;
    loop {
        let wait = tokio::time::sleep(GATHER);
        tokio::pin!(wait);
        while batch.len() < BATCH {
            let room = BATCH - batch.len();
            tokio::select! {
                taken = inbox.recv_many(&mut batch, room) => if taken == 0 { break },
                () = &mut wait, if !batch.is_empty() => break,
                _ = &mut stopping, if open => {
                    open = false;
                    inbox.close();
                }
            }
        }
        if batch.is_empty() {
            return;
        }
        collector.take(&batch).await;
        batch.clear();
    }
}

/// Whom spans are sent to.
#[derive(Debug)]
struct Collector {
    line: Line,
    resource: otlp::Resource,
    lost: Arc<AtomicU64>,
    /// It did not take the last batch.
    gone: bool,
}

impl Collector {
    async fn take(&mut self, spans: &[Span]) {
        let body = Bytes::from(otlp::export(&self.resource, spans));
        let mut waits = AGAIN.into_iter();
        let why = loop {
            match self.line.post(body.clone()).await {
                Ok(refused) => {
                    self.lost.fetch_add(refused, Ordering::Relaxed);
                    if std::mem::take(&mut self.gone) {
                        info!(lost = self.lost.load(Ordering::Relaxed), "the collector takes traces again");
                    }
                    return;
                }
                Err(Failed { why, passing }) => match waits.next().filter(|_| passing) {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => break why,
                },
            }
        };
        self.lost.fetch_add(spans.len() as u64, Ordering::Relaxed);
        if !std::mem::replace(&mut self.gone, true) {
            warn!(why, "the collector does not take traces; they are dropped until it does");
        }
    }
}

/// Why a batch was not taken, and whether it may be taken later.
struct Failed {
    why: String,
    passing: bool,
}

#[derive(Debug)]
struct Line {
    client: Client,
    url: Url,
    headers: HeaderMap,
}

impl Line {
    fn new(mut url: Url, traces: &Traces) -> Result<Line, String> {
        url.set_path(&format!("{}/v1/traces", url.path().trim_end_matches('/')));
        // The address is the administrator's own word, so it may lead anywhere.
        let guard = Guard { allow_private: true, allow: Vec::new() };
        let roots = roots(traces.ca_file.as_deref())?;
        let client =
            Client::new(guard, Resolver::default(), roots, None).map_err(|error| error.to_string())?;
        let host = HeaderValue::from_str(&url[Position::BeforeHost..Position::BeforePath]);
        let mut headers = HeaderMap::from_iter([
            (header::HOST, host.map_err(|_| "the address has no usable host")?),
            (header::USER_AGENT, HeaderValue::from_static(concat!("Pombo/", env!("CARGO_PKG_VERSION")))),
            (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (header::ACCEPT_ENCODING, HeaderValue::from_static("identity")),
        ]);
        for (name, value) in &traces.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| "a header has no usable name")?;
            let mut value =
                HeaderValue::from_str(value.expose()).map_err(|_| "a header has no usable value")?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(Line { client, url, headers })
    }

    /// Hands a batch over; how many spans of it the collector did not want.
    async fn post(&self, body: Bytes) -> Result<u64, Failed> {
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = self.url[Position::BeforePath..Position::AfterQuery]
            .parse()
            .map_err(|_| Failed { why: "the address has no usable path".to_owned(), passing: false })?;
        *request.headers_mut() = self.headers.clone();
        request.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        let answer = self.client.call(&self.url, request, Need::Body, PATIENCE).await;
        let Answer { status, body, .. } = answer.map_err(|reply| {
            let why = match reply {
                Reply::Unreachable(fault) | Reply::Doubtful(fault) => fault.text,
                Reply::Accepted(_) | Reply::Refused(_) => "no answer".to_owned(),
            };
            Failed { why, passing: true }
        })?;
        let passing = matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT
        );
        match status.is_success() {
            true => Ok(otlp::refused(&body)),
            false => Err(Failed { why: format!("it answered {status}"), passing }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use pombo_kernel::time::Time;
    use pombo_kernel::trace::Kind;

    use super::*;

    /// A clock whose hands are moved by the test.
    #[derive(Debug, Default)]
    struct Hands {
        millis: AtomicI64,
        nanos: AtomicU64,
    }

    impl Clock for Hands {
        fn now(&self) -> Time {
            Time::from_millis(self.millis.load(Ordering::Relaxed))
        }
        fn elapsed(&self) -> Duration {
            Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
        }
    }

    fn recorder(clock: Arc<Hands>, waiting: usize) -> (Recorder, mpsc::Receiver<Span>) {
        let (spans, inbox) = mpsc::channel(waiting);
        let (base, chance, lost) = (AtomicU64::new(0), AtomicU64::new(7), Arc::default());
        (Recorder { clock, base, chance, share: Share(1.0), spans, lost }, inbox)
    }

    pub(super) fn span(tracer: &dyn Tracer) -> Span {
        Span {
            at: tracer.begin(None),
            parent: None,
            link: None,
            name: "attempt".into(),
            kind: Kind::Internal,
            from: tracer.now(),
            until: tracer.now(),
            facts: Vec::new(),
            fault: None,
        }
    }

    #[test]
    fn time_is_the_nodes_time_and_finer() {
        let clock = Arc::new(Hands::default());
        let (recorder, _inbox) = recorder(clock.clone(), 1);
        let at = |millis: i64, nanos: u64| {
            clock.millis.store(millis, Ordering::Relaxed);
            clock.nanos.store(nanos, Ordering::Relaxed);
            recorder.now().0
        };
        assert_eq!(at(1_000, 500), 1_000_000_000);
        assert_eq!(at(1_000, 700_500), 1_000_700_000);
        // Where its millisecond begins is learned as it passes.
        assert_eq!(at(1_001, 900_500), 1_001_000_000);
        assert_eq!(at(1_001, 900_501), 1_001_000_001);
        assert_eq!(at(1_001, 1_900_600), 1_001_999_999);
        // The node's clock was set forward, and back.
        assert_eq!(at(5_000, 1_900_700), 5_000_000_000);
        assert_eq!(at(2_000, 1_900_800), 2_000_999_999);
        assert_eq!(at(2_001, 1_900_801), 2_001_000_000);
    }

    #[test]
    fn what_nobody_takes_is_dropped_and_counted_and_holds_up_nobody() {
        let (recorder, mut inbox) = recorder(Arc::default(), 3);
        for _ in 0..10 {
            recorder.record(span(&recorder));
        }
        assert_eq!(recorder.lost.load(Ordering::Relaxed), 7);
        let mut kept = Vec::new();
        while let Ok(span) = inbox.try_recv() {
            kept.push(span.at.trace);
        }
        kept.dedup();
        assert_eq!(kept.len(), 3, "and each is another trace");
    }
}
