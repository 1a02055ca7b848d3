//! Dead letters that are put right, with what they said before.

use pombo_kernel::attachment::Blob;
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::message::{Actor, Body, Draft, FailureReason, QueueName, StateName};
use pombo_kernel::name::Tenant;
use pombo_store::Filter;
use pombo_store::core::Reading;
use pombo_store::dead::{Edit, Edited, Revision};

use crate::dead::{again, ana, counts, edit, edit_of, failed, groups};
use crate::world::*;

on_every_store! { personal:
    an_edited_letter_says_something_else_and_remembers,
    an_edit_of_an_old_version_is_refused,
    only_a_dead_letter_can_be_edited,
    an_edited_letter_goes_where_it_says,
    an_edited_letter_is_found_by_what_it_says_now,
    a_letter_that_is_edited_after_thousands_came_is_found_by_what_it_says_now,
    an_edit_that_changes_the_channel_changes_the_group,
    an_edit_brings_its_attachments,
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

fn a_letter_that_is_edited_after_thousands_came_is_found_by_what_it_says_now(w: &mut World<impl Fresh>) {
    let early = failed(w);
    w.accept_all((0..2_000).map(|_| later(mins(60))));
    w.accept(later(mins(60)));
    let late = failed(w);
    for id in [early, late] {
        let change = Edit { body: Body { to: "rui".into(), ..Body::default() }, ..edit_of(w, id) };
        assert_eq!(edit(w, &change), Edited::Done { version: 2 });
    }
    let found = |w: &mut World<_>| w.listed(&Filter { recipient: Some("rui".into()), ..Filter::default() });
    assert_eq!(found(w), [late, early]);
    w.accept_all((0..1_000).map(|_| later(mins(60))));
    assert_eq!(found(w), [late, early]);
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
