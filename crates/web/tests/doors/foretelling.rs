//! What is told of a campaign's future: when it ends, what it waits for, and that it never could send.

use std::sync::Arc;

use http::StatusCode;
use pombo_kernel::backoff::Wait;
use pombo_kernel::block::Block;
use pombo_kernel::campaign::line::LineRules;
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::Actor;
use pombo_kernel::reply::Receipt;
use pombo_kernel::setup::{ChannelSetup, Setup};
use pombo_kernel::time::{Span, Time};
use pombo_store::{Place, Rates, Store};
use pombo_web::Patience;
use serde_json::{Value, json};

use crate::campaigns::{act, claimed_by, created, done, fed, listed, settled, shown, wish};
use crate::house::{House, NOW, setup};

/// A house whose channel for mail has rules for campaigns. It is 08:00 in UTC.
async fn ruled(rules: LineRules) -> House {
    let house = House::with(with_rules(rules), Patience::default()).await;
    house.put_template("greeting", &json!({"subject": "Hello {{ name }}", "text": "{{ clinic }}"})).await;
    house
}

fn with_rules(rules: LineRules) -> Setup {
    let mut setup = setup();
    let mail = setup.channels.get_mut("mail").unwrap();
    *mail =
        ChannelSetup { line: LineRules { time_zone: "UTC".parse().unwrap(), ..rules }, ..(**mail).clone() }
            .into();
    setup
}

fn hours(hours: &str) -> LineRules {
    let window = serde_json::from_value(json!({"hours": hours, "time_zone": "UTC"})).unwrap();
    LineRules { window: Some(window), ..LineRules::default() }
}

/// A campaign of so many that runs, with their messages.
async fn running(house: &House, people: u64, changes: &Value) -> String {
    let id = created(house, changes).await;
    listed(house, &id, people).await;
    done(house, &id, "start", &json!({})).await;
    fed(house, &id).await;
    id
}

async fn sent(house: &House, rules: &LineRules) {
    let lines = [("mail".parse().unwrap(), rules.clone())].into_iter().collect();
    let claimed = claimed_by(house, Arc::new(Rates { lines, ..Rates::default() })).await;
    settled(house, claimed, Next::Sent(Receipt::default())).await;
}

fn reason(seen: &Value) -> (&str, &str) {
    (
        seen["waiting"]["reason"].as_str().unwrap_or_default(),
        seen["waiting"]["words"].as_str().unwrap_or_default(),
    )
}

#[tokio::test] // REQ BK-6, BK-7
async fn hours_that_never_meet_are_refused_wherever_they_are_said() {
    let house = ruled(hours("20:00-22:00")).await;
    let window = json!({"window": {"hours": "09:00-18:00", "time_zone": "UTC"}});
    let refused = house.post("/v1/campaigns", &wish(&window)).await.refused("INVALID_FIELD", "window");
    let why = "its sending hours 09:00-18:00 UTC and those of its channel, 20:00-22:00 UTC, have no moment in common \
               within a year";
    assert_eq!(refused["reason"], why);
    assert!(refused["hint"].as_str().unwrap().contains("both are open"), "{refused}");
    assert_eq!(house.get("/v1/campaigns").await.json()["items"], json!([]));
    let id = created(&house, &json!({})).await;
    let path = format!("/v1/campaigns/{id}");
    house.call("PATCH", &path, window.to_string()).await.refused("INVALID_FIELD", "window");
    assert_eq!(shown(&house, &id).await["window"], Value::Null);
    let far = json!({"window": {"hours": "20:00-21:00", "days": [], "time_zone": "UTC"}});
    house.call("PATCH", &path, far.to_string()).await.refused("INVALID_FIELD", "window");
}

#[tokio::test] // REQ BK-6, BK-7
async fn a_configuration_by_which_one_can_never_send_is_told() {
    let house = ruled(hours("08:00-12:00")).await;
    let window = json!({"window": {"hours": "09:00-18:00", "time_zone": "UTC"}});
    let (draft, paused) = (created(&house, &window).await, created(&house, &window).await);
    listed(&house, &draft, 2).await;
    listed(&house, &paused, 2).await;
    done(&house, &paused, "start", &json!({})).await;
    house.setup.send_replace(Arc::new(with_rules(hours("20:00-22:00"))));
    let running = shown(&house, &paused).await;
    assert_eq!(
        (reason(&running).0, &running["next_send_at"], &running["eta"]),
        ("never", &Value::Null, &Value::Null)
    );
    done(&house, &paused, "pause", &json!({})).await;
    for (id, verb, body) in [
        (&draft, "start", json!({})),
        (&draft, "schedule", json!({"at": "2030-01-01T08:00:00Z"})),
        (&paused, "resume", json!({})),
        (&paused, "retry", json!({})),
    ] {
        act(&house, id, verb, &body).await.refused("INVALID_FIELD", "window");
        assert_eq!(reason(&shown(&house, id).await).0, "never", "{verb}");
    }
    for body in [json!({"dry_run": true}), json!({"dry_run": true, "at": "2030-01-01T08:00:00Z"})] {
        let preview = done(&house, &draft, "start", &body).await;
        assert_eq!((reason(&preview).0, &preview["first_send_at"]), ("never", &Value::Null), "{body}");
    }
}

#[tokio::test] // REQ BK-7
async fn what_it_waits_for_is_told_with_its_time_zone() {
    let rules = LineRules { daily_cap: Some(2), gap: Some(Span::from_secs(60)), ..LineRules::default() };
    let house = ruled(rules.clone()).await;
    let rules = LineRules { time_zone: "UTC".parse().unwrap(), ..rules };
    let id = running(&house, 4, &json!({})).await;
    assert_eq!(shown(&house, &id).await["waiting"], Value::Null);
    sent(&house, &rules).await;
    let seen = shown(&house, &id).await;
    assert_eq!(seen["waiting"]["until"], json!(NOW + Span::from_secs(60)));
    assert_eq!(reason(&seen), ("line_gap", "the channel's gap of 1m after each send"));
    house.clock.pass(Span::from_secs(60));
    sent(&house, &rules).await;
    let seen = shown(&house, &id).await;
    let words = "the channel's 2 sends of a day are used up; goes on tomorrow 00:00 UTC";
    assert_eq!(reason(&seen), ("daily_cap", words));
    // Two more, a minute and two seconds from one to the next.
    let midnight: Time = "2027-01-16T00:00:00Z".parse().unwrap();
    assert_eq!(seen["next_send_at"], json!(midnight));
    assert_eq!(seen["eta"], json!(midnight + Span::from_secs(62 + 2)));
    done(&house, &id, "pause", &json!({})).await;
    let seen = shown(&house, &id).await;
    assert_eq!((&seen["eta"], &seen["waiting"]), (&Value::Null, &Value::Null));
    let window = json!({"hours": "12:00-18:00", "time_zone": "America/Sao_Paulo"});
    let night = running(&house, 1, &json!({"window": window, "channel": "null"})).await;
    let seen = shown(&house, &night).await;
    let words = "sending hours 12:00-18:00 America/Sao_Paulo; opens today 12:00";
    assert_eq!(reason(&seen), ("window", words));
    assert_eq!(seen["waiting"]["until"], "2027-01-15T15:00:00.000Z");
}

#[tokio::test] // REQ CF-7, BK-7
async fn a_channel_that_takes_nothing_is_told_and_so_is_a_store_that_sends_nothing() {
    let house = ruled(LineRules::default()).await;
    let id = running(&house, 2, &json!({})).await;
    let place = Place { channel: "mail".parse().unwrap(), destination: None };
    let by = Actor("test".into());
    house.store.block(place.clone(), Block::operator("new password".into(), NOW), by.clone()).await.unwrap();
    let seen = shown(&house, &id).await;
    assert_eq!(
        reason(&seen),
        ("channel_held", "the channel is held: new password; until somebody releases it")
    );
    assert_eq!((&seen["eta"], &seen["next_send_at"]), (&Value::Null, &Value::Null));
    house.store.unblock(place, by.clone()).await.unwrap();
    house.store.pause("moving".into(), by.clone()).await.unwrap();
    assert_eq!(reason(&shown(&house, &id).await).0, "all_paused");
    house.store.resume(by).await.unwrap();
    assert_eq!(shown(&house, &id).await["waiting"], Value::Null);
}

#[tokio::test] // REQ BK-7
async fn the_last_ones_next_try_is_its_end() {
    let house = ruled(LineRules::default()).await;
    let id = running(&house, 1, &json!({})).await;
    let first = claimed_by(&house, Arc::default()).await;
    let delay = Span::from_hours(2);
    let (due, wait) = (NOW + delay, Wait { delay, nominal: delay, swing: 0.0, hinted: false });
    settled(&house, first, Next::Retry { due, wait }).await;
    let seen = shown(&house, &id).await;
    assert_eq!(seen["eta"], json!(due + Span::from_secs(2)));
    assert_eq!(seen["next_send_at"], json!(due));
    let words = "whoever is left waits for another try; the next is due today 10:00 UTC";
    assert_eq!(reason(&seen), ("retry", words));
}

#[tokio::test] // REQ BK-6, BK-7
async fn campaigns_of_one_line_are_foretold_together() {
    let house = ruled(LineRules { gap: Some(Span::from_secs(58)), ..LineRules::default() }).await;
    let first = running(&house, 10, &json!({})).await;
    assert_eq!(shown(&house, &first).await["eta"], json!(NOW + Span::from_secs(9 * 60 + 2)));
    let draft = created(&house, &json!({})).await;
    listed(&house, &draft, 10).await;
    let both = json!(NOW + Span::from_secs(18 * 60 + 2));
    assert_eq!(done(&house, &draft, "preview", &json!({})).await["eta"], both, "the first runs already");
    done(&house, &draft, "start", &json!({})).await;
    assert_eq!(shown(&house, &first).await["eta"], both);
    let page = house.get("/v1/campaigns").await.json();
    assert_eq!(page["items"][1]["eta"], both);
    done(&house, &draft, "cancel", &json!({})).await;
    assert_eq!(shown(&house, &first).await["eta"], json!(NOW + Span::from_secs(9 * 60 + 2)));
}

#[tokio::test] // REQ BK-7, BK-8
async fn a_preview_finds_whoever_is_suppressed_on_a_short_list_and_on_a_long_one() {
    let house = ruled(LineRules::default()).await;
    let id = running(&house, 4, &json!({})).await;
    let entry = |who: String| json!({"kind": "email", "recipient": who, "reason": "opt_out"});
    for (others, whom) in [(0..998, "p3@example.com"), (998..2_500, "P1@example.com")] {
        let lines: Vec<Value> =
            others.map(|n| entry(format!("other{n}@example.com"))).chain([entry(whom.to_owned())]).collect();
        let import = house.post("/v1/suppressions/import", &json!(lines)).await;
        assert_eq!(import.status, StatusCode::OK, "{}", import.text);
        let preview = done(&house, &id, "preview", &json!({})).await;
        let suppressed = if whom.starts_with('P') { 2 } else { 1 };
        assert_eq!((&preview["suppressed"], &preview["suppressed_checked"]), (&json!(suppressed), &json!(4)));
    }
}

#[tokio::test] // REQ BK-7, BK-8
async fn a_preview_of_one_that_runs_looks_at_those_who_have_a_message_already() {
    let house = ruled(LineRules::default()).await;
    let id = running(&house, 4, &json!({})).await;
    let lines = json!([{"kind": "email", "recipient": "p3@example.com", "reason": "opt_out"}]);
    let import = house.post("/v1/suppressions/import", &lines).await;
    assert_eq!(import.status, StatusCode::OK, "{}", import.text);
    let preview = done(&house, &id, "preview", &json!({})).await;
    assert_eq!(preview["variables"]["missing"], json!([]));
    assert_eq!(preview["samples"].as_array().unwrap().len(), 3);
    assert_eq!((&preview["suppressed"], &preview["suppressed_checked"]), (&json!(1), &json!(4)));
    // Those who are through are still good for samples.
    let small = running(&house, 1, &json!({"lane": "default"})).await;
    house.clock.pass(Span::from_hours(1));
    done(&house, &id, "pause", &json!({})).await;
    let one = claimed_by(&house, Arc::default()).await;
    settled(&house, one, Next::Sent(Receipt::default())).await;
    assert_eq!(shown(&house, &small).await["state"], "completed");
    let preview = done(&house, &small, "preview", &json!({})).await;
    assert_eq!((&preview["variables"]["missing"], &preview["suppressed_checked"]), (&json!([]), &json!(0)));
    assert_eq!(preview["samples"][0]["content"]["subject"], "Hello P1");
}
