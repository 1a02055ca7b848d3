//! Dead letters that are sent again: a new round with its time, its order and its key.

use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Draft, FailureReason, Progress, State, StateName};
use pombo_store::dead::{Act, Edited, Ruled};
use pombo_store::{Cancelled, Counted, Settled};

use crate::dead::{again, counts, dead, edit, edit_of, failed, groups, rule, ruling};
use crate::world::*;

on_every_store! {
    a_reprocessed_message_is_due_at_once_in_a_new_round,
    a_reprocessed_message_keeps_the_history_of_earlier_rounds,
    a_reprocessed_message_leaves_its_group,
    a_reprocessed_message_that_fails_again_comes_back_to_its_group,
    a_message_can_fail_and_go_again_in_one_commit,
    a_reprocessed_message_can_be_claimed_in_the_same_commit,
    a_reprocessed_message_is_tried_before,
    a_reprocessed_message_has_as_much_time_as_it_had,
    each_round_has_as_much_time_as_the_first,
    a_deadline_that_was_renewed_ends_with_its_message,
    a_reprocessed_message_goes_last_in_its_order,
    a_reprocessed_message_alone_in_its_order_goes_at_once,
    a_reprocessed_message_that_waits_in_its_order_can_be_cancelled_and_expires,
    the_order_of_reprocessed_messages_survives_reopening,
    a_new_round_has_a_new_key_for_the_provider,
    a_round_after_an_unknown_outcome_keeps_the_key,
    a_round_after_an_edit_has_a_new_key,
    the_key_of_a_round_lasts_through_retries_take_over_and_reopening,
}

// REQ DL-4
fn a_reprocessed_message_is_due_at_once_in_a_new_round(w: &mut World<impl Fresh>) {
    let id = w.through(draft(), End::Retry(secs(1)));
    w.pass(secs(1));
    let claimed = w.claim_one();
    w.settle(&claimed, End::Failed(FailureReason::PermanentError));
    w.pass(mins(5));
    again(w, id);
    let story = w.story(id);
    assert_eq!((story.state, story.updated_at), (State::Pending { due: w.now }, w.now));
    let progress = Progress { round: 1, steps: 3, keyed: 1, ..Progress::default() };
    assert_eq!(story.progress, progress);
    assert_eq!(w.next_due(), Some(w.now));
    let claimed = w.claim_one();
    assert_eq!((claimed.message.id, claimed.progress), (id, progress));
    assert_eq!(w.settle(&claimed, End::Sent), Settled::Done);
    w.is(id, StateName::Sent);
}

// REQ DL-4
fn a_reprocessed_message_keeps_the_history_of_earlier_rounds(w: &mut World<impl Fresh>) {
    let id = failed(w);
    for round in 1..4 {
        again(w, id);
        let claimed = w.claim_one();
        assert_eq!((claimed.progress.round, claimed.progress.attempts), (round, 0));
        w.settle(&claimed, End::Failed(FailureReason::PermanentError));
    }
    let rounds: Vec<(u16, u16)> =
        w.story(id).attempts.iter().map(|attempt| (attempt.round, attempt.number)).collect();
    assert_eq!(rounds, [(0, 1), (1, 1), (2, 1), (3, 1)]);
    assert_eq!((w.tally(Counted::Failed), w.tally(Counted::Reprocessed)), (4, 3));
}

// REQ DL-4
fn a_reprocessed_message_leaves_its_group(w: &mut World<impl Fresh>) {
    let [first, second] = [failed(w), failed(w)];
    again(w, first);
    assert_eq!((counts(w), dead(w)), (vec![1], vec![second]));
    again(w, second);
    assert_eq!((groups(w), dead(w)), (vec![], vec![]));
}

fn a_reprocessed_message_that_fails_again_comes_back_to_its_group(w: &mut World<impl Fresh>) {
    let id = failed(w);
    let before = groups(w);
    again(w, id);
    let claimed = w.claim_one();
    w.settle(&claimed, End::Failed(FailureReason::PermanentError));
    assert_eq!((groups(w), dead(w)), (before, vec![id]));
}

fn a_message_can_fail_and_go_again_in_one_commit(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let claimed = w.claim_one();
    let now = w.now;
    let end = End::Failed(FailureReason::PermanentError);
    w.core.settle(settlement(&claimed, end, now), now).unwrap();
    assert_eq!(w.core.rule(&ruling(Act::Reprocess, &[id]), now).unwrap(), Ok(vec![Ruled::Done]));
    let claimed = w.claim_uncommitted(ONE, "default", 10).remove(0);
    w.core.settle(settlement(&claimed, end, now), now).unwrap();
    w.commit();
    assert_eq!((w.story(id).progress.steps, counts(w), dead(w)), (3, vec![1], vec![id]));
}

fn a_reprocessed_message_can_be_claimed_in_the_same_commit(w: &mut World<impl Fresh>) {
    let id = failed(w);
    let now = w.now;
    assert_eq!(w.core.rule(&ruling(Act::Reprocess, &[id]), now).unwrap(), Ok(vec![Ruled::Done]));
    assert_eq!(w.claimed_ids(10), [id]);
}

fn a_reprocessed_message_is_tried_before(w: &mut World<impl Fresh>) {
    let id = failed(w);
    let new = w.accept(draft());
    w.pass(secs(1));
    again(w, id);
    // What was tried before goes first, as far as its budget reaches.
    assert_eq!(w.claimed_ids(10), [id, new]);
}

// REQ DL-4, RP-6
fn a_reprocessed_message_has_as_much_time_as_it_had(w: &mut World<impl Fresh>) {
    let id = w.through(until(mins(10)), End::Failed(FailureReason::PermanentError));
    w.pass(mins(60));
    assert_eq!(w.expire(10), 0);
    again(w, id);
    assert_eq!(w.story(id).message.expires_at, Some(START + mins(70)));
    w.pass(mins(9));
    assert_eq!(w.expire(10), 0);
    w.pass(mins(1));
    assert_eq!(w.expire(10), 1);
    assert!(matches!(w.state(id), State::Failed { reason: FailureReason::Expired, .. }));
}

fn each_round_has_as_much_time_as_the_first(w: &mut World<impl Fresh>) {
    let id = w.through(until(mins(10)), End::Failed(FailureReason::PermanentError));
    for hour in 1..4 {
        w.pass(mins(60));
        again(w, id);
        let deadline = START + mins(60 * hour + 10);
        let claimed = w.claim_one();
        assert_eq!(claimed.message.expires_at, Some(deadline));
        w.settle(&claimed, End::Failed(FailureReason::PermanentError));
    }
    w.pass(mins(60));
    assert_eq!(w.expire(10), 0);
}

fn a_deadline_that_was_renewed_ends_with_its_message(w: &mut World<impl Fresh>) {
    let id = w.through(until(mins(10)), End::Failed(FailureReason::PermanentError));
    w.pass(mins(5));
    again(w, id);
    let claimed = w.claim_one();
    w.settle(&claimed, End::Sent);
    w.pass(mins(60));
    assert_eq!(w.expire(10), 0);
    assert_eq!(w.core.next_deadline().filter(|at| *at <= START + mins(15)), None);
    w.is(id, StateName::Sent);
}

// REQ ML-6, DL-4
fn a_reprocessed_message_goes_last_in_its_order(w: &mut World<impl Fresh>) {
    let ids = w.accept_all((0..3).map(|_| in_order("k")));
    let claimed = w.claim_one();
    w.settle(&claimed, End::Failed(FailureReason::PermanentError));
    again(w, ids[0]);
    w.is(ids[0], StateName::Pending);
    let later = w.accept(in_order("k"));
    for id in [ids[1], ids[2], ids[0], later] {
        let claimed = w.claim_one();
        assert_eq!(claimed.message.id, id);
        w.settle(&claimed, End::Sent);
    }
    assert_eq!(w.claimed_ids(10), []);
}

fn a_reprocessed_message_alone_in_its_order_goes_at_once(w: &mut World<impl Fresh>) {
    let id = w.through(in_order("k"), End::Failed(FailureReason::PermanentError));
    again(w, id);
    let next = w.accept(in_order("k"));
    let claimed = w.claim_one();
    assert_eq!(claimed.message.id, id);
    w.settle(&claimed, End::Sent);
    assert_eq!(w.claimed_ids(10), [next]);
}

fn a_reprocessed_message_that_waits_in_its_order_can_be_cancelled_and_expires(w: &mut World<impl Fresh>) {
    let first = w.through(in_order("k"), End::Failed(FailureReason::PermanentError));
    let second = w.through(
        Draft { ordering_key: Some("k".into()), ..until(mins(1)) },
        End::Failed(FailureReason::PermanentError),
    );
    let head = w.accept(in_order("k"));
    assert_eq!(rule(w, Act::Reprocess, &[second, first]), [Ruled::Done, Ruled::Done]);
    assert_eq!(w.cancel(first), Cancelled::Done);
    w.pass(mins(1));
    assert_eq!(w.expire(10), 1);
    w.is(second, StateName::Failed);
    assert_eq!(w.claimed_ids(10), [head]);
    assert_eq!(dead(w), [second]);
}

fn the_order_of_reprocessed_messages_survives_reopening(w: &mut World<impl Fresh>) {
    let ids = w.accept_all((0..3).map(|_| in_order("k")));
    let claimed = w.claim_one();
    w.settle(&claimed, End::Failed(FailureReason::PermanentError));
    again(w, ids[0]);
    w.reopen();
    for id in [ids[1], ids[2], ids[0]] {
        let claimed = w.claim_one();
        assert_eq!(claimed.message.id, id);
        w.settle(&claimed, End::Sent);
    }
}

fn key_after(w: &mut World<impl Fresh>, id: MessageId) -> u16 {
    again(w, id);
    let claimed = w.claim_one();
    assert_eq!(claimed.message.id, id);
    let keyed = claimed.progress.keyed;
    w.settle(&claimed, End::Failed(FailureReason::OutcomeUnknown));
    keyed
}

// REQ DL-4
fn a_new_round_has_a_new_key_for_the_provider(w: &mut World<impl Fresh>) {
    let id = failed(w);
    assert_eq!(key_after(w, id), 1);
}

// REQ ML-5
fn a_round_after_an_unknown_outcome_keeps_the_key(w: &mut World<impl Fresh>) {
    let id = w.through(draft(), End::Failed(FailureReason::OutcomeUnknown));
    assert_eq!([key_after(w, id), key_after(w, id)], [0, 0]);
    let told = failed(w);
    assert_eq!([key_after(w, told), key_after(w, told)], [1, 1]);
}

// REQ DL-3
fn a_round_after_an_edit_has_a_new_key(w: &mut World<impl Fresh>) {
    let id = w.through(draft(), End::Failed(FailureReason::OutcomeUnknown));
    let change = edit_of(w, id);
    assert_eq!(edit(w, &change), Edited::Done { version: 2 });
    // The same words again, after whose outcome nobody knows either.
    assert_eq!([key_after(w, id), key_after(w, id)], [1, 1]);
}

fn the_key_of_a_round_lasts_through_retries_take_over_and_reopening(w: &mut World<impl Fresh>) {
    let id = failed(w);
    again(w, id);
    let claimed = w.claim_one();
    w.settle(&claimed, End::Retry(secs(1)));
    w.pass(secs(1));
    assert_eq!(w.claim_one().progress.keyed, 1);
    w.reopen();
    let taken = w.take_over(TWO, 10).remove(0);
    assert_eq!((taken.message.id, taken.progress.keyed), (id, 1));
    assert_eq!((taken.progress.round, taken.progress.attempts), (1, 1));
}
