//! `pombo simulate`: policies tried on pretend outages, or held against recorded retries.

mod history;
mod report;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pombo_kernel::policy::Policy;
use pombo_kernel::rehearsal::{Comparison, Lengths, Scenario, Trouble as Woe, Turns};
use pombo_kernel::time::{Clock as _, Span};

use self::report::Row;
use super::{ConfigArgs, Shared, Trouble, policy};
use crate::clock::SystemClock;
use crate::config::{Needs, suggestion};

/// The policies of the source documents.
const SEEDS: [&str; 4] = ["whatsapp", "smtp", "resend", "claims"];

#[derive(Debug, Args)]
#[command(
    after_help = "Every policy meets the same messages three times: as it is, adaptive without knowing anything, and
adaptive after as many earlier messages of the same kind. No time passes, nothing is sent, and the same seed prints
the same. What the columns mean: docs/reference/learning.md.

Examples:
  pombo simulate                                     the published scenarios, the policies of the source documents
  pombo simulate smtp --scenario outage              one policy, one scenario
  pombo simulate whatsapp mine --config pombo.toml   one of your own beside a built-in one
  pombo simulate --down 30s..20m --permanent 10      trouble of your own: down for so long, a tenth never passes
  pombo simulate --flapping 90s/45s --lasts 1h       90 s down and 45 s up on average, for an hour
  pombo simulate --limit 60 --arrivals 120 --lasts 10m
  pombo simulate smtp --history server               what recorded retries say of it, at worst and at best
  pombo simulate --history learning.json --category timeout --json"
)]
pub(crate) struct Simulate {
    /// Policies by name, `all` for every one of the configuration [default: whatsapp smtp resend claims]
    policies: Vec<String>,
    /// blips, restart, outage, flapping, rate-limit or mixed; can be given more than once [default: all]
    #[arg(long, value_name = "NAME")]
    scenario: Vec<String>,
    /// Instead: nothing passes for a time between these two
    #[arg(long, value_name = "FROM..TO", conflicts_with_all = ["scenario", "flapping", "limit"])]
    down: Option<Lengths>,
    /// Instead: down and up in turn, for such times on average
    #[arg(long, value_name = "DOWN/UP", conflicts_with_all = ["scenario", "limit"])]
    flapping: Option<Turns>,
    /// Instead: so many a minute pass and no more
    #[arg(long, value_name = "N", conflicts_with = "scenario", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: Option<u32>,
    /// How long flapping or the limit lasts
    #[arg(long, value_name = "TIME", default_value = "1h")]
    lasts: Span,
    /// Messages that arrive in a minute of trouble
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    arrivals: Option<u32>,
    /// Of a hundred messages so many never pass, and their error does not say so
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    permanent: Option<u8>,
    /// Messages in each scenario
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    messages: u32,
    /// The same seed plays the same
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Recorded retries instead of pretend outages: `server`, or a file with what GET /v1/learning answered or with one
    /// row a line; `-` is standard input
    #[arg(long, value_name = "SOURCE", conflicts_with_all = ["scenario", "down", "flapping", "limit"])]
    history: Option<PathBuf>,
    /// Of the recorded retries, those after failures of this category
    #[arg(long, requires = "history")]
    category: Option<String>,
    /// Of the recorded retries, those of this channel
    #[arg(long, requires = "history")]
    channel: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
}

pub(crate) async fn run(args: Simulate, shared: &Shared) -> Result<(), Trouble> {
    let policies = chosen(&args)?;
    if let Some(source) = &args.history {
        return history::run(source, &args, &policies, shared).await;
    }
    let scenarios = scenarios(&args)?;
    let progress = Progress::new(scenarios.len() * policies.len());
    for scenario in &scenarios {
        let messages = usize::try_from(args.messages).unwrap_or(usize::MAX);
        let slot = Span::from_millis((scenario.typical().millis() / 20).max(1));
        let stage = Comparison::new(scenario, messages, slot, args.seed);
        let mut rows = Vec::new();
        for policy in &policies {
            rows.extend(stage.of(policy).map(|played| Row { policy: policy.name.clone(), played }));
            progress.step(&format!("{}, {}", scenario.name, policy.name));
        }
        progress.bar.suspend(|| report::print(scenario, &rows, shared));
    }
    progress.bar.finish_and_clear();
    Ok(())
}

/// The policies that were asked for.
fn chosen(args: &Simulate) -> Result<Vec<Policy>, Trouble> {
    let config = args.config.load_for(Needs::Rules)?;
    let named: Vec<&str> = args.policies.iter().map(String::as_str).collect();
    Ok(match named.as_slice() {
        [] => SEEDS.iter().filter_map(|name| config.policy(name)).cloned().collect(),
        ["all"] => config.policies.values().cloned().collect(),
        names => names.iter().map(|name| policy::find(&config, name).cloned()).collect::<Result<_, _>>()?,
    })
}

fn scenarios(args: &Simulate) -> Result<Vec<Scenario>, Trouble> {
    let lasts = args.lasts;
    let own = match (args.down, args.flapping, args.limit) {
        (Some(Lengths { least, most }), _, _) => Some(Woe::Down { least, most }),
        (_, Some(Turns { down, up }), _) => Some(Woe::Flapping { lasts, down, up }),
        (_, _, Some(takes)) => Some(Woe::Limited { lasts, takes: takes.into() }),
        _ => None,
    };
    let scenarios: Vec<Scenario> = match own {
        Some(trouble) => vec![Scenario::own(trouble)],
        None => {
            let all = args.scenario.is_empty() || args.scenario.iter().any(|name| name == "all");
            let names: Vec<&str> = match all {
                true => Scenario::PUBLISHED.to_vec(),
                false => args.scenario.iter().map(String::as_str).collect(),
            };
            names.into_iter().map(published).collect::<Result<_, _>>()?
        }
    };
    scenarios.into_iter().map(|scenario| playable(scenario.with(args.arrivals, args.permanent))).collect()
}

fn playable(scenario: Scenario) -> Result<Scenario, Trouble> {
    match scenario.wrong().first() {
        None => Ok(scenario),
        Some(wrong) => Err(Trouble::usage(format!("{}: `{}` {}", scenario.says, wrong.part, wrong.reason))),
    }
}

fn published(name: &str) -> Result<Scenario, Trouble> {
    Scenario::published(name).ok_or_else(|| {
        Trouble::usage(format!("there is no scenario `{name}`")).hint(suggestion(name, Scenario::PUBLISHED))
    })
}

/// A bar for whatever takes longer than a second, where somebody looks.
struct Progress {
    bar: ProgressBar,
    clock: SystemClock,
}

impl Progress {
    fn new(steps: usize) -> Progress {
        let bar = ProgressBar::hidden();
        bar.set_length(u64::try_from(steps).unwrap_or(0));
        if let Ok(style) = ProgressStyle::with_template("{bar:20.cyan/dim} {pos}/{len} · {wide_msg}") {
            bar.set_style(style);
        }
        Progress { bar, clock: SystemClock::new() }
    }

    fn step(&self, done: &str) {
        let shown = std::io::stderr().is_terminal() && self.clock.elapsed() > Duration::from_secs(1);
        if shown && self.bar.is_hidden() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_message(done.to_owned());
        self.bar.inc(1);
    }
}
