//! Pages: newest first, every filter, and a cursor that never loses or repeats a message.

use pombo_kernel::classify::Scope;
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Body, Draft, FailureReason, QueueName, StateName};
use pombo_kernel::name::Tenant;
use pombo_store::core::Reading;
use pombo_store::{Filter, PAGE_SCAN};

use crate::world::*;

on_every_store! { personal:
    the_newest_come_first,
    an_empty_store_has_an_empty_page,
    a_cursor_walks_through_everything_once,
    a_cursor_is_not_disturbed_by_what_comes_later,
    the_last_page_has_no_next,
    by_state,
    by_channel,
    by_lane,
    by_type,
    by_template,
    by_campaign,
    by_recipient_exactly,
    those_for_a_recipient_are_found_among_thousands_whenever_they_came,
    by_reference,
    by_category_of_the_last_failure,
    by_time_of_acceptance,
    filters_must_all_match,
    filters_work_with_a_cursor,
    by_tenant_always,
    a_search_by_recipient_or_reference_stays_within_the_tenant,
    dead_letters_of_another_tenant_are_not_listed,
    a_line_shows_state_progress_and_the_last_failure,
    a_needle_in_a_large_haystack_is_found,
    what_is_underway_is_what_is_being_sent_and_then_what_has_waited_longest,
    what_is_underway_is_found_behind_however_much_that_is_not,
}

fn check(w: &mut World<impl Fresh>, filter: &Filter, expected: &[MessageId]) {
    for limit in [1, 2, 100] {
        let found: Vec<_> = w.list(filter, limit).iter().map(|line| line.message.id).collect();
        assert_eq!(found, expected, "limit {limit}");
    }
}

fn with(body: Body) -> Draft {
    Draft { body: Body { to: "someone".into(), ..body }, ..draft() }
}

fn the_newest_come_first(w: &mut World<impl Fresh>) {
    let mut ids = w.accept_all((0..5).map(|_| draft()));
    w.pass(secs(1));
    ids.push(w.accept(draft()));
    ids.reverse();
    check(w, &Filter::default(), &ids);
}

fn an_empty_store_has_an_empty_page(w: &mut World<impl Fresh>) {
    let page = w.read().page(&Filter::default(), None, 10).unwrap();
    assert_eq!((page.lines, page.next), (vec![], None));
}

fn a_cursor_walks_through_everything_once(w: &mut World<impl Fresh>) {
    let mut ids = w.accept_all((0..137).map(|_| draft()));
    ids.reverse();
    for limit in [1, 10, 50, 136, 137, 138] {
        let found: Vec<_> = w.list(&Filter::default(), limit).iter().map(|line| line.message.id).collect();
        assert_eq!(found, ids, "limit {limit}");
    }
}

fn a_cursor_is_not_disturbed_by_what_comes_later(w: &mut World<impl Fresh>) {
    let ids = w.accept_all((0..4).map(|_| draft()));
    let page = w.read().page(&Filter::default(), None, 2).unwrap();
    w.accept(draft());
    let rest = w.read().page(&Filter::default(), page.next, 10).unwrap();
    let rest: Vec<_> = rest.lines.iter().map(|line| line.message.id).collect();
    assert_eq!(rest, [ids[1], ids[0]]);
}

fn the_last_page_has_no_next(w: &mut World<impl Fresh>) {
    w.accept_all((0..3).map(|_| draft()));
    assert_eq!(w.read().page(&Filter::default(), None, 10).unwrap().next, None);
    let first = w.read().page(&Filter::default(), None, 2).unwrap();
    assert!(first.next.is_some());
    assert_eq!(w.read().page(&Filter::default(), first.next, 2).unwrap().next, None);
}

// REQ DL-1
fn by_state(w: &mut World<impl Fresh>) {
    let sent = w.through(draft(), End::Sent);
    let failed = w.through(draft(), End::Failed(FailureReason::PermanentError));
    let cancelled = w.accept(draft());
    w.cancel(cancelled);
    let sending = w.accept(draft());
    w.claim(1);
    let expired = w.accept(until(mins(1)));
    w.pass(mins(1));
    w.expire(1);
    let waiting = w.accept(draft());
    let of = |state| Filter { state: Some(state), ..Filter::default() };
    check(w, &of(StateName::Pending), &[waiting]);
    check(w, &of(StateName::Sending), &[sending]);
    check(w, &of(StateName::Sent), &[sent]);
    check(w, &of(StateName::Failed), &[expired, failed]);
    check(w, &of(StateName::Cancelled), &[cancelled]);
    check(w, &of(StateName::Discarded), &[]);
}

fn by_channel(w: &mut World<impl Fresh>) {
    let mail = w.accept(Draft { queue: queue("mail", "x"), ..draft() });
    w.accept(draft());
    check(w, &Filter { channel: Some("mail".parse().unwrap()), ..Filter::default() }, &[mail]);
    check(w, &Filter { channel: Some("none".parse().unwrap()), ..Filter::default() }, &[]);
}

fn by_lane(w: &mut World<impl Fresh>) {
    let bulk = w.accept(on_lane("bulk"));
    w.accept(draft());
    check(w, &Filter { lane: Some("bulk".parse().unwrap()), ..Filter::default() }, &[bulk]);
}

fn by_type(w: &mut World<impl Fresh>) {
    let one = w.accept(with(Body { kind: Some("invoice".into()), ..Body::default() }));
    w.accept(with(Body { kind: Some("Invoice".into()), ..Body::default() }));
    w.accept(draft());
    check(w, &Filter { kind: Some("invoice".into()), ..Filter::default() }, &[one]);
}

fn by_template(w: &mut World<impl Fresh>) {
    let one = w.accept(with(Body { template: Some("welcome".into()), ..Body::default() }));
    w.accept(with(Body { template: Some("goodbye".into()), ..Body::default() }));
    w.accept(draft());
    check(w, &Filter { template: Some("welcome".into()), ..Filter::default() }, &[one]);
}

// REQ BK-7
fn by_campaign(w: &mut World<impl Fresh>) {
    let queue = |name: &str| QueueName { campaign: Some(name.parse().unwrap()), ..draft().queue };
    let one = w.accept(Draft { queue: queue("spring"), ..draft() });
    w.accept(Draft { queue: queue("autumn"), ..draft() });
    w.accept(draft());
    check(w, &Filter { campaign: Some("spring".parse().unwrap()), ..Filter::default() }, &[one]);
}

fn by_recipient_exactly(w: &mut World<impl Fresh>) {
    let to = |to: &str| Draft { body: Body { to: to.into(), ..Body::default() }, ..draft() };
    let ids = w.accept_all(["5511999", "5511999 ", "+5511999", "5511999", "551199"].map(to));
    check(w, &Filter { recipient: Some("5511999".into()), ..Filter::default() }, &[ids[3], ids[0]]);
    check(w, &Filter { recipient: Some("5511".into()), ..Filter::default() }, &[]);
    check(w, &Filter { recipient: Some(String::new()), ..Filter::default() }, &[]);
}

fn those_for_a_recipient_are_found_among_thousands_whenever_they_came(w: &mut World<impl Fresh>) {
    let to = |to: &str| Draft { body: Body { to: to.into(), ..Body::default() }, ..draft() };
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(w.accept(to("ana")));
        w.accept_all((0..900).map(|n| to(&n.to_string())));
        ids.push(w.accept(to("ana")));
    }
    ids.reverse();
    let ana = Filter { recipient: Some("ana".into()), ..Filter::default() };
    check(w, &ana, &ids);
    let seven = Filter { recipient: Some("7".into()), ..Filter::default() };
    assert_eq!(w.listed(&seven).len(), 3);
    w.reopen();
    check(w, &ana, &ids);
    ids.insert(0, w.accept(to("ana")));
    check(w, &ana, &ids);
}

// REQ ML-7
fn by_reference(w: &mut World<impl Fresh>) {
    let with = |reference: &str| with(Body { reference: Some(reference.into()), ..Body::default() });
    let ids = w.accept_all(["inv-1", "inv-10", "INV-1", "inv-1"].map(with));
    w.accept(draft());
    check(w, &Filter { reference: Some("inv-1".into()), ..Filter::default() }, &[ids[3], ids[0]]);
    check(w, &Filter { reference: Some("inv".into()), ..Filter::default() }, &[]);
}

// REQ DL-2
fn by_category_of_the_last_failure(w: &mut World<impl Fresh>) {
    let busy = w.through(draft(), End::Retry(mins(60)));
    let refused = w.through(draft(), End::Failed(FailureReason::PermanentError));
    w.through(draft(), End::Sent);
    let both = w.accept(draft());
    let claimed = w.claim_one();
    w.settle(&claimed, End::Retry(secs(0)));
    let claimed = w.claim_one();
    w.settle(&claimed, End::Failed(FailureReason::PermanentError));
    let of = |category: &str| Filter { category: Some(category.into()), ..Filter::default() };
    check(w, &of("busy"), &[busy]);
    check(w, &of("invalid_recipient"), &[both, refused]);
    check(w, &of("bus"), &[]);
}

fn by_time_of_acceptance(w: &mut World<impl Fresh>) {
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(w.accept(draft()));
        w.pass(secs(1));
    }
    let between = |since: Option<u64>, until: Option<u64>| Filter {
        since: since.map(|n| START + secs(n)),
        until: until.map(|n| START + secs(n)),
        ..Filter::default()
    };
    check(w, &between(Some(3), None), &[ids[4], ids[3]]);
    check(w, &between(None, Some(2)), &[ids[1], ids[0]]);
    check(w, &between(Some(1), Some(3)), &[ids[2], ids[1]]);
    check(w, &between(Some(3), Some(3)), &[]);
    check(w, &between(Some(4), Some(1)), &[]);
}

fn filters_must_all_match(w: &mut World<impl Fresh>) {
    let both = Body { kind: Some("a".into()), reference: Some("r".into()), ..Body::default() };
    let one = w.accept(with(both.clone()));
    w.accept(with(Body { kind: Some("a".into()), ..Body::default() }));
    w.accept(with(Body { reference: Some("r".into()), ..Body::default() }));
    w.accept(Draft { queue: queue("mail", "x"), ..with(both) });
    let filter = Filter {
        kind: Some("a".into()),
        reference: Some("r".into()),
        recipient: Some("someone".into()),
        channel: Some("crm".parse().unwrap()),
        state: Some(StateName::Pending),
        since: Some(START),
        until: Some(START + secs(1)),
        ..Filter::default()
    };
    check(w, &filter, &[one]);
}

fn filters_work_with_a_cursor(w: &mut World<impl Fresh>) {
    let mut expected = Vec::new();
    for n in 0..60 {
        let id = w.accept(if n % 7 == 0 { on_lane("bulk") } else { draft() });
        if n % 7 == 0 {
            expected.insert(0, id);
        }
    }
    check(w, &Filter { lane: Some("bulk".parse().unwrap()), ..Filter::default() }, &expected);
    for id in &expected[2..5] {
        w.cancel(*id);
    }
    check(w, &Filter { state: Some(StateName::Cancelled), ..Filter::default() }, &expected[2..5]);
}

// invariant 14
fn by_tenant_always(w: &mut World<impl Fresh>) {
    let ours = w.accept_all([draft(), draft()]);
    let theirs = w.accept_all([of("acme"), of("acme"), of("acme")]);
    check(w, &Filter::default(), &[ours[1], ours[0]]);
    check(
        w,
        &Filter { tenant: "acme".parse().unwrap(), ..Filter::default() },
        &[theirs[2], theirs[1], theirs[0]],
    );
    check(w, &Filter { tenant: "nobody".parse().unwrap(), ..Filter::default() }, &[]);
}

// invariant 14
fn a_search_by_recipient_or_reference_stays_within_the_tenant(w: &mut World<impl Fresh>) {
    let body = Body { to: "x".into(), reference: Some("r".into()), ..Body::default() };
    w.accept(Draft { body: body.clone(), ..of("acme") });
    let ours = w.accept(Draft { body, ..draft() });
    check(w, &Filter { recipient: Some("x".into()), ..Filter::default() }, &[ours]);
    check(w, &Filter { reference: Some("r".into()), ..Filter::default() }, &[ours]);
}

// invariant 14
fn dead_letters_of_another_tenant_are_not_listed(w: &mut World<impl Fresh>) {
    w.through(of("acme"), End::Failed(FailureReason::PermanentError));
    let ours = w.through(draft(), End::Failed(FailureReason::PermanentError));
    check(w, &Filter { state: Some(StateName::Failed), ..Filter::default() }, &[ours]);
}

// REQ DL-1
fn a_line_shows_state_progress_and_the_last_failure(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let claimed = w.claim_one();
    w.pass(secs(2));
    w.settle(&claimed, End::Held(Scope::Destination));
    w.unblock(&destination("crm", "crm.example"));
    let claimed = w.claim_one();
    w.pass(secs(2));
    w.settle(&claimed, End::Retry(secs(0)));
    let check = |w: &mut World<_>| {
        let story = w.story(id);
        let line = w.list(&Filter::default(), 10).remove(0);
        assert_eq!((&line.message, &line.state), (&story.message, &story.state));
        assert_eq!((line.progress, line.updated_at), (story.progress, story.updated_at));
        assert_eq!(line.last_failure.map(|failure| failure.category).as_deref(), Some("busy"));
    };
    check(w);
    let claimed = w.claim_one();
    check(w);
    w.pass(secs(2));
    w.settle(&claimed, End::Sent);
    check(w);
}

fn a_needle_in_a_large_haystack_is_found(w: &mut World<impl Fresh>) {
    let needle = w.accept(with(Body { template: Some("needle".into()), ..Body::default() }));
    w.accept_all((0..PAGE_SCAN + 10).map(|_| draft()));
    let filter = Filter { template: Some("needle".into()), ..Filter::default() };
    let page = w.read().page(&filter, None, 10).unwrap();
    assert_eq!(page.lines, []);
    assert!(page.next.is_some());
    assert_eq!(w.listed(&filter), [needle]);
}

fn underway(w: &mut World<impl Fresh>, channels: &[&str], limit: usize) -> Vec<MessageId> {
    let within: Vec<_> = channels.iter().map(|name| name.parse().unwrap()).collect();
    let now = w.now;
    let lines = w.read().underway(&Tenant::default(), &within, now, limit).unwrap();
    lines.iter().map(|line| line.message.id).collect()
}

// REQ IN-3
fn what_is_underway_is_what_is_being_sent_and_then_what_has_waited_longest(w: &mut World<impl Fresh>) {
    let tried = w.accept(to("a.example"));
    let claimed = w.claim_one();
    w.settle(&claimed, End::Retry(mins(2)));
    let low = w.accept(Draft { queue: queue("mail", "x.example"), ..urgent(0) });
    w.accept(Draft { queue: queue("other", "x.example"), ..draft() });
    w.accept(of("somebody"));
    w.accept(later(mins(30)));
    let first = w.accept(in_order("k"));
    w.accept(in_order("k"));
    w.pass(mins(1));
    let urgent = w.accept(urgent(9));
    assert_eq!(
        underway(w, &["crm", "mail"], 10),
        [low, first, urgent],
        "each by its time, whatever its priority"
    );
    assert_eq!(underway(w, &["mail"], 10), [low]);
    let sending = w.claim(3);
    let mut sending: Vec<_> = sending
        .iter()
        .filter(|it| it.message.queue.tenant == Tenant::default())
        .map(|it| it.message.id)
        .collect();
    sending.retain(|id| [low, first, urgent].contains(id));
    sending.sort_unstable();
    assert!(!sending.is_empty());
    let waiting = [low, first, urgent].into_iter().filter(|id| !sending.contains(id));
    let mut expected: Vec<_> = sending.iter().copied().chain(waiting).collect();
    assert_eq!(underway(w, &["crm", "mail"], 10), expected);
    w.pass(mins(1));
    expected.push(tried);
    assert_eq!(underway(w, &["crm", "mail"], 10), expected, "it has waited least");
    assert_eq!(underway(w, &["crm", "mail"], 2), expected[..2]);
    assert_eq!(underway(w, &[], 10), []);
}

// REQ IN-3
fn what_is_underway_is_found_behind_however_much_that_is_not(w: &mut World<impl Fresh>) {
    let rest = PAGE_SCAN + 100;
    let oldest = w.accept(Draft { queue: queue("mail", "x.example"), ..draft() });
    w.pass(secs(1));
    let next = w.accept(Draft { queue: queue("mail", "y.example"), ..urgent(9) });
    w.accept_all((0..rest).map(|_| draft()));
    w.accept_all((0..rest).map(|_| Draft { queue: queue("mail", "x.example"), ..later(mins(9)) }));
    assert_eq!(underway(w, &["mail"], 10), [oldest, next]);
}
