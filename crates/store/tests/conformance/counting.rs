//! What is counted by the hour, and what waits.

use pombo_kernel::classify::Scope;
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Actor, Body, Draft, FailureReason, QueueName};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::{Span, Time};
use pombo_store::audit::Event;
use pombo_store::core::Reading;
use pombo_store::dead::{Act, Ruled};
use pombo_store::shelf::{Expect, Leaf, Shelf, Shelve, Shelved};
use pombo_store::transition::act_of;
use pombo_store::{Backlog, By, Counted, Measured, Settled, StatsWanted};

use crate::dead::rule;
use crate::world::{
    End, Fresh, ONE, START, TWO, World, draft, in_order, later, mins, of, on_lane, queue, secs, until, urgent,
};

on_every_store! {
    each_hour_has_what_happened_in_it,
    whole_hours_are_told_that_a_time_touches,
    hours_are_added_up_from_cut_to_cut,
    a_tenant_is_told_of_its_own,
    attempts_are_counted_by_number_with_the_time_between_them,
    from_the_tenth_on_attempts_are_counted_together,
    an_attempt_that_does_not_count_has_no_number,
    a_second_round_begins_with_the_first_attempt,
    the_time_to_delivery_counts_from_acceptance,
    the_time_to_delivery_of_a_planned_message_counts_from_its_time,
    attempts_are_timed_from_when_they_were_due,
    errors_are_counted_by_category_and_failures_by_reason,
    templates_are_counted_by_name,
    decisions_are_counted_once,
    what_was_not_committed_was_not_counted,
    a_message_waits_from_acceptance_until_it_ends,
    every_end_leaves_the_backlog,
    the_backlog_is_told_by_tenant_lane_and_channel,
    a_stale_settlement_changes_no_counter,
    what_is_due_later_is_not_late,
    what_waits_behind_another_of_its_order_is_not_late,
    a_message_of_a_campaign_is_not_late,
    the_oldest_is_found_whatever_its_priority_and_destination,
    what_is_late_is_counted_as_far_as_a_thousand,
    a_depth_is_kept_when_messages_are_taken_over,
}

const HOUR: Span = Span::from_hours(1);

fn everything(w: &mut World<impl Fresh>) -> Vec<Measured> {
    w.read()
        .stats(&StatsWanted { tenant: None, since: Time::default(), until: Time::MAX, by: By::Hour })
        .unwrap()
}

/// Count and sum by detail, over all hours.
pub(crate) fn of_what(w: &mut World<impl Fresh>, what: Counted) -> Vec<(String, i64, i64)> {
    let all = everything(w).into_iter().filter(|it| it.what == what);
    all.map(|it| (it.detail, it.count, it.sum)).collect()
}

fn listed(expected: &[(&str, i64, i64)]) -> Vec<(String, i64, i64)> {
    expected.iter().map(|(detail, count, sum)| ((*detail).to_owned(), *count, *sum)).collect()
}

fn backlog(w: &mut World<impl Fresh>) -> Vec<Backlog> {
    let now = w.now;
    w.read().backlog(now).unwrap()
}

/// What waits of the one lane and channel that there is: how many, how many too long, and since when.
fn depth(w: &mut World<impl Fresh>) -> (u64, u64, Option<Time>) {
    match &backlog(w)[..] {
        [] => (0, 0, None),
        [one] => (one.waiting, one.past_due, one.oldest_due),
        more => panic!("{more:?}"),
    }
}

// REQ OB-3
fn each_hour_has_what_happened_in_it(w: &mut World<impl Fresh>) {
    w.through(draft(), End::Sent);
    w.pass(HOUR);
    w.through(draft(), End::Sent);
    w.through(draft(), End::Failed(FailureReason::PermanentError));
    let plain = |it: &Measured| it.detail.is_empty().then(|| (it.hour.millis(), it.what, it.count));
    let seen: Vec<_> = everything(w).iter().filter_map(plain).collect();
    let (first, second) = (START.millis(), (START + HOUR).millis());
    let expected = [
        (first, Counted::Accepted, 1),
        (first, Counted::Sent, 1),
        (first, Counted::Attempts, 1),
        (second, Counted::Accepted, 2),
        (second, Counted::Sent, 1),
        (second, Counted::Failed, 1),
        (second, Counted::Attempts, 2),
    ];
    assert_eq!(seen, expected);
    assert!(everything(w).is_sorted());
    assert_eq!(w.tally(Counted::Sent), 2, "and the counts of all time are what they were");
}

// REQ OB-3
fn whole_hours_are_told_that_a_time_touches(w: &mut World<impl Fresh>) {
    for _ in 0..4 {
        w.accept(draft());
        w.pass(HOUR);
    }
    let mut hours = |since: Time, until: Time| -> Vec<u64> {
        let wanted = StatsWanted { tenant: None, since, until, by: By::Hour };
        let told = w.read().stats(&wanted).unwrap();
        told.iter().map(|it| it.hour.since(START).millis() / HOUR.millis()).collect()
    };
    let ms = Span::from_millis(1);
    assert_eq!(hours(START + HOUR, START + HOUR + HOUR), [1]);
    assert_eq!(hours(START + mins(59), START + HOUR + ms), [0, 1]);
    assert_eq!(hours(START + HOUR + mins(1), START + HOUR + mins(2)), [1]);
    assert_eq!(hours(START + HOUR, START + HOUR), [] as [u64; 0]);
    assert_eq!(hours(Time::default(), START), [] as [u64; 0], "counts of all time are no hour's");
}

// REQ OB-3
fn hours_are_added_up_from_cut_to_cut(w: &mut World<impl Fresh>) {
    for _ in 0..5 {
        w.through(draft(), End::Retry(mins(1)));
        w.pass(HOUR);
    }
    let (since, until) = (START + mins(30), START + Span::from_hours(5));
    let mut told = |cuts: &[Time]| -> Vec<(u64, Counted, i64, i64)> {
        let wanted = StatsWanted { tenant: None, since, until, by: By::Piece(cuts.to_vec()) };
        let told = w.read().stats(&wanted).unwrap();
        let seen = told.iter().filter(|it| [Counted::Accepted, Counted::Attempts].contains(&it.what));
        seen.map(|it| (it.hour.since(START).millis() / HOUR.millis(), it.what, it.count, it.sum)).collect()
    };
    let whole = [(0, Counted::Accepted, 5, 0), (0, Counted::Attempts, 5, 0)];
    assert_eq!(told(&[]), whole);
    assert_eq!(told(&[START, until, until + HOUR]), whole, "a cut outside changes nothing");
    // Out of order, twice, and in the middle of an hour, which stays whole and before the cut.
    let cuts = [START + mins(3 * 60), START + mins(90), START + mins(91)];
    let pieces = [(0, 2), (2, 1), (3, 2)];
    let expected = pieces
        .map(|(hour, count)| [(hour, Counted::Accepted, count, 0), (hour, Counted::Attempts, count, 0)]);
    assert_eq!(told(&cuts), expected.concat());
}

// invariant 14
fn a_tenant_is_told_of_its_own(w: &mut World<impl Fresh>) {
    w.accept_all([draft(), of("acme"), of("acme")]);
    let acme: Tenant = "acme".parse().unwrap();
    let wanted = StatsWanted { tenant: Some(acme.clone()), since: START, until: START + HOUR, by: By::Hour };
    let told = w.read().stats(&wanted).unwrap();
    let seen: Vec<_> = told.iter().map(|it| (&it.tenant, it.what, it.count)).collect();
    assert_eq!(seen, [(&acme, Counted::Accepted, 2)]);
    let own = |it: &&Measured| it.what == Counted::Accepted;
    assert_eq!(everything(w).iter().filter(own).map(|it| it.count).collect::<Vec<_>>(), [2, 1]);
}

// REQ OB-3
fn attempts_are_counted_by_number_with_the_time_between_them(w: &mut World<impl Fresh>) {
    w.through(draft(), End::Retry(mins(1)));
    w.pass(mins(2));
    let second = w.claim_one();
    w.pass(secs(5));
    w.settle(&second, End::Retry(secs(0)));
    w.pass(secs(7));
    let third = w.claim_one();
    w.settle(&third, End::Sent);
    w.through(draft(), End::Sent);
    let numbered = of_what(w, Counted::AttemptNumbered);
    assert_eq!(numbered, listed(&[("1", 2, 0), ("2", 1, 120_000), ("3", 1, 7_000)]));
    let sent = of_what(w, Counted::SentOnAttempt);
    assert_eq!(sent, listed(&[("1", 1, 0), ("3", 1, 132_000)]));
}

// REQ OB-3
fn from_the_tenth_on_attempts_are_counted_together(w: &mut World<impl Fresh>) {
    w.through(draft(), End::Retry(secs(1)));
    for _ in 2..12 {
        w.pass(secs(1));
        let claimed = w.claim_one();
        w.settle(&claimed, End::Retry(secs(1)));
    }
    w.pass(secs(1));
    let claimed = w.claim_one();
    w.settle(&claimed, End::Sent);
    let numbered = of_what(w, Counted::AttemptNumbered);
    let last: Vec<_> = numbered.iter().filter(|(detail, ..)| detail.len() > 1).collect();
    assert_eq!(last, [&("10+".to_owned(), 3, 3_000)]);
    assert_eq!(numbered.len(), 10);
    assert_eq!(of_what(w, Counted::SentOnAttempt), listed(&[("10+", 1, 11_000)]));
}

// REQ OB-3
fn an_attempt_that_does_not_count_has_no_number(w: &mut World<impl Fresh>) {
    w.through(draft(), End::Held(Scope::Destination));
    assert_eq!((of_what(w, Counted::AttemptNumbered), w.tally(Counted::Attempts)), (vec![], 1));
    assert_eq!(of_what(w, Counted::AttemptFailed), listed(&[("unauthorized", 1, 0)]));
    assert_eq!(depth(w).0, 1, "it waits as before");
}

fn reprocess(w: &mut World<impl Fresh>, id: MessageId) {
    assert_eq!(rule(w, Act::Reprocess, &[id]), [Ruled::Done]);
}

// REQ OB-3
fn a_second_round_begins_with_the_first_attempt(w: &mut World<impl Fresh>) {
    let id = w.through(draft(), End::Failed(FailureReason::PermanentError));
    w.pass(mins(10));
    reprocess(w, id);
    w.pass(mins(1));
    let claimed = w.claim_one();
    w.settle(&claimed, End::Sent);
    assert_eq!(of_what(w, Counted::AttemptNumbered), listed(&[("1", 2, 0)]));
    assert_eq!(of_what(w, Counted::SentOnAttempt), listed(&[("1", 1, 660_000)]));
}

// REQ OB-3
fn the_time_to_delivery_counts_from_acceptance(w: &mut World<impl Fresh>) {
    for took in [secs(1), secs(2), mins(4), Span::from_hours(25)] {
        w.accept(draft());
        w.pass(took);
        let claimed = w.claim_one();
        w.settle(&claimed, End::Sent);
    }
    let within = of_what(w, Counted::SentWithin);
    let day = i64::try_from(Span::from_hours(25).millis()).unwrap();
    assert_eq!(within, listed(&[("1s", 1, 1_000), ("5m", 1, 240_000), ("5s", 1, 2_000), ("more", 1, day)]));
}

// REQ OB-3
fn the_time_to_delivery_of_a_planned_message_counts_from_its_time(w: &mut World<impl Fresh>) {
    w.accept(later(mins(30)));
    w.pass(mins(30) + secs(3));
    let claimed = w.claim_one();
    w.settle(&claimed, End::Sent);
    assert_eq!(of_what(w, Counted::SentOnAttempt), listed(&[("1", 1, 3_000)]));
    assert_eq!(of_what(w, Counted::SentWithin), listed(&[("5s", 1, 3_000)]));
}

// REQ OB-4
fn attempts_are_timed_from_when_they_were_due(w: &mut World<impl Fresh>) {
    w.through(draft(), End::Retry(mins(10)));
    w.pass(mins(16));
    let claimed = w.claim_one();
    w.pass(secs(1));
    w.settle(&claimed, End::Sent);
    assert_eq!(of_what(w, Counted::AttemptWithin), listed(&[("1s", 1, 0), ("30m", 1, 361_000)]));
}

// REQ OB-3
fn errors_are_counted_by_category_and_failures_by_reason(w: &mut World<impl Fresh>) {
    w.through(draft(), End::Retry(mins(9)));
    w.through(draft(), End::Retry(mins(9)));
    w.through(draft(), End::Failed(FailureReason::PermanentError));
    w.through(draft(), End::Failed(FailureReason::MaxRetriesExceeded));
    w.accept(until(secs(1)));
    w.pass(secs(2));
    assert_eq!(w.expire(10), 1);
    assert_eq!(of_what(w, Counted::AttemptFailed), listed(&[("busy", 2, 0), ("invalid_recipient", 2, 0)]));
    let reasons = of_what(w, Counted::FailedFor);
    assert_eq!(
        reasons,
        listed(&[("expired", 1, 0), ("max_retries_exceeded", 1, 0), ("permanent_error", 1, 0)])
    );
}

// REQ OB-3
fn templates_are_counted_by_name(w: &mut World<impl Fresh>) {
    let with = |template: &str| Draft {
        body: Body { to: "ana".into(), template: Some(template.into()), ..Body::default() },
        ..draft()
    };
    w.through(with("welcome"), End::Sent);
    w.through(with("welcome"), End::Sent);
    w.through(with("bill"), End::Failed(FailureReason::PermanentError));
    w.through(draft(), End::Sent);
    w.accept(Draft { expires_at: Some(START + secs(1)), ..with("bill") });
    w.pass(secs(2));
    assert_eq!(w.expire(10), 1);
    assert_eq!(of_what(w, Counted::SentByTemplate), listed(&[("welcome", 2, 0)]));
    assert_eq!(of_what(w, Counted::FailedByTemplate), listed(&[("bill", 2, 0)]));
    let odd = "\0a\u{1}0'ç";
    w.through(with(odd), End::Sent);
    assert_eq!(of_what(w, Counted::SentByTemplate), listed(&[(odd, 1, 0), ("welcome", 2, 0)]));
}

// REQ OB-3
fn decisions_are_counted_once(w: &mut World<impl Fresh>) {
    let now = w.now;
    let decided = |id: &str, event| Shelve {
        shelf: Shelf::Decision,
        tenant: Tenant::default(),
        id: id.to_owned(),
        expect: Expect::Nothing,
        leaf: Some(Leaf { order: 0, topic: None, due: None, body: "{}".into() }),
        record: Some(act_of(event, &Tenant::default(), &Actor::engine(), &serde_json::json!({}), now)),
    };
    for (id, event) in [
        ("a", Event::RetryDecided),
        ("a", Event::RetryDecided),
        ("b", Event::RetryDecided),
        ("c", Event::RetriesExhausted),
        ("d", Event::PermanentErrorFound),
    ] {
        let shelved = w.core.shelve(&decided(id, event), now).unwrap();
        w.commit();
        assert!(matches!(shelved, Shelved::Done { .. } | Shelved::Conflict(Some(_))));
    }
    let seen = everything(w);
    assert!(seen.iter().all(|it| it.channel.is_none()));
    let expected = [("max_retries_exceeded", 1, 0), ("permanent_error", 1, 0), ("retry", 2, 0)];
    assert_eq!(of_what(w, Counted::Decided), listed(&expected));
    assert_eq!(w.read().tallies().unwrap(), []);
}

// invariant 2
fn what_was_not_committed_was_not_counted(w: &mut World<impl Fresh>) {
    w.accept(draft());
    let before = (everything(w), backlog(w));
    let now = w.now;
    w.core.accept(draft(), now).unwrap().unwrap();
    w.reopen();
    w.commit();
    assert_eq!((everything(w), backlog(w)), before);
}

// REQ OB-1
fn a_message_waits_from_acceptance_until_it_ends(w: &mut World<impl Fresh>) {
    assert_eq!(depth(w), (0, 0, None));
    w.accept(draft());
    assert_eq!(depth(w), (1, 1, Some(START)));
    let claimed = w.claim_one();
    assert_eq!(depth(w), (1, 0, None), "what is being sent is not late, and has not ended");
    w.settle(&claimed, End::Retry(mins(1)));
    assert_eq!(depth(w), (1, 0, None));
    w.pass(mins(2));
    assert_eq!(depth(w), (1, 1, Some(START + mins(1))));
    let claimed = w.claim_one();
    w.release(claimed.key);
    assert_eq!(depth(w), (1, 1, Some(START + mins(1))));
    let claimed = w.claim_one();
    w.settle(&claimed, End::Sent);
    assert_eq!(depth(w), (0, 0, None));
}

// REQ OB-1
fn every_end_leaves_the_backlog(w: &mut World<impl Fresh>) {
    let dead = w.through(draft(), End::Failed(FailureReason::PermanentError));
    assert_eq!(depth(w).0, 0);
    reprocess(w, dead);
    assert_eq!(depth(w).0, 1);
    w.cancel(dead);
    assert_eq!(depth(w).0, 0);
    w.accept(until(secs(1)));
    w.pass(secs(2));
    assert_eq!((w.expire(10), depth(w).0), (1, 0));
    w.accept(draft());
    let claimed = w.claim_one();
    assert_eq!((w.leave_out(&claimed, "bounced"), depth(w).0), (Settled::Done, 0));
}

// REQ OB-1
fn the_backlog_is_told_by_tenant_lane_and_channel(w: &mut World<impl Fresh>) {
    let mail = Draft { queue: queue("mail", "x"), ..draft() };
    let other = Draft { queue: queue("crm", "elsewhere"), ..draft() };
    w.accept_all([draft(), other, mail, on_lane("bulk"), of("acme")]);
    let all = backlog(w);
    let seen: Vec<_> = all
        .iter()
        .map(|it| (it.tenant.as_str(), it.lane.as_str(), it.channel.as_str(), it.waiting, it.past_due))
        .collect();
    let expected = [
        ("acme", "default", "crm", 1, 1),
        ("default", "bulk", "crm", 1, 1),
        ("default", "default", "crm", 2, 2),
        ("default", "default", "mail", 1, 1),
    ];
    assert_eq!(seen, expected);
}

// promise 4
fn a_stale_settlement_changes_no_counter(w: &mut World<impl Fresh>) {
    w.accept(draft());
    let claimed = w.claim_one();
    w.settle(&claimed, End::Sent);
    let before = (everything(w), backlog(w));
    assert_eq!(w.settle(&claimed, End::Sent), Settled::Stale);
    assert_eq!((everything(w), backlog(w)), before);
}

// REQ OB-4
fn what_is_due_later_is_not_late(w: &mut World<impl Fresh>) {
    w.accept(later(mins(5)));
    assert_eq!(depth(w), (1, 0, None));
    w.pass(mins(5));
    assert_eq!(depth(w), (1, 1, Some(START + mins(5))));
}

// REQ OB-4
fn what_waits_behind_another_of_its_order_is_not_late(w: &mut World<impl Fresh>) {
    w.accept_all([in_order("a"), in_order("a"), in_order("a")]);
    w.pass(mins(5));
    assert_eq!(depth(w), (3, 1, Some(START)));
}

// REQ OB-4
fn a_message_of_a_campaign_is_not_late(w: &mut World<impl Fresh>) {
    let campaign = Some("cmp_1".parse().unwrap());
    w.accept(Draft { queue: QueueName { campaign, ..queue("crm", "x") }, ..draft() });
    w.pass(mins(5));
    assert_eq!(depth(w), (1, 0, None));
}

// REQ OB-4
fn the_oldest_is_found_whatever_its_priority_and_destination(w: &mut World<impl Fresh>) {
    w.accept(Draft { queue: queue("crm", "z"), ..urgent(0) });
    w.pass(mins(1));
    w.accept(Draft { queue: queue("crm", "a"), ..urgent(9) });
    w.pass(mins(1));
    w.accept(Draft { queue: queue("crm", "z"), ..urgent(9) });
    assert_eq!(depth(w), (3, 3, Some(START)));
}

// REQ OB-1
fn what_is_late_is_counted_as_far_as_a_thousand(w: &mut World<impl Fresh>) {
    let of = |destination: &str| Draft { queue: queue("crm", destination), ..draft() };
    w.accept_all((0..600).map(|_| of("a")).chain((0..600).map(|_| of("b"))));
    assert_eq!(depth(w), (1_200, 1_000, Some(START)));
}

// promise 2
fn a_depth_is_kept_when_messages_are_taken_over(w: &mut World<impl Fresh>) {
    w.accept_all([draft(), draft()]);
    w.claim_as(ONE, "default", 2);
    w.reopen();
    let taken = w.take_over(TWO, 10);
    assert_eq!((taken.len(), depth(w)), (2, (2, 0, None)));
    w.settle(&taken[0], End::Sent);
    assert_eq!(depth(w), (1, 0, None));
}
