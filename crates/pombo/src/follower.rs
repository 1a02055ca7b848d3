//! Follows the audit from a place that is kept as a document.
//!
//! Of several nodes one at a time does so, for as long as a lease in the same document lasts. What it does with a record
//! comes before the place moves on and must be harmless twice: after any interruption nothing is passed over, and two
//! that believe to have the lease do the same work.

use std::sync::Arc;
use std::time::Duration;

use pombo_kernel::name::Tenant;
use pombo_kernel::time::{Span, Time};
use pombo_store::audit::Record;
use pombo_store::shelf::{Expect, Leaf, Shelf, Shelve, Shelved};
use pombo_store::{Store, StoreError};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use tracing::debug;

/// Records that are looked at together.
pub(crate) const AT_ONCE: usize = 500;
/// How long one node follows for all, unless it says so again.
pub(crate) const LEASE: Span = Span::from_secs(3);
/// The place is noted after so many records that asked for nothing.
const NOTE_AFTER: u64 = 5_000;
/// How long to wait when the store cannot be used.
const TROUBLE: Duration = Duration::from_secs(1);

/// What to do after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// There is more.
    None,
    /// Somebody else does it, for so long at least.
    Until(Span),
    /// All is done: wait for news, and then a little for more of it.
    News(Duration),
    /// The same, but for so long at most: something is due then.
    NewsWithin(Duration, Span),
}

/// Whoever looks at records in rounds.
pub(crate) trait Following: Send + Sized {
    fn store(&self) -> &Arc<dyn Store>;

    fn round(&mut self) -> impl Future<Output = Result<Rest, StoreError>> + Send;

    /// Forgets what it knows of the store, which could not be used for a while.
    fn forget(&mut self);

    /// Goes on until the store closes.
    fn run(mut self) -> impl Future<Output = ()> + Send {
        async move {
            let mut news = self.store().watch();
            loop {
                news.mark_unchanged();
                let (wait, most) = match self.round().await {
                    Ok(Rest::None) => continue,
                    Ok(Rest::Until(span)) => {
                        sleep(span.to_std()).await;
                        continue;
                    }
                    Ok(Rest::News(pace)) => (pace, None),
                    Ok(Rest::NewsWithin(pace, most)) => (pace, Some(most)),
                    Err(error @ (StoreError::Closed | StoreError::Broken(_))) => {
                        return stopped("following events", &error);
                    }
                    Err(error) => {
                        debug!(%error, "the events wait to be followed");
                        self.forget();
                        sleep(TROUBLE).await;
                        continue;
                    }
                };
                let due = async {
                    match most {
                        Some(most) => sleep(most.to_std()).await,
                        None => std::future::pending().await,
                    }
                };
                let more = async {
                    let open = news.changed().await.is_ok();
                    if open {
                        sleep(wait).await;
                    }
                    open
                };
                tokio::select! {
                    () = due => {}
                    open = more => if !open { return },
                }
            }
        }
    }
}

/// How far events have been followed, and who follows until when. Kept as a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cursor {
    /// Everything before is done.
    pub(crate) position: u64,
    #[serde(default)]
    pub(crate) holder: u64,
    #[serde(default)]
    until: Time,
}

/// The cursor as this node last wrote it.
#[derive(Clone, Copy)]
struct Lead {
    version: u32,
    cursor: Cursor,
    /// How far it has come since, without anything that had to be done.
    reached: u64,
}

/// Whether this node follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// As before.
    Kept,
    /// From now on, and somebody else may have followed until now.
    Taken,
    /// There is nothing new to follow.
    Idle,
    /// Somebody else does, for so long at least.
    Others(Span),
}

/// A place in the audit, and who moves it on.
pub(crate) struct Follower {
    store: Arc<dyn Store>,
    /// Where the place is kept.
    name: &'static str,
    holder: u64,
    lead: Option<Lead>,
}

impl Follower {
    pub(crate) fn new(store: Arc<dyn Store>, name: &'static str, holder: u64) -> Follower {
        Follower { store, name, holder, lead: None }
    }

    pub(crate) fn forget(&mut self) {
        self.lead = None;
    }

    /// Whether this node is to look at records now. What comes before `first` is passed over.
    pub(crate) async fn turn(&mut self, first: u64, now: Time) -> Result<Turn, StoreError> {
        if self.lead.is_some_and(|lead| lead.cursor.until > now) {
            return Ok(Turn::Kept);
        }
        // A sign of more to do, before anything is written for it.
        let end = *self.store.watch().borrow();
        if self.lead.is_some_and(|lead| lead.reached >= end) {
            return Ok(Turn::Idle);
        }
        self.take_lead(first, now).await
    }

    /// Becomes the one who follows, or says how long somebody else does.
    async fn take_lead(&mut self, first: u64, now: Time) -> Result<Turn, StoreError> {
        let doc = self.store.doc(Shelf::Cursor, Tenant::default(), self.name.to_owned()).await?;
        let kept = doc.as_ref().and_then(|doc| serde_json::from_str::<Cursor>(&doc.leaf.body).ok());
        let kept = kept.unwrap_or_default();
        // One that ends much later than any lease is of a clock that was wrong.
        let left = kept.until.since(now);
        if kept.holder != self.holder && left > Span::ZERO && left <= LEASE {
            return Ok(Turn::Others(left));
        }
        let version = doc.map_or(0, |doc| doc.version);
        let own = self.lead.filter(|lead| lead.version == version).map_or(0, |lead| lead.reached);
        let reached = kept.position.max(first).max(own);
        let noted = self.note(Lead { version, cursor: kept, reached }, now).await?;
        Ok(if noted { Turn::Taken } else { Turn::Others(LEASE) })
    }

    /// The next records. Only for the one whose turn it is.
    pub(crate) async fn records(&self) -> Result<Vec<(u64, Record)>, StoreError> {
        match self.lead {
            Some(lead) => self.store.audit(lead.reached, AT_ONCE).await,
            None => Ok(Vec::new()),
        }
    }

    /// Everything before `next` is done. It is noted if `acted`, or now and then.
    pub(crate) async fn moved(&mut self, next: u64, acted: bool, now: Time) -> Result<(), StoreError> {
        let Some(lead) = self.lead else { return Ok(()) };
        let moved = Lead { reached: next, ..lead };
        self.lead = Some(moved);
        if acted || next - lead.cursor.position >= NOTE_AFTER {
            self.note(moved, now).await?;
        }
        Ok(())
    }

    /// Writes down how far it has come and that this node goes on; false if somebody else has done so.
    async fn note(&mut self, lead: Lead, now: Time) -> Result<bool, StoreError> {
        let cursor = Cursor { position: lead.reached, holder: self.holder, until: now + LEASE };
        let body = serde_json::to_string(&cursor).unwrap_or_default();
        let wish = Shelve {
            shelf: Shelf::Cursor,
            tenant: Tenant::default(),
            id: self.name.to_owned(),
            expect: if lead.version == 0 { Expect::Nothing } else { Expect::Version(lead.version) },
            leaf: Some(Leaf { order: 0, topic: None, due: None, body }),
            record: None,
        };
        self.lead = match self.store.shelve(vec![wish]).await?.pop() {
            Some(Shelved::Done { version }) => Some(Lead { version, cursor, reached: lead.reached }),
            Some(Shelved::Conflict(_)) => None,
            None => return Err(StoreError::Closed),
        };
        Ok(self.lead.is_some())
    }
}

/// Something that worked on the store works no more. That is as it should be when the store has closed; what cannot be
/// read is somebody's to look at.
pub(crate) fn stopped(what: &str, error: &StoreError) {
    if !matches!(error, StoreError::Closed) {
        tracing::error!(%error, what, "stopped until the next start; `pombo store check` says what is wrong");
    }
}
