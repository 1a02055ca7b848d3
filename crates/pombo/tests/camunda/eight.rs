//! A pretend Camunda 8 cluster, with whoever gives out its tokens.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pombo_kernel::time::Span;
use serde_json::{Value, json};

use crate::engine::{End, Mood, Shared, unknown};
use crate::http::{Answer, Asked, Server};

pub(crate) struct Cluster {
    pub(crate) shared: Shared,
    server: Server,
}

fn problem(status: u16, title: &str, detail: impl Into<String>) -> Answer {
    let detail = detail.into();
    Some((status, json!({"type": "about:blank", "title": title, "status": status, "detail": detail})))
}

impl Cluster {
    pub(crate) async fn start() -> Cluster {
        let shared = Shared::new();
        let state = shared.clone();
        let server = Server::start(move |asked| Box::pin(answer(state.clone(), asked))).await;
        Cluster { shared, server }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.server.address)
    }

    pub(crate) fn basic(name: &str, password: &str) -> String {
        format!("Basic {}", BASE64_STANDARD.encode(format!("{name}:{password}")))
    }

    /// A new job; its key.
    pub(crate) fn job(&self, variables: Value) -> String {
        self.shared.add(variables, Some(3))
    }
}

async fn answer(shared: Shared, asked: Asked) -> Answer {
    if asked.path == "/oauth/token" {
        return token(&shared, &asked);
    }
    let logins = shared.state().logins.clone();
    if !logins.is_empty() && !logins.iter().any(|login| login == asked.authorization()) {
        return problem(401, "UNAUTHENTICATED", "no such login");
    }
    if asked.path == "/v2/jobs/activation" {
        return activation(&shared, &asked.json()).await;
    }
    let parts: Vec<&str> = asked.path.split('/').collect();
    let ["", "v2", "jobs", key, verb] = parts[..] else { return problem(404, "NOT_FOUND", "no such path") };
    let mood = shared.state().moods.pop_front();
    match mood {
        None => told(&shared, key, verb, &asked.json()),
        Some(Mood::Busy) => problem(503, "RESOURCE_EXHAUSTED", "the broker is busy"),
        Some(Mood::Broken) => problem(500, "INTERNAL", "something broke"),
        Some(Mood::TakeAndCut) => {
            told(&shared, key, verb, &asked.json());
            shared.changed.notify_waiters();
            None
        }
        Some(Mood::Swallow) => {
            shared.state().swallowed.push(asked.json());
            shared.changed.notify_waiters();
            std::future::pending().await
        }
    }
}

/// Each token opens the door until it is taken out of the logins.
fn token(shared: &Shared, asked: &Asked) -> Answer {
    let mut state = shared.state();
    state.token_requests.push(asked.text.clone());
    state.tokens_given += 1;
    let token = format!("token-{}", state.tokens_given);
    state.logins.push(format!("Bearer {token}"));
    Some((200, json!({"access_token": token, "token_type": "Bearer", "expires_in": 300})))
}

async fn activation(shared: &Shared, body: &Value) -> Answer {
    let status = {
        let mut state = shared.state();
        state.fetches += 1;
        state.fetch_statuses.pop_front()
    };
    match status {
        None => {}
        Some(0) => return None,
        Some(503) => return problem(503, "RESOURCE_EXHAUSTED", "the broker is busy"),
        Some(status) => return problem(status, "INTERNAL", "as it was told"),
    }
    let known =
        ["type", "timeout", "maxJobsToActivate", "worker", "fetchVariable", "requestTimeout", "tenantIds"];
    if let Some(name) = unknown(body, &known) {
        return problem(400, "INVALID_ARGUMENT", shared.bad(format!("{name} is not known")));
    }
    let (Some("analyze-retry"), Some(timeout @ 1..), Some(max @ 1..)) =
        (body["type"].as_str(), body["timeout"].as_u64(), body["maxJobsToActivate"].as_u64())
    else {
        return problem(400, "INVALID_ARGUMENT", shared.bad(format!("activation: {body}")));
    };
    let worker = body["worker"].as_str().unwrap_or_default();
    let wait = Span::from_millis(body["requestTimeout"].as_u64().unwrap_or(10_000));
    let jobs = shared.hand_out(worker, max, Span::from_millis(timeout), wait).await;
    let deadline = (shared.now() + Span::from_millis(timeout)).millis();
    let jobs = jobs.into_iter().map(|(key, task)| {
        json!({
            "jobKey": key,
            "type": "analyze-retry",
            "processInstanceKey": "2251799813685251",
            "processDefinitionId": "claim",
            "processDefinitionVersion": 1,
            "processDefinitionKey": "2251799813685250",
            "elementId": "AnalyzeRetry",
            "elementInstanceKey": "2251799813685252",
            "customHeaders": {},
            "worker": worker,
            "retries": task.retries,
            "deadline": deadline,
            "variables": task.variables,
            "tenantId": "<default>",
            "kind": "BPMN_ELEMENT",
            "listenerEventType": "UNSPECIFIED",
        })
    });
    Some((200, json!({"jobs": jobs.collect::<Vec<_>>()})))
}

fn told(shared: &Shared, key: &str, verb: &str, body: &Value) -> Answer {
    let found = shared.state().tasks.get(key).cloned();
    let Some(task) = found.filter(|task| task.end.is_none()) else {
        return problem(404, "NOT_FOUND", format!("there is no job {key}"));
    };
    if task.locked.is_none() {
        return problem(409, "INVALID_STATE", format!("job {key} is not activated"));
    }
    let bad = |shared: &Shared| problem(400, "INVALID_ARGUMENT", shared.bad(format!("{verb}: {body}")));
    let variables = body.get("variables").map_or(Some(Default::default()), |it| it.as_object().cloned());
    let Some(variables) = variables else { return bad(shared) };
    match verb {
        "completion" if unknown(body, &["variables", "result"]).is_none() => {
            shared.end(key, End::Completed(variables));
        }
        "error" if unknown(body, &["errorCode", "errorMessage", "variables"]).is_none() => {
            let Some(code) = body["errorCode"].as_str() else { return bad(shared) };
            shared.end(key, End::Error { code: code.to_owned(), variables });
        }
        "failure" if unknown(body, &["retries", "errorMessage", "retryBackOff", "variables"]).is_none() => {
            let retries = body["retries"].as_u64().unwrap_or(0);
            let wait = body["retryBackOff"].as_u64().unwrap_or(0);
            shared.fail(key, body["errorMessage"].as_str().unwrap_or_default(), retries, wait);
        }
        _ => return bad(shared),
    }
    shared.changed.notify_waiters();
    Some((204, Value::Null))
}
