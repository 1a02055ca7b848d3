//! `pombo serve`: the engine and its API, until told to stop.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::name::LaneName;
use pombo_kernel::time::Span;
use pombo_store::meter::show;
use pombo_store::postgres::{ANOTHER_VERSION, EARLIER_STORE};
use pombo_store::{Pause, StoreError};
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use super::out::{self, Paint};
use super::place::PlaceArgs;
use super::{ConfigArgs, Shared, Trouble};
use crate::client::DEFAULT_SERVER;
use crate::config::{Config, Environment, suggestion};
use crate::log;
use crate::node::{self, Node, NodeError, NodeRole, Parts, Place, Roles};

#[derive(Debug, Args)]
#[command(
    after_help = "The first start makes an admin key and prints it once; POMBO_ADMIN_KEY sets it instead.
SIGTERM or Ctrl-C stops it well, a second one at once. SIGHUP reads the configuration again.
POMBO_LOG says what is logged, for example `info` or `pombo_engine=debug,info`.

Examples:
  pombo serve
  pombo serve --config /etc/pombo/pombo.toml --data /var/lib/pombo --listen 0.0.0.0:7662
  POMBO_DATABASE_URL=postgres://pombo:secret@db/pombo pombo serve --roles api
  pombo serve --smtp-listen 127.0.0.1:2525
  pombo serve --profile development"
)]
pub(crate) struct Serve {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    place: PlaceArgs,
    /// The address of the HTTP API [default: 127.0.0.1:7662]
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// The lanes that this node works, such as realtime,bulk [default: all]
    #[arg(long, value_delimiter = ',', value_name = "LANES")]
    lanes: Vec<LaneName>,
    /// How long a stop waits for what is being sent
    #[arg(long, default_value = "30s", value_name = "SPAN")]
    grace: Span,
    /// Takes mails in over SMTP at this address, for channels of the kinds smtp and resend [default: not at all]
    #[arg(long, value_name = "ADDR")]
    smtp_listen: Option<SocketAddr>,
    /// What this node does; needs PostgreSQL [default: everything]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ROLES")]
    roles: Vec<NodeRole>,
}

/// Roles can be split only where nodes can share the work.
fn check_roles(
    roles: &Roles,
    place: &Place,
    lanes: &[LaneName],
    smtp: Option<SocketAddr>,
) -> Result<(), Trouble> {
    if let (Place::Embedded(_), false) = (place, roles.are_all()) {
        return Err(Trouble::usage("--roles needs PostgreSQL")
            .why("the embedded store belongs to one process, which has to do everything")
            .hint("leave --roles out, or name a database with --database-url"));
    }
    if !lanes.is_empty() && !roles.has(NodeRole::Worker) {
        return Err(Trouble::usage("--lanes says what a worker works, and this node is none")
            .hint("leave --lanes out, or add `worker` to --roles"));
    }
    if smtp.is_some() && !roles.has(NodeRole::Api) {
        return Err(Trouble::usage("--smtp-listen opens a door, and this node has none")
            .hint("leave --smtp-listen out, or add `api` to --roles"));
    }
    Ok(())
}

pub(crate) async fn run(args: Serve, shared: &Shared) -> Result<(), Trouble> {
    let mut config = args.config.load()?;
    config.smtp.listen = args.smtp_listen.or(config.smtp.listen);
    check_lanes(&args.lanes, &config)?;
    let (place, roles) = (args.place.place(&config)?, Roles::of(&args.roles));
    check_roles(&roles, &place, &args.lanes, args.smtp_listen)?;
    if let (Place::Embedded(_), Some(_)) = (&place, config.keep) {
        return Err(Trouble::usage("store.keep needs PostgreSQL")
            .why("it drops whole months, and an embedded store has none")
            .hint("write what is to be kept under [retention], or name a database with --database-url"));
    }
    let log = start_log(None)?;
    let mut signals = Signals::listen()?;
    let has_door = roles.has(NodeRole::Api);
    let opened = node::open(place, roles, config.keep).await?;
    show(opened.registry(), log.dropped().clone());
    let given = std::env::var("POMBO_ADMIN_KEY").ok().filter(|key| !key.is_empty());
    if given.as_ref().is_some_and(|key| key.len() < 20) {
        warn!("POMBO_ADMIN_KEY is short enough to be guessed; use at least 20 random characters");
    }
    let made = match has_door {
        true => opened.admin_key(given.as_deref()).await?,
        false => None,
    };
    let listen = args.listen.unwrap_or(config.server.listen);
    let channels = config.channels()?;
    let parts = Parts { config, channels, listen, lanes: args.lanes.clone() };
    let node = opened.start(parts).await?;
    let paused = node.store.paused().await.ok().flatten();
    let made = match made {
        Some(key) => Some(Made { link: node.login_link(&key).await, key }),
        None => None,
    };
    greet(&node, &args, made.as_ref(), paused.as_ref(), shared);
    watch(node, &mut signals, args.grace.to_std()).await
}

fn check_lanes(lanes: &[LaneName], config: &Config) -> Result<(), Trouble> {
    let unknown = lanes.iter().find(|lane| !config.lanes.contains_key(*lane));
    unknown.map_or(Ok(()), |lane| {
        let hint = suggestion(lane.as_str(), config.lanes.keys().map(LaneName::as_str));
        Err(Trouble::usage(format!("there is no lane `{lane}`")).hint(hint))
    })
}

/// Logs as `POMBO_LOG` says, else as the command usually does.
pub(super) fn start_log(usual: Option<&str>) -> Result<log::Log, Trouble> {
    let wanted = std::env::var("POMBO_LOG").ok().filter(|filter| !filter.is_empty());
    log::start(wanted.as_deref().or(usual)).map_err(|bad| {
        Trouble::usage("POMBO_LOG cannot be read")
            .why(bad)
            .hint("write for example POMBO_LOG=pombo_engine=debug,info")
    })
}

/// The signals that a server knows.
#[derive(Debug)]
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Stop,
    Reload,
}

impl Signals {
    pub(super) fn listen() -> Result<Signals, Trouble> {
        let listen = |kind| {
            signal(kind).map_err(|error| Trouble::new("signals cannot be heard", "NO_RUNTIME").why(error))
        };
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    pub(super) async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.interrupt.recv() => Told::Stop,
            _ = self.terminate.recv() => Told::Stop,
            _ = self.hang_up.recv() => Told::Reload,
        }
    }

    /// Comes back when somebody is out of patience.
    pub(super) async fn next_stop(&mut self) {
        while self.next().await != Told::Stop {}
    }
}

/// Runs until a signal or a broken store ends it.
async fn watch(mut node: Node, signals: &mut Signals, grace: Duration) -> Result<(), Trouble> {
    loop {
        let told = tokio::select! {
            told = signals.next() => told,
            reason = node.broken() => return Err(broken(&reason)),
        };
        match told {
            Told::Stop => break,
            Told::Reload => reload(&mut node),
        }
    }
    info!(grace_s = grace.as_secs(), "stopping: finishing what is being sent");
    if std::io::stderr().is_terminal() {
        out::note("\nstopping: finishing what is being sent; once more to stop at once");
    }
    tokio::select! {
        stopped = node.stop(grace) => {
            stopped?;
            info!("stopped");
            Ok(())
        }
        () = signals.next_stop() => {
            Err(Trouble::new("stopped at once", "STOPPED_AT_ONCE")
                .hint("nothing is lost: what was being sent is looked into at the next start"))
        }
    }
}

fn reload(node: &mut Node) {
    let Err(problems) = node.reload(&Environment::of_process()) else { return };
    for problem in &problems.0 {
        error!(
            path = problem.path,
            problem = problem.what,
            hint = problem.hint,
            "the configuration was not changed"
        );
    }
}

/// After a write whose fate is unknown only a new process, reading everything anew, is safe.
fn broken(reason: &str) -> Trouble {
    error!(reason, "the store failed; this process ends, and a new start recovers");
    let hint = if reason.starts_with(ANOTHER_VERSION) {
        "start that version here as well: everything that was accepted is recovered"
    } else if reason.starts_with(EARLIER_STORE) {
        "start again, which brings it up to date: everything that is in it is recovered"
    } else {
        "look after the disk, then start again: everything that was accepted is recovered"
    };
    Trouble::new("the store failed", "STORE_FAILED").why(reason).hint(hint)
}

impl From<NodeError> for Trouble {
    fn from(error: NodeError) -> Trouble {
        match error {
            NodeError::Store { place, error: StoreError::Locked { why, hint } } => {
                Trouble::new(format!("the store at {place} cannot be opened"), "STORE_LOCKED")
                    .why(why)
                    .hint(hint)
            }
            NodeError::Store { place, error: StoreError::Damaged { why, hint } } => {
                Trouble::new(format!("the store at {place} is damaged"), "STORE_DAMAGED").why(why).hint(hint)
            }
            NodeError::Store { place, error } => {
                let why = match &error {
                    StoreError::Unavailable(why) | StoreError::Again(why) | StoreError::Broken(why) => {
                        why.clone()
                    }
                    other => other.to_string(),
                };
                let hint = match &place {
                    Place::Embedded(_) => {
                        "choose another folder with --data, or look at this one: its rights, its disk, who else uses it"
                    }
                    Place::Postgres(_) => what_next(&why),
                };
                Trouble::new(format!("the store at {place} cannot be used"), "STORE_UNAVAILABLE")
                    .why(why)
                    .hint(hint)
            }
            NodeError::Listen { address, error } => {
                Trouble::new(format!("cannot listen on {address}"), "ADDRESS_UNAVAILABLE").why(error).hint(
                    "choose another one with --listen or --smtp-listen, for example --listen 127.0.0.1:0",
                )
            }
        }
    }
}

/// What to do about a PostgreSQL that cannot be used, by the code at the end of its words.
fn what_next(why: &str) -> &'static str {
    let code = why.rsplit_once('(').and_then(|(_, rest)| rest.split_once(')')).map_or("", |(code, _)| code);
    match (code.get(..2), code) {
        (Some("28"), _) => "look at user and password in the URL, and at pg_hba.conf of the server",
        (_, "3D000") => {
            "make the database first, for example with `createdb`, or name another one in the URL"
        }
        (_, "42501") => {
            "let this user create a schema and roles, or have one who may run `pombo store migrate` once"
        }
        (Some("53"), _) => "the server is full: look at max_connections, its memory and its disk",
        (_, "25006") => "this server is read-only: name the primary, or all hosts, in the URL",
        _ if why.contains("a pooler") => "add pooler=transaction to the URL, or name PostgreSQL itself there",
        _ if why.starts_with("cannot connect") => {
            "is PostgreSQL running there, and can this machine reach it? See host and port in the URL"
        }
        _ => "look at the log of PostgreSQL and at docs/guides/postgresql.md",
    }
}

/// What the first start makes, and nobody can have again.
struct Made {
    key: String,
    /// The way to the dashboard without typing the key.
    link: Option<String>,
}

/// Says what is running and what to do next. In a pipe only a key that was made is said: it cannot be had again.
fn greet(node: &Node, args: &Serve, made: Option<&Made>, paused: Option<&Pause>, shared: &Shared) {
    if shared.json {
        let data = match &node.place {
            Place::Embedded(folder) => Some(&**folder),
            Place::Postgres(_) => None,
        };
        return out::object(&json!({
            "url": node.url(), "smtp": node.smtp_address(), "store": node.place.to_string(), "data": data,
            "admin_key": made.map(|made| &made.key), "login_link": made.and_then(|made| made.link.as_ref()),
            "paused": paused,
        }));
    }
    if !std::io::stdout().is_terminal() {
        if let Some(made) = made {
            out::note(format!("admin key, shown only now: {}", made.key));
            if let Some(link) = &made.link {
                out::note(format!("dashboard, once and within ten minutes: {link}"));
            }
        }
        return;
    }
    let paint = Paint::stdout();
    let row = |what: &str, value: &str| out::line(format!("  {} {value}", paint.dim(&format!("{what:<9}"))));
    let lanes = |lane: &LaneName| args.lanes.is_empty() || args.lanes.contains(lane);
    let lanes: Vec<String> = node
        .config
        .lanes
        .iter()
        .filter(|(name, _)| lanes(name))
        .map(|(name, lane)| format!("{name} ({})", lane.workers))
        .collect();
    let (ready, unready): (Vec<_>, Vec<_>) =
        node.config.channels.iter().partition(|(_, channel)| channel.unready().is_none());
    let names = |list: &[(&_, &crate::config::Channel)]| {
        list.iter()
            .map(|(name, _): &(&pombo_kernel::name::ChannelName, _)| name.to_string())
            .collect::<Vec<_>>()
            .join(", ")
    };
    out::line(format!("{} is running", paint.bold(&format!("Pombo {}", env!("CARGO_PKG_VERSION")))));
    row(if node.roles.has(NodeRole::Api) { "API" } else { "health" }, &node.url());
    if node.roles.has(NodeRole::Api) && node.config.dashboard.enabled {
        row("dashboard", &format!("{}/, with a key; `pombo keys link` prints a link", node.url()));
    }
    if let Some(address) = node.smtp_address() {
        row("SMTP", &format!("{address}; the user is a channel's name, the password is a key"));
    }
    row("store", &node.place.to_string());
    if !node.roles.are_all() {
        row("roles", &node.roles.to_string());
    }
    let file = node.config.source.file.as_ref();
    row(
        "config",
        &file.map_or_else(|| "none; see `pombo config example`".to_owned(), |it| it.display().to_string()),
    );
    if node.roles.has(NodeRole::Worker) {
        row("lanes", &lanes.join(", "));
    }
    row("channels", &names(&ready));
    if !unready.is_empty() {
        row("not ready", &format!("{}; see `pombo config check`", names(&unready)));
    }
    if let Some(pause) = paused {
        row("sending", &format!("{}; {}", paint.yellow("paused"), pause.why));
        row("", "`pombo store resume` lets it go on");
    }
    out::line("");
    if node.roles.has(NodeRole::Api) {
        let webhook = ready.iter().find(|(_, channel)| channel.kind() == ChannelKind::Webhook);
        suggest(node, webhook.map(|(name, _)| name.as_str()), made, paint);
        out::line("");
    }
    out::line(paint.dim("Ctrl-C stops it; what is being sent is finished first."));
}

/// What to try with an API.
fn suggest(node: &Node, channel: Option<&str>, made: Option<&Made>, paint: Paint) {
    match made {
        Some(made) => {
            if let Some(link) = &made.link {
                out::line(format!("Open the dashboard, once and within ten minutes: {}", paint.cyan(link)));
                out::line("");
            }
            out::line("An admin key was made. It is shown only now. From another terminal:");
            out::line("");
            out::line(format!("  export POMBO_API_KEY={}", paint.bold(&made.key)));
        }
        None => {
            out::line("Try it from another terminal, with your key in POMBO_API_KEY:");
            out::line("");
        }
    }
    if node.url() != DEFAULT_SERVER {
        out::line(format!("  export POMBO_SERVER={}", node.url()));
    }
    let channel = channel.unwrap_or("webhook");
    out::line(format!(
        "  pombo send --channel {channel} --to https://example.com/hook --content '{{\"body\": {{\"hello\": \"world\"}}}}' --wait"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_postgresql_refuses_comes_with_what_to_do() {
        for (why, next) in [
            (
                "cannot connect to PostgreSQL at db:5432: password authentication failed for user \"a\" (28P01)",
                "password",
            ),
            ("cannot connect to PostgreSQL at db:5432: database \"x\" does not exist (3D000)", "createdb"),
            (
                "cannot connect to PostgreSQL at db:5432: sorry, too many clients already (53300)",
                "max_connections",
            ),
            ("cannot connect to PostgreSQL at db:5432: Connection refused (os error 111)", "running"),
            ("permission denied for database x (42501)", "pombo store migrate"),
            ("cannot execute INSERT in a read-only transaction (25006)", "primary"),
            ("something else", "log"),
        ] {
            assert!(what_next(why).contains(next), "{why}: {}", what_next(why));
        }
    }
}
