//! `pombo reports`: what people are sent regularly.

use clap::Subcommand;
use pombo_kernel::window::Date;
use serde_json::json;

use super::out::{self, Table};
use super::{Shared, Trouble};
use crate::client::Payload;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the reports: of what time, sent when and to whom
    List,
    /// Show what a report says
    #[command(after_help = "Examples:
  pombo reports show daily
  pombo reports show weekly --date 2026-11-12 --language pt-BR")]
    Show {
        /// As it is configured: [reports.NAME]
        name: String,
        /// A day of the time that it is about [default: the last that has ended]
        #[arg(long, value_name = "YYYY-MM-DD", value_parser = day)]
        date: Option<Date>,
        /// What it is written in: en or pt-BR
        #[arg(long, value_name = "LANGUAGE")]
        language: Option<String>,
    },
    /// Send a report at once, to those who get it anyway
    #[command(after_help = "Example:\n  pombo reports send weekly")]
    Send {
        /// As it is configured: [reports.NAME]
        name: String,
        /// A day of the time that it is about [default: the last that has ended]
        #[arg(long, value_name = "YYYY-MM-DD", value_parser = day)]
        date: Option<Date>,
    },
}

fn day(text: &str) -> Result<Date, String> {
    text.parse().map_err(|bad: pombo_kernel::window::BadDate| bad.to_string())
}

pub(crate) async fn run(verb: Verb, shared: &Shared) -> Result<(), Trouble> {
    let client = shared.client()?;
    match verb {
        Verb::List => {
            let page = client.get("/v1/reports").await?;
            let items = page["items"].as_array().cloned().unwrap_or_default();
            if shared.json {
                items.iter().for_each(out::object);
                return Ok(());
            }
            let headings = ["name", "every", "at", "time zone", "to", "next", "last sent"];
            let mut table = Table::new(headings).spare([3, 6]);
            for item in &items {
                let [name, every, at, day, zone, next, last] =
                    ["name", "every", "at", "day", "time_zone", "next_at", "last_sent_at"]
                        .map(|key| out::field(item, key));
                let every = if day.is_empty() { every } else { format!("{every} ({day})") };
                table.row([name, every, at, zone, out::fields(item, "notify"), next, last]);
            }
            match table.is_empty() {
                true => out::note("no report is configured: add [reports.daily]"),
                false => table.print(),
            }
        }
        Verb::Show { name, date, language } => {
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            for (key, value) in [("date", date.map(|date| date.to_string())), ("language", language)] {
                if let Some(value) = value {
                    query.append_pair(key, &value);
                }
            }
            let found = client.get(&format!("{}?{}", at(&name), query.finish())).await?;
            if shared.json {
                out::document(&found);
                return Ok(());
            }
            let subject = out::field(&found, "subject");
            let title = subject.strip_prefix("[Pombo] ").unwrap_or(&subject);
            out::line(out::Paint::stdout().bold(&out::tame(title)));
            for line in found["text"].as_str().unwrap_or_default().lines() {
                out::line(out::tame(line));
            }
        }
        Verb::Send { name, date } => {
            let wish = Payload::json(&json!({ "date": date }));
            let sent = client.post(&format!("{}/send", at(&name)), wish).await?;
            if shared.json {
                out::document(&sent);
                return Ok(());
            }
            let names = sent["notices"].as_array().into_iter().flatten();
            let names: Vec<_> = names.filter_map(|it| it["to"].as_str()).collect();
            let [first, last] = ["first", "last"].map(|key| out::field(&sent, key));
            let of = if first == last { first } else { format!("{first} to {last}") };
            out::line(format!("{name} of {of} is on its way to {}", names.join(", ")));
        }
    }
    Ok(())
}

fn at(name: &str) -> String {
    let name: String = url::form_urlencoded::byte_serialize(name.as_bytes()).collect();
    format!("/v1/reports/{name}")
}
