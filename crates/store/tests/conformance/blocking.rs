//! Blocks: holds with their probes, pauses, and an operator's word.

use pombo_kernel::block::{Block, BlockChange, BlockKind};
use pombo_kernel::classify::Scope;
use pombo_kernel::message::{Draft, FailureReason, Priority, StateName};
use pombo_store::audit::Event;
use pombo_store::{Place, Settled};

use crate::world::*;

on_every_store! {
    a_probe_that_outlives_a_reopening_ends_as_any_other,
    a_hold_stops_its_destination_only,
    a_hold_on_a_channel_stops_all_of_it_and_nothing_else,
    a_hold_lets_one_message_probe_over_all_queues_and_lanes,
    holds_of_two_destinations_are_probed_apart,
    a_probe_says_how_many_failed_before_it,
    a_probe_that_comes_through_lifts_the_hold,
    a_probe_that_fails_in_another_way_lifts_the_hold_as_well,
    a_failed_probe_puts_the_next_one_off,
    one_message_is_not_always_the_probe,
    a_released_probe_makes_room_for_another,
    a_probe_taken_over_makes_room_for_another,
    a_probe_passes_both_holds_in_front_of_it,
    a_lift_ends_holds_and_neither_pauses_nor_an_operators_block,
    a_pause_stops_its_destination_and_ends_by_itself,
    the_longest_pause_counts,
    a_pause_does_not_shorten_a_hold,
    a_hold_replaces_a_pause,
    a_pause_after_a_pause_that_is_over_is_a_new_one,
    an_operators_block_stands_until_an_operator_lifts_it,
    an_operators_block_outranks_the_engines,
    the_stricter_of_channel_and_destination_counts,
    unblocking_where_nothing_stands_says_so,
    an_operator_may_release_a_hold_early,
    a_block_stops_messages_that_come_later,
    blocked_messages_burn_no_attempt,
    a_block_stops_no_message_that_is_on_its_way,
    a_blocked_queue_leaves_all_turns_to_the_others,
    next_due_looks_past_a_block,
    next_due_is_none_behind_an_operators_block_or_a_probe_under_way,
    blocks_are_listed_by_place,
    blocks_survive_reopening,
    blocks_that_start_and_end_are_on_record,
    a_block_that_only_changes_is_not_recorded_again,
    an_operators_act_is_always_on_record,
}

fn here() -> Place {
    destination("crm", "crm.example")
}

/// Puts a hold there through a message of `draft`, which waits behind it afterwards.
fn hold(w: &mut World<impl Fresh>, draft: Draft, scope: Scope) -> pombo_kernel::id::MessageId {
    w.through(draft, End::Held(scope))
}

// REQ CF-7, RP-7
fn a_hold_stops_its_destination_only(w: &mut World<impl Fresh>) {
    hold(w, draft(), Scope::Destination);
    let stopped = w.accept(draft());
    let free = w.accept_all([to("elsewhere"), Draft { queue: queue("mail", "crm.example"), ..draft() }]);
    assert_eq!(w.claimed_ids(10), free);
    w.is(stopped, StateName::Pending);
}

// REQ CF-7
fn a_hold_on_a_channel_stops_all_of_it_and_nothing_else(w: &mut World<impl Fresh>) {
    hold(w, draft(), Scope::Channel);
    w.accept_all([draft(), to("elsewhere")]);
    let free = w.accept(Draft { queue: queue("mail", "crm.example"), ..draft() });
    assert_eq!(w.claimed_ids(10), [free]);
}

// REQ CF-7
fn a_hold_lets_one_message_probe_over_all_queues_and_lanes(w: &mut World<impl Fresh>) {
    hold(w, draft(), Scope::Channel);
    w.accept_all([to("a"), to("b"), on_lane("bulk")]);
    w.now = START + secs(29);
    assert_eq!((w.claim(10), w.claim_as(ONE, "bulk", 10)), (vec![], vec![]));
    w.now = START + secs(30);
    assert_eq!(failed(&w.claim_one()), Some(0));
    assert_eq!((w.claim(10), w.claim_as(ONE, "bulk", 10)), (vec![], vec![]));
}

fn holds_of_two_destinations_are_probed_apart(w: &mut World<impl Fresh>) {
    let a = hold(w, to("a"), Scope::Destination);
    let b = hold(w, to("b"), Scope::Destination);
    w.accept_all([to("a"), to("b")]);
    w.pass(secs(30));
    assert_eq!(w.claimed_ids(10), [a, b]);
}

// REQ CF-7
fn a_probe_says_how_many_failed_before_it(w: &mut World<impl Fresh>) {
    hold(w, draft(), Scope::Destination);
    for before in 0..4 {
        w.pass(mins(10));
        let probe = w.claim_one();
        assert_eq!(failed(&probe), Some(before));
        w.settle(&probe, End::Held(Scope::Destination));
    }
    assert_eq!(w.blocks()[0].1.probes, 4);
}

// REQ CF-7
fn a_probe_that_comes_through_lifts_the_hold(w: &mut World<impl Fresh>) {
    hold(w, draft(), Scope::Destination);
    let rest = w.accept_all((0..5).map(|_| draft()));
    w.pass(secs(30));
    let probe = w.claim_one();
    w.settle(&probe, End::Sent);
    assert_eq!(
        (w.blocks(), w.claimed_ids(10)),
        (vec![], rest[..1].to_vec()),
        "the rest goes slowly at first"
    );
    w.pass(mins(2));
    assert_eq!(w.claimed_ids(10), rest[1..]);
}

fn a_probe_that_fails_in_another_way_lifts_the_hold_as_well(w: &mut World<impl Fresh>) {
    hold(w, draft(), Scope::Destination);
    w.pass(secs(30));
    let probe = w.claim_one();
    w.settle(&probe, End::Failed(FailureReason::PermanentError));
    assert_eq!(w.blocks(), []);
}

// REQ CF-7: a message that alone meets the fault must not keep the others waiting
fn one_message_is_not_always_the_probe(w: &mut World<impl Fresh>) {
    let bad = hold(w, Draft { priority: Priority::HIGHEST, ..draft() }, Scope::Destination);
    w.pass(secs(1));
    let good = w.accept_all([draft(), draft()]);
    w.pass(secs(29));
    let first = w.claim_one();
    assert_eq!(first.message.id, bad, "it has waited longest");
    w.settle(&first, End::Held(Scope::Destination));
    w.pass(secs(60));
    assert_eq!(w.claim_one().message.id, good[0], "now another has");
}

// REQ CF-7
fn a_failed_probe_puts_the_next_one_off(w: &mut World<impl Fresh>) {
    hold(w, draft(), Scope::Destination);
    w.pass(secs(30));
    let probe = w.claim_one();
    w.settle(&probe, End::Held(Scope::Destination));
    let since = w.blocks()[0].1.since;
    assert_eq!(since, START);
    w.pass(secs(59));
    assert_eq!(w.claim(10), []);
    w.pass(secs(1));
    assert_eq!(failed(&w.claim_one()), Some(1));
}

fn a_probe_that_outlives_a_reopening_ends_as_any_other(w: &mut World<impl Fresh>) {
    hold(w, draft(), Scope::Destination);
    w.accept(draft());
    w.pass(secs(30));
    let probe = w.claim_one();
    w.reopen();
    w.settle(&probe, End::Held(Scope::Destination));
    w.pass(secs(59));
    assert_eq!(w.claim(10), []);
    w.pass(secs(1));
    assert_eq!(failed(&w.claim_one()), Some(1));
}

fn a_released_probe_makes_room_for_another(w: &mut World<impl Fresh>) {
    hold(w, draft(), Scope::Destination);
    w.accept(draft());
    w.pass(secs(30));
    let probe = w.claim_one();
    assert_eq!(w.release(probe.key), Settled::Done);
    assert_eq!(failed(&w.claim_one()), Some(0));
    assert_eq!(w.blocks().len(), 1);
}

fn a_probe_taken_over_makes_room_for_another(w: &mut World<impl Fresh>) {
    hold(w, draft(), Scope::Destination);
    let other = w.accept(draft());
    w.pass(secs(30));
    w.claim_one();
    let doubtful = w.take_over(TWO, 10);
    assert_eq!((doubtful.len(), doubtful[0].probe), (1, None));
    let probe = w.claim_one();
    assert_eq!((probe.message.id, failed(&probe)), (other, Some(0)));
}

fn a_probe_passes_both_holds_in_front_of_it(w: &mut World<impl Fresh>) {
    w.block(&here(), Block::hold("no such instance".into(), 3, START));
    w.block(&channel("crm"), Block::hold("401".into(), 1, START));
    w.accept_all([draft(), draft(), to("elsewhere")]);
    w.pass(mins(10));
    let probe = w.claim_one();
    assert_eq!(failed(&probe), Some(3));
    w.unblock(&channel("crm"));
    let free = w.claim_one();
    assert_eq!((&*free.message.queue.destination, free.probe), ("elsewhere", None));
    w.block(&channel("crm"), Block::hold("401".into(), 1, START));
    w.settle(&probe, End::Sent);
    assert_eq!(w.blocks(), []);
    assert_eq!(w.claim_one().probe, None);
}

fn a_lift_ends_holds_and_neither_pauses_nor_an_operators_block(w: &mut World<impl Fresh>) {
    w.accept_all([to("a"), to("b"), to("c")]);
    let taken = w.claim(3);
    w.block(&destination("crm", "a"), Block::hold("401".into(), 0, START));
    w.block(&destination("crm", "b"), Block::pause("429".into(), START + mins(9), START));
    w.block(&destination("crm", "c"), by_operator(START));
    for claimed in &taken {
        let mut sent = settlement(claimed, End::Sent, w.now);
        sent.block = BlockChange::Lift;
        w.settle_with(sent);
    }
    let left: Vec<_> = w.blocks().into_iter().map(|(_, block)| block.kind).collect();
    assert_eq!(left, [BlockKind::Pause, BlockKind::Operator]);
}

// REQ CF-8
fn a_pause_stops_its_destination_and_ends_by_itself(w: &mut World<impl Fresh>) {
    let first = w.through(draft(), End::Paused(Scope::Destination, secs(20)));
    let second = w.accept(draft());
    let free = w.accept(to("elsewhere"));
    assert_eq!(w.claimed_ids(10), [free]);
    w.pass(secs(19));
    assert_eq!(w.claim(10), []);
    w.pass(secs(1));
    assert_eq!(w.claimed_ids(10), [first, second]);
    assert_eq!(w.blocks(), []);
}

// REQ CF-8
fn the_longest_pause_counts(w: &mut World<impl Fresh>) {
    w.accept_all([draft(), draft()]);
    let taken = w.claim(2);
    w.settle(&taken[0], End::Paused(Scope::Destination, secs(60)));
    w.settle(&taken[1], End::Paused(Scope::Destination, secs(20)));
    w.pass(secs(59));
    assert_eq!(w.claim(10), []);
    w.pass(secs(1));
    assert_eq!(w.claim(10).len(), 2);
}

fn a_pause_does_not_shorten_a_hold(w: &mut World<impl Fresh>) {
    w.accept_all([draft(), draft()]);
    let taken = w.claim(2);
    w.settle(&taken[0], End::Held(Scope::Destination));
    w.settle(&taken[1], End::Paused(Scope::Destination, secs(1)));
    w.pass(secs(29));
    assert_eq!(w.claim(10), []);
    w.pass(secs(1));
    assert_eq!(failed(&w.claim_one()), Some(0));
}

fn a_hold_replaces_a_pause(w: &mut World<impl Fresh>) {
    w.accept_all([draft(), draft()]);
    let taken = w.claim(2);
    w.settle(&taken[0], End::Paused(Scope::Destination, mins(9)));
    w.settle(&taken[1], End::Held(Scope::Destination));
    let kinds: Vec<_> = w.blocks().into_iter().map(|(_, block)| block.kind).collect();
    assert_eq!(kinds, [BlockKind::Hold]);
}

// REQ CF-8
fn a_pause_after_a_pause_that_is_over_is_a_new_one(w: &mut World<impl Fresh>) {
    w.through(draft(), End::Paused(Scope::Destination, secs(20)));
    w.pass(mins(5));
    let claimed = w.claim_one();
    w.settle(&claimed, End::Paused(Scope::Destination, secs(20)));
    let (_, pause) = w.blocks().remove(0);
    assert_eq!((pause.since, pause.until), (w.now, Some(w.now + secs(20))));
    assert_eq!(w.events().iter().filter(|event| **event == Event::Blocked).count(), 2);
}

fn an_operators_block_stands_until_an_operator_lifts_it(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    w.block(&channel("crm"), by_operator(START));
    w.pass(mins(60 * 24 * 365));
    assert_eq!(w.claim(10), []);
    assert!(w.unblock(&channel("crm")));
    assert_eq!(w.claimed_ids(10), [id]);
}

fn an_operators_block_outranks_the_engines(w: &mut World<impl Fresh>) {
    w.accept_all([draft(), draft()]);
    let taken = w.claim(2);
    w.block(&here(), by_operator(START));
    w.settle(&taken[0], End::Held(Scope::Destination));
    w.settle(&taken[1], End::Paused(Scope::Destination, secs(1)));
    assert_eq!(w.blocks(), [(here(), by_operator(START))]);
}

fn the_stricter_of_channel_and_destination_counts(w: &mut World<impl Fresh>) {
    w.accept(draft());
    let pause = |span| Block::pause("429".into(), START + span, START);
    w.block(&channel("crm"), pause(secs(10)));
    w.block(&here(), pause(secs(20)));
    assert_eq!(w.next_due(), Some(START + secs(20)));
    w.pass(secs(10));
    assert_eq!(w.claim(10), []);
    w.block(&channel("crm"), by_operator(START));
    w.pass(secs(10));
    assert_eq!(w.claim(10), []);
    w.unblock(&channel("crm"));
    assert_eq!(w.claim(10).len(), 1);
}

fn unblocking_where_nothing_stands_says_so(w: &mut World<impl Fresh>) {
    assert!(!w.unblock(&channel("crm")));
    w.block(&here(), by_operator(START));
    assert!(!w.unblock(&channel("crm")));
    assert!(!w.unblock(&destination("crm", "elsewhere")));
    assert!(w.unblock(&here()));
    assert!(!w.unblock(&here()));
    assert_eq!(w.events(), [Event::Blocked, Event::Unblocked]);
}

// REQ CF-7
fn an_operator_may_release_a_hold_early(w: &mut World<impl Fresh>) {
    let id = hold(w, draft(), Scope::Destination);
    assert!(w.unblock(&here()));
    let claimed = w.claim_one();
    assert_eq!((claimed.message.id, claimed.probe), (id, None));
}

fn a_block_stops_messages_that_come_later(w: &mut World<impl Fresh>) {
    w.block(&destination("new", "never-seen"), by_operator(START));
    w.accept(Draft { queue: queue("new", "never-seen"), ..draft() });
    assert_eq!((w.claim(10), w.next_due()), (vec![], None));
}

// promise 5
fn blocked_messages_burn_no_attempt(w: &mut World<impl Fresh>) {
    let id = hold(w, draft(), Scope::Destination);
    for _ in 0..3 {
        w.pass(mins(20));
        let probe = w.claim_one();
        w.settle(&probe, End::Held(Scope::Destination));
    }
    let progress = w.story(id).progress;
    assert_eq!((progress.attempts, progress.steps), (0, 4));
}

fn a_block_stops_no_message_that_is_on_its_way(w: &mut World<impl Fresh>) {
    w.accept(draft());
    let claimed = w.claim_one();
    w.block(&channel("crm"), by_operator(START));
    assert_eq!(w.settle(&claimed, End::Sent), Settled::Done);
}

// REQ RP-7
fn a_blocked_queue_leaves_all_turns_to_the_others(w: &mut World<impl Fresh>) {
    w.accept_all((0..100).map(|_| to("dead")));
    let alive = w.accept_all((0..100).map(|_| to("alive")));
    w.block(&destination("crm", "dead"), by_operator(START));
    assert_eq!(w.claimed_ids(90), alive[..90]);
}

// REQ ML-2
fn next_due_looks_past_a_block(w: &mut World<impl Fresh>) {
    w.accept_all([draft(), later(mins(10))]);
    w.block(&here(), Block::pause("429".into(), START + mins(5), START));
    assert_eq!(w.next_due(), Some(START + mins(5)));
    w.accept(Draft { queue: queue("mail", "elsewhere"), ..later(mins(2)) });
    assert_eq!(w.next_due(), Some(START + mins(2)));
}

fn next_due_is_none_behind_an_operators_block_or_a_probe_under_way(w: &mut World<impl Fresh>) {
    hold(w, draft(), Scope::Destination);
    w.accept(draft());
    assert_eq!(w.next_due(), Some(START + secs(30)));
    w.pass(secs(30));
    w.claim_one();
    assert_eq!(w.next_due(), None);
    w.block(&here(), by_operator(START));
    w.pass(mins(60));
    assert_eq!(w.next_due(), None);
}

fn blocks_are_listed_by_place(w: &mut World<impl Fresh>) {
    let places = [channel("a"), destination("a", "x"), destination("a", "y"), channel("b")];
    for place in places.iter().rev() {
        w.block(place, by_operator(START));
    }
    let listed: Vec<_> = w.blocks().into_iter().map(|(place, _)| place).collect();
    assert_eq!(listed, places);
}

fn blocks_survive_reopening(w: &mut World<impl Fresh>) {
    hold(w, draft(), Scope::Destination);
    w.block(&channel("mail"), by_operator(START));
    let before = w.blocks();
    w.reopen();
    assert_eq!((w.blocks(), w.claim(10)), (before, vec![]));
    w.pass(secs(30));
    assert_eq!(failed(&w.claim_one()), Some(0));
}

// REQ AU-1
fn blocks_that_start_and_end_are_on_record(w: &mut World<impl Fresh>) {
    hold(w, draft(), Scope::Channel);
    w.pass(secs(30));
    let probe = w.claim_one();
    w.settle(&probe, End::Sent);
    let acts: Vec<_> = w.audit().into_iter().filter(|record| record.message.is_none()).collect();
    let shown: Vec<_> = acts.iter().map(|r| (r.event, r.channel.as_str(), r.actor.as_str())).collect();
    assert_eq!(shown, [(Event::Blocked, "crm", "pombo"), (Event::Unblocked, "crm", "pombo")]);
}

fn a_block_that_only_changes_is_not_recorded_again(w: &mut World<impl Fresh>) {
    hold(w, draft(), Scope::Destination);
    w.pass(secs(30));
    let probe = w.claim_one();
    w.settle(&probe, End::Held(Scope::Destination));
    assert_eq!(w.events().iter().filter(|event| **event == Event::Blocked).count(), 1);
}

// REQ AU-1
fn an_operators_act_is_always_on_record(w: &mut World<impl Fresh>) {
    hold(w, draft(), Scope::Destination);
    w.block(&here(), by_operator(START));
    let last = w.audit().pop().unwrap();
    assert_eq!((last.event, last.actor.as_str()), (Event::Blocked, "ana"));
    assert!(last.detail.contains("\"kind\":\"operator\""), "{}", last.detail);
}
