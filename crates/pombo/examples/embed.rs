//! The engine inside a program: hand a webhook in, and wait until it is delivered.
//!
//! ```sh
//! cargo run --example embed
//! ```
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use pombo::{Options, Pombo, Request, State, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    run().await
}

/// Everything that this example shows.
pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let receiver = receiver()?;

    // A real program keeps its folder: what was accepted and not yet sent is sent after the next start.
    let folder = tempfile::tempdir()?;
    let pombo = Pombo::start(Options {
        data: folder.path().into(),
        // Private addresses are closed unless a channel opens them.
        config: "[channels.crm]\nkind = \"webhook\"\nallow_private = true\n".into(),
        ..Options::default()
    })
    .await?;

    let id = pombo
        .send(Request {
            channel: "crm".into(),
            to: receiver,
            content: Some(json!({"body": {"order": 1841, "state": "paid"}}).into()),
            // Were the program to ask twice, it would get the same message.
            idempotency_key: Some("order-1841-paid".into()),
            ..Request::default()
        })
        .await?;
    println!("{id} is on disk");

    let message = pombo.wait(id).await?.ok_or("the message is not there")?;
    for attempt in &message.attempts {
        println!("{}", attempt.explanation);
    }
    match &message.state {
        State::Sent { at, .. } => println!("delivered at {at}"),
        other => return Err(format!("not delivered: {other:?}").into()),
    }
    pombo.stop(Duration::from_secs(10)).await?;
    Ok(())
}

/// Somebody to deliver to: takes one request, answers 200, and says where it listens.
fn receiver() -> Result<String, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/hook", listener.local_addr()?);
    std::thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        let mut request = [0; 4096];
        let length = stream.read(&mut request)?;
        println!("received: {}", String::from_utf8_lossy(&request[..length]).lines().last().unwrap_or(""));
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    });
    Ok(url)
}
