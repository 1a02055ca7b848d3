//! Fills the suppression list from what happens: follows the audit, and puts on the list whoever cannot be reached for
//! good or has complained.
//!
//! An entry that is there stays as it is, so that the same event again changes nothing. An entry that somebody took off
//! the list comes back with the next such event only.

use std::sync::Arc;
use std::time::Duration;

use pombo_kernel::delivery::Delivery;
use pombo_kernel::dice::Dice;
use pombo_kernel::message::{Actor, Body};
use pombo_kernel::name::Tenant;
use pombo_kernel::setup::{ChannelSetup, Setup};
use pombo_kernel::suppression::{Family, Reason, Suppression};
use pombo_kernel::time::Clock;
use pombo_store::audit::{Event, Record};
use pombo_store::shelf::{Shelve, Shelved};
use pombo_store::{Store, StoreError, Story};
use pombo_web::{keys, suppression};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::info;

use crate::follower::{AT_ONCE, Follower, Following, Rest, Turn};

/// A busy store moves all the time: there is at most one round in this time.
const PACE: Duration = Duration::from_millis(500);
/// Where the place is kept.
const CURSOR: &str = "suppressions";

/// The one who fills the list. Ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Suppressor(JoinHandle<()>);

impl Drop for Suppressor {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Suppressor {
    pub(crate) fn start(
        store: Arc<dyn Store>,
        setup: watch::Receiver<Arc<Setup>>,
        clock: Arc<dyn Clock>,
        entropy: Arc<keys::Entropy>,
        seed: u64,
    ) -> Suppressor {
        let follower = Follower::new(Arc::clone(&store), CURSOR, Dice::seeded(seed).next_u64());
        Suppressor(tokio::spawn(Work { store, setup, clock, entropy, follower }.run()))
    }
}

struct Work {
    store: Arc<dyn Store>,
    setup: watch::Receiver<Arc<Setup>>,
    clock: Arc<dyn Clock>,
    /// Where the ids of entries come from.
    entropy: Arc<keys::Entropy>,
    follower: Follower,
}

impl Following for Work {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn forget(&mut self) {
        self.follower.forget();
    }

    async fn round(&mut self) -> Result<Rest, StoreError> {
        let setup = self.setup.borrow().clone();
        if !setup.channels.values().any(|channel| fills(channel)) {
            return Ok(Rest::News(PACE));
        }
        let now = self.clock.now();
        match self.follower.turn(0, now).await? {
            Turn::Kept | Turn::Taken => {}
            Turn::Idle => return Ok(Rest::News(PACE)),
            Turn::Others(wait) => return Ok(Rest::Until(wait)),
        }
        let records = self.follower.records().await?;
        let Some((last, _)) = records.last() else { return Ok(Rest::News(PACE)) };
        let mut wishes = Vec::new();
        for (_, record) in &records {
            wishes.extend(self.wish(&setup, record).await?);
        }
        let acted = !wishes.is_empty();
        for (wish, done) in wishes.iter().zip(self.put(&wishes).await?) {
            if let (Shelved::Done { .. }, Some(leaf)) = (done, &wish.leaf) {
                info!(suppression_id = leaf.topic, "a recipient was suppressed");
            }
        }
        self.follower.moved(last + 1, acted, now).await?;
        Ok(if records.len() == AT_ONCE { Rest::None } else { Rest::News(PACE) })
    }
}

impl Work {
    async fn put(&self, wishes: &[Shelve]) -> Result<Vec<Shelved>, StoreError> {
        if wishes.is_empty() { Ok(Vec::new()) } else { self.store.shelve(wishes.to_vec()).await }
    }

    /// What is to be put on the list for what happened.
    async fn wish(&self, setup: &Setup, record: &Record) -> Result<Option<Shelve>, StoreError> {
        let channel = setup.channels.get(record.channel.as_str()).filter(|channel| fills(channel));
        let (Some(channel), Some(happened), Some(id)) = (channel, Happened::read(record), record.message)
        else {
            return Ok(None);
        };
        let Ok(tenant) = record.tenant.parse::<Tenant>() else { return Ok(None) };
        let Some(story) = self.store.story(tenant.clone(), id).await? else { return Ok(None) };
        let Some((reason, to)) = self.found(channel, &happened, &story).await? else { return Ok(None) };
        let Some(kind) = Family::of(channel.kind) else { return Ok(None) };
        let Some(recipient) = kind.normalised(&to) else { return Ok(None) };
        let entry = Suppression {
            id: suppression::new_id((self.entropy)()),
            kind,
            recipient,
            reason,
            source: Some(format!("{} {id}", channel.name)),
            note: None,
            created_at: self.clock.now(),
            created_by: Actor::engine().0,
        };
        Ok(Some(suppression::put(&tenant, &entry)))
    }

    /// Why somebody is not written to any more, and whom the message went to then. What went to several at once says
    /// not which of them it is about, and puts nobody on the list.
    async fn found(
        &self,
        channel: &ChannelSetup,
        happened: &Happened,
        story: &Story,
    ) -> Result<Option<(Reason, String)>, StoreError> {
        let Happened::Failed { round, attempt } = *happened else {
            let reason = story.delivery.as_ref().and_then(Reason::of_report);
            return Ok(reason.zip(only(&story.message.body)));
        };
        let failed = story.attempts.iter().find(|it| (it.round, it.number) == (round, attempt));
        let Some(failed) = failed else { return Ok(None) };
        let reason = failed.failure.as_ref().and_then(|it| Reason::of_failure(&channel.rules, it));
        let Some(reason) = reason else { return Ok(None) };
        // Somebody may have put the address right since.
        let revisions = match story.version {
            1 => Vec::new(),
            _ => self.store.revisions(story.message.queue.tenant.clone(), story.message.id).await?,
        };
        let then = revisions.into_iter().find(|it| it.replaced_at >= failed.finished_at);
        Ok(only(then.as_ref().map_or(&story.message.body, |then| &then.body)).map(|to| (reason, to)))
    }
}

/// The one whom a message goes to, if it goes to nobody else.
fn only(body: &Body) -> Option<String> {
    match suppression::reached(body).as_mut_slice() {
        [(_, to)] => Some(std::mem::take(to)),
        _ => None,
    }
}

/// Whether what happens on a channel fills the list.
fn fills(channel: &ChannelSetup) -> bool {
    Family::of(channel.kind).is_some() && !channel.care.forgives
}

/// What may put somebody on the list.
enum Happened {
    Failed { round: u16, attempt: u16 },
    Reported,
}

impl Happened {
    fn read(record: &Record) -> Option<Happened> {
        #[derive(Deserialize)]
        struct Detail {
            round: Option<u16>,
            attempt: Option<u16>,
            delivery: Option<Delivery>,
        }
        if !matches!(record.event, Event::Failed | Event::Delivery) {
            return None;
        }
        let detail: Detail = serde_json::from_str(&record.detail).ok()?;
        match record.event {
            Event::Failed => Some(Happened::Failed { round: detail.round?, attempt: detail.attempt? }),
            _ => matches!(detail.delivery?, Delivery::Bounced | Delivery::Complained)
                .then_some(Happened::Reported),
        }
    }
}

#[cfg(test)]
mod tests;
