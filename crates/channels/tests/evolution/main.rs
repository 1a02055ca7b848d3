//! The Evolution channel against its sandbox, and against servers that do not behave.

// A test that cannot be set up may as well stop where it stands.
#![allow(clippy::unwrap_used)]

mod answers;
mod fault;
mod number;
#[path = "../parts/mod.rs"]
mod parts;
mod pretend;
mod probe;
mod receiver;
mod secrecy;
mod tls;
mod wire;

use std::time::Duration;

use pombo_channels::evolution::{Evolution, EvolutionSettings};
use pombo_channels::sandbox::evolution::{EvolutionSandbox, Options};
use pombo_channels::{Channel as _, Envelope};
use pombo_kernel::classify::{Rules, Verdict};
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::reply::{FaultKind, Refusal, Reply};
use pombo_kernel::secret::Secret;
use pombo_kernel::time::Time;

/// Longer than any test that works, shorter than anybody's patience.
const PATIENCE: Duration = Duration::from_secs(20);
/// A deadline that is meant to pass.
const SHORT: Duration = Duration::from_secs(2);
const NOW: Time = Time::from_millis(1_700_000_000_123);
const OI: &str = r#"{"text":"oi"}"#;

fn envelope(to: &str, content: &str) -> Envelope {
    Envelope {
        id: MessageId::new(MessageKey::at(NOW), 7),
        idempotency_key: "msg_test/1".to_owned(),
        now: NOW,
        to: to.to_owned(),
        content: content.to_owned(),
        reference: None,
        signers: Vec::new(),
        trace: None,
    }
}

fn settings(base_url: &str) -> EvolutionSettings {
    EvolutionSettings {
        base_url: Some(base_url.parse().unwrap()),
        instance: Some("sandbox".to_owned()),
        api_key: Some(Secret::new("sandbox")),
        ..EvolutionSettings::default()
    }
}

fn channel(base_url: &str) -> Evolution {
    Evolution::new(&settings(base_url)).unwrap()
}

async fn sandbox() -> EvolutionSandbox {
    sandbox_with(Options::default()).await
}

async fn sandbox_with(options: Options) -> EvolutionSandbox {
    EvolutionSandbox::start("127.0.0.1:0".parse().unwrap(), options).await.unwrap()
}

async fn send(channel: &Evolution, to: &str) -> Reply {
    send_within(channel, to, OI, PATIENCE).await
}

async fn send_within(channel: &Evolution, to: &str, content: &str, deadline: Duration) -> Reply {
    let envelope = envelope(to, content);
    tokio::time::timeout(PATIENCE, channel.send(&envelope, deadline)).await.expect("the deadline holds")
}

/// What the built-in rules make of it.
fn meaning(reply: &Reply) -> (Verdict, String) {
    let seen = Rules::for_kind(ChannelKind::Evolution, &[]).unwrap().classify(reply).expect("a failure");
    (seen.verdict, seen.category)
}

/// The id by which receipts will speak of it.
fn accepted(reply: &Reply) -> String {
    match reply {
        Reply::Accepted(receipt) => receipt.provider_id.clone().expect("a success has an id"),
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
