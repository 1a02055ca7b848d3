//! Deadlines: what is unsent by then is given up, unless it is just being sent.

use pombo_kernel::classify::Scope;
use pombo_kernel::message::{Draft, FailureReason, Progress, State, StateName};
use pombo_store::Counted;

use crate::world::*;

on_every_store! {
    a_message_past_its_deadline_fails,
    a_deadline_is_not_met_early,
    only_as_many_as_asked_for_and_the_earliest_first,
    an_expired_message_is_not_claimed,
    a_message_that_is_being_sent_is_left_to_its_settlement,
    many_that_are_being_sent_do_not_hide_one_that_waits,
    a_message_that_comes_back_unsent_expires_then,
    a_released_message_has_its_deadline_again,
    a_held_message_expires,
    a_message_that_waits_for_its_time_expires,
    a_deadline_that_had_passed_at_acceptance_counts,
    the_next_deadline_is_the_earliest_that_counts,
    after_expiring_the_next_deadline_lies_ahead,
    a_finished_message_has_no_deadline,
    deadlines_survive_reopening,
    an_expired_message_is_counted_as_failed,
}

// REQ RP-6
fn a_message_past_its_deadline_fails(w: &mut World<impl Fresh>) {
    let id = w.accept(until(mins(1)));
    w.pass(mins(2));
    assert_eq!(w.expire(10), 1);
    let story = w.story(id);
    assert_eq!(story.state, State::Failed { at: w.now, reason: FailureReason::Expired });
    assert_eq!((story.updated_at, story.attempts.len()), (w.now, 0));
    assert_eq!(story.progress, Progress { steps: 1, ..Progress::default() });
}

// REQ RP-6
fn a_deadline_is_not_met_early(w: &mut World<impl Fresh>) {
    let id = w.accept(until(mins(1)));
    w.now = START + mins(1) - pombo_kernel::time::Span::from_millis(1);
    assert_eq!(w.expire(10), 0);
    w.is(id, StateName::Pending);
    w.now = START + mins(1);
    assert_eq!(w.expire(10), 1);
    assert_eq!(w.expire(10), 0);
}

fn only_as_many_as_asked_for_and_the_earliest_first(w: &mut World<impl Fresh>) {
    let ids = w.accept_all([3, 1, 2].map(|n| until(mins(n))));
    w.pass(mins(5));
    assert_eq!(w.expire(0), 0);
    assert_eq!(w.expire(2), 2);
    assert_eq!(w.state(ids[0]).name(), StateName::Pending);
    assert_eq!(w.expire(2), 1);
}

// invariant 8
fn an_expired_message_is_not_claimed(w: &mut World<impl Fresh>) {
    w.accept_all((0..5).map(|_| until(mins(1))));
    let lasting = w.accept(until(mins(9)));
    w.pass(mins(1));
    assert_eq!(w.expire(10), 5);
    assert_eq!(w.claimed_ids(10), [lasting]);
    assert_eq!(w.next_due(), None);
}

// REQ RP-6
fn a_message_that_is_being_sent_is_left_to_its_settlement(w: &mut World<impl Fresh>) {
    let id = w.accept(until(mins(1)));
    let claimed = w.claim_one();
    w.pass(mins(2));
    assert_eq!(w.expire(10), 0);
    w.is(id, StateName::Sending);
    w.settle(&claimed, End::Sent);
    assert_eq!(w.expire(10), 0);
    w.is(id, StateName::Sent);
}

fn many_that_are_being_sent_do_not_hide_one_that_waits(w: &mut World<impl Fresh>) {
    w.accept_all((0..5).map(|_| until(mins(1))));
    w.claim(5);
    let waiting = w.accept(until(mins(1)));
    w.pass(mins(1));
    assert_eq!(w.expire(2), 1);
    w.is(waiting, StateName::Failed);
}

fn a_message_that_comes_back_unsent_expires_then(w: &mut World<impl Fresh>) {
    let id = w.accept(until(mins(1)));
    let claimed = w.claim_one();
    w.pass(mins(2));
    assert_eq!(w.expire(10), 0);
    w.settle(&claimed, End::Held(Scope::Destination));
    assert_eq!(w.expire(10), 1);
    assert_eq!(w.state(id), State::Failed { at: w.now, reason: FailureReason::Expired });
    assert_eq!(w.story(id).attempts.len(), 1);
}

fn a_released_message_has_its_deadline_again(w: &mut World<impl Fresh>) {
    let id = w.accept(until(mins(1)));
    let claimed = w.claim_one();
    w.pass(mins(2));
    w.expire(10);
    w.release(claimed.key);
    assert_eq!(w.expire(10), 1);
    w.is(id, StateName::Failed);
}

// REQ RP-6, CF-7
fn a_held_message_expires(w: &mut World<impl Fresh>) {
    w.block(&channel("crm"), by_operator(START));
    let id = w.accept(until(mins(1)));
    w.pass(mins(1));
    assert_eq!(w.expire(10), 1);
    w.is(id, StateName::Failed);
}

fn a_message_that_waits_for_its_time_expires(w: &mut World<impl Fresh>) {
    let id = w.accept(Draft { send_at: Some(START + mins(9)), ..until(mins(1)) });
    let retrying = w.through(until(mins(1)), End::Retry(mins(9)));
    w.pass(mins(1));
    assert_eq!(w.expire(10), 2);
    w.is(id, StateName::Failed);
    w.is(retrying, StateName::Failed);
    w.pass(mins(10));
    assert_eq!(w.claim(10), []);
}

fn a_deadline_that_had_passed_at_acceptance_counts(w: &mut World<impl Fresh>) {
    let id = w.accept(Draft { expires_at: Some(START - mins(1)), ..draft() });
    assert_eq!(w.expire(10), 1);
    w.is(id, StateName::Failed);
}

fn the_next_deadline_is_the_earliest_that_counts(w: &mut World<impl Fresh>) {
    assert_eq!(w.core.next_deadline(), None);
    w.accept_all([until(mins(5)), until(mins(3)), draft(), until(mins(4))]);
    assert_eq!(w.core.next_deadline(), Some(START + mins(3)));
}

fn after_expiring_the_next_deadline_lies_ahead(w: &mut World<impl Fresh>) {
    w.accept(until(mins(1)));
    w.claim_one();
    w.accept_all([until(mins(2)), until(mins(9))]);
    w.pass(mins(3));
    assert_eq!(w.expire(10), 1);
    assert_eq!(w.core.next_deadline(), Some(START + mins(9)));
}

fn a_finished_message_has_no_deadline(w: &mut World<impl Fresh>) {
    w.through(until(mins(1)), End::Sent);
    let cancelled = w.accept(until(mins(2)));
    w.cancel(cancelled);
    w.pass(mins(5));
    assert_eq!(w.expire(10), 0);
    assert_eq!(w.core.next_deadline(), None);
    w.is(cancelled, StateName::Cancelled);
}

fn deadlines_survive_reopening(w: &mut World<impl Fresh>) {
    let id = w.accept(until(mins(1)));
    w.reopen();
    assert_eq!(w.core.next_deadline(), Some(START + mins(1)));
    w.pass(mins(1));
    assert_eq!(w.expire(10), 1);
    w.is(id, StateName::Failed);
}

fn an_expired_message_is_counted_as_failed(w: &mut World<impl Fresh>) {
    w.accept(until(mins(1)));
    w.pass(mins(1));
    w.expire(10);
    assert_eq!((w.tally(Counted::Failed), w.tally(Counted::Attempts)), (1, 0));
}
