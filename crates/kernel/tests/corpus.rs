//! The classifier against replies that its rules were not written for, next to those that they were.
//!
//! `corpus/tuned` was looked at while the rules were written; `corpus/held` was set aside until they were done.
//! Each line is what `pombo classify KIND --file` reads, so that either can be scored by hand as well.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on says so by failing")]

use pombo_kernel::classify::{Rules, read};
use pombo_kernel::kind::ChannelKind;
use serde_json::{Map, Value};

const KINDS: [ChannelKind; 5] =
    [ChannelKind::Smtp, ChannelKind::Evolution, ChannelKind::Resend, ChannelKind::Webhook, ChannelKind::Tiss];

struct Score {
    lines: usize,
    misses: Vec<String>,
}

fn score(half: &str, kind: ChannelKind) -> Score {
    let path = format!("{}/tests/corpus/{half}/{kind}.ndjson", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let rules = Rules::for_kind(kind, &[]).unwrap();
    let misses = text.lines().enumerate().filter_map(|(index, line)| {
        let mut members: Map<String, Value> = serde_json::from_str(line).unwrap();
        let expected = members.remove("expect").unwrap();
        let reply = read::document(kind, members).unwrap();
        let seen = rules.classify(&reply).unwrap();
        let verdict = expected.as_str().or_else(|| expected["verdict"].as_str()).unwrap();
        let category = expected["category"].as_str().unwrap_or(&seen.category);
        let right = verdict == seen.verdict.as_str() && category == seen.category;
        let what = format!(
            "{half} {kind}:{}: {} {} by {:?}, not {expected}: {line}",
            index + 1,
            seen.verdict.as_str(),
            seen.category,
            seen.rule
        );
        (!right).then_some(what)
    });
    Score { misses: misses.collect(), lines: text.lines().count() }
}

fn check(half: &str, percent: usize) {
    let (mut lines, mut misses) = (0, Vec::new());
    for kind in KINDS {
        let score = score(half, kind);
        println!("{half} {kind}: {} of {}", score.lines - score.misses.len(), score.lines);
        lines += score.lines;
        misses.extend(score.misses);
    }
    let right = lines - misses.len();
    assert!(right * 100 >= lines * percent, "{right} of {lines} are right:\n{}", misses.join("\n"));
}

#[test] // REQ CF-1, CF-3, CF-4, CF-5, CF-6
fn what_the_rules_were_written_for_is_read_without_a_miss() {
    check("tuned", 100);
}

#[test] // REQ CF-1, CF-3, CF-4, CF-5, CF-6
fn what_the_rules_were_not_written_for_is_read_right_nineteen_times_in_twenty() {
    check("held", 95);
}
