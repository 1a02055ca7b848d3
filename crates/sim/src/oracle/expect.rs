//! What should follow from what a sender heard, said once more and independently of the engine.

use pombo_kernel::delivery::Delivery;
use pombo_kernel::lifecycle::OnUnknownOutcome;
use pombo_kernel::message::{Progress, StateName};
use pombo_kernel::name::Tenant;
use pombo_kernel::policy::{Delays, Policy};
use pombo_kernel::time::{Span, Time};
use pombo_store::audit::{Event, Record};

use super::claims::Start;
use super::{Checked, Tale, broken, field, hold};
use crate::plan::Plan;
use crate::provider::Said;

/// A message in flight at this many deaths of its sender in a row is set aside.
const MOST_CRASHES: u16 = 3;

impl Tale {
    /// Whose it is.
    pub(super) fn tenant(&self) -> &Tenant {
        &self.message.queue.tenant
    }

    /// Checks a report that was recorded, and moves on. Reports come in any order, and the furthest stands.
    pub(super) fn check_report(&mut self, record: &Record) -> Checked {
        let name = self.message.body.reference.clone().unwrap_or_default();
        let delivery = |key| {
            let said = field(&record.detail, key)?;
            Delivery::ALL.iter().copied().find(|delivery| delivery.as_str() == said)
        };
        let (before, known, now) = (delivery("before"), self.delivery, delivery("delivery"));
        hold!(12, before == known, "{name} was {known:?} to its provider, and then: {record:?}");
        hold!(0, now > known, "{name} was {known:?} to its provider, and then: {record:?}");
        self.delivery = now;
        Ok(())
    }

    pub(super) fn policy(&self, plan: &Plan) -> Policy {
        let queue = &self.message.queue;
        let mut policy = match plan.channel(&queue.channel) {
            Some(channel) => channel.policy.clone(),
            None => unreachable!("every message has a channel of the plan"),
        };
        if let Some(attempts) = self.message.body.retry.as_ref().and_then(|retry| retry.attempts) {
            policy.attempts = attempts;
        }
        policy
    }

    /// How far the store says it has come, against what the audit says.
    pub(super) fn check_progress(&self, name: &str, told: Progress) -> Checked {
        let should = self.progress;
        let (attempts, allowed) = (told.attempts, should.attempts);
        hold!(5, attempts == allowed, "{name} has {attempts} attempts in its round, and had {allowed}");
        let (keyed, kept) = (told.keyed, should.keyed);
        hold!(11, keyed == kept, "{name} is sent under the key of round {keyed}, not of {kept}");
        hold!(12, told == should, "{name} has {told:?}, and by the audit {should:?}");
        Ok(())
    }

    /// Checks a result that was recorded against what its holder had heard, and moves on.
    pub(super) fn check_result(&mut self, plan: &Plan, record: &Record) -> Checked {
        let name = self.message.body.reference.clone().unwrap_or_default();
        let Some(claim) = self.claims.last() else {
            return broken(4, format_args!("{name} has a result, and nobody held it"));
        };
        let Some((said, heard_at)) = claim.heard else {
            return broken(4, format_args!("{name} has a result that its holder never heard: {record:?}"));
        };
        let lost = claim.start == Start::TakenOver;
        hold!(4, lost == (said == Said::SenderGone), "{name}: {said:?} under a claim of another kind");

        let event = record.event;
        let round = field(&record.detail, "round").and_then(|round| round.parse().ok());
        hold!(12, round == Some(self.progress.round), "{name} is in another round: {record:?}");
        let due = field(&record.detail, "due").and_then(|due| due.parse().ok()).map(Time::from_millis);
        let reason = field(&record.detail, "reason").unwrap_or_default();
        let deadline = self.message.expires_at;
        let Progress { attempts, crashes, .. } = self.progress;
        self.progress.steps += 1;
        let expired = event == Event::Failed && reason == "expired";
        match said {
            Said::Accepted => {
                hold!(11, event == Event::Sent, "{name} was accepted, and then: {record:?}");
            }
            Said::Never => {
                let failed = event == Event::Failed && reason == "permanent_error";
                hold!(6, failed, "{name} was refused for good, and then: {record:?}");
            }
            Said::OurFault => {
                let too_late = deadline.is_some_and(|deadline| deadline <= heard_at);
                let lawful = if too_late { expired } else { event == Event::Held };
                hold!(6, lawful, "{name} met a fault of ours, and then: {record:?}");
                self.due = due.unwrap_or(self.due);
                return Ok(());
            }
            Said::Later { down: true, .. }
                if claim.probing.is_some_and(|probing| probing.is_free(heard_at))
                    && deadline.is_none_or(|deadline| deadline > heard_at) =>
            {
                let waits = event == Event::Held && due == Some(heard_at);
                hold!(5, waits, "{name} found out that its destination is still down, and then: {record:?}");
                self.due = heard_at;
                return Ok(());
            }
            Said::Later { .. } | Said::Nothing | Said::CutOff | Said::SenderGone => {
                hold!(11, event != Event::Sent, "{name} was not accepted, and then: {record:?}");
                self.check_retry(plan, record, (said, heard_at), (due, reason))?;
            }
        }
        self.progress.attempts = attempts.saturating_add(1);
        self.progress.doubtful |= matches!(said, Said::Nothing | Said::CutOff | Said::SenderGone);
        self.progress.crashes = if said == Said::SenderGone { crashes.saturating_add(1) } else { 0 };
        self.due = due.unwrap_or(self.due);
        Ok(())
    }

    fn check_retry(
        &self,
        plan: &Plan,
        record: &Record,
        (said, heard_at): (Said, Time),
        (due, reason): (Option<Time>, &str),
    ) -> Checked {
        let name = self.message.body.reference.clone().unwrap_or_default();
        let policy = self.policy(plan);
        let Progress { attempts, crashes, .. } = self.progress;
        let doubtful = !matches!(said, Said::Later { .. });
        let holds = plan
            .channel(&self.message.queue.channel)
            .is_some_and(|channel| channel.on_unknown_outcome == OnUnknownOutcome::Hold);
        let failed = record.event == Event::Failed;
        if doubtful && holds {
            let lawful = failed && reason == "outcome_unknown";
            hold!(6, lawful, "{name} is in doubt on a channel that holds such, and then: {record:?}");
            return Ok(());
        }
        if said == Said::SenderGone && crashes + 1 >= MOST_CRASHES {
            let lawful = failed && reason == "outcome_unknown";
            hold!(6, lawful, "{name} was in flight at {MOST_CRASHES} deaths, and then: {record:?}");
            return Ok(());
        }
        if attempts + 1 >= policy.attempts {
            let lawful = failed && reason == "max_retries_exceeded";
            hold!(5, lawful, "{name} used up its {} attempts, and then: {record:?}", policy.attempts);
            return Ok(());
        }
        let hint = match said {
            Said::Later { seconds, .. } => Span::from_secs(seconds.unwrap_or(0)).min(policy.max_hint),
            _ => Span::ZERO,
        };
        let (low, high) = delay_bounds(&policy, attempts);
        let (earliest, latest) = (heard_at + low.max(hint), heard_at + high.max(hint));
        let deadline = self.message.expires_at;
        if failed {
            let lawful = reason == "expired" && deadline.is_some_and(|deadline| deadline <= latest);
            hold!(5, lawful, "{name} had attempts left, and then: {record:?}");
            return Ok(());
        }
        hold!(5, record.event == Event::RetryScheduled, "{name} should be tried again, and then: {record:?}");
        let Some(due) = due else {
            return broken(12, format_args!("{name} is tried again, nobody knows when"));
        };
        let within = (earliest..=latest).contains(&due);
        hold!(7, within, "{name} is due at {due}, and not within {earliest} and {latest}");
        let in_time = deadline.is_none_or(|deadline| due < deadline);
        hold!(8, in_time, "{name} is to be tried after its deadline");
        hold!(12, record.to == Some(StateName::Pending), "{name}: {record:?}");
        Ok(())
    }
}

/// The shortest and the longest delay before retry `n`, where 0 is the first.
fn delay_bounds(policy: &Policy, n: u16) -> (Span, Span) {
    let nominal = match &policy.delays {
        Delays::Listed(delays) => delays.get(usize::from(n)).or(delays.last()).copied().unwrap_or(Span::ZERO),
        Delays::Doubling { base } => base.doubled(u32::from(n)),
    };
    let nominal = nominal.min(policy.cap);
    let bound = |factor: f64| nominal.scaled(factor).clamp(policy.floor, policy.cap);
    (bound(1.0 - policy.jitter), bound(1.0 + policy.jitter))
}
