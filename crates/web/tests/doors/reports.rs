//! Reports at the door: listed, shown, and sent by hand.

use std::sync::Arc;

use http::StatusCode;
use pombo_kernel::alert::{Language, Plan, Severity};
use pombo_kernel::name::NoticeName;
use pombo_kernel::notice::Target;
use pombo_kernel::report::{Every, Report, Schedule};
use pombo_kernel::setup::Setup;
use pombo_kernel::time::Span;
use pombo_store::Store;
use pombo_store::audit::Event;
use pombo_store::shelf::{Pick, Shelf, Wanted};
use pombo_web::{Patience, notice};
use serde_json::{Value, json};

use crate::dead::dead;
use crate::house::{House, NOW, setup};

/// A house with a daily report, a weekly one, and one of another tenant.
async fn house() -> House {
    let report = |name: &str, every, tenant: &str| Report {
        name: name.parse().unwrap(),
        tenant: tenant.parse().unwrap(),
        schedule: Schedule {
            every,
            day: "fri".parse().unwrap(),
            at: "08:00".parse().unwrap(),
            zone: "UTC".parse().unwrap(),
        },
        notify: vec!["ops".parse().unwrap()],
        language: None,
    };
    let reports = [
        report("daily", Every::Day, "default"),
        report("weekly", Every::Week, "default"),
        report("theirs", Every::Day, "other"),
    ];
    let name: NoticeName = "ops".parse().unwrap();
    let target = Target {
        name: name.clone(),
        channel: "crm".parse().unwrap(),
        to: "https://ops.example/".to_owned(),
        min_severity: Severity::Info,
        fallback: None,
        patience: Span::from_mins(2),
        language: Language::PtBr,
    };
    let plan = Plan {
        targets: [(name, target)].into(),
        reports: reports.map(|it| (it.name.clone(), it)).into(),
        ..Plan::default()
    };
    House::with(Setup { alerts: Arc::new(plan), ..setup() }, Patience::default()).await
}

#[tokio::test] // REQ OB-6
async fn reports_are_listed_with_when_they_come_next() {
    let house = house().await;
    let page = house.call_as("viewer", "GET", "/v1/reports", "").await.json();
    let of = |field: &str| {
        page["items"].as_array().unwrap().iter().map(|it| it[field].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("name"), ["daily", "weekly"]);
    assert_eq!(of("day"), [Value::Null, json!("fri")]);
    assert_eq!(of("last_sent_at"), [Value::Null, Value::Null]);
    assert!(of("next_at").iter().all(|it| it.as_str().unwrap() > NOW.to_string().as_str()), "{page}");
    let theirs = house.call_as("foreign", "GET", "/v1/reports", "").await.json();
    assert_eq!(theirs["items"][0]["name"], "theirs");
    assert_eq!(house.call_as("foreign", "GET", "/v1/reports/daily", "").await.code(), "NOT_FOUND");
}

#[tokio::test] // REQ OB-6
async fn a_report_shows_figures_and_text_of_the_day_that_is_asked_for() {
    let house = house().await;
    dead(&house, &json!({"to": "https://crm.example/canary-person"}), "410 gone").await;
    let today = NOW.to_string()[..10].to_owned();
    let reply = house.get(&format!("/v1/reports/daily?date={today}")).await;
    let seen = reply.json();
    assert_eq!((&seen["first"], &seen["complete"]), (&json!(today), &json!(false)), "{seen}");
    assert_eq!((&seen["totals"]["accepted"], &seen["totals"]["failed"]), (&json!(1), &json!(1)), "{seen}");
    assert_eq!(seen["permanent_errors"]["count"], 1);
    assert_eq!(seen["dead_letters"], 1);
    assert_eq!(seen["kpis"].as_array().unwrap().len(), 8);
    assert!(seen["text"].as_str().unwrap().contains("- Permanent errors: 1 (100 %)"), "{seen}");
    assert!(!reply.text.contains("canary-person"));
    let pt = house.get(&format!("/v1/reports/daily?date={today}&language=pt-BR")).await.json();
    assert!(pt["text"].as_str().unwrap().contains("- Erros permanentes: 1 (100 %)"), "{pt}");
    let last = house.get("/v1/reports/weekly").await.json();
    assert_eq!((&last["complete"], &last["every"]), (&json!(true), &json!("week")));
    for (query, field) in [
        ("date=yesterday", "date"),
        ("date=2199-01-01", "date"),
        ("language=fr", "language"),
        ("colour=1", "colour"),
    ] {
        house.get(&format!("/v1/reports/daily?{query}")).await.refused("INVALID_FIELD", field);
    }
    assert_eq!(house.get("/v1/reports/yearly").await.code(), "NOT_FOUND");
}

#[tokio::test] // REQ OB-6
async fn a_report_that_is_sent_by_hand_is_owed_to_those_who_get_it_and_on_record() {
    let house = house().await;
    let reply = house.call_as("operator", "POST", "/v1/reports/daily/send", "").await;
    assert_eq!(reply.status, StatusCode::ACCEPTED, "{}", reply.text);
    assert_eq!(reply.json()["notices"][0]["to"], "ops");
    let pick = Pick::Due { from: NOW, until: NOW + Span::from_secs(1), after: None };
    let wanted = Wanted { shelf: Shelf::Alert, tenant: None, pick, limit: 10 };
    let docs = house.store.docs(wanted).await.unwrap();
    let notice = notice::read(&docs[0]).unwrap();
    assert_eq!((docs.len(), notice.letter.data["type"].as_str()), (1, Some("report")));
    assert!(notice.letter.subject.contains("Relatório diário"), "in the language of whoever reads it");
    assert!(notice.letter.html.is_some());
    let records = house.store.audit(0, 100).await.unwrap();
    let (_, record) = records.iter().find(|(_, it)| it.event == Event::ReportSent).unwrap();
    assert_eq!((record.actor.as_str(), record.tenant.as_str()), ("operator (key_operator)", "default"));
    house.post("/v1/reports/daily/send", &json!({"date": "x"})).await.refused("INVALID_FIELD", "date");
    house
        .post("/v1/reports/daily/send", &json!({"date": "2199-01-01"}))
        .await
        .refused("INVALID_FIELD", "date");
}
