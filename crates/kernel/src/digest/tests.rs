use super::*;
use crate::alert::Language;
use crate::window::Zone;

const T0: Time = Time::from_millis(1_800_000_000_000);

fn at(mins: u64) -> Time {
    T0 + Span::from_mins(mins)
}

fn fallen(channel: &str, reason: FailureReason, category: &str, at: Time) -> Fallen {
    Fallen {
        channel: channel.parse().ok(),
        is_claim: channel == "claims" || channel.is_empty(),
        reason,
        category: category.to_owned(),
        text: "503 down".to_owned(),
        message: Some(format!("msg_{}", at.millis())),
        at,
    }
}

fn outage(at: Time) -> Fallen {
    fallen("crm", FailureReason::MaxRetriesExceeded, "unavailable", at)
}

fn administrator() -> Team {
    let [_, _, team] = Team::built_in();
    team
}

/// Minute by minute: so many fall in each; the minutes in which a digest was made, and how many it tells of.
fn play(team: &Team, minutes: u64, falls: impl Fn(u64) -> u64) -> Vec<(u64, u64)> {
    let mut gathering = Gathering::default();
    let mut digests = Vec::new();
    for minute in 0..minutes {
        for _ in 0..falls(minute) {
            gathering.take(team, outage(at(minute)), at(minute));
        }
        // A restart at any time changes nothing.
        gathering = serde_json::from_str(&serde_json::to_string(&gathering).unwrap()).unwrap();
        digests.extend(gathering.step(team, at(minute)).map(|digest| (minute, digest.count)));
    }
    digests
}

#[test] // REQ DL-5
fn an_outage_is_one_notice_and_while_it_goes_on_there_are_fewer_and_fewer() {
    let team = administrator();
    assert_eq!(play(&team, 600, |minute| if minute == 3 { 300 } else { 0 }), [(8, 300)]);
    // One a minute for three hours: after 5 minutes, 15, an hour, an hour, and the rest.
    let long = play(&team, 600, |minute| u64::from(minute < 180));
    assert_eq!(long, [(5, 6), (20, 15), (80, 60), (140, 60), (200, 39)]);
    assert_eq!(long.iter().map(|(_, count)| count).sum::<u64>(), 180, "each is told once");
}

#[test] // REQ DL-5
fn after_a_rest_it_begins_anew_with_a_short_wait() {
    let team = administrator();
    let digests = play(&team, 300, |minute| u64::from([0, 10, 100].contains(&minute)));
    // The second came within the 15 minutes after the first digest; the hour after it was quiet.
    assert_eq!(digests, [(5, 1), (20, 1), (105, 1)]);
}

#[test] // REQ DL-5
fn nothing_is_told_before_its_time_and_late_is_better_than_never() {
    let team = administrator();
    let mut gathering = Gathering::default();
    assert_eq!((gathering.due(), gathering.step(&team, at(9))), (None, None));
    gathering.take(&team, outage(T0), T0);
    assert_eq!(gathering.due(), Some(at(5)));
    assert_eq!(gathering.step(&team, at(5) - Span::from_millis(1)), None);
    let digest = gathering.step(&team, at(600)).unwrap();
    assert_eq!((digest.count, digest.at, digest.next_at, digest.goes_on), (1, at(600), at(615), false));
    gathering.take(&team, outage(at(601)), at(601));
    assert!(gathering.step(&team, at(615)).unwrap().goes_on);
}

#[test] // REQ DL-5
fn a_digest_counts_by_cause_and_says_since_when_with_a_sample() {
    let team = administrator();
    let mut gathering = Gathering::default();
    for minute in [2, 1, 3] {
        gathering.take(&team, outage(at(minute)), T0);
    }
    gathering.take(&team, fallen("mail", FailureReason::PermanentError, "invalid_recipient", at(4)), T0);
    let digest = gathering.step(&team, at(5)).unwrap();
    assert_eq!((digest.count, digest.first_at, digest.last_at), (4, at(1), at(4)));
    let causes: Vec<_> = digest.causes.iter().map(|it| (it.category.as_str(), it.count)).collect();
    assert_eq!(causes, [("unavailable", 3), ("invalid_recipient", 1)]);
    let cause = &digest.causes[0];
    assert_eq!((cause.first_at, cause.last_at), (at(1), at(3)));
    assert_eq!(cause.message, Some(format!("msg_{}", at(3).millis())), "the newest");
}

#[test]
fn more_causes_than_a_digest_has_room_for_are_counted_all_the_same() {
    let team = administrator();
    let mut gathering = Gathering::default();
    for nth in 0..CAUSES_MAX + 7 {
        gathering.take(&team, fallen("crm", FailureReason::PermanentError, &format!("c{nth}"), T0), T0);
    }
    let digest = gathering.step(&team, at(5)).unwrap();
    assert_eq!((digest.count, digest.causes.len()), (57, CAUSES_MAX));
    assert!(letter(&digest, None, &Zone::default(), Language::En).text.contains("- 7 × of other causes"));
}

#[test] // REQ DL-5
fn claims_go_to_billing_patients_data_to_registration_and_the_rest_to_the_administrator() {
    use FailureReason::{Expired, MaxRetriesExceeded, PermanentError};
    let teams = Team::built_in();
    assert!(teams.is_sorted_by_key(|team| std::cmp::Reverse(team.says())));
    for (channel, reason, category, team) in [
        ("claims", MaxRetriesExceeded, "timeout", "billing"),
        ("", MaxRetriesExceeded, "timeout", "billing"),
        ("crm", MaxRetriesExceeded, "timeout", "administrator"),
        ("claims", PermanentError, "invalid_patient_data", "registration"),
        ("", PermanentError, "INVALID_PATIENT_DATA", "registration"),
        ("claims", PermanentError, "schema", "administrator"),
        ("claims", Expired, "expired", "administrator"),
    ] {
        let found = Team::of(&teams, &fallen(channel, reason, category, T0));
        assert_eq!(found.map(|team| team.name.as_str()), Some(team), "{channel} {reason} {category}");
    }
    assert_eq!(Team::of(&teams[..2], &outage(T0)), None);
    let own = Team { channels: ["mail".parse().unwrap()].into(), ..administrator() };
    assert!(!own.fits(&outage(T0)) && !own.fits(&fallen("", Expired, "x", T0)));
    assert!(own.fits(&fallen("mail", Expired, "x", T0)));
}

#[test] // REQ DL-5
fn the_letter_says_it_in_both_languages_with_a_link_and_without_persons() {
    let mut gathering = Gathering::default();
    gathering.take(&administrator(), outage(T0), T0);
    let digest = gathering.step(&administrator(), at(5)).unwrap();
    let said = |language| letter(&digest, Some("https://pombo.example/dead"), &Zone::default(), language);
    let en = said(Language::En);
    assert_eq!(en.subject, "[Pombo] administrator: 1 dead letter");
    for words in ["1 × crm, max_retries_exceeded, unavailable: 503 down", "Look: https://pombo.example/dead"]
    {
        assert!(en.text.contains(words), "{}", en.text);
    }
    assert!(en.html.as_ref().unwrap().contains("<a href=\"https://pombo.example/dead\">"));
    assert_eq!(en.data["data"]["causes"][0]["count"], 1);
    let many = Digest { count: 300, goes_on: true, ..digest.clone() };
    let pt = letter(&many, None, &Zone::default(), Language::PtBr);
    assert_eq!(pt.subject, "[Pombo] administrator: continua, mais 300 mensagens mortas");
}
