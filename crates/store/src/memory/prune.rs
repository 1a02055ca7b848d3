//! What leaves the model in the end.

use pombo_kernel::id::MessageKey;
use pombo_kernel::retention::KEYS_KEPT;
use pombo_kernel::time::Time;

use super::{Model, Row};
use crate::prune::{Ended, Lapsed, Prune, Pruned, Ripe, counted, lapses, records};

impl Row {
    /// How it ended, if it did.
    fn ended(&self) -> Option<Ended> {
        let at = self.state.ended_at()?;
        let queue = &self.message.queue;
        let (tenant, channel) = (queue.tenant.clone(), queue.channel.clone());
        Some(Ended { key: self.message.id.key(), tenant, channel, state: self.state.name(), at })
    }
}

impl Model {
    pub(super) fn ripe(&self, prune: &Prune, max: usize, now: Time) -> Ripe {
        let some = self.messages.range(..prune.before(now)).rev();
        let some = some.map(|(key, row)| Ok::<_, std::convert::Infallible>((*key, row.ended())));
        let Ok(ripe) = prune.ripe(some, max, now);
        ripe
    }

    pub(super) fn prune(&mut self, prune: &Prune, ripe: &Ripe, now: Time) -> Pruned {
        let found: Vec<Ended> =
            ripe.keys().filter_map(|key| self.messages.get(&key)).filter_map(|row| row.ended()).collect();
        let gone = prune.still(ripe, &found);
        for ended in &gone {
            self.forget_message(ended.key, ended.key_until(now));
        }
        self.records.extend(records(&gone, &prune.by, now));
        Pruned { removed: counted(gone), looked: ripe.looked, next: ripe.next.clone() }
    }

    /// Removes everything that is known of a message that has ended, but the audit. Its idempotency key stays until
    /// then, if a time is given.
    pub(super) fn forget_message(&mut self, key: MessageKey, key_until: Option<Time>) {
        let Some(row) = self.messages.remove(&key) else { return };
        let id = row.message.id;
        self.receipts.retain(|_, of| *of != key);
        self.blob_uses.retain(|(_, of)| *of != key);
        self.blobs.retain(|digest, _| self.blob_uses.iter().any(|(used, _)| used == digest));
        self.unlink_recipient(id);
        let own: Vec<_> = self.idempotency.iter().filter(|(_, (_, of))| *of == id).collect();
        for place in own.into_iter().map(|(place, _)| place.clone()).collect::<Vec<_>>() {
            match key_until {
                Some(until) => drop(self.lapsing.insert(place, until)),
                None => drop(self.idempotency.remove(&place)),
            }
        }
    }

    pub(super) fn lapse(&mut self, after: Option<MessageKey>, max: usize, now: Time) -> Lapsed {
        let mut over: Vec<_> = self.lapsing.iter().filter(|(_, until)| **until <= now).collect();
        over.sort_by_key(|(place, until)| (**until, self.idempotency.get(*place).map(|(_, id)| *id)));
        let over: Vec<_> = over.into_iter().take(max).map(|(place, _)| place.clone()).collect();
        for place in &over {
            self.lapsing.remove(place);
            self.idempotency.remove(place);
        }
        if over.len() == max {
            return Lapsed { removed: max, next: Some(after.unwrap_or_default()) };
        }
        let until = MessageKey::at(now - KEYS_KEPT);
        let of_messages = self.idempotency.iter().filter(|(place, _)| !self.lapsing.contains_key(*place));
        let mut some: Vec<_> = of_messages
            .map(|(place, (_, id))| (id.key(), place.clone()))
            .filter(|(key, _)| *key > after.unwrap_or_default() && *key < until)
            .collect();
        some.sort();
        some.truncate(max);
        let next = if some.len() == max { some.last().map(|(key, _)| *key) } else { None };
        let mut removed = over.len();
        for (key, place) in some {
            let ended = self.messages.get(&key).and_then(|row| row.ended());
            if lapses(ended.map(|ended| (ended.state, ended.at)), now) {
                self.idempotency.remove(&place);
                removed += 1;
            }
        }
        Lapsed { removed, next }
    }
}
