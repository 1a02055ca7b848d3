//! `pombo store rekey`: a store sealed with another key, or for the first time, or no more.

use clap::Args;
use pombo_kernel::message::Actor;
use pombo_kernel::time::Clock;
use pombo_store::moving::MoveError;
use pombo_store::vault::rekeying::{Aim, Rekeyed, Turning};
use serde_json::json;

use super::out;
use super::store::{Where, bar, trouble};
use super::{Shared, Trouble};
use crate::clock::{self, SystemClock};

#[derive(Debug, Args)]
pub(crate) struct Wish {
    #[command(flatten)]
    at: Where,
    /// Decrypt everything instead
    #[arg(long)]
    to_plain: bool,
}

pub(crate) fn run(wish: &Wish, shared: &Shared) -> Result<(), Trouble> {
    let home = wish.at.home()?;
    let aim = if wish.to_plain { Aim::Plain } else { Aim::Sealed };
    let bar = bar();
    let mut tell = |turning| match turning {
        Turning::Rows { table, rows, of } => {
            bar.set_message(table.as_str());
            bar.set_length(of);
            bar.set_position(rows);
        }
        Turning::Cleaning => bar.set_message("taking out what stood there before"),
    };
    let by = Actor("pombo store".to_owned());
    let done = home.rekey(aim, &by, SystemClock::new().now(), &clock::entropy(), &mut tell);
    bar.finish_and_clear();
    let done = done.map_err(|error| match error {
        MoveError::InUse(_) => trouble(&home, error).why("a folder belongs to one process at a time"),
        error => trouble(&home, error),
    })?;
    if shared.json {
        out::document(&json!({"store": home.to_string(), "rekeyed": done}));
        return Ok(());
    }
    out::line(match &done {
        None => format!("{home} is not encrypted; nothing was done"),
        Some(Rekeyed { key: Some(key), rows, changed, .. }) => {
            format!("{home} is encrypted with key {key}: {changed} of {rows} rows were written anew")
        }
        Some(Rekeyed { rows, changed, .. }) => {
            format!("{home} is not encrypted any more: {changed} of {rows} rows were written anew")
        }
    });
    out::note(match (&done, wish.to_plain) {
        (Some(Rekeyed { key: Some(_), .. }), _) => {
            "keys under `previous` can go from the configuration, and stay with the backups that need them"
        }
        (_, true) => "take [encryption] out of the configuration before the next start",
        _ => return Ok(()),
    });
    Ok(())
}
