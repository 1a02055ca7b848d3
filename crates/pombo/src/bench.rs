//! The benchmark: workloads by which other job queues are measured too, on a store as it is used.
//!
//! Full durability, and every message with its audit records, which are checked afterwards. Nothing is left out
//! for the sake of speed but the log.

mod campaign;
mod ground;
pub(crate) mod meter;
mod outlet;
mod stand;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use indicatif::ProgressBar;
use pombo_channels::sandbox::{Options, Sandbox};
use pombo_channels::webhook::{Webhook, WebhookSettings};
use pombo_kernel::secret::Secret;
use pombo_kernel::time::Span;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

pub(crate) use self::ground::Ground;
use self::ground::Plot;
use self::meter::{Cost, memory_mib};
use self::outlet::{Outlet, Task};
use self::stand::Stand;
use crate::cli::Trouble;
use crate::clock::Stopwatch;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Hand in messages in batches
    #[value(name = "W1")]
    Bulk,
    /// Hand in messages one by one, 32 under way
    #[value(name = "W1s")]
    Singles,
    /// Send what waits
    #[value(name = "W2")]
    Drain,
    /// One message each 5 ms: how soon it is being sent
    #[value(name = "W3")]
    Latency,
    /// Send what waits, with very many others that are not due
    #[value(name = "W4")]
    Backlog,
    /// Messages that fail twice, with 0 to 1 s between attempts
    #[value(name = "W5")]
    Retries,
    /// W3 beside a campaign on the same channel, many of its messages between two attempts
    #[value(name = "W6")]
    Beside,
    /// HTTP in, by batches, and HTTP out to a receiver in this process
    #[value(name = "HTTP")]
    Http,
    /// HTTP in, one by one, and HTTP out
    #[value(name = "HTTPs")]
    HttpSingles,
    /// Nothing to do, for ten seconds
    #[value(name = "IDLE")]
    Idle,
}

/// Where messages come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Door {
    Process,
    Http,
}

impl Door {
    fn as_str(self) -> &'static str {
        match self {
            Door::Process => "process",
            Door::Http => "http",
        }
    }
}

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) jobs: u64,
    pub(crate) single: u64,
    pub(crate) latency: u64,
    pub(crate) backlog: u64,
    pub(crate) ready: u64,
    pub(crate) retry: u64,
    pub(crate) recipients: u64,
    pub(crate) batch: u64,
    /// Sends under way at once; by default what suits the workload.
    pub(crate) workers: Option<u16>,
    /// Nodes of this process that share the store.
    pub(crate) nodes: u16,
}

/// Where the bar stands, if there is one.
#[derive(Clone, Debug)]
pub(crate) struct Progress(pub(crate) ProgressBar);

impl Progress {
    fn begin(&self, what: &'static str, length: u64) {
        self.0.set_length(length);
        self.0.set_position(0);
        self.0.set_message(what);
    }

    fn add(&self, count: u64) {
        self.0.inc(count);
    }
}

/// One result.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    name: &'static str,
    store: &'static str,
    durability: String,
    door: &'static str,
    nodes: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_system: Option<String>,
    run: u32,
    jobs: u64,
    seconds: f64,
    jobs_per_s: f64,
    cpu_us_per_job: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_cpu_us_per_job: Option<f64>,
    peak_rss_mib: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workers: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backlog: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    return_to_start_ms: Option<Quantiles>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_to_start_ms: Option<Quantiles>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_cpu_share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_transactions_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rss_mib: Option<f64>,
    audit_records: u64,
    commits: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Quantiles {
    p50: f64,
    p99: f64,
    max: f64,
}

impl Quantiles {
    fn of(mut values: Vec<f64>) -> Option<Quantiles> {
        values.sort_by(f64::total_cmp);
        let at = |share: usize| values.get((values.len() * share / 100).min(values.len().saturating_sub(1)));
        let (p50, p99, max) = (at(50)?, at(99)?, values.last()?);
        Some(Quantiles { p50: rounded(*p50, 3), p99: rounded(*p99, 3), max: rounded(*max, 3) })
    }
}

fn rounded(value: f64, digits: i32) -> f64 {
    let unit = 10f64.powi(digits);
    (value * unit).round() / unit
}

#[allow(clippy::cast_precision_loss, reason = "counts of messages are far below 2^52")]
fn float(count: u64) -> f64 {
    count as f64
}

/// As many sends under way as the batches by which others fetch their work.
const DRAIN_WORKERS: u16 = 2_000;
/// As many connections as the webhook channel keeps open to one receiver.
const HTTP_WORKERS: u16 = 128;
const HTTP_BATCH: u64 = 100;
/// Messages of W6's campaign that wait for another attempt.
const RETRYING: u64 = 1_000;
const PACE: Duration = Duration::from_millis(5);
const WARM_UP: u64 = 128;
const IDLE: Duration = Duration::from_secs(10);
/// Until whatever a start brings about is over.
const SETTLING: Duration = Duration::from_secs(3);
/// Signs what goes out; anybody may know it.
const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const NOWHERE: &str = "http://bench.invalid/";

/// Runs one workload on a store of its own, and removes it.
pub(crate) async fn run(
    workload: Workload,
    door: Door,
    sizes: &Sizes,
    ground: &Ground,
    run: u32,
    progress: &Progress,
) -> Result<Line, Trouble> {
    let bench = Bench { door, sizes, plot: ground.plot().await?, progress };
    let mut line = match workload {
        Workload::Bulk => bench.bulk().await,
        Workload::Singles => bench.singles().await,
        Workload::Drain => bench.drain("W2", sizes.jobs, 0).await,
        Workload::Latency => bench.latency("W3").await,
        Workload::Beside => bench.latency("W6").await,
        Workload::Backlog => bench.drain("W4", sizes.ready, sizes.backlog).await,
        Workload::Retries => bench.retries().await,
        Workload::Http => bench.http("HTTP", sizes.jobs).await,
        Workload::HttpSingles => bench.http("HTTPs", sizes.single).await,
        Workload::Idle => bench.idle().await,
    }?;
    line.run = run;
    Ok(line)
}

struct Bench<'a> {
    door: Door,
    sizes: &'a Sizes,
    plot: Plot,
    progress: &'a Progress,
}

impl Bench<'_> {
    fn workers(&self) -> u16 {
        self.sizes.workers.unwrap_or(DRAIN_WORKERS)
    }

    async fn stand(&self) -> Result<Stand, Trouble> {
        let mut stand = self.stand_for(self.workers(), NOWHERE, self.sizes.batch).await?;
        if self.door == Door::Http {
            stand.open_door().await?;
        }
        Ok(stand)
    }

    async fn stand_for(&self, workers: u16, to: &str, batch: u64) -> Result<Stand, Trouble> {
        Stand::open(&self.plot.place(), self.sizes.nodes, workers, to, batch).await
    }

    fn line(&self, name: &'static str, jobs: u64, cost: Cost) -> Line {
        let seconds = cost.time.as_secs_f64();
        let per_job = |cpu: f64| rounded(cpu * 1e6 / float(jobs), 2);
        Line {
            name,
            store: self.plot.store(),
            durability: self.plot.durability(),
            door: self.door.as_str(),
            nodes: self.sizes.nodes,
            file_system: self.plot.file_system(),
            run: 0,
            jobs,
            seconds: rounded(seconds, 4),
            jobs_per_s: rounded(float(jobs) / seconds, 0),
            cpu_us_per_job: cost.cpu.filter(|_| jobs > 0).map(per_job),
            server_cpu_us_per_job: cost.server_cpu.filter(|_| jobs > 0).map(per_job),
            peak_rss_mib: cost.peak_mib.map(|mib| rounded(mib, 1)),
            workers: None,
            backlog: None,
            calls: None,
            calls_per_s: None,
            return_to_start_ms: None,
            call_to_start_ms: None,
            cpu_share: None,
            server_cpu_share: None,
            server_transactions_per_s: None,
            rss_mib: None,
            audit_records: 0,
            commits: 0,
            note: match (self.door, self.sizes.nodes) {
                (Door::Http, _) => Some("the callers run in the same process"),
                (Door::Process, 1) => None,
                (Door::Process, _) => Some("the nodes run in the same process, each with a store of its own"),
            },
        }
    }

    async fn ended(&self, line: Line, stand: Arc<Stand>) -> Result<Line, Trouble> {
        stand.stop_engines().await;
        self.plot.sealed().await?;
        let (audit_records, commits) = stand.close().await?;
        Ok(Line { audit_records, commits, ..line })
    }

    async fn bulk(&self) -> Result<Line, Trouble> {
        let (stand, jobs) = (Arc::new(self.stand().await?), self.sizes.jobs);
        self.progress.begin("W1 handing in", jobs);
        let meter = self.plot.meter();
        stand.bulk(0, jobs, None, self.progress).await?;
        let line = self.line("W1", jobs, meter.stop());
        self.ended(line, stand).await
    }

    async fn singles(&self) -> Result<Line, Trouble> {
        let (stand, jobs) = (Arc::new(self.stand().await?), self.sizes.single);
        self.progress.begin("W1s handing in", jobs);
        let meter = self.plot.meter();
        stand.singles(0, jobs, self.progress).await?;
        let line = self.line("W1s", jobs, meter.stop());
        self.ended(line, stand).await
    }

    /// Fills the store, starts an engine on it, and waits until the store says that all is sent.
    async fn drain(&self, name: &'static str, jobs: u64, backlog: u64) -> Result<Line, Trouble> {
        let stand = Arc::new(self.stand().await?);
        if backlog > 0 {
            let tomorrow = stand.now() + Span::from_hours(24);
            self.progress.begin("filling the backlog", backlog);
            stand.bulk(10_000_000, backlog, Some(tomorrow), self.progress).await?;
        }
        self.progress.begin("filling", jobs);
        stand.bulk(0, jobs, None, self.progress).await?;
        self.plot.settle().await?;
        let outlet = Arc::new(Outlet::new(Task::Take));
        let mut stand = unshared(stand)?;
        self.progress.begin("draining", jobs);
        let meter = self.plot.meter();
        stand.start_engines(&(outlet.clone() as _));
        self.arrived(&outlet, jobs).await;
        stand.sent(jobs).await?;
        let line = Line {
            workers: Some(self.workers()),
            backlog: Some(backlog).filter(|backlog| *backlog > 0),
            calls: Some(outlet.calls()),
            ..self.line(name, jobs, meter.stop())
        };
        self.ended(line, Arc::new(stand)).await
    }

    async fn arrived(&self, outlet: &Outlet, jobs: u64) {
        while outlet.taken() < jobs {
            tokio::time::sleep(Duration::from_millis(5)).await;
            self.progress.0.set_position(outlet.taken());
        }
    }

    async fn retries(&self) -> Result<Line, Trouble> {
        let (stand, jobs) = (Arc::new(self.stand().await?), self.sizes.retry);
        self.progress.begin("filling", jobs);
        stand.bulk(0, jobs, None, self.progress).await?;
        self.plot.settle().await?;
        let outlet = Arc::new(Outlet::new(Task::refuse_twice(jobs)));
        let mut stand = unshared(stand)?;
        self.progress.begin("sending, with two failures each", jobs);
        let meter = self.plot.meter();
        stand.start_engines(&(outlet.clone() as _));
        self.arrived(&outlet, jobs).await;
        stand.sent(jobs).await?;
        let cost = meter.stop();
        let line = Line {
            workers: Some(self.workers()),
            calls: Some(outlet.calls()),
            calls_per_s: Some(rounded(float(outlet.calls()) / cost.time.as_secs_f64(), 0)),
            ..self.line("W5", jobs, cost)
        };
        self.ended(line, Arc::new(stand)).await
    }

    /// One message each 5 ms; in W6 beside a campaign.
    async fn latency(&self, name: &'static str) -> Result<Line, Trouble> {
        let jobs = self.sizes.latency;
        let watch = Stopwatch::start();
        let outlet = Arc::new(Outlet::new(Task::time(watch, jobs)));
        let mut stand = self.stand().await?;
        let beside = (name == "W6").then_some(self.sizes.recipients);
        if let Some(recipients) = beside {
            stand.run_campaign(recipients, RETRYING.min(recipients), self.progress).await?;
        }
        stand.start_engines(&(outlet.clone() as _));
        let stand = Arc::new(stand);
        stand.singles(10_000_000, WARM_UP, self.progress).await?;
        stand.sent(WARM_UP).await?;
        let model = stand.ready_model()?;
        self.progress.begin("one each 5 ms", jobs);
        let mut pace = tokio::time::interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let meter = self.plot.meter();
        let mut calls = JoinSet::new();
        for number in 0..jobs {
            pace.tick().await;
            let (stand, model) = (stand.clone(), model.clone());
            calls.spawn(async move {
                let called = watch.elapsed();
                stand.one(number, number, &model).await?;
                Ok::<_, Trouble>((number, called, watch.elapsed()))
            });
            self.progress.add(1);
        }
        let mut times = Vec::new();
        while let Some(done) = calls.join_next().await {
            times.push(
                done.unwrap_or_else(|error| Err(Trouble::new("a task failed", "INTERNAL").why(error)))?,
            );
        }
        for number in 0..usize::try_from(jobs).unwrap_or(0) {
            while outlet.arrived(number).is_none() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        stand.sent(WARM_UP + jobs).await?;
        let cost = meter.stop();
        let (mut from_return, mut from_call) = (Vec::new(), Vec::new());
        for (number, called, returned) in times {
            let arrived = outlet.arrived(usize::try_from(number).unwrap_or(usize::MAX));
            let arrived = arrived.ok_or_else(|| Trouble::new("a message never arrived", "INTERNAL"))?;
            let since = |then: Duration| (arrived.as_secs_f64() - then.as_secs_f64()) * 1000.0;
            from_call.push(since(called));
            from_return.push(since(returned));
        }
        let line = Line {
            return_to_start_ms: Quantiles::of(from_return),
            call_to_start_ms: Quantiles::of(from_call),
            backlog: beside,
            note: beside
                .map(|_| "beside a campaign of `backlog` recipients, 1,000 of them between two attempts"),
            ..self.line(name, jobs, cost)
        };
        self.ended(line, stand).await
    }

    /// In through the HTTP door, out through the webhook channel, to a receiver in this same process.
    async fn http(&self, name: &'static str, jobs: u64) -> Result<Line, Trouble> {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let sink = Sandbox::start(local, &Options::default())
            .await
            .map_err(|error| Trouble::new("the receiver cannot start", "ADDRESS_UNAVAILABLE").why(error))?;
        let workers = self.sizes.workers.unwrap_or(HTTP_WORKERS);
        let batch = self.sizes.batch.min(HTTP_BATCH);
        let mut stand = self.stand_for(workers, &sink.url("/ok"), batch).await?;
        let secret = Some(Secret::new(SECRET));
        let settings = WebhookSettings { secret, allow_private: true, ..WebhookSettings::default() };
        let webhook =
            Webhook::new(&settings).map_err(|_| Trouble::new("the channel cannot be set up", "INTERNAL"))?;
        stand.open_door().await?;
        stand.start_engines(&(Arc::new(webhook) as _));
        let stand = Arc::new(stand);
        self.progress.begin("HTTP in and out", jobs);
        let meter = self.plot.meter();
        match name {
            "HTTP" => stand.bulk(0, jobs, None, self.progress).await?,
            _ => stand.singles(0, jobs, self.progress).await?,
        }
        stand.sent(jobs).await?;
        let cost = meter.stop();
        let line = Line {
            door: Door::Http.as_str(),
            workers: Some(workers),
            calls: Some(sink.stats().total),
            note: Some("callers and receiver run in the same process; in, durable, signed, out"),
            ..self.line(name, jobs, cost)
        };
        let line = self.ended(line, stand).await;
        sink.stop().await;
        line
    }

    async fn idle(&self) -> Result<Line, Trouble> {
        let mut stand = self.stand().await?;
        if self.door == Door::Process {
            stand.open_door().await?;
        }
        stand.start_engines(&(Arc::new(Outlet::new(Task::Take)) as _));
        self.progress.begin("idle", 10);
        tokio::time::sleep(SETTLING).await;
        let before = self.plot.transactions().await?;
        let meter = self.plot.meter();
        tokio::time::sleep(IDLE).await;
        let cost = meter.stop();
        let after = self.plot.transactions().await?;
        let seconds = cost.time.as_secs_f64();
        let share = |cpu: f64| rounded(cpu / seconds, 5);
        let transactions = after.zip(before).and_then(|(after, before)| u64::try_from(after - before).ok());
        let line = Line {
            cpu_share: cost.cpu.map(share),
            server_cpu_share: cost.server_cpu.map(share),
            server_transactions_per_s: transactions.map(|count| rounded(float(count) / seconds, 2)),
            rss_mib: memory_mib("VmRSS:").map(|mib| rounded(mib, 1)),
            note: Some("engine and HTTP door, nothing to do"),
            ..self.line("IDLE", 0, cost)
        };
        self.ended(line, Arc::new(stand)).await
    }
}

fn unshared(stand: Arc<Stand>) -> Result<Stand, Trouble> {
    Arc::try_unwrap(stand).map_err(|_| Trouble::new("the benchmark is still running", "INTERNAL"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let values = (1..=200).rev().map(f64::from).collect();
        let Quantiles { p50, p99, max } = Quantiles::of(values).unwrap();
        assert_eq!((p50, p99, max), (101.0, 199.0, 200.0));
        assert!(Quantiles::of(Vec::new()).is_none());
    }
}
