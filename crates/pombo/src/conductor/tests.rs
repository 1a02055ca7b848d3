//! Rounds by hand, on the model: time stands still unless it is told to pass.

use pombo_kernel::campaign::StateName;
use pombo_kernel::campaign::recipient::{Listed, Person};
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{Attempt, AttemptOutcome, Message, Progress, StateName as MessageState};
use pombo_kernel::name::Tenant;
use pombo_kernel::reply::Receipt;
use pombo_kernel::suppression::{Family, Reason, Suppression};
use pombo_kernel::template::Template;
use pombo_store::roster::Enlist;
use pombo_store::shelf::{Expect, Shelve};
use pombo_store::{Ask, Claimed, NodeId, Settled, Settlement};

use super::*;
use crate::by_hand::{Hand, T0, configured, model};

const ID: &str = "cmp_1";

struct Bench {
    store: Arc<dyn Store>,
    clock: Arc<Hand>,
    setup: watch::Sender<Arc<Setup>>,
}

fn tenant() -> Tenant {
    Tenant::default()
}

impl Bench {
    /// A campaign to so many, as a draft.
    async fn new(recipients: u64) -> Bench {
        let (store, clock) = model();
        let setup = configured("[channels.zap]\nkind = \"evolution\"\n");
        let bench = Bench { store, clock, setup };
        let template =
            Template { whatsapp: Some("Oi {{ nome }} da {{ clinica }}".into()), ..Template::default() };
        let name = "retorno".parse().unwrap();
        bench.store.put_template(tenant(), name, template, Actor::engine()).await.unwrap();
        let campaign = json!({
            "name": "Retorno", "channel": "zap", "lane": "bulk", "template": "retorno", "template_version": 1,
            "payload": {"clinica": "Sol", "nome": "você"}, "expires_after": "48h",
            "created_at": T0, "created_by": "ana", "state": "draft",
        });
        let campaign: Campaign = serde_json::from_value(campaign).unwrap();
        let wish = Shelve {
            shelf: Shelf::Campaign,
            tenant: tenant(),
            id: ID.to_owned(),
            expect: Expect::Nothing,
            leaf: Some(roster::leaf(&campaign)),
            record: None,
        };
        bench.store.shelve(vec![wish]).await.unwrap();
        let lines = (1..=recipients).map(|line| {
            let to = address(line);
            let payload = (line % 2 == 1).then(|| json!({"nome": format!("Ana {line}")}).into());
            Listed { line, of: Ok(Person { key: to.clone(), to, payload }) }
        });
        let wish = Enlist {
            tenant: tenant(),
            campaign: ID.parse().unwrap(),
            lines: lines.collect(),
            by: Actor::engine(),
        };
        bench.store.enlist(wish).await.unwrap().unwrap();
        bench
    }

    async fn started(recipients: u64) -> Bench {
        let bench = Bench::new(recipients).await;
        bench.change(|campaign| campaign.start(T0).unwrap()).await;
        bench
    }

    fn work(&self) -> Work {
        Work { store: self.store.clone(), setup: self.setup.subscribe(), clock: self.clock.clone() }
    }

    /// Goes on until nothing is due.
    async fn rounds(&self) {
        let mut work = self.work();
        while work.round().await.unwrap().is_some_and(|wake| wake <= self.clock.now()) {}
    }

    async fn change(&self, change: impl FnOnce(&mut Campaign)) {
        let doc = self.doc().await;
        let mut campaign = roster::read(&doc).unwrap();
        change(&mut campaign);
        let wish = Shelve {
            shelf: Shelf::Campaign,
            tenant: tenant(),
            id: ID.to_owned(),
            expect: Expect::Version(doc.version),
            leaf: Some(roster::leaf(&campaign)),
            record: None,
        };
        assert!(matches!(self.store.shelve(vec![wish]).await.unwrap()[..], [Shelved::Done { .. }]));
    }

    async fn doc(&self) -> Doc {
        self.store.doc(Shelf::Campaign, tenant(), ID.to_owned()).await.unwrap().unwrap()
    }

    async fn campaign(&self) -> Campaign {
        roster::read(&self.doc().await).unwrap()
    }

    async fn list(&self, standing: Standing) -> Vec<Recipient> {
        let (campaign, standing) = (ID.parse().unwrap(), Some(standing));
        let roster = Roster { tenant: tenant(), campaign, standing, after: 0, limit: 1_000 };
        self.store.recipients(roster).await.unwrap()
    }

    async fn message(&self, recipient: &Recipient) -> Arc<Message> {
        let id = recipient.message.unwrap();
        self.store.story(tenant(), id).await.unwrap().unwrap().message
    }

    async fn suppress(&self, to: &str, reason: Reason) {
        let entry = Suppression {
            id: format!("sup_{to}"),
            kind: Family::Whatsapp,
            recipient: Family::Whatsapp.normalised(to).unwrap(),
            reason,
            source: None,
            note: None,
            created_at: T0,
            created_by: "ana".to_owned(),
        };
        self.store.shelve(vec![suppression::put(&tenant(), &entry)]).await.unwrap();
    }

    async fn claim(&self) -> Vec<Claimed> {
        let ask = Ask { node: NodeId(1), lane: "bulk".parse().unwrap(), max: 10, rates: Arc::default() };
        self.store.claim(ask).await.unwrap()
    }

    /// The one that may set out now arrives.
    async fn arrive(&self) {
        for claimed in self.claim().await {
            assert_eq!(self.settle(&claimed).await, Settled::Done);
        }
    }

    async fn settle(&self, claimed: &Claimed) -> Settled {
        let now = self.clock.now();
        let settlement = Settlement {
            key: claimed.key,
            attempt: Attempt {
                round: claimed.progress.round,
                number: 1,
                started_at: now,
                finished_at: now,
                outcome: AttemptOutcome::Sent,
                failure: None,
                next_delay: None,
                explanation: String::new(),
                policy: None,
            },
            next: Next::Sent(Receipt::default()),
            progress: Progress { attempts: 1, steps: 1, ..claimed.progress },
            block: Default::default(),
            vitals: Default::default(),
            reported: false,
            chance: 0,
        };
        self.store.settle(vec![settlement]).await.unwrap()[0]
    }

    /// What the audit says of campaigns, in order.
    async fn events(&self) -> Vec<(Event, Value)> {
        let records = self.store.audit(0, 10_000).await.unwrap();
        let of_campaigns =
            records.into_iter().filter(|(_, record)| record.event.as_str().starts_with("campaign_"));
        of_campaigns
            .map(|(_, record)| (record.event, serde_json::from_str(&record.detail).unwrap()))
            .collect()
    }
}

fn address(line: u64) -> String {
    format!("+55119876500{line:02}")
}

#[tokio::test] // REQ BK-7
async fn a_scheduled_campaign_starts_when_its_time_has_come() {
    let bench = Bench::new(3).await;
    let start_at = T0 + Span::from_hours(1);
    bench.change(|campaign| campaign.schedule(start_at).unwrap()).await;
    assert_eq!(bench.work().round().await.unwrap(), Some(start_at));
    assert_eq!(bench.campaign().await.state.name(), StateName::Scheduled);
    bench.clock.pass(Span::from_hours(1));
    bench.rounds().await;
    let campaign = bench.campaign().await;
    assert_eq!(campaign.state, State::Running { since: start_at });
    assert_eq!((campaign.roll.queued, campaign.roll.pending), (3, 0));
    let started = (Event::CampaignStarted, json!({"campaign": ID, "recipients": 3}));
    assert_eq!(bench.events().await, [started]);
}

#[tokio::test] // REQ BK-4, BK-5
async fn messages_are_made_as_a_caller_would_have_asked_for_them_and_a_few_ahead_only() {
    let bench = Bench::started(40).await;
    bench.rounds().await;
    let queued = bench.list(Standing::Queued).await;
    assert_eq!(queued.iter().map(|it| it.number).collect::<Vec<_>>(), (1..=16).collect::<Vec<_>>());
    let [one, two] = [bench.message(&queued[0]).await, bench.message(&queued[1]).await];
    assert_eq!(one.queue.campaign, Some(ID.parse().unwrap()));
    assert_eq!((one.queue.lane.as_str(), one.queue.channel.as_str()), ("bulk", "zap"));
    assert_eq!(
        (one.body.to.as_str(), one.body.kind.as_deref()),
        ("+5511987650001", Some("send_bulk_messages"))
    );
    assert_eq!((one.body.template.as_deref(), one.body.template_version), (Some("retorno"), Some(1)));
    assert_eq!(one.expires_at, Some(T0 + Span::from_hours(48)));
    let payload = |message: &Message| {
        serde_json::from_str::<Value>(message.body.payload.as_ref().unwrap().text()).unwrap()
    };
    assert_eq!(
        payload(&one),
        json!({"clinica": "Sol", "nome": "Ana 1"}),
        "its own words come over everybody's"
    );
    assert_eq!(payload(&two), json!({"clinica": "Sol", "nome": "você"}));
    // Eight of them leave, and the next are made.
    for _ in 0..9 {
        bench.arrive().await;
        bench.clock.pass(Span::from_secs(25));
    }
    bench.rounds().await;
    assert_eq!(bench.campaign().await.roll.ahead, 16);
}

#[tokio::test] // REQ BK-4
async fn nodes_that_feed_the_same_campaign_make_one_message_for_each() {
    let bench = Bench::started(12).await;
    let [mut one, mut two, mut three] = [bench.work(), bench.work(), bench.work()];
    for _ in 0..3 {
        let (one, two, three) = tokio::join!(one.round(), two.round(), three.round());
        assert!(one.is_ok() && two.is_ok() && three.is_ok());
    }
    let page = bench.store.page(Default::default(), None, 100).await.unwrap();
    assert_eq!(page.lines.len(), 12);
    assert_eq!(bench.list(Standing::Queued).await.len(), 12);
}

#[tokio::test] // REQ BK-8
async fn whoever_is_not_to_be_written_to_is_left_out_and_the_list_says_why() {
    let bench = Bench::started(20).await;
    // As people write it, and without the ninth digit.
    bench.suppress("(11) 98765-0002", Reason::OptOut).await;
    bench.suppress("+55 11 8765-0003", Reason::InvalidRecipient).await;
    bench.rounds().await;
    let left_out = bench.list(Standing::Suppressed).await;
    let said: Vec<_> = left_out.iter().map(|it| (it.number, it.reason.as_deref())).collect();
    assert_eq!(said, [(2, Some("opt_out")), (3, Some("invalid_recipient"))]);
    let roll = bench.campaign().await.roll;
    assert_eq!((roll.suppressed, roll.ahead, roll.pending), (2, 14, 4));
}

#[tokio::test] // REQ BK-8
async fn a_campaign_to_nobody_but_the_suppressed_is_complete() {
    let bench = Bench::started(40).await;
    for line in 1..=40 {
        bench.suppress(&address(line), Reason::OptOut).await;
    }
    bench.rounds().await;
    let campaign = bench.campaign().await;
    assert_eq!((campaign.state.name(), campaign.roll.suppressed), (StateName::Completed, 40));
}

#[tokio::test] // REQ BK-7
async fn a_campaign_that_cannot_be_sent_as_it_is_stops_with_words() {
    let cases = [
        ("[channels.other]\nkind = \"evolution\"\n", "retorno", "there is no channel `zap` any more"),
        (
            "[channels.zap]\nkind = \"evolution\"\n",
            "gone",
            "there is no version 1 of template `gone` any more",
        ),
        ("[channels.zap]\nkind = \"smtp\"\n", "retorno", "needs `subject`, and `text` or `html`"),
        (
            "[channels.zap]\nkind = \"evolution\"\n[channels.zap.retry]\nexpires_after = \"1h\"\n",
            "retorno",
            "expires_after: is longer than 1h",
        ),
    ];
    for (config, template, words) in cases {
        let bench = Bench::started(3).await;
        bench.setup.send_replace(configured(config).borrow().clone());
        bench.change(|campaign| campaign.template = template.parse().unwrap()).await;
        bench.rounds().await;
        let State::Paused { reason, note, .. } = bench.campaign().await.state else { panic!("it goes on") };
        assert_eq!(reason, PauseReason::Trouble);
        assert!(note.contains(words), "{note}");
        let said = bench.events().await.pop().unwrap();
        assert_eq!(said, (Event::CampaignPaused, json!({"campaign": ID, "reason": "trouble", "note": note})));
        assert!(bench.list(Standing::Queued).await.is_empty());
    }
}

#[tokio::test]
async fn a_campaign_that_counts_on_people_whom_its_list_does_not_have_stops_with_words() {
    let bench = Bench::started(2).await;
    bench.change(|campaign| campaign.enlisted([3, 0, 0])).await;
    bench.rounds().await;
    assert_eq!(bench.campaign().await.state.name(), StateName::Running);
    assert_eq!(bench.campaign().await.roll.queued, 2);
    bench.rounds().await;
    let State::Paused { reason, note, .. } = bench.campaign().await.state else { panic!("it goes on") };
    assert_eq!(reason, PauseReason::Trouble);
    assert_eq!(note, "3 of its recipients are pending, and its list has none of them");
    assert_eq!(bench.events().await.len(), 1, "and does not stop twice");
    // What was made is sent once somebody resumes it, and then it stops again.
    bench.change(|campaign| campaign.start(T0).unwrap()).await;
    bench.arrive().await;
    bench.rounds().await;
    assert_eq!(bench.campaign().await.roll.sent, 1);
    assert_eq!(bench.campaign().await.state.name(), StateName::Paused);
}

#[tokio::test]
async fn somebody_for_whom_no_message_can_be_made_keeps_nobody_else_back() {
    let bench = Bench::new(2).await;
    let wish = Enlist {
        tenant: tenant(),
        campaign: ID.parse().unwrap(),
        lines: vec![Listed { line: 3, of: Ok(Person { to: "12".into(), key: "12".into(), payload: None }) }],
        by: Actor::engine(),
    };
    bench.store.enlist(wish).await.unwrap().unwrap();
    bench.change(|campaign| campaign.start(T0).unwrap()).await;
    bench.rounds().await;
    let roll = bench.campaign().await.roll;
    assert_eq!((roll.queued, roll.failed), (2, 1));
    let failed = bench.list(Standing::Failed).await;
    assert!(failed[0].reason.as_ref().unwrap().starts_with("to: "), "{failed:?}");
}

#[tokio::test] // REQ BK-7
async fn a_cancelled_campaign_calls_back_what_waits_and_lets_go_to_its_end_what_is_on_its_way() {
    let bench = Bench::started(30).await;
    bench.rounds().await;
    let on_its_way = bench.claim().await;
    assert_eq!(on_its_way.len(), 1);
    let ana = Actor("ana".to_owned());
    bench.change(|it| it.pause(PauseReason::Cancelling, String::new(), &ana, T0).unwrap()).await;
    let mut work = bench.work();
    assert_eq!(work.round().await.unwrap(), Some(T0), "it called some back, and looks again");
    assert_eq!(work.round().await.unwrap(), Some(T0 + WATCH_EVERY), "one is on its way");
    assert_eq!(bench.campaign().await.state.name(), StateName::Paused);
    assert_eq!(bench.settle(&on_its_way[0]).await, Settled::Done);
    bench.rounds().await;
    let campaign = bench.campaign().await;
    assert_eq!(campaign.state, State::Cancelled { finished_at: T0, by: ana });
    let roll = campaign.roll;
    assert_eq!((roll.sent, roll.cancelled, roll.left()), (1, 29, 0));
    let detail = json!({"campaign": ID, "sent": 1, "failed": 0, "cancelled": 29});
    assert_eq!(bench.events().await, [(Event::CampaignCancelled, detail)]);
    let called_back = bench.list(Standing::Cancelled).await;
    let story = bench.store.story(tenant(), called_back[0].message.unwrap()).await.unwrap().unwrap();
    assert_eq!(story.state.name(), MessageState::Cancelled);
}

#[tokio::test] // REQ BK-3
async fn a_send_that_does_not_end_is_cut_off_at_the_hard_limit() {
    let bench = Bench::started(1).await;
    bench.rounds().await;
    let claimed = bench.claim().await;
    let hard = Span::from_secs(420);
    assert_eq!(bench.work().round().await.unwrap(), Some(T0 + hard));
    bench.clock.pass(hard);
    bench.rounds().await;
    let State::Paused { reason, .. } = bench.campaign().await.state else { panic!("it goes on") };
    assert_eq!(reason, PauseReason::TimeLimit);
    let taken_over = bench.store.take_over(NodeId(2), 10).await.unwrap();
    assert_eq!(taken_over[0].key.message, claimed[0].key.message);
    assert_eq!(bench.settle(&claimed[0]).await, Settled::Stale, "whoever had it has lost it");
}

#[tokio::test(start_paused = true)]
async fn it_wakes_by_itself_when_a_campaign_is_started() {
    let bench = Bench::new(3).await;
    let _conductor = Conductor::start(bench.store.clone(), bench.setup.subscribe(), bench.clock.clone());
    bench.change(|campaign| campaign.start(T0).unwrap()).await;
    let mut moved = bench.store.watch();
    while bench.campaign().await.roll.queued < 3 {
        moved.changed().await.unwrap();
    }
}
