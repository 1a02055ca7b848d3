//! Settling and releasing: a result is recorded once, by whoever holds the claim.

use pombo_kernel::classify::{Scope, Verdict};
use pombo_kernel::message::{AttemptOutcome, ClaimId, ClaimKey, FailureReason, Progress, State, StateName};
use pombo_kernel::reply::Receipt;
use pombo_store::{Cancelled, Counted, Settled, Settlement};

use crate::world::*;

on_every_store! {
    a_sent_message_keeps_its_receipt,
    a_receipt_without_an_id_is_kept_as_well,
    a_failed_attempt_is_tried_again_when_it_is_due,
    a_retry_without_delay_goes_at_once,
    every_reason_to_fail_is_kept,
    a_held_message_waits_as_if_nothing_had_been_tried,
    a_result_is_dated_by_the_end_of_its_attempt,
    the_history_keeps_every_attempt,
    a_failure_is_kept_word_for_word,
    progress_is_what_the_settlement_says,
    a_released_message_goes_back_to_its_place_uncharged,
    a_released_message_can_be_claimed_by_another,
    settling_twice_changes_nothing,
    a_settlement_under_another_claim_changes_nothing,
    a_settlement_of_an_unknown_message_changes_nothing,
    a_settlement_of_a_message_nobody_claimed_changes_nothing,
    a_settlement_after_release_changes_nothing,
    a_release_after_settlement_changes_nothing,
    releasing_twice_changes_nothing,
    an_old_claim_on_a_message_claimed_again_changes_nothing,
    a_stale_settlement_leaves_blocks_alone,
    the_messages_of_one_claim_are_settled_each_on_its_own,
    a_finished_message_never_moves_again,
    a_claim_and_its_result_may_share_a_commit,
    counters_follow_every_settlement,
}

// REQ ML-9
fn a_sent_message_keeps_its_receipt(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let claimed = w.claim_one();
    w.pass(secs(2));
    assert_eq!(w.settle(&claimed, End::Sent), Settled::Done);
    let story = w.story(id);
    assert_eq!(story.state, State::Sent { at: w.now, receipt: receipt() });
    assert_eq!((story.updated_at, story.attempts.len()), (w.now, 1));
    assert_eq!(story.attempts[0].outcome, AttemptOutcome::Sent);
}

fn a_receipt_without_an_id_is_kept_as_well(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let claimed = w.claim_one();
    let mut sent = settlement(&claimed, End::Sent, w.now);
    sent.next = pombo_kernel::lifecycle::Next::Sent(Receipt::default());
    w.settle_with(sent);
    assert_eq!(w.state(id), State::Sent { at: w.now, receipt: Receipt::default() });
}

// REQ RP-8
fn a_failed_attempt_is_tried_again_when_it_is_due(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let claimed = w.claim_one();
    w.settle(&claimed, End::Retry(secs(5)));
    assert_eq!(w.state(id), State::Pending { due: START + secs(5) });
    assert_eq!(w.next_due(), Some(START + secs(5)));
    w.pass(secs(4));
    assert_eq!(w.claim(10), []);
    w.pass(secs(1));
    assert_eq!(w.claimed_ids(10), [id]);
}

fn a_retry_without_delay_goes_at_once(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let claimed = w.claim_one();
    w.settle(&claimed, End::Retry(secs(0)));
    assert_eq!(w.claimed_ids(10), [id]);
}

// REQ RP-3, RP-6, ML-5
fn every_reason_to_fail_is_kept(w: &mut World<impl Fresh>) {
    for reason in FailureReason::ALL {
        let id = w.through(draft(), End::Failed(*reason));
        assert_eq!(w.state(id), State::Failed { at: w.now, reason: *reason });
    }
    assert_eq!(w.claim(10), []);
}

// REQ CF-7
fn a_held_message_waits_as_if_nothing_had_been_tried(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    w.pass(secs(1));
    let claimed = w.claim_one();
    w.pass(secs(1));
    w.settle(&claimed, End::Held(Scope::Destination));
    let story = w.story(id);
    assert_eq!(story.state, State::Pending { due: START + secs(2) });
    assert_eq!((story.progress.attempts, story.progress.steps), (0, 1));
    assert_eq!(story.attempts[0].outcome, AttemptOutcome::Held);
    assert_eq!(w.claim(10), []);
}

fn a_result_is_dated_by_the_end_of_its_attempt(w: &mut World<impl Fresh>) {
    for end in [End::Sent, End::Failed(FailureReason::PermanentError), End::Held(Scope::Destination)] {
        let id = w.accept(draft());
        let claimed = w.claim_one();
        let ended_at = w.now + secs(1);
        w.pass(secs(7));
        w.settle_with(settlement(&claimed, end, ended_at));
        assert_eq!(w.story(id).updated_at, ended_at);
        match w.state(id) {
            State::Sent { at, .. } | State::Failed { at, .. } | State::Pending { due: at } => {
                assert_eq!(at, ended_at, "{end:?}");
            }
            state => panic!("{state:?}"),
        }
    }
}

// REQ DL-1, ML-10
fn the_history_keeps_every_attempt(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let ends = [
        End::Retry(secs(5)),
        End::Retry(secs(30)),
        End::Held(Scope::Destination),
        End::Failed(FailureReason::MaxRetriesExceeded),
    ];
    let mut expected = Vec::new();
    for end in ends {
        let claimed = w.claim_one();
        w.pass(secs(1));
        let settlement = settlement(&claimed, end, w.now);
        expected.push(settlement.attempt.clone());
        w.settle_with(settlement);
        w.pass(mins(1));
    }
    let story = w.story(id);
    assert_eq!(story.attempts, expected);
    assert_eq!(story.progress, Progress { attempts: 3, steps: 4, ..Progress::default() });
}

// REQ DL-1
fn a_failure_is_kept_word_for_word(w: &mut World<impl Fresh>) {
    for verdict in [Verdict::Transient, Verdict::Permanent, Verdict::UnknownTransient, Verdict::SenderFault] {
        let id = w.accept(draft());
        let claimed = w.claim_one();
        let mut failed = settlement(&claimed, End::Failed(FailureReason::OutcomeUnknown), w.now);
        let mut failure = failure(verdict);
        failure.perhaps_sent = true;
        failure.rule = Some("smtp:gmail-rate".into());
        failure.code = None;
        failed.attempt.failure = Some(failure.clone());
        failed.attempt.explanation = "nobody knows".into();
        w.settle_with(failed);
        let attempts = w.story(id).attempts;
        assert_eq!(attempts[0].failure, Some(failure));
        assert_eq!(attempts[0].explanation, "nobody knows");
    }
}

// fault 33
fn progress_is_what_the_settlement_says(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let claimed = w.claim_one();
    let mut crashed = settlement(&claimed, End::Retry(secs(0)), w.now);
    crashed.progress.crashes = 2;
    let progress = crashed.progress;
    w.settle_with(crashed);
    assert_eq!(w.story(id).progress, progress);
    assert_eq!(w.claim_one().progress, progress);
}

// promise: waits that we cause cost no attempt
fn a_released_message_goes_back_to_its_place_uncharged(w: &mut World<impl Fresh>) {
    let ids = w.accept_all([draft(), draft(), draft()]);
    w.pass(secs(5));
    let first = w.claim(1).remove(0);
    assert_eq!(w.release(first.key), Settled::Done);
    let story = w.story(ids[0]);
    assert_eq!(story.state, State::Pending { due: START });
    assert_eq!((story.progress, story.attempts.len()), (Progress::default(), 0));
    assert_eq!(w.claimed_ids(10), ids);
}

fn a_released_message_can_be_claimed_by_another(w: &mut World<impl Fresh>) {
    w.accept(draft());
    let first = w.claim_one();
    w.release(first.key);
    let second = w.claim_as(TWO, "default", 1).remove(0);
    assert_ne!(second.key, first.key);
    assert_eq!(w.settle(&first, End::Sent), Settled::Stale);
    assert_eq!(w.settle(&second, End::Sent), Settled::Done);
}

/// That this was stale, and nothing at all was changed by it.
fn stale<C: Fresh>(w: &mut World<C>, act: impl FnOnce(&mut World<C>) -> Settled) {
    let all = pombo_store::Filter::default();
    let before = (w.list(&all, 100), w.audit(), w.blocks(), w.next_due());
    assert_eq!(act(w), Settled::Stale);
    assert_eq!((w.list(&all, 100), w.audit(), w.blocks(), w.next_due()), before);
}

// REQ ML-4, invariants 3 and 4, fault 47
fn settling_twice_changes_nothing(w: &mut World<impl Fresh>) {
    for end in [End::Sent, End::Retry(secs(0)), End::Failed(FailureReason::Expired)] {
        w.accept(draft());
        let claimed = w.claim(1).remove(0);
        assert_eq!(w.settle(&claimed, end), Settled::Done);
        stale(w, |w| w.settle(&claimed, End::Failed(FailureReason::PermanentError)));
        stale(w, |w| w.settle(&claimed, End::Sent));
    }
}

// invariant 4, fault 47
fn a_settlement_under_another_claim_changes_nothing(w: &mut World<impl Fresh>) {
    w.accept_all([draft(), draft()]);
    let (one, two) = (w.claim(1).remove(0), w.claim(1).remove(0));
    let swapped = ClaimKey { claim: two.key.claim, ..one.key };
    stale(w, |w| w.settle_with(Settlement { key: swapped, ..settlement(&one, End::Sent, START) }));
    stale(w, |w| w.release(swapped));
    stale(w, |w| w.release(ClaimKey { claim: ClaimId(9_999), ..one.key }));
}

fn a_settlement_of_an_unknown_message_changes_nothing(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let claimed = w.claim_one();
    let unknown = pombo_kernel::id::MessageId::new(id.key(), id.nonce() ^ 1);
    let key = ClaimKey { message: unknown, ..claimed.key };
    stale(w, |w| w.settle_with(Settlement { key, ..settlement(&claimed, End::Sent, START) }));
    stale(w, |w| w.release(key));
}

fn a_settlement_of_a_message_nobody_claimed_changes_nothing(w: &mut World<impl Fresh>) {
    w.accept(draft());
    let claimed = w.claim_one();
    let other = w.accept(draft());
    let key = ClaimKey { message: other, ..claimed.key };
    stale(w, |w| w.settle_with(Settlement { key, ..settlement(&claimed, End::Sent, START) }));
    stale(w, |w| w.release(key));
}

fn a_settlement_after_release_changes_nothing(w: &mut World<impl Fresh>) {
    w.accept(draft());
    let claimed = w.claim_one();
    w.release(claimed.key);
    stale(w, |w| w.settle(&claimed, End::Sent));
}

fn a_release_after_settlement_changes_nothing(w: &mut World<impl Fresh>) {
    w.accept_all([draft(), draft()]);
    let taken = w.claim(2);
    w.settle(&taken[0], End::Sent);
    w.settle(&taken[1], End::Retry(secs(9)));
    stale(w, |w| w.release(taken[0].key));
    stale(w, |w| w.release(taken[1].key));
}

fn releasing_twice_changes_nothing(w: &mut World<impl Fresh>) {
    w.accept(draft());
    let claimed = w.claim_one();
    assert_eq!(w.release(claimed.key), Settled::Done);
    stale(w, |w| w.release(claimed.key));
}

// invariant 4
fn an_old_claim_on_a_message_claimed_again_changes_nothing(w: &mut World<impl Fresh>) {
    w.accept(draft());
    let old = w.claim_one();
    w.settle(&old, End::Retry(secs(0)));
    let new = w.claim_one();
    stale(w, |w| w.settle(&old, End::Sent));
    stale(w, |w| w.release(old.key));
    assert_eq!(w.settle(&new, End::Sent), Settled::Done);
}

// invariant 4, REQ CF-7
fn a_stale_settlement_leaves_blocks_alone(w: &mut World<impl Fresh>) {
    w.accept_all([draft(), draft()]);
    let taken = w.claim(2);
    w.settle(&taken[0], End::Sent);
    stale(w, |w| w.settle(&taken[0], End::Held(Scope::Channel)));
    w.settle(&taken[1], End::Held(Scope::Channel));
    let mut lifting = settlement(&taken[0], End::Sent, START);
    lifting.block = pombo_kernel::block::BlockChange::Lift;
    stale(w, |w| w.settle_with(lifting));
    assert_eq!(w.blocks().len(), 1);
}

fn the_messages_of_one_claim_are_settled_each_on_its_own(w: &mut World<impl Fresh>) {
    let ids = w.accept_all((0..4).map(|_| draft()));
    let taken = w.claim(4);
    w.settle(&taken[2], End::Sent);
    w.is(ids[1], StateName::Sending);
    w.settle(&taken[0], End::Retry(mins(1)));
    w.release(taken[3].key);
    w.settle(&taken[1], End::Failed(FailureReason::PermanentError));
    let states: Vec<_> = ids.into_iter().map(|id| w.state(id).name()).collect();
    assert_eq!(states, [StateName::Pending, StateName::Failed, StateName::Sent, StateName::Pending]);
}

// invariant 3
fn a_finished_message_never_moves_again(w: &mut World<impl Fresh>) {
    let sent = w.through(draft(), End::Sent);
    let failed = w.through(draft(), End::Failed(FailureReason::PermanentError));
    let cancelled = w.accept(until(mins(1)));
    w.cancel(cancelled);
    let before = [sent, failed, cancelled].map(|id| w.story(id));
    w.pass(mins(60));
    assert_eq!((w.claim(10), w.expire(10), w.take_over(TWO, 10)), (vec![], 0, vec![]));
    assert_eq!(w.cancel(sent), Cancelled::TooLate(StateName::Sent));
    assert_eq!([sent, failed, cancelled].map(|id| w.story(id)), before);
}

fn a_claim_and_its_result_may_share_a_commit(w: &mut World<impl Fresh>) {
    let now = w.now;
    let id = w.core.accept(draft(), now).unwrap().unwrap().id;
    let claimed = w.claim_uncommitted(ONE, "default", 1).remove(0);
    assert_eq!(w.settle(&claimed, End::Retry(secs(0))), Settled::Done);
    assert_eq!(w.state(id), State::Pending { due: now });
    let claimed = w.claim_uncommitted(ONE, "default", 1).remove(0);
    assert_eq!(w.settle(&claimed, End::Sent), Settled::Done);
    assert_eq!(w.story(id).attempts.len(), 2);
}

// REQ OB-1
fn counters_follow_every_settlement(w: &mut World<impl Fresh>) {
    w.through(draft(), End::Sent);
    w.through(draft(), End::Retry(mins(9)));
    w.through(draft(), End::Failed(FailureReason::PermanentError));
    w.through(draft(), End::Held(Scope::Destination));
    let counts = Counted::ALL.map(|what| w.tally(what));
    // accepted, sent, failed, cancelled, discarded, attempts, retries
    assert_eq!(counts[..7], [4, 1, 1, 0, 0, 4, 1]);
}
