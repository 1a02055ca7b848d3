//! One running Pombo: store, engine and HTTP door, wired together; or store and engine alone.
//!
//! It prints nothing and reads no environment, so that it can stand inside another program.

use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pombo_engine::Engine;
use pombo_engine::shell::Channels;
use pombo_kernel::dice::Dice;
use pombo_kernel::name::{LaneName, Tenant};
use pombo_kernel::setup::Setup;
use pombo_kernel::time::Clock;
use pombo_store::shell::Shell;
use pombo_store::sqlite::Sqlite;
use pombo_store::{ApiKey, Store, StoreError};
use pombo_web::{Bounds, Door, Role};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::clock::{self, SystemClock};
use crate::config::{Config, Environment, Problems};

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
    #[error("the store in {} cannot be used: {error}", folder.display())]
    Store { folder: PathBuf, error: StoreError },
    #[error("cannot listen on {address}: {error}")]
    Listen { address: SocketAddr, error: io::Error },
}

/// The requests in flight when a node stops have this long to end, once everything sent is recorded.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

/// Store and engine at work, without a door. Dropping it stops nothing well; call [`stop`](Works::stop).
#[derive(Debug)]
pub struct Works {
    pub store: Arc<dyn Store>,
    pub clock: Arc<SystemClock>,
    pub config: Config,
    data: PathBuf,
    setup: watch::Sender<Arc<Setup>>,
    pub(crate) engine: Arc<Engine>,
}

/// A running node: works with a door. Dropping it stops nothing well; call [`stop`](Node::stop).
#[derive(Debug)]
pub struct Node {
    /// Where the HTTP door listens.
    pub address: SocketAddr,
    works: Works,
    door: Door,
    stop_server: oneshot::Sender<()>,
    server: JoinHandle<io::Result<()>>,
}

/// A store that is open, with nothing working on it yet. Keys can be looked after before any door opens.
#[derive(Debug)]
pub struct Opened {
    pub store: Arc<dyn Store>,
    pub clock: Arc<SystemClock>,
    data: PathBuf,
}

/// Opens the embedded store in a folder. Refused while another process has it.
pub async fn open(data: &Path) -> Result<Opened, NodeError> {
    let failed = |error| NodeError::Store { folder: data.to_owned(), error };
    let clock = Arc::new(SystemClock::new());
    let (folder, time) = (data.to_owned(), Arc::clone(&clock));
    // Recovery reads and writes files, which must not hold up the other tasks of this thread.
    let opening = tokio::task::spawn_blocking(move || {
        let core = Sqlite::open(&folder, Dice::seeded(clock::seed()), &clock::entropy())?;
        Shell::start(core, time, Box::new(clock::entropy))
    });
    let shell =
        opening.await.unwrap_or_else(|error| Err(StoreError::Broken(error.to_string()))).map_err(failed)?;
    Ok(Opened { store: Arc::new(shell), clock, data: data.to_owned() })
}

impl Opened {
    /// Sees to it that somebody can administer this store, and gives back the key that it had to make.
    ///
    /// A key that is `given` is added unless it is there. Without one, a key is made only for a store that has
    /// none. Only a digest is kept, so a made key can be shown once and never again.
    pub async fn admin_key(&self, given: Option<&str>) -> Result<Option<String>, NodeError> {
        let failed = |error| NodeError::Store { folder: self.data.clone(), error };
        let known = self.store.keys().await.map_err(failed)?;
        let key = match given {
            Some(key) if known.iter().any(|it| it.digest == pombo_web::digest(key)) => return Ok(None),
            Some(key) => key.to_owned(),
            None if known.is_empty() => format!("pombo_{}", hex(&clock::entropy())),
            None => return Ok(None),
        };
        let added = ApiKey {
            id: format!("key_{}", hex(&clock::entropy()[..8])),
            tenant: Tenant::default(),
            role: Role::Admin.as_str().to_owned(),
            label: "admin".to_owned(),
            digest: pombo_web::digest(&key),
            created_at: self.clock.now(),
        };
        self.store.add_key(added).await.map_err(failed)?;
        Ok(given.is_none().then_some(key))
    }

    /// Starts sending, and opens the door.
    pub async fn start(self, parts: Parts) -> Result<Node, NodeError> {
        let Parts { config, channels, listen, lanes } = parts;
        // The address first: a node that cannot be reached should not begin to send.
        let listening = async {
            let listener = TcpListener::bind(listen).await?;
            Ok((listener.local_addr()?, listener))
        };
        let (address, listener) =
            listening.await.map_err(|error| NodeError::Listen { address: listen, error })?;
        let works = self.work(config, channels, &lanes);
        let door = Door::new(Arc::clone(&works.store), works.setup.subscribe(), works.clock.clone());
        let (stop_server, stopping) = oneshot::channel();
        let bounds = Bounds { grace: LAST_REQUESTS, ..Bounds::default() };
        let serving = pombo_web::serve_within(listener, pombo_web::router(door.clone()), bounds, async {
            let _ = stopping.await;
        });
        let server = tokio::spawn(serving);
        info!(%address, data = %works.data.display(), "running");
        Ok(Node { address, works, door, stop_server, server })
    }

    /// Starts sending, and opens no door. Works the lanes that are named; all if none are.
    pub fn work(self, config: Config, channels: Channels, lanes: &[LaneName]) -> Works {
        let Opened { store, clock, data } = self;
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
        let engine = Engine::start(
            Arc::clone(&store),
            Arc::clone(&setup),
            channels,
            clock.clone(),
            clock::seed(),
            lanes,
        );
        Works { store, clock, config, data, setup: watch::channel(setup).0, engine: Arc::new(engine) }
    }
}

impl Works {
    /// What is configured at present.
    pub fn setup(&self) -> Arc<Setup> {
        self.setup.borrow().clone()
    }

    /// Why this process can no longer do its work; waits as long as it can.
    pub async fn broken(&self) -> String {
        broken(&*self.store, &self.engine).await
    }

    /// Takes no more work, finishes what is being sent for up to `grace`, records it, and closes.
    pub async fn stop(self, grace: Duration) -> Result<(), NodeError> {
        self.drain(grace).await?;
        self.close().await
    }

    /// A store that breaks meanwhile ends the wait: nothing more can be recorded.
    async fn drain(&self, grace: Duration) -> Result<(), NodeError> {
        tokio::select! {
            () = self.engine.stop(grace) => Ok(()),
            reason = store_broken(&*self.store) => {
                Err(NodeError::Store { folder: self.data.clone(), error: StoreError::Broken(reason) })
            }
        }
    }

    async fn close(self) -> Result<(), NodeError> {
        self.store.close().await.map_err(|error| NodeError::Store { folder: self.data, error })
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

    /// Reads the configuration again and goes on with it. One that cannot be used changes nothing.
    pub fn reload(&mut self, environment: &Environment) -> Result<(), Problems> {
        let works = &mut self.works;
        let config = works.config.reload(environment)?;
        let channels = config.channels()?;
        if config.server != works.config.server {
            warn!(listen = %config.server.listen, "a new listening address takes effect with the next start");
        }
        let setup = Arc::new(config.setup());
        works.engine.reload(Arc::clone(&setup), channels);
        works.setup.send_replace(setup);
        works.config = config;
        info!("the configuration was read again and is in effect");
        Ok(())
    }

    /// Takes nothing new, finishes what is being sent for up to `grace`, records it, and closes.
    pub async fn stop(self, grace: Duration) -> Result<(), NodeError> {
        self.door.close();
        self.works.drain(grace).await?;
        let _ = self.stop_server.send(());
        match self.server.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%error, "the HTTP door did not close well"),
            Err(error) => warn!(%error, "the HTTP door did not close well"),
        }
        self.works.close().await
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Why a store and an engine can no longer do their work; waits as long as they can.
pub(crate) async fn broken(store: &dyn Store, engine: &Engine) -> String {
    tokio::select! {
        reason = store_broken(store) => reason,
        () = engine.died() => "the engine ended by itself".to_owned(),
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
