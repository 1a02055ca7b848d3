//! The real binary as a worker of pretend process engines, which keep their own count.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod eight;
mod engine;
mod examples;
mod http;
#[path = "../place/mod.rs"]
mod place;
mod seven;

use std::io::Write as _;

use pombo::client::Client;
use pombo_kernel::time::{Span, Time};
use serde_json::{Map, Value, json};

use eight::Cluster;
use engine::{End, Mood, Shared};
use place::Place;
use seven::Engine;

/// Nothing is handed out again because this machine was slow: a lock ends when a test ends it.
const LONG_JOBS: &str = "job_timeout = \"5m\"";
const LONG_LOCKS: &str = "lock_duration = \"5m\"";

/// A place whose configuration goes on like that.
fn place(more: &str) -> Place {
    let place = Place::new();
    let file = place.folder.path().join("pombo.toml");
    let mut file = std::fs::OpenOptions::new().append(true).open(file).unwrap();
    file.write_all(more.as_bytes()).unwrap();
    place
}

fn with_eight(cluster: &Cluster, more: &str) -> Place {
    let url = cluster.url();
    place(&format!("[camunda8]\nbase_url = \"{url}\"\nrequest_timeout = \"2s\"\n{more}\n"))
}

fn with_seven(engine: &Engine, more: &str) -> Place {
    let url = engine.url();
    place(&format!("[camunda7]\nbase_url = \"{url}\"\nrequest_timeout = \"2s\"\n{more}\n"))
}

fn failed(claim: &str, error: &str, count: u32) -> Value {
    json!({"claimId": claim, "submissionError": error, "retryCount": count})
}

/// Retries within the bounds of the worked example, and a time that is in step.
fn check_retry(variables: &Map<String, Value>, now: Time) {
    assert_eq!(variables["shouldRetry"], true);
    assert_eq!((&variables["retryCount"], &variables["maxRetries"]), (&json!(2), &json!(5)));
    assert_eq!(variables["retryReason"], "Transient error, retry 2 of 5");
    assert_eq!(variables["errorClassification"], "TRANSIENT");
    let minutes = variables["backoffMinutes"].as_u64().unwrap();
    assert!((8..=12).contains(&minutes), "{variables:?}");
    let next: Time = variables["nextRetryTime"].as_str().unwrap().replace("+0000", "Z").parse().unwrap();
    let decided = next - Span::from_mins(minutes);
    assert!(decided <= now && now.since(decided) < Span::from_secs(60), "{variables:?}");
}

async fn decisions(client: &Client, claim: &str) -> Vec<Value> {
    let page = client.get(&format!("/v1/retry-decisions?claimId={claim}")).await.unwrap();
    page["items"].as_array().unwrap().clone()
}

/// Nothing was asked that no engine would take, and nothing ended twice.
fn check_manners(shared: &Shared) {
    let state = shared.state();
    assert_eq!(state.bad_requests, Vec::<String>::new());
    assert!(state.tasks.values().all(|task| task.endings <= 1), "{:?}", state.tasks);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ RD-5
async fn camunda_8_jobs_are_completed_with_the_recorded_decision() {
    let cluster = Cluster::start().await;
    let place = with_eight(&cluster, LONG_JOBS);
    let server = place.start();
    place.ready().await;
    let key = cluster.job(failed("CLM-001-123", "TIMEOUT - Connection timeout after 30s", 1));
    let End::Completed(variables) = cluster.shared.end_of(&key).await else { panic!("not completed") };
    check_retry(&variables, cluster.shared.now());
    let recorded = decisions(&place.client(), "CLM-001-123").await;
    assert_eq!(recorded.len(), 1);
    assert_eq!(recorded[0]["nextRetryTime"], variables["nextRetryTime"]);

    // Errors of the business are errors of the process, by their codes.
    let ended = cluster.job(failed("CLM-001-124", "TIMEOUT", 5));
    let permanent = cluster.job(failed("CLM-001-125", "INVALID_PATIENT_DATA - CPF inválido", 0));
    for (key, expected) in [(ended, "MAX_RETRIES_EXCEEDED"), (permanent, "PERMANENT_ERROR")] {
        let End::Error { code, variables } = cluster.shared.end_of(&key).await else { panic!("no error") };
        assert_eq!((code.as_str(), &variables["shouldRetry"]), (expected, &json!(false)));
    }

    // Many at once, more than one question for jobs gives.
    let keys: Vec<String> = (0..200).map(|n| cluster.job(failed(&format!("CLM-9-{n}"), "503", 0))).collect();
    for key in &keys {
        assert!(matches!(cluster.shared.end_of(key).await, End::Completed(_)));
    }
    assert!(server.terminate().await.success());
    check_manners(&cluster.shared);
    assert!(cluster.shared.state().tasks.values().all(|task| task.handed_out == 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ RD-2, RD-5
async fn what_cannot_be_decided_is_an_incident_that_says_why_and_the_rest_goes_on() {
    let cluster = Cluster::start().await;
    let place = with_eight(&cluster, LONG_JOBS);
    let server = place.start();
    place.ready().await;
    let wrong = [
        (json!({"submissionError": "TIMEOUT"}), "claimId is missing"),
        (json!({"claimId": ["CLM-1-2"], "submissionError": "TIMEOUT"}), "claimId is not the id of a claim"),
        (json!({"claimId": "CLM-1-2", "submissionError": " "}), "INVALID_ERROR_MESSAGE"),
        (json!({"claimId": "CLM-1-2", "submissionError": "x", "retryCount": "two"}), "retryCount is not"),
        (
            json!({"claimId": "CLM-1-2", "submissionError": "x", "lastSubmissionTime": {"a": 1}}),
            "lastSubmissionTime",
        ),
        (json!({}), "claimId is missing"),
        (json!(["not", "an", "object"]), "claimId is missing"),
    ];
    for (variables, expected) in wrong {
        let key = cluster.job(variables.clone());
        let End::Incident(message) = cluster.shared.end_of(&key).await else { panic!("{variables}") };
        assert!(message.contains(expected), "{message}");
    }
    let good = cluster.job(json!({"claimId": "CLM-1-2", "submissionError": "x", "retryCount": 1.0}));
    assert!(matches!(cluster.shared.end_of(&good).await, End::Completed(_)));
    assert!(server.terminate().await.success());
    check_manners(&cluster.shared);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ RD-4, RD-5
async fn a_worker_that_is_killed_before_its_answer_arrives_gives_the_same_one_later() {
    let cluster = Cluster::start().await;
    let place = with_eight(&cluster, LONG_JOBS);
    let server = place.start();
    place.ready().await;
    cluster.shared.state().moods.push_back(Mood::Swallow);
    let key = cluster.job(failed("CLM-001-123", "TIMEOUT", 1));
    cluster.shared.until("the answer came", |state| !state.swallowed.is_empty()).await;
    server.kill();
    let lost = cluster.shared.state().swallowed[0]["variables"].clone();
    cluster.shared.unlock(&key).await;
    let server = place.start();
    let End::Completed(variables) = cluster.shared.end_of(&key).await else { panic!("not completed") };
    assert_eq!(Value::Object(variables), lost);
    place.ready().await;
    assert_eq!(decisions(&place.client(), "CLM-001-123").await.len(), 1);
    let task = cluster.shared.task(&key);
    assert_eq!((task.endings, task.handed_out), (1, 2));
    assert!(server.terminate().await.success());
    check_manners(&cluster.shared);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ RD-5
async fn an_answer_that_was_taken_and_not_acknowledged_counts_as_done() {
    let cluster = Cluster::start().await;
    let place = with_eight(&cluster, LONG_JOBS);
    let server = place.start();
    place.ready().await;
    cluster.shared.state().moods.push_back(Mood::TakeAndCut);
    let key = cluster.job(failed("CLM-001-123", "TIMEOUT", 1));
    assert!(matches!(cluster.shared.end_of(&key).await, End::Completed(_)));
    // The next one shows that the worker is done with the first.
    let next = cluster.job(failed("CLM-001-124", "TIMEOUT", 1));
    assert!(matches!(cluster.shared.end_of(&next).await, End::Completed(_)));
    assert!(server.terminate().await.success());
    let task = cluster.shared.task(&key);
    assert_eq!((task.endings, task.handed_out, task.failures.len()), (1, 1, 0));
    check_manners(&cluster.shared);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ RD-5
async fn an_engine_that_is_busy_or_away_is_asked_again_more_and_more_slowly() {
    let cluster = Cluster::start().await;
    cluster.shared.state().fetch_statuses.extend([0, 503, 503, 500]);
    cluster.shared.state().moods.extend([Mood::Busy, Mood::Busy, Mood::Broken]);
    let place = with_eight(&cluster, LONG_JOBS);
    let key = cluster.job(failed("CLM-001-123", "TIMEOUT", 1));
    let begun = cluster.shared.now();
    let server = place.start();
    // The node itself is well all the while.
    place.ready().await;
    assert!(matches!(cluster.shared.end_of(&key).await, End::Completed(_)));
    // 0.1 + 0.2 + 0.4 + 0.8 s for the questions, 0.1 + 0.2 + 0.4 s for the answer, at the least.
    let took = cluster.shared.now().since(begun);
    assert!(took >= Span::from_millis(2_200), "{took}");
    assert!(server.terminate().await.success());
    // Four in vain, the one that brought the task, and then one each 2 s.
    let polls = cluster.shared.now().since(begun).millis() / 2_000;
    let state = cluster.shared.state();
    assert!((5..=6 + polls).contains(&state.fetches.into()), "{}", state.fetches);
    assert_eq!(state.tasks[&key].failures, Vec::<String>::new());
    drop(state);
    check_manners(&cluster.shared);
    let said = place.said();
    assert_eq!(said.matches("the engine gives no tasks for now").count(), 1, "{said}");
    assert!(said.contains("RESOURCE_EXHAUSTED") || said.contains("the engine answers again"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ RD-5
async fn a_token_that_ends_is_renewed_and_no_secret_is_logged() {
    let cluster = Cluster::start().await;
    cluster.shared.state().logins.push("Bearer nobody-has-this".to_owned());
    let more = format!(
        "auth = \"oidc\"\ntoken_url = \"{}/oauth/token\"\nclient_id = \"pombo\"\nclient_secret_file = \"secret\"\n\
         audience = \"zeebe.camunda.io\"",
        cluster.url()
    );
    let place = with_eight(&cluster, &more);
    std::fs::write(place.folder.path().join("secret"), "canary-secret &=1\n").unwrap();
    let server = place.start();
    place.ready().await;
    let first = cluster.job(failed("CLM-1-1", "TIMEOUT", 0));
    assert!(matches!(cluster.shared.end_of(&first).await, End::Completed(_)));
    assert_eq!(cluster.shared.state().tokens_given, 1);
    // The token ends before its time.
    cluster.shared.state().logins.retain(|login| login.contains("nobody"));
    let second = cluster.job(failed("CLM-1-2", "TIMEOUT", 0));
    assert!(matches!(cluster.shared.end_of(&second).await, End::Completed(_)));
    assert_eq!(cluster.shared.state().tokens_given, 2);
    let asked = cluster.shared.state().token_requests[0].clone();
    for part in [
        "grant_type=client_credentials",
        "client_id=pombo",
        "client_secret=canary-secret+%26%3D1",
        "audience=zeebe.camunda.io",
    ] {
        assert!(asked.split('&').any(|pair| pair == part), "{part} in {asked}");
    }
    assert!(server.terminate().await.success());
    let said = place.said();
    assert!(!said.contains("canary") && !said.contains("token-"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ RD-5
async fn camunda_7_tasks_are_completed_with_typed_variables() {
    let engine = Engine::start().await;
    engine.shared.state().logins.push(Cluster::basic("demo", "canary-secret-7"));
    let place = with_seven(&engine, "username = \"demo\"\npassword_file = \"password\"\nlanguage = \"en\"");
    std::fs::write(place.folder.path().join("password"), "canary-secret-7").unwrap();
    let server = place.start();
    place.ready().await;
    let mut asked = failed("CLM-001-123", "TIMEOUT - Connection timeout after 30s", 1);
    asked["lastSubmissionTime"] = json!("2025-01-12T10:40:00.000+0000");
    let id = engine.task(&asked);
    let End::Completed(variables) = engine.shared.end_of(&id).await else { panic!("not completed") };
    check_retry(&variables, engine.shared.now());
    assert_eq!(
        decisions(&place.client(), "CLM-001-123").await[0]["lastSubmissionTime"],
        "2025-01-12T10:40:00.000Z"
    );

    let ended = engine.task(&failed("CLM-001-124", "TIMEOUT", 5));
    let permanent = engine.task(&failed("CLM-001-125", "DUPLICATE_CLAIM", 0));
    for (id, expected) in [(ended, "MAX_RETRIES_EXCEEDED"), (permanent, "PERMANENT_ERROR")] {
        let End::Error { code, .. } = engine.shared.end_of(&id).await else { panic!("no error") };
        assert_eq!(code, expected);
    }
    let wrong = engine.task(&json!({"claimId": "CLM-1-2", "submissionError": null}));
    let End::Incident(message) = engine.shared.end_of(&wrong).await else { panic!("no incident") };
    assert!(message.contains("INVALID_ERROR_MESSAGE"), "{message}");

    // Twice in one process: what the engine could not go on with costs a retry, and comes again later.
    engine.shared.state().moods.push_back(Mood::Broken);
    let stuck = engine.task(&failed("CLM-001-126", "TIMEOUT", 1));
    engine.shared.until("a failure was told", |state| !state.tasks[&stuck].failures.is_empty()).await;
    let task = engine.shared.task(&stuck);
    assert_eq!((task.retries, task.end), (Some(2), None));
    assert!(task.failures[0].contains("the process could not continue"), "{:?}", task.failures);
    assert!(server.terminate().await.success());
    check_manners(&engine.shared);
    assert!(!place.said().contains("canary"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ RD-4, RD-5
async fn camunda_7_tasks_survive_a_killed_worker_a_lost_answer_and_backpressure() {
    let engine = Engine::start().await;
    let place = with_seven(&engine, LONG_LOCKS);
    let server = place.start();
    place.ready().await;
    engine.shared.state().moods.push_back(Mood::Swallow);
    let killed = engine.task(&failed("CLM-1-1", "TIMEOUT", 3));
    engine.shared.until("the answer came", |state| !state.swallowed.is_empty()).await;
    server.kill();
    let lost = engine.shared.state().swallowed[0]["variables"]["nextRetryTime"]["value"].clone();
    engine.shared.state().fetch_statuses.extend([0, 503]);
    engine.shared.unlock(&killed).await;
    let server = place.start();
    let End::Completed(variables) = engine.shared.end_of(&killed).await else { panic!("not completed") };
    assert_eq!(variables["nextRetryTime"], lost);
    engine.shared.state().moods.extend([Mood::Busy, Mood::TakeAndCut]);
    let cut = engine.task(&failed("CLM-1-2", "TIMEOUT", 0));
    assert!(matches!(engine.shared.end_of(&cut).await, End::Completed(_)));
    place.ready().await;
    assert!(server.terminate().await.success());
    assert_eq!((engine.shared.task(&cut).handed_out, engine.shared.task(&killed).handed_out), (1, 2));
    check_manners(&engine.shared);
}
