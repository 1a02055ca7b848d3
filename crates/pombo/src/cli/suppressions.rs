//! `pombo suppressions`: who is not written to any more.

use std::io::{BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde_json::{Value, json};

use super::out::{self, Table};
use super::{Shared, Trouble};
use crate::client::{Client, Payload};

/// Lines in one request. Each can be sent again.
const CHUNK_LINES: usize = 5_000;
const CHUNK_BYTES: usize = 4 * 1024 * 1024;
/// More bad lines than this are counted, not printed.
const ERRORS_SHOWN: u64 = 100;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List who is not written to, newest first
    #[command(after_help = "Examples:
  pombo suppressions list --kind email --reason hard_bounce
  pombo suppressions list --all --json")]
    List {
        #[command(flatten)]
        usual: Usual,
        /// Every entry, not only the newest 50
        #[arg(long)]
        all: bool,
    },
    /// Say whether somebody is on the list: exit 0 if so, 1 if not
    #[command(after_help = "Example:\n  pombo suppressions check +5511987654321")]
    Check {
        /// An e-mail address or a phone number
        recipient: String,
    },
    /// Put somebody on the list
    #[command(after_help = "Examples:
  pombo suppressions add ana@clinica.example --reason opt_out
  pombo suppressions add '+55 11 98765-4321' --kind whatsapp --note 'asked by phone'")]
    Add {
        /// An e-mail address or a phone number
        recipient: String,
        #[command(flatten)]
        usual: Usual,
        /// Where it is known from
        #[arg(long)]
        source: Option<String>,
        /// Anything worth knowing
        #[arg(long)]
        note: Option<String>,
    },
    /// Take an entry off the list
    Remove { id: String },
    /// Put everybody in a file on the list: CSV with a heading, or one JSON object a line
    #[command(after_help = "Examples:
  pombo suppressions import bounces.csv --kind email --reason hard_bounce
  pombo suppressions import - --format ndjson < opted-out.ndjson")]
    Import {
        /// The file; `-` is standard input
        file: PathBuf,
        #[command(flatten)]
        usual: Usual,
        /// What the file is [default: by its name, else csv]
        #[arg(long, value_enum)]
        format: Option<Format>,
    },
    /// Print the whole list as CSV, which can be imported
    #[command(after_help = "Example:\n  pombo suppressions export > suppressions.csv")]
    Export,
}

/// Which entries, or what entries are where nothing else is said.
#[derive(Debug, Args)]
pub(crate) struct Usual {
    /// email or whatsapp
    #[arg(long)]
    kind: Option<String>,
    /// invalid_recipient, hard_bounce, complaint, opt_out or manual
    #[arg(long)]
    reason: Option<String>,
}

impl Usual {
    fn query(&self) -> url::form_urlencoded::Serializer<'static, String> {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for (name, value) in [("kind", &self.kind), ("reason", &self.reason)] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        query
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Csv,
    Ndjson,
}

impl Format {
    fn of(file: &Path) -> Format {
        match file.extension().and_then(|it| it.to_str()) {
            Some("ndjson" | "jsonl" | "json") => Format::Ndjson,
            _ => Format::Csv,
        }
    }

    fn media(self) -> &'static str {
        match self {
            Format::Csv => "text/csv",
            Format::Ndjson => "application/x-ndjson",
        }
    }
}

pub(crate) async fn run(verb: Verb, shared: &Shared) -> Result<(), Trouble> {
    let client = shared.client()?;
    match verb {
        Verb::List { usual, all } => list(&client, &usual, all, shared).await,
        Verb::Check { recipient } => {
            let query = url::form_urlencoded::Serializer::new(String::new())
                .append_pair("recipient", &recipient)
                .finish();
            let page = client.get(&format!("/v1/suppressions?{query}")).await?;
            let found = page["items"].as_array().and_then(|items| items.first());
            if shared.json {
                out::document(&json!({"suppressed": found.is_some(), "suppression": found}));
            } else {
                out::line(match found {
                    Some(it) => {
                        format!("suppressed: {} since {}", word(it, "reason"), word(it, "created_at"))
                    }
                    None => "not on the list".to_owned(),
                });
            }
            found.map(|_| ()).ok_or_else(Trouble::told)
        }
        Verb::Add { recipient, usual, source, note } => {
            let kind = usual.kind.unwrap_or_else(|| guessed(&recipient).to_owned());
            let mut wish = json!({"kind": kind, "recipient": recipient});
            for (name, value) in [("reason", usual.reason), ("source", source), ("note", note)] {
                if let Some(value) = value {
                    wish[name] = json!(value);
                }
            }
            let made = client.post("/v1/suppressions", Payload::json(&wish)).await?;
            if shared.json {
                out::document(&made);
            } else {
                out::line(format!("{} is on the list as {}", word(&made, "recipient"), word(&made, "id")));
            }
            Ok(())
        }
        Verb::Remove { id } => {
            let place: String = url::form_urlencoded::byte_serialize(id.as_bytes()).collect();
            client.call(Method::DELETE, &format!("/v1/suppressions/{place}"), Payload::default()).await?;
            if shared.json {
                out::document(&json!({"id": id, "removed": true}));
            } else {
                out::line(format!("{id} is off the list"));
            }
            Ok(())
        }
        Verb::Import { file, usual, format } => {
            let format = format.unwrap_or_else(|| Format::of(&file));
            import(&client, &file, &usual, format, shared).await
        }
        Verb::Export => {
            let list = client.call(Method::GET, "/v1/suppressions/export", Payload::default()).await?;
            out::line(String::from_utf8_lossy(&list).trim_end());
            Ok(())
        }
    }
}

/// What kind of address it is, where nobody says so. The server judges.
fn guessed(recipient: &str) -> &'static str {
    match recipient.split_once('@') {
        Some((_, server)) if !matches!(server, "s.whatsapp.net" | "g.us" | "c.us" | "lid") => "email",
        _ => "whatsapp",
    }
}

async fn list(client: &Client, usual: &Usual, all: bool, shared: &Shared) -> Result<(), Trouble> {
    let mut table =
        Table::new(["id", "kind", "recipient", "reason", "source", "since", "note"]).cut(6, 12).cut(2, 20);
    let mut cursor: Option<String> = None;
    loop {
        let mut query = usual.query();
        query.append_pair("limit", if all { "500" } else { "50" });
        if let Some(cursor) = &cursor {
            query.append_pair("cursor", cursor);
        }
        let page = client.get(&format!("/v1/suppressions?{}", query.finish())).await?;
        for it in page["items"].as_array().into_iter().flatten() {
            match shared.json {
                true => out::object(it),
                false => table.row(
                    ["id", "kind", "recipient", "reason", "source", "created_at", "note"]
                        .map(|name| word(it, name)),
                ),
            }
        }
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() || !all {
            break;
        }
    }
    if !shared.json {
        match table.is_empty() {
            true => out::note("nobody is on the list"),
            false => table.print(),
        }
        if cursor.is_some() {
            out::note("there are more; --all shows them");
        }
    }
    Ok(())
}

async fn import(
    client: &Client,
    file: &Path,
    usual: &Usual,
    format: Format,
    shared: &Shared,
) -> Result<(), Trouble> {
    let unreadable = |error: std::io::Error| {
        Trouble::new(format!("{} cannot be read", file.display()), "FILE_UNREADABLE").why(error)
    };
    let (mut input, length): (Box<dyn BufRead>, Option<u64>) = match file == Path::new("-") {
        true => (Box::new(BufReader::new(std::io::stdin())), None),
        false => {
            let file = std::fs::File::open(file).map_err(unreadable)?;
            let length = file.metadata().ok().map(|data| data.len());
            (Box::new(BufReader::new(file)), length)
        }
    };
    let bar = match (std::io::stderr().is_terminal(), length) {
        (false, _) => ProgressBar::hidden(),
        (true, Some(length)) => ProgressBar::new(length),
        (true, None) => ProgressBar::new_spinner(),
    };
    bar.set_draw_target(match bar.is_hidden() {
        true => ProgressDrawTarget::hidden(),
        false => ProgressDrawTarget::stderr(),
    });
    let path = format!("/v1/suppressions/import?{}", usual.query().finish());
    let mut heading = Vec::new();
    if format == Format::Csv {
        input.read_until(b'\n', &mut heading).map_err(unreadable)?;
    }
    let mut total = [0u64; 4];
    let mut before = u64::from(!heading.is_empty());
    loop {
        let (mut body, mut lines, mut ended) = (heading.clone(), 0u64, false);
        while lines < CHUNK_LINES as u64 && body.len() < CHUNK_BYTES {
            let read = input.read_until(b'\n', &mut body).map_err(unreadable)?;
            if read == 0 {
                ended = true;
                break;
            }
            bar.inc(read as u64);
            lines += 1;
        }
        // A file that is only a heading is sent all the same, so that a bad one is told.
        if lines > 0 || (ended && before <= 1) {
            let payload =
                Payload { body: body.into(), content_type: Some(format.media()), ..Payload::default() };
            let told = client.post(&path, payload).await?;
            for error in told["errors"].as_array().into_iter().flatten() {
                let shown = before - u64::from(!heading.is_empty());
                let line = error["line"].as_u64().unwrap_or_default() + shown;
                total[3] += 1;
                if total[3] <= ERRORS_SHOWN {
                    bar.suspend(|| say_refused(shared, line, error));
                }
            }
            for (sum, name) in total.iter_mut().zip(["lines", "added", "known"]) {
                *sum += told[name].as_u64().unwrap_or_default();
            }
            total[3] = total[3].max(total[0] - total[1] - total[2]);
        }
        before += lines;
        if ended {
            break;
        }
    }
    bar.finish_and_clear();
    let [lines, added, known, refused] = total;
    if shared.json {
        out::document(&json!({"lines": lines, "added": added, "known": known, "refused": refused}));
    } else {
        out::line(format!("{added} added, {known} known before, {refused} refused"));
    }
    if refused == 0 { Ok(()) } else { Err(Trouble::told()) }
}

fn say_refused(shared: &Shared, line: u64, error: &Value) {
    match shared.json {
        true => {
            out::note(json!({"line": line, "code": error["code"], "reason": error["reason"]}).to_string());
        }
        false => out::note(format!("line {line}: {} ({})", word(error, "reason"), word(error, "code"))),
    }
}

fn word(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}
