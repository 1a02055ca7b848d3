//! What providers say later, and the doubts that attempts leave.

use pombo_kernel::delivery::{Delivery, LastWord, Report};
use pombo_kernel::id::MessageId;
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{AttemptOutcome, FailureReason, Progress, State, StateName};
use pombo_kernel::reply::Receipt;
use pombo_store::audit::Event;
use pombo_store::{Counted, Filter, Reported, Settled};

use crate::world::*;

on_every_store! { personal:
    a_report_moves_the_delivery_of_its_message,
    a_delivery_only_moves_forward,
    a_report_keeps_its_words_and_its_time,
    every_move_is_recorded_and_counted_once,
    a_report_before_the_send_is_recorded_finds_nobody,
    a_report_under_another_channel_finds_nobody,
    a_message_without_an_id_cannot_be_reported_on,
    of_two_messages_with_one_id_the_last_sent_is_meant,
    a_very_long_id_is_found_again,
    a_report_does_not_touch_the_state,
    messages_can_be_listed_by_their_delivery,
    a_report_that_was_not_committed_never_happened,
    a_send_and_its_report_may_share_a_commit,
    a_doubt_is_kept_until_the_end,
    a_doubt_survives_reopening_and_cancelling,
    a_refusal_that_counted_as_accepted_keeps_its_evidence,
}

fn report(id: &str, delivery: Delivery) -> Report {
    Report { provider_id: id.into(), delivery, detail: None, at: None }
}

fn told(w: &mut World<impl Fresh>, report: &Report) -> Reported {
    let answer = w.core.report(&"crm".parse().unwrap(), report, w.now).unwrap();
    w.commit();
    answer
}

/// A message that was sent under that id.
fn sent(w: &mut World<impl Fresh>, provider_id: &str) -> MessageId {
    let id = w.accept(draft());
    let claimed = w.claim_one();
    settle_sent(w, &claimed, Some(provider_id));
    id
}

fn settle_sent(w: &mut World<impl Fresh>, claimed: &pombo_store::Claimed, provider_id: Option<&str>) {
    let mut done = settlement(claimed, End::Sent, w.now);
    done.next = Next::Sent(Receipt { provider_id: provider_id.map(str::to_owned), ..Receipt::default() });
    assert_eq!(w.settle_with(done), Settled::Done);
}

fn delivery(w: &mut World<impl Fresh>, id: MessageId) -> Option<Delivery> {
    let story = w.story(id).delivery;
    let line = w.list(&Filter::default(), 100).into_iter().find(|line| line.message.id == id).unwrap();
    assert_eq!(line.delivery, story, "a list says what the story says");
    story.map(|word| word.state)
}

// REQ ML-9
fn a_report_moves_the_delivery_of_its_message(w: &mut World<impl Fresh>) {
    let (id, other) = (sent(w, "a"), sent(w, "b"));
    assert_eq!(delivery(w, id), None);
    let answer = told(w, &report("a", Delivery::Delivered));
    assert_eq!(answer, Reported::Moved { id, from: None, to: Delivery::Delivered });
    assert_eq!((delivery(w, id), delivery(w, other)), (Some(Delivery::Delivered), None));
}

// REQ ML-9
fn a_delivery_only_moves_forward(w: &mut World<impl Fresh>) {
    let id = sent(w, "a");
    for (said, stands) in [
        (Delivery::Delivered, Delivery::Delivered),
        (Delivery::Accepted, Delivery::Delivered),
        (Delivery::Delivered, Delivery::Delivered),
        (Delivery::Failed, Delivery::Delivered),
        (Delivery::Bounced, Delivery::Bounced),
        (Delivery::Delivered, Delivery::Bounced),
        (Delivery::Complained, Delivery::Complained),
        (Delivery::Read, Delivery::Complained),
    ] {
        let before = delivery(w, id);
        let answer = told(w, &report("a", said));
        let moved = before != Some(stands);
        let expected = if moved { Reported::Moved { id, from: before, to: said } } else { Reported::Kept };
        assert_eq!((answer, delivery(w, id)), (expected, Some(stands)), "{said}");
    }
}

fn a_report_keeps_its_words_and_its_time(w: &mut World<impl Fresh>) {
    let id = sent(w, "a");
    w.pass(mins(1));
    told(w, &report("a", Delivery::Accepted));
    assert_eq!(w.story(id).delivery, Some(LastWord { state: Delivery::Accepted, at: w.now, detail: None }));
    let bounced = Report {
        detail: Some("Permanent/NoEmail: no\0such user \u{1F426}".into()),
        at: Some(START),
        ..report("a", Delivery::Bounced)
    };
    told(w, &bounced);
    let word = LastWord { state: Delivery::Bounced, at: START, detail: bounced.detail };
    assert_eq!(w.story(id).delivery, Some(word.clone()));
    w.reopen();
    assert_eq!(w.story(id).delivery, Some(word));
}

// REQ ML-9, AU-1
fn every_move_is_recorded_and_counted_once(w: &mut World<impl Fresh>) {
    let id = sent(w, "a");
    for said in [Delivery::Accepted, Delivery::Accepted, Delivery::Read, Delivery::Delivered] {
        let report = Report { detail: Some("ana@clinic.example".into()), ..report("a", said) };
        told(w, &report);
    }
    let records: Vec<_> = w.audit().into_iter().filter(|it| it.event == Event::Delivery).collect();
    let details: Vec<_> = records.iter().map(|record| record.detail.as_str()).collect();
    assert_eq!(details, [r#"{"delivery":"accepted"}"#, r#"{"before":"accepted","delivery":"read"}"#]);
    for record in records {
        let sent = Some(StateName::Sent);
        assert_eq!(
            (record.message, record.from, record.to, record.channel.as_str()),
            (Some(id), sent, sent, "crm")
        );
    }
    let counts = [Counted::DeliveryAccepted, Counted::Delivered, Counted::Read].map(|what| w.tally(what));
    assert_eq!((counts, w.tally(Counted::Sent)), ([1, 0, 1], 1));
}

fn a_report_before_the_send_is_recorded_finds_nobody(w: &mut World<impl Fresh>) {
    assert_eq!(told(w, &report("a", Delivery::Read)), Reported::Unknown);
    let id = w.accept(draft());
    let claimed = w.claim_one();
    let before = w.audit();
    assert_eq!(told(w, &report("a", Delivery::Read)), Reported::Unknown);
    assert_eq!(w.audit(), before);
    settle_sent(w, &claimed, Some("a"));
    assert!(matches!(told(w, &report("a", Delivery::Read)), Reported::Moved { .. }));
    assert_eq!(delivery(w, id), Some(Delivery::Read));
}

fn a_report_under_another_channel_finds_nobody(w: &mut World<impl Fresh>) {
    let id = sent(w, "a");
    let other = "mail".parse().unwrap();
    assert_eq!(w.core.report(&other, &report("a", Delivery::Read), w.now).unwrap(), Reported::Unknown);
    assert_eq!(told(w, &report("A", Delivery::Read)), Reported::Unknown);
    assert_eq!(delivery(w, id), None);
}

fn a_message_without_an_id_cannot_be_reported_on(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let claimed = w.claim_one();
    settle_sent(w, &claimed, None);
    assert_eq!(told(w, &report("", Delivery::Read)), Reported::Unknown);
    assert_eq!(delivery(w, id), None);
}

fn of_two_messages_with_one_id_the_last_sent_is_meant(w: &mut World<impl Fresh>) {
    let ids = w.accept_all([draft(), draft()]);
    let claimed = w.claim(2);
    settle_sent(w, &claimed[1], Some("same"));
    settle_sent(w, &claimed[0], Some("same"));
    told(w, &report("same", Delivery::Read));
    let of = |w: &mut World<_>, n: usize| delivery(w, claimed[n].message.id);
    assert_eq!((of(w, 0), of(w, 1), ids.len()), (Some(Delivery::Read), None, 2));
}

fn a_very_long_id_is_found_again(w: &mut World<impl Fresh>) {
    let (long, longer) = ("x".repeat(100_000), "x".repeat(100_001));
    let id = sent(w, &long);
    assert_eq!(told(w, &report(&longer, Delivery::Read)), Reported::Unknown);
    assert!(matches!(told(w, &report(&long, Delivery::Read)), Reported::Moved { .. }));
    assert_eq!(delivery(w, id), Some(Delivery::Read));
}

// REQ ML-9
fn a_report_does_not_touch_the_state(w: &mut World<impl Fresh>) {
    let id = sent(w, "a");
    let before = w.story(id);
    w.pass(mins(5));
    told(w, &report("a", Delivery::Failed));
    let after = w.story(id);
    assert!(matches!(after.state, State::Sent { .. }));
    assert_eq!(pombo_store::Story { delivery: None, ..after }, before);
    assert_eq!((w.claim(10), w.tally(Counted::Failed)), (vec![], 0));
}

fn messages_can_be_listed_by_their_delivery(w: &mut World<impl Fresh>) {
    let (first, second, _) = (sent(w, "a"), sent(w, "b"), sent(w, "c"));
    told(w, &report("a", Delivery::Bounced));
    told(w, &report("b", Delivery::Read));
    let listed =
        |w: &mut World<_>, delivery| w.listed(&Filter { delivery: Some(delivery), ..Filter::default() });
    assert_eq!(listed(w, Delivery::Bounced), [first]);
    assert_eq!(listed(w, Delivery::Read), [second]);
    assert_eq!(listed(w, Delivery::Accepted), []);
}

fn a_report_that_was_not_committed_never_happened(w: &mut World<impl Fresh>) {
    let id = sent(w, "a");
    let before = w.audit();
    w.core.report(&"crm".parse().unwrap(), &report("a", Delivery::Read), w.now).unwrap();
    w.reopen();
    assert_eq!((delivery(w, id), w.audit(), w.tally(Counted::Read)), (None, before, 0));
    assert!(matches!(told(w, &report("a", Delivery::Accepted)), Reported::Moved { from: None, .. }));
}

fn a_send_and_its_report_may_share_a_commit(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let claimed = w.claim_one();
    let done = settlement(&claimed, End::Sent, w.now);
    w.core.settle(done, w.now).unwrap();
    let provider_id = receipt().provider_id.unwrap();
    assert!(matches!(told(w, &report(&provider_id, Delivery::Read)), Reported::Moved { .. }));
    w.reopen();
    assert_eq!(delivery(w, id), Some(Delivery::Read));
}

// REQ ML-5
fn a_doubt_is_kept_until_the_end(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let claimed = w.claim_one();
    assert!(!claimed.progress.doubtful);
    let mut unsure = settlement(&claimed, End::Retry(secs(0)), w.now);
    unsure.progress.doubtful = true;
    w.settle_with(unsure);
    let again = w.claim_one();
    assert_eq!(again.progress, Progress { attempts: 1, steps: 1, doubtful: true, ..Progress::default() });
    w.release(again.key);
    let again = w.claim_one();
    assert!(again.progress.doubtful);
    w.settle(&again, End::Failed(FailureReason::PermanentError));
    assert!(w.story(id).progress.doubtful);
}

// REQ ML-5
fn a_doubt_survives_reopening_and_cancelling(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let claimed = w.claim_one();
    let mut unsure = settlement(&claimed, End::Retry(secs(0)), w.now);
    unsure.progress.doubtful = true;
    w.settle_with(unsure);
    w.claim_one();
    w.reopen();
    let lost = w.take_over(TWO, 10);
    assert!(lost[0].progress.doubtful);
    w.release(lost[0].key);
    w.cancel(id);
    assert_eq!(
        w.story(id).progress,
        Progress { attempts: 1, steps: 2, doubtful: true, ..Progress::default() }
    );
}

// REQ ML-5
fn a_refusal_that_counted_as_accepted_keeps_its_evidence(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let claimed = w.claim_one();
    let mut done = settlement(&claimed, End::Sent, w.now);
    done.next = Next::Sent(Receipt::default());
    done.attempt.failure = Some(failure(pombo_kernel::classify::Verdict::Permanent));
    done.attempt.explanation = "1308: it has it already".into();
    let attempt = done.attempt.clone();
    w.settle_with(done);
    let story = w.story(id);
    assert_eq!((story.state.name(), story.attempts[0].outcome), (StateName::Sent, AttemptOutcome::Sent));
    assert_eq!(story.attempts, [attempt]);
    let record = w.audit().into_iter().find(|record| record.event == Event::Sent).unwrap();
    assert!(record.detail.contains("invalid_recipient"), "{}", record.detail);
}
