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

use pombo::client::Client;
use serde_json::{Value, json};

use place::{Place, ended, follow, send};

/// A place with that configuration.
fn place(config: &str) -> Place {
    let place = Place::new();
    std::fs::write(place.folder.path().join("pombo.toml"), config).unwrap();
    place
}

/// A message through the channel `crm`.
async fn send_to(client: &Client, url: &str) -> String {
    send(client, &json!({"channel": "crm", "to": url, "content": {"body": "oi"}})).await
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
