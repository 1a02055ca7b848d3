//! A channel of one's own: a pager service that is sometimes busy, and does not know every number.
//!
//! What is busy is tried again; what is unknown becomes a dead letter at once.
//!
//! ```sh
//! cargo run --example own_channel
//! ```
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::collections::HashSet;
use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pombo::{
    BoxFuture, Channel, Envelope, FailureReason, Handling, Options, Overrides, Pombo, Receipt, Refusal,
    Reply, Request, Span, State, Story, json,
};

/// The client of a pager service. This one only pretends.
#[derive(Debug, Default)]
struct Pager {
    seen: Mutex<HashSet<String>>,
}

impl Pager {
    /// One call of the service. It answers as HTTP services do.
    async fn page(&self, key: &str, number: &str, _text: &str) -> Result<String, (u16, &'static str)> {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if !number.starts_with('+') {
            return Err((422, "no such pager"));
        }
        let first = self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned());
        if first { Err((503, "all lines are busy")) } else { Ok(format!("page-{key}")) }
    }
}

/// One attempt, and what came of it. No retry, no decision: those are the engine's.
impl Channel for Pager {
    fn send<'a>(&'a self, envelope: &'a Envelope, _deadline: Duration) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            // The key is the same for every attempt, so a service that knows it never pages twice.
            match self.page(&envelope.idempotency_key, &envelope.to, &envelope.content).await {
                Ok(id) => Reply::Accepted(Receipt { provider_id: Some(id), ..Receipt::default() }),
                Err((status, text)) => {
                    Reply::Refused(Refusal { status: Some(status), text: text.into(), ..Refusal::default() })
                }
            }
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    run().await
}

/// Everything that this example shows.
pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let options = Options { data: folder.path().into(), ..Options::default() };
    let handling = Handling {
        // Three attempts, soon after one another, so that the example ends soon.
        retry: Overrides {
            delays: Some(vec![Span::from_millis(100), Span::from_millis(200)]),
            ..Overrides::default()
        },
        attempt_timeout: Span::from_secs(5),
        ..Handling::default()
    };
    let pombo = Pombo::start(options.channel_with("pager", Pager::default(), handling)).await?;

    let busy = page(&pombo, "+15550100").await?;
    if !matches!(busy.state, State::Sent { .. }) || busy.attempts.len() != 2 {
        return Err(format!("a busy pager is tried again: {busy:?}").into());
    }
    let unknown = page(&pombo, "the night nurse").await?;
    if !matches!(unknown.state, State::Failed { reason: FailureReason::PermanentError, .. }) {
        return Err(format!("an unknown pager is a dead letter: {unknown:?}").into());
    }
    pombo.stop(Duration::from_secs(10)).await?;
    Ok(())
}

/// Hands one message in and follows it to its end.
async fn page(pombo: &Pombo, number: &str) -> Result<Story, Box<dyn Error>> {
    let request = Request {
        channel: "pager".into(),
        to: number.into(),
        content: Some(json!({"text": "room 12"}).into()),
        ..Request::default()
    };
    let id = pombo.send(request).await?;
    let message = pombo.wait(id).await?.ok_or("the message is not there")?;
    println!("to {number}: {}", message.state.name());
    for attempt in &message.attempts {
        println!("  {}", attempt.explanation);
    }
    Ok(message)
}
