//! Rounds by hand, on the model.

use pombo_kernel::name::Tenant;
use pombo_store::audit::Event;
use pombo_store::shelf::{Expect, Shelf, Shelve};
use pombo_store::transition::act_of;
use serde_json::json;

use super::key::is_signed;
use super::*;
use crate::by_hand::{Hand as Time0, model};

struct Bench {
    store: Arc<dyn Store>,
    clock: Arc<Time0>,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let (store, clock) = model();
        Bench { store, clock, folder: tempfile::tempdir().unwrap() }
    }

    /// A node that signs every hour, and after ten records.
    fn node(&self) -> Work {
        Work {
            store: self.store.clone(),
            clock: self.clock.clone(),
            hand: Hand::File(self.folder.path().join(KEY_FILE)),
            copies: Some(self.folder.path().join(ANCHORS_FILE)),
            every: Span::from_hours(1),
            records: 10,
            known: None,
            broken: None,
            beyond: None,
        }
    }

    async fn round(&self, node: &mut Work) -> Option<Duration> {
        let end = *self.store.watch().borrow();
        node.round(end).await.unwrap()
    }

    /// So many records, each in a block of its own.
    async fn happen(&self, records: usize) {
        for _ in 0..records {
            let tenant = Tenant::default();
            let record = act_of(Event::Exported, &tenant, &Actor("ana".into()), &json!({}), self.clock.now());
            let wish = Shelve {
                shelf: Shelf::Cursor,
                tenant,
                id: "x".to_owned(),
                expect: Expect::Nothing,
                leaf: None,
                record: Some(record),
            };
            self.store.shelve(vec![wish]).await.unwrap();
        }
    }

    /// The anchors, oldest first, with the number of records that each is about.
    async fn anchors(&self) -> Vec<u64> {
        let docs = self.store.docs(anchor::before(None, 100)).await.unwrap();
        let mut anchors: Vec<(u64, Anchor)> = docs.iter().filter_map(anchor::read).collect();
        anchors.reverse();
        assert!(anchors.iter().all(|(_, anchor)| is_signed(anchor)));
        assert!((1..).zip(&anchors).all(|(nth, (number, _))| nth == *number));
        anchors.into_iter().map(|(_, anchor)| anchor.position).collect()
    }

    fn copied(&self) -> Vec<u64> {
        let (copies, bad) = read_file(&self.folder.path().join(ANCHORS_FILE)).unwrap();
        assert!(bad.is_empty() && copies.iter().all(is_signed));
        copies.iter().map(|anchor| anchor.position).collect()
    }

    async fn forge(&self, number: u64, tip: Tip) {
        let signer = key::kept(&self.folder.path().join("other.key")).unwrap();
        let wish = signer.sign(&tip, self.clock.now()).put(number, &Actor::engine());
        self.store.shelve(vec![wish]).await.unwrap();
    }
}

#[tokio::test] // REQ AU-1
async fn the_chain_is_signed_after_so_many_records_or_after_an_hour_and_not_while_nothing_happens() {
    let bench = Bench::new();
    let mut node = bench.node();
    assert_eq!(bench.round(&mut node).await, None, "there is nothing to sign");
    bench.happen(3).await;
    assert_eq!(bench.round(&mut node).await, Some(Duration::from_secs(3_600)));
    assert_eq!(bench.anchors().await, [0; 0]);
    bench.happen(7).await;
    bench.round(&mut node).await;
    assert_eq!(bench.anchors().await, [10], "ten records");
    bench.clock.pass(Span::from_hours(30));
    assert_eq!(bench.round(&mut node).await, None, "only the anchor itself was recorded");
    bench.happen(1).await;
    bench.round(&mut node).await;
    assert_eq!(bench.anchors().await, [10, 12], "an hour went by");
    bench.happen(9).await;
    bench.clock.pass(Span::from_mins(59));
    assert_eq!(bench.round(&mut node).await, Some(Duration::from_secs(60)));
    bench.clock.pass(Span::from_mins(1));
    bench.round(&mut node).await;
    assert_eq!(bench.anchors().await, [10, 12, 22]);
    assert_eq!(bench.copied(), [10, 12, 22]);
    let told = bench.store.audit(22, 1).await.unwrap().pop().unwrap().1;
    assert_eq!((told.event, told.tenant.as_str(), told.actor.as_str()), (Event::Anchored, "", "pombo"));
    let said: Anchor = serde_json::from_str(&told.detail).unwrap();
    assert!(is_signed(&said) && said.position == 22, "whoever is told of it can check it");
}

#[tokio::test]
async fn of_two_nodes_one_signs_and_both_keep_copies() {
    let bench = Bench::new();
    let (mut one, mut two) = (bench.node(), bench.node());
    two.copies = Some(bench.folder.path().join("elsewhere.ndjson"));
    bench.happen(10).await;
    let known = one.look().await.unwrap();
    two.look().await.unwrap();
    bench.round(&mut one).await;
    // The second had looked before, and made up its mind.
    two.make(&known, &Tip { sequence: 9, position: 9, hash: [1; 32] }, bench.clock.now()).await.unwrap();
    assert_eq!(bench.anchors().await, [10]);
    bench.round(&mut two).await;
    assert_eq!(bench.copied(), [10]);
    assert_eq!(file::last(&bench.folder.path().join("elsewhere.ndjson")).unwrap(), 10);
}

#[tokio::test]
async fn copies_that_were_missed_are_made_up_for() {
    let bench = Bench::new();
    let mut elsewhere = Work { copies: None, ..bench.node() };
    for _ in 0..3 {
        bench.happen(10).await;
        bench.round(&mut elsewhere).await;
    }
    bench.round(&mut bench.node()).await;
    assert_eq!(bench.copied(), bench.anchors().await);
    bench.round(&mut bench.node()).await;
    assert_eq!(bench.copied().len(), 3, "each of them once");
}

#[tokio::test] // REQ AU-1
async fn a_chain_that_is_not_the_one_that_was_signed_is_noted_and_not_signed_again() {
    for (signed, said) in [
        (Tip { sequence: 5, position: 5, hash: [1; 32] }, "audit block 4: it is not the one that was signed"),
        (Tip { sequence: 50, position: 50, hash: [1; 32] }, "audit block 49: it was signed, and is missing"),
    ] {
        let bench = Bench::new();
        bench.happen(5).await;
        bench.forge(1, signed).await;
        let mut node = bench.node();
        bench.round(&mut node).await;
        let noted = || anchor::broken(&*bench.store);
        assert_eq!(noted().await.unwrap().as_deref(), Some(said), "it is seen at the start");
        bench.happen(100).await;
        bench.clock.pass(Span::from_hours(2));
        assert_eq!(bench.round(&mut node).await, Some(TROUBLE));
        assert_eq!(bench.anchors().await, [signed.position]);
        // The next one finds it put right.
        let gone = Shelve {
            shelf: Shelf::Anchor,
            tenant: Tenant::default(),
            id: format!("{:020}", 1),
            expect: Expect::Any,
            leaf: None,
            record: None,
        };
        bench.store.shelve(vec![gone]).await.unwrap();
        bench.round(&mut node).await;
        let said = noted().await.unwrap().unwrap();
        assert!(said.contains("a copy of its anchor is kept elsewhere"), "{said}");
        std::fs::remove_file(bench.folder.path().join(ANCHORS_FILE)).unwrap();
        bench.round(&mut bench.node()).await;
        assert_eq!(noted().await.unwrap(), None);
        assert_eq!(bench.anchors().await.len(), 1);
    }
}

#[tokio::test] // REQ AU-1
async fn a_store_that_knows_less_than_a_copy_of_its_anchors_is_noted_as_broken_and_not_signed() {
    let bench = Bench::new();
    let mut node = bench.node();
    bench.happen(10).await;
    bench.round(&mut node).await;
    let file = bench.folder.path().join(ANCHORS_FILE);
    let kept = std::fs::read(&file).unwrap();
    // Another store, set back to before what was signed: the copies are what is left of it.
    for happened in [0, 3, 30] {
        let back = Bench::new();
        back.happen(happened).await;
        let copies = back.folder.path().join(ANCHORS_FILE);
        let ahead = String::from_utf8(kept.clone()).unwrap().replace("\"sequence\":10", "\"sequence\":50");
        std::fs::write(&copies, &ahead).unwrap();
        let mut node = back.node();
        assert_eq!(back.round(&mut node).await, Some(TROUBLE), "{happened}");
        let noted = anchor::broken(&*back.store).await.unwrap();
        assert!(noted.as_ref().is_some_and(|said| said.contains("block 49")), "{noted:?}");
        back.happen(20).await;
        back.clock.pass(Span::from_hours(2));
        back.round(&mut node).await;
        assert_eq!(back.anchors().await, [0; 0], "what does not hold is not signed");
        // Whoever knows why sets the copies aside, and it goes on.
        std::fs::remove_file(&copies).unwrap();
        back.round(&mut node).await;
        assert_eq!(anchor::broken(&*back.store).await.unwrap(), None);
        assert_eq!(back.anchors().await.len(), 1);
    }
}
