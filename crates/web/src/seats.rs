//! Places for requests that last, shared out among tenants.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pombo_kernel::name::Tenant;

/// So many places, of which nobody takes more than are left to the others.
///
/// A tenant by itself gets half of them, the next one half of the rest, and so on: however many somebody asks for, one
/// who has none yet finds one.
#[derive(Debug)]
pub(crate) struct Seats {
    total: usize,
    taken: Mutex<HashMap<Tenant, usize>>,
}

/// A place that is somebody's until this is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
    tenant: Tenant,
}

impl Seats {
    pub(crate) fn new(total: usize) -> Arc<Seats> {
        Arc::new(Seats { total, taken: Mutex::default() })
    }

    /// A place for that tenant, if it may have another one.
    pub(crate) fn take(self: &Arc<Seats>, tenant: &Tenant) -> Option<Seat> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.total.saturating_sub(taken.values().sum());
        let own = taken.get(tenant).copied().unwrap_or_default();
        (own < free).then(|| {
            taken.insert(tenant.clone(), own + 1);
            Seat { seats: Arc::clone(self), tenant: tenant.clone() }
        })
    }

    /// How many places are taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.get_mut(&self.tenant) {
            Some(own) if *own > 1 => *own -= 1,
            _ => {
                taken.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(seats: &Arc<Seats>, name: &str) -> Vec<Seat> {
        let tenant = name.parse().unwrap();
        std::iter::from_fn(|| seats.take(&tenant)).collect()
    }

    #[test] // REQ SE-1
    fn whoever_takes_all_that_they_can_leaves_places_for_others() {
        let seats = Seats::new(200);
        let greedy = fill(&seats, "greedy");
        assert_eq!(greedy.len(), 100);
        let others: Vec<Vec<Seat>> = (0..7).map(|n| fill(&seats, &format!("t{n}"))).collect();
        assert_eq!(others.iter().map(Vec::len).collect::<Vec<_>>(), [50, 25, 13, 6, 3, 2, 1]);
        assert!(fill(&seats, "greedy").is_empty());
        drop(greedy);
        assert!(!fill(&seats, "late").is_empty());
    }

    #[test]
    fn places_that_were_given_back_can_be_taken_again() {
        let seats = Seats::new(2);
        let tenant = Tenant::default();
        for _ in 0..5 {
            let seat = seats.take(&tenant);
            assert!(seat.is_some() && seats.take(&tenant).is_none());
        }
        assert!(seats.taken.lock().unwrap().is_empty(), "nothing is kept of those who left");
    }
}
