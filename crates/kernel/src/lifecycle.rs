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

    let ours = meaning.verdict == Verdict::SenderFault;
    #[cfg(feature = "planted")]
    let ours = ours && !planted::is(planted::Bug::FaultCharged);
    if ours {
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
mod tests;
