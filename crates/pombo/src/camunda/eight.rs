//! Camunda 8: jobs over the REST API of a cluster.

use std::time::Duration;

use pombo_kernel::decision::{Asked, Language};
use serde_json::{Value, json};

use super::line::{Failed, Line};
use super::task::{Outcome, Task, handed_out, retries, variables};
use super::{ANSWER_TIMEOUT, Engine};

#[derive(Debug)]
pub(super) struct Eight {
    pub(super) line: Line,
    pub(super) kind: String,
    pub(super) worker: String,
    pub(super) lock: Duration,
    pub(super) poll: Duration,
    pub(super) language: Language,
}

impl Engine for Eight {
    const NAME: &'static str = "camunda8";

    fn place(&self) -> &str {
        self.line.shown()
    }

    fn lock(&self) -> Duration {
        self.lock
    }

    async fn fetch(&self, max: usize) -> Result<Vec<Task>, Failed> {
        let body = json!({
            "type": self.kind,
            "worker": self.worker,
            "timeout": millis(self.lock),
            "maxJobsToActivate": max,
            "fetchVariable": Asked::NAMES,
            "requestTimeout": millis(self.poll),
        });
        let answer = self.line.post("/v2/jobs/activation", &body, self.poll + ANSWER_TIMEOUT).await?;
        Ok(handed_out(Eight::NAME, &answer["jobs"], task))
    }

    async fn tell(&self, task: &Task, outcome: &Outcome) -> Result<(), Failed> {
        let (verb, body) = match outcome {
            Outcome::Decided(decision) => {
                let variables = variables(decision, self.language);
                match decision.code {
                    None => ("completion", json!({"variables": variables})),
                    Some(code) => (
                        "error",
                        json!({
                            "errorCode": code.as_str(),
                            "errorMessage": decision.reason(self.language),
                            "variables": variables,
                        }),
                    ),
                }
            }
            // Without `retries` there would be none left.
            Outcome::Failed { why, retries, wait_ms } => {
                ("failure", json!({"errorMessage": why, "retries": retries, "retryBackOff": wait_ms}))
            }
        };
        let path = format!("/v2/jobs/{}/{verb}", task.key);
        self.line.post(&path, &body, ANSWER_TIMEOUT).await.map(drop)
    }
}

/// Keys are texts; clusters before 8.8 may write them as numbers.
fn task(job: &Value) -> Option<Task> {
    let key = match &job["jobKey"] {
        Value::String(key) => key.clone(),
        Value::Number(key) => key.to_string(),
        _ => return None,
    };
    let variables = job["variables"].as_object().cloned().unwrap_or_default();
    Some(Task { key, variables, retries: retries(&job["retries"]) })
}

pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
