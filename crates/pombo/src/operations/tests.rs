//! Rounds by hand, on the model: time stands still unless it is told to pass.

use std::collections::BTreeMap;

use pombo_channels::{BoxFuture, Envelope};
use pombo_kernel::backoff::Wait;
use pombo_kernel::classify::Verdict;
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{Attempt, AttemptFailure, AttemptOutcome, Draft, Progress};
use pombo_kernel::operation::{Stage, State as Standing};
use pombo_kernel::reply::{Fault, FaultKind, Receipt, Reply};
use pombo_store::audit::Event;
use pombo_store::{Ask, NodeId, Settlement};

use super::*;
use crate::by_hand::{self, Hand, T0, configured, model};

struct Bench {
    store: Arc<dyn Store>,
    clock: Arc<Hand>,
    setup: watch::Sender<Arc<Setup>>,
}

impl Bench {
    fn new() -> Bench {
        let (store, clock) = model();
        let setup = configured("[channels.crm]\nkind = \"webhook\"\n[channels.wa]\nkind = \"evolution\"\n");
        Bench { store, clock, setup }
    }

    fn work(&self) -> Work {
        self.work_with(Channels::new())
    }

    fn work_with(&self, channels: Channels) -> Work {
        Work {
            store: self.store.clone(),
            setup: self.setup.subscribe(),
            channels: Arc::new(RwLock::new(channels)),
            clock: self.clock.clone(),
            alone: false,
            letters: true,
            probes: true,
            later: HashMap::new(),
            walks: HashMap::new(),
            pace: Pace::default(),
            erasing: HashMap::new(),
            asking: JoinSet::new(),
        }
    }

    async fn accept(&self, count: usize) {
        self.store.accept(vec![draft(); count]).await.unwrap();
    }

    /// Claims what is due, and ends each as that says.
    async fn end(&self, how: impl Fn() -> (Next, Option<&'static str>)) -> usize {
        let lane = "default".parse().unwrap();
        let ask = Ask { node: NodeId(1), lane, max: 10_000, rates: Arc::default() };
        let claimed = self.store.claim(ask).await.unwrap();
        let now = self.clock.now();
        let settlements = claimed.iter().map(|claimed| {
            let (next, text) = how();
            let outcome = match &next {
                Next::Sent(_) => AttemptOutcome::Sent,
                Next::Retry { .. } => AttemptOutcome::Retry,
                _ => AttemptOutcome::Failed,
            };
            Settlement {
                key: claimed.key,
                attempt: Attempt {
                    round: claimed.progress.round,
                    number: claimed.progress.attempts + 1,
                    started_at: now,
                    finished_at: now,
                    outcome,
                    failure: text.map(failure),
                    next_delay: None,
                    explanation: String::new(),
                    policy: None,
                },
                next,
                progress: Progress {
                    attempts: claimed.progress.attempts + 1,
                    steps: claimed.progress.steps + 1,
                    ..claimed.progress
                },
                block: Default::default(),
                vitals: Default::default(),
                reported: false,
                chance: 0,
            }
        });
        self.store.settle(settlements.collect()).await.unwrap();
        claimed.len()
    }

    async fn die(&self, text: &'static str) -> usize {
        self.end(|| (Next::Failed(FailureReason::PermanentError), Some(text))).await
    }

    async fn arrive(&self) -> usize {
        self.end(|| (Next::Sent(Receipt::default()), None)).await
    }

    async fn begin(&self, id: &str, operation: &Operation) {
        let wish = operation::begin(&"default".parse().unwrap(), id.to_owned(), operation);
        let done = self.store.shelve(vec![wish]).await.unwrap();
        assert_eq!(done, [Shelved::Done { version: 1 }]);
    }

    async fn operation(&self, id: &str) -> Operation {
        let doc = self.store.doc(Shelf::Operation, "default".parse().unwrap(), id.to_owned()).await;
        operation::read(&doc.unwrap().unwrap()).unwrap()
    }

    /// How often each message was reprocessed, and how many operations ended.
    async fn acts(&self) -> (BTreeMap<MessageId, usize>, usize) {
        let records = self.store.audit(0, 100_000).await.unwrap();
        let (mut acts, mut ended) = (BTreeMap::new(), 0);
        for (_, record) in records {
            match record.event {
                Event::Reprocessed => *acts.entry(record.message.unwrap()).or_default() += 1,
                Event::OperationEnded => ended += 1,
                _ => {}
            }
        }
        (acts, ended)
    }
}

fn draft() -> Draft {
    by_hand::draft("default", "crm")
}

fn failure(text: &str) -> AttemptFailure {
    AttemptFailure {
        verdict: Verdict::Permanent,
        category: "rejected".into(),
        code: None,
        text: text.into(),
        perhaps_sent: false,
        rule: None,
    }
}

fn reprocess(canary: u32, rate: Option<u32>) -> Operation {
    let stage = if canary > 0 { Stage::Canary } else { Stage::Rest };
    Operation {
        filter: [("channel".to_owned(), "crm".to_owned())].into(),
        note: Some("again".to_owned()),
        rate_per_minute: rate,
        canary,
        ..Operation::new(Kind::Reprocess, stage, Actor("ana".to_owned()), T0)
    }
}

#[tokio::test] // REQ DL-3, fault 36
async fn every_letter_that_was_dead_is_reprocessed_once_and_none_that_died_later() {
    let bench = Bench::new();
    bench.accept(450).await;
    assert_eq!(bench.die("wrong").await, 450);
    bench.clock.pass(Span::from_secs(1));
    bench.begin("opr_1", &Operation { created_at: bench.clock.now(), ..reprocess(0, None) }).await;
    let mut work = bench.work();
    assert!(work.round().await.unwrap().is_some());
    assert_eq!(bench.operation("opr_1").await.done, 200);
    // What was reprocessed dies again, and so does something else: neither was looked at by whoever asked.
    bench.clock.pass(Span::from_secs(1));
    bench.accept(1).await;
    assert_eq!(bench.die("wrong").await, 201);
    while work.round().await.unwrap().is_some() {}
    let operation = bench.operation("opr_1").await;
    assert_eq!((operation.done, operation.skipped, operation.state.as_str()), (450, 0, "done"));
    let (acts, ended) = bench.acts().await;
    assert_eq!((acts.len(), ended), (450, 1));
    assert!(acts.values().all(|count| *count == 1));
}

#[tokio::test] // REQ DL-3, fault 36
async fn nodes_that_work_on_the_same_operation_do_each_letter_once() {
    let bench = Bench::new();
    bench.accept(900).await;
    bench.die("wrong").await;
    bench.begin("opr_1", &reprocess(0, None)).await;
    let [mut one, mut two, mut three] = [bench.work(), bench.work(), bench.work()];
    for _ in 0..20 {
        let (one, two, three) = tokio::join!(one.round(), two.round(), three.round());
        assert!(one.is_ok() && two.is_ok() && three.is_ok());
        bench.clock.pass(YIELD);
    }
    let operation = bench.operation("opr_1").await;
    assert_eq!((operation.done, operation.state.as_str()), (900, "done"));
    let (acts, ended) = bench.acts().await;
    assert_eq!((acts.len(), ended), (900, 1));
    assert!(acts.values().all(|count| *count == 1));
}

#[tokio::test] // REQ DL-3
async fn the_others_are_left_alone_while_the_first_fails_by_the_same_cause() {
    let bench = Bench::new();
    bench.accept(20).await;
    bench.die("order 47110 is wrong").await;
    bench.begin("opr_1", &reprocess(2, None)).await;
    let mut work = bench.work();
    work.round().await.unwrap();
    assert_eq!(work.round().await.unwrap(), Some(T0 + WATCH_EVERY), "they are on their way");
    assert_eq!(bench.acts().await.0.len(), 2);
    // Both try, and will again; by the same cause.
    let hour = Span::from_hours(1);
    let wait = Wait { delay: hour, nominal: hour, swing: 0.0, hinted: false };
    let next = || Next::Retry { due: T0 + hour, wait };
    let retried = bench.end(|| (next(), Some("order 47119 is wrong"))).await;
    assert_eq!(retried, 2);
    bench.clock.pass(WATCH_EVERY);
    assert_eq!(work.round().await.unwrap(), None);
    let operation = bench.operation("opr_1").await;
    let Standing::Halted { reason, .. } = &operation.state else { panic!("{operation:?}") };
    assert!(reason.contains("2 of 2 letters that went first failed again by the same cause"), "{reason}");
    let (acts, ended) = bench.acts().await;
    assert_eq!((acts.len(), ended, operation.done), (2, 1, 2));
}

#[tokio::test] // REQ DL-3
async fn the_others_go_once_the_first_has_arrived_at_the_pace_that_was_asked_for() {
    let bench = Bench::new();
    bench.accept(5).await;
    bench.die("wrong").await;
    bench.begin("opr_1", &reprocess(1, Some(30))).await;
    let mut work = bench.work();
    work.round().await.unwrap();
    bench.arrive().await;
    work.round().await.unwrap();
    assert_eq!(bench.acts().await.0.len(), 1, "nothing goes before the first has been seen");
    work.round().await.unwrap();
    assert_eq!(bench.acts().await.0.len(), 2);
    for gone in 2..5 {
        assert_eq!(work.round().await.unwrap(), Some(bench.clock.now() + Span::from_secs(2)));
        // Another node, or this one after a death, keeps to the same times.
        work = bench.work();
        bench.clock.pass(Span::from_secs(2));
        assert_eq!(bench.acts().await.0.len(), gone);
        work.round().await.unwrap();
    }
    assert_eq!(bench.acts().await.0.len(), 5);
}

#[tokio::test] // REQ DL-1
async fn a_cancelled_operation_touches_nothing_more_and_one_who_was_at_it_gives_way() {
    let bench = Bench::new();
    bench.accept(450).await;
    bench.die("wrong").await;
    bench.begin("opr_1", &reprocess(0, None)).await;
    let mut work = bench.work();
    work.round().await.unwrap();
    let tenant = "default".parse().unwrap();
    let doc = bench.store.doc(Shelf::Operation, tenant, "opr_1".to_owned()).await.unwrap().unwrap();
    let running = operation::read(&doc).unwrap();
    let bia = Actor("bia".to_owned());
    let wish = operation::change(&doc, &running.clone().cancelled(bia.clone(), T0), &bia, T0);
    bench.store.shelve(vec![wish]).await.unwrap();
    // It was read before it was cancelled, and is acted on after.
    let again = work.take(&doc, running, 200, T0).await.unwrap();
    assert_eq!(again, Some(T0 + YIELD));
    assert_eq!(work.round().await.unwrap(), None);
    assert_eq!(bench.acts().await.0.len(), 200);
    assert_eq!(bench.operation("opr_1").await.state.as_str(), "cancelled");
}

/// A provider that is as it was told to be.
#[derive(Debug)]
struct Pretend(Health);

impl Channel for Pretend {
    fn send<'a>(&'a self, _: &'a Envelope, _: Duration) -> BoxFuture<'a, Reply> {
        unreachable!("a test sends nothing")
    }
    fn probe(&self, _: Duration) -> BoxFuture<'_, Health> {
        Box::pin(async { self.0.clone() })
    }
}

#[tokio::test]
async fn a_provider_is_asked_by_one_node_and_what_it_said_is_on_record() {
    let fault =
        Fault { kind: FaultKind::ConnectionRefused, text: "connection refused by ana@a.example".to_owned() };
    let cases = [
        (Health::Ready("250 OK".to_owned()), Some(true), "250 OK"),
        (Health::Unknown, None, "cannot be asked"),
        (Health::Sick(Reply::Unreachable(fault)), Some(false), "connection refused"),
    ];
    for (health, ok, words) in cases {
        let bench = Bench::new();
        let channels: Channels =
            [("crm".parse().unwrap(), Arc::new(Pretend(health)) as Arc<dyn Channel>)].into();
        let test = Operation {
            channel: Some("crm".parse().unwrap()),
            ..Operation::new(Kind::TestChannel, Stage::Probing, Actor("ana".to_owned()), T0)
        };
        bench.begin("opr_1", &test).await;
        let (mut one, mut two) = (bench.work_with(channels.clone()), bench.work_with(channels));
        two.probes = false;
        assert_eq!(two.round().await.unwrap(), None, "only workers can ask");
        two.probes = true;
        let (first, second) = tokio::join!(one.round(), two.round());
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(one.asking.len() + two.asking.len(), 1);
        while one.asking.join_next().await.is_some() || two.asking.join_next().await.is_some() {}
        let found = bench.operation("opr_1").await.found.unwrap();
        assert_eq!(found.ok, ok);
        assert!(found.detail.contains(words) && !found.detail.contains("ana@"), "{}", found.detail);
    }
}

#[tokio::test] // REQ BK-8
async fn a_campaigns_letter_is_left_alone_if_its_recipient_is_not_to_be_written_to_any_more() {
    let bench = Bench::new();
    let to = |number: &str, campaign: Option<&str>| {
        let mut draft = draft();
        draft.queue.channel = "wa".parse().unwrap();
        draft.queue.campaign = campaign.map(|name| name.parse().unwrap());
        draft.body.to = number.to_owned();
        draft
    };
    let (gone, well) = ("+5511987654321", "+5511987654322");
    let drafts = vec![to(gone, Some("cmp_1")), to(well, Some("cmp_1")), to(gone, None)];
    let accepted = bench.store.accept(drafts).await.unwrap();
    let ids: Vec<MessageId> = accepted.into_iter().map(|accepted| accepted.unwrap().id).collect();
    assert_eq!(bench.die("no such number").await, 3);
    let entry = pombo_kernel::suppression::Suppression {
        id: "sup_1".to_owned(),
        kind: pombo_kernel::suppression::Family::Whatsapp,
        recipient: gone.to_owned(),
        reason: pombo_kernel::suppression::Reason::InvalidRecipient,
        source: None,
        note: None,
        created_at: T0,
        created_by: "pombo".to_owned(),
    };
    bench.store.shelve(vec![suppression::put(&Tenant::default(), &entry)]).await.unwrap();
    let all = Operation { filter: BTreeMap::new(), created_at: bench.clock.now(), ..reprocess(0, None) };
    bench.begin("opr_1", &all).await;
    let mut work = bench.work();
    while work.round().await.unwrap().is_some() {}
    let operation = bench.operation("opr_1").await;
    assert_eq!((operation.done, operation.skipped), (2, 1));
    let (acts, _) = bench.acts().await;
    assert_eq!(acts.into_keys().collect::<Vec<_>>(), [ids[1], ids[2]]);
}

#[tokio::test] // REQ BK-7
async fn a_cancelled_campaigns_letters_stay_where_they_are() {
    let bench = Bench::new();
    let (mut of_campaign, other) = (draft(), draft());
    of_campaign.queue.campaign = Some("cmp_1".parse().unwrap());
    bench.store.accept(vec![of_campaign, other]).await.unwrap();
    assert_eq!(bench.die("wrong").await, 2);
    let text = r#"{"name": "x", "channel": "crm", "lane": "default", "template": "x", "template_version": 1,
        "created_at": "2027-01-15T08:00:00Z", "created_by": "ana", "state": "cancelled",
        "finished_at": "2027-01-15T08:00:00Z", "by": "ana"}"#;
    let campaign = serde_json::from_str(text).unwrap();
    let wish = pombo_web::campaign::begin(&Tenant::default(), "cmp_1", &campaign);
    bench.store.shelve(vec![wish]).await.unwrap();
    bench.begin("opr_1", &Operation { created_at: bench.clock.now(), ..reprocess(0, None) }).await;
    let mut work = bench.work();
    while work.round().await.unwrap().is_some() {}
    let operation = bench.operation("opr_1").await;
    assert_eq!((operation.done, operation.skipped), (1, 1));
}

#[tokio::test] // REQ AU-3
async fn an_erasure_that_a_dead_process_left_goes_on_at_once_where_nobody_else_can_be_at_it() {
    let bench = Bench::new();
    let (tenant, now) = (Tenant::default(), bench.clock.now());
    let person = bench.store.pseudonyms().person(&tenant, "+5511987654321").unwrap();
    let mut left = erasure::Erasure::new(tenant, person, false, false);
    left.step = erasure::Step::Sweep;
    let erase = Operation::new(Kind::Erase, Stage::Erasing, Actor("ana".to_owned()), now).erasing(left, now);
    bench.begin("opr_1", &erase).await;
    let mut shared = bench.work();
    assert_eq!(shared.round().await.unwrap(), erase.due(), "another may be at it");
    assert!(shared.asking.is_empty());
    let mut alone = Work { alone: true, ..bench.work() };
    assert_eq!(alone.round().await.unwrap(), Some(now + ERASE_LOOK));
    alone.asking.join_next().await.unwrap().unwrap();
    assert!(matches!(bench.operation("opr_1").await.state, Standing::Done { .. }));
}
