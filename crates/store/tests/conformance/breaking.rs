//! Breakers, ramps, rates and the retries' budget.

use std::sync::Arc;

use pombo_kernel::block::{Block, BlockChange, BlockKind};
use pombo_kernel::breaker::{Limits, Sign};
use pombo_kernel::classify::Scope;
use pombo_kernel::flow::Rate;
use pombo_kernel::message::{Draft, FailureReason, StateName};
use pombo_kernel::name::ChannelName;
use pombo_kernel::time::Span;
use pombo_store::audit::Event;
use pombo_store::{Ask, Claimed, Finding, Place, Rates, Settlement, Vitals};

use crate::world::*;

on_every_store! {
    failures_of_many_messages_open_a_breaker_in_front_of_their_destination_only,
    what_waits_behind_a_breaker_is_not_charged_and_still_expires,
    a_refusal_of_the_recipient_opens_nothing,
    an_open_breaker_lets_one_message_try_at_a_time_and_ever_more_slowly,
    a_probe_is_a_message_that_was_never_tried_if_there_is_one,
    what_has_waited_is_let_go_slowly,
    a_breaker_that_an_operator_opens_remembers_what_was_usual,
    a_ramp_ends_by_itself,
    a_breaker_of_the_whole_channel_stops_all_its_destinations,
    a_breaker_survives_reopening,
    an_operator_who_lifts_a_breaker_lets_all_go_at_once,
    a_hold_that_is_lifted_leaves_a_ramp_too,
    a_long_pause_is_followed_by_a_ramp_and_a_short_one_is_not,
    a_provider_that_is_there_is_tried_at_once_and_only_one_that_knows_us_lifts_a_hold,
    whoever_finds_a_provider_down_puts_the_next_probe_off,
    opening_and_closing_are_on_record,
    a_destination_that_fails_again_right_after_it_came_back_is_closed_sooner,
    retries_go_first_as_far_as_their_budget_reaches_and_new_messages_are_not_starved,
    a_bounded_channel_lets_messages_go_at_its_rate,
    a_rate_that_the_provider_names_outranks_the_configured_one,
}

fn here() -> Place {
    destination("crm", "crm.example")
}

fn vitals(sign: Sign) -> Vitals {
    let limits = Limits { lasting: Span::ZERO, ..Limits::default() };
    Vitals { sign, scope: Scope::Destination, limits, rate: None }
}

/// Settles as the engine would: ill if it is tried again, well otherwise.
fn end(w: &mut World<impl Fresh>, claimed: &Claimed, end: End) {
    let sign = if matches!(end, End::Retry(_) | End::Unreached(_)) { Sign::Ill } else { Sign::Well };
    let settlement = settlement(claimed, end, w.now);
    w.settle_with(Settlement { vitals: vitals(sign), ..settlement });
}

/// Makes the destination of `draft` count as down, ten failures in a row.
fn break_down(w: &mut World<impl Fresh>, draft: &Draft) {
    w.accept_all((0..10).map(|_| draft.clone()));
    for claimed in w.claim(10) {
        end(w, &claimed, End::Retry(secs(1)));
    }
}

// REQ CB-1
fn failures_of_many_messages_open_a_breaker_in_front_of_their_destination_only(w: &mut World<impl Fresh>) {
    break_down(w, &draft());
    let [(place, block)] = &w.blocks()[..] else { panic!("{:?}", w.blocks()) };
    assert_eq!((place, block.kind, block.since), (&here(), BlockKind::Breaker, w.now));
    assert_eq!(block.reason, "10 attempts in a row failed");
    let waits = w.accept(draft());
    let free = w.accept(to("elsewhere"));
    w.pass(secs(2));
    assert_eq!(w.claimed_ids(100), [free]);
    w.is(waits, StateName::Pending);
}

// REQ CB-1
fn what_waits_behind_a_breaker_is_not_charged_and_still_expires(w: &mut World<impl Fresh>) {
    break_down(w, &draft());
    let waits = w.accept(draft());
    let late = w.accept(Draft { expires_at: Some(w.now + secs(3)), ..draft() });
    w.pass(secs(4));
    assert_eq!((w.claim(100).len(), w.expire(10)), (0, 1));
    w.is(late, StateName::Failed);
    assert_eq!((w.story(waits).progress.attempts, w.story(waits).attempts.len()), (0, 0));
}

// REQ CB-1
fn a_refusal_of_the_recipient_opens_nothing(w: &mut World<impl Fresh>) {
    w.accept_all((0..40).map(|_| draft()));
    for claimed in w.claim(40) {
        end(w, &claimed, End::Failed(FailureReason::PermanentError));
    }
    assert_eq!(w.blocks(), []);
}

// REQ CB-1
fn an_open_breaker_lets_one_message_try_at_a_time_and_ever_more_slowly(w: &mut World<impl Fresh>) {
    break_down(w, &draft());
    for (n, wait) in [(0, 5), (1, 10), (2, 20), (3, 40), (4, 60), (5, 60)] {
        w.pass(secs(wait - 1));
        assert_eq!(w.claim(100), [], "probe {n}");
        w.pass(secs(1));
        let probe = w.claim_one();
        assert_eq!((failed(&probe), probe.probe.unwrap().kind), (Some(n), BlockKind::Breaker));
        assert_eq!(w.claim(100), [], "one at a time");
        end(w, &probe, End::Unreached(secs(0)));
    }
}

// REQ CB-1: a probe that ends in doubt is charged, and the same message would soon have no attempt left
fn a_probe_is_a_message_that_was_never_tried_if_there_is_one(w: &mut World<impl Fresh>) {
    break_down(w, &draft());
    let fresh = w.accept(draft());
    w.pass(secs(5));
    let probe = w.claim_one();
    assert_eq!(probe.message.id, fresh);
    end(w, &probe, End::Retry(secs(0)));
    w.pass(mins(1));
    assert!(w.claim_one().progress.steps > 0, "without one, any will do");
}

/// A steady ten a second, for a minute.
fn ten_a_second(w: &mut World<impl Fresh>) {
    for _ in 0..600 {
        w.accept(draft());
        let claimed = w.claim_one();
        end(w, &claimed, End::Sent);
        w.pass(Span::from_millis(100));
    }
}

// REQ CB-1
fn a_breaker_that_an_operator_opens_remembers_what_was_usual(w: &mut World<impl Fresh>) {
    ten_a_second(w);
    // The whole channel first: lifting a breaker forgets what was seen at its place.
    for place in [channel("crm"), here()] {
        w.block(&place, Block::breaker("maintenance".into(), &Limits::default(), w.now));
        let [(_, block)] = &w.blocks()[..] else { panic!("{:?}", w.blocks()) };
        let steady = block.steady.map(Rate::milli).unwrap_or_default();
        assert!((9_000..=11_000).contains(&steady), "{steady} at {place:?}");
        assert!(w.unblock(&place));
    }
}

// REQ CB-1: what waited does not arrive as a herd
fn what_has_waited_is_let_go_slowly(w: &mut World<impl Fresh>) {
    ten_a_second(w);
    break_down(w, &draft());
    w.accept_all((0..2_000).map(|_| draft()));
    w.pass(secs(5));
    let probe = w.claim_one();
    end(w, &probe, End::Sent);
    assert_eq!(w.ramps(), [here()]);
    let mut most = 0;
    for second in 0..60 {
        let mut passed = 0;
        for _ in 0..20 {
            for claimed in w.claim(64) {
                end(w, &claimed, End::Sent);
                passed += 1;
            }
            w.pass(Span::from_millis(50));
        }
        assert!(passed <= 20, "{passed} in second {second}: more than twice the steady rate");
        most = most.max(passed);
    }
    assert!(most >= 16, "it comes up to nearly twice the steady rate, not {most}");
}

// REQ CB-1
fn a_ramp_ends_by_itself(w: &mut World<impl Fresh>) {
    break_down(w, &draft());
    w.pass(secs(5));
    let probe = w.claim_one();
    end(w, &probe, End::Sent);
    w.accept_all((0..50).map(|_| draft()));
    assert!(w.claim(100).len() < 3);
    w.pass(mins(2));
    assert_eq!((w.claim(100).len() > 40, w.ramps()), (true, vec![]));
}

// REQ CB-1
fn a_breaker_of_the_whole_channel_stops_all_its_destinations(w: &mut World<impl Fresh>) {
    w.accept_all((0..10).map(|_| draft()));
    for claimed in w.claim(10) {
        let settlement = settlement(&claimed, End::Retry(secs(1)), w.now);
        let vitals = Vitals { scope: Scope::Channel, ..vitals(Sign::Ill) };
        w.settle_with(Settlement { vitals, ..settlement });
    }
    w.accept(to("elsewhere"));
    assert_eq!(w.claim(10), []);
    assert_eq!(w.blocks()[0].0, channel("crm"));
}

// REQ CB-1
fn a_breaker_survives_reopening(w: &mut World<impl Fresh>) {
    break_down(w, &draft());
    let before = w.blocks();
    w.reopen();
    assert_eq!((w.blocks(), w.claim(10)), (before, vec![]));
}

// REQ CB-1
fn an_operator_who_lifts_a_breaker_lets_all_go_at_once(w: &mut World<impl Fresh>) {
    break_down(w, &draft());
    w.accept_all((0..50).map(|_| draft()));
    assert!(w.unblock(&here()));
    assert_eq!((w.claim(100).len(), w.ramps()), (50, vec![]));
}

// REQ CF-7
fn a_hold_that_is_lifted_leaves_a_ramp_too(w: &mut World<impl Fresh>) {
    w.through(draft(), End::Held(Scope::Destination));
    w.accept_all((0..50).map(|_| draft()));
    w.pass(secs(30));
    let probe = w.claim_one();
    w.settle(&probe, End::Sent);
    assert_eq!((w.blocks(), w.ramps()), (vec![], vec![here()]));
    assert!(w.claim(100).len() < 3);
}

// REQ CF-8
fn a_long_pause_is_followed_by_a_ramp_and_a_short_one_is_not(w: &mut World<impl Fresh>) {
    for (length, crowd) in [(20, 50), (60, 2)] {
        w.accept_all((0..50).map(|_| draft()));
        let first = w.claim(1).remove(0);
        end(w, &first, End::Paused(Scope::Destination, secs(length)));
        w.pass(secs(length));
        let taken = w.claim(100);
        assert!(if crowd > 2 { taken.len() >= crowd } else { taken.len() <= crowd }, "{}", taken.len());
        for claimed in taken {
            end(w, &claimed, End::Sent);
        }
    }
}

fn finding(block: BlockChange, sign: Sign) -> Finding {
    Finding { place: here(), block, vitals: vitals(sign) }
}

// REQ CB-2, CF-7
fn a_provider_that_is_there_is_tried_at_once_and_only_one_that_knows_us_lifts_a_hold(
    w: &mut World<impl Fresh>,
) {
    break_down(w, &draft());
    w.pass(secs(2));
    assert_eq!(w.claim(10), []);
    w.core.examine(&finding(BlockChange::Reached, Sign::None), w.now).unwrap();
    w.commit();
    assert_eq!(w.blocks()[0].1.kind, BlockKind::Breaker, "a page that answers does not close it");
    let probe = w.claim_one();
    end(w, &probe, End::Sent);
    assert_eq!((w.blocks(), w.ramps()), (vec![], vec![here()]));
    w.pass(mins(5));
    let held = w.claim(1).remove(0);
    w.settle(&held, End::Held(Scope::Destination));
    w.core.examine(&finding(BlockChange::Reached, Sign::Well), w.now).unwrap();
    w.commit();
    assert_eq!(w.blocks()[0].1.kind, BlockKind::Hold, "being there is not knowing us");
    w.core.examine(&finding(BlockChange::Ready, Sign::None), w.now).unwrap();
    w.commit();
    assert_eq!(w.blocks(), []);
}

// REQ CB-2
fn whoever_finds_a_provider_down_puts_the_next_probe_off(w: &mut World<impl Fresh>) {
    break_down(w, &draft());
    w.pass(secs(5));
    w.core.examine(&finding(BlockChange::Renew("refused".into()), Sign::Ill), w.now).unwrap();
    w.commit();
    assert_eq!(w.claim(10), []);
    let (_, block) = w.blocks().remove(0);
    assert_eq!((block.probes, block.reason.as_str(), block.until), (1, "refused", Some(w.now + secs(10))));
    // Asking alone, without a message, can find out that a provider is down.
    let elsewhere = destination("crm", "elsewhere");
    for n in 0..10 {
        let ill =
            Finding { place: elsewhere.clone(), ..finding(BlockChange::Renew("down".into()), Sign::Ill) };
        assert!(w.blocks().iter().all(|(place, _)| *place != elsewhere), "after {n}");
        w.pass(secs(2));
        w.core.examine(&ill, w.now).unwrap();
        w.commit();
    }
    assert!(w.blocks().iter().any(|(place, _)| *place == elsewhere));
}

// REQ CB-1
fn a_destination_that_fails_again_right_after_it_came_back_is_closed_sooner(w: &mut World<impl Fresh>) {
    break_down(w, &draft());
    w.pass(secs(5));
    let probe = w.claim_one();
    end(w, &probe, End::Sent);
    assert_eq!(w.ramps(), [here()]);
    for n in 0..3 {
        assert_eq!(w.blocks(), [], "after {n}");
        w.pass(secs(1));
        let claimed = w.claim(1).remove(0);
        end(w, &claimed, End::Retry(secs(600)));
    }
    assert_eq!(w.blocks()[0].1.kind, BlockKind::Breaker);
}

fn opening_and_closing_are_on_record(w: &mut World<impl Fresh>) {
    break_down(w, &draft());
    w.pass(secs(5));
    let probe = w.claim_one();
    end(w, &probe, End::Sent);
    let told: Vec<_> =
        w.audit().into_iter().filter(|it| matches!(it.event, Event::Blocked | Event::Unblocked)).collect();
    assert_eq!(told.iter().map(|it| it.event).collect::<Vec<_>>(), [Event::Blocked, Event::Unblocked]);
    assert!(told[0].detail.contains("\"kind\":\"breaker\""), "{}", told[0].detail);
    assert_eq!(told[1].actor, "pombo");
}

// REQ RP-7: a share of the traffic, with a floor
fn retries_go_first_as_far_as_their_budget_reaches_and_new_messages_are_not_starved(
    w: &mut World<impl Fresh>,
) {
    w.accept_all((0..150).map(|_| draft()));
    for claimed in w.claim(150) {
        w.settle(&claimed, End::Retry(secs(0)));
    }
    w.accept_all((0..50).map(|_| draft()));
    let new = |claimed: Vec<Claimed>| claimed.iter().filter(|it| it.progress.steps == 0).count();
    assert_eq!(new(w.claim(90)), 0, "a hundred retries are saved up");
    assert_eq!(new(w.claim(40)), 26, "beyond that, new ones go first and pay for one retry in five");
    assert_eq!(new(w.claim(30)), 24);
    assert_eq!(w.claim(100).len(), 200 - 90 - 40 - 30, "what nobody else wants is theirs");
}

fn ask(w: &mut World<impl Fresh>, rate: Rate) -> usize {
    let rates: Rates = [("crm".parse::<ChannelName>().unwrap(), rate)].into_iter().collect();
    let ask = Ask { node: ONE, lane: "default".parse().unwrap(), max: 100, rates: Arc::new(rates) };
    let taken = w.core.claim(&ask, w.now).unwrap();
    w.commit();
    taken.len()
}

// REQ CF-8
fn a_bounded_channel_lets_messages_go_at_its_rate(w: &mut World<impl Fresh>) {
    w.accept_all((0..20).map(|_| draft()).chain([to("elsewhere"), to("elsewhere")]));
    let mut passed = Vec::new();
    for _ in 0..40 {
        passed.push(ask(w, Rate::per_second(2)));
        w.pass(Span::from_millis(100));
    }
    assert_eq!(passed.iter().sum::<usize>(), 8, "{passed:?}");
    assert!(passed.iter().all(|count| *count <= 1), "{passed:?}");
}

// REQ CF-8
fn a_rate_that_the_provider_names_outranks_the_configured_one(w: &mut World<impl Fresh>) {
    w.accept_all((0..100).map(|_| draft()));
    assert_eq!(ask(w, Rate::per_second(2)), 1);
    w.pass(secs(1));
    let claimed = w.claim(1).remove(0);
    let vitals = Vitals { rate: Some(Rate::per_second(40)), ..vitals(Sign::Well) };
    let settlement = settlement(&claimed, End::Sent, w.now);
    w.settle_with(Settlement { vitals, ..settlement });
    w.pass(secs(1));
    let mut passed = 0;
    for _ in 0..20 {
        passed += ask(w, Rate::per_second(2));
        w.pass(Span::from_millis(50));
    }
    assert!((38..=43).contains(&passed), "{passed}");
}
