//! What providers say later of messages that were sent.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pombo_kernel::delivery::{LastWord, Report};
use pombo_kernel::id::MessageKey;
use pombo_kernel::message::{Message, State};
use pombo_kernel::name::ChannelName;
use pombo_kernel::reply::Receipt;
use pombo_kernel::time::Time;

use super::reader::{stretch, unanswered};
use super::{Postgres, rows, sql};
use crate::vault::Spot;
use crate::{Reported, StoreError, transition};

/// A message that was sent, and what was said of it.
struct Sent {
    message: Arc<Message>,
    /// By which id the provider knows it.
    provider_id: Option<String>,
    word: Option<LastWord>,
}

impl Postgres {
    /// Remembers by which id a provider will speak of a message. One that gave none costs nothing.
    pub(super) fn expect_reports(&mut self, message: &Message, receipt: &Receipt, now: Time) {
        if let Some(id) = &receipt.provider_id {
            let hash = self.vault.hash(message.queue.channel.as_str(), id);
            self.writes.receipt(stretch(MessageKey::at(now)), hash, message.id.key());
        }
    }

    /// Each report finds its message locked, so that two nodes which hear of one message at the same moment take it
    /// further one after the other.
    pub(super) fn report_some(
        &mut self,
        channel: &ChannelName,
        reports: &[Report],
        now: Time,
    ) -> Result<Vec<Reported>, StoreError> {
        self.flush(now)?;
        self.begin()?;
        let vault = self.vault.clone();
        let hash_of = |report: &Report| vault.hash(channel.as_str(), &report.provider_id);
        let (keys, mut sent) = self.find_sent(reports.iter().map(hash_of).collect())?;
        let mut moved = BTreeMap::new();
        let mut answers = Vec::with_capacity(reports.len());
        for report in reports {
            let found = keys.get(&hash_of(report)).and_then(|key| sent.get_mut(key)).filter(|sent| {
                sent.provider_id.as_ref() == Some(&report.provider_id)
                    && sent.message.queue.channel == *channel
            });
            let Some(sent) = found else {
                answers.push(Reported::Unknown);
                continue;
            };
            let from = sent.word.as_ref().map(|word| word.state);
            let Some(word) = report.beyond(from, now) else {
                answers.push(Reported::Kept);
                continue;
            };
            let (message, to) = (sent.message.clone(), word.state);
            self.record(transition::reported(&message, from, &word, now));
            self.ledger.reported(&message.queue, to);
            answers.push(Reported::Moved { id: message.id, from, to });
            sent.word = Some(word.clone());
            moved.insert(message.id.key(), (message, word));
        }
        self.put_deliveries(moved)?;
        Ok(answers)
    }

    /// The messages that providers mean by ids, of which these are the hashes.
    #[allow(clippy::type_complexity)]
    fn find_sent(
        &self,
        mut hashes: Vec<i64>,
    ) -> Result<(HashMap<i64, MessageKey>, HashMap<MessageKey, Sent>), StoreError> {
        hashes.sort_unstable();
        hashes.dedup();
        let mut keys = HashMap::new();
        for row in &self.link().query(sql!("receipt_find"), vec![hashes.into()])? {
            keys.insert(rows::get(row, 0)?, rows::key(row, 1)?);
        }
        let mut sent = HashMap::new();
        if keys.is_empty() {
            return Ok((keys, sent));
        }
        let asked: Vec<i64> = keys.values().map(|key: &MessageKey| key.0).collect();
        let of_keys = |sql| (sql, vec![asked.clone().into()]);
        let steps =
            vec![of_keys(sql!("message_get")), of_keys(sql!("history_last")), of_keys(sql!("delivery_get"))];
        let found = self.link().pipeline(steps)?;
        let [messages, steps, words] = found.as_slice() else { return Err(unanswered()) };
        for row in messages {
            let message = Arc::new(rows::stored(&self.vault, row)?.message);
            sent.insert(message.id.key(), Sent { message, provider_id: None, word: None });
        }
        for row in steps {
            if let (Some(it), Some(State::Sent { receipt, .. })) =
                (sent.get_mut(&rows::key(row, 18)?), rows::step(&self.vault, row)?.state())
            {
                it.provider_id = receipt.provider_id;
            }
        }
        for row in words {
            if let Some(it) = sent.get_mut(&rows::key(row, 3)?) {
                it.word = Some(rows::last_word(&self.vault, row)?);
            }
        }
        Ok((keys, sent))
    }

    fn put_deliveries(
        &mut self,
        moved: BTreeMap<MessageKey, (Arc<Message>, LastWord)>,
    ) -> Result<(), StoreError> {
        if moved.is_empty() {
            return Ok(());
        }
        let (mut keys, mut times, mut states) = (Vec::new(), Vec::new(), Vec::new());
        let (mut tenants, mut details) = (Vec::new(), Vec::new());
        for (key, (message, word)) in moved {
            keys.push(key.0);
            times.push(word.at.millis());
            states.push(i16::from(word.state.code()));
            tenants.push(message.queue.tenant.to_string());
            let detail = word.detail.as_deref();
            details.push(detail.map(|it| rows::sealed_text(&self.vault, &Spot::Detail(key), it)));
        }
        let values = vec![keys.into(), times.into(), states.into(), tenants.into(), details.into()];
        self.link().query(sql!("delivery_put"), values)?;
        Ok(())
    }
}
