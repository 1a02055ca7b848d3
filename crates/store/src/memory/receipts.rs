//! What providers say later of messages that were sent.

use std::sync::Arc;

use pombo_kernel::delivery::Report;
use pombo_kernel::message::{Message, State};
use pombo_kernel::name::ChannelName;
use pombo_kernel::reply::Receipt;
use pombo_kernel::time::Time;

use super::Model;
use crate::{Reported, transition};

impl Model {
    /// Remembers by which id a provider will speak of a message, if it gave one.
    pub(super) fn expect_reports(&mut self, message: &Message, receipt: &Receipt) {
        if let Some(id) = &receipt.provider_id {
            self.receipts.insert((message.queue.channel.clone(), id.clone()), message.id.key());
        }
    }

    pub(super) fn report(&mut self, channel: &ChannelName, report: &Report, now: Time) -> Reported {
        let id = &report.provider_id;
        let key = self.receipts.get(&(channel.clone(), id.clone())).copied();
        let row = key.and_then(|key| self.messages.get_mut(&key)).map(Arc::make_mut).filter(
            |row| matches!(&row.state, State::Sent { receipt, .. } if receipt.provider_id.as_ref() == Some(id)),
        );
        let Some(row) = row else { return Reported::Unknown };
        let from = row.delivery.as_ref().map(|word| word.state);
        let Some(word) = report.beyond(from, now) else { return Reported::Kept };
        let (message, to) = (row.message.clone(), word.state);
        self.records.push(transition::reported(&message, from, &word, now));
        row.delivery = Some(word);
        self.ledger.reported(&message.queue, to);
        Reported::Moved { id: message.id, from, to }
    }
}
