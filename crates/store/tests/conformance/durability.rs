//! Reopening: everything that was committed, and nothing that was not.

use pombo_kernel::block::Block;
use pombo_kernel::classify::Scope;
use pombo_kernel::message::{Actor, FailureReason, StateName};
use pombo_kernel::name::Tenant;
use pombo_store::audit::Record;
use pombo_store::core::Reading;
use pombo_store::shelf::{Doc, Expect, Leaf, Pick, Shelf, Shelve, Wanted};
use pombo_store::{Accepted, Counted, Filter, Line, Place, Repeat, Settled, Story, Tally};

use crate::world::*;

on_every_store! {
    everything_committed_is_there_after_reopening,
    reopening_twice_changes_nothing,
    an_accept_that_was_not_committed_never_happened,
    a_claim_that_was_not_committed_never_happened,
    a_settlement_that_was_not_committed_never_happened,
    a_cancellation_that_was_not_committed_never_happened,
    an_expiry_that_was_not_committed_never_happened,
    a_block_that_was_not_committed_never_happened,
    a_lift_that_was_not_committed_never_happened,
    a_takeover_that_was_not_committed_never_happened,
    a_document_that_was_not_committed_never_happened,
    what_waits_can_be_claimed_after_reopening,
    ids_go_on_rising_after_reopening,
    a_claim_survives_reopening_and_can_be_settled,
    an_idempotency_key_survives_reopening,
    a_reader_follows_the_writer,
}

fn full(w: &mut World<impl Fresh>) {
    w.through(once("a", 1), End::Sent);
    w.through(draft(), End::Failed(FailureReason::OutcomeUnknown));
    w.through(draft(), End::Retry(mins(1)));
    w.through(to("held"), End::Held(Scope::Destination));
    w.accept_all([in_order("k"), in_order("k"), later(mins(1)), until(mins(5)), on_lane("bulk")]);
    let cancelled = w.accept(draft());
    w.cancel(cancelled);
    w.core.shelve(&document("a"), w.now).unwrap();
    w.claim(2);
}

/// Everything that can be read.
#[derive(Debug, PartialEq)]
struct Seen {
    lines: Vec<Line>,
    stories: Vec<Story>,
    tallies: Vec<Tally>,
    audit: Vec<Record>,
    blocks: Vec<(Place, Block)>,
    docs: Vec<Doc>,
}

fn document(id: &str) -> Shelve {
    let leaf = Leaf { order: 1, topic: None, due: None, body: "{}".into() };
    let (shelf, tenant, expect) = (Shelf::Key, Tenant::default(), Expect::Nothing);
    Shelve { shelf, tenant, id: id.into(), expect, leaf: Some(leaf), record: None }
}

fn seen(w: &mut World<impl Fresh>) -> Seen {
    let all = Wanted { shelf: Shelf::Key, tenant: None, pick: Pick::All { after: None }, limit: 10 };
    let lines = w.list(&Filter::default(), 100);
    Seen {
        stories: lines.iter().map(|line| w.story(line.message.id)).collect(),
        lines,
        tallies: w.read().tallies().unwrap(),
        audit: w.audit(),
        blocks: w.blocks(),
        docs: w.read().docs(&all).unwrap(),
    }
}

// promise 1
fn everything_committed_is_there_after_reopening(w: &mut World<impl Fresh>) {
    full(w);
    let before = seen(w);
    w.reopen();
    assert_eq!(seen(w), before);
}

fn reopening_twice_changes_nothing(w: &mut World<impl Fresh>) {
    full(w);
    w.reopen();
    w.commit();
    let before = seen(w);
    w.reopen();
    w.reopen();
    assert_eq!(seen(w), before);
}

/// Does something without committing it, and checks that reopening undoes it whole.
fn undone<C: Fresh, T>(w: &mut World<C>, act: impl FnOnce(&mut World<C>) -> T) {
    let before = seen(w);
    act(w);
    w.reopen();
    assert_eq!(seen(w), before);
    w.commit();
    assert_eq!(seen(w), before);
    assert_eq!(w.read().verify().unwrap().broken, None);
}

// invariant 2
fn an_accept_that_was_not_committed_never_happened(w: &mut World<impl Fresh>) {
    undone(w, |w| w.core.accept(once("k", 1), START).unwrap().unwrap());
    undone(w, |w| w.core.accept(until(mins(1)), START).unwrap().unwrap());
    assert_eq!(w.claim(10), []);
    assert_eq!(w.offer(once("k", 2)).unwrap().repeat, Repeat::First);
    assert_eq!(w.tally(Counted::Accepted), 1);
}

fn a_claim_that_was_not_committed_never_happened(w: &mut World<impl Fresh>) {
    full(w);
    w.accept(draft());
    undone(w, |w| w.claim_uncommitted(ONE, "default", 10));
}

// invariant 2
fn a_settlement_that_was_not_committed_never_happened(w: &mut World<impl Fresh>) {
    for end in
        [End::Sent, End::Retry(secs(1)), End::Failed(FailureReason::Expired), End::Held(Scope::Channel)]
    {
        let id = w.accept(draft());
        let claimed = w.claim_one();
        undone(w, |w| w.core.settle(settlement(&claimed, end, START), START).unwrap());
        w.is(id, StateName::Sending);
        assert_eq!(w.settle(&claimed, End::Sent), Settled::Done);
    }
}

fn a_cancellation_that_was_not_committed_never_happened(w: &mut World<impl Fresh>) {
    let ids = w.accept_all([in_order("k"), in_order("k")]);
    undone(w, |w| w.core.cancel(&Default::default(), ids[0], &Actor("ana".into()), START).unwrap());
    assert_eq!(w.claimed_ids(10), [ids[0]]);
}

fn an_expiry_that_was_not_committed_never_happened(w: &mut World<impl Fresh>) {
    let id = w.accept(until(mins(1)));
    undone(w, |w| w.core.expire(10, START + mins(1)).unwrap());
    w.pass(mins(1));
    assert_eq!(w.expire(10), 1);
    w.is(id, StateName::Failed);
}

fn a_block_that_was_not_committed_never_happened(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let place = channel("crm");
    undone(w, |w| w.core.block(&place, by_operator(START), &Actor("ana".into()), START).unwrap());
    assert_eq!(w.claimed_ids(10), [id]);
}

fn a_lift_that_was_not_committed_never_happened(w: &mut World<impl Fresh>) {
    w.accept(draft());
    let place = channel("crm");
    w.block(&place, by_operator(START));
    undone(w, |w| w.core.unblock(&place, &Actor("ana".into()), START).unwrap());
    assert_eq!(w.claim(10), []);
}

fn a_takeover_that_was_not_committed_never_happened(w: &mut World<impl Fresh>) {
    w.accept(draft());
    let claimed = w.claim_one();
    undone(w, |w| w.core.take_over(TWO, 10, START).unwrap());
    assert_eq!(w.settle(&claimed, End::Sent), Settled::Done);
}

fn a_document_that_was_not_committed_never_happened(w: &mut World<impl Fresh>) {
    let wish = document("b");
    undone(w, |w| w.core.shelve(&wish, START).unwrap());
}

// promise 7
fn what_waits_can_be_claimed_after_reopening(w: &mut World<impl Fresh>) {
    let ids = w.accept_all([urgent(1), urgent(9), to("elsewhere"), later(mins(1))]);
    w.reopen();
    assert_eq!(w.next_due(), Some(START));
    assert_eq!(w.claimed_ids(10), [ids[1], ids[0], ids[2]]);
    assert_eq!(w.next_due(), Some(START + mins(1)));
}

fn ids_go_on_rising_after_reopening(w: &mut World<impl Fresh>) {
    let before = w.accept(draft());
    w.reopen();
    let after = w.accept(draft());
    assert!(after > before);
    assert_ne!(after.nonce(), before.nonce());
}

// promise 2
fn a_claim_survives_reopening_and_can_be_settled(w: &mut World<impl Fresh>) {
    let ids = w.accept_all([draft(), draft()]);
    let taken = w.claim(2);
    w.reopen();
    assert_eq!(w.settle(&taken[0], End::Sent), Settled::Done);
    w.reopen();
    assert_eq!(w.settle(&taken[0], End::Sent), Settled::Stale);
    assert_eq!(w.release(taken[1].key), Settled::Done);
    w.reopen();
    assert_eq!(w.claimed_ids(10), [ids[1]]);
}

// REQ ML-3, fault 2
fn an_idempotency_key_survives_reopening(w: &mut World<impl Fresh>) {
    let id = w.accept(once("a", 1));
    w.reopen();
    assert_eq!(w.offer(once("a", 1)), Ok(Accepted { id, repeat: Repeat::Same }));
}

fn a_reader_follows_the_writer(w: &mut World<impl Fresh>) {
    let mut early = w.core.reader().unwrap();
    assert_eq!(early.tallies().unwrap(), []);
    let id = w.accept(draft());
    assert!(early.story(&Default::default(), id).unwrap().is_some());
    w.claim_one();
    assert_eq!(early.story(&Default::default(), id).unwrap().unwrap().state.name(), StateName::Sending);
}
