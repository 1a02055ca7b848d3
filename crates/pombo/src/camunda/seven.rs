//! Camunda 7: external tasks over the engine's REST API.

use std::time::Duration;

use pombo_kernel::decision::{Asked, Language};
use serde_json::{Value, json};

use super::eight::millis;
use super::line::{Failed, Line};
use super::task::{Outcome, Task, handed_out, retries, typed, untyped, variables};
use super::{ANSWER_TIMEOUT, Engine};

#[derive(Debug)]
pub(super) struct Seven {
    pub(super) line: Line,
    pub(super) topic: String,
    pub(super) worker_id: String,
    pub(super) lock: Duration,
    pub(super) poll: Duration,
    pub(super) language: Language,
}

impl Engine for Seven {
    const NAME: &'static str = "camunda7";

    fn place(&self) -> &str {
        self.line.shown()
    }

    fn lock(&self) -> Duration {
        self.lock
    }

    async fn fetch(&self, max: usize) -> Result<Vec<Task>, Failed> {
        let body = json!({
            "workerId": self.worker_id,
            "maxTasks": max,
            "usePriority": true,
            "asyncResponseTimeout": millis(self.poll),
            "topics": [{
                "topicName": self.topic,
                "lockDuration": millis(self.lock),
                "variables": Asked::NAMES,
            }],
        });
        let answer = self.line.post("/external-task/fetchAndLock", &body, self.poll + ANSWER_TIMEOUT).await?;
        Ok(handed_out(Seven::NAME, &answer, task))
    }

    async fn tell(&self, task: &Task, outcome: &Outcome) -> Result<(), Failed> {
        let worker = &self.worker_id;
        let (verb, body) = match outcome {
            Outcome::Decided(decision) => {
                let variables = typed(variables(decision, self.language));
                match decision.code {
                    None => ("complete", json!({"workerId": worker, "variables": variables})),
                    Some(code) => (
                        "bpmnError",
                        json!({
                            "workerId": worker,
                            "errorCode": code.as_str(),
                            "errorMessage": decision.reason(self.language),
                            "variables": variables,
                        }),
                    ),
                }
            }
            Outcome::Failed { why, retries, wait_ms } => (
                "failure",
                json!({
                    "workerId": worker,
                    "errorMessage": why,
                    "retries": retries,
                    "retryTimeout": wait_ms,
                }),
            ),
        };
        let path = format!("/external-task/{}/{verb}", task.key);
        let told = self.line.post(&path, &body, ANSWER_TIMEOUT).await.map(drop);
        match (told, outcome) {
            // The engine went on with the process in the same breath, and something in it failed.
            (Err(Failed::Passing(why)), Outcome::Decided(_)) if why.starts_with("500") => {
                Err(Failed::Refused(why))
            }
            (told, _) => told,
        }
    }
}

fn task(task: &Value) -> Option<Task> {
    let key = task["id"].as_str()?.to_owned();
    Some(Task { key, variables: untyped(&task["variables"]), retries: retries(&task["retries"]) })
}
