//! What was counted: of all time, or in a range, with figures against their targets.

mod range;

use std::collections::BTreeMap;

use axum::response::Response;
use pombo_kernel::campaign::StateName;
use pombo_kernel::kpi::share;
use pombo_kernel::name::ChannelName;
use pombo_kernel::time::Time;
use pombo_store::{Backlog, Counted};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::campaigns;
use super::page::Query;
use super::store::PauseView;
use crate::Door;
use crate::auth::Caller;
use crate::problem::Problem;
use crate::route::Call;
use crate::view;
pub(crate) use range::Step;
use range::{Asked, RangeView};

/// How often each thing happened, and how many messages wait or are being sent by now.
#[derive(Clone, Copy, Default)]
struct Counts {
    counts: [u64; Counted::ALL.len()],
    waiting: u64,
}

impl Counts {
    fn add(&mut self, what: Counted, count: u64) {
        if let Some(place) = Counted::ALL.iter().position(|known| *known == what) {
            self.counts[place] = self.counts[place].saturating_add(count);
        }
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counts = Counted::ALL.into_iter().map(Counted::as_str).zip(self.counts);
        serializer.collect_map(counts.chain([("waiting", self.waiting)]))
    }
}

impl JsonSchema for Counts {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Counts".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names = || Counted::ALL.into_iter().map(Counted::as_str).chain(["waiting"]);
        let count = json!({"type": "integer", "minimum": 0});
        let properties: Map<String, Value> = names().map(|name| (name.to_owned(), count.clone())).collect();
        let required: Vec<&str> = names().collect();
        json_schema!({"type": "object", "properties": properties, "required": required})
    }
}

/// What was counted, of all time or, if one is asked for, in a range.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Stats")]
pub(crate) struct StatsView {
    total: Counts,
    channels: BTreeMap<String, Counts>,
    /// What waits by now, by lane and channel.
    backlog: Vec<LaneView>,
    /// Why nothing is sent, if nothing is.
    paused: Option<PauseView>,
    #[serde(flatten)]
    range: Option<RangeView>,
    /// How far a campaign is, if one is asked for. It counts for itself, from its beginning on.
    #[serde(skip_serializing_if = "Option::is_none")]
    campaign: Option<CampaignView>,
}

/// How much of a lane and a channel waits.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Backlog")]
struct LaneView {
    lane: String,
    channel: String,
    /// Messages that have not ended, those that are being sent among them.
    waiting: u64,
    /// Messages that could have gone by now, as far as a thousand; none of campaigns, which go at their own pace.
    past_due: u64,
    /// When the one that has waited longest of these was due.
    oldest_due: Option<Time>,
}

/// What has become of a campaign's recipients.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CampaignStats")]
struct CampaignView {
    id: String,
    name: String,
    state: StateName,
    recipients: u64,
    pending: u64,
    queued: u64,
    sent: u64,
    failed: u64,
    cancelled: u64,
    suppressed: u64,
    /// Sent of those that were sent or failed.
    delivery_rate: Option<f64>,
}

const NAMES: [&str; 7] = ["since", "until", "step", "time_zone", "channel", "template", "campaign"];

/// What happened to the tenant's messages, by channel; in a range also over time, and how that is to be judged.
pub(crate) async fn stats(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, .. } = call;
    let (door, caller) = (&door, &caller);
    let mut query = Query::read(&head.uri, &NAMES)?;
    let campaign = query.take("campaign", |id| Ok(id.to_owned()));
    let asked = Asked::read(&mut query, door.now());
    query.end()?;
    let sees = |channel: &ChannelName| {
        caller.sees(channel)
            && asked.as_ref().and_then(|asked| asked.channel.as_ref()).is_none_or(|only| only == channel)
    };
    let mut document = StatsView {
        total: Counts::default(),
        channels: BTreeMap::new(),
        backlog: Vec::new(),
        paused: None,
        range: None,
        campaign: match campaign {
            Some(id) => Some(campaign_view(door, caller, &id).await?),
            None => None,
        },
    };
    match &asked {
        None => {
            for tally in door.store().tallies().await? {
                if tally.tenant == caller.tenant && sees(&tally.channel) {
                    document.add(&tally.channel, tally.what, tally.count);
                }
            }
        }
        Some(asked) => {
            let mut measured = door.store().stats(asked.wanted(caller.tenant.clone())).await?;
            let whole = caller.channels.is_none() && asked.channel.is_none();
            measured.retain(|it| it.channel.as_ref().map_or(whole, &sees));
            for it in measured.iter().filter(|it| asked.has(it.hour)) {
                if let (Some(channel), Ok(count)) = (&it.channel, u64::try_from(it.count)) {
                    let what = asked.counts_as(it);
                    what.into_iter().for_each(|what| document.add(channel, what, count));
                }
            }
            document.range = Some(RangeView::of(asked, &measured, &door.setup()));
        }
    }
    document.paused = door.store().paused().await?.map(PauseView::from);
    for lane in door.store().backlog(door.now()).await? {
        if lane.tenant == caller.tenant && sees(&lane.channel) {
            document.wait(lane);
        }
    }
    view::ok(&document)
}

impl StatsView {
    fn add(&mut self, channel: &ChannelName, what: Counted, count: u64) {
        self.total.add(what, count);
        self.channels.entry(channel.as_str().to_owned()).or_default().add(what, count);
    }

    fn wait(&mut self, lane: Backlog) {
        let Backlog { lane, channel, waiting, past_due, oldest_due, .. } = lane;
        let [lane, channel] = [lane.as_str(), channel.as_str()].map(str::to_owned);
        self.total.waiting += waiting;
        self.channels.entry(channel.clone()).or_default().waiting += waiting;
        self.backlog.push(LaneView { lane, channel, waiting, past_due, oldest_due });
    }
}

async fn campaign_view(door: &Door, caller: &Caller, id: &str) -> Result<CampaignView, Problem> {
    let (doc, campaign) = campaigns::find(door, caller, id).await?;
    let roll = campaign.roll;
    Ok(CampaignView {
        id: doc.id,
        state: campaign.state.name(),
        name: campaign.name,
        recipients: roll.recipients,
        pending: roll.pending,
        queued: roll.queued,
        sent: roll.sent,
        failed: roll.failed,
        cancelled: roll.cancelled,
        suppressed: roll.suppressed,
        delivery_rate: share(roll.sent, roll.sent + roll.failed),
    })
}
