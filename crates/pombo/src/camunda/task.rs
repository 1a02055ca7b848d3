//! What a job or task asks, and what becomes of it: pure, so that every case can be seen.

use pombo_kernel::decision::{Asked, Decision, Language, Question, Wrong};
use serde_json::{Map, Value, json};
use tracing::warn;

/// A job of Camunda 8, or an external task of Camunda 7.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Task {
    /// As the engine knows it. Safe as a part of a path.
    pub(super) key: String,
    pub(super) variables: Map<String, Value>,
    /// How often it may still be tried, as the engine counts.
    pub(super) retries: u32,
}

/// Retries of a task for which the engine has not counted any yet.
const RETRIES_AT_FIRST: u32 = 3;

/// The tasks that were handed out. One whose key cannot stand in a path could not be answered, not even that it failed:
/// it is left alone, its lock runs out, and whoever reads the log is told.
pub(super) fn handed_out(engine: &str, given: &Value, read: fn(&Value) -> Option<Task>) -> Vec<Task> {
    let given = given.as_array().map_or(&[][..], Vec::as_slice);
    let tasks: Vec<Task> = given.iter().filter_map(read).filter(|task| safe_key(&task.key)).collect();
    let left = given.len() - tasks.len();
    if left > 0 {
        warn!(engine, left, "tasks without a key that can be used are not worked on");
    }
    tasks
}

/// How often a task may still be tried; null until somebody counts.
pub(super) fn retries(given: &Value) -> u32 {
    given.as_u64().map_or(RETRIES_AT_FIRST, |n| u32::try_from(n).unwrap_or(u32::MAX))
}

impl Task {
    /// What it asks; if that cannot be answered, what to tell whoever looks into it.
    pub(super) fn question(&self) -> Result<Question, String> {
        let mut variables = self.variables.clone();
        Question::read(Asked::of(&mut variables)).map_err(|wrong| {
            let said = |Wrong { code, field, reason, hint }: Wrong| {
                format!("{field} {reason} ({}): {hint}", code.as_str())
            };
            wrong.into_iter().map(said).collect::<Vec<_>>().join("; ")
        })
    }
}

/// A key that can stand in a path as it is; keys of either engine do.
fn safe_key(key: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    (1..=100).contains(&key.len()) && key.bytes().all(fits)
}

/// What is told to the engine.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// Try again then; or never, which a process catches as an error by its code.
    Decided(Box<Decision>),
    /// It failed; the engine hands it out again after a while, or raises an incident if there are no retries left.
    Failed { why: String, retries: u32, wait_ms: u64 },
}

impl Outcome {
    /// What was asked cannot be answered: a person has to look, so there are no retries.
    pub(super) fn unreadable(why: String) -> Outcome {
        Outcome::Failed { why, retries: 0, wait_ms: 0 }
    }

    /// The fault is ours and will pass: it costs the task nothing.
    pub(super) fn later(task: &Task, why: String) -> Outcome {
        Outcome::Failed { why, retries: task.retries.max(1), wait_ms: 10_000 }
    }

    /// The engine could not go on with what it was told.
    pub(super) fn not_taken(task: &Task, why: &str) -> Outcome {
        let why = format!("the engine did not take the decision: {why}");
        Outcome::Failed { why, retries: task.retries.saturating_sub(1), wait_ms: 60_000 }
    }
}

/// A decision as the variables of a process.
pub(super) fn variables(decision: &Decision, language: Language) -> Map<String, Value> {
    let all = json!({
        "shouldRetry": decision.should_retry,
        "retryCount": decision.retry_count,
        "maxRetries": decision.max_retries,
        "retryReason": decision.reason(language),
        "backoffMinutes": decision.backoff_minutes,
        "nextRetryTime": decision.next_retry_time,
        "errorClassification": decision.error_classification,
    });
    let Value::Object(all) = all else { return Map::new() };
    all.into_iter().filter(|(_, value)| !value.is_null()).collect()
}

/// The same with the types that Camunda 7 wants: a time is a date there, which its timers take.
pub(super) fn typed(variables: Map<String, Value>) -> Map<String, Value> {
    let typed = |(name, value): (String, Value)| {
        let (kind, value) = match (&value, name.as_str()) {
            (Value::Bool(_), _) => ("Boolean", value),
            (Value::Number(_), _) => ("Integer", value),
            // Its dates are written with an offset that has no colon.
            (Value::String(time), "nextRetryTime") => ("Date", time.replace('Z', "+0000").into()),
            _ => ("String", value),
        };
        (name, json!({"value": value, "type": kind}))
    };
    variables.into_iter().map(typed).collect()
}

/// The variables of a Camunda 7 task, without what it says of their types.
pub(super) fn untyped(variables: &Value) -> Map<String, Value> {
    let plain = |(name, variable): (&String, &Value)| (name.clone(), variable["value"].clone());
    variables.as_object().into_iter().flatten().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use pombo_kernel::decision::decide;
    use pombo_kernel::dice::Dice;
    use pombo_kernel::policy::Policy;
    use pombo_kernel::time::Time;

    use super::*;

    /// 2025-01-12T10:40:00Z
    const NOW: Time = Time::from_millis(1_736_678_400_000);

    fn task(variables: Value) -> Task {
        let Value::Object(variables) = variables else { panic!("variables are an object") };
        Task { key: "1".to_owned(), variables, retries: 3 }
    }

    fn decided(error: &str, count: u32) -> Decision {
        let asked = task(json!({"claimId": "CLM-1-2", "submissionError": error}));
        decide(&asked.question().unwrap(), count, &Policy::claims(), NOW, &mut Dice::seeded(1))
    }

    #[test] // REQ RD-5
    fn a_decision_becomes_the_variables_that_the_process_reads() {
        let retry = variables(&decided("TIMEOUT", 1), Language::Pt);
        let names: Vec<&str> = retry.keys().map(String::as_str).collect();
        let expected = [
            "backoffMinutes",
            "errorClassification",
            "maxRetries",
            "nextRetryTime",
            "retryCount",
            "retryReason",
            "shouldRetry",
        ];
        let mut sorted = names;
        sorted.sort_unstable();
        assert_eq!(sorted, expected);
        assert_eq!(retry["retryReason"], "Erro transiente, tentativa 2 de 5");
        assert!(retry["nextRetryTime"].as_str().unwrap().ends_with("00.000Z"));
        let ended = variables(&decided("TIMEOUT", 5), Language::En);
        assert_eq!((&ended["shouldRetry"], ended.get("nextRetryTime")), (&json!(false), None));
    }

    #[test] // REQ RD-5
    fn camunda_7_gets_each_variable_with_its_type() {
        let all = typed(variables(&decided("TIMEOUT", 1), Language::En));
        assert_eq!(all["shouldRetry"], json!({"value": true, "type": "Boolean"}));
        assert_eq!(all["retryCount"], json!({"value": 2, "type": "Integer"}));
        assert_eq!(all["nextRetryTime"]["type"], "Date");
        let time = all["nextRetryTime"]["value"].as_str().unwrap();
        assert!(time.starts_with("2025-01-12T1") && time.ends_with(":00.000+0000"), "{time}");
        assert_eq!(all["retryReason"]["type"], "String");
        let back = untyped(&json!({"claimId": {"type": "String", "value": "x", "valueInfo": {}}, "a": {}}));
        assert_eq!((&back["claimId"], &back["a"]), (&json!("x"), &Value::Null));
    }

    #[test] // REQ RD-2, RD-5
    fn what_cannot_be_answered_says_why_and_raises_an_incident() {
        let wrong = task(json!({"claimId": 5, "submissionError": ""})).question().unwrap_err();
        assert!(wrong.contains("claimId is not the id of a claim (INVALID_FIELD)"), "{wrong}");
        assert!(wrong.contains("submissionError is empty or missing (INVALID_ERROR_MESSAGE)"), "{wrong}");
        let Outcome::Failed { retries, .. } = Outcome::unreadable(wrong) else { panic!() };
        assert_eq!(retries, 0);
    }

    #[test]
    fn our_own_faults_cost_a_task_no_retries_and_the_engines_do() {
        let mut task = task(json!({}));
        let retries = |outcome| match outcome {
            Outcome::Failed { retries, .. } => retries,
            Outcome::Decided(_) => panic!("nothing was decided"),
        };
        assert_eq!(retries(Outcome::later(&task, "away".into())), 3);
        assert_eq!(retries(Outcome::not_taken(&task, "no")), 2);
        task.retries = 0;
        assert_eq!(retries(Outcome::later(&task, "away".into())), 1);
        assert_eq!(retries(Outcome::not_taken(&task, "no")), 0);
    }

    #[test]
    fn a_task_that_cannot_be_answered_takes_no_others_with_it() {
        let read = |given: &Value| {
            let key = given["id"].as_str()?.to_owned();
            Some(Task { key, variables: Map::new(), retries: retries(&given["retries"]) })
        };
        let given = json!([{"id": "a1"}, {"id": "../a2"}, {"retries": 1}, {"id": "a4", "retries": 7}]);
        let tasks = handed_out("camunda7", &given, read);
        let told: Vec<_> = tasks.iter().map(|task| (task.key.as_str(), task.retries)).collect();
        assert_eq!(told, [("a1", RETRIES_AT_FIRST), ("a4", 7)]);
        assert!(handed_out("camunda7", &json!({"jobs": 1}), read).is_empty());
    }

    #[test]
    fn keys_cannot_lead_elsewhere() {
        for good in ["2251799813685249", "a1b2-c3", "8f7a_1"] {
            assert!(safe_key(good), "{good}");
        }
        for bad in ["", "..", "1/2", "1?x", "a b", "é", &"1".repeat(101)] {
            assert!(!safe_key(bad), "{bad}");
        }
    }
}
