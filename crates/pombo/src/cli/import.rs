//! `pombo messages import`: many messages, handed in as lines, in pieces that can be repeated safely.

use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pombo_kernel::time::Span;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::out;
use super::{Shared, Trouble};
use crate::client::{Client, ClientError, Payload};
use crate::clock;

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// One JSON object a line; `-` is standard input
    file: PathBuf,
    /// Import anew, even lines that an earlier run has handed in
    #[arg(long)]
    again: bool,
    /// Lines in one request
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    chunk: u32,
}

/// A piece must also stay small enough to be sent again without regret.
const CHUNK_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A line may carry attachments, and is a piece of its own then.
const LINE_BYTES_MAX: u64 = 96 * 1024 * 1024;
/// How often a piece is tried while the server is overloaded, restarting or away.
const TRIES: u32 = 30;
const FIRST_WAIT: Span = Span::from_millis(500);
const LONGEST_WAIT: Span = Span::from_secs(30);
/// More failures than this are counted, not printed.
const FAILURES_SHOWN: u64 = 100;

/// What became of the lines.
#[derive(Debug, Default)]
struct Tally {
    accepted: u64,
    repeated: u64,
    failed: u64,
}

impl Tally {
    /// The server has shown that it is there, and what it is.
    fn answered(&self) -> Answered {
        if self.accepted + self.repeated > 0 { Answered::Yes } else { Answered::No }
    }
}

/// Whether the server has taken a line of this import before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answered {
    Yes,
    No,
}

pub(crate) async fn run(client: &Client, args: &Import, shared: &Shared) -> Result<(), Trouble> {
    let unreadable = |error: std::io::Error| {
        Trouble::new(format!("{} cannot be read", args.file.display()), "FILE_UNREADABLE").why(error)
    };
    let (mut input, bytes) = open(&args.file).map_err(unreadable)?;
    let salt = if args.again { hex(&clock::entropy()[..8]) } else { String::new() };
    let bar = progress(bytes);
    let mut tally = Tally::default();
    let mut number = 0u64;
    loop {
        let chunk = read_chunk(&mut input, &mut number, args.chunk as usize, &salt).map_err(unreadable)?;
        for (line, why) in &chunk.unusable {
            failure(shared, &bar, &mut tally, *line, &Refused::of("INVALID_JSON", why));
        }
        if !chunk.lines.is_empty() {
            hand_in(client, &chunk, &mut tally, &bar, shared).await?;
        }
        bar.inc(chunk.bytes);
        bar.set_message(format!("{} accepted, {} failed", tally.accepted + tally.repeated, tally.failed));
        if chunk.ended {
            break;
        }
    }
    bar.finish_and_clear();
    finish(&tally, shared)
}

fn open(file: &Path) -> std::io::Result<(Box<dyn BufRead>, Option<u64>)> {
    if file == Path::new("-") {
        return Ok((Box::new(BufReader::new(std::io::stdin())), None));
    }
    let file = std::fs::File::open(file)?;
    let bytes = file.metadata().ok().map(|data| data.len());
    Ok((Box::new(BufReader::with_capacity(1 << 20, file)), bytes))
}

/// A bar for so many bytes, on a terminal.
pub(super) fn progress(bytes: Option<u64>) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match bytes {
        Some(bytes) => {
            (ProgressBar::new(bytes), "{bar:20.cyan/dim} {bytes}/{total_bytes} {eta} left · {wide_msg}")
        }
        None => (ProgressBar::new_spinner(), "{spinner} {bytes} · {wide_msg}"),
    };
    bar.set_draw_target(ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// Some lines of the file, ready to be handed in.
#[derive(Debug, Default)]
struct Chunk {
    /// The number of each line that is handed in, from 1, in order.
    lines: Vec<u64>,
    body: Vec<u8>,
    /// Lines that are no JSON object, and why.
    unusable: Vec<(u64, String)>,
    /// How much of the file it takes.
    bytes: u64,
    ended: bool,
}

fn read_chunk(input: &mut dyn BufRead, number: &mut u64, most: usize, salt: &str) -> std::io::Result<Chunk> {
    let mut chunk = Chunk::default();
    while chunk.lines.len() < most && chunk.body.len() < CHUNK_BYTES_MAX {
        let mut line = Vec::new();
        // One byte more than a piece may hold, so that a line without end is noticed and not swallowed.
        let limit = LINE_BYTES_MAX;
        let read = input.take(limit).read_until(b'\n', &mut line)?;
        if read == 0 {
            chunk.ended = true;
            break;
        }
        *number += 1;
        chunk.bytes += read as u64;
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        match keyed(text, *number, salt) {
            Ok(line) => {
                chunk.lines.push(*number);
                chunk.body.extend(line);
                chunk.body.push(b'\n');
            }
            Err(why) => chunk.unusable.push((*number, why)),
        }
    }
    Ok(chunk)
}

/// The line with an idempotency key, its own or one made from its words and place.
///
/// The place is part of it, so that two equal lines of one file are two messages.
fn keyed(text: &[u8], number: u64, salt: &str) -> Result<Vec<u8>, String> {
    #[derive(Deserialize)]
    struct Own {
        idempotency_key: Option<serde_json::Value>,
    }
    let own: Own = serde_json::from_slice(text).map_err(|error| not_json(&error))?;
    if text.first() != Some(&b'{') {
        return Err("a line must be one JSON object".to_owned());
    }
    if own.idempotency_key.is_some_and(|key| !key.is_null()) {
        return Ok(text.to_vec());
    }
    let mut hash = Sha256::new();
    hash.update(salt.as_bytes());
    hash.update(number.to_le_bytes());
    hash.update(text);
    let key = format!("import-{}", hex(&hash.finalize()[..16]));
    let inner = text[1..].trim_ascii_start();
    let comma = if inner.first() == Some(&b'}') { "" } else { "," };
    let mut line = format!("{{\"idempotency_key\":\"{key}\"{comma}").into_bytes();
    line.extend(inner);
    Ok(line)
}

/// What is wrong with a line, and where in it: the line's own number is known better here than by the parser.
fn not_json(error: &serde_json::Error) -> String {
    let (text, place) = (error.to_string(), format!(" at line {} column {}", error.line(), error.column()));
    format!("{} at column {}", text.strip_suffix(&place).unwrap_or(&text), error.column())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hands one piece in, again and again while the server only asks for patience.
async fn hand_in(
    client: &Client,
    chunk: &Chunk,
    tally: &mut Tally,
    bar: &ProgressBar,
    shared: &Shared,
) -> Result<(), Trouble> {
    let mut pending: Vec<(u64, &[u8])> =
        chunk.lines.iter().copied().zip(chunk.body.split_inclusive(|byte| *byte == b'\n')).collect();
    let mut tries = 0;
    while !pending.is_empty() {
        tries += 1;
        let body: Vec<u8> = pending.iter().flat_map(|(_, line)| line.iter().copied()).collect();
        let (results, wait) =
            match client.call(http::Method::POST, "/v1/messages/batch", Payload::lines(body)).await {
                Ok(answer) => (read_results(client, &answer)?, None),
                Err(error) => match patience(&error, tries, tally.answered()) {
                    Some(wait) => (Vec::new(), Some(wait)),
                    None => return Err(error.into()),
                },
            };
        let mut later = Vec::new();
        let answered = results.len();
        for ((number, line), result) in pending.iter().zip(results) {
            match result {
                Ok(Taken { repeat: false, .. }) => tally.accepted += 1,
                Ok(Taken { repeat: true, .. }) => tally.repeated += 1,
                Err(refused) if matches!(refused.status, 429 | 503) => later.push((*number, *line)),
                Err(refused) => failure(shared, bar, tally, *number, &refused),
            }
        }
        // A server that stops answers for the lines that it has read; the rest goes in again.
        later.extend(pending.iter().skip(answered).copied());
        pending = later;
        if !pending.is_empty() {
            if tries >= TRIES {
                return Err(Trouble::new("the server does not take any more", "OVERLOADED")
                    .hint("run the same import again later: lines that were accepted are not repeated"));
            }
            let wait = wait.unwrap_or_else(|| backoff(tries));
            bar.set_message(format!("waiting {wait} for the server"));
            tokio::time::sleep(wait.to_std()).await;
        }
    }
    Ok(())
}

fn backoff(tries: u32) -> Span {
    FIRST_WAIT.doubled(tries.saturating_sub(1)).min(LONGEST_WAIT)
}

/// How long to wait before the same piece is handed in again; nothing if that would not help.
///
/// Every line has an idempotency key, so a piece whose fate is unknown may go in again. A server that never
/// answered is most likely not there.
fn patience(error: &ClientError, tries: u32, answered: Answered) -> Option<Span> {
    let wait = match error {
        ClientError::Refused(refusal) if matches!(refusal.status, 429 | 503) => refusal.retry_after,
        ClientError::Unreachable { .. } if answered == Answered::Yes => None,
        _ => return None,
    };
    (tries < TRIES).then(|| wait.unwrap_or_else(|| backoff(tries)).min(LONGEST_WAIT))
}

/// A line that was accepted, now or by an earlier run.
#[derive(Debug)]
struct Taken {
    repeat: bool,
}

/// A line that was not.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Refused {
    status: u16,
    code: String,
    title: String,
    detail: String,
    hint: String,
}

impl Refused {
    fn of(code: &str, detail: &str) -> Refused {
        Refused { code: code.to_owned(), detail: detail.to_owned(), ..Refused::default() }
    }
}

fn read_results(client: &Client, answer: &[u8]) -> Result<Vec<Result<Taken, Refused>>, Trouble> {
    let garbled = |why: String| ClientError::Garbled { server: client.server().to_owned(), why };
    let mut results = Vec::new();
    for item in items(answer).map_err(garbled)? {
        results.push(match &item["error"] {
            serde_json::Value::Null => Ok(Taken { repeat: item["replayed"].as_bool().unwrap_or(false) }),
            problem => Err(client.read(problem.clone())?),
        });
    }
    Ok(results)
}

/// One result a line, in the order of the lines that were handed in.
fn items(answer: &[u8]) -> Result<Vec<serde_json::Value>, String> {
    let lines = answer.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    lines.map(|line| serde_json::from_slice(line).map_err(|error| error.to_string())).collect()
}

fn failure(shared: &Shared, bar: &ProgressBar, tally: &mut Tally, line: u64, refused: &Refused) {
    tally.failed += 1;
    if tally.failed > FAILURES_SHOWN && !shared.json {
        return;
    }
    let why = if refused.detail.is_empty() { &refused.title } else { &refused.detail };
    bar.suspend(|| {
        if shared.json {
            let Refused { code, hint, .. } = refused;
            out::object(&json!({"line": line, "code": code, "detail": why, "hint": hint}));
        } else {
            let hint = if refused.hint.is_empty() { String::new() } else { format!("; {}", refused.hint) };
            out::note(format!("line {line}: {} ({}){hint}", out::clipped(why, 200), refused.code));
        }
    });
}

fn finish(tally: &Tally, shared: &Shared) -> Result<(), Trouble> {
    let Tally { accepted, repeated, failed } = *tally;
    if shared.json {
        out::object(&json!({"accepted": accepted, "already_accepted": repeated, "failed": failed}));
    } else {
        if failed > FAILURES_SHOWN {
            out::note(format!("… and {} more failures", failed - FAILURES_SHOWN));
        }
        let before = if repeated > 0 { format!(", {repeated} were in already") } else { String::new() };
        out::line(format!("{accepted} accepted{before}, {failed} failed"));
    }
    if failed == 0 { Ok(()) } else { Err(Trouble::told()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(text: &str, most: usize) -> (Chunk, u64) {
        let mut number = 0;
        let chunk = read_chunk(&mut text.as_bytes(), &mut number, most, "").unwrap();
        (chunk, number)
    }

    #[test] // REQ ML-3
    fn every_line_gets_a_key_of_its_own_that_a_rerun_repeats() {
        let text = "{\"to\":\"a\"}\n\n{\"to\":\"a\"}\r\n{}\n";
        let (first, _) = chunk(text, 10);
        let (second, _) = chunk(text, 10);
        assert_eq!(first.lines, [1, 3, 4]);
        assert_eq!(first.body, second.body);
        let keys: Vec<String> = String::from_utf8(first.body)
            .unwrap()
            .lines()
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).unwrap()["idempotency_key"].to_string()
            })
            .collect();
        assert!(keys[0] != keys[1] && keys[1] != keys[2], "{keys:?}");
    }

    #[test]
    fn a_key_that_is_given_is_kept_and_a_salt_makes_new_ones() {
        let own = br#"{"to":"a","idempotency_key":"mine"}"#;
        assert_eq!(keyed(own, 1, "").unwrap(), own);
        let bare = br#"{"to":"a"}"#;
        assert_ne!(keyed(bare, 1, "").unwrap(), keyed(bare, 1, "salt").unwrap());
        let null = br#"{"idempotency_key":null}"#;
        assert_ne!(keyed(null, 1, "").unwrap(), null);
    }

    #[test]
    fn lines_that_are_no_objects_are_reported_by_number() {
        let (chunk, read) = chunk("{}\nnonsense\n[1]\n{\"a\":1}", 10);
        assert_eq!(chunk.lines, [1, 4]);
        assert_eq!(chunk.unusable.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 3]);
        assert!(chunk.ended && read == 4);
    }

    #[test]
    fn pieces_have_the_size_that_was_asked_for() {
        let (chunk, read) = chunk("{}\n{}\n{}\n", 2);
        assert_eq!((chunk.lines.len(), read, chunk.ended), (2, 2, false));
    }

    #[test]
    fn overload_is_waited_for_and_other_errors_are_not() {
        let refused = |status, seconds: Option<u64>| {
            let retry_after = seconds.map(Span::from_secs);
            ClientError::Refused(Box::new(crate::client::Refusal {
                status,
                retry_after,
                ..Default::default()
            }))
        };
        assert_eq!(patience(&refused(429, Some(2)), 1, Answered::No), Some(Span::from_secs(2)));
        assert_eq!(patience(&refused(503, None), 2, Answered::No), Some(Span::from_secs(1)));
        assert_eq!(patience(&refused(429, Some(3600)), 1, Answered::No), Some(LONGEST_WAIT));
        assert_eq!(patience(&refused(401, None), 1, Answered::Yes), None);
        assert_eq!(patience(&refused(429, Some(1)), TRIES, Answered::Yes), None);
        let away = ClientError::Unreachable { server: String::new(), why: String::new() };
        assert_eq!(patience(&away, 1, Answered::No), None);
        assert!(patience(&away, 1, Answered::Yes).is_some());
    }

    #[test]
    fn results_are_told_apart() {
        let answer = b"{\"index\":0,\"id\":\"a\"}\n{\"index\":1,\"id\":\"b\",\"replayed\":true}\n{\"index\":2,\"error\":{\"code\":\"X\",\"status\":422}}\n";
        let client = Client::new("http://127.0.0.1:1", None).unwrap();
        let results = read_results(&client, answer).unwrap();
        assert!(matches!(results[0], Ok(Taken { repeat: false })));
        assert!(matches!(results[1], Ok(Taken { repeat: true })));
        assert!(matches!(&results[2], Err(refused) if refused.status == 422 && refused.code == "X"));
    }
}
