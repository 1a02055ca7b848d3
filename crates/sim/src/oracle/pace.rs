//! Campaigns: when their messages may set out, that nobody is written to twice, and that counts are what happened.
//!
//! A send begins when it is claimed and ends when its result is recorded, whoever records it: the store's clock says
//! when, so that it holds whatever clocks nodes have and however these jump.

use std::collections::{BTreeMap, BTreeSet};

use pombo_kernel::campaign::line::LineRules;
use pombo_kernel::campaign::recipient::Standing;
use pombo_kernel::campaign::{Roll, StateName as Course};
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Message, StateName};
use pombo_kernel::name::{CampaignName, ChannelName};
use pombo_kernel::time::{Span, Time};
use pombo_store::audit::{Event, Record};
use pombo_store::core::Reading;
use pombo_store::roster::{self, Roster};
use pombo_store::shelf::Shelf;

use super::{Checked, Oracle, broken, field, hold};
use crate::plan::{Drive, Plan};
use crate::world::left_out;

/// One at a time, and a pause after each: so go the messages of a campaign, and so go those of a line that has a gap.
#[derive(Debug, Default)]
struct Pace {
    flight: Option<MessageId>,
    ended: Option<Time>,
}

impl Pace {
    fn begins(&mut self, (what, name): (&str, &str), id: MessageId, gap: Span, at: Time) -> Checked {
        let other = self.flight.replace(id);
        hold!(9, other.is_none(), "{name} was claimed while another of {what} was on its way");
        if let Some(ended) = self.ended {
            hold!(9, at >= ended + gap, "{name} was claimed at {at}, within {gap} of {ended}, for {what}");
        }
        Ok(())
    }

    fn ends(&mut self, id: MessageId, at: Time) {
        if self.flight == Some(id) {
            self.flight = None;
            self.ended = self.ended.max(Some(at));
        }
    }

    fn given_back(&mut self, id: MessageId) {
        self.flight = self.flight.filter(|flight| *flight != id);
    }
}

/// How much went through a line on the day of its last claim. Where the clock is set back, a day begins anew.
#[derive(Debug, Default)]
struct Today {
    day: String,
    sends: u32,
    /// When each that is on its way was claimed.
    since: BTreeMap<MessageId, String>,
}

impl Today {
    fn begins(&mut self, name: &str, id: MessageId, rules: &LineRules, at: Time) -> Checked {
        let day = rules.time_zone.day(at).to_string();
        if self.day != day {
            (self.day, self.sends) = (day.clone(), 0);
        }
        self.sends += 1;
        self.since.insert(id, day);
        let (sends, most) = (self.sends, rules.daily_cap.unwrap_or(u32::MAX));
        hold!(9, sends <= most, "{name} is number {sends} of its line on {}, which takes {most}", self.day);
        Ok(())
    }

    fn given_back(&mut self, id: MessageId) {
        if self.since.remove(&id).is_some_and(|day| day == self.day) {
            self.sends -= 1;
        }
    }
}

/// A campaign as the audit tells it.
#[derive(Debug)]
struct Tour {
    state: Course,
    pace: Pace,
    listed: u64,
    /// The references of those for whom there is a message.
    written_to: BTreeSet<String>,
    /// Messages of one that was cancelled which somebody has tried again all the same.
    again: BTreeSet<MessageId>,
}

#[derive(Debug, Default)]
pub(super) struct Courses {
    tours: BTreeMap<CampaignName, Tour>,
    lines: BTreeMap<ChannelName, (Pace, Today)>,
}

impl Courses {
    pub(super) fn is_over(&self, name: &CampaignName) -> bool {
        self.tours.get(name).is_some_and(|tour| matches!(tour.state, Course::Completed | Course::Cancelled))
    }

    pub(super) fn take_in_act(&mut self, record: &Record) -> Checked {
        let Some(name) = field(&record.detail, "campaign").and_then(|name| name.parse::<CampaignName>().ok())
        else {
            return Ok(());
        };
        if record.event == Event::CampaignCreated {
            let tour = Tour {
                state: Course::Draft,
                pace: Pace::default(),
                listed: 0,
                written_to: BTreeSet::new(),
                again: BTreeSet::new(),
            };
            let again = self.tours.insert(name, tour);
            hold!(12, again.is_none(), "made twice: {record:?}");
            return Ok(());
        }
        let Some(tour) = self.tours.get_mut(&name) else {
            return broken(12, format_args!("of a campaign that was never made: {record:?}"));
        };
        match record.event {
            Event::RecipientsListed => {
                let added = field(&record.detail, "added").and_then(|added| added.parse().ok());
                tour.listed += added.unwrap_or(0u64);
            }
            Event::CampaignStarted => tour.state = Course::Running,
            Event::CampaignPaused => tour.state = Course::Paused,
            Event::CampaignCompleted => tour.state = Course::Completed,
            // Told with the message that opened it.
            Event::CampaignResumed => {
                hold!(12, tour.state == Course::Running, "nothing opened it: {record:?}");
            }
            Event::CampaignCancelled => tour.state = Course::Cancelled,
            _ => return broken(12, format_args!("nothing here does that: {record:?}")),
        }
        Ok(())
    }

    /// A message was made.
    pub(super) fn take_in_accepted(&mut self, message: &Message, reference: &str) -> Checked {
        let Some(name) = &message.queue.campaign else { return Ok(()) };
        let Some(tour) = self.tours.get_mut(name) else {
            return broken(12, format_args!("{reference} is of no campaign"));
        };
        let state = tour.state;
        hold!(9, state == Course::Running, "{reference} was made for a campaign that is {state}");
        let first = tour.written_to.insert(reference.to_owned());
        hold!(9, first, "there are two messages for {reference}");
        Ok(())
    }

    /// Something happened to a message.
    pub(super) fn take_in(&mut self, plan: &Plan, message: &Message, name: &str, record: &Record) -> Checked {
        let queue = &message.queue;
        let Some(campaign) = &queue.campaign else { return Ok(()) };
        let Some(tour) = self.tours.get_mut(campaign) else {
            return broken(12, format_args!("{name} is of no campaign"));
        };
        let (id, at) = (message.id, record.at);
        let (line, today) = self.lines.entry(queue.channel.clone()).or_default();
        match record.event {
            Event::Claimed => {
                let state = tour.state;
                let goes =
                    state == Course::Running || (state == Course::Cancelled && tour.again.contains(&id));
                hold!(8, goes, "{name} was claimed, and its campaign is {state}");
                let drive = plan.drives.iter().find(|drive| drive.name == *campaign);
                let min = drive.map_or(Span::ZERO, |drive| drive.draft.throttle.min());
                tour.pace.begins((campaign.as_str(), name), id, min, at)?;
                let opens_at = drive.and_then(|drive| drive.opens_at).unwrap_or_default();
                hold!(9, at >= opens_at, "{name} was claimed at {at}, and its hours begin at {opens_at}");
                if let Some(rules) = plan.channel(&queue.channel).map(|channel| &channel.line) {
                    if let Some(gap) = rules.gap {
                        line.begins((queue.channel.as_str(), name), id, gap, at)?;
                    }
                    today.begins(name, id, rules, at)?;
                }
            }
            Event::TakenOver => {
                let flies = tour.pace.flight == Some(id);
                hold!(9, flies, "{name} was taken over, and was not the one of its campaign");
            }
            Event::Released => {
                tour.pace.given_back(id);
                line.given_back(id);
                today.given_back(id);
            }
            Event::Sent | Event::RetryScheduled | Event::Failed | Event::Held => {
                tour.pace.ends(id, at);
                line.ends(id, at);
            }
            // A failure that is tried again opens a campaign that was at its end.
            Event::Reprocessed if tour.state == Course::Completed => {
                tour.state = Course::Running;
            }
            // One that was cancelled stays so; the letter goes alone.
            Event::Reprocessed if tour.state == Course::Cancelled => drop(tour.again.insert(id)),
            _ => {}
        }
        Ok(())
    }
}

impl Oracle {
    /// The campaigns and their lists, against what happened to their messages.
    pub(super) fn check_courses(&self, reader: &mut impl Reading) -> Checked {
        for (name, tour) in &self.courses.tours {
            let drive = self.plan.drives.iter().find(|drive| drive.name == *name);
            let Some(Drive { tenant, .. }) = drive else { continue };
            for other in self.plan.tenants.iter().filter(|other| *other != tenant) {
                let theirs = reader.doc(Shelf::Campaign, other, name.as_str())?;
                hold!(14, theirs.is_none(), "{other} is shown {theirs:?}");
            }
            let doc = reader.doc(Shelf::Campaign, tenant, name.as_str())?;
            let Some(campaign) = doc.as_ref().and_then(roster::read) else {
                return broken(1, format_args!("{name} is gone"));
            };
            let (state, should) = (campaign.state.name(), tour.state);
            hold!(12, state == should, "{name} is {state}, and by the audit {should}");
            let (flight, should) = (campaign.flight.map(|flight| flight.message), tour.pace.flight);
            hold!(9, flight == should, "{name} has {flight:?} on its way, and by the audit {should:?}");
            let roster = Roster {
                tenant: tenant.clone(),
                campaign: name.clone(),
                standing: None,
                after: 0,
                limit: usize::MAX,
            };
            let mut counted = Roll { duplicates: campaign.roll.duplicates, ..Roll::default() };
            let mut messages = 0;
            for recipient in reader.recipients(&roster)? {
                let (number, standing) = (recipient.number, recipient.standing);
                let message = recipient.message.or_else(|| self.let_go_of(&format!("{name}.{number}")));
                let should = match message.map(|id| self.tales.get(&id)) {
                    Some(Some(tale)) => {
                        messages += 1;
                        let left = tale.gone && recipient.message.is_some();
                        hold!(1, !left, "{number} of {name} has a message that is gone");
                        let of_it = tale.message.body.reference == Some(format!("{name}.{number}"));
                        hold!(9, of_it, "{number} of {name} has another's message");
                        counted.ahead +=
                            u64::from(tale.state == StateName::Pending && tale.progress.steps == 0);
                        let noted = tale.deeds.last().is_some_and(|deed| deed.note.is_some());
                        let opted_out = tale.state == StateName::Cancelled && noted;
                        let reason = opted_out.then_some("opt_out");
                        hold!(9, recipient.reason.as_deref() == reason, "{number} of {name}: {reason:?}");
                        if opted_out { Standing::Suppressed } else { standing_of(tale.state) }
                    }
                    Some(None) => {
                        return broken(1, format_args!("the message of {number} of {name} is gone"));
                    }
                    None if standing == Standing::Pending || standing == Standing::Invalid => standing,
                    None => left_out(number).unwrap_or(Standing::Pending),
                };
                hold!(9, standing == should, "{number} of {name} is {standing}, and should be {should}");
                *place(&mut counted, standing) += 1;
                counted.recipients += u64::from(standing != Standing::Invalid);
            }
            let made = tour.written_to.len();
            hold!(9, messages == made, "{name} made {made} messages, and {messages} have a recipient");
            if tour.state == Course::Cancelled {
                // Whoever had no message yet will not get one.
                counted.cancelled += std::mem::take(&mut counted.pending);
            }
            let listed = tour.listed;
            hold!(1, counted.recipients == listed, "{name} has {counted:?}, and {listed} were listed");
            hold!(
                9,
                campaign.roll == counted,
                "{name} counts {:?}, and there are {counted:?}",
                campaign.roll
            );
        }
        Ok(())
    }
}

fn standing_of(state: StateName) -> Standing {
    match state {
        StateName::Pending | StateName::Sending => Standing::Queued,
        StateName::Sent => Standing::Sent,
        StateName::Failed | StateName::Discarded => Standing::Failed,
        StateName::Cancelled => Standing::Cancelled,
    }
}

fn place(roll: &mut Roll, standing: Standing) -> &mut u64 {
    match standing {
        Standing::Pending => &mut roll.pending,
        Standing::Queued => &mut roll.queued,
        Standing::Sent => &mut roll.sent,
        Standing::Failed => &mut roll.failed,
        Standing::Cancelled => &mut roll.cancelled,
        Standing::Suppressed => &mut roll.suppressed,
        Standing::Invalid => &mut roll.invalid,
    }
}
