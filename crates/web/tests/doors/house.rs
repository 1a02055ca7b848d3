//! A door with a store behind it, a clock that stands still, and keys of every role.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures_util::StreamExt as _;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use pombo_kernel::alert::Plan;
use pombo_kernel::attachment::Digest;
use pombo_kernel::block::Block;
use pombo_kernel::classify::Rules;
use pombo_kernel::delivery;
use pombo_kernel::dice::Dice;
use pombo_kernel::erasure::{Bookmark, Pseudonyms, Seeker};
use pombo_kernel::guard::Guard;
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::lifecycle::OnUnknownOutcome;
use pombo_kernel::message::{Actor, ClaimKey, Draft, Idempotency};
use pombo_kernel::name::{CampaignName, ChannelName, TemplateName, Tenant};
use pombo_kernel::policy::{Policy, Profile};
use pombo_kernel::report::{self, Every, Schedule};
use pombo_kernel::setup::{Care, ChannelSetup, Destination, LaneSetup, Limits, Setup};
use pombo_kernel::template::Template;
use pombo_kernel::time::{Clock, Span, Time};
use pombo_store::Line;
use pombo_store::dead::{Edit, Edited, Group, Hastened, Revision, Ruling, Verdicts};
use pombo_store::erase::{Erase, Erased, Sought};
use pombo_store::learning::Learnt;
use pombo_store::memory::Memory;
use pombo_store::prune::{Lapsed, Prune, Pruned};
use pombo_store::roster::{Enlist, Enlisted, Feed, NotDone, Recipient, Roster};
use pombo_store::shelf::{Doc, Expect, Pick, Shelf, Shelve, Shelved, Wanted};
use pombo_store::shell::Shell;
use pombo_store::{
    Accepted, Answer, Ask, Backlog, Cancelled, Claimed, Conflict, Filter, Finding, Measured, NodeId, Page,
    Pause, Place, Put, Reported, Settled, Settlement, StatsWanted, Store, StoreError, Story, Tally,
    TemplateVersion, TurnedOver, audit,
};
use pombo_web::key::{KeyDoc, hex};
use pombo_web::keys::Entropy;
use pombo_web::{Door, Patience, Role, digest, router};
use serde_json::{Value, json};
use tokio::sync::watch;

pub(crate) const NOW: Time = Time::from_millis(1_800_000_000_000);

#[derive(Debug)]
pub(crate) struct Standing(AtomicI64);

impl Clock for Standing {
    fn now(&self) -> Time {
        Time::from_millis(self.0.load(Ordering::Relaxed))
    }
}

impl Standing {
    pub(crate) fn pass(&self, span: Span) {
        self.0.fetch_add(i64::try_from(span.millis()).unwrap(), Ordering::Relaxed);
    }
}

/// A store that fails when it is told to.
#[derive(Debug)]
pub(crate) struct Moody {
    inner: Shell<Memory>,
    /// What the next calls answer; none to work as usual.
    mood: Mutex<Option<StoreError>>,
    /// How many more calls fail before the mood passes.
    patience: AtomicUsize,
    /// Nothing is written that leaves a record.
    pub(crate) no_records: AtomicBool,
    pub(crate) key_reads: AtomicU64,
    pub(crate) largest_group: AtomicUsize,
}

impl Moody {
    pub(crate) fn feel(&self, mood: Option<StoreError>) {
        self.feel_for(mood, usize::MAX);
    }

    pub(crate) fn feel_for(&self, mood: Option<StoreError>, calls: usize) {
        *self.mood.lock().unwrap() = mood;
        self.patience.store(calls, Ordering::Relaxed);
    }

    fn or<'a, T: Send + 'a>(
        &'a self,
        usual: impl FnOnce(&'a Shell<Memory>) -> Answer<'a, T>,
    ) -> Answer<'a, T> {
        let mut mood = self.mood.lock().unwrap();
        match mood.clone() {
            Some(error) => {
                if self.patience.fetch_sub(1, Ordering::Relaxed) <= 1 {
                    *mood = None;
                }
                Box::pin(async move { Err(error) })
            }
            None => usual(&self.inner),
        }
    }
}

impl Store for Moody {
    fn pseudonyms(&self) -> Pseudonyms {
        self.inner.pseudonyms()
    }
    fn seek(&self, seeker: Seeker, from: Bookmark, max: usize) -> Answer<'_, Sought> {
        self.or(|store| store.seek(seeker, from, max))
    }
    fn erase(&self, wish: Erase) -> Answer<'_, Erased> {
        self.or(|store| store.erase(wish))
    }
    fn sweep(&self) -> Answer<'_, ()> {
        self.or(|store| store.sweep())
    }
    fn accept(&self, drafts: Vec<Draft>) -> Answer<'_, Vec<Result<Accepted, Conflict>>> {
        self.largest_group.fetch_max(drafts.len(), Ordering::Relaxed);
        self.or(|store| store.accept(drafts))
    }
    fn claim(&self, ask: Ask) -> Answer<'_, Vec<Claimed>> {
        self.or(|store| store.claim(ask))
    }
    fn stop_claims(&self, node: NodeId) -> Answer<'_, ()> {
        self.or(|store| store.stop_claims(node))
    }
    fn heartbeat(&self, node: NodeId, lease_until: Time) -> Answer<'_, ()> {
        self.or(|store| store.heartbeat(node, lease_until))
    }
    fn take_over(&self, node: NodeId, max: usize) -> Answer<'_, Vec<Claimed>> {
        self.or(|store| store.take_over(node, max))
    }
    fn turn_over(&self, settlements: Vec<Settlement>, asks: Vec<Ask>) -> Answer<'_, TurnedOver> {
        self.or(|store| store.turn_over(settlements, asks))
    }
    fn release(&self, claims: Vec<ClaimKey>) -> Answer<'_, Vec<Settled>> {
        self.or(|store| store.release(claims))
    }
    fn report(&self, channel: ChannelName, reports: Vec<delivery::Report>) -> Answer<'_, Vec<Reported>> {
        self.or(|store| store.report(channel, reports))
    }
    fn leave_out(&self, claim: ClaimKey, reason: String) -> Answer<'_, Settled> {
        self.or(|store| store.leave_out(claim, reason))
    }
    fn cancel(&self, tenant: Tenant, id: MessageId, by: Actor) -> Answer<'_, Cancelled> {
        self.or(|store| store.cancel(tenant, id, by))
    }
    fn hasten(&self, tenant: Tenant, id: MessageId, by: Actor) -> Answer<'_, Hastened> {
        self.or(|store| store.hasten(tenant, id, by))
    }
    fn rule(&self, ruling: Ruling) -> Answer<'_, Verdicts> {
        self.or(|store| store.rule(ruling))
    }
    fn edit(&self, edit: Edit) -> Answer<'_, Edited> {
        self.or(|store| store.edit(edit))
    }
    fn revisions(&self, tenant: Tenant, id: MessageId) -> Answer<'_, Vec<Revision>> {
        self.or(|store| store.revisions(tenant, id))
    }
    fn first(&self, tenant: Tenant, given: Idempotency) -> Answer<'_, Option<MessageId>> {
        self.or(|store| store.first(tenant, given))
    }
    fn groups(&self, tenant: Tenant, limit: usize) -> Answer<'_, Vec<Group>> {
        self.or(|store| store.groups(tenant, limit))
    }
    fn underway(
        &self,
        tenant: Tenant,
        within: Arc<[ChannelName]>,
        until: Time,
        limit: usize,
    ) -> Answer<'_, Vec<Line>> {
        self.or(|store| store.underway(tenant, within, until, limit))
    }
    fn lines(&self, ids: Vec<MessageId>) -> Answer<'_, Vec<Line>> {
        self.or(|store| store.lines(ids))
    }
    fn shelve(&self, wishes: Vec<Shelve>) -> Answer<'_, Vec<Shelved>> {
        if self.no_records.load(Ordering::Relaxed) && wishes.iter().any(|wish| wish.record.is_some()) {
            return Box::pin(async { Err(StoreError::Unavailable("the disk is full".to_owned())) });
        }
        // That a key was used is written down beside the requests, and meets no mood that was meant for them.
        match wishes.iter().all(|wish| wish.shelf == Shelf::Key && wish.record.is_none()) {
            true => self.inner.shelve(wishes),
            false => self.or(|store| store.shelve(wishes)),
        }
    }
    fn doc(&self, shelf: Shelf, tenant: Tenant, id: String) -> Answer<'_, Option<Doc>> {
        match shelf {
            Shelf::Key => self.inner.doc(shelf, tenant, id),
            _ => self.or(|store| store.doc(shelf, tenant, id)),
        }
    }
    fn docs(&self, wanted: Wanted) -> Answer<'_, Vec<Doc>> {
        let everybody = wanted.shelf == Shelf::Key && wanted.tenant.is_none();
        self.key_reads.fetch_add(u64::from(everybody), Ordering::Relaxed);
        self.or(|store| store.docs(wanted))
    }
    fn enlist(&self, wish: Enlist) -> Answer<'_, Result<Vec<Enlisted>, NotDone>> {
        self.or(|store| store.enlist(wish))
    }
    fn feed(&self, feed: Feed) -> Answer<'_, Result<(), NotDone>> {
        self.or(|store| store.feed(feed))
    }
    fn strike(&self, tenant: Tenant, campaign: CampaignName, max: usize) -> Answer<'_, usize> {
        self.or(|store| store.strike(tenant, campaign, max))
    }
    fn cut(&self, tenant: Tenant, campaign: CampaignName) -> Answer<'_, bool> {
        self.or(|store| store.cut(tenant, campaign))
    }
    fn recipients(&self, roster: Roster) -> Answer<'_, Vec<Recipient>> {
        self.or(|store| store.recipients(roster))
    }
    fn prune(&self, wish: Prune, max: usize, now: Time) -> Answer<'_, Pruned> {
        self.or(|store| store.prune(wish, max, now))
    }
    fn lapse(&self, after: Option<MessageKey>, max: usize) -> Answer<'_, Lapsed> {
        self.or(|store| store.lapse(after, max))
    }
    fn block(&self, place: Place, block: Block, by: Actor) -> Answer<'_, ()> {
        self.or(|store| store.block(place, block, by))
    }
    fn unblock(&self, place: Place, by: Actor) -> Answer<'_, bool> {
        self.or(|store| store.unblock(place, by))
    }
    fn examine(&self, finding: Finding) -> Answer<'_, ()> {
        self.or(|store| store.examine(finding))
    }
    fn blocks(&self) -> Answer<'_, Vec<(Place, Block)>> {
        self.or(|store| store.blocks())
    }
    fn pause(&self, why: String, by: Actor) -> Answer<'_, ()> {
        self.or(|store| store.pause(why, by))
    }
    fn resume(&self, by: Actor) -> Answer<'_, bool> {
        self.or(|store| store.resume(by))
    }
    fn paused(&self) -> Answer<'_, Option<Pause>> {
        self.or(|store| store.paused())
    }
    fn put_template(
        &self,
        tenant: Tenant,
        name: TemplateName,
        template: Template,
        by: Actor,
    ) -> Answer<'_, Put> {
        self.or(|store| store.put_template(tenant, name, template, by))
    }
    fn template(
        &self,
        tenant: Tenant,
        name: TemplateName,
        version: Option<u32>,
    ) -> Answer<'_, Option<TemplateVersion>> {
        self.or(|store| store.template(tenant, name, version))
    }
    fn templates(
        &self,
        tenant: Tenant,
        after: Option<TemplateName>,
        limit: usize,
    ) -> Answer<'_, Vec<TemplateVersion>> {
        self.or(|store| store.templates(tenant, after, limit))
    }
    fn template_versions(
        &self,
        tenant: Tenant,
        name: TemplateName,
        before: Option<u32>,
        limit: usize,
    ) -> Answer<'_, Vec<TemplateVersion>> {
        self.or(|store| store.template_versions(tenant, name, before, limit))
    }
    fn blob(&self, digest: Digest) -> Answer<'_, Option<Arc<[u8]>>> {
        self.or(|store| store.blob(digest))
    }
    fn story(&self, tenant: Tenant, id: MessageId) -> Answer<'_, Option<Story>> {
        self.or(|store| store.story(tenant, id))
    }
    fn page(&self, filter: Filter, before: Option<MessageKey>, limit: usize) -> Answer<'_, Page> {
        self.or(|store| store.page(filter, before, limit))
    }
    fn tallies(&self) -> Answer<'_, Vec<Tally>> {
        assert_ne!(*self.mood.lock().unwrap(), Some(StoreError::Broken("panic".into())), "a bug, for once");
        self.or(|store| store.tallies())
    }
    fn stats(&self, wanted: StatsWanted) -> Answer<'_, Vec<Measured>> {
        self.or(|store| store.stats(wanted))
    }
    fn learnt(&self, tenant: Option<Tenant>, now: Time) -> Answer<'_, Vec<Learnt>> {
        self.or(|store| store.learnt(tenant, now))
    }
    fn backlog(&self, now: Time) -> Answer<'_, Vec<Backlog>> {
        self.or(|store| store.backlog(now))
    }
    fn audit(&self, from: u64, max: usize) -> Answer<'_, Vec<(u64, audit::Record)>> {
        self.or(|store| store.audit(from, max))
    }
    fn audit_of(
        &self,
        tenant: Tenant,
        id: MessageId,
        before: u64,
        max: usize,
    ) -> Answer<'_, Option<Vec<(u64, audit::Record)>>> {
        self.or(|store| store.audit_of(tenant, id, before, max))
    }
    fn chain(&self, from: u64, max: usize) -> Answer<'_, Vec<audit::Block>> {
        self.or(|store| store.chain(from, max))
    }
    fn watch(&self) -> watch::Receiver<u64> {
        self.inner.watch()
    }
    fn broken(&self) -> watch::Receiver<Option<String>> {
        self.inner.broken()
    }
    fn health(&self) -> Result<(), StoreError> {
        self.mood.lock().unwrap().clone().map_or_else(|| self.inner.health(), Err)
    }
    fn close(&self) -> Answer<'_, ()> {
        self.inner.close()
    }
}

pub(crate) struct House {
    pub(crate) router: Router,
    pub(crate) door: Door,
    pub(crate) store: Arc<Moody>,
    pub(crate) clock: Arc<Standing>,
    pub(crate) setup: watch::Sender<Arc<Setup>>,
}

pub(crate) fn setup() -> Setup {
    let channel = |name: &str, kind, policy: &str, tenant: &str, unready: Option<&str>| {
        let channel = ChannelSetup {
            name: name.parse().unwrap(),
            kind,
            tenant: tenant.parse().unwrap(),
            policy: Policy::built_in(policy, Profile::Production).unwrap(),
            rules: Rules::for_kind(kind, &[]).unwrap(),
            on_unknown_outcome: OnUnknownOutcome::Resend,
            destination: match kind {
                ChannelKind::Webhook => Destination::Host,
                _ => Destination::Fixed(name.into()),
            },
            attempt_timeout: Span::from_secs(30),
            unready: unready.map(str::to_owned),
            receipts: None,
            line: pombo_kernel::campaign::line::LineRules::default(),
            suppressions: pombo_kernel::setup::Suppressions::default(),
            care: Care::default(),
        };
        (channel.name.clone(), Arc::new(channel))
    };
    let report = report::Report {
        name: "canary-daily".parse().unwrap(),
        tenant: "default".parse().unwrap(),
        schedule: Schedule {
            every: Every::Day,
            day: "mon".parse().unwrap(),
            at: "08:00".parse().unwrap(),
            zone: "UTC".parse().unwrap(),
        },
        notify: vec!["ops".parse().unwrap()],
        language: None,
    };
    Setup {
        channels: [
            channel("crm", ChannelKind::Webhook, "webhook", "default", None),
            channel("null", ChannelKind::Null, "webhook", "default", None),
            channel("mail", ChannelKind::Smtp, "smtp", "default", Some("set SMTP_URL")),
            channel("theirs", ChannelKind::Webhook, "webhook", "other", None),
        ]
        .into(),
        lanes: ["default", "bulk"].map(|name| (name.parse().unwrap(), LaneSetup { workers: 4 })).into(),
        routes: Vec::new(),
        limits: Limits {
            content_bytes: 4_096,
            attachment_bytes: 30_000,
            request_bytes: 65_536,
            batch_items: 200,
        },
        subscribers: Guard::default(),
        claims: Policy::claims(),
        alerts: Arc::new(Plan { reports: [(report.name.clone(), report)].into(), ..Plan::default() }),
        masked: pombo_kernel::mask::MaskedRole::usual(),
        retention: Default::default(),
        dashboard: pombo_kernel::setup::Dashboard::default(),
    }
}

/// An answer. One without an end is read until it says that it is alive, which it does once all that is there is told, and
/// what then comes at once is read too.
pub(crate) async fn heard(response: Response<Body>) -> (StatusCode, String) {
    let (head, body) = response.into_parts();
    let streams = head.headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
    let (mut chunks, mut bytes) = (body.into_data_stream(), Vec::new());
    let mut patience = Duration::from_secs(60);
    while let Ok(Some(chunk)) = tokio::time::timeout(patience, chunks.next()).await {
        bytes.extend_from_slice(&chunk.unwrap());
        if streams && bytes.windows(7).any(|words| words == b": alive") {
            patience = Duration::from_millis(300);
        }
    }
    (head.status, String::from_utf8(bytes).unwrap())
}

impl House {
    pub(crate) async fn new() -> House {
        House::with(setup(), Patience::default()).await
    }

    pub(crate) async fn with(setup: Setup, patience: Patience) -> House {
        let house = House::empty(setup, patience);
        for role in Role::ALL {
            house.add_key("default", &key(role.as_str(), role.as_str())).await;
        }
        house.add_key("other", &key("foreign", "admin")).await;
        house
    }

    /// One in which nobody works who could test a channel, and nobody waits for that.
    pub(crate) async fn unattended() -> House {
        House::with(setup(), Patience { test: Duration::from_millis(20), ..Patience::default() }).await
    }

    /// One that nobody has a key of.
    pub(crate) fn bare() -> House {
        House::empty(setup(), Patience::default())
    }

    /// Another node on the same store.
    pub(crate) fn another_node(&self) -> House {
        let door = Door::new(self.store.clone(), self.setup.subscribe(), self.clock.clone(), entropy(12));
        let (router, setup) = (router(door.clone()), self.setup.clone());
        House { router, door, store: self.store.clone(), clock: self.clock.clone(), setup }
    }

    fn empty(setup: Setup, patience: Patience) -> House {
        let clock = Arc::new(Standing(AtomicI64::new(NOW.millis())));
        let mut dice = Dice::seeded(7);
        let salts = Box::new(move || {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&dice.next_u64().to_le_bytes());
            bytes
        });
        let inner = Shell::start(Memory::new(Dice::seeded(1)), clock.clone(), salts).unwrap();
        let store = Arc::new(Moody {
            inner,
            mood: Mutex::new(None),
            patience: AtomicUsize::new(0),
            no_records: AtomicBool::new(false),
            key_reads: AtomicU64::new(0),
            largest_group: AtomicUsize::new(0),
        });
        let (setup, settled) = watch::channel(Arc::new(setup));
        let door = Door::with_patience(store.clone(), settled, clock.clone(), entropy(11), patience);
        House { router: router(door.clone()), door, store, clock, setup }
    }

    /// Puts a key on its shelf; its text is `key-` and its label.
    pub(crate) async fn add_key(&self, tenant: &str, key: &KeyDoc) {
        let place = hex(&digest(&format!("key-{}", key.label)));
        let wish = key.shelved(&tenant.parse().unwrap(), &place, Expect::Nothing, None);
        let done = self.store.shelve(vec![wish]).await.unwrap();
        assert_eq!(done, [Shelved::Done { version: 1 }]);
    }

    /// For doors that tell what is wrong in a manner of their own.
    pub(crate) async fn send_elsewhere(&self, request: Request<Body>) -> Reply {
        let response = TowerToHyperService::new(self.router.clone()).call(request).await.unwrap();
        let (head, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Reply { status: head.status, headers: head.headers, text }
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        let reply = self.send_elsewhere(request).await;
        if reply.status.is_client_error() || reply.status.is_server_error() {
            reply.check_problem();
        }
        reply
    }

    /// A request with the admin's key.
    pub(crate) async fn call(&self, method: &str, path: &str, body: impl Into<Body>) -> Reply {
        self.call_as("admin", method, path, body).await
    }

    pub(crate) async fn call_as(&self, who: &str, method: &str, path: &str, body: impl Into<Body>) -> Reply {
        let request = request(method, path).header("authorization", format!("Bearer key-{who}"));
        self.send(request.header("content-type", "application/json").body(body.into()).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.call("GET", path, Body::empty()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.call("POST", path, body.to_string()).await
    }

    pub(crate) async fn post_keyed(&self, body: &Value, key: &str) -> Reply {
        self.post_once("producer", "/v1/messages", body, key).await
    }

    /// A request that may be repeated under its idempotency key.
    pub(crate) async fn post_once(&self, who: &str, path: &str, body: &Value, key: &str) -> Reply {
        let request = request("POST", path)
            .header("authorization", format!("Bearer key-{who}"))
            .header("content-type", "application/json")
            .header("idempotency-key", key);
        self.send(request.body(body.to_string().into()).unwrap()).await
    }

    pub(crate) async fn post_ndjson(&self, body: impl Into<Body>) -> Reply {
        let request = request("POST", "/v1/messages/batch")
            .header("authorization", "Bearer key-producer")
            .header("content-type", "application/x-ndjson");
        self.send(request.body(body.into()).unwrap()).await
    }

    /// Puts a template and answers its version.
    pub(crate) async fn put_template(&self, name: &str, template: &Value) -> u64 {
        let reply =
            self.call_as("operator", "PUT", &format!("/v1/templates/{name}"), template.to_string()).await;
        assert!(reply.status.is_success(), "{}", reply.text);
        reply.json()["version"].as_u64().unwrap()
    }

    /// Creates a message and answers its id.
    pub(crate) async fn created(&self, changes: &Value) -> String {
        let reply = self.post("/v1/messages", &message(changes)).await;
        assert_eq!(reply.status, StatusCode::ACCEPTED, "{}", reply.text);
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    /// Everything that the store has of the tenant `default`: whatever a request may change of it shows. That somebody
    /// logs in or uses a key is left out.
    pub(crate) async fn ours(&self) -> String {
        let tenant = Tenant::default();
        let mut records = self.store.audit(0, 10_000).await.unwrap();
        records.retain(|(_, record)| record.tenant == tenant.as_str());
        let messages = self.store.page(Filter::default(), None, 10_000).await.unwrap();
        let templates = self.store.templates(tenant.clone(), None, 10_000).await.unwrap();
        let blocks = self.store.blocks().await.unwrap();
        let mut known = format!("{records:?}\n{messages:?}\n{templates:?}\n{blocks:?}");
        for shelf in Shelf::ALL.into_iter().filter(|shelf| *shelf != Shelf::Session) {
            let pick = Pick::All { after: None };
            let wanted = Wanted { shelf, tenant: Some(tenant.clone()), pick, limit: 10_000 };
            let docs = self.store.docs(wanted).await.unwrap();
            known += &match shelf {
                Shelf::Key => {
                    let keys = docs.iter().filter_map(KeyDoc::read);
                    let keys = keys.map(|key| KeyDoc { last_used_at: None, ..key });
                    format!("\n{:?}", keys.collect::<Vec<_>>())
                }
                _ => format!("\n{docs:?}"),
            };
        }
        known
    }

    pub(crate) async fn stored(&self) -> usize {
        self.get("/v1/messages?limit=500").await.json()["items"].as_array().unwrap().len()
    }
}

fn entropy(seed: u64) -> Arc<Entropy> {
    let dice = Mutex::new(Dice::seeded(seed));
    Arc::new(move || {
        let mut dice = dice.lock().unwrap();
        let mut bytes = [0; 32];
        bytes.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&dice.next_u64().to_le_bytes()));
        bytes
    })
}

pub(crate) fn request(method: &str, path: &str) -> http::request::Builder {
    Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap()).uri(path)
}

pub(crate) fn key(name: &str, role: &str) -> KeyDoc {
    KeyDoc {
        id: format!("key_{name}"),
        role: role.into(),
        label: name.into(),
        created_at: NOW,
        last_used_at: Some(NOW),
        ..KeyDoc::default()
    }
}

/// A good message with some fields changed.
pub(crate) fn message(changes: &Value) -> Value {
    let mut message =
        json!({"channel": "crm", "to": "https://crm.example/hook", "content": {"body": {"a": 1}}});
    for (field, value) in changes.as_object().unwrap() {
        message[field] = value.clone();
    }
    message
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        self.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    /// Whatever goes wrong is told as a problem document, whole and consistent.
    fn check_problem(&self) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{}", self.text);
        let problem = self.json();
        assert_eq!(problem["status"], self.status.as_u16());
        for field in ["type", "title", "code", "detail", "hint"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {problem}");
        }
    }

    /// A problem with this code, about this field, that gives a reason and a remedy.
    pub(crate) fn refused(&self, code: &str, field: &str) -> Value {
        assert_eq!(self.code(), code, "{}", self.text);
        let errors = self.json()["errors"].clone();
        let about = errors.as_array().into_iter().flatten().find(|error| error["field"] == field);
        let about = about.unwrap_or_else(|| panic!("{field}: {}", self.text)).clone();
        assert!(about["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{about}");
        assert!(about["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{about}");
        about
    }
}
