//! What was counted, in ranges, without an engine: attempts end by hand here.

use std::sync::Arc;

use pombo_kernel::backoff::Wait;
use pombo_kernel::classify::Verdict;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{
    Attempt, AttemptFailure, Body, Draft, FailureReason, Priority, Progress, QueueName,
};
use pombo_kernel::name::{LaneName, Tenant};
use pombo_kernel::reply::Receipt;
use pombo_kernel::setup::{ChannelSetup, Destination};
use pombo_kernel::time::{Clock as _, Span};
use pombo_store::{Ask, NodeId, Settlement, Store};
use pombo_web::Patience;
use pombo_web::key::KeyDoc;
use serde_json::{Value, json};

use crate::house::{House, NOW, key, setup};

const HOUR: Span = Span::from_hours(1);

enum End {
    Sent,
    Retry,
    Failed(FailureReason),
}

/// Claims whatever is due and ends each attempt so, a second later.
async fn settle(house: &House, end: &End) -> usize {
    let ask = Ask { node: NodeId(1), lane: "default".parse().unwrap(), max: 1_000, rates: Arc::default() };
    let claimed = house.store.claim(ask).await.unwrap();
    let started_at = house.clock.now();
    house.clock.pass(Span::from_secs(1));
    let finished_at = house.clock.now();
    let wait = Wait { delay: Span::ZERO, nominal: Span::ZERO, swing: 0.0, hinted: false };
    let (next, category) = match end {
        End::Sent => (Next::Sent(Receipt::default()), None),
        End::Retry => (Next::Retry { due: finished_at, wait }, Some("busy")),
        End::Failed(reason) => (Next::Failed(*reason), Some("rejected")),
    };
    let failure = category.map(|category| AttemptFailure {
        verdict: Verdict::Transient,
        category: category.into(),
        code: None,
        text: "no".into(),
        perhaps_sent: false,
        rule: None,
    });
    let settlement = |claimed: &pombo_store::Claimed| Settlement {
        key: claimed.key,
        attempt: Attempt {
            round: claimed.progress.round,
            number: claimed.progress.attempts + 1,
            started_at,
            finished_at,
            outcome: next.outcome(),
            failure: failure.clone(),
            next_delay: None,
            explanation: "because".into(),
            policy: None,
        },
        next: next.clone(),
        progress: Progress {
            attempts: claimed.progress.attempts + 1,
            steps: claimed.progress.steps + 1,
            ..claimed.progress
        },
        block: Default::default(),
        vitals: Default::default(),
        reported: false,
        chance: 0,
    };
    house.store.settle(claimed.iter().map(settlement).collect()).await.unwrap();
    claimed.len()
}

/// So many messages that end so.
async fn many(house: &House, count: usize, changes: &Value, end: &End) {
    for _ in 0..count {
        house.created(changes).await;
    }
    assert_eq!(settle(house, end).await, count);
}

/// So many claims that end so.
async fn claims(house: &House, count: usize, end: &End) {
    let draft = Draft {
        id: None,
        queue: QueueName {
            tenant: Tenant::default(),
            lane: LaneName::default(),
            channel: "tiss".parse().unwrap(),
            destination: "tiss".into(),
            campaign: None,
        },
        priority: Priority::default(),
        send_at: None,
        expires_at: None,
        ordering_key: None,
        idempotency: None,
        blobs: Vec::new(),
        body: Body { to: "operator".into(), ..Body::default() },
    };
    house.store.accept(vec![draft; count]).await.unwrap();
    assert_eq!(settle(house, end).await, count);
}

/// A house with a channel for claims beside the others.
async fn house() -> House {
    let mut setup = setup();
    let crm = &setup.channels["crm"];
    let tiss = ChannelSetup {
        name: "tiss".parse().unwrap(),
        kind: ChannelKind::Tiss,
        destination: Destination::Fixed("tiss".into()),
        ..(**crm).clone()
    };
    setup.channels.insert(tiss.name.clone(), Arc::new(tiss));
    House::with(setup, Patience::default()).await
}

fn kpi(stats: &Value, id: &str) -> Value {
    let found = stats["kpis"].as_array().unwrap().iter().find(|kpi| kpi["id"] == id);
    found.unwrap_or_else(|| panic!("{id}: {stats}")).clone()
}

#[tokio::test] // REQ OB-3
async fn a_range_tells_what_happened_step_by_step() {
    let house = house().await;
    many(&house, 3, &json!({}), &End::Sent).await;
    house.clock.pass(Span::from_hours(2));
    many(&house, 1, &json!({}), &End::Failed(FailureReason::PermanentError)).await;
    house.created(&json!({})).await;
    let stats = house.get("/v1/stats?since=3h").await.json();
    assert_eq!((&stats["step"], &stats["time_zone"]), (&json!("hour"), &json!("America/Sao_Paulo")));
    let series = stats["series"].as_array().unwrap();
    let shown: Vec<_> = series.iter().map(|it| json!([it["accepted"], it["sent"], it["failed"]])).collect();
    assert_eq!(json!(shown), json!([[0, 0, 0], [3, 3, 0], [0, 0, 0], [2, 0, 1]]));
    assert_eq!((&series[1]["delivery_rate"], &series[1]["mean_seconds"]), (&json!(1.0), &json!(1.0)));
    assert_eq!((&series[2]["delivery_rate"], &series[3]["delivery_rate"]), (&Value::Null, &json!(0.0)));
    let (total, crm) = (&stats["total"], &stats["channels"]["crm"]);
    assert_eq!((&total["accepted"], &total["waiting"], total), (&json!(5), &json!(1), crm));
    assert_eq!(stats["failures"], json!({"permanent_error": 1}));
    assert_eq!(stats["errors"], json!([{"category": "rejected", "count": 1, "share": 1.0}]));
    // What lies before the range is not in it, and of all time everything is.
    let last = house.get("/v1/stats?since=1h&step=hour").await.json();
    assert_eq!((&last["total"]["sent"], &last["total"]["failed"]), (&json!(0), &json!(1)));
    let ever = house.get("/v1/stats").await.json();
    assert_eq!((&ever["total"]["sent"], ever.get("series"), ever.get("kpis")), (&json!(3), None, None));
    let backlog = &ever["backlog"][0];
    assert_eq!(
        (&backlog["lane"], &backlog["waiting"], &backlog["past_due"]),
        (&json!("default"), &json!(1), &json!(1))
    );
}

#[tokio::test] // REQ OB-3
async fn figures_are_judged_against_their_targets_by_family_and_period() {
    let house = house().await;
    claims(&house, 2, &End::Failed(FailureReason::MaxRetriesExceeded)).await;
    house.clock.pass(Span::from_hours(48));
    many(&house, 1, &json!({}), &End::Failed(FailureReason::PermanentError)).await;
    many(&house, 8, &json!({}), &End::Sent).await;
    many(&house, 1, &json!({}), &End::Retry).await;
    assert_eq!(settle(&house, &End::Sent).await, 1);
    claims(&house, 6, &End::Sent).await;
    let stats = house.get("/v1/stats?since=1h").await.json();
    let judged = |id| {
        let kpi = kpi(&stats, id);
        (kpi["value"].clone(), kpi["met"].clone(), kpi["value_in_range"].clone())
    };
    assert_eq!(judged("final_delivery"), (json!(0.9), json!(false), json!(0.9)));
    assert_eq!(judged("definitive_failures"), (json!(0.1), json!(false), json!(0.1)));
    assert_eq!(judged("recovery"), (json!(0.5), json!(false), json!(0.5)));
    assert_eq!(judged("mean_time_to_delivery").1, json!(true));
    // Those who ran out of retries two days ago count for the week, not for the range.
    assert_eq!(judged("exhausted_retries"), (json!(0.25), json!(false), json!(0.0)));
    assert_eq!(judged("permanent_errors"), (json!(0.0), json!(true), json!(0.0)));
    assert_eq!(judged("retry_success"), (Value::Null, Value::Null, Value::Null), "no claim had a retry");
    let target = kpi(&stats, "exhausted_retries");
    assert_eq!(
        (&target["period"], &target["comparison"], &target["target"]),
        (&json!("week"), &json!("<"), &json!(0.05))
    );
    assert_eq!((&target["family"], &target["unit"]), (&json!("claims"), &json!("share")));
}

#[tokio::test] // REQ OB-3
async fn attempts_are_told_by_number_and_recovery_with_them() {
    let house = house().await;
    many(&house, 4, &json!({}), &End::Retry).await;
    house.clock.pass(Span::from_secs(59));
    assert_eq!(settle(&house, &End::Sent).await, 4);
    many(&house, 6, &json!({}), &End::Sent).await;
    let stats = house.get("/v1/stats?since=24h").await.json();
    let expected = json!([
        {"number": "1", "made": 10, "sent": 6, "rate": 0.6, "mean_wait_seconds": null},
        {"number": "2", "made": 4, "sent": 4, "rate": 1.0, "mean_wait_seconds": 59.0},
    ]);
    assert_eq!(stats["attempts"], expected);
    let recovery =
        json!({"retried": 4, "sent_after_retry": 4, "failed": 0, "rate": 1.0, "retry_success_rate": 1.0});
    assert_eq!(stats["recovery"], recovery);
    let took = &stats["time_to_delivery"];
    assert_eq!((&took["sent"], &took["mean_seconds"]), (&json!(10), &json!(25.0)));
    assert_eq!(
        (&took["p50_seconds"], &took["within"][0]),
        (&json!(0.833), &json!({"up_to": "1s", "count": 6}))
    );
}

#[tokio::test] // REQ OB-3
async fn a_channel_or_a_template_can_be_looked_at_alone() {
    let house = house().await;
    house.put_template("bill", &json!({"subject": "Bill", "text": "pay"})).await;
    let bill =
        json!({"channel": "mail", "to": "a@example.com", "content": null, "template": "bill", "payload": {}});
    many(&house, 2, &bill, &End::Sent).await;
    many(&house, 1, &bill, &End::Failed(FailureReason::PermanentError)).await;
    many(&house, 5, &json!({}), &End::Sent).await;
    many(&house, 3, &json!({"channel": "null", "to": "x", "content": {}}), &End::Sent).await;
    let stats = house.get("/v1/stats?since=7d&channel=null").await.json();
    assert_eq!((&stats["total"]["sent"], stats["channels"].as_object().unwrap().len()), (&json!(3), 1));
    assert_eq!(stats["templates"], json!([]));
    let stats = house.get("/v1/stats?template=bill").await.json();
    assert_eq!((&stats["total"]["sent"], &stats["total"]["failed"]), (&json!(2), &json!(1)));
    let rate = stats["templates"][0]["failure_rate"].as_f64().unwrap();
    assert!((rate - 1.0 / 3.0).abs() < 1e-9, "{rate}");
    assert_eq!(kpi(&stats, "mean_time_to_delivery")["value"], Value::Null, "it is not counted by template");
    assert_eq!(
        stats["series"].as_array().unwrap().iter().map(|it| it["sent"].as_u64().unwrap()).sum::<u64>(),
        2
    );
}

#[tokio::test] // invariant 14, REQ SE-1
async fn nobody_is_told_of_what_is_not_theirs() {
    let house = house().await;
    many(&house, 2, &json!({}), &End::Sent).await;
    many(&house, 1, &json!({"channel": "null", "to": "x", "content": {}}), &End::Sent).await;
    let foreign = house.call_as("foreign", "GET", "/v1/stats?since=7d", "").await.json();
    assert_eq!((&foreign["channels"], &foreign["total"]["sent"]), (&json!({}), &json!(0)));
    let narrow = KeyDoc { channels: Some(vec!["null".parse().unwrap()]), ..key("narrow", "viewer") };
    house.add_key("default", &narrow).await;
    let seen = house.call_as("narrow", "GET", "/v1/stats?since=7d", "").await.json();
    assert_eq!((&seen["total"]["sent"], seen["channels"].get("crm")), (&json!(1), None));
    assert_eq!(kpi(&seen, "final_delivery")["value_in_range"], json!(1.0));
    assert_eq!(house.call_as("producer", "GET", "/v1/stats?since=7d", "").await.code(), "FORBIDDEN");
}

#[tokio::test] // REQ OB-3
async fn decisions_about_claims_of_others_are_counted_with_the_claims() {
    let house = house().await;
    for (claim, error) in [("CLM-1-1", "TIMEOUT"), ("CLM-1-2", "TIMEOUT"), ("CLM-1-3", "INVALID_XML")] {
        let asked = json!({"claimId": claim, "submissionError": error, "retryCount": 0});
        assert!(house.post("/v1/retry-decisions", &asked).await.status.is_success());
    }
    let stats = house.get("/v1/stats?since=24h").await.json();
    let made =
        stats["decisions"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum::<u64>();
    assert_eq!(made, 3, "{}", stats["decisions"]);
    let permanent = kpi(&stats, "permanent_errors")["value"].as_f64().unwrap();
    let counted = stats["decisions"]["permanent_error"].as_f64().unwrap();
    assert!((permanent - counted / 3.0).abs() < 1e-9, "{stats}");
}

#[tokio::test] // REQ OB-3
async fn a_campaign_tells_its_own_counts() {
    let house = house().await;
    house.put_template("greeting", &json!({"subject": "Hello", "text": "you"})).await;
    let id = crate::campaigns::created(&house, &json!({})).await;
    let stats = house.get(&format!("/v1/stats?campaign={id}")).await.json();
    let campaign = &stats["campaign"];
    assert_eq!(
        (campaign["id"].as_str(), &campaign["state"], &campaign["sent"]),
        (Some(&*id), &json!("draft"), &json!(0))
    );
    assert_eq!(campaign["delivery_rate"], Value::Null);
    assert_eq!(house.get("/v1/stats?campaign=cmp_none").await.code(), "NOT_FOUND");
}

#[tokio::test] // REQ IN-1
async fn days_begin_where_people_live() {
    let house = house().await;
    many(&house, 1, &json!({}), &End::Sent).await;
    let starts = async |path: &str| -> Vec<String> {
        let stats = house.get(path).await.json();
        stats["series"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["start"].as_str().unwrap().to_owned())
            .collect()
    };
    // 2027-01-15 is a Friday.
    assert_eq!(NOW.to_string(), "2027-01-15T08:00:00.000Z");
    assert_eq!(
        starts("/v1/stats?since=24h&step=day").await,
        ["2027-01-14T03:00:00.000Z", "2027-01-15T03:00:00.000Z"]
    );
    assert_eq!(starts("/v1/stats?since=1h&step=day&time_zone=UTC").await, ["2027-01-15T00:00:00.000Z"]);
    assert_eq!(
        starts("/v1/stats?since=7d&step=week").await,
        ["2027-01-04T03:00:00.000Z", "2027-01-11T03:00:00.000Z"]
    );
    let week = house.get("/v1/stats?since=7d&step=week").await.json();
    assert_eq!(week["series"][1]["sent"], json!(1));
}

#[tokio::test]
async fn a_range_that_cannot_be_is_refused() {
    let house = house().await;
    for (query, field) in [
        ("since=yesterday", "since"),
        ("since=93d", "since"),
        ("since=32d&step=hour", "since"),
        ("since=1h&until=2h", "since"),
        ("until=never", "until"),
        ("step=year", "step"),
        ("since=1h&time_zone=Mars/Olympus", "time_zone"),
        ("channel=No", "channel"),
        ("sinse=1h", "sinse"),
    ] {
        house.get(&format!("/v1/stats?{query}")).await.refused("INVALID_FIELD", field);
    }
    let since = (NOW - HOUR).to_string();
    let written = house.get(&format!("/v1/stats?since={since}&until={NOW}")).await;
    assert!(written.status.is_success(), "{}", written.text);
    for longest in ["since=92d", "since=31d&step=hour"] {
        assert!(house.get(&format!("/v1/stats?{longest}")).await.status.is_success(), "{longest}");
    }
}
