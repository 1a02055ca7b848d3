//! Campaigns among the random commands: made, started, stopped, listed for, fed and cut off.

use pombo_kernel::campaign::line::LineRules;
use pombo_kernel::campaign::recipient::{Listed, Person, Refusal};
use pombo_kernel::campaign::{Campaign, PauseReason, State};
use pombo_kernel::message::{Actor, ClaimId, Draft, QueueName};
use pombo_kernel::name::{CampaignName, Tenant};
use pombo_kernel::time::{Span, Time};
use pombo_kernel::turns::Weight;
use pombo_store::StoreError;
use pombo_store::core::{Core, Reading};
use pombo_store::roster::{self, Enlist, Feed, Recipient, Roster, Serving};
use pombo_store::shelf::{Doc, Expect, Shelf, Shelve, Shelved};

use super::roll::{Roll, TENANTS, Wish};
use super::{Pair, ours, same};
use crate::world::Fresh;

/// To the first of them messages are also handed in directly.
pub(super) const CAMPAIGNS: [&str; 2] = ["spring", "autumn"];

/// Something that somebody does to a campaign.
#[derive(Clone, Debug)]
pub(super) struct Move {
    tenant: usize,
    campaign: usize,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    /// Makes it, or starts or resumes it if it is there.
    Start,
    Pause(PauseReason),
    Schedule,
    /// Whatever it is, it runs from now on.
    Force,
    Remove,
    /// Adds people by their number, and somebody who cannot be written to where there is none.
    Enlist(Vec<Option<u64>>),
    Feed(Vec<(u64, Fare)>),
    Strike(usize),
    Cut,
}

#[derive(Clone, Debug)]
enum Fare {
    Message(Box<Wish>),
    Suppressed,
    Failed,
}

impl Move {
    /// What lets all messages go, wherever they are.
    pub(super) fn forced() -> impl Iterator<Item = Move> {
        let campaigns =
            |tenant| (0..CAMPAIGNS.len()).map(move |campaign| Move { tenant, campaign, what: What::Force });
        (0..TENANTS.len()).flat_map(campaigns)
    }
}

impl Roll {
    /// A campaign that runs and has something to send.
    pub(super) fn campaign_under_way(&mut self) -> impl Iterator<Item = Move> + use<> {
        let (tenant, campaign) = (self.pick(&[0, 0, 1]), self.below(CAMPAIGNS.len()));
        let fares = (1..=self.secs(6)).map(|number| (number, self.fare())).collect();
        let people = What::Enlist((0..6).map(Some).collect());
        let steps = [What::Start, people, What::Start, What::Feed(fares)];
        steps.into_iter().map(move |what| Move { tenant, campaign, what })
    }

    pub(super) fn campaign_move(&mut self) -> Move {
        let what = match self.below(16) {
            0..5 => What::Start,
            5 => What::Pause(self.pick(&[
                PauseReason::Operator,
                PauseReason::Operator,
                PauseReason::Cancelling,
            ])),
            6 => What::Schedule,
            7 if self.one_in(3) => What::Remove,
            7 | 8 => What::Strike(self.pick(&[1, 10])),
            9 => What::Cut,
            10 | 11 => {
                let people = 0..self.pick(&[1, 2, 5]);
                What::Enlist(people.map(|_| (!self.one_in(6)).then(|| self.secs(9))).collect())
            }
            _ => {
                let people = 0..self.pick(&[1, 2, 5]);
                What::Feed(people.map(|_| (1 + self.secs(6), self.fare())).collect())
            }
        };
        Move { tenant: self.pick(&[0, 0, 0, 1]), campaign: self.below(CAMPAIGNS.len()), what }
    }

    fn fare(&mut self) -> Fare {
        match self.below(6) {
            0 => Fare::Suppressed,
            1 => Fare::Failed,
            _ => {
                let mut wish = self.wish();
                wish.draft.idempotency = None;
                Fare::Message(Box::new(wish))
            }
        }
    }
}

/// What campaigns have to mind on a channel.
pub(super) fn rules() -> LineRules {
    LineRules { gap: Some(Span::from_secs(4)), daily_cap: Some(6), ..LineRules::default() }
}

fn made(now: Time) -> Campaign {
    let text = r#"{"name": "Some", "channel": "crm", "lane": "default", "template": "some", "template_version": 1,
        "throttle_min_seconds": 3, "throttle_max_seconds": 9, "max_failure_rate": 0.4,
        "created_at": "2026-05-01T12:00:00Z", "created_by": "ana", "state": "draft"}"#;
    let mut made: Campaign = serde_json::from_str(text).unwrap();
    made.created_at = now;
    made.weight = Weight::new(if (now.millis() / 1_000) % 2 == 0 { 1 } else { 3 }).unwrap();
    made
}

/// What somebody wants of a campaign that is there; none if it is refused.
fn changed(mut campaign: Campaign, what: &What, now: Time) -> Option<Campaign> {
    let ana = Actor("ana".into());
    match what {
        What::Start => campaign.start(now).ok()?,
        What::Pause(reason) => campaign.pause(*reason, "so".into(), &ana, now).ok()?,
        What::Schedule => campaign.schedule(now + Span::from_secs(30)).ok()?,
        What::Force => campaign.state = State::Running { since: now },
        _ => return None,
    }
    Some(campaign)
}

/// A document of a campaign as the model would have it, which may count claims otherwise.
fn as_ours(mut doc: Doc, tokens: &[(ClaimId, ClaimId)]) -> Doc {
    if let Some(mut campaign) = roster::read(&doc)
        && let Some(flight) = &mut campaign.flight
    {
        flight.claim = ours(tokens, ClaimId(flight.claim)).0;
        doc.leaf = roster::leaf(&campaign);
    }
    doc
}

/// Puts a campaign, or changes the one that is there; what the store said to each wish.
fn shelve(
    core: &mut impl Core,
    (tenant, id): (&Tenant, &str),
    what: &What,
    now: Time,
) -> Result<Vec<Shelved>, StoreError> {
    let wish = |expect, leaf| {
        let (tenant, id) = (tenant.clone(), id.to_owned());
        Shelve { shelf: Shelf::Campaign, tenant, id, expect, leaf, record: None }
    };
    if matches!(what, What::Remove) {
        return Ok(vec![core.shelve(&wish(Expect::Any, None), now)?]);
    }
    // Whoever expects nothing is shown what there is.
    let forced = matches!(what, What::Force).then(|| changed(made(now), what, now)).flatten();
    let first = roster::leaf(&forced.unwrap_or_else(|| made(now)));
    let first = core.shelve(&wish(Expect::Nothing, Some(first)), now)?;
    let Shelved::Conflict(Some(doc)) = &first else { return Ok(vec![first]) };
    let Some(next) = roster::read(doc).and_then(|campaign| changed(campaign, what, now)) else {
        return Ok(vec![first]);
    };
    let second = core.shelve(&wish(Expect::Version(doc.version), Some(roster::leaf(&next))), now)?;
    Ok(vec![first, second])
}

impl<C: Fresh> Pair<C> {
    pub(super) fn play_move(&mut self, Move { tenant, campaign, what }: &Move) -> Result<(), String> {
        let now = self.now;
        let tenant: Tenant = TENANTS[*tenant].parse().unwrap();
        let id = CAMPAIGNS[*campaign];
        let name: CampaignName = id.parse().unwrap();
        let (model, other) = (&mut self.model, &mut self.other);
        match what {
            What::Enlist(people) => {
                let listed = |(line, number): (usize, &Option<u64>)| Listed {
                    line: line as u64 + 1,
                    of: match number {
                        Some(number) => Ok(Person {
                            to: format!("person {number}"),
                            key: format!("p{number}"),
                            payload: None,
                        }),
                        None => Err(Refusal { to: "?\0".into(), reason: "nobody".into() }),
                    },
                };
                let lines = people.iter().enumerate().map(listed).collect();
                let wish = Enlist { tenant, campaign: name, lines, by: Actor("ana".into()) };
                let _ = same("enlist", model.enlist(&wish, now).unwrap(), other.enlist(&wish, now))?;
            }
            What::Feed(fares) => {
                let serving = |(number, fare): &(u64, Fare)| {
                    let serving = match fare {
                        Fare::Suppressed => Serving::Suppressed("opted out\0".into()),
                        Fare::Failed => Serving::Failed("no".into()),
                        Fare::Message(wish) => {
                            let draft = wish.at(now);
                            let campaign = Some(name.clone());
                            let queue = QueueName { tenant: tenant.clone(), campaign, ..draft.queue };
                            Serving::Message(Box::new(Draft { queue, ..draft }))
                        }
                    };
                    (*number, serving)
                };
                let servings = fares.iter().map(serving).collect();
                let feed = Feed { tenant, campaign: name.clone(), servings };
                let _ = same("feed", model.feed(&feed, now).unwrap(), other.feed(&feed, now))?;
            }
            What::Strike(max) => {
                let struck = model.strike(&tenant, &name, *max).unwrap();
                same("strike", struck, other.strike(&tenant, &name, *max))?;
            }
            What::Cut => {
                same("cut", model.cut(&tenant, &name, now).unwrap(), other.cut(&tenant, &name, now))?;
            }
            _ => {
                let said = shelve(model, (&tenant, id), what, now).unwrap();
                let tokens = &self.tokens;
                let others = shelve(other, (&tenant, id), what, now).map(|said| {
                    let as_ours = |said| match said {
                        Shelved::Conflict(doc) => Shelved::Conflict(doc.map(|doc| as_ours(doc, tokens))),
                        done => done,
                    };
                    said.into_iter().map(as_ours).collect()
                });
                same("campaign", said, others)?;
            }
        }
        Ok(())
    }

    /// Notes the messages that feeds have made, which only the lists tell.
    pub(super) fn note_fed(&mut self) {
        let mut reader = self.model.reader().unwrap();
        for (tenant, campaign) in everywhere() {
            let made = recipients(&mut reader, &tenant, campaign).unwrap();
            let made: Vec<_> = made.into_iter().filter_map(|recipient| recipient.message).collect();
            self.ids.extend(made.into_iter().filter(|id| !self.ids.contains(id)).collect::<Vec<_>>());
        }
    }

    /// Campaigns, their lists, and lines.
    pub(super) fn compare_campaigns(&mut self) -> Result<(), String> {
        let mut model = self.model.reader().unwrap();
        let mut other = self.other.reader().map_err(|error| format!("reader: {error}"))?;
        for (tenant, id) in everywhere() {
            let theirs = other.doc(Shelf::Campaign, &tenant, id);
            let theirs = theirs.map(|doc| doc.map(|doc| as_ours(doc, &self.tokens)));
            same("campaign", model.doc(Shelf::Campaign, &tenant, id).unwrap(), theirs)?;
            let listed = recipients(&mut model, &tenant, id).unwrap();
            same("recipients", listed, recipients(&mut other, &tenant, id))?;
        }
        let tenant = Tenant::default();
        for channel in ["crm", "mail"] {
            let line = model.doc(Shelf::Line, &tenant, channel).unwrap();
            same("line", line, other.doc(Shelf::Line, &tenant, channel))?;
        }
        Ok(())
    }
}

fn everywhere() -> impl Iterator<Item = (Tenant, &'static str)> {
    TENANTS.iter().flat_map(|tenant| CAMPAIGNS.map(|campaign| (tenant.parse().unwrap(), campaign)))
}

/// All of a list, and once more by where they stand.
fn recipients(
    reader: &mut impl Reading,
    tenant: &Tenant,
    campaign: &str,
) -> Result<Vec<Recipient>, StoreError> {
    let (tenant, campaign) = (tenant.clone(), campaign.parse().unwrap());
    let all = Roster { tenant, campaign, standing: None, after: 0, limit: 1_000 };
    let mut listed = reader.recipients(&all)?;
    for standing in pombo_kernel::campaign::recipient::Standing::ALL {
        let some = Roster { standing: Some(*standing), after: 1, limit: 3, ..all.clone() };
        listed.extend(reader.recipients(&some)?);
    }
    Ok(listed)
}
