//! Campaigns as stores keep them: whom they write to, and how their documents are found.

use pombo_kernel::campaign::recipient::{Listed, Standing};
use pombo_kernel::campaign::{Campaign, Refused, Turn};
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Actor, Draft, Json};
use pombo_kernel::name::{CampaignName, Tenant};
#[cfg(feature = "planted")]
use pombo_kernel::planted;
use pombo_kernel::time::Time;

use crate::audit::{Event, Record};
use crate::shelf::{Doc, Leaf};
use crate::transition;

/// Lines to add to a campaign's list.
#[derive(Clone, Debug, PartialEq)]
pub struct Enlist {
    pub tenant: Tenant,
    pub campaign: CampaignName,
    pub lines: Vec<Listed>,
    pub by: Actor,
}

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enlisted {
    Added,
    /// This person, or this very line, is on the list already.
    Duplicate,
    /// Nobody can be written to by it; kept with its reason.
    Invalid,
}

/// Why nothing was done to a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotDone {
    NotFound,
    Refused(Refused),
}

/// Messages for recipients whose turn comes.
#[derive(Clone, Debug, PartialEq)]
pub struct Feed {
    pub tenant: Tenant,
    pub campaign: CampaignName,
    /// By the recipient's number. Whoever has a message already, or is left out, stays as they are.
    pub servings: Vec<(u64, Serving)>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Serving {
    Message(Box<Draft>),
    /// Not to be written to, for that reason.
    Suppressed(String),
    /// No message can be made, for that reason.
    Failed(String),
}

/// Somebody on a campaign's list.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipient {
    /// The place on the list, from 1 on.
    pub number: u64,
    /// Where it stood in what was read.
    pub line: u64,
    pub to: String,
    pub payload: Option<Json>,
    pub standing: Standing,
    /// Why nobody was written to, where no message says so.
    pub reason: Option<String>,
    pub message: Option<MessageId>,
}

/// Which recipients to list, in the order of their numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Roster {
    pub tenant: Tenant,
    pub campaign: CampaignName,
    pub standing: Option<Standing>,
    /// Those with greater numbers.
    pub after: u64,
    pub limit: usize,
}

/// What is said of a message that ended since its recipient is not to be written to, for that reason.
pub(crate) fn left_out(reason: &str) -> String {
    format!("the recipient is on the suppression list: {reason}")
}

/// How a campaign's document is kept.
pub fn leaf(campaign: &Campaign) -> Leaf {
    Leaf {
        order: campaign.created_at.millis(),
        topic: campaign.on_line().map(str::to_owned),
        due: campaign.due(),
        body: serde_json::to_string(campaign).unwrap_or_default(),
    }
}

/// The campaign of a document; none if a newer version wrote it in a way that this one cannot read.
pub fn read(doc: &Doc) -> Option<Campaign> {
    serde_json::from_str(&doc.leaf.body).ok()
}

/// A document as it is found at a start.
#[cfg(feature = "planted")]
pub(crate) fn found(mut doc: Doc) -> Doc {
    let (flight, pace) =
        (planted::is(planted::Bug::FlightForgotten), planted::is(planted::Bug::PaceForgotten));
    if (flight || pace)
        && let Some(mut campaign) = read(&doc)
    {
        campaign.flight = campaign.flight.filter(|_| !flight);
        campaign.free_at = if pace { Time::default() } else { campaign.free_at };
        doc.leaf = leaf(&campaign);
    }
    doc
}

/// What became of a campaign by itself.
pub(crate) fn turned(id: &str, tenant: &Tenant, campaign: &Campaign, turn: &Turn, at: Time) -> Record {
    let by = Actor::engine();
    let roll = &campaign.roll;
    let (event, detail) = match turn {
        Turn::Completed => {
            let (sent, failed) = (roll.sent, roll.failed);
            (Event::CampaignCompleted, serde_json::json!({"campaign": id, "sent": sent, "failed": failed}))
        }
        Turn::Reopened => (Event::CampaignResumed, serde_json::json!({"campaign": id})),
        Turn::Paused(reason, note) => {
            let detail = serde_json::json!({"campaign": id, "reason": reason, "note": note});
            (Event::CampaignPaused, detail)
        }
    };
    record(event, tenant, campaign, &by, &detail, at)
}

/// How many lines were added to a list, repeated somebody, and name nobody who can be written to. One of the last that
/// was there already counts for nothing.
pub(crate) fn counted(lines: &[Listed], became: &[Enlisted]) -> [u64; 3] {
    [Enlisted::Added, Enlisted::Duplicate, Enlisted::Invalid].map(|what| {
        let counts = |(listed, it): &(&Listed, &Enlisted)| {
            **it == what && (listed.of.is_ok() || what == Enlisted::Invalid)
        };
        lines.iter().zip(became).filter(counts).count() as u64
    })
}

/// So many lines were added to a list, so many repeated somebody, and by so many nobody can be written to.
pub(crate) fn listed(
    id: &CampaignName,
    tenant: &Tenant,
    campaign: &Campaign,
    [added, duplicates, invalid]: [u64; 3],
    by: &Actor,
    at: Time,
) -> Record {
    let detail = serde_json::json!({
        "campaign": id.as_str(), "added": added, "duplicates": duplicates, "invalid": invalid,
    });
    record(Event::RecipientsListed, tenant, campaign, by, &detail, at)
}

/// An act on a campaign. `detail` is a JSON object without anything personal.
pub fn record(
    event: Event,
    tenant: &Tenant,
    campaign: &Campaign,
    by: &Actor,
    detail: &serde_json::Value,
    at: Time,
) -> Record {
    let channel = campaign.channel.as_str().to_owned();
    Record { channel, ..transition::act_of(event, tenant, by, detail, at) }
}
