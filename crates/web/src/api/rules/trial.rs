//! What a rule would change, held against the dead letters that there are.

use std::collections::BTreeMap;

use axum::response::Response;
use pombo_kernel::classify::{ACCEPTED, Rule, Verdict, recorded};
use pombo_kernel::message::{AttemptFailure, StateName};
use pombo_store::{Filter, Line};
use schemars::JsonSchema;
use serde::Serialize;

use super::{BODY_BYTES, Wish};
use crate::api::fields::Fields;
use crate::auth::Caller;
use crate::problem::Problem;
use crate::route::Call;
use crate::veil::Veil;
use crate::{Door, body, view};

/// Dead letters that are looked at, the newest first.
const LOOKED_AT: usize = 2_000;
/// And pages of them, some of which may be of other channels.
const PAGES: usize = 20;
const AT_ONCE: usize = 500;
const SAMPLES: usize = 3;
/// How the rule is cited while it is tried.
const TRIED: &str = "tried";

/// What a rule would change.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RuleTrial")]
pub(crate) struct TrialView {
    channel: String,
    /// As it was tried.
    rule: Rule,
    /// Dead letters of the channel that were looked at, the newest.
    looked_at: u64,
    /// There are older ones that were not looked at.
    more: bool,
    /// Those whose last error the rule would decide.
    changed: u64,
    /// The same by what was decided then, the most first.
    changes: Vec<ChangeView>,
}

/// Errors that were judged alike.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RuleChange")]
pub(crate) struct ChangeView {
    before: JudgedView,
    after: JudgedView,
    count: u64,
    /// Some of them, the newest first.
    samples: Vec<SampleView>,
}

#[derive(Clone, Serialize, JsonSchema)]
#[schemars(rename = "Judged")]
pub(crate) struct JudgedView {
    verdict: Verdict,
    category: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RuleSample")]
pub(crate) struct SampleView {
    /// The dead letter.
    id: String,
    code: Option<String>,
    /// The provider's words.
    text: String,
}

/// Says what a rule would change in the dead letters that there are, and changes nothing.
pub(crate) async fn try_out(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, .. } = call;
    let fields = Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?;
    view::ok(&tried(&door, &caller, fields).await?)
}

async fn tried(door: &Door, caller: &Caller, fields: Fields) -> Result<TrialView, Problem> {
    let Wish { channel, rule, .. } = Wish::read(door, caller, fields).await?;
    let veil = Veil::of(caller, &door.setup());
    // Rules that were accepted are tried after it, as they will be: the newest goes first.
    let cited = format!("{ACCEPTED}:{TRIED}");
    let (rules, _) = channel.rules.accepting(&[Rule { id: Some(TRIED.to_owned()), ..rule.clone() }]);
    let would_decide = |failure: &AttemptFailure| {
        rules.classify(&recorded(failure)).is_some_and(|meaning| meaning.rule.as_deref() == Some(&cited))
    };
    let filter = Filter {
        tenant: caller.tenant.clone(),
        state: Some(StateName::Failed),
        channel: Some(channel.name.clone()),
        ..Filter::default()
    };
    let (mut before, mut looked_at, mut pages, mut more) = (None, 0, 0, true);
    let mut changes: BTreeMap<(&'static str, String), ChangeView> = BTreeMap::new();
    while looked_at < LOOKED_AT && pages < PAGES && more {
        pages += 1;
        let page = door.store().page(filter.clone(), before, AT_ONCE.min(LOOKED_AT - looked_at)).await?;
        looked_at += page.lines.len();
        (before, more) = (page.next, page.next.is_some());
        for line in &page.lines {
            let Some(failure) = line.last_failure.as_ref().filter(|failure| would_decide(failure)) else {
                continue;
            };
            let was = JudgedView { verdict: failure.verdict, category: failure.category.clone() };
            let change =
                changes.entry((failure.verdict.as_str(), failure.category.clone())).or_insert_with(|| {
                    ChangeView {
                        before: was,
                        after: JudgedView { verdict: rule.verdict, category: rule.category.clone() },
                        count: 0,
                        samples: Vec::new(),
                    }
                });
            change.count += 1;
            if change.samples.len() < SAMPLES {
                change.samples.push(sample(line, failure, veil));
            }
        }
    }
    let mut changes: Vec<ChangeView> = changes.into_values().collect();
    changes.sort_by_key(|change| std::cmp::Reverse(change.count));
    Ok(TrialView {
        channel: channel.name.as_str().to_owned(),
        rule,
        looked_at: u64::try_from(looked_at).unwrap_or(u64::MAX),
        more,
        changed: changes.iter().map(|change| change.count).sum(),
        changes,
    })
}

fn sample(line: &Line, failure: &AttemptFailure, veil: Veil) -> SampleView {
    SampleView {
        id: line.message.id.to_string(),
        code: failure.code.clone(),
        text: veil.about(&failure.text, &line.message.body).into_owned(),
    }
}
