//! Whoever looks after campaigns: makes and starts them, makes their messages, cuts off and calls off. It sees what is
//! committed, and what it asks for may come late, twice or never.

use pombo_kernel::campaign::recipient::{Listed, Person, Refusal, Standing};
use pombo_kernel::campaign::{Campaign, PauseReason, State};
use pombo_kernel::message::{Body, Draft, Priority, QueueName};
use pombo_store::audit::Event;
use pombo_store::core::Reading;
use pombo_store::roster::{self, Enlist, Feed, Recipient, Roster, Serving};
use pombo_store::shelf::{Doc, Expect, Shelf, Shelve};

use super::{Happening, World};
use crate::call::{Call, Caller, ana};
use crate::chance::Chance;
use crate::house::Lasting;
use crate::oracle::Checked;
use crate::plan::{DESTINATIONS, Drive};

/// How long it looks elsewhere at most, in milliseconds.
pub(super) const SLOWEST: u64 = 6_000;
/// One of so many is not to be written to, and of so many others no message can be made.
const SUPPRESSED_EVERY: u64 = 7;
const UNMADE_EVERY: u64 = 11;

/// What happens to a recipient by its number, where that is not a message.
pub(crate) fn left_out(number: u64) -> Option<Standing> {
    if number.is_multiple_of(SUPPRESSED_EVERY) {
        Some(Standing::Suppressed)
    } else if number.is_multiple_of(UNMADE_EVERY) {
        Some(Standing::Failed)
    } else {
        None
    }
}

/// Everybody of a campaign, somebody twice, and a line by which nobody can be written to.
fn listed(people: u64) -> Vec<Listed> {
    let person = |n: u64| {
        let (to, key) = (format!("person {n}"), format!("p{n}"));
        Listed { line: n, of: Ok(Person { to, key, payload: None }) }
    };
    let nobody = Refusal { to: "?".into(), reason: "not an address".into() };
    let odd = [person(1), Listed { line: people + 2, of: Err(nobody) }];
    (1..=people).map(person).chain(odd).collect()
}

impl<C: Lasting> World<C> {
    pub(super) fn conduct(&mut self) -> Checked {
        let drives = self.plan.drives.clone();
        let now = self.now;
        for drive in drives.iter().filter(|drive| drive.at <= now) {
            self.look_after(drive)?;
        }
        let after = self.dice.between(300, SLOWEST);
        self.later(after, Happening::Conduct);
        Ok(())
    }

    fn look_after(&mut self, drive: &Drive) -> Checked {
        let now = self.clock_now();
        let Some(house) = &mut self.house else { return Ok(()) };
        let doc = house.reader.doc(Shelf::Campaign, &drive.tenant, drive.name.as_str())?;
        let Some((doc, mut campaign)) =
            doc.and_then(|doc| roster::read(&doc).map(|campaign| (doc, campaign)))
        else {
            self.change(drive, None, &drive.draft, Event::CampaignCreated);
            return Ok(());
        };
        match &campaign.state {
            State::Draft if campaign.roll.recipients == 0 => {
                let (tenant, campaign, lines) =
                    (drive.tenant.clone(), drive.name.clone(), listed(drive.people));
                self.call(Caller::Outside, Call::Enlist(Enlist { tenant, campaign, lines, by: ana() }), 0);
            }
            State::Paused { reason: PauseReason::Cancelling, .. } => self.call_off(drive, &doc, campaign)?,
            State::Draft | State::Paused { .. } => {
                if (self.calm || self.dice.one_in(4)) && campaign.start(now).is_ok() {
                    self.change(drive, Some(&doc), &campaign, Event::CampaignStarted);
                }
            }
            State::Running { .. } => {
                if drive.pauses && !self.calm && self.dice.one_in(20) {
                    let calls_off = self.dice.one_in(6);
                    let reason = if calls_off { PauseReason::Cancelling } else { PauseReason::Operator };
                    if campaign.pause(reason, String::new(), &ana(), now).is_ok() {
                        self.change(drive, Some(&doc), &campaign, Event::CampaignPaused);
                    }
                } else if campaign.appetite() > 0 {
                    self.feed(drive, &campaign)?;
                }
                if campaign.cut_at().is_some_and(|at| at <= now) {
                    self.call(Caller::Outside, Call::Cut(drive.tenant.clone(), drive.name.clone()), 0);
                }
            }
            State::Scheduled { .. } | State::Completed { .. } | State::Cancelled { .. } => {}
        }
        Ok(())
    }

    /// Somebody wants a campaign to be so, if it is still what they saw.
    fn change(&mut self, drive: &Drive, seen: Option<&Doc>, campaign: &Campaign, event: Event) {
        let (tenant, id) = (drive.tenant.clone(), drive.name.to_string());
        self.note(format_args!("somebody wants {id} to be {}", campaign.state.name()));
        let detail = format!(r#"{{"campaign":"{id}"}}"#);
        let mut record =
            roster::record(event, &tenant, campaign, &ana(), &Default::default(), self.clock_now());
        record.detail = detail;
        let expect = seen.map_or(Expect::Nothing, |doc| Expect::Version(doc.version));
        let leaf = Some(roster::leaf(campaign));
        let wish = Shelve { shelf: Shelf::Campaign, tenant, id, expect, leaf, record: Some(record) };
        self.call(Caller::Outside, Call::Shelve(wish), 0);
    }

    fn some_recipients(
        &mut self,
        drive: &Drive,
        standing: Standing,
        limit: usize,
    ) -> Checked<Vec<Recipient>> {
        let Some(house) = &mut self.house else { return Ok(Vec::new()) };
        let (tenant, campaign) = (drive.tenant.clone(), drive.name.clone());
        let roster = Roster { tenant, campaign, standing: Some(standing), after: 0, limit };
        Ok(house.reader.recipients(&roster)?)
    }

    fn feed(&mut self, drive: &Drive, campaign: &Campaign) -> Checked {
        let hungry = usize::try_from(campaign.appetite()).unwrap_or(0);
        let mut servings = Vec::new();
        for recipient in self.some_recipients(drive, Standing::Pending, hungry)? {
            let number = recipient.number;
            let serving = match left_out(number) {
                Some(Standing::Suppressed) => Serving::Suppressed("opted out".into()),
                Some(_) => Serving::Failed("no words".into()),
                None => Serving::Message(Box::new(self.draft(drive, &recipient))),
            };
            servings.push((number, serving));
        }
        let feed = Feed { tenant: drive.tenant.clone(), campaign: drive.name.clone(), servings };
        self.call(Caller::Outside, Call::Feed(feed), 0);
        Ok(())
    }

    fn draft(&mut self, drive: &Drive, recipient: &Recipient) -> Draft {
        let Campaign { channel, lane, expires_after, .. } = &drive.draft;
        let queue = QueueName {
            tenant: drive.tenant.clone(),
            lane: lane.clone(),
            channel: channel.clone(),
            destination: (*self.dice.pick(&DESTINATIONS)).into(),
            campaign: Some(drive.name.clone()),
        };
        let reference = Some(format!("{}.{}", drive.name, recipient.number));
        Draft {
            id: None,
            queue,
            priority: Priority::default(),
            send_at: None,
            expires_at: expires_after.map(|span| self.clock_now() + span),
            ordering_key: None,
            idempotency: None,
            body: Body { to: recipient.to.clone(), reference, ..Body::default() },
            blobs: Vec::new(),
        }
    }

    /// Calls back what was made ahead; once nothing is left of it, the campaign is at its end.
    fn call_off(&mut self, drive: &Drive, doc: &Doc, mut campaign: Campaign) -> Checked {
        for recipient in self.some_recipients(drive, Standing::Queued, 100)? {
            let id =
                recipient.message.filter(|id| campaign.flight.is_none_or(|flight| flight.message != *id));
            if let Some(id) = id {
                let tenant = drive.tenant.clone();
                self.call(Caller::Outside, Call::Cancel { tenant, id, by: ana() }, 0);
            }
        }
        if campaign.roll.queued == 0 && campaign.flight.is_none() {
            campaign.cancelled(&ana(), self.clock_now());
            self.change(drive, Some(doc), &campaign, Event::CampaignCancelled);
        }
        Ok(())
    }
}
