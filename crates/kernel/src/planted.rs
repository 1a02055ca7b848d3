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
    /// A message that is reprocessed goes on counting where its last round ended.
    AttemptsKept,
    /// A message that is reprocessed has a new key for its provider, though perhaps it was sent.
    KeyForgotten,
    /// A message that is reprocessed has the deadline that it had.
    DeadlineKept,
    /// A message that is reprocessed takes its old place among others of its ordering key.
    PlaceKept,
    /// A reprocessing leaves no audit record.
    RulingUnrecorded,
    /// A cause goes on counting dead letters that are gone.
    CauseMiscounted,
    /// What was sent is not counted.
    SentUncounted,
    /// One of the messages that wait is gone after a restart.
    WaitingLost,
    /// A ruling is done though the document that it depends on has changed.
    DocumentIgnored,
    /// A campaign does not wait after a send that is to be tried again.
    RetryUnpaced,
    /// Which message of a campaign is on its way is forgotten at a restart.
    FlightForgotten,
    /// When the next message of a campaign may set out is forgotten at a restart.
    PaceForgotten,
    /// A campaign makes messages also for those who have one.
    FedTwice,
    /// A paused campaign goes on.
    CampaignPauseIgnored,
    /// A line does not wait after a send.
    LineGapIgnored,
    /// A campaign goes on outside its hours.
    WindowIgnored,
    /// A line takes as much on a day as there is.
    CapIgnored,
    /// A provider's wish is granted however long it is.
    HintUnbounded,
    /// A fault of ours costs the message an attempt.
    FaultCharged,
    /// The last report of a provider stands, not the furthest.
    ReportGoesBack,
    /// A node that has given no sign of life for long goes on sending.
    SilenceIgnored,
    /// A node that reads its configuration anew forgets which slots are taken.
    SlotsForgotten,
    /// More messages are asked for with results than take their places.
    RefillTwice,
    /// What was claimed by a commit in doubt is left to a holder who was never told.
    OrphansForgotten,
    /// A node goes by its own clock, however wrong that is.
    ClockUnfollowed,
    /// A key that was used before makes another message.
    KeyIgnored,
    /// A message is found by whoever knows its id.
    TenantIgnored,
    /// Work goes on though everything is paused.
    PauseIgnored,
    /// The queue that was there first always goes first.
    TurnsIgnored,
    /// What a keeper once saw to be given up is removed, whatever has become of it.
    LookTrusted,
    /// The key of a message that is removed goes with it.
    KeyLeaves,
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
