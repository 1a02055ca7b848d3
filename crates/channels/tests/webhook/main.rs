//! The webhook channel against receivers that behave, and receivers that do not.

// A test that cannot be set up may as well stop where it stands.
#![allow(clippy::unwrap_used)]

mod address;
mod fault;
#[path = "../parts/mod.rs"]
mod parts;
mod receiver;
mod reuse;
mod scripts;
mod tls;
mod wire;

use std::time::Duration;

use pombo_channels::resolve::Resolver;
use pombo_channels::sandbox::{Options, Sandbox};
use pombo_channels::webhook::{Webhook, WebhookSettings};
use pombo_channels::{Channel as _, Envelope};
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::reply::{FaultKind, Refusal, Reply};
use pombo_kernel::time::Time;

/// Longer than any test that works, shorter than anybody's patience.
const PATIENCE: Duration = Duration::from_secs(20);
const NOW: Time = Time::from_millis(1_700_000_000_123);

fn envelope(id: &str, to: &str, content: &str) -> Envelope {
    Envelope {
        id: MessageId::new(MessageKey::at(NOW), 7),
        idempotency_key: id.to_owned(),
        now: NOW,
        to: to.to_owned(),
        content: content.to_owned(),
        reference: None,
        signers: Vec::new(),
        trace: None,
    }
}

fn settings() -> WebhookSettings {
    WebhookSettings { allow_private: true, ..WebhookSettings::default() }
}

fn channel() -> Webhook {
    Webhook::new(&settings()).unwrap()
}

/// A channel for which every name leads to these addresses.
fn channel_where_names_lead_to(settings: &WebhookSettings, addresses: &[&str]) -> Webhook {
    let addresses: Vec<_> = addresses.iter().map(|text| text.parse().unwrap()).collect();
    let resolver = Resolver::new(move |_, _| {
        let addresses = addresses.clone();
        Box::pin(async move { Ok(addresses) })
    });
    Webhook::with_resolver(settings, resolver).unwrap()
}

async fn sandbox() -> Sandbox {
    sandbox_with(&Options::default()).await
}

async fn sandbox_with(options: &Options) -> Sandbox {
    Sandbox::start("127.0.0.1:0".parse().unwrap(), options).await.unwrap()
}

/// Sends `{"a":1}` with time to spare.
async fn send(channel: &Webhook, id: &str, to: &str) -> Reply {
    send_within(channel, id, to, PATIENCE).await
}

async fn send_within(channel: &Webhook, id: &str, to: &str, deadline: Duration) -> Reply {
    let envelope = envelope(id, to, r#"{"body":{"a":1}}"#);
    tokio::time::timeout(PATIENCE, channel.send(&envelope, deadline)).await.expect("the deadline holds")
}

fn accepted(reply: &Reply) -> Option<u16> {
    match reply {
        Reply::Accepted(receipt) => receipt.code,
        other => panic!("not accepted: {other:?}"),
    }
}

fn refused(reply: Reply) -> Refusal {
    match reply {
        Reply::Refused(refusal) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

fn unreachable(reply: &Reply) -> FaultKind {
    match reply {
        Reply::Unreachable(fault) => fault.kind,
        other => panic!("not unreachable: {other:?}"),
    }
}

fn doubtful(reply: &Reply) -> FaultKind {
    match reply {
        Reply::Doubtful(fault) => fault.kind,
        other => panic!("not doubtful: {other:?}"),
    }
}
