//! Where a store is, and what can be done with it as a whole.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use pombo_kernel::dice::Dice;
use pombo_kernel::message::Actor;
use pombo_kernel::time::Time;

use crate::audit::Tip;
use crate::checking::Checkup;
use crate::core::{Core, Reading};
use crate::glance::Glance;
use crate::moving::{self, Copied, MoveError, Moved, Source, Target};
use crate::postgres::{self, Postgres, Sealing};
use crate::sqlite::{self, Sqlite};
use crate::{Pause, StoreError};

/// Where a store is.
#[derive(Clone, Debug)]
pub enum Home {
    /// A folder on this machine, which belongs to one process at a time.
    Embedded(PathBuf),
    /// A database that any number of nodes share.
    Postgres(postgres::Target),
}

impl FromStr for Home {
    type Err = String;

    /// `postgres://…`, `sqlite:FOLDER`, or just the folder.
    fn from_str(text: &str) -> Result<Home, String> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return postgres::Target::parse(text).map(Home::Postgres);
        }
        let folder = text.strip_prefix("sqlite:").unwrap_or(text);
        let other = folder.split_once("://").map(|(scheme, _)| scheme);
        match (folder, other) {
            ("", _) => Err("the folder is missing".to_owned()),
            (_, Some(_)) => Err("a store is written as postgres://…, sqlite:FOLDER or a folder".to_owned()),
            (folder, None) => Ok(Home::Embedded(folder.into())),
        }
    }
}

/// For people: without a password.
impl fmt::Display for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Home::Embedded(folder) => write!(f, "{}", folder.display()),
            Home::Postgres(target) => f.write_str(&target.shown()),
        }
    }
}

/// How far a backup is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackedUp {
    Pages { done: u64, of: u64 },
    Rows(Moved),
}

/// The audit chain of a store.
pub struct Trail {
    pub reader: Box<dyn Reading>,
    /// As the store has it written down; more may come.
    pub end: Tip,
}

impl fmt::Debug for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trail").field("end", &self.end).finish_non_exhaustive()
    }
}

impl Home {
    /// Lets everything go on, on whoever's word; false if nothing was paused. Refused while a process has the folder:
    /// that one must be told.
    pub fn resume(&self, by: &Actor, now: Time, entropy: &[u8; 32]) -> Result<bool, MoveError> {
        self.change(now, entropy, |core| core.resume(by, now), |core| core.resume(by, now))
    }

    /// Lets nothing be sent from now on, as [`resume`](Home::resume) lets it go on.
    pub fn pause(&self, why: &str, by: &Actor, now: Time, entropy: &[u8; 32]) -> Result<(), MoveError> {
        let pause = Pause { since: now, why: why.to_owned() };
        self.change(now, entropy, |core| core.pause(&pause, by), |core| core.pause(&pause, by))
    }

    fn change<T>(
        &self,
        now: Time,
        entropy: &[u8; 32],
        in_folder: impl FnOnce(&mut Sqlite) -> Result<T, StoreError>,
        in_database: impl FnOnce(&mut Postgres) -> Result<T, StoreError>,
    ) -> Result<T, MoveError> {
        fn committed<C: Core, T>(
            mut core: C,
            change: impl FnOnce(&mut C) -> Result<T, StoreError>,
            now: Time,
            entropy: &[u8; 32],
        ) -> Result<T, StoreError> {
            let changed = change(&mut core)?;
            core.commit(now, entropy)?;
            Ok(changed)
        }
        let dice = Dice::seeded(now.millis().unsigned_abs());
        match self {
            Home::Embedded(folder) => {
                sqlite::moving::free(folder)?;
                Ok(committed(Sqlite::open(folder, dice, entropy)?, in_folder, now, entropy)?)
            }
            Home::Postgres(target) => {
                if postgres::moving::schema(target)?.is_none() {
                    return Err(MoveError::NoStore(self.to_string()));
                }
                let core = Postgres::open(target, dice, entropy, Sealing::AtCommit)?;
                Ok(committed(core, in_database, now, entropy)?)
            }
        }
    }

    /// Looks over everything and changes nothing. `tell` hears what it is at.
    pub fn check(&self, tell: &mut dyn FnMut(&'static str)) -> Result<Checkup, MoveError> {
        match self {
            Home::Embedded(folder) => sqlite::checking::check(folder, tell),
            Home::Postgres(target) => postgres::checking::check(target, tell),
        }
    }

    /// The audit chain, to be read beside whoever uses the store, and where the store says that it ends.
    pub fn trail(&self) -> Result<Trail, MoveError> {
        match self {
            Home::Embedded(folder) => sqlite::checking::trail(folder),
            Home::Postgres(target) => postgres::checking::trail(target),
        }
    }

    /// Looks shortly whether it can be used, beside whoever uses it.
    pub fn glance(&self) -> Result<Glance, MoveError> {
        match self {
            Home::Embedded(folder) => sqlite::glance::glance(folder),
            Home::Postgres(target) => postgres::glance::glance(target),
        }
    }

    /// The schema that the store has; none if there is no store.
    pub fn schema(&self) -> Result<Option<u32>, StoreError> {
        match self {
            Home::Embedded(folder) => sqlite::moving::schema(folder),
            Home::Postgres(target) => postgres::moving::schema(target),
        }
    }

    /// What an administrator of the server runs to make the roles, with whoever logs in here as their member.
    pub fn roles(&self) -> String {
        let login = match self {
            Home::Postgres(target) => target.user().map(|user| user.replace('\'', "''")),
            Home::Embedded(_) => None,
        };
        login.map_or_else(String::new, |login| format!("SET pombo.login = '{login}';\n")) + postgres::ROLES
    }

    /// Brings the schema up to date, making the store if need be, and says which schema it has now. `entropy` becomes
    /// the secret of a store that is new.
    pub fn migrate(&self, entropy: &[u8; 32]) -> Result<u32, StoreError> {
        match self {
            Home::Embedded(folder) => sqlite::moving::migrated(folder, entropy),
            Home::Postgres(target) => postgres::moving::migrated(target, entropy),
        }
    }

    /// Copies everything into another store, which must be empty or hold what an earlier run has copied. Afterwards
    /// this store is paused, so that not both send.
    pub fn copy_to(&self, to: &Home, now: Time, tell: &mut dyn FnMut(Moved)) -> Result<Copied, MoveError> {
        let mut source: Box<dyn Source> = match (self, to) {
            (Home::Embedded(folder), _) => Box::new(sqlite::moving::FolderSource::open(folder)?),
            (Home::Postgres(target), to) => {
                let source = postgres::moving::DatabaseSource::idle(target)?;
                if matches!(to, Home::Embedded(_)) {
                    source.refuse_unless_taken_in()?;
                }
                Box::new(source)
            }
        };
        let mut target: Box<dyn Target> = match to {
            Home::Embedded(folder) => Box::new(sqlite::moving::FolderTarget::open(folder)?),
            Home::Postgres(target) => Box::new(postgres::moving::DatabaseTarget::open(target)?),
        };
        let copied = moving::copy(&mut *source, &mut *target, &to.to_string(), None, tell)?;
        source.retire(&moving::of_moved(&to.to_string(), now))?;
        Ok(copied)
    }

    /// Writes a copy of the store, as it is at one moment, into a folder that is not there yet. The copy is an
    /// embedded store that sends nothing until somebody says so.
    pub fn back_up(&self, to: &Path, now: Time, tell: &mut dyn FnMut(BackedUp)) -> Result<(), MoveError> {
        let failed = |error: std::io::Error| StoreError::Unavailable(format!("{}: {error}", to.display()));
        let name = to.file_name().ok_or_else(|| MoveError::NoStore(to.display().to_string()))?;
        if to.read_dir().is_ok_and(|mut there| there.next().is_some()) || to.is_file() {
            return Err(MoveError::NotEmpty { place: to.display().to_string(), what: "files".to_owned() });
        }
        // Under another name until it is whole.
        let part = to.with_file_name([name, "partial".as_ref()].join(".".as_ref()));
        if part.exists() {
            fs::remove_dir_all(&part).map_err(failed)?;
        }
        sqlite::make_folder(&part).map_err(failed)?;
        let pause = moving::of_backup(&self.to_string(), now);
        match self {
            Home::Embedded(folder) => {
                let mut tell = |done, of| tell(BackedUp::Pages { done, of });
                sqlite::backup::backup(folder, &part, &pause, &mut tell)?;
            }
            Home::Postgres(database) => {
                let mut source = postgres::moving::DatabaseSource::at_once(database)?;
                let mut target = sqlite::moving::FolderTarget::open(&part)?;
                let mut tell = |moved| tell(BackedUp::Rows(moved));
                moving::copy(&mut source, &mut target, &part.display().to_string(), Some(pause), &mut tell)?;
            }
        }
        fs::rename(&part, to).map_err(failed)?;
        sqlite::backup::flushed(
            to.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new(".")),
        )?;
        Ok(())
    }
}
