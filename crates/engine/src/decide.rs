//! From a claimed message and the reply to its attempt, to what is written down.

use std::borrow::Cow;

use pombo_channels::Health;
use pombo_kernel::adapt::{Adaptive, Memory, Past};
use pombo_kernel::block::{Block, BlockChange};
use pombo_kernel::breaker::Sign;
use pombo_kernel::classify::{Meaning, Scope, Verdict, read};
use pombo_kernel::dice::Dice;
use pombo_kernel::flow::Rate;
use pombo_kernel::hint;
use pombo_kernel::lifecycle::{self, Case, Certainty, Failure, Heard, Next, Outcome};
use pombo_kernel::mask;
use pombo_kernel::message::{Actor, Attempt, AttemptFailure, Body};
use pombo_kernel::policy::{Policy, Profile};
use pombo_kernel::reply::{Fault, FaultKind, Reply};
use pombo_kernel::setup::{ChannelSetup, Destination};
use pombo_kernel::time::Time;
use pombo_store::{Claimed, Finding, Place, Settlement, Vitals};

/// How much of a provider's words is kept.
const TEXT_MAX: usize = 2_048;
/// How much of them an explanation shows.
const SUMMARY_MAX: usize = 160;

/// Why an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Reply(Reply),
    /// The node that was sending is gone.
    Lost,
}

/// What is to be recorded about an attempt that ended at `now`. Adaptive policies go by what is in `memory`.
pub fn settlement(
    claimed: &Claimed,
    channel: Option<&ChannelSetup>,
    memory: &Memory,
    end: End,
    started_at: Time,
    now: Time,
    dice: &mut Dice,
) -> Settlement {
    let judged = outcome(channel, &claimed.message.body, end, now);
    settled(claimed, channel, memory, judged, started_at, now, dice)
}

/// What is to be recorded about a message that somebody says has failed: an attempt, with these words, that says
/// nothing of the destination.
pub fn marked_failed(
    claimed: &Claimed,
    channel: Option<&ChannelSetup>,
    words: &str,
    by: &Actor,
    now: Time,
    dice: &mut Dice,
) -> Settlement {
    let text = mask::about(words, &claimed.message.body);
    let meaning = Meaning {
        verdict: Verdict::Transient,
        category: "marked_failed".into(),
        destination_fault: false,
        suppress: false,
        already_there: false,
        scope: Scope::Destination,
        wait: None,
        rule: None,
    };
    let failure = AttemptFailure {
        verdict: meaning.verdict,
        category: meaning.category.clone(),
        code: None,
        text: cut(&text, TEXT_MAX).to_owned(),
        perhaps_sent: false,
        rule: None,
    };
    let summary = format!("{} (marked by {})", summary(None, &text), by.0);
    let (certainty, heard) = (Certainty::NotSent, Heard::Nobody);
    let outcome = Outcome::Failed(Failure { meaning, hint: None, certainty, heard, summary });
    // Nothing was learned of errors that somebody only tells of.
    let memory = Memory::default();
    let mut settlement = settled(claimed, channel, &memory, (outcome, Some(failure)), now, now, dice);
    // Its time has not come for all that.
    if let (Next::Retry { due, .. }, Some(send_at)) = (&mut settlement.next, claimed.message.send_at)
        && *due < send_at
    {
        *due = send_at;
        settlement.attempt.next_delay = Some(send_at.since(now));
    }
    settlement
}

fn settled(
    claimed: &Claimed,
    channel: Option<&ChannelSetup>,
    memory: &Memory,
    (outcome, failure): (Outcome, Option<AttemptFailure>),
    started_at: Time,
    now: Time,
    dice: &mut Dice,
) -> Settlement {
    let policy = policy_of(claimed, channel);
    let past = match &failure {
        Some(failure) if policy.adaptive != Adaptive::Off => past(claimed, memory, &failure.category),
        _ => Past::default(),
    };
    let case = Case {
        progress: claimed.progress,
        expires_at: claimed.message.expires_at,
        policy: &policy,
        on_unknown: channel.map(|channel| channel.on_unknown_outcome).unwrap_or_default(),
        probe: claimed.probe,
        health: health_scope(channel),
        past,
    };
    let decision = lifecycle::settle(case, outcome, now, dice);
    let next_delay = match &decision.next {
        Next::Retry { wait, .. } => Some(wait.delay),
        _ => None,
    };
    let attempt = Attempt {
        round: claimed.progress.round,
        number: claimed.progress.attempts.saturating_add(1),
        started_at,
        finished_at: now,
        outcome: decision.next.outcome(),
        failure,
        next_delay,
        policy: (!matches!(decision.next, Next::Sent(_))).then(|| match &decision.adapted {
            Some(adapted) => format!("{}; {adapted}", policy.describe()),
            None => policy.describe(),
        }),
        explanation: decision.explanation,
    };
    Settlement {
        key: claimed.key,
        attempt,
        next: decision.next,
        progress: decision.progress,
        block: decision.block,
        vitals: vitals(channel, decision.sign, decision.rate),
        reported: channel.is_some_and(|channel| channel.receipts.is_some()),
        chance: if claimed.message.queue.campaign.is_some() { dice.next_u64() } else { 0 },
    }
}

/// What is known of such failures, and since when this message fails.
fn past<'a>(claimed: &Claimed, memory: &'a Memory, category: &str) -> Past<'a> {
    let queue = &claimed.message.queue;
    Past {
        failing_since: claimed.failing_since,
        fit: memory.about(&queue.channel, &queue.destination, category),
    }
}

fn health_scope(channel: Option<&ChannelSetup>) -> Scope {
    channel.map(|channel| channel.destination.health_scope()).unwrap_or_default()
}

fn vitals(channel: Option<&ChannelSetup>, sign: Sign, rate: Option<Rate>) -> Vitals {
    let limits = channel.map(|channel| channel.care.breaker).unwrap_or_default();
    let rate = rate.filter(|_| channel.is_some_and(|channel| channel.care.learns));
    Vitals { sign, scope: health_scope(channel), limits, rate }
}

/// What is to be recorded after a provider was asked how it is; nothing where it could not be asked, or where the
/// channel's messages have no destination in common that the answer could be about.
pub fn finding(channel: &ChannelSetup, health: Health, now: Time) -> Option<Finding> {
    let destination = match &channel.destination {
        Destination::Fixed(name) => Some(name.clone()),
        Destination::Sender { .. } => None,
        Destination::Host | Destination::Recipient | Destination::Each => return None,
    };
    let place = Place { channel: channel.name.clone(), destination };
    let (block, sign) = match health {
        Health::Unknown => return None,
        // A page that answers proves little of the service behind it: a breaker is left to a message.
        Health::Ready(_) => (BlockChange::Ready, Sign::None),
        Health::Reachable(_) => (BlockChange::Reached, Sign::None),
        Health::Sick(reply) => {
            let (Outcome::Failed(failure), _) =
                outcome(Some(channel), &Body::default(), End::Reply(reply), now)
            else {
                return None;
            };
            match failure.meaning.verdict {
                Verdict::SenderFault => {
                    // It concerns whatever was asked about, however narrow a message's fault would be.
                    let scope = if place.destination.is_some() { Scope::Destination } else { Scope::Channel };
                    (BlockChange::Set(scope, Block::hold(failure.summary, 0, now)), Sign::None)
                }
                _ if failure.meaning.destination_fault => (BlockChange::Renew(failure.summary), Sign::Ill),
                _ => return None,
            }
        }
    };
    Some(Finding { place, block, vitals: vitals(Some(channel), sign, None) })
}

/// What a reply that is not an acceptance means and says, for a person who asked how a provider is.
pub fn in_words(channel: &ChannelSetup, reply: Reply, now: Time) -> String {
    match outcome(Some(channel), &Body::default(), End::Reply(reply), now) {
        (Outcome::Failed(failure), _) => format!("{}: {}", failure.meaning.category, failure.summary),
        (Outcome::Sent(_), _) => "it took a message".to_owned(),
    }
}

/// How often this message may be tried again.
pub(crate) fn max_retries(claimed: &Claimed, channel: Option<&ChannelSetup>) -> u16 {
    policy_of(claimed, channel).attempts.saturating_sub(1)
}

/// The policy that applies to this message: its channel's, with what the message itself asked for.
fn policy_of<'a>(claimed: &Claimed, channel: Option<&'a ChannelSetup>) -> Cow<'a, Policy> {
    let base = match channel {
        Some(channel) => Cow::Borrowed(&channel.policy),
        None => Cow::Owned(Policy::built_in("webhook", Profile::Production).expect("it is built in")),
    };
    match &claimed.message.body.retry {
        Some(changes) => Cow::Owned(base.with(changes)),
        None => base,
    }
}

fn outcome(
    channel: Option<&ChannelSetup>,
    said: &Body,
    end: End,
    now: Time,
) -> (Outcome, Option<AttemptFailure>) {
    let (reply, lost) = match end {
        End::Reply(Reply::Accepted(receipt)) => return (Outcome::Sent(receipt), None),
        End::Reply(reply) => (reply, false),
        End::Lost => {
            let text = "the process that was sending it stopped before the result was recorded";
            (Reply::Doubtful(Fault { kind: FaultKind::Interrupted, text: text.into() }), true)
        }
    };
    let meaning = channel.and_then(|channel| channel.rules.classify(&reply)).unwrap_or_else(not_configured);
    let heard = if matches!(reply, Reply::Refused(_)) { Heard::Provider } else { Heard::Nobody };
    // Where each destination has a server of its own, what one has against us says nothing of the others.
    let apart = channel.is_some_and(|it| {
        matches!(it.destination, Destination::Host | Destination::Recipient | Destination::Each)
    });
    let scope = if apart && heard == Heard::Provider { Scope::Destination } else { meaning.scope };
    let meaning = Meaning { scope, ..meaning };
    let code = read::code(&reply);
    let (certainty, hint, text) = match reply {
        Reply::Accepted(_) => (Certainty::NotSent, None, String::new()),
        Reply::Refused(refusal) => {
            let hint = hint::hint(&refusal.hints, now);
            let certainty = if refusal.perhaps_sent { Certainty::PerhapsSent } else { Certainty::NotSent };
            (certainty, hint, refusal.text)
        }
        Reply::Unreachable(fault) => (Certainty::NotSent, None, fault.text),
        Reply::Doubtful(fault) => (Certainty::PerhapsSent, None, fault.text),
    };
    // A provider may repeat whom the message was for, which nobody needs to read in an error.
    let text = mask::about(&text, said).into_owned();
    let code = code.map(|code| mask::personal(&code).into_owned());
    let summary = if lost { text.clone() } else { summary(code.as_deref(), &text) };
    let failure = AttemptFailure {
        verdict: meaning.verdict,
        category: meaning.category.clone(),
        code,
        text: cut(&text, TEXT_MAX).to_owned(),
        perhaps_sent: certainty != Certainty::NotSent,
        rule: meaning.rule.clone(),
    };
    // Whatever a rule says of an interruption, it was ours: it charges an attempt and blames nobody else.
    let (meaning, certainty) = match lost {
        true => (interrupted(meaning), Certainty::Interrupted),
        false => (meaning, certainty),
    };
    (Outcome::Failed(Failure { meaning, hint, certainty, heard, summary }), Some(failure))
}

fn interrupted(meaning: Meaning) -> Meaning {
    Meaning {
        verdict: Verdict::Transient,
        destination_fault: false,
        suppress: false,
        already_there: false,
        scope: Scope::Destination,
        wait: None,
        ..meaning
    }
}

/// A message for a channel that the configuration no longer has waits until it does.
fn not_configured() -> Meaning {
    Meaning {
        verdict: Verdict::SenderFault,
        category: "not_configured".into(),
        destination_fault: false,
        suppress: false,
        already_there: false,
        scope: Scope::Channel,
        wait: None,
        rule: None,
    }
}

fn summary(code: Option<&str>, text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = cut(&line, SUMMARY_MAX);
    match code {
        Some(code) if line.is_empty() => code.to_owned(),
        Some(code) => format!("{code} {line}"),
        None => line.to_owned(),
    }
}

/// The start of a text, cut between characters.
fn cut(text: &str, max: usize) -> &str {
    if text.len() <= max { text } else { &text[..text.floor_char_boundary(max)] }
}
