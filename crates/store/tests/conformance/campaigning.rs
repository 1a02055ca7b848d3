//! Campaigns: whom they write to, how their messages are made and what becomes of them.

mod evenness;
mod pace;

use pombo_kernel::campaign::recipient::{Listed, Person, Refusal, Standing};
use pombo_kernel::campaign::{Campaign, PauseReason, Refused, Roll, StateName as Course};
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Actor, Body, Draft, FailureReason, Json, QueueName, StateName};
use pombo_kernel::name::{CampaignName, Tenant};
use pombo_kernel::time::{Span, Time};
use pombo_store::audit::{Event, Record};
use pombo_store::core::Reading;
use pombo_store::dead::{Act, Ruling};
use pombo_store::roster::{self, Enlist, Enlisted, Feed, NotDone, Recipient, Roster, Serving};
use pombo_store::shelf::{Expect, Shelf, Shelve, Shelved};
use pombo_store::{Cancelled, Settled};

use crate::world::*;

on_every_store! { personal:
    a_list_comes_back_in_order_and_without_gaps,
    a_person_is_listed_once,
    a_line_by_which_nobody_can_be_written_to_is_kept_once,
    people_are_listed_while_it_waits_and_not_while_it_runs,
    a_list_that_was_not_committed_was_never_made,
    what_does_not_exist_takes_nobody_and_feeds_nobody,
    recipients_are_paged_by_standing,
    a_feed_makes_one_message_for_each_however_often_it_comes,
    a_feed_names_somebody_twice_and_makes_one_message,
    only_a_running_campaign_is_fed,
    whoever_is_left_out_has_a_reason_and_counts,
    a_feed_that_leaves_nobody_completes_it,
    ends_without_an_attempt_are_counted_and_cost_no_wait,
    whoever_is_found_suppressed_at_the_last_moment_is_left_out_and_costs_no_wait,
    a_failure_that_is_tried_again_opens_the_campaign,
    completion_is_recorded_once,
    too_many_failures_pause_it_and_say_so,
    only_a_list_without_a_campaign_is_struck,
    tenants_have_campaigns_of_the_same_name,
    it_is_due_when_somebody_must_see_to_it,
}

const C: &str = "cmp_one";
const D: &str = "cmp_two";
/// What is drawn with the least chance, which settlements of the cases have unless they say otherwise.
const MIN: Span = Span::from_secs(15);

fn draft_of(campaign: &str, number: u64) -> Draft {
    // Every other one goes elsewhere: a campaign has as many queues as it has destinations.
    let destination = if number.is_multiple_of(2) { "b.example" } else { "a.example" };
    let queue = QueueName { campaign: Some(campaign.parse().unwrap()), ..queue("crm", destination) };
    Draft { queue, body: Body { to: format!("person {number}"), ..Body::default() }, ..draft() }
}

fn person(number: u64) -> Listed {
    let payload = Json::from_text(format!("{{\"n\":{number}}}")).ok();
    let (to, key) = (format!("person {number}"), format!("p{number}"));
    Listed { line: number, of: Ok(Person { to, key, payload }) }
}

fn nobody(line: u64) -> Listed {
    Listed { line, of: Err(Refusal { to: "???".into(), reason: "not a number".into() }) }
}

fn name(campaign: &str) -> CampaignName {
    campaign.parse().unwrap()
}

fn ana() -> Actor {
    Actor("ana".into())
}

/// The words of these cases.
impl<S: Fresh> World<S> {
    /// A draft on the channel `crm`, changed as the case wants it.
    fn create(&mut self, tenant: &Tenant, campaign: &str, change: impl FnOnce(&mut Campaign)) {
        let text = r#"{"name": "Spring", "channel": "crm", "lane": "default", "template": "spring",
            "template_version": 1, "created_at": "2026-05-01T12:00:00Z", "created_by": "ana", "state": "draft"}"#;
        let mut made: Campaign = serde_json::from_str(text).unwrap();
        change(&mut made);
        self.put(tenant, campaign, Expect::Nothing, &made);
    }

    fn put(&mut self, tenant: &Tenant, campaign: &str, expect: Expect, now: &Campaign) {
        let (shelf, tenant, id) = (Shelf::Campaign, tenant.clone(), campaign.into());
        let wish = Shelve { shelf, tenant, id, expect, leaf: Some(roster::leaf(now)), record: None };
        let done = self.core.shelve(&wish, self.now).unwrap();
        assert!(matches!(done, Shelved::Done { .. }), "{done:?}");
        self.commit();
    }

    fn remove(&mut self, tenant: &Tenant, campaign: &str) {
        let (shelf, tenant, id) = (Shelf::Campaign, tenant.clone(), campaign.into());
        let gone = Shelve { shelf, tenant, id, expect: Expect::Any, leaf: None, record: None };
        self.core.shelve(&gone, self.now).unwrap();
        self.commit();
    }

    fn of(&mut self, tenant: &Tenant, campaign: &str) -> Campaign {
        let doc = self.read().doc(Shelf::Campaign, tenant, campaign).unwrap().unwrap();
        assert_eq!(doc.leaf, roster::leaf(&roster::read(&doc).unwrap()), "a document as it should be kept");
        roster::read(&doc).unwrap()
    }

    fn campaign(&mut self, campaign: &str) -> Campaign {
        self.of(&Tenant::default(), campaign)
    }

    fn course(&mut self, campaign: &str) -> Course {
        self.campaign(campaign).state.name()
    }

    /// Changes a campaign as an operator does.
    fn change(&mut self, campaign: &str, change: impl FnOnce(&mut Campaign, Time)) {
        let tenant = Tenant::default();
        let doc = self.read().doc(Shelf::Campaign, &tenant, campaign).unwrap().unwrap();
        let mut changed = roster::read(&doc).unwrap();
        change(&mut changed, self.now);
        self.put(&tenant, campaign, Expect::Version(doc.version), &changed);
    }

    fn start(&mut self, campaign: &str) {
        self.change(campaign, |campaign, now| campaign.start(now).unwrap());
    }

    fn pause(&mut self, campaign: &str) {
        self.change(campaign, |campaign, now| {
            campaign.pause(PauseReason::Operator, "lunch".into(), &ana(), now).unwrap();
        });
    }

    fn enlist(&mut self, campaign: &str, lines: Vec<Listed>) -> Result<Vec<Enlisted>, NotDone> {
        let wish = Enlist { tenant: Tenant::default(), campaign: name(campaign), lines, by: ana() };
        let became = self.core.enlist(&wish, self.now).unwrap();
        self.commit();
        became
    }

    fn feed(&mut self, campaign: &str, servings: Vec<(u64, Serving)>) -> Result<(), NotDone> {
        let feed = Feed { tenant: Tenant::default(), campaign: name(campaign), servings };
        let done = self.core.feed(&feed, self.now).unwrap();
        self.commit();
        done
    }

    /// Makes messages for these.
    fn serve(&mut self, campaign: &str, numbers: impl IntoIterator<Item = u64>) {
        let serving = |number| (number, Serving::Message(Box::new(draft_of(campaign, number))));
        assert_eq!(self.feed(campaign, numbers.into_iter().map(serving).collect()), Ok(()));
    }

    /// A campaign to so many people, all of whose messages wait.
    fn running(&mut self, campaign: &str, people: u64) {
        self.create(&Tenant::default(), campaign, |_| {});
        self.enlist(campaign, (1..=people).map(person).collect()).unwrap();
        self.start(campaign);
        self.serve(campaign, 1..=people);
    }

    fn recipients(&mut self, campaign: &str) -> Vec<Recipient> {
        let roster = Roster {
            tenant: Tenant::default(),
            campaign: name(campaign),
            standing: None,
            after: 0,
            limit: 1_000,
        };
        self.read().recipients(&roster).unwrap()
    }

    fn standings(&mut self, campaign: &str) -> Vec<Standing> {
        self.recipients(campaign).iter().map(|recipient| recipient.standing).collect()
    }

    fn message_of(&mut self, campaign: &str, number: u64) -> MessageId {
        let recipients = self.recipients(campaign);
        recipients.iter().find(|it| it.number == number).unwrap().message.unwrap()
    }

    /// The counts add up, and are those of the recipients.
    fn agree(&mut self, campaign: &str) -> Roll {
        let roll = self.campaign(campaign).roll;
        let Roll { recipients, pending, queued, ahead, sent, failed, cancelled, suppressed, invalid, .. } =
            roll;
        assert_eq!(recipients, pending + queued + sent + failed + cancelled + suppressed, "{roll:?}");
        assert!(ahead <= queued, "{roll:?}");
        let standings = self.standings(campaign);
        let are = |standing| standings.iter().filter(|it| **it == standing).count() as u64;
        let counted = [pending, queued, sent, failed, cancelled, suppressed, invalid];
        let seen = [
            Standing::Pending,
            Standing::Queued,
            Standing::Sent,
            Standing::Failed,
            Standing::Cancelled,
            Standing::Suppressed,
            Standing::Invalid,
        ];
        assert_eq!(counted, seen.map(are), "{roll:?}");
        roll
    }

    fn rule(&mut self, act: Act, ids: Vec<MessageId>) {
        let ruling = Ruling { tenant: Tenant::default(), ids, act, by: ana(), note: None, with: None };
        self.core.rule(&ruling, self.now).unwrap().unwrap();
        self.commit();
    }

    /// The records of campaigns, without those of lists.
    fn turns(&mut self) -> Vec<Record> {
        let of = [Event::CampaignCompleted, Event::CampaignPaused];
        self.audit().into_iter().filter(|record| of.contains(&record.event)).collect()
    }
}

fn a_list_comes_back_in_order_and_without_gaps(w: &mut World<impl Fresh>) {
    w.create(&Tenant::default(), C, |_| {});
    let became = w.enlist(C, vec![person(1), nobody(2), person(1), person(3)]).unwrap();
    use Enlisted::{Added, Duplicate, Invalid};
    assert_eq!(became, [Added, Invalid, Duplicate, Added]);
    assert_eq!(w.enlist(C, vec![person(3), person(9)]), Ok(vec![Duplicate, Added]));
    let listed = w.recipients(C);
    let places: Vec<_> = listed.iter().map(|it| (it.number, it.line, it.to.as_str())).collect();
    assert_eq!(places, [(1, 1, "person 1"), (2, 2, "???"), (3, 3, "person 3"), (4, 9, "person 9")]);
    assert_eq!(listed[0].payload, Json::from_text("{\"n\":1}".into()).ok());
    assert_eq!((listed[1].reason.as_deref(), &listed[1].payload), (Some("not a number"), &None));
    let roll = w.agree(C);
    assert_eq!((roll.recipients, roll.pending, roll.invalid, roll.duplicates), (3, 3, 1, 2));
    let lists: Vec<Record> =
        w.audit().into_iter().filter(|record| record.event == Event::RecipientsListed).collect();
    assert_eq!(lists.len(), 2);
    assert_eq!((lists[0].actor.as_str(), lists[0].channel.as_str()), ("ana", "crm"));
    let detail: serde_json::Value = serde_json::from_str(&lists[0].detail).unwrap();
    assert_eq!(detail, serde_json::json!({"campaign": C, "added": 2, "duplicates": 1, "invalid": 1}));
}

fn a_person_is_listed_once(w: &mut World<impl Fresh>) {
    w.create(&Tenant::default(), C, |_| {});
    let file: Vec<Listed> = (1..=5).map(person).collect();
    w.enlist(C, file.clone()).unwrap();
    assert_eq!(w.enlist(C, file.clone()), Ok(vec![Enlisted::Duplicate; 5]));
    w.reopen();
    assert_eq!(w.enlist(C, file), Ok(vec![Enlisted::Duplicate; 5]));
    let roll = w.agree(C);
    assert_eq!((roll.recipients, roll.duplicates), (5, 10));
    // Who is on another list is not on this one.
    w.create(&Tenant::default(), D, |_| {});
    assert_eq!(w.enlist(D, vec![person(1)]), Ok(vec![Enlisted::Added]));
}

fn a_line_by_which_nobody_can_be_written_to_is_kept_once(w: &mut World<impl Fresh>) {
    w.create(&Tenant::default(), C, |_| {});
    let other = Listed { line: 3, of: Err(Refusal { to: "???".into(), reason: "too long".into() }) };
    // The same words on another line, and others on the same one, are another line.
    let file = vec![person(1), nobody(2), nobody(3), other];
    use Enlisted::{Added, Duplicate, Invalid};
    assert_eq!(w.enlist(C, file.clone()), Ok(vec![Added, Invalid, Invalid, Invalid]));
    assert_eq!(w.enlist(C, file.clone()), Ok(vec![Duplicate; 4]));
    w.reopen();
    assert_eq!(w.enlist(C, file), Ok(vec![Duplicate; 4]));
    assert_eq!(w.enlist(C, vec![nobody(5), nobody(5)]), Ok(vec![Invalid, Duplicate]));
    // Only a person who is named again is a repeat.
    let roll = w.agree(C);
    assert_eq!((roll.recipients, roll.invalid, roll.duplicates), (1, 4, 2));
    assert_eq!(w.recipients(C).iter().map(|it| it.number).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    // It is not taken for a person whose name reads like it, and on another list it is another line.
    let key = nobody(2).key().into_owned();
    assert_eq!(key, key.trim_end(), "{key:?}");
    assert_ne!(key, key.trim_start(), "no address begins with that");
    w.create(&Tenant::default(), D, |_| {});
    assert_eq!(w.enlist(D, vec![nobody(2)]), Ok(vec![Invalid]));
}

fn people_are_listed_while_it_waits_and_not_while_it_runs(w: &mut World<impl Fresh>) {
    let refused = |state| Err(NotDone::Refused(Refused::State(state)));
    w.create(&Tenant::default(), C, |_| {});
    w.enlist(C, vec![person(1)]).unwrap();
    w.change(C, |campaign, now| campaign.schedule(now + mins(5)).unwrap());
    assert_eq!(w.enlist(C, vec![person(2)]), Ok(vec![Enlisted::Added]));
    w.start(C);
    let before = w.audit().len();
    assert_eq!(w.enlist(C, vec![person(3)]), refused(Course::Running));
    assert_eq!((w.recipients(C).len(), w.audit().len()), (2, before), "nothing was done");
    w.pause(C);
    assert_eq!(w.enlist(C, vec![person(3)]), Ok(vec![Enlisted::Added]));
    w.change(C, |campaign, now| {
        campaign.pause(PauseReason::Cancelling, String::new(), &ana(), now).unwrap();
    });
    assert_eq!(w.enlist(C, vec![person(4)]), refused(Course::Paused));
    w.agree(C);
}

fn a_list_that_was_not_committed_was_never_made(w: &mut World<impl Fresh>) {
    w.create(&Tenant::default(), C, |_| {});
    let lines: Vec<Listed> = (1..=3).map(person).collect();
    let wish = Enlist { tenant: Tenant::default(), campaign: name(C), lines: lines.clone(), by: ana() };
    w.core.enlist(&wish, w.now).unwrap().unwrap();
    w.reopen();
    assert_eq!(w.recipients(C), []);
    assert_eq!(w.enlist(C, lines), Ok(vec![Enlisted::Added; 3]));
    assert_eq!(w.recipients(C).iter().map(|it| it.number).collect::<Vec<_>>(), [1, 2, 3]);
    w.agree(C);
}

fn what_does_not_exist_takes_nobody_and_feeds_nobody(w: &mut World<impl Fresh>) {
    assert_eq!(w.enlist(C, vec![person(1)]), Err(NotDone::NotFound));
    assert_eq!(w.feed(C, vec![(1, Serving::Suppressed("no".into()))]), Err(NotDone::NotFound));
    assert!(!w.core.cut(&Tenant::default(), &name(C), w.now).unwrap());
    assert_eq!(w.core.strike(&Tenant::default(), &name(C), 10).unwrap(), 0);
    w.commit();
    assert_eq!(w.recipients(C), []);
    assert_eq!(w.audit(), []);
}

fn recipients_are_paged_by_standing(w: &mut World<impl Fresh>) {
    w.create(&Tenant::default(), C, |_| {});
    w.enlist(C, (1..=7).map(|n| if n == 4 { nobody(n) } else { person(n) }).collect()).unwrap();
    w.start(C);
    w.serve(C, [2, 6]);
    let all = Roster { tenant: Tenant::default(), campaign: name(C), standing: None, after: 0, limit: 3 };
    let mut numbers = |roster: &Roster| -> Vec<u64> {
        w.read().recipients(roster).unwrap().iter().map(|it| it.number).collect()
    };
    assert_eq!(numbers(&all), [1, 2, 3]);
    assert_eq!(numbers(&Roster { after: 3, ..all.clone() }), [4, 5, 6]);
    assert_eq!(numbers(&Roster { after: 6, ..all.clone() }), [7]);
    assert_eq!(numbers(&Roster { limit: 0, ..all.clone() }), [] as [u64; 0]);
    let pending = Roster { standing: Some(Standing::Pending), ..all.clone() };
    assert_eq!(numbers(&pending), [1, 3, 5]);
    assert_eq!(numbers(&Roster { after: 5, ..pending }), [7]);
    assert_eq!(numbers(&Roster { standing: Some(Standing::Queued), ..all.clone() }), [2, 6]);
    assert_eq!(numbers(&Roster { standing: Some(Standing::Invalid), ..all.clone() }), [4]);
    assert_eq!(numbers(&Roster { standing: Some(Standing::Sent), ..all }), [] as [u64; 0]);
}

// REQ BK-4
fn a_feed_makes_one_message_for_each_however_often_it_comes(w: &mut World<impl Fresh>) {
    w.create(&Tenant::default(), C, |_| {});
    w.enlist(C, (1..=4).map(person).collect()).unwrap();
    w.start(C);
    w.serve(C, [1, 2]);
    let first = w.message_of(C, 1);
    w.serve(C, [1, 2]);
    w.serve(C, [1, 2, 3, 99]);
    let roll = w.agree(C);
    assert_eq!((roll.pending, roll.queued, roll.ahead), (1, 3, 3));
    assert_eq!(w.message_of(C, 1), first);
    let claimed = w.claim_one();
    w.serve(C, [1, 2, 3]);
    w.settle(&claimed, End::Sent);
    w.serve(C, [1, 2, 3]);
    assert_eq!(w.agree(C).queued, 2);
    let messages = w.events().into_iter().filter(|event| *event == Event::Accepted).count();
    assert_eq!(messages, 3, "one for each who was fed");
}

// REQ BK-4
fn a_feed_names_somebody_twice_and_makes_one_message(w: &mut World<impl Fresh>) {
    w.create(&Tenant::default(), C, |_| {});
    w.enlist(C, vec![person(1), person(2)]).unwrap();
    w.start(C);
    let serving = || Serving::Message(Box::new(draft_of(C, 1)));
    let no = Serving::Suppressed("opted out".into());
    w.feed(C, vec![(1, serving()), (1, serving()), (1, no.clone()), (2, no), (2, serving())]).unwrap();
    let roll = w.agree(C);
    assert_eq!((roll.queued, roll.suppressed), (1, 1), "the first that is said of somebody counts");
    assert_eq!(w.events().into_iter().filter(|event| *event == Event::Accepted).count(), 1);
}

fn only_a_running_campaign_is_fed(w: &mut World<impl Fresh>) {
    let serving = || vec![(1, Serving::Message(Box::new(draft_of(C, 1))))];
    let refused = |state| Err(NotDone::Refused(Refused::State(state)));
    w.create(&Tenant::default(), C, |_| {});
    w.enlist(C, vec![person(1), person(2)]).unwrap();
    assert_eq!(w.feed(C, serving()), refused(Course::Draft));
    w.change(C, |campaign, now| campaign.schedule(now + mins(5)).unwrap());
    assert_eq!(w.feed(C, serving()), refused(Course::Scheduled));
    w.start(C);
    w.pause(C);
    assert_eq!(w.feed(C, serving()), refused(Course::Paused));
    assert_eq!((w.agree(C).pending, w.listed(&Default::default()).len()), (2, 0));
}

fn whoever_is_left_out_has_a_reason_and_counts(w: &mut World<impl Fresh>) {
    w.create(&Tenant::default(), C, |_| {});
    w.enlist(C, (1..=3).map(person).collect()).unwrap();
    w.start(C);
    let left_out =
        vec![(1, Serving::Suppressed("opted out".into())), (2, Serving::Failed("no such template".into()))];
    assert_eq!(w.feed(C, left_out.clone()), Ok(()));
    assert_eq!(w.feed(C, left_out), Ok(()));
    let roll = w.agree(C);
    assert_eq!((roll.pending, roll.suppressed, roll.failed), (1, 1, 1));
    let listed = w.recipients(C);
    let said: Vec<_> = listed.iter().map(|it| (it.reason.as_deref(), it.message)).collect();
    assert_eq!(said, [(Some("opted out"), None), (Some("no such template"), None), (None, None)]);
    w.serve(C, [1, 2]);
    assert_eq!(w.listed(&Default::default()), [], "whoever was left out stays so");
}

fn a_feed_that_leaves_nobody_completes_it(w: &mut World<impl Fresh>) {
    w.create(&Tenant::default(), C, |_| {});
    w.enlist(C, vec![person(1), person(2)]).unwrap();
    w.start(C);
    let no = |number| (number, Serving::Suppressed("opted out".into()));
    w.feed(C, vec![no(1)]).unwrap();
    assert_eq!(w.course(C), Course::Running);
    w.feed(C, vec![no(2)]).unwrap();
    assert_eq!(w.course(C), Course::Completed);
    assert_eq!(w.turns().len(), 1);
    assert_eq!(w.agree(C).suppressed, 2);
}

// REQ BK-7
fn ends_without_an_attempt_are_counted_and_cost_no_wait(w: &mut World<impl Fresh>) {
    w.create(&Tenant::default(), C, |_| {});
    w.enlist(C, (1..=4).map(person).collect()).unwrap();
    w.start(C);
    let until = Some(START + secs(30));
    let late = Draft { expires_at: until, ..draft_of(C, 2) };
    w.feed(C, vec![(2, Serving::Message(Box::new(late)))]).unwrap();
    w.serve(C, [1, 3]);
    let [one, two] = [1, 2].map(|number| w.message_of(C, number));
    assert_eq!(w.cancel(one), Cancelled::Done);
    let roll = w.agree(C);
    assert_eq!((roll.cancelled, roll.queued, roll.ahead), (1, 2, 2));
    w.pass(secs(30));
    assert_eq!(w.expire(10), 1);
    let roll = w.agree(C);
    assert_eq!((roll.failed, roll.queued, roll.ahead), (1, 1, 1));
    w.is(two, StateName::Failed);
    let claimed = w.claim_one();
    assert_eq!(w.cancel(claimed.message.id), Cancelled::TooLate(StateName::Sending));
    w.settle(&claimed, End::Retry(Span::ZERO));
    // One that was tried is not among those that were made ahead.
    assert_eq!(w.cancel(claimed.message.id), Cancelled::Done);
    let roll = w.agree(C);
    assert_eq!((roll.cancelled, roll.queued, roll.ahead, roll.pending), (2, 0, 0, 1));
    assert_eq!(w.course(C), Course::Running);
    w.serve(C, [4]);
    let four = w.message_of(C, 4);
    w.cancel(four);
    assert_eq!(w.course(C), Course::Completed);
    use Standing::{Cancelled as Called, Failed};
    assert_eq!(w.standings(C), [Called, Failed, Called, Called]);
}

// REQ BK-8
fn whoever_is_found_suppressed_at_the_last_moment_is_left_out_and_costs_no_wait(w: &mut World<impl Fresh>) {
    w.running(C, 2);
    let claimed = w.claim_one();
    let before = w.audit().len();
    assert_eq!(w.leave_out(&claimed, "opt_out"), Settled::Done);
    w.is(claimed.message.id, StateName::Cancelled);
    let deeds = w.story(claimed.message.id).deeds;
    let note = deeds[0].note.as_deref();
    assert_eq!((deeds.len(), deeds[0].by.0.as_str()), (1, "pombo"));
    assert_eq!(note, Some("the recipient is on the suppression list: opt_out"));
    let told: Vec<Record> = w.audit().split_off(before);
    assert_eq!(told.iter().map(|it| it.event).collect::<Vec<_>>(), [Event::Released, Event::Cancelled]);
    assert_eq!(told[1].detail, serde_json::json!({"reason": note}).to_string());
    let roll = w.agree(C);
    assert_eq!((roll.suppressed, roll.queued, roll.ahead), (1, 1, 1));
    let listed = w.recipients(C);
    let left_out = listed.iter().find(|it| it.message == Some(claimed.message.id)).unwrap();
    assert_eq!((left_out.standing, left_out.reason.as_deref()), (Standing::Suppressed, Some("opt_out")));
    assert_eq!(w.campaign(C).run.used, Span::ZERO);
    // Whoever lost the claim leaves nobody out.
    assert_eq!(w.leave_out(&claimed, "opt_out"), Settled::Stale);
    // The next goes at once; one that waits for another try is left out as well.
    let claimed = w.claim_one();
    w.settle(&claimed, End::Retry(Span::ZERO));
    w.pass(MIN);
    w.reopen();
    let again = w.claim_one();
    assert_eq!(again.message.id, claimed.message.id);
    assert_eq!(w.leave_out(&again, "complaint"), Settled::Done);
    assert_eq!((w.course(C), w.agree(C).suppressed), (Course::Completed, 2));
    assert_eq!(w.claim(10), []);
    // A message of no campaign ends in the same way.
    w.accept(draft());
    let claimed = w.claim_one();
    assert_eq!(w.leave_out(&claimed, "opt_out"), Settled::Done);
    w.is(claimed.message.id, StateName::Cancelled);
}

// REQ BK-4
fn a_failure_that_is_tried_again_opens_the_campaign(w: &mut World<impl Fresh>) {
    w.running(C, 2);
    for _ in 0..2 {
        let claimed = w.claim_one();
        w.settle(&claimed, End::Failed(FailureReason::PermanentError));
        w.pass(MIN);
    }
    assert_eq!((w.course(C), w.agree(C).failed), (Course::Completed, 2));
    let ids: Vec<MessageId> = [1, 2].map(|number| w.message_of(C, number)).into();
    w.rule(Act::Discard, vec![ids[0]]);
    assert_eq!(w.agree(C).failed, 2, "who was given up was not reached");
    w.rule(Act::Reprocess, ids.clone());
    let roll = w.agree(C);
    assert_eq!((w.course(C), roll.queued, roll.failed, roll.ahead), (Course::Running, 1, 1, 0));
    assert_eq!(w.recipients(C)[1].message, Some(ids[1]), "it is the same message");
    let claimed = w.claim_one();
    w.settle(&claimed, End::Sent);
    assert_eq!((w.course(C), w.agree(C).sent), (Course::Completed, 1));
    assert_eq!(w.turns().len(), 2, "each completion is on record");
}

// REQ BK-7
fn completion_is_recorded_once(w: &mut World<impl Fresh>) {
    w.running(C, 2);
    let claimed = w.claim_one();
    w.settle(&claimed, End::Failed(FailureReason::PermanentError));
    w.pass(MIN);
    let claimed = w.claim_one();
    assert_eq!(w.turns(), []);
    w.settle(&claimed, End::Sent);
    assert_eq!(w.settle(&claimed, End::Sent), Settled::Stale);
    let turns = w.turns();
    assert_eq!(turns.len(), 1);
    let Record { event, actor, channel, message, at, detail, .. } = &turns[0];
    assert_eq!(
        (*event, actor.as_str(), channel.as_str(), *message, *at),
        (Event::CampaignCompleted, "pombo", "crm", None, w.now)
    );
    let detail: serde_json::Value = serde_json::from_str(detail).unwrap();
    assert_eq!(detail, serde_json::json!({"campaign": C, "sent": 1, "failed": 1}));
    assert!(!w.audit().iter().any(|record| record.detail.contains("person")), "nobody is named");
}

// REQ BK-7
fn too_many_failures_pause_it_and_say_so(w: &mut World<impl Fresh>) {
    w.create(&Tenant::default(), C, |campaign| campaign.max_failure_rate = Some(0.5));
    w.enlist(C, (1..=40).map(person).collect()).unwrap();
    w.start(C);
    w.serve(C, 1..=40);
    let mut failures = 0;
    while w.course(C) == Course::Running {
        let claimed = w.claim_one();
        w.settle(&claimed, End::Failed(FailureReason::PermanentError));
        failures += 1;
        w.pass(MIN);
    }
    assert_eq!(failures, 20);
    assert_eq!((w.claim(10), w.next_due()), (vec![], None));
    let turns = w.turns();
    assert_eq!((turns.len(), turns[0].event), (1, Event::CampaignPaused));
    let detail: serde_json::Value = serde_json::from_str(&turns[0].detail).unwrap();
    assert_eq!((detail["campaign"].as_str(), detail["reason"].as_str()), (Some(C), Some("failure_rate")));
    assert_eq!(w.agree(C).failed, 20);
}

fn only_a_list_without_a_campaign_is_struck(w: &mut World<impl Fresh>) {
    let tenant = Tenant::default();
    w.create(&tenant, C, |_| {});
    w.enlist(C, (1..=3).map(person).collect()).unwrap();
    // Whoever is on the list of a draft counts there: somebody may have made it anew.
    assert_eq!(w.core.strike(&tenant, &name(C), 10).unwrap(), 0);
    w.start(C);
    assert_eq!(w.core.strike(&tenant, &name(C), 10).unwrap(), 0);
    w.commit();
    assert_eq!(w.agree(C).recipients, 3);
    // One whose document is gone is struck in parts.
    w.create(&tenant, D, |_| {});
    w.enlist(D, (1..=3).map(person).collect()).unwrap();
    w.remove(&tenant, D);
    assert_eq!(w.core.strike(&tenant, &name(D), 2).unwrap(), 2);
    assert_eq!(w.core.strike(&tenant, &name(D), 2).unwrap(), 1);
    assert_eq!(w.core.strike(&tenant, &name(D), 2).unwrap(), 0);
    w.commit();
    assert_eq!((w.recipients(D), w.recipients(C).len()), (vec![], 3));
}

// invariant 14
fn tenants_have_campaigns_of_the_same_name(w: &mut World<impl Fresh>) {
    let acme: Tenant = "acme".parse().unwrap();
    w.running(C, 2);
    w.create(&acme, C, |_| {});
    let wish = Enlist { tenant: acme.clone(), campaign: name(C), lines: vec![person(1)], by: ana() };
    assert_eq!(w.core.enlist(&wish, w.now).unwrap(), Ok(vec![Enlisted::Added]));
    w.commit();
    let theirs = Roster { tenant: acme.clone(), campaign: name(C), standing: None, after: 0, limit: 9 };
    assert_eq!(w.read().recipients(&theirs).unwrap().len(), 1);
    assert_eq!(w.recipients(C).len(), 2);
    let claimed = w.claim_one();
    w.settle(&claimed, End::Sent);
    let of_acme = w.of(&acme, C);
    assert_eq!(
        (of_acme.state.name(), of_acme.roll.pending, of_acme.free_at),
        (Course::Draft, 1, Time::default())
    );
    // Theirs can be struck and cannot be cut, whatever ours does.
    assert!(!w.core.cut(&acme, &name(C), w.now + mins(600)).unwrap());
    w.remove(&acme, C);
    assert_eq!(w.core.strike(&acme, &name(C), 9).unwrap(), 1);
    w.commit();
    assert_eq!(w.agree(C).sent, 1);
}

fn it_is_due_when_somebody_must_see_to_it(w: &mut World<impl Fresh>) {
    fn due(w: &mut World<impl Fresh>) -> Option<Time> {
        w.read().doc(Shelf::Campaign, &Tenant::default(), C).unwrap().unwrap().leaf.due
    }
    w.create(&Tenant::default(), C, |_| {});
    w.enlist(C, (1..=3).map(person).collect()).unwrap();
    assert_eq!(due(w), None);
    w.start(C);
    assert_eq!(due(w), Some(w.now), "it is hungry");
    w.serve(C, 1..=3);
    assert_eq!(due(w), None);
    let claimed = w.claim_one();
    assert_eq!(due(w), w.campaign(C).cut_at());
    w.settle(&claimed, End::Sent);
    assert_eq!(due(w), None);
}
