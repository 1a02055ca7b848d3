//! Looks by hand, on the model: time stands still unless it is told to pass.

use pombo_kernel::alert::{Acknowledged, RuleName, State};
use pombo_kernel::block::Block;
use pombo_kernel::message::{Body, Draft};
use pombo_store::Place;

use super::*;
use crate::by_hand::{Hand, configured, draft, end_all, model};

const CONFIG: &str = "[channels.mail]\nkind = \"null\"\n[channels.hook]\nkind = \"null\"\n\
    [notices.ops]\nchannel = \"hook\"\nto = \"ops\"\n\
    [alerts.failure_rate]\nleast = 3\nfor = \"0s\"\n[alerts.dead_letters]\nabove = 2\n";

struct World {
    store: Arc<dyn Store>,
    clock: Arc<Hand>,
    setup: watch::Sender<Arc<Setup>>,
}

impl World {
    fn new() -> World {
        let (store, clock) = model();
        World { store, clock, setup: configured(CONFIG) }
    }

    fn node(&self) -> Work {
        Work::new(self.store.clone(), self.setup.subscribe(), self.clock.clone(), None)
    }

    /// Looks for so long.
    async fn look(&self, work: &mut Work, span: Span) {
        for _ in 0..span.millis() / 10_000 {
            self.clock.pass(Span::from_secs(10));
            work.round().await.unwrap();
        }
    }

    /// So many messages end.
    async fn end(&self, count: usize, failed: Option<&str>) {
        let body = Body { to: "canary@example.net".into(), ..Body::default() };
        let drafts = vec![Draft { body, ..draft("default", "mail") }; count];
        self.store.accept(drafts).await.unwrap();
        assert_eq!(end_all(&*self.store, "default", failed, self.clock.now()).await.len(), count);
    }

    fn mail(&self) -> Place {
        Place { channel: "mail".parse().unwrap(), destination: None }
    }

    async fn hold(&self) {
        let block = Block::hold("401 from the provider".into(), 0, self.clock.now());
        self.store.block(self.mail(), block, Actor::engine()).await.unwrap();
    }

    async fn docs(&self) -> Vec<Doc> {
        let pick = Pick::All { after: None };
        let wanted = Wanted { shelf: Shelf::Alert, tenant: None, pick, limit: 1_000 };
        self.store.docs(wanted).await.unwrap()
    }

    /// The rules and states of alerts.
    async fn alerts(&self) -> Vec<(RuleName, State)> {
        let docs = self.docs().await;
        let mut alerts: Vec<_> = docs.iter().filter_map(pombo_web::alert::read).collect();
        alerts.sort_by_key(|alert| (alert.rule, alert.fired_at));
        alerts.iter().map(|alert| (alert.rule, alert.state)).collect()
    }

    /// What people are to be told, by its type, in order.
    async fn told(&self) -> Vec<String> {
        let mut notices: Vec<_> = self.docs().await.iter().filter_map(notice::read).collect();
        notices.sort_by_key(|notice| notice.created_at);
        notices.iter().map(|notice| notice.letter.data["type"].as_str().unwrap().to_owned()).collect()
    }

    async fn events(&self) -> Vec<Event> {
        let records = self.store.audit(0, 10_000).await.unwrap();
        let of_alerts = records.into_iter().map(|(_, record)| record.event);
        of_alerts.filter(|event| event.as_str().starts_with("alert_")).collect()
    }

    async fn answer(&self, change: impl Fn(&mut Alert)) {
        let doc = self.docs().await.into_iter().find(|doc| pombo_web::alert::read(doc).is_some()).unwrap();
        let mut alert = pombo_web::alert::read(&doc).unwrap();
        change(&mut alert);
        let expect = Expect::Version(doc.version);
        let by = Actor("ana".to_owned());
        let wish = pombo_web::alert::put(&alert, expect, None, &by, self.clock.now());
        self.store.shelve(vec![wish]).await.unwrap();
    }

    fn silence(&self, span: Span) -> Silenced {
        let now = self.clock.now();
        Silenced { until: now + span, by: Actor("ana".to_owned()), at: now, note: None }
    }
}

const MINUTE: Span = Span::from_mins(1);

#[tokio::test] // REQ OB-4
async fn what_is_wrong_is_recorded_and_told_once_and_so_is_its_end() {
    let world = World::new();
    let mut node = world.node();
    world.hold().await;
    world.look(&mut node, MINUTE).await;
    assert_eq!(world.alerts().await, [(RuleName::ChannelHeld, State::Firing)]);
    assert_eq!(world.told().await, ["alert.fired"]);
    world.store.unblock(world.mail(), Actor::engine()).await.unwrap();
    world.look(&mut node, Span::from_mins(2)).await;
    assert_eq!(world.alerts().await, [(RuleName::ChannelHeld, State::Resolved)]);
    assert_eq!(world.told().await, ["alert.fired", "alert.resolved"]);
    assert_eq!(world.events().await, [Event::AlertFired, Event::AlertResolved]);
}

#[tokio::test] // REQ DL-4
async fn what_the_store_counted_reaches_the_rules_with_a_sample_and_without_persons() {
    let world = World::new();
    let mut node = world.node();
    node.round().await.unwrap();
    world.end(3, Some("invalid_recipient")).await;
    world.look(&mut node, MINUTE).await;
    let expected = [RuleName::DeadLetters, RuleName::FailureRate].map(|rule| (rule, State::Firing));
    assert_eq!(world.alerts().await, expected);
    let docs = world.docs().await;
    let alert = docs.iter().find_map(pombo_web::alert::read).unwrap();
    assert_eq!(alert.samples[0].what, "invalid_recipient");
    assert_eq!((alert.samples[0].text.as_str(), alert.samples[0].count), ("550 user unknown", 3));
    assert!(docs.iter().all(|doc| !doc.leaf.body.contains("canary")));
}

#[tokio::test]
async fn a_restart_keeps_windows_and_waits() {
    let world = World::new();
    let text = CONFIG.replace("for = \"0s\"", "for = \"2m\"");
    world.setup.send_replace(configured(&text).borrow().clone());
    let mut node = world.node();
    node.round().await.unwrap();
    world.end(10, None).await;
    world.end(2, Some("invalid_recipient")).await;
    world.look(&mut node, MINUTE).await;
    assert_eq!(world.alerts().await, [], "it has not been so for long enough");
    // Another life, which has seen none of this.
    world.look(&mut world.node(), Span::from_secs(70)).await;
    assert_eq!(world.alerts().await, [(RuleName::FailureRate, State::Firing)]);
}

#[tokio::test]
async fn two_nodes_that_look_at_once_tell_people_once() {
    let world = World::new();
    let (mut one, mut two) = (world.node(), world.node());
    world.hold().await;
    for _ in 0..12 {
        world.clock.pass(Span::from_secs(10));
        let (a, b) = tokio::join!(one.round(), two.round());
        a.and(b).unwrap();
    }
    assert_eq!(world.told().await, ["alert.fired"]);
    assert_eq!(world.events().await, [Event::AlertFired]);
}

#[tokio::test]
async fn nobody_is_told_of_what_is_silent_also_when_it_comes_back() {
    let world = World::new();
    let mut node = world.node();
    world.hold().await;
    world.look(&mut node, MINUTE).await;
    let silence = world.silence(Span::from_hours(1));
    world.answer(|alert| alert.silenced = Some(silence.clone())).await;
    world.store.unblock(world.mail(), Actor::engine()).await.unwrap();
    world.look(&mut node, Span::from_mins(5)).await;
    world.hold().await;
    world.look(&mut node, Span::from_mins(5)).await;
    let held = RuleName::ChannelHeld;
    assert_eq!(world.alerts().await, [(held, State::Resolved), (held, State::Firing)]);
    assert_eq!(world.told().await, ["alert.fired"], "only of the first, before it was silenced");
    world.store.unblock(world.mail(), Actor::engine()).await.unwrap();
    world.look(&mut node, Span::from_hours(2)).await;
    world.hold().await;
    world.look(&mut node, MINUTE).await;
    assert_eq!(world.told().await, ["alert.fired", "alert.fired"], "the silence is over");
}

#[tokio::test]
async fn an_answer_that_comes_between_two_looks_is_not_lost() {
    let world = World::new();
    let mut node = world.node();
    world.hold().await;
    world.look(&mut node, MINUTE).await;
    let (by, at) = (Actor("ana".to_owned()), world.clock.now());
    let acknowledged = Acknowledged { by, at, note: Some("the provider knows".to_owned()) };
    world.answer(|alert| alert.acknowledged = Some(acknowledged.clone())).await;
    world.look(&mut node, Span::from_hours(9)).await;
    let docs = world.docs().await;
    let alert = docs.iter().find_map(pombo_web::alert::read).unwrap();
    assert_eq!(alert.acknowledged, Some(acknowledged));
    assert!(world.clock.now().since(alert.last_seen) <= MINUTE, "it is still seen");
    assert_eq!(world.told().await, ["alert.fired"], "and nobody is reminded");
}

#[tokio::test]
async fn while_all_is_well_nothing_is_written() {
    let world = World::new();
    let mut node = world.node();
    world.look(&mut node, Span::from_hours(1)).await;
    assert_eq!(world.docs().await, []);
    let memory = world.store.doc(Shelf::Cursor, Tenant::default(), MEMORY.to_owned()).await.unwrap();
    assert_eq!(memory, None);
    assert_eq!(*world.store.watch().borrow(), 0);
}

#[tokio::test]
async fn an_outage_of_the_store_is_told_when_it_is_over() {
    let world = World::new();
    let mut node = world.node();
    let trouble = StoreError::Unavailable("no space left".to_owned());
    let plan = world.setup.borrow().alerts.clone();
    // One look that failed may have been bad luck.
    node.in_trouble(&plan, &trouble);
    world.clock.pass(Span::from_secs(10));
    node.round().await.unwrap();
    assert_eq!(world.alerts().await, []);
    for _ in 0..3 {
        node.in_trouble(&plan, &trouble);
        world.clock.pass(Span::from_secs(10));
    }
    node.round().await.unwrap();
    assert_eq!(world.alerts().await, [(RuleName::StoreUnwritable, State::Firing)]);
    world.look(&mut node, Span::from_mins(2)).await;
    assert_eq!(world.alerts().await, [(RuleName::StoreUnwritable, State::Resolved)]);
}

#[tokio::test]
async fn a_rule_that_is_switched_off_ends_its_alerts() {
    let world = World::new();
    let mut node = world.node();
    world.hold().await;
    world.look(&mut node, MINUTE).await;
    let text = format!("{CONFIG}[alerts.channel_held]\nenabled = false\n");
    world.setup.send_replace(configured(&text).borrow().clone());
    world.look(&mut node, MINUTE).await;
    assert_eq!(world.alerts().await, [(RuleName::ChannelHeld, State::Resolved)]);
}
