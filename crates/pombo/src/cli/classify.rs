//! `pombo classify`: what an error means, and which rule says so.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::Args;
use pombo_kernel::classify::{Meaning, Rule, Rules, Scope, Verdict};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::name::ChannelName;
use pombo_kernel::reply::{Enhanced, Fault, FaultKind, Refusal, Reply, Stage};
use serde_json::json;

use super::out::{self, Paint, Table};
use super::{ConfigArgs, Shared, Trouble};
use crate::config::suggestion;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pombo classify smtp 550 5.1.1 user unknown
  pombo classify webhook 503 Service Unavailable
  pombo classify resend timeout
  pombo classify resend --status 429 --name daily_quota_exceeded
  pombo classify smtp --file errors.txt        one error a line, and a summary
  pombo classify crm 418 teapot                with the rules of the channel `crm` first")]
pub(crate) struct Classify {
    /// A kind of channel (evolution, smtp, resend, tiss, webhook, null) or the name of a configured one
    kind: String,
    /// The error as it was seen: a code and its words, or what broke, such as `timeout`
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
    /// Read errors from this file, one a line; `-` is standard input
    #[arg(long, conflicts_with = "error")]
    file: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
}

/// What the flags say about the reply, whatever its text.
#[derive(Clone, Debug, Default)]
struct Said {
    status: Option<u16>,
    enhanced: Option<Enhanced>,
    name: Option<String>,
    stage: Stage,
}

pub(crate) fn run(args: Classify, shared: &Shared) -> Result<(), Trouble> {
    let (kind, rules) = rules_for(&args.kind, &args.config)?;
    let stage = args.stage.unwrap_or_default();
    let said = Said { status: args.status, enhanced: args.enhanced, name: args.name, stage };
    if let Some(file) = &args.file {
        return classify_file(kind, &rules, &said, file, shared);
    }
    let text = args.error.join(" ");
    if text.trim().is_empty() && said.status.is_none() && said.name.is_none() {
        let hint = format!("for example: pombo classify {} 503 Service Unavailable", args.kind);
        return Err(Trouble::usage("no error to classify").hint(hint));
    }
    let meaning = meaning_of(kind, &rules, &text, &said);
    let rule = meaning.rule.as_deref().and_then(|id| rules.rule(id));
    if shared.json {
        out::document(&document(kind, &text, &meaning, rule));
    } else {
        lines(&meaning, rule, Paint::stdout()).iter().for_each(out::line);
    }
    Ok(())
}

/// The rules of a kind, or of a configured channel, whose own rules then come first.
fn rules_for(word: &str, config: &ConfigArgs) -> Result<(ChannelKind, Rules), Trouble> {
    let (kind, extra) = match word.parse::<ChannelKind>() {
        Ok(kind) => (kind, Vec::new()),
        Err(_) => {
            let config = config.load()?;
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

fn meaning_of(kind: ChannelKind, rules: &Rules, text: &str, said: &Said) -> Meaning {
    let reply = reply_of(kind, text, said);
    let meaning = rules.classify(&reply);
    meaning.expect("a reply that was made from an error is a failure")
}

/// The reply that a channel of this kind would have seen.
///
/// Claims keep their words whole, since their rules look for names anywhere in them.
fn reply_of(kind: ChannelKind, text: &str, said: &Said) -> Reply {
    let text = text.trim();
    let nothing_said = said.status.is_none() && said.enhanced.is_none() && said.name.is_none();
    if kind != ChannelKind::Tiss
        && nothing_said
        && let Some(fault) = fault_in(text)
    {
        let fault = Fault { kind: fault, text: text.to_owned() };
        let sent =
            matches!(fault.kind, FaultKind::Timeout | FaultKind::ConnectionReset | FaultKind::Interrupted);
        return if sent { Reply::Doubtful(fault) } else { Reply::Unreachable(fault) };
    }
    let (status, rest) = leading_status(text);
    let (code, rest) = if kind == ChannelKind::Smtp { leading_enhanced(rest) } else { (None, rest) };
    let named = said.name.clone().or_else(|| name_in(kind, rest));
    Reply::Refused(Refusal {
        status: said.status.or(status),
        enhanced: said.enhanced.or(code),
        name: named,
        stage: said.stage,
        text: if kind == ChannelKind::Tiss { text } else { rest }.to_owned(),
        ..Refusal::default()
    })
}

/// What broke on the way, if the text says nothing else: `timeout`, `connection_refused`, `ECONNRESET`.
fn fault_in(text: &str) -> Option<FaultKind> {
    const WORDS: [(FaultKind, &[&str]); 7] = [
        (FaultKind::Timeout, &["timeout", "timed out", "time-out", "etimedout"]),
        (FaultKind::ConnectionRefused, &["connection refused", "connection_refused", "econnrefused"]),
        (FaultKind::ConnectionReset, &["connection reset", "connection_reset", "econnreset", "broken pipe"]),
        (FaultKind::DnsNotFound, &["dns_not_found", "nxdomain", "enotfound", "no such host"]),
        (FaultKind::Dns, &["dns", "eai_again", "name resolution"]),
        (FaultKind::Tls, &["tls", "certificate", "ssl"]),
        (FaultKind::Protocol, &["protocol"]),
    ];
    if leading_status(text).0.is_some() {
        return None;
    }
    let lower = text.to_lowercase();
    let found = WORDS.iter().find(|(_, words)| words.iter().any(|word| lower.contains(word)));
    found.map(|(kind, _)| *kind)
}

fn leading_status(text: &str) -> (Option<u16>, &str) {
    let text = text.strip_prefix("HTTP/1.1 ").unwrap_or(text);
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let status =
        (digits == 3).then(|| text[..3].parse().ok()).flatten().filter(|code| (100..=999).contains(code));
    match status {
        Some(status) => (Some(status), text[3..].trim_start_matches([' ', '-', ':'])),
        None => (None, text),
    }
}

fn leading_enhanced(text: &str) -> (Option<Enhanced>, &str) {
    let (head, rest) = text.split_once(' ').unwrap_or((text, ""));
    match enhanced(head) {
        Ok(code) => (Some(code), rest),
        Err(_) => (None, text),
    }
}

fn enhanced(text: &str) -> Result<Enhanced, String> {
    let parts: Vec<&str> = text.split('.').collect();
    let read = |part: &str| part.parse::<u16>().ok().filter(|_| part.len() <= 3);
    match parts.as_slice() {
        [class @ ("2" | "4" | "5"), subject, detail] => match (class.parse(), read(subject), read(detail)) {
            (Ok(class), Some(subject), Some(detail)) => Ok(Enhanced { class, subject, detail }),
            _ => Err("write it as 5.1.1".to_owned()),
        },
        _ => Err("write it as 5.1.1".to_owned()),
    }
}

fn stage(text: &str) -> Result<Stage, String> {
    serde_json::from_value(text.into())
        .map_err(|_| "one of request, greeting, auth, mail, rcpt, data".to_owned())
}

/// The error's name, where the kind's replies carry one: `name` in Resend's JSON, the code of a denied claim.
fn name_in(kind: ChannelKind, text: &str) -> Option<String> {
    match kind {
        ChannelKind::Resend => {
            let body: serde_json::Value = serde_json::from_str(text).ok()?;
            body["name"].as_str().map(str::to_owned)
        }
        ChannelKind::Tiss => {
            let four = |word: &&str| word.len() == 4 && word.bytes().all(|b| b.is_ascii_digit());
            let about_a_denial = text.trim().len() == 4 || text.to_lowercase().contains("glosa");
            let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
            about_a_denial.then(|| words.find(four)).flatten().map(str::to_owned)
        }
        _ => None,
    }
}

fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Transient => "transient",
        Verdict::Permanent => "permanent",
        Verdict::UnknownTransient => "unknown_transient",
        Verdict::SenderFault => "sender_fault",
    }
}

fn painted(verdict: Verdict, paint: Paint) -> String {
    let word = verdict_word(verdict);
    match verdict {
        Verdict::Transient => paint.green(word),
        Verdict::Permanent => paint.red(word),
        Verdict::UnknownTransient | Verdict::SenderFault => paint.yellow(word),
    }
}

/// What happens to a message with this error, in a sentence.
fn consequence(meaning: &Meaning) -> &'static str {
    match (meaning.verdict, meaning.scope) {
        (Verdict::Transient, _) => "tried again by the channel's policy",
        (Verdict::Permanent, _) => "a dead letter at once",
        (Verdict::UnknownTransient, _) => {
            "no rule knows it: tried again by the channel's policy, with a warning"
        }
        (Verdict::SenderFault, Scope::Destination) => {
            "the destination is held and the message waits, uncharged"
        }
        (Verdict::SenderFault, Scope::Channel) => "the channel is held and the message waits, uncharged",
    }
}

fn lines(meaning: &Meaning, rule: Option<&Rule>, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    let mut say =
        |what: &str, value: String| lines.push(format!("{} {value}", paint.dim(&format!("{what:<9}"))));
    say("verdict", painted(meaning.verdict, paint));
    say("category", meaning.category.clone());
    say("rule", meaning.rule.clone().unwrap_or_else(|| "none".to_owned()));
    say("so", consequence(meaning).to_owned());
    if let Some(wait) = meaning.wait {
        say("wait", format!("at least {wait}"));
    }
    if meaning.destination_fault {
        say("counts", "against the destination's health".to_owned());
    }
    if meaning.suppress {
        say("suppress", "the recipient is kept out of later bulk sends".to_owned());
    }
    if let Some(note) = rule.and_then(|rule| rule.note.clone()) {
        say("note", note);
    }
    lines
}

fn document(kind: ChannelKind, text: &str, meaning: &Meaning, rule: Option<&Rule>) -> serde_json::Value {
    json!({
        "kind": kind,
        "error": text,
        "verdict": meaning.verdict,
        "category": meaning.category,
        "rule": meaning.rule,
        "destination_fault": meaning.destination_fault,
        "suppress": meaning.suppress,
        "scope": (meaning.verdict == Verdict::SenderFault).then_some(meaning.scope),
        "wait": meaning.wait,
        "note": rule.and_then(|rule| rule.note.as_deref()),
    })
}

/// How many errors of a file meant the same, with the first of them.
#[derive(Debug, Default)]
struct Group {
    count: u64,
    example: String,
}

fn classify_file(
    kind: ChannelKind,
    rules: &Rules,
    said: &Said,
    file: &Path,
    shared: &Shared,
) -> Result<(), Trouble> {
    let unreadable = |error: std::io::Error| {
        Trouble::new(format!("{} cannot be read", file.display()), "FILE_UNREADABLE").why(error)
    };
    let reader: Box<dyn BufRead> = if file == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(BufReader::new(std::fs::File::open(file).map_err(unreadable)?))
    };
    let mut groups: BTreeMap<(&'static str, String, String), Group> = BTreeMap::new();
    let mut total = 0u64;
    for line in reader.lines() {
        let line = line.map_err(unreadable)?;
        if line.trim().is_empty() {
            continue;
        }
        let meaning = meaning_of(kind, rules, &line, said);
        if shared.json {
            let rule = meaning.rule.as_deref().and_then(|id| rules.rule(id));
            out::object(&document(kind, &line, &meaning, rule));
        }
        total += 1;
        let rule = meaning.rule.unwrap_or_else(|| "none".to_owned());
        let group = groups.entry((verdict_word(meaning.verdict), meaning.category, rule)).or_default();
        group.count += 1;
        if group.example.is_empty() {
            group.example = line;
        }
    }
    if !shared.json {
        summary(groups, total).iter().for_each(out::line);
    }
    Ok(())
}

fn summary(groups: BTreeMap<(&'static str, String, String), Group>, total: u64) -> Vec<String> {
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.count));
    let unknown: u64 =
        groups.iter().filter(|((_, _, rule), _)| rule == "none").map(|(_, group)| group.count).sum();
    let mut table = Table::new(["count", "verdict", "category", "rule", "for example"]).cut(4, 12).spare([3]);
    for ((verdict, category, rule), group) in groups {
        let count = group.count.to_string();
        table.row([count, verdict.to_owned(), category, rule, out::clipped(&group.example, 60)]);
    }
    let room = out::width().unwrap_or(usize::MAX);
    let mut lines = if table.is_empty() { Vec::new() } else { table.lines_within(room, Paint::stdout()) };

    lines.push(format!("{total} errors, {unknown} that no rule knows"));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: ChannelKind, text: &str, verdict: Verdict) {
        let rules = Rules::for_kind(kind, &[]).unwrap();
        let meaning = meaning_of(kind, &rules, text, &Said::default());
        assert_eq!(meaning.verdict, verdict, "{kind} {text}: {meaning:?}");
    }

    #[test] // REQ CF-3, CF-4, CF-6
    fn free_text_is_read_as_the_channel_would_have_seen_it() {
        check(ChannelKind::Webhook, "503 Service Unavailable", Verdict::Transient);
        check(ChannelKind::Webhook, "HTTP/1.1 404 Not Found", Verdict::Permanent);
        check(ChannelKind::Webhook, "401", Verdict::SenderFault);
        check(ChannelKind::Webhook, "timeout", Verdict::Transient);
        check(ChannelKind::Webhook, "connect ECONNREFUSED 10.0.0.1:80", Verdict::Transient);
        check(ChannelKind::Webhook, "something odd", Verdict::UnknownTransient);
        check(ChannelKind::Smtp, "550 5.1.1 user unknown", Verdict::Permanent);
        check(ChannelKind::Smtp, "451 4.7.1 greylisted, try again later", Verdict::Transient);
        check(ChannelKind::Tiss, "INVALID_PATIENT_DATA: no such card", Verdict::Permanent);
        check(ChannelKind::Tiss, "TIMEOUT", Verdict::Transient);
    }

    #[test]
    fn codes_are_told_from_words() {
        assert_eq!(leading_status("550-5.1.1 no"), (Some(550), "5.1.1 no"));
        assert_eq!(leading_status("5501 no"), (None, "5501 no"));
        assert_eq!(leading_status("no 550"), (None, "no 550"));
        assert_eq!(enhanced("5.1.1"), Ok(Enhanced { class: 5, subject: 1, detail: 1 }));
        assert!(enhanced("5.1").is_err() && enhanced("3.1.1").is_err() && enhanced("5.1.9999").is_err());
    }

    #[test]
    fn names_are_found_where_replies_carry_them() {
        assert_eq!(
            name_in(ChannelKind::Resend, r#"{"name":"rate_limit_exceeded"}"#).as_deref(),
            Some("rate_limit_exceeded")
        );
        assert_eq!(name_in(ChannelKind::Tiss, "glosa 1308 duplicada").as_deref(), Some("1308"));
        assert_eq!(name_in(ChannelKind::Tiss, "failed in 2026"), None);
    }

    #[test]
    fn an_answer_names_the_rule_and_what_follows() {
        let rules = Rules::for_kind(ChannelKind::Webhook, &[]).unwrap();
        let meaning = meaning_of(ChannelKind::Webhook, &rules, "404", &Said::default());
        let said = lines(&meaning, None, Paint::PLAIN).join("\n");
        assert!(said.starts_with("verdict   permanent\n"), "{said}");
        assert!(said.contains("a dead letter at once"), "{said}");
    }
}
