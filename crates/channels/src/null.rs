//! A channel that takes everything and keeps nothing, for measuring all the rest.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pombo_kernel::reply::{Fault, Receipt, Reply};

use crate::{BoxFuture, Channel, Envelope};

#[derive(Debug, Default)]
pub struct Null {
    accepted: AtomicU64,
}

impl Null {
    /// How many messages it has taken since it was made.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }
}

impl Channel for Null {
    fn send<'a>(&'a self, _: &'a Envelope, _: Duration) -> BoxFuture<'a, Reply> {
        Box::pin(async {
            self.accepted.fetch_add(1, Ordering::Relaxed);
            Reply::Accepted(Receipt::default())
        })
    }

    fn probe(&self, _: Duration) -> BoxFuture<'_, Result<Option<String>, Fault>> {
        Box::pin(async { Ok(Some("takes everything".to_owned())) })
    }
}
