//! Rules of classification: those that there are, those that history suggests, and what one would change.

mod trial;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use pombo_kernel::classify::{Rule, Verdict};
use pombo_kernel::learn::{Counts, Estimate};
use pombo_kernel::name::ChannelName;
use pombo_kernel::reply::{Refusal, Reply};
use pombo_kernel::setup::ChannelSetup;
use pombo_kernel::suggest::{Advice, Unmatched};
use pombo_kernel::time::Time;
use pombo_store::learning::{Learnt, Lesson};
use pombo_store::shelf::{Doc, Shelf, Shelved};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::fields::Fields;
use super::page::{Query, page};
use crate::auth::Caller;
use crate::key::hex;
use crate::problem::{Code, Problem};
use crate::route::Call;
use crate::rule::{self, Accepted, RULES_MAX};
use crate::veil::Veil;
use crate::{Door, body, view};

pub(crate) use self::trial::{TrialView, try_out};

const BODY_BYTES: usize = 64 * 1024;
const NOTE_BYTES: usize = 500;
/// Most suggestions that are listed; nobody reads more.
const SUGGESTIONS_MAX: usize = 100;

/// Who wrote a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "RuleOrigin")]
pub(crate) enum Origin {
    /// The configuration.
    Configured,
    /// Somebody, while Pombo ran.
    Accepted,
    BuiltIn,
}

impl Origin {
    fn read(text: &str) -> Option<Origin> {
        [("configured", Origin::Configured), ("accepted", Origin::Accepted), ("built_in", Origin::BuiltIn)]
            .into_iter()
            .find_map(|(word, origin)| (word == text).then_some(origin))
    }
}

/// A rule as callers read it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RuleLine")]
pub(crate) struct RuleView {
    /// As decisions cite it: `channel:0`, `accepted:rule_…`, `smtp:greylisted`.
    cited: String,
    origin: Origin,
    channel: String,
    rule: Rule,
    /// Of one that was accepted: who, when, and what it is removed by.
    accepted: Option<AcceptedView>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AcceptedRule")]
pub(crate) struct AcceptedView {
    /// `rule_` and 16 hexadecimal digits.
    id: String,
    version: u32,
    created_at: Time,
    created_by: String,
    note: Option<String>,
}

impl AcceptedView {
    fn of(doc: &Doc, it: &Accepted, veil: Veil) -> AcceptedView {
        AcceptedView {
            id: it.id.clone(),
            version: doc.version,
            created_at: it.created_at,
            created_by: it.created_by.clone(),
            note: it.note.as_deref().map(|note| veil.words(note).into_owned()),
        }
    }
}

/// What history says of an error that no rule knew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "RuleAdvice")]
pub(crate) enum AdviceView {
    Transient,
    Permanent,
    /// Some pass and some do not.
    Undecided,
    TooFew,
}

impl From<Advice> for AdviceView {
    fn from(advice: Advice) -> AdviceView {
        match advice {
            Advice::Transient => AdviceView::Transient,
            Advice::Permanent => AdviceView::Permanent,
            Advice::Undecided => AdviceView::Undecided,
            Advice::TooFew => AdviceView::TooFew,
        }
    }
}

/// An error that no rule knows, and what to do about it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RuleSuggestion")]
pub(crate) struct SuggestionView {
    /// `sug_` and 16 hexadecimal digits: the same words of the same channel have the same one.
    id: String,
    channel: String,
    /// The error, without what differs from message to message.
    text: String,
    /// How often it was met.
    seen: u64,
    /// How often it was the end of its message.
    ended: u64,
    /// The attempts that came after it.
    followed: Estimate,
    advice: AdviceView,
    /// The same in a sentence.
    said: String,
    /// Why to look twice, where there is a reason.
    caution: Option<String>,
    /// The rule that would know it; null where nothing is advised or nothing of its words is its own.
    rule: Option<Rule>,
}

/// A rule to be accepted or tried: one that is suggested, or one that is written out.
#[derive(JsonSchema)]
#[allow(dead_code)]
pub(crate) struct RuleRequest {
    /// The id of a suggestion, instead of `channel` and `rule`.
    suggestion: Option<String>,
    /// With a suggestion: another verdict than the advised one.
    verdict: Option<Verdict>,
    /// With a suggestion: another category than the one that is made of its words.
    category: Option<String>,
    channel: Option<ChannelName>,
    /// As in the configuration.
    rule: Option<Rule>,
    /// Why, for whoever reads it later.
    #[schemars(length(min = 1, max = 500))]
    note: Option<String>,
}

/// The rules that apply to the tenant's channels, in the order in which they are tried.
pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let mut query = Query::read(&call.head.uri, &["channel", "origin"])?;
    let channel = query.take("channel", |text| Ok(text.to_owned()));
    let origin = query.take("origin", |text| {
        let hint = "configured, accepted or built_in".to_owned();
        Origin::read(text).ok_or_else(|| ("is not an origin".to_owned(), hint))
    });
    query.end()?;
    let rules = rules(&call.door, &call.caller, channel.as_deref(), origin).await?;
    page(rules, None)
}

async fn rules(
    door: &Door,
    caller: &Caller,
    channel: Option<&str>,
    origin: Option<Origin>,
) -> Result<Vec<RuleView>, Problem> {
    let (setup, veil) = (door.setup(), Veil::of(caller, &door.setup()));
    // What was just accepted is told, though this node may not go by it yet.
    let accepted = rule::all(door.store(), Some(caller.tenant.clone())).await?;
    let mut views = Vec::new();
    for it in caller.channels_in(&setup).filter(|it| channel.is_none_or(|only| only == it.name.as_str())) {
        let mut told = |cited: String, of: Origin, rule: Rule, accepted: Option<AcceptedView>| {
            if origin.is_none_or(|only| only == of) {
                let channel = it.name.as_str().to_owned();
                views.push(RuleView { cited, origin: of, channel, rule, accepted });
            }
        };
        let own = |cited: &str| cited.starts_with("channel:");
        for (cited, rule) in it.rules.iter().filter(|(cited, _)| own(cited)) {
            told(cited.to_owned(), Origin::Configured, rule.clone(), None);
        }
        for (doc, rule) in accepted.iter().filter(|(_, rule)| rule.channel == it.name) {
            let view = AcceptedView::of(doc, rule, veil);
            told(rule.cited(), Origin::Accepted, rule.rule.clone(), Some(view));
        }
        let (bare, _) = it.rules.accepting(&[]);
        for (cited, rule) in bare.iter().filter(|(cited, _)| !own(cited)) {
            told(cited.to_owned(), Origin::BuiltIn, rule.clone(), None);
        }
    }
    Ok(views)
}

/// Errors that no rule knows, the most frequent first, with what became of them.
pub(crate) async fn suggestions(call: Call) -> Result<Response, Problem> {
    let mut query = Query::read(&call.head.uri, &["channel"])?;
    let channel = query.take("channel", |text| Ok(text.to_owned()));
    query.end()?;
    let found = suggested(&call.door, &call.caller, channel.as_deref()).await?;
    page(found.into_iter().map(|(_, view)| view).collect(), None)
}

/// The same, with what each was made of.
async fn suggested(
    door: &Door,
    caller: &Caller,
    channel: Option<&str>,
) -> Result<Vec<(Unmatched, SuggestionView)>, Problem> {
    let (setup, veil) = (door.setup(), Veil::of(caller, &door.setup()));
    let mut met: BTreeMap<(ChannelName, String), Unmatched> = BTreeMap::new();
    for Learnt { channel, lesson, tried, passed, .. } in
        door.store().learnt(Some(caller.tenant.clone()), door.now()).await?
    {
        let (Lesson::Followed { text: Some(text) } | Lesson::Seen { text: Some(text) }) = &lesson else {
            continue;
        };
        let of = met.entry((channel, text.clone())).or_default();
        match lesson {
            Lesson::Seen { .. } => (of.seen, of.ended) = (tried, passed),
            _ => of.followed = Counts { tried, passed },
        }
        of.text.clone_from(text);
    }
    let own: BTreeMap<&str, &Arc<ChannelSetup>> =
        caller.channels_in(&setup).map(|it| (it.name.as_str(), it)).collect();
    let wanted = |name: &ChannelName| channel.is_none_or(|only| only == name.as_str());
    let mut found: Vec<_> = met
        .into_iter()
        .filter(|((name, text), _)| {
            wanted(name) && own.get(name.as_str()).is_some_and(|channel| !is_known(channel, text))
        })
        .map(|((name, _), it)| {
            let view = SuggestionView {
                id: suggestion_id(caller, &name, &it.text),
                channel: name.as_str().to_owned(),
                text: veil.words(&it.text).into_owned(),
                seen: it.seen,
                ended: it.ended,
                followed: it.followed.estimate(),
                advice: it.advice().into(),
                said: it.said(),
                caution: it.caution(),
                rule: it.rule(),
            };
            (it, view)
        })
        .collect();
    found.sort_by_key(|(it, _)| std::cmp::Reverse(it.seen));
    found.truncate(SUGGESTIONS_MAX);
    Ok(found)
}

/// Whether a rule of the channel knows those words by now.
fn is_known(channel: &ChannelSetup, text: &str) -> bool {
    let reply = Reply::Refused(Refusal { text: text.to_owned(), ..Refusal::default() });
    channel.rules.classify(&reply).is_some_and(|meaning| meaning.rule.is_some())
}

fn suggestion_id(caller: &Caller, channel: &ChannelName, text: &str) -> String {
    let mut digest = Sha256::new();
    for part in [caller.tenant.as_str(), channel.as_str(), text] {
        digest.update(part.len().to_le_bytes());
        digest.update(part.as_bytes());
    }
    format!("sug_{}", hex(&digest.finalize()[..8]))
}

/// A rule that somebody wishes for.
struct Wish {
    channel: Arc<ChannelSetup>,
    rule: Rule,
    note: Option<String>,
}

impl Wish {
    async fn read(door: &Door, caller: &Caller, mut fields: Fields) -> Result<Wish, Problem> {
        let suggestion = fields.line("suggestion", 64);
        let channel = fields.line("channel", 64);
        let rule = fields.value("rule");
        let verdict = fields.value("verdict");
        let category = fields.line("category", 64);
        let note = fields.remark("note", NOTE_BYTES);
        match (&suggestion, &channel, &rule) {
            (Some(_), None, None) | (None, Some(_), Some(_)) => {}
            (Some(_), ..) => fields.wrong(
                "suggestion",
                "is given beside a rule that is written out",
                "it is one or the other",
            ),
            (None, None, Some(_)) => fields.missing("channel", "name the channel that the rule is for"),
            (None, ..) => {
                fields.missing("rule", "write {\"contains\": \"…\", \"verdict\": \"transient\", \"category\": \"…\"}, or name a suggestion");
            }
        }
        let verdict: Option<Verdict> = match verdict.map(Verdict::deserialize) {
            None => None,
            Some(Ok(verdict)) => Some(verdict),
            Some(Err(_)) => {
                fields.wrong("verdict", "is not a verdict", "transient, permanent or sender_fault");
                None
            }
        };
        if suggestion.is_none() && (verdict.is_some() || category.is_some()) {
            fields.wrong("verdict", "goes with a suggestion", "write it into `rule`");
        }
        fields.end()?;
        let (name, rule) = match suggestion {
            Some(id) => Wish::suggested(door, caller, &id, verdict, category).await?,
            None => (channel.unwrap_or_default(), read_rule(rule.unwrap_or_default())?),
        };
        let setup = door.setup();
        let channel = caller.channels_in(&setup).find(|it| it.name.as_str() == name).ok_or_else(|| {
            let hint = "GET /v1/channels and `pombo channels list` show them";
            Problem::field("channel", "there is no such channel", hint)
        })?;
        if let Some(flaw) = pombo_kernel::classify::Rules::check(std::slice::from_ref(&rule)).pop() {
            let field = flaw.field.map_or("rule".to_owned(), |field| format!("rule.{field}"));
            return Err(Problem::field(field, flaw.problem, flaw.hint));
        }
        Ok(Wish { channel: channel.clone(), rule, note })
    }

    /// The channel and the rule of a suggestion.
    async fn suggested(
        door: &Door,
        caller: &Caller,
        id: &str,
        verdict: Option<Verdict>,
        category: Option<String>,
    ) -> Result<(String, Rule), Problem> {
        let found = suggested(door, caller, None).await?.into_iter().find(|(_, view)| view.id == id);
        let (met, view) = found.ok_or_else(|| {
            let hint = "GET /v1/rules/suggestions and `pombo rules suggest` show them; one that a rule knows by now is gone";
            Problem::new(Code::NotFound, "there is no suggestion with this id", hint)
        })?;
        let rule = match verdict {
            Some(verdict) => met.rule_for(verdict),
            None => met.rule(),
        };
        let rule = rule.ok_or_else(|| match view.advice {
            AdviceView::Undecided | AdviceView::TooFew if verdict.is_none() => {
                Problem::field("verdict", format!("is missing: {}", view.said), "say transient or permanent")
            }
            _ => Problem::field(
                "suggestion",
                "has no words of its own that a rule could look for",
                "write the rule out, by status or name: give `channel` and `rule`",
            ),
        })?;
        let category = category.unwrap_or_else(|| rule.category.clone());
        Ok((view.channel, Rule { category, ..rule }))
    }
}

fn read_rule(value: Value) -> Result<Rule, Problem> {
    serde_json::from_value::<Rule>(value).map_err(|error| {
        let hint = "write a rule as in the configuration: at least one matcher, a verdict and a category";
        Problem::field("rule", format!("cannot be read: {error}"), hint)
    })
}

/// Accepts a rule: 201, or 200 with the one that is there already. All nodes go by it within seconds.
pub(crate) async fn accept(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, .. } = call;
    let fields = Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?;
    let (status, view) = accepted(&door, &caller, fields).await?;
    let document = serde_json::to_vec(&view).map_err(|_| Problem::internal())?;
    Ok(view::answer(status, document))
}

async fn accepted(door: &Door, caller: &Caller, fields: Fields) -> Result<(StatusCode, RuleView), Problem> {
    let Wish { channel, rule, note } = Wish::read(door, caller, fields).await?;
    let there = rule::all(door.store(), Some(caller.tenant.clone())).await?;
    let it = Accepted::new(&channel.name, rule, note, &caller.actor(), door.now());
    let of_channel = there.iter().filter(|(_, other)| other.channel == it.channel);
    if of_channel.count() >= RULES_MAX && !there.iter().any(|(_, other)| other.id == it.id) {
        return Err(Problem::new(
            Code::TooManyRules,
            format!("the channel `{}` has {RULES_MAX} accepted rules", it.channel),
            "write those that have proved themselves into the configuration, and remove them here",
        ));
    }
    let (status, doc, it) = match door.store().shelve(vec![it.put(&caller.tenant)]).await?.pop() {
        Some(Shelved::Done { .. }) => {
            tracing::info!(rule_id = it.id, channel = %it.channel, key_id = caller.key_id, "a rule was accepted");
            let doc = door.store().doc(Shelf::Rule, caller.tenant.clone(), it.id.clone()).await?;
            (StatusCode::CREATED, doc.ok_or_else(Problem::internal)?, it)
        }
        Some(Shelved::Conflict(Some(doc))) => {
            let it = Accepted::read(&doc).ok_or_else(Problem::internal)?;
            (StatusCode::OK, doc, it)
        }
        _ => return Err(Problem::internal()),
    };
    let view = AcceptedView::of(&doc, &it, Veil::of(caller, &door.setup()));
    let channel = it.channel.as_str().to_owned();
    let cited = it.cited();
    Ok((status, RuleView { cited, origin: Origin::Accepted, channel, rule: it.rule, accepted: Some(view) }))
}

/// Takes a rule back: what it knew is again judged by the others, within seconds.
pub(crate) async fn remove(call: Call) -> Result<Response, Problem> {
    removed(&call.door, &call.caller, &call.name).await?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

async fn removed(door: &Door, caller: &Caller, id: &str) -> Result<(), Problem> {
    let missing = || {
        let hint = "GET /v1/rules?origin=accepted and `pombo rules list --origin accepted` show them";
        Problem::new(Code::NotFound, "there is no accepted rule with this id", hint)
    };
    let doc =
        door.store().doc(Shelf::Rule, caller.tenant.clone(), id.to_owned()).await?.ok_or_else(missing)?;
    let it = Accepted::read(&doc).filter(|it| caller.sees(&it.channel)).ok_or_else(missing)?;
    match door.store().shelve(vec![it.removed(&doc, &caller.actor(), door.now())]).await?.pop() {
        Some(Shelved::Done { .. }) => {
            tracing::info!(rule_id = it.id, channel = %it.channel, key_id = caller.key_id, "a rule was removed");
            Ok(())
        }
        // Somebody was faster.
        _ => Err(missing()),
    }
}
