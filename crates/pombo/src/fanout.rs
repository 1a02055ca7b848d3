//! Events on their way to webhooks: follows the audit, and hands in one message for each event and webhook.
//!
//! Messages are handed in before the place in the audit moves on, and under a key that makes a repeat harmless, so that
//! after any interruption every event is told.

use std::sync::Arc;
use std::time::Duration;

use pombo_kernel::dice::Dice;
use pombo_kernel::id::MessageId;
use pombo_kernel::message::Draft;
use pombo_kernel::name::Tenant;
use pombo_kernel::setup::{EVENTS, NOTICES, Setup};
use pombo_kernel::subscription::Subscription;
use pombo_kernel::time::Clock;
use pombo_store::audit::{Event, Record};
use pombo_store::shelf::{Pick, Shelf, Wanted};
use pombo_store::{Store, StoreError};
use pombo_web::{event, webhook};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{debug, info, warn};

use crate::follower::{AT_ONCE, Follower, Following, Rest, Turn};

/// Messages that are read together: each may be large.
const MESSAGES: usize = 32;
/// Messages that are handed in together.
const GROUP: usize = 512;
/// Webhooks of all tenants. Beyond it the oldest ones are told nothing, and the log says so.
const WEBHOOKS_MAX: usize = 10_000;
/// A busy store moves all the time: there is at most one round in this time, ...
const PACE: Duration = Duration::from_millis(50);
/// ... and in this time while nobody wants to be told anything.
const IDLE_PACE: Duration = Duration::from_secs(1);
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
        let follower = Follower::new(Arc::clone(&store), CURSOR, Dice::seeded(seed).next_u64());
        Fanout(tokio::spawn(Work { store, setup, clock, follower, webhooks: None }.run()))
    }
}

struct Work {
    store: Arc<dyn Store>,
    setup: watch::Receiver<Arc<Setup>>,
    clock: Arc<dyn Clock>,
    follower: Follower,
    /// As they were read last, if anybody was to be told; none if they have to be read anew.
    webhooks: Option<Vec<(Tenant, String, Subscription)>>,
}

impl Following for Work {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn forget(&mut self) {
        self.webhooks = None;
        self.follower.forget();
    }

    async fn round(&mut self) -> Result<Rest, StoreError> {
        let webhooks = self.webhooks().await?;
        let Some(first) = webhooks.iter().filter(|it| it.2.disabled.is_none()).map(|it| it.2.since).min()
        else {
            // Whoever subscribes says from where on, so that nothing has to be followed until then.
            self.forget();
            return Ok(Rest::News(IDLE_PACE));
        };
        let now = self.clock.now();
        let webhooks = match self.follower.turn(first, now).await? {
            Turn::Kept => webhooks,
            Turn::Taken => {
                // Somebody else may have followed what was changed until now.
                self.webhooks = None;
                self.webhooks().await?
            }
            Turn::Idle => return Ok(Rest::News(PACE)),
            Turn::Others(wait) => return Ok(Rest::Until(wait)),
        };
        let records = self.follower.records().await?;
        let Some((last, _)) = records.last() else { return Ok(Rest::News(PACE)) };
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
        if told > 0 {
            debug!(told, position = next, "events handed in");
        }
        self.follower.moved(next, told > 0, now).await?;
        Ok(if records.len() == AT_ONCE { Rest::None } else { Rest::News(PACE) })
    }
}

impl Work {
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
        // That there is nobody to tell is not remembered: nothing is followed then that would say who came since.
        let anybody = read.iter().any(|(_, _, it)| it.disabled.is_none());
        self.webhooks = anybody.then(|| read.clone());
        Ok(read)
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
        let mut drafts: Vec<Draft> = Vec::new();
        for some in wanted.chunks(MESSAGES) {
            let ids = some.iter().filter_map(|((_, record), _)| record.message);
            let lines = event::lines(&*self.store, ids).await?;
            for ((position, record), who) in some {
                let line = record.message.and_then(|id| lines.get(&id));
                // Nor is what becomes of a notice.
                if line.is_some_and(|line| line.message.queue.lane.as_str() == NOTICES) {
                    continue;
                }
                let told = event::told(*position, record, line);
                let to = who.iter().map(|nth| &webhooks[*nth]);
                drafts.extend(to.map(|(tenant, id, _)| event::delivery(tenant, id, &told)));
            }
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

    use pombo_kernel::message::Actor;
    use pombo_kernel::name::ChannelName;
    use pombo_kernel::secret::Secret;
    use pombo_kernel::subscription::Signer;
    use pombo_kernel::time::Span;
    use pombo_store::Filter;
    use pombo_store::shelf::{Expect, Shelve};

    use super::*;
    use crate::by_hand::{Hand, configured, draft, model};
    use crate::follower::{Cursor, LEASE};

    struct World {
        store: Arc<dyn Store>,
        clock: Arc<Hand>,
        setup: watch::Receiver<Arc<Setup>>,
    }

    impl World {
        fn new() -> World {
            let (store, clock) = model();
            World { store, clock, setup: configured("").subscribe() }
        }

        fn node(&self, holder: u64) -> Work {
            let (store, setup, clock) = (Arc::clone(&self.store), self.setup.clone(), self.clock.clone());
            let follower = Follower::new(Arc::clone(&store), CURSOR, holder);
            Work { store, setup, clock, follower, webhooks: None }
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
                request: None,
                rest: serde_json::Map::new(),
            };
            let (tenant, now) = (Tenant::default(), self.clock.now());
            let by = Actor::engine();
            let wish = webhook::put(&tenant, id, &subscription, Expect::Nothing, ("created", &by, now));
            self.store.shelve(vec![wish]).await.unwrap();
        }

        async fn accept(&self, count: usize) {
            self.accept_in("default", count).await;
        }

        async fn accept_in(&self, lane: &str, count: usize) {
            let drafts = vec![draft(lane, "webhook"); count];
            self.store.accept(drafts).await.unwrap();
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

    #[tokio::test] // REQ OB-4
    async fn what_becomes_of_a_notice_is_told_to_nobody() {
        let world = World::new();
        world.subscribe("whk_1").await;
        world.accept_in(NOTICES, 3).await;
        world.accept(2).await;
        all(&mut world.node(1)).await;
        assert_eq!(world.told().await, 2);
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
        world.clock.pass(Span::from_millis(3_001));
        all(&mut two).await;
        assert_eq!((world.told().await, world.cursor().await.unwrap().holder), (10, 2));
        world.accept(5).await;
        assert!(matches!(one.round().await.unwrap(), Rest::Until(_)), "it sees that it was replaced");
        all(&mut two).await;
        assert_eq!(world.told().await, 15);
    }

    #[tokio::test]
    async fn whoever_subscribes_after_the_last_webhook_was_disabled_is_told_without_further_news() {
        let world = World::new();
        let mut node = world.node(1);
        world.subscribe("whk_1").await;
        all(&mut node).await;
        let (tenant, now) = (Tenant::default(), world.clock.now());
        assert!(webhook::gone(&*world.store, &tenant, "whk_1", now, now).await.unwrap());
        all(&mut node).await;
        // All of this while the node rests between two rounds.
        world.subscribe("whk_2").await;
        world.accept(3).await;
        all(&mut node).await;
        assert_eq!(world.told().await, 3);
    }

    #[tokio::test]
    async fn a_webhook_that_another_node_learned_of_is_known_to_the_one_that_takes_over() {
        let world = World::new();
        world.subscribe("whk_1").await;
        let (mut one, mut two) = (world.node(1), world.node(2));
        all(&mut two).await;
        world.clock.pass(Span::from_millis(3_001));
        world.subscribe("whk_2").await;
        all(&mut one).await;
        world.clock.pass(Span::from_millis(3_001));
        world.accept(5).await;
        all(&mut two).await;
        assert_eq!(world.told().await, 10);
    }
}
