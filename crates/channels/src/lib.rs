//! One attempt at one provider: facts in, facts out.
//!
//! A channel never retries, never follows a redirect, and never decides what a failure means for the message.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use pombo_kernel::id::MessageId;
use pombo_kernel::reply::Reply;
use pombo_kernel::signature::SigningKey;
use pombo_kernel::time::Time;
use pombo_kernel::trace::Context;

mod answer;
pub mod client;
pub mod evolution;
pub use pombo_kernel::guard;
mod line;
pub mod null;
mod pool;
pub mod resend;
pub mod resolve;
pub mod sandbox;
pub mod smtp;
pub mod tiss;
mod trace;
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
    /// The content for the channel's kind, as the JSON text that was accepted or rendered.
    pub content: String,
    /// The caller's own id for it; for a claim, the claim's.
    pub reference: Option<String>,
    /// Who signs it, where the channel signs and these are meant instead of its own.
    pub signers: Vec<SigningKey>,
    /// The trace that this attempt belongs to, for providers that take part in it.
    pub trace: Option<Context>,
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

    /// How the provider is, without sending anything.
    fn probe(&self, deadline: Duration) -> BoxFuture<'_, Health> {
        let _ = deadline;
        Box::pin(async { Health::Unknown })
    }
}

/// What a provider says when it is asked how it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It offers no way to ask.
    Unknown,
    /// It is there; whether it would take our messages is not said. In a few words, what it answered.
    Reachable(String),
    /// It is there, it knows us, and it can send.
    Ready(String),
    /// It is not well, or does not know us. The reply is classified like that of a message.
    Sick(Reply),
}
