//! `pombo dead`: dead letters, by cause; put right, sent again or given up.

use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal, Write as _};

use clap::{Args, Subcommand};
use http::Method;
use pombo_kernel::id::MessageId;
use pombo_kernel::time::Clock as _;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::messages::{self, Filters, Listed};
use super::operations::{follow, number, word};
use super::out::{self, Paint, Table};
use super::reveal::{Reveal, hides};
use super::{Shared, Trouble};
use crate::client::{Client, Message, Payload};
use crate::clock::SystemClock;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Dead letters by cause, the largest group first
    Groups {
        /// Most groups to list
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
        limit: u16,
    },
    /// List dead letters, the newest first
    #[command(after_help = "Examples:
  pombo dead list --channel crm --since 2026-01-31T00:00:00Z
  pombo dead list --group cause_0123456789abcdef --all --json > letters.ndjson")]
    List(Box<List>),
    /// Show one dead letter: every attempt, what people did, what it said before
    Show {
        /// The message's id: msg_… or a UUID
        #[arg(value_parser = messages::id)]
        id: MessageId,
        #[command(flatten)]
        reveal: Reveal,
    },
    /// Put a dead letter right: in $EDITOR, or by options; then reprocess it
    #[command(after_help = "Examples:
  pombo dead edit msg_… --to +5511987654321 --note 'number was wrong'
  pombo dead edit msg_… --set payload.user.name=Ana --set content.headers.x-a='\"1\"'
  pombo dead edit msg_…                                   opens $EDITOR

It is checked like a new message of its channel, and what it said until then is kept.")]
    Edit(Box<Edit>),
    /// Give dead letters a new round of attempts
    #[command(after_help = "Examples:
  pombo dead reprocess msg_… msg_…
  pombo dead reprocess --group cause_0123456789abcdef --dry-run
  pombo dead reprocess --group cause_0123456789abcdef --rate 600 --note 'provider is back'
  pombo dead reprocess --channel crm --canary 5 --yes

Of more than ten letters one goes first, and the others only once it was sent; --canary 0 sends all at once.
Ctrl-C leaves the operation running.")]
    Reprocess(Box<Reprocess>),
    /// Give dead letters up for good
    #[command(after_help = "Examples:
  pombo dead discard msg_… --note 'customer left'
  pombo dead discard --group cause_0123456789abcdef --dry-run")]
    Discard(Box<Act>),
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    which: Which,
    /// Most letters to list
    #[arg(long, default_value_t = 50, conflicts_with = "all")]
    limit: usize,
    /// List every letter that matches, page by page
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    reveal: Reveal,
}

/// Which dead letters.
#[derive(Debug, Args)]
struct Which {
    /// One cause, as `dead groups` names it
    #[arg(long, value_name = "CAUSE", visible_alias = "cause")]
    group: Option<String>,
    #[command(flatten)]
    filters: Filters,
}

impl Which {
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let cause = self.group.clone().map(|cause| ("cause", cause));
        cause.into_iter().chain(self.filters.pairs()).collect()
    }
}

#[derive(Debug, Args)]
pub(crate) struct Edit {
    /// The message's id: msg_… or a UUID
    #[arg(value_parser = messages::id)]
    id: MessageId,
    /// The recipient that it should have gone to
    #[arg(long)]
    to: Option<String>,
    /// What its template is filled with, as JSON
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// What it says, as JSON, in place of its content or template
    #[arg(long, value_name = "JSON")]
    content: Option<String>,
    /// One value within the payload or content, for example payload.user.name=Ana; text, or JSON
    #[arg(long = "set", value_name = "PATH=VALUE")]
    changes: Vec<String>,
    /// Why, for whoever looks
    #[arg(long)]
    note: Option<String>,
    #[command(flatten)]
    reveal: Reveal,
}

#[derive(Debug, Args)]
pub(crate) struct Reprocess {
    #[command(flatten)]
    act: Act,
    /// So many go first, and the others only once these were sent; 0 for none
    #[arg(long, value_name = "COUNT", conflicts_with = "ids")]
    canary: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct Act {
    /// Ids of messages; else describe them by the options below
    #[arg(value_parser = messages::id, conflicts_with_all = ["group", "all", "rate"])]
    ids: Vec<MessageId>,
    #[command(flatten)]
    which: Which,
    /// Every dead letter
    #[arg(long)]
    all: bool,
    /// Say how many there are, show a few, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Letters a minute, at most
    #[arg(long, value_name = "PER_MINUTE", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Why, for whoever looks
    #[arg(long)]
    note: Option<String>,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Start it and come back at once
    #[arg(long)]
    detach: bool,
}

pub(crate) async fn run(verb: Verb, shared: &Shared) -> Result<(), Trouble> {
    let client = shared.client()?;
    match verb {
        Verb::Groups { limit } => groups(&client, limit, shared).await,
        Verb::List(args) => {
            let listed = Listed {
                path: "/v1/dead-letters",
                filters: args.which.pairs(),
                limit: args.limit,
                all: args.all,
                reveal: args.reveal,
                none: "no dead letter matches",
            };
            messages::pages(&client, &listed, shared).await
        }
        Verb::Show { id, reveal } => show(&client, id, reveal, shared).await,
        Verb::Edit(args) => edit(&client, *args, shared).await,
        Verb::Reprocess(args) => act(&client, args.act, "reprocess", args.canary, shared).await,
        Verb::Discard(args) => act(&client, *args, "discard", None, shared).await,
    }
}

async fn groups(client: &Client, limit: u16, shared: &Shared) -> Result<(), Trouble> {
    let page = client.get(&format!("/v1/dead-letters/groups?limit={limit}")).await?;
    let items = page["items"].as_array().cloned().unwrap_or_default();
    if shared.json {
        items.iter().for_each(out::object);
        return Ok(());
    }
    let mut table =
        Table::new(["cause", "letters", "channel", "category", "last", "error"]).cut(5, 20).spare([4]);
    for item in &items {
        let text = |name: &str| word(item, name).to_owned();
        let count = number(item, "count").to_string();
        table.row([text("cause"), count, text("channel"), text("category"), text("last_at"), text("text")]);
    }
    match table.is_empty() {
        true => out::note("no dead letters"),
        false => {
            table.print();
            out::note(
                "look at one with `pombo dead list --group CAUSE`; send it again with `pombo dead reprocess --group CAUSE`",
            );
        }
    }
    Ok(())
}

async fn show(client: &Client, id: MessageId, reveal: Reveal, shared: &Shared) -> Result<(), Trouble> {
    let path = reveal.at(&format!("/v1/dead-letters/{id}"));
    let body = client.call(Method::GET, &path, Payload::default()).await?;
    if shared.json {
        out::written(&String::from_utf8_lossy(&body));
        return Ok(());
    }
    let (message, letter): (Message, Value) = (client.parse(&body)?, client.parse(&body)?);
    let paint = Paint::stdout();
    messages::story(&message, None, SystemClock::new().now(), paint).iter().for_each(out::line);
    let cause = &letter["cause"];
    let say = |what: &str, value: String| {
        out::line(format!("{} {value}", paint.dim(&format!("  {what:<10}"))));
    };
    if cause.is_object() {
        say(
            "cause",
            format!("{} {} · {}", word(cause, "id"), word(cause, "category"), out::tame(word(cause, "text"))),
        );
    }
    say("version", number(&letter, "version").to_string());
    let done = |it: &Value, at: &str, what: &str| {
        let note = it["note"].as_str().map(|note| format!(": {}", out::tame(note))).unwrap_or_default();
        format!("  {} {what} by {}{note}", paint.dim(word(it, at)), word(it, "by"))
    };
    for deed in letter["deeds"].as_array().into_iter().flatten() {
        out::line(done(deed, "at", word(deed, "what")));
    }
    for revision in letter["revisions"].as_array().into_iter().flatten() {
        let what = format!(
            "version {} (to {}) edited",
            number(revision, "version"),
            out::tame(word(revision, "to"))
        );
        out::line(done(revision, "replaced_at", &what));
    }
    reveal.hint(hides(&String::from_utf8_lossy(&body)));
    Ok(())
}

/// What of a letter can be edited, as it was written.
#[derive(Debug, Default, Deserialize)]
struct Editable {
    #[serde(default)]
    version: u32,
    to: String,
    payload: Option<Box<RawValue>>,
    content: Option<Box<RawValue>>,
}

impl Editable {
    fn is_masked(&self) -> bool {
        let said = [&self.payload, &self.content].into_iter().flatten().map(|json| json.get());
        said.chain([self.to.as_str()]).any(hides)
    }
}

async fn edit(client: &Client, args: Edit, shared: &Shared) -> Result<(), Trouble> {
    let path = format!("/v1/dead-letters/{}", args.id);
    let body = client.call(Method::GET, &args.reveal.at(&path), Payload::default()).await?;
    let letter: Editable = client.parse(&body)?;
    let by_options =
        args.to.is_some() || args.payload.is_some() || args.content.is_some() || !args.changes.is_empty();
    // What is changed in place has to be seen.
    if (!by_options || !args.changes.is_empty()) && letter.is_masked() {
        return Err(Trouble::usage("what the letter says is masked for this key, and nothing was changed")
            .hint("add --reveal, which goes to the audit, or give the whole of it with --to, --payload or --content"));
    }
    let changes = match by_options {
        true => by_hand(&letter, &args)?,
        false => in_editor(&letter)?,
    };
    if changes.is_empty() {
        out::note("nothing was changed");
        return Ok(());
    }
    let mut document: BTreeMap<&str, Box<RawValue>> = changes;
    document.insert("version", raw(&json!(letter.version)));
    if let Some(note) = &args.note {
        document.insert("note", raw(&json!(note)));
    }
    let text = serde_json::to_string(&document).unwrap_or_default();
    let payload =
        Payload { body: text.into(), content_type: Some("application/json"), idempotency_key: None };
    let body = client.call(Method::PATCH, &path, payload).await?;
    if shared.json {
        out::written(&String::from_utf8_lossy(&body));
    } else {
        let edited: Value = client.parse(&body)?;
        let (id, version) = (args.id, number(&edited, "version"));
        out::line(format!("{id} edited: version {version}; send it with `pombo dead reprocess {id}`"));
    }
    Ok(())
}

type Changes = BTreeMap<&'static str, Box<RawValue>>;

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("a JSON value is always writable")
}

/// What the options change.
fn by_hand(letter: &Editable, args: &Edit) -> Result<Changes, Trouble> {
    let mut changes = Changes::new();
    if let Some(to) = &args.to {
        changes.insert("to", raw(&json!(to)));
    }
    for (name, given) in [("payload", &args.payload), ("content", &args.content)] {
        if let Some(text) = given {
            let json = RawValue::from_string(text.clone())
                .map_err(|error| Trouble::usage(format!("--{name} is not JSON")).why(error))?;
            changes.insert(name, json);
        }
    }
    for change in &args.changes {
        let bad = |why: &str| {
            Trouble::usage(format!("--set {change} cannot be used"))
                .why(why)
                .hint("write --set payload.name=Ana or --set content.body.count=3")
        };
        let (path, value) = change.split_once('=').ok_or_else(|| bad("there is no `=`"))?;
        let (root, rest) = path.split_once('.').ok_or_else(|| bad("the path names no value"))?;
        let (name, before) = match root {
            "payload" => ("payload", &letter.payload),
            "content" => ("content", &letter.content),
            _ => return Err(bad("the path begins with neither `payload` nor `content`")),
        };
        let text = changes.get(name).or(before.as_ref()).map_or("{}", |raw| raw.get());
        let mut document: Value = serde_json::from_str(text).map_err(|_| bad("there is no such document"))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
        set(&mut document, rest, value).ok_or_else(|| bad("there is no such place"))?;
        changes.insert(name, raw(&document));
    }
    Ok(changes)
}

/// Sets a value at a path of names and numbers; members that are not there are made.
fn set(document: &mut Value, path: &str, value: Value) -> Option<()> {
    let mut place = document;
    for name in path.split('.') {
        if place.is_null() {
            *place = Value::Object(Map::new());
        }
        place = match place {
            Value::Object(members) => members.entry(name).or_insert(Value::Null),
            Value::Array(items) => items.get_mut(name.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    *place = value;
    Some(())
}

/// What a person changes in their editor.
fn in_editor(letter: &Editable) -> Result<Changes, Trouble> {
    let named = ["VISUAL", "EDITOR"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|it| !it.is_empty()));
    let seen = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    // One that is named may well work by itself; the usual one would wait for keys that nobody can press.
    let editor = match (named, seen) {
        (Some(editor), _) => editor,
        (None, true) => "vi".to_owned(),
        (None, false) => {
            return Err(Trouble::usage("there is no terminal to edit in, and nothing was changed")
                .hint("say what to change with --to, --payload, --content or --set, or name an EDITOR"));
        }
    };
    let mut before: Changes = [("to", raw(&json!(letter.to)))].into();
    before.extend(letter.payload.clone().map(|payload| ("payload", payload)));
    before.extend(letter.content.clone().map(|content| ("content", content)));
    let failed =
        |error: std::io::Error| Trouble::new("the editor cannot be used", "EDITOR_FAILED").why(error);
    let mut file = tempfile::Builder::new().prefix("pombo-").suffix(".json").tempfile().map_err(failed)?;
    let text = out::indented(&serde_json::to_string(&before).unwrap_or_default());
    writeln!(file, "{text}").map_err(failed)?;
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &format!("{editor} \"$1\""), "sh"]).arg(file.path());
    let status = command.status().map_err(failed)?;
    if !status.success() {
        let trouble =
            Trouble::new(format!("`{editor}` ended badly, and nothing was changed"), "EDITOR_FAILED");
        return Err(trouble.why(status).hint("set EDITOR, or use --to, --payload, --content and --set"));
    }
    let text = std::fs::read_to_string(file.path()).map_err(failed)?;
    edited(&before, &text)
}

/// The members that say something else than before.
fn edited(before: &Changes, text: &str) -> Result<Changes, Trouble> {
    let after: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).map_err(|error| {
        Trouble::new("what was written is not JSON, and nothing was changed", "EDITOR_FAILED").why(error)
    })?;
    let mut changes = Changes::new();
    for (name, value) in after {
        let known = ["to", "payload", "content"].into_iter().find(|known| *known == name);
        let known = known.ok_or_else(|| {
            Trouble::usage(format!("`{name}` cannot be edited")).hint("there are to, payload and content")
        })?;
        let same = |text: &str| serde_json::from_str::<Value>(text).ok();
        if before.get(known).is_none_or(|old| same(old.get()) != same(value.get())) {
            changes.insert(known, value);
        }
    }
    Ok(changes)
}

async fn act(
    client: &Client,
    args: Act,
    verb: &'static str,
    canary: Option<u32>,
    shared: &Shared,
) -> Result<(), Trouble> {
    let filters = args.which.pairs();
    let mut wish = match (args.ids.is_empty(), filters.is_empty()) {
        (false, true) => json!({"ids": args.ids}),
        (false, false) => return Err(Trouble::usage("ids and filters do not go together")),
        (true, true) if !args.all => {
            return Err(Trouble::usage(format!("which dead letters to {verb} is not said"))
                .hint("name ids, or --group, --channel or another filter, or --all"));
        }
        (true, _) => json!({"filter": filters.into_iter().collect::<BTreeMap<_, _>>()}),
    };
    let path = format!("/v1/dead-letters/{verb}");
    let dry = |wish: &Value| {
        let mut wish = wish.clone();
        wish["dry_run"] = json!(true);
        Payload::json(&wish)
    };
    if args.dry_run {
        let counted = client.post(&path, dry(&wish)).await?;
        match shared.json {
            true => out::document(&counted),
            false => preview(&counted, verb),
        }
        return Ok(());
    }
    let asked = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if args.ids.is_empty() && !args.yes && !asked {
        return Err(Trouble::usage(format!("nobody can be asked here whether to {verb} all that matches"))
            .hint("see what that is with --dry-run, then say --yes"));
    }
    if args.ids.len() != 1 && !args.yes && asked {
        let counted = client.post(&path, dry(&wish)).await?;
        if number(&counted, "count") == 0 {
            out::note("no dead letter matches");
            return Ok(());
        }
        preview(&counted, verb);
        if !agreed() {
            out::note("nothing was changed");
            return Ok(());
        }
    }
    let options =
        [("note", json!(args.note)), ("rate_per_minute", json!(args.rate)), ("canary", json!(canary))];
    for (name, value) in options.into_iter().filter(|(_, value)| !value.is_null()) {
        wish[name] = value;
    }
    let answer = client.post(&path, Payload::json(&wish)).await?;
    let Some(id) = answer["id"].as_str() else { return told(&answer, verb, shared) };
    if args.detach {
        match shared.json {
            true => out::document(&answer),
            false => out::line(format!("{id} started; follow it with `pombo operations watch {id}`")),
        }
        return Ok(());
    }
    follow(client, id, shared).await
}

/// What would be touched.
fn preview(counted: &Value, verb: &str) {
    let more = if counted["at_least"] == true { "at least " } else { "" };
    out::line(format!("{more}{} dead letters to {verb}", number(counted, "count")));
    for sample in counted["samples"].as_array().into_iter().flatten() {
        let (id, channel, to) = (word(sample, "id"), word(sample, "channel"), word(sample, "to"));
        let cause = &sample["cause"];
        let why = format!("{} {}", word(cause, "category"), word(cause, "text"));
        out::line(format!("  {id} {channel} {} · {}", out::clipped(to, 40), out::clipped(why.trim(), 60)));
    }
}

/// Asks whether to go on.
pub(super) fn agreed() -> bool {
    let mut err = std::io::stderr().lock();
    let _ = write!(err, "go on? [y/N] ");
    let _ = err.flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer).is_ok();
    read && matches!(answer.trim(), "y" | "Y" | "yes")
}

/// What came of letters that were named by their ids.
fn told(answer: &Value, verb: &str, shared: &Shared) -> Result<(), Trouble> {
    let skipped = number(answer, "skipped");
    if shared.json {
        out::document(answer);
    } else {
        let results = answer["results"].as_array().into_iter().flatten();
        for result in results.filter(|result| result["result"] != "done") {
            let why = match result["state"].as_str() {
                Some(state) => format!("is {state}"),
                None => "does not exist".to_owned(),
            };
            out::note(format!("{} {why}", word(result, "id")));
        }
        let past = if verb == "discard" { "discarded" } else { "reprocessed" };
        out::line(format!("{} {past}", number(answer, "done")));
    }
    if skipped == 0 { Ok(()) } else { Err(Trouble::told()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter() -> Editable {
        let content =
            RawValue::from_string(r#"{"body":{"a":[1,2]},"big":12345678901234567890123}"#.to_owned());
        Editable { version: 1, to: "https://a.example".to_owned(), payload: None, content: content.ok() }
    }

    #[test] // REQ DL-1
    fn values_are_set_by_their_paths() {
        let mut document = json!({"a": {"b": [1, 2]}});
        assert!(set(&mut document, "a.b.1", json!("x")).is_some());
        assert!(set(&mut document, "c.d", json!(3)).is_some());
        assert_eq!(document, json!({"a": {"b": [1, "x"]}, "c": {"d": 3}}));
        assert!(set(&mut document, "a.b.7", json!(1)).is_none());
        assert!(set(&mut document, "c.d.e", json!(1)).is_none());
    }

    #[test] // REQ DL-1
    fn only_what_an_editor_changed_is_sent_and_as_it_was_written() {
        let letter = letter();
        let before: Changes = [("to", raw(&json!(letter.to))), ("content", letter.content.unwrap())].into();
        let same = r#"{"to": "https://a.example", "content": {"body": {"a": [1, 2]}, "big": 12345678901234567890123}}"#;
        assert!(edited(&before, same).unwrap().is_empty());
        let other = edited(&before, r#"{"to": "https://b.example"}"#).unwrap();
        assert_eq!(other.keys().collect::<Vec<_>>(), [&"to"]);
        assert!(edited(&before, "{").is_err());
        assert!(edited(&before, r#"{"state": "sent"}"#).is_err());
    }
}
