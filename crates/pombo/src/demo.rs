//! The demonstration: a whole node against pretend providers with faults, without file or credential.
//!
//! Every webhook receiver is the same sink behind a name of its own, so that holds and pauses of one leave the others
//! alone, as they would between real hosts.

pub(crate) mod cast;
pub(crate) mod story;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use pombo_channels::resolve::Resolver;
use pombo_channels::webhook::Webhook;
use pombo_kernel::dice::Dice;
use pombo_kernel::name::ChannelName;
use pombo_kernel::time::Clock as _;
use serde_json::json;

use crate::cli::Trouble;
use crate::client::{Client, Payload};
use crate::clock::{self, SystemClock};
use crate::config::channel::Settings;
use crate::config::{Config, Environment, Source};
use crate::node::{self, Node, Parts, Place, Roles};
use crate::providers::{Behaviour, Providers};
use cast::{ACTS, Act, SHOW};

/// The demonstration's configuration: what a real one would be, in a hurry.
const CONFIG: &str = r#"
profile = "development"
[channels.whatsapp]
kind = "evolution"
base_url = "${EVOLUTION_BASE_URL}"
instance = "${EVOLUTION_INSTANCE}"
api_key = "${EVOLUTION_API_KEY}"
receipt_secret = "${EVOLUTION_RECEIPT_SECRET}"
[channels.whatsapp.retry]
delays = ["1s", "2s", "4s"]
[channels.email]
kind = "smtp"
url = "${SMTP_URL}"
from = "${SMTP_FROM}"
[channels.email.retry]
attempts = 4
[channels.resend]
kind = "resend"
base_url = "${RESEND_BASE_URL}"
api_key = "${RESEND_API_KEY}"
from = "${RESEND_FROM}"
receipt_secret = "${RESEND_RECEIPT_SECRET}"
[channels.resend.retry]
delays = ["1s", "3s", "6s"]
[channels.claims]
kind = "tiss"
url = "${TISS_URL}"
registro_ans = "123456"
provider = "0001"
[channels.claims.retry]
attempts = 4
base = "1s"
floor = "1s"
cap = "8s"
[channels.crm]
kind = "webhook"
allow_private = true
attempt_timeout = "2s"
[channels.crm.breaker]
failures = 5
lasting = "3s"
[channels.crm.retry]
attempts = 4
base = "700ms"
cap = "10s"
jitter = 0.25
"#;

/// Everything that runs during a demonstration.
pub(crate) struct Stage {
    pub(crate) node: Node,
    /// An admin key of its own, good for this node.
    pub(crate) key: String,
    /// The way to the dashboard without typing it, once.
    pub(crate) link: Option<String>,
    providers: Providers,
    client: Client,
    dice: Dice,
    sent_in: usize,
    /// The id of the campaign.
    pub(crate) campaign: String,
}

impl Stage {
    /// Starts providers and node. An address that is taken is no reason to fail: any other will do.
    pub(crate) async fn start(data: &Path, listen: SocketAddr) -> Result<Stage, Trouble> {
        // The providers report to the node, and the node sends to the providers: its address is settled first.
        let listen = free_address(listen).await?;
        let how = Behaviour { report_to: format!("http://{listen}").parse().ok(), ..Behaviour::default() };
        let time = SystemClock::new();
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let providers =
            Providers::start(local, &how, Arc::new(move || time.now())).await.map_err(|error| {
                Trouble::new("the pretend providers cannot start", "ADDRESS_UNAVAILABLE").why(error)
            })?;
        let variables: Environment = providers.variables().into_iter().collect();
        let config = Config::parse(CONFIG, Source::default(), &variables)?;
        let channels = channels(&config, providers.webhook.address)?;
        let opened = node::open(Place::Embedded(data.to_owned().into()), Roles::default(), None).await?;
        let key = format!("pombo_demo_{:016x}{:016x}", clock::seed(), clock::seed());
        opened.admin_key(Some(&key)).await?;
        let parts = Parts { config, channels, listen, lanes: Vec::new() };
        let node = opened.start(parts).await?;
        let client = Client::new(&node.url(), Some(&key))?;
        for (name, template) in crate::templates::examples() {
            client
                .call(http::Method::PUT, &format!("/v1/templates/{name}"), Payload::json(&json!(template)))
                .await?;
        }
        let campaign = campaign(&client).await?;
        let link = node.login_link(&key).await;
        Ok(Stage {
            node,
            key,
            link,
            providers,
            client,
            dice: Dice::seeded(clock::seed()),
            sent_in: 0,
            campaign,
        })
    }

    /// Lets the campaign begin.
    pub(crate) async fn begin(&self) -> Result<(), Trouble> {
        self.client
            .post(&format!("/v1/campaigns/{}/start", self.campaign), Payload::json(&json!({})))
            .await?;
        Ok(())
    }

    /// Hands one message in at the front door, as a producer would. First one of each kind, then by chance.
    pub(crate) async fn produce(&mut self) -> Result<(), Trouble> {
        let act = self.pick();
        self.sent_in += 1;
        let request = act.request(self.sent_in);
        self.client.post("/v1/messages", Payload::json(&request)).await?;
        Ok(())
    }

    fn pick(&mut self) -> &'static Act {
        // The quiet ones come first, so that a fault stands out.
        if let Some(act) = ACTS.get(self.sent_in) {
            return act;
        }
        let total = ACTS.iter().map(|act| act.weight).sum();
        let mut roll = self.dice.below(total);
        let chosen = ACTS.iter().find(|act| match roll.checked_sub(act.weight) {
            Some(rest) => {
                roll = rest;
                false
            }
            None => true,
        });
        chosen.unwrap_or(&ACTS[0])
    }

    /// Milliseconds until the next message.
    pub(crate) fn pause_ms(&mut self) -> u64 {
        // Everybody is introduced quickly.
        if self.sent_in < ACTS.len() { 150 } else { 250 + self.dice.below(500) }
    }

    /// Ends everything; what is under way has two seconds.
    pub(crate) async fn stop(self) -> Result<(), Trouble> {
        let stopped = self.node.stop(std::time::Duration::from_secs(2)).await;
        self.providers.stop().await;
        Ok(stopped?)
    }
}

/// Makes the campaign, at the fastest pace that there is.
async fn campaign(client: &Client) -> Result<String, Trouble> {
    let post = async |path: &str, body| client.post(path, Payload::json(&body)).await;
    let template = Payload::json(&json!({"whatsapp": SHOW.says}));
    client.put(&format!("/v1/templates/{}", SHOW.template), template).await?;
    let spared = json!({"kind": "whatsapp", "recipient": SHOW.spared, "reason": "opt_out"});
    post("/v1/suppressions", spared).await?;
    let campaign = json!({
        "name": SHOW.name, "channel": "whatsapp", "template": SHOW.template,
        "throttle_min_seconds": 3, "throttle_max_seconds": 4,
    });
    let made = post("/v1/campaigns", campaign).await?;
    let id = made["id"].as_str().unwrap_or_default().to_owned();
    let list: Vec<_> = SHOW.audience.iter().map(|(to, name, _)| json!({"to": to, "nome": name})).collect();
    post(&format!("/v1/campaigns/{id}/recipients"), json!(list)).await?;
    Ok(id)
}

/// The address, if nobody has it; else another port of the same machine.
async fn free_address(listen: SocketAddr) -> Result<SocketAddr, Trouble> {
    let wanted = tokio::net::TcpListener::bind(listen).await;
    let found = match wanted {
        Ok(found) => Ok(found),
        Err(_) => tokio::net::TcpListener::bind(SocketAddr::new(listen.ip(), 0)).await,
    };
    found
        .and_then(|found| found.local_addr())
        .map_err(|error| Trouble::new(format!("cannot listen on {listen}"), "ADDRESS_UNAVAILABLE").why(error))
}

/// The configured channels, with the receivers' names leading to the sink.
fn channels(config: &Config, sink: SocketAddr) -> Result<pombo_engine::shell::Channels, Trouble> {
    let mut channels: BTreeMap<ChannelName, Arc<dyn pombo_channels::Channel>> = config.channels()?;
    for (name, channel) in &config.channels {
        let Settings::Webhook(settings) = &channel.settings else { continue };
        let resolver = Resolver::new(move |host: String, port| {
            Box::pin(async move {
                match ACTS.iter().any(|act| act.host() == host) {
                    true => Ok(vec![sink]),
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
