//! Where a workload's store is made, and removed again.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pombo_store::StoreError;
use pombo_store::postgres::{Scratch, Target};
use tempfile::TempDir;

use super::meter::{self, Meter};
use super::stand::failed;
use crate::cli::Trouble;
use crate::clock;
use crate::node::Place;

/// What there is to build on.
#[derive(Clone, Debug)]
pub(crate) enum Ground {
    /// A folder, in which each store gets one of its own.
    Folder(PathBuf),
    /// A PostgreSQL, on which each store gets a database of its own.
    Server(Target),
}

/// The place of one store. Both are removed with this.
pub(super) enum Plot {
    Folder(TempDir),
    Database(Arc<Scratch>, Facts),
}

/// What the server says of itself.
pub(super) struct Facts {
    durability: String,
    /// The process that it consists of, if that is on this machine.
    process: Option<u32>,
}

const LOOK_AGAIN: Duration = Duration::from_millis(50);
const AUDITED: &str = "audit record per transition";

impl Ground {
    pub(super) async fn plot(&self) -> Result<Plot, Trouble> {
        match self {
            Ground::Folder(data) => {
                let made = tempfile::Builder::new().prefix("pombo-bench-").tempdir_in(data);
                made.map(Plot::Folder).map_err(|error| {
                    Trouble::new(format!("no folder can be made in {}", data.display()), "FILE_UNREADABLE")
                        .why(error)
                        .hint("name another with --data")
                })
            }
            Ground::Server(target) => {
                let (server, name) = (target.clone(), format!("pombo_bench_{:016x}", clock::seed()));
                let made = blocking(move || {
                    let scratch = Scratch::make(&server, &name)?;
                    let says = scratch.server()?;
                    Ok((Arc::new(scratch), says))
                });
                let (scratch, says) = made.await.map_err(|why| {
                    Trouble::new(
                        format!("no database can be made at {}", target.shown()),
                        "STORE_UNAVAILABLE",
                    )
                    .why(why)
                    .hint("each workload gets a database of its own: the user must be allowed to CREATEDB")
                })?;
                let settings: Vec<String> =
                    says.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let durability = format!("PostgreSQL {}: {}, {AUDITED}", says.version, settings.join(", "));
                let process = meter::postmaster(says.session);
                Ok(Plot::Database(scratch, Facts { durability, process }))
            }
        }
    }
}

impl Plot {
    pub(super) fn place(&self) -> Place {
        match self {
            Plot::Folder(folder) => Place::Embedded(folder.path().to_owned().into()),
            Plot::Database(scratch, _) => Place::Postgres(scratch.target().clone()),
        }
    }

    pub(super) fn store(&self) -> &'static str {
        match self {
            Plot::Folder(_) => "sqlite",
            Plot::Database(..) => "postgres",
        }
    }

    pub(super) fn durability(&self) -> String {
        match self {
            Plot::Folder(_) => format!("wal, synchronous=FULL, {AUDITED}"),
            Plot::Database(_, facts) => facts.durability.clone(),
        }
    }

    pub(super) fn file_system(&self) -> Option<String> {
        match self {
            Plot::Folder(folder) => meter::file_system(folder.path()),
            Plot::Database(..) => None,
        }
    }

    /// A meter that counts the server as well, where there is one on this machine.
    pub(super) fn meter(&self) -> Meter {
        Meter::start(match self {
            Plot::Folder(_) => None,
            Plot::Database(_, facts) => facts.process,
        })
    }

    /// After a store is filled: what a server would do some time later, it does now.
    pub(super) async fn settle(&self) -> Result<(), Trouble> {
        let Plot::Database(scratch, _) = self else { return Ok(()) };
        let scratch = Arc::clone(scratch);
        blocking(move || scratch.settle()).await.map_err(failed)
    }

    /// Waits until the audit is a chain to its end. Where one node seals for all, that is a moment after the last commit.
    pub(super) async fn sealed(&self) -> Result<(), Trouble> {
        let Plot::Database(scratch, _) = self else { return Ok(()) };
        loop {
            let scratch = Arc::clone(scratch);
            if blocking(move || scratch.is_sealed()).await.map_err(failed)? {
                return Ok(());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Transactions of the database so far.
    pub(super) async fn transactions(&self) -> Result<Option<i64>, Trouble> {
        let Plot::Database(scratch, _) = self else { return Ok(None) };
        let scratch = Arc::clone(scratch);
        blocking(move || scratch.transactions()).await.map(Some).map_err(failed)
    }
}

/// Asks a database, which takes a thread that may wait.
async fn blocking<T: Send + 'static>(
    ask: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let asked = tokio::task::spawn_blocking(ask).await;
    asked.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
}
