//! `pombo keys`: who may come in, and how far.

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Map, Value, json};

use super::out::{self, Paint, Table};
use super::{Shared, Trouble};
use crate::client::{Client, Payload};

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List keys, the newest first; never the keys themselves
    List {
        #[command(flatten)]
        whose: Whose,
    },
    /// Make a key and print it, this once
    #[command(after_help = "Examples:
  pombo keys create --role producer --label billing --channels mail,whatsapp
  pombo keys create --role viewer --label grafana --expires-after 90d
  KEY=$(pombo keys create --role producer --label shop)

Roles: producer hands in messages and follows its own; viewer looks; operator works on messages and channels;
admin does everything, also with keys.")]
    Create(Create),
    /// Show one key; never the key itself
    Show {
        /// The key's id: key_…
        id: String,
        #[command(flatten)]
        whose: Whose,
    },
    /// Change a key's label, channels, end, or whether it may reveal; its role stays
    #[command(after_help = "Examples:
  pombo keys set key_0123456789abcdef --label 'billing, new cluster'
  pombo keys set key_0123456789abcdef --channels mail --expires-after 30d
  pombo keys set key_0123456789abcdef --all-channels --never-expires")]
    Set(Set),
    /// Make a key in place of another, print it this once, and let the old one work for a while longer
    #[command(after_help = "Examples:
  pombo keys rotate key_0123456789abcdef
  pombo keys rotate key_0123456789abcdef --overlap 7d
  pombo keys rotate key_0123456789abcdef --overlap 0s     the old one ends at once")]
    Rotate {
        /// The key's id: key_…
        id: String,
        /// How long the old key goes on working
        #[arg(long, value_name = "SPAN", default_value = "24h")]
        overlap: String,
        /// How long the new key works [default: as long as the old one was to]
        #[arg(long, value_name = "SPAN")]
        expires_after: Option<String>,
        #[command(flatten)]
        whose: Whose,
    },
    /// Print a link that lets somebody into the dashboard, once, within ten minutes
    #[command(after_help = "Examples:
  pombo keys link                                 for yourself, with the key that you use here
  pombo keys link --key key_0123456789abcdef      for somebody else, who never sees the key")]
    Link {
        /// The id of the key in whose name it lets in: key_… [default: the one that is used here]
        #[arg(long, value_name = "ID")]
        key: Option<String>,
        #[command(flatten)]
        whose: Whose,
    },
    /// End a key at once and for good
    #[command(after_help = "Example:\n  pombo keys revoke key_0123456789abcdef")]
    Revoke {
        /// The key's id: key_…
        id: String,
        /// Also the last admin key that works; POMBO_ADMIN_KEY is then the way back in
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        whose: Whose,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Whose {
    /// Another tenant's, for admins of the tenant `default`
    #[arg(long)]
    tenant: Option<String>,
}

/// Whether it may see persons whom its role hides.
#[derive(Debug, Args)]
pub(crate) struct Reveals {
    /// It may see persons whom its role hides, which goes to the audit [default: for operators and admins]
    #[arg(long, conflicts_with = "no_reveal")]
    reveal: bool,
    /// It never sees persons whom its role hides
    #[arg(long)]
    no_reveal: bool,
}

impl Reveals {
    fn said(&self) -> Option<bool> {
        (self.reveal || self.no_reveal).then_some(self.reveal)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// producer, viewer, operator or admin
    #[arg(long)]
    role: String,
    /// What it is for, for whoever reads the list or the audit
    #[arg(long)]
    label: Option<String>,
    /// The channels that it may see and use [default: all of its tenant]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    channels: Option<Vec<String>>,
    /// The channel for requests that name only a kind, as KIND=CHANNEL; may be given again
    #[arg(long = "default", value_name = "KIND=CHANNEL", value_parser = pair)]
    defaults: Vec<(String, String)>,
    #[command(flatten)]
    reveals: Reveals,
    /// How long it works, for example 90d [default: until it is revoked]
    #[arg(long, value_name = "SPAN")]
    expires_after: Option<String>,
    /// An id of your own for this request, so that it makes one key however often it is sent
    #[arg(long, value_name = "ID")]
    idempotency_key: Option<String>,
    #[command(flatten)]
    whose: Whose,
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// The key's id: key_…
    id: String,
    #[arg(long)]
    label: Option<String>,
    /// The channels that it may see and use
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "all_channels")]
    channels: Option<Vec<String>>,
    /// Every channel of its tenant
    #[arg(long)]
    all_channels: bool,
    /// The channel for requests that name only a kind, as KIND=CHANNEL; may be given again
    #[arg(long = "default", value_name = "KIND=CHANNEL", value_parser = pair)]
    defaults: Vec<(String, String)>,
    #[command(flatten)]
    reveals: Reveals,
    /// How long it works from now on, for example 30d
    #[arg(long, value_name = "SPAN", conflicts_with = "never_expires")]
    expires_after: Option<String>,
    /// It works until it is revoked
    #[arg(long)]
    never_expires: bool,
    /// Also the last admin key that works; POMBO_ADMIN_KEY is then the way back in
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    whose: Whose,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').map(|(kind, channel)| (kind.to_owned(), channel.to_owned()));
    pair.ok_or_else(|| "write KIND=CHANNEL, for example resend=mail".to_owned())
}

pub(crate) async fn run(verb: Verb, shared: &Shared) -> Result<(), Trouble> {
    let client = shared.client()?;
    match verb {
        Verb::List { whose } => list(&client, &whose, shared).await,
        Verb::Create(args) => {
            let mut body = Map::new();
            body.insert("role".to_owned(), json!(args.role));
            put(&mut body, "label", args.label);
            put(&mut body, "channels", args.channels);
            put(&mut body, "reveal", args.reveals.said());
            put(&mut body, "expires_after", args.expires_after);
            put(&mut body, "tenant", args.whose.tenant);
            put_defaults(&mut body, args.defaults);
            let payload =
                Payload { idempotency_key: args.idempotency_key, ..Payload::json(&Value::Object(body)) };
            let made = client.post("/v1/keys", payload).await?;
            secret(&made, shared);
            Ok(())
        }
        Verb::Show { id, whose } => {
            let key = client.get(&path(&id, "", &whose)).await?;
            shown(&key, shared);
            Ok(())
        }
        Verb::Set(args) => {
            let mut body = Map::new();
            put(&mut body, "label", args.label);
            put(&mut body, "channels", args.channels);
            put(&mut body, "reveal", args.reveals.said());
            put(&mut body, "expires_after", args.expires_after);
            put_defaults(&mut body, args.defaults);
            if args.all_channels {
                body.insert("channels".to_owned(), Value::Null);
            }
            if args.never_expires {
                body.insert("expires_at".to_owned(), Value::Null);
            }
            if body.is_empty() {
                return Err(Trouble::usage("there is nothing to change").hint("see `pombo keys set --help`"));
            }
            let payload = Payload::json(&Value::Object(body));
            let path = forced(path(&args.id, "", &args.whose), args.force);
            let answer = client.call(Method::PATCH, &path, payload).await?;
            shown(&client.parse(&answer)?, shared);
            Ok(())
        }
        Verb::Rotate { id, overlap, expires_after, whose } => {
            let mut body = Map::new();
            put(&mut body, "overlap", Some(overlap));
            put(&mut body, "expires_after", expires_after);
            let payload = Payload::json(&Value::Object(body));
            let made = client.post(&path(&id, "/rotate", &whose), payload).await?;
            secret(&made, shared);
            if !shared.json {
                let (old, end) = (&made["replaced"]["id"], &made["replaced"]["expires_at"]);
                out::note(format!("{} works until {}", text(old), text(end)));
            }
            Ok(())
        }
        Verb::Link { key, whose } => {
            let path = path(key.as_deref().unwrap_or("own"), "/link", &whose);
            let made = client.post(&path, Payload::default()).await?;
            let address = match made["url"].as_str() {
                Some(url) => url.to_owned(),
                None => format!("{}{}", client.server(), text(&made["path"])),
            };
            match shared.json {
                true => out::document(&made),
                false => {
                    out::line(address);
                    out::note(format!(
                        "lets whoever opens it in as {}, once, until {}",
                        text(&made["key"]),
                        text(&made["expires_at"])
                    ));
                }
            }
            Ok(())
        }
        Verb::Revoke { id, force, whose } => {
            let path = forced(path(&id, "", &whose), force);
            let answer = client.call(Method::DELETE, &path, Payload::default()).await?;
            let revoked: Value = client.parse(&answer)?;
            match shared.json {
                true => out::document(&revoked),
                false => {
                    out::line(format!("{} is revoked; other nodes know within 5 s", text(&revoked["id"])));
                }
            }
            Ok(())
        }
    }
}

fn put<T: serde::Serialize>(body: &mut Map<String, Value>, field: &str, value: Option<T>) {
    if let Some(value) = value {
        body.insert(field.to_owned(), json!(value));
    }
}

fn put_defaults(body: &mut Map<String, Value>, defaults: Vec<(String, String)>) {
    if !defaults.is_empty() {
        let defaults: Map<String, Value> =
            defaults.into_iter().map(|(kind, channel)| (kind, Value::String(channel))).collect();
        body.insert("defaults".to_owned(), Value::Object(defaults));
    }
}

fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

fn path(id: &str, verb: &str, whose: &Whose) -> String {
    let query = whose.tenant.as_ref().map(|tenant| format!("?tenant={}", encoded(tenant)));
    format!("/v1/keys/{}{verb}{}", encoded(id), query.unwrap_or_default())
}

fn forced(path: String, force: bool) -> String {
    match (force, path.contains('?')) {
        (false, _) => path,
        (true, false) => path + "?force=true",
        (true, true) => path + "&force=true",
    }
}

async fn list(client: &Client, whose: &Whose, shared: &Shared) -> Result<(), Trouble> {
    let tenant = whose.tenant.as_ref().map(|tenant| format!("&tenant={}", encoded(tenant)));
    let tenant = tenant.unwrap_or_default();
    let mut table = Table::new(["id", "role", "label", "state", "channels", "last used", "expires"])
        .painted(3, state_paint)
        .cut(2, 12)
        .cut(4, 12)
        .spare([6, 5]);
    let mut cursor = String::new();
    loop {
        let page = client.get(&format!("/v1/keys?limit=500{tenant}{cursor}")).await?;
        for key in page["items"].as_array().into_iter().flatten() {
            if shared.json {
                out::object(key);
                continue;
            }
            table.row([
                text(&key["id"]),
                text(&key["role"]),
                text(&key["label"]),
                text(&key["state"]),
                channels(key),
                text(&key["last_used_at"]),
                text(&key["expires_at"]),
            ]);
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={}", encoded(next)),
            None => break,
        }
    }
    match (shared.json, table.is_empty()) {
        (true, _) => {}
        (false, true) => out::note("there are no keys"),
        (false, false) => table.print(),
    }
    Ok(())
}

/// The new key on standard output, alone, so that it can be kept where it belongs; all else beside it.
fn secret(made: &Value, shared: &Shared) {
    let id = text(&made["id"]);
    match (shared.json, made["key"].as_str()) {
        (true, _) => out::document(made),
        (false, Some(key)) => {
            out::note(format!("{id}, role {}, channels: {}", text(&made["role"]), channels(made)));
            out::line(key);
        }
        (false, None) => {}
    }
    let paint = Paint::stderr();
    match made["key"].as_str() {
        Some(_) => out::note(format!(
            "{} this is the only time that the key is shown; keep it where no one else reads it",
            paint.yellow("warning:")
        )),
        None => out::note(format!(
            "{} {id} was made by this request before and its key is not shown again; `pombo keys rotate {id}` makes \
             another",
            paint.yellow("warning:")
        )),
    }
}

fn shown(key: &Value, shared: &Shared) {
    if shared.json {
        out::document(key);
        return;
    }
    let rows = [
        ("id", text(&key["id"])),
        ("tenant", text(&key["tenant"])),
        ("role", text(&key["role"])),
        ("label", text(&key["label"])),
        ("state", text(&key["state"])),
        ("channels", channels(key)),
        ("defaults", defaults(key)),
        ("reveals", if key["reveal"] == true { "persons, on record" } else { "nobody" }.to_owned()),
        ("created", joined(key, "created_at", "created_by")),
        ("expires", text(&key["expires_at"])),
        ("revoked", joined(key, "revoked_at", "revoked_by")),
        ("last used", text(&key["last_used_at"])),
        ("replaces", text(&key["replaces"])),
        ("replaced by", text(&key["replaced_by"])),
    ];
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        out::line(format!("{name:<12} {value}"));
    }
}

fn joined(key: &Value, at: &str, by: &str) -> String {
    match (text(&key[at]), text(&key[by])) {
        (at, by) if by.is_empty() => at,
        (at, by) => format!("{at} by {by}"),
    }
}

fn channels(key: &Value) -> String {
    match key["channels"].as_array() {
        None => "all".to_owned(),
        Some(names) => names.iter().map(text).collect::<Vec<_>>().join(", "),
    }
}

fn defaults(key: &Value) -> String {
    let pairs = key["defaults"].as_object().into_iter().flatten();
    pairs.map(|(kind, channel)| format!("{kind}={}", text(channel))).collect::<Vec<_>>().join(", ")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn state_paint(paint: Paint, text: &str) -> String {
    if text.trim_end() == "active" { paint.green(text) } else { paint.dim(text) }
}
