//! What a channel gets to see: a template filled in, attachments put back, a subscriber looked up. And whether it gets to
//! see it at all: a campaign's message to somebody who is on the suppression list by now ends here.

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;

use pombo_kernel::attachment::{self, Digest};
use pombo_kernel::content;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::message::{Json, Message};
use pombo_kernel::name::{TemplateName, Tenant};
use pombo_kernel::reply::{Fault, FaultKind};
use pombo_kernel::setup::EVENTS;
use pombo_kernel::signature::SigningKey;
use pombo_kernel::subscription::Subscription;
use pombo_kernel::suppression::Reason;
use pombo_kernel::template::{Compiled, RenderError};
use pombo_kernel::time::Time;
use pombo_store::shelf::Shelf;
use pombo_store::{Store, StoreError, suppression};
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::spawn_blocking;

/// Versions that are kept ready; when there are more, all are read anew.
const KEPT: usize = 1_024;
/// Attachments that are in memory at once, in KiB, before they are written as base64. Whoever finds no room waits.
const ROOM_KIB: u32 = 64 * 1024;

/// Where messages are made ready, with the templates that were used lately at hand.
#[derive(Debug)]
pub(crate) struct Bench {
    templates: Mutex<HashMap<Edition, Arc<Compiled>>>,
    room: Semaphore,
    /// Templates that may be rendered at once, of those that may take long: half of the cores have something else to do.
    presses: Arc<Semaphore>,
}

/// One version of one template. It never changes, so that what was read once can be kept.
type Edition = (Tenant, TemplateName, u32);

impl Default for Bench {
    fn default() -> Bench {
        let presses = available_parallelism().map_or(1, |cores| cores.get().div_ceil(2));
        Bench {
            templates: Mutex::default(),
            room: Semaphore::new(ROOM_KIB as usize),
            presses: Arc::new(Semaphore::new(presses)),
        }
    }
}

/// Content as the channel takes it, and the room that it occupies.
pub(crate) struct Prepared<'a> {
    pub(crate) content: String,
    /// Where it goes, if not where the message says.
    pub(crate) to: Option<String>,
    /// Who signs it, if not the channel.
    pub(crate) signers: Vec<SigningKey>,
    _room: Option<SemaphorePermit<'a>>,
}

impl Prepared<'_> {
    fn of(content: String) -> Self {
        Prepared { content, to: None, signers: Vec::new(), _room: None }
    }
}

/// Why there is nothing to send.
pub(crate) enum Unprepared {
    /// The message itself is at fault: there is no use in trying again.
    Fault(Fault),
    /// Whoever it is for is on the suppression list, for that reason.
    Suppressed(Reason),
    /// The store could not be asked for now.
    Store(StoreError),
}

impl From<StoreError> for Unprepared {
    fn from(error: StoreError) -> Unprepared {
        Unprepared::Store(error)
    }
}

fn fault(kind: FaultKind, text: String) -> Unprepared {
    Unprepared::Fault(Fault { kind, text })
}

impl Bench {
    pub(crate) async fn prepare(
        &self,
        store: &dyn Store,
        message: &Message,
        kind: ChannelKind,
        now: Time,
    ) -> Result<Prepared<'_>, Unprepared> {
        if message.queue.channel.as_str() == EVENTS {
            return self.address(store, message, now).await;
        }
        if message.queue.campaign.is_some() {
            let entry = suppression::of(store, &message.queue.tenant, kind, &message.body.to).await?;
            if let Some(entry) = entry {
                return Err(Unprepared::Suppressed(entry.reason));
            }
        }
        if let Some(template) = &message.body.template {
            let content = self.render(store, message, template, kind).await?;
            return Ok(Prepared::of(content.to_string()));
        }
        let Some(content) = &message.body.content else {
            return Ok(Prepared::of("null".to_owned()));
        };
        self.put_back(store, content, kind).await
    }

    /// An event for a subscriber, to wherever they want it now, signed with what they know now.
    async fn address(
        &self,
        store: &dyn Store,
        message: &Message,
        now: Time,
    ) -> Result<Prepared<'_>, Unprepared> {
        let (tenant, id) = (message.queue.tenant.clone(), message.body.to.clone());
        let doc = store.doc(Shelf::Webhook, tenant, id).await?;
        let subscription = doc.and_then(|doc| Subscription::read(&doc.leaf.body));
        let gone = |what: &str| fault(FaultKind::WebhookRemoved, format!("the webhook {what}"));
        let subscription = subscription.ok_or_else(|| gone("was removed"))?;
        if let Some(disabled) = &subscription.disabled {
            return Err(gone(&format!("is disabled: {}", disabled.reason)));
        }
        let content = message.body.content.as_ref().map_or("null", Json::text).to_owned();
        let (signers, to) = (subscription.signers(now), Some(subscription.url));
        Ok(Prepared { to, signers, ..Prepared::of(content) })
    }

    async fn render(
        &self,
        store: &dyn Store,
        message: &Message,
        template: &str,
        kind: ChannelKind,
    ) -> Result<Value, Unprepared> {
        let version = message.body.template_version;
        let named = match version {
            Some(version) => format!("template `{template}` version {version}"),
            None => format!("template `{template}`"),
        };
        let failed = |what: String| fault(FaultKind::Template, format!("{named}: {what}"));
        let name: TemplateName = template.parse().map_err(|_| failed("there is no such template".into()))?;
        let edition = version.map(|version| (message.queue.tenant.clone(), name.clone(), version));
        let kept = edition.as_ref().and_then(|edition| self.templates().get(edition).cloned());
        let compiled = match kept {
            Some(compiled) => compiled,
            None => {
                let stored = store.template(message.queue.tenant.clone(), name, version).await?;
                let stored = stored.ok_or_else(|| failed("there is no such template".into()))?;
                let compiled = Compiled::new(stored.template).map_err(|problems| {
                    let first = problems.first().map(ToString::to_string);
                    failed(first.unwrap_or_default())
                })?;
                let compiled = Arc::new(compiled);
                if let Some(edition) = edition {
                    let mut templates = self.templates();
                    if templates.len() >= KEPT {
                        templates.clear();
                    }
                    templates.insert(edition, compiled.clone());
                }
                compiled
            }
        };
        let payload = message.body.payload.as_ref().map_or("{}", Json::text);
        let filled = self.fill(compiled, kind, payload).await?;
        let content = filled.map_err(|error| failed(error.to_string()))?;
        content::check(kind, &message.body.to, &content).map_err(|problems| {
            let listed: Vec<String> =
                problems.iter().map(|it| format!("{} {}", it.field, it.reason)).collect();
            fault(FaultKind::BadContent, format!("{named}: {}", listed.join("; ")))
        })?;
        Ok(content)
    }

    /// Renders where it holds up nobody else: what may take long, apart from everything and few at a time.
    async fn fill(
        &self,
        compiled: Arc<Compiled>,
        kind: ChannelKind,
        payload: &str,
    ) -> Result<Result<Value, RenderError>, StoreError> {
        let values: Value = serde_json::from_str(payload).unwrap_or_default();
        if compiled.is_brief(payload.len()) {
            return Ok(compiled.render(kind, &values));
        }
        let press = Arc::clone(&self.presses).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let rendering = spawn_blocking(move || {
            let rendered = compiled.render(kind, &values);
            drop(press);
            rendered
        });
        rendering.await.map_err(|error| match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => StoreError::Closed,
        })
    }

    async fn put_back(
        &self,
        store: &dyn Store,
        content: &Json,
        kind: ChannelKind,
    ) -> Result<Prepared<'_>, Unprepared> {
        let as_it_is = || Prepared::of(content.text().to_owned());
        if attachment::field(kind).is_none() || !content.text().contains("\"blob\"") {
            return Ok(as_it_is());
        }
        let Ok(mut value) = serde_json::from_str::<Value>(content.text()) else { return Ok(as_it_is()) };
        let wanted = attachment::references(kind, &mut value);
        let bytes: usize = wanted.iter().map(|(_, size)| size).sum();
        let share = u32::try_from(bytes / 1024 + 1).unwrap_or(ROOM_KIB).min(ROOM_KIB);
        let room = self.room.acquire_many(share).await.map_err(|_| StoreError::Closed)?;
        let mut found: HashMap<Digest, Arc<[u8]>> = HashMap::new();
        for (digest, _) in wanted {
            if let Some(bytes) = store.blob(digest).await? {
                found.insert(digest, bytes);
            }
        }
        attachment::put_back(kind, &mut value, |digest| found.get(&digest).cloned()).map_err(|digest| {
            fault(FaultKind::BadContent, format!("the attachment {digest} is no longer stored"))
        })?;
        Ok(Prepared { _room: Some(room), ..Prepared::of(value.to_string()) })
    }

    fn templates(&self) -> MutexGuard<'_, HashMap<Edition, Arc<Compiled>>> {
        self.templates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
