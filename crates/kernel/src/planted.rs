//! Bugs that a test can switch on, to see that whatever claims to catch them does.
//!
//! This module and every line that asks it exist only under the feature `planted`, which nothing but the simulator's
//! tests enables. Even then everything is off until a test says otherwise, and only on its own thread.

use std::cell::Cell;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A settlement is taken whatever token it shows.
    NoTokenCheck,
    /// Callers are told before the commit.
    AckBeforeCommit,
    /// A permanent error is retried.
    PermanentRetried,
    /// A cancellation leaves no audit record.
    RecordMissing,
    /// A slot is free before the result is durable.
    SlotFreedEarly,
    /// A claim that is answered after the node's lease had ended and begun anew is acted on.
    LateClaimTrusted,
    /// A probe that finds its destination still down is charged.
    ProbeCharged,
    /// A breaker that is due for its probe lets everything through.
    HalfOpenForAll,
    /// What has waited behind a breaker is let go at once.
    RampIgnored,
    /// A destination never counts as down.
    BreakerNeverOpens,
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Plants one bug in whatever runs on this thread from now on, or none.
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

pub fn is(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}
