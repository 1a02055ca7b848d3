//! A pretend Camunda 7 engine.

use pombo_kernel::time::Span;
use serde_json::{Map, Value, json};

use crate::engine::{End, Mood, Shared, unknown};
use crate::http::{Answer, Asked, Server};

pub(crate) struct Engine {
    pub(crate) shared: Shared,
    server: Server,
}

fn exception(status: u16, message: impl Into<String>) -> Answer {
    let message = message.into();
    Some((status, json!({"type": "RestException", "message": message, "code": 0})))
}

impl Engine {
    pub(crate) async fn start() -> Engine {
        let shared = Shared::new();
        let state = shared.clone();
        let server = Server::start(move |asked| Box::pin(answer(state.clone(), asked))).await;
        Engine { shared, server }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/engine-rest", self.server.address)
    }

    /// A new external task, whose retries nobody has counted yet; its id.
    pub(crate) fn task(&self, variables: &Value) -> String {
        let typed = variables.as_object().unwrap().iter().map(|(name, value)| {
            let kind = match value {
                Value::Number(_) => "Integer",
                Value::String(text) if name == "lastSubmissionTime" && text.contains('+') => "Date",
                Value::String(_) => "String",
                Value::Null => "Null",
                _ => "Object",
            };
            (name.clone(), json!({"type": kind, "value": value, "valueInfo": {}}))
        });
        self.shared.add(Value::Object(typed.collect()), None)
    }
}

async fn answer(shared: Shared, asked: Asked) -> Answer {
    let logins = shared.state().logins.clone();
    if !logins.is_empty() && !logins.iter().any(|login| login == asked.authorization()) {
        return exception(401, "no such login");
    }
    if asked.path == "/engine-rest/external-task/fetchAndLock" {
        return fetch(&shared, &asked.json()).await;
    }
    let parts: Vec<&str> = asked.path.split('/').collect();
    let ["", "engine-rest", "external-task", key, verb] = parts[..] else {
        return exception(404, "no such path");
    };
    let mood = shared.state().moods.pop_front();
    match mood {
        None => told(&shared, key, verb, &asked.json()),
        Some(Mood::Busy) => exception(503, "overloaded"),
        Some(Mood::Broken) => exception(500, "the process could not continue"),
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

async fn fetch(shared: &Shared, body: &Value) -> Answer {
    let status = {
        let mut state = shared.state();
        state.fetches += 1;
        state.fetch_statuses.pop_front()
    };
    match status {
        None => {}
        Some(0) => return None,
        Some(status) => return exception(status, "as it was told"),
    }
    let known = ["workerId", "maxTasks", "usePriority", "asyncResponseTimeout", "sorting", "topics"];
    let topic = &body["topics"][0];
    let (Some(worker), Some(max @ 1..), Some("analyze-retry"), Some(lock @ 1..), None) = (
        body["workerId"].as_str(),
        body["maxTasks"].as_u64(),
        topic["topicName"].as_str(),
        topic["lockDuration"].as_u64(),
        unknown(body, &known),
    ) else {
        return exception(400, shared.bad(format!("fetchAndLock: {body}")));
    };
    let wait = body["asyncResponseTimeout"].as_u64().unwrap_or(0);
    if wait > 1_800_000 {
        return exception(
            400,
            shared.bad("The asynchronous response timeout cannot be set to a value greater than 1800000"),
        );
    }
    let tasks = shared.hand_out(worker, max, Span::from_millis(lock), Span::from_millis(wait)).await;
    let until = shared.now() + Span::from_millis(lock);
    let tasks = tasks.into_iter().map(|(id, task)| {
        json!({
            "id": id,
            "topicName": "analyze-retry",
            "workerId": worker,
            "lockExpirationTime": until.to_string().replace('Z', "+0000"),
            "retries": task.retries,
            "variables": task.variables,
            "businessKey": null,
            "processInstanceId": "aProcessInstanceId",
            "errorMessage": null,
        })
    });
    Some((200, Value::Array(tasks.collect())))
}

/// Variables with a value, and a type that fits it.
fn typed(body: &Value) -> Option<Map<String, Value>> {
    let Some(variables) = body.get("variables") else { return Some(Map::new()) };
    let read = |(name, variable): (&String, &Value)| {
        let value = variable.get("value")?;
        let fits = match variable["type"].as_str()? {
            "Boolean" => value.is_boolean(),
            "Integer" => value.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
            "String" => value.is_string(),
            "Date" => value.as_str().is_some_and(|text| text.len() == 28 && text.as_bytes()[23] == b'+'),
            _ => false,
        };
        fits.then(|| (name.clone(), value.clone()))
    };
    variables.as_object()?.iter().map(read).collect()
}

fn told(shared: &Shared, id: &str, verb: &str, body: &Value) -> Answer {
    let found = shared.state().tasks.get(id).cloned();
    let Some(task) = found.filter(|task| task.end.is_none()) else {
        return exception(404, format!("External task with id {id} does not exist"));
    };
    let worker = body["workerId"].as_str().unwrap_or_default();
    if task.locked.as_ref().is_none_or(|(owner, _)| owner != worker) {
        return exception(400, format!("External Task {id} cannot be completed by worker '{worker}'"));
    }
    let bad = || exception(400, shared.bad(format!("{verb}: {body}")));
    match verb {
        "complete" if unknown(body, &["workerId", "variables", "localVariables"]).is_none() => {
            let Some(variables) = typed(body) else { return bad() };
            shared.end(id, End::Completed(variables));
        }
        "bpmnError" if unknown(body, &["workerId", "errorCode", "errorMessage", "variables"]).is_none() => {
            let (Some(variables), Some(code)) = (typed(body), body["errorCode"].as_str()) else {
                return bad();
            };
            shared.end(id, End::Error { code: code.to_owned(), variables });
        }
        "failure" => {
            let known = ["workerId", "errorMessage", "errorDetails", "retries", "retryTimeout"];
            let (None, Some(retries)) = (unknown(body, &known), body["retries"].as_u64()) else {
                return bad();
            };
            let wait = body["retryTimeout"].as_u64().unwrap_or(0);
            shared.fail(id, body["errorMessage"].as_str().unwrap_or_default(), retries, wait);
        }
        _ => return bad(),
    }
    shared.changed.notify_waiters();
    Some((204, Value::Null))
}
