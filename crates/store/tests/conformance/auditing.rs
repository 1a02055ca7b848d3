//! The audit: one record for each transition, in order, from which every state can be told again.

use std::collections::BTreeMap;

use pombo_kernel::classify::Scope;
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Actor, FailureReason, StateName};
use pombo_kernel::name::Tenant;
use pombo_store::audit::{Event, Record, Walk};
use pombo_store::core::Reading;
use pombo_store::shelf::{Expect, Shelf, Shelve, Shelved};
use pombo_store::transition::act_of;
use pombo_store::{Counted, Filter};
use serde_json::json;

use crate::world::*;

on_every_store! {
    each_transition_has_one_record,
    a_record_says_who_what_where_and_when,
    attempts_are_described,
    what_changes_nothing_is_not_recorded,
    replaying_the_records_gives_every_state,
    positions_have_no_gaps_and_pages_join,
    a_commit_says_the_position_after_its_last_record,
    a_commit_without_news_seals_nothing,
    one_commit_is_one_block_and_the_chain_holds,
    the_chain_goes_on_after_reopening,
    the_chain_can_be_read_and_followed_in_pieces,
    a_record_can_be_left_without_a_document,
    the_counters_add_up,
    counters_are_per_tenant_and_channel_and_sorted,
}

/// A day with a little of everything.
fn a_full_day(w: &mut World<impl Fresh>) {
    w.through(draft(), End::Sent);
    w.through(in_order("k"), End::Failed(FailureReason::PermanentError));
    w.through(in_order("k"), End::Retry(mins(1)));
    w.accept_all([in_order("k"), until(mins(2)), until(mins(3)), of("acme")]);
    let cancelled = w.accept(later(mins(30)));
    w.cancel(cancelled);
    w.pass(mins(2));
    w.expire(10);
    let taken = w.claim(3);
    w.release(taken[0].key);
    w.take_over(TWO, 1);
    w.through(to("held"), End::Held(Scope::Destination));
    w.through(to("paused"), End::Paused(Scope::Channel, mins(1)));
    w.unblock(&destination("crm", "held"));
}

// REQ AU-1, invariant 12
fn each_transition_has_one_record(w: &mut World<impl Fresh>) {
    w.accept_all([draft(), draft(), draft(), until(mins(1)), draft()]);
    let taken = w.claim(3);
    w.settle(&taken[0], End::Sent);
    w.settle(&taken[1], End::Failed(FailureReason::PermanentError));
    w.settle(&taken[2], End::Retry(mins(60)));
    w.pass(mins(1));
    w.expire(10);
    let claimed = w.claim_one();
    w.release(claimed.key);
    w.claim_one();
    let taken = w.take_over(TWO, 10);
    w.settle(&taken[0], End::Held(Scope::Destination));
    w.cancel(taken[0].message.id);
    w.unblock(&destination("crm", "crm.example"));
    use Event::*;
    let expected = [
        Accepted,
        Accepted,
        Accepted,
        Accepted,
        Accepted,
        Claimed,
        Claimed,
        Claimed,
        Sent,
        Failed,
        RetryScheduled,
        Expired,
        Claimed,
        Released,
        Claimed,
        TakenOver,
        Held,
        Blocked,
        Cancelled,
        Unblocked,
    ];
    assert_eq!(w.events(), expected);
}

// REQ AU-1
fn a_record_says_who_what_where_and_when(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    w.pass(secs(1));
    let claimed = w.claim_one();
    w.pass(secs(1));
    w.release(claimed.key);
    w.pass(secs(1));
    w.cancel(id);
    let record = |event, secs_after, from, to, actor: &str| Record {
        event,
        at: START + secs(secs_after),
        message: Some(id),
        from,
        to,
        tenant: "default".into(),
        channel: "crm".into(),
        actor: actor.into(),
        detail: "{}".into(),
    };
    let (pending, sending) = (Some(StateName::Pending), Some(StateName::Sending));
    let expected = [
        record(Event::Accepted, 0, None, pending, "pombo"),
        record(Event::Claimed, 1, pending, sending, "pombo"),
        record(Event::Released, 2, sending, pending, "pombo"),
        record(Event::Cancelled, 3, pending, Some(StateName::Cancelled), "ana"),
    ];
    assert_eq!(w.audit(), expected);
}

// REQ AU-1
fn attempts_are_described(w: &mut World<impl Fresh>) {
    w.accept(later(secs(1)));
    w.pass(secs(1));
    for end in
        [End::Retry(secs(0)), End::Held(Scope::Destination), End::Failed(FailureReason::MaxRetriesExceeded)]
    {
        let claimed = w.claim_one();
        w.settle(&claimed, end);
        w.unblock(&destination("crm", "crm.example"));
    }
    w.through(draft(), End::Sent);
    w.accept(until(secs(1)));
    w.expire(1);
    let details: Vec<_> = w
        .audit()
        .into_iter()
        .filter(|record| !matches!(record.event, Event::Claimed | Event::Unblocked))
        .map(|record| record.detail)
        .collect();
    let due = (START + secs(1)).millis();
    let until = (START + secs(31)).millis();
    let expected = [
        format!(r#"{{"due":{due}}}"#),
        format!(r#"{{"attempt":1,"round":0,"verdict":"transient","category":"busy","due":{due}}}"#),
        format!(r#"{{"attempt":2,"round":0,"verdict":"sender_fault","category":"unauthorized","due":{due}}}"#),
        format!(r#"{{"reason":"401","destination":"crm.example","kind":"hold","until":{until}}}"#),
        r#"{"attempt":2,"round":0,"verdict":"permanent","category":"invalid_recipient","reason":"max_retries_exceeded"}"#.into(),
        "{}".into(),
        r#"{"attempt":1,"round":0}"#.into(),
        "{}".into(),
        r#"{"reason":"expired"}"#.into(),
    ];
    assert_eq!(details, expected);
}

fn what_changes_nothing_is_not_recorded(w: &mut World<impl Fresh>) {
    a_full_day(w);
    let before = w.audit();
    w.heartbeat(ONE, secs(1));
    w.claim_as(ONE, "empty-lane", 10);
    w.expire(10);
    w.unblock(&channel("nothing"));
    let id = before[0].message.unwrap();
    w.cancel(id);
    assert_eq!(w.audit(), before);
}

/// What the records alone say of every message.
fn replayed(records: &[Record]) -> BTreeMap<MessageId, StateName> {
    let mut states = BTreeMap::new();
    for record in records.iter().filter(|record| record.message.is_some()) {
        let id = record.message.unwrap();
        let before = states.insert(id, record.to.unwrap());
        assert_eq!(before, record.from, "{record:?}");
    }
    states
}

// invariants 1 and 12
fn replaying_the_records_gives_every_state(w: &mut World<impl Fresh>) {
    a_full_day(w);
    let mut listed = BTreeMap::new();
    for tenant in ["default", "acme"] {
        let filter = Filter { tenant: tenant.parse().unwrap(), ..Filter::default() };
        listed.extend(w.list(&filter, 100).iter().map(|line| (line.message.id, line.state.name())));
    }
    assert_eq!(replayed(&w.audit()), listed);
}

fn positions_have_no_gaps_and_pages_join(w: &mut World<impl Fresh>) {
    a_full_day(w);
    let all = w.read().audit(0, usize::MAX).unwrap();
    assert!(all.iter().zip(0..).all(|((position, _), n)| *position == n));
    for size in [1, 3, 7] {
        let mut joined = Vec::new();
        loop {
            let page = w.read().audit(joined.len() as u64, size).unwrap();
            if page.is_empty() {
                break;
            }
            joined.extend(page);
        }
        assert_eq!(joined, all);
    }
    assert_eq!(w.read().audit(all.len() as u64 + 5, 10).unwrap(), []);
    assert_eq!(w.read().audit(0, 0).unwrap(), []);
}

fn a_commit_says_the_position_after_its_last_record(w: &mut World<impl Fresh>) {
    assert_eq!(w.commit(), 0);
    let now = w.now;
    for _ in 0..3 {
        w.core.accept(draft(), now).unwrap().unwrap();
    }
    assert_eq!(w.commit(), 3);
    assert_eq!(w.commit(), 3);
}

fn a_commit_without_news_seals_nothing(w: &mut World<impl Fresh>) {
    w.accept(draft());
    w.heartbeat(ONE, secs(60));
    w.commit();
    let verified = w.read().verify().unwrap();
    assert_eq!((verified.blocks, verified.records, verified.broken), (1, 1, None));
}

// REQ AU-1
fn one_commit_is_one_block_and_the_chain_holds(w: &mut World<impl Fresh>) {
    assert_eq!(w.read().verify().unwrap().blocks, 0);
    w.accept_all((0..10).map(|_| draft()));
    w.claim(10);
    let verified = w.read().verify().unwrap();
    assert_eq!((verified.blocks, verified.records, verified.broken), (2, 20, None));
    a_full_day(w);
    assert_eq!(w.read().verify().unwrap().broken, None);
}

// REQ AU-1
fn the_chain_goes_on_after_reopening(w: &mut World<impl Fresh>) {
    for _ in 0..3 {
        w.through(draft(), End::Sent);
        w.reopen();
    }
    let verified = w.read().verify().unwrap();
    assert_eq!((verified.records, verified.broken), (w.audit().len() as u64, None));
}

// REQ AU-1
fn the_chain_can_be_read_and_followed_in_pieces(w: &mut World<impl Fresh>) {
    a_full_day(w);
    let whole = w.read().chain(0, usize::MAX).unwrap();
    let verified = w.read().verify().unwrap();
    assert_eq!((whole.len() as u64, verified.broken), (verified.blocks, None));
    for size in [1, 3, whole.len()] {
        let mut walk = Walk::default();
        let mut joined = Vec::new();
        loop {
            let piece = w.read().chain(walk.tip.sequence, size).unwrap();
            assert!(piece.len() <= size);
            joined.extend(piece.clone());
            if !walk.on(&piece) {
                break;
            }
        }
        assert_eq!((walk.verified(), &joined), (verified, &whole));
    }
    assert_eq!(w.read().chain(verified.blocks, 10).unwrap(), []);
    assert_eq!(w.read().chain(u64::MAX, 10).unwrap(), []);
}

// REQ AU-1: an export changes no document.
fn a_record_can_be_left_without_a_document(w: &mut World<impl Fresh>) {
    let record =
        act_of(Event::Exported, &Tenant::default(), &Actor("ana".into()), &json!({"what": "audit"}), w.now);
    let wish = Shelve {
        shelf: Shelf::Cursor,
        tenant: Tenant::default(),
        id: "export".to_owned(),
        expect: Expect::Nothing,
        leaf: None,
        record: Some(record.clone()),
    };
    for _ in 0..2 {
        let now = w.now;
        assert_eq!(w.core.shelve(&wish, now).unwrap(), Shelved::Done { version: 0 });
        w.commit();
    }
    assert_eq!(w.audit(), [record.clone(), record]);
    assert_eq!(w.read().doc(Shelf::Cursor, &Tenant::default(), "export").unwrap(), None);
}

// invariant 1
fn the_counters_add_up(w: &mut World<impl Fresh>) {
    a_full_day(w);
    let states: Vec<_> = replayed(&w.audit()).into_values().collect();
    let now = |state| states.iter().filter(|found| **found == state).count() as u64;
    assert_eq!(w.tally(Counted::Accepted), states.len() as u64);
    assert_eq!(w.tally(Counted::Sent), now(StateName::Sent));
    assert_eq!(w.tally(Counted::Failed), now(StateName::Failed));
    assert_eq!(w.tally(Counted::Cancelled), now(StateName::Cancelled));
    let events = w.events();
    let settled =
        |event: &&Event| matches!(event, Event::Sent | Event::RetryScheduled | Event::Failed | Event::Held);
    assert_eq!(w.tally(Counted::Attempts), events.iter().filter(settled).count() as u64);
    let retries = events.iter().filter(|event| **event == Event::RetryScheduled).count();
    assert_eq!(w.tally(Counted::Retries), retries as u64);
}

// invariant 14
fn counters_are_per_tenant_and_channel_and_sorted(w: &mut World<impl Fresh>) {
    w.accept_all([
        draft(),
        of("acme"),
        of("acme"),
        pombo_kernel::message::Draft { queue: queue("a", "x"), ..draft() },
    ]);
    w.through(draft(), End::Sent);
    let tallies = w.read().tallies().unwrap();
    assert!(tallies.is_sorted());
    let shown: Vec<_> =
        tallies.iter().map(|t| (t.tenant.as_str(), t.channel.as_str(), t.what, t.count)).collect();
    let expected = [
        ("acme", "crm", Counted::Accepted, 2),
        ("default", "a", Counted::Accepted, 1),
        ("default", "crm", Counted::Accepted, 2),
        ("default", "crm", Counted::Sent, 1),
        ("default", "crm", Counted::Attempts, 1),
    ];
    assert_eq!(shown, expected);
}
