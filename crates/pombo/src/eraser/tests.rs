//! Whole erasures, on every store, by hand.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pombo_kernel::dice::Dice;
use pombo_kernel::id::MessageKey;
use pombo_kernel::message::{Body, Draft, Json, QueueName};
use pombo_kernel::name::Tenant;
use pombo_kernel::operation::{Kind, Stage, State};
use pombo_kernel::suppression::{Family, Reason};
use pombo_kernel::time::{Span, Time};
use pombo_store::shell::Shell;
use pombo_store::sqlite::Sqlite;
use pombo_web::event;
use tokio::sync::watch;

use super::*;
use crate::by_hand::{Hand, T0, configured, draft, end_all, every_store, model};

const PHONE: &str = "+5511987654321";

fn setup() -> watch::Sender<Arc<Setup>> {
    configured(
        "[channels.zap]\nkind = 'evolution'\nbase_url = 'http://a.example'\ninstance = 'one'\n\
         [channels.crm]\nkind = 'webhook'\n\
         [channels.claims]\nkind = 'tiss'\n",
    )
}

fn to(channel: &str, to: &str, payload: &str) -> Draft {
    let payload = Json::from_text(payload.to_owned()).ok();
    Draft { body: Body { to: to.to_owned(), payload, ..Body::default() }, ..draft("default", channel) }
}

async fn accept(store: &dyn Store, draft: Draft) -> MessageId {
    store.accept(vec![draft]).await.unwrap().remove(0).unwrap().id
}

/// Something of the person everywhere, and something of others: the ids of the person's own.
async fn planted(store: &dyn Store, now: Time) -> Vec<MessageId> {
    let own = accept(store, to("zap", "11 98765-4321", r#"{"name": "Ana"}"#)).await;
    let told = event::Told {
        data: serde_json::Map::from_iter([
            ("id".to_owned(), own.to_string().into()),
            ("user_id".to_owned(), "ana".into()),
        ]),
        ..event::test("whk_1", now)
    };
    let told = event::Told { position: Some(5), ..told };
    let told = accept(store, event::delivery(&Tenant::default(), "whk_1", &told)).await;
    accept(store, to("zap", "+5511987654322", r#"{"name": "Rui"}"#)).await;
    accept(store, to("crm", "https://crm.example", r#"{"phone": "+55 (11) 98765-4321"}"#)).await;
    accept(store, to("claims", "123456", r#"{"phone": "11987654321"}"#)).await;
    let waiting = Draft { send_at: Some(now + Span::from_hours(9)), ..to("zap", PHONE, "{}") };
    let waiting = accept(store, waiting).await;
    let entry = Suppression {
        id: "sup_1".to_owned(),
        kind: Family::Whatsapp,
        recipient: PHONE.to_owned(),
        reason: Reason::OptOut,
        source: Some("ana called from 11987654321".to_owned()),
        note: Some("Ana".to_owned()),
        created_at: now,
        created_by: "rui".to_owned(),
    };
    let other = Operation {
        filter: [("recipient".to_owned(), "(11) 98765-4321".to_owned())].into(),
        state: State::Done { finished_at: now },
        ..Operation::new(Kind::Discard, Stage::Rest, Actor("rui".to_owned()), now)
    };
    let wishes = vec![
        suppression::put(&Tenant::default(), &entry),
        operation::begin(&Tenant::default(), "opr_other".to_owned(), &other),
    ];
    store.shelve(wishes).await.unwrap();
    vec![own, told, waiting]
}

/// Writes an erasure down, as a door does.
async fn begun(store: &dyn Store, now: Time, change: impl FnOnce(&mut Erasure)) -> (Doc, Operation) {
    let tenant = Tenant::default();
    let mut erasure =
        Erasure::new(tenant.clone(), store.pseudonyms().person(&tenant, PHONE).unwrap(), false, false);
    change(&mut erasure);
    let erasure = Some(Box::new(erasure));
    let wanted =
        Operation { erasure, ..Operation::new(Kind::Erase, Stage::Erasing, Actor("rui".to_owned()), now) };
    store.shelve(vec![operation::begin(&tenant, "opr_1".to_owned(), &wanted)]).await.unwrap();
    at(store).await
}

async fn at(store: &dyn Store) -> (Doc, Operation) {
    let doc = store.doc(Shelf::Operation, Tenant::default(), "opr_1".to_owned()).await.unwrap().unwrap();
    let operation = operation::read(&doc).unwrap();
    (doc, operation)
}

async fn eraser(store: &Arc<dyn Store>, clock: &Arc<Hand>) -> Eraser {
    let (doc, operation) = at(&**store).await;
    let setup = setup().borrow().clone();
    Eraser::take_up(Arc::clone(store), Arc::<Hand>::clone(clock), &setup, Some(doc), operation).unwrap()
}

async fn erased(store: &Arc<dyn Store>, clock: &Arc<Hand>) -> Erasure {
    assert_eq!(eraser(store, clock).await.run(&mut |_| {}).await.unwrap(), Stopped::Done);
    let (doc, operation) = at(&**store).await;
    assert!(matches!(operation.state, State::Done { .. }) && doc.leaf.due.is_none());
    *operation.erasure.unwrap()
}

async fn gone(store: &dyn Store, id: MessageId) -> bool {
    store.story(Tenant::default(), id).await.unwrap().is_none()
}

#[tokio::test] // REQ AU-3
async fn everything_of_a_person_goes_claims_and_others_stay_and_it_is_told() {
    for (name, store, clock, _home) in every_store() {
        let own = planted(&*store, T0).await;
        begun(&*store, T0, |_| {}).await;
        let erasure = erased(&store, &clock).await;
        let expected = Counts {
            messages: 3,
            cancelled: 3,
            events: 1,
            suppressions: 1,
            operations: 1,
            ..Counts::default()
        };
        assert_eq!(erasure.counts, expected, "{name}");
        for id in own {
            assert!(gone(&*store, id).await, "{name}: {id}");
        }
        let page = store.page(Filter::default(), None, 100).await.unwrap();
        let mut channels: Vec<_> =
            page.lines.iter().map(|line| line.message.queue.channel.to_string()).collect();
        channels.sort();
        assert_eq!(channels, ["claims", "crm", "zap"], "{name}");
        assert_eq!((erasure.named, erasure.spared_count), (1, 1), "{name}");
        let spared = &erasure.spared[0];
        assert_eq!(
            (spared.channel.as_str(), spared.until),
            ("claims", spared.id.key().time() + Span::from_hours(24 * 1_826))
        );
        assert!(spared.why.contains("LGPD, art. 16, I"), "{}", spared.why);
        // Whoever opted out stays so, and nothing says who it is.
        let kind = ChannelKind::Evolution;
        let entry = suppression::of(&*store, &Tenant::default(), kind, PHONE).await.unwrap().unwrap();
        assert_eq!((entry.reason, entry.recipient.as_str()), (Reason::OptOut, ERASED), "{name}");
        for shelf in [Shelf::Suppression, Shelf::Operation] {
            let pick = Pick::All { after: None };
            let wanted = Wanted { shelf, tenant: Some(Tenant::default()), pick, limit: 100 };
            let docs = store.docs(wanted).await.unwrap();
            let said: String = docs.iter().map(|doc| format!("{} {}", doc.id, doc.leaf.body)).collect();
            let plain = suppression::place(Family::Whatsapp, PHONE);
            for canary in ["98765", "8765-4321", "Ana", "ana called", &plain] {
                assert!(!said.contains(canary), "{name}: {canary} in {said}");
            }
        }
        let audit = store.audit(0, 1_000).await.unwrap();
        let record = audit.iter().map(|(_, it)| it).find(|it| it.event == Event::Erased).unwrap();
        let detail: serde_json::Value = serde_json::from_str(&record.detail).unwrap();
        assert_eq!(detail["person"], erasure.person.hash);
        assert_eq!(
            (&detail["messages"], &detail["spared"], record.actor.as_str()),
            (&json!(3), &json!(1), "rui")
        );
        assert!(audit.iter().all(|(_, it)| !it.detail.contains("98765")), "{name}");
        assert_eq!(store.verify().await.unwrap().broken, None, "{name}");
        store.close().await.unwrap();
    }
}

/// A clock by which a second passes at each look, once it is told that reading takes so long.
#[derive(Debug, Default)]
struct Slow {
    passed_s: AtomicU64,
    is_slow: AtomicBool,
}

impl Clock for Slow {
    fn now(&self) -> Time {
        T0
    }

    fn elapsed(&self) -> Duration {
        let step_s = u64::from(self.is_slow.load(Ordering::SeqCst));
        Duration::from_secs(self.passed_s.fetch_add(step_s, Ordering::SeqCst))
    }
}

#[tokio::test] // REQ AU-3, RELIABILITY 38
async fn where_much_takes_too_long_to_read_it_reads_less_at_a_time_and_leaves_nothing_out() {
    let (folder, slow) = (tempfile::tempdir().unwrap(), Arc::new(Slow::default()));
    let core = Sqlite::open(folder.path(), Dice::seeded(1), &[7; 32]).unwrap();
    let shell = Shell::start(core, slow.clone(), Box::new(|| [7; 32])).unwrap();
    let store: Arc<dyn Store> = Arc::new(shell);
    let others = (0..2 * LOOK).map(|_| to("zap", "+5511987654322", "{}"));
    store.accept(others.collect()).await.unwrap();
    let own = planted(&*store, T0).await;
    begun(&*store, T0, |_| {}).await;
    let (_, clock) = model();
    let mut eraser = eraser(&store, &clock).await;
    slow.is_slow.store(true, Ordering::SeqCst);
    while eraser.erasure.step != Step::Done {
        let record = eraser.piece().await.unwrap();
        assert!(eraser.save(record).await.unwrap());
    }
    slow.is_slow.store(false, Ordering::SeqCst);
    assert!((1..LOOK).contains(&eraser.look), "{}", eraser.look);
    for id in own {
        assert!(gone(&*store, id).await, "{id}");
    }
    store.close().await.unwrap();
}

#[tokio::test] // REQ AU-3
async fn whoever_goes_on_after_a_death_leaves_nothing_out_wherever_it_was() {
    // So many pieces are done before the process dies, with and without a word of the last one.
    for pieces in 0..9 {
        for told in [true, false] {
            let (store, clock) = model();
            let own = planted(&*store, T0).await;
            begun(&*store, T0, |_| {}).await;
            let mut first = eraser(&store, &clock).await;
            assert!(first.save(None).await.unwrap());
            for nth in 0..pieces {
                let record = first.piece().await.unwrap();
                if told || nth + 1 < pieces {
                    assert!(first.save(record).await.unwrap());
                }
            }
            drop(first);
            clock.pass(Span::from_mins(1));
            if at(&*store).await.1.is_running() {
                let erasure = erased(&store, &clock).await;
                assert_eq!(erasure.step, Step::Done);
            }
            for id in own {
                assert!(gone(&*store, id).await, "{pieces} pieces: {id}");
            }
            let audit = store.audit(0, 1_000).await.unwrap();
            let records = audit.iter().filter(|(_, it)| it.event == Event::Erased).count();
            assert_eq!(records, 1, "{pieces} pieces");
            let kind = ChannelKind::Evolution;
            assert!(suppression::of(&*store, &Tenant::default(), kind, PHONE).await.unwrap().is_some());
        }
    }
}

#[tokio::test]
async fn a_dry_run_tells_the_same_and_changes_nothing() {
    for (name, store, clock, _home) in every_store() {
        planted(&*store, T0).await;
        let before = store.audit(0, 1_000).await.unwrap();
        begun(&*store, T0, |erasure| erasure.dry_run = true).await;
        let erasure = erased(&store, &clock).await;
        let expected = Counts { messages: 3, events: 1, suppressions: 1, operations: 1, ..Counts::default() };
        assert_eq!(erasure.counts, expected, "{name}");
        assert_eq!((erasure.named, erasure.spared_count), (1, 1), "{name}");
        let after = store.audit(0, 1_000).await.unwrap();
        let events: Vec<Event> = after[before.len()..].iter().map(|(_, it)| it.event).collect();
        assert_eq!(events, [Event::OperationStarted, Event::OperationEnded], "{name}");
        assert_eq!(store.page(Filter::default(), None, 100).await.unwrap().lines.len(), 6, "{name}");
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn messages_to_others_that_name_the_address_go_if_that_is_wished_and_claims_do_not() {
    let (store, clock) = model();
    planted(&*store, T0).await;
    begun(&*store, T0, |erasure| erasure.mentions = true).await;
    let erasure = erased(&store, &clock).await;
    assert_eq!((erasure.counts.messages, erasure.named, erasure.spared_count), (4, 0, 1));
}

#[tokio::test] // REQ AU-2, AU-3
async fn what_may_be_a_claim_is_spared_when_its_channel_is_not_set_up_any_more() {
    let (store, clock) = model();
    let id = accept(&*store, to("old_claims", PHONE, "{}")).await;
    begun(&*store, clock.now(), |erasure| erasure.mentions = true).await;
    let erasure = erased(&store, &clock).await;
    assert_eq!((erasure.counts.messages, erasure.spared_count), (0, 1));
    assert!(erasure.spared[0].why.contains("not set up any more") && !gone(&*store, id).await);
}

#[tokio::test]
async fn a_claim_is_erased_after_five_years() {
    let (store, clock) = model();
    let id = accept(&*store, to("claims", "123456", r#"{"phone": "11987654321"}"#)).await;
    clock.pass(Span::from_hours(24 * 1_826 + 1));
    begun(&*store, clock.now(), |erasure| erasure.mentions = true).await;
    let erasure = erased(&store, &clock).await;
    assert_eq!((erasure.counts.messages, erasure.spared_count), (1, 0));
    assert!(gone(&*store, id).await);
}

#[tokio::test] // REQ AU-3
async fn what_is_being_sent_is_waited_for() {
    for (name, store, clock, _home) in every_store() {
        let id = accept(&*store, to("zap", PHONE, "{}")).await;
        let ask = pombo_store::Ask {
            node: pombo_store::NodeId(1),
            lane: "default".parse().unwrap(),
            max: 1,
            rates: Arc::default(),
        };
        store.heartbeat(pombo_store::NodeId(1), T0 + Span::from_mins(1)).await.unwrap();
        let claimed = store.claim(ask).await.unwrap().remove(0);
        begun(&*store, T0, |_| {}).await;
        let mut eraser = eraser(&store, &clock).await;
        while eraser.erasure.step != Step::Wait {
            eraser.piece().await.unwrap();
        }
        assert!(!gone(&*store, id).await, "{name}");
        assert_eq!(eraser.erasure.waiting.len(), 1, "{name}");
        store.release(vec![claimed.key]).await.unwrap();
        eraser.piece().await.unwrap();
        assert_eq!(eraser.erasure.step, Step::Record, "{name}");
        assert_eq!((eraser.erasure.counts.messages, eraser.erasure.counts.cancelled), (1, 1), "{name}");
        assert!(gone(&*store, id).await, "{name}");
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn what_comes_while_it_looks_is_found_though_its_key_is_older() {
    let (store, clock) = model();
    begun(&*store, T0, |_| {}).await;
    let mut eraser = eraser(&store, &clock).await;
    while !matches!(eraser.erasure.step, Step::SearchAgain(_)) {
        eraser.piece().await.unwrap();
    }
    let key = MessageKey::at(T0 - Span::from_mins(10));
    let late = Draft { id: Some(MessageId::new(key, 5)), ..to("zap", PHONE, "{}") };
    let late = accept(&*store, late).await;
    assert_eq!(eraser.run(&mut |_| {}).await.unwrap(), Stopped::Done);
    assert!(gone(&*store, late).await);
}

#[tokio::test]
async fn one_that_somebody_cancelled_stops() {
    let (store, clock) = model();
    planted(&*store, T0).await;
    let (doc, operation) = begun(&*store, T0, |_| {}).await;
    let eraser = eraser(&store, &clock).await;
    let by = Actor("rui".to_owned());
    let cancelled = operation.cancelled(by.clone(), T0);
    store.shelve(vec![operation::change(&doc, &cancelled, &by, T0)]).await.unwrap();
    assert_eq!(eraser.run(&mut |_| {}).await.unwrap(), Stopped::Elsewhere);
    assert_eq!(store.page(Filter::default(), None, 100).await.unwrap().lines.len(), 6);
    assert_eq!(end_all(&*store, "default", None, T0).await.len(), 4, "and everything else goes on");
}

#[tokio::test]
async fn another_tenant_is_left_alone() {
    let (store, clock) = model();
    let other: Tenant = "other".parse().unwrap();
    let theirs = to("zap", PHONE, "{}");
    let theirs = Draft { queue: QueueName { tenant: other.clone(), ..theirs.queue.clone() }, ..theirs };
    let theirs = accept(&*store, theirs).await;
    begun(&*store, T0, |_| {}).await;
    let erasure = erased(&store, &clock).await;
    assert_eq!(erasure.counts, Counts::default());
    assert!(store.story(other, theirs).await.unwrap().is_some());
}
