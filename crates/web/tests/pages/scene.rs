//! A house in which something has happened.

use std::sync::Arc;

use pombo_kernel::alert::Alert;
use pombo_kernel::block::Block;
use pombo_kernel::classify::{OneOf, Rule, Verdict};
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{Actor, Attempt, AttemptFailure, AttemptOutcome, FailureReason, Progress};
use pombo_kernel::reply::Receipt;
use pombo_kernel::time::{Clock, Span};
use pombo_store::shelf::{Expect, Shelve};
use pombo_store::{Ask, Claimed, NodeId, Place, Settlement, Store};
use pombo_web::rule::Accepted;
use serde_json::{Value, json};

use crate::house::{House, NOW};

fn settled(
    claimed: &Claimed,
    outcome: AttemptOutcome,
    error: Option<&str>,
    explanation: &str,
    next: Next,
    house: &House,
) -> Settlement {
    let now = house.clock.now();
    Settlement {
        key: claimed.key,
        attempt: Attempt {
            round: claimed.progress.round,
            number: claimed.progress.attempts + 1,
            started_at: now - Span::from_millis(120),
            finished_at: now,
            outcome,
            failure: error.map(|text| AttemptFailure {
                verdict: if outcome == AttemptOutcome::Failed {
                    Verdict::Permanent
                } else {
                    Verdict::Transient
                },
                category: if outcome == AttemptOutcome::Failed { "rejected" } else { "rate_limited" }.into(),
                code: Some("429".into()),
                text: text.into(),
                perhaps_sent: false,
                rule: None,
            }),
            next_delay: None,
            explanation: explanation.into(),
            policy: None,
        },
        next,
        progress: Progress {
            attempts: claimed.progress.attempts + 1,
            steps: claimed.progress.steps + 1,
            ..claimed.progress
        },
        block: Default::default(),
        vitals: Default::default(),
        reported: false,
        chance: 0,
    }
}

async fn claim(house: &House) -> Vec<Claimed> {
    let ask = Ask { node: NodeId(1), lane: "default".parse().unwrap(), max: 1_000, rates: Arc::default() };
    house.store.claim(ask).await.unwrap()
}

/// A message that was sent at the first attempt.
pub(crate) async fn sent(house: &House, changes: &Value) -> String {
    let id = house.created(changes).await;
    for claimed in claim(house).await {
        let receipt = Receipt { provider_id: Some("prov-1".into()), ..Receipt::default() };
        let settlement = settled(
            &claimed,
            AttemptOutcome::Sent,
            None,
            "attempt 1 was accepted",
            Next::Sent(receipt),
            house,
        );
        house.store.settle(vec![settlement]).await.unwrap();
    }
    id
}

/// A message whose first attempt failed for a while, and whose second one failed for good with that error.
pub(crate) async fn dead(house: &House, changes: &Value, error: &str) -> String {
    let id = house.created(changes).await;
    let wait = pombo_kernel::backoff::Wait {
        delay: Span::from_millis(2_240),
        nominal: Span::from_secs(2),
        swing: 0.12,
        hinted: false,
    };
    for claimed in claim(house).await {
        let due = house.clock.now() + wait.delay;
        let words =
            format!("attempt 1 failed: {error}; next try in 2s240ms: policy webhook, 2s with jitter +12 %");
        let next = Next::Retry { due, wait };
        let settlement = settled(&claimed, AttemptOutcome::Retry, Some(error), &words, next, house);
        house.store.settle(vec![settlement]).await.unwrap();
    }
    house.clock.pass(Span::from_secs(3));
    for claimed in claim(house).await {
        let words = format!("attempt 2 failed: {error}; rejected will not pass by trying again");
        let next = Next::Failed(FailureReason::PermanentError);
        let settlement = settled(&claimed, AttemptOutcome::Failed, Some(error), &words, next, house);
        house.store.settle(vec![settlement]).await.unwrap();
    }
    id
}

/// Something that is wrong, with those words about it.
pub(crate) async fn alert(house: &House, words: &str) -> String {
    fired(house, "template_failing", Some(words), words).await
}

/// An alert of that rule about a channel.
pub(crate) async fn fired(house: &House, rule: &str, detail: Option<&str>, words: &str) -> String {
    let body = json!({
        "rule": rule, "severity": "critical", "tenant": "default", "channel": "crm", "state": "firing",
        "detail": detail, "first_seen": NOW, "fired_at": NOW, "last_seen": NOW, "above": 0.1, "value": 0.5, "peak": 0.5,
        "count": 5, "of": 10, "window": "1h", "samples": [{"what": words, "text": words, "count": 1}], "told": 1, "told_at": NOW,
    });
    let alert = Alert::read(&body.to_string()).unwrap();
    let wish = pombo_web::alert::put(&alert, Expect::Nothing, None, &Actor::engine(), NOW);
    let id = wish.id.clone();
    house.store.shelve(vec![wish]).await.unwrap();
    id
}

/// A channel that is held for that reason.
pub(crate) async fn held(house: &House, reason: &str) {
    let place = Place { channel: "crm".parse().unwrap(), destination: None };
    house
        .store
        .block(place, Block::operator(reason.to_owned(), NOW), Actor(reason.to_owned()))
        .await
        .unwrap();
}

/// So many messages that meet an error which no rule knows, and pass at the next attempt.
pub(crate) async fn puzzled(house: &House, words: &str, count: usize) {
    for _ in 0..count {
        house.created(&json!({})).await;
    }
    let delay = Span::from_secs(10);
    let wait = pombo_kernel::backoff::Wait { delay, nominal: delay, swing: 0.0, hinted: false };
    let due = house.clock.now() + delay;
    for claimed in claim(house).await {
        let next = Next::Retry { due, wait };
        let mut settlement = settled(&claimed, AttemptOutcome::Retry, Some(words), "odd", next, house);
        if let Some(failure) = &mut settlement.attempt.failure {
            (failure.verdict, failure.category) = (Verdict::UnknownTransient, "unknown".into());
        }
        house.store.settle(vec![settlement]).await.unwrap();
    }
    house.clock.pass(delay);
    for claimed in claim(house).await {
        let next = Next::Sent(Receipt::default());
        let settlement = settled(&claimed, AttemptOutcome::Sent, None, "attempt 2 was accepted", next, house);
        house.store.settle(vec![settlement]).await.unwrap();
    }
}

/// A rule that somebody accepted; its id.
pub(crate) async fn ruled(house: &House, words: &str) -> String {
    let rule = Rule { contains: Some(OneOf(vec!["odd".into()])), ..Rule::new(Verdict::Transient, "odd") };
    let (channel, by) = ("crm".parse().unwrap(), Actor(words.to_owned()));
    let accepted = Accepted::new(&channel, rule, Some(words.to_owned()), &by, NOW);
    let wish = Shelve { record: None, ..accepted.put(&"default".parse().unwrap()) };
    house.store.shelve(vec![wish]).await.unwrap();
    accepted.id
}

/// What addresses of pages stand for.
pub(crate) struct Things {
    pub(crate) sent: String,
    pub(crate) dead: String,
    pub(crate) waiting: String,
    pub(crate) cause: String,
    pub(crate) operation: String,
    pub(crate) alert: String,
    pub(crate) rule: String,
    pub(crate) campaigns: Campaigns,
}

impl Things {
    /// An address of the table with what stands in its braces.
    pub(crate) fn address(&self, path: &str) -> String {
        let path = path.replace("SENT", &self.sent).replace("DEAD", &self.dead);
        let path = path.replace("WAITING", &self.waiting).replace("ALERT", &self.alert);
        let path = path.replace("CAUSE", &self.cause).replace("OPERATION", &self.operation);
        let path = path.replace("RULE", &self.rule);
        self.campaigns.named().iter().fold(path, |path, (name, id)| path.replace(name, id))
    }
}

/// One that runs, one that could, and one that nobody is on the list of.
pub(crate) struct Campaigns {
    running: String,
    listed: String,
    draft: String,
}

impl Campaigns {
    /// Each by its name in addresses.
    pub(crate) fn named(&self) -> [(&'static str, &str); 3] {
        [("RUNNING", &self.running), ("LISTED", &self.listed), ("DRAFT", &self.draft)]
    }
}

/// Campaigns and a template, with those words wherever somebody writes.
async fn campaigns(house: &House, words: &str) -> Campaigns {
    let template = json!({"subject": format!("{words} {{{{ name }}}}"), "text": words, "html": format!("<p>{{{{ clinic }}}}</p>{words}")});
    house.put_template("greeting", &json!({"text": words})).await;
    house.put_template("greeting", &template).await;
    let create = async |changes: Value| {
        let mut wish = json!({
            "name": words, "channel": "mail", "lane": "bulk", "template": "greeting", "payload": {"clinic": words},
            "window": {"hours": "00:00-24:00", "days": ["mon", "tue", "wed", "thu", "fri", "sat"]},
        });
        wish.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        house.post("/v1/campaigns", &wish).await.json()["id"].as_str().unwrap().to_owned()
    };
    let list = async |id: &str| {
        let people =
            json!([{"to": "ana@clinica.example", "name": words, words: words}, {"to": words, "name": "Bia"}]);
        let reply = house.post(&format!("/v1/campaigns/{id}/recipients"), &people).await;
        assert_eq!(reply.json()["invalid"], 1, "{}", reply.text);
    };
    let (running, listed, draft) =
        (create(json!({})).await, create(json!({"window": null})).await, create(json!({})).await);
    list(&running).await;
    list(&listed).await;
    let started = house.post(&format!("/v1/campaigns/{running}/start"), &json!({})).await;
    assert_eq!(started.json()["state"], "running", "{}", started.text);
    Campaigns { running, listed, draft }
}

/// A letter that was edited once, and an operation on others like it; the cause of the letter, and the operation's id.
async fn worked_on(house: &House, letter: &str, words: &str) -> (String, String) {
    let path = format!("/v1/dead-letters/{letter}");
    let content = json!({"body": {"note": words, "put": "right"}, "method": "PUT"});
    let edit = json!({"content": content, "version": 1, "note": words});
    let edited = house.call_as("admin", "PATCH", &path, edit.to_string()).await.json();
    let cause = edited["cause"]["id"].as_str().unwrap().to_owned();
    let wish = json!({"filter": {"type": words}, "note": words, "rate_per_minute": 60});
    let begun = house.call_as("admin", "POST", "/v1/dead-letters/reprocess", wish.to_string()).await.json();
    (cause, begun["id"].as_str().unwrap().to_owned())
}

/// One of everything; `words` stand wherever somebody else writes.
pub(crate) async fn furnished(house: &House, words: &str) -> Things {
    let content = json!({"body": {"note": words, words: [words]}});
    let sent = sent(house, &json!({"reference": "order-1", "content": content})).await;
    let changes = json!({"reference": words, "type": words, "user_id": words, "ordering_key": words, "content": content, "metadata": {"words": words}});
    let dead = dead(house, &changes, words).await;
    let waiting = house.created(&json!({"reference": words, "send_at": (NOW + Span::from_hours(5)).to_string(), "content": content})).await;
    let (cause, operation) = worked_on(house, &dead, words).await;
    let alert = alert(house, words).await;
    held(house, words).await;
    let rule = ruled(house, words).await;
    crate::upkeep::furnish(house, words).await;
    let campaigns = campaigns(house, words).await;
    Things { sent, dead, waiting, cause, operation, alert, rule, campaigns }
}
