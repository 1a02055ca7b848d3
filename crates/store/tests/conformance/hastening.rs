//! Waiting messages that are let go at once.

use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::message::{Draft, State, StateName};
use pombo_store::audit::Event;
use pombo_store::dead::Hastened;
use pombo_store::{Cancelled, Claimed};

use crate::dead::{failed, hasten};
use crate::world::*;

on_every_store! {
    a_waiting_message_is_hastened,
    a_message_that_waits_for_its_retry_is_hastened,
    a_message_that_waits_in_its_order_is_hastened,
    a_message_that_is_due_is_not_hastened_again,
    what_does_not_wait_cannot_be_hastened,
    a_hastened_message_still_expires_and_can_be_cancelled,
    hastening_survives_reopening,
}

/// It waits until then, is hastened, and can be claimed at once.
fn goes_now(w: &mut World<impl Fresh>, id: MessageId) -> Claimed {
    assert!(matches!(w.state(id), State::Pending { due } if due > w.now));
    let before = w.story(id);
    assert_eq!(w.claim(10), []);
    assert_eq!(hasten(w, id), Hastened::Done);
    let story = w.story(id);
    assert_eq!(story.state, State::Pending { due: w.now });
    assert_eq!((story.progress, story.updated_at), (before.progress, before.updated_at));
    assert_eq!(w.next_due(), Some(w.now));
    let claimed = w.claim_one();
    assert_eq!(claimed.message.id, id);
    claimed
}

// REQ ML-6
fn a_waiting_message_is_hastened(w: &mut World<impl Fresh>) {
    let id = w.accept(later(mins(60)));
    w.pass(secs(1));
    let claimed = goes_now(w, id);
    w.settle(&claimed, End::Sent);
    let record = w.audit().into_iter().find(|record| record.event == Event::Hastened).unwrap();
    assert_eq!((record.message, record.actor.as_str()), (Some(id), "ana"));
}

fn a_message_that_waits_for_its_retry_is_hastened(w: &mut World<impl Fresh>) {
    let id = w.through(draft(), End::Retry(mins(60)));
    let claimed = goes_now(w, id);
    assert_eq!(claimed.progress.attempts, 1);
    assert_eq!(w.story(id).attempts[0].next_delay, Some(mins(60)), "what was decided stays on record");
}

fn a_message_that_waits_in_its_order_is_hastened(w: &mut World<impl Fresh>) {
    let first = w.accept(in_order("k"));
    let second = w.accept(Draft { ordering_key: Some("k".into()), ..later(mins(60)) });
    assert_eq!(hasten(w, second), Hastened::Done);
    assert_eq!(w.state(second), State::Pending { due: w.now });
    let claimed = w.claim_one();
    assert_eq!(claimed.message.id, first);
    w.settle(&claimed, End::Sent);
    assert_eq!(w.claimed_ids(10), [second]);
}

fn a_message_that_is_due_is_not_hastened_again(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let behind = w.accept_all([in_order("k"), in_order("k")])[1];
    w.pass(secs(1));
    let records = w.audit().len();
    assert_eq!([hasten(w, id), hasten(w, behind)], [Hastened::Done; 2]);
    assert_eq!(w.state(id), State::Pending { due: START });
    assert_eq!(w.audit().len(), records);
}

fn what_does_not_wait_cannot_be_hastened(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let claimed = w.claim_one();
    assert_eq!(hasten(w, id), Hastened::NotWaiting(StateName::Sending));
    w.settle(&claimed, End::Sent);
    assert_eq!(hasten(w, id), Hastened::NotWaiting(StateName::Sent));
    let dead = failed(w);
    assert_eq!(hasten(w, dead), Hastened::NotWaiting(StateName::Failed));
    let gone = w.accept(later(mins(5)));
    w.cancel(gone);
    assert_eq!(hasten(w, gone), Hastened::NotWaiting(StateName::Cancelled));
    assert_eq!(hasten(w, MessageId::new(MessageKey::at(START), 1)), Hastened::NotFound);
}

fn a_hastened_message_still_expires_and_can_be_cancelled(w: &mut World<impl Fresh>) {
    let late = w.accept(Draft { send_at: Some(START + mins(60)), ..until(mins(1)) });
    let unwanted = w.accept(later(mins(60)));
    assert_eq!([hasten(w, late), hasten(w, unwanted)], [Hastened::Done; 2]);
    assert_eq!(w.cancel(unwanted), Cancelled::Done);
    w.pass(mins(1));
    assert_eq!(w.expire(10), 1);
    w.is(late, StateName::Failed);
    assert_eq!(w.claim(10), []);
}

fn hastening_survives_reopening(w: &mut World<impl Fresh>) {
    let id = w.accept(later(mins(60)));
    let again = w.through(draft(), End::Retry(mins(60)));
    assert_eq!([hasten(w, id), hasten(w, again)], [Hastened::Done; 2]);
    w.reopen();
    let mut taken = w.claimed_ids(10);
    taken.sort();
    assert_eq!(taken, [id, again]);
}
