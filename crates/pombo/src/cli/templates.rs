//! `pombo templates`: what messages say, kept in the store, version by version.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use pombo_kernel::template::{Part, Template};
use serde_json::{Map, Value, json};

use super::out::{self, Paint, Table};
use super::{Shared, Trouble};
use crate::client::{Client, Payload};
use crate::templates::examples;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List templates, each with its latest version
    #[command(after_help = "Example:\n  pombo templates list --json")]
    List,
    /// Show what a template says
    #[command(
        disable_version_flag = true,
        after_help = "Examples:
  pombo templates show welcome_user
  pombo templates show welcome_user --version 2
  pombo templates show welcome_user --versions"
    )]
    Show {
        name: String,
        /// An earlier version; the latest if left out
        #[arg(long)]
        version: Option<u32>,
        /// List its versions instead
        #[arg(long, conflicts_with = "version")]
        versions: bool,
    },
    /// Put a template; if it says something new, that is a new version
    Put(Put),
    /// Show what comes of a template with a payload; nothing is sent
    Render(Render),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pombo templates put lembrete --subject 'Sua consulta' --text 'Olá, {{ nome }}: até {{ dia|date_br }}'
  pombo templates put lembrete --subject 'Sua consulta' --html @lembrete.html --whatsapp @lembrete.txt
  pombo templates put --file lembrete.toml
  pombo templates put --examples

A value that begins with @ names a file. A TOML file has the keys subject, text, html and whatsapp.")]
pub(crate) struct Put {
    /// The name by which messages call it [default: that of the file]
    #[arg(required_unless_present_any = ["file", "examples"])]
    name: Option<String>,
    /// The subject of an e-mail
    #[arg(long, value_name = "TEXT|@FILE")]
    subject: Option<String>,
    /// The plain words
    #[arg(long, value_name = "TEXT|@FILE")]
    text: Option<String>,
    /// The words as HTML; values are escaped
    #[arg(long, value_name = "TEXT|@FILE")]
    html: Option<String>,
    /// The words for WhatsApp, where they differ from the plain ones
    #[arg(long, value_name = "TEXT|@FILE")]
    whatsapp: Option<String>,
    /// A TOML file with all parts
    #[arg(long, value_name = "FILE", conflicts_with_all = ["subject", "text", "html", "whatsapp"])]
    file: Option<PathBuf>,
    /// Put the templates that come with Pombo
    #[arg(long, conflicts_with_all = ["name", "file", "subject", "text", "html", "whatsapp"])]
    examples: bool,
}

#[derive(Debug, Args)]
#[command(
    disable_version_flag = true,
    after_help = "Examples:
  pombo templates render welcome_user --var user_data.full_name=Ana
  pombo templates render welcome_user --payload '{\"user_data\": {\"full_name\": \"Ana\"}}' --kind evolution
  pombo templates render welcome_user --payload @payload.json --version 2"
)]
pub(crate) struct Render {
    name: String,
    #[command(flatten)]
    filling: Filling,
    /// The kind of channel to render for: smtp, resend, evolution
    #[arg(long)]
    kind: Option<String>,
    /// The channel to render for, instead of a kind
    #[arg(long, conflicts_with = "kind")]
    channel: Option<String>,
    /// An earlier version; the latest if left out
    #[arg(long)]
    version: Option<u32>,
}

/// What a template is filled with.
#[derive(Debug, Default, Args)]
pub(crate) struct Filling {
    /// What the template is filled with, as JSON
    #[arg(long, value_name = "JSON|@FILE")]
    payload: Option<String>,
    /// One value of it, such as user_data.full_name=Ana; as often as needed
    #[arg(long = "var", value_name = "NAME=VALUE")]
    vars: Vec<String>,
}

impl Filling {
    pub(crate) fn is_empty(&self) -> bool {
        self.payload.is_none() && self.vars.is_empty()
    }

    /// The payload, with each variable in its place.
    pub(crate) fn payload(&self) -> Result<Value, Trouble> {
        let mut payload = match &self.payload {
            None => json!({}),
            Some(given) => serde_json::from_str(&text_or_file(given)?).map_err(|error| {
                Trouble::usage("--payload is not JSON")
                    .why(error)
                    .hint("for example: --payload '{\"name\": \"Ana\"}'")
            })?,
        };
        for var in &self.vars {
            let (name, value) =
                var.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
                    Trouble::usage(format!("--var `{var}` is not NAME=VALUE"))
                        .hint("for example: --var user_data.full_name=Ana")
                })?;
            set(&mut payload, name, value)?;
        }
        Ok(payload)
    }
}

/// Puts a value under a dotted name, making what is not there.
fn set(payload: &mut Value, name: &str, value: &str) -> Result<(), Trouble> {
    let mut place = payload;
    for part in name.split('.') {
        let members = place.as_object_mut().ok_or_else(|| {
            Trouble::usage(format!("--var `{name}` goes into what is not an object"))
                .hint("give each name once, and either a value or names below it")
        })?;
        place = members.entry(part).or_insert_with(|| Value::Object(Map::new()));
    }
    *place = json!(value);
    Ok(())
}

pub(crate) async fn run(verb: Verb, shared: &Shared) -> Result<(), Trouble> {
    let client = shared.client()?;
    match verb {
        Verb::List => {
            let found = pages(&client, "/v1/templates").await?;
            if found.is_empty() && !shared.json {
                out::note(
                    "there is no template yet; `pombo templates put --examples` puts some to begin with",
                );
            }
            listed(&found, shared);
            Ok(())
        }
        Verb::Show { name, versions: true, .. } => {
            listed(&pages(&client, &format!("{}/versions", path(&name))).await?, shared);
            Ok(())
        }
        Verb::Show { name, version, .. } => {
            let query = version.map(|version| format!("?version={version}")).unwrap_or_default();
            let template = client.get(&format!("{}{query}", path(&name))).await?;
            shown(&template, shared);
            Ok(())
        }
        Verb::Put(args) => put(&client, &args, shared).await,
        Verb::Render(args) => {
            let mut body = json!({"payload": args.filling.payload()?});
            let given = [("kind", &args.kind), ("channel", &args.channel)];
            for (field, value) in
                given.into_iter().filter_map(|(field, value)| Some((field, value.as_ref()?)))
            {
                body[field] = json!(value);
            }
            if let Some(version) = args.version {
                body["version"] = json!(version);
            }
            let rendered = client.post(&format!("{}/render", path(&args.name)), Payload::json(&body)).await?;
            if shared.json {
                out::document(&rendered);
            } else {
                parts(&rendered["content"]);
            }
            Ok(())
        }
    }
}

async fn put(client: &Client, args: &Put, shared: &Shared) -> Result<(), Trouble> {
    for (name, template) in given(args)? {
        let body = json!(template);
        let stored = client.put(&path(&name), Payload::json(&body)).await?;
        if shared.json {
            out::object(&stored);
        } else {
            out::line(format!("{name} is at version {}", stored["version"]));
        }
    }
    Ok(())
}

/// The templates to put, by name.
fn given(args: &Put) -> Result<Vec<(String, Template)>, Trouble> {
    if args.examples {
        return Ok(examples().into_iter().map(|(name, template)| (name.to_owned(), template)).collect());
    }
    if let Some(file) = &args.file {
        let template: Template = toml::from_str(&read(file)?).map_err(|error| {
            Trouble::usage(format!("{} is not a template", file.display()))
                .why(error.message())
                .hint("its keys are subject, text, html and whatsapp, each with a text")
        })?;
        let stem = || file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = args.name.clone().or_else(stem).unwrap_or_default();
        return Ok(vec![(name, template)]);
    }
    let part = |text: &Option<String>| text.as_deref().map(text_or_file).transpose();
    let template = Template {
        subject: part(&args.subject)?,
        text: part(&args.text)?,
        html: part(&args.html)?,
        whatsapp: part(&args.whatsapp)?,
    };
    if template.parts().next().is_none() {
        return Err(Trouble::usage("nothing to put")
            .hint("give at least one of --subject, --text, --html and --whatsapp, or --file"));
    }
    Ok(vec![(args.name.clone().unwrap_or_default(), template)])
}

/// A text as it was given, or what stands in the file that it names.
fn text_or_file(given: &str) -> Result<String, Trouble> {
    match given.strip_prefix('@') {
        Some(file) => read(Path::new(file)),
        None => Ok(given.to_owned()),
    }
}

fn read(file: &Path) -> Result<String, Trouble> {
    std::fs::read_to_string(file).map_err(|error| {
        Trouble::new(format!("{} cannot be read", file.display()), "FILE_UNREADABLE").why(error)
    })
}

fn path(name: &str) -> String {
    let name: String = url::form_urlencoded::byte_serialize(name.as_bytes()).collect();
    format!("/v1/templates/{name}")
}

async fn pages(client: &Client, path: &str) -> Result<Vec<Value>, Trouble> {
    let mut found = Vec::new();
    let mut query = String::new();
    loop {
        let page = client.get(&format!("{path}{query}")).await?;
        found.extend(page["items"].as_array().cloned().unwrap_or_default());
        match page["next_cursor"].as_str() {
            Some(cursor) => query = format!("?cursor={cursor}"),
            None => return Ok(found),
        }
    }
}

fn listed(items: &[Value], shared: &Shared) {
    if shared.json {
        return items.iter().for_each(out::object);
    }
    let word = |item: &Value, name: &str| item[name].as_str().unwrap_or_default().to_owned();
    let mut table = Table::new(["template", "version", "parts", "put at", "by"]).cut(4, 10).spare([4, 3]);
    for item in items {
        let parts = item["parts"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let parts = parts.collect::<Vec<_>>().join(", ");
        let version = item["version"].to_string();
        table.row([word(item, "name"), version, parts, word(item, "created_at"), word(item, "created_by")]);
    }
    if !table.is_empty() {
        table.print();
    }
}

fn shown(template: &Value, shared: &Shared) {
    if shared.json {
        return out::document(template);
    }
    let word = |name: &str| template[name].as_str().unwrap_or_default();
    let version = &template["version"];
    out::line(format!(
        "{} version {version}, put at {} by {}",
        word("name"),
        word("created_at"),
        word("created_by")
    ));
    parts(template);
}

/// Each part under its name.
fn parts(of: &Value) {
    let paint = Paint::stdout();
    for part in Part::ALL.map(Part::as_str) {
        if let Some(text) = of[part].as_str() {
            out::line(paint.dim(&format!("── {part}")));
            out::line(text.trim_end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(payload: Option<&str>, vars: &[&str]) -> Result<Value, Trouble> {
        let vars = vars.iter().map(|var| (*var).to_owned()).collect();
        Filling { payload: payload.map(str::to_owned), vars }.payload()
    }

    #[test]
    fn variables_go_into_their_places() {
        let made =
            payload(Some(r#"{"n": 1, "user": {"id": 7}}"#), &["user.full_name=Ana = Bia", "a.b.c=", "n=2"]);
        let wanted = json!({"n": "2", "user": {"id": 7, "full_name": "Ana = Bia"}, "a": {"b": {"c": ""}}});
        assert_eq!(made, Ok(wanted));
    }

    #[test]
    fn what_is_no_variable_is_refused_with_a_hint() {
        for (given, vars) in [
            (None, &["a"][..]),
            (None, &["=1"]),
            (None, &["a=1", "a.b=2"]),
            (Some("{"), &[]),
            (Some("[]"), &["a=1"]),
        ] {
            let trouble = payload(given, vars).unwrap_err();
            assert!(trouble.hint.is_some() && trouble.code == "BAD_USAGE", "{trouble:?}");
        }
    }
}
