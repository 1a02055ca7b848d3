//! What becomes of a message after an attempt.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::adapt::{self, Adapted, Adaptive, Advice, Past};
use crate::backoff::{self, Wait};
use crate::block::{Block, BlockChange, BlockKind, Probe};
use crate::breaker::Sign;
use crate::classify::{Meaning, Scope, Verdict, remedy};
use crate::dice::Dice;
use crate::flow::{Rate, Said};
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
    /// Set when the attempt was let through a block as its probe.
    pub probe: Option<Probe>,
    /// Where the health of whoever takes the message is kept.
    pub health: Scope,
    /// What is known of failures like this one; looked at only where the policy is adaptive.
    pub past: Past<'a>,
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
    /// Back to waiting as if nothing had been tried, behind a block, and not before `due`.
    Held {
        due: Time,
    },
}

impl Next {
    pub fn outcome(&self) -> AttemptOutcome {
        match self {
            Next::Sent(_) => AttemptOutcome::Sent,
            Next::Retry { .. } => AttemptOutcome::Retry,
            Next::Failed(_) => AttemptOutcome::Failed,
            Next::Held { .. } => AttemptOutcome::Held,
        }
    }
}

/// A decision with everything that is to be written down about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub next: Next,
    pub progress: Progress,
    pub block: BlockChange,
    /// What the attempt says of the destination's health.
    pub sign: Sign,
    /// How many a second the provider takes, where it said so.
    pub rate: Option<Rate>,
    pub explanation: String,
    /// What was chosen, or would have been, where the policy is adaptive; enough to choose it again.
    pub adapted: Option<Adapted>,
}

/// Why a message in doubt is not sent again.
const HELD_DOUBT: &str =
    "nobody knows whether it went out, and the channel holds such messages for an operator";

/// The longest pause of a whole channel that a rule asks for on its own: nobody knows when a quota is reset.
const LONGEST_RULED_PAUSE: Span = Span::from_hours(1);

const FIRST_OWN_WAIT: Span = Span::from_secs(30);
const LONGEST_OWN_WAIT: Span = Span::from_mins(5);

/// A message that has brought the process down this often in a row is set aside.
pub const MAX_CRASHES: u16 = 3;

/// As long as a destination is known to be down, the attempts that find it so are free; after so long they count,
/// so that a message has an end even where nothing else ends it.
pub const FREE_PROBES: Span = Span::from_hours(24);

/// Says what is next, once an attempt has ended at `now`.
///
/// The order of the questions matters: a held doubt is never resent, a permanent error never retried, a fault
/// of ours never charged; only then do the limits count.
pub fn settle(case: Case<'_>, outcome: Outcome, now: Time, dice: &mut Dice) -> Decision {
    let steps = case.progress.steps.saturating_add(1);
    let failure = match outcome {
        Outcome::Sent(mut receipt) => {
            let attempts = case.progress.attempts.saturating_add(1);
            let progress = Progress { attempts, crashes: 0, steps, ..case.progress };
            let said = Said::in_headers(&std::mem::take(&mut receipt.hints));
            let block = match (case.probe, said.pause) {
                (Some(_), _) => BlockChange::Lift,
                (None, Some(pause)) => {
                    let reason = "the provider takes no more until its limit is reset".to_owned();
                    let until = now + pause.min(case.policy.max_hint);
                    BlockChange::Set(case.health, Block::pause(reason, until, now))
                }
                (None, None) => BlockChange::Keep,
            };
            let explanation = match &receipt.note {
                Some(note) => format!("{}: {note}", accepted(attempts)),
                None => accepted(attempts),
            };
            return Decision {
                next: Next::Sent(receipt),
                progress,
                block,
                sign: Sign::Well,
                rate: said.rate,
                explanation,
                adapted: None,
            };
        }
        Outcome::Failed(failure) => failure,
    };
    let meaning = &failure.meaning;
    if meaning.already_there && case.progress.doubtful {
        // A refusal that proves an earlier attempt to have come through, though nobody heard so at the time.
        let explanation = format!(
            "{}: the provider says that it has it already, and an earlier attempt's outcome was unknown, so it counts as accepted",
            failure.summary
        );
        return Decision { explanation, ..settle(case, Outcome::Sent(Receipt::default()), now, dice) };
    }
    let doubtful = case.progress.doubtful || failure.certainty != Certainty::NotSent;
    let sign = match (meaning.destination_fault, failure.heard) {
        (true, _) => Sign::Ill,
        (false, Heard::Provider) => Sign::Well,
        (false, Heard::Nobody) => Sign::None,
    };

    if meaning.verdict == Verdict::SenderFault {
        let reason = match remedy(&meaning.category) {
            Some(remedy) => format!("{}; {remedy}", failure.summary),
            None => failure.summary.clone(),
        };
        let block = Block::hold(
            reason,
            case.probe
                .filter(|probe| probe.kind == BlockKind::Hold)
                .map_or(0, |probe| probe.failed.saturating_add(1)),
            now,
        );
        let progress = Progress { steps, doubtful, ..case.progress };
        let ended = if failure.certainty != Certainty::NotSent && case.on_unknown == OnUnknownOutcome::Hold {
            Some((FailureReason::OutcomeUnknown, HELD_DOUBT))
        } else if case.expires_at.is_some_and(|deadline| deadline <= now) {
            Some((FailureReason::Expired, "its deadline has passed"))
        } else {
            None
        };
        if let Some((reason, why)) = ended {
            return Decision {
                next: Next::Failed(reason),
                progress,
                block: BlockChange::Set(meaning.scope, block),
                sign,
                rate: None,
                explanation: format!("{}; {why}", failure.summary),
                adapted: None,
            };
        }
        let explanation = format!(
            "{}: the fault is ours ({}), so the message waits and this attempt does not count",
            failure.summary, meaning.category
        );
        return Decision {
            next: Next::Held { due: now + own_wait(&progress) },
            progress,
            block: BlockChange::Set(meaning.scope, block),
            sign,
            rate: None,
            explanation,
            adapted: None,
        };
    }
    if still_down(&case, &failure, now) {
        let explanation = format!(
            "{}: the destination is still down, so the message waits and this attempt does not count",
            failure.summary
        );
        return Decision {
            next: Next::Held { due: now },
            progress: Progress { steps, doubtful, ..case.progress },
            block: block_after(&case, &failure, now),
            sign,
            rate: None,
            explanation,
            adapted: None,
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
        doubtful,
        ..case.progress
    };
    let block = block_after(&case, &failure, now);
    let (next, why, adapted) = after_failure(&case, &failure, progress, now, dice);
    let perhaps = match failure.certainty {
        Certainty::PerhapsSent => " (it may have been sent all the same)",
        _ => "",
    };
    let explanation = format!("attempt {} failed: {}{perhaps}; {why}", progress.attempts, failure.summary);
    Decision { next, progress, block, sign, rate: None, explanation, adapted }
}

/// How long a message that met a fault of ours waits by itself, however soon the way is free.
///
/// Nothing at first: most faults are common to all. One that meets them again and again is perhaps the only one that
/// does, and must not be the one that puts the block back each time.
fn own_wait(progress: &Progress) -> Span {
    let held = progress.steps.saturating_sub(u32::from(progress.attempts));
    if held < 2 { Span::ZERO } else { FIRST_OWN_WAIT.doubled(held - 2).min(LONGEST_OWN_WAIT) }
}

/// A probe that found the destination as it was, with the message certainly not sent and its deadline not passed.
fn still_down(case: &Case<'_>, failure: &Failure, now: Time) -> bool {
    #[cfg(feature = "planted")]
    if planted::is(planted::Bug::ProbeCharged) {
        return false;
    }
    case.probe.is_some_and(|probe| probe.kind == BlockKind::Breaker && now.since(probe.since) < FREE_PROBES)
        && failure.meaning.destination_fault
        && failure.meaning.verdict != Verdict::Permanent
        && failure.certainty == Certainty::NotSent
        && case.expires_at.is_none_or(|deadline| deadline > now)
}

/// What a failure that is not ours does to the block in front of the queue.
///
/// A provider that asks for a pause gets it from every message for it. A probe that was answered at all, without
/// blame, ends a hold; one that reached nobody proves nothing. A breaker closes only for an answer that shows the
/// destination at work.
fn block_after(case: &Case<'_>, failure: &Failure, now: Time) -> BlockChange {
    let passing = failure.meaning.verdict != Verdict::Permanent;
    // A breaker's own probes come more slowly than that.
    let least = match case.probe {
        Some(probe) if probe.kind == BlockKind::Breaker => Span::from_mins(1),
        _ => Span::from_millis(1),
    };
    // A rule that names a wait for the whole channel (a daily quota) speaks for a provider that named none.
    let ruled = failure.meaning.wait.filter(|_| failure.meaning.scope == Scope::Channel);
    let hint = failure.hint.or(ruled.map(|wait| wait.min(LONGEST_RULED_PAUSE)));
    if let Some(hint) = hint.filter(|hint| passing && *hint >= least) {
        let until = now + hint.min(case.policy.max_hint);
        return BlockChange::Set(failure.meaning.scope, Block::pause(failure.summary.clone(), until, now));
    }
    let Some(probe) = case.probe else { return BlockChange::Keep };
    let well = match probe.kind {
        BlockKind::Breaker => !failure.meaning.destination_fault && failure.heard == Heard::Provider,
        _ => failure.heard == Heard::Provider,
    };
    if well { BlockChange::Lift } else { BlockChange::Renew(failure.summary.clone()) }
}

/// The explanation of an attempt that went well.
pub fn accepted(number: u16) -> String {
    format!("attempt {number} was accepted")
}

/// Whether an explanation says nothing but that; without making it, since most attempts go well.
pub fn is_accepted(explanation: &str, number: u16) -> bool {
    let said = explanation.strip_prefix("attempt ").and_then(|rest| rest.strip_suffix(" was accepted"));
    said.is_some_and(|said| said.parse() == Ok(number))
}

fn after_failure(
    case: &Case<'_>,
    failure: &Failure,
    progress: Progress,
    now: Time,
    dice: &mut Dice,
) -> (Next, String, Option<Adapted>) {
    let policy = case.policy;
    let give_up = |reason: FailureReason, why: String| (Next::Failed(reason), why, None);
    if failure.certainty != Certainty::NotSent && case.on_unknown == OnUnknownOutcome::Hold {
        return give_up(FailureReason::OutcomeUnknown, HELD_DOUBT.into());
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
    let own = backoff::wait(policy, progress.attempts - 1, hint, dice);
    let (wait, advice) = adapted(case, progress, hint, own, now, dice);
    let due = now + wait.delay;
    if let Some(deadline) = case.expires_at.filter(|deadline| *deadline <= due) {
        return give_up(
            FailureReason::Expired,
            format!("the next try would fall after its deadline, {deadline}"),
        );
    }
    let asked = failure.hint >= failure.meaning.wait;
    let why = match (wait.hinted, asked) {
        (true, false) => format!("next try in {}: this error calls for that wait", wait.delay),
        _ => format!("next try in {}: {}", wait.delay, reason_of(&wait, policy, advice.as_ref())),
    };
    let adapted = match advice {
        Some(Advice::Chosen(adapted)) => Some(adapted),
        _ => None,
    };
    (Next::Retry { due, wait }, why, adapted)
}

/// The wait that an adaptive policy comes to, with what it was chosen from. A provider's hint stays a floor.
fn adapted(
    case: &Case<'_>,
    progress: Progress,
    hint: Option<Span>,
    own: Wait,
    now: Time,
    dice: &mut Dice,
) -> (Wait, Option<Advice>) {
    let policy = case.policy;
    if policy.adaptive == Adaptive::Off {
        return (own, None);
    }
    let elapsed = case.past.failing_since.map_or(Span::ZERO, |since| now.since(since));
    let until = case.expires_at.map(|deadline| deadline.since(now));
    let advice = adapt::advise(policy, progress.attempts, &own, elapsed, until, case.past.fit, dice);
    let wait = match (&advice, policy.adaptive) {
        (Advice::Chosen(chosen), Adaptive::On) => {
            let asked = hint.map_or(Span::ZERO, |hint| hint.min(policy.max_hint));
            let delay = chosen.delay();
            Wait { delay: delay.max(asked), hinted: asked > delay, ..own }
        }
        _ => own,
    };
    (wait, Some(advice))
}

fn reason_of(wait: &Wait, policy: &Policy, advice: Option<&Advice>) -> String {
    if wait.hinted {
        return "the provider asked for that wait".into();
    }
    let own = own_reason(wait, policy);
    match advice {
        None => own,
        Some(Advice::TooFew(seen)) => {
            format!("{own}, since {} retries on record are too few to adapt it", seen.tried)
        }
        Some(Advice::Chosen(chosen)) => {
            let (likely, tried) = (chosen.chance() * 100.0, chosen.counts().tried);
            let name = &policy.name;
            match policy.adaptive {
                Adaptive::On => format!(
                    "adaptive, {likely:.0} % likely to pass going by {tried} retries, where policy {name} would have \
                     waited {}",
                    chosen.own()
                ),
                _ => format!(
                    "{own}, where adaptive would have waited {} ({likely:.0} % likely to pass going by {tried} retries)",
                    chosen.delay()
                ),
            }
        }
    }
}

fn own_reason(wait: &Wait, policy: &Policy) -> String {
    let swing = match wait.swing {
        0.0 => String::new(),
        swing => format!(" with jitter {:+.0} %", swing * 100.0),
    };
    format!("policy {}, {}{swing}", policy.name, wait.nominal)
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let BlockChange::Set(Scope::Destination, block) = decision.block else {
            panic!("{:?}", decision.block)
        };
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
        let BlockChange::Set(_, block) = decide(probing, failure(Verdict::SenderFault)).block else {
            panic!()
        };
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
}
