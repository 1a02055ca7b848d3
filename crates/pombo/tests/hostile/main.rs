//! The real binary among others who mean it no good: providers, name servers, templates, and its own messages.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod giants;
mod hang;
mod memory;
mod names;
#[path = "../place/mod.rs"]
mod place;
mod poison;
mod provider;
mod templates;

use std::time::Duration;

use pombo::client::{Client, Payload};
use serde_json::{Value, json};

use place::Place;

/// A place with that configuration.
fn place(config: &str) -> Place {
    let place = Place::new();
    std::fs::write(place.folder.path().join("pombo.toml"), config).unwrap();
    place
}

async fn send(client: &Client, message: &Value) -> String {
    let answer = client.post("/v1/messages", Payload::json(message)).await.unwrap();
    answer["id"].as_str().unwrap().to_owned()
}

/// A message through the channel `crm`.
async fn send_to(client: &Client, url: &str) -> String {
    send(client, &json!({"channel": "crm", "to": url, "content": {"body": "oi"}})).await
}

/// Looks at the message until it is as wanted.
async fn follow(client: &Client, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..3_000 {
        let message = client.get(&format!("/v1/messages/{id}")).await.unwrap();
        if wanted(&message) {
            return message;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it never came to that: {}", client.get(&format!("/v1/messages/{id}")).await.unwrap());
}

fn ended(message: &Value) -> bool {
    matches!(message["state"].as_str(), Some("sent" | "failed"))
}

fn sent(message: &Value) -> bool {
    message["state"] == "sent"
}

/// The attempts of a message, each a failure of that category that was to pass.
fn failures<'a>(message: &'a Value, category: &str) -> &'a Vec<Value> {
    let attempts = message["attempts"].as_array().unwrap();
    for attempt in attempts {
        assert_eq!(attempt["verdict"], "transient", "{message}");
        assert_eq!(attempt["category"], category, "{message}");
    }
    attempts
}
