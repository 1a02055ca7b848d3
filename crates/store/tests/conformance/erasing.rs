//! One person's data, found and erased.

use pombo_kernel::attachment::Blob;
use pombo_kernel::campaign::Campaign;
use pombo_kernel::campaign::recipient::{Listed, Person as Somebody, Refusal, Standing};
use pombo_kernel::erasure::{Bond, Bookmark, Counts, ERASED, Room, Seeker, Trace};
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Actor, Body, Draft, FailureReason, Idempotency, Json, QueueName, StateName};
use pombo_kernel::name::{CampaignName, Tenant};
use pombo_store::core::Reading;
use pombo_store::dead::{Edit, Edited};
use pombo_store::erase::{Erase, Erased};
use pombo_store::roster::{self, Enlist, Feed, Roster, Serving};
use pombo_store::shelf::{Expect, Shelf, Shelve, Shelved};
use pombo_store::{Counted, Filter, Pause, Repeat, Settled};

use crate::dead::{ana, edit, edit_of, groups};
use crate::world::*;

on_every_store! { personal:
    messages_are_found_however_the_address_is_written,
    whoever_is_reached_beside_others_is_found_and_whoever_is_named_is_told_apart,
    a_search_goes_on_where_it_was_and_finds_each_once,
    a_finished_message_is_gone_with_all_that_was_known_of_it,
    what_waits_is_cancelled_first_and_what_is_sent_is_left,
    what_is_being_sent_by_nobody_any_more_is_not_waited_for,
    another_of_the_same_order_goes_on,
    an_attachment_stays_for_whoever_else_has_it,
    what_a_message_said_before_is_blanked_and_the_rest_stays,
    a_place_on_a_list_is_blanked_and_gets_no_message,
    erasing_again_finds_nothing,
    tenants_are_erased_apart,
    what_is_erased_and_not_committed_is_still_there,
    the_audit_stays_and_holds,
}

const PHONE: &str = "+5511987654321";
const WRITTEN: [&str; 4] = [PHONE, "(11) 98765-4321", "+55 11 8765-4321", "5511987654321@s.whatsapp.net"];

fn phone(to: &str) -> Draft {
    Draft { queue: queue("zap", "one"), body: Body { to: to.into(), ..Body::default() }, ..draft() }
}

impl<C: Fresh> World<C> {
    fn seeker(&self, tenant: &Tenant, address: &str) -> Seeker {
        let pseudonyms = self.core.pseudonyms();
        let person = pseudonyms.person(tenant, address).unwrap();
        Seeker::new(pseudonyms, tenant.clone(), person)
    }

    /// Everything of a person, room by room, so many rows at a time.
    fn sought_as(&mut self, tenant: &Tenant, address: &str, max: usize) -> Vec<Trace> {
        let seeker = self.seeker(tenant, address);
        let mut traces = Vec::new();
        let mut room = Some(Room::default());
        while let Some(at) = room {
            let mut from = Some(Bookmark::at(at));
            while let Some(mark) = from {
                let sought = self.read().seek(&seeker, mark, max).unwrap();
                assert!(sought.traces.len() <= max);
                traces.extend(sought.traces);
                from = sought.next;
            }
            room = at.next();
        }
        traces
    }

    fn sought(&mut self, address: &str) -> Vec<Trace> {
        self.sought_as(&Tenant::default(), address, 100)
    }

    fn erase_traces(&mut self, traces: Vec<Trace>) -> Erased {
        let wish = Erase { tenant: Tenant::default(), traces, by: ana() };
        let erased = self.core.erase(&wish, self.now).unwrap();
        self.commit();
        erased
    }

    fn erase(&mut self, address: &str) -> Erased {
        let traces = self.sought(address);
        self.erase_traces(traces)
    }

    fn is_gone(&mut self, id: MessageId) -> bool {
        self.read().story(&Tenant::default(), id).unwrap().is_none()
    }
}

fn ids(traces: &[Trace]) -> Vec<MessageId> {
    let id = |trace: &Trace| match trace {
        Trace::Message { id, .. } => Some(*id),
        _ => None,
    };
    traces.iter().filter_map(id).collect()
}

// REQ AU-3
fn messages_are_found_however_the_address_is_written(w: &mut World<impl Fresh>) {
    let own: Vec<MessageId> = WRITTEN.iter().map(|to| w.accept(phone(to))).collect();
    w.accept(phone("+5511987654322"));
    w.accept(phone("+5521987654321"));
    for to in WRITTEN {
        assert_eq!(ids(&w.sought(to)), own, "{to}");
    }
    let mail = w.accept(phone("Ana <Ana.Lima@Clinica.EXAMPLE>"));
    assert_eq!(ids(&w.sought("ana.lima@clinica.example")), [mail]);
    let own = w.accept(phone("patient 5"));
    assert_eq!(ids(&w.sought(" patient 5")), [own], "an address of no known kind, as it is written");
}

fn whoever_is_reached_beside_others_is_found_and_whoever_is_named_is_told_apart(w: &mut World<impl Fresh>) {
    let said = |content: &str| {
        let content = Json::from_text(content.into()).ok();
        Draft { body: Body { to: "rui@clinic.example".into(), content, ..Body::default() }, ..draft() }
    };
    let copied = w.accept(said(r#"{"cc": ["Ana <ana@clinic.example>"], "text": "…"}"#));
    let named = w.accept(said(r#"{"text": "write to ana@clinic.example, please"}"#));
    w.accept(said(r#"{"text": "write to ana@clinic.example.org"}"#));
    let bond = |trace: Trace| match trace {
        Trace::Message { id, bond, .. } => (id, bond),
        other => panic!("{other:?}"),
    };
    let found: Vec<_> = w.sought("ana@clinic.example").into_iter().map(bond).collect();
    assert_eq!(found, [(copied, Bond::Reaches), (named, Bond::Names)]);
}

fn a_search_goes_on_where_it_was_and_finds_each_once(w: &mut World<impl Fresh>) {
    let own: Vec<MessageId> = (0..7)
        .filter_map(|n| {
            let to = if n % 2 == 0 { PHONE } else { "+5511987654322" };
            let id = w.accept(phone(to));
            (n % 2 == 0).then_some(id)
        })
        .collect();
    for max in [1, 2, 3, 100] {
        assert_eq!(ids(&w.sought_as(&Tenant::default(), PHONE, max)), own, "{max} at a time");
    }
}

// REQ AU-3
fn a_finished_message_is_gone_with_all_that_was_known_of_it(w: &mut World<impl Fresh>) {
    let once = Idempotency { key: "k".into(), fingerprint: [1; 16] };
    let draft = Draft { idempotency: Some(once), ..phone(PHONE) };
    let sent = w.through(draft.clone(), End::Sent);
    let dead = w.through(phone(PHONE), End::Failed(FailureReason::PermanentError));
    let other = w.through(phone("+5511987654322"), End::Failed(FailureReason::PermanentError));
    let counted = w.tally(Counted::Sent);
    let erased = w.erase(PHONE);
    assert_eq!(erased.counts, Counts { messages: 2, ..Counts::default() });
    assert!(w.is_gone(sent) && w.is_gone(dead) && !w.is_gone(other));
    assert_eq!(w.listed(&Filter::default()), [other]);
    let counts: Vec<u64> = groups(w).iter().map(|group| group.count).collect();
    assert_eq!(counts, [1], "the other is the only dead letter");
    assert_eq!(w.tally(Counted::Sent), counted, "counts are nobody's");
    let again = w.offer(draft).unwrap();
    assert_eq!(again.repeat, Repeat::First, "its idempotency key went along");
}

// REQ AU-3
fn what_waits_is_cancelled_first_and_what_is_sent_is_left(w: &mut World<impl Fresh>) {
    let sending = w.accept(phone(PHONE));
    w.heartbeat(ONE, mins(10));
    let claimed = w.claim_one();
    let waiting = w.accept(Draft { send_at: Some(START + mins(60)), ..phone(PHONE) });
    let erased = w.erase(PHONE);
    assert_eq!(erased.left, [sending]);
    assert_eq!(erased.counts, Counts { messages: 1, cancelled: 1, ..Counts::default() });
    assert!(w.is_gone(waiting));
    w.is(sending, StateName::Sending);
    w.settle(&claimed, End::Retry(mins(1)));
    let erased = w.erase(PHONE);
    assert_eq!((erased.counts.cancelled, erased.left.len()), (1, 0));
    w.pass(mins(120));
    assert_eq!(w.claim(10), []);
    assert_eq!(w.next_due(), None, "nothing of it waits");
}

// REQ AU-3: in a backup, or where a server was killed
fn what_is_being_sent_by_nobody_any_more_is_not_waited_for(w: &mut World<impl Fresh>) {
    w.heartbeat(ONE, mins(1));
    let sending = w.accept(phone(PHONE));
    let other = w.accept(phone("+5511987654322"));
    let late = w.claim(10).remove(0);
    let pause = Pause { since: w.now, why: "a backup".to_owned() };
    w.core.pause(&pause, &ana()).unwrap();
    w.commit();
    assert_eq!(w.erase(PHONE).left, [sending], "its sender may still be there");
    w.pass(mins(2));
    let erased = w.erase(PHONE);
    assert_eq!(
        erased,
        Erased { counts: Counts { messages: 1, cancelled: 1, ..Counts::default() }, left: vec![] }
    );
    assert!(w.is_gone(sending));
    w.is(other, StateName::Sending);
    assert_eq!(w.settle(&late, End::Sent), Settled::Stale);
    w.reopen();
    assert!(w.is_gone(sending), "also from the journal");
    let verified = w.read().verify().unwrap();
    assert_eq!(verified.broken, None);
}

fn another_of_the_same_order_goes_on(w: &mut World<impl Fresh>) {
    let ordered = |to: &str| Draft { ordering_key: Some("o".into()), ..phone(to) };
    w.accept(Draft { send_at: Some(START + mins(60)), ..ordered(PHONE) });
    let next = w.accept(ordered("+5511987654322"));
    assert_eq!(w.claim(10), []);
    w.erase(PHONE);
    assert_eq!(w.claimed_ids(10), [next]);
}

fn an_attachment_stays_for_whoever_else_has_it(w: &mut World<impl Fresh>) {
    let (own, shared) = (Blob::of(*b"an exam of hers"), Blob::of(*b"a leaflet"));
    let with = |to: &str, blobs: Vec<Blob>| Draft { blobs, ..phone(to) };
    w.through(with(PHONE, vec![own.clone(), shared.clone()]), End::Sent);
    w.through(with("+5511987654322", vec![shared.clone()]), End::Sent);
    assert_eq!(w.erase(PHONE).counts, Counts { messages: 1, attachments: 1, ..Counts::default() });
    assert_eq!(w.read().blob(own.digest).unwrap(), None);
    assert!(w.read().blob(shared.digest).unwrap().is_some());
}

// REQ AU-3: a wrong number that was put right
fn what_a_message_said_before_is_blanked_and_the_rest_stays(w: &mut World<impl Fresh>) {
    let id = w.through(phone(PHONE), End::Failed(FailureReason::PermanentError));
    let body = Body { to: "+5511900000000".into(), ..Body::default() };
    let change = Edit { body: body.clone(), ..edit_of(w, id) };
    assert_eq!(edit(w, &change), Edited::Done { version: 2 });
    let erased = w.erase(PHONE);
    assert_eq!(erased.counts, Counts { revisions: 1, ..Counts::default() });
    let story = w.story(id);
    assert_eq!((story.version, &story.message.body), (2, &body));
    let revisions = w.read().revisions(&Tenant::default(), id).unwrap();
    assert_eq!((&*revisions[0].body.to, &revisions[0].note, revisions.len()), (ERASED, &None, 1));
    assert_eq!(w.erase("+5511900000000").counts, Counts { messages: 1, ..Counts::default() });
    assert_eq!(w.read().revisions(&Tenant::default(), id).unwrap(), []);
}

const SPRING: &str = "cmp_spring";

fn listed(line: u64, to: &str) -> Listed {
    let payload = Json::from_text(r#"{"name": "Ana"}"#.into()).ok();
    Listed { line, of: Ok(Somebody { to: to.into(), key: to.into(), payload }) }
}

fn put<C: Fresh>(w: &mut World<C>, made: &Campaign, expect: Expect) {
    let (tenant, id, leaf) = (Tenant::default(), SPRING.to_owned(), Some(roster::leaf(made)));
    let wish = Shelve { shelf: Shelf::Campaign, tenant, id, expect, leaf, record: None };
    assert!(matches!(w.core.shelve(&wish, w.now).unwrap(), Shelved::Done { .. }));
    w.commit();
}

// REQ AU-3
fn a_place_on_a_list_is_blanked_and_gets_no_message(w: &mut World<impl Fresh>) {
    let (tenant, campaign): (Tenant, CampaignName) = (Tenant::default(), SPRING.parse().unwrap());
    let text = r#"{"name": "Spring", "channel": "zap", "lane": "default", "template": "spring",
        "template_version": 1, "created_at": "2026-05-01T12:00:00Z", "created_by": "ana", "state": "draft"}"#;
    let mut made: Campaign = serde_json::from_str(text).unwrap();
    put(w, &made, Expect::Nothing);
    let refused = Err(Refusal { to: format!("{PHONE} or so"), reason: "not a number".into() });
    let lines = vec![listed(1, PHONE), listed(2, "+5511987654322"), Listed { line: 3, of: refused }];
    let wish = Enlist { tenant: tenant.clone(), campaign: campaign.clone(), lines, by: Actor("ana".into()) };
    w.core.enlist(&wish, w.now).unwrap().unwrap();
    w.commit();
    made = roster::read(&w.read().doc(Shelf::Campaign, &tenant, SPRING).unwrap().unwrap()).unwrap();
    made.start(START).unwrap();
    put(w, &made, Expect::Any);
    assert_eq!(w.erase(PHONE).counts, Counts { recipients: 2, ..Counts::default() });
    let list =
        Roster { tenant: tenant.clone(), campaign: campaign.clone(), standing: None, after: 0, limit: 10 };
    let found = w.read().recipients(&list).unwrap();
    let seen: Vec<_> = found.iter().map(|it| (it.to.as_str(), it.standing, it.payload.is_some())).collect();
    assert_eq!(
        seen,
        [
            (ERASED, Standing::Suppressed, false),
            ("+5511987654322", Standing::Pending, true),
            (ERASED, Standing::Invalid, false)
        ]
    );
    let campaign_now =
        roster::read(&w.read().doc(Shelf::Campaign, &tenant, SPRING).unwrap().unwrap()).unwrap();
    let roll = campaign_now.roll;
    assert_eq!((roll.recipients, roll.pending, roll.suppressed, roll.invalid), (2, 1, 1, 1));
    // Whoever had read the list before makes nothing of it.
    let queue = QueueName { campaign: Some(campaign.clone()), ..queue("zap", "one") };
    let draft = Draft { queue, ..phone(PHONE) };
    let feed = Feed { tenant, campaign, servings: vec![(1, Serving::Message(Box::new(draft)))] };
    w.core.feed(&feed, w.now).unwrap().unwrap();
    w.commit();
    assert_eq!(w.listed(&Filter::default()), []);
}

fn erasing_again_finds_nothing(w: &mut World<impl Fresh>) {
    w.through(phone(PHONE), End::Sent);
    let traces = w.sought(PHONE);
    assert_eq!(w.erase_traces(traces.clone()).counts.messages, 1);
    let events = w.events().len();
    assert_eq!(w.erase_traces(traces), Erased::default());
    assert_eq!(w.sought(PHONE), []);
    assert_eq!(w.events().len(), events);
}

fn tenants_are_erased_apart(w: &mut World<impl Fresh>) {
    let other: Tenant = "other".parse().unwrap();
    let theirs = Draft { queue: QueueName { tenant: other.clone(), ..queue("zap", "one") }, ..phone(PHONE) };
    let theirs = w.accept(theirs);
    let own = w.accept(phone(PHONE));
    assert_eq!(ids(&w.sought(PHONE)), [own]);
    let channel = "zap".parse().unwrap();
    w.erase_traces(vec![Trace::Message { id: theirs, channel, bond: Bond::Reaches }]);
    assert!(w.read().story(&other, theirs).unwrap().is_some(), "an id of somebody else's erases nothing");
    assert_eq!(ids(&w.sought_as(&other, PHONE, 10)), [theirs]);
    let hash = |tenant: &Tenant| w.core.pseudonyms().person(tenant, PHONE).unwrap().hash;
    assert_ne!(hash(&other), hash(&Tenant::default()));
}

fn what_is_erased_and_not_committed_is_still_there(w: &mut World<impl Fresh>) {
    let id = w.through(phone(PHONE), End::Sent);
    let wish = Erase { tenant: Tenant::default(), traces: w.sought(PHONE), by: ana() };
    w.core.erase(&wish, w.now).unwrap();
    w.reopen();
    w.is(id, StateName::Sent);
    assert_eq!(w.erase(PHONE).counts.messages, 1);
}

// REQ AU-3, AU-1
fn the_audit_stays_and_holds(w: &mut World<impl Fresh>) {
    w.through(phone(PHONE), End::Sent);
    w.accept(Draft { send_at: Some(START + mins(60)), ..phone(PHONE) });
    let before = w.audit();
    w.erase(PHONE);
    let after = w.audit();
    assert_eq!(after[..before.len()], before[..]);
    assert_eq!(after.len(), before.len() + 1, "the one that waited was cancelled");
    let verified = w.read().verify().unwrap();
    assert_eq!((verified.broken, verified.records), (None, after.len() as u64));
}
