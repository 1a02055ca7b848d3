//! `pombo store prune`: messages that ended long ago, through the server that has the store, or on the store itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use pombo_kernel::message::Actor;
use pombo_kernel::name::ChannelName;
use pombo_kernel::setup::Setup;
use pombo_kernel::time::Span;
use pombo_store::home::Home;
use pombo_store::moving::MoveError;
use pombo_store::prune::{Effect, Prune, Walk};
use pombo_web::operation;
use serde_json::{Value, json};

use super::operations::{Bar, ended, word};
use super::out::{self, Table};
use super::store::{Where, spinner, trouble};
use super::{Shared, Trouble, wait_for};
use crate::client::Payload;
use crate::config::Needs;
use crate::keeper::{AT_ONCE, label};
use crate::node::{self, NodeRole, Roles};

#[derive(Debug, Args)]
pub(crate) struct Wish {
    #[command(flatten)]
    at: Where,
    /// Only messages of this channel
    #[arg(long, value_name = "NAME")]
    channel: Option<ChannelName>,
    /// Only messages that ended like this; dead letters go only if they are named
    #[arg(long)]
    state: Option<End>,
    /// Those that ended longer ago, instead of those that retention gives up; for example 90d
    #[arg(long, value_name = "SPAN")]
    older_than: Option<Span>,
    /// Only count what would be removed
    #[arg(long)]
    dry_run: bool,
}

/// How a message ended.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum End {
    Sent,
    Failed,
    Cancelled,
    Discarded,
}

impl End {
    fn as_str(self) -> &'static str {
        match self {
            End::Sent => "sent",
            End::Failed => "failed",
            End::Cancelled => "cancelled",
            End::Discarded => "discarded",
        }
    }
}

impl Wish {
    fn filter(&self) -> BTreeMap<String, String> {
        let channel = self.channel.as_ref().map(ToString::to_string);
        let state = self.state.map(|state| state.as_str().to_owned());
        let older_than = self.older_than.map(|span| span.to_string());
        let given = [("channel", channel), ("state", state), ("older_than", older_than)];
        given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

pub(crate) fn run(wish: &Wish, shared: &Shared) -> Result<(), Trouble> {
    let config = wish.at.config.load_for(Needs::Store)?;
    let home = wish.at.place.place(&config)?;
    let mut counts = BTreeMap::new();
    match home.free() {
        Ok(()) => wait_for(async {
            counts = on_store(&home, &config.setup(), wish).await?;
            Ok(())
        })?,
        Err(MoveError::InUse(_)) => wait_for(async {
            counts = through_server(&home, wish, shared).await?;
            Ok(())
        })?,
        Err(error) => return Err(trouble(&home, error)),
    }
    let total: u64 = counts.values().sum();
    if shared.json {
        out::document(&json!({"dry_run": wish.dry_run, "removed": total, "counts": counts}));
        return Ok(());
    }
    let mut table = Table::new(["channel", "state", if wish.dry_run { "would go" } else { "removed" }]);
    for (what, count) in &counts {
        let (channel, state) = what.rsplit_once('.').unwrap_or((what, ""));
        table.row([channel.to_owned(), state.to_owned(), count.to_string()]);
    }
    match (table.is_empty(), wish.dry_run) {
        (true, _) => out::line("nothing ended so long ago that it goes"),
        (false, dry) => {
            table.print();
            out::line(format!("{total} messages {}", if dry { "would go" } else { "were removed" }));
        }
    }
    Ok(())
}

/// Asks the server that has the store, and follows its operation to the end.
async fn through_server(home: &Home, wish: &Wish, shared: &Shared) -> Result<BTreeMap<String, u64>, Trouble> {
    let client = shared.client()?;
    let mut body = json!(wish.filter());
    body["dry_run"] = wish.dry_run.into();
    let begun = client.post("/v1/store/prune", Payload::json(&body)).await.map_err(|error| {
        let trouble = Trouble::from(error);
        let used = format!("a server uses {home}, and must be asked");
        let why = trouble.why.as_ref().map_or(used.clone(), |why| format!("{why}; {used}"));
        trouble.why(why)
    })?;
    let bar = Bar::new(shared.json);
    let done = ended(&client, word(&begun, "id"), &bar).await;
    bar.clear();
    let done: Value = done?;
    match word(&done, "state") {
        "done" => Ok(serde_json::from_value(done["counts"].clone()).unwrap_or_default()),
        state => Err(Trouble::new(format!("it is {state}: {}", word(&done, "reason")), "NOT_PRUNED")
            .hint("what was removed stays removed; run the same command again for the rest")),
    }
}

/// Does it here, step by step.
async fn on_store(home: &Home, setup: &Setup, wish: &Wish) -> Result<BTreeMap<String, u64>, Trouble> {
    let rules = operation::prune_rules(&wish.filter(), setup).map_err(|(name, what, hint)| {
        Trouble::usage(format!("--{} {what}", name.replace('_', "-"))).hint(hint)
    })?;
    let rules = Arc::new(rules);
    let opened = node::open(home.clone(), Roles::of(&[NodeRole::Scheduler]), None).await?;
    let (store, clock) = (Arc::clone(&opened.store), Arc::clone(&opened.clock));
    let (by, effect) =
        (Actor("pombo store".to_owned()), if wish.dry_run { Effect::Tell } else { Effect::Remove });
    let bar = spinner();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut looked = 0;
    let mut walk = Some(Walk::default());
    let mut failed = None;
    while let Some(here) = walk {
        let prune = Prune { rules: Arc::clone(&rules), by: by.clone(), effect, walk: here };
        let done = match store.prune(prune, AT_ONCE, clock.now()).await {
            Ok(done) => done,
            Err(error) => {
                failed = Some(error);
                break;
            }
        };
        for ((channel, state), count) in done.removed {
            *counts.entry(label(&channel, state)).or_default() += count;
        }
        looked += done.looked;
        bar.set_message(format!("{looked} looked at · {} found", counts.values().sum::<u64>()));
        walk = done.next;
    }
    bar.finish_and_clear();
    let closed = store.close().await;
    match failed.map_or(closed, Err) {
        Ok(()) => Ok(counts),
        Err(error) => Err(trouble(home, error.into())),
    }
}
