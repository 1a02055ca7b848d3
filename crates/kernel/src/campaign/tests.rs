use super::*;
use crate::id::MessageKey;

const NOW: Time = Time::from_millis(1_780_000_000_000);

fn message(n: i64) -> MessageId {
    MessageId::new(MessageKey(n << 30), 7)
}

fn campaign(recipients: u64) -> Campaign {
    let text = r#"{"name": "Retorno", "channel": "whatsapp", "lane": "bulk", "template": "retorno", "template_version": 3,
        "created_at": "2026-05-01T12:00:00Z", "created_by": "key_1", "state": "draft", "max_failure_rate": 0.5}"#;
    let mut campaign: Campaign = serde_json::from_str(text).unwrap();
    campaign.enlisted([recipients, 0, 0]);
    campaign
}

fn running(recipients: u64) -> Campaign {
    let mut campaign = campaign(recipients);
    campaign.start(NOW).unwrap();
    campaign.fed(recipients, 0, 0, NOW);
    campaign
}

/// Sends one message, which takes two seconds, and says when the next may set out.
fn send(campaign: &mut Campaign, n: i64, end: End, now: Time) -> (Option<Turn>, Time) {
    campaign.started(Flight { message: message(n), claim: n, since: now }, true);
    let turn = campaign.ended(message(n), end, 0, now + Span::from_secs(2));
    (turn, campaign.free_at)
}

#[test] // REQ BK-2
fn one_message_at_a_time_and_the_wait_begins_when_it_ends() {
    let mut campaign = running(3);
    assert_eq!(campaign.gate(NOW), Gate::Open);
    campaign.started(Flight { message: message(1), claim: 1, since: NOW }, true);
    assert_eq!(campaign.gate(NOW + Span::from_hours(9)), Gate::Shut { until: None });
    let end = NOW + Span::from_secs(40);
    campaign.ended(message(1), End::Retry, u64::MAX, end);
    let next = end + Span::from_secs(25);
    assert_eq!(campaign.gate(end), Gate::Shut { until: Some(next) }, "a retry is a send like any other");
    assert_eq!(campaign.gate(next), Gate::Open);
}

#[test] // REQ BK-2
fn what_was_not_sent_costs_no_wait() {
    let mut campaign = running(1);
    campaign.started(Flight { message: message(1), claim: 1, since: NOW }, true);
    campaign.released(message(1), true);
    assert_eq!((campaign.gate(NOW), campaign.roll.ahead), (Gate::Open, 1));
}

#[test] // REQ BK-7
fn it_is_complete_when_everybody_was_reached_or_given_up() {
    let mut campaign = running(4);
    assert_eq!(send(&mut campaign, 1, End::Sent, NOW).0, None);
    assert_eq!(send(&mut campaign, 2, End::Failed, NOW).0, None);
    assert_eq!(campaign.given_up(Standing::Cancelled, true, NOW), None);
    assert_eq!(campaign.given_up(Standing::Failed, true, NOW), Some(Turn::Completed));
    let Roll { sent, failed, cancelled, ahead, queued, .. } = campaign.roll;
    assert_eq!((sent, failed, cancelled, ahead, queued), (1, 2, 1, 0, 0));
    assert_eq!(campaign.reprocessed(NOW), Some(Turn::Reopened));
    assert_eq!(campaign.state.name(), StateName::Running, "a failure that is tried again opens it");
    assert_eq!(send(&mut campaign, 2, End::Sent, NOW).0, Some(Turn::Completed));
    assert_eq!((campaign.roll.sent, campaign.roll.failed), (2, 1));
}

#[test] // REQ BK-7
fn a_pause_during_the_last_send_does_not_leave_it_open_for_ever() {
    let mut campaign = running(1);
    campaign.started(Flight { message: message(1), claim: 1, since: NOW }, true);
    campaign.pause(PauseReason::Operator, String::new(), &Actor("key_1".into()), NOW).unwrap();
    assert_eq!(campaign.ended(message(1), End::Sent, 0, NOW), Some(Turn::Completed));
}

#[test] // REQ BK-3
fn a_slow_run_stops_at_its_soft_limit_and_a_resumption_counts_anew() {
    let mut campaign = running(100);
    let (mut now, mut turn, mut n) = (NOW, None, 0);
    while turn.is_none() {
        n += 1;
        campaign.started(Flight { message: message(n), claim: n, since: now }, true);
        now = now + Span::from_secs(60);
        turn = campaign.ended(message(n), End::Sent, 0, now);
        now = campaign.free_at;
    }
    // A minute and 15 seconds each, of 2,860.
    assert_eq!(n, 39);
    assert!(matches!(turn, Some(Turn::Paused(PauseReason::TimeLimit, _))), "{turn:?}");
    assert_eq!(campaign.gate(now), Gate::Shut { until: None });
    campaign.start(now).unwrap();
    assert_eq!(campaign.limits().estimated, Span::from_secs(61 * 22));
    assert_eq!(campaign.run.used, Span::ZERO);
}

#[test] // REQ BK-3
fn a_healthy_campaign_never_meets_its_limit_whatever_fails_and_waits() {
    let mut campaign = running(100);
    campaign.max_failure_rate = None;
    let mut now = NOW;
    for n in 1..=100 {
        for _ in 0..3 {
            campaign.started(Flight { message: message(n), claim: n, since: now }, false);
            assert_eq!(campaign.ended(message(n), End::Retry, u64::MAX, now + Span::from_secs(2)), None);
            // A night, a hold, a breaker: none of the campaign's doing.
            now = campaign.free_at + Span::from_hours(8);
        }
        let (turn, next) = send(&mut campaign, n, End::Failed, now);
        assert_eq!(turn, (n == 100).then_some(Turn::Completed));
        now = next;
    }
}

#[test] // REQ BK-3, BK-4
fn time_in_which_nobody_was_there_is_not_used() {
    let mut campaign = running(2);
    campaign.started(Flight { message: message(1), claim: 1, since: NOW }, true);
    let back = NOW + Span::from_hours(9);
    campaign.taken_over(message(1), 2, back);
    assert_eq!(campaign.cut(back), None, "it is not cut off for a night in which nothing ran");
    assert_eq!(campaign.ended(message(1), End::Retry, 0, back), None);
    assert_eq!(campaign.run.used, Span::from_secs(15));
}

#[test] // REQ BK-3
fn another_pace_begins_the_time_limits_anew() {
    let mut campaign = running(100);
    for n in 1..=60 {
        send(&mut campaign, n, End::Sent, NOW);
    }
    campaign.started(Flight { message: message(61), claim: 61, since: NOW }, true);
    campaign.set_throttle(Throttle::new(Some(3.0), Some(5.0)).unwrap());
    assert_eq!(campaign.cut(NOW), None, "a send that is under way is not cut off for that");
    assert_eq!((campaign.run.used, campaign.limits().estimated), (Span::ZERO, Span::from_secs(40 * 6)));
}

#[test] // REQ BK-3
fn a_send_that_does_not_end_is_cut_off_at_the_hard_limit() {
    let mut campaign = running(1);
    assert_eq!(campaign.cut_at(), None);
    campaign.started(Flight { message: message(1), claim: 1, since: NOW }, true);
    let late = NOW + Span::from_secs(420);
    assert_eq!((campaign.due(), campaign.cut(late - Span::from_millis(1))), (Some(late), None));
    let (key, turn) = campaign.cut(late).unwrap();
    assert_eq!((key.message, key.claim), (message(1), ClaimId(1)));
    assert!(matches!(turn, Turn::Paused(PauseReason::TimeLimit, _)), "{turn:?}");
    campaign.taken_over(message(1), 2, late);
    assert_eq!(
        campaign.flight.map(|flight| flight.claim),
        Some(2),
        "it is still on its way, for all we know"
    );
    assert_eq!(campaign.cut(late), None);
}

#[test] // REQ BK-7
fn too_many_failures_stop_it_but_not_the_first_few() {
    let mut campaign = running(100);
    for n in 1..20 {
        assert_eq!(send(&mut campaign, n, End::Failed, NOW).0, None, "{n} ends say nothing yet");
    }
    let (turn, _) = send(&mut campaign, 20, End::Failed, NOW);
    assert_eq!(turn, Some(Turn::Paused(PauseReason::FailureRate, "100 % of the last 20 failed".into())));
    let mut campaign = running(100);
    for n in 1..=99 {
        let end = if n % 3 == 0 { End::Failed } else { End::Sent };
        assert_eq!(send(&mut campaign, n, end, NOW).0, None, "a third is less than half");
    }
}

#[test] // REQ BK-4
fn messages_are_made_a_few_ahead_and_again_when_those_run_out() {
    let mut campaign = campaign(100);
    assert_eq!((campaign.appetite(), campaign.due()), (0, None));
    campaign.start(NOW).unwrap();
    assert_eq!((campaign.appetite(), campaign.due()), (16, Some(NOW)));
    campaign.fed(14, 2, 0, NOW);
    assert_eq!((campaign.roll.pending, campaign.roll.ahead, campaign.roll.suppressed), (84, 14, 2));
    assert_eq!((campaign.appetite(), campaign.due()), (0, None));
    for n in 1..=7 {
        // A message that waits for another try does not keep the others back.
        send(&mut campaign, n, End::Retry, NOW);
    }
    assert_eq!((campaign.roll.ahead, campaign.appetite()), (7, 9));
}

#[test] // REQ BK-7
fn only_what_makes_sense_is_done() {
    let mut nobody = campaign(0);
    assert_eq!(nobody.start(NOW), Err(Refused::Nobody));
    assert_eq!(nobody.schedule(NOW), Err(Refused::Nobody));
    let by = Actor("key_1".into());
    let mut campaign = campaign(1);
    assert_eq!(
        campaign.pause(PauseReason::Operator, String::new(), &by, NOW),
        Err(Refused::State(StateName::Draft))
    );
    campaign.schedule(NOW + Span::from_hours(1)).unwrap();
    assert_eq!(campaign.due(), Some(NOW + Span::from_hours(1)));
    let tomorrow = campaign.state.clone();
    campaign.pause(PauseReason::Operator, String::new(), &by, NOW).unwrap();
    campaign.start(NOW).unwrap();
    assert_eq!(campaign.state, tomorrow, "what was paused before its time still waits for that");
    campaign.start(NOW).unwrap();
    assert_eq!(campaign.start(NOW), Err(Refused::State(StateName::Running)));
    assert_eq!(campaign.can_enlist(), Err(Refused::State(StateName::Running)));
    campaign.pause(PauseReason::Operator, String::new(), &by, NOW).unwrap();
    assert_eq!(campaign.can_enlist(), Ok(()));
    campaign.pause(PauseReason::Cancelling, String::new(), &by, NOW).unwrap();
    assert_eq!(campaign.start(NOW), Err(Refused::State(StateName::Paused)));
    assert_eq!(campaign.due(), Some(NOW));
    campaign.cancelled(&by, NOW);
    assert_eq!((campaign.roll.pending, campaign.roll.cancelled), (0, 1));
}

#[test] // REQ BK-7
fn the_rate_is_of_the_sends_whose_wait_is_over() {
    let mut campaign = running(100);
    assert_eq!(campaign.rate_per_hour(NOW), None);
    // Two seconds, and a wait of 15.
    let (_, next) = send(&mut campaign, 1, End::Sent, NOW);
    assert_eq!(campaign.rate_per_hour(next - Span::from_millis(1)), None, "a wait ahead is not over");
    let rate = |campaign: &Campaign, now| campaign.rate_per_hour(now).map(f64::round);
    assert_eq!(rate(&campaign, next), Some(212.0));
    let (_, again) = send(&mut campaign, 2, End::Retry, next);
    assert_eq!(rate(&campaign, again - Span::from_millis(1)), Some(212.0));
    assert_eq!(rate(&campaign, again), Some(106.0), "a try more is time that was used");
    // What is not its pace does not count.
    let later = again + Span::from_hours(9);
    send(&mut campaign, 2, End::Sent, later);
    assert_eq!(rate(&campaign, later + Span::from_secs(2)), Some(106.0));
    assert_eq!(rate(&campaign, later + Span::from_secs(17)), Some(141.0));
}

#[test]
fn it_is_read_as_it_was_written() {
    let mut campaign = running(3);
    campaign.window = serde_json::from_str(r#"{"hours": "08:00-20:00"}"#).unwrap();
    campaign.started(Flight { message: message(1), claim: 1, since: NOW }, true);
    campaign.pause(PauseReason::Operator, "almoço".into(), &Actor("key_1".into()), NOW).unwrap();
    let text = serde_json::to_string(&campaign).unwrap();
    assert_eq!(serde_json::from_str::<Campaign>(&text).unwrap(), campaign, "{text}");
}
