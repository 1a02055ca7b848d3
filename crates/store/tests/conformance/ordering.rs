//! Ordering keys: one at a time, in order, and nobody else waits.

use pombo_kernel::classify::Scope;
use pombo_kernel::message::{Draft, FailureReason, Priority, StateName};
use pombo_store::{Cancelled, Settled};

use crate::world::*;

on_every_store! {
    only_the_head_of_a_key_can_be_claimed,
    a_sent_head_lets_the_next_one_go,
    a_failed_head_lets_the_next_one_go,
    a_cancelled_head_lets_the_next_one_go,
    an_expired_head_lets_the_next_one_go,
    a_retrying_head_blocks_its_own_key_only,
    a_released_head_is_still_the_head,
    a_held_head_keeps_its_key,
    a_cancelled_message_that_waits_just_leaves,
    an_expired_message_that_waits_just_leaves,
    order_is_the_order_of_acceptance_whatever_the_priority,
    the_next_one_still_waits_for_its_own_time,
    a_key_holds_over_channels_and_lanes,
    keys_belong_to_a_tenant,
    a_key_that_ran_empty_starts_anew,
    a_whole_key_goes_out_one_by_one,
    order_survives_reopening,
    a_waiting_message_does_not_count_as_due,
}

fn three(w: &mut World<impl Fresh>) -> [pombo_kernel::id::MessageId; 3] {
    w.accept_all([in_order("k"), in_order("k"), in_order("k")]).try_into().unwrap()
}

// REQ ML-6
fn only_the_head_of_a_key_can_be_claimed(w: &mut World<impl Fresh>) {
    let [first, second, _] = three(w);
    assert_eq!(w.claimed_ids(10), [first]);
    assert_eq!(w.claimed_ids(10), []);
    w.is(second, StateName::Pending);
}

fn after_the_end(w: &mut World<impl Fresh>, end: End) {
    let [first, second, third] = three(w);
    let claimed = w.claim_one();
    assert_eq!(claimed.message.id, first);
    w.settle(&claimed, end);
    assert_eq!(w.claimed_ids(10), [second]);
    w.is(third, StateName::Pending);
}

// REQ ML-6
fn a_sent_head_lets_the_next_one_go(w: &mut World<impl Fresh>) {
    after_the_end(w, End::Sent);
}

// REQ ML-6
fn a_failed_head_lets_the_next_one_go(w: &mut World<impl Fresh>) {
    after_the_end(w, End::Failed(FailureReason::PermanentError));
}

// REQ ML-6
fn a_cancelled_head_lets_the_next_one_go(w: &mut World<impl Fresh>) {
    let [first, second, _] = three(w);
    assert_eq!(w.cancel(first), Cancelled::Done);
    assert_eq!(w.claimed_ids(10), [second]);
}

// REQ ML-6, RP-6
fn an_expired_head_lets_the_next_one_go(w: &mut World<impl Fresh>) {
    w.accept(Draft { ordering_key: Some("k".into()), send_at: Some(START + mins(9)), ..until(mins(1)) });
    let second = w.accept(in_order("k"));
    assert_eq!(w.claimed_ids(10), []);
    w.pass(mins(1));
    assert_eq!(w.expire(10), 1);
    assert_eq!(w.claimed_ids(10), [second]);
}

// REQ ML-6
fn a_retrying_head_blocks_its_own_key_only(w: &mut World<impl Fresh>) {
    let [first, ..] = three(w);
    let other = w.accept(in_order("other"));
    let loose = w.accept(draft());
    let claimed = w.claim(1).remove(0);
    w.settle(&claimed, End::Retry(mins(1)));
    assert_eq!(w.claimed_ids(10), [other, loose]);
    w.pass(mins(1));
    assert_eq!(w.claimed_ids(10), [first]);
}

fn a_released_head_is_still_the_head(w: &mut World<impl Fresh>) {
    let [first, ..] = three(w);
    let claimed = w.claim_one();
    assert_eq!(w.release(claimed.key), Settled::Done);
    assert_eq!(w.claimed_ids(10), [first]);
}

// REQ ML-6, CF-7
fn a_held_head_keeps_its_key(w: &mut World<impl Fresh>) {
    let [first, ..] = three(w);
    let claimed = w.claim_one();
    w.settle(&claimed, End::Held(Scope::Destination));
    assert_eq!(w.claimed_ids(10), []);
    assert!(w.unblock(&destination("crm", "crm.example")));
    assert_eq!(w.claimed_ids(10), [first]);
}

fn a_cancelled_message_that_waits_just_leaves(w: &mut World<impl Fresh>) {
    let [first, second, third] = three(w);
    assert_eq!(w.cancel(second), Cancelled::Done);
    w.is(second, StateName::Cancelled);
    let claimed = w.claim_one();
    assert_eq!(claimed.message.id, first);
    assert_eq!(w.claimed_ids(10), []);
    w.settle(&claimed, End::Sent);
    assert_eq!(w.claimed_ids(10), [third]);
}

fn an_expired_message_that_waits_just_leaves(w: &mut World<impl Fresh>) {
    let first = w.accept(in_order("k"));
    let second = w.accept(Draft { ordering_key: Some("k".into()), ..until(mins(1)) });
    let third = w.accept(in_order("k"));
    let claimed = w.claim_one();
    w.pass(mins(1));
    assert_eq!(w.expire(10), 1);
    w.is(second, StateName::Failed);
    w.is(first, StateName::Sending);
    assert_eq!(w.claimed_ids(10), []);
    w.settle(&claimed, End::Sent);
    assert_eq!(w.claimed_ids(10), [third]);
}

// REQ ML-6
fn order_is_the_order_of_acceptance_whatever_the_priority(w: &mut World<impl Fresh>) {
    let first = w.accept(in_order("k"));
    let second = w.accept(Draft { priority: Priority::new(0).unwrap(), ..in_order("k") });
    let third = w.accept(Draft { priority: Priority::HIGHEST, ..in_order("k") });
    for id in [first, second, third] {
        let claimed = w.claim_one();
        assert_eq!(claimed.message.id, id);
        w.settle(&claimed, End::Sent);
    }
}

fn the_next_one_still_waits_for_its_own_time(w: &mut World<impl Fresh>) {
    w.accept(in_order("k"));
    let second = w.accept(Draft { ordering_key: Some("k".into()), ..later(mins(5)) });
    let claimed = w.claim_one();
    w.settle(&claimed, End::Sent);
    assert_eq!(w.claimed_ids(10), []);
    assert_eq!(w.next_due(), Some(START + mins(5)));
    w.pass(mins(5));
    assert_eq!(w.claimed_ids(10), [second]);
}

fn a_key_holds_over_channels_and_lanes(w: &mut World<impl Fresh>) {
    w.accept(in_order("k"));
    let second = w.accept(Draft { ordering_key: Some("k".into()), ..on_lane("bulk") });
    assert_eq!(w.claim_as(ONE, "bulk", 10), []);
    let claimed = w.claim_one();
    w.settle(&claimed, End::Sent);
    assert_eq!(w.claim_as(ONE, "bulk", 10)[0].message.id, second);
}

// invariant 14
fn keys_belong_to_a_tenant(w: &mut World<impl Fresh>) {
    w.accept(in_order("k"));
    w.accept(Draft { ordering_key: Some("k".into()), ..of("acme") });
    assert_eq!(w.claim(10).len(), 2);
}

fn a_key_that_ran_empty_starts_anew(w: &mut World<impl Fresh>) {
    w.through(in_order("k"), End::Sent);
    let again = w.accept(in_order("k"));
    assert_eq!(w.claimed_ids(10), [again]);
}

fn a_whole_key_goes_out_one_by_one(w: &mut World<impl Fresh>) {
    let ids = w.accept_all((0..30).map(|_| in_order("k")));
    for id in ids {
        let claimed = w.claim_one();
        assert_eq!(claimed.message.id, id);
        w.settle(&claimed, End::Sent);
    }
    assert_eq!(w.claim(10), []);
}

fn order_survives_reopening(w: &mut World<impl Fresh>) {
    let [first, second, _] = three(w);
    w.reopen();
    let claimed = w.claim_one();
    assert_eq!(claimed.message.id, first);
    w.settle(&claimed, End::Sent);
    w.reopen();
    assert_eq!(w.claimed_ids(10), [second]);
}

fn a_waiting_message_does_not_count_as_due(w: &mut World<impl Fresh>) {
    three(w);
    w.claim_one();
    assert_eq!(w.next_due(), None);
}
