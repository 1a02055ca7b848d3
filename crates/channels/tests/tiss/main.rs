//! The TISS channel against operators that behave, and operators that do not.

// A test that cannot be set up may as well stop where it stands.
#![allow(clippy::unwrap_used)]

mod answers;
mod attack;
mod fault;
mod forms;
mod operator;
#[path = "../parts/mod.rs"]
mod parts;
mod receiver;
mod settings;
mod tls;

use std::time::Duration;

use pombo_channels::tiss::{Tiss, TissSettings};
use pombo_channels::{Channel as _, Envelope};
use pombo_kernel::classify::{Meaning, Rules};
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::reply::{FaultKind, Receipt, Refusal, Reply};
use pombo_kernel::secret::Secret;
use pombo_kernel::time::Time;
use serde_json::json;

/// Longer than any test that works, shorter than anybody's patience.
const PATIENCE: Duration = Duration::from_secs(20);
/// 2025-01-31T13:20:30Z, which is 10:20:30 in São Paulo.
const ACCEPTED: Time = Time::from_millis(1_738_329_630_000);
const NAMESPACE: &str = "http://www.ans.gov.br/padroes/tiss/schemas";

fn settings(url: &str) -> TissSettings {
    TissSettings {
        url: Some(url.parse().unwrap()),
        registro_ans: Some("123456".to_owned()),
        provider: Some("0001".to_owned()),
        ..TissSettings::default()
    }
}

fn with_login(url: &str) -> TissSettings {
    TissSettings {
        login: Some("clinica".to_owned()),
        password: Some(Secret::new("senha-41")),
        ..settings(url)
    }
}

fn channel(url: &str) -> Tiss {
    Tiss::new(&settings(url)).unwrap()
}

fn envelope(xml: &str) -> Envelope {
    Envelope {
        id: MessageId::new(MessageKey::at(ACCEPTED), 7),
        idempotency_key: "k".to_owned(),
        now: Time::from_millis(ACCEPTED.millis() + 3_600_000),
        to: "amil".to_owned(),
        content: json!({ "xml": xml }).to_string(),
        reference: Some("CLM-001-7".to_owned()),
        signers: Vec::new(),
        trace: None,
    }
}

/// A lot with one guide, whose patient is João.
fn lot(number: &str) -> String {
    format!(
        "<ans:loteGuias><ans:numeroLote>{number}</ans:numeroLote><ans:guiasTISS><ans:guiaConsulta>\
         <ans:cabecalhoConsulta><ans:numeroGuiaPrestador>G-9</ans:numeroGuiaPrestador></ans:cabecalhoConsulta>\
         <ans:nome>João</ans:nome></ans:guiaConsulta></ans:guiasTISS></ans:loteGuias>"
    )
}

async fn send(channel: &Tiss, xml: &str) -> Reply {
    send_within(channel, xml, PATIENCE).await
}

async fn send_within(channel: &Tiss, xml: &str, deadline: Duration) -> Reply {
    let envelope = envelope(xml);
    tokio::time::timeout(PATIENCE, channel.send(&envelope, deadline)).await.expect("the deadline holds")
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

fn unreachable(reply: &Reply) -> (FaultKind, &str) {
    match reply {
        Reply::Unreachable(fault) => (fault.kind, &fault.text),
        other => panic!("not unreachable: {other:?}"),
    }
}

fn doubtful(reply: &Reply) -> FaultKind {
    match reply {
        Reply::Doubtful(fault) => fault.kind,
        other => panic!("not doubtful: {other:?}"),
    }
}

fn meaning(reply: &Reply) -> Meaning {
    Rules::for_kind(ChannelKind::Tiss, &[]).unwrap().classify(reply).unwrap()
}
