//! Accepting: durable, idempotent, and exactly what was given.

use pombo_kernel::message::{Body, Draft, Json, Priority, QueueName, State, StateName};
use pombo_kernel::policy::Overrides;
use pombo_kernel::time::{Span, Time};
use pombo_store::core::Reading;
use pombo_store::{Accepted, Conflict, Counted, Filter, Repeat};

use crate::world::*;

on_every_store! { personal:
    an_accepted_message_is_pending_and_due_at_once,
    a_message_may_be_given_a_time,
    a_time_in_the_past_means_now,
    the_same_key_and_request_are_one_message,
    another_request_under_the_same_key_is_a_conflict,
    a_conflict_and_a_repeat_leave_no_trace,
    a_key_is_known_within_the_same_commit,
    a_repeat_finds_a_finished_message,
    tenants_do_not_share_keys,
    a_repeat_is_known_before_it_is_offered_again,
    keys_are_compared_byte_by_byte,
    a_hundred_duplicates_are_one_row,
    without_a_key_nothing_is_a_duplicate,
    ids_rise_in_the_order_of_acceptance,
    ids_rise_when_the_clock_steps_back,
    every_field_comes_back_as_it_was_given,
    json_keeps_its_text,
    nothing_is_seen_before_the_commit,
    other_tenants_see_nothing,
    an_id_with_another_tail_is_not_found,
}

// REQ ML-1, ML-2
fn an_accepted_message_is_pending_and_due_at_once(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let story = w.story(id);
    assert_eq!(story.state, State::Pending { due: START });
    assert_eq!((story.progress, story.updated_at), (Default::default(), START));
    assert_eq!((story.attempts, story.message.created_at()), (Vec::new(), START));
}

// REQ ML-6
fn a_message_may_be_given_a_time(w: &mut World<impl Fresh>) {
    let id = w.accept(later(mins(5)));
    assert_eq!(w.state(id), State::Pending { due: START + mins(5) });
}

// REQ ML-6
fn a_time_in_the_past_means_now(w: &mut World<impl Fresh>) {
    let past = START - mins(5);
    let id = w.accept(Draft { send_at: Some(past), ..draft() });
    let story = w.story(id);
    assert_eq!(story.state, State::Pending { due: START });
    assert_eq!(story.message.send_at, Some(past));
}

// REQ ML-3, invariant 10
fn the_same_key_and_request_are_one_message(w: &mut World<impl Fresh>) {
    let first = w.accept(once("order-1", 1));
    w.pass(mins(1));
    assert_eq!(w.offer(once("order-1", 1)), Ok(Accepted { id: first, repeat: Repeat::Same }));
    assert_eq!(w.listed(&Filter::default()), [first]);
}

// REQ ML-3
fn another_request_under_the_same_key_is_a_conflict(w: &mut World<impl Fresh>) {
    let first = w.accept(once("order-1", 1));
    assert_eq!(w.offer(once("order-1", 2)), Err(Conflict { first }));
    assert_eq!(w.offer(once("order-1", 1)), Ok(Accepted { id: first, repeat: Repeat::Same }));
}

// REQ ML-3, invariant 12
fn a_conflict_and_a_repeat_leave_no_trace(w: &mut World<impl Fresh>) {
    w.accept(once("order-1", 1));
    let before = (w.audit(), w.tally(Counted::Accepted));
    w.offer(once("order-1", 1)).unwrap();
    w.offer(Draft { queue: queue("other", "elsewhere"), ..once("order-1", 2) }).unwrap_err();
    assert_eq!((w.audit(), w.tally(Counted::Accepted)), before);
}

// REQ ML-3
fn a_key_is_known_within_the_same_commit(w: &mut World<impl Fresh>) {
    let first = w.core.accept(once("order-1", 1), START).unwrap().unwrap();
    let again = w.core.accept(once("order-1", 1), START).unwrap().unwrap();
    let other = w.core.accept(once("order-1", 2), START).unwrap();
    assert_eq!(again, Accepted { repeat: Repeat::Same, ..first });
    assert_eq!(other, Err(Conflict { first: first.id }));
}

// REQ ML-3
fn a_repeat_finds_a_finished_message(w: &mut World<impl Fresh>) {
    let first = w.through(once("order-1", 1), End::Sent);
    assert_eq!(w.offer(once("order-1", 1)), Ok(Accepted { id: first, repeat: Repeat::Same }));
    w.is(first, StateName::Sent);
}

// invariants 10 and 14
fn tenants_do_not_share_keys(w: &mut World<impl Fresh>) {
    let ours = w.accept(once("order-1", 1));
    let theirs = w.accept(Draft { queue: of("acme").queue, ..once("order-1", 2) });
    assert_ne!(ours, theirs);
}

// REQ ML-3
fn a_repeat_is_known_before_it_is_offered_again(w: &mut World<impl Fresh>) {
    let id = w.accept(once("order-1", 1));
    let mut first = |tenant: &str, draft: Draft| {
        w.read().first(&of(tenant).queue.tenant, &draft.idempotency.unwrap()).unwrap()
    };
    let own = draft().queue.tenant;
    assert_eq!(first(own.as_str(), once("order-1", 1)), Some(id));
    assert_eq!(first(own.as_str(), once("order-1", 2)), None, "another request");
    assert_eq!(first(own.as_str(), once("order-2", 1)), None);
    assert_eq!(first("acme", once("order-1", 1)), None);
}

// REQ ML-3
fn keys_are_compared_byte_by_byte(w: &mut World<impl Fresh>) {
    let keys = ["a", "A", "a ", " a", "a\0", "a\0b", "", "\u{e1}", "a\u{301}", "1", "1.0", "01"];
    let ids: Vec<_> = keys.iter().map(|key| w.accept(once(key, 1))).collect();
    for (key, id) in keys.iter().zip(ids) {
        assert_eq!(w.offer(once(key, 1)), Ok(Accepted { id, repeat: Repeat::Same }), "{key:?}");
    }
}

// REQ ML-3, fault 53
fn a_hundred_duplicates_are_one_row(w: &mut World<impl Fresh>) {
    let first = w.accept(once("order-1", 1));
    for n in 0..100 {
        let answer = w.offer(once("order-1", if n % 10 == 0 { 9 } else { 1 }));
        match answer {
            Ok(accepted) => assert_eq!(accepted, Accepted { id: first, repeat: Repeat::Same }),
            Err(conflict) => assert_eq!((conflict.first, n % 10), (first, 0)),
        }
    }
    assert_eq!(w.listed(&Filter::default()), [first]);
    assert_eq!((w.tally(Counted::Accepted), w.claim(100).len()), (1, 1));
}

fn without_a_key_nothing_is_a_duplicate(w: &mut World<impl Fresh>) {
    let ids = w.accept_all([draft(), draft(), draft()]);
    assert_eq!(w.claimed_ids(10), ids);
}

fn ids_rise_in_the_order_of_acceptance(w: &mut World<impl Fresh>) {
    let ids = w.accept_all((0..50).map(|_| draft()));
    assert!(ids.is_sorted_by(|one, next| one < next && one.key() < next.key()));
}

// fault 15
fn ids_rise_when_the_clock_steps_back(w: &mut World<impl Fresh>) {
    let first = w.accept(draft());
    w.now = START - mins(60);
    let second = w.accept(draft());
    assert!(second > first);
    assert_eq!(w.state(second), State::Pending { due: START - mins(60) });
}

// REQ ML-1
fn every_field_comes_back_as_it_was_given(w: &mut World<impl Fresh>) {
    let given = Draft {
        id: None,
        queue: QueueName {
            tenant: "acme".parse().unwrap(),
            lane: "bulk".parse().unwrap(),
            channel: "mail".parse().unwrap(),
            destination: "relay.example:587".into(),
            campaign: Some("spring".parse().unwrap()),
        },
        priority: Priority::new(7).unwrap(),
        send_at: Some(START + secs(1)),
        expires_at: Some(START + mins(60)),
        ordering_key: Some("patient-9".into()),
        idempotency: None,
        blobs: Vec::new(),
        body: Body {
            to: "ana@example.org".into(),
            kind: Some("invoice".into()),
            content: Some(Json::from_text("{\"text\":\"hi\"}".into()).unwrap()),
            template: Some("welcome".into()),
            template_version: Some(3),
            payload: Some(Json::from_text("[1, 2]".into()).unwrap()),
            reference: Some("inv-77".into()),
            user_id: Some("u-1".into()),
            metadata: Some(Json::from_text("{}".into()).unwrap()),
            retry: Some(Overrides {
                attempts: Some(2),
                base: Some(Span::from_secs(3)),
                ..Overrides::default()
            }),
            trace: None,
        },
    };
    let id = w.accept(given.clone());
    let check = |message: &pombo_kernel::message::Message| {
        assert_eq!(*message.queue, given.queue);
        assert_eq!((message.priority, message.send_at), (given.priority, given.send_at));
        assert_eq!((message.expires_at, &message.ordering_key), (given.expires_at, &given.ordering_key));
        assert_eq!((message.id, &message.body), (id, &given.body));
    };
    check(&w.read().story(&given.queue.tenant, id).unwrap().unwrap().message);
    check(&w.list(&Filter { tenant: given.queue.tenant.clone(), ..Filter::default() }, 10)[0].message);
    w.pass(secs(1));
    check(&w.claim_as(ONE, "bulk", 1)[0].message);
}

// fault 27
fn json_keeps_its_text(w: &mut World<impl Fresh>) {
    for text in [
        "null",
        "{ \"b\": 1,\n \"a\": 1.50, \"a\": 2 }",
        "1e400",
        "\"\\u00e9\\u0000\"",
        "  []  ",
        "12345678901234567890123",
    ] {
        let content = Json::from_text(text.into()).unwrap();
        let id =
            w.accept(Draft { body: Body { content: Some(content.clone()), ..Body::default() }, ..draft() });
        assert_eq!(w.story(id).message.body.content, Some(content.clone()), "{text}");
        assert_eq!(w.claim_one().message.body.content, Some(content), "{text}");
    }
}

// invariant 2
fn nothing_is_seen_before_the_commit(w: &mut World<impl Fresh>) {
    let id = w.core.accept(draft(), START).unwrap().unwrap().id;
    assert_eq!(w.read().story(&Default::default(), id).unwrap(), None);
    assert_eq!((w.listed(&Filter::default()), w.audit(), w.tally(Counted::Accepted)), (vec![], vec![], 0));
    w.commit();
    w.is(id, StateName::Pending);
}

// invariant 14
fn other_tenants_see_nothing(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let acme = "acme".parse().unwrap();
    assert_eq!(w.read().story(&acme, id).unwrap(), None);
    assert_eq!(w.listed(&Filter { tenant: acme, ..Filter::default() }), []);
}

fn an_id_with_another_tail_is_not_found(w: &mut World<impl Fresh>) {
    let id = w.accept(draft());
    let other = pombo_kernel::id::MessageId::new(id.key(), id.nonce() ^ 1);
    assert_eq!(w.read().story(&Default::default(), other).unwrap(), None);
    assert_eq!(w.cancel(other), pombo_store::Cancelled::NotFound);
    assert_eq!(w.state(id), State::Pending { due: Time::from_millis(START.millis()) });
}
