//! `pombo audit`: what happened and by whom, and whether the record of it is whole.

mod verify;

use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget};
use pombo_kernel::time::{Clock as _, Span, Time};
use serde_json::{Value, json};
use url::form_urlencoded::Serializer;

use super::out::{self, Paint, Table};
use super::{Shared, Trouble, wait_for, when};
use crate::client::Client;
use crate::clock::SystemClock;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List records, newest first
    #[command(after_help = "Examples:
  pombo audit list --message msg_…
  pombo audit list --claim CLM-001-1234567890 --all
  pombo audit list --actor ana --since 7d --event message.edited,message.reprocessed")]
    List {
        #[command(flatten)]
        filters: Filters,
        /// How many at most
        #[arg(long, default_value_t = 50, value_name = "COUNT")]
        limit: usize,
        /// Every one of them
        #[arg(long, conflicts_with = "limit")]
        all: bool,
    },
    /// Check the hash chain and its signed ends: exit 0 if all of it holds, 1 if not
    #[command(
        after_help = "It reads the folder or the database itself, beside a server at work, and changes nothing; \
with --remote it asks the server.

An anchor is a signed end of the chain. Those in the store are checked, and those in the file that copies are kept in; \
only one that lies where nobody could change it proves that nothing was cut off. Keep the public key \
elsewhere, too, and name it: anchors by another key then do not count.

Examples:
  pombo audit verify
  pombo audit verify --data /var/lib/pombo --anchors /mnt/elsewhere/anchors.ndjson
  pombo audit verify --remote --public-key 3d40…"
    )]
    Verify(Box<verify::Verify>),
    /// Write records to a file or to standard output, in order
    #[command(after_help = "That records were taken is itself recorded.

Examples:
  pombo audit export --since 2026-01-01T00:00:00Z --output audit-2026.ndjson
  pombo audit export --claim CLM-001-1234567890 --format csv > claim.csv")]
    Export {
        #[command(flatten)]
        filters: Filters,
        /// One JSON object a line, with its place in the chain; or a table
        #[arg(long, value_enum, default_value_t = Format::Ndjson)]
        format: Format,
        /// The file to write; standard output unless given
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// List the signed ends of the hash chain, newest first
    #[command(after_help = "With --json they can be kept as a file for `pombo audit verify --anchors`.

Examples:
  pombo audit anchors
  pombo audit anchors --all --json > anchors.ndjson")]
    Anchors {
        /// Every one of them, not only the newest 50
        #[arg(long)]
        all: bool,
    },
}

/// Which records. Every given part must match.
#[derive(Debug, Args)]
pub(crate) struct Filters {
    /// Of this message
    #[arg(long, value_name = "ID")]
    message: Option<String>,
    /// Of messages with this reference, and of retry decisions on that claim
    #[arg(long, value_name = "CLAIM")]
    claim: Option<String>,
    /// By this one: `pombo`, a key's label or its id
    #[arg(long)]
    actor: Option<String>,
    /// Only these: names such as failed, types such as message.failed or message.*
    #[arg(long, value_name = "EVENTS")]
    event: Option<String>,
    /// Of this channel
    #[arg(long)]
    channel: Option<String>,
    /// Of this campaign and its messages
    #[arg(long, value_name = "ID")]
    campaign: Option<String>,
    /// Not before this time: 2026-12-01T09:00:00Z, '2026-12-01 09:00', or so long ago: 7d
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Time>,
    /// Before this time, likewise
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Time>,
}

impl Filters {
    fn query(&self) -> Serializer<'static, String> {
        let mut query = Serializer::new(String::new());
        let time = |time: Option<Time>| time.map(|time| time.to_string());
        for (name, value) in [
            ("message", self.message.clone()),
            ("claim", self.claim.clone()),
            ("actor", self.actor.clone()),
            ("event", self.event.clone()),
            ("channel", self.channel.clone()),
            ("campaign", self.campaign.clone()),
            ("since", time(self.since)),
            ("until", time(self.until)),
        ] {
            if let Some(value) = value {
                query.append_pair(name, &value);
            }
        }
        query
    }
}

/// A time, or how long ago it was.
fn moment(text: &str) -> Result<Time, String> {
    match text.parse::<Span>() {
        Ok(ago) => Ok(SystemClock::new().now() - ago),
        Err(_) => when::typed(text),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Ndjson,
    Csv,
}

pub(crate) fn run(verb: Verb, shared: &Shared) -> Result<(), Trouble> {
    match verb {
        Verb::Verify(args) => verify::run(&args, shared),
        Verb::List { filters, limit, all } => {
            wait_for(list(&shared.client()?, &filters, if all { usize::MAX } else { limit }, shared))
        }
        Verb::Export { filters, format, output } => {
            wait_for(export(&shared.client()?, &filters, format, output.as_deref(), shared))
        }
        Verb::Anchors { all } => wait_for(anchors(&shared.client()?, all, shared)),
    }
}

/// Records as they are found, page after page: a page looks at a bounded number of them.
async fn list(client: &Client, filters: &Filters, limit: usize, shared: &Shared) -> Result<(), Trouble> {
    let mut table =
        Table::new(["position", "at", "event", "message", "channel", "actor", "detail"]).cut(6, 20);
    let bar = spinner();
    let (mut left, mut cursor): (usize, Option<String>) = (limit, None);
    while left > 0 {
        let mut query = filters.query();
        query.append_pair("limit", &left.min(500).to_string());
        if let Some(cursor) = &cursor {
            query.append_pair("cursor", cursor);
        }
        let page = client.get(&format!("/v1/audit?{}", query.finish())).await?;
        let items = page["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        left = left.saturating_sub(items.len());
        for it in items {
            bar.set_message(format!("looking at {}", word(it, "at")));
            match shared.json {
                true => out::object(it),
                false => table.row(row(it)),
            }
        }
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    bar.finish_and_clear();
    if !shared.json {
        match table.is_empty() {
            true => out::note("there is no such record"),
            false => table.print(),
        }
        if cursor.is_some() {
            out::note("there may be more; --all shows them, or give a larger --limit");
        }
    }
    Ok(())
}

fn row(it: &Value) -> [String; 7] {
    let detail = it["detail"].as_object().into_iter().flatten();
    let said = detail.map(|(name, value)| match value {
        Value::String(text) => format!("{name}={text}"),
        Value::Number(at) if ["due", "until"].contains(&name.as_str()) => {
            at.as_i64().map_or_else(String::new, |at| format!("{name}={}", Time::from_millis(at)))
        }
        other => format!("{name}={other}"),
    });
    let detail = out::tame(&said.collect::<Vec<_>>().join(" "));
    let [at, event, message, channel, actor] =
        ["at", "event", "message", "channel", "actor"].map(|name| word(it, name));
    [it["position"].to_string(), at, event, message, channel, actor, detail]
}

async fn export(
    client: &Client,
    filters: &Filters,
    format: Format,
    output: Option<&Path>,
    shared: &Shared,
) -> Result<(), Trouble> {
    let (name, media) = match format {
        Format::Ndjson => ("ndjson", "application/x-ndjson"),
        Format::Csv => ("csv", "text/csv"),
    };
    let mut query = filters.query();
    query.append_pair("format", name);
    let mut answer = client.download(&format!("/v1/audit/export?{}", query.finish()), media).await?;
    let unwritable = |error: std::io::Error| {
        let file = output.map_or_else(|| "standard output".to_owned(), |file| file.display().to_string());
        Trouble::new(format!("{file} cannot be written"), "FILE_UNWRITABLE").why(error)
    };
    let mut file = output.map(std::fs::File::create).transpose().map_err(unwritable)?;
    let bar = spinner();
    let (mut bytes, mut lines) = (0, 0);
    while let Some(piece) = answer.next().await? {
        bytes += piece.len();
        lines += piece.iter().filter(|byte| **byte == b'\n').count();
        bar.set_message(format!("{lines} lines, {} kB", bytes / 1_000));
        match &mut file {
            Some(file) => file.write_all(&piece).map_err(unwritable)?,
            None => out::bytes(&piece),
        }
    }
    bar.finish_and_clear();
    if let (Some(file), Some(path)) = (file, output) {
        file.sync_all().map_err(unwritable)?;
        let records = lines - usize::from(format == Format::Csv);
        match shared.json {
            true => out::document(&json!({"file": path, "records": records, "bytes": bytes})),
            false => out::line(format!("{records} records are in {}", path.display())),
        }
    }
    Ok(())
}

async fn anchors(client: &Client, all: bool, shared: &Shared) -> Result<(), Trouble> {
    let mut table = Table::new(["number", "at", "blocks", "records", "hash", "key"]);
    let mut cursor = None;
    loop {
        let page = anchor_page(client, cursor.as_deref(), if all { 500 } else { 50 }).await?;
        for it in page["items"].as_array().into_iter().flatten() {
            let short = |name: &str| format!("{}…", word(it, name).get(..16).unwrap_or_default());
            match shared.json {
                true => out::object(it),
                false => {
                    let [number, blocks, records] =
                        ["number", "sequence", "position"].map(|name| it[name].to_string());
                    table.row([number, word(it, "at"), blocks, records, short("hash"), word(it, "key")]);
                }
            }
        }
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() || !all {
            break;
        }
    }
    if !shared.json {
        match table.is_empty() {
            true => out::note("the chain was not signed yet; see [audit] in the configuration"),
            false => table.print(),
        }
        if cursor.is_some() {
            out::note("there are more; --all shows them");
        }
    }
    Ok(())
}

async fn anchor_page(client: &Client, cursor: Option<&str>, limit: usize) -> Result<Value, Trouble> {
    let mut query = Serializer::new(String::new());
    query.append_pair("limit", &limit.to_string());
    if let Some(cursor) = cursor {
        query.append_pair("cursor", cursor);
    }
    Ok(client.get(&format!("/v1/audit/anchors?{}", query.finish())).await?)
}

fn spinner() -> ProgressBar {
    match std::io::stderr().is_terminal() {
        false => ProgressBar::hidden(),
        true => ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()),
    }
}

fn word(value: &Value, key: &str) -> String {
    out::tame(value[key].as_str().unwrap_or_default())
}

/// Says what was found, in a line for each.
fn said(what: &str, value: &str) {
    out::line(format!("{} {value}", Paint::stdout().dim(&format!("{what:<7}"))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date_or_so_long_ago() {
        assert_eq!(moment("2026-12-01T09:00:00Z").unwrap().to_string(), "2026-12-01T09:00:00.000Z");
        let ago = SystemClock::new().now().since(moment("7d").unwrap());
        assert!((Span::from_hours(168)..Span::from_hours(169)).contains(&ago), "{ago}");
        assert!(moment("yesterday").is_err());
    }

    #[test]
    fn a_record_is_a_line_that_says_what_matters() {
        let it = json!({"position": 7, "at": "2026-01-31T10:20:30.000Z", "event": "failed", "message": "msg_1",
            "channel": "crm", "actor": "pombo", "detail": {"attempt": 3, "reason": "permanent\u{7}_error"}});
        let wanted = [
            "7",
            "2026-01-31T10:20:30.000Z",
            "failed",
            "msg_1",
            "crm",
            "pombo",
            "attempt=3 reason=permanent_error",
        ];
        assert_eq!(row(&it), wanted);
        let it = json!({"detail": {"due": 1_769_854_830_000_i64}});
        assert_eq!(row(&it)[6], "due=2026-01-31T10:20:30.000Z");
    }
}
