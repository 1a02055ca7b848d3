//! At which pace the messages of campaigns go, and that nobody else's wait for them.

use std::sync::Arc;

use pombo_kernel::campaign::State;
use pombo_kernel::campaign::StateName as Course;
use pombo_kernel::campaign::line::LineRules;
use pombo_kernel::classify::Scope;
use pombo_kernel::message::{FailureReason, StateName};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::{Span, Time};
use pombo_kernel::turns::Weight;
use pombo_store::audit::Event;
use pombo_store::core::Reading;
use pombo_store::roster::NotDone;
use pombo_store::shelf::{Expect, Leaf, Shelf, Shelve};
use pombo_store::{Ask, Claimed, Counted, Place, Rates, Settled, Settlement};

use super::{C, D, name, person};
use crate::counting::of_what;
use crate::world::*;

on_every_store! {
    one_message_is_in_flight_over_all_queues,
    one_claim_takes_one_message_of_each_campaign,
    the_wait_begins_at_every_end,
    the_wait_is_drawn_by_the_settlement,
    what_was_given_back_unsent_costs_no_wait,
    a_retry_is_paced_like_a_first_attempt,
    the_pace_is_no_time_to_delivery,
    what_was_taken_over_is_still_in_flight,
    the_wait_outlives_a_restart,
    the_flight_outlives_a_restart,
    a_claim_that_was_not_committed_leaves_no_flight,
    only_a_running_campaign_sends,
    a_campaign_sends_in_its_hours,
    the_gap_of_a_line_holds_across_campaigns,
    campaigns_of_a_line_take_turns_whoever_else_is_in_the_lane,
    a_line_without_rules_knows_no_gap,
    a_line_has_its_daily_cap_until_midnight,
    what_was_given_back_does_not_use_up_the_daily_cap,
    what_was_given_back_after_midnight_was_of_the_day_before,
    a_send_past_the_hard_limit_is_cut_off,
    a_send_within_the_hard_limit_is_not_cut_off,
    a_cut_outlives_a_restart,
    messages_of_no_campaign_do_not_wait_for_any,
    campaigns_that_compete_get_turns_by_their_weights,
    a_block_and_the_pace_both_hold,
    a_held_message_is_probed_at_the_campaigns_pace,
    a_document_that_is_gone_or_unreadable,
}

/// What is drawn with the least chance, which settlements of the cases have unless they say otherwise.
const MIN: Span = Span::from_secs(15);
const MAX: Span = Span::from_secs(25);

impl<S: Fresh> World<S> {
    /// Claims where the channel has rules for campaigns.
    fn claim_by(&mut self, rules: &LineRules, max: usize) -> Vec<Claimed> {
        let lines = [("crm".parse().unwrap(), rules.clone())].into();
        let rates = Arc::new(Rates { lines, ..Rates::default() });
        let ask = Ask { node: ONE, lane: "default".parse().unwrap(), max, rates };
        let taken = self.core.claim(&ask, self.now).unwrap();
        self.commit();
        taken
    }

    /// What can be claimed only at that time, and not a millisecond earlier.
    fn claim_exactly_at(&mut self, at: Time) -> Claimed {
        assert_eq!(self.claim(10), [], "{} before {at}", self.now);
        // A store may wake its caller too early, but not for nothing once it has looked.
        let woken = self.next_due().unwrap();
        assert!(self.now < woken && woken <= at, "{woken}");
        self.now = at - Span::from_millis(1);
        assert_eq!(self.claim(10), []);
        self.now = at;
        self.claim_one()
    }
}

// REQ OB-3
fn the_pace_is_no_time_to_delivery(w: &mut World<impl Fresh>) {
    w.running(C, 2);
    let first = w.claim_one();
    w.settle(&first, End::Sent);
    let second = w.claim_exactly_at(w.now + MIN);
    w.settle(&second, End::Sent);
    let sent: i64 = of_what(w, Counted::SentOnAttempt).iter().map(|(_, count, _)| count).sum();
    assert_eq!((sent, of_what(w, Counted::SentWithin)), (2, vec![]));
}

// REQ BK-2, invariant 9
fn one_message_is_in_flight_over_all_queues(w: &mut World<impl Fresh>) {
    w.running(C, 4);
    let claimed = w.claim_one();
    let flight = w.campaign(C).flight.unwrap();
    assert_eq!(
        (flight.message, flight.claim, flight.since),
        (claimed.message.id, claimed.key.claim.0, w.now)
    );
    assert_eq!((w.claim(10), w.next_due()), (vec![], None));
    assert_eq!(w.claim_as(TWO, "default", 10), []);
    w.pass(mins(1));
    assert_eq!((w.claim(10), w.next_due()), (vec![], None));
    w.settle(&claimed, End::Sent);
    let next = w.claim_exactly_at(w.now + MIN);
    assert_ne!(next.message.queue, claimed.message.queue, "the other queue had its turn");
    assert_eq!(w.claim(10), []);
    assert_eq!(w.agree(C).queued, 3);
}

// REQ BK-6
fn one_claim_takes_one_message_of_each_campaign(w: &mut World<impl Fresh>) {
    w.running(C, 4);
    w.running(D, 4);
    let mut campaigns: Vec<_> =
        w.claim(10).iter().map(|claimed| claimed.message.queue.campaign.clone().unwrap()).collect();
    campaigns.sort();
    assert_eq!(campaigns, [name(C), name(D)]);
}

// REQ BK-5
fn campaigns_that_compete_get_turns_by_their_weights(w: &mut World<impl Fresh>) {
    w.running(C, 40);
    w.running(D, 40);
    for (weight, share) in [(1, 12), (3, 18)] {
        w.change(C, |campaign, _| campaign.weight = Weight::new(weight).unwrap());
        let mut ours = 0;
        for _ in 0..24 {
            let claimed = w.claim(1).remove(0);
            ours += u32::from(claimed.message.queue.campaign == Some(name(C)));
            w.settle(&claimed, End::Sent);
            // Both could go by then, and there is one who sends.
            w.pass(mins(1));
        }
        assert_eq!(ours, share, "at a weight of {weight}");
    }
}

// REQ BK-2
fn the_wait_begins_at_every_end(w: &mut World<impl Fresh>) {
    w.running(C, 20);
    let ends = [
        End::Sent,
        End::Retry(mins(60)),
        End::Failed(FailureReason::PermanentError),
        End::Paused(Scope::Destination, Span::from_millis(1)),
        End::Unreached(mins(60)),
    ];
    for end in ends {
        let claimed = w.claim_one();
        w.pass(secs(7));
        w.settle(&claimed, end);
        assert_eq!(w.campaign(C).free_at, w.now + MIN, "{end:?}");
        let next = w.claim_exactly_at(w.now + MIN);
        // Given back, so that the next round may begin at once.
        assert_eq!(w.release(next.key), Settled::Done);
    }
    assert_eq!(w.agree(C).queued, 18);
}

// REQ BK-2
fn the_wait_is_drawn_by_the_settlement(w: &mut World<impl Fresh>) {
    w.running(C, 4);
    for (chance, wait) in [(0, MIN), (u64::MAX, MAX), (u64::MAX / 2, secs(20))] {
        let claimed = w.claim_one();
        w.settle_with(Settlement { chance, ..settlement(&claimed, End::Sent, w.now) });
        let next = w.claim_exactly_at(w.now + wait);
        w.release(next.key);
    }
}

// REQ BK-2
fn what_was_given_back_unsent_costs_no_wait(w: &mut World<impl Fresh>) {
    w.running(C, 2);
    for _ in 0..3 {
        let claimed = w.claim_one();
        assert_eq!(w.agree(C).ahead, 1);
        assert_eq!(w.release(claimed.key), Settled::Done);
        let roll = w.agree(C);
        assert_eq!((w.campaign(C).flight, roll.ahead, roll.queued), (None, 2, 2));
    }
    // The same for one that was tried before; the wait after that still holds.
    w.running(D, 1);
    w.pause(C);
    let claimed = w.claim_one();
    w.settle(&claimed, End::Retry(secs(1)));
    let again = w.claim_exactly_at(w.now + MIN);
    w.release(again.key);
    assert_eq!((w.claim_one().message.id, w.agree(D).ahead), (claimed.message.id, 0));
}

// REQ BK-2, invariant 9
fn a_retry_is_paced_like_a_first_attempt(w: &mut World<impl Fresh>) {
    w.running(C, 1);
    let mut claimed = w.claim_one();
    for _ in 0..3 {
        w.settle(&claimed, End::Retry(Span::ZERO));
        claimed = w.claim_exactly_at(w.now + MIN);
    }
    // A retry that is due later than the pace asks for goes when it is due.
    w.settle(&claimed, End::Retry(mins(10)));
    claimed = w.claim_exactly_at(w.now + mins(10));
    w.settle(&claimed, End::Sent);
    assert_eq!((w.course(C), w.agree(C).sent), (Course::Completed, 1));
}

// REQ BK-4, invariant 9
fn what_was_taken_over_is_still_in_flight(w: &mut World<impl Fresh>) {
    w.running(C, 2);
    w.heartbeat(ONE, secs(60));
    let lost = w.claim_one();
    w.pass(secs(90));
    w.heartbeat(TWO, secs(60));
    let taken = w.take_over(TWO, 10);
    assert_eq!(taken.len(), 1);
    let flight = w.campaign(C).flight.unwrap();
    assert_eq!((flight.message, flight.claim), (lost.message.id, taken[0].key.claim.0));
    assert_eq!((w.claim(10), w.next_due()), (vec![], None));
    assert_eq!(w.settle(&lost, End::Sent), Settled::Stale);
    assert_eq!(w.campaign(C).flight, Some(flight), "whoever lost it changes nothing");
    assert_eq!(w.claim(10), []);
    w.settle(&taken[0], End::Retry(Span::ZERO));
    w.claim_exactly_at(w.now + MIN);
    w.agree(C);
}

// invariant 9
fn the_wait_outlives_a_restart(w: &mut World<impl Fresh>) {
    w.running(C, 2);
    let claimed = w.claim_one();
    w.settle(&claimed, End::Sent);
    w.reopen();
    w.claim_exactly_at(w.now + MIN);
    w.agree(C);
}

// invariant 9
fn the_flight_outlives_a_restart(w: &mut World<impl Fresh>) {
    w.running(C, 2);
    let claimed = w.claim_one();
    w.reopen();
    w.pass(mins(1));
    assert_eq!((w.claim(10), w.next_due()), (vec![], None));
    let taken = w.take_over(TWO, 10);
    assert_eq!(taken[0].message.id, claimed.message.id);
    w.settle(&taken[0], End::Sent);
    w.claim_exactly_at(w.now + MIN);
    assert_eq!(w.agree(C).sent, 1);
}

fn a_claim_that_was_not_committed_leaves_no_flight(w: &mut World<impl Fresh>) {
    w.running(C, 2);
    assert_eq!(w.claim_uncommitted(ONE, "default", 10).len(), 1);
    w.reopen();
    assert_eq!(w.campaign(C).flight, None);
    let claimed = w.claim_one();
    w.core.settle(settlement(&claimed, End::Sent, w.now), w.now).unwrap();
    w.reopen();
    assert_eq!(w.campaign(C).flight.map(|flight| flight.message), Some(claimed.message.id));
    assert_eq!(w.claim(10), []);
    assert_eq!(w.agree(C).sent, 0);
}

// invariant 8
fn only_a_running_campaign_sends(w: &mut World<impl Fresh>) {
    w.running(C, 3);
    let claimed = w.claim_one();
    w.pause(C);
    w.settle(&claimed, End::Sent);
    w.pass(mins(60));
    assert_eq!((w.claim(10), w.next_due()), (vec![], None), "what is under way ends, and nothing sets out");
    assert_eq!(w.agree(C).sent, 1);
    w.reopen();
    assert_eq!((w.claim(10), w.next_due()), (vec![], None));
    w.start(C);
    assert_eq!(w.next_due(), Some(w.now));
    let claimed = w.claim_one();
    // Made anew by somebody who does not know what they are doing: the messages wait all the same.
    w.settle(&claimed, End::Sent);
    w.change(C, |campaign, now| {
        campaign.state = State::Scheduled { start_at: now + mins(5) };
    });
    w.pass(mins(60));
    assert_eq!((w.claim(10), w.next_due()), (vec![], None));
    w.change(C, |campaign, _| campaign.state = State::Draft);
    assert_eq!((w.claim(10), w.next_due()), (vec![], None));
}

fn a_campaign_sends_in_its_hours(w: &mut World<impl Fresh>) {
    // It is eight in the morning.
    let window = r#"{"hours": "08:00-08:01", "time_zone": "UTC"}"#;
    w.create(&Tenant::default(), C, |campaign| campaign.window = serde_json::from_str(window).unwrap());
    w.enlist(C, (1..=9).map(person).collect()).unwrap();
    w.start(C);
    w.serve(C, 1..=9);
    let claimed = w.claim_one();
    w.pass(secs(55));
    w.settle(&claimed, End::Sent);
    w.pass(secs(5));
    let tomorrow = START + Span::from_hours(24);
    // The pace would let it go at ten past, when the hours are over.
    assert_eq!(w.claim(10), []);
    assert!(w.next_due().unwrap() <= tomorrow);
    w.pass(mins(1));
    let claimed = w.claim_exactly_at(tomorrow);
    w.settle(&claimed, End::Sent);
    w.claim_exactly_at(tomorrow + MIN);
}

// REQ BK-6
fn the_gap_of_a_line_holds_across_campaigns(w: &mut World<impl Fresh>) {
    let rules = LineRules { gap: Some(secs(40)), ..LineRules::default() };
    w.running(C, 3);
    w.running(D, 3);
    let taken = w.claim_by(&rules, 10);
    assert_eq!(taken.len(), 1, "one message is on the line");
    assert_eq!(w.claim_by(&rules, 10), []);
    w.pass(secs(3));
    w.settle(&taken[0], End::Retry(mins(90)));
    let free = w.now + secs(40);
    for _ in 0..2 {
        assert_eq!((w.claim_by(&rules, 10), w.next_due()), (vec![], Some(free)));
        w.reopen();
    }
    w.now = free - Span::from_millis(1);
    assert_eq!(w.claim_by(&rules, 10), []);
    w.now = free;
    let taken = w.claim_by(&rules, 10);
    assert_eq!(taken.len(), 1);
    // Given back unsent: the line is free at once, for either.
    w.release(taken[0].key);
    let taken = w.claim_by(&rules, 10);
    assert_eq!(taken.len(), 1);
    // A crash, and who takes over ends it.
    w.reopen();
    assert_eq!(w.claim_by(&rules, 10), []);
    let lost = w.take_over(TWO, 10);
    w.settle(&lost[0], End::Sent);
    w.pass(secs(39));
    assert_eq!(w.claim_by(&rules, 10), []);
    w.pass(secs(1));
    assert_eq!(w.claim_by(&rules, 10).len(), 1);
}

// REQ BK-5, BK-6
fn campaigns_of_a_line_take_turns_whoever_else_is_in_the_lane(w: &mut World<impl Fresh>) {
    let rules = LineRules { gap: Some(secs(40)), ..LineRules::default() };
    w.running(C, 8);
    w.running(D, 8);
    let mut sent = Vec::new();
    for _ in 0..8 {
        // What others take moves the lane on, past what either campaign has paid for.
        let mut other = draft();
        other.queue.channel = "mail".parse().unwrap();
        w.accept(other);
        let taken = w.claim_by(&rules, 10);
        for claimed in &taken {
            w.settle(claimed, End::Sent);
            sent.extend(claimed.message.queue.campaign.clone());
        }
        w.pass(mins(2));
    }
    // Each has two queues.
    let count = |campaign| sent.iter().filter(|it| **it == name(campaign)).count();
    assert_eq!((count(C), count(D)), (4, 4), "{sent:?}");
}

// REQ BK-6
fn a_line_without_rules_knows_no_gap(w: &mut World<impl Fresh>) {
    w.running(C, 2);
    w.running(D, 2);
    let taken = w.claim(10);
    assert_eq!(taken.len(), 2);
    w.settle(&taken[0], End::Sent);
    w.settle(&taken[1], End::Sent);
    w.pass(MIN);
    assert_eq!(w.claim(10).len(), 2);
}

fn a_line_has_its_daily_cap_until_midnight(w: &mut World<impl Fresh>) {
    let rules = LineRules { daily_cap: Some(3), time_zone: "UTC".parse().unwrap(), ..LineRules::default() };
    w.running(C, 4);
    w.running(D, 4);
    let first = w.claim_by(&rules, 10);
    assert_eq!(first.len(), 2);
    for claimed in &first {
        w.settle(claimed, End::Retry(mins(1)));
    }
    w.pass(mins(2));
    assert_eq!(w.claim_by(&rules, 10).len(), 1, "retries are sends as well");
    assert_eq!(w.claim_by(&rules, 10), []);
    // START is at eight in the morning.
    let midnight = START + Span::from_hours(16);
    w.reopen();
    assert_eq!((w.claim_by(&rules, 10), w.next_due()), (vec![], Some(midnight)));
    w.now = midnight - Span::from_millis(1);
    assert_eq!(w.claim_by(&rules, 10), []);
    w.now = midnight;
    assert_eq!(w.claim_by(&rules, 10).len(), 1, "the other campaign's message is still on its way");
    // Messages of no campaign are not counted and not stopped.
    w.accept(draft());
    assert_eq!(w.claim_by(&rules, 10).len(), 1);
}

fn what_was_given_back_does_not_use_up_the_daily_cap(w: &mut World<impl Fresh>) {
    let rules = LineRules { daily_cap: Some(1), ..LineRules::default() };
    w.running(C, 2);
    for _ in 0..3 {
        let taken = w.claim_by(&rules, 10);
        assert_eq!(taken.len(), 1);
        w.release(taken[0].key);
    }
    let taken = w.claim_by(&rules, 10);
    w.settle(&taken[0], End::Sent);
    w.pass(mins(1));
    assert_eq!(w.claim_by(&rules, 10), []);
}

fn what_was_given_back_after_midnight_was_of_the_day_before(w: &mut World<impl Fresh>) {
    let rules = LineRules { daily_cap: Some(1), time_zone: "UTC".parse().unwrap(), ..LineRules::default() };
    w.running(C, 2);
    w.running(D, 2);
    let taken = w.claim_by(&rules, 10);
    assert_eq!(taken.len(), 1);
    w.now = START + Span::from_hours(16);
    let today = w.claim_by(&rules, 10);
    assert_eq!(today.len(), 1);
    w.release(taken[0].key);
    assert_eq!(w.claim_by(&rules, 10), [], "the one of today was sent");
}

// REQ BK-3
fn a_send_past_the_hard_limit_is_cut_off(w: &mut World<impl Fresh>) {
    w.running(C, 2);
    w.heartbeat(ONE, mins(60));
    let claimed = w.claim_one();
    assert_eq!(w.take_over(TWO, 10), []);
    w.now = w.campaign(C).cut_at().unwrap();
    assert!(w.core.cut(&Tenant::default(), &name(C), w.now).unwrap());
    w.commit();
    let campaign = w.campaign(C);
    assert_eq!(campaign.state.name(), Course::Paused);
    assert!(campaign.flight.is_some(), "for all that is known it is on its way");
    let turn = w.turns().remove(0);
    let detail: serde_json::Value = serde_json::from_str(&turn.detail).unwrap();
    assert_eq!((turn.event, detail["reason"].as_str()), (Event::CampaignPaused, Some("time_limit")));
    assert!(!w.core.cut(&Tenant::default(), &name(C), w.now).unwrap(), "once is enough");
    let taken = w.take_over(TWO, 10);
    assert_eq!(taken.len(), 1, "though its holder lives");
    assert_eq!(w.settle(&claimed, End::Sent), Settled::Stale);
    w.settle(&taken[0], End::Retry(Span::ZERO));
    assert_eq!((w.claim(10), w.next_due()), (vec![], None));
    w.start(C);
    assert_eq!(w.next_due(), Some(w.now + MIN));
    w.agree(C);
}

// REQ BK-3
fn a_send_within_the_hard_limit_is_not_cut_off(w: &mut World<impl Fresh>) {
    w.running(C, 2);
    let tenant = Tenant::default();
    assert!(!w.core.cut(&tenant, &name(C), w.now + mins(600)).unwrap(), "nothing is under way");
    let claimed = w.claim_one();
    let limit = w.campaign(C).cut_at().unwrap();
    assert!(!w.core.cut(&tenant, &name(C), limit - Span::from_millis(1)).unwrap());
    w.commit();
    assert_eq!(w.settle(&claimed, End::Sent), Settled::Done);
    assert_eq!(w.course(C), Course::Running);
}

// REQ BK-3
fn a_cut_outlives_a_restart(w: &mut World<impl Fresh>) {
    w.running(C, 2);
    w.heartbeat(ONE, mins(60));
    w.claim_one();
    w.now = w.campaign(C).cut_at().unwrap();
    assert!(w.core.cut(&Tenant::default(), &name(C), w.now).unwrap());
    w.commit();
    w.reopen();
    assert_eq!(w.take_over(TWO, 10).len(), 1);
}

// REQ BK-5
fn messages_of_no_campaign_do_not_wait_for_any(w: &mut World<impl Fresh>) {
    let rules = LineRules { gap: Some(mins(5)), daily_cap: Some(1), ..LineRules::default() };
    w.running(C, 3);
    w.running(D, 3);
    w.pause(D);
    assert_eq!(w.claim_by(&rules, 10).len(), 1);
    let of_nobody = |claimed: &[Claimed]| claimed.iter().all(|it| it.message.queue.campaign.is_none());
    for _ in 0..3 {
        let ids = w.accept_all([to("a.example"), to("b.example")]);
        assert_eq!(w.next_due(), Some(w.now));
        let taken = w.claim_by(&rules, 10);
        assert_eq!((taken.len(), of_nobody(&taken)), (2, true));
        w.settle(&taken[0], End::Sent);
        w.settle(&taken[1], End::Sent);
        ids.into_iter().for_each(|id| w.is(id, StateName::Sent));
    }
    let flight = w.campaign(C).flight;
    assert!(flight.is_some(), "and the campaign did not notice");
    assert_eq!((w.claim_by(&rules, 10), w.agree(C).queued), (vec![], 3));
}

fn a_block_and_the_pace_both_hold(w: &mut World<impl Fresh>) {
    let here = |destination: &str| Place {
        channel: "crm".parse().unwrap(),
        destination: Some(Arc::from(destination)),
    };
    w.running(C, 4);
    w.block(&here("a.example"), by_operator(w.now));
    w.block(&here("b.example"), by_operator(w.now));
    assert_eq!((w.claim(10), w.next_due()), (vec![], None));
    w.unblock(&here("b.example"));
    let claimed = w.claim_one();
    w.settle(&claimed, End::Sent);
    w.unblock(&here("a.example"));
    w.claim_exactly_at(w.now + MIN);
}

fn a_held_message_is_probed_at_the_campaigns_pace(w: &mut World<impl Fresh>) {
    w.running(C, 1);
    let claimed = w.claim_one();
    w.settle(&claimed, End::Held(Scope::Channel));
    let (_, hold) = w.blocks().remove(0);
    let until = hold.until.unwrap().max(w.now + MIN);
    let probe = w.claim_exactly_at(until);
    assert!(probe.probe.is_some());
    w.settle(&probe, End::Sent);
    assert_eq!((w.course(C), w.agree(C).sent), (Course::Completed, 1));
}

fn a_document_that_is_gone_or_unreadable(w: &mut World<impl Fresh>) {
    w.running(C, 3);
    let tenant = Tenant::default();
    let doc = w.read().doc(Shelf::Campaign, &tenant, C).unwrap().unwrap();
    let odd = Leaf { body: "{\"state\":\"of a newer version\"}".into(), ..doc.leaf };
    let mut wish = Shelve {
        shelf: Shelf::Campaign,
        tenant,
        id: C.into(),
        expect: Expect::Any,
        leaf: Some(odd),
        record: None,
    };
    w.core.shelve(&wish, w.now).unwrap();
    w.commit();
    for _ in 0..2 {
        assert_eq!((w.claim(10), w.next_due()), (vec![], None), "nobody knows its pace");
        assert_eq!(w.enlist(C, vec![person(9)]), Err(NotDone::NotFound));
        w.reopen();
    }
    wish.leaf = None;
    w.core.shelve(&wish, w.now).unwrap();
    w.commit();
    assert_eq!(w.claim(10).len(), 3, "without any, they are messages like others");
}
