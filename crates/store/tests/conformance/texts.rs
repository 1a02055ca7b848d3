//! Texts from outside: whatever they hold, they come back byte for byte and break nothing.

use std::sync::Arc;

use pombo_kernel::block::Block;
use pombo_kernel::classify::Verdict;
use pombo_kernel::dice::Dice;
use pombo_kernel::lifecycle::Next;
use pombo_kernel::message::{Actor, Body, Draft, FailureReason, Json, State};
use pombo_kernel::reply::Receipt;
use pombo_store::core::Reading;
use pombo_store::{Cancelled, Filter, Place};

use crate::world::*;

on_every_store! { personal:
    bodies_of_any_text_come_back,
    any_text_orders_and_deduplicates,
    any_recipient_and_reference_can_be_searched,
    any_destination_is_a_queue_of_its_own,
    what_a_provider_says_comes_back,
    what_an_operator_says_comes_back,
}

fn hostile() -> Vec<String> {
    let mut texts: Vec<String> = [
        "a",
        "\0",
        "a\0b",
        "\u{1}\u{2}\u{7f}\u{85}",
        "line\r\nline\ttab",
        "São João, 東京, Ελλάδα",
        "👩‍👩‍👧‍👦🇧🇷",
        "e\u{301} \u{e9}",
        "\u{202e}backwards\u{feff}",
        "'; DROP TABLE message; --",
        "\"\\/%_*?[]{}",
        "<script>alert(1)</script>",
        "\u{10ffff}\u{fffd}\u{fffe}",
        // What is left of bytes that were no text, a control, the same control as it is escaped, and a NUL.
        "500 \u{fffd}\u{fffd}\u{1b}[31m \\u001b[0m \0 \\u0000",
        " ",
        "null",
        "0",
    ]
    .map(String::from)
    .into();
    texts.push("x".repeat(200_000));
    // Compression makes this no smaller.
    let mut dice = Dice::seeded(3);
    texts.push(
        (0..20_000).filter_map(|_| char::from_u32(u32::try_from(dice.below(0x800)).unwrap())).collect(),
    );
    texts.push("ã\0".repeat(50_000));
    texts
}

// fault 27
fn bodies_of_any_text_come_back(w: &mut World<impl Fresh>) {
    for text in hostile() {
        let some = || Some(text.clone());
        let body = Body {
            to: text.clone(),
            kind: some(),
            content: Some(Json::from_value(&serde_json::json!({ text.as_str(): text }))),
            template: some(),
            template_version: Some(3),
            payload: Some(Json::from_value(&serde_json::json!([text]))),
            reference: some(),
            user_id: some(),
            metadata: Some(Json::from_value(&serde_json::json!(text))),
            retry: None,
            trace: None,
        };
        let id = w.accept(Draft { body: body.clone(), ..draft() });
        assert_eq!(w.story(id).message.body, body);
        assert_eq!(w.claim_one().message.body, body);
    }
    let empty = w.accept(Draft { body: Body::default(), ..draft() });
    assert_eq!(w.story(empty).message.body, Body::default());
}

// fault 27, REQ ML-3
fn any_text_orders_and_deduplicates(w: &mut World<impl Fresh>) {
    for text in hostile() {
        let keyed = Draft { ordering_key: Some(text.clone()), ..once(&text, 1) };
        let first = w.accept(keyed.clone());
        assert_eq!(w.offer(keyed).unwrap().id, first);
        let second = w.accept(in_order(&text));
        let claimed = w.claim_one();
        assert_eq!(claimed.message.ordering_key, Some(text));
        w.settle(&claimed, End::Sent);
        let claimed = w.claim_one();
        assert_eq!(claimed.message.id, second);
        w.settle(&claimed, End::Sent);
    }
}

// fault 27
fn any_recipient_and_reference_can_be_searched(w: &mut World<impl Fresh>) {
    let mut ids = Vec::new();
    for text in hostile() {
        let body = Body { to: text.clone(), reference: Some(text), ..Body::default() };
        ids.push(w.accept(Draft { body, ..draft() }));
    }
    for (text, id) in hostile().into_iter().zip(ids) {
        assert_eq!(w.listed(&Filter { recipient: Some(text.clone()), ..Filter::default() }), [id]);
        assert_eq!(w.listed(&Filter { reference: Some(text), ..Filter::default() }), [id]);
    }
}

// fault 27
fn any_destination_is_a_queue_of_its_own(w: &mut World<impl Fresh>) {
    for text in hostile() {
        let id = w.accept(to(&text));
        let place = Place { channel: "crm".parse().unwrap(), destination: Some(Arc::from(text.as_str())) };
        w.block(&place, by_operator(START));
        assert_eq!(w.claim(10), []);
        assert_eq!(w.blocks(), [(place.clone(), by_operator(START))]);
        w.reopen();
        assert_eq!(w.claim(10), []);
        assert!(w.unblock(&place));
        let claimed = w.claim_one();
        assert_eq!((claimed.message.id, &*claimed.message.queue.destination), (id, text.as_str()));
    }
    assert!(w.read().verify().unwrap().broken.is_none());
}

// fault 27, REQ DL-1
fn what_a_provider_says_comes_back(w: &mut World<impl Fresh>) {
    for text in hostile() {
        let id = w.accept(draft());
        let claimed = w.claim_one();
        let mut failed = settlement(&claimed, End::Retry(secs(0)), w.now);
        let mut failure = failure(Verdict::Transient);
        failure.category = text.clone();
        failure.code = Some(text.clone());
        failure.text = text.clone();
        failure.rule = Some(text.clone());
        failed.attempt.failure = Some(failure.clone());
        failed.attempt.explanation = text.clone();
        w.settle_with(failed);
        let claimed = w.claim_one();
        let receipt = Receipt { provider_id: Some(text.clone()), ..Receipt::default() };
        let sent = settlement(&claimed, End::Sent, w.now);
        w.settle_with(pombo_store::Settlement { next: Next::Sent(receipt.clone()), ..sent });
        let story = w.story(id);
        assert_eq!(story.attempts[0].failure, Some(failure));
        assert_eq!(story.attempts[0].explanation, text);
        assert_eq!(story.state, State::Sent { at: w.now, receipt });
        assert_eq!(w.listed(&Filter { category: Some(text), ..Filter::default() }), [id]);
    }
    assert!(w.read().verify().unwrap().broken.is_none());
}

// fault 27
fn what_an_operator_says_comes_back(w: &mut World<impl Fresh>) {
    for text in hostile() {
        let id = w.accept(draft());
        assert_eq!(w.cancel_as(&Default::default(), id, &text), Cancelled::Done);
        assert_eq!(w.state(id), State::Cancelled { at: w.now, by: Actor(text.clone()) });
        let block = Block::operator(text.clone(), START);
        w.block(&channel("crm"), block.clone());
        assert_eq!(w.blocks(), [(channel("crm"), block)]);
        w.unblock(&channel("crm"));
        let records = w.audit();
        let cancelled =
            records.iter().find(|record| record.message == Some(id) && record.from.is_some()).unwrap();
        assert!(text.starts_with(&cancelled.actor), "a record keeps the start of a name");
        for record in records {
            serde_json::from_str::<serde_json::Value>(&record.detail).unwrap();
        }
    }
    let failed = w.through(draft(), End::Failed(FailureReason::PermanentError));
    assert!(w.story(failed).attempts.len() == 1 && w.read().verify().unwrap().broken.is_none());
}
