//! What leaves a store in the end: messages that retention gives up, and the idempotency keys of finished ones.
//!
//! Messages are walked from the newest to the oldest, some at each step. Whoever looks reads beside the writer, and
//! only what was found goes through it, in one small transaction a step. What was found is looked at once more there:
//! somebody may have let a dead letter go again meanwhile. Counters and the audit stay as they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use pombo_kernel::id::MessageKey;
use pombo_kernel::message::{Actor, AttemptOutcome, StateName};
use pombo_kernel::name::{ChannelName, Tenant};
#[cfg(feature = "planted")]
use pombo_kernel::planted;
use pombo_kernel::retention::{KEYS_KEPT, Keep, Rules, gives_up};
use pombo_kernel::time::{Span, Time};
use serde_json::{Map, Value};

use crate::audit::{Event, Record};
use crate::rows::{CANCELLED, DISCARDED, EXPIRED};
use crate::transition;

/// How many messages are looked at for each that may be removed.
const LOOKS: usize = 10;

/// One step of pruning.
#[derive(Clone, Debug)]
pub struct Prune {
    pub rules: Arc<Rules>,
    /// Whoever does it, as the audit names them.
    pub by: Actor,
    pub effect: Effect,
    pub walk: Walk,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Remove,
    /// Only says what would be removed.
    Tell,
}

/// How far a walk over all messages has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Older messages come next; the newest if none.
    pub before: Option<MessageKey>,
    /// How many were seen so far, where only the newest are kept.
    seen: BTreeMap<(Tenant, ChannelName, StateName), u64>,
}

impl Walk {
    /// One that begins with messages older than this one.
    pub fn before(before: Option<MessageKey>) -> Walk {
        Walk { before, ..Walk::default() }
    }
}

/// What a step of pruning did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    pub removed: BTreeMap<(ChannelName, StateName), u64>,
    pub looked: usize,
    /// Where the next step begins; none after the oldest message.
    pub next: Option<Walk>,
}

impl Pruned {
    pub fn count(&self) -> u64 {
        self.removed.values().sum()
    }
}

/// Messages that a look found to be given up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ripe {
    pub(crate) found: Vec<Ended>,
    pub looked: usize,
    pub next: Option<Walk>,
}

impl Ripe {
    pub fn keys(&self) -> impl Iterator<Item = MessageKey> {
        self.found.iter().map(|ended| ended.key)
    }

    /// What would be removed.
    pub fn told(self) -> Pruned {
        let removed = counted(&self.found);
        Pruned { removed, looked: self.looked, next: self.next }
    }
}

/// A message that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) key: MessageKey,
    pub(crate) tenant: Tenant,
    pub(crate) channel: ChannelName,
    pub(crate) state: StateName,
    pub(crate) at: Time,
}

impl Ended {
    /// Until when the idempotency key of a message that goes now outlasts it, if it does.
    pub(crate) fn key_until(&self, now: Time) -> Option<Time> {
        #[cfg(feature = "planted")]
        if planted::is(planted::Bug::KeyLeaves) {
            return None;
        }
        Some(self.at + KEYS_KEPT).filter(|until| *until > now)
    }
}

impl Prune {
    /// Messages are looked at that are older than this one.
    pub(crate) fn before(&self, now: Time) -> MessageKey {
        let after = |horizon: Time| MessageKey::at(horizon + Span::from_millis(1));
        let newest = self.rules.horizon(now).map_or(MessageKey(i64::MAX), after);
        self.walk.before.map_or(newest, |before| before.min(newest))
    }

    /// How many are looked at, if so many may be removed.
    pub(crate) fn looks(max: usize) -> usize {
        max.saturating_mul(LOOKS)
    }

    /// Judges messages in the order of the walk, as many as are asked for if there are so many; each with its end, if
    /// it has come to one.
    pub(crate) fn ripe<E>(
        &self,
        some: impl Iterator<Item = Result<(MessageKey, Option<Ended>), E>>,
        max: usize,
        now: Time,
    ) -> Result<Ripe, E> {
        let mut ripe = Ripe::default();
        let mut walk = self.walk.clone();
        let mut whole = true;
        for one in some {
            let (key, ended) = one?;
            ripe.looked += 1;
            walk.before = Some(key);
            if let Some(ended) = ended {
                let keep = self.rules.of(&ended.channel, ended.state);
                let newer = match keep {
                    Keep::Last(_) => {
                        let place = (ended.tenant.clone(), ended.channel.clone(), ended.state);
                        let seen = walk.seen.entry(place).or_default();
                        *seen += 1;
                        *seen - 1
                    }
                    Keep::All | Keep::For(_) => 0,
                };
                if gives_up(keep, ended.at, newer, now) {
                    ripe.found.push(ended);
                }
            }
            if ripe.found.len() >= max || ripe.looked >= Prune::looks(max) {
                whole = false;
                break;
            }
        }
        ripe.next = (!whole).then_some(walk);
        Ok(ripe)
    }

    /// Those of what a look found that have not moved since.
    pub(crate) fn still<'a>(&self, ripe: &'a Ripe, now: &[Ended]) -> Vec<&'a Ended> {
        #[cfg(feature = "planted")]
        if planted::is(planted::Bug::LookTrusted) {
            return ripe.found.iter().collect();
        }
        ripe.found.iter().filter(|found| now.contains(found)).collect()
    }
}

/// How many there are, by channel and state.
pub(crate) fn counted<'a>(
    some: impl IntoIterator<Item = &'a Ended>,
) -> BTreeMap<(ChannelName, StateName), u64> {
    let mut counts = BTreeMap::new();
    for ended in some {
        *counts.entry((ended.channel.clone(), ended.state)).or_default() += 1;
    }
    counts
}

/// What a step has removed, for the audit: how many of each state, by tenant and channel.
pub(crate) fn records(removed: &[&Ended], by: &Actor, now: Time) -> Vec<Record> {
    let mut counts: BTreeMap<(&Tenant, &ChannelName), BTreeMap<&str, u64>> = BTreeMap::new();
    for ended in removed {
        let of_place = counts.entry((&ended.tenant, &ended.channel)).or_default();
        *of_place.entry(ended.state.as_str()).or_default() += 1;
    }
    let record = |((tenant, channel), counts): ((&Tenant, &ChannelName), BTreeMap<&str, u64>)| {
        let counts: Map<String, Value> =
            counts.into_iter().map(|(state, count)| (state.to_owned(), count.into())).collect();
        let record = transition::act_of(Event::Pruned, tenant, by, &Value::Object(counts), now);
        Record { channel: channel.to_string(), ..record }
    };
    counts.into_iter().map(record).collect()
}

/// The state that a message is in for good, or until an operator decides, after a step with that outcome.
pub(crate) fn ending(outcome: u8) -> Option<StateName> {
    match (outcome, AttemptOutcome::from_code(outcome)) {
        (_, Some(AttemptOutcome::Sent)) => Some(StateName::Sent),
        (_, Some(AttemptOutcome::Failed)) | (EXPIRED, _) => Some(StateName::Failed),
        (CANCELLED, _) => Some(StateName::Cancelled),
        (DISCARDED, _) => Some(StateName::Discarded),
        _ => None,
    }
}

/// One step of letting idempotency keys go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lapsed {
    pub removed: usize,
    /// Where the next step begins: at messages newer than this one. None when there are no more.
    pub next: Option<MessageKey>,
}

/// Whether the idempotency key goes of a message that stands so. A dead letter may still be sent, so it keeps its own.
pub(crate) fn lapses(state: Option<(StateName, Time)>, now: Time) -> bool {
    let over = |state| matches!(state, StateName::Sent | StateName::Cancelled | StateName::Discarded);
    state.is_some_and(|(state, ended)| over(state) && now >= ended && now.since(ended) >= KEYS_KEPT)
}
