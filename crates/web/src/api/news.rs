//! Waiting for what somebody else does.

use std::time::Duration;

use tokio::sync::watch;

use crate::Door;
use crate::problem::Problem;

/// Others write, too: how long after a commit it is looked again, and when in any case.
const SETTLING: Duration = Duration::from_millis(20);
const LOOK_ANYWAY: Duration = Duration::from_secs(1);

/// Says when it is worth another look at the store.
pub(super) struct News(watch::Receiver<u64>);

impl News {
    pub(super) fn of(door: &Door) -> News {
        News(door.store().watch())
    }

    /// To be called before each look: what happens from now on is news.
    pub(super) fn mark(&mut self) {
        self.0.mark_unchanged();
    }

    /// Waits until something has happened since the mark, or a while.
    pub(super) async fn next(&mut self) -> Result<(), Problem> {
        tokio::select! {
            () = tokio::time::sleep(LOOK_ANYWAY) => Ok(()),
            changed = self.0.changed() => match changed {
                Ok(()) => {
                    tokio::time::sleep(SETTLING).await;
                    Ok(())
                }
                Err(_) => Err(Problem::shutting_down()),
            },
        }
    }
}
