//! What a channel gets to see of templates and attachments, through the whole engine, on both stores.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pombo_channels::{BoxFuture, Channel, Envelope};
use pombo_engine::core::{Core, Effect, Event};
use pombo_engine::{Engine, Meter};
use pombo_kernel::attachment::Blob;
use pombo_kernel::classify::{Rules, Verdict};
use pombo_kernel::dice::Dice;
use pombo_kernel::guard::Guard;
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::lifecycle::OnUnknownOutcome;
use pombo_kernel::message::{
    Actor, Body, ClaimId, ClaimKey, Draft, FailureReason, Message, Priority, Progress, QueueName, State,
    StateName,
};
use pombo_kernel::name::{LaneName, Tenant};
use pombo_kernel::policy::{Policy, Profile};
use pombo_kernel::reply::{Receipt, Reply};
use pombo_kernel::setup::{Care, ChannelSetup, Destination, EVENTS, LaneSetup, Limits, Setup};
use pombo_kernel::suppression::Family;
use pombo_kernel::template::Template;
use pombo_kernel::time::{Clock, Span, Time};
use pombo_store::memory::Memory;
use pombo_store::shelf::{Expect, Leaf, Shelf, Shelve};
use pombo_store::shell::Shell;
use pombo_store::sqlite::Sqlite;
use pombo_store::{Claimed, NodeId, Store, Story, suppression};
use serde_json::{Value, json};

#[derive(Debug)]
struct Noon;

impl Clock for Noon {
    fn now(&self) -> Time {
        Time::from_millis(1_800_000_000_000)
    }
}

/// Keeps what it was given, and takes it.
#[derive(Debug, Default)]
struct Keeping(Mutex<Vec<Value>>);

impl Channel for Keeping {
    fn send<'a>(&'a self, envelope: &'a Envelope, _: Duration) -> BoxFuture<'a, Reply> {
        self.0.lock().unwrap().push(serde_json::from_str(&envelope.content).unwrap());
        Box::pin(async { Reply::Accepted(Receipt::default()) })
    }
}

struct World {
    store: Arc<dyn Store>,
    channel: Arc<Keeping>,
    setup: Setup,
    _folder: tempfile::TempDir,
}

fn setup() -> Setup {
    let channel = |name: &str, kind, to: &str| {
        let channel = ChannelSetup {
            name: name.parse().unwrap(),
            kind,
            tenant: Tenant::default(),
            policy: Policy::built_in("whatsapp", Profile::Production).unwrap(),
            rules: Rules::for_kind(kind, &[]).unwrap(),
            on_unknown_outcome: OnUnknownOutcome::Resend,
            destination: Destination::Fixed(to.into()),
            attempt_timeout: Span::from_secs(30),
            unready: None,
            receipts: None,
            line: pombo_kernel::campaign::line::LineRules::default(),
            suppressions: pombo_kernel::setup::Suppressions::default(),
            care: Care::default(),
        };
        (channel.name.clone(), Arc::new(channel))
    };
    Setup {
        channels: [
            channel("mail", ChannelKind::Smtp, "relay"),
            channel("whatsapp", ChannelKind::Evolution, "instance"),
        ]
        .into(),
        lanes: BTreeMap::from([("default".parse().unwrap(), LaneSetup { workers: 2 })]),
        routes: Vec::new(),
        limits: Limits::default(),
        subscribers: Guard::default(),
        claims: Policy::claims(),
        alerts: Arc::default(),
        masked: std::collections::BTreeSet::new(),
        retention: Default::default(),
        dashboard: pombo_kernel::setup::Dashboard::default(),
    }
}

impl World {
    fn on_each_store() -> [World; 2] {
        let folder = || tempfile::tempdir().unwrap();
        let entropy = || {
            let mut n = 0u8;
            Box::new(move || {
                n = n.wrapping_add(1);
                [n; 32]
            })
        };
        let (one, two) = (folder(), folder());
        let sqlite = Sqlite::open(one.path(), Dice::seeded(7), &[7; 32]).unwrap();
        let sqlite = Shell::start(sqlite, Arc::new(Noon), entropy()).unwrap();
        let memory = Shell::start(Memory::new(Dice::seeded(7)), Arc::new(Noon), entropy()).unwrap();
        let world = |store: Arc<dyn Store>, folder| World {
            store,
            channel: Arc::default(),
            setup: setup(),
            _folder: folder,
        };
        [world(Arc::new(sqlite), one), world(Arc::new(memory), two)]
    }

    fn start(&self) -> Engine {
        let of = |name: &str| (name.parse().unwrap(), self.channel.clone() as Arc<dyn Channel>);
        let channels = [of("mail"), of("whatsapp")].into();
        Engine::start(
            self.store.clone(),
            Arc::new(self.setup.clone()),
            channels,
            Arc::new(Noon),
            1,
            &[],
            Meter::default(),
        )
    }

    async fn put(&self, words: &str) -> u32 {
        let template =
            Template { subject: Some("Oi".into()), text: Some(words.into()), ..Template::default() };
        let (name, by) = ("welcome".parse().unwrap(), Actor("ana".into()));
        self.store.put_template(Tenant::default(), name, template, by).await.unwrap().stored.version
    }

    async fn accept(&self, channel: &str, body: Body, blobs: Vec<Blob>) -> MessageId {
        self.accept_for(None, channel, body, blobs).await
    }

    async fn accept_for(
        &self,
        campaign: Option<&str>,
        channel: &str,
        body: Body,
        blobs: Vec<Blob>,
    ) -> MessageId {
        let draft = Draft {
            id: None,
            queue: QueueName {
                tenant: Tenant::default(),
                lane: "default".parse().unwrap(),
                channel: channel.parse().unwrap(),
                destination: "x".into(),
                campaign: campaign.map(|name| name.parse().unwrap()),
            },
            priority: Priority::default(),
            send_at: None,
            expires_at: None,
            ordering_key: None,
            idempotency: None,
            body,
            blobs,
        };
        self.store.accept(vec![draft]).await.unwrap()[0].as_ref().unwrap().id
    }

    async fn templated(&self, version: u32, payload: Value) -> MessageId {
        let body = Body {
            to: "ana@clinic.example".into(),
            template: Some("welcome".into()),
            template_version: Some(version),
            payload: Some(payload.into()),
            ..Body::default()
        };
        self.accept("mail", body, Vec::new()).await
    }

    async fn ended(&self, id: MessageId) -> Story {
        let mut changes = self.store.watch();
        let ended = tokio::time::timeout(Duration::from_secs(60), async {
            loop {
                changes.borrow_and_update();
                let story = self.store.story(Tenant::default(), id).await.unwrap().unwrap();
                if !matches!(story.state.name(), StateName::Pending | StateName::Sending) {
                    return story;
                }
                changes.changed().await.unwrap();
            }
        });
        ended.await.expect("the message never ended")
    }

    fn seen(&self) -> Vec<Value> {
        self.channel.0.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn a_message_is_rendered_with_the_version_that_it_was_accepted_with() {
    for world in World::on_each_store() {
        let first = world.put("um {{ nome }}").await;
        let old = world.templated(first, json!({"nome": "Ana"})).await;
        let second = world.put("dois {{ nome }}").await;
        let new = world.templated(second, json!({"nome": "Bia"})).await;
        let engine = world.start();
        for id in [old, new] {
            assert_eq!(world.ended(id).await.state.name(), StateName::Sent);
        }
        let mut seen = world.seen();
        seen.sort_by_key(ToString::to_string);
        let content = |text: &str| json!({"subject": "Oi", "text": text});
        assert_eq!(seen, [content("dois Bia"), content("um Ana")]);
        engine.stop(Duration::from_secs(5)).await;
    }
}

#[tokio::test] // RELIABILITY 54
async fn a_render_error_is_a_dead_letter_and_calls_nobody() {
    for world in World::on_each_store() {
        let version = world.put("Olá,\n{{ user.nome }}").await;
        let engine = world.start();
        let story = world.ended(world.templated(version, json!({"user": {"canary": 1}})).await).await;
        assert!(matches!(story.state, State::Failed { reason: FailureReason::PermanentError, .. }));
        let failure = story.attempts[0].failure.as_ref().unwrap();
        assert_eq!((failure.verdict, failure.category.as_str()), (Verdict::Permanent, "template_error"));
        assert_eq!(
            failure.text,
            "template `welcome` version 1: text, line 2: `user.nome` is not in the payload"
        );
        assert!(!failure.perhaps_sent);
        let gone = world.ended(world.templated(9, json!({})).await).await;
        assert!(gone.attempts[0].failure.as_ref().unwrap().text.contains("there is no such template"));
        assert_eq!(world.seen(), Vec::<Value>::new());
        engine.stop(Duration::from_secs(5)).await;
    }
}

#[tokio::test] // REQ SE-2
async fn what_a_payload_makes_of_a_template_is_checked_as_content() {
    let [world, _] = World::on_each_store();
    let version = world.put("{{ nome }}").await;
    let engine = world.start();
    let story = world.ended(world.templated(version, json!({"nome": ""})).await).await;
    let failure = story.attempts[0].failure.as_ref().unwrap();
    assert_eq!(failure.category, "bad_content");
    assert!(failure.text.contains("has neither text nor html"), "{}", failure.text);
    assert_eq!(world.seen(), Vec::<Value>::new());
    engine.stop(Duration::from_secs(5)).await;
}

#[tokio::test] // REQ BK-8
async fn a_campaigns_message_to_somebody_on_the_list_by_now_ends_without_a_call() {
    for world in World::on_each_store() {
        let body = |to: &str, n: u8| Body {
            to: to.into(),
            content: Some(json!({"text": n}).into()),
            ..Body::default()
        };
        let of_campaign = async |channel: &str, to: &str, n: u8| {
            world.accept_for(Some("cmp_1"), channel, body(to, n), Vec::new()).await
        };
        let left_out = of_campaign("whatsapp", "+5511987654321", 1).await;
        let sent = [
            of_campaign("whatsapp", "+5511987654322", 2).await,
            // By another kind of address it is another person, and a message of no campaign goes all the same.
            of_campaign("mail", "5511987654321@clinic.example", 3).await,
            world.accept("whatsapp", body("+5511987654321", 4), Vec::new()).await,
        ];
        let (kind, recipient) = (Family::Whatsapp, "+551187654321");
        let entry = json!({"id": "sup_1", "kind": kind, "recipient": recipient, "reason": "opt_out",
            "created_at": Noon.now(), "created_by": "ana"});
        let wish = Shelve {
            shelf: Shelf::Suppression,
            tenant: Tenant::default(),
            id: suppression::place(kind, recipient),
            expect: Expect::Nothing,
            leaf: Some(Leaf { order: 0, topic: None, due: None, body: entry.to_string() }),
            record: None,
        };
        world.store.shelve(vec![wish]).await.unwrap();
        let engine = world.start();
        for id in sent {
            assert_eq!(world.ended(id).await.state.name(), StateName::Sent);
        }
        let story = world.ended(left_out).await;
        assert_eq!(story.state, State::Cancelled { at: Noon.now(), by: Actor::engine() });
        assert_eq!(story.attempts, []);
        assert_eq!(story.deeds[0].note.as_deref(), Some("the recipient is on the suppression list: opt_out"));
        let mut seen: Vec<u64> = world.seen().iter().map(|seen| seen["text"].as_u64().unwrap()).collect();
        seen.sort_unstable();
        assert_eq!(seen, [2, 3, 4]);
        engine.stop(Duration::from_secs(5)).await;
    }
}

#[tokio::test] // REQ ML-10
async fn a_channel_sees_attachments_as_they_were_accepted() {
    for world in World::on_each_store() {
        let request = |channel: &str, to: &str, content: Value| {
            json!({"channel": channel, "to": to, "content": content}).to_string()
        };
        let file = "QUJD".repeat(100_000);
        let mail = json!({"subject": "s", "text": "t", "attachments": [
            {"filename": "a.pdf", "content": file}, {"filename": "b.txt", "content": "QUJD"}
        ]});
        let photo = json!({"media": {"mediatype": "image", "media": "QUJD".repeat(9_000), "caption": "c"}});
        let engine = world.start();
        for (text, content) in [
            (request("mail", "ana@clinic.example", mail.clone()), mail),
            (request("whatsapp", "+5511987654321", photo.clone()), photo),
        ] {
            let drafted = world.setup.draft_json(text.as_bytes(), &Tenant::default(), Noon.now()).unwrap();
            assert_eq!(drafted.draft.blobs.len(), 1);
            let accepted = world.store.accept(vec![drafted.draft]).await.unwrap();
            let id = accepted[0].as_ref().unwrap().id;
            let story = world.ended(id).await;
            assert_eq!(story.state.name(), StateName::Sent);
            assert!(story.message.body.content.as_ref().unwrap().text().len() < 1_000);
            assert_eq!(world.seen().pop(), Some(content));
        }
        engine.stop(Duration::from_secs(5)).await;
    }
}

#[tokio::test] // REQ ML-10
async fn an_attachment_that_is_gone_is_a_dead_letter() {
    let [world, _] = World::on_each_store();
    let engine = world.start();
    let file = json!({"filename": "a", "content": {"blob": "00".repeat(32), "size": 5_000}});
    let content = json!({"subject": "s", "text": "t", "attachments": [file]});
    let body = Body { to: "ana@clinic.example".into(), content: Some(content.into()), ..Body::default() };
    let story = world.ended(world.accept("mail", body, Vec::new()).await).await;
    let failure = story.attempts[0].failure.as_ref().unwrap();
    assert_eq!(failure.category, "bad_content");
    assert!(failure.text.contains("no longer stored"));
    engine.stop(Duration::from_secs(5)).await;
}

#[test]
fn a_message_whose_template_cannot_be_read_just_now_is_given_back_uncharged() {
    let (now, mut dice) = (Noon.now(), Dice::seeded(1));
    let mut core = Core::new(NodeId(1), Arc::new(setup()), &[]);
    core.step(Event::Started, now, &mut dice);
    let effects = core.step(Event::Alive { since: now }, now, &mut dice);
    let ask = effects.into_iter().find_map(|effect| match effect {
        Effect::Claim(ask) => Some(ask),
        _ => None,
    });
    let queue = QueueName {
        tenant: Tenant::default(),
        lane: "default".parse().unwrap(),
        channel: "mail".parse().unwrap(),
        destination: "relay".into(),
        campaign: None,
    };
    let message = Message {
        id: MessageId::new(MessageKey::at(now), 1),
        queue: Arc::new(queue),
        priority: Priority::default(),
        send_at: None,
        expires_at: None,
        ordering_key: None,
        body: Body::default(),
    };
    let key = ClaimKey { message: message.id, claim: ClaimId(1) };
    let progress = Progress::default();
    let claimed = Claimed {
        key,
        message: Arc::new(message),
        progress,
        due: now,
        claimed_at: now,
        failing_since: None,
        probe: None,
    };
    let lane: LaneName = "default".parse().unwrap();
    let asked = ask.unwrap().max;
    let effects = core.step(Event::Claimed { lane, asked, claimed: vec![claimed] }, now, &mut dice);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Send { kind: ChannelKind::Smtp, .. })));
    let effects = core.step(Event::Unsent { key }, now, &mut dice);
    assert!(matches!(&effects[..], [Effect::Release(keys)] if *keys == [key]), "{effects:?}");
    assert_eq!(core.in_flight(), 1, "its slot is taken until that is durable");
    core.step(Event::Released(vec![key]), now, &mut dice);
    assert_eq!(core.in_flight(), 0);
    assert!(core.step(Event::Unsent { key }, now, &mut dice).is_empty());
}

/// Keeps where it was to send, and how many sign it.
#[derive(Debug, Default)]
struct Addressed(Mutex<Vec<(String, usize)>>);

impl Channel for Addressed {
    fn send<'a>(&'a self, envelope: &'a Envelope, _: Duration) -> BoxFuture<'a, Reply> {
        self.0.lock().unwrap().push((envelope.to.clone(), envelope.signers.len()));
        Box::pin(async { Reply::Accepted(Receipt::default()) })
    }
}

#[tokio::test] // REQ ML-7
async fn an_event_goes_where_its_subscriber_is_now_and_nowhere_once_there_is_none() {
    for mut world in World::on_each_store() {
        let events = ChannelSetup {
            name: EVENTS.parse().unwrap(),
            kind: ChannelKind::Webhook,
            ..(*world.setup.channels["mail"]).clone()
        };
        world.setup.channels.insert(events.name.clone(), Arc::new(events));
        let body =
            |to: &str| Body { to: to.into(), content: Some(json!({"body": 1}).into()), ..Body::default() };
        let shelve = async |id: &str, leaf: Option<&Value>| {
            let leaf = leaf.map(|body| Leaf { order: 0, topic: None, due: None, body: body.to_string() });
            let (tenant, id) = (Tenant::default(), id.to_owned());
            let wish = Shelve { shelf: Shelf::Webhook, tenant, id, expect: Expect::Any, leaf, record: None };
            world.store.shelve(vec![wish]).await.unwrap();
        };
        let secret = |n: u8| json!({"secret": pombo_kernel::signature::secret(&[n; 32])});
        let mut subscription = json!({"url": "https://old.example/", "secrets": [secret(1), secret(2)], "since": 0,
            "created_at": "2026-01-31T10:20:30.000Z"});
        shelve("whk_1", Some(&subscription)).await;
        let goes = world.accept(EVENTS, body("whk_1"), Vec::new()).await;
        let removed = world.accept(EVENTS, body("whk_2"), Vec::new()).await;
        subscription["url"] = json!("https://new.example/");
        shelve("whk_1", Some(&subscription)).await;
        subscription["disabled"] = json!({"at": "2026-01-31T10:20:30.000Z", "reason": "enough"});
        shelve("whk_3", Some(&subscription)).await;
        let disabled = world.accept(EVENTS, body("whk_3"), Vec::new()).await;

        let channel = Arc::new(Addressed::default());
        let channels = [(EVENTS.parse().unwrap(), channel.clone() as Arc<dyn Channel>)].into();
        let setup = Arc::new(world.setup.clone());
        let engine =
            Engine::start(world.store.clone(), setup, channels, Arc::new(Noon), 1, &[], Meter::default());
        assert_eq!(world.ended(goes).await.state.name(), StateName::Sent);
        for (id, why) in [(removed, "the webhook was removed"), (disabled, "the webhook is disabled: enough")]
        {
            let story = world.ended(id).await;
            assert!(matches!(story.state, State::Failed { reason: FailureReason::PermanentError, .. }));
            let failure = story.attempts[0].failure.as_ref().unwrap();
            assert_eq!((failure.category.as_str(), failure.text.as_str()), ("webhook_removed", why));
        }
        assert_eq!(*channel.0.lock().unwrap(), [("https://new.example/".to_owned(), 2)]);
        engine.stop(Duration::from_secs(5)).await;
    }
}
