//! The command line: `pombo <noun> <verb>`.
//!
//! Exit 0 is success, 1 failure, 2 wrong usage. A command's result goes to standard output and everything else
//! to standard error, so that results can be piped.

mod alerts;
mod audit;
mod bench;
mod campaigns;
mod channels;
mod classify;
mod config;
mod dead;
mod decide;
mod demo;
mod doctor;
mod erase;
mod events;
mod import;
mod keys;
mod learning;
mod messages;
mod operations;
pub(crate) mod out;
mod place;
mod policy;
mod prune;
mod rekey;
mod reports;
mod reveal;
mod rules;
mod sandbox;
mod send;
mod serve;
mod simulate;
mod stats;
mod store;
mod suppressions;
mod templates;
pub(crate) mod trouble;
mod webhooks;
mod when;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use pombo_kernel::policy::Profile;

use crate::client::{Client, DEFAULT_SERVER};
use crate::config::{Config, Environment, Needs, Source};

pub use self::trouble::{Blame, Trouble};

/// A durable outbound delivery engine: hand it messages; it delivers each one, or says plainly that it could
/// not, and why
#[derive(Debug, Parser)]
#[command(
    name = "pombo",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "First steps:
  pombo demo                                    see it work: pretend providers, no set-up
  pombo serve                                   the engine and its API
  pombo send --channel webhook --to https://example.com/hook --content '{\"body\": {\"a\": 1}}' --wait
  pombo messages list --state failed

Commands that talk to a server use --server or POMBO_SERVER, and the key in POMBO_API_KEY."
)]
struct Cli {
    #[command(flatten)]
    shared: Shared,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Shared {
    /// Print JSON: one document, or one object a line for lists
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The server to talk to
    #[arg(long, global = true, env = "POMBO_SERVER", default_value = DEFAULT_SERVER, value_name = "URL")]
    pub(crate) server: String,
}

impl Shared {
    /// A client for the server, with the key from the environment.
    pub(crate) fn client(&self) -> Result<Client, Trouble> {
        let key = std::env::var("POMBO_API_KEY").ok().filter(|key| !key.is_empty());
        Ok(Client::new(&self.server, key.as_deref())?)
    }
}

/// Which configuration to read.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The configuration file [default: pombo.toml, if present]
    #[arg(long, env = "POMBO_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Which set of built-in policies applies
    #[arg(long, value_enum)]
    profile: Option<ProfileArg>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProfileArg {
    Development,
    Production,
}

impl ConfigArgs {
    pub(crate) fn source(&self) -> Source {
        let profile = self.profile.map(|profile| match profile {
            ProfileArg::Development => Profile::Development,
            ProfileArg::Production => Profile::Production,
        });
        Source::find(self.config.clone(), profile)
    }

    pub(crate) fn load(&self) -> Result<Config, Trouble> {
        self.load_for(Needs::Everything)
    }

    /// The same for a command that uses only a part: what others need may be missing from its environment.
    pub(crate) fn load_for(&self, needs: Needs) -> Result<Config, Trouble> {
        Ok(Config::load(self.source(), &Environment::of_process().for_use_of(needs))?)
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the engine and its API
    Serve(serve::Serve),
    /// See it work: pretend providers with faults, no set-up
    Demo(demo::Demo),
    /// Run the pretend providers alone
    Sandbox(sandbox::Sandbox),
    /// Send one message
    Send(Box<send::Send>),
    /// List, show, cancel, retry and import messages
    #[command(subcommand)]
    Messages(messages::Verb),
    /// Work on dead letters: by cause, edit, reprocess, discard
    #[command(subcommand)]
    Dead(dead::Verb),
    /// Follow and cancel work on many messages
    #[command(subcommand)]
    Operations(operations::Verb),
    /// Write to many people at a pace: from a list to a report
    #[command(subcommand)]
    Campaigns(campaigns::Verb),
    /// List, test, hold and release channels
    #[command(subcommand)]
    Channels(channels::Verb),
    /// List, show, put and render templates
    #[command(subcommand)]
    Templates(templates::Verb),
    /// List, check, add, remove, import and export who is not written to
    #[command(subcommand)]
    Suppressions(suppressions::Verb),
    /// Count messages, of all time or in a range, and say how well it goes
    Stats(stats::Stats),
    /// Show how likely retries are to pass, and how long outages last
    Learning(learning::Learning),
    /// List, suggest, try and accept rules that say what errors mean
    #[command(subcommand)]
    Rules(rules::Verb),
    /// Follow what happens, as it happens
    Events(events::Follow),
    /// List, create, change, test and remove webhooks that are told of events
    #[command(subcommand)]
    Webhooks(webhooks::Verb),
    /// List, acknowledge and silence what is wrong; list rules and test who is told
    #[command(subcommand)]
    Alerts(alerts::Verb),
    /// List, show and send the reports that people get regularly
    #[command(subcommand)]
    Reports(reports::Verb),
    /// List, verify and export what happened and by whom
    #[command(subcommand)]
    Audit(audit::Verb),
    /// List, make, change, rotate and revoke API keys
    #[command(subcommand)]
    Keys(keys::Verb),
    /// Show retry policies and preview their schedules
    #[command(subcommand)]
    Policy(policy::Verb),
    /// Try policies on pretend outages, or on recorded retries, before trusting them
    Simulate(Box<simulate::Simulate>),
    /// Say what an error means and which rule says so
    Classify(classify::Classify),
    /// Decide whether a claim that failed is submitted again, and when
    Decide(Box<decide::Decide>),
    /// Check, migrate, back up, copy, pause and resume a whole store
    #[command(subcommand)]
    Store(store::Verb),
    /// Look at configuration, store, disk, clock, channels and secrets, and say what to do
    Doctor(doctor::Doctor),
    /// Check a configuration, print an example or the schema
    #[command(subcommand)]
    Config(config::Verb),
    /// Measure: the benchmark workloads, one JSON line each
    Bench(bench::Bench),
    /// Print completions for a shell
    #[command(after_help = "Example:\n  pombo completions bash > /etc/bash_completion.d/pombo")]
    Completions { shell: clap_complete::Shell },
}

/// Runs the command that the process was started with.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let wrong = error.use_stderr();
            match wrong && std::env::args_os().any(|arg| arg == "--json") {
                true => misread(&error.to_string()).print(true),
                false => drop(error.print()),
            }
            return ExitCode::from(if wrong { 2 } else { 0 });
        }
    };
    let json = cli.shared.json;
    match perform(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            trouble.print(json);
            trouble.exit()
        }
    }
}

/// What the parser of commands says, for whoever asked for JSON.
fn misread(said: &str) -> Trouble {
    let mut parts = said.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let why = parts.next().unwrap_or_default();
    let why = why.strip_prefix("error: ").unwrap_or(&why).to_owned();
    let hint = parts.find(|part| part.starts_with("tip: ") || part.starts_with("Usage: "));
    Trouble::usage("the command cannot be read").why(why).hint(hint.unwrap_or_default())
}

fn perform(cli: Cli) -> Result<(), Trouble> {
    let shared = &cli.shared;
    match cli.command {
        Command::Serve(args) => work(serve::run(args, shared)),
        Command::Demo(args) => work(demo::run(args, shared)),
        Command::Sandbox(args) => work(sandbox::run(args, shared)),
        Command::Send(args) => wait_for(send::run(*args, shared)),
        Command::Messages(verb) => wait_for(messages::run(verb, shared)),
        Command::Dead(verb) => wait_for(dead::run(verb, shared)),
        Command::Operations(verb) => wait_for(operations::run(verb, shared)),
        Command::Campaigns(verb) => wait_for(campaigns::run(verb, shared)),
        Command::Channels(verb) => wait_for(channels::run(verb, shared)),
        Command::Templates(verb) => wait_for(templates::run(verb, shared)),
        Command::Suppressions(verb) => wait_for(suppressions::run(verb, shared)),
        Command::Stats(args) => wait_for(stats::run(args, shared)),
        Command::Learning(args) => wait_for(learning::run(args, shared)),
        Command::Rules(verb) => wait_for(rules::run(verb, shared)),
        Command::Events(args) => wait_for(events::run(args, shared)),
        Command::Webhooks(verb) => wait_for(webhooks::run(verb, shared)),
        Command::Alerts(verb) => wait_for(alerts::run(verb, shared)),
        Command::Reports(verb) => wait_for(reports::run(verb, shared)),
        Command::Audit(verb) => audit::run(verb, shared),
        Command::Keys(verb) => wait_for(keys::run(verb, shared)),
        Command::Policy(verb) => policy::run(verb, shared),
        Command::Simulate(args) => wait_for(simulate::run(*args, shared)),
        Command::Classify(args) => classify::run(args, shared),
        Command::Decide(args) => wait_for(decide::run(*args, shared)),
        Command::Store(verb) => store::run(verb, shared),
        Command::Doctor(args) => doctor::run(&args, shared),
        Command::Config(verb) => config::run(verb, shared),
        Command::Bench(args) => work(bench::run(args, shared)),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "pombo", &mut script);
            out::line(String::from_utf8_lossy(&script).trim_end());
            Ok(())
        }
    }
}

/// Runs what talks to a server; one thread is plenty for one caller.
fn wait_for(work: impl Future<Output = Result<(), Trouble>>) -> Result<(), Trouble> {
    block_on(tokio::runtime::Builder::new_current_thread(), work)
}

/// Runs a server, on all cores.
fn work(work: impl Future<Output = Result<(), Trouble>>) -> Result<(), Trouble> {
    block_on(tokio::runtime::Builder::new_multi_thread(), work)
}

fn block_on(
    mut builder: tokio::runtime::Builder,
    work: impl Future<Output = Result<(), Trouble>>,
) -> Result<(), Trouble> {
    let runtime = builder.enable_all().build();
    let runtime =
        runtime.map_err(|error| Trouble::new("the program cannot start", "NO_RUNTIME").why(error))?;
    let done = runtime.block_on(work);
    // What is still running then has nothing left to do: everything that matters was waited for.
    runtime.shutdown_background();
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_command_that_cannot_be_read_is_a_problem_like_others() {
        let said =
            Cli::try_parse_from(["pombo", "events", "--after", "x", "--json"]).unwrap_err().to_string();
        let trouble = misread(&said);
        assert_eq!((trouble.code.as_str(), trouble.fault), ("BAD_USAGE", Blame::Usage));
        let why = trouble.why.unwrap();
        assert!(why.contains("--after") && why.contains("write the `position` of an event"), "{why}");
        let discard = Cli::try_parse_from(["pombo", "dead", "discard", "--all", "--canary", "1"]);
        let said = discard.unwrap_err().to_string();
        assert!(misread(&said).why.unwrap().contains("unexpected argument '--canary'"), "{said}");
        assert!(Cli::try_parse_from(["pombo", "dead", "reprocess", "--all", "--canary", "1"]).is_ok());
    }
}
