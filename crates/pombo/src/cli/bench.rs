//! `pombo bench`: the benchmark workloads, one JSON line each.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::{Args, ValueEnum as _};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pombo_kernel::secret::Secret;
use pombo_store::postgres::Target;

use super::out;
use super::place;
use super::serve::{Signals, start_log};
use super::{Shared, Trouble};
use crate::bench::{self, Door, Ground, Progress, Sizes, Workload};

#[derive(Debug, Args)]
#[command(
    after_help = "Each workload gets a new store, on disk and fully durable, and every message its audit records.
On PostgreSQL that is a database of its own, as durable as the server is set up; it is removed afterwards.
One JSON line a run goes to standard output.

Examples:
  pombo bench                          all of them, as the reference figures were made
  pombo bench W1 W2 --runs 5
  pombo bench W1 W1s --door http
  pombo bench W4 --backlog 1000000 --data /var/tmp
  pombo bench W1 W2 --database-url postgres://bench@127.0.0.1/postgres --nodes 2"
)]
pub(crate) struct Bench {
    /// Which workloads; all if none are named
    #[arg(value_enum, ignore_case = true)]
    workloads: Vec<Workload>,
    /// Where messages come in
    #[arg(long, value_enum, default_value = "process")]
    door: Door,
    /// Messages of W1, W2 and HTTP
    #[arg(long, default_value_t = 100_000, value_parser = count())]
    jobs: u64,
    /// Messages of W1s and HTTPs
    #[arg(long, default_value_t = 20_000, value_parser = count())]
    single: u64,
    /// Messages of W3 and W6
    #[arg(long, default_value_t = 2_000, value_parser = count())]
    latency: u64,
    /// Messages of W4 that are not due
    #[arg(long, default_value_t = 1_000_000, value_parser = count())]
    backlog: u64,
    /// Messages of W4 that are
    #[arg(long, default_value_t = 50_000, value_parser = count())]
    ready: u64,
    /// Messages of W5
    #[arg(long, default_value_t = 20_000, value_parser = count())]
    retry: u64,
    /// Recipients of W6's campaign
    #[arg(long, default_value_t = 100_000, value_parser = count())]
    recipients: u64,
    /// Messages in one batch; at most 100 in HTTP
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    batch: u64,
    /// Sends under way at once [default: 2000, and 128 where they are HTTP requests]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,
    /// How often each workload runs
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    runs: u32,
    /// Where the stores are made and removed again; not in memory
    #[arg(long, default_value = ".", value_name = "DIR")]
    data: PathBuf,
    /// A PostgreSQL server to measure on instead; the user must be allowed to make databases
    #[arg(long, value_name = "URL", value_parser = place::secret, conflicts_with = "data")]
    database_url: Option<Secret>,
    /// So many nodes share the store, all in this process; needs --database-url
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=16))]
    nodes: u16,
}

fn count() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=10_000_000)
}

pub(crate) async fn run(args: Bench, _: &Shared) -> Result<(), Trouble> {
    let _log = start_log(Some("off"))?;
    let mut signals = Signals::listen()?;
    tokio::select! {
        done = measure(&args) => done,
        () = signals.next_stop() => Err(Trouble::new("stopped before the end", "INTERRUPTED")),
    }
}

async fn measure(args: &Bench) -> Result<(), Trouble> {
    let sizes = Sizes {
        jobs: args.jobs,
        single: args.single,
        latency: args.latency,
        backlog: args.backlog,
        ready: args.ready,
        retry: args.retry,
        recipients: args.recipients,
        batch: args.batch,
        workers: args.workers,
        nodes: args.nodes,
    };
    let ground = ground(args)?;
    let in_memory = |kind: String| matches!(kind.as_str(), "tmpfs" | "ramfs");
    if matches!(ground, Ground::Folder(_)) && bench::meter::file_system(&args.data).is_some_and(in_memory) {
        out::note(format!(
            "warning: {} is in memory, so nothing here is durable; use --data",
            args.data.display()
        ));
    }
    let all = Workload::value_variants();
    let workloads = if args.workloads.is_empty() { all } else { &args.workloads };
    let progress = Progress(bar());
    for run in 1..=args.runs {
        for workload in workloads {
            let line = bench::run(*workload, args.door, &sizes, &ground, run, &progress).await?;
            progress.0.suspend(|| out::object(&line));
        }
    }
    progress.0.finish_and_clear();
    Ok(())
}

fn ground(args: &Bench) -> Result<Ground, Trouble> {
    match &args.database_url {
        None if args.nodes > 1 => Err(Trouble::usage("--nodes needs PostgreSQL")
            .why("the embedded store belongs to one node")
            .hint("name a server with --database-url")),
        None => Ok(Ground::Folder(args.data.clone())),
        Some(url) => Target::parse(url.expose()).map(Ground::Server).map_err(place::unreadable),
    }
}

fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{bar:20.cyan/dim} {pos}/{len} · {wide_msg}") {
        bar.set_style(style);
    }
    bar
}
