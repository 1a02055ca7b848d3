//! The Resend channel against its sandbox, and against servers that do not behave.

// A test that cannot be set up may as well stop where it stands.
#![allow(clippy::unwrap_used)]

mod batch;
mod errors;
mod fault;
#[path = "../parts/mod.rs"]
mod parts;
mod pretend;
mod receiver;
mod secrecy;
mod tls;
mod wire;

use std::time::Duration;

use pombo_channels::resend::{Resend, ResendSettings};
use pombo_channels::sandbox::resend::{Options, ResendSandbox};
use pombo_channels::{Channel as _, Envelope};
use pombo_kernel::classify::{Meaning, Rules};
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::reply::{FaultKind, Receipt, Refusal, Reply};
use pombo_kernel::secret::Secret;
use pombo_kernel::time::Time;

/// Longer than any test that works, shorter than anybody's patience.
const PATIENCE: Duration = Duration::from_secs(20);
/// A deadline that is meant to pass.
const SHORT: Duration = Duration::from_secs(2);
const NOW: Time = Time::from_millis(1_700_000_000_123);
const KEY: &str = "re_test_123";
const OI: &str = r#"{"subject":"Oi","text":"Olá"}"#;

fn envelope(key: &str, to: &str, content: &str) -> Envelope {
    Envelope {
        id: MessageId::new(MessageKey::at(NOW), 7),
        idempotency_key: key.to_owned(),
        now: NOW,
        to: to.to_owned(),
        content: content.to_owned(),
        reference: None,
        signers: Vec::new(),
        trace: None,
    }
}

fn settings(base_url: &str) -> ResendSettings {
    ResendSettings {
        base_url: base_url.parse().unwrap(),
        api_key: Some(Secret::new(KEY)),
        from: Some("Clínica <mail@clinic.example>".to_owned()),
        ..ResendSettings::default()
    }
}

fn channel(base_url: &str) -> Resend {
    Resend::new(&settings(base_url)).unwrap()
}

async fn sandbox(options: &Options) -> ResendSandbox {
    ResendSandbox::start("127.0.0.1:0".parse().unwrap(), options).await.unwrap()
}

/// A sandbox without a rate limit, and a channel to it.
async fn pair() -> (Resend, ResendSandbox) {
    let sandbox = sandbox(&Options { rate: 0, ..Options::default() }).await;
    (channel(&sandbox.url()), sandbox)
}

async fn send(channel: &Resend, key: &str, to: &str) -> Reply {
    send_within(channel, key, to, PATIENCE).await
}

async fn send_within(channel: &Resend, key: &str, to: &str, deadline: Duration) -> Reply {
    let envelope = envelope(key, to, OI);
    tokio::time::timeout(PATIENCE, channel.send(&envelope, deadline)).await.expect("the deadline holds")
}

fn meaning(reply: &Reply) -> Meaning {
    Rules::for_kind(ChannelKind::Resend, &[]).unwrap().classify(reply).unwrap()
}

fn accepted(reply: Reply) -> Receipt {
    match reply {
        Reply::Accepted(receipt) => receipt,
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
