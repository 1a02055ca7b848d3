//! How long what a node has claimed is certainly its own.
//!
//! On a shared database other nodes take over the work of one that they believe dead, and a process can be frozen
//! between any two steps. So whoever is about to send asks once more, at the last moment.

#[cfg(feature = "planted")]
use pombo_kernel::planted;
use pombo_kernel::time::{Span, Time};

/// How long a node's claims hold after its last sign of life.
pub const LEASE: Span = Span::from_secs(60);
pub const HEARTBEAT: Span = Span::from_secs(15);
/// A node that could not show a sign of life for so long sends nothing more.
pub const SILENCE: Span = Span::from_secs(30);

/// A node's hold on what it claims. Signs of life renew it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    alive_since: Time,
    term: Term,
}

/// A stretch of time through which the lease held without a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Term(u64);

impl Lease {
    /// A sign of life is durable that holds for a [`LEASE`] from `since` on; the node hears of it at `now`.
    ///
    /// If the lease before it may have ended by then, another node may have taken over what was claimed under it,
    /// and a new term begins.
    pub(crate) fn renew(&mut self, since: Time, now: Time) {
        if now.since(self.alive_since) >= LEASE {
            self.term.0 += 1;
        }
        self.alive_since = self.alive_since.max(since);
    }

    /// Nothing that was claimed so far may be sent any more.
    pub(crate) fn end(&mut self) {
        self.term.0 += 1;
    }

    pub fn term(&self) -> Term {
        self.term
    }

    /// Too long without a durable sign of life: others may soon think us dead.
    pub fn is_silent(&self, now: Time) -> bool {
        #[cfg(feature = "planted")]
        if planted::is(planted::Bug::SilenceIgnored) {
            return false;
        }
        now.since(self.alive_since) >= SILENCE
    }

    /// Whether what was claimed in that term may be sent now.
    pub fn allows(&self, term: Term, now: Time) -> bool {
        self.term == term && !self.is_silent(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_millis(1_800_000_000_000);

    fn at(secs: u64) -> Time {
        START + Span::from_secs(secs)
    }

    /// A lease renewed by signs of life, each given and heard of at these seconds.
    fn renewed(signs: &[(u64, u64)]) -> Lease {
        let mut lease = Lease::default();
        for (given, heard) in signs {
            lease.renew(at(*given), at(*heard));
        }
        lease
    }

    #[test]
    fn nothing_is_sent_before_the_first_sign_of_life() {
        let lease = Lease::default();
        assert!(!lease.allows(lease.term(), START));
    }

    #[test] // fault 49
    fn without_a_sign_of_life_sending_ends_long_before_the_lease() {
        let lease = renewed(&[(0, 0)]);
        assert!(lease.allows(lease.term(), at(29)));
        assert!(!lease.allows(lease.term(), at(30)));
    }

    #[test]
    fn a_sign_of_life_counts_from_when_it_was_given_however_late_it_is_heard_of() {
        let lease = renewed(&[(0, 25)]);
        assert!(lease.allows(lease.term(), at(29)));
        assert!(!lease.allows(lease.term(), at(30)));
    }

    #[test]
    fn heartbeats_in_time_keep_one_term() {
        let first = renewed(&[(0, 0)]);
        let later = renewed(&[(0, 0), (15, 16), (30, 45), (60, 61)]);
        assert!(later.allows(first.term(), at(70)));
    }

    #[test] // fault 17
    fn what_was_claimed_before_a_gap_is_not_sent_after_it() {
        let before = renewed(&[(0, 0)]);
        for heard in [60, 3_600] {
            let after = renewed(&[(0, 0), (heard, heard)]);
            assert!(!after.allows(before.term(), at(heard)));
            assert!(after.allows(after.term(), at(heard)));
        }
    }

    #[test] // fault 17
    fn a_sign_that_was_given_in_time_and_heard_of_too_late_is_a_gap_as_well() {
        let before = renewed(&[(0, 0)]);
        let after = renewed(&[(0, 0), (59, 61)]);
        assert!(!after.allows(before.term(), at(61)), "nobody knows when it became durable");
    }
}
