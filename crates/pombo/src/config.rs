//! Configuration: one TOML file, the environment over it, and a default for every value.
//!
//! It is checked completely before anything runs: [`Config::load`] gives either a configuration that can be
//! used or every problem that it has, each with its path and a hint.

mod alerts;
mod audit;
pub mod camunda;
pub mod channel;
mod encryption;
mod environment;
mod line;
#[cfg(test)]
mod line_tests;
mod policies;
mod privacy;
mod problem;
mod reports;
mod retention;
mod section;
pub mod smtp;
mod store;
mod teams;
#[cfg(test)]
mod tests;
mod traces;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pombo_channels::webhook::WebhookSettings;
use pombo_kernel::alert::Plan;
use pombo_kernel::breaker;
use pombo_kernel::classify::Rules;
use pombo_kernel::guard::{Allowed, Guard};
use pombo_kernel::name::{ChannelName, LaneName, NoticeName, PolicyName, ReportName, TeamName};
use pombo_kernel::policy::{Overrides, Policy, Profile};
use pombo_kernel::setup::{self, ChannelSetup, Destination, EVENTS, LaneSetup, NOTICES, Setup};
use pombo_kernel::time::Span;
use pombo_kernel::window::{Window, Zone};
use pombo_store::postgres::Target;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::{Table, Value};

pub use self::audit::Audit;
pub use self::camunda::{Camunda7, Camunda8};
pub use self::channel::Channel;
pub use self::encryption::Encryption;
pub use self::environment::{Environment, Needs};
pub use self::privacy::Privacy;
pub(crate) use self::problem::suggestion;
pub use self::problem::{Problem, Problems};
pub use self::smtp::Smtp;
pub use self::traces::Traces;

use self::channel::Common;
use self::environment::joined;
use self::line::Hours;
use self::policies::{check_channel_policies, effective, read_policies};
use self::section::Reading;
use self::store::Store;

/// A commented file with every key, which is itself a valid configuration.
pub const EXAMPLE: &str = include_str!("config/example.toml");

/// The file that is read when none is named.
pub const DEFAULT_FILE: &str = "pombo.toml";

/// Where the configuration comes from, so that it can be read again.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// None: the environment and the defaults alone.
    pub file: Option<PathBuf>,
    /// A profile from the command line, which outranks file and environment.
    pub profile: Option<Profile>,
}

impl Source {
    /// The named file, else `pombo.toml` if there is one here.
    pub fn find(file: Option<PathBuf>, profile: Option<Profile>) -> Source {
        let here = || Some(PathBuf::from(DEFAULT_FILE)).filter(|file| file.is_file());
        Source { file: file.or_else(here), profile }
    }
}

/// Everything that can be configured, settled and checked.
#[derive(Clone, Debug)]
pub struct Config {
    pub source: Source,
    pub profile: Profile,
    pub lanes: BTreeMap<LaneName, Lane>,
    pub routes: Vec<Route>,
    pub channels: BTreeMap<ChannelName, Channel>,
    /// Every policy that there is, built in or not, with its changes.
    pub policies: BTreeMap<PolicyName, Policy>,
    /// Whose midnight ends a day.
    pub time_zone: Zone,
    pub limits: Limits,
    pub server: Server,
    pub smtp: Smtp,
    pub events: Events,
    /// What people are told of, and how.
    pub alerts: Plan,
    pub traces: Traces,
    pub metrics: Metrics,
    pub dashboard: Dashboard,
    /// The PostgreSQL of the store; none for the embedded one.
    pub database: Option<Target>,
    /// How long finished messages are kept after their month; for ever without it.
    pub keep: Option<Span>,
    pub audit: Audit,
    /// How long things are kept once they have ended.
    pub retention: pombo_kernel::retention::Plan,
    pub privacy: Privacy,
    /// With which key what is personal is sealed in the store.
    pub encryption: Encryption,
    /// The cluster whose jobs ask for retry decisions.
    pub camunda8: Option<Camunda8>,
    /// The engine whose external tasks ask for retry decisions.
    pub camunda7: Option<Camunda7>,
}

/// The file, as far as its shape goes. What the schema is made of.
#[derive(JsonSchema)]
#[schemars(title = "pombo.toml", extend("additionalProperties" = false))]
#[allow(dead_code)]
struct File {
    /// Which set of built-in policies applies: "production" or "development".
    #[schemars(default)]
    profile: Profile,
    /// Worker pools, by name. `realtime`, `bulk` and `default` are always there.
    #[schemars(default)]
    lanes: BTreeMap<LaneName, Lane>,
    /// Which lane messages of a type go to. The first that matches decides; `default` otherwise.
    #[schemars(default)]
    routes: Vec<Route>,
    /// Outlets, by name.
    #[schemars(default)]
    channels: BTreeMap<ChannelName, Channel>,
    /// Retry policies, by name: changes to a built-in one, or one of your own.
    #[schemars(default)]
    policies: BTreeMap<PolicyName, Overrides>,
    /// Hours in which campaigns may send, by name, for channels to name.
    #[schemars(default)]
    windows: BTreeMap<String, Window>,
    /// The time zone of hours that name none, and whose midnight ends a day.
    #[schemars(default)]
    time_zone: Zone,
    /// How large things may be.
    #[schemars(default)]
    limits: Limits,
    /// The HTTP door.
    #[schemars(default)]
    server: Server,
    /// The door for mail.
    #[schemars(default)]
    smtp: Smtp,
    /// How events reach those who subscribed to them.
    #[schemars(default)]
    events: Events,
    /// When something counts as wrong, by rule.
    alerts: Option<alerts::Alerts>,
    /// Who is told when something is wrong, by name.
    #[schemars(default)]
    notices: BTreeMap<NoticeName, alerts::Notice>,
    /// Who looks after which dead letters, by name.
    #[schemars(default)]
    teams: BTreeMap<TeamName, teams::Team>,
    /// What people are sent regularly, by name.
    #[schemars(default)]
    reports: BTreeMap<ReportName, reports::Report>,
    /// Where traces go.
    #[schemars(default)]
    traces: Traces,
    /// Numbers for Prometheus, at `/metrics`.
    #[schemars(default)]
    metrics: Metrics,
    /// The pages for people, at `/` of the HTTP door.
    #[schemars(default)]
    dashboard: Dashboard,
    /// Where messages are kept.
    #[schemars(default)]
    store: Store,
    /// How the audit chain is signed.
    #[schemars(default)]
    audit: Audit,
    /// How long things are kept once they have ended.
    retention: Option<retention::Retention>,
    /// Who sees whom messages are for, and what they say.
    #[schemars(default)]
    privacy: Privacy,
    /// With which key recipients and contents are sealed in the store.
    #[schemars(default)]
    encryption: Encryption,
    /// The Camunda 8 cluster whose jobs ask for retry decisions.
    camunda8: Option<Camunda8>,
    /// The Camunda 7 engine whose external tasks ask for retry decisions.
    camunda7: Option<Camunda7>,
}

const SECTIONS: &[&str] = &[
    "profile",
    "lanes",
    "routes",
    "channels",
    "policies",
    "windows",
    "time_zone",
    "limits",
    "server",
    "smtp",
    "store",
    "audit",
    "retention",
    "privacy",
    "encryption",
    "events",
    "metrics",
    "dashboard",
    "alerts",
    "notices",
    "teams",
    "reports",
    "traces",
    "camunda8",
    "camunda7",
];

/// A worker pool with its own capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Lane {
    /// Sends in flight at once, for example 16.
    pub workers: NonZeroU16,
}

impl Lane {
    const fn of(workers: u16) -> Lane {
        match NonZeroU16::new(workers) {
            Some(workers) => Lane { workers },
            None => Lane { workers: NonZeroU16::MIN },
        }
    }
}

impl Default for Lane {
    fn default() -> Lane {
        Lane::of(16)
    }
}

/// The lanes that are always there.
const LANES: [(&str, Lane); 5] = [
    ("realtime", Lane::of(64)),
    ("bulk", Lane::of(16)),
    ("default", Lane::of(16)),
    (EVENTS, Lane::of(16)),
    (NOTICES, Lane::of(4)),
];

/// Messages of one type go to one lane.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The message type, for example "send_bulk_messages".
    #[serde(rename = "type")]
    pub kind: String,
    /// The lane's name, for example "bulk".
    pub lane: LaneName,
}

/// The routes that apply when the file names none.
const ROUTES: [(&str, &str); 2] = [("send_bulk_messages", "bulk"), ("execute_side_effect", "realtime")];

/// How large things may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Largest content or payload of one message, in bytes, for example 262144.
    pub content_bytes: usize,
    /// Largest attachments of one message together, in bytes, for example 26214400.
    pub attachment_bytes: usize,
    /// Largest request body, in bytes, unless one message with its attachments needs more; a stream of lines is not
    /// bound by it.
    pub request_bytes: usize,
    /// Most messages in one JSON array.
    pub batch_items: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        let setup::Limits { content_bytes, attachment_bytes, request_bytes, batch_items } =
            setup::Limits::default();
        Limits { content_bytes, attachment_bytes, request_bytes, batch_items }
    }
}

/// The HTTP door.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// The address to listen on, for example "127.0.0.1:7662".
    #[schemars(with = "String")]
    pub listen: SocketAddr,
    /// Where people reach this server, for links in notices, for example "https://pombo.clinic.example".
    #[schemars(with = "Option<String>")]
    pub public_url: Option<url::Url>,
}

impl Default for Server {
    fn default() -> Server {
        Server { listen: (Ipv4Addr::LOCALHOST, 7662).into(), public_url: None }
    }
}

/// How events reach those who subscribed to them, through the lane `events` and by the policy of that name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Events {
    /// Tell subscribers at loopback and private addresses too. Cloud metadata stays closed unless `allow` names it.
    pub allow_private: bool,
    /// Hosts and networks that are open whatever their address, such as `crm.lan` or `10.0.0.0/8`.
    pub allow: Vec<Allowed>,
    /// A PEM file of certificates to trust besides the web's.
    pub ca_file: Option<PathBuf>,
    /// Longest time that a receiver may take to answer, for example "20s".
    pub attempt_timeout: Span,
}

impl Default for Events {
    fn default() -> Events {
        // Standard Webhooks suggests 15 to 30 s.
        let attempt_timeout = Span::from_secs(20);
        Events { allow_private: false, allow: Vec::new(), ca_file: None, attempt_timeout }
    }
}

impl Events {
    fn channel(&self) -> Channel {
        let Events { allow_private, allow, ca_file, attempt_timeout } = self.clone();
        let settings = WebhookSettings { allow_private, allow, ca_file, ..WebhookSettings::default() };
        Channel {
            common: Common { policy: EVENTS.parse().ok(), attempt_timeout, ..Common::default() },
            retry: Overrides::default(),
            rules: Vec::new(),
            breaker: breaker::Limits::default(),
            window: None,
            settings: channel::Settings::Webhook(settings),
        }
    }
}

/// Numbers for Prometheus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Metrics {
    /// Ask for a key at `/metrics`: one of the tenant `default` with the role viewer, operator or admin.
    pub require_key: bool,
}

/// The pages for people.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Dashboard {
    /// Whether there are any; true or false.
    pub enabled: bool,
    /// The time zone of the times on them, for example "America/Sao_Paulo"; `time_zone` of the file if left out.
    pub time_zone: Option<Zone>,
}

impl Default for Dashboard {
    fn default() -> Dashboard {
        Dashboard { enabled: true, time_zone: None }
    }
}

impl Config {
    /// Reads the source and checks all of it.
    pub fn load(source: Source, environment: &Environment) -> Result<Config, Problems> {
        let text = match &source.file {
            None => String::new(),
            Some(file) => std::fs::read_to_string(file).map_err(|error| {
                let what = format!("cannot be read: {error}");
                let hint = "name another file with --config, or write one: pombo config example > pombo.toml";
                Problems(vec![Problem::new(file.display().to_string(), what, hint)])
            })?,
        };
        Config::parse(&text, source, environment)
    }

    /// Reads the same source again. Whoever calls keeps the old configuration if this fails.
    pub fn reload(&self, environment: &Environment) -> Result<Config, Problems> {
        Config::load(self.source.clone(), environment)
    }

    /// Reads a file's text. The source says where relative file names start.
    pub fn parse(text: &str, source: Source, environment: &Environment) -> Result<Config, Problems> {
        let mut table: Table = toml::from_str(text).map_err(|error| not_toml(text, &source, &error))?;
        let folder = source.file.as_deref().and_then(Path::parent).unwrap_or(Path::new("")).to_owned();
        let mut reading = Reading::default();
        environment::expand(&mut table, environment, &mut reading.origins, &mut reading.problems);
        if !table.contains_key("channels") {
            table.insert("channels".into(), Value::Table(unconfigured(environment, &mut reading)));
        }
        let Reading { origins, problems } = &mut reading;
        environment::override_with(&mut table, environment, &["profile", "time_zone"], origins, problems);

        let profile = read_profile(&mut reading, table.remove("profile"), source.profile);
        let lanes = read_lanes(&mut reading, table.remove("lanes"));
        let routes = read_routes(&mut reading, table.remove("routes"), &lanes);
        let policies = read_policies(&mut reading, table.remove("policies"), profile);
        let hours = Hours::read(&mut reading, table.remove("time_zone"), table.remove("windows"));
        let kept = retention::take(&mut table);
        let channels = read_channels(&mut reading, table.remove("channels"), &hours, &folder);
        let retention = retention::read(&mut reading, table.remove("retention"), &kept, &channels);
        check_channel_policies(&mut reading, &channels, &policies);
        let limits = read_limits(&mut reading, table.remove("limits"));
        let server = table.remove("server").and_then(|value| reading.table("server", value));
        let server: Server = reading.section("server", server.unwrap_or_default());
        let smtp = smtp::read(&mut reading, table.remove("smtp"), &folder);
        let events = read_events(&mut reading, table.remove("events"), &folder);
        let (told, notices) = (table.remove("alerts"), table.remove("notices"));
        let mut alerts = alerts::read(&mut reading, told, notices, &channels);
        alerts.public_url = server.public_url.as_ref().map(ToString::to_string);
        alerts.zone = hours.time_zone.clone();
        alerts.teams = teams::read(&mut reading, table.remove("teams"), &alerts, &channels);
        alerts.reports = reports::read(&mut reading, table.remove("reports"), &alerts);
        let traces = traces::read(&mut reading, table.remove("traces"), &folder);
        let metrics = table.remove("metrics").and_then(|value| reading.table("metrics", value));
        let metrics = reading.section("metrics", metrics.unwrap_or_default());
        let dashboard = table.remove("dashboard").and_then(|value| reading.table("dashboard", value));
        let dashboard = reading.section("dashboard", dashboard.unwrap_or_default());
        let (database, keep) = store::read(&mut reading, table.remove("store"), &folder);
        retention::check_months(&mut reading, keep, &channels);
        let audit = audit::read(&mut reading, table.remove("audit"), &folder);
        let privacy = table.remove("privacy").and_then(|value| reading.table("privacy", value));
        let privacy = reading.section("privacy", privacy.unwrap_or_default());
        let encryption = encryption::read(&mut reading, table.remove("encryption"), &folder);
        let camunda8 = camunda::read_eight(&mut reading, table.remove("camunda8"), &folder);
        let camunda7 = camunda::read_seven(&mut reading, table.remove("camunda7"), &folder);
        for name in table.keys() {
            reading.unknown(name, name, SECTIONS.iter().copied());
        }
        let Problems(mut problems) = reading.problems;
        problems.retain(|problem| !reading.origins.forgiven(&problem.path));
        if !problems.is_empty() {
            problems = problems.into_iter().map(|problem| reading.origins.unspoken(problem)).collect();
            problems.sort();
            problems.dedup();
            return Err(Problems(problems));
        }
        Ok(Config {
            source,
            profile,
            lanes,
            routes,
            channels,
            policies,
            time_zone: hours.time_zone,
            limits,
            server,
            smtp,
            database,
            keep,
            audit,
            retention,
            privacy,
            encryption,
            events,
            metrics,
            dashboard,
            alerts,
            traces,
            camunda8,
            camunda7,
        })
    }

    /// Adds a channel that no file can name: one of the embedding program. It is checked like any other.
    pub(crate) fn add(&mut self, name: &str, channel: Channel) -> Result<(), Problems> {
        let mut reading = Reading::default();
        let path = joined("channels", name);
        match name.parse::<ChannelName>() {
            Err(bad) => reading.problems.say(&path, "not a name", bad.to_string()),
            Ok(name) if name.as_str() == EVENTS => reserved(&mut reading),
            Ok(name) if self.channels.contains_key(&name) => {
                let hint = "choose another name; a configuration without channels has one of each kind";
                reading.problems.say(&path, "the configuration has a channel of this name", hint);
            }
            Ok(name) => {
                channel::check_timeout(&mut reading, &path, channel.common.attempt_timeout);
                for (index, rule) in channel.rules.iter().enumerate() {
                    channel::check_rule(&mut reading, &format!("{path}.rules[{index}]"), rule);
                }
                let added = BTreeMap::from([(name, channel)]);
                check_channel_policies(&mut reading, &added, &self.policies);
                if reading.problems.0.is_empty() {
                    self.channels.extend(added);
                }
            }
        }
        if reading.problems.0.is_empty() { Ok(()) } else { Err(reading.problems) }
    }

    /// The policy of that name.
    pub fn policy(&self, name: &str) -> Option<&Policy> {
        self.policies.get(name)
    }

    /// The channels of the file, and the one that is always there.
    fn all_channels(&self) -> BTreeMap<ChannelName, Channel> {
        let mut channels = self.channels.clone();
        channels.extend(EVENTS.parse().map(|name| (name, self.events.channel())));
        channels
    }

    /// What doors and engine need to know.
    pub fn setup(&self) -> Setup {
        let channels = self.all_channels().into_iter().map(|(name, channel)| {
            let setup = ChannelSetup {
                name: name.clone(),
                kind: channel.kind(),
                tenant: channel.common.tenant.clone(),
                policy: effective(&channel, &self.policies).expect("policies were checked"),
                rules: Rules::for_kind(channel.kind(), &channel.rules).expect("rules were checked"),
                on_unknown_outcome: channel.common.on_unknown_outcome,
                destination: if name.as_str() == EVENTS { Destination::Each } else { channel.destination() },
                attempt_timeout: channel.common.attempt_timeout,
                unready: channel.unready(),
                receipts: channel.receipts(),
                line: line::rules(&channel, &self.time_zone),
                suppressions: channel.common.suppressions,
                care: channel.care(),
            };
            (name, Arc::new(setup))
        });
        let lanes =
            self.lanes.iter().map(|(name, lane)| (name.clone(), LaneSetup { workers: lane.workers.get() }));
        let routes = self.routes.iter().cloned().map(|Route { kind, lane }| setup::Route { kind, lane });
        let Limits { content_bytes, attachment_bytes, request_bytes, batch_items } = self.limits;
        Setup {
            channels: channels.collect(),
            lanes: lanes.collect(),
            routes: routes.collect(),
            limits: setup::Limits { content_bytes, attachment_bytes, request_bytes, batch_items },
            subscribers: Guard { allow_private: self.events.allow_private, allow: self.events.allow.clone() },
            claims: self.policy("claims").cloned().unwrap_or_else(Policy::claims),
            alerts: Arc::new(self.alerts.clone()),
            masked: self.privacy.masked_roles.clone(),
            retention: Arc::new(self.retention.clone()),
            dashboard: setup::Dashboard {
                enabled: self.dashboard.enabled,
                zone: self.dashboard.time_zone.clone().unwrap_or_else(|| self.time_zone.clone()),
                policies: self.policies.values().cloned().collect(),
            },
        }
    }

    /// The channels themselves, ready to send. One that is not set up answers every message with the reason.
    pub fn channels(&self) -> Result<BTreeMap<ChannelName, Arc<dyn pombo_channels::Channel>>, Problems> {
        let mut problems = Problems::default();
        let mut channels = BTreeMap::new();
        for (name, channel) in self.all_channels() {
            match channel.build() {
                Ok(built) => {
                    channels.insert(name, built);
                }
                Err(found) => {
                    for problem in found {
                        let path = format!("channels.{name}.{}", problem.field);
                        problems.say(path, problem.reason, problem.hint);
                    }
                }
            }
        }
        if problems.0.is_empty() { Ok(channels) } else { Err(problems) }
    }

    /// The JSON schema of the whole file.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(File).to_value()
    }
}

fn not_toml(text: &str, source: &Source, error: &toml::de::Error) -> Problems {
    let file =
        source.file.as_ref().map_or_else(|| "configuration".to_owned(), |file| file.display().to_string());
    let line = error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
    let path = line.map_or(file.clone(), |line| format!("{file}:{line}"));
    Problems(vec![Problem::new(path, error.message(), "the file must be TOML: see `pombo config example`")])
}

/// The channels of a file that names none, with what the environment says about them.
fn unconfigured(environment: &Environment, reading: &mut Reading) -> Table {
    let mut channels = Table::new();
    for channel::Unconfigured { name, kind, variables } in channel::UNCONFIGURED {
        let mut table = Table::new();
        table.insert("kind".into(), Value::String(kind.as_str().into()));
        for (key, variable) in variables {
            if let Some(value) = environment.get(variable) {
                table.insert((*key).into(), Value::String(value.into()));
                reading.origins.note_outside(format!("channels.{name}.{key}"), Some(value));
            }
        }
        channels.insert(name.into(), Value::Table(table));
    }
    channels
}

fn read_profile(reading: &mut Reading, value: Option<Value>, flag: Option<Profile>) -> Profile {
    let read = value.and_then(|value| match value.as_str() {
        Some("production") => Some(Profile::Production),
        Some("development") => Some(Profile::Development),
        _ => {
            let known = ["production", "development"];
            let text = value.as_str().unwrap_or_default();
            reading.problems.say("profile", format!("{value} is no profile"), suggestion(text, known));
            None
        }
    });
    flag.or(read).unwrap_or_default()
}

fn read_lanes(reading: &mut Reading, value: Option<Value>) -> BTreeMap<LaneName, Lane> {
    let mut lanes = BTreeMap::new();
    let always = |name: &str| LANES.iter().find(|(known, _)| *known == name).map(|(_, lane)| *lane);
    for (name, table) in sections::<LaneName>(reading, "lanes", value) {
        let given = table.contains_key("workers");
        let lane: Lane = reading.section(&format!("lanes.{name}"), table);
        let lane = if given { lane } else { always(name.as_str()).unwrap_or_default() };
        lanes.insert(name, lane);
    }
    for (name, lane) in LANES {
        lanes.entry(name.parse().expect("built-in names are valid")).or_insert(lane);
    }
    lanes
}

fn read_routes(reading: &mut Reading, value: Option<Value>, lanes: &BTreeMap<LaneName, Lane>) -> Vec<Route> {
    let Some(value) = value else {
        let route = |(kind, lane): (&str, &str)| Route {
            kind: kind.to_owned(),
            lane: lane.parse().expect("built-in names are valid"),
        };
        return ROUTES.map(route).into();
    };
    let required: Table = [("type", "any"), ("lane", "default")]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), Value::String(value.to_owned())))
        .collect();
    let mut routes: Vec<Route> = Vec::new();
    for (here, table) in reading.tables("routes", value) {
        let Some(route) = reading.section_with::<Route>(&here, table, &required) else { continue };
        if !lanes.contains_key(&route.lane) || route.lane.as_str() == NOTICES {
            let what = format!("there is no lane `{}`", route.lane);
            let hint = suggestion(route.lane.as_str(), lanes.keys().map(LaneName::as_str));
            reading.problems.say(
                joined(&here, "lane"),
                what,
                format!("{hint}; or add [lanes.{}]", route.lane),
            );
        }
        if routes.iter().any(|earlier| earlier.kind == route.kind) {
            let what = format!("an earlier route already takes the type `{}`", route.kind);
            reading.problems.say(joined(&here, "type"), what, "remove one of them");
        }
        routes.push(route);
    }
    routes
}

fn read_channels(
    reading: &mut Reading,
    value: Option<Value>,
    hours: &Hours,
    folder: &Path,
) -> BTreeMap<ChannelName, Channel> {
    let mut channels = BTreeMap::new();
    for (name, table) in sections::<ChannelName>(reading, "channels", value) {
        if name.as_str() == EVENTS {
            reserved(reading);
            continue;
        }
        if let Some(channel) = channel::read(reading, &format!("channels.{name}"), table, hours, folder) {
            channels.insert(name, channel);
        }
    }
    channels
}

fn reserved(reading: &mut Reading) {
    let hint = "choose another name; [events], [lanes.events] and [policies.events] say how events are told";
    reading.problems.say(joined("channels", EVENTS), "this name is that of a channel of Pombo's own", hint);
}

fn read_events(reading: &mut Reading, value: Option<Value>, folder: &Path) -> Events {
    let table = value.and_then(|value| reading.table("events", value)).unwrap_or_default();
    let mut events: Events = reading.section("events", table);
    events.ca_file = events.ca_file.map(|file| folder.join(file));
    channel::check_timeout(reading, "events", events.attempt_timeout);
    for problem in events.channel().build().err().into_iter().flatten() {
        reading.problems.say(joined("events", &problem.field), problem.reason, problem.hint);
    }
    events
}

/// Attachments beyond this would not fit in the room that all requests share.
const ATTACHMENT_BYTES_MAX: usize = 64 * 1024 * 1024;

fn read_limits(reading: &mut Reading, value: Option<Value>) -> Limits {
    let table = value.and_then(|value| reading.table("limits", value)).unwrap_or_default();
    let limits: Limits = reading.section("limits", table);
    let mut check = |wrong: bool, key: &str, what: &str, hint: &str| {
        if wrong {
            reading.problems.say(joined("limits", key), what, hint);
        }
    };
    check(limits.content_bytes == 0, "content_bytes", "nothing would fit", "for example 262144");
    check(
        limits.attachment_bytes > ATTACHMENT_BYTES_MAX,
        "attachment_bytes",
        "more than 67108864, which is as much as is held in memory for one message",
        "send links to files that are larger",
    );
    check(limits.batch_items == 0, "batch_items", "nothing would fit", "for example 10000");
    check(
        limits.request_bytes < limits.content_bytes,
        "request_bytes",
        "smaller than `content_bytes`, so that the largest content could not be sent in",
        "make it larger, for example 8388608",
    );
    limits
}

/// The named tables below a section, with names that are fit to be names.
fn sections<N: std::str::FromStr<Err = pombo_kernel::name::BadName>>(
    reading: &mut Reading,
    path: &str,
    value: Option<Value>,
) -> Vec<(N, Table)> {
    let table = value.and_then(|value| reading.table(path, value)).unwrap_or_default();
    let mut found = Vec::new();
    for (name, value) in table {
        let here = joined(path, &name);
        let Some(table) = reading.table(&here, value) else { continue };
        match name.parse::<N>() {
            Ok(name) => found.push((name, table)),
            Err(bad) => reading.problems.say(here, "not a name", bad.to_string()),
        }
    }
    found
}
