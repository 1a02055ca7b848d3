//! Every reader of outside bytes. A new one gets a row here and a folder under `corpus/`.

mod address;
mod answer;
mod config;
mod door;
mod hint;
mod house;
mod list;
mod mail;
mod receipt;
mod request;
mod submission;
mod template;
mod word;
mod xml;

use crate::Target;

const USUAL: Target = Target {
    name: "",
    run: |bytes| crate::Sign::of(bytes.len()),
    words: &[],
    made: Vec::new,
    bytes_max: 8 * 1024,
    short_runs: 400,
};

pub static TARGETS: &[Target] = &[
    Target { name: "address", run: address::run, words: address::WORDS, bytes_max: 5_000, ..USUAL },
    Target { name: "answer", run: answer::run, words: answer::WORDS, ..USUAL },
    Target {
        name: "config",
        run: config::run,
        words: config::WORDS,
        made: config::made,
        short_runs: 100,
        ..USUAL
    },
    Target { name: "door", run: door::run, words: door::WORDS, made: door::made, short_runs: 150, ..USUAL },
    Target { name: "hint", run: hint::run, words: hint::WORDS, ..USUAL },
    Target {
        name: "list",
        run: list::run,
        words: list::WORDS,
        bytes_max: 80 * 1024,
        short_runs: 150,
        ..USUAL
    },
    Target { name: "mail", run: mail::run, words: mail::WORDS, ..USUAL },
    Target { name: "ndjson", run: door::lines, words: door::WORDS, short_runs: 60, ..USUAL },
    Target { name: "receipt", run: receipt::run, words: receipt::WORDS, ..USUAL },
    Target { name: "request", run: request::run, words: request::WORDS, ..USUAL },
    Target { name: "smtp_reply", run: answer::smtp_reply, words: answer::SMTP_WORDS, ..USUAL },
    Target { name: "submission", run: submission::run, words: submission::WORDS, ..USUAL },
    Target { name: "template", run: template::run, words: template::WORDS, short_runs: 250, ..USUAL },
    Target { name: "trace", run: word::trace, words: word::TRACE_WORDS, bytes_max: 2_000, ..USUAL },
    Target { name: "word", run: word::run, words: word::WORDS, bytes_max: 500, ..USUAL },
    Target { name: "xml", run: xml::run, words: xml::WORDS, ..USUAL },
];

/// Bytes as text, whatever they are.
fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// The parts of an input that has several: they stand apart by a line of three equal signs.
fn parts(bytes: &[u8]) -> Vec<&[u8]> {
    const BETWEEN: &[u8] = b"\n===\n";
    let (mut parts, mut rest) = (Vec::new(), bytes);
    while let Some(at) = rest.windows(BETWEEN.len()).position(|window| window == BETWEEN) {
        parts.push(&rest[..at]);
        rest = &rest[at + BETWEEN.len()..];
    }
    parts.push(rest);
    parts
}
