//! What retries teach and the rules that come of it, at the door: attempts end by hand here.

use std::sync::Arc;

use http::StatusCode;
use pombo_kernel::backoff::Wait;
use pombo_kernel::classify::Verdict;
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{Attempt, AttemptFailure, FailureReason, Progress};
use pombo_kernel::reply::Receipt;
use pombo_kernel::time::{Clock, Span};
use pombo_store::audit::Event;
use pombo_store::{Ask, Claimed, NodeId, Settlement, Store};
use pombo_web::rule;
use serde_json::{Value, json};

use crate::house::{House, Reply};

async fn claim(house: &House) -> Vec<Claimed> {
    let ask = Ask { node: NodeId(1), lane: "default".parse().unwrap(), max: 1_000, rates: Arc::default() };
    house.store.claim(ask).await.unwrap()
}

/// Ends whatever is due: failed with these words, which no rule knows, or sent if there are none.
async fn end(house: &House, words: Option<&str>, next: &Next) -> usize {
    let now = house.clock.now();
    let claimed = claim(house).await;
    let failure = words.map(|text| AttemptFailure {
        verdict: Verdict::UnknownTransient,
        category: "unknown".into(),
        code: Some("299".into()),
        text: text.into(),
        perhaps_sent: false,
        rule: None,
    });
    let settlements = claimed.iter().map(|claimed| Settlement {
        key: claimed.key,
        attempt: Attempt {
            round: claimed.progress.round,
            number: claimed.progress.attempts + 1,
            started_at: now,
            finished_at: now,
            outcome: next.outcome(),
            failure: failure.clone(),
            next_delay: None,
            explanation: "by hand".into(),
            policy: None,
        },
        next: next.clone(),
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

fn again(house: &House) -> Next {
    let delay = Span::from_secs(10);
    let wait = Wait { delay, nominal: delay, swing: 0.0, hinted: false };
    Next::Retry { due: house.clock.now() + delay, wait }
}

const DEAD: Next = Next::Failed(FailureReason::MaxRetriesExceeded);

/// So many messages that meet an error which no rule knows, and then pass or die.
pub(crate) async fn taught(house: &House, words: &str, passed: usize, died: usize) {
    for _ in 0..passed + died {
        house.created(&json!({})).await;
    }
    assert_eq!(end(house, Some(words), &again(house)).await, passed + died);
    house.clock.pass(Span::from_secs(10));
    let now = house.clock.now();
    let claimed = claim(house).await;
    for (place, claimed) in claimed.iter().enumerate() {
        let (next, words) =
            if place < passed { (Next::Sent(Receipt::default()), None) } else { (DEAD, Some(words)) };
        let failure = words.map(|text| AttemptFailure {
            verdict: Verdict::UnknownTransient,
            category: "unknown".into(),
            code: Some("299".into()),
            text: text.into(),
            perhaps_sent: false,
            rule: None,
        });
        let attempt = Attempt {
            round: claimed.progress.round,
            number: 2,
            started_at: now,
            finished_at: now,
            outcome: next.outcome(),
            failure,
            next_delay: None,
            explanation: "by hand".into(),
            policy: None,
        };
        let progress = Progress { attempts: 2, steps: claimed.progress.steps + 1, ..claimed.progress };
        let settlement = Settlement {
            key: claimed.key,
            attempt,
            next,
            progress,
            block: Default::default(),
            vitals: Default::default(),
            reported: false,
            chance: 0,
        };
        house.store.settle(vec![settlement]).await.unwrap();
    }
}

/// What the nodes do every few seconds.
async fn take_effect(house: &House) {
    let accepted = rule::all(&*house.store, None).await.unwrap();
    let dressed = rule::dressed(&house.setup.borrow().clone(), &accepted);
    house.setup.send_replace(Arc::new(dressed));
}

async fn suggestions(house: &House) -> Vec<Value> {
    let reply = house.call_as("viewer", "GET", "/v1/rules/suggestions", "").await;
    reply.json()["items"].as_array().unwrap().clone()
}

async fn accept(house: &House, body: &Value) -> Reply {
    house.call_as("operator", "POST", "/v1/rules", body.to_string()).await
}

#[tokio::test] // REQ LN-1
async fn curves_are_told_with_their_samples_and_few_say_so() {
    let house = House::new().await;
    taught(&house, "the engine is cold", 15, 4).await;
    let curves = house.get("/v1/learning").await.json();
    let [curve] = curves["curves"].as_array().unwrap().as_slice() else { panic!("{curves}") };
    assert_eq!((&curve["channel"], &curve["category"]), (&json!("crm"), &json!("unknown")));
    assert_eq!(curve["all"], json!({"basis": "too_few", "tried": 19, "passed": 15}));
    taught(&house, "the engine is cold", 1, 0).await;
    let curve = &house.get("/v1/learning").await.json()["curves"][0];
    assert_eq!((&curve["all"]["basis"], &curve["all"]["tried"]), (&json!("counted"), &json!(20)));
    assert_eq!(curve["all"]["chance"], 0.8);
    assert_eq!(curve["by_attempt"][0]["attempt"], 2);
    let wait = &curve["by_wait"][0];
    assert_eq!(
        (&wait["from"], &wait["to"], &wait["estimate"]["tried"]),
        (&json!("9s600ms"), &json!("12s800ms"), &json!(20))
    );
    assert_eq!(curve["by_elapsed"][0]["estimate"]["passed"], 16);
    assert_eq!(curve["destinations"][0]["destination"], "crm.example");
    assert_eq!(curve["cells"][0]["attempt"], 2);
    for (query, found) in [
        ("?channel=crm", 1),
        ("?channel=mail", 0),
        ("?category=unknown", 1),
        ("?category=timeout", 0),
        ("?destination=crm.example", 1),
        ("?destination=elsewhere", 0),
    ] {
        let curves = house.get(&format!("/v1/learning{query}")).await.json();
        assert_eq!(curves["curves"].as_array().unwrap().len(), found, "{query}");
    }
    house.get("/v1/learning?chanel=crm").await.refused("INVALID_FIELD", "chanel");
    house.get("/v1/learning?channel=%20").await.refused("INVALID_FIELD", "channel");
}

#[tokio::test] // REQ LN-1, CF-1, CF-2
async fn an_error_that_passes_is_suggested_accepted_and_then_known() {
    let house = House::new().await;
    taught(&house, "the engine is cold, job 12345", 24, 1).await;
    let [suggestion] = &suggestions(&house).await[..] else { panic!() };
    assert_eq!(suggestion["text"], "the engine is cold, job #");
    assert_eq!((&suggestion["seen"], &suggestion["ended"]), (&json!(26), &json!(1)));
    assert_eq!(suggestion["said"], "96 % of 25 succeeded on the next attempt: suggest transient");
    assert_eq!((&suggestion["advice"], &suggestion["caution"]), (&json!("transient"), &Value::Null));
    let id = suggestion["id"].clone();

    let made = accept(&house, &json!({"suggestion": id, "note": "seen since Monday"})).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    let made = made.json();
    assert_eq!((&made["origin"], &made["rule"]["verdict"]), (&json!("accepted"), &json!("transient")));
    assert_eq!(
        (&made["accepted"]["version"], &made["accepted"]["note"]),
        (&json!(1), &json!("seen since Monday"))
    );
    take_effect(&house).await;
    assert_eq!(suggestions(&house).await, [] as [Value; 0], "it is known by now");

    let asked = json!({"channel": "crm", "status": 299, "error": "The engine is COLD, job 777"});
    let said = house.post("/v1/classifications", &asked).await.json();
    assert_eq!((&said["verdict"], &said["rule"]), (&json!("transient"), &made["cited"]));

    let id = made["accepted"]["id"].as_str().unwrap();
    let listed = house.get("/v1/rules?origin=accepted").await.json();
    assert_eq!(listed["items"][0]["accepted"]["id"], id);
    let removed = house.call_as("operator", "DELETE", &format!("/v1/rules/{id}"), "").await;
    assert_eq!(removed.status, StatusCode::NO_CONTENT);
    take_effect(&house).await;
    assert_eq!(suggestions(&house).await.len(), 1);
    let gone = house.call_as("operator", "DELETE", &format!("/v1/rules/{id}"), "").await;
    assert_eq!(gone.code(), "NOT_FOUND");
    let records = house.store.audit(0, usize::MAX).await.unwrap();
    let told: Vec<Event> = records
        .iter()
        .map(|(_, record)| record.event)
        .filter(|event| matches!(event, Event::RuleAccepted | Event::RuleRemoved))
        .collect();
    assert_eq!(told, [Event::RuleAccepted, Event::RuleRemoved]);
}

#[tokio::test] // REQ LN-1
async fn an_error_that_never_passes_is_suggested_with_a_caution_and_a_small_one_not_at_all() {
    let house = House::new().await;
    taught(&house, "this plan is over", 0, 150).await;
    taught(&house, "an odd thing", 1, 0).await;
    let found = suggestions(&house).await;
    assert_eq!((&found[0]["text"], &found[0]["advice"]), (&json!("this plan is over"), &json!("permanent")));
    assert!(found[0]["caution"].as_str().unwrap().contains("outage"), "{found:?}");
    assert_eq!((&found[1]["advice"], &found[1]["rule"]), (&json!("too_few"), &Value::Null));
    let undecided = accept(&house, &json!({"suggestion": found[1]["id"]})).await;
    undecided.refused("INVALID_FIELD", "verdict");
    let decided =
        accept(&house, &json!({"suggestion": found[1]["id"], "verdict": "transient", "category": "odd"}))
            .await;
    assert_eq!((decided.status, &decided.json()["rule"]["category"]), (StatusCode::CREATED, &json!("odd")));
    assert_eq!(accept(&house, &json!({"suggestion": "sug_0000000000000000"})).await.code(), "NOT_FOUND");
}

#[tokio::test] // REQ CF-1
async fn what_a_rule_would_change_is_told_before_it_is_accepted() {
    let house = House::new().await;
    taught(&house, "this plan is over, order 12345", 0, 5).await;
    taught(&house, "the engine is cold", 0, 2).await;
    let rule = json!({"contains": "plan is over", "verdict": "permanent", "category": "plan_over"});
    let body = json!({"channel": "crm", "rule": rule}).to_string();
    let tried = house.call_as("viewer", "POST", "/v1/rules/try", body).await.json();
    assert_eq!(
        (&tried["looked_at"], &tried["more"], &tried["changed"]),
        (&json!(7), &json!(false), &json!(5))
    );
    let [change] = tried["changes"].as_array().unwrap().as_slice() else { panic!("{tried}") };
    assert_eq!(change["before"], json!({"verdict": "unknown_transient", "category": "unknown"}));
    assert_eq!(change["after"], json!({"verdict": "permanent", "category": "plan_over"}));
    assert_eq!((&change["count"], change["samples"].as_array().unwrap().len()), (&json!(5), 3));
    assert!(change["samples"][0]["text"].as_str().unwrap().contains("plan is over"));
    assert_eq!(
        house.get("/v1/rules?origin=accepted").await.json()["items"],
        json!([]),
        "nothing was changed"
    );
}

#[tokio::test] // REQ CF-1
async fn rules_are_listed_in_the_order_in_which_they_are_tried() {
    let house = House::new().await;
    for words in ["first words", "second words"] {
        let rule = json!({"contains": words, "verdict": "transient", "category": "x"});
        assert_eq!(
            accept(&house, &json!({"channel": "crm", "rule": rule})).await.status,
            StatusCode::CREATED
        );
        house.clock.pass(Span::from_secs(1));
    }
    let listed = house.get("/v1/rules?channel=crm").await.json();
    let items = listed["items"].as_array().unwrap();
    let words: Vec<&Value> = items.iter().take(2).map(|item| &item["rule"]["contains"]).collect();
    assert_eq!(words, [&json!("second words"), &json!("first words")]);
    assert!(items[2..].iter().all(|item| item["origin"] == "built_in"), "{listed}");
    assert!(items.len() > 20);
    let same = json!({"channel": "crm", "rule": {"contains": "first words", "verdict": "transient", "category": "x"}});
    assert_eq!(accept(&house, &same).await.status, StatusCode::OK, "it is there already");
    house.get("/v1/rules?origin=mine").await.refused("INVALID_FIELD", "origin");
}

#[tokio::test] // REQ CF-1
async fn a_rule_that_cannot_be_used_is_refused_with_what_to_write_instead() {
    let house = House::new().await;
    let good = json!({"contains": "x y z", "verdict": "transient", "category": "x"});
    for (body, field) in [
        (json!({}), "rule"),
        (json!({"rule": good}), "channel"),
        (json!({"channel": "crm"}), "rule"),
        (json!({"channel": "nowhere", "rule": good}), "channel"),
        (json!({"channel": "crm", "rule": good, "suggestion": "sug_1"}), "suggestion"),
        (json!({"channel": "crm", "rule": good, "verdict": "permanent"}), "verdict"),
        (json!({"channel": "crm", "rule": {"verdict": "transient", "category": "x"}}), "rule"),
        (json!({"channel": "crm", "rule": {"contains": "x", "verdict": "perhaps", "category": "x"}}), "rule"),
        (
            json!({"channel": "crm", "rule": {"contains": "x", "verdict": "transient", "category": "A b"}}),
            "rule.category",
        ),
        (
            json!({"channel": "crm", "rule": {"matches": "(", "verdict": "transient", "category": "x"}}),
            "rule.matches",
        ),
        (json!({"suggestion": "sug_1", "verdict": "perhaps"}), "verdict"),
    ] {
        let problem = accept(&house, &body).await.refused("INVALID_FIELD", field);
        assert!(!problem["hint"].as_str().unwrap().is_empty(), "{body}");
    }
    assert_eq!(house.get("/v1/rules?origin=accepted").await.json()["items"], json!([]));
}

#[tokio::test] // REQ CF-1
async fn a_channel_has_a_hundred_accepted_rules_at_most() {
    let house = House::new().await;
    let wish = |number: usize| {
        let rule = json!({"contains": format!("words {number}"), "verdict": "transient", "category": "x"});
        json!({"channel": "crm", "rule": rule})
    };
    for number in 0..rule::RULES_MAX {
        assert_eq!(accept(&house, &wish(number)).await.status, StatusCode::CREATED);
    }
    assert_eq!(accept(&house, &wish(999)).await.code(), "TOO_MANY_RULES");
    assert_eq!(accept(&house, &wish(0)).await.status, StatusCode::OK);
}

#[tokio::test] // REQ LN-1
async fn a_message_that_waits_after_a_failure_says_by_when_it_has_likely_been_sent() {
    let house = House::new().await;
    let id = house.created(&json!({})).await;
    let path = format!("/v1/messages/{id}");
    assert_eq!(house.get(&path).await.json()["prediction"], Value::Null, "nothing has failed");
    assert_eq!(end(&house, Some("the engine is cold"), &again(&house)).await, 1);
    let few = house.get(&path).await.json()["prediction"].clone();
    assert_eq!((&few["likely_by"], &few["chance"], &few["samples"]), (&Value::Null, &Value::Null, &json!(0)));
    assert_eq!(few["reason"], "0 retries after `unknown` are on record, and 20 are needed to say more");
    house.call_as("operator", "POST", &format!("{path}/cancel"), "").await;
    assert_eq!(house.get(&path).await.json()["prediction"], Value::Null, "it waits for nothing");

    taught(&house, "the engine is cold", 30, 0).await;
    house.clock.pass(Span::from_mins(1));
    let id = house.created(&json!({})).await;
    assert_eq!(end(&house, Some("the engine is cold"), &again(&house)).await, 1);
    let message = house.call_as("viewer", "GET", &format!("/v1/messages/{id}"), "").await.json();
    let prediction = &message["prediction"];
    assert_eq!(prediction["likely_by"], message["next_attempt_at"], "{message}");
    assert_eq!((&prediction["chance"], &prediction["samples"]), (&json!(1.0), &json!(30)));
    let letter = house.get(&format!("/v1/dead-letters/{id}")).await.json();
    assert_eq!(letter["prediction"], *prediction, "whoever looks at it otherwise sees the same");
}
