//! The engine inside another program: start it, hand messages in, follow them, stop it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pombo_channels::Channel;
use pombo_engine::Engine;
use pombo_kernel::classify::Rule;
use pombo_kernel::content;
use pombo_kernel::id::MessageId;
use pombo_kernel::lifecycle::OnUnknownOutcome;
use pombo_kernel::message::{Actor, StateName};
use pombo_kernel::name::{BadName, LaneName, PolicyName, TemplateName, Tenant};
use pombo_kernel::policy::Overrides;
use pombo_kernel::request::{self, Request};
use pombo_kernel::setup::Setup;
use pombo_kernel::template::{Compiled, Template};
use pombo_kernel::time::{Clock, Span};
use pombo_store::postgres::Target;
use pombo_store::{Cancelled, Store, StoreError, Story};

use crate::config::channel::{Common, Settings};
use crate::config::{self, Config, Environment, Problem, Problems, Source, suggestion};
use crate::node::{self, Node, NodeError, Parts, Place, Roles, Works};

/// How to start: where the data lives, what is configured, and which channels the program brings along.
///
/// ```no_run
/// # use pombo::Options;
/// let options = Options { data: "/var/lib/shop/pombo".into(), ..Options::default() };
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of the embedded store. It is made if need be, and belongs to one process at a time.
    pub data: PathBuf,
    /// A PostgreSQL instead of the embedded store, shared with other nodes: programs like this one, or `pombo serve`.
    /// `store.database_url` in [`config`](Options::config) says the same; this outranks it.
    pub database: Option<Target>,
    /// Configuration as in `pombo.toml`: channels of the built-in kinds, lanes, routes, policies, limits.
    ///
    /// Nothing is read from the environment. A text that names no channel has one of each built-in kind, among
    /// them `webhook`.
    pub config: String,
    /// The lanes to work; all of them if none is named.
    pub lanes: Vec<String>,
    /// Channels of the program's own, by name; see [`Options::channel`].
    pub channels: BTreeMap<String, OwnChannel>,
    /// The HTTP API beside the library, for dashboards, other programs and the `pombo` command; none by default.
    pub door: Option<Door>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            data: "./pombo-data".into(),
            database: None,
            config: String::new(),
            lanes: Vec::new(),
            channels: BTreeMap::new(),
            door: None,
        }
    }
}

impl Options {
    /// Adds a channel of one's own under that name, handled as [`Handling::default`] says.
    #[must_use]
    pub fn channel(self, name: &str, channel: impl Channel + 'static) -> Options {
        self.channel_with(name, channel, Handling::default())
    }

    /// Adds a channel of one's own under that name, and says how its failures are handled.
    #[must_use]
    pub fn channel_with(
        mut self,
        name: &str,
        channel: impl Channel + 'static,
        handling: Handling,
    ) -> Options {
        self.channels.insert(name.to_owned(), OwnChannel { channel: Arc::new(channel), handling });
        self
    }
}

/// A channel that the program brings along.
#[derive(Clone, Debug)]
pub struct OwnChannel {
    /// What makes the attempts.
    pub channel: Arc<dyn Channel>,
    /// What becomes of those that fail.
    pub handling: Handling,
}

/// How the failures of a channel are handled.
#[derive(Clone, Debug)]
pub struct Handling {
    /// The retry policy, by name: a built-in one, or one of [`Options::config`]. `webhook` if none is named.
    pub policy: Option<String>,
    /// Changes to that policy.
    pub retry: Overrides,
    /// Rules that say what a failure means, tried before the built-in ones, which know faults and HTTP statuses.
    pub rules: Vec<Rule>,
    /// What to do when nobody knows whether a message went out.
    pub on_unknown_outcome: OnUnknownOutcome,
    /// Longest time that one attempt may take.
    pub attempt_timeout: Span,
}

impl Default for Handling {
    fn default() -> Handling {
        let Common { on_unknown_outcome, attempt_timeout, .. } = Common::default();
        Handling {
            policy: None,
            retry: Overrides::default(),
            rules: Vec::new(),
            on_unknown_outcome,
            attempt_timeout,
        }
    }
}

/// Where the HTTP API is opened, and for whom.
#[derive(Clone)]
pub struct Door {
    /// The address; port 0 is any free one, which [`Pombo::address`] then tells.
    pub listen: SocketAddr,
    /// The key of an administrator, who can make others. At least 20 random characters.
    pub admin_key: String,
}

/// Leaves out the key.
impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("listen", &self.listen).finish_non_exhaustive()
    }
}

/// Why the engine did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The options cannot be used: every problem, each with its place and a hint.
    #[error("{0}")]
    Options(Problems),
    /// The store cannot be opened, for example because another process has it.
    #[error("the store at {place} cannot be used: {error}")]
    Store {
        /// The folder of [`Options::data`], or the address of the database without its password.
        place: String,
        /// What the store says.
        error: StoreError,
    },
    /// Nobody can listen on the door's address.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address of [`Door::listen`].
        address: SocketAddr,
        /// What the system says.
        error: std::io::Error,
    },
}

impl From<Problems> for StartError {
    fn from(problems: Problems) -> StartError {
        StartError::Options(problems)
    }
}

impl From<NodeError> for StartError {
    fn from(error: NodeError) -> StartError {
        match error {
            NodeError::Store { place, error } => StartError::Store { place: place.to_string(), error },
            NodeError::Listen { address, error } => StartError::Listen { address, error },
        }
    }
}

/// Why a message was not accepted: one variant for each way to react. Nothing was stored, except as
/// [`SendError::Store`] says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The request cannot be accepted: every problem, by field.
    #[error("{}", listed(.0))]
    Refused(Vec<request::Problem>),
    /// The idempotency key belongs to another request, which became this message.
    #[error("the idempotency key was used for another request, which became {0}")]
    Conflict(MessageId),
    /// The store did not take it. After [`StoreError::Broken`] nobody knows whether it did; the same request under
    /// the same idempotency key can be repeated safely.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a template was not put.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// It cannot be used: the problems, by part.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Refused(Vec<content::Problem>),
    /// The store did not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn listed(problems: &[request::Problem]) -> String {
    let one = |it: &request::Problem| format!("{}: {} (hint: {})", it.field, it.reason, it.hint);
    problems.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// An engine at work inside this program. Clones are the same engine.
///
/// It works on the tokio runtime that it was started on. Dropping it stops nothing: call [`Pombo::stop`], or
/// what is being sent is in doubt at the next start, as after a crash.
#[derive(Clone, Debug)]
pub struct Pombo {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    setup: Arc<Setup>,
    engine: Option<Arc<Engine>>,
    address: Option<SocketAddr>,
    /// Taken by whoever stops it.
    running: Arc<Mutex<Option<Running>>>,
}

#[derive(Debug)]
enum Running {
    Works(Works),
    Node(Node),
}

/// Looks at a message at most this often while it is waited for: under load there are thousands of commits a second.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Looks without any news so often: another node may send the message.
const LOOK_ANYWAY: Duration = Duration::from_secs(1);

impl Pombo {
    /// Opens the store, recovers what an earlier life left behind, and begins to send.
    pub async fn start(options: Options) -> Result<Pombo, StartError> {
        let Options { data, database, config, lanes, channels, door } = options;
        let config = configured(&config, channels)?;
        let lanes = chosen(&lanes, &config)?;
        let senders = config.channels()?;
        let place = match database.or_else(|| config.database.clone()) {
            Some(target) => Place::Postgres(target),
            None => Place::Embedded(data.into()),
        };
        let place = match config.encryption.keys() {
            Ok(keys) => place.with_keys(keys),
            Err(error) => return Err(StartError::Store { place: place.to_string(), error }),
        };
        let opened = node::open(place, Roles::default(), config.keep).await?;
        let (store, clock) = (Arc::clone(&opened.store), Arc::clone(&opened.clock));
        let (setup, engine, address, running) = match door {
            None => {
                let works = opened.work(config, senders, &lanes);
                (works.setup(), works.engine.clone(), None, Running::Works(works))
            }
            Some(Door { listen, admin_key }) => {
                opened.admin_key(Some(&admin_key)).await?;
                let node = opened.start(Parts { config, channels: senders, listen, lanes }).await?;
                (node.setup(), node.engine.clone(), Some(node.address), Running::Node(node))
            }
        };
        let running = Arc::new(Mutex::new(Some(running)));
        Ok(Pombo { store, clock, setup, engine, address, running })
    }

    /// Hands a message in. The answer means that it is on disk and will be attempted, whatever happens.
    ///
    /// The same request under the same [`idempotency_key`](Request::idempotency_key) is the same message.
    pub async fn send(&self, mut request: Request) -> Result<MessageId, SendError> {
        let key = request.idempotency_key.take();
        if let Some(problem) = key.as_deref().and_then(request::bad_idempotency_key) {
            return Err(SendError::Refused(vec![problem]));
        }
        // As the HTTP door digests it, so that a repeat is known whichever way it comes.
        let idempotency = key.map(|key| {
            pombo_web::idempotency(key, &serde_json::to_vec(&request).expect("a request is writable"))
        });
        let minds_list = !request.override_suppression.unwrap_or(false);
        let mut draft =
            self.setup.draft(request, &Tenant::default(), self.clock.now()).map_err(SendError::Refused)?;
        draft.idempotency = idempotency;
        let found =
            pombo_web::pin_templates(&*self.store, &self.setup, std::slice::from_mut(&mut draft)).await?;
        let mut problems: Vec<_> = found.into_iter().flatten().collect();
        if problems.is_empty() && minds_list {
            let draft = std::slice::from_ref(&draft);
            problems.extend(pombo_web::suppression::stops(&*self.store, &self.setup, draft).await?);
        }
        if !problems.is_empty() {
            return Err(SendError::Refused(problems));
        }
        let accepted = self.store.accept(vec![draft]).await?.pop();
        match accepted.ok_or(StoreError::Closed)? {
            Ok(accepted) => Ok(accepted.id),
            Err(conflict) => Err(SendError::Conflict(conflict.first)),
        }
    }

    /// Puts a template that messages can name, and answers its version. The latest version again is no new one, and
    /// a message keeps the version that was the latest when it was accepted.
    pub async fn put_template(&self, name: &str, template: Template) -> Result<u32, TemplateError> {
        let name: TemplateName = name.parse().map_err(|bad: BadName| {
            TemplateError::Refused(vec![content::Problem {
                field: "name".into(),
                reason: "is not a name for a template".into(),
                hint: bad.to_string(),
            }])
        })?;
        Compiled::new(template.clone()).map_err(TemplateError::Refused)?;
        let by = Actor("library".to_owned());
        Ok(self.store.put_template(Tenant::default(), name, template, by).await?.stored.version)
    }

    /// A message as it stands, with every attempt so far; none if there is no such message.
    pub async fn message(&self, id: MessageId) -> Result<Option<Story>, StoreError> {
        self.store.story(Tenant::default(), id).await
    }

    /// Waits until a message is sent, failed, cancelled or discarded; none if there is no such message.
    ///
    /// A message can take days, by its policy. Whoever does not want to wait so long puts a timeout around this.
    pub async fn wait(&self, id: MessageId) -> Result<Option<Story>, StoreError> {
        let mut news = self.store.watch();
        loop {
            news.mark_unchanged();
            let Some(story) = self.message(id).await? else { return Ok(None) };
            if !matches!(story.state.name(), StateName::Pending | StateName::Sending) {
                return Ok(Some(story));
            }
            if let Ok(Err(_)) = tokio::time::timeout(LOOK_ANYWAY, news.changed()).await {
                return Err(self.store.health().err().unwrap_or(StoreError::Closed));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Cancels a message that still waits, and says whether it was in time.
    pub async fn cancel(&self, id: MessageId) -> Result<Cancelled, StoreError> {
        self.store.cancel(Tenant::default(), id, Actor("library".to_owned())).await
    }

    /// Where the HTTP door listens, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Waits as long as the engine can do its work, then says why it no longer can. A stop is no such reason.
    ///
    /// After a flush to disk that failed, for example, nobody knows what is there. Nothing is accepted or sent any
    /// more: end the process, and the next start reads everything anew.
    pub async fn broken(&self) -> String {
        let reason = node::broken(&*self.store, self.engine.as_deref()).await;
        if self.running.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            std::future::pending::<()>().await;
        }
        reason
    }

    /// Takes nothing new, finishes what is being sent for up to `grace`, records it, and closes the store.
    ///
    /// Every later call on this engine or its clones answers [`StoreError::Closed`]; stopping again does nothing.
    pub async fn stop(&self, grace: Duration) -> Result<(), StoreError> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let stopped = match running {
            None => return Ok(()),
            Some(Running::Works(works)) => works.stop(grace).await,
            Some(Running::Node(node)) => node.stop(grace).await,
        };
        stopped.map_err(|error| match error {
            NodeError::Store { error, .. } => error,
            NodeError::Listen { error, .. } => StoreError::Unavailable(error.to_string()),
        })
    }
}

/// The configuration with the program's own channels in it.
fn configured(text: &str, channels: BTreeMap<String, OwnChannel>) -> Result<Config, Problems> {
    let mut config = Config::parse(text, Source::default(), &Environment::default())?;
    let mut problems = Problems::default();
    for (name, OwnChannel { channel, handling }) in channels {
        let added = own(channel, handling, &name).and_then(|own| config.add(&name, own));
        problems.0.extend(added.err().into_iter().flat_map(|found| found.0));
    }
    if problems.0.is_empty() { Ok(config) } else { Err(problems) }
}

fn own(channel: Arc<dyn Channel>, handling: Handling, name: &str) -> Result<config::Channel, Problems> {
    let Handling { policy, retry, rules, on_unknown_outcome, attempt_timeout } = handling;
    let policy = policy.map(|policy| policy.parse::<PolicyName>()).transpose().map_err(|bad| {
        Problems(vec![Problem::new(format!("channels.{name}.policy"), "not a name", bad.to_string())])
    })?;
    let common = Common { policy, on_unknown_outcome, attempt_timeout, ..Common::default() };
    let breaker = Default::default();
    Ok(config::Channel { common, retry, rules, breaker, window: None, settings: Settings::Own(channel) })
}

fn chosen(lanes: &[String], config: &Config) -> Result<Vec<LaneName>, Problems> {
    let known = |lane: &String| {
        config.lanes.keys().find(|known| known.as_str() == lane).cloned().ok_or_else(|| {
            let hint = suggestion(lane, config.lanes.keys().map(LaneName::as_str));
            Problems(vec![Problem::new("lanes", format!("there is no lane `{lane}`"), hint)])
        })
    };
    lanes.iter().map(known).collect()
}
