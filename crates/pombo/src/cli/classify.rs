//! `pombo classify`: what an error means, and which rule says so.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use clap::Args;
use pombo_kernel::classify::read::{self, Explained};
use pombo_kernel::classify::{Rules, Scope};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::name::ChannelName;
use pombo_kernel::reply::{Enhanced, Reply, Stage};
use pombo_kernel::time::{Clock as _, Span, Time};
use serde::Serialize;
use serde_json::{Map, Value};

use super::out::{self, Paint, Table};
use super::{ConfigArgs, Shared, Trouble};
use crate::clock::SystemClock;
use crate::config::{Needs, suggestion};

/// More than any answer whose meaning depends on it.
const STDIN_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pombo classify smtp 550 5.1.1 user unknown
  pombo classify webhook 503 Service Unavailable
  pombo classify resend timeout
  pombo classify resend --status 429 --name daily_quota_exceeded
  echo '{\"status\": 429, \"headers\": {\"retry-after\": \"120\"}}' | pombo classify http
  pombo classify smtp --file errors.txt        one error a line, and a summary
  pombo classify crm 418 teapot                with the rules of the channel `crm` first")]
pub(crate) struct Classify {
    /// A kind of channel (evolution, smtp, resend, tiss, webhook or http, null) or the name of a configured one
    kind: String,
    /// The error as it was seen: a code and its words, or what broke, such as `timeout`. Without one, an answer
    /// is read from standard input, as JSON: {"reply"}, {"status", "headers", "body"} or {"error"}
    error: Vec<String>,
    /// HTTP status or SMTP code, instead of one at the start of the error
    #[arg(long, value_parser = clap::value_parser!(u16).range(100..=999))]
    status: Option<u16>,
    /// Enhanced status code of SMTP, such as 5.1.1
    #[arg(long, value_parser = enhanced)]
    enhanced: Option<Enhanced>,
    /// The provider's name for the error
    #[arg(long)]
    name: Option<String>,
    /// Where in an SMTP dialogue it was said: request, greeting, auth, mail, rcpt or data
    #[arg(long, value_parser = stage)]
    stage: Option<Stage>,
    /// Score the errors of this file, one a line, as text or as JSON; `-` is standard input
    #[arg(long, conflicts_with = "error")]
    file: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
}

/// What errors are held against.
struct Bench {
    kind: ChannelKind,
    rules: Rules,
    now: Time,
    /// What the flags say about the answer, whatever its text.
    said: Map<String, Value>,
}

pub(crate) fn run(args: Classify, shared: &Shared) -> Result<(), Trouble> {
    let (kind, rules) = rules_for(&args.kind, &args.config)?;
    let mut said = Map::new();
    if let Some(status) = args.status {
        said.insert("status".to_owned(), status.into());
    }
    let enhanced = args.enhanced.map(|code| code.to_string());
    let stage = args.stage.map(|stage| serde_json::to_value(stage).expect("a plain word"));
    let texts =
        [("enhanced", enhanced.map(Value::from)), ("name", args.name.map(Value::from)), ("stage", stage)];
    said.extend(texts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    let bench = Bench { kind, rules, now: SystemClock::new().now(), said };
    if let Some(file) = &args.file {
        return bench.score(file, shared);
    }

    let mut text = args.error.join(" ");
    let mut json = shared.json;
    if text.trim().is_empty() && !bench.said.contains_key("status") && !bench.said.contains_key("name") {
        text = from_stdin()?;
        if text.trim().is_empty() {
            let hint = format!("for example: pombo classify {} 503 Service Unavailable", args.kind);
            return Err(Trouble::usage("no error to classify").hint(hint));
        }
        json |= text.trim_start().starts_with('{');
    }
    let reply = bench.read(&text).map_err(|why| Trouble::usage("the error cannot be read").why(why))?.0;
    let meaning = read::explain(&bench.rules, &reply, bench.now);
    if json {
        out::document(&meaning);
    } else {
        lines(&meaning, Paint::stdout()).iter().for_each(out::line);
    }
    Ok(())
}

fn from_stdin() -> Result<String, Trouble> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Ok(String::new());
    }
    let mut bytes = Vec::new();
    stdin
        .lock()
        .take(STDIN_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(|error| Trouble::new("standard input cannot be read", "FILE_UNREADABLE").why(error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The rules of a kind, or of a configured channel, whose own rules then come first.
fn rules_for(word: &str, config: &ConfigArgs) -> Result<(ChannelKind, Rules), Trouble> {
    let (kind, extra) = match read::kind(word) {
        Some(kind) => (kind, Vec::new()),
        None => {
            let config = config.load_for(Needs::Rules)?;
            let known = ChannelKind::ALL.iter().map(|kind| kind.as_str());
            let known = known.chain(config.channels.keys().map(ChannelName::as_str));
            let channel = config.channels.get(word).ok_or_else(|| {
                Trouble::usage(format!("`{word}` is neither a kind of channel nor a configured channel"))
                    .hint(suggestion(word, known))
            })?;
            (channel.kind(), channel.rules.clone())
        }
    };
    let rules = Rules::for_kind(kind, &extra);
    Ok((kind, rules.map_err(|bad| Trouble::new("a rule cannot be used", "CONFIG_INVALID").why(bad))?))
}

/// What a line says that it should come to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Expected {
    verdict: String,
    category: Option<String>,
}

impl Expected {
    fn read(value: &Value) -> Result<Expected, String> {
        let verdict = value.as_str().or_else(|| value.get("verdict")?.as_str()).map(str::to_owned);
        let category = value.get("category").and_then(Value::as_str).map(str::to_owned);
        let verdict =
            verdict.ok_or("`expect` is no verdict; write \"permanent\" or {\"verdict\", \"category\"}")?;
        Ok(Expected { verdict, category })
    }

    fn met(&self, seen: &Explained<'_>) -> bool {
        self.verdict == seen.verdict
            && self.category.as_ref().is_none_or(|category| *category == seen.category)
    }

    fn words(&self) -> String {
        match &self.category {
            Some(category) => format!("{} {category}", self.verdict),
            None => self.verdict.clone(),
        }
    }
}

impl Bench {
    /// The reply that a text or a JSON object stands for, and what is expected of it.
    fn read(&self, text: &str) -> Result<(Reply, Option<Expected>), String> {
        let mut members = match text.trim_start().starts_with('{') {
            true => serde_json::from_str(text).map_err(|error| format!("not a JSON object: {error}"))?,
            false => Map::from_iter([("error".to_owned(), text.into())]),
        };
        let expected = members.remove("expect").map(|value| Expected::read(&value)).transpose()?;
        members.extend(self.said.clone());
        let reply = read::document(self.kind, members)
            .map_err(|wrong| wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
        Ok((reply, expected))
    }

    /// Reads a file to its end, whatever stands in it, and sums up.
    fn score(&self, file: &Path, shared: &Shared) -> Result<(), Trouble> {
        let unreadable = |error: std::io::Error| {
            Trouble::new(format!("{} cannot be read", file.display()), "FILE_UNREADABLE").why(error)
        };
        let mut reader: Box<dyn BufRead> = if file == Path::new("-") {
            Box::new(std::io::stdin().lock())
        } else {
            Box::new(BufReader::new(std::fs::File::open(file).map_err(unreadable)?))
        };
        let mut score = Score::default();
        let mut bytes = Vec::new();
        for number in 1u64.. {
            bytes.clear();
            if reader.read_until(b'\n', &mut bytes).map_err(unreadable)? == 0 {
                break;
            }
            let line = String::from_utf8_lossy(&bytes);
            let line = line.trim();
            if !line.is_empty() {
                self.line(number, line, &mut score, shared);
            }
        }
        if !shared.json {
            score.lines().iter().for_each(out::line);
        } else if score.expected > 0 {
            let Score { total, expected, right, unread, .. } = score;
            out::object(&serde_json::json!({
                "errors": total, "expected": expected, "right": right, "unreadable": unread,
            }));
        }
        if score.unread > 0 { Err(Trouble::told()) } else { Ok(()) }
    }

    fn line(&self, number: u64, line: &str, score: &mut Score, shared: &Shared) {
        let (reply, expected) = match self.read(line) {
            Ok(read) => read,
            Err(problem) => {
                score.unread += 1;
                out::note(format!("line {number}: {problem}"));
                if shared.json {
                    out::object(&serde_json::json!({"line": number, "problem": problem}));
                }
                return;
            }
        };
        let seen = read::explain(&self.rules, &reply, self.now);
        let met = expected.as_ref().map(|expected| expected.met(&seen));
        if shared.json {
            let expected = expected.as_ref().map(Expected::words);
            out::object(&Line { line: number, seen: &seen, expected, right: met });
        }
        score.total += 1;
        score.expected += u64::from(met.is_some());
        score.right += u64::from(met == Some(true));
        let rule = seen.rule.unwrap_or_else(|| "none".to_owned());
        if let (Some(false), Some(expected)) = (met, expected) {
            let came = format!("{} {}", seen.verdict, seen.category);
            score.misses.push([
                number.to_string(),
                expected.words(),
                came,
                rule.clone(),
                out::clipped(line, 60),
            ]);
        }
        let group = score.groups.entry((seen.verdict, seen.category, rule)).or_default();
        group.count += 1;
        if group.example.is_empty() {
            line.clone_into(&mut group.example);
        }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    line: u64,
    #[serde(flatten)]
    seen: &'a Explained<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    right: Option<bool>,
}

fn enhanced(text: &str) -> Result<Enhanced, String> {
    read::enhanced(text).ok_or_else(|| "write it as 5.1.1".to_owned())
}

fn stage(text: &str) -> Result<Stage, String> {
    serde_json::from_value(text.into())
        .map_err(|_| "one of request, greeting, auth, mail, rcpt, data".to_owned())
}

fn painted(verdict: &str, paint: Paint) -> String {
    match verdict {
        "transient" | "accepted" => paint.green(verdict),
        "permanent" => paint.red(verdict),
        _ => paint.yellow(verdict),
    }
}

/// What happens to a message with this error, in a sentence.
fn consequence(meaning: &Explained<'_>) -> &'static str {
    match (meaning.verdict, meaning.scope) {
        ("accepted", _) => "no failure: the message is sent",
        ("transient", _) => "tried again by the channel's policy",
        ("permanent", _) => "a dead letter at once",
        (_, Some(Scope::Destination)) => "the destination is held and the message waits, uncharged",
        (_, Some(Scope::Channel)) => "the channel is held and the message waits, uncharged",
        (_, None) => "no rule knows it: tried again by the channel's policy, with a warning",
    }
}

fn lines(meaning: &Explained<'_>, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    let mut say =
        |what: &str, value: String| lines.push(format!("{} {value}", paint.dim(&format!("{what:<9}"))));
    say("verdict", painted(meaning.verdict, paint));
    say("category", meaning.category.clone());
    say("rule", meaning.rule.clone().unwrap_or_else(|| "none".to_owned()));
    if let Some(code) = &meaning.code {
        say("code", code.clone());
    }
    say("so", consequence(meaning).to_owned());
    if let Some(seconds) = meaning.hint_seconds {
        say("wait", format!("at least {}", Span::from_secs(seconds)));
    }
    if meaning.destination_fault {
        say("counts", "against the destination's health".to_owned());
    }
    if meaning.suppress {
        say("suppress", "the recipient is kept out of later bulk sends".to_owned());
    }
    if let Some(note) = meaning.note {
        say("note", note.to_owned());
    }
    lines
}

/// What the errors of a file came to.
#[derive(Debug, Default)]
struct Score {
    groups: BTreeMap<(&'static str, String, String), Group>,
    total: u64,
    unread: u64,
    /// Lines that say what should come of them, and those that were right.
    expected: u64,
    right: u64,
    misses: Vec<[String; 5]>,
}

/// How many errors of a file meant the same, with the first of them.
#[derive(Debug, Default)]
struct Group {
    count: u64,
    example: String,
}

impl Score {
    fn lines(&self) -> Vec<String> {
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.count));
        let unknown: u64 =
            groups.iter().filter(|((_, _, rule), _)| rule == "none").map(|(_, group)| group.count).sum();
        let mut table =
            Table::new(["count", "verdict", "category", "rule", "for example"]).cut(4, 12).spare([3]);
        for ((verdict, category, rule), group) in groups {
            let example = out::clipped(&group.example, 60);
            table.row([
                group.count.to_string(),
                (*verdict).to_owned(),
                category.clone(),
                rule.clone(),
                example,
            ]);
        }
        let room = out::width().unwrap_or(usize::MAX);
        let mut lines = if table.is_empty() { Vec::new() } else { table.lines_within(room, Paint::stdout()) };
        if !self.misses.is_empty() {
            let mut table =
                Table::new(["line", "expected", "came to", "rule", "error"]).cut(4, 12).spare([3]);
            self.misses.iter().for_each(|miss| table.row(miss.clone()));
            lines.push(String::new());
            lines.extend(table.lines_within(room, Paint::stdout()));
        }
        lines.push(format!("{} errors, {unknown} that no rule knows", self.total));
        if self.unread > 0 {
            lines.push(format!("{} lines that cannot be read", self.unread));
        }
        if let Some(tenths) = (self.right * 1_000).checked_div(self.expected) {
            let (percent, tenth) = (tenths / 10, tenths % 10);
            lines.push(format!("{} of {} as expected, {percent}.{tenth} %", self.right, self.expected));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(kind: ChannelKind) -> Bench {
        Bench {
            kind,
            rules: Rules::for_kind(kind, &[]).unwrap(),
            now: Time::from_millis(0),
            said: Map::new(),
        }
    }

    fn check(kind: ChannelKind, text: &str, verdict: &str) {
        let bench = bench(kind);
        let (reply, _) = bench.read(text).unwrap();
        let meaning = read::explain(&bench.rules, &reply, bench.now);
        assert_eq!(meaning.verdict, verdict, "{kind} {text}: {meaning:?}");
    }

    #[test] // REQ CF-3, CF-4, CF-6
    fn free_text_is_read_as_the_channel_would_have_seen_it() {
        check(ChannelKind::Webhook, "503 Service Unavailable", "transient");
        check(ChannelKind::Webhook, "HTTP/1.1 404 Not Found", "permanent");
        check(ChannelKind::Webhook, "401", "sender_fault");
        check(ChannelKind::Webhook, "timeout", "transient");
        check(ChannelKind::Webhook, "connect ECONNREFUSED 10.0.0.1:80", "transient");
        check(ChannelKind::Webhook, "something odd", "unknown_transient");
        check(ChannelKind::Smtp, "550 5.1.1 user unknown", "permanent");
        check(ChannelKind::Smtp, "451 4.7.1 greylisted, try again later", "transient");
        check(ChannelKind::Tiss, "INVALID_PATIENT_DATA: no such card", "permanent");
        check(ChannelKind::Tiss, "TIMEOUT", "transient");
        check(ChannelKind::Evolution, r#"{"status": 201, "body": {"key": {"id": "3EB0"}}}"#, "accepted");
    }

    #[test]
    fn an_answer_names_the_rule_and_what_follows() {
        let bench = bench(ChannelKind::Webhook);
        let (reply, _) = bench.read("404").unwrap();
        let said = lines(&read::explain(&bench.rules, &reply, bench.now), Paint::PLAIN).join("\n");
        assert!(said.starts_with("verdict   permanent\n"), "{said}");
        assert!(said.contains("a dead letter at once"), "{said}");
    }
}
