//! `pombo store`: a whole store, looked over, brought up to date, backed up, copied, paused and resumed.
//!
//! These commands work on the folder or the database itself, beside the servers that use it where that does no harm.
//! Only what a running server holds in its own hands is done through it.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pombo_kernel::message::Actor;
use pombo_kernel::secret::Secret;
use pombo_kernel::time::Clock;
use pombo_store::Pause;
use pombo_store::checking::Checkup;
use pombo_store::home::{BackedUp, Home, Salvaged};
use pombo_store::moving::{Copied, MoveError};
use pombo_store::vault::rekeying::Opened;
use serde_json::json;

use super::out::{self, Paint, Table};
use super::place::{PlaceArgs, secret};
use super::{ConfigArgs, Shared, Trouble, erase, prune, rekey, wait_for};
use crate::client::Payload;
use crate::clock::{self, SystemClock};
use crate::config::Needs;
use crate::node::NodeError;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Look over everything: schema, pages, messages, audit chain
    #[command(
        after_help = "It changes nothing, may run beside a server, and exits with 1 if something is wrong.

Examples:
  pombo store check
  pombo store check --data /var/lib/pombo --json"
    )]
    Check(Where),
    /// Bring the schema up to date, making the store if there is none
    #[command(after_help = "Every start of `pombo serve` does this as well, if it may.

Examples:
  pombo store migrate --database-url postgres://owner@db/pombo
  pombo store migrate --database-url postgres://pombo@db/pombo --print-roles | psql -h db -U postgres pombo")]
    Migrate {
        #[command(flatten)]
        at: Where,
        /// Print the SQL that makes the roles, for whoever may create roles on the server; change nothing
        #[arg(long)]
        print_roles: bool,
    },
    /// Write a copy of the store, as it is at one moment, into a new folder
    #[command(
        after_help = "It may run beside servers at work. The copy is an embedded store, whatever it was made of, \
and sends nothing \
until `pombo store resume`: what waits in it may have been sent since it was made.

Examples:
  pombo store backup --to /backup/pombo-2026-11-16
  pombo store backup --database-url postgres://pombo@db/pombo --to /backup/pombo-2026-11-16"
    )]
    Backup {
        #[command(flatten)]
        at: Where,
        /// The folder to make
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
    },
    /// Copy a store into an empty one of either kind, and compare
    #[command(
        after_help = "A store is written as postgres://…, sqlite:DIR or DIR. No server may use either one. A \
copy that is cut off \
goes on where it was when the same command is run again. Afterwards the source is paused, so that not both send.

Examples:
  pombo store copy --from ./pombo-data --to postgres://pombo@db/pombo
  pombo store copy --from postgres://pombo@db/pombo --to sqlite:/var/lib/pombo"
    )]
    Copy {
        /// The store to copy
        // Taken as they are: a refusal by the parser would repeat the password.
        #[arg(long, value_name = "STORE", value_parser = secret)]
        from: Secret,
        /// The empty store, or none yet, to copy it into
        #[arg(long, value_name = "STORE", value_parser = secret)]
        to: Secret,
        // An encrypted one is copied as it is, and its key is needed to hash what it is found by.
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Erase everything of one person, for good
    #[command(
        after_help = "Messages that wait are cancelled first, and those being sent are waited for. Claims of the last five years are \
spared, and listed. A server that has the store is asked to do it; on a database it is done beside the servers. In backups it is done \
here, in one after the other; one in which it cannot be done keeps none of the others from its turn.

Examples:
  pombo store erase --recipient '+55 11 98765-4321' --dry-run
  pombo store erase --recipient ana@clinica.example --reason 'asked for in writing on 2026-11-16'
  pombo store erase --recipient ana@clinica.example --also-in /backup/pombo-*"
    )]
    Erase(erase::Wish),
    /// Remove messages that ended long ago
    #[command(
        after_help = "A running server does this by itself, as [retention] says. Without --older-than it is what retention gives up. \
Dead letters go only with --state failed, claims not before five years, and what has not ended never. The audit stays.

Examples:
  pombo store prune --dry-run
  pombo store prune --channel email --state sent --older-than 90d"
    )]
    Prune(prune::Wish),
    /// Encrypt everything with the key of the configuration, or decrypt it
    #[command(
        after_help = "The key stands under [encryption]. With another key, and the old one under `previous`, it \
replaces the old one; on PostgreSQL that may run beside nodes that have both. A store that was plain is encrypted, \
and with --to-plain an encrypted one is plain again; for that nobody may use the store. It goes in small steps: what \
is cut off goes on where it was when the same command is run again.

Examples:
  pombo store rekey
  pombo store rekey --database-url postgres://pombo@db/pombo --json
  pombo store rekey --to-plain"
    )]
    Rekey(rekey::Wish),
    /// Send nothing until `resume`; messages are still accepted
    #[command(
        after_help = "Before nodes start on a database that was set back in time by its archive, for example.

Example:
  pombo store pause --database-url postgres://pombo@db/pombo --reason 'set back to noon'"
    )]
    Pause {
        #[command(flatten)]
        at: Where,
        /// Why, for whoever looks
        #[arg(long)]
        reason: String,
    },
    /// Let a paused store send
    #[command(
        after_help = "First see what waits (`pombo messages list --state pending`), and cancel what was sent \
already.

Examples:
  pombo store resume
  pombo store resume --data /backup/pombo-2026-11-16"
    )]
    Resume(Where),
    /// Go on without what stands behind damage in a folder's log
    #[command(
        after_help = "For a store that is refused with STORE_DAMAGED and has no backup that is new enough. The log \
is cut off where it cannot be read, a copy of it stays beside it, and nothing is sent until `pombo store resume`. Run \
`pombo store check` next: what is left may contradict itself.

Example:
  pombo store salvage --data /var/lib/pombo"
    )]
    Salvage(Where),
}

/// Which store.
#[derive(Debug, Args)]
pub(crate) struct Where {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    #[command(flatten)]
    pub(super) place: PlaceArgs,
}

impl Where {
    pub(super) fn home(&self) -> Result<Home, Trouble> {
        self.place.place(&self.config.load_for(Needs::Store)?)
    }
}

pub(crate) fn run(verb: Verb, shared: &Shared) -> Result<(), Trouble> {
    match verb {
        Verb::Check(at) => check(&at.home()?, shared),
        Verb::Migrate { at, print_roles: true } => {
            out::line(at.home()?.roles().trim_end());
            Ok(())
        }
        Verb::Migrate { at, .. } => migrate(&at.home()?, shared),
        Verb::Backup { at, to } => backup(&at.home()?, &to, shared),
        Verb::Copy { from, to, config } => {
            let from = named(&from, "--from")?;
            match config.load_for(Needs::Store)?.encryption.keys() {
                Ok(keys) => copy(&from.with_keys(keys), &named(&to, "--to")?, shared),
                Err(error) => Err(trouble(&from, error.into())),
            }
        }
        Verb::Erase(wish) => erase::run(&wish, shared),
        Verb::Prune(wish) => prune::run(&wish, shared),
        Verb::Rekey(wish) => rekey::run(&wish, shared),
        Verb::Pause { at, reason } => {
            let home = at.home()?;
            let done = home.pause(&reason, &by(), SystemClock::new().now(), &clock::entropy());
            through_server_if_used(&home, done.map(|()| true), "pause", &json!({"reason": reason}), shared)
        }
        Verb::Salvage(at) => salvage(&at.home()?, shared),
        Verb::Resume(at) => {
            let home = at.home()?;
            let done = home.resume(&by(), SystemClock::new().now(), &clock::entropy());
            through_server_if_used(&home, done, "resume", &json!({}), shared)
        }
    }
}

fn named(place: &Secret, option: &str) -> Result<Home, Trouble> {
    place.expose().parse().map_err(|why: String| {
        Trouble::usage(format!("{option} is not a store"))
            .why(why)
            .hint("write postgres://user:password@host:5432/database, sqlite:DIR or DIR")
    })
}

/// How the audit names whoever types commands on the machine of the store.
fn by() -> Actor {
    Actor("pombo store".to_owned())
}

fn check(home: &Home, shared: &Shared) -> Result<(), Trouble> {
    let bar = spinner();
    let found = home.check(&mut |what| bar.set_message(format!("looking at {what}")));
    bar.finish_and_clear();
    let found = found.map_err(|error| trouble(home, error))?;
    match shared.json {
        true => out::document(&found),
        false => show(home, &found),
    }
    if found.faults.is_empty() { Ok(()) } else { Err(Trouble::told()) }
}

fn show(home: &Home, found: &Checkup) {
    let paint = Paint::stdout();
    let row = |what: &str, value: &str| out::line(format!("{} {value}", paint.dim(&format!("{what:<7}"))));
    row("store", &home.to_string());
    row("schema", &found.schema.to_string());
    let held = found.rows.iter().filter(|row| row.count > 0);
    let rows: Vec<String> = held.map(|row| format!("{} {}", row.table.as_str(), row.count)).collect();
    row("rows", &if rows.is_empty() { "none".to_owned() } else { rows.join(", ") });
    row("audit", &format!("{} records in {} blocks", found.audit_records, found.audit_blocks));
    if let Some(Opened { seal, opened }) = found.encryption.as_ref().filter(|it| it.seal.encrypted) {
        let opened = opened
            .map_or("not looked into without a key".to_owned(), |count| format!("{count} values opened"));
        row("sealed", &format!("with key {}, {opened}", seal.keys.join(" and ")));
    }
    if let Some(pause) = &found.paused {
        row("sending", &said(paint, pause));
    }
    for fault in &found.faults {
        out::line(format!("{} {}", paint.red("fault:"), fault.what));
        out::line(format!("{} {}", paint.cyan("hint:"), fault.hint));
    }
    if found.faults.is_empty() {
        out::line(paint.green("all is well"));
    }
}

/// That nothing is sent, why, and what to do.
fn said(paint: Paint, pause: &Pause) -> String {
    format!("{} since {}: {}", paint.yellow("paused"), pause.since, pause.why)
}

fn migrate(home: &Home, shared: &Shared) -> Result<(), Trouble> {
    let migrated = || -> Result<(Option<u32>, u32), MoveError> {
        Ok((home.schema()?, home.migrate(&clock::entropy())?))
    };
    let (from, to) = migrated().map_err(|error| trouble(home, error))?;
    if shared.json {
        out::document(&json!({"store": home.to_string(), "from": from, "to": to}));
    } else {
        out::line(match from {
            None => format!("{home} is a store now, with schema {to}"),
            Some(from) if from == to => format!("{home} has schema {to} already"),
            Some(from) => format!("{home} went from schema {from} to {to}"),
        });
    }
    Ok(())
}

fn salvage(home: &Home, shared: &Shared) -> Result<(), Trouble> {
    let done = home.salvage(&by(), SystemClock::new().now(), &clock::entropy());
    let salvaged = done.map_err(|error| trouble(home, error))?;
    if shared.json {
        out::document(&json!({"store": home.to_string(), "salvaged": salvaged}));
        return Ok(());
    }
    let Some(Salvaged { at, commits, copy }) = salvaged else {
        out::line(format!("the log of {home} is sound; nothing was changed"));
        return Ok(());
    };
    out::line(format!("the log of {home} was cut off at byte {at}: {commits} commits or more are lost"));
    out::line(format!("as it was, it is kept in {}", copy.display()));
    out::note(
        "nothing is sent until `pombo store resume`; run `pombo store check` first, and see what waits",
    );
    Ok(())
}

fn backup(home: &Home, to: &PathBuf, shared: &Shared) -> Result<(), Trouble> {
    let bar = bar();
    let mut tell = |far: BackedUp| {
        let (done, of) = match far {
            BackedUp::Pages { done, of } => (done, of),
            BackedUp::Rows(moved) => {
                bar.set_message(moved.table.as_str());
                (moved.rows, moved.of)
            }
        };
        bar.set_length(of);
        bar.set_position(done);
    };
    let done = home.back_up(to, SystemClock::new().now(), &mut tell);
    bar.finish_and_clear();
    done.map_err(|error| trouble(home, error))?;
    if shared.json {
        out::document(&json!({"store": home.to_string(), "backup": to}));
    } else {
        out::line(format!("{home} is backed up in {}", to.display()));
        out::note("the copy sends nothing until `pombo store resume`; see `pombo store check --data` on it");
    }
    Ok(())
}

fn copy(from: &Home, to: &Home, shared: &Shared) -> Result<(), Trouble> {
    let bar = bar();
    let copied = from.copy_to(to, SystemClock::new().now(), &mut |moved| {
        bar.set_message(moved.table.as_str());
        bar.set_length(moved.of);
        bar.set_position(moved.rows);
    });
    bar.finish_and_clear();
    let copied = copied.map_err(|error| trouble(from, error))?;
    if shared.json {
        out::document(&copied);
    } else {
        compared(from, to, &copied);
    }
    Ok(())
}

fn compared(from: &Home, to: &Home, copied: &Copied) {
    let mut table = Table::new(["table", "source", "target"]);
    for it in &copied.tables {
        table.row([it.table.as_str().to_owned(), it.source.to_string(), it.target.to_string()]);
    }
    table.print();
    let tip = copied.audit_tip.get(..16).unwrap_or_default();
    out::line(format!("audit chain: {} records, ends in {tip}… on both sides", copied.audit_records));
    out::line(format!("{to} can be served from"));
    if let Some(pause) = &copied.paused {
        out::line(format!("it is {}; `pombo store resume` lets it send", said(Paint::stdout(), pause)));
    }
    out::note(format!("{from} is paused, so that not both send"));
}

/// Says what was done; a folder that a server has is left to that server.
fn through_server_if_used(
    home: &Home,
    done: Result<bool, MoveError>,
    verb: &str,
    body: &serde_json::Value,
    shared: &Shared,
) -> Result<(), Trouble> {
    let changed = match done {
        Ok(changed) => changed,
        Err(MoveError::InUse(_)) => {
            let client = shared.client()?;
            let path = format!("/v1/store/{verb}");
            wait_for(async {
                client.post(&path, Payload::json(body)).await.map_err(|error| {
                    let trouble = Trouble::from(error);
                    let used = format!("a server uses {home}, and must be asked");
                    let why = trouble.why.as_ref().map_or(used.clone(), |why| format!("{why}; {used}"));
                    trouble.why(why)
                })?;
                Ok(())
            })?;
            true
        }
        Err(error) => return Err(trouble(home, error)),
    };
    if shared.json {
        out::document(&json!({"store": home.to_string(), "paused": verb == "pause"}));
    } else {
        out::line(match (verb, changed) {
            ("pause", _) => format!("{home} is paused: nothing is sent until `pombo store resume`"),
            (_, true) => format!("{home} sends again"),
            (_, false) => format!("{home} was not paused"),
        });
    }
    Ok(())
}

/// A bar for what is counted, on a terminal.
pub(super) fn bar() -> ProgressBar {
    styled(ProgressBar::new(0), "{bar:20.cyan/dim} {human_pos}/{human_len} {eta} left · {wide_msg}")
}

pub(super) fn spinner() -> ProgressBar {
    let bar = styled(ProgressBar::new_spinner(), "{spinner} {wide_msg} · {elapsed}");
    bar.enable_steady_tick(std::time::Duration::from_millis(120));
    bar
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    bar.set_draw_target(ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

pub(super) fn trouble(home: &Home, error: MoveError) -> Trouble {
    let what = error.to_string();
    match error {
        MoveError::Store(error) => NodeError::Store { place: home.clone(), error }.into(),
        MoveError::NoStore(_) => Trouble::new(what, "STORE_NOT_FOUND")
            .hint("name its folder with --data or its database with --database-url; `pombo store migrate` makes one"),
        MoveError::Schema { have, want, .. } if have > want => {
            Trouble::new(what, "STORE_SCHEMA").hint("run the version of Pombo that wrote it, or a later one")
        }
        MoveError::Schema { .. } => Trouble::new(what, "STORE_SCHEMA").hint("run `pombo store migrate` first"),
        MoveError::InUse(_) => Trouble::new(what, "STORE_IN_USE")
            .why("a server could write to it meanwhile")
            .hint("stop every server on it; on PostgreSQL one that was killed counts for ten minutes"),
        MoveError::NotEmpty { .. } => Trouble::new(what, "STORE_NOT_EMPTY")
            .hint("nothing was written; name a folder or a database that has no store yet"),
        MoveError::OtherCopy(_) => Trouble::new(what, "COPY_OF_ANOTHER")
            .hint("remove the folder, or the schema `pombo` of the database, and copy anew"),
        MoveError::NotTakenIn { .. } => Trouble::new(what, "NOT_TAKEN_IN").hint(
            "let the applications stop, and a node run until `SELECT count(*) FROM pombo.inbox` is 0, then try again",
        ),
        MoveError::Differs { .. } | MoveError::Chain(_) => Trouble::new(what, "COPY_DIFFERS").hint(
            "the copy cannot be served from; run `pombo store check` on the source, remove the copy and make it anew",
        ),
    }
}
