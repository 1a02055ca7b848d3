use std::collections::VecDeque;

use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::*;
use pombo_kernel::time::Span;

const NOW: Time = Time::from_millis(1_700_000_000_000);
const DEADLINE: Duration = Duration::from_secs(30);

/// Answers from a list, and writes down what it was asked: the key, and the mails or the one mail.
#[derive(Default)]
struct Pretend {
    asked: Mutex<Vec<(String, Value)>>,
    answers: Mutex<VecDeque<Result<Answer, Reply>>>,
    takes: Duration,
}

impl Pretend {
    fn write(&self, key: &str, body: &Bytes) {
        self.asked.lock().unwrap().push((key.to_owned(), serde_json::from_slice(body).unwrap()));
    }

    fn asked(&self) -> Vec<(String, Value)> {
        self.asked.lock().unwrap().clone()
    }

    fn will(&self, answer: Result<Answer, Reply>) {
        self.answers.lock().unwrap().push_back(answer);
    }
}

impl Post for Pretend {
    fn single<'a>(&'a self, key: &'a str, mail: Bytes, _: Duration) -> BoxFuture<'a, Reply> {
        self.write(key, &mail);
        Box::pin(async move { accepted(format!("single-{key}"), &answer(200, &json!({})).unwrap()) })
    }

    fn batch<'a>(&'a self, key: &'a str, mails: Bytes, _: Duration) -> BoxFuture<'a, Result<Answer, Reply>> {
        self.write(key, &mails);
        let count = serde_json::from_slice::<Vec<Value>>(&mails).unwrap().len();
        let next = self.answers.lock().unwrap().pop_front();
        Box::pin(async move {
            tokio::time::sleep(self.takes).await;
            next.unwrap_or_else(|| ids(0..count))
        })
    }
}

fn answer(status: u16, body: &Value) -> Result<Answer, Reply> {
    Ok(Answer {
        status: StatusCode::from_u16(status).unwrap(),
        headers: HeaderMap::new(),
        body: body.to_string().into_bytes(),
        whole: true,
    })
}

fn ids(places: impl Iterator<Item = usize>) -> Result<Answer, Reply> {
    answer(200, &json!({"data": places.map(|i| json!({"id": format!("id-{i}")})).collect::<Vec<_>>()}))
}

fn broken() -> Result<Answer, Reply> {
    Err(Reply::Doubtful(fault(FaultKind::ConnectionReset, "reset")))
}

fn refusing(status: u16, name: &str) -> Result<Answer, Reply> {
    answer(status, &json!({"statusCode": status, "message": "no", "name": name}))
}

fn office(takes: Duration) -> (Batches<Pretend>, Arc<Pretend>) {
    let post = Arc::new(Pretend { takes, ..Pretend::default() });
    (Batches::new(post.clone()), post)
}

async fn send_from(batches: &Batches<Pretend>, domain: &str, key: &str, now: Time) -> String {
    let mail =
        Mail { json: json!(key).to_string().into(), domain: domain.to_owned(), has_attachments: false };
    match batches.send(key.to_owned(), mail, now, DEADLINE).await {
        Reply::Accepted(receipt) => receipt.provider_id.unwrap(),
        Reply::Refused(refusal) => {
            format!("refused {} {}", refusal.status.unwrap_or_default(), refusal.name.unwrap_or_default())
        }
        Reply::Unreachable(fault) => format!("unreachable {}", fault.kind.as_str()),
        Reply::Doubtful(fault) => format!("doubtful {}", fault.kind.as_str()),
    }
}

async fn send(batches: &Batches<Pretend>, key: &str) -> String {
    send_from(batches, "clinic.example", key, NOW).await
}

async fn send_three(batches: &Batches<Pretend>) -> [String; 3] {
    tokio::join!(send(batches, "a"), send(batches, "b"), send(batches, "c")).into()
}

#[tokio::test(start_paused = true)]
async fn a_lone_mail_goes_by_itself_under_its_own_key() {
    let (batches, post) = office(Duration::ZERO);
    assert_eq!(send(&batches, "a").await, "single-a");
    assert_eq!(post.asked(), [("a".to_owned(), json!("a"))]);
}

#[tokio::test(start_paused = true)]
async fn mails_of_one_moment_share_a_call_and_each_gets_its_own_id() {
    let (batches, post) = office(Duration::ZERO);
    assert_eq!(send_three(&batches).await, ["id-0", "id-1", "id-2"]);
    let asked = post.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].1, json!(["a", "b", "c"]));
    // printf 'a\nb\nc\n' | sha256sum
    assert_eq!(asked[0].0, "batch-880553fca8fcea94e325ee2cfb48e5a985cc797f39a14cc6d3cedecfeb2ae4d2");
    assert_eq!(batches.office.desk().memory.size(), (0, 0, 0), "what went well is not kept");
}

#[tokio::test(start_paused = true)]
async fn senders_of_different_domains_do_not_share_a_call() {
    let (batches, post) = office(Duration::ZERO);
    let both =
        tokio::join!(send_from(&batches, "a.example", "a", NOW), send_from(&batches, "b.example", "b", NOW));
    assert_eq!(both, ("single-a".to_owned(), "single-b".to_owned()));
    assert_eq!(post.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn no_call_holds_more_than_a_hundred() {
    let (batches, post) = office(Duration::ZERO);
    let batches = Arc::new(batches);
    let all: Vec<_> = (0..201)
        .map(|i| {
            let batches = batches.clone();
            tokio::spawn(async move { send(&batches, &format!("m{i:03}")).await })
        })
        .collect();
    for one in all {
        assert!(!one.await.unwrap().contains(' '));
    }
    let sizes: Vec<_> = post.asked().iter().map(|(_, body)| body.as_array().map_or(1, Vec::len)).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 201);
    assert_eq!((sizes.len(), sizes.iter().max()), (3, Some(&100)));
}

#[tokio::test(start_paused = true)]
async fn while_a_call_is_under_way_others_gather_but_not_for_long() {
    let (batches, post) = office(Duration::from_secs(2));
    let later = |wait: u64, key: &'static str| {
        let batches = &batches;
        async move {
            tokio::time::sleep(Duration::from_millis(wait)).await;
            send(batches, key).await
        }
    };
    let (a, b, c, d) = tokio::join!(later(0, "a"), later(1, "b"), later(20, "c"), later(200, "d"));
    assert_eq!([a, b, c, d], ["id-0", "id-1", "id-0", "id-1"]);
    let bodies: Vec<_> = post.asked().into_iter().map(|(_, body)| body).collect();
    assert_eq!(bodies, [json!(["a", "b"]), json!(["c", "d"])]);
}

#[tokio::test(start_paused = true)]
async fn an_error_belongs_to_the_mail_that_it_names() {
    let (batches, post) = office(Duration::ZERO);
    let body = json!({"data": [{"id": "x"}, {"id": "y"}], "errors": [{"index": 1, "message": "bad"}]});
    post.will(answer(200, &body));
    assert_eq!(send_three(&batches).await, ["x", "refused 422 validation_error", "y"]);
}

#[tokio::test(start_paused = true)]
async fn mails_that_an_answer_says_nothing_of_are_in_doubt() {
    for body in [json!({"data": [{"id": "x"}]}), json!({"data": [{"id": "x"}, {}, {"id": ""}]})] {
        let (batches, post) = office(Duration::ZERO);
        post.will(answer(200, &body));
        assert_eq!(send_three(&batches).await, ["x", "doubtful protocol", "doubtful protocol"]);
        // The same question would get the same answer.
        let again = tokio::join!(send(&batches, "b"), send(&batches, "c"));
        assert_eq!(again, ("single-b".to_owned(), "single-c".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_in_doubt_is_repeated_as_it_was_when_any_of_its_mails_comes_back() {
    for unclear in [broken(), answer(200, &json!({"data": "?"})), answer(200, &json!([]))] {
        let (batches, post) = office(Duration::ZERO);
        post.will(unclear);
        assert!(send_three(&batches).await.iter().all(|reply| reply.starts_with("doubtful")));
        assert_eq!(send(&batches, "b").await, "id-1");
        let asked = post.asked();
        assert_eq!(asked.len(), 2);
        assert_eq!(asked[0], asked[1]);
        // The others find their ids without another call.
        assert_eq!(tokio::join!(send(&batches, "c"), send(&batches, "a")), ("id-2".into(), "id-0".into()));
        assert_eq!(post.asked().len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn mails_that_come_back_together_wait_for_one_repetition() {
    let (batches, post) = office(Duration::from_millis(300));
    post.will(broken());
    send_three(&batches).await;
    assert_eq!(send_three(&batches).await, ["id-0", "id-1", "id-2"]);
    assert_eq!(post.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_repetition_that_fails_leaves_the_batch_in_doubt() {
    let (batches, post) = office(Duration::ZERO);
    post.will(broken());
    send_three(&batches).await;
    post.will(Err(Reply::Unreachable(fault(FaultKind::ConnectionRefused, "refused"))));
    assert_eq!(send(&batches, "a").await, "unreachable connection_refused");
    post.will(refusing(429, "rate_limit_exceeded"));
    assert_eq!(send(&batches, "a").await, "refused 429 rate_limit_exceeded");
    for _ in 0..4 {
        post.will(refusing(409, "concurrent_idempotent_requests"));
        assert_eq!(send(&batches, "a").await, "refused 409 concurrent_idempotent_requests");
    }
    assert_eq!(send(&batches, "a").await, "id-0");
    let asked = post.asked();
    assert!(asked.iter().all(|call| *call == asked[0]));
}

#[tokio::test(start_paused = true)]
async fn once_its_key_has_expired_a_batch_is_not_repeated() {
    let (batches, post) = office(Duration::ZERO);
    post.will(broken());
    send_three(&batches).await;
    let almost = NOW + Span::from_millis(24 * 3_600_000 - 1);
    post.will(broken());
    assert!(send_from(&batches, "clinic.example", "a", almost).await.starts_with("doubtful"));
    let day = NOW + Span::from_hours(24);
    assert_eq!(send_from(&batches, "clinic.example", "a", day).await, "single-a");
    assert_eq!(send_from(&batches, "clinic.example", "b", day).await, "single-b");
    assert_eq!(post.asked().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn after_a_refusal_that_may_be_one_mails_fault_each_goes_alone() {
    for (status, name) in [
        (400, "validation_error"),
        (413, "x"),
        (422, "missing_required_field"),
        (409, "invalid_idempotent_request"),
    ] {
        let (batches, post) = office(Duration::ZERO);
        post.will(refusing(status, name));
        assert_eq!(send_three(&batches).await, ["refused 0 batch_refused"; 3], "{status}");
        assert_eq!(send_three(&batches).await, ["single-a", "single-b", "single-c"], "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_concerns_the_account_is_each_mails_and_they_may_go_together_again() {
    for (status, name) in [(401, "missing_api_key"), (403, "validation_error"), (429, "daily_quota_exceeded")]
    {
        let (batches, post) = office(Duration::ZERO);
        post.will(refusing(status, name));
        assert_eq!(send_three(&batches).await, [format!("refused {status} {name}").as_str(); 3]);
        assert_eq!(send_three(&batches).await, ["id-0", "id-1", "id-2"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_the_server_keeps_the_batch_together_for_a_while() {
    let (batches, post) = office(Duration::ZERO);
    for _ in 0..3 {
        post.will(refusing(500, "application_error"));
    }
    assert_eq!(send_three(&batches).await, ["refused 500 application_error"; 3]);
    assert_eq!(send(&batches, "a").await, "refused 500 application_error");
    assert_eq!(send(&batches, "b").await, "refused 500 application_error");
    let asked = post.asked();
    assert!(asked.len() == 3 && asked.iter().all(|call| *call == asked[0]), "the same key and body");
    // One of them may be what breaks the server, so they part.
    assert_eq!(send_three(&batches).await, ["single-a", "single-b", "single-c"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_after_its_sender_left_is_found_at_the_next_try() {
    let (batches, post) = office(Duration::from_secs(3));
    let gone = async {
        let _ = tokio::time::timeout(Duration::from_secs(1), send(&batches, "a")).await;
    };
    let (b, ()) = tokio::join!(send(&batches, "b"), gone);
    assert_eq!(b, "id-0");
    assert_eq!(send(&batches, "a").await, "id-1");
    assert_eq!(post.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_mail_whose_sender_left_before_its_turn_is_not_sent() {
    let (batches, post) = office(Duration::ZERO);
    let gone = async {
        let _ = tokio::time::timeout(Duration::from_millis(2), send(&batches, "a")).await;
    };
    let (b, ()) = tokio::join!(send(&batches, "b"), gone);
    assert_eq!(b, "single-b");
    assert_eq!(post.asked(), [("b".to_owned(), json!("b"))]);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_ends_while_waiting_for_company_is_no_doubt() {
    let (batches, post) = office(Duration::ZERO);
    let mail = Mail { json: "1".into(), domain: String::new(), has_attachments: false };
    let reply = batches.send("a".to_owned(), mail, NOW, Duration::from_millis(1)).await;
    assert!(matches!(reply, Reply::Unreachable(fault) if fault.kind == FaultKind::Timeout));
    tokio::time::sleep(DEADLINE).await;
    assert_eq!(post.asked(), []);
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded_and_forgets_the_oldest_first() {
    let (batches, post) = office(Duration::ZERO);
    for i in 0..500 {
        post.will(broken());
        let (a, b) = (format!("a{i}"), format!("b{i}"));
        tokio::join!(send(&batches, &a), send(&batches, &b));
    }
    let (notes, places, bytes) = batches.office.desk().memory.size();
    assert_eq!((notes, places), (400, 800));
    assert!(bytes > 0 && bytes < 400 * 32);
    assert_eq!(send(&batches, "a0").await, "single-a0");
    assert_eq!(send(&batches, "a499").await, "id-0");
}
