//! Looks by hand, on the model: time stands still unless it is told to pass.

use pombo_kernel::alert::{Acknowledged, RuleName, State};
use pombo_kernel::block::Block;
use pombo_kernel::message::{Body, Draft};
use pombo_store::{Place, anchor, audit};

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
        self.node_at(None)
    }

    fn node_at(&self, place: Option<Home>) -> Work {
        Work::new(self.store.clone(), self.setup.subscribe(), self.clock.clone(), place)
    }

    /// With more configured than there was.
    fn add(&self, text: &str) {
        self.setup.send_replace(configured(&format!("{CONFIG}{text}")).borrow().clone());
    }

    /// The only alert of that rule.
    async fn alert(&self, rule: RuleName) -> Alert {
        let docs = self.docs().await;
        let mut found = docs.iter().filter_map(pombo_web::alert::read).filter(|alert| alert.rule == rule);
        let alert = found.next().unwrap_or_else(|| panic!("no alert of {rule}"));
        assert_eq!(found.count(), 0, "one of {rule}");
        alert
    }

    async fn memory(&self) -> u32 {
        let doc = self.store.doc(Shelf::Cursor, Tenant::default(), MEMORY.to_owned()).await.unwrap();
        doc.map_or(0, |doc| doc.version)
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

#[tokio::test] // REQ OB-4, fault 40
async fn however_often_something_comes_and_goes_people_are_owed_no_more_than_time_brings() {
    let world = World::new();
    let mut node = world.node();
    let tens = Span::from_secs(10);
    // Faster than it takes to be over: one alert, of which people are reminded.
    for _ in 0..Span::from_hours(5).millis() / (2 * tens.millis()) {
        world.hold().await;
        world.look(&mut node, tens).await;
        world.store.unblock(world.mail(), Actor::engine()).await.unwrap();
        world.look(&mut node, tens).await;
    }
    assert_eq!(world.told().await, ["alert.fired", "alert.reminder"]);
    // As slowly as makes the most of it: two for each time that it lasts until it is over.
    world.look(&mut node, MINUTE + tens).await;
    for _ in 0..10 {
        world.hold().await;
        world.look(&mut node, tens).await;
        world.store.unblock(world.mail(), Actor::engine()).await.unwrap();
        world.look(&mut node, MINUTE + tens).await;
    }
    assert_eq!(world.told().await.len(), 3 + 2 * 10);
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
    // It was only busy.
    for _ in 0..6 {
        node.in_trouble(&plan, &StoreError::TooLong);
        world.clock.pass(Span::from_secs(10));
    }
    node.round().await.unwrap();
    assert_eq!(world.alerts().await, []);
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

#[tokio::test] // REQ OB-4
async fn nobody_is_told_of_an_end_that_could_not_be_written() {
    let world = World::new();
    let mut node = world.node();
    world.hold().await;
    world.look(&mut node, MINUTE).await;
    world.store.unblock(world.mail(), Actor::engine()).await.unwrap();
    world.look(&mut node, MINUTE).await;
    world.clock.pass(Span::from_secs(10));
    let Looked { setup, firing, changes, now } = node.look().await.unwrap().unwrap();
    assert!(matches!(changes[..], [Change::Resolve(_)]), "{changes:?}");
    // Somebody answers it between the look and what follows from it.
    let silence = world.silence(Span::from_hours(1));
    world.answer(|alert| alert.silenced = Some(silence.clone())).await;
    node.carry_out(&changes[0], &firing, &setup.alerts, now).await.unwrap();
    assert_eq!(world.alerts().await, [(RuleName::ChannelHeld, State::Firing)]);
    assert_eq!(world.told().await, ["alert.fired"]);
    world.look(&mut node, Span::from_mins(3)).await;
    assert_eq!(world.alerts().await, [(RuleName::ChannelHeld, State::Resolved)]);
    assert_eq!(world.told().await, ["alert.fired"], "it is silent by now");
}

#[tokio::test] // REQ OB-4
async fn whoever_writes_an_alert_and_goes_away_leaves_nobody_untold() {
    let world = World::new();
    world.hold().await;
    // It is written that it fires, and no more.
    let mut node = world.node();
    let changes = node.look().await.unwrap().unwrap().changes;
    let owed = Alert { owes: Some(Why::Fired), ..changes[0].alert().clone() };
    let put = |alert: &Alert, expect| {
        let wish = pombo_web::alert::put(alert, expect, None, &Actor::engine(), world.clock.now());
        world.store.shelve(vec![wish])
    };
    put(&owed, Expect::Nothing).await.unwrap();
    assert_eq!(world.told().await, [""; 0]);
    world.look(&mut world.node(), MINUTE).await;
    assert_eq!(world.told().await, ["alert.fired"]);
    // The same for its end, which no look would come back to otherwise.
    let over = Alert {
        state: State::Resolved,
        owes: Some(Why::Resolved),
        ..world.alert(RuleName::ChannelHeld).await
    };
    put(&over, Expect::Any).await.unwrap();
    world.store.unblock(world.mail(), Actor::engine()).await.unwrap();
    world.look(&mut world.node(), MINUTE).await;
    assert_eq!(world.told().await, ["alert.fired", "alert.resolved"]);
    assert_eq!(world.alerts().await, [(RuleName::ChannelHeld, State::Resolved)]);
    let letters: Vec<_> =
        world.docs().await.iter().filter_map(notice::read).map(|it| it.letter.data).collect();
    assert!(letters.iter().all(|data| data["data"]["alert"].get("owes").is_none()), "{letters:?}");
}

#[tokio::test] // REQ OB-4
async fn a_silence_outlasts_whoever_goes_away_between_a_look_and_what_follows() {
    let world = World::new();
    let mut node = world.node();
    world.hold().await;
    world.look(&mut node, MINUTE).await;
    let silence = world.silence(Span::from_hours(1));
    world.answer(|alert| alert.silenced = Some(silence.clone())).await;
    world.store.unblock(world.mail(), Actor::engine()).await.unwrap();
    world.look(&mut node, Span::from_mins(3)).await;
    world.hold().await;
    world.clock.pass(Span::from_secs(10));
    // It sees that the alert is back, remembers what it saw, and goes away.
    assert_eq!(node.look().await.unwrap().unwrap().changes.len(), 1);
    drop(node);
    world.look(&mut world.node(), Span::from_mins(5)).await;
    let held = RuleName::ChannelHeld;
    assert_eq!(world.alerts().await, [(held, State::Resolved), (held, State::Firing)]);
    assert_eq!(world.told().await, ["alert.fired"], "only of the first, before it was silenced");
}

#[tokio::test]
async fn a_silence_that_was_ended_does_not_come_back_with_the_alert() {
    let world = World::new();
    let mut node = world.node();
    world.hold().await;
    world.look(&mut node, MINUTE).await;
    let silence = world.silence(Span::from_hours(1));
    world.answer(|alert| alert.silenced = Some(silence.clone())).await;
    for _ in 0..2 {
        world.store.unblock(world.mail(), Actor::engine()).await.unwrap();
        world.look(&mut node, Span::from_mins(3)).await;
        world.hold().await;
        world.look(&mut node, MINUTE).await;
        // The one that fires now, the newest.
        let docs = world.docs().await;
        let firing = docs.iter().filter_map(pombo_web::alert::read).find(Alert::is_firing).unwrap();
        let doc = docs.iter().find(|doc| doc.id == firing.id()).unwrap();
        let (expect, by) = (Expect::Version(doc.version), Actor("ana".to_owned()));
        let loud = Alert { silenced: None, ..firing };
        let wish = pombo_web::alert::put(&loud, expect, None, &by, world.clock.now());
        world.store.shelve(vec![wish]).await.unwrap();
    }
    assert_eq!(world.told().await, ["alert.fired", "alert.resolved", "alert.fired"]);
}

#[tokio::test]
async fn what_is_remembered_is_written_only_when_it_changes() {
    let world = World::new();
    let mut node = world.node();
    world.store.accept(vec![draft("default", "mail")]).await.unwrap();
    world.look(&mut node, Span::from_mins(7)).await;
    let (before, alert) = (world.memory().await, world.alert(RuleName::ProcessingTime).await);
    // It gets worse with every look, which the alert says, and nothing else changes.
    world.look(&mut node, Span::from_mins(2)).await;
    assert!(world.alert(RuleName::ProcessingTime).await.peak > alert.peak);
    assert_eq!(world.memory().await, before);
}

#[tokio::test]
async fn more_alerts_than_can_be_looked_after_are_said_once() {
    let world = World::new();
    world.hold().await;
    world.look(&mut world.node(), MINUTE).await;
    let one = world.alert(RuleName::ChannelHeld).await;
    let many = (1..=FIRING_MAX).map(|nth| {
        let channel = format!("c{nth}").parse().unwrap();
        let subject = alert::Subject::channel(Tenant::default(), channel);
        let alert = Alert { subject, ..one.clone() };
        pombo_web::alert::put(&alert, Expect::Nothing, None, &Actor::engine(), world.clock.now())
    });
    world.store.shelve(many.collect()).await.unwrap();
    let said = Said::default();
    let _listening = said.listen();
    let mut node = world.node();
    let plan = world.setup.borrow().alerts.clone();
    for _ in 0..3 {
        assert_eq!(node.firing(&plan, world.clock.now()).await.unwrap().len(), FIRING_MAX);
    }
    assert_eq!(said.count("as many alerts fire as can be looked after"), 1);
}

/// What the log says meanwhile, on this thread.
#[derive(Clone, Default)]
struct Said(Arc<std::sync::Mutex<Vec<u8>>>);

impl Said {
    fn listen(&self) -> tracing::subscriber::DefaultGuard {
        let said = self.clone();
        let writer = move || said.clone();
        tracing::subscriber::set_default(
            tracing_subscriber::fmt().with_writer(writer).with_ansi(false).finish(),
        )
    }

    fn count(&self, words: &str) -> usize {
        String::from_utf8_lossy(&self.0.lock().unwrap()).matches(words).count()
    }
}

impl std::io::Write for Said {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test] // REQ OB-4
async fn a_claim_that_waits_near_its_deadline_is_found_in_the_store() {
    let world = World::new();
    world.add("[channels.claims]\nkind = \"tiss\"\n");
    let until = |span| Some(world.clock.now() + span);
    let near = Draft { expires_at: until(Span::from_hours(25)), ..draft("default", "claims") };
    let far = Draft { expires_at: until(Span::from_hours(48)), ..draft("default", "claims") };
    let other = Draft { expires_at: until(Span::from_hours(2)), ..draft("default", "mail") };
    world.store.accept(vec![near, far, other]).await.unwrap();
    let mut node = world.node();
    world.look(&mut node, Span::from_mins(10)).await;
    assert!(!world.alerts().await.iter().any(|(rule, _)| *rule == RuleName::ClaimDeadline));
    world.look(&mut node, Span::from_hours(2)).await;
    let alert = world.alert(RuleName::ClaimDeadline).await;
    assert_eq!((alert.count, alert.subject.to_string()), (1, "claims".to_owned()));
}

#[tokio::test] // REQ OB-4
async fn a_slow_decision_is_found_in_the_store() {
    let world = World::new();
    let decide = |took| {
        let asked = pombo_kernel::decision::Asked {
            claim_id: Some(format!("CLM-001-{took}").into()),
            submission_error: Some("TIMEOUT".into()),
            retry_count: Some(0.into()),
            last_submission_time: None,
        };
        let question = pombo_kernel::decision::Question::read(asked).unwrap();
        let (policy, now) = (world.setup.borrow().claims.clone(), world.clock.now());
        let mut dice = pombo_kernel::dice::Dice::seeded(1);
        let decided = pombo_kernel::decision::decide(&question, 0, &policy, now, &mut dice);
        let decided = pombo_kernel::decision::Decision { execution_time_ms: took, ..decided };
        world.store.shelve(vec![Shelve {
            shelf: Shelf::Decision,
            tenant: Tenant::default(),
            id: format!("d{took}"),
            expect: Expect::Nothing,
            leaf: Some(Leaf {
                order: now.millis(),
                topic: None,
                due: None,
                body: serde_json::to_string(&decided).unwrap(),
            }),
            record: None,
        }])
    };
    decide(900).await.unwrap();
    let mut node = world.node();
    world.look(&mut node, MINUTE).await;
    assert_eq!(world.alerts().await, []);
    decide(1_500).await.unwrap();
    world.look(&mut node, MINUTE).await;
    let alert = world.alert(RuleName::DecisionTime).await;
    assert_eq!((alert.value, alert.count), (1_500.0, 2));
    world.look(&mut node, Span::from_mins(10)).await;
    assert_eq!(
        world.alerts().await,
        [(RuleName::DecisionTime, State::Resolved)],
        "they were made too long ago"
    );
}

#[tokio::test] // REQ OB-4
async fn a_disk_that_fills_up_is_found_under_the_store() {
    let world = World::new();
    world.add("[alerts.disk_low]\nabove = \"0%\"\nfor = \"0s\"\n");
    world.look(&mut world.node(), MINUTE).await;
    assert_eq!(world.alerts().await, [], "where the store has no disk of its own there is nothing to see");
    let folder = tempfile::tempdir().unwrap();
    let mut node = world.node_at(Some(Home::Embedded(folder.path().to_owned().into())));
    world.look(&mut node, Span::from_mins(2)).await;
    let alert = world.alert(RuleName::DiskLow).await;
    let disk = rustix::fs::statvfs(folder.path()).unwrap();
    #[allow(clippy::cast_precision_loss)]
    let used = 1.0 - disk.f_bavail as f64 / disk.f_blocks as f64;
    assert!((alert.value - used).abs() < 0.05, "{} and {used}", alert.value);
}

#[tokio::test] // RELIABILITY 12
async fn a_log_that_grows_far_beyond_its_usual_size_is_an_alert_until_it_shrinks() {
    let world = World::new();
    let folder = tempfile::tempdir().unwrap();
    let log = std::fs::File::create(folder.path().join("pombo.db-wal")).unwrap();
    let size = |bytes| log.set_len(bytes).unwrap();
    let mut elsewhere = world.node();
    let mut node = world.node_at(Some(Home::Embedded(folder.path().to_owned().into())));
    size(18_432_000);
    world.look(&mut node, Span::from_mins(5)).await;
    assert_eq!(world.alerts().await, [], "as it usually is");
    size(300_000_000);
    world.look(&mut elsewhere, Span::from_mins(5)).await;
    assert_eq!(world.alerts().await, [], "a store without a log of its own has nothing to tell");
    world.look(&mut node, Span::from_mins(2)).await;
    assert_eq!(world.alerts().await, [(RuleName::LogLarge, State::Firing)]);
    let alert = world.alert(RuleName::LogLarge).await;
    assert_eq!((alert.value, alert.above), (300.0, 256.0));
    size(67_108_864);
    world.look(&mut node, Span::from_mins(2)).await;
    assert_eq!(world.alerts().await, [(RuleName::LogLarge, State::Resolved)]);
}

#[tokio::test] // REQ OB-4, AU-1
async fn a_chain_that_was_found_broken_is_an_alert_until_it_holds_again() {
    let world = World::new();
    let mut node = world.node();
    let broken = audit::Break { block: 4, what: "it is not the one that was signed" };
    world.store.shelve(vec![anchor::note(Some(&broken), world.clock.now())]).await.unwrap();
    world.look(&mut node, MINUTE).await;
    let alert = world.alert(RuleName::AuditBroken).await;
    assert_eq!(alert.samples[0].text, "audit block 4: it is not the one that was signed");
    world.store.shelve(vec![anchor::note(None, world.clock.now())]).await.unwrap();
    world.look(&mut node, Span::from_mins(2)).await;
    assert_eq!(world.alerts().await, [(RuleName::AuditBroken, State::Resolved)]);
}

#[tokio::test] // REQ OB-4
async fn a_category_far_above_what_is_usual_is_found_in_what_the_store_counted() {
    let world = World::new();
    // Ten days with two of them an hour.
    for _ in 0..240 {
        world.end(2, Some("timeout")).await;
        world.clock.pass(Span::from_hours(1));
    }
    let mut node = world.node();
    world.end(2, Some("timeout")).await;
    world.look(&mut node, Span::from_mins(2)).await;
    assert!(!world.alerts().await.iter().any(|(rule, _)| *rule == RuleName::Anomaly), "it is as usual");
    world.end(60, Some("timeout")).await;
    world.look(&mut node, Span::from_mins(2)).await;
    let alert = world.alert(RuleName::Anomaly).await;
    assert_eq!(alert.subject.to_string(), "mail / timeout");
    // Those of the hour before are counted as if they had come at its end.
    assert_eq!(alert.count, 60 + 2 + 2);
    assert!(alert.value > 10.0, "{}", alert.value);
}

const DAY: Span = Span::from_hours(24);
const DAY_MS: i64 = 86_400_000;

#[tokio::test] // REQ OB-4
async fn a_clock_that_jumps_is_told_with_how_far_and_so_is_its_way_back() {
    let world = World::new();
    let mut node = world.node();
    world.look(&mut node, MINUTE).await;
    world.clock.set(DAY_MS);
    world.look(&mut node, MINUTE).await;
    let alert = world.alert(RuleName::ClockJumped).await;
    assert_eq!((alert.value, alert.subject.to_string()), (86_400_000.0, "clock-ahead".to_owned()));
    let now = world.clock.now();
    assert!(alert.samples[0].text.contains(&format!("{}", alert.fired_at - DAY)), "{alert:?} at {now}");
    let notice = world.docs().await.iter().find_map(notice::read).unwrap();
    assert_eq!(
        notice.letter.subject,
        "[Pombo] warning: the clock jumped ahead by 1d (more than 10s): what was due by then goes now"
    );
    // Somebody puts it right.
    world.clock.set(-DAY_MS);
    world.look(&mut node, MINUTE).await;
    let jumped = RuleName::ClockJumped;
    assert_eq!(world.alerts().await, [(jumped, State::Firing); 2]);
    assert_eq!(world.told().await, ["alert.fired"; 2]);
    world.look(&mut node, Span::from_hours(3)).await;
    assert_eq!(world.alerts().await, [(jumped, State::Resolved); 2]);
    assert_eq!(world.told().await.len(), 4);
}

#[tokio::test] // REQ OB-4
async fn a_clock_that_is_set_back_while_all_is_well_is_told_soon() {
    let world = World::new();
    let mut node = world.node();
    world.look(&mut node, Span::from_mins(3)).await;
    world.clock.set(-DAY_MS);
    world.look(&mut node, Span::from_secs(10)).await;
    assert_eq!(world.alert(RuleName::ClockJumped).await.subject.to_string(), "clock-back");
}

#[tokio::test] // REQ OB-4
async fn a_clock_that_just_goes_on_and_one_that_is_corrected_by_little_are_no_alert() {
    let world = World::new();
    let mut node = world.node();
    for _ in 0..60 {
        world.clock.set(9_000);
        world.look(&mut node, MINUTE).await;
        world.clock.set(-9_000);
        world.look(&mut node, MINUTE).await;
    }
    assert_eq!(world.alerts().await, []);
}

#[tokio::test] // REQ OB-4
async fn a_jump_that_could_not_be_written_is_told_by_the_next_look() {
    let world = World::new();
    let mut node = world.node();
    let plan = world.setup.borrow().alerts.clone();
    world.look(&mut node, MINUTE).await;
    world.clock.set(-DAY_MS);
    node.in_trouble(&plan, &StoreError::Unavailable("no space left".to_owned()));
    world.clock.pass(Span::from_secs(5));
    node.round().await.unwrap();
    assert_eq!(world.alert(RuleName::ClockJumped).await.value, 86_400_000.0);
}

#[tokio::test] // REQ OB-4
async fn two_nodes_that_see_the_same_jump_tell_of_it_once() {
    let world = World::new();
    let (mut one, mut two) = (world.node(), world.node());
    for nth in 0..60 {
        if nth == 5 {
            world.clock.set(DAY_MS);
        }
        world.clock.pass(Span::from_secs(7));
        one.round().await.unwrap();
        world.clock.pass(Span::from_secs(3));
        two.round().await.unwrap();
    }
    assert_eq!(world.alerts().await, [(RuleName::ClockJumped, State::Firing)]);
    assert_eq!(world.told().await, ["alert.fired"]);
}

#[tokio::test] // REQ OB-4
async fn whoever_starts_after_the_clock_was_set_back_looks_at_once() {
    let world = World::new();
    let mut node = world.node();
    world.hold().await;
    world.look(&mut node, MINUTE).await;
    drop(node);
    world.store.unblock(world.mail(), Actor::engine()).await.unwrap();
    // What was written last lies a day ahead, and it is nobody who looks just now.
    world.clock.set(-DAY_MS);
    world.look(&mut world.node(), Span::from_mins(2)).await;
    assert_eq!(world.alerts().await, [(RuleName::ChannelHeld, State::Resolved)]);
}
