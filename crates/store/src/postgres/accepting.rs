//! Acceptance: what must be known of each message before its row can be written.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pombo_kernel::attachment::Blob;
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::message::{Draft, Message, QueueName};
use pombo_kernel::time::Time;

use super::{AHEAD, Postgres, rows, sql};
use crate::board::{Fresh, QueueId, rank};
use crate::{Accepted, Conflict, Repeat, StoreError, transition};

/// A key that a request was made under before.
#[derive(Clone)]
struct Seen {
    id: MessageId,
    fingerprint: Vec<u8>,
}

impl Seen {
    fn answer(&self, fingerprint: &[u8]) -> Result<Accepted, Conflict> {
        if self.fingerprint == fingerprint {
            Ok(Accepted { id: self.id, repeat: Repeat::Same })
        } else {
            Err(Conflict { first: self.id })
        }
    }
}

impl Postgres {
    pub(super) fn accept_some(
        &mut self,
        drafts: &[Draft],
        now: Time,
    ) -> Result<Vec<Result<Accepted, Conflict>>, StoreError> {
        let mut seen = self.seen(drafts)?;
        // The ids first, and with them the keys: who loses a race for a key is a repeat after all.
        let mut ids: Vec<Option<MessageId>> = Vec::with_capacity(drafts.len());
        let mut given = Vec::new();
        for draft in drafts {
            let digest = digest_of(draft);
            let repeated = digest.as_ref().is_some_and(|digest| seen.contains_key(digest));
            let id = (!repeated).then(|| draft.id.unwrap_or_else(|| self.ids.next(now)));
            if let (Some(id), Some(digest), Some(key)) = (id, digest, &draft.idempotency) {
                let fingerprint = key.fingerprint.to_vec();
                seen.insert(digest.clone(), Seen { id, fingerprint: fingerprint.clone() });
                let tenant = draft.queue.tenant.as_str().to_owned();
                given.push((digest, id, tenant, rows::escaped(&key.key), fingerprint));
            }
            ids.push(id);
        }
        let lost = self.give_keys(given)?;
        let taken: HashSet<MessageId> = lost.values().map(|(ours, _)| *ours).collect();
        seen.extend(lost.into_iter().map(|(digest, (_, theirs))| (digest, theirs)));
        let new = || {
            let given = drafts.iter().zip(&ids);
            given.filter(|(_, id)| id.is_some_and(|id| !taken.contains(&id))).map(|(draft, _)| draft)
        };
        self.find_queues(new().map(|draft| &draft.queue))?;
        let mut waiting = self.waiting_orders(new())?;
        let mut blobs: Vec<(MessageKey, Blob)> = Vec::new();
        let mut answers = Vec::with_capacity(drafts.len());
        for (draft, id) in drafts.iter().zip(ids) {
            let repeat = || {
                let (digest, given) = (digest_of(draft)?, draft.idempotency.as_ref()?);
                Some(seen.get(&digest)?.answer(&given.fingerprint))
            };
            let Some(id) = id.filter(|id| !taken.contains(id)) else {
                answers.push(repeat().ok_or_else(super::reader::unanswered)?);
                continue;
            };
            self.take_in(draft, id, &mut waiting, now)?;
            if self.writes.accepted() >= AHEAD {
                let steps = self.accepted_ahead();
                self.go_ahead(steps)?;
            }
            blobs.extend(draft.blobs.iter().map(|blob| (id.key(), blob.clone())));
            answers.push(Ok(Accepted { id, repeat: Repeat::First }));
        }
        if !blobs.is_empty() {
            self.put_blobs(&blobs)?;
        }
        Ok(answers)
    }

    /// What is known of the idempotency keys of these drafts.
    fn seen(&mut self, drafts: &[Draft]) -> Result<HashMap<Vec<u8>, Seen>, StoreError> {
        let digests: Vec<Vec<u8>> = drafts.iter().filter_map(digest_of).collect();
        self.find_seen(digests)
    }

    fn find_seen(&mut self, digests: Vec<Vec<u8>>) -> Result<HashMap<Vec<u8>, Seen>, StoreError> {
        let mut seen = HashMap::new();
        if digests.is_empty() {
            return Ok(seen);
        }
        for row in &self.ask_one(sql!("idempotency_find"), vec![digests.into()])? {
            seen.insert(
                rows::get(row, 0)?,
                Seen { id: rows::id(row, 1, 2)?, fingerprint: rows::get(row, 3)? },
            );
        }
        Ok(seen)
    }

    /// Gives keys to messages. Those that somebody else was given first, with the id that we had thought of.
    #[allow(clippy::type_complexity)]
    fn give_keys(
        &mut self,
        mut given: Vec<(Vec<u8>, MessageId, String, String, Vec<u8>)>,
    ) -> Result<HashMap<Vec<u8>, (MessageId, Seen)>, StoreError> {
        if given.is_empty() {
            return Ok(HashMap::new());
        }
        given.sort();
        let mut lost: HashMap<Vec<u8>, MessageId> =
            given.iter().map(|(digest, id, ..)| (digest.clone(), *id)).collect();
        let (mut digests, mut keys, mut nonces) = (Vec::new(), Vec::new(), Vec::new());
        let (mut tenants, mut texts, mut fingerprints) = (Vec::new(), Vec::new(), Vec::new());
        for (digest, id, tenant, text, fingerprint) in given {
            digests.push(digest);
            keys.push(id.key().0);
            nonces.push(id.nonce());
            tenants.push(tenant);
            texts.push(text);
            fingerprints.push(fingerprint);
        }
        let values = vec![
            digests.into(),
            keys.into(),
            nonces.into(),
            tenants.into(),
            texts.into(),
            fingerprints.into(),
        ];
        for row in &self.ask_one(sql!("idempotency_insert"), values)? {
            lost.remove(rows::get::<&[u8]>(row, 0)?);
        }
        let theirs = self.find_seen(lost.keys().cloned().collect())?;
        Ok(theirs
            .into_iter()
            .filter_map(|(digest, seen)| Some((digest.clone(), (*lost.get(&digest)?, seen))))
            .collect())
    }

    /// Sees to it that the board has every one of these queues.
    pub(super) fn find_queues<'a>(
        &mut self,
        names: impl Iterator<Item = &'a QueueName>,
    ) -> Result<(), StoreError> {
        let mut new: Vec<&QueueName> = Vec::new();
        for name in names {
            if self.board.find(name).is_none() && !new.contains(&name) {
                new.push(name);
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let of =
            |part: fn(&QueueName) -> String| -> Vec<String> { new.iter().map(|name| part(name)).collect() };
        let digests: Vec<Vec<u8>> = new.iter().map(|name| rows::queue_digest(name)).collect();
        let values = vec![
            digests.clone().into(),
            of(|name| name.tenant.as_str().to_owned()).into(),
            of(|name| name.lane.as_str().to_owned()).into(),
            of(|name| name.channel.as_str().to_owned()).into(),
            of(|name| rows::escaped(&name.destination)).into(),
            of(|name| name.campaign.as_ref().map_or_else(String::new, |it| it.as_str().to_owned())).into(),
        ];
        let steps = vec![(sql!("queue_insert"), values), (sql!("queue_find"), vec![digests.into()])];
        for row in &self.ask(steps)?.pop().unwrap_or_default() {
            self.add_queue(row)?;
        }
        Ok(())
    }

    pub(super) fn queue_of(&mut self, name: &QueueName) -> Result<(QueueId, Arc<QueueName>), StoreError> {
        let id = self.board.find(name).ok_or_else(super::reader::unanswered)?;
        Ok((id, self.board.queue(id).name.clone()))
    }

    /// The queue of a message that is in the store.
    pub(super) fn queue_id(&mut self, message: &Message) -> Result<QueueId, StoreError> {
        if let Some(id) = self.board.find(&message.queue) {
            return Ok(id);
        }
        let digest = rows::queue_digest(&message.queue);
        for row in &self.ask_one(sql!("queue_find"), vec![vec![digest].into()])? {
            self.add_queue(row)?;
        }
        self.board.find(&message.queue).ok_or_else(super::reader::unanswered)
    }

    /// Ordering keys of these drafts under which somebody is already waiting. Nobody else touches them meanwhile.
    fn waiting_orders<'a>(
        &mut self,
        drafts: impl Iterator<Item = &'a Draft>,
    ) -> Result<HashSet<Vec<u8>>, StoreError> {
        let order =
            |draft: &Draft| Some(rows::order_digest(&draft.queue.tenant, draft.ordering_key.as_deref()?));
        self.taken_orders(drafts.filter_map(order).collect())
    }

    /// Those of these orders in which somebody is. Nobody else touches any of them meanwhile.
    pub(super) fn taken_orders(&mut self, digests: HashSet<Vec<u8>>) -> Result<HashSet<Vec<u8>>, StoreError> {
        if digests.is_empty() {
            return Ok(digests);
        }
        let digests: Vec<Vec<u8>> = digests.into_iter().collect();
        self.lock_orders(&digests)?;
        let found = self.ask_one(sql!("ordered_any"), vec![digests.into()])?;
        found.iter().map(|row| rows::get(row, 0)).collect()
    }

    /// Waits until nobody else is at work on these orders, and keeps them until the commit.
    pub(super) fn lock_orders(&mut self, digests: &[Vec<u8>]) -> Result<(), StoreError> {
        let number =
            |digest: &Vec<u8>| digest.first_chunk::<8>().map_or(0, |bytes| i64::from_le_bytes(*bytes));
        let mut numbers: Vec<i64> = digests.iter().map(number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut steps = self.gathered();
        steps.push((sql!("ordered_lock"), vec![numbers.into()]));
        self.ask(steps)?;
        Ok(())
    }

    /// Gathers the rows of one message.
    fn take_in(
        &mut self,
        draft: &Draft,
        id: MessageId,
        waiting: &mut HashSet<Vec<u8>>,
        now: Time,
    ) -> Result<(), StoreError> {
        let (queue, name) = self.queue_of(&draft.queue)?;
        let key = id.key();
        let due = draft.send_at.map_or(now, |at| at.max(now));
        let message = Arc::new(Message {
            id,
            queue: name.clone(),
            priority: draft.priority,
            send_at: draft.send_at,
            expires_at: draft.expires_at,
            ordering_key: draft.ordering_key.clone(),
            body: draft.body.clone(),
        });
        let hash = |text: &str| self.vault.hash(name.tenant.as_str(), text);
        let hashes = (hash(&draft.body.to), draft.body.reference.as_deref().map(hash));
        self.writes.message(&message, draft, queue, due, hashes)?;
        if let Some(at) = draft.expires_at {
            self.writes.deadline(at, key);
            self.note_deadline(at);
        }
        self.record(transition::accepted(&message, now));
        self.ledger.accepted(&name);
        let goes = match &draft.ordering_key {
            None => true,
            Some(ordering_key) => {
                let digest = rows::order_digest(&name.tenant, ordering_key);
                let first = waiting.insert(digest.clone());
                self.writes.ordered(digest, key, first);
                first
            }
        };
        if goes {
            let fresh = Fresh { rank: rank(message.priority), due, key, message };
            self.board.push_fresh(queue, fresh, now);
        }
        Ok(())
    }
}

fn digest_of(draft: &Draft) -> Option<Vec<u8>> {
    draft.idempotency.as_ref().map(|given| rows::idempotency_digest(&draft.queue.tenant, &given.key))
}
