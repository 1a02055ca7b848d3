//! Testing the tests: each planted bug must be caught, and by the invariant that speaks of it.

#![allow(clippy::print_stdout, reason = "which invariant caught which bug is worth reading")]

use pombo_kernel::planted::{self, Bug};
use pombo_sim::{Show, run};

/// A bug must show within so many seeds.
const SEEDS: u64 = 1_000;

/// Plays seeds with the bug in place until something does not hold.
#[track_caller]
fn check(bug: Bug, invariants: &[u8]) {
    planted::plant(Some(bug));
    let caught = (0..SEEDS).find_map(|seed| run(seed, Show::End).err());
    planted::plant(None);
    let caught = caught.unwrap_or_else(|| panic!("{bug:?} was not caught within {SEEDS} seeds"));
    println!("{bug:?}: seed {}, {}", caught.seed, caught.violation);
    assert!(
        invariants.contains(&caught.violation.invariant),
        "{bug:?} was caught for another reason: {caught}"
    );
    run(caught.seed, Show::End).expect("without the bug, the same seed holds");
}

#[test]
fn a_settlement_without_a_token_check_is_caught() {
    // Without the check a stale holder can also give back what another is sending.
    check(Bug::NoTokenCheck, &[4, 11]);
}

#[test]
fn an_acknowledgement_before_the_commit_is_caught() {
    check(Bug::AckBeforeCommit, &[2]);
}

#[test]
fn a_permanent_error_that_is_retried_is_caught() {
    check(Bug::PermanentRetried, &[6]);
}

#[test]
fn a_missing_audit_record_is_caught() {
    check(Bug::RecordMissing, &[12]);
}

#[test]
fn a_slot_that_is_freed_too_early_is_caught() {
    check(Bug::SlotFreedEarly, &[13]);
}

#[test]
fn a_claim_that_is_trusted_after_a_lost_lease_is_caught() {
    check(Bug::LateClaimTrusted, &[4]);
}

#[test]
fn a_probe_that_is_charged_is_caught() {
    check(Bug::ProbeCharged, &[5]);
}

#[test]
fn a_half_open_breaker_that_lets_all_through_is_caught() {
    check(Bug::HalfOpenForAll, &[8]);
}

#[test]
fn a_herd_after_an_outage_is_caught() {
    check(Bug::RampIgnored, &[0]);
}

#[test]
fn a_breaker_that_never_opens_is_caught() {
    check(Bug::BreakerNeverOpens, &[0]);
}
