//! Word between nodes that something is there to do: `NOTIFY`, and somebody who listens.
//!
//! It only saves waiting for the next look. Word that is lost, or comes twice, does no harm.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use pombo_kernel::dice::Dice;
use pombo_kernel::time::Span;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_postgres::{AsyncMessage, Client};
use tracing::debug;

use super::link::{Driver, Kind, Target, connect, failure};
use crate::StoreError;

/// However often something is told, others hear of it once in this time.
const PACE: Duration = Duration::from_millis(10);
const FIRST_RETRY: Span = Span::from_millis(100);
const SLOWEST_RETRY: Span = Span::from_secs(5);

/// What to do when there is word from another node.
pub(super) type Nudge = Arc<dyn Fn() + Send + Sync>;

/// A connection on which a node hears others and tells them. It comes back by itself when it is lost.
#[derive(Debug)]
pub(super) struct News {
    mark: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Drop for News {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl News {
    /// Behind a pooler nobody can listen, but telling works.
    pub(super) fn start(driver: &Driver, target: &Target, mut dice: Dice, nudge: Nudge) -> News {
        let mark = Arc::new(Notify::new());
        let (marked, target) = (mark.clone(), target.clone());
        let task = driver.handle().spawn(async move {
            let mut wait = FIRST_RETRY;
            loop {
                let ended = session(&target, &marked, &nudge, &mut wait).await;
                debug!(error = ?ended.err(), "the connection for news ended");
                sleep(wait.scaled(0.5 + dice.unit()).to_std()).await;
                wait = wait.doubled(1).min(SLOWEST_RETRY);
            }
        });
        News { mark, task }
    }

    /// Has other nodes told that there is something to do. Cheap, and for anybody to call as often as they like.
    pub(super) fn tell(&self) {
        self.mark.notify_one();
    }
}

/// Listens and tells until the connection ends.
async fn session(target: &Target, mark: &Notify, nudge: &Nudge, wait: &mut Span) -> Result<(), StoreError> {
    let (client, mut wire) = connect(target, Kind::Upkeep).await?;
    let (heard, mut hear) = mpsc::unbounded_channel();
    let mut driven = pin!(async move {
        while let Some(message) = poll_fn(|context| wire.poll_message(context)).await {
            match message {
                Ok(AsyncMessage::Notification(word)) => drop(heard.send(word.process_id())),
                Ok(_) => {}
                Err(error) => return Err(failure(&error)),
            }
        }
        Ok(())
    });
    let mut talked = pin!(async {
        let own = greet(&client, target.pooled()).await.map_err(|error| failure(&error))?;
        *wait = FIRST_RETRY;
        // Whatever was said while nobody listened.
        nudge();
        loop {
            tokio::select! {
                word = hear.recv() => match word {
                    Some(from) if Some(from) == own => {}
                    Some(_) => nudge(),
                    None => return Ok(()),
                },
                () = mark.notified() => {
                    client.batch_execute("NOTIFY pombo").await.map_err(|error| failure(&error))?;
                    sleep(PACE).await;
                }
            }
        }
    });
    tokio::select! {
        ended = &mut driven => ended,
        ended = &mut talked => ended,
    }
}

/// Starts to listen; who we are, so that we do not listen to ourselves.
async fn greet(client: &Client, pooled: bool) -> Result<Option<i32>, tokio_postgres::Error> {
    if pooled {
        return Ok(None);
    }
    client.batch_execute("LISTEN pombo").await?;
    Ok(Some(client.query_one("SELECT pg_backend_pid()", &[]).await?.get(0)))
}
