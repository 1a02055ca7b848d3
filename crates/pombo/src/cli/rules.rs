//! `pombo rules`: what errors mean, and rules that history suggests.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Map, Value, json};
use url::form_urlencoded::Serializer;

use super::out::{self, Paint, Table};
use super::{Shared, Trouble};
use crate::client::Payload;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the rules, in the order in which they are tried
    #[command(after_help = "Examples:
  pombo rules list --origin accepted
  pombo rules list --channel email --json")]
    List {
        /// Only of this channel
        #[arg(long, value_name = "NAME")]
        channel: Option<String>,
        /// configured, accepted or built_in
        #[arg(long)]
        origin: Option<String>,
    },
    /// List errors that no rule knows, and what their history suggests
    #[command(after_help = "Examples:
  pombo rules suggest
  pombo rules suggest --channel email --json")]
    Suggest {
        /// Only of this channel
        #[arg(long, value_name = "NAME")]
        channel: Option<String>,
    },
    /// Accept a rule, suggested or written out; every node goes by it within seconds
    #[command(after_help = "Examples:
  pombo rules accept sug_0123456789abcdef
  pombo rules accept sug_0123456789abcdef --verdict permanent --category plan_over --note 'asked the provider'
  pombo rules accept --channel email --contains 'engine is cold' --verdict transient --category engine_cold
  pombo rules accept --channel email --file rule.json")]
    Accept {
        #[command(flatten)]
        rule: RuleArgs,
        /// Why, for whoever reads it later
        #[arg(long)]
        note: Option<String>,
    },
    /// Say what a rule would change in the dead letters that there are; nothing is changed
    #[command(after_help = "Examples:
  pombo rules try sug_0123456789abcdef
  pombo rules try --channel email --contains 'engine is cold' --verdict transient --category engine_cold")]
    Try {
        #[command(flatten)]
        rule: RuleArgs,
    },
    /// Take back a rule that was accepted
    #[command(after_help = "Example:\n  pombo rules remove rule_0123456789abcdef")]
    Remove {
        /// The rule's id: rule_…
        id: String,
    },
}

/// Which rule.
#[derive(Debug, Args)]
pub(crate) struct RuleArgs {
    /// The suggestion's id: sug_…
    #[arg(required_unless_present = "channel", conflicts_with_all = ["channel", "file"])]
    suggestion: Option<String>,
    /// The channel that a rule which is written out is for
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// The rule as JSON, as in the configuration; - reads standard input
    #[arg(long, value_name = "FILE", requires = "channel", conflicts_with_all = ["contains", "status", "matches", "verdict", "category"])]
    file: Option<PathBuf>,
    /// Words of the error, in any case; any one of them if given several times
    #[arg(long, value_name = "WORDS", requires = "channel")]
    contains: Vec<String>,
    /// HTTP status or SMTP code: 429, 5xx or 520-527
    #[arg(long, value_name = "CODE", requires = "channel")]
    status: Vec<String>,
    /// A regular expression over the error's words
    #[arg(long, value_name = "REGEX", requires = "channel")]
    matches: Option<String>,
    /// transient, permanent or sender_fault
    #[arg(long)]
    verdict: Option<String>,
    /// A short slug such as engine_cold
    #[arg(long)]
    category: Option<String>,
}

impl RuleArgs {
    /// What the API is asked.
    fn wish(self) -> Result<Map<String, Value>, Trouble> {
        let mut wish = Map::new();
        let given = |name: &str, value: Option<String>| value.map(|value| (name.to_owned(), value.into()));
        if let Some(id) = self.suggestion {
            wish.insert("suggestion".to_owned(), id.into());
            wish.extend(given("verdict", self.verdict));
            wish.extend(given("category", self.category));
            return Ok(wish);
        }
        let rule = match &self.file {
            Some(file) => read(file)?,
            None => {
                let mut rule = Map::new();
                let list = |values: &[String]| (!values.is_empty()).then(|| json!(values));
                rule.extend(list(&self.contains).map(|it| ("contains".to_owned(), it)));
                rule.extend(list(&self.status).map(|it| ("status".to_owned(), it)));
                rule.extend(given("matches", self.matches));
                rule.extend(given("verdict", self.verdict));
                rule.extend(given("category", self.category));
                Value::Object(rule)
            }
        };
        wish.extend(given("channel", self.channel));
        wish.insert("rule".to_owned(), rule);
        Ok(wish)
    }
}

fn read(file: &Path) -> Result<Value, Trouble> {
    let text = match file.as_os_str() == "-" {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(file),
    };
    let unreadable = |why: String| {
        Trouble::usage("the rule cannot be read")
            .why(why)
            .hint("write {\"contains\": \"…\", \"verdict\": \"transient\", \"category\": \"…\"}")
    };
    let text = text.map_err(|error| unreadable(format!("{}: {error}", file.display())))?;
    serde_json::from_str(&text).map_err(|error| unreadable(format!("{}: {error}", file.display())))
}

fn query<const N: usize>(path: &str, given: [(&str, Option<String>); N]) -> String {
    let mut query = Serializer::new(String::new());
    for (name, value) in given {
        if let Some(value) = value {
            query.append_pair(name, &value);
        }
    }
    format!("{path}?{}", query.finish())
}

pub(crate) async fn run(verb: Verb, shared: &Shared) -> Result<(), Trouble> {
    let client = shared.client()?;
    match verb {
        Verb::List { channel, origin } => {
            let page = client.get(&query("/v1/rules", [("channel", channel), ("origin", origin)])).await?;
            match shared.json {
                true => items(&page["items"]).iter().for_each(out::object),
                false => listed(&page).print(),
            }
        }
        Verb::Suggest { channel } => {
            let page = client.get(&query("/v1/rules/suggestions", [("channel", channel)])).await?;
            match shared.json {
                true => items(&page["items"]).iter().for_each(out::object),
                false => suggested(&page).iter().for_each(out::line),
            }
        }
        Verb::Accept { rule, note } => {
            let mut wish = rule.wish()?;
            wish.extend(note.map(|note| ("note".to_owned(), note.into())));
            let made = client.post("/v1/rules", Payload::json(&Value::Object(wish))).await?;
            match shared.json {
                true => out::document(&made),
                false => out::line(format!(
                    "{} is in effect on {} within seconds: {} means {} ({})",
                    text(&made["accepted"]["id"]),
                    text(&made["channel"]),
                    looks_for(&made["rule"]),
                    text(&made["rule"]["verdict"]),
                    text(&made["rule"]["category"]),
                )),
            }
        }
        Verb::Try { rule } => {
            let tried = client.post("/v1/rules/try", Payload::json(&Value::Object(rule.wish()?))).await?;
            match shared.json {
                true => out::document(&tried),
                false => changed(&tried).iter().for_each(out::line),
            }
        }
        Verb::Remove { id } => {
            let path = format!("/v1/rules/{}", out::tame(&id).replace('/', "%2F"));
            client.call(Method::DELETE, &path, Payload::default()).await?;
            match shared.json {
                true => out::document(&json!({"removed": id})),
                false => out::line(format!("{id} decides nothing more, on any node, within seconds")),
            }
        }
    }
    Ok(())
}

fn listed(page: &Value) -> Table {
    let mut table = Table::new(["channel", "rule", "looks for", "verdict", "category"]).cut(2, 16).cut(1, 12);
    for it in items(&page["items"]) {
        table.row([
            text(&it["channel"]),
            text(&it["cited"]),
            looks_for(&it["rule"]),
            text(&it["rule"]["verdict"]),
            text(&it["rule"]["category"]),
        ]);
    }
    table
}

/// What a rule asks for, in a few words.
fn looks_for(rule: &Value) -> String {
    let asked = ["status", "enhanced", "name", "fault", "stage", "contains", "contains_all", "matches"];
    let parts = asked.into_iter().filter_map(|name| {
        let value = &rule[name];
        let said = match value {
            Value::Null => return None,
            Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(" | "),
            other => plain(other),
        };
        Some(format!("{name} {said}"))
    });
    out::clipped(&parts.collect::<Vec<_>>().join(", "), 120)
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), out::tame)
}

fn suggested(page: &Value) -> Vec<String> {
    let paint = Paint::stdout();
    let mut lines = Vec::new();
    for it in items(&page["items"]) {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let [id, channel, said] = ["id", "channel", "said"].map(|name| text(&it[name]));
        lines.push(format!("{}  {channel}  {}", paint.bold(&id), text(&it["text"])));
        lines.push(format!("  met {} times, the end of {} messages; {said}", it["seen"], it["ended"]));
        if let Some(caution) = it["caution"].as_str() {
            lines.push(format!("  {}", paint.yellow(&format!("careful: {}", out::tame(caution)))));
        }
        if it["rule"].is_object() {
            lines.push(format!("  pombo rules try {id}; pombo rules accept {id}"));
        }
    }
    if lines.is_empty() {
        lines.push("every error of the last weeks was known to a rule".to_owned());
    }
    lines
}

fn changed(tried: &Value) -> Vec<String> {
    let (paint, room) = (Paint::stdout(), out::width().unwrap_or(usize::MAX));
    let more = if tried["more"] == true { ", the newest; there are more" } else { "" };
    let mut lines = vec![format!(
        "{} of {} dead letters of {} would have been decided by it{more}",
        tried["changed"],
        tried["looked_at"],
        text(&tried["channel"])
    )];
    let mut table = Table::new(["count", "was", "would be", "for example"]).cut(3, 20);
    for change in items(&tried["changes"]) {
        let judged = |it: &Value| format!("{} ({})", text(&it["verdict"]), text(&it["category"]));
        let sample = &change["samples"][0];
        let example = format!("{}: {}", text(&sample["id"]), out::clipped(&text(&sample["text"]), 100));
        table.row([
            change["count"].to_string(),
            judged(&change["before"]),
            judged(&change["after"]),
            example,
        ]);
    }
    lines.extend(table.lines_within(room, paint));
    lines
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    out::tame(value.as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // REQ LN-1
    fn suggestions_say_what_happened_and_what_to_type_next() {
        let page = json!({"items": [
            {"id": "sug_1", "channel": "email", "text": "the engine\u{1b} is cold", "seen": 313, "ended": 4,
             "said": "94 % of 312 succeeded on the next attempt: suggest transient", "caution": null,
             "rule": {"verdict": "transient"}},
            {"id": "sug_2", "channel": "email", "text": "plan over", "seen": 200, "ended": 200,
             "said": "0 % of 200 succeeded on the next attempt: suggest permanent",
             "caution": "a long outage looks the same", "rule": null},
        ]});
        let expected = [
            "sug_1  email  the engine is cold",
            "  met 313 times, the end of 4 messages; 94 % of 312 succeeded on the next attempt: suggest transient",
            "  pombo rules try sug_1; pombo rules accept sug_1",
            "",
            "sug_2  email  plan over",
            "  met 200 times, the end of 200 messages; 0 % of 200 succeeded on the next attempt: suggest permanent",
            "  careful: a long outage looks the same",
        ];
        assert_eq!(suggested(&page), expected);
        assert_eq!(suggested(&json!({"items": []})), ["every error of the last weeks was known to a rule"]);
    }

    #[test] // REQ CF-1
    fn what_a_rule_looks_for_and_changes_is_shown_in_lines() {
        let rule = json!({"status": ["429", "5xx"], "contains_all": "a b", "verdict": "transient"});
        assert_eq!(looks_for(&rule), "status 429 | 5xx, contains_all a b");
        let judged = |verdict: &str, category: &str| json!({"verdict": verdict, "category": category});
        let tried = json!({"channel": "email", "looked_at": 7, "more": false, "changed": 5, "changes": [
            {"before": judged("unknown_transient", "unknown"), "after": judged("permanent", "plan_over"), "count": 5,
             "samples": [{"id": "msg_1", "code": "418", "text": "this plan is over"}]}]});
        let expected = [
            "5 of 7 dead letters of email would have been decided by it",
            "COUNT  WAS                          WOULD BE               FOR EXAMPLE",
            "5      unknown_transient (unknown)  permanent (plan_over)  msg_1: this plan is over",
        ];
        assert_eq!(changed(&tried), expected);
    }
}
