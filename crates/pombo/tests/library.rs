//! The library as a program that embeds it sees it: through its public names alone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[allow(dead_code, reason = "its `main` is not called here")]
#[path = "../examples/embed.rs"]
mod embed;
#[allow(dead_code, reason = "its `main` is not called here")]
#[path = "../examples/own_channel.rs"]
mod own_channel;

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pombo::client::{Client, Payload};
use pombo::{
    BoxFuture, Cancelled, Channel, Database, Door, Envelope, Fault, FaultKind, Handling, OnUnknownOutcome,
    OneOf, Options, Overrides, Pombo, Receipt, Refusal, Reply, Request, Rule, SendError, Span, StartError,
    State, StateName, StoreError, Template, Time, Verdict, json,
};
use pombo_testbed::Cluster;
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(120);
const GRACE: Duration = Duration::from_secs(5);

/// Answers as it is told, and counts.
#[derive(Clone, Debug)]
struct Told {
    reply: Reply,
    calls: Arc<AtomicUsize>,
}

impl Told {
    fn to(reply: Reply) -> Told {
        Told { reply, calls: Arc::default() }
    }

    fn accept() -> Told {
        Told::to(Reply::Accepted(Receipt::default()))
    }
}

impl Channel for Told {
    fn send<'a>(&'a self, _: &'a Envelope, _: Duration) -> BoxFuture<'a, Reply> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { self.reply.clone() })
    }
}

fn options(folder: &Path) -> Options {
    Options { data: folder.to_owned(), ..Options::default() }
}

fn request(key: Option<&str>) -> Request {
    Request {
        channel: "told".into(),
        to: "ana".into(),
        content: Some(json!({"text": "oi"}).into()),
        idempotency_key: key.map(str::to_owned),
        ..Request::default()
    }
}

async fn started(channel: Told, handling: Handling) -> (Pombo, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path()).channel_with("told", channel, handling);
    (Pombo::start(options).await.unwrap(), folder)
}

/// Where a message ends that meets that reply.
async fn end(reply: Reply, handling: Handling) -> (State, usize) {
    let (pombo, _folder) = started(Told::to(reply), handling).await;
    let id = pombo.send(request(None)).await.unwrap();
    let story = tokio::time::timeout(SOON, pombo.wait(id)).await.unwrap().unwrap().unwrap();
    pombo.stop(GRACE).await.unwrap();
    (story.state, story.attempts.len())
}

#[tokio::test] // REQ IN-4
async fn the_examples_do_what_they_say_and_end() {
    tokio::time::timeout(SOON, embed::run()).await.unwrap().unwrap();
    tokio::time::timeout(SOON, own_channel::run()).await.unwrap().unwrap();
}

#[tokio::test] // REQ IN-4
async fn a_channel_of_ones_own_is_retried_by_its_policy_and_judged_by_its_rules() {
    let retry = Overrides { delays: Some(vec![Span::from_millis(5); 2]), ..Overrides::default() };
    let handling = Handling { retry, ..Handling::default() };
    let down = Reply::Unreachable(Fault { kind: FaultKind::ConnectionRefused, text: "down".into() });
    let (state, attempts) = end(down, handling.clone()).await;
    assert_eq!((state.name(), attempts), (StateName::Failed, 3));

    let refused = Reply::Refused(Refusal { name: Some("PAGER_LOST".into()), ..Refusal::default() });
    let rule =
        Rule { name: Some(OneOf(vec!["PAGER_LOST".into()])), ..Rule::new(Verdict::Permanent, "pager_lost") };
    let (state, attempts) = end(refused, Handling { rules: vec![rule], ..handling.clone() }).await;
    assert_eq!((state.name(), attempts), (StateName::Failed, 1));

    let doubtful = Reply::Doubtful(Fault { kind: FaultKind::Timeout, text: "no answer".into() });
    let hold = Handling { on_unknown_outcome: OnUnknownOutcome::Hold, ..handling };
    let (state, attempts) = end(doubtful, hold).await;
    assert_eq!((state.name(), attempts), (StateName::Failed, 1));
}

#[tokio::test] // REQ ML-3
async fn the_same_request_under_the_same_key_is_the_same_message_at_both_doors() {
    let folder = tempfile::tempdir().unwrap();
    let key = "a-key-that-only-this-test-knows";
    let door = Door { listen: (Ipv4Addr::LOCALHOST, 0).into(), admin_key: key.into() };
    let options = Options { door: Some(door), ..options(folder.path()) }.channel("told", Told::accept());
    assert!(!format!("{options:?}").contains(key));
    let pombo = Pombo::start(options).await.unwrap();
    let id = pombo.send(request(Some("order-1"))).await.unwrap();
    assert_eq!(pombo.send(request(Some("order-1"))).await, Ok(id));
    let other = Request { to: "bia".into(), ..request(Some("order-1")) };
    assert_eq!(pombo.send(other).await, Err(SendError::Conflict(id)));
    assert_ne!(pombo.send(request(None)).await.unwrap(), id);

    let client = Client::new(&format!("http://{}", pombo.address().unwrap()), Some(key)).unwrap();
    let body = json!({"to": "ana", "content": {"text": "oi"}, "channel": "told"});
    let payload = Payload { idempotency_key: Some("order-1".into()), ..Payload::json(&body) };
    assert_eq!(client.post("/v1/messages", payload).await.unwrap()["id"], id.to_string());
    pombo.stop(GRACE).await.unwrap();
}

#[tokio::test] // REQ IN-4
async fn a_request_that_cannot_be_accepted_is_refused_with_every_problem() {
    let (pombo, _folder) = started(Told::accept(), Handling::default()).await;
    let wrong = Request { channel: "tolt".into(), priority: Some(10), ..request(None) };
    let Err(SendError::Refused(problems)) = pombo.send(wrong).await else { panic!("it was accepted") };
    let fields: Vec<_> = problems.iter().map(|problem| problem.field.as_ref()).collect();
    assert_eq!(fields, ["channel", "priority"]);
    assert_eq!(problems[0].hint, "did you mean `told`?");
    let long = "x".repeat(300);
    let refused = pombo.send(request(Some(&long))).await.unwrap_err();
    assert!(refused.to_string().starts_with("idempotency_key: "), "{refused}");
    pombo.stop(GRACE).await.unwrap();
}

#[tokio::test] // REQ IN-4
async fn a_message_that_still_waits_can_be_cancelled() {
    let (pombo, _folder) = started(Told::accept(), Handling::default()).await;
    let later = Request { send_at: Some(Time::MAX - Span::from_hours(1)), ..request(None) };
    let id = pombo.send(later).await.unwrap();
    let waiting = tokio::spawn({
        let pombo = pombo.clone();
        async move { pombo.wait(id).await }
    });
    assert_eq!(pombo.cancel(id).await, Ok(Cancelled::Done));
    let story = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap().unwrap();
    assert_eq!(story.state.name(), StateName::Cancelled);
    assert_eq!(pombo.cancel(id).await, Ok(Cancelled::TooLate(StateName::Cancelled)));
    pombo.stop(GRACE).await.unwrap();
}

#[tokio::test] // REQ ML-1
async fn what_was_accepted_is_there_after_the_next_start_and_one_process_has_the_folder() {
    let channel = Told::accept();
    let (pombo, folder) = started(channel.clone(), Handling::default()).await;
    let later = Request { expires_after: Some(Span::from_hours(1)), ..request(None) };
    let id = pombo.send(later).await.unwrap();
    pombo.wait(id).await.unwrap().unwrap();
    let second = Pombo::start(options(folder.path())).await.unwrap_err();
    assert!(matches!(second, StartError::Store { .. }), "{second}");

    pombo.stop(GRACE).await.unwrap();
    pombo.stop(GRACE).await.unwrap();
    let broken = tokio::time::timeout(Duration::from_millis(50), pombo.broken()).await;
    assert!(broken.is_err(), "a stop is no failure: {broken:?}");
    assert_eq!(pombo.send(request(None)).await, Err(SendError::Store(StoreError::Closed)));
    drop(pombo);
    let pombo = Pombo::start(options(folder.path())).await.unwrap();
    assert_eq!(pombo.message(id).await.unwrap().unwrap().state.name(), StateName::Sent);
    assert_eq!(channel.calls.load(Ordering::SeqCst), 1);
    pombo.stop(GRACE).await.unwrap();
}

#[tokio::test] // REQ IN-4
async fn a_message_whose_channel_is_not_there_waits_until_it_is() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody works the lane that it takes.
    let elsewhere = Options { lanes: vec!["bulk".into()], ..options(folder.path()) };
    let pombo = Pombo::start(elsewhere.channel("told", Told::accept())).await.unwrap();
    let id = pombo.send(request(None)).await.unwrap();
    pombo.stop(GRACE).await.unwrap();

    let without = Pombo::start(options(folder.path())).await.unwrap();
    let waits = tokio::time::timeout(Duration::from_millis(500), without.wait(id)).await;
    assert!(waits.is_err(), "nobody could have sent it: {waits:?}");
    without.stop(GRACE).await.unwrap();

    let pombo = Pombo::start(options(folder.path()).channel("told", Told::accept())).await.unwrap();
    let story = tokio::time::timeout(SOON, pombo.wait(id)).await.unwrap().unwrap().unwrap();
    assert_eq!(story.state.name(), StateName::Sent);
    pombo.stop(GRACE).await.unwrap();
}

#[tokio::test] // REQ IN-4
async fn options_that_cannot_be_used_are_refused_with_every_problem_before_anything_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let lost = Handling { policy: Some("webhok".into()), ..Handling::default() };
    let never = Handling { attempt_timeout: Span::ZERO, ..Handling::default() };
    let wrong = options(&data)
        .channel("Not A Name", Told::accept())
        .channel("webhook", Told::accept())
        .channel_with("lost", Told::accept(), lost)
        .channel_with("never", Told::accept(), never);
    let Err(StartError::Options(problems)) = Pombo::start(wrong).await else { panic!("it started") };
    let paths: Vec<_> = problems.0.iter().map(|problem| problem.path.as_str()).collect();
    let expected =
        ["channels.Not A Name", "channels.lost.policy", "channels.never.attempt_timeout", "channels.webhook"];
    assert_eq!(paths, expected);
    assert!(problems.0.iter().all(|problem| !problem.hint.is_empty()));
    let lanes = Options { lanes: vec!["bilk".into()], ..options(&data) };
    let refused = Pombo::start(lanes).await.unwrap_err().to_string();
    assert!(refused.contains("did you mean `bulk`?"), "{refused}");
    assert!(!data.exists());
}

#[tokio::test] // REQ IN-4
async fn a_template_that_was_put_is_rendered_for_a_channel_of_ones_own() {
    #[derive(Clone, Debug, Default)]
    struct Words(Arc<std::sync::Mutex<Vec<String>>>);
    impl Channel for Words {
        fn send<'a>(&'a self, envelope: &'a Envelope, _: Duration) -> BoxFuture<'a, Reply> {
            self.0.lock().unwrap().push(envelope.content.clone());
            Box::pin(async { Reply::Accepted(Receipt::default()) })
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let words = Words::default();
    let pombo = Pombo::start(options(folder.path()).channel("told", words.clone())).await.unwrap();
    let template = |text: &str| Template { text: Some(text.into()), ..Template::default() };
    assert_eq!(pombo.put_template("oi", template("Oi, {{ nome }}!")).await, Ok(1));
    assert_eq!(pombo.put_template("oi", template("Oi, {{ nome }}!")).await, Ok(1));
    let refused = pombo.put_template("oi", template("{{ nome ~ nome }}")).await.unwrap_err().to_string();
    assert!(refused.starts_with("text: line 1: `~`"), "{refused}");

    let of = |name: &str| Request {
        content: None,
        template: Some(name.into()),
        payload: Some(json!({"nome": "Ana"}).into()),
        ..request(None)
    };
    let id = pombo.send(of("oi")).await.unwrap();
    let story = tokio::time::timeout(SOON, pombo.wait(id)).await.unwrap().unwrap().unwrap();
    assert_eq!((story.state.name(), story.message.body.template_version), (StateName::Sent, Some(1)));
    assert_eq!(*words.0.lock().unwrap(), [r#"{"text":"Oi, Ana!"}"#]);
    let unknown = pombo.send(of("oii")).await.unwrap_err().to_string();
    assert_eq!(unknown, "template: there is no template `oii` (hint: did you mean `oi`?)");
    pombo.stop(GRACE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ ML-4
async fn programs_can_share_a_database_and_each_follows_its_own_messages() {
    let database = Cluster::shared().database();
    let url = Database::parse(database.url()).unwrap();
    let (here, there) = (Told::accept(), Told::accept());
    let start = |told: &Told| {
        let options = Options { database: Some(url.clone()), ..Options::default() };
        Pombo::start(options.channel("told", told.clone()))
    };
    let (one, two) = (start(&here).await.unwrap(), start(&there).await.unwrap());
    for n in 0..20 {
        let key = format!("order-{n}");
        let id = one.send(request(Some(&key))).await.unwrap();
        assert_eq!(two.send(request(Some(&key))).await.unwrap(), id, "the same key is the same message");
        // Whoever sends it, both see it.
        for pombo in [&one, &two] {
            let story = tokio::time::timeout(SOON, pombo.wait(id)).await.unwrap().unwrap().unwrap();
            assert_eq!((story.state.name(), story.attempts.len()), (StateName::Sent, 1));
        }
    }
    assert_eq!(here.calls.load(Ordering::SeqCst) + there.calls.load(Ordering::SeqCst), 20);
    one.stop(GRACE).await.unwrap();
    two.stop(GRACE).await.unwrap();
}

#[tokio::test]
async fn a_database_that_cannot_be_reached_is_named_without_its_password() {
    let database = Some(Database::parse("postgres://ana:canary@127.0.0.1:1/pombo").unwrap());
    let error = Pombo::start(Options { database, ..Options::default() }).await.unwrap_err();
    let said = format!("{error} {error:?}");
    assert!(said.contains("postgres://ana@127.0.0.1:1/pombo") && !said.contains("canary"), "{said}");
}
