//! The slot of a process: a part of the ids that no other process gives out.

use pombo_kernel::id::Slot;
use pombo_kernel::time::Span;
use tracing::warn;

use super::link::Link;
use super::{Postgres, alone, rows, sql};
use crate::StoreError;

/// How long a slot is the process's own, and how soon it asks for more.
const LEASE: Span = Span::from_mins(10);
pub(super) const RENEWAL: Span = Span::from_mins(1);
/// How often a process that finds no slot tries: others may be looking for one at the same moment.
const TRIES: usize = 20;

impl Postgres {
    /// Keeps the slot. One that was lost meanwhile is left to its new holder.
    pub(super) fn renew_slot(&mut self) -> Result<(), StoreError> {
        let slot = take(&self.link, self.holder)?;
        if slot != self.slot {
            warn!(
                from = self.slot.number(),
                to = slot.number(),
                "another process has our slot; we have a new one"
            );
            self.slot = slot;
            self.ids = self.ids.clone().within(slot);
        }
        Ok(())
    }
}

pub(super) fn take(link: &Link, holder: i64) -> Result<Slot, StoreError> {
    let lease = i64::try_from(LEASE.millis()).unwrap_or(i64::MAX);
    for _ in 0..TRIES {
        let taken = alone(link, (sql!("slot_take"), vec![holder.into(), lease.into()]))?;
        if let Some(row) = taken.first() {
            return Slot::new(rows::get(row, 0)?)
                .ok_or_else(|| StoreError::Broken("a slot that cannot be".into()));
        }
    }
    Err(StoreError::Unavailable(format!(
        "{} processes are using this database; stop one of them, or wait ten minutes if some died",
        Slot::COUNT
    )))
}
