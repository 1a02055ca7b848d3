//! One attempt at one provider: facts in, facts out.
//!
//! A channel never retries, never follows a redirect, and never decides what a failure means for the message.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use pombo_kernel::id::MessageId;
use pombo_kernel::reply::{Fault, Reply};
use pombo_kernel::time::Time;

mod client;
pub mod guard;
mod line;
pub mod null;
mod pool;
pub mod resolve;
pub mod sandbox;
pub mod secret;
pub mod signature;
pub mod webhook;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One message, ready for one attempt.
#[derive(Clone)]
pub struct Envelope {
    pub id: MessageId,
    /// The key for providers that recognise a repeat: the same for every attempt of one round.
    pub idempotency_key: String,
    /// When this attempt starts.
    pub now: Time,
    pub to: String,
    /// The content for the channel's kind, as the JSON text that was accepted.
    pub content: String,
}

/// Leaves out whom it is for and what it says.
impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Envelope").field("id", &self.id).field("now", &self.now).finish_non_exhaustive()
    }
}

/// An outlet. A user of the library registers one of their own through the same trait.
pub trait Channel: Send + Sync + fmt::Debug {
    /// Tries once and says what happened, within `deadline` in all.
    fn send<'a>(&'a self, envelope: &'a Envelope, deadline: Duration) -> BoxFuture<'a, Reply>;

    /// Whether the provider is there and knows us, without sending anything.
    ///
    /// `Ok(None)` where the provider offers no way to ask.
    fn probe(&self, deadline: Duration) -> BoxFuture<'_, Result<Option<String>, Fault>> {
        let _ = deadline;
        Box::pin(async { Ok(None) })
    }
}
