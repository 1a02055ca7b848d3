//! Anchors: the end of the audit chain, signed now and then, with copies outside the database.
//!
//! Of several nodes each may try: anchors are numbered, and of two that make the same one the second finds it there. A
//! node signs what it has followed from the anchor before, so that it never signs a chain that does not hold.

mod file;
pub(crate) mod key;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pombo_kernel::message::Actor;
use pombo_kernel::time::{Clock, Span, Time};
use pombo_store::anchor::{self, Anchor};
use pombo_store::audit::{Break, Tip, Walk};
use pombo_store::shelf::Shelved;
use pombo_store::{Store, StoreError};
use tokio::task::JoinHandle;
use tracing::{debug, error, info, warn};

pub(crate) use self::file::read as read_file;
use self::key::Signer;
use crate::config::Audit;
use crate::node::Place;

/// Where key and copies are, in the folder of an embedded store, unless the configuration says otherwise.
const KEY_FILE: &str = "audit.key";
const ANCHORS_FILE: &str = "anchors.ndjson";
/// However much is committed, it is looked at so often at most.
const PACE: Duration = Duration::from_secs(1);
/// How long to wait when something is wrong.
const TROUBLE: Duration = Duration::from_secs(60);
/// Anchors that are read at once.
const AT_ONCE: usize = 500;

/// Where copies of the anchors are kept: in the file that is configured, else beside an embedded store.
pub(crate) fn copies(audit: &Audit, place: &Place) -> Option<PathBuf> {
    audit.anchors_file.clone().or_else(|| folder(place).map(|folder| folder.join(ANCHORS_FILE)))
}

fn folder(place: &Place) -> Option<&Path> {
    match place {
        Place::Embedded(folder) => Some(folder),
        Place::Postgres(_) => None,
    }
}

/// The one who signs. Ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Anchorer(JoinHandle<()>);

impl Drop for Anchorer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Anchorer {
    /// Nobody, where there is no key: nodes that share a database must be given the same one.
    pub(crate) fn start(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        place: &Place,
        audit: &Audit,
    ) -> Option<Anchorer> {
        let hand = match (&audit.signing_key, folder(place)) {
            (Some(pem), _) => Hand::Ready(Signer::read(pem.expose()).ok()?),
            (None, Some(folder)) => Hand::File(folder.join(KEY_FILE)),
            (None, None) => {
                info!("the audit chain is not signed: [audit] names no signing_key_file");
                return None;
            }
        };
        let work = Work {
            store,
            clock,
            hand,
            copies: copies(audit, place),
            every: audit.anchor_every,
            records: audit.anchor_records.get(),
            known: None,
            broken: None,
            beyond: None,
        };
        Some(Anchorer(tokio::spawn(work.run())))
    }
}

/// What signs.
enum Hand {
    Ready(Signer),
    /// Made when it is first needed.
    File(PathBuf),
}

struct Work {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    hand: Hand,
    copies: Option<PathBuf>,
    /// An anchor is made at least so often while something happens, and after so many records.
    every: Span,
    records: u64,
    /// As of the last look.
    known: Option<Known>,
    /// What is wrong with the chain, so that it is said once.
    broken: Option<Break>,
    /// A copy of an anchor is beyond the last one in the store.
    beyond: Option<Break>,
}

/// The last anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    /// 0 if there is none yet.
    number: u64,
    tip: Tip,
    /// When it was made; if there is none, when the first record was.
    at: Time,
}

impl Known {
    /// Records since then, but for the one that tells of the anchor itself.
    fn news(&self, end: u64) -> u64 {
        end.saturating_sub(self.tip.position).saturating_sub(u64::from(self.number > 0))
    }
}

impl Work {
    async fn run(mut self) {
        let mut moved = self.store.watch();
        loop {
            let end = *moved.borrow_and_update();
            let wait = match self.round(end).await {
                Ok(wait) => wait,
                Err(StoreError::Closed | StoreError::Broken(_)) => return,
                Err(error) => {
                    debug!(%error, "the audit waits to be signed");
                    Some(TROUBLE)
                }
            };
            let due = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            let news = async {
                tokio::time::sleep(if self.broken.is_some() { TROUBLE } else { PACE }).await;
                moved.changed().await
            };
            tokio::select! {
                () = due => {}
                changed = news => if changed.is_err() { return },
            }
        }
    }

    /// Makes an anchor if one is due; how long until one may be, if nothing happens.
    async fn round(&mut self, end: u64) -> Result<Option<Duration>, StoreError> {
        let now = self.clock.now();
        let known = match self.known {
            Some(known) if self.broken.is_none() => known,
            _ => {
                let known = self.look().await?;
                self.judge(self.lost(&known).await?, now).await?;
                known
            }
        };
        if self.beyond.is_some() {
            return Ok(Some(TROUBLE));
        }
        if let Some(left) = self.wait(&known, end, now) {
            return Ok(left);
        }
        // Somebody else may have made it meanwhile.
        let known = self.look().await?;
        if let Some(left) = self.wait(&known, end, now) {
            return Ok(left);
        }
        let mut walk = Walk { tip: known.tip, broken: self.lost(&known).await? };
        while walk.broken.is_none() && walk.on(&self.store.chain(walk.tip.sequence, usize::MAX).await?) {}
        self.judge(walk.broken, now).await?;
        if walk.broken.is_some() || known.news(walk.tip.position) == 0 {
            return Ok(Some(TROUBLE));
        }
        self.make(&known, &walk.tip, now).await
    }

    /// Until when there is nothing to do, if there is nothing to do now: for so long, or until something happens.
    fn wait(&self, known: &Known, end: u64, now: Time) -> Option<Option<Duration>> {
        match known.news(end) {
            0 => Some(None),
            news if news >= self.records => None,
            _ => {
                let left = (known.at + self.every).since(now);
                (left > Span::ZERO).then(|| Some(left.to_std()))
            }
        }
    }

    /// What is wrong with the block that the last anchor is about, or with the anchors themselves.
    async fn lost(&self, known: &Known) -> Result<Option<Break>, StoreError> {
        if self.beyond.is_some() {
            return Ok(self.beyond);
        }
        let Some(block) = known.tip.sequence.checked_sub(1) else { return Ok(None) };
        let found = self.store.chain(block, 1).await?.pop();
        let what = match found.filter(|found| found.sequence == block) {
            Some(found) if found.hash == known.tip.hash => return Ok(None),
            Some(_) => "it is not the one that was signed",
            None => "it was signed, and is missing",
        };
        Ok(Some(Break { block, what }))
    }

    /// Reads which anchor is the last one, and sees to the copies.
    async fn look(&mut self) -> Result<Known, StoreError> {
        let last = self.store.docs(anchor::before(None, 1)).await?.first().and_then(anchor::read);
        let known = match &last {
            Some((number, anchor)) => Known { number: *number, tip: anchor.tip(), at: anchor.at },
            None => {
                let first = self.store.audit(0, 1).await?.pop();
                let at = first.map_or_else(|| self.clock.now(), |(_, record)| record.at);
                Known { number: 0, tip: Tip::default(), at }
            }
        };
        if self.known.map(|known| known.number) != Some(known.number) || self.broken.is_some() {
            self.beyond = self.copy(last.as_ref().map(|(_, anchor)| anchor)).await?;
        }
        self.known = Some(known);
        Ok(known)
    }

    async fn make(&mut self, known: &Known, tip: &Tip, now: Time) -> Result<Option<Duration>, StoreError> {
        let anchor = match self.signer() {
            Ok(signer) => signer.sign(tip, now),
            Err(why) => {
                error!(why, "the audit chain cannot be signed");
                return Ok(Some(TROUBLE));
            }
        };
        let number = known.number + 1;
        match self.store.shelve(vec![anchor.put(number, &Actor::engine())]).await?.pop() {
            Some(Shelved::Done { .. }) => {
                info!(
                    number,
                    blocks = anchor.sequence,
                    records = anchor.position,
                    "the audit chain was signed"
                );
            }
            _ => debug!(number, "somebody else signed the audit chain"),
        }
        self.look().await?;
        Ok(Some(self.every.to_std()))
    }

    fn signer(&mut self) -> Result<&Signer, String> {
        if let Hand::File(file) = &self.hand {
            self.hand = Hand::Ready(key::kept(file)?);
        }
        match &self.hand {
            Hand::Ready(signer) => Ok(signer),
            Hand::File(_) => Err("there is no key".to_owned()),
        }
    }

    /// Says so when the chain turns out to be broken, or whole again, and notes it for others.
    async fn judge(&mut self, broken: Option<Break>, now: Time) -> Result<(), StoreError> {
        if self.broken != broken || anchor::broken(&*self.store).await?.is_some() != broken.is_some() {
            self.store.shelve(vec![anchor::note(broken.as_ref(), now)]).await?;
        }
        if self.broken != broken {
            match &broken {
                Some(broken) => error!(
                    block = broken.block,
                    what = broken.what,
                    "the audit chain does not hold, and is not signed: see `pombo audit verify`"
                ),
                None => info!("the audit chain holds again"),
            }
            self.broken = broken;
        }
        Ok(())
    }

    /// Adds to the file of copies what is missing there; what is wrong if a copy is there that the store does not have.
    /// A file that cannot be written holds up nothing else.
    async fn copy(&self, last: Option<&Anchor>) -> Result<Option<Break>, StoreError> {
        let Some(path) = self.copies.clone() else { return Ok(None) };
        let reaches = last.map_or(0, |last| last.sequence);
        let copied = match file::last(&path) {
            Ok(copied) => copied,
            Err(error) => {
                warn!(file = %path.display(), %error, "the copies of the audit's anchors cannot be read");
                return Ok(None);
            }
        };
        if copied > reaches {
            let what = "a copy of its anchor is kept elsewhere, and the store does not have it: records were cut off, or \
                        the store was set back";
            return Ok(Some(Break { block: copied - 1, what }));
        }
        let mut missing = Vec::new();
        let mut before = None;
        'all: loop {
            let docs = self.store.docs(anchor::before(before, AT_ONCE)).await?;
            for (number, anchor) in docs.iter().filter_map(anchor::read) {
                if anchor.sequence <= copied {
                    break 'all;
                }
                before = Some(number);
                missing.push(anchor);
            }
            if docs.len() < AT_ONCE {
                break;
            }
        }
        missing.reverse();
        if let Err(error) = file::append(&path, &missing) {
            warn!(file = %path.display(), %error, "the audit's anchors cannot be copied");
        }
        Ok(None)
    }
}
