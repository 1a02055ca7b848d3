//! Rounds by hand, on the model: time stands still unless it is told to pass.

use pombo_kernel::block::Block;
use pombo_kernel::message::StateName;
use pombo_kernel::name::Tenant;
use pombo_kernel::notice::Letter;
use pombo_store::shelf::{Pick, Wanted};
use pombo_store::{Filter, Place};
use serde_json::json;

use super::*;
use crate::by_hand::{Hand, configured, end_all, model};

const CONFIG: &str = "[channels.mail]\nkind = \"null\"\n[channels.hook]\nkind = \"null\"\n\
    [notices.ops]\nchannel = \"mail\"\nto = \"ops@clinic.example\"\nfallback = \"night\"\n\
    [notices.night]\nchannel = \"hook\"\nto = \"night\"\n";

struct World {
    store: Arc<dyn Store>,
    clock: Arc<Hand>,
    setup: watch::Sender<Arc<Setup>>,
}

impl World {
    /// One notice is owed to `ops`.
    async fn new() -> World {
        let (store, clock) = model();
        let world = World { store, clock, setup: configured(CONFIG) };
        world.owe().await;
        world
    }

    async fn owe(&self) {
        let letter =
            Letter { subject: "wrong".into(), text: "all of it".into(), html: None, data: json!({"a": 1}) };
        let notice =
            Notice::new("alr_1", "ops".parse().unwrap(), Tenant::default(), letter, self.clock.now());
        self.store.shelve(vec![notice::owe("alert·alr_1·1·ops", &notice)]).await.unwrap();
    }

    async fn round(&self) {
        let mut work =
            Work { store: self.store.clone(), setup: self.setup.subscribe(), clock: self.clock.clone() };
        while work.round().await.unwrap().is_some_and(|wake| wake <= self.clock.now()) {}
    }

    async fn notice(&self) -> Notice {
        let id = notice::owe("alert·alr_1·1·ops", &self.blank()).id;
        notice::read(&self.store.doc(Shelf::Alert, Tenant::default(), id).await.unwrap().unwrap()).unwrap()
    }

    /// How many notices are on their way.
    async fn owed(&self) -> usize {
        let due = Pick::Due { from: Time::default(), until: Time::MAX, after: None };
        let wanted = Wanted { shelf: Shelf::Alert, tenant: None, pick: due, limit: 9 };
        self.store.docs(wanted).await.unwrap().len()
    }

    fn blank(&self) -> Notice {
        Notice::new("", "ops".parse().unwrap(), Tenant::default(), Letter::default(), self.clock.now())
    }

    /// The channels of messages that there are, the newest first, and where they stand.
    async fn messages(&self) -> Vec<(String, StateName)> {
        let page = self.store.page(Filter::default(), None, 100).await.unwrap();
        let line = |line: &Line| (line.message.queue.channel.to_string(), line.state.name());
        page.lines.iter().map(line).collect()
    }

    async fn sends(&self, failed: Option<&str>) -> Vec<String> {
        let sent = end_all(&*self.store, NOTICES, failed, self.clock.now()).await;
        sent.iter().map(|message| message.queue.channel.to_string()).collect()
    }

    async fn is_sent(&self, via: &str) -> bool {
        matches!(self.notice().await.state, State::Sent { via: by, .. } if by.as_str() == via)
    }

    fn place(&self, channel: &str) -> Place {
        Place { channel: channel.parse().unwrap(), destination: None }
    }
}

fn of(channel: &str, state: StateName) -> (String, StateName) {
    (channel.to_owned(), state)
}

#[tokio::test] // REQ OB-4
async fn a_notice_is_one_ordinary_message_in_a_lane_of_its_own_however_often_it_is_owed() {
    let world = World::new().await;
    world.round().await;
    world.owe().await;
    world.round().await;
    assert_eq!(world.messages().await, [of("mail", StateName::Pending)]);
    assert_eq!(world.sends(None).await, ["mail"]);
    world.round().await;
    assert!(world.is_sent("ops").await);
    assert_eq!(world.owed().await, 0, "nothing is left to do");
}

#[tokio::test] // fault 40
async fn while_its_channel_is_held_or_down_the_fallback_gets_it_at_once() {
    let now = crate::by_hand::T0;
    for block in [
        Block::hold("401".into(), 0, now),
        Block::breaker("down".into(), &Default::default(), now),
        Block::operator("moving house".into(), now),
    ] {
        let world = World::new().await;
        world.store.block(world.place("mail"), block, Actor::engine()).await.unwrap();
        world.round().await;
        assert_eq!(world.messages().await, [of("hook", StateName::Pending)]);
        assert_eq!(world.sends(None).await, ["hook"]);
        world.round().await;
        assert!(world.is_sent("night").await);
        let passed = world.notice().await.passed;
        assert_eq!((passed.len(), passed[0].via.as_str()), (1, "ops"));
    }
}

#[tokio::test] // fault 40
async fn a_channel_that_goes_down_while_a_notice_waits_for_it_loses_it_to_the_fallback() {
    let world = World::new().await;
    world.round().await;
    let block = Block::hold("401".into(), 0, world.clock.now());
    world.store.block(world.place("mail"), block, Actor::engine()).await.unwrap();
    world.round().await;
    let expected = [of("hook", StateName::Pending), of("mail", StateName::Cancelled)];
    assert_eq!(world.messages().await, expected, "it does not come twice when the channel is back");
}

#[tokio::test] // fault 40
async fn a_notice_whose_message_fails_goes_another_way_and_leaves_no_dead_letter() {
    let world = World::new().await;
    world.round().await;
    world.sends(Some("invalid_recipient")).await;
    world.round().await;
    let expected = [of("hook", StateName::Pending), of("mail", StateName::Discarded)];
    assert_eq!(world.messages().await, expected);
    world.sends(Some("gone")).await;
    world.round().await;
    let notice = world.notice().await;
    assert!(matches!(&notice.state, State::Lost { why, .. } if why.contains("gone")), "{notice:?}");
    assert!(world.messages().await.iter().all(|(_, state)| *state == StateName::Discarded));
}

#[tokio::test] // fault 40
async fn a_notice_that_takes_too_long_goes_another_way() {
    let world = World::new().await;
    world.round().await;
    world.clock.pass(Span::from_secs(119));
    world.round().await;
    assert_eq!(world.messages().await.len(), 1);
    world.clock.pass(Span::from_secs(1));
    world.round().await;
    let expected = [of("hook", StateName::Pending), of("mail", StateName::Cancelled)];
    assert_eq!(world.messages().await, expected);
}

#[tokio::test]
async fn without_a_fallback_a_notice_waits_for_its_channel() {
    let world = World::new().await;
    world.setup.send_replace(configured(&CONFIG.replace("fallback = \"night\"\n", "")).borrow().clone());
    let block = Block::hold("401".into(), 0, world.clock.now());
    world.store.block(world.place("mail"), block, Actor::engine()).await.unwrap();
    world.round().await;
    world.clock.pass(Span::from_hours(1));
    world.round().await;
    assert_eq!(world.messages().await, [of("mail", StateName::Pending)]);
}

#[tokio::test] // fault 40
async fn what_reaches_nobody_for_a_day_is_given_up_and_says_so() {
    let world = World::new().await;
    world.setup.send_replace(configured(&CONFIG.replace("fallback = \"night\"\n", "")).borrow().clone());
    let block = Block::hold("401".into(), 0, world.clock.now());
    world.store.block(world.place("mail"), block, Actor::engine()).await.unwrap();
    world.round().await;
    world.clock.pass(Span::from_millis(LASTS.millis() - 1));
    world.round().await;
    assert_eq!(world.messages().await, [of("mail", StateName::Pending)]);
    world.clock.pass(Span::from_millis(1));
    world.round().await;
    assert_eq!(world.messages().await, [of("mail", StateName::Cancelled)]);
    let notice = world.notice().await;
    assert!(matches!(&notice.state, State::Lost { why, .. } if why.contains("for a day")), "{notice:?}");
    assert_eq!(
        world.owed().await,
        0,
        "however long the channel is held, no more waits for it than a day brings"
    );
}

#[tokio::test]
async fn a_target_that_is_no_longer_configured_is_lost_and_said_so() {
    let world = World::new().await;
    world.setup.send_replace(configured("[channels.mail]\nkind = \"null\"\n").borrow().clone());
    world.round().await;
    assert!(matches!(world.notice().await.state, State::Lost { .. }));
    assert_eq!(world.messages().await, []);
}

/// A clock that moves on whenever somebody looks at it, so that what comes first shows.
#[derive(Debug)]
struct Ticking(std::sync::atomic::AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> Time {
        Time::from_millis(self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
    }
}

#[tokio::test] // fault 40
async fn a_dead_notice_is_dealt_with_before_its_message_is_let_go() {
    let clock = Arc::new(Ticking(crate::by_hand::T0.millis().into()));
    let memory = pombo_store::memory::Memory::new(pombo_kernel::dice::Dice::seeded(1));
    let shell = pombo_store::shell::Shell::start(memory, clock.clone(), Box::new(|| [7; 32])).unwrap();
    let (store, setup): (Arc<dyn Store>, _) = (Arc::new(shell), configured(CONFIG));
    let letter = Letter { subject: "s".into(), text: "t".into(), ..Letter::default() };
    let notice = Notice::new("alr_1", "ops".parse().unwrap(), Tenant::default(), letter, clock.now());
    let wish = notice::owe("x", &notice);
    let id = wish.id.clone();
    store.shelve(vec![wish]).await.unwrap();
    let mut work = Work { store: store.clone(), setup: setup.subscribe(), clock: clock.clone() };
    work.round().await.unwrap();
    let dead = end_all(&*store, NOTICES, Some("gone"), clock.now()).await;
    work.round().await.unwrap();
    let doc = store.doc(Shelf::Alert, Tenant::default(), id).await.unwrap().unwrap();
    assert!(matches!(notice::read(&doc).unwrap().state, State::Owed { via } if via.as_str() == "night"));
    let line = store.lines(vec![dead[0].id]).await.unwrap().pop().unwrap();
    assert_eq!(line.state.name(), StateName::Discarded);
    assert!(line.updated_at < doc.updated_at, "whoever goes away in between leaves no dead letter behind");
}

#[tokio::test] // fault 40
async fn a_notice_whose_dead_message_was_dealt_with_still_says_why_it_goes_another_way() {
    let world = World::new().await;
    world.round().await;
    let dead = end_all(&*world.store, NOTICES, Some("gone"), world.clock.now()).await;
    let (tenant, ids, by) = (Tenant::default(), vec![dead[0].id], Actor::engine());
    let ruling = Ruling { tenant, ids, act: Act::Discard, by, note: None, with: None };
    world.store.rule(ruling).await.unwrap().unwrap();
    world.round().await;
    assert_eq!(world.notice().await.passed[0].why, "its message failed: gone");
}
