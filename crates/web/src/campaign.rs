//! Campaigns as documents: how they are put on their shelf, changed there and seen by callers.

use std::collections::BTreeMap;

use pombo_kernel::block::Gate;
use pombo_kernel::campaign::line::{Line, LineRules};
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

use crate::shelf;

/// The beginning of every campaign's id.
pub const PREFIX: &str = "cmp_";
/// Gates that open one after the other before a send.
const GATES: usize = 16;

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
    /// Recipients an hour, of the time that this run has used; null before the first.
    pub rate_per_hour: Option<f64>,
    /// When everybody will have been reached, if nothing is in the way but its pace, its hours and its line's rules.
    pub eta: Option<Time>,
    /// When the next send of a running one may set out; null while one is under way.
    pub next_send_at: Option<Time>,
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

/// A channel as campaigns use it: its rules, and how it stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Course {
    rules: LineRules,
    line: Line,
}

impl Course {
    /// Of a campaign's channel; without rules if there is no such channel any more.
    pub(crate) async fn of(
        store: &dyn Store,
        setup: &Setup,
        campaign: &Campaign,
    ) -> Result<Course, StoreError> {
        let rules = setup.channels.get(&campaign.channel).map(|channel| channel.line.clone());
        let Some(rules) = rules.filter(|rules| !rules.is_free()) else { return Ok(Course::default()) };
        let doc = store.doc(Shelf::Line, Tenant::default(), campaign.channel.to_string()).await?;
        let line = doc.and_then(|doc| serde_json::from_str(&doc.leaf.body).ok());
        Ok(Course { rules, line: line.unwrap_or_default() })
    }

    /// When everybody will have been reached.
    pub(crate) fn eta(&self, campaign: &Campaign, now: Time) -> Option<Time> {
        campaign.eta(Some(&self.rules), now).filter(|at| *at < Time::MAX)
    }

    /// When its next message may set out, given that nothing happens until then; none if nobody can say.
    pub(crate) fn next_send(&self, campaign: &Campaign, now: Time) -> Option<Time> {
        let mut at = now;
        for _ in 0..GATES {
            let gates = [campaign.gate(at), self.line.gate(&self.rules, at)];
            let shut = gates.into_iter().filter_map(|gate| match gate {
                Gate::Shut { until } => Some(until),
                Gate::Open | Gate::Flow(_) | Gate::Probe => None,
            });
            match shut.collect::<Option<Vec<Time>>>()?.into_iter().max() {
                None => return Some(at),
                Some(until) if until == Time::MAX => return None,
                Some(until) => at = until,
            }
        }
        None
    }
}

/// The channels of several campaigns, each looked at once.
#[derive(Debug, Default)]
pub(crate) struct Courses(BTreeMap<ChannelName, Course>);

impl Courses {
    pub(crate) async fn of(
        &mut self,
        store: &dyn Store,
        setup: &Setup,
        campaign: &Campaign,
    ) -> Result<&Course, StoreError> {
        if !self.0.contains_key(&campaign.channel) {
            self.0.insert(campaign.channel.clone(), Course::of(store, setup, campaign).await?);
        }
        Ok(&self.0[&campaign.channel])
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
    let course = Course::of(store, setup, campaign).await?;
    Ok(CampaignView::of(id, campaign, &course, now))
}

impl CampaignView {
    pub(crate) fn of(id: &str, campaign: &Campaign, course: &Course, now: Time) -> CampaignView {
        let (mut reason, mut note, mut start_at, mut finished) = (None, None, None, None);
        match &campaign.state {
            State::Draft | State::Running { .. } => {}
            State::Scheduled { start_at: at } => start_at = Some(*at),
            State::Paused { reason: why, note: said, .. } => {
                (reason, note) = (Some(*why), Some(said.clone()).filter(|said| !said.is_empty()));
            }
            State::Completed { finished_at } | State::Cancelled { finished_at, .. } => {
                finished = Some(*finished_at);
            }
        }
        let sends = matches!(campaign.state, State::Running { .. }) && campaign.roll.left() > 0;
        let next = sends.then(|| course.next_send(campaign, now)).flatten();
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
            rate_per_hour: rate_per_hour(campaign),
            eta: course.eta(campaign, now),
            next_send_at: next,
            in_flight: campaign.flight.is_some(),
            created_at: campaign.created_at,
            created_by: campaign.created_by.0.clone(),
            started_at: campaign.started_at,
            finished_at: finished,
        }
    }
}

/// To a tenth.
#[allow(clippy::cast_precision_loss)]
fn rate_per_hour(campaign: &Campaign) -> Option<f64> {
    let (ends, used) = (campaign.run.ends, campaign.run.used.seconds());
    (ends > 0 && used > 0.0).then(|| (ends as f64 * 36_000.0 / used).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(window: &str, now: Time) -> Campaign {
        let place = ("mail".parse().unwrap(), LaneName::default());
        let template = ("greeting".parse().unwrap(), 1);
        let mut campaign = Campaign::new("Check-ups".into(), place, template, Actor("test".into()), now);
        campaign.window = serde_json::from_str(window).unwrap();
        campaign.enlisted(3, 0, 0);
        campaign.start(now).unwrap();
        campaign
    }

    #[test] // REQ BK-7
    fn the_next_send_is_when_pace_hours_and_line_allow_it_together() {
        let evening: Time = "2026-06-01T19:59:50Z".parse().unwrap();
        let hours = r#"{"hours": "08:00-20:00", "time_zone": "UTC"}"#;
        let mut campaign = running(hours, evening);
        let free = Course::default();
        assert_eq!(free.next_send(&campaign, evening), Some(evening));
        // Its wait ends when its hours are over.
        campaign.free_at = evening + Span::from_secs(15);
        let morning: Time = "2026-06-02T08:00:00Z".parse().unwrap();
        assert_eq!(free.next_send(&campaign, evening), Some(morning));
        let window = serde_json::from_str(r#"{"hours": "09:00-10:00", "time_zone": "UTC"}"#).unwrap();
        let rules = LineRules { window: Some(window), ..LineRules::default() };
        let narrow = Course { rules, line: Line::default() };
        assert_eq!(narrow.next_send(&campaign, evening), Some("2026-06-02T09:00:00Z".parse().unwrap()));
        // Hours that never meet.
        let nights = running(r#"{"hours": "20:00-21:00", "time_zone": "UTC"}"#, evening);
        assert_eq!(narrow.next_send(&nights, evening), None);
    }
}
