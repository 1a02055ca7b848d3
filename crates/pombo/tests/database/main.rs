//! Real nodes, and what can come between them and their PostgreSQL: a network that is silent, cut or loses word,
//! transactions that meet others, and standbys that lag behind. And what they leave open there while they send.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod conflicts;
mod cut_off;
#[path = "../place/mod.rs"]
mod place;
mod sending;
mod standby;
mod unheard;
mod upgraded;

use std::time::Duration;

use pombo::client::{Client, ClientError, Payload, Refusal};
use serde_json::{Value, json};

use place::Place;

/// Far more than anything here takes; only what never comes reaches it.
const PATIENCE: Duration = Duration::from_secs(150);

/// Waits until it is so.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "{what}: that never came");
}

fn message(to: &str) -> Value {
    json!({"channel": "crm", "to": to, "content": {"body": 1}})
}

/// Hands a message in under a key; what came of it.
async fn offer(client: &Client, to: &str, key: &str) -> Result<Value, ClientError> {
    let payload = Payload { idempotency_key: Some(key.to_owned()), ..Payload::json(&message(to)) };
    client.post("/v1/messages", payload).await
}

fn id_of(message: &Value) -> String {
    message["id"].as_str().unwrap().to_owned()
}

/// Why a node says that it is not ready; none if it is.
async fn unready(place: &Place) -> Option<Box<Refusal>> {
    match place.client().get("/readyz").await {
        Ok(_) => None,
        Err(ClientError::Refused(refusal)) => Some(refusal),
        Err(error) => panic!("the node does not answer at all: {error}"),
    }
}
