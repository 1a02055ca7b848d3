//! Somebody is erased, everywhere.

use pombo_kernel::erasure::{Bookmark, Room, Seeker, Trace};
use pombo_kernel::message::Actor;
use pombo_kernel::name::Tenant;
use pombo_store::core::{Core, Reading};
use pombo_store::erase::Erase;

use super::{Pair, same};
use crate::world::Fresh;

/// Everything of a person in a room, so many rows at a time, in an order that does not depend on how lists are numbered.
fn sought(
    core: &impl Core,
    tenant: &Tenant,
    address: &str,
    room: Room,
    max: usize,
) -> Result<Vec<Trace>, String> {
    let pseudonyms = core.pseudonyms();
    let person = pseudonyms.person(tenant, address).ok_or("nobody")?;
    let seeker = Seeker::new(pseudonyms, tenant.clone(), person);
    let mut reader = core.reader().map_err(|error| format!("reader: {error}"))?;
    let (mut from, mut traces) = (Some(Bookmark::at(room)), Vec::new());
    while let Some(mark) = from {
        let some = reader.seek(&seeker, mark, max).map_err(|error| format!("seek: {error}"))?;
        traces.extend(some.traces);
        from = some.next;
    }
    traces.sort_by_key(|trace| format!("{trace:?}"));
    Ok(traces)
}

impl<C: Fresh> Pair<C> {
    /// Room by room. What is being sent is left, and nothing else.
    pub(super) fn erase(&mut self, tenant: &Tenant, address: &str, max: usize) -> Result<(), String> {
        let mut room = Some(Room::default());
        while let Some(at) = room {
            self.commit()?;
            let traces = sought(&self.model, tenant, address, at, max)?;
            let other = sought(&self.other, tenant, address, at, max)?;
            if traces != other {
                return Err(format!("in {at:?} the model finds {traces:?}, the other {other:?}"));
            }
            let wish = Erase { tenant: tenant.clone(), traces, by: Actor("ana".into()) };
            let erased = self.model.erase(&wish, self.now).unwrap();
            let erased = same("erase", erased, self.other.erase(&wish, self.now))?;
            for trace in &wish.traces {
                if let Trace::Message { id, .. } = trace
                    && !erased.left.contains(id)
                {
                    self.erased.insert(*id);
                }
            }
            self.commit()?;
            let rest = sought(&self.other, tenant, address, at, max)?;
            if rest.len() != erased.left.len() {
                return Err(format!("{rest:?} is left in {at:?}, and should be {:?}", erased.left));
            }
            room = at.next();
        }
        Ok(())
    }
}
