//! Dead letters: grouped by cause, ruled on, given up; and the words in which cases of all that happens to them speak.

use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::message::{Actor, Body, Draft, FailureReason, State, StateName};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::Time;
use pombo_store::audit::Event;
use pombo_store::core::Reading;
use pombo_store::dead::{
    Act, CauseId, Deed, Edit, Edited, Group, Hastened, Ruled, Ruling, Verdicts, What, cause_of,
};
use pombo_store::shelf::{Expect, Leaf, Shelf, Shelve};
use pombo_store::{Claimed, Counted, Filter, Settled, Settlement};

use crate::world::*;

on_every_store! { personal:
    a_failed_message_is_a_dead_letter,
    an_expired_message_is_a_dead_letter,
    letters_of_the_same_cause_are_one_group,
    what_differs_from_message_to_message_is_no_other_cause,
    causes_belong_to_a_channel_and_a_tenant,
    groups_come_largest_first_and_no_more_than_asked_for,
    the_newest_letter_stands_for_its_group,
    a_cause_lists_its_letters_only,
    a_failure_without_words_has_the_last_words_there_were,
    a_discarded_message_is_over,
    a_ruling_tells_of_each_message,
    a_message_named_twice_is_ruled_once,
    another_tenants_letters_cannot_be_ruled_edited_or_seen,
    a_ruling_that_depends_on_a_document_fails_with_it,
    a_ruling_is_on_record_with_who_and_why,
    a_ruling_that_was_not_committed_did_not_happen,
    what_people_did_is_told_in_order,
    lines_come_in_the_order_of_the_ids,
    a_list_within_channels_shows_no_others,
}

pub(crate) fn ana() -> Actor {
    Actor("ana".into())
}

pub(crate) fn ruling(act: Act, ids: &[MessageId]) -> Ruling {
    let note = Some("the provider is back".to_owned());
    Ruling { tenant: Tenant::default(), ids: ids.to_vec(), act, by: ana(), note, with: None }
}

pub(crate) fn rule_with(w: &mut World<impl Fresh>, ruling: &Ruling) -> Verdicts {
    let now = w.now;
    let verdicts = w.core.rule(ruling, now).unwrap();
    w.commit();
    verdicts
}

pub(crate) fn rule(w: &mut World<impl Fresh>, act: Act, ids: &[MessageId]) -> Vec<Ruled> {
    rule_with(w, &ruling(act, ids)).unwrap()
}

pub(crate) fn again(w: &mut World<impl Fresh>, id: MessageId) {
    assert_eq!(rule(w, Act::Reprocess, &[id]), [Ruled::Done]);
}

pub(crate) fn hasten(w: &mut World<impl Fresh>, id: MessageId) -> Hastened {
    let now = w.now;
    let hastened = w.core.hasten(&Tenant::default(), id, &ana(), now).unwrap();
    w.commit();
    hastened
}

pub(crate) fn edit_of(w: &mut World<impl Fresh>, id: MessageId) -> Edit {
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

pub(crate) fn edit(w: &mut World<impl Fresh>, edit: &Edit) -> Edited {
    let now = w.now;
    let edited = w.core.edit(edit, now).unwrap();
    w.commit();
    edited
}

pub(crate) fn groups(w: &mut World<impl Fresh>) -> Vec<Group> {
    w.read().groups(&Tenant::default(), 100).unwrap()
}

/// How many letters each group has.
pub(crate) fn counts(w: &mut World<impl Fresh>) -> Vec<u64> {
    groups(w).iter().map(|group| group.count).collect()
}

pub(crate) fn dead(w: &mut World<impl Fresh>) -> Vec<MessageId> {
    w.listed(&Filter { state: Some(StateName::Failed), ..Filter::default() })
}

/// A message that failed with those words.
pub(crate) fn died(w: &mut World<impl Fresh>, draft: Draft, words: &str) -> MessageId {
    let id = w.accept(draft);
    let claimed = w.claim(1_000).into_iter().find(|claimed| claimed.message.id == id).unwrap();
    assert_eq!(die(w, &claimed, FailureReason::PermanentError, Some(words)), Settled::Done);
    id
}

pub(crate) fn die(
    w: &mut World<impl Fresh>,
    claimed: &Claimed,
    reason: FailureReason,
    words: Option<&str>,
) -> Settled {
    let mut settlement: Settlement = settlement(claimed, End::Failed(reason), w.now);
    match (words, &mut settlement.attempt.failure) {
        (Some(words), Some(failure)) => failure.text = words.into(),
        (_, failure) => *failure = None,
    }
    w.settle_with(settlement)
}

pub(crate) fn failed(w: &mut World<impl Fresh>) -> MessageId {
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
    assert_eq!((group.newest, group.last_at, group.first_at), (newer, START + secs(2), START + secs(3)));
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
