//! `pombo store erase`: everything of one person, through the server that has the store, or on the store itself; and in
//! backups.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use pombo_kernel::erasure::{Erasure, Step};
use pombo_kernel::mask;
use pombo_kernel::message::Actor;
use pombo_kernel::name::Tenant;
use pombo_kernel::operation::{Kind, Operation, Stage};
use pombo_kernel::setup::Setup;
use pombo_store::StoreError;
use pombo_store::home::Home;
use pombo_store::moving::MoveError;
use pombo_store::shelf::{Doc, Shelf, Shelved};
use pombo_store::vault::Keys;
use pombo_web::operation;
use serde_json::{Value, json};

use super::operations::{Bar, ended};
use super::out::{self, Paint, Table};
use super::store::{Where, spinner, trouble};
use super::{Shared, Trouble, wait_for};
use crate::client::Payload;
use crate::clock;
use crate::config::Needs;
use crate::eraser::{Eraser, Stopped};
use crate::node::{self, NodeRole, Roles};

/// From one look to the next at an erasure that somebody else goes on with.
const LOOK: Duration = Duration::from_millis(300);

#[derive(Debug, Args)]
pub(crate) struct Wish {
    #[command(flatten)]
    at: Where,
    /// Whose data: an e-mail address, a phone number, or whatever else messages went to
    #[arg(long, value_name = "ADDRESS")]
    recipient: String,
    /// Whose store it is in
    #[arg(long)]
    tenant: Option<Tenant>,
    /// Only count what would be erased
    #[arg(long)]
    dry_run: bool,
    /// Also messages to others that name the address
    #[arg(long)]
    mentions: bool,
    /// Why, for the audit
    #[arg(long)]
    reason: Option<String>,
    /// Also in these backups: folders that `pombo store backup` has made
    #[arg(long, value_name = "DIR", num_args = 1..)]
    also_in: Vec<PathBuf>,
}

/// Whether something is written into a store that is only looked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// As an operation, so that others see it and the audit knows of it.
    AsOperation,
    /// A backup stays as it is.
    Nowhere,
}

pub(crate) fn run(wish: &Wish, shared: &Shared) -> Result<(), Trouble> {
    if wish.recipient.trim().is_empty() {
        return Err(nobody());
    }
    let config = wish.at.config.load_for(Needs::Store)?;
    let home = wish.at.place.place(&config)?;
    let setup = config.setup();
    let own = in_store(&home, &setup, wish, shared);
    if let (Ok(erasure), false) = (&own, shared.json) {
        show(erasure, &home);
        told_of_rest(erasure, wish);
    }
    let mut backups = Vec::new();
    for folder in &wish.also_in {
        let backup = Home::Embedded(folder.clone().into());
        let done = config.encryption.keys().map_err(|error| trouble(&backup, error.into()));
        let done = done.and_then(|keys| in_backup(&backup, keys, &setup, wish));
        match &done {
            _ if shared.json => {}
            Ok(erasure) => show(erasure, &backup),
            Err(trouble) => trouble.print(false),
        }
        backups.push((folder.display().to_string(), done));
    }
    if shared.json && (own.is_ok() || !backups.is_empty()) {
        let mut document = own.as_ref().map_or_else(|_| json!({}), Value::clone);
        if !backups.is_empty() {
            document["backups"] = backups.iter().map(in_json).collect();
        }
        out::document(&document);
    }
    own?;
    let failed = backups.iter().filter(|(_, done)| done.is_err()).map(|(folder, _)| folder.as_str());
    let failed: Vec<&str> = failed.collect();
    match failed.as_slice() {
        [] => Ok(()),
        [first, ..] => Err(Trouble::new(
            format!("the person may still be in {} of {} backups", failed.len(), backups.len()),
            "NOT_ERASED",
        )
        .why(failed.join(", "))
        .hint(format!(
            "put right what is said of each; then `pombo store erase --recipient … --data {first}` does that one alone"
        ))),
    }
}

fn in_json((folder, done): &(String, Result<Value, Trouble>)) -> Value {
    match done {
        Ok(erasure) => json!({"backup": folder, "erasure": erasure}),
        Err(trouble) => json!({"backup": folder, "problem": trouble}),
    }
}

fn nobody() -> Trouble {
    Trouble::usage("--recipient is empty").hint("write for example ana@clinica.example, or +55 11 98765-4321")
}

/// Erases in the store that is named, whoever has it.
fn in_store(home: &Home, setup: &Setup, wish: &Wish, shared: &Shared) -> Result<Value, Trouble> {
    let mut erasure = Value::Null;
    match home.free() {
        Ok(()) => wait_for(async {
            erasure = on_store(home, setup, wish, Kept::AsOperation).await?;
            Ok(())
        })?,
        Err(MoveError::InUse(_)) => wait_for(async {
            erasure = through_server(home, wish, shared).await?;
            Ok(())
        })?,
        Err(error) => return Err(trouble(home, error)),
    }
    Ok(erasure)
}

/// Erases in a backup, which stays one: paused, and a file alone.
fn in_backup(backup: &Home, keys: Option<Keys>, setup: &Setup, wish: &Wish) -> Result<Value, Trouble> {
    let in_the_way = |error| {
        match error {
        MoveError::NoStore(_) => Trouble::new(format!("{backup} is no backup"), "STORE_NOT_FOUND")
            .why("it has no `pombo.db`")
            .hint("name the folder that `pombo store backup --to` has made, not the file in it"),
        MoveError::InUse(_) => trouble(backup, error).hint("stop the server on it, and run the same again"),
        MoveError::Schema { have, want, .. } if have < want => trouble(backup, error).hint(format!(
            "bring it up to date first, after which older versions of Pombo cannot read it: `pombo store migrate --data {backup}`"
        )),
        error if backup.to_string().ends_with(".partial") => {
            trouble(backup, error).hint("it is a part of a backup that was cut off; remove it")
        }
        error => trouble(backup, error),
    }
    };
    backup.free().map_err(in_the_way)?;
    // One from before the store was encrypted has no use for a key.
    let sealed = backup.seal().map_err(in_the_way)?.encrypted;
    let backup = backup.clone().with_keys(keys.filter(|_| sealed));
    let kept = if wish.dry_run { Kept::Nowhere } else { Kept::AsOperation };
    let mut erasure = Value::Null;
    let done = wait_for(async {
        erasure = on_store(&backup, setup, wish, kept).await?;
        Ok(())
    });
    // Also if it could not be erased in: what is left is a backup.
    let folded = backup.fold();
    done?;
    folded.map_err(|error| trouble(&backup, error))?;
    Ok(erasure)
}

/// Asks the server that has the store, and follows its operation to the end.
async fn through_server(home: &Home, wish: &Wish, shared: &Shared) -> Result<Value, Trouble> {
    let client = shared.client()?;
    let mut body = json!({"recipient": wish.recipient, "dry_run": wish.dry_run, "mentions": wish.mentions});
    if let Some(reason) = &wish.reason {
        body["reason"] = reason.as_str().into();
    }
    if let Some(tenant) = &wish.tenant {
        body["tenant"] = tenant.as_str().into();
    }
    let begun = client.post("/v1/privacy/erase", Payload::json(&body)).await.map_err(|error| {
        let trouble = Trouble::from(error);
        let used = format!("a server uses {home}, and must be asked");
        let why = trouble.why.as_ref().map_or(used.clone(), |why| format!("{why}; {used}"));
        trouble.why(why)
    })?;
    let bar = Bar::new(shared.json);
    let done = ended(&client, begun["id"].as_str().unwrap_or_default(), &bar).await;
    bar.clear();
    let done = done?;
    match out::field(&done, "state").as_str() {
        "done" => Ok(done["erasure"].clone()),
        state => Err(unfinished(format!("the erasure is {state}"))),
    }
}

/// Does it here, as an operation of the store: if this process dies, the next server goes on with it.
async fn on_store(home: &Home, setup: &Setup, wish: &Wish, kept: Kept) -> Result<Value, Trouble> {
    let opened = node::open(home.clone(), Roles::of(&[NodeRole::Scheduler]), None).await?;
    let (store, clock) = (Arc::clone(&opened.store), Arc::clone(&opened.clock));
    let broken = |error: StoreError| trouble(home, error.into());
    let tenant = wish.tenant.clone().unwrap_or_default();
    let person = store.pseudonyms().person(&tenant, &wish.recipient).ok_or_else(nobody)?;
    let (by, now) = (Actor("pombo store".to_owned()), clock.now());
    let operation = Operation {
        note: wish.reason.as_deref().map(|reason| mask::personal(reason).into_owned()),
        ..Operation::new(Kind::Erase, Stage::Erasing, by, now)
    };
    // Servers that share the store see that somebody is at it.
    let operation = operation.erasing(Erasure::new(tenant.clone(), person, wish.dry_run, wish.mentions), now);
    let id = format!(
        "opr_{:012x}{}",
        now.millis() & 0xffff_ffff_ffff,
        pombo_web::key::hex(&clock::entropy()[..10])
    );
    let doc = match kept {
        Kept::Nowhere => None,
        Kept::AsOperation => {
            let begun = operation::begin(&tenant, id.clone(), &operation);
            let leaf = begun.leaf.clone();
            let Some(Shelved::Done { version }) = store.shelve(vec![begun]).await.map_err(broken)?.pop()
            else {
                return Err(
                    Trouble::new("the erasure could not be written down", "NOT_ERASED").hint("try again")
                );
            };
            let tenant = tenant.clone();
            leaf.map(|leaf| Doc { tenant, id: id.clone(), version, updated_at: now, leaf })
        }
    };
    let eraser = Eraser::take_up(Arc::clone(&store), Arc::clone(&clock), setup, doc, operation);
    let bar = spinner();
    let mut found = None;
    let mut tell = |erasure: &Erasure| {
        bar.set_message(format!("{home}: {}", doing(erasure)));
        found = Some(erasure.clone());
    };
    let stopped = match eraser {
        Some(eraser) => eraser.run(&mut tell).await,
        None => Ok(Stopped::Elsewhere),
    };
    while let (Ok(Stopped::Elsewhere), Kept::AsOperation) = (&stopped, kept) {
        let doc = store.doc(Shelf::Operation, tenant.clone(), id.clone()).await.map_err(broken)?;
        let by_another = doc.as_ref().and_then(operation::read);
        if !by_another.as_ref().is_some_and(Operation::is_running) {
            found = by_another.and_then(|operation| operation.erasure).map(|erasure| *erasure);
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    bar.finish_and_clear();
    let closed = store.close().await;
    stopped.map_err(broken)?;
    closed.map_err(broken)?;
    match found {
        Some(erasure) if erasure.step == Step::Done => {
            Ok(serde_json::to_value(pombo_web::ErasureView::of(&erasure)).unwrap_or_default())
        }
        _ => Err(unfinished("the erasure did not come to its end".to_owned())),
    }
}

fn unfinished(what: String) -> Trouble {
    Trouble::new(what, "NOT_ERASED")
        .hint("what was erased stays erased; run the same command again for the rest")
}

fn doing(erasure: &Erasure) -> String {
    let done = erasure.counts.messages;
    match erasure.step {
        Step::Sweep => "rewriting the file without what was erased".to_owned(),
        Step::Wait => format!("waiting for {} that are being sent", erasure.waiting.len()),
        Step::Search(at) | Step::SearchAgain(at) => {
            format!("looking through {:?} · {done} messages", at.room).to_lowercase()
        }
        _ => format!("{done} messages"),
    }
}

/// What was erased where, and what was spared and why.
fn show(erasure: &Value, home: &Home) {
    let paint = Paint::stdout();
    out::line(format!("{} {home}", paint.dim("in")));
    let dry = erasure["dry_run"] == true;
    let mut table = Table::new(["what", if dry { "would be erased" } else { "erased" }]);
    for (name, words) in [
        ("messages", "messages, with attempts, reports and idempotency keys"),
        ("cancelled", "… of which waited, and were cancelled"),
        ("events", "… of which told webhooks of the others"),
        ("attachments", "attachments that nobody else has"),
        ("revisions", "what messages said before they were edited"),
        ("recipients", "places on lists of campaigns"),
        ("requests", "requests by SQL that were not taken in"),
        ("suppressions", "suppressions, of which a keyed hash stays"),
        ("operations", "operations that had the address as a filter"),
    ] {
        table.row([words.to_owned(), erasure["erased"][name].to_string()]);
    }
    table.print();
    let found =
        erasure["erased"].as_object().into_iter().flatten().any(|(_, count)| count.as_u64() != Some(0));
    if !found && erasure["spared_count"] == 0 && erasure["named"] == 0 {
        out::note(
            "nothing of this address was found; see that it is whole, with its area code or domain, and the tenant",
        );
    }
    out::line(format!("{} {}", paint.dim("person"), out::field(&erasure["person"], "hash")));
    let spared = erasure["spared"].as_array().cloned().unwrap_or_default();
    for it in &spared {
        let words = ["id", "channel", "until", "why"].map(|name| out::field(it, name));
        out::line(format!(
            "{} {} in {} until {}: {}",
            paint.yellow("spared"),
            words[0],
            words[1],
            words[2],
            words[3]
        ));
    }
    let unlisted = erasure["spared_count"].as_u64().unwrap_or(0).saturating_sub(spared.len() as u64);
    if unlisted > 0 {
        out::note(format!("{unlisted} more were spared for the same reason"));
    }
    if let Some(named) = erasure["named"].as_u64().filter(|named| *named > 0) {
        out::note(format!(
            "{named} messages to others name the address and were left; --mentions erases them, too"
        ));
    }
    if let Some(ms) = erasure["swept_ms"].as_u64() {
        out::note(format!("the file was rewritten in {ms} ms"));
    }
}

/// Where more of it may be.
fn told_of_rest(erasure: &Value, wish: &Wish) {
    if erasure["dry_run"] == true {
        return;
    }
    if erasure["swept_ms"].is_null() {
        out::note("a database overwrites what was erased in time");
    }
    if wish.also_in.is_empty() {
        out::note("copies and backups made before still have everything; --also-in erases in them, too");
    }
}
