//! Taking over from a holder that is gone, and never from one that lives.

use pombo_kernel::message::{Progress, State, StateName};
use pombo_store::{Cancelled, NodeId, Settled};

use crate::world::*;

on_every_store! {
    the_claims_of_a_dead_node_are_taken_over,
    the_claims_of_a_living_node_are_left_alone,
    a_lease_ends_at_the_millisecond_it_says,
    a_heartbeat_extends_the_lease,
    a_heartbeat_that_comes_late_does_not_shorten_the_lease,
    a_claim_that_was_taken_from_its_holder_stays_so,
    a_node_that_never_said_it_lives_has_no_lease,
    only_as_many_as_asked_for_and_the_oldest_claims_first,
    an_age_alone_takes_nothing_over,
    the_old_holder_can_change_nothing,
    the_new_holder_settles_as_usual,
    a_taken_over_message_is_still_being_sent,
    what_was_taken_over_can_be_taken_over_again,
    settled_and_released_messages_are_not_taken_over,
    a_part_of_a_claim_can_be_taken_over,
    a_lease_does_not_outlive_what_it_says_by_reopening,
    after_reopening_the_doubtful_are_exactly_the_unsettled,
    a_message_claimed_again_is_in_doubt_once,
}

// REQ ML-4
fn the_claims_of_a_dead_node_are_taken_over(w: &mut World<impl Fresh>) {
    w.heartbeat(ONE, secs(60));
    let id = w.accept(draft());
    let old = w.claim_one();
    w.pass(secs(90));
    w.heartbeat(TWO, secs(60));
    let taken = w.take_over(TWO, 10);
    assert_eq!(taken.len(), 1);
    assert_eq!((taken[0].message.id, taken[0].claimed_at, taken[0].probe), (id, w.now, None));
    assert_eq!(taken[0].progress, Progress::default());
    assert!(taken[0].key.claim > old.key.claim);
}

// REQ ML-4
fn the_claims_of_a_living_node_are_left_alone(w: &mut World<impl Fresh>) {
    w.heartbeat(ONE, secs(60));
    w.accept(draft());
    let claimed = w.claim_one();
    w.pass(secs(59));
    assert_eq!(w.take_over(TWO, 10), []);
    assert_eq!(w.settle(&claimed, End::Sent), Settled::Done);
}

// fault 47
fn a_heartbeat_that_comes_late_does_not_shorten_the_lease(w: &mut World<impl Fresh>) {
    w.heartbeat(ONE, secs(60));
    w.accept(draft());
    w.claim_one();
    w.heartbeat(ONE, secs(45));
    w.pass(secs(59));
    assert_eq!(w.take_over(TWO, 10), []);
}

// fault 43
fn a_claim_that_was_taken_from_its_holder_stays_so(w: &mut World<impl Fresh>) {
    w.heartbeat(ONE, secs(60));
    w.accept(draft());
    let claimed = w.claim_one();
    w.core.disown(claimed.key);
    w.commit();
    w.reopen();
    w.reopen();
    assert_eq!(w.take_over(TWO, 10).len(), 1);
    assert_eq!(w.settle(&claimed, End::Sent), Settled::Stale);
}

fn a_lease_ends_at_the_millisecond_it_says(w: &mut World<impl Fresh>) {
    w.heartbeat(ONE, secs(60));
    w.accept(draft());
    w.claim_one();
    w.now = START + secs(60);
    assert_eq!(w.take_over(TWO, 10).len(), 1);
}

// REQ ML-4
fn a_heartbeat_extends_the_lease(w: &mut World<impl Fresh>) {
    w.heartbeat(ONE, secs(60));
    w.accept(draft());
    w.claim_one();
    for _ in 0..10 {
        w.pass(secs(50));
        assert_eq!(w.take_over(TWO, 10), []);
        w.heartbeat(ONE, secs(60));
    }
}

fn a_node_that_never_said_it_lives_has_no_lease(w: &mut World<impl Fresh>) {
    w.accept(draft());
    w.claim_as(NodeId(77), "default", 1);
    assert_eq!(w.take_over(TWO, 10).len(), 1);
}

fn only_as_many_as_asked_for_and_the_oldest_claims_first(w: &mut World<impl Fresh>) {
    let low = w.accept_all((0..3).map(|_| urgent(1)));
    let first: Vec<_> = w.claimed_ids(3);
    assert_eq!(first, low);
    let high = w.accept_all((0..2).map(|_| urgent(9)));
    w.claim(2);
    w.heartbeat(TWO, secs(60));
    let mut taken: Vec<_> = w.take_over(TWO, 2).iter().map(|claimed| claimed.message.id).collect();
    taken.extend(w.take_over(TWO, 0).iter().map(|claimed| claimed.message.id));
    taken.extend(w.take_over(TWO, 10).iter().map(|claimed| claimed.message.id));
    assert_eq!(taken, [low, high].concat());
}

// promise 7: never by age alone
fn an_age_alone_takes_nothing_over(w: &mut World<impl Fresh>) {
    w.accept(draft());
    w.claim_one();
    w.pass(mins(600));
    w.heartbeat(ONE, secs(60));
    assert_eq!(w.take_over(TWO, 10), []);
}

// invariant 4, faults 17 and 47
fn the_old_holder_can_change_nothing(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let old = w.claim_one();
    let new = w.take_over(TWO, 10).remove(0);
    let before = (w.story(id), w.audit());
    assert_eq!(w.settle(&old, End::Sent), Settled::Stale);
    assert_eq!(w.release(old.key), Settled::Stale);
    assert_eq!((w.story(id), w.audit()), before);
    assert_eq!(w.settle(&new, End::Retry(secs(1))), Settled::Done);
    assert_eq!(w.settle(&old, End::Sent), Settled::Stale);
}

fn the_new_holder_settles_as_usual(w: &mut World<impl Fresh>) {
    let ids = w.accept_all([draft(), draft()]);
    w.claim(2);
    let new = w.take_over(TWO, 10);
    assert_eq!(w.settle(&new[0], End::Sent), Settled::Done);
    assert_eq!(w.release(new[1].key), Settled::Done);
    w.is(ids[0], StateName::Sent);
    assert_eq!(w.state(ids[1]), State::Pending { due: START });
}

// fault 62
fn a_taken_over_message_is_still_being_sent(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    w.claim_one();
    w.pass(secs(5));
    let new = w.take_over(TWO, 10).remove(0);
    assert_eq!(w.state(id), State::Sending { claim: new.key.claim, since: w.now });
    assert_eq!(w.cancel(id), Cancelled::TooLate(StateName::Sending));
    assert_eq!(w.claim(10), []);
}

fn what_was_taken_over_can_be_taken_over_again(w: &mut World<impl Fresh>) {
    w.accept(draft());
    let mut last = w.claim_one();
    for node in 2..6 {
        let taken = w.take_over(NodeId(node), 10).remove(0);
        assert!(taken.key.claim > last.key.claim);
        assert_eq!(w.settle(&last, End::Sent), Settled::Stale);
        last = taken;
    }
    assert_eq!(w.settle(&last, End::Sent), Settled::Done);
}

fn settled_and_released_messages_are_not_taken_over(w: &mut World<impl Fresh>) {
    let ids = w.accept_all((0..4).map(|_| draft()));
    let taken = w.claim(4);
    w.settle(&taken[0], End::Sent);
    w.settle(&taken[1], End::Retry(mins(1)));
    w.release(taken[2].key);
    let doubtful: Vec<_> = w.take_over(TWO, 10).iter().map(|claimed| claimed.message.id).collect();
    assert_eq!(doubtful, [ids[3]]);
}

fn a_part_of_a_claim_can_be_taken_over(w: &mut World<impl Fresh>) {
    let ids = w.accept_all((0..3).map(|_| draft()));
    let old = w.claim(3);
    w.heartbeat(TWO, secs(60));
    let new = w.take_over(TWO, 1);
    assert_eq!(w.settle(&old[0], End::Sent), Settled::Stale);
    assert_eq!(w.settle(&old[1], End::Sent), Settled::Done);
    w.reopen();
    assert_eq!(w.settle(&new[0], End::Sent), Settled::Done);
    assert_eq!(w.settle(&old[2], End::Sent), Settled::Done);
    for id in ids {
        w.is(id, StateName::Sent);
    }
}

fn a_lease_does_not_outlive_what_it_says_by_reopening(w: &mut World<impl Fresh>) {
    w.heartbeat(ONE, secs(60));
    w.accept(draft());
    w.claim_one();
    w.reopen();
    w.pass(secs(60));
    assert_eq!(w.take_over(TWO, 10).len(), 1);
}

// promise 7, invariant 11
fn after_reopening_the_doubtful_are_exactly_the_unsettled(w: &mut World<impl Fresh>) {
    let ids = w.accept_all((0..6).map(|_| draft()));
    let taken = w.claim(5);
    w.settle(&taken[1], End::Sent);
    w.settle(&taken[2], End::Retry(mins(1)));
    w.release(taken[3].key);
    w.reopen();
    let doubtful = w.take_over(TWO, 10);
    let found: Vec<_> = doubtful.iter().map(|claimed| claimed.message.id).collect();
    assert_eq!(found, [ids[0], ids[4]]);
    assert_eq!(doubtful[0].message, taken[0].message);
    assert_eq!(w.claimed_ids(10), [ids[3], ids[5]]);
}

fn a_message_claimed_again_is_in_doubt_once(w: &mut World<impl Fresh>) {
    let ids = w.accept_all([draft(), draft()]);
    let first = w.claim(2);
    w.release(first[1].key);
    let second = w.claim_one();
    w.reopen();
    w.is(ids[1], StateName::Sending);
    let doubtful = w.take_over(TWO, 10);
    assert_eq!(doubtful.iter().map(|claimed| claimed.message.id).collect::<Vec<_>>(), ids);
    assert_eq!(w.settle(&second, End::Sent), Settled::Stale);
    w.settle(&doubtful[0], End::Sent);
    w.settle(&doubtful[1], End::Retry(secs(0)));
    w.reopen();
    assert_eq!(w.take_over(ONE, 10), []);
    assert_eq!(w.claimed_ids(10), [ids[1]]);
}
