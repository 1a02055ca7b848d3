//! Checking the hash chain against itself and against its signed ends.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use pombo_kernel::time::Time;
use pombo_store::StoreError;
use pombo_store::anchor::{self, Anchor, Hex, Mark, Marks};
use pombo_store::audit::{Tip, Walk};
use pombo_store::core::Reading;
use pombo_store::home::{Home, Trail};
use serde_json::{Value, json};

use super::super::out::{self, Paint};
use super::super::place::PlaceArgs;
use super::super::store::{bar, trouble};
use super::super::{ConfigArgs, Shared, Trouble, wait_for};
use super::{anchor_page, said};
use crate::anchors::key::is_signed;
use crate::anchors::{copies, read_file};
use crate::client::Client;
use crate::clock::Stopwatch;
use crate::config::Needs;

const AT_ONCE: usize = 500;

#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    place: PlaceArgs,
    /// Ask the server, instead of reading the store itself
    #[arg(long, conflicts_with_all = ["data", "database_url"])]
    remote: bool,
    /// A file of signed ends, besides those in the store [default: where copies are kept]
    #[arg(long, value_name = "FILE")]
    anchors: Vec<PathBuf>,
    /// Count only ends that this key has signed; may be given more than once
    #[arg(long, value_name = "HEX", value_parser = key)]
    public_key: Vec<Hex<32>>,
}

fn key(text: &str) -> Result<Hex<32>, String> {
    text.parse().map_err(|why| format!("{why}; `pombo audit anchors` shows keys"))
}

/// What a check is about, and what it found.
struct Found {
    place: String,
    walk: Walk,
    marks: Marks,
    /// Signed ends by the key that signed them, and the newest of all.
    keys: BTreeMap<Hex<32>, u64>,
    newest: Option<Time>,
    /// Signed ends that do not count.
    strange: u64,
    faults: Vec<String>,
    took: Duration,
}

pub(crate) fn run(args: &Verify, shared: &Shared) -> Result<(), Trouble> {
    let bar = bar();
    let found = match args.remote {
        true => wait_for_value(through_server(args, shared, &bar)),
        false => by_hand(args, &bar),
    };
    bar.finish_and_clear();
    let found = found?;
    match shared.json {
        true => out::document(&document(&found)),
        false => show(&found),
    }
    if found.faults.is_empty() { Ok(()) } else { Err(Trouble::told()) }
}

/// Runs something to its end and gives back what it found.
fn wait_for_value<T>(work: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
    let mut found = None;
    wait_for(async {
        found = Some(work.await?);
        Ok(())
    })?;
    found.ok_or_else(|| Trouble::new("the check did not come to its end", "INTERNAL"))
}

/// Reads the store itself.
fn by_hand(args: &Verify, bar: &ProgressBar) -> Result<Found, Trouble> {
    let config = args.config.load_for(Needs::Store)?;
    let home: Home = args.place.place(&config)?;
    let Trail { mut reader, end, noted } = home.trail().map_err(|error| trouble(&home, error))?;
    let unreadable = |error: StoreError| trouble(&home, error.into());
    let mut kept = Vec::new();
    let mut before = None;
    loop {
        let docs = reader.docs(&anchor::before(before, AT_ONCE)).map_err(unreadable)?;
        for (number, anchor) in docs.iter().filter_map(anchor::read) {
            before = Some(number);
            kept.push((anchor, format!("anchor {number}")));
        }
        if docs.len() < AT_ONCE {
            break;
        }
    }
    let usual = copies(&config.audit, &home).filter(|file| file.exists());
    let mut found = Found::new(home.to_string(), kept, args, usual.as_deref())?;
    if let Some(tip) = noted {
        let place = match home {
            Home::Postgres(_) => "audit_tip",
            Home::Embedded(_) => "pombo.tip",
        };
        found.marks.add(Mark { tip, name: format!("the end that is written in {place}") });
    }
    bar.set_length(end.position);
    let watch = Stopwatch::start();
    walk(&mut *reader, &mut found, bar).map_err(unreadable)?;
    found.took = watch.elapsed();
    Ok(found)
}

fn walk(reader: &mut dyn Reading, found: &mut Found, bar: &ProgressBar) -> Result<(), StoreError> {
    loop {
        let most = found.next();
        let blocks = reader.chain(found.walk.tip.sequence, most)?;
        let on = found.walk.on(&blocks);
        bar.set_position(found.walk.tip.position);
        if !on {
            found.end();
            return Ok(());
        }
    }
}

/// Lets the server check, piece by piece.
async fn through_server(args: &Verify, shared: &Shared, bar: &ProgressBar) -> Result<Found, Trouble> {
    let client = shared.client()?;
    let kept = anchors_of(&client).await?;
    let mut found = Found::new(shared.server.clone(), kept, args, None)?;
    let watch = Stopwatch::start();
    let mut cursor: Option<String> = None;
    loop {
        let until = found.walk.tip.sequence.saturating_add(found.next() as u64);
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("until", &until.to_string());
        if let Some(cursor) = &cursor {
            query.append_pair("cursor", cursor);
        }
        let told = client.get(&format!("/v1/audit/verify?{}", query.finish())).await?;
        let number = |name: &str| told[name].as_u64().unwrap_or_default();
        let hash: Hex<32> = told["hash"].as_str().unwrap_or_default().parse().map_err(garbled)?;
        found.walk.tip = Tip { sequence: number("blocks"), position: number("records"), hash: hash.0 };
        bar.set_length(number("of"));
        bar.set_position(number("records"));
        if let Some(broken) = told["broken"].as_object() {
            let reason = broken.get("reason").and_then(Value::as_str).unwrap_or_default();
            let block = broken.get("block").cloned().unwrap_or_default();
            found.faults.push(format!("audit block {block}: {}", out::tame(reason)));
        }
        cursor = told["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    found.end();
    found.took = watch.elapsed();
    Ok(found)
}

fn garbled(why: String) -> Trouble {
    Trouble::new("the server answered what is not understood", "BAD_ANSWER").why(why)
}

async fn anchors_of(client: &Client) -> Result<Vec<(Anchor, String)>, Trouble> {
    let mut kept = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = anchor_page(client, cursor.as_deref(), AT_ONCE).await?;
        for it in page["items"].as_array().into_iter().flatten() {
            let anchor = serde_json::from_value(it.clone()).map_err(|error| garbled(error.to_string()))?;
            kept.push((anchor, format!("anchor {}", it["number"])));
        }
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return Ok(kept);
        }
    }
}

impl Found {
    /// With the signed ends of the store, and those of files.
    fn new(
        place: String,
        mut kept: Vec<(Anchor, String)>,
        args: &Verify,
        usual: Option<&Path>,
    ) -> Result<Found, Trouble> {
        let mut faults = Vec::new();
        let files = if args.anchors.is_empty() { usual.into_iter().collect() } else { list(&args.anchors) };
        for file in files {
            let name = file.display();
            let (anchors, bad) = read_file(file).map_err(|error| {
                Trouble::new(format!("{name} cannot be read"), "FILE_UNREADABLE").why(error)
            })?;
            let known = anchors.into_iter().filter(|anchor| !kept.iter().any(|(kept, _)| kept == anchor));
            let copied: Vec<_> = known
                .map(|it| {
                    let name = format!("the anchor of {} in {name}", it.at);
                    (it, name)
                })
                .collect();
            kept.extend(copied);
            if let Some(first) = bad.first() {
                faults.push(format!(
                    "{name}: {} lines are no anchors, the first of them line {first}",
                    bad.len()
                ));
            }
        }
        let mut found = Found {
            place,
            walk: Walk::default(),
            marks: Marks::default(),
            keys: BTreeMap::new(),
            newest: None,
            strange: 0,
            faults,
            took: Duration::ZERO,
        };
        for (anchor, name) in kept {
            found.count(&anchor, name, &args.public_key);
        }
        if !args.public_key.is_empty() && found.keys.is_empty() {
            found.faults.push("no anchor is signed by a key that was named".to_owned());
        }
        Ok(found)
    }

    fn count(&mut self, anchor: &Anchor, name: String, trusted: &[Hex<32>]) {
        if !is_signed(anchor) {
            self.faults.push(format!("{name}: it is not signed by the key that it names, or was changed"));
        } else if !trusted.is_empty() && !trusted.contains(&anchor.key) {
            self.strange += 1;
        } else {
            *self.keys.entry(anchor.key).or_default() += 1;
            self.newest = self.newest.max(Some(anchor.at));
            self.marks.add(Mark { tip: anchor.tip(), name });
        }
    }

    /// Looks at the signed ends that were reached; how many blocks there are up to the next one.
    fn next(&mut self) -> usize {
        self.faults.extend(self.marks.reached(&self.walk.tip));
        self.marks.until(&self.walk.tip)
    }

    fn end(&mut self) {
        self.faults.extend(self.marks.reached(&self.walk.tip));
        match self.walk.broken {
            Some(broken) => self.faults.push(broken.to_string()),
            None => self.faults.extend(self.marks.ended(&self.walk.tip)),
        }
    }

    fn per_second(&self) -> u64 {
        let millis = u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX).max(1);
        self.walk.tip.position.saturating_mul(1_000) / millis
    }
}

fn list(files: &[PathBuf]) -> Vec<&Path> {
    files.iter().map(PathBuf::as_path).collect()
}

fn document(found: &Found) -> Value {
    let keys: BTreeMap<String, u64> =
        found.keys.iter().map(|(key, count)| (key.to_string(), *count)).collect();
    json!({
        "store": found.place,
        "blocks": found.walk.tip.sequence,
        "records": found.walk.tip.position,
        "hash": Hex(found.walk.tip.hash),
        "anchors": {"by_key": keys, "newest": found.newest, "not_counted": found.strange},
        "faults": found.faults,
        "seconds": found.took.as_secs_f64(),
    })
}

fn show(found: &Found) {
    let paint = Paint::stdout();
    said("store", &found.place);
    let Tip { sequence, position, hash } = found.walk.tip;
    let short = Hex(hash).to_string();
    let speed = found.per_second();
    said(
        "chain",
        &format!("{position} records in {sequence} blocks, up to {}…, {speed} records/s", &short[..16]),
    );
    for (key, count) in &found.keys {
        said("anchors", &format!("{count} by the key {key}"));
    }
    if found.strange > 0 {
        said("anchors", &format!("{} by keys that were not named, which do not count", found.strange));
    }
    match found.newest {
        Some(at) => said("", &format!("the newest of {at}")),
        None => said("anchors", "none: if the newest records were cut off, nothing shows it"),
    }
    for fault in &found.faults {
        out::line(format!("{} {fault}", paint.red("fault:")));
    }
    match found.faults.is_empty() {
        true => out::line(paint.green("the audit is whole")),
        false => {
            let hint = "records were changed or lost after they were written: keep a copy of the store, compare it with \
                a backup, and find out who could";
            out::line(format!("{} {hint}", paint.cyan("hint:")));
        }
    }
}
