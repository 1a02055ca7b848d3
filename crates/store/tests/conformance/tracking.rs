//! The records of one message, however many there are of others.

use pombo_kernel::classify::Scope;
use pombo_kernel::delivery::{Delivery, Report};
use pombo_kernel::id::MessageId;
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::FailureReason;
use pombo_kernel::name::Tenant;
use pombo_kernel::reply::Receipt;
use pombo_store::audit::{Event, Record};
use pombo_store::core::Reading;
use pombo_store::dead::{Edited, Hastened};
use pombo_store::{Claimed, Reported, Settled};

use crate::dead::{again, edit, edit_of, hasten};
use crate::world::*;

on_every_store! {
    a_message_is_found_among_very_many_records_of_others,
    a_message_that_is_being_sent_is_found_with_its_claim,
    of_few_records_none_is_missed,
    whoever_has_no_such_message_is_told_so,
}

/// Others are accepted for as many seconds, two hundred at a time.
fn busy(w: &mut World<impl Fresh>, seconds: usize) {
    for _ in 0..seconds {
        w.pass(secs(1));
        w.accept_all((0..200).map(|_| on_lane("aside")));
    }
    w.pass(secs(1));
}

/// More records than one page of the API looks at.
const MANY: usize = 52;
/// More than are looked at without asking where.
const SOME: usize = 22;

/// What there is of a message, by looking at everything.
fn by_scan(w: &mut World<impl Fresh>, id: MessageId) -> Vec<(u64, Record)> {
    let all = w.read().audit(0, usize::MAX).unwrap();
    all.into_iter().rev().filter(|(_, record)| record.message == Some(id)).collect()
}

fn by_pages(w: &mut World<impl Fresh>, id: MessageId, size: usize) -> Vec<(u64, Record)> {
    let (mut all, mut before) = (Vec::new(), u64::MAX);
    loop {
        let page = w.read().audit_of(&Tenant::default(), id, before, size).unwrap().unwrap();
        assert!(page.len() <= size);
        let Some((last, _)) = page.last() else { return all };
        before = *last;
        all.extend(page);
    }
}

/// It is found as if everything were looked at, in pages of any size.
fn is_found(w: &mut World<impl Fresh>, id: MessageId) -> Vec<Event> {
    let expected = by_scan(w, id);
    for size in [1, 2, 3, 1_000] {
        assert_eq!(by_pages(w, id, size), expected, "by {size}");
    }
    expected.iter().rev().map(|(_, record)| record.event).collect()
}

fn report(w: &mut World<impl Fresh>, delivery: Delivery) {
    let report = Report { provider_id: "re_7".into(), delivery, detail: None, at: None };
    let answer = w.core.report(&"crm".parse().unwrap(), &report, w.now).unwrap();
    w.commit();
    assert!(matches!(answer, Reported::Moved { .. }));
}

fn send(w: &mut World<impl Fresh>, claimed: &Claimed) {
    let mut done = settlement(claimed, End::Sent, w.now);
    done.next = Next::Sent(Receipt { provider_id: Some("re_7".into()), ..Receipt::default() });
    assert_eq!(w.settle_with(done), Settled::Done);
}

// REQ AU-1
fn a_message_is_found_among_very_many_records_of_others(w: &mut World<impl Fresh>) {
    busy(w, 2);
    let id = w.accept(later(mins(600)));
    busy(w, MANY);
    assert_eq!(hasten(w, id), Hastened::Done);
    busy(w, SOME);
    let claimed = w.claim_one();
    busy(w, MANY);
    w.settle(&claimed, End::Retry(mins(60)));
    busy(w, SOME);
    w.pass(mins(60));
    w.claim_one();
    busy(w, SOME);
    let taken = w.take_over(TWO, 10);
    busy(w, SOME);
    w.settle(&taken[0], End::Failed(FailureReason::PermanentError));
    busy(w, SOME);
    let put_right = edit_of(w, id);
    assert_eq!(edit(w, &put_right), Edited::Done { version: 2 });
    busy(w, SOME);
    again(w, id);
    let claimed = w.claim_one();
    w.release(claimed.key);
    busy(w, SOME);
    let claimed = w.claim_one();
    busy(w, MANY);
    send(w, &claimed);
    busy(w, SOME);
    report(w, Delivery::Delivered);
    busy(w, SOME);
    report(w, Delivery::Read);
    busy(w, MANY);
    let expected = [
        Event::Accepted,
        Event::Hastened,
        Event::Claimed,
        Event::RetryScheduled,
        Event::Claimed,
        Event::TakenOver,
        Event::Failed,
        Event::Edited,
        Event::Reprocessed,
        Event::Claimed,
        Event::Released,
        Event::Claimed,
        Event::Sent,
        Event::Delivery,
        Event::Delivery,
    ];
    assert_eq!(is_found(w, id), expected);
    assert_eq!(w.read().audit_of(&"acme".parse().unwrap(), id, u64::MAX, 100).unwrap(), None);
}

// REQ AU-1
fn a_message_that_is_being_sent_is_found_with_its_claim(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    busy(w, SOME);
    let claimed = w.claim_one();
    busy(w, SOME);
    assert_eq!(is_found(w, id), [Event::Accepted, Event::Claimed]);
    w.settle(&claimed, End::Retry(mins(60)));
    busy(w, SOME);
    assert_eq!(is_found(w, id), [Event::Accepted, Event::Claimed, Event::RetryScheduled]);
}

// REQ AU-1
fn of_few_records_none_is_missed(w: &mut World<impl Fresh>) {
    let sent = w.through(draft(), End::Sent);
    let held = w.through(to("held"), End::Held(Scope::Destination));
    let waiting = w.accept_all([later(mins(30)), later(mins(30)), until(mins(1))]);
    w.cancel(waiting[0]);
    hasten(w, waiting[1]);
    for _ in 0..3 {
        let claimed = w.claim(1).remove(0);
        w.release(claimed.key);
    }
    w.pass(mins(2));
    w.expire(10);
    // Several of its records in one block.
    let now = w.now;
    let id = w.core.accept(on_lane("soon"), now).unwrap().unwrap().id;
    w.claim_uncommitted(ONE, "soon", 1);
    w.commit();
    use Event::*;
    assert_eq!(is_found(w, sent), [Accepted, Claimed, Sent]);
    assert_eq!(is_found(w, held), [Accepted, Claimed, Held]);
    assert_eq!(is_found(w, waiting[0]), [Accepted, Cancelled]);
    assert_eq!(is_found(w, waiting[2])[..1], [Accepted]);
    assert_eq!(is_found(w, waiting[2]).last(), Some(&Expired));
    assert_eq!(is_found(w, waiting[1])[..2], [Accepted, Hastened]);
    assert_eq!(is_found(w, id), [Accepted, Claimed]);
    assert_eq!(w.read().audit_of(&Tenant::default(), id, 0, 10).unwrap(), Some(Vec::new()));
    assert_eq!(w.read().audit_of(&Tenant::default(), id, u64::MAX, 0).unwrap(), Some(Vec::new()));
}

// REQ SE-1
fn whoever_has_no_such_message_is_told_so(w: &mut World<impl Fresh>) {
    let own = w.accept(draft());
    let foreign = w.accept(of("acme"));
    let unknown = MessageId::new(own.key(), own.nonce() ^ 1);
    let acme: Tenant = "acme".parse().unwrap();
    let mut found =
        |tenant: &Tenant, id| w.read().audit_of(tenant, id, u64::MAX, 10).unwrap().map(|it| it.len());
    assert_eq!(found(&Tenant::default(), own), Some(1));
    assert_eq!(found(&acme, foreign), Some(1));
    assert_eq!(found(&acme, own), None);
    assert_eq!(found(&Tenant::default(), foreign), None);
    assert_eq!(found(&Tenant::default(), unknown), None);
}
