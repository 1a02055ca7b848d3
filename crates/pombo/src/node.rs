//! One running Pombo: store, engine and HTTP door, wired together; or those of them that its roles ask for.
//!
//! It prints nothing and reads no environment, so that it can stand inside another program.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use pombo_engine::shell::Channels;
use pombo_engine::{Engine, Instruments, Watchmen};
use pombo_kernel::dice::Dice;
use pombo_kernel::name::LaneName;
use pombo_kernel::setup::Setup;
use pombo_kernel::time::{Clock, Span};
use pombo_store::core::Core;
use pombo_store::postgres::inbox::Inbox;
use pombo_store::postgres::{self, Target};
use pombo_store::shell::Shell;
use pombo_store::sqlite::Sqlite;
use pombo_store::{Pause, Store, StoreError};
use pombo_web::{Bounds, Check, Door, Sign};
use prometheus::Registry;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::alerts::Lookout;
use crate::anchors::Anchorer;
use crate::camunda::{Desk, Workers};
use crate::clock::{self, SteadyClock, SystemClock};
use crate::conductor::Conductor;
use crate::config::{Config, Environment, Problems};
use crate::digests::Digester;
use crate::fanout::Fanout;
use crate::inbox::Clerk;
use crate::keeper::Keeper;
use crate::learner::Learner;
use crate::meter;
use crate::notices::Courier;
use crate::operations::Foreman;
use crate::reports::Reporter;
use crate::reserve;
use crate::submission::Submission;
use crate::suppressor::Suppressor;
use crate::traces::Office;

use pombo_store::home::Folder;
pub use pombo_store::home::Home as Place;

/// What a node does. Where nodes share a database, not all of them need to do everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum NodeRole {
    /// Opens the HTTP API; a node without it answers /healthz, /readyz and /metrics only
    Api,
    /// Claims messages, sends them, and takes over what dead nodes left
    Worker,
    /// Looks after the database, takes in what SQL functions left, does operations and campaigns, and asks providers how
    /// they are
    Scheduler,
}

impl NodeRole {
    pub const ALL: [NodeRole; 3] = [NodeRole::Api, NodeRole::Worker, NodeRole::Scheduler];

    pub fn as_str(self) -> &'static str {
        match self {
            NodeRole::Api => "api",
            NodeRole::Worker => "worker",
            NodeRole::Scheduler => "scheduler",
        }
    }
}

/// The roles of one node; all of them by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles(BTreeSet<NodeRole>);

impl Default for Roles {
    fn default() -> Roles {
        Roles(NodeRole::ALL.into())
    }
}

impl Roles {
    /// Those that are named; all if none are.
    pub fn of(named: &[NodeRole]) -> Roles {
        if named.is_empty() { Roles::default() } else { Roles(named.iter().copied().collect()) }
    }

    pub fn has(&self, role: NodeRole) -> bool {
        self.0.contains(&role)
    }

    pub fn are_all(&self) -> bool {
        *self == Roles::default()
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|role| role.as_str()).collect();
        f.write_str(&names.join(", "))
    }
}

/// What a node is made of.
#[derive(Debug)]
pub struct Parts {
    pub config: Config,
    /// What sends through each channel; usually [`Config::channels`].
    pub channels: Channels,
    /// Where the HTTP door listens; port 0 is any free one.
    pub listen: SocketAddr,
    /// The lanes that this node works; all if none are named.
    pub lanes: Vec<LaneName>,
}

/// Why a node did not start, or did not stop well.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("the store at {place} cannot be used: {error}")]
    Store { place: Place, error: StoreError },
    #[error("cannot listen on {address}: {error}")]
    Listen { address: SocketAddr, error: io::Error },
}

/// The requests in flight when a node stops have this long to end, once everything sent is recorded.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

/// A store and what works on it, without a door. Dropping it stops nothing well; call [`stop`](Works::stop).
#[derive(Debug)]
pub struct Works {
    /// The store, with the readers of the doors.
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub config: Config,
    pub place: Place,
    pub roles: Roles,
    setup: watch::Sender<Arc<Setup>>,
    pub(crate) engine: Option<Arc<Engine>>,
    watchmen: Option<Watchmen>,
    clerk: Option<Clerk>,
    foreman: Option<Foreman>,
    conductor: Option<Conductor>,
    fanout: Option<Fanout>,
    suppressor: Option<Suppressor>,
    lookout: Option<Lookout>,
    keeper: Option<Keeper>,
    courier: Option<Courier>,
    digester: Option<Digester>,
    reporter: Option<Reporter>,
    /// Whoever brings accepted rules here.
    learner: Option<Learner>,
    /// Whoever signs the audit chain.
    anchorer: Option<Anchorer>,
    /// Whoever answers the tasks of process engines.
    camunda: Option<Workers>,
    /// Where traces go, if anywhere.
    traces: Option<Office>,
    meter: pombo_web::Meter,
}

/// A running node: works with a door. Dropping it stops nothing well; call [`stop`](Node::stop).
#[derive(Debug)]
pub struct Node {
    /// Where the HTTP door listens.
    pub address: SocketAddr,
    works: Works,
    door: Door,
    /// The door for mail, where there is one.
    submission: Option<Submission>,
    stop_server: oneshot::Sender<()>,
    server: JoinHandle<io::Result<()>>,
}

/// A store that is open, with nothing working on it yet. Keys can be looked after before any door opens.
#[derive(Debug)]
pub struct Opened {
    /// The store, with the readers of the doors.
    pub store: Arc<dyn Store>,
    /// The same store, with readers of the dashboard's own: heavy pages must not hold up callers of the API.
    pages: Arc<dyn Store>,
    /// The same store, with readers of the engine's own: many callers at the doors must not hold up sending.
    pub(crate) engine_store: Arc<dyn Store>,
    inbox: Option<Arc<dyn Inbox>>,
    pub clock: Arc<dyn Clock>,
    place: Place,
    roles: Roles,
    /// Where everything shows its numbers.
    registry: Registry,
}

/// Opens the store, for a node with those roles. An embedded one is refused while another process has it.
///
/// On a database, months that ended longer ago than `keep` are dropped.
pub async fn open(place: Place, roles: Roles, keep: Option<Span>) -> Result<Opened, NodeError> {
    let (at, parts) = (place.clone(), roles.clone());
    let registry = Registry::new();
    meter::show_process(&registry);
    let shown = registry.clone();
    // Recovery reads and writes files, which must not hold up the other tasks of this thread.
    let opening = tokio::task::spawn_blocking(move || match at {
        Place::Embedded(folder) => embedded(&folder, &shown),
        Place::Postgres(target) => shared(target, &parts, keep, &shown),
    });
    let opened = opening.await.unwrap_or_else(|error| Err(StoreError::Broken(error.to_string())));
    match opened {
        Ok(Stores { doors, pages, engine, inbox, clock }) => {
            meter::show_jumps(&registry, Arc::clone(&clock));
            if let Ok(Some(Pause { since, why })) = doors.paused().await {
                warn!(%since, why, "the store is paused: nothing is sent until `pombo store resume`");
            }
            Ok(Opened { store: doors, pages, engine_store: engine, inbox, clock, place, roles, registry })
        }
        Err(error) => Err(NodeError::Store { place, error }),
    }
}

/// A store with what belongs to it.
struct Stores {
    doors: Arc<dyn Store>,
    pages: Arc<dyn Store>,
    engine: Arc<dyn Store>,
    /// What applications enqueue by SQL, where they can.
    inbox: Option<Arc<dyn Inbox>>,
    /// What the store goes by.
    clock: Arc<dyn Clock>,
}

/// How many read beside the writer of an embedded store, for the dashboard and for the engine each.
const READERS: usize = 4;

fn embedded(folder: &Folder, registry: &Registry) -> Result<Stores, StoreError> {
    let core = Sqlite::open_with(folder, Dice::seeded(clock::seed()), &clock::entropy(), folder.keys())?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let readers = || (0..READERS).map(|_| core.reader()).collect::<Result<Vec<_>, _>>();
    let (for_pages, for_engine) = (readers()?, readers()?);
    let doors = Shell::start(core, Arc::clone(&clock), Box::new(clock::entropy))?;
    let (pages, engine) = (doors.beside(for_pages), doors.beside(for_engine));
    doors.meter().show(registry);
    show_readers(registry, [&doors, &pages, &engine]);
    meter::show_folder(registry, folder);
    Ok(Stores {
        doors: Arc::new(doors),
        pages: Arc::new(pages),
        engine: Arc::new(engine),
        inbox: None,
        clock,
    })
}

fn shared(
    target: Target,
    roles: &Roles,
    keep: Option<Span>,
    registry: &Registry,
) -> Result<Stores, StoreError> {
    let options = postgres::Options { target, upkeep: roles.has(NodeRole::Scheduler), keep };
    let local = Arc::new(SteadyClock::new());
    let started = postgres::start(&options, local, Dice::seeded(clock::seed()), Box::new(clock::entropy))?;
    started.store.meter().show(registry);
    show_readers(registry, [&started.store, &started.dashboard, &started.engine]);
    meter::show_clock(registry, Arc::clone(&started.clock));
    Ok(Stores {
        doors: Arc::new(started.store),
        pages: Arc::new(started.dashboard),
        engine: Arc::new(started.engine),
        inbox: Some(Arc::new(started.inbox)),
        clock: started.clock,
    })
}

fn show_readers<C: Core>(registry: &Registry, [doors, pages, engine]: [&Shell<C>; 3]) {
    let pools: Vec<(_, meter::Ask)> = vec![
        ("doors", Box::new(doors.readers())),
        ("pages", Box::new(pages.readers())),
        ("engine", Box::new(engine.readers())),
    ];
    meter::show_readers(registry, pools);
}

impl Opened {
    /// Where whoever starts the node may show numbers of its own.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Sees to it that somebody can administer this store, and gives back the key that it had to make; see
    /// [`ensure_admin`](pombo_web::keys::ensure_admin).
    pub async fn admin_key(&self, given: Option<&str>) -> Result<Option<String>, NodeError> {
        let made = pombo_web::keys::ensure_admin(&*self.store, given, &clock::entropy, self.clock.now());
        made.await.map_err(|error| NodeError::Store { place: self.place.clone(), error })
    }

    /// Does what its roles ask for. Without the role `api` the door only tells whether the node is well.
    pub async fn start(self, parts: Parts) -> Result<Node, NodeError> {
        let Parts { config, channels, listen, lanes } = parts;
        // The address first: a node that cannot be reached should not begin to send.
        let listening = async {
            let listener = TcpListener::bind(listen).await?;
            Ok((listener.local_addr()?, listener))
        };
        let (address, listener) =
            listening.await.map_err(|error| NodeError::Listen { address: listen, error })?;
        let smtp = config.smtp.listen.filter(|_| self.roles.has(NodeRole::Api));
        let submission = match smtp {
            None => None,
            Some(address) => {
                let ready = Submission::ready(&config.smtp, address, LAST_REQUESTS).await;
                Some(ready.map_err(|error| NodeError::Listen { address, error })?)
            }
        };
        let pages = Arc::clone(&self.pages);
        let works = self.work(config, channels, &lanes);
        let entropy = Arc::new(clock::entropy);
        let door = Door::new(Arc::clone(&works.store), works.setup.subscribe(), works.clock.clone(), entropy);
        if let Some(traces) = &works.traces {
            door.keep_traces(traces.tracer());
        }
        door.show_pages_by(pages);
        door.measure_with(works.meter.clone());
        door.watch_for(works.engine.iter().map(sign_of).collect());
        let router = match works.roles.has(NodeRole::Api) {
            true => pombo_web::router(door.clone()),
            false => pombo_web::probes(door.clone()),
        };
        let submission = submission.map(|ready| Submission::open(ready, door.clone()));
        let (stop_server, stopping) = oneshot::channel();
        let bounds = Bounds { grace: LAST_REQUESTS, ..Bounds::default() };
        let serving = pombo_web::serve_within(listener, router, bounds, async {
            let _ = stopping.await;
        });
        let server = tokio::spawn(serving);
        info!(%address, store = %works.place, roles = %works.roles, "running");
        Ok(Node { address, works, door, submission, stop_server, server })
    }

    /// Does what its roles ask for, and opens no door. Works the lanes that are named; all if none are.
    pub fn work(self, config: Config, channels: Channels, lanes: &[LaneName]) -> Works {
        let Opened { store, pages: _, engine_store, inbox, clock, place, roles, registry } = self;
        // Not before: whoever only looks into a folder, or erases in a backup, leaves it no larger than it was.
        if let Place::Embedded(folder) = &place {
            reserve::keep(folder);
        }
        let setup = Arc::new(config.setup());
        let unready: Vec<&str> =
            setup.channels.values().filter(|it| it.unready.is_some()).map(|it| it.name.as_str()).collect();
        if !unready.is_empty() {
            let channels = unready.join(", ");
            info!(
                channels,
                "these channels are not set up, and their messages will wait; see `pombo config check`"
            );
        }
        let setups = watch::channel(Arc::clone(&setup)).0;
        let clerk = inbox
            .filter(|_| roles.has(NodeRole::Scheduler))
            .map(|inbox| Clerk::start(inbox, Arc::clone(&engine_store), setups.subscribe(), clock::seed()));
        let watchmen = roles
            .has(NodeRole::Scheduler)
            .then(|| Watchmen::start(Arc::clone(&engine_store), &setup, &channels, Arc::clone(&clock)));
        let foreman = (roles.has(NodeRole::Scheduler) || roles.has(NodeRole::Worker)).then(|| {
            let (store, clock) = (Arc::clone(&engine_store), Arc::clone(&clock));
            Foreman::start(store, setups.subscribe(), channels.clone(), clock, &place, &roles)
        });
        let conductor = roles
            .has(NodeRole::Scheduler)
            .then(|| Conductor::start(Arc::clone(&engine_store), setups.subscribe(), Arc::clone(&clock)));
        let fanout = roles.has(NodeRole::Scheduler).then(|| {
            let (store, clock) = (Arc::clone(&engine_store), Arc::clone(&clock));
            Fanout::start(store, setups.subscribe(), clock, clock::seed())
        });
        let lookout = roles.has(NodeRole::Scheduler).then(|| {
            let (store, clock) = (Arc::clone(&engine_store), Arc::clone(&clock));
            Lookout::start(store, setups.subscribe(), clock, place.clone())
        });
        let keeper = roles.has(NodeRole::Scheduler).then(|| {
            let (store, clock) = (Arc::clone(&engine_store), Arc::clone(&clock));
            Keeper::start(store, setups.subscribe(), clock, clock::seed())
        });
        let courier = roles
            .has(NodeRole::Scheduler)
            .then(|| Courier::start(Arc::clone(&engine_store), setups.subscribe(), Arc::clone(&clock)));
        let digester = roles.has(NodeRole::Scheduler).then(|| {
            let (store, clock) = (Arc::clone(&engine_store), Arc::clone(&clock));
            Digester::start(store, setups.subscribe(), clock, clock::seed())
        });
        let reporter = roles
            .has(NodeRole::Scheduler)
            .then(|| Reporter::start(Arc::clone(&engine_store), setups.subscribe(), Arc::clone(&clock)));
        let suppressor = roles.has(NodeRole::Scheduler).then(|| {
            let (store, clock) = (Arc::clone(&engine_store), Arc::clone(&clock));
            Suppressor::start(store, setups.subscribe(), clock, Arc::new(clock::entropy), clock::seed())
        });
        let traces = Office::start(&config.traces, Arc::clone(&clock), clock::seed());
        let engine = roles.has(NodeRole::Worker).then(|| {
            let (setup, clock) = (Arc::clone(&setup), Arc::clone(&clock));
            let instruments =
                Instruments { tracer: traces.as_ref().map(Office::tracer), ..Instruments::default() };
            instruments.meter.show(&registry);
            let store = Arc::clone(&engine_store);
            Arc::new(Engine::start(store, setup, channels, clock, clock::seed(), lanes, instruments))
        });
        let learner = Some(Learner::start(engine_store, setups.clone(), engine.clone(), Arc::clone(&clock)));
        if let Some(engine) = &engine {
            meter::show_engine(&registry, engine);
        }
        if let Some(traces) = &traces {
            meter::show_traces(&registry, traces.lost());
        }
        let meter = pombo_web::Meter::new(registry);
        meter.require_key(config.metrics.require_key);
        let mut works = Works {
            store,
            clock,
            config,
            place,
            roles,
            setup: setups,
            engine,
            watchmen,
            clerk,
            foreman,
            conductor,
            fanout,
            suppressor,
            lookout,
            keeper,
            courier,
            digester,
            reporter,
            learner,
            anchorer: None,
            camunda: None,
            traces,
            meter,
        };
        works.anchorer = works.anchorer();
        works.camunda = works.camunda();
        works
    }
}

impl Works {
    /// What is configured at present.
    pub fn setup(&self) -> Arc<Setup> {
        self.setup.borrow().clone()
    }

    /// Why this process can no longer do its work; waits as long as it can.
    pub async fn broken(&self) -> String {
        broken(&*self.store, self.engine.as_deref()).await
    }

    /// Somebody who signs the audit chain as it is configured at present, where that is this node's to do.
    fn anchorer(&self) -> Option<Anchorer> {
        let scheduler = self.roles.has(NodeRole::Scheduler);
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
        scheduler.then(|| Anchorer::start(store, clock, &self.place, &self.config.audit)).flatten()
    }

    /// Workers for the process engines that are configured at present, where this node works.
    fn camunda(&self) -> Option<Workers> {
        self.roles.has(NodeRole::Worker).then(|| {
            let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
            let meter = self.meter.decisions().clone();
            let desk = Desk { store, setup: self.setup.subscribe(), clock, meter };
            Workers::start(&self.config, &desk, clock::seed())
        })
    }

    /// Takes no more work, finishes what is being sent for up to `grace`, records it, and closes.
    pub async fn stop(mut self, grace: Duration) -> Result<(), NodeError> {
        self.drain(grace).await?;
        self.close().await
    }

    /// A store that breaks meanwhile ends the wait: nothing more can be recorded.
    async fn drain(&mut self, grace: Duration) -> Result<(), NodeError> {
        (self.watchmen, self.clerk, self.foreman) = (None, None, None);
        (self.conductor, self.fanout, self.suppressor) = (None, None, None);
        (self.lookout, self.courier, self.keeper) = (None, None, None);
        (self.digester, self.reporter, self.learner) = (None, None, None);
        self.anchorer = None;
        let Some(engine) = &self.engine else { return Ok(()) };
        let camunda = self.camunda.take();
        let stopping = async {
            let answered = async {
                if let Some(camunda) = camunda {
                    camunda.stop(grace).await;
                }
            };
            tokio::join!(engine.stop(grace), answered)
        };
        tokio::select! {
            _ = stopping => Ok(()),
            reason = store_broken(&*self.store) => {
                Err(NodeError::Store { place: self.place.clone(), error: StoreError::Broken(reason) })
            }
        }
    }

    async fn close(self) -> Result<(), NodeError> {
        if let Some(traces) = self.traces {
            traces.stop().await;
        }
        self.store.close().await.map_err(|error| NodeError::Store { place: self.place, error })
    }
}

/// What a node has, its works have.
impl Deref for Node {
    type Target = Works;
    fn deref(&self) -> &Works {
        &self.works
    }
}

impl Node {
    /// Where the HTTP door is, for people and programs on this machine.
    pub fn url(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        }
        format!("http://{address}")
    }

    /// A link by which the holder of that key comes to the dashboard, once; none where there is no dashboard, or no
    /// link could be made.
    pub async fn login_link(&self, key: &str) -> Option<String> {
        if !self.config.dashboard.enabled {
            return None;
        }
        let key = pombo_web::digest(key);
        let made = pombo_web::dash::make_link(&*self.store, &key, &clock::entropy, self.clock.now()).await;
        let path = made.ok().map(|secret| pombo_web::dash::link_path(&secret))?;
        let public =
            self.config.server.public_url.as_ref().map(|url| url.as_str().trim_end_matches('/').to_owned());
        Some(format!("{}{path}", public.unwrap_or_else(|| self.url())))
    }

    /// Where the door for mail listens, where there is one.
    pub fn smtp_address(&self) -> Option<SocketAddr> {
        self.submission.as_ref().map(|submission| submission.address)
    }

    /// Reads the configuration again and goes on with it. One that cannot be used changes nothing.
    pub fn reload(&mut self, environment: &Environment) -> Result<(), Problems> {
        let works = &mut self.works;
        let config = works.config.reload(environment)?;
        let channels = config.channels()?;
        if config.server.listen != works.config.server.listen {
            warn!(listen = %config.server.listen, "a new listening address takes effect with the next start");
        }
        if config.traces != works.config.traces {
            warn!("what is new about traces takes effect with the next start");
        }
        if let Some(submission) = &self.submission {
            submission.reload(&works.config, &config)?;
        }
        if let (Place::Postgres(now), Some(new)) = (&works.place, &config.database)
            && now.shown() != new.shown()
        {
            warn!(store = new.shown(), "another store takes effect with the next start");
        }
        let mut setup = Arc::new(config.setup());
        if let Some(learner) = &works.learner {
            setup = learner.configured(setup);
        }
        if let Some(watchmen) = &mut works.watchmen {
            watchmen.reload(&setup, &channels);
        }
        if let Some(foreman) = &works.foreman {
            foreman.reload(channels.clone());
        }
        if let Some(engine) = &works.engine {
            engine.reload(Arc::clone(&setup), channels);
        }
        works.setup.send_replace(setup);
        works.meter.require_key(config.metrics.require_key);
        works.config = config;
        // Those that were there finish what is under way.
        works.camunda = works.camunda();
        works.anchorer = works.anchorer();
        info!("the configuration was read again and is in effect");
        Ok(())
    }

    /// Takes nothing new, finishes what is being sent for up to `grace`, records it, and closes.
    pub async fn stop(mut self, grace: Duration) -> Result<(), NodeError> {
        self.door.close();
        let submission = self.submission.take();
        let farewell = async {
            if let Some(submission) = submission {
                submission.stop().await;
            }
        };
        let (drained, ()) = tokio::join!(self.works.drain(grace), farewell);
        drained?;
        let _ = self.stop_server.send(());
        match self.server.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%error, "the HTTP door did not close well"),
            Err(error) => warn!(%error, "the HTTP door did not close well"),
        }
        self.works.close().await
    }
}

/// Whether an engine still shows signs of life, for whoever asks whether the node is ready.
fn sign_of(engine: &Arc<Engine>) -> Sign {
    let engine = Arc::clone(engine);
    Box::new(move || match engine.is_silent() {
        false => Check::well("engine", "it shows signs of life"),
        true => Check::warning("engine", "no sign of life could be written lately, so nothing is sent"),
    })
}

/// Why a store and an engine can no longer do their work; waits as long as they can.
pub(crate) async fn broken(store: &dyn Store, engine: Option<&Engine>) -> String {
    let died = async {
        match engine {
            Some(engine) => engine.died().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        reason = store_broken(store) => reason,
        () = died => "the engine ended by itself".to_owned(),
    }
}

/// Why the store can no longer be trusted in this process; waits as long as it can be.
async fn store_broken(store: &dyn Store) -> String {
    let mut broken = store.broken();
    match broken.wait_for(Option::is_some).await {
        Ok(reason) => reason.clone().unwrap_or_default(),
        Err(_) => "the store's thread ended by itself".to_owned(),
    }
}
