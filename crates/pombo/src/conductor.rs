//! Sees to campaigns: starts those whose time has come, makes messages for those that run, calls back those of a
//! cancelled one. Their pace is not kept here, but where messages are claimed and settled.
//!
//! Several nodes may each have one. Nobody on a list gets a second message, and a document is changed only from what was
//! read, so that of two who do the same at once, one has done nothing.

use std::sync::Arc;

use pombo_kernel::campaign::letter::Unfit;
use pombo_kernel::campaign::recipient::Standing;
use pombo_kernel::campaign::{Campaign, PauseReason, Refused, State};
use pombo_kernel::message::Actor;
use pombo_kernel::name::CampaignName;
use pombo_kernel::setup::{ChannelSetup, Setup};
use pombo_kernel::time::{Clock, Span, Time};
use pombo_store::audit::Event;
use pombo_store::roster::{self, Feed, Recipient, Roster, Serving};
use pombo_store::shelf::{Doc, Shelf, Shelved};
use pombo_store::{Cancelled, Store, StoreError};
use pombo_web::{campaign, suppression};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tracing::{debug, info, warn};

use crate::rounds::Rounds;

/// Messages that are called back together.
const CALLED_BACK: usize = 256;
/// From one look at what is still on its way to the next.
const WATCH_EVERY: Span = Span::from_secs(1);

/// The one who does it. Ends when this is dropped, wherever it is: what is not committed is done by the next one.
#[derive(Debug)]
pub(crate) struct Conductor(JoinHandle<()>);

impl Drop for Conductor {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Conductor {
    pub(crate) fn start(
        store: Arc<dyn Store>,
        setup: watch::Receiver<Arc<Setup>>,
        clock: Arc<dyn Clock>,
    ) -> Conductor {
        Conductor(tokio::spawn(Work { store, setup, clock }.run()))
    }
}

struct Work {
    store: Arc<dyn Store>,
    setup: watch::Receiver<Arc<Setup>>,
    clock: Arc<dyn Clock>,
}

/// A campaign as it was read.
struct Read<'a> {
    doc: &'a Doc,
    name: CampaignName,
    campaign: Campaign,
}

impl Rounds for Work {
    const SHELF: Shelf = Shelf::Campaign;

    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    async fn piece(&mut self, doc: &Doc) -> Result<Option<Time>, StoreError> {
        let (Some(campaign), Ok(name)) = (roster::read(doc), doc.id.parse()) else {
            debug!(campaign_id = doc.id, "a campaign of a newer version is left to newer nodes");
            return Ok(None);
        };
        let now = self.clock.now();
        match campaign.due() {
            Some(due) if due <= now => self.step(Read { doc, name, campaign }, now).await,
            later => Ok(later),
        }
    }
}

impl Work {
    /// Does what is next; when there is more to do, if that is known.
    async fn step(&self, read: Read<'_>, now: Time) -> Result<Option<Time>, StoreError> {
        match &read.campaign.state {
            State::Scheduled { .. } => self.begin(read, now).await,
            State::Paused { reason: PauseReason::Cancelling, by, .. } => {
                let by = by.clone();
                self.call_back(read, by, now).await
            }
            State::Running { .. } if read.campaign.cut_at().is_some_and(|at| at <= now) => {
                if self.store.cut(read.doc.tenant.clone(), read.name).await? {
                    warn!(campaign_id = read.doc.id, "a campaign's send did not end and was cut off");
                }
                Ok(Some(now))
            }
            State::Running { .. } => self.feed(read, now).await,
            _ => Ok(None),
        }
    }

    async fn begin(&self, mut read: Read<'_>, now: Time) -> Result<Option<Time>, StoreError> {
        if let Err(trouble) = self.sendable(&read).await? {
            return self.stop(read, trouble, now).await;
        }
        match read.campaign.start(now) {
            Ok(()) => {
                let recipients = read.campaign.roll.left();
                self.write(&read, Event::CampaignStarted, json!({"recipients": recipients}), now).await
            }
            Err(Refused::Nobody) => self.stop(read, "there is nobody to write to".to_owned(), now).await,
            Err(Refused::State(_)) => Ok(None),
        }
    }

    /// Makes messages for the next ones on the list.
    async fn feed(&self, read: Read<'_>, now: Time) -> Result<Option<Time>, StoreError> {
        let channel = match self.sendable(&read).await? {
            Ok(channel) => channel,
            Err(trouble) => return self.stop(read, trouble, now).await,
        };
        let Read { doc, name, campaign } = &read;
        let most = usize::try_from(campaign.appetite()).unwrap_or(usize::MAX);
        let next = self.recipients(&read, Standing::Pending, most).await?;
        if next.is_empty() {
            // Another may have served them since; if the document still counts on somebody, its list is not whole.
            let latest = self.store.doc(Shelf::Campaign, doc.tenant.clone(), doc.id.clone()).await?;
            if latest.is_none_or(|latest| latest.version != doc.version) {
                return Ok(None);
            }
            let pending = campaign.roll.pending;
            let words = format!("{pending} of its recipients are pending, and its list has none of them");
            return self.stop(read, words, now).await;
        }
        let setup = self.setup.borrow().clone();
        let (mut servings, mut made) = (Vec::with_capacity(next.len()), 0);
        for recipient in &next {
            let Recipient { number, to, payload, .. } = recipient;
            let serving = match suppression::of(&*self.store, &doc.tenant, channel.kind, to).await? {
                Some(entry) => Serving::Suppressed(entry.reason.to_string()),
                None => match campaign.draft(&setup, (&doc.tenant, name), to, payload.as_ref(), now) {
                    Ok(draft) => {
                        made += 1;
                        Serving::Message(Box::new(draft))
                    }
                    Err(Unfit::Recipient(words)) => Serving::Failed(words),
                    Err(Unfit::Campaign(words)) => return self.stop(read, words, now).await,
                },
            };
            servings.push((*number, serving));
        }
        let left_out = next.len() - made;
        let feed = Feed { tenant: doc.tenant.clone(), campaign: name.clone(), servings };
        if let Err(not) = self.store.feed(feed).await? {
            debug!(campaign_id = doc.id, ?not, "a campaign was not fed");
            return Ok(None);
        }
        debug!(campaign_id = doc.id, made, left_out, "messages of a campaign were made");
        Ok((left_out > 0).then_some(now))
    }

    /// Cancels what waits of a campaign, and notes its end once nothing is on its way any more.
    async fn call_back(&self, read: Read<'_>, by: Actor, now: Time) -> Result<Option<Time>, StoreError> {
        let queued = self.recipients(&read, Standing::Queued, CALLED_BACK).await?;
        let mut calls = JoinSet::new();
        for id in queued.iter().filter_map(|recipient| recipient.message) {
            let (store, tenant, by) = (Arc::clone(&self.store), read.doc.tenant.clone(), by.clone());
            calls.spawn(async move { store.cancel(tenant, id, by).await });
        }
        let mut called_back = 0;
        while let Some(call) = calls.join_next().await {
            let call = call.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())));
            called_back += usize::from(call? == Cancelled::Done);
        }
        let Some(doc) = self.store.doc(Shelf::Campaign, read.doc.tenant.clone(), read.doc.id.clone()).await?
        else {
            return Ok(None);
        };
        let Some(mut campaign) = roster::read(&doc) else { return Ok(None) };
        if campaign.due().is_none() {
            return Ok(None);
        }
        if campaign.flight.is_some() || campaign.roll.queued > 0 {
            return Ok(Some(if called_back > 0 { now } else { now + WATCH_EVERY }));
        }
        campaign.cancelled(&by, now);
        let roll = campaign.roll;
        let detail = json!({"sent": roll.sent, "failed": roll.failed, "cancelled": roll.cancelled});
        self.write(&Read { doc: &doc, name: read.name, campaign }, Event::CampaignCancelled, detail, now)
            .await
    }

    async fn recipients(
        &self,
        read: &Read<'_>,
        standing: Standing,
        limit: usize,
    ) -> Result<Vec<Recipient>, StoreError> {
        let (tenant, campaign) = (read.doc.tenant.clone(), read.name.clone());
        self.store.recipients(Roster { tenant, campaign, standing: Some(standing), after: 0, limit }).await
    }

    /// The channel that it goes through; or why it cannot be sent as it is.
    async fn sendable(&self, read: &Read<'_>) -> Result<Result<Arc<ChannelSetup>, String>, StoreError> {
        let Read { doc, campaign, .. } = read;
        let channel = self.setup.borrow().channels.get(&campaign.channel).cloned();
        let Some(channel) = channel.filter(|channel| channel.tenant == doc.tenant) else {
            return Ok(Err(format!("there is no channel `{}` any more", campaign.channel)));
        };
        let (template, version) = (&campaign.template, campaign.template_version);
        let found = self.store.template(doc.tenant.clone(), template.clone(), Some(version)).await?;
        Ok(match found.map(|found| found.template.body_for(channel.kind)) {
            None => Err(format!("there is no version {version} of template `{template}` any more")),
            Some(Err(lacks)) => Err(format!("version {version} of template `{template}` {lacks}")),
            Some(Ok(_)) => Ok(channel),
        })
    }

    /// Pauses it for that trouble, which a person must see to.
    async fn stop(&self, mut read: Read<'_>, note: String, now: Time) -> Result<Option<Time>, StoreError> {
        let reason = PauseReason::Trouble;
        if read.campaign.pause(reason, note.clone(), &Actor::engine(), now).is_err() {
            return Ok(None);
        }
        self.write(&read, Event::CampaignPaused, json!({"reason": reason, "note": note}), now).await
    }

    /// Puts the campaign as it stands now. If another did meanwhile, what is next is seen at once.
    async fn write(
        &self,
        read: &Read<'_>,
        event: Event,
        detail: Value,
        now: Time,
    ) -> Result<Option<Time>, StoreError> {
        let Read { doc, campaign, .. } = read;
        let by = match &campaign.state {
            State::Cancelled { by, .. } => by.clone(),
            _ => Actor::engine(),
        };
        let wish = campaign::change(doc, campaign, (event, detail), &by, now);
        if let Some(Shelved::Done { .. }) = self.store.shelve(vec![wish]).await?.pop() {
            let state = campaign.state.name();
            match &campaign.state {
                State::Paused { note, .. } => warn!(campaign_id = doc.id, note, "a campaign cannot go on"),
                _ => info!(campaign_id = doc.id, %state, "a campaign has moved on"),
            }
        }
        Ok(Some(now))
    }
}

#[cfg(test)]
mod tests;
