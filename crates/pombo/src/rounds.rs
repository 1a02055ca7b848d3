//! Rounds over documents that are due, one piece of each at a time, for as long as the store is open.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use pombo_kernel::time::{Clock, Span, Time};
use pombo_store::shelf::{Doc, Pick, Shelf, Wanted};
use pombo_store::{Store, StoreError};
use tracing::{debug, warn};

/// Documents that are looked at together.
const AT_ONCE: usize = 64;
/// However much is committed, the shelf is asked this often at most while nothing is under way.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// A commit wakes this, and due times are known; this is for what nobody has thought of.
const LOOK_ANYWAY: Duration = Duration::from_secs(30);
/// How long to wait when the store cannot be used.
const TROUBLE: Span = Span::from_secs(1);

/// Somebody who sees to the documents of one shelf.
pub(crate) trait Rounds: Send + Sized {
    const SHELF: Shelf;

    fn store(&self) -> &Arc<dyn Store>;

    fn clock(&self) -> &dyn Clock;

    /// Does one piece of what a document asks for, if that is due; when to look again, if that is known.
    fn piece(&mut self, doc: &Doc) -> impl Future<Output = Result<Option<Time>, StoreError>> + Send;

    /// Does one piece for every document that is due; when to look again, if that is known.
    ///
    /// A document that cannot be seen to keeps no other from its turn, and is looked at again soon.
    fn round(&mut self) -> impl Future<Output = Result<Option<Time>, StoreError>> + Send {
        async {
            let now = self.clock().now();
            let mut wake: Option<Time> = None;
            let (mut after, mut done, mut trouble) = (None, false, None);
            loop {
                let pick = Pick::Due { from: Time::default(), until: Time::MAX, after };
                let wanted = Wanted { shelf: Self::SHELF, tenant: None, pick, limit: AT_ONCE };
                let docs = self.store().docs(wanted).await?;
                for doc in &docs {
                    let next = match self.piece(doc).await {
                        Ok(next) => {
                            done = true;
                            next
                        }
                        Err(error @ (StoreError::Closed | StoreError::Broken(_))) => return Err(error),
                        Err(error) => {
                            trouble = Some(error);
                            Some(now + TROUBLE)
                        }
                    };
                    wake = [wake, next].into_iter().flatten().min();
                }
                after = match docs.last().map(|last| (last.leaf.due, last.id.clone())) {
                    Some((Some(due), id)) if docs.len() == AT_ONCE && due <= now => Some((due, id)),
                    _ => break,
                };
            }
            match trouble {
                None => Ok(wake),
                Some(error) if !done => Err(error),
                Some(error) => {
                    warn!(%error, shelf = ?Self::SHELF, "something that is due waits; the rest had its turn");
                    Ok(wake)
                }
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
                    Err(error @ (StoreError::Closed | StoreError::Broken(_))) => {
                        return crate::follower::stopped(&format!("{:?}", Self::SHELF), &error);
                    }
                    Err(error) => {
                        match error {
                            StoreError::TooLong => warn!(%error, shelf = ?Self::SHELF, "what is due waits"),
                            _ => debug!(%error, shelf = ?Self::SHELF, "what is due waits"),
                        }
                        tokio::time::sleep(TROUBLE.to_std()).await;
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

#[cfg(test)]
mod tests {
    use pombo_kernel::dice::Dice;
    use pombo_kernel::name::Tenant;
    use pombo_store::memory::Memory;
    use pombo_store::shelf::{Expect, Leaf, Shelve};
    use pombo_store::shell::Shell;

    use super::*;

    const T0: Time = Time::from_millis(1_800_000_000_000);

    #[derive(Debug)]
    struct Still;

    impl Clock for Still {
        fn now(&self) -> Time {
            T0
        }
    }

    /// Sees to documents until one of these names comes, which meets that trouble.
    struct Work {
        store: Arc<dyn Store>,
        bad: &'static [&'static str],
        error: StoreError,
        seen: Vec<String>,
    }

    impl Work {
        async fn new(bad: &'static [&'static str], error: StoreError) -> Work {
            let memory = Memory::new(Dice::seeded(1));
            let store = Shell::start(memory, Arc::new(Still), Box::new(|| [7; 32])).unwrap();
            let wishes = ["a", "b", "c"].map(|id| Shelve {
                shelf: Shelf::Operation,
                tenant: Tenant::default(),
                id: id.to_owned(),
                expect: Expect::Nothing,
                leaf: Some(Leaf { order: 0, topic: None, due: Some(T0), body: "{}".to_owned() }),
                record: None,
            });
            store.shelve(wishes.into()).await.unwrap();
            Work { store: Arc::new(store), bad, error, seen: Vec::new() }
        }
    }

    impl Rounds for Work {
        const SHELF: Shelf = Shelf::Operation;

        fn store(&self) -> &Arc<dyn Store> {
            &self.store
        }

        fn clock(&self) -> &dyn Clock {
            &Still
        }

        async fn piece(&mut self, doc: &Doc) -> Result<Option<Time>, StoreError> {
            self.seen.push(doc.id.clone());
            if self.bad.contains(&doc.id.as_str()) { Err(self.error.clone()) } else { Ok(None) }
        }
    }

    #[tokio::test]
    async fn a_document_that_cannot_be_seen_to_keeps_no_other_from_its_turn() {
        let mut work = Work::new(&["a"], StoreError::Again("busy".into())).await;
        assert_eq!(work.round().await.unwrap(), Some(T0 + TROUBLE), "it is looked at again soon");
        assert_eq!(work.seen, ["a", "b", "c"]);
    }

    #[tokio::test]
    async fn a_round_fails_if_every_document_does_or_the_store_has_ended() {
        let error = StoreError::Unavailable("full".into());
        let mut work = Work::new(&["a", "b", "c"], error.clone()).await;
        assert_eq!(work.round().await, Err(error));
        assert_eq!(work.seen.len(), 3);
        for error in [StoreError::Closed, StoreError::Broken("lost".into())] {
            let mut work = Work::new(&["b"], error.clone()).await;
            assert_eq!(work.round().await, Err(error));
            assert_eq!(work.seen, ["a", "b"]);
        }
    }
}
