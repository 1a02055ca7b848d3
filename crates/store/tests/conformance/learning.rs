//! What retries teach, and where it is counted.

use pombo_kernel::block::{Block, BlockKind};
use pombo_kernel::breaker::Limits;
use pombo_kernel::classify::Verdict;
use pombo_kernel::learn::{Bucket, Cell};
use pombo_kernel::message::{AttemptFailure, Body, Draft, FailureReason, QueueName};
use pombo_kernel::name::Tenant;
use pombo_kernel::setup::NOTICES;
use pombo_kernel::time::{Span, Time};
use pombo_store::core::Reading;
use pombo_store::dead::{Act, Ruled};
use pombo_store::learning::{DESTINATIONS, ERRORS, Learnt, Lesson, WEEKS};
use pombo_store::{By, Counted, Settlement, StatsWanted};

use crate::dead::rule;
use crate::world::*;

on_every_store! {
    a_message_that_is_sent_at_once_teaches_nothing,
    a_retry_is_counted_by_its_number_its_wait_and_the_time_since_the_first_failure,
    a_retry_is_counted_after_the_failure_before_it,
    an_attempt_that_does_not_count_is_no_trial,
    a_second_round_learns_from_its_own_failures,
    so_many_destinations_are_told_apart_and_the_rest_together,
    a_person_is_no_destination,
    names_outlast_reopening,
    what_is_old_is_not_told,
    tenants_learn_apart,
    what_was_not_committed_was_not_learnt,
    what_pombo_tells_people_teaches_nothing,
    an_outage_is_as_long_as_its_breaker,
    a_breaker_that_an_operator_lifts_was_no_outage,
    errors_that_no_rule_knew_are_counted_by_their_words_and_what_came_next,
    so_many_unknown_errors_are_told_apart_and_the_rest_together,
    hours_tell_nothing_of_what_is_learnt,
    a_claim_says_since_when_its_message_fails,
}

fn learnt(w: &mut World<impl Fresh>) -> Vec<Learnt> {
    let now = w.now;
    w.read().learnt(None, now).unwrap()
}

/// Category, destination, cell, tried and passed.
fn trials(w: &mut World<impl Fresh>) -> Vec<(String, Option<String>, Cell, u64, u64)> {
    let trial = |it: Learnt| match it.lesson {
        Lesson::Trial { category, destination, cell } => {
            Some((category, destination, cell, it.tried, it.passed))
        }
        _ => None,
    };
    learnt(w).into_iter().filter_map(trial).collect()
}

/// Claims the message that is due, and ends it.
fn go(w: &mut World<impl Fresh>, end: End) {
    let claimed = w.claim_one();
    w.settle(&claimed, end);
}

/// Sends a message at its second try.
fn retried(w: &mut World<impl Fresh>, draft: Draft) {
    w.through(draft, End::Retry(secs(10)));
    w.pass(secs(10));
    go(w, End::Sent);
}

// REQ LN-1
fn a_message_that_is_sent_at_once_teaches_nothing(w: &mut World<impl Fresh>) {
    w.through(draft(), End::Sent);
    w.through(draft(), End::Failed(FailureReason::PermanentError));
    assert_eq!(learnt(w), []);
}

// REQ LN-1
fn a_retry_is_counted_by_its_number_its_wait_and_the_time_since_the_first_failure(w: &mut World<impl Fresh>) {
    w.through(draft(), End::Retry(secs(10)));
    w.pass(secs(12));
    go(w, End::Retry(mins(1)));
    w.pass(mins(1));
    go(w, End::Sent);
    let crm = Some("crm.example".to_owned());
    let second = Cell::of(2, secs(12), secs(12));
    let third = Cell::of(3, mins(1), secs(72));
    let expected = [("busy".to_owned(), crm.clone(), second, 1, 0), ("busy".to_owned(), crm, third, 1, 1)];
    assert_eq!(trials(w), expected);
    w.through(draft(), End::Retry(mins(1)));
    w.pass(mins(1));
    go(w, End::Sent);
    assert_eq!(trials(w).len(), 3, "another wait is another row");
    retried(w, draft());
    let of_second = trials(w).into_iter().find(|(_, _, cell, ..)| *cell == second).unwrap();
    assert_eq!((of_second.3, of_second.4), (2, 1), "and one that is about as long is not");
}

// REQ LN-1
fn a_retry_is_counted_after_the_failure_before_it(w: &mut World<impl Fresh>) {
    w.accept(draft());
    let claimed = w.claim_one();
    let mut first = settlement(&claimed, End::Retry(secs(1)), w.now);
    first.attempt.failure =
        Some(AttemptFailure { category: "timeout".into(), ..failure(Verdict::Transient) });
    w.settle_with(first);
    w.pass(secs(1));
    go(w, End::Retry(secs(1)));
    w.pass(secs(1));
    go(w, End::Failed(FailureReason::MaxRetriesExceeded));
    let seen: Vec<_> =
        trials(w).into_iter().map(|(category, _, cell, ..)| (category, cell.attempt)).collect();
    assert_eq!(seen, [("busy".to_owned(), 3), ("timeout".to_owned(), 2)]);
}

// REQ LN-1
fn an_attempt_that_does_not_count_is_no_trial(w: &mut World<impl Fresh>) {
    w.through(draft(), End::Retry(secs(1)));
    w.pass(secs(1));
    go(w, End::Held(pombo_kernel::classify::Scope::Destination));
    assert_eq!(trials(w), []);
    w.pass(mins(10));
    go(w, End::Sent);
    let [(_, _, cell, tried, passed)] = &trials(w)[..] else { panic!("{:?}", trials(w)) };
    assert_eq!((cell.wait, *tried, *passed), (Bucket::of(secs(601)), 1, 1), "nor is it what is waited for");
}

// REQ LN-1
fn a_second_round_learns_from_its_own_failures(w: &mut World<impl Fresh>) {
    let id = w.through(draft(), End::Retry(secs(1)));
    w.pass(secs(1));
    go(w, End::Failed(FailureReason::MaxRetriesExceeded));
    w.pass(mins(90));
    assert_eq!(rule(w, Act::Reprocess, &[id]), [Ruled::Done]);
    go(w, End::Retry(secs(5)));
    assert_eq!(trials(w).len(), 1, "a round's first attempt follows nothing");
    w.pass(secs(5));
    go(w, End::Sent);
    let last = trials(w).into_iter().find(|(_, _, cell, ..)| *cell == Cell::of(2, secs(5), secs(5)));
    assert_eq!(last.map(|(.., tried, passed)| (tried, passed)), Some((1, 1)));
}

// REQ LN-1
fn so_many_destinations_are_told_apart_and_the_rest_together(w: &mut World<impl Fresh>) {
    for number in 0..DESTINATIONS + 3 {
        retried(w, to(&format!("host-{number:02}.example")));
    }
    retried(w, to("host-00.example"));
    let seen = trials(w);
    assert_eq!(seen.len(), DESTINATIONS + 1);
    assert_eq!((seen[0].1.as_deref(), seen[0].3), (None, 3), "{seen:?}");
    assert_eq!((seen[1].1.as_deref(), seen[1].3), (Some("host-00.example"), 2));
}

// REQ AU-3
fn a_person_is_no_destination(w: &mut World<impl Fresh>) {
    let person = "+5511987654321";
    retried(w, Draft { body: Body { to: person.into(), ..Body::default() }, ..to(person) });
    let seen = trials(w);
    assert_eq!(seen.iter().map(|(_, destination, ..)| destination.clone()).collect::<Vec<_>>(), [None]);
}

// REQ LN-1
fn names_outlast_reopening(w: &mut World<impl Fresh>) {
    for number in 0..DESTINATIONS {
        retried(w, to(&format!("host-{number:02}.example")));
    }
    w.reopen();
    retried(w, to("late.example"));
    assert_eq!(trials(w)[0].1, None);
    assert_eq!(trials(w).len(), DESTINATIONS + 1);
}

// REQ LN-1
fn what_is_old_is_not_told(w: &mut World<impl Fresh>) {
    retried(w, draft());
    let week = Span::from_hours(7 * 24);
    w.pass(week);
    retried(w, draft());
    let tried = |w: &mut World<_>| trials(w).iter().map(|(.., tried, _)| *tried).sum::<u64>();
    assert_eq!(tried(w), 2);
    for _ in 0..WEEKS - 1 {
        w.pass(week);
    }
    assert_eq!(tried(w), 1);
    w.pass(week);
    assert_eq!(trials(w), []);
}

// invariant 14
fn tenants_learn_apart(w: &mut World<impl Fresh>) {
    retried(w, draft());
    retried(w, of("acme"));
    let acme: Tenant = "acme".parse().unwrap();
    let now = w.now;
    let own = w.read().learnt(Some(&acme), now).unwrap();
    assert_eq!(own.iter().map(|it| (it.tenant.as_str(), it.tried)).collect::<Vec<_>>(), [("acme", 1)]);
    assert_eq!(learnt(w).len(), 2);
}

// invariant 2
fn what_was_not_committed_was_not_learnt(w: &mut World<impl Fresh>) {
    w.through(draft(), End::Retry(secs(1)));
    w.pass(secs(1));
    let claimed = w.claim_one();
    let now = w.now;
    w.core.settle(settlement(&claimed, End::Sent, now), now).unwrap();
    w.reopen();
    w.commit();
    assert_eq!(learnt(w), []);
}

// REQ OB-4
fn what_pombo_tells_people_teaches_nothing(w: &mut World<impl Fresh>) {
    let notice =
        Draft { queue: QueueName { lane: NOTICES.parse().unwrap(), ..queue("crm", "x.example") }, ..draft() };
    w.accept(notice);
    for end in [End::Unreached(secs(0)), End::Sent] {
        let claimed = w.claim_as(ONE, NOTICES, 1).remove(0);
        w.settle(&claimed, end);
    }
    assert_eq!(learnt(w), []);
}

// REQ LN-1
fn an_outage_is_as_long_as_its_breaker(w: &mut World<impl Fresh>) {
    let here = destination("crm", "crm.example");
    let breaker = Block::breaker("it is down".into(), &Limits::default(), w.now);
    w.block(&here, breaker);
    w.accept(draft());
    w.pass(mins(20));
    let probe = w.claim_one();
    assert_eq!(probe.probe.map(|probe| probe.kind), Some(BlockKind::Breaker));
    w.settle(&probe, End::Sent);
    let lesson = Lesson::Outage { destination: Some("crm.example".into()), lasted: Bucket::of(mins(20)) };
    let (tenant, channel) = (Tenant::default(), "crm".parse().unwrap());
    assert_eq!(learnt(w), [Learnt { tenant, channel, lesson, tried: 1, passed: 0 }]);
}

fn a_breaker_that_an_operator_lifts_was_no_outage(w: &mut World<impl Fresh>) {
    let here = destination("crm", "crm.example");
    let breaker = Block::breaker("it is down".into(), &Limits::default(), w.now);
    w.block(&here, breaker);
    w.pass(mins(20));
    assert!(w.unblock(&here));
    assert_eq!(learnt(w), []);
}

/// An error that no rule knows, with these words.
fn unknown(w: &mut World<impl Fresh>, text: &str, end: End) {
    let claimed = w.claim_one();
    let settled = settlement(&claimed, end, w.now);
    let failure = Some(AttemptFailure { text: text.into(), ..failure(Verdict::UnknownTransient) });
    w.settle_with(Settlement {
        attempt: pombo_kernel::message::Attempt { failure, ..settled.attempt },
        ..settled
    });
}

/// What was counted of the words of errors.
fn words(w: &mut World<impl Fresh>) -> Vec<(&'static str, Option<String>, u64, u64)> {
    let word = |it: Learnt| match it.lesson {
        Lesson::Followed { text } => Some(("followed", text, it.tried, it.passed)),
        Lesson::Seen { text } => Some(("seen", text, it.tried, it.passed)),
        _ => None,
    };
    learnt(w).into_iter().filter_map(word).collect()
}

// REQ CF-2, LN-1
fn errors_that_no_rule_knew_are_counted_by_their_words_and_what_came_next(w: &mut World<impl Fresh>) {
    w.accept(draft());
    unknown(w, "busy with job 12345", End::Retry(secs(1)));
    w.pass(secs(1));
    unknown(w, "busy with job 54321", End::Retry(secs(1)));
    w.pass(secs(1));
    go(w, End::Sent);
    w.accept(draft());
    unknown(w, "out of order", End::Failed(FailureReason::MaxRetriesExceeded));
    let text = |text: &str| Some(text.to_owned());
    let expected = [
        ("followed", text("busy with job #"), 2, 1),
        ("seen", text("busy with job #"), 2, 0),
        ("seen", text("out of order"), 1, 1),
    ];
    assert_eq!(words(w), expected);
}

// REQ CF-2
fn so_many_unknown_errors_are_told_apart_and_the_rest_together(w: &mut World<impl Fresh>) {
    for number in 0..ERRORS + 2 {
        w.accept(draft());
        unknown(w, &format!("oddity {number}"), End::Failed(FailureReason::MaxRetriesExceeded));
    }
    let seen = words(w);
    assert_eq!((seen.len(), &seen[0].1, seen[0].2), (ERRORS + 1, &None, 2));
}

// REQ OB-3
fn hours_tell_nothing_of_what_is_learnt(w: &mut World<impl Fresh>) {
    retried(w, draft());
    let wanted = StatsWanted { tenant: None, since: Time::default(), until: Time::MAX, by: By::Hour };
    let told = w.read().stats(&wanted).unwrap();
    assert!(!told.is_empty());
    assert!(told.iter().all(|it| it.what != Counted::Trial), "{told:?}");
}

// REQ LN-1
fn a_claim_says_since_when_its_message_fails(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let first = w.claim_one();
    assert_eq!(first.failing_since, None);
    w.pass(secs(3));
    let failed_at = w.now;
    w.settle(&first, End::Retry(secs(10)));
    for _ in 0..2 {
        w.pass(secs(10));
        let claimed = w.claim_one();
        assert_eq!(claimed.failing_since, Some(failed_at));
        w.settle(&claimed, End::Retry(secs(10)));
    }
    w.pass(secs(10));
    w.claim_as(ONE, "default", 1);
    w.reopen();
    let taken = w.take_over(TWO, 10).remove(0);
    assert_eq!(taken.failing_since, Some(failed_at), "also to whoever takes it over");
    w.settle(&taken, End::Failed(FailureReason::MaxRetriesExceeded));
    assert_eq!(rule(w, Act::Reprocess, &[id]), [Ruled::Done]);
    assert_eq!(w.claim_one().failing_since, None, "another round begins anew");
}
