//! Rounds by hand, on every store: time stands still unless it is told to pass.

use pombo_kernel::dice::Dice;
use pombo_kernel::message::Draft;
use pombo_kernel::setup::EVENTS;
use pombo_kernel::time::Span;
use pombo_store::shelf::{Pick, Wanted};
use serde_json::{Value, json};

use super::*;
use crate::by_hand::{Hand, configured, draft, end_all, every_store, model};

const CONFIG: &str = "[channels.mail]\nkind = \"null\"\n[channels.claims]\nkind = \"tiss\"\n\
    [notices.administrator]\nchannel = \"mail\"\nto = \"x\"\n[notices.billing]\nchannel = \"mail\"\nto = \"y\"\n\
    [notices.registration]\nchannel = \"mail\"\nto = \"z\"\n";
const MINUTE: Span = Span::from_mins(1);

struct World {
    store: Arc<dyn Store>,
    clock: Arc<Hand>,
    setup: watch::Sender<Arc<Setup>>,
}

impl World {
    fn new() -> World {
        let (store, clock) = model();
        World::on(store, clock)
    }

    fn on(store: Arc<dyn Store>, clock: Arc<Hand>) -> World {
        World { store, clock, setup: configured(CONFIG) }
    }

    fn node(&self, holder: u64) -> Work {
        let holder = Dice::seeded(holder).next_u64();
        Work::new(self.store.clone(), self.setup.subscribe(), self.clock.clone(), holder)
    }

    /// As many rounds as there is something to do for.
    async fn rounds(&self, node: &mut Work) {
        while node.round().await.unwrap() == Rest::None {}
    }

    /// Looks every minute for so long.
    async fn pass(&self, node: &mut Work, minutes: u64) {
        for _ in 0..minutes {
            self.clock.pass(MINUTE);
            self.rounds(node).await;
        }
    }

    /// So many messages become dead letters.
    async fn fall(&self, count: usize, category: &str) {
        for part in (0..count).step_by(100) {
            let drafts = vec![Draft { ..draft("default", "mail") }; (count - part).min(100)];
            self.store.accept(drafts).await.unwrap();
            end_all(&*self.store, "default", Some(category), self.clock.now()).await;
        }
    }

    /// What teams are to be told, in order.
    async fn letters(&self) -> Vec<Value> {
        let pick = Pick::All { after: None };
        let wanted = Wanted { shelf: Shelf::Alert, tenant: None, pick, limit: 1_000 };
        let docs = self.store.docs(wanted).await.unwrap();
        let mut notices: Vec<_> = docs.iter().filter_map(notice::read).collect();
        notices.sort_by_key(|notice| notice.created_at);
        notices.into_iter().map(|notice| notice.letter.data["data"].clone()).collect()
    }

    async fn told(&self) -> Vec<(String, u64)> {
        let letters = self.letters().await;
        let told =
            letters.iter().map(|it| (it["team"].as_str().unwrap().to_owned(), it["count"].as_u64().unwrap()));
        told.collect()
    }
}

fn of(team: &str, count: u64) -> (String, u64) {
    (team.to_owned(), count)
}

#[tokio::test] // REQ DL-5
async fn an_outage_is_one_digest_and_then_a_later_one_across_restarts_on_every_store() {
    for (name, store, clock, _place) in every_store() {
        let world = World::on(store, clock);
        world.fall(1, "before_anybody_was_to_be_told").await;
        let mut node = world.node(1);
        world.rounds(&mut node).await;
        world.fall(200, "down").await;
        world.rounds(&mut node).await;
        world.pass(&mut node, 2).await;
        // Another life, which has seen none of this.
        let mut node = world.node(2);
        world.fall(100, "down").await;
        world.pass(&mut node, 2).await;
        assert_eq!(world.told().await, [], "{name}: it is not time yet");
        world.pass(&mut node, 1).await;
        assert_eq!(world.told().await, [of("administrator", 300)], "{name}");
        world.pass(&mut node, 1).await;
        world.fall(7, "down").await;
        world.pass(&mut world.node(3), 13).await;
        assert_eq!(world.told().await.len(), 1, "{name}: the second gathers for a quarter of an hour");
        world.pass(&mut world.node(4), 1).await;
        assert_eq!(world.told().await, [of("administrator", 300), of("administrator", 7)], "{name}");
        let cause = &world.letters().await[0]["causes"][0];
        assert_eq!(
            (&cause["category"], &cause["text"]),
            (&json!("down"), &json!("550 user unknown")),
            "{name}"
        );
        world.pass(&mut world.node(5), 200).await;
        assert_eq!(world.told().await.len(), 2, "{name}: nothing more came");
    }
}

#[tokio::test] // REQ DL-5
async fn of_two_nodes_that_look_at_once_each_letter_is_told_once() {
    for (name, store, clock, _place) in every_store() {
        let world = World::on(store, clock);
        let (mut one, mut two) = (world.node(1), world.node(2));
        let mut fell = 0;
        for minute in 0..30 {
            if minute > 0 && minute < 20 {
                world.fall(3, "down").await;
                fell += 3;
            }
            world.clock.pass(MINUTE);
            for _ in 0..3 {
                // Whoever loses begins anew, as it would by itself.
                for (node, done) in
                    [tokio::join!(one.round(), two.round())].into_iter().flat_map(|(a, b)| [(1, a), (2, b)])
                {
                    match done {
                        Ok(_) => {}
                        Err(StoreError::Again(_)) if node == 1 => one.forget(),
                        Err(StoreError::Again(_)) => two.forget(),
                        Err(error) => panic!("{name}: {error}"),
                    }
                }
            }
        }
        let told = world.told().await;
        assert_eq!(told.iter().map(|(_, count)| count).sum::<u64>(), fell, "{name}: {told:?}");
        assert_eq!(told.len(), 2, "{name}: {told:?}");
    }
}

#[tokio::test] // REQ DL-5
async fn a_digest_that_was_made_is_told_though_its_maker_is_gone() {
    let world = World::new();
    let mut node = world.node(1);
    world.rounds(&mut node).await;
    world.fall(5, "down").await;
    world.rounds(&mut node).await;
    world.clock.pass(Span::from_mins(6));
    // It writes down that a digest is owed, and gets no further.
    let (version, mut gathered) = node.gathered().await.unwrap();
    step(&mut gathered, &world.setup.borrow().alerts.teams, world.clock.now());
    assert_eq!(gathered.owed.len(), 1);
    assert!(node.keep(version, gathered).await.unwrap());
    drop(node);
    assert_eq!(world.told().await, []);
    world.rounds(&mut world.node(2)).await;
    assert_eq!(world.told().await, [of("administrator", 5)]);
    world.rounds(&mut world.node(3)).await;
    assert_eq!(world.told().await.len(), 1);
}

#[tokio::test]
async fn somebody_who_follows_with_what_was_changed_since_changes_nothing() {
    let world = World::new();
    let mut one = world.node(1);
    world.rounds(&mut one).await;
    world.fall(5, "down").await;
    world.rounds(&mut one).await;
    // Its lease has ended and another took over, of which it knows nothing.
    let stale = one.gathered.clone();
    world.clock.pass(Span::from_secs(10));
    world.fall(2, "down").await;
    world.rounds(&mut world.node(2)).await;
    one.gathered = stale;
    world.rounds(&mut one).await;
    world.pass(&mut one, 6).await;
    assert_eq!(world.told().await, [of("administrator", 7)]);
}

#[tokio::test] // REQ DL-5
async fn decisions_about_claims_reach_billing_and_registration() {
    let world = World::new();
    let mut node = world.node(1);
    world.rounds(&mut node).await;
    for (claim, error, count) in [
        ("CLM-001-1", "INVALID_PATIENT_DATA - CPF 123.456.789-09 inválido", 0),
        ("CLM-001-2", "TIMEOUT - no answer", 9),
        ("CLM-001-3", "TIMEOUT - no answer", 0),
    ] {
        let asked = pombo_kernel::decision::Asked {
            claim_id: Some(claim.into()),
            submission_error: Some(error.into()),
            retry_count: Some(count.into()),
            last_submission_time: None,
        };
        let question = pombo_kernel::decision::Question::read(asked).unwrap();
        let policy = world.setup.borrow().claims.clone();
        let mut dice = Dice::seeded(1);
        let decision =
            pombo_kernel::decision::decide(&question, count, &policy, world.clock.now(), &mut dice);
        let event = match decision.code {
            None => Event::RetryDecided,
            Some(pombo_kernel::decision::Never::MaxRetriesExceeded) => Event::RetriesExhausted,
            Some(pombo_kernel::decision::Never::PermanentError) => Event::PermanentErrorFound,
        };
        let (tenant, by) = (Tenant::default(), pombo_kernel::message::Actor("billing".into()));
        let detail = decision.event(world.clock.now());
        let record = pombo_store::transition::act_of(event, &tenant, &by, &detail, world.clock.now());
        let (shelf, id, expect) = (Shelf::Decision, claim.to_owned(), Expect::Nothing);
        let body = serde_json::to_string(&decision).unwrap();
        let leaf = Some(Leaf { order: 0, topic: None, due: None, body });
        let wish = Shelve { shelf, tenant, id, expect, leaf, record: Some(record) };
        world.store.shelve(vec![wish]).await.unwrap();
    }
    world.pass(&mut node, 6).await;
    let mut told = world.told().await;
    told.sort();
    assert_eq!(told, [of("billing", 1), of("registration", 1)]);
    let letters = world.letters().await;
    assert!(letters.iter().all(|letter| !letter.to_string().contains("456")), "{letters:?}");
}

#[tokio::test]
async fn what_becomes_of_notices_is_told_to_no_team() {
    let world = World::new();
    let mut node = world.node(1);
    world.rounds(&mut node).await;
    world.store.accept(vec![draft(NOTICES, "mail"), draft(EVENTS, "mail")]).await.unwrap();
    assert_eq!(end_all(&*world.store, NOTICES, Some("gone"), world.clock.now()).await.len(), 1);
    world.pass(&mut node, 6).await;
    assert_eq!(world.told().await, []);
    assert_eq!(end_all(&*world.store, EVENTS, Some("gone"), world.clock.now()).await.len(), 1);
    world.pass(&mut node, 6).await;
    assert_eq!(
        world.told().await,
        [of("administrator", 1)],
        "an event for a webhook is somebody's to look after"
    );
}

#[tokio::test]
async fn while_nobody_is_to_be_told_nothing_is_gathered_and_nothing_of_it_told_later() {
    let world = World::new();
    let mut node = world.node(1);
    world.rounds(&mut node).await;
    world.fall(3, "down").await;
    world.rounds(&mut node).await;
    let nobody = "[channels.mail]\nkind = \"null\"\n";
    world.setup.send_replace(configured(nobody).borrow().clone());
    world.fall(4, "down").await;
    world.pass(&mut node, 10).await;
    let doc = world.store.doc(Shelf::Cursor, Tenant::default(), GATHERED.to_owned()).await.unwrap();
    assert_eq!(doc, None);
    world.setup.send_replace(configured(CONFIG).borrow().clone());
    world.rounds(&mut node).await;
    world.fall(5, "down").await;
    world.pass(&mut node, 6).await;
    assert_eq!(world.told().await, [of("administrator", 5)]);
}

#[tokio::test]
async fn while_nothing_falls_nothing_is_written() {
    let world = World::new();
    let mut node = world.node(1);
    world.rounds(&mut node).await;
    let version = || async {
        let doc = world.store.doc(Shelf::Cursor, Tenant::default(), GATHERED.to_owned()).await.unwrap();
        doc.unwrap().version
    };
    let before = version().await;
    for _ in 0..20 {
        world.store.accept(vec![draft("default", "mail")]).await.unwrap();
        end_all(&*world.store, "default", None, world.clock.now()).await;
        world.pass(&mut node, 1).await;
    }
    assert_eq!(version().await, before);
}
