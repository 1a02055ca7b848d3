//! The demonstration: a whole node against pretend receivers with faults, without file or credential.
//!
//! Every receiver is the same sandbox behind a name of its own, so that holds and pauses of one leave the
//! others alone, as they would between real hosts.

pub(crate) mod story;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use pombo_channels::resolve::Resolver;
use pombo_channels::sandbox::{Options, Sandbox};
use pombo_channels::webhook::Webhook;
use pombo_kernel::dice::Dice;
use pombo_kernel::name::ChannelName;
use serde_json::{Value, json};

use crate::cli::Trouble;
use crate::client::{Client, Payload};
use crate::clock;
use crate::config::channel::Settings;
use crate::config::{Config, Environment, Source};
use crate::node::{self, Node, Parts};

/// The demonstration's configuration: what a real one would be, in a hurry.
const CONFIG: &str = r#"
profile = "development"
[channels.webhook]
kind = "webhook"
allow_private = true
attempt_timeout = "2s"
[channels.webhook.retry]
attempts = 4
base = "700ms"
cap = "10s"
jitter = 0.25
"#;

const CHANNEL: &str = "webhook";

/// A receiver of the demonstration.
pub(crate) struct Receiver {
    pub(crate) host: &'static str,
    path: &'static str,
    /// How it behaves, in a few words.
    pub(crate) about: &'static str,
    /// Its share of the messages.
    weight: u64,
    /// What is sent to it.
    matter: &'static str,
}

pub(crate) const RECEIVERS: [Receiver; 9] = [
    receiver("shop.example", "/ok", "takes everything", 40, "order"),
    receiver("crm.example", "/flaky?fail=2", "fails twice, then takes it", 14, "customer"),
    receiver("stock.example", "/slow?ms=900", "takes its time", 10, "stock level"),
    receiver("mail.example", "/random?ok=60", "takes six in ten", 14, "newsletter"),
    receiver("bank.example", "/status/401", "does not know our key: a fault of ours", 4, "transfer"),
    receiver("maps.example", "/rate?retry_after=2", "says 429, come back in 2 s", 4, "address"),
    receiver("typo.example", "/status/404", "does not exist there", 5, "invoice"),
    receiver("retired.example", "/gone", "is gone for good", 4, "report"),
    receiver("down.example", "/status/503", "is down all day", 5, "parcel"),
];

const fn receiver(
    host: &'static str,
    path: &'static str,
    about: &'static str,
    weight: u64,
    matter: &'static str,
) -> Receiver {
    Receiver { host, path, about, weight, matter }
}

/// Everything that runs during a demonstration.
pub(crate) struct Stage {
    pub(crate) node: Node,
    /// An admin key of its own, good for this node.
    pub(crate) key: String,
    sandbox: Sandbox,
    client: Client,
    dice: Dice,
    sent_in: usize,
}

impl Stage {
    /// Starts receivers and node. An address that is taken is no reason to fail: any other will do.
    pub(crate) async fn start(data: &Path, listen: SocketAddr) -> Result<Stage, Trouble> {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let options = Options { seed: clock::seed(), ..Options::default() };
        let sandbox = Sandbox::start(local, &options).await.map_err(|error| {
            Trouble::new("the pretend receivers cannot start", "ADDRESS_UNAVAILABLE").why(error)
        })?;
        let config = Config::parse(CONFIG, Source::default(), &Environment::default())?;
        let channels = channels(&config, sandbox.address)?;
        let opened = node::open(data).await?;
        let key = format!("pombo_demo_{:016x}{:016x}", clock::seed(), clock::seed());
        opened.admin_key(Some(&key)).await?;
        let free = tokio::net::TcpListener::bind(listen).await.is_ok();
        let listen = if free { listen } else { SocketAddr::new(listen.ip(), 0) };
        let parts = Parts { config, channels, listen, lanes: Vec::new() };
        let node = opened.start(parts).await?;
        let client = Client::new(&node.url(), Some(&key))?;
        Ok(Stage { node, key, sandbox, client, dice: Dice::seeded(clock::seed()), sent_in: 0 })
    }

    /// Hands one message in at the front door, as a producer would. First one to each receiver, then by chance.
    pub(crate) async fn produce(&mut self) -> Result<(), Trouble> {
        let receiver = self.pick();
        self.sent_in += 1;
        let number = self.sent_in;
        let request = request(receiver, number);
        self.client.post("/v1/messages", Payload::json(&request)).await?;
        Ok(())
    }

    fn pick(&mut self) -> &'static Receiver {
        // The quiet one comes first and between, so that a fault stands out.
        if let Some(receiver) = RECEIVERS.get(self.sent_in) {
            return receiver;
        }
        let total = RECEIVERS.iter().map(|receiver| receiver.weight).sum();
        let mut roll = self.dice.below(total);
        let chosen = RECEIVERS.iter().find(|receiver| match roll.checked_sub(receiver.weight) {
            Some(rest) => {
                roll = rest;
                false
            }
            None => true,
        });
        chosen.unwrap_or(&RECEIVERS[0])
    }

    /// Milliseconds until the next message.
    pub(crate) fn pause_ms(&mut self) -> u64 {
        250 + self.dice.below(500)
    }

    /// Ends everything; what is under way has two seconds.
    pub(crate) async fn stop(self) -> Result<(), Trouble> {
        let stopped = self.node.stop(std::time::Duration::from_secs(2)).await;
        self.sandbox.stop().await;
        Ok(stopped?)
    }
}

fn request(receiver: &Receiver, number: usize) -> Value {
    let matter = receiver.matter;
    json!({
        "channel": CHANNEL,
        "to": format!("http://{}{}", receiver.host, receiver.path),
        "type": "execute_side_effect",
        "content": {"body": {"type": format!("{}.changed", matter.replace(' ', "_")), "number": number}},
        "reference": format!("{matter} {number}"),
    })
}

/// The configured channels, with the receivers' names leading to the sandbox.
fn channels(config: &Config, sandbox: SocketAddr) -> Result<pombo_engine::shell::Channels, Trouble> {
    let mut channels: BTreeMap<ChannelName, Arc<dyn pombo_channels::Channel>> = config.channels()?;
    for (name, channel) in &config.channels {
        let Settings::Webhook(settings) = &channel.settings else { continue };
        let known = RECEIVERS.map(|receiver| receiver.host);
        let resolver = Resolver::new(move |host: String, port| {
            Box::pin(async move {
                match known.contains(&host.as_str()) {
                    true => Ok(vec![sandbox]),
                    false => Ok(tokio::net::lookup_host((host, port)).await?.collect()),
                }
            })
        });
        let webhook = Webhook::with_resolver(settings, resolver).map_err(|problems| {
            Trouble::new("the channel cannot be set up", "INTERNAL").why(format!("{problems:?}"))
        })?;
        channels.insert(name.clone(), Arc::new(webhook));
    }
    Ok(channels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pombo_kernel::time::Time;

    #[test]
    fn the_demonstration_is_a_valid_configuration_and_its_messages_are_accepted() {
        let config = Config::parse(CONFIG, Source::default(), &Environment::default()).unwrap();
        let setup = config.setup();
        for (number, receiver) in RECEIVERS.iter().enumerate() {
            let text = request(receiver, number).to_string();
            let drafted =
                setup.draft_json(text.as_bytes(), &"default".parse().unwrap(), Time::from_millis(0));
            let draft = drafted.unwrap().draft;
            assert_eq!(draft.queue.destination.as_ref(), receiver.host);
        }
    }
}
