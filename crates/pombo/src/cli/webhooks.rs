//! `pombo webhooks`: who is told of events.

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

use super::out::{self, Paint, Table};
use super::{Shared, Trouble};
use crate::client::{Client, ClientError, Payload};

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List webhooks
    List,
    /// Tell somebody of events from now on; prints the secret, which is shown this once
    #[command(
        after_help = "Without --event it is told when a message is sent, failed, cancelled or discarded.

Examples:
  pombo webhooks create https://crm.example/pombo
  pombo webhooks create https://crm.example/pombo --event 'message.*' --channel whatsapp --description CRM"
    )]
    Create {
        /// Where to: http or https
        url: String,
        #[command(flatten)]
        wish: Wish,
    },
    /// Show one webhook
    Show {
        /// The webhook's id: whk_…
        id: String,
    },
    /// Change a webhook; what is not named stays as it is
    #[command(after_help = "Examples:
  pombo webhooks set whk_… --url https://crm.example/new
  pombo webhooks set whk_… --enable")]
    Set {
        /// The webhook's id: whk_…
        id: String,
        /// Another address
        #[arg(long)]
        url: Option<String>,
        #[command(flatten)]
        wish: Wish,
        /// Tell it of events again, from now on
        #[arg(long, conflicts_with = "disable")]
        enable: bool,
        /// Tell it nothing more for now
        #[arg(long)]
        disable: bool,
    },
    /// Sign with a new secret, and with the old one for a while; prints the new one
    #[command(after_help = "Example:\n  pombo webhooks rotate whk_… --overlap 1h")]
    Rotate {
        /// The webhook's id: whk_…
        id: String,
        /// How long the old secret still signs beside the new one [default: 24h]
        #[arg(long, value_name = "SPAN")]
        overlap: Option<String>,
    },
    /// Send it an event that means nothing, to see that it arrives
    #[command(after_help = "Example:\n  pombo webhooks test whk_…")]
    Test {
        /// The webhook's id: whk_…
        id: String,
    },
    /// Tell it nothing more, for good
    Delete {
        /// The webhook's id: whk_…
        id: String,
    },
}

/// What a webhook is told.
#[derive(Debug, Args)]
pub(crate) struct Wish {
    /// A type of event, for example message.failed or message.*; may be given several times
    #[arg(long = "event", value_name = "TYPE")]
    events: Vec<String>,
    /// Only events of this channel; may be given several times
    #[arg(long = "channel", value_name = "NAME")]
    channels: Vec<String>,
    /// What it is, for whoever looks
    #[arg(long)]
    description: Option<String>,
}

impl Wish {
    fn document(self, url: Option<String>) -> Value {
        let mut document = json!({});
        if let Some(url) = url {
            document["url"] = json!(url);
        }
        if !self.events.is_empty() {
            document["events"] = json!(self.events);
        }
        if !self.channels.is_empty() {
            document["channels"] = json!(self.channels);
        }
        if let Some(description) = self.description {
            document["description"] = json!(description);
        }
        document
    }
}

pub(crate) async fn run(verb: Verb, shared: &Shared) -> Result<(), Trouble> {
    let client = shared.client()?;
    let (document, done) = match verb {
        Verb::List => return list(&client, shared).await,
        Verb::Create { url, wish } => {
            let made = call(&client, Method::POST, "/v1/webhooks", &wish.document(Some(url))).await?;
            let done = format!("webhook {} is there", out::field(&made, "id"));
            (made, done)
        }
        Verb::Show { id } => {
            let found = client.get(&at(&id, "")).await?;
            if shared.json {
                out::document(&found);
            } else {
                show(&found);
            }
            return Ok(());
        }
        Verb::Set { id, url, wish, enable, disable } => {
            let mut wish = wish.document(url);
            if enable || disable {
                wish["enabled"] = json!(enable);
            }
            if wish == json!({}) {
                let hint =
                    "name what to change: --url, --event, --channel, --description, --enable or --disable";
                return Err(Trouble::usage("there is nothing to change").hint(hint));
            }
            let changed = call(&client, Method::PATCH, &at(&id, ""), &wish).await?;
            (changed, format!("webhook {id} is changed"))
        }
        Verb::Rotate { id, overlap } => {
            let wish = overlap.map_or_else(|| json!({}), |overlap| json!({ "overlap": overlap }));
            let rotated = call(&client, Method::POST, &at(&id, "/rotate-secret"), &wish).await?;
            let done = match rotated["old_secret_until"].as_str() {
                Some(until) => {
                    format!("webhook {id} has a new secret; the old one signs as well until {until}")
                }
                None => format!("webhook {id} has a new secret; the old one signs no more"),
            };
            (rotated, done)
        }
        Verb::Test { id } => {
            let sent = call(&client, Method::POST, &at(&id, "/test"), &json!({})).await?;
            let message = out::field(&sent, "message_id");
            let done = format!("{message} is on its way; `pombo messages show {message}` says how it went");
            (sent, done)
        }
        Verb::Delete { id } => {
            client.call(Method::DELETE, &at(&id, ""), Payload::default()).await?;
            (json!({ "id": id, "deleted": true }), format!("webhook {id} is removed"))
        }
    };
    if shared.json {
        out::document(&document);
        return Ok(());
    }
    out::line(done);
    if let Some(secret) = document["secret"].as_str() {
        out::line(format!("secret: {secret}"));
        out::note("it is not shown again: give it to the receiver, who verifies signatures with it");
    }
    Ok(())
}

fn at(id: &str, verb: &str) -> String {
    let id: String = url::form_urlencoded::byte_serialize(id.as_bytes()).collect();
    format!("/v1/webhooks/{id}{verb}")
}

async fn call(client: &Client, method: Method, path: &str, body: &Value) -> Result<Value, ClientError> {
    client.parse(&client.call(method, path, Payload::json(body)).await?)
}

async fn list(client: &Client, shared: &Shared) -> Result<(), Trouble> {
    let mut table =
        Table::new(["id", "url", "events", "channels", "state"]).painted(4, paint).cut(1, 20).cut(2, 20);
    let mut cursor: Option<String> = None;
    loop {
        let next = cursor.map_or_else(String::new, |cursor| format!("&cursor={cursor}"));
        let page = client.get(&format!("/v1/webhooks?limit=100{next}")).await?;
        for item in page["items"].as_array().into_iter().flatten() {
            if shared.json {
                out::object(item);
                continue;
            }
            let state = if item["enabled"] == true { "enabled" } else { "disabled" };
            let (events, channels) = (out::fields(item, "events"), out::fields(item, "channels"));
            let channels = if channels.is_empty() { "all".to_owned() } else { channels };
            table.row([out::field(item, "id"), out::field(item, "url"), events, channels, state.to_owned()]);
        }
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    if !shared.json {
        match table.is_empty() {
            true => out::note("nobody is told of events; `pombo webhooks create URL` changes that"),
            false => table.print(),
        }
    }
    Ok(())
}

fn show(webhook: &Value) {
    let paint = Paint::stdout();
    let state = match webhook["disabled_reason"].as_str() {
        None => paint.green("enabled"),
        Some(reason) => {
            format!("{} since {}: {reason}", paint.yellow("disabled"), out::field(webhook, "disabled_at"))
        }
    };
    let channels = out::fields(webhook, "channels");
    let old_secret = match out::field(webhook, "old_secret_until") {
        until if until.is_empty() => until,
        until => format!("signs until {until}"),
    };
    let rows = [
        ("id", out::field(webhook, "id")),
        ("url", out::field(webhook, "url")),
        ("description", out::field(webhook, "description")),
        ("state", state),
        ("events", out::fields(webhook, "events")),
        ("channels", if channels.is_empty() { "all".to_owned() } else { channels }),
        ("old secret", old_secret),
        (
            "created",
            format!("{} by {}", out::field(webhook, "created_at"), out::field(webhook, "created_by")),
        ),
    ];
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        out::line(format!("{} {value}", paint.dim(&format!("{name:<12}"))));
    }
}

fn paint(paint: Paint, text: &str) -> String {
    if text.trim_end() == "enabled" { paint.green(text) } else { paint.yellow(text) }
}
