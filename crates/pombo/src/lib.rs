//! Pombo: a durable outbound delivery engine, to embed in a program of your own.
//!
//! Hand it a message, and it delivers it, or says plainly that it could not and why. Accepted means on disk: what
//! [`Pombo::send`] has answered survives a crash and a power cut. Attempts that fail are retried by policy; what
//! cannot be delivered ends as a dead letter with its reason and every attempt on record.
//!
//! A program starts an engine with [`Options`], hands messages in with [`Pombo::send`], and follows one with
//! [`Pombo::wait`] or [`Pombo::message`]. WhatsApp, e-mail, claims and webhooks are built in. Any other outlet is
//! a type that implements [`Channel`]: it makes one attempt and reports what it saw ([`Reply`]); deciding what that means, waiting and
//! trying again is the engine's work.
//!
//! ```
//! use std::time::Duration;
//!
//! use pombo::{BoxFuture, Channel, Envelope, Options, Pombo, Receipt, Reply, Request, StateName, json};
//!
//! /// Writes to the terminal instead of sending.
//! #[derive(Debug)]
//! struct Terminal;
//!
//! impl Channel for Terminal {
//!     fn send<'a>(&'a self, envelope: &'a Envelope, _deadline: Duration) -> BoxFuture<'a, Reply> {
//!         Box::pin(async move {
//!             println!("to {}: {}", envelope.to, envelope.content);
//!             Reply::Accepted(Receipt::default())
//!         })
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let options = Options { data: folder.path().into(), ..Options::default() };
//! let pombo = Pombo::start(options.channel("terminal", Terminal)).await?;
//!
//! let request = Request {
//!     channel: "terminal".into(),
//!     to: "ana".into(),
//!     content: Some(json!({"text": "bom dia"}).into()),
//!     ..Request::default()
//! };
//! let id = pombo.send(request).await?;
//! let message = pombo.wait(id).await?.expect("it was accepted");
//! assert_eq!(message.state.name(), StateName::Sent);
//! assert_eq!(message.attempts.len(), 1);
//!
//! pombo.stop(Duration::from_secs(10)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! The engine logs through [`tracing`](https://docs.rs/tracing), prints nothing and reads no environment.

#![warn(missing_docs)]

mod alerts;
mod anchors;
mod bench;
#[cfg(test)]
mod by_hand;
mod camunda;
#[doc(hidden)]
pub mod cli;
#[doc(hidden)]
pub mod client;
#[doc(hidden)]
pub mod clock;
mod conductor;
#[doc(hidden)]
pub mod config;
mod demo;
mod digests;
mod doctor;
mod embed;
mod eraser;
mod fanout;
mod follower;
mod inbox;
mod keeper;
mod learner;
#[doc(hidden)]
pub mod log;
mod meter;
#[doc(hidden)]
pub mod node;
mod notices;
mod operations;
mod providers;
mod reports;
mod reserve;
mod rounds;
mod submission;
mod suppressor;
#[doc(hidden)]
pub mod templates;
mod traces;

pub use self::config::{Problem as OptionsProblem, Problems as OptionsProblems};
pub use self::embed::{Door, Handling, Options, OwnChannel, Pombo, SendError, StartError, TemplateError};

// What is sent, and what became of it.
#[doc(inline)]
pub use pombo_kernel::{
    id::MessageId,
    message::{Attempt, AttemptFailure, AttemptOutcome, FailureReason, Json, State, StateName},
    policy::Overrides,
    request::{Problem, Request},
    template::Template,
    time::{Span, Time},
};
#[doc(inline)]
pub use pombo_store::{Cancelled, StoreError, Story, postgres::Target as Database};

// What a channel of one's own is made of.
#[doc(inline)]
pub use pombo_channels::{BoxFuture, Channel, Envelope};
#[doc(inline)]
pub use pombo_kernel::{
    classify::{OneOf, Rule, Scope, Verdict},
    lifecycle::OnUnknownOutcome,
    reply::{Fault, FaultKind, Receipt, Refusal, Reply, Stage},
};

/// Writes a JSON value; `.into()` makes a [`Json`] of it.
pub use serde_json::json;
