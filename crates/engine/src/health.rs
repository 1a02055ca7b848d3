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

/// Those who ask: one task for each channel whose provider can be asked. Dropping them ends it.
#[derive(Debug)]
pub struct Watchmen {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    tasks: JoinSet<()>,
}

impl Watchmen {
    pub fn start(
        store: Arc<dyn Store>,
        setup: &Setup,
        channels: &Channels,
        clock: Arc<dyn Clock>,
    ) -> Watchmen {
        let mut watchmen = Watchmen { store, clock, tasks: JoinSet::new() };
        watchmen.reload(setup, channels);
        watchmen
    }

    /// Goes on with another configuration.
    pub fn reload(&mut self, setup: &Setup, channels: &Channels) {
        self.tasks = JoinSet::new();
        for channel in setup.channels.values().filter(|channel| channel.unready.is_none()) {
            let (Some(every), Some(sender)) = (channel.care.probe_every, channels.get(&channel.name)) else {
                continue;
            };
            let watchman = Watchman {
                store: Arc::clone(&self.store),
                clock: Arc::clone(&self.clock),
                channel: Arc::clone(channel),
                sender: Arc::clone(sender),
            };
            self.tasks.spawn(watchman.walk(every.to_std()));
        }
    }
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
