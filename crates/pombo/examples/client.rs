//! A client of a running server: hand a message in, read it, look at the dead letters, follow events.
//!
//! ```sh
//! POMBO_SERVER=http://127.0.0.1:7662 POMBO_API_KEY=… cargo run --example client
//! ```
#![allow(clippy::print_stdout, reason = "an example talks")]

use pombo::client::{Client, Payload};
use pombo::json;

pub(crate) async fn talk(server: &str, key: &str) -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::new(server, Some(key))?;

    let message = json!({
        "channel": "crm",
        "to": "https://crm.example/hook",
        "content": {"body": {"order": 1841}},
        "reference": "order-1841-rs",
    });
    let payload = Payload { idempotency_key: Some("order-1841-rs".into()), ..Payload::json(&message) };
    let created = client.post("/v1/messages", payload).await?;
    let id = created["id"].as_str().unwrap_or_default();
    println!("created {id}");

    let message = client.get(&format!("/v1/messages/{id}")).await?;
    println!("state {}", message["state"]);

    let page = client.get("/v1/dead-letters?limit=10").await?;
    println!("dead letters {}", page["items"].as_array().map_or(0, Vec::len));

    // Remember the last id, and hand it back after a break.
    let mut events = client.events("/v1/events?reference=order-1841-rs", Some(-1)).await?;
    while let Some(told) = events.next().await? {
        if let Some(event) = told.data {
            println!("event {event}");
            break;
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    talk(&std::env::var("POMBO_SERVER")?, &std::env::var("POMBO_API_KEY")?).await
}
