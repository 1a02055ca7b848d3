//! What a workload runs on: a store of its own, seen by one node or more, and engines and an HTTP door where it wants
//! them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pombo_channels::Channel;
use pombo_engine::{Engine, Meter};
use pombo_kernel::message::{Body, Draft, Json};
use pombo_kernel::name::{ChannelName, Tenant};
use pombo_kernel::setup::Setup;
use pombo_kernel::time::Time;
use pombo_store::shelf::Expect;
use pombo_store::{Counted, Store, StoreError};
use pombo_web::key::KeyDoc;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::Progress;
use super::campaign::{self, LANE};
use super::outlet::content;
use crate::cli::Trouble;
use crate::client::{Client, Payload};
use crate::clock;
use crate::config::{Config, Environment, Source};
use crate::node::{self, Opened, Place, Roles};

pub(super) const CHANNEL: &str = "bench";
/// Callers that each have one message under way.
const CALLERS: u64 = 32;
/// Batches under way at once.
const BATCHES: usize = 4;

pub(super) struct Stand {
    nodes: Vec<Opened>,
    setup: Arc<Setup>,
    to: String,
    batch: u64,
    engines: Vec<Engine>,
    door: Option<Door>,
}

struct Door {
    clients: Vec<Client>,
    stop: oneshot::Sender<()>,
}

impl Stand {
    /// A store in that place, opened by so many nodes of this process, and nothing that works on it. Messages go
    /// to `to`.
    pub(super) async fn open(
        place: &Place,
        count: u16,
        workers: u16,
        to: &str,
        batch: u64,
    ) -> Result<Stand, Trouble> {
        let text = format!(
            r#"
[lanes.default]
workers = {workers}
[lanes.{LANE}]
workers = 16
[channels.{CHANNEL}]
kind = "webhook"
allow_private = true
[channels.{CHANNEL}.breaker]
failures = 0
percent = 0
[channels.{CHANNEL}.retry]
attempts = 3
delays = ["500ms"]
jitter = 1.0
"#
        );
        let config = Config::parse(&text, Source::default(), &Environment::default())?;
        let setup = Arc::new(config.setup());
        let mut nodes = Vec::new();
        for _ in 0..count {
            nodes.push(node::open(place.clone(), Roles::default(), None).await?);
        }
        Ok(Stand { nodes, setup, to: to.to_owned(), batch, engines: Vec::new(), door: None })
    }

    /// The store as one of the nodes sees it.
    fn store(&self, caller: usize) -> &dyn Store {
        &*self.nodes[caller % self.nodes.len()].store
    }

    /// Has a campaign of so many recipients run on the channel, so many of its messages between two attempts.
    pub(super) async fn run_campaign(
        &self,
        recipients: u64,
        retrying: u64,
        progress: &Progress,
    ) -> Result<(), Trouble> {
        let (model, node) = (self.model(None)?, &self.nodes[0]);
        campaign::prepare(&*node.store, &*node.clock, &self.setup, &model, recipients, retrying, progress)
            .await
    }

    /// Starts an engine in each node.
    pub(super) fn start_engines(&mut self, channel: &Arc<dyn Channel>) {
        let name: ChannelName = CHANNEL.parse().expect("a fixed name");
        let lanes: Vec<_> = self.setup.lanes.keys().cloned().collect();
        let start = |node: &Opened| {
            let channels = [(name.clone(), Arc::clone(channel))].into();
            let (store, clock) = (node.engine_store.clone(), node.clock.clone());
            Engine::start(store, self.setup.clone(), channels, clock, clock::seed(), &lanes, Meter::default())
        };
        self.engines = self.nodes.iter().map(start).collect();
    }

    /// Opens an HTTP door on a free port of this machine, with callers in this same process.
    pub(super) async fn open_door(&mut self) -> Result<(), Trouble> {
        let key = format!("pombo_bench_{:016x}{:016x}", clock::seed(), clock::seed());
        let place = pombo_web::key::hex(&pombo_web::digest(&key));
        let admin = KeyDoc {
            id: "key_bench".to_owned(),
            role: pombo_web::Role::Admin.as_str().to_owned(),
            label: "bench".to_owned(),
            created_at: self.now(),
            ..KeyDoc::default()
        };
        let wish = admin.shelved(&Tenant::default(), &place, Expect::Nothing, None);
        self.store(0).shelve(vec![wish]).await.map_err(failed)?;
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let closed = |error: std::io::Error| {
            Trouble::new("the HTTP door cannot open", "ADDRESS_UNAVAILABLE").why(error)
        };
        let listener = TcpListener::bind(local).await.map_err(closed)?;
        let url = format!("http://{}", listener.local_addr().map_err(closed)?);
        let (_, setup) = watch::channel(self.setup.clone());
        let first = &self.nodes[0];
        let door =
            pombo_web::Door::new(first.store.clone(), setup, first.clock.clone(), Arc::new(clock::entropy));
        let router = pombo_web::router(door);
        let (stop, stopping) = oneshot::channel();
        tokio::spawn(async move { pombo_web::serve(listener, router, async { drop(stopping.await) }).await });
        let clients = (0..CALLERS).map(|_| Client::new(&url, Some(&key))).collect::<Result<_, _>>()?;
        self.door = Some(Door { clients, stop });
        Ok(())
    }

    fn request(&self, number: u64, send_at: Option<Time>) -> String {
        let due = send_at.map(|at| format!(",\"send_at\":\"{at}\"")).unwrap_or_default();
        format!(r#"{{"channel":"{CHANNEL}","to":"{}"{due},"content":{}}}"#, self.to, content(number))
    }

    /// The message that every other one is like.
    fn model(&self, send_at: Option<Time>) -> Result<Draft, Trouble> {
        let text = self.request(0, send_at);
        let drafted = self.setup.draft_json(text.as_bytes(), &Tenant::default(), self.now());
        let drafted = drafted.map_err(|refused| {
            Trouble::new("the benchmark's message is refused", "INTERNAL").why(format!("{refused:?}"))
        })?;
        Ok(drafted.draft)
    }

    /// Hands in messages from `first` on, in batches, several at once.
    pub(super) async fn bulk(
        self: &Arc<Stand>,
        first: u64,
        count: u64,
        send_at: Option<Time>,
        progress: &Progress,
    ) -> Result<(), Trouble> {
        let model = Arc::new(self.model(send_at)?);
        let next = Arc::new(AtomicU64::new(0));
        let mut callers = JoinSet::new();
        for caller in 0..BATCHES {
            let (stand, model, next, progress) =
                (self.clone(), model.clone(), next.clone(), progress.clone());
            callers.spawn(async move {
                loop {
                    let from = next.fetch_add(stand.batch, Ordering::Relaxed);
                    if from >= count {
                        return Ok(());
                    }
                    let size = stand.batch.min(count - from);
                    stand.hand_in(caller, first + from, size, &model, send_at).await?;
                    progress.add(size);
                }
            });
        }
        all(callers).await
    }

    async fn hand_in(
        &self,
        caller: usize,
        from: u64,
        size: u64,
        model: &Draft,
        send_at: Option<Time>,
    ) -> Result<(), Trouble> {
        let numbers = from..from + size;
        let Some(door) = &self.door else {
            let drafts = numbers.map(|number| draft(model, number)).collect();
            return self.store(caller).accept(drafts).await.map(drop).map_err(failed);
        };
        let items: Vec<String> = numbers.map(|number| self.request(number, send_at)).collect();
        let body = format!("[{}]", items.join(",")).into();
        let payload = Payload { body, content_type: Some("application/json"), idempotency_key: None };
        let client = &door.clients[caller % door.clients.len()];
        let answer = client.call(http::Method::POST, "/v1/messages/batch", payload).await?;
        let refused = answer.windows(8).any(|part| part == b"\"error\":");
        if refused {
            return Err(Trouble::new("the benchmark's messages are refused", "INTERNAL"));
        }
        Ok(())
    }

    /// Hands in one message.
    pub(super) async fn one(&self, caller: u64, number: u64, model: &Draft) -> Result<(), Trouble> {
        let caller = usize::try_from(caller).unwrap_or(0);
        let Some(door) = &self.door else {
            return self.store(caller).accept(vec![draft(model, number)]).await.map(drop).map_err(failed);
        };
        let body = self.request(number, None).into();
        let payload = Payload { body, content_type: Some("application/json"), idempotency_key: None };
        door.clients[caller % door.clients.len()].call(http::Method::POST, "/v1/messages", payload).await?;
        Ok(())
    }

    /// Hands in messages one by one, 32 under way at once.
    pub(super) async fn singles(
        self: &Arc<Stand>,
        first: u64,
        count: u64,
        progress: &Progress,
    ) -> Result<(), Trouble> {
        let model = Arc::new(self.model(None)?);
        let next = Arc::new(AtomicU64::new(0));
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let (stand, model, next, progress) =
                (self.clone(), model.clone(), next.clone(), progress.clone());
            callers.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return Ok(());
                    }
                    stand.one(caller, first + number, &model).await?;
                    progress.add(1);
                }
            });
        }
        all(callers).await
    }

    /// A message to be handed in by [`one`](Stand::one), made ready before the clock runs.
    pub(super) fn ready_model(&self) -> Result<Arc<Draft>, Trouble> {
        self.model(None).map(Arc::new)
    }

    pub(super) fn now(&self) -> Time {
        self.nodes[0].clock.now()
    }

    /// Waits until the store itself says that so many messages are sent: by its own counts, which are
    /// committed with the last change of each message.
    pub(super) async fn sent(&self, messages: u64) -> Result<(), Trouble> {
        loop {
            let tallies = self.store(0).tallies().await.map_err(failed)?;
            let sent = tallies.iter().filter(|tally| tally.what == Counted::Sent);
            if sent.map(|tally| tally.count).sum::<u64>() >= messages {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub(super) async fn stop_engines(&self) {
        for engine in &self.engines {
            engine.stop(Duration::from_secs(5)).await;
        }
    }

    /// Checks the audit chain, ends everything, and says how many records the chain has in how many commits.
    pub(super) async fn close(self: Arc<Stand>) -> Result<(u64, u64), Trouble> {
        let Ok(mut stand) = Arc::try_unwrap(self) else {
            return Err(Trouble::new("the benchmark is still running", "INTERNAL"));
        };
        if let Some(door) = stand.door.take() {
            let _ = door.stop.send(());
        }
        let verified = stand.store(0).verify().await.map_err(failed)?;
        for node in &stand.nodes {
            node.store.close().await.map_err(failed)?;
        }
        match verified.broken {
            None => Ok((verified.records, verified.blocks)),
            Some(broken) => Err(Trouble::new("the audit chain does not hold", "INTERNAL").why(broken)),
        }
    }
}

pub(super) fn draft(model: &Draft, number: u64) -> Draft {
    let content = Json::from_text(content(number)).expect("it is JSON");
    let body = Body { to: model.body.to.clone(), content: Some(content), ..Body::default() };
    Draft {
        id: None,
        body,
        queue: model.queue.clone(),
        ordering_key: None,
        idempotency: None,
        blobs: Vec::new(),
        ..*model
    }
}

#[allow(clippy::needless_pass_by_value, reason = "errors are handed over as they come")]
pub(super) fn failed(error: StoreError) -> Trouble {
    Trouble::new("the store failed", "STORE_FAILED").why(error)
}

/// Waits for all of them, and stops at the first that fails.
async fn all(mut tasks: JoinSet<Result<(), Trouble>>) -> Result<(), Trouble> {
    while let Some(done) = tasks.join_next().await {
        done.unwrap_or_else(|error| Err(Trouble::new("a task failed", "INTERNAL").why(error)))?;
    }
    Ok(())
}
