//! A store that sends nothing until a person says so.

use pombo_kernel::message::{Actor, StateName};
use pombo_store::Pause;
use pombo_store::audit::Event;
use pombo_store::core::Reading;

use crate::world::*;

on_every_store! {
    a_paused_store_accepts_and_gives_nothing_out,
    a_paused_store_leaves_messages_in_doubt_where_they_are,
    what_was_claimed_before_a_pause_is_still_settled,
    deadlines_pass_during_a_pause,
    a_pause_outlasts_the_process_and_says_why,
    a_pause_that_was_not_committed_never_was,
    resuming_what_goes_on_changes_nothing,
}

fn pause(w: &mut World<impl Fresh>) {
    let pause = Pause { since: w.now, why: "a backup".into() };
    w.core.pause(&pause, &Actor("ana".into())).unwrap();
    w.commit();
}

fn resume(w: &mut World<impl Fresh>) -> bool {
    let resumed = w.core.resume(&Actor("ana".into()), w.now).unwrap();
    w.commit();
    resumed
}

// fault 13
fn a_paused_store_accepts_and_gives_nothing_out(w: &mut World<impl Fresh>) {
    let before = w.accept(draft());
    pause(w);
    let after = w.accept(to("other.example"));
    assert_eq!((w.claim(10), w.next_due()), (vec![], None));
    w.is(before, StateName::Pending);
    w.is(after, StateName::Pending);
    assert!(resume(w));
    assert_eq!(w.next_due(), Some(w.now));
    assert_eq!(w.claim(10).len(), 2);
    let acts: Vec<Event> =
        w.events().into_iter().filter(|event| matches!(event, Event::Paused | Event::Resumed)).collect();
    assert_eq!(acts, [Event::Paused, Event::Resumed]);
    let record = w.audit().into_iter().find(|record| record.event == Event::Paused).unwrap();
    assert_eq!((record.actor.as_str(), record.detail.as_str()), ("ana", r#"{"reason":"a backup"}"#));
}

fn a_paused_store_leaves_messages_in_doubt_where_they_are(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    w.claim_one();
    pause(w);
    w.pass(mins(10));
    assert_eq!(w.take_over(TWO, 10), []);
    w.is(id, StateName::Sending);
    resume(w);
    assert_eq!(w.take_over(TWO, 10).len(), 1);
}

fn what_was_claimed_before_a_pause_is_still_settled(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    w.heartbeat(ONE, mins(1));
    let claimed = w.claim_one();
    pause(w);
    w.settle(&claimed, End::Sent);
    w.is(id, StateName::Sent);
}

fn deadlines_pass_during_a_pause(w: &mut World<impl Fresh>) {
    let id = w.accept(until(secs(10)));
    pause(w);
    w.pass(secs(20));
    assert_eq!(w.expire(10), 1);
    w.is(id, StateName::Failed);
}

fn a_pause_outlasts_the_process_and_says_why(w: &mut World<impl Fresh>) {
    w.accept(draft());
    assert_eq!(w.read().paused().unwrap(), None);
    pause(w);
    w.reopen();
    assert_eq!(w.read().paused().unwrap(), Some(Pause { since: START, why: "a backup".into() }));
    assert_eq!((w.claim(10), w.next_due()), (vec![], None));
    resume(w);
    w.reopen();
    assert_eq!(w.read().paused().unwrap(), None);
    assert_eq!(w.claim(10).len(), 1);
}

fn a_pause_that_was_not_committed_never_was(w: &mut World<impl Fresh>) {
    w.accept(draft());
    w.core.pause(&Pause { since: w.now, why: "no".into() }, &Actor("ana".into())).unwrap();
    w.reopen();
    assert_eq!(w.read().paused().unwrap(), None);
    assert_eq!(w.claim(10).len(), 1);
}

fn resuming_what_goes_on_changes_nothing(w: &mut World<impl Fresh>) {
    w.accept(draft());
    let before = w.events();
    assert!(!resume(w));
    assert_eq!(w.events(), before);
}
