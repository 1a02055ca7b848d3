//! The thread around a core: groups, waiting claims, too much work, and a store that fails for a while.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pombo_kernel::block::{Block, BlockChange};
use pombo_kernel::delivery::Report;
use pombo_kernel::dice::Dice;
use pombo_kernel::erasure::Pseudonyms;
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{
    Actor, Attempt, AttemptOutcome, Body, ClaimKey, Draft, Json, Priority, Progress, QueueName,
};
use pombo_kernel::name::{CampaignName, ChannelName, LaneName, TemplateName, Tenant};
use pombo_kernel::reply::Receipt;
use pombo_kernel::template::Template;
use pombo_kernel::time::{Clock, Time};
use pombo_store::core::{Core, Reading as _};
use pombo_store::dead::{Edit, Edited, Hastened, Ruling, Verdicts};
use pombo_store::erase::{Erase, Erased};
use pombo_store::prune::{Lapsed, Prune, Pruned, Ripe};
use pombo_store::roster::{Enlist, Enlisted, Feed, NotDone};
use pombo_store::shelf::{Shelve, Shelved};
use pombo_store::shell::Shell;
use pombo_store::sqlite::Sqlite;
use pombo_store::{
    Accepted, Ask, Cancelled, Claimed, Conflict, Filter, Finding, NodeId, Pause, Place, Put, Reported,
    Settled, Settlement, Store, StoreError,
};

#[derive(Debug)]
struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Time {
        Time::from_millis(self.0.load(Ordering::SeqCst))
    }
}

fn draft(lane: &str, send_at: Option<i64>, bytes: usize) -> Draft {
    Draft {
        id: None,
        queue: QueueName {
            tenant: Tenant::default(),
            lane: lane.parse().unwrap(),
            channel: "crm".parse().unwrap(),
            destination: "host".into(),
            campaign: None,
        },
        priority: Priority::default(),
        send_at: send_at.map(Time::from_millis),
        expires_at: None,
        ordering_key: None,
        idempotency: None,
        blobs: Vec::new(),
        body: Body {
            to: "http://host/".into(),
            content: Some(Json::from_text(format!("\"{}\"", "x".repeat(bytes))).unwrap()),
            ..Body::default()
        },
    }
}

const START: i64 = 1_800_000_000_000;

fn open(folder: &std::path::Path) -> (Arc<dyn Store>, Arc<TestClock>) {
    let clock = Arc::new(TestClock(AtomicI64::new(START)));
    let core = Sqlite::open(folder, Dice::seeded(7), &[7; 32]).unwrap();
    let store = Shell::start(core, clock.clone(), Box::new(|| [7; 32])).unwrap();
    (Arc::new(store), clock)
}

fn ask(lane: &str, max: usize) -> Ask {
    Ask { node: NodeId(1), lane: lane.parse().unwrap(), max, rates: Default::default() }
}

#[tokio::test] // REQ ML-2
async fn a_waiting_claim_is_served_by_the_commit_that_brings_it_something() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let (claimed, accepted) =
        tokio::join!(store.claim(ask("default", 5)), store.accept(vec![draft("default", None, 1)]));
    let id = accepted.unwrap()[0].as_ref().unwrap().id;
    assert_eq!(claimed.unwrap().iter().map(|claimed| claimed.message.id).collect::<Vec<_>>(), [id]);
}

#[tokio::test] // REQ ML-6
async fn a_waiting_claim_is_served_when_the_time_has_come() {
    let folder = tempfile::tempdir().unwrap();
    let (store, clock) = open(folder.path());
    store.accept(vec![draft("default", Some(START + 60_000), 1)]).await.unwrap();
    let waiting = {
        let store = store.clone();
        tokio::spawn(async move { store.claim(ask("default", 5)).await })
    };
    clock.0.store(START + 60_000, Ordering::SeqCst);
    let claimed = tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(claimed.len(), 1);
}

#[tokio::test]
async fn stopping_a_nodes_claims_answers_them_with_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let waiting = {
        let store = store.clone();
        tokio::spawn(async move { store.claim(ask("default", 5)).await })
    };
    while !waiting.is_finished() {
        store.stop_claims(NodeId(1)).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(waiting.await.unwrap().unwrap(), []);
}

fn sent(claimed: &Claimed) -> Settlement {
    let at = Time::from_millis(START);
    let attempt = Attempt {
        round: 0,
        number: 1,
        started_at: at,
        finished_at: at,
        outcome: AttemptOutcome::Sent,
        failure: None,
        next_delay: None,
        explanation: String::new(),
        policy: None,
    };
    Settlement {
        key: claimed.key,
        attempt,
        next: Next::Sent(Receipt::default()),
        progress: Progress { attempts: 1, steps: 1, ..Progress::default() },
        block: BlockChange::Keep,
        vitals: Default::default(),
        reported: false,
        chance: 0,
    }
}

#[tokio::test] // invariant 13
async fn a_result_and_what_takes_its_place_share_a_commit() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    store.accept((0..3).map(|_| draft("default", None, 1)).collect()).await.unwrap();
    let first = store.claim(ask("default", 1)).await.unwrap();
    let before = store.chain(0, usize::MAX).await.unwrap().len();

    let asks = vec![ask("default", 1), ask("bulk", 1)];
    let turned = store.turn_over(vec![sent(&first[0])], asks).await.unwrap();
    assert_eq!(turned.settled, [Settled::Done]);
    let next: Vec<_> = turned.claimed.iter().map(|claimed| claimed.progress.attempts).collect();
    assert_eq!(next, [0], "as many as were asked for, and nothing waits for a lane where nothing is due");
    assert_eq!(store.chain(0, usize::MAX).await.unwrap().len(), before + 1);

    store.stop_claims(NodeId(1)).await.unwrap();
    let last = store.turn_over(vec![sent(&turned.claimed[0])], vec![ask("default", 1)]).await.unwrap();
    assert_eq!((last.settled, last.claimed), (vec![Settled::Done], Vec::new()), "it wants no more work");
}

#[tokio::test]
async fn nobody_waits_for_producers_who_do_not_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    for _ in 0..20 {
        let some = (0..16).map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.accept(vec![draft("default", None, 100)]).await.unwrap().len() })
        });
        for producer in some.collect::<Vec<_>>() {
            assert_eq!(producer.await.unwrap(), 1);
        }
        // The clock stands still, so a wait that asked it alone would never end.
        let alone =
            tokio::time::timeout(Duration::from_secs(20), store.accept(vec![draft("default", None, 1)]));
        assert_eq!(alone.await.unwrap().unwrap().len(), 1);
    }
}

#[test] // RELIABILITY: overload
fn producers_are_turned_away_before_memory_grows() {
    let folder = tempfile::tempdir().unwrap();
    let core = Sqlite::open(folder.path(), Dice::seeded(7), &[7; 32]).unwrap();
    let clock = Arc::new(TestClock(AtomicI64::new(START)));
    let (store, mut writer) = Shell::with_writer(core, clock, Box::new(|| [7; 32])).unwrap();
    let mut producers: Vec<_> =
        (0..400).map(|_| store.accept(vec![draft("default", None, 256 * 1024)])).collect();
    let context = &mut Context::from_waker(Waker::noop());
    let (mut accepted, mut turned_away) = (0, 0);
    while !producers.is_empty() {
        producers.retain_mut(|producer| match producer.as_mut().poll(context) {
            Poll::Pending => true,
            Poll::Ready(Ok(answers)) => {
                accepted += answers.len();
                false
            }
            Poll::Ready(Err(error)) => {
                assert_eq!(error, StoreError::Overloaded);
                turned_away += 1;
                false
            }
        });
        assert!(writer.turn());
    }
    assert!(turned_away > 0, "100 MB at once were all taken");
    let mut after = store.accept(vec![draft("default", None, 1)]);
    assert!(after.as_mut().poll(context).is_pending(), "room again");
    assert!(writer.turn());
    assert!(matches!(after.as_mut().poll(context), Poll::Ready(Ok(_))));
    drop((producers, after));
    drop((store, writer));
    let core = Sqlite::open(folder.path(), Dice::seeded(8), &[7; 32]).unwrap();
    let counted: u64 = core.reader().unwrap().tallies().unwrap().iter().map(|tally| tally.count).sum();
    assert_eq!(counted, accepted as u64 + 1, "what was refused left no trace");
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    store.accept(vec![draft("default", None, 1)]).await.unwrap();
    store.close().await.unwrap();
    assert_eq!(store.accept(vec![draft("default", None, 1)]).await, Err(StoreError::Closed));
    let (again, _) = open(folder.path());
    assert_eq!(again.tallies().await.unwrap()[0].count, 1);
}

#[test] // RELIABILITY: second process
fn a_second_opening_of_the_same_folder_is_refused_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let first = Sqlite::open(folder.path(), Dice::seeded(1), &[7; 32]).unwrap();
    let Err(StoreError::Unavailable(why)) = Sqlite::open(folder.path(), Dice::seeded(2), &[7; 32]) else {
        panic!("two writers on one file")
    };
    assert!(why.contains("another Pombo process"), "{why}");
    drop(first);
    Sqlite::open(folder.path(), Dice::seeded(3), &[7; 32]).unwrap();
}

#[tokio::test]
async fn a_store_that_serves_has_its_log_before_the_first_commit() {
    let folder = tempfile::tempdir().unwrap();
    let log = || std::fs::metadata(folder.path().join("pombo.db-wal")).map_or(0, |log| log.len());
    let core = Sqlite::open(folder.path(), Dice::seeded(1), &[7; 32]).unwrap();
    assert!(log() < 1 << 20, "whoever opens it by hand writes little");
    drop(core);
    let (store, _) = open(folder.path());
    let filled = log();
    assert!(filled > 16 << 20, "{filled}");
    store.accept(vec![draft("default", None, 10)]).await.unwrap();
    assert_eq!(log(), filled);
    store.close().await.unwrap();
    drop(store);
    let (_again, _) = open(folder.path());
    assert_eq!(log(), filled, "it is filled once");
}

#[cfg(unix)]
#[test]
fn nobody_else_can_look_into_a_new_folder() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let _store = Sqlite::open(&data, Dice::seeded(1), &[7; 32]).unwrap();
    assert_eq!(std::fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test] // RELIABILITY: an older binary refuses a newer schema
fn a_newer_schema_and_a_strangers_file_are_refused_unharmed() {
    let folder = tempfile::tempdir().unwrap();
    drop(Sqlite::open(folder.path(), Dice::seeded(1), &[7; 32]).unwrap());
    let file = folder.path().join("pombo.db");
    let db = rusqlite::Connection::open(&file).unwrap();
    db.pragma_update(None, "user_version", 999).unwrap();
    drop(db);
    let Err(StoreError::Unavailable(why)) = Sqlite::open(folder.path(), Dice::seeded(1), &[7; 32]) else {
        panic!()
    };
    assert!(why.contains("schema 999"), "{why}");

    let other = tempfile::tempdir().unwrap();
    let db = rusqlite::Connection::open(other.path().join("pombo.db")).unwrap();
    db.execute_batch("CREATE TABLE recipe (name TEXT)").unwrap();
    drop(db);
    let Err(StoreError::Unavailable(why)) = Sqlite::open(other.path(), Dice::seeded(1), &[7; 32]) else {
        panic!()
    };
    assert!(why.contains("some other program"), "{why}");
}

#[tokio::test] // RELIABILITY: disk full
async fn a_store_that_cannot_be_written_refuses_then_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let (store, clock) = open(folder.path());
    let before = store.accept(vec![draft("default", None, 1)]).await.unwrap();
    assert!(store.health().is_ok());
    // Another writer holds the file for longer than the store is willing to wait.
    let thief = rusqlite::Connection::open(folder.path().join("pombo.db")).unwrap();
    thief.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = store.accept(vec![draft("default", None, 1)]).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    assert!(store.health().is_err());
    thief.execute_batch("ROLLBACK").unwrap();
    let mut back = false;
    for _ in 0..100 {
        clock.0.fetch_add(5_000, Ordering::SeqCst);
        back = store.accept(vec![draft("default", None, 1)]).await.is_ok();
        if back {
            break;
        }
    }
    assert!(back && store.health().is_ok(), "it never came back");
    let first = before[0].as_ref().unwrap().id;
    assert!(store.story(Tenant::default(), first).await.unwrap().is_some());
    assert_eq!(store.verify().await.unwrap().broken, None);
}

/// A store that writes what it is told to and then says, when asked to, that it could not; or does not write it and
/// wants to be told once more.
#[derive(Debug)]
struct Unsure {
    core: Sqlite,
    next: Arc<AtomicBool>,
    anew: Arc<AtomicBool>,
}

impl Core for Unsure {
    type Reader = <Sqlite as Core>::Reader;

    fn pseudonyms(&self) -> Pseudonyms {
        self.core.pseudonyms()
    }
    fn erase(&mut self, wish: &Erase, now: Time) -> Result<Erased, StoreError> {
        self.core.erase(wish, now)
    }
    fn prune(&mut self, prune: &Prune, ripe: &Ripe, now: Time) -> Result<Pruned, StoreError> {
        self.core.prune(prune, ripe, now)
    }
    fn lapse(&mut self, after: Option<MessageKey>, max: usize, now: Time) -> Result<Lapsed, StoreError> {
        self.core.lapse(after, max, now)
    }

    fn accept(&mut self, draft: Draft, now: Time) -> Result<Result<Accepted, Conflict>, StoreError> {
        self.core.accept(draft, now)
    }
    fn claim(&mut self, ask: &Ask, now: Time) -> Result<Vec<Claimed>, StoreError> {
        self.core.claim(ask, now)
    }
    fn heartbeat(&mut self, node: NodeId, lease_until: Time) -> Result<(), StoreError> {
        self.core.heartbeat(node, lease_until)
    }
    fn take_over(&mut self, node: NodeId, max: usize, now: Time) -> Result<Vec<Claimed>, StoreError> {
        self.core.take_over(node, max, now)
    }
    fn disown(&mut self, key: ClaimKey) {
        self.core.disown(key);
    }
    fn settle(&mut self, settlement: Settlement, now: Time) -> Result<Settled, StoreError> {
        self.core.settle(settlement, now)
    }
    fn release(&mut self, key: ClaimKey, now: Time) -> Result<Settled, StoreError> {
        self.core.release(key, now)
    }
    fn report(&mut self, channel: &ChannelName, report: &Report, now: Time) -> Result<Reported, StoreError> {
        self.core.report(channel, report, now)
    }
    fn leave_out(&mut self, key: ClaimKey, reason: &str, now: Time) -> Result<Settled, StoreError> {
        self.core.leave_out(key, reason, now)
    }
    fn cancel(
        &mut self,
        tenant: &Tenant,
        id: MessageId,
        by: &Actor,
        now: Time,
    ) -> Result<Cancelled, StoreError> {
        self.core.cancel(tenant, id, by, now)
    }
    fn hasten(
        &mut self,
        tenant: &Tenant,
        id: MessageId,
        by: &Actor,
        now: Time,
    ) -> Result<Hastened, StoreError> {
        self.core.hasten(tenant, id, by, now)
    }
    fn rule(&mut self, ruling: &Ruling, now: Time) -> Result<Verdicts, StoreError> {
        self.core.rule(ruling, now)
    }
    fn edit(&mut self, edit: &Edit, now: Time) -> Result<Edited, StoreError> {
        self.core.edit(edit, now)
    }
    fn shelve(&mut self, wish: &Shelve, now: Time) -> Result<Shelved, StoreError> {
        self.core.shelve(wish, now)
    }

    fn enlist(&mut self, wish: &Enlist, now: Time) -> Result<Result<Vec<Enlisted>, NotDone>, StoreError> {
        self.core.enlist(wish, now)
    }

    fn feed(&mut self, feed: &Feed, now: Time) -> Result<Result<(), NotDone>, StoreError> {
        self.core.feed(feed, now)
    }

    fn strike(&mut self, tenant: &Tenant, campaign: &CampaignName, max: usize) -> Result<usize, StoreError> {
        self.core.strike(tenant, campaign, max)
    }

    fn cut(&mut self, tenant: &Tenant, campaign: &CampaignName, now: Time) -> Result<bool, StoreError> {
        self.core.cut(tenant, campaign, now)
    }
    fn expire(&mut self, max: usize, now: Time) -> Result<usize, StoreError> {
        self.core.expire(max, now)
    }
    fn block(&mut self, place: &Place, block: Block, by: &Actor, now: Time) -> Result<(), StoreError> {
        self.core.block(place, block, by, now)
    }
    fn unblock(&mut self, place: &Place, by: &Actor, now: Time) -> Result<bool, StoreError> {
        self.core.unblock(place, by, now)
    }
    fn examine(&mut self, finding: &Finding, now: Time) -> Result<(), StoreError> {
        self.core.examine(finding, now)
    }
    fn pause(&mut self, pause: &Pause, by: &Actor) -> Result<(), StoreError> {
        self.core.pause(pause, by)
    }
    fn resume(&mut self, by: &Actor, now: Time) -> Result<bool, StoreError> {
        self.core.resume(by, now)
    }
    fn put_template(
        &mut self,
        tenant: &Tenant,
        name: &TemplateName,
        template: Template,
        by: &Actor,
        now: Time,
    ) -> Result<Put, StoreError> {
        self.core.put_template(tenant, name, template, by, now)
    }
    fn commit(&mut self, now: Time, entropy: &[u8; 32]) -> Result<u64, StoreError> {
        if self.anew.swap(false, Ordering::SeqCst) {
            return Err(StoreError::Again("somebody else was there".into()));
        }
        let position = self.core.commit(now, entropy)?;
        if self.next.swap(false, Ordering::SeqCst) {
            return Err(StoreError::Unavailable("nobody knows whether it was written".into()));
        }
        Ok(position)
    }
    fn reopen(&mut self) -> Result<(), StoreError> {
        self.core.reopen()
    }
    fn check(&mut self, now: Time) -> Result<(), StoreError> {
        self.core.check(now)
    }
    fn next_due(&mut self, lane: &LaneName, now: Time) -> Option<Time> {
        self.core.next_due(lane, now)
    }
    fn next_deadline(&self) -> Option<Time> {
        self.core.next_deadline()
    }
    fn reader(&self) -> Result<Self::Reader, StoreError> {
        self.core.reader()
    }
}

fn open_unsure(folder: &std::path::Path) -> (Arc<dyn Store>, Arc<TestClock>, Arc<AtomicBool>) {
    let next = Arc::new(AtomicBool::new(false));
    let (store, clock) = open_with(folder, next.clone(), Arc::default());
    (store, clock, next)
}

fn open_with(
    folder: &std::path::Path,
    next: Arc<AtomicBool>,
    anew: Arc<AtomicBool>,
) -> (Arc<dyn Store>, Arc<TestClock>) {
    let clock = Arc::new(TestClock(AtomicI64::new(START)));
    let core = Unsure { core: Sqlite::open(folder, Dice::seeded(7), &[7; 32]).unwrap(), next, anew };
    let store = Shell::start(core, clock.clone(), Box::new(|| [7; 32])).unwrap();
    (Arc::new(store), clock)
}

#[test] // fault 43
fn a_store_that_fails_whenever_it_was_reopened_is_left_alone_for_longer_until_something_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (clock, next) = (Arc::new(TestClock(AtomicI64::new(START))), Arc::new(AtomicBool::new(false)));
    let core = Sqlite::open(folder.path(), Dice::seeded(7), &[7; 32]).unwrap();
    let core = Unsure { core, next: next.clone(), anew: Arc::default() };
    let (store, mut writer) = Shell::with_writer(core, clock.clone(), Box::new(|| [7; 32])).unwrap();
    let mut accept = |fails: bool| {
        next.store(fails, Ordering::SeqCst);
        let mut accepting = store.accept(vec![draft("default", None, 1)]);
        let context = &mut Context::from_waker(Waker::noop());
        assert!(accepting.as_mut().poll(context).is_pending());
        assert!(writer.turn());
        let Poll::Ready(answer) = accepting.as_mut().poll(context) else { panic!("nobody was told") };
        assert_eq!(answer.is_err(), fails, "{answer:?}");
        let nap = writer.nap();
        clock.0.fetch_add(i64::try_from(nap.millis()).unwrap(), Ordering::SeqCst);
        assert!(writer.turn());
        assert_eq!(store.health(), Ok(()), "it can be reopened each time");
        nap.millis()
    };
    assert_eq!([accept(true), accept(true), accept(true)], [250, 500, 1_000]);
    accept(false);
    assert_eq!(accept(true), 250);
}

#[tokio::test] // invariant 13
async fn a_group_that_begins_anew_claims_in_the_place_of_a_result_once() {
    let folder = tempfile::tempdir().unwrap();
    let anew = Arc::new(AtomicBool::new(false));
    let (store, _) = open_with(folder.path(), Arc::default(), anew.clone());
    store.accept((0..3).map(|_| draft("default", None, 1)).collect()).await.unwrap();
    let first = store.claim(ask("default", 1)).await.unwrap();
    anew.store(true, Ordering::SeqCst);
    let turned = store.turn_over(vec![sent(&first[0])], vec![ask("default", 1)]).await.unwrap();
    assert!(!anew.load(Ordering::SeqCst), "it began anew");
    assert_eq!((turned.settled, turned.claimed.len()), (vec![Settled::Done], 1));
}

#[tokio::test] // Promise 3: a commit error means unknown
async fn a_claim_whose_commit_is_in_doubt_is_served_again_and_uncharged() {
    let folder = tempfile::tempdir().unwrap();
    let (store, clock, unsure) = open_unsure(folder.path());
    store.heartbeat(NodeId(1), Time::MAX).await.unwrap();
    let id = store.accept(vec![draft("default", None, 1)]).await.unwrap()[0].as_ref().unwrap().id;
    unsure.store(true, Ordering::SeqCst);
    let (claimed, ()) = tokio::join!(store.claim(ask("default", 5)), async {
        while unsure.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        // Past every wait of the writer before it looks again.
        clock.0.fetch_add(60_000, Ordering::SeqCst);
    });
    let claimed = claimed.unwrap();
    assert_eq!((claimed.len(), claimed[0].message.id, claimed[0].progress.attempts), (1, id, 0));
    assert_eq!(store.verify().await.unwrap().broken, None);
}

#[tokio::test] // Promise 3, invariant 13
async fn what_a_commit_in_doubt_claimed_in_the_place_of_a_result_is_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let (store, clock, unsure) = open_unsure(folder.path());
    store.heartbeat(NodeId(1), Time::MAX).await.unwrap();
    store.accept((0..2).map(|_| draft("default", None, 1)).collect()).await.unwrap();
    let first = store.claim(ask("default", 1)).await.unwrap();
    let turn_over = || store.turn_over(vec![sent(&first[0])], vec![ask("default", 1)]);
    unsure.store(true, Ordering::SeqCst);
    assert!(matches!(turn_over().await, Err(StoreError::Unavailable(_))));
    // Past every wait of the writer before it looks again.
    clock.0.fetch_add(60_000, Ordering::SeqCst);
    let again = turn_over().await.unwrap();
    assert_eq!(again.settled, [Settled::Stale], "it was written the first time");
    assert_eq!(again.claimed.iter().map(|claimed| claimed.progress.attempts).collect::<Vec<_>>(), [0]);
    assert_eq!(store.verify().await.unwrap().broken, None);
}

#[tokio::test] // Promise 3, REQ ML-5
async fn a_takeover_whose_commit_is_in_doubt_can_be_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let (store, clock, unsure) = open_unsure(folder.path());
    store.accept(vec![draft("default", None, 1)]).await.unwrap();
    assert_eq!(store.claim(ask("default", 5)).await.unwrap().len(), 1);
    store.heartbeat(NodeId(2), Time::MAX).await.unwrap();
    unsure.store(true, Ordering::SeqCst);
    assert!(matches!(store.take_over(NodeId(2), 5).await, Err(StoreError::Unavailable(_))));
    clock.0.fetch_add(60_000, Ordering::SeqCst);
    let again = store.take_over(NodeId(2), 5).await.unwrap();
    assert_eq!(again.len(), 1, "it is still in doubt, and nobody else can look into it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_who_leaves_early_costs_nobody_else_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let many = (0..5_000).map(|_| draft("default", Some(START + 1_000_000), 1)).collect();
    store.accept(many).await.unwrap();
    let filter = Filter { category: Some("none".into()), ..Filter::default() };
    for _ in 0..20 {
        let leaving = tokio::time::timeout(Duration::from_millis(2), store.page(filter.clone(), None, 50));
        let _ = leaving.await;
        assert!(store.blocks().await.is_ok());
    }
}

/// A clock by which a second passes at each look, for as long as it is in a hurry.
#[derive(Debug, Default)]
struct Hasty {
    passed_ms: AtomicI64,
    hurry: AtomicBool,
}

impl Clock for Hasty {
    fn now(&self) -> Time {
        Time::from_millis(START)
    }

    fn elapsed(&self) -> Duration {
        let step_ms = if self.hurry.load(Ordering::SeqCst) { 1_000 } else { 0 };
        Duration::from_millis(self.passed_ms.fetch_add(step_ms, Ordering::SeqCst).unsigned_abs())
    }
}

#[tokio::test] // RELIABILITY 12, 38
async fn a_read_that_takes_too_long_is_ended_and_keeps_neither_its_reader_nor_its_view() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(Hasty::default());
    let core = Sqlite::open(folder.path(), Dice::seeded(7), &[7; 32]).unwrap();
    let store = Shell::start(core, clock.clone(), Box::new(|| [7; 32])).unwrap();
    let accept = || store.accept((0..2_000).map(|_| draft("default", None, 1)).collect());
    accept().await.unwrap();
    // It looks at every message, and no such category is among them.
    let filter = Filter { category: Some("none".into()), ..Filter::default() };
    let outside = rusqlite::Connection::open(folder.path().join("pombo.db")).unwrap();
    for _ in 0..5 {
        clock.hurry.store(true, Ordering::SeqCst);
        assert_eq!(store.page(filter.clone(), None, 50).await.unwrap_err(), StoreError::TooLong);
        clock.hurry.store(false, Ordering::SeqCst);
        assert_eq!(store.readers()().busy, 0);
        accept().await.unwrap();
        let held: bool = outside.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
        assert!(!held, "nobody reads any more, and the log starts over");
        assert_eq!(store.page(filter.clone(), None, 50).await.unwrap().lines, [], "the same in time");
        assert_eq!(store.health(), Ok(()));
    }
}

#[test] // RELIABILITY 38
fn wherever_a_read_is_ended_the_next_one_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Sqlite::open(folder.path(), Dice::seeded(7), &[7; 32]).unwrap();
    let drafts = (0..3).map(|_| draft("default", None, 1));
    let ids: Vec<MessageId> =
        drafts.map(|draft| store.accept(draft, Time::from_millis(START)).unwrap().unwrap().id).collect();
    store.commit(Time::from_millis(START), &[7; 32]).unwrap();
    let mut reader = store.reader().unwrap();
    let whole = reader.lines(&ids).unwrap();
    let mut ended = 0;
    // A statement asks now and then, and each has its own turn: the words that begin and end a view as well.
    for _ in 0..3_000 {
        reader.end_when(Box::new(|| true));
        let told = reader.lines(&ids);
        reader.rest();
        match told {
            Ok(lines) => assert_eq!(lines, whole),
            Err(error) => {
                assert_eq!(error, StoreError::TooLong);
                ended += 1;
                assert_eq!(reader.lines(&ids).unwrap(), whole);
            }
        }
    }
    assert!(ended > 100, "{ended}");
}
