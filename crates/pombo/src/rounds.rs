//! Rounds over documents that are due, one piece of each at a time, for as long as the store is open.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use pombo_kernel::time::{Clock, Time};
use pombo_store::shelf::{Doc, Pick, Shelf, Wanted};
use pombo_store::{Store, StoreError};
use tracing::debug;

/// Documents that are looked at together.
const AT_ONCE: usize = 64;
/// However much is committed, the shelf is asked this often at most while nothing is under way.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// A commit wakes this, and due times are known; this is for what nobody has thought of.
const LOOK_ANYWAY: Duration = Duration::from_secs(30);
/// How long to wait when the store cannot be used.
const TROUBLE: Duration = Duration::from_secs(1);

/// Somebody who sees to the documents of one shelf.
pub(crate) trait Rounds: Send + Sized {
    const SHELF: Shelf;

    fn store(&self) -> &Arc<dyn Store>;

    fn clock(&self) -> &dyn Clock;

    /// Does one piece of what a document asks for, if that is due; when to look again, if that is known.
    fn piece(&mut self, doc: &Doc) -> impl Future<Output = Result<Option<Time>, StoreError>> + Send;

    /// Does one piece for every document that is due; when to look again, if that is known.
    fn round(&mut self) -> impl Future<Output = Result<Option<Time>, StoreError>> + Send {
        async {
            let now = self.clock().now();
            let mut wake: Option<Time> = None;
            let mut after = None;
            loop {
                let pick = Pick::Due { from: Time::default(), until: Time::MAX, after };
                let wanted = Wanted { shelf: Self::SHELF, tenant: None, pick, limit: AT_ONCE };
                let docs = self.store().docs(wanted).await?;
                for doc in &docs {
                    wake = [wake, self.piece(doc).await?].into_iter().flatten().min();
                }
                after = match docs.last().map(|last| (last.leaf.due, last.id.clone())) {
                    Some((Some(due), id)) if docs.len() == AT_ONCE && due <= now => Some((due, id)),
                    _ => return Ok(wake),
                };
            }
        }
    }

    /// Goes on until the store closes. What is not committed then is done by the next one.
    fn run(mut self) -> impl Future<Output = ()> + Send {
        async move {
            let mut moved = self.store().watch();
            loop {
                moved.mark_unchanged();
                let wake = match self.round().await {
                    Ok(wake) => wake,
                    Err(StoreError::Closed | StoreError::Broken(_)) => return,
                    Err(error) => {
                        debug!(%error, shelf = ?Self::SHELF, "what is due waits");
                        tokio::time::sleep(TROUBLE).await;
                        continue;
                    }
                };
                let now = self.clock().now();
                let due = wake.map_or(LOOK_ANYWAY, |wake| wake.since(now).to_std().min(LOOK_ANYWAY));
                let news = async {
                    tokio::time::sleep(LOOK_AGAIN).await;
                    moved.changed().await
                };
                tokio::select! {
                    () = tokio::time::sleep(due) => {}
                    changed = news => if changed.is_err() { return },
                }
            }
        }
    }
}
