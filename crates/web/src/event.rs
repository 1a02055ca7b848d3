//! Events: what the audit records, told to those whom it concerns, on the stream and by webhooks.
//!
//! One pure function makes an event of a record, so that both tell the same. A message event says what the record says,
//! and what of the message never changes; who it was for and what it said stays out.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Body, Draft, Idempotency, Json, Priority, QueueName, State};
use pombo_kernel::name::{ChannelName, Tenant};
use pombo_kernel::setup::{EVENTS, Setup};
use pombo_kernel::time::Time;
use pombo_store::audit::{Event, Record};
use pombo_store::{Line, Store, StoreError};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::auth::{Access, Caller};
use crate::campaign::CampaignView;

/// What happened, as Standard Webhooks suggests to say it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Told {
    /// For example `message.sent`.
    pub r#type: &'static str,
    /// When it happened.
    pub timestamp: Time,
    /// The event's place among all events. None for a test, and for a campaign's progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// What there is to say of it; it depends on the type.
    pub data: Map<String, Value>,
}

/// How far a campaign has come, on the stream alone: no record tells of it.
pub const PROGRESS: &str = "campaign.progress";

/// What a webhook is sent to see that it works.
pub const TEST: &str = "webhook.test";

/// The type under which an event is told. A message past its deadline is a failed one, by that reason.
pub fn kind(event: Event) -> &'static str {
    match event {
        Event::Accepted => "message.accepted",
        Event::Claimed => "message.sending",
        Event::Sent => "message.sent",
        Event::RetryScheduled => "message.retry_scheduled",
        Event::Failed | Event::Expired => "message.failed",
        Event::Held => "message.held",
        Event::Released => "message.released",
        Event::Cancelled => "message.cancelled",
        Event::Discarded => "message.discarded",
        Event::Reprocessed => "message.reprocessed",
        Event::TakenOver => "message.taken_over",
        Event::Delivery => "message.delivery",
        Event::Edited => "message.edited",
        Event::Hastened => "message.hastened",
        Event::Blocked => "channel.blocked",
        Event::Unblocked => "channel.unblocked",
        Event::Paused => "store.paused",
        Event::Resumed => "store.resumed",
        Event::KeyAdded => "key.added",
        Event::KeyChanged => "key.changed",
        Event::KeyRemoved => "key.removed",
        Event::TemplatePut => "template.put",
        Event::WebhookPut => "webhook.put",
        Event::WebhookRemoved => "webhook.removed",
        Event::SuppressionPut => "suppression.put",
        Event::SuppressionRemoved => "suppression.removed",
        Event::RetryDecided => "RetryScheduledEvent",
        Event::RetriesExhausted => "MaxRetriesExceededEvent",
        Event::PermanentErrorFound => "PermanentErrorDetectedEvent",
        Event::OperationStarted => "operation.started",
        Event::OperationEnded => "operation.ended",
        Event::CampaignCreated => "campaign.created",
        Event::CampaignChanged => "campaign.changed",
        Event::CampaignScheduled => "campaign.scheduled",
        Event::CampaignStarted => "campaign.started",
        Event::CampaignPaused => "campaign.paused",
        Event::CampaignResumed => "campaign.resumed",
        Event::CampaignCompleted => "campaign.completed",
        Event::CampaignCancelled => "campaign.cancelled",
        Event::CampaignRemoved => "campaign.removed",
        Event::RecipientsListed => "campaign.recipients_listed",
        Event::AlertFired => "alert.fired",
        Event::AlertResolved => "alert.resolved",
        Event::AlertAcknowledged => "alert.acknowledged",
        Event::AlertSilenced => "alert.silenced",
        Event::AlertUnsilenced => "alert.unsilenced",
        Event::Revealed => "data.revealed",
        Event::Erased => "data.erased",
        Event::Exported => "data.exported",
        Event::Pruned => "store.pruned",
        Event::Anchored => "audit.anchored",
        Event::LoggedIn => "session.logged_in",
        Event::LoggedOut => "session.logged_out",
        Event::ReportSent => "report.sent",
        Event::Rekeyed => "store.rekeyed",
        Event::RuleAccepted => "rule.accepted",
        Event::RuleRemoved => "rule.removed",
    }
}

/// What a caller must be allowed to do in order to be told.
fn access(record: &Record) -> Access {
    match record.event {
        Event::KeyAdded
        | Event::KeyChanged
        | Event::KeyRemoved
        | Event::WebhookPut
        | Event::WebhookRemoved
        | Event::LoggedIn
        | Event::LoggedOut => Access::Administer,
        Event::RetryDecided | Event::RetriesExhausted | Event::PermanentErrorFound => Access::Follow,
        Event::Revealed => Access::Look,
        _ if record.message.is_some() && record.channel != EVENTS => Access::Follow,
        _ => Access::Look,
    }
}

/// The claim that a retry decision is about; none for every other record.
pub(crate) fn claim(record: &Record) -> Option<String> {
    let decision =
        matches!(record.event, Event::RetryDecided | Event::RetriesExhausted | Event::PermanentErrorFound);
    let detail: Value = serde_json::from_str(&record.detail).ok().filter(|_| decision)?;
    detail.get("claimId")?.as_str().map(str::to_owned)
}

/// Whether it may tell of a step of a campaign.
pub(crate) fn moves_campaign(record: &Record) -> bool {
    let group = kind(record.event).split('.').next().unwrap_or_default();
    group == "campaign" || group == "message" && !matches!(record.event, Event::Delivery | Event::Edited)
}

/// The campaign that a record is about, by itself or by its message.
pub(crate) fn campaign(record: &Record, line: Option<&Line>) -> Option<String> {
    if record.message.is_some() {
        return line?.message.queue.campaign.as_ref().map(ToString::to_string);
    }
    let detail: Value = serde_json::from_str(&record.detail).ok()?;
    detail.get("campaign")?.as_str().map(str::to_owned)
}

/// Messages with these ids, those that there are. To be asked for a few at a time: each may be large.
pub async fn lines(
    store: &dyn Store,
    ids: impl Iterator<Item = MessageId>,
) -> Result<HashMap<MessageId, Line>, StoreError> {
    let ids: Vec<MessageId> = ids.collect::<BTreeSet<_>>().into_iter().collect();
    let lines = if ids.is_empty() { Vec::new() } else { store.lines(ids).await? };
    Ok(lines.into_iter().map(|line| (line.message.id, line)).collect())
}

/// Whether it is that tenant's to know. What concerns a channel as such concerns the channel's tenant, and what
/// concerns the whole store concerns everybody.
pub fn concerns(record: &Record, tenant: &Tenant, setup: &Setup) -> bool {
    match (record.tenant.as_str(), record.channel.as_str()) {
        ("", "") => true,
        ("", channel) => setup.channels.get(channel).is_some_and(|channel| channel.tenant == *tenant),
        (owner, _) => owner == tenant.as_str(),
    }
}

/// Whether that caller may be told. A key for some channels hears of those, and of nothing that has no channel.
pub(crate) fn may_see(record: &Record, caller: &Caller, setup: &Setup) -> bool {
    let within = |own: &Arc<[ChannelName]>| own.iter().any(|channel| channel.as_str() == record.channel);
    access(record).allows(caller.role)
        && concerns(record, &caller.tenant, setup)
        && caller.channels.as_ref().is_none_or(within)
}

/// What is wrong with the name of a type, or a pattern such as `message.*`; nothing if it can match something.
pub(crate) fn unknown_type(pattern: &str) -> Option<(String, String)> {
    let known = Event::ALL.iter().any(|event| pombo_kernel::subscription::matches(pattern, kind(*event)));
    let groups = "for example message.failed, message.* or *; the guide to events lists them";
    (!known).then(|| (format!("no event is called `{}`", shortened(pattern)), groups.to_owned()))
}

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

/// The event of a record, with the message that it is about, as far as that still exists.
pub fn told(position: u64, record: &Record, line: Option<&Line>) -> Told {
    Told {
        r#type: kind(record.event),
        timestamp: record.at,
        position: Some(position),
        data: data(record, line),
    }
}

/// How far a campaign has come.
pub(crate) fn progress(seen: &CampaignView, now: Time) -> Told {
    let data = match serde_json::to_value(seen) {
        Ok(Value::Object(data)) => data,
        _ => Map::new(),
    };
    Told { r#type: PROGRESS, timestamp: now, position: None, data }
}

/// A test, for the webhook with that id.
pub fn test(webhook: &str, now: Time) -> Told {
    let data = Map::from_iter([("webhook".to_owned(), webhook.into())]);
    Told { r#type: TEST, timestamp: now, position: None, data }
}

fn data(record: &Record, line: Option<&Line>) -> Map<String, Value> {
    let detail = match serde_json::from_str(&record.detail) {
        Ok(Value::Object(detail)) => detail,
        _ => Map::new(),
    };
    // Decisions are written as their readers know them, field by field.
    if matches!(record.event, Event::RetryDecided | Event::RetriesExhausted | Event::PermanentErrorFound) {
        return detail;
    }
    let round = detail.get("round").and_then(Value::as_u64).and_then(|round| u16::try_from(round).ok());
    let mut data = Map::new();
    let mut say = |name: &str, value: Option<Value>| {
        data.insert(name.to_owned(), value.unwrap_or(Value::Null));
    };
    if let Some(id) = record.message {
        let message = line.map(|line| &line.message);
        let said = |read: fn(&Body) -> &Option<String>| {
            message.and_then(|message| read(&message.body).clone()).map(Value::String)
        };
        say("id", Some(id.to_string().into()));
        say("reference", said(|body| &body.reference));
        say("type", said(|body| &body.kind));
        say("user_id", said(|body| &body.user_id));
        say("template", said(|body| &body.template));
        let campaign = message.and_then(|message| message.queue.campaign.as_ref());
        say("campaign", campaign.map(|campaign| campaign.as_str().into()));
        say("state", record.to.map(|state| state.as_str().into()));
        say("previous_state", record.from.map(|state| state.as_str().into()));
    }
    if !record.channel.is_empty() {
        say("channel", Some(record.channel.clone().into()));
    }
    if record.actor != "pombo" {
        say("by", Some(record.actor.clone().into()));
    }
    for (name, value) in detail {
        match name.as_str() {
            "due" => say("next_attempt_at", time(&value)),
            "until" | "expires_at" => say(&name, time(&value)),
            "before" => say("previous_delivery", Some(value)),
            _ => say(&name, Some(value)),
        }
    }
    // Only what this very event brought about: the message may have gone on since. It is sent once, and fails once a
    // round.
    match (record.event, line.map(|line| &line.state), line) {
        (Event::Sent, Some(State::Sent { receipt, .. }), _) => {
            say("provider_id", receipt.provider_id.clone().map(Value::String));
        }
        (Event::Failed, Some(State::Failed { .. }), Some(line)) if round == Some(line.progress.round) => {
            let failure = line.last_failure.as_ref();
            say("code", failure.and_then(|failure| failure.code.clone()).map(Value::String));
            say("error", failure.map(|failure| failure.text.clone().into()));
        }
        _ => {}
    }
    data
}

/// Records count milliseconds; what somebody wrote into a filter stays as it is.
fn time(value: &Value) -> Option<Value> {
    let millis = value.as_i64().map(|millis| Time::from_millis(millis).to_string().into());
    millis.or_else(|| Some(value.clone()))
}

/// The message that takes an event to a webhook. The same event for the same webhook is the same message, however
/// often it is handed in: its key has a sign that no caller can write.
pub fn delivery(tenant: &Tenant, webhook: &str, told: &Told) -> Draft {
    let content = serde_json::json!({ "body": told });
    let about = told.data.get("id").and_then(Value::as_str);
    let idempotency = told
        .position
        .map(|position| Idempotency { key: format!("event·{position}·{webhook}"), fingerprint: [0; 16] });
    Draft {
        id: None,
        queue: QueueName {
            tenant: tenant.clone(),
            lane: EVENTS.parse().expect("the built-in name is valid"),
            channel: EVENTS.parse().expect("the built-in name is valid"),
            destination: webhook.into(),
            campaign: None,
        },
        priority: Priority::default(),
        send_at: None,
        expires_at: None,
        ordering_key: None,
        idempotency,
        body: Body {
            to: webhook.to_owned(),
            kind: Some(told.r#type.to_owned()),
            content: Some(Json::from(content)),
            reference: about.map(str::to_owned),
            ..Body::default()
        },
        blobs: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use pombo_kernel::classify::Verdict;
    use pombo_kernel::id::MessageKey;
    use pombo_kernel::message::{AttemptFailure, FailureReason, Message, Progress, StateName};
    use pombo_kernel::reply::Receipt;
    use serde_json::json;

    use super::*;

    const NOW: Time = Time::from_millis(1_800_000_000_000);

    fn line(state: State) -> Line {
        let draft = delivery(&Tenant::default(), "whk_1", &test("whk_1", NOW));
        let body = Body {
            to: "canary@example.net".into(),
            content: Some(Json::from(json!({"text": "canary"}))),
            reference: Some("order 5".into()),
            ..Body::default()
        };
        let failure = AttemptFailure {
            verdict: Verdict::Permanent,
            category: "invalid_recipient".into(),
            code: Some("404".into()),
            text: "no such number".into(),
            perhaps_sent: false,
            rule: None,
        };
        Line {
            message: Arc::new(Message {
                id: MessageId::new(MessageKey::at(NOW), 1),
                queue: Arc::new(QueueName { campaign: "may".parse().ok(), ..draft.queue }),
                priority: draft.priority,
                send_at: None,
                expires_at: None,
                ordering_key: None,
                body,
            }),
            state,
            progress: Progress::default(),
            updated_at: NOW,
            last_failure: Some(failure),
            delivery: None,
        }
    }

    fn record(event: Event, from: StateName, to: StateName, detail: &Value) -> Record {
        Record {
            event,
            at: NOW,
            message: Some(MessageId::new(MessageKey::at(NOW), 1)),
            from: Some(from),
            to: Some(to),
            tenant: "default".into(),
            channel: "crm".into(),
            actor: "pombo".into(),
            detail: detail.to_string(),
        }
    }

    #[test] // REQ ML-7
    fn a_failed_message_is_told_with_all_that_its_caller_has_to_know_and_nothing_personal() {
        let detail = json!({"attempt": 3, "round": 1, "verdict": "permanent", "category": "invalid_recipient",
            "reason": "permanent_error"});
        let record = record(Event::Failed, StateName::Sending, StateName::Failed, &detail);
        let failed = line(State::Failed { at: NOW, reason: FailureReason::PermanentError });
        let failed = Line { progress: Progress { round: 1, ..Progress::default() }, ..failed };
        let told = told(7, &record, Some(&failed));
        let id = record.message.unwrap().to_string();
        assert_eq!(
            serde_json::to_value(&told).unwrap(),
            json!({
                "type": "message.failed",
                "timestamp": "2027-01-15T08:00:00.000Z",
                "position": 7,
                "data": {
                    "id": id, "channel": "crm", "reference": "order 5", "type": null, "user_id": null,
                    "template": null, "campaign": "may", "state": "failed", "previous_state": "sending",
                    "attempt": 3, "round": 1, "verdict": "permanent", "category": "invalid_recipient",
                    "reason": "permanent_error", "code": "404", "error": "no such number",
                },
            })
        );
        assert!(!serde_json::to_string(&told).unwrap().contains("canary"));
    }

    #[test] // REQ ML-9
    fn what_the_message_is_by_now_is_not_told_of_what_it_was_then() {
        let receipt = Receipt { provider_id: Some("p1".into()), ..Receipt::default() };
        let of_round = json!({"attempt": 1, "round": 0});
        let sent = record(Event::Sent, StateName::Sending, StateName::Sent, &of_round);
        let now = line(State::Sent { at: NOW, receipt });
        assert_eq!(told(1, &sent, Some(&now)).data["provider_id"], "p1");
        let failed = record(Event::Failed, StateName::Sending, StateName::Failed, &of_round);
        assert!(!told(1, &failed, Some(&now)).data.contains_key("error"), "it was sent in the end");
        let dead = |round| {
            let failed = line(State::Failed { at: NOW, reason: FailureReason::PermanentError });
            Line { progress: Progress { round, ..Progress::default() }, ..failed }
        };
        assert_eq!(told(1, &failed, Some(&dead(0))).data["error"], "no such number");
        assert!(
            !told(1, &failed, Some(&dead(1))).data.contains_key("error"),
            "it failed again, of something else"
        );
        let gone = told(1, &sent, None);
        assert_eq!((&gone.data["reference"], &gone.data["state"]), (&Value::Null, &json!("sent")));
        let word = json!({"before": "accepted", "delivery": "delivered"});
        let delivered = told(2, &record(Event::Delivery, StateName::Sent, StateName::Sent, &word), None);
        assert_eq!(delivered.r#type, "message.delivery");
        assert_eq!(
            (&delivered.data["previous_delivery"], &delivered.data["delivery"]),
            (&json!("accepted"), &json!("delivered"))
        );
    }

    #[test]
    fn times_are_written_as_times() {
        let waits = json!({"attempt": 1, "due": 1_800_000_005_000_i64});
        let retry = record(Event::RetryScheduled, StateName::Sending, StateName::Pending, &waits);
        assert_eq!(told(1, &retry, None).data["next_attempt_at"], "2027-01-15T08:00:05.000Z");
        let block = Record {
            message: None,
            ..record(Event::Blocked, StateName::Sent, StateName::Sent, &json!({"until": 0}))
        };
        assert_eq!(told(1, &block, None).data["until"], "1970-01-01T00:00:00.000Z");
        let filter = json!({"since": "2027-01-01T00:00:00Z", "until": "2027-01-15T00:00:00Z"});
        let started = Record {
            message: None,
            ..record(Event::OperationStarted, StateName::Sent, StateName::Sent, &filter)
        };
        assert_eq!(told(1, &started, None).data["until"], "2027-01-15T00:00:00Z", "as somebody wrote it");
    }

    #[test]
    fn every_event_has_a_name_and_only_the_two_ends_by_failure_share_one() {
        let names: BTreeSet<&str> = Event::ALL.into_iter().map(kind).collect();
        assert_eq!(names.len(), Event::ALL.len() - 1);
        assert_eq!(kind(Event::Expired), kind(Event::Failed));
        assert!(names.iter().all(|name| unknown_type(name).is_none()));
        for bad in ["", "message", "message.", "mesage.*", "Message.sent"] {
            assert!(unknown_type(bad).is_some(), "{bad}");
        }
    }

    #[test] // REQ ML-10
    fn the_same_event_for_the_same_webhook_is_the_same_message_under_a_key_that_no_caller_can_write() {
        let sent = record(Event::Sent, StateName::Sending, StateName::Sent, &json!({}));
        let draft = delivery(&Tenant::default(), "whk_1", &told(5, &sent, None));
        let again =
            delivery(&Tenant::default(), "whk_1", &told(5, &sent, Some(&line(State::Pending { due: NOW }))));
        assert_eq!(draft.idempotency, again.idempotency);
        let key = draft.idempotency.unwrap().key;
        assert!(pombo_kernel::request::bad_idempotency_key(&key).is_some(), "{key}");
        assert_eq!(draft.body.reference, sent.message.map(|id| id.to_string()));
        assert_eq!(delivery(&Tenant::default(), "whk_1", &test("whk_1", NOW)).idempotency, None);
    }
}
