//! Events on their way to webhooks: follows the audit, and hands in one message for each event and webhook.
//!
//! How far it has come is a document. Messages are handed in before it moves on, and under a key that makes a repeat
//! harmless, so that after any interruption every event is told. Of several nodes one at a time does this, for as long
//! as a lease in the same document lasts; two that believe to have it do the same work twice, and no harm comes of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use pombo_kernel::dice::Dice;
use pombo_kernel::id::MessageId;
use pombo_kernel::message::Draft;
use pombo_kernel::name::Tenant;
use pombo_kernel::setup::{EVENTS, Setup};
use pombo_kernel::subscription::Subscription;
use pombo_kernel::time::{Clock, Span, Time};
use pombo_store::audit::{Event, Record};
use pombo_store::shelf::{Expect, Leaf, Pick, Shelf, Shelve, Shelved, Wanted};
use pombo_store::{Line, Store, StoreError};
use pombo_web::{event, webhook};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::{debug, info, warn};

/// Records that are looked at together.
const AT_ONCE: usize = 500;
/// Messages that are handed in together.
const GROUP: usize = 512;
/// Webhooks of all tenants. Beyond it the oldest ones are told nothing, and the log says so.
const WEBHOOKS_MAX: usize = 10_000;
/// How long one node follows for all, unless it says so again.
const LEASE: Span = Span::from_secs(3);
/// A busy store moves all the time: there is at most one round in this time, ...
const PACE: Duration = Duration::from_millis(50);
/// ... and in this time while nobody wants to be told anything.
const IDLE_PACE: Duration = Duration::from_secs(1);
/// The place is noted after so many records for which nobody had to be told.
const NOTE_AFTER: u64 = 5_000;
/// How long to wait when the store cannot be used.
const TROUBLE: Duration = Duration::from_secs(1);
/// Where the place is kept.
const CURSOR: &str = "webhooks";

/// The one who tells webhooks of events. Ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Fanout(JoinHandle<()>);

impl Drop for Fanout {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Fanout {
    pub(crate) fn start(
        store: Arc<dyn Store>,
        setup: watch::Receiver<Arc<Setup>>,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> Fanout {
        let holder = Dice::seeded(seed).next_u64();
        Fanout(tokio::spawn(async move {
            let mut news = store.watch();
            let mut work = Work { store, setup, clock, holder, webhooks: None, lead: None };
            loop {
                news.mark_unchanged();
                let wait = match work.round().await {
                    Ok(Rest::None) => continue,
                    Ok(Rest::Until(span)) => {
                        sleep(span.to_std()).await;
                        continue;
                    }
                    Ok(Rest::News(pace)) => pace,
                    Err(StoreError::Closed | StoreError::Broken(_)) => return,
                    Err(error) => {
                        debug!(%error, "events wait to be told");
                        (work.lead, work.webhooks) = (None, None);
                        sleep(TROUBLE).await;
                        continue;
                    }
                };
                if news.changed().await.is_err() {
                    return;
                }
                sleep(wait).await;
            }
        }))
    }
}

/// What to do after a round.
enum Rest {
    /// There is more.
    None,
    /// Somebody else does it, for so long at least.
    Until(Span),
    /// All is told: wait for news, and then a little for more of it.
    News(Duration),
}

/// How far events have been told, and who tells them until when. Kept as a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Cursor {
    /// Everything before is told.
    position: u64,
    #[serde(default)]
    holder: u64,
    #[serde(default)]
    until: Time,
}

/// The cursor as this node last wrote it.
#[derive(Clone, Copy)]
struct Lead {
    version: u32,
    cursor: Cursor,
    /// How far it has come since, without anything that had to be told.
    reached: u64,
}

struct Work {
    store: Arc<dyn Store>,
    setup: watch::Receiver<Arc<Setup>>,
    clock: Arc<dyn Clock>,
    holder: u64,
    /// As they were read last; none if they have to be read anew.
    webhooks: Option<Vec<(Tenant, String, Subscription)>>,
    lead: Option<Lead>,
}

impl Work {
    async fn round(&mut self) -> Result<Rest, StoreError> {
        let webhooks = self.webhooks().await?;
        let Some(first) = webhooks.iter().filter(|it| it.2.disabled.is_none()).map(|it| it.2.since).min()
        else {
            // Whoever subscribes says from where on, so that nothing has to be followed until then.
            (self.webhooks, self.lead) = (None, None);
            return Ok(Rest::News(IDLE_PACE));
        };
        let now = self.clock.now();
        let (lead, webhooks) = match self.lead.filter(|lead| lead.cursor.until > now) {
            Some(lead) => (lead, webhooks),
            None => {
                // A sign of more to do, before anything is written for it.
                let end = *self.store.watch().borrow();
                if self.lead.is_some_and(|lead| lead.reached >= end) {
                    return Ok(Rest::News(PACE));
                }
                match self.take_lead(first, now).await? {
                    Ok(lead) => {
                        // Somebody else may have followed what was changed until now.
                        self.webhooks = None;
                        (lead, self.webhooks().await?)
                    }
                    Err(wait) => return Ok(Rest::Until(wait)),
                }
            }
        };
        let records = self.store.audit(lead.reached, AT_ONCE).await?;
        let Some((last, _)) = records.last() else {
            self.lead = Some(lead);
            return Ok(Rest::News(PACE));
        };
        let next = last + 1;
        let changed = |record: &Record| matches!(record.event, Event::WebhookPut | Event::WebhookRemoved);
        let webhooks = match records.iter().any(|(_, record)| changed(record)) {
            // What is read now knows of every change that these records tell of.
            true => {
                self.webhooks = None;
                self.webhooks().await?
            }
            false => webhooks,
        };
        let told = self.tell(&records, &webhooks).await?;
        let moved = Lead { reached: next, ..lead };
        self.lead = if told > 0 || next - lead.cursor.position >= NOTE_AFTER {
            debug!(told, position = next, "events handed in");
            self.note(moved, now).await?
        } else {
            Some(moved)
        };
        Ok(if records.len() == AT_ONCE { Rest::None } else { Rest::News(PACE) })
    }

    async fn webhooks(&mut self) -> Result<Vec<(Tenant, String, Subscription)>, StoreError> {
        if let Some(webhooks) = &self.webhooks {
            return Ok(webhooks.clone());
        }
        let pick = Pick::All { after: None };
        let wanted = Wanted { shelf: Shelf::Webhook, tenant: None, pick, limit: WEBHOOKS_MAX };
        let docs = self.store.docs(wanted).await?;
        if docs.len() == WEBHOOKS_MAX {
            warn!(most = WEBHOOKS_MAX, "there are too many webhooks; the oldest ones are told nothing");
        }
        let read = |doc: pombo_store::shelf::Doc| {
            let subscription = Subscription::read(&doc.leaf.body)?;
            Some((doc.tenant, doc.id, subscription))
        };
        let read: Vec<_> = docs.into_iter().filter_map(read).collect();
        self.webhooks = Some(read.clone());
        Ok(read)
    }

    /// Becomes the one who tells, or says how long somebody else is. What nobody subscribed to is passed over.
    async fn take_lead(&mut self, first: u64, now: Time) -> Result<Result<Lead, Span>, StoreError> {
        let doc = self.store.doc(Shelf::Cursor, Tenant::default(), CURSOR.to_owned()).await?;
        let kept = doc.as_ref().and_then(|doc| serde_json::from_str::<Cursor>(&doc.leaf.body).ok());
        let kept = kept.unwrap_or_default();
        // One that ends much later than any lease is of a clock that was wrong.
        let left = kept.until.since(now);
        if kept.holder != self.holder && left > Span::ZERO && left <= LEASE {
            return Ok(Err(left));
        }
        let version = doc.map_or(0, |doc| doc.version);
        let own = self.lead.filter(|lead| lead.version == version).map_or(0, |lead| lead.reached);
        let reached = kept.position.max(first).max(own);
        let lead = Lead { version, cursor: kept, reached };
        Ok(self.note(lead, now).await?.ok_or(LEASE))
    }

    /// Writes down how far it has come and that this node goes on; none if somebody else has done so.
    async fn note(&self, lead: Lead, now: Time) -> Result<Option<Lead>, StoreError> {
        let cursor = Cursor { position: lead.reached, holder: self.holder, until: now + LEASE };
        let body = serde_json::to_string(&cursor).unwrap_or_default();
        let wish = Shelve {
            shelf: Shelf::Cursor,
            tenant: Tenant::default(),
            id: CURSOR.to_owned(),
            expect: if lead.version == 0 { Expect::Nothing } else { Expect::Version(lead.version) },
            leaf: Some(Leaf { order: 0, topic: None, due: None, body }),
            record: None,
        };
        match self.store.shelve(vec![wish]).await?.pop() {
            Some(Shelved::Done { version }) => Ok(Some(Lead { version, cursor, reached: lead.reached })),
            Some(Shelved::Conflict(_)) => Ok(None),
            None => Err(StoreError::Closed),
        }
    }

    /// Hands in what has to be told of these records; how much that was.
    async fn tell(
        &self,
        records: &[(u64, Record)],
        webhooks: &[(Tenant, String, Subscription)],
    ) -> Result<usize, StoreError> {
        let setup = self.setup.borrow().clone();
        let mut wanted: Vec<(&(u64, Record), Vec<usize>)> = Vec::new();
        let mut ends = Vec::new();
        for told @ (position, record) in records {
            // What becomes of an event is nobody else's event.
            if record.channel == EVENTS {
                ends.extend(told_gone(record).map(|id| (&record.tenant, id)));
                continue;
            }
            let kind = event::kind(record.event);
            let wants = |(tenant, _, it): &(Tenant, String, Subscription)| {
                it.wants(kind, &record.channel, *position) && event::concerns(record, tenant, &setup)
            };
            let who: Vec<usize> = (0..webhooks.len()).filter(|nth| wants(&webhooks[*nth])).collect();
            if !who.is_empty() {
                wanted.push((told, who));
            }
        }
        let lines = self.lines(wanted.iter().filter_map(|((_, record), _)| record.message).collect()).await?;
        let mut drafts: Vec<Draft> = Vec::new();
        for ((position, record), who) in wanted {
            let line = record.message.and_then(|id| lines.get(&id));
            let told = event::told(*position, record, line);
            let to = who.into_iter().map(|nth| &webhooks[nth]);
            drafts.extend(to.map(|(tenant, id, _)| event::delivery(tenant, id, &told)));
        }
        let count = drafts.len();
        for group in drafts.chunks(GROUP) {
            self.store.accept(group.to_vec()).await?;
        }
        for (tenant, id) in ends {
            self.disable(tenant, id).await?;
        }
        Ok(count)
    }

    /// Tells a webhook nothing more whose receiver said so to that message.
    async fn disable(&self, tenant: &str, id: MessageId) -> Result<(), StoreError> {
        let Ok(tenant) = tenant.parse::<Tenant>() else { return Ok(()) };
        let Some(story) = self.store.story(tenant.clone(), id).await? else { return Ok(()) };
        let Some(last) = story.attempts.last() else { return Ok(()) };
        let webhook = &story.message.body.to;
        if webhook::gone(&*self.store, &tenant, webhook, last.started_at, self.clock.now()).await? {
            info!(webhook, "disabled: its receiver answered 410");
        }
        Ok(())
    }

    async fn lines(&self, mut ids: Vec<MessageId>) -> Result<HashMap<MessageId, Line>, StoreError> {
        ids.sort_unstable();
        ids.dedup();
        let lines = if ids.is_empty() { Vec::new() } else { self.store.lines(ids).await? };
        Ok(lines.into_iter().map(|line| (line.message.id, line)).collect())
    }
}

/// The message by which a receiver said that it wants no more, if it did.
fn told_gone(record: &Record) -> Option<MessageId> {
    #[derive(Deserialize)]
    struct Detail {
        category: Option<String>,
    }
    let detail: Detail = serde_json::from_str(&record.detail).ok()?;
    let gone = record.event == Event::Failed && detail.category.as_deref() == Some("gone");
    record.message.filter(|_| gone)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use pombo_kernel::message::{Actor, Body, Idempotency, Priority, QueueName};
    use pombo_kernel::name::ChannelName;
    use pombo_kernel::secret::Secret;
    use pombo_kernel::subscription::Signer;
    use pombo_store::Filter;
    use pombo_store::memory::Memory;
    use pombo_store::shell::Shell;

    use super::*;
    use crate::config::{Config, Environment, Source};

    #[derive(Debug)]
    struct Hands(AtomicI64);

    impl Clock for Hands {
        fn now(&self) -> Time {
            Time::from_millis(1_800_000_000_000 + self.0.load(Ordering::Relaxed))
        }
    }

    struct World {
        store: Arc<dyn Store>,
        clock: Arc<Hands>,
        setup: watch::Receiver<Arc<Setup>>,
    }

    impl World {
        fn new() -> World {
            let clock = Arc::new(Hands(AtomicI64::new(0)));
            let entropy = Box::new(|| [7; 32]);
            let store = Shell::start(Memory::new(Dice::seeded(1)), clock.clone(), entropy).unwrap();
            let config = Config::parse("", Source::default(), &Environment::default()).unwrap();
            let (_, setup) = watch::channel(Arc::new(config.setup()));
            World { store: Arc::new(store), clock, setup }
        }

        fn node(&self, holder: u64) -> Work {
            let (store, setup, clock) = (Arc::clone(&self.store), self.setup.clone(), self.clock.clone());
            Work { store, setup, clock, holder, webhooks: None, lead: None }
        }

        async fn subscribe(&self, id: &str) {
            let subscription = Subscription {
                url: "https://crm.example/".into(),
                description: None,
                events: vec!["message.accepted".into()],
                channels: Vec::new(),
                secrets: vec![Signer { secret: Secret::new("x"), until: None }],
                disabled: None,
                since: *self.store.watch().borrow(),
                created_at: self.clock.now(),
                created_by: String::new(),
                rest: serde_json::Map::new(),
            };
            let (tenant, now) = (Tenant::default(), self.clock.now());
            let by = Actor::engine();
            let wish = webhook::put(&tenant, id, &subscription, Expect::Nothing, ("created", &by, now));
            self.store.shelve(vec![wish]).await.unwrap();
        }

        async fn accept(&self, count: usize) {
            let draft = |_| Draft {
                id: None,
                queue: QueueName {
                    tenant: Tenant::default(),
                    lane: "default".parse().unwrap(),
                    channel: "webhook".parse().unwrap(),
                    destination: "".into(),
                    campaign: None,
                },
                priority: Priority::default(),
                send_at: None,
                expires_at: None,
                ordering_key: None,
                idempotency: None::<Idempotency>,
                body: Body::default(),
                blobs: Vec::new(),
            };
            self.store.accept((0..count).map(draft).collect()).await.unwrap();
        }

        /// How many messages there are for webhooks.
        async fn told(&self) -> usize {
            let channel: Option<ChannelName> = EVENTS.parse().ok();
            let filter = Filter { channel, ..Filter::default() };
            self.store.page(filter, None, 5_000).await.unwrap().lines.len()
        }

        async fn cursor(&self) -> Option<Cursor> {
            let doc = self.store.doc(Shelf::Cursor, Tenant::default(), CURSOR.to_owned()).await.unwrap();
            doc.map(|doc| serde_json::from_str(&doc.leaf.body).unwrap())
        }
    }

    async fn all(work: &mut Work) {
        while !matches!(work.round().await.unwrap(), Rest::News(_)) {}
    }

    #[tokio::test]
    async fn while_nobody_subscribes_nothing_is_followed_and_nothing_is_written() {
        let world = World::new();
        world.accept(10).await;
        let mut node = world.node(1);
        assert!(matches!(node.round().await.unwrap(), Rest::News(IDLE_PACE)));
        assert_eq!((world.cursor().await, world.told().await), (None, 0));
        world.subscribe("whk_1").await;
        world.accept(3).await;
        all(&mut node).await;
        assert_eq!(world.told().await, 3, "what happened before is nobody's to know");
    }

    #[tokio::test] // REQ ML-10
    async fn each_event_is_handed_in_once_for_each_webhook_whatever_is_forgotten_on_the_way() {
        let world = World::new();
        world.subscribe("whk_1").await;
        world.subscribe("whk_2").await;
        world.accept(1_200).await;
        all(&mut world.node(1)).await;
        assert_eq!(world.told().await, 2_400);
        // As if the node had died before it could note how far it had come.
        let forget = Shelve {
            shelf: Shelf::Cursor,
            tenant: Tenant::default(),
            id: CURSOR.to_owned(),
            expect: Expect::Any,
            leaf: None,
            record: None,
        };
        world.store.shelve(vec![forget]).await.unwrap();
        let mut next = world.node(2);
        all(&mut next).await;
        assert_eq!(world.told().await, 2_400, "and what becomes of events is no event");
        world.accept(1).await;
        all(&mut next).await;
        assert_eq!(world.told().await, 2_402);
    }

    #[tokio::test]
    async fn one_node_at_a_time_does_it_and_another_takes_over_when_that_one_is_gone() {
        let world = World::new();
        world.subscribe("whk_1").await;
        world.accept(5).await;
        let (mut one, mut two) = (world.node(1), world.node(2));
        all(&mut one).await;
        world.accept(5).await;
        assert!(matches!(two.round().await.unwrap(), Rest::Until(LEASE)));
        assert_eq!(world.told().await, 5);
        world.clock.0.fetch_add(3_001, Ordering::Relaxed);
        all(&mut two).await;
        assert_eq!((world.told().await, world.cursor().await.unwrap().holder), (10, 2));
        world.accept(5).await;
        assert!(matches!(one.round().await.unwrap(), Rest::Until(_)), "it sees that it was replaced");
        all(&mut two).await;
        assert_eq!(world.told().await, 15);
    }

    #[tokio::test]
    async fn a_webhook_that_another_node_learned_of_is_known_to_the_one_that_takes_over() {
        let world = World::new();
        world.subscribe("whk_1").await;
        let (mut one, mut two) = (world.node(1), world.node(2));
        all(&mut two).await;
        world.clock.0.fetch_add(3_001, Ordering::Relaxed);
        world.subscribe("whk_2").await;
        all(&mut one).await;
        world.clock.0.fetch_add(3_001, Ordering::Relaxed);
        world.accept(5).await;
        all(&mut two).await;
        assert_eq!(world.told().await, 10);
    }
}
