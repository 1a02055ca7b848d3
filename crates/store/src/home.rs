//! Where a store is, and what can be done with it as a whole.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use pombo_kernel::dice::Dice;
use pombo_kernel::message::Actor;
use pombo_kernel::time::Time;
use serde::Serialize;

use crate::audit::Tip;
use crate::checking::Checkup;
use crate::core::{Core, Reading};
use crate::glance::Glance;
use crate::moving::{self, Copied, MoveError, Moved, Source, Target};
use crate::postgres::{self, Postgres, Sealing};
use crate::sqlite::{self, Sqlite};
use crate::vault::Keys;
use crate::vault::opening::{NAME_A_KEY, Seal};
use crate::vault::rekeying::{self, Aim, Exchange, Rekeyed, Turning, Values};
use crate::walls::Walls;
use crate::{Pause, StoreError, transition};

/// Where a store is.
#[derive(Clone, Debug)]
pub enum Home {
    /// A folder on this machine, which belongs to one process at a time.
    Embedded(Folder),
    /// A database that any number of nodes share.
    Postgres(postgres::Target),
}

/// A folder with a store, and what that is sealed with, if it is or is to be.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    keys: Option<Keys>,
}

impl Folder {
    pub fn keys(&self) -> Option<&Keys> {
        self.keys.as_ref()
    }
}

impl From<PathBuf> for Folder {
    fn from(path: PathBuf) -> Folder {
        Folder { path, keys: None }
    }
}

impl std::ops::Deref for Folder {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.path
    }
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
            (folder, None) => Ok(Home::Embedded(PathBuf::from(folder).into())),
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

/// What was given up of a log that was damaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Salvaged {
    /// The byte at which the log was cut off.
    pub at: u64,
    /// At least so many commits are lost.
    pub commits: u64,
    /// Where the log is kept as it was.
    pub copy: PathBuf,
}

/// The audit chain of a store.
pub struct Trail {
    pub reader: Box<dyn Reading>,
    /// As the store has it written down; more may come.
    pub end: Tip,
    /// As it is written down apart from the chain, so that whoever cuts the chain off may forget it.
    pub noted: Option<Tip>,
}

impl fmt::Debug for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trail").field("end", &self.end).finish_non_exhaustive()
    }
}

impl Home {
    /// The same place, whose store is sealed with these keys, or will be.
    #[must_use]
    pub fn with_keys(self, keys: Option<Keys>) -> Home {
        match self {
            Home::Embedded(folder) => Home::Embedded(Folder { keys, ..folder }),
            Home::Postgres(target) => Home::Postgres(target.with_keys(keys)),
        }
    }

    fn keys(&self) -> Option<&Keys> {
        match self {
            Home::Embedded(folder) => folder.keys(),
            Home::Postgres(target) => target.keys(),
        }
    }

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

    /// Gives up what stands behind damage in a folder's log, and pauses what is left of the store; nothing if the log
    /// is sound, or is a database's own affair. Refused while a process has the folder.
    pub fn salvage(&self, by: &Actor, now: Time, entropy: &[u8; 32]) -> Result<Option<Salvaged>, MoveError> {
        let Home::Embedded(folder) = self else { return Ok(None) };
        let Some(salvaged) = sqlite::moving::salvage(folder)? else { return Ok(None) };
        let why = format!(
            "its log was damaged and cut off at byte {}; of what waits, some may have been sent in the {} commits or \
             more that are lost",
            salvaged.at, salvaged.commits
        );
        self.pause(&why, by, now, entropy)?;
        Ok(Some(salvaged))
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
                let core = Sqlite::open_with(folder, dice, entropy, folder.keys.as_ref())?;
                Ok(committed(core, in_folder, now, entropy)?)
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

    /// Whether the store is encrypted, and with which keys.
    pub fn seal(&self) -> Result<Seal, MoveError> {
        Ok(self.values()?.lock()?.seal())
    }

    /// The same, if whoever serves from it could with the keys that are given; else why it would be refused.
    pub fn unlocks(&self) -> Result<Seal, MoveError> {
        let mut store = self.values()?;
        let lock = store.lock()?;
        let is_empty = || Ok(store.counts()?.iter().all(|(_, count)| *count == 0));
        lock.serve(self.keys(), is_empty, &[0; 32])?;
        Ok(lock.seal())
    }

    /// Its values, to be looked at beside whoever uses it.
    fn values(&self) -> Result<Box<dyn Values>, MoveError> {
        Ok(match self {
            Home::Embedded(folder) => Box::new(sqlite::rekeying::Beside::open(folder)?),
            Home::Postgres(target) => Box::new(postgres::rekeying::DatabaseExchange::open(target)?),
        })
    }

    /// Seals everything with the current key, or nothing with any. What an earlier run began is finished.
    ///
    /// A folder must be free. A database may be in use while one key is replaced by another, of which nodes have both.
    pub fn rekey(
        &self,
        aim: Aim,
        by: &Actor,
        now: Time,
        entropy: &[u8; 32],
        tell: &mut dyn FnMut(Turning),
    ) -> Result<Option<Rekeyed>, MoveError> {
        let keys = self.keys().ok_or_else(|| {
            let (why, hint) = ("no key is given".to_owned(), NAME_A_KEY.to_owned());
            StoreError::Locked { why, hint }
        })?;
        let open = || -> Result<Box<dyn Exchange>, MoveError> {
            Ok(match self {
                Home::Embedded(folder) => Box::new(sqlite::rekeying::FolderExchange::open(folder)?),
                Home::Postgres(target) => Box::new(postgres::rekeying::DatabaseExchange::open(target)?),
            })
        };
        let Some(rekeyed) = rekeying::rekey(&mut *open()?, keys, aim, tell)? else { return Ok(None) };
        let record = transition::rekeyed(&rekeyed, by, now);
        let now_with = self.clone().with_keys(Some(keys.clone()).filter(|_| aim == Aim::Sealed));
        let again = record.clone();
        let written = |core: &mut dyn Walls, record| {
            core.record(record);
            Ok(())
        };
        now_with.change(now, entropy, |core| written(core, record), |core| written(core, again))?;
        rekeying::forget(&mut *open()?)?;
        Ok(Some(rekeyed))
    }

    /// Refuses a place without a store, or a folder that a process has for itself.
    pub fn free(&self) -> Result<(), MoveError> {
        match self {
            Home::Embedded(folder) => sqlite::moving::free(folder),
            Home::Postgres(target) => match postgres::moving::schema(target)? {
                Some(_) => Ok(()),
                None => Err(MoveError::NoStore(self.to_string())),
            },
        }
    }

    /// Looks over everything and changes nothing. `tell` hears what it is at.
    pub fn check(&self, tell: &mut dyn FnMut(&'static str)) -> Result<Checkup, MoveError> {
        match self {
            Home::Embedded(folder) => sqlite::checking::check(folder, self.keys(), tell),
            Home::Postgres(target) => postgres::checking::check(target, self.keys(), tell),
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
            Home::Postgres(target) => {
                let secret = *source.lock()?.vault(self.keys())?.secret();
                Box::new(postgres::moving::DatabaseTarget::open(target, secret)?)
            }
        };
        let copied = moving::copy(&mut *source, &mut *target, &to.to_string(), None, tell)?;
        source.retire(&moving::of_moved(&to.to_string(), now))?;
        Ok(copied)
    }

    /// Leaves a folder that nobody uses as a backup is: one file, with no log beside it.
    pub fn fold(&self) -> Result<(), MoveError> {
        match self {
            Home::Embedded(folder) => sqlite::backup::fold(folder),
            Home::Postgres(_) => Ok(()),
        }
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
