//! Notices on their way to people: each is handed in as an ordinary message, and watched until it has arrived.
//!
//! Whoever has something to say puts a notice on its shelf ([`pombo_web::notice::owe`], under a key that makes a repeat
//! harmless) and need not look after it. Where the channel of its target is held, down or too slow, or the message fails,
//! the target's fallback gets it. Several nodes may do this at once: a notice is changed from the version that was read,
//! and messages are handed in under a key.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use pombo_kernel::block::BlockKind;
use pombo_kernel::message::{Actor, Body, Draft, Idempotency, Json, Priority, QueueName, State as Stands};
use pombo_kernel::name::NoticeName;
use pombo_kernel::notice::{Notice, State, Target};
use pombo_kernel::setup::{ChannelSetup, NOTICES, Setup};
use pombo_kernel::time::{Clock, Span, Time};
use pombo_store::dead::{Act, Ruling};
use pombo_store::shelf::{Doc, Shelf};
use pombo_store::{Cancelled, Line, Store, StoreError};
use pombo_web::{notice, shelf};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{error, info, warn};

use crate::rounds::Rounds;

/// What nobody has read by then is no news any more.
const LASTS: Span = Span::from_hours(24);
/// What a message says that it is.
const KIND: &str = "pombo.notice";

/// The one who sees to it that notices arrive. Ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Courier(JoinHandle<()>);

impl Drop for Courier {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Courier {
    pub(crate) fn start(
        store: Arc<dyn Store>,
        setup: watch::Receiver<Arc<Setup>>,
        clock: Arc<dyn Clock>,
    ) -> Courier {
        Courier(tokio::spawn(Work { store, setup, clock }.run()))
    }
}

struct Work {
    store: Arc<dyn Store>,
    setup: watch::Receiver<Arc<Setup>>,
    clock: Arc<dyn Clock>,
}

impl Rounds for Work {
    const SHELF: Shelf = Shelf::Alert;

    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    async fn piece(&mut self, doc: &Doc) -> Result<Option<Time>, StoreError> {
        let Some(notice) = notice::read(doc) else { return Ok(None) };
        let setup = self.setup.borrow().clone();
        let now = self.clock.now();
        match notice.state.clone() {
            State::Owed { via } => self.hand_in(doc, notice, &via, &setup, now).await,
            State::Handed { via, message, at } => {
                let line = self.store.lines(vec![message]).await?.pop();
                self.watch(doc, notice, &Sent { via, at, line }, &setup, now).await
            }
            State::Sent { .. } | State::Lost { .. } => Ok(None),
        }
    }
}

/// A notice that was handed in, and where its message stands; none if there is no trace of it.
struct Sent {
    via: NoticeName,
    at: Time,
    line: Option<Line>,
}

impl Work {
    async fn hand_in(
        &self,
        doc: &Doc,
        notice: Notice,
        via: &NoticeName,
        setup: &Setup,
        now: Time,
    ) -> Result<Option<Time>, StoreError> {
        let target = setup.alerts.targets.get(via);
        let found = target.and_then(|target| Some((target, setup.channels.get(&target.channel)?)));
        let Some((target, channel)) = found else {
            return self.pass(doc, notice, target, "it is no longer configured", now).await;
        };
        let Some(content) = notice.letter.content(channel.kind) else {
            return self.pass(doc, notice, Some(target), "its channel carries no letters", now).await;
        };
        let draft = draft(doc, &notice, target, channel, &content, now);
        if notice.next(Some(target)).is_some()
            && let Some(why) = self.in_the_way(channel, &draft.queue.destination).await?
        {
            return self.pass(doc, notice, Some(target), &why, now).await;
        }
        let id = match self.store.accept(vec![draft]).await?.pop() {
            Some(Ok(accepted)) => accepted.id,
            Some(Err(conflict)) => conflict.first,
            None => return Err(StoreError::Closed),
        };
        shelf::put(&*self.store, notice::change(doc, &notice.handed(id, now))).await?;
        Ok(Some(now + target.patience))
    }

    async fn watch(
        &self,
        doc: &Doc,
        notice: Notice,
        sent: &Sent,
        setup: &Setup,
        now: Time,
    ) -> Result<Option<Time>, StoreError> {
        let target = setup.alerts.targets.get(&sent.via);
        let Some(line) = &sent.line else {
            return self.pass(doc, notice, target, "its message is gone", now).await;
        };
        let message = &line.message;
        match &line.state {
            Stands::Sent { .. } => {
                info!(to = %notice.to, via = %sent.via, about = notice.about, "a notice arrived");
                shelf::put(&*self.store, notice::change(doc, &notice.sent(now))).await?;
                Ok(None)
            }
            Stands::Failed { reason, .. } => {
                // It is dealt with, and nobody has to decide about it. Only then is the message let go: whatever comes
                // between, it is found again as one that was discarded.
                let note = Some("a notice, which goes another way".to_owned());
                let (tenant, ids, by) = (message.queue.tenant.clone(), vec![message.id], Actor::engine());
                let ruling = Ruling { tenant, ids, act: Act::Discard, by, note, with: None };
                self.store.rule(ruling).await.map(drop)?;
                let why = failed(line).unwrap_or_else(|| format!("its message failed: {reason}"));
                self.pass(doc, notice, target, &why, now).await
            }
            Stands::Discarded { .. } | Stands::Cancelled { .. } => {
                let failed = failed(line).filter(|_| matches!(line.state, Stands::Discarded { .. }));
                let why = failed.unwrap_or_else(|| "its message was called off".to_owned());
                self.pass(doc, notice, target, &why, now).await
            }
            Stands::Pending { .. } | Stands::Sending { .. } => {
                let stale = sent.at + LASTS;
                let elsewhere = target.filter(|target| notice.next(Some(*target)).is_some());
                let why = match elsewhere {
                    // Nothing ends what waits for a channel that is held, however long that lasts.
                    _ if now >= stale => Some("nothing went out for a day".to_owned()),
                    None => None,
                    Some(target) => {
                        let late = now.since(sent.at) >= target.patience;
                        let blocked = match setup.channels.get(&target.channel) {
                            Some(channel) => self.in_the_way(channel, &message.queue.destination).await?,
                            None => None,
                        };
                        blocked.or_else(|| late.then(|| "it took too long".to_owned()))
                    }
                };
                let Some(why) = why else {
                    return Ok(Some(elsewhere.map_or(stale, |target| sent.at + target.patience)));
                };
                // What is being sent right now may arrive yet.
                let called = self.store.cancel(message.queue.tenant.clone(), message.id, Actor::engine());
                match called.await? {
                    Cancelled::Done | Cancelled::NotFound => self.pass(doc, notice, target, &why, now).await,
                    Cancelled::TooLate(_) => Ok(Some(now + Span::from_secs(1))),
                }
            }
        }
    }

    /// The target cannot be reached: its fallback gets the notice.
    async fn pass(
        &self,
        doc: &Doc,
        notice: Notice,
        target: Option<&Target>,
        why: &str,
        now: Time,
    ) -> Result<Option<Time>, StoreError> {
        let passed = notice.pass(target, why, now);
        let (to, about, id) = (&passed.to, &passed.about, &doc.id);
        match &passed.state {
            State::Owed { via } => {
                warn!(%to, about, notice_id = id, why, fallback = %via, "a notice goes another way");
            }
            _ => error!(%to, about, notice_id = id, why, "a notice reaches nobody"),
        }
        shelf::put(&*self.store, notice::change(doc, &passed)).await?;
        Ok((!passed.is_over()).then_some(now))
    }

    /// Why nothing goes through that channel to that destination for now, if nothing does.
    async fn in_the_way(
        &self,
        channel: &ChannelSetup,
        destination: &str,
    ) -> Result<Option<String>, StoreError> {
        if channel.unready.is_some() {
            return Ok(Some("its channel is not set up".to_owned()));
        }
        let blocks = self.store.blocks().await?;
        let stops = |kind| matches!(kind, BlockKind::Hold | BlockKind::Breaker | BlockKind::Operator);
        let block = blocks.iter().find(|(place, block)| {
            let here = place.destination.as_deref().is_none_or(|blocked| blocked == destination);
            place.channel == channel.name && here && stops(block.kind)
        });
        Ok(block.map(|(_, block)| match block.kind {
            BlockKind::Breaker => "its channel is down".to_owned(),
            _ => "its channel is held".to_owned(),
        }))
    }
}

/// How the last attempt of a message failed, in words.
fn failed(line: &Line) -> Option<String> {
    line.last_failure.as_ref().map(|failure| format!("its message failed: {}", failure.category))
}

/// The message that carries a notice to a target. The same notice for the same target is the same message: its key has a
/// sign that no caller can write.
fn draft(
    doc: &Doc,
    notice: &Notice,
    target: &Target,
    channel: &ChannelSetup,
    content: &serde_json::Value,
    now: Time,
) -> Draft {
    let key = format!("notice·{}·{}", doc.id, target.name);
    Draft {
        id: None,
        queue: QueueName {
            tenant: channel.tenant.clone(),
            lane: NOTICES.parse().expect("the built-in name is valid"),
            channel: channel.name.clone(),
            destination: channel.destination.of(&target.to, Some(content)),
            campaign: None,
        },
        priority: Priority::HIGHEST,
        send_at: None,
        expires_at: Some(now + LASTS),
        ordering_key: None,
        idempotency: Some(Idempotency { key, fingerprint: [0; 16] }),
        body: Body {
            to: target.to.clone(),
            kind: Some(KIND.to_owned()),
            content: Some(Json::from_value(content)),
            reference: Some(notice.about.clone()),
            ..Body::default()
        },
        blobs: Vec::new(),
    }
}
