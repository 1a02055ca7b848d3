//! Campaigns as documents: how they are put on their shelf, changed there and seen by callers.

use pombo_kernel::campaign::forecast::Outlook;
use pombo_kernel::campaign::waiting::Waiting;
use pombo_kernel::campaign::{Campaign, PauseReason, Roll, State, StateName};
use pombo_kernel::message::Actor;
use pombo_kernel::name::{ChannelName, LaneName, TemplateName, Tenant};
use pombo_kernel::setup::Setup;
use pombo_kernel::time::{Span, Time};
use pombo_kernel::turns::Weight;
use pombo_kernel::window::Window;
use pombo_store::audit::Event;
use pombo_store::shelf::{Doc, Expect, Shelf, Shelve};
use pombo_store::{Store, StoreError, roster};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::course::Course;
use crate::shelf;

/// The beginning of every campaign's id.
pub const PREFIX: &str = "cmp_";

/// A wish to put a new campaign there.
pub fn begin(tenant: &Tenant, id: &str, campaign: &Campaign) -> Shelve {
    let Campaign { template, template_version, created_by, created_at, .. } = campaign;
    let detail = json!({"campaign": id, "template": template, "template_version": template_version});
    let record = roster::record(Event::CampaignCreated, tenant, campaign, created_by, &detail, *created_at);
    Shelve {
        shelf: Shelf::Campaign,
        tenant: tenant.clone(),
        id: id.to_owned(),
        expect: Expect::Nothing,
        leaf: Some(roster::leaf(campaign)),
        record: Some(record),
    }
}

/// A wish to change it from what was read. `detail` is what the audit says of it beside its id, and nothing personal.
pub fn change(
    doc: &Doc,
    campaign: &Campaign,
    (event, detail): (Event, Value),
    by: &Actor,
    now: Time,
) -> Shelve {
    Shelve { leaf: Some(roster::leaf(campaign)), ..wish(doc, campaign, (event, detail), by, now) }
}

/// A wish to take it away as it was read.
pub fn remove(doc: &Doc, campaign: &Campaign, by: &Actor, now: Time) -> Shelve {
    wish(doc, campaign, (Event::CampaignRemoved, Value::Null), by, now)
}

fn wish(doc: &Doc, campaign: &Campaign, (event, detail): (Event, Value), by: &Actor, now: Time) -> Shelve {
    let mut said = Map::from_iter([("campaign".to_owned(), doc.id.as_str().into())]);
    if let Value::Object(detail) = detail {
        said.extend(detail);
    }
    Shelve {
        shelf: Shelf::Campaign,
        tenant: doc.tenant.clone(),
        id: doc.id.clone(),
        expect: Expect::Version(doc.version),
        leaf: None,
        record: Some(roster::record(event, &doc.tenant, campaign, by, &Value::Object(said), now)),
    }
}

/// Changes a campaign from what was read as `act` does, anew if somebody else changed it meanwhile, which claims and
/// settlements of its messages do all the time. `act` says what the audit is told, and nothing is changed if it says
/// nothing. None if the campaign is gone.
pub async fn alter<E: From<StoreError>>(
    store: &dyn Store,
    doc: Doc,
    (by, now): (&Actor, Time),
    act: impl Fn(&mut Campaign) -> Result<Option<(Event, Value)>, E>,
) -> Result<Option<(Doc, Campaign)>, E> {
    shelf::change(store, Some(doc), |doc| {
        let Some((doc, mut campaign)) = doc.and_then(|doc| Some((doc, roster::read(doc)?))) else {
            return Ok((None, None));
        };
        let Some(said) = act(&mut campaign)? else { return Ok((None, Some((doc.clone(), campaign)))) };
        let wish = change(doc, &campaign, said, by, now);
        let (version, leaf) = (doc.version + 1, roster::leaf(&campaign));
        let changed = Doc { version, updated_at: now, leaf, ..doc.clone() };
        Ok((Some(wish), Some((changed, campaign))))
    })
    .await
}

/// A campaign as callers see it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Campaign")]
pub struct CampaignView {
    /// `cmp_` and 32 hexadecimal digits. Its messages name it.
    pub id: String,
    pub name: String,
    pub channel: ChannelName,
    pub lane: LaneName,
    pub template: TemplateName,
    /// The version that is sent, whatever becomes of the template.
    pub template_version: u32,
    /// What the template says to everybody.
    pub payload: Map<String, Value>,
    /// From the end of one send to the start of the next, at least.
    pub throttle_min_seconds: f64,
    pub throttle_max_seconds: f64,
    /// When it may send.
    pub window: Option<Window>,
    /// How many turns its messages get in their lane where those of others get one.
    pub weight: Weight,
    /// It pauses once this share of the last sends failed; never if null.
    pub max_failure_rate: Option<f64>,
    /// A message that is unsent so long after it was made is given up.
    pub expires_after: Option<Span>,
    pub state: StateName,
    pub pause_reason: Option<PauseReason>,
    pub pause_note: Option<String>,
    /// When a scheduled one begins.
    pub start_at: Option<Time>,
    pub counts: CountsView,
    pub limits: LimitsView,
    /// Recipients reached or given up in an hour: over those sends of this run whose wait is over, and the time that these
    /// and their waits took; null before the first.
    pub rate_per_hour: Option<f64>,
    /// When the last recipient will have been reached at the mean pace, its hours, its line's rules, the other campaigns
    /// of the line and retries that are due counted; of one that has not begun, from now or its time on. Null while it
    /// is paused, where nobody can say, and if that is more than five years away.
    pub eta: Option<Time>,
    /// When the next send of a running one may set out; null while one is under way, and if nobody can say.
    pub next_send_at: Option<Time>,
    /// Why a running one does not send at this moment; null while nothing is in its way. Also of one that has not begun
    /// or is paused if there is no hour in which it may send.
    pub waiting: Option<Waiting>,
    /// A message is being sent.
    pub in_flight: bool,
    pub created_at: Time,
    pub created_by: String,
    pub started_at: Option<Time>,
    pub finished_at: Option<Time>,
}

/// How many recipients stand where.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CampaignCounts")]
pub struct CountsView {
    /// Everybody on the list: those that follow, together, but for `invalid` and `duplicates`.
    pub recipients: u64,
    /// No message was made yet.
    pub pending: u64,
    /// A message waits or is being sent.
    pub queued: u64,
    pub sent: u64,
    pub failed: u64,
    pub cancelled: u64,
    /// Left out, since they are not to be written to.
    pub suppressed: u64,
    /// Lines by which nobody can be written to.
    pub invalid: u64,
    /// Lines that repeat somebody.
    pub duplicates: u64,
}

impl From<Roll> for CountsView {
    fn from(roll: Roll) -> CountsView {
        CountsView {
            recipients: roll.recipients,
            pending: roll.pending,
            queued: roll.queued,
            sent: roll.sent,
            failed: roll.failed,
            cancelled: roll.cancelled,
            suppressed: roll.suppressed,
            invalid: roll.invalid,
            duplicates: roll.duplicates,
        }
    }
}

/// How long a run may take; of one that has not begun, how long it would be allowed to.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CampaignLimits")]
pub struct LimitsView {
    pub estimated_seconds: u64,
    /// Then it pauses after the send that is under way.
    pub soft_seconds: u64,
    /// Then that send is cut off.
    pub hard_seconds: u64,
    /// What sends and the waits after them have taken in this run.
    pub used_seconds: u64,
}

impl LimitsView {
    pub(crate) fn of(campaign: &Campaign) -> LimitsView {
        let whole = |span: Span| (span.millis() + 500) / 1_000;
        let limits = campaign.limits();
        LimitsView {
            estimated_seconds: whole(limits.estimated),
            soft_seconds: whole(limits.soft),
            hard_seconds: whole(limits.hard),
            used_seconds: whole(campaign.run.used),
        }
    }
}

/// A campaign as it is now, for callers.
pub async fn seen(
    store: &dyn Store,
    setup: &Setup,
    id: &str,
    campaign: &Campaign,
    now: Time,
) -> Result<CampaignView, StoreError> {
    let course = Course::of(store, setup, campaign, now).await?;
    Ok(CampaignView::of(id, campaign, &course.outlook(store, id, campaign).await?, now))
}

impl CampaignView {
    pub(crate) fn of(id: &str, campaign: &Campaign, outlook: &Outlook<'_>, now: Time) -> CampaignView {
        let (mut reason, mut note, mut start_at, mut finished) = (None, None, None, None);
        match &campaign.state {
            State::Draft | State::Running { .. } => {}
            State::Scheduled { start_at: at } => start_at = Some(*at),
            State::Paused { reason: why, note: said, start_at: at, .. } => {
                (reason, note) = (Some(*why), Some(said.clone()).filter(|said| !said.is_empty()));
                start_at = *at;
            }
            State::Completed { finished_at } | State::Cancelled { finished_at, .. } => {
                finished = Some(*finished_at);
            }
        }
        CampaignView {
            id: id.to_owned(),
            name: campaign.name.clone(),
            channel: campaign.channel.clone(),
            lane: campaign.lane.clone(),
            template: campaign.template.clone(),
            template_version: campaign.template_version,
            payload: campaign.payload.clone(),
            throttle_min_seconds: campaign.throttle.min().seconds(),
            throttle_max_seconds: campaign.throttle.max().seconds(),
            window: campaign.window.clone(),
            weight: campaign.weight,
            max_failure_rate: campaign.max_failure_rate,
            expires_after: campaign.expires_after,
            state: campaign.state.name(),
            pause_reason: reason,
            pause_note: note,
            start_at,
            counts: campaign.roll.into(),
            limits: LimitsView::of(campaign),
            rate_per_hour: campaign.rate_per_hour(now).map(|rate| (rate * 10.0).round() / 10.0),
            eta: campaign.eta(outlook, now),
            next_send_at: campaign.next_send(outlook, now),
            waiting: campaign.waiting(outlook, now),
            in_flight: campaign.flight.is_some(),
            created_at: campaign.created_at,
            created_by: campaign.created_by.0.clone(),
            started_at: campaign.started_at,
            finished_at: finished,
        }
    }
}
