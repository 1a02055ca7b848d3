//! `[store]`: where messages are kept.

use std::path::{Path, PathBuf};

use pombo_kernel::secret::Secret;
use pombo_kernel::time::Span;
use pombo_store::postgres::Target;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Value;

use super::channel;
use super::section::Reading;

/// Where messages are kept, if not in the folder that `--data` names.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Store {
    /// A PostgreSQL that any number of nodes share, for example "postgres://pombo@db.example/pombo"; with a password,
    /// "${DATABASE_URL}".
    database_url: Option<Secret>,
    /// A file that holds it, instead of `database_url`.
    database_url_file: Option<PathBuf>,
    /// On PostgreSQL: months that ended longer ago are dropped, once everything in them is finished, for example "365d".
    keep: Option<Span>,
}

/// Messages are kept for at least so long, since people ask about last week.
const KEEP_MIN: Span = Span::from_hours(24 * 7);

pub(super) fn read(
    reading: &mut Reading,
    value: Option<Value>,
    folder: &Path,
) -> (Option<Target>, Option<Span>) {
    let table = value.and_then(|value| reading.table("store", value)).unwrap_or_default();
    let Store { database_url, database_url_file, keep } = reading.section("store", table);
    if keep.is_some_and(|keep| keep < KEEP_MIN) {
        let hint = "for example \"365d\"; leave it out to keep everything";
        reading.problems.say("store.keep", format!("shorter than {KEEP_MIN}"), hint);
    }
    let here = "store.database_url";
    // An address alone is no secret.
    let open = database_url.as_ref().is_some_and(|url| !has_password(url.expose()));
    if open {
        reading.origins.note_outside(here, None);
    }
    let file = database_url_file.as_deref();
    let url = channel::secret(reading, "store", "database_url", database_url, file, folder);
    let target = match url.map(|url| Target::parse(url.expose())) {
        Some(Err(why)) => {
            reading.problems.say(here, why, "write postgres://user:password@host:5432/database");
            None
        }
        parsed => parsed.and_then(Result::ok),
    };
    (target, keep)
}

fn has_password(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let user = rest.rsplit_once('@').map_or("", |(user, _)| user);
    user.contains(':') || rest.contains("password=")
}
