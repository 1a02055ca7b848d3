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
    let invariant = caught.violation.invariant;
    println!("result planted bug={bug:?} seed={} invariant={invariant} caught=1", caught.seed);
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

#[test]
fn a_round_that_goes_on_counting_attempts_is_caught() {
    check(Bug::AttemptsKept, &[5]);
}

#[test]
fn a_new_key_for_what_was_perhaps_sent_is_caught() {
    check(Bug::KeyForgotten, &[11]);
}

#[test]
fn a_deadline_that_is_not_renewed_is_caught() {
    check(Bug::DeadlineKept, &[8]);
}

#[test]
fn a_reprocessed_message_that_overtakes_others_is_caught() {
    check(Bug::PlaceKept, &[0]);
}

#[test]
fn a_reprocessing_without_an_audit_record_is_caught() {
    // The record is missed where the message is seen next: at the operator's answer, or when it is claimed while dead.
    check(Bug::RulingUnrecorded, &[3, 12]);
}

#[test]
fn a_cause_that_is_not_counted_down_is_caught() {
    check(Bug::CauseMiscounted, &[1]);
}

#[test]
fn a_message_that_was_sent_and_is_not_counted_is_caught() {
    check(Bug::SentUncounted, &[1]);
}

#[test]
fn a_message_that_waits_and_is_gone_after_a_restart_is_caught() {
    check(Bug::WaitingLost, &[1]);
}

#[test]
fn a_ruling_against_a_document_that_has_changed_is_caught() {
    // Where nothing was dead, only the operator who is told that it is done can know better.
    check(Bug::DocumentIgnored, &[2, 4]);
}

#[test] // fault 51
fn a_keeper_that_trusts_what_it_once_saw_is_caught() {
    // What was sent again is gone, or what another has removed is counted once more.
    check(Bug::LookTrusted, &[1, 12]);
}

#[test] // fault 51
fn a_key_that_leaves_with_its_message_is_caught() {
    check(Bug::KeyLeaves, &[10]);
}

#[test]
fn a_campaign_that_does_not_wait_after_a_retry_is_caught() {
    check(Bug::RetryUnpaced, &[9]);
}

#[test]
fn a_campaign_that_forgets_at_a_restart_what_is_on_its_way_is_caught() {
    check(Bug::FlightForgotten, &[9]);
}

#[test]
fn a_campaign_that_forgets_at_a_restart_how_long_it_waits_is_caught() {
    check(Bug::PaceForgotten, &[9]);
}

#[test]
fn a_second_message_for_one_recipient_is_caught() {
    check(Bug::FedTwice, &[9]);
}

#[test]
fn a_campaign_that_goes_on_though_it_is_paused_is_caught() {
    check(Bug::CampaignPauseIgnored, &[8]);
}

#[test]
fn a_line_that_does_not_wait_after_a_send_is_caught() {
    check(Bug::LineGapIgnored, &[9]);
}

#[test]
fn a_campaign_that_goes_on_outside_its_hours_is_caught() {
    check(Bug::WindowIgnored, &[9]);
}

#[test]
fn a_line_that_takes_more_than_its_day_allows_is_caught() {
    check(Bug::CapIgnored, &[9]);
}

#[test]
fn a_hint_without_bounds_is_caught() {
    check(Bug::HintUnbounded, &[7]);
}

#[test]
fn a_fault_of_ours_that_costs_an_attempt_is_caught() {
    check(Bug::FaultCharged, &[6]);
}

#[test]
fn a_report_that_goes_back_is_caught() {
    // The audit says what was known before it, too.
    check(Bug::ReportGoesBack, &[0, 12]);
}

#[test]
fn a_node_that_sends_without_a_sign_of_life_is_caught() {
    check(Bug::SilenceIgnored, &[4]);
}

#[test]
fn slots_that_are_forgotten_with_a_new_configuration_are_caught() {
    check(Bug::SlotsForgotten, &[13]);
}

#[test]
fn slots_that_are_refilled_with_more_than_they_held_are_caught() {
    check(Bug::RefillTwice, &[13]);
}

#[test]
fn what_a_commit_in_doubt_claimed_and_nobody_gives_back_is_caught() {
    check(Bug::OrphansForgotten, &[15]);
}

#[test]
fn a_node_that_goes_by_a_wrong_clock_is_caught() {
    // Minutes ahead or behind, it is taken for dead, or sends what is due later, or too late.
    check(Bug::ClockUnfollowed, &[4, 7, 8, 11]);
}

#[test]
fn a_key_that_makes_two_messages_is_caught() {
    check(Bug::KeyIgnored, &[10]);
}

#[test]
fn a_message_that_another_tenant_finds_is_caught() {
    check(Bug::TenantIgnored, &[14]);
}

#[test]
fn work_that_goes_on_though_everything_is_paused_is_caught() {
    check(Bug::PauseIgnored, &[8]);
}
