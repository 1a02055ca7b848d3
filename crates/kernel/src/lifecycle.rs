//! What becomes of a message after an attempt.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backoff::{self, Wait};
use crate::block::{Block, BlockChange};
use crate::classify::{Meaning, Verdict};
use crate::dice::Dice;
use crate::message::{AttemptOutcome, FailureReason, Progress};
#[cfg(feature = "planted")]
use crate::planted;
use crate::policy::Policy;
use crate::reply::Receipt;
use crate::time::{Span, Time};

/// What to do when nobody knows whether a message went out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknownOutcome {
    /// Send it again: at least once.
    #[default]
    Resend,
    /// Put it before an operator: at most once, unless the operator says otherwise.
    Hold,
}

/// What an attempt came to, after classification.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Sent(Receipt),
    Failed(Failure),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub meaning: Meaning,
    /// The wait that the provider asked for.
    pub hint: Option<Span>,
    pub certainty: Certainty,
    pub heard: Heard,
    /// The error in a few words, for the explanation.
    pub summary: String,
}

/// Who it was that failed the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The provider answered.
    Provider,
    /// No answer came.
    Nobody,
}

/// Whether a failed attempt may have delivered all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    NotSent,
    PerhapsSent,
    /// The sender died on the way, so nobody knows.
    Interrupted,
}

/// A message at the end of an attempt: all that the decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    pub progress: Progress,
    pub expires_at: Option<Time>,
    pub policy: &'a Policy,
    pub on_unknown: OnUnknownOutcome,
    /// Set when the attempt was let through a hold as its probe: how many failed before it.
    pub probe: Option<u16>,
}

/// What is next for the message.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    Sent(Receipt),
    Retry {
        due: Time,
        wait: Wait,
    },
    Failed(FailureReason),
    /// Back to waiting as if nothing had been tried, behind a block.
    Held,
}

impl Next {
    pub fn outcome(&self) -> AttemptOutcome {
        match self {
            Next::Sent(_) => AttemptOutcome::Sent,
            Next::Retry { .. } => AttemptOutcome::Retry,
            Next::Failed(_) => AttemptOutcome::Failed,
            Next::Held => AttemptOutcome::Held,
        }
    }
}

/// A decision with everything that is to be written down about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub next: Next,
    pub progress: Progress,
    pub block: BlockChange,
    pub explanation: String,
}

/// A message that has brought the process down this often in a row is set aside.
pub const MAX_CRASHES: u16 = 3;

/// Says what is next, once an attempt has ended at `now`.
///
/// The order of the questions matters: a held doubt is never resent, a permanent error never retried, a fault
/// of ours never charged; only then do the limits count.
pub fn settle(case: Case<'_>, outcome: Outcome, now: Time, dice: &mut Dice) -> Decision {
    let steps = case.progress.steps.saturating_add(1);
    let failure = match outcome {
        Outcome::Sent(receipt) => {
            let attempts = case.progress.attempts.saturating_add(1);
            let progress = Progress { attempts, crashes: 0, steps, ..case.progress };
            let block = if case.probe.is_some() { BlockChange::Lift } else { BlockChange::Keep };
            return Decision { next: Next::Sent(receipt), progress, block, explanation: accepted(attempts) };
        }
        Outcome::Failed(failure) => failure,
    };
    let meaning = &failure.meaning;

    if meaning.verdict == Verdict::SenderFault {
        let block = Block::hold(
            failure.summary.clone(),
            case.probe.map_or(0, |probes| probes.saturating_add(1)),
            now,
        );
        let progress = Progress { steps, ..case.progress };
        if case.expires_at.is_some_and(|deadline| deadline <= now) {
            let explanation = format!("{}; its deadline has passed", failure.summary);
            let block = BlockChange::Set(meaning.scope, block);
            return Decision { next: Next::Failed(FailureReason::Expired), progress, block, explanation };
        }
        let explanation = format!(
            "{}: the fault is ours ({}), so the message waits and this attempt does not count",
            failure.summary, meaning.category
        );
        return Decision {
            next: Next::Held,
            progress,
            block: BlockChange::Set(meaning.scope, block),
            explanation,
        };
    }

    let progress = Progress {
        attempts: case.progress.attempts.saturating_add(1),
        crashes: if failure.certainty == Certainty::Interrupted {
            case.progress.crashes.saturating_add(1)
        } else {
            0
        },
        steps,
        ..case.progress
    };
    let block = block_after(&case, &failure, now);
    let (next, why) = after_failure(&case, &failure, progress, now, dice);
    let explanation = format!("attempt {} failed: {}; {why}", progress.attempts, failure.summary);
    Decision { next, progress, block, explanation }
}

/// What a failure that is not ours does to the block in front of the queue.
///
/// A provider that asks for a pause gets it from every message for it. A probe that was answered at all, without
/// blame, ends the hold; one that reached nobody proves nothing.
fn block_after(case: &Case<'_>, failure: &Failure, now: Time) -> BlockChange {
    let passing = failure.meaning.verdict != Verdict::Permanent;
    if let Some(hint) = failure.hint.filter(|hint| passing && *hint > Span::ZERO) {
        let until = now + hint.min(case.policy.max_hint);
        return BlockChange::Set(failure.meaning.scope, Block::pause(failure.summary.clone(), until, now));
    }
    match (case.probe, failure.heard) {
        (None, _) => BlockChange::Keep,
        (Some(_), Heard::Provider) => BlockChange::Lift,
        (Some(probes), Heard::Nobody) => {
            BlockChange::Renew(Block::hold(failure.summary.clone(), probes.saturating_add(1), now))
        }
    }
}

/// The explanation of an attempt that went well.
pub fn accepted(number: u16) -> String {
    format!("attempt {number} was accepted")
}

fn after_failure(
    case: &Case<'_>,
    failure: &Failure,
    progress: Progress,
    now: Time,
    dice: &mut Dice,
) -> (Next, String) {
    let policy = case.policy;
    let give_up = |reason: FailureReason, why: String| (Next::Failed(reason), why);
    if failure.certainty != Certainty::NotSent && case.on_unknown == OnUnknownOutcome::Hold {
        return give_up(
            FailureReason::OutcomeUnknown,
            "nobody knows whether it went out, and the channel holds such messages for an operator".into(),
        );
    }
    let permanent = failure.meaning.verdict == Verdict::Permanent;
    #[cfg(feature = "planted")]
    let permanent = permanent && !planted::is(planted::Bug::PermanentRetried);
    if permanent {
        return give_up(
            FailureReason::PermanentError,
            format!("{} will not pass by trying again", failure.meaning.category),
        );
    }
    if progress.crashes >= MAX_CRASHES {
        return give_up(
            FailureReason::OutcomeUnknown,
            format!(
                "the process stopped {} times in a row while sending it, so it is set aside",
                progress.crashes
            ),
        );
    }
    if progress.attempts >= policy.attempts {
        return give_up(
            FailureReason::MaxRetriesExceeded,
            format!("that was attempt {} of {} (policy {})", progress.attempts, policy.attempts, policy.name),
        );
    }
    let hint = failure.hint.max(failure.meaning.wait);
    let wait = backoff::wait(policy, progress.attempts - 1, hint, dice);
    let due = now + wait.delay;
    if let Some(deadline) = case.expires_at.filter(|deadline| *deadline <= due) {
        return give_up(
            FailureReason::Expired,
            format!("the next try would fall after its deadline, {deadline}"),
        );
    }
    let why = format!("next try in {}: {}", wait.delay, reason_of(&wait, policy));
    (Next::Retry { due, wait }, why)
}

fn reason_of(wait: &Wait, policy: &Policy) -> String {
    if wait.hinted {
        return "the provider asked for that wait".into();
    }
    let swing = match wait.swing {
        0.0 => String::new(),
        swing => format!(" with jitter {:+.0} %", swing * 100.0),
    };
    format!("policy {}, {}{swing}", policy.name, wait.nominal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::BlockKind;
    use crate::classify::Scope;
    use crate::policy::Profile;
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
        Case { progress, expires_at: None, policy, on_unknown: OnUnknownOutcome::Resend, probe: None }
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

    #[test] // REQ RP-1
    fn the_first_retry_waits_the_first_delay() {
        let policy = policy("whatsapp");
        let due = |before| match decide(case(made(before), &policy), failure(Verdict::Transient)).next {
            Next::Retry { due, .. } => due.since(NOW).millis(),
            other => panic!("{other:?}"),
        };
        assert_eq!([due(0), due(1), due(2)], [5_000, 30_000, 300_000]);
    }

    #[test] // REQ CF-2
    fn an_unknown_error_is_retried() {
        let policy = policy("smtp");
        assert!(matches!(
            decide(case(made(0), &policy), failure(Verdict::UnknownTransient)).next,
            Next::Retry { .. }
        ));
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
        assert_eq!((decision.next, decision.progress.attempts, decision.progress.steps), (Next::Held, 4, 5));
        let BlockChange::Set(Scope::Destination, block) = decision.block else {
            panic!("{:?}", decision.block)
        };
        assert_eq!((block.kind, block.probes), (BlockKind::Hold, 0));
    }

    #[test] // REQ CF-7
    fn a_probe_that_comes_through_lifts_the_hold_and_one_that_does_not_renews_it() {
        let policy = policy("smtp");
        let probing = Case { probe: Some(2), ..case(made(0), &policy) };
        let sent = settle(probing, Outcome::Sent(Receipt::default()), NOW, &mut Dice::seeded(1));
        assert_eq!(sent.block, BlockChange::Lift);
        assert_eq!(decide(probing, failure(Verdict::Transient)).block, BlockChange::Lift);
        let unheard = Failure { heard: Heard::Nobody, ..failure(Verdict::Transient) };
        let BlockChange::Renew(block) = decide(probing, unheard).block else { panic!() };
        assert_eq!(block.probes, 3, "a probe that reached nobody proves nothing");
        let BlockChange::Set(_, block) = decide(probing, failure(Verdict::SenderFault)).block else {
            panic!()
        };
        assert_eq!(block.probes, 3);
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
            let case = Case { progress, expires_at, policy: &policy, on_unknown, probe: None };
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
                Next::Held => {
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
}
