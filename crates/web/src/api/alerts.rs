//! Alerts: what is wrong, what was, and who looks after it. A node with the role for it finds out; people answer here.

use axum::response::Response;
use http::StatusCode;
use pombo_kernel::alert::{
    Acknowledged, Alert, Language, Rule, RuleName, Sample, Severity, Silenced, State, Unit, sentence,
};
use pombo_kernel::mask;
use pombo_kernel::name::{ChannelName, NoticeName};
use pombo_kernel::notice::{self, Letter, Notice, Passed};
use pombo_kernel::time::{Span, Time};
use pombo_store::audit::Event;
use pombo_store::shelf::{Doc, Expect, Pick, Shelf, Wanted};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::fields::Fields;
use super::page::{Paging, Wrong, page};
use crate::alert::{PREFIX, TOPIC};
use crate::auth::Caller;
use crate::key::hex;
use crate::problem::{Code, Problem};
use crate::route::Call;
use crate::{Door, alert, body, shelf, view};

const BODY_BYTES: usize = 16 * 1024;
const NOTE_BYTES_MAX: usize = 1_000;
/// Alerts that fire at once, at most. There are as many as rules and channels, and a few.
const FIRING_MAX: usize = 1_000;
/// Notices that are told of one alert.
const NOTICES_MAX: usize = 100;
const SPAN_HINT: &str = "write a number and its unit, for example 30m, 2h or 1d, at most 30d";
const SILENCE_MAX: Span = Span::from_hours(24 * 30);

/// Something that is or was wrong.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Alert")]
pub(crate) struct AlertView<'a> {
    /// `alr_` and 32 hexadecimal digits.
    id: &'a str,
    rule: RuleName,
    severity: Severity,
    state: State,
    /// What is wrong, in a sentence.
    summary: String,
    channel: Option<&'a ChannelName>,
    /// A template, an error category, or `retry-decisions`.
    about: Option<&'a str>,
    unit: Unit,
    /// How it stood when it was last seen.
    value: f64,
    /// The threshold.
    above: f64,
    peak: f64,
    /// How many it concerns, and of how many.
    count: u64,
    of: Option<u64>,
    window: Option<Span>,
    first_seen: Time,
    fired_at: Time,
    /// To the minute.
    last_seen: Time,
    resolved_at: Option<Time>,
    samples: &'a [Sample],
    acknowledged: Option<&'a Acknowledged>,
    silenced: Option<&'a Silenced>,
    /// Where people can look at it.
    link: Option<String>,
}

impl<'a> AlertView<'a> {
    fn of(door: &Door, id: &'a str, alert: &'a Alert) -> AlertView<'a> {
        AlertView {
            id,
            rule: alert.rule,
            severity: alert.severity,
            state: alert.state,
            summary: sentence(alert, Language::En),
            channel: alert.subject.channel.as_ref(),
            about: alert.subject.detail.as_deref(),
            unit: alert.rule.unit(),
            value: alert.value,
            above: alert.above,
            peak: alert.peak,
            count: alert.count,
            of: alert.of,
            window: Some(alert.window).filter(|window| *window > Span::ZERO),
            first_seen: alert.first_seen,
            fired_at: alert.fired_at,
            last_seen: alert.last_seen,
            resolved_at: alert.resolved_at,
            samples: &alert.samples,
            acknowledged: alert.acknowledged.as_ref(),
            silenced: alert.silenced.as_ref().filter(|silence| silence.until > door.now()),
            link: door.setup().alerts.link("alerts", id),
        }
    }
}

/// An alert, with what was told of it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AlertStory")]
pub(crate) struct StoryView<'a> {
    #[serde(flatten)]
    alert: AlertView<'a>,
    /// The newest first.
    notices: Vec<NoticeView<'a>>,
}

/// Something that people were told, or are to be.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Notice")]
pub(crate) struct NoticeView<'a> {
    id: &'a str,
    /// For whom it is.
    to: &'a NoticeName,
    /// Who gets it, or got it: a fallback, if `to` could not be reached.
    via: Option<&'a NoticeName>,
    #[schemars(extend("enum" = ["owed", "handed", "sent", "lost"]))]
    state: &'static str,
    subject: &'a str,
    /// The message that carries it.
    message: Option<String>,
    /// Why nobody could be reached.
    why: Option<&'a str>,
    passed: &'a [Passed],
    created_at: Time,
}

impl<'a> NoticeView<'a> {
    fn of(id: &'a str, notice: &'a Notice) -> NoticeView<'a> {
        let (state, via, message, why) = match &notice.state {
            notice::State::Owed { via } => ("owed", Some(via), None, None),
            notice::State::Handed { via, message, .. } => {
                ("handed", Some(via), Some(message.to_string()), None)
            }
            notice::State::Sent { via, .. } => ("sent", Some(via), None, None),
            notice::State::Lost { why, .. } => ("lost", None, None, Some(why.as_str())),
        };
        NoticeView {
            id,
            to: &notice.to,
            via,
            state,
            subject: &notice.letter.subject,
            message,
            why,
            passed: &notice.passed,
            created_at: notice.created_at,
        }
    }
}

/// When something counts as wrong.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AlertRule")]
pub(crate) struct RuleView<'a> {
    rule: RuleName,
    /// Whether it is looked at.
    enabled: bool,
    severity: Severity,
    /// What its numbers are; a share is one of 1, a time is in milliseconds.
    unit: Unit,
    above: f64,
    resolve_at: f64,
    window: Option<Span>,
    least: u64,
    r#for: Span,
    resolve_after: Span,
    repeat: Option<Span>,
    /// The names of those who are told.
    notify: Vec<&'a NoticeName>,
}

/// The rules, and who is told.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AlertRules")]
pub(crate) struct RulesView<'a> {
    /// How often everything is looked at.
    every: Span,
    items: Vec<RuleView<'a>>,
}

fn state(text: &str) -> Result<Option<State>, Wrong> {
    match text {
        "firing" => Ok(Some(State::Firing)),
        "resolved" => Ok(Some(State::Resolved)),
        "all" => Ok(None),
        _ => Err(("is no state of alerts".to_owned(), "there are firing, resolved, all".to_owned())),
    }
}

fn rule(text: &str) -> Result<RuleName, Wrong> {
    let found = RuleName::ALL.iter().copied().find(|rule| rule.as_str() == text);
    found.ok_or_else(|| ("is no rule".to_owned(), "GET /v1/alerts/rules lists them".to_owned()))
}

/// Alerts, the newest first.
pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, .. } = call;
    let mut paging = Paging::read(&head.uri, &["state", "rule", "channel"])?;
    let wanted = paging.query.take("state", state).flatten();
    let of_rule = paging.query.take("rule", rule);
    let of_channel: Option<ChannelName> = paging.query.take("channel", super::page::parsed);
    let tenant = Some(caller.tenant.clone());
    let (docs, next) = match wanted {
        // Those that fire are few, and found at once.
        Some(State::Firing) => {
            let pick = Pick::Due { from: Time::default(), until: Time::MAX, after: None };
            let wanted = Wanted { shelf: Shelf::Alert, tenant, pick, limit: FIRING_MAX };
            let mut docs = door.store().docs(wanted).await?;
            docs.sort_by_key(|doc| std::cmp::Reverse(doc.leaf.order));
            (docs, None)
        }
        _ => {
            let pick = Pick::Topic { topic: TOPIC.to_owned(), after: paging.after()? };
            let wanted = Wanted { shelf: Shelf::Alert, tenant, pick, limit: paging.limit + 1 };
            paging.cut(door.store().docs(wanted).await?)
        }
    };
    paging.query.end()?;
    let fits = |alert: &Alert| {
        is_for(&caller, alert)
            && wanted.is_none_or(|state| alert.state == state)
            && of_rule.is_none_or(|rule| alert.rule == rule)
            && of_channel.as_ref().is_none_or(|name| alert.subject.channel.as_ref() == Some(name))
    };
    let read: Vec<_> = docs.iter().filter_map(|doc| Some((doc, alert::read(doc)?))).collect();
    let items = read.iter().filter(|(_, alert)| fits(alert));
    page(items.map(|(doc, alert)| AlertView::of(&door, &doc.id, alert)).collect(), next)
}

/// One alert, with what was told of it.
pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    let (doc, alert) = own(&call.door, &call.caller, &call.name).await?;
    let pick = Pick::Topic { topic: doc.id.clone(), after: None };
    let wanted = Wanted { shelf: Shelf::Alert, tenant: Some(doc.tenant.clone()), pick, limit: NOTICES_MAX };
    let docs = call.door.store().docs(wanted).await?;
    let notices: Vec<_> = docs.iter().filter_map(|doc| Some((doc, crate::notice::read(doc)?))).collect();
    view::ok(&StoryView {
        alert: AlertView::of(&call.door, &doc.id, &alert),
        notices: notices.iter().map(|(doc, notice)| NoticeView::of(&doc.id, notice)).collect(),
    })
}

/// The rules, and who is told.
pub(crate) async fn rules(call: Call) -> Result<Response, Problem> {
    Paging::read(&call.head.uri, &[])?.query.end()?;
    let setup = call.door.setup();
    let plan = &setup.alerts;
    let usual = Rule::all();
    let items = usual.iter().map(|(name, usual)| {
        let rule = plan.rules.get(name).unwrap_or(usual);
        RuleView {
            rule: *name,
            enabled: plan.rules.contains_key(name),
            severity: rule.severity,
            unit: name.unit(),
            above: rule.above,
            resolve_at: rule.resolve_at,
            window: Some(rule.window).filter(|_| name.has_window()),
            least: rule.least,
            r#for: rule.hold,
            resolve_after: rule.calm,
            repeat: rule.repeat,
            notify: plan.told(rule).into_iter().map(|target| &target.name).collect(),
        }
    });
    view::ok(&RulesView { every: plan.every, items: items.collect() })
}

/// Somebody looks after it: nobody is reminded any more.
pub(crate) async fn acknowledge(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, name } = call;
    let mut fields = Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?;
    let note = fields.text("note", NOTE_BYTES_MAX).map(|note| mask::personal(&note).into_owned());
    fields.end()?;
    let (by, at) = (caller.actor(), door.now());
    let acknowledged = Acknowledged { by, at, note };
    answer(&door, &caller, &name, Event::AlertAcknowledged, |alert| {
        alert.acknowledged = Some(acknowledged.clone());
    })
    .await
}

/// Nobody is told anything of it for a while.
pub(crate) async fn silence(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, name } = call;
    let mut fields = Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?;
    let note = fields.text("note", NOTE_BYTES_MAX).map(|note| mask::personal(&note).into_owned());
    let now = door.now();
    let span = fields.text("for", 50).map(|text| {
        if text.parse::<Span>().is_err() {
            fields.wrong("for", "is not a length of time", SPAN_HINT);
        }
        (text.parse::<Span>().ok(), "for")
    });
    let until = fields.text("until", 50).map(|text| {
        (text.parse::<Time>().ok().map(|until| until.since(now)).filter(|span| *span > Span::ZERO), "until")
    });
    let until = match (span, until) {
        (Some((Some(span), _)), None) | (None, Some((Some(span), _))) if span <= SILENCE_MAX => now + span,
        (None, None) => {
            fields.missing("for", "say for how long, for example \"2h\", or `until` when");
            now
        }
        (Some(_), Some(_)) => {
            fields.wrong("until", "stands beside `for`", "leave one of them out");
            now
        }
        (Some((None, _)), None) => now,
        (Some((_, field)), None) | (None, Some((_, field))) => {
            fields.wrong(
                field,
                "is not within the next 30 days",
                "write \"2h\", or a time such as 2026-01-31T10:20:30Z",
            );
            now
        }
    };
    fields.end()?;
    let silenced = Silenced { until, by: caller.actor(), at: now, note };
    answer(&door, &caller, &name, Event::AlertSilenced, |alert| alert.silenced = Some(silenced.clone())).await
}

/// People are told again.
pub(crate) async fn unsilence(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, name } = call;
    Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?.end()?;
    answer(&door, &caller, &name, Event::AlertUnsilenced, |alert| alert.silenced = None).await
}

/// What was handed in by a test.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AlertTest")]
pub(crate) struct TestView {
    /// To be looked up as `GET /v1/alerts/{id}` has them.
    notices: Vec<TestNotice>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AlertTestNotice")]
pub(crate) struct TestNotice {
    id: String,
    to: NoticeName,
}

/// Tells people that this is a test: all of them, or those of one name.
pub(crate) async fn test(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, .. } = call;
    let mut fields = Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?;
    caller.may_use_all()?;
    caller.may_keep_house()?;
    let name = fields.text("notice", 64);
    let setup = door.setup();
    let targets = &setup.alerts.targets;
    let known = || match targets.is_empty() {
        true => "none is configured: add [notices.NAME]".to_owned(),
        false => {
            format!("there are {}", targets.keys().map(NoticeName::as_str).collect::<Vec<_>>().join(", "))
        }
    };
    let wanted: Vec<_> =
        targets.values().filter(|it| name.as_deref().is_none_or(|name| it.name.as_str() == name)).collect();
    if wanted.is_empty() {
        fields.wrong("notice", "is no name of notices", known());
    }
    fields.end()?;
    let now = door.now();
    let mut notices = Vec::new();
    for target in wanted {
        let (subject, text) = match target.language {
            Language::En => ("[Pombo] test", "This is a test: notices for you arrive here."),
            Language::PtBr => ("[Pombo] teste", "Isto é um teste: os avisos para você chegam aqui."),
        };
        let data = json!({ "type": "alert.test", "timestamp": now, "data": { "notice": target.name } });
        let letter = Letter { subject: subject.to_owned(), text: text.to_owned(), html: None, data };
        let notice = Notice::new("test", target.name.clone(), caller.tenant.clone(), letter, now);
        let wish = crate::notice::owe(&format!("test·{}", hex(&door.entropy()()[..16])), &notice);
        let id = wish.id.clone();
        shelf::put(door.store(), wish).await?;
        notices.push(TestNotice { id, to: target.name.clone() });
    }
    tracing::info!(notices = notices.len(), key_id = caller.key_id, "test notices were asked for");
    let document = serde_json::to_vec(&TestView { notices }).map_err(|_| Problem::internal())?;
    Ok(view::answer(StatusCode::ACCEPTED, document))
}

/// Changes an alert that fires, and answers with it.
async fn answer(
    door: &Door,
    caller: &Caller,
    id: &str,
    event: Event,
    change: impl Fn(&mut Alert),
) -> Result<Response, Problem> {
    let (doc, _) = own(door, caller, id).await?;
    let (by, now) = (caller.actor(), door.now());
    let changed = shelf::change(door.store(), Some(doc), |doc| {
        let found = doc.and_then(|doc| Some((doc, alert::read(doc)?)));
        let (doc, mut alert) = found.ok_or_else(missing)?;
        if !alert.is_firing() {
            let hint = "there is nothing left to do: it is over; `pombo alerts list` shows what is not";
            return Err(Problem::new(Code::AlertResolved, "the alert is resolved", hint));
        }
        change(&mut alert);
        let wish = alert::put(&alert, Expect::Version(doc.version), Some(event), &by, now);
        Ok((Some(wish), alert))
    })
    .await?;
    tracing::info!(alert_id = id, key_id = caller.key_id, act = event.as_str(), "an alert was answered");
    view::ok(&AlertView::of(door, id, &changed))
}

fn missing() -> Problem {
    let hint = "GET /v1/alerts and `pombo alerts list` show them";
    Problem::new(Code::NotFound, "there is no alert with this id", hint)
}

async fn own(door: &Door, caller: &Caller, id: &str) -> Result<(Doc, Alert), Problem> {
    if !id.starts_with(PREFIX) || id.len() > 100 {
        return Err(missing());
    }
    let found = door.store().doc(Shelf::Alert, caller.tenant.clone(), id.to_owned()).await?;
    let doc = found.ok_or_else(missing)?;
    let alert = alert::read(&doc).filter(|alert| is_for(caller, alert)).ok_or_else(missing)?;
    Ok((doc, alert))
}

/// A key that is bound to channels sees what is about these alone.
fn is_for(caller: &Caller, alert: &Alert) -> bool {
    caller.channels.is_none() || alert.subject.channel.as_ref().is_some_and(|channel| caller.sees(channel))
}
