//! `pombo decide`: whether a claim that failed is submitted again, and when.

use clap::{Args, Subcommand};
use pombo_kernel::decision::{Asked, Decision, Language, Never, Question, Wrong, decide};
use pombo_kernel::policy::Policy;
use pombo_kernel::time::Clock;
use serde_json::{Map, Value, json};

use super::out::{self, Paint, Table};
use super::{ConfigArgs, Shared, Trouble};
use crate::client::{ClientError, Payload};
use crate::clock::SystemClock;
use crate::config::{Needs, Problem};

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Exit 0: submit it again, at the time that is printed. Exit 1: never; the code on standard error
says why: MAX_RETRIES_EXCEEDED, PERMANENT_ERROR, or what is wrong with the question.
The server records the decision, and answers the same question with it from then on.

Examples:
  pombo decide --claim-id CLM-001-123 --error 'TIMEOUT - Connection timeout after 30s' --retry-count 1
  pombo decide --claim-id CLM-001-123 --error 'glosa 1308' --dry-run --json
  pombo decide list --claim CLM-001-123
  pombo decide list --pending"
)]
pub(crate) struct Decide {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    question: Asking,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List decisions, newest first
    List(List),
}

#[derive(Debug, Args)]
struct Asking {
    /// The claim: CLM-, anything, - and digits
    #[arg(long, required = true, value_name = "ID")]
    claim_id: Option<String>,
    /// What went wrong with its submission
    #[arg(long, required = true, value_name = "TEXT")]
    error: Option<String>,
    /// How many retries there were [default: as many as are on record; 0 with --dry-run]
    #[arg(long, value_name = "N")]
    retry_count: Option<u32>,
    /// When it was last submitted, for example 2025-01-12T10:40:00Z
    #[arg(long, value_name = "TIME")]
    last_submission_time: Option<String>,
    /// Decide here and record nothing; no server is asked
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

#[derive(Debug, Args)]
struct List {
    /// The decisions on one claim
    #[arg(long, value_name = "ID", conflicts_with = "pending")]
    claim: Option<String>,
    /// Those whose retry is still to come, the next one first
    #[arg(long)]
    pending: bool,
    /// Most decisions to list
    #[arg(long, default_value_t = 50)]
    limit: usize,
}

pub(crate) async fn run(args: Decide, shared: &Shared) -> Result<(), Trouble> {
    match args.verb {
        Some(Verb::List(list)) => listed(&list, shared).await,
        None if args.question.dry_run => dry(&args.question, shared),
        None => recorded(&args.question, shared).await,
    }
}

impl Asking {
    fn document(&self) -> Map<String, Value> {
        let Asking { claim_id, error, retry_count, last_submission_time, .. } = self;
        let values = [json!(claim_id), json!(error), json!(retry_count), json!(last_submission_time)];
        let given = Asked::NAMES.into_iter().zip(values).filter(|(_, value)| !value.is_null());
        given.map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

async fn recorded(asking: &Asking, shared: &Shared) -> Result<(), Trouble> {
    let client = shared.client()?;
    let payload = Payload::json(&Value::Object(asking.document()));
    let answer = match client.post("/v1/retry-decisions", payload).await {
        Err(ClientError::Refused(mut refusal)) if shared.json => {
            let rest = std::mem::take(&mut refusal.rest);
            return Err(in_full(&ClientError::Refused(refusal).into(), rest));
        }
        answer => answer?,
    };
    match shared.json {
        true => out::document(&answer),
        false => show(&client.read(answer)?),
    }
    Ok(())
}

/// The same decision as the server's, for the policy that is configured here.
fn dry(asking: &Asking, shared: &Shared) -> Result<(), Trouble> {
    let question = Question::read(Asked::of(&mut asking.document())).map_err(|wrong| unreadable(&wrong))?;
    let config = asking.config.load_for(Needs::Rules)?;
    let policy = config.policy("claims").cloned().unwrap_or_else(Policy::claims);
    let count = question.retry_count.unwrap_or(0);
    let now = SystemClock::new().now();
    let decision = decide(&question, count, &policy, now, &mut question.id(count).dice());
    let decision = decision.answering(&question, Language::En);
    match decision.code {
        Some(never) => {
            let (trouble, rest) = (no_retry(never, &decision), serde_json::to_value(&decision));
            return Err(match rest {
                Ok(Value::Object(rest)) if shared.json => in_full(&trouble, rest),
                _ => trouble,
            });
        }
        None if shared.json => out::document(&decision),
        None => show(&decision),
    }
    Ok(())
}

fn unreadable(wrong: &[Wrong]) -> Trouble {
    let code = wrong.first().map_or("INVALID_FIELD", |wrong| wrong.code.as_str());
    let problems = wrong.iter().map(|wrong| Problem::new(wrong.field, wrong.reason, wrong.hint));
    Trouble { problems: problems.collect(), ..Trouble::new("this cannot be decided on", code) }
}

fn no_retry(never: Never, decision: &Decision) -> Trouble {
    let (what, hint) = match never {
        Never::MaxRetriesExceeded => {
            ("there were enough retries", "somebody must look into the claim and submit it by hand")
        }
        Never::PermanentError => {
            ("no retry can help", "correct what the error names, then submit it by hand")
        }
    };
    Trouble::new(what, never.as_str()).why(&decision.retry_reason).hint(hint)
}

/// Says on standard error, as one document, why there is no retry, and the decision with all its fields.
fn in_full(trouble: &Trouble, mut rest: Map<String, Value>) -> Trouble {
    if let Ok(Value::Object(said)) = serde_json::to_value(trouble) {
        rest.extend(said);
    }
    out::note(Value::Object(rest).to_string());
    Trouble::told()
}

fn show(decision: &Decision) {
    let Decision { claim_id, retry_reason, .. } = decision;
    out::line(format!("{}: {retry_reason}", Paint::stdout().bold(claim_id)));
    if let (Some(minutes), Some(time)) = (decision.backoff_minutes, decision.next_retry_time) {
        out::line(format!("submit it again in {minutes} minutes, at {time}"));
    }
    if decision.error_classification.as_deref() == Some("UNKNOWN_TRANSIENT") {
        out::note("nothing is known of this error; it is taken as passing");
    }
}

/// As many as the API gives at once.
const PAGE_MAX: usize = 500;

async fn listed(list: &List, shared: &Shared) -> Result<(), Trouble> {
    let client = shared.client()?;
    let mut table = Table::new(["claim", "retry", "next at", "decided at", "why"]).cut(4, 20);
    let (mut left, mut cursor, mut found) = (list.limit, None::<String>, false);
    while left > 0 {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("limit", &left.min(PAGE_MAX).to_string());
        if let Some(claim) = &list.claim {
            query.append_pair("claimId", claim);
        }
        if list.pending {
            query.append_pair("pending", "true");
        }
        if let Some(cursor) = &cursor {
            query.append_pair("cursor", cursor);
        }
        let page = client.get(&format!("/v1/retry-decisions?{}", query.finish())).await?;
        for item in page["items"].as_array().into_iter().flatten() {
            left = left.saturating_sub(1);
            found = true;
            if shared.json {
                out::object(item);
                continue;
            }
            let it: Decision = client.read(item.clone())?;
            let next = it.next_retry_time.map_or_else(|| "never".to_owned(), |time| time.to_string());
            let retry = format!("{} of {}", it.retry_count, it.max_retries);
            let why = it.code.map_or(it.retry_reason, |code| code.as_str().to_owned());
            table.row([it.claim_id, retry, next, it.decided_at.to_string(), why]);
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    match (shared.json, found) {
        (true, _) => {}
        (false, true) => table.print(),
        (false, false) => out::note("no decision matches"),
    }
    Ok(())
}
