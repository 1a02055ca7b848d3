//! What leaves in the end, and what stays.

use std::sync::Arc;

use pombo_kernel::attachment::Blob;
use pombo_kernel::campaign::Campaign;
use pombo_kernel::campaign::recipient::{Listed, Person, Standing};
use pombo_kernel::delivery::{Delivery, Report};
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Actor, Body, Draft, FailureReason, QueueName, StateName};
use pombo_kernel::name::Tenant;
use pombo_kernel::retention::{KEYS_KEPT, Keep, Kept, Rules};
use pombo_kernel::time::{Span, Time};
use pombo_store::audit::Event;
use pombo_store::core::Reading;
use pombo_store::dead::{Act, Edited, Ruled};
use pombo_store::prune::{Effect, Lapsed, Prune, Pruned, Ripe, Walk};
use pombo_store::roster::{self, Enlist, Feed, Recipient, Roster, Serving};
use pombo_store::shelf::{Expect, Shelf, Shelve};
use pombo_store::{Cancelled, Counted, Filter, Repeat, Reported, Settled};

use crate::dead::{again, counts, dead, edit, edit_of, rule};
use crate::world::*;

on_every_store! { personal:
    a_message_goes_when_its_time_after_the_end_is_over,
    what_has_not_ended_stays_however_old,
    a_channel_or_a_state_without_a_limit_keeps_all,
    the_last_ones_of_each_tenant_channel_and_state_stay,
    nothing_is_known_any_more_of_a_message_that_went,
    those_that_went_are_not_found_by_recipient_whenever_they_came,
    an_attachment_goes_with_the_last_message_that_has_it,
    a_dead_letter_that_goes_leaves_its_group,
    a_letter_that_somebody_lets_go_between_the_look_and_the_removal_stays,
    a_step_removes_no_more_than_asked_and_the_next_goes_on,
    a_step_looks_at_ten_times_as_many_and_no_more,
    a_step_is_on_record_with_counts_by_tenant_and_channel,
    what_would_go_is_told_without_harm,
    an_idempotency_key_outlasts_its_message_for_three_days_after_the_end,
    an_idempotency_key_goes_three_days_after_the_end_of_a_message_that_stays,
    the_key_of_what_waits_or_may_still_be_tried_stays,
    keys_go_step_by_step,
    whoever_was_on_a_list_stays_there_without_the_message,
    a_removal_that_was_not_committed_did_not_happen,
    a_report_on_what_stays_is_found_after_newer_messages_went,
}

const DAY: Span = Span::from_hours(24);

fn by() -> Actor {
    Actor("pombo".into())
}

fn step(rules: &Rules, walk: Walk) -> Prune {
    Prune { rules: Arc::new(rules.clone()), by: by(), effect: Effect::Remove, walk }
}

/// Rules for the channel that drafts go through.
fn crm(kept: Kept) -> Rules {
    Rules::from_iter([("crm".parse().unwrap(), kept)])
}

/// Whatever ended is kept for a day.
fn a_day() -> Rules {
    crm(Kept::only(Keep::For(DAY), |_| true))
}

fn look(w: &mut World<impl Fresh>, prune: &Prune, max: usize) -> Ripe {
    let now = w.now;
    w.read().ripe(prune, max, now).unwrap()
}

fn remove(w: &mut World<impl Fresh>, prune: &Prune, ripe: &Ripe) -> Pruned {
    let done = w.core.prune(prune, ripe, w.now).unwrap();
    w.commit();
    done
}

/// One whole walk; how many went.
fn prune(w: &mut World<impl Fresh>, rules: &Rules) -> u64 {
    let mut walk = Some(Walk::default());
    let mut count = 0;
    while let Some(here) = walk {
        let prune = step(rules, here);
        let ripe = look(w, &prune, 100);
        let done = remove(w, &prune, &ripe);
        count += done.count();
        walk = done.next;
    }
    count
}

fn lapse(w: &mut World<impl Fresh>) -> usize {
    let lapsed = w.core.lapse(None, 100, w.now).unwrap();
    assert_eq!(lapsed.next, None);
    w.commit();
    lapsed.removed
}

fn is_there(w: &mut World<impl Fresh>, id: MessageId) -> bool {
    w.read().story(&Tenant::default(), id).unwrap().is_some()
}

fn sent(w: &mut World<impl Fresh>, draft: Draft) -> MessageId {
    w.through(draft, End::Sent)
}

fn failed(w: &mut World<impl Fresh>, draft: Draft) -> MessageId {
    w.through(draft, End::Failed(FailureReason::PermanentError))
}

fn cancelled(w: &mut World<impl Fresh>, draft: Draft) -> MessageId {
    let id = w.accept(draft);
    assert_eq!(w.cancel(id), Cancelled::Done);
    id
}

fn discarded(w: &mut World<impl Fresh>, draft: Draft) -> MessageId {
    let id = failed(w, draft);
    assert_eq!(rule(w, Act::Discard, &[id]), [Ruled::Done]);
    id
}

// REQ AU-2
fn a_message_goes_when_its_time_after_the_end_is_over(w: &mut World<impl Fresh>) {
    let old = w.accept(later(mins(60)));
    let ends = [sent(w, draft()), failed(w, draft()), cancelled(w, draft()), discarded(w, draft())];
    w.pass(mins(60));
    let claimed = w.claim_one();
    w.settle(&claimed, End::Sent);
    w.now = START + DAY - mins(1);
    assert_eq!(prune(w, &a_day()), 0);
    w.now = START + DAY;
    assert_eq!(prune(w, &a_day()), 4);
    assert!(ends.iter().all(|id| !is_there(w, *id)));
    assert!(is_there(w, old), "what counts is the end");
    w.now = START + DAY + mins(60);
    assert_eq!(prune(w, &a_day()), 1);
    assert_eq!(w.read().verify().unwrap().broken, None);
    assert_eq!(w.tally(Counted::Sent), 2, "counts are history");
}

fn what_has_not_ended_stays_however_old(w: &mut World<impl Fresh>) {
    let waiting = w.accept(later(Span::from_hours(100_000)));
    let sending = w.accept(draft());
    let held = w.claim_one();
    let retried = w.through(draft(), End::Retry(Span::from_hours(100_000)));
    let reprocessed = failed(w, later(secs(0)));
    again(w, reprocessed);
    let behind = w.accept_all([Draft { send_at: Some(START + DAY + DAY), ..in_order("o") }, in_order("o")]);
    w.pass(DAY);
    w.heartbeat(ONE, DAY);
    w.pass(secs(1));
    assert_eq!(prune(w, &crm(Kept::only(Keep::Last(0), |_| true))), 0);
    for id in [waiting, sending, retried, reprocessed].into_iter().chain(behind) {
        assert!(is_there(w, id));
    }
    assert_eq!(w.settle(&held, End::Sent), Settled::Done);
    w.pass(mins(60));
    assert_eq!(prune(w, &crm(Kept::only(Keep::Last(0), |_| true))), 1);
    assert!(!is_there(w, sending));
}

fn a_channel_or_a_state_without_a_limit_keeps_all(w: &mut World<impl Fresh>) {
    let elsewhere = sent(w, Draft { queue: queue("mail", "x"), ..draft() });
    let dead = failed(w, draft());
    let gone = sent(w, draft());
    w.pass(DAY + DAY);
    let rules = crm(Kept { sent: Keep::For(DAY), ..Kept::default() });
    assert_eq!(prune(w, &rules), 1);
    assert!(is_there(w, elsewhere) && is_there(w, dead) && !is_there(w, gone));
}

// REQ AU-2: the last 100 and the last 50, as an option
fn the_last_ones_of_each_tenant_channel_and_state_stay(w: &mut World<impl Fresh>) {
    let mut mine = Vec::new();
    for _ in 0..5 {
        mine.push(sent(w, draft()));
        w.pass(secs(1));
    }
    let dead: Vec<_> = (0..3).map(|_| failed(w, draft())).collect();
    let others = w.accept(of("acme"));
    let claimed = w.claim(10).pop().unwrap();
    w.settle(&claimed, End::Sent);
    let rules = crm(Kept { sent: Keep::Last(2), failed: Keep::Last(2), ..Kept::default() });
    assert_eq!(prune(w, &rules), 0, "what has only just ended is still told of");
    w.pass(mins(60));
    assert_eq!(prune(w, &rules), 4);
    let there: Vec<bool> = mine.iter().chain(&dead).map(|id| is_there(w, *id)).collect();
    assert_eq!(there, [false, false, false, true, true, false, true, true]);
    assert!(w.read().story(&"acme".parse().unwrap(), others).unwrap().is_some());
    assert_eq!(prune(w, &rules), 0);
}

// promise: nothing of it stays but the audit
fn nothing_is_known_any_more_of_a_message_that_went(w: &mut World<impl Fresh>) {
    let body = Body { to: "someone".into(), reference: Some("r1".into()), ..Body::default() };
    let id = failed(w, Draft { body, expires_at: Some(START + DAY), ..draft() });
    let change = edit_of(w, id);
    assert_eq!(edit(w, &change), Edited::Done { version: 2 });
    again(w, id);
    let claimed = w.claim_one();
    w.settle(&claimed, End::Sent);
    let (crm_name, now) = ("crm".parse().unwrap(), w.now);
    let report = Report { provider_id: "re_1".into(), delivery: Delivery::Delivered, detail: None, at: None };
    assert!(matches!(w.core.report(&crm_name, &report, now).unwrap(), Reported::Moved { .. }));
    w.commit();
    let before = w.audit();
    w.pass(DAY);
    assert_eq!(prune(w, &a_day()), 1);
    assert!(!is_there(w, id));
    assert_eq!(w.read().revisions(&Tenant::default(), id).unwrap(), []);
    assert_eq!(w.read().lines(&[id]).unwrap(), []);
    for filter in [
        Filter::default(),
        Filter { recipient: Some(change.body.to.clone()), ..Filter::default() },
        Filter { reference: Some("r1".into()), ..Filter::default() },
        Filter { state: Some(StateName::Sent), ..Filter::default() },
    ] {
        assert_eq!(w.listed(&filter), []);
    }
    let read = Report { delivery: Delivery::Read, ..report };
    assert_eq!(w.core.report(&crm_name, &read, w.now).unwrap(), Reported::Unknown);
    assert_eq!(w.cancel(id), Cancelled::NotFound);
    assert_eq!(rule(w, Act::Reprocess, &[id]), [Ruled::NotFound]);
    assert_eq!(w.audit()[..before.len()], before, "the audit stays as it was");
    assert_eq!(w.read().verify().unwrap().broken, None);
    w.reopen();
    assert!(!is_there(w, id));
    assert_ne!(w.accept(draft()), id);
}

fn those_that_went_are_not_found_by_recipient_whenever_they_came(w: &mut World<impl Fresh>) {
    let ana = || Draft { body: Body { to: "ana".into(), ..Body::default() }, ..draft() };
    sent(w, ana());
    w.accept_all((0..1_100).map(|_| later(DAY + DAY)));
    sent(w, ana());
    let stays = w.accept(Draft { body: ana().body, ..later(DAY + DAY) });
    w.pass(DAY);
    assert_eq!(prune(w, &a_day()), 2);
    let found = |w: &mut World<_>| w.listed(&Filter { recipient: Some("ana".into()), ..Filter::default() });
    assert_eq!(found(w), [stays]);
    w.accept_all((0..1_100).map(|_| later(DAY)));
    assert_eq!(found(w), [stays]);
}

fn an_attachment_goes_with_the_last_message_that_has_it(w: &mut World<impl Fresh>) {
    let [own, shared] = [&b"own"[..], b"shared"].map(Blob::of);
    sent(w, Draft { blobs: vec![own.clone(), shared.clone()], ..draft() });
    let other = Draft { queue: queue("mail", "x"), blobs: vec![shared.clone()], ..draft() };
    sent(w, other);
    w.pass(DAY);
    assert_eq!(prune(w, &a_day()), 1);
    assert_eq!(w.read().blob(own.digest).unwrap(), None);
    assert_eq!(w.read().blob(shared.digest).unwrap().as_deref(), Some(&b"shared"[..]));
    let rules = Rules::from_iter([("mail".parse().unwrap(), Kept::only(Keep::For(DAY), |_| true))]);
    assert_eq!(prune(w, &rules), 1);
    assert_eq!(w.read().blob(shared.digest).unwrap(), None);
    sent(w, Draft { blobs: vec![own.clone()], ..draft() });
    assert!(w.read().blob(own.digest).unwrap().is_some(), "it can come again");
}

fn a_dead_letter_that_goes_leaves_its_group(w: &mut World<impl Fresh>) {
    let old = failed(w, draft());
    w.pass(DAY);
    let new = failed(w, draft());
    assert_eq!(counts(w), [2]);
    assert_eq!(prune(w, &a_day()), 1);
    assert_eq!((counts(w), dead(w)), (vec![1], vec![new]));
    assert_eq!(rule(w, Act::Reprocess, &[old, new]), [Ruled::NotFound, Ruled::Done]);
    assert_eq!(counts(w), [0; 0]);
}

fn a_letter_that_somebody_lets_go_between_the_look_and_the_removal_stays(w: &mut World<impl Fresh>) {
    let [one, two] = [failed(w, draft()), failed(w, draft())];
    w.pass(DAY);
    let prune = step(&a_day(), Walk::default());
    let ripe = look(w, &prune, 10);
    assert_eq!(ripe.keys().count(), 2);
    again(w, one);
    assert_eq!(remove(w, &prune, &ripe).count(), 1);
    assert!(is_there(w, one) && !is_there(w, two));
    let claimed = w.claim_one();
    w.settle(&claimed, End::Failed(FailureReason::PermanentError));
    assert_eq!(remove(w, &prune, &ripe).count(), 0, "it has ended anew");
    assert_eq!(counts(w), [1]);
}

fn a_step_removes_no_more_than_asked_and_the_next_goes_on(w: &mut World<impl Fresh>) {
    let ids: Vec<_> = (0..5).map(|_| sent(w, draft())).collect();
    w.pass(DAY);
    let mut prune = step(&a_day(), Walk::default());
    let mut left = vec![5];
    loop {
        let ripe = look(w, &prune, 2);
        let done = remove(w, &prune, &ripe);
        left.push(ids.iter().filter(|id| is_there(w, **id)).count());
        let Some(next) = done.next else { break };
        prune.walk = next;
    }
    assert_eq!(left, [5, 3, 1, 0]);
}

fn a_step_looks_at_ten_times_as_many_and_no_more(w: &mut World<impl Fresh>) {
    w.accept_all((0..25).map(|_| draft()));
    let mut prune = step(&crm(Kept::only(Keep::Last(0), |_| true)), Walk::default());
    let mut looked = Vec::new();
    loop {
        let ripe = look(w, &prune, 1);
        looked.push(ripe.looked);
        let Some(next) = ripe.next else { break };
        prune.walk = next;
    }
    assert_eq!(looked, [10, 10, 5]);
    let fresh = step(&a_day(), Walk::default());
    assert_eq!(look(w, &fresh, 1).looked, 0, "what is newer than any limit is not even looked at");
}

// REQ AU-1, AU-2
fn a_step_is_on_record_with_counts_by_tenant_and_channel(w: &mut World<impl Fresh>) {
    sent(w, draft());
    sent(w, draft());
    failed(w, draft());
    w.accept(of("acme"));
    let claimed = w.claim(10).pop().unwrap();
    w.settle(&claimed, End::Sent);
    w.pass(DAY);
    assert_eq!(prune(w, &a_day()), 4);
    let records: Vec<_> = w.audit().into_iter().filter(|record| record.event == Event::Pruned).collect();
    let said: Vec<_> =
        records.iter().map(|it| (it.tenant.as_str(), it.channel.as_str(), &*it.detail)).collect();
    assert_eq!(said, [("acme", "crm", r#"{"sent":1}"#), ("default", "crm", r#"{"failed":1,"sent":2}"#)]);
    assert!(records.iter().all(|it| it.message.is_none() && it.actor == "pombo" && it.at == START + DAY));
    let end = w.audit().len();
    assert_eq!(prune(w, &a_day()), 0);
    assert_eq!(w.audit().len(), end, "a step that removes nothing has nothing to say");
}

fn what_would_go_is_told_without_harm(w: &mut World<impl Fresh>) {
    let id = sent(w, draft());
    w.pass(DAY);
    let told = look(w, &step(&a_day(), Walk::default()), 10).told();
    assert_eq!(told.removed, [(("crm".parse().unwrap(), StateName::Sent), 1)].into());
    assert!(is_there(w, id));
}

// REQ ML-10
fn an_idempotency_key_outlasts_its_message_for_three_days_after_the_end(w: &mut World<impl Fresh>) {
    let id = sent(w, once("k", 1));
    w.pass(DAY);
    assert_eq!(prune(w, &a_day()), 1);
    w.now = START + Span::from_millis(KEYS_KEPT.millis() - 1);
    assert_eq!(lapse(w), 0);
    let repeat = w.offer(once("k", 1)).unwrap();
    assert_eq!((repeat.id, repeat.repeat), (id, Repeat::Same));
    assert_eq!(w.offer(once("k", 2)).unwrap_err().first, id);
    w.now = START + KEYS_KEPT;
    assert_eq!(lapse(w), 1);
    assert_ne!(w.accept(once("k", 2)), id);
}

// REQ ML-10
fn an_idempotency_key_goes_three_days_after_the_end_of_a_message_that_stays(w: &mut World<impl Fresh>) {
    let ids = [sent(w, once("a", 1)), cancelled(w, once("b", 1)), discarded(w, once("c", 1))];
    w.now = START + Span::from_millis(KEYS_KEPT.millis() - 1);
    assert_eq!(lapse(w), 0);
    w.now = START + KEYS_KEPT + mins(1);
    assert_eq!(lapse(w), 3);
    assert!(ids.iter().all(|id| is_there(w, *id)));
    w.accept(once("a", 7));
    assert_eq!(prune(w, &a_day()), 3, "and its message goes without it");
}

// REQ ML-10
fn the_key_of_what_waits_or_may_still_be_tried_stays(w: &mut World<impl Fresh>) {
    let waiting = w.accept(Draft { send_at: Some(START + DAY + KEYS_KEPT + KEYS_KEPT), ..once("a", 1) });
    let dead = failed(w, once("b", 1));
    w.now = START + KEYS_KEPT + KEYS_KEPT;
    assert_eq!(lapse(w), 0);
    assert_eq!(w.offer(once("a", 1)).unwrap().id, waiting);
    assert_eq!(w.offer(once("b", 1)).unwrap().id, dead);
    assert_eq!(prune(w, &a_day()), 1);
    w.accept(once("b", 2));
}

fn keys_go_step_by_step(w: &mut World<impl Fresh>) {
    for nth in 0..5 {
        let id = sent(w, once(&format!("k{nth}"), 1));
        if nth == 2 {
            w.accept(Draft { send_at: Some(Time::MAX), ..once("waits", 1) });
        }
        w.pass(secs(1));
        let _ = id;
    }
    w.pass(KEYS_KEPT + mins(1));
    let (mut after, mut steps) = (None, Vec::new());
    loop {
        let Lapsed { removed, next } = w.core.lapse(after, 2, w.now).unwrap();
        w.commit();
        steps.push(removed);
        after = next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(steps.iter().sum::<usize>(), 5, "{steps:?}");
    assert!(steps.iter().all(|step| *step <= 2), "{steps:?}");
}

fn put_campaign(w: &mut World<impl Fresh>, made: &Campaign) {
    let (shelf, id, expect) = (Shelf::Campaign, "cmp_one".to_owned(), Expect::Any);
    let leaf = Some(roster::leaf(made));
    let wish = Shelve { shelf, tenant: Tenant::default(), id, expect, leaf, record: None };
    w.core.shelve(&wish, w.now).unwrap();
    w.commit();
}

fn listed(w: &mut World<impl Fresh>, roster: &Roster) -> Recipient {
    w.read().recipients(roster).unwrap().pop().unwrap()
}

fn whoever_was_on_a_list_stays_there_without_the_message(w: &mut World<impl Fresh>) {
    let text = r#"{"name": "Spring", "channel": "crm", "lane": "default", "template": "spring",
        "template_version": 1, "created_at": "2026-05-01T12:00:00Z", "created_by": "ana", "state": "draft"}"#;
    let (tenant, campaign) = (Tenant::default(), "cmp_one".parse().unwrap());
    let mut made: Campaign = serde_json::from_str(text).unwrap();
    put_campaign(w, &made);
    let (to, key) = ("person".to_owned(), "p1".to_owned());
    let lines = vec![Listed { line: 1, of: Ok(Person { to, key, payload: None }) }];
    let wish = Enlist { tenant: tenant.clone(), campaign, lines, by: by() };
    w.core.enlist(&wish, w.now).unwrap().unwrap();
    w.commit();
    let doc = w.read().doc(Shelf::Campaign, &tenant, "cmp_one").unwrap().unwrap();
    made = roster::read(&doc).unwrap();
    made.start(w.now).unwrap();
    put_campaign(w, &made);
    let queue = QueueName { campaign: Some(wish.campaign.clone()), ..queue("crm", "a") };
    let servings = vec![(1, Serving::Message(Box::new(Draft { queue, ..draft() })))];
    let feed = Feed { tenant: tenant.clone(), campaign: wish.campaign.clone(), servings };
    w.core.feed(&feed, w.now).unwrap().unwrap();
    w.commit();
    let claimed = w.claim_one();
    w.settle(&claimed, End::Sent);
    let roster = Roster { tenant, campaign: wish.campaign, standing: None, after: 0, limit: 10 };
    assert_eq!(listed(w, &roster).message, Some(claimed.message.id));
    w.pass(DAY);
    assert_eq!(prune(w, &a_day()), 1);
    assert_eq!((listed(w, &roster).standing, listed(w, &roster).message), (Standing::Sent, None));
}

fn a_removal_that_was_not_committed_did_not_happen(w: &mut World<impl Fresh>) {
    let id = failed(w, draft());
    w.pass(DAY);
    let prune = step(&a_day(), Walk::default());
    let ripe = look(w, &prune, 10);
    assert_eq!(w.core.prune(&prune, &ripe, w.now).unwrap().count(), 1);
    w.reopen();
    assert!(is_there(w, id));
    assert_eq!(counts(w), [1]);
}

fn a_report_on_what_stays_is_found_after_newer_messages_went(w: &mut World<impl Fresh>) {
    let stays = sent(w, Draft { queue: queue("mail", "x"), ..draft() });
    sent(w, draft());
    w.pass(DAY);
    assert_eq!(prune(w, &a_day()), 1);
    w.reopen();
    let report = Report { provider_id: "re_1".into(), delivery: Delivery::Read, detail: None, at: None };
    let told = w.core.report(&"mail".parse().unwrap(), &report, w.now).unwrap();
    assert_eq!(told, Reported::Moved { id: stays, from: None, to: Delivery::Read });
    w.commit();
}
