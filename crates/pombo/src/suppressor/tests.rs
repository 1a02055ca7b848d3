//! Rounds by hand, on the model.

use pombo_kernel::classify::Verdict;
use pombo_kernel::delivery::Report;
use pombo_kernel::id::MessageId;
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{Attempt, AttemptFailure, AttemptOutcome, Body, FailureReason, Progress};
use pombo_kernel::reply::Receipt;
use pombo_kernel::request::Request;
use pombo_kernel::time::Span;
use pombo_store::dead::{Edit, Edited};
use pombo_store::shelf::{Expect, Pick, Shelf, Wanted};
use pombo_store::{Ask, NodeId, Settlement};
use serde_json::json;

use super::*;
use crate::by_hand::{Hand, configured, model};

const ANA: &str = "+55 11 98765-4321";

struct Bench {
    store: Arc<dyn Store>,
    clock: Arc<Hand>,
    setup: watch::Sender<Arc<Setup>>,
}

const CHANNELS: &str = "[channels.zap]\nkind = 'evolution'\n[channels.mail]\nkind = 'resend'\nfrom = 'a@a.example'\n\
    [channels.kind]\nkind = 'evolution'\nsuppress = false\n[channels.crm]\nkind = 'webhook'\n";

impl Bench {
    fn new() -> Bench {
        let (store, clock) = model();
        Bench { store, clock, setup: configured(CHANNELS) }
    }

    fn work(&self, holder: u64) -> Work {
        Work {
            store: self.store.clone(),
            setup: self.setup.subscribe(),
            clock: self.clock.clone(),
            entropy: Arc::new(|| [9; 32]),
            follower: Follower::new(self.store.clone(), CURSOR, holder),
        }
    }

    async fn accept(&self, channel: &str, to: &str) -> MessageId {
        let content = match channel {
            "mail" => json!({"subject": "s", "text": "t"}),
            "crm" => json!({"body": {}}),
            _ => json!({"text": "t"}),
        };
        self.accept_with(channel, to, content).await
    }

    async fn accept_with(&self, channel: &str, to: &str, content: serde_json::Value) -> MessageId {
        let request = Request {
            channel: channel.into(),
            to: to.into(),
            content: Some(content.into()),
            ..Request::default()
        };
        let draft = self.setup.borrow().draft(request, &Tenant::default(), self.clock.now()).unwrap();
        self.store.accept(vec![draft]).await.unwrap()[0].as_ref().unwrap().id
    }

    /// The messages that wait are sent under that provider's id, or fail for good by that rule.
    async fn end(&self, how: Result<&str, &str>) {
        let ask = Ask { node: NodeId(1), lane: "default".parse().unwrap(), max: 10, rates: Arc::default() };
        let now = self.clock.now();
        for claimed in self.store.claim(ask).await.unwrap() {
            let failure = how.err().map(|rule| AttemptFailure {
                verdict: Verdict::Permanent,
                category: "invalid_recipient".into(),
                code: None,
                text: String::new(),
                perhaps_sent: false,
                rule: Some(rule.to_owned()),
            });
            let next = match how {
                Ok(id) => Next::Sent(Receipt { provider_id: Some(id.to_owned()), ..Receipt::default() }),
                Err(_) => Next::Failed(FailureReason::PermanentError),
            };
            let settlement = Settlement {
                key: claimed.key,
                attempt: Attempt {
                    round: claimed.progress.round,
                    number: claimed.progress.attempts + 1,
                    started_at: now,
                    finished_at: now,
                    outcome: if how.is_ok() { AttemptOutcome::Sent } else { AttemptOutcome::Failed },
                    failure,
                    next_delay: None,
                    explanation: String::new(),
                    policy: None,
                },
                next,
                progress: Progress { attempts: 1, steps: 1, ..claimed.progress },
                block: Default::default(),
                vitals: Default::default(),
                reported: true,
                chance: 0,
            };
            self.store.settle(vec![settlement]).await.unwrap();
        }
    }

    async fn report(&self, id: &str, delivery: Delivery, detail: &str) {
        let report = Report { provider_id: id.into(), delivery, detail: Some(detail.into()), at: None };
        self.store.report("mail".parse().unwrap(), vec![report]).await.unwrap();
    }

    /// Who is on the list, for which reason.
    async fn list(&self) -> Vec<(String, Reason)> {
        let pick = Pick::All { after: None };
        let wanted = Wanted { shelf: Shelf::Suppression, tenant: None, pick, limit: 100 };
        let docs = self.store.docs(wanted).await.unwrap();
        let entries = docs.iter().filter_map(suppression::read);
        entries.map(|entry| (entry.recipient, entry.reason)).collect()
    }
}

async fn all(work: &mut Work) {
    while !matches!(work.round().await.unwrap(), Rest::News(_)) {}
}

const ABSENT: &str = "evolution:not-on-whatsapp";

#[tokio::test] // REQ BK-8
async fn a_failure_whose_rule_suppresses_puts_its_recipient_on_the_list() {
    let bench = Bench::new();
    let id = bench.accept("zap", ANA).await;
    bench.end(Err(ABSENT)).await;
    all(&mut bench.work(1)).await;
    assert_eq!(bench.list().await, [("+5511987654321".to_owned(), Reason::InvalidRecipient)]);
    let zap = pombo_kernel::kind::ChannelKind::Evolution;
    let entry =
        suppression::of(&*bench.store, &Tenant::default(), zap, "11 8765-4321").await.unwrap().unwrap();
    assert_eq!(entry.source, Some(format!("zap {id}")));
    assert_eq!((entry.created_by.as_str(), entry.id.len()), ("pombo", 36));
    let records = bench.store.audit(0, 100).await.unwrap();
    let told: Vec<_> = records.iter().filter(|(_, it)| it.event == Event::SuppressionPut).collect();
    assert_eq!(told.len(), 1);
    assert!(!told[0].1.detail.contains("8765"), "nothing personal: {}", told[0].1.detail);
}

#[tokio::test] // REQ BK-8
async fn other_failures_and_channels_that_do_not_want_it_put_nobody_there() {
    let bench = Bench::new();
    bench.accept("zap", ANA).await;
    bench.end(Err("evolution:logged-out")).await;
    for (channel, to) in [("kind", ANA), ("crm", "https://crm.example/")] {
        bench.accept(channel, to).await;
        bench.end(Err(ABSENT)).await;
    }
    all(&mut bench.work(1)).await;
    assert_eq!(bench.list().await, []);
}

#[tokio::test] // REQ BK-8
async fn bounces_for_good_and_complaints_are_taken_from_receipts() {
    let bench = Bench::new();
    for (id, to) in [("p1", "ana@a.example"), ("p2", "bia@a.example"), ("p3", "caio@a.example")] {
        bench.accept("mail", to).await;
        bench.end(Ok(id)).await;
    }
    bench.report("p1", Delivery::Bounced, "Permanent/NoEmail: no such user").await;
    bench.report("p2", Delivery::Bounced, "Transient/MailboxFull: later").await;
    bench.report("p3", Delivery::Complained, "").await;
    all(&mut bench.work(1)).await;
    let mut list = bench.list().await;
    list.sort();
    let expected = [("ana@a.example", Reason::HardBounce), ("caio@a.example", Reason::Complaint)];
    assert_eq!(list, expected.map(|(to, reason)| (to.to_owned(), reason)));
}

#[tokio::test] // REQ BK-8
async fn what_went_to_several_people_at_once_puts_none_of_them_on_the_list() {
    let bench = Bench::new();
    let others = [
        ("cc", json!(["bia@a.example"])),
        ("bcc", json!("caio@a.example")),
        ("also_to", json!(["d@a.example"])),
    ];
    for (at, (field, others)) in others.iter().enumerate() {
        let id = format!("p{at}");
        let content = json!({"subject": "s", "text": "t", (*field): others});
        bench.accept_with("mail", "ana@a.example", content).await;
        bench.end(Ok(&id)).await;
        bench.report(&id, Delivery::Complained, "").await;
    }
    all(&mut bench.work(1)).await;
    assert_eq!(bench.list().await, []);
    bench.accept_with("mail", "ana@a.example", json!({"subject": "s", "text": "t", "cc": []})).await;
    bench.end(Ok("alone")).await;
    bench.report("alone", Delivery::Complained, "").await;
    all(&mut bench.work(1)).await;
    assert_eq!(bench.list().await, [("ana@a.example".to_owned(), Reason::Complaint)]);
}

#[tokio::test] // REQ BK-8
async fn an_entry_stays_as_it_is_and_one_that_was_removed_comes_back_with_the_next_failure_only() {
    let bench = Bench::new();
    let mut work = bench.work(1);
    for _ in 0..2 {
        bench.accept("zap", ANA).await;
        bench.end(Err(ABSENT)).await;
        all(&mut work).await;
        assert_eq!(bench.list().await.len(), 1);
    }
    let id = suppression::place(Family::Whatsapp, "+5511987654321");
    let removed = Shelve {
        shelf: Shelf::Suppression,
        tenant: Tenant::default(),
        id,
        expect: Expect::Any,
        leaf: None,
        record: None,
    };
    bench.store.shelve(vec![removed]).await.unwrap();
    bench.clock.pass(Span::from_secs(10));
    // Another node takes over where this one has come to.
    let mut other = bench.work(2);
    all(&mut other).await;
    assert_eq!(bench.list().await, []);
    bench.accept("zap", ANA).await;
    bench.end(Err(ABSENT)).await;
    all(&mut other).await;
    assert_eq!(bench.list().await.len(), 1);
}

#[tokio::test] // REQ BK-8
async fn whoever_was_meant_at_the_failure_is_listed_and_not_whom_somebody_wrote_in_since() {
    let bench = Bench::new();
    let id = bench.accept("zap", ANA).await;
    bench.end(Err(ABSENT)).await;
    bench.clock.pass(Span::from_secs(5));
    let story = bench.store.story(Tenant::default(), id).await.unwrap().unwrap();
    let edit = Edit {
        tenant: Tenant::default(),
        id,
        version: 1,
        queue: (*story.message.queue).clone(),
        blobs: Vec::new(),
        body: Body { to: "+5511900000000".into(), ..story.message.body.clone() },
        by: Actor("ana".into()),
        note: None,
    };
    assert!(matches!(bench.store.edit(edit).await.unwrap(), Edited::Done { .. }));
    all(&mut bench.work(1)).await;
    assert_eq!(bench.list().await, [("+5511987654321".to_owned(), Reason::InvalidRecipient)]);
}
