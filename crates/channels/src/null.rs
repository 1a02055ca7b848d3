//! A channel that takes everything and keeps nothing, for measuring all the rest.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pombo_kernel::reply::{Receipt, Reply};

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
}

#[cfg(test)]
mod tests {
    use super::*;
    use pombo_kernel::id::{MessageId, MessageKey};
    use pombo_kernel::time::Time;

    #[tokio::test]
    async fn it_takes_everything_and_counts() {
        let null = Null::default();
        let envelope = Envelope {
            id: MessageId::new(MessageKey(1), 1),
            idempotency_key: String::new(),
            now: Time::default(),
            to: "canary".to_owned(),
            content: "canary".to_owned(),
            reference: Some("canary".to_owned()),
            signers: Vec::new(),
            trace: None,
        };
        for _ in 0..3 {
            let reply = null.send(&envelope, Duration::ZERO).await;
            assert_eq!(reply, Reply::Accepted(Receipt::default()));
        }
        assert_eq!(null.accepted(), 3);
        assert!(!format!("{envelope:?}").contains("canary"));
    }
}
