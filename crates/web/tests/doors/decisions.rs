use std::sync::Arc;

use axum::body::Body;
use http::StatusCode;
use pombo_kernel::policy::{Overrides, Policy};
use pombo_kernel::time::{Clock as _, Span, Time};
use pombo_store::audit::{Event, Record};
use pombo_store::{Store, StoreError};
use serde_json::{Value, json};

use crate::house::{House, NOW, Reply, request, setup};

const PATH: &str = "/v1/retry-decisions";
const CLAIM: &str = "CLM-001-123";

fn asked(error: &str, count: u32) -> Value {
    json!({"claimId": CLAIM, "submissionError": error, "retryCount": count})
}

async fn decided(house: &House, question: &Value) -> Value {
    let reply = house.post(PATH, question).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    reply.json()
}

/// The records of decisions, oldest first.
async fn records(house: &House) -> Vec<(Record, Value)> {
    let all = house.store.audit(0, 1_000).await.unwrap().into_iter().map(|(_, record)| record);
    let decisions = all.filter(|record| {
        matches!(record.event, Event::RetryDecided | Event::RetriesExhausted | Event::PermanentErrorFound)
    });
    decisions
        .map(|record| {
            let detail = serde_json::from_str(&record.detail).unwrap();
            (record, detail)
        })
        .collect()
}

async fn listed(house: &House, query: &str) -> Vec<Value> {
    let reply = house.get(&format!("{PATH}?{query}")).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    reply.json()["items"].as_array().unwrap().clone()
}

#[tokio::test] // REQ RD-1; worked example 9.1
async fn a_timeout_after_one_retry_is_retried_in_eight_to_twelve_minutes() {
    let house = House::new().await;
    let answer = decided(&house, &asked("TIMEOUT - Connection timeout after 30s", 1)).await;
    let minutes = answer["backoffMinutes"].as_u64().unwrap();
    assert!((8..=12).contains(&minutes), "{answer}");
    assert_eq!(answer["nextRetryTime"], (NOW + Span::from_mins(minutes)).to_string());
    assert_eq!(
        (&answer["shouldRetry"], &answer["retryCount"], &answer["maxRetries"]),
        (&json!(true), &json!(2), &json!(5))
    );
    assert_eq!(answer["retryReason"], "Transient error, retry 2 of 5");
    assert_eq!(answer["errorClassification"], "TRANSIENT");
    assert_eq!(answer["originalError"], "TIMEOUT - Connection timeout after 30s");
}

#[tokio::test] // REQ RD-3, RP-3; worked examples 9.2 and 9.3
async fn no_retry_is_a_problem_of_the_business_with_the_decision_in_it() {
    let house = House::new().await;
    let ended = house.post(PATH, &asked("TIMEOUT", 5)).await;
    assert_eq!(
        (ended.status, ended.code().as_str()),
        (StatusCode::UNPROCESSABLE_ENTITY, "MAX_RETRIES_EXCEEDED")
    );
    let document = ended.json();
    assert_eq!(
        (&document["shouldRetry"], &document["retryCount"], &document["maxRetries"]),
        (&json!(false), &json!(5), &json!(5))
    );
    assert!(document.get("nextRetryTime").is_none() && document.get("errorClassification").is_none());
    let permanent = house.post(PATH, &asked("INVALID_PATIENT_DATA - CPF inválido", 0)).await;
    assert_eq!(
        (permanent.status, permanent.code().as_str()),
        (StatusCode::UNPROCESSABLE_ENTITY, "PERMANENT_ERROR")
    );
    assert_eq!(permanent.json()["errorType"], "INVALID_PATIENT_DATA");
    assert_eq!(permanent.json()["errorClassification"], "PERMANENT");
    // The limit is looked at first.
    assert_eq!(house.post(PATH, &asked("INVALID_PATIENT_DATA", 5)).await.code(), "MAX_RETRIES_EXCEEDED");
}

#[tokio::test] // REQ RD-3
async fn the_reason_is_in_portuguese_for_those_who_ask_for_it() {
    let house = House::new().await;
    let ask = |language: &'static str, question: Value| {
        let request = request("POST", PATH)
            .header("authorization", "Bearer key-producer")
            .header("accept-language", language)
            .body(Body::from(question.to_string()))
            .unwrap();
        house.send(request)
    };
    let first = ask("pt-BR,pt;q=0.9,en;q=0.5", asked("TIMEOUT", 1)).await;
    assert_eq!(first.json()["retryReason"], "Erro transiente, tentativa 2 de 5");
    assert_eq!(first.header("content-language"), Some("pt"));
    let again = ask("en", asked("TIMEOUT", 1)).await;
    assert_eq!(again.json()["retryReason"], "Transient error, retry 2 of 5");
    let ended = ask("pt", asked("TIMEOUT", 5)).await;
    assert_eq!(ended.json()["detail"], "Máximo de tentativas excedido: 5 de 5");
}

#[tokio::test] // REQ RD-4
async fn the_same_question_gets_the_decision_on_record() {
    let house = House::new().await;
    let question = asked("SERVICE_UNAVAILABLE", 3);
    let first = decided(&house, &question).await;
    house.clock.pass(Span::from_hours(30));
    assert_eq!(decided(&house, &question).await, first);
    for other in [
        asked("SERVICE_UNAVAILABLE", 2),
        asked("SERVICE_UNAVAILABLE!", 3),
        json!({"claimId": "CLM-001-124", "submissionError": "SERVICE_UNAVAILABLE", "retryCount": 3}),
        json!({"claimId": CLAIM, "submissionError": "SERVICE_UNAVAILABLE", "retryCount": 3,
            "lastSubmissionTime": "2025-01-12T10:40:00Z"}),
    ] {
        assert_ne!(decided(&house, &other).await["nextRetryTime"], first["nextRetryTime"], "{other}");
    }
    let ended = house.post(PATH, &asked("DUPLICATE_CLAIM", 1)).await.json();
    assert_eq!(house.post(PATH, &asked("DUPLICATE_CLAIM", 1)).await.json(), ended);
    assert_eq!(records(&house).await.len(), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)] // REQ RD-4
async fn a_hundred_who_ask_at_once_get_one_decision() {
    let house = Arc::new(House::new().await);
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let house = house.clone();
        asking.spawn(async move { decided(&house, &asked("TIMEOUT", 2)).await });
    }
    let answers = asking.join_all().await;
    assert_eq!(answers.len(), 100);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert_eq!(records(&house).await.len(), 1);
    assert_eq!(listed(&house, &format!("claimId={CLAIM}")).await.len(), 1);
}

#[tokio::test] // REQ RD-1
async fn without_a_count_the_recorded_one_counts() {
    let house = House::new().await;
    let question = |error: &str| json!({"claimId": CLAIM, "submissionError": error});
    for count in 1..=5 {
        let answer = decided(&house, &question("TIMEOUT")).await;
        assert_eq!(answer["retryCount"], count);
        // The same failure, told again before the retry.
        assert_eq!(decided(&house, &question("TIMEOUT")).await, answer);
        let next: Time = answer["nextRetryTime"].as_str().unwrap().parse().unwrap();
        house.clock.pass(next.since(house.clock.now()));
    }
    let ended = house.post(PATH, &question("TIMEOUT")).await;
    assert_eq!(ended.code(), "MAX_RETRIES_EXCEEDED");
    assert_eq!(house.post(PATH, &question("TIMEOUT")).await.json(), ended.json());
    // Another claim starts anew, and so does another tenant's of the same name.
    let other = json!({"claimId": "CLM-9-9", "submissionError": "TIMEOUT"});
    assert_eq!(decided(&house, &other).await["retryCount"], 1);
    let foreign = house.call_as("foreign", "POST", PATH, question("TIMEOUT").to_string()).await;
    assert_eq!(foreign.json()["retryCount"], 1, "{}", foreign.text);
    // Another failure of the same claim within the same millisecond counts on.
    let other = json!({"claimId": "CLM-9-9", "submissionError": "503"});
    assert_eq!(decided(&house, &other).await["retryCount"], 2);
    let other = json!({"claimId": "CLM-9-9", "submissionError": "504"});
    assert_eq!(decided(&house, &other).await["retryCount"], 3);
}

#[tokio::test] // REQ RD-2; V4
async fn what_is_wrong_is_told_by_the_codes_of_the_source() {
    let house = House::new().await;
    let ask = |question: Value| {
        let house = &house;
        async move { house.post(PATH, &question).await }
    };
    ask(json!({"claimId": CLAIM, "submissionError": " "}))
        .await
        .refused("INVALID_ERROR_MESSAGE", "submissionError");
    ask(json!({"claimId": CLAIM})).await.refused("INVALID_ERROR_MESSAGE", "submissionError");
    ask(json!({"claimId": "123", "submissionError": "x"})).await.refused("INVALID_FIELD", "claimId");
    ask(json!({"claimId": CLAIM, "submissionError": "x", "retryCount": -1}))
        .await
        .refused("INVALID_FIELD", "retryCount");
    ask(json!({"claimId": CLAIM, "submissionError": "x", "colour": 1}))
        .await
        .refused("INVALID_FIELD", "colour");
    let all = ask(json!({"claimId": 5, "retryCount": "1", "lastSubmissionTime": "noon"})).await;
    assert_eq!(all.json()["errors"].as_array().unwrap().len(), 4, "{}", all.text);
    assert_eq!(house.call("POST", PATH, "{\"claimId\": \"CLM").await.code(), "INVALID_JSON");
    assert!(records(&house).await.is_empty());
}

#[tokio::test] // REQ RD-6, OB-2; seed 7.1 and 12.3
async fn each_new_decision_is_one_audit_record_with_the_fields_of_its_event() {
    let house = House::new().await;
    let first = decided(&house, &asked("TIMEOUT for ana@clinic.example", 1)).await;
    house.clock.pass(Span::from_mins(90));
    house.post(PATH, &asked("TIMEOUT", 5)).await;
    house.post(PATH, &asked("DUPLICATE_CLAIM", 0)).await;
    house.post(PATH, &asked("DUPLICATE_CLAIM", 0)).await;
    let found = records(&house).await;
    let events: Vec<Event> = found.iter().map(|(record, _)| record.event).collect();
    assert_eq!(events, [Event::RetryDecided, Event::RetriesExhausted, Event::PermanentErrorFound]);
    assert!(
        found.iter().all(|(record, _)| record.tenant == "default" && record.actor == "admin (key_admin)")
    );
    let (_, retry) = &found[0];
    assert_eq!(retry["claimId"], CLAIM);
    assert_eq!(retry["submissionError"], "TIMEOUT for a***@clinic.example");
    assert_eq!(
        (&retry["backoffMinutes"], &retry["nextRetryTime"]),
        (&first["backoffMinutes"], &first["nextRetryTime"])
    );
    assert_eq!(
        (&retry["scheduledAt"], &retry["timestamp"]),
        (&json!(NOW.to_string()), &json!(NOW.to_string()))
    );
    let (_, ended) = &found[1];
    assert_eq!((&ended["finalError"], &ended["totalAttempts"]), (&json!("TIMEOUT"), &json!(6)));
    assert_eq!((&ended["totalDuration"], &ended["severity"]), (&json!("PT5400S"), &json!("CRITICAL")));
    let (_, permanent) = &found[2];
    assert_eq!(
        (&permanent["errorType"], &permanent["errorMessage"]),
        (&json!("DUPLICATE_CLAIM"), &json!("DUPLICATE_CLAIM"))
    );
}

#[tokio::test] // REQ RD-1: findByClaimId, findPendingRetries
async fn decisions_are_listed_by_claim_and_while_their_retry_is_to_come() {
    let house = House::new().await;
    let ask = |claim: &str, count: u32| json!({"claimId": claim, "submissionError": "TIMEOUT", "retryCount": count});
    for count in 0..3 {
        decided(&house, &ask(CLAIM, count)).await;
        house.clock.pass(Span::from_mins(30));
    }
    decided(&house, &ask("CLM-2-2", 4)).await;
    decided(&house, &ask("CLM-2-3", 0)).await;
    house.post(PATH, &ask("CLM-2-4", 5)).await;
    let counts = |items: &[Value]| items.iter().map(|item| item["retryCount"].clone()).collect::<Vec<_>>();
    let of_claim = listed(&house, &format!("claimId={CLAIM}")).await;
    assert_eq!(counts(&of_claim), [3, 2, 1]);
    assert!(of_claim[0]["id"].as_str().is_some_and(|id| id.len() == 64));
    // Only those whose time has not come, the next one first.
    let pending = listed(&house, "pending=true").await;
    assert_eq!(
        pending.iter().map(|item| item["claimId"].as_str().unwrap()).collect::<Vec<_>>(),
        ["CLM-2-3", "CLM-2-2"]
    );
    assert_eq!(listed(&house, "").await.len(), 6);
    // Page by page, nothing twice and nothing left out.
    for (query, expected) in [("", 6), ("pending=true&", 2), ("claimId=CLM-001-123&", 3)] {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let reply: Reply = house.get(&format!("{PATH}?{query}limit=1{cursor}")).await;
            seen.extend(reply.json()["items"].as_array().unwrap().iter().map(|item| item["id"].to_string()));
            match reply.json()["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), expected, "{query}");
    }
    house.get(&format!("{PATH}?claimId=nonsense")).await.refused("INVALID_FIELD", "claimId");
    house.get(&format!("{PATH}?claimId={CLAIM}&pending=true")).await.refused("INVALID_FIELD", "pending");
    assert_eq!(house.get(&format!("{PATH}?cursor=x")).await.code(), "INVALID_CURSOR");
}

#[tokio::test] // REQ SE-1
async fn producers_follow_claims_by_id_and_nobody_sees_another_tenants() {
    let house = House::new().await;
    decided(&house, &asked("TIMEOUT", 0)).await;
    let path = format!("{PATH}?claimId={CLAIM}");
    let own = house.call_as("producer", "GET", &path, Body::empty()).await;
    assert_eq!(own.json()["items"].as_array().unwrap().len(), 1);
    for all in [PATH.to_owned(), format!("{PATH}?pending=true")] {
        assert_eq!(house.call_as("producer", "GET", &all, Body::empty()).await.code(), "FORBIDDEN");
        assert_eq!(house.call_as("foreign", "GET", &all, Body::empty()).await.json()["items"], json!([]));
    }
    assert_eq!(house.call_as("foreign", "GET", &path, Body::empty()).await.json()["items"], json!([]));
    assert_eq!(
        house.call_as("viewer", "POST", PATH, asked("TIMEOUT", 0).to_string()).await.code(),
        "FORBIDDEN"
    );
}

#[tokio::test] // REQ RP-5
async fn the_configured_policy_of_claims_decides() {
    let changes = Overrides {
        attempts: Some(3),
        base: Some(Span::from_mins(30)),
        jitter: Some(0.0),
        ..Overrides::default()
    };
    let changed = pombo_kernel::setup::Setup { claims: Policy::claims().with(&changes), ..setup() };
    let house = House::with(changed, pombo_web::Patience::default()).await;
    let answer = decided(&house, &asked("TIMEOUT", 1)).await;
    assert_eq!((&answer["maxRetries"], &answer["backoffMinutes"]), (&json!(2), &json!(60)));
    assert_eq!(house.post(PATH, &asked("TIMEOUT", 2)).await.code(), "MAX_RETRIES_EXCEEDED");
}

#[tokio::test] // REQ RD-3
async fn a_store_that_cannot_be_used_decides_nothing() {
    let house = House::new().await;
    decided(&house, &asked("TIMEOUT", 0)).await;
    house.store.feel_for(Some(StoreError::Unavailable("away".into())), 1);
    let reply = house.post(PATH, &asked("TIMEOUT", 1)).await;
    assert_eq!((reply.status, reply.code().as_str()), (StatusCode::SERVICE_UNAVAILABLE, "STORE_UNAVAILABLE"));
    assert_eq!(records(&house).await.len(), 1);
    assert_eq!(decided(&house, &asked("TIMEOUT", 1)).await["retryCount"], 2);
}
