//! A database of its own on somebody's server, for measuring, and what the server says of itself.

use tracing::warn;

use super::link::{Driver, Kind, Link, Target};
use crate::StoreError;

/// A database that was made for a while, and is removed with this.
#[derive(Debug)]
pub struct Scratch {
    name: String,
    target: Target,
    driver: Driver,
    /// The database that the URL names: no database can be removed from within.
    server: Target,
    link: Link,
}

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub version: String,
    /// `fsync`, `full_page_writes` and the like, each with its value.
    pub settings: Vec<(String, String)>,
    /// The process of one of its sessions, which is of use on the same machine.
    pub session: i32,
}

impl Scratch {
    /// Makes the database. The user must be allowed to, and the name plain: letters, digits and `_`.
    pub fn make(server: &Target, name: &str) -> Result<Scratch, StoreError> {
        let plain = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
        if name.is_empty() || !name.chars().all(plain) {
            return Err(StoreError::Unavailable("not a plain name for a database".to_owned()));
        }
        let driver = Driver::start()?;
        Link::open(&driver, server, Kind::Owner)?.script(&format!("CREATE DATABASE {name}"))?;
        let target = server.within(name);
        let link = Link::open(&driver, &target, Kind::Owner)?;
        Ok(Scratch { name: name.to_owned(), target, driver, server: server.clone(), link })
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    pub fn server(&self) -> Result<Server, StoreError> {
        const SAYS: &str = "SELECT current_setting('server_version'), pg_backend_pid(),
            array_agg(name ORDER BY name), array_agg(setting ORDER BY name) FROM pg_settings
            WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes', 'synchronous_standby_names')
            AND setting <> ''";
        let rows = self.link.query(SAYS, Vec::new())?;
        let row = rows.first().ok_or_else(|| StoreError::Unavailable("no answer".to_owned()))?;
        let (names, values): (Vec<String>, Vec<String>) = (row.get(2), row.get(3));
        Ok(Server {
            version: row.get(0),
            settings: names.into_iter().zip(values).collect(),
            session: row.get(1),
        })
    }

    /// How many transactions there were in the database so far, as its statistics know.
    pub fn transactions(&self) -> Result<i64, StoreError> {
        const COUNT: &str = "SELECT xact_commit + xact_rollback FROM pg_stat_database
            WHERE datname = current_database()";
        let rows = self.link.query(COUNT, Vec::new())?;
        Ok(rows.first().map_or(0, |row| row.get(0)))
    }

    /// Whether every commit so far is part of the audit chain.
    pub fn is_sealed(&self) -> Result<bool, StoreError> {
        const SEALED: &str = "SELECT FROM audit WHERE sequence IS NULL LIMIT 1";
        let link = Link::open(&self.driver, &self.target, Kind::Upkeep)?;
        Ok(link.query(SEALED, Vec::new())?.is_empty())
    }

    /// Has the server do now what it would do some time after a great change: the same for everybody measured.
    pub fn settle(&self) -> Result<(), StoreError> {
        self.link.script("VACUUM ANALYZE")?;
        self.link.script("CHECKPOINT")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let (driver, server, name) = (self.driver.clone(), self.server.clone(), self.name.clone());
        // In a thread of its own, since this may be dropped where nothing may block; whoever is still connected is
        // sent away.
        let removal = std::thread::spawn(move || {
            Link::open(&driver, &server, Kind::Owner)?
                .script(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
        });
        if let Ok(Err(error)) = removal.join() {
            warn!(%error, database = self.name, "a database that was made for a while could not be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use pombo_testbed::Cluster;

    use super::*;

    #[test]
    fn a_scratch_database_is_there_for_as_long_as_it_is_used() {
        let outside = Cluster::shared().database();
        let there = || outside.ask("SELECT count(*) FROM pg_database WHERE datname = 'pombo_scratch_1'");
        let target = Target::parse(outside.url()).unwrap();
        let scratch = Scratch::make(&target, "pombo_scratch_1").unwrap();
        assert_eq!(there(), "1");
        assert!(scratch.target().shown().ends_with("/pombo_scratch_1"));
        scratch.settle().unwrap();
        let says = scratch.server().unwrap();
        assert!(says.settings.contains(&("fsync".to_owned(), "off".to_owned())), "{says:?}");
        assert!(scratch.transactions().unwrap() >= 0);
        assert!(Scratch::make(&target, "pombo_scratch_1").is_err(), "what is there is left alone");
        drop(scratch);
        assert_eq!(there(), "0");
    }

    #[test]
    fn a_name_that_is_not_plain_is_refused() {
        let target = Target::parse(Cluster::shared().database().url()).unwrap();
        for name in ["", "a-b", "a; DROP DATABASE x", "A"] {
            assert!(Scratch::make(&target, name).is_err(), "{name}");
        }
    }
}
