//! What providers say later of messages that were sent.

use pombo_kernel::delivery::Report;
use pombo_kernel::id::MessageKey;
use pombo_kernel::message::{Message, State};
use pombo_kernel::name::ChannelName;
use pombo_kernel::reply::Receipt;
use pombo_kernel::time::Time;
use rusqlite::params;

use super::{Sqlite, rows, sql};
use crate::transition;
use crate::vault::Spot;
use crate::walls::Walls;
use crate::{Reported, StoreError};

impl Sqlite {
    /// Remembers by which id a provider will speak of a message. One that gave none costs nothing.
    pub(super) fn expect_reports(&mut self, message: &Message, receipt: &Receipt) -> Result<(), StoreError> {
        if let Some(id) = &receipt.provider_id {
            let hash = self.file.db.vault.hash(message.queue.channel.as_str(), id);
            let slice = self.directory.slice();
            self.write(sql!("receipt_put"), params![slice, hash, message.id.key().0])?;
        }
        Ok(())
    }

    pub(super) fn report_one(
        &mut self,
        channel: &ChannelName,
        report: &Report,
        now: Time,
    ) -> Result<Reported, StoreError> {
        let Some(message) = self.message_of(channel, &report.provider_id)? else {
            return Ok(Reported::Unknown);
        };
        let key = message.id.key();
        let from = rows::delivery(&self.file.db, key)?.map(|word| word.state);
        let Some(word) = report.beyond(from, now) else { return Ok(Reported::Kept) };
        let to = word.state;
        let vault = &self.file.db.vault;
        let detail = word.detail.as_deref().map(|it| vault.seal_text(&Spot::Detail(key), it).into_owned());
        self.write(sql!("delivery_put"), params![key.0, to.code(), word.at.millis(), detail])?;
        self.record(transition::reported(&message, from, &word, now));
        self.ledger.reported(&message.queue, to);
        Ok(Reported::Moved { id: message.id, from, to })
    }

    /// The message that a provider means by an id: most are recent, so the newest slice is looked into first.
    fn message_of(&self, channel: &ChannelName, id: &str) -> Result<Option<Message>, StoreError> {
        let hash = self.file.db.vault.hash(channel.as_str(), id);
        for slice in (0..=self.directory.slice()).rev() {
            let found = self.one(sql!("receipt_find"), params![slice, hash], |row| row.get(0))?;
            if let Some(key) = found.map(MessageKey) {
                let last = rows::last_step(&self.file.db, key)?.and_then(|step| step.state());
                let meant = matches!(&last, Some(State::Sent { receipt, .. }) if receipt.provider_id.as_deref() == Some(id));
                let stored = if meant { rows::stored(&self.file.db, key)? } else { None };
                return Ok(stored.map(|stored| stored.message).filter(|it| it.queue.channel == *channel));
            }
        }
        Ok(None)
    }
}
