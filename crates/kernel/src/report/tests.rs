use super::*;
use crate::kpi::Tries;

fn time(text: &str) -> Time {
    text.parse().unwrap()
}

fn schedule(every: Every, zone: &str) -> Schedule {
    Schedule { every, day: "mon".parse().unwrap(), at: "08:00".parse().unwrap(), zone: zone.parse().unwrap() }
}

fn report(schedule: Schedule) -> Report {
    let (name, tenant) = ("daily".parse().unwrap(), Tenant::default());
    Report { name, tenant, schedule, notify: Vec::new(), language: None }
}

fn days(period: &Period) -> (String, String) {
    (period.first.to_string(), period.last.to_string())
}

#[test] // REQ OB-6
fn a_period_is_reported_on_the_day_after_it_at_the_hour_of_the_place() {
    // In São Paulo it is three hours earlier than in UTC. 2026-11-16 is a Monday.
    for (every, now, first, last, next) in [
        (Every::Day, "2026-11-16T10:59:59Z", "2026-11-14", "2026-11-14", "2026-11-16T11:00:00Z"),
        (Every::Day, "2026-11-16T11:00:00Z", "2026-11-15", "2026-11-15", "2026-11-17T11:00:00Z"),
        (Every::Day, "2026-11-17T02:30:00Z", "2026-11-15", "2026-11-15", "2026-11-17T11:00:00Z"),
        (Every::Week, "2026-11-16T10:59:59Z", "2026-11-02", "2026-11-08", "2026-11-16T11:00:00Z"),
        (Every::Week, "2026-11-16T11:00:00Z", "2026-11-09", "2026-11-15", "2026-11-23T11:00:00Z"),
        (Every::Month, "2027-03-01T10:59:59Z", "2027-01-01", "2027-01-31", "2027-03-01T11:00:00Z"),
        (Every::Month, "2027-03-01T11:00:00Z", "2027-02-01", "2027-02-28", "2027-04-01T11:00:00Z"),
    ] {
        let schedule = schedule(every, "America/Sao_Paulo");
        let latest = schedule.latest(time(now));
        assert_eq!(days(&latest), (first.to_owned(), last.to_owned()), "{every:?} {now}");
        assert_eq!(schedule.next(time(now)), time(next), "{every:?} {now}");
    }
    let period = schedule(Every::Day, "America/Sao_Paulo").latest(time("2026-11-16T11:00:00Z"));
    assert_eq!((period.since, period.until), (time("2026-11-15T03:00:00Z"), time("2026-11-16T03:00:00Z")));
}

#[test] // REQ OB-6
fn days_on_which_clocks_are_put_are_as_long_as_they_are() {
    let schedule = schedule(Every::Day, "America/New_York");
    // On 2027-03-14 clocks there go from two to three, on 2026-11-01 back to one.
    for (now, hours) in [("2027-03-15T13:00:00Z", 23), ("2026-11-02T14:00:00Z", 25)] {
        let period = schedule.latest(time(now));
        assert_eq!(period.until.since(period.since), Span::from_hours(hours), "{now}");
    }
    let early = Schedule { at: "02:30".parse().unwrap(), ..schedule };
    // There is no half past two on that day: the first moment after.
    assert_eq!(early.next(time("2027-03-14T06:00:00Z")), time("2027-03-14T07:00:00Z"));
}

/// Looks every ten minutes for so long; when something was sent, and of which day.
fn play(schedule: &Schedule, from: &str, hours: u64, down: impl Fn(Time) -> bool) -> Vec<(Time, String)> {
    let start = time(from);
    let mut until = schedule.latest(start).until;
    let mut sent = Vec::new();
    for step in 0..hours * 6 {
        let now = start + Span::from_mins(step * 10);
        if down(now) {
            continue;
        }
        if let Some(period) = schedule.owed(until, now) {
            until = period.until;
            sent.push((now, period.last.to_string()));
        }
    }
    sent
}

#[test] // REQ OB-6
fn each_period_is_sent_once_and_nothing_when_it_begins() {
    let schedule = schedule(Every::Day, "America/Sao_Paulo");
    let sent = play(&schedule, "2026-11-14T15:00:00Z", 72, |_| false);
    let expected = [("2026-11-15T11:00:00Z", "2026-11-14"), ("2026-11-16T11:00:00Z", "2026-11-15")];
    let expected = expected.map(|(at, day)| (time(at), day.to_owned()));
    assert_eq!(sent[..2], expected);
    assert_eq!(sent.len(), 3);
}

#[test] // REQ OB-6
fn what_was_due_while_nobody_looked_is_sent_late_and_only_the_newest() {
    let schedule = schedule(Every::Day, "America/Sao_Paulo");
    let back = time("2026-11-18T20:00:00Z");
    let sent = play(&schedule, "2026-11-14T15:00:00Z", 120, |now| now < back);
    assert_eq!(
        sent,
        [(back, "2026-11-17".to_owned()), (time("2026-11-19T11:00:00Z"), "2026-11-18".to_owned()),]
    );
}

#[test] // REQ OB-6
fn an_hour_that_is_changed_during_the_day_sends_no_period_twice() {
    let early = schedule(Every::Day, "America/Sao_Paulo");
    let late = Schedule { at: "17:00".parse().unwrap(), ..early.clone() };
    let now = time("2026-11-16T15:00:00Z");
    let sent = early.latest(now).until;
    assert_eq!(late.owed(sent, time("2026-11-16T20:30:00Z")), None);
    assert!(late.owed(sent, time("2026-11-17T20:00:00Z")).is_some());
}

fn facts() -> Facts {
    let mut tries = [Tries::default(); NUMBERS.len()];
    tries[0] = Tries { made: 1_000, sent: 900, waited: Span::ZERO };
    tries[1] = Tries { made: 100, sent: 62, waited: Span::ZERO };
    let messages = Sums {
        sent: 962,
        failed: 38,
        permanent: 30,
        exhausted: 8,
        tries,
        within: [962, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        took: Span::from_secs(962 * 90),
        ..Sums::default()
    };
    let decisions = Decisions { retry: 90, permanent_error: 6, max_retries_exceeded: 4 };
    let claims = Sums { decisions, ..Sums::default() };
    let week =
        Sums { decisions: Decisions { retry: 996, permanent_error: 4, ..decisions }, ..Sums::default() };
    Facts {
        accepted: 1_010,
        retries: 100,
        messages,
        claims,
        week: Some((messages, week)),
        channels: [("crm".parse().unwrap(), messages), ("idle".parse().unwrap(), Sums::default())].into(),
        errors: [("timeout".to_owned(), 70), ("gone".to_owned(), 30)].into(),
        waiting: vec![Waiting {
            channel: "crm".parse().unwrap(),
            category: "gone".into(),
            text: "410 <gone>".into(),
            count: 30,
        }],
        dead: 38,
        ..Facts::default()
    }
}

fn figures() -> (Figures, Period) {
    let report = report(schedule(Every::Day, "America/Sao_Paulo"));
    let period = report.schedule.latest(time("2026-11-16T11:00:00Z"));
    (Figures::of(&report, &period, facts()), period)
}

#[test] // REQ OB-6
fn a_report_tells_what_was_given_up_what_retries_come_to_and_each_figure_against_its_target() {
    let (figures, period) = figures();
    assert_eq!((figures.permanent_errors.count, figures.exhausted_retries.count), (36, 12));
    assert!((figures.permanent_errors.share.unwrap() - 36.0 / 1_100.0).abs() < 1e-9);
    assert_eq!((figures.retries.retried, figures.retries.sent_after_retry), (100, 62));
    assert_eq!(figures.retries.success_rate, Some(0.62));
    assert_eq!(figures.channels.len(), 1, "where nothing happened there is nothing to say");
    assert_eq!(figures.errors[0].category, "timeout");
    let kpi = |id| figures.kpis.iter().find(|it| it.id == id).unwrap();
    assert_eq!((kpi(Kpi::FinalDelivery).value, kpi(Kpi::FinalDelivery).met), (Some(0.962), Some(false)));
    assert_eq!(kpi(Kpi::MeanTimeToDelivery).met, Some(true));
    let permanent = kpi(Kpi::PermanentErrors);
    assert!(permanent.over_week && permanent.met == Some(true), "judged over its own week: {permanent:?}");
    assert_eq!(kpi(Kpi::RetrySuccess).value, None);
    let en = letter(&figures, &period, Some("https://pombo.example/"), Language::En, period.until);
    assert_eq!(en.subject, "[Pombo] Daily report daily: 2026-11-15");
    for line in [
        "- Permanent errors: 36 (3.3 %)",
        "- Exhausted retries: 12 (1.1 %)",
        "- Success with retry: 62 %",
        "- Attempt 2: 100 made, 62 sent (62 %)",
        "- Final delivery (messages): 96.2 %, target > 98 %: missed",
        "- Mean time to delivery (messages): 1m30s, target < 5m: met",
        "- Permanent errors (claims, 7 days): 0.4 %, target < 10 %: met",
        "- Success with retry (claims): nothing to judge by, target >= 80 %",
        "- crm: 962 sent, 38 failed, 30 permanent, 8 exhausted",
        "- 30 × crm, gone: 410 <gone>",
        "Dead letters that wait now (38)",
    ] {
        assert!(en.text.lines().any(|it| it == line), "{line}\n{}", en.text);
    }
    assert!(en.html.unwrap().contains("410 &lt;gone&gt;"));
    assert_eq!(en.data["data"]["permanent_errors"]["count"], 36);
}

#[test] // REQ OB-6
fn in_portuguese_numbers_are_written_as_there() {
    let (figures, period) = figures();
    let pt = letter(&figures, &period, None, Language::PtBr, period.until);
    assert_eq!(pt.subject, "[Pombo] Relatório diário daily: 2026-11-15");
    for line in [
        "- Erros permanentes: 36 (3,3 %)",
        "- Entrega final (mensagens): 96,2 %, meta > 98 %: não atingida",
        "- Tempo médio até a entrega (mensagens): 1m30s, meta < 5m: atingida",
        "- Tentativa 2: 100 feitas, 62 enviadas (62 %)",
    ] {
        assert!(pt.text.lines().any(|it| it == line), "{line}\n{}", pt.text);
    }
}

#[test]
fn counters_are_read_for_a_week_where_the_report_is_of_less() {
    for (every, longer) in [(Every::Day, true), (Every::Week, false), (Every::Month, false)] {
        let period = schedule(every, "UTC").latest(time("2026-11-16T11:00:00Z"));
        let (from, for_week) = counted_from(&period);
        assert_eq!(for_week, longer, "{every:?}");
        assert!(from <= period.since && period.until.since(from) >= Span::from_hours(7 * 24));
    }
}
