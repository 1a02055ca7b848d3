//! Claiming: exclusive, in order, by fair turns.

use std::sync::Arc;

use pombo_kernel::message::{Draft, Priority, Progress, QueueName, State, StateName};
use pombo_kernel::name::LaneName;
use pombo_kernel::turns::Weight;
use pombo_store::{Ask, Claimed, Rates, Settled};

use crate::world::*;

on_every_store! {
    where_nothing_waits_nothing_is_claimed,
    a_claimed_message_is_being_sent,
    a_claimed_message_cannot_be_claimed_again,
    a_claim_never_exceeds_what_was_asked_for,
    asking_for_nothing_gets_nothing,
    a_higher_priority_goes_first,
    what_was_due_first_goes_first_among_equals,
    age_decides_among_the_rest,
    a_priority_does_not_make_a_message_due,
    lanes_are_apart,
    a_message_waits_for_its_time,
    a_message_goes_at_the_very_millisecond,
    an_accepted_message_is_handed_on_in_the_same_commit,
    what_is_new_and_what_is_stored_go_in_one_order,
    a_small_queue_is_not_starved_by_a_large_one,
    queues_take_turns_in_bites,
    a_queue_that_is_alone_gives_all_that_is_asked_for,
    the_older_queue_goes_first_among_equals,
    an_idle_queue_saves_up_no_turns,
    urgent_work_gets_more_turns_and_not_all,
    a_weighty_channel_gets_as_many_turns_more,
    campaigns_tenants_and_destinations_are_queues_of_their_own,
    one_call_is_one_claim_and_no_claim_id_comes_twice,
    progress_comes_with_the_claim,
    next_due_is_the_earliest_of_the_lane,
    next_due_is_in_the_past_or_now_if_something_waits,
    once_a_lane_is_drained_next_due_lies_ahead,
}

fn where_nothing_waits_nothing_is_claimed(w: &mut World<impl Fresh>) {
    assert_eq!(w.claim(10), []);
    assert_eq!((w.next_due(), w.audit().len()), (None, 0));
}

// REQ ML-4
fn a_claimed_message_is_being_sent(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    w.pass(secs(3));
    let claimed = w.claim_one();
    let story = w.story(id);
    assert_eq!(claimed.key.message, id);
    assert_eq!((claimed.claimed_at, claimed.probe), (w.now, None));
    assert_eq!(story.state, State::Sending { claim: claimed.key.claim, since: w.now });
    assert_eq!((story.updated_at, story.message), (w.now, claimed.message));
}

// REQ ML-4, invariant 4
fn a_claimed_message_cannot_be_claimed_again(w: &mut World<impl Fresh>) {
    w.accept(draft());
    w.claim_one();
    w.pass(mins(600));
    assert_eq!(w.claim_as(TWO, "default", 10), []);
    assert_eq!(w.next_due(), None);
}

// fault 46
fn a_claim_never_exceeds_what_was_asked_for(w: &mut World<impl Fresh>) {
    w.accept_all((0..60).map(|n| to(&format!("host-{}", n % 3))));
    for max in [1, 2, 7, 17, 33] {
        assert_eq!(w.claim(max).len(), max);
    }
    assert_eq!((w.claim(1).len(), w.claim(1).len()), (0, 0));
}

fn asking_for_nothing_gets_nothing(w: &mut World<impl Fresh>) {
    w.accept(draft());
    assert_eq!(w.claim(0), []);
    assert_eq!(w.claim(1).len(), 1);
}

// REQ ML-6
fn a_higher_priority_goes_first(w: &mut World<impl Fresh>) {
    let ids = w.accept_all([5, 0, 9, 3, 7].map(urgent));
    assert_eq!(w.claimed_ids(10), [2, 4, 0, 3, 1].map(|n| ids[n]));
}

fn what_was_due_first_goes_first_among_equals(w: &mut World<impl Fresh>) {
    let ids = w.accept_all([later(secs(3)), later(secs(1)), draft(), later(secs(2))]);
    w.pass(secs(10));
    assert_eq!(w.claimed_ids(10), [2, 1, 3, 0].map(|n| ids[n]));
}

fn age_decides_among_the_rest(w: &mut World<impl Fresh>) {
    let ids = w.accept_all((0..20).map(|_| later(secs(1))));
    w.pass(secs(1));
    assert_eq!([w.claimed_ids(7), w.claimed_ids(7), w.claimed_ids(7)].concat(), ids);
}

fn a_priority_does_not_make_a_message_due(w: &mut World<impl Fresh>) {
    let ids = w.accept_all([Draft { priority: Priority::HIGHEST, ..later(secs(1)) }, urgent(0)]);
    assert_eq!(w.claimed_ids(10), [ids[1]]);
    w.pass(secs(1));
    assert_eq!(w.claimed_ids(10), [ids[0]]);
}

// REQ BK-5
fn lanes_are_apart(w: &mut World<impl Fresh>) {
    w.accept_all((0..40).map(|_| on_lane("bulk")));
    let quick = w.accept(on_lane("realtime"));
    assert_eq!(w.claim(10), []);
    let taken = w.claim_as(ONE, "realtime", 10);
    assert_eq!(taken.iter().map(|claimed| claimed.message.id).collect::<Vec<_>>(), [quick]);
    assert_eq!(w.claim_as(ONE, "bulk", 100).len(), 40);
}

// REQ ML-6
fn a_message_waits_for_its_time(w: &mut World<impl Fresh>) {
    let id = w.accept(later(secs(10)));
    w.pass(secs(9));
    assert_eq!(w.claim(10), []);
    w.is(id, StateName::Pending);
    w.pass(secs(1));
    assert_eq!(w.claimed_ids(10), [id]);
}

// REQ ML-2
fn a_message_goes_at_the_very_millisecond(w: &mut World<impl Fresh>) {
    w.accept(later(pombo_kernel::time::Span::from_millis(1)));
    assert_eq!(w.claim(1), []);
    w.pass(pombo_kernel::time::Span::from_millis(1));
    assert_eq!(w.claim(1).len(), 1);
}

// REQ ML-2
fn an_accepted_message_is_handed_on_in_the_same_commit(w: &mut World<impl Fresh>) {
    let now = w.now;
    let ids: Vec<_> = [1, 9, 5].map(|p| w.core.accept(urgent(p), now).unwrap().unwrap().id).into();
    let taken = w.claim_uncommitted(ONE, "default", 2);
    assert_eq!(taken.iter().map(|claimed| claimed.message.id).collect::<Vec<_>>(), [ids[1], ids[2]]);
    w.commit();
    w.is(ids[1], StateName::Sending);
    w.is(ids[0], StateName::Pending);
    assert_eq!(w.claimed_ids(10), [ids[0]]);
}

fn what_is_new_and_what_is_stored_go_in_one_order(w: &mut World<impl Fresh>) {
    let stored = w.accept_all([urgent(5), urgent(3)]);
    let now = w.now;
    let fresh: Vec<_> = [4, 9, 5].map(|p| w.core.accept(urgent(p), now).unwrap().unwrap().id).into();
    let taken = w.claim_uncommitted(ONE, "default", 10);
    let order: Vec<_> = taken.iter().map(|claimed| claimed.message.id).collect();
    assert_eq!(order, [fresh[1], stored[0], fresh[2], fresh[0], stored[1]]);
}

// REQ BK-5, RP-7, fault 39
fn a_small_queue_is_not_starved_by_a_large_one(w: &mut World<impl Fresh>) {
    w.accept_all((0..500).map(|_| to("large")));
    let small = w.accept_all((0..3).map(|_| to("small")));
    let taken = w.claimed_ids(32);
    assert!(small.iter().all(|id| taken.contains(id)));
}

// REQ BK-5
fn queues_take_turns_in_bites(w: &mut World<impl Fresh>) {
    for host in ["a", "b", "c"] {
        w.accept_all((0..100).map(|_| to(host)));
    }
    let hosts: Vec<_> = w.claim(96).iter().map(|claimed| claimed.message.queue.destination.clone()).collect();
    let bites: Vec<_> = hosts.chunk_by(|one, next| one == next).map(|bite| (&*bite[0], bite.len())).collect();
    assert_eq!(bites, [("a", 16), ("b", 16), ("c", 16), ("a", 16), ("b", 16), ("c", 16)]);
}

fn a_queue_that_is_alone_gives_all_that_is_asked_for(w: &mut World<impl Fresh>) {
    let ids = w.accept_all((0..100).map(|_| draft()));
    assert_eq!(w.claimed_ids(90), ids[..90]);
}

fn the_older_queue_goes_first_among_equals(w: &mut World<impl Fresh>) {
    let ids = w.accept_all(["z", "m", "a"].map(to));
    assert_eq!(w.claimed_ids(10), ids);
}

fn an_idle_queue_saves_up_no_turns(w: &mut World<impl Fresh>) {
    w.accept(to("idle"));
    w.claim_one();
    w.accept_all((0..200).map(|_| to("busy")));
    assert_eq!(w.claim(160).len(), 160);
    w.accept_all((0..100).map(|_| to("idle")));
    let taken = w.claim(64);
    let idle = taken.iter().filter(|claimed| &*claimed.message.queue.destination == "idle").count();
    // One bite more than its half at most, whatever the other took meanwhile.
    assert!((32..=48).contains(&idle), "{idle}");
}

// REQ ML-6
fn urgent_work_gets_more_turns_and_not_all(w: &mut World<impl Fresh>) {
    let of = |host: &str, priority| Draft { priority: Priority::new(priority).unwrap(), ..to(host) };
    w.accept_all((0..300).map(|_| of("urgent", 7)));
    w.accept_all((0..300).map(|_| of("usual", 5)));
    let taken: Vec<Claimed> = (0..10).flat_map(|_| w.claim(16)).collect();
    let urgent = taken.iter().filter(|claimed| &*claimed.message.queue.destination == "urgent").count();
    assert_eq!((urgent, taken.len()), (128, 160));
}

// REQ BK-5
fn a_weighty_channel_gets_as_many_turns_more(w: &mut World<impl Fresh>) {
    for channel in ["crm", "mail"] {
        w.accept_all((0..200).map(|_| Draft { queue: queue(channel, "a.example"), ..draft() }));
    }
    let mut share = |weights: &[(&str, u32)]| {
        let weigh =
            |(channel, weight): &(&str, u32)| (channel.parse().unwrap(), Weight::new(*weight).unwrap());
        let rates = Arc::new(Rates { weights: weights.iter().map(weigh).collect(), ..Rates::default() });
        let ask = Ask { node: ONE, lane: LaneName::default(), max: 16, rates };
        let taken: Vec<Claimed> = (0..8).flat_map(|_| w.core.claim(&ask, w.now).unwrap()).collect();
        w.commit();
        (taken.iter().filter(|claimed| claimed.message.queue.channel.as_str() == "crm").count(), taken.len())
    };
    assert_eq!(share(&[("crm", 3)]), (96, 128));
    assert_eq!(share(&[]), (64, 128), "from the next claim on");
}

// REQ BK-5
fn campaigns_tenants_and_destinations_are_queues_of_their_own(w: &mut World<impl Fresh>) {
    let campaign = |name: &str| QueueName { campaign: Some(name.parse().unwrap()), ..draft().queue };
    w.accept_all((0..50).map(|_| Draft { queue: campaign("spring"), ..draft() }));
    let others = w.accept_all([
        Draft { queue: campaign("autumn"), ..draft() },
        draft(),
        of("acme"),
        Draft { queue: queue("mail", "crm.example"), ..draft() },
    ]);
    let taken = w.claimed_ids(20);
    assert_eq!(taken[16..], others);
}

// REQ ML-4, invariant 4
fn one_call_is_one_claim_and_no_claim_id_comes_twice(w: &mut World<impl Fresh>) {
    w.accept_all((0..6).map(|n| to(&format!("host-{n}"))));
    let first = w.claim(3);
    assert!(first.iter().all(|claimed| claimed.key.claim == first[0].key.claim));
    let second = w.claim(1).remove(0);
    assert_eq!(w.release(second.key), Settled::Done);
    let mut seen = vec![first[0].key.claim, second.key.claim];
    for _ in 0..3 {
        let claimed = w.claim(1).remove(0);
        assert!(!seen.contains(&claimed.key.claim));
        seen.push(claimed.key.claim);
        w.release(claimed.key);
    }
    assert!(seen.is_sorted());
}

// REQ ML-10
fn progress_comes_with_the_claim(w: &mut World<impl Fresh>) {
    w.accept(draft());
    for attempts in 0..4 {
        let claimed = w.claim_one();
        assert_eq!(claimed.progress, Progress { attempts, steps: attempts.into(), ..Progress::default() });
        w.settle(&claimed, End::Retry(secs(5)));
        w.pass(secs(5));
    }
}

// REQ ML-2
fn next_due_is_the_earliest_of_the_lane(w: &mut World<impl Fresh>) {
    w.accept(on_lane("bulk"));
    w.accept(Draft { priority: Priority::HIGHEST, ..later(mins(9)) });
    w.accept(Draft { queue: queue("mail", "elsewhere"), ..later(mins(2)) });
    w.accept(later(mins(3)));
    assert_eq!(w.next_due(), Some(START + mins(2)));
}

// REQ ML-2
fn next_due_is_in_the_past_or_now_if_something_waits(w: &mut World<impl Fresh>) {
    w.accept(draft());
    w.pass(secs(2));
    let due = w.core.next_due(&Default::default(), w.now);
    assert!(due.is_some_and(|due| due <= w.now), "{due:?}");
}

fn once_a_lane_is_drained_next_due_lies_ahead(w: &mut World<impl Fresh>) {
    w.accept_all([draft(), later(mins(1)), to("elsewhere"), urgent(9)]);
    assert_eq!(w.claim(10).len(), 3);
    assert_eq!(w.next_due(), Some(START + mins(1)));
}
