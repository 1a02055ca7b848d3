//! Cancelling: only what still waits, once, and on record.

use pombo_kernel::classify::Scope;
use pombo_kernel::message::{Actor, FailureReason, Progress, State, StateName};
use pombo_store::{Cancelled, Counted};

use crate::world::*;

on_every_store! {
    a_pending_message_is_cancelled,
    a_message_of_the_same_commit_is_cancelled,
    a_scheduled_message_is_cancelled,
    a_message_that_waits_for_its_retry_is_cancelled,
    a_held_message_is_cancelled,
    a_released_message_is_cancelled,
    a_message_that_is_being_sent_cannot_be_cancelled,
    a_finished_message_cannot_be_cancelled,
    a_cancelled_message_cannot_be_cancelled_again,
    an_unknown_message_is_not_found,
    a_message_of_another_tenant_is_not_found,
    a_cancelled_message_is_never_sent,
    a_cancellation_is_counted,
}

/// Cancels it, and checks that it is gone for good.
fn gone(w: &mut World<impl Fresh>, id: pombo_kernel::id::MessageId) {
    assert_eq!(w.cancel(id), Cancelled::Done);
    let story = w.story(id);
    assert_eq!(story.state, State::Cancelled { at: w.now, by: Actor("ana".into()) });
    assert_eq!(story.updated_at, w.now);
    w.pass(mins(600));
    assert_eq!(w.claim(10), []);
}

// REQ ML-6
fn a_pending_message_is_cancelled(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    w.pass(secs(1));
    gone(w, id);
    assert_eq!(w.story(id).progress, Progress { steps: 1, ..Progress::default() });
}

fn a_message_of_the_same_commit_is_cancelled(w: &mut World<impl Fresh>) {
    let now = w.now;
    let id = w.core.accept(draft(), now).unwrap().unwrap().id;
    gone(w, id);
}

// REQ ML-6
fn a_scheduled_message_is_cancelled(w: &mut World<impl Fresh>) {
    let id = w.accept(later(mins(9)));
    gone(w, id);
}

fn a_message_that_waits_for_its_retry_is_cancelled(w: &mut World<impl Fresh>) {
    let id = w.through(draft(), End::Retry(mins(1)));
    gone(w, id);
    assert_eq!((w.story(id).attempts.len(), w.story(id).progress.attempts), (1, 1));
}

// REQ CF-7
fn a_held_message_is_cancelled(w: &mut World<impl Fresh>) {
    let id = w.through(draft(), End::Held(Scope::Channel));
    gone(w, id);
}

fn a_released_message_is_cancelled(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    w.pass(secs(1));
    let claimed = w.claim_one();
    w.release(claimed.key);
    gone(w, id);
}

// fault 62
fn a_message_that_is_being_sent_cannot_be_cancelled(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let claimed = w.claim_one();
    assert_eq!(w.cancel(id), Cancelled::TooLate(StateName::Sending));
    w.settle(&claimed, End::Sent);
    w.is(id, StateName::Sent);
}

// invariant 3
fn a_finished_message_cannot_be_cancelled(w: &mut World<impl Fresh>) {
    let sent = w.through(draft(), End::Sent);
    let failed = w.through(draft(), End::Failed(FailureReason::PermanentError));
    assert_eq!(w.cancel(sent), Cancelled::TooLate(StateName::Sent));
    assert_eq!(w.cancel(failed), Cancelled::TooLate(StateName::Failed));
}

fn a_cancelled_message_cannot_be_cancelled_again(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    w.cancel(id);
    let before = w.audit().len();
    assert_eq!(w.cancel_as(&Default::default(), id, "rui"), Cancelled::TooLate(StateName::Cancelled));
    assert_eq!(w.audit().len(), before);
    assert_eq!(w.state(id), State::Cancelled { at: START, by: Actor("ana".into()) });
}

fn an_unknown_message_is_not_found(w: &mut World<impl Fresh>) {
    let id = pombo_kernel::id::MessageId::new(pombo_kernel::id::MessageKey::at(START), 1);
    assert_eq!(w.cancel(id), Cancelled::NotFound);
    assert_eq!(w.audit().len(), 0);
}

// invariant 14
fn a_message_of_another_tenant_is_not_found(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    assert_eq!(w.cancel_as(&"acme".parse().unwrap(), id, "eve"), Cancelled::NotFound);
    w.is(id, StateName::Pending);
}

// invariant 8
fn a_cancelled_message_is_never_sent(w: &mut World<impl Fresh>) {
    let ids = w.accept_all((0..20).map(|_| draft()));
    for id in &ids[5..15] {
        assert_eq!(w.cancel(*id), Cancelled::Done);
    }
    assert_eq!(w.claimed_ids(100), [&ids[..5], &ids[15..]].concat());
    assert_eq!(w.next_due(), None);
}

fn a_cancellation_is_counted(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    w.cancel(id);
    w.cancel(id);
    assert_eq!((w.tally(Counted::Cancelled), w.tally(Counted::Failed)), (1, 0));
}
