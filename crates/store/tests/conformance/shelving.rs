//! Documents beside the messages: whoever changes one says what is expected there, and lists find what they should.

use pombo_kernel::dice::Dice;
use pombo_kernel::message::Actor;
use pombo_kernel::name::Tenant;
use pombo_kernel::time::{Span, Time};
use pombo_store::audit::{Event, Record};
use pombo_store::core::Reading;
use pombo_store::shelf::{Doc, Expect, Leaf, Pick, Shelf, Shelve, Shelved, Wanted};
use pombo_store::transition;

use crate::world::{Fresh, START, World, draft, secs};

on_every_store! { personal:
    a_document_comes_back_as_it_was_put,
    every_expectation_is_held_against_every_state,
    a_conflict_shows_what_is_there,
    versions_count_every_change_and_begin_anew_after_a_removal,
    whoever_reads_and_then_writes_overwrites_nobody,
    changes_of_one_group_see_each_other,
    a_change_that_was_not_committed_was_never_made,
    documents_outlive_a_restart,
    shelves_are_apart,
    other_tenants_documents_are_as_good_as_not_there,
    lists_go_from_the_highest_order_down_and_among_equals_by_id,
    pages_follow_one_another_without_a_gap,
    a_page_begins_after_a_document_that_is_gone,
    topics_list_only_their_own,
    due_documents_come_the_earliest_first_and_within_the_bounds,
    everybodys_documents_are_listed_together,
    a_changed_document_is_found_only_where_it_is_now,
    a_record_goes_to_the_audit_exactly_when_its_change_is_made,
    texts_of_any_kind_come_back_and_keep_their_order,
    long_topics_and_bodies_are_kept,
    ids_of_the_full_length_are_listed_and_paged,
}

fn leaf(body: &str) -> Leaf {
    Leaf { order: 0, topic: None, due: None, body: format!("{body:?}") }
}

fn at(order: i64) -> Leaf {
    Leaf { order, ..leaf("at") }
}

fn about(topic: &str, order: i64) -> Leaf {
    Leaf { topic: Some(topic.into()), ..at(order) }
}

fn due(time: Time) -> Leaf {
    Leaf { due: Some(time), ..leaf("due") }
}

/// A wish of the default tenant's, for its webhooks.
fn wish(id: &str, expect: Expect, leaf: Option<Leaf>) -> Shelve {
    let (shelf, tenant) = (Shelf::Webhook, Tenant::default());
    Shelve { shelf, tenant, id: id.into(), expect, leaf, record: None }
}

fn shelve(w: &mut World<impl Fresh>, wish: &Shelve) -> Shelved {
    let answer = w.core.shelve(wish, w.now).unwrap();
    w.commit();
    answer
}

/// Puts it over whatever there is; the version that it has then.
fn put(w: &mut World<impl Fresh>, id: &str, leaf: Leaf) -> u32 {
    match shelve(w, &wish(id, Expect::Any, Some(leaf))) {
        Shelved::Done { version } => version,
        conflict => panic!("{conflict:?}"),
    }
}

fn put_for(w: &mut World<impl Fresh>, tenant: &str, id: &str, leaf: Leaf) {
    let wish = Shelve { tenant: tenant.parse().unwrap(), ..wish(id, Expect::Nothing, Some(leaf)) };
    assert_eq!(shelve(w, &wish), Shelved::Done { version: 1 });
}

fn read(w: &mut World<impl Fresh>, id: &str) -> Option<Doc> {
    w.read().doc(Shelf::Webhook, &Tenant::default(), id).unwrap()
}

fn docs(w: &mut World<impl Fresh>, tenant: Option<&str>, pick: Pick, limit: usize) -> Vec<Doc> {
    let tenant = tenant.map(|tenant| tenant.parse().unwrap());
    w.read().docs(&Wanted { shelf: Shelf::Webhook, tenant, pick, limit }).unwrap()
}

fn ids(docs: Vec<Doc>) -> Vec<String> {
    docs.into_iter().map(|doc| doc.id).collect()
}

fn listed(w: &mut World<impl Fresh>, pick: Pick) -> Vec<String> {
    ids(docs(w, Some("default"), pick, 1_000))
}

const ALL: Pick = Pick::All { after: None };

fn on(topic: &str) -> Pick {
    Pick::Topic { topic: topic.into(), after: None }
}

/// Due from so many seconds on and before so many.
fn between(from: u64, until: u64) -> Pick {
    Pick::Due { from: START + secs(from), until: START + secs(until), after: None }
}

/// The same list again, page by page.
fn paged(w: &mut World<impl Fresh>, pick: &Pick, limit: usize) -> Vec<String> {
    let mut all = Vec::new();
    let mut next = pick.clone();
    loop {
        let page = docs(w, Some("default"), next.clone(), limit);
        assert!(page.len() <= limit);
        let Some(last) = page.last().cloned() else { return all };
        match &mut next {
            Pick::All { after } | Pick::Topic { after, .. } => *after = Some((last.leaf.order, last.id)),
            Pick::Due { after, .. } => *after = Some((last.leaf.due.unwrap(), last.id)),
        }
        all.extend(ids(page));
    }
}

fn a_document_comes_back_as_it_was_put(w: &mut World<impl Fresh>) {
    let leaf = Leaf { order: -7, topic: Some("crm".into()), due: Some(START), body: r#"{"a":[1]}"#.into() };
    assert_eq!(read(w, "a"), None);
    assert_eq!(put(w, "a", leaf.clone()), 1);
    let doc = |version, leaf| {
        let (tenant, updated_at) = (Tenant::default(), START + secs(u64::from(version) - 1));
        Some(Doc { tenant, id: "a".into(), version, updated_at, leaf })
    };
    assert_eq!(read(w, "a"), doc(1, leaf));
    w.pass(secs(1));
    let bare = Leaf { order: i64::MAX, topic: None, due: None, body: "null".into() };
    assert_eq!(put(w, "a", bare.clone()), 2);
    assert_eq!(read(w, "a"), doc(2, bare));
    assert_eq!(docs(w, Some("default"), ALL, 10), [read(w, "a").unwrap()]);
}

fn every_expectation_is_held_against_every_state(w: &mut World<impl Fresh>) {
    use Expect::{Any, Nothing, Version};
    // What is there, what is expected, and the versions that a put and a removal answer with, if they are made.
    for (n, (version, expect, put_as, removed_as)) in [
        (0, Nothing, Some(1), Some(0)),
        (0, Any, Some(1), Some(0)),
        (0, Version(0), None, None),
        (0, Version(1), None, None),
        (1, Nothing, None, None),
        (1, Any, Some(2), Some(1)),
        (1, Version(0), None, None),
        (1, Version(1), Some(2), Some(1)),
        (1, Version(2), None, None),
        (1, Version(u32::MAX), None, None),
        (3, Nothing, None, None),
        (3, Any, Some(4), Some(3)),
        (3, Version(2), None, None),
        (3, Version(3), Some(4), Some(3)),
        (3, Version(4), None, None),
    ]
    .into_iter()
    .enumerate()
    {
        for (verb, leaf, expected) in [("put", Some(leaf("new")), put_as), ("remove", None, removed_as)] {
            let id = format!("{verb}{n}");
            for _ in 0..version {
                put(w, &id, at(5));
            }
            let before = read(w, &id);
            assert_eq!(before.as_ref().map_or(0, |doc| doc.version), version);
            let answer = shelve(w, &wish(&id, expect, leaf.clone()));
            let what = format!("{verb} at {version}, expecting {expect:?}");
            match expected {
                None => {
                    assert_eq!(answer, Shelved::Conflict(before.clone()), "{what}");
                    assert_eq!(read(w, &id), before, "{what}");
                }
                Some(version) => {
                    assert_eq!(answer, Shelved::Done { version }, "{what}");
                    assert_eq!(read(w, &id).map(|doc| doc.leaf), leaf, "{what}");
                }
            }
        }
    }
}

fn a_conflict_shows_what_is_there(w: &mut World<impl Fresh>) {
    let there = Leaf { order: 9, topic: Some("t\0".into()), due: Some(START), body: "\"\\u0000\"".into() };
    put(w, "a", there);
    let found = read(w, "a");
    assert!(found.is_some());
    for expect in [Expect::Nothing, Expect::Version(7)] {
        for leaf in [Some(leaf("new")), None] {
            assert_eq!(shelve(w, &wish("a", expect, leaf)), Shelved::Conflict(found.clone()));
        }
    }
    let missing = wish("b", Expect::Version(1), Some(leaf("new")));
    assert_eq!(shelve(w, &missing), Shelved::Conflict(None));
}

fn versions_count_every_change_and_begin_anew_after_a_removal(w: &mut World<impl Fresh>) {
    let mut expect = Expect::Nothing;
    for version in 1..=5 {
        // Even if it says the same as before.
        assert_eq!(shelve(w, &wish("a", expect, Some(leaf("same")))), Shelved::Done { version });
        expect = Expect::Version(version);
    }
    assert_eq!(shelve(w, &wish("a", expect, None)), Shelved::Done { version: 5 });
    assert_eq!(shelve(w, &wish("a", Expect::Any, None)), Shelved::Done { version: 0 });
    assert_eq!(shelve(w, &wish("a", expect, None)), Shelved::Conflict(None));
    assert_eq!((read(w, "a"), listed(w, ALL)), (None, vec![]));
    assert_eq!(put(w, "a", leaf("again")), 1);
}

fn whoever_reads_and_then_writes_overwrites_nobody(w: &mut World<impl Fresh>) {
    put(w, "count", leaf("0"));
    // Two read the same and each adds one; the second to write is told, reads again, and adds to what it finds.
    let seen = read(w, "count").unwrap();
    let ana = wish("count", Expect::Version(seen.version), Some(leaf("1 of ana")));
    let rui = wish("count", Expect::Version(seen.version), Some(leaf("1 of rui")));
    assert_eq!(shelve(w, &ana), Shelved::Done { version: 2 });
    let Shelved::Conflict(Some(found)) = shelve(w, &rui) else { panic!("overwritten") };
    assert_eq!((found.leaf, found.version), (leaf("1 of ana"), 2));
    let again = wish("count", Expect::Version(2), Some(leaf("2 of both")));
    assert_eq!(shelve(w, &again), Shelved::Done { version: 3 });
}

fn changes_of_one_group_see_each_other(w: &mut World<impl Fresh>) {
    let now = w.now;
    let answers: Vec<Shelved> = [
        wish("a", Expect::Nothing, Some(at(1))),
        wish("a", Expect::Nothing, Some(at(2))),
        wish("a", Expect::Version(1), Some(at(3))),
        wish("b", Expect::Version(1), Some(at(4))),
        wish("a", Expect::Version(2), None),
        wish("a", Expect::Any, Some(at(5))),
    ]
    .iter()
    .map(|wish| w.core.shelve(wish, now).unwrap())
    .collect();
    w.commit();
    let versions = answers.iter().map(|answer| match answer {
        Shelved::Done { version } => Ok(*version),
        Shelved::Conflict(found) => Err(found.as_ref().map(|found| found.leaf.order)),
    });
    assert_eq!(versions.collect::<Vec<_>>(), [Ok(1), Err(Some(1)), Ok(2), Err(None), Ok(2), Ok(1)]);
    assert_eq!(read(w, "a").unwrap().leaf, at(5));
}

fn a_change_that_was_not_committed_was_never_made(w: &mut World<impl Fresh>) {
    let now = w.now;
    put(w, "kept", at(1));
    put(w, "changed", at(2));
    let before = docs(w, Some("default"), ALL, 10);
    for wish in [
        wish("kept", Expect::Version(1), None),
        wish("changed", Expect::Any, Some(at(9))),
        wish("new", Expect::Nothing, Some(at(3))),
    ] {
        assert!(matches!(w.core.shelve(&wish, now).unwrap(), Shelved::Done { .. }));
    }
    assert_eq!(docs(w, Some("default"), ALL, 10), before, "nobody is told before the commit");
    w.reopen();
    assert_eq!(docs(w, Some("default"), ALL, 10), before);
    assert_eq!(shelve(w, &wish("new", Expect::Nothing, Some(at(3)))), Shelved::Done { version: 1 });
    assert_eq!(shelve(w, &wish("changed", Expect::Version(1), None)), Shelved::Done { version: 1 });
}

fn documents_outlive_a_restart(w: &mut World<impl Fresh>) {
    for n in 0..5 {
        put(w, &format!("doc-{n}"), Leaf { due: Some(START + secs(n)), ..about("t", n.cast_signed()) });
    }
    put(w, "doc-2", about("t", 2));
    shelve(w, &wish("doc-4", Expect::Version(1), None));
    let before = docs(w, Some("default"), ALL, 10);
    assert_eq!(before.len(), 4);
    w.reopen();
    assert_eq!(docs(w, Some("default"), ALL, 10), before);
    assert_eq!(docs(w, Some("default"), on("t"), 10), before);
    assert_eq!(listed(w, between(0, 10)), ["doc-0", "doc-1", "doc-3"]);
    assert_eq!(put(w, "doc-2", about("t", 2)), 3);
}

fn shelves_are_apart(w: &mut World<impl Fresh>) {
    let tenant = Tenant::default();
    for shelf in Shelf::ALL {
        let of_shelf = Shelve { shelf, ..wish("a", Expect::Nothing, Some(about("t", shelf as i64))) };
        assert_eq!(shelve(w, &of_shelf), Shelved::Done { version: 1 }, "{shelf:?}");
    }
    let gone = Shelve { shelf: Shelf::Operation, ..wish("a", Expect::Version(1), None) };
    assert_eq!(shelve(w, &gone), Shelved::Done { version: 1 });
    for shelf in Shelf::ALL {
        let expected: Vec<i64> = [shelf as i64].into_iter().filter(|_| shelf != Shelf::Operation).collect();
        let one = w.read().doc(shelf, &tenant, "a").unwrap();
        assert_eq!(one.map(|doc| doc.leaf.order), expected.first().copied());
        for pick in [ALL, on("t")] {
            let wanted = Wanted { shelf, tenant: Some(tenant.clone()), pick, limit: 10 };
            let found = w.read().docs(&wanted).unwrap();
            assert_eq!(found.iter().map(|doc| doc.leaf.order).collect::<Vec<_>>(), expected);
        }
    }
}

// invariant 14, REQ SE-1
fn other_tenants_documents_are_as_good_as_not_there(w: &mut World<impl Fresh>) {
    let of = |tenant: &str| Leaf { due: Some(START), body: format!("{tenant:?}"), ..about("t", 1) };
    put_for(w, "acme", "both", of("acme"));
    put_for(w, "acme", "theirs", of("acme"));
    put_for(w, "default", "both", of("default"));
    let acme: Tenant = "acme".parse().unwrap();
    assert_eq!(read(w, "theirs"), None);
    assert_eq!(read(w, "both").unwrap().leaf, of("default"));
    assert_eq!(w.read().doc(Shelf::Webhook, &acme, "both").unwrap().unwrap().leaf, of("acme"));
    for pick in [ALL, on("t"), between(0, 1)] {
        assert_eq!(ids(docs(w, Some("default"), pick.clone(), 10)), ["both"]);
        let mut theirs = docs(w, Some("acme"), pick.clone(), 10);
        assert!(theirs.iter().all(|doc| doc.tenant == acme));
        theirs.sort_by(|one, two| one.id.cmp(&two.id));
        assert_eq!(ids(theirs), ["both", "theirs"]);
        assert_eq!(docs(w, Some("nobody"), pick, 10), []);
    }
    // Nor can they be changed or removed, and a conflict does not show them.
    let foreign = wish("theirs", Expect::Version(1), Some(leaf("mine")));
    assert_eq!(shelve(w, &foreign), Shelved::Conflict(None));
    assert_eq!(shelve(w, &wish("theirs", Expect::Any, None)), Shelved::Done { version: 0 });
    assert_eq!(w.read().doc(Shelf::Webhook, &acme, "theirs").unwrap().unwrap().leaf, of("acme"));
}

fn lists_go_from_the_highest_order_down_and_among_equals_by_id(w: &mut World<impl Fresh>) {
    for (id, order) in [
        ("b", 5),
        ("a", 5),
        ("é", 5),
        ("Z", 5),
        ("ab", 5),
        ("low", i64::MIN),
        ("high", i64::MAX),
        ("less", -1),
        ("none", 0),
    ] {
        put(w, id, about("t", order));
    }
    let expected = ["high", "é", "b", "ab", "a", "Z", "none", "less", "low"];
    assert_eq!(listed(w, ALL), expected);
    assert_eq!(listed(w, on("t")), expected);
    assert_eq!(ids(docs(w, Some("default"), ALL, 3)), expected[..3]);
    assert_eq!(docs(w, Some("default"), ALL, 0), []);
}

fn pages_follow_one_another_without_a_gap(w: &mut World<impl Fresh>) {
    let mut dice = Dice::seeded(5);
    for n in 0..40 {
        let order = [i64::MIN, -1, 0, 0, 0, 1, i64::MAX][usize::try_from(dice.below(7)).unwrap()];
        let due = dice.below(4);
        put(w, &format!("{:02}", (n * 7) % 40), Leaf { due: Some(START + secs(due)), ..about("t", order) });
    }
    for pick in [ALL, on("t"), between(1, 4)] {
        let whole = listed(w, pick.clone());
        assert!(whole.len() > 20, "{whole:?}");
        for limit in [1, 2, 7, 39, 40, 41] {
            assert_eq!(paged(w, &pick, limit), whole, "{pick:?} {limit}");
        }
    }
}

fn a_page_begins_after_a_document_that_is_gone(w: &mut World<impl Fresh>) {
    for (n, id) in ["a", "b", "c", "d"].into_iter().enumerate() {
        put(w, id, Leaf { due: Some(START + secs(n as u64)), ..at(1) });
    }
    shelve(w, &wish("b", Expect::Any, None));
    assert_eq!(listed(w, Pick::All { after: Some((1, "b".into())) }), ["a"]);
    let after_b =
        Pick::Due { from: START, until: START + secs(9), after: Some((START + secs(1), "b".into())) };
    assert_eq!(listed(w, after_b), ["c", "d"]);
}

fn topics_list_only_their_own(w: &mut World<impl Fresh>) {
    for (id, topic, order) in
        [("1", "a", 3), ("2", "b", 2), ("3", "a", 1), ("4", "A", 4), ("5", "a ", 5), ("6", "", 6)]
    {
        put(w, id, about(topic, order));
    }
    put(w, "7", at(7));
    for (topic, expected) in
        [("a", &["1", "3"][..]), ("b", &["2"]), ("A", &["4"]), ("a ", &["5"]), ("", &["6"]), ("c", &[])]
    {
        assert_eq!(listed(w, on(topic)), expected, "{topic:?}");
    }
    let after = |order: i64, id: &str| Pick::Topic { topic: "a".into(), after: Some((order, id.into())) };
    assert_eq!(listed(w, after(3, "1")), ["3"]);
    assert_eq!(listed(w, after(1, "3")), [""; 0]);
    assert_eq!(listed(w, ALL), ["7", "6", "5", "4", "1", "2", "3"]);
}

fn due_documents_come_the_earliest_first_and_within_the_bounds(w: &mut World<impl Fresh>) {
    for (id, secs_on) in [("d", 3), ("b", 2), ("a", 2), ("c", 1), ("e", 4)] {
        put(w, id, Leaf { order: i64::from(id.as_bytes()[0]), ..due(START + secs(secs_on)) });
    }
    put(w, "never", leaf("never"));
    put(w, "first", due(Time::from_millis(i64::MIN)));
    put(w, "last", due(Time::from_millis(i64::MAX)));
    assert_eq!(listed(w, between(0, 9)), ["c", "a", "b", "d", "e"]);
    assert_eq!(listed(w, between(2, 3)), ["a", "b"], "from is within, until is not");
    assert_eq!(listed(w, between(2, 2)), [""; 0]);
    assert_eq!(ids(docs(w, Some("default"), between(0, 9), 2)), ["c", "a"]);
    let after =
        |at, id: &str| Pick::Due { from: START, until: START + secs(4), after: Some((at, id.into())) };
    assert_eq!(listed(w, after(START + secs(2), "a")), ["b", "d"]);
    assert_eq!(listed(w, after(START + secs(2), "")), ["a", "b", "d"]);
    let ever =
        Pick::Due { from: Time::from_millis(i64::MIN), until: Time::from_millis(i64::MAX), after: None };
    assert_eq!(listed(w, ever), ["first", "c", "a", "b", "d", "e"]);
}

fn everybodys_documents_are_listed_together(w: &mut World<impl Fresh>) {
    let leaf = |order, due: u64| Leaf { due: Some(START + secs(due)), ..at(order) };
    for (tenant, id, order, due) in [
        ("default", "a", 1, 5),
        ("acme", "a", 1, 5),
        ("zeta", "a", 1, 5),
        ("acme", "b", 1, 4),
        ("zeta", "c", 3, 6),
        ("default", "d", 2, 9),
    ] {
        put_for(w, tenant, id, leaf(order, due));
    }
    let mut everybodys = |pick: Pick, limit| -> Vec<String> {
        let found = docs(w, None, pick, limit);
        found.into_iter().map(|doc| format!("{}/{}", doc.tenant, doc.id)).collect()
    };
    let all = ["zeta/c", "default/d", "acme/b", "acme/a", "default/a", "zeta/a"];
    assert_eq!(everybodys(ALL, 10), all);
    assert_eq!(everybodys(ALL, 4), all[..4]);
    assert_eq!(everybodys(between(0, 9), 10), ["acme/b", "acme/a", "default/a", "zeta/a", "zeta/c"]);
    assert_eq!(everybodys(between(0, 9), 2), ["acme/b", "acme/a"]);
    let after = Some((START + secs(5), "a".to_owned()));
    let rest = Pick::Due { from: START, until: START + secs(99), after };
    assert_eq!(everybodys(rest, 10), ["zeta/c", "default/d"]);
}

fn a_changed_document_is_found_only_where_it_is_now(w: &mut World<impl Fresh>) {
    put(w, "fixed", Leaf { due: Some(START + secs(2)), ..about("old", 5) });
    put(w, "moves", Leaf { due: Some(START + secs(1)), ..about("old", 9) });
    assert_eq!(listed(w, on("old")), ["moves", "fixed"]);
    put(w, "moves", Leaf { due: Some(START + secs(3)), ..about("new", 1) });
    assert_eq!(listed(w, ALL), ["fixed", "moves"]);
    assert_eq!(listed(w, on("old")), ["fixed"]);
    assert_eq!(listed(w, on("new")), ["moves"]);
    assert_eq!(listed(w, between(0, 9)), ["fixed", "moves"]);
    assert_eq!(listed(w, between(0, 2)), [""; 0]);
    put(w, "moves", at(1));
    assert_eq!(listed(w, on("new")), [""; 0]);
    assert_eq!(listed(w, between(0, 9)), ["fixed"]);
    assert_eq!(listed(w, ALL), ["fixed", "moves"]);
}

fn recorded(wish: Shelve, what: &str) -> Shelve {
    let detail = serde_json::json!({ "what": what });
    let record = transition::act_of(Event::WebhookPut, &wish.tenant, &Actor("ana".into()), &detail, START);
    Shelve { record: Some(record), ..wish }
}

// REQ OB-5
fn a_record_goes_to_the_audit_exactly_when_its_change_is_made(w: &mut World<impl Fresh>) {
    let now = w.now;
    let told = |records: Vec<Record>| -> Vec<String> {
        records.into_iter().filter(|it| it.event == Event::WebhookPut).map(|it| it.detail).collect()
    };
    shelve(w, &recorded(wish("a", Expect::Nothing, Some(at(1))), "made"));
    shelve(w, &recorded(wish("a", Expect::Nothing, Some(at(2))), "refused"));
    shelve(w, &recorded(wish("a", Expect::Version(7), None), "refused"));
    shelve(w, &recorded(wish("b", Expect::Version(1), Some(at(2))), "refused"));
    shelve(w, &wish("a", Expect::Version(1), Some(at(2))));
    shelve(w, &recorded(wish("a", Expect::Version(2), None), "removed"));
    shelve(w, &recorded(wish("a", Expect::Any, None), "nothing to remove"));
    let said = |texts: &[&str]| -> Vec<String> {
        texts.iter().map(|text| format!("{{\"what\":\"{text}\"}}")).collect()
    };
    assert_eq!(told(w.audit()), said(&["made", "removed", "nothing to remove"]));
    let record = w.audit().remove(0);
    assert_eq!((record.tenant.as_str(), record.actor.as_str(), record.message), ("default", "ana", None));
    // Nor is it there if the change is not committed.
    w.core.shelve(&recorded(wish("c", Expect::Nothing, Some(at(1))), "lost"), now).unwrap();
    w.reopen();
    // With others in one group, all of them are, in order.
    w.core.accept(draft(), now).unwrap().unwrap();
    for id in ["x", "y", "x"] {
        w.core.shelve(&recorded(wish(id, Expect::Nothing, Some(at(1))), id), now).unwrap();
    }
    w.commit();
    assert_eq!(told(w.audit()), said(&["made", "removed", "nothing to remove", "x", "y"]));
    assert_eq!(w.read().verify().unwrap().broken, None);
}

fn odd() -> Vec<String> {
    let texts = [
        "\0",
        "\0\0",
        "a\0b",
        "\u{1}",
        "\u{1}0",
        "\u{1}1",
        "\u{2}",
        "a",
        "a\u{1}",
        "É",
        "e\u{301}",
        "👩‍👩‍👧‍👦🇧🇷",
        "\u{202e}\u{feff}",
        "'; DROP TABLE doc; --",
        "\"\\/%_*?[]{}",
        "\u{10ffff}",
        "\u{10ffff}\u{10ffff}",
        " ",
        "null",
        "0",
    ];
    texts.map(String::from).into()
}

// fault 27
fn texts_of_any_kind_come_back_and_keep_their_order(w: &mut World<impl Fresh>) {
    let mut texts = odd();
    for text in &texts {
        let body = serde_json::to_string(&serde_json::json!({ "text": text, text: [] })).unwrap();
        let leaf = Leaf { order: 1, topic: Some(text.clone()), due: Some(START), body };
        assert_eq!(put(w, text, leaf.clone()), 1);
        assert_eq!(read(w, text).map(|doc| (doc.id, doc.leaf)), Some((text.clone(), leaf)));
        assert_eq!(listed(w, on(text)), [text.as_str()]);
    }
    // Whatever the body says, even if it is not JSON after all.
    put(w, "raw", Leaf { body: "\0\u{1}".into(), due: Some(START), ..at(1) });
    assert_eq!(read(w, "raw").unwrap().leaf.body, "\0\u{1}");
    texts.push("raw".into());
    texts.sort();
    assert_eq!(listed(w, between(0, 1)), texts);
    assert_eq!(paged(w, &between(0, 1), 3), texts);
    texts.reverse();
    assert_eq!(listed(w, ALL), texts);
    assert_eq!(paged(w, &ALL, 3), texts);
    for text in odd() {
        assert_eq!(shelve(w, &wish(&text, Expect::Version(1), None)), Shelved::Done { version: 1 });
    }
    assert_eq!(listed(w, ALL), ["raw"]);
}

// fault 27
fn long_topics_and_bodies_are_kept(w: &mut World<impl Fresh>) {
    // Compression makes these no smaller.
    let mut dice = Dice::seeded(3);
    let mut long = |chars: usize| -> String {
        (0..chars).filter_map(|_| char::from_u32(u32::try_from(dice.below(0x800)).unwrap())).collect()
    };
    let (topic, other, body) = (long(20_000), long(20_000), long(1_000_000));
    put(w, "a", Leaf { body: body.clone(), ..about(&topic, 1) });
    put(w, "b", about(&topic, 2));
    put(w, "c", about(&other, 3));
    assert_eq!(listed(w, on(&topic)), ["b", "a"]);
    assert_eq!(listed(w, on(&other)), ["c"]);
    assert_eq!(listed(w, on(&topic[..topic.floor_char_boundary(5_000)])), [""; 0]);
    assert!(read(w, "a").unwrap().leaf.body == body);
}

fn ids_of_the_full_length_are_listed_and_paged(w: &mut World<impl Fresh>) {
    let ids = ["\u{10ffff}".repeat(50), "x".repeat(200), "\0".repeat(200)];
    for id in &ids {
        put(w, id, Leaf { due: Some(START), ..about("t", i64::MAX) });
    }
    for pick in [ALL, on("t")] {
        assert_eq!(listed(w, pick.clone()), ids);
        assert_eq!(paged(w, &pick, 1), ids);
    }
    let due = listed(w, between(0, 1));
    assert_eq!(due.iter().rev().collect::<Vec<_>>(), ids.iter().collect::<Vec<_>>());
    w.pass(Span::from_secs(1));
    assert_eq!(put(w, &ids[2], at(0)), 2);
    assert_eq!(listed(w, ALL), ids);
}
