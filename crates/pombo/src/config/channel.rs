//! One channel of the file: its kind, what every kind has, and what only this kind has.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pombo_channels::evolution::{Evolution, EvolutionSettings};
use pombo_channels::resend::{Resend, ResendSettings};
use pombo_channels::smtp::{Mode, Smtp, SmtpSettings};
use pombo_channels::tiss::{Tiss, TissSettings};
use pombo_channels::webhook::{Webhook, WebhookSettings};
use pombo_channels::{BoxFuture, Envelope, Health};
use pombo_kernel::breaker::Limits;
use pombo_kernel::classify::{Rule, Rules};
use pombo_kernel::content::mailbox;
use pombo_kernel::flow::Rate;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::lifecycle::OnUnknownOutcome;
use pombo_kernel::name::{PolicyName, Tenant};
use pombo_kernel::policy::Overrides;
use pombo_kernel::reply::{Fault, FaultKind, Reply};
use pombo_kernel::secret::Secret;
use pombo_kernel::setup::{Care, Destination, ReceiptCheck, Suppressions};
use pombo_kernel::signature::SigningKey;
use pombo_kernel::time::Span;
use pombo_kernel::turns::Weight;
use pombo_kernel::window::Window;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, json};
use toml::{Table, Value};
use url::Url;

use super::environment::joined;
use super::line::{self, Hours};
use super::problem::suggestion;
use super::retention::Messages;
use super::section::{Key, Reading, keys_of};

/// A configured outlet.
#[derive(Clone, Debug)]
pub struct Channel {
    pub common: Common,
    /// Changes to the policy, for this channel only.
    pub retry: Overrides,
    /// Rules of classification that come before the built-in ones.
    pub rules: Vec<Rule>,
    /// When a destination counts as down.
    pub breaker: Limits,
    /// When campaigns may send through it.
    pub window: Option<Window>,
    pub settings: Settings,
}

/// What every kind of channel has.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Common {
    /// The retry policy, by name; by default the one of the channel's kind.
    pub policy: Option<PolicyName>,
    /// Whose channel it is, for example "default".
    pub tenant: Tenant,
    /// When nobody knows whether a message went out: "resend" it, or "hold" it for an operator.
    pub on_unknown_outcome: OnUnknownOutcome,
    /// Longest time that one attempt may take, for example "30s".
    pub attempt_timeout: Span,
    /// How fast messages may go through the channel, for example "10/s"; by default as fast as they can, and through
    /// Resend "2/s" until Resend itself says more.
    pub rate: Option<Rate>,
    /// How many turns its messages get in a lane where those of other channels get one, 1 to 100, for example 3.
    pub weight: Weight,
    /// How often the provider is asked how it is, where that can be done; by default "1m" for evolution, "5m" for
    /// tiss, and not at all for others.
    pub probe_every: Option<Span>,
    /// Least time between two sends of campaigns, whichever they are, in seconds, for example 5.
    pub line_gap_seconds: Option<f64>,
    /// Most sends of campaigns on one day, for example 1000.
    pub daily_cap: Option<NonZeroU32>,
    /// Which messages the suppression list stops: those of campaigns, "bulk", or "all".
    pub suppressions: Suppressions,
    /// Put recipients that cannot be reached for good on the suppression list: true or false.
    pub suppress: bool,
}

impl Default for Common {
    fn default() -> Common {
        Common {
            policy: None,
            tenant: Tenant::default(),
            on_unknown_outcome: OnUnknownOutcome::default(),
            attempt_timeout: Span::from_secs(30),
            rate: None,
            weight: Weight::default(),
            probe_every: None,
            line_gap_seconds: None,
            daily_cap: None,
            suppressions: Suppressions::default(),
            suppress: true,
        }
    }
}

/// What only one kind has.
#[derive(Clone, Debug)]
pub enum Settings {
    Evolution(EvolutionSettings),
    Smtp(SmtpSettings),
    Resend(ResendSettings),
    Tiss(Box<TissSettings>),
    Webhook(WebhookSettings),
    Null(Null),
    /// A channel that the embedding program brought along, ready to send.
    Own(Arc<dyn pombo_channels::Channel>),
}

/// Files that hold what must not stand in the configuration; the rest of a webhook channel's settings is the
/// channel's own type.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WebhookFiles {
    /// A file that holds the signing secret, instead of `secret`.
    pub secret_file: Option<PathBuf>,
    /// A file that holds the secret before this one, instead of `previous_secret`.
    pub previous_secret_file: Option<PathBuf>,
}

/// Counts and forgets.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Null {}

impl Channel {
    pub fn kind(&self) -> ChannelKind {
        match self.settings {
            Settings::Evolution(_) => ChannelKind::Evolution,
            Settings::Smtp(_) => ChannelKind::Smtp,
            Settings::Resend(_) => ChannelKind::Resend,
            Settings::Tiss(_) => ChannelKind::Tiss,
            Settings::Webhook(_) => ChannelKind::Webhook,
            Settings::Null(_) => ChannelKind::Null,
            Settings::Own(_) => ChannelKind::Own,
        }
    }

    /// The name of the policy that it follows.
    pub fn policy(&self) -> &str {
        self.common.policy.as_ref().map_or(default_policy(self.kind()), PolicyName::as_str)
    }

    /// Which of its messages a fault can be common to.
    pub fn destination(&self) -> Destination {
        let host = |url: &Option<Url>| url.as_ref().and_then(Url::host_str).unwrap_or_default().into();
        let sender = |from: &Option<String>| {
            let address = from.as_deref().and_then(mailbox);
            let domain = address.and_then(|address| address.rsplit_once('@')).map(|(_, domain)| domain);
            Destination::Sender { default: domain.unwrap_or_default().to_ascii_lowercase().into() }
        };
        match &self.settings {
            Settings::Evolution(it) => Destination::Fixed(it.instance.as_deref().unwrap_or_default().into()),
            Settings::Smtp(it) if it.mode == Mode::Mx => Destination::Recipient,
            Settings::Smtp(it) => sender(&it.from),
            Settings::Resend(it) => sender(&it.from),
            Settings::Tiss(it) => Destination::Fixed(host(&it.url)),
            Settings::Webhook(_) => Destination::Host,
            Settings::Null(_) | Settings::Own(_) => Destination::Fixed("".into()),
        }
    }

    /// How its destinations are looked after.
    pub fn care(&self) -> Care {
        let (rate, probe_every) = match self.kind() {
            ChannelKind::Evolution => (None, Some(Span::from_mins(1))),
            ChannelKind::Tiss => (None, Some(Span::from_mins(5))),
            // The least that Resend has ever documented; its answers say what it is now.
            ChannelKind::Resend => (Some(Rate::per_second(2)), None),
            _ => (None, None),
        };
        Care {
            breaker: self.breaker,
            rate: self.common.rate.or(rate),
            learns: self.common.rate.is_none(),
            weight: self.common.weight,
            probe_every: self.common.probe_every.or(probe_every),
            forgives: !self.common.suppress,
        }
    }

    /// How the provider's own reports are told from a stranger's.
    pub fn receipts(&self) -> Option<ReceiptCheck> {
        match &self.settings {
            Settings::Evolution(it) => it.receipt_secret.clone().map(ReceiptCheck::Token),
            Settings::Resend(it) => {
                it.receipt_secret.as_ref().and_then(SigningKey::from_secret).map(ReceiptCheck::Signature)
            }
            _ => None,
        }
    }

    /// Why nothing can be sent through it, and what to do; nothing if it can.
    pub fn unready(&self) -> Option<String> {
        let missing = self.missing();
        (!missing.is_empty()).then(|| format!("not set up: set {}", missing.join(", ")))
    }

    /// The channel itself, ready to send.
    pub fn build(&self) -> Result<Arc<dyn pombo_channels::Channel>, Vec<pombo_kernel::content::Problem>> {
        if let Some(reason) = self.unready() {
            return Ok(Arc::new(Unready { reason }));
        }
        Ok(match &self.settings {
            Settings::Evolution(settings) => Arc::new(Evolution::new(settings)?),
            Settings::Smtp(settings) => Arc::new(Smtp::new(settings)?),
            Settings::Resend(settings) => Arc::new(Resend::new(settings)?),
            Settings::Tiss(settings) => Arc::new(Tiss::new(settings)?),
            Settings::Webhook(settings) => Arc::new(Webhook::new(settings)?),
            Settings::Null(_) => Arc::new(pombo_channels::null::Null::default()),
            Settings::Own(channel) => Arc::clone(channel),
        })
    }

    /// The variables that would set up what is missing.
    fn missing(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        let mut need = |given: bool, name| {
            if !given {
                names.push(name);
            }
        };
        match &self.settings {
            Settings::Evolution(it) => {
                need(it.base_url.is_some(), "EVOLUTION_BASE_URL");
                need(it.api_key.is_some(), "EVOLUTION_API_KEY");
                need(it.instance.is_some(), "EVOLUTION_INSTANCE");
            }
            Settings::Smtp(it) => need(it.url.is_some() || it.mode == Mode::Mx, "SMTP_URL"),
            Settings::Resend(it) => need(it.api_key.is_some(), "RESEND_API_KEY"),
            Settings::Tiss(it) => need(it.url.is_some(), "TISS_URL"),
            Settings::Webhook(_) | Settings::Null(_) | Settings::Own(_) => {}
        }
        names
    }
}

/// Stands for a channel that cannot send: every attempt says why, and so ends in a hold, not in a dead letter.
#[derive(Debug)]
struct Unready {
    reason: String,
}

impl Unready {
    fn fault(&self) -> Fault {
        Fault { kind: FaultKind::NotConfigured, text: self.reason.clone() }
    }
}

impl pombo_channels::Channel for Unready {
    fn send<'a>(&'a self, _: &'a Envelope, _: Duration) -> BoxFuture<'a, Reply> {
        Box::pin(async { Reply::Unreachable(self.fault()) })
    }

    fn probe(&self, _: Duration) -> BoxFuture<'_, Health> {
        Box::pin(async { Health::Sick(Reply::Unreachable(self.fault())) })
    }
}

/// The policy of a kind, unless a channel names another.
pub fn default_policy(kind: ChannelKind) -> &'static str {
    match kind {
        ChannelKind::Evolution => "whatsapp",
        ChannelKind::Smtp => "smtp",
        ChannelKind::Resend => "resend",
        ChannelKind::Tiss => "claims",
        ChannelKind::Webhook | ChannelKind::Null | ChannelKind::Own => "webhook",
    }
}

/// A channel that is there when the file names none.
pub(super) struct Unconfigured {
    pub(super) name: &'static str,
    pub(super) kind: ChannelKind,
    /// Its keys, each with the well-known variable that feeds it.
    pub(super) variables: &'static [(&'static str, &'static str)],
}

pub(super) const UNCONFIGURED: [Unconfigured; 5] = [
    Unconfigured {
        name: "whatsapp",
        kind: ChannelKind::Evolution,
        variables: &[
            ("base_url", "EVOLUTION_BASE_URL"),
            ("instance", "EVOLUTION_INSTANCE"),
            ("api_key", "EVOLUTION_API_KEY"),
            ("receipt_secret", "EVOLUTION_RECEIPT_SECRET"),
        ],
    },
    Unconfigured {
        name: "email",
        kind: ChannelKind::Smtp,
        variables: &[("url", "SMTP_URL"), ("from", "SMTP_FROM")],
    },
    Unconfigured {
        name: "resend",
        kind: ChannelKind::Resend,
        variables: &[
            ("api_key", "RESEND_API_KEY"),
            ("base_url", "RESEND_BASE_URL"),
            ("from", "RESEND_FROM"),
            ("receipt_secret", "RESEND_RECEIPT_SECRET"),
        ],
    },
    Unconfigured { name: "claims", kind: ChannelKind::Tiss, variables: &[("url", "TISS_URL")] },
    Unconfigured { name: "webhook", kind: ChannelKind::Webhook, variables: &[("secret", "WEBHOOK_SECRET")] },
];

fn settings_keys(kind: ChannelKind) -> Vec<Key> {
    match kind {
        ChannelKind::Evolution => keys_of::<EvolutionSettings>(),
        ChannelKind::Smtp => keys_of::<SmtpSettings>(),
        ChannelKind::Resend => keys_of::<ResendSettings>(),
        ChannelKind::Tiss => keys_of::<TissSettings>(),
        ChannelKind::Webhook => [keys_of::<WebhookSettings>(), keys_of::<WebhookFiles>()].concat(),
        ChannelKind::Null | ChannelKind::Own => keys_of::<Null>(),
    }
}

/// Reads one channel; nothing if not even its kind is known. `folder` is where relative file names start.
pub(super) fn read(
    reading: &mut Reading,
    path: &str,
    mut table: Table,
    hours: &Hours,
    folder: &Path,
) -> Option<Channel> {
    let before = reading.problems.0.len();
    let kind = read_kind(reading, path, table.remove("kind"))?;
    let retry = table.remove("retry").and_then(|value| reading.table(&joined(path, "retry"), value));
    let retry = retry.map(|retry| read_overrides(reading, &joined(path, "retry"), retry)).unwrap_or_default();
    let breaker = table.remove("breaker").and_then(|value| reading.table(&joined(path, "breaker"), value));
    let breaker = breaker.map(|breaker| read_breaker(reading, &joined(path, "breaker"), breaker));
    let window = table.remove("window");
    let window = window.and_then(|value| hours.of_channel(reading, &joined(path, "window"), value));
    let rules = table.remove("rules").map(|value| read_rules(reading, &joined(path, "rules"), value));

    let own = settings_keys(kind);
    let is_common = |name: &str| keys_of::<Common>().iter().any(|key| key.name == name);
    let (mut common, mut settings) = (Table::new(), Table::new());
    for (name, value) in table {
        if is_common(&name) {
            common.insert(name, value);
        } else if own.iter().any(|key| key.name == name) {
            settings.insert(name, value);
        } else {
            refuse_key(reading, path, &name, kind);
        }
    }
    let common: Common = reading.section(path, common);
    check_timeout(reading, path, common.attempt_timeout);
    line::check(reading, path, &common);
    let settings = read_settings(reading, path, kind, settings, folder);
    let channel = Channel {
        common,
        retry,
        rules: rules.unwrap_or_default(),
        breaker: breaker.unwrap_or_default(),
        window,
        settings,
    };
    if reading.problems.0.len() == before
        && let Err(found) = channel.build()
    {
        for problem in found {
            reading.problems.say(joined(path, &problem.field), problem.reason, problem.hint);
        }
    }
    Some(channel)
}

pub(super) fn check_timeout(reading: &mut Reading, path: &str, timeout: Span) {
    let most = Span::from_mins(10);
    if timeout == Span::ZERO || timeout > most {
        let what = format!("{timeout} is out of bounds");
        let hint = format!("more than nothing, at most {most}");
        reading.problems.say(joined(path, "attempt_timeout"), what, hint);
    }
}

fn read_kind(reading: &mut Reading, path: &str, value: Option<Value>) -> Option<ChannelKind> {
    let here = joined(path, "kind");
    let known = || ChannelKind::ALL.iter().map(|kind| kind.as_str());
    let Some(value) = value else {
        reading.problems.say(here, "missing", suggestion("", known()));
        return None;
    };
    let kind = value.as_str().and_then(|text| text.parse().ok());
    if kind.is_none() {
        let word = value.as_str().unwrap_or_default();
        reading.problems.say(here, format!("{value} is no kind of channel"), suggestion(word, known()));
    }
    kind
}

/// Says which kind a misplaced key belongs to, or which key was perhaps meant.
fn refuse_key(reading: &mut Reading, path: &str, name: &str, kind: ChannelKind) {
    let here = joined(path, name);
    let has = |other: &ChannelKind| settings_keys(*other).iter().any(|key| key.name == name);
    if let Some(other) = ChannelKind::ALL.into_iter().find(has) {
        let hint = format!("`{name}` is a setting of kind `{other}`: remove it, or change `kind`");
        reading.problems.say(here, format!("a channel of kind `{kind}` has no such key"), hint);
        return;
    }
    let keys: Vec<Key> = settings_keys(kind).into_iter().chain(keys_of::<Common>()).collect();
    let known = ["kind", "retry", "rules", "breaker", "window", "retention"]
        .into_iter()
        .chain(keys.iter().map(|key| key.name.as_str()));
    reading.unknown(&here, name, known);
}

fn read_settings(
    reading: &mut Reading,
    path: &str,
    kind: ChannelKind,
    table: Table,
    folder: &Path,
) -> Settings {
    match kind {
        ChannelKind::Evolution => {
            let mut it: EvolutionSettings = reading.section(path, table);
            web_address(reading, &joined(path, "base_url"), it.base_url.as_ref());
            it.api_key = secret(reading, path, "api_key", it.api_key, it.api_key_file.as_deref(), folder);
            let file = it.receipt_secret_file.as_deref();
            it.receipt_secret = secret(reading, path, "receipt_secret", it.receipt_secret, file, folder);
            it.ca_file = it.ca_file.map(|file| folder.join(file));
            Settings::Evolution(it)
        }
        ChannelKind::Smtp => {
            let mut it: SmtpSettings = reading.section(path, table);
            mail_address(reading, &joined(path, "url"), it.url.as_ref());
            it.password = secret(reading, path, "password", it.password, it.password_file.as_deref(), folder);
            it.ca_file = it.ca_file.map(|file| folder.join(file));
            if let Some(dkim) = &mut it.dkim {
                dkim.key_file = dkim.key_file.take().map(|file| folder.join(file));
            }
            Settings::Smtp(it)
        }
        ChannelKind::Resend => {
            let mut it: ResendSettings = reading.section(path, table);
            web_address(reading, &joined(path, "base_url"), Some(&it.base_url));
            it.api_key = secret(reading, path, "api_key", it.api_key, it.api_key_file.as_deref(), folder);
            let file = it.receipt_secret_file.as_deref();
            it.receipt_secret = secret(reading, path, "receipt_secret", it.receipt_secret, file, folder);
            it.ca_file = it.ca_file.map(|file| folder.join(file));
            if it.receipt_secret.as_ref().is_some_and(|secret| SigningKey::from_secret(secret).is_none()) {
                let hint = "copy the signing secret of the webhook in Resend: \"whsec_\" and base64";
                reading.problems.say(joined(path, "receipt_secret"), "is not a signing secret", hint);
            }
            Settings::Resend(it)
        }
        ChannelKind::Tiss => {
            let mut it: TissSettings = reading.section(path, table);
            web_address(reading, &joined(path, "url"), it.url.as_ref());
            it.password = secret(reading, path, "password", it.password, it.password_file.as_deref(), folder);
            for file in [&mut it.client_cert_file, &mut it.client_key_file, &mut it.ca_file] {
                *file = file.take().map(|file| folder.join(file));
            }
            Settings::Tiss(Box::new(it))
        }
        ChannelKind::Webhook => {
            let is_file = |name: &str| keys_of::<WebhookFiles>().iter().any(|key| key.name == name);
            let (files, own) = table.into_iter().partition(|(name, _)| is_file(name));
            let files: WebhookFiles = reading.section(path, files);
            let it: WebhookSettings = reading.section(path, own);
            Settings::Webhook(read_webhook(reading, path, it, &files, folder))
        }
        ChannelKind::Null | ChannelKind::Own => Settings::Null(reading.section(path, table)),
    }
}

fn read_webhook(
    reading: &mut Reading,
    path: &str,
    mut it: WebhookSettings,
    files: &WebhookFiles,
    folder: &Path,
) -> WebhookSettings {
    it.secret = secret(reading, path, "secret", it.secret, files.secret_file.as_deref(), folder);
    let file = files.previous_secret_file.as_deref();
    it.previous_secret = secret(reading, path, "previous_secret", it.previous_secret, file, folder);
    it.ca_file = it.ca_file.map(|file| folder.join(file));
    it
}

/// A credential comes from the environment or from a file; one that stands in the configuration is refused,
/// since configuration is copied, committed and mailed around.
pub(super) fn secret(
    reading: &mut Reading,
    path: &str,
    key: &str,
    given: Option<Secret>,
    file: Option<&Path>,
    folder: &Path,
) -> Option<Secret> {
    let here = joined(path, key);
    let file_here = format!("{here}_file");
    if given.is_some() && !reading.origins.outside(&here) {
        let variable = format!("{}_{}", path.rsplit('.').next().unwrap_or_default(), key);
        let variable = variable.replace('-', "_").to_ascii_uppercase();
        let hint = format!("write \"${{{variable}}}\" and set that variable, or use `{key}_file`");
        reading.problems.say(here, "a secret stands in the file", hint);
        return None;
    }
    let Some(file) = file else { return given };
    if given.is_some() {
        reading.problems.say(file_here, format!("given together with `{key}`"), "keep one of them");
        return None;
    }
    match std::fs::read_to_string(folder.join(file)) {
        Ok(text) if !text.trim().is_empty() => Some(Secret::new(text.trim())),
        Ok(_) => {
            reading.problems.say(file_here, format!("{} is empty", file.display()), "put the secret into it");
            None
        }
        Err(error) => {
            let what = format!("{} cannot be read: {error}", file.display());
            reading.problems.say(file_here, what, "name a file that this user may read");
            None
        }
    }
}

pub(super) fn web_address(reading: &mut Reading, path: &str, url: Option<&Url>) {
    let Some(url) = url else { return };
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        let what = format!("{} is not an address of the web", shown_scheme(reading, path, url));
        reading.problems.say(path, what, "write https://host/path");
    }
    literal_password(reading, path, url);
}

fn mail_address(reading: &mut Reading, path: &str, url: Option<&Url>) {
    let Some(url) = url else { return };
    if !matches!(url.scheme(), "smtp" | "smtps") || url.host_str().is_none() {
        let what = format!("{} is not an address of a mail server", shown_scheme(reading, path, url));
        reading.problems.say(path, what, "write smtp://host:587 or smtps://host:465");
    }
    literal_password(reading, path, url);
}

/// How the address begins; not if it came from outside the file, where a part of it may be a secret of its own.
fn shown_scheme(reading: &Reading, path: &str, url: &Url) -> String {
    if reading.origins.outside(path) { "the value".to_owned() } else { format!("`{}:`", url.scheme()) }
}

fn literal_password(reading: &mut Reading, path: &str, url: &Url) {
    if url.password().is_some() && !reading.origins.outside(path) {
        let hint = "put ${VARIABLE} in its place, or the whole address in a variable";
        reading.problems.say(path, "a password stands in the file", hint);
    }
}

/// Changes to a policy, where a list of delays and a doubling one exclude each other.
pub(super) fn read_overrides(reading: &mut Reading, path: &str, table: Table) -> Overrides {
    let overrides: Overrides = reading.section(path, table);
    if overrides.delays.is_some() && overrides.base.is_some() {
        reading.problems.say(joined(path, "base"), "given together with `delays`", "keep one of them");
    }
    overrides
}

fn read_breaker(reading: &mut Reading, path: &str, table: Table) -> Limits {
    let limits: Limits = reading.section(path, table);
    for (key, what, hint) in limits.problems() {
        reading.problems.say(joined(path, key), what, hint);
    }
    limits
}

fn read_rules(reading: &mut Reading, path: &str, value: Value) -> Vec<Rule> {
    let required: Table = [("verdict", "transient"), ("category", "any")]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), Value::String(value.to_owned())))
        .collect();
    let mut rules = Vec::new();
    for (here, table) in reading.tables(path, value) {
        let before = reading.problems.0.len();
        let rule: Option<Rule> = reading.section_with(&here, table, &required);
        let Some(rule) = rule.filter(|_| reading.problems.0.len() == before) else { continue };
        check_rule(reading, &here, &rule);
        rules.push(rule);
    }
    rules
}

pub(super) fn check_rule(reading: &mut Reading, here: &str, rule: &Rule) {
    for bad in Rules::check(std::slice::from_ref(rule)) {
        let at = bad.field.map_or_else(|| here.to_owned(), |field| joined(here, field));
        reading.problems.say(at, bad.problem, bad.hint);
    }
}

/// The settings of each kind beside the common ones, one object a kind.
impl JsonSchema for Channel {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Channel".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let shapes = ChannelKind::ALL.map(|kind| {
            let own = match kind {
                ChannelKind::Evolution => EvolutionSettings::json_schema(generator),
                ChannelKind::Smtp => SmtpSettings::json_schema(generator),
                ChannelKind::Resend => ResendSettings::json_schema(generator),
                ChannelKind::Tiss => TissSettings::json_schema(generator),
                ChannelKind::Webhook => WebhookSettings::json_schema(generator),
                ChannelKind::Null | ChannelKind::Own => Null::json_schema(generator),
            };
            let mut properties = Map::new();
            let about = "What it sends through: evolution, smtp, resend, tiss, webhook or null.";
            properties.insert("kind".into(), json!({"const": kind.as_str(), "description": about}));
            let files = (kind == ChannelKind::Webhook).then(|| WebhookFiles::json_schema(generator));
            for schema in [Common::json_schema(generator), own].into_iter().chain(files) {
                let found =
                    schema.as_object().and_then(|object| object.get("properties")?.as_object().cloned());
                properties.extend(found.unwrap_or_default());
            }
            properties.insert("retry".into(), generator.subschema_for::<Overrides>().to_value());
            properties.insert("breaker".into(), generator.subschema_for::<Limits>().to_value());
            properties.insert("retention".into(), generator.subschema_for::<Messages>().to_value());
            let window = generator.subschema_for::<Window>().to_value();
            let about = "When campaigns may send: the name of one of `windows`, or the hours themselves.";
            let window = json!({"description": about, "oneOf": [{"type": "string"}, window]});
            properties.insert("window".into(), window);
            properties.insert("rules".into(), generator.subschema_for::<Vec<Rule>>().to_value());
            json!({
                "type": "object",
                "title": kind.as_str(),
                "properties": properties,
                "required": ["kind"],
                "additionalProperties": false,
            })
        });
        json_schema!({"description": "One channel; its `kind` decides which settings it has.", "oneOf": shapes})
    }
}
