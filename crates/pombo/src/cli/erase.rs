//! `pombo store erase`: everything of one person, through the server that has the store, or on the store itself.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use pombo_kernel::erasure::{Erasure, Step};
use pombo_kernel::mask;
use pombo_kernel::message::Actor;
use pombo_kernel::name::Tenant;
use pombo_kernel::operation::{Kind, Operation, Stage, State};
use pombo_store::StoreError;
use pombo_store::home::Home;
use pombo_store::moving::MoveError;
use pombo_store::shelf::{Doc, Shelf, Shelved};
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
}

pub(crate) fn run(wish: &Wish, shared: &Shared) -> Result<(), Trouble> {
    let config = wish.at.config.load_for(Needs::Store)?;
    let home = wish.at.place.place(&config)?;
    let mut erasure = Value::Null;
    match home.free() {
        Ok(()) => wait_for(async {
            erasure = on_store(&home, &config.setup(), wish).await?;
            Ok(())
        })?,
        Err(MoveError::InUse(_)) => wait_for(async {
            erasure = through_server(&home, wish, shared).await?;
            Ok(())
        })?,
        Err(error) => return Err(trouble(&home, error)),
    }
    match shared.json {
        true => out::document(&erasure),
        false => show(&erasure),
    }
    Ok(())
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
async fn on_store(home: &Home, setup: &pombo_kernel::setup::Setup, wish: &Wish) -> Result<Value, Trouble> {
    let opened = node::open(home.clone(), Roles::of(&[NodeRole::Scheduler]), None).await?;
    let (store, clock) = (Arc::clone(&opened.store), Arc::clone(&opened.clock));
    let broken = |error: StoreError| trouble(home, error.into());
    let tenant = wish.tenant.clone().unwrap_or_default();
    let person = store.pseudonyms().person(&tenant, &wish.recipient).ok_or_else(|| {
        Trouble::usage("--recipient is empty")
            .hint("write for example ana@clinica.example, or +55 11 98765-4321")
    })?;
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
    let begun = operation::begin(&tenant, id.clone(), &operation);
    let leaf = begun.leaf.clone();
    let version = match store.shelve(vec![begun]).await.map_err(broken)?.pop() {
        Some(Shelved::Done { version }) => version,
        _ => {
            return Err(Trouble::new("the erasure could not be written down", "NOT_ERASED").hint("try again"));
        }
    };
    let doc = leaf.map(|leaf| Doc { tenant: tenant.clone(), id: id.clone(), version, updated_at: now, leaf });
    let eraser =
        doc.and_then(|doc| Eraser::take_up(Arc::clone(&store), Arc::clone(&clock), setup, doc, operation));
    let bar = spinner();
    let stopped = match eraser {
        Some(eraser) => eraser.run(&mut |erasure| bar.set_message(doing(erasure))).await,
        None => Ok(Stopped::Elsewhere),
    };
    let found = loop {
        let doc = store.doc(Shelf::Operation, tenant.clone(), id.clone()).await.map_err(broken)?;
        let found = doc.as_ref().and_then(operation::read);
        match (&stopped, found) {
            (Ok(Stopped::Elsewhere), Some(found)) if found.is_running() => tokio::time::sleep(LOOK).await,
            (_, found) => break found,
        }
    };
    bar.finish_and_clear();
    let closed = store.close().await;
    stopped.map_err(broken)?;
    closed.map_err(broken)?;
    match found {
        Some(Operation { state: State::Done { .. }, erasure: Some(erasure), .. }) => {
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
fn show(erasure: &Value) {
    let paint = Paint::stdout();
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
    match erasure["swept_ms"].as_u64() {
        Some(ms) => out::note(format!(
            "the file was rewritten in {ms} ms; copies and backups made before still have everything"
        )),
        None if !dry => out::note(
            "a database overwrites what was erased in time; copies and backups made before still have everything",
        ),
        None => {}
    }
}
