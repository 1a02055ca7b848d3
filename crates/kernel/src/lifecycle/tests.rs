use super::*;
use crate::classify::Rules;
use crate::kind::ChannelKind;
use crate::policy::Profile;
use crate::reply::{Fault, FaultKind, Reply};
use proptest::prelude::*;

const NOW: Time = Time::from_millis(1_700_000_000_000);

fn made(attempts: u16) -> Progress {
    Progress { attempts, steps: u32::from(attempts), ..Progress::default() }
}

fn policy(name: &str) -> Policy {
    Policy::built_in(name, Profile::Production).unwrap()
}

fn failure(verdict: Verdict) -> Failure {
    Failure {
        meaning: Meaning {
            verdict,
            category: "some_category".into(),
            destination_fault: false,
            suppress: false,
            already_there: false,
            scope: Scope::Destination,
            wait: None,
            rule: None,
        },
        hint: None,
        certainty: Certainty::NotSent,
        heard: Heard::Provider,
        summary: "503".into(),
    }
}

fn case(progress: Progress, policy: &Policy) -> Case<'_> {
    Case {
        progress,
        expires_at: None,
        policy,
        on_unknown: OnUnknownOutcome::Resend,
        probe: None,
        health: Scope::Destination,
        past: Past::default(),
    }
}

fn decide(case: Case<'_>, failure: Failure) -> Decision {
    settle(case, Outcome::Failed(failure), NOW, &mut Dice::seeded(1))
}

#[test] // REQ RP-3, RP-4
fn the_last_allowed_attempt_ends_in_the_dead_letter_queue() {
    for (name, attempts) in [("whatsapp", 4), ("smtp", 5), ("resend", 4), ("claims", 6)] {
        let policy = policy(name);
        for before in 0..attempts - 1 {
            let next = decide(case(made(before), &policy), failure(Verdict::Transient)).next;
            assert!(matches!(next, Next::Retry { .. }), "{name} after {before}");
        }
        let last = decide(case(made(attempts - 1), &policy), failure(Verdict::Transient)).next;
        assert_eq!(last, Next::Failed(FailureReason::MaxRetriesExceeded), "{name}");
    }
}

#[test] // REQ RP-3, RELIABILITY 24
fn a_name_that_does_not_exist_is_retried_like_a_resolver_that_is_ill_and_only_the_policy_limits_its_tries() {
    let rules = Rules::for_kind(ChannelKind::Webhook, &[]).unwrap();
    for (kind, category) in [(FaultKind::Dns, "dns_failure"), (FaultKind::DnsNotFound, "dns_not_found")] {
        let fault = Fault { kind, text: "no such host".into() };
        let meaning = rules.classify(&Reply::Unreachable(fault)).unwrap();
        assert_eq!((&*meaning.category, meaning.wait), (category, None));
        for attempts in [1, 3, 1_000] {
            let policy = Policy { attempts, ..policy("smtp") };
            let next = |before| {
                let failure = Failure { meaning: meaning.clone(), ..failure(Verdict::Transient) };
                decide(case(made(before), &policy), failure).next
            };
            let retries = (0..).take_while(|before| matches!(next(*before), Next::Retry { .. })).count();
            assert_eq!(retries, usize::from(attempts - 1), "{category}");
            assert_eq!(next(attempts - 1), Next::Failed(FailureReason::MaxRetriesExceeded), "{category}");
        }
    }
}

#[test] // REQ RP-1
fn the_first_retry_waits_the_first_delay() {
    let policy = policy("whatsapp");
    let due = |before| match decide(case(made(before), &policy), failure(Verdict::Transient)).next {
        Next::Retry { due, .. } => due.since(NOW).millis(),
        other => panic!("{other:?}"),
    };
    assert_eq!([due(0), due(1), due(2)], [5_000, 30_000, 300_000]);
}

fn taught() -> adapt::Fit {
    let cell = |secs| crate::learn::Cell::of(2, Span::from_secs(secs), Span::from_secs(secs));
    let counts = |tried, passed| crate::learn::Counts { tried, passed };
    let rows = [(cell(1), counts(100, 1)), (cell(60), counts(100, 10)), (cell(240), counts(112, 100))];
    adapt::Fit::of(&rows.into_iter().collect())
}

#[test] // REQ LN-1
fn an_adaptive_policy_goes_by_what_was_learned_and_says_so() {
    let fit = taught();
    let mut smtp = policy("smtp");
    let told = |policy: &Policy, hint, fit| {
        let failure = Failure { hint, ..failure(Verdict::Transient) };
        let past = Past { failing_since: None, fit };
        let Decision { next, explanation, adapted, .. } =
            decide(Case { past, ..case(made(0), policy) }, failure);
        let Next::Retry { wait, .. } = next else { panic!("{next:?}") };
        (wait.delay, explanation.split_once("; ").unwrap().1.to_owned(), adapted)
    };
    let (own, _, nothing) = told(&smtp, None, Some(&fit));
    assert_eq!(nothing, None, "off");
    smtp.adaptive = Adaptive::On;
    let (delay, said, adapted) = told(&smtp, None, Some(&fit));
    assert!(delay > Span::from_mins(1) && delay <= smtp.cap, "{delay}");
    assert!(
        said.starts_with(&format!("next try in {delay}: adaptive, "))
            && said.ends_with(&format!(
                " % likely to pass going by 312 retries, where policy smtp would have waited {own}"
            )),
        "{said}"
    );
    assert_eq!(adapted.map(|it| it.to_string().parse::<Adapted>().unwrap().delay()), Some(delay));
    let (asked, said, _) = told(&smtp, Some(Span::from_hours(1)), Some(&fit));
    assert_eq!(
        (asked, said.as_str()),
        (Span::from_hours(1), "next try in 1h: the provider asked for that wait")
    );
    let (few, said, none) = told(&smtp, None, None);
    assert_eq!((few, none), (own, None));
    assert!(said.ends_with(", since 0 retries on record are too few to adapt it"), "{said}");
    smtp.adaptive = Adaptive::Advice;
    let (advised, said, adapted) = told(&smtp, None, Some(&fit));
    assert_eq!((advised, adapted.is_some()), (own, true));
    assert!(said.contains(&format!(", where adaptive would have waited {delay} (")), "{said}");
}

#[test] // REQ CF-2
fn an_unknown_error_is_retried() {
    let policy = policy("smtp");
    assert!(matches!(
        decide(case(made(0), &policy), failure(Verdict::UnknownTransient)).next,
        Next::Retry { .. }
    ));
}

#[test]
fn what_a_provider_noted_is_told_with_the_acceptance() {
    let policy = policy("claims");
    let receipt = Receipt { note: Some("received with denials: 1801".to_owned()), ..Receipt::default() };
    let sent = settle(case(made(0), &policy), Outcome::Sent(receipt), NOW, &mut Dice::seeded(1));
    assert_eq!(sent.explanation, format!("{}: received with denials: 1801", accepted(1)));
}

#[test] // REQ CF-1
fn a_permanent_error_fails_at_once() {
    let policy = policy("smtp");
    let decision = decide(case(made(0), &policy), failure(Verdict::Permanent));
    assert_eq!(decision.next, Next::Failed(FailureReason::PermanentError));
}

#[test] // REQ CF-7
fn a_fault_of_ours_burns_no_attempt_and_holds_the_destination() {
    let policy = policy("smtp");
    let decision = decide(case(made(4), &policy), failure(Verdict::SenderFault));
    assert_eq!(
        (decision.next, decision.progress.attempts, decision.progress.steps),
        (Next::Held { due: NOW }, 4, 5)
    );
    let BlockChange::Set(Scope::Destination, block) = decision.block else { panic!("{:?}", decision.block) };
    assert_eq!((block.kind, block.probes), (BlockKind::Hold, 0));
}

#[test] // REQ CF-7
fn a_probe_that_comes_through_lifts_the_hold_and_one_that_does_not_renews_it() {
    let policy = policy("smtp");
    let probe = Some(Probe { kind: BlockKind::Hold, failed: 2, since: NOW });
    let probing = Case { probe, ..case(made(0), &policy) };
    let sent = settle(probing, Outcome::Sent(Receipt::default()), NOW, &mut Dice::seeded(1));
    assert_eq!(sent.block, BlockChange::Lift);
    assert_eq!(decide(probing, failure(Verdict::Transient)).block, BlockChange::Lift);
    let unheard = Failure { heard: Heard::Nobody, ..failure(Verdict::Transient) };
    let renewed = decide(probing, unheard).block;
    assert!(matches!(renewed, BlockChange::Renew(_)), "a probe that reached nobody proves nothing");
    let BlockChange::Set(_, block) = decide(probing, failure(Verdict::SenderFault)).block else { panic!() };
    assert_eq!(block.probes, 3);
}

#[test] // REQ CF-7
fn a_message_that_meets_a_fault_of_ours_again_and_again_waits_by_itself() {
    let policy = policy("smtp");
    let waits = [0, 1, 2, 3, 4, 9].map(|held| {
        let progress = Progress { steps: held, ..made(0) };
        match decide(case(progress, &policy), failure(Verdict::SenderFault)).next {
            Next::Held { due } => due.since(NOW).millis() / 1000,
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(waits, [0, 30, 60, 120, 240, 300]);
}

#[test]
fn what_says_only_that_it_was_accepted_is_known_without_being_made() {
    for number in [1, 7, u16::MAX] {
        assert!(is_accepted(&accepted(number), number));
        assert!(
            !is_accepted(&accepted(number), 3)
                && !is_accepted(&format!("{}; 1308", accepted(number)), number)
        );
    }
}

fn down() -> Failure {
    let mut failure = failure(Verdict::Transient);
    failure.meaning.destination_fault = true;
    failure
}

#[test] // REQ CB-1
fn an_attempt_says_how_the_destination_is_whatever_it_means_for_the_message() {
    let policy = policy("smtp");
    let sign = |failure| decide(case(made(0), &policy), failure).sign;
    assert_eq!(sign(down()), Sign::Ill);
    assert_eq!(
        sign(failure(Verdict::Permanent)),
        Sign::Well,
        "a wrong number is no fault of the destination"
    );
    assert_eq!(sign(failure(Verdict::SenderFault)), Sign::Well);
    let unheard = Failure { heard: Heard::Nobody, ..failure(Verdict::Permanent) };
    assert_eq!(sign(unheard), Sign::None);
}

#[test] // REQ CB-1
fn a_probe_that_finds_the_destination_down_is_free_for_a_day_and_only_if_surely_not_sent() {
    let policy = policy("smtp");
    let probing = |since: Span| {
        let probe = Some(Probe { kind: BlockKind::Breaker, failed: 4, since: NOW - since });
        Case { probe, ..case(made(4), &policy) }
    };
    let free = decide(probing(Span::from_hours(2)), down());
    assert_eq!((free.next, free.progress.attempts), (Next::Held { due: NOW }, 4));
    assert!(matches!(free.block, BlockChange::Renew(_)));
    let late = decide(probing(Span::from_hours(24)), down());
    assert_eq!(late.next, Next::Failed(FailureReason::MaxRetriesExceeded));
    let doubtful = Failure { certainty: Certainty::PerhapsSent, ..down() };
    let charged = decide(probing(Span::from_hours(2)), doubtful);
    assert_eq!(charged.progress.attempts, 5);
    let refused = decide(probing(Span::from_hours(2)), failure(Verdict::Permanent));
    assert_eq!(refused.block, BlockChange::Lift, "whoever refuses is there");
}

#[test] // REQ CF-8
fn a_success_that_used_up_the_limit_pauses_everybody_until_it_is_reset() {
    let policy = policy("resend");
    let hints = [("ratelimit-limit", "10"), ("ratelimit-remaining", "0"), ("ratelimit-reset", "1")];
    let hints = hints.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let account = Case { health: Scope::Channel, ..case(made(0), &policy) };
    let limited = hints.clone();
    let outcome = Outcome::Sent(Receipt { hints, ..Receipt::default() });
    let sent = settle(account, outcome, NOW, &mut Dice::seeded(1));
    assert_eq!((sent.next, sent.rate), (Next::Sent(Receipt::default()), Some(Rate::per_second(9))));
    let BlockChange::Set(Scope::Channel, pause) = sent.block else { panic!("{:?}", sent.block) };
    assert_eq!((pause.kind, pause.until), (BlockKind::Pause, Some(NOW + Span::from_secs(1))));
    let patient = Policy { max_hint: Span::from_millis(400), ..policy.clone() };
    let case = Case { policy: &patient, ..account };
    let outcome = Outcome::Sent(Receipt { hints: limited, ..Receipt::default() });
    let sent = settle(case, outcome, NOW, &mut Dice::seeded(1));
    let BlockChange::Set(_, pause) = sent.block else { panic!("{:?}", sent.block) };
    assert_eq!(pause.until, Some(NOW + Span::from_millis(400)), "no longer than a hint may be");
}

#[test] // REQ ML-5
fn a_doubtful_outcome_is_resent_or_held_as_the_channel_says() {
    let policy = policy("smtp");
    let doubtful = || Failure { certainty: Certainty::PerhapsSent, ..failure(Verdict::Transient) };
    assert!(matches!(decide(case(made(0), &policy), doubtful()).next, Next::Retry { .. }));
    let holding = Case { on_unknown: OnUnknownOutcome::Hold, ..case(made(0), &policy) };
    assert_eq!(decide(holding, doubtful()).next, Next::Failed(FailureReason::OutcomeUnknown));
}

#[test] // REQ ML-5
fn a_doubt_stays_with_the_message_whatever_comes_later() {
    let policy = policy("claims");
    for certainty in [Certainty::PerhapsSent, Certainty::Interrupted] {
        let unsure = decide(case(made(0), &policy), Failure { certainty, ..failure(Verdict::Transient) });
        assert!(unsure.progress.doubtful, "{certainty:?}");
        for verdict in [Verdict::Transient, Verdict::Permanent, Verdict::SenderFault] {
            assert!(
                decide(case(unsure.progress, &policy), failure(verdict)).progress.doubtful,
                "{verdict:?}"
            );
        }
    }
    assert!(!decide(case(made(0), &policy), failure(Verdict::Transient)).progress.doubtful);
}

#[test] // REQ ML-5
fn a_duplicate_after_an_unknown_outcome_was_accepted_and_any_other_is_not() {
    let policy = policy("claims");
    let duplicate = || {
        let mut failure =
            Failure { summary: "1308 GUIA JÁ APRESENTADA".into(), ..failure(Verdict::Permanent) };
        failure.meaning.already_there = true;
        failure
    };
    let sure = decide(case(made(1), &policy), duplicate());
    assert_eq!(sure.next, Next::Failed(FailureReason::PermanentError));
    let doubtful = Progress { doubtful: true, ..made(1) };
    let accepted = decide(case(doubtful, &policy), duplicate());
    assert_eq!((accepted.next, accepted.progress.attempts), (Next::Sent(Receipt::default()), 2));
    assert!(accepted.explanation.starts_with("1308 "), "{}", accepted.explanation);
    assert!(accepted.explanation.contains("unknown"), "{}", accepted.explanation);
    let other = decide(case(doubtful, &policy), failure(Verdict::Permanent));
    assert_eq!(other.next, Next::Failed(FailureReason::PermanentError));
}

#[test] // REQ ML-5
fn a_doubt_on_a_channel_that_holds_is_never_resent_even_where_the_fault_is_ours() {
    let policy = policy("smtp");
    let holding = Case { on_unknown: OnUnknownOutcome::Hold, ..case(made(0), &policy) };
    let doubtful = Failure { certainty: Certainty::PerhapsSent, ..failure(Verdict::SenderFault) };
    let decision = decide(holding, doubtful);
    assert_eq!(decision.next, Next::Failed(FailureReason::OutcomeUnknown));
    assert!(matches!(decision.block, BlockChange::Set(..)), "the channel is held all the same");
}

#[test] // REQ CF-8: a quota parks the account, not one message
fn a_rule_that_names_a_wait_for_the_channel_pauses_all_of_it() {
    let policy = policy("resend");
    let mut quota = failure(Verdict::Transient);
    (quota.meaning.wait, quota.meaning.scope) = (Some(Span::from_hours(8)), Scope::Channel);
    let decision = decide(case(made(0), &policy), quota.clone());
    let BlockChange::Set(Scope::Channel, pause) = decision.block else { panic!("{:?}", decision.block) };
    assert_eq!((pause.kind, pause.until), (BlockKind::Pause, Some(NOW + Span::from_hours(1))));
    let Next::Retry { due, .. } = decision.next else { panic!() };
    assert_eq!(due.since(NOW), Span::from_hours(8));
    quota.meaning.scope = Scope::Destination;
    assert_eq!(
        decide(case(made(0), &policy), quota).block,
        BlockChange::Keep,
        "a greylisted mail waits alone"
    );
}

#[test] // REQ ML-5
fn a_message_that_kills_its_sender_three_times_is_set_aside() {
    let policy = policy("smtp");
    let killed = || Failure { certainty: Certainty::Interrupted, ..failure(Verdict::Transient) };
    let second = decide(case(Progress { crashes: 1, ..made(1) }, &policy), killed());
    assert!(matches!(second.next, Next::Retry { .. }));
    let third = decide(case(second.progress, &policy), killed());
    assert_eq!(third.next, Next::Failed(FailureReason::OutcomeUnknown));
    let other = decide(case(Progress { crashes: 2, ..made(1) }, &policy), failure(Verdict::Transient));
    assert_eq!(other.progress.crashes, 0);
}

#[test] // REQ RP-6
fn a_try_that_would_fall_after_the_deadline_is_not_waited_for() {
    let policy = policy("whatsapp");
    let at = |secs| Case { expires_at: Some(NOW + Span::from_secs(secs)), ..case(made(0), &policy) };
    assert!(matches!(decide(at(6), failure(Verdict::Transient)).next, Next::Retry { .. }));
    assert_eq!(decide(at(5), failure(Verdict::Transient)).next, Next::Failed(FailureReason::Expired));
}

#[test] // REQ CF-8
fn a_hint_lengthens_the_wait_and_pauses_the_destination() {
    let policy = policy("whatsapp");
    let hinted = Failure { hint: Some(Span::from_mins(20)), ..failure(Verdict::Transient) };
    let decision = decide(case(made(0), &policy), hinted);
    let Next::Retry { due, wait } = decision.next else { panic!() };
    assert_eq!((due.since(NOW), wait.hinted), (Span::from_mins(20), true));
    let BlockChange::Set(Scope::Destination, block) = decision.block else { panic!() };
    assert_eq!((block.kind, block.until), (BlockKind::Pause, Some(NOW + Span::from_mins(20))));
}

proptest! {
    // Invariants 5, 6 and 7: attempts never pass the policy, a permanent error is never retried, and a
    // retry lies within the policy's bounds or the provider's bounded hint.
    #[test] // REQ RP-1, CF-8, ML-5
    fn decisions_keep_the_invariants(
        name in prop::sample::select(Policy::BUILT_IN.to_vec()),
        attempts in 0u16..10,
        crashes in 0u16..4,
        verdict in prop::sample::select(vec![
            Verdict::Transient, Verdict::Permanent, Verdict::UnknownTransient, Verdict::SenderFault,
        ]),
        certainty in prop::sample::select(vec![Certainty::NotSent, Certainty::PerhapsSent, Certainty::Interrupted]),
        hold in any::<bool>(),
        hint in prop::option::of(0u64..400_000_000),
        expiry in prop::option::of(0u64..200_000_000),
        seed: u64,
    ) {
        let policy = policy(name);
        let progress = Progress { crashes, ..made(attempts) };
        let on_unknown = if hold { OnUnknownOutcome::Hold } else { OnUnknownOutcome::Resend };
        let expires_at = expiry.map(|ms| NOW + Span::from_millis(ms));
        let case = Case { progress, expires_at, policy: &policy, on_unknown, probe: None, health: Scope::Destination, past: Past::default() };
        let hint = hint.map(Span::from_millis);
        let failed = Failure { hint, certainty, ..failure(verdict) };
        let decision = settle(case, Outcome::Failed(failed), NOW, &mut Dice::seeded(seed));
        prop_assert_eq!(decision.progress.steps, progress.steps + 1);
        match decision.next {
            Next::Retry { due, wait } => {
                prop_assert!(matches!(verdict, Verdict::Transient | Verdict::UnknownTransient));
                prop_assert!(decision.progress.attempts < policy.attempts);
                prop_assert!(!(hold && certainty != Certainty::NotSent));
                prop_assert!(expires_at.is_none_or(|deadline| due < deadline));
                let (low, high) = backoff::bounds(&policy, attempts);
                prop_assert!(wait.delay >= low);
                prop_assert!(wait.delay <= high.max(hint.unwrap_or_default().min(policy.max_hint)));
            }
            Next::Held { .. } => {
                prop_assert_eq!(verdict, Verdict::SenderFault);
                prop_assert_eq!(decision.progress.attempts, attempts);
            }
            Next::Failed(_) => {}
            Next::Sent(_) => prop_assert!(false, "a failure became a success"),
        }
    }

    #[test] // REQ RD-4: the same inputs give the same decision
    fn decisions_are_reproducible(attempts in 0u16..5, seed: u64) {
        let policy = policy("smtp");
        let again = || settle(
            case(made(attempts), &policy), Outcome::Failed(failure(Verdict::Transient)), NOW, &mut Dice::seeded(seed),
        );
        prop_assert_eq!(again(), again());
    }
}
