//! Asks providers how they are, from time to time, and more often while they are not well.

use std::sync::Arc;
use std::time::Duration;

use pombo_channels::{Channel, Health};
use pombo_kernel::setup::{ChannelSetup, Setup};
use pombo_kernel::time::Clock;
use pombo_store::{Store, StoreError};
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::decide;
use crate::shell::Channels;

/// How long a provider may take to say how it is.
const PATIENCE: Duration = Duration::from_secs(10);
/// From one asking to the next while a provider is not well.
const SOON: Duration = Duration::from_secs(15);

/// One task for each channel whose provider is to be asked. They end when the set is dropped.
pub(crate) fn watch(
    store: &Arc<dyn Store>,
    setup: &Setup,
    channels: &Channels,
    clock: &Arc<dyn Clock>,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for channel in setup.channels.values().filter(|channel| channel.unready.is_none()) {
        let (Some(every), Some(sender)) = (channel.care.probe_every, channels.get(&channel.name)) else {
            continue;
        };
        let watchman = Watchman {
            store: Arc::clone(store),
            clock: Arc::clone(clock),
            channel: Arc::clone(channel),
            sender: Arc::clone(sender),
        };
        tasks.spawn(watchman.walk(every.to_std()));
    }
    tasks
}

struct Watchman {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    channel: Arc<ChannelSetup>,
    sender: Arc<dyn Channel>,
}

impl Watchman {
    async fn walk(self, every: Duration) {
        let mut well = true;
        loop {
            let health = match tokio::time::timeout(2 * PATIENCE, self.sender.probe(PATIENCE)).await {
                Ok(Health::Unknown) => return,
                Ok(health) => Some(health),
                Err(_) => None,
            };
            let sick = matches!(health, Some(Health::Sick(_)) | None);
            if sick && well {
                warn!(channel = %self.channel.name, "the provider is not well");
            } else if !sick && !well {
                info!(channel = %self.channel.name, "the provider is well again");
            }
            well = !sick;
            let finding = health.and_then(|health| decide::finding(&self.channel, health, self.clock.now()));
            if let Some(finding) = finding {
                match self.store.examine(finding).await {
                    Ok(()) => {}
                    Err(StoreError::Closed | StoreError::Broken(_)) => return,
                    Err(error) => warn!(%error, "how a provider is could not be recorded"),
                }
            }
            tokio::time::sleep(if well { every } else { SOON.min(every) }).await;
        }
    }
}
