//! What keepers let go of: only what some keeper has seen to be given up, as it had ended then, each once, and counted as
//! what it was.

use std::collections::BTreeMap;

use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::message::StateName;
use pombo_kernel::retention::{KEYS_KEPT, Rules, gives_up};
use pombo_kernel::time::Time;
use pombo_store::audit::{Event, Record};
use pombo_store::core::Reading;
use serde_json::Value;

use super::{Checked, Oracle, Tale, broken, hold, is_end};

/// How many, by tenant, channel and state.
type Counts = BTreeMap<(String, String, String), u64>;

impl Oracle {
    /// What retention gives up at that time, and when each of them ended.
    fn given_up(&self, rules: &Rules, now: Time) -> BTreeMap<MessageId, Time> {
        let mut newer = BTreeMap::new();
        let mut found = BTreeMap::new();
        let ended = self.tales.iter().rev().filter(|(_, tale)| !tale.gone && is_end(tale.state));
        for (id, tale) in ended {
            let queue = &tale.message.queue;
            let before: &mut u64 = newer.entry((&queue.tenant, &queue.channel, tale.state)).or_default();
            let keep = rules.of(&queue.channel, tale.state);
            let over = tale.ended.filter(|ended| gives_up(keep, *ended, *before, now));
            found.extend(over.map(|ended| (*id, ended)));
            *before += 1;
        }
        found
    }

    /// A keeper has looked at all messages, or at some where it was to find no more than a few.
    pub(crate) fn looked(&mut self, rules: &Rules, now: Time, found: &[MessageKey], whole: bool) -> Checked {
        let should = self.given_up(rules, now);
        for key in found {
            let Some((id, ended)) = should.iter().find(|(id, _)| id.key() == *key) else {
                let id = self.tales.keys().find(|id| id.key() == *key);
                let name = id.map(|id| self.name(*id)).unwrap_or_default();
                return broken(1, format_args!("{name} is taken for given up, and is not"));
            };
            self.ripe.insert(*id, *ended);
        }
        // Whoever was accepted since then is not looked at, though by a clock that is wrong it ended before.
        let horizon = rules.horizon(now).unwrap_or(Time::MAX);
        let missed = |id: &&MessageId| id.key().time() <= horizon && !found.contains(&id.key());
        let missed = should.keys().find(missed).filter(|_| whole).map(|id| self.name(*id));
        hold!(0, missed.is_none(), "{missed:?} is given up, and was not found");
        Ok(())
    }

    /// Keepers have let go of something: what it was, against what they say.
    pub(super) fn take_in_pruned<'a>(
        &mut self,
        reader: &mut impl Reading,
        records: impl Iterator<Item = &'a Record>,
    ) -> Checked {
        let mut told = Counts::new();
        for record in records.filter(|record| record.event == Event::Pruned) {
            let Ok(Value::Object(states)) = serde_json::from_str(&record.detail) else {
                return broken(12, format_args!("nobody can tell what went: {record:?}"));
            };
            for (state, count) in states {
                let place = (record.tenant.clone(), record.channel.clone(), state);
                *told.entry(place).or_default() += count.as_u64().unwrap_or_default();
            }
        }
        if told.is_empty() {
            return Ok(());
        }
        let mut went = Counts::new();
        for (id, tale) in self.tales.iter_mut().filter(|(_, tale)| !tale.gone) {
            if reader.story(tale.tenant(), *id)?.is_none() {
                let name = tale.message.body.reference.clone().unwrap_or_default();
                let seen = tale.ended.is_some() && self.ripe.get(id).copied() == tale.ended;
                hold!(1, seen, "{name} is gone, and nobody had seen it given up as it is: {}", tale.state);
                tale.gone = true;
                let queue = &tale.message.queue;
                let place = (queue.tenant.to_string(), queue.channel.to_string(), tale.state.to_string());
                *went.entry(place).or_default() += 1;
            }
        }
        hold!(12, told == went, "these are gone: {went:?}, and by the audit: {told:?}");
        Ok(())
    }

    /// The message with that reference, if a keeper has let go of it.
    pub(super) fn let_go_of(&self, reference: &str) -> Option<MessageId> {
        let mut gone = self.tales.iter().filter(|(_, tale)| tale.gone);
        gone.find(|(_, tale)| tale.message.body.reference.as_deref() == Some(reference)).map(|(id, _)| *id)
    }

    /// Whether the key of a message may stand for another: it has ended, and so long ago that nobody comes back with it.
    pub(super) fn is_forgotten(&self, id: MessageId) -> bool {
        let over = |tale: &Tale| is_end(tale.state) && (tale.gone || tale.state != StateName::Failed);
        let kept = |tale: &Tale| tale.ended.is_none_or(|ended| self.latest < ended + KEYS_KEPT);
        self.tales.get(&id).is_some_and(|tale| over(tale) && !kept(tale))
    }
}
