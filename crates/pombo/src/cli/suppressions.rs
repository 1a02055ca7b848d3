//! `pombo suppressions`: who is not written to any more.

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

use super::campaigns::lists::{List, upload};
use super::out::{self, Table};
use super::reveal::{Reveal, hides};
use super::{Shared, Trouble};
use crate::client::{Client, Payload};

/// More bad lines than this are counted, not printed.
const ERRORS_SHOWN: usize = 100;

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
        #[command(flatten)]
        reveal: Reveal,
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
    /// Take somebody off the list, by the entry's id or by the address
    #[command(after_help = "Examples:
  pombo suppressions remove sup_…
  pombo suppressions remove --to '+55 11 98765-4321'")]
    Remove {
        /// The entry's id: sup_…
        #[arg(required_unless_present = "to", conflicts_with = "to")]
        id: Option<String>,
        /// An e-mail address or a phone number, written in any way
        #[arg(long, value_name = "ADDRESS")]
        to: Option<String>,
        /// Only the entry of this kind: email or whatsapp
        #[arg(long, requires = "to")]
        kind: Option<String>,
    },
    /// Put everybody on a list in a file: CSV with a heading, JSON, or one JSON object a line
    #[command(after_help = "Examples:
  pombo suppressions import bounces.csv --kind email --reason hard_bounce
  pombo suppressions import clientes.csv --to celular --reason opt_out
  pombo suppressions import - --format ndjson < opted-out.ndjson

It is read as the list of a campaign is: delimiter and encoding are found out, and the column of addresses is known by its
name (recipient, to, email, telefone, celular, …). Other columns are kind, reason, source and note.")]
    Import {
        #[command(flatten)]
        list: List,
        #[command(flatten)]
        usual: Usual,
    },
    /// Print the whole list as CSV, which can be imported
    #[command(after_help = "Example:\n  pombo suppressions export > suppressions.csv")]
    Export {
        #[command(flatten)]
        reveal: Reveal,
    },
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

pub(crate) async fn run(verb: Verb, shared: &Shared) -> Result<(), Trouble> {
    let client = shared.client()?;
    match verb {
        Verb::List { usual, all, reveal } => list(&client, &usual, all, reveal, shared).await,
        Verb::Check { recipient } => {
            let found = look_up(&client, &recipient, None).await?;
            let found = found.first();
            if shared.json {
                out::document(&json!({"suppressed": found.is_some(), "suppression": found}));
            } else {
                out::line(match found {
                    Some(it) => {
                        format!(
                            "suppressed: {} since {}",
                            out::field(it, "reason"),
                            out::field(it, "created_at")
                        )
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
                out::line(format!(
                    "{} is on the list as {}",
                    out::field(&made, "recipient"),
                    out::field(&made, "id")
                ));
            }
            Ok(())
        }
        Verb::Remove { id: Some(id), .. } => remove(&client, &id, shared).await,
        Verb::Remove { to, kind, .. } => {
            let found = look_up(&client, &to.unwrap_or_default(), kind).await?;
            if found.is_empty() {
                return Err(Trouble::new("this address is not on the list", "NOT_FOUND")
                    .hint("`pombo suppressions list` shows who is"));
            }
            for entry in &found {
                remove(&client, &out::field(entry, "id"), shared).await?;
            }
            Ok(())
        }
        Verb::Import { list, usual } => import(&client, &list, usual, shared).await,
        Verb::Export { reveal } => {
            let path = reveal.at("/v1/suppressions/export");
            let list = client.call(Method::GET, &path, Payload::default()).await?;
            let list = String::from_utf8_lossy(&list);
            out::line(list.trim_end());
            reveal.hint(hides(&list));
            Ok(())
        }
    }
}

/// The entries on whoever has that address, however it is written.
async fn look_up(client: &Client, recipient: &str, kind: Option<String>) -> Result<Vec<Value>, Trouble> {
    let mut query = Usual { kind, reason: None }.query();
    query.append_pair("recipient", recipient);
    let page = client.get(&format!("/v1/suppressions?{}", query.finish())).await?;
    Ok(page["items"].as_array().cloned().unwrap_or_default())
}

async fn remove(client: &Client, id: &str, shared: &Shared) -> Result<(), Trouble> {
    let place: String = url::form_urlencoded::byte_serialize(id.as_bytes()).collect();
    client.call(Method::DELETE, &format!("/v1/suppressions/{place}"), Payload::default()).await?;
    match shared.json {
        true => out::document(&json!({"id": id, "removed": true})),
        false => out::line(format!("{id} is off the list")),
    }
    Ok(())
}

/// What kind of address it is, where nobody says so. The server judges.
fn guessed(recipient: &str) -> &'static str {
    match recipient.split_once('@') {
        Some((_, server)) if !matches!(server, "s.whatsapp.net" | "g.us" | "c.us" | "lid") => "email",
        _ => "whatsapp",
    }
}

async fn list(
    client: &Client,
    usual: &Usual,
    all: bool,
    reveal: Reveal,
    shared: &Shared,
) -> Result<(), Trouble> {
    let mut table =
        Table::new(["id", "kind", "recipient", "reason", "source", "since", "note"]).cut(6, 12).cut(2, 20);
    let mut cursor: Option<String> = None;
    let mut hidden = false;
    loop {
        let mut query = usual.query();
        query.extend_pairs(reveal.pair());
        query.append_pair("limit", if all { "500" } else { "50" });
        if let Some(cursor) = &cursor {
            query.append_pair("cursor", cursor);
        }
        let page = client.get(&format!("/v1/suppressions?{}", query.finish())).await?;
        for it in page["items"].as_array().into_iter().flatten() {
            hidden |= hides(&out::field(it, "recipient"));
            match shared.json {
                true => out::object(it),
                false => table.row(
                    ["id", "kind", "recipient", "reason", "source", "created_at", "note"]
                        .map(|name| out::field(it, name)),
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
        reveal.hint(hidden);
        if cursor.is_some() {
            out::note("there are more; --all shows them");
        }
    }
    Ok(())
}

async fn import(client: &Client, list: &List, usual: Usual, shared: &Shared) -> Result<(), Trouble> {
    let query = [("kind", usual.kind), ("reason", usual.reason)];
    let told = upload(client, "/v1/suppressions/import", &query, list.open()?).await?;
    let [lines, added, known, refused] =
        ["lines", "added", "known", "refused"].map(|name| told[name].as_u64().unwrap_or_default());
    let errors = told["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    for error in errors.iter().take(ERRORS_SHOWN) {
        say_refused(shared, error["line"].as_u64().unwrap_or_default(), error);
    }
    if shared.json {
        out::document(&json!({"lines": lines, "added": added, "known": known, "refused": refused}));
    } else {
        let passed_over = told["passed_over"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let passed_over: Vec<String> = passed_over.map(out::tame).collect();
        if !passed_over.is_empty() {
            out::note(format!("columns that say nothing here: {}", passed_over.join(", ")));
        }
        out::line(format!("{added} added, {known} known before, {refused} refused"));
    }
    if refused == 0 { Ok(()) } else { Err(Trouble::told()) }
}

fn say_refused(shared: &Shared, line: u64, error: &Value) {
    match shared.json {
        true => {
            out::note(json!({"line": line, "code": error["code"], "reason": error["reason"]}).to_string());
        }
        false => {
            out::note(format!(
                "line {line}: {} ({})",
                out::field(error, "reason"),
                out::field(error, "code")
            ));
        }
    }
}
