//! Dead letters at the door, without an engine: letters die by hand here.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Body;
use futures_util::future::join_all;
use http::StatusCode;
use pombo_kernel::classify::Verdict;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{Attempt, AttemptFailure, AttemptOutcome, FailureReason, Progress};
use pombo_kernel::setup::{ChannelSetup, Destination};
use pombo_kernel::time::Span;
use pombo_store::audit::Event;
use pombo_store::{Ask, NodeId, Settlement, Store};
use pombo_web::Patience;
use pombo_web::key::KeyDoc;
use serde_json::{Value, json};

use crate::house::{House, NOW, Reply, key, request, setup};

/// Claims whatever is due and ends each as a dead letter with that error.
pub(crate) async fn bury(house: &House, text: &str) -> usize {
    let ask = Ask { node: NodeId(1), lane: "default".parse().unwrap(), max: 1_000, rates: Arc::default() };
    let claimed = house.store.claim(ask).await.unwrap();
    let now = pombo_kernel::time::Clock::now(&*house.clock);
    let settlements = claimed.iter().map(|claimed| Settlement {
        key: claimed.key,
        attempt: Attempt {
            round: claimed.progress.round,
            number: claimed.progress.attempts + 1,
            started_at: now,
            finished_at: now,
            outcome: AttemptOutcome::Failed,
            failure: Some(AttemptFailure {
                verdict: Verdict::Permanent,
                category: "rejected".into(),
                code: Some("400".into()),
                text: text.into(),
                perhaps_sent: false,
                rule: None,
            }),
            next_delay: None,
            explanation: "attempt 1 failed".into(),
            policy: None,
        },
        next: Next::Failed(FailureReason::PermanentError),
        progress: Progress {
            attempts: claimed.progress.attempts + 1,
            steps: claimed.progress.steps + 1,
            ..claimed.progress
        },
        block: Default::default(),
        vitals: Default::default(),
        reported: false,
        chance: 0,
    });
    house.store.settle(settlements.collect()).await.unwrap();
    claimed.len()
}

/// A dead letter with some fields changed.
pub(crate) async fn dead(house: &House, changes: &Value, text: &str) -> String {
    let id = house.created(changes).await;
    assert_eq!(bury(house, text).await, 1);
    id
}

async fn patch(house: &House, id: &str, body: &Value) -> Reply {
    house.call_as("operator", "PATCH", &format!("/v1/dead-letters/{id}"), body.to_string()).await
}

/// The same, done, and what the letter says then.
async fn patched(house: &House, id: &str, body: &Value) -> Value {
    let reply = patch(house, id, body).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    house.get(&format!("/v1/dead-letters/{id}")).await.json()
}

async fn act(house: &House, verb: &str, body: &Value) -> Reply {
    house.call_as("operator", "POST", &format!("/v1/dead-letters/{verb}"), body.to_string()).await
}

async fn state(house: &House, id: &str) -> String {
    house.get(&format!("/v1/messages/{id}")).await.json()["state"].as_str().unwrap().to_owned()
}

#[tokio::test] // REQ DL-1, DL-2
async fn dead_letters_are_listed_filtered_and_grouped_by_cause() {
    let house = House::new().await;
    for n in 0..3 {
        dead(&house, &json!({"reference": format!("r{n}")}), &format!("order 4711{n} is unknown")).await;
    }
    let other = dead(&house, &json!({"to": "https://b.example/x"}), "no such tenant").await;
    house.created(&json!({})).await;

    let groups = house.call_as("viewer", "GET", "/v1/dead-letters/groups", "").await.json();
    let groups = groups["items"].as_array().unwrap();
    assert_eq!(groups.len(), 2);
    assert_eq!((&groups[0]["count"], &groups[1]["count"]), (&json!(3), &json!(1)));
    assert_eq!((&groups[0]["channel"], &groups[0]["category"]), (&json!("crm"), &json!("rejected")));
    assert_eq!(groups[1]["newest"], other.as_str());
    assert_eq!((&groups[0]["first_at"], &groups[0]["last_at"]), (&json!(NOW), &json!(NOW)));
    assert_eq!(
        house.get("/v1/dead-letters/groups?limit=1").await.json()["items"].as_array().unwrap().len(),
        1
    );

    let cause = groups[0]["cause"].as_str().unwrap();
    let listed = house.get(&format!("/v1/dead-letters?cause={cause}&limit=2")).await.json();
    let items = listed["items"].as_array().unwrap();
    assert_eq!((items.len(), &items[0]["reference"]), (2, &json!("r2")));
    assert!(items.iter().all(|item| item["cause"]["id"] == cause && item["state"] == "failed"), "{listed}");
    let next = listed["next_cursor"].as_str().unwrap();
    let rest = house.get(&format!("/v1/dead-letters?cause={cause}&limit=2&cursor={next}")).await.json();
    assert_eq!(rest["items"].as_array().unwrap().len(), 1);
    let all = house.get("/v1/dead-letters").await.json();
    assert_eq!(all["items"].as_array().unwrap().len(), 4, "what waits is not among them");
    let found = house.get("/v1/dead-letters?reference=r1&category=rejected").await.json();
    assert_eq!(found["items"].as_array().unwrap().len(), 1);

    house.get("/v1/dead-letters?cause=cause_1").await.refused("INVALID_FIELD", "cause");
    house.get("/v1/dead-letters?state=sent").await.refused("INVALID_FIELD", "state");
    assert_eq!(house.get("/v1/dead-letters?cursor=x").await.code(), "INVALID_CURSOR");
}

#[tokio::test] // REQ DL-1
async fn a_dead_letter_shows_every_round_every_deed_and_what_it_said_before() {
    let house = House::new().await;
    let id = dead(&house, &json!({}), "wrong address").await;
    let fresh = house.get(&format!("/v1/dead-letters/{id}")).await;
    assert_eq!((&fresh.json()["version"], &fresh.json()["revisions"]), (&json!(1), &json!([])));
    assert_eq!(fresh.header("etag"), Some("\"1\""));
    assert_eq!(fresh.json()["cause"]["category"], "rejected");

    let body = json!({"to": "https://new.example/hook", "version": 1, "note": "moved"});
    let edited = patch(&house, &id, &body).await;
    assert_eq!((edited.status, edited.header("etag")), (StatusCode::OK, Some("\"2\"")), "{}", edited.text);
    let done = act(&house, "reprocess", &json!({"ids": [id], "note": "once more"})).await.json();
    assert_eq!(done, json!({"done": 1, "skipped": 0, "results": [{"id": id, "result": "done"}]}));
    bury(&house, "still wrong").await;

    let letter = house.get(&format!("/v1/dead-letters/{id}")).await.json();
    assert_eq!((&letter["to"], &letter["version"]), (&json!("https://new.example/hook"), &json!(2)));
    let rounds: Vec<_> =
        letter["attempts"].as_array().unwrap().iter().map(|it| it["round"].clone()).collect();
    assert_eq!(rounds, [0, 1]);
    assert_eq!(letter["deeds"][0]["what"], "reprocessed");
    assert_eq!(letter["deeds"][0]["note"], "once more");
    assert_eq!(letter["deeds"][0]["by"], "operator (key_operator)");
    let before = &letter["revisions"][0];
    assert_eq!((&before["version"], &before["to"]), (&json!(1), &json!("https://crm.example/hook")));
    assert_eq!((&before["note"], &before["by"]), (&json!("moved"), &json!("operator (key_operator)")));
}

#[tokio::test] // REQ DL-1
async fn an_edit_is_checked_like_a_new_message_and_finds_its_destination_anew() {
    let house = House::new().await;
    let id = dead(&house, &json!({}), "wrong").await;
    let refuse = async |body: Value, code: &str, field: &str| {
        patch(&house, &id, &body).await.refused(code, field);
    };
    refuse(json!({"to": "not a url", "version": 1}), "INVALID_FIELD", "to").await;
    refuse(json!({"content": {"bodi": 1}, "version": 1}), "CONTENT_NOT_ACCEPTED", "content.bodi").await;
    refuse(json!({"payload": {"a": 1}, "version": 1}), "INVALID_FIELD", "payload").await;
    refuse(json!({"version": 1}), "INVALID_FIELD", "body").await;
    refuse(json!({"to": "https://a.example"}), "INVALID_FIELD", "version").await;
    refuse(json!({"to": "https://a.example", "version": 1, "lane": "bulk"}), "INVALID_FIELD", "lane").await;
    assert_eq!(house.get(&format!("/v1/dead-letters/{id}")).await.json()["version"], 1);

    // Numbers keep their digits, as in a new message.
    let body = r#"{"content": {"body": {"n": 1.10, "z": 1, "a": 2}}, "to": "https://other.example/x", "version": 1}"#;
    let edited = house.call("PATCH", &format!("/v1/dead-letters/{id}"), body).await;
    assert!(edited.text.contains(r#""content":{"body": {"n": 1.10, "z": 1, "a": 2}}"#), "{}", edited.text);
    let story = house.store.story("default".parse().unwrap(), id.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(&*story.message.queue.destination, "other.example");
}

#[tokio::test] // REQ DL-1
async fn a_letter_by_template_is_filled_anew_with_the_latest_version_or_given_words_of_its_own() {
    let house = House::new().await;
    house.put_template("hello", &json!({"text": "{{ name }}"})).await;
    let changes =
        json!({"channel": "null", "template": "hello", "payload": {"nome": "Ana"}, "content": null});
    let id = dead(&house, &changes, "name is missing").await;
    house.put_template("hello", &json!({"text": "Hi {{ name }}"})).await;
    let filled = patched(&house, &id, &json!({"payload": {"name": "Ana"}, "version": 1})).await;
    assert_eq!((&filled["payload"], &filled["template_version"]), (&json!({"name": "Ana"}), &json!(2)));
    let said = patched(&house, &id, &json!({"content": {"text": "Hi"}, "version": 2})).await;
    assert_eq!((&said["template"], &said["payload"]), (&Value::Null, &Value::Null));
    assert_eq!(said["content"], json!({"text": "Hi"}));
    assert_eq!(said["revisions"].as_array().unwrap().len(), 2);
}

fn with_mail() -> pombo_kernel::setup::Setup {
    let mut setup = setup();
    let channel = ChannelSetup {
        name: "post".parse().unwrap(),
        kind: ChannelKind::Smtp,
        destination: Destination::Fixed("post".into()),
        unready: None,
        ..(**setup.channels.get("mail").unwrap()).clone()
    };
    setup.channels.insert(channel.name.clone(), Arc::new(channel));
    setup
}

#[tokio::test] // REQ DL-1
async fn an_edit_keeps_the_letters_own_files_and_takes_no_others() {
    let house = House::with(with_mail(), Patience::default()).await;
    let file = |byte: &str| json!([{"filename": "a.pdf", "content": byte.repeat(8_000)}]);
    let mail = |files: Value| {
        json!({"channel": "post", "to": "ana@a.example",
            "content": {"from": "a@b.example", "subject": "s", "text": "t", "attachments": files}})
    };
    let id = dead(&house, &mail(file("AAAA")), "mailbox full").await;
    let stranger = dead(&house, &mail(file("BBBB")), "mailbox full").await;
    let content = house.get(&format!("/v1/dead-letters/{id}")).await.json()["content"].clone();
    let kept = content["attachments"][0]["content"]["blob"].clone();
    assert!(kept.is_string(), "{content}");

    let moved = patched(&house, &id, &json!({"to": "bia@a.example", "version": 1})).await;
    assert_eq!(moved["content"], content, "{moved}");
    let mut reworded = content.clone();
    reworded["subject"] = json!("other");
    let edited = patched(&house, &id, &json!({"content": reworded, "version": 2})).await;
    assert_eq!(edited["content"]["attachments"][0]["content"]["blob"], kept);

    let theirs = house.get(&format!("/v1/dead-letters/{stranger}")).await.json()["content"].clone();
    let stolen = patch(&house, &id, &json!({"content": theirs, "version": 3})).await;
    stolen.refused("INVALID_FIELD", "content.attachments");
}

#[tokio::test] // REQ DL-1
async fn of_two_who_edit_at_once_one_is_told() {
    let house = House::new().await;
    let id = dead(&house, &json!({}), "wrong").await;
    let edits = (0..8).map(|n| {
        let (house, id) = (&house, &id);
        async move { patch(house, id, &json!({"to": format!("https://{n}.example"), "version": 1})).await }
    });
    let replies = join_all(edits).await;
    let fine = replies.iter().filter(|reply| reply.status == StatusCode::OK).count();
    let told: BTreeSet<_> =
        replies.iter().filter(|reply| reply.status != StatusCode::OK).map(Reply::code).collect();
    assert_eq!((fine, told), (1, ["VERSION_CONFLICT".to_owned()].into()));
    assert_eq!(house.get(&format!("/v1/dead-letters/{id}")).await.json()["version"], 2);

    let path = format!("/v1/dead-letters/{id}");
    let with_tag = async |tag: &str| {
        let call =
            request("PATCH", &path).header("authorization", "Bearer key-operator").header("if-match", tag);
        let body = json!({"to": "https://tag.example"}).to_string();
        house.send(call.body(body.into()).unwrap()).await
    };
    assert_eq!(with_tag("\"1\"").await.code(), "VERSION_CONFLICT");
    for odd in ["W/x", "\"4294967296\""] {
        with_tag(odd).await.refused("INVALID_FIELD", "If-Match");
    }
    assert_eq!(with_tag("\"2\"").await.json()["version"], 3);
    act(&house, "discard", &json!({"ids": [id]})).await;
    let late = patch(&house, &id, &json!({"to": "https://a.example", "version": 3})).await;
    assert_eq!((late.code(), &late.json()["state"]), ("NOT_DEAD".to_owned(), &json!("discarded")));
}

#[tokio::test] // REQ DL-1, fault 62
async fn two_operators_who_act_at_once_serialise_and_the_audit_names_who_won() {
    let house = House::new().await;
    let id = dead(&house, &json!({}), "wrong").await;
    let [again, no] = ["again", "no"].map(|note| json!({"ids": [id], "note": note}));
    let (one, two) =
        tokio::join!(act(&house, "reprocess", &again), house.post("/v1/dead-letters/discard", &no));
    let results = [&one, &two].map(|reply| reply.json()["results"][0]["result"].clone());
    let won = results.iter().position(|result| *result == "done").unwrap();
    assert_eq!(results[1 - won], "not_dead");
    assert_eq!(state(&house, &id).await, ["pending", "discarded"][won]);
    let records = house.store.audit(0, 100).await.unwrap();
    let acts: Vec<_> = records
        .iter()
        .filter(|(_, it)| matches!(it.event, Event::Reprocessed | Event::Discarded))
        .map(|(_, it)| (it.actor.as_str(), it.detail.contains(["again", "no"][won])))
        .collect();
    assert_eq!(acts, [(["operator (key_operator)", "admin (key_admin)"][won], true)]);
}

#[tokio::test] // REQ DL-1
async fn letters_are_acted_on_by_their_ids_each_on_its_own() {
    let house = House::new().await;
    let id = dead(&house, &json!({}), "wrong").await;
    let waiting = house.created(&json!({})).await;
    let nobody = "msg_01944f3a00007000800000000000000a";
    let wish = json!({"ids": [id, waiting, nobody]});
    let mut dry = wish.clone();
    dry["dry_run"] = json!(true);
    let counted = act(&house, "discard", &dry).await.json();
    assert_eq!((&counted["count"], &counted["samples"][0]["id"]), (&json!(1), &json!(id)));
    assert_eq!(state(&house, &id).await, "failed", "a dry run changes nothing");
    let done = act(&house, "discard", &wish).await.json();
    let results: Vec<_> = done["results"].as_array().unwrap().iter().map(|it| it["result"].clone()).collect();
    assert_eq!(results, ["done", "not_dead", "not_found"]);
    assert_eq!(
        (&done["done"], &done["skipped"], &done["results"][1]["state"]),
        (&json!(1), &json!(2), &json!("pending"))
    );

    act(&house, "discard", &json!({})).await.refused("INVALID_FIELD", "ids");
    act(&house, "discard", &json!({"ids": []})).await.refused("INVALID_FIELD", "ids");
    act(&house, "discard", &json!({"ids": ["x"]})).await.refused("INVALID_FIELD", "ids");
    act(&house, "discard", &json!({"ids": [id], "filter": {}})).await.refused("INVALID_FIELD", "filter");
    act(&house, "discard", &json!({"ids": [id], "rate_per_minute": 1}))
        .await
        .refused("INVALID_FIELD", "rate_per_minute");
    act(&house, "discard", &json!({"filter": {}, "canary": 1})).await.refused("INVALID_FIELD", "canary");
    act(&house, "discard", &json!({"filter": {"colour": "red"}}))
        .await
        .refused("INVALID_FIELD", "filter.colour");
    act(&house, "discard", &json!({"filter": {"channel": 1}}))
        .await
        .refused("INVALID_FIELD", "filter.channel");
    let many = json!({"ids": vec![nobody; 1_001]});
    assert_eq!(act(&house, "discard", &many).await.code(), "BATCH_TOO_LARGE");
}

#[tokio::test] // REQ DL-1, DL-3
async fn a_filter_is_counted_before_and_becomes_an_operation() {
    let house = House::new().await;
    for _ in 0..12 {
        house.created(&json!({})).await;
    }
    bury(&house, "wrong").await;
    let other = dead(&house, &json!({"channel": "null", "to": "x", "content": {}}), "wrong").await;
    let counted = act(&house, "reprocess", &json!({"filter": {"channel": "crm"}, "dry_run": true})).await;
    assert_eq!(counted.status, StatusCode::OK);
    let counted = counted.json();
    assert_eq!((&counted["count"], &counted["at_least"]), (&json!(12), &json!(false)));
    assert_eq!(counted["samples"].as_array().unwrap().len(), 5);
    assert!(house.get("/v1/operations").await.json()["items"].as_array().unwrap().is_empty());

    let wish = json!({"filter": {"channel": "crm"}, "note": "back", "rate_per_minute": 60});
    let begun = act(&house, "reprocess", &wish).await;
    assert_eq!(begun.status, StatusCode::ACCEPTED, "{}", begun.text);
    let operation = begun.json();
    let id = operation["id"].as_str().unwrap();
    assert_eq!(begun.header("location"), Some(&*format!("/v1/operations/{id}")));
    assert_eq!(
        (&operation["total"], &operation["canary"]),
        (&json!(12), &json!(1)),
        "more than ten: one goes first"
    );
    assert_eq!((&operation["state"], &operation["stage"]), (&json!("running"), &json!("canary")));
    assert_eq!(house.get(&format!("/v1/operations/{id}")).await.json(), operation);
    let few = act(&house, "reprocess", &json!({"filter": {"channel": "null"}})).await.json();
    assert_eq!((&few["canary"], &few["stage"]), (&json!(0), &json!("rest")));
    assert_eq!(state(&house, &other).await, "failed", "a node does it, not the door");

    let started: Vec<_> = house.store.audit(0, 1_000).await.unwrap();
    let started: Vec<_> = started.iter().filter(|(_, it)| it.event == Event::OperationStarted).collect();
    assert_eq!(started.len(), 2);
    assert!(started[0].1.detail.contains("\"note\":\"back\"") && started[0].1.detail.contains(id));
}

#[tokio::test] // REQ ML-3
async fn the_same_key_from_a_hundred_requests_is_one_operation() {
    let house = House::new().await;
    dead(&house, &json!({}), "wrong").await;
    let post =
        async |body: &Value| house.post_once("operator", "/v1/dead-letters/reprocess", body, "once").await;
    let wish = json!({"filter": {"channel": "crm"}});
    let replies = join_all((0..100).map(|_| post(&wish))).await;
    let ids: BTreeSet<_> = replies.iter().map(|reply| reply.json()["id"].to_string()).collect();
    assert_eq!(ids.len(), 1);
    let replayed = replies.iter().filter(|reply| reply.header("idempotency-replayed").is_some()).count();
    assert_eq!(replayed, 99);
    for other in [json!({"filter": {}}), json!({"ids": ["msg_01944f3a00007000800000000000000a"]})] {
        assert_eq!(post(&other).await.code(), "IDEMPOTENCY_CONFLICT");
    }
    assert_eq!(house.get("/v1/operations").await.json()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test] // REQ ML-3
async fn letters_are_sent_again_once_under_one_key_though_they_have_died_again() {
    let house = House::new().await;
    let id = dead(&house, &json!({}), "wrong").await;
    let gone = "msg_01944f3a00007000800000000000000a";
    let post = async |verb: &str, body: &Value| {
        house.post_once("operator", &format!("/v1/dead-letters/{verb}"), body, "once").await
    };
    let wish = json!({"ids": [id, gone], "note": "the receiver was fixed"});
    let replies = join_all((0..100).map(|_| post("reprocess", &wish))).await;
    let answers: BTreeSet<_> = replies.iter().map(|reply| reply.text.clone()).collect();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!((&replies[0].json()["done"], &replies[0].json()["skipped"]), (&json!(1), &json!(1)));
    let replayed = replies.iter().filter(|reply| reply.header("idempotency-replayed").is_some()).count();
    assert_eq!(replayed, 99);
    assert_eq!(bury(&house, "wrong").await, 1);
    assert_eq!(post("reprocess", &wish).await.text, replies[0].text);
    assert_eq!(state(&house, &id).await, "failed", "a repeat is no new round");
    assert_eq!(post("discard", &wish).await.code(), "IDEMPOTENCY_CONFLICT");
    for other in [json!({"ids": [id]}), json!({"filter": {}})] {
        assert_eq!(post("reprocess", &other).await.code(), "IDEMPOTENCY_CONFLICT");
    }
    let rounds = house.get(&format!("/v1/dead-letters/{id}")).await.json();
    assert_eq!(rounds["deeds"].as_array().unwrap().len(), 1);
    assert_eq!(house.get("/v1/operations").await.json()["items"], json!([]), "it was no operation");
}

#[tokio::test] // REQ ML-3
async fn what_is_on_record_under_a_key_is_what_came_of_it_also_if_somebody_was_faster() {
    let house = House::new().await;
    let id = dead(&house, &json!({}), "wrong").await;
    let wish = json!({"ids": [id, id]});
    let first = house.post_once("operator", "/v1/dead-letters/reprocess", &wish, "k").await;
    assert_eq!(first.json()["results"][1]["result"], "not_dead", "{}", first.text);
    let again = house.post_once("operator", "/v1/dead-letters/reprocess", &wish, "k").await;
    assert_eq!((again.header("idempotency-replayed"), &again.text), (Some("true"), &first.text));
}

#[tokio::test] // REQ DL-2
async fn a_filter_that_there_is_not_is_named_and_an_unknown_cause_starts_nothing() {
    let house = House::new().await;
    dead(&house, &json!({}), "wrong").await;
    let wrong =
        act(&house, "reprocess", &json!({"filter": {"bogus": 1, "channel": 2, "colour": "red"}})).await;
    for field in ["filter.bogus", "filter.channel", "filter.colour"] {
        wrong.refused("INVALID_FIELD", field);
    }
    act(&house, "reprocess", &json!({"filter": []})).await.refused("INVALID_FIELD", "filter");
    let unknown = json!({"filter": {"cause": "cause_0000000000000001"}});
    for verb in ["reprocess", "discard"] {
        act(&house, verb, &unknown).await.refused("INVALID_FIELD", "filter.cause");
    }
    assert_eq!(house.get("/v1/operations").await.json()["items"], json!([]));
}

#[tokio::test] // REQ ML-3
async fn an_operation_on_a_cause_is_answered_again_also_when_nothing_of_the_cause_is_left() {
    let house = House::new().await;
    let id = dead(&house, &json!({}), "wrong").await;
    let groups = house.get("/v1/dead-letters/groups").await.json();
    let wish = json!({"filter": {"cause": groups["items"][0]["cause"]}});
    let begin = async || house.post_once("operator", "/v1/dead-letters/discard", &wish, "k").await;
    let first = begin().await;
    assert_eq!(first.status, StatusCode::ACCEPTED, "{}", first.text);
    act(&house, "discard", &json!({"ids": [id]})).await;
    assert_eq!(begin().await.json()["id"], first.json()["id"]);
}

#[tokio::test] // REQ SE-1
async fn a_key_for_some_channels_sees_and_touches_their_letters_only() {
    let house = House::new().await;
    let null = KeyDoc { channels: Some(vec!["null".parse().unwrap()]), ..key("nullish", "operator") };
    house.add_key("default", &null).await;
    let own = dead(&house, &json!({"channel": "null", "to": "x", "content": {}}), "wrong").await;
    let other = dead(&house, &json!({}), "wrong").await;
    let as_null = async |method: &str, path: &str, body: Value| {
        let body = if body.is_null() { Body::empty() } else { body.to_string().into() };
        house.call_as("nullish", method, path, body).await
    };
    let listed = as_null("GET", "/v1/dead-letters", Value::Null).await.json();
    assert_eq!((listed["items"].as_array().unwrap().len(), &listed["items"][0]["id"]), (1, &json!(own)));
    let groups = as_null("GET", "/v1/dead-letters/groups", Value::Null).await.json();
    assert_eq!(
        (groups["items"].as_array().unwrap().len(), &groups["items"][0]["channel"]),
        (1, &json!("null"))
    );
    assert_eq!(as_null("GET", &format!("/v1/dead-letters/{other}"), Value::Null).await.code(), "NOT_FOUND");
    let edit = json!({"to": "https://a.example", "version": 1});
    assert_eq!(as_null("PATCH", &format!("/v1/dead-letters/{other}"), edit).await.code(), "NOT_FOUND");
    let retry = format!("/v1/messages/{other}/retry");
    assert_eq!(as_null("POST", &retry, Value::Null).await.code(), "NOT_FOUND");
    let done = as_null("POST", "/v1/dead-letters/discard", json!({"ids": [other, own]})).await.json();
    let results: Vec<_> = done["results"].as_array().unwrap().iter().map(|it| it["result"].clone()).collect();
    assert_eq!(results, ["not_found", "done"]);
    assert_eq!(state(&house, &other).await, "failed");
    let counted = json!({"filter": {}, "dry_run": true});
    assert_eq!(as_null("POST", "/v1/dead-letters/reprocess", counted).await.json()["count"], 0);
    let begun = as_null("POST", "/v1/dead-letters/reprocess", json!({"filter": {}})).await.json();
    let all = act(&house, "reprocess", &json!({"filter": {}})).await.json();
    let seen = as_null("GET", "/v1/operations", Value::Null).await.json();
    assert_eq!((seen["items"].as_array().unwrap().len(), &seen["items"][0]["id"]), (1, &begun["id"]));
    let path = format!("/v1/operations/{}", all["id"].as_str().unwrap());
    assert_eq!(as_null("GET", &path, Value::Null).await.code(), "NOT_FOUND");
    assert_eq!(as_null("POST", &format!("{path}/cancel"), Value::Null).await.code(), "NOT_FOUND");
    assert_eq!(as_null("POST", "/v1/channels/crm/test", Value::Null).await.code(), "FORBIDDEN");
}

#[tokio::test] // REQ DL-1
async fn a_message_is_tried_now_whether_it_is_dead_or_waits() {
    let house = House::new().await;
    let id = dead(&house, &json!({}), "wrong").await;
    let retry = async |id: &str| {
        house.call_as("operator", "POST", &format!("/v1/messages/{id}/retry"), r#"{"note": "now"}"#).await
    };
    let anew = retry(&id).await;
    assert_eq!((anew.status, &anew.json()["state"]), (StatusCode::OK, &json!("pending")));
    assert_eq!(house.get(&format!("/v1/dead-letters/{id}")).await.json()["deeds"][0]["note"], "now");

    let later = (NOW + Span::from_hours(5)).to_string();
    let waiting = house.created(&json!({"send_at": later})).await;
    assert_eq!(retry(&waiting).await.json()["next_attempt_at"], NOW.to_string());
    house.call("POST", &format!("/v1/messages/{waiting}/cancel"), "").await;
    let late = retry(&waiting).await;
    assert_eq!((late.code(), &late.json()["state"]), ("NOT_RETRYABLE".to_owned(), &json!("cancelled")));
    assert_eq!(retry("msg_01944f3a00007000800000000000000a").await.code(), "NOT_FOUND");
}

#[tokio::test] // REQ DL-3
async fn what_is_sent_again_is_counted_as_waiting_and_what_is_given_up_is_not() {
    let house = House::new().await;
    let waiting = async || house.get("/v1/stats").await.json()["total"]["waiting"].clone();
    let first = dead(&house, &json!({}), "wrong").await;
    let second = dead(&house, &json!({}), "wrong").await;
    assert_eq!(waiting().await, 0);
    act(&house, "reprocess", &json!({"ids": [first]})).await;
    assert_eq!(waiting().await, 1);
    act(&house, "discard", &json!({"ids": [second]})).await;
    assert_eq!(waiting().await, 1);
    bury(&house, "wrong").await;
    assert_eq!(waiting().await, 0);
}

#[tokio::test] // REQ DL-1
async fn an_edit_can_be_tried_before_it_is_made() {
    let house = House::new().await;
    let id = dead(&house, &json!({}), "no such tenant").await;
    let wanted = |to: &str| json!({"to": to, "version": 1, "dry_run": true});
    let wrong = patch(&house, &id, &wanted("nowhere")).await;
    assert_eq!(
        (wrong.status, &wrong.json()["errors"][0]["field"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("to"))
    );
    let tried = patched(&house, &id, &wanted("https://crm.example/new")).await;
    assert_eq!((&tried["version"], &tried["to"]), (&json!(1), &json!("https://crm.example/hook")));
    assert_eq!(tried["revisions"], json!([]));
}
