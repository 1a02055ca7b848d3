//! Campaigns from outside: drafts, what may be done in which state, previews, and how far they have come.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use http::StatusCode;
use pombo_kernel::campaign::recipient::{Listed, Person};
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{Actor, Attempt, AttemptOutcome, FailureReason, Json};
use pombo_kernel::name::Tenant;
use pombo_kernel::reply::Receipt;
use pombo_kernel::setup::{ChannelSetup, Suppressions};
use pombo_kernel::time::Span;
use pombo_store::audit::Event;
use pombo_store::roster::{self, Enlist, Feed, Roster, Serving};
use pombo_store::shelf::{Expect, Shelf, Shelve};
use pombo_store::{Ask, Claimed, NodeId, Rates, Settlement, Store, StoreError};
use pombo_web::key::KeyDoc;
use pombo_web::{Patience, campaign};
use serde_json::{Value, json};

use crate::house::{House, NOW, Reply, key, message, setup};

async fn furnished() -> House {
    furnished_with(Patience::default()).await
}

async fn furnished_with(patience: Patience) -> House {
    let house = House::with(setup(), patience).await;
    house.put_template("greeting", &json!({"subject": "Hello {{ name }}", "text": "{{ clinic }}"})).await;
    house
}

/// A good draft with some fields changed.
pub(crate) fn wish(changes: &Value) -> Value {
    let mut wish =
        json!({"name": "Check-ups", "channel": "mail", "template": "greeting", "payload": {"clinic": "Luz"}});
    for (field, value) in changes.as_object().unwrap() {
        wish[field] = value.clone();
    }
    wish
}

pub(crate) async fn created(house: &House, changes: &Value) -> String {
    let reply = house.post("/v1/campaigns", &wish(changes)).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{}", reply.text);
    reply.json()["id"].as_str().unwrap().to_owned()
}

/// Puts so many on its list, who have names.
pub(crate) async fn listed(house: &House, id: &str, people: u64) {
    let lines = (1..=people).map(|line| Listed {
        line,
        of: Ok(Person {
            to: format!("p{line}@example.com"),
            key: format!("p{line}@example.com"),
            payload: Json::from_text(json!({"name": format!("P{line}")}).to_string()).ok(),
        }),
    });
    let by = Actor("test".into());
    let wish =
        Enlist { tenant: Tenant::default(), campaign: id.parse().unwrap(), lines: lines.collect(), by };
    house.store.enlist(wish).await.unwrap().unwrap();
}

pub(crate) async fn act(house: &House, id: &str, verb: &str, body: &Value) -> Reply {
    house.post(&format!("/v1/campaigns/{id}/{verb}"), body).await
}

/// The same, done.
pub(crate) async fn done(house: &House, id: &str, verb: &str, body: &Value) -> Value {
    let reply = act(house, id, verb, body).await;
    assert_eq!(reply.status, StatusCode::OK, "{verb}: {}", reply.text);
    reply.json()
}

pub(crate) async fn shown(house: &House, id: &str) -> Value {
    let reply = house.get(&format!("/v1/campaigns/{id}")).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    reply.json()
}

/// Makes messages for everybody on the list, as a conductor does.
pub(crate) async fn fed(house: &House, id: &str) {
    let (tenant, name) = (Tenant::default(), id.parse().unwrap());
    let doc = house.store.doc(Shelf::Campaign, tenant.clone(), id.to_owned()).await.unwrap().unwrap();
    let campaign = roster::read(&doc).unwrap();
    let all =
        Roster { tenant: tenant.clone(), campaign: id.parse().unwrap(), standing: None, after: 0, limit: 99 };
    let servings = house.store.recipients(all).await.unwrap().into_iter().map(|it| {
        let draft = campaign.draft(&setup(), (&tenant, &name), &it.to, it.payload.as_ref(), NOW).unwrap();
        (it.number, Serving::Message(Box::new(draft)))
    });
    let feed = Feed { tenant: tenant.clone(), campaign: id.parse().unwrap(), servings: servings.collect() };
    house.store.feed(feed).await.unwrap().unwrap();
}

/// A campaign of two that runs, with their messages.
async fn under_way() -> (House, String) {
    let house = furnished().await;
    let id = created(&house, &json!({})).await;
    listed(&house, &id, 2).await;
    done(&house, &id, "start", &json!({})).await;
    fed(&house, &id).await;
    (house, id)
}

/// The same, paused after the first of them failed.
async fn half_failed() -> (House, String) {
    let (house, id) = under_way().await;
    let first = claimed(&house).await;
    settled(&house, first, Next::Failed(FailureReason::PermanentError)).await;
    done(&house, &id, "pause", &json!({})).await;
    (house, id)
}

pub(crate) async fn claimed(house: &House) -> Claimed {
    claimed_by(house, Arc::default()).await
}

/// The same, where channels have rules.
pub(crate) async fn claimed_by(house: &House, rates: Arc<Rates>) -> Claimed {
    let ask = Ask { node: NodeId(1), lane: "default".parse().unwrap(), max: 1, rates };
    house.store.claim(ask).await.unwrap().remove(0)
}

pub(crate) async fn settled(house: &House, claimed: Claimed, next: Next) {
    let outcome = match &next {
        Next::Sent(_) => AttemptOutcome::Sent,
        _ => AttemptOutcome::Failed,
    };
    let attempt = Attempt {
        round: 0,
        number: 1,
        started_at: NOW,
        finished_at: NOW,
        outcome,
        failure: None,
        next_delay: None,
        explanation: "it went as it went".into(),
        policy: None,
    };
    let mut progress = claimed.progress;
    progress.attempts = 1;
    progress.steps += 1;
    let reported = matches!(&next, Next::Sent(_));
    let settlement = Settlement {
        key: claimed.key,
        attempt,
        next,
        progress,
        block: Default::default(),
        vitals: Default::default(),
        reported,
        chance: 0,
    };
    house.store.settle(vec![settlement]).await.unwrap();
}

#[tokio::test] // REQ BK-1
async fn a_draft_is_what_was_asked_for_and_the_usual_where_nothing_was() {
    let house = furnished().await;
    let reply = house.post("/v1/campaigns", &wish(&json!({}))).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{}", reply.text);
    let draft = reply.json();
    let id = draft["id"].as_str().unwrap();
    assert!(id.starts_with("cmp_") && id.len() == 36, "{id}");
    assert_eq!(reply.header("location"), Some(&*format!("/v1/campaigns/{id}")));
    for (field, value) in [
        ("state", json!("draft")),
        ("template_version", json!(1)),
        ("throttle_min_seconds", json!(15.0)),
        ("throttle_max_seconds", json!(25.0)),
        ("weight", json!(1)),
        ("max_failure_rate", json!(0.5)),
        ("lane", json!("default")),
        ("payload", json!({"clinic": "Luz"})),
        ("created_by", json!("admin (key_admin)")),
        ("started_at", Value::Null),
    ] {
        assert_eq!(draft[field], value, "{field}");
    }
    // What was previewed is what is sent: another version changes nothing.
    house.put_template("greeting", &json!({"subject": "Other", "text": "words"})).await;
    assert_eq!(shown(&house, id).await, draft);
    let window = json!({"hours": "08:00-20:00", "days": ["mon"], "time_zone": "UTC"});
    let own = json!({"throttle_min_seconds": 3, "throttle_max_seconds": 4.5, "lane": "bulk", "window": window,
        "max_failure_rate": null, "expires_after": "5h", "weight": 3});
    let own = shown(&house, &created(&house, &own).await).await;
    assert_eq!(own["template_version"], 2);
    assert_eq!((&own["throttle_max_seconds"], &own["lane"]), (&json!(4.5), &json!("bulk")));
    assert_eq!((&own["window"], &own["max_failure_rate"]), (&window, &Value::Null));
    assert_eq!((&own["expires_after"], &own["weight"]), (&json!("5h"), &json!(3)));
}

#[tokio::test] // REQ ML-3
async fn the_same_key_is_the_same_campaign_and_no_other() {
    let house = furnished().await;
    let post = async |body: &Value| house.post_once("operator", "/v1/campaigns", body, "june").await;
    let first = post(&wish(&json!({}))).await;
    let again = post(&wish(&json!({}))).await;
    assert_eq!((first.status, again.status), (StatusCode::CREATED, StatusCode::CREATED));
    assert_eq!(
        (first.header("idempotency-replayed"), again.header("idempotency-replayed")),
        (None, Some("true"))
    );
    assert_eq!(first.json(), again.json());
    assert_eq!(post(&wish(&json!({"name": "Another"}))).await.code(), "IDEMPOTENCY_CONFLICT");
    // The same campaign for another list is another request, too.
    assert_eq!(post(&wish(&json!({"list_digest": "9f86d0"}))).await.code(), "IDEMPOTENCY_CONFLICT");
    assert_eq!(house.get("/v1/campaigns").await.json()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test] // REQ BK-1
async fn everything_that_is_wrong_is_told_at_once_and_nothing_is_made() {
    let house = furnished().await;
    let wrong = json!({"channel": "mial", "template": "greting", "lane": "bluk", "throttle_min_seconds": 2,
        "window": {"hours": "20:00-08:00"}, "max_failure_rate": 1.5, "expires_after": "soon", "payload": [],
        "colour": "red", "weight": 0});
    let reply = house.post("/v1/campaigns", &wrong).await;
    let told = reply.json();
    let fields: Vec<_> =
        told["errors"].as_array().unwrap().iter().map(|it| it["field"].as_str().unwrap()).collect();
    for field in [
        "name",
        "channel",
        "template",
        "lane",
        "throttle_min_seconds",
        "window",
        "weight",
        "max_failure_rate",
        "expires_after",
        "payload",
        "colour",
    ] {
        assert!(fields.contains(&field), "{field}: {}", reply.text);
    }
    assert_eq!(house.get("/v1/campaigns").await.json()["items"], json!([]));
    let refused = async |changes: Value| house.post("/v1/campaigns", &wish(&changes)).await;
    let fast =
        refused(json!({"throttle_min_seconds": 2})).await.refused("INVALID_FIELD", "throttle_min_seconds");
    assert_eq!(fast["reason"], "must be at least 3: a line that sends faster is soon blocked");
    refused(json!({"throttle_max_seconds": 2})).await.refused("INVALID_FIELD", "throttle_max_seconds");
    let crossed = json!({"throttle_min_seconds": 20, "throttle_max_seconds": 10});
    refused(crossed).await.refused("INVALID_FIELD", "throttle_max_seconds");
    let unknown = refused(json!({"channel": "mial"})).await.refused("UNKNOWN_CHANNEL", "channel");
    assert_eq!(unknown["hint"], "there are `crm`, `mail`, `null`");
    refused(json!({"channel": "crm"})).await.refused("CONTENT_NOT_ACCEPTED", "channel");
    refused(json!({"channel": "theirs"})).await.refused("UNKNOWN_CHANNEL", "channel");
    house.put_template("chat", &json!({"whatsapp": "only"})).await;
    refused(json!({"template": "chat"})).await.refused("CONTENT_NOT_ACCEPTED", "template");
    let never = json!({"window": {"hours": "08:00-20:00", "days": []}});
    assert_eq!(refused(never).await.refused("INVALID_FIELD", "window")["reason"], "is never open");
    for rate in [json!(0), json!(-1), json!("0.5"), json!(1.01)] {
        refused(json!({"max_failure_rate": rate})).await.refused("INVALID_FIELD", "max_failure_rate");
    }
}

#[tokio::test] // REQ BK-7
async fn campaigns_are_listed_newest_first_by_state_and_only_those_of_the_keys_channels() {
    let house = House::with(setup(), Patience::default()).await;
    let bound = KeyDoc { channels: Some(vec!["null".parse().unwrap()]), ..key("bound", "operator") };
    house.add_key("default", &bound).await;
    house.put_template("greeting", &json!({"subject": "Hello", "text": "you"})).await;
    let mut ids = Vec::new();
    for n in 0..5 {
        house.clock.pass(Span::from_secs(1));
        ids.push(created(&house, &json!({"channel": if n == 2 { "null" } else { "mail" }})).await);
    }
    listed(&house, &ids[1], 1).await;
    done(&house, &ids[1], "start", &json!({})).await;
    let list = async |who: &str, query: &str| {
        let page = house.call_as(who, "GET", &format!("/v1/campaigns{query}"), "").await;
        assert_eq!(page.status, StatusCode::OK, "{who} {query}: {}", page.text);
        let page = page.json();
        let found = page["items"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned());
        (found.collect::<Vec<_>>(), page["next_cursor"].as_str().map(str::to_owned))
    };
    let newest: Vec<_> = ids.iter().rev().cloned().collect();
    let (first, next) = list("viewer", "?limit=3").await;
    assert_eq!(first, newest[..3]);
    let (rest, end) = list("viewer", &format!("?limit=3&cursor={}", next.unwrap())).await;
    assert_eq!((rest.as_slice(), end), (&newest[3..], None));
    assert_eq!(list("viewer", "?state=running").await, (vec![ids[1].clone()], None));
    assert_eq!(list("bound", "").await, (vec![ids[2].clone()], None));
    let other = house.call_as("bound", "GET", &format!("/v1/campaigns/{}", ids[0]), "").await;
    assert_eq!(other.code(), "NOT_FOUND");
    house.get("/v1/campaigns?state=begun").await.refused("INVALID_FIELD", "state");
}

#[tokio::test] // REQ BK-7
async fn it_goes_through_its_states_and_each_step_is_on_record() {
    let house = furnished().await;
    let id = created(&house, &json!({})).await;
    assert_eq!(act(&house, &id, "start", &json!({})).await.code(), "NO_RECIPIENTS");
    assert_eq!(
        act(&house, &id, "schedule", &json!({"at": "2030-01-01T08:00:00Z"})).await.code(),
        "NO_RECIPIENTS"
    );
    listed(&house, &id, 2).await;
    act(&house, &id, "schedule", &json!({"at": "2020-01-01T08:00:00Z"})).await.refused("TIME_IN_PAST", "at");
    act(&house, &id, "schedule", &json!({})).await.refused("INVALID_FIELD", "at");
    let waiting = done(&house, &id, "start", &json!({"at": "2030-01-01T08:00:00Z"})).await;
    assert_eq!(
        (&waiting["state"], &waiting["start_at"]),
        (&json!("scheduled"), &json!("2030-01-01T08:00:00.000Z"))
    );
    let running = done(&house, &id, "start", &json!({})).await;
    assert_eq!((&running["state"], &running["started_at"]), (&json!("running"), &json!(NOW)));
    let paused = done(&house, &id, "pause", &json!({"note": "lunch"})).await;
    assert_eq!(
        (&paused["state"], &paused["pause_reason"], &paused["pause_note"]),
        (&json!("paused"), &json!("operator"), &json!("lunch"))
    );
    assert_eq!(paused["next_send_at"], Value::Null);
    assert_eq!(done(&house, &id, "resume", &json!({})).await["state"], "running");
    let ended = done(&house, &id, "cancel", &json!({})).await;
    assert_eq!((&ended["state"], &ended["counts"]["cancelled"]), (&json!("cancelled"), &json!(2)));
    assert_eq!((&ended["finished_at"], &ended["eta"]), (&json!(NOW), &Value::Null));
    let told: Vec<Event> =
        house.store.audit(0, 500).await.unwrap().into_iter().map(|(_, it)| it.event).collect();
    let told: Vec<Event> = told.into_iter().filter(|it| *it as u8 >= Event::CampaignCreated as u8).collect();
    assert_eq!(
        told,
        [
            Event::CampaignCreated,
            Event::RecipientsListed,
            Event::CampaignScheduled,
            Event::CampaignStarted,
            Event::CampaignPaused,
            Event::CampaignResumed,
            Event::CampaignCancelled,
        ]
    );
}

#[tokio::test] // REQ BK-7
async fn what_makes_no_sense_in_a_state_is_refused_with_what_to_do_instead() {
    let house = furnished().await;
    let refused = async |id: &str, verbs: &[&str], state: &str| {
        for verb in verbs {
            let body = if *verb == "schedule" { json!({"at": "2030-01-01T08:00:00Z"}) } else { json!({}) };
            let reply = act(&house, id, verb, &body).await;
            assert_eq!(reply.status, StatusCode::CONFLICT, "{verb} of {state}: {}", reply.text);
            let told = reply.json();
            assert_eq!((&told["code"], &told["state"]), (&json!("CAMPAIGN_STATE"), &json!(state)), "{verb}");
            assert!(told["hint"].as_str().unwrap().len() > 10);
        }
    };
    let id = created(&house, &json!({})).await;
    refused(&id, &["pause", "resume", "retry"], "draft").await;
    listed(&house, &id, 1).await;
    done(&house, &id, "start", &json!({"at": "2030-01-01T08:00:00Z"})).await;
    refused(&id, &["resume", "retry"], "scheduled").await;
    let paused = done(&house, &id, "pause", &json!({})).await;
    assert_eq!(
        (&paused["state"], &paused["start_at"]),
        (&json!("paused"), &json!("2030-01-01T08:00:00.000Z"))
    );
    assert_eq!(done(&house, &id, "resume", &json!({})).await["state"], "scheduled");
    done(&house, &id, "start", &json!({})).await;
    refused(&id, &["start", "schedule", "resume", "retry"], "running").await;
    assert_eq!(house.call("DELETE", &format!("/v1/campaigns/{id}"), "").await.code(), "CAMPAIGN_STATE");
    done(&house, &id, "pause", &json!({})).await;
    refused(&id, &["start", "schedule", "pause"], "paused").await;
    done(&house, &id, "cancel", &json!({})).await;
    refused(&id, &["start", "schedule", "pause", "resume", "cancel", "retry"], "cancelled").await;
    let change = house.call("PATCH", &format!("/v1/campaigns/{id}"), json!({"name": "x"}).to_string()).await;
    assert_eq!(change.code(), "CAMPAIGN_STATE");
}

#[tokio::test] // REQ BK-3
async fn a_preview_says_whom_it_would_reach_with_what_and_until_when_and_changes_nothing() {
    let house = furnished().await;
    let id = created(&house, &json!({"payload": {}})).await;
    let empty = done(&house, &id, "preview", &json!({})).await;
    assert_eq!(empty["variables"]["missing"], json!(["clinic", "name"]));
    assert_eq!((&empty["eta"], &empty["first_send_at"]), (&Value::Null, &Value::Null));
    listed(&house, &id, 100).await;
    house.post("/v1/suppressions", &json!({"kind": "email", "recipient": "P7@EXAMPLE.com"})).await;
    let before = shown(&house, &id).await;
    let preview = done(&house, &id, "start", &json!({"dry_run": true})).await;
    assert_eq!(preview["variables"]["missing"], json!(["clinic"]));
    let why = preview["samples"][0]["error"].as_str().unwrap();
    assert!(why.contains("clinic"), "{why}");
    let change = json!({"payload": {"clinic": "Sol"}}).to_string();
    house.call("PATCH", &format!("/v1/campaigns/{id}"), change).await;
    let preview = done(&house, &id, "preview", &json!({})).await;
    assert_eq!(
        (&preview["recipients"], &preview["suppressed"], &preview["suppressed_checked"]),
        (&json!(100), &json!(1), &json!(100))
    );
    assert_eq!(
        preview["limits"],
        json!({"estimated_seconds": 2_200, "soft_seconds": 2_860, "hard_seconds": 3_160, "used_seconds": 0})
    );
    assert_eq!(
        preview["samples"][2],
        json!({"to": "p3@example.com", "content": {"subject": "Hello P3", "text": "Sol"}, "error": null})
    );
    assert_eq!(preview["samples"].as_array().unwrap().len(), 3);
    assert_eq!(
        preview["variables"],
        json!({"needed": ["clinic", "name"], "given": ["clinic", "name"], "missing": []})
    );
    assert_eq!(preview["first_send_at"], json!(NOW));
    assert_eq!(preview["eta"], json!(NOW + Span::from_secs(99 * 22 + 2)));
    let mut after = shown(&house, &id).await;
    after["payload"] = before["payload"].clone();
    assert_eq!(after, before);
}

#[tokio::test] // REQ BK-1
async fn a_change_leaves_the_rest_and_words_stay_once_it_has_begun() {
    let house = furnished().await;
    let id = created(&house, &json!({})).await;
    let path = format!("/v1/campaigns/{id}");
    let patch = async |change: Value| house.call("PATCH", &path, change.to_string()).await;
    house.put_template("greeting", &json!({"subject": "New", "text": "words"})).await;
    let changed = patch(json!({"template": "greeting", "throttle_min_seconds": 20})).await.json();
    assert_eq!((&changed["template_version"], &changed["throttle_max_seconds"]), (&json!(2), &json!(25.0)));
    patch(json!({"throttle_min_seconds": 30})).await.refused("INVALID_FIELD", "throttle_min_seconds");
    patch(json!({"throttle_min_seconds": 2.5})).await.refused("INVALID_FIELD", "throttle_min_seconds");
    patch(json!({"template": "gretting"})).await.refused("TEMPLATE_NOT_FOUND", "template");
    patch(json!({"channel": "null"})).await.refused("INVALID_FIELD", "channel");
    listed(&house, &id, 1).await;
    done(&house, &id, "start", &json!({})).await;
    let slower =
        patch(json!({"throttle_min_seconds": 30, "throttle_max_seconds": 60, "name": "Slow"})).await.json();
    assert_eq!((&slower["throttle_min_seconds"], &slower["name"]), (&json!(30.0), &json!("Slow")));
    assert_eq!(patch(json!({"payload": {}})).await.code(), "CAMPAIGN_STATE");
    assert_eq!(patch(json!({"template": "greeting"})).await.code(), "CAMPAIGN_STATE");
}

#[tokio::test] // REQ BK-4
async fn changes_that_meet_are_all_made() {
    let house = furnished().await;
    let id = created(&house, &json!({})).await;
    let path = format!("/v1/campaigns/{id}");
    let changes = (0..8).map(|n| {
        let change = match n {
            0 => json!({"name": "Together"}),
            n => json!({"throttle_max_seconds": 30 + n}),
        };
        house.call("PATCH", &path, change.to_string())
    });
    for reply in join_all(changes).await {
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    }
    assert_eq!(shown(&house, &id).await["name"], "Together");
    let doc = house.store.doc(Shelf::Campaign, Tenant::default(), id).await.unwrap().unwrap();
    assert_eq!(doc.version, 9);
}

#[tokio::test] // REQ BK-7
async fn what_it_has_sent_and_when_it_goes_on_can_be_seen() {
    let house = furnished().await;
    let id = created(&house, &json!({})).await;
    listed(&house, &id, 3).await;
    assert_eq!(done(&house, &id, "start", &json!({})).await["next_send_at"], json!(NOW));
    fed(&house, &id).await;
    let first = claimed(&house).await;
    let flying = shown(&house, &id).await;
    assert_eq!((&flying["in_flight"], &flying["next_send_at"]), (&json!(true), &Value::Null));
    let message = first.message.id.to_string();
    house.clock.pass(Span::from_secs(3));
    settled(&house, first, Next::Sent(Receipt::default())).await;
    let seen = shown(&house, &id).await;
    assert_eq!(
        seen["counts"],
        json!({"recipients": 3, "pending": 0, "queued": 2, "sent": 1, "failed": 0, "cancelled": 0, "suppressed": 0,
            "invalid": 0, "duplicates": 0})
    );
    // Three seconds for the send, and the shortest wait.
    assert_eq!(seen["next_send_at"], json!(NOW + Span::from_secs(18)));
    assert_eq!(seen["waiting"]["reason"], "pace");
    assert_eq!((&seen["limits"]["used_seconds"], &seen["rate_per_hour"]), (&json!(18), &Value::Null));
    assert_eq!(seen["eta"], json!(NOW + Span::from_secs(18 + 22 + 2)));
    house.clock.pass(Span::from_secs(15));
    assert_eq!(shown(&house, &id).await["rate_per_hour"], json!(200.0), "its wait is over");
    // Its messages go by its id.
    let of_it = house.get(&format!("/v1/messages?campaign={id}")).await.json();
    assert_eq!(of_it["items"].as_array().unwrap().len(), 3);
    let message = house.get(&format!("/v1/messages/{message}")).await.json();
    assert_eq!((&message["campaign"], &message["template_version"]), (&json!(id), &json!(1)));
}

#[tokio::test] // REQ BK-7
async fn a_cancel_waits_for_what_was_made_ahead_and_says_so_if_that_takes_long() {
    let house = furnished_with(Patience { cancel: Duration::from_millis(50), ..Patience::default() }).await;
    let id = created(&house, &json!({})).await;
    listed(&house, &id, 2).await;
    done(&house, &id, "start", &json!({})).await;
    fed(&house, &id).await;
    let slow = act(&house, &id, "cancel", &json!({})).await;
    assert_eq!(slow.status, StatusCode::ACCEPTED, "{}", slow.text);
    assert_eq!(slow.json()["pause_reason"], "cancelling");
    assert_eq!(act(&house, &id, "resume", &json!({})).await.code(), "CAMPAIGN_STATE");
    // Another one asks again, while somebody sees to it.
    let patient = furnished_with(Patience { cancel: Duration::from_secs(60), ..Patience::default() }).await;
    let id = created(&patient, &json!({})).await;
    listed(&patient, &id, 2).await;
    done(&patient, &id, "start", &json!({})).await;
    fed(&patient, &id).await;
    let conductor = async {
        let mut news = patient.store.watch();
        loop {
            let doc =
                patient.store.doc(Shelf::Campaign, Tenant::default(), id.clone()).await.unwrap().unwrap();
            let campaign = roster::read(&doc).unwrap();
            if campaign.state.name().as_str() == "paused" {
                let by = Actor::engine();
                let end = campaign::alter(&*patient.store, doc, (&by, NOW), |campaign| {
                    campaign.cancelled(&by, NOW);
                    Ok::<_, StoreError>(Some((Event::CampaignCancelled, Value::Null)))
                });
                end.await.unwrap().unwrap();
                return;
            }
            news.changed().await.unwrap();
        }
    };
    let nothing = json!({});
    let (ended, ()) = tokio::join!(act(&patient, &id, "cancel", &nothing), conductor);
    assert_eq!((ended.status, &ended.json()["state"]), (StatusCode::OK, &json!("cancelled")));
}

#[tokio::test] // REQ BK-4
async fn a_retry_goes_on_with_the_pending_and_gives_the_failed_a_new_round_if_asked_to() {
    let (house, id) = half_failed().await;
    let resumed = done(&house, &id, "retry", &json!({})).await;
    assert_eq!((&resumed["state"], &resumed["operation_id"]), (&json!("running"), &Value::Null));
    let both = act(&house, &id, "retry", &json!({"failed": true})).await;
    assert_eq!(both.status, StatusCode::ACCEPTED, "{}", both.text);
    let operation = both.json()["operation_id"].as_str().unwrap().to_owned();
    let operation = house.get(&format!("/v1/operations/{operation}")).await.json();
    assert_eq!(operation["filter"], json!({"campaign": id, "channel": "mail"}));
    assert_eq!((&operation["kind"], &operation["canary"]), (&json!("reprocess"), &json!(0)));
    house.clock.pass(Span::from_secs(60));
    let second = claimed(&house).await;
    settled(&house, second, Next::Sent(Receipt::default())).await;
    assert_eq!(shown(&house, &id).await["state"], "completed");
    assert_eq!(act(&house, &id, "retry", &json!({})).await.code(), "CAMPAIGN_STATE");
    assert_eq!(act(&house, &id, "retry", &json!({"failed": true})).await.status, StatusCode::ACCEPTED);
}

#[tokio::test] // REQ ML-3
async fn a_retry_under_a_key_is_done_once_and_a_key_of_another_request_changes_nothing() {
    let (house, id) = half_failed().await;
    let path = format!("/v1/campaigns/{id}/retry");
    let retry = async |body: Value, key: &str| house.post_once("operator", &path, &body, key).await;
    let letters = json!({"filter": {}});
    house.post_once("operator", "/v1/dead-letters/discard", &letters, "taken").await;
    for body in [json!({"failed": true}), json!({})] {
        assert_eq!(retry(body, "taken").await.code(), "IDEMPOTENCY_CONFLICT");
        assert_eq!(shown(&house, &id).await["state"], "paused");
    }
    let once = retry(json!({"failed": true}), "mine").await;
    assert_eq!((once.status, once.header("idempotency-replayed")), (StatusCode::ACCEPTED, None));
    assert_eq!(once.json()["state"], "running");
    done(&house, &id, "pause", &json!({})).await;
    let again = retry(json!({"failed": true}), "mine").await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (StatusCode::ACCEPTED, Some("true")));
    assert_eq!(again.json()["operation_id"], once.json()["operation_id"]);
    assert_eq!(again.json()["state"], "paused", "what somebody did since stays");
    assert_eq!(retry(json!({}), "mine").await.code(), "IDEMPOTENCY_CONFLICT");
    assert_eq!(shown(&house, &id).await["state"], "paused");
}

#[tokio::test] // REQ BK-7
async fn a_draft_can_be_removed_with_its_list() {
    let house = furnished().await;
    let first = house.post_once("operator", "/v1/campaigns", &wish(&json!({})), "june").await.json();
    let id = first["id"].as_str().unwrap();
    listed(&house, id, 5).await;
    let removed = house.call("DELETE", &format!("/v1/campaigns/{id}"), "").await;
    assert_eq!(removed.status, StatusCode::NO_CONTENT);
    assert_eq!(house.get(&format!("/v1/campaigns/{id}")).await.code(), "NOT_FOUND");
    assert_eq!(house.call("DELETE", &format!("/v1/campaigns/{id}"), "").await.code(), "NOT_FOUND");
    let all = Roster {
        tenant: Tenant::default(),
        campaign: id.parse().unwrap(),
        standing: None,
        after: 0,
        limit: 9,
    };
    assert_eq!(house.store.recipients(all).await.unwrap(), []);
    let anew = house.post_once("operator", "/v1/campaigns", &wish(&json!({})), "june").await;
    assert_eq!((anew.status, anew.header("idempotency-replayed")), (StatusCode::CREATED, None));
}

#[tokio::test] // REQ BK-7
async fn nobody_is_left_of_a_campaign_that_was_half_removed_when_it_is_made_anew() {
    let house = furnished().await;
    let make = async || house.post_once("operator", "/v1/campaigns", &wish(&json!({})), "june").await;
    let id = make().await.json()["id"].as_str().unwrap().to_owned();
    listed(&house, &id, 5).await;
    // Whoever removed it died before the list was gone.
    let (shelf, tenant) = (Shelf::Campaign, Tenant::default());
    let gone = Shelve { shelf, tenant, id: id.clone(), expect: Expect::Any, leaf: None, record: None };
    house.store.shelve(vec![gone]).await.unwrap();
    let anew = make().await;
    assert_eq!((anew.status, anew.header("idempotency-replayed")), (StatusCode::CREATED, None));
    assert_eq!(anew.json()["id"], id);
    listed(&house, &id, 2).await;
    let counts = shown(&house, &id).await["counts"].clone();
    assert_eq!((&counts["recipients"], &counts["duplicates"]), (&json!(2), &json!(0)));
    // A repeat takes nobody off it.
    assert_eq!(make().await.header("idempotency-replayed"), Some("true"));
    let all = Roster {
        tenant: Tenant::default(),
        campaign: id.parse().unwrap(),
        standing: None,
        after: 0,
        limit: 9,
    };
    assert_eq!(house.store.recipients(all).await.unwrap().len(), 2);
}

#[tokio::test] // REQ BK-7
async fn progress_is_told_on_the_stream_to_those_who_may_see_campaigns() {
    let house = furnished().await;
    let id = created(&house, &json!({})).await;
    listed(&house, &id, 1).await;
    let open = async |who: &str, query: &str| {
        let request = crate::house::request("GET", &format!("/v1/events{query}"))
            .header("authorization", format!("Bearer key-{who}"));
        use hyper::service::Service;
        let service = hyper_util::service::TowerToHyperService::new(house.router.clone());
        let response = service.call(request.body(axum::body::Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        response.into_body().into_data_stream()
    };
    let mut viewer = open("viewer", "?types=campaign.progress").await;
    let mut producer = open("producer", "?reference=none&types=campaign.*,message.*").await;
    done(&house, &id, "start", &json!({})).await;
    fed(&house, &id).await;
    let first = claimed(&house).await;
    settled(&house, first, Next::Sent(Receipt::default())).await;
    let mut said = String::new();
    let sent = loop {
        said.push_str(std::str::from_utf8(&viewer.next().await.unwrap().unwrap()).unwrap());
        let data = said.lines().rev().find_map(|line| line.strip_prefix("data: "));
        let view: Option<Value> = data.and_then(|data| serde_json::from_str(data).ok());
        if let Some(told) = view.filter(|told| told["data"]["state"] == "completed") {
            assert_eq!(told["type"], "campaign.progress");
            break told["data"].clone();
        }
    };
    assert_eq!((&sent["id"], &sent["counts"]["sent"]), (&json!(id), &json!(1)));
    for event in said.split("\n\n").filter(|event| event.contains("data: ")) {
        assert!(event.starts_with("event: campaign.progress\ndata: {"), "it has no id: {event}");
    }
    house.door.close();
    let mut theirs = String::new();
    while let Some(piece) = producer.next().await {
        theirs.push_str(std::str::from_utf8(&piece.unwrap()).unwrap());
    }
    assert!(!theirs.contains("campaign"), "{theirs}");
    let refused = house
        .post("/v1/webhooks", &json!({"url": "https://x.example/h", "events": ["campaign.progress"]}))
        .await;
    refused.refused("INVALID_FIELD", "events");
}

/// A house whose channel for mail minds the suppression list for every message.
async fn minding() -> House {
    let mut setup = setup();
    let mail = setup.channels.get_mut("mail").unwrap();
    let strict = ChannelSetup { suppressions: Suppressions::All, ..(**mail).clone() };
    *mail = strict.into();
    let house = House::with(setup, Patience::default()).await;
    let entry = json!({"kind": "email", "recipient": "ana@example.com", "reason": "opt_out"});
    assert_eq!(house.post("/v1/suppressions", &entry).await.status, StatusCode::CREATED);
    house.put_template("greeting", &json!({"subject": "Hello", "text": "you"})).await;
    house
}

fn mail(to: &str) -> Value {
    json!({"channel": "mail", "to": to, "content": {"subject": "s", "text": "t"}})
}

#[tokio::test] // REQ BK-8
async fn a_channel_that_minds_the_list_refuses_who_is_on_it_unless_the_message_says_otherwise() {
    let house = minding().await;
    let refused = house.post("/v1/messages", &mail("Ana@Example.com")).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    let told = refused.refused("RECIPIENT_SUPPRESSED", "to");
    assert!(told["reason"].as_str().unwrap().contains("opt_out"), "{told}");
    assert!(!refused.text.to_lowercase().contains("ana@"), "{}", refused.text);
    let must = |to: &str| {
        let mut mail = mail(to);
        mail["override_suppression"] = true.into();
        mail
    };
    assert_eq!(house.post("/v1/messages", &must("ana@example.com")).await.status, StatusCode::ACCEPTED);
    assert_eq!(house.post("/v1/messages", &mail("bia@example.com")).await.status, StatusCode::ACCEPTED);
    let odd = json!({"override_suppression": "yes"});
    house.post("/v1/messages", &message(&odd)).await.refused("INVALID_FIELD", "override_suppression");
    let list = json!([mail("ana@example.com"), must("ana@example.com"), mail("bia@example.com")]);
    let items = house.post("/v1/messages/batch", &list).await.json()["items"].clone();
    assert_eq!(items[0]["error"]["code"], "RECIPIENT_SUPPRESSED");
    assert_eq!((&items[1]["state"], &items[2]["state"]), (&json!("pending"), &json!("pending")));
    // Doors in the manner of others say it in theirs.
    let elsewhere = async |path: &str, body: Value| {
        let request = crate::house::request("POST", path)
            .header("authorization", "Bearer key-producer")
            .header("content-type", "application/json");
        house.send_elsewhere(request.body(body.to_string().into()).unwrap()).await
    };
    let body = json!({"from": "a@example.com", "to": "ana@example.com", "subject": "s", "text": "t"});
    let reply = elsewhere("/emails", body).await;
    assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(reply.json()["name"], "validation_error");
    let body =
        json!({"p_template_type": "greeting", "p_recipient_email": "ana@example.com", "p_user_id": "u"});
    let reply = elsewhere("/rest/v1/rpc/enqueue_email", body).await;
    assert_eq!((reply.status, &reply.json()["code"]), (StatusCode::BAD_REQUEST, &json!("P0001")));
    assert!(reply.text.contains("suppression list"), "{}", reply.text);
    assert_eq!(house.stored().await, 4);
}

#[tokio::test] // REQ ML-3, BK-8
async fn a_repeat_is_answered_as_before_though_the_recipient_was_suppressed_since() {
    let house = minding().await;
    let keyed = |to: &str| {
        let mut mail = mail(to);
        mail["idempotency_key"] = "order-1".into();
        mail
    };
    let first = house.post("/v1/messages", &keyed("bia@example.com")).await;
    assert_eq!(first.status, StatusCode::ACCEPTED);
    let entry = json!({"kind": "email", "recipient": "bia@example.com", "reason": "opt_out"});
    assert_eq!(house.post("/v1/suppressions", &entry).await.status, StatusCode::CREATED);
    let again = house.post("/v1/messages", &keyed("bia@example.com")).await;
    assert_eq!(again.status, StatusCode::ACCEPTED, "{}", again.text);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.json()["id"], first.json()["id"]);
    let list = house.post("/v1/messages/batch", &json!([keyed("bia@example.com")])).await.json();
    assert_eq!((&list["items"][0]["id"], &list["items"][0]["replayed"]), (&first.json()["id"], &json!(true)));
    // Another request is stopped, under that key or under none.
    house.post("/v1/messages", &keyed("ana@example.com")).await.refused("RECIPIENT_SUPPRESSED", "to");
    house.post("/v1/messages", &mail("bia@example.com")).await.refused("RECIPIENT_SUPPRESSED", "to");
    assert_eq!(house.stored().await, 1);
}

#[tokio::test] // REQ BK-8
async fn other_channels_write_to_whoever_they_are_told_to() {
    let house = furnished().await;
    house.post("/v1/suppressions", &json!({"kind": "email", "recipient": "ana@example.com"})).await;
    assert_eq!(house.post("/v1/messages", &mail("ana@example.com")).await.status, StatusCode::ACCEPTED);
}
