//! Doors in the manner of other systems.

mod evolution;
mod hostile;
mod resend;
mod supabase;

use std::sync::Arc;

use axum::body::Body;
use pombo_kernel::backoff::Wait;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{Attempt, AttemptOutcome, FailureReason, Progress};
use pombo_kernel::reply::Receipt;
use pombo_kernel::setup::{ChannelSetup, Destination, Setup};
use pombo_kernel::time::Span;
use pombo_store::{Ask, Claimed, NodeId, Settlement, Store};
use pombo_web::Patience;
use serde_json::Value;

use crate::house::{House, NOW, Reply, key, request, setup};

/// A house with a channel of each kind that applications send through in a manner that they know.
fn furnished(channels: &[(&str, ChannelKind, &str)]) -> Setup {
    let mut setup = setup();
    for (name, kind, tenant) in channels {
        let destination = match kind {
            ChannelKind::Evolution => Destination::Fixed(format!("{name}-instance").into()),
            _ => Destination::Sender { default: "clinic.example".into() },
        };
        let channel = ChannelSetup {
            name: name.parse().unwrap(),
            kind: *kind,
            tenant: tenant.parse().unwrap(),
            destination,
            ..(**setup.channels.values().next().unwrap()).clone()
        };
        setup.channels.insert(channel.name.clone(), Arc::new(channel));
    }
    setup
}

async fn house(channels: &[(&str, ChannelKind, &str)]) -> House {
    House::with(furnished(channels), Patience::default()).await
}

async fn with_resend() -> House {
    house(&[("post", ChannelKind::Resend, "default"), ("their-post", ChannelKind::Resend, "other")]).await
}

async fn with_smtp() -> House {
    house(&[("relay", ChannelKind::Smtp, "default")]).await
}

async fn call(
    house: &House,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: impl Into<Body>,
) -> Reply {
    let mut call = request(method, path);
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        call = call.header("content-type", "application/json");
    }
    for (name, value) in headers {
        call = call.header(*name, *value);
    }
    house.send_elsewhere(call.body(body.into()).unwrap()).await
}

const PRODUCER: (&str, &str) = ("authorization", "Bearer key-producer");
const VIEWER: (&str, &str) = ("authorization", "Bearer key-viewer");
const FOREIGN: (&str, &str) = ("authorization", "Bearer key-foreign");

/// Every message that is stored, with what it says, the oldest first.
async fn messages(house: &House) -> Vec<Value> {
    let mut items = house.get("/v1/messages?limit=500").await.json()["items"].as_array().unwrap().clone();
    items.reverse();
    items
}

async fn claimed(house: &House, max: usize) -> Vec<Claimed> {
    let ask = Ask { node: NodeId(1), lane: "default".parse().unwrap(), max, rates: Arc::default() };
    house.store.claim(ask).await.unwrap()
}

fn settlement(claimed: &Claimed, next: Next) -> Settlement {
    let (outcome, finished) = match &next {
        Next::Sent(_) => (AttemptOutcome::Sent, true),
        Next::Failed(_) => (AttemptOutcome::Failed, true),
        _ => (AttemptOutcome::Retry, false),
    };
    let attempt = Attempt {
        round: 0,
        number: 1,
        started_at: NOW,
        finished_at: NOW,
        outcome,
        failure: None,
        next_delay: None,
        explanation: if finished { "ended" } else { "goes on" }.to_owned(),
        policy: None,
    };
    Settlement {
        key: claimed.key,
        attempt,
        next,
        progress: Progress { attempts: 1, steps: claimed.progress.steps + 1, ..Progress::default() },
        block: Default::default(),
        vitals: Default::default(),
        reported: false,
        chance: 0,
    }
}

fn sent() -> Next {
    Next::Sent(Receipt { provider_id: Some("p-1".into()), ..Receipt::default() })
}

fn later() -> Next {
    let delay = Span::from_secs(5);
    Next::Retry { due: NOW + delay, wait: Wait { delay, nominal: delay, swing: 0.0, hinted: false } }
}

fn failed() -> Next {
    Next::Failed(FailureReason::PermanentError)
}
