//! Dead letters: grouped by cause, given another round, put right, given up; and waiting messages that are hastened.

use pombo_kernel::attachment::Blob;
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::message::{Actor, Body, Draft, FailureReason, Progress, QueueName, State, StateName};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::Time;
use pombo_store::audit::Event;
use pombo_store::core::Reading;
use pombo_store::dead::{
    Act, CauseId, Deed, Edit, Edited, Group, Hastened, Revision, Ruled, Ruling, Verdicts, What, cause_of,
};
use pombo_store::shelf::{Expect, Leaf, Shelf, Shelve};
use pombo_store::{Cancelled, Claimed, Counted, Filter, Settled, Settlement};

use crate::world::*;

on_every_store! {
    a_failed_message_is_a_dead_letter,
    an_expired_message_is_a_dead_letter,
    letters_of_the_same_cause_are_one_group,
    what_differs_from_message_to_message_is_no_other_cause,
    causes_belong_to_a_channel_and_a_tenant,
    groups_come_largest_first_and_no_more_than_asked_for,
    the_newest_letter_stands_for_its_group,
    a_cause_lists_its_letters_only,
    a_failure_without_words_has_the_last_words_there_were,
    a_reprocessed_message_is_due_at_once_in_a_new_round,
    a_reprocessed_message_keeps_the_history_of_earlier_rounds,
    a_reprocessed_message_leaves_its_group,
    a_reprocessed_message_that_fails_again_comes_back_to_its_group,
    a_message_can_fail_and_go_again_in_one_commit,
    a_reprocessed_message_can_be_claimed_in_the_same_commit,
    a_reprocessed_message_is_tried_before,
    a_reprocessed_message_has_as_much_time_as_it_had,
    each_round_has_as_much_time_as_the_first,
    a_deadline_that_was_renewed_ends_with_its_message,
    a_reprocessed_message_goes_last_in_its_order,
    a_reprocessed_message_alone_in_its_order_goes_at_once,
    a_reprocessed_message_that_waits_in_its_order_can_be_cancelled_and_expires,
    the_order_of_reprocessed_messages_survives_reopening,
    a_new_round_has_a_new_key_for_the_provider,
    a_round_after_an_unknown_outcome_keeps_the_key,
    a_round_after_an_edit_has_a_new_key,
    the_key_of_a_round_lasts_through_retries_take_over_and_reopening,
    a_discarded_message_is_over,
    a_ruling_tells_of_each_message,
    a_message_named_twice_is_ruled_once,
    another_tenants_letters_cannot_be_ruled_edited_or_seen,
    a_ruling_that_depends_on_a_document_fails_with_it,
    a_ruling_is_on_record_with_who_and_why,
    a_ruling_that_was_not_committed_did_not_happen,
    an_edited_letter_says_something_else_and_remembers,
    an_edit_of_an_old_version_is_refused,
    only_a_dead_letter_can_be_edited,
    an_edited_letter_goes_where_it_says,
    an_edited_letter_is_found_by_what_it_says_now,
    an_edit_that_changes_the_channel_changes_the_group,
    an_edit_brings_its_attachments,
    a_waiting_message_is_hastened,
    a_message_that_waits_for_its_retry_is_hastened,
    a_message_that_waits_in_its_order_is_hastened,
    a_message_that_is_due_is_not_hastened_again,
    what_does_not_wait_cannot_be_hastened,
    a_hastened_message_still_expires_and_can_be_cancelled,
    hastening_survives_reopening,
    what_people_did_is_told_in_order,
    lines_come_in_the_order_of_the_ids,
    a_list_within_channels_shows_no_others,
}

fn ana() -> Actor {
    Actor("ana".into())
}

fn ruling(act: Act, ids: &[MessageId]) -> Ruling {
    let note = Some("the provider is back".to_owned());
    Ruling { tenant: Tenant::default(), ids: ids.to_vec(), act, by: ana(), note, with: None }
}

fn rule_with(w: &mut World<impl Fresh>, ruling: &Ruling) -> Verdicts {
    let now = w.now;
    let verdicts = w.core.rule(ruling, now).unwrap();
    w.commit();
    verdicts
}

fn rule(w: &mut World<impl Fresh>, act: Act, ids: &[MessageId]) -> Vec<Ruled> {
    rule_with(w, &ruling(act, ids)).unwrap()
}

fn again(w: &mut World<impl Fresh>, id: MessageId) {
    assert_eq!(rule(w, Act::Reprocess, &[id]), [Ruled::Done]);
}

fn hasten(w: &mut World<impl Fresh>, id: MessageId) -> Hastened {
    let now = w.now;
    let hastened = w.core.hasten(&Tenant::default(), id, &ana(), now).unwrap();
    w.commit();
    hastened
}

fn edit_of(w: &mut World<impl Fresh>, id: MessageId) -> Edit {
    let story = w.story(id);
    Edit {
        tenant: Tenant::default(),
        id,
        version: story.version,
        queue: (*story.message.queue).clone(),
        body: Body { to: "somebody else".into(), ..story.message.body.clone() },
        blobs: Vec::new(),
        by: ana(),
        note: Some("wrong address".into()),
    }
}

fn edit(w: &mut World<impl Fresh>, edit: &Edit) -> Edited {
    let now = w.now;
    let edited = w.core.edit(edit, now).unwrap();
    w.commit();
    edited
}

fn groups(w: &mut World<impl Fresh>) -> Vec<Group> {
    w.read().groups(&Tenant::default(), 100).unwrap()
}

/// How many letters each group has.
fn counts(w: &mut World<impl Fresh>) -> Vec<u64> {
    groups(w).iter().map(|group| group.count).collect()
}

fn dead(w: &mut World<impl Fresh>) -> Vec<MessageId> {
    w.listed(&Filter { state: Some(StateName::Failed), ..Filter::default() })
}

/// A message that failed with those words.
fn died(w: &mut World<impl Fresh>, draft: Draft, words: &str) -> MessageId {
    let id = w.accept(draft);
    let claimed = w.claim(1_000).into_iter().find(|claimed| claimed.message.id == id).unwrap();
    assert_eq!(die(w, &claimed, FailureReason::PermanentError, Some(words)), Settled::Done);
    id
}

fn die(w: &mut World<impl Fresh>, claimed: &Claimed, reason: FailureReason, words: Option<&str>) -> Settled {
    let mut settlement: Settlement = settlement(claimed, End::Failed(reason), w.now);
    match (words, &mut settlement.attempt.failure) {
        (Some(words), Some(failure)) => failure.text = words.into(),
        (_, failure) => *failure = None,
    }
    w.settle_with(settlement)
}

fn failed(w: &mut World<impl Fresh>) -> MessageId {
    w.through(draft(), End::Failed(FailureReason::PermanentError))
}

// REQ DL-1
fn a_failed_message_is_a_dead_letter(w: &mut World<impl Fresh>) {
    let id = failed(w);
    assert_eq!(dead(w), [id]);
    let [group] = groups(w).try_into().unwrap();
    assert_eq!((group.channel.as_str(), group.category.as_str()), ("crm", "invalid_recipient"));
    assert_eq!((group.text.as_str(), group.count, group.newest), ("come back later", 1, id));
    assert_eq!(group.last_at, w.now);
    let line = w.list(&Filter::default(), 10).remove(0);
    assert_eq!(cause_of(&line).unwrap().id, group.id);
}

// REQ DL-1
fn an_expired_message_is_a_dead_letter(w: &mut World<impl Fresh>) {
    let waits = w.accept(Draft { send_at: Some(START + mins(9)), ..until(mins(2)) });
    let tried = w.through(until(mins(2)), End::Retry(mins(1)));
    w.pass(mins(2));
    assert_eq!(w.expire(10), 2);
    assert_eq!(dead(w), [tried, waits]);
    let [group] = groups(w).try_into().unwrap();
    assert_eq!((group.category.as_str(), group.text.as_str(), group.count), ("expired", "", 2));
}

// REQ DL-2
fn letters_of_the_same_cause_are_one_group(w: &mut World<impl Fresh>) {
    for _ in 0..3 {
        failed(w);
    }
    died(w, draft(), "no such user");
    assert_eq!(counts(w), [3, 1]);
}

// REQ DL-2
fn what_differs_from_message_to_message_is_no_other_cause(w: &mut World<impl Fresh>) {
    died(
        w,
        draft(),
        "550 5.1.1 <ana@example.com>: user 12345 unknown (id 7f3e9a10-1111-4222-8333-444455556666)",
    );
    died(
        w,
        draft(),
        "550 5.1.1 <rui@example.org>: user 98765 unknown (id 01234567-89ab-4cde-8f01-23456789abcd)",
    );
    assert_eq!(counts(w), [2]);
}

// REQ DL-2, invariant 14
fn causes_belong_to_a_channel_and_a_tenant(w: &mut World<impl Fresh>) {
    failed(w);
    died(w, Draft { queue: queue("mail", "a"), ..draft() }, "come back later");
    died(w, of("acme"), "come back later");
    assert_eq!(counts(w), [1, 1]);
    assert_ne!(groups(w)[0].channel, groups(w)[1].channel);
    let acme = w.read().groups(&"acme".parse().unwrap(), 100).unwrap();
    assert_eq!(acme.len(), 1);
    assert!(groups(w).iter().all(|group| group.id != acme[0].id));
}

// REQ DL-2
fn groups_come_largest_first_and_no_more_than_asked_for(w: &mut World<impl Fresh>) {
    let words = ["one", "two", "three", "four", "five"];
    for (n, words) in words.iter().enumerate() {
        for _ in 0..=n {
            died(w, draft(), words);
        }
    }
    assert_eq!(counts(w), [5, 4, 3, 2, 1]);
    let two = w.read().groups(&Tenant::default(), 2).unwrap();
    assert_eq!(two.iter().map(|group| group.text.as_str()).collect::<Vec<_>>(), ["five", "four"]);
    assert_eq!(w.read().groups(&Tenant::default(), 0).unwrap(), []);
}

fn the_newest_letter_stands_for_its_group(w: &mut World<impl Fresh>) {
    let older = w.accept(draft());
    w.pass(secs(1));
    let newer = w.accept(draft());
    let claimed = w.claim(10);
    for one in claimed.iter().rev() {
        w.pass(secs(1));
        w.settle(one, End::Failed(FailureReason::PermanentError));
    }
    // It failed first, and is the newest all the same.
    let [group] = groups(w).try_into().unwrap();
    assert_eq!((group.newest, group.last_at), (newer, START + secs(2)));
    again(w, newer);
    assert_eq!(groups(w)[0].newest, older);
}

// REQ DL-2
fn a_cause_lists_its_letters_only(w: &mut World<impl Fresh>) {
    let mut busy: Vec<MessageId> = (0..7).map(|_| failed(w)).collect();
    died(w, draft(), "no such user");
    let later = failed(w);
    busy.push(later);
    busy.reverse();
    let cause = groups(w)[0].id;
    let filter = Filter { cause: Some(cause), ..Filter::default() };
    assert_eq!(w.list(&filter, 3).iter().map(|line| line.message.id).collect::<Vec<_>>(), busy);
    let failed = Filter { state: Some(StateName::Failed), ..filter.clone() };
    assert_eq!(w.listed(&failed), busy);
    let sent = Filter { state: Some(StateName::Sent), ..filter.clone() };
    assert_eq!(w.listed(&sent), []);
    let foreign = Filter { tenant: "acme".parse().unwrap(), ..filter };
    assert_eq!(w.listed(&foreign), []);
    assert_eq!(w.listed(&Filter { cause: Some(CauseId(1)), ..Filter::default() }), []);
}

fn a_failure_without_words_has_the_last_words_there_were(w: &mut World<impl Fresh>) {
    let id = w.through(draft(), End::Retry(secs(1)));
    w.pass(secs(1));
    let claimed = w.claim_one();
    assert_eq!(die(w, &claimed, FailureReason::MaxRetriesExceeded, None), Settled::Done);
    let [group] = groups(w).try_into().unwrap();
    assert_eq!((group.category.as_str(), group.newest), ("busy", id));
    assert_eq!(w.listed(&Filter { cause: Some(group.id), ..Filter::default() }), [id]);
}

// REQ DL-4
fn a_reprocessed_message_is_due_at_once_in_a_new_round(w: &mut World<impl Fresh>) {
    let id = w.through(draft(), End::Retry(secs(1)));
    w.pass(secs(1));
    let claimed = w.claim_one();
    w.settle(&claimed, End::Failed(FailureReason::PermanentError));
    w.pass(mins(5));
    again(w, id);
    let story = w.story(id);
    assert_eq!((story.state, story.updated_at), (State::Pending { due: w.now }, w.now));
    let progress = Progress { round: 1, steps: 3, keyed: 1, ..Progress::default() };
    assert_eq!(story.progress, progress);
    assert_eq!(w.next_due(), Some(w.now));
    let claimed = w.claim_one();
    assert_eq!((claimed.message.id, claimed.progress), (id, progress));
    assert_eq!(w.settle(&claimed, End::Sent), Settled::Done);
    w.is(id, StateName::Sent);
}

// REQ DL-4
fn a_reprocessed_message_keeps_the_history_of_earlier_rounds(w: &mut World<impl Fresh>) {
    let id = failed(w);
    for round in 1..4 {
        again(w, id);
        let claimed = w.claim_one();
        assert_eq!((claimed.progress.round, claimed.progress.attempts), (round, 0));
        w.settle(&claimed, End::Failed(FailureReason::PermanentError));
    }
    let rounds: Vec<(u16, u16)> =
        w.story(id).attempts.iter().map(|attempt| (attempt.round, attempt.number)).collect();
    assert_eq!(rounds, [(0, 1), (1, 1), (2, 1), (3, 1)]);
    assert_eq!((w.tally(Counted::Failed), w.tally(Counted::Reprocessed)), (4, 3));
}

// REQ DL-4
fn a_reprocessed_message_leaves_its_group(w: &mut World<impl Fresh>) {
    let [first, second] = [failed(w), failed(w)];
    again(w, first);
    assert_eq!((counts(w), dead(w)), (vec![1], vec![second]));
    again(w, second);
    assert_eq!((groups(w), dead(w)), (vec![], vec![]));
}

fn a_reprocessed_message_that_fails_again_comes_back_to_its_group(w: &mut World<impl Fresh>) {
    let id = failed(w);
    let before = groups(w);
    again(w, id);
    let claimed = w.claim_one();
    w.settle(&claimed, End::Failed(FailureReason::PermanentError));
    assert_eq!((groups(w), dead(w)), (before, vec![id]));
}

fn a_message_can_fail_and_go_again_in_one_commit(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let claimed = w.claim_one();
    let now = w.now;
    let end = End::Failed(FailureReason::PermanentError);
    w.core.settle(settlement(&claimed, end, now), now).unwrap();
    assert_eq!(w.core.rule(&ruling(Act::Reprocess, &[id]), now).unwrap(), Ok(vec![Ruled::Done]));
    let claimed = w.claim_uncommitted(ONE, "default", 10).remove(0);
    w.core.settle(settlement(&claimed, end, now), now).unwrap();
    w.commit();
    assert_eq!((w.story(id).progress.steps, counts(w), dead(w)), (3, vec![1], vec![id]));
}

fn a_reprocessed_message_can_be_claimed_in_the_same_commit(w: &mut World<impl Fresh>) {
    let id = failed(w);
    let now = w.now;
    assert_eq!(w.core.rule(&ruling(Act::Reprocess, &[id]), now).unwrap(), Ok(vec![Ruled::Done]));
    assert_eq!(w.claimed_ids(10), [id]);
}

fn a_reprocessed_message_is_tried_before(w: &mut World<impl Fresh>) {
    let id = failed(w);
    let new = w.accept(draft());
    w.pass(secs(1));
    again(w, id);
    // What was tried before goes first, as far as its budget reaches.
    assert_eq!(w.claimed_ids(10), [id, new]);
}

// REQ DL-4, RP-6
fn a_reprocessed_message_has_as_much_time_as_it_had(w: &mut World<impl Fresh>) {
    let id = w.through(until(mins(10)), End::Failed(FailureReason::PermanentError));
    w.pass(mins(60));
    assert_eq!(w.expire(10), 0);
    again(w, id);
    assert_eq!(w.story(id).message.expires_at, Some(START + mins(70)));
    w.pass(mins(9));
    assert_eq!(w.expire(10), 0);
    w.pass(mins(1));
    assert_eq!(w.expire(10), 1);
    assert!(matches!(w.state(id), State::Failed { reason: FailureReason::Expired, .. }));
}

fn each_round_has_as_much_time_as_the_first(w: &mut World<impl Fresh>) {
    let id = w.through(until(mins(10)), End::Failed(FailureReason::PermanentError));
    for hour in 1..4 {
        w.pass(mins(60));
        again(w, id);
        let deadline = START + mins(60 * hour + 10);
        let claimed = w.claim_one();
        assert_eq!(claimed.message.expires_at, Some(deadline));
        w.settle(&claimed, End::Failed(FailureReason::PermanentError));
    }
    w.pass(mins(60));
    assert_eq!(w.expire(10), 0);
}

fn a_deadline_that_was_renewed_ends_with_its_message(w: &mut World<impl Fresh>) {
    let id = w.through(until(mins(10)), End::Failed(FailureReason::PermanentError));
    w.pass(mins(5));
    again(w, id);
    let claimed = w.claim_one();
    w.settle(&claimed, End::Sent);
    w.pass(mins(60));
    assert_eq!(w.expire(10), 0);
    assert_eq!(w.core.next_deadline().filter(|at| *at <= START + mins(15)), None);
    w.is(id, StateName::Sent);
}

// REQ ML-6, DL-4
fn a_reprocessed_message_goes_last_in_its_order(w: &mut World<impl Fresh>) {
    let ids = w.accept_all((0..3).map(|_| in_order("k")));
    let claimed = w.claim_one();
    w.settle(&claimed, End::Failed(FailureReason::PermanentError));
    again(w, ids[0]);
    w.is(ids[0], StateName::Pending);
    let later = w.accept(in_order("k"));
    for id in [ids[1], ids[2], ids[0], later] {
        let claimed = w.claim_one();
        assert_eq!(claimed.message.id, id);
        w.settle(&claimed, End::Sent);
    }
    assert_eq!(w.claimed_ids(10), []);
}

fn a_reprocessed_message_alone_in_its_order_goes_at_once(w: &mut World<impl Fresh>) {
    let id = w.through(in_order("k"), End::Failed(FailureReason::PermanentError));
    again(w, id);
    let next = w.accept(in_order("k"));
    let claimed = w.claim_one();
    assert_eq!(claimed.message.id, id);
    w.settle(&claimed, End::Sent);
    assert_eq!(w.claimed_ids(10), [next]);
}

fn a_reprocessed_message_that_waits_in_its_order_can_be_cancelled_and_expires(w: &mut World<impl Fresh>) {
    let first = w.through(in_order("k"), End::Failed(FailureReason::PermanentError));
    let second = w.through(
        Draft { ordering_key: Some("k".into()), ..until(mins(1)) },
        End::Failed(FailureReason::PermanentError),
    );
    let head = w.accept(in_order("k"));
    assert_eq!(rule(w, Act::Reprocess, &[second, first]), [Ruled::Done, Ruled::Done]);
    assert_eq!(w.cancel(first), Cancelled::Done);
    w.pass(mins(1));
    assert_eq!(w.expire(10), 1);
    w.is(second, StateName::Failed);
    assert_eq!(w.claimed_ids(10), [head]);
    assert_eq!(dead(w), [second]);
}

fn the_order_of_reprocessed_messages_survives_reopening(w: &mut World<impl Fresh>) {
    let ids = w.accept_all((0..3).map(|_| in_order("k")));
    let claimed = w.claim_one();
    w.settle(&claimed, End::Failed(FailureReason::PermanentError));
    again(w, ids[0]);
    w.reopen();
    for id in [ids[1], ids[2], ids[0]] {
        let claimed = w.claim_one();
        assert_eq!(claimed.message.id, id);
        w.settle(&claimed, End::Sent);
    }
}

fn key_after(w: &mut World<impl Fresh>, id: MessageId) -> u16 {
    again(w, id);
    let claimed = w.claim_one();
    assert_eq!(claimed.message.id, id);
    let keyed = claimed.progress.keyed;
    w.settle(&claimed, End::Failed(FailureReason::OutcomeUnknown));
    keyed
}

// REQ DL-4
fn a_new_round_has_a_new_key_for_the_provider(w: &mut World<impl Fresh>) {
    let id = failed(w);
    assert_eq!(key_after(w, id), 1);
}

// REQ ML-5
fn a_round_after_an_unknown_outcome_keeps_the_key(w: &mut World<impl Fresh>) {
    let id = w.through(draft(), End::Failed(FailureReason::OutcomeUnknown));
    assert_eq!([key_after(w, id), key_after(w, id)], [0, 0]);
    let told = failed(w);
    assert_eq!([key_after(w, told), key_after(w, told)], [1, 1]);
}

// REQ DL-3
fn a_round_after_an_edit_has_a_new_key(w: &mut World<impl Fresh>) {
    let id = w.through(draft(), End::Failed(FailureReason::OutcomeUnknown));
    let change = edit_of(w, id);
    assert_eq!(edit(w, &change), Edited::Done { version: 2 });
    // The same words again, after whose outcome nobody knows either.
    assert_eq!([key_after(w, id), key_after(w, id)], [1, 1]);
}

fn the_key_of_a_round_lasts_through_retries_take_over_and_reopening(w: &mut World<impl Fresh>) {
    let id = failed(w);
    again(w, id);
    let claimed = w.claim_one();
    w.settle(&claimed, End::Retry(secs(1)));
    w.pass(secs(1));
    assert_eq!(w.claim_one().progress.keyed, 1);
    w.reopen();
    let taken = w.take_over(TWO, 10).remove(0);
    assert_eq!((taken.message.id, taken.progress.keyed), (id, 1));
    assert_eq!((taken.progress.round, taken.progress.attempts), (1, 1));
}

// REQ DL-5
fn a_discarded_message_is_over(w: &mut World<impl Fresh>) {
    let id = failed(w);
    w.pass(mins(1));
    assert_eq!(rule(w, Act::Discard, &[id]), [Ruled::Done]);
    let story = w.story(id);
    assert_eq!(story.state, State::Discarded { at: w.now, by: ana() });
    assert_eq!((story.progress.steps, story.updated_at), (2, w.now));
    assert_eq!((groups(w), dead(w)), (vec![], vec![]));
    assert_eq!(rule(w, Act::Reprocess, &[id]), [Ruled::NotDead(StateName::Discarded)]);
    w.pass(mins(600));
    assert_eq!(w.claim(10), []);
    assert_eq!((w.tally(Counted::Discarded), w.tally(Counted::Reprocessed)), (1, 0));
}

fn a_ruling_tells_of_each_message(w: &mut World<impl Fresh>) {
    let [one, two] = [failed(w), failed(w)];
    let sent = w.through(draft(), End::Sent);
    let cancelled = w.accept(draft());
    w.cancel(cancelled);
    w.accept(draft());
    let sending = w.claim_one().message.id;
    let pending = w.accept(draft());
    let behind = w.accept_all([in_order("k"), in_order("k")])[1];
    let unknown = MessageId::new(MessageKey::at(START), 1);
    let ids = [one, sent, sending, pending, behind, cancelled, unknown, two];
    let expected = [
        Ruled::Done,
        Ruled::NotDead(StateName::Sent),
        Ruled::NotDead(StateName::Sending),
        Ruled::NotDead(StateName::Pending),
        Ruled::NotDead(StateName::Pending),
        Ruled::NotDead(StateName::Cancelled),
        Ruled::NotFound,
        Ruled::Done,
    ];
    assert_eq!(rule(w, Act::Reprocess, &ids), expected);
    assert_eq!(rule(w, Act::Reprocess, &[]), []);
}

fn a_message_named_twice_is_ruled_once(w: &mut World<impl Fresh>) {
    let [one, two] = [failed(w), failed(w)];
    let twice = rule(w, Act::Reprocess, &[one, one]);
    assert_eq!(twice, [Ruled::Done, Ruled::NotDead(StateName::Pending)]);
    let twice = rule(w, Act::Discard, &[two, two]);
    assert_eq!(twice, [Ruled::Done, Ruled::NotDead(StateName::Discarded)]);
    assert_eq!((w.tally(Counted::Reprocessed), w.tally(Counted::Discarded)), (1, 1));
}

// invariant 14
fn another_tenants_letters_cannot_be_ruled_edited_or_seen(w: &mut World<impl Fresh>) {
    let id = failed(w);
    let change = edit_of(w, id);
    assert_eq!(edit(w, &change), Edited::Done { version: 2 });
    let eve: Tenant = "acme".parse().unwrap();
    let theirs = Ruling { tenant: eve.clone(), ..ruling(Act::Discard, &[id]) };
    assert_eq!(rule_with(w, &theirs), Ok(vec![Ruled::NotFound]));
    let change = Edit { tenant: eve.clone(), version: 2, ..change };
    assert_eq!(edit(w, &change), Edited::NotFound);
    let now = w.now;
    assert_eq!(w.core.hasten(&eve, id, &ana(), now).unwrap(), Hastened::NotFound);
    assert_eq!(w.read().revisions(&eve, id).unwrap(), []);
    assert_eq!(w.read().groups(&eve, 10).unwrap(), []);
    w.is(id, StateName::Failed);
}

fn a_ruling_that_depends_on_a_document_fails_with_it(w: &mut World<impl Fresh>) {
    let id = failed(w);
    let leaf = |body: &str| Some(Leaf { order: 0, topic: None, due: None, body: body.into() });
    let put = |expect, body: &str| Shelve {
        shelf: Shelf::Operation,
        tenant: Tenant::default(),
        id: "op_1".into(),
        expect,
        leaf: leaf(body),
        record: None,
    };
    let step = |expect, body: &str| Ruling { with: Some(put(expect, body)), ..ruling(Act::Reprocess, &[id]) };
    assert_eq!(rule_with(w, &step(Expect::Version(1), "{}")), Err(None));
    w.is(id, StateName::Failed);
    assert_eq!(counts(w), [1]);
    assert_eq!(rule_with(w, &step(Expect::Nothing, "{}")), Ok(vec![Ruled::Done]));
    let found = rule_with(w, &step(Expect::Nothing, "[]")).unwrap_err().unwrap();
    assert_eq!((found.version, found.leaf.body.as_str()), (1, "{}"));
    let doc = w.read().doc(Shelf::Operation, &Tenant::default(), "op_1").unwrap();
    assert_eq!(doc, Some(*found));
}

// REQ DL-5, SE-3
fn a_ruling_is_on_record_with_who_and_why(w: &mut World<impl Fresh>) {
    let [one, two] = [failed(w), failed(w)];
    rule(w, Act::Reprocess, &[one]);
    rule(w, Act::Discard, &[two]);
    let change = edit_of(w, one);
    assert_eq!(edit(w, &change), Edited::NotDead(StateName::Pending));
    let records: Vec<_> = w.audit().into_iter().rev().take(2).collect();
    let [discarded, reprocessed] = &records[..] else { panic!("two records") };
    assert_eq!((discarded.event, reprocessed.event), (Event::Discarded, Event::Reprocessed));
    for (record, id) in [(discarded, two), (reprocessed, one)] {
        assert_eq!((record.message, record.actor.as_str()), (Some(id), "ana"));
        assert_eq!(record.from, Some(StateName::Failed));
        assert!(record.detail.contains("the provider is back"), "{}", record.detail);
    }
    assert!(reprocessed.detail.contains("\"round\":1"), "{}", reprocessed.detail);
}

fn a_ruling_that_was_not_committed_did_not_happen(w: &mut World<impl Fresh>) {
    let [one, two] = [failed(w), failed(w)];
    let now = w.now;
    w.core.rule(&ruling(Act::Reprocess, &[one]), now).unwrap().unwrap();
    w.core.rule(&ruling(Act::Discard, &[two]), now).unwrap().unwrap();
    w.reopen();
    assert_eq!((counts(w), dead(w)), (vec![2], vec![two, one]));
    assert_eq!(w.claim(10), []);
    assert_eq!(rule(w, Act::Reprocess, &[one, two]), [Ruled::Done, Ruled::Done]);
}

// REQ DL-3
fn an_edited_letter_says_something_else_and_remembers(w: &mut World<impl Fresh>) {
    let draft = Draft {
        body: Body {
            to: "someone\0".into(),
            kind: Some("invoice".into()),
            template: Some("welcome".into()),
            reference: Some("r1".into()),
            ..Body::default()
        },
        ..draft()
    };
    let id = w.through(draft.clone(), End::Failed(FailureReason::PermanentError));
    assert_eq!(w.story(id).version, 1);
    w.pass(secs(1));
    let first = edit_of(w, id);
    assert_eq!(edit(w, &first), Edited::Done { version: 2 });
    w.pass(secs(1));
    let kind = Some("reminder".into());
    let body = Body { kind, template: None, reference: Some("r2".into()), ..first.body.clone() };
    let second =
        Edit { version: 2, body: body.clone(), by: Actor("rui".into()), note: None, ..first.clone() };
    assert_eq!(edit(w, &second), Edited::Done { version: 3 });
    let story = w.story(id);
    assert_eq!((story.version, story.message.body.clone()), (3, body));
    assert_eq!(story.state.name(), StateName::Failed);
    let revisions = w.read().revisions(&Tenant::default(), id).unwrap();
    let note = Some("wrong address".into());
    assert_eq!(
        revisions,
        [
            Revision { version: 1, body: draft.body, replaced_at: START + secs(1), by: ana(), note },
            Revision {
                version: 2,
                body: first.body,
                replaced_at: START + secs(2),
                by: Actor("rui".into()),
                note: None
            },
        ]
    );
    again(w, id);
    assert_eq!(w.claim_one().message.body.to, "somebody else");
}

// REQ DL-3: two operators at once
fn an_edit_of_an_old_version_is_refused(w: &mut World<impl Fresh>) {
    let id = failed(w);
    let change = edit_of(w, id);
    assert_eq!(edit(w, &change), Edited::Done { version: 2 });
    let events = w.events().len();
    assert_eq!(edit(w, &change), Edited::Stale { version: 2 });
    assert_eq!(w.events().len(), events);
    assert_eq!(w.story(id).version, 2);
}

fn only_a_dead_letter_can_be_edited(w: &mut World<impl Fresh>) {
    let id = failed(w);
    let change = edit_of(w, id);
    again(w, id);
    assert_eq!(edit(w, &change), Edited::NotDead(StateName::Pending));
    let claimed = w.claim_one();
    assert_eq!(edit(w, &change), Edited::NotDead(StateName::Sending));
    w.settle(&claimed, End::Sent);
    assert_eq!(edit(w, &change), Edited::NotDead(StateName::Sent));
    let unknown = MessageId::new(MessageKey::at(START), 1);
    assert_eq!(edit(w, &Edit { id: unknown, ..change }), Edited::NotFound);
    assert_eq!(w.read().revisions(&Tenant::default(), id).unwrap(), []);
}

fn an_edited_letter_goes_where_it_says(w: &mut World<impl Fresh>) {
    let id = failed(w);
    let lane = "bulk".parse().unwrap();
    let change = Edit { queue: QueueName { lane, ..queue("crm", "elsewhere.example") }, ..edit_of(w, id) };
    assert_eq!(edit(w, &change), Edited::Done { version: 2 });
    assert_eq!(*w.story(id).message.queue, change.queue);
    again(w, id);
    assert_eq!(w.claim(10), []);
    let taken = w.claim_as(ONE, "bulk", 10);
    assert_eq!(&*taken[0].message.queue.destination, "elsewhere.example");
}

fn an_edited_letter_is_found_by_what_it_says_now(w: &mut World<impl Fresh>) {
    let id = failed(w);
    let body = Body { to: "rui".into(), reference: Some("r9".into()), ..Body::default() };
    let change = Edit { body, ..edit_of(w, id) };
    assert_eq!(edit(w, &change), Edited::Done { version: 2 });
    assert_eq!(w.listed(&Filter { recipient: Some("rui".into()), ..Filter::default() }), [id]);
    assert_eq!(w.listed(&Filter { reference: Some("r9".into()), ..Filter::default() }), [id]);
    assert_eq!(w.listed(&Filter { recipient: Some("someone".into()), ..Filter::default() }), []);
}

fn an_edit_that_changes_the_channel_changes_the_group(w: &mut World<impl Fresh>) {
    let [id, _] = [failed(w), failed(w)];
    let change = Edit { queue: queue("mail", "a"), ..edit_of(w, id) };
    assert_eq!(edit(w, &change), Edited::Done { version: 2 });
    let mut channels: Vec<_> =
        groups(w).iter().map(|group| (group.channel.to_string(), group.count)).collect();
    channels.sort();
    assert_eq!(channels, [("crm".to_owned(), 1), ("mail".to_owned(), 1)]);
    let cause = groups(w).iter().find(|group| group.channel.as_str() == "mail").unwrap().id;
    assert_eq!(w.listed(&Filter { cause: Some(cause), ..Filter::default() }), [id]);
    again(w, id);
    assert_eq!(counts(w), [1]);
}

fn an_edit_brings_its_attachments(w: &mut World<impl Fresh>) {
    let id = failed(w);
    let blob = Blob::of(*b"a better one");
    let change = Edit { blobs: vec![blob.clone()], ..edit_of(w, id) };
    assert_eq!(edit(w, &change), Edited::Done { version: 2 });
    assert_eq!(w.read().blob(blob.digest).unwrap().as_deref(), Some(&b"a better one"[..]));
}

/// It waits until then, is hastened, and can be claimed at once.
fn goes_now(w: &mut World<impl Fresh>, id: MessageId) -> Claimed {
    assert!(matches!(w.state(id), State::Pending { due } if due > w.now));
    let before = w.story(id);
    assert_eq!(w.claim(10), []);
    assert_eq!(hasten(w, id), Hastened::Done);
    let story = w.story(id);
    assert_eq!(story.state, State::Pending { due: w.now });
    assert_eq!((story.progress, story.updated_at), (before.progress, before.updated_at));
    assert_eq!(w.next_due(), Some(w.now));
    let claimed = w.claim_one();
    assert_eq!(claimed.message.id, id);
    claimed
}

// REQ ML-6
fn a_waiting_message_is_hastened(w: &mut World<impl Fresh>) {
    let id = w.accept(later(mins(60)));
    w.pass(secs(1));
    let claimed = goes_now(w, id);
    w.settle(&claimed, End::Sent);
    let record = w.audit().into_iter().find(|record| record.event == Event::Hastened).unwrap();
    assert_eq!((record.message, record.actor.as_str()), (Some(id), "ana"));
}

fn a_message_that_waits_for_its_retry_is_hastened(w: &mut World<impl Fresh>) {
    let id = w.through(draft(), End::Retry(mins(60)));
    let claimed = goes_now(w, id);
    assert_eq!(claimed.progress.attempts, 1);
    assert_eq!(w.story(id).attempts[0].next_delay, Some(mins(60)), "what was decided stays on record");
}

fn a_message_that_waits_in_its_order_is_hastened(w: &mut World<impl Fresh>) {
    let first = w.accept(in_order("k"));
    let second = w.accept(Draft { ordering_key: Some("k".into()), ..later(mins(60)) });
    assert_eq!(hasten(w, second), Hastened::Done);
    assert_eq!(w.state(second), State::Pending { due: w.now });
    let claimed = w.claim_one();
    assert_eq!(claimed.message.id, first);
    w.settle(&claimed, End::Sent);
    assert_eq!(w.claimed_ids(10), [second]);
}

fn a_message_that_is_due_is_not_hastened_again(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let behind = w.accept_all([in_order("k"), in_order("k")])[1];
    w.pass(secs(1));
    let records = w.audit().len();
    assert_eq!([hasten(w, id), hasten(w, behind)], [Hastened::Done; 2]);
    assert_eq!(w.state(id), State::Pending { due: START });
    assert_eq!(w.audit().len(), records);
}

fn what_does_not_wait_cannot_be_hastened(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let claimed = w.claim_one();
    assert_eq!(hasten(w, id), Hastened::NotWaiting(StateName::Sending));
    w.settle(&claimed, End::Sent);
    assert_eq!(hasten(w, id), Hastened::NotWaiting(StateName::Sent));
    let dead = failed(w);
    assert_eq!(hasten(w, dead), Hastened::NotWaiting(StateName::Failed));
    let gone = w.accept(later(mins(5)));
    w.cancel(gone);
    assert_eq!(hasten(w, gone), Hastened::NotWaiting(StateName::Cancelled));
    assert_eq!(hasten(w, MessageId::new(MessageKey::at(START), 1)), Hastened::NotFound);
}

fn a_hastened_message_still_expires_and_can_be_cancelled(w: &mut World<impl Fresh>) {
    let late = w.accept(Draft { send_at: Some(START + mins(60)), ..until(mins(1)) });
    let unwanted = w.accept(later(mins(60)));
    assert_eq!([hasten(w, late), hasten(w, unwanted)], [Hastened::Done; 2]);
    assert_eq!(w.cancel(unwanted), Cancelled::Done);
    w.pass(mins(1));
    assert_eq!(w.expire(10), 1);
    w.is(late, StateName::Failed);
    assert_eq!(w.claim(10), []);
}

fn hastening_survives_reopening(w: &mut World<impl Fresh>) {
    let id = w.accept(later(mins(60)));
    let again = w.through(draft(), End::Retry(mins(60)));
    assert_eq!([hasten(w, id), hasten(w, again)], [Hastened::Done; 2]);
    w.reopen();
    let mut taken = w.claimed_ids(10);
    taken.sort();
    assert_eq!(taken, [id, again]);
}

// REQ DL-5
fn what_people_did_is_told_in_order(w: &mut World<impl Fresh>) {
    let id = failed(w);
    again(w, id);
    w.pass(secs(1));
    let claimed = w.claim_one();
    w.settle(&claimed, End::Failed(FailureReason::PermanentError));
    let last = Ruling { note: None, by: Actor("rui".into()), ..ruling(Act::Discard, &[id]) };
    assert_eq!(rule_with(w, &last), Ok(vec![Ruled::Done]));
    let deed = |at: Time, what, by: &str, note: Option<&str>| Deed {
        at,
        what,
        by: Actor(by.into()),
        note: note.map(str::to_owned),
    };
    assert_eq!(
        w.story(id).deeds,
        [
            deed(START, What::Reprocessed, "ana", Some("the provider is back")),
            deed(START + secs(1), What::Discarded, "rui", None),
        ]
    );
    let gone = w.accept(draft());
    w.cancel(gone);
    assert_eq!(w.story(gone).deeds, [deed(w.now, What::Cancelled, "ana", None)]);
}

fn lines_come_in_the_order_of_the_ids(w: &mut World<impl Fresh>) {
    let sent = w.through(draft(), End::Sent);
    let theirs = w.accept(of("acme"));
    let dead = failed(w); // What else was there is being sent since.
    let unknown = MessageId::new(sent.key(), sent.nonce() ^ 1);
    let lines = w.read().lines(&[dead, unknown, theirs, sent]).unwrap();
    let seen: Vec<_> = lines.iter().map(|line| (line.message.id, line.state.name())).collect();
    let expected = [(dead, StateName::Failed), (theirs, StateName::Sending), (sent, StateName::Sent)];
    assert_eq!(seen, expected);
    assert_eq!(lines[2..], w.list(&Filter { state: Some(StateName::Sent), ..Filter::default() }, 10));
    assert_eq!(w.read().lines(&[]).unwrap(), []);
}

// REQ SE-1
fn a_list_within_channels_shows_no_others(w: &mut World<impl Fresh>) {
    let mail = Draft { queue: queue("mail", "a"), ..draft() };
    let ids = [w.accept(draft()), w.accept(mail), w.accept(draft())];
    let dead = died(w, Draft { queue: queue("fax", "a"), ..draft() }, "busy");
    let within = |names: &[&str]| Filter {
        within: Some(names.iter().map(|name| name.parse().unwrap()).collect()),
        ..Filter::default()
    };
    assert_eq!(w.listed(&within(&["crm"])), [ids[2], ids[0]]);
    assert_eq!(w.listed(&within(&["fax", "mail"])), [dead, ids[1]]);
    assert_eq!(w.listed(&within(&[])), []);
    let without = Filter { without: Some("crm".parse().unwrap()), ..Filter::default() };
    assert_eq!(w.listed(&without), [dead, ids[1]]);
}
