//! Retry decisions by the real binary: asked for on the command line, by many at once, and from several nodes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::process::Command;
use std::time::Duration;

use pombo::client::{Client, ClientError, Payload};
use pombo_testbed::Cluster;
use serde_json::{Value, json};

use place::{KEY, Place, binary};

/// How often a store that is too busy is asked again.
const TRIES: usize = 200;

struct Said {
    code: i32,
    out: String,
    err: String,
}

fn pombo(place: &Place, args: &[&str]) -> Said {
    let output = Command::new(binary())
        .args(args)
        .current_dir(place.folder.path())
        .env("POMBO_SERVER", place.url())
        .env("POMBO_API_KEY", KEY)
        .output()
        .unwrap();
    Said {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn decide<'a>(claim: &'a str, error: &'a str, count: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["decide", "--claim-id", claim, "--error", error, "--retry-count", count], more].concat()
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("not JSON: {text}"))
}

/// A refusal for programs has what went wrong and the whole decision.
fn told_in_full(said: &str) {
    let told = read(said);
    for field in
        ["title", "code", "detail", "hint", "claimId", "retryReason", "decidedAt", "errorClassification"]
    {
        assert!(told[field].is_string(), "{field}: {told}");
    }
    assert_eq!((&told["shouldRetry"], told["maxRetries"].is_u64()), (&json!(false), true), "{told}");
}

#[test] // REQ RD-1, IN-2
fn a_dry_run_decides_without_a_server() {
    let place = Place::new();
    let retry = pombo(&place, &decide("CLM-001-123", "TIMEOUT", "1", &["--dry-run"]));
    assert_eq!((retry.code, retry.err.as_str()), (0, ""), "{}", retry.out);
    assert!(
        retry.out.starts_with("CLM-001-123: Transient error, retry 2 of 5\nsubmit it again in "),
        "{}",
        retry.out
    );
    let answer = read(&pombo(&place, &decide("CLM-001-123", "TIMEOUT", "1", &["--dry-run", "--json"])).out);
    let minutes = answer["backoffMinutes"].as_u64().unwrap();
    assert!((8..=12).contains(&minutes), "{answer}");
    assert!(retry.out.contains(&format!("in {minutes} minutes")), "{}", retry.out);

    let ended = pombo(&place, &decide("CLM-001-123", "TIMEOUT", "5", &["--dry-run"]));
    assert_eq!((ended.code, ended.out.as_str()), (1, ""));
    assert!(ended.err.contains("MAX_RETRIES_EXCEEDED"), "{}", ended.err);
    let permanent =
        pombo(&place, &decide("CLM-001-123", "INVALID_PATIENT_DATA", "0", &["--dry-run", "--json"]));
    assert_eq!((permanent.code, &read(&permanent.err)["code"]), (1, &json!("PERMANENT_ERROR")));
    told_in_full(&permanent.err);
    let empty = pombo(&place, &decide("123", " ", "0", &["--dry-run"]));
    assert_eq!(empty.code, 1);
    assert!(empty.err.contains("claimId") && empty.err.contains("submissionError"), "{}", empty.err);
    assert_eq!(pombo(&place, &["decide", "--claim-id", "CLM-1-2"]).code, 2);
    assert_eq!(pombo(&place, &["decide", "list", "--claim", "CLM-1-2", "--pending"]).code, 2);
    assert!(pombo(&place, &decide("CLM-1-2", "x", "0", &[])).err.contains("SERVER_UNREACHABLE"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ RD-1, RD-3, RD-4, OB-2
async fn a_server_records_what_the_command_line_asks() {
    let place = Place::new();
    let server = place.start();
    place.ready().await;
    let asked = decide("CLM-001-123", "TIMEOUT - ana@clinic.example", "1", &["--json"]);
    let first = pombo(&place, &asked);
    assert_eq!(first.code, 0, "{}", first.err);
    assert_eq!(pombo(&place, &asked).out, first.out);
    // The dice are the same wherever it is decided.
    let dry = read(&pombo(&place, &[&asked[..], &["--dry-run"]].concat()).out);
    assert_eq!(dry["backoffMinutes"], read(&first.out)["backoffMinutes"]);

    let ended = pombo(&place, &decide("CLM-001-123", "TIMEOUT", "5", &[]));
    assert_eq!(ended.code, 1);
    assert!(
        ended.err.contains("(MAX_RETRIES_EXCEEDED): Maximum of retries exceeded: 5 of 5"),
        "{}",
        ended.err
    );
    let permanent = pombo(&place, &decide("CLM-001-124", "DUPLICATE_CLAIM", "0", &[]));
    assert!(permanent.code == 1 && permanent.err.contains("PERMANENT_ERROR"), "{}", permanent.err);
    let permanent = pombo(&place, &decide("CLM-001-124", "DUPLICATE_CLAIM", "0", &["--json"]));
    told_in_full(&permanent.err);
    let counted = pombo(&place, &["decide", "--claim-id", "CLM-001-125", "--error", "what?"]);
    assert_eq!(counted.code, 0, "{}", counted.err);

    let list = pombo(&place, &["decide", "list", "--claim", "CLM-001-123", "--json"]);
    let items: Vec<Value> = list.out.lines().map(read).collect();
    assert_eq!(items.iter().map(|item| item["retryCount"].clone()).collect::<Vec<_>>(), [5, 2]);
    assert_eq!(items[1]["originalError"], "TIMEOUT - a***@clinic.example");
    let pending = pombo(&place, &["decide", "list", "--pending"]).out;
    assert!(pending.contains("CLM-001-123") && pending.contains("CLM-001-125"), "{pending}");
    assert!(!pending.contains("CLM-001-124"), "{pending}");
    assert_eq!(pombo(&place, &["decide", "list", "--limit", "1", "--json"]).out.lines().count(), 1);
    assert!(server.terminate().await.success());

    let said = place.said();
    let lines: Vec<Value> = said.lines().map(read).filter(|line| line["claimId"].is_string()).collect();
    let events: Vec<&str> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    assert_eq!(events, ["retry_scheduled", "max_retries_exceeded", "permanent_error", "retry_scheduled"]);
    for field in ["submissionError", "errorClassification", "nextRetryTime", "timestamp"] {
        assert!(lines[0][field].is_string(), "{field}: {}", lines[0]);
    }
    for field in ["retryCount", "maxRetries", "backoffMinutes", "executionTimeMs"] {
        assert!(lines[0][field].is_u64(), "{field}: {}", lines[0]);
    }
    assert_eq!(
        (&lines[3]["level"], &lines[3]["errorClassification"]),
        (&json!("WARN"), &json!("UNKNOWN_TRANSIENT"))
    );
    assert!(!said.contains("ana@"), "{said}");
}

/// Asks the same of each client many times at once; the answers.
async fn ask_at_once(clients: &[Client], times: usize) -> Vec<Value> {
    let question = json!({"claimId": "CLM-7-7", "submissionError": "SERVICE_UNAVAILABLE", "retryCount": 4});
    let mut asking = tokio::task::JoinSet::new();
    for number in 0..times {
        let client = Client::new(clients[number % clients.len()].server(), Some(KEY)).unwrap();
        let payload = Payload::json(&question);
        asking.spawn(async move {
            for _ in 0..TRIES {
                match client.post("/v1/retry-decisions", payload.clone()).await {
                    // Whether it was written in time is not known; asked again, the answer is the same.
                    Err(ClientError::Refused(refusal)) if refusal.code == "STORE_UNAVAILABLE" => {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                    answer => return answer.unwrap(),
                }
            }
            panic!("the store cannot be used for good");
        });
    }
    asking.join_all().await
}

async fn check_one_decision(clients: &[Client]) {
    let answers = ask_at_once(clients, 100).await;
    assert_eq!(answers.len(), 100);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    let minutes = answers[0]["backoffMinutes"].as_u64().unwrap();
    assert!((64..=96).contains(&minutes), "{minutes}");
    for client in clients {
        let page = client.get("/v1/retry-decisions?claimId=CLM-7-7").await.unwrap();
        assert_eq!(page["items"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ RD-4
async fn a_hundred_who_ask_at_once_get_one_decision_which_outlives_the_process() {
    let place = Place::new();
    let server = place.start();
    place.ready().await;
    check_one_decision(&[place.client()]).await;
    let before = ask_at_once(&[place.client()], 1).await;
    server.kill();
    let server = place.start();
    place.ready().await;
    assert_eq!(ask_at_once(&[place.client()], 1).await, before);
    assert!(server.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ RD-4
async fn two_nodes_that_are_asked_at_once_give_one_decision() {
    let database = Cluster::shared().database();
    let (one, other) = (Place::new(), Place::new());
    let servers = [one.start_on(database.url()), other.start_on(database.url())];
    one.ready().await;
    other.ready().await;
    check_one_decision(&[one.client(), other.client()]).await;
    let count = "SELECT count(*) FROM pombo.doc WHERE shelf = 4";
    assert_eq!(database.ask(count), "1");
    for server in servers {
        assert!(server.terminate().await.success());
    }
}
