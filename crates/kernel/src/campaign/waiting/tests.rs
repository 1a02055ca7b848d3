use super::*;
use crate::breaker::Limits;
use crate::campaign::line::Line;
use crate::campaign::{End, Flight, PauseReason};
use crate::id::{MessageId, MessageKey};
use crate::message::Actor;
use crate::time::Span;

/// A Monday, 08:00 in São Paulo.
const NOW: Time = Time::from_millis(1_780_311_600_000);

fn message(n: i64) -> MessageId {
    MessageId::new(MessageKey(n << 30), 7)
}

fn window(hours: &str) -> Option<Window> {
    serde_json::from_str(&format!(r#"{{"hours": "{hours}"}}"#)).unwrap()
}

fn running(recipients: u64) -> Campaign {
    let place = ("whatsapp".parse().unwrap(), "bulk".parse().unwrap());
    let template = ("retorno".parse().unwrap(), 1);
    let mut campaign = Campaign::new("Retorno".into(), place, template, Actor("key_1".into()), NOW);
    campaign.enlisted([recipients, 0, 0]);
    campaign.start(NOW).unwrap();
    campaign
}

fn hours(from_now: u64) -> Option<Time> {
    Some(NOW + Span::from_hours(from_now))
}

/// What it waits for, as `reason until words`.
fn check(
    campaign: &Campaign,
    (rules, line): (&LineRules, &Line),
    retries: &[Time],
    wanted: Option<(WaitReason, Option<Time>, &str)>,
) {
    let outlook = Outlook { rules, line, others: vec![], retries: retries.to_vec(), stop: None };
    let waiting = campaign.waiting(&outlook, NOW);
    let wanted = wanted.map(|(reason, until, words)| Waiting { reason, until, words: words.into() });
    assert_eq!(waiting, wanted);
    let next = match (&waiting, campaign.flight) {
        (_, Some(_)) => None,
        (None, None) => Some(NOW),
        (Some(waiting), None) => waiting.until,
    };
    assert_eq!(campaign.next_send(&outlook, NOW), next);
}

#[test] // REQ BK-7
fn whatever_keeps_it_longest_is_told_with_its_time_and_place() {
    let free = (&LineRules::default(), &Line::default());
    let mut campaign = running(3);
    check(&campaign, free, &[], None);
    campaign.free_at = NOW + Span::from_secs(20);
    let pace = "the wait after the last send";
    check(&campaign, free, &[], Some((WaitReason::Pace, Some(campaign.free_at), pace)));
    campaign.window = window("09:00-18:00");
    let words = "sending hours 09:00-18:00 America/Sao_Paulo; opens today 09:00";
    check(&campaign, free, &[], Some((WaitReason::Window, hours(1), words)));
    let rules = LineRules { window: window("10:00-18:00"), ..LineRules::default() };
    let words = "sending hours of the channel 10:00-18:00 America/Sao_Paulo; opens today 10:00";
    check(&campaign, (&rules, &Line::default()), &[], Some((WaitReason::LineWindow, hours(2), words)));
    campaign.started(Flight { message: message(1), claim: 1, since: NOW }, true);
    check(&campaign, free, &[], None);
}

#[test] // REQ BK-6, BK-7
fn what_all_campaigns_of_a_line_share_is_told() {
    let mut campaign = running(3);
    let rules = LineRules { daily_cap: Some(1), gap: Some(Span::from_secs(5)), ..LineRules::default() };
    let busy = Line::default().started(message(1), &rules, NOW - Span::from_hours(24));
    let words = "another campaign's message is on the same channel";
    check(&campaign, (&rules, &busy), &[], Some((WaitReason::LineGap, None, words)));
    let rested = busy.ended(message(1), NOW);
    let words = "the channel's gap of 5s after each send";
    let over = Some(NOW + Span::from_secs(5));
    check(&campaign, (&rules, &rested), &[], Some((WaitReason::LineGap, over, words)));
    let spent = rested.started(message(2), &rules, NOW).ended(message(2), NOW);
    let words = "the channel's 1 sends of a day are used up; goes on tomorrow 00:00 America/Sao_Paulo";
    check(&campaign, (&rules, &spent), &[], Some((WaitReason::DailyCap, hours(16), words)));
    // It is open now, so that its hours are not what it waits for; but it goes on within them.
    campaign.window = window("07:00-18:00");
    let words = "the channel's 1 sends of a day are used up; goes on tomorrow 07:00 America/Sao_Paulo";
    check(&campaign, (&rules, &spent), &[], Some((WaitReason::DailyCap, hours(23), words)));
}

#[test] // REQ BK-7
fn a_pace_that_ends_after_the_hours_waits_for_the_hours() {
    let mut campaign = running(3);
    campaign.window = window("07:00-08:30");
    campaign.free_at = NOW + Span::from_mins(40);
    let words = "sending hours 07:00-08:30 America/Sao_Paulo; opens tomorrow 07:00";
    let free = (&LineRules::default(), &Line::default());
    check(&campaign, free, &[], Some((WaitReason::Window, hours(23), words)));
}

#[test] // REQ BK-7
fn only_when_nobody_else_is_left_it_waits_for_another_try() {
    let mut campaign = running(2);
    campaign.fed(2, 0, 0, NOW);
    campaign.started(Flight { message: message(1), claim: 1, since: NOW }, true);
    campaign.ended(message(1), End::Retry, 0, NOW);
    campaign.free_at = NOW;
    let (free, due) = ((&LineRules::default(), &Line::default()), NOW + Span::from_mins(30));
    check(&campaign, free, &[due], None);
    campaign.given_up(crate::campaign::recipient::Standing::Cancelled, true, NOW);
    let words = "whoever is left waits for another try; the next is due today 08:30 America/Sao_Paulo";
    check(&campaign, free, &[due], Some((WaitReason::Retry, Some(due), words)));
}

#[test] // REQ BK-6
fn hours_that_never_meet_are_told_whatever_its_state() {
    let rules = LineRules { window: window("20:00-22:00"), ..LineRules::default() };
    let mut campaign = running(3);
    campaign.window = window("09:00-18:00");
    let words = "its sending hours 09:00-18:00 America/Sao_Paulo and those of its channel, 20:00-22:00 \
                 America/Sao_Paulo, have no moment in common within a year";
    let line = Line::default();
    check(&campaign, (&rules, &line), &[], Some((WaitReason::Never, None, words)));
    campaign.pause(PauseReason::Operator, String::new(), &Actor("key_1".into()), NOW).unwrap();
    let outlook = Outlook { rules: &rules, line: &line, others: vec![], retries: vec![], stop: None };
    assert_eq!(campaign.waiting(&outlook, NOW).map(|it| it.reason), Some(WaitReason::Never));
    assert_eq!(never(None, &rules, NOW), None);
    let shut = Window { days: Default::default(), ..window("09:00-18:00").unwrap() };
    let said = never(Some(&shut), &rules, NOW).unwrap();
    assert_eq!(said, "its sending hours 09:00-18:00 America/Sao_Paulo on no day do not open within a year");
}

#[test] // REQ CF-7, CB-1
fn a_channel_that_takes_nothing_is_told() {
    let zone = Zone::default();
    let behind = |block: Block| Waiting::behind(&block, &zone, NOW).map(|it| (it.reason, it.until, it.words));
    let words = "the channel is held: 401; tried again today 08:00 America/Sao_Paulo".to_owned();
    let until = Some(NOW + Span::from_secs(30));
    assert_eq!(behind(Block::hold("401".into(), 0, NOW)), Some((WaitReason::ChannelHeld, until, words)));
    let words = "the channel is held: works; until somebody releases it".to_owned();
    assert_eq!(behind(Block::operator("works".into(), NOW)), Some((WaitReason::ChannelHeld, None, words)));
    let breaker = behind(Block::breaker("down".into(), &Limits::default(), NOW)).unwrap();
    assert_eq!(breaker.0, WaitReason::Breaker);
    let over = Block::pause("429".into(), NOW, NOW - Span::from_secs(9));
    assert_eq!(behind(over), None);
    let mut campaign = running(3);
    campaign.free_at = NOW + Span::from_secs(20);
    let stop = Waiting::all_paused("moving house");
    let (rules, line) = (LineRules::default(), Line::default());
    let outlook = Outlook { rules: &rules, line: &line, others: vec![], retries: vec![], stop: Some(stop) };
    assert_eq!(campaign.waiting(&outlook, NOW), outlook.stop);
}
