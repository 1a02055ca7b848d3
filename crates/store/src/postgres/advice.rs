//! What a server is set up to lose, said to its operator when the store opens.

use tracing::warn;

use super::link::Link;
use super::sql;
use crate::StoreError;

const GUIDE: &str = "docs/guides/postgresql.md#high-availability";

/// Logs a warning for each setting of the server under which something acknowledged can be lost.
///
/// Nothing is refused for it: whether a loss is acceptable is the operator's to say, but not to find out later.
pub(super) fn log(link: &Link) -> Result<(), StoreError> {
    for sentence in sentences(link)? {
        warn!("{sentence}");
    }
    Ok(())
}

/// One sentence for each such setting; none for a server that keeps what it has acknowledged.
///
/// `synchronous_commit = off` is not among them: our own sessions do not let it be.
fn sentences(link: &Link) -> Result<Vec<String>, StoreError> {
    const SETTINGS: &str = sql!("advice");
    let rows = link.query(SETTINGS, Vec::new())?;
    let mut said = Vec::new();
    for row in &rows {
        if !row.get::<_, bool>("flushes") {
            said.push(
                "fsync is off on this PostgreSQL: a power failure can destroy the whole database; set fsync = on"
                    .to_owned(),
            );
        }
        if !row.get::<_, bool>("whole_pages") {
            said.push(
                "full_page_writes is off on this PostgreSQL: a power failure can leave torn pages behind; set \
                 full_page_writes = on unless the file system prevents them"
                    .to_owned(),
            );
        }
        let standbys: i64 = row.get("standbys");
        if standbys > 0 && !row.get::<_, bool>("waits") {
            let count = if standbys == 1 { "a standby".to_owned() } else { format!("{standbys} standbys") };
            said.push(format!(
                "this PostgreSQL has {count}, but commits wait for none: a failover can lose messages that were \
                 acknowledged; for one that loses nothing see {GUIDE}"
            ));
        }
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use pombo_testbed::Cluster;

    use super::super::link::{Driver, Kind, Target};
    use super::*;

    fn said(url: &str) -> Vec<String> {
        let driver = Driver::start().unwrap();
        let link = Link::open(&driver, &Target::parse(url).unwrap(), Kind::Writer).unwrap();
        sentences(&link).unwrap()
    }

    #[test]
    fn a_server_as_it_comes_needs_no_advice() {
        let cluster = Cluster::own();
        assert_eq!(said(cluster.database().url()), Vec::<String>::new());
    }

    #[test]
    fn a_server_that_does_not_flush_is_told_of() {
        let said = said(Cluster::shared().database().url());
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("fsync is off"), "{said:?}");
        assert!(said[1].starts_with("full_page_writes is off"), "{said:?}");
    }

    #[test] // fault 42
    fn a_standby_that_no_commit_waits_for_is_told_of_to_whoever_may_see_it_and_whoever_may_not() {
        let cluster = Cluster::own();
        // Dropped after the database: to drop that is a commit, which waits for it in the end.
        let _standby = cluster.standby();
        let database = cluster.database();
        database.ask("CREATE ROLE stranger LOGIN");
        let stranger = database.url().replace("postgres@", "stranger@");
        for url in [database.url(), &stranger] {
            let said = said(url);
            assert_eq!(said.len(), 1, "{url}: {said:?}");
            assert!(said[0].contains("has a standby, but commits wait for none"), "{said:?}");
        }
        // Once they wait for it, nothing is lost with the primary.
        database.ask("ALTER SYSTEM SET synchronous_standby_names = '*'");
        database.ask("SELECT pg_reload_conf()");
        for _ in 0..100 {
            if database.ask("SHOW synchronous_standby_names") == "*" {
                break;
            }
        }
        assert_eq!(said(&stranger), Vec::<String>::new());
        database.ask("ALTER ROLE stranger SET synchronous_commit = local");
        assert_eq!(said(&stranger).len(), 1);
    }
}
