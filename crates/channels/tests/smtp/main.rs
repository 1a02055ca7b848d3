//! The SMTP channel against servers that behave, servers that do not, and Postfix.

// A test that cannot be set up may as well stop where it stands.
#![allow(clippy::unwrap_used)]

mod canary;
mod fault;
mod injection;
mod mails;
mod mx;
mod names;
#[path = "../parts/mod.rs"]
mod parts;
mod postfix;
mod replies;
mod reuse;
mod scripts;
mod server;
mod signed;
mod tls;

use std::time::Duration;

use pombo_channels::sandbox::smtp::{Options, SmtpSandbox};
use pombo_channels::smtp::{Smtp, SmtpSettings};
use pombo_channels::{Channel as _, Envelope};
use pombo_kernel::classify::{Meaning, Rules};
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::reply::{FaultKind, Receipt, Refusal, Reply};
use pombo_kernel::time::Time;

/// Longer than any test that works, shorter than anybody's patience.
const PATIENCE: Duration = Duration::from_secs(20);
const NOW: Time = Time::from_millis(1_700_000_000_123);
const PLAIN: &str = r#"{"subject":"Hello","text":"How are you?\n"}"#;

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

fn settings(url: &str) -> SmtpSettings {
    SmtpSettings {
        url: Some(url.parse().unwrap()),
        from: Some("Clinic <mail@clinic.example>".to_owned()),
        ..SmtpSettings::default()
    }
}

fn channel(url: &str) -> Smtp {
    Smtp::new(&settings(url)).unwrap()
}

/// A sandbox that keeps what it takes.
async fn sandbox() -> SmtpSandbox {
    sandbox_with(Options::default()).await
}

async fn sandbox_with(options: Options) -> SmtpSandbox {
    let options = Options { keep: true, ..options };
    SmtpSandbox::start("127.0.0.1:0".parse().unwrap(), &options).await.unwrap()
}

/// Sends a short mail with time to spare.
async fn send(channel: &Smtp, id: &str, to: &str) -> Reply {
    send_within(channel, id, to, PATIENCE).await
}

async fn send_within(channel: &Smtp, id: &str, to: &str, deadline: Duration) -> Reply {
    let envelope = envelope(id, to, PLAIN);
    tokio::time::timeout(PATIENCE, channel.send(&envelope, deadline)).await.expect("the deadline holds")
}

fn meaning(reply: &Reply) -> Meaning {
    Rules::for_kind(ChannelKind::Smtp, &[]).unwrap().classify(reply).expect("a failure")
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
