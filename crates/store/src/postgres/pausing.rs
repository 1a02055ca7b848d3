//! A store that waits for a person: because it was told to, or because it was restored into another database.

use pombo_kernel::message::Actor;
use pombo_kernel::time::Time;

use super::link::{Link, Step};
use super::walls::Guard;
use super::{Postgres, migrate, rows, sql};
use crate::transition;
use crate::{Pause, StoreError};

/// Names in `meta`.
pub(super) const PAUSED: &str = "paused";
pub(super) const COPYING: &str = "copying";
const IDENTITY: &str = "identity";

impl Postgres {
    /// Every node that claims or takes over looks at the version of the blocks first, and so learns of a pause.
    pub(super) fn pause_all(&mut self, pause: &Pause, by: &Actor) -> Result<(), StoreError> {
        self.guard_blocks(Guard::Exclusive, pause.since)?;
        self.ask_one(sql!("meta_put"), vec![PAUSED.into(), pause.bytes()?.into()])?;
        self.record(transition::paused(pause, by));
        (self.moved, self.board.paused) = (true, true);
        Ok(())
    }

    pub(super) fn resume_all(&mut self, by: &Actor, now: Time) -> Result<bool, StoreError> {
        self.guard_blocks(Guard::Exclusive, now)?;
        if self.ask_one(sql!("meta_delete"), vec![PAUSED.into()])?.is_empty() {
            return Ok(false);
        }
        self.record(transition::resumed(by, now));
        (self.moved, self.board.paused) = (true, false);
        Ok(true)
    }
}

/// Pauses a store that was restored from a dump, into this cluster or another.
///
/// A dump makes its tables anew, and a cluster has an identifier of its own that its standbys share. So a standby that
/// takes over is the same store, and goes on; what came out of a dump is not. (A cluster that goes back in time by its
/// own archive cannot be told from one that failed over.)
pub(super) fn notice_restore(link: &Link) -> Result<(), StoreError> {
    let found = match link.query(sql!("identity"), Vec::new()) {
        // Where the server does not tell, nobody can know.
        Err(StoreError::Unavailable(why)) if why.contains("(42501)") => return Ok(()),
        other => other?,
    };
    let Some(row) = found.first() else { return Ok(()) };
    let (identity, written): (String, bool) = (rows::get(row, 0)?, rows::get(row, 1)?);
    let known = |link: &Link| -> Result<Option<String>, StoreError> {
        let known = link.query(sql!("meta_get"), vec![IDENTITY.into()])?;
        known
            .first()
            .map(|row| rows::get(row, 0).map(|it: &[u8]| String::from_utf8_lossy(it).into()))
            .transpose()
    };
    if known(link)?.as_ref() == Some(&identity) {
        return Ok(());
    }
    let now = migrate::now(link)?;
    let mut steps: Vec<Step> = link.begin();
    steps.push((sql!("blocks_exclusive"), Vec::new()));
    link.pipeline(steps)?;
    let mut steps: Vec<Step> = Vec::new();
    if written && known(link)?.is_some_and(|known| known != identity) {
        let why = "this store was restored from a dump, or moved to another cluster; what waits in it may have been \
                   sent since the dump was made";
        let pause = Pause { since: now, why: why.to_owned() };
        steps.push((sql!("meta_first"), vec![PAUSED.into(), pause.bytes()?.into()]));
        steps.push((sql!("board_move"), Vec::new()));
    }
    steps.push((sql!("meta_put"), vec![IDENTITY.into(), identity.into_bytes().into()]));
    steps.push(("COMMIT", Vec::new()));
    link.pipeline(steps).map(drop)
}

/// Refuses a store that is only a part of a copy.
pub(super) fn refuse_unfinished(link: &Link) -> Result<(), StoreError> {
    if link.query(sql!("meta_get"), vec![COPYING.into()])?.is_empty() {
        return Ok(());
    }
    Err(StoreError::Unavailable(crate::moving::UNFINISHED.to_owned()))
}
