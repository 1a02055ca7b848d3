//! What leaves, by virtual time.

use pombo_kernel::campaign::recipient::{Listed, Person};
use pombo_kernel::campaign::{Campaign, State};
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Draft, Idempotency};
use pombo_kernel::retention::KEYS_KEPT;
use pombo_store::Repeat;
use pombo_store::audit::Event;
use pombo_store::roster::{self, Enlist, Roster};

use super::*;
use crate::by_hand::{Hand, T0, configured, draft, end_all, every_store, model};

const HOUR: Span = Span::from_hours(1);
const DAY: Span = Span::from_hours(24);

const CONFIG: &str = "
    [channels.crm]
    kind = 'null'
    [channels.mail]
    kind = 'null'
    [channels.crm.retention]
    sent = '1h'
    failed = { last = 1 }
    [retention]
    campaigns = '1d'
    operations = '1d'
    decisions = '1826d'";

fn keeper(store: &Arc<dyn Store>, clock: &Arc<Hand>, config: &str, holder: u64) -> Work {
    Work::new(Arc::clone(store), configured(config).subscribe(), clock.clone(), holder)
}

/// Steps to the end of one walk over everything.
async fn walk(work: &mut Work) {
    work.walked = None;
    while work.walked.is_none() {
        work.round().await.unwrap();
    }
}

async fn accept(store: &Arc<dyn Store>, draft: Draft) -> MessageId {
    store.accept(vec![draft]).await.unwrap().remove(0).unwrap().id
}

async fn ended(store: &Arc<dyn Store>, clock: &Hand, channel: &str, failed: Option<&str>) -> MessageId {
    let id = accept(store, draft("default", channel)).await;
    end_all(&**store, "default", failed, clock.now()).await;
    id
}

async fn is_there(store: &Arc<dyn Store>, id: MessageId) -> bool {
    store.story(Tenant::default(), id).await.unwrap().is_some()
}

#[tokio::test] // REQ AU-2
async fn messages_go_as_the_configuration_says_and_the_rest_stays() {
    for (name, store, clock, _ground) in every_store() {
        let old = ended(&store, &clock, "crm", None).await;
        let dead =
            [ended(&store, &clock, "crm", Some("x")).await, ended(&store, &clock, "crm", Some("x")).await];
        let elsewhere = ended(&store, &clock, "mail", None).await;
        let waits = accept(&store, Draft { send_at: Some(T0 + DAY), ..draft("default", "crm") }).await;
        clock.pass(HOUR);
        let new = ended(&store, &clock, "crm", None).await;
        let mut work = keeper(&store, &clock, CONFIG, 1);
        walk(&mut work).await;
        let mut there = Vec::new();
        for id in [old, dead[0], dead[1], elsewhere, waits, new] {
            there.push(is_there(&store, id).await);
        }
        assert_eq!(there, [false, false, true, true, true, true], "{name}");
        assert_eq!(work.removed, [("crm.sent".to_owned(), 1), ("crm.failed".to_owned(), 1)].into(), "{name}");
        let records = store.audit(0, 1_000).await.unwrap();
        assert!(records.iter().any(|(_, record)| record.event == Event::Pruned), "{name}");
        assert_eq!(store.verify().await.unwrap().broken, None, "{name}");
    }
}

#[tokio::test] // REQ ML-10
async fn an_idempotency_key_goes_three_days_after_the_end_though_everything_is_kept() {
    for (name, store, clock, _ground) in every_store() {
        let once = || {
            let idempotency = Some(Idempotency { key: "k".into(), fingerprint: [1; 16] });
            Draft { idempotency, ..draft("default", "mail") }
        };
        let first = accept(&store, once()).await;
        end_all(&*store, "default", None, clock.now()).await;
        let mut work = keeper(&store, &clock, CONFIG, 1);
        clock.pass(DAY);
        walk(&mut work).await;
        let again = store.accept(vec![once()]).await.unwrap().remove(0).unwrap();
        assert_eq!((again.id, again.repeat), (first, Repeat::Same), "{name}");
        clock.pass(KEYS_KEPT);
        walk(&mut work).await;
        let other = store.accept(vec![once()]).await.unwrap().remove(0).unwrap();
        assert_eq!(other.repeat, Repeat::First, "{name}");
        assert!(is_there(&store, first).await, "{name}");
    }
}

async fn put(store: &Arc<dyn Store>, shelf: Shelf, id: &str, leaf: Leaf) {
    let (tenant, expect) = (Tenant::default(), Expect::Any);
    let wish = Shelve { shelf, tenant, id: id.to_owned(), expect, leaf: Some(leaf), record: None };
    store.shelve(vec![wish]).await.unwrap();
}

#[tokio::test] // REQ AU-2
async fn what_was_noted_of_operations_and_alerts_goes_once_it_is_over_and_decisions_stay_for_years() {
    let (store, clock) = model();
    let leaf = |order: i64, due| Leaf { order, topic: None, due, body: "{}".to_owned() };
    let made = T0.millis();
    for shelf in [Shelf::Operation, Shelf::Alert] {
        put(&store, shelf, "over", leaf(made, None)).await;
        put(&store, shelf, "goes-on", leaf(made, Some(T0))).await;
    }
    put(&store, Shelf::Decision, "decided", leaf(made * 1_000 + 3, None)).await;
    put(&store, Shelf::Suppression, "nobody", leaf(made, None)).await;
    let mut work = keeper(&store, &clock, CONFIG, 1);
    clock.pass(DAY);
    put(&store, Shelf::Operation, "late", leaf(made, None)).await;
    walk(&mut work).await;
    let ids = async |shelf| {
        let pick = pombo_store::shelf::Pick::All { after: None };
        let wanted = pombo_store::shelf::Wanted { shelf, tenant: None, pick, limit: 10 };
        let mut ids: Vec<String> = store.docs(wanted).await.unwrap().into_iter().map(|doc| doc.id).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(Shelf::Operation).await, ["goes-on", "late"]);
    assert_eq!(ids(Shelf::Alert).await, ["goes-on"]);
    assert_eq!((ids(Shelf::Decision).await.len(), ids(Shelf::Suppression).await.len()), (1, 1));
    clock.pass(Span::from_hours(1_826 * 24));
    walk(&mut work).await;
    assert_eq!((ids(Shelf::Decision).await.len(), ids(Shelf::Suppression).await.len()), (0, 1));
}

#[tokio::test] // REQ AU-2
async fn a_campaign_that_is_over_goes_with_its_list_also_if_somebody_died_in_between() {
    for (name, store, clock, _ground) in every_store() {
        let text = r#"{"name": "Spring", "channel": "crm", "lane": "default", "template": "spring",
            "template_version": 1, "created_at": "2026-05-01T12:00:00Z", "created_by": "ana", "state": "draft"}"#;
        let made: Campaign = serde_json::from_str(text).unwrap();
        let list: CampaignName = "cmp_one".parse().unwrap();
        put(&store, Shelf::Campaign, "cmp_one", roster::leaf(&made)).await;
        put(&store, Shelf::Campaign, "cmp_two", roster::leaf(&made)).await;
        let person = |nth: u64| {
            let (to, key) = (format!("person {nth}"), format!("p{nth}"));
            Listed { line: nth, of: Ok(Person { to, key, payload: None }) }
        };
        let lines = (1..=300).map(person).collect();
        let wish = Enlist { tenant: Tenant::default(), campaign: list.clone(), lines, by: Actor::engine() };
        store.enlist(wish).await.unwrap().unwrap();
        let doc = store.doc(Shelf::Campaign, Tenant::default(), "cmp_one".to_owned()).await.unwrap().unwrap();
        let mut over = roster::read(&doc).unwrap();
        over.state = State::Cancelled { finished_at: clock.now(), by: Actor::engine() };
        over.roll.pending = 0;
        put(&store, Shelf::Campaign, "cmp_one", roster::leaf(&over)).await;
        clock.pass(DAY);
        let gone = async || {
            store.doc(Shelf::Campaign, Tenant::default(), "cmp_one".to_owned()).await.unwrap().is_none()
        };
        let mut dies = keeper(&store, &clock, CONFIG, 1);
        while !gone().await {
            dies.round().await.unwrap();
        }
        clock.pass(LEASE);
        let mut next = keeper(&store, &clock, CONFIG, 2);
        walk(&mut next).await;
        let roster = Roster {
            tenant: Tenant::default(),
            campaign: list.clone(),
            standing: None,
            after: 0,
            limit: 1_000,
        };
        assert_eq!(store.recipients(roster).await.unwrap(), [], "{name}");
        assert_eq!(next.removed.get("recipients"), Some(&300), "{name}");
        let other = store.doc(Shelf::Campaign, Tenant::default(), "cmp_two".to_owned()).await.unwrap();
        assert!(other.is_some(), "{name}: one that was never over stays");
    }
}

#[tokio::test]
async fn one_node_does_it_for_all_until_its_lease_ends() {
    let (store, clock) = model();
    let [mut one, mut two] = [1, 2].map(|holder| keeper(&store, &clock, CONFIG, holder));
    one.round().await.unwrap();
    assert!(one.lease.is_some());
    assert_eq!(two.round().await.unwrap(), LEASE.to_std());
    assert!(two.lease.is_none());
    clock.pass(LEASE);
    two.round().await.unwrap();
    assert!(two.lease.is_some());
    one.round().await.unwrap();
    assert!(one.lease.is_none(), "whoever comes back later leaves it to the other");
}

#[test]
fn a_store_that_is_slow_is_left_alone_for_longer_each_time() {
    let mut pace = Pace::default();
    let (quick, slow) = (Duration::from_millis(5), Duration::from_millis(51));
    assert_eq!(pace.after(quick, true), REST);
    assert_eq!(pace.after(slow, true), REST * 2);
    assert_eq!(pace.after(slow, false), REST * 4);
    for _ in 0..10 {
        pace.after(slow, true);
    }
    assert_eq!(pace.after(slow, true), REST_MAX);
    assert_eq!(pace.after(quick, true), REST_MAX / 2);
    assert_eq!(pace.after(quick, false), NOTHING, "a look that found nothing");
}

#[tokio::test]
async fn while_nothing_happens_nothing_is_written() {
    let (store, clock) = model();
    let mut work = keeper(&store, &clock, CONFIG, 1);
    walk(&mut work).await;
    let version = work.lease.as_ref().unwrap().0;
    clock.pass(LEASE);
    assert_eq!(work.round().await.unwrap(), WALK_EVERY);
    assert_eq!(work.lease.as_ref().unwrap().0, version);
    clock.pass(IDLE);
    work.round().await.unwrap();
    assert!(work.lease.as_ref().unwrap().0 > version);
}
